"""Rules: what an operator does to all samples of a `vmap` at once.

Most rules follow from what an operator declares: its kind, and the names of its arguments. The tables below say of the
others which pattern they follow. An operator that follows none runs sample by sample, and the results are stacked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jit.eager.dispatch import call_fitting, return_type
from jit.eager.generators import default_generator
from jit.eager.namespace import F
from jit.eager.proxies import concrete
from jit.eager.tensors import Tensor
from jit.ir import Op, dtypes

from .layers import Layer, RandomnessError, VmapError

Rule = Callable[[Layer, Op, Sequence[Any]], Any]
"""The result of an operator for all samples, which lie along dim 0; None if the rule does not fit the arguments."""

DIMS = frozenset(("dim", "dims", "dim0", "dim1", "dim2", "dimension"))
"""The names of arguments that are dims."""


def run(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """The result of an operator on all samples, as samples.

    Args:
        layer: The `vmap`.
        op: The operator.
        values: Its arguments.
    """
    if not any(map(layer.holds, values)):
        return _of_none(layer, op, values)
    if op.kind == "composite":
        return _by_parts(layer, op, values)
    rule = RULES.get(op.schema.name) or (_pointwise if op.kind == "pointwise" else None)
    with layer.outside():
        if op.kind == "random":
            return layer.wrapped(_random(layer, op, values))
        result = None if rule is None else rule(layer, op, values)
        return layer.wrapped(one_by_one(layer, op, values) if result is None else result)


def _by_parts(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """A composite by its parts; sample by sample, if these look at elements."""
    try:
        result = op.body(F, *values)
    except RandomnessError:
        raise
    except VmapError:
        with layer.outside():
            return layer.wrapped(one_by_one(layer, op, values))
    return return_type(op)(*result) if type(result) is tuple and op.schema.returns[0].name else result


def one_by_one(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """The results of all samples, one after the other, stacked.

    Args:
        layer: The `vmap`.
        op: The operator.
        values: Its arguments.

    Raises:
        VmapError: The results have several sizes.
    """
    found = [call_fitting(op, [layer.sample(v, number) for v in values]) for number in range(concrete(layer.size))]
    return _stacked(op.schema.name, found)


def _stacked(name: str, found: Sequence[Any]) -> Any:
    if isinstance(found[0], Tensor):
        if not found[0].defined:
            return found[0]
        if len({tuple(each.shape) for each in found}) > 1:
            raise VmapError(f"vmap: {name} gives tensors of several sizes for the samples, which cannot be one tensor")
        return F.stack(found, 0)
    if len({len(each) for each in found}) > 1:
        raise VmapError(f"vmap: {name} gives different numbers of tensors for the samples")
    columns = [_stacked(name, column) for column in zip(*found)]
    return type(found[0])(*columns) if hasattr(found[0], "_fields") else type(found[0])(columns)


def apply_function(layer: Layer, function: Any, args: Sequence[Any]) -> Any:
    """The result of an autograd.Function: by its own `vmap`, if it defines one, else sample by sample.

    Args:
        layer: The `vmap`.
        function: The class.
        args: Its arguments.
    """
    if not any(map(layer.holds, args)):
        with layer.outside():
            return function.apply(*args)
    with layer.outside():
        if hasattr(function, "vmap"):
            return _by_own_rule(layer, function, args)
        found = [function.apply(*(layer.sample(a, number) for a in args)) for number in range(concrete(layer.size))]
        return layer.wrapped(_stacked(function.__name__, found))


class VmapInfo(tuple[int, str]):
    """The facts that the `vmap` of an autograd.Function is told: the number of samples, and what randomness means."""

    batch_size = property(lambda self: self[0])
    randomness = property(lambda self: self[1])


def _by_own_rule(layer: Layer, function: Any, args: Sequence[Any]) -> Any:
    dims = tuple(0 if layer.holds(a) else None for a in args)
    given = [a._real if layer.holds(a) else a for a in args]
    results, places = function.vmap(VmapInfo((layer.size, layer.randomness)), dims, *given)
    several = isinstance(results, (tuple, list))
    pairs = zip(results, places) if several else [(results, places)]
    made = [r if place is None else layer.batched(F.movedim(r, place, 0)) for r, place in pairs]
    return tuple(made) if several else made[0]


# -- random numbers ----------------------------------------------------------------------------------------------


def _of_none(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """The result where no argument is batched: the same for all samples, if it is not random."""
    with layer.outside():
        if op.kind != "random" or layer.randomness == "same":
            return call_fitting(op, values)
        return layer.wrapped(_random(layer, op, values))


def _random(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Numbers for all samples: drawn at once, or the same for each of them."""
    if layer.randomness == "error":
        raise RandomnessError(
            f"vmap: {op.schema.name} draws random numbers; say whether the samples get the same ones, by "
            'vmap(..., randomness="same"), or different ones, by randomness="different"'
        )
    if layer.randomness == "same":
        return _alike(layer, op, values)
    names = op.schema.argument_names
    if op.tensors and op.schema.name != "multinomial":
        return call_fitting(op, [layer.whole(value) for value in values])
    if "size" in names:
        place = names.index("size")
        return call_fitting(op, [*values[:place], (layer.size, *values[place]), *values[place + 1 :]])
    return one_by_one(layer, op, values)


def _alike(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Numbers that are drawn from the same state for each sample."""
    place = op.schema.argument_names.index("generator")
    generator = values[place] or default_generator()
    state, found = generator.get_state(), []
    for number in range(concrete(layer.size)):
        generator.set_state(state)
        found.append(call_fitting(op, [layer.sample(value, number) for value in values]))
    return _stacked(op.schema.name, found)


# -- patterns ----------------------------------------------------------------------------------------------------


def _tensors(op: Op, values: Sequence[Any]) -> list[Tensor]:
    """The tensors among the arguments, those in lists, too."""
    flat: list[Any] = []
    for place in op.tensors:
        flat += values[place] if isinstance(values[place], (tuple, list)) else [values[place]]
    return [value for value in flat if isinstance(value, Tensor)]


def _pointwise(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Samples broadcast as they would alone, which must be said of those with fewer dims."""
    rank = max(tensor.ndim for tensor in _tensors(op, values))
    with layer.running_again():
        values = _promoted(op, values)
    return call_fitting(op, [layer.lifted(value, rank) for value in values])


def _promoted(op: Op, values: Sequence[Any]) -> Sequence[Any]:
    """The arguments in the dtype that samples have in common, in which 0-d tensors count less than others."""
    tensors = [values[place] for place in op.promoted if isinstance(values[place], Tensor)]
    if len({tensor.dtype for tensor in tensors}) < 2 or op.computes_in is not None:
        return values
    dtype = dtypes.result_type([(v.dtype, v.ndim, v) for v in tensors])
    return [
        F._to_copy(v, dtype=dtype) if place in op.promoted and isinstance(v, Tensor) and v.dtype is not dtype else v
        for place, v in enumerate(values)
    ]


def _natural(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Operators to which further dims in front are nothing special."""
    if any(a.name == "memory_format" and v not in (None, "preserve_format") for a, v in zip(op.arguments, values)):
        return None
    return call_fitting(op, [layer.whole(value) for value in values])


def _matrices(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Operators on matrices, to which all dims in front of the last two are nothing special."""
    ranks = {tensor.ndim for tensor in _tensors(op, values)}
    return _natural(layer, op, values) if len(ranks) == 1 and min(ranks) >= 2 else None


def _along(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Operators along dims that are named: those of all samples are one further."""
    rank = values[op.tensors[0]].ndim
    if not rank or any(tensor.ndim != rank for tensor in _tensors(op, values)):
        return None
    given = [
        _shifted(value, rank) if argument.name in DIMS else layer.whole(value)
        for argument, value in zip(op.arguments, values)
    ]
    return None if any(value is _ALL for value in given) else call_fitting(op, given)


_ALL = object()
"""Dims that are left out, which cannot be said of several."""


def _shifted(dims: Any, rank: int) -> Any:
    if dims is None or dims == ():
        return _ALL
    if isinstance(dims, (tuple, list)):
        return tuple(dim % rank + 1 for dim in dims)
    return dims % rank + 1


def _reduced(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Reductions: along dims that are named, or along all of them."""
    place = op.schema.argument_names.index("dim")
    rank = values[0].ndim
    if rank and (values[place] is None or values[place] == ()):
        if not op.arguments[place].type.is_list:
            return None
        values = [*values[:place], tuple(range(rank)), *values[place + 1 :]]
    return _along(layer, op, values)


def _flat(name: str) -> Rule:
    """The rule for a reduction of all elements, by one along a dim."""

    def rule(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
        rows = F.reshape(values[0]._real, [layer.size, math.prod(values[0].shape)])
        more = {a.name: v for a, v in zip(op.arguments[1:], values[1:]) if v is not None}
        return getattr(F, name)(rows, 1, **more)

    return rule


def _resized(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """The gradients of views: dims are one further, and sizes one more."""
    place = op.schema.argument_names.index("input_sizes")
    rank = len(values[place])
    given = [
        _shifted(v, rank) if a.name in DIMS else (layer.size, *v) if a.name == "input_sizes" else layer.whole(v)
        for a, v in zip(op.arguments, values)
    ]
    return call_fitting(op, given)


def _folded(rank: int) -> Rule:
    """The rule for operators that take images one by one: samples of batches become one batch.

    Args:
        rank: The number of dims of a batch.
    """

    def rule(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
        tensors = _tensors(op, values)
        if any(tensor.ndim != tensors[0].ndim for tensor in tensors) or tensors[0].ndim not in (rank, rank - 1):
            return None
        if tensors[0].ndim == rank - 1:
            return _natural(layer, op, values)
        result = call_fitting(op, [_merged(layer.whole(value)) for value in values])
        return _each(result, lambda t: _parted(layer, t))

    return rule


def _each(result: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(result, Tensor):
        return function(result) if result.defined else result
    items = [_each(item, function) for item in result]
    return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)


def _merged(value: Any, dim: int = 0) -> Any:
    """A tensor whose dims `dim` and the next are one."""
    if not isinstance(value, Tensor):
        return value
    sizes = value.shape
    return F.reshape(value, [*sizes[:dim], sizes[dim] * sizes[dim + 1], *sizes[dim + 2 :]])


def _parted(layer: Layer, value: Any, dim: int = 0) -> Any:
    """The inverse of `_merged`, the samples in front."""
    sizes = value.shape
    return F.reshape(value, [*sizes[:dim], layer.size, sizes[dim] // layer.size, *sizes[dim + 1 :]])


# -- views -------------------------------------------------------------------------------------------------------


def _view(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    return call_fitting(op, [values[0]._real, (layer.size, *values[1])])


def _expand(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    return call_fitting(op, [layer.lifted(values[0], len(values[1])), (-1, *values[1]), *values[2:]])


def _repeat(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    return call_fitting(op, [layer.lifted(values[0], len(values[1])), (1, *values[1])])


def _permute(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    rank = values[0].ndim
    return call_fitting(op, [values[0]._real, (0, *(dim % rank + 1 for dim in values[1]))])


def _transpose(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    return F.transpose(values[0]._real, 1, 2) if values[0].ndim == 2 else F.alias(values[0]._real)


def _squeeze(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    if op.schema.overload:
        return _along(layer, op, values)
    dims = tuple(dim + 1 for dim, size in enumerate(values[0].shape) if size == 1)
    return F.squeeze(values[0]._real, dims)


def _unsqueeze(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    return call_fitting(op, [values[0]._real, values[1] % (values[0].ndim + 1) + 1])


def _copy(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    target, source = values
    return F.copy(layer.whole(target), layer.lifted(source, target.ndim))


def _fill(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    return _copy(layer, op, values) if isinstance(values[1], Tensor) else _natural(layer, op, values)


def _masked_fill(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    tensor, mask, value = values
    if not layer.holds(value):
        return _pointwise(layer, op, values)
    with layer.running_again():
        return layer.whole(F.where(mask, F._to_copy(value, dtype=tensor.dtype), tensor))


def _cat(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    tensors, dim = values
    rank = max(tensor.ndim for tensor in tensors)
    if len({tensor.ndim for tensor in tensors}) > 1:
        return None
    return F.cat([layer.whole(tensor) for tensor in tensors], dim % rank + 1)


def _sum_to_size(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    tensor, sizes = values
    return call_fitting(op, [layer.whole(tensor), (layer.size, *[1] * (tensor.ndim - len(sizes)), *sizes)]).reshape(
        [layer.size, *sizes]
    )


# -- products ----------------------------------------------------------------------------------------------------


def _mm(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    left, right = (layer.lifted(value, 2) for value in values)
    return F.matmul(left, right)


def _bmm(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    left, right = (layer.lifted(value, 3) for value in values)
    return F.matmul(left, right)


def _mv(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    matrix, vector = values
    if not layer.holds(vector):
        return F.matmul(matrix._real, vector)
    if not layer.holds(matrix):
        return F.matmul(vector._real, F.transpose(matrix, 0, 1))
    return F.squeeze(F.matmul(matrix._real, F.unsqueeze(vector._real, 2)), 2)


def _dot(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    left, right = map(layer.whole, values)
    return F.reshape(F.matmul(F.unsqueeze(left, 1), F.unsqueeze(right, 2)), [layer.size])


def _product_and_sum(name: str) -> Rule:
    """The rule for a product that something is added to."""

    def rule(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
        added, left, right, beta, alpha = values
        with layer.running_again():
            product = getattr(F, name)(left, right)
            product = product if alpha == 1 else F.mul(product, alpha)
            result = product if beta == 0 else F.add(product, added if beta == 1 else F.mul(added, beta))
        return layer.whole(result)

    return rule


def _sum_of_products(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    equation, tensors = values
    given, result = equation.split("->")
    letter = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in equation)
    terms = [letter + term if layer.holds(t) else term for term, t in zip(given.split(","), tensors)]
    reals = tuple(layer.lifted(tensor, 0) for tensor in tensors)
    return call_fitting(op, [f"{','.join(terms)}->{letter}{result}", reals])


def _convolution(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    input, weight, bias, *options = values
    if not layer.holds(weight) and not layer.holds(bias):
        return _parted(layer, call_fitting(op, [_merged(input._real), weight, bias, *options]))
    groups = op.schema.argument_names.index("groups") - 3
    options[groups] = options[groups] * layer.size
    images = _merged(F.movedim(layer.whole(input), 0, 1), 1)
    result = call_fitting(op, [images, _merged(layer.whole(weight)), _merged(layer.whole(bias)), *options])
    return F.movedim(_parted(layer, result, 1), 1, 0)


# -- look-ups ----------------------------------------------------------------------------------------------------


def _index_select(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    tensor, dim, index = values
    if layer.holds(index) or not tensor.ndim:
        return None
    return call_fitting(op, [tensor._real, dim % tensor.ndim + 1, index])


def _index_written(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """Writes at places that are the same for all samples."""
    tensor, dim, index, source, *rest = values
    if layer.holds(index) or not tensor.ndim or (isinstance(source, Tensor) and source.ndim != tensor.ndim):
        return None
    return call_fitting(op, [layer.whole(tensor), dim % tensor.ndim + 1, index, layer.whole(source), *rest])


def _numbers(layer: Layer, rank: int) -> Any:
    """The number of each sample, with `rank` further dims."""
    return F.reshape(F.arange(layer.size), [layer.size, *[1] * rank])


def _index(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    tensor, indices = values
    places = _places(layer, indices)
    if places is None:
        return None
    first, rank, lifted = places
    result = F.index(layer.whole(tensor), [_numbers(layer, rank), *[None] * first, *lifted])
    if not first:
        return result
    return F.movedim(result, list(range(1, rank + 1)), list(range(first + 1, first + rank + 1)))


def _places(layer: Layer, indices: Sequence[Any]) -> tuple[int, int, list[Any]] | None:
    """The dim of the first index, the dims of all indices together, and the indices of all samples; None where masks
    are among them, or where they do not stand side by side."""
    given = [place for place, index in enumerate(indices) if index is not None]
    if given != list(range(given[0], given[0] + len(given))):
        return None
    found = [indices[place] for place in given]
    if any(index.dtype is dtypes.bool_ or index.dtype is dtypes.uint8 for index in found):
        return None
    rank = max(index.ndim for index in found)
    return given[0], rank, [layer.lifted(index, rank) for index in found]


def _index_put(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    tensor, indices, source, accumulate = values
    places = _places(layer, indices)
    if places is None or places[0]:
        return None
    _, rank, lifted = places
    written = layer.lifted(source, rank + tensor.ndim - len([i for i in indices if i is not None]))
    return F.index_put(layer.whole(tensor), [_numbers(layer, rank), *lifted], written, accumulate)


def _embedding(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    weight, indices, padding, *rest = values
    if not layer.holds(weight):
        return call_fitting(op, [weight, indices._real, padding, *rest])
    if padding >= 0 or rest[0]:
        return None
    count = weight.shape[0]
    moved = F.add(layer.whole(indices), F.mul(_numbers(layer, indices.ndim), count))
    return call_fitting(op, [_merged(weight._real), moved, padding, *rest])


# -- norms and losses --------------------------------------------------------------------------------------------


def _layer_norm(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    input, sizes, weight, bias, eps = values
    if not layer.holds(weight) and not layer.holds(bias):
        return call_fitting(op, [input._real, sizes, weight, bias, eps])
    result, mean, deviation = call_fitting(op, [layer.whole(input), sizes, None, None, eps])
    if weight is not None:
        result = F.mul(result, layer.lifted(weight, input.ndim))
    if bias is not None:
        result = F.add(result, layer.lifted(bias, input.ndim))
    return return_type(op)(result, mean, deviation)


def _nll_loss(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """The loss in operators that have rules."""
    scores, target, weight, reduction, ignored = values
    if scores.ndim > 2:
        return None
    with layer.running_again():
        kept = F.ne(target, ignored)
        classes = F.unsqueeze(F.where(kept, target, F.zeros_like(target)), -1)
        picked = F.squeeze(F.gather(scores, -1, classes), -1)
        each = F.ones_like(picked) if weight is None else F.reshape(F.index(weight, [classes]), picked.shape)
        each = F.mul(each, F._to_copy(kept, dtype=picked.dtype))
        loss, total = F.neg(F.mul(F.where(kept, picked, F.zeros_like(picked)), each)), F.sum(each)
        if reduction:
            loss = F.sum(loss) if reduction == 2 else F.div(F.sum(loss), total)
    return return_type(op)(layer.whole(loss), layer.whole(total))


# -- the tables --------------------------------------------------------------------------------------------------

_PATTERNS: dict[Rule, str] = {
    _natural: (
        "alias detach view_as_real view_as_complex clone _to_copy zero zeros_like ones_like empty_like full_like "
        "frexp within constant_pad_nd"
    ),
    _matrices: (
        "tril triu linalg_lu_factor_ex linalg_cholesky_ex linalg_qr linalg_eigh linalg_eig linalg_svd linalg_det "
        "linalg_slogdet linalg_matrix_exp _linalg_solve linalg_solve_triangular"
    ),
    _along: (
        "softmax _safe_softmax log_softmax _softmax_backward_data _log_softmax_backward_data cumsum cumprod "
        "logcumsumexp cummax cummin sort topk flip transpose select slice narrow split split_with_sizes chunk unbind "
        "unfold diagonal mode gather scatter scatter_add scatter_reduce roll slice_scatter _fft_c2c _fft_r2c _fft_c2r"
    ),
    _reduced: (
        "sum mean amax amin argmax argmin var std logsumexp linalg_vector_norm any all"
    ),
    _resized: "select_backward slice_backward diagonal_backward unfold_backward",
    _folded(4): (
        "max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward adaptive_avg_pool2d "
        "_adaptive_avg_pool2d_backward adaptive_max_pool2d adaptive_max_pool2d_backward upsample_nearest2d "
        "upsample_bilinear2d upsample_bicubic2d _upsample_nearest_exact2d"
    ),
    _folded(5): (
        "max_pool3d_with_indices max_pool3d_with_indices_backward avg_pool3d avg_pool3d_backward adaptive_avg_pool3d "
        "_adaptive_avg_pool3d_backward adaptive_max_pool3d adaptive_max_pool3d_backward upsample_nearest3d "
        "upsample_trilinear3d"
    ),
    _folded(3): "upsample_nearest1d upsample_linear1d",
    _index_written: "index_add index_copy index_fill",
    _convolution: "convolution _convolution",
}  # fmt: skip

RULES: dict[str, Rule] = {
    "view": _view, "expand": _expand, "repeat": _repeat, "permute": _permute, "t": _transpose, "squeeze": _squeeze,
    "unsqueeze": _unsqueeze, "copy": _copy, "fill": _fill, "masked_fill": _masked_fill, "cat": _cat,
    "sum_to_size": _sum_to_size,
    "mm": _mm, "bmm": _bmm, "mv": _mv, "dot": _dot, "addmm": _product_and_sum("mm"),
    "baddbmm": _product_and_sum("bmm"), "sum_of_products": _sum_of_products,
    "index_select": _index_select, "index": _index, "index_put": _index_put, "embedding": _embedding,
    "native_layer_norm": _layer_norm, "nll_loss_forward": _nll_loss,
    **{name: pattern for pattern, names in _PATTERNS.items() for name in names.split()},
}  # fmt: skip
"""The rule for each operator that has one, by its name; all overloads of a name follow it."""


def _by_overload(layer: Layer, op: Op, values: Sequence[Any]) -> Any:
    """`max`, `min` and `prod`: of a dim, or of all elements."""
    if op.schema.overload:
        return _along(layer, op, values)
    whole = {"max": "amax", "min": "amin", "prod": "prod"}[op.schema.name]
    return _flat(whole)(layer, op, values)


RULES.update(max=_by_overload, min=_by_overload, prod=_by_overload)


def has_rule(op: Op) -> bool:
    """Whether an operator runs on all samples at once, for most arguments at least."""
    return op.kind in ("composite", "pointwise", "random") or op.schema.name in RULES


__all__ = ["RULES", "apply_function", "has_rule", "one_by_one", "run"]
