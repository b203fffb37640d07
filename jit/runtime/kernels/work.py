"""Work of a plan's step, whatever computes it: a function of machine code, its arguments, and its effort.

A kind of work is one class in one file: `NestWork` here beside; in `jit.runtime.products` the products of BLAS and
packed ones, convolutions, the gradients of their weights, pooling, and products with a kernel behind them by tiles.
Planner, profiler and views ask all of them the same questions, and never which one they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from .codegen import Kernel
    from .nest import Nest

Sizes = tuple[int, ...]


class NestUse(NamedTuple):
    """A nest that is compiled for some work."""

    nest: Nest
    calls: int
    """The number of calls by the work."""
    share: float
    """The share of a call in the node's work."""


class Work(Protocol):
    """The function `i32 kernel(ptr data, ptr geometry)` of a step, called once or in parts that threads share."""

    grain: ClassVar[int] = 1
    """The number of panels at whose multiples parts begin, where there are enough panels."""
    long: ClassVar[int] = 1 << 19
    """The effort of some ten microseconds, many times what sharing takes among threads that are awake."""
    is_late: ClassVar[bool] = True
    """Whether it has to know its sizes as numbers to say its function, geometry and scratch memory."""
    is_linear: ClassVar[bool] = False
    """Whether its time grows with the size of its operands, so that small operands take little of it."""

    @property
    def panels(self) -> int:
        """The number of ranges into which the work can be cut."""

    @property
    def effort(self) -> int:
        """The number of operations that it takes, to be compared with `long`."""

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for the function's own use, its last operand; 0 for none."""
        return 0

    @property
    def kept(self) -> Any:
        """The arrays whose addresses a geometry holds, nested anyhow; they live as long as the plan."""
        return ()

    @property
    def nests(self) -> Sequence[NestUse]:
        """The nests that have to be compiled for it."""
        return ()

    def bind(self, kernels: Mapping[int, Kernel]) -> None:
        """Take the compiled `nests` by their `id`; what follows is asked for afterwards."""
        return None

    @property
    def choices(self) -> Sizes:
        """The sizes that decide on the function; none for most work."""
        return ()

    def function(self) -> int:
        """The function's address."""

    def chosen(self, choices: Sizes) -> int:
        """The function's address, given the `choices` as numbers."""
        return self.function()

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The function's second argument for a range of `panels`: an array of int64, numpy's or of ctypes."""

    def in_tiles(self) -> Tileable | None:
        """The work as it is done tile by tile, so that a pointwise kernel can follow each tile; None if it is not."""
        return None

    def in_registers(self) -> Finishable | None:
        """The work as one behind whose sums a short epilogue is computed before they are stored; None if it is not."""
        return None

    def moved_bytes(self, operands: int) -> int:
        """The bytes that are read and written at least, given the bytes of all operands."""
        return operands

    def flops(self, *of_nodes: int) -> int:
        """The flops of the work, given those of each node that it computes (see `views.flops_of`)."""
        return of_nodes[0]

    def label(self, operator: str) -> str:
        """A name for profiles; `operator` is that of the node."""
        return operator


# -- work by tiles ---------------------------------------------------------------------------------------------------


TILE_BYTES = 1 << 17
"""About the bytes of a tile: it shares the L2 cache with its sources and with what the kernel reads and writes."""


def even(size: int, most: int, step: int = 1) -> int:
    """A tile of at most `most`, but at least one `step`, such that tiles of multiples of `step` are as equal as can be.

    >>> even(1000, 300), even(1000, 300, 32), even(100, 3, 8)
    (250, 256, 8)
    """
    steps = -(-size // step)
    count = -(-steps // max(most // step, 1))
    return min(-(-steps // count) * step, size)


class Pieces(NamedTuple):
    """The calls of a product for tiles, each a row."""

    functions: Sequence[int]
    geometries: Any
    offsets: Any
    """Offsets in bytes, of each operand, the result last."""


class Tileable(Work, Protocol):
    """A product that can be computed tile by tile."""

    @property
    def dtype(self) -> Any:
        """The dtype of the result."""

    @property
    def axes(self) -> Sizes:
        """The sizes of the result, along which tiles are cut."""

    @property
    def tile(self) -> Sizes:
        """The sizes of a tile; the last one along an axis may be smaller."""

    @property
    def scatters(self) -> bool:
        """Whether it writes a tile in scattered places, and so faster to an array of the tile's own."""

    def pieces(self, starts: Any, sizes: Any, in_place: bool) -> Pieces:
        """The calls for tiles: where they are in the whole result, or each a row-major array of its own."""


class Finishable(Tileable, Protocol):
    """A product that can finish its sums in registers, see `products.finishing`."""

    def finished_by(self, finish: Any) -> int:
        """The address of the function that stores what a finish makes of the sums."""
