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

from functools import partial as _partial
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from .ir.collector import collector_resting as _collector_resting
from .late import ELSEWHERE as _ELSEWHERE
from .late import PROVIDERS as _PROVIDERS
from .late import elsewhere as _elsewhere
from .late import found_later as _found_later
from .late import late as _late

with _collector_resting():  # nothing that importing makes is garbage: searching it would take a fifth of the time
    from . import ir
    from .eager.autocasting import (
        autocast, get_autocast_dtype, is_autocast_available, is_autocast_cache_enabled, is_autocast_enabled,
    )  # fmt: skip
    from .eager.context import (
        enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, scope, set_grad_enabled,
    )  # fmt: skip
    from .eager.creation import as_tensor, asarray, from_dlpack, from_file, from_numpy, frombuffer, is_tensor, tensor
    from .eager.functions import member as _member
    from .eager.functions import names_in as _names_in
    from .eager.generators import (
        Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state,
    )  # fmt: skip
    from .ir.devices import device, get_default_device, set_default_device
    from .ir.dtypes import (
        DType, bfloat16, complex64, complex128, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
        float8_e8m0fnu, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    )  # fmt: skip
    from .ir.dtypes import bool_ as bool
    from .ir.errors import (
        AutogradError, CompileError, DimError, DivisionError, DTypeError, Error, EscapedTracerError, ExportError,
        GraphError, ParseError, SchemaError, ShapeError, TraceError, UsageError, VerificationError,
    )  # fmt: skip
    from .ir.memory_formats import MemoryFormat, channels_last, channels_last_3d, contiguous_format, preserve_format
    from .eager.tensors import Size, Tensor, Variable
    from .eager.later import Later as _Later
    from .eager.typed import ON_CPU as _ON_CPU
    from .eager.typed import ON_GPU as _ON_GPU
    from .ir.layouts import TensorLayout as _TensorLayout
    from .eager import methods
    from .library import spellings  # complete Tensor
    from . import autograd, cpu, cuda

if TYPE_CHECKING:
    from ._stubs.functions import *  # noqa: F403
    from ._stubs.names_jit import *  # noqa: F403
    from .library.spellings import *  # noqa: F403

memory_format = MemoryFormat
dtype = DType
layout = _TensorLayout
newaxis = None
float = float32
double = float64
half = float16
long = int64
int = int32
short = int16

cfloat = complex64
cdouble = complex128
has_mps = has_cuda = False

globals().update({name: getattr(spellings, name) for name in spellings.__all__})
globals().update(_ON_CPU)
vars(cuda).update(_ON_GPU)

__all__ = [
    "AutogradError", "CompileError", "DType", "DTypeError", "DimError", "DivisionError", "Error",
    "EscapedTracerError", "ExportError", "Generator", "GraphError", "ParseError", "SchemaError", "ShapeError", "Size",
    "Tensor", "TraceError", "UsageError", "Variable", "VerificationError", "amp",
    "are_deterministic_algorithms_enabled", "as_tensor", "asarray", "autocast", "autograd", "backends", "bfloat16",
    "bool", "channels_last", "channels_last_3d", "checkpoint", "checkpoint_sequential", "complex128", "complex64",
    "cond", "contiguous_format", "cpu", "default_generator", "double", "dtype", "e", "enable_grad", "finfo", "float",
    "float16", "float32", "float64", "from_dlpack", "from_file", "from_numpy", "frombuffer", "get_autocast_dtype",
    "get_rng_state", "grad", "half", "iinfo", "inf", "inference_mode", "initial_seed", "int", "int16", "int32",
    "int64", "int8", "ir", "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_enabled",
    "is_grad_enabled", "is_inference_mode_enabled", "is_tensor", "long", "manual_seed", "memory_format", "methods",
    "nan", "newaxis", "nn", "no_grad", "optim", "pi", "preserve_format", "scan", "scope", "seed", "set_grad_enabled",
    "set_rng_state", "short", "sym_float", "sym_int", "sym_sqrt", "tensor", "trace", "uint8",
    "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "use_deterministic_algorithms", "device", "get_default_device", "get_num_interop_threads",
    "get_num_threads",
    "set_default_device", "get_printoptions", "set_num_interop_threads", "set_num_threads", "set_printoptions",
    "while_loop",
]  # fmt: skip
"""The public names written by hand; operators come from the registry, see `jit.eager.functions.public`."""

_load, _loadable = _late(
    __name__,
    {
        "autograd.control_flow": "cond map scan while_loop",
        "autograd.differentiation": "grad",
        "autograd.recomputing": "checkpoint checkpoint_sequential",
        "compiler": "compile",
        "backends":
            "are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled "
            "use_deterministic_algorithms",
        "files.loading": "load",
        "files.saving": "save",
        "func.mapping": "vmap",
        "eager.parallel": "get_num_interop_threads get_num_threads set_num_interop_threads set_num_threads",
        "eager.showing": "get_printoptions set_printoptions",
        "inspection.covering": "coverage",
        "library.extreme_eigenvalues": "lobpcg",
        "library.limits": "finfo iinfo",
        "sparse.making": "sparse_coo_tensor sparse_csr_tensor",
        "sparse.products": "dsmm spmm",
        "eager.storages":
            "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage "
            "DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage TypedStorage "
            "UntypedStorage",
        "ir.layouts": "jagged sparse_bsc sparse_bsr sparse_coo sparse_csc sparse_csr strided",
        "library.program_names":
            "_assert _check _check_index _check_is_size _check_type _check_value _check_with "
            "get_deterministic_debug_mode get_float32_matmul_precision is_inference is_storage "
            "is_warn_always_enabled range set_default_dtype "
            "set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
            "set_warn_always typename",
        "library.size_numbers": "sym_float sym_int sym_sqrt",
        "native": "CppOp",
        "onnx.importing": "import_onnx",
        "tracing.decorator": "trace",
        "tracing.exporting": "ExportReport export_onnx",
        "tracing.overriding": "symbolic_override",
        "tracing.verifying": "verify",
    },
    (
        "amp", "ao", "artifacts", "backends", "compiler", "distributed", "distributions", "export", "fft", "files",
        "func", "futures", "fx", "hub", "inspection", "linalg", "masked", "nested", "nn", "onnx", "optim", "overrides",
        "passes", "quasirandom", "random", "runtime", "serialization", "signal", "sparse", "special", "tracing",
        "types", "utils",
    ),
    _partial(_member, "jit"),
)  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*_loadable(), *_names_in("jit")})


if not TYPE_CHECKING:  # a type checker would accept every misspelt name as one of these
    __getattr__ = _load

for _spelled in ("sparse_mask", "to_sparse", "to_sparse_coo", "to_sparse_csr"):
    setattr(Tensor, _spelled, _Later(_spelled, _partial(_found_later, "jit.sparse.making", _spelled)))

vars(cuda)["amp"] = _elsewhere("jit.cuda.amp", "jit.amp.cuda")
vars(cpu)["amp"] = _elsewhere("jit.cpu.amp", "jit.amp.cpu")
"""Namespaces that programs import from, `from jit.cuda.amp import GradScaler`, within modules that are no packages."""

_PROVIDERS["jit.tracing.function"] = "jit.inspection.inspected"

for _old, _new in {"tensors": "eager.tensors", "hooks": "eager.hooks", "limits": "library.limits"}.items():
    _elsewhere(f"jit.{_old}", f"jit.{_new}")
"""Former names of modules, which older pickles of tensors, networks and optimizers refer to."""
_ELSEWHERE |= {"jit.distributed.optim": "jit.optim.sharded", "jit.distributed.checkpoint": "jit.files.checkpoints"}
"""PyTorch's paths of what stands in rooms above that of the processes."""
