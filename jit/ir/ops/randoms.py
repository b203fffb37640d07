"""Random numbers, drawn from an explicit counter-based state."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..op import absent, composite, random
from ..samples import make, sample
from ..types import TensorType


@random("aten::rand(int[] size, *, ScalarType? dtype=None, Device? device=None, Generator? generator=None) -> Tensor",
        namespaces=("jit",), grad=absent("creates a tensor from nothing"))  # fmt: skip
def rand(m: Any, state: Any, size: Any, dtype: Any, device: Any) -> Any:
    element = (dtype or dtypes.DEFAULT).numpy
    return m.philox.uniform(state, tuple(size), element), m.philox.blocks_used("uniform", math.prod(size), element)


@rand.type
def _(size: Any, dtype: Any, device: Any, generator: Any) -> TensorType:
    return TensorType(dtype or dtypes.DEFAULT, tuple(size), None, device or "cpu")


@rand.samples
def _() -> Any:
    yield sample([2, 3])
    yield sample([0], note="empty")


@rand.onnx
def _(g: Any, size: Any, dtype: Any, device: Any, generator: Any) -> Any:
    return g.op("RandomUniform", dtype=g.out.dtype, shape=list(size))


@composite("aten::dropout(Tensor input, float p, bool train) -> Tensor", namespaces=("jit", "nn.functional"))
def dropout(F: Any, input: Any, p: float, train: bool) -> Any:
    if not train or p == 0:
        return input
    if p == 1:
        return input * 0
    keep = F.bernoulli(F.full_like(input, 1 - p)) / (1 - p)
    return input * keep


@dropout.samples
def _() -> Any:
    yield sample(make(4, 3), 0.5, False)
