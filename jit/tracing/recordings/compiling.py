"""Compiling of a recorded graph: which passes, in which order, and what they made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from jit.ir import Graph, TensorType, Value
from jit.ir.collector import collector_resting
from jit.passes import OPTIMIZE, Result, apply, find_pass, run
from jit.runtime.arrays.interpreter import Host, Interpreter
from jit.runtime.arrays.programs import Engine
from jit.runtime.plans.optimising import optimised as optimise
from jit.runtime.plans.optimising import pass_options, supported


def unoptimised(graph: Graph) -> Graph:
    """The graph as it was recorded: runs bit for bit as eager mode does."""
    return graph


def engine(graph: Graph, optimised: bool, host: Host) -> Engine:
    """The engine of a graph: native code where it was optimised, else the interpreter alone, bit for bit as eager mode.

    `JIT_NATIVE=0` leaves out native code.
    """
    if not optimised or os.environ.get("JIT_NATIVE", "") == "0":
        return Interpreter(graph, host)
    from jit.runtime.plans.plan import PlannedEngine

    if not is_on_host(graph):
        kind = _stretches(graph)
        return Interpreter(graph, host) if kind is None else PlannedEngine(graph, host, kind)
    with collector_resting():
        made = PlannedEngine(graph, host)
    if folder := os.environ.get("JIT_DUMP"):
        from jit.runtime.plans.views import dump

        dump(made, folder)
    return made


def _stretches(graph: Graph) -> Any:
    """The kind of stretches of a graph on a GPU; None if it is on several, or native code launches no kernels there."""
    types = [value.type for node in graph.nodes for value in (*node.inputs, *node.outputs)]
    devices = {t.device for t in types if isinstance(t, TensorType) and t.device not in (None, "cpu")}
    if len(devices) != 1:
        return None
    from jit.runtime.cuda.stretches import stretches_on

    return stretches_on(str(devices.pop()))


def titled_graphs(graph: Graph) -> list[Result]:
    """One titled graph per pass of the pipeline, applied to a copy of `graph`."""
    return run(graph.clone(), OPTIMIZE, options=pass_options())


def improvements(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The graph as it is, and after each pass that changes it, with a title: one copy, changed in place."""
    improved, options = graph.clone(), pass_options()
    yield "recorded", improved
    for name in OPTIMIZE:
        with collector_resting():
            changed = find_pass(name)(improved, **options.get(name, {}))
        if changed:
            yield name, improved


def before(graph: Graph, name: str) -> Graph:
    """A copy of the graph as the pass called `name` gets it."""
    improved = graph.clone()
    apply(improved, OPTIMIZE[: OPTIMIZE.index(name)], options=pass_options())
    return improved


def is_on_host(graph: Graph) -> bool:
    """Whether all tensors of a graph lie on the CPU."""
    inputs = (value for stage in graph.stages for value in stage.inputs)
    return all(map(lies_on_host, inputs)) and all(lies_on_host(o) for node in graph.nodes for o in node.outputs)


def lies_on_host(value: Value) -> bool:
    """Whether a value is no tensor of another device than the CPU."""
    return not isinstance(value.type, TensorType) or value.type.device == "cpu"


__all__ = [
    "before", "engine", "improvements", "is_on_host", "lies_on_host", "optimise", "supported", "titled_graphs",
    "unoptimised",
]  # fmt: skip
