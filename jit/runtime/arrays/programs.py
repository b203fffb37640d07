"""Programs: instructions over numbered registers, one program for each stage, and the engines that have them.

A register is freed after its last use, in whatever stage that is, so what a later stage needs is exactly what survives
a run: its `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jit.ir import Graph, Node
from jit.ir.errors import Error
from jit.ir.graph import Ref, map_template

Registers = list[Any]
Instruction = Callable[[Registers], None]


class GuardFailed(Exception):
    """A guard's failure: a value on which Python decided while tracing is another one now. Nothing has been written."""

    def __init__(self, index: int, actual: Any) -> None:
        super().__init__(f"guard {index} saw {actual!r}")
        self.index = index
        self.actual = actual


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


class Engine(Protocol):
    """The engine of a graph: the interpreter, a plan made in this process, or one that another process has made."""

    programs: list[Program]
    """The program of each stage."""
    count: int
    """The number of registers."""

    @property
    def graph(self) -> Graph:
        """The graph that runs, as the passes have left it."""

    def run(
        self, stage: int, inputs: Sequence[Any], state: Registers | None = None
    ) -> tuple[list[Any], list[Any], Registers]:
        """Run one stage, see `Runner.run`."""

    @property
    def natives(self) -> Sequence[Sequence[Any]]:
        """Per stage the native calls of the local plan, in order; empty where there is no native code."""

    def native_call(self, stage: int, arrays: Sequence[Any] = (), with_views: bool = False) -> Any:
        """The one native call that a stage consists of; None if there is more to it than views, if these may be."""

    @property
    def local_plan(self) -> Engine:
        """The engine made of the graph in this process, which knows nodes and kernels: mostly this one."""

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences about how it runs, if anything is to be said."""

    def freeze(self) -> None:
        """Stay as it is although the recording behind the graph is about to grow."""


class Runner:
    """The loop that runs programs. Thread-safe: a run owns its registers."""

    @property
    def remarks(self) -> Sequence[str]:
        """Nothing is to be said about how it runs."""
        return ()

    def __init__(self, programs: list[Program], count: int) -> None:
        self.programs = programs
        self.count = count

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
        registers = [None] * self.count if state is None else list(state)
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


def locate(error: Exception, node: Node) -> None:
    """Let an error say which line asked for the operator: the traceback shows the engine alone."""
    where = str(node.source)
    if node.source is None or where in str(error):
        return
    if isinstance(error, Error) and error.args:
        error.args = (f"{error.args[0]} (asked for at {where})", *error.args[1:])
    else:
        error.add_note(f"in {node.kind}, asked for at {where}")
