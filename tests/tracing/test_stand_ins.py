"""What stood for arguments and numbers while recording is replaced wherever the function has kept it."""

from __future__ import annotations

import collections
import gc
from types import SimpleNamespace
from typing import Any

import pytest

import jit
from jit.tracing.surroundings.stand_ins import replace_everywhere


class Old:
    pass


class Holder:
    __slots__ = ("kept",)
    kept: Any


def test_all_kinds_of_holders() -> None:
    old, new, other = Old(), Old(), Old()
    slotted = Holder()
    slotted.kept = old
    held: dict[str, Any] = {
        "dict": {"a": old, "b": other}, "keys": {old: 1, other: 2}, "list": [other, old], "set": {old, other},
        "deque": collections.deque([old]), "closure": lambda: old, "object": SimpleNamespace(kept=old),
    }  # fmt: skip
    kept_back = {old: other}
    pairs = [(old, new)]
    replace_everywhere(pairs, but=kept_back)
    assert held["dict"] == {"a": new, "b": other}
    assert list(held["keys"].items()) == [(new, 1), (other, 2)]
    assert held["list"] == [other, new] and held["set"] == {new, other} and list(held["deque"]) == [new]
    assert held["closure"]() is new
    assert held["object"].kept is new and slotted.kept is new
    assert list(kept_back.values()) == [other] and next(iter(kept_back)) is not new


def test_tuples_of_tuples_are_made_anew() -> None:
    first, second, new1, new2 = Old(), Old(), Old(), Old()
    held = [(first, (second, (first, 1)), [first])]
    alias = {"same": held[0]}
    replace_everywhere([(first, new1), (second, new2)], but={})
    assert held == [(new1, (new2, (new1, 1)), [new1])]
    assert alias["same"] == held[0]


def test_one_search_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search takes as long as the process is large, so there must not be one for each number of the function."""
    searches = []
    search = gc.get_referrers

    def counted(*known: Any) -> list[Any]:
        searches.append(len(known))
        return search(*known)

    monkeypatch.setattr(gc, "get_referrers", counted)
    kept: list[Any] = []

    @jit.trace
    def function(x: Any) -> Any:
        kept.extend(x.shape[0] * k for k in range(50))
        return x + 1

    function(jit.ones(3))
    assert kept == [3 * k for k in range(50)]
    assert all(type(number) is int for number in kept)
    assert sum(searches) > 50 and len(searches) < 5
