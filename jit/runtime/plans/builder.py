"""The stretch under construction, as what lowers its nodes sees it: where values are, and the steps that are added.

Comes between `places` and `steps`, which implements it; copies, products, convolutions and pooling are lowered with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jit.ir import Node, Value
from jit.ir.dtypes import DType
from jit.ir.geometry import Geometry

from ..kernels.split import Split
from .places import MemoryBlock, Step, ValuePlace


class StretchBuilder(Protocol):
    """Memory for values, and the steps that compute them."""

    places: dict[Value, ValuePlace]
    """The places of the values that are known so far."""
    families: dict[Value, deque[Node]]
    """The products that are still to be lowered, by their right operand."""
    packed: dict[tuple[MemoryBlock, Geometry], ValuePlace]
    """Right operands of several products, in panels."""

    def of(self, value: Value) -> ValuePlace:
        """The place of a value."""

    def soon(self, value: Value) -> ValuePlace | None:
        """The place of a value, if it is known already or is a view of one whose place is."""

    def make(self, value: Value) -> ValuePlace:
        """Row-major memory for a new value."""

    def temporary(self, dtype: DType, sizes: tuple[int, ...]) -> ValuePlace:
        """Row-major memory that the stretch alone sees."""

    def alias(self, value: Value, place: ValuePlace) -> bool:
        """Let a value be what lies at a place already; False if its memory is for the caller to keep."""

    def together(self, nodes: Sequence[Node], whole: ValuePlace) -> None:
        """The outputs of several nodes, which one step makes before their turn, follow each other in `whole`."""

    def skip(self, node: Node) -> None:
        """A step of another node computes this one, too."""

    def is_free_to_move(self, value: Value) -> bool:
        """Whether the stretch may choose where a value lies."""

    def reader(self, value: Value) -> Node | None:
        """The one node that reads a value, if that becomes a kernel of this stretch."""

    def step(self, step: Step) -> None:
        """One more step; nothing if it computes no element."""

    def step_of_product(self, step: Step, otherwise: Callable[[], None] | None = None) -> None:
        """One more step, by itself (or what is done `otherwise`), or later, with the kernel that reads its result."""

    def pointwise(
        self, node: Node, body: Callable[..., Any], reads: Sequence[ValuePlace], write: ValuePlace, name: str
    ) -> None:
        """Add a step that fills `write` with the results of `body` at the operands `reads`."""

    def several(self, node: Node, work: Split, operands: list[ValuePlace], reusable: Sequence[int] = ()) -> None:
        """A step for each nest of a group."""
