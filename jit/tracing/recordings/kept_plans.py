"""Keeps plans in the cache on disk: the next process that records the same graph runs the plan of the first one.

Note [What decides on a plan]
    A plan is made of a recording's graph and composites by the passes, the fusion, the schedules and the planner. So
    its name is a digest of the graph as plain data - operators, operands, types, constants in full; not the names of
    values and not the user's lines -, of the sources of all that makes plans of it, of versions and processor (as for
    kernels, see `jit.runtime.kernels.recipes`), and of the number of threads. A graph with anything else in it has no
    name and is planned anew in every process: calls of Python, operators declared elsewhere, checkpoints.
"""

from __future__ import annotations

import hashlib
import marshal
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.dtypes import DType
from jit.ir.graph import Ref
from jit.ir.sizes import SizeExpr, any_symbolic
from jit.runtime.arrays.programs import Engine
from jit.runtime.kernels import cache, recipes
from jit.runtime.plans import entry
from jit.runtime.plans.threads import planned_count
from jit.runtime.targets.target import Target

from ..recorder.tracer import Trace
from .aliasing import Aliasing
from .chains import Plan

_LARGEST = 1 << 24
"""The most bytes of a plan that is kept: one with larger constants is not worth its place."""
_SIDES = ("needed", "exposed", "copied")


def name_of(trace: Trace) -> str | None:
    """The name of a recording's plan; None if it has none, or if plans are not kept."""
    return None if trace.tape.checkpoints else _named("plan", lambda: _recording(trace))


def name_of_sized(graph: Graph, circumstances: tuple[Any, ...]) -> str | None:
    """The name of the plans of a graph with names for sizes; None if they have none, or if plans are not kept."""
    return _named("sized plans", lambda: (_graph(graph, {}), circumstances))


def _named(kind: str, plain: Callable[[], tuple[Any, ...]]) -> str | None:
    """The name of what plain data decide on, besides this machine and this process."""
    switched = {name for name in ("JIT_NATIVE", "JIT_NATIVE_CALLS", "JIT_DUMP") if os.environ.get(name)}
    if switched or cache.shared() is None or not entry.available():
        return None
    try:
        text = marshal.dumps(plain(), 2)  # of this version, equal things have equal bytes
    except (recipes.UnknownRecipe, ValueError):
        return None
    return recipes.name_of([f"{kind} {planned_count()} {hashlib.sha256(text).hexdigest()}"], Target.host())


def recalled(name: str, source: Callable[[], Graph], make: Callable[[Graph], Engine]) -> Plan | None:
    """The plan that is kept under a name; None if there is none that runs here.

    Args:
        name: The name, as `name_of` gives it.
        source: The graph that the recording has now.
        make: Makes an engine for that graph.
    """
    kept = cache.shared()
    data = kept.load(name) if kept is not None else None
    if data is None:
        return None
    from jit.runtime.plans.restored import RestoredEngine, in_memory, unpack

    head, block = unpack(data)
    memory = in_memory(head, block)
    if memory is None:
        return None
    sides = ({(stage, index) for stage, index in head[side]} for side in _SIDES)
    return Plan(RestoredEngine(head, memory, source, make), Aliasing(*sides))


def turn(name: str | None) -> AbstractContextManager[None]:
    """A block in which no other process makes the plan `name`; it may have made it before."""
    kept = cache.shared()
    return nullcontext() if kept is None or name is None else kept.turn(name)


def keep(name: str, plan: Plan) -> bool:
    """Store a plan for other processes, if it is plain data; whether it was."""
    from jit.runtime.plans.plan_image import Unkeepable, image_of
    from jit.runtime.plans.restored import pack

    kept = cache.shared()
    try:
        head, block = image_of(plan.interpreter)  # type: ignore[arg-type]  # whatever is compiled is planned
    except Unkeepable:
        return False
    if kept is None or len(block) > _LARGEST:
        return False
    kept.store(name, pack({**head, **{side: sorted(getattr(plan.memory, side)) for side in _SIDES}}, block))
    return True


# -- graphs as plain data ----------------------------------------------------------------------------------------


def _recording(trace: Trace) -> tuple[Any, ...]:
    numbers: dict[Value, int] = {}
    graph = _graph(trace.graph, numbers)
    nodes = {node: index for index, node in enumerate(trace.graph.nodes)}
    composites = [
        (nodes[c.node], tuple(nodes[part] for part in c.parts), tuple(numbers[value] for value in c.taken))
        for c in trace.tape.composites
    ]
    return graph, tuple(composites)


def _graph(graph: Graph, numbers: dict[Value, int]) -> tuple[Any, ...]:
    """Inputs, nodes and returns; values are numbers."""
    inputs = tuple(tuple(_type(value) for value in stage.inputs) for stage in graph.stages)
    for stage in graph.stages:
        for value in stage.inputs:
            numbers[value] = len(numbers)
    known: dict[str, bool] = {}
    nodes = []
    for node in graph.nodes:
        if not known.setdefault(node.kind, node.kind.startswith("prim::") or recipes.is_ours(node.kind)):
            raise recipes.UnknownRecipe(node.kind)
        nodes.append((node.kind, node.stage, *_operands(node, numbers), tuple(map(_type, node.outputs))))
        for value in node.outputs:
            numbers[value] = len(numbers)
    return inputs, tuple(nodes), tuple(_operands(stage.result, numbers) for stage in graph.stages)


def _operands(node: Node, numbers: dict[Value, int]) -> tuple[Any, ...]:
    return _plain(node.args), _plain(node.attributes), tuple([numbers[value] for value in node.inputs])


def _type(value: Value) -> Any:
    type_ = value.type
    if type(type_) is TensorType:
        return type_.dtype and type_.dtype.name, _sizes(type_.shape), _sizes(type_.strides), type_.device
    return str(type_)


def _sizes(shape: Any) -> Any:
    return shape if shape is None or not any_symbolic(shape) else _plain(shape)


def _plain(thing: Any) -> Any:
    """Plain data that no other value has: what is neither scalar nor tuple is a list that begins with its kind."""
    kind = type(thing)
    if kind in _SCALARS:
        return thing
    if kind is Ref:
        return ["%", thing.index]
    if kind is tuple:
        return tuple([_plain(item) for item in thing])
    if kind is dict:
        return ["dict", *[(_plain(key), _plain(item)) for key, item in thing.items()]]
    if kind is DType:
        return ["dtype", thing.name]
    if kind is SizeExpr:
        return ["size", str(thing)]
    if kind is np.ndarray and not thing.dtype.hasobject:
        contents = hashlib.sha256(np.ascontiguousarray(thing).view(np.uint8).data if thing.size else b"").digest()
        return ["array", thing.dtype.name, thing.dtype.str, thing.shape, thing.strides, contents]
    if kind is Graph:
        return ["graph", _graph(thing, {})]
    raise recipes.UnknownRecipe(kind.__name__)


_SCALARS = frozenset((int, float, complex, bool, str, type(None)))
