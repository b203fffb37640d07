"""Metadata: what Python reads of a tensor besides its elements, and changes of it: see Note [Metadata].

Note [Metadata]
    Sizes, dtypes, layouts and whether gradients are wanted are part of the key. The rest - where a tensor starts in its
    storage, whether it is a view, its name - almost no function reads, so it is looked at where it is read: the
    answer is a *fact* about an input, and the recording holds as long as it is so. A function that reads what differs
    in every call, such as an address or a version, gets a recording that serves one call. Strides and offsets follow
    from sizes: strides of a tensor whose rows have no gaps are traced products of sizes; other strides and offsets are
    plain numbers, and the sizes behind them are guarded.

    A tensor from outside may become a view of itself (`t_()`, `unsqueeze_()`): the path to that view is noted, and
    every call replays it when its writes are committed. Nothing of it is in the graph, in which the object simply is
    bound to another Value.

    Attributes that the function sets on tensors that it returns are results under another name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jit.eager import context
from jit.eager.becoming import become, past_of
from jit.eager.namespace import F
from jit.eager.pytree import Structure, flatten
from jit.eager.tensors import Tensor
from jit.eager.view_paths import ViewPath, ViewStep
from jit.ir import Value
from jit.ir.errors import TraceError
from jit.ops.views import alias, detach, squeeze, squeeze_dim, squeeze_dims, unsqueeze, view_
from jit.runtime.arrays.arrays import offset_of, room_of

from ..surroundings.surroundings import attributes_of
from . import measuring
from .memory import Binding
from .recording_trace import RecordingTrace
from .refusals import at_line
from .views import shown

Tag = tuple[int, str, Structure, int]
"""An attribute of a result: the output's number, name, structure, and where its tensors begin among the outputs."""
Move = tuple[int, ViewPath, bool]
"""An input that becomes a view of itself: its number, the path to the view, and whether that has a history."""


def _is_compact(tensor: Tensor) -> bool:
    """Whether the strides are those of rows without gaps, along dims of size 1 as well."""
    return _strides_of(tensor) == _row_major(tensor._array.shape)


def _strides_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(s // tensor._array.itemsize for s in tensor._array.strides)


def _row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(n, 1) for n in sizes[dim + 1 :]) for dim in range(len(sizes)))


FACTS: dict[str, Callable[[Any], Any]] = {
    "storage_offset": lambda tensor: tensor.storage_offset(),
    "is_view": lambda tensor: tensor._viewed is not None,
    "output_nr": lambda tensor: tensor._output_nr,
    "retains_grad": lambda tensor: tensor._retains_grad,
    "name": lambda tensor: tensor._name,
    "compact": _is_compact,
    "strides": _strides_of,
}
"""The facts that may be asked of the tensors behind inputs."""


# -- reading -----------------------------------------------------------------------------------------------------


def fact(trace: RecordingTrace, tensor: Tensor, name: str) -> Any:
    """The fact `name` of this very object; of one from outside it is a fact of the recording from now on."""
    _, owner = _source(trace, tensor, itself=True)
    answer = FACTS[name](tensor if owner is None else owner)
    if owner is not None:
        _note_fact(trace, tensor, name, answer)
    return answer


def base(trace: RecordingTrace, tensor: Tensor) -> Tensor | None:
    """The tensor that `tensor` is a view of; if it is an argument, the recording serves this call alone."""
    _, owner = _source(trace, tensor)
    if tensor._viewed is None and not trace.is_from_outside(tensor):
        return None
    if owner is not None and _note_fact(trace, tensor, "is_view", owner._viewed is not None):
        trace.note_impure("reads what a tensor from outside is a view of")
        return owner._viewed
    return tensor._viewed


def strides(trace: RecordingTrace, tensor: Tensor, plain: tuple[int, ...], dim: int | None) -> Any:
    """The strides of a tensor: traced products of sizes where its rows have no gaps."""
    binding, owner = _source(trace, tensor)
    is_narrow = owner is not None and min(owner._array.shape, default=2) < 2  # the key says nothing of such dims
    if owner is not None and is_narrow and not _note_fact(trace, tensor, "compact", _is_compact(owner)):
        _note_fact(trace, tensor, "strides", _strides_of(owner))
    if binding is None:
        return plain if dim is None else plain[dim]
    if binding.path or plain != _row_major(tensor._array.shape):
        _settle_sizes(trace, tensor, binding)
        return plain if dim is None else plain[dim]
    sizes = measuring.sizes_of(trace, tensor)
    chosen = range(len(plain)) if dim is None else [range(len(plain))[dim]]
    found = [_product(sizes[at + 1 :]) for at in chosen]
    return tuple(found) if dim is None else found[0]


def _product(sizes: Sequence[Any]) -> Any:
    product: Any = 1
    for size in sizes:
        product = size if type(product) is int and product == 1 else product * size
    return product


def note_offset(trace: RecordingTrace, tensor: Tensor) -> None:
    """Note that the function has read where a tensor starts in its storage."""
    binding, owner = _source(trace, tensor)
    if owner is not None:
        _note_fact(trace, tensor, "storage_offset", FACTS["storage_offset"](owner))
    if binding is not None and not all(step.op.shows_all for step in binding.path):
        _settle_sizes(trace, tensor, binding)


def note_layout(trace: RecordingTrace, tensor: Tensor) -> None:
    """Note that the function has asked whether a tensor is contiguous; for a view of a part, sizes are guarded."""
    binding, _ = _source(trace, tensor)
    if binding is not None and not all(step.op.shows_all for step in binding.path):
        _settle_sizes(trace, tensor, binding)
    else:
        note_own_layout(trace, tensor)


def note_own_layout(trace: RecordingTrace, tensor: Tensor) -> None:
    """Note that this package has asked whether a tensor is contiguous: dims of size 0 and 1 do not matter then."""
    binding = trace.memory.binding(tensor) if trace.tape.elemental else None
    if binding is not None and not all(step.op in _IN_ORDER for step in binding.path):
        measuring.decide_equal(trace, tensor, (0, 1))


_IN_ORDER = (alias, detach, squeeze, squeeze_dim, squeeze_dims, unsqueeze, view_)
"""Views of all elements, row by row."""


def _settle_sizes(trace: RecordingTrace, tensor: Tensor, binding: Binding) -> None:
    """Guard all sizes that made this view."""
    trace.scalars.settle(binding.path)
    root = binding.cell.root
    shapes = [(binding.value, tensor._array.shape), (root, binding.cell.geometry[1])]
    for value, shape in shapes:
        for dim, size in enumerate(shape):
            measuring.traced_size(trace, value, dim, size)._decide()


def _source(trace: RecordingTrace, tensor: Tensor, itself: bool = False) -> tuple[Binding | None, Tensor | None]:
    """The binding of a tensor, and the tensor from outside that it is, or is a view of.

    With `itself` a view counts as made inside.
    """
    if tensor._array is None:
        return None, None
    binding = trace.memory.known(tensor)
    if binding is None and len(trace.graph.stages) > 1:  # nothing can become an input any more
        trace.note_impure("reads in its backward how a tensor from outside lies in memory")
        return None, tensor
    binding = binding or trace.captures.known(tensor)
    if binding.cell.source is None or (itself and binding.path and tensor not in trace.identities.outer):
        return binding, None
    if tensor in trace.identities.outer:
        return binding, trace.identities.outer[tensor]
    first = binding.cell.tensor
    return binding, trace.identities.outer.get(trace.identities.pasts.get(first, first), first)


def _note_fact(trace: RecordingTrace, tensor: Tensor, name: str, answer: Any) -> Any:
    """Let the recording hold only as long as `name` of the input behind a tensor is `answer`."""
    binding = trace.memory.binding(tensor)
    source = None if binding is None else binding.cell.source
    first = None if binding is None else trace.identities.pasts.get(binding.cell.tensor, binding.cell.tensor)
    if source is None or len(trace.graph.stages) > 1 or (tensor in trace.identities.outer and tensor is not first):
        trace.note_impure(f"reads {name} of a tensor that stands for another one, too")
    else:
        trace.captures.facts[source, name] = answer
    return answer


# -- becoming another view ---------------------------------------------------------------------------------------


def note_reshaped(trace: RecordingTrace, tensor: Tensor, before: Tensor) -> None:
    """Note that `tensor` becomes a view of `before`, which stands for what it was."""
    binding = trace.memory.binding(tensor)
    assert binding is not None
    cell = binding.cell
    if cell.source is None or tensor in trace.identities.reshaped:
        return
    if tensor is cell.tensor:
        trace.identities.reshape(tensor, before)
        cell.tensor = before
    elif tensor in trace.identities.outer:
        raise TraceError(
            f"{at_line()}the sizes of an argument change in place, and another argument is the same tensor as another "
            "object; pass one object, or use the method without the underscore"
        )


def resize(trace: RecordingTrace, tensor: Tensor, sizes: Sequence[Any]) -> None:
    """Run `resize_`: other sizes over the same memory, or, where it does not suffice, over a longer copy."""
    trace.meet(tensor)
    binding = trace.memory.binding(tensor)
    assert binding is not None
    is_whole = tensor._viewed is None and tensor._array.flags.c_contiguous
    if is_whole and _product(sizes) <= _product(measuring.sizes_of(trace, tensor)):
        before = past_of(tensor)
        after = F.view(F.slice(F.view(before, [-1]), 0, 0, _product(sizes)), sizes)
        note_reshaped(trace, tensor, before)
        become(tensor, after)
        return
    _settle_sizes(trace, tensor, binding)
    wanted, start = tuple(map(int, sizes)), offset_of(tensor._array)
    count, room = math.prod(wanted), room_of(tensor._array)[1] // tensor._array.itemsize - start
    if start == 0 and room < count and room == tensor._array.size and not trace.is_from_outside(tensor):
        after = F.view(F.cat([F.reshape(tensor, [-1]), F.zeros([count - room], dtype=tensor.dtype)]), wanted)
        become(tensor, after)
        tensor._storage = after._storage
    else:
        raise TraceError(
            f"{at_line()}resize_() shows memory here that this tensor does not; a recording cannot repeat that; make a "
            "tensor of these sizes, or do it outside"
        )


def moves(trace: RecordingTrace, places: Mapping[Value, int]) -> list[Move]:
    """The inputs that become views of themselves, each with its new geometry."""
    found = []
    for tensor in trace.identities.reshaped:
        binding = trace.memory.binding(tensor)
        assert binding is not None and binding.cell.source is not None
        found.append((places[binding.cell.source], binding.path, tensor.requires_grad))
    return found


def move(tensor: Tensor, path: Sequence[ViewStep], requires_grad: bool) -> None:
    """Let `tensor` become the view of itself to which `path` leads."""
    with context.set_grad_enabled(requires_grad and tensor.grad_fn is not None):
        become(tensor, shown(path, past_of(tensor)))


# -- attributes of results ---------------------------------------------------------------------------------------


def tags_of(trace: RecordingTrace, results: Sequence[Any]) -> tuple[list[tuple[int, str, Any]], list[Any]]:
    """Attributes of the tensors among `results` as (number, name, value), and further results: the tensors in these."""
    found, leaves, seen = [], list(results), set()
    for number, tensor in enumerate(leaves):  # grows
        if isinstance(tensor, Tensor) and id(tensor) not in seen and _is_new(trace, tensor):
            seen.add(id(tensor))
            for name, value in _attributes(tensor):
                found.append((number, name, value))
                leaves.extend(flatten(value)[0])
    return found, leaves[len(results) :]


def _is_new(trace: RecordingTrace, tensor: Tensor) -> bool:
    """Whether the function has made an object, if only as a view."""
    binding = trace.memory.binding(tensor)
    is_outer = tensor in trace.identities.outer or tensor in trace.identities.reshaped
    return binding is not None and not is_outer and tensor is not binding.cell.tensor


_NAME, _GRAD, _RETAIN = "name", "grad", "retain_grad()"


def _attributes(tensor: Tensor) -> Iterator[tuple[str, Any]]:
    yield from attributes_of(tensor).items()
    if tensor._name is not None:
        yield _NAME, tensor._name
    if tensor._grad is not None:
        yield _GRAD, tensor._grad
    if tensor._retains_grad:
        yield _RETAIN, True


def set_tag(tensor: Tensor, name: str, value: Any) -> None:
    """Give a result an attribute that the function has given it."""
    if name == _RETAIN:
        if tensor.requires_grad:
            tensor.retain_grad()
    elif name == _NAME:
        tensor._name = value
    elif name == _GRAD:
        tensor._grad = value
    else:
        vars(tensor)[name] = value
