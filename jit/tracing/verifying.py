"""`jit.verify`: a traced function against the untraced one, values and every gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from jit.eager.pytree import Structure, flatten, statics, unflatten
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import dtypes
from jit.ir.errors import AutogradError, Error, UsageError, VerificationError

from ..autograd import grad
from .surroundings.snapshots import preserved
from .surroundings.surroundings import Surroundings

TOLERANCES = {dtypes.float16: 1e-2, dtypes.bfloat16: 5e-2, dtypes.float32: 1e-5, dtypes.float64: 1e-10,
              dtypes.complex64: 1e-5, dtypes.complex128: 1e-10}  # fmt: skip
"""Relative to the largest element of a tensor; other dtypes agree exactly."""
NOISE = 8.0
"""How many times as much as rounding the arguments otherwise changes a result, the traced one may be off."""


def verify(
    fn: Any, args: Any, *, loss_fn: Callable[[Any], Tensor] | None = None, calls: int = 3, orders: int = 2
) -> None:
    """Check that a traced function does what the untraced one does: values, gradients, buffers, random state.

    A function that changes its parameters, its structure or what it reads from call to call, so that no recording can
    repeat it, does not pass.

    Args:
        fn: A function, Module or traced function.
        args: Its arguments, a tuple; they are copied, and so are parameters and buffers put back.
        loss_fn: Makes the number that is differentiated out of the result; the sum of a single output by default.
        calls: How often the traced function is called; the first call records.
        orders: 2 compares gradients of gradients too, where there are any; 1 gradients, 0 values alone.

    Raises:
        VerificationError: Values or gradients differ, and it says which and by how much; or the function was not the
            same in every call, and it says what changed.
        UsageError: Several outputs and no loss_fn.

    >>> import jit
    >>> jit.verify(lambda x: jit.tanh(x) * 2, (jit.ones(3, requires_grad=True),))
    """
    from .exporting import _unwrapped
    from .function import TracedFunction

    function, owner = _unwrapped(fn)
    arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    traced = TracedFunction(function, owner)
    around = (function, owner, arguments)
    with preserved(*around):
        orders = min(orders, _orders(function, arguments, loss_fn, _tensors_around(function, owner)))

    def observed(what: Any, change: Callable[[Any], Any] = lambda array: array) -> list[dict[str, Any]]:
        with preserved(*around):
            tensors = _tensors_around(function, owner)
            return [_observe(what, arguments, loss_fn, tensors, orders, change) for _ in range(calls)]

    expected = observed(function)
    try:
        found = observed(traced)
    except Error as error:
        raise VerificationError(f"the traced function raises an error: {error}") from error
    _compare_all(expected, found, functools.cache(lambda: observed(function, shaken)))
    if traced.hits < calls - 1:
        raise VerificationError(
            f"the function was recorded {traced.misses} times in {calls} equal calls: {traced.explain()}"
        )


def _tensors_around(function: Any, owner: Any) -> dict[str, Tensor]:
    """The parameters, buffers and other leaves that a function reads, by name."""
    found = Surroundings(function, owner).reach()
    named = {found.name_of(thing) or f"tensor {i}": thing for i, thing in enumerate(found.tensors)}
    return {n: t for n, t in named.items() if isinstance(t, Tensor) and t.defined and t.is_leaf}


def _orders(function: Any, arguments: Sequence[Any], loss_fn: Any, tensors: dict[str, Tensor]) -> int:
    """How often the result can be differentiated in eager mode: 2, 1, or not at all, as after a backward inside."""
    for orders in (2, 1):
        try:
            _observe(function, arguments, loss_fn, tensors, orders)
        except AutogradError:
            continue
        return orders
    return 0


def _observe(
    function: Any, arguments: Sequence[Any], loss_fn: Any, tensors: dict[str, Tensor], orders: int,
    change: Callable[[Any], Any] = lambda array: array,
) -> dict[str, Any]:  # fmt: skip
    """Call on copies of the arguments, which `change` may make others, differentiate, and say what came of it."""
    given, structure = flatten(tuple(arguments))
    copies = [_copy(leaf, change) for leaf in given]
    for tensor in tensors.values():
        tensor._grad = None
    result = function(*unflatten(structure, copies))
    leaves_of_result, shape = flatten(result)
    outputs = [t for t in leaves_of_result if isinstance(t, Tensor)]
    seen: dict[str, Any] = {f"output {i}": t._array.copy() for i, t in enumerate(outputs)}
    seen |= {f"number {i}": np.asarray(value) for i, value in enumerate(_numbers(shape))}
    seen["the structure of the result"] = np.frombuffer(_described(shape).encode(), np.uint8)
    seen |= {f"whether output {i} requires grad": np.asarray(t.requires_grad) for i, t in enumerate(outputs)}
    differentiable = [t for t in outputs if t.requires_grad]
    leaves: dict[str, Tensor] = {f"argument {i}": t for i, t in enumerate(copies)} | tensors
    if differentiable and orders > 0:
        loss = _loss(result, differentiable, loss_fn)
        if orders > 1:
            seen |= _gradients_of_gradients(loss, {n: t for n, t in leaves.items() if t.requires_grad and t.is_leaf})
        loss.backward(retain_graph=True)  # nodes that were there before are the caller's
    seen |= {f"argument {i}": t._array.copy() for i, t in enumerate(copies)}
    seen |= {f"the gradient of argument {i}": _raw(t.grad) for i, t in enumerate(copies)}
    seen |= {name: t._array.copy() for name, t in tensors.items()}
    return seen | {f"the gradient of {name}": _raw(t.grad) for name, t in tensors.items()}


def shaken(array: Any) -> Any:
    """An array whose floating elements have been rounded up or down."""
    dtype = dtypes.from_numpy(array.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        return array.copy()
    parts = array.real if dtype.is_complex else array
    finest: Any = ml_dtypes.finfo
    step = float(finest(parts.dtype).eps) * np.random.default_rng(0).choice([-1.0, 1.0], array.shape)
    with np.errstate(all="ignore"):
        return (array * (1 + step)).astype(array.dtype)


Seen = Sequence[dict[str, Any]]


def _compare_all(expected: Seen, found: Seen, noisy: Callable[[], Seen]) -> None:
    """VerificationError if any call did something else; `noisy` is what calls do that start from other roundings."""
    for number, wanted in enumerate(expected):
        for name, a in wanted.items():
            what, b = f"call {number}: {name} of the traced function", found[number].get(name)
            slack = 10 if "of gradients" in name else 1
            try:
                _compare(a, b, what, slack)
            except VerificationError:
                _compare(a, b, what, slack, slack * _floor(a, noisy()[number].get(name), wanted))


def _floor(expected: Any, noisy: Any, together: dict[str, Any]) -> float:
    """How far apart elements may be that are nothing but rounding, such as a sum that is 0 but for it."""
    if expected is None or noisy is None or noisy.shape != expected.shape or noisy.dtype != expected.dtype:
        return 0.0
    with np.errstate(all="ignore"):
        apart = _largest(noisy.astype(_wide(noisy)) - expected.astype(_wide(expected)))
    others = (a for a in together.values() if a is not None and a.dtype == expected.dtype)
    bound = TOLERANCES.get(dtypes.from_numpy(expected.dtype), 0.0) * max(map(_largest, others), default=0.0)
    return min(NOISE * apart, bound)


def _largest(array: Any) -> float:
    """The largest finite magnitude of the elements."""
    wide = array.astype(_wide(array))
    return float(np.max(np.abs(wide), where=np.isfinite(wide), initial=0.0))


def _wide(array: Any) -> Any:
    return np.complex128 if array.dtype.kind == "c" else np.float64


def _numbers(structure: Structure) -> list[Any]:
    return [value for value in statics(structure) if isinstance(value, (int, float, complex))]


def _described(structure: Structure) -> str:
    """Everything about a structure but its numbers."""
    if structure.kind == "static":
        value = structure.keys[0].value
        return type(value).__name__ if isinstance(value, (int, float, complex)) else repr(structure.keys)
    kind = structure.kind if isinstance(structure.kind, str) else structure.kind.__name__
    return f"{kind}{structure.keys}({', '.join(map(_described, structure.children))})"


def _gradients_of_gradients(loss: Tensor, leaves: dict[str, Tensor]) -> dict[str, Any]:
    """The gradients of the squares of all gradients, added up."""
    if not leaves:
        return {}
    first = grad(loss, list(leaves.values()), create_graph=True, retain_graph=True, allow_unused=True)
    squares = [(g * g).sum() for g in first if g is not None and g.requires_grad]
    second = grad(squares, list(leaves.values()), retain_graph=True, allow_unused=True) if squares else ()
    return {f"the gradient of gradients of {n}": _raw(g) for n, g in zip(leaves, second, strict=False)}


def _copy(tensor: Tensor, change: Callable[[Any], Any]) -> Tensor:
    copy = tensor_of(change(tensor._array).copy())
    return copy.requires_grad_() if tensor.requires_grad else copy


def _raw(gradient: Tensor | None) -> Any:
    return None if gradient is None else gradient._array.copy()


def _loss(result: Any, outputs: Sequence[Tensor], loss_fn: Any) -> Tensor:
    if loss_fn is not None:
        return loss_fn(result)
    if len(outputs) != 1:
        raise UsageError(
            f"the function returns {len(outputs)} tensors that require grad; give loss_fn to say what is differentiated"
        )
    return outputs[0].sum()


def seen(result: Any, inputs: Any) -> Any:
    """Copies of what a call returned and of what it has left in its arguments, to be compared later."""
    leaves, structure = flatten((result, inputs))
    copies = [tensor_of(t._array.copy()) if isinstance(t, Tensor) and t.defined else t for t in leaves]
    return unflatten(structure, copies)


def compare_results(expected: Any, found: Any, what: str, noisy: Callable[[], Any]) -> None:
    """VerificationError unless two results have the same structure and agree within the tolerances.

    Args:
        expected: What is right.
        found: What is asked about.
        what: What differs, for the message.
        noisy: Gives what `expected` would be with arguments that are rounded otherwise.
    """
    (a_leaves, a_structure), (b_leaves, b_structure) = flatten(expected), flatten(found)
    if a_structure != b_structure:
        raise VerificationError(f"{what}: the structures differ")
    others = functools.cache(lambda: _arrays_of(noisy, len(a_leaves)))
    together = {str(i): leaf._array for i, leaf in enumerate(a_leaves) if leaf.defined}
    for index, (a, b) in enumerate(zip(a_leaves, b_leaves, strict=True)):
        name = f"{what}, output {index}"
        try:
            _compare(a._array, b._array, name)
        except VerificationError:
            _compare(a._array, b._array, name, 1, _floor(a._array, others()[index], together))


def _arrays_of(make: Callable[[], Any], count: int) -> list[Any]:
    """The arrays in a result; None for each where there is none, or not as many as there should be."""
    try:
        leaves = flatten(make())[0]
    except Exception:  # the function does not take what is rounded otherwise, so there is nothing to be learned
        return [None] * count
    return [leaf._array for leaf in leaves] if len(leaves) == count else [None] * count


def shaken_in_place(values: Any) -> None:
    """Round the floating elements of the tensors among `values` up or down."""
    for array in {id(t): t._array for t in flatten(values)[0] if t.defined and t._array.flags.writeable}.values():
        array[...] = shaken(array)


def _compare(expected: Any, found: Any, what: str, slack: float = 1, floor: float = 0.0) -> None:
    if expected is None or found is None:
        if expected is not found:
            raise VerificationError(
                f"{what} is missing, but it should be there" if found is None else f"{what} is there, but should not"
            )
        return
    if expected.dtype != found.dtype or expected.shape != found.shape:
        raise VerificationError(
            f"{what} is {found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
        )
    limit = slack * TOLERANCES.get(dtypes.from_numpy(expected.dtype), 0.0)
    a, b = expected.astype(_wide(expected)), found.astype(_wide(found))
    largest = _largest(expected)
    with np.errstate(all="ignore"):
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= limit * largest + floor))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise VerificationError(
            f"{what} differs in {int(wrong.sum())} of {wrong.size} elements, first at {list(at)}: "
            f"{b[at]} instead of {a[at]}"
        )
