"""Plans of the branches and steps of control flow: one for each kind of arrays that comes.

Note [Plans of bodies]
    A sub-graph is planned when it first runs, for the arrays that it gets: a branch that is never taken is never
    compiled, and a step that is repeated is compiled once. Another layout or size of arrays gets a plan of its own when
    it comes a second time. Beyond `MOST` of them, and on other devices, a sub-graph runs node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import Graph, TensorType, dtypes
from jit.ir.collector import collector_resting
from jit.passes.support.symbolic_sizes import forget_sizes

from ..arrays.control import Body
from ..arrays.interpreter import Host, interpreted
from .optimising import optimised

MOST = 8
"""The most plans of a sub-graph."""


class PlannedBody:
    """A sub-graph of control flow as a function of the values of its inputs; see Note [Plans of bodies].

    Args:
        graph: The sub-graph.
        host: Calls Python and native functions.
        plan: Makes an engine of an improved graph.
    """

    def __init__(self, graph: Graph, host: Host | None, plan: Callable[[Graph, Host | None], Any]) -> None:
        self.graph, self.host, self._plan = graph, host, plan
        self.plans: dict[Any, Body] = {}
        """The plan for each look of the arrays."""
        self._seen: set[Any] = set()
        self._interpreted: Body | None = None

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        look = tuple([(v.dtype, v.shape, v.strides) if isinstance(v, np.ndarray) else type(v) for v in values])
        body = self.plans.get(look)
        return (self._body(look, values) if body is None else body)(values)

    def _body(self, look: Any, values: Sequence[Any]) -> Body:
        wanted = not self.plans or look in self._seen
        if wanted and all(map(_is_plain, values)) and len(self.plans) < MOST and self._is_on_host():
            self.plans[look] = body = self._planned(values)
            return body
        if len(self._seen) < MOST:
            self._seen.add(look)
        if self._interpreted is None:
            self._interpreted = interpreted(self.graph, self.host)
        return self._interpreted

    def _is_on_host(self) -> bool:
        types = [value.type for value in self.graph.values]
        return all(type.device == "cpu" for type in types if isinstance(type, TensorType))

    def _planned(self, values: Sequence[Any]) -> Body:
        graph = self.graph.clone()
        forget_sizes(graph)
        for formal, value in zip(graph.inputs, values, strict=True):
            if isinstance(value, np.ndarray):
                formal.type = _type_of(value)
        with collector_resting():
            engine = self._plan(optimised(graph), self.host)
        return lambda values: engine.run(0, values)[0]


def _is_plain(value: Any) -> bool:
    """Whether a value is no array, or one whose steps are whole elements."""
    return not isinstance(value, np.ndarray) or all(step % value.itemsize == 0 for step in value.strides)


def _type_of(array: Any) -> TensorType:
    strides = None if array.flags.c_contiguous else tuple(step // array.itemsize for step in array.strides)
    return TensorType(dtypes.from_numpy(array.dtype), array.shape, strides)
