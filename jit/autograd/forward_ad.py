"""Forward derivatives: dual tensors carry a direction, and what is computed of them has a derivative along it.

Note [Duals]
    There are no forward formulas of operators. A dual is a new tensor that requires grad, so what is computed of it has
    a graph. The derivative of a result along the directions is then found through that graph: gradients are linear in
    the weight of the result, so the gradient of (gradient times direction) by the weight is the product sought. What a
    Function with a `jvp` of its own returns is a dual, too: its direction is what `jvp` gives, and derivatives along
    directions end there, at an `End`, while gradients go on through `backward` (`jit/autograd/pushing.py`).

>>> import jit
>>> from jit.autograd import forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(jit.tensor([1.0, 2.0]), jit.tensor([1.0, 0.0]))
...     forward_ad.unpack_dual(x * x).tangent.tolist()
[2.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from jit.eager.context import GRAD_ENABLED, enable_grad
from jit.eager.namespace import F
from jit.eager.tensors import Tensor, variable_of
from jit.ir.errors import DTypeError, ShapeError, UsageError

from .differentiation import grad
from .nodes import AccumulateGrad, Edge, Node, edge_of, node_of

_DUALS: list[_Dual] = []
"""The duals of the open level."""
_ALONG: ContextVar[bool] = ContextVar("along_directions", default=False)
"""Whether a derivative along directions is being found, and no gradient."""
_current_level = -1
"""The number of the level that is open: 0, or -1 where none is."""


class UnpackedDualTensor(NamedTuple):
    """A dual in its two parts."""

    primal: Tensor
    """The numbers."""
    tangent: Tensor | None
    """The direction, or the derivative along it; None where there is none."""


class _Dual(NamedTuple):
    """The facts of a dual."""

    anchor: Any
    """A tensor with the history that it had at first."""
    direction: Tensor
    """The direction of it."""
    own_leaf: Tensor | None
    """The leaf that was made for it, if it has no other history."""


class End(Node):
    """A node at which derivatives along directions end; gradients pass it as they are.

    Args:
        edge: Where gradients go on.
    """

    def __init__(self, edge: Edge | None) -> None:
        super().__init__("EndBackward", [edge])

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """The gradients themselves, or nothing."""
        return [None] if _ALONG.get() else gradients


def is_open() -> bool:
    """Whether there are duals now."""
    return bool(_DUALS)


def note_dual(tensor: Any, direction: Tensor | None) -> None:
    """Let a tensor with a history be a dual from now on, or, without a direction, depend on none.

    Args:
        tensor: The tensor.
        direction: Its direction.
    """
    tensor.set_history(End(edge_of(tensor)))
    if direction is not None:
        anchor = variable_of(tensor._array, tensor._storage)
        anchor.set_history(tensor.grad_fn)
        _DUALS.append(_Dual(anchor, direction, None))


def enter_dual_level() -> int:
    """Open a level, in which there are duals; its number.

    Raises:
        UsageError: One is open.
    """
    global _current_level
    if _current_level >= 0:
        raise UsageError("there is one level of forward derivatives, and it is open; use jit.func.jvp to nest them")
    _current_level = 0
    return _current_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level; its duals are ordinary tensors from then on.

    Args:
        level: The number of the level; the open one if left out.

    Raises:
        UsageError: It is not open.
    """
    global _current_level
    if _current_level < 0 or level not in (None, _current_level):
        raise UsageError("this level of forward derivatives is not open; enter it first")
    _DUALS.clear()
    _current_level = -1


@contextmanager
def dual_level() -> Iterator[int]:
    """A block within which there are duals."""
    number = enter_dual_level()
    try:
        yield number
    finally:
        exit_dual_level(level=number)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with a direction, see Note [Duals]; it shares the memory of `tensor`.

    Args:
        tensor: The numbers.
        tangent: The direction, of the same sizes and dtype.
        level: The number of the level; the open one if left out.

    Raises:
        UsageError: No level is open, or no history is recorded.
        UsageError: The numbers have no derivatives.
        ShapeError: The direction has other sizes.
    """
    if _current_level < 0 or level not in (None, _current_level):
        raise UsageError("make_dual() needs an open level; put it into a block `with dual_level():`")
    if not GRAD_ENABLED.get():
        raise UsageError("what is computed of a dual under no_grad() has no tangent here; leave no_grad() out")
    for part in (tensor, tangent):
        if not (part.dtype.is_floating_point or part.dtype.is_complex):
            raise UsageError(f"numbers of {part.dtype} have no derivatives; convert them with .float()")
    if tangent.dtype is not tensor.dtype:
        raise DTypeError(f"the direction is of {tangent.dtype}, the numbers of {tensor.dtype}; make them of one dtype")
    if tangent.shape != tensor.shape:
        raise ShapeError(f"a direction of {list(tangent.shape)} does not fit numbers of {list(tensor.shape)}")
    if unpack_dual(tangent).tangent is not None:
        raise UsageError("the direction is a dual itself, and levels are not nested; give the tangent of unpack_dual()")
    with enable_grad():
        source = tensor if tensor.requires_grad else tensor.detach().requires_grad_()
        anchor = F.clone(source)
    dual = variable_of(tensor._array, tensor._storage)
    dual.set_history(anchor.grad_fn, anchor._output_nr)
    _DUALS.append(_Dual(anchor, tangent, None if source is tensor else source))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The numbers of a tensor, and its derivative along the directions of all duals.

    Args:
        tensor: A dual, or what was computed of duals.
        level: The number of the level; the open one if left out.
    """
    if _current_level < 0 or level not in (None, _current_level) or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    for dual in _DUALS:
        if dual.anchor.grad_fn is tensor.grad_fn:
            return UnpackedDualTensor(_without_duals(tensor), dual.direction)
    return UnpackedDualTensor(_without_duals(tensor), _derivative(tensor))


def _without_duals(tensor: Tensor) -> Tensor:
    """The numbers alone, with the history that they have besides that of duals."""
    plain = F.view_as(tensor.detach(), tensor)
    if not _has_other_leaves(tensor):
        return plain
    found = variable_of(plain._array, plain._storage)
    found.set_history(End(edge_of(tensor)))
    return found


def _has_other_leaves(tensor: Tensor) -> bool:
    """Whether a gradient of this tensor reaches a leaf that was not made for a dual."""
    own = {id(dual.own_leaf) for dual in _DUALS}
    stack = [node_of(tensor)]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad) and id(node.variable) not in own:
            return True
        for edge in node.edges if node is not None else ():
            if edge is not None and edge.node not in seen:
                seen.add(edge.node)
                stack.append(edge.node)
    return False


def _derivative(tensor: Tensor) -> Tensor | None:
    """The derivative of a result along the directions of the duals; None if it depends on none."""
    with enable_grad():
        weight = F.zeros_like(tensor.detach()).requires_grad_()
        known = [(row, dual.direction) for row, dual in zip(_rows(tensor, weight), _DUALS, strict=True)]
        known = [(row, direction) for row, direction in known if row is not None]
        if not known:
            return None
        linear = [(row, direction) for row, direction in known if row.requires_grad]
        if not linear:
            return F.zeros_like(tensor.detach())
        follows = any(direction.requires_grad for _, direction in linear) or _has_other_leaves(tensor)
        (found,) = grad(
            [row for row, _ in linear], [weight], [direction for _, direction in linear], create_graph=follows,
            retain_graph=True, allow_unused=True,
        )  # fmt: skip
    if found is None:
        return F.zeros_like(tensor.detach())
    shared = any(found._storage is dual.direction._storage for dual in _DUALS)
    return F.clone(found) if shared else found  # what is written to one of them must not change the other


def _rows(tensor: Tensor, weight: Tensor) -> Sequence[Any]:
    """The gradients of a weighted result by all duals; None for those on which it does not depend."""
    token = _ALONG.set(True)
    try:
        anchors = [dual.anchor for dual in _DUALS]
        return grad([tensor], anchors, [weight], create_graph=True, allow_unused=True)
    finally:
        _ALONG.reset(token)


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
