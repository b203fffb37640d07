"""recognize_attention: products around a softmax become one operator on a GPU, unless something else uses the weights.

`tests/tracing/test_written_attention.py` runs what spellings of networks become.
"""

# ruff: noqa: E501  (lines of IR)

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline

from .common import transformed, unchanged

INPUTS = """
    %q : Float(4, 9, 8, device=cuda:0),
    %k : Float(4, 7, 8, device=cuda:0),
    %v : Float(4, 7, 6, device=cuda:0),
    %m : Bool(9, 7, device=cuda:0)"""

MASKED = """graph(INPUTS) {
  %0 : Float(4, 8, 7, strides=[56, 1, 8], device=cuda:0) = aten::transpose.int[dim0=1, dim1=2](%k)
  %1 : Float(4, 9, 7, device=cuda:0) = aten::bmm(%q, %0)
  %2 : Float(4, 9, 7, device=cuda:0) = aten::mul(%1, 0.5)
  %3 : Float(4, 9, 7, device=cuda:0) = aten::masked_fill(%2, %m, -inf)
  %4 : Float(4, 9, 7, device=cuda:0) = aten::softmax[dim=-1](%3)
  %5 : Float(4, 9, 6, device=cuda:0) = aten::bmm(%4, %v)
  return (%5)
}""".replace("INPUTS", INPUTS)

TRAINED = """graph(INPUTS) {
  %0 : Float(4, 8, 7, strides=[56, 1, 8], device=cuda:0) = aten::transpose.int[dim0=1, dim1=2](%k)
  %1 : Float(4, 9, 7, device=cuda:0) = aten::bmm(%q, %0)
  %2 : Float(4, 9, 7, device=cuda:0) = aten::_safe_softmax[dim=-1](%1)
  %3 : Float(4, 9, 6, device=cuda:0) = aten::bmm(%2, %v)
  return (%3)
---- stage 1 (%g : Float(4, 9, 6, device=cuda:0)) ----
  %4 : Float(4, 6, 7, strides=[42, 1, 6], device=cuda:0) = aten::transpose.int[dim0=1, dim1=2](%v)
  %5 : Float(4, 9, 7, device=cuda:0) = aten::bmm(%g, %4)
  %6 : Float(4, 7, 9, strides=[63, 1, 7], device=cuda:0) = aten::transpose.int[dim0=1, dim1=2](%2)
  %7 : Float(4, 7, 6, device=cuda:0) = aten::bmm(%6, %g)
  %8 : Float(4, 9, 7, device=cuda:0) = aten::_softmax_backward_data[dim=-1, input_dtype=jit.float32](%5, %2)
  %9 : Float(4, 9, 8, device=cuda:0) = aten::bmm(%8, %k)
  %10 : Float(4, 8, 9, strides=[72, 1, 8], device=cuda:0) = aten::transpose.int[dim0=1, dim1=2](%q)
  %11 : Float(4, 8, 7, device=cuda:0) = aten::bmm(%10, %8)
  return (%9, %11, %7)
}""".replace("INPUTS", INPUTS)


def test_a_mask_of_bools_is_turned_and_rows_unseen_are_nan() -> None:
    assert_expected_inline(
        transformed("recognize_attention", MASKED),
        """\
graph(
    %q : Float(4, 9, 8, device=cuda:0),
    %k : Float(4, 7, 8, device=cuda:0),
    %v : Float(4, 7, 6, device=cuda:0),
    %m : Bool(9, 7, device=cuda:0)) {
  %6 : Bool(9, 7, device=cuda:0) = aten::logical_not(%m)
  %7 : Float(4, 9, 6, device=cuda:0), %8 : Float(4, 9, device=cuda:0) = aten::_attend[is_causal=False, scale=0.5, dtype=jit.float32](%q, %k, %v, %6)
  %9 : Bool(4, 9, device=cuda:0) = aten::eq(%8, inf)
  %11 : Bool(4, 9, 1, device=cuda:0) = aten::unsqueeze[dim=-1](%9)
  %12 : Float(4, 9, 6, device=cuda:0) = aten::masked_fill(%7, %11, nan)
  return (%12)
}""",
    )


def test_gradients_are_one_operator() -> None:
    assert_expected_inline(
        transformed("recognize_attention", TRAINED),
        """\
graph(
    %q : Float(4, 9, 8, device=cuda:0),
    %k : Float(4, 7, 8, device=cuda:0),
    %v : Float(4, 7, 6, device=cuda:0),
    %m : Bool(9, 7, device=cuda:0)) {
  %12 : Float(4, 9, 6, device=cuda:0), %13 : Float(4, 9, device=cuda:0) = aten::_attend[is_causal=False, scale=1.0, dtype=jit.float32](%q, %k, %v)
  return (%12)
---- stage 1 (%g : Float(4, 9, 6, device=cuda:0)) ----
  %14 : Float(4, 9, 6, device=cuda:0) = aten::mul(%g, %12)
  %15 : Float(4, 9, device=cuda:0) = aten::sum[dim=[-1]](%14)
  %16 : Float(4, 9, 8, device=cuda:0), %17 : Float(4, 7, 8, device=cuda:0), %18 : Float(4, 7, 6, device=cuda:0) = aten::_attend_backward[is_causal=False, scale=1.0, output_mask=[True, True, True]](%g, %q, %k, %v, %13, %15)
  %19 : Float(4, 8, 7, strides=[56, 1, 8], device=cuda:0) = aten::transpose.int[dim0=-2, dim1=-1](%17)
  %20 : Float(4, 8, 7, device=cuda:0) = aten::clone(%19)
  return (%16, %20, %18)
}""",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", device=cuda:0", ""),
        ("return (%5)", "return (%5, %4)"),
        ("return (%5)", "return (%5, %1)"),
        ("-inf", "-1000.0"),
        ("dim=-1", "dim=1"),
        ("aten::mul(%1, 0.5)", "aten::mul(%1, %1)"),
        ("Float(", "Double("),
    ],
    ids=["cpu", "weights returned", "scores returned", "a number", "another dim", "a square", "float64"],
)
def test_near_misses_stay(old: str, new: str) -> None:
    assert old in MASKED
    assert unchanged("recognize_attention", MASKED.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("aten::bmm(%8, %k)", "aten::bmm(%8, %k1)"),
        ("aten::bmm(%6, %g)", "aten::bmm(%6, %g1)"),
        ("return (%9, %11, %7)", "return (%9, %11, %7, %8)"),
        ("return (%9, %11, %7)", "return (%9, %11, %7, %2)"),
    ],
    ids=["other keys", "another gradient", "the scores' gradient", "the weights"],
)
def test_other_backwards_stay(old: str, new: str) -> None:
    text = TRAINED.replace("INPUTS", INPUTS).replace(
        "%m : Bool(9, 7, device=cuda:0)", "%k1 : Float(4, 7, 8, device=cuda:0)"
    )
    text = text.replace(
        "(%g : Float(4, 9, 6, device=cuda:0))",
        "(%g : Float(4, 9, 6, device=cuda:0), %g1 : Float(4, 9, 6, device=cuda:0))",
    )
    assert old in text
    assert unchanged("recognize_attention", text.replace(old, new))
