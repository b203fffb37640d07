"""Where the values of a stretch on a GPU lie."""

from __future__ import annotations

import numpy as np

import jit.ops  # noqa: F401  # declares the operators
from jit.ir import parse
from jit.runtime.cuda.stretch_runs import StretchPlaces
from jit.runtime.plans.places import Layout, Stretch
from jit.runtime.plans.steps import is_free_view

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
