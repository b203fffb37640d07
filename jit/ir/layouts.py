"""Layouts of the elements of tensors in memory: `jit.strided`, which all have."""

from __future__ import annotations

from . import dtypes


class TensorLayout:
    """A layout by its name.

    Args:
        name: `strided`.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{dtypes.package}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = TensorLayout("strided")
jagged = TensorLayout("jagged")
"""The layout of nested tensors whose members are rows one after the other."""
sparse_coo, sparse_csr, sparse_csc = TensorLayout("sparse_coo"), TensorLayout("sparse_csr"), TensorLayout("sparse_csc")
sparse_bsr, sparse_bsc = TensorLayout("sparse_bsr"), TensorLayout("sparse_bsc")
"""Layouts of sparse tensors, which programs compare with."""
