"""`autograd.Function`: eager and traced, as a PythonOp with a Handle, its errors carried to the caller."""

from typing import Any

import numpy as np
import pytest

import jit
from tests.tolerances import assert_close


def leaf(*numbers: float) -> Any:
    """A float32 leaf that requires grad."""
    return jit.tensor(list(numbers), requires_grad=True)


class Clip(jit.autograd.Function):
    """Written in operators of ours, so that it has derivatives of every order."""

    @staticmethod
    def forward(ctx, x, limit):
        ctx.limit = limit
        ctx.save_for_backward(x)
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= ctx.limit).float(), None


class Cube(jit.autograd.Function):
    """Saves its output too."""

    @staticmethod
    def forward(ctx, x):
        y = x * x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return 3 * y / x * g


class ByNumpy(jit.autograd.Function):
    """Opaque in both directions."""

    calls: list[str] = []

    @staticmethod
    def forward(ctx, x):
        ByNumpy.calls.append("forward")
        ctx.array = np.sin(x.detach().numpy())
        return jit.from_numpy(ctx.array)

    @staticmethod
    def backward(ctx, g):
        ByNumpy.calls.append("backward")
        return jit.from_numpy(g.numpy() * np.sqrt(1 - ctx.array**2))


def test_eager_gradients():
    x = leaf(-3.0, 0.5)
    Clip.apply(x, 2.0).sum().backward()
    assert x.grad.tolist() == [0, 1]
    x = jit.tensor([1.5, -0.5], dtype=jit.float64, requires_grad=True)
    assert jit.autograd.gradcheck(Cube.apply, (x,)) and jit.autograd.gradgradcheck(Cube.apply, (x,))


@pytest.mark.parametrize("optimize", [False, True])
def test_a_traced_function_is_a_python_op_with_a_handle(optimize):
    f = jit.trace(lambda x: ByNumpy.apply(x * 2) * 3, optimize=optimize)
    for number in range(3):
        ByNumpy.calls.clear()
        x = leaf(0.1 * number, 0.2)
        f(x).sum().backward()
        assert ByNumpy.calls == ["forward", "backward"]
        assert_close(x.grad, 6 * np.cos(2 * x.detach().numpy()))
    kinds = [n.kind for n in f.graph.nodes]
    assert kinds.count("^ByNumpy") == 1 and kinds.count("prim::Eval") == 1 and f.hits == 2
    assert "Handle = ^ByNumpy(" in str(f.graph)


def test_constants_of_a_python_op_are_printed_and_part_of_the_key():
    f = jit.trace(lambda x, limit: Clip.apply(x, limit), dynamic=False)
    x = leaf(-3.0, 0.5)
    assert f(x, 2.0).tolist() == [-2, 0.5] and "^Clip[limit=2.0](%x)" in str(f.graph)
    assert f(x, 1.0).tolist() == [-1, 0.5] and f.misses == 2
    assert f(x, 2.0).tolist() == [-2, 0.5] and f.hits == 1


@pytest.mark.parametrize("optimize", [False, True])
def test_double_backward_through_a_traced_function(optimize):
    f = jit.trace(lambda x: Cube.apply(x).sum(), optimize=optimize)
    for a in (1.0, 2.0, 3.0):
        x = leaf(a, 0.5)
        (g,) = jit.grad(f(x), x, create_graph=True)
        g.sum().backward()
        assert_close(g, 3 * x.detach().numpy() ** 2)
        assert_close(x.grad, 6 * x.detach().numpy())
    assert f.hits == 2


def test_an_opaque_backward_has_no_second_derivative_in_a_trace():
    f = jit.trace(lambda x: ByNumpy.apply(x).sum())
    for function in (f._function, f, f):
        x = leaf(1.0)
        (g,) = jit.grad(function(x), x, create_graph=True)
        (expected,) = jit.grad(f._function(x), x)
        assert g.tolist() == expected.tolist() and not g.requires_grad


def test_errors_reach_the_caller_as_they_are():
    class Picky(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if float(x.sum()) < 0:
                raise KeyError("negative")
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if float(g.sum()) < 0:
                raise LookupError("backward")
            return g

    f = jit.trace(lambda x: Picky.apply(x))
    f(leaf(1.0)).sum().backward()
    for _ in range(2):
        with pytest.raises(KeyError, match="negative"):
            f(leaf(-1.0))
        with pytest.raises(LookupError, match="backward"):
            f(leaf(1.0)).backward(jit.tensor([-1.0]))
        x = leaf(2.0)
        f(x).sum().backward()
        assert x.grad.tolist() == [1]


@pytest.mark.parametrize("traced", [False, True])
def test_needs_input_grad_and_undefined_gradients(traced):
    seen = []

    class Two(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            seen.append(ctx.needs_input_grad)
            return x * 2, y * 3

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g.tolist(), h.tolist()))
            return g * 2, h * 3

    f = jit.trace(lambda x, y: Two.apply(x, y)) if traced else Two.apply
    for _ in range(3):
        seen.clear()
        x, y = leaf(1.0), jit.ones(1)
        f(x, y)[0].sum().backward()
        assert seen == [(True, False), ([1.0], [0.0])] and x.grad.tolist() == [2]


@pytest.mark.parametrize("traced", [False, True])
def test_mark_dirty_and_non_differentiable(traced):
    class Half(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(0.5)
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            return x, sign

        @staticmethod
        def backward(ctx, g, _):
            return g * 0.5

    def f(x):
        y = x * 4
        z, sign = Half.apply(y)
        return z, y, sign

    f = jit.trace(f) if traced else f
    for _ in range(3):
        x = leaf(1.0, -2.0)
        z, y, sign = f(x)
        assert z is y and z.tolist() == [2, -4] and sign.tolist() == [1, -1] and not sign.requires_grad
        (z.sum() + y.sum()).backward()
        assert x.grad.tolist() == [4, 4]


@pytest.mark.parametrize("traced", [False, True])
def test_outputs_of_whole_numbers_and_bools_carry_no_gradient(traced):
    seen = []

    class Largest(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            value, index = x.max(0)
            ctx.save_for_backward(index)
            return value * 2, index, x > 0

        @staticmethod
        def backward(ctx, g, of_index, of_mask):
            seen.append((of_index.tolist(), of_mask.tolist()))
            (index,) = ctx.saved_tensors
            assert not index.requires_grad and index.grad_fn is None
            return jit.zeros(3).index_put((index,), g * 2)

    f = jit.trace(lambda x: Largest.apply(x)) if traced else Largest.apply
    for _ in range(3):
        x = leaf(1.0, 5.0, -2.0)
        value, index, mask = f(x)
        assert value.requires_grad and value.grad_fn is not None
        for whole in (index, mask):
            assert not whole.requires_grad and whole.grad_fn is None
        assert (index.item(), mask.tolist()) == (1, [True, True, False])
        value.backward()
        assert x.grad.tolist() == [0, 2, 0] and seen.pop() == (0, [0, 0, 0])


def test_what_a_function_must_not_do():
    class Wrong(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g, g

    with pytest.raises(jit.AutogradError, match="returned 2 gradients, but forward took 1"):
        Wrong.apply(leaf(1.0)).sum().backward()


def test_a_result_of_another_kind_than_recorded_is_an_error():
    class Moody(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.double() if float(x.sum()) < 0 else x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    f = jit.trace(lambda x: Moody.apply(x))
    f(jit.ones(2))
    with pytest.raises(jit.TraceError, match=r"test_function.py:\d+ .*Moody returned float64\[2\], but float32\[2\]"):
        f(-jit.ones(2))


def test_saved_tensors_are_freed_and_checked():
    x = leaf(1.0)
    y = Cube.apply(x * 1)
    y.sum().backward()
    with pytest.raises(jit.AutogradError, match="retain_graph=True"):
        y.sum().backward()
    inner = leaf(2.0) * 1
    z = Cube.apply(inner)
    inner.add_(1)
    with pytest.raises(jit.AutogradError, match="changed by an in-place"):
        z.sum().backward()


class ByNumpyOnce(jit.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @jit.autograd.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return jit.from_numpy(3 * x.detach().numpy() ** 2 * g.numpy())


@pytest.mark.parametrize("optimize", [None, False, True], ids=["eager", "traced", "optimised"])
def test_once_differentiable(optimize):
    def f(x: Any) -> Any:
        return ByNumpyOnce.apply(x) + x * x

    f = f if optimize is None else jit.trace(f, optimize=optimize)
    for _ in range(3):
        x, other = leaf(1.0, 2.0), leaf(3.0)
        f(x).sum().backward()
        assert x.grad.tolist() == [5, 16]
        (g,) = jit.grad((f(x) * other).sum(), x, create_graph=True)
        assert g.tolist() == [15, 48]
        with pytest.raises(
            jit.Error, match=r"ByNumpyOnceBackward .*test_function.py:\d+ .*once_differentiable|foreign"
        ):
            jit.grad(g.sum(), x)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_backward_inside_of_a_traced_function_that_ends_at_a_custom_function(create_graph):
    def f(x: Any) -> Any:
        (g,) = jit.grad(ByNumpyOnce.apply(x).sum(), x, create_graph=create_graph)
        return g * 2 + x

    traced = jit.trace(f)
    for number in (1.0, 2.0, 3.0):
        x = leaf(number)
        found = traced(x)
        assert found.tolist() == f(x).tolist() == [6 * number**2 + number]
        if create_graph:
            with pytest.raises(jit.AutogradError, match=r"ByNumpyOnceBackward .*is once_differentiable"):
                found.sum().backward()
        else:
            found.sum().backward()
            assert x.grad.tolist() == [1]
    assert (traced.hits, traced.misses) == (2, 1)
    traced.graph.verify()


def test_a_once_differentiable_backward_inside_of_a_trace_that_leaves_gradients_out():
    class Weighted(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, power: Any, weight: Any) -> Any:
            ctx.save_for_backward(x, weight)
            return x * weight

        @staticmethod
        @jit.autograd.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            x, weight = ctx.saved_tensors
            return g * weight, None, jit.from_numpy(g.numpy() * x.detach().numpy())

    def f(x: Any, weight: Any) -> Any:
        inner = x * 2
        of_inner, of_weight = jit.grad(Weighted.apply(inner, 2, weight).sum(), (inner, weight), create_graph=True)
        return 3 * of_inner + 10 * of_weight, inner

    traced = jit.trace(f)
    for number in (1.0, 2.0, 3.0):
        x, weight = leaf(number), leaf(number + 5)
        found, inner = traced(x, weight)
        assert found.tolist() == f(x, weight)[0].tolist() == [3 * (number + 5) + 20 * number]
        assert inner.tolist() == [2 * number]
    assert (traced.hits, traced.misses) == (2, 1)


def test_gradients_take_the_dtype_of_their_inputs():
    class Turned(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, z: Any) -> Any:
            return x * 2, z * 2

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return jit.complex(g * 2, g * 7), h.real.double() * 3

    x, z = leaf(1.0), jit.tensor([1 + 2j], requires_grad=True)
    first, second = Turned.apply(x, z)
    (first + second.real).sum().backward()
    assert x.grad.dtype is x.dtype and x.grad.tolist() == [2], "the real part, as the input is real"
    assert z.grad.dtype is z.dtype and z.grad.tolist() == [3]


def test_what_reaches_no_gradient_is_not_recorded():
    seen = []

    class Tripled(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return x * 3

    y = Tripled.apply(jit.ones(2))
    assert not y.requires_grad and y.grad_fn is None and seen == [(False,)]
    with jit.no_grad():
        y = Tripled.apply(leaf(1.0))
    assert not y.requires_grad and seen[1:] == [(False,)]


def test_what_a_function_leaves_out_is_said():
    class Empty(jit.autograd.Function):
        pass

    class OneWay(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

    with pytest.raises(jit.UsageError, match=r"define a static forward\(ctx, \.\.\.\)"):
        Empty.apply(leaf(1.0))
    with pytest.raises(jit.UsageError, match=r"define a static backward\(ctx, \.\.\.\)"):
        OneWay.apply(leaf(1.0)).sum().backward()


def test_saved_tensors_may_be_none_and_are_gone_with_the_graph():
    kept: list[Any] = []

    class Sometimes(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            kept.append(ctx)
            ctx.save_for_backward(x, weight)
            return x * x if weight is None else x * x * weight

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, weight = ctx.saved_tensors
            return 2 * x * g if weight is None else 2 * x * g * weight, None

    for weight, expected in ((None, 4), (jit.tensor([5.0]), 20)):
        x = leaf(2.0)
        Sometimes.apply(x, weight).sum().backward()
        assert x.grad.tolist() == [expected]
    kept.clear()
    y = Sometimes.apply(leaf(2.0), None)
    assert [t if t is None else t.tolist() for t in kept[0].saved_tensors] == [[2.0], None]
    del y
    with pytest.raises(jit.AutogradError, match="the saved tensors were freed"):
        kept[0].saved_tensors  # noqa: B018


def test_a_context_set_up_apart_from_forward():
    class Scaled(jit.autograd.Function):
        @staticmethod
        def forward(x: Any, factor: float) -> Any:
            return x * x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.factor = inputs
            assert output.shape == x.shape
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g * ctx.factor, None

    traced = jit.trace(lambda x: Scaled.apply(x, 3.0))
    for f in (lambda x: Scaled.apply(x, 3.0), traced, traced):
        x = leaf(1.0, 2.0)
        (g,) = jit.grad(f(x).sum(), x, create_graph=True)
        assert g.tolist() == [6, 12]
        assert jit.grad(g.sum(), x)[0].tolist() == [6, 6]


def test_outputs_that_are_no_tensors():
    class Counting(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, "text", None

        @staticmethod
        def backward(ctx: Any, g: Any, text: Any, nothing: Any) -> Any:
            assert text is None and nothing is None
            return 2 * g

    x = leaf(1.0)
    y, text, nothing = Counting.apply(x)
    y.backward()
    assert (text, nothing, x.grad.tolist()) == ("text", None, [2])
    with pytest.raises(jit.UsageError, match=r"returned str as output 1; in a traced function it must return tensors"):
        jit.trace(Counting.apply)(leaf(1.0))


def test_gradients_of_other_sizes_and_kinds():
    class Returning(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, made: Any) -> Any:
            ctx.made = made
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.made(g), None

    def gradient(made: Any) -> Any:
        x = leaf(1.0, 2.0)
        Returning.apply(x, made).sum().backward()
        return x.grad

    assert gradient(lambda g: jit.ones(3, 2)).tolist() == [3, 3]  # summed over what was broadcast
    assert gradient(lambda g: g.double()).dtype is jit.float32
    assert gradient(lambda g: None) is None
    with pytest.raises(jit.AutogradError, match=r"test_function.py:\d+ .* sizes \[3\] for input 0, .* \[2\]"):
        gradient(lambda g: jit.ones(3))
    with pytest.raises(jit.AutogradError, match=r"returned float as gradient 0"):
        gradient(lambda g: 1.0)
