"""Questions of eager code to autograd: to remember how tensors were computed, and to say so later.

Tensors and operators know no node and no engine. They ask `autograd`, which `jit.autograd` sets when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jit.ir import Op

from .hooks import HookTable, RemovableHandle

if TYPE_CHECKING:
    from .tensors import Tensor, Variable


class Node(Protocol):
    """A step of the backward computation, as a tensor knows it: a `jit.autograd.nodes.Node`."""

    tensor_hooks: HookTable | None
    """Hooks on single outputs' gradients, as (output number, hook)."""

    entrance: Callable[[Any], Any] | None
    """Finds where the whole gradient arrives, for the node of a view that a recording has returned."""

    @property
    def name(self) -> str:
        """The name of the node: `AddBackward0`."""

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes to which the gradients of the inputs go, each with the number of its output."""

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever users want to note about this node."""

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Call `hook(gradients of inputs, gradients of outputs)` after this node."""

    def register_prehook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call `hook(gradients of outputs)` before this node."""

    def retain(self, tensor: Tensor) -> None:
        """Keep the gradient of `tensor`, one of the outputs, in its `.grad`."""

    def whole(self, index: int) -> tuple[Any, int]:
        """The edge at which the whole gradient of output `index` arrives."""


class Autograd(Protocol):
    """The histories of tensors; `jit.autograd.attaching` keeps them."""

    def attach(self, op: Op, values: Sequence[Any], outputs: Sequence[Tensor]) -> Any:
        """Give `outputs` the history `op(values)` if any argument wants a gradient."""

    def begin_write(self, op: Op, values: Sequence[Any]) -> Any:
        """The node of `op`, whose result will be written over its first argument; None if it has no gradient."""

    def end_write(self, target: Tensor, node: Any) -> None:
        """Let a node of `begin_write` be the history of `target`, which has been written to."""

    def view_history(self, view: Variable) -> None:
        """Derive the history of `view` from its base's, which an in-place operation has changed."""

    def stale_requires_grad(self, view: Variable) -> bool:
        """Whether a view whose memory was written to requires grad."""


autograd: Autograd
