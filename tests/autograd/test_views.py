"""In-place operations on views: bases with rebased histories, views that follow, gradients asked for in part."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import jit
from tests.tolerances import assert_close


def leaf(*shape: int) -> Any:
    """A float64 leaf that counts."""
    array = np.arange(1, np.prod(shape) + 1, dtype=np.float64).reshape(shape) / 3
    return jit.tensor(array, requires_grad=True)


def test_writing_through_a_view_changes_the_history_of_the_base():
    a, w = leaf(2, 3), leaf(3)
    b = a * 2
    v = b[0]
    v.mul_(w)
    assert b.grad_fn.name == "CopySlices"
    (b * b).sum().backward()
    x, y = a.detach().numpy(), w.detach().numpy()
    assert_close(a.grad, np.stack([8 * x[0] * y * y, 8 * x[1]]))
    assert_close(w.grad, 8 * x[0] * x[0] * y)


def test_other_views_follow_the_base():
    a = leaf(4)
    b = a * 1
    before, row = b[1:3], b[:2]
    row.mul_(10)
    before.sum().backward()
    assert a.grad.tolist() == [0, 10, 1, 0]


def test_a_view_follows_a_write_to_its_base():
    a = leaf(4)
    b = a * 1
    v = b[1:3]
    b.mul_(a.detach())
    assert v.grad_fn.name == "SliceBackward0"
    v.sum().backward()
    assert_close(a.grad, np.array([0, 2 / 3, 1, 0]))


def test_views_of_views():
    a, w = leaf(2, 3, 2), leaf(2)
    b = a * 1
    b[0].t()[1, 1:].mul_(w)
    b.sum().backward()
    assert_close(a.grad[0].t()[1, 1:], w.detach())
    assert a.grad.sum().item() == pytest.approx(10 + w.sum().item())
    assert_close(w.grad, a.detach()[0].t()[1, 1:])


def test_a_write_makes_the_base_require_grad():
    base = jit.zeros(2, 3, dtype=jit.float64)
    w = leaf(3)
    base[1].copy_(w * 2)
    assert base.requires_grad and not base.is_leaf
    base.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_setitem_and_masks():
    a, w = leaf(2, 3), leaf(2)
    b = a * 1
    b[:, 1] = w
    b[b > 1.5] = 0
    b[0, 0] = 7
    kept = b.detach().numpy().copy()
    b.sum().backward()
    expected = np.ones((2, 3))
    expected[:, 1] = 0
    expected[kept == 0] = 0
    expected[0, 0] = 0
    assert_close(a.grad, expected)
    assert w.grad.tolist() == [1.0, 1.0]


def test_overlapping_addition():
    a = leaf(4)
    b = a * 1
    b[1:] += b[:-1]
    expected = np.arange(1, 5) / 3
    expected[1:] = expected[1:] + expected[:-1]
    assert_close(b.detach(), expected)
    b.sum().backward()
    assert a.grad.tolist() == [2, 2, 2, 1]


def test_only_expanded_memory_is_refused():
    with pytest.raises(jit.ShapeError, match="clone"):
        jit.ones(2).expand(3, 2).add_(1)
    with pytest.raises(jit.AutogradError, match="read-only"):
        array = np.ones(2, np.float32)
        array.flags.writeable = False
        jit.from_numpy(array).add_(1)


def test_detached_views_share_the_version():
    a = leaf(3)
    b = a * 1
    c = b.detach()
    version = b._version
    c[0] = 5
    assert b._version == version + 1 and b.tolist()[0] == 5 and not c.requires_grad


def test_outputs_that_share_memory_follow_each_other():
    a = leaf(6)
    b = a * 1
    first, second = b.view(2, 3).unbind(0)
    first.mul_(2)
    second.mul_(3)
    b.sum().backward()
    assert a.grad.tolist() == [2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("wanted", [w for w in product([False, True], repeat=3) if any(w)])
def test_copy_slices_under_every_subset_of_requested_gradients(wanted):
    """b[0] *= w, then b[:, 1] += c: gradients of a, w and c, as many as are asked for."""

    def loss(a, w, c):
        b = a * 1
        b[0].mul_(w)
        b[:, 1].add_(c)
        return (b * b).sum()

    inputs = (leaf(2, 3), leaf(3), leaf(2))
    everything = jit.grad(loss(*inputs), inputs)
    chosen = [t for t, want in zip(inputs, wanted, strict=True) if want]
    some = jit.grad(loss(*inputs), chosen)
    for found, expected in zip(some, [g for g, want in zip(everything, wanted, strict=True) if want], strict=True):
        assert found.tolist() == expected.tolist()
    frozen = [t if want else t.detach() for t, want in zip(inputs, wanted, strict=True)]
    partly = jit.grad(loss(*frozen), chosen)
    assert [g.tolist() for g in partly] == [g.tolist() for g in some]


def mutate_rows(a, w):
    b = a * 1
    b[0].mul_(w)
    b.t()[1].add_(w[:2])
    return b


def mutate_strided(a, w):
    b = (a * 1).t()
    b[::2].mul_(w[0])
    b.narrow(0, 1, 2)[:, 0].copy_(w[1:] * a[0, 0])
    return b, b.sum()


def mutate_view_op(a, w):
    b = a * 1
    b.view(3, 2)[1:].view(-1)[1:].mul_(w)
    return b.exp()


def mutate_and_use_the_view(a, w):
    b = a * w
    v = b[1]
    v.add_(w)
    v.mul_(v.clone())
    return b, v.sin()


@pytest.mark.parametrize("function", [mutate_rows, mutate_strided, mutate_view_op, mutate_and_use_the_view])
def test_first_and_second_derivatives_of_writes_through_views(function):
    inputs = (leaf(2, 3), leaf(3))
    assert jit.autograd.gradcheck(function, inputs)
    assert jit.autograd.gradgradcheck(function, inputs)


def test_saved_outputs_survive_writes_elsewhere():
    a = leaf(4)
    b = (a * 1).view(2, 2)
    first, second = b[0].exp(), b[1]
    second.mul_(2)
    first.sum().backward()
    assert_close(a.grad, np.concatenate([np.exp(a.detach().numpy()[:2]), [0, 0]]))


def test_writes_that_spoil_a_saved_view_are_noticed():
    a = leaf(4)
    b = a * 1
    loss = (b[:2] * b[2:]).sum()
    b[3] = 0
    with pytest.raises(jit.AutogradError, match="changed by an in-place"):
        loss.backward()


def test_as_strided_has_first_and_second_derivatives():
    def window(a):
        return (a * a).as_strided((2, 2), (2, 1), 1)

    assert jit.autograd.gradcheck(window, (leaf(5),))
    assert jit.autograd.gradgradcheck(window, (leaf(5),))


@pytest.mark.parametrize("take, weights", [
    (lambda t: t.unfold(0, 2, 1), [1, 2, 2, 1]),
    (lambda t: t.expand(3, 4), [3, 3, 3, 3]),
    (lambda t: t.view(2, 2)[1].expand(2, 2), [0, 0, 2, 2]),
    (lambda t: t.as_strided((3, 2), (1, 1)), [1, 2, 2, 1]),
])  # fmt: skip
@pytest.mark.parametrize("traced", [False, True])
def test_views_that_show_elements_several_times_follow_a_write_to_their_base(take, weights, traced):
    def f(x: Any) -> Any:
        base = x * 1
        view = take(base)
        base.mul_(3)
        return view.sum()

    function = jit.trace(f) if traced else f
    for _ in range(2 if traced else 1):
        x = leaf(4)
        function(x).backward()
        assert x.grad.tolist() == [3 * w for w in weights]
    assert jit.autograd.gradgradcheck(lambda x: f(x.sin()), (leaf(4),))


def test_an_output_that_no_derivative_looks_at_may_be_overwritten():
    x = jit.tensor([[1.0, 5.0], [3.0, 2.0]], requires_grad=True)
    values, indices = (x * 1).max(0)
    values.mul_(2)
    values.sum().backward()
    assert x.grad.tolist() == [[0, 2], [2, 0]]
    values, indices = (x * 1).max(0)
    indices.add_(1)
    with pytest.raises(jit.AutogradError, match=r"output 1 of MaxBackward0 .*test_views.py.*test_views.py"):
        values.sum().backward()


def test_second_derivatives_through_the_result_of_a_write_to_a_view():
    """The derivative of tanh_ is its result's, whose own derivative is that of tanh_ again: by two ways at once."""
    x = leaf(3)
    base = x * 1
    base[:2].tanh_()
    (g,) = jit.grad(base.sin().sum(), x, create_graph=True)
    (second,) = jit.grad(g.sum(), x)
    t = np.tanh(x.detach().numpy()[:2])
    expected = -np.sin(t) * (1 - t**2) ** 2 - 2 * np.cos(t) * t * (1 - t**2)
    np.testing.assert_allclose(second.numpy()[:2], expected, rtol=1e-12)
    with pytest.raises(jit.AutogradError, match="say retain_graph=True the first time"):
        jit.grad(g.sum(), x)


def test_what_is_overwritten_has_a_gradient_of_zero():
    for write in (lambda y: y.copy_(jit.ones(4)), lambda y: y.fill_(2), lambda y: y.zero_()):
        x = leaf(4)
        y = x * 2
        write(y)
        assert jit.grad(y.sum(), x)[0].tolist() == [0] * 4
        z = x * 2
        write(z)
        z.sum().backward()
        assert x.grad.tolist() == [0] * 4


def test_a_view_asked_for_its_history_where_nothing_is_recorded_has_it_all_the_same():
    x = leaf(4)
    base = x * 1
    view = base[1:]
    base.mul_(3)
    with jit.no_grad():
        assert view.requires_grad and view.grad_fn is not None and "Slice" in view.grad_fn.name
    view.sum().backward()
    assert x.grad.tolist() == [0, 3, 3, 3]


def test_a_gradient_that_cannot_be_written_to_is_replaced():
    """Read-only memory, and elements that share a place."""
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    for have in (jit.from_numpy(np.ones(3, np.float32)).as_strided((3,), (0,)), jit.asarray(frozen, copy=False)):
        x = jit.zeros(3, requires_grad=True)
        x.grad = have
        (x * 2).sum().backward()
        assert x.grad.tolist() == [3, 3, 3] and have.tolist() == [1, 1, 1]


OVERLAPPING = [
    lambda y: y[0].expand(2, 3)[0].mul_(2),
    lambda y: y[:, :1].expand(2, 4)[:, 2].mul_(jit.tensor([3.0, 4.0])),
    lambda y: y.view(3, 2)[1:].expand(4, 2, 2).select(0, 2).t().mul_(3),
    lambda y: y[0].expand(3, 3).diagonal().mul_(4),
    lambda y: y.unfold(0, 2, 1).unfold(1, 2, 1)[0, 0].mul_(5),
    lambda y: y.broadcast_to(2, 2, 3)[0].t()[1].neg_(),
    lambda y: y.t().as_strided((2, 3), (0, 1), 1)[1, :2].mul_(7),
]


@pytest.mark.parametrize("write", OVERLAPPING)
def test_a_write_to_what_is_shown_twice_has_its_gradient(write):
    """The way to what is written leads over a view in which elements share places."""

    def f(x):
        y = x * 1
        write(y)
        return y * y

    x = (jit.arange(6, dtype=jit.float64).reshape(2, 3) / 3 + 0.5).requires_grad_()
    assert jit.autograd.gradcheck(f, (x,)) and jit.autograd.gradgradcheck(f, (x,))
