"""Further cases about errors that the function itself catches: other ways to catch them, and other sources of them."""

import contextlib
import functools
import math
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

import jit
import jit.nn.functional as F
from jit import nn
from tests.adversarial.cases_errors import BAD, GOOD, alternate, ints, over_sizes, ramp
from tests.adversarial.trial import Trial, case


def picking(t: Trial, f: Callable[[Any, Any], Any]) -> None:
    """Calls of a function of a ramp and of indices that fit, or do not."""
    alternate(t, f, lambda: (ramp(4, grad=True), ints(*GOOD)), lambda: (ramp(4, grad=True), ints(*BAD)))


# -- ways to catch -----------------------------------------------------------------------------------------------


@case()
def stack_of_contexts(t: Trial) -> None:
    def f(x: Any, i: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(IndexError))
            return x[i]
        return x.sum()

    picking(t, f)


class Swallowing:
    """A context that says afterwards whether something was wrong."""

    def __enter__(self) -> "Swallowing":
        self.failed = False
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> bool:
        self.failed = kind is not None and issubclass(kind, LookupError)
        return self.failed


@case()
def context_that_swallows(t: Trial) -> None:
    def f(x: Any, i: Any) -> Any:
        y = x * 0
        with Swallowing() as inside:
            y = x[i] * 2
        return y, inside.failed

    picking(t, f)


@case()
def context_made_of_a_generator(t: Trial) -> None:
    @contextlib.contextmanager
    def noting(names: list[str]) -> Any:
        try:
            yield
        except IndexError as error:
            names.append(type(error).__name__)

    def f(x: Any, i: Any) -> Any:
        names: list[str] = []
        y = x + 1
        with noting(names):
            y = x[i] * 2
        return y, names

    picking(t, f)


class Renaming:
    """A context that makes one error of another."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if isinstance(error, IndexError):
            raise ValueError("no such row") from error


@case()
def error_of_a_context_on_its_way_out(t: Trial) -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            with Renaming():
                return x[i]
        except ValueError as error:
            return x * (2 if isinstance(error.__cause__, IndexError) else 3)

    picking(t, f)


@case()
def operator_raises_on_the_way_out(t: Trial) -> None:
    class Late:
        def __init__(self, x: Any, i: Any) -> None:
            self.x, self.i = x, i

        def __enter__(self) -> "Late":
            return self

        def __exit__(self, *error: Any) -> None:
            self.y = self.x[self.i]

    def f(x: Any, i: Any) -> Any:
        try:
            with Late(x, i) as late:
                z = x * 2
            return z.sum() + late.y.sum()
        except LookupError:
            return x

    picking(t, f)


@case()
def thrown_into_a_generator(t: Trial) -> None:
    def steps(x: Any) -> Any:
        try:
            yield x * 2
        except ValueError:
            yield x * 3

    def f(x: Any, i: Any) -> Any:
        generator = steps(x)
        y = next(generator)
        try:
            return y[i]
        except IndexError:
            return generator.throw(ValueError())

    picking(t, f)


@case()
def generator_that_cleans_up(t: Trial) -> None:
    def f(x: Any, i: Any) -> Any:
        done: list[int] = []

        def rows() -> Any:
            try:
                yield x[i]
            finally:
                done.append(1)

        try:
            found = [row * 2 for row in rows()]
            return found[0]
        except IndexError:
            return x * (len(done) + 3)

    picking(t, f)


@case()
def error_inside_of_a_comprehension(t: Trial) -> None:
    def f(x: Any, rows: Any) -> Any:
        try:
            return jit.stack([x[row] for row in rows])
        except IndexError:
            return x

    def given(*rows: int) -> Any:
        return lambda: (ramp(4), [jit.tensor(row) for row in rows])

    alternate(t, f, given(0, 2), given(1, 9))


@case()
def how_many_fit(t: Trial) -> None:
    def fits(x: Any, row: Any) -> bool:
        try:
            x[row]
        except IndexError:
            return False
        return True

    f = t.trace(lambda x, rows: x * sum(fits(x, row) for row in rows))
    for rows in ((0, 1, 9), (9, 9, 9), (1, 2, 3), (9, 1, 2), (0, 1, 9), (1, 1, 1)):
        t.call(f, ramp(4), [jit.tensor(row) for row in rows])


@case()
def decorator_with_a_way_out(t: Trial) -> None:
    def otherwise(default: Any) -> Any:
        def decorate(function: Any) -> Any:
            @functools.wraps(function)
            def guarded(*args: Any) -> Any:
                try:
                    return function(*args)
                except (IndexError, RuntimeError):
                    return default(*args)

            return guarded

        return decorate

    @otherwise(lambda x, i: x.sum())
    def f(x: Any, i: Any) -> Any:
        return x[i]

    picking(t, f)


@case()
def what_is_caught_changes(t: Trial) -> None:
    caught: list[Any] = [IndexError]

    def pick(x: Any, i: Any) -> Any:
        try:
            return x[i]
        except caught[0]:
            return x

    f = t.trace(pick)
    for kind in (IndexError, (KeyError, IndexError), KeyError, IndexError):
        caught[0] = kind
        for index in (BAD, GOOD, BAD):
            t.call(f, ramp(4), ints(*index))


@case()
def policy_by_the_class_of_an_error(t: Trial) -> None:
    policy: dict[Any, float] = {IndexError: 2.0, RuntimeError: 3.0}

    def pick(x: Any, i: Any) -> Any:
        try:
            return x[i]
        except Exception as error:
            return x * next(scale for kind, scale in policy.items() if isinstance(error, kind))

    f = t.trace(pick)
    for scale in (2.0, 2.0, 7.0, 7.0):
        policy[IndexError] = scale
        for index in (BAD, GOOD):
            t.call(f, ramp(4), ints(*index))


@case()
def context_and_depth_of_an_error(t: Trial) -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            try:
                return x[i]
            except IndexError:
                x.reshape(3)
        except RuntimeError as error:
            depth = len(traceback.extract_tb(error.__traceback__)[:1])
            return x * (depth if isinstance(error.__context__, IndexError) else 5)

    picking(t, f)


@case()
def names_of_errors_are_collected(t: Trial) -> None:
    found: list[str] = []

    def f(x: Any, i: Any) -> Any:
        try:
            return x[i]
        except Exception as error:
            found.append(type(error).__name__)
            return x

    picking(t, f)
    t.see("found", found)


@case()
def failures_are_counted_in_a_module(t: Trial) -> None:
    class Counting(nn.Module):
        failures = 0

        def forward(self, x: Any, i: Any) -> Any:
            try:
                return x[i]
            except IndexError:
                self.failures += 1
                return x

    module = Counting()
    picking(t, module)
    t.see("failures", module.failures)


@case()
def traced_inside_catches(t: Trial) -> None:
    @t.trace
    def inner(x: Any, i: Any) -> Any:
        try:
            return x[i]
        except IndexError:
            return x[:2]

    picking(t, lambda x, i: inner(x, i) + 1)


# -- sources -----------------------------------------------------------------------------------------------------


@case()
def loop_that_ends_with_an_error(t: Trial) -> None:
    def pick(x: Any, i: Any) -> Any:
        for step in range(4):
            try:
                x = x[i]
            except IndexError:
                return x, step
        return x, 4

    f = t.trace(pick)
    for size, index in ((4, [0, 1]), (4, [1, 1, 2]), (4, [2, 1]), (4, [9]), (5, [0, 1]), (6, [0, 0]), (4, [0, 1])):
        t.call(f, ramp(size), ints(*index))


@case()
def hook_of_a_gradient_raises(t: Trial) -> None:
    def bent(x: Any, limit: Any) -> Any:
        y = x * 2

        def look(gradient: Any) -> Any:
            if gradient.sum() > limit:
                raise ValueError("too steep")
            return gradient

        y.register_hook(look)
        try:
            (gradient,) = jit.grad((y * y).sum(), [x])
        except ValueError:
            gradient = x * 0
        return gradient.detach()

    f = t.trace(bent)
    for limit in (100.0, 1.0, 100.0, 1.0, 50.0):
        t.call(f, ramp(3, grad=True), jit.tensor(limit), backward=False)


@case()
def hook_of_a_module_raises(t: Trial) -> None:
    module = nn.Identity()

    def look(module: Any, given: Any) -> None:
        if given[0].shape[0] > 3:
            raise ValueError("too long")

    module.register_forward_pre_hook(look)

    def f(x: Any) -> Any:
        try:
            return module(x) * 2
        except ValueError:
            return x

    over_sizes(t, f, 2, 3, 4, 5, 1, 6)


@case()
def step_without_a_gradient(t: Trial) -> None:
    w = ramp(3).requires_grad_()
    t.watch(w=w)
    optimizer = jit.optim.SGD([w], lr=0.1, momentum=0.9)

    class NotFinite(Exception):
        pass

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (x * w).sum()
        try:
            if not jit.isfinite(loss):
                raise NotFinite(loss)
            loss.backward()
            optimizer.step()
        except NotFinite:
            return loss.detach() * 0
        return loss.detach()

    f = t.trace(step)
    for first in (1.0, 2.0, math.nan, 3.0, math.inf, 1.0):
        t.call(f, jit.tensor([first, 1.0, 1.0]), backward=False)


@case()
def result_travels_in_an_error(t: Trial) -> None:
    class Early(Exception):
        def __init__(self, value: Any) -> None:
            self.value = value

    def inner(x: Any) -> Any:
        if x.sum() > 3:
            raise Early(x * 2)
        return x

    def outer(x: Any) -> Any:
        try:
            return inner(x)
        except Early as early:
            return early.value + 1

    f = t.trace(outer)
    for scale in (0.1, 2.0, 0.1, 3.0, 0.2):
        t.call(f, (ramp(3) * scale).requires_grad_())


@case()
def warning_inside_becomes_an_error(t: Trial) -> None:
    def careful(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                if x.sum() > 3:
                    warnings.warn("big", stacklevel=1)
            except UserWarning:
                return x / x.sum()
        return x

    f = t.trace(careful)
    for scale in (0.1, 2.0, 0.1, 3.0, 0.2):
        t.call(f, ramp(3) * scale)


@case()
def assertion_on_elements(t: Trial) -> None:
    def checked(x: Any) -> Any:
        try:
            assert (x > 0).all(), "negative"
        except AssertionError as error:
            return x.abs() * len(error.args)
        return x

    f = t.trace(checked)
    for numbers in ([1.0, 2.0], [-1.0, 2.0], [3.0, 4.0], [-1.0, -1.0], [1.0, 1.0]):
        t.call(f, jit.tensor(numbers))


@case()
def largest_of_none(t: Trial) -> None:
    def largest(x: Any, mask: Any) -> Any:
        try:
            return x[mask].argmax(0)
        except (RuntimeError, IndexError):
            return jit.tensor(7)

    f = t.trace(largest)
    for mask in ([True] * 4, [False] * 4, [True, False, True, False], [False] * 4, [True] * 4):
        t.call(f, ramp(4), jit.tensor(mask))


@case()
def only_one_of_many(t: Trial) -> None:
    def place(x: Any, wanted: Any) -> Any:
        try:
            return x * (x == wanted).nonzero().item()
        except (RuntimeError, ValueError):
            return x

    f = t.trace(place)
    for wanted in (1.0, 2.0, 3.0, 9.0, 1.0, 2.0):
        t.call(f, jit.tensor([1.0, 2.0, 2.0, 3.0]), jit.tensor(wanted))


@case()
def table_by_an_element(t: Trial) -> None:
    table = {1: 2.0, 2: 3.0}

    def scaled(x: Any, key: Any) -> Any:
        try:
            return x * table[key.item()]
        except KeyError:
            return x * 0

    f = t.trace(scaled)
    for key in (1, 2, 3, 1, 9, 2, 1):
        t.call(f, ramp(3), jit.tensor(key))
    table[3] = 5.0
    t.call(f, ramp(3), jit.tensor(3))


@case()
def names_that_come_and_go(t: Trial) -> None:
    thing = types.SimpleNamespace()
    table: dict[str, float] = {}

    def scaled(x: Any) -> Any:
        try:
            return x * thing.rate * table["rate"]
        except AttributeError:
            return x
        except KeyError:
            return x + 1

    f = t.trace(scaled)
    first, second = (lambda: setattr(thing, "rate", 2.0)), (lambda: table.update(rate=3.0))
    for change in (lambda: None, first, second, lambda: delattr(thing, "rate")):
        change()
        t.call(f, ramp(3))
        t.call(f, ramp(3))


@case(must_hit=False)
def number_that_overflows(t: Trial) -> None:
    def scaled(x: Any) -> Any:
        try:
            return x * math.exp(x[0].item())
        except OverflowError:
            return x * 0

    f = t.trace(scaled)
    for first in (1.0, 2.0, 1000.0, 1.0, 2000.0):
        t.call(f, jit.tensor([first, 1.0]))


@case()
def layer_gets_what_is_padded(t: Trial) -> None:
    jit.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def padded(x: Any) -> Any:
        try:
            return net(x)
        except RuntimeError:
            return net(F.pad(x, (0, 3 - x.shape[-1])))

    f = t.trace(padded)
    for rows, columns in ((2, 3), (2, 2), (3, 3), (3, 1), (4, 3), (5, 2), (5, 3)):
        t.call(f, ramp(rows, columns, grad=True))


@case()
def written_before_and_after_the_error(t: Trial) -> None:
    buffer = jit.zeros(4)
    t.watch(buffer=buffer)

    def f(x: Any, i: Any) -> Any:
        buffer.add_(1)
        try:
            y = x[i]
        except IndexError:
            buffer.mul_(2)
            y = x
        return y + buffer.sum()

    picking(t, f)


@case()
def drawn_before_the_error(t: Trial) -> None:
    jit.manual_seed(3)

    def f(x: Any, i: Any) -> Any:
        noise = jit.rand(2)
        try:
            return x[i] + noise
        except IndexError:
            return x + jit.rand(4) + noise.sum()

    picking(t, f)
    t.see("next", jit.rand(1))


@case()
def both_ways_have_second_derivatives(t: Trial) -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            return x[i].prod()
        except IndexError:
            return (x * x * x).sum()

    g = t.trace(f)
    for index in (GOOD, BAD, [2, 2], [9, 9], GOOD, BAD):
        t.twice(g, ramp(4, grad=True), ints(*index))
