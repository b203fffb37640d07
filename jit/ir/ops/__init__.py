"""Every operator, one file per family. Importing this package fills the registry, in the order below."""

from . import pointwise, views, reductions, norms, randoms  # noqa: I001

__all__ = ["norms", "pointwise", "randoms", "reductions", "views"]
