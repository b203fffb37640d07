"""Recordings on a GPU that serve many sizes: their kernels are lowered once for these, on the simulated device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jit
import jit.nn.functional as F
from examples.models import gpt
from jit.runtime.cuda import launching
from jit.runtime.llvm.lowering import NestLowering
from tests.runtime.interpreting_driver import InterpretingDriver
from tests.sampling import one_of
from tests.threads import in_threads
from tests.tolerances import assert_close

from . import random_sizes

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]


@pytest.fixture(autouse=True)
def driver(gpu: str) -> Iterator[Any]:
    """The interpreter of PTX; None on a GPU."""
    made = InterpretingDriver() if gpu == "simulated" else None
    if made is not None:
        launching.use(made)
    yield made
    launching.use(launching.NoDriver())


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that have been lowered since."""
    found: list[str] = []
    function = NestLowering.function

    def noting(self: NestLowering) -> Any:
        found.append(self.nest.name)
        return function(self)

    monkeypatch.setattr(NestLowering, "function", noting)
    return found


def test_a_decoder_whose_cache_grows_lowers_nothing(
    gpu: str, driver: Any, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if gpu == "simulated":
        for each in (driver, driver.graphs):  # what the kernels compute is not looked at
            monkeypatch.setattr(each, "_run", lambda given: 0)
    decode = jit.trace(gpt.Decoder(gpt.GPT(20).cuda()))
    cache = [jit.randn(1, gpt.HEADS, 9, gpt.WIDTH // gpt.HEADS, device="cuda") for _ in range(2 * gpt.LAYERS)]
    letter = jit.tensor([[3]], device="cuda")
    with jit.no_grad():
        for number in range(50):
            if number == 4:
                assert lowered
                lowered.clear()
            _, *cache = decode(letter, *cache)
    assert cache[0].shape[2] == 59 and decode.misses == 2 and not lowered


def attended(query: Any, key: Any, value: Any, past: Any) -> tuple[Any, ...]:
    """One step of a decoder without its weights: what comes between products is in stretches."""
    longer = jit.cat([past, jit.tanh(value)], 1)
    weights = jit.softmax(query @ jit.cat([past * 2, key], 1).transpose(1, 2), -1)
    return weights @ longer, longer, (longer * longer.shape[1]).sum(1), weights.amax(-1)


def test_a_cache_that_grows(lowered: list[str]) -> None:
    traced, (query, key, value) = jit.trace(attended), (jit.randn(2, 1, 4) for _ in range(3))
    past = there = jit.randn(2, 3, 4)
    there = past.cuda()
    counts = []
    for _ in range(14):
        wanted = attended(query, key, value, past)
        found = traced(query.cuda(), key.cuda(), value.cuda(), there)
        for one, two in zip(found, wanted, strict=True):
            assert_close(one.cpu(), two, rtol=1e-5, atol=1e-6)
        past, there = wanted[1], found[1]
        counts.append(len(lowered))
    assert traced.misses == 2 and counts[-1] - counts[2] <= 3 * counts[2]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "points": lambda x: jit.tanh(x) * x.shape[0] + 1,
    "flat": lambda x: jit.exp(x.reshape(-1)) - 1,
    "rows": lambda x: F.softmax(x * 0.5, -1) * x,
    "columns": lambda x: F.softmax(x, 0) + x.mean(0),
    "norm": lambda x: F.layer_norm(x, (x.shape[-1],)).sum(0),
    "turned": lambda x: jit.sin(x.t().contiguous()) * 2,
    "running": lambda x: jit.tanh(x).cumsum(-1) + x.cumsum(0),
    "everything": lambda x: (x * x).sum() / x.numel(),
    "several at once": lambda x: F.softmax(F.softmax(x, -1) + F.softmax(x * 2, 0), -1).amax(0),
    "joined": lambda x: jit.cat([x, jit.tanh(x), x * 2], 0).sum(-1),
    "parts": lambda x: jit.sin(x[1:]) * x[:-1] + x[:, ::2].sum(),
    "picked": lambda x: x[jit.arange(x.shape[0] - 1, -1, -1, device=x.device)] + 1,
}


@pytest.mark.parametrize("name", one_of(2, FUNCTIONS))
def test_kernels_serve_sizes_near_and_far(name: str, lowered: list[str]) -> None:
    function, sizes = FUNCTIONS[name], [(5, 6), (7, 9), (8, 16), (3, 130), (40, 33), (65, 5), (6, 70), (9, 9), (2, 257)]
    traced = jit.trace(function)
    inputs = [jit.randn(*size) for size in (*sizes, *sizes[2:])]
    for x in inputs:
        assert_close(traced(x.cuda()).cpu(), function(x), rtol=1e-4, atol=1e-5)
    once = len(lowered)
    for size in ((66, 7), (5, 71), (9, 10), (6, 18)):
        x = jit.randn(*size)
        assert_close(traced(x.cuda()).cpu(), function(x), rtol=1e-4, atol=1e-5)
    assert traced.misses == 2 and len(lowered) - once <= 3, "one of the four at most is lowered for"


@pytest.mark.filterwarnings("ignore:.*has been recorded")
def test_arrays_that_lie_otherwise_than_recorded() -> None:
    @jit.trace
    def traced(x: Any, y: Any) -> Any:
        return jit.softmax(x * y, -1).sum(0), jit.cat([x, y], 1) + 1

    for rows, wide in ((4, 5), (6, 7), (7, 6), (6, 8), (9, 5)):
        whole = jit.randn(2 * rows, wide + 3)
        views: list[Callable[[Any], Any]] = [
            lambda t: t[::2, 1:-2], lambda t: t[: len(t) // 2, :-3], lambda t: t.t().contiguous().t()[::2, 3:],
        ]  # fmt: skip
        for view in views:
            x, there = view(whole), view(whole.cuda())
            wanted = jit.softmax(x * x.exp(), -1).sum(0), jit.cat([x, x.exp()], 1) + 1
            for one, two in zip(traced(there, there.exp()), wanted, strict=True):
                assert_close(one.cpu(), two, rtol=1e-5, atol=1e-6)


def test_errors_of_sizes_that_come_anew() -> None:
    def picked(x: Any, at: Any) -> Any:
        return (jit.tanh(x) * 2)[at].sum(0) + x.shape[0]

    traced = jit.trace(picked)
    for rows in (4, 5, 6, 7, 9):
        x, at = jit.randn(rows, 3), jit.tensor([0, rows - 1])
        assert_close(traced(x.cuda(), at.cuda()).cpu(), picked(x, at), rtol=1e-5, atol=1e-6)
        with pytest.raises(IndexError, match=r"at test_cuda_sizes\.py:\d+ in picked"):
            traced(x.cuda(), (at + 1).cuda())
    assert traced.misses <= 3


def test_sizes_of_several_threads() -> None:
    traced = jit.trace(lambda x: jit.softmax(jit.tanh(x), -1).sum(0) * x.shape[0])
    inputs = [jit.randn(rows, 5) for rows in range(2, 14)]
    wanted = [jit.softmax(jit.tanh(x), -1).sum(0) * x.shape[0] for x in inputs]
    for x in inputs[:3]:
        traced(x.cuda())

    def work(index: int) -> None:
        with jit.cuda.stream(jit.cuda.Stream()):
            for number in range(index, index + 12):
                x = inputs[number % 12]
                assert_close(traced(x.cuda()).cpu(), wanted[number % 12], rtol=1e-5, atol=1e-6)

    in_threads(work, 4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", one_of(2, range(12)))
def test_random_programs_at_random_sizes(seed: int) -> None:
    wrong, _ = random_sizes.check(seed, "cuda")
    assert wrong is None
