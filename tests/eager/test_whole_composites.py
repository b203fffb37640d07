"""Composites that have a body for numpy: it gives the bits of their parts, and runs where nobody asks for the parts."""

from typing import Any

import pytest

import jit
from jit.autograd import nodes
from jit.eager import dispatch
from jit.eager.arguments import fitter
from jit.ir import REGISTRY, Op
from jit.runtime.arrays.execute import execute, execute_gradients, execute_whole
from tests.registry_cases import all_cases, bits
from tests.tolerances import assert_close

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


WITH_GRADIENTS = [op for op in REGISTRY.values() if op.numpy_gradients is not None]


def gradients_by(op: Op, case: Any) -> list[tuple[Any, ...]]:
    """The bits of the gradients of a case's tensors, the results weighted."""
    args, kwargs = case.arguments()
    leaves = [a.requires_grad_() for a in args if isinstance(a, jit.Tensor) and a.is_floating_point()]
    results = [r for r in case.call(*args, **kwargs) if r.numel()]
    weights = [jit.arange(r.numel()).reshape(r.shape).to(r.dtype).sin() for r in results]
    found = jit.grad(results, leaves, weights, allow_unused=True) if results else ()
    return [bits(g.contiguous()) for g in found if g is not None]


def noted(ran: list[Any], found: Any) -> Any:
    """What was computed, which `ran` now holds, too."""
    ran.append(found)
    return found


@pytest.mark.parametrize("op", WITH_GRADIENTS, ids=lambda op: op.name)
def test_the_derivative_for_numpy_gives_the_bits_of_the_formulas(op: Op, monkeypatch: Any) -> None:
    ran: list[Any] = []
    for case in all_cases(op):
        if not case.sample.grad:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(nodes, "execute_gradients", lambda *args: noted(ran, execute_gradients(*args)))
            by_numpy = gradients_by(op, case)
        with monkeypatch.context() as patch:
            patch.setattr(nodes, "execute_gradients", lambda *args: None)
            assert gradients_by(op, case) == by_numpy
    assert any(found is not None for found in ran)


def attended(x: jit.Tensor) -> jit.Tensor:
    return jit.nn.functional.scaled_dot_product_attention(x * 2, x + 1, x * x)


def test_attention_has_one_node_and_the_gradients_of_its_parts() -> None:
    x = jit.randn(2, 3, 4, dtype=jit.float64, requires_grad=True)
    y = attended(x)
    assert repr(y.grad_fn) == "<ScaledDotProductAttentionBackward0>"
    (found,) = jit.grad(y.sin().sum(), x)
    with jit.autograd.profiler.profile():
        parts = attended(x)
    assert repr(parts.grad_fn) != repr(y.grad_fn)
    (wanted,) = jit.grad(parts.sin().sum(), x)
    assert_close(found, wanted)
    assert jit.autograd.gradcheck(attended, (x,)) and jit.autograd.gradgradcheck(attended, (x,))


def test_a_backward_of_attention_that_is_traced_or_profiled_runs_the_parts() -> None:
    x = jit.randn(2, 3, 4, requires_grad=True)
    (wanted,) = jit.grad(attended(x).sum(), x)
    with jit.autograd.profiler.profile():
        (profiled,) = jit.grad(attended(x).sum(), x)
    assert_close(profiled, wanted)
    traced = jit.trace(lambda x: jit.grad(attended(x).sum(), x)[0])
    for _ in range(3):
        assert_close(traced(x), wanted)


def test_attention_notices_what_was_written_to_its_arguments() -> None:
    q = jit.randn(2, 3, 4, requires_grad=True)
    k = jit.randn(2, 3, 4)
    y = jit.nn.functional.scaled_dot_product_attention(q, k, k)
    k.zero_()
    with pytest.raises(jit.AutogradError, match="was changed by an in-place operation"):
        y.sum().backward()


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
