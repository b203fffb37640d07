"""Reductions over dims: sums, means, extrema, norms."""

from __future__ import annotations

from typing import Any

from ..dtypes import int64
from ..geometry import wrap_dims
from ..op import array
from ..samples import make, sample, strided
from ..types import TensorType


def reduced(self: TensorType, dim: Any, keepdim: bool, dtype: Any = None) -> TensorType:
    """The type of `self` reduced over `dim` (None: all)."""
    assert self.sizes is not None
    dims = wrap_dims(dim, len(self.sizes))
    sizes = [1 if i in dims else s for i, s in enumerate(self.sizes) if keepdim or i not in dims]
    return TensorType(dtype or self.dtype, tuple(sizes), None, self.device)


def unreduce(F: Any, g: Any, meta: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient of a reduction brought back to the input's shape: dims put back with size 1, then broadcast."""
    if not keepdim and meta.ndim:
        for d in sorted(wrap_dims(dim, meta.ndim)):
            g = F.unsqueeze(g, d)
    return F.expand(g, meta.shape)


@array("aten::sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       grad=dict(self=lambda F, g, self_meta, dim, keepdim: unreduce(F, g, self_meta, dim, keepdim)))  # fmt: skip
def sum(m: Any, self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    dims = wrap_dims(dim, self.ndim)
    wide = dtype.numpy if dtype else m.int64 if self.dtype.kind in "biu" else self.dtype
    return m.sum(self, axis=dims, keepdims=keepdim, dtype=wide)


@sum.type
def _(self: TensorType, dim: Any, keepdim: bool, dtype: Any) -> TensorType:
    assert self.dtype is not None
    return reduced(self, dim, keepdim, dtype or (int64 if self.dtype.is_integral else self.dtype))


@sum.onnx
def _(g: Any, self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return g.reduce("ReduceSum", g.cast(self, g.out.dtype), dim, keepdim)


@sum.samples
def _() -> Any:
    yield sample(make(2, 3, 4))
    yield sample(make(2, 3, 4), 1)
    yield sample(make(2, 3, 4), [0, -1], True)
    yield sample(make(), note="0-d")
    yield sample(make(0, 3), 0, note="empty")
    yield sample(strided(make(3, 5)), 0, note="strided")
    yield sample(make(4, low=-9, high=9, dtype="int32"), note="integer", grad=False)
