"""Functions and methods generated from the registry: `jit.add`, `Tensor.add`, `Tensor.add_`, `F.add`.

One function per name tries the declarations of that name in order. `F` has all of them, by ATen's names; each is made
when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

from jit.ir.errors import Error
from jit.ir.memory_formats import as_memory_format
from jit.ir.op import Op
from jit.ir.registry import OVERLOADS
from jit.late import NoSuchName
from jit.ops import NAMES

from .arguments import Mismatch, fitter
from .context import user_source
from .dispatch import call_fitting, call_inplace, call_out, no_declaration
from .later import Later
from .namespace import F, Namespace
from .number_first import reordered
from .overriding import OVERRIDING, overridden
from .proxies import TracedScalar
from .tensors import Tensor
from .watch import LOOKING, pause, resume

_SYNONYMS = {"input": "self", "axis": "dim", "keepdims": "keepdim", "x1": "self", "x2": "other", "dims": "dim"}
"""Other names under which PyTorch and numpy users pass arguments."""


def make_function(
    name: str, ops: Sequence[Op], invoke: Callable[[Op, Sequence[Any]], Any] = call_fitting
) -> Callable[..., Any]:
    """The function that users call: binds, and picks the first declaration that the arguments fit."""
    binders: list[_Spelling] = []

    def function(*args: Any, **kwargs: Any) -> Any:
        if OVERRIDING and (answer := overridden(function, args, kwargs)) is not NotImplemented:
            return answer
        hook = pause() if LOOKING else None
        try:
            for op, bind, numbers in binders or _binders(ops, invoke, binders):
                given = args
                if len(args) > op.most_positional:
                    if not _PLAIN_NUMBERS.issuperset(map(type, args[numbers:])):
                        continue
                    given = (*args[:numbers], args[numbers:])
                try:
                    return invoke(op, bind(*given, **kwargs))
                except (Mismatch, TypeError) as error:
                    if isinstance(error, TypeError) and not _from_binder(error):
                        raise
            if (answer := overridden(function, args, kwargs)) is not NotImplemented:
                return answer
            return _resolve(name, ops, args, kwargs, invoke)
        except Error as error:
            _locate(error, name)
            raise
        finally:
            if hook is not None:
                resume(hook)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _documentation(ops, invoke is call_inplace)
    function.__dict__["declarations"] = tuple(ops)
    return function


_PLAIN_NUMBERS = frozenset((int,))


class _Spelling(NamedTuple):
    """A declaration, its binder, and the position from which numbers one by one are a list: 0 if there is none."""

    op: Op
    bind: Callable[..., Sequence[Any]]
    numbers: int


def _binders(ops: Sequence[Op], invoke: Any, kept: list[_Spelling]) -> Sequence[_Spelling]:
    """Each of `ops` with its binder, put into `kept`: made at the first call, as there are hundreds of operators."""
    kept[:] = [_Spelling(op, _binder(op, invoke), _position_of_numbers(op)) for op in ops]
    return kept


def _position_of_numbers(op: Op) -> int:
    """The position of the first list of an operator, if it is one of numbers behind a tensor; otherwise 0."""
    found = next((i for i, argument in enumerate(op.arguments) if argument.type.is_list), 0)
    return found if op.arguments and op.arguments[found].type.base == "int" else 0


def _binder(op: Op, invoke: Any) -> Callable[..., Sequence[Any]]:
    """The function that brings arguments into the order of the schema, and to what it says.

    A composite that is written in place hands them on as they are to the operator that writes nothing.
    """
    return op.bind if invoke is call_inplace and op.kind == "composite" else fitter(op)


_LOCATED = "in a call of "


def _locate(error: Error, name: str) -> None:
    """Note on an error which call of the user's has failed, instead of the operators inside of that call."""
    notes = error.__dict__.get("__notes__", [])
    notes[:] = [note for note in notes if not note.startswith(_LOCATED)]
    source = user_source()
    error.add_note(f"{_LOCATED}{name}" + (f" at {source}" if source is not None else ""))


def _from_binder(error: TypeError) -> bool:
    """Whether calling `bind` itself failed, rather than something inside the operator."""
    at = error.__traceback__
    return at is not None and at.tb_next is None


def _documentation(ops: Sequence[Op], overwrites: bool = False) -> str:
    """The formula, then each declaration: its arguments with defaults, its results, and what it has derivatives by."""
    text = (ops[0].body.__doc__ or "").strip()
    written = ["In place: the result overwrites `self`, and is returned.", ""] if overwrites else []
    return "\n".join([*([text, ""] if text else []), *written, *(f"{op.schema}\n    {_facts(op)}" for op in ops)])


def _facts(op: Op) -> str:
    viewed = op.schema.view_of
    return _derivative(op) if viewed is None else f"A view of `{viewed}`. {_derivative(op)}"


def _derivative(op: Op) -> str:
    if "grad" in op.missing:
        return f"No derivative: {op.missing['grad']}."
    if op.kind == "composite" and not op.is_differentiable:
        return "Differentiated through the operators that it consists of."
    names = [op.arguments[i].name for i in op.tensors] if op.backward is not None else op.derivatives
    found = [f"`{name}`" for name in names if f"grad.{name}" not in op.missing and name != "index"]
    return f"Differentiable by {', '.join(found)}."


def _resolve(name: str, ops: Sequence[Op], args: Sequence[Any], kwargs: dict[str, Any], invoke: Any) -> Any:
    """Call with an unusual spelling: sizes as separate arguments, `out=`, `requires_grad=`, numpy's argument names."""
    options = dict(kwargs)
    out = options.pop("out", None)
    wants_grad = options.pop("requires_grad", False)
    for dead in ("layout", "pin_memory", "non_blocking", "names"):
        options.pop(dead, None)
    laid_out = options.pop("memory_format", None)
    for op in ops:
        own = {} if laid_out is None or "memory_format" not in op.schema.argument_names else {"memory_format": laid_out}
        for positional in (args, _packed(op, args)):
            if len(positional) > op.most_positional:
                continue
            try:
                values = _binder(op, invoke)(*positional, **_renamed(op, options), **own)
                result = call_out(op, values, out) if out is not None else invoke(op, values)
            except (Mismatch, TypeError) as error:
                if isinstance(error, TypeError) and not _from_binder(error):
                    raise
                continue
            if laid_out is not None and not own and as_memory_format(laid_out) in ("channels_last", "channels_last_3d"):
                result = F.contiguous(result, memory_format=laid_out)
            return result.requires_grad_() if wants_grad else result
    from .composed import answering

    composed = answering((*args, *kwargs.values()))
    if composed is not None:
        return composed.answer(name, args, kwargs)
    old = reordered(name, args)
    if old is not None:
        return _resolve(name, ops, old[0], {**old[1], **kwargs}, invoke)
    raise no_declaration(name, ops, args, kwargs, _unknown(ops, options))


def _unknown(ops: Sequence[Op], options: dict[str, Any]) -> list[str]:
    """The names of arguments that no declaration has, under any spelling."""
    known = {name for op in ops for name in op.schema.argument_names}
    return [name for name in options if name not in known and _SYNONYMS.get(name) not in known]


def _renamed(op: Op, kwargs: dict[str, Any]) -> dict[str, Any]:
    names = op.schema.argument_names
    return {
        (_SYNONYMS.get(k, k) if k not in names and _SYNONYMS.get(k, k) in names else k): v for k, v in kwargs.items()
    }


def _is_size(value: Any) -> bool:
    """Whether this may be one of several sizes that are given one by one: a whole number, also one in an array."""
    if isinstance(value, Tensor):
        return value.defined and value.ndim == 0 and value.dtype.is_integral
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, (int, TracedScalar, np.integer)) and not isinstance(value, bool)


def _spreads(op: Op, position: int, rest: Sequence[Any]) -> bool:
    """Whether `rest` are the tensors of a list, given one by one; no tensors count only where nothing precedes them."""
    may = op.spreads and (position == 0 or bool(rest))
    return may and all(isinstance(v, Tensor) for v in rest)


def _packed(op: Op, args: Sequence[Any]) -> tuple[Any, ...]:
    """`view(x, 2, 3)` as `view(x, (2, 3))`: a run of numbers or tensors where the schema has a list of them."""
    for position, argument in enumerate(op.arguments):
        if not argument.type.is_list:
            continue
        rest = tuple(args[position:])
        if argument.type.base == "int" and rest and all(type(v) is int or _is_size(v) for v in rest):
            return (*args[:position], rest)
        if argument.type.base == "Tensor" and _spreads(op, position, rest):
            return (*args[:position], rest)
    return tuple(args)


# -- by name, see Note [Declarations are read when needed] -----------------------------------------------------------

_DECLARED = {spelled: name for name, at in NAMES.items() for spelled in at.spelled}
"""Name of a function in `F` -> the name under which its operators are declared."""


def _function(spelled: str) -> Callable[..., Any]:
    """The function of a name in `F`; AttributeError if there is none."""
    name = _DECLARED.get(spelled) or _unforeseen(spelled)
    overwrites = spelled != name and spelled.endswith("_")
    if spelled != name and not overwrites:
        return cast(Callable[..., Any], getattr(F, name))
    ops = [op for op in OVERLOADS.look(name) or () if op.has_inplace or not overwrites] if name else []
    if not ops:
        raise AttributeError(f"no operator is called {spelled!r}")
    return make_function(spelled, ops, call_inplace if overwrites else call_fitting)


def _unforeseen(spelled: str) -> str:
    """The name of an operator that the index lacks, by that of its function; none for what Python itself asks for."""
    if spelled.startswith("__"):
        return ""
    return spelled if spelled in OVERLOADS else spelled.removesuffix("_")


@cache
def names_in(namespace: str) -> dict[str, str]:
    """The names that users know in "jit", "nn.functional", "linalg", "special" or "fft", each with the name in `F`.

    ATen's `linalg_norm` is found in `jit.linalg` as `norm` too; what writes in place, `jit.relu_`, beside `jit.relu`.
    """
    return {
        known: spelled
        for name, at in NAMES.items()
        if namespace in at.namespaces
        for spelled in at.spelled
        if namespace in ("jit", "nn.functional") or spelled == name or not spelled.endswith("_")
        for known in dict.fromkeys((spelled, spelled.removeprefix(f"{namespace}_")))
    }


def public(namespace: str) -> dict[str, Callable[..., Any]]:
    """All functions that belong to a namespace, by the names that users know."""
    new = {name: name for name, ops in OVERLOADS.items() if name not in NAMES and _is_in(namespace, ops)}
    return {known: getattr(F, spelled) for known, spelled in {**names_in(namespace), **new}.items()}


def _is_in(namespace: str, ops: Sequence[Op]) -> bool:
    return any(namespace in op.namespaces for op in ops)


def member(namespace: str, name: str) -> Callable[..., Any]:
    """The function that users know by this name in a namespace; AttributeError if there is none."""
    spelled = names_in(namespace).get(name)
    if spelled is None and not name.startswith("__") and _is_in(namespace, OVERLOADS.look(name) or ()):
        spelled = name  # of an operator that the index lacks
    if spelled is None:
        raise NoSuchName("jit" if namespace == "jit" else f"jit.{namespace}", name)
    return cast(Callable[..., Any], getattr(F, spelled))


def members(namespace: str, module: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module of a namespace, whose functions are found when first asked for."""

    def find(name: str) -> Any:
        module[name] = found = member(namespace, name)
        return found

    return find, lambda: sorted({*module, *names_in(namespace)})


Namespace.find = staticmethod(_function)
for _name, _at in NAMES.items():
    for _spelled in _at.spelled:
        if "Tensor" in _at.namespaces or (_spelled != _name and _spelled.endswith("_")):
            setattr(Tensor, _spelled, Later(_spelled, partial(getattr, F, _spelled)))


def __getattr__(name: str) -> Any:
    """An operator's function by its name: this is where pickle looks for it."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(F, name)
