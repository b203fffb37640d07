"""What views, joins, products, convolutions, pools, norms, losses and indexing should compute, in float64 numpy.

Each function takes the operator's arguments in the order of its schema and says the definition as plainly as it can:
loops over places where the operators under test use matrix products, differences of the definition (by complex numbers,
which lose no digits) where they use formulas of a gradient.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.special

# -- helpers -----------------------------------------------------------------------------------------------------


def adjoint(linear: Callable[[Any], Any], shape: Any, g: Any) -> Any:
    """The transpose of a linear function of an array of `shape`, applied to `g`."""
    out = np.zeros(shape)
    for place in np.ndindex(*shape):
        unit = np.zeros(shape)
        unit[place] = 1
        out[place] = np.sum(linear(unit) * g)
    return out


def gradient(function: Callable[..., Any], g: Any, arguments: Any, number: int) -> Any:
    """The gradient of sum(function(*arguments) * g) by one argument, by a step into the complex plane."""
    values = [np.asarray(a, complex) for a in arguments]
    out = np.zeros(values[number].shape)
    for place in np.ndindex(*out.shape):
        moved = [v.copy() for v in values]
        moved[number][place] += 1e-30j
        out[place] = np.sum(function(*moved) * g).imag / 1e-30
    return out


def assigned(base: Any, key: Any, source: Any) -> Any:
    out = np.array(base)
    out[key] = source
    return out


def at_dim(dim: int, ndim: int, key: Any) -> tuple[Any, ...]:
    return (slice(None),) * (dim % ndim) + (key,)


# -- views -------------------------------------------------------------------------------------------------------


def flatten(self: Any, start: int, end: int) -> Any:
    if self.ndim == 0:
        return self.reshape(1)
    a, b = start % self.ndim, end % self.ndim
    return self.reshape(*self.shape[:a], math.prod(self.shape[a : b + 1]), *self.shape[b + 1 :])


def unflatten(self: Any, dim: int, sizes: Any) -> Any:
    at = dim % self.ndim
    return self.reshape(*self.shape[:at], *sizes, *self.shape[at + 1 :])


def expand(self: Any, size: Any, implicit: bool = False) -> Any:
    lead = len(size) - self.ndim
    return np.broadcast_to(self, [self.shape[i - lead] if s == -1 else s for i, s in enumerate(size)])


def squeeze(self: Any, dims: Any) -> Any:
    return np.squeeze(self, tuple(d for d in dims if self.ndim and self.shape[d] == 1))


def pieces(self: Any, lengths: Any, dim: int) -> list[Any]:
    return np.split(self, np.cumsum(lengths)[:-1], dim)


def split(self: Any, size: int, dim: int) -> list[Any]:
    length = self.shape[dim]
    return pieces(self, [min(size, length - i) for i in range(0, length, size)] or [0], dim)


def chunk(self: Any, chunks: int, dim: int) -> list[Any]:
    length = math.ceil(self.shape[dim] / chunks)
    return split(self, length, dim) if length else [self] * chunks


def unfold(self: Any, dim: int, size: int, step: int) -> Any:
    if self.ndim == 0:
        return self.reshape(1)
    windows = np.lib.stride_tricks.sliding_window_view(self, size, dim % self.ndim)
    return windows[at_dim(dim, self.ndim, slice(None, None, step))]


def storage_places(size: Any, stride: Any, offset: int) -> Any:
    places = np.empty(size, int)
    for index in np.ndindex(*size):
        places[index] = offset + sum(i * s for i, s in zip(index, stride, strict=True))
    return places


def as_strided(self: Any, size: Any, stride: Any, offset: Any) -> Any:
    return self.ravel()[storage_places(size, stride, offset or 0)]


def strided_gather(self: Any, self_size: Any, self_stride: Any, size: Any, stride: Any, offset: int) -> Any:
    """What a window shows of a storage that holds `self`, an element shown several times being their mean."""
    cells: dict[int, list[float]] = {}
    for place, value in zip(storage_places(self_size, self_stride, 0).ravel(), self.ravel(), strict=True):
        cells.setdefault(int(place), []).append(value)
    window = storage_places(size, stride, offset)
    return np.array([np.mean(cells.get(int(p), [0.0])) for p in window.ravel()]).reshape(window.shape)


def diagonal_scatter(self: Any, src: Any, offset: int, dim1: int, dim2: int) -> Any:
    places = np.diagonal(np.arange(self.size).reshape(self.shape), offset, dim1, dim2)
    return assigned(self.ravel(), places.ravel(), src.ravel()).reshape(self.shape)


def slice_of(dim: int, ndim: int, start: Any, end: Any, step: int) -> Any:
    return at_dim(dim, ndim, slice(start, end, step))


def elements_shown(self_size: Any, self_stride: Any, size: Any, stride: Any, offset: int) -> Any:
    """Which element each element of a window is: the one whose place in the storage is the same."""
    owner = {int(p): i for i, p in enumerate(storage_places(self_size, self_stride, 0).ravel())}
    window = storage_places(size, stride, offset)
    return np.array([owner[int(p)] for p in window.ravel()], int).reshape(window.shape)


VIEWS: dict[str, Any] = {
    "aten::view": lambda self, size: self.reshape(size),
    "aten::view.dtype": lambda self, dtype: self.astype(np.float32).view(dtype.numpy),
    "aten::_view_bytes": lambda self, dtype, old, new: self.astype(np.float32).view(dtype.numpy),
    "aten::reshape": lambda self, shape: self.reshape(shape),
    "aten::view_as": lambda self, other: self.reshape(other.shape),
    "aten::reshape_as": lambda self, other: self.reshape(other.shape),
    "aten::flatten.using_ints": flatten,
    "aten::unflatten.int": unflatten,
    "aten::contiguous": lambda self, memory_format: self,
    "aten::transpose.int": lambda self, a, b: np.swapaxes(self, a, b) if self.ndim else self,
    "aten::t": lambda self: self.T,
    "aten::permute": np.transpose,
    "aten::movedim.intlist": np.moveaxis,
    "aten::movedim.int": lambda self, a, b: np.moveaxis(self, a, b) if self.ndim else self,
    "aten::expand": expand,
    "aten::expand_as": lambda self, other: np.broadcast_to(self, other.shape),
    "aten::broadcast_to": expand,
    "aten::squeeze": np.squeeze,
    "aten::squeeze.dim": lambda self, dim: squeeze(self, [dim]),
    "aten::squeeze.dims": squeeze,
    "aten::unsqueeze": np.expand_dims,
    "aten::select.int": lambda self, dim, index: np.take(self, index, dim),
    "aten::slice.Tensor": lambda self, dim, *key: self[slice_of(dim, self.ndim, *key)],
    "aten::narrow": lambda self, dim, start, length: np.take(self, range(start, start + length), dim),
    "aten::split.Tensor": split,
    "aten::split_with_sizes": pieces,
    "aten::split.sizes": pieces,
    "aten::chunk": chunk,
    "aten::unbind.int": lambda self, dim: [np.take(self, i, dim) for i in range(self.shape[dim])],
    "aten::tensor_split.sections": np.array_split,
    "aten::tensor_split.indices": np.array_split,
    "aten::unfold": unfold,
    "aten::diagonal": np.diagonal,
    "aten::as_strided": as_strided,
    "aten::alias": lambda self: self,
    "aten::detach": lambda self: self,
}

SCATTERS: dict[str, Any] = {
    "aten::select_scatter": lambda self, src, dim, i: assigned(self, at_dim(dim, self.ndim, i), src),
    "aten::select_backward": lambda g, sizes, dim, i: assigned(np.zeros(sizes), at_dim(dim, len(sizes), i), g),
    "aten::slice_scatter": lambda self, src, dim, *key: assigned(self, slice_of(dim, self.ndim, *key), src),
    "aten::slice_backward": lambda g, sizes, dim, *key: assigned(np.zeros(sizes), slice_of(dim, len(sizes), *key), g),
    "aten::diagonal_scatter": diagonal_scatter,
    "aten::diagonal_backward": lambda g, sizes, *rest: diagonal_scatter(np.zeros(sizes), g, *rest),
    "aten::unfold_backward": lambda g, sizes, *rest: adjoint(lambda x: unfold(x, *rest), sizes, g),
    "aten::as_strided_scatter": lambda self, src, size, stride, offset: assigned(
        self.ravel(), storage_places(size, stride, offset or 0), src
    ).reshape(self.shape),
    "aten::as_strided_gather": strided_gather,
    "aten::as_strided_of": lambda self, *geometry: self.ravel()[elements_shown(*geometry)],
    "aten::as_strided_put": lambda self, src, *geometry: assigned(self.ravel(), elements_shown(*geometry), src).reshape(
        self.shape
    ),
    "aten::as_strided_backward": lambda g, self_size, *rest: adjoint(
        lambda x: strided_gather(x, self_size, *rest), self_size, g
    ),
}

# -- joining -----------------------------------------------------------------------------------------------------


def cat(tensors: Any, dim: int) -> Any:
    return np.concatenate([t for t in tensors if t.shape != (0,)], dim)


def constant_pad(self: Any, pad: Any, value: Any) -> Any:
    pairs = [(0, 0)] * (self.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    padded = np.pad(self, [(max(a, 0), max(b, 0)) for a, b in pairs], constant_values=value)
    return padded[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(padded.shape, pairs, strict=True))]


def edge_pad(self: Any, pad: Any, mode: str) -> Any:
    pairs = [(0, 0)] * (self.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    modes: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    cut = self[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(self.shape, pairs))]
    return np.pad(cut, [(max(a, 0), max(b, 0)) for a, b in pairs], modes[mode])


def pad(self: Any, pad: Any, mode: str, value: Any) -> Any:
    return constant_pad(self, pad, value or 0) if mode == "constant" else edge_pad(self, pad, mode)


def meshgrid(tensors: Any, indexing: Any) -> list[Any]:
    return list(np.meshgrid(*tensors, indexing=indexing))


def pixel_shuffle(self: Any, r: int) -> Any:
    n, c, h, w = self.shape
    out = np.empty((n, c // (r * r), h * r, w * r))
    for b, k, y, x in np.ndindex(*out.shape):
        out[b, k, y, x] = self[b, k * r * r + (y % r) * r + x % r, y // r, x // r]
    return out


def pixel_unshuffle(self: Any, r: int) -> Any:
    n, c, h, w = self.shape
    out = np.empty((n, c * r * r, h // r, w // r))
    for b, k, y, x in np.ndindex(*self.shape):
        out[b, k * r * r + (y % r) * r + x % r, y // r, x // r] = self[b, k, y, x]
    return out


JOINING: dict[str, Any] = {
    "aten::cat": cat,
    "aten::stack": np.stack,
    "aten::hstack": np.hstack,
    "aten::vstack": np.vstack,
    "aten::constant_pad_nd": constant_pad,
    "aten::edge_pad_nd": edge_pad,
    "aten::edge_pad_nd_backward": lambda g, sizes, *rest: adjoint(lambda x: edge_pad(x, *rest), sizes, g),
    "aten::pad": pad,
    "aten::flip": lambda self, dims: np.flip(self, dims) if dims else self,
    "aten::roll": lambda self, shifts, dims: np.roll(self, shifts, dims) if dims else np.roll(self, shifts[0]),
    "aten::repeat": np.tile,
    "aten::tile": np.tile,
    "aten::repeat_interleave.self_int": lambda self, repeats, dim, output_size: np.repeat(self, repeats, dim),
    "aten::repeat_interleave.Tensor": lambda repeats, output_size: np.repeat(np.arange(len(repeats)), repeats),
    "aten::meshgrid.indexing": meshgrid,
    "aten::broadcast_tensors": lambda tensors: list(np.broadcast_arrays(*tensors)),
    "aten::pixel_shuffle": pixel_shuffle,
    "aten::pixel_unshuffle": pixel_unshuffle,
}

# -- products ----------------------------------------------------------------------------------------------------


def plus(product: Callable[[Any, Any], Any]) -> Any:
    return lambda self, a, b, beta, alpha: beta * self + alpha * product(a, b)


def linear(input: Any, weight: Any, bias: Any) -> Any:
    return np.tensordot(input, weight, (-1, -1)) + (0 if bias is None else bias)


def bilinear(a: Any, b: Any, weight: Any, bias: Any) -> Any:
    return np.stack([np.sum((a @ w) * b, -1) for w in weight], -1) + bias


def cosine_similarity(a: Any, b: Any, dim: int, eps: float) -> Any:
    a, b = np.broadcast_arrays(a, b)
    norms = [np.maximum(np.linalg.norm(x, axis=dim), eps) for x in (a, b)]
    return np.sum(a * b, dim) / (norms[0] * norms[1])


def scores_of(query: Any, key: Any, mask: Any, causal: bool, scale: float) -> Any:
    scores = np.einsum("...qd,...kd->...qk", query, key) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    if mask is not None:
        scores = scores + (np.where(mask, 0, -np.inf) if mask.dtype == bool else mask)
    return scores


def attention(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> Any:
    scores = scores_of(query, key, mask, causal, query.shape[-1] ** -0.5 if scale is None else scale)
    unseen = np.isneginf(scores).all(-1, keepdims=True)
    return np.where(unseen, 0, scipy.special.softmax(np.where(unseen, 0, scores), -1)) @ value


def attended(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float, dtype: Any) -> Any:
    scores = scores_of(q, k, mask, causal, scale)
    logsumexp = scipy.special.logsumexp(scores, -1)
    return attention(q, k, v, mask, 0.0, causal, scale, False), np.where(np.isneginf(logsumexp), np.inf, logsumexp)


def attended_backward(
    g: Any, q: Any, k: Any, v: Any, logsumexp: Any, rowsum: Any, mask: Any, causal: bool, scale: float, wanted: Any
) -> Any:
    weights = np.exp(scores_of(q, k, mask, causal, scale) - logsumexp[..., None])
    by_scores = scale * weights * (np.einsum("...qd,...kd->...qk", g, v) - rowsum[..., None])
    found = by_scores @ k, np.einsum("...qk,...qd->...kd", by_scores, q), np.einsum("...qk,...qd->...kd", weights, g)
    return tuple(each if is_wanted else None for each, is_wanted in zip(found, wanted, strict=True))


def products(equation: str, tensors: Any, *path: Any) -> Any:
    return np.einsum(equation, *tensors)


LINALG: dict[str, Any] = {
    "aten::mm": lambda a, b: np.einsum("ij,jk->ik", a, b),
    "aten::bmm": lambda a, b: np.einsum("bij,bjk->bik", a, b),
    "aten::mv": lambda a, b: np.einsum("ij,j->i", a, b),
    "aten::dot": lambda a, b: np.sum(a * b),
    "aten::outer": np.outer,
    "aten::addmm": plus(np.matmul),
    "aten::baddbmm": plus(np.matmul),
    "aten::addmv": plus(np.matmul),
    "aten::addr": plus(np.outer),
    "aten::addbmm": plus(lambda a, b: (a @ b).sum(0)),
    "aten::matmul": np.matmul,
    "aten::linear": linear,
    "aten::bilinear": bilinear,
    "aten::tensordot": lambda a, b, left, right: np.tensordot(a, b, (left, right)),
    "aten::einsum": products,
    "aten::sum_of_products": products,
    "aten::cosine_similarity": cosine_similarity,
    "aten::pairwise_distance": lambda a, b, p, eps, keep: np.linalg.norm(a - b + eps, p, -1, keep),
    "aten::scaled_dot_product_attention": attention,
    "aten::_attend": attended,
    "aten::_attend_backward": attended_backward,
}

# -- convolutions ------------------------------------------------------------------------------------------------


def each(values: Any, n: int) -> Any:
    return tuple(values) * n if len(values) == 1 else tuple(values)


def meetings(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, places: Any, groups: int) -> Iterator[Any]:
    """(index into x, into w, into y) of every product of a plain convolution y = conv(x, w), by their sizes."""
    filters, channels = w[:2]
    for n, o, c in itertools.product(range(x[0]), range(filters), range(channels)):
        for place, tap in itertools.product(np.ndindex(*places), np.ndindex(*w[2:])):
            steps = zip(place, tap, stride, padding, dilation, strict=True)
            at = tuple(p * s + t * d - pad for p, t, s, pad, d in steps)
            if all(0 <= i < size for i, size in zip(at, x[2:], strict=True)):
                yield (n, o // (filters // groups) * channels + c, *at), (o, c, *tap), (n, o, *place)


def convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    n = input.ndim - 2
    stride, padding, dilation, extra = (each(v, n) for v in (stride, padding, dilation, output_padding))
    spans = list(zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, extra, strict=True))
    if transposed:
        sizes = [(i - 1) * s - 2 * p + d * (k - 1) + 1 + e for i, k, s, p, d, e in spans]
        out = np.zeros((input.shape[0], weight.shape[1] * groups, *sizes))
        for large, tap, small in meetings(out.shape, weight.shape, stride, padding, dilation, input.shape[2:], groups):
            out[large] += input[small] * weight[tap]
    else:
        sizes = [(i + 2 * p - d * (k - 1) - 1) // s + 1 for i, k, s, p, d, _ in spans]
        out = np.zeros((input.shape[0], weight.shape[0], *sizes))
        for large, tap, small in meetings(input.shape, weight.shape, stride, padding, dilation, sizes, groups):
            out[small] += input[large] * weight[tap]
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def convolution_backward(
    g: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, mask: Any,
) -> Any:  # fmt: skip
    n = input.ndim - 2
    stride, padding, dilation = (each(v, n) for v in (stride, padding, dilation))
    by_input, by_weight = np.zeros(input.shape), np.zeros(weight.shape)
    image, places = (g.shape, input.shape[2:]) if transposed else (input.shape, g.shape[2:])
    for large, tap, small in meetings(image, weight.shape, stride, padding, dilation, places, groups):
        inner, outer = (small, large) if transposed else (large, small)
        by_input[inner] += g[outer] * weight[tap]
        by_weight[tap] += g[outer] * input[inner]
    results = by_input, by_weight, g.sum((0, *range(2, g.ndim)))
    return [r if wanted else None for r, wanted in zip(results, mask, strict=True)]


def convolution_double_backward(by_x: Any, by_w: Any, by_bias: Any, g: Any, weight: Any, input: Any, *rest: Any) -> Any:
    """Along g, input and weight: the derivative of <by_x, bx> + <by_w, bw> + <by_bias, bb>, of the three results."""
    settings: Any = rest[:-1]
    along_g = 0 if by_bias is None else np.broadcast_to(by_bias.reshape(1, -1, *[1] * (g.ndim - 2)), g.shape)
    along_x = along_w = None
    masks: Any = ([True] * 3,)
    if by_x is not None:
        along_g = along_g + convolution(by_x, weight, None, *settings)
        along_w = convolution_backward(g, by_x, weight, None, *settings, *masks)[1]
    if by_w is not None:
        along_g = along_g + convolution(input, by_w, None, *settings)
        along_x = convolution_backward(g, input, by_w, None, *settings, *masks)[0]
    results = along_g, along_x, along_w
    return [r if wanted else None for r, wanted in zip(results, rest[-1], strict=True)]


def batched(n: int, function: Callable[..., Any]) -> Any:
    return lambda x, *rest: function(x, *rest) if x.ndim == n + 2 else function(x[None], *rest)[0]


def conv(n: int) -> Any:
    def run(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        return convolution(x, w, b, stride, padding, dilation, False, [0], groups)

    return batched(n, run)


def conv_named(n: int) -> Any:
    def run(x: Any, w: Any, b: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
        if padding == "same":
            totals = [d * (k - 1) for d, k in zip(each(dilation, n), w.shape[2:], strict=True)]
            x = np.pad(x, [(0, 0), (0, 0), *((t // 2, t - t // 2) for t in totals)])
        return convolution(x, w, b, stride, [0], dilation, False, [0], groups)

    return batched(n, run)


def conv_transpose(n: int) -> Any:
    def run(x: Any, w: Any, b: Any, stride: Any, padding: Any, extra: Any, groups: int, dilation: Any) -> Any:
        return convolution(x, w, b, stride, padding, dilation, True, extra, groups)

    return batched(n, run)


CONVOLUTIONS: dict[str, Any] = {
    "aten::convolution": convolution,
    "aten::convolution_backward": convolution_backward,
    "aten::_convolution": lambda *arguments: convolution(*arguments[:9]),
    "aten::_convolution_nogroup": partial(convolution, groups=1),
    "aten::_convolution_double_backward": convolution_double_backward,
    **{f"aten::conv{n}d": conv(n) for n in (1, 2, 3)},
    **{f"aten::conv{n}d.padding": conv_named(n) for n in (1, 2, 3)},
    "aten::conv_tbc": lambda x, weight, bias, pad: np.moveaxis(
        convolution(x.transpose(1, 2, 0), weight.transpose(2, 1, 0), bias, [1], [pad], [1], False, [0], 1), -1, 0
    ),
    "aten::conv_transpose1d": conv_transpose(1),
    "aten::conv_transpose2d.input": conv_transpose(2),
    "aten::conv_transpose3d.input": conv_transpose(3),
}

# -- pools -------------------------------------------------------------------------------------------------------


def windows(
    sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], int]]:
    """(place, the entries of the image inside its window, how many entries the window has with the padding)."""
    n = len(sizes)
    kernel, padding, dilation = each(kernel, n), each(padding, n), each(dilation, n)
    stride = each(stride or kernel, n)
    counts = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        count = 0
        while count * s < size + p and count * s + (1 if ceil else d * (k - 1) + 1) <= size + 2 * p:
            count += 1
        if ceil:  # the first window that reaches the end is the last one
            whole = [i for i in range(count) if i * s + d * (k - 1) + 1 >= size + 2 * p]
            count = whole[0] + 1 if whole else count
        counts.append(count)
    for place in np.ndindex(*counts):
        lines, lengths = [], 1
        for at, size, k, s, p, d in zip(place, sizes, kernel, stride, padding, dilation, strict=True):
            entries = [at * s - p + i * d for i in range(k)]
            lines.append([e for e in entries if 0 <= e < size])
            lengths *= sum(e < size + p for e in entries)
        yield place, list(itertools.product(*lines)), lengths


def max_pool(n: int) -> Any:
    def run(self: Any, *geometry: Any) -> Any:
        sizes = self.shape[-n:]
        found = list(windows(sizes, *geometry))
        shape = (*self.shape[:-n], *(max(place[d] for place, *_ in found) + 1 for d in range(n)))
        values, places = np.empty(shape), np.empty(shape, int)
        for lead in np.ndindex(*self.shape[:-n]):
            for place, inside, _ in found:
                best = max(inside, key=lambda at: self[lead + at])
                values[lead + place], places[lead + place] = self[lead + best], np.ravel_multi_index(best, sizes)
        return values, places

    return run


def unpool(n: int) -> Any:
    """The gradient of a maximum: each entry goes to where the maximum was taken from."""

    def run(g: Any, self: Any, *rest: Any) -> Any:
        places = rest[-1]
        out = np.zeros((math.prod(self.shape[:-n]), math.prod(self.shape[-n:])))
        rows = zip(g.reshape(len(out), -1), places.reshape(len(out), -1), strict=True)
        for row, (values, wheres) in enumerate(rows):
            for value, where in zip(values, wheres, strict=True):
                out[row, where] += value
        return out.reshape(self.shape)

    return run


def avg_pool(n: int) -> Any:
    def run(
        self: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, include_pad: bool, divisor: Any = None
    ) -> Any:
        found = list(windows(self.shape[-n:], kernel, stride, padding, [1], ceil))
        shape = (*self.shape[:-n], *(max(place[d] for place, *_ in found) + 1 for d in range(n)))
        out = np.empty(shape)
        for lead in np.ndindex(*self.shape[:-n]):
            for place, inside, length in found:
                total = sum(self[lead + at] for at in inside)
                out[lead + place] = total / (divisor or (length if include_pad else len(inside)))
        return out

    return run


def adaptive_windows(sizes: Any, counts: Any) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    for place in np.ndindex(*counts):
        spans = zip(place, sizes, counts, strict=True)
        yield place, tuple(slice(math.floor(i * s / c), math.ceil((i + 1) * s / c)) for i, s, c in spans)


def adaptive_avg(n: int) -> Any:
    def run(self: Any, output_size: Any) -> Any:
        counts = each(output_size, n)
        out: Any = np.empty((*self.shape[:-n], *counts))
        for place, where in adaptive_windows(self.shape[-n:], counts):
            out[(..., *place)] = self[(..., *where)].mean(tuple(range(-n, 0)))
        return out

    return run


def adaptive_max(n: int) -> Any:
    def run(self: Any, output_size: Any) -> Any:
        counts, sizes = each(output_size, n), self.shape[-n:]
        values, places = np.empty((*self.shape[:-n], *counts)), np.empty((*self.shape[:-n], *counts), int)
        numbers = np.arange(math.prod(sizes)).reshape(sizes)
        for place, where in adaptive_windows(sizes, counts):
            for lead in np.ndindex(*self.shape[:-n]):
                window = self[lead][where]
                values[lead + place] = window.max()
                places[lead + place] = numbers[where].ravel()[window.argmax()]
        return values, places

    return run


def adaptive_avg_backward(n: int) -> Any:
    return lambda g, self: adjoint(lambda x: adaptive_avg(n)(x, g.shape[-n:]), self.shape, g)


POOLS: dict[str, Any] = {
    **{f"aten::max_pool{n}d_with_indices": max_pool(n) for n in (2, 3)},
    **{f"aten::max_pool{n}d_with_indices_backward": unpool(n) for n in (2, 3)},
    "aten::max_pool1d": lambda *arguments: max_pool(1)(*arguments)[0],
    "aten::max_pool2d": lambda *arguments: max_pool(2)(*arguments)[0],
    "aten::max_pool3d": lambda *arguments: max_pool(3)(*arguments)[0],
    **{f"aten::avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
    "aten::avg_pool2d_backward": lambda g, self, *rest: adjoint(lambda x: avg_pool(2)(x, *rest), self.shape, g),
    "aten::avg_pool3d_backward": lambda g, self, *rest: adjoint(lambda x: avg_pool(3)(x, *rest), self.shape, g),
    **{f"aten::adaptive_avg_pool{n}d": adaptive_avg(n) for n in (1, 2, 3)},
    **{f"aten::_adaptive_avg_pool{n}d_backward": adaptive_avg_backward(n) for n in (2, 3)},
    **{f"aten::adaptive_max_pool{n}d": adaptive_max(n) for n in (1, 2, 3)},
    **{f"aten::adaptive_max_pool{n}d_backward": unpool(n) for n in (2, 3)},
}

# -- norms -------------------------------------------------------------------------------------------------------


def normalised(x: Any, weight: Any, bias: Any, dims: Any, eps: float) -> Any:
    """Written so that complex numbers pass through."""
    centered = x - x.mean(dims, keepdims=True)
    return centered / ((centered * centered).mean(dims, keepdims=True) + eps) ** 0.5 * weight + bias


def column(vector: Any, x: Any, default: float) -> Any:
    values = np.full(x.shape[1], default) if vector is None else vector
    return values.reshape(-1, *[1] * (x.ndim - 2))


def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, *_: Any
) -> Any:
    dims = (0, *range(2, x.ndim))
    w, b = column(weight, x, 1), column(bias, x, 0)
    if training:
        return normalised(x, w, b, dims, eps), x.mean(dims), 1 / np.sqrt(x.var(dims) + eps)
    return (x - column(mean, x, 0)) / np.sqrt(column(var, x, 1) + eps) * w + b, np.zeros(0), np.zeros(0)


def batch_norm_backward(
    g: Any, x: Any, weight: Any, mean: Any, var: Any, saved_mean: Any, saved_r: Any, train: bool, eps: float, mask: Any
) -> list[Any]:
    n, w = x.ndim, np.ones(x.shape[1]) if weight is None else weight

    def forward(x: Any, w: Any, b: Any) -> Any:
        shape = (-1, *[1] * (n - 2))
        if train:
            return normalised(x, w.reshape(shape), b.reshape(shape), (0, *range(2, n)), eps)
        y = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + eps)
        return y * w.reshape(shape) + b.reshape(shape)

    arguments = x, w, np.zeros(x.shape[1])
    return [gradient(forward, g, arguments, i) if mask[i] else None for i in range(3)]


def layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float, *_: Any) -> Any:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    y = normalised(x, 1 if weight is None else weight, 0 if bias is None else bias, dims, eps)
    return y, x.mean(dims, keepdims=True), 1 / np.sqrt(x.var(dims, keepdims=True) + eps)


def layer_norm_backward(
    g: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, eps: float, mask: Any
) -> list[Any]:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    w = np.ones(shape) if weight is None else weight
    arguments = x, w, np.zeros(shape)

    def forward(x: Any, w: Any, b: Any) -> Any:
        return normalised(x, w, b, dims, eps)

    return [gradient(forward, g, arguments, i) if mask[i] else None for i in range(3)]


def instance_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input: bool, *rest: Any) -> Any:
    return normalised(x, column(weight, x, 1), column(bias, x, 0), tuple(range(2, x.ndim)), rest[1])


def group_norm(x: Any, groups: int, weight: Any, bias: Any, eps: float, enabled: bool) -> Any:
    y = normalised(x.reshape(x.shape[0], groups, -1), 1, 0, (2,), eps).reshape(x.shape)
    return y * column(weight, x, 1) + column(bias, x, 0)


def rms_norm(x: Any, shape: Any, weight: Any, eps: Any) -> Any:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    size = (
        np.sqrt((x * x).mean(dims, keepdims=True) + eps)
        if eps is not None
        else np.sqrt((x * x).mean(dims, keepdims=True) + 2.0**-23)
    )
    return x / size * (1 if weight is None else weight)


def local_response_norm(x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    out = np.empty(x.shape)
    for channel in range(x.shape[1]):
        near = x[:, max(0, channel - size // 2) : channel + (size - 1) // 2 + 1]
        out[:, channel] = x[:, channel] / (k + alpha / size * (near * near).sum(1)) ** beta
    return out


NORMS: dict[str, Any] = {
    "aten::native_batch_norm": batch_norm,
    "aten::native_batch_norm_backward": batch_norm_backward,
    "aten::batch_norm": lambda x, *rest: batch_norm(x, *rest)[0] if x.ndim > 1 else x,
    "aten::instance_norm": instance_norm,
    "aten::native_layer_norm": layer_norm,
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::layer_norm": lambda *arguments: layer_norm(*arguments)[0],
    "aten::group_norm": group_norm,
    "aten::rms_norm": rms_norm,
    "aten::normalize": lambda x, p, dim, eps: x / np.maximum(np.linalg.norm(x, p, dim, True), eps),
    "aten::local_response_norm": local_response_norm,
}

# -- losses ------------------------------------------------------------------------------------------------------


def reduced(losses: Any, reduction: int) -> Any:
    return [losses, np.mean(losses), np.sum(losses)][reduction]


def smooth_l1(a: Any, b: Any, reduction: int, beta: float) -> Any:
    d = np.abs(a - b)
    return reduced(np.piecewise(d, [d < beta], [lambda d: d * d / (2 * beta), lambda d: d - beta / 2]), reduction)


def huber(a: Any, b: Any, reduction: int, delta: float) -> Any:
    return delta * smooth_l1(a, b, reduction, delta)


def cross_entropy_of_probabilities(x: Any, t: Any, weight: Any, reduction: int) -> Any:
    losses = -(t * np.maximum(np.log(x), -100) + (1 - t) * np.maximum(np.log1p(-x), -100))
    return reduced(losses * (1 if weight is None else weight), reduction)


def cross_entropy_of_logits(x: Any, t: Any, weight: Any, positive: Any, reduction: int) -> Any:
    yes, no = -np.logaddexp(0, -x), -np.logaddexp(0, x)
    losses = -(t * yes * (1 if positive is None else positive) + (1 - t) * no)
    return reduced(losses * (1 if weight is None else weight), reduction)


def kl_div(x: Any, t: Any, reduction: int, log_target: bool) -> Any:
    p = np.exp(t) if log_target else t
    return reduced(p * (np.log(p) - x), reduction)


def nll(x: Any, target: Any, weight: Any, reduction: int, ignore: int) -> tuple[Any, float]:
    single = x.ndim == 1
    x, target = (x[None], target[None]) if single else (x, target)
    losses, total = np.zeros(target.shape), 0.0
    for place in np.ndindex(*target.shape):
        c = target[place]
        if c != ignore:
            w = 1.0 if weight is None else weight[c]
            losses[place] = -w * x[(place[0], c, *place[1:])]
            total += w
    if reduction == 0:
        return losses[0] if single else losses, total
    return losses.sum() / (total if reduction == 1 else 1), total


def nll_backward(g: Any, x: Any, target: Any, weight: Any, reduction: int, ignore: int, total: Any) -> Any:
    return adjoint(lambda x: nll(x, target, weight, reduction, ignore)[0], x.shape, g)


def cross_entropy(x: Any, target: Any, weight: Any, reduction: int, ignore: int, smoothing: float) -> Any:
    """Against the distribution that smoothing makes of the classes."""
    dim = min(1, x.ndim - 1)
    classes = x.shape[dim]
    log_p = np.moveaxis(scipy.special.log_softmax(x, dim), dim, -1)
    w = np.ones(classes) if weight is None else weight
    if target.dtype.kind == "f":
        q = np.moveaxis(target, dim, -1) * (1 - smoothing) + smoothing / classes
        losses = -(q * w * log_p).sum(-1)
        return reduced(losses, reduction)
    valid = target != ignore
    q = np.eye(classes)[np.where(valid, target, 0)] * (1 - smoothing) + smoothing / classes
    losses = np.where(valid, -(q * w * log_p).sum(-1), 0)
    if reduction == 1:
        return losses.sum() / (valid * w[np.where(valid, target, 0)]).sum()
    return losses if reduction == 0 else losses.sum()


LOSSES: dict[str, Any] = {
    "aten::mse_loss": lambda a, b, reduction: reduced((a - b) ** 2, reduction),
    "aten::mse_loss_backward": lambda g, a, b, reduction: 2 * (a - b) * g / (a.size if reduction == 1 else 1),
    "aten::l1_loss": lambda a, b, reduction: reduced(np.abs(a - b), reduction),
    "aten::smooth_l1_loss": smooth_l1,
    "aten::huber_loss": huber,
    "aten::binary_cross_entropy": cross_entropy_of_probabilities,
    "aten::binary_cross_entropy_with_logits": cross_entropy_of_logits,
    "aten::kl_div": kl_div,
    "aten::nll_loss_forward": nll,
    "aten::nll_loss_backward": nll_backward,
    **{f"aten::nll_loss{kind}": lambda *arguments: nll(*arguments)[0] for kind in ("", "2d", "_nd")},
    "aten::cross_entropy_loss": cross_entropy,
}

# -- indexing ----------------------------------------------------------------------------------------------------


def with_dims(function: Callable[..., Any]) -> Any:
    """A function of (self, dim, index, ...) that may take 0-d arrays as vectors of one."""

    def run(self: Any, dim: int, index: Any, *rest: Any) -> Any:
        if self.ndim:
            return function(self, dim, index, *rest)
        rest = tuple(r.reshape(1) if isinstance(r, np.ndarray) and r.ndim == 0 else r for r in rest)
        return function(self.reshape(1), 0, index.reshape(1), *rest).reshape(index.shape)

    return run


@with_dims
def gather(self: Any, dim: int, index: Any, sparse: bool) -> Any:
    out = np.empty(index.shape)
    for place in np.ndindex(*index.shape):
        source = list(place)
        source[dim] = index[place]
        out[place] = self[tuple(source)]
    return out


def scattered(add: bool) -> Any:
    @with_dims
    def run(self: Any, dim: int, index: Any, src: Any) -> Any:
        out = np.array(self)
        for place in np.ndindex(*index.shape):
            target = list(place)
            target[dim] = index[place]
            value = src[place] if isinstance(src, np.ndarray) else src
            out[tuple(target)] = out[tuple(target)] + value if add else value
        return out

    return run


def rows_added(self: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    out = np.array(self)
    for i, row in enumerate(index):
        out[at_dim(dim, self.ndim, row)] += alpha * np.take(source, i, dim)
    return out


def key_of(indices: Any) -> Any:
    return tuple(slice(None) if i is None else i for i in indices)


def index_put(self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    places = np.arange(self.size).reshape(self.shape)[key_of(indices)]
    out = np.array(self).ravel()
    for place, value in zip(places.ravel(), np.broadcast_to(values, places.shape).ravel(), strict=True):
        out[place] = out[place] + value if accumulate else value
    return out.reshape(self.shape)


def masked_scatter(self: Any, mask: Any, source: Any) -> Any:
    self, wide = np.broadcast_arrays(self, mask)
    return assigned(self, wide, source.ravel()[: wide.sum()])


def embedding_backward(g: Any, indices: Any, rows: int, padding: int, by_frequency: bool) -> Any:
    out, counts = np.zeros((rows, g.shape[-1])), np.zeros(rows)
    for place in np.ndindex(*indices.shape):
        if indices[place] != padding:
            out[indices[place]] += g[place]
            counts[indices[place]] += 1
    return out / np.maximum(counts, 1)[:, None] if by_frequency else out


def one_hot(self: Any, classes: int) -> Any:
    return np.eye(self.max() + 1 if classes == -1 else classes, dtype=int)[self]


def ordered(self: Any, dim: int, descending: bool) -> Any:
    if self.ndim == 0:
        return self, np.zeros((), int)
    order = np.argsort(-self if descending else self, dim, kind="stable")
    return np.take_along_axis(self, order, dim), order


def topk(self: Any, k: int, dim: int, largest: bool, is_sorted: bool) -> Any:
    values, order = ordered(self, dim, largest)
    return (values, order) if self.ndim == 0 else (np.take(values, range(k), dim), np.take(order, range(k), dim))


def take_along_dim(self: Any, indices: Any, dim: Any) -> Any:
    return np.take_along_axis(self, indices, dim) if dim is not None else self.ravel()[indices.ravel()]


INDEXING: dict[str, Any] = {
    "aten::gather": gather,
    "aten::scatter.src": scattered(add=False),
    "aten::scatter.value": scattered(add=False),
    "aten::scatter_add": scattered(add=True),
    "aten::take": lambda self, index: self.ravel()[index],
    "aten::take_along_dim": take_along_dim,
    "aten::index_select": lambda self, dim, index: np.take(self, index, dim),
    "aten::index_add": rows_added,
    "aten::index_copy": lambda self, dim, index, source: assigned(self, at_dim(dim, self.ndim, index), source),
    "aten::index_fill.int_Scalar": lambda self, dim, index, value: assigned(self, at_dim(dim, self.ndim, index), value),
    "aten::index.Tensor": lambda self, indices: self[key_of(indices)],
    "aten::index_put": index_put,
    "aten::masked_select": lambda self, mask: np.broadcast_arrays(self, mask)[0][np.broadcast_arrays(self, mask)[1]],
    "aten::masked_scatter": masked_scatter,
    "aten::nonzero": lambda self: np.argwhere(self),
    "aten::embedding": lambda weight, indices, *_: weight[indices],
    "aten::embedding_dense_backward": embedding_backward,
    "aten::one_hot": one_hot,
    "aten::sort": ordered,
    "aten::sort.stable": lambda self, stable, dim, descending: ordered(self, dim, descending),
    "aten::argsort": lambda self, dim, descending: ordered(self, dim, descending)[1],
    "aten::topk": topk,
    "aten::tril": np.tril,
    "aten::triu": np.triu,
}

# -- recurrent networks, and random operators that draw nothing --------------------------------------------------


def sigmoid(x: Any) -> Any:
    return scipy.special.expit(x)


def gates(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple[Any, Any]:
    return linear(x, w_ih, b_ih), linear(h, w_hh, b_hh)


def lstm_cell(x: Any, hx: Any, *weights: Any) -> tuple[Any, Any]:
    h, c = hx
    total = sum(gates(x, h, *weights[:4]))
    i, f, g, o = np.split(total, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return (sigmoid(o) * np.tanh(c)) @ (weights[4].T if len(weights) > 4 else np.eye(c.shape[-1])), c


def gru_cell(x: Any, h: Any, *weights: Any) -> Any:
    n = h.shape[-1]
    a, b = gates(x, h, *weights)
    r, z = sigmoid(a[..., :n] + b[..., :n]), sigmoid(a[..., n : 2 * n] + b[..., n : 2 * n])
    return (1 - z) * np.tanh(a[..., 2 * n :] + r * b[..., 2 * n :]) + z * h


def rnn_cell(activation: Callable[[Any], Any]) -> Any:
    return lambda x, h, *weights: activation(sum(gates(x, h, *weights)))


def network(cell: Callable[..., Any], pair: bool) -> Any:
    def run(
        x: Any, hx: Any, params: Any, biases: bool, layers: int, dropout: float, train: bool, both_ways: bool,
        batch_first: bool,
    ) -> Any:  # fmt: skip
        x = np.swapaxes(x, 0, 1) if batch_first else x
        finals = []
        for layer in range(layers):
            sides = []
            for side in range(1 + both_ways):
                at = layer * (1 + both_ways) + side
                state = (hx[0][at], hx[1][at]) if pair else hx[at]
                outputs, width = [], len(params) // (layers * (1 + both_ways))
                for step in x[::-1] if side else x:
                    state = cell(step, state, *params[width * at : width * (at + 1)])
                    outputs.append(state[0] if pair else state)
                sides.append(np.stack(outputs[::-1] if side else outputs))
                finals.append(state)
            x = np.concatenate(sides, -1)
        out = np.swapaxes(x, 0, 1) if batch_first else x
        last = [np.stack([f[i] for f in finals]) for i in range(2)] if pair else [np.stack(finals)]
        return [out, *last]

    return run


def packed_network(cell: Callable[..., Any], pair: bool) -> Any:
    """Each sequence by itself through `network`, the results put together again."""
    alone = network(cell, pair)

    def run(data: Any, batch_sizes: Any, hx: Any, params: Any, biases: bool, layers: int, *rest: Any) -> Any:
        outs, finals = [], []
        for number, sequence in enumerate(sequences(data, batch_sizes)):
            own = [h[:, number : number + 1] for h in hx] if pair else hx[:, number : number + 1]
            out, *last = alone(sequence[:, None], own, params, biases, layers, *rest, False)
            outs.append(out[:, 0])
            finals.append(last)
        packed = [outs[number][t] for t, size in enumerate(batch_sizes) for number in range(size)]
        return [np.stack(packed), *(np.concatenate(parts, 1) for parts in zip(*finals, strict=True))]

    return run


def sequences(data: Any, batch_sizes: Any) -> list[Any]:
    """The sequences that were packed."""
    starts = np.cumsum([0, *batch_sizes])
    return [
        np.stack([data[starts[t] + number] for t, size in enumerate(batch_sizes) if number < size])
        for number in range(batch_sizes[0])
    ]


def pack(input: Any, lengths: Any, batch_first: bool) -> Any:
    padded = np.swapaxes(input, 0, 1) if batch_first else input
    rows = [padded[t, b] for t in range(lengths.max()) for b in range(len(lengths)) if t < lengths[b]]
    return np.stack(rows), np.array([(lengths > t).sum() for t in range(lengths.max())])


def pack_backward(grad: Any, size: Any, batch_sizes: Any, batch_first: bool) -> Any:
    lengths = np.array([(batch_sizes > b).sum() for b in range(size[0] if batch_first else size[1])])
    return adjoint(lambda x: pack(x, lengths, batch_first)[0], size, grad)


def pad_packed(data: Any, batch_sizes: Any, batch_first: bool, value: Any, total: int) -> Any:
    parts = sequences(data, batch_sizes)
    padded = np.full((total or len(batch_sizes), len(parts), *data.shape[1:]), value)
    for number, part in enumerate(parts):
        padded[: len(part), number] = part
    return np.swapaxes(padded, 0, 1) if batch_first else padded, np.array([len(part) for part in parts])


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def unchanged(self: Any, *_: Any) -> Any:
    return self


RECURRENT: dict[str, Any] = {
    "aten::lstm_cell": lstm_cell,
    "aten::gru_cell": gru_cell,
    "aten::rnn_tanh_cell": rnn_cell(np.tanh),
    "aten::rnn_relu_cell": rnn_cell(relu),
    "aten::lstm.input": network(lstm_cell, True),
    "aten::gru.input": network(gru_cell, False),
    "aten::rnn_tanh.input": network(rnn_cell(np.tanh), False),
    "aten::rnn_relu.input": network(rnn_cell(relu), False),
    "aten::lstm.data": packed_network(lstm_cell, True),
    "aten::gru.data": packed_network(gru_cell, False),
    "aten::rnn_tanh.data": packed_network(rnn_cell(np.tanh), False),
    "aten::rnn_relu.data": packed_network(rnn_cell(relu), False),
    "aten::_pack_padded_sequence": pack,
    "aten::_pack_padded_sequence_backward": pack_backward,
    "aten::_pad_packed_sequence": pad_packed,
    "aten::dropout": unchanged,
    "aten::feature_dropout": unchanged,
    "aten::alpha_dropout": unchanged,
    "aten::native_dropout": lambda input, p, train: (input, np.ones(input.shape, bool)),
    "aten::rrelu": lambda x, lower, upper, *_: np.where(x > 0, x, x * (lower + upper) / 2),
}

REFERENCES: dict[str, Any] = {
    **VIEWS, **SCATTERS, **JOINING, **LINALG, **CONVOLUTIONS, **POOLS, **NORMS, **LOSSES, **INDEXING, **RECURRENT
}  # fmt: skip
