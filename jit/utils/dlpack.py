"""Tensors exchanged with other libraries, which read the same memory.

>>> import jit
>>> jit.utils.dlpack.from_dlpack(jit.utils.dlpack.to_dlpack(jit.ones(2))).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

from typing import Any

from jit.eager.creation import from_dlpack
from jit.eager.tensors import Tensor


def to_dlpack(tensor: Tensor) -> Any:
    """The capsule of a tensor, for libraries that take one."""
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
