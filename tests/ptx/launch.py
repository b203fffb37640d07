"""Launches of kernels: a text is loaded into a memory, and its entries run block by block.

>>> memory = Memory()
>>> address = memory.allocate(np.arange(4, dtype=np.float32))
>>> text = '''.version 7.0 .target sm_80 .address_size 64
... .visible .entry double_it(.param .u64 x) {
...   .reg .b32 %r<3>; .reg .b64 %rd<4>;
...   ld.param.b64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
...   ld.global.b32 %r2, [%rd3]; add.rn.f32 %r2, %r2, %r2; st.global.b32 [%rd3], %r2; ret;
... }'''
>>> launch(text, "double_it", grid=1, block=4, params=[address], memory=memory)
>>> memory.view(address)
array([0., 2., 4., 6.], dtype=float32)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from .arithmetic import Array
from .findings import Coordinates, Finding
from .instructions import DTYPES
from .machine import Launch, Run, threads_of
from .memory import Memory, Storage
from .parser import WIDTHS, Function, Module, Variable, parse
from .program import Layout, Program, laid_out, number
from .traffic import Traffic

LANES = 4096
"""The threads that run at once, in whole blocks."""
STEPS = 2_000_000
"""The steps that the blocks that run at once may take."""

Extent = int | Sequence[int]
Parameters = bytes | Sequence[int | float | bytes]


class Loaded:
    """A module in a memory: its variables have addresses there, and its functions are translated."""

    def __init__(self, text: str, memory: Memory) -> None:
        self.memory, self.module = memory, parse(text)
        self.program = translated(text)
        self.addresses = [self._allocate(v) for v in self.module.variables if v.space in ("global", "const")]
        self.shared = shared_layout(self.module)
        self.symbols = dict(self.addresses) | self.shared.offsets

    def _allocate(self, variable: Variable) -> tuple[str, int]:
        dtype = DTYPES[variable.type]
        shape = (1 if variable.count is None else variable.count,)
        values = [number(text, dtype) for text in variable.initial]
        array = np.zeros(shape, dtype)
        array[: len(values)] = values
        return variable.name, self.memory.allocate(array, variable.name)

    def unload(self) -> None:
        """Give the variables' memory back."""
        for _, address in self.addresses:
            self.memory.free(address)

    def _entry(self, name: str) -> Function:
        """The entry of this name."""
        if name not in self.module.functions:
            raise Finding(f"there is no entry {name}")
        if not self.module.functions[name].is_entry:
            raise Finding(f"{name} is no entry")
        return self.module.functions[name]

    def launch(
        self,
        name: str,
        grid: Extent,
        block: Extent,
        params: Parameters,
        shared_bytes: int = 0,
        order: str | int = "forward",
        steps: int = STEPS,
        lanes: int = LANES,
    ) -> None:
        """Run an entry; raises a Finding for what is wrong with it.

        Args:
            name: The entry.
            grid, block: The number of blocks and of their threads, along up to three axes.
            params: The parameters' values, or all of their bytes.
            shared_bytes: The size of shared memory that the text leaves to the launch.
            order: The order of blocks: "forward", "backward", or the seed of a random one.
            steps: How many steps the blocks that run at once may take.
            lanes: How many threads run at once.
        """
        shape, extents = coordinates(grid), coordinates(block)
        function = self._entry(name)
        if not 1 <= math.prod(extents) <= 1024:
            raise Finding(f"a block has 1 to 1024 threads, not {math.prod(extents)}")
        parameters = parameter_storage(function.parameters, params)
        traffic: dict[int, Traffic] = {}
        for numbers in batches(math.prod(shape), max(lanes // math.prod(extents), 1), order):
            shared = Storage(self.shared.size + shared_bytes, len(numbers))
            launched = Launch(
                self.memory, parameters, shared, self.symbols, self.program,
                narrowest(self.module), traffic, np.zeros(len(numbers), np.int64), steps, shared_bytes,
            )  # fmt: skip
            with np.errstate(all="ignore"):
                Run(self.program(name), threads_of(numbers, shape, extents), launched).execute()
            traffic.pop(id(shared), None)


def launch(
    text: str,
    name: str,
    grid: Extent,
    block: Extent,
    params: Parameters,
    memory: Memory,
    shared_bytes: int = 0,
    order: str | int = "forward",
    steps: int = STEPS,
) -> None:
    """Run an entry of a PTX text; see `Loaded.launch`."""
    loaded = Loaded(text, memory)
    try:
        loaded.launch(name, grid, block, params, shared_bytes, order, steps)
    finally:
        loaded.unload()


@lru_cache(maxsize=512)
def translated(text: str) -> Callable[[str], Program]:
    """The functions of a text, each translated when it is first asked for."""
    module, programs = parse(text), dict[str, Program]()

    def program(name: str) -> Program:
        if name not in programs:
            programs[name] = Program(module, module.functions[name])
        return programs[name]

    return program


def shared_layout(module: Module) -> Layout:
    """Where the shared variables of a module lie."""
    bodies = [v for f in module.functions.values() for v in f.variables]
    return laid_out([v for v in [*module.variables, *bodies] if v.space == "shared"])


def narrowest(module: Module) -> int:
    """The bytes of the narrowest access of a module; copies go byte by byte."""
    instructions = [i for f in module.functions.values() for i in f.instructions]
    if any(i.name == "cp" for i in instructions):
        return 1
    touching = ("ld", "st", "atom", "red", "ldmatrix")
    return min((WIDTHS[i.suffixes[-1]] for i in instructions if i.name in touching), default=1)


def batches(count: int, size: int, order: str | int) -> Iterator[Array]:
    """The numbers of the blocks that run at once."""
    numbers = np.arange(count)
    if order == "backward":
        numbers = numbers[::-1]
    elif isinstance(order, int):
        numbers = np.random.default_rng(order).permutation(count)
    for start in range(0, count, size):
        yield numbers[start : start + size].copy()


def coordinates(extent: Extent) -> Coordinates:
    """One to three numbers as three."""
    given = (extent,) if isinstance(extent, int) else tuple(extent)
    x, y, z = (*given, 1, 1)[:3]
    return int(x), int(y), int(z)


def parameter_storage(parameters: list[Variable], given: Parameters) -> Storage:
    """The parameters of an entry as bytes at their places."""
    layout = laid_out(parameters)
    storage = Storage(layout.size, written=True)
    if isinstance(given, bytes):
        if len(given) != layout.size:
            raise Finding(f"the parameters have {layout.size} bytes, not {len(given)}")
        storage.bytes[: len(given)] = np.frombuffer(given, np.uint8)
        return storage
    if len(given) != len(parameters):
        raise Finding(f"the entry takes {len(parameters)} parameters, not {len(given)}")
    for variable, value in zip(parameters, given):
        raw = np.frombuffer(as_bytes(value, variable), np.uint8)
        if len(raw) != variable.size:
            raise Finding(f"parameter {variable.name} has {variable.size} bytes, not {len(raw)}")
        start = layout.offsets[variable.name]
        storage.bytes[start : start + len(raw)] = raw
    return storage


def as_bytes(value: int | float | bytes, variable: Variable) -> bytes:
    """A parameter's value as memory has it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        return struct.pack("<d" if variable.size == 8 else "<f", value)
    return int(value % (1 << 8 * variable.size)).to_bytes(variable.size, "little")
