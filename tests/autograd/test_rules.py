"""What autograd allows and refuses: second backwards, hooks, made-up gradients, copies; which gradients NaNs get."""

from __future__ import annotations

import copy
import math
import threading
import warnings
from typing import Any

import pytest

import jit
from jit.autograd import graph

NAN = math.nan


def leaf(*values: float) -> Any:
    return jit.tensor(list(values), dtype=jit.float32, requires_grad=True)


# -- a second backward -------------------------------------------------------------------------------------------

SAVES_NOTHING = {
    "add": lambda x: x + 1, "sub": lambda x: 2 - x, "neg": lambda x: -x, "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(), "transpose": lambda x: x.view(3, 1).t(), "slice": lambda x: x[1:],
    "cat": lambda x: jit.cat([x, x]), "expand": lambda x: x.expand(2, 3), "clone": lambda x: x.clone(),
}  # fmt: skip
SAVES = {
    "mul": lambda x: x * x, "by a number": lambda x: x * 2, "exp": lambda x: x.exp(), "relu": lambda x: x.relu(),
    "max": lambda x: x.max(), "where": lambda x: jit.where(x > 1, x, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", SAVES_NOTHING)
def test_a_backward_that_saved_nothing_runs_again(name: str):
    x = leaf(1, 2, 3)
    y = SAVES_NOTHING[name](x)
    y.backward(jit.ones_like(y))
    once = x.grad.clone()
    y.backward(jit.ones_like(y))
    assert x.grad.tolist() == (2 * once).tolist()


@pytest.mark.parametrize("name", SAVES)
def test_a_backward_that_saved_elements_does_not(name: str):
    x = leaf(1, 2, 3)
    y = SAVES[name](x)
    y.backward(jit.ones_like(y))
    with pytest.raises(jit.AutogradError, match="retain_graph"):
        y.backward(jit.ones_like(y))


def test_parts_are_differentiated_one_by_one():
    x = leaf(1, 2, 3, 4)
    for parts in (x.unbind(), x.split(2), x.chunk(2)):
        x.grad = None
        for part in parts:
            part.sum().backward()
        assert x.grad.tolist() == [1] * 4


def to_list(seen: list[Any]) -> Any:
    return lambda gradient: seen.append(gradient.tolist())


# -- hooks -------------------------------------------------------------------------------------------------------


def test_a_pack_hook_must_not_write():
    def pack(tensor: Any) -> Any:
        return tensor.mul_(2)

    def copying(tensor: Any) -> Any:
        return tensor.clone().mul_(2)

    for compute in (lambda x: x * x, lambda x: x.exp(), lambda x: x.sin()):
        with pytest.raises(jit.AutogradError, match="pack hook has written"):  # noqa: SIM117
            with graph.saved_tensors_hooks(pack, lambda t: t):
                compute(leaf(1, 2) * 1)
        with graph.saved_tensors_hooks(copying, lambda t: t):
            compute(leaf(1, 2) * 1)


def test_the_first_gradient_that_comes():
    x, w = leaf(1), leaf(2)
    seen: list[Any] = []
    graph.register_multi_grad_hook((x, w), to_list(seen), mode="any")
    (x * 3).sum().backward()
    (x * 5 + w * 5).sum().backward()
    assert seen == [[3], [5]]
    with pytest.raises(jit.UsageError, match="mode"):
        graph.register_multi_grad_hook((x,), seen.append, mode="some")


def test_hooks_of_several_tensors_in_backwards_of_several_threads():
    x, w = leaf(1, 2), leaf(3, 4)
    seen: list[Any] = []
    graph.register_multi_grad_hook((x, w), lambda grads: seen.append([g.tolist() for g in grads if g is not None]))
    outputs = [(x * i + w * 10 * i).sum() for i in range(1, 6)]
    threads = [threading.Thread(target=y.backward) for y in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [[[i, i], [10 * i, 10 * i]] for i in range(1, 6)]


def test_a_hook_hears_of_outputs_without_a_gradient():
    seen: list[Any] = []
    first, second = leaf(1, 2).unbind()
    first.register_hook(lambda g: seen.append(None if g is None else g.item()))
    first.backward()
    second.backward()
    assert seen == [1, None]


# -- what is refused ---------------------------------------------------------------------------------------------


def test_misuses_are_refused():
    x = leaf(1)
    with pytest.raises(jit.AutogradError, match="a complex output needs a gradient"):
        (x * 1j).sum().backward()
    (x * 1j).sum().backward(jit.tensor(1 + 0j))
    with pytest.raises(jit.UsageError, match="inputs"):
        (x * 2).backward(inputs=[])
    with pytest.raises(jit.UsageError, match="floating point"):
        x.data = jit.tensor([1])
    with pytest.raises(jit.UsageError, match="numpy"):
        x.numpy()
    with jit.no_grad():
        assert x.numpy().tolist() == [1]


def test_undefined_methods_of_functions_are_no_implementations():
    class Nothing(jit.autograd.Function):
        pass

    class Forward(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(leaf(1))
    with pytest.raises(NotImplementedError, match="backward"):
        Forward.apply(leaf(1)).backward()


def test_the_gradient_of_what_is_no_leaf_is_warned_of():
    x = leaf(1, 2)
    y: Any = x * 2
    with pytest.warns(UserWarning, match="no leaf"):
        assert [y.grad] == [None]
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [x.grad, y.grad, jit.ones(1).grad] == [None] * 3
        y.sum().backward()
        assert jit.equal(y.grad, jit.ones(2))


def test_made_up_zeros_can_be_differentiated():
    x, w = leaf(1), leaf(2)
    (zeros,) = jit.grad((w * w).sum(), x, create_graph=True, materialize_grads=True)
    assert zeros.tolist() == [0] and zeros.requires_grad
    assert jit.grad(zeros, x, materialize_grads=True)[0].tolist() == [0]


def test_deep_copies_keep_the_gradient():
    x = leaf(1, 2)
    (x * 3).sum().backward()
    made = copy.deepcopy([x, x])
    assert made[0] is made[1] and made[0].grad.tolist() == [3, 3] and made[0].grad is not x.grad
    made[0].grad.add_(1)
    assert x.grad.tolist() == [3, 3] and copy.deepcopy(leaf(1)).grad is None


# -- gradients of NaN and of nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max", "min", "median"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [([NAN, NAN], [0.5, 0.5]), ([1, NAN], [0, 1]), ([NAN, 1, NAN], [0.5, 0, 0.5]), ([2, 2], None)],
)
def test_nan_elements_share_the_gradient_of_an_extremum(name: str, values: list[float], expected: Any):
    x = leaf(*values)
    y = getattr(x, name)()
    y.backward()
    assert x.grad.tolist() == (expected or [0.5, 0.5])
    traced = jit.trace(lambda x: getattr(x, name)())
    for _ in range(2):
        again = leaf(*values)
        traced(again).backward()
        assert again.grad.tolist() == x.grad.tolist()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 0.0], [0.0, 0.0], ([0, 0], [1e8, 0])), ([0.0, 0.0], [0.0, 0.0], ([0, 0], [0, 0])),
        ([3.0, 4.0], [4.0, 3.0], ([0.0448, -0.0336], [-0.0336, 0.0448])),
    ],
)  # fmt: skip
def test_cosines_of_short_vectors(first: Any, second: Any, expected: Any):
    a, b = leaf(*first), leaf(*second)
    jit.nn.functional.cosine_similarity(a, b, dim=0).backward()
    assert a.grad.tolist() == pytest.approx(expected[0], rel=1e-4)
    assert b.grad.tolist() == pytest.approx(expected[1], rel=1e-4)


# -- traced --------------------------------------------------------------------------------------------------------


def test_a_recording_knows_what_its_own_backward_has_freed():
    w = leaf(1, 2)

    def body(x: Any) -> Any:
        y = (x * w).sum()  # the sum saves nothing, the product does
        y.backward()
        return y

    for f in (body, jit.trace(body)):
        for _ in range(3):
            w.grad = None
            y = f(jit.ones(2))
            assert jit.equal(w.grad, jit.ones(2))
            with pytest.raises(jit.AutogradError):
                y.backward()


def test_a_recording_of_a_freed_input_serves_others():
    f = jit.trace(lambda x: (x * x).sum())
    freed = leaf(1, 2).sin()
    freed.sum().backward()
    with pytest.raises(jit.AutogradError):
        f(freed).backward()
    for _ in range(3):
        w = leaf(1, 2)
        f(w.exp()).backward()
        assert w.grad.tolist() == pytest.approx([2 * math.exp(2), 2 * math.exp(4)], rel=1e-5)
