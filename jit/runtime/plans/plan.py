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

import ctypes
import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.ir import Graph, Node, Value
from jit.ir.attempts import may_raise
from jit.ir.errors import CompileError
from jit.passes.support.analysis import calls_out, has_effects

from ..arrays import blocks
from ..arrays.interpreter import Assembler, Host, Interpreter
from ..arrays.programs import Program, Registers, Runner, locate
from ..kernels.codegen import Kernel, check_status, compile_nests
from . import entry, pool
from .arena import Arena
from .places import Layout, MemoryBlock, Step, StepDeclined, Stretch
from .steps import StretchLowering, is_free, is_native

# -- which nodes run natively ------------------------------------------------------------------------------------


class _StretchCutter:
    """Cuts one stage of a graph into stretches and single nodes."""

    def __init__(self, nodes: Sequence[Node], refused: frozenset[Node]) -> None:
        self.order = {node: index for index, node in enumerate(nodes)}
        self.free = {node for node in nodes if is_free(node)}
        self.native = {node for node in nodes if node not in self.free and node not in refused and is_native(node)}
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


# -- from steps to a native call ---------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class StretchCode:
    """A stretch compiled for certain layouts of its inputs."""

    stretch: Stretch
    layouts: list[Layout]
    lowering: StretchLowering
    program: Any
    """See Note [A program] in `entry`."""
    operands: int
    arena: int
    kernels: list[Kernel]
    kept: Any
    nodes: list[Node]
    """Per step, for errors."""

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each output of a run."""
        types = [value.type for value in self.stretch.outputs]
        return [(t.sizes, t.dtype.numpy) for t in types]  # type: ignore[attr-defined]

    @property
    def constants(self) -> list[int]:
        """Addresses."""
        return [a.__array_interface__["data"][0] for a in self.lowering.constants]

    @property
    def is_quick(self) -> bool:
        """Whether a run is over before another thread could take turns."""
        touched = sum(place.block.nbytes for step in self.lowering.steps for place in step.operands)
        return touched < _QUICK and all(step.work.is_linear for step in self.lowering.steps)

    def failed(self, status: int) -> None:
        """Raise what a run has returned."""
        if status < 0:
            raise MemoryError(f"a plan needs {self.arena} bytes for temporaries; free memory, or pass smaller inputs")
        step, error = divmod(status, 256)
        try:
            check_status(error)
        except Exception as raised:
            locate(raised, self.nodes[step])
            raise

    def tables(self) -> entry.Tables:
        """The tables that an entry for arrays looks at."""
        inputs = [
            entry.EntryInput(layout.dtype, layout.shape, layout.strides, argument=index)
            for index, layout in enumerate(self.layouts)
        ]
        return entry.Tables(
            inputs, self.outputs, self.program, self.operands, self.arena, self.constants, self.failed,
            not self.is_quick, kept=self,
        )  # fmt: skip


_QUICK = 1 << 16
"""Bytes that a run may touch while it holds the GIL: some microseconds."""


def compile_stretch(stretch: Stretch, layouts: Sequence[Layout], gap: int = 0) -> StretchCode:
    """Lower, place and compile a stretch, leaving `gap` bytes behind each temporary; StepDeclined names the node."""
    lowering = StretchLowering(stretch, layouts)
    kernels = _kernels(lowering.steps)
    for number, step in enumerate(lowering.steps):
        step.work.bind(kernels)
        if step.work.scratch_bytes:
            lowering.scratch(number, step.work.scratch_bytes * _parts(step))
    size = _place_temporaries(lowering, gap)
    words: list[int] = []
    kept: list[Any] = []
    for step in lowering.steps:
        geometries = _geometries(step)
        table = np.array([_data(g) if isinstance(g, np.ndarray) else ctypes.addressof(g) for g in geometries], np.int64)
        kept += [step.work.kept, table, geometries]
        parts = max(len(geometries) - 1, 1)
        words += [step.work.function(), _data(table), len(step.operands), parts, step.work.scratch_bytes]
        for place in step.operands:
            words += [_base(place.block, stretch), place.block.offset + place.start]
    program = np.array([*words, 0], np.int64)
    operands = max((len(s.operands) for s in lowering.steps), default=0)
    nodes = [step.node for step in lowering.steps]
    return StretchCode(stretch, list(layouts), lowering, program, operands, size, list(kernels.values()), kept, nodes)


def _geometries(step: Step) -> list[Any]:
    """The geometry of all the work and, if threads share it, those of its parts."""
    work, parts = step.work, _parts(step)
    if parts == 1:
        return [work.geometry()]
    grain = work.grain if work.panels >= work.grain * parts else 1
    bounds = [*(work.panels * i // parts // grain * grain for i in range(parts)), work.panels]
    return [work.geometry(), *(work.geometry(*pair) for pair in itertools.pairwise(bounds))]


def _parts(step: Step) -> int:
    """The number of threads among which a step is worth being shared."""
    shared = step.work.effort >= step.work.long and len(step.operands) < pool.MOST_OPERANDS
    return max(min(pool.most_parts(), step.work.panels), 1) if shared else 1


def _kernels(steps: Sequence[Step]) -> dict[int, Kernel]:
    """Kernels by the `id` of their nests; in one LLVM module, or one by one if one is refused, to learn which."""
    nests = {id(nest): nest for step in steps for nest in step.nests}
    try:
        return dict(zip(nests, compile_nests(list(nests.values())), strict=True)) if nests else {}
    except CompileError:
        for step in steps:
            try:
                compile_nests(step.nests)
            except CompileError as error:
                raise StepDeclined(step.node, error) from error
        raise


def _base(block: MemoryBlock, stretch: Stretch) -> int:
    """The number of the base that a block counts from."""
    outputs = 1 + len(stretch.inputs)
    first = {"temporary": 0, "input": 1, "output": outputs, "constant": outputs + len(stretch.outputs)}
    return first[block.kind] + block.number


def _place_temporaries(lowering: StretchLowering, gap: int) -> int:
    """Give every temporary its offset: one that dies where another of its size is made hands its memory on."""
    arena = Arena(gap)
    starting: dict[int, list[MemoryBlock]] = {}
    ending: dict[int, list[MemoryBlock]] = {}
    for block in lowering.blocks:
        if block.kind == "temporary" and block.first >= 0:
            starting.setdefault(block.first, []).append(block)
            ending.setdefault(block.last, []).append(block)
    handed: set[MemoryBlock] = set()
    for number, step in enumerate(lowering.steps):
        free = [b for i in step.reusable if (b := step.operands[i].block).last == number]
        for block in starting.get(number, ()):
            heir = next((b for b in free if b.nbytes == block.nbytes and b not in handed), None)
            if heir is None:
                block.offset = arena.take(block.nbytes)
            else:
                handed.add(heir)
                block.offset = heir.offset
        for block in ending.get(number, ()):
            if block not in handed:
                arena.give(block.offset)
    return arena.size


# -- running -----------------------------------------------------------------------------------------------------


class Native:
    """A stretch, callable with arrays. Compiled for the layouts that the graph declares, then for those that come."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.reads: list[int] = []
        """The registers of its inputs."""
        self.results: list[int] = []
        """The registers of its outputs."""
        self.codes: list[StretchCode] = []
        self.code = compile_stretch(stretch, [Layout.of(v.type) for v in stretch.inputs])  # type: ignore[arg-type]
        self._call = self._ready(self.code)

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs."""
        found = self._call(*arrays)
        return found if found is not None else self._otherwise(arrays)

    def _ready(self, code: StretchCode) -> Any:
        self.codes.append(code)
        return entry.make_entry(code.tables()) if entry.available() else _ByCtypes(code)

    def _otherwise(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs for arrays of another layout than the graph declares."""
        layouts = [Layout(a.dtype, a.shape, a.strides) for a in arrays]
        declared = [(layout.dtype, layout.shape) for layout in self.code.layouts]
        if [(a.dtype, a.shape) for a in arrays] == declared and len(self.codes) < _VARIANTS:
            try:
                call = self._ready(compile_stretch(self.stretch, layouts))
            except CompileError:
                return self._interpreted(arrays)
            found: Sequence[Any] = call(*arrays)
            if found is not None:
                self._call = call
                return found
        return self._interpreted(arrays)

    def _interpreted(self, arrays: Sequence[Any]) -> Sequence[Any]:
        body = Graph()
        mapping = {value: body.add_input(value.type) for value in self.stretch.inputs}
        for node in self.stretch.nodes:
            body.copy_node(node, mapping).stage = 0
        body.set_return([mapping[value] for value in self.stretch.outputs])
        return Interpreter(body).run(0, arrays)[0]


_VARIANTS = 8
"""The most layouts for which a stretch is compiled."""


class _ByCtypes:
    """Runs a stretch where entries are not available."""

    def __init__(self, code: StretchCode) -> None:
        self._code = code
        self._execute = entry.executor()
        self._spare: list[Any] = []

    def __call__(self, *arrays: Any) -> Sequence[Any] | None:
        code = self._code
        if any(not _fits(array, layout) for array, layout in zip(arrays, code.layouts, strict=True)):
            return None
        outputs = [blocks.empty(shape, dtype) for shape, dtype in code.outputs]
        try:
            arena = self._spare.pop()
        except IndexError:
            arena = np.empty(code.arena + 64, np.uint8)
        start = -(-_data(arena) // 64) * 64
        bases = np.array([start, *map(_data, arrays), *map(_data, outputs), *code.constants], np.int64)
        status = self._execute(_data(code.program), _data(bases), max(code.operands, 1))
        self._spare.append(arena)
        if status:
            code.failed(status)
        return outputs


def _data(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _fits(array: Any, layout: Layout) -> bool:
    if type(array) is not np.ndarray or array.dtype is not layout.dtype or array.shape != layout.shape:
        return False
    steps = zip(array.shape, array.strides, layout.strides, strict=True)
    return all(n == 1 or given == wanted for n, given, wanted in steps)


class PlannedEngine(Runner):
    """Runs a graph whose stretches of nodes are native calls; single nodes between them go as in the interpreter."""

    def __init__(self, graph: Graph, host: Host | None = None) -> None:
        self.graph = graph
        self.natives: list[list[Native]] = [[] for _ in graph.stages]
        """Per stage, in order."""
        stages: list[list[Node]] = [[] for _ in graph.stages]
        for node in graph.nodes:
            stages[node.stage].append(node)
        assembler = Assembler(graph, host)
        for program, nodes, natives in zip(assembler.programs, stages, self.natives, strict=True):
            for item in _pieces(nodes):
                if isinstance(item, Native):
                    natives.append(item)
                    _add_native(item, program, assembler)
                else:
                    assembler.lower(item, program)
        assembler.finish()
        super().__init__(assembler.programs, assembler.count)

    def native_call(self, stage: int) -> Native | None:
        """The one native call that a stage consists of; None if there is more to it."""
        only = self.natives[stage]
        return only[0] if len(only) == 1 and len(self.programs[stage].instructions) == 1 else None

    @property
    def local_plan(self) -> PlannedEngine:
        """The engine itself."""
        return self

    def freeze(self) -> None:
        """Nothing to do: the graph does not change."""


def _add_native(native: Native, program: Program, assembler: Assembler) -> None:
    """Add the instruction of a native call."""
    inputs = native.reads = [assembler.registers[value] for value in native.stretch.inputs]
    results = native.results = [assembler.new_register(value) for value in native.stretch.outputs]

    def run(r: Registers) -> None:
        for result, value in zip(results, native([r[i] for i in inputs]), strict=True):
            r[result] = value

    run.touched = (*results, *inputs)  # type: ignore[attr-defined]
    program.instructions.append(run)
    program.nodes.append(Node(None, "prim::Native", (), {}))


# -- putting it together -----------------------------------------------------------------------------------------


def _pieces(nodes: Sequence[Node]) -> list[Native | Node]:
    """The native calls and single nodes of a stage, in order; nodes that code generation refuses are single ones."""
    refused: frozenset[Node] = frozenset()
    while True:
        try:
            return _assembled(nodes, _StretchCutter(nodes, refused))
        except StepDeclined as declined:
            if declined.node in refused:  # it would be refused for ever
                raise
            refused |= {declined.node}


def _assembled(nodes: Sequence[Node], cutter: _StretchCutter) -> list[Native | Node]:
    runs = list(cutter.cut())
    stretches = {run[0]: _stretch(run, cutter) for run in runs if run[0] in cutter.native}
    outside = _outside(nodes, cutter)
    wanted = {value for stretch in stretches.values() for value in stretch.inputs}
    wanted |= {v for node in nodes if node in outside or _is_single(node, cutter) for v in node.inputs}
    pieces: list[Native | Node] = []
    ready: dict[Value, int] = {}
    for run in runs:
        stretch = stretches.get(run[0])
        for node in run:
            ready |= dict.fromkeys(node.outputs, len(pieces) + 1)
            if stretch is not None:
                stretch.outputs += [v for v in node.outputs if v in wanted or _leaves(v, cutter)]
        pieces.append(run[0] if stretch is None else Native(stretch))
    return _with_views(pieces, [node for node in nodes if node in outside], ready)


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


def _with_views(pieces: list[Native | Node], views: Sequence[Node], ready: dict[Value, int]) -> list[Native | Node]:
    """Each view right behind the piece that makes what it shows."""
    after: list[list[Native | Node]] = [[] for _ in range(len(pieces) + 1)]
    for node in views:
        at = max((ready.get(value, 0) for value in node.inputs), default=0)
        ready |= dict.fromkeys(node.outputs, at)
        after[at].append(node)
    placed = list(after[0])
    for piece, following in zip(pieces, after[1:], strict=True):
        placed += [piece, *following]
    return placed
