"""Ranges of dynamic axes: what follows from one is no condition; else the range that would do is named."""

import re

import numpy as np
import pytest

import jit
from jit.export.ranges import range_for
from jit.ir.errors import ExportError, UsageError
from jit.ir.size_conditions import SizeCondition
from jit.ir.sizes import SizeSymbol
from jit.nn import functional as F

from .models import export, listing, run

n = SizeSymbol("n", 1)


def exported(function, *shape, **axes):
    return jit.export_onnx(function, jit.randn(*shape), dynamic_axes={"x": {int(d[1:]): a for d, a in axes.items()}})


def refused(function, *shape, **axes) -> str:
    with pytest.raises(ExportError) as caught:
        exported(function, *shape, **axes)
    return str(caught.value)


# -- what follows from a range -----------------------------------------------------------------------------------

FOLLOWS = {
    "a size is positive": (lambda x: x / max(x.shape[0], 1) if x.shape[0] > 0 else x, "n"),
    "more than one": (lambda x: x * 2 if x.shape[0] > 1 else x, ("n", 2)),
    "at least three": (lambda x: x * 2 if x.shape[0] >= 3 else x, ("n", 3, 64)),
    "at most 64": (lambda x: x * 2 if x.shape[0] <= 64 else x, ("n", 1, 64)),
    "not 100": (lambda x: x * 2 if x.shape[0] != 100 else x, ("n", 1, 64)),
    "half of it": (lambda x: x * 2 if x.shape[0] // 2 > 3 else x, ("n", 8, 64)),
    "a maximum": (lambda x: x * max(x.shape[0], 4), ("n", 4, 9)),
    "a minimum": (lambda x: x[: min(x.shape[0], 9)], ("n", 4, 9)),
    "a window": (lambda x: F.max_pool1d(x[None], 3) if x.shape[1] > 2 else x, ("n", 3, 12)),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_is_no_condition(name):
    function, axis = FOLLOWS[name]
    report = exported(function, 8, 8, d0=axis, d1=axis)
    assert not report.conditions and len(report.verified.sizes) == 2


def test_a_remainder_follows_from_no_range_and_is_refused():
    text = refused(lambda x: x * 2 if x.shape[0] % 4 == 0 else x, 8, 3, d0="n")
    assert "a decision at test_ranges.py" in text and "Python decided that n % 4 == 0; leave the axis out" in text


# -- what does not -----------------------------------------------------------------------------------------------

WOULD_DO = {
    "more than one": (lambda x: x * 2 if x.shape[0] > 1 else x, "n", ("n", 2)),
    "a maximum": (lambda x: x * max(x.shape[0], 4), "n", ("n", 4)),
    "at most 64": (lambda x: x * 2 if x.shape[0] <= 64 else x, "n", ("n", 1, 64)),
    "too wide": (lambda x: x * 2 if x.shape[0] <= 64 else x, ("n", 2, 100), ("n", 2, 64)),
    "half of it": (lambda x: x * 2 if x.shape[0] // 2 > 3 else x, "n", ("n", 8)),
    "a size alone": (lambda x: x * 2 if x.shape[0] != 5 else x, "n", ("n", 6)),
    "three pieces": (lambda x: jit.cat(x.chunk(3, 0)[::-1], 0), "n", ("n", 5)),
}


@pytest.mark.parametrize("name", WOULD_DO)
def test_the_range_that_is_named_would_do(name):
    function, axis, range = WOULD_DO[name]
    text = refused(function, 8, 3, d0=axis)
    assert re.search(r"at test_ranges\.py:\d+ in <lambda>", text)
    assert f"the range {range} for the axis would do" in text
    assert exported(function, 8, 3, d0=range).verified is not None


def test_what_operators_ask_for_is_a_remark_unless_a_range_was_promised():
    def pooled(x):
        return F.avg_pool1d(x[None], 3)

    report = exported(pooled, 2, 8, d1="n")
    assert re.fullmatch(r"n >= 3 \(aten::avg_pool1d at test_ranges\.py:\d+ in pooled\)", report.conditions[0])
    assert "holds for n >= 3" in str(report) and report.to_dict()["conditions"] == report.conditions
    assert "it holds for n >= 3 alone; the range ('n', 3, 64)" in refused(pooled, 2, 8, d1=("n", 1, 64))
    assert not exported(pooled, 2, 8, d1=("n", 3, 64)).conditions


def test_what_no_range_can_say_is_a_remark_for_a_range_as_well():
    report = exported(lambda x: x.view(4, -1), 8, 3, d0=("n", 4, 64))
    assert report.conditions[0].startswith("(3*n) % 4 == 0 (aten::view")


def test_sizes_that_are_tied():
    assert "it holds for n == 8 alone; leave the axis out" in refused(lambda x: x + jit.ones(8, 3), 8, 3, d0="n")
    text = refused(lambda x: x @ x, 4, 4, d0="n", d1="m")
    assert "m == n alone; if these axes are always equal, give them one name" in text
    assert exported(lambda x: x @ x, 4, 4, d0="n", d1="n").outputs == {"output": "float32 (n, n)"}


def test_sizes_that_are_equal_by_chance_are_not_tied():
    report = exported(lambda x: jit.cat([x, x.t()[:1, :1].expand(1, x.shape[1])]), 4, 4, d0="n", d1="m")
    assert report.outputs == {"output": "float32 (n+1, m)"} and not report.conditions


# -- sizes of 0 and 1 --------------------------------------------------------------------------------------------


def test_a_size_of_one_that_would_make_another_program():
    report = exported(lambda x: x.squeeze(0) * 2, 4, 3, d0="n")
    assert re.match(r"n >= 2 \(aten::squeeze\.dim at test_ranges", report.conditions[0])
    text = refused(lambda x: x.squeeze(0) * 2, 4, 3, d0=("n", 1, 9))
    assert "it gives a result of another size where 'n' is 1; the range ('n', 2, 9) for the axis would do" in text
    assert not exported(lambda x: x.squeeze(0) * 2, 4, 3, d0=("n", 2, 9)).conditions


def test_a_size_of_one_that_was_recorded():
    report = exported(lambda x: x.softmax(1) @ x.transpose(1, 2), 1, 1, 1, d0="n", d1="t")
    assert report.outputs == {"output": "float32 (n, t, t)"} and not report.conditions
    with pytest.raises(ExportError, match="pass arguments in which the size of 'n' is 2 or more"):
        exported(lambda x: x.squeeze(0) * 2, 1, 3, d0="n")


def test_no_elements():
    model = export(
        "graph(%x : Float(4, 3)) { %y : Float(4) = aten::sum[dim=[1]](%x) return (%y) }",
        dynamic_axes={"x": {0: ("n", 0, 8)}},
    )
    assert listing(model) == "y = ReduceSum[keepdims=0](x, [1])"
    assert run(model, x=np.zeros((0, 3), np.float32))[0].shape == (0,)


# -- calls that make no sense ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        (("n", 9, 20), "the axis 'n' from 9 to 20 has the size 8 in the arguments"),
        (("n", 1, 7), "the axis 'n' from 1 to 7 has the size 8 in the arguments"),
        (("n", 5, 2), "a range is"),
    ],
)
def test_arguments_outside_of_the_range(axis, words):
    with pytest.raises(UsageError, match=words):
        exported(lambda x: x * 2, 8, 3, d0=axis)


def test_one_axis_has_one_size():
    with pytest.raises(UsageError, match="the axis 'n' has the sizes 8 and 3 in the arguments"):
        exported(lambda x: x * 2, 8, 3, d0="n", d1="n")


@pytest.mark.parametrize(
    ("size", "relation", "low", "high", "now", "expected"),
    [
        (n.size - 3, ">=", 1, None, 8, (3, None)),
        (9 - n.size, ">=", 1, None, 8, (1, 9)),
        (n.size // 3 - 2, ">=", 1, 64, 8, (6, 64)),
        (n.size - 5, "!=", 1, None, 8, (6, None)),
        (n.size % 4, "==", 1, 8, 8, None),
        (n.size - 5, "!=", 1, None, 2, (1, 4)),
        (n.size % 4, "==", 1, None, 8, None),
        (n.size - 8, "==", 1, None, 8, None),
        (1 - n.size, ">=", 1, None, 1, None),
    ],
)
def test_the_widest_range(size, relation, low, high, now, expected):
    assert range_for(SizeCondition(relation, size), n, low, high, now) == expected


# -- verification ------------------------------------------------------------------------------------------------


def test_the_sizes_of_the_verification_meet_the_conditions():
    report = exported(lambda x: x.view(4, -1), 8, 3, d0="n")
    assert report.verified.sizes == [{"x": [8, 3]}, {"x": [12, 3]}]
    report = exported(lambda x: x.view(-1, 256) * 2, 256, 3, d0="n")
    assert report.verified.sizes == [{"x": [256, 3]}, {"x": [512, 3]}]
    report = exported(lambda x: x * 2, 8, 3, d0=("n", 2, 8))
    assert report.verified.sizes == [{"x": [8, 3]}, {"x": [7, 3]}]
    report = exported(lambda x: x * 2, 8, 8, d0="n", d1="m")
    assert report.verified.sizes == [{"x": [8, 8]}, {"x": [9, 10]}]


def test_a_model_that_was_verified_for_its_own_sizes_alone_says_so():
    report = exported(lambda x: x.view(-1, 1000) * 2, 3000, 1, d0=("n", 1000, 3000))
    assert len(report.verified.sizes) == 1
    assert report.warnings == ["no other sizes near those of the arguments were found to verify with"]
