"""Derivatives held against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import UsageError, VerificationError

from ..context import enable_grad, no_grad
from ..tensors import Tensor


def gradcheck(
    func: Callable[..., Any], inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True
) -> bool:
    """Compare the gradients of `func` with central differences, for every input that requires grad.

    Args:
        func: A function of tensors that returns one tensor or several.
        inputs: Its arguments; those to be checked are float64 leaves that require grad.
        eps: The step of the differences.
        atol, rtol: Allowed difference, absolute and relative.
        raise_exception: Raise on a mismatch; otherwise return False.

    Raises:
        VerificationError: The first Jacobian that does not agree, with both shown.

    >>> import jit
    >>> x = jit.tensor([1.0, 2.0], dtype=jit.float64, requires_grad=True)
    >>> jit.autograd.gradcheck(lambda x: x * x, (x,))
    True
    """
    from . import grad

    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    checked = [t for t in arguments if isinstance(t, Tensor) and t.requires_grad]
    if not checked:
        raise UsageError("gradcheck needs at least one input that requires grad")
    if any(t.dtype is not dtypes.float64 for t in checked):
        raise UsageError("gradcheck needs float64 inputs: finite differences of float32 are too coarse")
    outputs = [(i, t) for i, t in enumerate(_floating(func(*arguments))) if t.requires_grad]
    for number, output in outputs:
        numerical = [_numerical(func, arguments, t, number, eps) for t in checked]
        analytical = _analytical(grad, output, checked)
        for index, (a, n) in enumerate(zip(analytical, numerical, strict=True)):
            if not np.allclose(a, n, rtol, atol, equal_nan=True):
                if not raise_exception:
                    return False
                raise VerificationError(
                    f"output {number}, input {index}: the derivative disagrees with finite differences\nanalytical:\n{a}\nnumerical:\n{n}"
                )
    return True


def _floating(result: Any) -> list[Tensor]:
    many = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in many if isinstance(t, Tensor) and t.defined and t.dtype.is_floating_point]


def _outputs(result: Any) -> list[Tensor]:
    return [t for t in _floating(result) if t.requires_grad]


def _numerical(func: Callable[..., Any], arguments: Sequence[Any], wrt: Tensor, number: int, eps: float) -> Any:
    """The Jacobian, one row per element of the input."""
    rows = []
    array = wrt._array
    with no_grad():
        for index in np.ndindex(array.shape):
            kept = array[index]
            sides = []
            for step in (eps, -eps):
                array[index] = kept + step
                sides.append(_raw(func(*arguments), number).astype(np.float64).ravel().copy())
            array[index] = kept
            rows.append((sides[0] - sides[1]) / (2 * eps))
    return np.array(rows) if rows else np.zeros((0, _raw(func(*arguments), number).size))


def _raw(result: Any, number: int) -> Any:
    return _floating(result)[number]._array


def _analytical(grad: Callable[..., Any], output: Tensor, checked: Sequence[Tensor]) -> list[Any]:
    columns: list[list[Any]] = [[] for _ in checked]
    for index in np.ndindex(output._array.shape):
        seed = np.zeros(output._array.shape)
        seed[index] = 1
        found = grad(output, checked, Tensor(seed), retain_graph=True, allow_unused=True)
        for column, gradient, tensor in zip(columns, found, checked, strict=True):
            column.append(np.zeros(tensor._array.size) if gradient is None else gradient._array.astype(np.float64).ravel())
    return [np.array(c).reshape(output._array.size, t._array.size).T for c, t in zip(columns, checked, strict=True)]


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:  # fmt: skip
    """`gradcheck` of the gradients: second derivatives by the inputs and by the incoming gradients.

    >>> import jit
    >>> x = jit.tensor([1.0, 2.0], dtype=jit.float64, requires_grad=True)
    >>> jit.autograd.gradgradcheck(lambda x: x * x * x, (x,))
    True
    """
    from . import grad

    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = _outputs(func(*arguments))
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = [Tensor(rng.standard_normal(o._array.shape)).requires_grad_() for o in outputs]
    weights = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
    checked = [i for i, t in enumerate(arguments) if isinstance(t, Tensor) and t.requires_grad]

    def first(*values: Any) -> Any:
        inner = values[: len(arguments)]
        with enable_grad():  # the finite differences are taken without
            found = grad(_outputs(func(*inner)), [inner[i] for i in checked], values[len(arguments) :], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    if not first(*arguments, *weights):
        return True
    return gradcheck(first, (*arguments, *weights), eps, atol, rtol, raise_exception)
