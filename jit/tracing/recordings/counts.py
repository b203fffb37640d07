"""Sizes that depend on elements: they are counted anew in every call of a recording that has left them open.

Note [Counts]
    The results of `x[x > 0]`, `nonzero` and `unique` have sizes that depend on elements, here called counts. While a
    function is recorded each of them is guarded, by a guard that is known to be nobody's decision:

        %2 : Float(3, 4) = aten::index.Tensor(%x, [%1])
        %3 : int = prim::size[dim=0](%2)
        prim::Guard[expected=3](%3)                          a count

    When a second count has come, two recordings are compared as those of two sizes are (Note [Families] in
    jit.tracing.recordings.shapes), with the guards on counts that differ left out, and everything that follows from
    these counts of unknown sizes. If they are the same program, one of them becomes a recording that serves all
    counts; its guards are *open*, `prim::Guard[expected=3, open=True]`, which its graph leaves out. Counts and sizes of
    inputs become free together, so a function of both has two recordings for one key or for many.

    Whole numbers that are read from elements and say where a view ends, as in `x[:n.item()]`, are counts, too.

    What is made of a tensor of unknown sizes runs node by node on the arrays that it gets, so it broadcasts as it does
    in eager mode; what comes before and after it is native as ever. What Python decides on a count is a guard of its
    own, which stays: `if y.shape[0] > 0`, `range(len(y))`, `y.tolist()`. So is what this package decides and what a
    second recording need not show, since counts may be 0 and 1, which sizes of inputs are not: which gradients are
    those of broadcast arguments, which dims `squeeze()` takes away, how many views there are, and whether what was
    transposed is contiguous.

    A backward is compared in the same way: it serves all counts as soon as it has been recorded for two.
"""

from __future__ import annotations

from collections.abc import Iterable

from jit.ir import Node
from jit.ir.scalars import exactly

from ..recorder.tracer import Trace
from .chains import fork

ATTRIBUTE = "open"
"""The attribute of the guards that are left out."""
OPEN = exactly(None)
"""The outcome of an open guard, which no number is."""


def is_open(node: Node) -> bool:
    """Whether a node is a guard that is left out."""
    return node.kind == "prim::Guard" and ATTRIBUTE in node.attributes


def open_counts(trace: Trace) -> tuple[int, ...]:
    """The numbers of the guards of a trace that are open."""
    return tuple(number for number, guard in enumerate(trace.guards.records) if is_open(guard.node))


def counts_apart(trace: Trace, other: Trace) -> frozenset[int]:
    """The numbers of the guards on counts that expect different ones in two traces; none if there are others, too."""
    mine, its = count_guards(trace), count_guards(other)
    if mine != its:
        return frozenset()
    return frozenset(n for n in mine if trace.guards.records[n].outcome != other.guards.records[n].outcome)


def count_guards(trace: Trace) -> list[int]:
    """The numbers of the guards on counts in stage 0."""
    return [n for n, guard in enumerate(trace.guards.records) if guard.is_count and not guard.node.stage]


def counts_of(trace: Trace, numbers: Iterable[int]) -> tuple[int, ...]:
    """The counts that guards of a trace expect."""
    return tuple(trace.guards.records[number].outcome for number in numbers)


def find_elemental(trace: Trace) -> None:
    """Let a trace that was read from a file know which sizes depend on elements: those behind its open guards."""
    tape = trace.tape
    sizes = (guard.node.inputs[0] for guard in trace.guards.records if is_open(guard.node))
    tape.elemental.update(value for size in sizes for value in (size, *size.node.inputs))
    for node in tape.graph.nodes if tape.elemental else ():
        tape.spread(node)


def opened(trace: Trace, numbers: Iterable[int], stages: int = 1) -> Trace:
    """A copy of the first stages of a trace in which some guards are open."""
    copy = fork(trace, stages)
    for number in numbers:
        copy.guards.records[number].node.attributes[ATTRIBUTE] = True
    return copy
