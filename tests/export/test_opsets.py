"""Every operator's ONNX form at every opset is valid, or refused with a reason."""

from typing import Any

import numpy as np
import onnx
import pytest

import jit
from jit.eager import dispatch
from jit.export import Exported, export_graph
from jit.export.builder import OnnxBuilder, OnnxCall
from jit.export.opsets import OPSETS
from jit.export.proxies import Unsupported
from jit.export.verification import open_engine, verify_model
from jit.ir import Graph, Op
from jit.ir.errors import ExportError
from jit.runtime.arrays.execute import execute

from .test_composites import COMPOSITES, traced
from .test_composites import arguments as with_tensors
from .test_symbolics import OPS, PRIMITIVES, RANDOM, OneNode, arguments, known_outputs, name_of, samples_of

CHANGES = (9, 10, 11, 13, 14, 16, 18, 23, 24, 26)
"""Opsets at which forms change, the last included."""
KNOWN_WHOLE = [op for op in COMPOSITES if op.symbolic is not None]


def test_every_symbolic_is_walked():
    assert len(PRIMITIVES) + len(RANDOM) + len(KNOWN_WHOLE) == sum(op.symbolic is not None for op in OPS)


@pytest.mark.parametrize("op", PRIMITIVES, ids=name_of)
def test_every_form_is_valid(op: Op):
    """The first sample at the opsets where forms change; `-m slow` takes them all."""
    check(op, samples_of(op)[:1], CHANGES)


@pytest.mark.slow
@pytest.mark.parametrize("op", PRIMITIVES, ids=name_of)
def test_every_form_of_every_sample_is_valid(op: Op):
    check(op, samples_of(op), OPSETS)


def check(op: Op, samples: Any, opsets: Any) -> None:
    for sample in samples:
        values = arguments(op, sample)
        node = OneNode(op, values)
        outputs = known_outputs(node, execute(op, values))
        node.graph.set_return([value for value, _ in outputs])
        for opset in opsets:
            model = valid(node.graph, opset)
            if model is not None:
                try:
                    verify_model(model, [node.feed], [[array for _, array in outputs]])
                except Exception as error:
                    error.add_note(f"{op.name} at opset {opset}, {sample.note}:\n{node.graph}")
                    raise


def valid(graph: Graph, opset: int) -> Exported | None:
    """The model of a graph, in which onnx's checker finds no fault; None where it is refused with a reason."""
    try:
        model = export_graph(graph, opset_version=opset)
    except ExportError as error:
        assert "opset" in str(error) or "ONNX" in str(error), error
        return None
    try:
        onnx.checker.check_model(model.to_bytes(), full_check=True)
    except Exception as error:
        error.add_note(f"at opset {opset}:\n{graph}")
        raise
    return model


@pytest.mark.parametrize("op", KNOWN_WHOLE, ids=name_of)
def test_every_form_of_a_composite_is_valid(op: Op):
    check_composite(op, samples_of(op)[:1], CHANGES)


@pytest.mark.slow
@pytest.mark.parametrize("op", COMPOSITES, ids=name_of)
def test_every_form_of_every_sample_of_a_composite_is_valid(op: Op):
    """Those that are written as their parts, too."""
    check_composite(op, samples_of(op), OPSETS)


def check_composite(op: Op, samples: Any, opsets: Any) -> None:
    for sample in samples:
        values = with_tensors(op, sample)
        results = [np.asarray(t.detach()) for t in dispatch.unpack(dispatch.call(op, values)) if t is not None]
        graph, feed = traced(op, values)
        for opset in opsets:
            model = valid(graph, opset)
            if model is not None and not model.report.is_random:
                verify_model(model, [{key: feed[key] for key in model.report.inputs}], [results])


@pytest.mark.parametrize("op", RANDOM, ids=name_of)
def test_every_form_of_a_draw_is_valid(op: Op):
    check_draws(op, samples_of(op)[:1], CHANGES)


@pytest.mark.slow
@pytest.mark.parametrize("op", RANDOM, ids=name_of)
def test_every_form_of_every_draw_is_valid(op: Op):
    check_draws(op, samples_of(op), OPSETS)


def check_draws(op: Op, samples: Any, opsets: Any) -> None:
    for sample in samples:
        node = OneNode(op, arguments(op, sample))
        node.graph.set_return(node.outputs[:1])
        expected: Any = node.outputs[0].type
        for opset in opsets:
            model = valid(node.graph, opset)
            drawn = None if model is None else drawn_by(model, node.feed, opset)
            if drawn is not None:
                assert (drawn.shape, drawn.dtype) == (expected.sizes, expected.dtype.numpy), (op.name, opset)


def drawn_by(model: Exported, feed: Any, opset: int) -> Any:
    """The numbers that a model draws; onnxruntime 1.32 draws none from opset 22 on, and onnx.reference not all."""
    try:
        _, run = open_engine(model.model)
        return next(iter(run({key: array for key, array in feed.items() if key in model.report.inputs}).values()))
    except (ExportError, NotImplementedError, ValueError):
        assert opset >= 22
        return None


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
