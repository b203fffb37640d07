"""What `backward` and `jit.grad` promise: values, flags, hooks, freed memory, errors that name the way out."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import jit
from tests.tolerances import assert_close


def leaf(*numbers: float) -> Any:
    """A float64 leaf that requires grad."""
    return jit.tensor(list(numbers), dtype=jit.float64, requires_grad=True)


# -- accumulation and jit.grad -----------------------------------------------------------------------------------


def test_gradients_accumulate_into_memory_of_their_own():
    x = leaf(1.0, 2.0)
    weight = jit.tensor([3.0, 4.0], dtype=jit.float64)
    (x * 1).backward(weight)
    first = x.grad
    assert first is not weight and first.tolist() == [3, 4]
    (x * 2).backward(weight)
    assert x.grad is first and first.tolist() == [9, 12] and weight.tolist() == [3, 4]


def test_one_gradient_that_reaches_two_leaves_is_not_shared():
    x, y = leaf(1.0), leaf(2.0)
    (x + y).sum().backward()
    x.grad.add_(10)
    assert y.grad.tolist() == [1]


def test_hessian_vector_product():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z = x * x + y * x + y * y
    gx, gy = jit.grad(z.sum(), (x, y), create_graph=True)
    assert_close(gx, (2 * x + y).detach())
    assert_close(gy, (x + 2 * y).detach())
    ((gx * jit.tensor([1.0, 2.0], dtype=jit.float64)).sum() + gy.sum()).backward()
    assert_close(x.grad, np.array([2 * 1 + 1, 2 * 2 + 1.0]))
    assert_close(y.grad, np.array([1 + 2, 2 + 2.0]))


def test_grad_of_inner_tensors_and_of_many_outputs():
    x = leaf(1.0, 2.0)
    y = x * 3
    (g,) = jit.grad((y * y).sum(), y)
    assert g.tolist() == [6, 12] and x.grad is None
    a, b = jit.grad([(x * 2).sum(), (x * x).sum()], (x, x))
    assert a.tolist() == b.tolist() == [4, 6]


def test_grad_of_an_unreachable_input():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(jit.AutogradError, match=r"input 1 of grad was not used.*allow_unused=True"):
        jit.grad((x * 2).sum(), (x, y))
    a, b = jit.grad((x * 2).sum(), (x, y), allow_unused=True)
    assert a.tolist() == [2] and b is None


def test_grad_touches_no_other_leaf():
    x, y = leaf(1.0), leaf(2.0)
    jit.grad((x * y).sum(), x)
    assert x.grad is None and y.grad is None


def test_backward_into_chosen_inputs():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [2] and y.grad is None


def test_a_root_given_twice_counts_twice():
    x = leaf(1.0, 2.0)
    y = (x * 3).sum()
    jit.autograd.backward([y, y])
    assert x.grad.tolist() == [6, 6]


def test_a_root_that_leads_to_another_root():
    x = leaf(2.0)
    y = (x * 3).sum()
    z = y * y
    jit.autograd.backward([y, z])
    assert x.grad.tolist() == [3 + 2 * 6 * 3]


def test_returned_leaf():
    x = leaf(1.0, 2.0)
    jit.autograd.backward([x], [jit.tensor([5.0, 6.0], dtype=jit.float64)])
    assert x.grad.tolist() == [5, 6]
    assert jit.grad(x.sum() * 0 + x.sum(), x)[0].tolist() == [1, 1]


def test_unneeded_gradients_are_not_computed():
    class Loud(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("nobody asked")

    x, y = leaf(1.0), leaf(2.0)
    assert jit.grad((Loud.apply(x) * y).sum(), y)[0].tolist() == [1]


def test_indexing_accumulates_duplicates():
    x = leaf(1.0, 2.0, 3.0)
    x[jit.tensor([0, 0, 2])].sum().backward()
    assert x.grad.tolist() == [2, 0, 1]


def test_broadcast_gradients_have_the_sizes_of_their_tensors():
    x = jit.ones(2, 1, requires_grad=True)
    y = jit.ones(3, requires_grad=True)
    s = jit.tensor(2.0, requires_grad=True)
    (x * y + s).sum().backward()
    assert x.grad.tolist() == [[3], [3]] and y.grad.tolist() == [2, 2, 2] and s.grad.item() == 6


def test_gradients_across_dtypes():
    x = jit.ones(2, requires_grad=True)
    (x.double() * leaf(2.0, 3.0)).sum().backward()
    assert x.grad.dtype is jit.float32 and x.grad.tolist() == [2, 3]


# -- flags -------------------------------------------------------------------------------------------------------


def test_requires_grad_spreads_and_stops():
    x, y = leaf(1.0), jit.ones(1, dtype=jit.float64)
    assert (x * y).requires_grad and not (y * y).requires_grad
    assert not (x > 0).requires_grad and not x.detach().requires_grad
    with jit.no_grad():
        assert not (x * y).requires_grad
        with jit.enable_grad():
            assert (x * y).requires_grad
    assert jit.is_grad_enabled()


def test_no_grad_as_a_decorator_and_after_an_exception():
    @jit.no_grad()
    def f(x):
        raise KeyError("inside")

    with pytest.raises(KeyError):
        f(leaf(1.0))
    assert jit.is_grad_enabled()


def test_integers_cannot_require_grad():
    with pytest.raises(jit.UsageError, match="only floating point"):
        jit.tensor([1]).requires_grad_()
    with pytest.raises(jit.UsageError, match="leaves only"):
        (leaf(1.0) * 2).requires_grad_(False)


def test_leaves_and_histories():
    x = leaf(1.0)
    y = x * 2
    assert x.is_leaf and x.grad_fn is None and not y.is_leaf
    (node, index), (nothing, _) = y.grad_fn.next_functions
    assert node.variable is x and index == 0 and nothing is None
    assert y.detach().is_leaf


def test_detach_in_place():
    x = leaf(1.0)
    y = x * 2
    y.detach_()
    assert not y.requires_grad and y.is_leaf
    with pytest.raises(jit.AutogradError, match="detach\\(\\) instead"):
        (x * 2)[:1].detach_()


def test_nothing_to_differentiate():
    with pytest.raises(jit.AutogradError, match="does not require grad"):
        jit.ones(1).sum().backward()
    with pytest.raises(jit.AutogradError, match="pass a gradient of these sizes, or reduce"):
        (leaf(1.0, 2.0) * 2).backward()
    with pytest.raises(jit.ShapeError, match="gradient of sizes"):
        (leaf(1.0, 2.0) * 2).backward(jit.ones(3))


# -- hooks -------------------------------------------------------------------------------------------------------


def test_a_hook_sees_and_replaces_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    assert seen == [[1, 1]] and x.grad.tolist() == [20, 20]
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [22, 22]


def test_a_hook_on_a_leaf_sees_the_sum_once():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [5]


def test_a_hook_on_a_node():
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].item(), outputs[0].item())))
    y.sum().backward()
    assert seen == [(2, 1)]


def test_a_hook_needs_a_gradient():
    with pytest.raises(jit.AutogradError, match="requires grad"):
        jit.ones(1).register_hook(lambda g: g)


def test_retained_gradients():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [4, 8] and y.retains_grad
    with pytest.raises(jit.AutogradError):
        jit.ones(1).retain_grad()


def test_what_is_asked_for_is_what_hooks_have_made_of_it():
    for register_first in (True, False):
        y = leaf(1.0, 2.0) * 2
        if register_first:
            y.register_hook(lambda g: g * 10)
            y.retain_grad()
        else:
            y.retain_grad()
            y.register_hook(lambda g: g * 10)
        (found,) = jit.grad((y * y).sum(), y, retain_graph=True)
        assert found.tolist() == [40, 80]
        y.grad = None
        (y * y).sum().backward()
        assert y.grad.tolist() == [40, 80]


def test_gradients_are_never_added_into_memory_that_others_see():
    x = leaf(1.0, 2.0)
    x.grad = jit.ones(1, dtype=jit.float64).expand(2)
    (x * jit.tensor([2.0, 3.0], dtype=jit.float64)).sum().backward()
    assert x.grad.tolist() == [3, 4]
    plain = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad.tolist() == [5, 8] and x.grad.requires_grad and plain.tolist() == [3, 4]
    differentiable = x.grad
    (x * 2).sum().backward()
    assert x.grad.tolist() == [7, 10] and differentiable.tolist() == [5, 8]


def test_adding_to_a_gradient_counts_as_a_change():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * 2).sum().backward()
    z = (w * x.grad).sum()
    (x * 2).sum().backward()
    with pytest.raises(jit.AutogradError, match="changed by an in-place"):
        z.backward()


def test_gradients_have_the_dtypes_of_what_they_belong_to():
    x, y = jit.ones(2, requires_grad=True), leaf(3.0, 4.0)
    g, h = jit.grad((x * y).sum(), (x, y))
    assert (g.dtype, h.dtype) == (jit.float32, jit.float64) and g.tolist() == [3, 4]


# -- saved tensors -----------------------------------------------------------------------------------------------


def test_a_second_backward_says_what_to_do():
    y = (leaf(1.0) * leaf(2.0)).sum()
    y.backward()
    with pytest.raises(jit.AutogradError, match=r"test_autograd.py:\d+ in .*retain_graph=True"):
        y.backward()


def test_a_second_backward_through_a_written_view_says_what_to_do():
    y = leaf(1.0, 2.0) * 2
    y[0].exp_()
    y.sum().backward()
    with pytest.raises(jit.AutogradError, match=r"CopySlices .*test_autograd.py:\d+ in .*retain_graph=True"):
        y.sum().backward()


def test_changed_saved_tensors_are_named_with_both_lines():
    x, y = leaf(1.0), jit.ones(1, dtype=jit.float64)
    z = x * y
    y.add_(1)
    line = r"test_autograd.py:\d+"
    message = rf"other of MulBackward0 \(called at {line} .*\) was changed .* at {line} .* version 1, expected 0"
    with pytest.raises(jit.AutogradError, match=message):
        z.sum().backward()


def test_changes_under_no_grad_and_through_detach_count():
    for change in (lambda t: t.detach().add_(1), lambda t: t[0:1].add_(1), lambda t: t.zero_()):
        x, y = leaf(1.0), jit.ones(1, dtype=jit.float64)
        z = x * y
        with jit.no_grad():
            change(y)
        with pytest.raises(jit.AutogradError, match="changed by an in-place"):
            z.sum().backward()


def test_a_leaf_that_requires_grad_cannot_be_written_to():
    x = leaf(1.0, 2.0)
    for write in (lambda: x.add_(1), lambda: x[0].mul_(2), lambda: x.view(2).zero_()):
        with pytest.raises(jit.AutogradError, match="no_grad"):
            write()
    with jit.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3] and x.is_leaf


def test_in_place_operators_have_derivatives():
    x = leaf(1.0, 2.0)
    y = x * 3
    y.mul_(x)
    y.add_(x).exp_()
    y.sum().backward()
    value = np.array([1.0, 2.0])
    assert_close(x.grad, np.exp(3 * value * value + value) * (6 * value + 1), rtol=1e-13)


def test_out_refuses_to_differentiate():
    with pytest.raises(jit.AutogradError, match=r"out=.* does not support"):
        jit.mul(leaf(1.0), leaf(2.0), out=jit.ones(1, dtype=jit.float64))


def test_saved_tensors_are_freed_after_backward():
    x = leaf(1.0, 2.0)
    inner = x.exp()
    y = (inner * inner).sum()
    storage = weakref.ref(inner._storage)
    del inner
    y.backward()
    assert storage() is None


@pytest.mark.parametrize("build", [
    lambda x: (x * 2).exp(), lambda x: (x * 2).sigmoid().sum(), lambda x: (x * 1)[0].mul_(3),
    lambda x: (x * 1).mul_(x).tanh_(),
])  # fmt: skip
def test_no_cycle_outlives_a_graph(build):
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        y = build(x)
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
        alive = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(x)]
        del x, y
        assert not [a for a in alive if a() is not None]
    finally:
        gc.enable()


def test_create_graph_keeps_gradients_differentiable():
    x = leaf(2.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    g, x.grad = x.grad, None
    g.sum().backward()
    assert x.grad.tolist() == [12]


UNREAD = {
    "linear": (lambda x, w, b: jit.nn.functional.linear(x, w, b), [(2, 3), (4, 3), (4,)], 1),
    "linear of batches": (lambda x, w: jit.nn.functional.linear(x, w), [(5, 2, 3), (4, 3)], 1),
    "matmul": (lambda a, b: a @ b, [(2, 3), (3, 4)], 0),
    "a cell": (jit.rnn_tanh_cell, [(2, 3), (2, 4), (4, 3), (4, 4)], 2),
    "einsum": (lambda a, b: jit.einsum("ij,jk->ik", a, b), [(2, 3), (3, 4)], 1),
    "bilinear": (jit.nn.functional.bilinear, [(2, 3), (2, 4), (5, 3, 4)], 2),
}


CASES = [(name, *case, traced) for name, case in UNREAD.items() for traced in (False, True)]
"""Traced, products of several operands and cells are stages of their own, which check all that they were given."""
CASES = [case for case in CASES if not case[-1] or case[0] in ("linear", "linear of batches", "matmul")]


@pytest.mark.parametrize("name, function, sizes, place, traced", CASES, ids=[f"{c[0]}-{c[-1]}" for c in CASES])
def test_what_no_wanted_gradient_looks_at_may_have_changed(name, function, sizes, place, traced):
    """The gradient of a weight is right after its step; the gradient of what goes with it is an error."""

    def gradient(step: bool, needs_others: bool = False) -> Any:
        jit.manual_seed(1)
        tensors = [jit.rand(*size, dtype=jit.float64) for size in sizes]
        tensors[place].requires_grad_()
        for tensor in tensors if needs_others else ():
            tensor.requires_grad_()
        result = run(*tensors)
        with jit.no_grad():
            tensors[place].mul_(2 if step else 1)
        result.sum().backward()
        return tensors[place].grad.numpy()

    run = jit.trace(function) if traced else function
    expected = gradient(False)
    for _ in range(3):
        np.testing.assert_array_equal(gradient(True), expected)
    with pytest.raises(jit.AutogradError, match="changed by an in-place"):
        gradient(True, needs_others=True)
