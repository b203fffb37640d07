"""Depthwise convolutions row by row: against float64 and against any other convolution, beside forbidden pages."""

import itertools

import numpy as np
import pytest

from jit.ir import dtypes
from jit.ops.convolving import ConvGeometry, forward
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.products import conv
from jit.runtime.products.conv_steps import layer_of
from jit.runtime.products.depthwise import DepthwiseRows, by_rows
from jit.runtime.targets.target import Target
from tests.runtime.guarded import guarded
from tests.runtime.test_conv import close, run, wide

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not Target.host().has_convolutions, reason="no convolutions for this machine"),
]

# batch, channels, height, width: less than a vector, several, and all that is beside them
IMAGES = ((2, 5, 7, 7), (1, 3, 14, 14), (2, 3, 9, 20), (1, 2, 3, 33), (1, 2, 28, 5), (1, 2, 1, 1))
KERNELS = ((3, 3), (5, 5), (7, 7), (1, 3), (2, 4), (6, 1))
CASES = [
    (image, kernel, stride, padding)
    for image, kernel, stride, padding in itertools.product(
        IMAGES, KERNELS, ((1, 1), (2, 2), (1, 2), (2, 1)), (0, 1, 3)
    )
    if image[2] + 2 * padding >= kernel[0] and image[3] + 2 * padding >= kernel[1]
]


class Case:
    """The arrays of one case."""

    def __init__(self, image, kernel, stride, padding, dtype, dilation=(1, 1)):
        batch, channels, *sizes = image
        self.window = ConvGeometry(stride, (padding, padding), dilation, channels)
        rng = np.random.default_rng(sum(image) + sum(kernel))
        shapes = image, (channels, 1, *kernel), (batch, channels, *self.window.places(sizes, kernel))
        self.x, self.w, self.y = (rng.standard_normal(s).astype(dtype.numpy) for s in shapes)
        self.b = rng.standard_normal(channels).astype(dtype.numpy)
        arguments = dict(stride=stride, padding=(padding, padding), dilation=dilation, groups=channels)
        self.layer = layer_of(*shapes, arguments, dtype)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("image", "kernel"), list(itertools.product(IMAGES, KERNELS)))
def test_forward(image, kernel, dtype):
    for at_end, (stride, padding) in enumerate(case[2:] for case in CASES if case[:2] == (image, kernel)):
        case = Case(image, kernel, stride, padding, dtype)
        other = case.layer.forward(bias=True)
        work = by_rows(other)
        assert isinstance(work, DepthwiseRows)
        x, w, b, y = (guarded(a, at_end % 2 > 0) for a in (case.x, case.w, case.b, np.full_like(case.y, np.nan)))
        run(work, x, w, b, y)
        bias = b.reshape(-1, 1, 1)
        exact, size = (
            forward(numpy_math, pair[0], pair[1], case.window) for pair in (wide(x, w), wide(abs(x), abs(w)))
        )
        assert close(y, exact + bias, size + abs(bias), work.rows)
        if conv.supports(other):
            found = np.empty_like(y)
            run(other, case.x, case.w, case.b, found)
            np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
def test_parts_change_no_bit(stride):
    case = Case((3, 7, 13, 21), (3, 3), stride, 1, dtypes.float32)
    work = by_rows(case.layer.forward())
    whole, by_parts = np.full_like(case.y, np.nan), np.full_like(case.y, np.nan)
    run(work, case.x, case.w, whole)
    run(work, case.x, case.w, by_parts, order=[(i, i + 1) for i in reversed(range(work.panels))])
    np.testing.assert_array_equal(whole, by_parts)


def test_entries_beside_the_image_are_zeros_whatever_the_numbers():
    case = Case((1, 2, 6, 6), (3, 3), (1, 1), 1, dtypes.float32)
    case.w[0], case.x[...] = np.inf, 1.0
    run(by_rows(case.layer.forward()), case.x, case.w, case.y)
    with np.errstate(invalid="ignore"):
        expected = forward(numpy_math, case.x, case.w, case.window)
    assert np.isnan(expected).any() and np.isinf(expected).any()
    np.testing.assert_allclose(case.y, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 4, 9, 20), (3, 3), (1, 1), 2, dtypes.float32, (2, 2)),
        Case((1, 4, 20, 20), (9, 3), (1, 1), 1, dtypes.float32),
        Case((1, 4, 20, 20), (3, 3), (1, 4), 1, dtypes.float32),
    ],
    ids=["dilated", "large", "stride 4"],
)
def test_what_is_computed_otherwise(case):
    assert not isinstance(by_rows(case.layer.forward()), DepthwiseRows)
    run(case.layer.forward(), case.x, case.w, case.y)
    exact, size = (
        forward(numpy_math, p[0], p[1], case.window) for p in (wide(case.x, case.w), wide(abs(case.x), abs(case.w)))
    )
    assert close(case.y, exact, size, case.w[0].size)
