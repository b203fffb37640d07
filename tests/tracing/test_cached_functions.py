"""Functions that keep their results, in traced ones: what an `lru_cache` keeps is found, and watched for changes."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import jit

pytestmark = pytest.mark.filterwarnings("ignore:.* runs untraced from now on", "ignore:.* has been recorded 10 times")

CACHES: dict[str, Callable[[Any], Any]] = {
    "cache": functools.cache,
    "lru_cache": functools.lru_cache,
    "of three": functools.lru_cache(3),
    "typed": functools.lru_cache(8, typed=True),
}


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 2.0


def _set_item(kept: Any) -> None:
    kept[0] = 5.0


RESULTS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "list": (lambda: [2.0], lambda kept: kept[0], _set_item),
    "dict": (lambda: {0: 2.0}, lambda kept: kept[0], _set_item),
    "list in a tuple": (lambda: (1, [2.0]), lambda kept: kept[1][0], lambda kept: _set_item(kept[1])),
    "object": (lambda: SimpleNamespace(factor=2.0), lambda kept: kept.factor, lambda kept: vars(kept).update(factor=5)),
    "object with slots": (Slotted, lambda kept: kept.factor, lambda kept: setattr(kept, "factor", 5.0)),
    "module": (lambda: jit.nn.Dropout(), lambda kept: 2 if kept.training else 5, lambda kept: kept.eval()),
    "tensor": (lambda: jit.full((2,), 2.0), lambda kept: kept, lambda kept: kept.fill_(5.0)),
    "set": (lambda: {2.0}, lambda kept: 2.0 if 2.0 in kept else 5.0, lambda kept: kept.discard(2.0)),
    "function with a default": (
        lambda: lambda factor=2.0: factor, lambda kept: kept(), lambda kept: setattr(kept, "__defaults__", (5.0,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("cache", CACHES)
def test_what_is_kept_is_watched(cache: str, result: str) -> None:
    make, read, change = RESULTS[result]
    kept = CACHES[cache](lambda number: make())
    kept(0), kept(1)
    f = jit.trace(lambda x: x * read(kept(1)))
    assert [f(jit.ones(2)).tolist() for _ in range(4)] == [[2, 2]] * 4
    assert f.hits >= 2
    change(kept(1))
    assert [f(jit.ones(2)).tolist() for _ in range(4)] == [[5, 5]] * 4
    assert f.hits >= 4


@pytest.mark.parametrize("cache", CACHES)
def test_tensors_that_are_kept_are_found(cache: str) -> None:
    grid = CACHES[cache](lambda size: jit.arange(float(size)))
    f = jit.trace(lambda x: x + grid(x.shape[0]))
    for size in (4, 4, 4, 4, 5, 5, 5, 4, 4):
        assert f(jit.ones(size)).tolist() == [1.0 + n for n in range(size)]
    assert f.hits >= 4, "the first call of each size fills the cache"


@pytest.mark.parametrize("cache", CACHES)
def test_gradients_reach_what_is_kept(cache: str) -> None:
    weight = CACHES[cache](lambda size: jit.ones(size, requires_grad=True))
    f = jit.trace(lambda x: (x * weight(3)).sum())
    weight(2), weight(3)
    for _ in range(5):
        f(jit.tensor([1.0, 2.0, 3.0])).backward()
    assert f.hits == 4 and weight(3).grad.tolist() == [5, 10, 15] and weight(2).grad is None


@pytest.mark.parametrize("cache", CACHES)
def test_caches_that_forget_make_their_results_anew(cache: str) -> None:
    made: list[int] = []

    def make(number: int) -> Any:
        made.append(number)
        return jit.full((2,), float(number * 100 + len(made)))

    kept, plain = CACHES[cache](make), CACHES[cache](make)
    f, g = jit.trace(lambda x, n: x * kept(n)), lambda x, n: x * plain(n)
    found: list[Any] = []
    wanted: list[Any] = []
    for function, seen in ((f, found), (g, wanted)):
        made.clear()
        for step in range(40):
            seen.append(function(jit.ones(2), step % 4 if step > 20 else step % 2).tolist())
            if step % 7 == 6:
                (kept if function is f else plain).cache_clear()
    assert found == wanted


def test_methods_that_keep_their_results() -> None:
    class Grid(jit.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        @functools.lru_cache(4)  # noqa: B019
        def points(self, size: int) -> Any:
            return jit.arange(float(size)) * self.scale

        def forward(self, x: Any) -> Any:
            return x + self.points(x.shape[0])

    first, second = Grid(), Grid()
    second.scale = 3.0
    for grid in (first, second):
        grid(jit.ones(3))
        f = jit.trace(grid)
        assert [f(jit.ones(3)).tolist() for _ in range(4)] == [[1, 1 + grid.scale, 1 + 2 * grid.scale]] * 4
        assert f.hits >= 2


def test_results_that_are_dicts_are_not_taken_for_the_cache() -> None:
    inner = [2.0]
    kept: Any = functools.lru_cache(4)(lambda number: {"a": inner, "b": {"c": number}})
    kept(1), kept(2)
    f = jit.trace(lambda x: x * kept(1)["a"][0] * kept(2)["b"]["c"])
    assert [f(jit.ones(1)).item() for _ in range(3)] == [4, 4, 4]
    kept(2)["b"]["c"] = 3
    assert f(jit.ones(1)).item() == 6
    inner[0] = 1.0
    assert f(jit.ones(1)).item() == 3


@pytest.mark.parametrize("package, grows", [("einops", False), ("another", True)])
def test_caches_of_harmless_packages_say_nothing(package: str, grows: bool, tmp_path: Path) -> None:
    path = tmp_path / "site-packages" / package / "__init__.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import functools\n@functools.lru_cache\ndef kept(n): return [2 * n]\ndef doubled(n): return kept(n)[0]\n"
    )
    spec: Any = importlib.util.spec_from_file_location(f"{package}_of_this_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    doubled = module.doubled
    doubled(3)
    f = jit.trace(lambda x: x * doubled(3))
    f(jit.ones(2))
    doubled(4)
    assert f(jit.ones(2)).tolist() == [6, 6]
    assert f.hits == (0 if grows else 1)
