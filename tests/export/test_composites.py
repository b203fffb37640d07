"""Every composite's ONNX form - its own symbolic, and its parts - held against the eager result."""

from typing import Any

import numpy as np
import pytest

import jit
from jit.eager import dispatch
from jit.eager.arguments import coerce
from jit.export import Exported, export_graph, verify_model
from jit.ir import REGISTRY, Graph, Node, Op
from jit.ir.types import GeneratorType

from .models import checked

COMPOSITES = [op for op in REGISTRY.values() if op.kind == "composite"]


def arguments(op: Op, sample: Any) -> list[Any]:
    """The sample as schema-ordered arguments with tensors."""
    return coerce(op, [_tensors(value) for value in op.bind(*sample.args, **sample.kwargs)])


def _tensors(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_tensors(item) for item in value]
    return jit.from_numpy(value) if isinstance(value, np.ndarray) else value


def each(value: Any, function: Any) -> Any:
    """`value` with `function` applied to its tensors."""
    if isinstance(value, (list, tuple)):
        return tuple(each(item, function) for item in value)
    return function(value) if isinstance(value, jit.Tensor) else value


def traced(op: Op, values: list[Any]) -> tuple[Graph, dict[str, Any]]:
    """The recorded call of one operator, and its inputs."""
    tensors: list[Any] = []
    each(values, tensors.append)

    def call(tensors: list[Any]) -> Any:
        remaining = iter(tensors)
        return dispatch.call(op, [each(value, lambda _: next(remaining)) for value in values])

    function = jit.trace(call)
    function(tensors)
    names = [value.name for value in function.graph.inputs if not isinstance(value.type, GeneratorType)]
    return function.graph, dict(zip(names, map(np.asarray, tensors), strict=True))


def without_composites(graph: Graph) -> Graph:
    """A copy in which every composite has given way to its parts."""
    copy = graph.clone()
    while (node := next((each for each in copy.nodes if next(each.subgraphs, None)), None)) is not None:
        _inline(copy, node)
    return copy


def _inline(graph: Graph, node: Node) -> None:
    body = next(node.subgraphs)
    with graph.inserting_before(node):
        outputs, _ = graph.inline(body, list(node.inputs))
    node.replace_with(outputs[: len(node.outputs)])


def verify(exported: Exported, feed: dict[str, Any], expected: list[Any]) -> None:
    checked(exported)
    if not exported.report.is_random:
        verify_model(exported, [feed], [expected])


@pytest.mark.parametrize("op", COMPOSITES, ids=lambda op: op.name)
def test_agrees_with_the_eager_result(op):
    for index, sample in enumerate(op.sampler()):
        if not sample.onnx:
            continue
        values = arguments(op, sample)
        results = dispatch.unpack(dispatch.call(op, values))
        eager = [np.asarray(tensor.detach()) for tensor in results if tensor is not None]
        graph, feed = traced(op, values)
        try:
            verify(export_graph(graph), feed, eager)
            verify(export_graph(without_composites(graph)), feed, eager)
        except Exception as error:
            error.add_note(f"{op.name}, sample {index} {sample.note}:\n{graph}")
            raise
