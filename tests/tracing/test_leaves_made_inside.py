"""Results whose gradients end at leaves that the traced function has made: they require grad in every call."""

from collections.abc import Callable
from typing import Any

import pytest

import jit

OUTSIDE = jit.ones(3, requires_grad=True)


def _made() -> Any:
    return jit.ones(3, requires_grad=True)


def _switched() -> Any:
    return jit.ones(3).requires_grad_()


def _detached(x: Any) -> Any:
    return x.detach().requires_grad_()


ONLY_INSIDE: dict[str, Callable[[Any], Any]] = {
    "made": lambda x: _made() * 2,
    "with data": lambda x: (_made() * x).sum(),
    "switched on": lambda x: _switched() * x,
    "of an argument's data": lambda x: _detached(x).exp(),
    "a view": lambda x: _made().view(3, 1),
    "one of two": lambda x: (x + 1, _made() + x),
    "beside what leads outside": lambda x: (OUTSIDE * x, _made() * x),
    "a tuple of operators": lambda x: _made().split(1),
    "written in place": lambda x: jit.zeros(3).add_(_made()),
}
OUTSIDE_TOO: dict[str, Callable[[Any], Any]] = {
    "a sum of both": lambda x: _made() * OUTSIDE,
    "only a captured leaf": lambda x: OUTSIDE * x,
    "detached again": lambda x: (_made() * x).detach(),
    "a gradient": lambda x: jit.autograd.grad((t := _detached(x)).exp().sum(), t)[0],
    "a gradient of the captured leaf": lambda x: jit.autograd.grad(
        (t := _detached(x)).mul(OUTSIDE).sum(), t, create_graph=True
    )[0],
}  # fmt: skip


def _requiring(result: Any) -> list[bool]:
    return [t.requires_grad for t in (result if isinstance(result, (list, tuple)) else [result])]


@pytest.mark.parametrize("name", [*ONLY_INSIDE, *OUTSIDE_TOO])
def test_results_require_grad_as_they_do_untraced(name: str) -> None:
    function = {**ONLY_INSIDE, **OUTSIDE_TOO}[name]
    traced, x = jit.trace(function), jit.arange(3.0)
    for _ in range(4):
        result, expected = traced(x), function(x)
        assert _requiring(result) == _requiring(expected)
        if any(_requiring(result)):
            sum(t.sum() for t in (result if isinstance(result, (list, tuple)) else [result])).backward()
    assert (traced.hits == 0) == (name in ONLY_INSIDE)


def test_the_reason_is_said() -> None:
    traced = jit.trace(ONLY_INSIDE["made"])
    traced(jit.ones(3))
    assert "because of nothing but a leaf that it has made" in str(traced.explain())
