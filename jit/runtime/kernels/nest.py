"""The structured loop nest: the form in which a fused region goes to code generation.

A nest is an iteration space whose last dims may be reduced, affine maps that say which element is read or written at a
point of the space, and a list of steps. A step is a loop of its own over the same rows: its body computes one point,
and each result is stored, reduced along the row, or kept for the steps after it. A nest knows nothing of the IR, of
LLVM, or of the target.

    for i0 in range(extents[0]):                        # a softmax over the last dim of (64, 512): extents (64, 512),
      top = max(x[i0, i1] for i1 in range(512))         #   reduced = 1; three steps share the loop over the rows
      sum = sum(e[i1] := exp(x[i0, i1] - top) ...)      #   `e` is kept: a row that stays in the L1 cache
      for i1 in range(512): out[i0, i1] = e[i1] / sum

Note [What a nest can say]
    * Pointwise: one step, no reduced dims. Chunk, narrow, select, transpose and expand are strides and offsets of an
      Access; several writes into slices of one buffer are a `cat`.
    * Reductions: `Reduce` names a monoid. What it yields is a Local with one value for each row, an operand of any
      later step: of one that runs once for each row (`inner=False`) or at every point.
    * Rows that stay: `Keep` hands a value at every point to later steps; the lowering finds a place in scratch memory.
    * Contractions: a step whose body returns two factors, reduced by "dot". The schedule, not the nest, packs operands
      and holds a tile of results in registers; an epilogue is a later step with `inner=False`.
    * Scans: `NestScan` is an operand that the body calls with its value at a point; it returns the running reduction
      along the one reduced dim, with which the body goes on.
    * Gather: an Access may be moved by integers read from memory (`Index`), each checked against the size it indexes;
      an index outside of it makes the kernel report an error and read element 0 instead.
    * Padding: an Access may hold only within `Bound`s; outside, the operand is a constant and nothing is read.

Note [What a nest cannot say]
    * Two different reduced spaces: a matrix product followed by a softmax of its rows is two nests.
    * A scatter: writes are affine, and no two points write one element.
    * Extents that depend on data, sorting, and anything that is not one pass per step over a box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jit.ir.dtypes import DType, from_numpy
from jit.ir.errors import CompileError
from jit.ir.geometry import Geometry, broadcast_shapes

MONOIDS = ("sum", "prod", "max", "min", "logaddexp", "argmax", "argmin", "dot")
"""The ways to reduce a row. `argmax` and `argmin` take (value, position) and yield both, where positions begin
with 0 and grow along the row; `dot` takes two factors. max and min propagate NaN, and of equal values the one at the
lowest position counts."""


class NestRecord:
    """The base of the parts of a nest: compared by class and content, hashable, and never changed.

    Defines once what `dataclass(frozen=True)` would write and compile anew for each class, which would be most of the
    time that importing this module takes.
    """

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((*vars(self).values(),))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@dataclass(eq=False, repr=False)
class Buffer(NestRecord):
    """An array that the caller passes: the kernel takes arrays of exactly this layout."""

    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Steps in elements, as everywhere here; they may be zero or negative."""

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, each counted once."""
        return math.prod(self.sizes) * self.dtype.itemsize

    @staticmethod
    def like(array: np.ndarray[Any, Any]) -> Buffer:
        """The layout of `array`; CompileError if its strides are not multiples of its itemsize (a record's field)."""
        strides = array.strides
        if any(s % array.itemsize for s in strides):
            raise CompileError(
                f"byte strides {strides} are not multiples of {array.itemsize}: pass a copy of the array"
            )
        return Buffer(from_numpy(array.dtype), array.shape, tuple(s // array.itemsize for s in strides))


# -- operands ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Bound(NestRecord):
    """A condition on a point: `0 <= offset + sum(i * stride) < size`."""

    strides: tuple[int, ...]
    offset: int
    size: int


@dataclass(eq=False, repr=False)
class Index(NestRecord):
    """An integer read from memory that moves an access by `stride` elements for each unit.

    It must lie within 0..size-1; with `wraps` negative integers count from the end, as in Python.
    """

    access: Access
    stride: int
    size: int
    wraps: bool = False


@dataclass(eq=False, repr=False)
class Access(NestRecord):
    """The affine map of one operand: at point (i0, i1, ...) element `offset + sum(i * stride)` of a buffer.

    Stride 0 is a broadcast; chunk, narrow, select, transpose and expand are nothing but other strides and offsets.
    """

    buffer: int
    """Index into the nest's inputs for a read, into its outputs for a write."""
    strides: tuple[int, ...]
    """One per extent."""
    offset: int = 0
    """The distance from the first element of the buffer, index (0, 0, ...)."""
    gather: tuple[Index, ...] = ()
    """Reads only: what moves the element further."""
    within: tuple[Bound, ...] = ()
    """Reads only: where some bound does not hold, the operand is `fill`."""
    fill: int | float | bool = 0
    arity: ClassVar[int] = 1
    """The number of the body's values that a result takes: one."""


@dataclass(eq=False, repr=False)
class Position(NestRecord):
    """An operand that is not in memory: the int64 `offset + sum(i * stride)`, such as a row-major index."""

    strides: tuple[int, ...]
    offset: int = 0
    number: int = 0
    """Tells apart those that sizes decide on, which may be equal at some sizes."""


@dataclass(eq=False, repr=False)
class Local(NestRecord):
    """An operand that an earlier step made: one value per row if it was reduced, one per point if it was kept."""

    number: int


@dataclass(eq=False)
class NestScan:
    """An operand that is a function: `running(value)` is what values have come to at this point, this one included.

    The body calls it once. It runs along the one reduced dim, with a monoid that yields one value. No two are equal:
    each has an accumulator of its own.
    """

    monoid: str
    dtype: DType
    """The dtype of the values and of their accumulator."""


Operand = Access | Position | Local | NestScan

# -- results -----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Reduce(NestRecord):
    """Combine what the body yields along the row, by one of MONOIDS, into `locals` (two for argmax and argmin)."""

    monoid: str
    locals: tuple[int, ...]
    dtype: DType
    """The dtype of the values that the body yields, and of their accumulator."""

    @property
    def arity(self) -> int:
        """The number of the body's values that the reduction takes."""
        return 2 if self.monoid in ("argmax", "argmin", "dot") else 1


@dataclass(eq=False, repr=False)
class Keep(NestRecord):
    """Hand the value at every point to later steps; of a step that runs once for each row, that one value."""

    local: int
    dtype: DType
    arity: ClassVar[int] = 1


Result = Access | Reduce | Keep


@dataclass(eq=False, repr=False)
class NestStep(NestRecord):
    """One loop over the rows of a nest.

    `body(m, *operands)` is called with a math namespace and one value per operand, and returns as many values as its
    results take, in their order (a lone value needs no tuple). A stored value has the written buffer's dtype.
    """

    reads: tuple[Operand, ...]
    results: tuple[Result, ...]
    body: Callable[..., Any]
    inner: bool = True
    """Whether it runs at every point, or once for each row (then its maps do not move along reduced dims)."""

    @property
    def writes(self) -> tuple[Access, ...]:
        """The maps by which it stores."""
        return tuple(r for r in self.results if isinstance(r, Access))

    @property
    def scans(self) -> tuple[NestScan, ...]:
        """The operands that are running reductions."""
        return tuple(o for o in self.reads if isinstance(o, NestScan))


# -- the nest ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Nest(NestRecord):
    """Steps over `extents`, of which the last `reduced` are the dims of a row; all rows are independent.

    Every map is checked to stay inside its buffer, so that no nest can touch memory that it was not given.
    An output may share memory with an input only if they are read and written through the same map.
    """

    extents: tuple[int, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    steps: tuple[NestStep, ...]
    reduced: int = 0
    name: str = "kernel"
    """A readable name for the function; letters, digits and underscores."""
    comments: tuple[str, ...] = ()
    """The user's lines that this kernel computes; they open its LLVM IR."""
    cost: int = 1
    """About how many instructions the dearest step takes at a point; how much is unrolled depends on it."""

    def __post_init__(self) -> None:
        for step in self.steps:
            for operand in step.reads:
                self._check_read(operand, step)
            for access in step.writes:
                self._check(access, self.outputs, "write", step)
                repeated = any(s == 0 and n > 1 for s, n in zip(access.strides, self._space(step), strict=False))
                if repeated and 0 not in self.extents:
                    raise CompileError(
                        f"{self.name}: a write with stride 0 would store several results in one element; reduce them"
                    )
            self._check_results(step)

    @property
    def reads(self) -> tuple[Access, ...]:
        """Every map that is read from memory, those of indices included, each once."""
        found: dict[Access, None] = {}
        for step in self.steps:
            for operand in step.reads:
                if isinstance(operand, Access):
                    found.update(dict.fromkeys((operand, *(i.access for i in operand.gather))))
        return tuple(found)

    @property
    def writes(self) -> tuple[Access, ...]:
        """Every map that is written."""
        return tuple(access for step in self.steps for access in step.writes)

    @property
    def indices(self) -> tuple[Index, ...]:
        """Every index that moves a read, each once."""
        return tuple(dict.fromkeys(index for access in self.reads for index in access.gather))

    @property
    def points(self) -> tuple[Bound | Position, ...]:
        """Every map that yields a number instead of an element, each once."""
        return tuple(dict.fromkeys(self._points()))

    def _points(self) -> Iterator[Bound | Position]:
        for step in self.steps:
            for operand in step.reads:
                if isinstance(operand, Access):
                    yield from operand.within
                elif isinstance(operand, Position):
                    yield operand

    @property
    def nbytes(self) -> int:
        """The bytes that the maps of a run touch; of each buffer no more than it has."""
        reads = (self._touched([a for a in self.reads if a.buffer == i], b) for i, b in enumerate(self.inputs))
        writes = (self._touched([a for a in self.writes if a.buffer == i], b) for i, b in enumerate(self.outputs))
        return sum(reads) + sum(writes)

    def _touched(self, accesses: Sequence[Access], buffer: Buffer) -> int:
        """The bytes of a buffer that accesses touch."""
        touched = (math.prod(n for n, s in zip(self.extents, a.strides) if s or a.gather) for a in accesses)
        return min(sum(touched) * buffer.dtype.itemsize, buffer.nbytes)

    @property
    def scans(self) -> tuple[NestScan, ...]:
        """Every running reduction."""
        return tuple(scan for step in self.steps for scan in step.scans)

    @property
    def row(self) -> int:
        """The number of points of a row."""
        count = 1
        for extent in self.extents[len(self.extents) - self.reduced :]:
            count *= extent
        return count

    def _space(self, step: NestStep) -> tuple[int, ...]:
        """The extents that a step runs over."""
        return self.extents if step.inner else self.extents[: len(self.extents) - self.reduced]

    def _check_read(self, operand: Operand, step: NestStep) -> None:
        if isinstance(operand, Position):
            self._check_strides(operand.strides, "position")
        if isinstance(operand, NestScan):
            self._check_scan(operand, step)
        if not isinstance(operand, Access):
            return
        self._check(operand, self.inputs, "read", step)
        for bound in operand.within:
            self._check_strides(bound.strides, "bound")
        for index in operand.gather:
            self._check(index.access, self.inputs, "index", step)
            if not self.inputs[index.access.buffer].dtype.is_integral or index.access.gather or index.access.within:
                raise CompileError(f"{self.name}: an index is a plain access to integers; pass one without bounds")
            if index.size < 1 and 0 not in self.extents:
                raise CompileError(
                    f"{self.name}: an index into a dim of size 0 has nothing to read; leave the nest out"
                )

    def _check_scan(self, scan: NestScan, step: NestStep) -> None:
        if not step.inner or scan.monoid not in MONOIDS[:5]:
            raise CompileError(
                f"{self.name}: {scan} cannot stand in this step; use one of {MONOIDS[:5]} at every point"
            )
        if self.reduced != 1:
            raise CompileError(f"{self.name}: a scan runs along one reduced dim, not {self.reduced}; join them")

    def _check_strides(self, strides: tuple[int, ...], verb: str) -> None:
        if len(strides) != len(self.extents):
            raise CompileError(
                f"{self.name}: {len(strides)} strides in a {verb} for {len(self.extents)} loops; pass one for each"
            )

    def _check(self, access: Access, buffers: tuple[Buffer, ...], verb: str, step: NestStep) -> None:
        self._check_strides(access.strides, verb)
        if not 0 <= access.buffer < len(buffers):
            raise CompileError(
                f"{self.name}: a {verb} names buffer {access.buffer} of {len(buffers)}; they are numbered from 0"
            )
        if not step.inner and any(access.strides[len(self._space(step)) :]):
            raise CompileError(
                f"{self.name}: a {verb} of a step that runs once for each row moves along the row; use stride 0 there"
            )
        if 0 in self.extents or (boxes := _touched(self.extents, access)).numel == 0:
            return
        buffer = buffers[access.buffer]
        whole = Geometry(buffer.sizes, buffer.strides)
        low, high = whole.extent() if whole.numel else (0, -1)
        first, last = boxes.extent()
        if first < low or last > high:
            raise CompileError(
                f"{self.name}: a {verb} touches elements {first}..{last} of a buffer of {low}..{high}; "
                "pass strides and an offset that stay inside"
            )

    def _check_results(self, step: NestStep) -> None:
        for result in step.results:
            if isinstance(result, Access) or (isinstance(result, Keep) and not step.inner):
                continue
            monoid = "sum" if isinstance(result, Keep) else result.monoid
            if not step.inner or monoid not in MONOIDS:
                raise CompileError(
                    f"{self.name}: {result} cannot stand in this step; use one of {MONOIDS} at every point"
                )


def _touched(extents: tuple[int, ...], access: Access) -> Geometry:
    """The elements that an access may touch: its box, cut by its bounds and spread by its indices.

    A bound on v = offset + sum(i * stride) cuts the dims that it looks at if the access moves by one and the same
    number of elements for each unit of v: those dims together are then one dim, that of v within the bound.
    """
    dims, offset = dict(enumerate(zip(extents, access.strides, strict=True))), access.offset
    for number, bound in enumerate(access.within):
        looked_at = [d for d, s in enumerate(bound.strides) if s and extents[d] > 1 and d in dims]
        units = {divmod(access.strides[d], bound.strides[d]) for d in looked_at} or {(0, 0)}
        if len(units) == 1 and (unit := units.pop())[1] == 0:
            low, high = Geometry(extents, bound.strides, bound.offset).extent()
            low, high = max(low, 0), min(high, bound.size - 1)
            offset += (low - bound.offset) * unit[0]
            dims = {d: size for d, size in dims.items() if d not in looked_at}
            dims[len(extents) + number] = (max(high - low + 1, 0), unit[0])
    sizes, strides = (
        zip(*dims.values(), *((i.size, i.stride) for i in access.gather), strict=True) if dims else ((), ())
    )
    return Geometry(tuple(sizes), tuple(strides), offset)


def one_step(
    extents: tuple[int, ...],
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
    reads: Sequence[Operand],
    writes: Sequence[Result],
    body: Callable[..., Any],
    name: str = "kernel",
    comments: tuple[str, ...] = (),
) -> Nest:
    """A nest of a single step without reduced dims: every point on its own."""
    step = NestStep(tuple(reads), tuple(writes), body)
    return Nest(extents, tuple(inputs), tuple(outputs), (step,), 0, name, comments)


def pointwise_nest(
    body: Callable[..., Any],
    inputs: Sequence[np.ndarray[Any, Any]],
    outputs: Sequence[np.ndarray[Any, Any]],
    name: str = "kernel",
) -> Nest:
    """The nest that applies `body` to `inputs`, broadcast against one another as numpy does, and fills `outputs`.

    >>> x = np.arange(3.0)
    >>> pointwise_nest(lambda m, a, b: a + b, [x, x[:1]], [x]).steps[0].reads[1].strides
    (0,)
    """
    extents = broadcast_shapes(*(a.shape for a in inputs), outputs[0].shape)
    ins, outs = tuple(map(Buffer.like, inputs)), tuple(map(Buffer.like, outputs))
    reads = tuple(_broadcast(i, buffer, extents) for i, buffer in enumerate(ins))
    writes = tuple(Access(i, buffer.strides) for i, buffer in enumerate(outs))
    return one_step(extents, ins, outs, reads, writes, body, name)


def _broadcast(index: int, buffer: Buffer, extents: tuple[int, ...]) -> Access:
    return Access(index, Geometry(buffer.sizes, buffer.strides).expand(extents).strides)
