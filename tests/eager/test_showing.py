"""Printed tensors look as in PyTorch 2.13, whose texts are the ones below."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
