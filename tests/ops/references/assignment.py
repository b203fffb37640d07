"""What the operators behind `copy_`, `fill_` and `zero_` should compute; see tests/ops/references/__init__.py."""

from typing import Any

import numpy as np

REFERENCES: dict[str, Any] = {
    "aten::copy": lambda self, src: np.zeros(self.shape) + src,
    "aten::fill.Tensor": lambda self, value: np.zeros(self.shape) + value,
    "aten::fill.Scalar": lambda self, value: np.zeros(self.shape) + value,
    "aten::zero": lambda self: np.zeros(self.shape),
}
