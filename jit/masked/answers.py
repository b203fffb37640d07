"""The table of what operators are for masked tensors, by their names; most of it follows from declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError
from jit.ir.geometry import wrap_dims
from jit.ir.op import OVERLOADS

from . import normalisations, reductions
from .tensors import MaskedTensor

MOVING = (
    "broadcast_to", "cat", "chunk", "concat", "flatten", "flip", "gather", "hstack", "index_select",
    "moveaxis", "movedim", "repeat", "reshape", "roll", "split", "stack", "take_along_dim", "tile", "unflatten",
    "view_as", "vstack", "where", "contiguous", "clone",
)  # fmt: skip
"""Operators that only move elements, beside those that make views."""
FOR_EACH = ("celu", "elu", "gelu", "hardtanh", "leaky_relu", "relu6", "selu", "silu", "softplus", "softsign", "square")
"""Composites that work element by element, beside the operators that are declared so."""
REDUCING = ("amax", "amin", "argmax", "argmin", "mean", "prod", "std", "sum", "var")
KEEPING = ("cumprod", "cumsum", "log_softmax", "softmax")
"""Functions of this package in place of operators; results of reductions are hidden where nothing was left."""


def _masked(values: Any) -> Iterator[MaskedTensor]:
    """The masked tensors among arguments, and in lists of them."""
    for value in values:
        if isinstance(value, MaskedTensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _masked(value)


def _each(value: Any, part: str) -> Any:
    """An argument with the values, or the masks, of masked tensors in place of them."""
    if isinstance(value, MaskedTensor):
        return getattr(value, part)
    return type(value)(_each(each, part) for each in value) if type(value) in (list, tuple) else value


def _on(part: str, name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
    options = {key: _each(value, part) for key, value in kwargs.items()}
    return getattr(F, name)(*(_each(value, part) for value in args), **options)


def _for_each(name: str) -> Callable[..., Any]:
    def apply(*args: Any, **kwargs: Any) -> MaskedTensor:
        first, *others = _masked((*args, *kwargs.values()))
        for other in others:
            if tuple(first.shape) != tuple(other.shape) or not bool(F.all(F.eq(first.mask, other.mask))):
                raise UsageError(f"{name}: the masks of the operands differ; give one of them get_data() of the other")
        result = _on("held", name, args, kwargs)
        return MaskedTensor.over(result, F.expand(first.mask, list(result.shape)))

    return apply


def _moving(name: str) -> Callable[..., Any]:
    def apply(*args: Any, **kwargs: Any) -> Any:
        values, masks = _on("held", name, args, kwargs), _on("mask", name, args, kwargs)
        if isinstance(values, Tensor):
            return MaskedTensor.over(values, masks)
        return tuple(map(MaskedTensor.over, values, masks))

    return apply


def _reduced(self: MaskedTensor, result: Any, dim: Any, keepdim: bool) -> MaskedTensor:
    dims = sorted(wrap_dims(tuple(dim) if isinstance(dim, list) else dim, self.mask.ndim))
    return MaskedTensor.over(result, F.ne(F.sum(self.mask, dims, keepdim), 0))


def _reducing(name: str) -> Callable[..., Any]:
    def apply(self: MaskedTensor, dim: Any = None, keepdim: bool = False, **options: Any) -> MaskedTensor:
        return _reduced(self, getattr(reductions, name)(self, dim, keepdim=keepdim, **options), dim, keepdim)

    return apply


def _norm(self: MaskedTensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **options: Any) -> MaskedTensor:
    order = 2.0 if p == "fro" else p
    return _reduced(self, reductions.norm(self, order, dim, keepdim=keepdim, **options), dim, keepdim)


def _all(self: MaskedTensor, dim: Any = None, keepdim: bool = False) -> MaskedTensor:
    failing = reductions.sum(F.eq(self.held, 0), dim, keepdim=keepdim, mask=self.mask)
    return _reduced(self, F.eq(failing, 0), dim, keepdim)


def _keeping(name: str) -> Callable[..., Any]:
    def apply(self: MaskedTensor, *args: Any, **options: Any) -> MaskedTensor:
        return self.holding(getattr(normalisations, name)(self, *args, **options))

    return apply


def _contiguous(self: MaskedTensor, memory_format: Any = None) -> MaskedTensor:
    return MaskedTensor.over(F.contiguous(self.held), F.contiguous(self.mask))


SPECIAL: dict[str, Callable[..., Any]] = {
    **{name: _reducing(name) for name in REDUCING},
    **{name: _keeping(name) for name in KEEPING},
    **{name: _moving(name) for name in MOVING},
    **{name: _for_each(name) for name in FOR_EACH},
    "norm": _norm, "all": _all,
    "detach": MaskedTensor.detach,
}  # fmt: skip


class AnswersOfMasked(Mapping[str, Callable[..., Any]]):
    """The table: `SPECIAL`, and all operators that work element by element or make views."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in SPECIAL:
            return SPECIAL[name]
        kinds = {op.kind for op in OVERLOADS.get(name, ())}
        if "pointwise" in kinds:
            return _for_each(name)
        if "view" in kinds:
            return _moving(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(SPECIAL)

    def __len__(self) -> int:
        return len(SPECIAL)


ANSWERS = AnswersOfMasked()

__all__ = ["ANSWERS"]
