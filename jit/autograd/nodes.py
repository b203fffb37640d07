"""The nodes of the autograd graph: one per recorded operation, made by `attaching`, run by `engine`.

Note [Histories of views]
    A view knows its base and the path of view ops that leads to it. An in-place operation on the view changes the
    history of the *base*: it becomes a CopySlices, which hands the viewed part of the gradient to the operation and
    passes the rest on. The view's own history is derived from the base's when it is next asked for:

        b = a * 1          b.grad_fn = Mul
        v = b[0]           v.grad_fn = Select <- Mul
        v.add_(w)          b.grad_fn = CopySlices(path=[select 0], Add) <- Mul, w;   v: stale
        v.grad_fn          Select <- CopySlices        (the path replayed from b)
    CopySlices replays the path on gradients with differentiable ops, so it is right for any layout of memory and any
    order of derivatives.

Note [Derivatives on arrays]
    A formula in a dozen operators takes a dozen operators' time, and nearly all of them run where nobody looks at them.
    So some operators have a derivative for numpy, too, which gives the same bits. It runs unless the derivative is
    recorded, traced or profiled. A composite without formulas has then one node instead of those of its parts, and
    saves its arguments; where that derivative does not do, the parts run again and are differentiated.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from jit.eager import context, hot
from jit.eager.dispatch import beside, call
from jit.eager.effects import note_write
from jit.eager.hooks import HookTable, RemovableHandle
from jit.eager.namespace import F
from jit.eager.proxies import concrete
from jit.eager.tensors import Storage, Tensor, Variable, requires_grad, tensor_of, variable_of
from jit.eager.view_paths import ViewStep
from jit.ir import Op, Source
from jit.ir.devices import CPU
from jit.ir.devices import device as Device
from jit.ir.dtypes import DType, from_numpy
from jit.ir.errors import AutogradError, KindError
from jit.ir.geometry import Geometry
from jit.ir.op import Derivative
from jit.runtime.arrays.execute import execute_gradients
from jit.runtime.arrays.libraries import FINDERS, is_writable

from .changed import changed_tensor

SPAN = 1 << 64
"""The distance between the serials of two nodes: room for those that a shared backward hands out, see `sharing`."""
SERIALS: ContextVar[Iterator[int]] = ContextVar("serials", default=itertools.count(0, SPAN))  # noqa: B039, all share it


def next_serial() -> int:
    """A number between the serials of the nodes made before and after."""
    return next(SERIALS.get())


class Edge(NamedTuple):
    """The destination of a gradient: `node`, which takes it as the gradient of its output number `index`."""

    node: Node
    index: int  # type: ignore[assignment]


class Meta(NamedTuple):
    """Facts that derivatives may know of a tensor without keeping it alive."""

    shape: tuple[int, ...]
    held: Any
    """The dtype as arrays name it."""
    device: Device
    strides: tuple[int, ...] = ()
    """The strides in elements; noted where the derivative asks for the `_geometry`, and for `as_strided`."""
    offset: int = 0
    """The place of the first element, which takes long to find: noted for `as_strided` alone."""

    @property
    def dtype(self) -> DType:
        """The element type."""
        return from_numpy(self.held)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def stride(self) -> tuple[int, ...]:
        """The strides in elements."""
        return self.strides

    def storage_offset(self) -> int:
        """The distance of the first element from the start of the storage, in elements."""
        return self.offset


_tuple = tuple.__new__
"""`_tuple(Edge, (node, index))`, which takes half as long as `Edge(node, index)`."""


def meta_of(tensor: Tensor, strides: tuple[int, ...] = (), offset: int = 0) -> Any:
    """The facts of a tensor that derivatives may want later: a Meta.

    Args:
        tensor: The tensor.
        strides: Its strides in elements, if they are to be noted.
        offset: The place of its first element, likewise.
    """
    array, trace = tensor._array, context.SIZED.get()
    meta = _tuple(Meta, (array.shape, array.dtype, tensor.device if FINDERS else CPU, strides, offset))
    return meta if trace is None else trace.meta_of(tensor, meta)


class SavedTensor:
    """A tensor kept for backward, with the version that it must still have then.

    Args:
        tensor: The tensor.
        what: The words for it in error messages.
        output: The number of the node's output that it is; None for an input.
        edge: The edge of an input, where it is known that it has one.
    """

    __slots__ = ("_array", "_bindings", "_edge", "_index", "_packed", "storage", "version", "what")

    def __init__(self, tensor: Tensor, what: str, output: int | None = None, edge: Edge | None = None) -> None:
        storage = tensor._storage
        self._array = tensor._array
        self._bindings = tensor._bindings
        self.storage = storage
        self.version = storage.version
        self._index = output
        """The number of the node's output that this is; None for an input."""
        self._edge = edge if edge is not None or output is not None else edge_of(tensor)  # an output's makes a cycle
        self.what = what
        if storage.inference:
            raise AutogradError(
                f"{what} is an inference tensor, which is not saved for backward; clone() it outside of inference_mode"
            )
        hooks = context.SAVING.get()
        self._packed: Any = None
        """The result of the pack hook, and the unpack hook that brings the tensor back; None without hooks."""
        if hooks is not None and context.TRACE.get() is None:
            self._pack(tensor, *hooks)

    def _pack(self, tensor: Tensor, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        with context.no_grad(), context.saving(None):
            self._packed = pack(tensor_of(tensor._array, tensor._storage)), unpack
        if self.storage.version != self.version:
            raise AutogradError(
                f"a pack hook has written to the tensor that it got, {self.what} of an operator (called at "
                f"{context.user_source()}); let it write to a clone"
            )
        self._array = None

    @property
    def is_plain(self) -> bool:
        """Whether the array is at hand as it was saved: no hook has it, and nothing has written to it."""
        return self._packed is None and self.storage.version == self.version

    def changed(self, node: Node) -> Tensor | None:
        """A tensor without elements, if an in-place operation has changed this one."""
        if self._packed is not None or self.storage.version == self.version:
            return None
        error = _changed(node, self.what, self.version, self.storage)
        return changed_tensor(self._array, self.storage, self._bindings, error)

    def _original(self, node: Node) -> Any:
        """The array that was saved; AutogradError if an in-place operation has changed it since."""
        if self._packed is None:
            if self.storage.version != self.version:
                raise _changed(node, self.what, self.version, self.storage)
            return self._array
        value, unpack = self._packed
        with context.no_grad():
            tensor = unpack(value)
        if not isinstance(tensor, Tensor) or not tensor.defined:
            raise AutogradError(
                f"the unpack hook returned {type(tensor).__name__} for {self.what} of {node.name} (called at "
                f"{node.source}); return the tensor that the pack hook got"
            )
        return tensor._array

    def without_history(self, node: Node) -> Tensor:
        """`unpack` for computations that are not recorded."""
        plain = tensor_of(self._original(node), self.storage)
        plain._bindings = self._bindings
        return plain

    def unpack(self, node: Node) -> Tensor:
        """The tensor as it was saved; AutogradError if an in-place operation has changed it since."""
        edge = self._edge if self._index is None else Edge(node, self._index)
        if edge is None:
            return self.without_history(node)
        fresh = variable_of(self._original(node), self.storage)
        fresh._bindings = self._bindings
        if isinstance(edge.node, AccumulateGrad):
            fresh._requires_grad = True
            fresh._accumulator = weakref.ref(edge.node)
        else:
            fresh.set_history(edge.node, edge.index)
        return fresh


def _changed(node: Node, what: str, version: int, storage: Storage) -> AutogradError:
    return AutogradError(
        f"{what} of {node.name} (called at {node.source}) was changed by an in-place operation at {storage.writer} "
        f"before its gradient was computed: it is at version {storage.version}, expected {version}; "
        "use the out-of-place operation, or clone the tensor first"
    )


def _freed(node: Node) -> AutogradError:
    return AutogradError(
        f"backward through {node.name} (called at {node.source}) a second time: the saved tensors were freed; "
        "say retain_graph=True the first time"
    )


class Node:
    """One step of the backward computation: gradients of the outputs in, gradients of the inputs out.

    Args:
        name: The name to show; empty for subclasses that have a property for it.
        edges: For each input, where its gradient goes; None where none is wanted.
        outputs: The number of outputs.
    """

    tensor_hooks: HookTable | None = None
    """Hooks on single outputs' gradients, as (output number, hook)."""
    pre_hooks: HookTable | None = None
    """Called with the gradients of all outputs before the node runs."""
    hooks: HookTable | None = None
    """Called with (gradients of inputs, gradients of outputs) after the node ran."""
    retained: dict[int, weakref.ref[Tensor]] | None = None
    """Outputs whose gradient is to be kept, by number."""
    stack: list[str] | None = None
    """The stack that called the operation, if anomalies are looked for."""
    source: Source | None = None
    """The user's line of the operation."""
    is_users = False
    """Whether it runs the user's code, which may expect to run in order, on the thread that called backward."""
    is_inner = False
    """Whether it is run and released by a CopySlices."""
    must_be_alone = False
    """Whether nothing else may run beside it."""
    entrance: Callable[[Node], Edge | None] | None = None
    """Finds the edge at which the whole gradient arrives, for the node of a view that a recording has returned."""

    def __init__(self, name: str, edges: Sequence[Edge | None], outputs: int = 1) -> None:
        if name:
            self.name = name
        self.edges: Sequence[Edge | None] = edges
        """The edge of each input's gradient; None where none is wanted."""
        self.outputs = outputs
        self.serial = next(SERIALS.get())
        """The order of making: derivatives of later operations run first."""
        if context.ANOMALY.get() is not None:
            self.stack = context.user_stack()

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges as pairs, with (None, 0) for those that are None, as in PyTorch."""
        return tuple((None, 0) if edge is None else (edge.node, edge.index) for edge in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever users want to note about this node."""
        if (trace := context.asking_trace()) is not None:
            trace.note_impure("notes something about a node of the autograd graph")
        made: dict[Any, Any] = self.__dict__.setdefault("_metadata", {})
        return made

    @property
    def belongs_to_caller(self) -> bool:
        """Whether only the thread that called backward may run this node."""
        return self.is_users or bool(self.tensor_hooks or self.pre_hooks or self.hooks)

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """The gradients of the inputs, given those of the outputs; to be defined by subclasses.

        Args:
            gradients: The gradients of the outputs; None for those that have none.
            needs: For each input, whether its gradient is wanted; the others may be None.

        Raises:
            AutogradError: The gradients cannot be computed, for instance since what was saved has been freed.
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError(self.name)

    def __call__(self, *gradients: Tensor | None) -> Any:
        """The gradients of the inputs, one alone or a tuple, given those of the outputs.

        Raises:
            KindError: There are not as many as outputs.
        """
        if len(gradients) != self.outputs:
            raise KindError(f"{self.name} takes a gradient for each of {self.outputs} outputs, not {len(gradients)}")
        found = tuple(self.apply(list(gradients), [edge is not None for edge in self.edges]))
        return found[0] if len(found) == 1 else found

    def release(self) -> None:
        """Forget what was saved; a second backward is then an error."""

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Call `hook(gradients of inputs, gradients of outputs)` after this node; its result replaces the former."""
        if (trace := context.asking_trace()) is not None:
            trace.note_impure("hooks something to a node of the autograd graph")
        if self.hooks is None:
            self.hooks = HookTable()
        return self.hooks.register(hook)

    def register_prehook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call `hook(gradients of outputs)` before this node; what it returns replaces them."""
        if (trace := context.asking_trace()) is not None:
            trace.note_impure("hooks something to a node of the autograd graph")
        if self.pre_hooks is None:
            self.pre_hooks = HookTable()
        return self.pre_hooks.register(hook)

    def retain(self, tensor: Tensor) -> None:
        """Keep the gradient of `tensor`, one of the outputs, in its `.grad`."""
        if self.retained is None:
            self.retained = {}
        self.retained[tensor._output_nr] = weakref.ref(tensor)

    def whole(self, index: int) -> Edge:
        """The edge at which the whole gradient of output `index` arrives.

        It leads to another node where this one stands for several steps, some of which use that output.
        """
        found = None if self.entrance is None else self.entrance(self)
        return found or Edge(self, index)

    def __repr__(self) -> str:
        return f"<{self.name}>"


class AccumulateGrad(Node):
    """The node where gradients end: it adds them to `.grad` of a leaf."""

    name = "AccumulateGrad"

    def __init__(self, variable: Tensor) -> None:
        super().__init__("", ())
        self.variable = variable

    @property
    def tensor_hooks(self) -> HookTable | None:  # type: ignore[override]
        """The hooks on the leaf, which keeps them: this node lives only as long as something refers to it."""
        return self.variable.__dict__.get("gradient_hooks")

    @property
    def belongs_to_caller(self) -> bool:
        """Whether only the thread that called backward may run this node; hooks that see the sum count, too."""
        return super().belongs_to_caller or "post_accumulate_hooks" in self.variable.__dict__

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        gradient, leaf = gradients[0], self.variable
        if gradient is None:
            return ()
        with lock_of(leaf):
            accumulate(leaf, gradient, context.GRAD_ENABLED.get())
        hooks = leaf.__dict__.get("post_accumulate_hooks")
        for hook in list(hooks.values()) if hooks else ():
            hook(leaf)
        return ()


def accumulate(tensor: Tensor, gradient: Tensor, differentiable: bool) -> None:
    """Add `gradient` to `.grad`: in place, unless the sum may be differentiated.

    Args:
        tensor: The tensor whose `.grad` is added to.
        gradient: The gradient.
        differentiable: Whether the computation of gradients is recorded.
    """
    trace = context.TRACE.get()
    if trace is not None:
        trace.accumulate(tensor, gradient, differentiable)
        return
    have = tensor._grad
    if have is None:
        tensor._grad = apart(gradient) if differentiable else _own(gradient)
    elif differentiable or have.requires_grad or not is_plain(have):
        tensor._grad = have + gradient
    else:
        note_write(have)
        np.add(have._array, gradient._array, out=have._array, casting="unsafe")
        task = context.BACKWARD.get()
        have._storage.written(None if task is None else task.place)


def apart(gradient: Tensor) -> Tensor:
    """A differentiable gradient that is no view, so that `detach_()` and writes concern it alone."""
    return gradient if gradient._viewed is None else F.clone(gradient)


def _own(gradient: Tensor) -> Tensor:
    """A gradient that shares memory with nothing: several leaves may have received the same one."""
    return tensor_of(gradient._array.copy())


def is_plain(tensor: Tensor) -> bool:
    """Whether each element has a place of its own that may be written to."""
    flags = tensor._array.flags
    return is_writable(tensor._array) and (flags.c_contiguous or flags.f_contiguous)


_locks = [threading.Lock() for _ in range(16)]
"""Held while a gradient is added up; shared among leaves, as there are many of those."""


def lock_of(leaf: Tensor) -> threading.Lock:
    """The lock to hold while `.grad` of `leaf` changes: several threads may differentiate by the same leaf."""
    return _locks[id(leaf) // 64 % len(_locks)]


def _renew_locks() -> None:
    """Make new locks in a forked child: nobody is left to release one that another thread held."""
    _locks[:] = [threading.Lock() for _ in _locks]


os.register_at_fork(after_in_child=_renew_locks)


class OpNode(Node):
    """The derivative of one call of an operator.

    Args:
        op: The operator.
        edges: For each tensor among the arguments, where its gradient goes; None where none is wanted.
        groups: For each tensor argument: None for a tensor, the length for a list of tensors; None without lists.
        outputs: The number of results.
    """

    saved: dict[str, Any] | None = None
    """The values that the formulas name: SavedTensors, Metas and plain values."""
    needs: Sequence[bool] = ()
    """A flag for each edge: whether it is there."""
    metas: Sequence[Meta | None] = ()
    """One for each edge, for reducing the gradient of a broadcast argument."""
    conjugated = False
    """Whether gradients are conjugated before and after the formulas: see Note [Gradients of complex numbers]."""
    place: context.Place = None
    """The place of `source`."""

    def __init__(self, op: Op, edges: Sequence[Edge | None], groups: Sequence[int | None] | None, outputs: int) -> None:
        self.op = op
        self.edges = edges  # what `Node` does, without the call: most nodes are made here
        self.outputs = outputs
        self.serial = next(SERIALS.get())
        if context.ANOMALY.get() is not None:
            self.stack = context.user_stack()
        self.groups = groups
        """Per tensor argument: None for a tensor, the length for a list of tensors; None if there are no lists."""

    @property
    def source(self) -> Source | None:  # type: ignore[override]
        """The user's line of the operation."""
        return context.source_of(self.place)

    @property
    def name(self) -> str:  # type: ignore[override]
        """A name in PyTorch's manner, such as MulBackward0; made on demand."""
        from jit.ops.node_names import node_name

        return node_name(self.op.schema, self.saved or {}, [meta.ndim if meta else 0 for meta in self.metas])

    def __getattr__(self, name: str) -> Any:
        """The saved value of a name such as `_saved_self` or `_saved_result`: an argument, or the result.

        Raises:
            AttributeError: The formulas do not need this.
            AutogradError: What was saved has been freed, or changed in place.
        """
        if not name.startswith("_saved_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)
        if self.saved is None:
            raise _freed(self)
        known = self._named_for_users()
        if name not in known:
            there = ", ".join(known) or "nothing"
            raise AttributeError(f"{self.name} has saved {there}, not {name!r}", name=name, obj=None)
        value = known[name]
        if isinstance(value, tuple):
            return tuple(v.unpack(self) if isinstance(v, SavedTensor) else v for v in value)
        return value.unpack(self) if isinstance(value, SavedTensor) else value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._named_for_users()]

    def _named_for_users(self) -> dict[str, Any]:
        """Tensors and plain values by PyTorch's names."""
        found: dict[str, Any] = {}
        for name, value in (self.saved or {}).items():
            if name == "out" and isinstance(value, tuple):
                found |= {f"_saved_result{i}": each for i, each in enumerate(value)}
            elif not isinstance(value[0] if type(value) is tuple and value else value, Meta):
                found["_saved_result" if name == "out" else f"_saved_{name}"] = value
        return found

    def release(self) -> None:
        if _saves_elements(self.op):
            self.saved = None

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """The gradients of the tensors among the arguments, by the operator's formulas.

        Raises:
            AutogradError: What was saved has been freed, or changed in place.
        """
        saved = self.saved
        if saved is None:
            raise _freed(self)
        differentiable = self.op.differentiable
        if self.op.schema.returns[0].type.is_list:
            g: Any = tuple(gradients)
        else:
            g = tuple(gradients[i] for i in differentiable) if len(differentiable) > 1 else gradients[differentiable[0]]
        if g is None:
            return [None] * len(self.edges)
        if not FINDERS or _are_on_host(saved, g):
            return self._on_arrays(saved, g, needs) or self._by_formulas(saved, g, needs)
        with beside([g] if isinstance(g, Tensor) else g):
            return self._by_formulas(saved, g, needs)

    def _on_arrays(self, saved: dict[str, Any], g: Any, needs: Sequence[bool]) -> list[Any] | None:
        """The gradients without a tensor in between; None where somebody looks at operators, or that does not do."""
        op = self.op
        if op.numpy_gradients is None and hot.FORMULAS[op] is None:
            return None
        if context.GRAD_ENABLED.get() or context.TRACE.get() or context.PROFILE.get() or self.conjugated:
            return None
        if not all(map(_is_plain, saved.values())):
            return None
        several = type(g) is tuple
        given = tuple([None if each is None else each._array for each in g]) if several else g._array
        known = {name: _array_of(value, self) for name, value in saved.items()}
        found = None if hot.FORMULAS[op] is None else hot.gradients(op, tuple(needs), given, known)
        if found is None and op.numpy_gradients is not None:
            arrays = [known[name] for name, value in saved.items() if type(value) is SavedTensor]
            known |= {"g": given, "needs": needs}
            values = [known[name] for name in op.numpy_gradients.names[1:]]
            found = execute_gradients(op, values, [*(given if several else (given,)), *arrays])
        if found is None:
            return None
        storage = g._storage if op.kind == "view" and not several else None
        return [None if array is None else tensor_of(array, storage) for array in found]

    def _by_formulas(self, saved: dict[str, Any], g: Any, needs: Sequence[bool]) -> list[Any]:
        if not self.conjugated:
            results = self._formulas(saved, {"F": F, "g": g}, needs)
        else:
            results = [_conjugate(F, r) for r in self._formulas(saved, {"F": F, "g": _conjugate(F, g)}, needs)]
        return [self._fit(r, m) if n else None for r, m, n in zip(results, self.metas, needs, strict=True)]

    def _formulas(self, saved: dict[str, Any], names: dict[str, Any], needs: Sequence[bool]) -> Sequence[Any]:
        op = self.op
        grouped = needs if self.groups is None else self.grouped(needs)
        whole = op.backward or op.whole_gradients
        if whole is not None:
            names["needs"] = grouped
            return self._flat(whole.function(*self._lookup(whole.names, saved, names)))
        results = []
        for rule, need in zip(_rules(op), grouped, strict=True):
            wanted = any(need) if type(need) is tuple else need
            results.append(rule.function(*self._lookup(rule.names, saved, names)) if rule and wanted else None)
        return self._flat(results)

    def _lookup(self, wanted: Sequence[str], saved: dict[str, Any], names: dict[str, Any]) -> list[Any]:
        """The values that a formula asks for by name; what was saved is unpacked once and kept in `names`."""
        for name in wanted:
            if name not in names:
                several = name == "out" and len(self.op.schema.returns) > 1
                names[name] = (_Outputs if several else _unpack)(saved[name], self)
        return [names[name] for name in wanted]

    def _flat(self, results: Sequence[Any]) -> Sequence[Any]:
        return results if self.groups is None else list(_flatten(results, self.groups))

    def grouped(self, needs: Sequence[bool]) -> tuple[Any, ...]:
        """One mark for each argument that is a tensor, a tuple of them for a list."""
        if self.groups is None:
            return tuple(needs)
        flat = iter(needs)
        return tuple(next(flat) if n is None else tuple(itertools.islice(flat, n)) for n in self.groups)

    def _fit(self, gradient: Any, meta: Meta | None) -> Any:
        if gradient is None or meta is None:
            return gradient
        if self.op.kind == "pointwise" and self._is_broadcast(gradient, meta):
            gradient = F.sum_to_size(gradient, meta.shape)
        if gradient._array is not None and gradient._array.dtype is meta.held:
            return gradient
        return gradient if gradient.dtype is meta.dtype else F._to_copy(gradient, dtype=meta.dtype)

    def _is_broadcast(self, gradient: Any, meta: Meta) -> bool:
        """Whether an argument has other sizes than the result."""
        trace, shape = context.TRACE.get(), meta.shape
        if trace is None:
            return bool(gradient._array.shape != shape)
        if sum(each is not None and each.ndim > 0 for each in self.metas) > 1:
            trace.decide_same(gradient, shape)
        return bool(gradient._array.shape != tuple(map(concrete, shape)))


@functools.cache
def _rules(op: Op) -> tuple[Derivative | None, ...]:
    """The formula for each argument that is a tensor."""
    return tuple(op.derivatives.get(op.schema.arguments[position].name) for position in op.tensors)


@functools.cache
def _saves_elements(op: Op) -> bool:
    """Whether the derivative looks at elements of arguments or results; a derivative of sizes alone can run again."""
    if not op.is_differentiable:
        return True  # see Note [Derivatives on arrays]
    rules = [op.backward] if op.backward is not None else list(op.derivatives.values())
    held = {"out", *(op.schema.arguments[position].name for position in op.tensors)}
    return any(name in held for rule in rules for name in rule.names)


def _conjugate(F: Any, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_conjugate(F, item) for item in value)
    return F.conj(value) if value is not None and value.defined else value


def _unpack(saved: Any, node: Node) -> Any:
    if type(saved) is SavedTensor:
        if (changed := saved.changed(node)) is not None:
            return changed
        return saved.unpack(node) if context.GRAD_ENABLED.get() else saved.without_history(node)
    if type(saved) is tuple and any(isinstance(item, SavedTensor) for item in saved):
        return tuple(_unpack(item, node) for item in saved)
    return saved


def _are_on_host(saved: dict[str, Any], g: Any) -> bool:
    """Whether no array of another device is among gradients and what is saved, in a process that has such a device."""
    values = [item for value in saved.values() for item in (value if type(value) is tuple else (value,))]
    known = [value for value in values if type(value) is SavedTensor]
    arrays = [each._array for each in (*(g if type(g) is tuple else (g,)), *known) if each is not None]
    return all(type(array) not in FINDERS for array in arrays) and all(each._packed is None for each in known)


def _is_plain(saved: Any) -> bool:
    """Whether a saved value is at hand; of several outputs, most are not read, so that they may have changed."""
    if type(saved) is tuple:
        return all(type(item) is not SavedTensor or item._packed is None for item in saved)
    return type(saved) is not SavedTensor or saved.is_plain


def _array_of(saved: Any, node: Node) -> Any:
    """A saved value, tensors as arrays; of several outputs, None for those that were changed: most are not read."""
    if type(saved) is SavedTensor:
        return saved._original(node)
    if type(saved) is tuple:
        return tuple([_unchanged(item, node) if type(item) is SavedTensor else item for item in saved])
    return saved


def _unchanged(saved: SavedTensor, node: Node) -> Any:
    return saved._original(node) if saved.storage.version == saved.version else None


def unpacked(saved: Any, node: Node) -> Any:
    """A saved argument as a tensor that no other argument is, with a history that leads to what it was."""
    return F.view_as(fresh := saved.unpack(node), fresh) if type(saved) is SavedTensor else saved


class _Outputs(Sequence[Any]):
    """The saved outputs of a node; only those that a formula looks at must be unchanged."""

    def __init__(self, saved: tuple[Any, ...], node: Node) -> None:
        self._saved, self._node = saved, node

    def __len__(self) -> int:
        return len(self._saved)

    def __getitem__(self, index: Any) -> Any:
        return _unpack(self._saved[index], self._node)


def _flatten(results: Sequence[Any], groups: Sequence[int | None]) -> Any:
    for result, size in zip(results, groups, strict=True):
        if size is None:
            yield result
        elif result is None:
            yield from [None] * size
        else:
            yield from result


def conform(node: Node, index: int, gradient: Any, meta: Meta) -> Any:
    """A gradient that a user's function has returned, brought to the sizes and dtype of the input that it is for.

    Args:
        node: The node that ran the function.
        index: The number of the input.
        gradient: What the function returned for it.
        meta: The sizes and dtype of the input.

    Raises:
        AutogradError: It is no tensor, or its sizes do not expand from the input's.
    """
    if not isinstance(gradient, Tensor) or not gradient.defined:
        raise AutogradError(
            f"{node.name} (called at {node.source}) returned {type(gradient).__name__} as gradient {index}; "
            "return a tensor, or None where there is no gradient"
        )
    shape, wanted = gradient._array.shape, tuple(map(concrete, meta.shape))
    if shape != wanted:
        if not _expands_to(wanted, shape):
            raise AutogradError(
                f"{node.name} (called at {node.source}) returned a gradient of sizes {list(shape)} for input {index}, "
                f"which has sizes {list(meta.shape)}; return a gradient of the input's sizes"
            )
        gradient = F.sum_to_size(gradient, meta.shape)
    if gradient.dtype is meta.dtype:
        return gradient
    return F._to_copy(F.real(gradient) if gradient.dtype.is_complex else gradient, dtype=meta.dtype)


def _expands_to(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False


class CopySlices(Node):
    """The history of a base after an in-place operation on a view of it; see Note [Histories of views].

    Args:
        base: The base, with the history that it had before.
        path: The view ops that lead from the base to the view.
        inner: The node of the in-place operation.
        self_index: The number of its edge that leads to the view.
    """

    def __init__(self, base: Tensor, path: tuple[ViewStep, ...], inner: Node, self_index: int) -> None:
        super().__init__("CopySlices", (edge_of(base), *(e for i, e in enumerate(inner.edges) if i != self_index)))
        self.path = path
        self.inner: Node | None = inner
        inner.is_inner = True
        self.self_index = self_index
        self.source = inner.source
        self.is_users = inner.is_users

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """The gradients of the base as it was, and of what else the operation took.

        Raises:
            AutogradError: What the operation has saved has been freed, or changed in place.
        """
        gradient, inner = gradients[0], self.inner
        if gradient is None:
            return [None] * len(self.edges)
        if inner is None:
            raise _freed(self)
        inner_needs = list(needs[1:])
        inner_needs.insert(self.self_index, needs[0] and inner.edges[self.self_index] is not None)
        results = list(inner.apply([replay(self.path, gradient)], inner_needs))
        part = results.pop(self.self_index)
        whole = None
        if needs[0]:
            part = F.zeros_like(replay(self.path, gradient)) if part is None else part
            whole = scatter(F, self.path, gradient, part)
        return [whole, *results]

    def release(self) -> None:
        self.inner = None  # what it has saved may still be needed: second derivatives lead through it alone


def replay(path: Sequence[ViewStep], base: Any) -> Any:
    """Follow `path` from `base` to the view."""
    for step in path:
        result = call(step.op, (base, *step.arguments))
        base = result[step.index] if isinstance(result, (tuple, list)) else result
    return base


def scatter(F: Any, path: Sequence[ViewStep], base: Any, source: Any) -> Any:
    """A copy of `base` in which the part that `path` leads to is replaced by `source`.

    Args:
        F: The operators to compute with.
        path: View ops.
        base: The whole.
        source: A tensor of the part's sizes.
    """
    along = [base]
    for at, step in enumerate(path[:-1]):
        if shares_places(step, along[-1]):
            source = scatter_steps(F, path[at:], along[-1], source)
            path = path[:at]
            break
        along.append(replay([step], along[-1]))
    for step, outer in zip(reversed(path), reversed(along[: len(path)]), strict=True):
        source = scatter_steps(F, [step], outer, source)
    return source


def shares_places(step: ViewStep, base: Any) -> bool:
    """Whether several elements that `step` shows of `base` lie at one place: it and all after it are written as one."""
    if step.op.scatter is not None and not step.is_strided:
        return False
    return shown_by(step, Geometry.contiguous(tuple(base.shape))).overlaps


def scatter_steps(F: Any, path: Sequence[ViewStep], base: Any, source: Any) -> Any:
    """`scatter` for a single step, or for several of which the first shows elements more than once.

    Args:
        F: The operators to compute with.
        path: One view op, or several.
        base: The whole.
        source: A tensor of the part's sizes.
    """
    step, *further = path
    if not further and step.op.scatter is not None:
        which = (step.index,) if step.op.schema.returns[0].type.is_list else ()
        return step.op.scatter(F, base, source, *which, *step.arguments)
    geometry = shown_by(step, Geometry.contiguous(tuple(base.shape)))
    for other in further:
        geometry = shown_by(other, geometry)
    if step.is_strided:
        return F.as_strided_put(base, source, *step.arguments[:2], *geometry)
    return F.as_strided_scatter(base, source, *geometry)


def shown_by(step: ViewStep, base: Geometry) -> Geometry:
    """The geometry of what a step shows of memory laid out as `base`; `as_strided_of` has it among its arguments."""
    if step.is_strided:
        return Geometry(*step.arguments[2:])
    geometry = step.op.body(base, *step.arguments)
    return Geometry(*(geometry[step.index] if isinstance(geometry, list) else geometry))


def edge_of(tensor: Any) -> Edge | None:
    """The edge along which the gradient of `tensor` goes; None if it wants none."""
    if not isinstance(tensor, Variable) and not requires_grad(tensor):
        return None
    node = tensor._grad_fn if tensor._viewed is None else tensor.grad_fn
    if node is not None:
        return _tuple(Edge, (node, tensor._output_nr))
    return _tuple(Edge, (accumulator(tensor), 0)) if tensor._requires_grad else None


def node_of(tensor: Tensor) -> Node | None:
    """The node that computes the gradient of `tensor`; None for leaves."""
    node: Any = tensor.grad_fn
    return node


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """The one AccumulateGrad of a leaf. It keeps the leaf alive; the leaf holds it weakly."""
    node = leaf._accumulator() if leaf._accumulator is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        leaf._accumulator = weakref.ref(node)
    return node
