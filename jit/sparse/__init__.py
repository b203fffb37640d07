"""Sparse tensors, by the names of `torch.sparse`: those that hold their places and their values, and no zeros.

>>> import jit
>>> matrix = jit.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
>>> (matrix @ jit.ones(2, 1)).tolist()
[[2.0], [3.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_sparse import *  # noqa: F403

__getattr__, __dir__ = late(
    __name__,
    {
        "kinds":
            "BFloat16Tensor BoolTensor ByteTensor CharTensor ComplexDoubleTensor ComplexFloatTensor DoubleTensor "
            "FloatTensor HalfTensor IntTensor LongTensor ShortTensor",
        "making": "SparseCsrTensor SparseTensor sparse_coo_tensor sparse_csr_tensor",
        "products": "addmm mm sampled_addmm",
        "reductions": "log_softmax softmax sum",
    },
)  # fmt: skip

__all__ = [
    "SparseCsrTensor", "SparseTensor", "addmm", "log_softmax", "mm", "softmax", "sparse_coo_tensor",
    "sparse_csr_tensor", "sum",
]  # fmt: skip
