"""Cases in further forms: writes to what is shown twice, functions that return an argument twice, exact numbers."""

import ipaddress
from statistics import stdev as spread

import jit
from jit import nn
from tests.adversarial.trial import Trial, case


def matrix(start: float) -> jit.Tensor:
    """A float32 leaf of two rows and three columns."""
    return (jit.arange(6.0).reshape(2, 3) * 0.5 + start).requires_grad_()


# -- writes through views in which elements share places ---------------------------------------------------------


@case(exact=False)
def a_row_of_an_expanded_row_is_written(t: Trial) -> None:
    def f(x):
        y = x * 1
        y[0].expand(2, 3)[0].mul_(2)
        return y * y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, matrix(a))


@case(exact=False)
def a_diagonal_of_an_expanded_row_is_written(t: Trial) -> None:
    def f(x):
        y = x * 1
        view = y[0].expand(3, 3).diagonal()
        view.mul_(x.sum())
        return y * y, view + 1

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, matrix(a))


@case()
def a_window_of_overlapping_ones_is_written(t: Trial) -> None:
    f = t.trace(lambda x: x.unfold(0, 2, 1).unfold(1, 2, 1)[0, 0].add_(10).sum())
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a).detach())


@case()
def one_of_broadcast_arguments_is_written(t: Trial) -> None:
    def f(x, y):
        _, wide = jit.broadcast_tensors(x, y)
        wide[1].copy_(x[0])
        return x + y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a).detach(), jit.arange(3.0) - a)


@case()
def a_row_of_overlapping_strides_is_written(t: Trial) -> None:
    def f(x):
        x.t().as_strided((2, 3), (0, 1), 1)[1, :2].add_(7)
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a).detach())


# -- functions of the user's -------------------------------------------------------------------------------------


class Twice(jit.autograd.Function):
    """Its argument, in two places."""

    @staticmethod
    def forward(ctx, x):
        return x, x

    @staticmethod
    def backward(ctx, g, h):
        return g + h * 10


@case(exact=False)
def an_argument_is_returned_in_two_places(t: Trial) -> None:
    def f(x):
        first, second = Twice.apply(x * 1)
        return first * second + second

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, matrix(a))


# -- what a call leaves behind -----------------------------------------------------------------------------------


@case()
def a_layer_is_made_when_it_is_first_called(t: Trial) -> None:
    class Late(nn.Module):
        def forward(self, x):
            if not hasattr(self, "inner"):
                self.inner = nn.Linear(x.shape[-1], 2)
                self.scale = nn.Parameter(jit.full((2,), 3.0))
            return self.inner(x) * self.scale, x * 2

    module = Late()
    f = t.trace(module)
    for a in (1.0, 2.0, 3.0):
        x = matrix(a)
        result = f(x)
        gradients = jit.grad((result[0] ** 2).sum(), [x, module.scale, module.inner.weight], create_graph=True)
        t.see("first", gradients)
        t.see("second", jit.grad(gradients[0].sum(), [module.scale, module.inner.weight]))
        t.call(f, x)
        t.see("accumulated", [module.scale.grad, module.inner.bias.grad])


@case(must_hit=False)
def a_parameter_is_replaced_in_every_call(t: Trial) -> None:
    class Renewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(jit.ones(3))

        def forward(self, x):
            self.weight = nn.Parameter(self.weight.detach() * 2)
            return x * self.weight

    module = Renewing()
    f = t.trace(module)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a))
        t.see("gradient", module.weight.grad)


@case(must_hit=False)
def gradients_of_what_is_kept_are_asked_for(t: Trial) -> None:
    kept = {}

    def f(x, w):
        kept["hidden"] = x * w
        return kept["hidden"] * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x, w = matrix(a), matrix(2 * a)
        t.see("result", f(x, w))
        t.see("asked for", jit.grad(kept["hidden"].sum(), [x, w], retain_graph=True))
        kept["hidden"].sum().backward()
        t.see("accumulated", [x.grad, w.grad])


# -- code in C that takes exact numbers alone ----------------------------------------------------------------------


@case()
def exact_sizes_for_code_that_nobody_knows(t: Trial) -> None:
    f = t.trace(lambda x: x * int(ipaddress.IPv4Address(x.shape[0])))
    for n in (2, 3, 4, 2, 3):
        t.call(f, jit.ones(n))


@case()
def exact_elements_for_code_that_nobody_knows(t: Trial) -> None:
    f = t.trace(lambda x: x * spread([x.sum().item(), 3.0, 4.0]))
    for a in (1.0, 2.0, 1.0, 2.0):
        t.call(f, jit.full((2,), a))
