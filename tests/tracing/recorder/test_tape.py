"""A tape: nodes, how they ran, and copies of it."""

from __future__ import annotations

from typing import Any

import jit
from jit.eager import context
from jit.ir import Graph, TensorType, Value, dtypes
from jit.ir.types import INT
from jit.passes.support.builder import GraphBuilder
from jit.tracing.recorder.records import Composite
from jit.tracing.recorder.tape import Tape, nodes_after


def tape_with_input() -> tuple[Tape, Value, TensorType]:
    type = TensorType(dtypes.float32, (2,))
    tape = Tape(Graph())
    return tape, tape.graph.add_input(type, "x"), type


def test_a_node_knows_the_modes_that_it_ran_in() -> None:
    tape, x, type = tape_with_input()
    plain = tape.add("aten::neg", (x,), {}, [type])
    with jit.no_grad():
        untracked = tape.add("aten::neg", (x,), {}, [type])
    with tape.checkpointed(), tape.checkpointed():
        inner = tape.add("aten::neg", (x,), {}, [type])
    token = context.BACKWARD.set(object())
    with tape.checkpointed():
        backward = tape.add("aten::neg", (x,), {}, [type])
    context.BACKWARD.reset(token)
    assert tape.untracked == {untracked} and tape.backwards == {backward}
    assert list(tape.checkpoints) == [inner] and len(tape.checkpoints[inner]) == 2
    assert plain.source is not None and plain.source.function == "test_a_node_knows_the_modes_that_it_ran_in"


def test_numbers_are_computed_once() -> None:
    tape, x, _ = tape_with_input()
    size = tape.number("prim::size", (x,), {"dim": 0}, INT)
    assert tape.number("prim::size", (x,), {"dim": 0}, INT) is size
    assert tape.number("prim::size", (x,), {"dim": 1}, INT) is not size
    found = {tape.number("prim::mul", (size, factor), {}, INT) for factor in (1, 1.0, True, 0.0, -0.0, 1)}
    assert len(found) == 5, "equal numbers of other types or signs are others"
    with tape.apart():
        inside = tape.number("prim::size", (x,), {"dim": 0}, INT)
        assert inside is not size, "it leaves the graph with what it was computed for"
    assert tape.number("prim::size", (x,), {"dim": 0}, INT) is size
    size.node.outputs[0].uses.clear()
    size.node.erase()
    assert tape.number("prim::size", (x,), {"dim": 0}, INT) is not size, "that one has left the graph"


def test_what_a_builder_writes_is_marked() -> None:
    tape, x, type = tape_with_input()
    first = tape.add("aten::neg", (x,), {}, [type])
    F = GraphBuilder(tape.graph)
    with jit.no_grad(), tape.building():
        F.neg(F.neg(F.wrap(x)))
    later = nodes_after(tape.graph, first)
    assert len(later) == 2 and tape.untracked == set(later)
    assert nodes_after(tape.graph, None) == [first, *later]


def test_a_copy_ends_with_a_stage_and_keeps_what_was_noted() -> None:
    tape, x, type = tape_with_input()
    with jit.no_grad():
        first = tape.add("aten::neg", (x,), {}, [type])
    tape.histories[first.output] = x
    tape.composites.append(Composite(first, [], [x]))
    tape.graph.set_return([first.output])
    tape.graph.add_stage()
    with jit.no_grad():
        second = tape.add("aten::neg", (first.output,), {}, [type])
    tape.composites.append(Composite(second, [], [first.output]))
    copy, values, nodes = tape.copied(1)
    assert len(copy.graph.stages) == 1 and [n.kind for n in copy.graph.nodes] == ["aten::neg"]
    assert copy.untracked == {nodes[first]} and copy.histories == {values[first.output]: values[x]}
    assert [(c.node, c.taken) for c in copy.composites] == [(nodes[first], [values[x]])]
    assert tape.untracked == {first, second} and len(tape.graph.stages) == 2


def test_a_stage_is_dropped_with_its_composites() -> None:
    tape, x, type = tape_with_input()
    node: Any = tape.add("aten::neg", (x,), {}, [type])
    tape.graph.set_return([node.output])
    tape.graph.add_stage()
    later = tape.add("aten::neg", (x,), {}, [type])
    tape.composites = [Composite(node, [], []), Composite(later, [], [])]
    tape.drop_stage(1)
    assert [c.node for c in tape.composites] == [node] and list(tape.graph.nodes) == [node]
