"""Dynamic axes as users give them: `{"x": {0: "batch", 2: ("height", 8, 512)}}`, or `{"x": [0, 2]}`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jit.ir.errors import UsageError
from jit.ir.sizes import SizeSymbol

AxisSpec: TypeAlias = "str | tuple[str, int] | tuple[str, int, int | None]"
"""The name of an axis; with its least size, or with its least and its greatest."""
DynamicAxes: TypeAlias = "Mapping[str, Mapping[int, AxisSpec] | Sequence[int]]"


class Axis(NamedTuple):
    """A size that may differ from run to run."""

    name: str
    low: int = 1
    """The least size. Unless told otherwise, there is one: a model for no elements is rarely asked for."""
    high: int | None = None
    """The greatest size; None where there is no bound."""
    ranged: bool = False
    """Whether the user has given the bounds, so that the model has to be right for all sizes within."""

    def __str__(self) -> str:
        return f"{self.name!r} from {self.low}" + ("" if self.high is None else f" to {self.high}")


def axes_of(tensor: str, dims: Any, rank: int | None = None) -> dict[int, Axis]:
    """The axes of one tensor, by dims that count from the front where the rank is known.

    Args:
        tensor: The name of the tensor.
        dims: {dim: axis}, or a list of dims, whose axes are called after the tensor and the dim.
        rank: The number of its dims.

    Raises:
        UsageError: It is neither, or a dim or an axis makes no sense.

    >>> axes_of("x", {-1: ("width", 8, 512)}, rank=2)
    {1: Axis(name='width', low=8, high=512, ranged=True)}
    """
    if isinstance(dims, Mapping):
        return {_checked_dim(tensor, dim, rank): _axis(tensor, dim, spec) for dim, spec in dims.items()}
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        raise UsageError(f"dynamic_axes[{tensor!r}] must be {{dim: axis name}} or a list of dims, got {dims!r}.")
    return {at: Axis(f"{tensor}_dim_{at}") for at in (_checked_dim(tensor, dim, rank) for dim in dims)}


def _checked_dim(tensor: str, dim: Any, rank: int | None) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise UsageError(f"dynamic_axes[{tensor!r}] has the dim {dim!r}, which is not a whole number; pass an int.")
    if rank is None:
        return dim
    if not -rank <= dim < rank:
        raise UsageError(f"dynamic_axes gives dim {dim} of {tensor!r}, which has {rank} dims; name one of these.")
    return dim % rank


def _axis(tensor: str, dim: int, spec: Any) -> Axis:
    name, *bounds = spec if isinstance(spec, (tuple, list)) and spec else (spec,)
    if not isinstance(name, str) or not name:
        raise UsageError(f"dynamic_axes[{tensor!r}] gives dim {dim} the name {name!r}; a name is a non-empty string.")
    if not bounds:
        return Axis(name)
    low, high = (*bounds, None)[:2]
    fits = len(bounds) <= 2 and _is_size(low) and (high is None or (_is_size(high) and high >= 2 and high > low))
    if not fits:
        raise UsageError(
            f"dynamic_axes[{tensor!r}] gives dim {dim} the range {spec!r}; a range is (name, least, greatest), whole "
            "numbers with the greatest above the least and at least 2, or None for no bound."
        )
    return Axis(name, low, high, True)


def _is_size(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def merged(axes: Iterable[Axis]) -> dict[str, Axis]:
    """The axes by their names; a range that is given in one place counts in all.

    Raises:
        UsageError: An axis has two ranges.
    """
    found: dict[str, Axis] = {}
    for axis in axes:
        other = found.get(axis.name, axis)
        if axis.ranged and other.ranged and axis != other:
            raise UsageError(f"dynamic_axes has the axis {other} and the axis {axis}; give it one range.")
        found[axis.name] = other if other.ranged else axis
    return found


def symbols_of(axes: Mapping[str, Axis]) -> dict[str, SizeSymbol]:
    """A symbol for each axis, with its range."""
    taken = {"min", "max"}
    found = {}
    for axis in axes.values():
        name = _identifier(axis.name)
        while name in taken:
            name += "_"
        taken.add(name)
        found[axis.name] = SizeSymbol(name, axis.low, axis.high)
    return found


def _identifier(name: str) -> str:
    """The name of an axis as the name of a symbol: `input.1_dim_0` is `input_1_dim_0`."""
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{safe}" if safe[0].isdigit() or keyword.iskeyword(safe) else safe
