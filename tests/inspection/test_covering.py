"""`jit.coverage`: a row for each operator, with derivatives, kernels, ONNX and the user's lines."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import jit
from jit import nn
from jit.inspection.covering import Coverage
from jit.ir.op import REGISTRY
from tests.registry_cases import all_cases


def rows(found: Coverage) -> dict[str, Any]:
    return {row.op.removeprefix("aten::"): row for row in found.rows}


def test_operators_with_everything_have_no_gaps() -> None:
    found = jit.coverage(lambda x: (x.exp() + x.exp()).sum(), jit.ones(3))
    assert found.gaps == found.on_host == []
    exp = rows(found)["exp"]
    assert (exp.calls, exp.trace, exp.grad, exp.second_grad, exp.cpu, exp.cuda, exp.onnx) == (
        2, "yes", "yes", "yes", "point", "kernel", "yes",
    )  # fmt: skip
    assert exp.lines == ("test_covering.py:25",)


def test_gaps_are_named_with_their_reasons() -> None:
    found = jit.coverage(lambda x: jit.special.airy_ai(x.exp()), jit.ones(3))
    airy = rows(found)["special_airy_ai"]
    assert airy.grad.startswith("none: there is no formula") and airy.onnx.startswith("no: ")
    assert found.gaps == found.on_host == ["aten::special_airy_ai"]


def test_composites_are_what_their_parts_are() -> None:
    solve = rows(jit.coverage(lambda a, b: jit.linalg.solve(a, b), jit.eye(2), jit.ones(2)))["linalg_solve"]
    assert "host" in solve.cuda.split(", ") and solve.grad == solve.second_grad == "yes"


def test_a_missing_second_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY["aten::tanh_backward"].missing, "grad", "none here")
    monkeypatch.setattr(REGISTRY["aten::tanh_backward"], "derivatives", {})
    tanh = rows(jit.coverage(lambda x: x.tanh(), jit.ones(3)))["tanh"]
    assert tanh.grad == "yes" and tanh.second_grad != "yes"


def test_functions_that_run_in_python_say_so() -> None:
    seen: list[Any] = []

    def function(x: jit.Tensor) -> jit.Tensor:
        seen.append(np.random.rand())
        return x * 2

    found = jit.coverage(function, jit.ones(2))
    assert rows(found)["mul"].trace.startswith("no: it was not kept") and found.gaps == ["aten::mul"]


def test_what_calls_change_is_put_back() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    jit.manual_seed(3)
    wanted = jit.rand(2).tolist()
    jit.manual_seed(3)
    found = jit.coverage(net, jit.ones(4, 2))
    assert jit.rand(2).tolist() == wanted
    assert all((tensor == before[name]).all() for name, tensor in net.state_dict().items())
    assert {"linear", "batch_norm", "dropout"} <= set(rows(found))


def test_functions_of_users_are_rows() -> None:
    class Double(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: jit.Tensor) -> jit.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: jit.Tensor) -> jit.Tensor:
            return g * 2

    row = rows(jit.coverage(Double.apply, jit.ones(2)))["^Double"]
    assert (row.cpu, row.cuda, row.onnx[:3]) == ("Python", "Python", "no:")


def test_it_is_shown_as_text_html_and_rich() -> None:
    found = jit.coverage(lambda x: jit.special.airy_ai(x), jit.ones(3), opset_version=17)
    text = str(found)
    assert text.splitlines()[0].split()[-2:] == ["17", "lines"] and "on the host: aten::special_airy_ai" in text
    assert "<th>ONNX 17</th>" in found._repr_html_() and "<td>aten::special_airy_ai</td>" in found._repr_html_()
    console = Console(file=io.StringIO(), width=200)
    console.print(found)
    assert "aten::special_airy_ai" in console.file.getvalue()  # type: ignore[attr-defined]
    assert json.loads(found.to_json())["rows"][0]["op"] == "aten::special_airy_ai"


@pytest.mark.parametrize("family", sorted({op.family for op in REGISTRY.values()}))
def test_every_declared_derivative_is_found(family: str) -> None:
    """On the first sample that has gradients, coverage and the declaration agree; nothing is called a gap wrongly."""
    wrong = []
    for op in REGISTRY.values():
        case = next((c for c in all_cases(op) if c.sample.grad), None)
        if op.family == family and case is not None and "grad" not in op.missing:
            args, kwargs = case.arguments()
            found = rows(jit.coverage(case.function, *args, **kwargs)).get(op.name.removeprefix("aten::"))
            if found is not None and found.grad.startswith("none"):
                wrong.append((case.id, found.grad))
    assert wrong == []
