"""Derivatives held against finite differences.

Note [Directions]
    The Jacobian J of a function is seen through directions: `v` among the inputs, `u` among the outputs. Differences
    give (f(x + eps v) - f(x - eps v)) u / 2 eps, a backward with `u` for its gradient gives (J u) v; both are v J u.
    With all axes for v and u that is the whole Jacobian; with one random direction for each (`fast_mode`) it is a
    single number, for which a wrong J hardly ever gives the right value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from jit.eager.context import enable_grad
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import dtypes
from jit.ir.errors import UsageError, VerificationError
from jit.runtime.arrays.libraries import HOST, library_of

from .differentiation import grad
from .forward_ad import dual_level, make_dual, unpack_dual


class GradcheckError(VerificationError, RuntimeError):
    """A derivative that disagrees with finite differences."""


def gradcheck(
    func: Callable[..., Any], inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:  # fmt: skip
    """Compare the gradients of `func` with central differences, for every input that requires grad.

    Args:
        func: A function of tensors that returns one tensor or several.
        inputs: Its arguments; those to be checked are float64 leaves that require grad.
        eps: The step of the differences.
        atol, rtol: Allowed difference, absolute and relative.
        raise_exception: Raise on a mismatch; otherwise return False.
        nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, check_batched_forward_grad: Accepted;
            only derivatives are compared.
        check_forward_ad: Compare derivatives along directions (`forward_ad`), too, which a `Function.jvp` gives.
        check_backward_ad: Whether gradients are compared.
        masked: Accepted.
        fast_mode: Compare along one random direction instead of all elements: a few calls of `func`, however large.

    Raises:
        UsageError: No input requires grad, or one that does is not float64.
        GradcheckError: The first Jacobian that does not agree, with both shown.

    >>> import jit
    >>> x = jit.tensor([1.0, 2.0], dtype=jit.float64, requires_grad=True)
    >>> jit.autograd.gradcheck(lambda x: x * x, (x,))
    True
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    checked = [t for t in arguments if isinstance(t, Tensor) and t.requires_grad]
    if not checked:
        raise UsageError("gradcheck needs at least one input that requires grad; call requires_grad_() on one")
    if any(t.dtype is not dtypes.float64 for t in checked):
        raise UsageError(
            "gradcheck needs float64 inputs, since finite differences of float32 are too coarse; make them with "
            "dtype=jit.float64, or call .double() first"
        )
    ways_in = [_directions(t._array.size, fast_mode, seed) for seed, t in enumerate(checked)]
    differences = [_differences(func, arguments, t, v, eps) for t, v in zip(checked, ways_in, strict=True)]
    outputs = _floating(func(*arguments)) if check_backward_ad else ()
    pairs = itertools.chain(
        _forward_pairs(_forward_rows(func, arguments, checked, ways_in), differences) if check_forward_ad else (),
        _backward_pairs(outputs, checked, ways_in, differences, fast_mode),
    )
    for number, index, found, expected in pairs:
        if not np.allclose(found, expected, rtol, atol, equal_nan=True):
            if raise_exception:
                raise _mismatch(number, index, found, expected)
            return False
    return True


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> list[Tensor]:
    """Central differences of the first output: for each tensor its elements by those of the output.

    Args:
        fn: A function of the inputs that returns one tensor or several.
        inputs: Its arguments, or the only one.
        target: The tensors to differentiate by, or the only one; by default the inputs that require grad.
        eps: The step of the differences.
        grad_out: Accepted, and has to be 1, as in PyTorch.

    Raises:
        UsageError: `grad_out` is not 1.

    >>> import jit
    >>> x = jit.tensor([1.0, 2.0], dtype=jit.float64, requires_grad=True)
    >>> (found,) = jit.autograd.checks.get_numerical_jacobian(lambda x: x * x, (x,))
    >>> found.round(decimals=6)
    tensor([[2., 0.],
            [0., 4.]], dtype=jit.float64)
    """
    if grad_out != 1.0:
        raise UsageError("get_numerical_jacobian takes grad_out=1.0 and nothing else; multiply the result")
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    given = arguments if target is None else target if isinstance(target, (tuple, list)) else (target,)
    by = [t for t in given if isinstance(t, Tensor) and (target is not None or t.requires_grad)]
    found = [_differences(fn, arguments, t, np.eye(t._array.size), eps)[0] for t in by]
    return [tensor_of(jacobian.astype(t._array.dtype)) for jacobian, t in zip(found, by, strict=True)]


_Pair: TypeAlias = tuple[int, int, Any, Any]
"""The numbers of an output and an input, a derivative as found, and as expected."""


def _forward_pairs(found: Iterable[Sequence[Any]], differences: Sequence[Any]) -> Iterator[_Pair]:
    """The derivatives along directions beside finite differences."""
    for index, rows in enumerate(found):
        yield from ((number, index, row, differences[index][number]) for number, row in enumerate(rows))


def _backward_pairs(
    outputs: Sequence[Tensor], checked: Sequence[Tensor], ways_in: Sequence[Any], differences: Sequence[Any], fast: bool
) -> Iterator[_Pair]:
    """The gradients of each output, along the same directions, beside finite differences."""
    for number, output in enumerate(outputs):
        if output.requires_grad:
            ways_out = _directions(output._array.size, fast, 100 + number)
            for index, gradients in enumerate(_gradients(output, checked, ways_out)):
                yield number, index, ways_in[index] @ gradients, differences[index][number] @ ways_out.T


def _mismatch(output: int, input: int, found: Any, expected: Any) -> GradcheckError:
    return GradcheckError(
        f"output {output}, input {input}: the derivative disagrees with finite differences; mend it, or choose "
        "inputs around which the function is smooth\n"
        f"analytical:\n{found}\nnumerical:\n{expected}"
    )


def _directions(size: int, fast: bool, seed: int) -> Any:
    """Rows to look along: every axis, or a random one; see Note [Directions]."""
    return np.random.default_rng(seed).standard_normal((1, size)) if fast and size > 1 else np.eye(size)


def _differences(func: Callable[..., Any], arguments: Sequence[Any], wrt: Tensor, ways: Any, eps: float) -> list[Any]:
    """Central differences of each output along `ways`, a row for each."""
    array, library = wrt._array, library_of(wrt._array)
    kept = array.copy()
    sides: list[list[Any]] = []
    outputs = _floating(func(*arguments))
    for step in (eps, -eps):
        values = []
        for way in ways:
            array[...] = kept + library.taken(step * way.reshape(array.shape))
            moved = _floating(func(*arguments))
            _require_alike(outputs, moved)
            values.append([HOST.taken(t._array).astype(np.float64).ravel() for t in moved])
        sides.append(values)
    array[...] = kept
    widths = [t._array.size for t in outputs]
    return [
        np.array([(up[n] - down[n]) / (2 * eps) for up, down in zip(*sides, strict=True)]).reshape(len(ways), width)
        for n, width in enumerate(widths)
    ]


def _require_alike(outputs: Sequence[Tensor], moved: Sequence[Tensor]) -> None:
    """GradcheckError if the function returns other sizes or dtypes a small step away."""
    for number, (one, other) in enumerate(zip(outputs, moved, strict=False)):
        if (one._array.shape, one.dtype) != (other._array.shape, other.dtype):
            raise GradcheckError(
                f"output {number} is {one.dtype.name} of sizes {list(one.shape)}, and a small step away "
                f"{other.dtype.name} of {list(other.shape)}: a function has to return the same ones near its inputs"
            )
    if len(outputs) != len(moved):
        raise GradcheckError(
            f"the function returns {len(outputs)} outputs, and {len(moved)} a small step away; always return as many"
        )


def _gradients(output: Tensor, checked: Sequence[Tensor], ways: Any) -> list[Any]:
    """Gradients of `output` by each input along `ways`, a column for each."""
    weights = [_weights_of(output, way.reshape(output._array.shape)) for way in ways]
    found = [grad(output, checked, weight, retain_graph=True, allow_unused=True) for weight in weights]
    columns = []
    for tensor, gradients in zip(checked, zip(*found, strict=True) if found else [()] * len(checked), strict=True):
        rows = [np.zeros(tensor._array.size) if g is None else HOST.taken(g._array).ravel() for g in gradients]
        columns.append(np.array(rows).reshape(len(ways), tensor._array.size).T)
    return columns


def _forward_rows(
    func: Callable[..., Any], arguments: Sequence[Any], checked: Sequence[Tensor], ways: Sequence[Any]
) -> Iterator[list[Any]]:
    """The derivatives of each output along the directions of an input, a row for each, input by input."""
    for tensor, own in zip(checked, ways, strict=True):
        tangents = [_tangents(func, arguments, tensor, way) for way in own]
        yield [np.array(rows).reshape(len(own), -1) for rows in zip(*tangents, strict=True)]


def _tangents(func: Callable[..., Any], arguments: Sequence[Any], tensor: Tensor, way: Any) -> list[Any]:
    """The derivative of each output along one direction of `tensor`."""
    with dual_level(), enable_grad():
        direction = _weights_of(tensor, way.reshape(tensor._array.shape))
        given = [
            make_dual(tensor.detach(), direction) if a is tensor else a.detach() if isinstance(a, Tensor) else a
            for a in arguments
        ]
        found = [unpack_dual(output) for output in _floating(func(*given))]
    return [
        np.zeros(primal._array.size) if tangent is None else HOST.taken(tangent._array).ravel()
        for primal, tangent in found
    ]


def _weights_of(output: Tensor, numbers: Any) -> Tensor:
    """A tensor of these numbers where an output lies."""
    return tensor_of(library_of(output._array).taken(numbers))


def _floating(result: Any) -> list[Tensor]:
    many = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in many if isinstance(t, Tensor) and t.defined and t.dtype.is_floating_point]


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """`gradcheck` of the gradients: second derivatives by the inputs and by the incoming gradients.

    Args:
        func: A function of tensors that returns one tensor or several.
        inputs: Its arguments; those to be checked are float64 leaves that require grad.
        grad_outputs: The incoming gradients, one for each output that requires grad; drawn if left out.
        eps: The step of the differences.
        atol, rtol: Allowed difference, absolute and relative.
        gen_non_contig_grad_outputs, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad: Accepted;
            only derivatives are compared.
        raise_exception: Raise on a mismatch; otherwise return False.
        check_fwd_over_rev, check_rev_over_rev, masked: Accepted, too.
        fast_mode: Compare along one random direction instead of all elements.

    Raises:
        GradcheckError: The first Jacobian that does not agree, with both shown.

    >>> import jit
    >>> x = jit.tensor([1.0, 2.0], dtype=jit.float64, requires_grad=True)
    >>> jit.autograd.gradgradcheck(lambda x: x * x * x, (x,))
    True
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        outputs = [t for t in _floating(func(*arguments)) if t.requires_grad]
        grad_outputs = [_weights_of(o, rng.standard_normal(o._array.shape)).requires_grad_() for o in outputs]
    weights = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
    checked = [i for i, t in enumerate(arguments) if isinstance(t, Tensor) and t.requires_grad]

    def first(*values: Any) -> Any:
        inner, gradients = values[: len(arguments)], values[len(arguments) :]
        with enable_grad():  # the finite differences are taken without
            outputs = [t for t in _floating(func(*inner)) if t.requires_grad]
            found = grad(outputs, [inner[i] for i in checked], gradients, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    if not first(*arguments, *weights):
        return True
    return gradcheck(first, (*arguments, *weights), eps, atol, rtol, raise_exception, fast_mode=fast_mode)
