"""Results of an exported function: its tensors and numbers, each with the name that it has in the program.

A number that is the same in every run is an output that is a constant, so that the outputs are as many as the results,
and stand in their order. What is neither a tensor nor a number, the model leaves out, and its report says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from jit.eager.pytree import Attribute, Structure, flatten, part_names
from jit.eager.tensors import Tensor
from jit.export.naming import is_numbered
from jit.ir import Graph, TensorType, Value, dtypes
from jit.ir.errors import Error
from jit.runtime.arrays.libraries import HOST


class ResultPlace(NamedTuple):
    """A place in the structure of results."""

    name: str
    is_tensor: bool
    """Whether a tensor stands there, or a traced number."""
    value: Any = None
    """Anything else that stands there."""

    @property
    def number(self) -> Any:
        """The array of a plain number; None of anything else."""
        if type(self.value) not in (bool, int, float) and not isinstance(self.value, np.generic):
            return None
        array = np.asarray(self.value)
        try:
            return array if dtypes.from_numpy(array.dtype) and array.dtype.kind in "biuf" else None
        except Error:  # a number that is too long, or text
            return None


def places(structure: Structure, prefix: str = "") -> Iterator[ResultPlace]:
    """The places of a structure, in the order of its leaves."""
    kind, keys, children = structure
    if kind == "tensor":
        yield ResultPlace(prefix, True)
    elif kind == "static":
        yield ResultPlace(prefix, False, keys[0].value)
    else:
        for index, (name, child) in enumerate(zip(part_names(structure, prefix), children)):
            is_beside = index < len(keys) and type(keys[index]) is Attribute
            yield from (place for place in places(child, name) if place.is_tensor or not is_beside)


def with_numbers(structure: Structure, tensors: Sequence[Any]) -> list[Any]:
    """The results that a model gives: tensors, or traced numbers, and arrays of plain numbers between them."""
    remaining = iter(tensors)
    found = [next(remaining) if place.is_tensor else place.number for place in places(structure)]
    return [item for item, place in zip(found, places(structure)) if place.is_tensor or item is not None]


def return_numbers(graph: Graph, structure: Structure, count: int) -> None:
    """Let a graph return nothing but the results of a function, and plain numbers among them as constants.

    Args:
        graph: What was recorded; its first `count` outputs are the tensors and traced numbers among the results.
        structure: That of the results.
        count: The number of those.
    """
    results = with_numbers(structure, graph.outputs[:count])
    first = next(iter(graph.nodes), None)
    with graph.inserting_before(first) if first is not None else nullcontext():
        results = [_constant(graph, item) if isinstance(item, np.ndarray) else item for item in results]
    graph.set_return(results, graph.stages[0].updates, 0)


def _constant(graph: Graph, array: Any) -> Value:
    type = TensorType(dtypes.from_numpy(array.dtype), array.shape)
    return graph.add("prim::Constant", [], {"value": array}, types=[type]).output


def names_of_results(structure: Structure) -> list[str | None]:
    """The keys and fields under which a function returns what `with_numbers` lists, None where it counts them."""
    given = [place.name for place in places(structure) if place.is_tensor or place.number is not None]
    return [None if not name or is_numbered(name) else name for name in given]


def left_out(structure: Structure) -> Iterator[str]:
    """Remarks on what a function returns, and a model does not give."""
    for place in places(structure):
        if not place.is_tensor and place.value is not None and place.number is None:
            what = f"{place.name!r} of the results" if place.name else "the result"
            yield f"{what} is of type {type(place.value).__name__}, and left out of the model's outputs"


def arrays_of(result: Any) -> list[Any]:
    """Copies of the arrays in a function's result, those of its numbers included."""
    leaves, structure = flatten(result)
    return [
        HOST.taken(item._array.copy()) if isinstance(item, Tensor) else np.asarray(item)
        for item in with_numbers(structure, leaves)
    ]
