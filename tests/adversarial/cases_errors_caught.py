"""Cases about how errors are caught, and about those of modules, derivatives and functions of the user's."""

import contextlib

import numpy as np

import jit
import jit.nn.functional as F
from tests.adversarial.cases_errors import BAD, GOOD, alternate, ints, over_sizes, ramp
from tests.adversarial.trial import Trial, case

# -- how errors are caught ---------------------------------------------------------------------------------------


@case()
def else_and_finally(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        y = x * 1
        try:
            z = x[i]
        except IndexError:
            y = y + 10
        else:
            y = y + z.sum()
        finally:
            y = y * 2
        return y

    alternate(t, f, lambda: (ramp(4, grad=True), ints(*GOOD)), lambda: (ramp(4, grad=True), ints(*BAD)))


@case()
def suppressed(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        y = x.sum()
        with contextlib.suppress(IndexError):
            y = y + x[i].prod()
        return y

    alternate(t, f, lambda: (ramp(4, grad=True), ints(*GOOD)), lambda: (ramp(4, grad=True), ints(*BAD)))


@case()
def bare_except(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return jit.index_select(x, 0, i)
        except:  # noqa: E722
            return x.neg()

    alternate(t, f, lambda: (ramp(4), ints(*GOOD)), lambda: (ramp(4), ints(*BAD)))


@case()
def nested_try_and_another_error_in_the_handler(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor, j: jit.Tensor) -> jit.Tensor:
        try:
            try:
                return x[i]
            except IndexError:
                return x[j] * 100
        except IndexError:
            return x

    g = t.trace(f)
    for i, j in ((GOOD, BAD), (BAD, GOOD), (BAD, BAD), (GOOD, GOOD), (BAD, GOOD), (BAD, BAD), (GOOD, BAD)):
        t.call(g, ramp(4, grad=True), ints(*i), ints(*j))


@case()
def which_of_several_raises(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor, j: jit.Tensor) -> jit.Tensor:
        done = 0
        try:
            y = x[i]
            done = 1
            y = y + x[j]
            done = 2
            return y
        except IndexError:
            return x * done

    g = t.trace(f)
    for i, j in ((GOOD, BAD), (BAD, GOOD), (BAD, BAD), (GOOD, GOOD), (BAD, GOOD), (GOOD, BAD), (GOOD, GOOD)):
        t.call(g, ramp(4), ints(*i), ints(*j))


@case()
def retry_with_smaller_indices(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        for _ in range(4):
            try:
                return x[i]
            except IndexError:
                i = i - 3
        return x

    g = t.trace(f)
    for index in (1, 4, 7, 30, 1, 4, 7, 30, 2):
        t.call(g, ramp(4), jit.tensor([index]))


@case()
def error_in_a_helper(t: Trial) -> None:
    def pick(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        return (x * 2)[i]

    def safe(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return pick(x, i)
        except LookupError:
            return x[:2]

    alternate(
        t, lambda x, i: safe(x, i) + 1, lambda: (ramp(4, grad=True), ints(*GOOD)),
        lambda: (ramp(4, grad=True), ints(*BAD)),
    )  # fmt: skip


@case()
def raised_again_as_another(t: Trial) -> None:
    def checked(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x[i]
        except IndexError as error:
            raise KeyError("no such word") from error

    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return checked(x, i)
        except KeyError:
            return x

    alternate(t, f, lambda: (ramp(4), ints(*GOOD)), lambda: (ramp(4), ints(*BAD)))


@case()
def uncaught_errors_come_out(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x[i]
        finally:
            x.add_(1)

    alternate(t, f, lambda: (ramp(4), ints(*GOOD)), lambda: (ramp(4), ints(*BAD)))


@case()
def wrong_class_is_not_caught(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x[i]
        except ZeroDivisionError:
            return x

    alternate(t, f, lambda: (ramp(4), ints(*GOOD)), lambda: (ramp(4), ints(*BAD)))


@case()
def own_error_by_a_size(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            if len(x) % 2:
                raise ValueError("odd")
            return x * 2
        except ValueError:
            return x * 3

    over_sizes(t, f, 4, 6, 5, 8, 7, 9)


@case(must_hit=False)
def text_of_an_error(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> tuple[jit.Tensor, str]:
        try:
            return x[i], ""
        except IndexError as error:
            return x, str(error)

    g = t.trace(f)
    for index in (GOOD, BAD, [1, 7], BAD, GOOD, [8, 1]):
        t.call(g, ramp(4), ints(*index))


@case(must_hit=False)
def arguments_of_an_error(t: Trial) -> None:
    def f(x: jit.Tensor) -> tuple[jit.Tensor, int]:
        try:
            return x.reshape(2, 2), 0
        except ValueError as error:
            return x, len(error.args[0])

    over_sizes(t, f, 4, 5, 6, 123456, 4)


@case()
def error_that_is_kept_as_a_flag(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> tuple[jit.Tensor, bool]:
        failed = None
        try:
            x[i]
        except IndexError as error:
            failed = error
        return x * 2, failed is not None

    alternate(t, f, lambda: (ramp(4), ints(*GOOD)), lambda: (ramp(4), ints(*BAD)))


# -- modules, gradients, functions of the user's -----------------------------------------------------------------


class Safe(jit.nn.Module):
    """A layer that answers unknown words with its bias."""

    def __init__(self) -> None:
        super().__init__()
        self.table = jit.nn.Embedding(4, 3)
        self.bias = jit.nn.Parameter(jit.ones(3))

    def forward(self, i: jit.Tensor) -> jit.Tensor:
        try:
            return self.table(i).sum(0) + self.bias
        except IndexError:
            return self.bias * 2


@case()
def error_in_a_module(t: Trial) -> None:
    jit.manual_seed(1)
    module = Safe()
    f = t.trace(lambda i: module(i))
    t.watch(weight=module.table.weight, bias=module.bias)
    for index in (BAD, GOOD, BAD, GOOD, GOOD, BAD):
        t.call(f, ints(*index))


@case()
def linear_of_the_wrong_width(t: Trial) -> None:
    jit.manual_seed(1)
    narrow, wide = jit.nn.Linear(3, 2), jit.nn.Linear(5, 2)

    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return narrow(x)
        except RuntimeError:
            return wide(x)

    g = t.trace(f)
    for n in (3, 5, 3, 5, 5, 4, 3):
        t.call(g, ramp(2, n, grad=True))


@case()
def loss_that_is_skipped(t: Trial) -> None:
    w = ramp(4, 3).requires_grad_()
    t.watch(w=w)

    def step(i: jit.Tensor) -> float:
        w.grad = None
        try:
            loss = F.embedding(i, w).square().mean()
        except IndexError:
            loss = (w * w).sum()
        loss.backward()
        with jit.no_grad():
            w.sub_(0.1 * w.grad)  # type: ignore[operator]
        return loss.item()

    f = t.trace(step)
    for index in (GOOD, BAD, GOOD, BAD, BAD, GOOD):
        t.call(f, ints(*index), backward=False)


@case()
def second_backward_inside(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        y = x * 1
        loss = (y * y).sum()
        (g,) = jit.grad(loss, [y])
        try:
            (g,) = jit.grad(loss, [y])
        except RuntimeError:
            g = g * 2
        return g.detach() + x

    g = t.trace(f)
    for n in (2, 2, 3, 4, 5):
        t.call(g, ramp(n, grad=True))


@case()
def write_to_a_leaf_inside(t: Trial) -> None:
    w = ramp(3).requires_grad_()

    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            w.add_(1)
        except RuntimeError:
            return x * w
        return x

    g = t.trace(f)
    for _ in range(4):
        t.call(g, ramp(3))


@case()
def error_in_a_derivative_inside(t: Trial) -> None:
    def f(x: jit.Tensor, s: jit.Tensor) -> jit.Tensor:
        try:
            (g,) = jit.grad((x * 2).sum(), [x], allow_unused=False)
            (h,) = jit.grad((s * 2).sum(), [x])
        except RuntimeError:
            return x * 2
        return g + h

    g = t.trace(f)
    for _ in range(3):
        t.call(g, ramp(3, grad=True), ramp(3, grad=True))


class Picky(jit.autograd.Function):
    """Refuses negative sums."""

    @staticmethod
    def forward(ctx: object, x: jit.Tensor) -> jit.Tensor:
        if x.sum().item() < 0:
            raise ValueError("negative")
        return x * 2

    @staticmethod
    def backward(ctx: object, g: jit.Tensor) -> jit.Tensor:
        return g * 2


@case()
def error_of_a_function_of_the_users(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return Picky.apply(x)
        except ValueError:
            return x * 5

    g = t.trace(f)
    for sign in (1, 1, -1, 1, -1, 1):
        t.call(g, (ramp(3) * sign).requires_grad_())


CALLS: list[float] = []


class Counted(jit.autograd.Function):
    """Counts its calls."""

    @staticmethod
    def forward(ctx: object, x: jit.Tensor) -> jit.Tensor:
        CALLS.append(float(x.sum().item()))
        return x + 1

    @staticmethod
    def backward(ctx: object, g: jit.Tensor) -> jit.Tensor:
        return g


@case()
def function_of_the_users_behind_an_error(t: Trial) -> None:
    CALLS.clear()

    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        y = Counted.apply(x)
        try:
            return Counted.apply(y[i] * 2)
        except IndexError:
            return Counted.apply(y * 3)

    g = t.trace(f)
    for index in (GOOD, BAD, GOOD, BAD, BAD, GOOD, GOOD):
        t.call(g, ramp(4, grad=True), ints(*index))
        t.see("calls", list(CALLS))


@case()
def guards_and_errors_mixed(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        if x.sum() > 0:
            try:
                y = x[i]
            except IndexError:
                y = x
        else:
            y = -x
        return y * 2 if y.max() > 3 else y

    g = t.trace(f)
    for sign, index in ((1, GOOD), (1, BAD), (-1, GOOD), (-1, BAD), (1, GOOD), (0.1, BAD), (0.1, GOOD), (1, BAD)):
        t.call(g, (ramp(4) * sign).requires_grad_(), ints(*index))


@case()
def many_ways_through_errors(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        total = x.sum()
        for k in range(6):
            try:
                total = total + x[i[k : k + 1]].sum()
            except IndexError:
                total = total * 2
        return total

    g = t.trace(f)
    for bits in (0, 1, 2, 3, 12, 63, 0, 1, 33, 21, 7, 62, 1, 0):
        t.call(g, ramp(4), jit.tensor([9 if bits >> k & 1 else k % 4 for k in range(6)]))


@case()
def dtype_is_refused(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return jit.bitwise_not(x)
        except TypeError:
            return -x

    g = t.trace(f)
    for dtype in (np.float32, np.int64, np.float32, np.int64, np.bool_, np.bool_):
        t.call(g, jit.tensor(np.array([0, 1, 1]).astype(dtype)) if dtype is not np.bool_ else jit.tensor([True, False]))


@case()
def call_that_fits_nothing(t: Trial) -> None:
    def f(x: jit.Tensor, n: int) -> jit.Tensor:
        try:
            return jit.add(x, "two")  # type: ignore[arg-type]
        except TypeError:
            return x * n

    g = t.trace(f)
    for n in (2, 3, 4, 5):
        t.call(g, ramp(n), 2)
