"""Processes whose traced functions take different paths, each after a collective: what starts again exchanges nothing.

What Python decides on is different in each process, so that one finds a recording at once, another after it has tried
two, and a third records anew; and their backwards are recorded at different calls. `restarting.py CALLS`.
"""

import sys
import warnings

import numpy as np

import jit
import jit.distributed as dist
from jit.distributed.nn import functional as D

warnings.simplefilter("ignore", UserWarning)  # functions that take too many paths say so
dist.init_process_group(timeout=20)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(3)


def paths(x, y):
    """Decides on elements before, between and behind collectives."""
    a = D.all_reduce(x)
    b = a * 2 if y.sum() > 0 else a * 3
    c = b.clone()
    dist.all_reduce(c)
    if y[0] > 0:
        c = c + D.broadcast(x, SIZE - 1)
    else:
        c = c - D.broadcast(x, SIZE - 1)
    return c * x


def many_paths(x, y):
    """Takes more paths than are recorded, so that it runs untraced in the end."""
    return D.all_reduce(x) * int(y.sum() * 3) + D.all_reduce(x * 2)


def caught(x, y):
    """Catches an error behind a collective."""
    a = D.all_reduce(x)
    try:
        b = a[(y[1] > 0).long() * 9] + 1
    except IndexError:
        b = a.sum()
    return b * D.all_reduce(x * 3)


def powers(x, y):
    """Decides in its backward, by a hook, behind a collective that is in the backward, too."""
    z = D.all_reduce(x**2)
    z.register_hook(lambda g: g * 2 if g.sum() > 4 else g * 3)
    return z * (y.sum() if y.sum() > 0 else 2.0)


class Doubling(jit.autograd.Function):
    """A function of Python that communicates, before a guard."""

    @staticmethod
    def forward(ctx, x):
        return D.all_reduce(x.detach())

    @staticmethod
    def backward(ctx, g):
        return D.all_reduce(g)


def with_python(x, y):
    a = Doubling.apply(x)
    a = a * 2 if y.sum() > 0 else a * 3
    return a + D.all_reduce(x)


def check(function, second):
    traced = jit.trace(function)
    for step in range(int(sys.argv[1])):
        arrays = [(rng.normal(size=3), rng.normal(size=3)) for _ in range(SIZE)]
        results = []
        for call in (function, traced):  # both communicate: all processes call both
            x, y = (jit.from_numpy(each) for each in arrays[RANK])
            x.requires_grad_()
            z = call(x, y)
            found = [z]
            if step % 3:
                (g,) = jit.autograd.grad((z * z).sum(), x, create_graph=second)
                found.append(g)
                if second:
                    found += jit.autograd.grad((g**2).sum(), x)
            results.append([each.detach().numpy() for each in found])
        for plain, found in zip(*results, strict=True):
            assert np.allclose(plain, found, rtol=1e-9), (function, step, plain, found)
    return traced


for function in (paths, powers, caught, with_python):
    for second in (False, True):
        check(function, second)
check(many_paths, False)
print(f"rank {RANK}: started again")
