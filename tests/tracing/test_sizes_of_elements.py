"""Sizes that depend on elements: one recording serves all counts, and gives what the untraced function gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit import nn
from tests.tolerances import assert_close

ORDERS = [(3, 5, 0, 1, 2, 7, 4, 3), (0, 1, 2, 6, 3, 0, 5), (1, 0, 7, 2, 5, 3)]
"""The counts of calls one after another."""
ROWS = 7


def _rows(count: int, rng: np.random.Generator, rows: int = ROWS) -> np.ndarray[Any, Any]:
    """A matrix in which `count` rows begin with a positive number."""
    found = np.abs(rng.standard_normal((rows, 4))).astype(np.float32) + 0.1
    found[rng.permutation(rows)[count:], 0] *= -1
    return found


def _outcome(function: Callable[..., Any], arrays: Sequence[Any], backward: bool) -> Any:
    """What a call gives: arrays, shapes, strides and numbers, then gradients; or the class of its error."""
    tensors = [jit.tensor(array, requires_grad=backward) for array in arrays]
    try:
        results = function(*tensors)
        results = results if isinstance(results, (tuple, list)) else (results,)
        made = [r for r in results if isinstance(r, jit.Tensor)]
        told = [(tuple(map(int, r.shape)), r.stride(), r.dtype, r.detach().numpy()) for r in made]
        told += [r for r in results if not isinstance(r, jit.Tensor)]
        grown = [r for r in made if r.requires_grad]
        if backward and grown:
            jit.stack([(r * (r.detach() + 1)).sum() for r in grown]).sum().backward()
    except Exception as error:
        return [type(error)], []
    return told, [t.grad if t.grad is None else t.grad.numpy() for t in tensors]


def _compare(traced: Any, untraced: Any) -> None:
    assert type(traced) is type(untraced) or not isinstance(traced, np.ndarray)
    if isinstance(untraced, np.ndarray):
        assert traced.shape == untraced.shape
        assert_close(traced, untraced, rtol=1e-4, atol=1e-5)  # sums of float32 whose terms cancel, in another order
    elif isinstance(untraced, (tuple, list)):
        assert len(traced) == len(untraced)
        for one, other in zip(traced, untraced, strict=True):
            _compare(one, other)
    else:
        assert traced == untraced or (traced != traced and untraced != untraced)


def _check(
    function: Callable[..., Any], counts: Sequence[int], rng: np.random.Generator, backward: bool, most: int = 3,
    rows: Iterator[int] | None = None,
) -> Any:  # fmt: skip
    """Compare a traced function with the untraced one over counts; it may be recorded `most` times."""
    traced = jit.trace(function)
    for count in counts:
        array = _rows(count, rng, ROWS if rows is None else max(count, next(rows)))
        _compare(_outcome(traced, [array], backward), _outcome(function, [array], backward))
    assert traced.misses <= most, traced.explain()
    assert traced.misses + traced.hits >= len(counts) // 2  # errors are neither
    return traced


def chosen(x: Any) -> Any:
    return x[x[:, 0] > 0]


def masked_loss(x: Any) -> Any:
    return (x**2)[x[:, 0] > 0].mean()


def selected(x: Any) -> Any:
    return x.masked_select(x[:, :1] > 0) * 2


def places(x: Any) -> Any:
    return (x[:, 0] > 0).nonzero(), jit.where(x[:, 0] > 0)[0] + 1


def different(x: Any) -> Any:
    return jit.unique((x[:, 0] > 0).long() * jit.arange(x.shape[0]))


def repeated(x: Any) -> Any:
    return jit.repeat_interleave(x, (x[:, 0] > 0).long() * 2, dim=0).sum(1)


def flat(x: Any) -> Any:
    y = x[x[:, 0] > 0]
    return y.view(-1) + 1, y.numel(), y.shape[0]


def by_its_size(x: Any) -> Any:
    y = chosen(x)
    return y.view(y.shape[0], 2, -1).transpose(1, 2).sum(-1)


def normalised(x: Any) -> Any:
    return F.layer_norm(chosen(x), (4,)).relu()


def attended(x: Any) -> Any:
    y = chosen(x)
    return F.softmax(y @ y.t(), -1) @ y


def against_all(x: Any) -> Any:
    return (chosen(x)[:, None] - x[None]).pow(2).sum(-1)


def broadcast(x: Any) -> Any:
    return chosen(x) * x[:1] + x[0] * chosen(x) + chosen(x).exp().mean(0)


def joined(x: Any) -> Any:
    return jit.cat([chosen(x), x[:2], chosen(-x)])


def two_masks(x: Any) -> Any:
    return chosen(x).sum(0), x[x[:, 1] > 0.8].mean(), x[x[:, 0] < 0].prod()


def written(x: Any) -> Any:
    y = chosen(x) * 1
    y[:, 1] = 0
    y += 1
    y[:1].mul_(3)
    return y, y[1:]


def written_in_places(x: Any) -> Any:
    y = x * 2
    y[x[:, 0] > 0] += 1
    y[x[:, 0] > 0] = y[x[:, 0] > 0] * 3
    return y


def squeezed(x: Any) -> Any:
    return chosen(x).squeeze().sum(0)


def squeezed_one(x: Any) -> Any:
    return chosen(x)[:, :1].squeeze(-1) * 2


def reshaped(x: Any) -> Any:
    y = chosen(x)
    z = y.t().reshape(-1)
    return y.t().contiguous() + 1, z * 2


def written_when_reshaped(x: Any) -> Any:
    y = chosen(x) * 1
    z = y.t().contiguous()
    z.add_(1)
    return y * 1, z * 1


def embedded(x: Any) -> Any:
    return F.one_hot((x[:, 0] > 0).long()[x[:, 0] > 0], 3).float() @ x[:3]


def cross(x: Any) -> Any:
    keep = x[:, 0] > 0
    return F.cross_entropy(x[keep], x[keep].argmax(-1), reduction="sum")


def counted(x: Any) -> Any:
    return chosen(x).sum() / max(chosen(x).shape[0], 1)


def ordered(x: Any) -> Any:
    y = chosen(x)
    return y.sort(0)[0], y.cumsum(0), y.flip(0)


def ranged(x: Any) -> Any:
    return jit.arange((x[:, 0] > 0).sum().item()) * 2


def made_like(x: Any) -> Any:
    y = chosen(x)
    return jit.zeros_like(y) + y, jit.ones(y.shape[0], 2), y.new_full((y.shape[0],), 3)


def padded(x: Any) -> Any:
    y = chosen(x)
    return F.pad(y, (0, 0, 0, x.shape[0] - y.shape[0]))


def of_no_elements(x: Any) -> Any:
    y = chosen(x)
    return y.sum(), y.mean(), y.std(), y.any(), y.norm()


def nested(x: Any) -> Any:
    y = chosen(x)
    return y[y[:, 1] > 0.5] * 2


def transposed_weights(x: Any) -> Any:
    y = chosen(x)
    return F.linear(y, x[:3], x[0, :3]).tanh(), jit.einsum("ij,kj->ik", y, x)


def as_it_is(x: Any) -> Any:
    y = chosen(x)
    return y, y.t(), y[:, 1:3], y.unsqueeze(0)


def by_columns(x: Any) -> Any:
    keep = x[:, 0] > 0
    return x.t()[:, keep] * 2, x[keep, 1], x[keep][:, jit.tensor([True, False, True, True])], x[x > 0], x[keep][:, None]


NET = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8))


def through_a_network(x: Any) -> Any:
    return NET(chosen(x)), F.mse_loss(NET(chosen(x)), NET(x)[x[:, 0] > 0] * 2)


def over_edges(x: Any) -> Any:
    near = (x @ x.t()).tanh() * (x[:, :1] > 0)
    source, target = (near > 0.2).nonzero(as_tuple=True)
    degree = jit.zeros(x.shape[0]).scatter_add(0, target, jit.ones(target.shape[0]))
    return jit.zeros(x.shape[0], 4).index_add(0, target, x[source] * 1.5), degree, source.shape[0]


def with_ignored_labels(x: Any) -> Any:
    labels = jit.where(x[:, 0] > 0, 1, -100)
    keep = labels != -100
    return F.cross_entropy(x[keep], labels[keep]), x.log_softmax(-1)[keep].sum()


def best(x: Any) -> Any:
    y = chosen(x)
    first = y[:, 1].argsort(descending=True)[:3]
    return y[first], y[first, 0].cumsum(0), jit.stack([y.sum(0), y.mean(0)]), y.size(0) * 2


def of_counted_sizes(x: Any) -> Any:
    count = (x[:, 0] > 0).sum().item()
    return F.pad(x, (0, 0, 0, count)), x.repeat(count, 1), jit.eye(count) @ x[:count], jit.linspace(0, 1, count)


def written_by_masks(x: Any) -> Any:
    y, keep = jit.zeros(x.shape[0], 4), x[:, 0] > 0
    y[keep] = x[keep].exp()
    y = y + 0
    y[~keep] = -1.0
    z = x.clone()
    z[keep, 1] *= 2
    return y, z, x.masked_scatter(keep[:, None].expand(-1, 4), x[keep] * 3)


def without_gradients(x: Any) -> Any:
    with jit.no_grad():
        y = chosen(x) * 2
    return y.double().mean(), chosen(x).half().float(), y.abs().amax(-1), (y > 1).sum()


FREE = [
    chosen, masked_loss, selected, places, different, repeated, flat, by_its_size, normalised, attended, against_all,
    broadcast, joined, written, written_in_places, squeezed_one, embedded, cross, counted, ordered,
    ranged, made_like, padded, of_no_elements, transposed_weights, as_it_is, by_columns, through_a_network,
    over_edges, with_ignored_labels, best, of_counted_sizes, written_by_masks, without_gradients,
]  # fmt: skip
"""Programs whose counts nothing decides on."""
DECIDING = [squeezed, reshaped, written_when_reshaped, nested, two_masks]
"""Programs that are others for few elements, or have several counts that may be the same by chance."""


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("counts", ORDERS, ids=str)
@pytest.mark.parametrize("function", FREE, ids=lambda f: f.__name__)
def test_three_recordings_serve_all_counts(
    function: Callable[..., Any], counts: Sequence[int], backward: bool, rng: np.random.Generator
) -> None:
    _check(function, counts, rng, backward)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("counts", ORDERS, ids=str)
@pytest.mark.parametrize("function", DECIDING, ids=lambda f: f.__name__)
def test_few_elements_may_be_another_program(
    function: Callable[..., Any], counts: Sequence[int], backward: bool, rng: np.random.Generator
) -> None:
    _check(function, counts, rng, backward, most=8)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("function", FREE, ids=lambda f: f.__name__)
def test_counts_and_sizes_become_free_together(
    function: Callable[..., Any], backward: bool, rng: np.random.Generator
) -> None:
    rows = iter([7, 9, 8, 12, 9, 10, 11, 8])
    _check(function, (3, 5, 0, 1, 2, 7, 4, 3), rng, backward, rows=rows)


def test_explain_says_that_counts_are_left_open(rng: np.random.Generator) -> None:
    traced = _check(masked_loss, (3, 5, 2, 0), rng, backward=True, most=2)
    assert traced.hits == 2
    assert "sizes that depend on elements are left open from now on (test_sizes_of_elements.py:" in traced.explain()
    assert "Float(?, 4)" in str(traced.graph) and "Guard" not in str(traced.graph)


def test_stretches_of_known_sizes_stay_native(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        y = ((x * 2).tanh() + x.exp()).relu()
        return y[x[:, 0] > 0].sum(0) * 3

    traced = _check(f, (3, 5, 2, 0), rng, backward=False, most=2)
    recording = traced._last
    assert recording.counts and len(recording.plan(recording.chains[0]).interpreter.natives[0]) >= 1


def test_a_backward_is_recorded_for_two_counts(rng: np.random.Generator) -> None:
    traced = _check(masked_loss, (3, 5, 2, 0, 7, 1), rng, backward=True, most=2)
    (chain,) = traced._last.chains
    assert all(size.free == (True,) for size in chain.sizes) and len(chain.sizes) == 1


def _differentiated(calls: Sequence[tuple[int, bool]], rng: np.random.Generator) -> Any:
    """A function of tensors that require gradients, after calls of some counts, with a backward or without."""
    traced = jit.trace(broadcast)
    for count, backward in calls:
        array, found = _rows(count, rng), []
        for function in (traced, broadcast):
            x = jit.tensor(array, requires_grad=True)
            y = function(x)
            if backward:
                (y * jit.arange(4)).sum().backward()
            found.append([y.detach().numpy(), x.grad if x.grad is None else x.grad.numpy()])
        _compare(*found)
    assert traced.misses == 2
    return traced._last


def test_a_backward_that_was_first_asked_for_later(rng: np.random.Generator) -> None:
    later = [(count, True) for count in (1, 4, 2, 0, 7, 3)]
    recording = _differentiated([(3, False), (5, False), *later], rng)
    assert len(recording.chains) <= 2
    assert all(any(all(size.free) for size in chain.sizes) for chain in recording.chains[:1])


def test_a_backward_for_the_same_count_again_and_again(rng: np.random.Generator) -> None:
    recording = _differentiated([(3, False), (5, False), *((4, True) for _ in range(10))], rng)
    assert len(recording.chains) <= 2
    recording = _differentiated([(3, False), (5, False), (4, True), (4, True), (6, True), (2, True), (0, True)], rng)
    assert len(recording.chains) <= 2 and any(all(size.free) for size in recording.chains[0].sizes)


def test_counts_stay_guarded_where_sizes_are_not_to_vary(rng: np.random.Generator) -> None:
    traced = jit.trace(chosen, dynamic=False)
    for count in (3, 5, 3, 5, 0):
        array = _rows(count, rng)
        _compare(_outcome(traced, [array], False), _outcome(chosen, [array], False))
    assert traced.misses == 3 and not traced._last.counts


def test_one_count_may_stay_while_another_varies(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        return chosen(x).sum(0), x[x[:, 1] > 0].exp(), x[x[:, 2] > 0] * 2

    traced = _check(f, (3, 5, 0, 1, 7), rng, backward=True, most=2)
    assert len(traced._last.counts) == 1


def test_decisions_on_counts_are_guards(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        y = chosen(x)
        if y.shape[0] > 2:
            return y.mean(0), y.shape[0]
        return x.sum(), y.shape

    traced = _check(f, (3, 1, 5, 0, 2, 4, 6, 1, 0), rng, backward=True, most=4)
    assert traced.hits >= 5


def test_open_counts_are_saved_and_loaded(rng: np.random.Generator, tmp_path: Any) -> None:
    traced = _check(masked_loss, (3, 5, 2), rng, backward=True, most=2)
    traced.save(tmp_path / "loss.jit")
    loaded = jit.load(tmp_path / "loss.jit")
    for count in (4, 0, 1, 7, 3):
        array = _rows(count, rng)
        _compare(_outcome(loaded, [array], True), _outcome(masked_loss, [array], True))
    assert loaded.hits == 5


def sliced(x: Any) -> Any:
    count = (x[:, 0] > 0).sum().item()
    y = x * 2
    y[:count] = 0
    return y, x[:count].sum(0), y[count : count + 1] + 1, x.narrow(0, 0, count).exp(), x[count - 1] * 3


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("counts", ORDERS, ids=str)
def test_elements_that_say_where_views_end(counts: Sequence[int], backward: bool, rng: np.random.Generator) -> None:
    _check(sliced, counts, rng, backward)


def test_views_behind_a_guard_run_behind_it(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        return [row * 2 for row in chosen(x)[:2].unbind(0)]

    _check(f, (3, 5, 1, 2, 6), rng, backward=True)
