"""What further spellings of operators should compute, and scattering that combines, in float64 numpy."""

from typing import Any

import numpy as np

from tests.ops.references.arrays import assigned, at_dim, max_pool, with_dims


def combined() -> Any:
    """`src`, an array or a number, added to or multiplied into the places that `index` names."""

    @with_dims
    def run(self: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
        out = np.array(self)
        for place in np.ndindex(*index.shape):
            target = list(place)
            target[dim] = index[place]
            value = src[place] if isinstance(src, np.ndarray) else src
            old = out[tuple(target)]
            out[tuple(target)] = old + value if reduce == "add" else old * value
        return out

    return run


def repeated(self: Any, repeats: Any, dim: Any, output_size: Any) -> Any:
    return np.repeat(self, np.broadcast_to(repeats, self.shape[dim] if dim is not None else self.size), dim)


def spread_with_mean(spread: Any) -> Any:
    def reference(self: Any, dim: Any, unbiased: bool, keepdim: Any) -> Any:
        axes = tuple(dim)
        return spread(self, axis=axes, ddof=int(unbiased), keepdims=keepdim), np.mean(self, axis=axes, keepdims=keepdim)

    return reference


REFERENCES: dict[str, Any] = {
    "aten::scatter.reduce": combined(),
    "aten::scatter.value_reduce": combined(),
    "aten::repeat_interleave.self_Tensor": repeated,
    "aten::tensordot.int": np.tensordot,
    "aten::trace": np.trace,
    "aten::max_pool1d_with_indices": max_pool(1),
    "aten::index_fill.int_Tensor": lambda self, dim, index, value: assigned(self, at_dim(dim, self.ndim, index), value),
    "aten::argsort.stable": lambda self, stable, dim, descending: np.argsort(self, dim, kind="stable"),
    "aten::var_mean": lambda self, unbiased: (np.var(self, ddof=int(unbiased)), np.mean(self)),
    "aten::std_mean": lambda self, unbiased: (np.std(self, ddof=int(unbiased)), np.mean(self)),
    "aten::var_mean.dim": spread_with_mean(np.var),
    "aten::std_mean.dim": spread_with_mean(np.std),
}
