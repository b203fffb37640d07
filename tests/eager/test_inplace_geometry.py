"""`t_`, `squeeze_` and their like change the object itself: memory, history and recordings follow."""

from typing import Any

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


def test_views_taken_before_follow_the_memory() -> None:
    x = (jit.arange(6.0).reshape(2, 3) + 0).requires_grad_() * 1
    row, flat = x[0], x.view(-1)
    x.t_()
    flat.mul_(2)
    x.mul_(3)
    row.add_(1)
    assert row.requires_grad and tuple(x.shape) == (3, 2)
    assert flat.tolist() == [1, 7, 13, 18, 24, 30]
    leaf, weights = jit.ones(2, 3, requires_grad=True), jit.arange(6.0).reshape(3, 2)
    y = leaf * 2
    first = y[0]
    y.t_()
    first.mul_(10)
    (y * weights).sum().backward()
    assert leaf.grad.tolist() == [[0, 40, 80], [2, 6, 10]]


def test_a_plain_view_follows_a_history_that_its_base_gets_later() -> None:
    x, w = jit.ones(2, 3), jit.tensor(2.0, requires_grad=True)
    row = x[0]
    x.t_()
    x.mul_(w)
    assert row.requires_grad
    (gradient,) = jit.grad((row * jit.arange(3.0)).sum(), w)
    assert gradient.item() == 3


def test_a_leaf_stays_one_under_no_grad() -> None:
    w = jit.nn.Parameter(jit.arange(6.0).reshape(2, 3))
    with jit.no_grad():
        w.t_()
    assert type(w) is jit.nn.Parameter and w.is_leaf and w.requires_grad
    (w[0] * 2).sum().backward()
    assert w.grad.tolist() == [[2, 2], [0, 0], [0, 0]]


@pytest.mark.parametrize("sizes", [(2**62, 2**62), (0, 4, 2**61), (2**61, 4, 0), (2**62, 1)])
@pytest.mark.parametrize("start", [(), (0,), (3,)])
def test_sizes_beyond_any_memory_are_refused(sizes, start) -> None:
    t = jit.ones(start, dtype=jit.float64)
    with pytest.raises(jit.ShapeError, match="larger than any memory"):
        t.resize_(sizes)
    assert t.shape == start


@pytest.mark.parametrize("kind", [tuple, list])
def test_several_results_are_written_into_several_tensors(kind) -> None:
    x = jit.arange(8.0).reshape(4, 2)
    split: Any
    for split in (jit.split_copy, jit.split_with_sizes_copy, jit.unbind_copy):
        arguments: Any = {jit.split_copy: (x, 2), jit.split_with_sizes_copy: (x, [1, 3]), jit.unbind_copy: (x, 1)}[
            split
        ]
        expected = split(*arguments)
        out = kind(jit.empty(part.shape) for part in expected)
        made = split(*arguments, out=out)
        assert all(jit.equal(a, b) and a is c for a, b, c in zip(out, expected, made, strict=True))
