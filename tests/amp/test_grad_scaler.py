"""`GradScaler`: what it does to losses, gradients and steps, traced and untraced, on the CPU and a simulated GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn, optim
from jit.amp import GradScaler


@pytest.fixture(params=["cpu", "cuda"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind of device, the GPU being the simulated one."""
    monkeypatch.setenv("JIT_CUDA", "simulate")
    return str(request.param)


def training(kind: str, scaler: GradScaler, region: bool = True) -> tuple[nn.Sequential, Callable[..., jit.Tensor]]:
    """A network, and one step of its training."""
    jit.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(kind)
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.5)

    def step(x: jit.Tensor) -> jit.Tensor:
        optimizer.zero_grad()
        with jit.autocast(kind, enabled=region):
            loss = nn.functional.mse_loss(net(x), x[:, :1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return net, step


def inputs(kind: str, bad: tuple[int, ...], number: int = 8) -> list[jit.Tensor]:
    made = [np.random.default_rng(n).standard_normal((4, 3)).astype(np.float32) for n in range(number)]
    return [jit.from_numpy(x * np.inf if n in bad else x).to(kind) for n, x in enumerate(made)]


@pytest.mark.parametrize("traced", [False, True])
def test_the_scale_grows_and_shrinks_and_steps_are_skipped(kind: str, traced: bool) -> None:
    scaler = GradScaler(kind, init_scale=64.0, growth_interval=2)
    net, step = training(kind, scaler)
    run: Any = jit.trace(step) if traced else step
    scales, moved = [], []
    for x in inputs(kind, (3, 6)):
        before = net[0].weight.detach().cpu().numpy().copy()
        run(x)
        scales.append(scaler.get_scale())
        moved.append(not np.array_equal(before, net[0].weight.detach().cpu().numpy()))
    assert scales == [64, 128, 128, 64, 64, 128, 64, 64]
    assert moved == [True, True, True, False, True, True, False, True]
    if traced:
        assert run.hits >= 4


def test_a_scale_does_not_change_what_is_learnt() -> None:
    found = []
    for scaler in (GradScaler("cpu", init_scale=1024.0), GradScaler("cpu", enabled=False)):
        net, step = training("cpu", scaler, region=False)
        for x in inputs("cpu", ()):
            step(x)
        found.append([p.detach().numpy() for p in net.parameters()])
    assert all(np.allclose(a, b, rtol=1e-6) for a, b in zip(*found, strict=True))


def test_each_optimizer_is_skipped_for_its_own_gradients(kind: str) -> None:
    good, bad = (jit.ones(1, device=kind, requires_grad=True) for _ in range(2))
    steps = [optim.SGD([p], lr=1.0) for p in (good, bad)]
    scaler = GradScaler(kind, init_scale=4.0)
    scaler.scale(good.sum() + (bad * np.inf).sum()).backward()
    for optimizer in steps:
        scaler.step(optimizer)
    scaler.update()
    assert (good.item(), bad.item(), scaler.get_scale()) == (0.0, 1.0, 2.0)


def test_gradients_can_be_clipped_once_they_are_unscaled(kind: str) -> None:
    p = jit.ones(2, device=kind, requires_grad=True)
    optimizer, scaler = optim.SGD([p], lr=1.0), GradScaler(kind, init_scale=8.0)
    scaler.scale((p * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [3.0, 3.0]
    nn.utils.clip_grad_value_([p], 0.5)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5]


def test_one_number_is_read_for_each_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scaler = GradScaler(kind)
    _, step = training(kind, scaler)
    (x,) = inputs(kind, (), 1)
    step(x)
    reads, item = [], jit.Tensor.item

    def counted(tensor: jit.Tensor) -> Any:
        reads.append(tensor)
        return item(tensor)

    monkeypatch.setattr(jit.Tensor, "item", counted)
    step(x)
    assert len(reads) == 1


def test_its_state_is_saved_and_loaded() -> None:
    scaler = GradScaler("cpu", init_scale=16.0, growth_interval=3)
    _, step = training("cpu", scaler)
    for x in inputs("cpu", (), 2):
        step(x)
    state = copy.deepcopy(scaler.state_dict())
    assert state == {
        "scale": 16.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3, "_growth_tracker": 2
    }  # fmt: skip
    for other in (GradScaler("cpu"), scaler):
        other.load_state_dict(state)
        _, step = training("cpu", other)
        step(*inputs("cpu", (), 1))
        assert other.get_scale() == 32.0
    with pytest.raises(jit.UsageError, match="not enabled"):
        scaler.load_state_dict({})


def test_lists_are_scaled_and_other_things_refused() -> None:
    scaler = GradScaler("cpu", init_scale=2.0)
    first, (second,) = scaler.scale([jit.ones(1), (jit.ones(1) * 3,)])
    assert (first.item(), second.item()) == (2.0, 6.0)
    with pytest.raises(jit.Error, match="not float"):
        scaler.scale(1.0)


def test_calls_out_of_order_are_refused() -> None:
    p = jit.ones(1, requires_grad=True)
    optimizer, scaler = optim.SGD([p], lr=1.0), GradScaler("cpu")
    with pytest.raises(jit.UsageError, match="nothing has been scaled"):
        scaler.update()
    scaler.scale(p.sum())
    with pytest.raises(jit.UsageError, match="no gradients"):
        scaler.step(optimizer)
    scaler = GradScaler("cpu")
    scaler.scale(p.sum()).backward()
    with pytest.raises(jit.UsageError, match="before any step"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(jit.UsageError, match="since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(jit.UsageError, match="since the last update"):
        scaler.step(optimizer)
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0
    with pytest.raises(jit.UsageError, match="closure"):
        scaler.step(optimizer, closure=lambda: None)


def test_gradients_of_float16_are_refused() -> None:
    p = jit.ones(1, dtype=jit.float16, requires_grad=True)
    scaler = GradScaler("cpu", init_scale=2.0)
    scaler.scale(p.sum()).backward()
    with pytest.raises(jit.DTypeError, match="float32"):
        scaler.unscale_(optim.SGD([p], lr=1.0))


def test_it_does_nothing_if_it_is_not_enabled(kind: str) -> None:
    scaler = GradScaler(kind, enabled=False)
    loss = jit.ones(())
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    scaler.update()
    assert not scaler.is_enabled()


def test_older_names() -> None:
    from jit.cpu.amp import GradScaler as OfCpus  # type: ignore[import-not-found]
    from jit.cuda.amp import autocast  # type: ignore[import-not-found]

    assert OfCpus(8.0).get_scale() == 8.0
    with autocast(enabled=False):
        assert not jit.is_autocast_enabled("cuda")
    if not jit.cuda.is_available():
        with pytest.warns(UserWarning, match="does nothing"):
            assert not GradScaler().is_enabled()


def test_settings() -> None:
    with pytest.raises(jit.UsageError, match="above 1"):
        GradScaler("cpu", growth_factor=1.0)
    scaler: Any = GradScaler("cpu")
    for name in ("growth_factor", "backoff_factor", "growth_interval"):
        getattr(scaler, f"set_{name}")(7)
        assert getattr(scaler, f"get_{name}")() == 7
