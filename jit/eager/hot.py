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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jit.ir import Graph, Op, TensorType, Value
from jit.ir.dtypes import from_numpy
from jit.ir.op import Derivative
from jit.ir.settings import current_settings
from jit.ir.types import UNDEFINED

ENOUGH = 256
"""The count from which an operator is compiled: of as many calls of small arrays, about 5 ms of numpy's."""
WEIGHT = 1 << 12
"""The elements that count as one call more."""
LEAST_CALLS = 8
"""The fewest calls that are enough, however large the arrays."""
MOST = 512
"""The most operators that are compiled: their code is kept for ever."""
FORGOTTEN = 1 << 13
"""The counts that are kept, before counting begins anew."""
COSTLY = 8
"""The instructions of a pointwise operator that numpy does in several passes."""
FEW, MANY = 1 << 8, 1 << 12
"""The elements from which on such a one counts, and any pointwise operator."""

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
    least = LEAST[op]
    return None if least is None else _by_plan(op, arrays, least)


def gradients(op: Op, needs: tuple[bool, ...], g: Any, saved: Mapping[str, Any]) -> Sequence[Any] | None:
    """The gradients of an operator's tensors by the plan of its formulas; None unless they are hot.

    Args:
        op: The operator, which is in `FORMULAS`.
        needs: For each tensor, whether its gradient is wanted.
        g: The gradient of the result.
        saved: What the formulas ask for besides, by name, tensors as arrays; several outputs as a tuple of them.
    """
    values = [g]
    for name in FORMULAS[op] or ():
        value = saved.get(name)
        if name == "out" and type(value) is tuple:
            values += value
        else:
            values.append(value)
    return _by_plan((op, needs), values, 1)


What = Op | tuple[Op, tuple[bool, ...]]
"""An operator, or its formulas for the gradients of some tensors."""


def _by_plan(what: What, values: Sequence[Any], least: int) -> Any:
    kinds, most = _kinds(what, values)
    if most < least:
        return None
    try:
        plan = _plans.get(kinds, _UNKNOWN)
    except TypeError:  # an argument that cannot be looked up
        return None
    if plan is _UNKNOWN:
        plan = _counted(kinds, most, what, values)
    return None if plan is None or current_settings().deterministic else plan(values)


_UNKNOWN = object()


class _Least(dict[Op, "int | None"]):
    """The fewest elements with which an operator pays as a native call; None if it never does."""

    def __missing__(self, op: Op) -> int | None:
        self[op] = found = _least(op)
        return found


LEAST = _Least()


class _Formulas(dict[Op, "tuple[str, ...] | None"]):
    """The names that an operator's formulas ask for, `F`, `g` and `needs` aside, if they pay as a native call."""

    def __missing__(self, op: Op) -> tuple[str, ...] | None:
        self[op] = found = _names_of(op) if _has_hot_formulas(op) else None
        return found


FORMULAS = _Formulas()


def _has_hot_formulas(op: Op) -> bool:
    if LEAST[op] is None or len(op.differentiable) > 1 or op.schema.returns[0].type.is_list:
        return False
    if op.whole_gradients is not None:
        return True
    if op.kind == "pointwise":
        return len(op.tensors) == 1 and op.kernel.cost >= COSTLY
    return op.backward is not None or (bool(op.derivatives) and op.kernel.form == "norm")


def _rules(op: Op) -> list[Derivative]:
    whole = op.backward or op.whole_gradients
    return list(op.derivatives.values()) if whole is None else [whole]


def _names_of(op: Op) -> tuple[str, ...]:
    names = dict.fromkeys(name for rule in _rules(op) for name in rule.names)
    return tuple([name for name in names if name not in ("F", "g", "needs")])


def _written(F: Any, op: Op, needs: Sequence[bool], values: Sequence[Any]) -> Sequence[Any]:
    """The gradients in operators of `F`, as far as they are wanted."""
    given: dict[str, Any] = {"F": F, "g": values[0], "needs": needs}
    rest = iter(values[1:])
    for name in FORMULAS[op] or ():
        several = name == "out" and len(op.schema.returns) > 1
        given[name] = tuple([next(rest) for _ in op.schema.returns]) if several else next(rest)
    whole = op.backward or op.whole_gradients
    if whole is not None:
        found = whole.function(*[given[name] for name in whole.names])
    else:
        rules = [op.derivatives.get(op.arguments[i].name) for i in op.tensors]
        found = [r and r.function(*[given[name] for name in r.names]) for r in rules]
    return [result if need else None for result, need in zip(found, needs, strict=True)]


def _least(op: Op) -> int | None:
    if op.kind == "view" or op.kind == "random" or op.takes_lists or op.raises or op.measures or not op.tensors:
        return None
    if op.kind == "composite":
        return 1 if op.numpy_body is not None else None
    kernel = op.kernel
    if op.kind == "pointwise":
        return FEW if kernel.cost >= COSTLY else MANY
    return 1 if kernel.terms is not None or kernel.step in _STEPS else None


def _kinds(what: Any, values: Sequence[Any]) -> tuple[Any, int]:
    """(what a plan depends on; the elements of the largest array)."""
    kinds: list[Any] = [what]
    most = 0
    for value in values:
        if type(value) is np.ndarray:
            most = max(most, value.size)
            kinds += (value.dtype.num, value.shape, value.strides)
        elif type(value) is float and not value:
            kinds.append(str(value))  # 0.0 and -0.0 are equal
        else:
            kinds += (type(value), value)
    return tuple(kinds), most


def _counted(key: Any, most: int, what: What, values: Sequence[Any]) -> Any:
    """Count a call; the plan if it was one too many."""
    count = _counts.get(key, 0) + 1 + min(most // WEIGHT, ENOUGH // LEAST_CALLS)
    if len(_counts) >= FORGOTTEN:
        _counts.clear()
    _counts[key] = count
    if count < ENOUGH or len(_plans) >= MOST or current_settings().deterministic:
        return None
    _plans[key] = plan = _plan(what, values) if os.environ.get("JIT_NATIVE", "") != "0" else None
    return plan


class _Call:
    """A native call that takes the arguments of an operator.

    Args:
        native: The call.
        reads: The places among the arguments of the arrays that it takes.
        results: The place of each result among those of the call; None for what was not wanted.
    """

    def __init__(self, native: Any, reads: list[int], results: list[int | None]) -> None:
        self._native, self._reads, self._results = native, reads, results
        self._gives_all = results == list(range(len(results)))

    def __call__(self, values: Sequence[Any]) -> Sequence[Any]:
        found: Sequence[Any] = self._native([values[place] for place in self._reads])
        return found if self._gives_all else [None if place is None else found[place] for place in self._results]


def _plan(what: What, values: Sequence[Any]) -> _Call | None:
    """The call that computes an operator or a formula for arguments like these; None if there is not one for all."""
    from jit.passes import OPTIMIZE, apply
    from jit.passes.support.builder import GraphBuilder
    from jit.runtime.kernels.fusion import supports
    from jit.runtime.plans.plan import PlannedEngine

    graph = Graph()
    F = GraphBuilder(graph)
    kernels = {"supported": supports}
    try:
        operands = [F.wrap(graph.add_input(_type(v))) if type(v) is np.ndarray else v for v in values]
        results = F.call(what, operands) if isinstance(what, Op) else _written(F, *what, operands)
        graph.set_return([_returned(r) for r in (results if isinstance(results, (list, tuple)) else [results])])
        apply(graph, OPTIMIZE, options={"distribute": kernels, "fuse": kernels})
        plan = PlannedEngine(graph)
    except Exception:  # whatever it is that cannot be compiled, numpy computes it
        return None
    native, (program,) = plan.native_call(0), plan.programs
    outputs = [None if output is None else output.index for output in program.outputs]
    if native is None or not {*outputs} <= {None, *native.results}:
        return None
    places = [place for place, value in enumerate(values) if type(value) is np.ndarray]
    reads = [places[program.inputs.index(register)] for register in native.reads]
    return _Call(native, reads, [None if register is None else native.results.index(register) for register in outputs])


def _returned(result: Any) -> Value | None:
    return None if result is None or result.value.type is UNDEFINED else result.value


def _type(array: Any) -> TensorType:
    strides = tuple([s // array.itemsize for s in array.strides])
    return TensorType(from_numpy(array.dtype), array.shape, None if array.flags.c_contiguous else strides)
