"""Runs the autograd graph backwards: iteratively, later operations first, gradients added in a fixed order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from jit.ir.errors import AutogradError, ShapeError

from .. import context
from ..tensors import Tensor
from .nodes import AccumulateGrad, Edge, Node, edge_of

Buffers = dict[Node, list["Tensor | None"]]


class Task:
    """One call of `backward` or `grad`."""

    def __init__(self, roots: Sequence[Edge], inputs: Sequence[Edge] | None, keep: bool, within: bool = False) -> None:
        self.asked: dict[Node, list[Edge]] = {}
        """The edges whose gradients are asked for, by the nodes that they lead to."""
        for edge in inputs or ():
            self.asked.setdefault(edge.node, []).append(edge)
        self.keep = keep
        self.found: dict[Edge, Tensor | None] = {}
        self.barrier = set(self.asked) if within else set()
        """Nodes behind which nothing is to be run."""
        self.pending = _dependencies([edge.node for edge in roots], self.barrier)
        """How many gradients each node still waits for."""
        self.wanted = None if inputs is None else _leading_to(self.pending, set(self.asked))
        """The nodes worth running: those on a path to an input; None: all."""
        self.buffers: Buffers = {}
        self.ready: list[tuple[int, Node]] = []

    def run(self, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
        """Push `gradients` in at `roots` and work until nothing is left."""
        for edge, gradient in zip(roots, gradients, strict=True):
            self._add(edge, gradient)
        for node in dict.fromkeys(edge.node for edge in roots):
            if self.pending[node] == 0:
                heapq.heappush(self.ready, (-node.serial, node))
        while self.ready:
            _, node = heapq.heappop(self.ready)
            self._step(node)

    def _step(self, node: Node) -> None:
        gradients = self.buffers.pop(node, [None] * node.outputs)
        if node not in self.barrier:  # its hooks run when somebody goes on from there
            _run_pre_hooks(node, gradients)
        for edge in self.asked.get(node, ()):
            self.found[edge] = gradients[edge.index]
        if context.TRACE.get() is None:
            self._go_on(node, gradients)
            return
        token = context.SOURCE.set(node.source or context.SOURCE.get())
        try:
            self._go_on(node, gradients)
        finally:
            context.SOURCE.reset(token)

    def _go_on(self, node: Node, gradients: list[Tensor | None]) -> None:
        """Run a node and hand its results on. What a trace records then belongs to the line of the operator."""
        results = self._apply(node, gradients)
        if node in self.barrier:
            return
        for edge, result in zip(node.edges, results, strict=True):
            if edge is None:
                continue
            if result is not None:
                self._add(edge, result)
            self.pending[edge.node] -= 1
            if self.pending[edge.node] == 0:
                heapq.heappush(self.ready, (-edge.node.serial, edge.node))

    def _apply(self, node: Node, gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        nothing: Sequence[Tensor | None] = [None] * len(node.edges)
        if all(g is None for g in gradients):
            return nothing
        if self.wanted is None:
            needs = [edge is not None for edge in node.edges]
        elif node not in self.wanted or node in self.barrier or isinstance(node, AccumulateGrad):
            return nothing
        else:
            needs = [edge is not None and edge.node in self.wanted for edge in node.edges]
            if not any(needs):
                return nothing
        trace = context.TRACE.get()
        if trace is not None:
            trace.check_inside(node)
        results = node.apply(gradients, needs)
        if not self.keep:
            node.release()
        for hook in node.hooks:
            replaced = hook(results, gradients)
            results = results if replaced is None else replaced
        return results

    def _add(self, edge: Edge, gradient: Tensor) -> None:
        slots = self.buffers.get(edge.node)
        if slots is None:
            slots = self.buffers[edge.node] = [None] * edge.node.outputs
        have = slots[edge.index]
        slots[edge.index] = gradient if have is None else have + gradient


def _run_pre_hooks(node: Node, gradients: list[Tensor | None]) -> None:
    for index, hook in list(node.pre_hooks):
        gradient = gradients[index]
        if gradient is not None:
            replaced = hook(gradient)
            gradients[index] = gradient if replaced is None else replaced


def _dependencies(roots: Sequence[Node], barrier: set[Node]) -> dict[Node, int]:
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


def run_backward(
    outputs: Sequence[Any], gradients: Sequence[Any], inputs: Sequence[Any] | None, retain_graph: bool,
    create_graph: bool,
    within: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Differentiate `outputs`, weighted by `gradients`; returns the gradients of `inputs`, or accumulates into leaves.

    Inputs are tensors or edges; `within` says that nothing behind them is to be run.
    """
    roots, weights = [], []
    for output, gradient in zip(outputs, gradients, strict=True):
        edge = edge_of(output)
        if edge is None:
            raise AutogradError(
                "this tensor does not require grad and has no grad_fn, so there is nothing to differentiate"
            )
        roots.append(edge)
        weights.append(_initial(output, gradient))
    edges = None if inputs is None else [_input_edge(i, t) for i, t in enumerate(inputs)]
    task = Task(roots, edges, retain_graph, within)
    token = context.GRAD_ENABLED.set(create_graph)
    try:
        task.run(roots, weights)
    finally:
        context.GRAD_ENABLED.reset(token)
    return [] if edges is None else [task.found.get(edge) for edge in edges]


def _input_edge(index: int, tensor: Any) -> Edge:
    edge = tensor if isinstance(tensor, Edge) else edge_of(tensor)
    if edge is None:
        raise AutogradError(
            f"input {index} of grad does not require grad; call .requires_grad_() on it before using it"
        )
    return edge


def _initial(output: Tensor, gradient: Any) -> Tensor:
    from ..functions import F

    if gradient is None:
        if output._array.size != 1:
            raise AutogradError(
                f"a gradient can be made up for a single number only, and this output has sizes "
                f"{list(output._array.shape)}; "
                "pass the gradient, or reduce the output first"
            )
        return F.ones_like(output)
    if gradient._array.shape != output._array.shape:
        raise ShapeError(f"a gradient of sizes {list(gradient.shape)} was given for an output of {list(output.shape)}")
    return gradient
