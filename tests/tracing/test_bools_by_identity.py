"""Bools read from tensors, of which code asks whether they are `True`: they are Python's own then, and guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit


def is_set(flag: Any) -> bool:
    return flag is True


KEPT = {"check": is_set}


class Gate:
    def __init__(self, flag: Any) -> None:
        self.closed = flag is False


def matched(x: Any) -> Any:
    match (x.sum() > 0).item():
        case True:
            return x * 2
        case False:
            return x - 1


def handed_on(x: Any) -> Any:
    flag = (x[0] > 0).item()
    return x * 2 if KEPT["check"](flag) else x - 1


FORMS: dict[str, Callable[[Any], Any]] = {
    "is True": lambda x: x * 2 if (x.sum() > 0).item() is True else x - 1,
    "is not False": lambda x: (x * 2, (x > 0).any().item() is not False),
    "turned round": lambda x: (x * 2, [True is each for each in (x > 0).tolist()]),
    "of a list": lambda x: (x * 2, [each is True for each in (x > 0).tolist()]),
    "in a helper": lambda x: (x * 2, is_set((x[0] > 0).item())),
    "in a class": lambda x: (x * 2, Gate((x[0] > 0).item()).closed),
    "matched": matched,
    "handed on": handed_on,
    "a number": lambda x: (x * x[0].item(), x[0].item() is True, x.shape[0] is True),
}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("function", FORMS.values(), ids=FORMS)
def test_bools_are_told_by_identity(function: Callable[[Any], Any], optimize: bool) -> None:
    f = jit.trace(function, optimize=optimize)
    for numbers in ([1, 2], [-1, -2], [1, -3], [2, 1, 4], [-2, 1, 4], [-1, -1], [1, 2], [0.5, -9, 3], [3, 3]):
        x = jit.tensor([float(each) for each in numbers])
        found, wanted = f(x), function(x)
        if isinstance(wanted, tuple):
            assert found[1:] == wanted[1:]
            found, wanted = found[0], wanted[0]
        assert found.tolist() == wanted.tolist()


def test_sizes_stay_traced_where_only_bools_are_told() -> None:
    f = jit.trace(lambda x, flag: (x[: x.shape[0] // 2] * x.shape[0], flag is True, (x[0] > 0).item() is True))
    for n in (3, 4, 5, 6, 7, 8, 9):
        assert f(jit.ones(n), True)[1:] == (True, True)
    assert f.misses == 2


def test_bools_of_which_nobody_asks_stay_results() -> None:
    f = jit.trace(lambda x: (x * 2, (x > 0).tolist(), x is not None))
    assert [f(jit.tensor([a, 1.0]))[1] for a in (1.0, -1.0, 2.0, -2.0)] == [[True, True], [False, True]] * 2
    assert f.misses == 1
