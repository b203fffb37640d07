"""Convolutions and their gradients by cuDNN.

Note [Layouts for cuDNN]
    Its kernels want images, weights and results of one layout: row-major, or with the channels last. Arrays that lie
    so are passed as they are, if the images do; others are copied. Results of operators are row-major, so one with its
    channels last is copied, too. One spatial dim is passed as two, the first of size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jit.ir.errors import CompileError
from jit.ir.settings import SETTINGS
from jit.ir.types import contiguous_strides

from ..gpu.convolutions import SlidingWindow
from .cudnn_library import CudnnDevice, CudnnKernel, Station, is_aligned


class ConvolutionPart(NamedTuple):
    """One of the three maps of a convolution: its method, and its operands and result among `ConvolutionSizes`."""

    method: str
    operands: dict[str, str]
    made: str


PARTS = {
    "forward": ConvolutionPart("conv_fprop", {"image": "image", "weight": "weight"}, "result"),
    "by input": ConvolutionPart("conv_dgrad", {"loss": "result", "filter": "weight"}, "image"),
    "by weight": ConvolutionPart("conv_wgrad", {"loss": "result", "image": "image"}, "weight"),
}


class ConvolutionSizes(NamedTuple):
    """The sizes of all arrays of a convolution."""

    image: tuple[int, ...]
    weight: tuple[int, ...]
    result: tuple[int, ...]


class CudnnConvolution:
    """A map of a convolution for arrays of one layout: fills an output, given two inputs and perhaps a bias.

    Args:
        cudnn: The GPU's.
        part: Which of `PARTS`.
        arrays: Two arrays such as its inputs will be.
        sizes: Those of all three.
        window: The way of the kernel over the image.

    Raises:
        CompileError: cuDNN refuses it.
    """

    def __init__(
        self, cudnn: CudnnDevice, part: str, arrays: Sequence[Any], sizes: ConvolutionSizes, window: SlidingWindow
    ) -> None:
        self._part, self._sizes, self._window = PARTS[part], sizes, window
        self._dtype, self._cudnn = arrays[0].dtype, cudnn
        roles = self._part.operands.values()
        self._last = any(_is_last(a) for a, role in zip(arrays, roles, strict=True) if role != "weight")
        if not 1 <= len(window.stride) <= 3:
            raise CompileError("cuDNN has convolutions over 1 to 3 dims; a kernel of this package does the others")
        self._kernel = CudnnKernel(cudnn, self._graph)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Fill the output."""
        x, y, *bias = inputs
        (out,) = outputs
        made = self._cudnn.module.empty(_moved(out.shape), out.dtype) if self._last else out
        self._kernel.run([self._placed(x), self._placed(y), made])
        if self._last:
            out[...] = self._cudnn.module.moveaxis(made, -1, 1)
        for one in bias:
            self._cudnn.module.add(out, one.reshape(-1, *(1,) * (out.ndim - 2)), out)

    def _placed(self, array: Any) -> Any:
        """Elements in the layout of the graph."""
        seen = self._cudnn.module.moveaxis(array, 1, -1) if self._last else array
        return seen if seen.flags.c_contiguous and is_aligned(seen) else seen.copy()

    def _graph(self, station: Station) -> Any:
        """The graph at a station."""
        part, cudnn, dtype = self._part, self._cudnn, str(self._dtype)
        graph = cudnn.new_graph(station, dtype)
        kind = cudnn.data_type(dtype)
        inputs = {}
        for number, (name, role) in enumerate(part.operands.items(), 1):
            dim, stride = self._layout(getattr(self._sizes, role))
            inputs[name] = graph.tensor(name=name, dim=dim, stride=stride, data_type=kind, uid=number)
        made = getattr(graph, part.method)(**inputs, **self._arguments())
        dim, stride = self._layout(getattr(self._sizes, part.made))
        made.set_output(True).set_dim(dim).set_stride(stride).set_data_type(kind).set_uid(len(inputs) + 1)
        cudnn.build(graph, exact=dtype == "float32" and not SETTINGS.allow_tf32)
        return graph

    def _arguments(self) -> dict[str, list[int]]:
        window, one = self._window, len(self._window.stride) == 1
        return {
            "padding": [0] * one + [*window.padding],
            "stride": [1] * one + [*window.stride],
            "dilation": [1] * one + [*window.dilation],
        }

    def _layout(self, sizes: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """The sizes and strides of one of the arrays as cuDNN is told them."""
        sizes = sizes if len(sizes) > 3 else (*sizes[:2], 1, *sizes[2:])
        if not self._last:
            return [*sizes], [*contiguous_strides(sizes)]
        first, *others, channels = contiguous_strides(_moved(sizes))
        return [*sizes], [first, channels, *others]


def _moved(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes in the order in which they lie with the channels last."""
    return (sizes[0], *sizes[2:], sizes[1])


def _is_last(array: Any) -> bool:
    """Whether an array lies with its channels last, and not row-major as well."""
    if array.flags.c_contiguous:
        return False
    wanted = [step * array.itemsize for step in contiguous_strides(_moved(array.shape))]
    found = zip(_moved(array.shape), wanted, _moved(array.strides), strict=True)
    return all(size == 1 or want == step for size, want, step in found)
