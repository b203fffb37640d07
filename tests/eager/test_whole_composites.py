"""Composites that have a body for numpy: it gives the bits of their parts, and runs where nobody asks for the parts."""

from typing import Any

import pytest

import jit
from jit.eager import dispatch
from jit.eager.arguments import fitter
from jit.ir import REGISTRY, Op
from jit.runtime.arrays.execute import execute, execute_whole
from tests.registry_cases import all_cases, bits

WITH_BODIES = [op for op in REGISTRY.values() if op.kind == "composite" and op.numpy_body is not None]


@pytest.mark.parametrize("op", WITH_BODIES, ids=lambda op: op.name)
def test_the_body_gives_the_bits_of_the_parts(op: Op) -> None:
    taken = 0
    for case in all_cases(op):
        args, kwargs = case.arguments()
        values = fitter(op)(*args, **kwargs)
        found = execute_whole(op, [v._array if isinstance(v, jit.Tensor) else v for v in values])
        if found is not None:
            taken += 1
            parts = dispatch._run_parts(op, values)
            assert bits(jit.from_numpy(found)) == bits(parts)
            assert found.strides == parts.numpy().strides
    assert taken


def parts_of(function: Any, monkeypatch: Any) -> list[str]:
    """The operators that ran while `function` did."""
    ran: list[str] = []

    def noting(op: Op, values: Any) -> Any:
        ran.append(op.schema.name)
        return execute(op, values)

    monkeypatch.setattr(dispatch, "execute", noting)
    function()
    return ran


def test_the_parts_run_where_somebody_looks_at_them(monkeypatch: Any) -> None:
    x, w, b = jit.ones(2, 3), jit.ones(4, 3), jit.ones(4)

    def call() -> Any:
        return jit.nn.functional.linear(x, w, b)

    assert parts_of(call, monkeypatch) == []
    assert parts_of(lambda: jit.trace(call)(), monkeypatch) == ["t", "addmm"]
    with jit.autograd.profiler.profile():
        assert parts_of(call, monkeypatch) == ["t", "addmm"]
    with jit.autocast("cpu"):
        assert call().dtype is jit.bfloat16
    assert parts_of(lambda: jit.nn.functional.linear(x.half(), w.half(), b.half()), monkeypatch)[-2:] == ["t", "addmm"]


def test_what_does_not_fit_is_refused_by_the_parts() -> None:
    with pytest.raises(jit.ShapeError, match="linear: an input of sizes"):
        jit.nn.functional.linear(jit.ones(2, 3), jit.ones(4, 2))
    with pytest.raises(jit.ShapeError, match="do not broadcast"):
        jit.nn.functional.linear(jit.ones(2, 3), jit.ones(4, 3), jit.ones(5))
    with pytest.raises(jit.DTypeError, match="expects one dtype"):
        jit.ones(2, 3) @ jit.ones(3, 2, dtype=jit.float64)


def test_histories_are_those_of_the_composite_or_of_its_parts() -> None:
    x = jit.ones(2, 3, requires_grad=True)
    assert repr(jit.nn.functional.linear(x, jit.ones(4, 3)).grad_fn) == "<AddmmBackward0>"
    assert repr((x @ jit.ones(3, 4)).grad_fn) == "<MmBackward0>"
    with jit.no_grad():
        assert (x @ jit.ones(3, 4)).grad_fn is None
