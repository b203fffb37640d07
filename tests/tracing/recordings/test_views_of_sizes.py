"""Views whose sizes are made of sizes: returned, written through, and taken of one another, at every size.

Each program is recorded for two sizes, and the third is served by what they have in common.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.pytree import flatten
from tests.sampling import one_of

SIZES = (3, 4, 5, 8, 12, 7, 9, 16)
CAPTURED = jit.arange(6 * 20).float().view(6, 20)


def normal(*sizes: int) -> Any:
    """Normal numbers, the same ones for the same sizes."""
    draw = np.random.default_rng(sum((i + 1) * n for i, n in enumerate(sizes)))
    return jit.tensor(draw.standard_normal(sizes).astype(np.float32))


def rows(n: int) -> Any:
    return normal(n, 4)


def columns(n: int) -> Any:
    return normal(3, n)


def wide(n: int) -> Any:
    return normal(n, 32)


Program = tuple[str, Callable[[Any], Any], Callable[[int], Any], int]
"""The name, the function, its argument by the size, and the most recordings: 3 where rows of size 1 lie otherwise."""

RETURNED: list[Program] = [
    ("heads", lambda x: x.view(x.shape[0], 4, 8), wide, 2),
    ("heads first", lambda x: x.view(x.shape[0], 4, 8).transpose(0, 1), wide, 2),
    ("merged", lambda x: x.view(x.shape[0] * 4, 8), wide, 2),
    ("reshaped and transposed", lambda x: x.reshape(x.shape[0], -1).transpose(0, 1), wide, 2),
    ("half", lambda x: x[:, : x.shape[1] // 2], columns, 2),
    ("some rows", lambda x: x[:: x.shape[0] // 2], rows, 3),
    ("the last", lambda x: x[x.shape[0] - 1], rows, 2),
    ("the middle", lambda x: x[x.shape[0] // 2], rows, 2),
    ("narrow", lambda x: x.narrow(0, 1, x.shape[0] - 2), rows, 2),
    ("the tail", lambda x: x.narrow(0, x.shape[0] - 2, 2), rows, 2),
    ("split", lambda x: x.split([1, x.shape[0] - 1]), rows, 2),
    ("halves", lambda x: x.chunk(2), rows, 2),
    ("two nearly equal pieces", lambda x: x.tensor_split(2), rows, 2),
    ("pieces of one and a half", lambda x: x.split(x.shape[0] * 2 // 3)[0], rows, 2),
    ("expanded", lambda x: x[:1].expand(x.shape[0], -1), rows, 2),
    ("unflattened", lambda x: x.unflatten(1, (x.shape[1] // 8, 8)), wide, 2),
    ("flattened", lambda x: x.flatten(), rows, 2),
    ("strided", lambda x: x.as_strided((x.shape[0], 2), (x.shape[1], 1)), rows, 2),
    ("strided from the second row", lambda x: x.as_strided((x.shape[0] - 1, 2), (4, 2), x.shape[1]), rows, 2),
    ("diagonal", lambda x: x.diagonal(x.shape[1] // 2), lambda n: normal(n, n), 2),
    ("windows", lambda x: x.unfold(0, x.shape[0] // 2, 1), rows, 3),
    ("a way of four steps", lambda x: x.view(-1)[: (x.shape[0] - 1) * 4].view(x.shape[0] - 1, 4).t(), rows, 2),
    ("by the smaller size", lambda x: x[: min(x.shape[0], 6) - 1], rows, 4),
    ("three quarters", lambda x: x[: math.floor(x.shape[0] * 0.75)], rows, 2),
    ("from a rounded third", lambda x: x[round(x.shape[0] / 3) :].t(), rows, 3),
    ("twice as long", lambda x: x.view(jit.sym_int(x.shape[0] * 2.0), 2), rows, 2),
    ("by a square root", lambda x: x[: math.ceil(jit.sym_sqrt(x.shape[0]))], rows, 2),
    ("of a capture", lambda x: CAPTURED[:, : x.shape[0]], rows, 2),
    ("data", lambda x: x.data[: x.shape[0] // 2], rows, 2),
    ("several of one input", lambda x: (x[: x.shape[0] // 2], x[x.shape[0] // 2 :], x[: x.shape[0] // 2].t()), rows, 3),
    ("in a dict", lambda x: {"view": x[1 : x.shape[0] - 1], "number": x.shape[0]}, rows, 2),
]  # fmt: skip


def of_a_result(x: Any) -> Any:
    y = x * 2
    return y, y[: y.shape[0] // 2], y.view(y.shape[0] * 2, 2)


def parts_of_a_result(x: Any) -> Any:
    y = x * 2
    return y[: y.shape[0] // 2], y[y.shape[0] // 2 :]


def half_written(x: Any) -> Any:
    x[:, : x.shape[1] // 2] += 1
    return x


def last_written(x: Any) -> None:
    x[x.shape[0] - 1] = 7


def written_inside(x: Any) -> Any:
    y = x * 1
    y[: y.shape[0] // 2] = 0
    y.view(y.shape[0] * 2, 2)[y.shape[0] :] *= 3
    return y


def read_after_a_write(x: Any) -> Any:
    y = x * 1
    view = y[y.shape[0] // 2 :].t()
    y.mul_(2)
    return view + 1


def written_and_returned(x: Any) -> Any:
    y = x * 1
    view = y.view(y.shape[0] * 2, 2)[: y.shape[0]]
    view.add_(1)
    return y, view


def broadcast_over_a_half(x: Any) -> Any:
    half = x[: x.shape[0] // 2]
    half.copy_(x[-1])
    half.masked_fill_(half > 1, 0.5)
    return x


def capture_written(x: Any) -> Any:
    CAPTURED[:, : x.shape[0]].add_(1)
    return CAPTURED * 1


def data_written(x: Any) -> Any:
    x.data[: x.shape[0] // 2] += 1
    return x.data[: x.shape[0] // 2]


def first_half_doubled(x: Any) -> Any:
    first, _ = x.chunk(2, 1)
    first.mul_(2)
    return x


def pieces_written(x: Any) -> Any:
    first, second = x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])
    first.mul_(2)
    second.sub_(first[0])
    return x, second


def strides_written(x: Any) -> Any:
    x.as_strided((x.shape[0] - 1, 2), (x.shape[1], 1), 2).mul_(3)
    return x.sum(0)


def diagonal_written(x: Any) -> Any:
    x.diagonal(x.shape[0] // 2).fill_(5)
    return x


def turned(x: Any) -> Any:
    x.t_()
    return x[:, : x.shape[1] // 2]


def longer(x: Any) -> Any:
    x.unsqueeze_(0)
    return x


def strided_in_place(x: Any) -> Any:
    x.as_strided_((x.shape[0] - 1, 2), (x.shape[1], 1))
    return x * 1


def under_a_checkpoint(x: Any) -> Any:
    y = jit.autograd.checkpoint(lambda x: (x * 2).square(), x)
    return y, y[: x.shape[0] // 2], x[: x.shape[0] // 2]


def windows_written_apart(x: Any) -> Any:
    y = x * 1
    y.unfold(0, 2, 2)[x.shape[0] // 2 - 1].mul_(2)
    return y


def overlapping_window_written(x: Any) -> Any:
    y = x * 1
    y.unfold(0, x.shape[0] // 2 + 1, 1)[1].mul_(2)
    return y


def expanded_written(x: Any) -> Any:
    y = x * 1
    y.expand(3, -1, -1)[1, : x.shape[0] // 2].mul_(2)
    return y


def counted_by_a_float(x: Any) -> Any:
    y = x * 1
    y[: math.floor(y.shape[0] * 0.5)] = 0
    y.narrow(0, 0, jit.sym_int(y.shape[0] / 3)).add_(5)
    return y, x[math.ceil(x.shape[0] * 0.7) :]


def stencil(x: Any) -> Any:
    y = x * 1
    for start in range(3):
        y[start : start + y.shape[0] - 2].add_(x[: x.shape[0] - 2])
    return y


def shifted(x: Any) -> Any:
    y = x.clone()
    y[1:] = y[:-1]
    y[0] = 0
    return y


def strides_of_a_slice(x: Any) -> Any:
    y = (x * 1)[1:]
    z = y.as_strided((x.shape[0] - 1, 2), (4, 1))
    z.mul_(2)
    return y, z


def pieces_of_a_cat(x: Any) -> Any:
    z = jit.cat([x, x * 2])
    first, second = z[: x.shape[0]], z[x.shape[0] :]
    first.mul_(2)
    second.add_(1)
    return first, second, z


WRITTEN: list[Program] = [
    ("windows", windows_written_apart, rows, 3),
    ("overlapping windows", overlapping_window_written, rows, 3),
    ("an expanded tensor", expanded_written, rows, 3),
    ("what a float counts", counted_by_a_float, rows, 2),
    ("a stencil", stencil, rows, 3),
    ("a shift", shifted, rows, 2),
    ("strides of a slice", strides_of_a_slice, rows, 3),
    ("pieces of what was joined", pieces_of_a_cat, rows, 2),
    ("a result and views of it", of_a_result, rows, 2),
    ("parts of a result", parts_of_a_result, rows, 2),
    ("half an input", half_written, columns, 2),
    ("the last row", last_written, rows, 2),
    ("inside", written_inside, rows, 2),
    ("a view read after a write", read_after_a_write, rows, 2),
    ("a view that is returned", written_and_returned, rows, 2),
    ("a broadcast source", broadcast_over_a_half, rows, 2),
    ("a capture", capture_written, rows, 2),
    ("data", data_written, rows, 2),
    ("a half of chunk", first_half_doubled, columns, 2),
    ("pieces of split", pieces_written, rows, 2),
    ("by strides", strides_written, rows, 2),
    ("a diagonal", diagonal_written, lambda n: normal(n, n), 2),
    ("transposed in place", turned, rows, 3),
    ("unsqueezed in place", longer, rows, 2),
    ("strided in place", strided_in_place, rows, 2),
    ("under a checkpoint", under_a_checkpoint, rows, 2),
]

PROGRAMS = RETURNED + WRITTEN


def observed(function: Callable[[Any], Any], x: Any) -> list[Any]:
    """All that a call leaves behind: results, how they lie, what they are views of, and what was written."""
    before = CAPTURED.clone()
    found = [t for t in flatten(function(x))[0] if isinstance(t, jit.Tensor)]
    for tensor in found:
        tensor.data[(0,) * tensor.ndim if tensor.numel() else ()].add_(10)  # which shows up in what shares its memory
    shown = [(t.tolist(), t.shape, [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]) for t in found]
    left = [x.tolist(), x.shape, CAPTURED.tolist(), [t._viewed is None for t in found]]
    CAPTURED.copy_(before)
    return [shown, left]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0])
def test_views_at_every_size(program: Program) -> None:
    _, function, made, most = program
    traced = jit.trace(function)
    for size in SIZES:
        assert observed(traced, made(size)) == observed(function, made(size))
    assert traced.misses <= most


def gradients(function: Callable[[Any], Any], x: Any) -> list[Any]:
    """The gradient by what a call got, and the histories of what it returned."""
    before = CAPTURED.clone()
    leaf = x.requires_grad_()
    middle = leaf * 1.5
    found = [t for t in flatten(function(middle))[0] if isinstance(t, jit.Tensor)]
    loss = sum(((t * t).sum() for t in found if t.requires_grad), (middle**3).sum())
    loss.backward()
    CAPTURED.copy_(before)
    return [leaf.grad, *(t.detach() for t in (middle, *found))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0])
def test_gradients_through_views_at_every_size(program: Program) -> None:
    _, function, made, most = program
    traced = jit.trace(function)
    for size in SIZES:
        found, wanted = gradients(traced, made(size)), gradients(function, made(size))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    assert traced.misses <= most


@pytest.mark.parametrize("program", [p for p in PROGRAMS if "a capture" not in p[0]], ids=lambda program: program[0])
def test_a_saved_function_returns_views_at_every_size(program: Program, tmp_path: Path) -> None:
    _, function, made, _ = program
    traced = jit.trace(function)
    for size in SIZES:
        traced(made(size))
    for _ in range(2):  # what was loaded can be saved again
        traced.save(tmp_path / "f.jit")
        traced = jit.load(tmp_path / "f.jit")
    for size in (6, 11, 20, 32):
        assert observed(traced, made(size)) == observed(function, made(size))


def test_views_are_of_the_memory_that_was_given() -> None:
    traced = jit.trace(lambda x: x[: x.shape[0] // 2])
    for size in SIZES:
        x = rows(size)
        half = traced(x)
        half.fill_(3)
        assert (x[: size // 2] == 3).all() and half._storage is x._storage
        assert traced(x.requires_grad_()).grad_fn.name == "SliceBackward0"
    assert traced.misses == 4 and traced.hits == 2 * len(SIZES) - 4


def test_a_recording_for_one_size_decides_on_nothing() -> None:
    traced = jit.trace(lambda x: x[: x.shape[0] // 2], strict=True)
    traced(rows(4))
    recording: Any = traced._last
    assert "Guard" not in str(recording.trace.graph)
    assert recording.result.outputs[0].path[0].arguments == (0, None, 2, 1)


def test_the_way_speaks_of_sizes() -> None:
    traced = jit.trace(lambda x, y: x[: x.shape[0] - y.shape[0]].view(-1, 2))
    for rows_of_x, rows_of_y in ((5, 3), (7, 2), (9, 4)):
        traced(rows(rows_of_x), rows(rows_of_y))
    recording: Any = traced._last
    steps = recording.result.outputs[0].path
    assert [str(step.arguments) for step in steps] == ["(0, None, n-m, 1)", "((-1, 2),)"]


def test_a_condition_on_a_view_sends_other_sizes_elsewhere() -> None:
    function = jit.trace(lambda x: x.view(x.shape[0] // 2, -1))
    for size in (4, 6, 8, 10):
        assert function(rows(size)).shape == (size // 2, 8)
    assert function.misses == 2
    with pytest.raises(jit.Error):
        jit.trace(lambda x: x.view(x.shape[0] // 2, 8))(rows(5))


def windows_written(x: Any, width: int) -> Any:
    y = x * 1
    y.unfold(0, 4, width)[0].add_(1)
    return y


@pytest.mark.parametrize("name", ["windows", "an expanded tensor", "pieces of split", "strides of a slice"])
def test_strict_forbids_decisions_of_the_users_alone(name: str) -> None:
    function = next(function for other, function, *_ in WRITTEN if other == name)
    traced = jit.trace(function, strict=True)
    for size in (4, 5, 6, 9):
        assert observed(traced, rows(size)) == observed(function, rows(size))
    with pytest.raises(jit.TraceError, match="strict=True forbids"):
        jit.trace(lambda x: x * 2 if x.shape[0] > 3 else x, strict=True)(rows(4))


@pytest.mark.parametrize("by_size", [False, True])
def test_writes_through_windows_that_may_overlap(by_size: bool) -> None:
    def function(x: Any) -> Any:
        return windows_written(x, x.shape[1] if by_size else 3)

    traced = jit.trace(function)
    for count, width in ((8, 4), (9, 5), (10, 6), (10, 3), (11, 2), (4, 3), (12, 1)):
        x = normal(count, width)
        assert traced(x).tolist() == function(x).tolist()


def test_where_a_strided_view_begins_counts_from_the_storage() -> None:
    base = jit.arange(20).float()
    traced = jit.trace(lambda x: x.as_strided((2,), (1,), 3))
    for start in (0, 2, 3, 1, 2):
        assert traced(base[start : start + 5]).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("opened", [False, True])
def test_numbers_of_elements_are_decided_upon(opened: bool) -> None:
    def function(x: Any) -> Any:
        return x[: int(x[0, 0].item())] if not opened else x[: x[x > 2].shape[0]]

    traced = jit.trace(function)
    for first in (3.0, 4.0, 3.0, 2.0, 5.0):
        for size in (6, 7):
            x = jit.ones(size, 4) * first
            assert observed(traced, x.clone()) == observed(function, x.clone())


# -- random ways -------------------------------------------------------------------------------------------------

STEPS: list[Callable[[Any], Any]] = [
    lambda v: v[v.shape[0] // 2 :],
    lambda v: v[: (v.shape[0] * 3 + 4) // 5],
    lambda v: v.narrow(0, v.shape[0] // 3, v.shape[0] - v.shape[0] // 3),
    lambda v: v[v.shape[0] - 1 :].transpose(0, -1),
    lambda v: v.transpose(0, -1),
    lambda v: v.flatten(),
    lambda v: v.reshape(v.numel(), 1),
    lambda v: v.chunk(2, -1)[0],
    lambda v: v.split([v.shape[0] // 2, v.shape[0] - v.shape[0] // 2])[1],
    lambda v: v.unsqueeze(0).expand(v.shape[0], *v.shape)[v.shape[0] // 2],
    lambda v: v.unfold(0, v.shape[0] // 2 + 1, 1)[0],
    lambda v: v.select(-1, 0).unsqueeze(-1),
]
"""Steps to views of what has two entries or more in its first dim; some give one entry, and end the way."""
WRITES: list[Callable[[Any], Any]] = [
    lambda v: v.mul_(2),
    lambda v: v.add_(v.detach().sum() * 0.1),
    lambda v: v[: max(v.shape[0] // 2, 1)].fill_(3),
    lambda v: v[1:].copy_(v[:-1].clone()),
]


def random_way(draw: random.Random) -> Callable[[Any], Any]:
    """A function that goes some random steps from its argument, or from a copy of it, and writes on the way."""
    steps = [(draw.choice(STEPS), draw.choice([*WRITES, None, None])) for _ in range(draw.randint(2, 4))]
    copies, last = draw.random() < 0.5, draw.choice(WRITES)

    def function(x: Any) -> Any:
        base = x * 1 if copies else x
        views = [base]
        for step, write in steps:
            if views[-1].shape[0] > 1:
                views.append(step(views[-1]))
                if write is not None:
                    write(views[-1])
        last(views[len(views) // 2])
        return tuple(views)

    return function


@pytest.mark.parametrize("seed", one_of(2, range(20)))
def test_random_ways_at_every_size(seed: int) -> None:
    function = random_way(random.Random(seed))
    traced = jit.trace(function)
    for size in (4, 5, 7, 6, 9, 12, 8):
        (found, left), (wanted, expected) = observed(traced, rows(size)), observed(function, rows(size))
        for (values, *lie), (others, *lies) in zip(found, wanted, strict=True):
            np.testing.assert_allclose(values, others, rtol=1e-5, atol=1e-5)
            assert lie == lies
        np.testing.assert_allclose(left[0], expected[0], rtol=1e-5, atol=1e-5)
        for a, b in zip(gradients(traced, rows(size)), gradients(function, rows(size)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    assert traced.hits
