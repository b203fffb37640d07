"""Nests without kept values, for threads that have no place to keep them.

Note [Nothing is kept]
    On the CPU a step may keep values at every point for later steps, in a row that stays in the cache. Where rows find
    no room in shared memory (Note [A row is read once]), threads compute them again instead: the later step takes in
    the operands and the body of the earlier.

        e = keep(exp(x - top)), total = sum(e)            total = sum(exp(x - top))
        out = e / total                                   out = exp(x - top) / total
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..kernels.nest import Keep, Local, Nest, NestStep, Result

_Maker = tuple[NestStep, int, Keep]
"""The step that makes a kept value, the first of its results, and how it was to be kept."""


def without_kept(nest: Nest) -> Nest:
    """The same nest with no values kept at every point, see Note [Nothing is kept]."""
    makers: dict[int, _Maker] = {}
    steps = []
    for step in nest.steps:
        step = _taking_in(step, makers)
        left: list[Result] = []
        places: list[int] = []
        first = 0
        for result in step.results:
            if isinstance(result, Keep) and step.inner:
                makers[result.local] = (step, first, result)
            else:
                left.append(result)
                places += range(first, first + result.arity)
            first += result.arity
        if len(left) == len(step.results):
            steps.append(step)
        elif left:
            steps.append(replace(step, results=tuple(left), body=_picking(step.body, places)))
    return replace(nest, steps=tuple(steps))


def _taking_in(step: NestStep, makers: dict[int, _Maker]) -> NestStep:
    """A step that computes again what it was to read."""
    found = [makers.get(o.number) if isinstance(o, Local) else None for o in step.reads]
    if not any(found):
        return step
    parts = [maker[0].reads if maker else (operand,) for maker, operand in zip(found, step.reads, strict=True)]
    counts = [len(part) for part in parts]

    def body(m: Any, *values: Any) -> Any:
        rest, taken = list(values), []
        for maker, count in zip(found, counts, strict=True):
            own, rest = rest[:count], rest[count:]
            taken.append(_again(m, maker, own) if maker else own[0])
        return step.body(m, *taken)

    return replace(step, reads=tuple(o for part in parts for o in part), body=body)


def _again(m: Any, maker: _Maker, values: Sequence[Any]) -> Any:
    step, place, keep = maker
    value = _results(step.body, m, values)[place]
    return value if hasattr(value, "dtype") else m.constant(value, keep.dtype)


def _picking(body: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """A body with some of the results of another."""

    def picked(m: Any, *values: Any) -> Any:
        results = _results(body, m, values)
        return tuple(results[place] for place in places)

    return picked


def _results(body: Callable[..., Any], m: Any, values: Sequence[Any]) -> Sequence[Any]:
    returned = body(m, *values)
    return returned if isinstance(returned, (tuple, list)) else (returned,)
