"""`checkpoint`, under PyTorch's path: `jit.checkpoint`, and the names that programs use beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from jit.autograd.recomputing import checkpoint, checkpoint_sequential
from jit.eager.tensors import Tensor
from jit.ir.errors import AutogradError

CheckpointError = AutogradError
"""The error for a second run that differs from the first."""


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with tensors detached, which require gradients as they did."""
    return tuple(_detached(each) if isinstance(each, Tensor) else each for each in inputs)


def _detached(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_() if tensor.requires_grad else tensor.detach()


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Two contexts that do nothing, for the first run and the second."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A block that changes nothing: second runs go to their end.

    Args:
        enable: Accepted.
    """
    yield


__all__ = [
    "CheckpointError", "checkpoint", "checkpoint_sequential", "detach_variable", "noop_context_fn",
    "set_checkpoint_early_stop",
]  # fmt: skip
