"""Lowering of a nest and its loops to LLVM IR, for processors: how many lanes, and where accumulators stand.

Comes after `schedule` and `lanes`, before `codegen`. The function itself is written by `lowering`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate

from jit.ir.errors import CompileError

from ..kernels.lanes import LONG, lanes, lanes_of_vector
from ..kernels.nest import Nest
from ..kernels.schedule import Loops
from ..targets.target import Target
from . import column_tiles
from .function import LoweredFunction
from .lowering import NestLowering
from .values import ELEMENT
from .vectors import VectorMachine

MOST_ALIVE = 16
"""Long bodies that hold more values than this at once take one vector at a time: not all would be in registers."""
_REGISTER = re.compile(r"%v\d+")


def lower(nest: Nest, loops: Loops, target: Target) -> LoweredFunction:
    """The function that computes `nest`; CompileError if its body asks for what kernels do not have."""
    for buffer in nest.inputs + nest.outputs:
        if buffer.dtype not in ELEMENT:
            raise CompileError(f"kernels do not compute in {buffer.dtype.name}; leave the op out of the fusion group")
    width, vector = lanes(nest, loops, target), lanes_of_vector(nest, target)
    tiled = width > 1 and column_tiles.is_tiled(nest, loops)
    lowering = column_tiles.TiledLowering if tiled else NestLowering
    function = _written(lowering, nest, loops, min(width, lowering.most_lanes), target)
    if nest.cost <= LONG or nest.reduced or width <= vector or most_alive(function.definition) <= MOST_ALIVE:
        return function
    return _written(NestLowering, nest, loops, vector, target)


def _written(lowering: type[NestLowering], nest: Nest, loops: Loops, width: int, target: Target) -> LoweredFunction:
    """The function whose turns take `width` points at once."""
    return lowering(nest, loops, width, VectorMachine(nest, loops, width, target)).function()


def most_alive(definition: str) -> int:
    """The most vectors of a function that are in use at once, between the step that makes them and the last use."""
    lines = definition.splitlines()
    made = {line.partition(" ")[0] for line in lines if line.startswith("%v") and " <" in line}
    last = {name: number for number, line in enumerate(lines) for name in _REGISTER.findall(line) if name in made}
    ending = Counter(last.values())
    changes = ((line.partition(" ")[0] in made) - ending[number] for number, line in enumerate(lines))
    return max(accumulate(changes), default=0)
