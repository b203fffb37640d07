"""Paths through one function as one graph, in which an `If` stands where Python has decided on elements.

Note [Paths become branches]
    Each recording is one path through the function, and its guards say where it has turned off. Up to the first guard
    with another outcome all paths are the same; from there on, those of one outcome are one branch:

        if x.sum() > 0:                   %0 : Float() = aten::sum(%x)
            return x * w                  %1 : Bool() = aten::gt(%0, 0)
        return x - 1                      %2 : bool = prim::item(%1)
                                          %3 : Float(2) = prim::If[then=@0, otherwise=@1](%2, %x, %w)
                                          return (%3)

    A branch may part again, so the tree of recordings becomes a nest of `If`s of the same depth. If Python has taken a
    whole number (`int(x[0])`), each number that was met is a branch; any other is an error when the graph runs, because
    the last `If` takes its predicate from `[True, False]` at a place that is out of range then. A guard for which all
    paths have one outcome stays a guard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jit.ir import Graph, Node, TensorType, Type, Value, dtypes
from jit.ir.control import IF, common_type
from jit.ir.errors import ExportError
from jit.ir.graph import map_template
from jit.ir.printer import format_constant, has_text
from jit.ir.scalars import exactly
from jit.ir.types import BOOL, INT, ScalarType
from jit.ops.creation import scalar_tensor
from jit.ops.views import select
from jit.passes.support.symbolic_sizes import forget_sizes

GUARD = "prim::Guard"


@dataclass(eq=False)
class _Path:
    """One path, as far as it has not been written yet."""

    nodes: list[Node]
    results: list[Any]
    """The values that it returns, then the new ones of all inputs that some path writes to."""
    known: dict[Value, Value]
    """Values of this path -> those of the graph that is being written."""
    met: dict[Any, int] = field(default_factory=dict)
    """The number of nodes of each kind and operands that it has come by in this graph."""

    def resolved(self) -> list[Value]:
        """The values that stand for its results in the graph that is being written."""
        return [self.known[item] for item in self.results]

    def used(self) -> Iterator[Value]:
        """The values of the graph that is being written which it still uses."""
        inner = (value for node in self.nodes for value in node.inputs)
        return (self.known[value] for value in (*inner, *self.results) if value in self.known)

    def decide(self, guard: Node, value: Value, made: dict[Any, list[Value]]) -> Any:
        """Go on behind the guard on `value`, and say its outcome.

        Args:
            guard: The guard of another path.
            value: What that one decides on, in the graph that is being written.
            made: The nodes that have been written so far: their outputs, by what they compute.
        """
        own: list[Node] = []
        for at, node in enumerate(self.nodes):
            if node.kind == GUARD and self.known.get(node.inputs[0]) is value:
                self.nodes = [*own, *self.nodes[at + 1 :]]
                return node.attribute("expected")
            found = made.get(self.key(node)) if all(item in self.known for item in node.inputs) else None
            if found is None or node.kind == GUARD:
                own.append(node)
            else:
                self.known.update(zip(node.outputs, found, strict=True))
        raise ExportError(
            f"at {guard.source}: Python decides here with some arguments, and with others not, though nothing before "
            "tells them apart; let all ways through the function begin alike"
        )

    def key(self, node: Node) -> Any:
        """The key under which equal nodes of several paths are found: what is computed, and how often it was before."""
        constants = map_template(_frozen, (node.args, tuple(sorted(node.attributes.items()))))
        same = (node.kind, tuple(self.known[value] for value in node.inputs), constants)
        self.met[same] = self.met.get(same, 0) + 1
        return same, self.met[same]


def join_paths(graphs: Sequence[Graph], owners: Sequence[Sequence[Any]]) -> tuple[Graph, list[Any]]:
    """One graph that takes each of several paths where it is right, and what stands behind its inputs.

    Args:
        graphs: The recorded paths, with stage 0 alone; they stay as they are.
        owners: For each path, what stands behind its inputs: the same object behind those that are one input.

    Raises:
        ExportError: The paths return something else, or decide on a number that no `If` can tell.
    """
    joined = Graph()
    inputs: dict[int, tuple[Value, Any]] = {}
    paths = []
    for graph, behind in zip(graphs, owners, strict=True):
        for value, owner in zip(graph.inputs, behind, strict=True):
            if id(owner) not in inputs:
                inputs[id(owner)] = joined.add_input(value.type, value.name), owner
        known = {value: inputs[id(owner)][0] for value, owner in zip(graph.inputs, behind, strict=True)}
        paths.append(_Path(list(graph.nodes), list(graph.outputs), known))
    _check_counts(paths)
    count = len(graphs[0].outputs)
    written = _add_updates(graphs, paths)
    results = _write(joined, paths)
    joined.set_return(results[:count], list(zip(written, results[count:], strict=True)))
    return joined, [owner for _, owner in inputs.values()]


def _add_updates(graphs: Sequence[Graph], paths: Sequence[_Path]) -> list[Value]:
    """Let each path return the new values of all inputs that some path writes to; which inputs these are."""
    updates = [
        {path.known[target]: value for target, value in graph.stages[0].updates}
        for graph, path in zip(graphs, paths, strict=True)
    ]
    written = list(dict.fromkeys(target for each in updates for target in each))
    for each, path in zip(updates, paths, strict=True):
        for target in written:
            path.known.setdefault(target, target)
            path.results.append(each.get(target, target))
    return written


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(graph: Graph, paths: Sequence[_Path]) -> list[Value]:
    """Write paths into a graph; what they return."""
    lead, *others = paths
    made: dict[Any, list[Value]] = {}
    for path in paths:
        path.met = {}
    for at, node in enumerate(lead.nodes):
        if node.kind == GUARD:
            value = lead.known[node.inputs[0]]
            outcomes = [node.attribute("expected"), *(path.decide(node, value, made) for path in others)]
            if len(set(map(exactly, outcomes))) > 1:
                lead.nodes = lead.nodes[at + 1 :]
                return _part(graph, node, value, list(zip(outcomes, paths, strict=True)))
        key = lead.key(node)
        made[key] = graph.copy_node(node, lead.known).outputs
    return lead.resolved()


def _part(graph: Graph, guard: Node, value: Value, ways: list[tuple[Any, _Path]]) -> list[Value]:
    """Write an `If` on a value, of which each path has seen an outcome."""
    outcomes = list(dict.fromkeys(outcome for outcome, _ in ways))
    if not all(type(outcome) in (bool, int) for outcome in outcomes):
        raise ExportError(
            f"at {guard.source}: Python takes a {type(outcomes[0]).__name__} out of a tensor, and no model can have a "
            "branch for each; compute with the tensor, or decide with a comparison"
        )
    first = True if True in outcomes and type(outcomes[0]) is bool else outcomes[0]
    predicate = _predicate(graph, value, [first, *(o for o in outcomes if o != first)])
    then = [(outcome, path) for outcome, path in ways if outcome == first]
    otherwise = [(outcome, path) for outcome, path in ways if outcome != first]
    free = list(dict.fromkeys([value, *(used for _, path in ways for used in path.used())]))
    branches = [_branch(guard, [predicate, *free], value, each) for each in (then, otherwise)]
    types = _agreed(guard, branches)
    for branch in branches:  # what is inside must not rely on sizes, which may depend on elements
        forget_sizes(branch)
    attributes = dict(zip(("then", "otherwise"), branches, strict=True))
    node = graph.add(IF, [predicate, *free], attributes, types)
    node.source, node.scope = guard.source, guard.scope
    return node.outputs


def _branch(guard: Node, taken: Sequence[Value], value: Value, ways: list[tuple[Any, _Path]]) -> Graph:
    """The sub-graph of some paths.

    Args:
        guard: Where they part from others.
        taken: The values around it that it gets.
        value: What was decided on.
        ways: The paths, with what each has seen of the value.
    """
    branch = Graph()
    formals = {outer: branch.add_input(outer.type, outer.name) for outer in taken}
    for _, path in ways:
        path.known = {v: formals[outer] for v, outer in path.known.items() if outer in formals}
    one = len({outcome for outcome, _ in ways}) == 1
    results = _write(branch, [path for _, path in ways]) if one else _part(branch, guard, formals[value], ways)
    branch.set_return([_as_tensor(branch, result) for result in results])
    return branch


def _predicate(graph: Graph, value: Value, outcomes: list[Any]) -> Value:
    """Whether a value is the first of some outcomes; an error at run time if two are left, and it is neither."""
    if type(outcomes[0]) is bool:
        return value if outcomes[0] else graph.add("prim::not", [value], types=[BOOL]).output
    is_first = graph.add("prim::eq", [value, outcomes[0]], types=[BOOL]).output
    if len(outcomes) > 2:
        return is_first
    is_other = graph.add("prim::eq", [value, outcomes[1]], types=[BOOL]).output
    twice = graph.add("prim::mul", [is_first, 2], types=[INT]).output
    found = graph.add("prim::add", [twice, is_other], types=[INT]).output
    place = graph.add("prim::sub", [2, found], types=[INT]).output
    both = np.array([True, False])
    table = graph.add("prim::Constant", (), {"value": both}, [TensorType(dtypes.bool_, (2,))]).output
    return graph.add(select.name, [table], {"dim": 0, "index": place}, [TensorType(dtypes.bool_, ())]).output


# -- results -----------------------------------------------------------------------------------------------------------


def _as_tensor(graph: Graph, result: Value) -> Value:
    """A result of a branch as a tensor: a number has no dims."""
    if not isinstance(result.type, ScalarType):
        return result
    dtype = _DTYPES[result.type.name]
    return graph.add(scalar_tensor.name, (), {"s": result, "dtype": dtype}, [TensorType(dtype, ())]).output


_DTYPES = {"bool": dtypes.bool_, "int": dtypes.int64, "float": dtypes.float64, "complex": dtypes.complex128}


def _check_counts(paths: Sequence[_Path]) -> None:
    counts = sorted({len(path.results) for path in paths})
    if len(counts) > 1:
        raise ExportError(
            f"one way through the function returns {counts[0]} tensors and numbers, and another {counts[1]}; let all "
            "return as many"
        )


def _agreed(guard: Node, branches: Sequence[Graph]) -> list[Type]:
    """The types of the results of an `If`: sizes that differ are not known."""
    types = [[value.type for value in branch.outputs] for branch in branches]
    for number, (a, b) in enumerate(zip(*types, strict=True)):
        if _kind(a) != _kind(b):
            raise ExportError(
                f"the ways that part at {guard.source} return other tensors: result {number} is {_words(a)} on one, "
                f"and {_words(b)} on another; let both have one dtype and as many dims"
            )
    return [common_type(a, b) for a, b in zip(*types, strict=True)]


def _kind(type: Type) -> Any:
    return (type.dtype, type.ndim, type.device) if isinstance(type, TensorType) else type


def _words(type: Type) -> str:
    if not isinstance(type, TensorType) or type.dtype is None:
        return str(type)
    return f"{type.dtype.name} of {'?' if type.ndim is None else type.ndim} dims"


def _frozen(leaf: Any) -> Any:
    """A hashable stand-in for a constant: texts of numbers, arrays and graphs, and objects as they are."""
    if isinstance(leaf, Graph):
        return str(leaf)
    if has_text(leaf):
        return format_constant(leaf)
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return leaf


__all__ = ["join_paths"]
