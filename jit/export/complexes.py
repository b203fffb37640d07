"""Complex numbers in ONNX, whose operators compute with real ones alone: pairs in a last dim of size 2.

Note [Pairs]
    A complex tensor of sizes (2, 3) is, in the model, a real one of sizes (2, 3, 2): inputs, outputs and constants too.
    Symbolics need not know. They write ONNX operators as for real numbers; those that are given a `Pairs` come here and
    are written over the pairs:

        %3 = Mul(%1, %2)            complex
        %3 = Concat(a * c - b * d, a * d + b * c)        for pairs (a, b) and (c, d), roughly

    Operators that have no such form are refused with the line that wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes

from .dims import Dim
from .proxies import OnnxProxy, Unsupported

if TYPE_CHECKING:
    from .builder import OnnxBuilder, OnnxCall


class Pairs(OnnxProxy):
    """A complex tensor that is held as `real`, its pairs."""

    def __init__(self, real: OnnxProxy, constant: Any = None) -> None:
        self._builder = real._builder
        self._value = real.value
        assert real.dtype is not None
        self.dtype = dtypes.complex_of(real.dtype)
        self.real = real
        self.constant = constant

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The sizes without that of the pairs."""
        return None if self.real.dims is None else self.real.dims[:-1]

    @dims.setter
    def dims(self, dims: tuple[Dim, ...] | None) -> None:
        self.real.dims = None if dims is None else (*dims, 2)

    @property
    def known_dims(self) -> tuple[Dim, ...] | None:
        """`dims`, inferred if they were not set."""
        known = self.real.known_dims
        return None if known is None else known[:-1]


def as_pairs(array: Any) -> Any:
    """A complex array as a real one with a last dim of size 2; others as they are."""
    array = np.asarray(array)
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], -1)


def is_complex(call: OnnxCall) -> bool:
    """Whether a call takes complex numbers, or casts to them."""
    wanted = call.attributes.get("to")
    return any(isinstance(x, Pairs) for x in call.inputs) or getattr(wanted, "is_complex", False)


def write(g: OnnxBuilder, call: OnnxCall) -> Any:
    """Write a call over pairs.

    Raises:
        Unsupported: ONNX cannot compute it.
    """
    form = FORMS.get(call.name)
    if form is None:
        raise Unsupported(
            f"{call.name} of complex numbers is nothing that ONNX computes; compute with their real and imaginary parts"
        )
    return form(g, call)


def pairs_of(g: OnnxBuilder, x: OnnxProxy) -> OnnxProxy:
    """The pairs of a complex tensor, or of a real one, whose imaginary parts are zero."""
    if isinstance(x, Pairs):
        return x.real
    wide = g.op("Unsqueeze", x, g.ints([-1]))
    return g.op("Concat", wide, g.op("Mul", wide, g.constant(0, like=wide)), axis=-1)


# -- forms of operators ------------------------------------------------------------------------------------------


def _parts(g: OnnxBuilder, x: OnnxProxy) -> tuple[OnnxProxy, OnnxProxy]:
    """The real and the imaginary parts, each in a last dim of size 1."""
    real = pairs_of(g, x)
    first, second = (g.op("Slice", real, g.ints([k]), g.ints([k + 1]), g.ints([-1])) for k in (0, 1))
    return first, second


def _joined(g: OnnxBuilder, real: OnnxProxy, imaginary: OnnxProxy) -> Pairs:
    return Pairs(g.op("Concat", real, imaginary, axis=-1))


def _alike(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    """Write an operator that treats both parts alike, broadcasting included."""
    operands = [None if x is None else pairs_of(g, x) for x in call.inputs]
    return Pairs(g.op(call.name, *operands, **call.attributes))


def _product(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    (a, b), (c, d) = (_parts(g, x) for x in call.inputs if x is not None)
    real = g.op("Sub", g.op("Mul", a, c), g.op("Mul", b, d))
    return _joined(g, real, g.op("Add", g.op("Mul", a, d), g.op("Mul", b, c)))


def _quotient(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    """x / y as x * conj(y) / |y|^2."""
    x, y = (x for x in call.inputs if x is not None)
    pair = pairs_of(g, y)
    turned = Pairs(g.op("Mul", pair, g.constant([1, -1], like=pair)))
    size = g.op("ReduceSumSquare", pair, g.ints([-1]), keepdims=1)
    return Pairs(g.op("Div", g.op("Mul", x, turned).real, size))


def _size(g: OnnxBuilder, call: OnnxCall) -> OnnxProxy:
    assert call.inputs[0] is not None
    found: OnnxProxy = g.op("ReduceL2", pairs_of(g, call.inputs[0]), g.ints([-1]), keepdims=0)
    return found


def _cast(g: OnnxBuilder, call: OnnxCall) -> OnnxProxy:
    x, to = call.inputs[0], call.attributes["to"]
    assert x is not None
    if not to.is_complex:
        return g.cast(g.op("Squeeze", _parts(g, x)[0], g.ints([-1])), to)
    part = dtypes.real_of(to)
    return Pairs(g.cast(x.real, part) if isinstance(x, Pairs) else pairs_of(g, g.cast(x, part)))


def _shape(g: OnnxBuilder, call: OnnxCall) -> OnnxProxy:
    """The sizes without that of the pairs."""
    assert isinstance(call.inputs[0], Pairs)
    shape: OnnxProxy = g.op("Slice", g.op("Shape", call.inputs[0].real), g.ints([0]), g.ints([-1]), g.ints([0]))
    return shape


def _sized(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    """Write Reshape or Expand with a last dim for the pairs."""
    x, shape = call.inputs
    assert isinstance(x, Pairs)
    return Pairs(g.op(call.name, x.real, g.op("Concat", shape, g.ints([2]), axis=0), **call.attributes))


def _transposed(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    x = call.inputs[0]
    assert isinstance(x, Pairs)
    perm = list(call.attributes.get("perm") or range(x.ndim)[::-1])
    return Pairs(g.op("Transpose", x.real, perm=[*perm, x.ndim]))


def _along(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    """Write Concat or Gather with its axis counted from the front."""
    pairs = [x for x in call.inputs if isinstance(x, Pairs)]
    axis = call.attributes.get("axis", 0) % pairs[0].ndim
    operands = [pairs_of(g, x) if isinstance(x, Pairs) else x for x in call.inputs]
    return Pairs(g.op(call.name, *operands, **{**call.attributes, "axis": axis}))


def _with_axes(position: int, added: bool = False) -> Callable[[OnnxBuilder, OnnxCall], Pairs]:
    """The form of operators whose input number `position` names axes, which are counted from the front."""

    def form(g: OnnxBuilder, call: OnnxCall) -> Pairs:
        x, *rest = call.inputs
        assert isinstance(x, Pairs)
        rest += [None] * (position - len(rest))
        rest[position - 1] = g.ints(_from_front(rest[position - 1], x.ndim, added))
        return Pairs(g.op(call.name, x.real, *rest, **call.attributes))

    return form


def _from_front(axes: OnnxProxy | None, ndim: int, added: bool) -> Sequence[int]:
    if axes is None:
        return range(ndim)
    if axes.constant is None:
        raise Unsupported("the dims of complex numbers that it names differ from run to run; name fixed ones")
    named = [int(axis) for axis in np.atleast_1d(axes.constant)]
    rank = ndim + len(named) if added else ndim
    return [axis % rank for axis in named]


def _padded(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    """Write Pad with no padding along the dim of the pairs; the others are padded with zeros only."""
    x, pads, value, *axes = call.inputs
    if not isinstance(x, Pairs) or pads is None or pads.constant is None or axes:
        raise Unsupported("complex numbers are padded by fixed amounts only")
    if value is not None and (value.constant is None or np.any(value.constant != 0)):
        raise Unsupported("complex numbers are padded with zeros only")
    before, behind = np.split(pads.constant, 2)
    return Pairs(g.op("Pad", x.real, g.ints([*before, 0, *behind, 0]), **call.attributes))


def _chosen(g: OnnxBuilder, call: OnnxCall) -> Pairs:
    condition, *sides = call.inputs
    wide = g.op("Unsqueeze", condition, g.ints([-1]))
    return Pairs(g.op("Where", wide, *(pairs_of(g, x) for x in sides if x is not None)))


FORMS: dict[str, Callable[[OnnxBuilder, OnnxCall], Any]] = {
    **dict.fromkeys(("Identity", "Neg", "Add", "Sub"), _alike),
    "Mul": _product, "Div": _quotient, "Abs": _size, "Cast": _cast, "Shape": _shape, "Where": _chosen,
    **dict.fromkeys(("Reshape", "Expand"), _sized),
    "Transpose": _transposed, "Pad": _padded,
    **dict.fromkeys(("Concat", "Gather"), _along),
    "Squeeze": _with_axes(1), "Unsqueeze": _with_axes(1, added=True), "Slice": _with_axes(3),
    "ReduceSum": _with_axes(1), "ReduceMean": _with_axes(1),
}  # fmt: skip
"""ONNX operator -> how it is written over pairs."""
