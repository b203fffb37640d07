"""Sizes that depend on elements: counts of 0, 1 and many in all kinds of programs, equal by chance, decided upon."""

from __future__ import annotations

from typing import Any

import numpy as np

import jit
from jit import nn
from jit.nn import functional as F
from tests.adversarial.trial import Trial, case

COUNTS = (3, 5, 0, 1, 2, 6, 4, 1, 0, 5, 3)


def rows(count: int, among: int = 6, seed: int = 0) -> jit.Tensor:
    """A matrix with `count` rows that begin with a positive number."""
    rng = np.random.default_rng([count, among, seed])
    found = rng.standard_normal((among, 3)).astype(np.float32)
    found[:, 0] = -np.abs(found[:, 0]) - 0.1
    found[rng.permutation(among)[:count], 0] *= -1
    return jit.tensor(found, requires_grad=True)


def some(x: Any) -> Any:
    return x[x[:, 0] > 0]


@case(exact=False)
def second_derivatives_at_every_count(t: Trial) -> None:
    w = jit.tensor(np.linspace(-1, 1, 9).reshape(3, 3).astype(np.float32), requires_grad=True)

    def f(x):
        y = some(x) @ w
        return (y.tanh() ** 2).sum(), (y.softmax(-1) * some(x).exp()).sum(0)

    f = t.trace(f)
    for count in COUNTS:
        x = rows(count)
        t.twice(f, x, wrt=[x, w])


@case(exact=False)
def two_counts_that_are_often_the_same(t: Trial) -> None:
    def f(x, y):
        a, b = some(x), some(y)
        return a * b, a + b.exp(), jit.cat([a, b]).sum(0)

    f = t.trace(f)
    pairs = ((2, 2), (4, 4), (3, 1), (1, 3), (3, 2), (5, 5), (1, 1), (0, 1), (1, 0), (0, 0), (2, 3), (1, 4), (6, 6))
    for a, b in pairs:
        t.call(f, rows(a), rows(b, seed=1))


@case(exact=False)
def a_count_that_is_another_size_by_chance(t: Trial) -> None:
    def f(x, y):
        a = some(x)
        return a * y, a.t() @ y if a.shape[0] == y.shape[0] else a.sum()

    f = t.trace(f)
    for count in (3, 1, 3, 2, 1, 0, 3):
        t.call(f, rows(count), rows(2, among=3))


@case()
def errors_that_some_counts_raise_are_caught(t: Trial) -> None:
    def f(x):
        y = some(x)
        try:
            z = y[:, 0].view(2, -1)
        except jit.Error:
            z = y[:, 0] * 2
        try:
            return z, y.amax(0)
        except (jit.Error, IndexError):
            return z, y

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case()
def errors_that_some_counts_raise(t: Trial) -> None:
    def f(x):
        y = some(x)
        return y[2] + y.max(0)[0], y[:, 0].view(-1, 3)

    f = t.trace(f)
    for count in (3, 6, 0, 1, 2, 4, 3, 6, 5):
        t.call(f, rows(count))


@case(exact=False)
def python_decides_on_counts(t: Trial) -> None:
    def f(x):
        y = some(x)
        if y.shape[0] > 2:
            return y.mean(0), y.shape[0]
        if len(y) == 0:
            return x.sum(), f"none of {len(x)}"
        return sum(row.sum() for row in y), y[:, 0].tolist() if y.shape[0] == 1 else y.numel()

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case(exact=False)
def loops_and_pieces_of_counts(t: Trial) -> None:
    def f(x):
        y = some(x)
        pieces = [part.sum() for part in y.split(2)] + [part.mean() for part in y.chunk(3)]
        return pieces, [y[i] * i for i in range(y.shape[0])], y.unbind(1)[0], y[:2].unbind(0)

    f = t.trace(f)
    for count in (3, 4, 5, 1, 2, 6, 3):
        t.call(f, rows(count))


@case()
def state_keeps_what_was_counted(t: Trial) -> None:
    seen, total = jit.zeros(()), jit.zeros(3)
    t.watch(seen=seen, total=total)

    def f(x):
        y = some(x)
        seen.add_(y.shape[0])
        total.add_(y.detach().sum(0))
        return y / seen

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case()
def random_draws_for_what_was_chosen(t: Trial) -> None:
    def f(x):
        y = F.dropout(some(x), 0.5)
        return y, jit.rand_like(y[:, 0].detach()), jit.rand(2)

    f = t.trace(f)
    for count in COUNTS:
        jit.manual_seed(count)
        t.call(f, rows(count))
        t.see("further", jit.rand(3))


@case(exact=False)
def written_through_views_of_what_was_chosen(t: Trial) -> None:
    def f(x):
        y = some(x) * 1
        y.t()[1].mul_(2)
        y[::2] += 1
        z = y.t().contiguous()
        z.add_(1)
        y[-1:] = 7
        w = y.t().reshape(-1)
        return y, z * 1, w * 1, y[1:], y.t()

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case()
def chosen_places_are_written(t: Trial) -> None:
    def f(x):
        y = x * 1
        keep = x[:, 0] > 0
        y[keep] = some(x).flip(0)
        y[~keep, 1] = y[~keep, 2] * 3
        y[keep.nonzero().squeeze(-1), 0] += 1
        return y, y.masked_select(y > 0.5)

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case(exact=False)
def whole_steps_of_training_on_what_is_chosen(t: Trial) -> None:
    jit.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = jit.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    t.watch(**dict(net.named_parameters()))

    def step(x):
        optimizer.zero_grad()
        keep = x[:, 0] > 0
        loss = F.cross_entropy(net(x)[keep], (x[:, 1] > 0).long()[keep], reduction="sum")
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = t.trace(step)
    for count in COUNTS:
        t.call(step, rows(count).detach())


class Scaled(jit.autograd.Function):
    """A function of the user's that reads sizes in both directions."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.count = x.shape[0]
        return x * (x.shape[0] + 1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (ctx.count + 1) + g.shape[0]


@case(exact=False)
def functions_and_hooks_that_read_counts(t: Trial) -> None:
    def f(x):
        y = Scaled.apply(some(x))
        y.register_hook(lambda g: g * g.shape[0])
        return y.sum(), y * 2

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case(exact=False)
def computed_again_in_the_backward(t: Trial) -> None:
    def inner(x):
        y = some(x)
        return F.dropout(y.tanh(), 0.3) * y.mean()

    def f(x):
        return jit.autograd.checkpoint(inner, x * 2).sum(0)

    f = t.trace(f)
    for count in COUNTS:
        jit.manual_seed(count)
        t.call(f, rows(count))


@case(exact=False)
def counts_and_sizes_vary_by_turns(t: Trial) -> None:
    def f(x, k):
        y = some(x)
        scores = (y @ x.t()) * k
        return F.softmax(scores, -1) @ x, y.view(y.shape[0], -1, 1) * k, y.shape[0] * x.shape[0]

    f = t.trace(f)
    found = ((3, 6, 2.0), (3, 8, 2.0), (5, 8, 2.0), (1, 8, 3.0), (0, 5, 1.5), (2, 2, 4.0), (7, 9, 2.0), (1, 1, 2.0))
    for count, among, k in (*found, *reversed(found)):
        t.call(f, rows(count, among), k)


@case(exact=False)
def masks_of_masks(t: Trial) -> None:
    def f(x):
        y = some(x)
        z = y[y[:, 1] > 0]
        values, inverse = jit.unique((z * 2).round(), return_inverse=True)
        return z, values[inverse].sum(), x[x > 0].sum(), jit.where(x > 0)[1], z.squeeze()

    f = t.trace(f)
    for count in COUNTS:
        for seed in range(2):
            t.call(f, rows(count, seed=seed))


@case(exact=False)
def numbers_that_were_counted(t: Trial) -> None:
    def f(x):
        n = (x[:, 0] > 0).sum()
        ids = jit.arange(n.item())
        k = n.item()
        return ids * 2, x[:k].sum(0), x.narrow(0, 0, int(n)), jit.full((k, 2), 3.0), x[ids] / max(k, 1)

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case(exact=False)
def repeated_by_counts(t: Trial) -> None:
    def f(x, lengths):
        y = jit.repeat_interleave(x, lengths, dim=0)
        ids = jit.repeat_interleave(jit.arange(x.shape[0]), lengths)
        return y * 2, jit.zeros(x.shape[0], 3).index_add(0, ids, y), y.shape

    f = t.trace(f)
    for lengths in ((1, 2), (3, 2), (0, 0), (1, 0), (1, 1), (0, 5), (2, 1)):
        t.call(f, rows(1, 2), jit.tensor(lengths))


@case(exact=False)
def results_beside_their_views(t: Trial) -> None:
    def f(x):
        y = some(x) * 2
        return y, y[1:], y.t(), y[:, : y.shape[1] - 1], y.view(-1), {"n": y.shape, "first": y[:1]}

    f = t.trace(f)
    for count in COUNTS:
        t.call(f, rows(count))


@case(exact=False)
def detections_of_every_picture(t: Trial) -> None:
    def f(boxes, scores):
        kept = []
        for b, s in zip(boxes, scores, strict=True):
            keep = (s > 0.3).nonzero().squeeze(1)
            order = s[keep].argsort(descending=True)
            kept.append((b[keep][order], s[keep][order]))
        return kept, jit.cat([b for b, _ in kept]), sum(b.shape[0] for b, _ in kept)

    f = t.trace(f)
    rng = np.random.default_rng(7)
    for _ in range(10):
        scores = jit.tensor(rng.random((2, 5)).astype(np.float32), requires_grad=True)
        t.call(f, jit.tensor(rng.random((2, 5, 4)).astype(np.float32), requires_grad=True), scores)
