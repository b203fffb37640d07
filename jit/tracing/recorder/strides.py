"""Strides of traced tensors as products of sizes, for code of this package that decides on them: see Note [Strides].

Note [Strides]
    `reshape` asks how a tensor lies in memory, and a plain number in that question would pin the recording to its
    sizes. Whatever shows all of a memory without gaps lies in some order of its dims, and that order is the same for
    all sizes: each stride is the product of the sizes behind it, or 0 where the tensor is expanded. Where a window was
    cut out on the way, the way is gone with traced sizes. What fits neither is left as plain numbers.

        y = (x * 1).transpose(0, 1)       sizes (%n, %m), strides (1, %n)
        y = (x * 1)[:, :2]                sizes (%n, 2), strides (%m, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager.proxies import concrete
from jit.eager.tensors import Tensor
from jit.ir import TensorType
from jit.ir.geometry import Geometry

from . import measuring
from .memory import Binding
from .recording_trace import RecordingTrace

Strides = tuple[Any, ...]


def own_strides(trace: RecordingTrace, tensor: Tensor, plain: tuple[int, ...]) -> Strides:
    """The strides of which `plain` are the numbers: traced where sizes make them."""
    binding = trace.memory.binding(tensor)
    if binding is None or 0 in tensor._array.shape:
        return plain
    if all(step.op.shows_all for step in binding.path):
        found = dense_strides(measuring.sizes_of(trace, tensor), plain)
    else:
        geometry = geometry_behind(trace, binding)
        found = None if geometry is None else geometry.strides
    return found if found is not None and tuple(map(concrete, found)) == plain else plain


def dense_strides(sizes: Sequence[Any], plain: Sequence[int]) -> Strides | None:
    """Products of `sizes` that are the strides `plain` of rows without gaps in some order; None if there are gaps."""
    strides, step = [0] * len(plain), 1
    for dim in sorted(range(len(plain)), key=lambda d: (plain[d], -d)):
        if plain[dim] == 0:
            continue
        if plain[dim] != concrete(step):
            return None
        strides[dim] = step
        step = sizes[dim] if type(step) is int and step == 1 else step * sizes[dim]
    return tuple(strides)


def geometry_behind(trace: RecordingTrace, binding: Binding) -> Geometry | None:
    """The place of a view in its memory, in traced numbers, by the way that leads there; None if unknown."""
    root = binding.cell.root
    _, sizes, steps = binding.cell.geometry
    if not isinstance(root.type, TensorType) or root.type.dtype is None:
        return None
    traced: tuple[Any, ...] = tuple(measuring.traced_size(trace, root, dim, size) for dim, size in enumerate(sizes))
    strides = dense_strides(traced, [step // root.type.dtype.itemsize for step in steps])
    geometry = None if strides is None else Geometry(traced, strides)
    for step in binding.path:
        if geometry is None or step.op.kind != "view" or step.op.is_absolute:
            return None
        shown = step.op.body(geometry, *trace.scalars.arguments(step))
        geometry = shown[step.index] if isinstance(shown, list) else Geometry(*shown)
    return geometry
