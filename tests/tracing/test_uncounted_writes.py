"""Writes through `.data` between an operator and its backward: traced as untraced; see Note [Uncounted writes]."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir.errors import AutogradError


class Product(jit.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * w, g * x


def twice(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    w.data.mul_(2)
    return y


def added(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    with jit.no_grad():
        w.data.add_(1)
    return y


def copied(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    w.data.copy_(x)
    return y


def clamped(x: Any, w: Any) -> Any:
    h = jit.tanh(x * w)
    y = (h * w).sum()
    w.data.clamp_(-0.5, 0.5)
    return y


def part(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    w.data[0] = 7.0
    return y


def part_of_view(x: Any, w: Any) -> Any:
    y = (x * w[1:]).sum()
    w[:2].data.zero_()
    return y


def made_inside(x: Any, w: Any) -> Any:
    h = x * w
    y = (h * h).sum()
    h.data.clamp_(0, 3)
    return y


def result_saved(x: Any, w: Any) -> Any:
    h = (x * w).exp()
    h.data.zero_()
    return h.sum()


def the_other_way(x: Any, w: Any) -> Any:
    data = w.data
    y = (x * data).sum() + w.sum()
    with jit.no_grad():
        w.mul_(2)
    return y


def in_composite(x: Any, w: Any) -> Any:
    y = jit.nn.functional.cross_entropy((x * w).reshape(1, 3), jit.tensor([1]))
    w.data.mul_(2)
    return y


def in_function(x: Any, w: Any) -> Any:
    y = Product.apply(x, w).sum()
    w.data.mul_(2)
    return y


CONFLICTS = [
    twice, added, copied, clamped, part, part_of_view, made_inside, result_saved, the_other_way, in_composite,
    in_function,
]  # fmt: skip


def written_first(x: Any, w: Any) -> Any:
    w.data.clamp_(-0.5, 0.5)
    return (x * w).sum()


def not_saved(x: Any, w: Any) -> Any:
    y = (x + w).sum()
    w.data.mul_(2)
    return y


def step(x: Any, w: Any) -> Any:
    loss = (x * w).sum()
    loss.backward()
    with jit.no_grad():
        w.sub_(0.1 * w.grad)
    w.data.clamp_(-0.5, 0.5)
    return loss


def tensors(number: int, function: Any) -> list[Any]:
    size = 4 if function is part_of_view else 3
    x, w = jit.linspace(0.2, 1.0, 3) * (number + 1), jit.linspace(-1.0, 1.5, size) + number
    return [x.detach().requires_grad_(), w.detach().requires_grad_()]


def seen(function: Any, caller: Any, inside: bool, number: int) -> list[Any]:
    """The result, what the arguments hold afterwards, and their gradients."""
    made = tensors(number, function)
    result = caller(*made)
    if not inside and result.grad_fn is not None:
        result.backward()
    return [np.array(t.detach().numpy()) for t in (result, *made, *(t.grad for t in made if t.grad is not None))]


def with_backward(function: Any) -> Any:
    def run(x: Any, w: Any) -> Any:
        y = function(x, w)
        y.backward()
        return y.detach()

    return run


def same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("function", CONFLICTS, ids=lambda f: f.__name__)
def test_a_backward_inside_reads_memory_as_it_is_then(function: Any) -> None:
    inside = with_backward(function)
    traced = jit.trace(inside, optimize=False)
    for number in range(4):
        same(seen(function, traced, True, number), seen(function, inside, True, number))
    if function is in_function:
        assert "over what ProductBackward has saved" in traced.explain()
    else:
        assert (traced.hits, traced.misses) == (3, 1)


@pytest.mark.parametrize("function", CONFLICTS, ids=lambda f: f.__name__)
def test_a_backward_outside_reads_memory_as_it_is_then_and_nothing_is_kept(function: Any) -> None:
    traced = jit.trace(function, optimize=False)
    for number in range(4):
        same(seen(function, traced, False, number), seen(function, function, False, number))
    assert (traced.hits, traced.misses) == (0, 2)
    assert re.search(
        r"the call writes through \.data over what \w+Backward0? has saved at test_\w+\.py:\d+", traced.explain()
    )


@pytest.mark.parametrize("function", [written_first, not_saved, step], ids=lambda f: f.__name__)
def test_a_write_that_no_backward_sees_is_recorded(function: Any) -> None:
    traced = jit.trace(function, optimize=False)
    for number in range(4):
        same(seen(function, traced, function is step, number), seen(function, function, function is step, number))
    assert (traced.hits, traced.misses) == (3, 1)


def detached(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    w.detach().mul_(2)
    return y


def without_gradients(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    with jit.no_grad():
        w.mul_(2)
    return y


@pytest.mark.parametrize("function", [detached, without_gradients], ids=lambda f: f.__name__)
def test_a_write_that_a_version_counts_is_an_error(function: Any) -> None:
    inside = with_backward(function)
    for caller in (inside, jit.trace(inside)):
        with pytest.raises(AutogradError, match="changed by an in-place operation"):
            caller(*tensors(0, function))


def test_a_data_has_a_version_of_its_own() -> None:
    def versions(x: Any) -> Any:
        h = x * 1
        data = h.data
        data.mul_(2)
        return h._version, data._version

    x = jit.ones(2)
    assert jit.trace(versions)(x) == versions(x) == (0, 1)


def test_memory_of_numpy_that_changes_is_read_by_a_backward_as_it_is_then() -> None:
    array = np.ones(3, np.float32)
    w = jit.from_numpy(array)

    def function(x: Any) -> Any:
        y = (x * w).sum()
        array[:] = array * 2
        return y

    def gradients(caller: Any) -> list[Any]:
        array[:] = 1
        found = []
        for _ in range(3):
            x = jit.ones(3).requires_grad_()
            caller(x).backward()
            found.append((x.grad.tolist(), array.tolist()))
        return found

    assert gradients(jit.trace(function)) == gradients(function)
