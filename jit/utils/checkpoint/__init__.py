"""`checkpoint`, under PyTorch's path: `jit.checkpoint`, and the names that programs use beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from jit.autograd.recomputing import checkpoint, checkpoint_sequential
from jit.eager.context import warn
from jit.eager.tensors import Tensor
from jit.ir.errors import AutogradError

CheckpointError = AutogradError
"""The error for a second run that differs from the first."""


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with tensors detached, which require gradients as they did."""
    return tuple(_detached(each) if isinstance(each, Tensor) else each for each in inputs)


def _detached(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_() if tensor.requires_grad else tensor.detach()


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor of the inputs requires gradients."""
    if not any(isinstance(each, Tensor) and each.requires_grad for each in inputs):
        warn("none of the inputs of the checkpoint requires gradients, so they will have none")


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices of the arguments that have a generator of their own, and its states: none has.

    Args:
        args: Accepted; tensors on every device draw from one generator, see `jit.get_rng_state`.
    """
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Continue the generators of devices from states that `get_device_states` gave; there are none.

    Args:
        devices: Accepted.
        states: Accepted.
        device_type: Accepted.
    """


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
    "CheckpointError", "check_backward_validity", "checkpoint", "checkpoint_sequential", "detach_variable",
    "get_device_states", "noop_context_fn", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip
