"""Cases in further forms: writes to what is shown twice, functions that return an argument twice, exact numbers."""

import jit
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
