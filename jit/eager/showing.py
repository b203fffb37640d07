"""The text of a printed tensor, in PyTorch's form, and `jit.set_printoptions`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.devices import CPU
from jit.ir.errors import UsageError
from jit.runtime.arrays.libraries import HOST

if TYPE_CHECKING:
    from .tensors import Tensor

Spelling = Callable[[Any], str]


def _quiet() -> tuple[dtypes.DType, ...]:
    """The dtypes that are not named, because numbers become tensors of them."""
    return dtypes.DEFAULT, dtypes.int64, dtypes.bool_, dtypes.of_number(0j)


@dataclass
class PrintOptions:
    """The form in which tensors are printed."""

    precision: int = 4
    """Digits behind the point."""
    threshold: float = 1000
    """The number of elements from which on only the edges are shown."""
    edgeitems: int = 3
    """The elements at each end of a dim that are shown then."""
    linewidth: int = 80
    """The characters of a line."""
    sci_mode: bool | None = None
    """Whether floats are written as 1.0000e+00; None: where they differ too much for a common form."""


OPTIONS = PrintOptions()
PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; what is not given stays as it is, but for `sci_mode`.

    Args:
        precision: Digits behind the point, 4 at first.
        threshold: The number of elements, 1000 at first, beyond which only the edges are shown.
        edgeitems: The elements at each end of a dim that are shown then, 3 at first.
        linewidth: The characters of a line, 80 at first.
        profile: "default", "short" or "full": all options at once, before the others are set.
        sci_mode: Whether floats are written as 1.0000e+00; None: where they differ too much for a common form.

    Raises:
        UsageError: There is no such profile.

    >>> import jit
    >>> jit.set_printoptions(precision=2)
    >>> jit.tensor([0.5, 2.25])
    tensor([0.50, 2.25])
    >>> jit.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in PROFILES:
            raise UsageError(f"set_printoptions: no profile is called {profile!r}; use one of {', '.join(PROFILES)}")
        vars(OPTIONS).update(vars(PROFILES[profile]))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    vars(OPTIONS).update({name: value for name, value in given.items() if value is not None}, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The options that `set_printoptions` sets, by their names."""
    return dict(vars(OPTIONS))


def show_tensor(tensor: Tensor) -> str:
    """The text of a tensor, such as `tensor([[1., 2.]], grad_fn=<AddBackward0>)`."""
    array = tensor._array
    if array is None:
        return "tensor(undefined)"
    own = type(tensor).__module__.startswith("jit.")
    prefix = "tensor(" if own else f"{type(tensor).__name__}("
    text = "..." if tensor.is_meta else "[]" if array.size == 0 else _elements(array, len(prefix))
    return with_notes(prefix + text, _notes(tensor, array), len(prefix))


def _notes(tensor: Tensor, array: Any) -> list[str]:
    """Facts that are told of a tensor behind its elements."""
    notes = [] if tensor.device is CPU else [f"device='{tensor.device}'"]
    if tensor.is_meta or (array.size == 0 and array.ndim != 1):
        notes.append(f"size={tuple(array.shape)}")
    is_bare = tensor.is_meta or array.size == 0
    if tensor.dtype is not dtypes.DEFAULT and (is_bare or tensor.dtype not in _quiet()):
        notes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return notes


def with_notes(text: str, notes: list[str], indent: int) -> str:
    """The text with its notes, each on a line of its own where the last one is full."""
    used = len(text) - text.rfind("\n") + 1
    for note in notes:
        if used + len(note) + 2 > OPTIONS.linewidth:
            text, used = f"{text},\n{' ' * indent}{note}", indent + len(note)
        else:
            text, used = f"{text}, {note}", used + len(note) + 2
    return text + ")"


# -- elements ------------------------------------------------------------------------------------------------------


def _elements(array: Any, indent: int) -> str:
    short = array.size > OPTIONS.threshold
    shown = np.asarray(HOST.taken(_edges(array) if short else array))
    if shown.dtype.kind not in "biufc" or shown.dtype == np.float16:
        shown = shown.astype(np.float32)
    spell, width = _complex_spelling(shown) if shown.dtype.kind == "c" else _spelling(shown)
    cut = [short and size > 2 * OPTIONS.edgeitems for size in array.shape]
    return _nested(shown.tolist(), cut, spell, width, indent)


def _edges(array: Any) -> Any:
    """The elements of an array that are shown if there are too many."""
    edge = OPTIONS.edgeitems
    for dim, size in enumerate(array.shape):
        if size > 2 * edge:
            kept = np.r_[0:edge, size - edge : size] if edge else np.arange(1)
            array = array[(slice(None),) * dim + (kept,)]
    return array


def _nested(values: Any, cut: Sequence[bool], spell: Spelling, width: int, indent: int) -> str:
    """The text of nested lists; `cut` says for each dim whether its middle has been left out."""
    if not cut:
        return spell(values)
    if len(cut) == 1:
        return _row(values, cut[0], spell, width, indent)
    parts = [_nested(value, cut[1:], spell, width, indent + 1) for value in values]
    return "[" + f",{chr(10) * (len(cut) - 1)}{' ' * (indent + 1)}".join(_with_gap(parts, cut[0], "...")) + "]"


def _row(values: list[Any], cut: bool, spell: Spelling, width: int, indent: int) -> str:
    """The text of one row, in as many lines as it takes."""
    parts = _with_gap([spell(value) for value in values], cut, " ..." if OPTIONS.edgeitems else "...")
    size = max(1, (OPTIONS.linewidth - indent) // (width + 2))
    lines = [", ".join(parts[start : start + size]) for start in range(0, len(parts), size)]
    return "[" + f",\n{' ' * (indent + 1)}".join(lines) + "]"


def _with_gap(parts: list[str], cut: bool, gap: str) -> list[str]:
    edge = OPTIONS.edgeitems
    return [*parts[:edge], gap, *parts[len(parts) - edge :]][: 2 * edge + 1] if cut else parts


# -- numbers -------------------------------------------------------------------------------------------------------


def _spelling(values: np.ndarray) -> tuple[Spelling, int]:
    """The form of the real numbers of a tensor, all in one width, and that width."""
    if values.dtype.kind != "f":
        width = max(len(str(value)) for value in values.ravel().tolist())
        return (lambda value: str(value).rjust(width)), width
    write, plain = _float_form(values)
    width = max([1, *map(len, map(write, plain))])
    return (lambda value: write(value).rjust(width)), width


def _float_form(values: np.ndarray) -> tuple[Spelling, list[float]]:
    """The form of the floats of a tensor, and those of them that are finite and not 0, which decide about it."""
    counted = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    sizes, precision = np.abs(counted), OPTIONS.precision
    whole = bool((counted == np.ceil(counted)).all())
    wide = counted.size > 0 and bool(sizes.max() / sizes.min() > 1000.0 or sizes.max() > 1e8)
    small = counted.size > 0 and not whole and bool(sizes.min() < 1e-4)
    if OPTIONS.sci_mode if OPTIONS.sci_mode is not None else wide or small:
        return (lambda value: f"{value:.{precision}e}"), counted.tolist()
    if whole:
        return (lambda value: f"{value:.0f}." if math.isfinite(value) else f"{value}"), counted.tolist()
    return (lambda value: f"{value:.{precision}f}"), counted.tolist()


def _complex_spelling(values: np.ndarray) -> tuple[Spelling, int]:
    """The form of complex numbers, and their width; real and imaginary parts have forms of their own."""
    (real, one), (imaginary, other) = _spelling(values.real), _spelling(values.imag)

    def spell(value: complex) -> str:
        second = f"{imaginary(value.imag)}j".lstrip()
        return real(value.real) + (second if second[0] in "+-" else f"+{second}")

    return spell, one + other + 1
