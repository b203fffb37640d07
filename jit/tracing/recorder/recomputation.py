"""Checkpoints in a recording: what a backward needs of them is computed again, just before it is needed.

Note [Checkpoints in graphs]
    A trace notes which nodes were recorded under which checkpoint. What a backward uses of them is computed again from
    what flows into the checkpoint, so no stage keeps it for the next. With y = checkpoint(lambda x: x.exp().sin(), x):

        %0 = aten::exp(%x)                        %0 = aten::exp(%x)
        %1 = aten::sin(%0)                        %1 = aten::sin(%0)
        return (%1)                               return (%1)
        ---- stage 1 (%g) ----                    ---- stage 1 (%g) ----
        %2 = aten::cos(%0)                        %3 = aten::exp(%x)
        ...                                       %2 = aten::cos(%3)

    1. What leaves a checkpoint stays as it is: another checkpoint may begin with it. So do generators and numbers,
       which are small, and what foreign code has returned, since that runs once.
    2. A checkpoint inside of a checkpoint is computed twice again: once for what the outer one needs to go on, and once
       for its own backward. So outer ones come first, and copies count as forward for the inner ones.
    3. Copies stand right before their first users: ten checkpoints in a row need the memory of one.
    4. Where the backward is part of the same stage - a function that calls `backward()` itself - the copies start from
       an `aten::alias` of what flows in. They are other expressions then, and `cse` does not merge them with the first.
"""

from __future__ import annotations

from collections.abc import Callable

from jit.ir import Graph, Node, TensorType, Value
from jit.ops.views import alias
from jit.passes.support.analysis import calls_out, has_effects, with_subgraphs

Path = tuple[int, ...]
"""The checkpoints around a node, the outermost first."""


def recompute(graph: Graph, paths: dict[Node, Path], is_backward: Callable[[Node], bool]) -> None:
    """Let backwards compute again what they use of checkpoints; see Note [Checkpoints in graphs].

    Args:
        graph: A recorded graph; changed in place.
        paths: The nodes that were recorded under checkpoints.
        is_backward: Whether a backward has recorded a node.
    """
    _Recomputer(graph, paths, is_backward).run()


class _Recomputer:
    def __init__(self, graph: Graph, paths: dict[Node, Path], is_backward: Callable[[Node], bool]) -> None:
        self.graph = graph
        self.paths = dict(paths)
        self.is_backward = is_backward
        self.copies: dict[Node, tuple[Path, int]] = {}
        """Every copy, in the order of their dependence, with the checkpoint and the stage that it was made for."""

    def run(self) -> None:
        for depth in range(1, max(map(len, self.paths.values()), default=0) + 1):
            for members in self._regions(depth):
                self._recompute(members)
        self._place()

    def _regions(self, depth: int) -> list[list[Node]]:
        """The nodes of each checkpoint that lies in `depth` - 1 others; of copies, those made together."""
        found: dict[object, list[Node]] = {}
        for node in self.graph.nodes:
            path = self.paths.get(node, ())
            if len(path) >= depth:
                found.setdefault((path[:depth], self.copies.get(node)), []).append(node)
        return list(found.values())

    def _is_later(self, node: Node) -> bool:
        return node not in self.copies and self.is_backward(node)

    def _recompute(self, members: list[Node]) -> None:
        inside = set(members)
        volatile = {v for node in members if _can_repeat(node) for v in node.outputs if self._is_private(v, inside)}
        wanted: dict[int, list[tuple[Node, int]]] = {}
        for value in volatile:
            for use in value.uses:
                if use.node not in inside:
                    wanted.setdefault(use.node.stage, []).append((use.node, use.index))
        for stage, uses in sorted(wanted.items()):
            copied = self._copy(members, volatile, {node.inputs[index] for node, index in uses}, stage)
            for node, index in uses:
                node.inputs[index] = copied[node.inputs[index]]

    def _is_private(self, value: Value, inside: set[Node]) -> bool:
        """Whether a value is used by its checkpoint and by backwards alone, and worth the effort."""
        users = (use.node for use in value.uses)
        return isinstance(value.type, TensorType) and all(u in inside or self._is_later(u) for u in users)

    def _copy(
        self, members: list[Node], volatile: set[Value], wanted: set[Value], stage: int
    ) -> dict[Value, Value]:  # fmt: skip
        """Copy the nodes that compute `wanted` to the end of the graph, for `stage`; returns old values -> new ones."""
        needed: set[Node] = set()
        for node in reversed(members):
            if not wanted.isdisjoint(node.outputs):
                needed.add(node)
                wanted = wanted.union(v for v in node.inputs if v in volatile)
        mapping: dict[Value, Value] = {}
        made_for = (self.paths[members[0]], stage)
        for node in members:
            if node in needed:
                if node.stage == stage:
                    self._begin_anew(node, volatile, mapping, made_for)
                copy = self.graph.copy_node(node, mapping)
                copy.stage = stage
                self.copies[copy], self.paths[copy] = made_for, self.paths[node]
        return mapping

    def _begin_anew(
        self, node: Node, volatile: set[Value], mapping: dict[Value, Value], made_for: tuple[Path, int]
    ) -> None:
        """Give the copy of a node other operands than the node has, where it would have the same."""
        for value in node.inputs:
            if value not in volatile and value not in mapping and isinstance(value.type, TensorType):
                start = self.graph.add(alias.name, (value,), types=[value.type])
                start.stage, start.source, start.scope = node.stage, node.source, node.scope
                mapping[value] = start.output
                self.copies[start] = made_for

    # -- the places of copies ------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Move every copy to just before its first user; those that only other copies have used since are dropped."""
        line = self._line()
        places = {node: number for number, node in enumerate(line)}
        found: dict[int, list[Node]] = {}
        for copy in reversed(self.copies):
            users = [use.node for value in copy.outputs for use in value.uses]
            if users:
                places[copy] = min(places[user] for user in users)
                found.setdefault(places[copy], []).append(copy)
            else:
                copy.erase()
        following: Node | None = None
        for number in reversed(range(len(line))):
            following = following if line[number].kind == "prim::Return" else line[number]
            for copy in found.get(number, ()):
                copy.move_before(following)
                following = copy

    def _line(self) -> list[Node]:
        """The nodes of before, in order, the return of each stage after its nodes."""
        ends = [stage.result for stage in self.graph.stages]
        return sorted([*(n for n in self.graph.nodes if n not in self.copies), *ends], key=lambda node: node.stage)


def _can_repeat(node: Node) -> bool:
    """Whether to run a node once more changes nothing but the time that it takes."""
    inner = (part for body in node.subgraphs for graph in with_subgraphs(body) for part in graph.nodes)
    return not any(map(_acts, [node, *inner]))


def _acts(node: Node) -> bool:
    return calls_out(node) or has_effects(node)
