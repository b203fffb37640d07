"""Replaces random draws by arithmetic on places, which kernels compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jit.ir import Graph, Node, Op, TensorType, Value, find
from jit.ir.dtypes import int64
from jit.ir.types import GENERATOR

from .support.analysis import with_subgraphs
from .support.builder import GraphBuilder
from .support.spaces import arguments

WORDS_PER_BLOCK: Final = 4
BEGIN: Final = "aten::_begin_draw"
BEGINNING: Final = TensorType(int64, (2,), None, "cpu")


def place_draws(graph: Graph) -> bool:
    """Let draws with parts be made of random words, each of which follows from its place; says whether there were any.

    A chain of draws asks once where its numbers begin, and moves the random state on once:

    Given                                            Result
        %1 : Float(6), %2 : Generator =                  %1 : Long(2), %2 : Generator =
            aten::bernoulli.p[p=0.7](%x, %rng)               aten::_begin_draw[blocks=4](%rng)
        %3 : Float(6), %4 : Generator =                  %3 : Long() = aten::select[dim=0, index=0](%1)
            aten::bernoulli.p[p=0.7](%y, %2)             %4 : Long() = aten::select[dim=0, index=1](%1)
        update (%rng = %4)                               %5 : Long(6) = aten::arange[end=6]()
                                                         %6 : Int(6) = aten::_random_word(%5, %3, %4)
                                                         ...
                                                         update (%rng = %2)
    """
    return any([_placed(node) for inner in with_subgraphs(graph) for node in list(inner.nodes) if _may_be_placed(node)])


def _may_be_placed(node: Node) -> bool:
    """Whether a node is a draw that may have parts, on the CPU: states of draws on other devices lie there."""
    op = find(node.kind)
    if op is None or op.kind != "random" or op.spelling is None:
        return False
    known = [value.type for value in (*node.inputs, *node.outputs) if value.type != GENERATOR]
    return all(isinstance(t, TensorType) and t.sizes is not None and t.dtype and t.device == "cpu" for t in known)


def _placed(node: Node) -> bool:
    """Let parts stand where a draw stood, unless its operator wants it whole."""
    op, values = arguments(node)
    assert node.graph is not None
    with node.graph.inserting_before(node):
        F = _Writer(node)
        draw = PlacedDraw(F, values[-1])
        made = op.ask(op.spelling, [*map(F.wrap, values[:-1]), draw], F)  # type: ignore[arg-type]
    if made is not None:
        node.replace_with([made.value, draw.end()])
    return made is not None


class _Writer(GraphBuilder):
    """Writes the parts of a draw, which stand for its line."""

    def __init__(self, node: Node) -> None:
        assert node.graph is not None
        super().__init__(node.graph, node.stage)
        self.node = node

    def call(self, op: Op, values: Sequence[Any]) -> Any:
        """Add the node of `op(*values)`, with the line of the draw."""
        made = super().call(op, values)
        part = made.value.node
        part.source, part.scope = self.node.source, self.node.scope
        return made


class PlacedDraw:
    """The random words of one draw, as values of a graph.

    Args:
        F: Writes nodes in front of the draw.
        state: The random state that it takes.
    """

    def __init__(self, F: _Writer, state: Value) -> None:
        self._F, self._state = F, state
        self._begin: Node | None = None

    def words(self, sizes: Sequence[int], each: int = 1) -> list[Any]:
        """The random 32-bit words, `each` of them for an element, of a tensor of these sizes."""
        numel = math.prod(sizes)
        seed, offset = self._spend(-(-numel * each // WORDS_PER_BLOCK))
        return [self._F._random_word(self._range(n, numel, each, sizes), seed, offset) for n in range(each)]

    def pairs(self, sizes: Sequence[int]) -> tuple[Any, list[Any]]:
        """(the index of each element, its word and that of its neighbour, the one of the even index first)."""
        F, numel = self._F, math.prod(sizes)
        seed, offset = self._spend(-(-numel // WORDS_PER_BLOCK))
        index = self._range(0, numel, 1, sizes)
        both = F.bitwise_and(index, -2), F.bitwise_or(index, 1)
        return index, [F._random_word(place, seed, offset) for place in both]

    def _range(self, start: int, numel: int, step: int, sizes: Sequence[int]) -> Any:
        """The numbers start, start + step, ... in a tensor of these sizes."""
        return self._F.view(self._F.arange(start, start + numel * step, step), list(sizes))

    def end(self) -> Value:
        """The random state after the draw."""
        assert self._begin is not None
        return self._begin.outputs[1]

    def _spend(self, blocks: int) -> tuple[Any, Any]:
        """(the seed, the first block) of a draw that spends so many blocks."""
        begin = self._begin = self._shared() or self._own()
        spent = begin.attribute("blocks")
        begin.rewrite(begin.operands, {"blocks": spent + blocks})
        where = self._F.wrap(begin.outputs[0])
        seed, offset = where[0], where[1]
        return seed, offset if type(spent) is int and spent == 0 else offset + spent

    def _shared(self) -> Node | None:
        """The node at which the draws before this one begin, if nobody else goes on from their state."""
        begin = self._state.node
        alone = begin.kind == BEGIN and len(self._state.uses) == 1
        return begin if alone and begin.graph is self._F.graph and begin.stage == self._F.stage else None

    def _own(self) -> Node:
        """A node at which this draw begins."""
        begin = self._F.graph.add(BEGIN, (self._state,), {"blocks": 0}, (BEGINNING, GENERATOR))
        begin.stage = self._F.node.stage
        begin.source, begin.scope = self._F.node.source, self._F.node.scope
        return begin
