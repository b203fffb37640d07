"""Numbers that a trace follows: the sizes of traced tensors and what `.item()` read from them.

A `TracedScalar` behaves as the `int`, `float` or `bool` that it stands for. Arithmetic on it is recorded; where Python
decides - at a comparison, a loop, an index - the outcome becomes a guard. It is not an int subclass, because
CPython reads those without asking.
"""

from __future__ import annotations

import datetime
import math
import numbers
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import Value

from . import context

if TYPE_CHECKING:
    from .recorder import Recorder


class TracedScalar:
    """A number with a Value behind it. `_number` is what it was while tracing."""

    __slots__ = ("__weakref__", "_counts", "_make", "_measured", "_number", "_trace", "_value")

    def __init__(
        self,
        trace: Recorder,
        number: Any,
        value: Value | None = None,
        make: Callable[[], Value] | None = None,
        measured: bool = True,
        counts: bool = False,
    ) -> None:
        self._measured = measured
        """Whether it was read from elements; sizes are part of a trace's key, elements are not."""
        self._counts = counts
        """Whether it is a size or made of sizes so that it is never below 0, whatever they are."""
        self._trace = trace
        self._number = number
        self._value = value
        self._make = make
        trace.numbers.append(weakref.ref(self))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._number)

    def _ir(self) -> Value:
        """The Value, made when first needed, so that looking at a shape costs the graph nothing."""
        if self._value is None:
            assert self._make is not None
            self._value = self._make()
        return self._value

    @property
    def _live(self) -> bool:
        return context.is_recording(self._trace)

    # -- decisions -----------------------------------------------------------------------------------------------

    def _decide(self) -> Any:
        if self._live:
            self._trace.guard(self._ir(), self._number)
        return self._number

    def __index__(self) -> int:
        return operator.index(self._decide())

    def __int__(self) -> int:
        whole = self.as_int()  # what is decided upon: other floats may give the same
        return whole._decide() if type(whole) is TracedScalar else int(whole)

    def __float__(self) -> float:
        return float(self._decide())

    def __complex__(self) -> complex:
        return complex(self._decide())

    def __bool__(self) -> bool:
        return self._decide() if type(self._number) is bool else bool(self._compare("ne", 0))

    def __hash__(self) -> int:
        return hash(self._decide())

    def __repr__(self) -> str:
        return repr(self._shown())

    def __str__(self) -> str:
        return str(self._shown())

    def __format__(self, spec: str) -> str:
        return format(self._shown(), spec)

    def _shown(self) -> Any:
        """The number that becomes text. Text could steer the program, so the number is guarded; not so a float that was
        measured, which would hardly ever be the same again: the trace notes that instead."""
        if not self._live or self._trace.printing:
            return self._number
        if not self._measured or type(self._number) is not float or not self._trace.reads_elements(self._ir()):
            return self._decide()
        self._trace.note_text()
        return self._number

    def __reduce__(self) -> Any:
        return (type(self._number), (self._decide(),))

    def _compare(self, name: str, other: Any) -> Any:
        if isinstance(other, np.generic):
            return np.bool_(self._compare(name, other.item()))
        if not _is_number(other):
            return COMPARISONS[name](self._decide(), other) if isinstance(other, numbers.Number) else NotImplemented
        outcome = COMPARISONS[name](self._number, concrete(other))
        if self._live and not self._is_known(name, other):
            trace = self._trace
            trace.guard(trace.scalar_node(f"prim::{name}", (self, other), outcome)._ir(), outcome)
        return outcome

    def _is_known(self, name: str, other: Any) -> bool:
        """Whether a comparison has the same outcome whatever the sizes are, so that nothing has to be guarded."""
        if type(other) is TracedScalar:
            is_same = other is self or other._value is self._value is not None
            return is_same and type(self._number) is int
        return self._counts and type(other) is int and (other < 0 or (other == 0 and name in ("lt", "ge")))

    def __eq__(self, other: object) -> Any:
        return self._compare("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("ne", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("ge", other)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._decide(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*map(_decided, inputs), **options)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _arithmetic(self, name: str, left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)):
            foreign = any(isinstance(side, _OF_OTHERS) for side in (left, right) if type(side) is not TracedScalar)
            return ARITHMETIC[name](_decided(left), _decided(right)) if foreign else NotImplemented
        try:
            number = ARITHMETIC[name](concrete(left), concrete(right))
        except Exception as error:
            if self._live:
                self._trace.note_number(error, name, (left, right))
            raise
        if not self._live:
            return number
        if number == self._number and type(self._number) is int and _changes_nothing(name, self, left, right):
            return self
        return self._trace.scalar_node(f"prim::{name}", (left, right), number)

    def __neg__(self) -> Any:
        return self._trace.scalar_node("prim::neg", (self,), -self._number) if self._live else -self._number

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return ~self._decide()

    def __abs__(self) -> Any:
        return self._trace.scalar_node("prim::abs", (self,), abs(self._number)) if self._live else abs(self._number)

    def __round__(self, digits: int | None = None) -> Any:
        return self._whole("round", round) if digits is None else round(self._decide(), digits)

    def __trunc__(self) -> Any:
        return self._whole("trunc", math.trunc)

    def __floor__(self) -> Any:
        return self._whole("floor", math.floor)

    def __ceil__(self) -> Any:
        return self._whole("ceil", math.ceil)

    def square_root(self) -> Any:
        """The result of `math.sqrt`: Python's own takes plain numbers alone."""
        if self._measured or not self._live:
            return math.sqrt(self._decide())
        return self._trace.scalar_node("prim::sqrt", (self,), math.sqrt(self._number))

    def as_int(self) -> Any:
        """The result of `int`, which Python's own makes a plain number."""
        return self._whole("int", int)

    def as_float(self) -> Any:
        """The result of `float`, which Python's own makes a plain number."""
        if self._measured or not self._live:
            return float(self._decide())
        if type(self._number) is float:
            return self
        return self._trace.scalar_node("prim::float", (self,), float(self._number))

    def _whole(self, name: str, function: Callable[[Any], int]) -> Any:
        """A whole number near this one; of elements, which may be no number at all, decided upon."""
        if self._measured or not self._live:
            return function(self._decide())
        if type(self._number) is int:
            return self
        return self._trace.scalar_node(f"prim::{name}", (self,), function(self._number))

    def __getattr__(self, name: str) -> Any:
        # is_integer, bit_length, real, ...: whatever the number offers, decided upon
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._decide(), name)


_OF_OTHERS = (np.generic, numbers.Number, datetime.timedelta)
"""Types that know how to compute with a plain number, and would not know a traced one."""
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
}  # fmt: skip

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _install(name: str) -> None:
    def forward(self: TracedScalar, other: Any) -> Any:
        return self._arithmetic(name, self, other)

    def reflected(self: TracedScalar, other: Any) -> Any:
        return self._arithmetic(name, other, self)

    setattr(TracedScalar, f"__{name}__", forward)
    setattr(TracedScalar, f"__r{name}__", reflected)


for _name in ARITHMETIC:
    _install(_name)


def _divmod(self: TracedScalar, other: Any) -> Any:
    return (self // other, self % other)


def _rdivmod(self: TracedScalar, other: Any) -> Any:
    return (other // self, other % self)


def _pow(self: TracedScalar, other: Any, modulus: Any = None) -> Any:
    if modulus is None:
        return self._arithmetic("pow", self, other)
    return pow(self._decide(), _decided(other), _decided(modulus))


setattr(TracedScalar, "__divmod__", _divmod)  # noqa: B010  (a checker would take it for a number)
setattr(TracedScalar, "__rdivmod__", _rdivmod)  # noqa: B010
setattr(TracedScalar, "__pow__", _pow)  # noqa: B010


def _changes_nothing(name: str, number: TracedScalar, left: Any, right: Any) -> bool:
    """Whether a whole number is multiplied by 1, or 0 is added to it: of sums and products that begin with these."""
    neutral = _NEUTRAL.get(name)
    if neutral is None:
        return False
    other = right if left is number else left
    return type(other) is int and other == neutral


_NEUTRAL = {"add": 0, "mul": 1}


def makes_counts(kind: str, operands: Sequence[Any]) -> bool:
    """Whether `kind` of these operands is never below 0, whatever the sizes among them are."""
    return kind in _OF_COUNTS and all(
        o._counts if type(o) is TracedScalar else type(o) is int and o >= 0 for o in operands
    )


_OF_COUNTS = ("prim::add", "prim::mul", "prim::floordiv", "prim::mod")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, bool, complex, TracedScalar)


def _decided(value: Any) -> Any:
    return value._decide() if type(value) is TracedScalar else value


def concrete(value: Any) -> Any:
    """The plain number behind a TracedScalar, without a guard; anything else as it is."""
    return value._number if type(value) is TracedScalar else value
