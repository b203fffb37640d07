"""Sizes as ONNX nodes: every expression gives what Python gives, at every opset, and each part is computed once."""

import numpy as np
import pytest

from jit.export.builder import OnnxBuilder
from jit.ir import dtypes
from jit.ir.sizes import SizeSymbol, greatest, least

from .models import checked, export, run

N, M = SizeSymbol("n", 1), SizeSymbol("m", 1)
n, m = N.size, M.size
EXPRESSIONS = [
    n, 2 * n, n + 1, n - 5, 3 - n, -n, n * m, 2 * n * m - 3 * m + 7, n // 2, (n + 1) // 3, (n - 7) // 2, n % 4,
    (n - 9) % 4, -(-n // 2), n // m, n % m, least(n, m), greatest(n, 3), least(2 * n, m + 1, 9), n * n * n,
    (n // 2) * (m // 2) + greatest(n - m, 1), (n * m - 3) // 5, (n - 7) // m, (n - 7) % m,
]  # fmt: skip


def model_of(expressions, opset):
    """A model that gives the sizes, of an input of n rows and m columns."""
    import onnx_ir

    g = OnnxBuilder(opset)
    x = g.new_value(dtypes.float32, (n, m), "x")
    proxy = g.stand_in(x, dtypes.float32, (n, m))
    g.sizes.sources.update({N: (proxy, 0), M: (proxy, 1)})
    outputs = [g.op("Identity", g.constant(size)).value for size in expressions]
    for index, value in enumerate(outputs):
        value.name = f"y{index}"
        g.set_type(value, dtypes.int64, ())
    constants = [proxy.value for proxy in g.constants.values()]
    for index, value in enumerate(constants):
        assert value.const_value is not None
        value.name = value.const_value.name = f"constant{index}"
    graph = onnx_ir.Graph([x], outputs, nodes=g.nodes, initializers=constants, opset_imports={"": opset}, name="g")
    return onnx_ir.Model(graph, ir_version=8), g


@pytest.mark.parametrize("opset", [13, 14, 15, 20])
def test_every_expression_is_what_python_says(opset):
    import onnx_ir
    import onnxruntime

    model, _ = model_of(EXPRESSIONS, opset)
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(model).SerializeToString())
    for rows, columns in [(1, 1), (1, 7), (2, 3), (5, 4), (8, 3), (9, 12)]:
        found = session.run(None, {"x": np.zeros((rows, columns), np.float32)})
        assert [int(size) for size in found] == [size.evaluate({N: rows, M: columns}) for size in EXPRESSIONS]


def test_each_part_is_computed_once():
    _, g = model_of([(n // 2) * m, (n // 2) + 1, n // 2, (n // 2) * m + 1], 20)
    counts: dict[str, int] = {}
    for node in g.nodes:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    assert counts == {"Shape": 2, "Div": 1, "Mul": 1, "Add": 2, "Squeeze": 4, "Identity": 4}


def test_a_dividend_that_may_be_negative_is_rounded_down():
    _, g = model_of([(n + 1) // 2], 20)
    assert "Mod" not in [node.op_type for node in g.nodes]
    _, g = model_of([(n - 7) // m], 20)
    assert "Mod" in [node.op_type for node in g.nodes]


def test_sizes_in_a_shape_are_computed_and_named():
    exported = checked(
        export(
            """graph(%x : Float(4, 6)) {
              %n : int = prim::size[dim=0](%x)
              %h : int = prim::floordiv(%n, 2)
              %m : int = prim::size[dim=1](%x)
              %y : Float(2, 2, 6) = aten::view[size=[%h, 2, %m]](%x)
              %z : Float(4, 12) = aten::cat[dim=1]([%x, %x])
              return (%y, %z, %h)
            }""",
            dynamic_axes={"x": {0: "n", 1: "m"}},
        )
    )
    assert exported.report.outputs == {"y": "float32 (n//2, 2, m)", "z": "float32 (n, 2*m)", "output_2": "int64 ()"}
    assert exported.report.conditions == ["m*(n % 2) == 0 (aten::view)", "n >= 2 (aten::view)"]
    for rows, columns in [(4, 6), (2, 1), (6, 3), (8, 9), (10, 2)]:
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        y, z, half = run(exported, x=x)
        np.testing.assert_array_equal(y, x.reshape(rows // 2, 2, columns))
        np.testing.assert_array_equal(z, np.concatenate([x, x], 1))
        assert half == rows // 2
