"""Sizes as expressions: normal forms, bounds, decisions and the conditions that they leave; against plain ints."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jit.ir.errors import UndecidedSizeError
from jit.ir.size_conditions import SizeConditions, compiled
from jit.ir.sizes import SizeExpr, SizeSymbol, bounds_of, deciding, greatest, least

NAMES = ("k", "m", "n")
K, M, N = (SizeSymbol(name).size for name in NAMES)

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "min": least, "max": greatest,
}  # fmt: skip
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)

expressions = st.recursive(
    st.sampled_from(NAMES) | st.integers(-3, 9),
    lambda inner: st.tuples(st.sampled_from(sorted(ARITHMETIC)), inner, inner),
    max_leaves=8,
)
values = st.fixed_dictionaries({name: st.integers(2, 40) for name in NAMES})


def computed(tree: Any, sizes: Mapping[str, Any]) -> Any:
    if isinstance(tree, tuple):
        return ARITHMETIC[tree[0]](computed(tree[1], sizes), computed(tree[2], sizes))
    return sizes[tree] if isinstance(tree, str) else tree


SYMBOLS = {name: SizeSymbol(name) for name in NAMES}


def at(numbers: Mapping[str, int]) -> dict[SizeSymbol, int]:
    return {SizeSymbol(name): number for name, number in numbers.items()}


@settings(max_examples=400, deadline=None)
@given(expressions, values, values)
def test_an_expression_is_the_number_that_ints_give(tree: Any, first: dict[str, int], other: dict[str, int]) -> None:
    """Its value, its text read as Python and its bounds, at every size for which what was decided still holds."""
    conditions = SizeConditions(at(first))
    try:
        with deciding(conditions):
            size = computed(tree, {name: symbol.size for name, symbol in SYMBOLS.items()})
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            computed(tree, first)
        return
    for numbers in (first, other):
        if numbers is first:
            assert conditions.holds(at(numbers))
        elif not conditions.holds(at(numbers)):
            continue
        wanted = computed(tree, numbers)
        if not isinstance(size, SizeExpr):
            assert size == wanted
            continue
        assert size.evaluate(at(numbers)) == wanted
        assert eval(str(size), dict(numbers)) == wanted
        low, high = size.bounds
        assert (low is None or low <= wanted) and (high is None or wanted <= high)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(expressions, expressions, st.sampled_from(COMPARISONS)), min_size=1, max_size=5), values, values
)
def test_answers_hold_as_long_as_the_conditions_do(
    questions: list[Any], first: dict[str, int], other: dict[str, int]
) -> None:
    conditions = SizeConditions(at(first))
    sizes = {name: symbol.size for name, symbol in SYMBOLS.items()}
    try:
        with deciding(conditions):
            answers = [bool(compare(computed(a, sizes), computed(b, sizes))) for a, b, compare in questions]
    except ZeroDivisionError:
        assume(False)
    assert answers == [compare(computed(a, first), computed(b, first)) for a, b, compare in questions]
    test = compiled(conditions.found, list(SYMBOLS.values()))
    assert test(**first)
    holds = conditions.holds(at(other))
    assert test(**other) == holds
    if holds:
        assert answers == [compare(computed(a, other), computed(b, other)) for a, b, compare in questions]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((N + 1) * (N - 1), "n*n-1"),
        ((4 * N + 6) // 4, "n+1"),
        (2 * N * M // N, "2*m"),
        (N // 2 // 3, "n//6"),
        (N // 4 * 4, "4*(n//4)"),
        (-(-N // 4), "(n+3)//4"),
        (2 * N // 3, "n-((n+2)//3)"),
        ((8 * N + 3) % 8, "3"),
        (N % 8 % 4, "n % 4"),
        (-(N // 2), "-(n//2)"),
        (2 * (N % 4) + M, "m+2*(n % 4)"),
        ((N + 1) // M, "(n+1)//m"),
        (greatest(N, 1), "n"),
        (greatest(N - 3, 0), "max(n-3, 0)"),
        (least(N, M, N), "min(m, n)"),
        (least(greatest(M, 9), greatest(9, M)), "max(m, 9)"),
        (N - N, "0"),
        (N % N, "0"),
    ],
)
def test_normal_forms(size: Any, text: str) -> None:
    assert str(size) == text


@pytest.mark.parametrize(
    "known",
    [N - N // 2 >= 1, N // 2 * 2 <= N, N * M >= N, N * M - N >= 2, least(N, M) <= N, greatest(N, M) >= least(K, M),
     N % 8 < 8, N // 3 < N, (N + 1) != 1, 2 * N + 2 * M != 3, N > 1],
)  # fmt: skip
def test_bounds_decide(known: Any) -> None:
    """None of these needs a decision: there is nobody here who would take one."""
    assert known is True


@pytest.mark.parametrize(
    "function",
    [lambda n: n // 3 - 2, lambda n: n // 3 // 2 + n % 5, lambda n: (n + 1) // 4 * 3, lambda n: greatest(n // 3, 4),
     lambda n: least(n, 9) - n // 2, lambda n: 100 // n, lambda n: n // 3 * (n // 2)],
)  # fmt: skip
def test_symbols_of_one_name_keep_their_own_bounds(function: Callable[[Any], Any]) -> None:
    for low, high in [(9, 12), (1, 64), (2, 2), (30, 64), (1, 5)]:
        symbol = SizeSymbol("several", low, high)
        size = function(symbol.size)
        assert not isinstance(size, SizeExpr) or size.symbols == {symbol}
        numbers = [function(number) for number in range(low, high + 1)]
        found_low, found_high = bounds_of(size)
        assert found_low <= min(numbers) and max(numbers) <= found_high


def test_functions_of_symbols_that_differ_are_not_equal() -> None:
    wide, narrow = SizeSymbol("n", 1).size // 3, SizeSymbol("n", 9).size // 3
    assert str(wide) == str(narrow) and not wide.is_same(narrow)
    assert wide.is_same(SizeSymbol("n", 1).size // 3)
    assert pickle.loads(pickle.dumps(narrow)).is_same(narrow)


def test_what_nobody_decides_is_an_error() -> None:
    for question in (lambda: N == M, lambda: N > 2, lambda: N // M, lambda: range(N), lambda: int(N), lambda: [0] * N):
        with pytest.raises(UndecidedSizeError):
            bool(question())


def found(ask: Callable[..., Any], **numbers: int) -> list[str]:
    """The conditions that are left by what `ask` does with sizes."""
    conditions = SizeConditions(at(numbers))
    with deciding(conditions):
        ask(*(SizeSymbol(name).size for name in numbers))
    return [str(condition) for condition in conditions.found]


def test_a_decision_is_as_general_as_the_question() -> None:
    assert found(lambda n: n % 8 == 0, n=16) == ["n % 8 == 0"]
    assert found(lambda n: (n > 37, n > 30, n >= 38), n=40) == ["n >= 38"]
    assert found(lambda n: (n > 37, n > 30), n=31) == ["37 >= n", "n >= 31"]
    assert found(lambda n: max(n, 1), n=5) == []
    assert found(lambda n, m: n == m, n=5, m=5) == ["m == n"]
    assert found(lambda n, m: n == m, n=5, m=6) == ["m != n"]
    assert found(lambda n: list(range(n)), n=3) == ["n == 3"]
    assert found(lambda n: (n % 4 == 0, n // 4 * 4 == n, n // 4 * 8 == 2 * n), n=8) == ["n % 4 == 0"]
    assert found(lambda n, m: (n == m, n * 4 == m * 4, n + 1 > m), n=5, m=5) == ["m == n"]
    assert found(lambda n: (2 * n == 10, n == 5), n=5) == ["n == 5"]
    assert found(lambda n: 2 * n == 9, n=5) == []


def test_sizes_beyond_32_bits() -> None:
    n = SizeSymbol("n")
    assert (n.size * n.size).evaluate({n: 2**40}) == 2**80
    assert found(lambda n: n * n > 2**70, n=2**40) == ["n*n >= 1180591620717411303425"]


def test_a_size_passes_for_an_int() -> None:
    assert isinstance(N, int) and type(N) is SizeExpr
    assert {N: 1}[SizeSymbol("n").size] == 1
    assert str(pickle.loads(pickle.dumps(N // 2 + M))) == str(N // 2 + M)
    with deciding(SizeConditions(at({"n": 3}))):
        assert sum([SizeSymbol("n").size] * 2) == 6
