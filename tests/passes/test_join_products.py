"""join_products: products by one matrix that are joined are one product; others stay."""

import pytest
from expecttest import assert_expected_inline

from tests.passes.common import transformed, unchanged


def test_products_that_are_joined_are_one() -> None:
    after = transformed(
        "join_products",
        """graph(%a : Float(16, 8), %b : Float(4, 8), %w : Float(8, 32)) {
          %1 : Float(16, 32) = aten::mm(%a, %w)
          %2 : Float(4, 32) = aten::mm(%b, %w)
          %3 : Float(20, 32) = aten::cat[dim=0]([%1, %2])  # m.py:1 in f
          return (%3)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%a : Float(16, 8), %b : Float(4, 8), %w : Float(8, 32)) {
  %0 : Float(20, 8) = aten::cat([%a, %b])  # m.py:1 in f
  %4 : Float(20, 32) = aten::mm(%0, %w)  # m.py:1 in f
  return (%4)
}""",
    )


def test_products_that_are_stacked_are_one() -> None:
    after = transformed(
        "join_products",
        """graph(%a : Float(16, 8), %b : Float(16, 8), %w : Float(8, 32)) {
          %1 : Float(16, 32) = aten::mm(%a, %w)
          %2 : Float(1, 16, 32) = aten::unsqueeze[dim=0](%1)
          %3 : Float(16, 32) = aten::mm(%b, %w)
          %4 : Float(1, 16, 32) = aten::view[size=[1, 16, 32]](%3)
          %5 : Float(2, 16, 32) = aten::cat([%2, %4])
          return (%5)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%a : Float(16, 8), %b : Float(16, 8), %w : Float(8, 32)) {
  %0 : Float(32, 8) = aten::cat([%a, %b])
  %6 : Float(32, 32) = aten::mm(%0, %w)
  %7 : Float(2, 16, 32) = aten::view[size=[2, 16, 32]](%6)
  return (%7)
}""",
    )


INPUTS = "%a : Float(16, 16), %b : Float(16, 16), %w : Float(16, 16), %v : Float(16, 16)"
STACKED_IN_THE_MIDDLE = """%1 : Float(16, 1, 16) = aten::unsqueeze[dim=1](%x)
          %2 : Float(16, 1, 16) = aten::unsqueeze[dim=1](%y) %3 : Float(32, 1, 16) = aten::cat[dim=0]([%1, %2])"""
JOIN = "%3 : Float(32, 16) = aten::cat[dim=0]([%x, %y])"


@pytest.mark.parametrize(
    ("right", "join", "outputs"),
    [
        pytest.param("%v", JOIN, "%3", id="two matrices"),
        pytest.param("%w", "%3 : Float(16, 32) = aten::cat[dim=1]([%x, %y])", "%3", id="columns"),
        pytest.param("%w", JOIN, "%3, %x", id="read by others"),
        pytest.param("%w", STACKED_IN_THE_MIDDLE, "%3", id="another dim"),
        pytest.param("%w", "%3 : Float(32, 16) = aten::cat[dim=0]([%x, %a])", "%3, %y", id="no product"),
    ],
)
def test_others_stay(right: str, join: str, outputs: str) -> None:
    assert unchanged(
        "join_products",
        f"""graph({INPUTS}) {{
          %x : Float(16, 16) = aten::mm(%a, %w)
          %y : Float(16, 16) = aten::mm(%b, {right})
          {join}
          return ({outputs})
        }}""",
    )


def test_long_products_stay() -> None:
    assert unchanged(
        "join_products",
        """graph(%a : Float(200, 8), %b : Float(200, 8), %w : Float(8, 4)) {
          %1 : Float(200, 4) = aten::mm(%a, %w)
          %2 : Float(200, 4) = aten::mm(%b, %w)
          %3 : Float(400, 4) = aten::cat([%1, %2])
          return (%3)
        }""",
    )
