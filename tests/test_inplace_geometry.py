"""`t_`, `squeeze_` and their like change the object itself: memory, history and recordings follow."""

import pytest

import jit


def test_the_object_becomes_the_view() -> None:
    base = jit.zeros(2, 1, 3)
    view = base[0]
    assert view.squeeze_(0) is view
    view.add_(1)
    assert tuple(view.shape) == (3,)
    assert base.tolist() == [[[1, 1, 1]], [[0, 0, 0]]]


def test_gradients_flow_through() -> None:
    x = jit.ones(2, 3, requires_grad=True)
    y = x * 2
    y.t_()
    (y * jit.arange(6.0).reshape(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0, 4, 8], [2, 6, 10]]


def test_recorded_as_the_view() -> None:
    def f(x):
        y = x * 2
        y.unsqueeze_(0).transpose_(0, 2)
        y.add_(1)
        return y

    traced, x = jit.trace(f), jit.arange(6.0).reshape(2, 3)
    for _ in range(2):
        assert traced(x).tolist() == f(x).tolist()
    assert (traced.misses, traced.hits) == (1, 1)


def test_leaves_are_refused() -> None:
    x = jit.ones(2, 3, requires_grad=True)
    with pytest.raises(jit.AutogradError, match="leaf that requires grad"):
        x.t_()
