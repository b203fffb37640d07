"""Every operator, one file per family. Importing this package fills the registry, in the order below."""

from . import (  # noqa: I001
    assignment,
    casting,
    creation,
    pointwise,
    compare,
    activations,
    views,
    scatters,
    indexing,
    joining,
    linalg,
    convolution,
    pooling,
    reductions,
    norms,
    randoms,
)

__all__ = [
    "activations",
    "assignment",
    "casting",
    "compare",
    "convolution",
    "creation",
    "indexing",
    "joining",
    "linalg",
    "norms",
    "pointwise",
    "pooling",
    "randoms",
    "reductions",
    "scatters",
    "views",
]
