"""Ways out that errors offer: the name that was perhaps meant, and how a tensor of another library is converted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_ELSEWHERE = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "a": "self", "x": "self", "size": "shape"}
"""Names of arguments in other libraries, and here."""


def did_you_mean(name: str, known: Iterable[str], form: str = "{!r}") -> str:
    """`; did you mean 'softmax'?` for a name that nearly is one of `known`; nothing if none is near.

    >>> did_you_mean("sofmax", ["softmax", "sum"]), did_you_mean("qqq", ["sum"])
    ("; did you mean 'softmax'?", '')
    """
    import difflib

    names = list(known)
    near = [_ELSEWHERE[name]] if _ELSEWHERE.get(name) in names else difflib.get_close_matches(name, names, 1)
    return f"; did you mean {form.format(near[0])}?" if near else ""


def is_foreign(value: Any) -> bool:
    """Whether a value is a tensor of another library, which has to be converted; numpy's arrays need not be."""
    kind = type(value)
    is_ours = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return not is_ours and not issubclass(kind, (np.ndarray, np.generic, type)) and hasattr(kind, "__dlpack__")


def conversion(value: Any) -> str:
    """The way out for an array or tensor that stands where a tensor of this package should."""
    if isinstance(value, np.ndarray):
        return "convert the numpy array with jit.from_numpy(array)"
    kind = type(value)
    return f"convert the {kind.__name__} of {kind.__module__.partition('.')[0]} with jit.from_dlpack(tensor)"
