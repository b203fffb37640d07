"""`torch._C`: the few names of PyTorch's native part that programs ask for."""

from __future__ import annotations

from typing import Any

import jit
from jit.eager import context

Generator = jit.Generator
TensorBase = _TensorBase = jit.Tensor
Size = jit.Size
device = jit.device
dtype = jit.dtype


def _log_api_usage_once(*_: Any) -> None:
    """Nothing: nobody counts."""


def _get_tracing_state() -> Any:
    """The trace that records now, or None."""
    return context.TRACE.get()


def _nothing(*_: Any) -> None:
    """Nothing: a setting of TorchScript's."""


_jit_set_profiling_mode = _jit_set_profiling_executor = _jit_override_can_fuse_on_cpu = _nothing
_jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _nothing
_debug_set_autodiff_subgraph_inlining = _set_graph_executor_optimize = _nothing


def _get_default_device() -> str:
    """The kind of the default device."""
    return str(jit.get_default_device().type)
