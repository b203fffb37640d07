"""Operators that draw random numbers: the same seed gives the same numbers, and the numbers have their distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import jit
from jit.eager.generators import default_generator
from jit.eager.namespace import F
from jit.ir.op import REGISTRY, Op
from tests.registry_cases import Case, all_cases, bits, cases

COUNT = 4000
"""How many numbers a distribution is judged by."""
LEAST = 1e-3
"""The p-value below which numbers are not of their distribution. Seeds are fixed: what passes once passes always."""

zeros = np.zeros(COUNT, np.float32)
half = stats.bernoulli(0.5)
weights = np.array([0.1, 0.2, 0.3, 0.4], np.float32)

DISTRIBUTIONS: dict[str, tuple[Callable[[jit.Tensor], jit.Tensor], Any]] = {
    "aten::rand": (lambda x: jit.rand(COUNT), stats.uniform()),
    "aten::randn": (lambda x: jit.randn(COUNT), stats.norm()),
    "aten::randint.low": (lambda x: jit.randint(-3, 4, (COUNT,)), stats.randint(-3, 4)),
    "aten::randint": (lambda x: jit.randint(7, (COUNT,)), stats.randint(0, 7)),
    "aten::randperm": (lambda x: F.stack([jit.randperm(5)[1] for _ in range(1000)]), stats.randint(0, 5)),
    "aten::rand_like": (jit.rand_like, stats.uniform()),
    "aten::randn_like": (jit.randn_like, stats.norm()),
    "aten::randint_like": (lambda x: jit.randint_like(x, 5), stats.randint(0, 5)),
    "aten::randint_like.low_dtype": (lambda x: jit.randint_like(x, -2, 5), stats.randint(-2, 5)),
    "aten::bernoulli": (lambda x: jit.bernoulli(x + 0.3), stats.bernoulli(0.3)),
    "aten::bernoulli.p": (lambda x: jit.bernoulli(x, 0.2), stats.bernoulli(0.2)),
    "aten::bernoulli.Tensor": (lambda x: F.bernoulli(x, x + 0.6), stats.bernoulli(0.6)),
    "aten::multinomial": (
        lambda x: jit.multinomial(jit.from_numpy(weights), COUNT, True),
        stats.rv_discrete(values=(range(4), weights / weights.sum(dtype=np.float64))),
    ),
    "aten::uniform": (lambda x: x.uniform_(-1, 2), stats.uniform(-1, 3)),
    "aten::exponential": (lambda x: x.exponential_(2.0), stats.expon(scale=0.5)),
    "aten::cauchy": (lambda x: x.cauchy_(1, 2), stats.cauchy(1, 2)),
    "aten::log_normal": (lambda x: x.log_normal_(1, 0.5), stats.lognorm(0.5, scale=np.exp(1))),
    "aten::geometric": (
        lambda x: x.geometric_(0.3).clamp(max=4),
        stats.rv_discrete(values=(range(1, 5), [0.3, 0.21, 0.147, 0.343])),
    ),
    "aten::random.from": (lambda x: x.random_(-2, 5), stats.randint(-2, 5)),
    "aten::random.to": (lambda x: x.random_(5), stats.randint(0, 5)),
    "aten::random": (lambda x: F._to_copy(x, dtype=jit.bool).random_(), half),
    "aten::normal.Tensor_Tensor": (lambda x: jit.normal(x + 1, x + 2), stats.norm(1, 2)),
    "aten::normal.Tensor_float": (lambda x: jit.normal(x + 1, 2.0), stats.norm(1, 2)),
    "aten::normal.float_Tensor": (lambda x: jit.normal(1.0, x + 2), stats.norm(1, 2)),
    "aten::normal.float_float": (lambda x: jit.normal(1.0, 2.0, (COUNT,)), stats.norm(1, 2)),
    "aten::normal.functional": (lambda x: x.normal_(1, 2), stats.norm(1, 2)),
    "aten::_standard_gamma": (lambda x: F._standard_gamma(x + 0.7), stats.gamma(0.7)),
    "aten::_sample_dirichlet": (
        lambda x: F._sample_dirichlet(jit.tensor([[0.5, 2.0, 1.0]] * COUNT))[:, 0],
        stats.beta(0.5, 3),
    ),
    "aten::poisson": (
        lambda x: jit.poisson(x + 1.5).clamp(max=5),
        stats.rv_discrete(values=(range(6), [*stats.poisson(1.5).pmf(range(5)), stats.poisson(1.5).sf(4)])),
    ),
    "aten::binomial": (lambda x: jit.binomial(x + 4, jit.tensor(0.3)), stats.binom(4, 0.3)),
    "aten::_begin_draw": (
        lambda x: F._random_word(F.arange(COUNT), *F._begin_draw(COUNT // 4).unbind()) / 2**32 + 0.5,
        stats.uniform(),
    ),
    "aten::dropout": (lambda x: jit.dropout(x + 1, 0.5, True) / 2, half),
    "aten::native_dropout": (lambda x: jit.native_dropout(x + 1, 0.5, True)[0] / 2, half),
    "aten::feature_dropout": (lambda x: jit.feature_dropout(x.view(1, COUNT, 1) + 1, 0.5, True) / 2, half),
    "aten::alpha_dropout": (lambda x: jit.alpha_dropout(x + 1, 0.5, True) > 0, half),
    "aten::rrelu": (lambda x: -jit.rrelu(x - 1, 0.125, 0.25, True), stats.uniform(0.125, 0.125)),
}
"""For each operator a function of 4000 zeros, and the distribution of what it returns."""


def draws(op: Op) -> bool:
    return op.kind == "random" or any(case.draws for case in all_cases(op))


@pytest.mark.parametrize("op", [op for op in REGISTRY.values() if draws(op)], ids=lambda op: op.name)
def test_distribution(op: Op) -> None:
    """By the test of Kolmogorov and Smirnov, or by the frequencies of the values."""
    if op.name not in DISTRIBUTIONS:
        pytest.fail(f"{op.name} draws random numbers: add what their distribution is to DISTRIBUTIONS")
    draw, distribution = DISTRIBUTIONS[op.name]
    jit.manual_seed(1)
    drawn = np.asarray(draw(jit.from_numpy(zeros.copy()))).ravel()
    assert (fit_of_frequencies if hasattr(distribution, "pmf") else fit_of_shape)(drawn, distribution) > LEAST


def fit_of_shape(drawn: np.ndarray, distribution: Any) -> Any:
    return stats.kstest(drawn, distribution.cdf).pvalue


def fit_of_frequencies(drawn: np.ndarray, distribution: Any) -> Any:
    values, counts = np.unique(drawn, return_counts=True)
    expected = distribution.pmf(values)
    assert expected.sum() == pytest.approx(1), f"these are not the values of the distribution: {values}"
    return stats.chisquare(counts, expected * drawn.size).pvalue


@cases(draws)
def test_reproducible(case: Case) -> None:
    """The same seed gives the same numbers; drawing moves the generator on."""
    args, kwargs = case.arguments()
    first = case.call(*args, **kwargs)
    state = default_generator().state
    args, kwargs = case.arguments()
    again = case.call(*args, **kwargs)
    assert list(map(bits, first)) == list(map(bits, again))
    assert default_generator().state == state


@cases(lambda op: any(a.type.base == "Generator" for a in op.arguments))
def test_generator(case: Case) -> None:
    """With a generator of one's own, the numbers follow its seed and the default generator rests."""
    args, kwargs = case.arguments()
    expected = case.call(*args, **kwargs)
    jit.manual_seed(0)
    before = default_generator().state
    args, kwargs = case.arguments()
    own = jit.Generator().manual_seed(case.SEED)
    found = case.function(*args, **kwargs, generator=own)
    assert bits(found) == bits(expected[0])
    assert default_generator().state == before


def test_permutation() -> None:
    """`randperm` returns each number once."""
    assert sorted(jit.randperm(100).tolist()) == list(range(100))


def test_multinomial_without_replacement() -> None:
    """Every category is drawn at most once, and one without weight never."""
    drawn = jit.multinomial(jit.tensor([[0.0, 0.5, 0.3, 0.2]] * 50), 3)
    assert all(sorted(row) == [1, 2, 3] for row in drawn.tolist())
