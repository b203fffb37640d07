"""Operators that a program calls again and again on arrays of the same kinds, as native calls.

Note [Hot operators]
    A layer norm takes a dozen passes of numpy's, a convolution lays its patches out anew, and a kernel does either in a
    fraction of the time, but takes tens of milliseconds to compile. So calls are counted by operator, numbers and
    layouts, larger arrays for more; from `ENOUGH` on the graph of that one operator is compiled as any other graph is,
    and its plan answers further calls. What has no plan of a single native call, stays with numpy for good.

    Elements are then those of traced programs: within the tolerances of kernels of what numpy computes. As calls are
    counted, not timed, a program that runs twice gives the same bits twice. `settings.deterministic` and `JIT_NATIVE=0`
    leave all of it to numpy, and so does a trace: a recording holds what the interpreter will compute.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from jit.ir import Graph, Op, TensorType, Value
from jit.ir.dtypes import from_numpy
from jit.ir.errors import Error
from jit.ir.settings import current_settings
from jit.ir.types import UNDEFINED

ENOUGH = 256
"""The count from which an operator is compiled: of as many calls of small arrays, about 5 ms of numpy's."""
WEIGHT = 1 << 12
"""The elements that count as one call more."""
MOST = 512
"""The most operators that are compiled: their code is kept for ever."""
FORGOTTEN = 1 << 13
"""The counts that are kept, before counting begins anew."""
COSTLY = 8
"""The instructions of a pointwise operator that numpy does in several passes."""
MANY = 1 << 14
"""The elements from which on any pointwise operator counts."""

_STEPS = frozenset((
    "convolution", "convolution gradients", "maxima", "maxima gradients", "means", "attention", "attention gradients",
))  # fmt: skip

_counts: dict[Any, int] = {}
_plans: dict[Any, Any] = {}
"""The plan of each operator that was hot; None if there is none."""


def computed(op: Op, arrays: Sequence[Any]) -> list[Any] | None:
    """The results of an operator by its plan; None unless it is hot.

    Args:
        op: The operator.
        arrays: Its arguments, tensors as arrays.
    """
    least = _least(op)
    if least is None:
        return None
    key, most = _kinds(op, arrays)
    if most < least or key is None:
        return None
    plan = _plans.get(key, _UNKNOWN)
    if plan is _UNKNOWN:
        plan = _counted(key, most, op, arrays)
    if plan is None or current_settings().deterministic:
        return None
    found: list[Any] = plan.run(0, [array for array in arrays if type(array) is np.ndarray])[0]
    return found


_UNKNOWN = object()


@cache
def _least(op: Op) -> int | None:
    """The fewest elements with which an operator pays as a native call; None if it never does."""
    if op.kind == "view" or op.kind == "random" or op.takes_lists or op.raises or op.measures or not op.tensors:
        return None
    kernel = op.kernel
    if op.kind == "pointwise":
        return WEIGHT if kernel.cost >= COSTLY else MANY
    return 1 if kernel.terms is not None or kernel.step in _STEPS else None


def _kinds(op: Op, arrays: Sequence[Any]) -> tuple[Any, int]:
    """(what a plan depends on, or None if there is none for such arguments; the elements of the largest array)."""
    kinds: list[Any] = [op]
    most = 0
    for value in arrays:
        if type(value) is np.ndarray:
            most = max(most, value.size)
            kinds += (value.dtype.num, value.shape, value.strides)
        elif type(value) is float and not value:
            kinds.append(str(value))  # 0.0 and -0.0 are equal
        else:
            kinds += (type(value), value)
    return tuple(kinds), most


def _counted(key: Any, most: int, op: Op, arrays: Sequence[Any]) -> Any:
    """Count a call; the plan if it was one too many."""
    try:
        count = _counts.get(key, 0) + 1 + most // WEIGHT
    except TypeError:  # an argument that cannot be looked up
        return None
    if len(_counts) >= FORGOTTEN:
        _counts.clear()
    _counts[key] = count
    if count < ENOUGH or len(_plans) >= MOST or current_settings().deterministic:
        return None
    _plans[key] = plan = _plan(op, arrays) if os.environ.get("JIT_NATIVE", "") != "0" else None
    return plan


def _plan(op: Op, arrays: Sequence[Any]) -> Any:
    """The plan of an operator for arguments like these; None if it is more than one native call."""
    from jit.passes import OPTIMIZE, run
    from jit.passes.support.builder import GraphBuilder
    from jit.runtime.kernels.fusion import supports
    from jit.runtime.plans.plan import PlannedEngine

    graph = Graph()
    F = GraphBuilder(graph)
    kernels = {"supported": supports}
    try:
        operands = [F.wrap(graph.add_input(_type(a))) if type(a) is np.ndarray else a for a in arrays]
        results = F.call(op, operands)
        graph.set_return([_returned(r.value) for r in (results if isinstance(results, list) else [results])])
        run(graph, OPTIMIZE, options={"distribute": kernels, "fuse": kernels})
        plan = PlannedEngine(graph)
    except Error:
        return None
    (program,) = plan.programs
    return plan if len(program.instructions) == len(plan.natives[0]) == 1 else None


def _returned(value: Value) -> Value | None:
    return None if value.type is UNDEFINED else value


def _type(array: Any) -> TensorType:
    strides = tuple([s // array.itemsize for s in array.strides])
    return TensorType(from_numpy(array.dtype), array.shape, None if array.flags.c_contiguous else strides)
