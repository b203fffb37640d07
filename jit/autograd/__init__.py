"""Differentiation: `backward`, `grad`, custom functions, numerical checks."""

from __future__ import annotations

from typing import Any

from jit.eager import derivatives
from jit.eager.context import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from jit.eager.tensors import Tensor, Variable

from . import attaching, function, functional, graph, profiler
from .anomaly import detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_detect_anomaly
from .checks import gradcheck, gradgradcheck
from .custom import Function, once_differentiable
from .differentiation import backward, grad
from .engine import queue_callback
from .recomputing import checkpoint, checkpoint_sequential
from .registered import register


def _backward_of(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradients of this tensor to `.grad` of the leaves that it depends on."""
    backward([self], [gradient], retain_graph, create_graph, inputs)


setattr(Tensor, "backward", _backward_of)  # noqa: B010  (type checkers know it from the stubs)
derivatives.autograd = attaching

__all__ = [
    "Function", "Variable", "backward", "checkpoint", "checkpoint_sequential", "detect_anomaly", "enable_grad",
    "function", "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_grad_enabled", "no_grad", "once_differentiable",
    "profiler", "queue_callback", "register", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
