"""Every operator, one file per family. Importing this package fills the registry, in the order below."""

from . import assignment, pointwise, views, scatters, joining, linalg, reductions, norms, randoms  # noqa: I001

__all__ = ["assignment", "joining", "linalg", "norms", "pointwise", "randoms", "reductions", "scatters", "views"]
