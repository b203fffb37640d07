"""What products and distances of vectors should compute, in float64 numpy."""

from typing import Any

import numpy as np
import scipy.spatial


def renorm(self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    norms = (np.abs(self) ** p).sum(tuple(d for d in range(self.ndim) if d != dim % self.ndim), keepdims=True) ** (
        1 / p
    )
    return self * np.where(norms > maxnorm, maxnorm / norms, 1)


def cross(self: Any, other: Any, dim: Any) -> Any:
    a, b = np.broadcast_arrays(self, other)
    return np.cross(a, b, axis=self.shape.index(3) if dim is None else dim)


REFERENCES: dict[str, Any] = {
    "aten::cross": cross,
    "aten::linalg_cross": cross,
    "aten::inner": np.inner,
    "aten::vdot": np.vdot,
    "aten::linalg_vecdot": lambda x, y, dim: np.sum(x * y, dim),
    "aten::pdist": lambda self, p: scipy.spatial.distance.pdist(self, "minkowski", p=p),
    "aten::dist": lambda self, other, p: np.linalg.norm(np.ravel(self - other), p),
    "aten::renorm": renorm,
    "aten::resolve_conj": np.array,
    "aten::resolve_neg": np.array,
}
