"""Numbers that are sizes run on plans: native code for all of them, with the results of the untraced function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.runtime.plans.native import SizedNative
from jit.runtime.plans.plan import PlannedEngine

KS = [3, 4, 5, 9, 12, 7, 16, 6, 13]
SHAPES = {"one size": [(40, 6)], "many sizes": [(40, 6), (33, 6), (51, 6), (44, 6)]}
WEIGHT = jit.tensor(np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32), requires_grad=True)


def outcome(function: Callable[..., Any], x: jit.Tensor, k: Any) -> list[np.ndarray]:
    """What a function gives, and the gradients of first and second order of what it is given."""
    found = function(x, k)
    found = list(found) if isinstance(found, tuple) else [found]
    total = jit.stack([(each**3).sum() for each in found]).sum()
    (first,) = jit.autograd.grad(total, x, create_graph=True)
    (second,) = jit.autograd.grad((first**2).sum(), x)
    return [each.detach().numpy() for each in (*found, first, second)]


def check(traced: Any, function: Callable[..., Any], shape: Sequence[int], k: Any) -> None:
    x = jit.randn(*shape, requires_grad=True)
    for mine, its in zip(outcome(traced, x, k), outcome(function, x, k), strict=True):
        assert mine.shape == its.shape
        np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-4)


def natives_of(recording: Any) -> list[Any]:
    """The native calls of all plans of a recording, and that there is nothing else which is slow."""
    plans = [each.plan for chain in recording.chains for each in (chain.sized_plans.made if chain.sized_plans else ())]
    assert plans and all(isinstance(plan.interpreter.local_plan, PlannedEngine) for plan in plans)
    return [native for plan in plans for natives in plan.interpreter.natives for native in natives]


def written(x: Any, k: Any) -> Any:
    y = x * 1
    y[:k] = 0
    y[k : k + 2] *= 3
    return y * y


COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "until": lambda x, k: (x[:k] * 2).tanh(),
    "from": lambda x, k: x[k:].exp().sum(0),
    "from the end": lambda x, k: x[:-k].exp(),
    "step": lambda x, k: x[::k].sin(),
    "a window of fixed size": lambda x, k: x[k : k + 3].exp() * 2,
    "one row": lambda x, k: x[k] * x[: k + 1].sum(0),
    "zeros": lambda x, k: jit.zeros(k).unsqueeze(1) + x.sum(0),
    "ones twice": lambda x, k: (jit.ones(k, 2 * k) * x.sum()).tanh(),
    "a view": lambda x, k: (x[: 2 * k].view(k, -1) * 2).sum(1),
    "rows and columns": lambda x, k: x[:k].reshape(k, 2, 3).transpose(1, 2).exp(),
    "a product": lambda x, k: (x[:k] @ WEIGHT).relu(),
    "attention": lambda x, k: F.softmax(x[:k] @ x[:k].t() / k, -1) @ x[:k],
    "expanded": lambda x, k: x.sum(0).expand(k, 6) * k,
    "joined": lambda x, k: jit.cat([x[:k], x[k : 2 * k] * 2]).tanh(),
    "written": written,
    "rolled": lambda x, k: x.roll(k, 0) * x[:k].sum(0),
    "with a float": lambda x, k: x[:k] * (k / 7) + k,
}


@pytest.mark.llvm
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_that_are_sizes_run_on_plans(name: str, shapes: str) -> None:
    function, sizes = COMPUTED[name], SHAPES[shapes]
    traced = jit.trace(function)
    for number, k in enumerate(KS):
        check(traced, function, sizes[number % len(sizes)], k)
    assert traced.misses <= (2 if len(sizes) == 1 else 4)
    assert traced._last.general and any(isinstance(each, SizedNative) for each in natives_of(traced._last))


RETURNED: dict[str, Callable[[Any, Any], Any]] = {
    "until": lambda x, k: x[:k],
    "one row": lambda x, k: x[k],
    "one row of a result": lambda x, k: (x * 2)[k],
    "a window": lambda x, k: x.narrow(0, k, 3),
    "two views": lambda x, k: (x[:k], x[2 * k :].t(), x[k].exp()),
    "of a computed number": lambda x, k: x[k * k // 9 : k + 20],
    "split": lambda x, k: x[: 3 * k // 2].t()[1:],
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", RETURNED)
def test_views_that_are_returned(name: str, shapes: str) -> None:
    function, sizes = RETURNED[name], SHAPES[shapes]
    traced = jit.trace(function)
    for number, k in enumerate(KS):
        shape = sizes[number % len(sizes)]
        check(traced, function, shape, k)
        x = jit.ones(*shape, requires_grad=True)
        mine, its = (found[0] if isinstance(found := f(x, k), tuple) else found for f in (traced, function))
        assert (mine.storage_offset(), mine.stride()) == (its.storage_offset(), its.stride())
    assert traced.misses <= (2 if len(sizes) == 1 else 4)
    for number, k in enumerate([1, 0, 5, 1, 2, 8, 0]):
        check(traced, function, sizes[number % len(sizes)], k)


@pytest.mark.parametrize("name", ["until", "one row", "one row of a result"])
def test_views_that_are_returned_for_numbers_in_tensors(name: str) -> None:
    traced = jit.trace(RETURNED[name])
    for k in KS:
        check(traced, RETURNED[name], (40, 6), jit.tensor(k))
    assert traced.misses == 2


PIECES: dict[str, Callable[[Any, Any], Any]] = {
    "chunks": lambda x, k: x.chunk(k)[0] * 2,
    "all chunks": lambda x, k: tuple(each.exp() for each in x.chunk(k)),
    "pieces of a size": lambda x, k: x.split(k)[1],
    "two pieces": lambda x, k: tuple(x.split([k, x.shape[0] - k])),
}


@pytest.mark.filterwarnings("ignore:.* recorded 10 times", "ignore:.* runs untraced")
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", PIECES)
def test_numbers_that_say_how_many_pieces_there_are(name: str, shapes: str) -> None:
    traced, sizes = jit.trace(PIECES[name]), SHAPES[shapes]
    for number, k in enumerate([*KS, *KS]):
        check(traced, PIECES[name], sizes[number % len(sizes)], k)


def test_views_by_numbers_that_are_computed_of_elements() -> None:
    def largest(x: Any, k: Any) -> Any:
        return x[x.detach()[:, 0].argmax()]

    traced, x = jit.trace(largest), jit.zeros(40, 6)
    for k in (3, 7, 2, 7, 30):
        x[k, 0] += 100.0 + k
        assert traced(x, k).tolist() == largest(x, k).tolist()


@pytest.mark.llvm
def test_stages_of_numbers_are_recorded_once() -> None:
    function = COMPUTED["until"]
    traced = jit.trace(function)
    for k in KS[:4]:
        check(traced, function, (40, 6), k)
    recorded = [chain.trace for chain in traced._last.chains]
    for k in KS[4:]:
        check(traced, function, (40, 6), k)
    assert [chain.trace for chain in traced._last.chains] == recorded


def test_the_reason_names_the_number() -> None:
    traced = jit.trace(lambda x, k: x[: 3 * k] * 2)
    for k in (3, 4, 5, 6):
        traced(jit.ones(15), k)
    assert "5 >= k does not hold (decided at test_numbers_on_plans.py" in traced.explain()
    traced(jit.ones(15), 1)
    assert "k is less than 2, or beyond all sizes" in traced.explain()
    last = jit.trace(lambda x, k: x[k:] * 2)
    for k in (-3, -4, -5, -40):
        last(jit.ones(15), k)
    assert last.misses == 3 and "15 >= -k does not hold" in last.explain()
