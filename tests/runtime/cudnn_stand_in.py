"""What stands for NVIDIA's package `cudnn` on the simulated device: graphs that numpy computes, and refusals."""

from __future__ import annotations

import itertools
import math
import threading
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np

from jit.ir.types import contiguous_strides
from jit.runtime.cuda import simulated

DTYPES = {"HALF": np.float16, "BFLOAT16": ml_dtypes.bfloat16, "FLOAT": np.float32}
STEPS = ("validate", "build_operation_graph", "create_execution_plans", "check_support", "build_plans")
"""The steps of building a graph, in their order."""


class NotSupported(Exception):
    """The error that cuDNN calls cudnnGraphNotSupportedError."""


class Handle:
    """A handle, which no two threads may use at a time."""

    def __init__(self) -> None:
        self.stream: int | None = None
        self.user: int | None = None


class Tensor:
    """A tensor of a graph."""

    def __init__(self, dim: Any = (), stride: Any = (), data_type: Any = None, uid: int = 0) -> None:
        self.dim, self.stride, self.data_type, self.uid = dim, stride, data_type, uid
        self.is_output = False

    def set_output(self, value: bool) -> Tensor:
        self.is_output = value
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("set_"):
            raise AttributeError(name)

        def noted(value: Any) -> Tensor:
            setattr(self, name.removeprefix("set_"), value)
            return self

        return noted

    @property
    def dtype(self) -> Any:
        return np.dtype(DTYPES[self.data_type.name])

    def at(self, address: int) -> Any:
        """The elements at an address."""
        assert address % 16 == 0, "cuDNN would read across the start of an element"
        memory = simulated.memory_at(address)
        assert memory is not None, "memory that was freed, or never was"
        assert all(type(n) is int for n in (*self.dim, *self.stride)) and len(self.dim) == len(self.stride)
        place = simulated.MemoryPointer(memory, address - memory.ptr)
        return place.seen(tuple(self.dim), self.dtype, tuple(s * self.dtype.itemsize for s in self.stride))

    def is_first(self) -> bool:
        """Whether it is row-major."""
        return [*self.stride] == [*contiguous_strides(tuple(self.dim))]

    def is_last(self) -> bool:
        """Whether its channels come last."""
        first, *others, channels = contiguous_strides((self.dim[0], *self.dim[2:], self.dim[1]))
        return [*self.stride] == [first, channels, *others]


class StandInForCudnn:
    """The package.

    Args:
        refuses: Names of methods of graphs that have no plan.
        fails: Whether running a graph fails.
    """

    data_type = Enum("data_type", "FLOAT HALF BFLOAT16 DOUBLE")
    heur_mode = Enum("heur_mode", "A FALLBACK")
    numerical_note = Enum(
        "numerical_note", "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION NONDETERMINISTIC"
    )
    cudnnGraphNotSupportedError = NotSupported  # noqa: N815 - its name

    def __init__(self, refuses: tuple[str, ...] = (), fails: bool = False) -> None:
        self.refuses, self.fails = refuses, fails
        self.graphs: list[Graph] = []
        self.handles: list[Handle] = []
        self.runs: list[Graph] = []
        self.streams: list[int] = []

    def create_handle(self) -> Handle:
        self.handles.append(Handle())
        return self.handles[-1]

    def destroy_handle(self, handle: Handle) -> None:
        self.handles.remove(handle)

    def set_stream(self, *, handle: Handle, stream: int) -> None:
        handle.stream = stream
        self.streams.append(stream)

    def backend_version(self) -> int:
        return 91400

    def pygraph(self, **options: Any) -> Graph:
        self.graphs.append(Graph(self, **options))
        return self.graphs[-1]


class Graph:
    """A graph of one node."""

    def __init__(
        self, library: StandInForCudnn, *, handle: Handle, io_data_type: Any, intermediate_data_type: Any,
        compute_data_type: Any,
    ) -> None:  # fmt: skip
        assert intermediate_data_type.name == compute_data_type.name == "FLOAT"
        self.library, self.handle = library, handle
        self.inputs: dict[str, Tensor] = {}
        self.outputs: list[Tensor] = []
        self.options: dict[str, Any] = {}
        self.method = ""
        self.barred: list[str] = []
        self.done: list[str] = []

    def tensor(self, *, name: str, dim: Any, stride: Any, data_type: Any, uid: int) -> Tensor:
        self.inputs[name] = Tensor(dim, stride, data_type, uid)
        return self.inputs[name]

    def _node(self, method: str, outputs: int, arguments: dict[str, Any]) -> list[Tensor]:
        self.method, self.outputs = method, [Tensor() for _ in range(outputs)]
        named = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
        assert named == self.inputs
        self.options = {name: value for name, value in arguments.items() if name not in named}
        return self.outputs

    def conv_fprop(self, *, image: Tensor, weight: Tensor, padding: Any, stride: Any, dilation: Any) -> Tensor:
        return self._node("conv_fprop", 1, {k: v for k, v in locals().items() if k != "self"})[0]

    def conv_dgrad(self, *, loss: Tensor, filter: Tensor, padding: Any, stride: Any, dilation: Any) -> Tensor:
        return self._node("conv_dgrad", 1, {k: v for k, v in locals().items() if k != "self"})[0]

    def conv_wgrad(self, *, image: Tensor, loss: Tensor, padding: Any, stride: Any, dilation: Any) -> Tensor:
        return self._node("conv_wgrad", 1, {k: v for k, v in locals().items() if k != "self"})[0]

    def sdpa(
        self, *, q: Tensor, k: Tensor, v: Tensor, generate_stats: bool, attn_scale: float,
        diagonal_band_right_bound: int | None = None,
    ) -> list[Tensor]:  # fmt: skip
        return self._node("sdpa", 2, {k: v for k, v in locals().items() if k != "self"})

    def sdpa_backward(
        self, *, q: Tensor, k: Tensor, v: Tensor, o: Tensor, dO: Tensor, stats: Tensor, attn_scale: float,
        diagonal_band_right_bound: int | None = None, use_deterministic_algorithm: bool = False,
    ) -> list[Tensor]:  # fmt: skip
        return self._node("sdpa_backward", 3, {k: v for k, v in locals().items() if k != "self"})

    # -- building ------------------------------------------------------------------------------------------------

    def _step(self, name: str) -> None:
        assert self.done == [*STEPS[: STEPS.index(name)]], f"{name} after {self.done}"
        self.done.append(name)

    def validate(self) -> None:
        self._step("validate")
        tensors = [*self.inputs.values(), *self.outputs]
        assert [t.uid for t in tensors] == [*range(1, len(tensors) + 1)] and all(t.is_output for t in self.outputs)
        if any(len(tensor.dim) < 4 for tensor in tensors):
            raise RuntimeError("[cudnn_frontend] Error: dims are missing\nmore")
        if self.method.startswith("sdpa"):
            for name, tensor in self.inputs.items():
                wrong = tensor.stride[-1] != 1 or tensor.dim[-1] % 8 or tensor.dim[-1] > 128
                if name != "stats" and (wrong or any(s % 8 for s in tensor.stride[:-1])):
                    raise NotSupported("hidden dim is not a multiple of 8")

    def build_operation_graph(self) -> None:
        self._step("build_operation_graph")

    def create_execution_plans(self, modes: Any) -> None:
        self._step("create_execution_plans")
        assert [mode.name for mode in modes] == ["A", "FALLBACK"]
        tensors = [*self.inputs.values(), *self.outputs]
        one_layout = all(t.is_first() for t in tensors) or all(t.is_last() for t in tensors)
        if self.method in self.library.refuses or (self.method.startswith("conv") and not one_layout):
            raise NotSupported("No valid engine configs")

    def deselect_engines(self, names: list[str]) -> None:
        assert self.done == [*STEPS[:3]]

    def deselect_numeric_notes(self, notes: Any) -> None:
        assert self.done == [*STEPS[:3]]
        self.barred += [note.name for note in notes]

    def check_support(self) -> None:
        self._step("check_support")

    def build_plans(self) -> None:
        self._step("build_plans")

    def get_workspace_size(self) -> int:
        assert self.done == [*STEPS]
        return 64 if self.method == "conv_fprop" else 0

    # -- running -------------------------------------------------------------------------------------------------

    def execute(self, addresses: dict[int, int], workspace: int, *, handle: Handle) -> None:
        assert handle is self.handle, "its graph was built for another handle"
        assert handle.user in (None, threading.get_ident()), "two threads use a handle at a time"
        assert handle.stream == simulated.library().cuda.get_current_stream().ptr
        assert [*addresses] == [*range(1, len(self.inputs) + len(self.outputs) + 1)]
        assert bool(workspace) == bool(self.get_workspace_size())
        if self.library.fails:
            raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED\nmore")
        handle.user = threading.get_ident()
        self.library.runs.append(self)
        found = {name: np.float64(tensor.at(addresses[tensor.uid])) for name, tensor in self.inputs.items()}
        makes = RUNS[self.method]
        with np.errstate(all="ignore"):
            results = makes(found, [tuple(t.dim) for t in self.outputs], **self.options)
        for tensor, result in zip(self.outputs, results, strict=True):
            tensor.at(addresses[tensor.uid])[...] = result.astype(tensor.dtype)
        handle.user = None


# -- convolutions ------------------------------------------------------------------------------------------------


def seen_by_taps(image: Any, taps: Any, places: Any, padding: Any, stride: Any, dilation: Any) -> Any:
    """For each tap, the view of a padded image at all places."""
    for tap in itertools.product(*map(range, taps)):
        cut = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, places, stride)]
        yield tap, image[(slice(None), slice(None), *cut)]


def padded(image: Any, taps: Any, places: Any, padding: Any, stride: Any, dilation: Any) -> Any:
    ends = [max((n - 1) * s + (t - 1) * d + 1 - p - size, 0)
            for n, s, t, d, p, size in zip(places, stride, taps, dilation, padding, image.shape[2:])]  # fmt: skip
    return np.pad(image, [(0, 0), (0, 0), *zip(padding, ends)])


def grouped(array: Any, axis: int, groups: int) -> Any:
    return array.reshape(*array.shape[:axis], groups, -1, *array.shape[axis + 1 :])


def forward(given: dict[str, Any], sizes: Any, **window: Any) -> list[Any]:
    x, w = given["image"], given["weight"]
    groups, (out,) = x.shape[1] // w.shape[1], sizes
    assert x.shape[1] % w.shape[1] == 0 and w.shape[0] % groups == 0
    total = np.zeros((out[0], groups, w.shape[0] // groups, *out[2:]))
    image = padded(x, w.shape[2:], out[2:], **window)
    for tap, seen in seen_by_taps(image, w.shape[2:], out[2:], **window):
        total += np.einsum("ngc...,gfc->ngf...", grouped(seen, 1, groups), grouped(w[(..., *tap)], 0, groups))
    return [total.reshape(out)]


def by_input(given: dict[str, Any], sizes: Any, **window: Any) -> list[Any]:
    y, w, (out,) = given["loss"], given["filter"], sizes
    groups = out[1] // w.shape[1]
    total = padded(np.zeros(out), w.shape[2:], y.shape[2:], **window)
    for tap, seen in seen_by_taps(total, w.shape[2:], y.shape[2:], **window):
        made = np.einsum("ngf...,gfc->ngc...", grouped(y, 1, groups), grouped(w[(..., *tap)], 0, groups))
        seen += made.reshape(seen.shape)
    return [total[(..., *(slice(p, p + n) for p, n in zip(window["padding"], out[2:])))]]


def by_weight(given: dict[str, Any], sizes: Any, **window: Any) -> list[Any]:
    x, y, (out,) = given["image"], given["loss"], sizes
    groups, total = x.shape[1] // out[1], np.zeros(out)
    image = padded(x, out[2:], y.shape[2:], **window)
    for tap, seen in seen_by_taps(image, out[2:], y.shape[2:], **window):
        one = grouped(seen, 1, groups).reshape(x.shape[0], groups, out[1], -1)
        two = grouped(y, 1, groups).reshape(x.shape[0], groups, out[0] // groups, -1)
        total[(..., *tap)] = np.einsum("ngfq,ngcq->gfc", two, one).reshape(out[:2])
    return [total]


# -- attention ---------------------------------------------------------------------------------------------------


def scores_of(q: Any, k: Any, scale: float, bound: int | None) -> Any:
    scores = scale * q @ k.swapaxes(-1, -2)
    far = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None]
    return scores if bound is None else np.where(far <= bound, scores, -math.inf)


def attention(
    given: dict[str, Any], sizes: Any, generate_stats: bool, attn_scale: float,
    diagonal_band_right_bound: int | None = None,
) -> list[Any]:  # fmt: skip
    assert generate_stats
    scores = scores_of(given["q"], given["k"], attn_scale, diagonal_band_right_bound)
    top = scores.max(-1, keepdims=True)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    return [np.exp(scores - top) / total @ given["v"], top + np.log(total)]


def attention_gradients(
    given: dict[str, Any], sizes: Any, attn_scale: float, diagonal_band_right_bound: int | None = None,
    use_deterministic_algorithm: bool = False,
) -> list[Any]:  # fmt: skip
    q, k, v, o, g, stats = (given[name] for name in ("q", "k", "v", "o", "dO", "stats"))
    weights = np.exp(scores_of(q, k, attn_scale, diagonal_band_right_bound) - stats)
    by_scores = weights * (g @ v.swapaxes(-1, -2) - (g * o).sum(-1, keepdims=True)) * attn_scale
    return [by_scores @ k, by_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g]


RUNS: dict[str, Any] = {
    "conv_fprop": forward, "conv_dgrad": by_input, "conv_wgrad": by_weight, "sdpa": attention,
    "sdpa_backward": attention_gradients,
}  # fmt: skip
