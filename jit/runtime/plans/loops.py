"""Native code of recurrences: some steps in a row are compiled, and run as often as a call asks for.

Note [Blocks of steps]
    One step is improved by the passes; 16 copies of it are a stretch, which is planned like any other. A sequence of 50
    steps is three such blocks, and the beginning of a fourth: its program is in the order of time and ends after any
    step. What does not move from step to step is packed by the first block alone. A block finds what it reads and
    writes by its bases: slices of sequences and of results, at distances that depend on the number of the step alone. A
    state is read where the step before has left it: in a result, or in one of two buffers, which are used by turns.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.ir import Graph, Node, Op, TensorType, Value, dtypes
from jit.ir.errors import CompileError
from jit.ir.recurrence import Recurrence
from jit.passes import OPTIMIZE, apply
from jit.passes.support.builder import GraphBuilder

from ..arrays import blocks
from ..arrays.arrays import address_of
from ..arrays.execute import execute
from . import entry
from .by_ctypes import SpareMemory
from .places import Layout, MemoryBlock, Step, Stretch
from .steps import is_free, is_native
from .stretch_code import StretchCode, compile_stretch

STEPS = 16
"""The number of steps in a block; even, since buffers are used by turns."""
MOST = 64
"""The most recurrences of different sizes for which code is kept; further ones run as in the interpreter."""
_ENDLESS = 1 << 62
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_known: dict[Any, NativeRecurrence | None] = {}
_lock = threading.Lock()


def run_recurrence(op: Op, values: Sequence[Any], wanted: Sequence[bool] | None = None) -> list[Any]:
    """The results of a recurrence for schema-ordered `values`, by native code where there is some.

    Results that are not `wanted` may be None; all are unless said otherwise.
    """
    loop = _loop_of(op, values)
    return execute(op, values) if loop is None else loop(values, wanted or [True] * len(op.schema.returns))


def _loop_of(op: Op, values: Sequence[Any]) -> NativeRecurrence | None:
    arrays = [value for value in values if hasattr(value, "dtype")]
    if any(type(a) is not np.ndarray or a.dtype not in _DTYPES or not a.size for a in arrays):
        return None
    assert op.recurrence is not None
    called = op.recurrence(*values)
    moving = [*called.sequences, *(sequence for _, sequence in called.earlier)]
    if len({len(item) for item in moving if item is not None}) != 1:
        return None
    still = [*called.state, *(first for first, _ in called.earlier), *called.constants]
    key = (op.name, called.backwards, *(_kind(item, 1) for item in moving), *(_kind(item, 0) for item in still))
    if key not in _known:
        with _lock:
            if key not in _known and len(_known) < MOST:
                _known[key] = _made(op, values, called)
    return _known.get(key)


def _kind(value: Any, skipped: int) -> Any:
    return (value.dtype.char, value.shape[skipped:]) if isinstance(value, np.ndarray) else value


def _made(op: Op, values: Sequence[Any], called: Recurrence) -> NativeRecurrence | None:
    op.infer([_type_of(value) for value in values])  # which refuses what does not fit
    try:
        return NativeRecurrence(op, called)
    except CompileError:
        return None


def _type_of(value: Any, skipped: int = 0) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return TensorType(dtypes.from_numpy(value.dtype), value.shape[skipped:])


# -- one step ----------------------------------------------------------------------------------------------------


class _OneStep:
    """The graph of one step, improved.

    Args:
        called: The recurrence, with the arrays of some call.
    """

    def __init__(self, called: Recurrence) -> None:
        self.graph = Graph()
        F = GraphBuilder(self.graph)

        def inputs(items: Sequence[Any], skipped: int) -> list[Any]:
            kinds = [_type_of(item, skipped) for item in items]
            return [F.wrap(self.graph.add_input(k)) if isinstance(k, TensorType) else k for k in kinds]

        state, slices = inputs(called.state, 0), inputs(called.sequences, 1)
        earlier = inputs([sequence for _, sequence in called.earlier], 1)
        constants = inputs(called.constants, 0)
        self.state, self.constants = _values(state), _values(constants)
        self.slices, self.earlier = _values(slices), _values(earlier)
        after, results = called.step(F, tuple(state), [*slices, *earlier], constants)
        self.graph.set_return([*_values(after), *_values(results)])
        kernels = {"supported": _supported}
        apply(self.graph, OPTIMIZE, options={"distribute": kernels, "fuse": kernels})

    @property
    def after(self) -> list[Value]:
        """The next state."""
        return list(self.graph.outputs[: len(self.state)])

    @property
    def results(self) -> list[Value]:
        """The slices that the step adds to each result."""
        return list(self.graph.outputs[len(self.state) :])

    @property
    def is_plain(self) -> bool:
        """Whether the step computes all that it hands on, in the form that it was given, and each result once."""
        made, results = self.graph.outputs, self.results
        alike = all(_shape_of(a) == _shape_of(b) for a, b in zip(self.state, self.after, strict=True))
        return alike and len(set(results)) == len(results) and not set(made) & set(self.graph.inputs)

    def lasting(self) -> list[Node]:
        """The nodes that are the same in every step."""
        known, found = set(self.constants), []
        for node in self.graph.nodes:
            if known.issuperset(node.inputs):
                known.update(node.outputs)
                found.append(node)
        return found


def _values(items: Sequence[Any]) -> list[Value]:
    return [item.value for item in items if hasattr(item, "value")]


def _supported(node: Node) -> bool:
    from ..kernels.fusion import supports

    return supports(node)


# -- a block -----------------------------------------------------------------------------------------------------


Role = tuple[int, int]
"""The facts of a base: the number of an address among those of a call, and of the step whose slice it is."""


class _Block:
    """Some steps in a row as a graph, and what its inputs and outputs are.

    The addresses of a call are: nothing; sequences, earlier sequences, results and buffers of states, which move from
    step to step; and first states, what was there first, and constants, which do not.
    """

    def __init__(self, step: _OneStep) -> None:
        self.graph = Graph()
        self.roles: dict[Value, Role] = {}
        self.times: dict[Node, int] = {}
        """The number of the step of each node; -1 of those that are the same in every step."""
        self.entering: list[Value] = []
        """The state before the first step."""
        self.before: list[list[Value]] = []
        """The inputs of each step that hold what was there before."""
        self._step = step
        self._moving = 1 + len(step.slices) + len(step.earlier)
        self._buffers = self._moving + len(step.results)
        still = self._buffers + 2 * len(step.state) + len(step.earlier)  # buffers and first states are as many
        self._known = {v: self._input(v, still + i, 0) for i, v in enumerate(step.constants)}
        self._still = set(self._known.values())
        for node in step.lasting():
            self._copy(node, self._known, -1)
        state = self.entering = [self._input(v, self._left_in(i), -1) for i, v in enumerate(step.state)]
        returned: list[Value] = []
        for time in range(STEPS):
            state, results = self._add(time, state)
            returned += [*state, *results]
        self.graph.set_return(list(dict.fromkeys(returned)))

    def stands_still(self, value: Value) -> bool:
        """Whether an input is the same in every step."""
        return value in self._still

    def _left_in(self, state: int) -> int:
        """The address of what holds a state after a step."""
        value, results = self._step.after[state], self._step.results
        return self._moving + results.index(value) if value in results else self._buffers + state

    def _input(self, like: Value, address: int, time: int) -> Value:
        value = self.graph.add_input(like.type)
        self.roles[value] = address, time
        return value

    def _copy(self, node: Node, known: dict[Value, Value], time: int) -> None:
        self.times[self.graph.copy_node(node, known)] = time

    def _add(self, time: int, state: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Add one step."""
        step, known = self._step, dict(self._known)
        known.update(zip(step.state, state, strict=True))
        known.update((v, self._input(v, 1 + i, time)) for i, v in enumerate(step.slices))
        first = 1 + len(step.slices)
        self.before.append([self._input(v, first + i, time + 1) for i, v in enumerate(step.earlier)])
        known.update(zip(step.earlier, self.before[-1], strict=True))
        for node in step.graph.nodes:
            if any(value not in known for value in node.outputs):
                self._copy(node, known, time)
        after, results = [known[v] for v in step.after], [known[v] for v in step.results]
        self.roles.update((v, (self._left_in(i), time)) for i, v in enumerate(after))
        self.roles.update((v, (self._moving + i, time)) for i, v in enumerate(results))
        return after, results


class _Programs:
    """The programs of a block: for any number of its steps, with and without what the first block leaves behind.

    Args:
        code: The code of the block.
        block: The block.
    """

    def __init__(self, code: StretchCode, block: _Block) -> None:
        steps = code.lowering.steps
        self._times = [max(block.times[node] for node in step.nodes) for step in steps]
        if self._times != sorted(self._times):
            raise CompileError("the steps are not planned in the order of time")
        ends = np.cumsum([entry.STEP + 2 * len(step.operands) for step in steps])
        self._words = np.split(code.program[:-1], ends[:-1])
        still = {i for i, value in enumerate(code.stretch.inputs) if block.stands_still(value)}
        self._lasting = [_lasts(step, code, still) for step in steps]
        self._made: dict[tuple[int, bool], Any] = {}

    def of(self, steps: int, again: bool) -> Any:
        """The program of the first `steps` steps; `again` if a block has run before in the same memory."""
        key = steps, again
        if key not in self._made:
            known = zip(self._words, self._times, self._lasting, strict=True)
            parts = [words for words, time, lasts in known if time < steps and not (again and lasts)]
            self._made[key] = np.concatenate([*parts, np.zeros(1, np.int64)])
        return self._made[key]


def _lasts(step: Step, code: StretchCode, still: set[int]) -> bool:
    """Whether a step makes the same in every block, of inputs that stand still, and nothing else uses its memory."""
    end = len(step.operands) - step.scratch
    reads, writes = step.operands[: end - step.results], step.operands[end - step.results : end]
    if step.scratch or any(p.block.kind != "input" or p.block.number not in still for p in reads):
        return False
    temporaries = [block for block in code.lowering.blocks if block.kind == "temporary" and block.first >= 0]
    return all(p.block.kind == "temporary" and not _shares(p.block, temporaries) for p in writes)


def _shares(block: MemoryBlock, others: Sequence[MemoryBlock]) -> bool:
    """Whether memory of a temporary is that of another one before or after."""
    start, end = block.offset, block.offset + block.nbytes
    return any(o is not block and o.offset < end and start < o.offset + o.nbytes for o in others)


# -- calls -------------------------------------------------------------------------------------------------------


class NativeRecurrence:
    """A recurrence of certain sizes but for the number of its steps, callable with the operator's arguments.

    Args:
        op: The operator.
        called: The recurrence in some call.

    Raises:
        CompileError: There is no native code of its steps.
    """

    def __init__(self, op: Op, called: Recurrence) -> None:
        step = _OneStep(called)
        if not step.is_plain:
            raise CompileError(f"a step of {op.name} hands on what it is given")
        block = _Block(step)
        if not all(is_free(node) or is_native(node) for node in block.graph.nodes):
            raise CompileError(f"the steps of {op.name} are not native")
        stretch = Stretch(list(block.graph.nodes), list(block.graph.inputs), list(block.graph.outputs))
        self._op = op
        self._code = compile_stretch(stretch, [Layout.of(v.type) for v in stretch.inputs])  # type: ignore[arg-type]
        self._programs = _Programs(self._code, block)
        self._results = [_shape_of(value) for value in step.results]
        self._states = [_shape_of(value) for value in step.state]
        self._read = [value in step.after or len(value.uses) > 1 for value in step.results]
        """Whether the next step reads each result."""
        self._left_in = [step.results.index(v) if v in step.results else None for v in step.after]
        """The result that each state is, if it is one."""
        self._execute, self._spare = entry.executor(), SpareMemory()
        self._name_bases(block)

    def _name_bases(self, block: _Block) -> None:
        """Note what the bases of the program are."""
        stretch = self._code.stretch
        numbers = {v: 1 + i for i, v in enumerate((*stretch.inputs, *stretch.outputs))}
        roles = [(0, 0), *(block.roles[v] for v in numbers), *[(0, 0)] * len(self._code.constants)]
        self._addresses, self._ahead = np.array(roles, np.int64).T
        self._entering = [numbers.get(value) for value in block.entering]
        self._before = [[numbers.get(value) for value in values] for values in block.before]

    def __call__(self, values: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """The results; None for those of each step that are not wanted."""
        assert self._op.recurrence is not None
        given = self._op.recurrence(*values)
        sequences = [_laid_out(a) for a in given.sequences if a is not None]
        total = len(sequences[0])
        keeps = [keep or read for keep, read in zip(wanted, self._read)]
        results = [blocks.empty((total if keep else 1, *shape), dtype)
                   for keep, (shape, dtype) in zip(keeps, self._results)]  # fmt: skip
        buffers = [np.empty((2, *shape), dtype) for shape, dtype in self._states]
        moving = [*sequences, *(_laid_out(sequence) for _, sequence in given.earlier), *results]
        firsts = [_laid_out(a) for a in (*given.state, *(first for first, _ in given.earlier))]
        constants = [_laid_out(a) for a in given.constants if isinstance(a, np.ndarray)]
        self._run(total, given.backwards, moving, buffers, firsts, constants)
        last = 0 if given.backwards else total - 1
        state = [buffers[i][(total - 1) % 2] if at is None else results[at][last].copy()
                 for i, at in enumerate(self._left_in)]  # fmt: skip
        return [*(a if keep else None for a, keep in zip(results, wanted)), *state]

    def _run(
        self, total: int, backwards: bool, moving: list[Any], buffers: list[Any], firsts: list[Any],
        constants: list[Any],
    ) -> None:  # fmt: skip
        """Run all steps on arrays."""
        arrays = [*moving, *buffers, *firsts, *constants]
        starts = np.array([0, *map(address_of, arrays)], np.int64)
        distances = np.array([0, *(a.strides[0] for a in (*moving, *buffers)), *[0] * len((*firsts, *constants))])
        distances[1 : 1 + len(moving)] *= [len(a) > 1 for a in moving]
        turns = np.array([1, *[_ENDLESS] * len(moving), *[2] * len(buffers), *[1] * len((*firsts, *constants))])
        if backwards:
            starts[1 : 1 + len(moving)] += (total - 1) * distances[1 : 1 + len(moving)]
            distances[1 : 1 + len(moving)] *= -1
        times = STEPS * np.arange(-(-total // STEPS))[:, None] + self._ahead
        at = self._addresses
        rows = starts[at] + times % turns[at] * distances[at]
        first = 1 + len(moving) + len(buffers)
        for i, base in enumerate(self._entering):
            if base is not None:
                rows[0, base] = starts[first + i]
        for i, base in enumerate(self._before[(total - 1) % STEPS]):
            if base is not None:
                rows[-1, base] = starts[first + len(buffers) + i]
        self._execute_rows(rows, total)

    def _execute_rows(self, rows: Any, total: int) -> None:
        """Run blocks, each on its row of bases."""
        code = self._code
        arena = self._spare.take(code.arena + 64)
        rows[:, 0] = -(-address_of(arena) // 64) * 64
        if code.constants:
            rows[:, -len(code.constants) :] = code.constants
        where, width, most = address_of(rows), rows.strides[0], max(code.operands, 1)
        for number in range(len(rows)):
            program = self._programs.of(min(total - number * STEPS, STEPS), number > 0)
            status = self._execute(address_of(program), where + number * width, most)
            if status:
                code.failed(status)
        self._spare.leave(arena)


def _shape_of(value: Value) -> tuple[tuple[int, ...], Any]:
    type = value.type
    assert isinstance(type, TensorType) and type.sizes is not None and type.dtype is not None
    return type.sizes, type.dtype.numpy


def _laid_out(array: Any) -> Any:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
