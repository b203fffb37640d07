"""Attention and its gradients by cuDNN, for 16-bit floats.

Note [The result that only D reads]
    cuDNN's gradients take the result o of the forward, and use it for the sums D = rowsum(g * o) alone; here D is an
    operand, into which a gradient of the logsumexp may have gone, too. So it is given, for o, the rows that lie along
    those of g and whose products with them have these sums:

        o' = g * D / rowsum(g * g)

    No other rows with these sums are shorter, so in 16 bits they are rounded no worse than o.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.ir.errors import CompileError
from jit.ir.settings import SETTINGS
from jit.ir.types import contiguous_strides

from .cudnn_library import ALIGNMENT, CudnnDevice, CudnnKernel, Station, is_aligned


class AttentionOperands:
    """The layouts of an attention's arrays, as cuDNN is told them: batch, heads, rows, columns.

    Args:
        arrays: Arrays such as will come.

    Raises:
        CompileError: cuDNN takes no such arrays.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        if arrays[0].dtype.itemsize != 2 or any(array.dtype != arrays[0].dtype for array in arrays):
            raise CompileError("cuDNN attends to 16-bit floats; a kernel of this package does to others")
        if not 2 <= arrays[0].ndim <= 4 or any(array.ndim != arrays[0].ndim for array in arrays):
            raise CompileError("cuDNN attends to batches of two dims at most; a kernel of this package does to others")
        self.dtype = str(arrays[0].dtype)
        self._copied = [not _is_taken(array) for array in arrays]
        self.layouts = [
            row_major(array.shape) if copied else _in_four(array.shape, _steps(array))
            for array, copied in zip(arrays, self._copied, strict=True)
        ]
        """The sizes and strides of each."""

    def placed(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays, or copies of those that cuDNN does not take as they lie."""
        return [array.copy() if copied else array for array, copied in zip(arrays, self._copied, strict=True)]


def row_major(sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """The sizes and strides of a row-major array."""
    return _in_four(sizes, contiguous_strides(tuple(sizes)))


def _in_four(sizes: Sequence[int], steps: Sequence[int]) -> tuple[list[int], list[int]]:
    """Both for four dims; the stride of a dim of size 1 is as if there were more, since what it is does not matter."""
    dims, strides = [1] * (4 - len(sizes)) + [*sizes], [0] * (4 - len(sizes)) + [*steps]
    for place in range(3, -1, -1):
        if dims[place] == 1:
            strides[place] = dims[place + 1] * strides[place + 1] if place < 3 else 1
    return dims, strides


def _steps(array: Any) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def _is_taken(array: Any) -> bool:
    """Whether columns lie side by side, and rows begin where cuDNN may read several elements at once."""
    *rows, column = zip(array.shape, array.strides, strict=True)
    return (
        is_aligned(array)
        and (column[0] == 1 or column[1] == array.itemsize)
        and all(size == 1 or (step > 0 and step % ALIGNMENT == 0) for size, step in rows)
    )


class CudnnAttention:
    """An attention for arrays of one layout: fills the result and the logsumexp, given queries, keys and values.

    Args:
        cudnn: The GPU's.
        arrays: Queries, keys and values such as will come.
        scale: What scores are multiplied by.
        causal: Whether a query sees no keys behind its own place.

    Raises:
        CompileError: cuDNN refuses it.
    """

    def __init__(self, cudnn: CudnnDevice, arrays: Sequence[Any], scale: float, causal: bool) -> None:
        self._cudnn, self._scale, self._causal = cudnn, scale, causal
        self._operands, self._columns = AttentionOperands(arrays), arrays[2].shape[-1]
        self._rows = arrays[0].shape[:-1]
        self._kernel = CudnnKernel(cudnn, self._graph)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Fill the outputs."""
        self._kernel.run([*self._operands.placed(inputs), *outputs])

    def _graph(self, station: Station) -> Any:
        """The graph at a station."""
        cudnn, dtype = self._cudnn, self._operands.dtype
        graph, kind = cudnn.new_graph(station, dtype), cudnn.data_type(dtype)
        tensors = tensors_of(graph, ("q", "k", "v"), self._operands.layouts, kind)
        out, logsumexp = graph.sdpa(**tensors, generate_stats=True, **options(self._scale, self._causal))
        mark(out, 4, row_major((*self._rows, self._columns)), kind)
        mark(logsumexp, 5, row_major((*self._rows, 1)), cudnn.frontend.data_type.FLOAT)
        cudnn.build(graph, exact=False)
        return graph


class CudnnAttentionGradients:
    """The gradients of an attention: fills those by queries, keys and values, given `_attend_backward`'s operands.

    Args:
        cudnn: The GPU's.
        arrays: The gradient of the result, queries, keys and values such as will come.
        scale: What scores are multiplied by.
        causal: Whether a query sees no keys behind its own place.

    Raises:
        CompileError: cuDNN refuses it.
    """

    def __init__(self, cudnn: CudnnDevice, arrays: Sequence[Any], scale: float, causal: bool) -> None:
        self._cudnn, self._scale, self._causal = cudnn, scale, causal
        self._operands, self._sizes = AttentionOperands(arrays), [array.shape for array in arrays]
        self._kernel = CudnnKernel(cudnn, self._graph)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Fill the outputs, given the gradient, queries, keys, values, the logsumexp and D."""
        *operands, logsumexp, rowsum = inputs
        stats = self._cudnn.module.ascontiguousarray(logsumexp)
        grad, *factors = self._operands.placed(operands)
        self._kernel.run([grad, *factors, self._standing_for_result(grad, rowsum), stats, *outputs])

    def _standing_for_result(self, grad: Any, rowsum: Any) -> Any:
        """See Note [The result that only D reads]."""
        m = self._cudnn.module
        wide = grad.astype("float32")
        squares = m.sum(wide * wide, axis=-1)
        factors = rowsum / m.where(squares > 0, squares, 1)
        wide *= factors[..., None]
        return m.ascontiguousarray(wide.astype(grad.dtype))

    def _graph(self, station: Station) -> Any:
        """The graph at a station."""
        cudnn, dtype = self._cudnn, self._operands.dtype
        graph, kind, wide = cudnn.new_graph(station, dtype), cudnn.data_type(dtype), cudnn.frontend.data_type.FLOAT
        grad, query, *_ = self._sizes
        tensors = tensors_of(graph, ("dO", "q", "k", "v"), self._operands.layouts, kind)
        tensors |= tensors_of(graph, ("o",), [row_major(grad)], kind, 5)
        tensors |= tensors_of(graph, ("stats",), [row_major((*query[:-1], 1))], wide, 6)
        made = graph.sdpa_backward(**tensors, **options(self._scale, self._causal), **self._by_rule())
        for number, (gradient, sizes) in enumerate(zip(made, self._sizes[1:], strict=True), 7):
            mark(gradient, number, row_major(sizes), kind)
        cudnn.build(graph, exact=False)
        return graph

    def _by_rule(self) -> dict[str, bool]:
        return {"use_deterministic_algorithm": True} if SETTINGS.deterministic else {}


def options(scale: float, causal: bool) -> dict[str, Any]:
    """The arguments of an attention; `causal` is the band of keys up to the query's own place."""
    return {"attn_scale": scale} | ({"diagonal_band_right_bound": 0} if causal else {})


def tensors_of(
    graph: Any, names: Sequence[str], layouts: Sequence[tuple[list[int], list[int]]], kind: Any, first: int = 1
) -> dict[str, Any]:
    """Inputs of a graph by their names, numbered from `first` on."""
    return {
        name: graph.tensor(name=name, dim=dim, stride=stride, data_type=kind, uid=number)
        for number, (name, (dim, stride)) in enumerate(zip(names, layouts, strict=True), first)
    }


def mark(made: Any, number: int, layout: tuple[list[int], list[int]], kind: Any) -> None:
    """Let a result be an output of the graph."""
    dim, stride = layout
    made.set_output(True).set_dim(dim).set_stride(stride).set_data_type(kind).set_uid(number)
