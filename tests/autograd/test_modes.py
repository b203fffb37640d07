"""Grad modes on generators and coroutines, inference tensors, views taken where derivatives are not recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import jit

MODES: list[tuple[Callable[[], Any], bool]] = [
    (jit.no_grad, False), (jit.enable_grad, True), (lambda: jit.set_grad_enabled(False), False),
    (jit.inference_mode, False), (lambda: jit.inference_mode(False), True),
]  # fmt: skip


def leaf(*sizes: int) -> Any:
    return jit.ones(sizes, requires_grad=True)


# -- generators and coroutines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize(("mode", "inside"), MODES)
def test_each_step_of_a_generator_runs_in_its_mode(mode: Any, inside: bool, outside: bool):
    def steps() -> Any:
        """Three."""
        got = yield jit.is_grad_enabled()
        try:
            yield got, jit.is_grad_enabled()
        except KeyError:
            yield "caught", jit.is_grad_enabled()
        return jit.is_grad_enabled()

    decorated = mode()(steps)
    assert decorated.__doc__ == "Three."
    with jit.set_grad_enabled(outside):
        running = decorated()
        assert next(running) is inside and jit.is_grad_enabled() is outside
        assert running.send(7) == (7, inside) and jit.is_grad_enabled() is outside
        assert running.throw(KeyError()) == ("caught", inside) and jit.is_grad_enabled() is outside
        with pytest.raises(StopIteration) as end:
            next(running)
        assert end.value.value is inside and jit.is_grad_enabled() is outside


def test_a_generator_is_closed_in_its_mode():
    seen = []

    @jit.no_grad()
    def steps() -> Any:
        try:
            yield 1
        finally:
            seen.append(jit.is_grad_enabled())

    running = steps()
    next(running)
    running.close()
    assert seen == [False] and jit.is_grad_enabled()


def test_what_a_generator_raises_leaves_the_mode_behind():
    @jit.no_grad()
    def steps() -> Any:
        yield 1
        raise ZeroDivisionError

    running = steps()
    next(running)
    with pytest.raises(ZeroDivisionError):
        next(running)
    assert jit.is_grad_enabled()


def test_two_generators_of_one_decorator_do_not_mix():
    @jit.no_grad()
    def steps() -> Any:
        for _ in range(3):
            yield jit.is_grad_enabled()

    first, second = steps(), steps()
    assert [next(first), next(second), next(first), next(second)] == [False] * 4 and jit.is_grad_enabled()


@pytest.mark.parametrize(("mode", "inside"), MODES)
def test_a_coroutine_runs_in_its_mode_and_the_others_do_not(mode: Any, inside: bool):
    seen: list[bool] = []

    @mode()
    async def work() -> bool:
        before = jit.is_grad_enabled()
        await asyncio.sleep(0)
        return before and jit.is_grad_enabled()

    async def watch() -> None:
        for _ in range(3):
            seen.append(jit.is_grad_enabled())
            await asyncio.sleep(0)

    async def both() -> Any:
        return (await asyncio.gather(work(), watch()))[0]

    assert asyncio.run(both()) is inside and seen == [True] * 3


# -- inference tensors -------------------------------------------------------------------------------------------


def made() -> Any:
    with jit.inference_mode():
        return jit.ones(2)


WRITES = {
    "add_": lambda t: t.add_(1), "setitem": lambda t: t.__setitem__(0, 2.0), "zero_": lambda t: t.zero_(),
    "copy_": lambda t: t.copy_(jit.zeros(2)), "unsqueeze_": lambda t: t.unsqueeze_(0), "normal_": lambda t: t.normal_(),
    "a view's": lambda t: t[:1].mul_(3), "out": lambda t: jit.add(jit.ones(2), 1, out=t),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_inference_tensors_are_written_to_inside_alone(write: str):
    tensor = made()
    with pytest.raises(jit.AutogradError, match="inference tensor"):
        WRITES[write](tensor)
    assert tensor.tolist() == [1, 1]
    with jit.inference_mode():
        WRITES[write](tensor)
    WRITES[write](made().clone())


def test_inference_tensors_that_require_grad_are_resized_and_others_are_not():
    with jit.inference_mode():
        t = jit.ones(1, 2, 3, requires_grad=True)
        assert t.resize_(1, 2) is t and t.shape == (1, 2) and t.requires_grad and t.is_inference()
        assert t.resize_as_(jit.ones(3)).shape == (3,)
    for mode in (jit.no_grad, jit.enable_grad):
        with mode(), pytest.raises(jit.AutogradError, match="cannot be resized"):
            jit.ones(2, requires_grad=True).resize_(3)


def test_what_an_inference_tensor_is():
    x = leaf(2)
    with jit.inference_mode():
        assert jit.is_inference_mode_enabled()
        inside, view_of_normal = x * 2, x.view(2)
        with jit.inference_mode(False):
            assert not jit.is_inference_mode_enabled() and not (x * 2).is_inference()
    assert not jit.is_inference_mode_enabled()
    assert inside.is_inference() and inside.view(2).is_inference() and not view_of_normal.is_inference()
    assert not (inside + 1).is_inference() and not inside.clone().is_inference()
    with pytest.raises(jit.UsageError, match="inference tensors"):
        inside._version  # noqa: B018
    with pytest.raises(jit.UsageError, match="require gradients"):
        inside.requires_grad_()


def test_inference_tensors_are_computed_with_but_not_saved():
    x, tensor = leaf(2), made()
    (x + tensor).sum().backward()  # needs no element of it
    assert x.grad.tolist() == [1, 1]
    for compute in (lambda: x * tensor, lambda: tensor / x, lambda: jit.where(tensor > 0, x * tensor, x)):
        with pytest.raises(jit.AutogradError, match="saved for backward"):
            compute()


def test_other_threads_are_not_in_inference_mode():
    seen: list[bool] = []
    with jit.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(jit.ones(1).is_inference()))
        thread.start()
        thread.join()
    assert seen == [False]


# -- views taken where derivatives are not recorded ----------------------------------------------------------------

VIEWS = {
    "view": lambda t: t.view(2), "slice": lambda t: t[:1], "select": lambda t: t[0], "unbind": lambda t: t.unbind()[0],
    "view of a view": lambda t: t.view(2)[:1],
}  # fmt: skip


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_views_from_without_grad_are_not_written_to_with_it(view: str, tracked: bool, inference: bool):
    base = leaf(2) * 1 if tracked else jit.ones(2)
    with jit.inference_mode() if inference else jit.no_grad():
        part = VIEWS[view](base)
    with pytest.raises(jit.AutogradError, match="view that was taken under no_grad"):
        part.mul_(leaf(*part.shape))
    with pytest.raises(jit.AutogradError, match="view that was taken under no_grad"):
        part.view(part.shape).mul_(leaf(*part.shape))
    with jit.no_grad():
        part.mul_(2)  # no derivative is recorded
    assert base.tolist()[0] == 2
    VIEWS[view](base).mul_(leaf(*part.shape))  # a view taken where derivatives are recorded


@pytest.mark.parametrize("mode", [jit.no_grad, jit.inference_mode])
def test_views_from_without_grad_of_what_has_a_history(mode: Any):
    base = leaf(2) * 1
    with mode():
        part = base.view(2)
    assert not part.requires_grad and not (part * 2).requires_grad
    for write in (lambda: part.add_(1), lambda: part.transpose_(0, 0), lambda: part.zero_()):
        with pytest.raises(jit.AutogradError, match="view that was taken under no_grad"):
            write()
    assert base.tolist() == [1, 1]
    base.mul_(3)
    assert part.requires_grad and part.tolist() == [3, 3]
    for use in (lambda: part.grad_fn, lambda: part * 2):
        with pytest.raises(jit.AutogradError, match="taken under no_grad"):
            use()
    assert part.detach().tolist() == [3, 3]
    with jit.no_grad():
        assert (part * 2).tolist() == [6, 6]


def test_views_out_of_custom_functions_are_not_written_to():
    class Half(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:1]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return jit.cat([g, jit.zeros(1)])

    x = leaf(2)
    part = Half.apply(x * 1)
    with pytest.raises(jit.AutogradError, match="of HalfBackward"):
        part.mul_(2)
    Half.apply(x * 1).sum().backward()
    assert x.grad.tolist() == [1, 0]
