"""Collectives: what processes that work together exchange, as new tensors.

A group of processes is known by its name, which is looked up when the operator runs; `jit.distributed` makes groups.
The group "self" is always there: it is the process alone. Derivatives are collectives, too, so that all processes have
to differentiate what they have computed together. `jit.runtime.processes` does the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir.errors import AutogradError, DTypeError, ShapeError
from jit.ir.op import absent, array
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Numpy, Ops, Tensor

_NOT_IN_ONNX = absent("a model runs in one process, and ONNX has no operator that exchanges tensors with others")
_FACETS: dict[str, Any] = dict(communicates=True, runs_on_host=True, namespaces=(), onnx=_NOT_IN_ONNX)
_LINEAR = ("sum", "avg")


def _same(input: KnownType) -> TensorType:
    return TensorType(input.dtype, input.shape, None, input.device)


def _of_sizes(input: KnownType, sizes: Ints) -> TensorType:
    return TensorType(input.dtype, sizes, None, input.device)


def _refuse_reduction(reduce_op: str, name: str) -> None:
    if reduce_op not in _LINEAR:
        raise AutogradError(
            f"{name} has no derivative for the reduction {reduce_op}; reduce by sum or avg, or detach()"
        )


# -- all get the same ------------------------------------------------------------------------------------------------


@array("_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", **_FACETS,
       grad=dict(input=lambda F, g, input, out, reduce_op, group_name:
                 _all_reduce_gradient(F, g, input, out, reduce_op, group_name)))  # fmt: skip
def all_reduce(m: Numpy, input: Array, reduce_op: str, group_name: str) -> Array:
    """The tensors of all processes, reduced element by element."""
    return m.processes.all_reduce(input, reduce_op, group_name).wait()


def _all_reduce_gradient(F: Ops, g: Tensor, x: Tensor, out: Tensor, reduce_op: str, group: str) -> Tensor:
    """The gradient by this process's tensor of what all processes compute from the result.

    Least and greatest elements share theirs among the processes that hold them; the product's is the product of what
    the others hold, by which zeros cannot be divided: so they count as 1, and how many there are decides.
    """
    if reduce_op in _LINEAR:
        return F.all_reduce(g, reduce_op, group)
    whole = F.all_reduce(g, "sum", group)
    if reduce_op == "product":
        is_zero = F.eq(x, 0)
        ones = F.ones_like(x)
        rest = F.all_reduce(F.where(is_zero, ones, x), "product", group)
        zeros = F.all_reduce(F._to_copy(is_zero, dtype=x.dtype), "sum", group)
        others_are_zero = F.gt(F.sub(F.real(zeros), F._to_copy(is_zero, dtype=F.real(zeros).dtype)), 0)
        factor = F.where(is_zero, rest, F.div(rest, F.where(is_zero, ones, x)))
        factor = F.where(others_are_zero, F.zeros_like(x), factor)
        return F.mul(whole, factor)
    hits = F._to_copy(F.eq(x, out), dtype=x.dtype)
    return F.mul(F.div(whole, F.all_reduce(hits, "sum", group)), hits)


@all_reduce.type
def _(input: KnownType, reduce_op: str, group_name: str) -> TensorType:
    if reduce_op == "avg" and not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise DTypeError(f"the reduction avg does not take {input.dtype.name} tensors; cast them, or use sum")
    return _same(input)


@all_reduce.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), "sum", "self")
    yield sample(make(), "avg", "self", note="0-d")
    yield sample(make(0, 3), "sum", "self", note="empty")
    yield sample(strided(make(3, 5)), "max", "self", note="strided")
    yield sample(make(4), "product", "self", note="product")
    yield sample(np.array([1.0, 0.0, -2.0], np.float32), "product", "self", note="zeros")
    yield sample(make(4, dtype=np.float16), "sum", "self", note="half", grad=False)
    yield sample(make(4, dtype=np.int64), "bxor", "self", note="integer", grad=False)
    yield sample(make(4, dtype=np.complex64), "sum", "self", note="complex", grad=False)


@array("_c10d_functional::broadcast(Tensor input, int src, str group_name) -> Tensor", **_FACETS,
       grad=dict(input=lambda F, g, src, group_name: F.reduce(g, "sum", src, group_name)))  # fmt: skip
def broadcast(m: Numpy, input: Array, src: int, group_name: str) -> Array:
    """The tensor of the process number `src` of a group."""
    return m.processes.broadcast(input, src, group_name).wait()


@broadcast.type
def _(input: KnownType, src: int, group_name: str) -> TensorType:
    return _same(input)


@broadcast.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 0, "self")
    yield sample(make(0), 0, "self", note="empty")
    yield sample(make(3, dtype=np.bool_), 0, "self", note="bool", grad=False)


@array("_c10d_functional::reduce(Tensor input, str reduce_op, int dst, str group_name) -> Tensor", **_FACETS,
       grad=dict(input=lambda F, g, reduce_op, dst, group_name: _reduce_gradient(F, g, reduce_op, dst, group_name))
       )  # fmt: skip
def reduce(m: Numpy, input: Array, reduce_op: str, dst: int, group_name: str) -> Array:
    """The tensors of all processes, reduced, in the process number `dst` of a group; zeros in the others."""
    return m.processes.reduce(input, reduce_op, dst, group_name).wait()


def _reduce_gradient(F: Ops, g: Tensor, reduce_op: str, dst: int, group: str) -> Tensor:
    _refuse_reduction(reduce_op, "reduce")
    sent = F.broadcast(g, dst, group)
    return sent if reduce_op == "sum" else F.div(sent, F.all_reduce(F.ones_like(sent), "sum", group))


@reduce.type
def _(input: KnownType, reduce_op: str, dst: int, group_name: str) -> TensorType:
    return _same(input)


@reduce.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), "sum", 0, "self")
    yield sample(make(), "avg", 0, "self", note="0-d")
    yield sample(make(3, dtype=np.int64), "min", 0, "self", note="integer", grad=False)


# -- each gets the parts of all, or a part ---------------------------------------------------------------------------


@array("_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", **_FACETS,
       grad=dict(input=lambda F, g, input_meta, group_size, group_name:
                 F.reshape(F.reduce_scatter_tensor(g, "sum", group_size, group_name), input_meta.shape)))  # fmt: skip
def all_gather_into_tensor(m: Numpy, input: Array, group_size: int, group_name: str) -> Array:
    """The tensors of all processes, joined along the first dim."""
    return m.processes.all_gather(input, group_size, group_name).wait()


@all_gather_into_tensor.type
def _(input: KnownType, group_size: int, group_name: str) -> TensorType:
    sizes = input.shape
    return _of_sizes(input, (group_size * sizes[0], *sizes[1:]) if sizes else (group_size,))


@all_gather_into_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 1, "self")
    yield sample(make(), 1, "self", note="0-d")
    yield sample(make(0, 2), 1, "self", note="empty")
    yield sample(make(2, dtype=np.float16), 1, "self", note="half", grad=False)


@array("_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
       **_FACETS, grad=dict(input=lambda F, g, reduce_op, group_size, group_name:
                            _reduce_scatter_gradient(F, g, reduce_op, group_size, group_name)))  # fmt: skip
def reduce_scatter_tensor(m: Numpy, input: Array, reduce_op: str, group_size: int, group_name: str) -> Array:
    """This process's part of the tensors of all, reduced: one of equal parts along the first dim."""
    return m.processes.reduce_scatter(input, reduce_op, group_size, group_name).wait()


def _reduce_scatter_gradient(F: Ops, g: Tensor, reduce_op: str, group_size: int, group: str) -> Tensor:
    _refuse_reduction(reduce_op, "reduce_scatter")
    whole = F.all_gather_into_tensor(g, group_size, group)
    return whole if reduce_op == "sum" else F.div(whole, group_size)


@reduce_scatter_tensor.type
def _(input: KnownType, reduce_op: str, group_size: int, group_name: str) -> TensorType:
    sizes = input.shape
    if not sizes or sizes[0] % group_size:
        raise ShapeError(
            f"reduce_scatter: sizes {list(sizes)} have no {group_size} equal parts along the first dim; pad them"
        )
    return _of_sizes(input, (sizes[0] // group_size, *sizes[1:]))


@reduce_scatter_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), "sum", 1, "self")
    yield sample(make(0, 2), "avg", 1, "self", note="empty")
    yield sample(make(3, dtype=np.int64), "max", 1, "self", note="integer", grad=False)


@array("_c10d_functional::all_to_all_single(Tensor input, int[] output_split_sizes, int[] input_split_sizes, "
       "str group_name) -> Tensor", **_FACETS,
       grad=dict(input=lambda F, g, output_split_sizes, input_split_sizes, group_name:
                 F.all_to_all_single(g, input_split_sizes, output_split_sizes, group_name)))  # fmt: skip
def all_to_all_single(
    m: Numpy, input: Array, output_split_sizes: Ints, input_split_sizes: Ints, group_name: str
) -> Array:
    """Rows from all processes, after as many rows as `input_split_sizes` says were sent to each."""
    return m.processes.all_to_all(input, output_split_sizes, input_split_sizes, group_name).wait()


@all_to_all_single.type
def _(input: KnownType, output_split_sizes: Ints, input_split_sizes: Ints, group_name: str) -> TensorType:
    if not input.shape or sum(input_split_sizes) != input.shape[0]:
        raise ShapeError(f"all_to_all: rows {list(input_split_sizes)} do not make up sizes {list(input.shape)}")
    return _of_sizes(input, (sum(output_split_sizes), *input.shape[1:]))


@all_to_all_single.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2), [3], [3], "self")
    yield sample(make(0, 2), [0], [0], "self", note="empty")
