"""Calls with tensors on a GPU that go the short way: they give what eager mode gives, and notice what changes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import jit
from jit import nn
from jit.runtime.cuda import launching, simulated
from jit.runtime.plans import entry
from tests.runtime.interpreting_driver import InterpretingDriver
from tests.threads import in_threads
from tests.tolerances import assert_close

pytestmark = [
    pytest.mark.llvm, pytest.mark.usefixtures("gpu"),
    pytest.mark.skipif(not entry.available(), reason="native calls are not available"),
]  # fmt: skip

SCALE = 2.0


@pytest.fixture(autouse=True)
def driver(gpu: str) -> Iterator[Any]:
    """The interpreter of PTX; None on a GPU."""
    made = InterpretingDriver() if gpu == "simulated" else None
    if made is not None:
        launching.use(made)
    yield made
    launching.use(launching.NoDriver())


def mixed(x: Any, w: Any) -> Any:
    """One stretch of two kernels."""
    return jit.softmax(jit.tanh(x) * w, -1).sum(0)


def warmed(function: Any, *args: Any) -> Any:
    """The function, traced, with a shortcut for these arguments."""
    traced = jit.trace(function)
    for _ in range(3):
        traced(*args)
    assert goes_short(traced, *args)
    return traced


def goes_short(f: Any, *args: Any) -> bool:
    """Whether a call takes a shortcut; the result is what the function says without it."""
    short, hits = f._shortcuts.hits, f.hits
    found, wanted = f(*args), f._function(*args)
    for one, two in zip(*((r,) if isinstance(r, jit.Tensor) else r for r in (found, wanted)), strict=True):
        assert one.device == two.device and one.requires_grad == two.requires_grad and one.stride() == two.stride()
        assert_close(one.detach().cpu(), two.detach().cpu(), rtol=1e-5, atol=1e-6)
    assert f.hits - hits == 1 or f._shortcuts.hits == short
    return f._shortcuts.hits == short + 1


def test_calls_of_one_stretch_and_of_several_pieces() -> None:
    x, w = jit.randn(5, 6).cuda(), jit.randn(6).cuda()
    f = warmed(mixed, x, w)
    kept = [(f(y, w), mixed(y, w)) for y in (jit.randn(5, 6).cuda() for _ in range(6))]
    for found, wanted in kept:
        assert_close(found.cpu(), wanted.cpu(), rtol=1e-5, atol=1e-6)
        assert found._storage.version == 0 and not found._storage.inference
    several = warmed(lambda x, w: (jit.linalg.inv(x @ x.t() + 9 * jit.eye(5, device="cuda")) + 1, mixed(x, w)), x, w)
    assert goes_short(several, jit.randn(5, 6).cuda(), w)
    structured = warmed(
        lambda pair, more: {"a": pair[0] + 1, "b": [pair[1] * 2, more["x"].exp()]}["b"], (x, w), {"x": x.clone()}
    )
    assert structured((x, w), {"x": x.clone()})[0].is_cuda


def test_other_arguments_go_the_long_way() -> None:
    x, w = jit.randn(5, 6).cuda(), jit.randn(6).cuda()
    f = warmed(mixed, x, w)
    for other in (
        jit.randn(6, 5).cuda().t(), jit.randn(5, 6).double().cuda(), jit.randn(1, 6).cuda(), jit.randn(6).cuda(),
        jit.randn(5, 6).cuda().requires_grad_(), jit.randn(5, 12).cuda()[:, ::2],
    ):  # fmt: skip
        assert not goes_short(f, other, w)
        assert goes_short(f, x, w)
    with pytest.raises(jit.UsageError, match="different devices"):
        f(x.cpu(), w)
    with pytest.raises(TypeError):
        f(x)
    assert goes_short(f, x, w)


def test_arguments_that_share_memory() -> None:
    whole = jit.randn(40).cuda()
    f = warmed(lambda x, y: (jit.tanh(x) + y, x * 2), whole[:10], whole[20:30])
    assert goes_short(f, whole[:10], whole[10:20])
    assert goes_short(f, whole[30:40], whole[10:20])
    for pair in ((whole[:10], whole[9:19]), (whole[5:15], whole[:10]), (whole[:10], whole[:10])):
        assert not goes_short(f, *pair)
    assert goes_short(f, whole[10:20], whole[:10])


def test_sizes_that_vary() -> None:
    w = jit.randn(6).cuda()
    f = warmed(lambda x: mixed(x, w), jit.randn(5, 6).cuda())
    for rows in (7, 9):
        f(jit.randn(rows, 6).cuda())
    misses, short = f.misses, 0
    for rows in (8, 12, 5, 31, 1, 8, 7, 9):
        short += goes_short(f, jit.randn(rows, 6).cuda())
    assert f.misses <= misses + 1 and short >= 6
    g = jit.trace(lambda x: jit.tanh(x) * 2 if x.shape[0] > 10 else jit.exp(x) + 1)
    for rows in (12, 13, 14, 5, 6, 7, 15, 8, 11, 10, 16, 9):
        goes_short(g, jit.randn(rows, 6).cuda())
    assert g._shortcuts.hits


def test_parameters_that_change() -> None:
    net = nn.Sequential(nn.LayerNorm(6), nn.Tanh(), nn.LayerNorm(6)).cuda()
    x = jit.randn(5, 6).cuda()
    with jit.no_grad():
        f = warmed(net, x)
        net[0].weight.mul_(2)
        assert goes_short(f, x)
        for _ in range(2):
            net[0].weight.data = jit.randn(6).cuda()
            assert goes_short(f, x)
        net[0].weight.data = jit.randn(12).cuda()[::2]
        assert_close(f(x).cpu(), net(x).cpu(), rtol=1e-5, atol=1e-6)
        net[0].bias = nn.Parameter(jit.randn(6).cuda())
        assert_close(f(x).cpu(), net(x).cpu(), rtol=1e-5, atol=1e-6)
        net.double()
        assert f(x.double()).dtype is jit.float64


def test_what_is_captured_is_not_kept_alive() -> None:
    net = nn.LayerNorm(4096).cuda()
    x = jit.randn(2, 4096).cuda()
    with jit.no_grad():
        f = warmed(lambda x: net(x), x)
    gc.collect()
    used = jit.cuda.memory_allocated()
    net.cpu()
    gc.collect()
    assert jit.cuda.memory_allocated() <= used - 2 * 4096 * 4
    with pytest.raises(jit.UsageError, match="different devices"), jit.no_grad():
        f(x)


def test_histories() -> None:
    net, x = nn.LayerNorm(6).cuda(), jit.randn(5, 6).cuda()
    f = jit.trace(lambda x: (net(x) ** 2).sum(0))
    for _ in range(5):
        given = jit.randn(5, 6).cuda().requires_grad_()
        net.zero_grad()
        f(given).sum().backward()
        found = [given.grad, *(p.grad for p in net.parameters())]
        given.grad = None
        net.zero_grad()
        f._function(given).sum().backward()
        for one, two in zip(found, [given.grad, *(p.grad for p in net.parameters())], strict=True):
            assert_close(one.cpu(), two.cpu(), rtol=1e-4, atol=1e-5)
    assert f._shortcuts.hits and goes_short(f, jit.randn(5, 6).cuda().requires_grad_())
    with jit.no_grad():
        assert not goes_short(f, x)


def test_what_is_around_a_call() -> None:
    global SCALE
    x = jit.randn(5).cuda()
    f = warmed(lambda x: jit.tanh(x) * SCALE, x)
    SCALE = 3.0
    try:
        assert not goes_short(f, x)
    finally:
        SCALE = 2.0
    f = warmed(lambda x: jit.tanh(x) * 2, x)
    with jit.inference_mode():
        for _ in range(3):
            assert f(x).is_inference()
        assert goes_short(f, x) and f(x).is_inference()
    assert not f(x).is_inference() and goes_short(f, x)
    with jit.autocast("cuda"):
        assert not goes_short(f, x)


def test_errors_in_the_middle(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, at = jit.randn(5, 3).cuda(), jit.tensor([0, 4]).cuda()
    f = warmed(lambda x, at: jit.nn.functional.embedding(at, jit.tanh(x)) * 2, x, at)
    hits = f.hits
    for _ in range(2):
        with pytest.raises(IndexError):
            f(x, at + 1)
    assert f.hits == hits and goes_short(f, x, at)
    if gpu == "simulated":
        monkeypatch.setattr(simulated._RUNTIME, "total", simulated._RUNTIME.used)
        with pytest.raises(jit.cuda.OutOfMemoryError, match=r"asked for at test_cuda_shortcuts\.py"):
            f(x, at)
        monkeypatch.undo()
    assert goes_short(f, x, at)


@pytest.mark.parametrize("graphs", ["0", "1"])
def test_streams_and_threads(graphs: str, gpu: str, driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_CUDA_GRAPHS", graphs)
    w = jit.randn(6).cuda()
    f = warmed(mixed, jit.randn(5, 6).cuda(), w)
    side = jit.cuda.Stream()
    with jit.cuda.stream(side):
        if gpu == "simulated":
            driver.graphs.streams.clear()
        f(jit.randn(5, 6).cuda(), w)
        if gpu == "simulated":
            assert set(driver.graphs.streams) == {side.cuda_stream}

    def work(index: int) -> None:
        for _ in range(12):
            x = jit.full((5, 6), float(index)).cuda()
            assert_close(f(x, w).cpu(), mixed(x.cpu(), w.cpu()), rtol=1e-5, atol=1e-6)

    short = f._shortcuts.hits
    in_threads(work, 4)
    assert f._shortcuts.hits - short >= 40
