"""Compiled kernels of FusionGroups: the body's `compute` lines become the steps of one loop nest.

The nest is made for the layouts that arrive: views inside the group turn into offsets and strides of the buffers that
they look at, broadcasts into strides of zero. Kernels are kept per group and layout. A body that code generation
refuses runs node by node instead.

Note [From terms to steps]
    The group's space (`jit.passes.support.spaces`) says along which axes each operand runs; the body becomes `terms`,
    each at a stage: how many reductions, one after the other, it takes to know it. Step s runs over the row and
    computes what is known at stage s: values to reduce, results to store. Before it, a step that runs once for each row
    computes what stands still along the row. A softmax has stages 0 (maximum), 1 (exp and its sum) and 2 (the
    quotient). What a later step needs again is computed again if that is cheap or the row is long; else it is kept in
    scratch memory. Loads are always done again: a row that was read a moment ago is in the cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from jit.ir import Graph, Node, TensorType, Value, find, kernel_of
from jit.ir.errors import CompileError
from jit.ir.geometry import Geometry
from jit.ir.graph import leaves
from jit.ir.sizes import SizeExpr, SizeSymbol, estimating
from jit.ir.types import contiguous_strides
from jit.passes.support.spaces import (
    Axes,
    IterationSpace,
    SpaceDeclined,
    arguments,
    form_of,
    has_rows,
    is_cast,
    is_gather,
    is_join,
    is_made_up,
    is_view,
    main_output,
    sizes_of,
)
from jit.passes.support.symbolic_sizes import put_numbers

from ..arrays.libraries import library_on, raise_explained
from . import recipes
from .nest import Access, Buffer, Index, Keep, Local, Nest, NestStep, Position, Reduce, Result
from .terms import Apply, Read, Reduced, Term, Terms, dtype_of, expanded, wide

Arrays = Sequence[Any]

KEPT_COST = 4
"""The cost in instructions above which a value is kept for later steps instead of computed again."""
KEPT_BYTES = 1 << 18
"""The bytes of a row, 4 for each point, above which nothing is kept: it would not stay in the cache."""


class FusedGroup:
    """A callable for the body of a FusionGroup node: arrays in, fresh arrays out.

    Args:
        body: What it computes.
        otherwise: Runs the body where there is no kernel.
    """

    def __init__(self, body: Graph, otherwise: Callable[[Arrays], list[Any]]) -> None:
        self._body = body
        self._interpret = otherwise
        self._kernels: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._types = [value.type for value in self._body.outputs]
        self._library = library_on(self._types[0].device)

    def __call__(self, inputs: Arrays) -> list[Any]:
        """Run the group."""
        if any(t.numel == 0 for t in self._types):
            return self._interpret(inputs)
        key = tuple((a.shape, a.strides) for a in inputs)
        if key not in self._kernels:
            with self._lock:
                self._kernels[key] = self._compile(inputs)
        kernel = self._kernels[key]
        if kernel is None:
            return self._interpret(inputs)
        try:
            outputs = [self._library.math.empty(t.sizes, t.dtype.numpy) for t in self._types]
            kernel(inputs, outputs)
        except Exception as error:
            raise_explained(self._library, error, self.name)
            raise
        return outputs

    @property
    def name(self) -> str:
        """The names of its operators, for errors."""
        return ", ".join(node.kind.removeprefix("aten::") for node in self._body.nodes)

    @property
    def kernels(self) -> list[Any]:
        """The kernels compiled so far, one per layout of the inputs."""
        return [kernel for kernel in self._kernels.values() if kernel is not None]

    def _compile(self, inputs: Arrays) -> Any:
        try:
            return self._library.kernel(group_nest(self._body, [Buffer.like(a) for a in inputs]))
        except CompileError:
            return None


class SizedGroup:
    """A callable for a FusionGroup node whose sizes are expressions: their values and arrays in, fresh arrays out.

    Args:
        body: What it computes.
        symbols: The symbols, in the order in which values are given.
        make: Makes the group of a body with numbers for its sizes.
    """

    def __init__(self, body: Graph, symbols: Sequence[SizeSymbol], make: Callable[[Graph], FusedGroup]) -> None:
        self._body, self._symbols, self._make = body, symbols, make
        self._groups: dict[tuple[int, ...], FusedGroup] = {}
        self._lock = threading.Lock()

    def __call__(self, sizes: tuple[int, ...], inputs: Arrays) -> list[Any]:
        """Run the group, the symbols having the values `sizes`."""
        return (self._groups.get(sizes) or self._made(sizes))(inputs)

    def _made(self, sizes: tuple[int, ...]) -> FusedGroup:
        body = self._body.clone()
        put_numbers(body, dict(zip(self._symbols, sizes, strict=True)))
        with self._lock:
            group = self._groups[sizes] = self._make(body)
            while len(self._groups) > MOST_SIZES:
                del self._groups[next(iter(self._groups))]
        return group


MOST_SIZES = 256
"""The most sizes for which a group is kept."""


def group_nest(body: Graph, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None) -> Nest:
    """The nest of a group, which reads its inputs in order and writes its outputs in order; CompileError if none can.

    Args:
        body: What the group computes.
        inputs: How its inputs lie.
        outputs: How its results shall lie; row-major unless given.
    """
    return _GroupLowering(body, inputs, outputs).nest()


class _GroupLowering:
    """A group on its way to a nest: its space, its terms and where its inputs lie."""

    def __init__(self, body: Graph, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None) -> None:
        self.body, self.inputs = body, tuple(inputs)
        self.outputs = tuple(_contiguous(value.type) for value in body.outputs) if outputs is None else tuple(outputs)
        self.places = {v: (i, Geometry(b.sizes, b.strides)) for i, (v, b) in enumerate(zip(body.inputs, self.inputs))}
        for node in body.nodes:
            self._place_views(node)
        self.space = self._admitted()
        self.row = self.space.reduced or ()
        self.terms = Terms(self.row, self._position(), len(self._order))
        self.known: dict[Value, Term] = {}
        self._reads: dict[tuple[Access, frozenset[int]], Term] = {}

    # -- the space -----------------------------------------------------------------------------------------------

    def _place_views(self, node: Node) -> None:
        """Place the outputs that view an input in the buffer that they look at."""
        if not is_view(node) or node.inputs[0] not in self.places:
            return
        index, geometry = self.places[node.inputs[0]]
        op, values = arguments(node)
        found = op.body(geometry, *values[1:])
        for value, placed in zip(node.outputs, found if isinstance(found, list) else [found], strict=True):
            self.places[value] = (index, placed)

    def _admitted(self) -> IterationSpace:
        """The space, with every node that computes something."""
        nodes = [node for node in self.body.nodes if node.outputs[0] not in self.places]
        space = IterationSpace(nodes[-1])
        leaving = set(self.body.outputs)
        try:
            for node in reversed(nodes):
                space.admit(node, [v for v in node.outputs if v in leaving])
        except SpaceDeclined as reason:
            raise CompileError(f"{nodes[-1].kind} does not end a group: {reason}") from reason
        return space

    @property
    def _order(self) -> list[int]:
        """The axes in the order of the nest's extents: those of the row last."""
        return [*self.space.parallel, *self.row]

    def _spread(self, axes: Axes, strides: Sequence[int]) -> tuple[int, ...]:
        """The strides of a value's dims as strides along the nest's extents."""
        along = dict.fromkeys(self._order, 0)
        for axis, stride in zip(axes, strides, strict=True):
            for leaf in reversed(self.space.leaves([axis])):
                along[leaf] += stride
                stride *= self.space.extents[leaf]
        return tuple(along.values())

    def _position(self) -> Position | None:
        if not self.row:
            return None
        strides = contiguous_strides(tuple(self.space.extents[a] for a in self.row))
        return Position(self._spread(self.row, strides))

    # -- terms ---------------------------------------------------------------------------------------------------

    def _make_terms(self) -> None:
        for node in self.body.nodes:
            if node.outputs[0] in self.places or is_join(node):
                continue
            if is_gather(node):
                self.known[node.outputs[0]] = self._gathered(node)
            elif is_view(node):
                self.known[node.outputs[0]] = self.known[node.inputs[0]]
            elif is_cast(node):
                self.known[node.output] = self.terms.cast(self._operand(node, node.inputs[0]), dtype_of(node.output))
            elif kernel_of(node.kind).terms is not None:
                operands = {value: self._operand(node, value) for value in node.inputs}
                self.known.update(expanded(self.terms, node, operands, partial(self._along, node)))
            else:
                self._pointwise(node)

    def _operand(self, node: Node, value: Value) -> Term:
        """An operand that a node reads."""
        return self.known[value] if value in self.known else self._read(value, self.space.demands[node, value])

    def _read(self, value: Value, axes: Axes, gather: tuple[Index, ...] = ()) -> Term:
        index, geometry = self.places[value]
        surplus = geometry.ndim - len(axes)  # a place may have more leading dims of one element than its value has
        access = Access(index, self._spread(axes, geometry.strides[surplus:]), geometry.offset, gather)
        moving = frozenset(self.space.leaves(axes)).union(*(self._moving(i.access) for i in gather))
        if (access, moving) not in self._reads:  # what is repeated along the row may also be read beside the row
            self._reads[access, moving] = self.terms.read(access, dtype_of(value), moving)
        return self._reads[access, moving]

    def _moving(self, access: Access) -> set[int]:
        """The axes along which an index may differ: by its strides."""
        return {axis for axis, stride in zip(self._order, access.strides) if stride}

    def _gathered(self, node: Node) -> Term:
        weight, indices = node.inputs
        place, geometry = self.places[indices]
        strides = self._spread(self.space.demands[node, indices], geometry.strides)
        row = self.places[weight][1].strides[0]
        index = Index(Access(place, strides, geometry.offset), row, sizes_of(weight)[0])
        return self._read(weight, self.space.demands[node, weight], (index,))

    def _along(self, node: Node, dim: int, step: int) -> tuple[tuple[int, ...], frozenset[int]]:
        """The way of a step along a dim of a node's first result, see `terms.Along`."""
        axes = self.space.axes[node.outputs[0]][dim : dim + 1]
        return self._spread(axes, (step,)), frozenset(self.space.leaves(axes))

    def _pointwise(self, node: Node) -> None:
        values: list[Any] = list(dict.fromkeys(node.inputs))
        operands = [self._operand(node, value) for value in values]
        sizes = list(dict.fromkeys(leaf for leaf in node.operands if type(leaf) is SizeExpr))
        values, operands = values + sizes, operands + [self.terms.size(size) for size in sizes]

        def function(m: Any, *numbers: Any) -> Any:
            return _compute(m, node, dict(zip(values, numbers, strict=True)))

        cost = kernel_of(node.kind).cost
        self.known[node.output] = self.terms.apply(function, *operands, dtype=dtype_of(node.output), cost=cost)

    # -- the nest ------------------------------------------------------------------------------------------------

    def nest(self) -> Nest:
        """The nest of the group."""
        self._make_terms()
        extents = tuple(self.space.extents[a] for a in self._order)
        steps = _Steps(self.terms, self._stored(), self._keeps()).steps()
        recipe = recipes.of_group(self.body)
        for number, step in enumerate(steps):
            recipes.named(step.body, recipe and f"step {number} of {recipe}")
        cost = max(sum(t.cost for t in self.terms.all if isinstance(t, Apply) and self.terms.is_inner(t)), 1)
        comments = tuple(dict.fromkeys(str(n.source) for n in self.body.nodes if n.source is not None))
        kinds = (n.kind.split("::")[1].split(".")[0] for n in self.body.nodes if n.outputs[0] not in self.places)
        name = "_".join(dict.fromkeys(kinds))[:60].strip("_") or "copy"
        return Nest(extents, self.inputs, self.outputs, tuple(steps), len(self.row), name, comments, cost)

    @estimating()
    def _keeps(self) -> bool:
        """Whether a row is short enough to be kept."""
        points = 1
        for axis in self.row:
            points *= self.space.extents[axis]
        return bool(self.row) and points * 4 <= KEPT_BYTES

    def _stored(self) -> list[tuple[Term, Access]]:
        """The values that are stored, and their places."""
        stored = []
        for number, (value, buffer) in enumerate(zip(self.body.outputs, self.outputs, strict=True)):
            strides = buffer.strides
            if value.node is not None and is_join(value.node):
                stored += self._parts(number, value.node, strides)
            else:
                access = Access(number, self._spread(self.space.axes[value], strides))
                stored.append((self.known[value], access))
        return stored

    def _parts(self, number: int, node: Node, strides: tuple[int, ...]) -> list[tuple[Term, Access]]:
        """The operands of a `cat`, each stored in its slice of the result."""
        parts, dim = arguments(node)[1]
        dim %= len(strides)
        found, start = [], 0
        for part in parts:
            axes = self.space.demands[node, part]
            access = Access(number, self._spread(axes, strides), start * strides[dim])
            found.append((self._operand(node, part), access))
            start += sizes_of(part)[dim]
        return found


# -- steps -------------------------------------------------------------------------------------------------------


class _Steps:
    """Distributes terms over steps, see Note [From terms to steps]."""

    def __init__(self, terms: Terms, stored: Sequence[tuple[Term, Access]], keeps: bool) -> None:
        self.terms, self.stored, self.keeps = terms, stored, keeps
        self.place = {term: number for number, term in enumerate(terms.all)}
        self.last = max((t.stage for t in terms.all), default=0)
        self.locals: dict[Term, int] = {}
        self.kept: dict[int, list[Term]] = {}
        """The terms that are kept, by the stage that keeps them."""
        self.repeated = _repeated_costs(terms)

    def steps(self) -> list[NestStep]:
        """The steps in their order."""
        found: list[NestStep] = []
        inner = {stage: self._inner(stage) for stage in range(self.last, -1, -1)}  # later ones say what is kept
        for stage in range(self.last + 1):
            outer = self._outer(stage)
            if outer is not None:
                found.append(outer)
            roots, results = inner[stage]
            if roots:
                found.append(self._step(roots, results, stage, inner=True))
        return found

    def _local(self, term: Term) -> int:
        return self.locals.setdefault(term, len(self.locals))

    def _inner(self, stage: int) -> tuple[list[Term], list[Result]]:
        """Values that the step over the row computes at a stage; those of earlier ones that it needs are kept."""
        roots: list[Term] = []
        results: list[Result] = []
        for term in self.terms.all:
            if isinstance(term, Reduced) and term.stage == stage + 1 and term.which == 0:
                pair = [t for t in self.terms.all if isinstance(t, Reduced) and t.twin is term]
                roots += term.arguments
                locals = (self._local(term), *(self._local(t) for t in pair))
                results.append(Reduce(term.monoid, locals, term.dtype))
        for term, access in self.stored:
            if self.terms.is_inner(term) and term.stage == stage:
                roots.append(term)
                results.append(access)
        for term in self.kept.get(stage, ()):
            roots.append(term)
            results.append(Keep(self._local(term), term.dtype))
        for term in self._needed(roots, stage, inner=True):
            if self._is_kept(term, stage) and term not in self.kept.setdefault(term.stage, []):
                self.kept[term.stage].append(term)
        return roots, results

    def _outer(self, stage: int) -> NestStep | None:
        """The values that stand still along the row and become known at a stage."""
        if not self.terms.row:
            return None
        fresh = [
            t for t in self.terms.all if isinstance(t, Apply) and t.stage == stage and not self.terms.is_inner(t)
        ]  # fmt: skip
        read_later = {a for t in self.terms.all if t not in fresh for a in t.arguments}
        held = [t for t in fresh if t in read_later]
        written = [(t, a) for t, a in self.stored if not self.terms.is_inner(t) and t.stage == stage]
        roots = [*held, *(t for t, _ in written)]
        results: list[Result] = [Keep(self._local(t), t.dtype) for t in held]
        return self._step(roots, [*results, *(a for _, a in written)], stage, inner=False) if roots else None

    def _is_kept(self, term: Term, stage: int) -> bool:
        """Whether a value at a point is taken from an earlier step instead of being computed once more."""
        early = isinstance(term, Apply) and term.stage < stage and self.terms.is_inner(term)
        return early and self.keeps and self.repeated[term] > KEPT_COST

    def _is_given(self, term: Term, stage: int, inner: bool) -> bool:
        """Whether a term is an operand of a step, not computed in it."""
        if not isinstance(term, Apply):
            return True
        if self.terms.is_inner(term):
            return self._is_kept(term, stage)
        return inner or term.stage < stage

    def _needed(self, roots: Iterable[Term], stage: int, inner: bool) -> list[Term]:
        """All that a step computes or reads, in topological order."""
        seen: set[Term] = set()
        work = list(roots)
        while work:
            term = work.pop()
            if term not in seen:
                seen.add(term)
                work.extend(() if self._is_given(term, stage, inner) else term.arguments)
        return sorted(seen, key=self.place.__getitem__)

    def _step(self, roots: Sequence[Term], results: Sequence[Result], stage: int, inner: bool) -> NestStep:
        needed = self._needed(roots, stage, inner)
        given = [t for t in needed if self._is_given(t, stage, inner)]
        computed = [t for t in needed if isinstance(t, Apply) and t not in set(given)]
        operands = tuple(t.operand if isinstance(t, Read) else Local(self._local(t)) for t in given)
        return NestStep(operands, tuple(results), _body(given, computed, roots), inner)  # type: ignore[arg-type]


def _body(given: Sequence[Term], computed: Sequence[Apply], roots: Sequence[Term]) -> Callable[..., Any]:
    def body(m: Any, *values: Any) -> Any:
        known = dict(zip(given, values, strict=True))
        for term in computed:
            known[term] = term.function(m, *(known[a] for a in term.arguments))
        return tuple(known[root] for root in roots)

    return body


def _repeated_costs(terms: Terms) -> dict[Term, int]:
    """The most that each value at a point costs, computed from loads and from values that stand still along the row."""
    costs: dict[Term, int] = {}
    for term in terms.all:
        inner = isinstance(term, Apply) and terms.is_inner(term)
        costs[term] = min(term.cost + sum(costs[a] for a in term.arguments), 1 << 20) if inner else 0
    return costs


def _is_known(operand: Any) -> bool:
    """Whether an operand's value is told when the kernel runs."""
    return isinstance(operand, Value) or type(operand) is SizeExpr


def _compute(m: Any, node: Node, known: dict[Any, Any]) -> Any:
    """One op at one point, with the casts that the registry prescribes."""
    op, values = arguments(node)
    typed = [v.type if isinstance(v, Value) else v for v in values]
    dtype = wide(op.compute_dtype(typed))
    for index in op.tensors:
        if values[index] is not None:
            value = values[index]
            values[index] = m.cast(known[value], dtype) if _is_known(value) else m.constant(value, dtype)
    return m.cast(op.body(m, *values), dtype_of(node.output))


# -- what code generation supports -------------------------------------------------------------------------------

_supported: dict[Any, bool] = {}


def supports(node: Node) -> bool:
    """Whether code generation has a kernel for this node: asked of the generator itself, once per op and dtypes."""
    form, terms = form_of(node), kernel_of(node.kind).terms
    if form == "join":
        return True
    if is_made_up(node):
        return _supports_made_up(node)
    pointwise = (op := find(node.kind)) is not None and op.kind == "pointwise"
    if not pointwise and terms is None and form not in ("gather", "cast"):
        return False
    if not pointwise and form != "cast" and not has_rows(node):
        return False
    types = tuple(getattr(v.type, "dtype", None) if pointwise else str(v.type) for v in node.inputs)
    key = (node.kind, types, repr(node.args), repr(node.attributes))
    if key not in _supported:
        question = "pointwise" if pointwise else "supported"
        _supported[key] = recipes.answered(question, recipes.of_node(node), lambda: _try(node, pointwise))
    return _supported[key]


def _supports_made_up(node: Node) -> bool:
    """Whether there is a kernel for what follows from positions, asked once for all numbers and sizes."""
    type_ = node.output.type
    assert isinstance(type_, TensorType)
    key = (node.kind, type_.dtype, type_.ndim, *(type(leaf) for leaf in leaves(node.attributes)))
    if key not in _supported:
        _supported[key] = recipes.answered("made up", recipes.of_node(node), lambda: _try(node, False))
    return _supported[key]


def _small(type_: Any) -> TensorType:
    return TensorType(type_.dtype, (4,) if type_.ndim else ())


@estimating()
def _try(node: Node, pointwise: bool) -> bool:
    from ..llvm.lower import lower
    from ..targets.target import Target
    from .schedule import schedule

    graph = Graph()
    mapping = {v: graph.add_input(_small(v.type) if pointwise else v.type) for v in dict.fromkeys(node.inputs)}
    copy = graph.copy_node(node, mapping)
    copy.stage = 0
    if pointwise:
        copy.output.type = TensorType(node.output.type.dtype, (4,))  # type: ignore[attr-defined]
    elif not node.inputs:
        copy.output.type = TensorType(node.output.type.dtype, (4,) * node.output.type.ndim)  # type: ignore[attr-defined]
    graph.set_return([copy.outputs[0] if pointwise else main_output(copy)])
    try:
        nest = group_nest(graph, [_contiguous(v.type) for v in graph.inputs])
        lower(nest, schedule(nest), Target.host())
    except (CompileError, AttributeError, TypeError):
        return False
    return True


def _contiguous(type_: Any) -> Buffer:
    return Buffer(type_.dtype, type_.sizes, contiguous_strides(type_.sizes))
