"""Views that custom Functions return, queries that see nothing, special values, and views of permuted operands."""

import math

import numpy as np

import jit
from jit import nn
from jit.autograd import Function
from tests.adversarial.trial import Trial, case

INF, NAN = math.inf, math.nan


def matrix(start: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf of two rows and columns."""
    return (jit.arange(4).reshape(2, 2).float() * 0.5 + start).requires_grad_(grad)


class Flat(Function):
    """A view of its argument, whose gradient is ten times too large."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return (g * 10).view(2, 2)


class Same(Function):
    """Its argument."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


class Rows(Function):
    """Two views."""

    @staticmethod
    def forward(ctx, x):
        return x[0], x[1]

    @staticmethod
    def backward(ctx, g, h):
        return jit.stack([g, h]) * 10


class Tripled(Function):
    """Writes to its argument and says so."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Hidden(Function):
    """Writes to its argument, says so, and does not return it."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * 3


def refused(t: Trial, body) -> None:
    """A function that raises in eager mode and has to raise the same from a recording."""
    f = t.trace(body)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a))
        t.call(f, matrix(a) * 2)


# -- writes to views of custom functions -------------------------------------------------------------------------


@case(must_hit=False)
def view_of_a_function_is_written(t: Trial) -> None:
    def f(x):
        v = Flat.apply(x * 1)
        v.mul_(2)
        return v.sum()

    refused(t, f)


@case(must_hit=False)
def argument_that_a_function_returned_is_written(t: Trial) -> None:
    def f(x):
        v = Same.apply(x * 1)
        v.add_(x)
        return v * x

    refused(t, f)


@case(must_hit=False)
def view_of_the_view_of_a_function_is_written(t: Trial) -> None:
    def f(x):
        v = Flat.apply(x * 1)
        v[1:].view(3, 1)[::2].zero_()
        return v * 2

    refused(t, f)


@case(must_hit=False)
def one_of_the_views_of_a_function_is_assigned_to(t: Trial) -> None:
    def f(x):
        _, second = Rows.apply(x * 1)
        second[0] = x.sum()
        return second

    refused(t, f)


@case(must_hit=False)
def view_of_a_function_is_handed_to_one_that_writes(t: Trial) -> None:
    refused(t, lambda x: Tripled.apply(Flat.apply(x * 1)))


@case(must_hit=False)
def argument_of_a_function_is_dirty_and_not_returned(t: Trial) -> None:
    refused(t, lambda x: Hidden.apply(x * 1))


@case(must_hit=False)
def view_of_a_function_is_written_in_a_branch(t: Trial) -> None:
    def f(x):
        v = Flat.apply(x * 1)
        if x.sum().item() > 0:
            v.mul_(x.sum())
        return v

    refused(t, f)


@case()
def view_of_a_function_is_cloned_and_written(t: Trial) -> None:
    def f(x):
        v = Flat.apply(x * 1).clone()
        v[1:].mul_(x.sum())
        return v + Same.apply(x).view(-1)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x = matrix(a)
        t.call(f, x)
        t.see("gradient", x.grad)


@case()
def views_of_functions_are_read_alone(t: Trial) -> None:
    def f(x):
        first, second = Rows.apply(x * 2)
        return first * second + Flat.apply(x)[:2] * Same.apply(x)[1]

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a))


@case()
def function_writes_to_an_intermediate(t: Trial) -> None:
    def f(x):
        y = x * 2
        z = Tripled.apply(y)
        z.add_(1)
        return y * z * x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a))


@case()
def function_writes_to_a_view_of_an_intermediate(t: Trial) -> None:
    def f(x):
        y = x * 2
        Tripled.apply(y[0])
        return y * x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a))


@case(must_hit=False)
def view_taken_under_no_grad_is_written(t: Trial) -> None:
    def f(x):
        y = x * 1
        with jit.no_grad():
            v = y[0]
        v.mul_(2)
        return y

    refused(t, f)


@case()
def view_is_taken_and_written_under_no_grad(t: Trial) -> None:
    def f(x):
        y = x * 1
        with jit.no_grad():
            y[0].mul_(2)
            y.t()[1].add_(1)
        return y * x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a))


# -- queries that see nothing ------------------------------------------------------------------------------------


def sequences(seed: int) -> list[jit.Tensor]:
    rng = np.random.default_rng(seed)
    return [jit.tensor(rng.standard_normal((2, 3, 4)).astype(np.float32)).requires_grad_() for _ in range(3)]


@case(exact=False)
def attention_by_a_mask_of_numbers_that_changes(t: Trial) -> None:
    f = t.trace(lambda q, k, v, m: nn.functional.scaled_dot_product_attention(q, k, v, m))
    for seed, row in enumerate((0, 1, 2, 1)):
        mask = jit.zeros(3, 3)
        mask[row] = -INF
        t.call(f, *sequences(seed), mask)


@case(exact=False)
def attention_by_a_mask_that_is_computed(t: Trial) -> None:
    def f(q, k, v, lengths):
        seen = jit.arange(3).unsqueeze(0) < lengths.unsqueeze(1)
        return nn.functional.scaled_dot_product_attention(q, k, v, seen.unsqueeze(1).expand(2, 3, 3))

    f = t.trace(f)
    for seed, lengths in enumerate(([3, 2], [0, 1], [2, 0], [0, 0])):
        t.call(f, *sequences(seed), jit.tensor(lengths))


@case(exact=False)
def layer_whose_padding_hides_a_whole_sequence(t: Trial) -> None:
    jit.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    f = t.trace(lambda x, hidden: layer(x, x, x, key_padding_mask=hidden, need_weights=False)[0])
    t.watch(weight=layer.in_proj_weight)
    for seed, hidden in enumerate(([[0, 0, 1], [1, 1, 1]], [[1, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 1, 1]])):
        layer.zero_grad()
        t.call(f, sequences(seed)[0], jit.tensor(hidden).bool())


@case(exact=False)
def weights_of_a_query_that_sees_nothing_are_nan(t: Trial) -> None:
    jit.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    hidden = jit.tensor([[True, True, True], [False, False, True]])
    f = t.trace(lambda x: layer(x, x, x, key_padding_mask=hidden))
    for seed in range(3):
        t.call(f, sequences(seed)[0].detach(), backward=False)


# -- special values ----------------------------------------------------------------------------------------------


@case()
def signs_of_special_values(t: Trial) -> None:
    f = t.trace(lambda x: (jit.sign(x), jit.sgn(x) + 1, x.abs(), jit.lgamma(x), (x * 2).sign().sum()))
    for numbers in ([NAN, INF, -INF], [0.0, -0.0, NAN], [1.0, -2.0, NAN]):
        t.call(f, jit.tensor(numbers, requires_grad=True))


@case()
def decisions_on_signs_of_special_values(t: Trial) -> None:
    def f(x):
        return x * 2 if jit.sign(x[0]) == 0 else x * 3

    f = t.trace(f)
    for number in (NAN, 1.0, 0.0, NAN, -INF):
        t.call(f, jit.tensor([number, 1.0]))


# -- results are row-major ---------------------------------------------------------------------------------------


def permuted(start: float) -> jit.Tensor:
    return (jit.arange(24).float() + start).reshape(2, 3, 4)


@case()
def view_of_a_sum_of_permuted_operands(t: Trial) -> None:
    f = t.trace(lambda x: (x.permute(2, 0, 1) + 1).view(4, 6))
    for a in (1.0, 2.0, 3.0):
        t.call(f, permuted(a))


@case()
def write_to_a_view_of_a_product_of_permuted_operands(t: Trial) -> None:
    def f(x):
        y = x.permute(1, 2, 0) * 2
        y.view(12, 2)[::5].zero_()
        y.view(-1)[3] = x.sum()
        return y, y.t() if y.ndim == 2 else y.transpose(0, 1).reshape(-1)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, permuted(a))


@case(must_hit=False)
def view_of_permuted_memory_is_refused(t: Trial) -> None:
    f = t.trace(lambda x: x.permute(2, 0, 1).view(4, 6))
    for a in (1.0, 2.0):
        t.call(f, permuted(a))


@case()
def devices_are_asked_for(t: Trial) -> None:
    def f(x):
        same = x.device == jit.device("cpu")
        return jit.ones(2, device=x.device) * (2 if same else 3) + x.to("cpu"), x.device

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, jit.full((2,), a, device=jit.device("cpu", 0)))
