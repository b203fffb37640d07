"""Steps of optimizers on a GPU: where they count, and that a traced update is kernels alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import jit
from jit import nn
from jit.ir import TensorType
from jit.runtime.cuda import launching
from tests.runtime.interpreting_driver import InterpretingDriver
from tests.tolerances import assert_close

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]

ON_DEVICE = ("Adam", "AdamW", "Adamax", "NAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop")
"""Those whose traced steps count on the GPU."""


@pytest.fixture(autouse=True)
def driver(gpu: str) -> Iterator[None]:
    """The interpreter of PTX where there is no GPU."""
    if gpu == "simulated":
        launching.use(InterpretingDriver())
    yield
    launching.use(launching.NoDriver())


def trained(name: str, device: str, ways: str) -> tuple[Any, Any, Any]:
    """The parameters after steps that are (t)raced or run (e)agerly, the optimizer, and the traced step."""
    jit.manual_seed(5)
    net = nn.Linear(3, 4).to(device)
    optimizer = getattr(jit.optim, name)(net.parameters(), lr=0.05)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        (net(x) ** 2).mean().backward()
        optimizer.step()

    traced = jit.trace(step)
    for number, way in enumerate(ways):
        x = jit.arange(15.0).reshape(5, 3) / 10 + number / 5
        (traced if way == "t" else step)(x.to(device))
    return [p.detach().cpu() for p in net.parameters()], optimizer, traced


@pytest.mark.parametrize("ways", ["eeee", "tttttt", "eetttte", "tteettt"])
@pytest.mark.parametrize("name", [*ON_DEVICE, "RAdam", "ASGD"])
def test_steps_count_wherever_they_run(name: str, ways: str) -> None:
    wanted, reference, _ = trained(name, "cpu", "e" * len(ways))
    found, optimizer, _ = trained(name, "cuda", ways)
    for one, two in zip(found, wanted, strict=True):
        assert_close(one, two, rtol=1e-4, atol=1e-5)
    steps = [state["step"] for state in optimizer.state.values()]
    assert [step.item() for step in steps] == [len(ways)] * 2
    assert {step.is_cuda for step in steps} == {name in ON_DEVICE and "t" in ways}
    assert all(state["step"].is_cpu for state in reference.state.values())


@pytest.mark.parametrize("name", ON_DEVICE)
def test_a_traced_update_is_kernels_alone(name: str) -> None:
    _, _, traced = trained(name, "cuda", "ttttt")
    (chain,) = traced._last.chains
    (plan,) = chain.plans
    nodes = [node for node in plan.interpreter.graph.nodes if node.outputs]
    types = [value.type for node in nodes for value in node.outputs]
    assert all(type.device == "cuda:0" for type in types if isinstance(type, TensorType))
    (natives,) = plan.interpreter.natives
    products = [node for node in nodes if node.kind in ("aten::mm", "aten::addmm")]
    assert len(natives) <= len(products) + 3


def test_a_state_that_counts_on_a_gpu_is_loaded_anywhere() -> None:
    wanted, _, _ = trained("AdamW", "cpu", "eeeee")
    _, saved, _ = trained("AdamW", "cuda", "tttt")
    parameters, *_ = trained("AdamW", "cpu", "eeee")
    fresh = jit.optim.AdamW([nn.Parameter(p) for p in parameters], lr=0.05)
    fresh.load_state_dict(saved.state_dict())
    (params,) = (group["params"] for group in fresh.param_groups)
    net = nn.Linear(3, 4)
    net.weight, net.bias = params
    x = jit.arange(15.0).reshape(5, 3) / 10 + 4 / 5
    (net(x) ** 2).mean().backward()
    fresh.step()
    for one, two in zip(params, wanted, strict=True):
        assert_close(one.detach(), two, rtol=1e-4, atol=1e-5)
    assert all(state["step"].is_cpu and state["step"].item() == 5 for state in fresh.state.values())
