"""Runs a graph as a plan: what needs no Python in as few native calls as possible, the rest as the interpreter does.

A stage is cut into stretches of nodes that become native, and single nodes between them. A stretch is lowered to
steps (`steps`), its temporaries are laid into an arena (`arena`), and one native call (`entry`) runs all of it. Most
graphs are one stretch.

Note [The order of a plan]
    Nodes are taken as soon as all they need is there: native ones first, until none is left; then others, until a
    native one can go on. So stretches are few and long. The order of calls of Python and of guards among each other
    stays; and nothing that stood behind a guard runs before it, because the guard may protect it. What may raise stays
    in front of the calls that it stood in front of: they do not happen if it does.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from jit.ir import Graph, Node, Value
from jit.ir.attempts import may_raise
from jit.ir.size_uses import symbols_in
from jit.ir.sizes import SizeSymbol
from jit.passes.support.analysis import calls_out, has_effects

from ..arrays.interpreter import Assembler, Host
from ..arrays.programs import Program, Runner
from .bodies import PlannedBody
from .loops import run_recurrence
from .native import Native, SizedNative
from .places import StepDeclined, Stretch
from .reshaped import reshaped_outputs
from .sized_calls import native_instruction, only_call, sized_instruction
from .steps import is_free, is_native

# -- which nodes run natively ------------------------------------------------------------------------------------


class StretchKind(Protocol):
    """The device of stretches: which nodes they may hold, and what becomes of them."""

    def is_free(self, node: Node) -> bool:
        """Whether a node costs nothing in a stretch."""

    def is_native(self, node: Node) -> bool:
        """Whether a stretch may hold a node."""

    def made(self, stretch: Stretch, symbols: Sequence[SizeSymbol]) -> Any:
        """The call of a stretch; StepDeclined names a node that has no code."""

    def instruction(self, native: Any, sizes: int) -> Any:
        """The instruction of what `made` returned, given the register of the values of symbols, -1 without any."""


class _HostStretches:
    """Stretches on the CPU."""

    is_free, is_native = staticmethod(is_free), staticmethod(is_native)

    def made(self, stretch: Stretch, symbols: Sequence[SizeSymbol]) -> Native | SizedNative:
        """A native call."""
        return SizedNative(stretch, symbols) if symbols_in(stretch.nodes) else Native(stretch)

    def instruction(self, native: Native | SizedNative, sizes: int) -> Any:
        """The instruction of a native call."""
        told = [sizes] if isinstance(native, SizedNative) else []
        run: Any = sized_instruction(native, sizes) if isinstance(native, SizedNative) else native_instruction(native)
        run.touched = (*native.results, *native.reads, *told)
        return run


HOST_STRETCHES: StretchKind = _HostStretches()


class _StretchCutter:
    """Cuts one stage of a graph into stretches and single nodes."""

    def __init__(self, nodes: Sequence[Node], refused: frozenset[Node], kind: StretchKind) -> None:
        self.order = {node: index for index, node in enumerate(nodes)}
        self.free = {node for node in nodes if kind.is_free(node)}
        others = [node for node in nodes if node not in self.free and node not in refused]
        self.native = {node for node in others if kind.is_native(node)}
        self._blockers: dict[Node, int] = {}
        self._waiting: dict[Node, list[Node]] = {}
        self._depend(nodes)

    def cut(self) -> Iterator[list[Node]]:
        """Runs of native nodes, each as a list; every other node as a list of its own. Free nodes are left out."""
        ready: dict[bool, list[int]] = {True: [], False: []}
        nodes = list(self.order)

        def release(node: Node) -> None:
            heapq.heappush(ready[node in self.native], self.order[node])

        for node in nodes:
            if node not in self.free and not self._blockers[node]:
                release(node)
        native = True
        while ready[True] or ready[False]:
            run = []
            while ready[native]:
                node = nodes[heapq.heappop(ready[native])]
                run.append(node)
                for other in self._waiting.pop(node, ()):
                    self._blockers[other] -= 1
                    if not self._blockers[other]:
                        release(other)
                if not native and ready[True]:
                    break
            if run and native:
                yield sorted(run, key=self.order.__getitem__)
            elif run:
                yield from ([node] for node in run)
            native = bool(ready[True])

    def _depend(self, nodes: Sequence[Node]) -> None:
        """The nodes that each node waits for: those that make its operands, guards before it, and earlier effects."""
        guard: Node | None = None
        effect: Node | None = None
        raising: set[Node] = set()
        for node in nodes:
            if node in self.free:
                continue
            makers = (self.base(value).node for value in node.inputs)
            needs = {maker for maker in makers if maker in self.order and maker not in self.free}
            if guard is not None:
                needs.add(guard)
            if _may_raise(node):
                raising.add(node)
            if node not in self.native and has_effects(node):
                if effect is not None:
                    needs.add(effect)
                if calls_out(node):
                    needs |= raising - {node}
                    raising.clear()
                effect = node
                if _is_guard(node):
                    guard = node
            self._blockers[node] = len(needs)
            for need in needs:
                self._waiting.setdefault(need, []).append(node)

    def base(self, value: Value) -> Value:
        """The value that `value` is a free view of."""
        while value.node in self.free and value.node.inputs:
            value = value.node.inputs[0]
        return value


def _may_raise(node: Node) -> bool:
    return may_raise(node) or any(map(may_raise, (part for inner in node.subgraphs for part in inner.nodes)))


def _is_guard(node: Node) -> bool:
    """Whether a node is a guard, or a composite that may hold some."""
    return node.kind == "prim::Guard" or next(node.subgraphs, None) is not None


def _stretch(nodes: Sequence[Node], cutter: _StretchCutter) -> Stretch:
    """The stretch of native `nodes`, with the views and constants that they need in front of their first users."""
    stretch = Stretch([])
    known: set[Value] = set()
    for node in nodes:
        for value in node.inputs:
            _bring_in(value, stretch, known, cutter)
        stretch.nodes.append(node)
        known.update(node.outputs)
    return stretch


def _bring_in(value: Value, stretch: Stretch, known: set[Value], cutter: _StretchCutter) -> None:
    chain = []
    while value not in known:
        if value.node not in cutter.free:
            stretch.inputs.append(value)
            known.add(value)
            break
        chain.append(value.node)
        known.update(value.node.outputs)
        if not value.node.inputs:
            break
        value = value.node.inputs[0]
    stretch.nodes += reversed(chain)


class PlannedEngine(Runner):
    """Runs a graph whose stretches of nodes are native calls; single nodes between them go as in the interpreter.

    Args:
        graph: The graph.
        host: Calls Python and native functions.
        kind: The device of the stretches.
    """

    def __init__(self, graph: Graph, host: Host | None = None, kind: StretchKind = HOST_STRETCHES) -> None:
        self.graph = graph
        self.natives: list[list[Any]] = [[] for _ in graph.stages]
        """The native calls of each stage, in order; `SizedNative`s where sizes vary."""
        stages: list[list[Node]] = [[] for _ in graph.stages]
        for node in graph.nodes:
            stages[node.stage].append(node)
        assembler = Assembler(graph, host, run_recurrence, _prepared)
        symbols = assembler.symbols
        sizes = assembler.register_of_sizes(symbols) if symbols else -1
        for program, nodes, natives in zip(assembler.programs, stages, self.natives, strict=True):
            for item in _pieces(nodes, symbols, kind):
                if isinstance(item, Node):
                    assembler.lower(item, program)
                else:
                    natives.append(item)
                    _add_native(item, program, assembler, sizes, kind)
        assembler.finish()
        super().__init__(assembler.programs, assembler.count)

    def native_call(self, stage: int, arrays: Sequence[Any] = (), with_views: bool = False) -> Any:
        """The one native call that a stage consists of, for the sizes of these arrays; None if there is more to it.

        Where views may be `with` it, Python makes them of what the call reads and gives: see `views_of`.
        """
        return only_call(self.programs[stage], self.count, arrays, with_views)

    @property
    def remarks(self) -> list[str]:
        """Sentences about how its stretches run."""
        return [remark for natives in self.natives for native in natives for remark in native.remarks]

    @property
    def local_plan(self) -> PlannedEngine:
        """The engine itself."""
        return self

    def freeze(self) -> None:
        """Nothing to do: the graph does not change."""


def _prepared(graph: Graph, host: Host | None) -> PlannedBody:
    """A branch or step of control flow, planned when it runs."""
    return PlannedBody(graph, host, PlannedEngine)


def _add_native(native: Any, program: Program, assembler: Assembler, sizes: int, kind: StretchKind) -> None:
    """Add the instruction of a native call; the values of symbols are in the register `sizes`."""
    native.reads = [assembler.registers[value] for value in native.stretch.inputs]
    native.results = [assembler.new_register(value) for value in native.stretch.outputs]
    program.instructions.append(kind.instruction(native, sizes))
    program.nodes.append(Node(None, "prim::Native", (), {}))


# -- putting it together -----------------------------------------------------------------------------------------


Piece: TypeAlias = Any
"""A node, or what a `StretchKind` has made of a stretch."""


def _pieces(nodes: Sequence[Node], symbols: Sequence[SizeSymbol], kind: StretchKind) -> list[Piece]:
    """The native calls and single nodes of a stage, in order; nodes that code generation refuses are single ones."""
    refused: frozenset[Node] = frozenset()
    while True:
        try:
            return _assembled(nodes, _StretchCutter(nodes, refused, kind), symbols, kind)
        except StepDeclined as declined:
            if declined.node in refused:  # it would be refused for ever
                raise
            refused |= {declined.node}


def _assembled(
    nodes: Sequence[Node], cutter: _StretchCutter, symbols: Sequence[SizeSymbol], kind: StretchKind
) -> list[Piece]:
    runs = list(cutter.cut())
    stretches = {run[0]: _stretch(run, cutter) for run in runs if run[0] in cutter.native}
    outside = _outside(nodes, cutter)
    read = {value for stretch in stretches.values() for value in stretch.inputs}
    reshaped = _reshaped(nodes, outside, read, cutter)
    outside -= {view for views in reshaped.values() for view in views}
    wanted = read | set(reshaped)
    wanted |= {v for node in nodes if node in outside or _is_single(node, cutter) for v in node.inputs}
    pieces: list[Piece] = []
    ready: dict[Value, int] = {}
    for run in runs:
        stretch = stretches.get(run[0])
        for node in run:
            ready |= dict.fromkeys(node.outputs, len(pieces) + 1)
            if stretch is not None:
                for value in (v for v in node.outputs if v in wanted or _leaves(v, cutter)):
                    views = reshaped.get(value, [])
                    ready |= {view.output: len(pieces) + 1 for view in views}
                    stretch.add_output(value, views)
        pieces.append(run[0] if stretch is None else kind.made(stretch, symbols))
    return _with_views(pieces, [node for node in nodes if node in outside], ready, cutter.order)


def _reshaped(
    nodes: Sequence[Node], outside: set[Node], read: set[Value], cutter: _StretchCutter
) -> dict[Value, list[Node]]:
    """The views in whose shape stretches hand out values, of those that are `outside`; `read` are stretches' inputs."""

    def is_wanted(value: Value, view: Node) -> bool:
        users = {use.node for use in value.uses} - {view}
        return value in read or _leaves(value, cutter) or any(u in outside or _is_single(u, cutter) for u in users)

    return reshaped_outputs([node for node in nodes if node in outside], cutter.native.__contains__, is_wanted)


def _is_single(node: Node, cutter: _StretchCutter) -> bool:
    return node not in cutter.native and node not in cutter.free


def _leaves(value: Value, cutter: _StretchCutter) -> bool:
    """Whether a value is returned or used in another stage."""
    return any(use.node not in cutter.order for use in value.uses)


def _outside(nodes: Sequence[Node], cutter: _StretchCutter) -> set[Node]:
    """The views and constants that others than native nodes of the stage use."""
    found: set[Node] = set()
    for node in reversed(nodes):
        if node in cutter.free:
            users = [use.node for value in node.outputs for use in value.uses]
            if any(u not in cutter.order or u in found or _is_single(u, cutter) for u in users):
                found.add(node)
    return found


def _with_views(
    pieces: list[Piece], views: Sequence[Node], ready: dict[Value, int], order: Mapping[Node, int]
) -> list[Piece]:
    """Each view right behind the piece that makes what it shows, or behind the guard that may protect it."""
    after: list[list[Piece]] = [[] for _ in range(len(pieces) + 1)]
    guards = [(order[p], at) for at, p in enumerate(pieces, 1) if isinstance(p, Node) and p.kind == "prim::Guard"]
    for node in views:
        before = bisect_left(guards, (order[node], 0))
        guarded = guards[before - 1][1] if before else 0
        at = max(guarded, *(ready.get(value, 0) for value in node.inputs)) if node.inputs else guarded
        ready |= dict.fromkeys(node.outputs, at)
        after[at].append(node)
    placed = list(after[0])
    for piece, following in zip(pieces, after[1:], strict=True):
        placed += [piece, *following]
    return placed
