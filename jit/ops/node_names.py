"""Names of the nodes of histories: PyTorch's, such as `MulBackward0`, so that printed tensors look the same.

PyTorch numbers the overloads of an operator that have a derivative, in an order of its own: `x.max(0)` gives
MaxBackward0, `x.max()` MaxBackward1. Where several of its overloads are one operator here, the arguments tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jit.ir.schema import Schema

_NUMBERS = {
    "div.Tensor_mode": 2, "fill.Tensor": 1, "index_fill.int_Tensor": 1, "max": 1, "median.dim": 1, "min": 1,
    "nanmedian.dim": 1, "prod.dim_int": 1, "rsub": 1, "scatter.value": 1, "sort.stable": 1, "squeeze.dim": 1,
    "squeeze.dims": 2,
}  # fmt: skip
"""The numbers of overloads, where they are not 0."""
_WITH_DIM = {"mean": 1, "sum": 1}
"""The numbers if the argument `dim` is given."""
_WITH_NUMBER = {"clamp": (1, 0), "clamp_max": (0, 1), "clamp_min": (0, 1), "copysign": (1, 0), "fmod": (0, 1),
                "lerp": (0, 1), "pow": (0, 1), "remainder": (0, 1)}  # fmt: skip
"""The numbers if the last argument is a number, and if it is a tensor with dims."""
_OTHERS = {"chunk": "Split", "linear": "Addmm", "narrow": "Slice", "nll_loss_forward": "NllLoss",
           "nll_loss2d_forward": "NllLoss2D"}  # fmt: skip
"""Names that do not follow from the operator's."""


def node_name(schema: Schema, saved: Mapping[str, Any], ndims: Sequence[int]) -> str:
    """The name of a node.

    Args:
        schema: The operator's.
        saved: The arguments that its formulas look at, by name.
        ndims: The numbers of dims of the tensors among the arguments; 0 for numbers.
    """
    if schema.name in _WITH_DIM:
        number = _WITH_DIM[schema.name] if saved.get("dim") else 0
    elif schema.name in _WITH_NUMBER and ndims:
        number = _WITH_NUMBER[schema.name][ndims[-1] > 0]
    else:
        number = _NUMBERS.get(schema.qualified.removeprefix("aten::"), 0)
    return f"{_stem(schema.name)}{number}"


@cache
def _stem(name: str) -> str:
    """`_to_copy` becomes ToCopyBackward, `avg_pool2d` AvgPool2DBackward."""
    words = name.strip("_").split("_")
    joined = _OTHERS.get(name) or "".join(word[:1].upper() + word[1:] for word in words)
    return re.sub(r"(?<=\d)[a-z]", lambda letter: letter[0].upper(), joined) + "Backward"
