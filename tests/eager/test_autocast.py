"""`autocast`: what every operator computes in, nested regions, kept casts, derivatives, functions of users."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.eager.namespace import F
from jit.ir.op import REGISTRY
from jit.ir.precision import DEFAULTS, is_cast
from tests.registry_cases import Case, all_cases

# -- every operator, as in PyTorch ---------------------------------------------------------------------------------

TABLE = [tuple(line.split("\t")) for line in Path(__file__).with_name("autocast.tsv").read_text().splitlines()]
"""(kind of device, dtype of the operands, case, dtypes of the results) in PyTorch 2.13 wherever `autocast` changes one;
what it does on GPUs was asked of its fake tensors."""

OTHERWISE = {
    "aten::_convolution_double_backward:0": "it computes in what it is given here",
    "aten::inner:0": "a product of matrices here, also of vectors",
    "aten::reflection_pad3d:0": "it is computed like the others here",
}
"""Cases in which results have other dtypes than in PyTorch."""
UNASKED = {
    "aten::" + name
    for name in (
        *("_convolution_nogroup", "binary_cross_entropy", "conv3d", "conv_transpose1d", "conv_transpose3d.input"),
        *("corrcoef", "cov", "edge_pad_nd", "fft_ihfft2", "fft_ihfftn", "gru.data", "gru.input", "gru_cell"),
        *("interpolate", "local_response_norm", "lstm.data", "norm.name", "normalize", "rnn_relu.data"),
        *("rnn_tanh.data", "softmin", "sum_of_products", "tensordot.int", "upsample", "upsample_bilinear"),
        "upsample_nearest",
    )
}
"""Operators that PyTorch does not have under this name, or could not run on these operands or without elements."""


@pytest.fixture(params=DEFAULTS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind of device, the GPU being the simulated one."""
    monkeypatch.setenv("JIT_CUDA", "simulate")
    return str(request.param)


def dtypes_of(case: Case, kind: str, dtype: jit.dtype, region: bool) -> str:
    """The dtypes of the results of a case whose floating operands have `dtype`; or the class of the error."""

    def convert(array: np.ndarray) -> jit.Tensor:
        made = jit.from_numpy(array)
        return made.to(kind, dtype if is_cast(made.dtype) else made.dtype)

    args, kwargs = case.arguments(convert)
    try:
        with jit.autocast(kind, enabled=region):
            results = case.call(*args, function=getattr(F, case.op.schema.name), **kwargs)
    except (jit.Error, NotImplementedError) as error:
        return type(error).__name__
    return " ".join(result.dtype.name for result in results)


CASES = {case.id: case for op in REGISTRY.values() for case in all_cases(op)}


@pytest.mark.filterwarnings("ignore:.*runs on the CPU")
def test_operators_compute_as_in_pytorch(kind: str) -> None:
    rows = [row for row in TABLE if row[0] == kind and row[2] not in OTHERWISE]
    assert len(rows) > 60
    found = {row: dtypes_of(CASES[row[2]], kind, getattr(jit, row[1]), True) for row in rows}
    assert {row: dtypes for row, dtypes in found.items() if dtypes != row[3]} == {}


@pytest.mark.filterwarnings("ignore:.*runs on the CPU")
def test_others_compute_in_what_they_are_given(kind: str) -> None:
    listed = {(row[1], CASES[row[2]].op) for row in TABLE if row[0] == kind}
    changed = []
    for op in REGISTRY.values():
        for case in all_cases(op)[:1] if op.name not in UNASKED else ():
            for dtype in (jit.float32, DEFAULTS[kind]):
                given = dtypes_of(case, kind, dtype, False)
                if (dtype.name, op) not in listed and dtypes_of(case, kind, dtype, True) != given:
                    changed.append((case.id, dtype.name))
    assert [each for each in changed if each[0] not in OTHERWISE] == []


# -- regions -------------------------------------------------------------------------------------------------------


def product_of(*dtypes: jit.dtype) -> jit.dtype:
    left, right = (jit.ones(2, 2, dtype=dtype) for dtype in dtypes)
    return (left @ right).dtype


def test_regions_nest_and_end() -> None:
    with jit.autocast("cpu"):
        assert product_of(jit.float32, jit.float32) is jit.bfloat16
        with jit.autocast("cpu", dtype=jit.float16):
            assert product_of(jit.float32, jit.bfloat16) is jit.float16
            assert jit.get_autocast_dtype("cpu") is jit.float16
            with jit.autocast("cpu", enabled=False):
                assert product_of(jit.float32, jit.float32) is jit.float32
                assert not jit.is_autocast_enabled("cpu")
        assert product_of(jit.float32, jit.float32) is jit.bfloat16
        with pytest.raises(ZeroDivisionError), jit.autocast("cpu", enabled=False):
            raise ZeroDivisionError
        assert jit.is_autocast_enabled("cpu") and not jit.is_autocast_enabled()
    assert product_of(jit.float32, jit.float32) is jit.float32


def test_it_decorates_functions_generators_and_coroutines() -> None:
    @jit.autocast("cpu")
    def function() -> jit.dtype:
        return product_of(jit.float32, jit.float32)

    @jit.autocast("cpu")
    def generator() -> Any:
        yield product_of(jit.float32, jit.float32)

    @jit.autocast("cpu")
    async def coroutine() -> jit.dtype:
        return product_of(jit.float32, jit.float32)

    assert [function(), *generator(), asyncio.run(coroutine())] == [jit.bfloat16] * 3
    assert not jit.is_autocast_enabled("cpu")


def test_float64_integers_and_other_devices_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_CUDA", "simulate")
    with jit.autocast("cpu"):
        assert product_of(jit.float64, jit.float64) is jit.float64
        assert product_of(jit.int64, jit.int64) is jit.int64
        there = jit.ones(2, 2, device="cuda")
        assert (there @ there).dtype is jit.float32
        with jit.autocast("cuda"):
            assert (there @ there).dtype is jit.float16
            assert product_of(jit.float32, jit.float32) is jit.bfloat16
            assert there.exp().dtype is jit.float32 and there.half().exp().dtype is jit.float32


def test_what_writes_into_a_tensor_casts_nothing() -> None:
    x, out = jit.ones(2, 2), jit.zeros(2, 2)
    with jit.autocast("cpu"):
        jit.mm(x, x, out=out)
        assert x.clone().addmm_(x, x).dtype is jit.float32
    assert out.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_dtype_that_is_asked_for_is_that_of_the_result() -> None:
    with jit.autocast("cpu"):
        assert jit.prod(jit.ones(2, dtype=jit.bfloat16)).dtype is jit.float32
        assert jit.prod(jit.ones(2, dtype=jit.bfloat16), dtype=jit.bfloat16).dtype is jit.bfloat16


def test_binary_cross_entropy_is_refused_on_gpus_and_computed_in_float32_on_cpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JIT_CUDA", "simulate")
    x = jit.full((2,), 0.5)
    with jit.autocast("cpu"):
        assert nn.functional.binary_cross_entropy(x.bfloat16(), x.bfloat16()).dtype is jit.float32
    with jit.autocast("cuda"):
        with pytest.raises(jit.DTypeError, match="binary_cross_entropy_with_logits"):
            nn.functional.binary_cross_entropy(x.cuda(), x.cuda())
        with jit.autocast("cuda", enabled=False):
            nn.functional.binary_cross_entropy(x.cuda(), x.cuda())


def test_impossible_regions_warn_and_stay_off() -> None:
    with pytest.warns(UserWarning, match="float64"), jit.autocast("cpu", dtype=jit.float64):
        assert not jit.is_autocast_enabled("cpu")
    if not jit.cuda.is_available():
        with pytest.warns(UserWarning, match="GPU"), jit.cuda.amp.autocast():
            assert not jit.is_autocast_enabled("cuda")
    with pytest.raises(jit.UsageError, match="no autocast for 'mps'"):
        jit.autocast("mps")


# -- derivatives and kept casts ------------------------------------------------------------------------------------


def test_gradients_have_the_dtype_of_what_they_belong_to() -> None:
    layer, x = nn.Linear(3, 2), jit.ones(4, 3, requires_grad=True)
    with jit.autocast("cpu"):
        (layer(x).tanh() ** 2).mean().backward()
    assert {t.grad.dtype for t in (x, layer.weight, layer.bias)} == {jit.float32}
    wanted = jit.grad((layer(x).tanh() ** 2).mean(), x)[0]
    assert np.allclose(x.grad.numpy(), wanted.numpy(), rtol=0.1, atol=0.01)


def test_second_derivatives() -> None:
    x = jit.tensor([[0.5, -0.25]], requires_grad=True)
    with jit.autocast("cpu"):
        (first,) = jit.grad((x @ x.T).sum() ** 2, x, create_graph=True)
        (second,) = jit.grad(first.sum(), x)
    assert (first.dtype, second.dtype) == (jit.float32, jit.float32)
    square, total = 0.5**2 + 0.25**2, 0.25  # of x, and the sum of x
    assert np.allclose(second.numpy(), [[4 * square + 8 * v * total for v in (0.5, -0.25)]], rtol=0.02)


def casts_of(weight: jit.Tensor, run: Any) -> int:
    """How often `run` casts a tensor: the edges that lead to it."""
    found, seen = [(run().grad_fn)], set()
    count = 0
    while found:
        node = found.pop()
        if node in seen:
            continue
        seen.add(node)
        count += any(getattr(inner, "variable", None) is weight for inner, _ in node.next_functions)
        found += [inner for inner, _ in node.next_functions if inner is not None]
    return count


def test_a_weight_is_cast_once_in_a_region() -> None:
    weight, x = jit.ones(2, 2, requires_grad=True), jit.ones(2, 2)

    def run(**options: Any) -> jit.Tensor:
        with jit.autocast("cpu", **options):
            return x @ weight + x @ weight

    assert casts_of(weight, run) == 1
    assert casts_of(weight, lambda: run(cache_enabled=False)) == 2


def test_two_backwards_in_a_region_share_a_cast() -> None:
    layer = nn.Linear(2, 1)
    with jit.autocast("cpu"):
        layer(jit.ones(1, 2)).sum().backward()
        layer(jit.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0]]


def test_a_cast_is_made_anew_after_a_write_and_for_gradients() -> None:
    weight, x = jit.ones(1, 1, requires_grad=True), jit.ones(1, 1)
    with jit.autocast("cpu"):
        with jit.no_grad():
            assert (x @ weight).item() == 1
        assert (x @ weight).requires_grad
        with jit.no_grad():
            weight.mul_(3)
        assert (x @ weight).item() == 3


def test_checkpoints_compute_in_their_region_again() -> None:
    layer, x = nn.Linear(2, 2), jit.ones(3, 2)
    with jit.autocast("cpu"):
        before = layer(x)
        after = jit.checkpoint(lambda x: layer(x).tanh(), x)
    (before.sum() + after.sum()).backward()
    found: Any = layer.weight.grad
    layer.weight.grad = None
    with jit.autocast("cpu"):
        (layer(x).sum() + layer(x).tanh().sum()).backward()
    wanted: Any = layer.weight.grad
    assert after.dtype is jit.bfloat16 and np.allclose(found.numpy(), wanted.numpy(), rtol=0.02)


# -- functions of users --------------------------------------------------------------------------------------------


def test_functions_of_users_know_their_region() -> None:
    seen = []

    class Product(jit.autograd.Function):
        @staticmethod
        @jit.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @jit.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            seen.append((g @ y.T).dtype)
            return g @ y.T, x.T @ g

    x, y = (jit.ones(2, 2, requires_grad=True) for _ in range(2))
    with jit.autocast("cpu", dtype=jit.float16):
        result = Product.apply(x, y)
    result.sum().backward()
    assert (result.dtype, seen, x.grad.dtype) == (jit.float16, [jit.float16], jit.float32)
    Product.apply(x, y).sum().backward()
    assert seen[1:] == [jit.float32]


def test_inputs_of_functions_of_users_are_cast_in_a_region_alone() -> None:
    class Identity(jit.autograd.Function):
        @staticmethod
        @jit.amp.custom_fwd(device_type="cpu", cast_inputs=jit.float32)
        def forward(ctx: Any, x: Any) -> Any:
            assert not jit.is_autocast_enabled("cpu")
            return x * 1

        @staticmethod
        @jit.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = jit.ones(2, dtype=jit.bfloat16)
    assert Identity.apply(x).dtype is jit.bfloat16
    with jit.autocast("cpu"):
        assert Identity.apply(x).dtype is jit.float32


def test_functions_that_are_made_of_operators_compute_in_one_precision() -> None:
    x = jit.ones(3, 4, dtype=jit.bfloat16, requires_grad=True)
    with jit.autocast("cpu"):
        loss = nn.functional.triplet_margin_loss(x, x, -x)
        assert nn.functional.margin_ranking_loss(x, x, -x, margin=0.5, reduction="none").dtype is jit.float32
    assert loss.dtype is jit.float32 and nn.functional.triplet_margin_loss(x, x, -x).dtype is jit.bfloat16
    loss.backward()
    assert x.grad.dtype is jit.bfloat16
