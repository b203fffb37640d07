"""PyTorch's oldest names for kinds of sparse tensors, `torch.sparse.FloatTensor` and its relatives."""

from __future__ import annotations

from typing import Any

from jit.eager.tensors import Size, Tensor
from jit.eager.typed import ON_CPU
from jit.ir.dtypes import DType
from jit.ir.errors import SchemaError

from .making import SparseTensor, sparse_coo_tensor


class SparseKind(type):
    """The class of the kinds, which are no classes that objects have: sparse tensors are of a kind by their dtype."""

    dtype: DType

    def __call__(cls, *data: Any) -> Any:
        """A sparse tensor of places, values and perhaps sizes; or one without entries, of these sizes."""
        if data and isinstance(data[0], Tensor):
            if not 2 <= len(data) <= 3:
                raise SchemaError(f"{cls.__name__}() takes indices, values and perhaps sizes; pass these")
            return sparse_coo_tensor(*data)
        if len(data) == 1 and isinstance(data[0], (Size, list, tuple)):
            data = tuple(data[0])
        return sparse_coo_tensor(data or (0,), dtype=cls.dtype)

    def __instancecheck__(cls, value: Any) -> bool:
        return type(value) is SparseTensor and value.dtype is cls.dtype and value.is_cpu

    def __repr__(cls) -> str:
        return f"<class 'torch.sparse.{cls.__name__}'>"


KINDS = {
    name: SparseKind(name, (), {"dtype": kind.dtype, "__module__": "torch.sparse"}) for name, kind in ON_CPU.items()
}
"""The kinds by their names."""

(
    BoolTensor, ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, HalfTensor, BFloat16Tensor, FloatTensor,
    DoubleTensor, ComplexFloatTensor, ComplexDoubleTensor,
) = KINDS.values()  # fmt: skip

__all__ = [
    "KINDS", "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "ComplexDoubleTensor", "ComplexFloatTensor",
    "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "SparseKind",
]  # fmt: skip
