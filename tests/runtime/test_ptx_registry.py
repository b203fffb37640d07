"""Every pointwise operator in every dtype: a GPU's kernel wherever the CPU has one, refused for the same reason."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import Graph, Node, TensorType
from jit.ir.dtypes import ALL, as_dtype
from jit.ir.errors import Error
from jit.ir.op import REGISTRY, Op
from jit.ir.types import contiguous_strides
from jit.runtime.gpu.device import device_kernel
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.fusion import group_nest
from jit.runtime.kernels.nest import Buffer, Nest

from ..registry_cases import all_cases, function_of
from .grid_emulation import GPU

pytestmark = pytest.mark.llvm

POINTWISE = [op for op in REGISTRY.values() if op.kind == "pointwise" and all_cases(op)]
DTYPES = [d.name for d in ALL if not d.is_complex]
operators = pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name.removeprefix("aten::"))


def nodes(op: Op, dtype: str) -> list[Node]:
    """The operator's own nodes in its first samples with tensors of a dtype; none if it does not take them."""
    found: list[Node] = []
    for case in all_cases(op)[:2]:
        given = case.sample.args
        arrays = [a.astype(as_dtype(dtype).numpy) for a in given if isinstance(a, np.ndarray)]
        function, keywords = function_of(op), case.sample.kwargs

        def call(*tensors: Any, given: Any = given, keywords: Any = keywords, function: Any = function) -> Any:
            rest = iter(tensors)
            return function(*(next(rest) if isinstance(a, np.ndarray) else a for a in given), **keywords)

        traced = jit.trace(call, optimize=False)
        try:
            with np.errstate(all="ignore"):
                traced(*map(jit.from_numpy, arrays))
        except (Error, TypeError, ValueError):
            continue
        found += [n for n in traced.graph.nodes if n.kind == op.name and isinstance(n.output.type, TensorType)]
    return found


def alone(node: Node) -> Nest:
    """The nest of a node on vectors of 300 elements and on numbers."""
    graph = Graph()
    mapping = {v: graph.add_input(_vector(v.type)) for v in dict.fromkeys(node.inputs)}
    copy = graph.copy_node(node, mapping)
    copy.stage = 0
    copy.output.type = TensorType(node.output.type.dtype, (300,))  # type: ignore[attr-defined]
    graph.set_return([copy.output])
    types: list[Any] = [value.type for value in graph.inputs]
    return group_nest(graph, [Buffer(t.dtype, t.sizes, contiguous_strides(t.sizes)) for t in types])


def _vector(type_: Any) -> TensorType:
    return TensorType(type_.dtype, (300,) if type_.ndim else ())


def outcome(lowering: Any, node: Node) -> tuple[Any, str]:
    """(what it makes, "") or (None, why not)."""
    try:
        return lowering(alone(node)), ""
    except (Error, AttributeError, TypeError) as error:
        return None, str(error)


@cache
def kernels(op: Op) -> tuple[list[tuple[str, Any, Any]], list[tuple[str, str, str]]]:
    """((dtype, CPU kernel, GPU kernel), ...), and (dtype, why not on the CPU, why not on the GPU), ..."""
    made, refused = [], []
    for dtype in DTYPES:
        for node in nodes(op, dtype):
            (cpu, first), (gpu, second) = outcome(compile_nest, node), outcome(lambda n: device_kernel(n, GPU), node)
            if cpu and gpu:
                made.append((dtype, cpu, gpu))
            else:
                refused.append((dtype, first, second))
    return made, refused


def texts(op: Op) -> Iterator[Any]:
    """Distinct GPU kernels."""
    yield from {gpu.function: gpu for _, _, gpu in kernels(op)[0]}.values()


def one(op: Op) -> Any:
    """A GPU kernel in float32, or in the first dtype that the operator takes; None if it has none."""
    for dtype in sorted(DTYPES, key=lambda name: name != "float32"):
        for node in nodes(op, dtype):
            if kernel := outcome(lambda n: device_kernel(n, GPU), node)[0]:
                return kernel
    return None


@operators
def test_a_gpu_declines_what_the_cpu_declines_for_the_same_reason(op):
    made, refused = kernels(op)
    assert made or refused, "no sample of it reached code generation"
    for dtype, cpu, gpu in refused:
        assert cpu == gpu, dtype
