"""Traced functions, profiles, constants and coverage as notebooks and rich show them."""

import io

import pytest
from rich.console import Console

import jit

pytestmark = pytest.mark.llvm


@pytest.fixture
def traced():
    scale = 3.0
    f = jit.trace(lambda x: (x * scale).tanh().sum())
    f.__name__ = "<scaled>"
    f(jit.ones(4, requires_grad=True)).backward()
    f(jit.ones(4, requires_grad=True)).backward()
    return f


def test_a_traced_function_says_how_it_has_run(traced):
    shown = traced._repr_html_()
    assert shown.startswith("<table>") and "traced &lt;scaled&gt;" in shown
    for fact in ("<td>calls that ran a recording</td><td>1</td>", "<td>calls that recorded</td><td>1</td>", "3, "):
        assert fact in shown


def test_a_function_that_was_not_called_is_shown_too():
    assert "<td>0</td>" in jit.trace(lambda x: x)._repr_html_()


def test_a_module_is_shown_as_itself_and_its_trace_as_traced():
    assert "traced Linear" in jit.trace(jit.nn.Linear(2, 2))._repr_html_()


def test_constants_are_a_table(traced):
    assert "<td>scale</td><td>3.0</td>" in traced.constants()._repr_html_()


def test_a_profile_is_two_tables(traced):
    profile = traced.profile(jit.ones(4, requires_grad=True))
    shown = profile._repr_html_()
    assert shown.count("<table>") == 2 and "&lt;scaled&gt;" in shown
    assert all(f"<td>{row.name}</td>" in shown for row in profile.kernels)
    file = io.StringIO()
    Console(file=file, width=200).print(profile)
    assert file.getvalue().count("share") == 2


def test_coverage_is_a_table(traced):
    assert "<td>aten::tanh</td>" in jit.coverage(lambda x: x.tanh(), jit.ones(2))._repr_html_()
