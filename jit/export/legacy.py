"""Operators at older opsets: calls that symbolics write in the newest form are brought to the form of the opset.

Most changes are of one kind: an attribute became an input. `INPUTS` lists those, and they are turned back if the input
is a constant. The others are functions in `REWRITES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.sizes import SizeExpr, bounds_of

from .proxies import OnnxProxy, Unsupported

if TYPE_CHECKING:
    from .builder import OnnxBuilder, OnnxCall

_REDUCTIONS = ("Max", "Min", "Mean", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")

INPUTS: dict[str, tuple[int, dict[int, str]]] = {
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}),
    "TopK": (10, {1: "k"}),
    "Clip": (11, {1: "min", 2: "max"}),
    "Pad": (11, {1: "pads", 2: "value"}),
    "Dropout": (12, {1: "ratio"}),
    "ReduceSum": (13, {1: "axes"}),
    "Split": (13, {1: "split"}),
    "Squeeze": (13, {1: "axes"}),
    "Unsqueeze": (13, {1: "axes"}),
    **{f"Reduce{name}": (18, {1: "axes"}) for name in _REDUCTIONS},
}
"""Operator -> the opset from which on some of its attributes are inputs, and which."""


def write(g: OnnxBuilder, call: OnnxCall) -> Any:
    """Write a call in the form that `g.opset` has: an OnnxProxy, or a tuple if the call has several outputs."""
    for rewrite in (_swap_inputs, _unwrap_axis):
        rewrite(g, call)
    found = REWRITES.get(call.name)
    made = found[1](g, call) if found and g.opset < found[0] else g.write(call)
    return made[0] if len(made) == 1 else made


def _swap_inputs(g: OnnxBuilder, call: OnnxCall) -> None:
    """Turn attributes that became inputs into inputs, or back, as the opset has them."""
    if call.name not in INPUTS:
        return
    since, names = INPUTS[call.name]
    for index, name in names.items():
        if g.opset >= since and name in call.attributes:
            call.inputs += [None] * (index + 1 - len(call.inputs))
            call.inputs[index] = _as_input(g, call, name)
        elif g.opset < since and index < len(call.inputs):
            _as_attribute(call, index, name, since)
    if g.opset < since:
        _drop_steps(call, since)
        call.inputs = [x for index, x in enumerate(call.inputs) if index not in names]


def _as_input(g: OnnxBuilder, call: OnnxCall, name: str) -> OnnxProxy:
    item = call.attributes.pop(name)
    return g.constant(item, like=call.inputs[0]) if name in ("min", "max", "value") else g.ints(item)


def _as_attribute(call: OnnxCall, index: int, name: str, since: int) -> None:
    given = call.inputs[index]
    if given is None:
        return
    if given.constant is None:
        raise Unsupported(f"{call.name} takes only a constant for {name} before opset {since}", since)
    found: Any = given.constant.tolist()
    call.attributes[name] = found[0] if name == "k" and isinstance(found, list) else found


def _drop_steps(call: OnnxCall, since: int) -> None:
    """Drop the steps of a Slice, which is only possible if all are 1."""
    if call.name != "Slice" or len(call.inputs) < 5 or call.inputs[4] is None:
        return
    steps = call.inputs[4].constant
    if steps is None or np.any(steps != 1):
        raise Unsupported(f"Slice has no steps before opset {since}", since)
    del call.inputs[4]


def _unwrap_axis(g: OnnxBuilder, call: OnnxCall) -> None:
    """Count dims from the front, the only way before opset 11."""
    first = call.inputs[0] if call.inputs else None
    if g.opset >= 11 or first is None:
        return
    for name in ("axis", "axes"):
        given = call.attributes.get(name)
        if given is None:
            continue
        dims = list(given) if isinstance(given, (list, tuple)) else [given]
        if all(dim >= 0 for dim in dims):
            continue
        rank = first.ndim + {"Unsqueeze": len(dims), "OneHot": 1}.get(call.name, 0)
        wrapped = [dim % rank for dim in dims]
        call.attributes[name] = wrapped if isinstance(given, (list, tuple)) else wrapped[0]


def _softmax(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """Before opset 13 a softmax ran over `axis` and all dims behind it: bring the dim to the end, and back."""
    x = call.inputs[0]
    assert x is not None
    last = x.ndim - 1
    dim = call.attributes.get("axis", -1) % max(x.ndim, 1)
    call.attributes["axis"] = max(last, 0)
    if x.ndim == 0:
        raise Unsupported(f"{call.name} takes no tensor without dims before opset 13", 13)
    if dim == last:
        return g.write(call)
    order = [last if d == dim else dim if d == last else d for d in range(x.ndim)]
    call.inputs[0] = g.op("Transpose", x, perm=order)
    return (g.op("Transpose", *g.write(call), perm=order),)


def _reshape(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """A size of 0 means no elements, as in ATen; for ONNX it means the input's size, unless told otherwise."""
    constant = _constant_sizes(g, call)
    if constant is not None:
        call.inputs[1] = g.ints(constant)
        return g.write(call)
    sizes = call.inputs[1].constant if len(call.inputs) > 1 and call.inputs[1] is not None else None
    if "allowzero" in call.attributes or sizes is None or not np.any(sizes == 0) or np.any(sizes == -1):
        return g.write(call)
    x = call.inputs[0]
    dims = x.known_dims if x is not None else None
    copied = dims is not None and all(i < len(dims) and dims[i] == 0 for i in np.flatnonzero(sizes == 0))
    if not copied:
        call.attributes["allowzero"] = 1
    return g.write(call)


def _constant_sizes(g: OnnxBuilder, call: OnnxCall) -> list[int] | None:
    """Sizes that vary as constants: 0 for the size that the input has in the same dim, and -1 for one more."""
    x, given = call.inputs
    sizes = g.sizes.lists.get(given.value) if given is not None else None
    dims = x.known_dims if x is not None else None
    if sizes is None or dims is None or any(type(size) is int and size == 0 for size in sizes):
        return None
    found = [_constant_size(size, dims[at] if at < len(dims) else None) for at, size in enumerate(sizes)]
    copied = [size for size, constant in zip(sizes, found) if constant == 0]
    if found.count(-1) > 1 or (-1 in found and any((bounds_of(size)[0] or 0) < 1 for size in copied)):
        return None  # what -1 stands for cannot be told where there are no elements
    return found


def _constant_size(size: int, dim: Any) -> int:
    if type(size) is int:
        return size
    return 0 if type(dim) is SizeExpr and str(dim) == str(size) else -1


def _shape(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """The shape of a tensor whose sizes are fixed is a constant."""
    x = call.inputs[0]
    dims = x.known_dims if x is not None else None
    if dims is None or call.attributes or not all(type(size) is int for size in dims):
        return g.write(call)
    return (g.ints(dims),)


def _or_equal(strict: str) -> Callable[[OnnxBuilder, OnnxCall], tuple[OnnxProxy, ...]]:
    """a >= b is a > b or a == b."""
    return lambda g, call: (g.op("Or", g.op(strict, *call.inputs), g.op("Equal", *call.inputs)),)


def _equal(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """Before opset 11 floats were not compared: a == b is not (a < b or a > b), and neither is NaN."""
    a, b = call.inputs
    assert a is not None and b is not None
    if a.dtype is None or not a.dtype.is_floating_point:
        return g.write(call)
    differ = g.op("Or", g.op("Less", a, b), g.op("Greater", a, b))
    unordered = g.op("Or", g.op("IsNaN", a), g.op("IsNaN", b))
    return (g.op("Not", g.op("Or", differ, unordered)),)


def _gemm(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """Give Gemm a 0 to add, which it needed before opset 11."""
    if len(call.inputs) < 3 or call.inputs[2] is None:
        call.inputs[2:] = [g.constant([0], like=call.inputs[0])]
    return g.write(call)


def _cast_like(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    x, like = call.inputs
    assert x is not None and like is not None
    if like.dtype is None:
        raise Unsupported("the element type to cast to is not known")
    return (g.cast(x, like.dtype),)


def _resize(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """Before opset 13 no input could be left out, and before 11 there were factors only, and one way to place them."""
    nothing = g.constant(np.zeros(0, np.float32))
    if g.opset >= 11:
        call.inputs = [nothing if x is None else x for x in call.inputs]
        return g.write(call)
    x, sizes = call.inputs[0], call.inputs[3] if len(call.inputs) > 3 else None
    assert x is not None
    factors = None if sizes is None else _whole_factors(x.known_dims, sizes.constant)
    placed = [call.attributes.pop(name, "") for name in ("coordinate_transformation_mode", "nearest_mode")]
    if factors is None or placed != ["asymmetric", "floor"]:
        raise Unsupported("before opset 11, only entries repeated a whole number of times can be resized", 11)
    call.name, call.inputs = ("Upsample" if g.opset < 10 else "Resize"), [x, g.constant(factors)]
    return g.write(call)


def _whole_factors(dims: Any, sizes: Any) -> Any:
    """The whole factors by which dims grow to sizes; None if there are none, or they are not known."""
    if dims is None or sizes is None or not all(type(size) is int and size for size in dims):
        return None
    factors = [int(size) // dim for dim, size in zip(dims, sizes, strict=True)]
    exact = all(dim * factor == size and factor for dim, factor, size in zip(dims, factors, sizes, strict=True))
    return np.array(factors, np.float32) if exact else None


def _range(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """Before opset 11: the places of as many ones."""
    start, limit, step = call.inputs
    assert start is not None and limit is not None and step is not None
    if step.constant is None or step.constant != 1 or start.dtype is not dtypes.int64:
        raise Unsupported("before opset 11, only whole numbers one after the other can be counted", 11)
    count = g.op("Reshape", g.op("Sub", limit, start), g.ints([1]))
    places = g.op("NonZero", g.op("ConstantOfShape", count, value=np.ones(1, np.int64)))
    return (g.op("Add", g.op("Reshape", places, g.ints([-1])), start),)


def _trilu(g: OnnxBuilder, call: OnnxCall) -> tuple[OnnxProxy, ...]:
    """Before opset 14: x where column - row is at least k, or at most, and 0 elsewhere."""
    x = call.inputs[0]
    assert x is not None
    k = g.constant(0) if len(call.inputs) < 2 or call.inputs[1] is None else call.inputs[1]
    column, row = (_counted(g, size) for size in x.shape[:-3:-1])
    beyond = g.op("Sub", column, g.op("Unsqueeze", g.op("Add", row, k), g.ints([1])))
    zero, upper = g.constant(0), call.attributes.get("upper", 1)
    outside = g.op("Less", beyond, zero) if upper else g.op("Less", zero, beyond)
    return (g.op("Where", outside, g.constant(0, like=x), x),)


def _counted(g: OnnxBuilder, size: Any) -> OnnxProxy:
    """0, 1, ... up to a size."""
    if type(size) is int:
        return g.constant(np.arange(size))
    found: OnnxProxy = g.op("Range", g.constant(0), g.constant(size), g.constant(1))
    return found


ALWAYS = 1000
"""An opset above all that there are, for rewrites that every one of them needs."""
REWRITES: dict[str, tuple[int, Callable[[OnnxBuilder, OnnxCall], tuple[OnnxProxy, ...]]]] = {
    "Equal": (11, _equal),
    "Range": (11, _range),
    "Gemm": (11, _gemm),
    "GreaterOrEqual": (12, _or_equal("Greater")),
    "LessOrEqual": (12, _or_equal("Less")),
    "Softmax": (13, _softmax),
    "LogSoftmax": (13, _softmax),
    "Resize": (13, _resize),
    "Trilu": (14, _trilu),
    "CastLike": (15, _cast_like),
    "Reshape": (ALWAYS, _reshape),
    "Shape": (ALWAYS, _shape),
}
"""Operator -> the opset from which on it needs no rewriting, and how before."""
