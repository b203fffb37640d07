"""Copies, fills, joins and placements: which steps they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.ir import Node, find, kernel_of
from jit.ir.dtypes import bool_
from jit.ir.geometry import Geometry
from jit.passes.support.spaces import told

from ..kernels import recipes
from . import homes
from .builder import StretchBuilder
from .places import ValuePlace


def arguments_of(node: Node) -> dict[str, Any]:
    """The node's arguments by name."""
    op = find(node.kind)
    assert op is not None
    values = op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})
    return dict(zip(op.schema.argument_names, values, strict=True))


def copy_to(lowering: StretchBuilder, node: Node, source: ValuePlace, target: ValuePlace) -> None:
    """Fill `target` with `source`, broadcast and cast."""
    expanded = ValuePlace(source.block, source.dtype, source.geometry.expand(target.geometry.sizes))
    dtype = target.dtype
    body = recipes.named(lambda m, a: m.cast(a, dtype), f"cast to {dtype.name}")
    lowering.pointwise(node, body, [expanded], target, "copy")


def lower_copy(lowering: StretchBuilder, node: Node) -> None:
    """Lower clone, copy and casts, which read their last operand."""
    copy_to(lowering, node, lowering.of(node.inputs[-1]), lowering.make(node.output))


def lower_fill(lowering: StretchBuilder, node: Node) -> None:
    """Lower zeros, ones and full, and those that are like a tensor."""
    _fill(lowering, node, lowering.make(node.output), _filling(node))


def lower_placement(lowering: StretchBuilder, node: Node) -> None:
    """Lower the gradient of a slice: zeros, then what it is given in its place."""
    target = lowering.make(node.output)
    dim, start, length, step, keeps = _told_by(node, "placed")
    part = target.geometry.window(dim, start, length, step)
    _fill(lowering, node, target, False if target.dtype is bool_ else 0)
    place = ValuePlace(target.block, target.dtype, part if keeps else part.drop((dim,)))
    copy_to(lowering, node, lowering.of(node.inputs[0]), place)


def _fill(lowering: StretchBuilder, node: Node, target: ValuePlace, value: Any) -> None:
    dtype = target.dtype
    recipe = f"fill {recipes.exact(value)} {dtype.name}" if type(value) in (bool, int, float) else None
    lowering.pointwise(node, recipes.named(lambda m: m.constant(value, dtype), recipe), [], target, "fill")


def _filling(node: Node) -> Any:
    number, dtype = _number(node), node.output.type.dtype  # type: ignore[attr-defined]
    return np.asarray(number).astype(dtype.numpy).item() if not dtype.is_half else float(number)


def _number(node: Node) -> Any:
    return _told_by(node, "fills")


def _told_by(node: Node, fact: str) -> Any:
    """The answer of a fact of an operator for a node."""
    function = getattr(kernel_of(node.kind), fact)
    assert function is not None
    return told(node, function)


def is_fill(node: Node) -> bool:
    """Whether what to fill with is a plain number."""
    return type(_number(node)) in (int, float, bool)


def lower_cat(lowering: StretchBuilder, node: Node) -> None:
    """Lower a `cat`: each operand is copied to its slice of the result, unless it is there already."""
    arguments = arguments_of(node)
    whole = consecutive([lowering.of(value) for value in arguments["tensors"]]) if arguments["dim"] == 0 else None
    if whole is not None and lowering.alias(node.output, whole):
        return
    target = lowering.places.get(node.output) or lowering.make(node.output)
    dim, start = arguments["dim"] % max(target.geometry.ndim, 1), 0
    for value in arguments["tensors"]:
        source = lowering.of(value)
        if source.geometry.sizes == (0,) and target.geometry.ndim != 1:
            continue
        length = source.geometry.sizes[dim]
        part = target.geometry.window(dim, start, length)
        there = source.block is target.block and homes.is_same(source.geometry, part)
        if not there:  # it may be a view of another part
            copy_to(lowering, node, source, ValuePlace(target.block, target.dtype, part))
        start += length


def consecutive(places: Sequence[ValuePlace]) -> ValuePlace | None:
    """Rows that lie one after the other in memory, as one place."""
    first = places[0]
    follow = all(follows(place, before) for before, place in itertools.pairwise(places))
    if not follow or not all(place.geometry.is_contiguous for place in places):
        return None
    rows = sum(place.geometry.sizes[0] for place in places)
    whole = Geometry.contiguous((rows, *first.geometry.sizes[1:]))
    return ValuePlace(first.block, first.dtype, whole._replace(offset=first.geometry.offset))


def follows(place: ValuePlace, before: ValuePlace) -> bool:
    """Whether the rows of a place begin where those of another, contiguous one end."""
    same = place.block is before.block and place.dtype is before.dtype
    here, there = place.geometry, before.geometry
    return same and here.sizes[1:] == there.sizes[1:] and here.offset == there.offset + there.numel
