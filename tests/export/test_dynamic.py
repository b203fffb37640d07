"""Every primitive with each of its sizes dynamic: the model is right at another size, or the export says why not."""

from typing import Any

import numpy as np
import pytest

from jit.export import export_graph, verify_model
from jit.ir import Op
from jit.ir.errors import Error, ExportError
from jit.runtime.arrays.execute import execute

from .models import checked
from .test_symbolics import PRIMITIVES, OneNode, arguments, each, known_outputs, name_of, samples_of

# Their operands' sizes depend on each other in ways that equal sizes do not show.
DEPENDENT = {
    *("aten::convolution_backward", "aten::select_backward", "aten::slice_backward", "aten::diagonal_backward"),
    *("aten::slice_scatter", "aten::masked_scatter"),
}


def axes_of(feed: dict[str, np.ndarray], size: int) -> dict[str, dict[int, str]]:
    """Every dim of this size as one dynamic axis."""
    found = {name: {dim: "n" for dim, d in enumerate(array.shape) if d == size} for name, array in feed.items()}
    return {name: dims for name, dims in found.items() if dims}


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """The array with each dim of this size twice as long; what is sorted stays so."""
    for dim in range(array.ndim):
        if array.shape[dim] == size:
            array = np.repeat(array, 2, axis=dim)
    return array


def try_size(op: Op, values: list[Any], size: int) -> None:
    node = OneNode(op, values)
    outputs = known_outputs(node, execute(op, values))
    node.graph.set_return([value for value, _ in outputs])
    try:
        exported = checked(export_graph(node.graph, dynamic_axes=axes_of(node.feed, size)))
    except ExportError as error:
        assert "symbolic failed" not in str(error)
        return
    try:
        results = execute(op, [each(value, lambda array: grown(array, size)) for value in values])
    except Error:  # sizes that are equal by chance, such as a kernel's and an image's, cannot grow together
        return
    if exported.sized.axes and not exported.sized.holds_for({"n": 2 * size}):
        return
    feed = {name: grown(array, size) for name, array in node.feed.items()}
    verify_model(exported, [feed], [[results[node.outputs.index(value)] for value, _ in outputs]])


@pytest.mark.parametrize("op", [op for op in PRIMITIVES if op.name not in DEPENDENT], ids=name_of)
def test_holds_for_another_size(op):
    values = arguments(op, samples_of(op)[0])
    arrays: list[np.ndarray] = []
    each(values, arrays.append)
    for size in sorted({size for array in arrays for size in array.shape if size > 1}):
        try_size(op, values, size)
