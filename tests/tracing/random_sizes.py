"""Random programs at random sizes: whether traced ones do what untraced ones do, forward and backward, at every size.

    python -m tests.tracing.random_sizes 0 2000   # 2,000 programs; prints those that fail, exits with 1 if any did
    python -m tests.tracing.random_sizes 17 18 -v  # one of them, with its steps

The same on a GPU, against untraced ones on the CPU, is a matter of `check(seed, "cuda")`.

A program is a list of steps on a growing list of tensors; which operators, on which of them, follows from a seed, and
never from a size. Sizes are read, computed with, decided upon and put into views as users do. Values stay of moderate
size, so that rounding is not what differs.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import jit
import jit.nn.functional as F

STEPS = 8
ROUNDS = 6
"""The calls of a program, each with sizes of its own."""

Step = tuple[str, Callable[..., Any]]

UNARY: list[Step] = [
    ("tanh", jit.tanh), ("relu", jit.relu), ("sigmoid", jit.sigmoid), ("scaled", lambda x: x * 0.5 + 1),
    ("gelu", F.gelu), ("sin", jit.sin), ("by its size", lambda x: x / x.shape[0]),
    ("plus a size", lambda x: x + x.shape[-1] * 0.01), ("by the root of a size", lambda x: x / x.shape[-1] ** 0.5),
    ("clamped", lambda x: x.clamp(-1, 1)), ("half", lambda x: (x * (1 / max(x.shape[0], 1)))),
]  # fmt: skip
ROWS: list[Step] = [
    ("sum", lambda x: jit.tanh(x.sum(-1, keepdim=True)) + x), ("mean", lambda x: x - x.mean(0)),
    ("softmax", lambda x: F.softmax(x, -1)), ("softmax of columns", lambda x: F.softmax(x, 0)),
    ("layer norm", lambda x: F.layer_norm(x, (x.shape[-1],)) * 0.3), ("cumsum", lambda x: jit.tanh(x.cumsum(0))),
    ("max", lambda x: x.amax(-1, keepdim=True) * 0.5 + x), ("logsumexp", lambda x: x - x.logsumexp(-1, keepdim=True)),
    ("norm", lambda x: F.normalize(x, dim=-1)), ("sum of all", lambda x: jit.tanh(x.sum()) + x),
    ("sorted", lambda x: x.sort(-1)[0]), ("largest", lambda x: x.topk(2, -1)[0].sum(-1, keepdim=True) * 0.3 + x),
]  # fmt: skip
VIEWS: list[Step] = [
    ("flat and back", lambda x: jit.tanh(x.reshape(-1)).view(x.shape)),
    ("flat by sizes", lambda x: jit.sin(x.reshape(x.shape[0], x.numel() // x.shape[0])).reshape(x.shape)),
    ("turned", lambda x: x.transpose(0, -1)), ("turned, in rows", lambda x: x.transpose(0, -1).contiguous()),
    ("first half", lambda x: x[: max(x.shape[0] // 2, 1)]), ("all but one", lambda x: x[:, 1:] if x.ndim > 1 else x),
    ("last half", lambda x: x.narrow(0, x.shape[0] // 2, x.shape[0] - x.shape[0] // 2)),
    ("every other", lambda x: x[..., ::2]), ("flipped", lambda x: x.flip(0)),
    ("twice", lambda x: jit.cat([x, x * 2], 0)), ("beside itself", lambda x: jit.cat([x, jit.tanh(x), x], -1)),
    ("stacked", lambda x: jit.stack([x, x + 1], 0).sum(0)), ("rolled", lambda x: x.roll(1, 0) + x),
    ("padded", lambda x: F.pad(x, (1, 2))), ("padded to 4", lambda x: F.pad(x, (0, -x.shape[-1] % 4))),
    ("expanded", lambda x: x.unsqueeze(1).expand(x.shape[0], 2, *x.shape[1:]).sum(1)),
    ("repeated", lambda x: x.repeat(2, *(1 for _ in x.shape[1:]))),
    ("chunks", lambda x: jit.cat([jit.tanh(part) for part in x.chunk(2, 0)][::-1], 0)),
    ("selected", lambda x: x - x.select(0, x.shape[0] - 1)),
    ("picked", lambda x: x.index_select(0, jit.arange(x.shape[0] - 1, -1, -1))),
    ("masked", lambda x: jit.where(jit.arange(x.shape[-1]) % 2 == 0, x, x * 0.1)),
    ("in a larger one", lambda x: jit.cat([x.new_zeros(x.shape[0] + 1, *x.shape[1:])[: x.shape[0]] + x, x], 0)),
]  # fmt: skip
DECISIONS: list[Step] = [
    ("even or not", lambda x: x * 2 if x.shape[0] % 2 == 0 else x - 1),
    ("long or not", lambda x: jit.tanh(x) if x.shape[-1] > 7 else x * 0.5),
    ("37", lambda x: -x if x.shape[0] == 37 else x),
    ("square or not", lambda x: x + 1 if x.shape[0] == x.shape[-1] else x),
    ("more than one", lambda x: x + 0.5 if len(x) > 1 else x),
]  # fmt: skip
MATRICES: list[Step] = [
    ("gram", lambda x: x.reshape(x.shape[0], -1) @ x.reshape(x.shape[0], -1).t() / x.numel()),
    ("attention", lambda x: F.softmax(_flat(x) @ _flat(x).t() / _flat(x).shape[-1] ** 0.5, -1) @ _flat(x)),
    ("lower triangle", lambda x: jit.tril(_flat(x))),
    ("outer", lambda x: jit.tanh(x.reshape(-1)[:5, None] * x.reshape(-1)[None, :6])),
    ("by a weight", lambda x: _flat(x) @ jit.full((x.numel() // x.shape[0], 3), 0.1)),
    ("windows", lambda x: F.avg_pool1d(_flat(x)[None], 2)[0] if x.numel() // x.shape[0] > 1 else x),
    ("smoothed", lambda x: F.conv1d(_flat(x)[:, None], jit.full((2, 1, 3), 0.2), padding=1).sum(1)),
]  # fmt: skip
PAIRS: list[Step] = [
    ("means added", lambda x, y: x + y.mean()), ("scaled by the other", lambda x, y: x * jit.tanh(y.sum())),
    ("first rows", lambda x, y: x.reshape(-1)[:2] + y.reshape(-1)[:2]),
    ("joined flat", lambda x, y: jit.cat([x.reshape(-1), y.reshape(-1)], 0)),
    ("sum if alike", lambda x, y: x + y if x.shape == y.shape else x),
    ("outer of two", lambda x, y: jit.tanh(x.reshape(-1)[:7, None] * y.reshape(-1)[None])),
]  # fmt: skip


def _flat(x: Any) -> Any:
    return x.reshape(x.shape[0], -1)


class Program:
    """The program of a seed: called with two tensors."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.steps: list[tuple[str, Callable[..., Any], tuple[int, ...]]] = []
        kinds = [UNARY, ROWS, VIEWS, VIEWS, DECISIONS, MATRICES, PAIRS]
        for number in range(int(random.integers(3, STEPS + 1))):
            kind = kinds[random.integers(len(kinds))]
            name, function = kind[random.integers(len(kind))]
            operands = tuple(int(i) for i in random.integers(max(number - 1, 0), number + 2, 2 if kind is PAIRS else 1))
            self.steps.append((name, function, operands))
        self.ranks = [int(n) for n in random.integers(1, 4, 2)]
        self._random = random

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for _, function, operands in self.steps:
            values.append(function(*[values[i] for i in operands]))
        return tuple(values[-2:])

    def shapes(self) -> Iterator[list[tuple[int, ...]]]:
        """The shapes of the inputs, for each call; some sizes stay, now and then one is 1."""
        first = [tuple(int(n) for n in self._random.integers(2, 9, rank)) for rank in self.ranks]
        yield first
        for _ in range(ROUNDS - 1):
            grown = self._random.integers(0, 9, (2, 3)) * (self._random.random((2, 3)) < 0.7)
            shapes = [tuple(n + int(g) for n, g in zip(shape, more)) for shape, more in zip(first, grown, strict=True)]
            if self._random.random() < 0.15:
                shapes[0] = (1, *shapes[0][1:])
            yield shapes


def run(function: Callable[..., Any], arrays: Sequence[Any], device: str = "cpu") -> Any:
    """Results and gradients; the class of the error, if there is one."""
    given = [jit.from_numpy(array.copy()).to(device).requires_grad_() for array in arrays]
    try:
        with jit.device(device):
            results = function(*given)
            total = sum(((result * result).sum() for result in results), jit.zeros(()))
            total.backward()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return type(error).__name__
    gradients = [None if x.grad is None else x.grad.cpu().numpy() for x in given]
    return [r.detach().cpu().numpy() for r in results], gradients


def agree(found: Any, wanted: Any) -> bool:
    """Whether two outcomes are the same, but for rounding."""
    if isinstance(found, str) or isinstance(wanted, str):
        return bool(found == wanted)
    pairs = [pair for a, b in zip(found, wanted, strict=True) for pair in zip(a, b, strict=True)]
    return all(_same(a, b) for a, b in pairs)


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0))  # small ones may be differences of large ones
    alike = a.shape == b.shape and a.dtype == b.dtype
    return alike and np.allclose(a, b, rtol=1e-3, atol=1e-4 + 3e-4 * largest, equal_nan=True)


def check(seed: int, device: str = "cpu") -> tuple[str | None, int]:
    """What is wrong with a program, traced on a device, if anything is; and how many calls were recorded."""
    program = Program(seed)
    traced = jit.trace(program.__call__)
    for number, shapes in enumerate(program.shapes()):
        random = np.random.default_rng([seed, number])
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        wanted = run(program, arrays)
        for _ in range(2):
            found = run(traced, arrays, device)
            if not agree(found, wanted):
                return f"call {number} with {shapes}: {[name for name, *_ in program.steps]}", traced.misses
    return None, traced.misses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    failed = recorded = 0
    for seed in range(options.first, options.last):
        if options.verbose:
            print(seed, Program(seed).steps)
        try:
            wrong, misses = check(seed)
        except Exception:
            wrong, misses = traceback.format_exc(), 0
        recorded += misses
        if wrong is not None:
            failed += 1
            print(f"{seed}: {wrong}", flush=True)
    count = options.last - options.first
    print(f"{count} programs, {failed} wrong, {recorded / max(count, 1):.2f} of {ROUNDS} sizes recorded")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
