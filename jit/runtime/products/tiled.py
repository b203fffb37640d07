"""A product and the pointwise kernel behind it, run tile by tile: the product's result never leaves the cache.

Comes between `epilogues`, which says when, and `plan`. Neither the code of products nor that of kernels knows of it.

Note [A program in a step]
    The result of a product is cut into tiles along its axes. For each tile there are two calls, that of the product of
    some rows and columns, into scratch memory, and that of the kernel at the same points:

        %1 = aten::mm(%x, %w)                      for rows, columns in tiles:
        %2 = prim::FusionGroup(%1, %b)                 scratch = x[rows] w[:, columns]
                                                       out[rows, columns] = group(scratch, b[columns])

    A list of calls on operands at offsets is what a program is (Note [A program] in `entry`), so the step is a
    program whose bases are the step's operands, and what runs programs runs it. A product of some rows and columns is
    a product. A kernel at some points is that of a nest with smaller extents, whose geometry differs from tile to tile
    in the offsets of its maps alone. Threads share the tiles; as each element is computed as it would be without
    tiles, neither their sizes nor the number of threads shows in the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from jit.ir.types import contiguous_strides

from ..kernels.codegen import Kernel
from ..kernels.nest import Access, Bound, Buffer, Nest, Operand, Position
from ..kernels.work import NestUse, Sizes, Tileable, Work
from ..llvm.words import Routine

# -- a kernel at the points of a tile --------------------------------------------------------------------------------


@dataclass(eq=False)
class Epilogue:
    """A pointwise nest along the axes of the product whose result it reads."""

    nest: Nest
    made: frozenset[int]
    """The inputs that are the product's result."""

    home: int | None
    """The output whose memory the result takes until the nest has read it; None if it is in scratch memory."""

    def of_tile(self, sizes: Sizes) -> Nest:
        """The nest at the points of the first tile."""
        if self.home is not None:
            return replace(self.nest, extents=sizes)
        inputs = [
            Buffer(b.dtype, sizes, contiguous_strides(sizes)) if number in self.made else b
            for number, b in enumerate(self.nest.inputs)
        ]

        def read(operand: Operand) -> Operand:
            within = isinstance(operand, Access) and operand.buffer in self.made
            return replace(operand, strides=contiguous_strides(sizes)) if within else operand  # type: ignore[arg-type]

        (step,) = self.nest.steps
        step = replace(step, reads=tuple(map(read, step.reads)))
        return replace(self.nest, extents=sizes, inputs=tuple(inputs), steps=(step,))

    def geometries(self, kernel: Kernel, starts: Any) -> Any:
        """Geometries of tiles, a row each: `Kernel.geometry` with the offsets that maps have where a tile starts."""
        nest = kernel.nest
        still = self.made if self.home is None else ()
        moves = [_steps(a, nest.inputs) * (a.buffer not in still) for a in nest.reads]
        moves += [*(_steps(a, nest.outputs) for a in nest.writes), *(np.array(p.strides) for p in nest.points)]
        ahead = starts @ np.array(moves, np.int64).T
        found = np.repeat(np.array(kernel.geometry, np.int64)[None], len(starts), 0)
        for place, (name, *where) in enumerate(kernel.code.numbers):
            if name == "offset":
                found[:, place] += ahead[:, where[0]]
        return found


def _steps(access: Access, buffers: Sequence[Buffer]) -> Any:
    return np.array(access.strides, np.int64) * buffers[access.buffer].dtype.itemsize


def epilogue(nest: Nest, made: frozenset[int], product: Tileable) -> Epilogue | None:
    """`nest` as an epilogue of the product whose result the inputs `made` are; None if it cannot be one."""
    axes = product.axes
    if nest.reduced or len(nest.steps) != 1 or math.prod(nest.extents) != math.prod(axes):
        return None
    found = next((a for a in nest.reads if a.buffer in made), None)
    columns = None if found is None else _along(nest, found, axes)
    if columns is None:
        return None
    maps = (*nest.reads, *nest.writes, *nest.points)
    strides = {map: tuple(column[number] for column in columns) for number, map in enumerate(maps)}
    regular = contiguous_strides(axes)
    for access in nest.reads:
        if access.buffer in made and not _is_whole(access, strides[access], axes, regular):
            return None
    there = _moved(nest, axes, strides)
    return Epilogue(there, made, None if product.scatters else _home(there, product.dtype))


def _home(nest: Nest, dtype: Any) -> int | None:
    """The output that lies as the result does."""
    regular = contiguous_strides(nest.extents)
    for access in nest.writes:
        if nest.outputs[access.buffer].dtype is dtype and _is_whole(access, access.strides, nest.extents, regular):
            return access.buffer
    return None


def _is_whole(access: Access, strides: Sizes, axes: Sizes, regular: Sizes) -> bool:
    """Whether each point reads its own element of a result."""
    plain = not access.offset and not access.gather and not access.within
    return plain and all(n == 1 or s == r for n, s, r in zip(axes, strides, regular, strict=True))


def _along(nest: Nest, result: Access, axes: Sizes) -> list[Any] | None:
    """The strides of all maps along `axes`: loops in the order in which they move through `result`, cut and joined."""
    maps = (*nest.reads, *nest.writes, *nest.points)
    loops = [
        (extent, tuple(map.strides[dim] for map in maps))
        for dim, extent in sorted(enumerate(nest.extents), key=lambda pair: -result.strides[pair[0]])
        if extent != 1
    ]
    found: list[Any] = []
    for size in reversed(axes):
        extent, column = 1, (0,) * len(maps)
        while extent < size and loops:
            outer, far = loops.pop()
            if extent == 1:
                column = far
            elif far != tuple(stride * extent for stride in column):
                return None
            extent *= outer
        if extent % size:
            return None
        if extent > size:
            loops.append((extent // size, tuple(stride * size for stride in column)))
        found.insert(0, column)
    return found


def _moved(nest: Nest, extents: Sizes, strides: dict[Any, Sizes]) -> Nest:
    """The same points in another space."""

    def moved(thing: Any) -> Any:
        if not isinstance(thing, Access | Bound | Position):
            return thing
        there: Any = replace(thing, strides=strides[thing])
        if isinstance(thing, Access) and (thing.gather or thing.within):
            gather = tuple(replace(index, access=moved(index.access)) for index in thing.gather)
            there = replace(there, gather=gather, within=tuple(map(moved, thing.within)))
        return there

    (step,) = nest.steps
    step = replace(step, reads=tuple(map(moved, step.reads)), results=tuple(map(moved, step.results)))
    return replace(nest, extents=extents, steps=(step,))


# -- the work --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Tiled(Work):
    """A product with its epilogue. Operands: what the product reads, what else the nest reads, what it writes."""

    product: Tileable
    operands: int
    """The number of operands that the product reads."""
    epilogue: Epilogue
    _kept: list[Any] = field(init=False, default_factory=list)
    _kernels: Mapping[int, Kernel] = field(init=False)
    """Kernels by the `id` of their nests."""

    @cached_property
    def _nests(self) -> dict[Sizes, Nest]:
        """The nests by the sizes of tiles."""
        return {sizes: self.epilogue.of_tile(sizes) for sizes in dict.fromkeys(map(tuple, self._sizes.tolist()))}

    @property
    def panels(self) -> int:
        """The number of tiles."""
        return len(self._starts)

    @property
    def effort(self) -> int:
        """The effort of the product."""
        return self.product.effort

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for the product's own use, and for a tile unless that has a home."""
        tile = math.prod(self.product.tile) * self.product.dtype.itemsize
        return self._before_tile + (tile if self.epilogue.home is None else 0)

    @property
    def nests(self) -> Sequence[NestUse]:
        """The epilogue for tiles of each size."""
        whole = math.prod(self.product.axes)
        return [
            NestUse(nest, int((self._sizes == sizes).all(1).sum()), math.prod(sizes) / whole)
            for sizes, nest in self._nests.items()
        ]

    @property
    def kept(self) -> list[Any]:
        """The programs of tiles and what they hold addresses of: grows with the geometries."""
        return self._kept

    def bind(self, kernels: Mapping[int, Kernel]) -> None:
        """Take the compiled epilogues."""
        self._kernels = kernels

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return _runner()

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The program of a range of tiles, and the most operands that its steps have."""
        program = np.append(self._words[first:last], 0)
        self._kept.append(program)
        return np.array([_address(program), self.operands + 2 + len(self._bases)], np.int64)

    def flops(self, *of_nodes: int) -> int:
        """The flops of the product and of the kernel."""
        of_product, of_kernel = of_nodes
        return self.product.flops(of_product) + of_kernel

    def label(self, operator: str) -> str:
        """The product's label, and the name of the kernel."""
        return f"{self.product.label(operator)}, {self.epilogue.nest.name} by tiles"

    @cached_property
    def _starts(self) -> Any:
        """The starts of tiles, a row each."""
        axes = zip(self.product.axes, self.product.tile, strict=True)
        grid = np.meshgrid(*(np.arange(0, size, step) for size, step in axes), indexing="ij")
        return np.stack(grid, -1).reshape(-1, len(grid))

    @cached_property
    def _sizes(self) -> Any:
        """The sizes of tiles: those at the ends may be smaller."""
        return np.minimum(np.array(self.product.tile), np.array(self.product.axes) - self._starts)

    @property
    def _before_tile(self) -> int:
        """The place of the tile in the scratch memory."""
        return -(-self.product.scratch_bytes // 64) * 64

    @property
    def _bases(self) -> list[int | None]:
        """The operand that each buffer of the nest is; None for a tile in scratch memory."""
        nest, numbers = self.epilogue.nest, itertools.count(self.operands)
        inputs = [None if i in self.epilogue.made else next(numbers) for i in range(len(nest.inputs))]
        outputs = list(itertools.islice(numbers, len(nest.outputs)))
        home = None if self.epilogue.home is None else outputs[self.epilogue.home]
        return [*(home if base is None else base for base in inputs), *outputs]

    @cached_property
    def _words(self) -> Any:
        """The words for each tile: two steps, see Note [A program] in `entry`."""
        bases, home = self._bases, self.epilogue.home is not None
        scratch = max(self.operands - 1, *(base for base in bases if base is not None)) + 1
        result = scratch if not home else bases[min(self.epilogue.made)]
        numbers = [*range(self.operands), result, *[scratch] * (self.product.scratch_bytes > 0)]
        pieces = self.product.pieces(self._starts, self._sizes, home)
        offsets = np.zeros((self.panels, len(numbers)), np.int64)
        offsets[:, : self.operands + 1] = pieces.offsets
        offsets[:, self.operands] += 0 if home else self._before_tile
        product = self._steps(pieces.functions, _rows_at(pieces.geometries), numbers, offsets)
        there = [self._before_tile if base is None else 0 for base in bases]
        kernels = self._steps(*self._kernel_calls(), [scratch if base is None else base for base in bases], there)
        self._kept += [pieces, self.product.kept]
        return np.concatenate([product, kernels], 1)

    def _kernel_calls(self) -> tuple[Any, Any]:
        """Kernel and geometry of each tile: the function, and the place of its numbers."""
        functions, addresses = np.zeros((2, self.panels), np.int64)
        for sizes, nest in self._nests.items():
            here = (self._sizes == sizes).all(1)
            kernel = self._kernels[id(nest)]
            geometries = self.epilogue.geometries(kernel, self._starts[here])
            functions[here], addresses[here] = kernel.address, _rows_at(geometries)
            self._kept.append(geometries)
        return functions, addresses

    def _steps(self, functions: Any, geometries: Any, bases: Sequence[int], offsets: Any) -> Any:
        """A step for each tile."""
        table = np.array(geometries, np.int64)
        self._kept.append(table)
        words = np.zeros((self.panels, 5 + 2 * len(bases)), np.int64)
        words[:, 0], words[:, 1], words[:, 2], words[:, 3] = functions, _rows_at(table), len(bases), 1
        words[:, 5::2], words[:, 6::2] = bases, offsets
        return words


@cache
def _runner() -> int:
    """`i32 kernel(ptr data, ptr geometry)`: run a program on the operands, in one part."""
    from ..kernels.codegen import compile_routine
    from ..plans.entry import executing

    r = Routine("kernel", ["data", "geometry"])
    status = r.invoke("execute", r.word("%geometry"), "%data", r.word("%geometry", 1), 0)
    r.leave(r.both(status, 255))
    return compile_routine("tiles", lambda: (executing(), r.text()))


def _rows_at(array: Any) -> Any:
    """The addresses of the rows of an array."""
    return _address(array) + array.strides[0] * np.arange(len(array))


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])
