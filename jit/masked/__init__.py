"""Reductions and normalisations that leave out what a mask says, and tensors with masks, by `torch.masked`'s names.

>>> import jit
>>> jit.masked.mean(jit.tensor([1.0, 2.0, 9.0]), mask=jit.tensor([True, True, False])).item()
1.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_masked import *  # noqa: F403

__getattr__, __dir__ = late(
    __name__,
    {
        "making": "MaskedTensor as_masked_tensor is_masked_tensor masked_tensor",
        "normalisations": "cumprod cumsum log_softmax logaddexp normalize softmax softmin",
        "reductions": "amax amin argmax argmin logsumexp mean median norm prod std sum var",
    },
)

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]  # fmt: skip
