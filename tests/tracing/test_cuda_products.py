"""Products and convolutions on a GPU: which of them run in kernels of this package, and that they are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit import nn
from tests.sampling import one_of
from tests.tolerances import assert_close

from .test_cuda_kernels import driver as driver

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]


@pytest.fixture(autouse=True)
def without_cudnn() -> Iterator[None]:
    """Let kernels of this package compute, where cuDNN is installed, too."""
    with jit.backends.cudnn.flags(enabled=False):
        yield


def launched(driver: Any, function: Any, *tensors: Any) -> tuple[Any, list[str]]:
    """The result of a traced function at its third call, and the kernels that this call launches."""
    traced = jit.trace(function)
    for _ in range(3):
        driver.launches.clear()
        result = traced(*(t.cuda() for t in tensors))
    return result, list(driver.launches)


def normal(*shape: int, seed: int = 0) -> Any:
    return jit.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def test_what_follows_a_product_is_part_of_its_kernel(driver: Any) -> None:
    x, w, b = normal(9, 16), normal(20, 16, seed=1), normal(20, seed=2)
    found, names = launched(driver, lambda x, w, b: F.gelu(F.linear(x, w, b)) * 2, x, w, b)
    assert_close(found.cpu(), F.gelu(F.linear(x, w, b)) * 2, rtol=1e-5, atol=1e-5)
    assert names == ["product_add_gelu_mul"]


def test_one_operator_behind_a_product_is_part_of_its_kernel(driver: Any) -> None:
    x, w = normal(9, 16), normal(16, 20, seed=1)
    found, names = launched(driver, lambda x, w: (x @ w).relu(), x, w)
    assert_close(found.cpu(), (x @ w).relu(), rtol=1e-5, atol=1e-5)
    assert names == ["product_relu"]


def test_a_product_that_is_needed_by_itself_is_not(driver: Any) -> None:
    x, w = normal(9, 16), normal(16, 20, seed=1)
    (one, two), names = launched(driver, lambda x, w: (x @ w, (x @ w).relu() + 1), x, w)
    assert_close(one.cpu(), x @ w, rtol=1e-5, atol=1e-5)
    assert_close(two.cpu(), (x @ w).relu() + 1, rtol=1e-5, atol=1e-5)
    assert not any("product" in name for name in names)


def test_long_sums_of_float32_are_left_to_the_library(driver: Any) -> None:
    x, w = normal(4, 300), normal(300, 5, seed=1)
    found, names = launched(driver, lambda x, w: (x @ w).relu() + 1, x, w)
    assert_close(found.cpu(), (x @ w).relu() + 1, rtol=1e-4, atol=1e-4)
    assert names and not any("product" in name for name in names)


@pytest.mark.parametrize("has_cublas", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_16_bits(dtype: str, has_cublas: bool, driver: Any) -> None:
    """In eager mode, and traced with what follows: by cuBLAS, or else by a kernel of ours."""
    if not has_cublas:
        driver.cublas = None
    x, w = (t.to(getattr(jit, dtype)) for t in (normal(4, 30), normal(30, 5, seed=1)))
    found = x.cuda() @ w.cuda()
    assert ours(driver) == ([] if has_cublas else ["product"])
    exact, rtol = x.float() @ w.float(), 2e-3 if dtype == "float16" else 2e-2
    assert_close(found.cpu().float(), exact, rtol=rtol, atol=1e-2)
    found, _ = launched(driver, lambda x, w: (x @ w).relu(), x, w)
    assert ours(driver) == (["relu"] if has_cublas else ["product_relu"])
    assert_close(found.cpu().float(), exact.relu(), rtol=rtol, atol=1e-2)


def ours(driver: Any) -> list[str]:
    """The kernels that were launched, without products by cuBLAS."""
    return [name for name in driver.launches if name != "cublas"]


def test_factors_that_the_library_would_copy_are_ours(driver: Any) -> None:
    x, w = normal(9, 32)[:, ::2], normal(16, 20, seed=1)
    assert_close((x.cuda()[:, ::1] @ w.cuda()).cpu(), x @ w, rtol=1e-5, atol=1e-5)
    y = normal(9, 32).cuda()[:, ::2]
    driver.launches.clear()
    assert_close((y @ w.cuda()).cpu(), x @ w, rtol=1e-5, atol=1e-5)
    assert driver.launches == ["product"]


def test_batches_and_sizes_that_vary(driver: Any) -> None:
    f = jit.trace(lambda a, b: (jit.bmm(a, b) * 2).tanh())
    for rows in (3, 4, 5, 7):
        a, b = normal(2, rows, 8, seed=rows), normal(2, 8, 9, seed=1)
        driver.launches.clear()
        assert_close(f(a.cuda(), b.cuda()).cpu(), (jit.bmm(a, b) * 2).tanh(), rtol=1e-5, atol=1e-5)
    assert driver.launches == ["product_mul_tanh"]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv2d(3, 8, 3, padding=1, stride=2),
        lambda: nn.Conv2d(3, 6, 3, groups=3, dilation=2, bias=False),
        lambda: nn.ConvTranspose2d(3, 4, 2, stride=3, output_padding=1),
    ],
)  # fmt: skip
def test_convolutions_and_their_gradients(make: Any, traced: bool, driver: Any) -> None:
    jit.manual_seed(0)
    net, x = make(), normal(2, 3, 9, 9)
    x.requires_grad_()
    wanted = net(x)
    expected = jit.grad((wanted.relu() ** 2).sum(), [x, *net.parameters()])
    net, y = net.to("cuda"), x.detach().cuda().requires_grad_()

    def step(y: Any) -> Any:
        out = net(y)
        return out, jit.grad((out.relu() ** 2).sum(), [y, *net.parameters()])

    function = jit.trace(step) if traced else step
    for _ in range(2):
        driver.launches.clear()
        out, found = function(y)
    assert_close(out.cpu(), wanted, rtol=1e-4, atol=1e-4)
    for one, two in zip(found, expected, strict=True):
        assert_close(one.cpu(), two, rtol=1e-3, atol=1e-3)
    assert sum("convolution" in name for name in driver.launches) >= 3


def test_arguments_that_do_not_fit_are_refused_as_ever(driver: Any) -> None:
    with pytest.raises(jit.ShapeError):
        jit.mm(jit.zeros(2, 3, dtype=jit.float16, device="cuda"), jit.zeros(4, 2, dtype=jit.float16, device="cuda"))
    with pytest.raises(jit.ShapeError):
        F.conv2d(jit.zeros(1, 3, 4, 4, device="cuda"), jit.zeros(2, 2, 3, 3, device="cuda"))
    assert (
        jit.zeros(0, 3, dtype=jit.float16, device="cuda") @ jit.zeros(3, 2, dtype=jit.float16, device="cuda")
    ).numel() == 0
    assert not driver.launches


BACKWARD = ["attention_by_query", "attention_by_key_and_value"]


def kernels_of_attention(driver: Any) -> list[str]:
    return [name for name in driver.launches if name.startswith("attention")]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_one_kernel_and_its_backward_two(causal: bool, traced: bool, driver: Any) -> None:
    q, k, v = (normal(2, 2, 9, 8, seed=seed).requires_grad_() for seed in range(3))
    wanted = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    expected = jit.grad((wanted**2).sum(), [q, k, v])
    there = [t.detach().cuda().requires_grad_() for t in (q, k, v)]

    def step(q: Any, k: Any, v: Any) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return out, jit.grad((out**2).sum(), [q, k, v])

    function = jit.trace(step) if traced else step
    for _ in range(2):
        driver.launches.clear()
        out, found = function(*there)
    assert_close(out.cpu(), wanted, rtol=1e-5, atol=1e-5)
    for one, two in zip(found, expected, strict=True):
        assert_close(one.cpu(), two, rtol=1e-4, atol=1e-4)
    assert kernels_of_attention(driver) == ["attention", *BACKWARD]


@pytest.mark.parametrize("traced", [False, True])
def test_a_backward_that_is_called_later_is_two_kernels(traced: bool, driver: Any) -> None:
    q, k, v = (normal(2, 9, 8, seed=seed).requires_grad_() for seed in range(3))
    (F.scaled_dot_product_attention(q, k, v) ** 2).sum().backward()
    there = [t.detach().cuda().requires_grad_() for t in (q, k, v)]
    function = jit.trace(F.scaled_dot_product_attention) if traced else F.scaled_dot_product_attention
    for _ in range(3):
        driver.launches.clear()
        for t in there:
            t.grad = None
        (function(*there) ** 2).sum().backward()
    for one, two in zip(there, (q, k, v), strict=True):
        assert_close(one.grad.cpu(), two.grad, rtol=1e-4, atol=1e-4)
    assert kernels_of_attention(driver) == ["attention", *BACKWARD]


def test_only_the_gradients_that_are_wanted_are_computed(driver: Any) -> None:
    q, k, v = (normal(2, 9, 8, seed=seed).cuda() for seed in range(3))
    for number, name in enumerate(("query", "key", "value")):
        wanted = [t.detach().requires_grad_() if n == number else t for n, t in enumerate((q, k, v))]
        driver.launches.clear()
        F.scaled_dot_product_attention(*wanted).sum().backward()
        assert kernels_of_attention(driver) == ["attention", f"attention_by_{name}"]


@pytest.mark.parametrize("traced", one_of(2, [True, False]))
def test_second_derivatives_of_attention(traced: bool, driver: Any) -> None:
    """Those of the backward's own operands are matrices; what passes through its forward is in tiles again."""

    def penalty(q: Any, k: Any, v: Any, mask: Any) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, mask)
        gradients = jit.grad((out**2).sum(), [q, k, v], create_graph=True)
        return jit.grad(sum((g**2).sum() for g in gradients), [q, k, v])

    q, k, v = (normal(2, 9, 8, seed=seed) * 0.5 for seed in range(3))
    mask = normal(9, 9, seed=3) > -1
    expected = penalty(q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), mask)
    q, k, v = (t.detach().cuda().requires_grad_() for t in (q, k, v))
    function = jit.trace(penalty) if traced else penalty
    for _ in range(2):
        driver.launches.clear()
        found = function(q, k, v, mask.cuda())
    for one, two in zip(found, expected, strict=True):
        assert_close(one.cpu(), two, rtol=1e-3, atol=1e-3)
    assert kernels_of_attention(driver) == ["attention", *BACKWARD, *BACKWARD]


def test_a_mask_that_is_learned_has_a_gradient(driver: Any) -> None:
    q, k, v, mask = (normal(*sizes, seed=seed) for seed, sizes in enumerate([(2, 9, 8)] * 3 + [(1, 9)]))
    everything = [t.requires_grad_() for t in (q, k, v, mask)]
    expected = jit.grad((F.scaled_dot_product_attention(q, k, v, mask) ** 2).sum(), everything)
    there = [t.detach().cuda().requires_grad_() for t in everything]
    found = jit.grad((F.scaled_dot_product_attention(*there) ** 2).sum(), there)
    for one, two in zip(found, expected, strict=True):
        assert one.shape == two.shape
        assert_close(one.cpu(), two, rtol=1e-4, atol=1e-4)
    assert kernels_of_attention(driver) == ["attention", *BACKWARD]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_attention_in_16_bits(dtype: str, driver: Any) -> None:
    def gradients(*operands: Any) -> Any:
        q, k, v = (t.requires_grad_() for t in operands)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return jit.grad((out.to(jit.promote_types(out.dtype, jit.float32)) ** 2).sum(), [q, k, v])

    operands = [normal(2, 9, 8, seed=seed).to(getattr(jit, dtype)) for seed in range(3)]
    expected = gradients(*(t.double() for t in operands))
    driver.launches.clear()
    found = gradients(*(t.cuda() for t in operands))
    for one, two in zip(found, expected, strict=True):
        assert one.dtype is getattr(jit, dtype)
        assert_close(one.cpu().double(), two, rtol=0, atol=(2e-2 if dtype == "float16" else 1e-1))
    assert kernels_of_attention(driver) == ["attention", *BACKWARD]


def test_a_query_that_sees_nothing_has_no_gradient(driver: Any) -> None:
    mask = normal(9, 9, seed=3) > 0
    mask[4] = False
    q, k, v = (normal(2, 9, 8, seed=seed).cuda().requires_grad_() for seed in range(3))
    by_query, *others = jit.grad((F.scaled_dot_product_attention(q, k, v, mask.cuda()) ** 2).sum(), [q, k, v])
    assert not by_query[:, 4].cpu().numpy().any() and by_query[:, 3].cpu().numpy().any()
    assert all(np.isfinite(other.cpu().numpy()).all() for other in others)


def test_attention_with_a_mask_and_with_dropout(driver: Any) -> None:
    q, k, v = (normal(2, 9, 8, seed=seed) for seed in range(3))
    mask = normal(9, 9, seed=3) > 0
    found = F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), mask.cuda())
    assert_close(found.cpu(), F.scaled_dot_product_attention(q, k, v, mask), rtol=1e-5, atol=1e-5)
    assert driver.launches == ["attention"]
    F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), dropout_p=0.5)
    assert ours(driver) == ["attention"]


def test_a_triangle_of_a_matrix_on_a_device(driver: Any) -> None:
    """It is not chosen by positions that lie on the CPU: each call would fail there, and run in Python."""
    f = jit.trace(lambda x: x.tril() * 2 + 1)
    x = normal(5, 5)
    for _ in range(3):
        driver.launches.clear()
        assert_close(f(x.cuda()).cpu(), x.tril() * 2 + 1, rtol=1e-6, atol=1e-6)
    assert len(driver.launches) == 1


def test_attention_on_a_device_is_exported(tmp_path: Any, driver: Any) -> None:
    x = normal(2, 9, 8).cuda()
    report = jit.export_onnx(
        lambda x: F.scaled_dot_product_attention(x * 2, x, x, is_causal=True), (x,), tmp_path / "attention.onnx"
    )
    assert "verified" in str(report)
