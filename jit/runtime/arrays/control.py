"""Runs control flow on arrays: of two branches the one that is chosen, and steps as often as it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import Node
from jit.ir.control import IF, LOOP, carried, scanned

from .libraries import contiguous, is_array

Body = Callable[[Sequence[Any]], list[Any]]
"""A sub-graph made ready to run: from the values of its inputs to those of its outputs."""


def control_flow(node: Node, bodies: Sequence[Body]) -> Body:
    """A function that computes the outputs of a node of control flow of the values of its inputs."""
    if node.kind == IF:
        then, otherwise = bodies
        return lambda values: (then if _holds(values[0]) else otherwise)(values)
    (step,) = bodies
    if node.kind == LOOP:
        return lambda values: _looped(step, values, carried(node), len(node.outputs) - carried(node))
    first, rows, backwards = carried(node), scanned(node), bool(node.attributes.get("reverse"))
    return lambda values: _scanned(step, values, first, rows, backwards)


def _holds(condition: Any) -> bool:
    return bool(condition.item()) if is_array(condition) else bool(condition)


def _looped(step: Body, values: Sequence[Any], count: int, columns: int) -> list[Any]:
    state, constant = [_own(value) for value in values[:count]], values[count:]
    rows: list[Any] = []
    while _holds(state[0]):
        found = step([*state, *constant])
        state = found[:count]
        rows.append(found[count:])
    if rows:
        return [*state, *map(np.stack, zip(*rows, strict=True))]
    if columns == count:  # rows of what is carried, to differentiate: a step that is not made might raise
        return [*state, *(_places(0, value) for value in state)]
    return [*state, *(_no_rows(step, [*state, *constant], count) if columns else ())]


def _scanned(step: Body, values: Sequence[Any], first: int, rows: int, backwards: bool) -> list[Any]:
    state, constant = [_own(value) for value in values[:first]], values[first + rows :]
    xs = [contiguous(x) for x in values[first : first + rows]]
    length = len(xs[0])
    collected: list[Any] = []
    for at in reversed(range(length)) if backwards else range(length):
        found = step([*state, *(x[at, ...] for x in xs), *constant])
        state = found[:first]
        collected = collected or [_places(length, row) for row in found[first:]]
        for place, row in zip(collected, found[first:], strict=True):
            place[at] = row
    if not length:
        zeros = [np.zeros_like(x, shape=x.shape[1:]) for x in xs]
        collected = _no_rows(step, [*state, *zeros, *constant], first)
    return [*state, *collected]


def _no_rows(step: Body, values: Sequence[Any], count: int) -> list[Any]:
    """The rows of no trip: what one would give says what they are like."""
    return [_places(0, row) for row in step(values)[count:]]


def _places(length: int, row: Any) -> Any:
    return np.empty_like(row, shape=(length, *row.shape))


def _own(value: Any) -> Any:
    """A value that shares memory with no other one, in row-major order as steps give it."""
    return value.copy() if is_array(value) else value
