"""Helpers of distributions: parameters that broadcast, probabilities and their logarithms, values computed once."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from typing import Any

from jit.eager.context import TRACE, enable_grad
from jit.eager.creation import tensor as new_tensor
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import UsageError

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors, and numbers made such, of one shape.

    Args:
        values: The tensors and numbers.

    Raises:
        UsageError: One of them is neither.
    """
    for value in values:
        if not isinstance(value, (Tensor, numbers.Number)):
            raise UsageError(
                f"parameters of distributions are numbers or tensors, not {type(value).__name__}; make it a tensor"
            )
    given = [value for value in values if isinstance(value, Tensor)]
    options = {"dtype": given[0].dtype, "device": given[0].device} if given else {"dtype": dtypes.DEFAULT}
    tensors = [value if isinstance(value, Tensor) else new_tensor(value, **options) for value in values]
    return tuple(F.broadcast_tensors(tensors))


def clamp_probs(probs: Any) -> Any:
    """Probabilities that are neither 0 nor 1, as far as the dtype allows.

    Args:
        probs: The probabilities.
    """
    eps = {2: 1e-3, 4: 1.1920928955078125e-07}.get(probs.element_size(), 2.220446049250313e-16)
    return F.clamp(probs, eps, 1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities, of their log odds or of their logarithms up to a constant.

    Args:
        logits: The logarithms.
        is_binary: Whether they are log odds.
    """
    return F.sigmoid(logits) if is_binary else F.softmax(logits, -1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """The inverse of `logits_to_probs`.

    Args:
        probs: The probabilities.
        is_binary: Whether log odds are asked for.
    """
    clamped = clamp_probs(probs)
    return F.log(clamped) - F.log1p(-clamped) if is_binary else F.log(clamped)


class lazy_property:  # noqa: N801  (PyTorch's name)
    """A property that is computed when it is first asked for, and then kept.

    Args:
        wrapped: The function of the instance.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        if TRACE.get() is None:  # what a trace computes is of no use outside
            instance.__dict__[self.wrapped.__name__] = value
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements of lower triangles, row by row.

    Args:
        mat: The matrices.
        diag: The diagonal that is the last to count.
    """
    size = mat.shape[-1]
    rows, columns = F.tril_indices(size, size, diag).unbind(0)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The inverse of `tril_matrix_to_vec`.

    Args:
        vec: The elements.
        diag: The diagonal that is the last to count.
    """
    count = vec.shape[-1]
    size = round((-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    rows, columns = F.tril_indices(size, size, diag).unbind(0)
    flat = F.new_zeros(vec, [*vec.shape[:-1], size * size])
    return F.index_add(flat, -1, rows * size + columns, vec).reshape([*vec.shape[:-1], size, size])


__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip
