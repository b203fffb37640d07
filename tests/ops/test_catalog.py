"""The catalogue: what its tables say, what it does about a gap, and that the page made from it is up to date."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jit.ir.op import REGISTRY, Op
from jit.ir.registry import names_operator
from jit.ir.schema import parse_schema
from jit.ops import catalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


def ops(*names: str) -> list[Op]:
    return [REGISTRY[f"aten::{name}"] for name in names]


def test_derivatives_by_argument() -> None:
    assert catalog.table("grad", ops("tanh", "mul", "square", "eq", "masked_fill")).splitlines() == [
        "aten::tanh         self   F.tanh_backward(g, out)",
        "aten::mul          self   g * other",
        "                   other  g * self",
        "aten::square              through its parts",
        "aten::eq                  none: the result is boolean",
        "aten::masked_fill  self   F.masked_fill(g, mask, 0)",
        "                   mask   none: it chooses, and is no number",
        "                   value  F.where(mask, g, 0)",
    ]


def test_onnx_by_name_or_source() -> None:
    assert catalog.table("onnx", ops("tanh", "lt", "detach", "as_strided_scatter")).splitlines() == [
        "aten::tanh                  Tanh",
        "aten::lt                    if self.dtype is dtypes.bool_:",
        "                                self, other = g.cast(self, dtypes.int32), g.cast(other, dtypes.int32)",
        "                            return g.op(name, self, other)   with name='Less'",
        "aten::detach                Identity",
        "aten::as_strided_scatter    none: ONNX has no strided views",
    ]


def test_kernels_by_fact() -> None:
    assert catalog.table("kernel", ops("tanh", "neg", "clone")).splitlines() == [
        "aten::tanh   pointwise  m.tanh(self)",
        "             cost       25",
        "aten::neg    pointwise  -self",
        "             cost       1",
        "aten::clone  array      laid_out(m, self, memory_format, self.dtype)",
        "             step       copy",
        "             moves      yes",
    ]


def test_bodies_of_several_lines_stay_in_their_column() -> None:
    assert catalog.table("grad", ops("silu")).splitlines() == [
        "aten::silu  all  s = F.sigmoid(self)",
        "                 return (g * (s * (1 + self * (1 - s))),)",
    ]


@pytest.mark.parametrize("concern", catalog.CONCERNS)
def test_every_operator_is_in_every_table(concern: str) -> None:
    named = {line.split()[0] for line in catalog.table(concern).splitlines() if names_operator(line)}
    assert named == set(REGISTRY)


def test_gaps_are_listed_with_the_way_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    schema = parse_schema("aten::bare(Tensor self, Tensor index) -> Tensor")
    bare = Op("array", schema, lambda m, self, index: self, __name__)
    assert catalog.gaps(bare) == ["grad of self", "onnx", "types", "samples of 0"]
    monkeypatch.setitem(REGISTRY, "aten::bare", bare)
    assert catalog.main(["grad"]) == 1
    assert capsys.readouterr().err == "aten::bare: no grad of self; declare it or say why: absent(...)\n"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert catalog.main(["onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["onnx"]["aten::tanh"] == {"": "Tanh"}


def test_as_a_program() -> None:
    command = [sys.executable, "-m", "jit.ops.catalog"]
    assert "aten::tanh" in subprocess.run([*command, "samples"], check=True, capture_output=True, text=True).stdout
    assert subprocess.run([*command, "nonsense"], capture_output=True).returncode == 2


def test_the_page_says_what_computes_on_a_gpu() -> None:
    wanted = {
        "tanh": "kernel", "sum": "kernel", "mm": "library", "view": "free", "square": catalog.PARTS,
        "rand": "library", "special_airy_ai": "host",
    }  # fmt: skip
    assert {name: catalog.on_gpu(*ops(name)) for name in wanted} == wanted
    on_host = [op for op in REGISTRY.values() if catalog.on_gpu(op) == "host"]
    assert on_host == [op for op in REGISTRY.values() if op.runs_on_host]


def test_the_page_says_what_autocast_casts_to() -> None:
    wanted = {"mm": "lower", "exp": "cuda: float32", "grid_sampler": "cpu: float32, cuda: widest", "add": ""}
    assert {name: catalog._in_regions(*ops(name)) for name in wanted} == wanted


def test_page_is_up_to_date() -> None:
    if PAGE.read_text(encoding="utf-8") != catalog.page():
        pytest.fail("run: python -m jit.ops.catalog docs > docs/operators.md", pytrace=False)
