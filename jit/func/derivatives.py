"""Derivatives of functions as functions, which nest with each other and with `vmap`.

They run as operators like all others do, so they may stand in a function that is traced.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import KindError, ShapeError, UsageError
from jit.utils._pytree import tree_flatten, tree_unflatten

from .differentiated import Differentiated
from .mapping import vmap


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that returns the gradient of `func`, which returns a single number.

    Args:
        func: A function of tensors, or of nests of them.
        argnums: The number of the argument to differentiate by, or a tuple of such.
        has_aux: Whether it returns a pair, of which only the first is differentiated.

    Returns:
        A function of the same arguments. Its result is nested as the argument, in a tuple if `argnums` is one; with
        `has_aux` it is a pair of that and the second that `func` returned.

    >>> import jit
    >>> from jit.func import grad
    >>> grad(grad(jit.sin))(jit.tensor(0.5)).item() == -jit.sin(jit.tensor(0.5)).item()
    True
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that returns the gradient of `func`, and its result; see `grad`.

    Args:
        func: A function of tensors that returns a single number.
        argnums: The number of the argument to differentiate by, or a tuple of such.
        has_aux: Whether it returns a pair, of which only the first is differentiated.

    Returns:
        A function that returns (gradient, result), or (gradient, (result, aux)).

    >>> import jit
    >>> gradient, value = jit.func.grad_and_value(jit.square)(jit.tensor(3.0))
    >>> gradient.item(), value.item()
    (6.0, 9.0)
    """

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        call = Differentiated("grad", func, args, kwargs, argnums, has_aux)
        weight = F.ones_like(_number(call).detach())
        return call.gradients([weight], retain_graph=False), call.with_aux(call.result, has_aux)

    return both


def _number(call: Differentiated) -> Tensor:
    """The single number that a function has returned."""
    if not call.spec.is_leaf():
        raise KindError(
            "grad: Expected the function to return a tensor, got a nest of them; return one alone, with has_aux=True "
            "for what else there is, or use vjp or jacrev"
        )
    (result,) = call.results
    if result.ndim or not (result.is_floating_point() or result.is_complex()):
        raise ShapeError(
            f"grad: Expected the function to return a scalar tensor, got {result.dtype} of sizes "
            f"{list(result.shape)}. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    if result.is_complex():
        raise KindError("grad: Expected the function to return a real number, got a complex one; use vjp")
    return result


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result of `func`, and the function that gives products of a vector with its Jacobian.

    Args:
        func: A function of tensors, or of nests of them.
        primals: Its arguments.
        has_aux: Whether it returns a pair, of which only the first is differentiated.

    Returns:
        (result, products), or (result, products, aux). `products` takes a nest of weights of the form and the sizes of
        the result, and returns a tuple with one nest for each argument. It can be called any number of times, and
        mapped.

    >>> import jit
    >>> result, products = jit.func.vjp(lambda x, y: x * y, jit.tensor([1.0, 2.0]), jit.tensor([3.0, 4.0]))
    >>> [each.tolist() for each in products(jit.ones(2))]
    [[3.0, 4.0], [1.0, 2.0]]
    """
    call = Differentiated("vjp", func, primals, {}, tuple(range(len(primals))), has_aux)

    def products(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        weights = call.matching(cotangents, call.spec, call.results, "the weights")
        return call.gradients(weights, retain_graph, create_graph)

    return (call.result, products, call.aux) if has_aux else (call.result, products)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The result of `func`, and the product of its Jacobian with directions.

    Args:
        func: A function of tensors, or of nests of them.
        primals: A tuple of its arguments.
        tangents: A tuple of directions, nested as the arguments are.
        strict: Accepted for PyTorch's sake: a result that does not depend on the arguments has the derivative zero.
        has_aux: Whether it returns a pair, of which only the first is differentiated.

    Returns:
        (result, product), or (result, product, aux).

    It is computed by two backward passes, see Note [Forward by two backwards] in `differentiated`.

    >>> import jit
    >>> result, product = jit.func.jvp(jit.square, (jit.tensor(3.0),), (jit.tensor(10.0),))
    >>> result.item(), product.item()
    (9.0, 60.0)
    """
    for value, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(value, (tuple, list)):
            raise KindError(f"jvp: Expected {what} to be a tuple, got {type(value).__name__}; write ({what},)")
    call, push = _pushing("jvp", func, tuple(primals), has_aux)
    product = push(tuple(tangents))
    return (call.result, product, call.aux) if has_aux else (call.result, product)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The result of `func`, and the function that gives products of its Jacobian there with directions.

    Args:
        func: A function of tensors, or of nests of them.
        primals: Its arguments.

    Returns:
        (result, products); `products` takes one direction for each argument, any number of times. `func` runs once.

    >>> import jit
    >>> result, products = jit.func.linearize(jit.square, jit.tensor(3.0))
    >>> products(jit.tensor(1.0)).item(), products(jit.tensor(2.0)).item()
    (6.0, 12.0)
    """
    call, push = _pushing("linearize", func, primals, False)
    return call.result, lambda *tangents: push(tangents)


def _pushing(
    name: str, func: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool
) -> tuple[Differentiated, Callable[[tuple[Any, ...]], Any]]:
    call = Differentiated(name, func, primals, {}, tuple(range(len(primals))), has_aux)
    push = call.pushing()
    return call, lambda tangents: push(call.matching(tangents, call.inputs_spec, call.inputs, "the directions"))


# -- Jacobians ---------------------------------------------------------------------------------------------------


def jacrev(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """The function that returns the Jacobian of `func`, computed by rows: `vjp` mapped over the unit vectors.

    Args:
        func: A function of tensors, or of nests of them.
        argnums: The number of the argument to differentiate by, or a tuple of such.
        has_aux: Whether it returns a pair, of which only the first is differentiated.
        chunk_size: The number of rows that are computed at once; all of them if left out.

    Returns:
        A function of the same arguments. Its result is nested as the result of `func`; in place of each tensor is a
        nest as the argument, of tensors with the sizes of both.

    >>> import jit
    >>> jit.func.jacrev(jit.square)(jit.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if chunk_size is not None and chunk_size <= 0:
        raise UsageError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        call = Differentiated("jacrev", func, args, kwargs, argnums, has_aux)

        def row(weights: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(tree_flatten(call.gradients(weights))[0])

        rows = _at_units(row, call.results, call.inputs, chunk_size)
        pairs = [_split(column, call.results, front=True) for column in rows]
        nests = [tree_unflatten(list(each), call.inputs_spec) for each in zip(*pairs, strict=True)]
        return call.with_aux(tree_unflatten(nests, call.spec), has_aux)

    return jacobian


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The function that returns the Jacobian of `func`, computed by columns; see `jacrev` and `linearize`.

    Args:
        func: A function of tensors, or of nests of them.
        argnums: The number of the argument to differentiate by, or a tuple of such.
        has_aux: Whether it returns a pair, of which only the first is differentiated.
        randomness: Accepted for PyTorch's sake: the function runs once, so all columns see the same random numbers.

    Returns:
        A function of the same arguments, with results as those of `jacrev`.

    >>> import jit
    >>> jit.func.jacfwd(jit.square)(jit.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        call = Differentiated("jacfwd", func, args, kwargs, argnums, has_aux)
        push = call.pushing()

        def column(directions: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(tree_flatten(push(directions))[0])

        columns = _at_units(column, call.inputs, call.results, None)
        pairs = [_split(rows, call.inputs, front=False) for rows in columns]
        nests = [tree_unflatten(list(each), call.inputs_spec) for each in pairs]
        return call.with_aux(tree_unflatten(nests, call.spec), has_aux)

    return jacobian


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that returns all second derivatives of `func`: the Jacobian of its Jacobian, see `jacrev`.

    Args:
        func: A function of tensors, or of nests of them.
        argnums: The number of the argument to differentiate by, or a tuple of such.

    Returns:
        A function of the same arguments. Its result has, in place of each tensor of the result, a nest of nests.

    >>> import jit
    >>> jit.func.hessian(lambda x: (x * x * x).sum())(jit.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacrev(jacrev(func, argnums), argnums)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: nothing needs to be removed, since traces hold no writes.

    Args:
        func: A function of tensors.
        remove: "mutations" or "mutations_and_views".

    Raises:
        UsageError: It is something else.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise UsageError(f'functionalize: remove is {remove!r}; pass "mutations" or "mutations_and_views"')
    return func


def _at_units(
    function: Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]], arguments: Sequence[Tensor],
    results: Sequence[Tensor], chunk_size: int | None,
) -> list[Tensor]:  # fmt: skip
    """The results of a linear function at all unit vectors, which lie along dim 0.

    Args:
        function: The function.
        arguments: Tensors with the sizes of its arguments.
        results: Tensors with the sizes of its results.
        chunk_size: The number of unit vectors at once.
    """
    counts = [math.prod(tensor.shape) for tensor in arguments]
    total = sum(counts)
    if not total:
        return [F.new_zeros(tensor.detach(), [0, *tensor.shape]) for tensor in results]
    parts = F.split_with_sizes(F.eye(total, device=arguments[0].device), counts, 1)
    units = tuple(F._to_copy(F.reshape(p, [total, *t.shape]), dtype=t.dtype) for p, t in zip(parts, arguments))
    return list(vmap(function, chunk_size=chunk_size)(units))


def _split(tensor: Tensor, parts: Sequence[Tensor], front: bool) -> list[Tensor]:
    """The results at the unit vectors of each part, whose sizes they get: in front of their own, or behind."""
    counts = [math.prod(part.shape) for part in parts]
    own = list(tensor.shape[1:])
    found = []
    for piece, part in zip(F.split_with_sizes(tensor, counts, 0), parts, strict=True):
        whole = piece if front else F.movedim(piece, 0, -1)
        found.append(F.reshape(whole, [*part.shape, *own] if front else [*own, *part.shape]))
    return found


__all__ = ["functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]
