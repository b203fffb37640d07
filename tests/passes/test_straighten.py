"""straighten: transposes go to the operands of products, sums to sizes become sums over dims."""

import numpy as np
import pytest
from expecttest import assert_expected_inline

from jit.ir import parse
from jit.ir.size_conditions import SizeConditions
from jit.ir.sizes import SizeSymbol, deciding
from jit.passes import run
from jit.runtime.arrays.interpreter import Interpreter
from tests.passes.common import transformed, unchanged


def test_a_transposed_product_is_a_product_of_transposes() -> None:
    after = transformed(
        "straighten",
        """graph(%x : Float(64, 784), %g : Float(64, 512)) {
          %0 : Float(784, 64, strides=[1, 784]) = aten::t(%x)
          %1 : Float(784, 512) = aten::mm(%0, %g)
          %2 : Float(512, 784, strides=[1, 512]) = aten::permute[dims=[1, 0]](%1)  # m.py:1 in f
          %3 : Float(512, 784) = aten::neg(%2)
          return (%3)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(64, 784), %g : Float(64, 512)) {
  %0 : Float(784, 64, strides=[1, 784]) = aten::t(%x)
  %4 : Float(512, 64, strides=[1, 512]) = aten::t(%g)
  %5 : Float(512, 784) = aten::mm(%4, %x)  # m.py:1 in f
  %3 : Float(512, 784) = aten::neg(%5)
  return (%3)
}""",
    )


def test_a_matrix_turned_back_is_the_matrix() -> None:
    after = transformed(
        "straighten",
        """graph(%x : Float(2, 3)) {
          %0 : Float(3, 2, strides=[1, 3]) = aten::t(%x)
          %1 : Float(2, 3) = aten::permute[dims=[1, 0]](%0)
          %2 : Float(2, 3) = aten::transpose.int[dim0=0, dim1=1](%0)
          %3 : Float(2, 3) = aten::add(%1, %2)
          return (%3)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3)) {
  %0 : Float(3, 2, strides=[1, 3]) = aten::t(%x)
  %3 : Float(2, 3) = aten::add(%x, %x)
  return (%3)
}""",
    )


def test_sums_over_dims() -> None:
    after = transformed(
        "straighten",
        """graph(%x : Float(2, 3, 4)) {
          %0 : Float(4) = aten::sum_to_size[size=[4]](%x)
          %1 : Float(2, 1, 4) = aten::sum_to_size[size=[2, 1, 4]](%x)
          %2 : Float(1, 4) = aten::sum_to_size[size=[1, 4]](%x)
          return (%0, %1, %2)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3, 4)) {
  %3 : Float(4) = aten::sum[dim=[0, 1]](%x)
  %4 : Float(2, 1, 4) = aten::sum[dim=[1], keepdim=True](%x)
  %5 : Float(4) = aten::sum[dim=[0, 1]](%x)
  %6 : Float(1, 4) = aten::view[size=[1, 4]](%5)
  return (%3, %4, %6)
}""",
    )


USED_TWICE = """graph(%a : Float(2, 3), %b : Float(3, 4)) {
  %0 : Float(2, 4) = aten::mm(%a, %b)
  %1 : Float(4, 2, strides=[1, 4]) = aten::t(%0)
  return (%1, %0)
}"""
VIEWED = """graph(%a : Float(2, 3), %b : Float(3, 4)) {
  %0 : Float(2, 4) = aten::mm(%a, %b)
  %1 : Float(4, 2, strides=[1, 4]) = aten::t(%0)
  %2 : Float(4, 1, 2, strides=[1, 2, 4]) = aten::unsqueeze[dim=1](%1)
  %3 : Float(4, 1, 2) = aten::neg(%2)
  return (%3)
}"""
HANDED_OUT = """graph(%a : Float(2, 3), %b : Float(3, 4)) {
  %0 : Float(2, 4) = aten::mm(%a, %b)
  %1 : Float(4, 2, strides=[1, 4]) = aten::t(%0)
  return (%1)
}"""
NOT_TURNED = """graph(%a : Float(2, 3), %b : Float(3, 4)) {
  %0 : Float(2, 4) = aten::mm(%a, %b)
  %1 : Float(2, 4) = aten::permute[dims=[0, 1]](%0)
  return (%1)
}"""
INTEGERS = """graph(%x : Long(2, 3)) {
  %0 : Long(3) = aten::sum_to_size[size=[3]](%x)
  return (%0)
}"""
NOTHING_SUMMED = """graph(%x : Float(2, 3)) {
  %0 : Float(2, 3) = aten::sum_to_size[size=[2, 3]](%x)
  return (%0)
}"""


@pytest.mark.parametrize("text", [USED_TWICE, VIEWED, HANDED_OUT, NOT_TURNED, INTEGERS, NOTHING_SUMMED])
def test_left_alone(text: str) -> None:
    unchanged("straighten", text)


@pytest.mark.parametrize("turn", ["t", "permute[dims=[-1, -2]]", "transpose.int[dim0=0, dim1=1]"])
def test_values(turn: str) -> None:
    graph = parse(f"""graph(%a : Float(2, 3), %b : Float(3, 4)) {{
      %0 : Float(2, 4) = aten::mm(%a, %b)
      %1 : Float(4, 2, strides=[1, 4]) = aten::{turn}(%0)
      %2 : Float(4, 2) = aten::neg(%1)
      %3 : Float(2) = aten::sum_to_size[size=[2]](%2)
      return (%2, %3)
    }}""")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (3, 4))]
    expected = Interpreter(graph.clone()).run(0, inputs)[0]
    run(graph, ["straighten"])
    assert "sum_to_size" not in str(graph)
    for found, wanted in zip(Interpreter(graph).run(0, inputs)[0], expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_sizes_of_incoming_gradients_are_known() -> None:
    after = transformed(
        "straighten",
        """graph(%x : Float(3, 4)) {
          return (%x)
        ---- stage 1 (%grad : Float(3, 4)) ----
          %0 : Float(4) = aten::sum_to_size[size=[4]](%grad)
          return (%0)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(3, 4)) {
  return (%x)
---- stage 1 (%grad : Float(3, 4)) ----
  %1 : Float(4) = aten::sum[dim=[0]](%grad)
  return (%1)
}""",
    )


# -- pools of whole images ---------------------------------------------------------------------------------------


def test_a_pool_of_whole_images_is_a_mean() -> None:
    after = transformed(
        "straighten",
        """graph(%x : Float(2, 3, 4, 6), %y : Float(3, 2, 4, 6), %g : Float(2, 3, 1, 1)) {
          %0 : Float(2, 3, 1, 1) = aten::adaptive_avg_pool2d[output_size=[1, 1]](%x)  # m.py:1 in f
          %1 : Float(3, 1, 1, 1) = aten::adaptive_avg_pool3d[output_size=[1, 1, 1]](%y)
          %2 : Float(2, 3, 4, 6) = aten::_adaptive_avg_pool2d_backward(%g, %x)
          return (%0, %1, %2)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3, 4, 6), %y : Float(3, 2, 4, 6), %g : Float(2, 3, 1, 1)) {
  %3 : Float(2, 3, 1, 1) = aten::mean[dim=[-2, -1], keepdim=True](%x)  # m.py:1 in f
  %4 : Float(3, 1, 1, 1) = aten::mean[dim=[-3, -2, -1], keepdim=True](%y)
  %5 : Float(2, 3, 1, 1) = aten::mul(%g, 0.25)
  %6 : Float(2, 3, 4, 6, strides=[3, 1, 0, 0]) = aten::expand[size=[2, 3, 4, 6]](%5)
  %7 : Float(2, 3, 4, 6) = aten::mul(%6, 0.16666666666666666)
  return (%3, %4, %7)
}""",
    )


def test_other_pools_stay() -> None:
    assert unchanged(
        "straighten",
        """graph(%x : Float(2, 3, 4, 6), %h : Half(2, 3, 4, 6), %g : Float(2, 3, 2, 1)) {
          %0 : Float(2, 3, 1, 2) = aten::adaptive_avg_pool2d[output_size=[1, 2]](%x)
          %1 : Half(2, 3, 1, 1) = aten::adaptive_avg_pool2d[output_size=[1, 1]](%h)
          %2 : Float(2, 3, 4, 6) = aten::_adaptive_avg_pool2d_backward(%g, %x)
          return (%0, %1, %2)
        }""",
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pools_of_whole_images_keep_their_bits(dtype: str) -> None:
    kind = {"float32": "Float", "float64": "Double"}[dtype]
    graph = parse(
        f"""graph(%x : {kind}(2, 3, 5, 7), %g : {kind}(2, 3, 1, 1)) {{
          %0 : {kind}(2, 3, 1, 1) = aten::adaptive_avg_pool2d[output_size=[1, 1]](%x)
          %1 : {kind}(2, 3, 5, 7) = aten::_adaptive_avg_pool2d_backward(%g, %x)
          return (%0, %1)
        }}"""
    )
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(2, 3, 5, 7)).astype(dtype), rng.normal(size=(2, 3, 1, 1)).astype(dtype)]
    expected = Interpreter(graph.clone()).run(0, inputs)[0]
    run(graph, ["straighten", "dce"])
    for found, wanted in zip(Interpreter(graph).run(0, inputs)[0], expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


# -- triangles ---------------------------------------------------------------------------------------------------


def test_triangles_are_chosen_by_position() -> None:
    after = transformed(
        "straighten",
        """graph(%x : Float(2, 3, 4), %m : Bool(3, 3)) {
          %0 : Float(2, 3, 4) = aten::tril[diagonal=1](%x)  # m.py:1 in f
          %1 : Bool(3, 3) = aten::triu(%m)
          return (%0, %1)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3, 4), %m : Bool(3, 3)) {
  %2 : Int(4) = prim::Constant[value=Int(4){0, 1, 2, 3}]()
  %3 : Int(3, 1) = prim::Constant[value=Int(3, 1){1, 2, 3}]()
  %4 : Bool(3, 4) = aten::le(%2, %3)
  %5 : Float(2, 3, 4) = aten::where.self(%4, %x, 0)  # m.py:1 in f
  %6 : Int(3) = prim::Constant[value=Int(3){0, 1, 2}]()
  %7 : Int(3, 1) = prim::Constant[value=Int(3, 1){0, 1, 2}]()
  %8 : Bool(3, 3) = aten::ge(%6, %7)
  %9 : Bool(3, 3) = aten::logical_and(%8, %m)
  return (%5, %9)
}""",
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "bool"])
@pytest.mark.parametrize("diagonal", [0, -2, 1, 5, -3, 10**15, -(10**15)])
def test_triangles_keep_their_bits(dtype: str, diagonal: int) -> None:
    kind = {"float32": "Float", "float16": "Half", "int64": "Long", "int8": "Char", "bool": "Bool"}[dtype]
    graph = parse(
        f"""graph(%x : {kind}(2, 3, 5)) {{
          %0 : {kind}(2, 3, 5) = aten::tril[diagonal={diagonal}](%x)
          %1 : {kind}(2, 3, 5) = aten::triu[diagonal={diagonal}](%x)
          return (%0, %1)
        }}"""
    )
    x = np.random.default_rng(0).normal(size=(2, 3, 5)) * 3
    if dtype.startswith("float"):
        x[0, 0], x[1, 2] = np.nan, -np.inf
    expected = Interpreter(graph.clone()).run(0, [x.astype(dtype)])[0]
    run(graph, ["straighten", "dce"])
    assert "tri" not in str(graph)
    for found, wanted in zip(Interpreter(graph).run(0, [x.astype(dtype)])[0], expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_triangles_of_sizes_that_vary_are_chosen_by_ranges() -> None:
    text = """graph(%x : Float(2, n, m)) {
          %0 : Float(2, n, m) = aten::tril[diagonal=-1](%x)
          return (%0)
        }"""
    with deciding(SizeConditions({SizeSymbol("n"): 5, SizeSymbol("m"): 7})):
        after = transformed("straighten", text)
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, n, m)) {
  %1 : Long(m) = aten::arange.start_step[start=0, end=m]()
  %2 : Long(n) = aten::arange.start_step[start=-1, end=n-1]()
  %3 : Long(n, 1) = aten::unsqueeze[dim=1](%2)
  %4 : Bool(n, m) = aten::le(%1, %3)
  %5 : Float(2, n, m) = aten::where.self(%4, %x, 0)
  return (%5)
}""",
    )


# -- batch norms -------------------------------------------------------------------------------------------------


def test_fixed_statistics_hand_on_nothing() -> None:
    after = transformed(
        "straighten",
        """graph(%x : Float(4, 3), %m : Float(3), %v : Float(3)) {
          %0 : Float(4, 3), %1 : Float(0), %2 : Float(0) =
            aten::native_batch_norm[training=False, momentum=0.1, eps=1e-05](%x, None, None, %m, %v)
          %3 : Float(4, 3), %4 : Float(3), %5 : Float(3) = aten::native_batch_norm_backward[train=False,
            eps=1e-05, output_mask=[True, True, True]](%x, %x, None, %m, %v, %1, %2)
          return (%0, %3)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(4, 3), %m : Float(3), %v : Float(3)) {
  %0 : Float(4, 3), %1 : Float(0), %2 : Float(0) = aten::native_batch_norm[training=False, momentum=0.1, eps=1e-05](%x, None, None, %m, %v)
  %3 : Float(4, 3), %4 : Float(3), %5 : Float(3) = aten::native_batch_norm_backward[train=False, eps=1e-05, output_mask=[True, True, True]](%x, %x, None, %m, %v)
  return (%0, %3)
}""",  # noqa: E501
    )


# -- what is made up ---------------------------------------------------------------------------------------------


def test_each_reader_makes_up_its_own_range() -> None:
    after = transformed(
        "straighten",
        """graph(%w : Float(9, 2)) {
          %0 : Long(5) = aten::arange.start_step[start=0, end=5]()
          %1 : Long(5, 1) = aten::unsqueeze[dim=1](%0)
          %2 : Bool(5, 5) = aten::le(%0, %1)
          %3 : Long(5, 1) = aten::neg(%1)
          %4 : Float(5, 2) = aten::embedding(%w, %0)
          return (%2, %3, %4)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%w : Float(9, 2)) {
  %6 : Long(5) = aten::arange.start_step[start=0, end=5]()
  %7 : Long(5) = aten::arange.start_step[start=0, end=5]()
  %8 : Long(5) = aten::arange.start_step[start=0, end=5]()
  %0 : Long(5) = aten::arange.start_step[start=0, end=5]()
  %5 : Long(5, 1) = aten::unsqueeze[dim=1](%8)
  %1 : Long(5, 1) = aten::unsqueeze[dim=1](%6)
  %2 : Bool(5, 5) = aten::le(%7, %1)
  %3 : Long(5, 1) = aten::neg(%5)
  %4 : Float(5, 2) = aten::embedding(%w, %0)
  return (%2, %3, %4)
}""",
    )
