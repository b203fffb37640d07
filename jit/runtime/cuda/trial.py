"""Whether CUDA graphs do here what `graphs` takes for granted: tried out once in a process, not assumed."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from jit.ir import Node
from jit.ir.errors import Error

from ..kernels.nest import pointwise_nest
from .graphs import GraphRefused, LaunchGraph
from .launch_words import KernelLaunch, LaunchTables, OperandPlace
from .launching import Driver

POINTS = 4096
"""The elements of the arrays."""
ROUNDS = 3
"""The launches of the graph, each with other arrays."""

_TRIED: WeakKeyDictionary[Driver, bool] = WeakKeyDictionary()


def graphs_work(library: Any) -> bool:
    """Whether graphs work on a GPU, given its arrays; found out when it is first asked, which waits for the GPU."""
    driver = library.driver
    if driver not in _TRIED:
        try:
            _TRIED[driver] = _try(library)
        except (Error, GraphRefused):
            _TRIED[driver] = False
    return _TRIED[driver]


def _try(library: Any) -> bool:
    """Whether a graph of two kernels, the second of which reads what the first one writes, follows its arrays."""
    module, driver = library.module, library.driver
    given = [module.asarray(np.arange(POINTS, dtype=np.float32) + number) for number in range(ROUNDS)]
    found = [[module.zeros(POINTS, "float32") for _ in range(2)] for _ in given]
    double = pointwise_nest(lambda m, x: x + x, [given[0]], [given[0]], name="trial")
    ((kernel, _),) = library.kernels(double).calls
    node = Node(None, "prim::Native", (), {})
    places = [OperandPlace(base, 0) for base in range(4)]
    launches = [KernelLaunch(kernel, places[3], places[at : at + 2], node) for at in range(2)]
    graph, quiet = LaunchGraph(LaunchTables(launches).at(), driver.functions), module.zeros(1, "int32")
    driver.attach()
    for array, results in zip(given, found, strict=True):
        bases = (ctypes.c_int64 * 4)(*[a.data.ptr for a in (array, *results, quiet)])
        graph.queue(bases, module.cuda.get_current_stream().ptr)
    pairs = zip(given, found, strict=True)
    return all(np.array_equal(results[1].get(), 4 * array.get()) for array, results in pairs)
