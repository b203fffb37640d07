"""What tensors and nodes answer to `dir`, `del`, a gradient that is assigned, and a call."""

from typing import Any

import numpy as np
import pytest

import jit

MATRICES = [jit.ones(2, 2), jit.ones((3, 2), requires_grad=True), jit.tensor([[1j]]), jit.arange(3)[None]]


@pytest.mark.parametrize("tensor", MATRICES)
def test_a_tensor_has_what_dir_names(tensor):
    missing = [name for name in dir(tensor) if not _has(tensor, name)]
    assert missing == ([] if tensor.dtype.is_complex else ["imag"])
    assert {"shape", "sum", "grad_fn"} <= set(dir(tensor))


def _has(tensor: jit.Tensor, name: str) -> bool:
    try:
        return hasattr(tensor, name)
    except jit.Error:
        return False


def test_elements_are_not_deleted():
    x = jit.ones(3)
    for index in (0, slice(1), x > 0):
        with pytest.raises(TypeError, match="cannot be deleted"):
            del x[index]
    assert x.tolist() == [1.0] * 3


@pytest.mark.parametrize("dtype", [jit.int64, jit.float64, jit.float16, jit.complex64])
def test_gradients_of_another_dtype_are_refused(dtype):
    x = jit.ones(3, requires_grad=True)
    with pytest.raises(jit.DTypeError, match="the gradient is of"):
        x.grad = jit.ones(3, dtype=dtype)
    with pytest.raises(jit.DTypeError, match="the tensor itself"):
        x.grad = x
    assert x.grad is None
    x.grad = jit.full((3,), 2.0)
    assert x.grad.tolist() == [2.0] * 3


def test_nodes_are_called_with_gradients():
    x: Any = jit.tensor([3.0], requires_grad=True)
    y: Any = jit.tensor([4.0], requires_grad=True)
    assert x.neg().grad_fn(jit.tensor([10.0])).tolist() == [-10.0]
    by_x, by_y = (x * y).grad_fn(jit.tensor([1.0]))
    assert (by_x.tolist(), by_y.tolist()) == ([4.0], [3.0])
    node = (x * y.detach()).grad_fn
    assert [g if g is None else g.tolist() for g in node(jit.ones(1))] == [[4.0], None]
    for wrong in ((), (jit.ones(1), jit.ones(1))):
        with pytest.raises(TypeError, match="a gradient for each of 1 outputs"):
            node(*wrong)
    assert x.grad is None


@pytest.mark.parametrize(
    "lists", [[np.ones((3, 3)), np.ones((3, 0))], [[np.ones(3), 1.0]], [[1, 2, 3], np.ones(2)], [[1], [1, 2]], [1, [2]]]
)
def test_lists_of_different_lengths(lists):
    for kind in (TypeError, ValueError, jit.UsageError):
        with pytest.raises(kind, match="same length"):
            jit.tensor(lists)
