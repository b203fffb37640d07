"""Calls an operator: checks its arguments, runs it, keeps views and versions true, records derivatives and traces.

call(op, values)            out of place; values are in the order of the schema
call_inplace(op, values)    the same, written into the first argument
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np

from jit.ir import Op, dtypes
from jit.ir.devices import CPU, get_default_device, made_on
from jit.ir.errors import AutogradError, DTypeError, Error, KindError, SchemaError, ShapeError
from jit.ir.geometry import Geometry
from jit.ir.refusals import FOREIGN, refusal
from jit.runtime.arrays.execute import execute, execute_whole
from jit.runtime.arrays.libraries import FINDERS, is_writable, library_of

from . import context, derivatives, hot
from .arguments import coerce
from .autocasting import call_in_region, outside
from .becoming import restride
from .effects import note_write
from .generators import default_generator
from .hot import LEAST
from .namespace import F
from .proxies import TracedScalar, concrete
from .tensors import Tensor, Variable, requires_grad, root_of, tensor_of, variable_of
from .view_paths import path_of, refuse_write

# -- out of place ------------------------------------------------------------------------------------------------


def call(op: Op, values: Sequence[Any]) -> Any:
    """Run `op` on schema-ordered `values`; Mismatch if they do not fit the schema."""
    return call_fitting(op, coerce(op, values))


def call_fitting(op: Op, values: Sequence[Any]) -> Any:
    """`call` for values that `jit.eager.arguments` has brought to what the schema says."""
    if _region() is not None:
        return call_in_region(op, values, _call)
    if _trace() is None and _profile() is None:
        return _run(op, values)
    return _call(op, values)


_region, _trace, _profile, _records = (
    context.AUTOCAST.get, context.TRACE.get, context.PROFILE.get, context.GRAD_ENABLED.get
)  # fmt: skip


def _call(op: Op, values: Sequence[Any]) -> Any:
    trace = _trace()
    return run(op, values) if trace is None else trace.record(op, values)


def run(op: Op, values: Sequence[Any]) -> Any:
    """Run `op` without recording it in a trace; derivatives are recorded as the grad mode says."""
    profile = _profile()
    if profile is not None:
        return profile(op.schema.name, lambda: _run(op, values))
    return _run(op, values)


def _run(op: Op, values: Sequence[Any]) -> Any:
    if op.kind == "composite":
        return _run_composite(op, values)
    outputs = compute(op, values)
    if _records() and _wants_gradient(op, values) and (op.derivatives or op.backward is not None):
        derivatives.autograd.attach(op, values, outputs)
    return outputs[0] if op.gives_one else pack(op, outputs)


def _wants_gradient(op: Op, values: Sequence[Any]) -> bool:
    """Whether gradients flow into any argument."""
    for index in op.tensors:  # `any()` of a generator takes three times as long
        value = values[index]
        if (type(value) is not Tensor or value._viewed is not None) and requires_grad(value):
            return True
    return False


def compute(op: Op, values: Sequence[Any]) -> list[Tensor]:
    """The results of a primitive op as tensors without history; views share storage with their base."""
    arrays = [
        value._array if isinstance(value, Tensor) else value if type(value) in _PLAIN else _array(value)
        for value in values
    ]
    kind = op.kind
    if kind == "random":
        return _draw(op, values, arrays)
    results = None if LEAST[op] is None or _trace() is not None else hot.computed(op, arrays)
    if results is None:
        results = execute(op, arrays)
    if kind != "view":
        return [tensor_of(results[0])] if len(results) == 1 else [tensor_of(result) for result in results]
    return [view_of(op, values, result, index) for index, result in enumerate(results)]


_NUMBERS = frozenset((int,))
_PLAIN = frozenset((int, float, bool, type(None), str, dtypes.DType))


def _array(value: Any) -> Any:
    if type(value) is tuple:
        if _NUMBERS.issuperset(map(type, value)):  # mostly sizes
            return value
        return tuple([item._array if isinstance(item, Tensor) else _array(item) for item in value])
    return concrete(value) if type(value) is TracedScalar else value


def _draw(op: Op, values: Sequence[Any], arrays: Sequence[Any]) -> list[Tensor]:
    generator = next((v for a, v in zip(op.arguments, values, strict=True) if a.type.base == "Generator"), None)
    generator = generator or default_generator()
    with generator.lock:
        *results, generator.state = execute(op, arrays, generator.state)
    return [tensor_of(result) for result in results]


def view_of(op: Op, values: Sequence[Any], array: Any, index: int) -> Tensor:
    """Output `index` of a view op as a tensor that shares its base's storage and knows the path from it."""
    source = values[0]
    make = variable_of if isinstance(source, Variable) else tensor_of
    view: Tensor = make(array, source._storage)
    view._grad_version = source._storage.version
    if op.schema.name != "detach":
        view._viewed = root_of(source)
        view._path = path_of(op, values[1:], index, source._path, array, view._viewed._array)
    return view


def pack(op: Op, outputs: Sequence[Any]) -> Any:
    """Outputs in the form that the schema declares: one, a list, or a named tuple."""
    returns = op.schema.returns
    if len(returns) == 1:
        return tuple(outputs) if returns[0].type.is_list else outputs[0]
    return return_type(op)(*outputs)


@cache
def return_type(op: Op) -> Any:
    """The named tuple that an operator with several results gives."""
    names = [r.name or f"output_{i}" for i, r in enumerate(op.schema.returns)]
    made: Any = collections.namedtuple(op.schema.name.lstrip("_"), names)  # type: ignore[misc]
    type.__setattr__(made, "__repr__", _show_results)
    return made


def _show_results(results: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(results._fields, results, strict=True))
    return f"{dtypes.package}.return_types.{type(results).__name__}(\n{fields})"


def unpack(result: Any) -> list[Any]:
    """The inverse of `pack`."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _run_composite(op: Op, values: Sequence[Any]) -> Any:
    if not _records() or not _wants_gradient(op, values):
        return _run_whole(op, values)
    if not op.is_differentiable:
        found = None if op.whole_gradients is None else _whole(op, values)
        if found is None:
            return _run_parts(op, values)
        derivatives.autograd.attach(op, values, [found])
        return found
    context.GRAD_ENABLED.set(False)
    try:
        result = _run_whole(op, values)
    finally:
        context.GRAD_ENABLED.set(True)
    derivatives.autograd.attach(op, values, unpack(result))
    return result


def _run_whole(op: Op, values: Sequence[Any]) -> Any:
    """The result of a composite that needs no history of its parts: by its body for numpy, if it has one for these."""
    found = None if op.numpy_body is None else _whole(op, values)
    return _run_parts(op, values) if found is None else found


def _whole(op: Op, values: Sequence[Any]) -> Tensor | None:
    """The result of a composite by its body for numpy; None if that does not do, or somebody asks for the parts."""
    if _trace() is not None or _profile() is not None or _region() is not None:
        return None
    arrays = [value._array if isinstance(value, Tensor) else value for value in values]
    found = execute_whole(op, arrays) if (quick := hot.computed(op, arrays)) is None else quick[0]
    return None if found is None else tensor_of(found)


def _run_parts(op: Op, values: Sequence[Any]) -> Any:
    try:
        with beside(values):
            result = op.body(F, *values)
    except Error:
        raise
    except FOREIGN as error:
        raise refusal(op, values, error) from error
    if isinstance(result, Tensor):
        if result._viewed is not None and not context.GRAD_ENABLED.get():
            _leave_view(result, values)
        return result
    return return_type(op)(*result) if type(result) is tuple and op.schema.returns[0].name else result


def _leave_view(result: Tensor, values: Sequence[Any]) -> None:
    """Let a result that is a view of what the composite itself has made be a tensor like any other.

    Nobody has the base, and no history leads through it. A write to the result would else be one to a view that was
    taken without its history.
    """
    given = (item for value in values for item in unpack(value) if isinstance(item, Tensor))
    if all(item._storage is not result._storage for item in given):
        result._viewed, result._path = None, ()


def beside(values: Sequence[Any]) -> AbstractContextManager[None]:
    """A block in which tensors are made where the first tensors among `values` lie that are no numbers of the CPU."""
    if not FINDERS:
        return _NOWHERE_ELSE
    tensors = [item for value in values for item in unpack(value) if isinstance(item, Tensor) and item.defined]
    home = next((t.device for t in tensors if t.ndim or not t.is_cpu), CPU if tensors else get_default_device())
    return made_on(home)


_NOWHERE_ELSE: AbstractContextManager[None] = nullcontext()

# -- in place ----------------------------------------------------------------------------------------------------


def call_inplace(op: Op, values: Sequence[Any]) -> Tensor:
    """Run `op` and write its result into the first argument, which is returned.

    Values fit the schema; those of a composite are what the user has passed.
    """
    if op.kind == "composite":
        return _composite_inplace(op, values)
    _check_target(op, values[0])
    trace = _trace()
    if trace is not None:
        return trace.record_inplace(op, values)
    return run_inplace(op, values)


def _check_target(op: Op, target: Any) -> None:
    """Refuse (KindError) to write to what is no tensor."""
    if not isinstance(target, Tensor):
        raise KindError(f"{op.schema.name}_ writes to a tensor; pass one first, not {type(target).__name__}")


def _composite_inplace(op: Op, values: Sequence[Any]) -> Tensor:
    """The result copied over the target; where gradients flow, the parts see (and save) a copy of the target."""
    target, *rest = values
    tracked = context.GRAD_ENABLED.get() and requires_grad(target)
    _check_target(op, target)
    check_writable(target, tracked)
    result = outside(call, op, [F.clone(target) if tracked else target, *rest])
    if result.dtype.category > target.dtype.category:
        raise _narrowing(f"{op.schema.name}_", result, target)
    return F.copy_(target, result)


def run_inplace(op: Op, values: Sequence[Any]) -> Tensor:
    """`call_inplace` without recording it in a trace."""
    profile = context.PROFILE.get()
    if profile is not None:
        return profile(f"{op.schema.name}_", lambda: _run_inplace(op, values))
    return _run_inplace(op, values)


def _run_inplace(op: Op, values: Sequence[Any]) -> Tensor:
    target = values[0]
    tracked = _records() and _wants_gradient(op, values)
    check_writable(target, tracked)
    (result,) = compute(op, values)
    if op.result is dtypes.real_of and target.dtype.category == dtypes.COMPLEX:
        raise DTypeError(
            f"{op.schema.name}_ would write real numbers into a {target.dtype} tensor; use {op.schema.name}()"
        )
    node = derivatives.autograd.begin_write(op, values) if tracked else None
    write(target, result, f"{op.schema.name}_")
    if node is not None:
        derivatives.autograd.end_write(target, node)
    return target


def check_writable(target: Tensor, tracked: bool) -> None:
    """Refuse to write to leaves that require grad, expanded tensors and read-only memory."""
    array = target._array if target._array is not None else target._defined()
    if target._viewed is not None or target._storage.inference:
        check_history(target, tracked)
    if _records() and _is_leaf_requiring_grad(target):
        raise AutogradError(
            "a leaf that requires grad, or a view of one, is written to in place; do it under jit.no_grad(), "
            "or clone it first"
        )
    if not is_writable(array):
        raise AutogradError("a tensor of read-only memory is written to; clone() it first")
    if not array.flags.c_contiguous and Geometry(array.shape, array.strides).overlaps:
        raise ShapeError(
            "some elements of the written tensor share one place in memory (it was expanded); clone() it first"
        )


def check_history(target: Tensor, tracked: bool) -> None:
    """Refuse to write to inference tensors, and to views whose history would be lost.

    See Note [Views that somebody else made].
    """
    if target._storage.inference and not context.INFERENCE.get():
        raise AutogradError("an inference tensor is written to outside of inference_mode; clone() it first")
    if target._viewed is None or not context.GRAD_ENABLED.get():
        return
    if tracked or requires_grad(target) or requires_grad(target._viewed):
        refuse_write(target._path)


def _is_leaf_requiring_grad(target: Tensor) -> bool:
    root = target if target._viewed is None else root_of(target)
    return isinstance(root, Variable) and root._requires_grad and root._grad_fn is None


def write(target: Tensor, result: Tensor, what: str) -> None:
    """Copy `result` over `target`'s elements and bump the version; shapes and dtypes must allow it."""
    array, source = target._array, result._array
    if source.shape != array.shape and (
        source.size == 0 or np.broadcast_shapes(source.shape, array.shape) != array.shape
    ):
        raise ShapeError(
            f"{what}: the result has sizes {list(source.shape)}, but the tensor written to has {list(array.shape)}; "
            "use the operator that returns a new tensor"
        )
    if source.dtype is not array.dtype and result.dtype.category > target.dtype.category:
        raise _narrowing(what, result, target)
    note_write(target)
    if source.dtype is array.dtype and type(source) is type(array) is np.ndarray:
        array[...] = source
    else:
        library = library_of(array)
        with np.errstate(all="ignore"), library.current():
            library.math.copyto(array, library.taken(source), casting="unsafe")
    target._storage.written(skipped=OWN_CALLERS)


OWN_CALLERS = 4
"""The least number of functions of this package that lead from a user's line to `written`, that one included."""


def _narrowing(what: str, result: Tensor, target: Tensor) -> DTypeError:
    return DTypeError(
        f"{what}: the result is {result.dtype}, which cannot be written into {target.dtype}; cast one of them, or use "
        "the operator that returns a new tensor"
    )


def call_out(op: Op, values: Sequence[Any], out: Any) -> Any:
    """Run `op` and write the results into the tensors of `out`; refused where gradients are recorded."""
    targets = unpack(out)
    if context.GRAD_ENABLED.get() and any(map(requires_grad, (*values, *targets))):
        raise AutogradError(
            f"{op.schema.name}(out=...) does not support automatic differentiation; use the result instead"
        )
    if _makes_new(op):
        values = _of_dtype(op, values, targets[0])
    _check_asked(op, values, targets[0])
    made = outside(call, op, values)
    results = unpack(made)
    for target, result in zip(targets, results, strict=True):
        if result.dtype.category > target.dtype.category or (_fixes_dtype(op) and result.dtype is not target.dtype):
            raise _narrowing(f"{op.schema.name}(out=...)", result, target)
        if op.schema.name in _RANGES and target._array.size == result._array.size:
            result = F.reshape(result, target.shape)
        if target._array.shape != result._array.shape:
            _take_sizes(op, target, result._array.shape)
        F.copy_(target, result)
    if isinstance(out, Tensor) or type(made) is tuple:
        return out
    return list(targets) if isinstance(made, list) else type(made)(*targets)


def _take_sizes(op: Op, target: Tensor, sizes: tuple[int, ...]) -> None:
    """Give a tensor of `out=` the sizes of the result, with a warning if it had elements."""
    if target._array.size:
        context.warn(
            f"{op.schema.name}: out has sizes {list(target.shape)} and takes those of the result, {list(sizes)}; "
            "pass a tensor of the result's sizes, or an empty one"
        )
    restride(target, sizes)


def _check_asked(op: Op, values: Sequence[Any], target: Tensor) -> None:
    """Refuse (DTypeError) a `dtype=` other than that of the tensor in `out=`."""
    if op.tensors and "dtype" in op.schema.argument_names:
        asked = values[op.schema.argument_names.index("dtype")]
        if asked is not None and asked is not target.dtype:
            raise DTypeError(
                f"{op.schema.name}: dtype={asked} is asked for, but out= is a tensor of {target.dtype}; leave dtype out"
            )


_RANGES = frozenset(("arange", "linspace", "logspace"))
"""Operators that fill an `out` of any sizes that has as many elements."""


def _makes_new(op: Op) -> bool:
    """Whether `op` takes no tensor and makes one, in a dtype that may be left open."""
    return not op.tensors and "dtype" in op.schema.argument_names


def _of_dtype(op: Op, values: Sequence[Any], target: Tensor) -> list[Any]:
    """The arguments with the dtype of `target`; DTypeError if they ask for another one."""
    position = op.schema.argument_names.index("dtype")
    asked = values[position]
    if asked is not None and asked is not target.dtype:
        raise DTypeError(
            f"{op.schema.name}(dtype={asked.name}, out=...): out is {target.dtype.name}; leave dtype out, or "
            "give a tensor of that dtype"
        )
    return [*values[:position], target.dtype, *values[position + 1 :]]


def _fixes_dtype(op: Op) -> bool:
    """Whether `out=` must have the very dtype of the result: so for array and random operators and for those of several
    results, but for `cat` and those that take a `dtype`. Others write into wider dtypes, too."""
    free = op.kind == "pointwise" or "dtype" in op.schema.argument_names
    return not free and (op.kind in ("array", "random") or len(op.schema.returns) > 1) and op.schema.name != "cat"


def no_declaration(
    name: str, ops: Sequence[Op], args: Sequence[Any], kwargs: dict[str, Any], unknown: Sequence[str]
) -> SchemaError:
    """The error for a call that fits none of `ops`; `unknown` are names of arguments that none of them has."""
    from jit.ir.hints import conversion, did_you_mean, is_foreign
    from jit.ir.schema import describe_call

    listed = "\n".join(f"  {op.schema}" for op in ops)
    foreign = [value for value in (*args, *kwargs.values()) if is_foreign(value)]
    if unknown:
        known = dict.fromkeys(each for op in ops for each in op.schema.argument_names)
        guess = did_you_mean(unknown[0], known, "{}=") or ", or mend the spelling"
        way_out = f"{name} has no argument {unknown[0]}, leave {', '.join(unknown)}= out{guess}"
    elif foreign:
        way_out = conversion(foreign[0])
    elif args and isinstance(args[0], (list, tuple)) and not ops[0].arguments[0].type.is_list:
        way_out = f"make a tensor of the {type(args[0]).__name__} first, with jit.tensor(...)"
    else:
        way_out = "pass arguments of the declared types"
    call = describe_call(name, args, kwargs)
    return SchemaError(f"no ATen declaration found for {call}; {way_out}; available are\n{listed}")


__all__ = [
    "call", "call_fitting", "call_inplace", "call_out", "compute", "pack", "requires_grad", "run", "unpack",
]  # fmt: skip
