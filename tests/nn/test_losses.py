"""Losses by margins, distances, likelihoods and alignments, element by element in numpy."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn import functional as F
from tests.tolerances import assert_close

REDUCTIONS: dict[str, Any] = {"none": lambda x: x, "mean": np.mean, "sum": np.sum}


def draw(rng, *sizes):
    return rng.standard_normal(sizes)


def signs(rng, *sizes):
    return np.where(rng.random(sizes) < 0.5, -1.0, 1.0)


def norm(x):
    return np.linalg.norm(x, axis=-1)


def check(loss, arrays, expected, rtol=1e-12, **options):
    """A loss class with its options against what each element should be, in all reductions."""
    for word, reduce in REDUCTIONS.items():
        got = loss(**options, reduction=word)(*(jit.tensor(a) for a in arrays))
        assert_close(got, np.asarray(reduce(expected)), rtol=rtol, atol=1e-13)


# -- of signs ----------------------------------------------------------------------------------------------------------


def test_margins_of_signs(rng):
    a, b, y = draw(rng, 5), draw(rng, 5), signs(rng, 5)
    check(nn.MarginRankingLoss, (a, b, y), np.maximum(0, 0.3 - y * (a - b)), margin=0.3)
    check(nn.HingeEmbeddingLoss, (a, y), np.where(y > 0, a, np.maximum(0, 0.7 - a)), margin=0.7)
    check(nn.SoftMarginLoss, (a, y), np.log1p(np.exp(-y * a)))


def test_soft_margins_of_far_scores_are_finite():
    loss = F.soft_margin_loss(jit.tensor([-1000.0, 1000.0]), jit.tensor([1.0, 1.0]), reduction="none")
    assert loss.tolist() == [1000.0, 0.0]


def test_cosines_of_signs(rng):
    a, b, y = draw(rng, 5, 3), draw(rng, 5, 3), signs(rng, 5)
    cosine = (a * b).sum(1) / norm(a) / norm(b)
    expected = np.where(y > 0, 1 - cosine, np.maximum(0, cosine - 0.1))
    check(nn.CosineEmbeddingLoss, (a, b, y), expected, margin=0.1, rtol=1e-10)  # 1e-12 is added to the squares
    alone = F.cosine_embedding_loss(jit.tensor(a[0]), jit.tensor(b[0]), jit.tensor(1))
    assert_close(alone, 1 - cosine[0], rtol=1e-10)


# -- of classes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2])
def test_margins_of_classes(p, rng):
    x, y, w = draw(rng, 4, 3), np.array([0, 2, 1, 1]), np.abs(draw(rng, 3))
    others = [[np.maximum(0, 0.8 - x[n, y[n]] + x[n, c]) ** p for c in range(3) if c != y[n]] for n in range(4)]
    expected = np.sum(others, 1) / 3 * w[y]
    check(nn.MultiMarginLoss, (x, y), expected, p=p, margin=0.8, weight=jit.tensor(w))
    assert_close(F.multi_margin_loss(jit.tensor(x[0]), jit.tensor(0), p, 0.8), np.sum(others[0]) / 3, rtol=1e-12)


def test_margins_of_several_classes(rng):
    x, y = draw(rng, 3, 4), np.array([[1, 3, -1, 0], [0, -1, 2, 2], [-1, 0, 0, 0]])
    wanted = [[1, 3], [0], []]
    expected = np.array([
        sum(max(0, 1 - (x[n, t] - x[n, c])) for t in wanted[n] for c in range(4) if c not in wanted[n]) / 4
        for n in range(3)
    ])  # fmt: skip
    check(nn.MultiLabelMarginLoss, (x, y), expected)
    assert_close(F.multilabel_margin_loss(jit.tensor(x[0]), jit.tensor(y[0])), expected[0], rtol=1e-12)


def test_logits_of_several_classes(rng):
    x, y, w = draw(rng, 3, 4), (draw(rng, 3, 4) > 0).astype(float), np.abs(draw(rng, 4))
    probability = 1 / (1 + np.exp(-x))
    entropy = -(y * np.log(probability) + (1 - y) * np.log(1 - probability)) * w
    check(nn.MultiLabelSoftMarginLoss, (x, y), entropy.mean(1), weight=jit.tensor(w))


# -- of likelihoods ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_likelihood_of_counts(full, rng):
    rate, count = np.abs(draw(rng, 3, 4)) + 0.5, rng.poisson(3, (3, 4)).astype(float)
    stirling = np.where(count > 1, count * np.log(np.maximum(count, 1)) - count
                        + 0.5 * np.log(2 * np.pi * np.maximum(count, 1)), 0) * full  # fmt: skip
    check(nn.PoissonNLLLoss, (np.log(rate), count), rate - count * np.log(rate) + stirling, full=full)
    expected = rate - count * np.log(rate + 1e-8) + stirling
    check(nn.PoissonNLLLoss, (rate, count), expected, full=full, log_input=False)


@pytest.mark.parametrize("sizes", [(3, 4), (3, 1), (3,)])
@pytest.mark.parametrize("full", [False, True])
def test_likelihood_of_normal_variables(full, sizes, rng):
    mean, x, var = draw(rng, 3, 4), draw(rng, 3, 4), np.abs(draw(rng, *sizes))
    wide = var[:, None] if var.ndim == 1 else var
    expected = 0.5 * (np.log(wide) + (mean - x) ** 2 / wide) + 0.5 * math.log(2 * math.pi) * full
    check(nn.GaussianNLLLoss, (mean, x, var), expected, full=full)


def test_small_variances_count_as_eps():
    var = jit.tensor([0.0], requires_grad=True)
    loss = F.gaussian_nll_loss(jit.zeros(1), jit.zeros(1), var, eps=0.5)
    assert_close(loss, np.float32(0.5 * math.log(0.5)))
    with pytest.raises(jit.Error, match="a variance is negative"):
        F.gaussian_nll_loss(jit.zeros(1), jit.zeros(1), jit.tensor([-1.0]))
    with pytest.raises(jit.Error, match=r"variances of sizes \[3\] do not fit means of sizes \[1\]"):
        F.gaussian_nll_loss(jit.zeros(1), jit.zeros(1), jit.ones(3))


# -- of distances ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swap", [False, True])
def test_triplets(swap, rng):
    a, p, n = (draw(rng, 5, 3) for _ in range(3))
    near, far, other = norm(a - p + 1e-6), norm(a - n + 1e-6), norm(p - n + 1e-6)
    expected = np.maximum(0, 1 + near - (np.minimum(far, other) if swap else far))
    check(nn.TripletMarginLoss, (a, p, n), expected, swap=swap)
    check(nn.TripletMarginWithDistanceLoss, (a, p, n), expected, swap=swap)
    city = np.maximum(0, 2 + np.abs(a - p).sum(1) - np.abs(a - n).sum(1))

    def distance(x, y):
        return (x - y).abs().sum(-1)

    check(nn.TripletMarginWithDistanceLoss, (a, p, n), city, distance_function=distance, margin=2.0)


# -- of alignments -----------------------------------------------------------------------------------------------------


def collapsed(path, blank):
    """The labels that a path through classes stands for."""
    runs = [label for label, _ in itertools.groupby(path)]
    return tuple(label for label in runs if label != blank)


def by_all_paths(log_probs, target, blank):
    """Minus the log-likelihood of a target, summed over every path through the classes."""
    steps, classes = log_probs.shape
    paths = itertools.product(range(classes), repeat=steps)
    likelihoods = [log_probs[range(steps), path].sum() for path in paths if collapsed(path, blank) == tuple(target)]
    return -np.logaddexp.reduce(likelihoods) if likelihoods else math.inf


CTC_TARGETS = [[1, 2], [1, 1], [2], []]
CTC_STEPS = [5, 4, 3, 2]


def ctc_inputs(rng):
    x = draw(rng, 5, 4, 3)
    log_probs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    expected = [by_all_paths(log_probs[:t, n], CTC_TARGETS[n], 0) for n, t in enumerate(CTC_STEPS)]
    return log_probs, np.array(expected)


@pytest.mark.parametrize("packed", [False, True])
def test_alignments_sum_over_all_paths(packed, rng):
    log_probs, expected = ctc_inputs(rng)
    counts = [len(t) for t in CTC_TARGETS]
    targets = list(itertools.chain(*CTC_TARGETS)) if packed else [t + [0] * (2 - len(t)) for t in CTC_TARGETS]
    arguments = jit.tensor(log_probs), jit.tensor(targets), jit.tensor(CTC_STEPS), jit.tensor(counts)
    assert_close(F.ctc_loss(*arguments, reduction="none"), expected, rtol=1e-12)
    assert_close(nn.CTCLoss(reduction="sum")(*arguments), np.asarray(expected.sum()), rtol=1e-12)
    assert_close(nn.CTCLoss()(*arguments), np.asarray((expected / np.maximum(counts, 1)).mean()), rtol=1e-12)
    lists = arguments[0], arguments[1], CTC_STEPS, counts
    assert F.ctc_loss(*lists).item() == F.ctc_loss(*arguments).item()


def test_one_alignment_and_another_blank(rng):
    log_probs, _ = ctc_inputs(rng)
    alone = F.ctc_loss(jit.tensor(log_probs[:, 0]), jit.tensor([0, 1]), jit.tensor(5), jit.tensor(2), 2, "none")
    assert_close(alone, np.asarray(by_all_paths(log_probs[:, 0], [0, 1], 2)), rtol=1e-12)


def test_what_cannot_be_aligned_is_infinite_or_nothing(rng):
    x = jit.tensor(draw(rng, 2, 1, 3), requires_grad=True)
    arguments = x.log_softmax(-1), jit.tensor([[1, 1]]), jit.tensor([2]), jit.tensor([2])
    assert F.ctc_loss(*arguments, reduction="sum").item() == math.inf
    loss = F.ctc_loss(*arguments, reduction="sum", zero_infinity=True)
    loss.backward()
    assert loss.item() == 0 and x.grad is not None and not x.grad.any()


def test_gradients_of_alignments(rng):
    x = jit.tensor(draw(rng, 4, 2, 3), requires_grad=True)

    def loss(x):
        return F.ctc_loss(x.log_softmax(-1), jit.tensor([[1, 2], [2, 0]]), jit.tensor([4, 3]), jit.tensor([2, 1]))

    assert jit.autograd.gradcheck(loss, (x,)) and jit.autograd.gradgradcheck(loss, (x,))


# -- traced, and misuse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: nn.MarginRankingLoss(0.3)(x, y, F.tanh(x - y).sign()),
        lambda x, y: nn.CosineEmbeddingLoss()(x, y, jit.tensor([1, -1, 1])),
        lambda x, y: nn.MultiMarginLoss()(x + y, jit.tensor([0, 1, 2])),
        lambda x, y: nn.MultiLabelMarginLoss()(x + y, jit.tensor([[0, 1, -1, 2]] * 3)),
        lambda x, y: nn.GaussianNLLLoss()(x, x * 2, y * y),
        lambda x, y: nn.TripletMarginLoss()(x, y, x * y),
        lambda x, y: nn.PoissonNLLLoss(full=True)(x, y * y),
        lambda x, y: F.ctc_loss(
            (x + y).view(3, 1, 4).log_softmax(-1), jit.tensor([[1, 2]]), jit.tensor([3]), jit.tensor([2])
        ),
    ],
)
def test_traced_losses_are_eager_ones_through_a_backward(loss, rng):
    arguments = [jit.tensor(draw(rng, 3, 4).astype(np.float32), requires_grad=True) for _ in range(2)]
    jit.verify(loss, tuple(arguments))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: F.margin_ranking_loss(x, x, x[0]), "the same number of dims"),
        (lambda x: F.cosine_embedding_loss(x, x, x), "a target of one dim less"),
        (lambda x: F.multi_margin_loss(x, x[:, 0].long(), p=3), "p is 3; pass 1 or 2"),
        (lambda x: F.multilabel_margin_loss(x, x[0].long()), "of the same sizes"),
        (lambda x: F.triplet_margin_loss(x, x, x, margin=0.0), "is 0.0; pass a number above 0"),
        (lambda x: F.soft_margin_loss(x, x, reduction="max"), "reduction is 'max'"),
        (
            lambda x: F.ctc_loss(x.view(2, 2, 1), jit.tensor([[0]]), jit.tensor([1]), jit.tensor([1])),
            "expects 2 input lengths",
        ),
        (lambda x: F.ctc_loss(x, jit.tensor([0]), 1, 1, blank=7), "blank is 7, but there are 2 classes"),
    ],
)
def test_misuse_is_named(make, message):
    with pytest.raises(jit.Error, match=message):
        make(jit.ones(2, 2))
