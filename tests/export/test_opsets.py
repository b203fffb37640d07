"""Every operator's ONNX form at every opset is valid, or refused with a reason."""

import onnx
import pytest

import jit
from jit.export import export_graph
from jit.export.builder import OnnxBuilder, OnnxCall
from jit.export.opsets import OPSETS
from jit.export.proxies import Unsupported
from jit.export.verification import verify_model
from jit.ir import Op
from jit.ir.errors import ExportError
from jit.runtime.arrays.execute import execute

from .test_symbolics import PRIMITIVES, OneNode, arguments, known_outputs, name_of, samples_of

CHANGES = (9, 10, 11, 12, 13, 15, 18, 21, 26)
"""Opsets at which forms change, the last included."""


@pytest.mark.parametrize("op", PRIMITIVES, ids=name_of)
def test_every_form_is_valid(op: Op):
    """The first sample at the opsets where forms change; `-m slow` takes them all."""
    check(op, samples_of(op)[:1], CHANGES)


@pytest.mark.slow
@pytest.mark.parametrize("op", PRIMITIVES, ids=name_of)
def test_every_form_of_every_sample_is_valid(op: Op):
    check(op, samples_of(op), OPSETS)


def check(op, samples, opsets):
    for sample in samples:
        values = arguments(op, sample)
        node = OneNode(op, values)
        outputs = known_outputs(node, execute(op, values))
        node.graph.set_return([value for value, _ in outputs])
        for opset in opsets:
            try:
                model = export_graph(node.graph, opset_version=opset)
            except ExportError as error:
                assert "opset" in str(error) or "ONNX" in str(error), error
                continue
            try:
                onnx.checker.check_model(model.to_bytes(), full_check=True)
                verify_model(model, [node.feed], [[array for _, array in outputs]])
            except Exception as error:
                error.add_note(f"{op.name} at opset {opset}, {sample.note}:\n{node.graph}")
                raise


MODES = [
    ("nearest", None), ("nearest-exact", None), ("area", None), ("bilinear", False), ("bilinear", True),
    ("bicubic", False), ("bicubic", True),
]  # fmt: skip


@pytest.mark.parametrize("opset", [9, 10, 11, 12, 13, 18, 19])
@pytest.mark.parametrize(("mode", "aligned"), MODES)
@pytest.mark.parametrize("size", [(6, 8), (9, 4), (7, 5), (2, 2), (3, 4)])
def test_resizing_at_every_opset(opset, mode, aligned, size):
    import jit.nn.functional as F

    def f(x):
        return F.interpolate(x, size=size, mode=mode, align_corners=aligned)

    whole = all(new % old == 0 for new, old in zip(size, (3, 4), strict=True))
    if opset >= 11 or mode == "area" or (mode == "nearest" and whole):
        assert jit.export_onnx(f, jit.randn(2, 2, 3, 4), opset_version=opset).verified is not None
    else:
        with pytest.raises(ExportError, match="opset_version=11 would do"):
            jit.export_onnx(f, jit.randn(2, 2, 3, 4), opset_version=opset)


def test_an_input_that_an_opset_requires_is_not_left_out():
    g = OnnxBuilder(11)
    x = g.stand_in(g.new_value(jit.float32, (1, 1, 2), "x"), jit.float32, (1, 1, 2))
    with pytest.raises(Unsupported, match="Resize cannot do without roi at opset 11"):
        g.write(OnnxCall("Resize", [x, None, None, g.ints([1, 1, 4])], {"mode": "nearest"}, 1))
