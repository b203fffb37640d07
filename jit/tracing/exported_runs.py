"""Runs of a graph that is exported: stage by stage, by the interpreter, with arrays of any sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jit.ir import Graph, TensorType
from jit.ir.dtypes import DType
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.arrays.libraries import HOST

from .recordings.hosting import PythonHost


class Wishes(NamedTuple):
    """The user's wishes for the verification."""

    rtol: float | None
    atol: float | None
    inputs: Sequence[Any]
    """Further arguments, or sizes of axes by their names."""


def dtypes_in(graph: Graph) -> set[DType | None]:
    """The dtypes of all tensors in a graph."""
    return {value.type.dtype for value in graph.values if isinstance(value.type, TensorType)}


def run_stages(graph: Graph, inputs: Sequence[Sequence[Any]]) -> list[Any]:
    """The results of the last of some stages, one after the other, but for undefined ones.

    Args:
        graph: What is run.
        inputs: The inputs of each stage.
    """
    engine, state = Interpreter(graph, PythonHost()), None
    outputs: list[Any] = []
    for number, values in enumerate(inputs):
        outputs, _, state = engine.run(number, values, state)
    return [HOST.taken(o) for o in outputs if o is not None]


def of_sizes(array: Any, sizes: Mapping[int, int]) -> Any:
    """A copy of an array with other sizes of some dims, its elements taken from there."""
    for dim, size in sizes.items():
        index = np.arange(size) % max(array.shape[dim], 1)
        array = np.take(array, index[::-1], axis=dim)
    return np.ascontiguousarray(array) if sizes else array.copy()


@contextmanager
def unknown_sizes(graph: Graph | None) -> Iterator[None]:
    """Within this block no size of an argument is known, so that no pass takes a dynamic one for a constant."""
    inputs = [] if graph is None else [value for stage in graph.stages for value in stage.inputs]
    before = [(value, value.type) for value in inputs if isinstance(value.type, TensorType)]
    for value, type in before:
        value.type = replace(type, shape=None if type.shape is None else (None,) * len(type.shape))
    try:
        yield
    finally:
        for value, type in before:
            value.type = type
