"""Attaches histories to tensors: the node of the operation that computed them, or has written to them.

This is what `jit.eager` asks of autograd; see `jit.eager.derivatives`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from jit.eager import context
from jit.eager.tensors import Tensor, Variable, root_of, strides_of, tensor_of
from jit.eager.view_paths import maker_of, refuse_reading
from jit.ir import Op, dtypes
from jit.ir.errors import AutogradError

from .nodes import CopySlices, Edge, Node, OpNode, SavedTensor, edge_of, meta_of, replay
from .parts import PartsNode

# -- operators -------------------------------------------------------------------------------------------------------


def attach(op: Op, values: Sequence[Any], outputs: Sequence[Tensor], original: Tensor | None = None) -> OpNode | None:
    """Give `outputs` the history `op(values)`, where some argument wants a gradient.

    Args:
        op: The operator that was called.
        values: Its arguments.
        outputs: Its results.
        original: What the first argument was before the operator wrote over it; None if it did not.

    Returns:
        The node of the call; None if there is nothing to differentiate.
    """
    if op.kind == "view" and values[0]._storage.inference:
        return None  # views of inference tensors are such, too
    carrying = _carrying(op, outputs)
    if not carrying:
        return None
    groups = tuple([_length(values[i]) for i in op.tensors]) if op.takes_lists else None
    tensors = [values[i] for i in op.tensors] if groups is None else list(_flat(op, values))
    edges = [_edge_to(tensor) for tensor in tensors]
    node = (OpNode if op.is_differentiable else PartsNode)(op, edges, groups, len(outputs))
    node.metas = [None if edge is None else meta_of(t) for edge, t in zip(edges, tensors, strict=True)]
    node.needs = needs = [edge is not None for edge in edges]
    node.place = context.user_place(OWN_CALLERS)
    if outputs[carrying[0]]._array.dtype.kind == "c":
        node.conjugated = op.holomorphic
    for index in carrying:
        output = outputs[index]
        if type(output) is Tensor:
            output._promote()
        output.set_history(node, index)  # type: ignore[attr-defined]
    if original is not None:
        values = [original, *values[1:]]
    savers = _savers(op, () if not op.derivatives else tuple(needs) if groups is None else node.grouped(needs))
    node.saved = {name: save(values, outputs, edges) for name, save in savers} if savers else {}
    return node


OWN_CALLERS = 4
"""The least number of functions of this package that lead from a user's line to `attach`, that one included."""


def _edge_to(tensor: Any) -> Edge | None:
    """`edge_of`, with the most frequent cases first."""
    if type(tensor) is Variable and tensor._viewed is None:
        source = tensor._grad_fn
        return edge_of(tensor) if source is None else _tuple(Edge, (source, tensor._output_nr))
    return None if tensor is None or (type(tensor) is Tensor and tensor._viewed is None) else edge_of(tensor)


_tuple = tuple.__new__


def _length(value: Any) -> int | None:
    return len(value) if type(value) is tuple else None


def _flat(op: Op, values: Sequence[Any]) -> Iterator[Any]:
    """The tensors among the arguments, those in lists one by one."""
    for index in op.tensors:
        value = values[index]
        yield from value if type(value) is tuple else (value,)


def _carrying(op: Op, outputs: Sequence[Tensor]) -> list[int]:
    """The numbers of the outputs that can have gradients."""
    found = []
    for i in range(len(outputs)) if op.schema.returns[0].type.is_list else op.differentiable:
        array = outputs[i]._array
        if array is not None and _has_gradients(array.dtype):
            found.append(i)
    return found


@cache
def _has_gradients(dtype: Any) -> bool:
    return dtypes.from_numpy(dtype).category >= dtypes.FLOATING


Saver = Callable[[Sequence[Any], Sequence[Tensor], Sequence[Edge | None]], Any]
"""Keeps something of the arguments or the outputs of a call, given the edges of its tensors."""


@cache
def _savers(op: Op, needs: tuple[Any, ...]) -> list[tuple[str, Saver]]:
    """The values that derivative formulas of the arguments marked in `needs` ask for, and the way to keep each."""
    if not op.is_differentiable:
        return [(name, _saver(op, name)) for name in op.schema.argument_names]
    if op.backward is not None:
        rules = [op.backward]
    else:
        wanted = [
            op.arguments[p].name
            for p, n in zip(op.tensors, needs, strict=True)
            if (any(n) if isinstance(n, tuple) else n)
        ]
        rules = [op.derivatives[name] for name in wanted if name in op.derivatives]
    names = dict.fromkeys(n for r in rules for n in r.names)
    return [(name, _saver(op, name)) for name in names if name not in ("F", "g", "needs")]


def _saver(op: Op, name: str) -> Saver:
    arguments = op.schema.argument_names
    if name == "out":
        return _save_one_output if op.gives_one else _save_outputs
    if name in arguments:
        return _saver_of_argument(op, name, arguments.index(name))
    position = arguments.index(name.removesuffix("_meta").removesuffix("_geometry"))
    if op.is_absolute or name.endswith("_geometry"):
        return lambda values, outputs, edges: _geometry_of(values[position], op.is_absolute)
    return lambda values, outputs, edges: _metas_of(values[position])


def _saver_of_argument(op: Op, name: str, position: int) -> Saver:
    if position not in op.tensors:
        return lambda values, outputs, edges: values[position]
    if op.takes_lists:
        return lambda values, outputs, edges: _saved(name, values[position])
    number = op.tensors.index(position)

    def save(values: Sequence[Any], outputs: Sequence[Tensor], edges: Sequence[Edge | None]) -> Any:
        value = values[position]
        return SavedTensor(value, name, None, edges[number]) if isinstance(value, Tensor) else value

    return save


def _save_outputs(values: Sequence[Any], outputs: Sequence[Tensor], edges: Sequence[Edge | None]) -> Any:
    return tuple(SavedTensor(t, f"output {i}", i if isinstance(t, Variable) else None) for i, t in enumerate(outputs))


def _save_one_output(values: Sequence[Any], outputs: Sequence[Tensor], edges: Sequence[Edge | None]) -> Any:
    (output,) = outputs
    return SavedTensor(output, "output 0", 0 if isinstance(output, Variable) else None)


def _saved(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return SavedTensor(value, name)
    if isinstance(value, tuple):
        return tuple(SavedTensor(v, f"{name}[{i}]") if isinstance(v, Tensor) else v for i, v in enumerate(value))
    return value


def _metas_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(meta_of(v) for v in value)
    return meta_of(value) if isinstance(value, Tensor) else None


def _geometry_of(value: Tensor, is_absolute: bool) -> Any:
    offset = value.storage_offset() if is_absolute else 0
    return meta_of(value, strides_of(value._array), offset)


# -- in place ----------------------------------------------------------------------------------------------------------


def begin_write(op: Op, values: Sequence[Any]) -> OpNode | None:
    """The node of `op`, whose result will be written over its first argument; None if it has no gradient."""
    target = values[0]
    original = _original(target) if _needs_original(op) else None
    return attach(op, values, [tensor_of(target._array, target._storage)], original)


def _needs_original(op: Op) -> bool:
    """Whether the derivative looks at what is written over."""
    name = op.arguments[0].name
    rules = [op.backward] if op.backward is not None else list(op.derivatives.values())
    return any(name in rule.names for rule in rules)


def _original(target: Tensor) -> Tensor:
    """A copy of the elements of `target`, with its history."""
    copy = tensor_of(target._array.copy())
    trace = context.TRACE.get()
    if trace is not None:
        trace.bind_copy(copy, target)
    edge = edge_of(target)
    if edge is not None:
        copy._promote()
        copy.set_history(edge.node, edge.index)  # type: ignore[attr-defined]
    return copy


def end_write(target: Tensor, node: OpNode) -> None:
    """Let a node of `begin_write` be the history of `target`, which has been written to."""
    if node.saved is not None and "out" in node.saved:  # the output is the target, at its new version
        node.saved["out"] = SavedTensor(target, "the result", 0)
    rebase(target, node)


def rebase(target: Tensor, node: Node, self_index: int = 0, output: int = 0) -> None:
    """Let a node be the new history of `target`, which has been written to.

    Args:
        target: The tensor, whole or a view.
        node: The node of the operation that wrote.
        self_index: The number of its edge that leads to what the target was before.
        output: The number of its output that is the target now.

    Raises:
        AutogradError: The target is a view, and the node has several outputs.
    """
    target._promote()
    base = root_of(target)
    if base is target:
        target._requires_grad = False
        target.set_history(node, output)  # type: ignore[attr-defined]
        return
    if node.outputs > 1:
        raise AutogradError(
            f"{node.name} (called at {node.source}) has written to a view, so it must have that one output alone; "
            "clone() its argument, or write to whole tensors"
        )
    base._promote()
    slices = CopySlices(base, target._path, node, self_index)
    base.set_history(slices, 0)  # type: ignore[attr-defined]
    target._grad_version = -1  # derived from the base's new history when asked for


# -- views -------------------------------------------------------------------------------------------------------------


def view_history(view: Variable) -> None:
    """Derive the history of `view` from its base's, which an in-place operation has changed: as if taken now.

    Raises:
        AutogradError: The view was made in a way that cannot be repeated, such as by a custom function.
    """
    base = root_of(view)
    if base.requires_grad or view._grad_fn is not None:
        maker = maker_of(view._path)
        if maker is not None:
            raise refuse_reading(maker, view._storage.writer)
    if base.requires_grad:
        with context.tracing(None), context.enable_grad():
            fresh = replay(view._path, base)
        view.set_history(fresh.grad_fn, fresh.output_nr)
    view._grad_version = view._storage.version


def stale_requires_grad(view: Variable) -> bool:
    """Whether a view whose memory was written to requires grad; answered without its history, which may be lost."""
    assert view._viewed is not None
    if maker_of(view._path) is not None:
        return view._requires_grad or view._grad_fn is not None or view._viewed.requires_grad
    return view._requires_grad or view.grad_fn is not None
