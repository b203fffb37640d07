"""The context in which the graphs of one model are prepared: operator sets, functions, constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir.errors import ModelError

if TYPE_CHECKING:
    import onnx

DEEPEST = 64
"""Functions and subgraphs may be nested so deep."""


@dataclass
class ModelContext:
    """Common ground of all graphs of one model."""

    opsets: Mapping[str, int]
    """Domain -> version."""
    functions: Mapping[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict)
    """The model's own functions by domain and name."""
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    """Initializers by name."""
    depth: int = 0

    def deeper(self, **changes: Any) -> ModelContext:
        """The context of a function or a subgraph; ModelError if they are nested without end."""
        if self.depth >= DEEPEST:
            raise ModelError(f"functions or subgraphs of the model are nested more than {DEEPEST} deep")
        return ModelContext(**{**vars(self), "depth": self.depth + 1, **changes})
