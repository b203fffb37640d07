"""The two halves of an exchange: plans begin it early and ask for its result late, so that it travels meanwhile.

The pass `overlap` writes them; no program does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jit.ir.errors import AutogradError
from jit.ir.op import absent, array
from jit.ir.samples import Sample, make, sample
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from .protocols import Array, KnownType, Numpy, Ops, Tensor

_NOT_IN_ONNX = absent("a model runs in one process, and ONNX has no operator that exchanges tensors with others")
_FACETS: dict[str, Any] = dict(communicates=True, runs_on_host=True, namespaces=(), onnx=_NOT_IN_ONNX)


@array("_c10d_functional::begin_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", **_FACETS,
       grad=dict(input=lambda F, g, reduce_op, group_name: _linear_gradient(F, g, reduce_op, group_name)))  # fmt: skip
def begin_all_reduce(m: Numpy, input: Array, reduce_op: str, group_name: str) -> Array:
    """The memory that will hold the tensors of all processes, reduced; `wait_tensor` says when it does."""
    return m.pending.begin(input, reduce_op, group_name)


def _linear_gradient(F: Ops, g: Tensor, reduce_op: str, group: str) -> Tensor:
    if reduce_op not in ("sum", "avg"):
        raise AutogradError(f"half of an exchange has no derivative for the reduction {reduce_op}; use all_reduce")
    return F.all_reduce(g, reduce_op, group)


@begin_all_reduce.type
def _(input: KnownType, reduce_op: str, group_name: str) -> TensorType:
    return TensorType(input.dtype, input.shape, None, input.device)


@begin_all_reduce.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), "sum", "self")
    yield sample(make(0), "avg", "self", note="empty")


@array("_c10d_functional::wait_tensor(Tensor tensor) -> Tensor", **_FACETS, grad=dict(tensor=lambda F, g: g))
def wait_tensor(m: Numpy, tensor: Array) -> Array:
    """The result of an exchange that has begun, in the memory that it was promised for."""
    return m.pending.finish(tensor)


@wait_tensor.type
def _(tensor: KnownType) -> TensorType:
    return TensorType(tensor.dtype, tensor.shape, None, tensor.device)


@wait_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
