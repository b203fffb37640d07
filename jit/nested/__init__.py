"""Tensors of different sizes as one batch, by `torch.nested`'s names.

>>> import jit
>>> batch = jit.nested.nested_tensor([jit.tensor([1.0, 2.0]), jit.tensor([3.0])])
>>> (batch * 2).to_padded_tensor(0.0)
tensor([[2., 4.],
        [6., 0.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_nested import *  # noqa: F403

__getattr__, __dir__ = late(
    __name__,
    {"making": "NestedTensor as_nested_tensor nested_tensor nested_tensor_from_jagged to_padded_tensor"},
)

__all__ = ["NestedTensor", "as_nested_tensor", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor"]
