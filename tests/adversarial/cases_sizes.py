"""Programs of which one recording may serve many sizes, and numbers that steer: sizes of 0 and 1, loops, indices."""

import itertools
import math
from typing import Any

import jit
from jit import nn
from jit.nn import functional as F
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


def ramp(*shape: int, start: float = 0.0) -> jit.Tensor:
    """A float32 leaf of this shape with different elements."""
    return ((jit.arange(math.prod(shape)).float() * 0.5 + start).reshape(shape).cos()).detach().requires_grad_()


SIZES = (3, 3, 4, 5, 0, 1, 2, 7, 1, 0, 5)


@case()
def broadcasting_by_sizes_of_one(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y).sum(0) + (x - y).mean())
    for n, m in ((3, 3), (4, 4), (4, 1), (1, 4), (5, 5), (1, 1), (5, 1), (2, 2), (0, 1), (0, 0)):
        t.twice(f, ramp(n, 2), ramp(m, 2, start=1.0))


@case()
def sizes_that_coincide(t: Trial) -> None:
    f = t.trace(lambda x, y: x.sum() * y + y.shape[0] - (2 if x.shape == y.shape else x.shape[0]))
    for n, m in ((3, 3), (4, 4), (5, 3), (3, 5), (4, 6), (6, 6), (2, 3), (7, 8)):
        t.twice(f, ramp(n), ramp(m, start=1.0))


@case()
def square_matrices_or_not(t: Trial) -> None:
    f = t.trace(lambda x: x @ x.t() + (x.t().sum() if x.shape[0] == x.shape[1] else x.sum(1)))
    for n, m in ((3, 3), (4, 4), (3, 4), (4, 3), (5, 5), (5, 6), (6, 5), (2, 2)):
        t.twice(f, ramp(n, m))


@case()
def slices_with_steps_and_negative_ends(t: Trial) -> None:
    def f(x):
        n = len(x)
        return x[::2].sum() + x[-2:].sum() * 2 + x[: n // 2].sum() * 3 + x[n // 3 : -1].sum() + x.flip(0)[: n - 1].sum()

    f = t.trace(f)
    for n in SIZES:
        t.twice(f, ramp(n))


@case()
def means_and_scales_by_sizes(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        y = x / math.sqrt(max(n, 1)) + x.sum(0, keepdim=True) / (n + 1)
        z = jit.arange(n).float().unsqueeze(1) * x + jit.eye(max(n, m))[:n, :m]
        return y * z, jit.full((n, 2), float(m)), x.numel() / (m or 1)

    f = t.trace(f)
    for n in SIZES:
        t.twice(f, ramp(n, 2))


@case()
def reshapes_by_sizes(t: Trial) -> None:
    def f(x):
        b, c = x.shape[0], x.shape[1]
        y = x.view(b, c // 2, 2).transpose(1, 2).reshape(b * 2, -1)
        return y.unflatten(0, (b, 2)).flatten(1) + jit.cat([x] * 2).view(2, b, c).sum(0) + x.expand(1, b, c)[0]

    f = t.trace(f)
    for n in (2, 3, 3, 5, 4, 1, 7, 1):
        t.twice(f, ramp(n, 4))


@case()
def splits_and_stacks_by_sizes(t: Trial) -> None:
    def f(x):
        halves = x.chunk(2)
        parts = x.split(2)
        return sum(p.sum() for p in parts) * halves[0].sum() + len(parts), jit.stack([x, x * 2], 1), x.repeat(2)

    f = t.trace(f)
    for n in (4, 5, 6, 7, 4, 9, 1, 2, 6):
        t.twice(f, ramp(n))


@case(exact=False)
def convolutions_of_many_sizes(t: Trial) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 1, 2), nn.Flatten())
    f = t.trace(net)
    for b, h in ((1, 4), (2, 4), (2, 5), (3, 6), (1, 8), (2, 7), (4, 4)):
        x = ramp(b, 1, h, 4)
        t.twice(f, x, wrt=[x, *net.parameters()])


@case(exact=False)
def padding_and_positions(t: Trial) -> None:
    table = nn.Embedding(10, 4).double()

    def f(indices):
        n = indices.shape[1]
        x = table(indices) + table(jit.arange(n))
        mask = jit.ones(n, n).tril().bool()
        scores = (x @ x.mT).masked_fill(~mask, -1e9).softmax(-1)
        return F.pad(scores @ x, (0, 0, 0, 8 - n))

    f = t.trace(f)
    for b, n in ((1, 3), (2, 3), (2, 4), (3, 5), (1, 1), (4, 2), (2, 8), (5, 3), (2, 4)):
        t.twice(f, (jit.arange(b * n).reshape(b, n) * 7) % 10, wrt=table.weight)


@case()
def loops_that_stop_by_values(t: Trial) -> None:
    def f(x):
        found = []
        for i in itertools.count():
            if i >= x.shape[0] or x[i].item() > 2:
                break
            found.append(x[i] * i)
        return (jit.stack(found) if found else x), len(found)

    f = t.trace(f)
    for numbers in ((1, 1, 3), (1, 1, 3), (3, 1, 1), (1, 1, 1), (1, 5), (1, 1, 3), (3, 3)):
        t.twice(f, vector(*numbers))


@case()
def a_long_loop(t: Trial) -> None:
    def f(x, n):
        for i in range(n):
            x = x * 0.99 + (i % 3) * 0.01
        return x

    f = t.trace(f)
    for n in (400, 400, 1, 0, 400):
        t.twice(f, vector(1.0, 2.0), n)


@case()
def fixed_point_iteration(t: Trial) -> None:
    def f(x):
        y = x * 0 + 1
        for steps in range(100):
            new = 0.5 * (y + x / y)
            if (new - y).abs().max() < 1e-4:
                return new, steps
            y = new
        return y, -1

    f = t.trace(f)
    for a in (2.0, 2.0, 9.0, 2.5, 100.0, 9.0):
        t.twice(f, vector(a, a + 1))


@case()
def numbers_out_of_range(t: Trial) -> None:
    def f(x, i):
        return x[i], x.select(0, i), x.narrow(0, i, 1), x[i:], x.index_select(0, jit.tensor([i]))

    f = t.trace(f)
    for i in (0, 1, 2, 5, -1, 1):
        t.call(f, vector(1.0, 2.0, 3.0), i)


@case(exact=False)
def item_as_an_index_and_a_size(t: Trial) -> None:
    def f(x, n):
        k = n.item()
        return x[:k] * k, jit.ones(k) * 2, x.repeat(k), x[k - 1], jit.arange(k), x.view(-1)[k // 2 :].sum()

    f = t.trace(f)
    for n in (1, 2, 2, 3, 1, 3):
        t.twice(f, vector(1.0, 2.0, 3.0), jit.tensor(n))


@case()
def big_and_small_numbers_from_tensors(t: Trial) -> None:
    def f(x, n):
        k = n.item()
        return x * (k % 7) + (k // 1000) * 0.5 + (k**2 > 10**12) + (-k) + abs(k) - round(k / 3) + (k & 1) + (k << 1) % 5

    f = t.trace(f)
    for n in (5, 5, -5, 10**7, 2**31 + 1, -(10**6), 0, 5):
        t.call(f, vector(1.0, 2.0), jit.tensor(n))


@case()
def powers_and_divisions_of_numbers(t: Trial) -> None:
    def f(x, s):
        v = s.item()
        return x * (v**2) + (1 / v if v else 7.0) + v // 0.3 + v % 0.7 + divmod(v, 2)[1] + 2**v

    f = t.trace(f)
    for s in (1.5, 1.5, -2.25, 0.0, 1e-3, 30.0, -1.5):
        t.call(f, vector(1.0, 2.0), jit.tensor(s))


@case()
def comparisons_between_traced_numbers(t: Trial) -> None:
    def f(x, y):
        a, b = x.sum().item(), y.sum().item()
        low, high = sorted((a, b))
        clipped = min(max(a, -1.0), 1.0)
        return x * low - y * high + clipped + (a == b) + (a is b) + ({a: 1}.get(b, 5))

    f = t.trace(f)
    for a, b in ((1, 2), (1, 2), (2, 1), (1, 1), (-5, 0.5), (0.25, -7), (2, 1)):
        t.call(f, vector(a), vector(b))


@case()
def statistics_of_python(t: Trial) -> None:
    def f(x):
        values = [v.item() for v in x]
        return x * (sum(values) / len(values)) + max(values) - math.fsum(values) + math.hypot(*values[:2])

    f = t.trace(f)
    for a in (1.0, 1.0, 2.0, 3.0):
        t.call(f, vector(a, 2.0, 0.5))


@case()
def unique_nonzero_and_packing(t: Trial) -> None:
    def f(x):
        positive = x[x > 0]
        where = (x < 1).nonzero()
        values, counts = x.round().unique(return_counts=True)
        return (
            positive * 2,
            x[where[:, 0]].sum(),
            values * counts,
            positive.shape[0] + len(values),
            x.masked_select(x > 1),
        )

    f = t.trace(f)
    for numbers in ((1, -1, 2), (1, -1, 2), (-1, -2, -3), (1, 2, 3), (0.5, 0.5, 0.5), (3, 2, 1), (1, -1, 2)):
        t.twice(f, vector(*numbers))


@case()
def sequences_are_packed(t: Trial) -> None:
    net = nn.GRU(2, 3)

    def f(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0])
        return out

    f = t.trace(f)
    for lengths in ([3, 2], [3, 2], [3, 1], [1, 3], [2, 3], [3, 2]):
        t.call(f, ramp(3, 2, 2), jit.tensor(lengths))
        t.see("gradients", [p.grad for p in net.parameters()])


@case(exact=False)
def empty_everything(t: Trial) -> None:
    def f(x):
        return (
            x.sum(),
            x.mean(0),
            x.prod(1),
            x.t() @ x,
            jit.cat([x, x]),
            x.reshape(-1),
            x.softmax(1),
            x[x > 0],
            x.clone(),
        )

    f = t.trace(f)
    for shape in ((0, 2), (0, 2), (2, 0), (0, 0), (3, 2), (0, 2), (1, 2), (0, 3)):
        t.twice(f, ramp(*shape))


@case()
def lists_of_tensors_of_many_sizes(t: Trial) -> None:
    def f(parts):
        longest = max(p.shape[0] for p in parts)
        padded = [F.pad(p, (0, longest - p.shape[0])) for p in parts]
        return jit.stack(padded).sum(0), jit.tensor([p.shape[0] for p in parts])

    f = t.trace(f)
    for sizes in ((2, 3), (2, 3), (3, 3), (5, 1), (1, 5), (2, 3, 4), (4, 2), (6, 7)):
        parts: list[Any] = [ramp(n, start=float(i)) for i, n in enumerate(sizes)]
        t.twice(f, parts)


@case()
def a_size_steers_a_second_function(t: Trial) -> None:
    inner = t.trace(lambda x, n: x[:n].sum() * n)
    f = t.trace(lambda x: inner(x, x.shape[0] - 1) + inner(x, 2))
    for n in (3, 4, 5, 2, 6, 3):
        t.twice(f, ramp(n))


@case()
def parts_by_sizes_are_written_and_returned(t: Trial) -> None:
    def f(x):
        quarter = x.shape[0] // 4
        y = x * 1
        view = y[:quarter]
        y[: quarter + 1] = 0
        y.add_(1)
        return y, view.sum() * 2, y[quarter:], x[:quarter]

    def g(x):
        x[: x.shape[0] // 4].zero_()
        return x.sum(), x.as_strided((x.shape[0] // 3,), (1,))

    f, g = t.trace(f), t.trace(g)
    for n in (5, 6, 7, 9, 12, 13, 6):
        t.twice(f, ramp(n))
        t.call(g, ramp(n).detach())
