"""Memory formats: what `memory_format=` asks for is what lies in memory; everything else is row-major."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.namespace import F
from tests.tolerances import assert_close

RNG = np.random.default_rng(3)


def images(*sizes: int) -> jit.Tensor:
    return jit.from_numpy(RNG.standard_normal(sizes or (2, 3, 4, 5)).astype(np.float32))


LAST = (60, 1, 15, 3)
"""The strides of images that lie with their channels last."""

ASKING: dict[str, Callable[[jit.Tensor, Any], jit.Tensor]] = {
    "contiguous": lambda x, f: x.contiguous(memory_format=f),
    "clone": lambda x, f: x.clone(memory_format=f),
    "jit.clone": lambda x, f: jit.clone(x, memory_format=f),
    "to": lambda x, f: x.to(memory_format=f),
    "to dtype": lambda x, f: x.to(jit.float64, memory_format=f),
    "double": lambda x, f: x.double(memory_format=f),
    "half": lambda x, f: x.half(memory_format=f),
    "empty_like": lambda x, f: jit.empty_like(x, memory_format=f),
    "zeros_like": lambda x, f: jit.zeros_like(x, memory_format=f),
    "ones_like": lambda x, f: jit.ones_like(x, dtype=jit.int64, memory_format=f),
    "full_like": lambda x, f: jit.full_like(x, 2, memory_format=f),
    "rand_like": lambda x, f: F.rand_like(x, memory_format=f),
    "empty": lambda x, f: F.empty(tuple(x.shape), memory_format=f),
}


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_what_is_asked_for_is_what_lies_in_memory(ask: Callable[..., jit.Tensor]) -> None:
    made = ask(images(), jit.channels_last)
    assert made.stride() == LAST
    assert made.is_contiguous(memory_format=jit.channels_last) and not made.is_contiguous()
    assert ask(images(2, 3, 2, 4, 5), jit.channels_last_3d).stride() == (120, 1, 60, 15, 3)
    assert ask(made, jit.contiguous_format).is_contiguous()


@pytest.mark.parametrize("ask", [ASKING[n] for n in ("contiguous", "clone", "to", "to dtype", "half")])
def test_values_stay(ask: Callable[..., jit.Tensor]) -> None:
    x = images()
    assert_close(ask(x, jit.channels_last).float(), x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["clone", "to dtype", "zeros_like", "full_like"])
def test_preserve_format_keeps_the_order_without_the_gaps(name: str) -> None:
    ask = ASKING[name]
    last = images().contiguous(memory_format=jit.channels_last)
    assert ask(last, jit.preserve_format).stride() == LAST
    assert ask(images(3, 4).t(), jit.preserve_format).stride() == (1, 4)
    assert ask(images(6, 8)[::2, ::2], jit.preserve_format).stride() == (4, 1)
    assert ask(images(3, 1).expand(3, 4), jit.preserve_format).stride() == (4, 1)
    assert ask(images(1, 3).expand(4, 3).t(), jit.preserve_format).stride() == (4, 1)
    assert ask(images(0, 3), jit.preserve_format).shape == (0, 3)


def test_nothing_is_copied_that_lies_right_already() -> None:
    x = images()
    last = x.to(memory_format=jit.channels_last)
    assert last.to(memory_format=jit.channels_last) is last and last.contiguous(memory_format=jit.channels_last) is last
    assert x.to(memory_format=jit.contiguous_format) is x and x.to(memory_format=jit.preserve_format) is x
    turned = x.permute(1, 0, 2, 3)
    assert turned.to(memory_format=jit.contiguous_format) is turned  # which is not taken for channels last
    assert last.to(jit.float32, copy=True, memory_format=jit.channels_last) is not last


def test_channels_last_is_of_its_rank() -> None:
    assert not images(2, 3).is_contiguous(memory_format=jit.channels_last)
    assert images(2, 1, 4, 5).is_contiguous(memory_format=jit.channels_last)
    assert images(2, 3, 1, 1).is_contiguous(memory_format=jit.channels_last)
    for ask in (ASKING["contiguous"], ASKING["clone"], ASKING["zeros_like"]):
        with pytest.raises(jit.ShapeError, match="channels_last needs 4 dims"):
            ask(images(2, 3), jit.channels_last)


def test_what_is_no_format_is_refused() -> None:
    with pytest.raises(jit.UsageError, match="not a memory format"):
        images().clone(memory_format="nchw")
    with pytest.raises(jit.UsageError, match="names no order"):
        images().contiguous(memory_format=jit.preserve_format)


def test_formats_show_their_names() -> None:
    assert repr(jit.channels_last) == "jit.channels_last"
    assert isinstance(jit.preserve_format, jit.memory_format)


def test_results_are_row_major() -> None:
    """See Note [Results are row-major]."""
    last = images().contiguous(memory_format=jit.channels_last)
    for made in (last + 1, last.clone(), last.double(), jit.zeros_like(last), F.conv2d(last, images(2, 3, 1, 1))):
        assert made.is_contiguous()


@pytest.mark.parametrize("way", [lambda f: f, jit.trace], ids=["eager", "traced"])
def test_views_of_results_of_permuted_operands(way: Callable[[Any], Any]) -> None:
    """Given where PyTorch refuses them, refused where it gives them, and right wherever they are given."""
    x = jit.arange(24).float().reshape(2, 3, 4)
    f = way(lambda x: (x.permute(2, 0, 1) + 1).view(4, 6))
    g = way(lambda x: (x[0].t() + 1).t().view(-1))
    h = way(lambda x: (x[0].t() + 1).t().reshape(-1))
    for _ in range(3):
        assert f(x).tolist() == (x.numpy().transpose(2, 0, 1) + 1).reshape(4, 6).tolist()
        with pytest.raises(jit.ShapeError, match="use reshape"):
            g(x)
        assert h(x).tolist() == (x.numpy()[0] + 1).reshape(-1).tolist()


def test_writes_to_views_of_results_of_permuted_operands() -> None:
    x = jit.arange(24).float().reshape(2, 3, 4)
    y = x.permute(2, 0, 1) * 2
    wanted = np.ascontiguousarray(x.numpy().transpose(2, 0, 1) * 2)
    y.view(-1)[5] = 100
    wanted.reshape(-1)[5] = 100
    assert y.tolist() == wanted.tolist() and x.tolist() == np.arange(24).reshape(2, 3, 4).tolist()


def test_gradients_pass_through() -> None:
    x = images().requires_grad_()
    y = x.to(jit.float64, memory_format=jit.channels_last)
    (y * y).sum().backward()
    assert_close(x.grad, 2 * x.detach(), rtol=1e-6)
    assert x.grad.dtype is jit.float32


def test_modules_lay_out_their_images() -> None:
    model = jit.nn.Sequential(jit.nn.Conv2d(3, 4, 2), jit.nn.Flatten(), jit.nn.Linear(48, 2))
    x = images()
    before = model(x)
    model.to(memory_format=jit.channels_last)
    assert model[0].weight.is_contiguous(memory_format=jit.channels_last) and not model[0].weight.is_contiguous()
    assert_close(model(x.to(memory_format=jit.channels_last)), before, rtol=1e-5, atol=1e-6)


def test_recordings_know_the_layout() -> None:
    """Types, views and kernels of what follows go by the strides that were asked for."""

    @jit.trace
    def f(x: Any) -> Any:
        last = (x * 2).contiguous(memory_format=jit.channels_last)
        return last, last.permute(0, 2, 3, 1).view(-1, 3) + 1, last.to(memory_format=jit.contiguous_format).view(-1)

    x = images()
    expected = (x * 2).numpy()
    for _ in range(3):
        last, rows, flat = f(x)
        assert last.stride() == LAST and np.array_equal(last.numpy(), expected)
        assert np.array_equal(rows.numpy(), expected.transpose(0, 2, 3, 1).reshape(-1, 3) + 1)
        assert np.array_equal(flat.numpy(), expected.reshape(-1))
    assert "memory_format='channels_last'" in str(f.graph) and "strides=[60, 1, 15, 3]" in str(f.graph)
    assert str(jit.ir.parse(str(f.graph))) == str(f.graph)
