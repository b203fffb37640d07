"""Records a backward as the next stage of a chain: autograd runs it inside the trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jit.autograd.engine import run_backward
from jit.autograd.nodes import Edge, edge_of
from jit.eager import context, dispatch
from jit.eager.tensors import Tensor, Variable, alias
from jit.ir.errors import TraceError
from jit.ir.scalars import exactly

from ..recorder.tracer import Trace
from ..surroundings.impurity import watching
from ..surroundings.origins import is_foreign
from ..surroundings.surroundings import view_of_objects
from .chains import Chain, Key


@dataclass(eq=False)
class Live:
    """The tensors of a stage that still carry their eager history, from which the next stage is recorded."""

    outputs: list[Any]
    """The returns of the stage: tensors where they can carry a gradient, anything else where they cannot."""
    edges: list[Edge | None]
    """The edges to differentiate by, one for each edge of the StageNode; None where no gradient can be wanted."""
    trace: Trace
    """The recording that knows these tensors."""
    counts: tuple[int, ...] = ()
    """The sizes of this run that depend on elements and are open."""


def record_stage(
    chain: Chain, key: Key, live: Live, gradients: Sequence[Any], wanted: Sequence[bool], create: bool
) -> tuple[list[Any], Live]:
    """Run the backward of `live` through autograd, recorded as the next stage of `chain`."""
    trace = chain.trace
    chain.prepare()
    before = trace.memory.updates(), trace.randomness.drawn()
    guards = len(trace.guards.records)
    hooks = view_of_objects([("a hook", hook) for hooks in trace.gradients.hooks.values() for hook in hooks])
    impure, trace.impurity.reason = trace.impurity.reason, None
    trace.graph.add_stage()
    stage = len(trace.graph.stages) - 1
    try:
        roots, weights = _roots(trace, live, gradients, create)
        chosen = [want and edge is not None for edge, want in zip(live.edges, wanted, strict=True)]
        edges = [edge for edge, want in zip(live.edges, chosen, strict=True) if want]
        with context.recording(trace), watching(trace.impurity, is_foreign):
            found = iter(run_backward(roots, weights, edges, True, create, within=True))
            results = [next(found) if want else None for want in chosen]
            trace.graph.set_return([None if r is None else trace.value_of(r) for r in results])
        if (trace.memory.updates(), trace.randomness.drawn()) != before:
            raise TraceError(
                "the backward of a traced function changes a buffer or draws random numbers; run it outside the trace"
            )
        trace.errors.look_at_caught()
        what = trace.impurity.reason or (hooks and hooks.effect() and f"changes {hooks.effect()}")
        if what and impure is None:
            raise _unrepeatable(trace, what)
    except BaseException:
        _drop(chain, stage, guards)
        raise
    finally:
        chain.outdate()
        trace.impurity.reason = impure
        trace.errors.forget()
    outcomes = tuple(exactly(g.outcome) for g in trace.guards.records[guards:])
    chain.keys = (*chain.keys, (key, outcomes))
    carrying = tuple(i for i, r in enumerate(results) if r is not None and r.requires_grad)
    chain.differentiable = (*chain.differentiable, carrying)
    return results, Live(results, [*live.edges, *map(edge_of, weights)], trace, live.counts)


def _drop(chain: Chain, stage: int, guards: int) -> None:
    """Forget a stage that could not be recorded. An interrupt may have come in the middle of a change of the graph."""
    try:
        chain.trace.drop_stage(stage, guards)
        chain.trace.graph.verify()
    except Exception:
        chain.is_spoilt = True


def _unrepeatable(trace: Trace, what: str) -> TraceError:
    functions = (getattr(hook, "__code__", None) for hooks in trace.gradients.hooks.values() for hook in hooks)
    lines = [f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" for code in functions if code is not None]
    where = f"at {', '.join(lines)}: " if lines else ""
    return TraceError(
        f"{where}a hook inside a traced function {what}, which a recording cannot repeat; register it outside"
    )


def _roots(trace: Trace, live: Live, gradients: Sequence[Any], create: bool) -> tuple[list[Any], list[Any]]:
    """The outputs to start from, and their weights, which become the inputs of the stage."""
    roots, weights = [], []
    for index, (output, gradient) in enumerate(zip(live.outputs, gradients, strict=True)):
        if gradient is None or output is None:
            continue
        weight = alias(gradient, Variable if create else Tensor)
        weight._requires_grad = create and dispatch.requires_grad(gradient)
        name = f"grad_{index}" if len(gradients) > 1 else "grad"
        given = trace.add_argument(weight, name, len(trace.graph.stages) - 1)
        if trace.tape.elemental:
            trace.tape.elemental.add(given)
        roots.append(output)
        weights.append(weight)
    return roots, weights
