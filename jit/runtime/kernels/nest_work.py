"""The nest as a step of a plan: threads share the turns of its outermost loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jit.ir import Graph, Node

from .codegen import Kernel
from .nest import Nest
from .work import NestUse, Work


@dataclass(eq=False)
class NestWork(Work):
    """A call of one kernel."""

    nest: Nest
    operators: int
    """The number of operators that are computed at a point, about."""
    share: float = 1.0
    """The share of the node's work that it does."""
    kernel: Kernel = field(init=False, repr=False)
    """The compiled nest, once it is bound."""

    grain = 64  # so that parts of long rows begin where vectors do
    long = 1 << 17
    is_linear = True
    is_late = False

    @staticmethod
    def of(node: Node, nest: Nest, share: float = 1.0) -> NestWork:
        """A nest that computes a node, or some of it."""
        body = node.attributes.get("body")
        return NestWork(nest, len(body) if isinstance(body, Graph) else 1, share)

    @property
    def panels(self) -> int:
        """The number of turns of the outermost loop, if they may be shared."""
        return self.kernel.rows

    @property
    def effort(self) -> int:
        """Operators at points, and what it takes to load and store there."""
        return math.prod(self.nest.extents) * (2 + self.operators)

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for rows that are kept, and for accumulators."""
        return self.kernel.scratch_bytes

    @property
    def nests(self) -> Sequence[NestUse]:
        """The nest, called once."""
        return (NestUse(self.nest, 1, self.share),)

    def bind(self, kernels: Mapping[int, Kernel]) -> None:
        """Take the compiled nest."""
        self.kernel = kernels[id(self.nest)]

    def function(self) -> int:
        """The kernel's address."""
        return self.kernel.address

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The kernel's numbers for a range of turns."""
        return self.kernel.geometry if last is None else self.kernel.part(first, last)

    def moved_bytes(self, operands: int) -> int:
        """The bytes that the nest's maps touch, which may be fewer than the operands have."""
        return self.nest.nbytes

    def flops(self, *of_nodes: int) -> int:
        """The nest's share of the flops of its node."""
        return round(self.share * of_nodes[0])

    def label(self, operator: str) -> str:
        """The nest's name."""
        return self.nest.name
