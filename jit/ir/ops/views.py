"""Views: the same memory through another geometry. Nothing is copied and, in a kernel, nothing is computed."""

from __future__ import annotations

from typing import Any

from ..geometry import Geometry, wrap_dim
from ..op import view
from ..samples import make, sample


@view("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
      grad=dict(self=lambda F, g, dim0, dim1: F.transpose(g, dim0, dim1)),
      scatter=lambda F, base, source, dim0, dim1: F.transpose(source, dim0, dim1))  # fmt: skip
def transpose(geometry: Geometry, dim0: int, dim1: int) -> Geometry:
    order = list(range(geometry.ndim))
    a, b = wrap_dim(dim0, geometry.ndim), wrap_dim(dim1, geometry.ndim)
    if order:
        order[a], order[b] = order[b], order[a]
    return geometry.permute(tuple(order))


@transpose.onnx
def _(g: Any, self: Any, dim0: int, dim1: int) -> Any:
    order = list(range(self.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.op("Transpose", self, perm=order)


@transpose.samples
def _() -> Any:
    yield sample(make(2, 3, 4), 0, 2)
    yield sample(make(2, 3), -1, 0)
    yield sample(make(), 0, -1, note="0-d")
    yield sample(make(0, 3), 0, 1, note="empty")
