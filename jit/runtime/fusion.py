"""From a FusionGroup to a compiled kernel: the body's `compute` lines become the body of one loop nest.

The nest is made for the layouts that arrive: views inside the group turn into offsets and strides of the buffers that
they look at, broadcasts into strides of zero. Kernels are kept per group and layout. A body that code generation
refuses runs node by node instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.dtypes import DType
from jit.ir.errors import CompileError
from jit.ir.geometry import Geometry

from .codegen import Kernel, compile_nest
from .nest import Access, Buffer, Nest, one_step

Arrays = Sequence[Any]


class FusedGroup:
    """A callable for one FusionGroup node: arrays in, fresh arrays out."""

    def __init__(self, node: Node) -> None:
        self._body: Graph = node.attributes["body"]
        self._kernels: dict[Any, Kernel | None] = {}
        self._lock = threading.Lock()
        self._types = [value.type for value in self._body.outputs]
        self._comments = tuple(dict.fromkeys(str(n.source) for n in self._body.nodes if n.source is not None))
        self._name = "_".join(dict.fromkeys(n.kind.split("::")[1].split(".")[0] for n in self._body.nodes))[:60]

    def __call__(self, inputs: Arrays) -> list[Any]:
        """Run the group."""
        if self._types[0].numel == 0:
            return self._empty()
        key = tuple((a.shape, a.strides) for a in inputs)
        if key not in self._kernels:
            with self._lock:
                self._kernels[key] = self._compile(inputs)
        kernel = self._kernels[key]
        if kernel is None:
            return self._interpret(inputs)
        outputs = self._empty()
        kernel(inputs, outputs)
        return outputs

    def _empty(self) -> list[Any]:
        return [np.empty(t.sizes, t.dtype.numpy) for t in self._types]

    @property
    def kernels(self) -> list[Kernel]:
        """What has been compiled so far, one per layout of the inputs."""
        return [kernel for kernel in self._kernels.values() if kernel is not None]

    def _compile(self, inputs: Arrays) -> Kernel | None:
        try:
            return compile_nest(self._nest(inputs))
        except CompileError:
            return None

    def _interpret(self, inputs: Arrays) -> list[Any]:
        from .interpreter import Interpreter

        return Interpreter(self._body).run(0, inputs)[0]

    def _nest(self, inputs: Arrays) -> Nest:
        buffers = tuple(map(Buffer.like, inputs))
        extents = self._types[0].sizes
        outputs = tuple(Buffer(t.dtype, extents, Geometry.contiguous(extents).strides) for t in self._types)
        places = {
            value: (i, Geometry(b.sizes, b.strides))
            for i, (value, b) in enumerate(zip(self._body.inputs, buffers, strict=True))
        }
        for node in self._body.nodes:
            _place_views(node, places)
        read = [value for value in places if any(not _is_view(use.node) for use in value.uses)]
        reads = tuple(Access(places[v][0], places[v][1].expand(extents).strides, places[v][1].offset) for v in read)
        writes = tuple(Access(i, b.strides) for i, b in enumerate(outputs))
        body = scalar_body(self._body, read)
        return one_step(extents, buffers, outputs, reads, writes, body, self._name, self._comments)


def _is_view(node: Node) -> bool:
    op = find(node.kind)
    return op is not None and op.kind == "view"


def _place_views(node: Node, places: dict[Value, tuple[int, Geometry]]) -> None:
    """Where the outputs of a view node lie in the buffer that it looks at."""
    op = find(node.kind)
    if op is None or op.kind != "view":
        return
    index, geometry = places[node.inputs[0]]
    arguments = op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})[1:]
    found = op.body(geometry, *arguments)
    for value, placed in zip(node.outputs, found if isinstance(found, list) else [found], strict=True):
        places[value] = (index, placed)


def scalar_body(graph: Graph, read: Sequence[Value]) -> Callable[..., Any]:
    """The body as a function of a math namespace and one operand per value of `read`."""

    def body(m: Any, *operands: Any) -> Any:
        known = dict(zip(read, operands, strict=True))
        for node in graph.nodes:
            if not _is_view(node):
                known[node.output] = _compute(m, node, known)
        return tuple(known[value] for value in graph.outputs)

    return body


def _compute(m: Any, node: Node, known: dict[Value, Any]) -> Any:
    """One op at one point, with the casts that the registry prescribes."""
    op = find(node.kind)
    assert op is not None
    values = op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})
    typed = [v.type if isinstance(v, Value) else v for v in values]
    dtype = op.compute_dtype(typed)
    wide = _wide(dtype)
    for index in op.tensors:
        if values[index] is not None:
            value = values[index]
            values[index] = m.cast(known[value], wide) if isinstance(value, Value) else m.constant(value, wide)
    result = op.body(m, *values)
    declared = node.output.type
    assert isinstance(declared, TensorType) and declared.dtype is not None
    return m.cast(result, declared.dtype)


def _wide(dtype: DType) -> DType:
    from jit.ir.dtypes import float32

    return float32 if dtype.is_half else dtype


def compile_group(node: Node) -> FusedGroup:
    """The callable for a FusionGroup node."""
    return FusedGroup(node)


_supported: dict[Any, bool] = {}


def supports(node: Node) -> bool:
    """Whether code generation has a kernel for this node: asked of the generator itself, once per op and dtypes."""
    key = (
        node.kind,
        tuple(getattr(v.type, "dtype", None) for v in node.inputs),
        repr(node.args),
        repr(node.attributes),
    )
    if key not in _supported:
        _supported[key] = _try(node)
    return _supported[key]


def _small(type_: Any) -> TensorType:
    return TensorType(type_.dtype, (4,) if type_.ndim else ())


def _try(node: Node) -> bool:
    from .llvm_lower import lower
    from .schedule import schedule
    from .target import Target

    graph = Graph()
    mapping = {v: graph.add_input(_small(v.type)) for v in dict.fromkeys(node.inputs)}
    copy = graph.copy_node(node, mapping)
    copy.stage = 0
    copy.output.type = TensorType(node.output.type.dtype, (4,))  # type: ignore[attr-defined]
    graph.set_return([copy.output])
    alone = Graph().create("prim::FusionGroup", (), {"body": graph})
    try:
        arrays = [np.zeros(v.type.sizes, v.type.dtype.numpy) for v in graph.inputs]  # type: ignore[attr-defined]
        nest = FusedGroup(alone)._nest(arrays)
        lower(nest, schedule(nest), Target.host())
    except (CompileError, AttributeError, TypeError):
        return False
    return True
