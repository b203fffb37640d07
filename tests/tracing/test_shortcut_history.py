"""Traced calls that go the short way and whose gradient is asked for: the history is that of the long way."""

from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.plans import entry

pytestmark = [pytest.mark.llvm, pytest.mark.skipif(not entry.available(), reason="native calls are not available")]


def leaf(*numbers: float) -> Any:
    return jit.tensor(numbers or (0.5, -1.0, 2.0), dtype=jit.float32).requires_grad_()


def backward(result: Any, **options: Any) -> None:
    many = [result] if isinstance(result, jit.Tensor) else jit.eager.pytree.flatten(result)[0]
    wanted = [r for r in many if r.requires_grad]
    jit.autograd.backward(wanted, [jit.ones_like(r) for r in wanted], **options)


def warmed(function: Any, *args: Any) -> Any:
    """The function, traced, with its backward compiled and a shortcut for these arguments."""
    traced = jit.trace(function)
    for _ in range(4):
        backward(traced(*args), retain_graph=True)
    short, _ = traced._shortcuts.kept[0]
    assert short(*args) is not None
    for tensor in jit.eager.pytree.flatten(args)[0]:
        tensor.grad = None
    return traced


def taken(traced: Any, *args: Any) -> Any:
    """The result of a call that has gone the short way."""
    result = traced._shortcuts.kept[0][0](*args)
    assert result is not None
    return result


def gradients(result: Any, *tensors: Any) -> list[Any]:
    for tensor in tensors:
        tensor.grad = None
    backward(result)
    return [None if t.grad is None else t.grad.tolist() for t in tensors]


FUNCTIONS = {
    "one": lambda x, y: jit.tanh(x * y) + x,
    "several": lambda x, y: (jit.sigmoid(x) * y, x.exp()),
    "nested": lambda x, y: {"a": [x * y], "b": x.detach() * 2},
    "alone in a list": lambda x, y: [x * y],
    "beside what is no tensor": lambda x, y: (True, x * y),
    "unused": lambda x, y: x.sin() * 3,
    "sum": lambda x, y: (x * y).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("other", [lambda: jit.tensor([1.0, 2.0, 3.0]), lambda: leaf(1, 2, 3)])
def test_gradients_are_those_of_eager_mode(name: str, other: Any) -> None:
    function = FUNCTIONS[name]
    x, y = leaf(), other()
    f = warmed(function, x, y)
    found, expected = gradients(taken(f, x, y), x, y), gradients(function(x, y), x, y)
    assert [None if g is None else pytest.approx(g, rel=1e-6) for g in expected] == found
    flags = [t.requires_grad for t in jit.eager.pytree.flatten(taken(f, x, y))[0]]
    assert flags == [t.requires_grad for t in jit.eager.pytree.flatten(function(x, y))[0]]


def test_an_argument_with_a_history_of_its_own() -> None:
    x = leaf()
    f = warmed(lambda h: h.exp() * 2, x * 3)
    result = taken(f, x * 3)
    assert gradients(result, x)[0] == pytest.approx((6 * np.exp(3 * x.detach().numpy())).tolist(), rel=1e-6)
    assert f._shortcuts.kept[0][0](leaf()) is None  # a leaf is another thing
    assert f(x.detach()).requires_grad is False


def test_what_a_module_holds() -> None:
    net = jit.nn.Linear(3, 2)
    x = jit.randn(4, 3)
    f = warmed(lambda x: jit.relu(net(x)), x)
    net.zero_grad()
    backward(taken(f, x))
    found = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    backward(jit.relu(net(x)))
    for one, p in zip(found, net.parameters(), strict=True):
        np.testing.assert_allclose(one.numpy(), p.grad.numpy(), rtol=1e-5)
    with jit.no_grad():
        net.weight.mul_(2)
    np.testing.assert_allclose(f(x).detach().numpy(), jit.relu(net(x)).detach().numpy(), rtol=1e-5)


def test_changed_arguments_are_noticed() -> None:
    x, y = leaf(), jit.tensor([1.0, 2.0, 3.0])
    f = warmed(lambda x, y: x * y, x, y)
    result = taken(f, x, y)
    y.add_(1)
    with pytest.raises(jit.AutogradError, match="changed by an in-place operation"):
        backward(result)
    assert gradients(taken(f, x, y), x) == [[2, 3, 4]]


def test_a_result_that_was_written_to_is_computed_again() -> None:
    x = leaf()
    f = warmed(lambda x: jit.sigmoid(x) + 0, x)
    expected = gradients(jit.sigmoid(x), x)
    result = taken(f, x)
    result.detach().zero_()
    assert gradients(result, x)[0] == pytest.approx(expected[0], rel=1e-6)


def test_a_second_backward() -> None:
    x = leaf()
    f = warmed(lambda x: x * x, x)
    result = taken(f, x)
    backward(result, retain_graph=True)
    backward(result)
    assert x.grad.tolist() == (4 * x).tolist()
    with pytest.raises(jit.AutogradError, match="second time"):
        backward(result)


def test_derivatives_of_derivatives_after_a_short_call() -> None:
    x = leaf()
    f = warmed(lambda x: x * x * x, x)
    for _ in range(3):
        (first,) = jit.grad(f(x).sum(), [x], create_graph=True)
        (second,) = jit.grad(first.sum(), [x])
        np.testing.assert_allclose(first.detach().numpy(), 3 * x.detach().numpy() ** 2, rtol=1e-6)
        np.testing.assert_allclose(second.numpy(), 6 * x.detach().numpy(), rtol=1e-6)


def test_a_backward_that_is_recorded_later_makes_another_shortcut() -> None:
    x = leaf()
    f = jit.trace(lambda x: x.exp() * x)
    first = [f(x) for _ in range(4)]
    (old, _), *_ = f._shortcuts.kept
    assert old(x) is not None
    expected = gradients(x.exp() * x, x)[0]
    for result in first:
        assert gradients(result, x)[0] == pytest.approx(expected, rel=1e-6)
    assert old(x) is None and f._shortcuts.kept[0][0] is old
    for result in (f(x), taken(f, x)):
        assert gradients(result, x)[0] == pytest.approx(expected, rel=1e-6)
    assert f.misses == 1 and f._shortcuts.kept[0][0] is not old


def test_hooks_on_what_is_saved_see_what_eager_mode_saves() -> None:
    seen: list[Any] = []

    def pack(tensor: Any) -> Any:
        seen.append(tensor)
        return tensor

    x = leaf()
    f = warmed(lambda x: x * x, x)
    with jit.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = f(x)
    assert seen and gradients(result, x) == [(2 * x).tolist()]


def test_a_view_whose_base_gets_a_history() -> None:
    base, weight = jit.ones(4), leaf(1, 2, 3, 4)
    view = base[:2]
    f = jit.trace(lambda x: x * 2)
    for _ in range(4):
        f(view)
    assert f._shortcuts.kept and f._shortcuts.kept[0][0](view) is not None
    base.mul_(weight)
    assert f._shortcuts.kept[0][0](view) is None
    assert gradients(f(view), weight) == [[2, 2, 0, 0]]


def test_sizes_that_vary() -> None:
    f = jit.trace(lambda x: (x * x).sum())
    for _ in range(3):
        for n in (2, 3, 4, 5):
            x = leaf(*range(n))
            assert gradients(f(x), x) == [[2.0 * i for i in range(n)]]


def test_grad_mode_and_flags() -> None:
    x = leaf()
    f = warmed(lambda x: x * 2, x)
    with jit.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad
    x.requires_grad_(False)
    assert not f(x).requires_grad
