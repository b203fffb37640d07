"""Sizes and numbers of a graph: those that are the same in every run, and those that follow a dynamic axis or the data.

Note [Trying other sizes]
    A trace holds the sizes of one run. Which of them follow a dynamic axis is found by inferring the graph's types
    again, by the operators' own type rules, with other sizes for the axes:

                                                            as traced      batch = 8      batch = 12
        %1 : Float(4, 3) = aten::relu(%x)                   (4, 3)         (8, 3)         (12, 3)
        %n : int = aten::size[dim=0](%1)                    4              8              12
        %2 : Float(12) = aten::view[size=[12]](%1)          (12)           does not fit: the 12 is baked

    A dim that is equal in all runs is fixed, one that equals an axis in all runs is that axis, and any other one moves
    without a name. Where no other sizes go through at all, the graph holds for the traced ones alone, and the user is
    told at which line. Only some of the trials may fail: a function may ask for an even size, or for at most 512.

    Agreement of a few runs proves little for a comparison: `n > 1` is true of 4, 8 and 12. So numbers computed from
    moving ones move too, but for sums and products that agree (n - n), and for equality of two that always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import Error, ExportError
from jit.ir.graph import Graph, Node, Value, map_template
from jit.ir.inference import SIZES
from jit.ir.op import Op, find
from jit.ir.scalars import scalar_function
from jit.ir.types import UNDEFINED, ScalarType, TensorType, Type

from .dims import Dim


class _UnknownSize:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _UnknownSize()
"""A number that depends on data, or on a size that is not known."""

AFFINE = ("prim::add", "prim::sub", "prim::mul", "prim::neg")
"""Functions of sizes that, where a few sizes of an axis agree on the result, give it for all sizes."""


@dataclass
class SizeRun:
    """Facts about every value when the dynamic axes have these sizes."""

    axes: dict[str, int]
    known: dict[Value, Any] = field(default_factory=dict)
    """TensorTypes, numbers, UNKNOWN."""


class _Misfit(Exception):
    """A node whose operands do not fit each other at other sizes than the traced ones."""

    def __init__(self, node: Node, error: Error) -> None:
        super().__init__(str(error))
        self.node = node


class KnownSizes:
    """The sizes of a graph's values at several sizes of its dynamic axes.

    Args:
        graph: What was traced; its nodes up to stage `stage` are looked at.
        stage: The last stage that matters.
        axes: Input -> {dim: name of the axis}.
        fixed: Inputs that are the same in every run, such as parameters.
    """

    def __init__(
        self, graph: Graph, stage: int, axes: Mapping[Value, Mapping[int, str]], fixed: Iterable[Value] = ()
    ) -> None:
        self._graph = graph
        self._stage = stage
        self._axes = axes
        self._moving: set[Value] = set()
        self.fixed: set[Value] = set(fixed)
        """Values computed from parameters and constants alone."""
        self.runs: list[SizeRun] = []
        self.runs.append(self._traced())
        self.runs += self._others()
        self._classify(self._nodes())

    # -- what is asked -------------------------------------------------------------------------------------------

    def dims(self, value: Value) -> tuple[Dim, ...] | None:
        """The sizes of a tensor: a number, the name of an axis, or None; None for all where the rank is unknown."""
        shapes = [_shape(run.known.get(value)) for run in self.runs]
        if any(shape is None for shape in shapes) or len({len(shape or ()) for shape in shapes}) > 1:
            rank = value.type.ndim if isinstance(value.type, TensorType) else None
            return None if rank is None else (None,) * rank
        return tuple(self._dim(sizes) for sizes in zip(*shapes, strict=True))

    def number(self, value: Value) -> Any:
        """A scalar that every run agrees on; None where they differ."""
        found = self.runs[0].known.get(value, UNKNOWN)
        return None if value in self._moving or isinstance(found, (_UnknownSize, Type)) else found

    def axis_of(self, value: Value) -> str | None:
        """The dynamic axis whose size this scalar is."""
        found = [run.known.get(value, UNKNOWN) for run in self.runs]
        return self._name(found) if all(type(each) is int for each in found) else None

    def depends_on_data(self, value: Value) -> bool:
        """Whether a value comes from the contents of an argument rather than from sizes, parameters and constants."""
        if value in self.fixed:
            return False
        return not isinstance(value.type, ScalarType) or isinstance(
            self.runs[0].known.get(value, UNKNOWN), _UnknownSize
        )

    def enter(self, node: Node, body: Graph) -> str | None:
        """Look at the parts of `node` too; says what is wrong if they hold for the traced sizes alone."""
        misfits = []
        for run in self.runs:
            try:
                self._evaluate_body(run, node, body)
            except _Misfit as misfit:
                misfits.append(misfit)
                run.known.update((value, _nothing(value)) for part in body.nodes for value in part.outputs)
        self.fixed.update(inner for inner, outer in zip(body.inputs, node.inputs) if outer in self.fixed)
        self._moving.update(inner for inner, outer in zip(body.inputs, node.inputs) if outer in self._moving)
        self._classify(body.nodes)
        if not misfits or len(misfits) < len(self.runs) - 1:
            return None
        return f"its parts do not hold for other sizes of the dynamic axes: {misfits[0].node.kind} fails ({misfits[0]})"

    # -- the runs ------------------------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[Node]:
        return (node for node in self._graph.nodes if node.stage <= self._stage)

    def _inputs(self) -> Iterator[Value]:
        return (value for stage in self._graph.stages[: self._stage + 1] for value in stage.inputs)

    def _traced(self) -> SizeRun:
        run = SizeRun({})
        for value, dims in self._axes.items():
            for dim, name in dims.items():
                size = value.type.shape[dim]  # type: ignore[attr-defined]
                run.axes.setdefault(name, size if type(size) is int else 4)
        return self._evaluate(run)

    def _others(self) -> list[SizeRun]:
        """The runs at other sizes that go through; ExportError if none does."""
        traced = self.runs[0].axes
        if not traced:
            return []
        grown, misfit = self._tried(_grown(traced), enough=2)
        if not grown and misfit is not None:
            raise self._baked(misfit)
        return grown + self._tried(_shrunk(traced), enough=2)[0]

    def _tried(self, trials: Iterable[dict[str, int]], enough: int) -> tuple[list[SizeRun], _Misfit | None]:
        """The first runs that go through, as many as are enough; and the first obstacle."""
        runs: list[SizeRun] = []
        first = None
        for axes in trials:
            try:
                runs.append(self._evaluate(SizeRun(axes)))
            except _Misfit as misfit:
                first = first or misfit
            if len(runs) == enough:
                break
        return runs, first

    def _evaluate(self, run: SizeRun) -> SizeRun:
        for value in self._inputs():
            run.known[value] = self._input_type(value, run.axes)
        for node in self._nodes():
            self._evaluate_node(run, node)
        return run

    def _input_type(self, value: Value, axes: dict[str, int]) -> Any:
        if not isinstance(value.type, TensorType):
            return UNKNOWN if isinstance(value.type, ScalarType) else value.type
        shape = value.type.shape
        if shape is None:
            return value.type
        names = self._axes.get(value, {})
        sizes = [axes[names[dim]] if dim in names else size for dim, size in enumerate(shape)]
        return TensorType(value.type.dtype, tuple(sizes), None, value.type.device)

    def _evaluate_node(self, run: SizeRun, node: Node) -> None:
        traced = None if self._is_traced(run) else self.runs[0]
        if traced is not None and all(run.known[value] == traced.known[value] for value in node.inputs):
            run.known.update((value, traced.known[value]) for value in node.outputs if value in traced.known)
            return
        results = self._results(run, node)
        if traced is None:
            results = [_merged(value, found) for value, found in zip(node.outputs, results)]
        run.known.update((value, _nothing(value)) for value in node.outputs)
        run.known.update(zip(node.outputs, results))

    def _results(self, run: SizeRun, node: Node) -> Sequence[Any]:
        """Facts about the outputs of a node in one run."""
        if node.outputs and all(isinstance(value.type, ScalarType) for value in node.outputs):
            return [_scalar(run, node) for _ in node.outputs]
        op = find(node.kind)
        if self._is_traced(run) and op is not None and op.kind in ("pointwise", "view") and _is_plain(run, node):
            return [value.type for value in node.outputs]
        body = next(node.subgraphs, None)
        if op is not None and (op.type_rule or op.kind in ("pointwise", "view")):
            return self._inferred(run, node, op)
        if body is not None and op is not None and op.symbolic is not None:
            return self._if_it_fits(run, node, body)
        if body is not None:
            return self._evaluate_body(run, node, body)
        if self._is_traced(run) and not any(_is_vague(run.known[value]) for value in node.inputs):
            return [value.type for value in node.outputs]
        return [_nothing(value) for value in node.outputs]

    def _is_traced(self, run: SizeRun) -> bool:
        return not self.runs or run is self.runs[0]

    def _inferred(self, run: SizeRun, node: Node, op: Op) -> list[Any]:
        known = run.known
        operands = map_template(_operand, node.resolve(node.args, lambda value: _or_zero(value, known[value])))
        attributes = {key: node.resolve(item, known.__getitem__) for key, item in node.attributes.items()}
        try:
            return list(op.infer(op.join(operands, attributes)))
        except Error as error:
            if self._is_traced(run):
                return [value.type for value in node.outputs]
            raise _Misfit(node, error) from error
        except Exception:  # an UNKNOWN where the rule needs a number
            return [_nothing(value) for value in node.outputs]

    def _if_it_fits(self, run: SizeRun, node: Node, body: Graph) -> list[Any]:
        """A composite that ONNX knows holds for sizes that its recorded parts do not hold for."""
        try:
            return self._evaluate_body(run, node, body)
        except _Misfit:
            return [_nothing(value) for value in node.outputs]

    def _evaluate_body(self, run: SizeRun, node: Node, body: Graph) -> list[Any]:
        run.known.update((inner, run.known[outer]) for inner, outer in zip(body.inputs, node.inputs))
        for part in body.nodes:
            self._evaluate_node(run, part)
        results = [*body.outputs, *(value for _, value in body.stages[0].updates)]
        return [run.known[item] if isinstance(item, Value) else UNKNOWN for item in results]

    def _baked(self, misfit: _Misfit) -> ExportError:
        axes = self.runs[0].axes
        names = " and ".join(repr(name) for name in axes)
        where = f" at {misfit.node.source}" if misfit.node.source else ""
        hint = "leave the axis out of dynamic_axes, or compute the size from the tensor's shape"
        if len(axes) > 1 and self._fits_together(axes):
            hint = "they do if these axes are equal, so give them one name"
        return ExportError(
            f"The graph does not hold for other sizes of the dynamic axis {names}: {misfit.node.kind}{where} "
            f"fails ({str(misfit).rstrip('.')}); {hint}."
        )

    def _fits_together(self, axes: dict[str, int]) -> bool:
        try:
            self._evaluate(SizeRun({name: max(size, 1) * 2 for name, size in axes.items()}))
        except _Misfit:
            return False
        return True

    # -- what the runs say ---------------------------------------------------------------------------------------

    def _dim(self, sizes: Sequence[Any]) -> Dim:
        if any(not isinstance(size, int) for size in sizes):
            return None
        name = self._name(sizes)
        return name if name is not None else sizes[0] if len(set(sizes)) == 1 else None

    def _name(self, sizes: Sequence[Any]) -> str | None:
        """The axis that has just these sizes in the runs."""
        if len(self.runs) == 1:
            return None
        for name in self.runs[0].axes:
            if all(run.axes[name] == size for run, size in zip(self.runs, sizes)):
                return name
        return None

    def _classify(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            op = find(node.kind)
            pure = node.kind.startswith(("aten::", "prim::")) and not (op is not None and op.kind == "random")
            if pure and all(value in self.fixed for value in node.inputs):
                self.fixed.update(node.outputs)
            self._moving.update(value for value in node.outputs if self._moves(node, value))

    def _moves(self, node: Node, value: Value) -> bool:
        if not isinstance(value.type, ScalarType):
            return False
        found = [run.known.get(value, UNKNOWN) for run in self.runs]
        if any(isinstance(each, (_UnknownSize, Type)) for each in found) or any(each != found[0] for each in found):
            return True
        if node.kind in AFFINE or not any(each in self._moving for each in node.inputs):
            return False
        return not (node.kind in ("prim::eq", "prim::ne") and self._always_equal(node))

    def _always_equal(self, node: Node) -> bool:
        sides = [[node.resolve(item, run.known.__getitem__) for run in self.runs] for item in node.args]
        return len(sides) == 2 and sides[0] == sides[1]


def _grown(traced: dict[str, int]) -> Iterator[dict[str, int]]:
    """Larger sizes for the axes, no two of which grow alike."""
    sizes = [(name, max(size, 1)) for name, size in traced.items()]
    yield {name: size * (2 + 2 * i) for i, (name, size) in enumerate(sizes)}
    yield {name: size * (3 + 2 * i) for i, (name, size) in enumerate(sizes)}
    yield {name: size + 1 + i for i, (name, size) in enumerate(sizes)}


def _shrunk(traced: dict[str, int]) -> Iterator[dict[str, int]]:
    """Smaller sizes, which a function may refuse."""
    yield {name: (size + 1) // 2 for name, size in traced.items()}
    yield dict.fromkeys(traced, 1)


def _shape(found: Any) -> tuple[Dim, ...] | None:
    return found.shape if isinstance(found, TensorType) else None


def _nothing(value: Value) -> Any:
    """The least specific type of this kind of value."""
    if isinstance(value.type, TensorType):
        return TensorType(value.type.dtype, None, None, value.type.device)
    return UNKNOWN if isinstance(value.type, ScalarType) else value.type


def _is_plain(run: SizeRun, node: Node) -> bool:
    """Whether all sizes are known: what such an op returns has the sizes that were recorded."""
    return not any(_is_vague(run.known[value]) for value in node.inputs) and not any(map(_is_vague, _types(node)))


def _types(node: Node) -> list[Type]:
    return [value.type for value in node.outputs]


def _is_vague(found: Any) -> bool:
    return isinstance(found, TensorType) and found.sizes is None


def _merged(value: Value, found: Any) -> Any:
    """The recorded type, less the sizes that cannot be known without the data."""
    recorded = value.type
    if not isinstance(recorded, TensorType) or not isinstance(found, TensorType):
        return found
    if recorded.shape is None:
        return found
    if found.shape is None or len(found.shape) != len(recorded.shape):
        dims: tuple[Any, ...] = (None,) * len(recorded.shape)
    else:
        dims = tuple(old if type(old) is type(new) else new for old, new in zip(recorded.shape, found.shape))
    return TensorType(recorded.dtype, dims, recorded.strides, recorded.device)


def _or_zero(value: Value, found: Any) -> Any:
    """An operand of which only Python's type is known stands as the 0 of that type: no type rule looks at its value."""
    if value.type == UNDEFINED:
        return None
    if isinstance(found, _UnknownSize) and isinstance(value.type, ScalarType):
        return {"bool": False, "int": 0, "float": 0.0}.get(value.type.name, found)
    return found


def _operand(item: Any) -> Any:
    """An operand as type rules want it: an array as its type."""
    return TensorType(dtypes.from_numpy(item.dtype), item.shape) if isinstance(item, np.ndarray) else item


def _scalar(run: SizeRun, node: Node) -> Any:
    """The number that a node gives in one run."""
    if node.kind == "prim::Constant":
        return node.attribute("value", UNKNOWN)
    operands = node.resolve(node.args, lambda value: run.known[value])
    if node.kind in SIZES:
        return _size(operands[0], node.attribute("dim"))
    function = scalar_function(node.kind)
    if function is None or any(isinstance(item, (_UnknownSize, Type)) for item in operands):
        return UNKNOWN
    try:
        return function.python(*operands)
    except (ArithmeticError, ValueError, TypeError):
        return UNKNOWN


def _size(tensor: Any, dim: Any) -> Any:
    shape = _shape(tensor)
    size = shape[dim] if shape is not None and isinstance(dim, int) and -len(shape) <= dim < len(shape) else None
    return size if isinstance(size, int) else UNKNOWN
