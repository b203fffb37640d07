"""Every primitive's ONNX form, run by onnxruntime on the operator's samples and held against its kernel."""

from typing import Any

import numpy as np
import pytest

import jit.ops  # noqa: F401  (declares the operators)
from jit.export import export_graph
from jit.export.verification import open_engine, verify_model
from jit.ir import GENERATOR, REGISTRY, Graph, Op, Value
from jit.ir.errors import ExportError
from jit.ir.samples import Sample
from jit.ir.types import GeneratorType
from jit.runtime.arrays.execute import execute

from .models import checked, type_of

OPS = list(REGISTRY.values())
PRIMITIVES = [op for op in OPS if op.kind not in ("composite", "random") and op.symbolic is not None]
RANDOM = [op for op in OPS if op.kind == "random" and op.symbolic is not None]


def name_of(op: Op) -> str:
    return op.name


def samples_of(op: Op) -> list[Sample]:
    return [sample for sample in (op.sampler() if op.sampler else ()) if sample.onnx]


def arguments(op: Op, sample: Sample) -> list[Any]:
    """The sample as schema-ordered arguments: lists as tuples, single numbers as the lists that the schema wants."""
    return [_argument(a, v) for a, v in zip(op.arguments, op.bind(*sample.args, **sample.kwargs), strict=True)]


def _argument(argument: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if argument.type.is_list and not argument.type.is_tensor and isinstance(value, (int, float)):
        return (value,) * (argument.type.list_size or 1)
    return value


def each(value: Any, function: Any) -> Any:
    """`value` with `function` applied to its arrays."""
    if isinstance(value, (list, tuple)):
        return tuple(each(item, function) for item in value)
    return function(value) if isinstance(value, np.ndarray) else value


class OneNode:
    """A graph of one node, and what to feed it."""

    def __init__(self, op: Op, values: list[Any]) -> None:
        self.graph = Graph()
        self.feed: dict[str, np.ndarray] = {}
        types = op.infer([each(value, type_of) for value in values])
        operands = [self._operand(a.type.base, v) for a, v in zip(op.arguments, values, strict=True)]
        node = self.graph.add(op.name, *op.split(operands), types)
        self.outputs = [value for value in node.outputs if not isinstance(value.type, GeneratorType)]

    def _operand(self, base: str, value: Any) -> Any:
        return self.graph.add_input(GENERATOR, "rng") if base == "Generator" else each(value, self._input)

    def _input(self, array: np.ndarray) -> Value:
        name = f"x{len(self.feed)}"
        self.feed[name] = array
        return self.graph.add_input(type_of(array), name)


def known_outputs(node: OneNode, want: list[Any]) -> list[tuple[Value, Any]]:
    """The outputs that the kernel computes and ONNX gives."""
    found = []
    for value, array in zip(node.outputs, want, strict=True):
        if array is None:
            continue
        node.graph.set_return([value])
        try:
            export_graph(node.graph)
        except ExportError as error:
            if "ONNX does not give output" not in str(error):
                raise
        else:
            found.append((value, array))
    return found


@pytest.mark.parametrize("op", OPS, ids=name_of)
def test_every_operator_says_how_it_is_exported(op):
    if op.symbolic is None and op.kind != "composite" and "onnx" not in op.missing:
        where = f"{op.module.replace('.', '/')}.py"
        ways = f'onnx="Name", @{op.body.__name__}.onnx or onnx=absent("why")'
        pytest.fail(f"{op.name} has no ONNX form: add {ways} in {where}")


@pytest.mark.parametrize("op", PRIMITIVES, ids=name_of)
def test_agrees_with_the_kernel(op):
    ran = 0
    for index, sample in enumerate(samples_of(op)):
        values = arguments(op, sample)
        node = OneNode(op, values)
        outputs = known_outputs(node, execute(op, values))
        node.graph.set_return([value for value, _ in outputs])
        try:
            model = checked(export_graph(node.graph))
            verify_model(model, [node.feed], [[array for _, array in outputs]])
        except Exception as error:
            error.add_note(f"{op.name}, sample {index} {sample.note}:\n{node.graph}")
            raise
        ran += 1
    assert ran, f"{op.name} has no sample with onnx=True in {op.module}"


@pytest.mark.parametrize("op", RANDOM, ids=name_of)
def test_draws_what_the_type_rule_says(op):
    for sample in samples_of(op):
        node = OneNode(op, arguments(op, sample))
        node.graph.set_return(node.outputs[:1])
        exported = checked(export_graph(node.graph))
        assert exported.report.is_random
        _, run = open_engine(exported.model)
        (drawn,) = run({name: array for name, array in node.feed.items() if name in exported.report.inputs}).values()
        expected: Any = node.outputs[0].type
        assert (drawn.shape, drawn.dtype) == (expected.sizes, expected.dtype.numpy), f"{op.name}: {sample}"


def test_the_walk_sees_a_wrong_symbolic(monkeypatch):
    monkeypatch.setattr(REGISTRY["aten::tanh"], "symbolic", "Sigmoid")
    with pytest.raises(AssertionError, match="disagrees"):
        test_agrees_with_the_kernel(REGISTRY["aten::tanh"])
