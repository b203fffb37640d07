"""A Trace is a graph and its components; none of its methods is another module's."""

from __future__ import annotations

import inspect

import jit
from jit.eager import context
from jit.tracing.recorder import tracer
from jit.tracing.recorder.tracer import Trace


def test_its_methods_stand_in_its_own_file() -> None:
    functions = {name: member for name, member in vars(Trace).items() if inspect.isfunction(member)}
    assert functions and {name for name, f in functions.items() if f.__module__ != tracer.__name__} == set()


def test_its_fields_are_components() -> None:
    plain = {name for name, value in vars(Trace()).items() if type(value).__module__.startswith("jit.tracing") is False}
    assert plain == {"graph", "constants"}


def test_operators_in_its_context_are_recorded() -> None:
    trace = Trace()
    x = jit.ones(2)
    with context.tracing(trace):
        y = (x * 2).add_(1)
    assert y.tolist() == [3, 3] and trace.value_of(y).node.kind == "aten::add"
    assert [capture.owner for capture in trace.captures.found] == [x]
