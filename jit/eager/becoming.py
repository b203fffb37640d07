"""An object that becomes another view of its memory: what `t_()`, `squeeze_()`, `resize_()` and their like do."""

from __future__ import annotations

from jit.runtime.arrays.arrays import restrided

from . import context
from .effects import note_write
from .tensors import HISTORY, Tensor, Variable, alias


def past_of(tensor: Tensor) -> Tensor:
    """Another object for what `tensor` is now, its history included: `tensor` may become a view of it."""
    before = alias(tensor, Variable if isinstance(tensor, Variable) else Tensor)
    for slot in HISTORY:
        setattr(before, slot, getattr(tensor, slot))
    return before


def become(tensor: Tensor, view: Tensor) -> None:
    """Let `tensor` be what `view` is. A leaf that requires grad stays one: gradients end at it in its new sizes."""
    stays_leaf = tensor._requires_grad and view.grad_fn is None
    if not isinstance(tensor, type(view)):
        tensor.__class__ = type(view)
    tensor._array = view._array
    for slot in HISTORY:
        setattr(tensor, slot, getattr(view, slot))
    if stays_leaf:
        tensor._requires_grad, tensor._viewed, tensor._path = True, None, ()


def restride(tensor: Tensor, sizes: tuple[int, ...]) -> None:
    """Let `tensor` take these sizes: over the same memory where it suffices, else over a longer copy of it."""
    trace = context.TRACE.get()
    if trace is not None:
        trace.resize(tensor, sizes)
        return
    note_write(tensor)
    tensor._array = restrided(tensor._defined(), sizes)
    tensor._storage.written()
