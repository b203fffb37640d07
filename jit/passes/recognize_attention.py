"""Recognises attention that is written out, for the operator that GPUs compute without the matrix of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from jit.ir import Graph, Node, TensorType, Type, Value
from jit.ir.dtypes import DType, bfloat16, bool_, float16, float32

from .dce import dce
from .support.analysis import with_subgraphs
from .support.builder import GraphBuilder
from .support.written_attention import (
    SAFE,
    SOFTMAXES,
    Mask,
    WrittenAttention,
    WrittenGradients,
    is_used_elsewhere,
    sizes_of,
    transposed,
    written_attention,
    written_gradients,
)

DTYPES = (float16, bfloat16, float32)
"""The dtypes that there are kernels for."""


def recognize_attention(graph: Graph) -> bool:
    """Let attention on a GPU that is written as products and a softmax be `_attend`; says whether there was any.

    Given                                                       Result
        %1 : Float(4, 9, 9) = aten::bmm(%q, %kt)                    %6 : Float(4, 9, 8) = aten::transpose.int[..](%kt)
        %2 : Float(4, 9, 9) = aten::mul(%1, 0.35)                   %7 : Float(4, 9, 8), %8 : Float(4, 9) =
        %3 : Float(4, 9, 9) = aten::masked_fill(%2, %m, -inf)           aten::_attend[scale=0.35, ..](%q, %6, %v, ..)
        %4 : Float(4, 9, 9) = aten::softmax[dim=-1](%3)
        %5 : Float(4, 9, 8) = aten::bmm(%4, %v)

    Nothing else may use what is between the two products, but for the gradients, if they are of this form too: they
    become `_attend_backward`. Masks are added or filled with -inf; numbers multiply the scores before masks are added.

    Sums are in another order, and scores and weights of 16 bits are not rounded in between. A query that sees no key
    gives NaN as before: `_attend` alone would give zeros.
    """
    changes = [_recognize(inner) for inner in with_subgraphs(graph) if _has_candidates(inner)]
    return any(changes)


def _has_candidates(graph: Graph) -> bool:
    return any(node.kind in SOFTMAXES and _is_on_device(node.output) for node in graph.nodes)


def _is_on_device(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.device != "cpu"


def _recognize(graph: Graph) -> bool:
    """Find all attentions first, for what is rewritten is not found again, and clear away what they leave unused."""
    dead = dce(graph)
    found = [part for part in map(written_attention, graph.nodes) if part is not None and _fits(part)]
    changes = [_rewritten(graph, part) for part in found]
    if any(changes):
        dce(graph)
    return dead or any(changes)


def _fits(found: WrittenAttention) -> bool:
    """Whether `_attend` has a kernel for the operands, and masks are as it takes them."""
    assert found.scores is not None
    factors = [*found.scores.inputs, found.result.inputs[1]]
    types = [value.type for value in factors if isinstance(value.type, TensorType) and value.type.sizes is not None]
    if len(types) < len(factors) or not all(_is_of(node.output.type, DTYPES) for node in found.between):
        return False
    sizes = {size for value in factors for size in sizes_of(value)} | {*found.sizes}
    masks = [(mask.kind, mask.value.type) for mask in found.masks]
    return (
        len({(t.dtype, t.device) for t in types}) == 1
        and types[0].dtype in DTYPES
        and _is_on_device(factors[0])
        and 0 not in sizes
        and all(_is_of(t, DTYPES if kind == "added" else (bool_,), types[0].device) for kind, t in masks)
    )


def _is_of(type: Type, dtypes: Sequence[DType], device: str | None = None) -> bool:
    """Whether something is a tensor of one of some dtypes, on a device if one is named."""
    return isinstance(type, TensorType) and type.dtype in dtypes and device in (None, type.device)


# -- rewriting -----------------------------------------------------------------------------------------------------


def _rewritten(graph: Graph, found: WrittenAttention) -> bool:
    """Write an attention, and its gradients, as one operator each; False if something else needs what is between."""
    gradients = written_gradients(found) if is_used_elsewhere(found) else None
    if gradients is None and is_used_elsewhere(found):
        return False
    with graph.inserting_before(found.result):
        operands, out, logsumexp = _attended(GraphBuilder(graph, found.result.stage), found)
    if gradients is not None:
        _write_gradients(graph, found, gradients, operands, out, logsumexp)
    _replace(found.result, out)
    return True


def _attended(F: Any, found: WrittenAttention) -> tuple[list[Any], Any, Any]:
    """(query, key, value and mask in the batch of the masks; the result; the logsumexp)."""
    assert found.scores is not None and found.softmax is not None
    query, keys, value = (F.wrap(x) for x in (*found.scores.inputs, found.result.inputs[1]))
    known = transposed(keys.value)
    key = F.transpose(keys, -2, -1) if known is None else F.wrap(known)
    operands = [_in_batch(F, x, found) for x in (query, key, value)]
    mask = _joined(F, [_mask(F, m) for m in found.masks])
    out, logsumexp = F._attend(*operands, mask, False, float(found.scale), query.dtype)
    if mask is not None and found.softmax.kind != SAFE:
        unseen = F.eq(logsumexp, math.inf)
        logsumexp = F.masked_fill(logsumexp, unseen, math.nan)
        out = F.masked_fill(out, F.unsqueeze(unseen, -1), math.nan)
    return [*operands, mask], out, logsumexp


def _in_batch(F: Any, x: Any, found: WrittenAttention) -> Any:
    """A factor in the batch of the masks; one at least."""
    batch = found.sizes[:-2] or (1,)
    return x if x.shape[:-2] == batch else F.view(x, [*batch, *x.shape[-2:]])


def _mask(F: Any, mask: Mask) -> Any:
    value = F.wrap(mask.value)
    return F.logical_not(value) if mask.kind == "unseen" else value


def _joined(F: Any, masks: list[Any]) -> Any:
    """One mask that does what several do: bools must all hold, numbers add up."""
    seen, added = ([m for m in masks if (m.dtype is bool_) == is_seen] for is_seen in (True, False))
    found = [reduce(by, each) for by, each in ((F.logical_and, seen), (F.add, added)) if each]
    return F.where(*found, -math.inf) if len(found) == 2 else next(iter(found), None)


def _write_gradients(
    graph: Graph, found: WrittenAttention, gradients: WrittenGradients, operands: list[Any], out: Any, logsumexp: Any
) -> None:
    """Write the gradients where the first of their products stands."""
    products = {gradients.first, *(node for node, _ in gradients.products.values())}
    anchor = next(node for node in graph.nodes if node in products)
    with graph.inserting_before(anchor):
        F = GraphBuilder(graph, anchor.stage)
        *factors, mask = (x if x is None else F.wrap(x.value) for x in operands)
        grad = _in_batch(F, F.wrap(gradients.first.inputs[0]), found)
        wide = [x if x.dtype is logsumexp.dtype else F._to_copy(x, dtype=logsumexp.dtype) for x in (grad, out)]
        rowsum = F.sum(wide[0] * F.wrap(wide[1].value), [-1])
        wanted = [name in gradients.products for name in ("query", "key", "value")]
        by = F._attend_backward(
            grad, *factors, F.wrap(logsumexp.value), rowsum, mask, False, float(found.scale), wanted
        )
    for name, result in zip(("query", "key", "value"), by, strict=True):
        if name in gradients.products:
            node, turned = gradients.products[name]
            with graph.inserting_before(node):
                F = GraphBuilder(graph, node.stage)
                x = F.wrap(result.value)
                _replace(node, F.clone(F.transpose(x, -2, -1)) if turned else x)


def _replace(node: Node, result: Any) -> None:
    """Let a result stand for a product, in that one's batch."""
    assert node.graph is not None
    with node.graph.inserting_before(node):
        F = GraphBuilder(node.graph, node.stage)
        same = result.shape == sizes_of(node.output)
        node.replace_with([result.value if same else F.view(F.wrap(result.value), list(sizes_of(node.output))).value])
