"""A product and the group that reads its result as one nest, run by the interpreter of PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.passes.fuse import fuse
from jit.runtime.gpu import convolutions
from jit.runtime.gpu.device import device_kernel
from jit.runtime.gpu.epilogues import followed_by
from jit.runtime.gpu.matrices import of_matrices
from jit.runtime.kernels.fusion import group_nest, supports
from jit.runtime.kernels.nest import Buffer, Nest

from ..passes.test_fuse_rows import recorded
from ..runtime.grid_emulation import GPU
from .nests import interpreted

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def group(function: Any, made: Array, *others: Array) -> Nest:
    """The nest of a group whose first input is a product's result."""
    graph = recorded(function, made, *others)
    assert fuse(graph, supports)
    (node,) = [n for n in graph.nodes if n.kind == "prim::FusionGroup"]
    assert list(node.inputs) == list(graph.inputs)
    return group_nest(node.attributes["body"], [Buffer.like(a) for a in (made, *others)])


BEHIND: dict[str, tuple[Any, tuple[Array, ...]]] = {
    "bias and relu": (lambda y, b: F.relu(y + b), (numbers(36),)),
    "residual": (lambda y, r: (y * 2 + r).tanh(), (numbers(20, 36),)),
    "one a row": (lambda y, c: (y - c) * 0.5, (numbers(20, 1),)),
    "transposed": (lambda y, b: y.t() * 2 + b, (numbers(20),)),
    "heads": (lambda y, b: y.reshape(4, 5, 9, 4).permute(0, 2, 1, 3) * b + 1, (numbers(4),)),
    "two results": (lambda y, b: ((y + b).relu(), (y + b).sigmoid()), (numbers(36),)),
    "integers": (lambda y, b: (y > 0) & (y < b), (numbers(36),)),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", BEHIND)
def test_groups_behind_a_product(name, dtype):
    function, others = BEHIND[name]
    a, b = numbers(20, 24, dtype=dtype), numbers(24, 36, dtype=dtype, seed=1)
    given = [o.astype(dtype) for o in others]
    made = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)
    product = of_matrices(Buffer.like(a), Buffer.like(b), Buffer.like(made))
    nest = followed_by(product, group(function, made, *given), 0)
    assert nest is not None
    outputs = [np.zeros(buffer.sizes, buffer.dtype.numpy) for buffer in nest.outputs]
    kernel = device_kernel(nest, GPU)
    interpreted(kernel, [a, b, *given], outputs)
    assert kernel.grid.kind == "products"
    wanted = function(*map(jit.from_numpy, (made, *given)))
    for found, expected in zip(outputs, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        np.testing.assert_allclose(
            found,
            expected.numpy(),
            rtol=2e-3 if dtype == "float16" else 2e-5,
            atol=1e-2 if dtype == "float16" else 1e-5,
        )


def test_a_norm_in_evaluation_behind_a_convolution():
    x, w, scale, shift = numbers(2, 3, 9, 8), numbers(5, 3, 3, 3, seed=1), numbers(5, seed=2), numbers(5, seed=3)
    window = convolutions.window_of(2, [1], [1], [1], 1)
    made = np.zeros((2, 5, 9, 8), np.float32)
    product = convolutions.forward(Buffer.like(x), Buffer.like(w), None, Buffer.like(made), window)

    def norm(y: Any, scale: Any, shift: Any) -> Any:
        return (y * scale.reshape(5, 1, 1) + shift.reshape(5, 1, 1)).relu()

    nest = followed_by(product, group(norm, made, scale, shift), 0)
    assert nest is not None
    out = np.zeros_like(made)
    interpreted(device_kernel(nest, GPU), [x, w, scale, shift], [out])
    tensors = [jit.from_numpy(array) for array in (x, w, scale, shift)]
    wanted = norm(F.conv2d(tensors[0], tensors[1], padding=1), *tensors[2:]).numpy()
    np.testing.assert_allclose(out, wanted, rtol=2e-5, atol=1e-5)


NOT_BEHIND = {
    "rows": lambda y: jit.softmax(y * 2, -1),
    "sums": lambda y: (y * 2).sum(0),
    "two parts": lambda y: y[:, :18] * y[:, 18:] + 1,
    "a part": lambda y: y[:, :18] * 2 + 1,
    "another part": lambda y: y[2:] * 2 + 1,
    "repeated": lambda y: y.expand(3, 20, 36) * 2 + 1,
}


@pytest.mark.parametrize("function", NOT_BEHIND.values(), ids=NOT_BEHIND)
def test_what_is_not_one_element_after_the_other_is_another_kernel(function):
    a, b, made = numbers(20, 24), numbers(24, 36), numbers(20, 36)
    product = of_matrices(*map(Buffer.like, (a, b, made)))
    assert followed_by(product, group(function, made), 0) is None
