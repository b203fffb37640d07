"""The paths of view ops that lead from bases to views, and views whose path does not tell their whole history.

Note [Views that somebody else made]
    An in-place write to a view changes the history of its base, and that of the view is then derived from the base's by
    the path that leads from one to the other (Note [Histories of views]). A path consists of operators alone. For a
    view that a custom Function returned, it would leave out the Function's backward; for one that was taken under
    `no_grad`, it would bring gradients where none were asked for. So the step of such a view names its maker, the paths
    of views of it contain that step, and where a history would be derived through it, there is an error instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jit.ir import Op, Source
from jit.ir.errors import AutogradError
from jit.ir.geometry import Geometry
from jit.ir.graph import map_template
from jit.ir.registry import OVERLOADS
from jit.runtime.arrays.arrays import address_of, geometry_of

from . import context


class ViewStep(NamedTuple):
    """One view op on the path from a base to a view: output `index` of `op(<base>, *arguments)`."""

    op: Op
    arguments: tuple[Any, ...]
    index: int  # type: ignore[assignment]
    maker: Maker | None = None
    """The maker of the view, if no derivative was recorded: see Note [Views that somebody else made]."""

    @property
    def is_strided(self) -> bool:
        """Whether it is an `as_strided_of`, the one step that is no view op; see `strided_step`."""
        return self.op.kind != "view"


ViewPath = tuple[ViewStep, ...]
"""The way from a base to a view."""


def with_numbers(path: Sequence[ViewStep], number: Callable[[Any], Any]) -> ViewPath:
    """A path in which `number(n)` stands for each n among the arguments of its steps."""
    return tuple([step._replace(arguments=map_template(number, step.arguments)) for step in path])


class Maker(NamedTuple):
    """The maker of a view, where that was no operator that records its derivative."""

    function: str
    """The name of the custom Function; empty under `no_grad`."""
    output: int
    several: bool
    """Whether the Function has more than one output that can be differentiated."""
    source: Source | None


UNTRACKED = Maker("", 0, False, None)
"""The maker of a view that was taken under `no_grad`."""


def maker_of(path: Sequence[ViewStep]) -> Maker | None:
    """The last maker on a path that is no operator recording its derivative; None if there is none."""
    for step in reversed(path):
        if step.maker is not None:
            return step.maker
    return None


def path_of(
    op: Op, arguments: Sequence[Any], index: int, before: tuple[ViewStep, ...], view: Any, root: Any
) -> tuple[ViewStep, ...]:
    """The path from the array `root` to `view`, which is output `index` of `op` at the end of the path `before`.

    Args:
        op: The view op.
        arguments: Its arguments but for the tensor.
        index: The number of its output.
        before: The path from the root to its operand.
        view: The array of the output.
        root: The array of the root.
    """
    maker = None if context.GRAD_ENABLED.get() else UNTRACKED
    if not op.is_absolute or root.dtype != view.dtype:
        return (*before, ViewStep(op, tuple(arguments), index, maker))
    return (strided_step(address_of(root), geometry_of(root), view)._replace(maker=maker or maker_of(before)),)


def strided_step(address: int, home: Geometry, view: Any) -> ViewStep:
    """An `as_strided` as one step from a root at `address` whose elements lie as `home` says.

    What `as_strided` itself shows depends on the layout of its operand, and replays of a path meet other layouts.
    """
    offset = (address_of(view) - address) // view.itemsize
    (as_strided_of,) = OVERLOADS["as_strided_of"]
    return ViewStep(as_strided_of, (home.sizes, home.strides, *geometry_of(view)[:2], offset), 0)


def refuse_write(path: Sequence[ViewStep]) -> None:
    """Refuse (AutogradError) a recorded write to the view that `path` leads to, if that would lose its history."""
    maker = maker_of(path)
    if maker is not None:
        raise AutogradError(f"{_described(maker)} is written to in place{_at(context.user_source())}, {_reason(maker)}")


def refuse_reading(maker: Maker, writer: Source | None) -> AutogradError:
    """The error for asking for the history of a view after its memory was written to, at `writer`, by another name."""
    written = f", but its base, or another view of that, was written to in place{_at(writer)}"
    return AutogradError(f"{_described(maker)} is used{_at(context.user_source())}{written}, {_reason(maker)}")


def _described(maker: Maker) -> str:
    if not maker.function:
        return "a view that was taken under no_grad"
    return f"output {maker.output} of {maker.function} (called{_at(maker.source)}), a view,"


def _at(source: Source | None) -> str:
    return "" if source is None else f" at {source}"


def _reason(maker: Maker) -> str:
    if not maker.function:
        return (
            "which leaves open whether that is to be recorded; take the view and write to it both under no_grad, or "
            "both outside of it"
        )
    if maker.several:
        return (
            "and the backward of a Function with several outputs cannot follow that; use the out-of-place operation, "
            "or clone() the output"
        )
    return (
        "which would override the backward that this Function has for a view of its input; clone() the output before "
        "it is written to, or use the out-of-place operation"
    )


def claim(view: Any, maker: Maker) -> None:
    """Note that `maker` has made `view`."""
    if view._viewed is not None:
        view._path = (*view._path[:-1], view._path[-1]._replace(maker=maker))
