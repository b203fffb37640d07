"""`jit.coverage`: what is there for each operator that a function runs - trace, derivatives, kernels, ONNX."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from jit.autograd import grad
from jit.eager import dispatch
from jit.eager.creation import from_numpy
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.export.exporter import problems_of
from jit.export.opsets import check_opset
from jit.ir import Node, Op, TensorType, Value, find
from jit.ir.errors import AutogradError, Error
from jit.ir.graph import map_template
from jit.ir.tables import html_table
from jit.ir.types import GeneratorType
from jit.ops import catalog
from jit.passes import EXPORT, apply
from jit.tracing.exporting import unwrapped
from jit.tracing.function import TracedFunction
from jit.tracing.surroundings.snapshots import preserved

YES = "yes"


@dataclass(frozen=True)
class CoverageRow:
    """An operator that a function runs, and what is there for it."""

    op: str
    """The kind of its nodes: `aten::softmax`, or `^Clip` for a function of the user's."""
    calls: int
    trace: str
    """"yes", or why the function runs in Python."""
    grad: str
    """"yes", "none" and the reason, or "-" where nothing has derivatives."""
    second_grad: str
    """The same of the derivative; "declared" where it could not be tried."""
    cpu: str
    """The ways in which a plan computes it: see "Kernel" in docs/operators.md; "numpy" where there is no kernel."""
    cuda: str
    """"kernel", "library", "host" or "free": see "CUDA" there."""
    onnx: str
    """"yes", or the reason why it cannot be exported."""
    lines: tuple[str, ...]
    """The user's lines."""


class Coverage:
    """The operators that a function runs, a row for each; it prints as a table.

    Args:
        name: The function's name.
        rows: The rows.
        opset: The version of ONNX's operators.
    """

    def __init__(self, name: str, rows: Sequence[CoverageRow], opset: int) -> None:
        self.name, self.rows, self.opset = name, list(rows), opset

    @property
    def on_host(self) -> list[str]:
        """The operators that leave a GPU: what they compute, or a part of it, runs on the CPU."""
        return [row.op for row in self.rows if "host" in row.cuda.split(", ")]

    @property
    def gaps(self) -> list[str]:
        """The operators of which something is missing: a recording, a derivative, ONNX, or a GPU's library."""
        lacking = (row for row in self.rows if any(not _is_there(cell) for cell in _cells(row)[2:5] + [row.onnx]))
        return list(dict.fromkeys([*(row.op for row in lacking), *self.on_host]))

    def to_json(self) -> str:
        """The table as JSON."""
        about = {"name": self.name, "opset": self.opset, "on_host": self.on_host, "gaps": self.gaps}
        return json.dumps({**about, "rows": [asdict(row) for row in self.rows]}, indent=2)

    def __str__(self) -> str:
        table = [self._titles(), *map(_cells, self.rows)]
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]) - 1)]
        lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths)), row[-1]]).rstrip() for row in table]
        return "\n".join([*lines, "", self._summary()])

    __repr__ = __str__

    def __rich__(self) -> Any:
        """The table for the library rich."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.name, caption=self._summary())
        for title in self._titles():
            table.add_column(title)
        for row in self.rows:
            table.add_row(*(Text(cell, style="" if _is_there(cell) else "yellow") for cell in _cells(row)))
        return table

    def _repr_html_(self) -> str:
        return html_table(self._titles(), map(_cells, self.rows), self._summary())

    def _titles(self) -> list[str]:
        named = {"second_grad": "second grad", "cpu": "CPU", "cuda": "CUDA", "onnx": f"ONNX {self.opset}"}
        return [named.get(field.name, field.name) for field in fields(CoverageRow)]

    def _summary(self) -> str:
        found = f"{len(self.rows)} operators; " + (f"gaps: {', '.join(self.gaps)}" if self.gaps else "no gaps")
        return f"{found}; on the host: {', '.join(self.on_host)}" if self.on_host else found


def _cells(row: CoverageRow) -> list[str]:
    texts = {**asdict(row), "lines": ", ".join(row.lines)}
    return [str(texts[field.name]) for field in fields(CoverageRow)]


def _is_there(cell: str) -> bool:
    """Whether a cell of derivatives, trace or ONNX tells of no gap."""
    return not cell.startswith(("no:", "none"))


def coverage(fn: Any, *args: Any, opset_version: int | None = None, **kwargs: Any) -> Coverage:
    """A table of what there is for each operator that a function runs: a row per operator, with the user's lines.

    The function is called twice, untraced and traced; what the calls change is put back. Derivatives are tried, on
    random numbers of the sizes at hand; kernels are what the operators declare, as docs/operators.md has it.

    Args:
        fn: A function, Module or traced function.
        args: Its arguments.
        opset_version: The version of ONNX's operators, 9 to 26; None is 20.
        kwargs: Its arguments by name.

    Returns:
        The table: it prints as text, in notebooks and for rich; `.rows`, `.gaps`, `.on_host` and `.to_json()` read it.

    Raises:
        Error: The function cannot be called or recorded at all.

    >>> import jit
    >>> found = jit.coverage(lambda x: jit.special.airy_ai(x.tanh()), jit.ones(2))
    >>> [(row.op, row.grad[:4], row.cpu, row.cuda, row.onnx[:3]) for row in found.rows]
    [('aten::tanh', 'yes', 'point', 'kernel', 'yes'), ('aten::special_airy_ai', 'none', 'point', 'host', 'no:')]
    >>> found.on_host
    ['aten::special_airy_ai']
    """
    function, owner = unwrapped(fn)
    traced, opset = TracedFunction(function, owner), check_opset(opset_version)
    with preserved(function, owner, args, kwargs):
        function(*args, **kwargs)  # whatever it imports at first is no part of what it does
    with preserved(function, owner, args, kwargs):
        traced(*args, **kwargs)
        kept = traced.has_trace_for(*args, **kwargs)
    nodes: dict[str, list[Node]] = {}
    for node in traced.graph.nodes:
        if node.stage == 0 and not node.kind.startswith("prim::"):
            nodes.setdefault(node.kind, []).append(node)
    obstacles = _obstacles(traced, opset)
    reason = YES if kept else f"no: {traced.explain()}"
    with preserved(function, owner, args, kwargs):
        rows = [_row(kind, found, reason, obstacles.get(kind, YES)) for kind, found in nodes.items()]
    return Coverage(traced.__name__, rows, opset)


def _obstacles(traced: TracedFunction, opset: int) -> dict[str, str]:
    """Why operators cannot be exported, by kind."""
    graph = traced.graph.clone()
    try:
        apply(graph, EXPORT)
        return {problem.inside or problem.op: f"no: {problem.reason}" for problem in problems_of(graph, opset)}
    except Error as error:
        return {node.kind: f"no: {error}" for node in traced.graph.nodes}


def _row(kind: str, nodes: Sequence[Node], trace: str, onnx: str) -> CoverageRow:
    first, second = _derivatives(nodes[0])
    lines = tuple(dict.fromkeys(str(node.source).split(" in ")[0] for node in nodes if node.source))
    cpu, cuda = (_through_parts(nodes[0], word) for word in (_compiled, catalog.on_gpu))
    return CoverageRow(kind, len(nodes), trace, first, second, cpu, cuda, onnx, lines)


def _compiled(op: Op) -> str:
    """The words of the catalogue for the kernel, without its cost."""
    words = [word for word in catalog.compiled(op).split(", ") if not word.isdigit()]
    return "numpy" if words == ["none"] else ", ".join(words)


def _through_parts(node: Node, word: Callable[[Op], str]) -> str:
    """The words of the catalogue for an operator; for a composite, those for the parts that were recorded."""
    return ", ".join(dict.fromkeys(each for words in _words(node, word) for each in words.split(", ")))


def _words(node: Node, word: Callable[[Op], str]) -> Iterator[str]:
    op = find(node.kind)
    bodies = list(node.subgraphs)
    if op is None:
        yield "Python"
    elif op.kind != "composite":
        yield word(op)
    for body in bodies if op is not None and op.kind == "composite" else ():
        for part in body.nodes:
            if not part.kind.startswith("prim::"):
                yield from _words(part, word)


# -- derivatives -------------------------------------------------------------------------------------------------


def _derivatives(node: Node) -> tuple[str, str]:
    """Whether an operator has a derivative, and whether that has one: tried on numbers of the sizes of a node."""
    op = find(node.kind)
    if op is None:
        return "its own", "its own"
    if "grad" in op.missing:
        return f"none: {op.missing['grad']}", "-"
    if any(not isinstance(value.type, (TensorType, GeneratorType)) for value in node.inputs):
        return YES, "declared"  # it takes numbers that are computed: nothing could be tried without them
    made: dict[Value, Any] = {}
    resolved = {name: node.resolve(value) for name, value in node.attributes.items() if name not in ("body", "extra")}
    values = [map_template(lambda leaf: _stand_in(leaf, made), v) for v in op.join(node.operands, resolved)]
    try:
        results = [r for r in dispatch.unpack(dispatch.call(op, values)) if isinstance(r, Tensor) and r.requires_grad]
    except Exception:  # it does not take any numbers, as a look-up by indices does not
        return YES, "declared"
    wanted = [tensor for tensor in made.values() if isinstance(tensor, Tensor) and tensor.requires_grad]
    return _tried(results, wanted) if results else ("-", "-")


def _tried(results: Sequence[Tensor], wanted: Sequence[Tensor]) -> tuple[str, str]:
    """Whether results can be differentiated, and whether their gradients can."""
    weights = [F.ones_like(result).requires_grad_() for result in results]
    try:
        first = _gradients(results, wanted, weights)
    except AutogradError as error:
        return f"none: {error}", "-"
    except Exception:  # see above
        return YES, "declared"
    try:
        _gradients(first, [*wanted, *weights], [F.ones_like(gradient) for gradient in first])
    except AutogradError as error:
        return YES, f"none: {error}"
    except Exception:
        return YES, "declared"
    return YES, YES


def _gradients(results: Sequence[Tensor], wanted: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    found = grad(results, wanted, weights, create_graph=True, allow_unused=True) if results else ()
    return [gradient for gradient in found if gradient is not None]


def _stand_in(leaf: Any, made: dict[Value, Any]) -> Any:
    """An operand like a value of a graph: random numbers between 0 and 1 that require grad, zeros of other dtypes."""
    if not isinstance(leaf, Value):
        return leaf
    if leaf not in made:
        made[leaf] = _like(leaf)
    return made[leaf]


def _like(value: Value) -> Any:
    type = value.type
    if not isinstance(type, TensorType) or type.dtype is None or type.sizes is None:
        return None
    numbers = np.random.default_rng(len(type.sizes)).random(tuple(map(int, type.sizes)), np.float32)
    if type.dtype.is_integral:
        return F._to_copy(from_numpy(np.zeros_like(numbers)), dtype=type.dtype)
    return F._to_copy(from_numpy(numbers), dtype=type.dtype).requires_grad_()
