"""Records of a plan in the making: blocks of memory, places of values in them, steps, and stretches of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.ir import Node, TensorType, Value
from jit.ir.dtypes import DType
from jit.ir.errors import CompileError
from jit.ir.geometry import Geometry

if TYPE_CHECKING:  # calls need layouts alone
    from ..kernels.nest import Nest
    from ..kernels.work import Work


class Layout(NamedTuple):
    """The facts of an array that decide on a kernel; code that makes nests takes it for an array."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Steps in bytes."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.dtype.itemsize)

    def fits(self, other: Layout) -> bool:
        """Whether it is the same, but for steps along dims of one element."""
        steps = zip(self.shape, self.strides, other.strides, strict=True)
        same = self.shape == other.shape and self.dtype == other.dtype
        return same and all(n == 1 or a == b for n, a, b in steps)

    @staticmethod
    def of(type: TensorType) -> Layout:
        """The layout of a value of this type in memory."""
        from jit.ir.op import strides_of

        assert type.dtype is not None and type.sizes is not None
        return Layout(type.dtype.numpy, type.sizes, tuple(s * type.dtype.itemsize for s in strides_of(type)))


@dataclass(eq=False, repr=False, slots=True)
class MemoryBlock:
    """A piece of memory."""

    kind: str
    """"input", "output", "constant", or "temporary": part of the arena."""
    nbytes: int
    number: int = 0
    """The number among places of its kind."""
    first: int = -1
    last: int = -1
    """The steps that write it first and touch it last."""
    offset: int = 0
    """The position of a temporary in the arena."""


class ValuePlace(NamedTuple):
    """The place of a value."""

    block: MemoryBlock
    dtype: DType
    geometry: Geometry

    @property
    def layout(self) -> Layout:
        """The place as an array's layout."""
        size = self.dtype.itemsize
        return Layout(self.dtype.numpy, self.geometry.sizes, tuple(s * size for s in self.geometry.strides))

    @property
    def start(self) -> int:
        """Bytes from the block's start to the first element."""
        return self.geometry.offset * self.dtype.itemsize


@dataclass(eq=False, repr=False, slots=True)
class Step:
    """A call of a kernel."""

    work: Work
    operands: list[ValuePlace]
    """The operands that it reads, then those that it writes."""
    results: int
    """The number of operands that it writes."""
    node: Node
    reusable: tuple[int, ...] = ()
    """Operands that are read at the very point where the result is written, so that it may take their memory."""
    scratch: int = 0
    """The number of further operands that are memory for the kernel's own use."""
    product: Node | None = None
    """The node whose epilogue `node` is, if the step does both."""

    @property
    def nests(self) -> list[Nest]:
        """The nests that have to be compiled for it."""
        return [use.nest for use in self.work.nests]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that it computes."""
        return (self.node,) if self.product is None else (self.product, self.node)


class StepDeclined(CompileError):
    """A node that turns out not to be native after all."""

    def __init__(self, node: Node, error: Exception) -> None:
        super().__init__(f"{node.kind}: {error}")
        self.node = node


@dataclass(eq=False, repr=False)
class Stretch:
    """Nodes of one stage that need no Python, in order, with what they take and give."""

    nodes: list[Node]
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    views: dict[Node, None] = field(default_factory=dict)
    """The values in whose shape outputs are handed out."""

    def add_output(self, value: Value, views: Sequence[Node]) -> None:
        """One more output, as the last one of these views shows it, each of which shows the one before."""
        self.outputs.append(views[-1].output if views else value)
        self.views |= dict.fromkeys(views)
        self.nodes += [view for view in views if view not in self.nodes]


class Held(NamedTuple):
    """A product that waits for the kernel that reads its result: see `epilogues`."""

    step: Step
    otherwise: Callable[[], None]
    """The steps to take if the two are not one step."""
