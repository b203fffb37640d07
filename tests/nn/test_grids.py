"""Sampling at a grid's places, as users call it."""

import numpy as np
import pytest

import jit
from jit import nn


def test_images_where_a_grid_points() -> None:
    image = jit.arange(6.0).reshape(1, 1, 2, 3)
    same = nn.functional.affine_grid(jit.tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 2, 3), align_corners=False)
    for mode in ("bilinear", "nearest", "bicubic"):
        found = nn.functional.grid_sample(image, same, mode, align_corners=False)
        np.testing.assert_allclose(found.numpy(), image.numpy(), atol=1e-5)
    far = jit.tensor([[[[9.0, 0.0], [float("nan"), -1.0]]]])
    assert nn.functional.grid_sample(image, far, align_corners=True).tolist() == [[[[0.0, 0.0]]]]
    assert nn.functional.grid_sample(image, far, padding_mode="border", align_corners=True).tolist() == [[[[3.5, 0.0]]]]


def test_grids_that_are_refused() -> None:
    image, grid = jit.ones(1, 1, 2, 2), jit.ones(1, 2, 2, 2)
    with pytest.raises(jit.UsageError, match="pass as mode one of 'bilinear', 'nearest', 'bicubic', not 'cubic'"):
        nn.functional.grid_sample(image, grid, mode="cubic")
    with pytest.raises(jit.ShapeError, match=r"should have the sizes \[1, ..., 2\]"):
        nn.functional.grid_sample(image, jit.ones(1, 2, 2, 3), align_corners=False)
    with pytest.raises(jit.DTypeError, match="expects one floating dtype"):
        nn.functional.grid_sample(image, grid.double(), align_corners=False)
    with pytest.raises(jit.ShapeError, match=r"theta should have the sizes \[1, 2, 3\]"):
        nn.functional.affine_grid(jit.ones(1, 3, 4), (1, 1, 2, 2), align_corners=False)
    with pytest.warns(UserWarning, match="say align_corners=False"):
        nn.functional.grid_sample(image, grid)
