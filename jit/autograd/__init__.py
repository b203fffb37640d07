"""Differentiation: `backward`, `grad`, custom functions, numerical checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jit.eager import derivatives
from jit.eager.context import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from jit.eager.later import Later
from jit.eager.tensors import Tensor, Variable
from jit.late import elsewhere, late

from . import attaching

if TYPE_CHECKING:
    from jit._stubs.names_autograd import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "anomaly": "detect_anomaly is_anomaly_check_nan_enabled is_anomaly_enabled set_detect_anomaly",
            "checks": "gradcheck gradgradcheck",
            "custom": "Function once_differentiable",
            "differentiation": "backward grad",
            "engine": "queue_callback",
            "recomputing": "checkpoint checkpoint_sequential",
            "registered": "register",
        },
        ("forward_ad", "function", "functional", "graph", "profiler"),
    )


def _backward() -> Callable[..., None]:
    from .differentiation import backward

    def of_tensor(
        self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: Any = None,
    ) -> None:  # fmt: skip
        """Add the gradients of this tensor to `.grad` of the leaves that it depends on."""
        backward([self], [gradient], retain_graph, create_graph, inputs)

    return of_tensor


setattr(Tensor, "backward", Later("backward", _backward))  # noqa: B010  (type checkers know it from the stubs)
derivatives.autograd = attaching
variable = elsewhere(f"{__name__}.variable", "jit.eager.tensors")
"""The file of PyTorch from which old programs import `Variable`."""


class _ExecutionEngine:
    """The engine of backward, as libraries reach it: `Variable._execution_engine.queue_callback(f)`."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call `callback` at the end of the backward that is running."""
        from .engine import queue_callback

        queue_callback(callback)


setattr(Variable, "_execution_engine", _ExecutionEngine())  # noqa: B010
grad_mode = elsewhere(f"{__name__}.grad_mode", "jit.eager.context")
"""The module from which programs import `no_grad` and its like."""

__all__ = [
    "Function", "Variable", "backward", "checkpoint", "checkpoint_sequential", "detect_anomaly", "enable_grad",
    "function", "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_grad_enabled", "no_grad", "once_differentiable",
    "profiler", "queue_callback", "register", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
