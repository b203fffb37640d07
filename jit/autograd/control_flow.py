"""Control flow over tensors: `cond`, `while_loop`, `scan` and `map`, with the signatures of PyTorch's operators.

Outside of a trace they are what they say, in Python, and are differentiated as such. A trace records each of them as
one node with both branches, or one step, so that a recording does not depend on what is in a predicate; see Note
[Control flow] in `jit.ir.control`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.proxies import TracedScalar
from jit.eager.pytree import TENSOR, Structure, flatten, unflatten
from jit.eager.tensors import Tensor
from jit.ir.control import IF, LOOP, SCAN
from jit.ir.dtypes import bool_
from jit.ir.errors import KindError, ShapeError, UsageError


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`; a trace records both.

    >>> import jit
    >>> @jit.trace
    ... def f(x):
    ...     return jit.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
    >>> f(jit.ones(2)).tolist(), f(-jit.ones(2)).tolist(), f.misses
    ([2.0, 2.0], [-2.0, -2.0], 1)

    Args:
        pred: A bool, or a tensor of one bool.
        true_fn: A function that returns tensors, in any nest of tuples, lists and dicts.
        false_fn: Another one, whose result has the same structure, dtypes and sizes.
        operands: What they are called with. They may use other tensors too, but not write to any from outside.

    Raises:
        KindError: The predicate is no bool, or a branch returns something else than tensors.
        ShapeError: The predicate has several elements.
        UsageError: The branches return nests of other structures.
        TraceError: In a trace, a branch does what a recording cannot repeat, or they return other sizes or dtypes.
    """
    _check_predicate(pred, "the predicate of cond")
    if not isinstance(operands, (tuple, list)):
        raise KindError(f"the operands of cond are a tuple or a list of arguments, not a {type(operands).__name__}")
    trace = _trace()
    if trace is None or type(pred) is bool:
        nest = (true_fn if pred else false_fn)(*operands)
        return _apart(*_tensors(nest, "a branch of cond returns"), operands)
    branches = _Alike("the branches of cond return nests of other structures")

    def branch(function: Callable[..., Any]) -> Callable[[Any], list[Tensor]]:
        return lambda _: branches.noted(function(*operands), "a branch of cond returns")

    found = trace.control_flow(IF, [branch(true_fn), branch(false_fn)], [pred])
    return branches.nest(found)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Repeat `carried = body_fn(*carried)` while `cond_fn(*carried)` holds; returns the last `carried`.

    >>> import jit
    >>> @jit.trace
    ... def halved(x):
    ...     return jit.while_loop(lambda x, n: x > 1, lambda x, n: (x / 2, n + 1), (x, jit.tensor(0)))
    >>> [tuple(t.item() for t in halved(jit.tensor(x))) for x in (8.0, 0.5, 100.0)], halved.misses
    ([(1.0, 3), (0.5, 0), (0.78125, 7)], 1)

    Args:
        cond_fn: Returns a bool, or a tensor of one bool.
        body_fn: Returns as many tensors as it takes, of the same dtypes and sizes.
        carried_inputs: A tuple of tensors, or of nests of them, to begin with.

    Raises:
        KindError: The condition is no bool, or something else than tensors is carried.
        ShapeError: The condition has several elements.
        UsageError: `body_fn` returns another nest than it takes.
        TraceError: In a trace, a function does what a recording cannot repeat, or a step changes sizes or dtypes.
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise KindError(f"while_loop carries a tuple of tensors, not a {type(carried_inputs).__name__}")
    leaves, structure = _tensors(tuple(carried_inputs), "while_loop carries")
    alike = _Alike("body_fn of while_loop returns another nest than it takes", structure)

    def step(tensors: Sequence[Any]) -> list[Any]:
        result = body_fn(*unflatten(structure, tensors))
        found = alike.noted(tuple(result) if isinstance(result, list) else result, "body_fn of while_loop returns")
        return _like(tensors, found, "while_loop")

    def goes_on(tensors: Sequence[Any]) -> Any:
        return _condition(cond_fn(*unflatten(structure, tensors)))

    trace = _trace()
    if trace is None:
        given = list(leaves)
        while goes_on(leaves):
            leaves = step(leaves)
        return _apart(leaves, structure, given)

    def trip(values: Sequence[Any]) -> list[Any]:
        found = step(values[1:])
        return [_tensor_of(goes_on(found)), *found]

    return unflatten(
        structure, trace.control_flow(LOOP, [trip], [_tensor_of(goes_on(leaves)), *leaves], len(leaves) + 1)[1:]
    )


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:  # fmt: skip
    """Go along a dim of `xs`, carrying something from slice to slice: returns what is carried last, and all results.

    >>> import jit
    >>> carry, sums = jit.scan(lambda c, x: (c + x, c + x), jit.tensor(0.0), jit.arange(1.0, 5.0))
    >>> carry.item(), sums.tolist()
    (10.0, [1.0, 3.0, 6.0, 10.0])

    Args:
        combine_fn: Takes what is carried and a slice of `xs`; returns what to carry on, of the same dtypes and sizes,
            and a result, which may be any nest of tensors.
        init: A tensor, or a nest of tensors, to begin with.
        xs: A tensor, or a nest of tensors of the same size along `dim`.
        dim: The dim to go along, and along which results are stacked.
        reverse: Begin with the last slice. Results lie where their slices do.

    Raises:
        KindError: Something else than tensors is carried, gone along or returned, or `combine_fn` returns no pair.
        ShapeError: The sizes along `dim` differ.
        UsageError: `combine_fn` returns another nest than it carries.
        TraceError: In a trace, `combine_fn` does what a recording cannot repeat, or changes what it carries.
    """
    carried, structure = _tensors(init, "scan carries")
    leaves, rows = _tensors(xs, "scan goes along")
    _check_lengths(leaves, dim)
    alike = _Alike("combine_fn of scan returns another nest than it carries", structure)
    results = _Alike("combine_fn of scan returns nests of other structures")
    count, along = len(carried), [F.contiguous(F.movedim(x, dim, 0)) for x in leaves]

    def step(values: Sequence[Any]) -> list[Any]:
        pair = combine_fn(unflatten(structure, values[:count]), unflatten(rows, values[count:]))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise KindError("combine_fn of scan returns a pair: what to carry on, and a result")
        carry = _like(values[:count], alike.noted(pair[0], "scan carries"), "scan")
        return [*carry, *results.noted(pair[1], "combine_fn of scan returns")]

    trace = _trace()
    if trace is not None:
        found = trace.control_flow(SCAN, [step], [*carried, *along], count, len(along), reverse)
        last, stacked = unflatten(structure, found[:count]), found[count:]
    else:
        state, columns = _scanned(step, carried, along, reverse)
        last, stacked = _apart(state, structure, carried), columns
    return last, results.nest([F.movedim(y, 0, dim) for y in stacked])


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for each entry `x` of `xs` along the first dim, stacked; a trace records one step.

    >>> import jit
    >>> jit.map(lambda x, y: x + y.sum(), jit.tensor([1.0, 2.0]), jit.ones(3)).tolist()
    [4.0, 5.0]

    Args:
        f: A function that returns tensors, in any nest.
        xs: A tensor, or a nest of tensors of the same first size.
        args: What else it is called with, the same for all entries.

    Raises:
        KindError: Something else than tensors is gone along or returned.
        ShapeError: The first sizes differ.
        TraceError: In a trace, `f` does what a recording cannot repeat.
    """
    return scan(lambda _, x: ((), f(x, *args)), (), xs)[1]


# -- what there is in common -------------------------------------------------------------------------------------------


def _trace() -> Any:
    """The trace that records, if any; under `vmap`, functions run as Python does."""
    trace = context.TRACE.get()
    return None if hasattr(trace, "beneath") else trace


class _Alike:
    """A structure that several results must have."""

    def __init__(self, complaint: str, structure: Structure | None = None) -> None:
        self.complaint, self.structure = complaint, structure

    def noted(self, nest: Any, what: str) -> list[Tensor]:
        """The tensors of a nest; UsageError if it has another structure than those before."""
        leaves, structure = _tensors(nest, what)
        if self.structure is not None and self.structure != structure:
            raise UsageError(
                f"{self.complaint}: {_words(self.structure)} and {_words(structure)}; return the same nest"
            )
        self.structure = structure
        return leaves

    def nest(self, leaves: Sequence[Tensor]) -> Any:
        """The nest of other tensors."""
        assert self.structure is not None
        return unflatten(self.structure, leaves)


def _tensors(nest: Any, what: str) -> tuple[list[Tensor], Structure]:
    """The tensors in a nest; KindError if there is anything else in it."""
    leaves, structure = flatten(nest)
    others = [*_others(structure), *(leaf for leaf in leaves if not isinstance(leaf, Tensor))]
    if others:
        raise KindError(f"{what} tensors, and here is {others[0]!r}; make it a tensor, with jit.tensor() for instance")
    return leaves, structure


def _others(structure: Structure) -> list[Any]:
    if structure.kind == "static" and structure.keys[0].value is not None:
        return [structure.keys[0].value]
    return [each for child in structure.children for each in _others(child)]


def _words(structure: Structure) -> str:
    if structure == TENSOR:
        return "a tensor"
    inner = ", ".join(builtins.map(_words, structure.children))
    return "None" if structure.kind == "static" else f"{structure.kind.__name__}({inner})"


def _check_predicate(pred: Any, what: str) -> None:
    if isinstance(pred, Tensor):
        if pred.dtype is not bool_:
            raise KindError(f"{what} is a tensor of {pred.dtype.name}; compare it, as in (x > 0)")
        if pred.numel() != 1:
            raise ShapeError(f"{what} has {int(pred.numel())} elements; reduce it to one with all() or any()")
    elif not isinstance(pred, bool):
        raise KindError(f"{what} is a {type(pred).__name__}; pass a bool or a tensor of one bool")


def _condition(found: Any) -> Any:
    _check_predicate(found, "what cond_fn of while_loop returns")
    return found


def _tensor_of(condition: Any) -> Tensor:
    """A condition as a tensor, whatever it was computed with."""
    if isinstance(condition, Tensor):
        return condition
    number = condition.as_int() if type(condition) is TracedScalar else int(condition)
    found: Tensor = F.ne(F.full((), number), 0)
    return found


def _check_lengths(leaves: Sequence[Tensor], dim: int) -> None:
    if not leaves:
        raise KindError("scan goes along tensors, and there are none; pass at least one")
    if any(x.ndim == 0 for x in leaves):
        raise ShapeError("scan goes along a dim of tensors, and one of them has none")
    lengths = [x.shape[dim] for x in leaves]
    if any(n != lengths[0] for n in lengths[1:]):
        raise ShapeError(f"scan goes along tensors of one size, and these have {', '.join(str(n) for n in lengths)}")


def _scanned(
    step: Callable[[Sequence[Any]], list[Any]], carried: list[Tensor], along: list[Tensor], reverse: bool
) -> tuple[list[Tensor], list[Tensor]]:
    state, found, count = list(carried), [], len(carried)
    order = range(int(along[0].shape[0]))
    for at in reversed(order) if reverse else order:
        given = step([*state, *(x[at] for x in along)])
        state = given[:count]
        found.append(given[count:])
    if not found:
        rows = step([*state, *(F.zeros(x.shape[1:], dtype=x.dtype) for x in along)])[count:]
        return state, [F.zeros((0, *row.shape), dtype=row.dtype) for row in rows]
    columns = builtins.map(list, zip(*(found[::-1] if reverse else found), strict=True))
    return state, [F.stack(column) for column in columns]


def _like(before: Sequence[Tensor], after: list[Tensor], title: str) -> list[Tensor]:
    """The tensors carried after a step; ShapeError or KindError if it is not like what was carried before."""
    for number, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.dtype is not b.dtype:
            raise KindError(f"a step of {title} changes what it carries: value {number} is {_of(a)}, then {_of(b)}")
        if a._array.shape != b._array.shape:
            raise ShapeError(f"a step of {title} changes what it carries: value {number} is {_of(a)}, then {_of(b)}")
    return after


def _of(tensor: Tensor) -> str:
    return f"{tensor.dtype.name}{list(tensor._array.shape)}"


def _apart(leaves: Sequence[Tensor], structure: Structure, given: Any) -> Any:
    """The nest of results, in which what was given is cloned, so that results have memory of their own as in traces."""
    storages = {id(tensor._storage) for tensor in flatten(given)[0] if isinstance(tensor, Tensor)}
    return unflatten(structure, [F.clone(t) if id(t._storage) in storages else t for t in leaves])


__all__ = ["cond", "map", "scan", "while_loop"]
