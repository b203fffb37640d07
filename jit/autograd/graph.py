"""The graph that autograd records, for programs that look at it: its nodes, its edges, and what is saved for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from jit.eager import context
from jit.eager.hooks import RemovableHandle
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import AutogradError, TraceError, UsageError

from .engine import queue_callback
from .nodes import Edge as GradientEdge
from .nodes import Node, edge_of

_REFUSED: ContextVar[str | None] = ContextVar("refused", default=None)
"""Why hooks for saved tensors are refused; None where they are not."""


class saved_tensors_hooks:  # noqa: N801 - users call it like a function
    """Within this block, what is saved for backward is put away by `pack`, and brought back by `unpack` when needed.

    Traced functions that are called in the block run eagerly, since recordings save other things. Inside a traced
    function the block is an error; `jit.checkpoint` saves memory there.

    Args:
        pack: Called with every tensor that is saved; returns anything. It must not write to the tensor.
        unpack: Called with what `pack` returned; gives the tensor back, or one that is equal to it.

    >>> import jit, pickle
    >>> x = jit.ones(3, requires_grad=True)
    >>> with jit.autograd.graph.saved_tensors_hooks(lambda t: pickle.dumps(t.numpy()),
    ...                                             lambda b: jit.from_numpy(pickle.loads(b))):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        self._hooks = pack, unpack
        self._tokens: list[Token[Any]] = []

    def __enter__(self) -> None:
        if context.TRACE.get() is not None:
            raise TraceError(
                f"saved_tensors_hooks() in a traced function (at {context.user_source()}): a recording decides itself "
                "what is saved; put the block around the call, which then runs eagerly, or use jit.checkpoint"
            )
        refused = _REFUSED.get()
        if refused is not None:
            raise AutogradError(refused)
        self._tokens.append(context.SAVING.set(self._hooks))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        context.SAVING.reset(self._tokens.pop())


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Within this block, what is saved for backward waits on the CPU.

    Args:
        pin_memory: Accepted; makes no difference.
        device_type: Accepted; tensors go back where they came from.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda kept: kept[1].to(kept[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within this block, `saved_tensors_hooks` are refused.

    Args:
        error_message: The text of the error.

    Raises:
        AutogradError: Hooks are in force already.
    """
    if context.SAVING.get() is not None:
        raise AutogradError(error_message)
    token = _REFUSED.set(error_message)
    try:
        yield
    finally:
        _REFUSED.reset(token)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Within this block, tensors that are saved for backward may be written to: copies of them are kept.

    >>> import jit
    >>> x = jit.ones(2, requires_grad=True)
    >>> with jit.autograd.graph.allow_mutation_on_saved_tensors():
    ...     factor = jit.full((2,), 3.0)
    ...     y = x * factor
    ...     factor.zero_()
    ...     y.sum().backward()
    tensor([0., 0.])
    >>> x.grad.tolist()
    [3.0, 3.0]

    Raises:
        AutogradError: Other hooks are in force, or a backward comes after the end of the block.
    """
    open_now = [True]

    def unpack(kept: Tensor) -> Tensor:
        if not open_now:
            raise AutogradError("this backward needs a copy that was kept in a block allow_mutation_on_saved_tensors()")
        return kept

    if context.SAVING.get() is not None:
        raise AutogradError("allow_mutation_on_saved_tensors() does not nest with other hooks; leave one of them out")
    with saved_tensors_hooks(F.clone, unpack):
        try:
            yield
        finally:
            open_now.clear()


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of the gradient of `tensor`: a node and the number of its output; `jit.grad` takes it for an input.

    Raises:
        AutogradError: The tensor does not require grad.
    """
    edge = edge_of(tensor)
    if edge is None:
        raise AutogradError(
            "this tensor does not require grad, so its gradient goes nowhere; call requires_grad_() on it"
        )
    return edge.node.whole(edge.index)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Note that tensors were written to in a way that nothing here has seen, so that a backward which needs what they
    held is an error.

    Args:
        tensor: A tensor, or several.
    """
    for each in [tensor] if isinstance(tensor, Tensor) else tensor:
        each._storage.written()


def register_multi_grad_hook(tensors: Sequence[Tensor], hook: Callable[[Any], None], *, mode: str = "all") -> Handles:
    """Call `hook` in each backward when the gradients of `tensors` have come.

    Args:
        tensors: The tensors to wait for; each requires grad.
        hook: Gets, with "all", a list of one gradient per tensor, None for those that this backward does not reach;
            with "any" the first gradient that comes.
        mode: "all" or "any".

    Returns:
        A handle whose `remove()` takes the hook away.

    Raises:
        UsageError: There are no tensors, or the mode is neither.
    """
    if not tensors:
        raise UsageError("register_multi_grad_hook() got no tensors; pass those whose gradients the hook waits for")
    if mode not in ("all", "any"):
        raise UsageError(f'register_multi_grad_hook: pass "all" or "any" as the mode, not {mode!r}')
    waiting: dict[Any, _Arrivals] = {}

    def note(index: int) -> Callable[[Tensor], None]:
        def seen(gradient: Tensor) -> None:
            task = context.BACKWARD.get()
            if task not in waiting:
                waiting[task] = _Arrivals(index, tensors)
                queue_callback(functools.partial(waiting.pop, task, None))
            arrivals = waiting[task]
            arrivals.gradients[index] = gradient
            arrivals.count += 1
            if arrivals.count == (arrivals.expected if mode == "all" else 1):
                hook(arrivals.gradients if mode == "all" else gradient)

        return seen

    return Handles([tensor.register_hook(note(index)) for index, tensor in enumerate(tensors)])


class _Arrivals:
    """The gradients that one backward has brought to some tensors, and how many it will bring."""

    def __init__(self, first: int, tensors: Sequence[Tensor]) -> None:
        task = context.BACKWARD.get()
        self.gradients: list[Tensor | None] = [None] * len(tensors)
        self.count = 0
        edges = [get_gradient_edge(tensor) for tensor in tensors]
        self.expected = sum(i == first or task.reaches(edge.node, edges[first].node) for i, edge in enumerate(edges))


class Handles:
    """Several handles as one."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Take all hooks away."""
        for handle in self._handles:
            handle.remove()


__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip
