"""Parts, windows, masks and joins whose sizes follow from those of arguments, written through and differentiated."""

from __future__ import annotations

import itertools
import math

import jit
from jit.nn import functional as F
from tests.adversarial.orders import fine, shuffled
from tests.adversarial.trial import Trial, case


@case()
def writes_into_halves(t: Trial) -> None:
    def f(x):
        n = x.shape[1]
        y = x * 2
        y[:, : n // 2] += 1
        y[:, n // 2 :] *= x[:, : n - n // 2]
        y[..., -1] = 0
        y[0] -= n
        return y, y[:, ::2].sum()

    f = t.trace(f)
    for n in shuffled(1, 2, 3, 4, 5, 8, 37):
        t.twice(f, fine(3, n))


@case()
def writes_into_parts_of_arguments(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        x[: n // 2].add_(1)
        x[-1].mul_(n)
        x[1::2].fill_(0.5)
        x.narrow(0, n // 3, n - n // 3 - 1).neg_()
        x[:, x.shape[1] // 2] = x.sum()
        return x.t()[-1], x.sum(0)

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 37), (37, 5), (8, 16), (1, 2), (6, 1)):
        t.call(f, fine(n, m, grad=False))


@case()
def writes_into_views_of_arguments_from_outside(t: Trial) -> None:
    def f(x, y):
        x += y[: x.shape[0]]
        y[x.shape[0] :] = x.shape[0]
        x.transpose(0, 1).mul_(2)
        return x.sum() + y.sum(), x.stride(), x.storage_offset()

    f = t.trace(f)
    for n, m, kind in shuffled((2, 3, 0), (3, 3, 1), (4, 5, 0), (5, 4, 1), (6, 6, 0), (7, 2, 1), (9, 3, 0), (3, 8, 1)):
        base = fine(n + 2, m + 1, grad=False) if kind else fine(m + 1, n + 2, grad=False).t()
        t.call(f, base[1 : n + 1, :m], fine(n + 3, m, grad=False))
        t.see("base", base)


@case(exact=False)
def expanded_and_written(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        y = x[:, None].expand(n, 3, m).clone()
        y[:, 1] = x.flip(0)
        y[n // 2, :, : m // 2] *= 3
        z = x.sum(0).expand(n, m) + x[:1].expand_as(x)
        return y, z.contiguous().view(-1), x.expand(2, -1, -1)[1]

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (1, 5), (8, 1), (3, 3), (1, 1)):
        t.twice(f, fine(n, m))


@case(exact=False)
def strided_windows(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        windows = x.unfold(0, min(3, n), 2)
        places = x.as_strided((n // 2, 2), (2, 1))
        diagonal = x.as_strided((n // 3,), (3,), n % 3)
        return windows.sum(1), places * 2, diagonal, windows.shape, x.unfold(0, n, 1), places.stride()

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 6, 7, 9, 37):
        t.twice(f, fine(n))


@case(exact=False)
def pieces_with_uneven_rests(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        a = [p.sum(0) * (i + 1) for i, p in enumerate(x.chunk(3))]
        b = [p * len(p) for p in x.split(4)]
        c = [p.mean() for p in jit.tensor_split(x, 3) if p.numel()]
        d = x.split([n // 2, n - n // 2])
        return jit.stack(a), b[-1], jit.stack(c), d[1] - d[0][:1], len(a), len(b), jit.tensor_split(x, (1, n // 2))[1]

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 6, 7, 8, 9, 12, 37):
        t.twice(f, fine(n, 2))


@case(exact=False)
def padding_by_computed_amounts(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        a = F.pad(x, (0, -m % 4, n // 2, 0))
        b = F.pad(x, (-(m // 3), m // 3), value=float(n))
        c = F.pad(x[None, None], (1, min(m - 1, 2)), mode="reflect")[0, 0]
        d = F.pad(x[None], (0, 2), mode="replicate")[0]
        return a.view(-1, 4).sum(0), b, c * d[:, : c.shape[1]].sum(), d

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (1, 5), (8, 6), (3, 12), (6, 37)):
        t.twice(f, fine(n, m))


@case(exact=False)
def resized_images(t: Trial) -> None:
    def f(x):
        h, w = x.shape[-2:]
        a = F.interpolate(x, size=(h // 2 + 1, w * 2), mode="bilinear", align_corners=False)
        b = F.interpolate(x, scale_factor=1.5)
        c = F.adaptive_avg_pool2d(x, (2, max(w // 2, 1)))
        return a, b.mean(), c, F.interpolate(x, size=(w, h), mode="nearest") + x.transpose(-1, -2), b.shape

    f = t.trace(f)
    for b, h, w in shuffled((1, 4, 5), (2, 4, 4), (2, 5, 3), (1, 7, 7), (3, 2, 8), (1, 9, 2), first=((4, 4, 4),)):
        t.twice(f, fine(b, 2, h, w))


@case(exact=False)
def rolled_and_flipped(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        y = x.roll(n // 2, 0) + x.roll((1, -(m // 2)), (0, 1)) * 2 + x.flip(0, 1)
        return y.cumsum(0) - y.cumsum(-1), x.roll(n + 1), x.rot90().reshape(n, m), jit.diff(x, dim=0), x.diagonal()

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 37), (37, 5), (1, 4), (8, 1)):
        t.twice(f, fine(n, m))


@case()
def one_hot_and_positions(t: Trial) -> None:
    def f(x, indices):
        n = x.shape[0]
        hot = F.one_hot(indices % n, num_classes=n).double()
        valid = jit.arange(n)[None] < (indices[:, None] + 1)
        return (
            hot @ x,
            hot * valid,
            (jit.arange(n) == n - 1) * x[:, 0],
            jit.linspace(0, 1, n, dtype=jit.float64) * x[:, 0],
            jit.eye(n).double() @ x,
        )

    f = t.trace(f)
    for n, k in shuffled((2, 3), (3, 3), (4, 2), (5, 5), (9, 4), (1, 2), (4, 1), first=((3, 3), (4, 4))):
        t.twice(f, fine(n, 2), jit.arange(k) * 3)


@case(exact=False)
def masks_by_sizes(t: Trial) -> None:
    def f(q, k):
        n, m = q.shape[0], k.shape[0]
        scores = q @ k.t() / math.sqrt(q.shape[1])
        mask = jit.ones(n, m, dtype=jit.bool).tril(diagonal=m - n)
        band = jit.triu(jit.ones(n, m), -(n // 2))
        scores = scores.masked_fill(~mask, -1e9)
        if n == m:
            scores = scores + jit.eye(n)
        return (scores.softmax(-1) * band) @ k

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 3), (4, 4), (1, 6), (5, 9), (1, 1), (6, 6), (4, 5), first=((3, 3), (4, 4))):
        t.twice(f, fine(n, 4), fine(m, 4, start=1.0))


@case()
def largest_of_as_many_as_there_are(t: Trial) -> None:
    def f(x):
        n = x.shape[-1]
        values, places = x.topk(min(n, 5))
        low = x.kthvalue(n // 2 + 1, -1)[0]
        middle = x.sort(-1)[0][..., n // 2]
        return values * 2, places, low - middle, x.argsort(-1)[..., : n // 2], x.median(-1)[0], x.max(-1)[1]

    f = t.trace(f)
    for n in shuffled(1, 2, 3, 4, 5, 6, 8, 37):
        t.twice(f, fine(2, n))


@case()
def repeated_by_sizes(t: Trial) -> None:
    def f(x, y):
        n, m = x.shape[0], y.shape[0]
        a = x.repeat_interleave(2, 0) * n
        b = x.repeat(m, 1).view(m, n, -1).sum(0)
        c = x.tile((2, m)) if m < n else x.repeat(1, 2)
        d = jit.repeat_interleave(x, jit.arange(n), dim=0)
        return a, b, c, d, y.repeat_interleave(n).view(m, n)

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 3), (4, 4), (3, 6), (5, 2), (1, 4), (4, 1), first=((3, 3), (4, 4))):
        t.twice(f, fine(n, 2), fine(m))


@case(exact=False)
def einsum_of_many_sizes(t: Trial) -> None:
    def f(a, b):
        outer = jit.einsum("i,j->ij", a[0], b[0])
        scores = jit.einsum("bi,cj->bc", a, b) / a.shape[1]
        traces = jit.einsum("ii->", outer[: min(outer.shape), : min(outer.shape)])
        batched = jit.einsum("...i,...j->...ij", a[: len(b)], b[: len(a)]).sum(0)
        return outer, scores, traces, batched, jit.tensordot(a, a, dims=([1], [1])), jit.bmm(a[None], a.t()[None])

    f = t.trace(f)
    for n, m, k in shuffled(
        (2, 3, 4), (3, 3, 3), (4, 4, 5), (5, 2, 2), (1, 6, 3), (6, 1, 1), (2, 2, 7), first=((3, 3, 3), (4, 4, 4))
    ):
        t.twice(f, fine(n, m), fine(k, n, start=2.0))


@case()
def lists_of_varying_length_are_joined(t: Trial) -> None:
    def f(parts):
        whole = jit.cat([p * (i + 1) for i, p in enumerate(parts)], 0)
        ends = [sum(len(p) for p in parts[:i]) for i in range(len(parts) + 1)]
        again = [whole[a:b] for a, b in itertools.pairwise(ends)]
        longest = max(len(p) for p in parts)
        rows = jit.stack([F.pad(p, (0, longest - len(p))) for p in again])
        return rows.sum(0), whole[ends[1] :], len(parts) * longest

    f = t.trace(f)
    for sizes in shuffled((2, 3), (3, 3), (4, 4), (2, 3, 4), (5, 1), (0, 4), (6, 6, 6), (3,), (7, 2)):
        t.twice(f, [fine(n, start=float(i)) for i, n in enumerate(sizes)])


@case()
def stacks_in_loops_over_a_batch(t: Trial) -> None:
    def f(x, w):
        found = []
        for i in range(x.shape[0]):
            state = w[0] * 0
            for j in range(0, x.shape[1], 2):
                state = (state + x[i, j] * w[j % w.shape[0]]).tanh()
            found.append(state)
        return jit.stack(found, -1) * x.shape[0]

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 3), (3, 5), (1, 4), (4, 2), (4, 4)):
        t.twice(f, fine(n, m), fine(3, 2))


@case()
def reductions_over_dims_that_vanish(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        part = x[n // 2 : n // 2 + m // 3]
        return (
            part.sum(0),
            part.prod(0),
            part.mean(1),
            x[1:].sum(1),
            part.shape,
            x[:, m:].sum(),
            (x[1:] > 0).any(),
            part.all(),
        )

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (1, 5), (0, 3), (3, 1), (9, 9), (2, 0)):
        t.twice(f, fine(n, m))


@case()
def sizes_of_one_broadcast(t: Trial) -> None:
    def f(x, y, z):
        w = x * y + z
        row = x.mean(1, keepdim=True) - z
        if w.shape != x.shape:
            w = w - x.sum()
        return w, row, jit.where(x > 0, y, z), jit.broadcast_tensors(x, y)[1].sum(0), jit.maximum(y, z)

    f = t.trace(f)
    shapes = [(3, 3), (4, 4), (1, 4), (4, 1), (1, 1), (5, 3), (3, 1), (2, 6)]
    for n, m in shuffled(*shapes, first=((3, 3), (4, 4))):
        t.twice(f, fine(n, m), fine(1, m, start=1.0), fine(n, 1, start=2.0))
        t.twice(f, fine(n, m), fine(n, m, start=1.0), fine(m, start=2.0))


@case(exact=False)
def flat_and_back(t: Trial) -> None:
    def f(x):
        n, m, k = x.shape
        a = x.reshape(-1)
        b = x.view(n, -1)
        c = x.transpose(0, 1).reshape(m * n, k)
        d = x.permute(2, 0, 1).flatten(1)
        e = a.view(k, m, n) if (n * m * k) % 2 else a.view(m, -1, n)
        return a.cumsum(0)[-1], b.sum(0), c, d.t(), e.sum(1), b.unflatten(1, (m, k)).stride(), c.is_contiguous()

    f = t.trace(f)
    for shape in shuffled(
        (2, 3, 4), (3, 3, 3), (4, 4, 4), (1, 5, 2), (5, 1, 3), (6, 2, 1), (3, 5, 7), first=((3, 3, 3), (4, 4, 4))
    ):
        t.twice(f, fine(*shape))


@case()
def squeezed_by_chance(t: Trial) -> None:
    def f(x):
        y = x.squeeze()
        z = x[: x.shape[0] // 2].squeeze(0)
        return y * 2, y.dim(), z.dim(), z.sum(-1), x.squeeze(1).shape, x.unsqueeze(-1).squeeze().sum(0)

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (1, 5), (5, 1), (1, 1), (6, 3), (2, 2)):
        t.twice(f, fine(n, m))


@case(exact=False)
def convolutions_and_pools_of_many_sizes(t: Trial) -> None:
    w = fine(3, 2, 3)

    def f(x):
        n = x.shape[-1]
        y = F.conv1d(x, w, padding=n % 2, stride=1 + (n > 6), dilation=1 + (n > 8))
        z = F.max_pool1d(x, 2, ceil_mode=True)
        up = F.conv_transpose1d(y, w, stride=2)
        return y, z, up.sum(-1), F.avg_pool1d(x, min(n, 3), padding=1), F.adaptive_max_pool1d(x, max(n // 3, 1))

    f = t.trace(f)
    for b, n in shuffled((1, 4), (2, 4), (2, 5), (3, 6), (1, 8), (2, 7), (4, 9), (2, 12), first=((3, 3), (4, 4))):
        x = fine(b, 2, n)
        t.twice(f, x, wrt=[x, w])


@case(exact=False)
def attention_with_heads_and_a_cache(t: Trial) -> None:
    def f(q, past):
        b, n, c = q.shape
        k = jit.cat([past, q], 1)

        def heads(v):
            return v.view(b, v.shape[1], 2, c // 2).transpose(1, 2)

        mask = jit.arange(k.shape[1])[None] <= jit.arange(n)[:, None] + past.shape[1]
        out = F.scaled_dot_product_attention(heads(q), heads(k), heads(k), attn_mask=mask)
        return out.transpose(1, 2).reshape(b, n, c), k

    f = t.trace(f)
    for b, n, m in shuffled(
        (1, 3, 0), (1, 1, 3), (2, 4, 4), (2, 1, 5), (3, 3, 3), (1, 1, 8), (2, 5, 1), first=((2, 2, 2),)
    ):
        t.twice(f, fine(b, n, 4), fine(b, m, 4, start=1.0))


@case(exact=False)
def indices_by_sizes(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        rows = jit.arange(n - 1, -1, -1)
        picked = x[rows, rows % m]
        x2 = x.gather(1, (jit.arange(n)[:, None] + jit.arange(m)) % m)
        put = x.new_zeros(n + 1).index_add(0, rows, picked)
        scattered = jit.zeros(n, m).scatter(1, rows[:, None] % m, 1.0)
        return picked, x2, put, scattered, x[jit.arange(n) % 2 == 0], x[-1, -m], x.take(jit.tensor([n * m - 1]))

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (1, 5), (8, 1), (6, 6)):
        t.twice(f, fine(n, m))


@case()
def slices_with_many_signs(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        return (
            x[-n:], x[: -n // 2], x[n // 3 : -1 : 2], x[-2:], x[3:], x[:3], x[n:], x[5 - n :],
            x[: n - 4], x[-(n // 2) :: 3],
            x[slice(None, None, n // 2 or 1)], x[n // 2], x[n - 1], x[-1], x[None, ..., :2].shape,
        )  # fmt: skip

    f = t.trace(f)
    for n in shuffled(1, 2, 3, 4, 5, 6, 8, 37):
        t.twice(f, fine(n))


@case(exact=False)
def sums_of_products_and_solves(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        gram = x @ x.t() + jit.eye(n) * n
        return (
            jit.linalg.solve(gram, x), jit.linalg.det(gram) / n**n, jit.linalg.cholesky(gram).diagonal(),
            jit.addmm(x, gram, x, alpha=1 / n), jit.outer(x[:, 0], x[0]), x.norm() / n, gram.trace(),
        )  # fmt: skip

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (3, 3), (6, 2), first=((3, 3), (4, 4))):
        t.twice(f, fine(n, m))


@case(exact=False)
def normalised_over_varying_dims(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        a = F.layer_norm(x, (m,)) + F.layer_norm(x, (n, m)) * 0.5
        b = x.var(0, unbiased=n > 1) + x.std(1, unbiased=False).sum()
        c = x.logsumexp(0) - math.log(n) + F.log_softmax(x, 1).mean(0)
        return a, b, c, F.normalize(x, dim=0), jit.cov(x) if n > 1 else x

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (1, 5), (6, 2), first=((3, 3), (4, 4))):
        t.twice(f, fine(n, m))


@case(exact=False)
def losses_of_many_sizes(t: Trial) -> None:
    def f(x, target):
        n, c = x.shape
        a = F.cross_entropy(x, target % c, label_smoothing=0.1 if n > 3 else 0.0)
        b = F.nll_loss(F.log_softmax(x, 1), target % c, weight=jit.arange(c).double() + 1, ignore_index=c - 1)
        d = F.mse_loss(x, x.detach().roll(1, 0), reduction="sum") / x.numel()
        return (
            a + d,
            b,
            F.smooth_l1_loss(x, x.flip(0).detach()),
            F.binary_cross_entropy_with_logits(x[:, 0], (target % 2).double()),
        )

    f = t.trace(f)
    for n, c in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (1, 5), (6, 2), first=((3, 3), (4, 4))):
        t.twice(f, fine(n, c), jit.arange(n))
