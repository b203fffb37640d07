"""The graph that autograd records, for those who look at it: its nodes, edges, and what is saved along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from types import TracebackType
from typing import Any

from jit.ir.errors import AutogradError, TraceError, UsageError

from .. import context
from ..hooks import RemovableHandle
from ..tensors import Tensor
from .engine import queue_callback
from .nodes import Edge as GradientEdge
from .nodes import Node, edge_of


class saved_tensors_hooks:  # noqa: N801 - users call it like a function
    """Within this block, what is saved for backward is put away by `pack`, and brought back by `unpack` when needed.

    Calls of traced functions in the block run eagerly, since recordings save other things; inside a traced function the
    block is an error. `jit.checkpoint` saves memory there.

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
        self._tokens.append(context.SAVING.set(self._hooks))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        context.SAVING.reset(self._tokens.pop())


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` goes: a node and the number of its output; `jit.grad` takes it for an input.

    Raises:
        AutogradError: The tensor does not require grad.
    """
    edge = edge_of(tensor)
    if edge is None:
        raise AutogradError(
            "this tensor does not require grad, so its gradient goes nowhere; call requires_grad_() on it"
        )
    return edge


def register_multi_grad_hook(tensors: Sequence[Tensor], hook: Callable[[Sequence[Tensor | None]], None]) -> Handles:
    """Call `hook(gradients)` when the gradients of all `tensors` have come in a backward that reaches all of them.

    Args:
        tensors: Those to wait for; each requires grad.
        hook: Gets one gradient per tensor.

    Returns:
        A handle whose `remove()` takes the hook away.
    """
    if not tensors:
        raise UsageError("register_multi_grad_hook() needs a tensor to wait for")
    arrived: dict[int, Tensor] = {}

    def note(index: int) -> Callable[[Tensor], None]:
        def seen(gradient: Tensor) -> None:
            if not arrived:  # what this backward does not reach must not wait for the next one
                queue_callback(arrived.clear)
            arrived[index] = gradient
            if len(arrived) == len(tensors):
                found = [arrived[i] for i in range(len(tensors))]
                arrived.clear()
                hook(found)

        return seen

    return Handles([tensor.register_hook(note(index)) for index, tensor in enumerate(tensors)])


class Handles:
    """Several handles as one."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Take all hooks away."""
        for handle in self._handles:
            handle.remove()


__all__ = ["GradientEdge", "Node", "get_gradient_edge", "register_multi_grad_hook", "saved_tensors_hooks"]
