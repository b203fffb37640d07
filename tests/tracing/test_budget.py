"""The budget: how many recordings a function gets for its calls, whatever it does."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jit
from jit.tracing.budget import AT_ONCE, LOST, MOST_LOST, PRICE, SHARE, Budget

pytestmark = pytest.mark.filterwarnings("ignore:.* runs untraced from now on")


def within_budget(f: Any, calls: int) -> bool:
    """Whether a function was recorded as often as its calls pay for at most."""
    return bool(f.misses <= AT_ONCE + calls / PRICE)


# -- the rule ----------------------------------------------------------------------------------------------------


def test_each_recording_is_earned_by_twice_the_calls_if_none_is_answered() -> None:
    budget = Budget()
    for _ in range(10_000):
        if budget.refuses() is None:
            budget.made += 1
        else:
            budget.untraced += 1
        assert budget.made <= AT_ONCE + (budget.untraced // PRICE).bit_length() + 1
    assert budget.made == AT_ONCE + (10_000 // PRICE).bit_length()


def test_calls_that_are_answered_pay_as_well() -> None:
    hits = [0]
    budget = Budget(lambda: hits[0])
    budget.made = AT_ONCE
    assert budget.refuses() == f"it has been recorded {AT_ONCE} times in {AT_ONCE} calls, more than these pay for"
    hits[0] = PRICE
    assert budget.refuses() is None


def test_what_is_lost_twice_for_one_reason_rests() -> None:
    budget = Budget()
    for reason in ("a", "b", "a"):
        assert budget.refuses() is None
        budget.made += 1
        budget.lose(reason)
    assert budget.has_given_up and "cannot repeat in every call" in str(budget.refuses())
    budget.rest()
    assert budget.resting == PRICE - 3
    budget.untraced = PRICE
    assert budget.refuses() is None


def test_a_function_of_which_something_is_kept_may_lose_more() -> None:
    budget = Budget()
    budget.made = 1
    for _ in range(MOST_LOST):
        assert budget.refuses() is None and budget.refuses(lost=LOST) is not None
        budget.made += 1
        budget.lose("a")
    assert budget.has_given_up
    budget.rest()
    assert not budget.resting, "what is kept can still answer"


def test_looks_in_vain_become_rare() -> None:
    hits = [0]
    budget = Budget(lambda: hits[0])
    budget.made, budget.resting = 8, 0
    rests = []
    for _ in range(11):
        budget.rest(looked=1.0, ran=0.2)
        rests.append(budget.resting)
    assert rests == [0, 0, 0, 0, 2, 4, 8, 16, 32, SHARE * 5, SHARE * 5], "a tenth of the time"
    hits[0] += 1
    budget.resting = 0
    budget.rest(looked=1.0, ran=0.2)
    assert budget.resting == 0, "a recording has answered a call"


@pytest.mark.parametrize("ran, longest", [(0.0, PRICE), (1e-6, PRICE), (10.0, 1), (11.0, 0), (1e9, 0)])
def test_what_runs_for_long_may_be_looked_at(ran: float, longest: int) -> None:
    budget = Budget()
    budget.made = 1
    for _ in range(300):
        budget.rest(looked=1.0, ran=ran)
    assert budget.resting == longest


def test_strict_functions_are_always_recorded() -> None:
    budget = Budget(is_strict=True)
    budget.made = 10 * AT_ONCE
    assert budget.refuses(lost=5) is None


# -- functions that cannot be kept -------------------------------------------------------------------------------

SEEN: list[int] = []


def draws(x: Any) -> Any:
    return x * random.random()


def counts(x: Any) -> Any:
    SEEN.append(len(SEEN))
    return x * 2


class Counter:
    """Counts its calls in an attribute, which is another reason for each instance."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls


@pytest.mark.parametrize("make", [lambda: draws, lambda: counts, Counter], ids=["draws", "counts", "an attribute"])
def test_what_cannot_be_kept_is_recorded_twice_and_then_ever_more_rarely(make: Callable[[], Any]) -> None:
    f = jit.trace(make())
    recorded: list[int] = []
    for number in range(20 * PRICE):
        before = f.misses
        f(jit.ones(2))
        recorded += [number] * (f.misses - before)
    assert recorded == [0, 1, PRICE, 2 * PRICE, 4 * PRICE, 8 * PRICE, 16 * PRICE]
    assert f.hits == 0 and "which a recording cannot repeat" in f.explain()


def test_what_cannot_be_kept_is_not_looked_at_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    f = jit.trace(draws)
    looked: list[Any] = []
    take_apart = f._prepare

    def look(*given: Any) -> Any:
        looked.append(given)
        return take_apart(*given)

    monkeypatch.setattr(f, "_prepare", look)
    for _ in range(PRICE - 1):
        f(jit.ones(2))
    assert len(looked) == LOST + 1


def test_results_are_those_of_the_function_while_it_rests() -> None:
    traced, plain = jit.trace(Counter()), Counter()
    for number in range(2 * PRICE):
        x = jit.ones(number % 3 + 1)
        assert traced(x).tolist() == plain(x).tolist()


def test_sizes_and_numbers_that_differ_do_not_help() -> None:
    f = jit.trace(lambda x, n: x * n * random.random())
    for number in range(90):
        f(jit.ones(number + 1), number)
    assert f.misses == LOST


def test_what_settles_is_kept_in_the_end() -> None:
    state: list[int] = []

    @jit.trace
    def f(x: Any) -> Any:
        if len(state) < 5:
            state.append(len(state))
        return x * len(state)

    for _ in range(2 * PRICE):
        f(jit.ones(2))
    assert f.hits == PRICE - 1 and f.misses == LOST + 1


def test_other_calls_of_it_are_kept() -> None:
    @jit.trace
    def f(x: Any, noisy: bool) -> Any:
        return x * random.random() if noisy else x * 2

    f(jit.ones(2), False)
    for number in range(40):
        f(jit.ones(2), True)
        assert f(jit.ones(2), False).tolist() == [2, 2]
        assert f.misses <= 1 + LOST
        assert f.hits == number + 1
    assert f(jit.ones(2, 2), False).tolist() == [[2, 2], [2, 2]] and f.misses == LOST + 2


def test_one_warning_says_why() -> None:
    f = jit.trace(counts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3 * PRICE):
            f(jit.ones(2))
    (warning,) = caught
    assert "because it does what a recording cannot repeat in every call; it was not kept" in str(warning.message)


def test_a_strict_function_goes_on_refusing() -> None:
    f = jit.trace(counts, strict=True)
    for _ in range(AT_ONCE + 5):
        with pytest.raises(jit.TraceError, match="which a recording cannot repeat"):
            f(jit.ones(2))


def looks(f: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows with each call of a traced function that is looked at."""
    found: list[Any] = []
    take_apart = f._prepare

    def look(*given: Any, **how: Any) -> Any:
        found.append(given)
        return take_apart(*given, **how)

    monkeypatch.setattr(f, "_prepare", look)
    return found


def by_elements(x: Any) -> Any:
    for number, element in enumerate(x.tolist()):
        x = x + number if element > 0 else x
    return x


def by_text(x: Any, text: str = "") -> Any:
    return x * len(text)


@pytest.mark.parametrize("function", [by_elements, by_text])
def test_calls_that_nothing_serves_are_looked_at_rarely(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(0)
    calls = [jit.tensor([draw.choice([-1.0, 1.0]) for _ in range(20)]) for _ in range(400)]
    more: Any = (lambda number: (str(number),)) if function is by_text else lambda number: ()
    f = jit.trace(function)
    for number, x in enumerate(calls[:100]):
        assert f(x, *more(number)).tolist() == function(x, *more(number)).tolist()
    found = looks(f, monkeypatch)
    for number, x in enumerate(calls[100:], 100):
        assert f(x, *more(number)).tolist() == function(x, *more(number)).tolist()
    assert len(found) < 100


def test_calls_that_recordings_serve_again_are_served() -> None:
    f = jit.trace(lambda x, text: x * len(text))
    for number in range(100):
        f(jit.ones(2), "a" * number)
    before = f.hits
    for _ in range(3 * PRICE):
        assert f(jit.ones(2), "a").tolist() == [1, 1]
    assert f.hits > before + PRICE
    f.enabled = False
    hits = f.hits
    assert f(jit.ones(2), "a").tolist() == [1, 1] and f.hits == hits
    f.enabled = True
    assert f(jit.ones(2), "a").tolist() == [1, 1] and f.hits == hits + 1


# -- functions with many recordings ------------------------------------------------------------------------------


def test_a_function_whose_calls_are_all_different_runs_as_it_is() -> None:
    f = jit.trace(lambda x, text: x * len(text))
    for number in range(60):
        assert f(jit.ones(2), "a" * number).tolist() == [number, number]
    assert f.misses == AT_ONCE and within_budget(f, 60)
    assert f"ran untraced because it has been recorded {AT_ONCE} times in" in f.explain() and "text is" in f.explain()


def test_a_number_that_is_promoted_is_recorded_at_once() -> None:
    f = jit.trace(lambda x, n: x * n, dynamic=False)
    for number in range(30):
        f(jit.ones(2), number)
    before = f.misses
    f.promote("n")
    for number in range(1, 10):
        assert f(jit.ones(2), number).tolist() == [number, number]
    assert f.misses == before + 1 and f.hits >= 8


def test_a_cache_that_is_cleared_begins_anew() -> None:
    f = jit.trace(counts)
    for _ in range(5):
        f(jit.ones(2))
    f.clear_cache()
    assert f.misses == 0
    for _ in range(5):
        f(jit.ones(2))
    assert f.misses == LOST


def test_calls_that_shortcuts_answer_do_not_end_a_rest() -> None:
    hits, looked_up = [0], [0]
    budget = Budget(lambda: hits[0], looked_up=lambda: looked_up[0])
    budget.made = 8
    rests = []
    for _ in range(9):
        budget.resting, hits[0] = 0, hits[0] + 1
        budget.rest(looked=1.0, ran=0.2)
        rests.append(budget.resting)
    assert rests == [0, 0, 0, 0, 2, 4, 8, 16, 32] and not budget.shortcuts_rest
    budget.resting, looked_up[0] = 0, 1
    budget.rest(looked=1.0, ran=0.2)
    assert budget.resting == 0, "a look was worth while"


@pytest.mark.llvm
def test_kept_calls_are_answered_between_calls_that_cannot_be_kept() -> None:
    def f(x: Any, reads: bool) -> Any:
        return x * 2 + time.time() * 0 if reads else x * 2 + 1

    traced = jit.trace(f)
    x = jit.ones(3)
    for _ in range(40):
        assert traced(x, False).tolist() == [3.0] * 3 and traced(x, True).tolist() == [2.0] * 3
    before, untraced = traced.hits, traced._budget.untraced
    for _ in range(40):
        assert traced(x, False).tolist() == [3.0] * 3 and traced(x, True).tolist() == [2.0] * 3
    assert traced.hits == before + 40 and traced._budget.untraced >= untraced + 39


def test_branches_that_are_used_often_are_all_recorded() -> None:
    f = jit.trace(lambda x, text: x * len(text))
    calls = 0
    for _ in range(80):
        for number in range(30):
            calls += 1
            assert f(jit.ones(2), "a" * number).tolist() == [number, number]
            assert within_budget(f, calls)
    assert f.misses == 30 and f.hits > 1200


def test_errors_of_the_function_are_paid_for() -> None:
    ran: list[Any] = []

    @jit.trace
    def f(x: Any, text: str) -> Any:
        ran.append(jit.eager.context.TRACE.get() is not None)
        raise KeyError(text)

    for number in range(60):
        with pytest.raises(KeyError, match=str(number)):
            f(jit.ones(2), str(number))
    assert sum(ran) <= AT_ONCE and len(ran) == 60


def test_errors_of_tracing_come_every_time() -> None:
    f = jit.trace(lambda x: x.numpy())
    for _ in range(AT_ONCE + 5):
        with pytest.raises(jit.Error):
            f(jit.ones(2))


def random_program(draw: random.Random) -> Iterator[tuple[int, int]]:
    """Calls of a function of many habits, each with some weight: the habit, and a number."""
    weights = [draw.random() ** 3 for _ in range(5)]
    for _ in range(250):
        kind = draw.choices(range(5), weights)[0]
        yield kind, draw.choice([3, draw.randrange(1000)])


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_program(seed: int) -> None:
    def function(x: Any, kind: int, number: int) -> Any:
        if kind == 0:
            return x * random.random() * 0 + number
        if kind == 1:
            SEEN.append(number)
            return x + number
        if kind == 2:
            return x[: number % 5].sum(0) * number
        if kind == 3:
            return x * 2 if x.sum() > number else x + 1
        return sum((x[i] for i in range(x.shape[0])), x[0] * 0)

    f = jit.trace(function)
    for calls, (kind, number) in enumerate(random_program(random.Random(seed)), 1):
        x = jit.ones(number % 50 + 1, 2)
        assert f(x, kind, number).tolist() == function(x, kind, number).tolist()
        assert within_budget(f, calls)


def test_four_paths_of_one_size_are_not_four_sizes() -> None:
    @jit.trace
    def f(x: Any) -> Any:
        total = x.sum()
        if total > 100:
            return x * 2
        if total > 10:
            return x * 3
        return x * 4 if total > 0 else x * 5

    for factor in (1000.0, 10.0, 1.0, -1.0):
        f(jit.ones(4) * factor)
    for size in (5, 6, 7, 8, 9, 12):
        assert f(jit.ones(size) * 1000).tolist() == [2000.0] * size
    assert f.misses == 5, "the first path of the second size is that of the first one"
