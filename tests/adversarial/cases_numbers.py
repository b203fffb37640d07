"""Cases about numbers: what is not a number, overflows, divides by zero, or is empty: reliability.md 2.3."""

import numpy as np

import jit
from tests.adversarial.trial import Trial, case

NAN, INF = float("nan"), float("inf")
AWKWARD = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-45, 3.4e38, -3.4e38, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 88.8, -104.0],
    np.float32,
)


def awkward(dtype: type = np.float32) -> jit.Tensor:
    """Every special value."""
    with np.errstate(all="ignore"):
        return jit.tensor(AWKWARD.astype(dtype))


def grid(dtype: type = np.float32) -> tuple[jit.Tensor, jit.Tensor]:
    """Every pair of special values."""
    x = awkward(dtype)
    return x.reshape(-1, 1), x.reshape(1, -1)


@case()
def special_values_pointwise(t: Trial) -> None:
    f = t.trace(
        lambda x: [
            x.abs(),
            x.neg(),
            x.sign(),
            x.floor(),
            x.ceil(),
            x.round(),
            x.trunc(),
            x.sqrt(),
            x.reciprocal(),
            x.relu(),
        ]
    )
    for dtype in (np.float32, np.float64, np.float16, np.float32, np.float64):
        t.call(f, awkward(dtype))


@case()
def special_values_in_elementary_functions(t: Trial) -> None:
    f = t.trace(
        lambda x: [x.exp(), x.log(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.expm1(), x.log1p(), x.erf(), x.atan()]
    )
    for _ in range(2):
        t.call(f, awkward())


@case()
def special_values_in_pairs(t: Trial) -> None:
    f = t.trace(
        lambda x, y: [
            x + y, x - y, x * y, x / y, jit.maximum(x, y), jit.minimum(x, y), jit.atan2(x, y), x.pow(y), jit.fmod(x, y),
            jit.remainder(x, y),
            x // y, x < y, x == y, x != y, x >= y, jit.where(x > y, x, y),
        ]
    )  # fmt: skip
    for dtype in (np.float32, np.float64, np.float32):
        t.call(f, *grid(dtype))


@case()
def identities_that_are_none(t: Trial) -> None:
    f = t.trace(
        lambda x: [
            x + 0,
            x - 0,
            x * 1,
            x * 0,
            x - x,
            x / x,
            x / 1,
            0 + x,
            x**1,
            x**0,
            -(0 + -x),
            (x + 1) - 1,
            x * 2 / 2,
            0 - x,
        ]
    )
    for _ in range(2):
        t.call(f, awkward())


@case()
def denormals_stay(t: Trial) -> None:
    f = t.trace(lambda x: [x * 0.5, x + x, x * x, x / 3, x.sqrt()])
    for _ in range(2):
        t.call(f, jit.tensor(np.array([1e-40, 1.4e-45, -1e-39, 1e-38], np.float32)))


@case()
def integers_wrap(t: Trial) -> None:
    def f(x, y):
        return [x + y, x - y, x * y, x.abs(), x.neg(), x * 2 + 1, x & y, x | y, x ^ y, ~x, x.sum()]

    f = t.trace(f)
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.int8, np.int64):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        t.call(
            f, jit.tensor(np.array([low, high, high, low + 1], dtype)), jit.tensor(np.array([high, high, 1, 2], dtype))
        )


@case()
def smallest_integer_by_minus_one(t: Trial) -> None:
    def f(x, y):
        return [
            x // y,
            x % y,
            jit.div(x, y, rounding_mode="trunc"),
            jit.div(x, y, rounding_mode="floor"),
            jit.fmod(x, y),
            x / y,
        ]

    f = t.trace(f)
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.int8, np.int64):
        low = np.iinfo(dtype).min
        t.call(f, jit.tensor(np.array([low, low, 7, -7, -8], dtype)), jit.tensor(np.array([-1, 1, -2, 2, 3], dtype)))


@case()
def integer_division_by_zero(t: Trial) -> None:
    f = t.trace(lambda x, y: x // y)
    for y in (1, 2, 0, 3, 0):
        t.call(f, jit.tensor([1, -1, 0]), jit.tensor([1, y, 2]))
    g = t.trace(lambda x, y: x % y)
    for y in (1, 0, 3):
        t.call(g, jit.tensor([1, -1, 0]), jit.tensor([1, y, 2]))


@case()
def rounding_half_to_even(t: Trial) -> None:
    f = t.trace(lambda x: [x.round(), x.to(jit.int32), x.floor(), (x * 10).round() / 10])
    for _ in range(2):
        t.call(f, jit.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 2.4999998, 1e9]))


@case()
def floats_become_integers(t: Trial) -> None:
    f = t.trace(lambda x: [x.to(jit.int64), x.to(jit.int32), x.to(jit.bool)])
    for _ in range(2):
        t.call(f, jit.tensor([1.9, -1.9, 300.0, -0.0, 1e6, -2147483648.0]))


@case()
def promotion(t: Trial) -> None:
    f = t.trace(lambda x, y: [x + y, x * 2, x * 2.5, x / 2, x > y, x + True, 1 - x])
    kinds = [jit.bool, jit.uint8, jit.int8, jit.int32, jit.int64, jit.float16, jit.bfloat16, jit.float32, jit.float64]
    for a in kinds:
        for b in (jit.bool, jit.int8, jit.int64, jit.float16, jit.bfloat16, jit.float64):
            if jit.bool not in (a, b):
                t.call(f, jit.tensor([1, 2]).to(a), jit.tensor([3, 1]).to(b))
                t.call(f, jit.tensor([1, 2]).to(a), jit.tensor(3).to(b))
                t.call(f, jit.tensor([1, 2]).to(a), jit.tensor(3).to(b))


@case()
def empty_reductions(t: Trial) -> None:
    f = t.trace(lambda x: [x.sum(), x.prod(), x.mean(), x.sum(0), x.mean(0), x.any(), x.all()])
    for x in (jit.ones(0), jit.ones(0, 3), jit.ones(3, 0), jit.ones(0), jit.ones(3, 0)):
        t.call(f, x)
    for name in ("max", "min", "argmax"):
        g = t.trace(lambda x, name=name: getattr(x, name)())
        t.call(g, jit.ones(2))
        t.call(g, jit.ones(2))
        t.call(g, jit.ones(0))


@case()
def nan_in_reductions(t: Trial) -> None:
    f = t.trace(
        lambda x: [
            x.max(),
            x.min(),
            x.sum(),
            x.mean(),
            x.max(1),
            x.argmax(1),
            x.cumsum(1),
            x.sort(1),
            x.norm(),
            x.logsumexp(1),
        ]
    )
    for row in ([1.0, NAN, 2.0], [INF, -INF, 0.0], [-INF, -INF, -INF], [0.0, -0.0, 0.0]):
        t.call(f, jit.tensor([row, [1.0, 2.0, 3.0]]))


@case()
def softmax_of_nothing_but_minus_infinity(t: Trial) -> None:
    f = t.trace(lambda x: [jit.softmax(x, 1), jit.log_softmax(x, 1), x.logsumexp(1)])
    for row in ([-INF, -INF], [-INF, 0.0], [INF, 0.0], [NAN, 0.0], [3e38, -3e38]):
        t.call(f, jit.tensor([row, [1.0, 2.0]], requires_grad=True))


@case()
def gradients_at_kinks(t: Trial) -> None:
    f = t.trace(lambda x: x.abs() + x.relu() + x.clamp(-1, 1) + jit.maximum(x, x.detach()) + x.sign() * x)
    for _ in range(3):
        t.call(f, jit.tensor([0.0, -0.0, 1.0, -1.0, 2.0], requires_grad=True))
    g = t.trace(lambda x: x.sqrt() + x.pow(0.5) + x.pow(0) + x.max())
    for _ in range(3):
        t.call(g, jit.tensor([0.0, 1.0, 1.0], requires_grad=True))


@case()
def gradients_of_special_values(t: Trial) -> None:
    f = t.trace(lambda x: jit.where(x > 0, x.log(), x.exp()) * x)
    for _ in range(3):
        t.call(f, awkward().requires_grad_())


@case()
def half_precision(t: Trial) -> None:
    def f(x):
        return [x + x, x * 65504, (x * x).sum(), x.exp(), x.mean(), x.float() * 3, jit.softmax(x, 0)]

    f = t.trace(f)
    for dtype in (jit.float16, jit.bfloat16, jit.float16, jit.bfloat16):
        t.call(f, jit.tensor([1.0, 2.001, -3.3, 1e-4, 300.0]).to(dtype).requires_grad_())


@case()
def a_long_sum(t: Trial) -> None:
    f = t.trace(lambda x: [x.sum(), x.mean(), (x * x).sum(0)])
    for seed in (0, 1, 0):
        t.call(f, jit.tensor(np.random.default_rng(seed).random(200_001, np.float32)))


@case()
def signs_of_remainders(t: Trial) -> None:
    f = t.trace(lambda x, y: [x % y, jit.fmod(x, y), x // y])
    for kind in (jit.float32, jit.int64, jit.float32):
        t.call(f, jit.tensor([7, -7, 7, -7]).to(kind), jit.tensor([3, 3, -3, -3]).to(kind))


@case()
def complex_numbers(t: Trial) -> None:
    f = t.trace(lambda x: [x * x, x.abs(), x + 1, x.conj() * 2j])
    for a in (1 + 2j, -3j, 0j):
        t.call(f, jit.tensor([a, 1j]), backward=False)
