"""Reductions of few long rows on a GPU: stretches and CUDA graphs of several kernels, at fixed sizes and others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import jit
import jit.nn.functional as F
from jit.runtime.gpu import pieces
from tests.tolerances import assert_close

from .test_cuda_graphs import driver as driver

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", 256)


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the gradients of another one by all of its arguments."""

    def of(*tensors: Any) -> Any:
        tensors = tuple(tensor.detach().requires_grad_() for tensor in tensors)
        return jit.grad(function(*tensors), tensors)

    return of


IMAGES, MATRIX, OTHER = (8, 3, 20, 23), (71, 83), (71, 83)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sum": (lambda x: x.sum(), (MATRIX,)),
    "mean of a product": (lambda x, y: (x * y).mean() * 2, (MATRIX, OTHER)),
    "largest and smallest": (lambda x: (x.max(), x.min(), x.amax((0, 1))), (MATRIX,)),
    "argmax": (lambda x: x.argmax(), (MATRIX,)),
    "norm": (lambda x: x.norm() + x.norm(1) + x.norm(math.inf), (MATRIX,)),
    "spread": (lambda x: (x.var(), x.std()), (MATRIX,)),
    "logsumexp": (lambda x: x.flatten().logsumexp(0), (MATRIX,)),
    "some and all": (lambda x: ((x > 4.5).any(), (x > -9).all()), (MATRIX,)),
    "prod": (lambda x: (1 + x / 1000).prod(), (MATRIX,)),
    "mse": (F.mse_loss, (MATRIX, OTHER)),
    "cross entropy": (lambda x: F.cross_entropy(x, jit.zeros_like(x[:, 0]).long()), ((2100, 5),)),
    "columns": (lambda x: (x.sum(0), x.mean(0).sqrt()), (MATRIX,)),
    "channels": (lambda x: x.sum((0, 2, 3)), (IMAGES,)),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), (IMAGES,)),
    "gradients of a batch norm": (
        gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True).square().sum()),
        (IMAGES, (3,), (3,)),
    ),
    "gradients of a layer norm": (
        gradients(lambda x, w, b: F.layer_norm(x, (83,), w, b).square().sum()),
        (MATRIX, (83,), (83,)),
    ),
    "gradients of a bias": (gradients(lambda x, b: ((x + b).tanh() ** 2).mean()), (MATRIX, (83,))),
    "softmax": (lambda x: x.flatten().softmax(0), (MATRIX,)),
    "after a product": (lambda x, y: (x @ y.t()).relu().sum(), (MATRIX, OTHER)),
}


def many(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_cut(name: str, driver: Any) -> None:
    """Through the calls that launch kernels one by one, and those that launch a graph."""
    function, shapes = FUNCTIONS[name]
    arrays = [jit.rand(*shape) for shape in shapes]
    wanted = many(function(*arrays))
    traced = jit.trace(function)
    for _ in range(4):
        for found, expected in zip(many(traced(*(x.cuda() for x in arrays))), wanted, strict=True):
            assert_close(found.cpu(), expected, rtol=2e-5, atol=2e-5)
    if driver is not None:
        kinds = [name.rpartition("_")[2] for name in driver.launches]
        assert "blocks" in kinds and "rows" in kinds
        assert driver.graphs.replays or name == "after a product"


def test_sizes_that_vary(driver: Any) -> None:
    def function(x: Any) -> Any:
        return (x * 2).sum().sqrt() / x.shape[0], x.argmax(), x.mean(0)

    traced = jit.trace(function)
    loaded: list[int] = []
    for rows, wide in (
        (20, 30),
        (21, 31),
        (150, 31),
        (151, 33),
        (700, 9),
        (21, 31),
        (3000, 2),
        (152, 35),
        (701, 8),
        (153, 35),
        (710, 9),
    ):
        x = jit.rand(rows, wide)
        for found, expected in zip(traced(x.cuda()), function(x), strict=True):
            assert_close(found.cpu(), expected, rtol=2e-5, atol=2e-5)
        if driver is not None:
            loaded.append(len(driver._loaded))
    assert traced.misses == 2
    if driver is not None:
        assert loaded[-1] == loaded[-3], "the last two sizes are served by kernels of sizes before them"


def test_one_piece_more_or_less() -> None:
    """Fixed sizes about those from which on rows are cut, and by which pieces are even."""
    for size in (1023, 1024, 1025, 2047, 2048, 2049, 4099):
        x = (jit.rand(size) * 8).floor()
        traced = jit.trace(lambda x: (x.sum(), x.argmax()))
        for _ in range(2):
            total, place = traced(x.cuda())
            assert (float(total), int(place)) == (float(x.sum()), int(x.argmax()))
