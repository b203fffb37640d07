"""Native calls of stretches: callable with arrays, compiled for the layouts that come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.ir import Graph, Value
from jit.ir.errors import CompileError
from jit.ir.sizes import SizeSymbol
from jit.passes.support.symbolic_sizes import put_numbers

from ..arrays.interpreter import Interpreter
from . import entry
from .by_ctypes import ByCtypes
from .places import Layout, Stretch
from .sized_calls import SizedCalls
from .sized_code import SizedCode
from .stretch_code import StretchCode, compile_stretch


class Native:
    """A stretch, callable with arrays. Compiled for the layouts that the graph declares, then for those that come."""

    remarks: Sequence[str] = ()
    """Nothing is to be said about how it runs."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.reads: list[int] = []
        """The registers of its inputs."""
        self.results: list[int] = []
        """The registers of its outputs."""
        self.told: int | None = None
        """The register of the sizes that it is told: none."""
        self.codes: list[StretchCode] = []
        self.code = compile_stretch(stretch, [Layout.of(v.type) for v in stretch.inputs])  # type: ignore[arg-type]
        self._call = self._ready(self.code)

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs."""
        found = self._call(*arrays)
        return found if found is not None else self._otherwise(arrays)

    def _ready(self, code: StretchCode) -> Any:
        self.codes.append(code)
        return entry.make_entry(code.tables()) if entry.available() else ByCtypes(code, code.failed)

    def _otherwise(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs for arrays of another layout than the graph declares."""
        layouts = [Layout(a.dtype, a.shape, a.strides) for a in arrays]
        declared = [(layout.dtype, layout.shape) for layout in self.code.layouts]
        if [(a.dtype, a.shape) for a in arrays] == declared and len(self.codes) < _VARIANTS:
            try:
                call = self._ready(compile_stretch(self.stretch, layouts))
            except CompileError:
                return self._interpreted(arrays)
            found: Sequence[Any] = call(*arrays)
            if found is not None:
                self._call = call
                return found
        return self._interpreted(arrays)

    def _interpreted(self, arrays: Sequence[Any]) -> Sequence[Any]:
        return Interpreter(graph_of(self.stretch)[0]).run(0, arrays)[0]


def graph_of(stretch: Stretch) -> tuple[Graph, dict[Value, Value]]:
    """A stretch as a graph of its own, and what its values are there."""
    body = Graph()
    mapping = {value: body.add_input(value.type) for value in stretch.inputs}
    for node in stretch.nodes:
        body.copy_node(node, mapping).stage = 0
    body.set_return([mapping[value] for value in stretch.outputs])
    return body, mapping


class SizedNative:
    """A stretch whose sizes are expressions, which is called with their values and arrays; see `sized_code`.

    Args:
        stretch: The nodes.
        symbols: The symbols in it, in the order in which values are given.
    """

    remarks: Sequence[str] = ()
    """Nothing is to be said about how it runs."""

    def __init__(self, stretch: Stretch, symbols: Sequence[SizeSymbol]) -> None:
        self.stretch = stretch
        self.reads: list[int] = []
        """The registers of its inputs."""
        self.results: list[int] = []
        """The registers of its outputs."""
        self.code = SizedCode(stretch, [Layout.of(v.type) for v in stretch.inputs], symbols)  # type: ignore[arg-type]
        self.call = SizedCalls(self.code.tables, self.code.failed, self.fixed)
        """The outputs, given the values of the symbols and the inputs."""

    @property
    def codes(self) -> list[StretchCode]:
        """The code for the sizes of the latest call, made of the same nodes for numbers: it shows the same kernels."""
        return [self.fixed(self.call.latest).code] if self.call.latest else []

    def fixed(self, sizes: tuple[int, ...]) -> Native:
        """The stretch with numbers for its sizes."""
        body, mapping = graph_of(self.stretch)
        put_numbers(body, dict(zip(self.code.tables.symbols, sizes, strict=True)))
        outputs = [mapping[value] for value in self.stretch.outputs]
        views = {mapping[view.output].node: None for view in self.stretch.views}
        return Native(Stretch(list(body.nodes), list(body.inputs), outputs, views))


_VARIANTS = 8
"""The most layouts for which a stretch is compiled."""
