"""Rotated places of attention, `RotaryEmbedding`, found in the nodes that they are written with.

    Add(Mul(x, cos), Mul(Concat(Neg(x's second half), x's first half), sin))      ->  RotaryEmbedding(x, cos, sin)
    Concat(Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin)))          ->  the same, a and b the halves of x

Here x has the dims (batch, heads, length, width), and the tables are of angles by place and half of the width. In the
first form tables have the whole width, so that both halves have to be alike: constants are compared, and others have to
be made of `cat((angles, angles))`. Tables that are the same for all of the batch are those of a batch of one, which has
as many heads as x has in all.

Halves may also be the elements with even and with odd numbers, which `stack` and `flatten` bring together again; then
the rotation is an interleaved one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .peephole import Constant, Values, dims_of, numbers_of, used_nodes

if TYPE_CHECKING:
    import onnx_ir

NAME = "RotaryEmbedding"


class _Rotation(NamedTuple):
    x: onnx_ir.Value
    cos: onnx_ir.Value
    sin: onnx_ir.Value
    is_doubled: bool
    """Whether the tables have the width of x, both halves alike."""
    pairs: bool
    """Whether halves are the elements with even and with odd numbers."""


def join_rotations(
    nodes: Sequence[onnx_ir.Node], outputs: Values, constant: Constant, kinds: Sequence[int]
) -> list[onnx_ir.Node]:
    """The nodes with one for each rotation.

    Args:
        nodes: All nodes, in order.
        outputs: What they give.
        constant: The maker of constants.
        kinds: The numbers of the element types for which there is a kernel.
    """
    joining = _Joining(constant)
    written: list[onnx_ir.Node] = []
    for node in nodes:
        found = _rotation(node) if node.op_type in ("Add", "Concat", "Reshape") and not node.domain else None
        if found is not None and found.x.dtype is not None and found.x.dtype.value in kinds:
            written += joining.before(node, found)
        written.append(node)
    return used_nodes(written, outputs)


# -- finding -------------------------------------------------------------------------------------------------------


def _rotation(node: onnx_ir.Node) -> _Rotation | None:
    """The rotation that a node ends, if its tables are laid out for one."""
    found = _whole(node) if node.op_type == "Add" else _halved(node)
    if found is None:
        return None
    dims, width = dims_of(found.x), 2 - found.is_doubled
    if dims is None or len(dims) != 4 or type(dims[1]) is not int or type(dims[3]) is not int or dims[3] % 2:
        return None
    shapes = [dims_of(table) for table in (found.cos, found.sin)]
    wanted = [dims[2], dims[3] // width]
    fits = all(shape is not None and shape[-2:] == wanted and _leads(shape[:-2], dims[0]) for shape in shapes)
    same = fits and _padded(shapes[0]) == _padded(shapes[1])
    known = not found.is_doubled or all(_is_doubled(table, found.pairs) for table in (found.cos, found.sin))
    return found if same and known else None


def _leads(leading: Sequence[Any], batch: Any) -> bool:
    """Whether the leading dims of a table are those of a batch, and one for all heads."""
    return list(leading) in ([], [1], [1, 1], [batch, 1])


def _padded(shape: Sequence[Any] | None) -> list[Any]:
    assert shape is not None
    return [1] * (4 - len(shape)) + list(shape)


def _whole(node: onnx_ir.Node) -> _Rotation | None:
    """The first form."""
    for first, second in ((0, 1), (1, 0)):
        direct, turned = _product(node.inputs[first]), _product(node.inputs[second])
        if direct is None or turned is None:
            return None
        for at in (0, 1):
            found = _turned(turned[at])
            if found is not None and found[0] in direct:
                x, pairs = found
                return _Rotation(x, direct[1 - direct.index(x)], turned[1 - at], True, pairs)
    return None


def _turned(value: onnx_ir.Value) -> tuple[onnx_ir.Value, bool] | None:
    """The tensor of which a value has the second half, negative, before the first; and whether these are pairs."""
    parts, pairs = _joined(value)
    negative = _made_by(parts[0], "Neg") if parts else None
    if negative is None:
        return None
    second, first = _half(negative.inputs[0]), _half(parts[1])
    if second is None or first is None or second[0] is not first[0] or (second[2], first[2]) != (pairs, pairs):
        return None
    fits = not pairs or dims_of(value) == dims_of(first[0])
    return (first[0], pairs) if fits and (second[1], first[1]) == (1, 0) else None


def _joined(value: onnx_ir.Value) -> tuple[list[Any], bool]:
    """The two halves that are joined to a value, and whether their elements alternate; none if it is no such value."""
    join, pairs = _made_by(value, "Concat"), False
    if join is None and (reshape := _made_by(value, "Reshape")) is not None:
        join, pairs = _made_by(reshape.inputs[0], "Concat"), True
    if join is None or len(join.inputs) != 2 or not _is_last(join.attributes["axis"].as_int(), join.outputs[0]):
        return [], pairs
    if not pairs:
        return list(join.inputs), False
    stacked = [_made_by(each, "Unsqueeze") for each in join.inputs]
    is_stack = all(each is not None and numbers_of(each, 1) and _ends(each) for each in stacked)
    return [each.inputs[0] for each in stacked if each is not None] if is_stack else [], True


def _halved(node: onnx_ir.Node) -> _Rotation | None:
    """The second form."""
    parts, pairs = _joined(node.outputs[0])
    first, second = (_made_by(parts[0], "Sub"), _made_by(parts[1], "Add")) if parts else (None, None)
    if first is None or second is None:
        return None
    found = [part for part in map(_of_half, (*first.inputs, *second.inputs)) if part is not None and part[2] is pairs]
    if len(found) < 4 or (pairs and dims_of(node.outputs[0]) != dims_of(found[0][0])):
        return None
    (x, half, _, cos), (y, other, _, sin), *rest = found
    same = x is y and (half, other) == (0, 1) and {*rest} == {(x, 1, pairs, cos), (x, 0, pairs, sin)}
    return _Rotation(x, cos, sin, False, pairs) if same else None


def _of_half(value: onnx_ir.Value | None) -> tuple[onnx_ir.Value, int, bool, onnx_ir.Value] | None:
    """(x, which half, whether halves are pairs, a table), if a value is the product of the half and the table."""
    factors = _product(value) or []
    for factor, other in zip(factors, factors[::-1]):
        half = _half(factor)
        if half is not None:
            return (*half, other)
    return None


def _half(value: onnx_ir.Value | None) -> tuple[onnx_ir.Value, int, bool] | None:
    """The tensor of which a value is a half along the last dim, which half it is, and whether halves are pairs."""
    node = None if value is None else value.producer()
    x = node.inputs[0] if node is not None and not node.domain and node.inputs else None
    if value is None or node is None or x is None:
        return None
    dims, own = dims_of(x), dims_of(value)
    if not dims or not own or type(dims[-1]) is not int or type(own[-1]) is not int or own[-1] * 2 != dims[-1]:
        return None
    if node.op_type == "Split" and _is_last(node.attributes["axis"].as_int(), x):
        return (x, list(node.outputs).index(value), False) if len(node.outputs) == 2 else None
    return _slice(node, x, dims[-1]) if node.op_type == "Slice" else None


def _slice(node: onnx_ir.Node, x: onnx_ir.Value, width: int) -> tuple[onnx_ir.Value, int, bool] | None:
    """The half that a Slice takes, which has as many elements as a half."""
    starts, axes = numbers_of(node, 1), numbers_of(node, 3)
    steps = numbers_of(node, 4) if len(node.inputs) > 4 else [1]
    if starts is None or steps is None or axes is None or len(axes) != 1 or not _is_last(axes[0], x):
        return None
    begin = starts[0] % width
    if steps == [2]:
        return (x, begin, True) if begin in (0, 1) else None
    return (x, begin * 2 // width, False) if steps == [1] and begin * 2 in (0, width) else None


def _product(value: onnx_ir.Value | None) -> list[Any] | None:
    node = _made_by(value, "Mul")
    return None if node is None else list(node.inputs)


def _made_by(value: onnx_ir.Value | None, name: str) -> onnx_ir.Node | None:
    """The node that gives a value, if it is of that name."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == name and not node.domain else None


def _is_last(axis: int, value: onnx_ir.Value) -> bool:
    dims = dims_of(value)
    return axis == -1 or (dims is not None and axis == len(dims) - 1)


_ELEMENTWISE = frozenset({"Cos", "Sin", "Cast", "Neg", "Identity"})


def _is_doubled(value: onnx_ir.Value, pairs: bool) -> bool:
    """Whether the halves of a table along the last dim are alike."""
    if value.const_value is not None:
        array = value.const_value.numpy()
        first, second = (array[..., ::2], array[..., 1::2]) if pairs else np.split(array, 2, -1)
        return bool(np.array_equal(first, second))
    node = value.producer()
    if node is None or node.domain or node.inputs[0] is None:
        return False
    if node.op_type in ("Concat", "Reshape"):
        return _repeats(node, pairs)
    if node.op_type in ("Mul", "Div"):
        number = node.inputs[1].const_value if node.inputs[1] is not None else None
        return number is not None and number.size == 1 and _is_doubled(node.inputs[0], pairs)
    keeps = node.op_type in _ELEMENTWISE or (node.op_type == "Unsqueeze" and not _ends(node))
    return keeps and _is_doubled(node.inputs[0], pairs)


def _repeats(node: onnx_ir.Node, pairs: bool) -> bool:
    """Whether a node gives each element twice: one half after the other, or in pairs, as `repeat_interleave` does."""
    if not pairs:
        parts = list(node.inputs) if node.op_type == "Concat" else []
        return len(parts) == 2 and parts[0] is parts[1] and _is_last(node.attributes["axis"].as_int(), node.outputs[0])
    spread = _made_by(node.inputs[0], "Expand") if node.op_type == "Reshape" else None
    single = _made_by(spread.inputs[0], "Unsqueeze") if spread is not None else None
    if spread is None or single is None or not _ends(single) or single.inputs[0] is None:
        return False
    inner, wide, whole = dims_of(single.inputs[0]), dims_of(spread.outputs[0]), dims_of(node.outputs[0])
    return inner is not None and wide == [*inner, 2] and whole == [*inner[:-1], inner[-1] * 2]


def _ends(node: onnx_ir.Node) -> bool:
    """Whether an Unsqueeze makes the last dim, as far as is known."""
    axes = numbers_of(node, 1)
    return axes is None or any(_is_last(axis, node.outputs[0]) for axis in axes)


# -- writing -------------------------------------------------------------------------------------------------------


class _Joining:
    """Makes rotations, and each table once."""

    def __init__(self, constant: Constant) -> None:
        self.constant = constant
        self.tables: dict[onnx_ir.Value, onnx_ir.Value] = {}

    def before(self, node: onnx_ir.Node, found: _Rotation) -> list[onnx_ir.Node]:
        """Let a node end a rotation; the nodes that come before it."""
        dims = dims_of(found.x)
        assert dims is not None
        made = [*self._table(node, found, found.cos), *self._table(node, found, found.sin)]
        tables = [self.tables[found.cos], self.tables[found.sin]]
        is_own = _padded(dims_of(found.cos))[0] != 1 or dims[0] == 1
        x = found.x
        if not is_own:
            made.append(_node(node, "Reshape", [x, self.constant(np.array([1, -1, 0, 0]))]))
            made.append(_node(node, NAME, [made[-1].outputs[0], *tables]))
            made[-1].attributes.update(_attributes(found))
            operands = [made[-1].outputs[0], self.constant(np.array([-1, dims[1], 0, 0]))]
        else:
            operands = [x, *tables]
        node.op_type = NAME if is_own else "Reshape"
        node.attributes.clear()
        node.attributes.update(_attributes(found) if is_own else {})
        node.resize_inputs(len(operands))
        for index, value in enumerate(operands):
            node.replace_input_with(index, value)
        return made

    def _table(self, node: onnx_ir.Node, found: _Rotation, table: onnx_ir.Value) -> list[onnx_ir.Node]:
        """The nodes that make a table of (batch, length, half of the width)."""
        if table in self.tables:
            return []
        dims = dims_of(table)
        assert dims is not None
        half, step = (dims[-1] // 2, 1 + found.pairs) if found.is_doubled else (dims[-1], 1)
        batch = _padded(dims)[0]
        if table.const_value is not None:
            array = table.const_value.numpy()[..., : half * step : step]
            self.tables[table] = self.constant(np.ascontiguousarray(array.reshape(batch, -1, half)))
            return []
        made = []
        if found.is_doubled:
            numbers = [self.constant(np.array([number])) for number in (0, half * step, -1, step)]
            made.append(_node(node, "Slice", [table, *numbers]))
            table_half = made[-1].outputs[0]
        else:
            table_half = table
        sizes = [1, -1, half] if batch == 1 else [0, -1, half]
        made.append(_node(node, "Reshape", [table_half, self.constant(np.array(sizes))]))
        self.tables[table] = made[-1].outputs[0]
        return made


def _attributes(found: _Rotation) -> dict[str, onnx_ir.Attr]:
    import onnx_ir

    return {"interleaved": onnx_ir.AttrInt64("interleaved", 1)} if found.pairs else {}


def _node(like: onnx_ir.Node, name: str, inputs: Sequence[Any]) -> onnx_ir.Node:
    import onnx_ir

    made = onnx_ir.Node("", name, inputs, num_outputs=1, metadata_props=dict(like.metadata_props))
    made.outputs[0].type = like.outputs[0].type
    return made


__all__ = ["NAME", "join_rotations"]
