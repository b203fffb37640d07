"""Every operator's ONNX form, read again and run: it gives what the operator's kernel gives."""

from __future__ import annotations

import numpy as np
import pytest

import jit.ops  # noqa: F401  (declares the operators)
from jit.export import export_graph
from jit.export.complexes import as_pairs
from jit.export.verification import compare, largest_of
from jit.onnx.backend import run_model
from jit.runtime.arrays.execute import execute
from tests.export.test_symbolics import PRIMITIVES, OneNode, arguments, known_outputs, name_of, samples_of


@pytest.mark.parametrize("op", PRIMITIVES, ids=name_of)
def test_what_is_exported_and_read_again_is_the_kernel(op):
    for index, sample in enumerate(samples_of(op)):
        values = arguments(op, sample)
        node = OneNode(op, values)
        outputs = known_outputs(node, execute(op, values))
        node.graph.set_return([value for value, _ in outputs])
        exported = export_graph(node.graph)
        feed = {name: as_pairs(array) for name, array in node.feed.items() if name in exported.report.inputs}
        found = run_model(exported.to_bytes(), feed)
        scale = largest_of([*feed.values(), *(np.asarray(want) for _, want in outputs)])
        for got, (_, want) in zip(found, outputs, strict=True):
            difference = compare(got, want, scale=scale)
            assert not difference.message, f"{op.name}, sample {index} {sample.note}: {difference.message}"
