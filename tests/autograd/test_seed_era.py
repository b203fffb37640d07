"""The autograd tests of 2017-18, by their names, as they read today."""

import gc
import weakref
from itertools import product
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.autograd import Function, gradcheck, gradgradcheck
from tests.tolerances import assert_close


def normal(*sizes: int, seed: int = 0, grad: bool = True) -> Any:
    """Normal float64 numbers."""
    return jit.from_numpy(np.random.default_rng(seed).standard_normal(sizes)).requires_grad_(grad)


def same(found: Any, expected: Any) -> None:
    assert_close(found.detach(), expected.detach() if isinstance(expected, jit.Tensor) else np.asarray(expected))


def forget(*leaves: Any) -> None:
    """Begin anew with the gradients."""
    for leaf in leaves:
        leaf.grad = None


# -- gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [False, True])
def test_accumulate_grad(create_graph):
    """In place without create_graph; a new tensor with it, as the old one may be part of a history."""
    x, weight = normal(5, 5), jit.ones(5, 5, dtype=jit.float64)
    y = x + 2
    y.backward(weight, retain_graph=True)
    gradient, before = x.grad, x.grad.clone()
    y.backward(weight, create_graph=create_graph)
    same(gradient, before if create_graph else before * 2)
    same(x.grad, before * 2)


def test_hessian_vector():
    x, y = normal(2, 2), normal(2, 2, seed=1)
    z = x**2 + y * x + y**2
    z.backward(jit.ones(2, 2, dtype=jit.float64), create_graph=True)
    same(x.grad, 2 * x + y)
    same(y.grad, x + 2 * y)
    gx, gy = x.grad, y.grad
    (gx.sum() + gy.sum()).backward()
    same(x.grad, gx + 3)
    same(y.grad, gy + 3)


def test_grad():
    x, y = normal(2, 2), normal(2, 2, seed=1)
    z = x**2 + y * x + y**2
    z.backward(jit.ones(2, 2, dtype=jit.float64), create_graph=True)
    gx, gy = x.grad, y.grad
    (second,) = jit.grad([(gx + gy).sum()], inputs=[x], create_graph=True)
    same(second, np.full((2, 2), 3.0))
    assert x.grad is gx and y.grad is gy


def test_grad_nonleaf():
    """Each step is differentiated by the one before it, which is no leaf."""
    x, value, rate = normal(2, 2), None, 0.1
    values = [x]
    for _ in range(5):
        x = x * 1
        (g,) = jit.grad((x**2).sum(), x)
        value = x - rate * g
        values.append(value)
        x = value
    same(values[-1], values[0] * 0.8**5)
    assert g.grad_fn is None and values[0].grad is None


def test_grad_nonleaf_many_outputs():
    x = normal(4, 2)
    a, b = x.chunk(2)
    seen: list[Any] = []
    b.register_hook(lambda g: seen.append(g))
    ga, gb = jit.grad((a + 2 * b).sum(), [a, b], create_graph=True)
    same(ga, np.ones((2, 2)))
    same(gb, np.full((2, 2), 2.0))
    assert x.grad is None and len(seen) == 1


def test_grad_unreachable():
    x, y = normal(1), normal(1, seed=1)
    z, unrelated = x * 2, y * 2
    found = jit.grad(z * 2, [x, y], allow_unused=True, retain_graph=True)
    assert found[0].item() == 4 and found[1] is None
    found = jit.grad(z * 2, [x, unrelated], allow_unused=True, retain_graph=True)
    assert found[1] is None
    found = jit.grad(z * 2, [x, y], materialize_grads=True)
    assert found[1].tolist() == [0.0] and found[1].dtype is jit.float64
    with pytest.raises(jit.AutogradError, match="input 1 of grad was not used"):
        jit.grad(x * 2, [x, y])
    with pytest.raises(jit.UsageError, match="allow_unused cannot be False"):
        jit.grad(x * 2, [x, y], allow_unused=False, materialize_grads=True)
    x, extra = normal(2), normal(2)
    loss = (x.detach().requires_grad_() * 3).sum()
    with pytest.raises(jit.AutogradError, match="input 0"):
        jit.grad(loss, (x, extra))


def test_grad_of_repeated_inputs():
    x = normal(3)
    a, b, c = jit.grad((x * x).sum(), [x, x, x])
    same(a, 2 * x)
    assert a.tolist() == b.tolist() == c.tolist()
    y = x * 2
    a, b = jit.grad((y * y).sum(), [y, y])
    same(a, 2 * y)
    same(b, 2 * y)


def test_sharded_grad():
    """A gradient computed piece by piece, each through leaves of its own."""
    leaves = [normal(5, 5, seed=i) for i in range(10)]
    inner = [leaf * (i + 1) for i, leaf in enumerate(leaves)]
    loss = sum(n.sum() * i for i, n in enumerate(inner))
    shards = [jit.grad(loss, inner[at : at + 2], retain_graph=True) for at in range(0, 10, 2)]
    for node, gradient in zip(inner, [g for shard in shards for g in shard], strict=True):
        jit.autograd.backward([node], [gradient])
    for i, leaf in enumerate(leaves):
        same(leaf.grad, np.full((5, 5), i * (i + 1.0)))


def test_dependent_backward():
    x = normal(10)
    y = x**2
    z = y**3
    jit.autograd.backward([y, z], [jit.ones(10, dtype=jit.float64), jit.ones(10, dtype=jit.float64)])
    assert_close(x.grad, (2 * x + 6 * x**5).detach(), rtol=1e-12)


def test_duplicate_backward_root():
    a, b = normal(5, 5), normal(5, 5, seed=1)
    x = a * b
    weight = normal(5, 5, seed=2, grad=False)
    jit.autograd.backward([x, x], [weight, weight])
    same(a.grad, b * weight * 2)
    same(b.grad, a * weight * 2)


def test_unused_output():
    x = normal(10, 10)
    outputs = x.chunk(5)
    (outputs[2] * 4).sum().backward()
    expected = np.zeros((10, 10))
    expected[4:6] = 4
    same(x.grad, expected)
    with jit.no_grad():
        x.grad.zero_()
    weight = normal(2, 10, seed=1, grad=False)
    x.chunk(5)[1].backward(weight)
    expected = np.zeros((10, 10))
    expected[2:4] = weight.numpy()
    same(x.grad, expected)


def test_too_many_grads():
    class More(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    x = normal(5, 5)
    More.apply(x).sum().backward()
    same(x.grad, np.ones((5, 5)))


def test_wrong_gradients_are_refused():
    """Other sizes, or no tensor at all; what broadcasts is summed and what has another dtype is cast."""
    results: list[Any] = []

    class Given(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return results[0]

    x = normal(3)
    for wrong, message in ((normal(2), r"sizes \[2\] for input 0.*\[3\]"), (1.0, "returned float as gradient 0")):
        results[:] = [wrong]
        with pytest.raises(jit.AutogradError, match=rf"test_seed_era\.py:\d+.*{message}"):
            Given.apply(x).sum().backward()
    results[:] = [jit.ones(4, 3)]
    Given.apply(x).sum().backward()
    assert x.grad.tolist() == [4, 4, 4] and x.grad.dtype is jit.float64


# -- hooks -------------------------------------------------------------------------------------------------------


def check_hooks(make: Any) -> None:
    """A hook that counts, one that changes the gradient, and their removal; `make(x, y)` gives the hooked tensor."""
    x, y = jit.ones(5, 5, requires_grad=True), jit.full((5, 5), 4.0).requires_grad_()
    counter = [0]

    def count(by: int, g: Any) -> None:
        assert isinstance(g, jit.Tensor)
        counter[0] += by

    z = make(x, y)
    first = z.register_hook(lambda g: count(1, g))
    z.backward(jit.ones(5, 5), retain_graph=True)
    assert counter == [1]
    second = z.register_hook(lambda g: count(2, g))
    z.backward(jit.ones(5, 5), retain_graph=True)
    assert counter == [4]
    second.remove()
    z.backward(jit.ones(5, 5), retain_graph=True)
    assert counter == [5]
    first.remove()
    forget(x, y)
    with z.register_hook(lambda g: g * 2):
        z.backward(jit.ones(5, 5), retain_graph=True)
    doubled = (x.grad, y.grad)
    forget(x, y)
    z.backward(jit.ones(5, 5))
    assert counter == [5]
    assert_close(doubled[0], 2 * x.grad)
    assert_close(doubled[1], 2 * y.grad)


def test_hooks():
    check_hooks(lambda x, y: x**2 + x * 2 + x * y + y)


def test_hooks_cpp():
    """On the output of an operator that is one node, such as batch norm."""
    weight = jit.linspace(1, 2, 5)
    check_hooks(lambda x, y: F.batch_norm(x * jit.linspace(0, 1, 5)[:, None], None, None, weight, training=True) * y)


def test_hook_none():
    """A hook is not called where no gradient arrives."""

    class NoGradient(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1, y * 1

        @staticmethod
        def backward(ctx, g, h):
            return g, None

    called = [False]

    def hook(g: Any) -> None:
        assert g is not None
        called[0] = True

    x, y = normal(5), normal(5, seed=1)
    a, b = NoGradient.apply(x, y)
    x.register_hook(hook)
    y.register_hook(lambda g: pytest.fail("there is no gradient"))
    (a + b).sum().backward()
    assert called[0] and y.grad is None


def test_hooks_on_nodes():
    x = normal(3)
    y = x * 2
    seen: list[Any] = []
    before = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    after = y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.sum().backward(retain_graph=True)
    assert seen == [([20.0] * 3, [10.0] * 3)]
    before.remove()
    after.remove()
    with y.grad_fn.register_hook(lambda inputs, outputs: tuple(g if g is None else g * 7 for g in inputs)):
        forget(x)
        y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [14] * 3 and len(seen) == 1
    y.grad_fn.register_hook(lambda inputs, outputs: (None, None, None))
    with pytest.raises(jit.AutogradError, match="returned 3 gradients in the place of 2"):
        y.sum().backward()


def test_hooks_must_keep_the_sizes():
    for wrong in (jit.ones(2), 3.0):
        y = normal(3) * 2
        y.register_hook(lambda g, wrong=wrong: wrong)
        with pytest.raises(jit.AutogradError, match=r"a hook .* returned .* instead of a tensor of sizes \[3\]"):
            y.sum().backward()


def test_post_accumulate_grad_hooks():
    x, y = normal(3), normal(3, seed=1)
    seen: list[Any] = []

    def step(leaf: Any) -> None:
        seen.append(leaf)
        with jit.no_grad():
            leaf.sub_(leaf.grad)
        leaf.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    before = x.tolist()
    (x * 2 + x * 3 + y).sum().backward()
    assert seen == [x] and x.grad is None and x.tolist() == [v - 5 for v in before] and y.grad.tolist() == [1] * 3
    (x * 2).sum().backward(inputs=[x])
    assert len(seen) == 2
    jit.grad((x * 2).sum(), x)
    assert len(seen) == 2
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 2
    same(x.grad, np.full(3, 2.0))
    others: list[Any] = [x * 2, jit.ones(2)]
    for wrong in others:
        with pytest.raises(jit.AutogradError, match="only leaves that require grad accumulate gradients"):
            wrong.register_post_accumulate_grad_hook(step)


def test_hooks_that_draw_are_reproducible():
    def observed() -> Any:
        jit.manual_seed(4)
        x = normal(5)
        y = x * 2
        y.register_hook(lambda g: g + jit.randn(5, dtype=jit.float64))
        y.exp().sum().backward()
        return x.grad.tolist()

    assert observed() == observed()


def test_hooks_that_are_traced():
    f = jit.trace(lambda g: (g * 3).tanh())
    gradients = []
    for hook in (f, f, lambda g: (g * 3).tanh()):
        x = jit.linspace(0, 1, 4).requires_grad_()
        y = x * 2
        y.register_hook(hook)
        (y * y).sum().backward(create_graph=True)
        gradient = x.grad
        forget(x)
        gradient.sum().backward()
        gradients.append((gradient, x.grad))
    assert f.hits >= 2
    for gradient, second in gradients:
        assert_close(gradient.detach(), gradients[2][0].detach())
        assert_close(second, gradients[2][1])


def test_callbacks_at_the_end():
    x, order = normal(2), []

    def hook(g: Any) -> None:
        jit.autograd.queue_callback(lambda: order.append(("end", x.grad is not None)))
        order.append(("hook", x.grad is not None))

    x.register_hook(hook)
    (x * 2).sum().backward()
    assert order == [("hook", False), ("end", True)]
    with pytest.raises(jit.UsageError, match="while no backward runs"):
        jit.autograd.queue_callback(list)


def test_retain_grad():
    x = jit.ones(1, 3, requires_grad=True)
    h = x * 3
    out = (h * h).sum()
    h.retain_grad()
    h.retain_grad()
    out.backward(retain_graph=True)
    same(h.grad, h.detach() * 2)
    out.backward(retain_graph=True)
    same(h.grad, h.detach() * 4)
    with jit.no_grad():
        x.grad.zero_()
    x.retain_grad()
    x.retain_grad()
    out.backward()
    same(x.grad, x.detach() * 18)
    assert not x.retains_grad


def test_retain_grad_of_what_is_written_to():
    """The gradient of what the tensor holds in the end, also if it is a view, and also that of its base."""
    x = normal(4)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [1] * 4 and x.grad.tolist() == [6] * 4
    base = normal(4) * 1
    view = base[1:3]
    base.retain_grad()
    view.retain_grad()
    view.mul_(5)
    (base * base.detach()).sum().backward()
    same(base.grad, base)
    assert view.grad is None, "nothing was computed from the view"


def test_retain_grad_cycle():
    gc.disable()
    try:
        x = jit.ones(5, 5, requires_grad=True)
        y = x * 2
        y.retain_grad()
        z = weakref.ref(y)
        (y * 2).sum().backward()
        node = y.grad_fn
        del y
        assert z() is None
        del node
    finally:
        gc.enable()


# -- the graph ---------------------------------------------------------------------------------------------------


def test_save_output_nr():
    class Multi(Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1], x[1:]

        @staticmethod
        def backward(ctx, *gradients):
            return jit.cat(gradients)

    class Check(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a + b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append((a.output_nr, b.output_nr))
            return g, g

    seen: list[Any] = []
    x = normal(2)
    a, b = Multi.apply(x)
    assert (a.output_nr, b.output_nr) == (0, 1)
    Check.apply(a, b).sum().backward()
    assert seen == [(0, 1)] and x.grad.tolist() == [1, 1]


def test_no_grad():
    x, y = jit.ones(5, 5, requires_grad=True), jit.full((5, 5), 4.0)
    with jit.no_grad():
        w = x + y
    assert not w.requires_grad and w.grad_fn is None
    with pytest.raises(jit.AutogradError, match="does not require grad"):
        w.backward(jit.ones(5, 5))

    @jit.no_grad()
    def adder(a: Any, b: Any) -> Any:
        return a + b

    assert not adder(x, y).requires_grad
    before = jit.set_grad_enabled(False)
    try:
        assert not (x * y).requires_grad
    finally:
        jit.set_grad_enabled(True)
    assert (x * y).requires_grad and before is not None
    with jit.set_grad_enabled(False):
        assert not (x * y).requires_grad
    assert (x * y).requires_grad


def test_no_grad_python_function():
    class Plus(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((ctx.needs_input_grad, jit.is_grad_enabled()))
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return g

    seen: list[Any] = []
    x = normal(2)
    with jit.no_grad():
        y = Plus.apply(x)
    assert not y.requires_grad and seen == [((False,), False)]


def test_requires_grad():
    x, y, z = normal(5, 5, grad=False), normal(5, 5, grad=False), normal(5, 5)
    a = x + y
    assert not a.requires_grad
    b = a + z
    assert b.requires_grad
    b.sum().backward()
    assert x.grad is None and y.grad is None and z.grad is not None
    with pytest.raises(jit.UsageError, match="leaves only"):
        b.requires_grad = False
    z.requires_grad = False
    assert not (a * z).requires_grad


def test_requires_grad_inplace():
    a, b = normal(5, 5, grad=False), normal(5, 5)
    a += b
    assert a.requires_grad
    a.sum().backward()
    same(b.grad, np.ones((5, 5)))
    a, b = normal(5, 5, grad=False) + 0, normal(5, 5)
    a += b
    assert a.requires_grad


def test_comparisons_with_strangers():
    """Only other tensors and numbers are compared by element."""
    x = normal(2)
    assert (x == None) is False and (x != "text") is True  # noqa: E711
    assert x not in [None, "text"] and (x == x).tolist() == [True, True]


def test_next_functions():
    x, y = normal(5, 5), normal(5, 5, seed=1)
    a = x + y
    node = a.grad_fn
    assert node is not None and [f.name for f, _ in node.next_functions] == ["AccumulateGrad"] * 2
    assert node.next_functions[0][0].variable is x and node.next_functions[1][0].variable is y
    (first, _), (second, _) = (a + 5).grad_fn.next_functions
    assert first is node and second is None


def test_inplace():
    x = jit.ones(5, 5, requires_grad=True)
    y = jit.full((5, 5), 4.0).requires_grad_()
    z = x * y
    q = z + y
    w = z * y
    z.add_(2)
    q.sum().backward(retain_graph=True)  # addition saved nothing
    z.sum().backward(retain_graph=True)
    with pytest.raises(jit.AutogradError, match="changed by an in-place operation"):
        w.sum().backward()
    with pytest.raises(jit.AutogradError, match="leaf that requires grad"):
        x.add_(1)


def test_mark_non_differentiable():
    class Mask(Function):
        @staticmethod
        def forward(ctx, x):
            output = x > 0
            ctx.mark_non_differentiable(output)
            return output

        @staticmethod
        def backward(ctx, g):
            return (g * 0).to(g.dtype)

    x = normal(5, 5)
    mask = Mask.apply(x)
    assert not mask.requires_grad
    x.masked_fill(mask, 0).sum().backward()
    same(x.grad, (~mask).double())


def test_mark_non_differentiable_mixed():
    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            a, b = x + 1, x + 2
            ctx.mark_non_differentiable(a)
            return a, b

        @staticmethod
        def backward(ctx, g, h):
            assert (g == 0).all() and (h == 1).all()
            return g + h

    x = normal(5, 5)
    a, b = Mixed.apply(x)
    assert not a.requires_grad and b.requires_grad
    b.sum().backward()
    same(x.grad, np.ones((5, 5)))


def test_mark_non_differentiable_none():
    class Clone(Function):
        @staticmethod
        def forward(ctx, x):
            output = x.clone()
            ctx.mark_non_differentiable(output)
            return output

        @staticmethod
        def backward(ctx, g):
            return None

    x = normal(5, 5)
    (Clone.apply(x * x) * x).sum().backward()
    same(x.grad, x * x)


def test_return_duplicate():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            output = x * 2
            return output, output

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 2

    def f(x: Any) -> Any:
        a, b = Twice.apply(x)
        assert a is b
        return a + b

    x = normal(5, 5)
    assert gradcheck(f, [x]) and gradgradcheck(f, [x])


class Doubled(Function):
    """Writes to its argument and returns it, twice."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 2


def test_return_duplicate_inplace():
    def f(x: Any) -> Any:
        a, b = Doubled.apply(x.clone())
        assert a is b
        return a + b

    x = normal(5, 5)
    assert gradcheck(f, [x]) and gradgradcheck(f, [x])
    with pytest.raises(jit.AutogradError, match="leaf that requires grad"):
        Doubled.apply(x)
    with pytest.raises(jit.AutogradError, match="one output"):
        Doubled.apply(x.clone()[0])


def test_a_dirty_second_output():
    class Both(Function):
        @staticmethod
        def forward(ctx, x, y):
            y.mul_(3)
            ctx.mark_dirty(y)
            return x * 2, y

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, h * 3

    x, y = normal(2), normal(2, seed=1)
    a, b = Both.apply(x, y * 1)
    (a * 10 + b).sum().backward()
    assert x.grad.tolist() == [20, 20] and y.grad.tolist() == [3, 3]


def test_gc_in_destructor():
    """A function whose destructor collects garbage."""

    class Collecting(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.thing = Collector()
            return x

        @staticmethod
        def backward(ctx, g):
            return g + 1

    class Collector:
        def __del__(self):
            collected.append(gc.collect())

    collected: list[int] = []
    x = normal(2)
    for _ in range(5):
        Collecting.apply(x).sum().backward()
        x = x.detach().requires_grad_()
    assert len(collected) == 5


def test_detach():
    x = normal(10, 10)
    y = (x + 2).detach()
    z = y * 4 + 2
    assert not y.requires_grad and not z.requires_grad
    x = normal(10, 10)
    y = (x * 2).detach()
    assert y.grad_fn is None
    z = x + y
    z.sum().backward()
    same(x.grad, np.ones((10, 10)))
    x, y = normal(10, 10), normal(10, 10)
    a = x * 2
    (y + a).detach_()
    a.detach_()
    (y + a).sum().backward()
    assert x.grad is None and y.grad is not None
    with pytest.raises(jit.AutogradError, match="views cannot be detached in place"):
        normal(10, 10).mul(1).narrow(0, 0, 1).detach_()


def test_detach_base():
    """Detaching a base in place does not detach its views."""
    x = normal(10, 10)
    y = x * 2
    view = y.narrow(0, 1, 4)
    y.detach_()
    assert not y.requires_grad and view.requires_grad
    view.sum().backward()
    expected = np.zeros((10, 10))
    expected[1:5] = 2
    same(x.grad, expected)


class Identity(Function):
    """Returns its first argument as it came."""

    @staticmethod
    def forward(ctx, a, b):
        return a, a + b

    @staticmethod
    def backward(ctx, g, h):
        return g + h, h


def test_return_leaf():
    x, y = normal(5, 5), normal(5, 5, seed=1)
    q, p = Identity.apply(x, y)
    seen: list[int] = []
    q.register_hook(lambda g: seen.append(1))
    (q + p + x).sum().backward()
    assert seen == [1]
    same(x.grad, np.full((5, 5), 3.0))
    same(y.grad, np.ones((5, 5)))
    assert q is not x and x.is_leaf


def test_return_leaf_inplace():
    class Inplace(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.add_(b), b + 2

        @staticmethod
        def backward(ctx, g, h):
            return g, g + h

    x, y = normal(5, 5, grad=False), normal(5, 5, seed=1)
    q, _ = Inplace.apply(x, y)
    assert q is x and q.requires_grad and q.grad_fn.name == "InplaceBackward"
    q.sum().backward()
    same(y.grad, np.ones((5, 5)))


def test_reentrant():
    y_data = normal(2, 2)

    class Reenter(Function):
        @staticmethod
        def forward(ctx, x):
            with jit.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = y_data.detach().requires_grad_()
                ctx.out = ctx.x * ctx.y
            return ctx.out.detach()

        @staticmethod
        def backward(ctx, g):
            with jit.enable_grad():
                ctx.out.sum().backward()
            return ctx.x.grad * g

    x = normal(2, 2, seed=1)
    Reenter.apply(x).sum().backward()
    same(x.grad, y_data)


@pytest.mark.parametrize("depth", [100, 1000])
def test_deep_reentrant(depth):
    class Deep(Function):
        @staticmethod
        def forward(ctx, x):
            with jit.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            levels.append(1)
            if float(ctx.x) < 0:
                return g
            with jit.enable_grad():
                Deep.apply(ctx.x).sum().backward()
            return g

    levels: list[int] = []
    v = jit.tensor(float(depth), requires_grad=True)
    Deep.apply(v).sum().backward()
    assert len(levels) == depth + 1 and v.grad.item() == 1


def test_errors_from_deep_inside():
    class Deep(Function):
        @staticmethod
        def forward(ctx, x):
            with jit.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if float(ctx.x) < 0:
                raise KeyError("at the bottom")
            with jit.enable_grad():
                Deep.apply(ctx.x).sum().backward()
            return g

    with pytest.raises(KeyError, match="at the bottom"):
        Deep.apply(jit.tensor(100.0, requires_grad=True)).sum().backward()
    assert jit.is_grad_enabled()


# -- indexing and joining ----------------------------------------------------------------------------------------

INDICES: list[Any] = [
    0, (0, 1), slice(None), (slice(1, 3), 2), (Ellipsis, 1), (None, 0), [0, 2], ([0, 2], [1, 1]), (slice(None), [3, 0]),
    (slice(None, None, 2), None, [1, 2, 2]), (1, [0, 0, 3]),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index):
    x = normal(4, 4)
    y = x[index]
    weight = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(jit.from_numpy(weight))
    expected = np.zeros((4, 4))
    np.add.at(expected, index, weight)
    assert_close(x.grad, expected, rtol=1e-12)


def test_indexing_duplicates():
    x = jit.arange(1.0, 17).view(4, 4).requires_grad_()
    index = jit.tensor([1, 1, 3, 2, 1, 2])
    x[index].sum().backward()
    assert x.grad.sum(1).tolist() == [0, 12, 8, 4]
    forget(x)
    x[[[1, 2], [0, 0]], [[0, 1], [1, 1]]].sum().backward()
    assert x.grad.tolist() == [[0, 2, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("index", [*INDICES[:6], [0, 2], ([0, 2], [1, 1])], ids=str)
def test_setitem(index):
    base, value = normal(4, 4), normal(*np.zeros((4, 4))[index].shape, seed=1)
    x = base * 2
    version = x._version
    x[index] = value
    assert x._version > version
    x.backward(jit.full((4, 4), 3.0, dtype=jit.float64))
    expected = np.full((4, 4), 6.0)
    expected[index] = 0
    same(jit.zeros(4, 4).double() if base.grad is None else base.grad, expected)  # None: nothing of it is left
    same(value.grad, np.full(value.shape, 3.0))


def test_setitem_mask():
    mask = jit.tensor(np.random.default_rng(2).random((4, 4)) > 0.5)
    base, value = normal(4, 4), normal(1, seed=1)
    x = base * 2
    x[mask] = value
    x.sum().backward()
    same(base.grad, 2 * (~mask).double())
    assert value.grad.tolist() == [mask.sum().item()]
    x = base * 2
    x[mask] = 5
    x.sum().backward()
    same(base.grad, 4 * (~mask).double())


def test_setitem_with_no_grad_value():
    base = normal(4, 4)
    x = base * 1
    x[1] = normal(4, grad=False)
    x.sum().backward()
    expected = np.ones((4, 4))
    expected[1] = 0
    same(base.grad, expected)


@pytest.mark.parametrize("accumulate", [False, True])
def test_put(accumulate):
    index = jit.tensor([1, 4, 6, 1] if accumulate else [1, 4, 6, 7])

    def f(x: Any, value: Any) -> Any:
        return (x * 1).put_(index, value, accumulate=accumulate)

    inputs = normal(3, 3), normal(4, seed=1)
    assert gradcheck(f, inputs) and gradgradcheck(f, inputs)


def test_fill():
    root = normal(4, 5)

    def f(x: Any) -> Any:
        y = x * 1
        y.fill_(2)
        return y + x

    assert gradcheck(f, [root]) and gradgradcheck(f, [root])
    value = jit.tensor(3.0, dtype=jit.float64, requires_grad=True)
    y = root * 1
    y[:2].fill_(value)
    y.sum().backward()
    assert value.grad.item() == 10
    same(root.grad, np.concatenate([np.zeros((2, 5)), np.ones((2, 5))]))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_cat(dim):
    """The test's negative dims too."""
    sizes = [[2, 3, 4] for _ in range(3)]
    for number, size in enumerate(sizes):
        size[dim] = number + 1
    parts = [normal(*size, seed=i) for i, size in enumerate(sizes)]
    whole = jit.cat(parts, dim)
    weight = normal(*whole.shape, seed=9, grad=False)
    whole.backward(weight)
    start = 0
    for part in parts:
        same(part.grad, weight.narrow(dim, start, part.shape[dim]))
        start += part.shape[dim]


def test_cat_empty():
    assert gradcheck(lambda a, b: jit.cat([a, b]), (normal(0, 3), normal(2, 3)))
    assert gradcheck(lambda a, b: jit.cat([a, b], 1), (normal(2, 0), normal(2, 3)))
    legacy = normal(0)
    x = normal(2, 3)
    jit.cat([legacy, x], -1).sum().backward()
    same(x.grad, np.ones((2, 3)))


def test_where():
    condition = normal(5, 5, grad=False) > 0

    def f(x: Any, y: Any) -> Any:
        return jit.where(condition, x, y)

    x, y = normal(5, 5), normal(5, 5, seed=1)
    assert gradcheck(f, (x, y)) and gradgradcheck(f, (x, y))
    assert gradcheck(lambda x, y: jit.where(condition, x, y), (normal(1, 5), normal(5, 1)))


STRIDED = [
    ((25,), (2, 3), (3, 1), 2), ((4, 5), (3, 3), (5, 1), 1), ((4, 5), (2, 2), (0, 3), 0), ((9,), (3, 3), (2, 1), 1),
    ((4, 5), (4,), (6,), 0), ((2, 3), (0, 2), (3, 1), 0), ((6,), (), (), 4),
]  # fmt: skip


@pytest.mark.parametrize("shape, size, stride, offset", STRIDED)
def test_as_strided(shape, size, stride, offset):
    """Gradient and gradient of gradient; places that are seen several times add up."""

    def f(x: Any) -> Any:
        return (x * 1).as_strided(size, stride, offset)

    x = normal(*shape)
    assert gradcheck(f, [x]) and gradgradcheck(f, [x])


def test_as_strided_of_what_is_not_contiguous():
    def f(x: Any) -> Any:
        return (x * 1).t().as_strided((2, 2), (1, 2), 1)

    x = normal(3, 4)
    assert gradcheck(f, [x]) and gradgradcheck(f, [x])


def test_mul_out():
    a, b = normal(2, 2, grad=False), normal(2, 2, seed=1, grad=False)
    x = jit.zeros_like(a)
    jit.mul(a, b, out=x)
    same(x, a * b)


def test_mul_out_result_requires_grad():
    a, b = normal(2, 2), normal(2, 2, grad=False)
    x = jit.zeros(2, 2, dtype=jit.float64)
    for arguments, out in (((a, b), x), ((b, b), a)):
        with pytest.raises(jit.AutogradError, match=r"out=.*does not support automatic differentiation"):
            jit.mul(*arguments, out=out)


# -- in place on views -------------------------------------------------------------------------------------------


def test_inplace_view_backprop_base():
    root = normal(2, 2)
    x = root.clone()
    x.narrow(0, 0, 1).mul_(2)
    x.sum().backward()
    assert root.grad.tolist() == [[2, 2], [1, 1]]


def test_inplace_view_backprop_view_of_view():
    root = normal(2, 2)
    x = root.clone()
    first, second = x.narrow(0, 0, 1), x.narrow(0, 0, 1)
    first.mul_(2)
    second.sum().backward()
    assert root.grad.tolist() == [[2, 2], [0, 0]]


def test_inplace_view_of_view():
    root = normal(2, 2)
    x = root.clone()
    x.narrow(0, 0, 1).narrow(1, 1, 1).mul_(2)
    x.sum().backward()
    assert root.grad.tolist() == [[1, 2], [1, 1]]


def test_inplace_view_gradcheck():
    a, b = normal(4, 4), normal(2, 2, seed=1)

    def f(root: Any, b: Any) -> Any:
        x = root.clone()
        x.narrow(1, 2, 2).narrow(0, 1, 2).mul_(b)
        x.narrow(1, 0, 2).narrow(0, 1, 2).mul_(b)
        return x

    assert gradcheck(f, [a, b]) and gradgradcheck(f, [a, b])


def test_inplace_view_makes_base_require_grad():
    a, b = normal(4, 4, grad=False), normal(4, 2)

    def f(root: Any, b: Any) -> Any:
        x = root.clone()
        assert not x.requires_grad
        x.narrow(1, 2, 2).mul_(b)
        assert x.requires_grad == jit.is_grad_enabled()
        return x

    assert gradcheck(f, [a, b]) and gradgradcheck(f, [a, b])


def test_inplace_view_backprop_view():
    a, b = jit.tensor([2.0, 5.0]), jit.tensor([3.0], requires_grad=True)
    part = a.narrow(0, 1, 1).mul_(b)
    part.sum().backward()
    assert b.grad.tolist() == [5] and a.grad is None


def test_inplace_view_modify_base():
    r = normal(1)

    def f(r: Any) -> Any:
        x = jit.ones(5, dtype=jit.float64)
        view = x.select(0, 1)
        assert not view.requires_grad and view.grad_fn is None
        x.add_(r)
        assert view.requires_grad == jit.is_grad_enabled()
        return view

    assert gradcheck(f, [r]) and gradgradcheck(f, [r])


def test_inplace_view_python():
    """In place on a view by a function written in Python."""
    a, b = normal(4, 4), normal(2, 2, seed=1)

    class PyAdd(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            x.add_(y)
            return x

        @staticmethod
        def backward(ctx, g):
            return g, g

    def f(root: Any, b: Any) -> Any:
        x = root.clone()
        PyAdd.apply(x.narrow(1, 2, 2).narrow(0, 1, 2), b)
        PyAdd.apply(x.narrow(1, 0, 2).narrow(0, 1, 2), b)
        return x

    assert gradcheck(f, [a, b]) and gradgradcheck(f, [a, b])


def test_inplace_view_non_contig():
    root = jit.ones(2, 3, 2).select(2, 1).t().requires_grad_()
    x = root.clone()
    first, second = x.narrow(0, 0, 1), x.narrow(0, 1, 1)
    first.mul_(2)
    second.mul_(3)
    x.sum().backward()
    assert root.grad.tolist() == [[2, 2], [3, 3], [1, 1]]


def test_inplace_view_saved_output():
    """What is saved of an output that is a view does not keep the graph alive in a circle."""
    gc.disable()
    try:
        died = []
        base = normal(2, 3) * 1
        view = base[0]
        view.sigmoid_()
        weakref.finalize(base.grad_fn, lambda: died.append(1))
        del base, view
        assert died == [1]
    finally:
        gc.enable()

    def f(x: Any) -> Any:
        y, z = x * 1, x * 1
        y[0].sigmoid_()
        z.t()[1:].tanh_()
        return y * z

    assert gradcheck(f, [normal(2, 3)]) and gradgradcheck(f, [normal(2, 3)])


WRITES: list[Any] = [
    lambda b, w, c: b[0].mul_(w), lambda b, w, c: b.t()[1].mul_(c), lambda b, w, c: b[0].copy_(w * c.sum()),
    lambda b, w, c: b[1].addcmul_(w, w), lambda b, w, c: b.view(3, 2)[1].div_(c), lambda b, w, c: b[:, 0].fill_(w[0]),
    lambda b, w, c: b.diagonal().add_(c), lambda b, w, c: b[1:, 1:].zero_(), lambda b, w, c: b[1].sigmoid_(),
]  # fmt: skip
"""The last one needs what it has written, so it comes last."""


@pytest.mark.parametrize("first, second", list(product(range(len(WRITES) - 1), range(len(WRITES))))[::4])
def test_copy_slices_under_every_subset(first, second):
    """Two writes through views; all subsets of inputs that require grad, and of those all that are asked for."""

    def loss(a: Any, w: Any, c: Any) -> Any:
        b = a * 1
        WRITES[first](b, w, c)
        WRITES[second](b, w, c)
        return (b * b * jit.arange(1.0, 7).view(2, 3).double()).sum()

    inputs = normal(2, 3), normal(3, seed=1), normal(2, seed=2)
    full = jit.grad(loss(*inputs), inputs, materialize_grads=True)
    for requiring in product([False, True], repeat=3):
        given = [t if r else t.detach() for t, r in zip(inputs, requiring, strict=True)]
        result = loss(*given)
        if not result.requires_grad:
            continue
        for asked in product([False, True], repeat=3):
            chosen = [i for i in range(3) if requiring[i] and asked[i]]
            if chosen:
                wanted = [given[i] for i in chosen]
                found = jit.grad(result, wanted, retain_graph=True, materialize_grads=True)
                for i, gradient in zip(chosen, found, strict=True):
                    assert gradient.tolist() == full[i].tolist()


# -- copies ------------------------------------------------------------------------------------------------------

FLOATS = [jit.float16, jit.bfloat16, jit.float32, jit.float64]


@pytest.mark.parametrize("source, target", list(product(FLOATS, FLOATS)))
def test_copy_across_dtypes(source, target):
    """`to`, `copy_` into a whole tensor and into a view: gradients come back in the dtype of their tensor."""
    x = jit.tensor([1.0, 2.0, 3.0], dtype=source, requires_grad=True)
    (x.to(target) * jit.tensor([1.0, 2.0, 3.0], dtype=target)).sum().backward()
    assert x.grad.dtype is source and x.grad.tolist() == [1, 2, 3]
    forget(x)
    whole = jit.zeros(3, dtype=target)
    whole.copy_(x)
    assert whole.requires_grad and whole.grad_fn is not None and whole.grad_fn.name == "CopyBackward0"
    (whole * 2).sum().backward()
    assert x.grad.dtype is source and x.grad.tolist() == [2, 2, 2]
    forget(x)
    base = jit.ones(2, 3, dtype=target)
    base[1].copy_(x)
    base[1] *= 2
    base.sum().backward()
    assert x.grad.dtype is source and x.grad.tolist() == [2, 2, 2]


def test_copy_of_real_into_complex():
    x = jit.tensor([1.0, 2.0], dtype=jit.float64, requires_grad=True)
    z = jit.zeros(2, dtype=jit.complex128)
    z.copy_(x)
    (z * jit.tensor([1 + 2j, 3 - 1j])).real.sum().backward()
    assert x.grad.dtype is jit.float64 and x.grad.tolist() == [1, 3]


def test_copy_across_devices():
    """There is one device here; the way to it and back differentiates, and names what is missing."""
    x = normal(3)
    same(jit.grad((x.cpu() * 2).sum(), x)[0], np.full(3, 2.0))
    copied = x.to("cpu", copy=True)
    assert copied is not x
    same(jit.grad((copied * 2).sum(), x)[0], np.full(3, 2.0))
    with pytest.raises(jit.UsageError, match="there is no device 'mps'"):
        x.to(device="mps")


def test_copy_broadcasts():
    def f(x: Any, y: Any) -> Any:
        z = x * 1
        z.copy_(y)
        return z * z

    x, y = normal(4, 3), normal(3, seed=1)
    assert gradcheck(f, (x, y)) and gradgradcheck(f, (x, y))


# -- anomalies ---------------------------------------------------------------------------------------------------


def make_nan(x: Any) -> Any:
    return (x * 0).sqrt() * 0  # the line that is named


def test_anomaly_detect_nan():
    x = normal(2)
    with (
        jit.autograd.detect_anomaly(),
        pytest.raises(
            jit.AutogradError, match=r"SqrtBackward0 returned nan .*test_seed_era.py:\d+ in make_nan"
        ) as info,
    ):
        make_nan(x).sum().backward()
    (note,) = info.value.__notes__
    assert "return (x * 0).sqrt() * 0" in note and "in test_anomaly_detect_nan" in note and "jit/autograd" not in note
    with jit.autograd.detect_anomaly(check_nan=False):
        make_nan(x).sum().backward()
    assert np.isnan(x.grad.numpy()).all() and not jit.autograd.is_anomaly_enabled()
    make_nan(x).sum().backward()


@pytest.mark.parametrize("known", [False, True], ids=["recorded backward", "compiled backward"])
@pytest.mark.parametrize("optimize", [False, True])
def test_anomaly_names_the_forward_line_of_traced_functions(optimize, known):
    traced = jit.trace(lambda x, y: (make_nan(x.exp()) * y).sum(), optimize=optimize)
    for _ in range(2):
        result = traced(normal(2), normal(2))
        if known:
            result.backward()
    result = traced(normal(2), normal(2))
    with (
        jit.autograd.detect_anomaly(),
        pytest.raises(jit.AutogradError, match=r"nan.*seed_era.py:\d+ in make_nan") as info,
    ):
        result.backward(retain_graph=True)
    assert not any("in test_anomaly" in note for note in getattr(info.value, "__notes__", ()))
    result.backward()  # nothing is left behind


@pytest.mark.parametrize("optimize", [False, True])
def test_anomaly_in_second_derivatives_of_traced_functions(optimize):
    traced = jit.trace(lambda x: (x * x).sum().sqrt() * 0 + (x * 3).sum(), optimize=optimize)
    x = jit.zeros(2, requires_grad=True)
    for _ in range(3):
        (g,) = jit.grad(traced(x + 1), x, create_graph=True)
        jit.grad(g.sum(), x)
    (g,) = jit.grad(traced(x + 1), x, create_graph=True)
    with jit.autograd.detect_anomaly():
        assert jit.grad(g.sum(), x)[0].isfinite().all()
        with pytest.raises(jit.AutogradError, match=r"nan.*test_seed_era.py"):
            jit.grad(traced(x * 1), x)


@pytest.mark.parametrize("optimize", [False, True])
def test_anomaly_of_a_backward_inside_of_a_traced_function(optimize):
    traced = jit.trace(lambda x: jit.grad(make_nan(x.exp()).sum(), x)[0] * 2, optimize=optimize)
    for _ in range(3):
        assert traced(normal(2)).isnan().all()
    with jit.autograd.detect_anomaly(), pytest.raises(jit.AutogradError, match=r"nan.*in make_nan"):
        traced(normal(2))


def test_anomaly_gives_back_the_forward_of_errors():
    class Failing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    def called_here(x: Any) -> Any:
        return Failing.apply(x)

    with jit.autograd.detect_anomaly(), pytest.raises(KeyError, match="mine") as info:
        called_here(normal(2)).sum().backward()
    assert "called_here" in info.value.__notes__[0]


def test_set_detect_anomaly():
    x = normal(2)
    jit.autograd.set_detect_anomaly(True)
    try:
        assert jit.autograd.is_anomaly_enabled() and jit.autograd.is_anomaly_check_nan_enabled()
        with pytest.raises(jit.AutogradError, match="nan"):
            make_nan(x).sum().backward()
    finally:
        jit.autograd.set_detect_anomaly(False)
    assert not jit.autograd.is_anomaly_enabled()
    with jit.autograd.set_detect_anomaly(True, check_nan=False):
        assert jit.autograd.is_anomaly_enabled() and not jit.autograd.is_anomaly_check_nan_enabled()
    assert not jit.autograd.is_anomaly_enabled()


# -- memory ------------------------------------------------------------------------------------------------------


class Saving(Function):
    """Saves an input and an output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        _, y = ctx.saved_tensors
        return g * y


BUILT: list[Any] = [
    lambda x: (x * 1).exp().sigmoid(), lambda x: Saving.apply(x * 2), lambda x: (x * 1)[0].mul_(x[1]).tanh_(),
    lambda x: jit.checkpoint(lambda x: x.exp().tanh(), x), lambda x: F.softmax(x, 0).clone().relu_(),
    lambda x: jit.trace(lambda x: x.exp().sin())(x), lambda x: jit.grad(x.exp().sum(), x, create_graph=True)[0],
    lambda x: (x * 1).unbind(0)[0].exp_(),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BUILT)))
@pytest.mark.parametrize("differentiated", [False, True])
def test_no_cycle_outlives_a_graph(number, differentiated):
    gc.collect()
    gc.disable()
    try:
        x = normal(2, 2)
        x.register_hook(lambda g: g)
        x.register_post_accumulate_grad_hook(lambda t: None)
        y = BUILT[number](x)
        y.retain_grad()
        y.register_hook(lambda g: g)
        if differentiated:
            y.sum().backward()
        alive = [weakref.ref(t) for t in (x, y, y.grad_fn, y._storage)]
        del x, y
        assert not [a for a in alive if a() is not None]
    finally:
        gc.enable()


@pytest.mark.parametrize("number", range(6))
def test_saved_tensors_are_freed_and_a_second_backward_says_so(number):
    x = normal(2, 2)
    y = BUILT[number](x).sum()
    y.backward()
    with pytest.raises(jit.AutogradError, match=r"retain_graph=True"):
        y.backward()


# -- the profiler ------------------------------------------------------------------------------------------------


def test_profiler():
    x = normal(10, 10)
    with jit.autograd.profiler.profile() as p:
        y = x * 2 + 4
        y.add_(1)
    last = 0.0
    for event, name in zip(p.function_events, ["mul", "add", "add_"], strict=True):
        assert event.name == name and last < event.start <= event.end
        last = event.end
    with jit.autograd.profiler.profile() as p:
        y.sum().backward()
        F.cross_entropy(x, jit.arange(10))
    counts = {name: count for name, count, _ in p.key_averages()}
    assert counts["sum"] == 1 and counts["mul"] >= 1 and counts["cross_entropy_loss"] == 1
    assert counts["log_softmax"] == 1 and "log_softmax" in str(p), "the parts of a composite too"
    with jit.autograd.profiler.profile(enabled=False) as p:
        y + 1
    assert not p.function_events
