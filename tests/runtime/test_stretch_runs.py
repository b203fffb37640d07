"""Where the values of a stretch on a GPU lie, and how arrays may lie that it is called with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import jit.ops  # noqa: F401  # declares the operators
from jit.ir import parse
from jit.ir.size_conditions import SizeConditions
from jit.ir.size_uses import symbols_in
from jit.ir.sizes import deciding
from jit.runtime.cuda import launching
from jit.runtime.cuda.devices import open_device
from jit.runtime.cuda.stretch_runs import StretchPlaces
from jit.runtime.cuda.stretches import DeviceCall
from jit.runtime.plans.places import Layout, Stretch
from jit.runtime.plans.steps import is_free_view

from .interpreting_driver import InterpretingDriver

GRAPH = """
graph(%x : Float(4, 4, device=cuda:0)) {
  %1 : Float(4, 4, device=cuda:0) = aten::exp(%x)
  %2 : Float(4, 4, strides=[1, 4], device=cuda:0) = aten::t(%1)
  %3 : Float(4, 4, device=cuda:0) = aten::tanh(%1)
  %4 : Float(4, 4, device=cuda:0) = aten::sin(%3)
  %5 : Float(4, 4, device=cuda:0) = aten::add(%2, %4)
  %6 : Float(4, 4, device=cuda:0) = aten::cos(%5)
  return (%6)
}
"""


def placed() -> tuple[StretchPlaces, dict[str, tuple[str, int]]]:
    """The places of the values of `GRAPH`, and by their names the kinds and offsets of their blocks."""
    graph = parse(GRAPH)
    stretch = Stretch(list(graph.nodes), list(graph.inputs), [graph.outputs[0]])
    layout = Layout(np.dtype(np.float32), (4, 4), (16, 4))
    places = StretchPlaces(stretch, [layout])
    found = {}
    for number, node in enumerate(stretch.nodes, 1):
        (places.view if is_free_view(node, "cuda:0") else places.make)(node)
        places.end(node)
        block = places.places[node.outputs[0]].block
        found[f"%{number}"] = block.kind, block.offset
    return places, found


def test_memory_is_kept_while_a_view_of_it_is_read() -> None:
    """%1 is read last by way of %2, so %4 lies elsewhere; %3 has been read by then, so %5 lies where it lay."""
    places, found = placed()
    assert found == {
        "%1": ("temporary", 0), "%2": ("temporary", 0), "%3": ("temporary", 64), "%4": ("temporary", 128),
        "%5": ("temporary", 64), "%6": ("output", 0),
    }  # fmt: skip
    assert places.arena == 192


SIZED = """
graph(%x : Float(n, 3, device=cuda:0), %y : Float(n, 3, device=cuda:0)) {
  %1 : Float(n, 3, device=cuda:0) = aten::exp(%x)
  %2 : Float(n, 3, device=cuda:0) = aten::mul(%1, %y)
  return (%2)
}
"""


@pytest.fixture
def driver(gpu: str) -> Iterator[None]:
    """The interpreter of PTX where there is no GPU."""
    if gpu == "simulated":
        launching.use(InterpretingDriver())
    yield
    launching.use(launching.NoDriver())


@pytest.mark.usefixtures("driver")
def test_arrays_that_lie_otherwise_than_the_graph_says() -> None:
    graph, library = parse(SIZED), open_device(0)
    stretch = Stretch(list(graph.nodes), list(graph.inputs), list(graph.outputs))
    (rows_of_x,) = symbols_in(graph.nodes)
    with deciding(SizeConditions({rows_of_x: 4})):
        call = DeviceCall(stretch, [rows_of_x], library)
    for rows in (4, 5, 6, 4):
        x, y = np.random.rand(2, rows, 3).astype(np.float32)
        for turned in (False, True):
            there = library.taken(x.T.copy()).T if turned else library.taken(x)
            (found,) = call((rows,), [there, library.taken(y)])
            assert np.allclose(found.get(), np.exp(x) * y, rtol=1e-6)
    assert len({run.kernels for run in call.runs}) == 4, "one for all sizes, and one for each that lies otherwise"
