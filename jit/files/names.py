"""The names in files of torch, and what they mean here: nothing that is not in these tables is ever looked up.

`KNOWN` says what a name stands for, and `MAKERS` how such a thing is called; both serve reading. Writing goes the other
way: an object of this package is pickled by its own name first, and `written` puts torch's name in its place.
"""

from __future__ import annotations

import io
import pickletools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from jit.eager.tensors import Size, Tensor
from jit.ir import dtypes
from jit.ir.devices import device
from jit.ir.random_state import RandomState

from ..nn import Parameter
from . import plain_data, rebuilding
from .rebuilding import STORAGES, UNTYPED

TORCH: dict[str, Any] = {
    "torch._utils._rebuild_tensor_v2": rebuilding.rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": rebuilding.rebuild_tensor_of_dtype,
    "torch._utils._rebuild_parameter": rebuilding.rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuilding.rebuild_parameter_with_state,
    "torch._utils._rebuild_tensor": rebuilding.rebuild_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuilding.rebuild_without_elements,
    "torch._utils._rebuild_sparse_tensor": rebuilding.rebuild_sparse,
    "torch.serialization._get_layout": rebuilding.layout_of,
    "torch._tensor._rebuild_from_type_v2": rebuilding.rebuild_subclass,
    "torch.Size": Size,
    "torch.device": device,
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.storage.UntypedStorage": UNTYPED,
    "torch.UntypedStorage": UNTYPED,
    "torch.storage._UntypedStorage": UNTYPED,
    **{f"torch.{dtype.name}": dtype for dtype in dtypes.KNOWN},
    **{f"torch.{name}": kind for name, kind in STORAGES.items()},
    **{f"torch.cuda.{name}": kind for name, kind in STORAGES.items()},
}
PYTHON: dict[str, Any] = {
    **{f"collections.{kind.__name__}": kind for kind in (OrderedDict, defaultdict, Counter, deque)},
    **{
        f"builtins.{kind.__name__}": kind
        for kind in (set, frozenset, list, tuple, dict, int, float, bool, str, bytes, bytearray, complex, range, slice)
    },
    "_codecs.encode": plain_data.made_bytes,
    "jit.ir.random_state.RandomState": RandomState,
    "numpy.dtype": np.dtype,
    "numpy.ndarray": np.ndarray,
    **{
        f"numpy.{core}.{name}": maker
        for core in ("core", "_core")
        for name, maker in (
            ("multiarray.scalar", plain_data.made_scalar),
            ("multiarray._reconstruct", plain_data.begun_array),
            ("numeric._frombuffer", plain_data.array_of_buffer),
        )
    },
}
KNOWN = TORCH | PYTHON

_CALLED: tuple[tuple[Any, Callable[..., Any]], ...] = (
    *((maker, maker) for name, maker in KNOWN.items() if callable(maker) and not isinstance(maker, type)),
    (OrderedDict, plain_data.made_ordered),
    (defaultdict, plain_data.made_default),
    (Counter, plain_data.made_counter),
    (deque, plain_data.made_deque),
    (set, plain_data.made_set),
    (frozenset, plain_data.made_frozen_set),
    (list, plain_data.made_list),
    (tuple, plain_data.made_tuple),
    (dict, plain_data.made_dictionary),
    (bytes, plain_data.made_bytes),
    (bytearray, plain_data.made_byte_array),
    (complex, plain_data.made_complex),
    (range, plain_data.made_range),
    (slice, plain_data.made_slice),
    (np.dtype, plain_data.made_dtype),
    (Size, plain_data.made_size),
    (device, plain_data.made_device),
    (RandomState, plain_data.made_random_state),
)
MAKERS = {id(called): maker for called, maker in _CALLED}
"""The function that makes what a call of a known thing makes, by the identity of that thing."""

_ELSEWHERE = {
    "torch._utils._rebuild_qtensor": "a quantized tensor; save its dequantize()",
    "torch._utils._rebuild_nested_tensor": "a nested tensor; save its unbind()",
    "torch._utils._rebuild_device_tensor_from_numpy": "a tensor of an accelerator that is not known; save its cpu()",
    "torch._utils._rebuild_wrapper_subclass": "a tensor of a class of its own; save its data alone",
    "torch._tensor._rebuild_from_type": "a tensor of a class of its own; save its data alone",
    "torch.nn.parameter.UninitializedParameter": "a parameter without sizes; run the module once before you save it",
}
"""Things that torch has and this package has not, by their names in files."""


def absent(name: str) -> str | None:
    """The thing that a name of torch stands for and that is not here, and the way out; None if it is not known."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    module, _, last = name.rpartition(".")
    foreign = ("Q", "q", "float8", "float4", "uint", "bits", "complex32")
    if module in ("torch", "torch.cuda") and last.startswith(foreign):
        return f"elements of {name}, which tensors do not have here; convert them before you save them"
    return None


def name_of(thing: Any) -> str:
    """The name of a dtype, a kind of storages, a class or a function in its module, under which `pickle` writes it."""
    if isinstance(thing, dtypes.DType):
        return "bool_" if thing is dtypes.bool_ else thing.name
    return thing.name if isinstance(thing, rebuilding.StorageKind) else thing.__qualname__


_WRITTEN: dict[str, str] = {}
for _name, _thing in TORCH.items():
    _WRITTEN.setdefault(f"{_thing.__module__} {name_of(_thing)}", " ".join(_name.rsplit(".", 1)))


def written(pickle: bytes) -> bytes:
    """A pickle of protocol 2 in which torch's names stand for those of this package."""
    parts, done = [], 0
    for opcode, argument, position in pickletools.genops(io.BytesIO(pickle)):
        if opcode.name == "GLOBAL" and argument in _WRITTEN and position is not None:
            text = "c" + _WRITTEN[argument].replace(" ", "\n") + "\n"
            parts += [pickle[done:position], text.encode()]
            done = position + len(argument) + 2
    return b"".join([*parts, pickle[done:]])
