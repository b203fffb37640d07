"""Every view as a copy, `view_copy` beside `view`; and splitting that PyTorch calls unsafe, here the plain one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jit.ir.op import REGISTRY, Op, composite

if TYPE_CHECKING:
    from .protocols import Ops, Tensor

COPIED = (
    "view_as_real", "view_as_complex", "view", "transpose.int", "t", "permute", "expand", "squeeze", "squeeze.dim",
    "squeeze.dims", "unsqueeze", "select.int", "slice.Tensor", "narrow", "split.Tensor", "split_with_sizes",
    "unbind.int", "unfold", "diagonal", "as_strided", "alias", "detach",
)  # fmt: skip
"""The views that have a copying variant; of these, `narrow_copy` alone is a method too."""


def _copy(original: Op) -> Op:
    """Declare `<view>_copy` with the arguments of the view."""
    schema = re.sub(r"Tensor\(a[^)]*\)", "Tensor", _renamed(original, f"{original.schema.name}_copy"))
    spaces = ("jit", "Tensor") if original.schema.name == "narrow" else ("jit",)

    def body(F: Ops, *arguments: Any) -> Any:
        viewed = _call(F, original, arguments)
        return [F.clone(part) for part in viewed] if isinstance(viewed, (list, tuple)) else F.clone(viewed)

    body.__doc__ = f"A copy of what `{original.schema.name}` shows."
    return composite(schema, namespaces=spaces, samples=original.sampler)(_with_names(body, "F", original))


def _renamed(op: Op, name: str) -> str:
    return f"aten::{name}" + str(op.schema).removeprefix(f"aten::{op.schema.name}")


def _call(F: Ops, op: Op, arguments: tuple[Any, ...]) -> Any:
    by_name = {a.name: v for a, v in zip(op.arguments, arguments, strict=True) if a.kwarg_only}
    return getattr(F, op.schema.name)(*arguments[: len(arguments) - len(by_name)], **by_name)


def _with_names(body: Callable[..., Any], first: str, like: Op) -> Callable[..., Any]:
    """`body` with a signature that says `like`'s arguments by name, as declarations want it."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = (first, *like.schema.argument_names)
    body.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return body


for _name in COPIED:
    _copy(REGISTRY[f"aten::{_name}"])


def _unsafe(name: str, original: Op) -> Op:
    """Declare a splitting whose parts must not be written to in PyTorch; here it is the plain one."""

    def body(F: Ops, *arguments: Any) -> list[Tensor]:
        return _call(F, original, arguments)

    body.__doc__ = f"`{original.schema.name}` under the name of PyTorch's unchecked variant."
    return composite(_renamed(original, name), samples=original.sampler)(_with_names(body, "F", original))


for _name, _original in (
    ("unsafe_chunk", "chunk"), ("unsafe_split", "split.Tensor"), ("unsafe_split_with_sizes", "split_with_sizes"),
):  # fmt: skip
    _unsafe(_name, REGISTRY[f"aten::{_original}"])
