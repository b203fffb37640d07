"""Products of matrices, and convolutions."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

from ..table import Numbers, Tensor, operator
from .shapes import padded


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    return F.matmul(a, b)


@operator("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
    broadcast: int = 0,
) -> Tensor:  # fmt: skip
    if transB and not transA and alpha == beta == 1 and (c is None or c.ndim == 1):
        return F.linear(a, b, c)
    a, b = (F.t(a) if transA else a), (F.t(b) if transB else b)
    product = F.matmul(a, b)
    product = product if alpha == 1 else product * alpha
    if c is None:
        return product
    return product + (c if beta == 1 else c * beta)


@operator("Einsum")
def einsum(*operands: Tensor, equation: str) -> Tensor:
    return F.einsum(equation, list(operands))


@operator("Det")
def det(x: Tensor) -> Tensor:
    return F.linalg_det(x)


# -- convolutions --------------------------------------------------------------------------------------------------


def sides_of(sizes: Any, kernel: Any, strides: Any, dilations: Any, auto_pad: str, pads: Any) -> list[tuple[Any, Any]]:
    """Numbers of places before and after each spatial dim."""
    count = len(kernel)
    if auto_pad in ("NOTSET", ""):
        given = pads or [0] * (2 * count)
        return [(given[i], given[i + count]) for i in range(count)]
    if auto_pad == "VALID":
        return [(0, 0)] * count
    sides = []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        missing = max((-(-size // stride) - 1) * stride + (width - 1) * dilation + 1 - size, 0)
        less, more = missing // 2, missing - missing // 2
        sides.append((more, less) if auto_pad == "SAME_LOWER" else (less, more))
    return sides


def _is_even(sides: list[tuple[Any, Any]]) -> bool:
    return all(before == after and before >= 0 for before, after in sides)


@operator("Conv")
def conv(
    x: Tensor, w: Tensor, b: Tensor | None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    count = x.ndim - 2
    strides, dilations = strides or [1] * count, dilations or [1] * count
    sides = sides_of(x.shape[2:], w.shape[2:], strides, dilations, auto_pad, pads)
    if not _is_even(sides):
        x, sides = padded(x, {2 + i: side for i, side in enumerate(sides)}, "constant", 0), [(0, 0)] * count
    return F.convolution(x, w, b, strides, [before for before, _ in sides], dilations, False, [0] * count, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Tensor:  # fmt: skip
    count = x.ndim - 2
    strides, dilations = strides or [1] * count, dilations or [1] * count
    extra = list(output_padding or [0] * count)
    full = [
        (x.shape[2 + i] - 1) * strides[i] + (w.shape[2 + i] - 1) * dilations[i] + 1 + extra[i] for i in range(count)
    ]
    sides = _cut_sides(x.shape[2:], full, strides, auto_pad, pads, output_shape)
    spread = F.convolution(x, w, b, strides, [0] * count, dilations, True, extra, group)
    return padded(spread, {2 + i: (-before, -after) for i, (before, after) in enumerate(sides)}, "constant", 0)


def _cut_sides(
    sizes: Any, full: Any, strides: Any, auto_pad: str, pads: Any, output_shape: Any
) -> list[tuple[Any, Any]]:
    """Numbers of places of the full result that are dropped on each side."""
    count = len(full)
    if output_shape or auto_pad.startswith("SAME"):
        wanted = list(output_shape)[-count:] if output_shape else [n * s for n, s in zip(sizes, strides, strict=True)]
        return [_cut_side(f - w, auto_pad) for f, w in zip(full, wanted, strict=True)]
    if auto_pad == "VALID" or not pads:
        return [(0, 0)] * count
    return [(pads[i], pads[i + count]) for i in range(count)]


def _cut_side(total: Any, auto_pad: str) -> tuple[Any, Any]:
    """Numbers of places that go before and after; what is missing is added after."""
    cut = max(total, 0)
    before = cut // 2 if auto_pad == "SAME_UPPER" else cut - cut // 2
    return before, total - before


@operator("DeformConv")
def deform_conv(
    x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None, mask: Tensor | None, *, dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """Samples each place of the kernel where the offsets say, then multiplies: two dims."""
    strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0, 0, 0, 0]
    n, c, h, width = x.shape
    kh, kw = w.shape[2:]
    oh, ow = offset.shape[2:]
    shift = F.reshape(offset, (n, offset_group, kh * kw, 2, oh, ow))
    rows = _places(oh, strides[0], pads[0], kh, dilations[0], (1, kh, 1, oh, 1), 1)
    columns = _places(ow, strides[1], pads[1], kw, dilations[1], (1, 1, kw, 1, ow), 2)
    ys = F.reshape(F.expand(rows, (1, kh, kw, oh, ow)), (1, 1, kh * kw, oh, ow)) + F.select(shift, 3, 0)
    xs = F.reshape(F.expand(columns, (1, kh, kw, oh, ow)), (1, 1, kh * kw, oh, ow)) + F.select(shift, 3, 1)
    maps = F.reshape(x, (n * offset_group, c // offset_group, h * width))
    flat = (n * offset_group, kh * kw * oh * ow)
    found = _sampled(maps, h, width, F.reshape(ys, flat), F.reshape(xs, flat))
    found = F.reshape(found, (n, offset_group, c // offset_group, kh * kw, oh, ow))
    if mask is not None:
        found = found * F.reshape(mask, (n, offset_group, 1, kh * kw, oh, ow))
    patches = F.reshape(found, (n, group, c // group * kh * kw, oh * ow))
    filters = F.reshape(w, (1, group, w.shape[0] // group, c // group * kh * kw))
    result = F.reshape(F.matmul(filters, patches), (n, w.shape[0], oh, ow))
    return result if b is None else result + F.reshape(b, (-1, 1, 1))


def _sampled(maps: Tensor, height: Any, width: Any, ys: Tensor, xs: Tensor) -> Tensor:
    """`maps` `[n, c, height * width]` between places, `[n, places]`: by the four around each; outside is 0."""
    found: Any = 0
    for dy in (0, 1):
        for dx in (0, 1):
            y, x = F.floor(ys) + dy, F.floor(xs) + dx
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            weight = F.where(inside, (1 - F.abs(ys - y)) * (1 - F.abs(xs - x)), F.zeros_like(ys))
            index = (F.clamp(y, 0, height - 1) * width + F.clamp(x, 0, width - 1)).long()
            shape = (maps.shape[0], maps.shape[1], index.shape[1])
            found = found + F.gather(maps, 2, F.expand(F.unsqueeze(index, 1), shape)) * F.unsqueeze(weight, 1)
    return found


def _places(count: Any, stride: int, pad: int, width: Any, dilation: int, shape: Any, dim: int) -> Tensor:
    """The places at which each tap of the kernel looks along one dim."""
    outer = F.reshape(F.arange(0, count, 1) * stride - pad, [count if d == dim + 2 else 1 for d in range(5)])
    inner = F.reshape(F.arange(0, width, 1) * dilation, [width if d == dim else 1 for d in range(5)])
    return F.expand((outer + inner).float(), shape)


@operator("Col2Im")
def col2im(
    x: Tensor, image: Numbers, block: Numbers, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Tensor:
    count = len(image)
    strides, dilations, pads = strides or [1] * count, dilations or [1] * count, pads or [0] * (2 * count)
    sizes = [image[i] + pads[i] + pads[i + count] for i in range(count)]
    steps = [(sizes[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(count)]
    n, taps = x.shape[0], 1
    for size in block:
        taps *= size
    filters = F.reshape(F.eye(taps, dtype=x.dtype), (taps, 1, *block))
    channels = x.shape[1] // taps
    spread = F.convolution(
        F.reshape(x, (n * channels, taps, *steps)), filters, None, strides, [0] * count, dilations, True,
        [sizes[i] - ((steps[i] - 1) * strides[i] + dilations[i] * (block[i] - 1) + 1) for i in range(count)], 1,
    )  # fmt: skip
    cut = padded(spread, {2 + i: (-pads[i], -pads[i + count]) for i in range(count)}, "constant", 0)
    return F.reshape(cut, (n, channels, *image))
