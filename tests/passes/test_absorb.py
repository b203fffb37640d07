"""absorb: biases and zeros beside a convolution are arguments of it, in gradients too; what only looks so stays."""

# ruff: noqa: E501  (lines of IR)

import pytest
from expecttest import assert_expected_inline

from tests.passes.common import transformed, unchanged

PLAIN = "stride=[1, 1], padding=[0, 0], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1"
IMAGE, WEIGHT = "%x : Float(2, 3, 6, 6)", "%w : Float(4, 3, 3, 3)"


def test_what_is_added_to_channels_is_the_bias() -> None:
    after = transformed(
        "absorb",
        f"""graph({IMAGE}, {WEIGHT}, %b : Float(4)) {{
          %1 : Float(2, 4, 4, 4) = aten::convolution[{PLAIN}](%x, %w)  # m.py:1 in f
          %2 : Float(1, 4, 1, 1) = aten::view[size=[1, 4, 1, 1]](%b)
          %3 : Float(2, 4, 4, 4) = aten::add(%2, %1)
          return (%3)
        }}""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3, 6, 6), %w : Float(4, 3, 3, 3), %b : Float(4)) {
  %2 : Float(1, 4, 1, 1) = aten::view[size=[1, 4, 1, 1]](%b)
  %0 : Float(4) = aten::view[size=[4]](%2)  # m.py:1 in f
  %4 : Float(2, 4, 4, 4) = aten::convolution[stride=[1, 1], padding=[0, 0], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1](%x, %w, %0)  # m.py:1 in f
  return (%4)
}""",
    )


@pytest.mark.parametrize(
    ("added", "result"),
    [
        pytest.param("%b : Float(2, 1, 1, 1)", "%2", id="by image"),
        pytest.param("%b : Float(4)", "%2", id="by column"),
        pytest.param("%b : Float(2, 4, 1, 1)", "%2", id="by image and channel"),
        pytest.param("%b : Double(4, 1, 1)", "%2", id="another dtype"),
        pytest.param("%b : Float(4, 1, 1)", "%2, %1", id="read by others"),
    ],
)
def test_what_is_no_bias_stays(added: str, result: str) -> None:
    dtype = "Double" if "Double" in added else "Float"
    assert unchanged(
        "absorb",
        f"""graph({IMAGE}, {WEIGHT}, {added}) {{
          %1 : Float(2, 4, 4, 4) = aten::convolution[{PLAIN}](%x, %w)
          %2 : {dtype}(2, 4, 4, 4) = aten::add(%1, %b)
          return ({result})
        }}""",
    )


def test_zeros_are_padding() -> None:
    after = transformed(
        "absorb",
        f"""graph(%x : Float(2, 3, 4, 5), {WEIGHT}) {{
          %1 : Float(2, 3, 8, 7) = aten::constant_pad_nd[pad=[1, 1, 2, 2]](%x)
          %2 : Float(2, 4, 6, 5) = aten::convolution[{PLAIN}](%1, %w)
          return (%2)
        }}""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3, 4, 5), %w : Float(4, 3, 3, 3)) {
  %1 : Float(2, 3, 8, 7) = aten::constant_pad_nd[pad=[1, 1, 2, 2]](%x)
  %2 : Float(2, 4, 6, 5) = aten::convolution[stride=[1, 1], padding=[2, 1], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1](%x, %w)
  return (%2)
}""",
    )


def test_zeros_are_padding_of_gradients() -> None:
    after = transformed(
        "absorb",
        f"""graph(%x : Float(2, 3, 4, 4), {WEIGHT}, %g : Float(2, 4, 4, 4)) {{
          %1 : Float(2, 3, 6, 6) = aten::constant_pad_nd[pad=[1, 1, 1, 1]](%x)
          %2 : Float(2, 3, 6, 6), %3 : Float(4, 3, 3, 3), %4 : Undefined = aten::convolution_backward[bias_sizes=None,
            {PLAIN}, output_mask=[True, True, False]](%g, %1, %w)
          %5 : Float(2, 3, 4, 4) = aten::constant_pad_nd[pad=[-1, -1, -1, -1]](%2)
          return (%5, %3)
        }}""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3, 4, 4), %w : Float(4, 3, 3, 3), %g : Float(2, 4, 4, 4)) {
  %1 : Float(2, 3, 6, 6) = aten::constant_pad_nd[pad=[1, 1, 1, 1]](%x)
  %2 : Float(2, 3, 4, 4), %3 : Float(4, 3, 3, 3), %4 : Undefined = aten::convolution_backward[bias_sizes=None, stride=[1, 1], padding=[1, 1], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1, output_mask=[True, True, False]](%g, %x, %w)
  return (%2, %3)
}""",
    )


@pytest.mark.parametrize(
    ("image", "pad"),
    [
        pytest.param("2, 3, 4, 4", "pad=[1, 1, 1, 1], value=1.0", id="ones"),
        pytest.param("2, 3, 4, 4", "pad=[1, 1, 1, 1], value=-0.0", id="negative zeros"),
        pytest.param("2, 3, 4, 4", "pad=[0, 2, 0, 2]", id="one side"),
        pytest.param("2, 1, 4, 4", "pad=[1, 1, 1, 1, 1, 1]", id="channels"),
        pytest.param("2, 3, 8, 8", "pad=[-1, -1, -1, -1]", id="cuts"),
    ],
)
def test_other_frames_stay(image: str, pad: str) -> None:
    assert unchanged(
        "absorb",
        f"""graph(%x : Float({image}), {WEIGHT}) {{
          %1 : Float(2, 3, 6, 6) = aten::constant_pad_nd[{pad}](%x)
          %2 : Float(2, 4, 4, 4) = aten::convolution[{PLAIN}](%1, %w)
          return (%2)
        }}""",
    )


def test_a_gradient_that_is_read_whole_stays() -> None:
    assert unchanged(
        "absorb",
        f"""graph(%x : Float(2, 3, 4, 4), {WEIGHT}, %g : Float(2, 4, 4, 4)) {{
          %1 : Float(2, 3, 6, 6) = aten::constant_pad_nd[pad=[1, 1, 1, 1]](%x)
          %2 : Float(2, 3, 6, 6), %3 : Undefined, %4 : Undefined = aten::convolution_backward[bias_sizes=None,
            {PLAIN}, output_mask=[True, False, False]](%g, %1, %w)
          return (%2)
        }}""",
    )
