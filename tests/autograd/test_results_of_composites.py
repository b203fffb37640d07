"""Results of composites that view memory which these have made: they are no views, and are written to like new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit.nn import functional as F

COMPOSITES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda x: F.linear(x, x[0]),
    "linear with bias": lambda x: F.linear(x, x[0], x[0, :, 0]),
    "matmul of a batch and a matrix": lambda x: x @ x[0],
    "matmul of batches": lambda x: x[None] @ x[:, None],
    "matmul with a vector": lambda x: x @ x[0, 0],
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "tensordot": lambda x: jit.tensordot(x, x, dims=([2], [1])),
    "kron": lambda x: jit.kron(x[0], x[1]),
    "max_pool1d": lambda x: F.max_pool1d(x, 1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(2, 4, 2, 2), 2),
    "a reshape that copies": lambda x: x.transpose(0, 2).reshape(4, -1),
    "median": lambda x: x.median(2)[0],
}

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda y, p: y.mul_(p),
    "a part": lambda y, p: y[0].mul_(p),
    "through a view": lambda y, p: y.view(-1)[1:].add_(p),
    "twice": lambda y, p: y.transpose(0, -1).sub_(p)[..., :1].mul_(p),
    "with history alone": lambda y, p: y.mul_(2.0),
}  # fmt: skip


def operand() -> Any:
    return (jit.arange(32.0).reshape(2, 4, 4) * 0.7).sin().requires_grad_()


def gradients(function: Callable[..., Any]) -> list[Any]:
    """The result of a function of an operand and a factor, and the derivatives of the sum of its squares."""
    x, p = operand(), jit.tensor(1.5, requires_grad=True)
    result = function(x, p)
    (result * result).sum().backward()
    return [each if each is None else each.detach() for each in (result, x.grad, p.grad)]


def agree(found: list[Any], wanted: list[Any]) -> bool:
    pairs = zip(found, wanted, strict=True)
    return all(a is b if a is None or b is None else jit.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("composite", COMPOSITES)
def test_written_results_have_the_gradients_of_written_copies(composite: str, write: str, traced: bool) -> None:
    def run(x: Any, p: Any) -> Any:
        y = COMPOSITES[composite](x)
        z = y.view(-1)
        WRITES[write](y, p)
        return jit.cat([y.reshape(-1), z * 3])

    def of_copy(x: Any, p: Any) -> Any:
        y = COMPOSITES[composite](x).clone()
        WRITES[write](y, p)
        return jit.cat([y.reshape(-1), y.view(-1) * 3])

    wanted = gradients(of_copy)
    function = jit.trace(run) if traced else run
    for _ in range(3):
        assert agree(gradients(function), wanted)
    assert not traced or function.hits  # type: ignore[union-attr]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("write", [each for each in WRITES if each != "with history alone"])
@pytest.mark.parametrize("composite", COMPOSITES)
def test_results_from_without_grad_are_written_to_with_it(composite: str, write: str, traced: bool) -> None:
    def run(x: Any, p: Any) -> Any:
        with jit.no_grad():
            y = COMPOSITES[composite](x)
        WRITES[write](y, p)
        return y * 2

    def of_copy(x: Any, p: Any) -> Any:
        y = COMPOSITES[composite](x).detach().clone()
        WRITES[write](y, p)
        return y * 2

    wanted = gradients(of_copy)
    function = jit.trace(run) if traced else run
    for _ in range(3):
        assert agree(gradients(function), wanted)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("composite", COMPOSITES)
def test_results_are_no_views(composite: str, traced: bool) -> None:
    def asked(x: Any) -> Any:
        y = COMPOSITES[composite](x)
        return y._base is None, y.detach_() is y

    function = jit.trace(asked) if traced else asked
    assert [function(operand()) for _ in range(3)] == [(True, True)] * 3


VIEWS: dict[str, Callable[[Any], Any]] = {
    "flatten": lambda b: b.flatten(),
    "reshape": lambda b: b.reshape(-1),
    "squeeze": lambda b: b.squeeze(),
    "chunk": lambda b: b.chunk(2)[0],
    "unflatten": lambda b: b.unflatten(1, (2, 2)),
    "movedim": lambda b: b.movedim(0, 1),
}


@pytest.mark.parametrize("view", VIEWS)
def test_composites_of_views_give_views(view: str) -> None:
    x = operand()
    base = x * 1
    part = VIEWS[view](base)
    assert part._base is base
    part.mul_(2)
    (base.sum() * 3).backward()
    assert float(x.grad.sum()) == 3 * (base.numel() + part.numel())


def test_parts_of_one_new_memory_stay_views() -> None:
    parts = (operand() * 1).transpose(0, 2).contiguous().chunk(2)
    assert parts[0]._base is not None and parts[0]._base is parts[1]._base
