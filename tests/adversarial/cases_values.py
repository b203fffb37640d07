"""Cases about exact values: signed zeros, NaNs and infinities that Python decides on, and types of numbers."""

import json
import math

import numpy as np

import jit
from tests.adversarial.trial import Trial, case

NAN, INF = float("nan"), float("inf")
MINUS_NAN = float(np.copysign(NAN, -1.0))
SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.0, -2.5, 0.25]


def number(value: float, dtype: jit.dtype = jit.float64) -> jit.Tensor:
    """A single element."""
    return jit.tensor(value, dtype=dtype)


def in_turn(t: Trial, function: object, values: list[float], dtype: jit.dtype = jit.float64) -> None:
    """Call with each value, twice over, so that recordings meet the values of others."""
    f = t.trace(function)
    for value in [*values, *values]:
        t.call(f, number(value, dtype))


# -- decisions that the sign of a zero makes ---------------------------------------------------------------------


@case()
def the_sign_of_zero_by_copysign(t: Trial) -> None:
    in_turn(t, lambda x: x + math.copysign(1.0, float(x)), [0.0, -0.0])


@case()
def the_sign_of_zero_by_text(t: Trial) -> None:
    def f(x):
        n = float(x.item())
        return x + (1 if f"{n:+.0f}"[0] == "-" else 2)

    in_turn(t, f, [0.0, -0.0, 0.0])


@case()
def the_sign_of_zero_by_atan2(t: Trial) -> None:
    in_turn(t, lambda x: x + math.atan2(x.item(), -1.0), [-0.0, 0.0, -0.0])


@case()
def the_sign_of_zero_by_division(t: Trial) -> None:
    def f(x):
        n = np.float64(float(x))
        with np.errstate(all="ignore"):
            return x + (1 if np.float64(1) / n > 0 else 2)

    in_turn(t, f, [0.0, -0.0])


@case()
def the_sign_of_zero_in_a_second_guard(t: Trial) -> None:
    def f(x):
        if x.sum() == 0:  # the same for both
            return x + (3 if math.copysign(1.0, float(x[0])) > 0 else 4)
        return x - 1

    f = t.trace(f)
    for value in (0.0, -0.0, 1.0, -0.0, 0.0, 1.0):
        t.call(f, jit.tensor([value, -value]))


@case()
def the_sign_of_zero_after_a_path_that_differs(t: Trial) -> None:
    def f(x, y):
        first = math.copysign(1.0, x.item())
        if y > 0:
            return x + first
        return x - first * 2

    f = t.trace(f)
    for x, y in ((0.0, 1.0), (-0.0, 1.0), (0.0, -1.0), (-0.0, -1.0), (0.0, 1.0), (-0.0, -1.0)):
        t.call(f, number(x), number(y))


@case()
def the_sign_of_zero_in_half_precision(t: Trial) -> None:
    for dtype in (jit.float16, jit.float32, jit.bfloat16):
        in_turn(t, lambda x: x + math.copysign(1.0, float(x)), [0.0, -0.0], dtype)


@case()
def zeros_of_complex_numbers(t: Trial) -> None:
    def f(x):
        n = complex(x)
        return x + math.copysign(1.0, n.real) + 2j * math.copysign(1.0, n.imag)

    f = t.trace(f)
    for _ in range(2):
        for value in (0j, complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)):
            t.call(f, jit.tensor(value, dtype=jit.complex128))


@case()
def zero_as_a_key(t: Trial) -> None:
    table = {0.0: 2.0, 1.0: 3.0}
    in_turn(t, lambda x: x + table[x.item()], [0.0, -0.0, 1.0])


@case()
def zeros_in_a_list(t: Trial) -> None:
    def f(x):
        return x + sum(math.copysign(1.0, n) for n in x.tolist())

    f = t.trace(f)
    for values in ([0.0, 0.0], [-0.0, 0.0], [0.0, -0.0], [0.0, 0.0], [-0.0, -0.0]):
        t.call(f, jit.tensor(values))


@case()
def zero_computed_inside(t: Trial) -> None:
    def f(x):
        y = x * 0
        return x + math.copysign(1.0, y.sum().item())

    in_turn(t, f, [1.0, -1.0])


@case()
def zero_made_by_a_kernel(t: Trial) -> None:
    def f(x):
        y = (x * -1).exp() * 0 * x
        return y + math.copysign(2.0, float(y.min()))

    f = t.trace(f)
    for sign in (1.0, -1.0, 1.0, -1.0):
        t.call(f, jit.tensor([3.0, 4.0, 5.0]) * sign)


@case()
def a_complex_global_with_another_zero(t: Trial) -> None:
    state = {"shift": complex(1.0, 0.0)}
    f = t.trace(lambda x: x + math.copysign(1.0, state["shift"].imag))
    for value in (0.0, -0.0, 0.0, -0.0):
        state["shift"] = complex(1.0, value)
        t.call(f, jit.ones(2))


@case()
def a_set_of_zeros(t: Trial) -> None:
    state = {"shifts": {0.0}}
    f = t.trace(lambda x: x + math.copysign(1.0, next(iter(state["shifts"]))))
    for value in (0.0, -0.0, 0.0):
        state["shifts"] = {value}
        t.call(f, jit.ones(2))


# -- NaN ---------------------------------------------------------------------------------------------------------


@case()
def nan_is_itself(t: Trial) -> None:
    in_turn(t, lambda x: x * 0 + (1 if math.isnan(float(x)) else 2), [NAN, 1.0, NAN])


@case()
def nan_with_a_sign(t: Trial) -> None:
    in_turn(t, lambda x: jit.ones(1) * math.copysign(1.0, float(x)), [NAN, MINUS_NAN])


@case()
def nan_compares_as_nothing(t: Trial) -> None:
    def f(x):
        n = x.item()
        if n == n:
            return x + 1
        return jit.zeros(2) if n != n else x

    in_turn(t, f, [NAN, 1.0, MINUS_NAN, 1.0])


@case()
def nan_that_a_kernel_made(t: Trial) -> None:
    def f(x):
        y = (x - x) / (x - x)
        return x * 2 if math.isnan(y.sum().item()) else x

    f = t.trace(f)
    for value in (1.0, 2.0, 3.0):
        t.call(f, jit.full((3,), value))


# -- powers, signs and roots at the edges ------------------------------------------------------------------------


@case()
def powers_to_numbers(t: Trial) -> None:
    def f(x):
        return [x**e for e in (2, 3, 4, 0.5, -0.5, -1, -2, 0, 1, 1.5, -1.5, INF, -INF, NAN)]

    f = t.trace(f)
    for dtype in (jit.float32, jit.float64, jit.float32, jit.float64):
        t.call(f, jit.tensor(SPECIAL, dtype=dtype))


@case()
def powers_to_tensors(t: Trial) -> None:
    def f(x, e):
        return x**e, x.pow(e.reshape(-1, 1)), x ** e[3]

    f = t.trace(f)
    exponents = [2.0, 3.0, 0.5, -0.5, -1.0, 0.0, 1.0, INF, -INF, NAN]
    for dtype in (jit.float32, jit.float64, jit.float32):
        t.call(f, jit.tensor(SPECIAL, dtype=dtype), jit.tensor(exponents, dtype=dtype))


@case()
def powers_of_numbers(t: Trial) -> None:
    f = t.trace(lambda x: [b**x for b in (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, INF, -INF, NAN, 0.5)])
    for _ in range(3):
        t.call(f, jit.tensor(SPECIAL))


@case()
def powers_in_place(t: Trial) -> None:
    def f(x):
        return [x.clone().pow_(e) for e in (0.5, -0.5, 2, 3, -1)]

    f = t.trace(f)
    for _ in range(3):
        t.call(f, jit.tensor(SPECIAL))


@case()
def powers_that_python_decides_on(t: Trial) -> None:
    def f(x):
        root = (x**0.5).item()
        return x + (1 if math.copysign(1.0, root) < 0 else 2 if math.isnan(root) else 3)

    in_turn(t, f, [0.0, -0.0, 4.0, -INF, INF])


@case()
def signs(t: Trial) -> None:
    f = t.trace(lambda x: [x.sign(), jit.sgn(x), x.sign() * 2 + 1, jit.copysign(jit.ones(1), x), x.signbit()])
    for dtype in (jit.float32, jit.float64, jit.float16, jit.float32):
        t.call(f, jit.tensor(SPECIAL, dtype=dtype))


@case()
def roots_and_their_inverses(t: Trial) -> None:
    f = t.trace(lambda x: [x.sqrt(), x.rsqrt(), x.reciprocal(), x.square(), 1 / x, x * x * x, jit.hypot(x, x)])
    for dtype in (jit.float32, jit.float64, jit.float32):
        t.call(f, jit.tensor(SPECIAL, dtype=dtype))


@case()
def gradients_at_the_edges(t: Trial) -> None:
    f = t.trace(lambda x: [x.sign().sum(), x.abs().sum(), (x**2).sum(), (x**3).sum()])
    for _ in range(3):
        t.call(f, jit.tensor([0.0, -0.0, 1.0, -1.0, 2.0, NAN]).requires_grad_())


# -- exact types -------------------------------------------------------------------------------------------------


def pair(n):
    return (n, n) if type(n) is int else tuple(n)


@case()
def a_size_is_an_int(t: Trial) -> None:
    f = t.trace(lambda x: x * (2 if type(x.shape[0]) is int else 3))
    for rows in (2, 3, 4, 2, 5):
        t.call(f, jit.ones(rows))


@case()
def a_size_is_an_int_to_a_helper(t: Trial) -> None:
    f = t.trace(lambda x: x.repeat(*pair(x.shape[1])))
    for columns in (2, 3, 2, 4, 3):
        t.call(f, jit.ones(2, columns))


@case()
def a_size_in_a_table_of_types(t: Trial) -> None:
    table = {int: 2.0, float: 3.0}
    f = t.trace(lambda x: x * table[type(x.size(0))] + table[type(x.sum().item())])
    for rows in (2, 3, 2):
        t.call(f, jit.ones(rows))


@case()
def an_element_is_a_float(t: Trial) -> None:
    def f(x):
        n = x.max().item()
        return x + (1 if type(n) == float else 2)  # noqa: E721

    f = t.trace(f)
    for scale in (1.0, 2.0, 1.0):
        t.call(f, jit.ones(3) * scale)
        t.call(f, jit.ones(3).long())


@case()
def types_that_are_compared(t: Trial) -> None:
    f = t.trace(lambda x: x * (2 if type(x.shape[0]) is type(len(x.shape)) else 3))
    for rows in (2, 3, 2):
        t.call(f, jit.ones(rows))


@case()
def types_in_a_tuple(t: Trial) -> None:
    kinds = (int, bool)
    f = t.trace(lambda x: x * (2 if type(x.shape[0]) in kinds else 3))
    for rows in (2, 3, 2):
        t.call(f, jit.ones(rows))


@case()
def sizes_where_ints_are_wanted(t: Trial) -> None:
    def f(x):
        rows, columns = x.shape
        text = json.dumps({"rows": int(rows)})
        names = {2: "two", 3: "three", 4: "four"}
        return x * len(text) + len(names[rows]) + sum(range(columns)) + np.arange(rows).sum()

    f = t.trace(f)
    for rows, columns in ((2, 3), (3, 2), (2, 3), (4, 4)):
        t.call(f, jit.ones(rows, columns))


@case()
def isinstance_and_class(t: Trial) -> None:
    def f(x):
        n, v = x.shape[0], x.sum().item()
        return x * (isinstance(n, int) + 2 * isinstance(v, float) + 4 * (n.__class__ is int))

    f = t.trace(f)
    for rows in (2, 3, 4, 5):
        t.call(f, jit.ones(rows))
