"""Sizes that reach Python: collections, texts, numpy, caches, loops and errors that are made of them."""

from __future__ import annotations

import bisect
import collections
import functools
import itertools
import json
import math
import operator
import pickle
import struct

import numpy as np

import jit
from tests.adversarial.orders import WITH_SMALL, ramp, shuffled
from tests.adversarial.trial import Trial, case


@case()
def a_size_that_only_matters_at_37(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        return x * 2 if n != 37 and m != 37 else -x.sum() * n

    f = t.trace(f)
    for n, m in shuffled((3, 4), (4, 5), (37, 4), (4, 37), (37, 37), (5, 5), (6, 2), (36, 38)):
        t.twice(f, ramp(n, m).double())


@case()
def two_sizes_coincide_in_the_first_two_calls(t: Trial) -> None:
    def f(x, y):
        z = x @ y if x.shape[1] == y.shape[0] else x.sum() * y
        return z * x.shape[0] + y.shape[-1]

    f = t.trace(f)
    for a, b, c, d in shuffled(
        (5, 3, 2, 2), (2, 4, 4, 3), (3, 5, 4, 4), (6, 7, 7, 6), (9, 2, 3, 3), first=((3, 3, 3, 3), (4, 4, 4, 4))
    ):
        t.twice(f, ramp(a, b).double(), ramp(c, d, start=1.0).double())


@case()
def a_size_coincides_with_channels_and_constants(t: Trial) -> None:
    weight = ramp(8, 8)

    def f(x):
        n, c = x.shape
        y = x @ weight[:c] if n == 8 else x @ weight[:c] + c
        if n == c:
            y = y.t()
        return y * (n - 8), y.reshape(-1)[: n * 8].sum()

    f = t.trace(f)
    for n, c in shuffled((3, 8), (8, 3), (5, 5), (8, 7), (9, 8), (2, 4), first=((8, 8), (4, 4))):
        t.twice(f, ramp(n, c))


@case()
def sizes_equal_attributes_by_chance(t: Trial) -> None:
    class Net(jit.nn.Module):
        def __init__(self):
            super().__init__()
            self.width, self.heads = 8, 2

        def forward(self, x):
            n = x.shape[0]
            y = x.reshape(n, self.heads, -1) if x.shape[1] % self.heads == 0 else x[:, None]
            if n == self.width:
                y = y * 3
            elif n > self.width:
                y = y[: self.width]
            return y.sum(1) + self.width

    f = t.trace(Net())
    for n, m in shuffled((8, 4), (4, 8), (9, 3), (2, 2), (10, 6), (7, 5), (8, 8), first=((8, 8), (8, 8))):
        t.twice(f, ramp(n, m))


@case()
def collections_of_sizes(t: Trial) -> None:
    def f(x, y):
        sizes = [*x.shape, *y.shape]
        counts = collections.Counter(sizes)
        largest, times = counts.most_common(1)[0]
        rank = sorted(set(sizes))
        table = {n: i for i, n in enumerate(rank)}
        return (
            x.sum() * largest + times, y * table[y.shape[0]], len(rank), min(sizes), max(sizes), sum(sizes),
            sizes.index(y.shape[1]), 5 in table, tuple(rank), bisect.bisect(rank, 5),
        )  # fmt: skip

    f = t.trace(f)
    for a, b, c, d in shuffled((2, 3, 4, 5), (5, 4, 3, 2), (3, 3, 4, 4), (6, 3, 6, 2), (7, 8, 9, 10), (5, 5, 5, 5)):
        t.twice(f, ramp(a, b), ramp(c, d))


@case()
def texts_of_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        text = f"{n:>4}|{n!r}|{n:b}" + "%03d" % (n,) + f"{x.shape}" + str(x.size()) + repr(n)  # noqa: UP031
        return x * len(str(n)), text, json.dumps({"n": n, "all": list(x.shape)}), int(text[:4]), text.count("7")

    f = t.trace(f)
    for n in shuffled(*WITH_SMALL, 10, 77):
        t.twice(f, ramp(n, 3))


@case()
def bytes_of_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        packed = struct.pack("<iq", n, x.numel())
        low = packed[0] + n.to_bytes(4, "little")[0] + n.bit_length()
        again = pickle.loads(pickle.dumps((n, x.shape[1])))
        return x * low + again[0] - struct.unpack("<iq", packed)[1], bytes([n]), hex(n), chr(65 + n)

    f = t.trace(f)
    for n in shuffled(*WITH_SMALL):
        t.twice(f, ramp(n, 3))


@case()
def kinds_of_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        seen = [
            isinstance(n, int),
            isinstance(n, bool),
            type(x.numel()) is int,
            n is None,
            bool(n),
            n is n,
            callable(n),
        ]
        return x * sum(seen) + float(n) + int(n) + complex(n).real, hash(n) == hash(int(n)), operator.index(n), -n, +n

    f = t.trace(f)
    for n in shuffled(*WITH_SMALL):
        t.twice(f, ramp(n))


@case()
def arithmetic_of_sizes(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        q, r = divmod(n * 3 + 1, m)
        bits = (n & 5) | (m << 1) ^ (n >> 1)
        real = round(n / m, 2) + math.sqrt(n) + math.log2(m) + n**0.5 + m**-1 + pow(n, 2, 7) + math.gcd(n, m)
        return x * (q - r) + bits + real, ~n, abs(m - n), round(n * 1.5), math.ceil(n / 4), math.floor(-m / 3), n / m

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 37), (37, 5), (8, 16), (16, 8), (7, 7)):
        t.twice(f, ramp(n, m))


@case()
def comparisons_of_sizes(t: Trial) -> None:
    def f(x, y):
        n, m = x.shape[0], y.shape[0]
        chain = 2 < n <= m < 10
        picked = x.sum() if n < m else y.sum()
        flags = (n == m, n != m, n >= 4, x.shape == y.shape, x.shape > y.shape, x.shape[:1] + y.shape[:1] == (3, 4))
        return picked * n + chain, flags, x.shape < (4,), x.size() == jit.Size([3]), max(n, m, key=lambda k: k % 4)

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 4), (4, 3), (5, 5), (9, 9), (10, 4), (3, 12), first=((3, 3), (4, 4))):
        t.twice(f, ramp(n), ramp(m, start=1.0))


@case()
def lists_by_sizes(t: Trial) -> None:
    scales = [0.5, 1.5, -2.0, 3.0, 4.0, 0.25, 8.0, -1.0, 2.0]

    def f(x):
        n = x.shape[0]
        head, tail = scales[:n], scales[n:]
        y = x * scales[n % 9] + sum(head) - len(tail) + [1.0, -1.0][n > 4]
        rest = [0] * (n // 2) + [1] * (n % 2)
        return (
            y,
            jit.tensor(rest, dtype=jit.float32).sum() + len(rest),
            jit.tensor((scales * 5)[:n]) * x,
            scales[-(n % 9)],
        )

    f = t.trace(f)
    for n in shuffled(*WITH_SMALL):
        t.twice(f, ramp(n))


@case()
def loops_over_sizes(t: Trial) -> None:
    def f(x):
        total = x.sum()
        for i, row in enumerate(x):
            total = total + row.sum() * i
        for i, (a, b) in zip(range(x.shape[0]), itertools.product(range(2), repeat=2)):
            total = total * 0.5 + a - b + i
        for i in reversed(range(len(x))):
            total = total + x[i, 0] / (i + 1)
        return total, sum(1 for _ in x), list(range(x.shape[0]))[-1:]

    f = t.trace(f)
    for n in shuffled(0, 1, 2, 3, 4, 6, 9):
        t.twice(f, ramp(n, 2))


@case()
def while_loops_that_halve_a_size(t: Trial) -> None:
    def f(x):
        steps = 0
        while x.shape[0] > 1:
            half = x.shape[0] // 2
            x = x[:half] + x[half : 2 * half] * 0.5 if x.shape[0] % 2 == 0 else x[:-1]
            steps += 1
        return x, steps

    f = t.trace(f)
    for n in shuffled(1, 2, 3, 4, 5, 8, 16, 12, 37):
        t.twice(f, ramp(n, 2))


@case()
def recursion_on_sizes(t: Trial) -> None:
    def merge(x):
        n = x.shape[0]
        if n <= 2:
            return x.sum(0)
        return merge(x[: n // 2]) * 2 - merge(x[n // 2 :])

    f = t.trace(lambda x: merge(x) + x.shape[0])
    for n in shuffled(1, 2, 3, 4, 5, 6, 8, 9):
        t.twice(f, ramp(n, 2))


@case()
def generators_and_closures_over_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]

        def windows(width=n // 2 + 1):
            for i in range(0, n, width):
                yield x[i : i + width], i

        def scale(y, k=n):
            return y * k + n

        return scale(sum((w.sum() * (i + 1) for w, i in windows()), jit.zeros(())))

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 8, 1, 9):
        t.twice(f, ramp(n))


@case()
def caches_keyed_by_sizes(t: Trial) -> None:
    @functools.cache
    def table(n, m):
        return (n * 3 + m) % 5, math.sin(n)

    f = t.trace(lambda x: x * table(*x.shape)[0] + table(x.shape[1], 2)[1])
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 37), (37, 5), (8, 16)):
        table(n, m), table(m, 2)
        t.twice(f, ramp(n, m))


@case()
def errors_that_carry_a_size(t: Trial) -> None:
    class TooLong(Exception):
        pass

    def check(x):
        if x.shape[0] > 6:
            raise TooLong("too long", x.shape[0])
        return x

    def f(x):
        try:
            return check(x) * 2
        except TooLong as error:
            return x[: error.args[1] // 2] - error.args[1]

    def g(x):
        assert x.shape[0] % 2 == 0, f"odd: {x.shape[0]}"
        return x.reshape(2, -1).sum(0)

    f, g = t.trace(f), t.trace(g)
    for n in shuffled(2, 3, 4, 5, 6, 7, 8, 9, 37):
        t.twice(f, ramp(n))
        t.twice(g, ramp(n))


@case()
def operators_that_refuse_sizes_are_caught(t: Trial) -> None:
    def f(x, y):
        try:
            return x + y
        except RuntimeError:
            return x.sum() - y
        finally:
            y.mul_(2)

    def g(x):
        try:
            return x.view(4, -1).sum(0)
        except RuntimeError:
            return x[:4] * x.shape[0]

    f, g = t.trace(f), t.trace(g)
    for n, m in shuffled((3, 4), (4, 3), (5, 5), (1, 4), (4, 1), (6, 6), (9, 8), first=((3, 3), (4, 4))):
        t.call(f, ramp(n), ramp(m, grad=False))
        t.twice(g, ramp(n + m))


@case()
def numpy_and_math_on_sizes(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        steps = np.linspace(0.0, 1.0, n)
        grid = np.arange(n * m).reshape(x.shape) % 3
        return (
            x * np.sqrt(n) + float(np.prod(x.shape)) + np.float32(m), x + jit.from_numpy(grid), int(np.log2(n)),
            x.sum() * float(steps[-1] - steps[0]) + int(np.ceil(m / 2)), np.int64(n) + m,
            math.isqrt(n), math.comb(n, 2),
        )  # fmt: skip

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 37), (37, 5), (8, 16)):
        t.twice(f, ramp(n, m))


@case()
def sizes_read_from_a_tensor(t: Trial) -> None:
    def f(x, lengths):
        longest = int(lengths.max())
        mask = jit.arange(longest)[None, :] < lengths[:, None]
        parts = [x[i, :n].sum() for i, n in enumerate(lengths.tolist())]
        return x[:, :longest] * mask, jit.stack(parts) / longest, longest == x.shape[1]

    f = t.trace(f)
    for n, lengths in shuffled((4, [1, 2]), (4, [4, 4]), (5, [5, 3]), (6, [3, 3]), (3, [3, 1]), (9, [2, 8])):
        t.twice(f, ramp(2, n), jit.tensor(lengths))


@case()
def dtypes_chosen_by_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        dtype = jit.int16 if n < 5 else jit.int32 if n * 4096 < 2**15 else jit.int64
        places = jit.arange(n, dtype=dtype)
        return (
            places,
            x * places,
            (x.double() if n > 7 else x).sum(),
            jit.full((n,), n),
            jit.tensor(n),
            jit.tensor([n / 2]),
        )

    f = t.trace(f)
    for n in shuffled(*WITH_SMALL, 6, 7):
        t.twice(f, ramp(n))


@case()
def algorithms_chosen_by_sizes(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        if not n:
            return x.sum(), "empty"
        if n * m > 64:
            return x.t() @ x, "large"
        if n > m:
            return (x.unsqueeze(2) * x.unsqueeze(1)).sum(0), "tall"
        return jit.einsum("ni,nj->ij", x, x) if n == m else x.mean(0), "else"

    f = t.trace(f)
    for n, m in shuffled((0, 3), (3, 3), (5, 5), (4, 3), (9, 2), (3, 4), (2, 9), (20, 4), (4, 20), (8, 8), (9, 9)):
        t.twice(f, ramp(n, m))


@case()
def sizes_kept_as_defaults_and_attributes(t: Trial) -> None:
    class Net:
        limit = 5

        def __init__(self):
            self.seen = 6

        def run(self, x, n=None, *, most=4):
            n = x.shape[0] if n is None else n
            n = min(n, most, self.limit) if n < self.seen else self.seen
            return x[:n] * n + (x.shape[0] == self.limit) - int(n is None)

    net = Net()
    f = t.trace(net.run)
    for n, limit, seen in shuffled((3, 5, 6), (7, 5, 6), (5, 5, 5), (4, 2, 9), (9, 3, 4), (6, 6, 6)):
        net.limit, net.seen = limit, seen
        t.twice(f, ramp(n))
        t.twice(f, ramp(n), n - 1, most=limit)


@case()
def sizes_as_keyword_and_starred_arguments(t: Trial) -> None:
    def part(x, *sizes, scale, **others):
        return x.new_ones(sizes) * scale + sum(others.values())

    def f(x):
        n, *rest = x.shape
        return part(x, *x.shape, scale=n, a=rest[0], b=len(rest)) * x, part(x, *reversed(x.shape), scale=-n)

    f = t.trace(f)
    for shape in shuffled((2, 3), (3, 2), (4, 4), (5, 6, 2), (2, 3, 4), (7, 8), (4, 4, 4)):
        t.twice(f, ramp(*shape))


@case()
def functions_that_return_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        return (
            n,
            x.shape,
            x.size(),
            x.size(-1),
            x.numel() * 2,
            [n // 2, {"n": n % 3}],
            x.stride(),
            x.t().stride(),
            x * n,
        )

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (1, 3), (0, 2), (5, 37)):
        t.twice(f, ramp(n, m))


@case()
def sums_of_large_sizes(t: Trial) -> None:
    def f(x, big):
        wide = x[:, None].expand(x.shape[0], big)
        flat = x.as_strided((big, x.shape[0]), (0, 1))
        total = wide.numel() + flat.numel() + big * 2**20
        return x * (total % 97), total, wide.shape, wide[:, big - 1] * 2, flat[big // 2], wide.stride()

    f = t.trace(f)
    for n, big in shuffled((2, 2**31), (3, 2**31 + 5), (3, 2**31), (4, 7), (5, 2**33), (6, 2**40 + 1), (7, 2**31 - 1)):
        t.call(f, ramp(n, grad=False), big)


@case()
def large_expanded_tensors_as_arguments(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        return x[: n // 2, 0].shape, x[0, :3] * (x.numel() % 13), m * n > 2**31, x.shape, x.numel(), x[-1, -1] + n % 7

    f = t.trace(f)
    for n, m in shuffled((2**31, 3), (3, 2**31), (2**16, 2**16), (5, 6), (2**33 + 1, 4), (2**31 - 1, 4), (7, 2**32)):
        t.see("result", f(ramp(1, 1, grad=False).expand(n, m)))


@case()
def sets_and_frozen_keys_of_sizes(t: Trial) -> None:
    known = {(2, 3): 1.0, (4, 4): -2.0, (5, 37): 0.5}

    def f(x):
        y = x * known.get(tuple(x.shape), 3.0) + known.get(x.shape, 7.0)
        return y, x.shape[0] in {3, 4, 5}, frozenset(x.shape) == {4}, x.shape in known, x.shape.count(4), 37 in x.shape

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 37), (37, 5), (8, 16), (4, 5)):
        t.twice(f, ramp(n, m))


@case()
def sorting_tensors_by_sizes(t: Trial) -> None:
    def f(*parts):
        order = sorted(range(len(parts)), key=lambda i: (-parts[i].shape[0], i))
        joined = jit.cat([parts[i] * (k + 1) for k, i in enumerate(order)])
        groups = {n: [parts[i] for i in g] for n, g in itertools.groupby(order, key=lambda i: parts[i].shape[0])}
        return joined, [jit.stack(g).sum(0) for g in groups.values()], order, max(parts, key=len) * 2

    f = t.trace(f)
    for sizes in shuffled(
        (2, 3, 4), (4, 3, 2), (3, 3, 3), (5, 5, 2), (2, 6, 6), (7, 8, 9), first=((3, 3, 3), (4, 4, 4))
    ):
        t.twice(f, *[ramp(n, start=float(i)) for i, n in enumerate(sizes)])


@case()
def match_statements_on_shapes(t: Trial) -> None:
    def f(x):
        match tuple(x.shape):
            case (n,):
                return x * n
            case (2, m):
                return x.sum() * m
            case (n, m) if n == m:
                return x.t() - n
            case (n, m) | (n, m, _) if n < m:
                return x.sum(0) + n
            case (n, *rest):
                return x.reshape(n, -1) * len(rest)

    f = t.trace(f)
    for shape in shuffled((3,), (4,), (2, 3), (2, 5), (4, 4), (5, 5), (3, 5), (3, 6, 2), (6, 3), (7, 3, 2), (9,)):
        t.twice(f, ramp(*shape))
