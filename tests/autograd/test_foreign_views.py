"""Views that custom Functions return, or that were taken under no_grad: writes to them are refused as in PyTorch.

The tables say which programs raise there; all others have the gradients that are worked out here by hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit.autograd import Function


def function(name: str, forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """A Function with these two methods, which do not look at its context."""
    members = {
        "forward": staticmethod(lambda ctx, x: forward(x)),
        "backward": staticmethod(lambda ctx, *g: backward(*g)),
    }
    return type(name, (Function,), members)


def in_row(g: Any, factor: float) -> Any:
    """The gradient of a first row of two, times a factor."""
    return jit.stack([g * factor, jit.zeros(2)])


def pair(x: Any) -> Any:
    y = x * 2
    return y, y[0]


View = function("View", lambda x: x.view(-1), lambda g: (g * 10).reshape(2, 2))
Row = function("Row", lambda x: x[0], lambda g: in_row(g, 10))
Deep = function("Deep", lambda x: x.t()[:, 1:].view(-1)[:2].unsqueeze(0), lambda g: g.reshape(1, 2) * jit.ones(2, 2))
Strided = function("Strided", lambda x: x.as_strided((2,), (1,)), lambda g: in_row(g, 10))
Same = function("Same", lambda x: x, lambda g: g * 10)
Inner = function("Inner", lambda x: (x * 2)[0], lambda g: in_row(g, 20))
Detached = function("Detached", lambda x: x.detach(), lambda g: g * 10)
Two = function("Two", lambda x: (x * 2, x.view(-1)), lambda g, h: g * 2 + (h * 10).reshape(2, 2))
Rows = function("Rows", lambda x: (x[0], x[1]), lambda g, h: jit.stack([g, h]) * 10)
SameAndNew = function("SameAndNew", lambda x: (x, x * 3), lambda g, h: g * 10 + h * 3)
Pair = function("Pair", pair, lambda g, h: g * 20 + in_row(h, 20))


def leaf() -> Any:
    return jit.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


def factor() -> Any:
    return jit.tensor(5.0, requires_grad=True)


def used(*tensors: Any) -> None:
    """Differentiate the sum of squares."""
    total: Any = sum((t * t).sum() for t in tensors)
    total.backward()


# -- one output --------------------------------------------------------------------------------------------------


def written(f: Any, b: Any) -> Any:
    v = f(b)
    v.mul_(2)


def overwritten(f: Any, b: Any) -> Any:
    f(b).zero_()


def view_written(f: Any, b: Any) -> Any:
    v = f(b)
    v[:1].mul_(2)


def view_of_view_written(f: Any, b: Any) -> Any:
    v = f(b)
    v.view(-1)[1:].t().add_(1)


def strided_view_written(f: Any, b: Any) -> Any:
    v = f(b)
    v.as_strided((1,), (1,)).mul_(2)


def assigned(f: Any, b: Any) -> Any:
    v = f(b)
    v[..., 0] = 7


def assigned_by_mask(f: Any, b: Any) -> Any:
    v = f(b)
    v[v > 1] = 7


def copied_over(f: Any, b: Any) -> Any:
    v = f(b)
    v.copy_(jit.ones(v.shape))


def turned_and_written(f: Any, b: Any) -> Any:
    v = f(b)
    v.unsqueeze_(0)
    v.mul_(2)


def written_by_what_requires_grad(f: Any, b: Any) -> Any:
    v = f(b)
    v.mul_(factor())


def function_of_view(f: Any, b: Any) -> Any:
    v = f(b.view(2, 2))
    v.mul_(2)


def written_as_out(f: Any, b: Any) -> Any:
    with jit.no_grad():
        v = f(b)
        jit.add(v.detach(), 1, out=v)
    used(v)


def base_written(f: Any, b: Any) -> Any:
    v = f(b)
    b.mul_(2)
    used(v)


def other_view_written(f: Any, b: Any) -> Any:
    v = f(b)
    b.view(-1).mul_(2)
    used(v)


def written_without_grad(f: Any, b: Any) -> Any:
    v = f(b)
    with jit.no_grad():
        v.mul_(2)
    used(v)


def written_detached(f: Any, b: Any) -> Any:
    v = f(b)
    v.detach().mul_(2)
    used(v)


def taken_without_grad(f: Any, b: Any) -> Any:
    with jit.no_grad():
        v = f(b)
    v.mul_(2)


def detached_in_place(f: Any, b: Any) -> Any:
    v = f(b)
    v.detach_()


DIRECT = [
    written, overwritten, view_written, view_of_view_written, strided_view_written, assigned, assigned_by_mask,
    copied_over, turned_and_written, written_by_what_requires_grad, function_of_view, written_without_grad,
    written_detached, detached_in_place,
]  # fmt: skip
THROUGH_BASE = [base_written, other_view_written]
VIEWS = [View, Row, Deep, Strided, Same]


def refused(program: Callable[[Any, Any], Any], made: Any, b: Any) -> None:
    with pytest.raises(jit.AutogradError) as raised:
        program(made.apply, b)
    if program is not detached_in_place:
        text = str(raised.value)
        assert "test_foreign_views.py" in text and text.count("test_foreign_views.py:") >= 2, text


@pytest.mark.parametrize("program", [*DIRECT, *THROUGH_BASE], ids=lambda p: p.__name__)
@pytest.mark.parametrize("made", VIEWS, ids=lambda f: f.__name__)
def test_view_of_an_input(made: Any, program: Any) -> None:
    refused(program, made, leaf() * 1)


@pytest.mark.parametrize("program", DIRECT, ids=lambda p: p.__name__)
def test_view_of_a_result_of_its_own(program: Any) -> None:
    refused(program, Inner, leaf() * 1)


@pytest.mark.parametrize("program", [*DIRECT, *THROUGH_BASE], ids=lambda p: p.__name__)
def test_detached_is_no_view(program: Any) -> None:
    program(Detached.apply, leaf() * 1)


@pytest.mark.parametrize("made", [View, Row, Strided], ids=lambda f: f.__name__)
def test_taken_without_grad(made: Any) -> None:
    with pytest.raises(jit.AutogradError, match="a view, is written to in place"):
        taken_without_grad(made.apply, leaf() * 1)


def test_an_input_as_it_came_without_grad_is_detached() -> None:
    b = leaf() * 1
    taken_without_grad(Same.apply, b)
    assert b.tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize("made", VIEWS, ids=lambda f: f.__name__)
def test_written_under_no_grad_alone(made: Any) -> None:
    """Views and writes both under no_grad, and views of what requires no gradient, are anybody's."""
    b = leaf() * 1
    with jit.no_grad():
        made.apply(b).fill_(7)
    assert 7 in b.detach().view(-1).tolist()
    used(b)
    plain = leaf().detach()
    view = made.apply(plain)
    view.fill_(7)
    assert 7 in plain.view(-1).tolist() and not view.requires_grad


@pytest.mark.parametrize("made", VIEWS, ids=lambda f: f.__name__)
def test_of_plain_memory_written_by_what_requires_grad(made: Any) -> None:
    with pytest.raises(jit.AutogradError, match="is written to in place"):
        made.apply(leaf().detach()).mul_(factor())


@pytest.mark.parametrize(("made", "scale"), [(View, 10), (Same, 10), (Detached, 10)], ids=str)
def test_clone_may_be_written(made: Any, scale: int) -> None:
    x = leaf()
    v = made.apply(x * 1).clone()
    v.mul_(2)
    used(v)
    assert (x.grad == x.detach() * 8 * scale).all()


def test_the_base_keeps_its_history() -> None:
    """It is written to beside the view, which nobody uses."""
    for made in VIEWS:
        x = leaf()
        b = x * 1
        view = made.apply(b)
        b.mul_(2)
        used(b)
        assert (x.grad == x.detach() * 8).all() and view.requires_grad


def test_what_the_error_says() -> None:
    v = View.apply(leaf() * 1)
    with pytest.raises(jit.AutogradError, match=r"^output 0 of ViewBackward \(called at .*:\d+ in test_what.*\), a v"):
        v.mul_(2)
    b = leaf() * 1
    _, v = Two.apply(b)
    b.mul_(2)
    with pytest.raises(jit.AutogradError, match=r"output 1 of TwoBackward .* was written to in place at .*several out"):
        used(v)


# -- several outputs ---------------------------------------------------------------------------------------------


def write_first(made: Any, b: Any) -> None:
    made(b)[0].mul_(2)


def write_second(made: Any, b: Any) -> None:
    made(b)[1].mul_(2)


def write_view_of_second(made: Any, b: Any) -> None:
    made(b)[1][:1].mul_(2)


def write_first_use_second(made: Any, b: Any) -> None:
    u, v = made(b)
    u.mul_(2)
    used(v)


def write_base_use_first(made: Any, b: Any) -> None:
    u, _ = made(b)
    b.mul_(2)
    used(u)


def write_base_use_second(made: Any, b: Any) -> None:
    _, v = made(b)
    b.mul_(2)
    used(v)


SEVERAL: dict[Any, list[Any]] = {
    Two: [write_second, write_view_of_second, write_base_use_second],
    Rows: [
        write_first, write_second, write_view_of_second, write_first_use_second, write_base_use_first,
        write_base_use_second,
    ],
    SameAndNew: [write_first, write_base_use_first],
    Pair: [write_second, write_view_of_second, write_first_use_second],
}  # fmt: skip


@pytest.mark.parametrize("program", SEVERAL[Rows], ids=lambda p: p.__name__)
@pytest.mark.parametrize("made", SEVERAL, ids=lambda f: f.__name__)
def test_several(made: Any, program: Any) -> None:
    if program in SEVERAL[made] or (made is SameAndNew and program is write_first_use_second):
        with pytest.raises(jit.AutogradError, match="several outputs"):
            program(made.apply, leaf() * 1)
    else:
        program(made.apply, leaf() * 1)


# -- mark_dirty and mark_non_differentiable ----------------------------------------------------------------------


def dirty(returned: Callable[[Any], Any], derivative: Callable[..., Any]) -> Any:
    class Dirty(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(3)
            ctx.mark_dirty(x)
            return returned(x)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return derivative(*gradients)

    return Dirty


Tripled = dirty(lambda x: x, lambda g: g * 3)


@pytest.mark.parametrize("view", [lambda b: b, lambda b: b[:], lambda b: b.view(4).view(2, 2)])
def test_dirty(view: Any) -> None:
    x = leaf()
    b = x * 1
    target = view(b)
    found = Tripled.apply(target)
    assert found is target
    found.mul_(2)
    used(b)
    assert (x.grad == x.detach() * 72).all() and (b.detach() == x.detach() * 6).all()


def test_dirty_beside_another_output() -> None:
    x = leaf()
    b = x * 1
    v, double = dirty(lambda x: (x, x * 2), lambda g, h: g * 3 + h * 6).apply(b)
    assert v is b
    double.mul_(2)
    used(v, double)
    assert (x.grad == x.detach() * (18 + 4 * 72)).all()


def test_dirty_view_of_a_function() -> None:
    for view in (View.apply(leaf() * 1), View.apply(leaf() * 1)[1:], Same.apply(leaf() * 1)):
        with pytest.raises(jit.AutogradError, match="is written to in place"):
            Tripled.apply(view)


def test_dirty_leaf() -> None:
    with pytest.raises(jit.AutogradError, match="leaf that requires grad"):
        Tripled.apply(leaf())


@pytest.mark.parametrize("returned", [lambda x: x.view(-1), lambda x: x * 1, lambda x: (x * 1, x[0])])
def test_dirty_and_not_returned(returned: Any) -> None:
    made = dirty(returned, lambda *g: None)
    for b in (leaf() * 1, leaf().detach()):
        with pytest.raises(jit.AutogradError, match="marked an argument as dirty that it did not return"):
            made.apply(b)


def test_dirty_that_is_no_argument() -> None:
    class Odd(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf()
    with pytest.warns(UserWarning, match="none of its arguments"):
        y = Odd.apply(x)
    used(y)
    assert (x.grad == x.detach() * 8).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tripled.apply(leaf() * 1)


def test_not_differentiable() -> None:
    class Constant(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, kind: str) -> Any:
            y = x if kind == "same" else x.view(-1)
            ctx.mark_non_differentiable(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise AssertionError("nobody should ask")

    b = leaf() * 1
    same = Constant.apply(b, "same")
    assert same is not b and not same.requires_grad and b.requires_grad
    same.mul_(2)
    assert b.tolist() == [[2, 4], [6, 8]]
    view = Constant.apply(b, "view")
    assert not view.requires_grad
    with pytest.raises(jit.AutogradError, match="is written to in place"):
        view.mul_(2)


def test_an_input_returned_twice() -> None:
    made = function("Twice", lambda x: (x, x), lambda g, h: (g + h) * 5)
    x = leaf()
    b = x * 1
    u, v = made.apply(b)
    assert u is not v and u is not b and u._base is b and v._base is b
    used(u, v)
    assert (x.grad == x.detach() * 20).all()


def test_each_place_in_which_an_input_is_returned_has_its_gradient() -> None:
    made = function("Weighted", lambda x: (x, x, x * 1), lambda g, h, k: g + h * 10 + k * 100)
    x = leaf()
    u, v, w = made.apply(x * 1)
    (u * 2 + v * 3 + w * 5).sum().backward()
    assert (x.grad == 532).all()
    for output in made.apply(x * 1)[:2]:
        with pytest.raises(jit.AutogradError, match="a Function with several outputs"):
            output.mul_(2)


# -- no_grad -----------------------------------------------------------------------------------------------------


def taken(b: Any, view: Callable[[Any], Any] = lambda b: b[0]) -> Any:
    with jit.no_grad():
        return view(b)


TAKEN = [
    lambda b: b[0], lambda b: b.view(-1), lambda b: b.t(), lambda b: b.unbind(0)[1], lambda b: b.as_strided((2,), (1,)),
    lambda b: b.diagonal(),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TAKEN)))
def test_view_under_no_grad(number: int) -> None:
    for source in (leaf(), leaf() * 1):
        v = taken(source, TAKEN[number])
        for write in (lambda v: v.mul_(2), lambda v: v.view(-1)[:1].mul_(2) if v.is_contiguous() else v.zero_()):
            with pytest.raises(jit.AutogradError, match=r"taken under no_grad is written to in place at"):
                write(v)
    plain = taken(leaf().detach(), TAKEN[number])
    plain.mul_(2)
    with pytest.raises(jit.AutogradError, match=r"taken under no_grad is written to in place at"):
        plain.mul_(factor())


def test_view_under_no_grad_whose_base_is_written() -> None:
    b = leaf() * 1
    v = taken(b)
    b.mul_(2)
    with pytest.raises(jit.AutogradError, match=r"taken under no_grad is used at .* but its base.* written to .* at"):
        used(v)
    late = leaf().detach()
    v = taken(late)
    late.mul_(factor())
    assert v.requires_grad
    with pytest.raises(jit.AutogradError, match=r"taken under no_grad is used"):
        used(v)


def test_both_under_no_grad() -> None:
    x = leaf()
    b = x * 1
    with jit.no_grad():
        b[0].mul_(2)
    used(b)
    assert x.grad.tolist() == [[4, 8], [6, 8]]


def test_taken_with_grad_and_written_under_no_grad() -> None:
    x = leaf()
    v = (x * 1)[0]
    with jit.no_grad():
        v.mul_(2)
    used(v)
    assert x.grad.tolist() == [[4, 8], [0, 0]]


def test_parameters_are_initialised_through_views() -> None:
    """What layers and optimizers do."""
    layer = jit.nn.Linear(2, 2)
    with jit.no_grad():
        layer.weight[0].fill_(1)
        layer.weight.view(-1)[2:].zero_()
    used(layer(jit.ones(1, 2)))
    assert layer.weight.tolist() == [[1, 1], [0, 0]] and layer.weight.grad is not None


# -- in traced functions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [p for p in DIRECT if p not in (written_without_grad, written_detached)])
@pytest.mark.parametrize("made", [*VIEWS, Inner], ids=lambda f: f.__name__)
def test_traced(made: Any, program: Any) -> None:
    traced = jit.trace(lambda b: program(made.apply, b))
    for _ in range(3):
        with pytest.raises(jit.AutogradError):
            traced(leaf() * 1)


@pytest.mark.parametrize("made", VIEWS, ids=lambda f: f.__name__)
def test_traced_use_after_a_write(made: Any) -> None:
    for program in (*THROUGH_BASE, written_without_grad, written_detached):
        with pytest.raises((jit.AutogradError, jit.TraceError)):
            jit.trace(lambda b, program=program: program(made.apply, b))(leaf() * 1)


def test_traced_clone() -> None:
    def f(x: Any) -> Any:
        v = View.apply(x * 1).clone()
        v.mul_(2)
        return v + Same.apply(x).view(-1)

    traced = jit.trace(f)
    for _ in range(3):
        x, y = leaf(), leaf()
        used(f(x))
        used(traced(y))
        assert (x.grad == y.grad).all()
    assert traced.hits
