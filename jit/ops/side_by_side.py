"""Convolutions whose windows lie side by side, as products of matrices.

Note [Windows side by side]
    With a stride as long as the kernel, each entry of an image is part of one window at most: a vision network cuts an
    image into patches so. Laid out patch by patch, an image is a matrix, and the maps of a convolution are products,

        y[filter, place] = w[filter, (channel, tap)] x[place, (channel, tap)]',    w = y' x,    x = y' w

    so that they need no code of their own. Plans have such code for strides of 1, 2 and 4 of the last dim, which takes
    no more time and needs no copy of the image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from jit.ir.dtypes import float32, float64
from jit.ir.sizes import any_symbolic

from .convolving import ConvGeometry

if TYPE_CHECKING:
    from .protocols import Ints, Ops, Tensor

_CODED = (1, 2, 4)
"""The strides of the last dim for which plans have convolutions."""


def lie_side_by_side(image: Sequence[int], weight: Tensor, w: ConvGeometry) -> bool:
    """Whether the windows of a kernel on an image of these sizes are patches of it."""
    kernel = tuple(weight.shape[2:])
    if weight.device != "cpu" or weight.dtype not in (float32, float64) or any_symbolic(image[2:], weight.shape):
        return False
    plain = w.groups == 1 and not any(w.padding) and all(d == 1 or k == 1 for d, k in zip(w.dilation, kernel))
    return plain and w.stride == kernel and w.stride[-1] not in _CODED and 0 not in (*image[2:], *weight.shape)


def by_patches(F: Ops, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution of images by a kernel, patch by patch."""
    kernel = weight.shape[2:]
    rows = _matrix(F, weight)
    found = F.bmm(F.expand(F.unsqueeze(rows, 0), [x.shape[0], *rows.shape]), F.transpose(_patches(F, x, kernel), 1, 2))
    found = F.reshape(found, [x.shape[0], weight.shape[0], *_places(x, kernel)])
    return found if bias is None else found + F.reshape(bias, [-1, *[1] * len(kernel)])


def patches_by_weight(F: Ops, y: Tensor, x: Tensor, kernel: Ints) -> Tensor:
    """The gradient of the weight, of that of the result and the images."""
    filters = y.shape[1]
    patches = _patches(F, x, kernel)
    left = F.reshape(F.transpose(F.reshape(y, [y.shape[0], filters, patches.shape[1]]), 0, 1), [filters, -1])
    return F.reshape(F.mm(left, _rows(F, patches)), [filters, x.shape[1], *kernel])


def _matrix(F: Ops, weight: Tensor) -> Tensor:
    return F.reshape(weight, [weight.shape[0], math.prod(weight.shape[1:])])


def _rows(F: Ops, patches: Tensor) -> Tensor:
    return F.reshape(patches, [-1, patches.shape[2]])


def _places(x: Tensor, kernel: Ints) -> list[int]:
    return [size // k for size, k in zip(x.shape[2:], kernel, strict=True)]


def _patches(F: Ops, x: Tensor, kernel: Ints) -> Tensor:
    """The patches of each image, each a row of all channels and taps."""
    places, dims = _places(x, kernel), range(len(kernel))
    for dim in dims:
        if x.shape[2 + dim] != places[dim] * kernel[dim]:
            x = F.narrow(x, 2 + dim, 0, places[dim] * kernel[dim])
    apart: list[Any] = list(chain.from_iterable(zip(places, kernel, strict=True)))
    x = F.reshape(x, [*x.shape[:2], *apart])
    x = F.permute(x, [0, *(2 + 2 * dim for dim in dims), 1, *(3 + 2 * dim for dim in dims)])
    return F.reshape(x, [x.shape[0], math.prod(places), math.prod(kernel) * x.shape[1 + len(kernel)]])
