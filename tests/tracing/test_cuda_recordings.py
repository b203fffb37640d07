"""Recordings of functions whose tensors lie on a GPU, on the simulated device: layers, steps of training, devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit import nn
from tests.optim.test_complex import KINDS
from tests.tolerances import assert_close
from tests.tracing.test_traced_sizes import MODULES

pytestmark = pytest.mark.usefixtures("gpu")


def gradients(build: Callable[[], Any], sizes: Any, device: str, traced: bool) -> list[list[Any]]:
    """The results of a layer and its gradients, in three calls."""
    jit.manual_seed(3)
    layer = build()
    inputs = [jit.randn(sizes) for _ in range(3)]
    layer = layer.to(device)
    run = jit.trace(layer) if traced else layer
    found = []
    for x in inputs:
        x = x.to(device).requires_grad_()
        layer.zero_grad()
        result = run(x)
        (result * result.detach().cos()).sum().backward()
        found.append([result.detach(), x.grad, *(p.grad for p in layer.parameters())])
    return found


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_layers(name: str, traced: bool) -> None:
    build, sizes, _ = MODULES[name]
    wanted = gradients(build, sizes, "cpu", False)
    for found, other in zip(gradients(build, sizes, "cuda", traced), wanted, strict=True):
        for one, two in zip(found, other, strict=True):
            assert (one is None) == (two is None)
            if one is not None:
                assert one.is_cuda
                assert_close(one.cpu(), two, rtol=1e-4, atol=1e-5)


def trained(make: Callable[[Any], Any], device: str, traced: bool) -> list[Any]:
    """The parameters after some steps of training."""
    jit.manual_seed(5)
    # a bias in front of the norm would have gradients that are nothing but rounding, which Adam makes as large as any
    net = nn.Sequential(nn.Linear(3, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    inputs = [jit.randn(n, 3) for n in (4, 4, 5, 4)]
    net = net.to(device)
    optimizer = make(net.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = jit.trace(step) if traced else step
    for x in inputs:
        step(x.to(device))
    return [p.detach() for p in net.parameters()]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_steps_of_training(number: int, traced: bool) -> None:
    wanted = trained(KINDS[number], "cpu", False)
    for found, other in zip(trained(KINDS[number], "cuda", traced), wanted, strict=True):
        assert found.is_cuda
        assert_close(found.cpu(), other, rtol=1e-4, atol=1e-5)


def test_each_device_has_a_recording() -> None:
    f = jit.trace(lambda x, y: jit.tanh(x @ y + 1).sum(0))
    x, y = jit.randn(3, 4), jit.randn(4, 5)
    wanted = f(x, y)
    for _ in range(2):
        assert_close(f(x.cuda(), y.cuda()).cpu(), wanted, rtol=1e-5, atol=1e-6)
    assert f.misses == 2
    f(x, y)
    assert f.misses == 2 and f.hits == 2
    g = jit.trace(lambda x: x * 2)
    g(x), g(x.cuda())
    assert "x lies on 'cuda:0', not on 'cpu'" in g.explain()


def test_copies_are_recorded() -> None:
    f = jit.trace(lambda x: ((x.cuda() * 2).cpu() + 1, jit.ones(2, device="cuda") + x.to("cuda")))
    for _ in range(3):
        a, b = f(jit.tensor([1.0, 2.0]))
        assert a.tolist() == [3, 5] and a.is_cpu and b.tolist() == [2, 3] and b.is_cuda
    assert f.hits == 2


def test_the_default_device_is_part_of_the_key() -> None:
    f = jit.trace(lambda x: (jit.zeros(2), x * 2))
    x = jit.ones(2)
    assert f(x)[0].is_cpu and f(x)[0].is_cpu
    with jit.device("cuda"):
        assert f(x)[0].is_cuda and f(x)[0].is_cuda
    assert f(x)[0].is_cpu


def test_writes_and_random_numbers() -> None:
    def f(x: Any) -> Any:
        x.add_(1)
        return x * jit.rand(3, device=x.device)

    traced = jit.trace(f)
    for _ in range(3):
        here, there = jit.zeros(3), jit.zeros(3, device="cuda")
        jit.manual_seed(1)
        wanted = f(here)
        jit.manual_seed(1)
        assert traced(there).tolist() == wanted.tolist() and there.tolist() == here.tolist()
    assert traced.hits == 2


def test_a_backward_is_recorded_after_calls_without_one() -> None:
    weight = jit.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda", requires_grad=True)
    traced = jit.trace(lambda x: (x @ weight.t() * 0.5).sum())
    for _ in range(3):
        result = traced(jit.tensor([[0.5, 0.25]], device="cuda"))
    result.backward()
    assert weight.grad.is_cuda and weight.grad.tolist() == [[0.25, 0.125]] * 2


def test_a_backward_sees_what_was_there_before_a_write() -> None:
    weight = jit.tensor([2.0], device="cuda", requires_grad=True)

    def f(x: Any) -> Any:
        y = (x * x) * weight
        with jit.no_grad():
            x.add_(5)
        return y

    traced = jit.trace(f)
    for _ in range(3):
        x = jit.tensor([3.0], device="cuda")
        result = traced(x)
    result.backward()
    assert weight.grad.tolist() == [9] and x.tolist() == [8] and traced.hits == 2


def test_functions_of_python_run_on_the_device() -> None:
    class Turned(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.t() * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g * 2).t()

    f = jit.trace(lambda x: Turned.apply(x) + 1)
    for _ in range(3):
        x = jit.ones(2, 3, device="cuda", requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert y.tolist() == [[3, 3]] * 3 and x.grad.tolist() == [[2, 2, 2]] * 2 and y.is_cuda


def test_nan_in_a_backward_is_named() -> None:
    f = jit.trace(lambda x: x.sqrt() * 0)
    for _ in range(3):
        f(jit.ones(2, device="cuda", requires_grad=True)).sum().backward()
    with (
        jit.autograd.detect_anomaly(),
        pytest.raises(jit.AutogradError, match="nan in a backward; it belongs to the derivative of"),
    ):
        f(jit.zeros(2, device="cuda", requires_grad=True)).sum().backward()
