"""The table of what operators are for nested tensors, by their names; see Note [Nested tensors]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.op import OVERLOADS

from .tensors import NestedTensor

FOR_EACH = (
    "celu", "dropout", "elu", "gelu", "hardtanh", "leaky_relu", "relu6", "selu", "silu", "softplus", "softsign",
    "square", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "clone", "detach",
)  # fmt: skip
"""Operators that work element by element, beside those that are declared so."""
BY_ROWS = ("embedding", "layer_norm", "linear", "rms_norm")
"""Operators on the last dims, which take all rows at once."""
MEMBER_BY_MEMBER = ("bmm", "matmul", "scaled_dot_product_attention")
"""Operators that take the members one after the other."""
_REDUCED = ("dim", "keepdim")
ALONG = {
    "amax": _REDUCED, "amin": _REDUCED, "log_softmax": ("dim", "dtype"), "mean": _REDUCED, "softmax": ("dim", "dtype"),
    "squeeze": ("dim",), "sum": _REDUCED, "transpose": ("dim0", "dim1"), "unsqueeze": ("dim",),
}  # fmt: skip
"""Operators along dims of the members, with the names of their arguments behind the first."""


def _nested(values: Any) -> Iterator[NestedTensor]:
    """The nested tensors among arguments."""
    return (value for value in values if isinstance(value, NestedTensor))


def _members(value: Any, like: NestedTensor) -> list[Any]:
    """An argument for each member: its own of a nested tensor or of a batch; else the same for all."""
    if isinstance(value, NestedTensor):
        if len(value) != len(like):
            raise ShapeError(f"nested tensors of {len(like)} and {len(value)} members do not go together")
        return list(value.unbind())
    if isinstance(value, Tensor) and value.ndim == like.ndim:
        return [value[min(number, int(value.shape[0]) - 1)] for number in range(len(like))]
    return [value] * len(like)


def _member_by_member(name: str, args: Any, kwargs: Mapping[str, Any]) -> NestedTensor:
    like = next(_nested((*args, *kwargs.values())))
    columns = [_members(value, like) for value in (*args, *kwargs.values())]
    results = []
    for row in zip(*columns, strict=True):
        results.append(getattr(F, name)(*row[: len(args)], **dict(zip(kwargs, row[len(args) :], strict=True))))
    return NestedTensor.of(results, like.layout)


def _each_member(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: _member_by_member(name, args, kwargs)


def _for_each(name: str) -> Callable[..., Any]:
    def apply(*args: Any, **kwargs: Any) -> NestedTensor:
        values = (*args, *kwargs.values())
        like = next(_nested(values))
        others = [value for value in values if isinstance(value, (Tensor, NestedTensor))]
        if not all(each.sizes == like.sizes if isinstance(each, NestedTensor) else not each.ndim for each in others):
            return _member_by_member(name, args, kwargs)
        held = [value.held if isinstance(value, NestedTensor) else value for value in values]
        options = dict(zip(kwargs, held[len(args) :], strict=True))
        return like.holding(getattr(F, name)(*held[: len(args)], **options))

    return apply


def _by_rows(name: str) -> Callable[..., Any]:
    def apply(*args: Any, **kwargs: Any) -> NestedTensor:
        like = next(_nested((*args, *kwargs.values())))
        rows = like.rows()
        if rows is None or sum(1 for _ in _nested((*args, *kwargs.values()))) > 1:
            return _member_by_member(name, args, kwargs)
        given = [rows if value is like else value for value in args]
        options = {key: rows if value is like else value for key, value in kwargs.items()}
        return like.of_rows(getattr(F, name)(*given, **options))

    return apply


def _along(name: str, names: tuple[str, ...]) -> Callable[..., Any]:
    def apply(self: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
        options = {**dict(zip(names, args)), **kwargs}
        for each in names:
            if each.startswith("dim"):
                options[each] = _inner(name, self.ndim + (name == "unsqueeze"), options.get(each))
        return NestedTensor.of([getattr(F, name)(member, **options) for member in self.unbind()], self.layout)

    return apply


def _inner(name: str, ndim: int, dim: Any) -> Any:
    """A dim, or several, of a nested tensor of `ndim` dims as one of its members."""
    if isinstance(dim, (list, tuple)):
        return [_inner(name, ndim, each) for each in dim]
    if dim is None or not wrap_dim(dim, ndim):
        raise UsageError(f"{name} of a nested tensor needs a dim of its members, from 1 on, not {dim}; or pad it")
    return wrap_dim(dim, ndim) - 1


SPECIAL: dict[str, Callable[..., Any]] = {
    **{name: _for_each(name) for name in FOR_EACH},
    **{name: _by_rows(name) for name in BY_ROWS},
    **{name: _each_member(name) for name in MEMBER_BY_MEMBER},
    **{name: _along(name, names) for name, names in ALONG.items()},
    "unbind": NestedTensor.unbind,
}


class AnswersOfNested(Mapping[str, Callable[..., Any]]):
    """The table: `SPECIAL`, and all operators that work element by element."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in SPECIAL:
            return SPECIAL[name]
        if "pointwise" in {op.kind for op in OVERLOADS.get(name, ())}:
            return _for_each(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(SPECIAL)

    def __len__(self) -> int:
        return len(SPECIAL)


ANSWERS = AnswersOfNested()

__all__ = ["ANSWERS"]
