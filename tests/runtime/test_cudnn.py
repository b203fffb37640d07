"""cuDNN on the simulated device: what stands for its package records the graphs that are built, and computes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.eager import namespace
from jit.ir.errors import AcceleratorError
from jit.runtime.cuda import cudnn_library, launching, simulated
from tests.runtime.cudnn_stand_in import StandInForCudnn
from tests.runtime.interpreting_driver import InterpretingDriver
from tests.tolerances import assert_close

ROUNDING = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The simulated device, without a driver for kernels of this package."""
    monkeypatch.setenv("JIT_CUDA", "simulate")
    launching.use(launching.NoDriver())
    yield
    cudnn_library.use(None)


def with_cudnn(**options: Any) -> StandInForCudnn:
    library = StandInForCudnn(**options)
    cudnn_library.use(library)
    return library


@pytest.fixture
def library() -> StandInForCudnn:
    return with_cudnn()


def methods(library: StandInForCudnn) -> list[str]:
    """The graphs that have run since this was last asked."""
    found = [graph.method for graph in library.runs]
    library.runs.clear()
    return found


def drawn(rng: Any, *sizes: int, dtype: str) -> jit.Tensor:
    return jit.from_numpy(rng.standard_normal(sizes)).to(getattr(jit, dtype))


def on_both(function: Any, tensors: list[jit.Tensor]) -> tuple[list[Any], list[Any]]:
    """A function's result and gradients on the device, and in float64 on the CPU."""
    found, wanted = (_with_gradients(function, [place(t) for t in tensors]) for place in (_there, _exactly))
    return found, wanted


def _there(tensor: jit.Tensor) -> jit.Tensor:
    return tensor.to("cuda")


def _exactly(tensor: jit.Tensor) -> jit.Tensor:
    return tensor.double()


def _with_gradients(function: Any, tensors: list[jit.Tensor]) -> list[Any]:
    for tensor in tensors:
        tensor.requires_grad_()
    out = function(*tensors)
    grad = jit.cos(jit.arange(out.numel()).reshape(out.shape).double()).bfloat16()
    out.backward(grad.to(out.dtype).to(out.device))
    return [out.detach(), *(tensor.grad for tensor in tensors)]


def agree(pairs: tuple[list[Any], list[Any]], dtype: str) -> None:
    for found, wanted in zip(*pairs, strict=True):
        assert found.is_cuda and str(found.dtype) == f"jit.{dtype}" and found.is_contiguous()
        largest = float(wanted.abs().max()) or 1.0
        assert_close(found.cpu().double(), wanted, rtol=0, atol=ROUNDING[dtype] * largest)


# -- convolutions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_convolutions_and_gradients(seed: int, dtype: str, library: StandInForCudnn) -> None:
    rng = np.random.default_rng(seed)
    spatial, groups, transposed = 1 + seed % 3, int(rng.integers(1, 4)), bool(seed // 3 % 2)
    stride, padding, dilation = (int(n) for n in (rng.integers(1, 4), rng.integers(0, 3), rng.integers(1, 3)))
    taps = [int(n) for n in rng.integers(1, 4, spatial)]
    image = [int(n) for n in rng.integers(6, 11, spatial)]
    channels, filters = 2 * groups, 3 * groups
    weight = (channels, 3, *taps) if transposed else (filters, 2, *taps)
    extra = {"output_padding": int(rng.integers(0, stride))} if transposed else {}
    padding = min(padding, dilation * (min(taps) - 1)) if transposed else padding
    name = f"conv_transpose{spatial}d" if transposed else f"conv{spatial}d"
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups} | extra
    tensors = [drawn(rng, 2, channels, *image, dtype=dtype), drawn(rng, *weight, dtype=dtype)]
    tensors += [drawn(rng, filters, dtype=dtype)] if seed % 2 else []
    agree(on_both(lambda *given: getattr(F, name)(*given, **options), tensors), dtype)
    assert methods(library) == (
        ["conv_dgrad", "conv_fprop", "conv_wgrad"] if transposed else ["conv_fprop", "conv_dgrad", "conv_wgrad"]
    )


def test_channels_last_is_passed_as_it_lies(library: StandInForCudnn) -> None:
    x = drawn(np.random.default_rng(0), 2, 8, 6, 5, dtype="float16")
    weight = drawn(np.random.default_rng(1), 4, 8, 3, 3, dtype="float16")
    last = x.to("cuda").contiguous(memory_format=jit.channels_last)
    found = F.conv2d(last, weight.to("cuda"))
    (graph,) = library.runs
    assert all(tensor.is_last() for tensor in (*graph.inputs.values(), *graph.outputs)) and found.is_contiguous()
    assert_close(found.cpu().double(), F.conv2d(x.double(), weight.double()), rtol=0, atol=0.02)


def misaligned(x: jit.Tensor) -> jit.Tensor:
    return jit.zeros(x.numel() + 1, device="cuda")[1:].copy_(x.reshape(-1)).reshape(x.shape)


LYING: dict[str, Any] = {
    "turned": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "every second": lambda x: jit.stack([x, x], -1)[..., 0],
    "misaligned": misaligned,
}
"""Images of the same elements that lie as cuDNN does not take them."""


@pytest.mark.parametrize("name", LYING)
def test_images_that_lie_otherwise_are_copied(name: str, library: StandInForCudnn) -> None:
    x, weight = (drawn(np.random.default_rng(5), *s, dtype="float32") for s in ((2, 4, 6, 6), (3, 4, 3, 3)))
    found = F.conv2d(LYING[name](x.to("cuda")), weight.to("cuda"))
    assert_close(found.cpu(), F.conv2d(x, weight), rtol=1e-5, atol=1e-5)
    assert methods(library) == ["conv_fprop"]


def test_a_gradient_that_is_spread_from_one_number(library: StandInForCudnn) -> None:
    x, weight = (drawn(np.random.default_rng(5), *s, dtype="float32") for s in ((2, 4, 6, 6), (3, 4, 3, 3)))
    found, wanted = list[jit.Tensor](), list[jit.Tensor]()
    for place, there in (("cuda", found), ("cpu", wanted)):
        one, two = (t.detach().to(place).requires_grad_() for t in (x, weight))
        F.conv2d(one, two).sum().backward()
        there += [one.grad.cpu(), two.grad.cpu()]
    for one, two in zip(found, wanted, strict=True):
        assert_close(one, two, rtol=1e-5, atol=1e-4)
    assert methods(library) == ["conv_fprop", "conv_dgrad", "conv_wgrad"]


def test_float64_is_not_asked_of_cudnn(library: StandInForCudnn) -> None:
    x, weight = (drawn(np.random.default_rng(5), *s, dtype="float64") for s in ((2, 4, 6, 6), (3, 4, 3, 3)))
    assert_close(F.conv2d(x.to("cuda"), weight.to("cuda")).cpu(), F.conv2d(x, weight), rtol=1e-12, atol=1e-12)
    assert not library.runs


# -- choices -----------------------------------------------------------------------------------------------------


def convolve(dtype: str = "float32") -> jit.Tensor:
    image, weight = (jit.ones(*s, device="cuda", dtype=getattr(jit, dtype)) for s in ((1, 2, 4, 4), (2, 2, 3, 3)))
    return F.conv2d(image, weight)


def barred(library: StandInForCudnn) -> set[str]:
    return set(library.runs[-1].barred)


def test_float32_is_rounded_only_if_the_program_says_so(library: StandInForCudnn) -> None:
    convolve()
    assert {"TENSOR_CORE", "DOWN_CONVERT_INPUTS"} <= barred(library)
    with jit.backends.cudnn.flags(allow_tf32=True):
        convolve()
        assert not {"TENSOR_CORE", "DOWN_CONVERT_INPUTS"} & barred(library)
    convolve()
    assert "TENSOR_CORE" in barred(library)
    convolve("float16")
    assert "TENSOR_CORE" not in barred(library)


def test_the_same_bits_from_run_to_run(library: StandInForCudnn) -> None:
    convolve()
    assert "NONDETERMINISTIC" not in barred(library)
    with jit.backends.cudnn.flags(deterministic=True):
        convolve()
    assert "NONDETERMINISTIC" in barred(library)


def test_it_can_be_switched_off(library: StandInForCudnn) -> None:
    assert jit.backends.cudnn.enabled and not jit.backends.cudnn.allow_tf32
    with jit.backends.cudnn.flags(enabled=False):
        convolve()
    assert not library.runs
    convolve()
    assert methods(library) == ["conv_fprop"]


def test_programs_can_ask_for_it(library: StandInForCudnn) -> None:
    jit.zeros(1, device="cuda")
    assert jit.backends.cudnn.is_available() and jit.backends.cudnn.version() == 91400
    cudnn_library.use(None)
    assert not jit.backends.cudnn.is_available() and jit.backends.cudnn.version() is None


def test_a_variable_of_the_environment_does_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cudnn", with_cudnn())
    for value, is_there in (("0", False), ("1", True)):
        monkeypatch.setenv("JIT_CUDNN", value)
        cudnn_library.installed.cache_clear()
        assert (cudnn_library.installed() is not None) is is_there
    cudnn_library.installed.cache_clear()


def test_a_package_without_its_library_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    library = with_cudnn()

    def fails() -> Any:
        raise RuntimeError("Unable to find symbol cudnnCreate")

    monkeypatch.setattr(library, "create_handle", fails)
    monkeypatch.setitem(sys.modules, "cudnn", library)
    cudnn_library.installed.cache_clear()
    assert cudnn_library.installed() is None
    cudnn_library.installed.cache_clear()


# -- what cuDNN refuses ------------------------------------------------------------------------------------------


@pytest.fixture
def driver(device: None) -> Iterator[Any]:
    made = InterpretingDriver()
    launching.use(made)
    yield made
    launching.use(launching.NoDriver())


@pytest.mark.llvm
@pytest.mark.parametrize("refused", ["conv_fprop", "conv_dgrad", "conv_wgrad"])
def test_a_part_that_is_refused_is_a_kernel_of_ours(refused: str, driver: Any) -> None:
    library, rng = with_cudnn(refuses=(refused,)), np.random.default_rng(4)
    for _ in range(2):
        tensors = [drawn(rng, *sizes, dtype="float32") for sizes in ((2, 3, 6, 6), (4, 3, 3, 3))]
        agree(on_both(lambda x, w: F.conv2d(x, w, padding=1), tensors), "float32")
        assert methods(library) == [m for m in ("conv_fprop", "conv_dgrad", "conv_wgrad") if m != refused]
    assert len([graph for graph in library.graphs if graph.method == refused]) == 1
    assert driver.launches


@pytest.mark.llvm
def test_no_group_is_part_of_a_convolution_of_cudnn(driver: Any) -> None:
    x, weight = (drawn(np.random.default_rng(5), *s, dtype="float32").to("cuda") for s in ((2, 4, 6, 6), (3, 4, 3, 3)))
    wanted = (F.conv2d(x.cpu(), weight.cpu()).relu() * 2).numpy()
    for library, runs in ((None, 0), (with_cudnn(), 1)):
        cudnn_library.use(library)
        traced = jit.trace(lambda x: F.conv2d(x, weight).relu() * 2)
        for _ in range(2):
            driver.launches.clear()
            found = traced(x)
        assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-5)
        assert len(driver.launches) == 1
        if library is not None:
            assert methods(library)[-runs:] == ["conv_fprop"] and "convolution" not in "".join(driver.launches)


def test_a_run_that_fails_says_so() -> None:
    with_cudnn(fails=True)
    with pytest.raises(AcceleratorError, match=r"CUDNN_STATUS_EXECUTION_FAILED\).*JIT_CUDNN=0"):
        convolve()


def test_arguments_that_do_not_fit_are_told_as_ever(library: StandInForCudnn) -> None:
    with pytest.raises(jit.ShapeError):
        F.conv2d(jit.ones(1, 2, 4, 4).to("cuda"), jit.ones(2, 3, 3, 3).to("cuda"))
    assert not library.graphs


# -- graphs, handles and streams ---------------------------------------------------------------------------------


def test_a_graph_is_built_once_for_each_layout(library: StandInForCudnn) -> None:
    for _ in range(3):
        convolve()
    assert len(library.graphs) == 1 and len(library.runs) == 3
    convolve("float16")
    assert len(library.graphs) == 2


def test_work_is_queued_on_the_current_stream(library: StandInForCudnn) -> None:
    convolve()
    stream = simulated.Queue()
    with stream:
        convolve()
        convolve()
    convolve()
    assert library.streams == [0, stream.ptr, 0]


def test_each_thread_has_a_handle_of_its_own(library: StandInForCudnn) -> None:
    wrong: list[Any] = []

    def work(start: threading.Barrier) -> None:
        for _ in range(5):
            start.wait()
            if not (convolve() == 18).all():
                wrong.append(threading.get_ident())

    for _ in range(2):
        start = threading.Barrier(3)
        workers = [threading.Thread(target=work, args=(start,)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not wrong and len(library.runs) == 30
    assert len(library.handles) == 3  # those of threads that have ended serve others


class QuickGraph:
    """A graph of newer packages, in which addresses are handed to a function of C++."""

    selected_engine = None
    _plan_index = 0

    def __init__(self, uids: list[int]) -> None:
        self._uids, self.seen = uids, list[Any]()
        self._plans = [type("Plan", (), {"cpp_index": 4})]
        self._lowered_graph = self

    def _variant_pack_uids(self) -> list[int]:
        return self._uids

    def get_workspace_size(self) -> int:
        return 0

    def _execute_with_raw_ptrs(self, place: int, count: int, workspace: int, handle: int, plan: int) -> None:
        import ctypes

        self.seen.append(([*(ctypes.c_uint64 * count).from_address(place)], workspace, handle, plan))

    def execute(self, addresses: dict[int, int], workspace: int, *, handle: Any) -> None:
        self.seen.append((addresses, workspace, handle.backend_handle))


class QuickHandle:
    backend_handle = 77


def test_the_shortcut_is_taken_where_it_is_as_known() -> None:
    graph = QuickGraph([1, 2, 3])
    built = cudnn_library.BuiltGraph(graph)
    built.run([16, 32, 48], 64, QuickHandle)
    built.run([80, 32, 1 << 47], 0, QuickHandle)
    assert graph.seen == [([16, 32, 48], 64, 77, 4), ([80, 32, 1 << 47], 0, 77, 4)]


def test_otherwise_execute_is_called() -> None:
    graph = QuickGraph([1, 3])
    cudnn_library.BuiltGraph(graph).run([16, 32, 48], 64, QuickHandle)
    assert graph.seen == [({1: 16, 2: 32, 3: 48}, 64, 77)]


# -- attention ---------------------------------------------------------------------------------------------------


def attend(causal: bool, **options: Any) -> Any:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, **options)


@pytest.mark.parametrize("batch", [(3,), (2, 3)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_and_gradients(batch: tuple[int, ...], causal: bool, dtype: str, library: StandInForCudnn) -> None:
    rng = np.random.default_rng(len(batch))
    sizes = [(*batch, 9, 16), (*batch, 11, 16), (*batch, 11, 8)]
    tensors = [drawn(rng, *size, dtype=dtype) for size in sizes]
    agree(on_both(attend(causal, scale=0.3), tensors), dtype)
    assert methods(library) == ["sdpa", "sdpa_backward"]


def test_heads_that_were_split_off_are_passed_as_they_lie(library: StandInForCudnn) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (drawn(rng, 2, 9, 3, 16, dtype="float16").to("cuda").transpose(1, 2) for _ in range(3))
    found = attend(False)(q, k, v)
    wanted = attend(False)(*(t.cpu().double() for t in (q, k, v)))
    assert_close(found.cpu().double(), wanted, rtol=0, atol=4e-3)
    assert library.runs[0].inputs["q"].stride == [9 * 48, 16, 48, 1]


def test_columns_that_do_not_lie_side_by_side_are_copied(library: StandInForCudnn) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (drawn(rng, 2, 3, 16, 8, dtype="float16").to("cuda").transpose(-1, -2) for _ in range(3))
    found, wanted = attend(False)(q, k, v), attend(False)(*(t.cpu().double() for t in (q, k, v)))
    assert_close(found.cpu().double(), wanted, rtol=0, atol=4e-3)
    assert methods(library) == ["sdpa"]


@pytest.mark.parametrize("name", ["mask", "float32", "columns"])
def test_what_cudnn_is_not_asked_or_refuses(name: str, library: StandInForCudnn) -> None:
    rng = np.random.default_rng(3)
    dtype = "float32" if name == "float32" else "float16"
    q, k, v = (drawn(rng, 2, 3, 9, 12 if name == "columns" else 16, dtype=dtype) for _ in range(3))
    mask = {"attn_mask": jit.ones(9, 9, dtype=jit.bool).tril()} if name == "mask" else {}
    there = {key: value.to("cuda") for key, value in mask.items()}
    found = attend(False, **there)(*(t.to("cuda") for t in (q, k, v)))
    wanted = attend(False, **mask)(*(t.double() for t in (q, k, v)))
    assert_close(found.cpu().double(), wanted, rtol=0, atol=4e-3)
    assert not library.runs


@pytest.mark.llvm
@pytest.mark.parametrize("refused", ["sdpa", "sdpa_backward"])
def test_either_half_may_be_a_kernel_of_ours(refused: str, driver: Any) -> None:
    library, rng = with_cudnn(refuses=(refused,)), np.random.default_rng(8)
    tensors = [drawn(rng, 2, 9, 16, dtype="float16") for _ in range(3)]
    agree(on_both(attend(True), tensors), "float16")
    assert methods(library) == [m for m in ("sdpa", "sdpa_backward") if m != refused] and driver.launches


def test_the_gradient_of_the_logsumexp_reaches_it(library: StandInForCudnn) -> None:
    """`rowsum` is no longer that of the result then: see Note [The result that only D reads]."""
    rng = np.random.default_rng(9)
    shape = (2, 3, 9, 16)
    q, k, v, g = (drawn(rng, *shape, dtype="float16") for _ in range(4))
    rowsum = drawn(rng, *shape[:-1], dtype="float32")
    logsumexp = jit.logsumexp(0.25 * q.double() @ k.double().transpose(-1, -2), -1).float()
    found, wanted = (backward(place, (g, q, k, v), (logsumexp, rowsum)) for place in (_there, _exactly))
    for one, two in zip(found[:2], wanted[:2], strict=True):
        assert_close(one.cpu().double(), two, rtol=0, atol=4e-3 * float(two.abs().max()))
    assert methods(library) == ["sdpa_backward"]


def backward(place: Any, factors: Any, sums: Any) -> Any:
    arrays = [*map(place, factors), *map(place, sums)]
    return namespace.F._attend_backward(*arrays, None, False, 0.25, [True, True, False])
