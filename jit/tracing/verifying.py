"""`jit.verify`: a traced function against the untraced one, values and every gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jit.eager.pytree import Structure, flatten, statics, unflatten
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import dtypes
from jit.ir.errors import AutogradError, Error, UsageError, VerificationError
from jit.runtime.arrays.libraries import HOST, is_writable, library_of

from ..autograd import grad
from .comparing import compare, noise_floor, shaken
from .exporting import unwrapped
from .function import TracedFunction
from .surroundings.snapshots import preserved
from .surroundings.surroundings import Surroundings


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
    function, owner = unwrapped(fn)
    arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    traced = TracedFunction(function, owner)
    around = (function, owner, arguments)
    with preserved(*around):
        orders = min(orders, _orders(function, arguments, loss_fn, _tensors_around(function, owner)))

    def observed(what: Any, change: Callable[[Any], Any] = lambda array: array) -> list[dict[str, Any]]:
        with preserved(*around):
            tensors = _tensors_around(function, owner)
            _change_in_place(tensors.values(), change)
            return [_observe(what, arguments, loss_fn, tensors, orders, change) for _ in range(calls)]

    expected = observed(function)
    try:
        found = observed(traced)
    except Error as error:
        raise VerificationError(f"the traced function raises an error: {error}") from error
    shakes = [functools.partial(shaken, seed=seed) for seed in range(SHAKES)]
    _compare_all(expected, found, functools.cache(lambda: [observed(function, shake) for shake in shakes]))
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
    """The number of times that the result can be differentiated eagerly: 2, 1, or 0, as after a backward inside."""
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
    seen: dict[str, Any] = {f"output {i}": _raw(t) for i, t in enumerate(outputs)}
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
    seen |= {f"argument {i}": _raw(t) for i, t in enumerate(copies)}
    seen |= {f"the gradient of argument {i}": _raw(t.grad) for i, t in enumerate(copies)}
    seen |= {name: _raw(t) for name, t in tensors.items()}
    return seen | {f"the gradient of {name}": _raw(t.grad) for name, t in tensors.items()}


Seen = Sequence[dict[str, Any]]


SHAKES = 3
"""The other roundings of the arguments that are tried where results differ: one alone may change next to nothing."""


def _compare_all(expected: Seen, found: Seen, noisy: Callable[[], Sequence[Seen]]) -> None:
    """VerificationError if any call did something else; `noisy` is what calls do that start from other roundings."""
    for number, wanted in enumerate(expected):
        for name, a in wanted.items():
            what, b = f"call {number}: {name} of the traced function", found[number].get(name)
            slack = 10 if "of gradients" in name else 1
            try:
                compare(a, b, what, slack)
            except VerificationError:
                if a is None or dtypes.from_numpy(a.dtype).is_integral:  # which no rounding excuses
                    raise
                floor = max(noise_floor(a, seen[number].get(name), wanted) for seen in noisy())
                compare(a, b, what, slack, slack * floor)


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
    library = library_of(tensor._array)
    with library.current():
        copy = tensor_of(library.taken(change(HOST.taken(tensor._array)).copy()))
    return copy.requires_grad_() if tensor.requires_grad else copy


def _change_in_place(tensors: Iterable[Tensor], change: Callable[[Any], Any]) -> None:
    """Change parameters and buffers as arguments are: where these are whole numbers, nothing else can be rounded."""
    for array in {id(tensor._array): tensor._array for tensor in tensors}.values():
        if is_writable(array):
            library = library_of(array)
            with library.current():
                array[...] = library.taken(change(HOST.taken(array)))


def _raw(tensor: Tensor | None) -> Any:
    return None if tensor is None else HOST.taken(tensor._array).copy()


def _loss(result: Any, outputs: Sequence[Tensor], loss_fn: Any) -> Tensor:
    if loss_fn is not None:
        return loss_fn(result)
    if len(outputs) != 1:
        raise UsageError(
            f"the function returns {len(outputs)} tensors that require grad; give loss_fn to say what is differentiated"
        )
    return outputs[0].sum()
