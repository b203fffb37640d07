"""Products on a GPU by cuBLAS: alone, and as launches of lists of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.ir.errors import AcceleratorError
from jit.runtime.cuda import cublas, launching
from jit.runtime.cuda.devices import open_device
from tests.runtime.interpreting_driver import InterpretingDriver
from tests.threads import in_threads
from tests.tolerances import assert_close

from .test_cuda_graphs import driver as driver
from .test_cuda_graphs import runs_of
from .test_cuda_graphs import simulation as simulation

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu", "driver")]

CLOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}

# -- layouts and dtypes ------------------------------------------------------------------------------------------


def laid_out(rng: Any, shape: tuple[int, ...]) -> Any:
    """A function that makes an array, of float64, lie in one of several ways as a matrix or a batch of them."""
    ways: list[Callable[[Any], Any]] = [
        lambda x: x,
        lambda x: x.mT.contiguous().mT,
        lambda x: jit.cat([x, x], -1)[..., : x.shape[-1]],
        lambda x: jit.cat([x, x], -2).mT.contiguous().mT[..., : x.shape[-2], :],
        lambda x: jit.stack([x, x], -1)[..., 0],
        lambda x: x[..., :1, :].expand(x.shape),
    ]
    if len(shape) == 3:
        ways += [lambda x: x[:1].expand(x.shape), lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)]
    return ways[rng.integers(len(ways))]


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("group", range(4))
def test_random_layouts(group: int, dtype: str, gpu: str) -> None:
    """Eager and traced, with and without something behind the product; sizes of one among them."""
    rng = np.random.default_rng(group)
    for _ in range(4 if gpu == "simulated" else 40):
        batch = [(), (1,), (int(rng.integers(2, 4)),)][rng.integers(3)]
        n, k, m = (int(rng.choice([1, 2, 3, 8, 17])) for _ in range(3))
        shapes = (*batch, n, k), (*batch, k, m)
        ways = [laid_out(rng, shape) for shape in shapes]
        plain = [jit.from_numpy(rng.normal(size=shape)).to(getattr(jit, dtype)) for shape in shapes]
        a, b = (way(x.cuda()) for way, x in zip(ways, plain, strict=True))
        exact = ways[0](plain[0]).double() @ ways[1](plain[1]).double()
        rtol, atol = CLOSE[dtype], CLOSE[dtype] * np.sqrt(k)
        assert_close((a @ b).cpu().double(), exact, rtol=rtol, atol=4 * atol)
        behind = jit.trace(lambda a, b: (a @ b, (a @ b * 2).relu()))
        for _ in range(2):
            one, two = behind(a, b)
        assert one.is_contiguous()
        assert_close(one.cpu().double(), exact, rtol=rtol, atol=4 * atol)
        assert_close(two.cpu().double(), (exact * 2).relu(), rtol=2 * rtol, atol=8 * atol)


@pytest.mark.parametrize("dtype", CLOSE)
def test_sums_with_an_addend(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for kind, *shapes in (
        (jit.addmm, (5,), (4, 3), (3, 5)), (jit.addmm, (4, 1), (4, 3), (3, 5)),
        (jit.baddbmm, (2, 4, 5), (2, 4, 3), (2, 3, 5)), (jit.baddbmm, (5,), (2, 4, 3), (2, 3, 5)),
    ):  # fmt: skip
        addend, a, b = (jit.from_numpy(rng.normal(size=shape)).to(getattr(jit, dtype)) for shape in shapes)
        for alpha, beta in ((1, 1), (0.5, 2), (1, 0), (-1, 1.5)):
            exact = kind(addend.double(), a.double(), b.double(), alpha=alpha, beta=beta)
            for function in (kind, jit.trace(kind)):
                found = function(addend.cuda(), a.cuda(), b.cuda(), alpha=alpha, beta=beta)
                assert_close(found.cpu().double(), exact, rtol=2 * CLOSE[dtype], atol=8 * CLOSE[dtype])


def test_an_addend_times_zero_is_not_looked_at() -> None:
    """Nor is what the memory of a result holds before."""
    x = jit.ones(3, 3).cuda()
    nans = jit.full((3, 3), float("nan")).cuda()
    for function in (jit.addmm, jit.trace(jit.addmm)):
        assert_close(function(nans, x, x, beta=0).cpu(), jit.full((3, 3), 3.0))
        assert np.isnan(function(nans, x, x).cpu().numpy()).all()


def test_sizes_of_zero() -> None:
    pairs: list[list[tuple[int, ...]]] = [
        [(0, 3), (3, 2)], [(3, 0), (0, 2)], [(2, 3), (3, 0)], [(0, 2, 3), (0, 3, 2)], [(2, 2, 0), (2, 0, 3)],
    ]  # fmt: skip
    for shapes in pairs:
        f = jit.trace(lambda a, b: ((a @ b) + 1, a @ b))
        for _ in range(3):
            a, b = (jit.ones(*shape) for shape in shapes)
            for found, wanted in zip(f(a.cuda(), b.cuda()), (a @ b + 1, a @ b), strict=True):
                assert_close(found.cpu(), wanted)
                assert not found.numel() or 0 in shapes[0][-1:]


# -- lists -------------------------------------------------------------------------------------------------------


def perceptron(dtype: Any = None) -> Any:
    jit.manual_seed(0)
    made = nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 4))
    return made if dtype is None else made.to(dtype)


def test_a_perceptron_is_one_list(simulation: Any) -> None:
    net, x = perceptron(), jit.randn(3, 300)
    wanted = net(x)
    there = perceptron().cuda()
    f = jit.trace(lambda x: there(x))
    for _ in range(4):
        simulation.forget()
        assert_close(f(x.cuda()).cpu(), wanted, rtol=1e-4, atol=1e-5)
    assert simulation.launches == ["cublas", "add_relu", "cublas", "add_relu", "cublas", "add"]
    (run,) = runs_of(f)
    assert not run.is_graph and not run.remark


def test_few_terms_of_float32_are_one_kernel_with_what_follows(simulation: Any) -> None:
    """Such kernels and products by cuBLAS are in one list, in which memory is used again."""
    tensors = [jit.randn(6, 6, dtype=jit.float64).float() for _ in range(3)]

    def function(x: Any, y: Any, z: Any) -> Any:
        first = x @ y  # read twice: a product alone
        held = first @ z  # leads what stands at the end
        other = jit.tanh(first * 2).sum(0)
        late = (y @ z).relu() @ (first + other)
        return held * other + late, late.exp()

    f = jit.trace(function)
    for _ in range(3):
        simulation.forget()
        for found, wanted in zip(f(*(t.cuda() for t in tensors)), function(*tensors), strict=True):
            assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)
    assert len(runs_of(f)) == 1
    assert {"cublas", "product_relu"} <= {*simulation.launches} and any("product_mul" in n for n in simulation.launches)


def test_two_products_of_one_group(simulation: Any) -> None:
    """One of them leads it; what it reads is not written over while it waits."""
    tensors = [jit.randn(8, 8) for _ in range(4)]

    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        p, q = jit.tanh(a), jit.sin(b)
        return (p @ q + (q @ c) * 2).relu() @ d

    f = jit.trace(function)
    for _ in range(3):
        simulation.forget()
        assert_close(f(*(t.cuda() for t in tensors)).cpu(), function(*tensors), rtol=1e-4, atol=1e-4)
    assert simulation.launches.count("cublas") == 2 and len(runs_of(f)) == 1


@pytest.mark.parametrize("dtype", [None, jit.float16])
def test_sizes_that_vary(dtype: Any) -> None:
    """One lowering serves many sizes, unless a decision does not hold for them."""

    def function(x: Any, w: Any, v: Any) -> Any:
        return jit.softmax((x @ w).relu() @ v.mT, -1).sum(0), x.mT @ x

    f, (w, v) = jit.trace(function), (jit.randn(300, 20), jit.randn(7, 20))
    for rows in (3, 4, 9, 1, 30, 2, 4, 65):
        given = [t if dtype is None else t.to(dtype) for t in (jit.randn(rows, 300), w, v)]
        results = f(*(t.cuda() for t in given))
        for found, wanted in zip(results, function(*(t.double() for t in given)), strict=True):
            close = 1e-4 if dtype is None else 3e-2
            assert_close(found.cpu().double(), wanted, rtol=close, atol=close * 10)
    assert f.misses <= 4


def test_batches_of_sizes_that_vary() -> None:
    f = jit.trace(lambda q, k: (q @ k.mT, (q @ k.mT).softmax(-1) @ k))
    for batch, n, d in ((2, 3, 8), (3, 4, 8), (4, 2, 9), (2, 7, 3), (5, 6, 4)):
        q, k = jit.randn(batch, n, d), jit.randn(batch, n, d)
        for found, wanted in zip(f(q.cuda(), k.cuda()), (q @ k.mT, (q @ k.mT).softmax(-1) @ k), strict=True):
            assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)


def test_a_training_step() -> None:
    def step(x: Any, *parameters: Any) -> Any:
        first, second = parameters
        loss = ((x @ first).relu() @ second).square().mean()
        return loss, jit.grad(loss, list(parameters))

    f, x = jit.trace(step), jit.randn(5, 300)
    parameters = [jit.randn(300, 20, requires_grad=True), jit.randn(20, 4, requires_grad=True)]
    there = [p.detach().cuda().requires_grad_() for p in parameters]
    loss, gradients = step(x, *parameters)
    for _ in range(3):
        found, others = f(x.cuda(), *there)
        assert_close(found.detach().cpu(), loss.detach(), rtol=1e-4, atol=1e-4)
        for one, two in zip(others, gradients, strict=True):
            assert_close(one.cpu(), two, rtol=1e-3, atol=1e-3)


# -- threads, streams, errors ------------------------------------------------------------------------------------


def test_threads_have_handles_of_their_own_that_later_threads_take(simulation: Any) -> None:
    f, x, w = jit.trace(lambda x, w: (x @ w, x @ w + 1)), jit.randn(3, 300), jit.randn(300, 3)
    there = x.cuda(), w.cuda()
    f(*there)

    def call(number: int) -> None:
        for _ in range(3):
            one, two = f(*there)
            assert_close(one.cpu(), x @ w, rtol=1e-4, atol=1e-4)
            assert_close(two.cpu(), x @ w + 1, rtol=1e-4, atol=1e-4)

    for _ in range(3):
        in_threads(call, 3)
    assert 1 < len(simulation.products.handles) <= 4


def test_products_are_queued_on_the_current_stream(simulation: Any) -> None:
    f, x = jit.trace(lambda x: x @ x), jit.randn(3, 3).cuda()
    f(x)
    f(x)
    stream = jit.cuda.Stream()
    simulation.products.calls.clear()
    for block in (stream, None, stream):
        if block is None:
            f(x), x @ x
            continue
        with jit.cuda.stream(block):
            f(x), x @ x
    queued = [call[-1] for call in simulation.products.calls]
    assert queued[0] == queued[1] == queued[4] == queued[5] != 0 and queued[2:4] == [0, 0]


@pytest.mark.parametrize(
    ("name", "status", "error", "words"),
    [
        (
            "cublasGemmStridedBatchedEx_64",
            13,
            AcceleratorError,
            r"cuBLAS could not compute mm \(EXECUTION_FAILED\)",
        ),
        ("cublasGemmStridedBatchedEx_64", 99, AcceleratorError, r"status 99"),
        ("cublasGemmStridedBatchedEx_64", 3, jit.cuda.OutOfMemoryError, "no memory left for mm"),
        ("cublasCreate_v2", 3, jit.cuda.OutOfMemoryError, "no memory left for a handle"),
        ("cublasCreate_v2", 1, AcceleratorError, "NOT_INITIALIZED"),
    ],
)
def test_errors(name: str, status: int, error: type[Exception], words: str, simulation: Any) -> None:
    f, x = jit.trace(lambda x: jit.sin(x) @ x), jit.randn(3, 300, dtype=jit.float64).t() @ jit.randn(3, 300).double()
    there = x.cuda()
    simulation.products.refused[name] = status
    with pytest.raises(error, match=words):
        there @ there
    del simulation.products.refused[name]
    for _ in range(3):
        assert_close(f(there).cpu(), jit.sin(x) @ x, rtol=1e-9, atol=1e-9)
    if name == "cublasCreate_v2":
        return
    simulation.products.refused[name] = status
    with pytest.raises(error, match=f"{words}.*asked for at test_cuda_cublas"):
        f(there)


def test_without_cublas_all_goes_on_as_before(gpu: str) -> None:
    if gpu != "simulated":
        pytest.skip("a GPU's CuPy brings cuBLAS")
    without = InterpretingDriver(has_cublas=False)
    launching.use(without)
    assert open_device(0).cublas is None
    x, w = jit.randn(3, 300), jit.randn(300, 3)
    f = jit.trace(lambda x, w: jit.tanh(x @ w).sum(0))
    for _ in range(3):
        assert_close(f(x.cuda(), w.cuda()).cpu(), jit.tanh(x @ w).sum(0), rtol=1e-4, atol=1e-4)
        assert_close((x.half().cuda() @ w.half().cuda()).cpu().float(), x @ w, rtol=1e-2, atol=2e-1)
    assert "product" in without.launches and not without.products.calls


def test_every_dtype_with_products_has_a_kind() -> None:
    assert {str(dtype).removeprefix("jit.") for dtype in cublas.KINDS} == {*CLOSE}
