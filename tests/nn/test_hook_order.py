"""The order in which a module's hooks run, and those that run although a call has raised."""

from __future__ import annotations

from typing import Any

import pytest

import jit
from jit import nn

REGISTER = ["register_forward_pre_hook", "register_forward_hook", "register_full_backward_hook",
            "register_full_backward_pre_hook"]  # fmt: skip


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("kind", REGISTER)
def test_hooks_in_front_run_first(kind: str, traced: bool) -> None:
    module, order = nn.Linear(1, 1), list[str]()
    for name, prepend in (("a", False), ("b", True), ("c", False), ("d", True)):
        getattr(module, kind)(lambda *_, name=name: order.append(name), prepend=prepend)
    call = jit.trace(module) if traced else module
    call(jit.ones(1, 1, requires_grad=True)).sum().backward()
    assert order == ["d", "b", "a", "c"]


@pytest.mark.parametrize("kind", REGISTER)
def test_a_hook_in_front_can_be_removed(kind: str) -> None:
    module, order = nn.Linear(1, 1), list[str]()
    register = getattr(module, kind)
    last = register(lambda *_: order.append("last"))
    first = register(lambda *_: order.append("first"), prepend=True)
    first.remove()
    register(lambda *_: order.append("new"), prepend=True)
    module(jit.ones(1, 1, requires_grad=True)).sum().backward()
    last.remove()
    module(jit.ones(1, 1, requires_grad=True)).sum().backward()
    assert order == ["new", "last", "new"]


def test_replacements_follow_the_order() -> None:
    module = nn.Identity()
    module.register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: out + 1, prepend=True)
    module.register_forward_pre_hook(lambda m, args: args[0] * 10)
    module.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] - 1,), {}), prepend=True, with_kwargs=True)
    assert module(jit.tensor(3.0)).item() == ((3 - 1) * 10 + 1) * 2


class Failing(nn.Module):
    def forward(self, x: Any) -> Any:
        raise KeyError("forward")


@pytest.mark.parametrize("everywhere", [False, True])
def test_what_always_runs_runs_after_an_error(everywhere: bool) -> None:
    module, seen = Failing(), list[Any]()
    module.register_forward_hook(lambda *_: seen.append("never"))
    if everywhere:
        register = nn.register_module_forward_hook
    else:
        register = module.register_forward_hook
    with (
        register(lambda m, args, out: seen.append((args, out)), always_call=True),
        register(lambda m, args, kwargs, out: seen.append((kwargs, out)), with_kwargs=True, always_call=True),
        pytest.raises(KeyError, match="forward"),
    ):
        module(1)
    assert seen == [((1,), None), ({}, None)]


def test_what_always_runs_runs_once() -> None:
    """A hook that has run before another one raised does not run again, and sees the result."""
    module, seen = nn.Identity(), list[Any]()
    module.register_forward_hook(lambda m, args, out: seen.append(("before", out)), always_call=True)

    def broken(*_: Any) -> None:
        raise ValueError("a hook")

    module.register_forward_hook(broken)
    module.register_forward_hook(lambda m, args, out: seen.append(("after", out)), always_call=True)
    with pytest.raises(ValueError, match="a hook"):
        module(7)
    assert seen == [("before", 7), ("after", 7)]


def test_errors_of_what_always_runs_do_not_hide_the_first_one() -> None:
    module = Failing()

    def broken(*_: Any) -> None:
        raise ValueError("a hook")

    module.register_forward_hook(broken, always_call=True)
    with pytest.warns(UserWarning, match="ValueError.*a hook"), pytest.raises(KeyError, match="forward"):
        module(1)


def test_a_pre_hook_with_keywords_returns_a_pair() -> None:
    module = nn.Identity()
    module.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(jit.Error, match=r"returns None or \(args, kwargs\)"):
        module(jit.ones(1))


def test_backward_hooks_without_an_argument_that_requires_a_gradient_are_told() -> None:
    module, seen = nn.Linear(1, 1), list[Any]()
    module.register_full_backward_hook(lambda m, by_input, by_output: seen.append(by_input))
    with pytest.warns(UserWarning, match="requires a gradient"):
        module(jit.ones(1, 1)).sum().backward()
    assert seen == [(None,)]
