"""Lowering of a stretch of a graph to steps: which kernel, on which memory, in which order.

Comes between the graph and `plan`. Every value gets a `ValuePlace`: a block of memory and a geometry in it, so that
views cost nothing. Every other node becomes one or more steps, each a call of some `Work`: kernels of nests, products,
convolutions, pooling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jit.ir import Graph, Node, TensorType, Value, find, kernel_of
from jit.ir.dtypes import COMPLEX, DType, from_numpy, uint8
from jit.ir.errors import CompileError, Error
from jit.ir.geometry import Geometry
from jit.ir.kernel import STEPS
from jit.ir.sizes import estimating, only_if
from jit.ir.types import UNDEFINED
from jit.passes.support.spaces import is_made_up

from ..kernels import fusion, split
from ..kernels.nest import Buffer, pointwise_nest
from ..kernels.nest_work import NestWork
from ..products import conv_steps, epilogues, pooling_steps, products, row_sums
from ..products.finished import Finished
from ..products.tiled import Tiled
from . import copies, homes
from .places import Held, Layout, MemoryBlock, Step, StepDeclined, Stretch, ValuePlace
from .reshaped import whole_of


def is_free(node: Node) -> bool:
    """Whether the node costs nothing in a stretch: a view that is but another geometry, or a constant."""
    if node.kind == "prim::Constant":
        return isinstance(node.attributes.get("value"), np.ndarray) and _is_plain(node.output)
    return is_free_view(node, "cpu")


def is_free_view(node: Node, device: str) -> bool:
    """Whether the node is a view on a device that is but another geometry."""
    op = find(node.kind)
    if op is None or op.kind != "view" or op.result is not None or op.is_absolute:
        return False
    return len(node.inputs) == 1 and all(is_known(value, device) for value in (*node.inputs, *node.outputs))


def is_native(node: Node) -> bool:
    """Whether a stretch may contain the node."""
    made = [value for value in node.outputs if value.type is not UNDEFINED]
    if not any(value.uses for value in node.outputs):  # only a node that may raise is left unused
        return False
    if not all(map(_is_plain, (*node.inputs, *made))):
        return False
    if node.kind == "prim::FusionGroup":
        return True
    op = find(node.kind)
    if op is None:
        return False
    if library := _library_of(node):
        return library.is_able(node) and all(map(_is_row_major, made))
    return len(node.outputs) == 1 and (bool(node.inputs) or is_made_up(node)) and fusion.supports(node)


def _library_of(node: Node) -> _Library | None:
    """The kind of step by which a node is computed; None for nests."""
    step = kernel_of(node.kind).step
    return None if not step or (is_made_up(node) and not _LIBRARY[step].is_able(node)) else _LIBRARY[step]


def _is_flexible(node: Node) -> bool:
    """Whether a node's results may lie anyhow: what nests write."""
    library = _library_of(node)
    return library is None or library.is_flexible


def _is_row_major(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.strides is None


def is_known(value: Value, device: str) -> bool:
    """Whether this is a tensor on a device, of known sizes."""
    type = value.type
    return isinstance(type, TensorType) and type.sizes is not None and type.dtype is not None and type.device == device


def is_plain(value: Value, device: str) -> bool:
    """Whether this is a tensor on a device whose layout is known, and which holds no complex numbers."""
    return is_known(value, device) and value.type.dtype.category < COMPLEX  # type: ignore[attr-defined]


def _is_plain(value: Value) -> bool:
    return is_plain(value, "cpu")


# -- lowering ----------------------------------------------------------------------------------------------------


class StretchLowering:
    """The steps of a stretch whose inputs lie as `layouts` say; StepDeclined names a node that has no steps."""

    def __init__(self, stretch: Stretch, layouts: Sequence[Layout]) -> None:
        self.places: dict[Value, ValuePlace] = {}
        self.steps: list[Step] = []
        self.blocks: list[MemoryBlock] = []
        self.constants: list[Any] = []
        """Arrays that the steps read."""
        self._nests: dict[Any, split.Split] = {}
        """Nests by what decides on them: equal layers share a kernel."""
        self._outputs = {whole_of(value, stretch.views): number for number, value in enumerate(stretch.outputs)}
        self._homes = homes.homes(stretch.nodes, self._outputs, is_free, _is_flexible)
        self._early: set[Node] = set()
        """Nodes that were lowered before their turn."""
        self.families = products.families(stretch.nodes)
        """The products that are still to be lowered, by their right operand."""
        self.packed: dict[tuple[MemoryBlock, Geometry], ValuePlace] = {}
        """Right operands of several products, in panels."""
        self._nodes = set(stretch.nodes)
        self._held: dict[MemoryBlock, Held] = {}
        """Products that the kernels that read them may follow tile by tile, by what they write."""
        self._tiled: dict[Any, Tiled | Finished | None] = {}
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
            elif library := _library_of(node):
                library.lower(self, node)
            else:
                self._group(node)
        except Error as error:  # such as a view of an input that lies otherwise than its type says
            raise StepDeclined(node, error) from error

    def of(self, value: Value) -> ValuePlace:
        """The place of a value."""
        return self.places[value]

    def make(self, value: Value) -> ValuePlace:
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

    def _at_home(self, value: Value) -> ValuePlace:
        """Memory within that of the `cat` that the value will be part of."""
        home = self._homes[value]
        whole = self.places.get(home.whole) or self.make(home.whole)
        return ValuePlace(whole.block, whole.dtype, home.geometry)

    def soon(self, value: Value) -> ValuePlace | None:
        """The place of a value, if it is known already or is a view of one whose place is."""
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

    def alias(self, value: Value, place: ValuePlace) -> bool:
        """Let a value be what lies there already, unless its memory is for the caller to keep."""
        if value in self._outputs or value in self._homes or value in self.places:
            return False
        self.places[value] = place
        return True

    def together(self, nodes: Sequence[Node], whole: ValuePlace) -> None:
        """The outputs of several nodes, which one step makes before their turn, follow each other in `whole`."""
        start = 0
        for node in nodes:
            rows = node.output.type.sizes[0]  # type: ignore[attr-defined]
            self.places[node.output] = ValuePlace(whole.block, whole.dtype, whole.geometry.window(0, start, rows))
            start += rows
        self._early.update(nodes)

    def skip(self, node: Node) -> None:
        """A step of another node computes this one, too."""
        self._early.add(node)

    def is_free_to_move(self, value: Value) -> bool:
        """Whether the stretch may choose where a value lies."""
        return value not in self._outputs and value not in self._homes

    def temporary(self, dtype: DType, sizes: tuple[int, ...]) -> ValuePlace:
        """Row-major memory within the arena."""
        geometry = Geometry.contiguous(sizes)
        block = MemoryBlock("temporary", geometry.numel * dtype.itemsize)
        self.blocks.append(block)
        return ValuePlace(block, dtype, geometry)

    def _laid_out(self, buffer: Buffer) -> ValuePlace:
        """Temporary memory that lies as a nest has it."""
        block, dtype, _ = self.temporary(buffer.dtype, buffer.sizes)
        return ValuePlace(block, dtype, Geometry(buffer.sizes, buffer.strides))

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
        return node if node in self._nodes and not _library_of(node) else None

    def scratch(self, number: int, nbytes: int) -> None:
        """Memory for step `number` alone, as its last operand."""
        place = ValuePlace(MemoryBlock("temporary", nbytes, 0, number, number), uint8, Geometry.contiguous((nbytes,)))
        self.blocks.append(place.block)
        self.steps[number].operands.append(place)
        self.steps[number].scratch += 1

    def pointwise(
        self, node: Node, body: Callable[..., Any], reads: Sequence[ValuePlace], write: ValuePlace, name: str
    ) -> None:
        """Add a step that fills `write` with the results of `body` at the operands `reads`; it counts as no work."""
        layouts: list[Any] = [place.layout for place in (*reads, write)]
        nest = pointwise_nest(body, layouts[:-1], layouts[-1:], name)
        self.step(Step(NestWork.of(node, nest, share=0.0), [*reads, write], 1, node))

    # -- kinds of nodes ------------------------------------------------------------------------------------------

    def _constant(self, node: Node) -> None:
        array = np.ascontiguousarray(node.attributes["value"])
        block = MemoryBlock("constant", array.nbytes, len(self.constants))
        self.constants.append(array)
        self.places[node.output] = ValuePlace(block, from_numpy(array.dtype), Geometry.contiguous(array.shape))

    def _view(self, node: Node) -> None:
        op = find(node.kind)
        assert op is not None
        block, dtype, geometry = self.of(node.inputs[0])
        arguments = op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})[1:]
        found = op.body(geometry, *arguments)
        for value, placed in zip(node.outputs, found if isinstance(found, list) else [found], strict=True):
            self.places[value] = ValuePlace(block, dtype, placed)

    def _group(self, node: Node) -> None:
        """A FusionGroup, or another node as a group of its own."""
        fused = node.kind == "prim::FusionGroup"
        values, body = body_of(node)
        reads, writes = [self.of(v) for v in values], [self.make(v) for v in node.outputs]
        key = (
            _signature(node.attributes["body"]) if fused else _entry(node, {v: i for i, v in enumerate(values)}),
            *(p.layout for p in (*reads, *writes)),
        )
        if key not in self._nests:
            buffers = [[Buffer.like(p.layout) for p in places] for places in (reads, writes)]  # type: ignore[arg-type]
            self._nests[key] = split.split_if_worth(fusion.group_nest(body, *buffers))
        if any(p.geometry.numel == 0 for p in reads) and any(p.geometry.numel for p in writes):
            raise CompileError("no kernel reduces an empty tensor to a result with elements; the interpreter does")
        held = self._last_held(reads)
        in_place = read_in_place(body, reads, writes)
        reusable = tuple(index for index in in_place if reads[index].block.kind == "temporary")
        if held is not None and self._epilogue(node, key, held.step, reads, writes, reusable):
            return
        if held is not None:
            held.otherwise()
        self.several(node, self._nests[key], [*reads, *writes], reusable)

    def _last_held(self, reads: Sequence[ValuePlace]) -> Held | None:
        """The largest of the products that were held back for a kernel; the others become steps."""
        held = [self._held.pop(block) for block in dict.fromkeys(place.block for place in reads) if block in self._held]
        with estimating():
            held.sort(key=lambda product: product.step.operands[-1].geometry.numel)
        for product in held[:-1]:
            product.otherwise()
        return held[-1] if held else None

    def _epilogue(
        self, node: Node, key: Any, product: Step, reads: Sequence[ValuePlace], writes: Sequence[ValuePlace],
        reusable: Sequence[int],
    ) -> bool:  # fmt: skip
        """A kernel and the product that it reads as one step, if the kernel is an epilogue."""
        nest, made = self._nests[key].alone, product.operands[-1].block
        known = product.work, key, tuple(place.block is made for place in reads)
        if known not in self._tiled:
            self._tiled[known] = None if nest is None else epilogues.joined(nest, product, reads)
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

    def several(self, node: Node, work: split.Split, operands: list[ValuePlace], reusable: Sequence[int] = ()) -> None:
        """A step for each nest of a group; what is reusable are operands of the only one."""
        places = [*operands, *(self._laid_out(buffer) for buffer in work.temporaries)]
        with estimating():
            points = [int(math.prod(call.nest.extents)) for call in work.calls]
        for call, count in zip(work.calls, points, strict=True):
            nest_work = NestWork.of(node, call.nest, count / max(sum(points), 1))
            self.step(
                Step(nest_work, [places[i] for i in call.operands], len(call.nest.outputs), node, tuple(reusable))
            )


def _signature(body: Graph) -> Any:
    """The computation of a body, whatever its values are called and wherever its lines stand."""
    numbers = {value: number for number, value in enumerate(body.inputs)}
    entries = []
    for node in body.nodes:
        entries.append(_entry(node, numbers))
        for value in node.outputs:
            numbers[value] = len(numbers)
    return (*entries, tuple(numbers[v] for v in body.outputs))


def _entry(node: Node, numbers: dict[Value, int]) -> Any:
    """The computation of one node. Constants are compared as text: 1, 1.0 and True are three things."""
    operands = tuple(numbers[v] for v in node.inputs)
    types = tuple(str(v.type) for v in (*node.inputs, *node.outputs))
    return (node.kind, operands, repr(node.args), repr(node.attributes), types)


def _input_place(number: int, layout: Layout) -> ValuePlace:
    size = layout.itemsize
    if any(s % size for s in layout.strides):
        raise CompileError(f"byte strides {layout.strides} are not multiples of {size}: pass a copy of the array")
    geometry = Geometry(layout.shape, tuple(s // size for s in layout.strides))
    return ValuePlace(MemoryBlock("input", geometry.numel * size, number), from_numpy(layout.dtype), geometry)


def body_of(node: Node) -> tuple[list[Value], Graph]:
    """The values that a step for a node reads, and its computation: the body of a FusionGroup, or the node alone."""
    if node.kind == "prim::FusionGroup":
        return list(node.inputs), node.attributes["body"]
    values, body = list(dict.fromkeys(node.inputs)), Graph()
    mapping = {value: body.add_input(value.type) for value in values}
    copy = body.copy_node(node, mapping)
    copy.stage = 0
    body.set_return([copy.output])
    return values, body


def read_in_place(body: Graph, reads: Sequence[ValuePlace], results: Sequence[ValuePlace]) -> tuple[int, ...]:
    """The operands that lie as the results do and are only read by pointwise nodes as they are."""
    result = results[0]
    if not all(_is_alike(place, result) for place in results):
        return ()
    if any((op := find(n.kind)) is None or op.kind not in ("pointwise", "view") for n in body.nodes):
        return ()
    found = []
    for index, (value, place) in enumerate(zip(body.inputs, reads, strict=True)):
        direct = not _is_viewed(value)
        alike = _is_alike(place, result) and place.dtype.itemsize == result.dtype.itemsize
        if direct and alike:
            found.append(index)
    return tuple(found)


def _is_alike(place: ValuePlace, other: ValuePlace) -> bool:
    return only_if(lambda: place.geometry == other.geometry)


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


class _Library(NamedTuple):
    """A kind of step that operators ask for by name: which nodes it can be, and how they are lowered."""

    is_able: Callable[[Node], bool]
    """Whether there is code for a node whose operator asks for this kind of step."""
    lower: Callable[[StretchLowering, Node], None]
    is_flexible: bool = False
    """Whether its results may lie anyhow."""


def _always(node: Node) -> bool:
    return True


_LIBRARY: dict[str, _Library] = {
    "copy": _Library(_always, copies.lower_copy, is_flexible=True),
    "fill": _Library(copies.is_fill, copies.lower_fill, is_flexible=True),
    "join": _Library(_always, copies.lower_cat),
    "placement": _Library(_always, copies.lower_placement, is_flexible=True),
    "product": _Library(products.is_product, products.lower_product),
    "inner product": _Library(products.is_product, products.lower_dot),
    "product and sum": _Library(products.is_product, products.lower_addmm),
    "convolution": _Library(conv_steps.is_convolution, conv_steps.lower_convolution),
    "convolution gradients": _Library(conv_steps.is_backward, conv_steps.lower_backward),
    "maxima": _Library(pooling_steps.is_max_pool, pooling_steps.lower_max_pool),
    "maxima gradients": _Library(pooling_steps.is_max_unpool, pooling_steps.lower_max_unpool),
    "means": _Library(pooling_steps.is_mean_pool, pooling_steps.lower_mean_pool),
    "sums of rows": _Library(row_sums.is_row_sum, row_sums.lower_row_sum),
    "attention": _Library(lambda node: False, lambda lowering, node: None),  # of GPUs alone, both
    "attention gradients": _Library(lambda node: False, lambda lowering, node: None),
}
"""The kinds of steps, by the name that an operator has for them in `Kernel.step`."""
assert set(_LIBRARY) == set(STEPS)
