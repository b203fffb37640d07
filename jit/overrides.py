"""`jit.overrides`: whether objects take part in the functions of tensors. Tensors do, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .eager.tensors import Tensor
from .ir.errors import UsageError


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(inp, Tensor)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the objects answers for functions of tensors itself: none does.

    Args:
        relevant_args: Any objects.
    """
    return False


has_torch_function_unary = has_torch_function_variadic = lambda *args: False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """Refuse to hand a call to its arguments, of which none answers.

    Args:
        public_api: The function.
        relevant_args: The arguments that might answer.
        args: All arguments by position.
        kwargs: All arguments by name.

    Raises:
        UsageError: Always.
    """
    raise UsageError("objects do not answer for functions of tensors here; convert them to tensors first")


__all__ = [
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
    "is_tensor_like",
]  # fmt: skip
