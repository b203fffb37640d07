"""loops: native blocks of steps give what the operators' own bodies give, for any number of steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir.op import REGISTRY
from jit.runtime.arrays.execute import execute
from jit.runtime.plans import loops
from tests.registry_cases import all_cases
from tests.tolerances import assert_close

pytestmark = pytest.mark.llvm
RECURRENCES = [op for op in REGISTRY.values() if op.recurrence is not None]


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_known", {})


def numbers(rng: Any, dtype: Any, *shape: int) -> Any:
    return rng.uniform(-0.7, 0.7, shape).astype(dtype)


def calls(rng: Any, t: int, n: int, k: int, dtype: Any = np.float64) -> Iterator[tuple[str, list[Any]]]:
    """Calls of all recurrences, over t steps of n sequences."""

    def new(*shape: int) -> Any:
        return numbers(rng, dtype, *shape)

    for backwards in (False, True):
        yield "_lstm_layer", [new(t, n, 4 * k), new(n, k), new(n, k), new(4 * k, k), None, backwards]
        yield "_lstm_layer", [new(t, n, 4 * k), new(n, 2), new(n, k), new(4 * k, 2), new(2, k), backwards]
        yield "_gru_layer", [new(t, n, 3 * k), new(n, k), new(3 * k, k), new(3 * k), backwards]
        gates, state, w = new(t, n, 4 * k), new(n, k), new(4 * k, k)
        for given in (new(t, n, k), None):
            yield "_lstm_layer_backward", [gates, new(t, n, k), given, state, state, state, w, None, backwards]
            yield "_gru_layer_backward", [gates, new(t, n, k), given, state, state, new(3 * k, k), backwards]
            yield "_rnn_layer_backward", [new(t, n, k), given, state, new(k, k), backwards, backwards]
        rest = new(n, 2), new(n, k), new(n, k), new(4 * k, 2), new(2, k), backwards
        yield "_lstm_layer_backward", [gates, new(t, n, k), new(t, n, 2), *rest]
        for relu in (False, True):
            yield "_rnn_layer", [new(t, n, k), new(n, k), new(k, k), relu, backwards]


def test_every_recurrence_is_called():
    assert {name for name, _ in calls(np.random.default_rng(0), 1, 1, 2)} == {op.schema.name for op in RECURRENCES}


@pytest.mark.parametrize("steps", [1, 2, 3, 15, 16, 17, 32, 50])
def test_any_number_of_steps(steps, rng):
    for n, k in ((1, 2), (3, 5)):
        for name, values in calls(rng, steps, n, k):
            op = REGISTRY[f"aten::{name}"]
            assert loops._loop_of(op, values) is not None, name
            wanted = execute(op, values)
            for _ in range(2):  # the second call finds memory that the first one has left
                for a, b in zip(loops.run_recurrence(op, values), wanted, strict=True):
                    assert_close(a, b, rtol=1e-11, atol=1e-12)


def test_what_nobody_wants_is_left_out(rng):
    for name, values in calls(rng, 35, 2, 3):
        op = REGISTRY[f"aten::{name}"]
        every = loops.run_recurrence(op, values)
        for left in range(len(every)):
            found = loops.run_recurrence(op, values, [i != left for i in range(len(every))])
            assert all(a is None or np.array_equal(a, b) for a, b in zip(found, every, strict=True))
            assert all(a is not None for i, a in enumerate(found) if i != left)


def test_operands_lie_as_they_like(rng):
    for name, values in calls(rng, 9, 3, 4, np.float32):
        op = REGISTRY[f"aten::{name}"]
        strided = [np.asfortranarray(v) if isinstance(v, np.ndarray) else v for v in values]
        for a, b in zip(loops.run_recurrence(op, strided), loops.run_recurrence(op, values), strict=True):
            assert np.array_equal(a, b)


def test_results_do_not_depend_on_threads(rng, monkeypatch):
    for name, values in calls(rng, 20, 16, 64, np.float32):
        op, found = REGISTRY[f"aten::{name}"], []
        for threads in (1, 2):
            monkeypatch.setenv("JIT_NUM_THREADS", str(threads))
            found.append(loops.run_recurrence(op, values))
        assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True)), name


@pytest.mark.parametrize("op", RECURRENCES, ids=lambda op: op.schema.name)
def test_samples(op):
    for case in all_cases(op):
        values = [np.array(a) if isinstance(a, np.ndarray) else a for a in case.sample.args]
        for a, b in zip(loops.run_recurrence(op, values), execute(op, values), strict=True):
            assert_close(a, b)


def test_there_is_code_for_so_many_sizes_only(monkeypatch, rng):
    monkeypatch.setattr(loops, "MOST", 2)
    op = REGISTRY["aten::_rnn_layer"]
    for k in (1, 2, 3, 4):
        values = [numbers(rng, np.float64, 5, 2, k), np.zeros((2, k)), numbers(rng, np.float64, k, k), False, False]
        assert (loops._loop_of(op, values) is None) == (k > 2)
        for a, b in zip(loops.run_recurrence(op, values), execute(op, values), strict=True):
            assert_close(a, b, rtol=1e-11, atol=1e-12)


def test_what_does_not_fit_is_refused(rng):
    op = REGISTRY["aten::_rnn_layer"]
    for shares, h in (((0, 2, 3), (2, 3)), ((4, 2, 3), (1, 3)), ((4, 2, 3), (2, 4))):
        with pytest.raises(jit.ShapeError):
            loops.run_recurrence(op, [np.zeros(shares), np.zeros(h), np.zeros((3, 3)), False, False])


def test_no_operand_may_be_shorter_than_the_others(rng):
    """Native code would read beyond its end; neither first calls nor later ones get that far."""
    for name, values in calls(rng, 5, 2, 3):
        op = REGISTRY[f"aten::{name}"]
        if op.schema.name.endswith("backward") and values[1] is not None:
            for _ in range(2):
                for at in [i for i, v in enumerate(values) if isinstance(v, np.ndarray)]:
                    cut = [v[:-1] if i == at else v for i, v in enumerate(values)]
                    assert refused(op, cut), (name, at)
                loops.run_recurrence(op, values)


def refused(op: Any, values: list[Any]) -> bool:
    try:
        loops.run_recurrence(op, values)
    except jit.Error:
        return True
    return False
