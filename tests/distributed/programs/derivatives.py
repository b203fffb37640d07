"""Derivatives of collectives, first and second, against those of one process that has the tensors of all.

What all processes compute together is one sum; `together` computes it here from all tensors, and is differentiated as
any function is.
"""

from typing import Any

import numpy as np

import jit
import jit.distributed as dist
from jit.distributed.nn import functional as D

dist.init_process_group()
RANK, SIZE = dist.get_rank(), dist.get_world_size()
OPS = dist.ReduceOp
rng = np.random.default_rng(7)
X = [jit.from_numpy(rng.normal(size=(2 * SIZE, 3))).requires_grad_() for _ in range(SIZE)]
LAST = SIZE - 1
ROWS = [[1 + (i + j) % 2 for j in range(SIZE)] for i in range(SIZE)]


def cut(x, i):
    """The rows that process i sends to each."""
    return x[: sum(ROWS[i])].split(ROWS[i])


def total(tensors):
    return jit.stack([*tensors]).sum(0)


def product(tensors):
    result = tensors[0]
    for each in tensors[1:]:
        result = result * each
    return result


# Name -> what this process computes of its tensor, and what all compute: a list, of their tensors.
CASES = {
    "sum": (lambda x: D.all_reduce(x), lambda xs: [sum(xs)] * SIZE),
    "avg": (lambda x: D.all_reduce(x, OPS.AVG), lambda xs: [sum(xs) / SIZE] * SIZE),
    "product": (lambda x: D.all_reduce(x, OPS.PRODUCT), lambda xs: [product(xs)] * SIZE),
    "max": (lambda x: D.all_reduce(x, OPS.MAX), lambda xs: [jit.stack(xs).amax(0)] * SIZE),
    "min": (lambda x: D.all_reduce(x, OPS.MIN), lambda xs: [jit.stack(xs).amin(0)] * SIZE),
    "broadcast": (lambda x: D.broadcast(x, LAST), lambda xs: [xs[LAST]] * SIZE),
    "reduce": (lambda x: D.reduce(x, LAST), lambda xs: [jit.zeros_like(xs[0])] * LAST + [sum(xs)]),
    "all_gather": (lambda x: jit.stack(D.all_gather(x)), lambda xs: [jit.stack(xs)] * SIZE),
    "all_gather_into_tensor": (lambda x: D.all_gather_into_tensor(x), lambda xs: [jit.cat(xs)] * SIZE),
    "reduce_scatter": (lambda x: D.reduce_scatter(x[:2], list(x.split(2))), lambda xs: list(total(xs).split(2))),
    "reduce_scatter_avg": (
        lambda x: D.reduce_scatter_tensor(x, OPS.AVG),
        lambda xs: [p / SIZE for p in total(xs).split(2)],
    ),
    "all_to_all": (
        lambda x: jit.cat(D.all_to_all(list(x.split(2)), list(x.split(2)))),
        lambda xs: [jit.cat([x.split(2)[i] for x in xs]) for i in range(SIZE)],
    ),
    "all_to_all_single": (
        lambda x: D.all_to_all_single(
            jit.zeros(sum(row[RANK] for row in ROWS), 3), x[: sum(ROWS[RANK])], [row[RANK] for row in ROWS], ROWS[RANK]
        ),
        lambda xs: [jit.cat([cut(x, i)[j] for i, x in enumerate(xs)]) for j in range(SIZE)],
    ),
    "gather": (
        lambda x: jit.stack(D.gather(x, LAST)),
        lambda xs: [jit.zeros(SIZE, *xs[0].shape, dtype=jit.float64)] * LAST + [jit.stack(xs)],
    ),
    "scatter": (lambda x: D.scatter(list(x.split(2)), LAST), lambda xs: list(xs[LAST].split(2))),
}


def loss(results, ranks):
    """What some processes compute of their results: a sum of powers with weights of their own."""
    return sum(((2 + rank) * result**3 + result**2).sum() for rank, result in zip(ranks, results, strict=True))


def gradients(value, tensors):
    """The gradients, and those of their squares."""
    first = jit.autograd.grad(value, tensors, create_graph=True)
    second = jit.autograd.grad(sum((g**2).sum() for g in first), tensors)
    return first, second


def check(name, own, xs):
    collective, together = CASES[name]
    (first,), (second,) = gradients(loss([own(collective, xs[RANK])], [RANK]), [xs[RANK]])
    firsts, seconds = gradients(loss(together(xs), range(SIZE)) + sum(0 * x**3 for x in xs).sum(), xs)
    for found, expected in ((first, firsts[RANK]), (second, seconds[RANK])):
        assert np.allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-9), (name, found, expected)


traced: dict[Any, Any] = {}


def plain(function, x):
    return function(x)


def in_trace(function, x):
    return traced.setdefault(function, jit.trace(function))(x)


for name in CASES:
    for own in (plain, in_trace, in_trace, in_trace):
        check(name, own, X)
    assert traced[CASES[name][0]].hits, name

# zeros: of the product, and elements that several processes hold
with jit.no_grad():
    for i, x in enumerate(X):
        x[0] = 0.0 if i == 0 else 2.0
        x[1] = 0.0
for name in ("product", "max", "min"):
    check(name, plain, X)
    check(name, in_trace, X)

# a tensor with a history that is overwritten has the true gradient
for function in (lambda x: x, jit.trace(lambda x: x * 1)):
    x = X[RANK]
    y = function(x) * (RANK + 1)
    dist.all_reduce(y)
    (g,) = jit.autograd.grad((y * (RANK + 2)).sum(), x)
    assert np.allclose(g.numpy(), (RANK + 1) * sum(range(2, SIZE + 2)))
print(f"rank {RANK}: {len(CASES)} derivatives")
