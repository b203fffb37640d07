"""`jit.nn.functional`: the operators of networks, under PyTorch's names and with its arguments.

Most come from the registry as they are. Defined here are those whose public signature differs from the ATen
declaration: a word for a reduction, `training=`, `inplace=`, `return_indices=`, another order of arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jit.eager.expecting import expect
from jit.eager.functions import public
from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError

from .alignments import *  # noqa: F403
from .attending import *  # noqa: F403
from .fractional import *  # noqa: F403
from .margins import *  # noqa: F403
from .reductions import REDUCTIONS, reduction_code
from .unpooling import *  # noqa: F403

if TYPE_CHECKING:
    from .._stubs.functional import *  # noqa: F403

_registered = public("nn.functional")
globals().update(_registered)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'jit.nn.functional' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_"))


# -- activations ---------------------------------------------------------------------------------------------------


def _optionally_inplace(name: str, options: int) -> Callable[..., Any]:
    """The function `name(input, <options>, inplace=False)` over an operator and its in-place variant."""
    plain, written = getattr(F, name), getattr(F, f"{name}_")

    def function(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) == options + 2:
            *args, inplace = args  # type: ignore[assignment]
        return written(*args, **kwargs) if inplace else plain(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{plain.__doc__}\n\nWith `inplace=True`, the result overwrites the input."
    return function


_OPTIONS = {
    "relu": 0, "relu6": 0, "selu": 0, "silu": 0, "mish": 0, "hardsigmoid": 0, "hardswish": 0, "leaky_relu": 1, "elu": 1,
    "celu": 1, "hardtanh": 2, "threshold": 2, "rrelu": 3,
}  # fmt: skip
globals().update({name: _optionally_inplace(name, options) for name, options in _OPTIONS.items()})
_WRITTEN = ("celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_")
globals().update({name: getattr(F, name) for name in _WRITTEN})


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``exp(input) / sum(exp(input))`` along `dim`.

    Args:
        input: A floating point tensor.
        dim: The dim. Without it, 0 for 0-d, 1-d and 3-d inputs and else 1, with a warning.
        dtype: The dtype to compute in; that of the input if left out.

    >>> import jit
    >>> jit.nn.functional.softmax(jit.zeros(1, 2), dim=1).tolist()
    [[0.5, 0.5]]
    """
    return F.softmax(input, _implied_dim("softmax", input, dim), dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, computed without leaving the range of the dtype.

    Args: those of `softmax`.
    """
    return F.log_softmax(input, _implied_dim("log_softmax", input, dim), dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`softmax` of ``-input``.

    Args: those of `softmax`.
    """
    return F.softmin(input, _implied_dim("softmin", input, dim), dtype)


def _implied_dim(name: str, input: Any, dim: int | None) -> int:
    if dim is not None:
        return dim
    expect(name, input)
    implied = 0 if input.ndim in (0, 1, 3) else 1
    told = f"{name} without dim takes dim {implied} of this {input.ndim}-d tensor; say dim={implied}"
    warnings.warn(told, stacklevel=3)
    return implied


def tanh(input: Any) -> Any:
    """The hyperbolic tangent."""
    return F.tanh(input)


def sigmoid(input: Any) -> Any:
    """``1 / (1 + exp(-input))``."""
    return F.sigmoid(input)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """``input / max(‖input‖, eps)`` with p-norms along `dim`.

    Args:
        input: A tensor.
        p: The norm.
        dim: The dim of the vectors.
        eps: The least divisor.
        out: The tensor to write to, or None.

    Returns:
        A tensor of the input's sizes.

    >>> import jit
    >>> jit.nn.functional.normalize(jit.tensor([[3.0, 4.0]])).tolist() == jit.tensor([[0.6, 0.8]]).tolist()
    True
    """
    norms = F.norm(input, p, [dim], True).clamp(min=eps)
    return input / norms if out is None else F.div(input, norms, out=out)


def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A draw from a relaxed categorical distribution (Jang et al., 2017).

    Args:
        logits: Unnormalised log-probabilities.
        tau: The temperature: the lower, the nearer to one-hot.
        hard: Whether to return one-hot vectors, with the gradient of soft ones.
        eps: The least uniform number that is drawn.
        dim: The dim of the classes.

    Returns:
        A tensor of the sizes of `logits`, which sums to 1 along `dim`.
    """
    noise = -F.log(-F.log(F.rand_like(logits).clamp(min=eps)))
    soft = F.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, True)
    return F.scatter(F.zeros_like(logits), dim, index, 1.0) - soft.detach() + soft


def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels of `[N, C, ...]` in the order in which one of each group comes after the other.

    Raises:
        ShapeError: The input has fewer than 3 dims, or its channels do not divide into the groups.

    >>> import jit
    >>> jit.nn.functional.channel_shuffle(jit.arange(4).view(1, 4, 1), 2).flatten().tolist()
    [0, 2, 1, 3]
    """
    if input.ndim < 3 or input.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups of channels do not fit the sizes {list(input.shape)}")
    batch, channels, *rest = input.shape
    parts = F.reshape(input, [batch, groups, channels // groups, *rest])
    return F.reshape(F.transpose(parts, 1, 2), input.shape)


# -- dropout -------------------------------------------------------------------------------------------------------


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """While training, zero elements with probability `p` and scale the others by ``1 / (1 - p)``.

    Args:
        input: A floating point tensor.
        p: The probability.
        training: Whether to drop at all.
        inplace: Whether the result overwrites the input.

    Raises:
        UsageError: p lies outside of 0 to 1.

    >>> import jit
    >>> jit.nn.functional.dropout(jit.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]
    """
    _check_probability(p)
    result = F.dropout(input, p, training)
    return F.copy_(input, result) if inplace and training else result


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of `[N, C, L]` or `[C, L]`.

    Args: those of `dropout`.

    Args:
        input: `[N, C, L]` or `[C, L]`.
        p: The probability that a channel is zeroed.
        training: Whether to drop at all.
        inplace: Whether to write into the input.
    """
    return _channel_dropout(input, p, training, inplace, 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of `[N, C, H, W]` or `[C, H, W]`.

    Args: those of `dropout`.

    Args:
        input: `[N, C, H, W]`; of three dims, it is taken for `[N, C, L]`, with a warning.
        p: The probability that a channel is zeroed.
        training: Whether to drop at all.
        inplace: Whether to write into the input.
    """
    return _channel_dropout(input, p, training, inplace, 2)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of `[N, C, D, H, W]` or `[C, D, H, W]`.

    Args: those of `dropout`.

    Args:
        input: `[N, C, D, H, W]` or `[C, D, H, W]`.
        p: The probability that a channel is zeroed.
        training: Whether to drop at all.
        inplace: Whether to write into the input.
    """
    return _channel_dropout(input, p, training, inplace, 3)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`dropout` for SELU networks: what is dropped is its lower bound, and mean and variance stay as they are.

    Args: those of `dropout`.

    Args:
        input: A tensor.
        p: The probability.
        training: Whether to drop at all.
        inplace: Whether to write into the input.
    """
    _check_probability(p)
    return (F.alpha_dropout_ if inplace else F.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`alpha_dropout` of whole channels of `[N, C, ...]`.

    Args: those of `dropout`.

    Args:
        input: `[N, C, ...]`.
        p: The probability that a channel is dropped.
        training: Whether to drop at all.
        inplace: Whether to write into the input.
    """
    _check_probability(p)
    if not training or p == 0:
        return input
    bound = -1.7580993408473766  # what selu comes down to
    with F.no_grad():
        kept = F.bernoulli(input.new_zeros((*input.shape[:2], *(1,) * (input.ndim - 2))), 1 - p)
    scale = 0.0 if p == 1 else 1 / ((bound * bound * p + 1) * (1 - p)) ** 0.5
    result = input * kept * scale + ((1 - kept) * bound - bound * p) * scale
    return F.copy_(input, result) if inplace else result


def _channel_dropout(input: Any, p: float, training: bool, inplace: bool, dims: int) -> Any:
    _check_probability(p)
    leading = _leading_dims(input, dims)
    if not training or p == 0:
        return input
    kept = F.dropout(input.new_ones((*input.shape[:leading], *(1,) * (input.ndim - leading))), p, True)
    return input.mul_(kept) if inplace else input * kept


def _leading_dims(input: Any, dims: int) -> int:
    """The number of leading dims that tell channels apart; a 3-d image is a batch of lines, as in PyTorch."""
    expect(f"dropout{dims}d", input)
    if input.ndim in ((4,) if dims == 2 else (dims + 1, dims + 2)):
        return int(input.ndim) - dims
    if dims == 1 or input.ndim < 2:
        wanted = f"{dims + 1}-d or {dims + 2}-d"
        raise ShapeError(f"dropout{dims}d takes {wanted} inputs, and this one has sizes {list(input.shape)}")
    told = f"dropout{dims}d takes this {input.ndim}-d input for one of a batch and channels"
    warnings.warn(f"{told}; use the dropout of its number of dims", stacklevel=4)
    return 2


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise UsageError(f"a dropout probability lies between 0 and 1, and {p} was given")


# -- look-up -------------------------------------------------------------------------------------------------------


def embedding(
    input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """Rows of `weight`, by the integers in `input`.

    Args:
        input: Integers of any sizes.
        weight: `[rows, size]`.
        padding_idx: A row that gets no gradient.
        max_norm: If given, rows that are looked up and longer than this are scaled to it, in place.
        norm_type: Which norm `max_norm` is about.
        scale_grad_by_freq: Whether to divide gradients by how often a row was looked up.
        sparse: Accepted; gradients are dense all the same.

    Returns:
        `[*input.shape, size]`.

    Raises:
        ShapeError: The weight is no matrix.
        UsageError: `padding_idx` is not a row of the table.

    >>> import jit
    >>> jit.nn.functional.embedding(jit.tensor([1, 1]), jit.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [3.0, 4.0]]
    """
    if max_norm is not None and weight.ndim == 2:
        _renormalise_rows(weight, input, max_norm, norm_type)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the weight should have 2 dims, got the sizes {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise UsageError(f"padding_idx is {padding_idx}, but the table has {rows} rows")
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else rows + padding_idx
    return F.embedding(weight, input, padding, scale_grad_by_freq)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """The sum, mean or maximum of the rows of `weight` that each bag of indices names.

    Args:
        input: Bags `[bags, size]`, or all indices `[N]` one after the other.
        weight: `[rows, size]`.
        offsets: For indices `[N]`, where each bag begins.
        max_norm: If given, rows that are looked up and longer than this are scaled to it, in place.
        norm_type: Which norm `max_norm` is about.
        scale_grad_by_freq: Whether to divide gradients by how often a row was looked up; not for "max".
        mode: "sum", "mean" or "max".
        sparse: Accepted; gradients are dense all the same.
        per_sample_weights: A factor for each index, for sums.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: A row that counts nothing.

    Returns:
        `[bags, size of a row]`.

    Raises:
        UsageError: Offsets are missing or superfluous, the mode is unknown, or options do not go together.
        ShapeError: Indices have more than two dims, or the weights of samples other sizes.

    >>> import jit
    >>> jit.nn.functional.embedding_bag(jit.tensor([[0, 1]]), jit.ones(2, 3), mode="sum").tolist()
    [[2.0, 2.0, 2.0]]
    """
    if mode not in _BAG_MODES:
        raise UsageError(f"embedding_bag: mode is 'sum', 'mean' or 'max', got {mode!r}")
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        sizes = f"{list(per_sample_weights.shape)} and {list(input.shape)}"
        raise ShapeError(f"embedding_bag: per_sample_weights and indices have different sizes, {sizes}")
    input, offsets, per_sample_weights = _bags(input, offsets, per_sample_weights)
    if max_norm is not None:
        _renormalise_rows(weight, input, max_norm, norm_type)
    code = _BAG_MODES[mode]
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise UsageError(f"padding_idx is {padding_idx}, but the table has {weight.shape[0]} rows")
    if mode == "max" and scale_grad_by_freq:
        raise UsageError("embedding_bag has no gradients by frequency for the mode 'max'")
    rest = code, False, per_sample_weights, include_last_offset, padding_idx
    return F.embedding_bag(weight, input, offsets, scale_grad_by_freq, *rest)[0]


def _bags(input: Any, offsets: Any, weights: Any) -> tuple[Any, Any, Any]:
    """(all indices in one row, where each bag begins, their weights in one row)."""
    if input.ndim == 1:
        if offsets is None:
            raise UsageError("embedding_bag: indices of one dim need offsets that say where each bag begins")
        return input, offsets, weights
    if input.ndim != 2:
        raise ShapeError(f"embedding_bag: expects indices of 1 or 2 dims, got the sizes {list(input.shape)}")
    if offsets is not None:
        raise UsageError("embedding_bag: rows of indices are bags already; leave offsets out")
    bags, size = input.shape
    starts = F.arange(0, bags * size, size) if size else F.zeros([bags], dtype=input.dtype)
    return F.reshape(input, [-1]), starts, None if weights is None else F.reshape(weights, [-1])


def _pair(value: Any) -> Any:
    return value if isinstance(value, (tuple, list)) else (value, value)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Each patch of `[N, C, H, W]` as a column: `[N, C * kernel, patches]`.

    Args:
        input: `[N, C, H, W]` or `[C, H, W]`.
        kernel_size: Height and width of a patch, a number or a pair; the same for the following.
        dilation: Distance of a patch's elements.
        padding: Zeros put on every side.
        stride: Step from patch to patch.

    >>> import jit
    >>> jit.nn.functional.unfold(jit.zeros(1, 2, 3, 3), 2).shape
    jit.Size([1, 8, 4])
    """
    return F.im2col(input, *map(_pair, (kernel_size, dilation, padding, stride)))


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The image that columns of patches, as `unfold` makes them, add up to.

    Args:
        input: `[N, C * kernel, patches]` or `[C * kernel, patches]`.
        output_size: Height and width of the image, a number or a pair; the same for the following.
        kernel_size: Height and width of a patch.
        dilation: Distance of a patch's elements.
        padding: What the image was padded with on every side.
        stride: Step from patch to patch.

    Returns:
        `[N, C, *output_size]` or `[C, *output_size]`.
    """
    return F.col2im(input, *map(_pair, (output_size, kernel_size, dilation, padding, stride)))


def _renormalise_rows(weight: Any, rows: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up, in place, to a norm of at most `max_norm`."""
    with F.no_grad():
        used = F.reshape(rows, [-1])
        picked = F.index_select(weight, 0, used)
        norms = F.norm(picked, norm_type, [1], True)
        scale = F.where(F.gt(norms, max_norm), max_norm / (norms + 1e-7), 1.0)
        F.index_copy_(weight, 0, used, picked * scale)


# -- norms ---------------------------------------------------------------------------------------------------------


def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Bring each channel to zero mean and unit variance over all other dims; scale by `weight`, shift by `bias`.

    Args:
        input: `[N, C, ...]`.
        running_mean: `[C]` or None, updated in place while training; used otherwise.
        running_var: `[C]` or None, likewise.
        weight: `[C]` or None.
        bias: `[C]` or None.
        training: Whether to normalise by the batch's own statistics.
        momentum: The weight of this batch in the running statistics.
        eps: Added to the variance.

    Returns:
        ``(input - mean) / sqrt(var + eps) * weight + bias``.

    Raises:
        UsageError: There are no running statistics, and `training` is False.
    """
    if not training and (running_mean is None or running_var is None):
        raise UsageError("batch_norm needs running_mean and running_var unless training=True")
    return F.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def instance_norm(
    input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """`batch_norm` of each sample by itself.

    Args:
        input: `[N, C, ...]`.
        running_mean: `[C]` or None, updated in place by the mean over the batch with `use_input_stats`; used otherwise.
        running_var: `[C]` or None, likewise.
        weight: `[C]` or None.
        bias: `[C]` or None.
        use_input_stats: Whether to normalise by the samples' own statistics.
        momentum: The weight of this batch in the running statistics.
        eps: Added to the variance.
    """
    return F.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Bring the last dims, of sizes `normalized_shape`, to zero mean and unit variance; scale and shift per element.

    Args:
        input: `[..., *normalized_shape]`.
        normalized_shape: The sizes of the last dims.
        weight: A scale of these sizes, or None.
        bias: A shift of these sizes, or None.
        eps: Added to the variance.

    Returns:
        ``(input - mean) / sqrt(var + eps) * weight + bias``.
    """
    return F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


# -- grids ---------------------------------------------------------------------------------------------------------

_GRID_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_GRID_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The places, for `grid_sample`, that affine maps send an output's places to.

    Args:
        theta: `[N, 2, 3]` or, for volumes, `[N, 3, 4]`.
        size: The sizes of the output, `[N, C, H, W]` or `[N, C, D, H, W]`.
        align_corners: Whether -1 and 1 are the centres of the corners rather than their outer edges.

    Returns:
        `[N, H, W, 2]` or `[N, D, H, W, 3]`, the last dim in the order x, y, z.

    >>> import jit
    >>> same = jit.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> jit.nn.functional.affine_grid(same, (1, 1, 1, 2), align_corners=True).tolist()
    [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    if align_corners and 1 in size[2:]:
        told = f"the only place along a dim of size 1 is the middle, 0, with align_corners=True; sizes {list(size)}"
        warnings.warn(f"affine_grid: {told}", stacklevel=2)
    return F.affine_grid_generator(theta, tuple(size), _aligned("affine_grid", align_corners))


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Values of `input`, interpolated at the places of `grid`.

    Args:
        input: `[N, C, H, W]` or `[N, C, D, H, W]`.
        grid: `[N, H', W', 2]` or `[N, D', H', W', 3]`: coordinates x, y, z, of which -1 and 1 are the borders.
        mode: "bilinear" (in volumes: trilinear), "nearest" or, of 4 dims, "bicubic".
        padding_mode: What is outside: "zeros", the nearest "border", or the image's "reflection".
        align_corners: Whether -1 and 1 are the centres of the corners rather than their outer edges.

    Returns:
        `[N, C, H', W']` or `[N, C, D', H', W']`.

    >>> import jit
    >>> centre = jit.zeros(1, 1, 1, 2)
    >>> jit.nn.functional.grid_sample(jit.tensor([[[[1.0, 3.0]]]]), centre, align_corners=True).tolist()
    [[[[2.0]]]]
    """
    chosen = _choice("mode", mode, _GRID_MODES), _choice("padding_mode", padding_mode, _GRID_PADDINGS)
    return F.grid_sampler(input, grid, *chosen, _aligned("grid_sample", align_corners))


def _choice(name: str, given: str, known: dict[str, int]) -> int:
    if given not in known:
        raise UsageError(f"grid_sample: {name} is one of {', '.join(map(repr, known))}, not {given!r}")
    return known[given]


def _aligned(name: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(f"{name} without align_corners takes False; say align_corners=False", stacklevel=3)
    return bool(align_corners)


# -- pooling -------------------------------------------------------------------------------------------------------


def _max_pool(dims: int) -> Callable[..., Any]:
    plain, indexed = f"max_pool{dims}d", f"max_pool{dims}d_with_indices"

    def function(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        operator = getattr(F, indexed if return_indices else plain)
        return operator(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)

    function.__name__ = function.__qualname__ = plain
    function.__doc__ = f"""The largest element of each window over the last {dims} dims.

    Args:
        input: `[N, C, ...]` or `[C, ...]`.
        kernel_size: Size of the window, a number or one per dim; the same for the following.
        stride: Step of the window; its size if left out.
        padding: What is put on both sides: never the largest.
        dilation: Distance of the window's elements.
        ceil_mode: Whether a window may reach over the edge.
        return_indices: Whether to return the places of the largest elements as well.
    """
    return function


max_pool1d, max_pool2d, max_pool3d = map(_max_pool, (1, 2, 3))


def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of each window over the last dim.

    Args:
        input: `[N, C, L]` or `[C, L]`.
        kernel_size: Size of the window.
        stride: Step of the window; its size if left out.
        padding: Zeros put on both sides.
        ceil_mode: Whether a window may reach over the edge.
        count_include_pad: Whether the zeros count.
    """
    return F.avg_pool1d(input, kernel_size, () if stride is None else stride, padding, ceil_mode, count_include_pad)


def _avg_pool(dims: int) -> Callable[..., Any]:
    name = f"avg_pool{dims}d"

    def function(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Any:  # fmt: skip
        step = () if stride is None else stride
        return getattr(F, name)(input, kernel_size, step, padding, ceil_mode, count_include_pad, divisor_override)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The mean of each window over the last {dims} dims.

    Args:
        input: `[N, C, ...]` or `[C, ...]`.
        kernel_size: Size of the window, a number or one per dim; the same for the following.
        stride: Step of the window; its size if left out.
        padding: Zeros put on both sides.
        ceil_mode: Whether a window may reach over the edge.
        count_include_pad: Whether the zeros count.
        divisor_override: What to divide by instead of the number of elements.
    """
    return function


avg_pool2d, avg_pool3d = map(_avg_pool, (2, 3))


def _adaptive(kind: str, dims: int) -> Callable[..., Any]:
    name = f"adaptive_{kind}_pool{dims}d"

    def function(input: Any, output_size: Any, *options: Any, **named: Any) -> Any:
        wanted = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * dims
        if len(wanted) != dims or input.ndim < dims:
            raise ShapeError(f"{name}: output_size {list(wanted)} does not fit {input.ndim} dims: it takes {dims}")
        sizes = input.shape[-dims:]
        filled = tuple(size if want is None else want for want, size in zip(wanted, sizes, strict=True))
        if kind == "avg":
            return getattr(F, name)(input, filled, *options, **named)
        return _with_or_without_indices(getattr(F, name)(input, filled), *options, **named)

    function.__name__ = function.__qualname__ = name
    what = "mean" if kind == "avg" else "largest element"
    function.__doc__ = f"""The {what} of each of `output_size` parts of the last {dims} dims; None keeps a size."""
    return function


def _with_or_without_indices(both: Any, return_indices: bool = False) -> Any:
    return both if return_indices or not isinstance(both, tuple) else both[0]


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive("avg", dims) for dims in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive("max", dims) for dims in (1, 2, 3))


def _with_indices(name: str) -> Callable[..., Any]:
    """The function `name` that returns the places of the largest elements, too."""
    plain = globals()[name]

    def function(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **{**kwargs, "return_indices": True})

    function.__name__ = function.__qualname__ = f"{name}_with_indices"
    function.__doc__ = f"`{name}` that returns the places of the largest elements, too."
    return function


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = (
    _with_indices(f"max_pool{dims}d") for dims in (1, 2, 3)
)
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = (
    _with_indices(f"adaptive_max_pool{dims}d") for dims in (1, 2, 3)
)


def pdist(input: Any, p: float = 2.0) -> Any:
    """The p-norm distances of all pairs of rows of `[N, M]`: ``N * (N - 1) / 2`` numbers.

    Raises:
        ShapeError: The input is no matrix.

    >>> import jit
    >>> jit.nn.functional.pdist(jit.tensor([[0.0], [1.0], [3.0]])).tolist()
    [1.0, 3.0, 2.0]
    """
    expect("pdist", input)
    if input.ndim != 2:
        raise ShapeError(f"pdist takes rows, and this input has sizes {list(input.shape)}")
    pairs = F.triu_indices(input.shape[0], input.shape[0], 1)
    first, second = (F.index_select(input, 0, index) for index in F.unbind(pairs, 0))
    return F.linalg_vector_norm(first - second, p, [1])


# -- losses --------------------------------------------------------------------------------------------------------


def _tell_of_sizes(name: str, input: Any, target: Any) -> None:
    if input.shape != target.shape:
        told = f"{name} of an input and a target of other sizes, {list(input.shape)} and {list(target.shape)}"
        warnings.warn(f"{told}: they are broadcast, which may not be meant", stacklevel=3)


def l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """``|input - target|``, reduced.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    _tell_of_sizes("l1_loss", input, target)
    return F.l1_loss(input, target, reduction_code(size_average, reduce, reduction))


def mse_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """``(input - target)²``, reduced.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    >>> import jit
    >>> jit.nn.functional.mse_loss(jit.zeros(4), jit.ones(4) * 2).item()
    4.0
    """
    _tell_of_sizes("mse_loss", input, target)
    return F.mse_loss(input, target, reduction_code(size_average, reduce, reduction))


def smooth_l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Any:  # fmt: skip
    """A parabola near zero, ``d² / (2 * beta)``, then ``d - beta / 2``, for ``d = |input - target|``; reduced.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        beta: Where the parabola ends; 0 gives `l1_loss`.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    _tell_of_sizes("smooth_l1_loss", input, target)
    return F.smooth_l1_loss(input, target, reduction_code(size_average, reduce, reduction), beta)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """`smooth_l1_loss` times delta.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        delta: Where the parabola ends, above 0.
    """
    _tell_of_sizes("huber_loss", input, target)
    return F.huber_loss(input, target, reduction_code(None, None, reduction), delta)


def nll_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Minus the log-probability of the target class, reduced.

    Args:
        input: Log-probabilities `[N, C]`, `[C]` or `[N, C, ...]`.
        target: Classes `[N]`, `[]` or `[N, ...]`.
        weight: A weight per class, or None.
        ignore_index: Targets of this value count nothing.
        reduction: "none", "mean" (weighted) or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    return F.nll_loss_nd(input, target, weight, reduction_code(size_average, reduce, reduction), ignore_index)


def cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """`nll_loss` of `log_softmax`.

    Args:
        input: Logits `[N, C]`, `[C]` or `[N, C, ...]`.
        target: Classes `[N]`, `[]` or `[N, ...]`; or probabilities of input's sizes.
        weight: A weight per class, or None.
        ignore_index: Targets of this value count nothing.
        reduction: "none", "mean" (weighted) or "sum".
        label_smoothing: The share of the target that is spread evenly over all classes.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    >>> import jit
    >>> round(jit.nn.functional.cross_entropy(jit.zeros(2, 4), jit.tensor([1, 3])).item(), 4)
    1.3863
    """
    code = reduction_code(size_average, reduce, reduction)
    return F.cross_entropy_loss(input, target, weight, code, ignore_index, label_smoothing)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """``-(target * log(input) + (1 - target) * log(1 - input))``, reduced; logarithms are cut off at -100.

    Args:
        input: Probabilities, from 0 to 1.
        target: The wanted probabilities, of the same sizes.
        weight: A weight per element, which is broadcast, or None.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    return F.binary_cross_entropy(input, target, weight, reduction_code(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", pos_weight: Any = None,
) -> Any:  # fmt: skip
    """`binary_cross_entropy` of ``sigmoid(input)``, right for large logits too.

    Args:
        input: Logits.
        target: The wanted probabilities, of the same sizes.
        weight: A weight per element, which is broadcast, or None.
        reduction: "none", "mean" or "sum".
        pos_weight: A factor of the term of ``target``, which is broadcast, or None.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    >>> import jit
    >>> round(jit.nn.functional.binary_cross_entropy_with_logits(jit.zeros(3), jit.ones(3)).item(), 4)
    0.6931
    """
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, reduction_code(size_average, reduce, reduction)
    )


def kl_div(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    log_target: bool = False,
) -> Any:  # fmt: skip
    """``target * (log(target) - input)``, reduced; "batchmean" divides the sum by the first size.

    Args:
        input: Logarithms of the probabilities of a model.
        target: The probabilities that they should be, of the same sizes.
        reduction: "none", "mean" (by all elements, with a warning), "batchmean" or "sum".
        log_target: Whether targets are logarithms, too.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    if reduction == "mean":
        told = "kl_div with reduction='mean' divides by the number of elements, and the divergence by that of samples"
        warnings.warn(f"{told}; say reduction='batchmean'", stacklevel=2)
    if reduction == "batchmean":
        return F.kl_div(input, target, REDUCTIONS["sum"], log_target=log_target) / input.shape[0]
    return F.kl_div(input, target, reduction_code(size_average, reduce, reduction), log_target=log_target)
