"""Functions that return views, or a tensor twice, take the short way, and give what eager mode gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit import nn
from tests.tolerances import assert_close

pytestmark = pytest.mark.llvm

ROWS, COLUMNS = 4, 6
linear, recurrent = nn.Linear(COLUMNS, 3), nn.LSTM(COLUMNS, 5, batch_first=True)
scale = nn.Parameter(jit.ones(COLUMNS))


def twice(x: Any) -> Any:
    y = jit.tanh(x)
    return y, y


def with_a_view(x: Any) -> Any:
    y = jit.tanh(x)
    return y, y.view(-1), {"rows": y[1:]}


def of_the_weight(x: Any) -> Any:
    return linear(x), linear.weight.t(), scale


def heads(x: Any) -> Any:
    y = (x * scale).sin()
    return y.view(y.shape[0], 2, -1).transpose(0, 1)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "turned": lambda x: jit.tanh(x * scale).t(),
    "one_column": lambda x: linear(x)[:, 0],
    "squeezed": lambda x: linear(x).unsqueeze(0).transpose(1, 2).squeeze(0),
    "expanded": lambda x: (x * scale).sum(0, keepdim=True).expand(3, -1),
    "input_and_view": lambda x: (jit.exp(x), x.t(), x),
    "recurrent": lambda x: recurrent(x.unsqueeze(0)),
    "last_step": lambda x: recurrent(x.unsqueeze(0))[0][:, -1],
    "twice": twice,
    "with_a_view": with_a_view,
    "of_the_weight": of_the_weight,
    "heads": heads,
}


SHOWING = ("input_and_view", "with_a_view", "of_the_weight")
"""Functions whose results show other results or inputs: gradients of one are noted on the other, the long way."""


def tensors_of(result: Any) -> list[Any]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in tensors_of(part)]
    return [result]


def drawn(rows: int, seed: int, requires_grad: bool) -> Any:
    generator = jit.Generator().manual_seed(seed)
    return jit.randn(rows, COLUMNS, generator=generator).requires_grad_(requires_grad)


def sharing(tensors: list[Any], x: Any) -> list[list[bool]]:
    """Which of the tensors, and the argument, share memory; and which are one object."""
    known = [*tensors, x, linear.weight, scale]
    storages = [t.untyped_storage().data_ptr() for t in known]
    return [[a is b for b in known] for a in known] + [[a == b for b in storages] for a in storages]


@pytest.mark.parametrize("grown", [False, True], ids=["of one size", "of many sizes"])
@pytest.mark.parametrize("mode", ["no_grad", "weights", "argument"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_like_eager(name: str, mode: str, grown: bool) -> None:
    function = FUNCTIONS[name]
    traced = jit.trace(function)
    with jit.set_grad_enabled(mode != "no_grad"):
        for seed in range(8):
            traced(drawn(ROWS + (seed % 3 if grown else 0), seed, mode == "argument"))
        taken = traced._shortcuts.hits
        for seed in range(4):
            x, same = (drawn(ROWS + (seed % 2 if grown else 0), seed, mode == "argument") for _ in range(2))
            found, expected = tensors_of(traced(x)), tensors_of(function(same))
            assert sharing(found, x) == sharing(expected, same)
            for result, wanted in zip(found, expected, strict=True):
                assert_close(result, wanted, rtol=1e-5, atol=1e-6, message=name)
                assert (result.requires_grad, result.is_leaf) == (wanted.requires_grad, wanted.is_leaf)
                assert steps(result) == steps(wanted)
            if mode == "argument":
                assert_close(*(gradient(tensors, a) for tensors, a in ((found, x), (expected, same))), message=name)
        assert traced._shortcuts.hits > taken or (name in SHOWING and found[0].requires_grad)


def steps(tensor: Any) -> list[int]:
    """The strides that make a difference."""
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def gradient(tensors: list[Any], x: Any) -> Any:
    total = sum((t * jit.arange(t.numel()).view(t.shape).cos()).sum() for t in tensors)
    return jit.grad(total, x)[0]


def test_a_result_is_written_to_and_its_view_sees_it() -> None:
    traced = jit.trace(with_a_view)
    for _ in range(4):
        y, flat, _ = traced(drawn(ROWS, 0, False))
    y.zero_()
    assert traced._shortcuts.hits and flat.abs().sum() == 0
    again = traced(drawn(ROWS, 0, False))[0]
    assert again.abs().sum() > 0


def test_a_view_of_what_the_call_writes_to() -> None:
    def grow(x: Any) -> Any:
        x.add_(1)
        return x.view(-1), x * 2

    traced, x, other = jit.trace(grow), jit.zeros(3, 4), jit.zeros(3, 4)
    for _ in range(6):
        flat, double = traced(x)
        expected, wanted = grow(other)
        assert_close(flat, expected)
        assert_close(double, wanted)
        assert flat.data_ptr() == x.data_ptr() and x._version == other._version
