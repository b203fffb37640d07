"""Tensors on a GPU, on the simulated device: every operator and derivative, copies, errors and `jit.cuda`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jit
from jit import cuda
from jit.ir.op import REGISTRY, Op
from jit.runtime.cuda import devices, simulated
from tests.registry_cases import Case, all_cases, floats, weights_for
from tests.tolerances import as_array, assert_close, widened

ON_HOST = {
    "linalg_lu_factor_ex", "linalg_cholesky_ex", "linalg_solve_triangular", "_linalg_solve", "special_airy_ai",
    *(f"special_{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    "special_hermite_polynomial_h", "special_hermite_polynomial_he", "special_laguerre_polynomial_l",
    "special_legendre_polynomial_p", "binomial", "poisson",
}  # fmt: skip
"""The operators that go to the CPU and back."""

pytestmark = pytest.mark.usefixtures("gpu")

# -- every operator ------------------------------------------------------------------------------------------------


SIGNS_ARE_FREE = {"linalg_qr", "qr", "linalg_eigh", "linalg_eig", "linalg_svd", "svd"}
"""The operators whose vectors are determined up to signs or phases, which two libraries may choose otherwise."""
SUMMING = {"sum_of_products", "_convolution", "_lstm_layer", "_gru_layer", "_rnn_layer"}
"""Operators of long sums, besides composites and those that kernels know as products."""
SUMMED, HALVES = 1e-5, 2e-3
"""How far such sums may be off where terms are added in another order, as parts of the largest element."""


def on_cpu(array: np.ndarray) -> jit.Tensor:
    return jit.from_numpy(array)


def on_gpu(array: np.ndarray) -> jit.Tensor:
    return on_cpu(array).to("cuda")


def without_denormals(convert: Any) -> Any:
    """`convert` after the float32 denormals, which a GPU takes for 0, have become another number."""

    def changed(array: np.ndarray) -> Any:
        if array.dtype in (np.float32, np.complex64, jit.bfloat16.numpy):
            array[(abs(array) < np.finfo(np.float32).tiny) & (array != 0)] = 0.5
        return convert(array)

    return changed


def outcome(case: Case, convert: Any, with_gradients: bool = True, **options: Any) -> Any:
    """The results of a case and its gradients; or the error."""
    args, kwargs = case.arguments(convert)
    wanted = floats(case.op, args, kwargs) if with_gradients and "grad" not in case.op.missing else []
    for tensor in wanted:
        tensor.requires_grad_()
    try:
        results = case.call(*args, **kwargs, **options)
        roots = [r for r in results if r.requires_grad]
        weights = [w.to(r.device) for w, r in zip(weights_for(roots), roots, strict=True)]
        return results, jit.grad(roots, wanted, weights, allow_unused=True) if roots and wanted else []
    except (jit.Error, NotImplementedError) as error:
        return error


def same(found: Any, wanted: Any, is_sum: bool, is_free: bool) -> None:
    """Fail unless a tensor of the GPU is that of the CPU, or both are None."""
    assert (found is None) == (wanted is None)
    if found is None:
        return
    assert found.device == jit.device("cuda", 0)
    pair = found.detach().cpu(), wanted.detach()
    if is_free:
        pair = pair[0].abs(), pair[1].abs()
    assert_close(*pair, rtol=1e-5, atol=max(1e-6, part_of_largest(pair[1]) if is_sum else 0))


def part_of_largest(wanted: jit.Tensor) -> float:
    finite = [abs(x) for x in widened(as_array(wanted)).reshape(-1) if np.isfinite(x)]
    part = HALVES if wanted.is_floating_point() and wanted.dtype.itemsize == 2 else SUMMED
    return part * max(finite, default=0.0)


def is_of_sums(op: Op) -> bool:
    return op.kind == "composite" or op.kernel.step in devices.PRODUCTS or op.schema.name in SUMMING


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_operator(op: Op, gpu: str) -> None:
    """The same results and gradients as on the CPU; on a real GPU up to what its arithmetic leaves open."""
    is_real, options = gpu == "real", {}
    if "device" in op.schema.argument_names and not op.tensors:
        options["device"] = "cuda"
    given, is_sum = without_denormals if is_real else lambda convert: convert, is_real and is_of_sums(op)
    is_free = is_real and op.schema.name in SIGNS_ARE_FREE
    for case in all_cases(op):
        wanted = outcome(case, given(on_cpu), not is_free)
        found = outcome(case, given(on_gpu), not is_free, **options)
        if isinstance(found, Exception) and not isinstance(wanted, Exception):
            raise found
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted), (found, wanted)
            continue
        for group, other in zip(found, wanted, strict=True):
            for one, two in zip(group, other, strict=True):
                same(one, two, is_sum, is_free)


def test_powers_to_a_half_are_roots_as_on_the_cpu() -> None:
    """To a number, that is; see Note [Roots]."""
    x = jit.tensor([-math.inf, -0.0, 4.0])
    for half in (0.5, -0.5, jit.tensor(0.5)):
        other = half.to("cuda") if isinstance(half, jit.Tensor) else half
        here, there = x.cuda().pow(other).cpu().numpy(), x.pow(half).numpy()
        np.testing.assert_array_equal(here, there)
        np.testing.assert_array_equal(np.signbit(here[1:]), np.signbit(there[1:]))


def test_few_operators_go_to_the_cpu_and_back() -> None:
    """Besides those that exchange tensors with other processes, which travel through the memory of the CPU."""
    there = {op.name for op in REGISTRY.values() if op.runs_on_host and not op.communicates}
    assert there == {f"aten::{name}" for name in ON_HOST}


def test_leaving_the_gpu_is_said_once_per_operator() -> None:
    cuda._warn_of_transfer.cache_clear()
    solve = jit.trace(lambda a, b: jit.linalg.solve(a, b) * 2)
    a, b = jit.eye(2, device="cuda"), jit.ones(2, device="cuda")
    with pytest.warns(UserWarning, match=r"^_linalg_solve runs on the CPU.*\.cpu\(\) before") as said:
        for _ in range(3):
            assert solve(a, b).is_cuda and jit.linalg.solve(a, b).is_cuda
        jit.linalg.solve(a.cpu(), b.cpu())
    assert len(said) == 1 and said[0].filename == __file__
    with pytest.warns(UserWarning, match="^special_airy_ai runs on the CPU"):
        jit.special.airy_ai(b)


# -- tensors -------------------------------------------------------------------------------------------------------


def test_a_tensor_knows_its_device(gpu: str) -> None:
    x = jit.ones(2, 3, device="cuda")
    assert x.device == jit.device("cuda", 0) == "cuda:0" == str(x.device)
    assert repr(x[0]) == "tensor([1., 1., 1.], device='cuda:0')"
    assert x.is_cuda and not x.is_cpu and x.get_device() == 0
    assert all(
        t.device == x.device for t in (x + 1, x[0], x.t(), x.new_zeros(2), jit.zeros_like(x), x.sum(), x.detach())
    )
    assert x.to("cuda") is x and x.cuda() is x and x.cpu().is_cpu and x.cpu().cpu().device.type == "cpu"
    assert x.type_as(jit.ones(2)).is_cpu and jit.ones(2).to(x).is_cuda


def test_elements_come_back() -> None:
    x = jit.tensor([[1.5, -2], [3, 4]], device="cuda")
    assert x.tolist() == [[1.5, -2], [3, 4]] and x[0, 1].item() == -2 and bool((x > -3).all()) and float(x.sum()) == 6.5
    assert (
        str(x) == str(x.cpu())[:-1] + ", device='cuda:0')" and len(x) == 2 and [row.tolist() for row in x] == x.tolist()
    )


def test_numpy_needs_a_copy() -> None:
    x = jit.ones(2, device="cuda")
    for read in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"use t\.cpu\(\)\.numpy\(\)") as raised:
            read()
        assert isinstance(raised.value, jit.Error)


@pytest.mark.parametrize(
    "mixed",
    [
        lambda a, b: a + b, lambda a, b: b @ a, lambda a, b: jit.cat([a, b]), lambda a, b: jit.where(a > 0, a, b),
        lambda a, b: jit.nn.functional.linear(a, b), lambda a, b: a.add_(b),
        lambda a, b: a.index_select(0, b.long()[0]),
    ],
)  # fmt: skip
def test_operands_on_two_devices_are_refused(mixed: Any) -> None:
    here, there = jit.ones(2, 2), jit.ones(2, 2, device="cuda")
    with pytest.raises(jit.UsageError, match=r"on 'cuda:0'.*'cpu'|on 'cpu'.*'cuda:0'"):
        mixed(there, here)


def test_numbers_of_the_cpu_and_its_indices_go_everywhere() -> None:
    x = jit.arange(6.0, device="cuda").reshape(2, 3)
    assert (x * jit.tensor(2.0)).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert x[jit.tensor([1, 0])].tolist() == [[3, 4, 5], [0, 1, 2]]
    x[jit.tensor([0])] = 1.0
    assert x[0].tolist() == [1, 1, 1] and x.is_cuda


def test_copies_between_devices_have_a_derivative() -> None:
    x = jit.tensor([1.0, 2.0], requires_grad=True)
    (x.to("cuda") * jit.tensor([3.0, 4.0], device="cuda")).sum().cpu().backward()
    assert x.grad.tolist() == [3, 4] and x.grad.is_cpu
    target = jit.zeros(2, device="cuda")
    target.copy_(jit.tensor([5.0, 6.0]))
    assert target.tolist() == [5, 6] and target.is_cuda


def test_views_share_memory_and_versions() -> None:
    x = jit.arange(6.0, device="cuda").reshape(2, 3)
    row, columns = x[1], x.t()
    row += 10
    assert columns[:, 1].tolist() == [13, 14, 15] and x.storage_offset() == 0 and row.storage_offset() == 3
    y = x.clone().requires_grad_()
    z = (y * y).sum()
    with jit.no_grad():
        y.mul_(2)
    with pytest.raises(jit.AutogradError):
        z.backward()


def test_the_same_random_numbers() -> None:
    for draw, sizes in ((jit.rand, (5,)), (jit.randn, (4, 3)), (jit.randperm, (9,))):
        jit.manual_seed(3)
        here = draw(*sizes)
        jit.manual_seed(3)
        there = draw(*sizes, device="cuda")
        assert there.is_cuda and there.tolist() == here.tolist()


def test_a_default_device() -> None:
    with jit.device("cuda"):
        assert jit.get_default_device() == jit.device("cuda", 0)
        made = [jit.zeros(2), jit.tensor([1]), jit.arange(3), jit.rand(2), jit.eye(2), jit.as_tensor([2.0])]
        assert all(t.is_cuda for t in made) and jit.zeros(2, device="cpu").is_cpu
        assert jit.nn.functional.one_hot(jit.tensor([1], device="cpu")).is_cpu  # it stays where its operands are
    assert jit.zeros(2).is_cpu


# -- jit.cuda ------------------------------------------------------------------------------------------------------


def test_what_there_is(gpu: str) -> None:
    assert jit.cuda.is_available() and jit.cuda.device_count() >= 1 and jit.cuda.current_device() == 0
    assert not jit.cuda.obstacle() and (jit.cuda.get_device_name() == "a simulated GPU") == (gpu == "simulated")
    before = jit.cuda.memory_allocated()
    x = jit.zeros(1000, device="cuda")
    assert jit.cuda.memory_allocated() >= before + x.numel() * 4
    jit.cuda.synchronize()
    with pytest.raises(jit.UsageError, match="there is no device 'cuda:99' here; the last one is 'cuda:"):
        jit.zeros(2, device="cuda:99")


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_count", lambda: "as no GPU can be used")
    assert jit.cuda.device_count() == 0 and jit.cuda.obstacle()
    with pytest.raises(jit.UsageError, match="there is no device 'cuda' here, as"):
        jit.zeros(2, device="cuda")
    with pytest.raises(jit.UsageError, match="there is no device"):
        jit.cuda.synchronize()


# -- the simulated device itself -------------------------------------------------------------------------------------


def test_simulated_arrays_are_not_read_unseen() -> None:
    library = simulated.library()
    x = library.asarray(np.arange(3.0))
    with pytest.raises(TypeError, match="without a transfer"):
        np.asarray(x)
    for mixed in (lambda: x + np.ones(3), lambda: np.add(x, np.ones(3)), lambda: library.where(x > 1, x, np.ones(3))):
        with pytest.raises(TypeError, match="a numpy array among operands"):
            mixed()
    with pytest.raises(AttributeError, match="CuPy has none"):
        library.nditer()
    assert type(x.sum()) is type(x) and x.get().tolist() == [0, 1, 2] and x[1:].data.ptr == x.data.ptr + 8
