"""The reference engine: runs a graph node by node on numpy arrays, stage by stage.

A graph becomes a list of instructions over numbered registers (`programs`). Tensors are arrays, traced numbers are
Python numbers, generators are RandomStates, Handles are whatever the host gave out.

Unoptimised graphs give the same bits as eager mode, because both run `jit.runtime.arrays.execute.execute`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from jit.ir import Graph, Node, Op, TensorType, Value, find
from jit.ir.control import is_control
from jit.ir.dtypes import number_in
from jit.ir.errors import GraphError
from jit.ir.graph import Ref, leaves, map_template
from jit.ir.refusals import FOREIGN, note_of_numbers
from jit.ir.scalars import exactly, scalar_function
from jit.ir.size_uses import symbols_in
from jit.ir.sizes import SizeExpr, SizeSymbol

from .attempts import attempt
from .control import Body, control_flow
from .execute import execute
from .libraries import FINDERS
from .programs import GuardFailed, Instruction, Program, Registers, Runner
from .size_instructions import SizeFacts, size_instruction

if TYPE_CHECKING:
    from ..kernels.fusion import FusedGroup


Places: TypeAlias = Mapping[Any, int]
"""The registers of values, and of sizes that are expressions."""


class Host(Protocol):
    """The layer above, as the interpreter needs it: it runs Python functions and their backwards."""

    def call(self, node: Node, arrays: Sequence[Any]) -> list[Any]:
        """Run a PythonOp or CppOp on arrays: its results, and its Handle last if the node has one."""

    def evaluate(self, handle: Any, gradients: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Run the backward behind a Handle: the wanted gradients."""


class Assembler:
    """Makes programs of nodes: one register for each value, and instructions that read and write them.

    Args:
        graph: The graph.
        host: Calls Python and native functions.
        recurrences: Runs operators that have steps, as `execute` does, and is told which results are `wanted`.
        prepared: Makes the sub-graphs of control flow ready to run; as an `Interpreter` runs them, unless given.
    """

    def __init__(
        self, graph: Graph, host: Host | None = None, recurrences: Callable[..., list[Any]] | None = None,
        prepared: Callable[[Graph, Host | None], Body] | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.host = host
        self.recurrences = recurrences
        self.prepared = prepared or interpreted
        self.count = 0
        """The number of registers."""
        self.guards = 0
        """The number of the next guard whose node has no attribute `index`."""
        self.registers: dict[Value, int] = {}
        self.held_back: dict[Value, Node] = {}
        """Products on devices that are computed with the group which alone reads their result."""
        self.sizes: dict[SizeExpr, int] = {}
        """The registers of sizes that are expressions."""
        self._known: dict[SizeExpr, int] = {}
        """The earliest stage that computes each of them, for itself and those after it."""
        self._symbols: dict[SizeSymbol, tuple[int, int]] = {}
        """The input, by its register, and the dim that each symbol is the size of."""
        self.programs = [Program() for _ in graph.stages]
        for program, stage in zip(self.programs, graph.stages, strict=True):
            program.inputs = [self.new_register(value) for value in stage.inputs]
            for value in stage.inputs:
                self._find_symbols(value)

    def _find_symbols(self, value: Value) -> None:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        for dim, size in enumerate(shape or ()):
            if type(size) is SizeExpr and (symbol := size.lone_symbol) is not None:
                self._symbols.setdefault(symbol, (self.registers[value], dim))

    def _compute_sizes(self, template: Any, program: Program, node: Node) -> None:
        """Let the expressions in a template have registers, with instructions that compute them.

        Later stages begin with the symbols as numbers, so that no input is kept for its sizes.
        """
        for size in leaves(template):
            if type(size) is SizeExpr:
                if program is not self.programs[0]:
                    for symbol in sorted(size.symbols, key=str):
                        self._compute_size(symbol.size, self.programs[0], self.graph.stages[0].result)
                self._compute_size(size, program, node)

    def _compute_size(self, size: SizeExpr, program: Program, node: Node) -> None:
        stage = next(number for number, each in enumerate(self.programs) if each is program)
        if size not in self.sizes:
            self.sizes[size] = self.count
            self.count += 1
        if stage < self._known.get(size, len(self.programs)):  # stages return when all of them have their instructions
            self._known[size] = stage
            program.instructions.append(self._size_instruction(size, program is not self.programs[0]))
            program.nodes.append(node)

    def _size_instruction(self, size: SizeExpr, is_later: bool) -> Instruction:
        symbols = tuple(sorted(size.symbols, key=str))
        if not self._symbols.keys() >= size.symbols:
            raise GraphError(f"the size {size} is used, and no input says what {', '.join(map(str, symbols))} are")
        places = [(self.sizes[s.size], -1) if is_later else self._symbols[s] for s in symbols]
        return size_instruction(SizeFacts(self.sizes[size], size, symbols, tuple(places)))

    def register_of_sizes(self, symbols: Sequence[SizeSymbol]) -> int:
        """The register of a tuple of the values of symbols, which stage 0 makes first of all."""
        register, program = self.count, self.programs[0]
        self.count += 1
        places = tuple(self._symbols[symbol] for symbol in symbols)
        program.instructions.insert(0, size_instruction(SizeFacts(register, None, tuple(symbols), places)))
        program.nodes.insert(0, Node(None, "prim::sizes", (), {}))
        return register

    @cached_property
    def sizes_register(self) -> int:
        """The register of the values of all symbols."""
        return self.register_of_sizes(self.symbols)

    @property
    def symbols(self) -> list[SizeSymbol]:
        """The symbols of which nodes speak; an input that has others alone need not be there."""
        named = symbols_in(self.graph.nodes)
        return [symbol for symbol in self._symbols if symbol in named]

    def finish(self) -> None:
        """Note what stages return and when registers are freed, once all nodes have their instructions."""
        for program, stage in zip(self.programs, self.graph.stages, strict=True):
            self._compute_sizes(stage.outputs, program, stage.result)
            program.outputs = [map_template(self._placed(self.registers), o) for o in stage.outputs]
            program.updates = [self.registers[value] for _, value in stage.updates]
        self._plan_frees()

    def new_register(self, value: Value, registers: dict[Value, int] | None = None) -> int:
        number = self.count
        (self.registers if registers is None else registers)[value] = number
        self.count += 1
        return number

    def _placed(self, registers: dict[Value, int]) -> Callable[[Any], Any]:
        def place(leaf: Any) -> Any:
            if type(leaf) is SizeExpr:
                return Ref(self.sizes[leaf])
            return Ref(registers[leaf]) if isinstance(leaf, Value) else leaf

        return place

    def lower(self, node: Node, program: Program, registers: dict[Value, int] | None = None) -> None:
        """Add the instructions of a node; `registers` are those of a body."""
        registers = self.registers if registers is None else registers
        body = node.attributes.get("body")
        if isinstance(body, Graph) and not (node.kind == "prim::FusionGroup" and self._has_kernel(node, body)):
            self._lower_body(node, body, program, registers)
            return
        if registers is self.registers and self._may_lead(node):
            self.held_back[node.output] = node
            return
        places: Places = registers
        if any(type(leaf) is SizeExpr for leaf in leaves((node.args, node.attributes))):
            self._compute_sizes((node.args, node.attributes), program, node)
            places = ChainMap(cast("dict[Any, int]", registers), cast("dict[Any, int]", self.sizes))
        if node.kind == "prim::Constant" and type(node.attributes["value"]) is SizeExpr:
            registers[node.output] = places[node.attributes["value"]]
            return
        results = [self.new_register(value, registers) for value in node.outputs]
        program.instructions.append(self.instruction(node, results, places))
        program.nodes.append(node)

    def _may_lead(self, node: Node) -> bool:
        """Whether a node waits for the group behind it, which has no other such node."""
        if not FINDERS:  # there is no device but the CPU
            return False
        from ..gpu.fused_product import may_lead

        return may_lead(node) and not any(v in self.held_back for use in node.output.uses for v in use.node.inputs)

    @staticmethod
    def _has_kernel(node: Node, body: Graph) -> bool:
        """Whether a group runs as a kernel; where sizes vary, that is the matter of plans, unless it is on a device."""
        outside = isinstance(node.outputs[0].type, TensorType) and node.outputs[0].type.device != "cpu"
        return outside or not symbols_in(body.nodes)

    def _lower_body(self, node: Node, body: Graph, program: Program, registers: dict[Value, int]) -> None:
        """A composite runs as its parts, in the same register file."""
        inner = {formal: registers[actual] for formal, actual in zip(body.inputs, node.inputs, strict=True)}
        for part in body.nodes:
            self.lower(part, program, inner)
        for value, result in zip(node.outputs, body.outputs, strict=True):
            registers[value] = inner[result]

    def instruction(self, node: Node, results: list[int], registers: Places) -> Instruction:
        if any(value in self.held_back for value in node.inputs):
            return _fusion_group(self, node, results, registers)
        op = find(node.kind)
        if op is not None:
            return _op_instruction(op, node, results, registers, self._runner(op, node))
        if is_control(node):
            return self._control_instruction(node, results, registers)
        if node.kind in _PRIMITIVES:
            return _PRIMITIVES[node.kind](self, node, results, registers)
        if scalar_function(node.kind) is not None:
            return _scalar_instruction(node, results, registers)
        if node.kind.startswith(("^", "cpp::")):
            return self._host_instruction(node, results, registers)
        raise GraphError(
            f"the interpreter does not know {node.kind}; it runs aten::, prim::, ^PythonOps and cpp:: nodes"
        )

    def _runner(self, op: Op, node: Node) -> Callable[..., list[Any]]:
        """The function that runs an operator as `execute` does."""
        if op.recurrence is None or self.recurrences is None:
            return execute
        return partial(self.recurrences, wanted=[bool(value.uses) for value in node.outputs])

    def _host_instruction(self, node: Node, results: list[int], registers: Places) -> Instruction:
        inputs = [registers[value] for value in node.inputs]
        host = self.host
        if host is None:
            raise GraphError(
                f"{node.kind} calls a Python or native function, and this interpreter has no host to run it; pass one"
            )

        def run(r: Registers) -> None:
            for result, value in zip(results, host.call(node, [r[i] for i in inputs]), strict=True):
                r[result] = value

        return _touching(run, node, results, registers)

    def _control_instruction(self, node: Node, results: list[int], registers: Places) -> Instruction:
        fetch = _fetcher(node.operands, registers)
        flow = control_flow(node, [self.prepared(graph, self.host) for graph in node.subgraphs])

        def run(r: Registers) -> None:
            for result, value in zip(results, flow(fetch(r)), strict=True):
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


class Interpreter(Runner):
    """Runs the stages of `graph`, node by node.

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
        assembler = Assembler(graph, host)
        for node in graph.nodes:
            assembler.lower(node, assembler.programs[node.stage])
        assembler.finish()
        super().__init__(assembler.programs, assembler.count)

    @property
    def natives(self) -> Sequence[Sequence[Any]]:
        """No native calls."""
        return [()] * len(self.programs)

    def native_call(self, stage: int, arrays: Sequence[Any] = (), with_views: bool = False) -> Any:
        """None: the interpreter goes node by node."""
        return None

    @property
    def local_plan(self) -> Interpreter:
        """The interpreter itself."""
        return self

    def freeze(self) -> None:
        """Nothing to do: the graph does not change."""

    @staticmethod
    def run_node(node: Node, values: Sequence[Any]) -> list[Any]:
        """Run one `prim::` node by itself on the values of its inputs."""
        registers = {value: index for index, value in enumerate(dict.fromkeys(node.inputs))}
        results = list(range(len(registers), len(registers) + len(node.outputs)))
        file: Registers = [None] * (len(registers) + len(results))
        for value, given in zip(node.inputs, values, strict=True):
            file[registers[value]] = given
        Assembler(Graph()).instruction(node, results, registers)(file)
        return [file[r] for r in results]


def interpreted(graph: Graph, host: Host | None = None) -> Body:
    """A sub-graph as a function of the values of its inputs, which runs node by node."""
    engine = Interpreter(graph, host)
    return lambda values: engine.run(0, values)[0]


def fused_group(body: Graph) -> FusedGroup:
    """The callable for the body of a FusionGroup node, which goes node by node where there is no kernel."""
    from ..kernels.fusion import FusedGroup

    return FusedGroup(body, lambda inputs: Interpreter(body).run(0, inputs)[0])


def _touching(
    run: Instruction, node: Node, results: Sequence[int], registers: Places, is_view: bool = False
) -> Instruction:
    sizes = (leaf for leaf in leaves((node.args, node.attributes)) if type(leaf) is SizeExpr)
    run.touched = (*results, *(registers[read] for read in (*node.inputs, *sizes)))  # type: ignore[attr-defined]
    run.view_of = tuple(results) if is_view else ()  # type: ignore[attr-defined]
    return run


def _fetcher(template: Sequence[Any], registers: Places) -> Callable[[Registers], list[Any]]:
    """A function from registers to the arguments that `template` (with Values and sizes in it) stands for."""

    def place(leaf: Any) -> Any:
        return Ref(registers[leaf]) if _has_register(leaf) else leaf

    constants = list(template)
    direct = [(i, registers[v]) for i, v in enumerate(template) if _has_register(v)]
    lists = [(i, v) for i, v in enumerate(template) if isinstance(v, tuple)]
    nested = [(i, map_template(place, v)) for i, v in lists if any(map(_has_register, leaves(v)))]
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
            values[index] = map_template(lambda leaf: r[leaf.index] if type(leaf) is Ref else leaf, inner)
        return values

    return fetch_nested


def _has_register(leaf: Any) -> bool:
    return isinstance(leaf, Value) or type(leaf) is SizeExpr


def _op_instruction(
    op: Op, node: Node, results: list[int], registers: Places, execute: Callable[..., list[Any]]
) -> Instruction:
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

        return _touching(run, node, results, registers, is_view=op.kind == "view")

    def run_many(r: Registers) -> None:
        for result, value in zip(results, execute(op, fetch(r)), strict=True):
            r[result] = value

    return _touching(run_many, node, results, registers, is_view=op.kind == "view")


# -- primitives --------------------------------------------------------------------------------------------------


def _scalar_instruction(node: Node, results: list[int], registers: Places) -> Instruction:
    found = scalar_function(node.kind)
    assert found is not None
    fetch, function, (only,) = _fetcher(node.operands, registers), found.python, results

    def run(r: Registers) -> None:
        numbers = fetch(r)
        try:
            r[only] = function(*numbers)
        except FOREIGN as error:
            note_of_numbers(error)
            raise

    return _touching(run, node, results, registers)


def _constant(_: Assembler, node: Node, results: list[int], registers: Places) -> Instruction:
    value = node.attribute("value")
    array = isinstance(value, np.ndarray)

    def run(r: Registers) -> None:
        r[results[0]] = value.copy() if array else value

    return _touching(run, node, results, registers)


def _size(_: Assembler, node: Node, results: list[int], registers: Places) -> Instruction:
    source, dim = registers[node.inputs[0]], node.attribute("dim")

    def run(r: Registers) -> None:
        r[results[0]] = r[source].shape[dim]

    return _touching(run, node, results, registers)


def _item(_: Assembler, node: Node, results: list[int], registers: Places) -> Instruction:
    source = registers[node.inputs[0]]

    def run(r: Registers) -> None:
        r[results[0]] = number_in(r[source])

    return _touching(run, node, results, registers)


def _guard(assembler: Assembler, node: Node, results: list[int], registers: Places) -> Instruction:
    source, expected = registers[node.inputs[0]], node.attribute("expected")
    index = node.attribute("index", assembler.guards)
    assembler.guards = index + 1

    wanted = exactly(expected)

    def run(r: Registers) -> None:
        actual = r[source]
        if actual is not expected and exactly(actual) != wanted:
            raise GuardFailed(index, actual)

    return _touching(run, node, results, registers)


def _raises(_: Assembler, node: Node, results: list[int], registers: Places) -> Instruction:
    places, raised, (only,) = {value: registers[value] for value in node.inputs}, attempt(node), results

    def run(r: Registers) -> None:
        r[only] = raised(lambda value: r[places[value]])

    return _touching(run, node, results, registers)


def _evaluate(assembler: Assembler, node: Node, results: list[int], registers: Places) -> Instruction:
    fetch, wanted, host = _fetcher(node.operands, registers), node.attribute("wanted"), assembler.host
    if host is None:
        raise GraphError(
            "prim::Eval runs the backward of a Python or native function, and this interpreter has no host to run it; "
            "pass one"
        )

    def run(r: Registers) -> None:
        *gradients, handle = fetch(r)
        for result, value in zip(results, host.evaluate(handle, gradients, wanted), strict=True):
            r[result] = value

    return _touching(run, node, results, registers)


def _fusion_group(assembler: Assembler, node: Node, results: list[int], registers: Places) -> Instruction:
    values, body, make = _with_product(assembler, node)
    inputs = [registers[value] for value in values]
    if symbols_in(body.nodes):
        return _sized_group(assembler, body, make, results, inputs)
    kernel = make(body)

    def run(r: Registers) -> None:
        for result, value in zip(results, kernel([r[i] for i in inputs]), strict=True):
            r[result] = value

    run.touched = (*results, *inputs)  # type: ignore[attr-defined]
    return run


def _with_product(assembler: Assembler, node: Node) -> tuple[list[Value], Graph, Callable[[Graph], FusedGroup]]:
    """(what a group reads, its body, what makes its callable); with the product in front, if that was held back."""
    if not any(value in assembler.held_back for value in node.inputs):
        return list(node.inputs), node.attributes["body"], fused_group
    from ..gpu.fused_product import FusedProduct, group_of

    values, body = group_of(node)
    made = next(number for number, value in enumerate(values) if value in assembler.held_back)
    product, others = assembler.held_back[values[made]], values[:made] + values[made + 1 :]
    return [*product.inputs, *others], body, lambda body: FusedProduct(body, fused_group(body), product, made)


def _sized_group(
    assembler: Assembler, body: Graph, make: Callable[[Graph], FusedGroup], results: list[int], inputs: list[int]
) -> Instruction:
    """A group of another device, whose kernel is made for the sizes that come."""
    from ..kernels.fusion import SizedGroup

    kernel, sizes = SizedGroup(body, assembler.symbols, make), assembler.sizes_register

    def run(r: Registers) -> None:
        for result, value in zip(results, kernel(r[sizes], [r[i] for i in inputs]), strict=True):
            r[result] = value

    run.touched = (*results, *inputs, sizes)  # type: ignore[attr-defined]
    return run


_PRIMITIVES: dict[str, Callable[[Assembler, Node, list[int], Places], Instruction]] = {
    "prim::Constant": _constant, "prim::size": _size, "prim::item": _item, "prim::Guard": _guard,
    "prim::Eval": _evaluate, "prim::FusionGroup": _fusion_group, "prim::raises": _raises,
}  # fmt: skip
