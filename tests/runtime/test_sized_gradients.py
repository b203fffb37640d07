"""Gradients over many sizes that are one native call: of slices, of what was broadcast, of batch norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import parse
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.plans.plan import PlannedEngine
from jit.tracing.recordings.sized_plans import SizedPlans

pytestmark = pytest.mark.llvm

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "the first rows": lambda x, p: x * p[: x.shape[1]],
    "rows from the middle": lambda x, p: x * p[3 : x.shape[1] + 3],
    "every other row": lambda x, p: x * p[: 2 * x.shape[1] : 2],
    "the last rows": lambda x, p: x * p[-x.shape[1] :],
    "one row": lambda x, p: x * p[x.shape[1] - 1],
    "one entry of each": lambda x, p: (x * p[: x.shape[1]])[:, 0],
    "what is broadcast": lambda x, p: x * p[: x.shape[1]] + p[: x.shape[1]].sum(1, keepdim=True),
    "a column": lambda x, p: x * p[: x.shape[1], :1],
}


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The kinds of nodes of each stage of the plans that general recordings get from now on."""
    found: list[list[str]] = []
    planned = SizedPlans._planned

    def noted(self: SizedPlans, sizes: tuple[int, ...]) -> Any:
        made = planned(self, sizes)
        found.extend([node.kind for node in program.nodes] for program in made.plan.interpreter.local_plan.programs)
        return made

    monkeypatch.setattr(SizedPlans, "_planned", noted)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_slices(kinds: list[list[str]], name: str) -> None:
    function = PROGRAMS[name]
    traced = jit.trace(function)
    weight = jit.nn.Parameter(jit.rand(40, 5))
    for batch, n in [(2, 5), (3, 6), (2, 7), (4, 12), (2, 2), (3, 3), (1, 5), (2, 1)]:
        x = jit.rand(batch, n, 5)
        gradients: list[Any] = []
        for call in (function, traced):
            weight.grad = None
            y = call(x, weight)
            (y * jit.arange(y.numel()).view(y.shape)).sum().backward()
            gradients.append(weight.grad)
        assert jit.allclose(gradients[0], gradients[1], rtol=1e-4, atol=1e-4), (batch, n)
    assert kinds and not {"aten::slice_backward", "aten::select_backward", "aten::sum_to_size"} & {
        kind for each in kinds for kind in each
    }
    assert ["prim::Native"] in kinds, kinds


@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_batch_norms(kinds: list[list[str]], training: bool) -> None:
    norms = [jit.nn.BatchNorm2d(3).train(training) for _ in range(2)]
    calls = norms[0], jit.trace(norms[1])
    for n in (5, 6, 7, 9, 12):
        x = jit.rand(2, 3, n, n + 1)
        gradients = []
        for call, norm in zip(calls, norms, strict=True):
            norm.zero_grad()
            y = x.clone().requires_grad_()
            (call(y * 2) * x).sum().backward()
            gradients.append([y.grad, norm.weight.grad, norm.bias.grad])
        for found, wanted in zip(*gradients, strict=True):
            assert jit.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert not {"aten::native_batch_norm", "aten::native_batch_norm_backward"} & {
        kind for each in kinds for kind in each
    }


@pytest.mark.parametrize(
    "node",
    [
        "aten::slice_backward[input_sizes=[9, 4], dim=0, start=2, end=8, step=2](%g)",
        "aten::slice_backward[input_sizes=[3, 9], dim=1, start=None, end=4, step=1](%g)",
        "aten::slice_backward[input_sizes=[3, 4], dim=0, start=0, end=3, step=1](%g)",
        "aten::select_backward[input_sizes=[3, 5, 4], dim=1, index=-2](%g)",
        "aten::select_backward[input_sizes=[2, 3, 4], dim=0, index=1](%g)",
    ],
)
@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", "Float"), ("int8", "Char"), ("bool", "Bool"), ("float16", "Half")]
)
def test_placements_have_the_bits_of_the_interpreter(node: str, dtype: str, kind: str) -> None:
    sizes = node.partition("input_sizes=")[2].partition("]")[0] + "]"
    graph = parse(f"graph(%g : {kind}(3, 4)) {{ %0 : {kind}({sizes[1:-1]}) = {node} return (%0) }}")
    given = (np.arange(12).reshape(3, 4) % 5 - 2).astype(dtype)
    engine = PlannedEngine(graph)
    (found,), (wanted,) = engine.run(0, [given])[0], Interpreter(graph).run(0, [given])[0]
    assert engine.natives[0] and found.dtype == wanted.dtype and np.array_equal(found, wanted)
