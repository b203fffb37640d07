"""Printed tensors look as in PyTorch 2.13, whose texts are the ones below."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jit

_BLOCKS = (Path(__file__).parent / "printed_tensors.txt").read_text().split(">>> ")[1:]
TEXTS = dict(block.rstrip("\n").split("\n", 1) for block in _BLOCKS)
"""What PyTorch prints, by expression; behind "set", `arange(12) / 8` after `set_printoptions`."""
NAMES = {
    "x + y": "AddBackward0", "1 - x": "RsubBackward1", "x**2": "PowBackward0", "x**y": "PowBackward1",
    "x.sum()": "SumBackward0", "x.sum(0)": "SumBackward1", "x.mean()": "MeanBackward0", "x.mean(1)": "MeanBackward1",
    "x.max()": "MaxBackward1", "x.max(0).values": "MaxBackward0", "x.clamp(0, 1)": "ClampBackward1",
    "x.clamp(y, y)": "ClampBackward0", "x.double()": "ToCopyBackward0", "x.log_softmax(0)": "LogSoftmaxBackward0",
    "x[0]": "SelectBackward0", "x[0:1]": "SliceBackward0", "x.t()": "TBackward0", "x.log1p()": "Log1PBackward0",
    "x.squeeze(0)": "SqueezeBackward1", "x.squeeze()": "SqueezeBackward0", "x.lerp(y, 0.5)": "LerpBackward0",
    "x.lerp(y, y)": "LerpBackward1", "x.fmod(2)": "FmodBackward0", "x.fmod(y)": "FmodBackward1",
    "x.masked_fill(x > 0, 0)": "MaskedFillBackward0", "x.clamp_max(y)": "ClampMaxBackward1",
    "x.clamp_min(0)": "ClampMinBackward0", "jit.nn.functional.linear(x, y, y[0])": "AddmmBackward0",
    "jit.nn.functional.avg_pool2d(x[None], 2)": "AvgPool2DBackward0", "x.chunk(3)[0]": "SplitBackward0",
    "jit.nn.functional.cross_entropy(x, jit.tensor([0, 1, 2]))": "NllLossBackward0", "x.view(9)": "ViewBackward0",
}  # fmt: skip
"""What the node of a result is called."""


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    yield
    jit.set_printoptions(profile="default")


@pytest.mark.parametrize("case", TEXTS)
def test_text(case: str) -> None:
    shown = case
    if case.startswith("set "):
        shown = "L.arange(12) / 8"
        eval(f"jit.set_printoptions({case.removeprefix('set ')})", {"jit": jit})
    assert repr(eval(shown, {"L": jit, "t": jit.tensor})) == TEXTS[case]


def test_options_are_told_and_kept() -> None:
    jit.set_printoptions(precision=2, linewidth=40)
    jit.set_printoptions(edgeitems=5)
    assert jit.get_printoptions() == {
        "precision": 2, "threshold": 1000, "edgeitems": 5, "linewidth": 40, "sci_mode": None,
    }  # fmt: skip


def test_unknown_profile() -> None:
    with pytest.raises(jit.UsageError, match="no profile is called 'long'; use one of default, short, full"):
        jit.set_printoptions(profile="long")


@pytest.mark.parametrize("case", NAMES)
def test_name_of_a_node(case: str) -> None:
    x, y = jit.ones(3, 3, requires_grad=True), jit.ones(3, 3, requires_grad=True)
    made = eval(case, {"jit": jit, "x": x, "y": y})
    assert made.grad_fn.name == NAMES[case]
    assert repr(made.detach().requires_grad_()).endswith("requires_grad=True)")
    assert f"grad_fn=<{NAMES[case]}>" in repr(made)


def test_classes_derived_from_tensors_are_named() -> None:
    class Mask(jit.Tensor):
        pass

    assert repr(Mask([1.0, 1.0])) == "Mask([1., 1.])"


@pytest.mark.parametrize(
    ("made", "spec", "text"),
    [
        (lambda: jit.tensor(1.5), "", "1.5"),
        (lambda: jit.tensor(1.5), ".3f", "1.500"),
        (lambda: jit.tensor(7), "5d", "    7"),
        (lambda: jit.tensor(True), "", "True"),
        (lambda: jit.tensor(1 + 2j), "", "(1+2j)"),
        (lambda: jit.tensor(0.1, dtype=jit.float16), "", "0.0999755859375"),
        (lambda: jit.tensor(1.5, requires_grad=True) * 2, "", "3.0"),
        (lambda: jit.tensor(1.5, requires_grad=True) * 2, "!s", "tensor(3., grad_fn=<MulBackward0>)"),
        (lambda: jit.ones(1), "", "tensor([1.])"),
        (lambda: jit.empty((), device="meta"), "", "tensor(..., device='meta', size=())"),
        (lambda: jit.nn.Parameter(jit.tensor(1.5)), "", "Parameter containing:\ntensor(1.5000, requires_grad=True)"),
    ],
)
def test_formatted(made: Any, spec: str, text: str) -> None:
    """As PyTorch's: a tensor without dims is formatted as its number, `f"{loss}"`."""
    assert (f"{made()!s}" if spec == "!s" else format(made(), spec)) == text


@pytest.mark.parametrize(
    "made",
    [
        lambda: jit.ones(1),
        lambda: jit.ones(2, 2),
        lambda: jit.nn.Parameter(jit.tensor(1.0)),
        lambda: jit.ones((), device="meta"),
    ],
)
def test_not_formatted_as_a_number(made: Any) -> None:
    with pytest.raises(TypeError, match="not formatted as a number"):
        format(made(), ".3f")


@pytest.mark.filterwarnings("ignore:f runs untraced")
def test_text_of_a_number_in_a_traced_function() -> None:
    seen = []

    @jit.trace
    def f(x: Any) -> Any:
        seen.append(f"{x.sum()} {x.sum():.1f}")
        return x + 1

    for number in range(4):
        f(jit.full((2,), float(number)))
    assert seen == ["0.0 0.0", "2.0 2.0", "4.0 4.0", "6.0 6.0"]


def test_the_default_dtype_is_not_told() -> None:
    jit.set_default_dtype(jit.float64)
    try:
        texts = [str(jit.ones(1, dtype=dtype)) for dtype in (jit.float64, jit.float32, jit.complex128, jit.complex64)]
        empty = [str(jit.ones(0, dtype=dtype)) for dtype in (jit.float64, jit.float32)]
    finally:
        jit.set_default_dtype(jit.float32)
    assert texts[:2] == ["tensor([1.])", "tensor([1.], dtype=jit.float32)"]
    assert texts[2:] == ["tensor([1.+0.j])", "tensor([1.+0.j], dtype=jit.complex64)"]
    assert empty == ["tensor([])", "tensor([], dtype=jit.float32)"]
