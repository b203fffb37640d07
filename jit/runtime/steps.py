"""How a stretch of a graph becomes steps: which kernel, on which memory, in which order.

Comes between the graph and `plan`. Every value gets a `Place`: a block of memory and a geometry in it, so that views
cost nothing. Every other node becomes one or more calls of functions `i32 kernel(ptr data, ptr geometry)`: kernels of
nests, or products of `blas`.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.dtypes import COMPLEX, DType, from_numpy, uint8
from jit.ir.errors import CompileError, Error
from jit.ir.geometry import Geometry
from jit.ir.types import UNDEFINED

from . import blas, conv_steps, epilogues, fusion, homes, packed, pooling, recipes, split
from .conv import Convolution
from .conv_weight import WeightGradient
from .nest import Access, Buffer, Local, Nest, Reduce, pointwise_nest
from .nest import Step as NestStep
from .tiled import Tiled


class Layout(NamedTuple):
    """What of an array decides on a kernel; looks like one to whoever makes nests."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.dtype.itemsize)

    @staticmethod
    def of(type: TensorType) -> Layout:
        """How a value of this type lies in memory."""
        from jit.ir.op import strides_of

        assert type.dtype is not None and type.sizes is not None
        return Layout(type.dtype.numpy, type.sizes, tuple(s * type.dtype.itemsize for s in strides_of(type)))


@dataclass(eq=False, repr=False, slots=True)
class Block:
    """A piece of memory."""

    kind: str
    """"input", "output", "constant", or "temporary": part of the arena."""
    nbytes: int
    number: int = 0
    """Among its kind."""
    first: int = -1
    last: int = -1
    """The steps that write it first and touch it last."""
    offset: int = 0
    """Of a temporary: where it lies in the arena."""


class Place(NamedTuple):
    """Where a value is."""

    block: Block
    dtype: DType
    geometry: Geometry

    @property
    def layout(self) -> Layout:
        """As an array."""
        size = self.dtype.itemsize
        return Layout(self.dtype.numpy, self.geometry.sizes, tuple(s * size for s in self.geometry.strides))

    @property
    def start(self) -> int:
        """Bytes from the block's start to the first element."""
        return self.geometry.offset * self.dtype.itemsize


Panelled = packed.Product | Convolution | WeightGradient | pooling.Pooling | Tiled
"""Work in panels, which threads share."""
Work = Nest | blas.Product | Panelled


@dataclass(eq=False, repr=False, slots=True)
class Step:
    """A call of a kernel."""

    work: Work
    operands: list[Place]
    """What it reads, then what it writes."""
    results: int
    """How many of the operands it writes."""
    node: Node
    reusable: tuple[int, ...] = ()
    """Operands that are read at the very point where the result is written, so that it may take their memory."""
    scratch: int = 0
    """How many further operands are memory for the kernel's own use."""
    share: float = 1.0
    """How much of the node's work it does."""
    product: Node | None = None
    """The node whose epilogue `node` is, if the step does both."""

    @property
    def nests(self) -> list[Nest]:
        """Those that have to be compiled for it."""
        if isinstance(self.work, Tiled):
            return list(self.work.nests.values())
        return [self.work] if isinstance(self.work, Nest) else []

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What it computes."""
        return (self.node,) if self.product is None else (self.product, self.node)


class Declined(CompileError):
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


class Held(NamedTuple):
    """A product that waits for the kernel that reads its result: see `epilogues`."""

    step: Step
    otherwise: Callable[[], None]
    """What is to be done if the two are not one step."""


def _families(stretch: Stretch) -> dict[Value, deque[Node]]:
    """Products of matrices by their right operand."""
    found: dict[Value, deque[Node]] = {}
    for node in stretch.nodes:
        if node.kind == "aten::mm":
            found.setdefault(node.inputs[1], deque()).append(node)
    return found


def is_free(node: Node) -> bool:
    """Whether the node costs nothing in a stretch: a view that is but another geometry, or a constant."""
    if node.kind == "prim::Constant":
        return isinstance(node.attributes.get("value"), np.ndarray) and _is_plain(node.output)
    op = find(node.kind)
    if op is None or op.kind != "view" or op.result is not None or op.schema.name == "as_strided":
        return False
    return len(node.inputs) == 1 and all(map(_is_known, (*node.inputs, *node.outputs)))


def is_native(node: Node) -> bool:
    """Whether a stretch may contain the node."""
    made = [value for value in node.outputs if value.type is not UNDEFINED]
    if not all(map(_is_plain, (*node.inputs, *made))):
        return False
    if node.kind == "prim::FusionGroup":
        return True
    op = find(node.kind)
    if op is None:
        return False
    if node.kind in _LOWER:
        return _ABLE[node.kind](node) and all(map(_is_row_major, made))
    return len(node.outputs) == 1 and bool(node.inputs) and fusion.supports(node)


def _is_flexible(node: Node) -> bool:
    """Whether a node's results may lie anyhow: what nests write."""
    return node.kind not in _LOWER or _LOWER[node.kind] in (_copy, _fill)


def _is_row_major(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.strides is None


def _is_known(value: Value) -> bool:
    type = value.type
    return isinstance(type, TensorType) and type.sizes is not None and type.dtype is not None and type.device == "cpu"


def _is_plain(value: Value) -> bool:
    """Of known layout and no complex number."""
    return _is_known(value) and value.type.dtype.category < COMPLEX  # type: ignore[attr-defined]


# -- lowering ----------------------------------------------------------------------------------------------------


class Lowering:
    """The steps of a stretch whose inputs lie as `layouts` say; Declined names a node that has no steps."""

    def __init__(self, stretch: Stretch, layouts: Sequence[Layout]) -> None:
        self.places: dict[Value, Place] = {}
        self.steps: list[Step] = []
        self.blocks: list[Block] = []
        self.constants: list[Any] = []
        """Arrays that the steps read."""
        self._nests: dict[Any, Nest | split.Split] = {}
        """By what decides on them: equal layers share a kernel."""
        self._outputs = {value: number for number, value in enumerate(stretch.outputs)}
        self._homes = homes.homes(stretch.nodes, stretch.outputs, is_free, _is_flexible)
        self._early: set[Node] = set()
        """Nodes that were lowered before their turn."""
        self.families = _families(stretch)
        """The products that are still to be lowered, by their right operand."""
        self.packed: dict[tuple[Block, Geometry], Place] = {}
        """Right operands of several products, in panels."""
        self._nodes = set(stretch.nodes)
        self._held: dict[Block, Held] = {}
        """Products that the kernels that read them may follow tile by tile, by what they write."""
        self._tiled: dict[Any, Tiled | None] = {}
        for number, (value, layout) in enumerate(zip(stretch.inputs, layouts, strict=True)):
            self.places[value] = _input_place(number, layout)
        for node in stretch.nodes:
            self._lower(node)

    def _lower(self, node: Node) -> None:
        if node in self._early:
            return
        try:
            if node.kind == "prim::Constant":
                self._constant(node)
            elif is_free(node):
                self._view(node)
            elif node.kind in _LOWER:
                _LOWER[node.kind](self, node)
            else:
                self._group(node)
        except Error as error:  # such as a view of an input that lies otherwise than its type says
            raise Declined(node, error) from error

    def of(self, value: Value) -> Place:
        """Where a value is."""
        return self.places[value]

    def make(self, value: Value) -> Place:
        """Row-major memory for a new value: an output of the stretch, or a temporary."""
        type = value.type
        assert isinstance(type, TensorType) and type.dtype is not None and type.sizes is not None
        if value in self._homes:
            place = self._at_home(value)
        else:
            place = self.temporary(type.dtype, type.sizes)
        if value in self._outputs:
            place.block.kind, place.block.number = "output", self._outputs[value]
        self.places[value] = place
        return place

    def _at_home(self, value: Value) -> Place:
        """Memory within that of the `cat` that the value will be part of."""
        home = self._homes[value]
        whole = self.places.get(home.whole) or self.make(home.whole)
        return Place(whole.block, whole.dtype, home.geometry)

    def soon(self, value: Value) -> Place | None:
        """Where a value is, if it is known already or a view of what is."""
        wanted, chain = value, []
        while value not in self.places:
            if value.node.kind == "prim::Constant" or not value.node.inputs or not is_free(value.node):
                return None
            chain.append(value.node)
            value = value.node.inputs[0]
        for node in reversed(chain):
            self._lower(node)
            self._early.add(node)
        return self.places[wanted]

    def alias(self, value: Value, place: Place) -> bool:
        """Let a value be what lies there already, unless its memory is for the caller to keep."""
        if value in self._outputs or value in self._homes or value in self.places:
            return False
        self.places[value] = place
        return True

    def together(self, nodes: Sequence[Node], whole: Place) -> None:
        """The outputs of several nodes, which one step makes before their turn, follow each other in `whole`."""
        start = 0
        for node in nodes:
            rows = node.output.type.sizes[0]  # type: ignore[attr-defined]
            self.places[node.output] = Place(whole.block, whole.dtype, whole.geometry.window(0, start, rows))
            start += rows
        self._early.update(nodes)

    def skip(self, node: Node) -> None:
        """A step of another node computes this one, too."""
        self._early.add(node)

    def is_free_to_move(self, value: Value) -> bool:
        """Whether the stretch may choose where a value lies."""
        return value not in self._outputs and value not in self._homes

    def temporary(self, dtype: DType, sizes: tuple[int, ...]) -> Place:
        """Row-major memory within the arena."""
        geometry = Geometry.contiguous(sizes)
        block = Block("temporary", geometry.numel * dtype.itemsize)
        self.blocks.append(block)
        return Place(block, dtype, geometry)

    def _laid_out(self, buffer: Buffer) -> Place:
        """Temporary memory that lies as a nest has it."""
        block, dtype, _ = self.temporary(buffer.dtype, buffer.sizes)
        return Place(block, dtype, Geometry(buffer.sizes, buffer.strides))

    def step(self, step: Step) -> None:
        """One more step; nothing if it computes no element."""
        written = step.operands[len(step.operands) - step.results :]
        if all(place.geometry.numel == 0 for place in written):
            return
        for place in step.operands:
            place.block.last = len(self.steps)
        for place in written:
            if place.block.first < 0:
                place.block.first = len(self.steps)
        self.steps.append(step)

    def step_of_product(self, step: Step, otherwise: Callable[[], None] | None = None) -> None:
        """One more step, by itself (or what is done `otherwise`), or later, with the kernel that reads its result."""
        otherwise = otherwise or (lambda: self.step(step))
        if epilogues.may_follow(self, step):
            self._held[step.operands[-1].block] = Held(step, otherwise)
        else:
            otherwise()

    def reader(self, value: Value) -> Node | None:
        """The one node that reads a value, if that becomes a kernel of this stretch."""
        readers, values = set(), [value]
        while values:
            for user in {use.node for use in values.pop().uses}:
                if user in self._nodes and is_free(user):
                    values += user.outputs
                else:
                    readers.add(user)
        node = readers.pop() if len(readers) == 1 else None
        return node if node in self._nodes and node.kind not in _LOWER else None

    def scratch(self, number: int, nbytes: int) -> None:
        """Memory for step `number` alone, as its last operand."""
        place = Place(Block("temporary", nbytes, 0, number, number), uint8, Geometry.contiguous((nbytes,)))
        self.blocks.append(place.block)
        self.steps[number].operands.append(place)
        self.steps[number].scratch += 1

    def pointwise(self, node: Node, body: Callable[..., Any], reads: Sequence[Place], write: Place, name: str) -> None:
        """A step that fills `write` with `body` of what it reads."""
        layouts: list[Any] = [place.layout for place in (*reads, write)]
        nest = pointwise_nest(body, layouts[:-1], layouts[-1:], name)
        self.step(Step(nest, [*reads, write], 1, node))

    # -- kinds of nodes ------------------------------------------------------------------------------------------

    def _constant(self, node: Node) -> None:
        array = np.ascontiguousarray(node.attributes["value"])
        block = Block("constant", array.nbytes, len(self.constants))
        self.constants.append(array)
        self.places[node.output] = Place(block, from_numpy(array.dtype), Geometry.contiguous(array.shape))

    def _view(self, node: Node) -> None:
        op = find(node.kind)
        assert op is not None
        block, dtype, geometry = self.of(node.inputs[0])
        arguments = op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})[1:]
        found = op.body(geometry, *arguments)
        for value, placed in zip(node.outputs, found if isinstance(found, list) else [found], strict=True):
            self.places[value] = Place(block, dtype, placed)

    def _group(self, node: Node) -> None:
        """A FusionGroup, or another node as a group of its own."""
        fused = node.kind == "prim::FusionGroup"
        values = list(node.inputs) if fused else list(dict.fromkeys(node.inputs))
        reads, writes = [self.of(v) for v in values], [self.make(v) for v in node.outputs]
        key = (
            _signature(node.attributes["body"]) if fused else _entry(node, {v: i for i, v in enumerate(values)}),
            *(p.layout for p in (*reads, *writes)),
        )
        group = node if fused else _alone(node, values)
        if key not in self._nests:
            buffers = [[Buffer.like(p.layout) for p in places] for places in (reads, writes)]  # type: ignore[arg-type]
            nest = fusion.group_nest(group.attributes["body"], *buffers)
            self._nests[key] = split.split(nest) if split.is_worth(nest) else nest
        if any(p.geometry.numel == 0 for p in reads) and any(p.geometry.numel for p in writes):
            raise CompileError("it reduces nothing to something, which kernels do not do")
        work = self._nests[key]
        held = self._last_held(reads)
        reusable = _reusable(group.attributes["body"], reads, writes)
        if held is not None and self._epilogue(node, key, held.step, reads, writes, reusable):
            return
        if held is not None:
            held.otherwise()
        if isinstance(work, split.Split):
            self.several(node, work, [*reads, *writes])
        else:
            self.step(Step(work, [*reads, *writes], len(writes), node, reusable))

    def _last_held(self, reads: Sequence[Place]) -> Held | None:
        """The largest of the products that were held back for a kernel; the others become steps."""
        held = [self._held.pop(block) for block in dict.fromkeys(place.block for place in reads) if block in self._held]
        held.sort(key=lambda product: product.step.operands[-1].geometry.numel)
        for product in held[:-1]:
            product.otherwise()
        return held[-1] if held else None

    def _epilogue(
        self, node: Node, key: Any, product: Step, reads: Sequence[Place], writes: Sequence[Place],
        reusable: Sequence[int],
    ) -> bool:  # fmt: skip
        """A kernel and the product that it reads as one step, if the kernel is an epilogue."""
        nest, made = self._nests[key], product.operands[-1].block
        known = product.work, key, tuple(place.block is made for place in reads)
        if known not in self._tiled:
            self._tiled[known] = epilogues.tiled(nest, product, reads) if isinstance(nest, Nest) else None
        work = self._tiled[known]
        if work is None:
            return False
        factors = product.operands[:-1]
        others = {number: place for number, place in enumerate(reads) if place.block is not made}
        taken = {place.block for place in factors}
        step = Step(work, [*factors, *others.values(), *writes], len(writes), node)
        if work.epilogue.home is None:  # else the product would be written over what the kernel is still to read
            places = enumerate(others.items(), len(factors))
            step.reusable = tuple(n for n, (at, place) in places if at in reusable and place.block not in taken)
        step.product = product.node
        self.step(step)
        return True

    def several(self, node: Node, work: split.Split, operands: list[Place]) -> None:
        """A group that is several nests."""
        places = [*operands, *(self._laid_out(buffer) for buffer in work.temporaries)]
        points = [math.prod(call.nest.extents) for call in work.calls]
        for call, count in zip(work.calls, points, strict=True):
            step = Step(call.nest, [places[i] for i in call.operands], len(call.nest.outputs), node)
            step.share = count / sum(points)
            self.step(step)


def _signature(body: Graph) -> Any:
    """What a body computes, whatever its values are called and wherever its lines stand."""
    numbers = {value: number for number, value in enumerate(body.inputs)}
    entries = []
    for node in body.nodes:
        entries.append(_entry(node, numbers))
        for value in node.outputs:
            numbers[value] = len(numbers)
    return (*entries, tuple(numbers[v] for v in body.outputs))


def _entry(node: Node, numbers: dict[Value, int]) -> Any:
    """What one node computes. Constants are compared as text: 1, 1.0 and True are three things."""
    operands = tuple(numbers[v] for v in node.inputs)
    types = tuple(str(v.type) for v in (*node.inputs, *node.outputs))
    return (node.kind, operands, repr(node.args), repr(node.attributes), types)


def _input_place(number: int, layout: Layout) -> Place:
    size = layout.itemsize
    if any(s % size for s in layout.strides):
        raise CompileError(f"byte strides {layout.strides} are no multiples of {size}")
    geometry = Geometry(layout.shape, tuple(s // size for s in layout.strides))
    return Place(Block("input", geometry.numel * size, number), from_numpy(layout.dtype), geometry)


def _alone(node: Node, values: Sequence[Value]) -> Node:
    """A FusionGroup with `node` alone in it."""
    body = Graph()
    mapping = {value: body.add_input(value.type) for value in values}
    copy = body.copy_node(node, mapping)
    copy.stage = 0
    body.set_return([copy.output])
    return Graph().create("prim::FusionGroup", (), {"body": body})


def _reusable(body: Graph, reads: Sequence[Place], results: Sequence[Place]) -> tuple[int, ...]:
    """The operands that lie as the results do and are only read by pointwise nodes as they are."""
    result = results[0]
    if any(place.geometry != result.geometry for place in results):
        return ()
    if any((op := find(n.kind)) is None or op.kind not in ("pointwise", "view") for n in body.nodes):
        return ()
    found = []
    for index, (value, place) in enumerate(zip(body.inputs, reads, strict=True)):
        direct = not _is_viewed(value)
        alike = place.geometry == result.geometry and place.dtype.itemsize == result.dtype.itemsize
        if direct and alike and place.block.kind == "temporary":
            found.append(index)
    return tuple(found)


def _is_viewed(value: Value) -> bool:
    """Whether a view shows an operand, or what pointwise nodes make of it, at another point than its own."""
    reached, stack = {value}, [value]
    while stack:
        for use in stack.pop().uses:
            op = find(use.node.kind)
            if op is not None and op.kind == "view":
                return True
            stack += [made for made in use.node.outputs if made not in reached]
            reached.update(use.node.outputs)
    return False


# -- copies ------------------------------------------------------------------------------------------------------


def copy_to(lowering: Lowering, node: Node, source: Place, target: Place) -> None:
    """Fill `target` with `source`, broadcast and cast."""
    expanded = Place(source.block, source.dtype, source.geometry.expand(target.geometry.sizes))
    dtype = target.dtype
    body = recipes.named(lambda m, a: m.cast(a, dtype), f"cast to {dtype.name}")
    lowering.pointwise(node, body, [expanded], target, "copy")


def _copy(lowering: Lowering, node: Node) -> None:
    copy_to(lowering, node, lowering.of(node.inputs[-1]), lowering.make(node.output))


def _fill(lowering: Lowering, node: Node) -> None:
    value = _filling(node)
    target = lowering.make(node.output)
    dtype = target.dtype
    recipe = f"fill {recipes.exact(value)} {dtype.name}" if type(value) in (bool, int, float) else None
    lowering.pointwise(node, recipes.named(lambda m: m.constant(value, dtype), recipe), [], target, "fill")


def _filling(node: Node) -> Any:
    name = node.kind.removeprefix("aten::")
    if name.startswith(("zeros", "ones")):
        number: Any = int(name.startswith("ones"))
    else:
        number = arguments_of(node)["fill_value"]
    dtype = node.output.type.dtype  # type: ignore[attr-defined]
    return np.asarray(number).astype(dtype.numpy).item() if not dtype.is_half else float(number)


def arguments_of(node: Node) -> dict[str, Any]:
    """The node's arguments by name."""
    op = find(node.kind)
    assert op is not None
    values = op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})
    return dict(zip(op.schema.argument_names, values, strict=True))


def _is_fill(node: Node) -> bool:
    if node.kind.startswith("aten::full"):
        value = arguments_of(node)["fill_value"]
        return type(value) in (int, float, bool)
    return True


def _cat(lowering: Lowering, node: Node) -> None:
    """Each operand is copied to its slice of the result, unless it is there already."""
    arguments = arguments_of(node)
    whole = _consecutive([lowering.of(value) for value in arguments["tensors"]]) if arguments["dim"] == 0 else None
    if whole is not None and lowering.alias(node.output, whole):
        return
    target = lowering.places.get(node.output) or lowering.make(node.output)
    dim, start = arguments["dim"] % max(target.geometry.ndim, 1), 0
    for value in arguments["tensors"]:
        source = lowering.of(value)
        if source.geometry.sizes == (0,) and target.geometry.ndim != 1:
            continue
        length = source.geometry.sizes[dim]
        part = target.geometry.window(dim, start, length)
        there = source.block is target.block and homes.is_same(source.geometry, part)
        if not there:  # it may be a view of another part
            copy_to(lowering, node, source, Place(target.block, target.dtype, part))
        start += length


def _consecutive(places: Sequence[Place]) -> Place | None:
    """Rows that lie one after the other in memory, as one place."""
    first = places[0]
    follow = all(_follows(place, before) for before, place in itertools.pairwise(places))
    if not follow or not all(place.geometry.is_contiguous for place in places):
        return None
    rows = sum(place.geometry.sizes[0] for place in places)
    whole = Geometry.contiguous((rows, *first.geometry.sizes[1:]))
    return Place(first.block, first.dtype, whole._replace(offset=first.geometry.offset))


def _follows(place: Place, before: Place) -> bool:
    """Whether the rows of a place begin where those of another, contiguous one end."""
    same = place.block is before.block and place.dtype is before.dtype
    here, there = place.geometry, before.geometry
    return same and here.sizes[1:] == there.sizes[1:] and here.offset == there.offset + there.numel


# -- products ----------------------------------------------------------------------------------------------------


def _is_product(node: Node) -> bool:
    found = {v.type.dtype for v in (*node.inputs, *node.outputs)}
    numbers = (a for name, a in arguments_of(node).items() if name in ("alpha", "beta"))
    return len(found) == 1 and found <= set(blas.LETTER) and all(type(n) in (int, float) for n in numbers)


def _product(lowering: Lowering, node: Node) -> None:
    """mm, bmm, mv and dot: as products of batches of matrices."""
    a, b = (lowering.of(v) for v in node.inputs)
    family = _family(lowering, node, a)
    if len(family) > 1:
        rows = sum(place.geometry.sizes[0] for place in family.values())
        result = lowering.temporary(a.dtype, (rows, b.geometry.sizes[1]))
        whole = _consecutive(list(family.values()))
        assert whole is not None
        a = whole
        lowering.together(list(family), result)
    else:
        result = lowering.make(node.output)
    _multiply(lowering, node, _batch(a, 0), _batch(b, 1), result, 1.0, 0.0)


def _dot(lowering: Lowering, node: Node) -> None:
    """Long vectors are multiplied by a nest: BLAS would use one thread."""
    a, b = (lowering.of(v) for v in node.inputs)
    (length,) = a.geometry.sizes
    if length <= split.BLOCK_POINTS:
        _product(lowering, node)
        return
    result = lowering.make(node.output)
    ins, outs = (tuple(map(Buffer.like, (p.layout for p in places))) for places in ((a, b), (result,)))  # type: ignore[arg-type]
    reads = tuple(Access(number, buffer.strides) for number, buffer in enumerate(ins))
    steps = (
        NestStep(reads, (Reduce("sum", (0,), result.dtype),), recipes.named(lambda m, x, y: x * y, "dot")),
        NestStep((Local(0),), (Access(0, (0,)),), recipes.named(lambda m, total: total, "dot's sum"), inner=False),
    )
    lowering.several(node, split.split(Nest((length,), ins, outs, steps, 1, "dot")), [a, b, result])


def _family(lowering: Lowering, node: Node, a: Place) -> dict[Node, Place]:
    """Products with the same right operand whose left ones are rows that follow those of `node`, which is the first.

    Note [Products that are one]
        A recurrent network multiplies each step of its input by the same matrix. Nothing but the loop keeps these
        products apart, so they become one, which reads the matrix once:

            %1 : Float(16, 1024) = aten::mm(%x0, %w)        x0, x1, ... being consecutive rows of one x:
            ...                                             a product of (1600, 256) by %w, in front of the loop
            %9 : Float(16, 1024) = aten::mm(%x1, %w)

        Long ones are left alone: they read enough rows for each column that they pack, and take their memory later.
    """
    found = {node: a}
    if node.kind != "aten::mm":
        return found
    waiting = lowering.families[node.inputs[1]]
    waiting.popleft()
    rows, columns, last = a.geometry.sizes[0], node.output.type.sizes[1], a  # type: ignore[attr-defined]
    if rows > _SHORT or not a.geometry.is_contiguous or not lowering.is_free_to_move(node.output):
        return found
    most = max(_TOGETHER // (max(rows * columns, 1) * a.dtype.itemsize), 1)
    while waiting and len(found) < most:
        after = lowering.soon(waiting[0].inputs[0])
        if after is None or not after.geometry.is_contiguous or not _follows(after, last):
            break
        if not lowering.is_free_to_move(waiting[0].output):
            break
        found[waiting.popleft()] = last = after
    return found


_SHORT = 128
"""Rows up to which a product is joined with others by the same matrix."""
_TOGETHER = 1 << 21
"""Bytes of results that are made ahead of their time, at most."""


def _batch(place: Place, side: int) -> Place:
    """A matrix or vector as a batch of matrices: a vector is a row on the left and a column on the right."""
    geometry = place.geometry
    if geometry.ndim == 1:
        geometry = geometry.insert(side, 1, 0)
    if geometry.ndim == 2:
        geometry = geometry.insert(0, 1, 0)
    return Place(place.block, place.dtype, geometry)


def _addmm(lowering: Lowering, node: Node) -> None:
    """addmm and baddbmm: the addend is copied to the result, which the product is added to."""
    arguments = arguments_of(node)
    addend, a, b = (lowering.of(v) for v in node.inputs)
    result = lowering.make(node.output)
    alpha, beta = float(arguments["alpha"]), float(arguments["beta"])
    if beta != 0.0:
        copy_to(lowering, node, addend, result)
    _multiply(lowering, node, _batch(a, 0), _batch(b, 1), result, alpha, beta)


def _multiply(lowering: Lowering, node: Node, a: Place, b: Place, result: Place, alpha: float, beta: float) -> None:
    """result = alpha a b + beta result, over a batch."""
    if (alpha, beta) == (1.0, 0.0) and _multiply_packed(lowering, node, a, b, result):
        return
    _multiply_by_blas(lowering, node, a, b, result, alpha, beta)


def _multiply_by_blas(
    lowering: Lowering, node: Node, a: Place, b: Place, result: Place, alpha: float, beta: float
) -> None:
    a, b = _straight(lowering, node, a), _straight(lowering, node, b)
    (batch, rows, inner), columns = a.geometry.sizes, b.geometry.sizes[2]
    left, right = (blas.as_matrix(p.geometry.sizes[1:], p.geometry.strides[1:]) for p in (a, b))
    assert left is not None and right is not None
    steps = (a.geometry.strides[0], b.geometry.strides[0], rows * columns)
    product = blas.Product(result.dtype, (rows, columns, inner), left, right, alpha, beta, batch, steps)
    lowering.step(Step(product, [a, b, result], 1, node))


def _multiply_packed(lowering: Lowering, node: Node, a: Place, b: Place, result: Place) -> bool:
    """A product without BLAS, if there is code for it. What many products of few rows share is packed once."""
    (batch, rows, inner), columns = a.geometry.sizes, b.geometry.sizes[2]
    after, *left = a.geometry.strides
    beside, *right = b.geometry.strides
    work = packed.Product(result.dtype, (rows, columns, inner), (left[0], left[1]), (right[0], right[1]))
    work = work._replace(batch=batch, next=(after, beside))
    if not packed.supports(work):
        if 0 in work.sizes or not packed.supports_tiles(work):
            return False
        step = Step(work, [a, b, result], 1, node)
        lowering.step_of_product(step, lambda: _multiply_by_blas(lowering, node, a, b, result, 1.0, 0.0))
        return True
    key = b.block, b.geometry
    waiting = lowering.families[node.inputs[1]] if node.kind == "aten::mm" else ()
    if key not in lowering.packed and waiting and rows <= _SHORT:
        size = work.panels * packed.panel_columns(work.dtype) * inner
        lowering.packed[key] = lowering.temporary(work.dtype, (size,))
        lowering.step(Step(work._replace(multiplies=False), [b, lowering.packed[key]], 1, node))
    if key in lowering.packed:
        b, work = lowering.packed[key], work._replace(packed=True)
    lowering.step_of_product(Step(work, [a, b, result], 1, node))
    return True


def _straight(lowering: Lowering, node: Node, place: Place) -> Place:
    """The operand, copied if BLAS cannot be told how it lies."""
    if blas.as_matrix(place.geometry.sizes[1:], place.geometry.strides[1:]) is not None:
        return place
    copy = lowering.temporary(place.dtype, place.geometry.sizes)
    copy_to(lowering, node, place, copy)
    return copy


_Able = Callable[[Node], bool]
_ABLE: dict[str, _Able] = {
    "aten::clone": lambda node: True, "aten::_to_copy": lambda node: True, "aten::copy": lambda node: True,
    "aten::cat": lambda node: True, "aten::convolution": conv_steps.is_convolution,
    "aten::convolution_backward": conv_steps.is_backward, "aten::max_pool2d_with_indices": pooling.is_max_pool,
    "aten::max_pool2d_with_indices_backward": pooling.is_max_unpool, "aten::avg_pool2d": pooling.is_mean_pool,
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::addmm", "aten::baddbmm"), _is_product),
    **dict.fromkeys(
        ("aten::zeros", "aten::ones", "aten::full", "aten::zeros_like", "aten::ones_like", "aten::full_like"), _is_fill
    ),
}  # fmt: skip
"""Which other nodes a stretch may contain, by operator."""

_LOWER: dict[str, Callable[[Lowering, Node], None]] = {
    "aten::clone": _copy, "aten::_to_copy": _copy, "aten::copy": _copy, "aten::cat": _cat,
    "aten::convolution": conv_steps.lower_convolution, "aten::convolution_backward": conv_steps.lower_backward,
    "aten::max_pool2d_with_indices": pooling.lower_max_pool,
    "aten::max_pool2d_with_indices_backward": pooling.lower_max_unpool, "aten::avg_pool2d": pooling.lower_mean_pool,
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::mv"), _product), "aten::dot": _dot,
    **dict.fromkeys(("aten::addmm", "aten::baddbmm"), _addmm),
    **dict.fromkeys(
        ("aten::zeros", "aten::ones", "aten::full", "aten::zeros_like", "aten::ones_like", "aten::full_like"), _fill
    ),
}  # fmt: skip
