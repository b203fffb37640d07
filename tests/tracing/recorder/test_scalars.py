"""The traced numbers that a function has got."""

from __future__ import annotations

from typing import Any

from jit.eager.proxies import TracedScalar
from jit.eager.view_paths import ViewStep
from jit.ir.types import ScalarType
from jit.ops.views import select
from jit.tracing.recorder.scalars import Scalars
from jit.tracing.recorder.tracer import Trace


def number(trace: Trace) -> TracedScalar:
    return TracedScalar(trace, 3, trace.graph.add_input(ScalarType("int"), "n"))


def test_numbers_count_while_somebody_has_them() -> None:
    trace = Trace()
    kept, _ = number(trace), number(trace)
    del _
    assert trace.scalars.alive == [kept] and len(trace.numbers) == 2


def test_plain_numbers_are_plain_and_those_before_were_asked_late() -> None:
    trace = Trace()
    made = number(trace)
    assert trace.scalars.given(made) is made
    trace.scalars.become_plain()
    assert trace.scalars.asked_late and type(trace.scalars.given(made)) is int
    scalars = Scalars()
    scalars.become_plain()
    assert scalars.plain and not scalars.asked_late


def test_a_step_remembers_the_numbers_behind_it() -> None:
    trace = Trace()
    made, op = number(trace), select
    step, other = ViewStep(op, (0, 3), 0), ViewStep(op, (0, 3), 0)
    trace.scalars.note_step(step, (0, made))
    trace.scalars.note_step(other, (0, 3))
    behind: Any = trace.scalars.behind(step)
    assert [n._value for n in behind] == [made._value] and not trace.scalars.behind(other)
    del made
    assert not trace.scalars.alive, "what a step remembers is nobody's"
