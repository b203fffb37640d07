"""The reference engine: runs a graph node by node on numpy arrays, stage by stage.

A graph becomes a list of instructions over numbered registers. A register is freed after its last use, in whatever
stage that is, so what a later stage needs is exactly what survives a run: its `state`. Tensors are arrays, traced
numbers are Python numbers, generators are RandomStates, Handles are whatever the host gave out.

Unoptimised graphs give the same bits as eager mode, because both run `jit.runtime.arrays.execute.execute`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from jit.ir import Graph, Node, Op, Value, find
from jit.ir.errors import Error, GraphError
from jit.ir.graph import Ref, leaves, map_template
from jit.ir.refusals import FOREIGN, note_of_numbers
from jit.ir.scalars import exactly

from .attempts import attempt
from .execute import execute

Registers = list[Any]
Instruction = Callable[[Registers], None]


class GuardFailed(Exception):
    """A value that Python decided upon while tracing is another one now; nothing has been committed."""

    def __init__(self, index: int, actual: Any) -> None:
        super().__init__(f"guard {index} saw {actual!r}")
        self.index = index
        self.actual = actual


class Host(Protocol):
    """What the interpreter asks of the layer above: to run Python functions and their backwards."""

    def call(self, node: Node, arrays: Sequence[Any]) -> list[Any]:
        """Run a PythonOp or CppOp on arrays: its results, and its Handle last if the node has one."""

    def evaluate(self, handle: Any, gradients: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Run the backward behind a Handle: the wanted gradients."""


class Program:
    """The instructions of one stage."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.frees: list[tuple[int, ...]] = []
        """Registers whose last use is the instruction of the same number."""
        self.unused: tuple[int, ...] = ()
        """Registers of inputs that nothing uses, in this stage or later."""
        self.returned: tuple[int, ...] = ()
        """Registers whose last use is the return."""
        self.nodes: list[Node] = []
        """The node behind each instruction, for error messages and profiles."""
        self.inputs: list[int] = []
        self.outputs: list[Any] = []
        """Templates: Ref(register), or constants such as None."""
        self.updates: list[int] = []


class Interpreter:
    """Runs the stages of `graph`. Thread-safe: a run owns its registers.

    >>> from jit.ir import Graph, TensorType, dtypes
    >>> import jit.ops, numpy as np
    >>> g = Graph(); x = g.add_input(TensorType(dtypes.float32, (2,)), "x")
    >>> g.set_return([g.add("aten::mul", (x, 2), types=[x.type]).output])
    >>> outputs, updates, state = Interpreter(g).run(0, [np.ones(2, np.float32)])
    >>> outputs[0].tolist()
    [2.0, 2.0]
    """

    def __init__(self, graph: Graph, host: Host | None = None) -> None:
        self.graph = graph
        self._host = host
        self._count = 0
        self._guards = 0
        self._registers: dict[Value, int] = {}
        self.programs = [Program() for _ in graph.stages]
        for program, stage in zip(self.programs, graph.stages, strict=True):
            program.inputs = [self._new_register(value) for value in stage.inputs]
        self._lower_all()
        for program, stage in zip(self.programs, graph.stages, strict=True):
            program.outputs = [map_template(self._placed(self._registers), o) for o in stage.outputs]
            program.updates = [self._registers[value] for _, value in stage.updates]
        self._plan_frees()

    def run(
        self, stage: int, inputs: Sequence[Any], state: Registers | None = None
    ) -> tuple[list[Any], list[Any], Registers]:
        """Run one stage.

        Args:
            stage: Which one; stages after 0 need the state that the one before returned.
            inputs: One value per input of the stage.
            state: Registers that survived the stage before; not changed, so that a stage can run again.

        Returns:
            The outputs, the values of the updates, and the state for the next stage.

        Raises:
            GuardFailed: A guard saw another value than while tracing.
        """
        program = self.programs[stage]
        registers = [None] * self._count if state is None else list(state)
        for register, value in zip(program.inputs, inputs, strict=True):
            registers[register] = value
        for register in program.unused:
            registers[register] = None
        step = 0
        try:
            for instruction, frees in zip(program.instructions, program.frees, strict=True):
                instruction(registers)
                for register in frees:
                    registers[register] = None
                step += 1
        except GuardFailed:
            raise
        except Exception as error:
            locate(error, program.nodes[step])
            raise
        outputs = [
            registers[o.index]
            if type(o) is Ref
            else map_template(lambda leaf: registers[leaf.index] if isinstance(leaf, Ref) else leaf, o)
            for o in program.outputs
        ]
        updates = [registers[register] for register in program.updates]
        for register in program.returned:
            registers[register] = None
        return outputs, updates, registers

    def whole(self, stage: int) -> Any:
        """The one native call that a stage consists of; None, since this goes node by node."""
        return None

    @property
    def original(self) -> Interpreter:
        """What was made of the graph in this process: this, unless another process has made it."""
        return self

    def hold(self) -> None:
        """The recording behind the graph is about to grow; the graph itself does not change."""

    @classmethod
    def run_node(cls, node: Node, values: Sequence[Any]) -> list[Any]:
        """Run one `prim::` node by itself on the values of its inputs."""
        alone = cls(Graph())
        registers = {value: index for index, value in enumerate(dict.fromkeys(node.inputs))}
        results = list(range(len(registers), len(registers) + len(node.outputs)))
        file: Registers = [None] * (len(registers) + len(results))
        for value, given in zip(node.inputs, values, strict=True):
            file[registers[value]] = given
        alone._instruction(node, results, registers)(file)
        return [file[r] for r in results]

    # -- compiling -----------------------------------------------------------------------------------------------

    def _new_register(self, value: Value, registers: dict[Value, int] | None = None) -> int:
        number = self._count
        (self._registers if registers is None else registers)[value] = number
        self._count += 1
        return number

    def _lower_all(self) -> None:
        for node in self.graph.nodes:
            self._lower(node, self.programs[node.stage], self._registers)

    def _placed(self, registers: dict[Value, int]) -> Callable[[Any], Any]:
        return lambda leaf: Ref(registers[leaf]) if isinstance(leaf, Value) else leaf

    def _lower(self, node: Node, program: Program, registers: dict[Value, int]) -> None:
        body = node.attributes.get("body")
        if isinstance(body, Graph) and node.kind != "prim::FusionGroup":
            self._lower_body(node, body, program, registers)
            return
        results = [self._new_register(value, registers) for value in node.outputs]
        program.instructions.append(self._instruction(node, results, registers))
        program.nodes.append(node)

    def _lower_body(self, node: Node, body: Graph, program: Program, registers: dict[Value, int]) -> None:
        """A composite runs as its parts, in the same register file."""
        inner = {formal: registers[actual] for formal, actual in zip(body.inputs, node.inputs, strict=True)}
        for part in body.nodes:
            self._lower(part, program, inner)
        for value, result in zip(node.outputs, body.outputs, strict=True):
            registers[value] = inner[result]

    def _instruction(self, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
        op = find(node.kind)
        if op is not None:
            return _op_instruction(op, node, results, registers)
        if node.kind in _PRIMITIVES:
            return _PRIMITIVES[node.kind](self, node, results, registers)
        if node.kind.startswith("prim::") and node.kind[6:] in _SCALARS:
            return _scalar_instruction(node, results, registers)
        if node.kind.startswith(("^", "cpp::")):
            return self._host_instruction(node, results, registers)
        raise GraphError(
            f"the interpreter does not know {node.kind}; it runs aten::, prim::, ^PythonOps and cpp:: nodes"
        )

    def _host_instruction(self, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
        inputs = [registers[value] for value in node.inputs]
        host = self._host
        if host is None:
            raise GraphError(
                f"{node.kind} calls a function of the user's, and this interpreter was given no host to run it"
            )

        def run(r: Registers) -> None:
            for result, value in zip(results, host.call(node, [r[i] for i in inputs]), strict=True):
                r[result] = value

        return _touching(run, node, results, registers)

    def _plan_frees(self) -> None:
        """Free a register after the last instruction that reads or writes it, or after the return if that is later."""
        last: dict[int, tuple[int, int]] = {}
        for number, program in enumerate(self.programs):
            for register in program.inputs:
                last[register] = (number, -1)
            for index, instruction in enumerate(program.instructions):
                for register in instruction.touched:  # type: ignore[attr-defined]
                    last[register] = (number, index)
            for register in [
                *(leaf.index for leaf in leaves(program.outputs) if isinstance(leaf, Ref)),
                *program.updates,
            ]:
                last[register] = (number, len(program.instructions))
        frees: dict[tuple[int, int], list[int]] = {}
        for register, at in last.items():
            frees.setdefault(at, []).append(register)
        for number, program in enumerate(self.programs):
            count = len(program.instructions)
            program.frees = [tuple(frees.get((number, index), ())) for index in range(count)]
            program.unused = tuple(frees.get((number, -1), ()))
            program.returned = tuple(frees.get((number, count), ()))


def locate(error: Exception, node: Node) -> None:
    """Let an error say which line asked for the operator: the traceback shows the engine alone."""
    where = str(node.source)
    if node.source is None or where in str(error):
        return
    if isinstance(error, Error) and error.args:
        error.args = (f"{error.args[0]} (asked for at {where})", *error.args[1:])
    else:
        error.add_note(f"in {node.kind}, asked for at {where}")


def _touching(run: Instruction, node: Node, results: Sequence[int], registers: dict[Value, int]) -> Instruction:
    run.touched = (*results, *(registers[value] for value in node.inputs))  # type: ignore[attr-defined]
    return run


def _fetcher(template: Sequence[Any], registers: dict[Value, int]) -> Callable[[Registers], list[Any]]:
    """A function from registers to the arguments that `template` (with Values in it) stands for."""
    constants = list(template)
    direct = [(i, registers[v]) for i, v in enumerate(template) if isinstance(v, Value)]
    nested = [
        (i, v) for i, v in enumerate(template) if isinstance(v, tuple) and any(isinstance(x, Value) for x in leaves(v))
    ]
    if not nested:

        def fetch(r: Registers) -> list[Any]:
            values = constants.copy()
            for index, register in direct:
                values[index] = r[register]
            return values

        return fetch

    def fetch_nested(r: Registers) -> list[Any]:
        values = constants.copy()
        for index, register in direct:
            values[index] = r[register]
        for index, inner in nested:
            values[index] = map_template(lambda leaf: r[registers[leaf]] if isinstance(leaf, Value) else leaf, inner)
        return values

    return fetch_nested


def _op_instruction(op: Op, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    if op.kind == "composite":
        raise GraphError(f"{node.kind} has no body to run; it was parsed or built without one, so decompose it first")
    attributes = {k: node.resolve(v) for k, v in node.attributes.items()}
    fetch = _fetcher(op.join(node.operands, attributes), registers)
    if op.kind == "random":
        state = next(i for i, a in enumerate(op.arguments) if a.type.base == "Generator")

        def draw(r: Registers) -> None:
            values = fetch(r)
            for result, value in zip(results, execute(op, values, values[state]), strict=True):
                r[result] = value

        return _touching(draw, node, results, registers)
    if len(results) == 1:
        (only,) = results

        def run(r: Registers) -> None:
            r[only] = execute(op, fetch(r))[0]

        return _touching(run, node, results, registers)

    def run_many(r: Registers) -> None:
        for result, value in zip(results, execute(op, fetch(r)), strict=True):
            r[result] = value

    return _touching(run_many, node, results, registers)


# -- primitives --------------------------------------------------------------------------------------------------

_SCALARS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift, "neg": operator.neg, "abs": abs,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _scalar_instruction(node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    fetch, function, (only,) = _fetcher(node.operands, registers), _SCALARS[node.kind[6:]], results

    def run(r: Registers) -> None:
        numbers = fetch(r)
        try:
            r[only] = function(*numbers)
        except FOREIGN as error:
            note_of_numbers(error)
            raise

    return _touching(run, node, results, registers)


def _constant(_: Interpreter, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    value = node.attribute("value")
    array = isinstance(value, np.ndarray)

    def run(r: Registers) -> None:
        r[results[0]] = value.copy() if array else value

    return _touching(run, node, results, registers)


def _size(_: Interpreter, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    source, dim = registers[node.inputs[0]], node.attribute("dim")

    def run(r: Registers) -> None:
        r[results[0]] = r[source].shape[dim]

    return _touching(run, node, results, registers)


def _item(_: Interpreter, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    source = registers[node.inputs[0]]

    def run(r: Registers) -> None:
        array = r[source]
        r[results[0]] = (
            float(array.reshape(())[()]) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array.item()
        )

    return _touching(run, node, results, registers)


def _guard(interpreter: Interpreter, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    source, expected = registers[node.inputs[0]], node.attribute("expected")
    index = node.attribute("index", interpreter._guards)
    interpreter._guards = index + 1

    wanted = exactly(expected)

    def run(r: Registers) -> None:
        actual = r[source]
        if actual is not expected and exactly(actual) != wanted:
            raise GuardFailed(index, actual)

    return _touching(run, node, results, registers)


def _raises(_: Interpreter, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    places, raised, (only,) = {value: registers[value] for value in node.inputs}, attempt(node), results

    def run(r: Registers) -> None:
        r[only] = raised(lambda value: r[places[value]])

    return _touching(run, node, results, registers)


def _evaluate(interpreter: Interpreter, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    fetch, wanted, host = _fetcher(node.operands, registers), node.attribute("wanted"), interpreter._host
    if host is None:
        raise GraphError("prim::Eval runs a backward of the user's, and this interpreter was given no host to run it")

    def run(r: Registers) -> None:
        *gradients, handle = fetch(r)
        for result, value in zip(results, host.evaluate(handle, gradients, wanted), strict=True):
            r[result] = value

    return _touching(run, node, results, registers)


def _fusion_group(interpreter: Interpreter, node: Node, results: list[int], registers: dict[Value, int]) -> Instruction:
    from ..kernels.fusion import compile_group

    inputs = [registers[value] for value in node.inputs]
    kernel = compile_group(node)

    def run(r: Registers) -> None:
        for result, value in zip(results, kernel([r[i] for i in inputs]), strict=True):
            r[result] = value

    return _touching(run, node, results, registers)


_PRIMITIVES: dict[str, Callable[[Interpreter, Node, list[int], dict[Value, int]], Instruction]] = {
    "prim::Constant": _constant, "prim::size": _size, "prim::item": _item, "prim::Guard": _guard,
    "prim::Eval": _evaluate, "prim::FusionGroup": _fusion_group, "prim::raises": _raises,
}  # fmt: skip
