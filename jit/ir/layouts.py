"""How the elements of a tensor lie in memory: `jit.strided`, which all are."""

from __future__ import annotations


class Layout:
    """A layout by its name.

    Args:
        name: `strided`.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"jit.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = Layout("strided")
sparse_coo, sparse_csr, sparse_csc = Layout("sparse_coo"), Layout("sparse_csr"), Layout("sparse_csc")
sparse_bsr, sparse_bsc = Layout("sparse_bsr"), Layout("sparse_bsc")
"""Layouts of sparse tensors, which programs compare with."""
