"""The text of a printed tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes

if TYPE_CHECKING:
    from .tensors import Tensor

OPTIONS: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 75}
"""How numbers are printed, by numpy's names; `set_printoptions` sets them."""
_QUIET = (dtypes.float32, dtypes.int64, dtypes.bool_, dtypes.complex64)


def show_tensor(tensor: Tensor) -> str:
    """The text of a tensor, such as `tensor([[1., 2.]], grad_fn=<AddBackward>)`."""
    array = tensor._array
    if array is None:
        return "tensor(undefined)"
    printable = array.astype(np.float32) if tensor.dtype is dtypes.bfloat16 else array
    text = np.array2string(printable, separator=", ", prefix="tensor(", **OPTIONS)
    notes = []
    if array.size == 0 and array.ndim != 1:
        notes.append(f"size={tuple(array.shape)}")
    if tensor.dtype not in _QUIET:
        notes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([text, *notes])})"
