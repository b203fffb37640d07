"""Every operator, one file per family; a file is read when one of its operators is first asked for.

See Note [Declarations are read when needed] in `jit.ir.registry`.
"""

from typing import NamedTuple

from jit.ir.registry import foresee

from .index import INDEX

FAMILIES = (
    "assignment", "casting", "creation", "ranges", "pointwise", "compare", "complexes", "backwards", "activations",
    "views", "scatters", "indexing", "joining", "linalg", "attention", "convolution", "pooling", "reductions", "norms",
    "losses", "randoms", "draws", "variates", "packing", "recurrent_layers", "recurrent", "resize", "grids", "fft",
    "spectrograms", "gathers", "patches", "specials", "numeric", "arranging", "copies", "accumulations", "statistics",
    "products", "factorizations", "solving", "windows", "quantization", "collectives", "exchanges",
)  # fmt: skip
"""The files that declare operators, in the order in which documents list them."""


class Name(NamedTuple):
    """A name of operators, and where users find it."""

    family: str
    """The file that declares it."""
    spelled: tuple[str, ...]
    """All names of its functions: its own, its aliases, and those of functions that write in place."""
    namespaces: tuple[str, ...]
    """Some of "jit", "Tensor", "nn.functional", "linalg", "special", "fft"; none if it is for this package alone."""


def _names() -> dict[str, Name]:
    found, family = {}, ""
    for line in INDEX.splitlines():
        spelled, colon, namespaces = line.partition(":")
        if colon:
            spellings = tuple(spelled.split())
            found[spellings[0]] = Name(family, spellings, tuple(namespaces.split()))
        else:
            family = line
    return found


NAMES = _names()
"""Every name, such as "add", with what the index says of it."""

foresee(
    [f"{__name__}.{family}" for family in FAMILIES], {name: f"{__name__}.{at.family}" for name, at in NAMES.items()}
)
