"""Dynamic axes as users give them: names, ranges, and what makes no sense."""

import pytest

from jit.export.axes import Axis, axes_of, merged, symbols_of
from jit.ir.errors import UsageError


def test_a_name_a_range_or_a_list():
    assert axes_of("x", {0: "n", -1: ("w", 8, 512)}, 3) == {0: Axis("n"), 2: Axis("w", 8, 512, True)}
    assert axes_of("x", {0: ("n", 2)}, 1) == {0: Axis("n", 2, None, True)}
    assert axes_of("x", {0: ("n", 0, None)}, 1) == {0: Axis("n", 0, None, True)}
    assert axes_of("x", [0, -1], 2) == {0: Axis("x_dim_0"), 1: Axis("x_dim_1")}
    assert axes_of("x", {-1: "w"}) == {-1: Axis("w")}


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ("01", "must be {dim: axis name} or a list of dims"),
        ({0.5: "n"}, "has the dim 0.5, which is not a whole number"),
        ({True: "n"}, "has the dim True"),
        ({3: "n"}, "gives dim 3 of 'x', which has 2 dims"),
        ({0: ""}, "gives dim 0 the name ''"),
        ({0: None}, "gives dim 0 the name None"),
        ({0: ()}, r"gives dim 0 the name \(\)"),
        ({0: ("n", 4, 2)}, r"the range \('n', 4, 2\); a range is \(name, least, greatest\)"),
        ({0: ("n", 4, 4)}, "with the greatest above the least"),
        ({0: ("n", 0, 1)}, "and at least 2"),
        ({0: ("n", -1)}, "a range is"),
        ({0: ("n", 1.0)}, "a range is"),
        ({0: ("n", 1, 2, 3)}, "a range is"),
        ({0: ("n", None, 8)}, "a range is"),
        ({0: ("n", True)}, "a range is"),
    ],
)
def test_what_makes_no_sense(dims, words):
    with pytest.raises(UsageError, match=words):
        axes_of("x", dims, 2)


def test_a_range_counts_wherever_the_axis_is():
    wide, named = Axis("n", 2, 9, True), Axis("n")
    assert merged([named, wide]) == merged([wide, named]) == {"n": wide}
    assert merged([wide, wide, Axis("m")]) == {"n": wide, "m": Axis("m")}
    with pytest.raises(UsageError, match="the axis 'n' from 2 to 9 and the axis 'n' from 1; give it one range"):
        merged([wide, Axis("n", 1, None, True)])


def test_symbols_have_ranges_and_names_that_expressions_can_hold():
    names = ["batch", "input.1_dim_0", "input_1_dim_0", "min", "2nd", "class", "größe"]
    found = symbols_of({name: Axis(name, 2, 64, True) for name in names})
    texts = [symbol.name for symbol in found.values()]
    assert texts == ["batch", "input_1_dim_0", "input_1_dim_0_", "min_", "_2nd", "_class", "gr__e"]
    assert {(symbol.low, symbol.high) for symbol in found.values()} == {(2, 64)}
