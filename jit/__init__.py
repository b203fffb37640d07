"""A tracing JIT compiler for tensor programs.

Write ordinary PyTorch-style code; `@jit.trace` records the operators that run into a graph, improves it, and runs it
through an interpreter or compiled kernels from then on; `jit.export_onnx` writes it as an ONNX model.

>>> import jit
>>> @jit.trace
... def f(x, y):
...     return jit.tanh(x * (x + y))
>>> a = jit.ones(2)
>>> f(a, a).tolist() == f(a, a).tolist(), f.hits
(True, 1)
"""

from __future__ import annotations

import importlib
from typing import Any

from . import ir
from .context import enable_grad, is_grad_enabled, no_grad, scope, set_grad_enabled
from .creation import asarray, from_dlpack, from_numpy, is_tensor, tensor
from .functions import public
from .generators import Generator, default_generator, get_rng_state, initial_seed, manual_seed, set_rng_state
from .ir.dtypes import (
    DType, bfloat16, complex64, complex128, float16, float32, float64, int8, int16, int32, int64, uint8,
)  # fmt: skip
from .ir.dtypes import bool_ as bool
from .ir.errors import (
    AutogradError, CompileError, DimError, DivisionError, DTypeError, Error, EscapedTracerError, ExportError, GraphError,
    ParseError, SchemaError, ShapeError, TraceError, UsageError, VerificationError,
)  # fmt: skip
from .tensors import Size, Tensor, Variable
from . import methods  # noqa: E402, F401  (completes Tensor)
from . import autograd, nn, optim  # noqa: E402
from .autograd import grad  # noqa: E402
from .tracing import trace  # noqa: E402

float = float32
double = float64
half = float16
long = int64
int = int32
short = int16

globals().update(public("jit"))

_LATER = {
    "export_onnx": "exporting", "ExportReport": "exporting", "CppOp": "native", "verify": "verifying", "load": "saving",
}  # fmt: skip
"""Public names whose modules are imported when first used."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"jit.{_LATER[name]}"), name)
    if name in ("export", "runtime", "passes", "linalg", "special"):
        return importlib.import_module(f"jit.{name}")
    raise AttributeError(f"module 'jit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "export", "runtime", "passes"})
