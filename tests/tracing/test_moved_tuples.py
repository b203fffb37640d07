"""Tuples that are replaced between calls: what their items say counts, and nothing is looked at anew for them."""

from typing import Any

import pytest

import jit
from jit.tracing.surroundings.views import View


class State:
    """A holder of tuples, as optimizers' groups and configurations are."""

    pair: Any
    outer: Any
    one: Any
    two: Any

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def same_as_untraced(state: State, function: Any, replacements: list[dict[str, Any]]) -> Any:
    """Call a function traced and untraced after each replacement; the results are the same. Returns it traced."""
    traced = jit.trace(function)
    x = jit.linspace(0.5, 2.0, 4)
    for values in replacements:
        state.__dict__.update(values)
        assert traced(x).tolist() == function(x).tolist()
    return traced


REPLACED = {
    "numbers": [{"pair": (0.1 * n, 2.0)} for n in range(12)],
    "equal_numbers": [{"pair": (float(str(0.5)), float(str(2.0)))} for _ in range(8)],
    "another_kind": [{"pair": (1.5, 2.0)}, {"pair": (1.25, 2.0)}, {"pair": (1, 2.0)}, {"pair": (True, 2.0)}] * 3,
    "to_a_list_and_back": [{"pair": (1.5, 2.0)}, {"pair": [1.25, 2.0]}, {"pair": (1.75, 3.0)}] * 3,
    "longer": [{"pair": (1.0, 2.0)}, {"pair": (1.0, 2.5)}, {"pair": (3.0, 2.5, 7.0)}, {"pair": (3.5, 2.5)}] * 3,
}


@pytest.mark.parametrize("replacements", REPLACED.values(), ids=REPLACED)
def test_items_of_a_replaced_tuple_count(replacements: list[dict[str, Any]]) -> None:
    state = State(pair=(1.0, 1.0))
    same_as_untraced(state, lambda x: x * state.pair[0] + state.pair[1] * len(state.pair), replacements)


def test_tuples_in_tuples_count() -> None:
    state = State(pair=((1.0, 2.0), "a"))
    steps = [{"pair": ((0.5 * n, 2.0 + n // 3), "ab"[n // 4 % 2])} for n in range(14)]
    same_as_untraced(state, lambda x: x * state.pair[0][0] + state.pair[0][1] if state.pair[1] == "a" else -x, steps)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_one_tuple_in_two_places_is_two_once_one_is_replaced(order: tuple[str, str]) -> None:
    both = (1.0, 2.0)
    state = State(one=both, two=both)
    steps: list[dict[str, Any]] = [{}, {}]
    for n in range(6):
        steps += [{order[0]: (3.0 + n, 2.0)}, {order[1]: (5.0, 7.0 + n)}, {"one": both, "two": both}]
    common = [(float(n), 1.0) for n in range(4)]
    steps += [{"one": pair, "two": pair} for pair in common]
    same_as_untraced(state, lambda x: x * state.one[0] + state.two[1] + state.two[0], steps)


def test_tensors_in_a_replaced_tuple_are_those_that_are_there_now() -> None:
    state = State(pair=(jit.ones(4), 2.0))
    steps = [{"pair": (jit.full((4,), float(n)), 2.0 + n % 2)} for n in range(8)]
    same_as_untraced(state, lambda x: x * state.pair[0] + state.pair[1], steps)


def test_a_function_that_replaces_a_tuple_itself_replaces_it_in_every_call() -> None:
    def count(state: State) -> Any:
        def function(x: Any) -> Any:
            state.pair = (state.pair[0] + 1.0, state.pair[1])
            return x * state.pair[0]

        return function

    mine, other = State(pair=(0.0, 1.0)), State(pair=(0.0, 1.0))
    traced, plain = jit.trace(count(mine)), count(other)
    x = jit.ones(3)
    for _ in range(8):
        assert traced(x).tolist() == plain(x).tolist() and mine.pair == other.pair


def test_schedules_of_betas_make_no_view_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    along = View.along.__func__  # type: ignore[attr-defined]

    def noted(*args: Any) -> View:
        made.append(1)
        return along(*args)

    model = jit.nn.Sequential(jit.nn.Linear(4, 3), jit.nn.Tanh(), jit.nn.Linear(3, 1))
    optimizer = jit.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = jit.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=100)

    @jit.trace
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for number in range(30):
        if number == 10:
            monkeypatch.setattr(View, "along", classmethod(noted))
        step(jit.ones(5, 4))
        schedule.step()
    assert made == []


def test_a_tuple_that_another_tuple_holds_later_has_plain_numbers_from_then_on() -> None:
    state = State(pair=(1.0, 2.0), outer=((7.0, 7.0), "b"))
    steps: list[dict[str, Any]] = [{"pair": (float(n), 2.0)} for n in range(5)]
    for n in range(5):
        pair = (n + 0.5, 2.0)
        steps.append({"pair": pair, "outer": (pair, "b")})
    steps += [{"pair": (float(n), 2.0)} for n in range(5)]
    same_as_untraced(state, lambda x: x * state.pair[0] + state.outer[0][0] + state.outer[0][1], steps)


KNOWN = State(pair=(1.0, 2.0))


def test_a_tuple_that_an_argument_holds_too_stands_in_for_both() -> None:
    def function(x: Any, given: State) -> Any:
        return x * KNOWN.pair[0] + given.pair[0]

    traced = jit.trace(function)
    x = jit.linspace(0.5, 2.0, 4)
    for n in range(12):
        KNOWN.pair = (float(n), 2.0)
        given = State(pair=KNOWN.pair if n % 3 else (0.25 * n, 2.0))
        assert traced(x, given).tolist() == function(x, given).tolist()


def test_a_second_place_that_only_new_code_reads_counts() -> None:
    state = State(one=(1.0, 2.0), two=(1.0, 2.0))

    def more(x: Any) -> Any:
        return x + state.two[0]

    def function(x: Any) -> Any:
        y = x * state.one[0]
        return more(y) if len(x) > 4 else y

    traced = jit.trace(function)
    for n in range(12):
        state.one = state.two = (float(n), 2.0)
        for x in (jit.ones(4), *([jit.ones(5)] if n > 3 else [])):
            assert traced(x).tolist() == function(x).tolist()
