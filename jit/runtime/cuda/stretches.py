"""Stretches of a plan on a GPU: nodes that are kernels of ours, one after the other, are one call of native code.

Comes between `plans.plan`, which cuts graphs into stretches, and `launch_list`. What passes between the kernels of a
stretch lies in an arena, whose places follow from lifetimes as on the CPU. The arena and what leaves the stretch are
memory of the call's own, from CuPy's pool: in the order of the stream, like all that is freed there.

Note [Choices by size]
    A stretch in whose nodes there are symbols is lowered with these, as on the CPU (Note [Plans for symbols] in
    `plans.sized_code`): numbers of blocks, geometries and offsets are words that are evaluated for each new size. Which
    kernel it is may follow from a size, too, such as how many threads share a row. What was decided is a condition on
    sizes; those that do not meet it have the stretch lowered once more. Arrays that lie otherwise than the graph says
    have it lowered for their layouts alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jit.ir import Node, find, kernel_of
from jit.ir.errors import CompileError
from jit.ir.size_conditions import SizeConditions, compiled
from jit.ir.size_uses import symbols_in
from jit.ir.sizes import SizeSymbol, deciding
from jit.ir.types import UNDEFINED
from jit.passes.support.spaces import is_made_up
from jit.passes.support.symbolic_sizes import put_numbers

from ..arrays.interpreter import Interpreter
from ..arrays.libraries import library_on
from ..arrays.programs import Program, Registers
from ..gpu.fused_product import is_listed, may_lead
from ..kernels import fusion
from ..plans.native import graph_of
from ..plans.places import Layout, Stretch
from ..plans.sized_tables import SizedShapes, as_texts
from ..plans.steps import is_free_view, is_plain
from .stretch_runs import StretchKernels, StretchRun

MOST_RUNS = 256
"""The most sizes and layouts for which a stretch is kept."""
MOST_VARIANTS = 16
"""The most ways in which a stretch is lowered for sizes."""


class DeviceStretches:
    """The stretches of one GPU.

    Args:
        library: Its arrays.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def is_free(self, node: Node) -> bool:
        """Whether a node is a view that is but another geometry."""
        return is_free_view(node, self._library.device)

    def is_native(self, node: Node) -> bool:
        """Whether a node is a kernel, or a product by cuBLAS; what is behind a convolution may be part of its kernel,
        which is for the interpreter."""
        made = [value for value in node.outputs if value.type is not UNDEFINED]
        if len(made) < len(node.outputs) or not any(value.uses for value in made):
            return False
        if not all(is_plain(value, self._library.device) for value in (*node.inputs, *made)):
            return False
        if any(not value.is_input and may_lead(value.node) for value in node.inputs):
            return False
        if node.kind == "prim::FusionGroup" or is_listed(node):
            return True
        if find(node.kind) is None or len(made) > 1 or kernel_of(node.kind).step:
            return False
        return (bool(node.inputs) or is_made_up(node)) and fusion.supports(node)

    def made(self, stretch: Stretch, symbols: Sequence[SizeSymbol]) -> DeviceCall:
        """The call of a stretch; StepDeclined names a node that has no kernel, if that is known already."""
        return DeviceCall(stretch, symbols, self._library)

    def instruction(self, native: DeviceCall, sizes: int) -> Any:
        """The instruction of a stretch, given the register of the values of symbols, -1 without any."""
        inputs, results = native.reads, native.results

        def run(r: Registers) -> None:
            found = native(r[sizes] if native.is_sized else (), [r[i] for i in inputs])
            for result, value in zip(results, found, strict=True):
                r[result] = value

        run.touched = (*results, *inputs, *([sizes] if native.is_sized else []))  # type: ignore[attr-defined]
        run.device_call, run.sizes = native, sizes if native.is_sized else None  # type: ignore[attr-defined]
        return run


class DeviceCall:
    """A stretch, callable with the values of its symbols and arrays; made for the sizes and layouts that come.

    Args:
        stretch: The nodes.
        symbols: The symbols in the graph, in the order in which values are given.
        library: The arrays of the GPU.
    """

    codes: Sequence[Any] = ()
    """No code for the CPU."""

    def __init__(self, stretch: Stretch, symbols: Sequence[SizeSymbol], library: Any) -> None:
        self.stretch = stretch
        self.reads: list[int] = []
        """The registers of its inputs."""
        self.results: list[int] = []
        """The registers of its outputs."""
        self.is_sized = bool(symbols_in(stretch.nodes))
        self._symbols, self._library = tuple(symbols) if self.is_sized else (), library
        self._layouts = [Layout.of(value.type) for value in stretch.inputs]  # type: ignore[arg-type]
        self._declared = _shapes_of(self._layouts, self._symbols)
        self._variants: list[_KernelsOfSizes] = []
        self._runs: dict[Any, Any] = {}
        self._lock = threading.Lock()
        if not self.is_sized:
            kernels = StretchKernels(stretch, self._layouts, (), library)
            self._runs[_key((), self._layouts)] = StretchRun(kernels)

    def __call__(self, sizes: tuple[int, ...], arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs."""
        outputs: Sequence[Any] = self.run_at(sizes, arrays)(arrays)
        return outputs

    def run_at(self, sizes: tuple[int, ...], arrays: Sequence[Any]) -> Any:
        """The code for arrays that lie as these: a `StretchRun`, or a function that runs the operators one by one."""
        key = _key(sizes, arrays)
        return self._runs.get(key) or self._made(key, sizes, arrays)

    @property
    def runs(self) -> list[StretchRun]:
        """The code that has been made so far."""
        return [run for run in list(self._runs.values()) if isinstance(run, StretchRun)]

    @property
    def remarks(self) -> list[str]:
        """Sentences about how it runs."""
        return [run.remark for run in self.runs if run.remark]

    def _made(self, key: Any, sizes: tuple[int, ...], arrays: Sequence[Any]) -> Any:
        with self._lock:
            run = self._runs[key] = self._ready(sizes, [Layout(a.dtype, a.shape, a.strides) for a in arrays])
            while len(self._runs) > MOST_RUNS:
                del self._runs[next(iter(self._runs))]
        return run

    def _ready(self, sizes: tuple[int, ...], layouts: Sequence[Layout]) -> Any:
        """The kernels for some sizes and layouts; its operators, one by one, where one has no code there."""
        try:
            if self.is_sized and all(map(Layout.fits, layouts, self._declared.at(sizes)[0])):
                return StretchRun(self._kernels_at(sizes), sizes)
            return StretchRun(StretchKernels(self._numbered(sizes), layouts, (), self._library))
        except CompileError:
            return _interpreted(self._numbered(sizes))

    def _kernels_at(self, sizes: tuple[int, ...]) -> StretchKernels:
        """The kernels that serve some sizes, and others."""
        found = next((variant.kernels for variant in self._variants if variant.holds(*sizes)), None)
        if found is not None:
            return found
        conditions = SizeConditions(dict(zip(self._symbols, sizes, strict=True)))
        names = [symbol.name for symbol in self._symbols]
        with deciding(conditions):
            kernels = StretchKernels(self.stretch, self._layouts, names, self._library)
        self._variants = [_KernelsOfSizes(kernels, compiled(conditions.found, self._symbols)), *self._variants][
            :MOST_VARIANTS
        ]
        return kernels

    def _numbered(self, sizes: tuple[int, ...]) -> Stretch:
        """The stretch with numbers for its sizes."""
        if not self.is_sized:
            return self.stretch
        body, mapping = graph_of(self.stretch)
        put_numbers(body, dict(zip(self._symbols, sizes, strict=True)))
        views = {mapping[view.output].node: None for view in self.stretch.views}
        return Stretch(list(body.nodes), list(body.inputs), [mapping[value] for value in self.stretch.outputs], views)


class _KernelsOfSizes(NamedTuple):
    """Kernels for many sizes."""

    kernels: StretchKernels
    holds: Callable[..., bool]
    """Whether they are right for some, see Note [Choices by size]."""


def _shapes_of(layouts: Sequence[Layout], symbols: Sequence[SizeSymbol]) -> SizedShapes:
    texts = [(dtype, as_texts(shape), as_texts(strides)) for dtype, shape, strides in layouts]
    return SizedShapes(texts, (), [symbol.name for symbol in symbols])


def _interpreted(stretch: Stretch) -> Any:
    interpreter = Interpreter(graph_of(stretch)[0])
    return lambda arrays: interpreter.run(0, arrays)[0]


def _key(sizes: tuple[int, ...], arrays: Sequence[Any]) -> Any:
    return sizes, *[(array.shape, array.strides) for array in arrays]


def launcher_of(
    program: Program, count: int, arrays: Sequence[Any], results: Sequence[int]
) -> Callable[[Sequence[int]], Sequence[Any]] | None:
    """A function that launches the one stretch of a program of the first stage; None if there is more to it.

    It takes the addresses of the program's inputs, which are to lie as `arrays` do, and to stay alive meanwhile.

    Args:
        program: The program.
        count: The number of registers.
        arrays: The inputs of some call.
        results: The numbers of the stretch's outputs that it gives.
    """
    native, sizes = only_device_call(program)
    if native is None:
        return None
    registers: list[Any] = [None] * count
    for register, array in zip(program.inputs, arrays, strict=True):
        registers[register] = array
    if sizes is not None:
        program.instructions[0](registers)
    run = native.run_at(() if sizes is None else registers[sizes], [registers[read] for read in native.reads])
    if not isinstance(run, StretchRun):
        return None
    places = [program.inputs.index(read) for read in native.reads]

    def launch(addresses: Sequence[int]) -> Sequence[Any]:
        outputs = run.launched([addresses[place] for place in places])
        return [outputs[number] for number in results]

    return launch


def only_device_call(program: Program) -> tuple[DeviceCall | None, int | None]:
    """The one stretch that a program consists of, and the register of its sizes; None if there is more to it."""
    if not program.instructions:
        return None, None
    *before, last = program.instructions
    native, sizes = getattr(last, "device_call", None), getattr(last, "sizes", None)
    return (native, sizes) if native is not None and len(before) == (sizes is not None) else (None, None)


def stretches_on(device: str) -> DeviceStretches | None:
    """The stretches of a GPU; None if native code cannot launch kernels there, or the device is none."""
    library: Any = library_on(device)
    return None if not library.has_elements or library.driver.functions is None else DeviceStretches(library)
