"""Attention that a graph spells as products and a softmax, and its gradients; found from the last product backwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jit.ir import Node, TensorType, Value

from .spaces import argument

PRODUCTS = ("aten::bmm", "aten::mm")
SAFE = "aten::_safe_softmax"
SOFTMAXES = ("aten::softmax", SAFE)
_SOFTMAX_GRADIENT = "aten::_softmax_backward_data"
_REGROUPINGS = ("aten::view", "aten::reshape", "aten::unsqueeze", "aten::squeeze.dim", "aten::expand")
_TURNS = ("aten::transpose.int", "aten::permute", "aten::t")
_CAST = "aten::_to_copy"


@dataclass(frozen=True)
class Mask:
    """A mask, and its kind: it is "added" to scores, or says which keys are "seen", or "unseen"."""

    value: Value
    kind: str


@dataclass(frozen=True)
class WrittenAttention:
    """The parts of an attention that have been found on the way back from its last product."""

    result: Node
    """The product with the values."""
    scores: Node | None = None
    """The product of queries and keys."""
    softmax: Node | None = None
    between: tuple[Node, ...] = ()
    """The nodes between the two products, the last one first."""
    scale: float = 1.0
    masks: tuple[Mask, ...] = ()
    sizes: tuple[Any, ...] = ()
    """The sizes of the scores where masks join them."""


def sizes_of(value: Value) -> tuple[Any, ...]:
    """The sizes of a tensor; nothing where they are not known."""
    return (value.type.sizes or ()) if isinstance(value.type, TensorType) else ()


def written_attention(node: Node) -> WrittenAttention | None:
    """The attention of which a node is the last product; None if it is of none."""
    if node.kind not in PRODUCTS or not sizes_of(node.inputs[0]):
        return None
    found = _behind(node.inputs[0], WrittenAttention(node))
    if found is None or found.softmax is None:
        return None
    return found if found.sizes else replace(found, sizes=sizes_of(found.softmax.output))


def _behind(value: Value, part: WrittenAttention) -> WrittenAttention | None:
    """The attention whose weights, or scores, a value is."""
    node, rule = value.node, _RULES.get(value.node.kind)
    if node.stage != part.result.stage:
        return None
    if node.kind in PRODUCTS:
        return replace(part, scores=node) if part.softmax else None
    if rule is None:
        return None
    ways = (_behind(source, replace(way, between=(*part.between, node))) for source, way in rule(node, part))
    return next((found for found in ways if found is not None), None)


# -- what may stand between the products ---------------------------------------------------------------------------

Ways = Iterator[tuple[Value, WrittenAttention]]
"""The operands that scores may come from, each with what is known then."""


def _regrouped(node: Node, part: WrittenAttention) -> Ways:
    """A view that puts dims of the batch together or takes them apart."""
    if _regroups(node):
        yield node.inputs[0], part


def _regroups(node: Node) -> bool:
    before, after = sizes_of(node.inputs[0]), sizes_of(node.output)
    return before[-2:] == after[-2:] and math.prod(before) == math.prod(after)


def _cast(node: Node, part: WrittenAttention) -> Ways:
    if _is_cast(node):
        yield node.inputs[0], part


def _is_cast(node: Node) -> bool:
    types = node.inputs[0].type, node.output.type
    return all(isinstance(t, TensorType) and t.dtype is not None and t.dtype.is_floating_point for t in types)


def _softmaxed(node: Node, part: WrittenAttention) -> Ways:
    if part.softmax is None and argument(node, "dim") in (-1, len(sizes_of(node.output)) - 1):
        yield node.inputs[0], replace(part, softmax=node)


def _scaled(node: Node, part: WrittenAttention) -> Ways:
    factor = _factor(node)
    if part.softmax is not None and factor is not None:
        yield node.inputs[0], replace(part, scale=part.scale * factor)


def _factor(node: Node) -> float | None:
    """The number that a node multiplies a tensor by."""
    number = argument(node, "other")
    if len(node.inputs) != 1 or type(number) not in (int, float) or number == 0 or not math.isfinite(number):
        return None
    return number if node.kind == "aten::mul" else 1 / number if argument(node, "rounding_mode") is None else None


def _biased(node: Node, part: WrittenAttention) -> Ways:
    """Both operands may be the scores. A bias that is multiplied later on is left alone."""
    if len(node.inputs) == 2 and argument(node, "alpha", 1) == 1 and part.scale == 1:
        for scores, bias in (node.inputs, node.inputs[::-1]):
            yield from _masked(node, scores, Mask(bias, "added"), part)


def _filled(node: Node, part: WrittenAttention) -> Ways:
    if len(node.inputs) == 2 and _is_least(argument(node, "value")):
        yield from _masked(node, node.inputs[0], Mask(node.inputs[1], "unseen"), part)


def _chosen(node: Node, part: WrittenAttention) -> Ways:
    condition, one, other = (argument(node, name) for name in ("condition", "self", "other"))
    for scores, least, kind in ((one, other, "seen"), (other, one, "unseen")):
        if isinstance(scores, Value) and _is_least(least):
            yield from _masked(node, scores, Mask(condition, kind), part)


def _masked(node: Node, scores: Value, mask: Mask, part: WrittenAttention) -> Ways:
    """Masks have to fit scores of one and the same sizes, which they leave as they are."""
    sizes = sizes_of(node.output)
    fits = sizes_of(scores) == sizes == (part.sizes or sizes) and part.scale > 0
    if part.softmax is not None and fits:
        yield scores, replace(part, masks=(*part.masks, mask), sizes=sizes)


def _is_least(number: Any) -> bool:
    """Whether a number, or a tensor of one, is -inf."""
    if isinstance(number, Value):
        number = number.node.attribute("value") if number.node.kind == "prim::Constant" else None
    return number is not None and np.ndim(number) == 0 and bool(number == -math.inf)


_RULES: dict[str, Callable[[Node, WrittenAttention], Ways]] = {
    **dict.fromkeys(_REGROUPINGS, _regrouped), **dict.fromkeys(SOFTMAXES, _softmaxed), _CAST: _cast,
    "aten::mul": _scaled, "aten::div": _scaled, "aten::add": _biased, "aten::masked_fill": _filled,
    "aten::where.self": _chosen,
}  # fmt: skip

# -- gradients -----------------------------------------------------------------------------------------------------


@dataclass
class WrittenGradients:
    """The backward of an attention in a later stage, which uses its weights."""

    way: Node
    """The gradient of the softmax."""
    first: Node
    """The product of the result's gradient and the values: the gradient of the weights."""
    products: dict[str, tuple[Node, bool]] = field(default_factory=dict)
    """The products that are gradients by "query", "key" and "value", each with whether it is transposed."""


def is_used_elsewhere(found: WrittenAttention) -> bool:
    """Whether anything but the products uses what is between them."""
    return bool(_users(found))


def _users(found: WrittenAttention) -> set[Node]:
    assert found.scores is not None
    own = {found.result, *found.between}
    return {use.node for node in (found.scores, *found.between) for use in node.output.uses} - own


def written_gradients(found: WrittenAttention) -> WrittenGradients | None:
    """The gradients of an attention; None if they are not of this form, or something else uses what is in between."""
    users, made = _users(found), {node.output for node in found.between}
    ways = [node for node in users if node.kind == _SOFTMAX_GRADIENT]
    if len(ways) != 1 or ways[0].inputs[1] not in made:
        return None
    (way,) = ways
    first, by_scores = _product_behind(way.inputs[0]), _gradient_of_scores(way.output, found)
    if first is None or by_scores is None or not _are_turned(first.inputs[1], found.result.inputs[1]):
        return None
    gradients = WrittenGradients(way, first)
    known = _note(by_scores, _ROLES_OF_SCORES, found, gradients)
    known |= _note(found.result.inputs[0], _ROLES_OF_WEIGHTS, found, gradients)
    return gradients if None not in known and users <= known | {way} and gradients.products else None


def _product_behind(value: Value) -> Node | None:
    """The product that a value is, but for views of the batch and casts."""
    while (value.node.kind in _REGROUPINGS and _regroups(value.node)) or _is_plain_cast(value.node):
        value = value.node.inputs[0]
    return value.node if value.node.kind in PRODUCTS else None


def _is_plain_cast(node: Node) -> bool:
    return node.kind == _CAST and _is_cast(node)


def _gradient_of_scores(value: Value, found: WrittenAttention) -> Value | None:
    """The gradient by the product of queries and keys, from that by the operand of the softmax."""
    factor, masks = 1.0, {mask.value for mask in found.masks}
    while len(value.uses) == 1:
        node = next(iter(value.uses)).node
        if node.kind in ("aten::mul", "aten::div") and (number := _factor(node)) is not None:
            factor *= number
        elif not (_is_plain_cast(node) or _leaves_alone(node, masks)) and not (
            node.kind in _REGROUPINGS and _regroups(node)
        ):
            break
        value = node.output
    return value if math.isclose(factor, found.scale, rel_tol=1e-12) else None


def _leaves_alone(node: Node, masks: set[Value]) -> bool:
    """Whether a node makes zeros only of what is 0 anyway, as a mask says that weights are."""
    if node.kind == "aten::masked_fill":
        return len(node.inputs) == 2 and node.inputs[1] in masks and argument(node, "value") == 0
    if node.kind == "aten::where.self":
        others = [argument(node, name) for name in ("self", "other")]
        return argument(node, "condition") in masks and any(type(x) in (int, float) and x == 0 for x in others)
    return False


Role = Callable[[WrittenAttention, WrittenGradients, Value], bool]
"""Whether the other factor of a product is the one that makes it a gradient."""

_ROLES_OF_SCORES: dict[tuple[int, bool], tuple[str, bool, Role]] = {
    (0, False): ("query", False, lambda found, _, x: _are_turned(x, found.scores.inputs[1])),  # type: ignore[union-attr]
    (1, True): ("query", True, lambda found, _, x: x is found.scores.inputs[1]),  # type: ignore[union-attr]
    (0, True): ("key", False, lambda found, _, x: x is found.scores.inputs[0]),  # type: ignore[union-attr]
    (1, False): ("key", True, lambda found, _, x: _are_turned(x, found.scores.inputs[0])),  # type: ignore[union-attr]
}
"""The gradients that a product with the scores' gradient may be, by the place of that among the factors, and whether it
is transposed there: what it is by, whether it is transposed, and the condition on the other factor."""
_ROLES_OF_WEIGHTS: dict[tuple[int, bool], tuple[str, bool, Role]] = {
    (0, True): ("value", False, lambda _, gradients, x: x is gradients.first.inputs[0]),
    (1, False): ("value", True, lambda _, gradients, x: _are_turned(x, gradients.first.inputs[0])),
}


def _note(
    value: Value, roles: dict[tuple[int, bool], tuple[str, bool, Role]], found: WrittenAttention,
    gradients: WrittenGradients,
) -> set[Node | None]:  # fmt: skip
    """Note the products with a value that are gradients; the value's users, None among them if some is of no use."""
    known: set[Node | None] = set()
    for use in value.uses:
        if use.node in (found.result, gradients.way):
            continue
        known.add(use.node)
        is_turned = use.node.kind in _TURNS and transposed(use.node.output) is value
        for final in use.node.output.uses if is_turned else [use]:
            role = roles.get((final.index, is_turned)) if final.node.kind in PRODUCTS else None
            if role is None or role[0] in gradients.products:
                return {None}
            name, turned, fits = role
            if not fits(found, gradients, final.node.inputs[1 - final.index]):
                return {None}
            gradients.products[name] = final.node, turned
    return known


def transposed(value: Value) -> Value | None:
    """The value of which another one is the transpose in the last two dims."""
    node, rank = value.node, len(sizes_of(value))
    if node.kind not in _TURNS or rank < 2:
        return None
    order = [*range(rank - 2), rank - 1, rank - 2]
    if node.kind == "aten::permute":
        return node.inputs[0] if [d % rank for d in argument(node, "dims")] == order else None
    dims = (0, 1) if node.kind == "aten::t" else (argument(node, "dim0"), argument(node, "dim1"))
    return node.inputs[0] if {d % rank for d in dims} == {rank - 1, rank - 2} else None


def _are_turned(one: Value, other: Value) -> bool:
    """Whether two values are each other's transpose."""
    return transposed(one) is other or transposed(other) is one
