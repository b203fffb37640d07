"""advance: sums of pointwise results stand right behind them, and nothing passes a guard."""

from expecttest import assert_expected_inline

from tests.passes.common import transformed, unchanged


def test_a_sum_moves_in_front_of_products() -> None:
    after = transformed(
        "advance",
        """graph(%x : Float(32, 8), %w : Float(8, 4)) {
          %1 : Float(32, 8) = aten::cos(%x)
          %2 : Float(32, 4) = aten::mm(%1, %w)
          %3 : Float(8) = aten::sum[dim=[0]](%1)
          %4 : Float(4, 8, 8) = aten::view[size=[4, 8, 8]](%1)
          %5 : Float(8) = aten::sum[dim=[0, 1]](%4)
          return (%2, %3, %5)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(32, 8), %w : Float(8, 4)) {
  %1 : Float(32, 8) = aten::cos(%x)
  %3 : Float(8) = aten::sum[dim=[0]](%1)
  %4 : Float(4, 8, 8) = aten::view[size=[4, 8, 8]](%1)
  %5 : Float(8) = aten::sum[dim=[0, 1]](%4)
  %2 : Float(32, 4) = aten::mm(%1, %w)
  return (%2, %3, %5)
}""",
    )


def test_a_view_that_two_sums_read_moves_once() -> None:
    after = transformed(
        "advance",
        """graph(%x : Float(32, 8), %w : Float(8, 4)) {
          %1 : Float(32, 8) = aten::cos(%x)
          %2 : Float(32, 4) = aten::mm(%1, %w)
          %3 : Float(4, 8, 8) = aten::view[size=[4, 8, 8]](%1)
          %4 : Float(1, 8, 8, strides=[64, 8, 1]) = aten::narrow[dim=0, start=3, length=1](%3)
          %5 : Float(8) = aten::sum[dim=[0, 1]](%4)
          %6 : Float(1, 8, 8, strides=[64, 8, 1]) = aten::narrow[dim=0, start=0, length=1](%3)
          %7 : Float(8) = aten::sum[dim=[0, 1]](%6)
          return (%2, %5, %7)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(32, 8), %w : Float(8, 4)) {
  %1 : Float(32, 8) = aten::cos(%x)
  %3 : Float(4, 8, 8) = aten::view[size=[4, 8, 8]](%1)
  %4 : Float(1, 8, 8, strides=[64, 8, 1]) = aten::narrow[dim=0, start=3, length=1](%3)
  %5 : Float(8) = aten::sum[dim=[0, 1]](%4)
  %6 : Float(1, 8, 8, strides=[64, 8, 1]) = aten::narrow[dim=0, start=0, length=1](%3)
  %7 : Float(8) = aten::sum[dim=[0, 1]](%6)
  %2 : Float(32, 4) = aten::mm(%1, %w)
  return (%2, %5, %7)
}""",
    )


def test_what_follows_already_stays() -> None:
    assert unchanged(
        "advance",
        """graph(%x : Float(32, 8), %w : Float(8, 4)) {
          %1 : Float(32, 8) = aten::cos(%x)
          %2 : Float(8) = aten::sum[dim=[0]](%1)
          %3 : Float(4, 8, 8) = aten::view[size=[4, 8, 8]](%1)
          %4 : Float(8) = aten::sum[dim=[0, 1]](%3)
          %5 : Float(32, 4) = aten::mm(%1, %w)
          return (%5, %2, %4)
        }""",
    )


def test_sums_of_products_and_of_inputs_stay() -> None:
    assert unchanged(
        "advance",
        """graph(%x : Float(32, 8), %w : Float(8, 4)) {
          %1 : Float(32, 4) = aten::mm(%x, %w)
          %2 : Float(32, 4) = aten::cos(%1)
          %3 : Float(4) = aten::sum[dim=[0]](%1)
          %4 : Float(8) = aten::sum[dim=[0]](%x)
          return (%2, %3, %4)
        }""",
    )


def test_nothing_moves_in_front_of_a_guard() -> None:
    assert unchanged(
        "advance",
        """graph(%x : Float(32, 8), %b : bool) {
          %1 : Float(32, 8) = aten::cos(%x)
          prim::Guard[expected=True](%b)
          %2 : Float(8) = aten::sum[dim=[0]](%1)
          return (%1, %2)
        }""",
    )


def test_nothing_moves_to_another_stage() -> None:
    assert unchanged(
        "advance",
        """graph(%x : Float(32, 8)) {
          %1 : Float(32, 8) = aten::cos(%x)
          return (%1)
        ---- stage 1 (%g : Float(32, 8)) ----
          %2 : Float(32, 8) = aten::mul(%g, %x)
          %3 : Float(8) = aten::sum[dim=[0]](%1)
          return (%2, %3)
        }""",
    )
