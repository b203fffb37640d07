"""`Task`: what one backward has to do, has done, and waits for. The engine runs it, alone or shared among threads."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from jit.eager import context
from jit.eager.hooks import RecordedHook
from jit.eager.tensors import Tensor
from jit.eager.watch import resumed
from jit.ir.errors import AutogradError

from .anomaly import watched
from .nodes import AccumulateGrad, Edge, Node, OpNode, accumulate

Buffers = dict[Node, list["Tensor | None"]]


class Halted(BaseException):
    """Ends a task because the thread that waited for it has gone."""


class Task:
    """One call of `backward` or `grad`.

    Args:
        roots: The edges at which gradients come in.
        inputs: The edges whose gradients are returned; None for gradients that are added to `.grad` of leaves.
        keep: Whether nodes keep what they have saved.
        within: Whether the nodes of `inputs`, and all behind them, are left alone.
        accumulating: Whether leaves among `inputs` get their gradients added to `.grad` as well.
    """

    def __init__(
        self, roots: Sequence[Edge], inputs: Sequence[Edge] | None, keep: bool, within: bool = False,
        accumulating: bool = False,
    ) -> None:  # fmt: skip
        self.asked: dict[Node, list[Edge]] = {}
        """The edges whose gradients are asked for, by the nodes that they lead to."""
        for edge in inputs or ():
            self.asked.setdefault(edge.node, []).append(edge)
        self.keep = keep
        self.accumulating = inputs is None or accumulating
        """Whether leaves get their gradients added to `.grad`."""
        self.found: dict[Edge, Tensor | None] = {}
        self.barrier = set(self.asked) if within else set()
        """Nodes behind which nothing is to be run."""
        self.pending = dependencies([edge.node for edge in roots], self.barrier)
        """The number of gradients that each node which has not run still waits for."""
        self.wanted = None if inputs is None else _leading_to(self.pending, set(self.asked))
        """The nodes worth running: those on a path to an input; None: all."""
        self.buffers: Buffers = {}
        self.ready: list[tuple[int, Node]] = []
        self.light: set[Node] = set()
        """Nodes that were ready, and were found to have too little work for a thread of their own."""
        self.callbacks: list[Callable[[], Any]] = []
        """Functions to be called at the end."""
        outer: Task | None = context.BACKWARD.get()
        self.level: int = 0 if outer is None else outer.level + 1
        self._outermost: Task | None = None if outer is None else outer.root
        self.halt: list[bool] = [] if outer is None else outer.halt
        """A flag that nested tasks share: no longer empty once the thread that waits for the result has gone."""
        self.checked = context.ANOMALY.get()
        self.is_plain = inputs is None and self.checked is None
        """Whether nothing is to be noted of a node that has no hooks: its gradients go on at once, to leaves, too."""
        self.watch: Any = None
        """The hook that watches the calls of a function that is being recorded: it looks at the user's code alone."""

    @property
    def root(self) -> Task:
        """The outermost of the backwards that this one runs inside of; itself if it is that."""
        return self if self._outermost is None else self._outermost

    @cached_property
    def place(self) -> context.Place:
        """The place of the user's line that has called it, which all its gradients are added at."""
        return context.user_place(1)

    def reaches(self, node: Node, running: Node) -> bool:
        """Whether `node` is the one that runs now, or will be run."""
        if node is running:
            return True
        if node not in self.pending or (self.wanted is not None and node not in self.wanted):
            return False
        return not isinstance(node, AccumulateGrad) or self.wanted is None or node in self.asked

    def step(self, node: Node) -> None:
        """Run the next node. What a trace records then belongs to the line of its operator.

        Raises:
            Halted: The thread that waited for the result has gone.
        """
        if self.halt:
            raise Halted
        if context.TRACE.get() is None:
            self._go_on(node, self.is_plain)
            return
        with context.standing_at(node.source or context.SOURCE.get()):
            self._go_on(node, False)

    def _go_on(self, node: Node, is_plain: bool) -> None:
        """Run a node and hand its results on; `is_plain` if nobody looks at nodes that have no hooks."""
        pending = self.pending
        del pending[node]
        gradients = self.buffers.pop(node, None) or [None] * node.outputs
        if is_plain and type(node) is OpNode and not _is_hooked(node) and _is_any(gradients):
            results = node.apply(gradients, node.needs)
            if not self.keep and not node.is_inner:
                node.release()
        else:
            results = self.results_of(node, gradients)
        if node in self.barrier:
            return
        for edge, result in zip(node.edges, results, strict=True):
            if edge is None:
                continue
            if result is not None:
                self.add(edge, result)
            target = edge[0]
            pending[target] = left = pending[target] - 1
            if not left:
                self._make_ready(target, is_plain)

    def _make_ready(self, node: Node, is_plain: bool) -> None:
        """Let a node run in its turn; a leaf that nobody watches gets its gradient at once."""
        if is_plain and type(node) is AccumulateGrad and not _is_hooked(node) and not node.variable.__dict__:
            del self.pending[node]
            if node in self.buffers:
                node.apply(self.buffers.pop(node), ())
        elif type(node) is AccumulateGrad and not _is_hooked(node) and _is_sent(node.variable):
            self.step(node)
        else:
            heapq.heappush(self.ready, (-node.serial, node))

    def add(self, edge: Edge, gradient: Tensor) -> None:
        """Add a gradient to those that have come along `edge`."""
        node, index = edge
        slots = self.buffers.get(node)
        if slots is None:
            slots = self.buffers[node] = [None] * node.outputs
        have = slots[index]
        slots[index] = gradient if have is None else have + gradient

    def results_of(self, node: Node, gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradients of a node's inputs, given those of its outputs."""
        trace = context.TRACE.get()
        if node not in self.barrier:  # there hooks run in the backward that goes on from it
            if trace is not None and isinstance(node, AccumulateGrad):
                trace.check_hooks(node)
            if node.tensor_hooks:
                with resumed(self.watch):
                    _run_tensor_hooks(node, gradients)
            if node.retained is not None:
                _retain(node, gradients)
        for edge in self.asked.get(node, ()) if self.asked else ():
            self.found[edge] = gradients[edge.index]
        needs = self._needs(node, gradients)
        if needs is not None:
            if trace is not None:
                trace.check_inside(node)
            return self._apply(node, gradients, needs)
        if node.pre_hooks and self._is_last(node):
            for hook in list(node.pre_hooks.values()):
                with resumed(self.watch):
                    gradients = _replaced(node, gradients, hook(tuple(gradients)))
        return [None] * len(node.edges)

    def _is_last(self, node: Node) -> bool:
        """Whether `backward(inputs=...)` goes to this node of an operator, and no further."""
        return self.accumulating and self.wanted is not None and node in self.asked and node not in self.barrier

    def _apply(
        self, node: Node, gradients: list[Tensor | None], needs: Sequence[bool]
    ) -> Sequence[Tensor | None]:  # fmt: skip
        """Run a node between its hooks."""
        if self.watch is None or (type(node) is OpNode and not node.pre_hooks and not node.hooks):
            return self._run_with_hooks(node, gradients, needs)
        with resumed(self.watch):
            return self._run_with_hooks(node, gradients, needs)

    def _run_with_hooks(
        self, node: Node, gradients: list[Tensor | None], needs: Sequence[bool]
    ) -> Sequence[Tensor | None]:  # fmt: skip
        for hook in list(node.pre_hooks.values()) if node.pre_hooks else ():
            gradients = _replaced(node, gradients, hook(tuple(gradients)))
        if self.checked is None:
            results = node.apply(gradients, needs)
        else:
            results = watched(node, gradients, needs, self.checked)
        if not self.keep and not node.is_inner:
            node.release()
        for hook in list(node.hooks.values()) if node.hooks else ():
            results = _replaced(node, results, hook(tuple(results), tuple(gradients)))
        return results

    def _needs(self, node: Node, gradients: Sequence[Tensor | None]) -> Sequence[bool] | None:
        """A mask of the gradients that are wanted of a node; None if it has nothing to do."""
        if node in self.barrier or all([g is None for g in gradients]):
            return None
        if isinstance(node, AccumulateGrad):
            return () if self.accumulating and (self.wanted is None or node in self.asked) else None
        if self.wanted is None:
            return [edge is not None for edge in node.edges]
        needs = [edge is not None and edge.node in self.wanted for edge in node.edges]
        return needs if any(needs) else None


def _is_any(gradients: Sequence[Tensor | None]) -> bool:
    return gradients[0] is not None or any([g is not None for g in gradients])


def _is_sent(leaf: Tensor) -> bool:
    """Whether nobody but other processes waits for the gradient of a leaf: then it is not kept waiting.

    By its turn it may come last: its node is as old as the oldest graph that is still there, such as that of the loss
    of the step before.
    """
    table = leaf.__dict__.get("post_accumulate_hooks")
    if not table or leaf.__dict__.get("gradient_hooks"):
        return False
    return all(isinstance(hook, RecordedHook) for hook in table.values())


def _is_hooked(node: Node) -> bool:
    """Whether somebody wants to see the gradients of a node, hooks on a leaf aside."""
    if type(node) is AccumulateGrad:
        return node.pre_hooks is not None or node.hooks is not None or node.retained is not None
    return bool(node.tensor_hooks or node.pre_hooks or node.hooks or node.retained is not None)


# -- hooks -------------------------------------------------------------------------------------------------------


def _run_tensor_hooks(node: Node, gradients: list[Tensor | None]) -> None:
    assert node.tensor_hooks is not None
    for index, hook in list(node.tensor_hooks.values()):
        gradient = gradients[index]
        if gradient is not None:
            gradients[index] = _replacement(node, gradient, hook(gradient))
        elif type(node) is OpNode and any(g is not None for g in gradients):  # of other outputs
            hook(None)


def _replaced(node: Node, gradients: Sequence[Any], given: Any) -> Any:
    """Gradients after a hook on a node has returned `given`: None, a tensor for a single one, or one for each."""
    if given is None:
        return gradients
    many = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(many) != len(gradients):
        raise AutogradError(
            f"a hook on {node.name} returned {len(many)} gradients in the place of {len(gradients)}; return one for "
            "each, None for those that stay"
        )
    return [_replacement(node, old, new) for old, new in zip(gradients, many, strict=True)]


def _replacement(node: Node, old: Tensor | None, new: Any) -> Any:
    if new is None or old is None:
        return old if new is None else new
    if not isinstance(new, Tensor) or new._array is None or new._array.shape != old._array.shape:
        given = f"sizes {list(new._array.shape)}" if isinstance(new, Tensor) and new.defined else type(new).__name__
        raise AutogradError(
            f"a hook on a gradient of {node.name} (called at {node.source}) returned {given} instead of a tensor of "
            f"sizes {list(old._array.shape)}; return one of these sizes, or None to leave the gradient as it is"
        )
    return new


def _retain(node: Node, gradients: Sequence[Tensor | None]) -> None:
    """Keep gradients that were asked for with `retain_grad`."""
    assert node.retained is not None
    for index, reference in list(node.retained.items()):
        tensor, gradient = reference(), gradients[index]
        if tensor is not None and gradient is not None and tensor.grad_fn is node:
            accumulate(tensor, gradient, context.GRAD_ENABLED.get())


# -- the order ---------------------------------------------------------------------------------------------------


def dependencies(roots: Sequence[Node], barrier: set[Node]) -> dict[Node, int]:
    """Every node that can be reached without crossing the barrier, with the number of edges that lead to it."""
    counts: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(counts)
    while stack:
        node = stack.pop()
        for edge in () if node in barrier else node.edges:
            if edge is None:
                continue
            if edge.node not in counts:
                counts[edge.node] = 0
                stack.append(edge.node)
            counts[edge.node] += 1
    return counts


def _leading_to(nodes: dict[Node, int], targets: set[Node]) -> set[Node]:
    """The nodes from which one of `targets` can be reached, targets included."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for edge in node.edges:
            if edge is not None:
                users.setdefault(edge.node, []).append(node)
    reached = {node for node in targets if node in nodes}
    stack = list(reached)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in reached:
                reached.add(user)
                stack.append(user)
    return reached
