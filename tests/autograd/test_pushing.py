"""A custom Function's own `jvp`: what it gets, what its directions become, and what is refused."""

from typing import Any

import pytest

import jit
from jit.autograd import Function, forward_ad, gradcheck

unpack: Any = forward_ad.unpack_dual


class Product(Function):
    """x * y and x + 1, whose jvp can be told what to return."""

    seen: list[Any] = []
    materializes = True

    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any, y: Any) -> Any:
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x, y)
        ctx.set_materialize_grads(Product.materializes)
        ctx.factor = factor
        return x * y, x + 1

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y + h, None, g * x

    @staticmethod
    def jvp(ctx: Any, dx: Any, factor: Any, dy: Any) -> Any:
        Product.seen.append((dx, factor, dy))
        x, y = ctx.saved_tensors
        zero = jit.zeros_like(x)
        dx, dy = zero if dx is None else dx, zero if dy is None else dy
        return ctx.factor * (dx * y + x * dy), dx


X, Y = jit.tensor([2.0, 3.0], dtype=jit.float64), jit.tensor([5.0, 7.0], dtype=jit.float64)
DX, DY = jit.tensor([1.0, 0.5], dtype=jit.float64), jit.tensor([0.0, -2.0], dtype=jit.float64)


@pytest.mark.parametrize("factor", [1, 10])
def test_directions_are_those_of_jvp(factor):
    """Factor 10 is wrong, which shows who has computed them."""
    with forward_ad.dual_level():
        first, second = Product.apply(forward_ad.make_dual(X, DX), factor, forward_ad.make_dual(Y, DY))
        assert unpack(first).tangent.tolist() == (factor * (DX * Y + X * DY)).tolist()
        assert unpack(second).tangent is not None and unpack(second).tangent.tolist() == DX.tolist()
        later = (first * first + second).sin()
        slope = 2 * X * Y * factor * (DX * Y + X * DY) + DX
        assert jit.allclose(unpack(later).tangent, jit.cos(X * Y * X * Y + X + 1) * slope)


@pytest.mark.parametrize("materializes", [True, False])
def test_arguments_without_a_direction(materializes):
    Product.materializes = materializes
    try:
        with forward_ad.dual_level():
            Product.seen.clear()
            (out, _) = Product.apply(forward_ad.make_dual(X, DX), 1, Y)
            ((dx, factor, dy),) = Product.seen
            assert dx is DX and factor is None
            assert dy.tolist() == [0.0, 0.0] if materializes else dy is None
            assert unpack(out).tangent.tolist() == (DX * Y).tolist()
            Product.apply(X, 1, Y)
            assert len(Product.seen) == 1
    finally:
        Product.materializes = True


def test_gradients_go_on_through_backward():
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    with forward_ad.dual_level():
        out, _ = Product.apply(forward_ad.make_dual(x, DX), 10, y)
        by_x, by_y = jit.grad(unpack(out).primal.sum(), [x, y], retain_graph=True)
        assert by_x.tolist() == Y.tolist() and by_y.tolist() == X.tolist()
        assert unpack(unpack(out).primal).tangent is None
    assert [g.tolist() for g in jit.grad(out.sum(), [x, y])] == [Y.tolist(), X.tolist()]


def test_gradients_of_numbers_and_directions_reach_other_leaves():
    w = jit.tensor([4.0, 4.0], dtype=jit.float64, requires_grad=True)
    with forward_ad.dual_level():
        primal, tangent = unpack(forward_ad.make_dual(X, DX) * w * w)
        assert jit.grad(primal.sum(), w, retain_graph=True)[0].tolist() == (2 * w * X).tolist()
        assert jit.grad(tangent.sum(), w)[0].tolist() == (2 * w * DX).tolist()
        assert not unpack(forward_ad.make_dual(X, DX) * 2).primal.requires_grad


class OnlyForward(Function):
    """A Function that has no backward, and returns whole numbers beside."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        constant = x + 0
        ctx.mark_non_differentiable(constant)
        return x * 3, x.long(), constant

    @staticmethod
    def jvp(ctx: Any, dx: Any) -> Any:
        return dx * 3, None, None


def test_a_function_without_backward():
    with forward_ad.dual_level():
        out, whole, constant = OnlyForward.apply(forward_ad.make_dual(X, DX))
        assert unpack(out * out).tangent.tolist() == (2 * 3 * X * 3 * DX).tolist()
        assert unpack(whole).tangent is None and unpack(constant).tangent is None


def returning(made: Any) -> Any:
    """A Function of two results, of which the second has no derivative, with a jvp."""

    class Made(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rounded = x.round()
            ctx.mark_non_differentiable(rounded)
            return x * 1, rounded

        jvp = staticmethod(made)

    return Made


@pytest.mark.parametrize(
    ("jvp", "message"),
    [
        (lambda ctx, d: (d, d), "has no derivative"),
        (lambda ctx, d: d, "1 directions for 2 outputs"),
        (lambda ctx, d: (d, None, None), "3 directions for 2 outputs"),
    ],
)
def test_directions_that_do_not_go_with_the_outputs(jvp, message):
    with forward_ad.dual_level(), pytest.raises(jit.Error, match=message):
        returning(jvp).apply(forward_ad.make_dual(X, DX))


class Doubled(Function):
    """x, doubled in place."""

    @staticmethod
    def forward(ctx: Any, x: Any, in_place: bool) -> Any:
        ctx.mark_dirty(x)
        ctx.in_place = in_place
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g, None

    @staticmethod
    def jvp(ctx: Any, dx: Any, in_place: Any) -> Any:
        return dx.mul_(2) if ctx.in_place else dx * 2


def test_writes():
    with forward_ad.dual_level():
        x, direction = X.clone(), DX.clone()
        dual = forward_ad.make_dual(x, direction)
        assert Doubled.apply(dual, True) is dual
        assert unpack(dual).tangent is direction and direction.tolist() == (2 * DX).tolist()
        assert x.tolist() == (2 * X).tolist()
        assert unpack(dual * dual).tangent.tolist() == (2 * 2 * X * 2 * DX).tolist()
        with pytest.raises(jit.AutogradError, match="write to the direction"):
            Doubled.apply(forward_ad.make_dual(x, direction), False)


class Part(Function):
    """The first element, or all of them, as a view."""

    @staticmethod
    def forward(ctx: Any, x: Any, take: Any, take_direction: Any) -> Any:
        ctx.take_direction, ctx.sizes = take_direction, x.shape
        return take(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return jit.cat([g, g.new_zeros(ctx.sizes[0] - g.shape[0])]), None, None

    @staticmethod
    def jvp(ctx: Any, dx: Any, *rest: Any) -> Any:
        return ctx.take_direction(dx)


@pytest.mark.parametrize(
    ("take", "good", "bad"),
    [
        (lambda t: t[:1], lambda t: t[:1], lambda t: t[:1].clone()),
        (lambda t: t, lambda t: t.view_as(t), lambda t: t),
        (lambda t: t, lambda t: t.view_as(t), lambda t: t * 1),
    ],
)
def test_views(take, good, bad):
    with forward_ad.dual_level():
        out = Part.apply(forward_ad.make_dual(X, DX), take, good)
        assert unpack(out).tangent.tolist() == take(DX).tolist() and unpack(out).tangent._base is DX
        with pytest.raises(jit.AutogradError, match="the same view"):
            Part.apply(forward_ad.make_dual(X, DX), take, bad)


def test_a_dual_is_no_direction():
    with forward_ad.dual_level(), pytest.raises(jit.UsageError, match="dual itself"):
        forward_ad.make_dual(X, forward_ad.make_dual(X, DX) * 2)


@pytest.mark.filterwarnings("ignore:.* runs untraced from now on")
def test_a_traced_function_asks_jvp_in_every_call():
    @jit.trace
    def f(x: Any, direction: Any) -> Any:
        with forward_ad.dual_level():
            out, _ = Product.apply(forward_ad.make_dual(x, direction), 10, Y)
            return unpack(out * 2).tangent

    for scale in (1.0, 2.0, 3.0):
        assert f(X * scale, DX * scale).tolist() == (20 * scale * DX * Y).tolist()


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_of_directions(fast_mode):
    x, y = (t.clone().requires_grad_() for t in (X, Y))
    options: Any = {"check_forward_ad": True, "fast_mode": fast_mode}
    assert gradcheck(Product.apply, (x, 1, y), **options)
    assert gradcheck(lambda x, y: (x.exp() @ y, x.cumprod(0)), (x, y), **options)
    assert gradcheck(Product.apply, (x, 10, y), fast_mode=fast_mode)
    assert not gradcheck(Product.apply, (x, 10, y), raise_exception=False, **options)
    with pytest.raises(jit.VerificationError, match="disagrees with finite differences"):
        gradcheck(Product.apply, (x, 10, y), **options)
    assert gradcheck(lambda x: OnlyForward.apply(x)[0], (x,), check_backward_ad=False, **options)
    with pytest.raises(NotImplementedError, match="no backward"):
        gradcheck(lambda x: OnlyForward.apply(x)[0], (x,), **options)
