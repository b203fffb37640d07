"""The short way through a traced call: one native function that checks, runs and wraps, with no Python in between.

A recording that was found the long way gets a shortcut if a call of it needs little Python: one native stretch, and
fresh outputs or views of arrays. The shortcut holds all that the long way has compared - the arguments, the
surroundings, grad mode - in the form of tables for `jit.runtime.plans.entry`, and inference mode, on which its results
depend. It returns None whenever anything is not as it was; the long way then decides. Where a gradient may be asked
for, or views are among the results, the native function returns arrays, and `shortcut_history` or `shortcut_effects`
makes tensors of them, and writes what is left to be written.

Note [What a shortcut looks at]
    * Arguments: by position, lists, tuples and dicts item by item; tensors by class, dtype, sizes, strides and
      writeability, and that they share no memory; everything else by identity, which is stricter than the key.
    * Captures: the same tensor objects, each with an array of the same kind. That they are still in their places is
      what the surroundings say.
    * Surroundings: what `View` has seen. Entries of dicts and classes, items of lists, closure cells and defaults are
      compared natively, what takes Python to look at (contents of arrays, attributes in slots) by one Python function,
      if there is any.
    * Tensors that require no grad now but could: their class, `_requires_grad`, `_grad_fn` and `_viewed`. An argument
      that is a view requires grad as soon as its base does, which has then another class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.eager import context
from jit.eager.effects import NOTES
from jit.eager.pytree import TENSOR, Structure, unflatten
from jit.eager.tensors import Storage, Tensor, tensor_of
from jit.ir import Node, find
from jit.ir.devices import CURRENT, DEFAULT, device
from jit.ir.dtypes import DEFAULT_HERE
from jit.runtime.plans import entry
from jit.runtime.plans.sized_calls import NativeAtSizes
from jit.runtime.processes.groups import HAS_WORLD

from ..surroundings.native_checks import native_checks
from ..surroundings.native_tensors import input_of, slots_of_tensors
from ..surroundings.peeking import is_a
from .device_shortcuts import DeviceArrays, DeviceCalls, on_device
from .orders import PlanViews, order_of
from .shortcut_effects import CallEffects, with_effects, written_by
from .shortcut_history import with_history
from .sized_shortcuts import Fitting, for_all_sizes

if TYPE_CHECKING:
    from ..recordings.chains import Plan
    from ..recordings.recording import Recording
    from ..surroundings.calls import TracedCall

Shortcut = Callable[..., Any]
NOTHING = object()
"""The answer of a shortcut for a function that returns None."""
_ARGUMENTS = 16
"""The most tensor arguments that a shortcut takes: each is compared with each."""


def shortcut(call: TracedCall, recording: Recording) -> Shortcut | None:
    """A function that does what this call did, for the same arguments; None if the call needs Python."""
    if not entry.available() or _needs_python(call, recording):
        return None
    items = [item for argument in call.args for item in _items(argument)]
    owners = recording.inputs(call.leaves, call.world.tensors, call.numbers)
    if any(type(owner._array) is not np.ndarray for owner in owners):
        return _of_device(call, recording, items, owners)
    plan = recording.plan(recording.chains[0], recording.sizes_of(owners))
    native = plan.interpreter.native_call(0, [owner._array for owner in owners], with_views=True)
    if native is None:
        return None
    views = PlanViews(native, plan)
    order = order_of(views.results, plan, recording)
    if order is None:
        return None
    written = written_by(native, plan, recording, owners)
    if written is None:
        return None
    if recording.general and not isinstance(native, NativeAtSizes):  # nothing in it could be let be for other sizes
        return None
    keeps = _keeps(recording, owners)
    if keeps and any(spec.kind in ("view", "input") for spec in recording.result.outputs):
        return None  # what one result owes to another is noted the long way
    inputs = _inputs(items, owners, plan, native, keeps)
    wrapping = _wrapping(recording.result.structure == TENSOR, context.INFERENCE.get())
    if inputs is None or wrapping is None:
        return None
    tables = native.code.tables()
    tables.inputs, tables.reads = inputs, len(native.reads)
    positions, effects = _positions(items), None
    if recording.effects and any(spec.kind == "input" for spec in recording.result.outputs):
        return None  # a view of what the call writes to
    if recording.effects or recording.conditions:
        effects = CallEffects(recording, written, owners, len(positions))
    is_whole = order.is_whole and not (keeps or effects is not None or views)
    if is_whole:
        tables.order, tables.wrapping = order.numbers, wrapping
    tables.apart, tables.bundle = len(call.leaves), len(inputs) if written else 0
    _look_around(tables, call, recording, items, keeps)
    run: Shortcut = entry.make_entry(tables)
    fitting = Fitting(run, recording, plan, native, recording.sizes_of(owners)) if recording.general else None
    if keeps:
        run = with_history(run, recording, plan, native, owners, positions, order, views, fitting, effects)
    elif not is_whole:
        captured = owners[len(positions) :]
        run = with_effects(run, effects, recording.result, positions, captured, order, views, fitting)
    if fitting is not None:
        run = for_all_sizes(run, fitting, recording, items)
    return _unpacking(_structured(_following_bases(run, items), recording.result.structure), call.args)


def _of_device(call: TracedCall, recording: Recording, items: Sequence[Any], owners: Sequence[Any]) -> Shortcut | None:
    """The same for tensors on one GPU."""
    if (
        recording.effects
        or recording.conditions
        or any(type(owner._array) is not type(owners[0]._array) for owner in owners)
    ):
        return None
    keeps, positions = _keeps(recording, owners), _positions(items)
    inputs = [_found_in(owner, index, positions, keeps) for index, owner in enumerate(owners)]
    if None in inputs:
        return None
    tables = entry.Tables(inputs, (), np.zeros(1, np.int64), 0, 0, (), _succeeds, False, reads=0)  # type: ignore[arg-type]
    _look_around(tables, call, recording, items, keeps)
    tables.contexts.append((CURRENT, CURRENT.get()))
    inference = context.INFERENCE.get()
    arrays = DeviceArrays(positions, owners[len(positions) :], owners[0]._array)
    calls = DeviceCalls(recording, owners, len(positions), keeps)
    run = on_device(entry.make_entry(tables), recording, arrays, calls, inference)
    return _unpacking(_following_bases(run, items), call.args)


def _succeeds(status: int) -> None:
    """Nothing: a program without steps does not fail."""


def _keeps(recording: Recording, owners: Sequence[Any]) -> bool:
    """Whether the results of a call have a history."""
    return bool(recording.differentiable) and any(t.requires_grad for t in owners)


def _positions(items: Sequence[Any]) -> list[int]:
    return [i for i, item in enumerate(items) if is_a(item, Tensor)]


def _look_around(
    tables: entry.Tables, call: TracedCall, recording: Recording, items: Sequence[Any], keeps: bool
) -> None:
    """Let an entry compare what is not in arrays, see Note [What a shortcut looks at]."""
    tables.arguments = len(items)
    tables.statics = [(i, a) for i, a in enumerate(items) if not is_a(a, Tensor)]
    tables.contexts = [(context.TRACE, None), (context.MODES, None), (context.GRAD_ENABLED, call.key.grad_mode)]
    tables.contexts.append((context.AUTOCAST, context.AUTOCAST.get()))
    tables.contexts.append((DEFAULT_HERE, DEFAULT_HERE.get()))
    if not keeps:
        tables.contexts.append((context.INFERENCE, context.INFERENCE.get()))
    if _makes_tensors(recording):
        tables.contexts.append((DEFAULT, device(call.key.home.split()[0])))
    if recording.trace.impurity.asks_world:
        tables.contexts.append((HAS_WORLD, HAS_WORLD.get()))
    if keeps:
        tables.contexts.append((context.SAVING, None))
    if recording.effects:
        tables.contexts.append((NOTES, None))
    if recording.trace.tape.backwards:  # where NaN may be looked for
        tables.contexts.append((context.ANOMALY, None))
    native_checks(call.world.surroundings, {id(given.object) for given in tables.inputs}).fill(tables)


def _makes_tensors(recording: Recording) -> bool:
    """Whether the function makes tensors, of nothing or of Python's data: on the default device perhaps."""
    return any(map(_makes_tensor, recording.trace.graph.nodes))


def _makes_tensor(node: Node) -> bool:
    if node.kind == "prim::Constant":
        return isinstance(node.attributes["value"], np.ndarray)
    op = find(node.kind)
    return op is not None and not op.tensors and "device" in op.schema.argument_names


def _following_bases(call: Shortcut, items: Sequence[Any]) -> Shortcut:
    """`call`, unless a plain tensor among its items is a view of one that requires grad by now."""
    views = [i for i, item in enumerate(items) if type(item) is Tensor and item._viewed is not None]
    if not views:
        return call

    def following(*items: Any) -> Any:
        for index in views:
            if index >= len(items) or type(items[index]) is not Tensor:
                return None
            if type(items[index]._viewed) not in (Tensor, type(None)):
                return None
        return call(*items)

    following.__wrapped__ = getattr(call, "__wrapped__", call)  # type: ignore[attr-defined]
    return following


def _needs_python(call: TracedCall, recording: Recording) -> bool:
    """Whether the call does something that takes Python, or that the tables cannot express."""
    items = [item for argument in call.args for item in _items(argument)]
    leaves = [item for item in items if is_a(item, Tensor)]
    owners = recording.inputs(call.leaves, call.world.tensors, call.numbers)
    return (
        bool(call.kwargs)
        or bool(getattr(call, "numbers", ()))  # Python numbers that are inputs
        or call.world.objects is not None
        or bool(call.key.sharing)
        or len(leaves) != len(call.leaves)
        or any(a is not b for a, b in zip(leaves, call.leaves))
        or len(leaves) > _ARGUMENTS
        or not all(is_a(a, Tensor) or _is_plain(a) for a in items)
        or bool(recording.conditions.facts or recording.conditions.sharing)
        or bool(recording.result.tags or recording.result.attributes)
        or bool(recording.trace.randomness.drawn())
        or any(not isinstance(t, Tensor) or t._array is None or t._array.size == 0 for t in owners)
        or any(t._array.size == 0 for t in leaves)
        or any(vars(t) for t in (*owners, *leaves))
        or any(not c.gradient_of is c.number is c.item_of is None for c in recording.trace.captures.found)
        or any(index >= len(leaves) for index, _ in recording.varying)  # a size of what is captured
    )


def _is_plain(value: Any) -> bool:
    """Whether the same object is always the same value."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


def _inputs(
    items: Sequence[Any], owners: Sequence[Any], plan: Plan, native: Any, keeps: bool
) -> list[entry.EntryInput] | None:
    """The arguments' tensors, then the captures; None if one cannot be checked. `keeps` admits those with a history."""
    program = plan.interpreter.programs[0]
    bases = {register: number for number, register in enumerate(native.reads, 1)}
    numbers = [bases.get(register, -1) for register in program.inputs]
    positions = _positions(items)
    layouts = [(layout.shape, layout.strides, layout.dtype) for layout in native.code.layouts]
    found = []
    for index, (owner, base) in enumerate(zip(owners, numbers, strict=True)):
        if base > 0 and not _lies_as(owner._array, layouts[base - 1]):
            return None
        given = _found_in(owner, index, positions, keeps)
        if given is None:
            return None
        given.base = base
        found.append(given)
    return found


def _found_in(owner: Any, index: int, positions: Sequence[int], keeps: bool) -> entry.EntryInput | None:
    """The facts of the tensor behind an input, and where a call has it."""
    is_captured = index >= len(positions)
    given = input_of(owner, keeps and not is_captured)
    if given is None or (is_captured and owner._viewed is not None):
        return None
    if is_captured:
        given.object = owner
    else:
        given.argument = positions[index]
    return given


def _lies_as(array: Any, layout: Any) -> bool:
    shape, strides, dtype = layout
    steps = zip(array.shape, array.strides, strides, strict=True)
    return array.dtype is dtype and array.shape == shape and all(n == 1 or a == b for n, a, b in steps)


# -- lists, tuples and dicts among the arguments -----------------------------------------------------------------


def _items(argument: Any) -> list[Any]:
    """The argument, or the items in it, in the order in which the key has its tensors."""
    if type(argument) in (list, tuple):
        return [item for inner in argument for item in _items(inner)]
    if type(argument) is dict and all(type(key) is str for key in argument):
        return [item for inner in argument.values() for item in _items(inner)]
    return [argument]


def _unpacking(call: Shortcut, args: Sequence[Any]) -> Shortcut:
    """`call`, with arguments like `args` taken apart: by a function written for them."""
    if not any(type(a) in (list, tuple, dict) for a in args):
        return call
    checks: list[str] = []
    items: list[str] = []
    for index, argument in enumerate(args):
        _write_items(f"args[{index}]", argument, checks, items)
    text = f"lambda *args: call({', '.join(items)}) if {' and '.join([f'len(args) == {len(args)}', *checks])} else None"
    unpacking: Shortcut = eval(text, {"call": call})
    unpacking.__wrapped__ = getattr(call, "__wrapped__", call)  # type: ignore[attr-defined]
    return unpacking


def _write_items(name: str, argument: Any, checks: list[str], items: list[str]) -> None:
    """Write Python text for the items of an argument and for its checks; no text of the user's goes in but keys."""
    kind = type(argument)
    if kind in (list, tuple):
        checks.append(f"type({name}) is {kind.__name__} and len({name}) == {len(argument)}")
        for index, inner in enumerate(argument):
            _write_items(f"{name}[{index}]", inner, checks, items)
    elif kind is dict and all(type(key) is str for key in argument):
        checks.append(f"type({name}) is dict and [*{name}] == {[*argument]!r}")
        for key, inner in argument.items():
            _write_items(f"{name}[{key!r}]", inner, checks, items)
    else:
        items.append(name)


# -- results -----------------------------------------------------------------------------------------------------


@cache
def _wrapping(single: bool, inference: bool) -> entry.Wrapping | None:
    """The wrapping of arrays in tensors, with slots as `tensor_of` sets them; None if these are not all constants."""
    tensor = tensor_of(np.zeros(()))
    tensor._storage.inference = inference
    held = {name: getattr(tensor, name) for name in slots_of_tensors() if name not in ("_array", "_storage")}
    kept = {name: getattr(tensor._storage, name) for name in Storage.__slots__ if not name.startswith("__")}
    if vars(tensor) or not all(map(_is_plain, (*held.values(), *kept.values()))):
        return None
    return entry.Wrapping(
        Tensor,
        [(slots_of_tensors()[name], value) for name, value in held.items()],
        slots_of_tensors()["_array"],
        slots_of_tensors()["_storage"],
        Storage,
        [(entry.slot_offset(Storage, name), value) for name, value in kept.items()],
        single,
    )


def _structured(call: Shortcut, structure: Structure) -> Shortcut:
    """`call`, with its tensors put into the function's structure."""
    if structure == TENSOR or (structure.kind is tuple and all(child == TENSOR for child in structure.children)):
        return call

    def structured(*args: Any) -> Any:
        found = call(*args)
        if found is None:
            return None
        result = unflatten(structure, found)
        return NOTHING if result is None else result

    structured.__wrapped__ = getattr(call, "__wrapped__", call)  # type: ignore[attr-defined]
    return structured


def hits(short: Shortcut) -> int:
    """The number of calls that have taken a shortcut."""
    return entry.hits_of(getattr(short, "__wrapped__", short))
