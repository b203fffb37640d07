"""`Recorder`: what eager code tells its recorder, and asks it. There is one class of recorders, `Trace` in jit.tracing.

`jit.eager.context.TRACE` holds the recorder of the innermost traced function that runs; None most of the time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from jit.ir import Op, Value
from jit.ir.errors import Error

if TYPE_CHECKING:
    from .generators import Generator
    from .networks import Network
    from .proxies import TracedScalar
    from .tensors import Tensor


class Recorder(Protocol):
    """The recorder of the operators that run."""

    # -- what runs -----------------------------------------------------------------------------------------------

    def record(self, op: Op, values: Sequence[Any]) -> Any:
        """Run `op` and record it."""

    def record_inplace(self, op: Op, values: Sequence[Any]) -> Tensor:
        """Run `op` in place and record it."""

    def record_function(self, function: Any, args: Sequence[Any]) -> Any:
        """Run an autograd.Function and record it."""

    def record_native(self, op: Any, tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Record a call of a CppOp, which has just run."""

    def record_eval(self, node: Any, gradients: Sequence[Any], run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """Run the backward of an autograd.Function and record it; `handles` has its node."""

    @property
    def handles(self) -> Container[Any]:
        """The nodes of autograd.Functions that have been recorded, and have a backward."""

    def control_flow(
        self, kind: str, functions: Sequence[Any], inputs: Sequence[Any], carried: int = 0, scanned: int = 0,
        reverse: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Record control flow over functions of lists of tensors, and run it; see Note [Control flow] in `ir.control`.

        Args:
            kind: The kind of its node.
            functions: The branches, or the step; they get the inputs that are carried, and rows of those scanned.
            inputs: The predicate of a condition, or what is carried and then scanned.
            carried: The number of inputs that a step gives anew.
            scanned: The number of inputs along which it goes.
            reverse: Whether it begins with the last row.
        """

    def checkpointed(self) -> AbstractContextManager[None]:
        """A block whose nodes stand under a checkpoint of its own."""

    # -- what tensors hold ---------------------------------------------------------------------------------------

    def constant(self, tensor: Tensor, reason: str, foreign: bool = False) -> Value:
        """Take a tensor that was made from Python data as a constant."""

    def record_data(self, tensor: Tensor, data: Tensor) -> None:
        """Note that `data` is the tensor's memory under a version counter of its own."""

    def bind_copy(self, copy: Tensor, tensor: Tensor) -> None:
        """Note that `copy`, which no operator has recorded, holds what `tensor` holds now."""

    def is_inside(self, tensor: Tensor) -> bool:
        """Whether the function itself made this tensor."""

    def item(self, tensor: Tensor) -> Any:
        """The only element of a tensor as a traced number; None for a tensor that is not recorded."""

    def elements(self, tensor: Tensor) -> Any:
        """The result of `tolist()`, as traced numbers."""

    # -- how they lie --------------------------------------------------------------------------------------------

    def shape_of(self, tensor: Tensor) -> Any:
        """The sizes that the function gets; None for a tensor that is not recorded."""

    def meta_of(self, tensor: Tensor, plain: Any) -> Any:
        """The facts of a tensor that derivatives may want, of which `plain` are those of this call."""

    def own_strides(self, tensor: Tensor, plain: tuple[int, ...]) -> tuple[Any, ...]:
        """The strides of which `plain` are the numbers, for code of this package: traced where sizes make them."""

    def strides(self, tensor: Tensor, plain: tuple[int, ...], dim: int | None) -> Any:
        """The strides as the function gets them, or that of `dim`; their plain numbers are `plain`."""

    def base(self, tensor: Tensor) -> Tensor | None:
        """The tensor that `tensor` is a view of."""

    def fact(self, tensor: Tensor, name: str) -> Any:
        """The attribute `name` of this very object; a recording takes it for granted."""

    def note_offset(self, tensor: Tensor) -> None:
        """Note that the function has read where a tensor starts in its storage."""

    def decide_same(self, tensor: Tensor, sizes: Sequence[Any]) -> None:
        """Note that it is decided which sizes of a tensor are these."""

    def note_layout(self, tensor: Tensor) -> None:
        """Note that the function has read whether a tensor is contiguous."""

    def note_own_layout(self, tensor: Tensor) -> None:
        """Note that code of this package has read whether a tensor is contiguous."""

    def meet(self, tensor: Tensor) -> None:
        """Note that `tensor` is about to become a view of itself."""

    def note_reshaped(self, tensor: Tensor, before: Tensor) -> None:
        """Note that `tensor` becomes a view of `before`, an object for what it was."""

    def resize(self, tensor: Tensor, sizes: Sequence[Any]) -> None:
        """Give `tensor` other sizes in place."""

    # -- numbers -------------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> list[weakref.ref[TracedScalar]]:
        """The traced numbers that the function has got."""

    @property
    def printing(self) -> int:
        """The number of calls of `print` under way."""

    def reads_elements(self, value: Value) -> bool:
        """Whether a traced number was computed from elements of tensors."""

    def scalar_node(self, kind: str, operands: Sequence[Any], number: Any) -> TracedScalar:
        """Record a computation on numbers, whose outcome is `number`."""

    def guard(self, value: Value, outcome: Any) -> None:
        """Note that Python has decided on `value`, which is `outcome`."""

    def note_number(self, error: Exception, name: str, operands: Sequence[Any]) -> None:
        """Note that the arithmetic `name` on traced numbers has raised `error`."""

    # -- gradients -----------------------------------------------------------------------------------------------

    def gradient_of(self, tensor: Tensor) -> Tensor | None:
        """`tensor.grad`, as the function reads it."""

    def set_gradient(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """Let the function have `gradient` in `tensor.grad`."""

    def accumulate(self, tensor: Tensor, gradient: Tensor, differentiable: bool) -> None:
        """Add `gradient` to `tensor.grad`."""

    def note_hook(self, tensor: Tensor, hook: Callable[[Any], Any]) -> None:
        """Note that the function registers a hook on the gradient of `tensor`."""

    def check_hooks(self, node: Any) -> None:
        """Refuse (TraceError) a backward that ends at a leaf with hooks that are not part of the function."""

    def check_inside(self, node: Any) -> None:
        """Refuse (TraceError) a backward inside the function that goes on outside of it."""

    # -- what cannot be repeated ---------------------------------------------------------------------------------

    def note_impure(self, what: str) -> None:
        """Note that the function does `what`, which a recording cannot repeat."""

    def note_attribute(self, network: Network, name: str) -> None:
        """Note that an attribute of a network has been set."""

    def note_network(self, network: Network) -> None:
        """Note that a network is being made."""

    def note_state(self, generator: Generator, sets: bool) -> None:
        """Note that the function itself reads or sets the state of a generator."""

    def note_world(self) -> None:
        """Note that the function has asked whether processes work together."""

    def note_text(self) -> None:
        """Note that elements of a tensor become text."""

    def note_foreign(self, error: Exception, name: str) -> None:
        """Note that the foreign function `name` has raised `error`."""

    def forgive(self, error: Error) -> None:
        """Note that an error which has gone through the user's code was expected."""

    def refuse_escape(self, tensor: Tensor, what: str) -> None:
        """Refuse (TraceError) to show the function, by `what`, elements of a tensor that is recorded."""

    def refuse_change(self, tensor: Tensor, what: str) -> None:
        """Refuse (TraceError) to change, by `what`, anything but the elements of a tensor from outside."""
