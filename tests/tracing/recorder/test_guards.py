"""Guards: each decision once, none where they are forbidden."""

from __future__ import annotations

import pytest

from jit.ir import Graph
from jit.ir.errors import TraceError
from jit.ir.types import ScalarType
from jit.tracing.recorder.guards import Guards
from jit.tracing.recorder.tape import Tape


def test_a_decision_is_recorded_once() -> None:
    tape = Tape(Graph())
    n = tape.graph.add_input(ScalarType("int"), "n")
    guards = Guards(tape)
    guards.guard(n, 3)
    guards.guard(n, 3)
    assert [(record.node.kind, record.outcome) for record in guards.records] == [("prim::Guard", 3)]
    assert [node.kind for node in tape.graph.nodes] == ["prim::Guard"]


def test_a_decision_may_be_forbidden() -> None:
    tape = Tape(Graph())
    n = tape.graph.add_input(ScalarType("int"), "n")
    guards = Guards(tape, strict=True)
    with pytest.raises(TraceError, match="strict=True forbids"):
        guards.guard(n, 3)
    assert not guards.records and not list(tape.graph.nodes)


def test_a_stage_that_is_dropped_is_decided_upon_anew() -> None:
    tape = Tape(Graph())
    n = tape.graph.add_input(ScalarType("int"), "n")
    tape.graph.set_return([n])
    tape.graph.add_stage()
    m = tape.graph.add_input(ScalarType("int"), "m", 1)
    guards = Guards(tape)
    guards.guard(n, 3)
    guards.guard(m, 4)
    guards.drop_stage(1, 1)
    guards.guard(n, 3)
    assert [record.outcome for record in guards.records] == [3]
    guards.guard(m, 5)
    assert [record.outcome for record in guards.records] == [3, 5]
