"""Cases about errors that the function itself catches: whether one comes is a decision like any other."""

import contextlib
import math

import numpy as np

import jit
import jit.nn.functional as F
from tests.adversarial.trial import Trial, case

GOOD, BAD = [0, 2], [1, 9]


def ints(*numbers: int) -> jit.Tensor:
    """A vector of indices."""
    return jit.tensor(list(numbers))


def ramp(*sizes: int, grad: bool = False) -> jit.Tensor:
    """1, 2, 3, ... of these sizes."""
    x = jit.arange(math.prod(sizes)).float().reshape(*sizes) + 1
    return x.clone().requires_grad_() if grad else x


def alternate(t: Trial, function: object, good: object, bad: object) -> None:
    """Both kinds of calls in turn, twice as often as it takes for each to have run from a recording."""
    f = t.trace(function)
    for make in (bad, good, bad, good, good, bad, bad, good):
        t.call(f, *make())


# -- elements ----------------------------------------------------------------------------------------------------


@case()
def index_error_falls_back(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x[i]
        except IndexError:
            return x.sum()

    alternate(t, f, lambda: (ramp(4, grad=True), ints(*GOOD)), lambda: (ramp(4, grad=True), ints(*BAD)))


@case()
def good_first_then_error(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x.gather(0, i) * 2
        except jit.Error:
            return -x

    g = t.trace(f)
    for index in (GOOD, GOOD, BAD, GOOD, BAD, BAD, GOOD):
        t.call(g, ramp(4, grad=True), ints(*index))


@case()
def unused_index_still_raises(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            x[i]
        except IndexError:
            return x - 1
        return x + 1

    alternate(t, f, lambda: (ramp(4), ints(*GOOD)), lambda: (ramp(4), ints(*BAD)))


@case()
def bad_index_in_what_is_cut_away(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x.gather(0, i)[:1] * 3
        except IndexError:
            return x.mean()

    alternate(t, f, lambda: (ramp(4), ints(*GOOD)), lambda: (ramp(4), ints(*BAD)))


@case()
def zero_divisor_in_what_is_cut_away(t: Trial) -> None:
    def f(x: jit.Tensor, y: jit.Tensor) -> jit.Tensor:
        try:
            return (x // y)[:2] + 1
        except ZeroDivisionError:
            return x

    alternate(t, f, lambda: (ints(7, 8, 9), ints(1, 2, 3)), lambda: (ints(7, 8, 9), ints(1, 2, 0)))


@case()
def unused_division_beside_a_used_one(t: Trial) -> None:
    def f(x: jit.Tensor, y: jit.Tensor, z: jit.Tensor) -> jit.Tensor:
        try:
            x % z
            return x // y + x * 2
        except ArithmeticError:
            return x - y

    good = (ints(7, 8), ints(1, 2), ints(3, 4))
    alternate(t, f, lambda: good, lambda: (*good[:2], ints(0, 4)))


@case()
def embedding_of_a_bad_word(t: Trial) -> None:
    def f(w: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return F.embedding(i, w).sum(0)
        except IndexError:
            return w.sum(0)

    alternate(t, f, lambda: (ramp(4, 3, grad=True), ints(*GOOD)), lambda: (ramp(4, 3, grad=True), ints(*BAD)))


@case()
def one_hot_class_out_of_range(t: Trial) -> None:
    def f(i: jit.Tensor) -> jit.Tensor:
        try:
            return F.one_hot(i, 4)
        except RuntimeError:
            return i * 10

    alternate(t, f, lambda: (ints(*GOOD),), lambda: (ints(*BAD),))


@case()
def cross_entropy_target_out_of_range(t: Trial) -> None:
    def f(x: jit.Tensor, y: jit.Tensor) -> jit.Tensor:
        try:
            return F.cross_entropy(x, y)
        except Exception:
            return x.mean()

    alternate(t, f, lambda: (ramp(2, 4, grad=True), ints(*GOOD)), lambda: (ramp(2, 4, grad=True), ints(*BAD)))


@case()
def nll_loss_class_of_error_matters(t: Trial) -> None:
    def f(x: jit.Tensor, y: jit.Tensor) -> jit.Tensor:
        try:
            return F.nll_loss(x.log_softmax(1), y)
        except ZeroDivisionError:
            return x * 0
        except IndexError:
            return x.sum()

    alternate(t, f, lambda: (ramp(2, 4, grad=True), ints(*GOOD)), lambda: (ramp(2, 4, grad=True), ints(*BAD)))


@case()
def cholesky_with_more_on_the_diagonal(t: Trial) -> None:
    def f(a: jit.Tensor) -> jit.Tensor:
        for extra in (0.0, 1.0, 10.0):
            try:
                return jit.linalg.cholesky(a + extra * jit.eye(2))
            except jit.Error:
                continue
        return a

    g = t.trace(f)
    for diagonal in (3.0, -0.5, -5.0, -50.0, 3.0, -0.5, -5.0, -50.0, 2.0):
        t.call(g, jit.tensor([[diagonal, 0.25], [0.25, diagonal]]))


@case()
def inverse_of_a_singular_matrix(t: Trial) -> None:
    def f(a: jit.Tensor) -> jit.Tensor:
        try:
            return jit.linalg.inv(a)
        except ArithmeticError:
            return a.t()

    alternate(t, f, lambda: (jit.tensor([[2.0, 0], [1, 4]]),), lambda: (jit.zeros(2, 2),))


@case()
def unused_inverse_tests_a_matrix(t: Trial) -> None:
    def f(a: jit.Tensor) -> bool:
        try:
            jit.linalg.solve(a, a[:, :1])
        except jit.Error:
            return False
        return True

    alternate(t, f, lambda: (jit.eye(2) * 2,), lambda: (jit.ones(2, 2),))


@case()
def svd_of_nan(t: Trial) -> None:
    def f(a: jit.Tensor) -> jit.Tensor:
        try:
            return jit.linalg.svdvals(a)
        except RuntimeError:
            return a.nan_to_num()

    alternate(t, f, lambda: (ramp(2, 2),), lambda: (jit.full((2, 2), float("nan")),))


@case()
def scatter_out_of_range(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x.scatter_add(0, i, x[:2])
        except IndexError:
            return x.exp()

    alternate(t, f, lambda: (ramp(4, grad=True), ints(*GOOD)), lambda: (ramp(4, grad=True), ints(*BAD)))


@case()
def index_put_out_of_range_leaves_all(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        y = x * 1
        try:
            y[i] = 0
        except IndexError:
            y += 100
        return y

    alternate(t, f, lambda: (ramp(4, grad=True), ints(*GOOD)), lambda: (ramp(4, grad=True), ints(*BAD)))


@case()
def argument_written_before_the_error(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        x.add_(1)
        try:
            x.index_fill_(0, i, 0.5)
        except IndexError:
            x.mul_(2)
        return x.sum()

    g = t.trace(f)
    x = ramp(4)
    t.watch(x=x)
    for index in (GOOD, BAD, GOOD, BAD, BAD):
        t.call(g, x, ints(*index))


@case()
def bernoulli_of_no_probability(t: Trial) -> None:
    def f(p: jit.Tensor) -> jit.Tensor:
        try:
            return jit.bernoulli(p)
        except ValueError:
            return p + jit.rand(2)

    alternate(t, f, lambda: (jit.tensor([0.5, 0.25]),), lambda: (jit.tensor([0.5, 1.25]),))


@case()
def multinomial_of_bad_weights(t: Trial) -> None:
    def f(w: jit.Tensor) -> jit.Tensor:
        try:
            return jit.multinomial(w, 2, replacement=True)
        except RuntimeError:
            return w.argsort()

    alternate(t, f, lambda: (jit.tensor([0.5, 0.25]),), lambda: (jit.tensor([0.0, -1.0]),))


@case()
def masked_scatter_wants_more(t: Trial) -> None:
    def f(x: jit.Tensor, m: jit.Tensor, s: jit.Tensor) -> jit.Tensor:
        try:
            return x.masked_scatter(m, s)
        except Exception:
            return x

    good, bad = jit.tensor([True, False, True]), jit.tensor([True, True, True])
    alternate(t, f, lambda: (ramp(3), good, ramp(2)), lambda: (ramp(3), bad, ramp(2)))


@case()
def quotient_in_place(t: Trial) -> None:
    def f(x: jit.Tensor, y: jit.Tensor) -> jit.Tensor:
        z = x + 0
        try:
            z //= y
        except ZeroDivisionError:
            z -= 1
        return z

    alternate(t, f, lambda: (ints(7, 8), ints(2, 3)), lambda: (ints(7, 8), ints(2, 0)))


# -- Python numbers ----------------------------------------------------------------------------------------------


@case()
def quotient_of_an_item(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            scale = 1 / x[0].item()
        except ZeroDivisionError:
            scale = 1.0
        return x * scale

    alternate(t, f, lambda: (jit.tensor([2.0, 3.0]),), lambda: (jit.tensor([0.0, 3.0]),))


@case()
def unused_quotient_of_an_item(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            1 // x[0].item()
        except ArithmeticError:
            return x - 1
        return x + 1

    alternate(t, f, lambda: (ints(2, 3),), lambda: (ints(0, 3),))


@case()
def remainder_and_divmod_of_items(t: Trial) -> None:
    def f(x: jit.Tensor) -> tuple[int, int]:
        a, b = x[0].item(), x[1].item()
        try:
            return divmod(a, b)
        except ZeroDivisionError:
            return a, -1

    alternate(t, f, lambda: (ints(7, 3),), lambda: (ints(7, 0),))


@case()
def negative_shift(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x + (1 << x[0].item())
        except ValueError:
            return x * 2

    alternate(t, f, lambda: (ints(3, 1),), lambda: (ints(-3, 1),))


@case()
def overflowing_power(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            10.0 ** x[0].item()
        except OverflowError:
            return x * 0
        return x * 2

    alternate(t, f, lambda: (jit.tensor([2.0]),), lambda: (jit.tensor([400.0]),))


@case()
def zero_to_a_negative_power(t: Trial) -> None:
    def f(x: jit.Tensor) -> float:
        try:
            return float(x[0].item() ** -1)
        except ZeroDivisionError:
            return math.inf

    alternate(t, f, lambda: (jit.tensor([2.0]),), lambda: (jit.tensor([0.0]),))


@case()
def int_of_nan(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x * int(x.sum().item())
        except (ValueError, OverflowError):
            return jit.zeros(2)

    alternate(t, f, lambda: (jit.tensor([2.0, 1.0]),), lambda: (jit.tensor([math.nan, 1.0]),))


@case()
def size_in_a_divisor(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x[: 12 // (x.shape[0] - 3)]
        except ZeroDivisionError:
            return -x

    g = t.trace(f)
    for n in (4, 5, 3, 7, 6, 3, 9, 8, 3, 2, 3):
        t.call(g, ramp(n, grad=True))


@case()
def item_as_a_list_index(t: Trial) -> None:
    names = [1.0, 2.0]

    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x * names[i.item()]
        except IndexError:
            return x

    alternate(t, f, lambda: (ramp(2), jit.tensor(1)), lambda: (ramp(2), jit.tensor(2)))


@case()
def item_of_many(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x * x.item()
        except (ValueError, RuntimeError):
            return x.sum()

    g = t.trace(f)
    for n in (1, 2, 1, 3, 4, 5, 1, 6, 2):
        t.call(g, ramp(n))


# -- sizes -------------------------------------------------------------------------------------------------------


def over_sizes(t: Trial, function: object, *sizes: int) -> None:
    """Calls of these sizes, then all again."""
    f = t.trace(function)
    for n in (*sizes, *reversed(sizes)):
        t.call(f, ramp(n, grad=True))


@case()
def odd_sizes_do_not_fold(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x.reshape(-1, 2).sum(1)
        except (ValueError, RuntimeError):
            return x * 3

    over_sizes(t, f, 5, 7, 4, 9, 6, 11, 8, 3, 10)


@case()
def even_sizes_first(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x.reshape(-1, 2).sum(1)
        except RuntimeError:
            return x * 3

    over_sizes(t, f, 4, 6, 8, 5, 10, 7, 12, 3)


@case()
def unused_reshape_of_many_sizes(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            x.view(3, -1)
        except RuntimeError:
            return x - 1
        return x + 1

    over_sizes(t, f, 3, 6, 9, 4, 12, 5, 7, 15)


@case()
def unused_sum_of_sizes_that_differ(t: Trial) -> None:
    other = jit.ones(4)

    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            x + other
        except ValueError:
            return x - 1
        return x + 1

    over_sizes(t, f, 4, 5, 6, 4, 7, 1, 8)


@case()
def matmul_of_sizes_that_differ(t: Trial) -> None:
    w = jit.ones(4, 2)

    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x @ w
        except RuntimeError:
            return x.sum()

    over_sizes(t, f, 5, 6, 4, 7, 4, 3)


@case()
def convolution_of_a_short_signal(t: Trial) -> None:
    w = jit.ones(1, 1, 4)

    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return F.conv1d(x.reshape(1, 1, -1), w)
        except Exception:
            return x * 2

    over_sizes(t, f, 2, 3, 5, 6, 4, 2, 8)


@case()
def topk_of_too_few(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return jit.topk(x, 4)[0]
        except RuntimeError:
            return x.max()

    over_sizes(t, f, 2, 3, 5, 6, 4, 7)


@case()
def einsum_of_sizes_that_differ(t: Trial) -> None:
    w = ramp(3, 2)

    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return jit.einsum("i,ij->j", x, w)
        except Exception:
            return x

    over_sizes(t, f, 4, 5, 3, 6, 3)


@case()
def select_beyond_the_end(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x[4] * 2
        except IndexError:
            return x[-1]

    over_sizes(t, f, 3, 4, 5, 6, 7, 2)


@case()
def cat_of_ranks_and_sizes(t: Trial) -> None:
    other = ramp(2, 3)

    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return jit.cat([x.reshape(2, -1), other])
        except RuntimeError:
            return x

    over_sizes(t, f, 6, 4, 8, 6, 3, 10)


@case()
def sizes_and_elements(t: Trial) -> None:
    def f(x: jit.Tensor, i: jit.Tensor) -> jit.Tensor:
        try:
            return x.reshape(-1, 2)[i]
        except IndexError:
            return x * 2
        except RuntimeError:
            return x * 3

    g = t.trace(f)
    for n, index in ((4, 0), (6, 1), (8, 2), (6, 5), (5, 0), (10, 9), (12, 1), (7, 1), (4, 1), (6, 3)):
        t.call(g, ramp(n, grad=True), jit.tensor([index]))


@case()
def expand_by_a_size(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            return x.expand(3, 4)
        except ValueError:
            return x.sum()

    over_sizes(t, f, 4, 5, 6, 4, 1)


@case()
def split_with_sizes_that_do_not_add_up(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        try:
            a, b = x.split([2, 3])
        except RuntimeError:
            return x
        return a.sum() * b

    over_sizes(t, f, 5, 6, 7, 5, 4)


@case()
def addition_in_place_that_does_not_fit(t: Trial) -> None:
    def f(x: jit.Tensor, y: jit.Tensor) -> jit.Tensor:
        z = x * 1
        try:
            z += y
        except RuntimeError:
            z -= 1
        return z

    g = t.trace(f)
    for n, m in ((3, 3), (3, 2), (4, 4), (4, 3), (5, 1), (5, 5), (6, 2), (7, 7)):
        t.call(g, ramp(n, grad=True), ramp(m))


@case()
def result_that_does_not_fit_its_target(t: Trial) -> None:
    def f(x: jit.Tensor, y: jit.Tensor) -> jit.Tensor:
        z = x * 1
        try:
            z.mul_(y)
        except RuntimeError:
            return z + 0.5
        return z

    g = t.trace(f)
    for shape in ((3,), (2, 3), (3,), (4, 3), (1,), (5, 3)):
        t.call(g, ramp(3), ramp(*shape))


@case()
def out_of_other_sizes(t: Trial) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        out = jit.zeros(4)
        try:
            jit.exp(x, out=out)
        except (ValueError, RuntimeError):
            return out - 1
        return out

    g = t.trace(f)
    for n in (5, 6, 4, 7, 4):
        t.call(g, ramp(n))


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
            w.sub_(0.1 * w.grad)
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


CALLS = []


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
            return jit.add(x, "two")
        except TypeError:
            return x * n

    g = t.trace(f)
    for n in (2, 3, 4, 5):
        t.call(g, ramp(n), 2)
