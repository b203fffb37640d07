"""Sizes as expressions of symbols: `2*n+1` where a size is no number, but follows from what a call brings.

Type rules, geometries of views, passes and plans are written for ints. They run as they are where some of these are
`SizeExpr`s: arithmetic gives expressions in a normal form, and what Python decides on - a comparison, a loop, an
index - is answered for the numbers that the symbols stand for just now, and noted as a condition, so that whoever has
asked knows for which sizes the answer holds (see `jit.ir.size_conditions`).

Note [Normal form]
    A size is a sum of products of atoms with integer coefficients. Atoms are symbols, and the quotients, remainders,
    minima and maxima that these rules do not dissolve:

        (n + 1)*(n - 1)     n*n-1                 (n//2)//3           n//6
        (4*n + 6)//4        n+1                   -(-n//4)            (n+3)//4
        (2*n*m)//n          2*m                   (8*n + 3)%8         3
        max(n, 1)           n, if n is >= 2       min(n, m, n)        min(m, n)

    Every rule holds for all values of the symbols, so equal forms are equal sizes. Different forms may be equal, too;
    comparisons look at the difference, where such terms mostly cancel.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from .errors import UndecidedSizeError

Bounds: TypeAlias = "tuple[int | None, int | None]"
"""The least and the greatest value that a size can have; None where there is no bound."""


@dataclass(frozen=True, slots=True)
class SizeSymbol:
    """A size that a call brings: the size of one dim of one input.

    >>> n = SizeSymbol("n").size
    >>> print(2 * (n + 1) - n, n * 4 // n)
    n+2 4
    """

    name: str
    """An identifier."""
    low: int = 2
    """The least value: sizes 0 and 1 are left out, because they broadcast, or make a dim vanish."""
    high: int | None = None
    """The greatest value."""

    @property
    def size(self) -> SizeExpr:
        """The symbol as a size."""
        return SizeExpr({(self,): 1})

    def __str__(self) -> str:
        return self.name


class SizeFunction:
    """A function of sizes that is no polynomial.

    Equal ones have equal texts, of equal symbols: comparing the operands would ask for decisions, and texts alone do
    not tell symbols apart whose bounds differ.

    Args:
        name: "//", "%", "min" or "max".
        operands: Two, or for minima and maxima two or more.
    """

    __slots__ = ("_text", "name", "operands", "symbols")

    def __init__(self, name: str, operands: Iterable[SizeExpr | int]) -> None:
        self.name = name
        self.operands = tuple(operands)
        self.symbols = frozenset(s for o in self.operands if type(o) is SizeExpr for s in o.symbols)
        """The symbols of its operands."""
        texts = [str(o) if not self.is_infix or _is_simple(o) else f"({o})" for o in self.operands]
        sign = " % " if name == "%" else name  # in the text of a graph, %8 is a value
        self._text = sign.join(texts) if self.is_infix else f"{name}({', '.join(texts)})"

    @property
    def is_infix(self) -> bool:
        """Whether its name stands between its operands."""
        return self.name in ("//", "%")

    def __eq__(self, other: object) -> bool:
        same_text = isinstance(other, SizeFunction) and self._text == other._text
        return same_text and self.symbols == cast(SizeFunction, other).symbols

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text


Atom = SizeSymbol | SizeFunction
Monomial = tuple[Atom, ...]
"""A product of atoms, sorted by their text; the empty one is 1."""


class Decider(Protocol):
    """Someone who answers questions about sizes; see `jit.ir.size_conditions`."""

    def decide(self, relation: str, difference: SizeExpr) -> bool:
        """Whether `difference relation 0`, relation being "==" or ">="."""

    def number(self, size: SizeExpr) -> int:
        """The number that a size is, from now on."""

    @property
    def estimating(self) -> Decider:
        """Someone who answers for the sizes of just now, and remembers nothing."""


_DECIDER: ContextVar[Decider | None] = ContextVar("decider", default=None)


@contextmanager
def deciding(decider: Decider | None) -> Iterator[None]:
    """Let `decider` answer what is asked about sizes in this block; None: what bounds do not tell is an error."""
    token = _DECIDER.set(decider)
    try:
        yield
    finally:
        _DECIDER.reset(token)


@contextmanager
def estimating() -> Iterator[None]:
    """Let answers in this block hold for the sizes of just now, without a condition.

    For choices that are right whatever the sizes are, and good for sizes of about this magnitude: how loops are
    ordered, whether a product is worth being packed.
    """
    decider = _DECIDER.get()
    with deciding(None if decider is None else decider.estimating):
        yield


def only_if(question: Callable[[], Any]) -> bool:
    """Whether something holds that matters only where it does: no is an answer for all sizes, yes is a decision.

    >>> n = SizeSymbol("n").size
    >>> only_if(lambda: n * 2 > n)
    True
    """
    if _DECIDER.get() is not None:
        with estimating():
            if not question():
                return False
    return bool(question())


def divides(number: int, size: int) -> bool:
    """Whether a number divides a size, whatever size that is; a plan for multiples alone would suit few sizes.

    >>> n = SizeSymbol("n").size
    >>> divides(4, 8 * n), divides(4, n), divides(4, 12)
    (True, False, True)
    """
    rest = size % number
    return type(rest) is int and rest == 0


def are_decided() -> bool:
    """Whether somebody answers questions about sizes here."""
    return _DECIDER.get() is not None


if TYPE_CHECKING:
    _Base = int  # type rules and geometries are written for ints, and a SizeExpr passes for one
else:
    _Base = object


class SizeExpr(_Base):
    """A size that is not known as a number; see Note [Normal form].

    It behaves as the int that it stands for. Arithmetic with ints and other sizes gives sizes, or ints where the
    symbols cancel. A comparison is answered by the bounds of the symbols if these suffice, else by the decider of the
    surrounding `deciding` block; so are `int()`, `range()` and all else that needs the number itself. It compares equal
    by value, as decided, but hashes by form.

    Args:
        terms: The coefficient of each product; what is 0 is dropped.

    Raises:
        UndecidedSizeError: By a comparison, where no decider answers it.
    """

    __slots__ = ("_hash", "terms")

    terms: Mapping[Monomial, int]

    def __new__(cls, terms: Mapping[Monomial, int]) -> SizeExpr:
        """A size with these terms."""
        return object.__new__(cls)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(sorted(terms.items(), key=_rank))
        self._hash = hash(tuple(self.terms.items()))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return (SizeExpr, (dict(self.terms),))

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def symbols(self) -> set[SizeSymbol]:
        """The symbols that it is made of."""
        return {s for product in self.terms for atom in product for s in _symbols(atom)}

    @property
    def lone_symbol(self) -> SizeSymbol | None:
        """The symbol that it is; None for all other sizes."""
        if len(self.terms) == 1:
            ((product, factor),) = self.terms.items()
            if factor == 1 and len(product) == 1 and isinstance(product[0], SizeSymbol):
                return product[0]
        return None

    def function(self, symbols: Sequence[SizeSymbol]) -> Callable[..., int]:
        """The size as a function of the values of `symbols`, much faster than `evaluate`."""
        return cast("Callable[..., int]", eval(f"lambda {', '.join(s.name for s in symbols)}: {self}"))

    @property
    def bounds(self) -> Bounds:
        """The bounds that follow from those of the symbols."""
        return bounds_of(self)

    def evaluate(self, values: Mapping[Any, int]) -> int:
        """The size for values of its symbols, or of other atoms; ints or sizes.

        >>> n = SizeSymbol("n")
        >>> (n.size * n.size + 1).evaluate({n: 3})
        10
        """
        total: int = 0
        for product, factor in self.terms.items():
            for atom in product:
                factor = factor * _evaluated(atom, values)
            total = total + factor
        return total

    def __str__(self) -> str:
        terms = sorted(self.terms.items(), key=lambda term: term[1] < 0)  # what is taken away comes last
        return "".join(_term_text(product, factor) for product, factor in terms).removeprefix("+")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def is_same(self, other: object) -> bool:
        """Whether another size is the same expression; equal by form, so equal for all values."""
        return type(other) is SizeExpr and self.terms == other.terms

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return _sum((self, 1), (other, 1)) if _is_size(other) else self._beside(operator.add, other)

    def __sub__(self, other: Any) -> Any:
        return _sum((self, 1), (other, -1)) if _is_size(other) else self._beside(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return _sum((other, 1), (self, -1)) if _is_size(other) else (-self)._beside(operator.add, other)

    def __mul__(self, other: Any) -> Any:
        return _product(self, other) if _is_size(other) else self._beside(operator.mul, other)

    def _beside(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        """The function of the number that this is, and a number that is no size."""
        return function(int(self), other) if type(other) in (float, complex) else NotImplemented

    def __floordiv__(self, other: Any) -> Any:
        return divided(self, other)[0] if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return divided(other, self)[0] if _is_size(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return divided(self, other)[1] if _is_size(other) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return divided(other, self)[1] if _is_size(other) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return divided(self, other) if _is_size(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return divided(other, self) if _is_size(other) else NotImplemented

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if type(other) is not int or other < 0 or modulus is not None:
            return pow(int(self), other, modulus)
        return power(self, other)

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        return pow(other, int(self), modulus)

    def __neg__(self) -> Any:
        return _sum((self, -1))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __truediv__(self, other: Any) -> Any:
        return int(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / int(self)

    __radd__, __rmul__ = __add__, __mul__

    # -- decisions -----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        return _holds("==", self - other) if _is_size(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return not _holds("==", self - other) if _is_size(other) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return _holds(">=", self - other) if _is_size(other) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return _holds(">=", self - other - 1) if _is_size(other) else NotImplemented

    def __le__(self, other: Any) -> Any:
        return _holds(">=", other - self) if _is_size(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return _holds(">=", other - self - 1) if _is_size(other) else NotImplemented

    def __bool__(self) -> bool:
        return not _holds("==", self)

    def __index__(self) -> int:
        decider = _DECIDER.get()
        if decider is None:
            raise UndecidedSizeError(f"{self} is asked for as a number, and it is not known here which one")
        return decider.number(self)

    __int__ = __index__

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None else round(int(self), digits)

    def __float__(self) -> float:
        return float(int(self))


def any_symbolic(*shapes: Iterable[int | None] | None) -> bool:
    """Whether sizes that are no numbers are among these: what is found out for them goes into no cache."""
    return any(type(size) is SizeExpr for sizes in shapes if sizes is not None for size in sizes)


def _is_size(value: object) -> bool:
    return type(value) is int or type(value) is SizeExpr or type(value) is bool


def _holds(relation: str, difference: int) -> bool:
    """Whether `difference relation 0`: by its value, its bounds, or whoever decides here."""
    if type(difference) is not SizeExpr:
        return difference == 0 if relation == "==" else difference >= 0
    decider = _DECIDER.get()
    if decider is not None:
        return decider.decide(relation, difference)
    known = within_bounds(relation, difference.bounds)
    if known is None:
        raise UndecidedSizeError(f"whether {difference} {relation} 0 depends on sizes that are not known here")
    return known


def within_bounds(relation: str, bounds: Bounds) -> bool | None:
    """Whether every, or no, size within bounds stands in a relation to 0; None if some do."""
    low, high = bounds
    if relation == ">=":
        return True if low is not None and low >= 0 else False if high is not None and high < 0 else None
    if low == high == 0:
        return True
    return False if (low is not None and low > 0) or (high is not None and high < 0) else None


# -- text --------------------------------------------------------------------------------------------------------


def _rank(term: tuple[Monomial, int]) -> Any:
    """Sorts products: long ones first, equal ones by their text."""
    product = term[0]
    return -len(product), tuple(map(str, product))


def _term_text(product: Monomial, factor: int) -> str:
    sign, size = "-" if factor < 0 else "+", abs(factor)
    if sign == "+" and size == 1 and len(product) == 1:
        return sign + str(product[0])
    atoms = [f"({atom})" if isinstance(atom, SizeFunction) and atom.is_infix else str(atom) for atom in product]
    return sign + "*".join([*([str(size)] if size != 1 or not product else []), *atoms])


def _is_simple(operand: SizeExpr | int) -> bool:
    """Whether a size stands as an operand of // and % without parentheses."""
    if type(operand) is not SizeExpr:
        return operand >= 0
    (product, factor), *rest = operand.terms.items()
    return not rest and factor == 1 and len(product) == 1 and isinstance(product[0], SizeSymbol)


def _symbols(atom: Atom) -> Iterable[SizeSymbol]:
    return (atom,) if isinstance(atom, SizeSymbol) else atom.symbols


def _evaluated(atom: Atom, values: Mapping[Any, int]) -> int:
    if atom in values:
        return values[atom]
    if isinstance(atom, SizeSymbol):
        return atom.size
    operands = [o.evaluate(values) if type(o) is SizeExpr else o for o in atom.operands]
    if not atom.is_infix:
        return least(*operands) if atom.name == "min" else greatest(*operands)
    found = divided(operands[0], operands[1])[atom.name == "%"]
    return _replaced_alone(found, values)


def _replaced_alone(size: int, values: Mapping[Any, int]) -> int:
    """The value of a size that has become one of the atoms that have values, now that its operands are simpler."""
    if type(size) is SizeExpr and len(size.terms) == 1:
        ((product, factor),) = size.terms.items()
        if factor == 1 and len(product) == 1 and product[0] in values:
            return values[product[0]]
    return size


# -- sums and products -------------------------------------------------------------------------------------------


def _terms(size: int) -> Mapping[Monomial, int]:
    return size.terms if type(size) is SizeExpr else {(): int(size)}


def _of_terms(terms: Mapping[Monomial, int]) -> int:
    """The size with these terms, an int if no symbol is left."""
    kept = {product: factor for product, factor in terms.items() if factor}
    if not kept:
        return 0
    return kept[()] if kept.keys() == {()} else SizeExpr(kept)


def _sum(*parts: tuple[int, int]) -> int:
    """The sum of sizes, each with a factor."""
    terms: Counter[Monomial] = Counter()
    for size, factor in parts:
        for product, own in _terms(size).items():
            terms[product] += own * factor
    return _of_terms(terms)


def _product(a: int, b: int) -> int:
    terms: Counter[Monomial] = Counter()
    for left, factor in _terms(a).items():
        for right, other in _terms(b).items():
            terms[tuple(sorted((*left, *right), key=str))] += factor * other
    return _of_terms(terms)


def without_quotients(size: int) -> int:
    """The size, where a quotient times its divisor becomes a difference: 4*(n//4) is n-(n % 4).

    Differences of sizes often cancel in this form, which else would be longer than the normal one.
    """
    terms = _terms(size)
    for product, factor in terms.items():
        for atom in product:
            rest = _without_divisor(product, factor, atom)
            if rest is not None:
                assert isinstance(atom, SizeFunction)
                others = {p: f for p, f in terms.items() if p != product}
                dividend, divisor = atom.operands
                whole = dividend - divided_by_positive(dividend, divisor)[1]
                return without_quotients(_sum((_of_terms(others), 1), (_product(whole, rest), 1)))
    return size


def _without_divisor(product: Monomial, factor: int, atom: Atom) -> int | None:
    """The rest of a term without a quotient and its divisor; None if it does not hold both."""
    if not isinstance(atom, SizeFunction) or atom.name != "//":
        return None
    rest = list(product)
    rest.remove(atom)
    return _exactly({tuple(rest): factor}, atom.operands[1])


# -- division ----------------------------------------------------------------------------------------------------


def divided(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder of sizes, as `divmod` of ints gives them.

    Raises:
        ZeroDivisionError: The divisor is 0.

    >>> n = SizeSymbol("n").size
    >>> divided(4 * n + 6, 4)
    (n+1, 2)
    """
    if type(a) is not SizeExpr and type(b) is not SizeExpr:
        return divmod(a, b)
    if b < 1:
        if b == 0:
            raise ZeroDivisionError("a size is divided by 0")
        quotient, remainder = divided(-a, -b)
        return quotient, -remainder
    return divided_by_positive(a, b)


def divided_by_positive(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder, where the divisor is known to be 1 or more."""
    if type(a) is not SizeExpr and type(b) is not SizeExpr:
        return divmod(a, b)
    return _division(_Form(a), _Form(b))


@lru_cache(1 << 14)
def _division(dividend: _Form, divisor: _Form) -> tuple[int, int]:
    a, b = dividend.size, divisor.size
    found = _exactly(_terms(a), b)
    if found is not None:
        return found, 0
    return _by_number(a, b) if type(b) is not SizeExpr else _by_size(a, b)


def _exactly(terms: Mapping[Monomial, int], divisor: int) -> int | None:
    """The terms divided by a product, each of them; None if one is no multiple of it."""
    (product, factor), *more = _terms(divisor).items()
    if more:
        return 1 if terms == _terms(divisor) else None
    found = {}
    for own, number in terms.items():
        rest = _removed(own, product)
        if rest is None or number % factor:
            return None
        found[rest] = number // factor
    return _of_terms(found)


def _removed(product: Monomial, part: Monomial) -> Monomial | None:
    rest = list(product)
    for atom in part:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _by_number(a: int, b: int) -> tuple[int, int]:
    """Division by a number: multiples of it come out of the quotient, and common factors are divided by first."""
    terms = _terms(a)
    outside = _of_terms({product: factor // b for product, factor in terms.items()})
    inside = {product: factor % b for product, factor in terms.items() if factor % b}
    number = inside.pop((), 0)
    common = math.gcd(b, *inside.values())
    rest = _of_terms({product: factor // common for product, factor in inside.items()}) + number // common
    quotient, remainder = _atoms(rest, b // common)
    if inside and all(2 * factor > b for factor in inside.values()):  # (2*n)//3 is n-(n+2)//3
        above = _of_terms(dict.fromkeys(inside, 1))
        away = _of_terms({product: b - factor for product, factor in inside.items()})
        quotient = above - divided_by_positive(away + b - 1 - number, b)[0]
    return outside + quotient, common * remainder + number % common


def _by_size(a: int, b: SizeExpr) -> tuple[int, int]:
    """Division by a size: terms that are multiples of it come out of the quotient."""
    pairs = [({product: factor}, _exactly({product: factor}, b)) for product, factor in _terms(a).items()]
    outside = sum(found for _, found in pairs if found is not None)
    rest = _sum(*((_of_terms(term), 1) for term, found in pairs if found is None))
    quotient, remainder = _atoms(rest, b)
    return outside + quotient, remainder


def _atoms(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder where no rule takes the size further apart."""
    if type(a) is not SizeExpr and type(b) is not SizeExpr:
        return divmod(a, b)
    if all(within_bounds(">=", bounds_of(size)) for size in (a, b - 1 - a)):
        return 0, a
    quotient: int = _atom("//", a, b)
    if type(b) is int and (inner := _inner_quotient(a)) is not None:  # (x//p + c)//b is (x + p*c)//(p*b)
        dividend, divisor, number = inner
        quotient = divided(dividend + divisor * number, divisor * b)[0]
    simple = _without_remainders(a, b)
    remainder: int = divided(simple, b)[1] if simple is not a else _atom("%", a, b)
    return quotient, remainder


def _atom(name: str, *operands: int) -> SizeExpr:
    return SizeExpr({(SizeFunction(name, operands),): 1})


def _inner_quotient(a: int) -> tuple[int, int, int] | None:
    """(x, p, c) of `x//p + c` with a number p."""
    terms = dict(_terms(a))
    number = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((product, factor),) = terms.items()
    atom = product[0]
    if len(product) != 1 or factor != 1 or not isinstance(atom, SizeFunction) or atom.name != "//":
        return None
    dividend, divisor = atom.operands
    return (dividend, divisor, number) if type(divisor) is int else None


def _without_remainders(a: int, b: int) -> int:
    """A size with the same remainder as `a`: (x%p + y)%b is (x + y)%b where b divides p."""
    if type(b) is not int:
        return a
    found: int = a
    for product, factor in _terms(a).items():
        atom = product[0] if len(product) == 1 else None
        if isinstance(atom, SizeFunction) and atom.name == "%":
            dividend, divisor = atom.operands
            if type(divisor) is int and divisor % b == 0:
                found = found + factor * (dividend - _of_terms({product: 1}))
    return found


def power(size: int, exponent: int) -> int:
    """A size to the power of a number.

    Raises:
        TypeError: The result need not be a size.
    """
    if type(exponent) is not int or exponent < 0:
        raise TypeError(f"a size to the power of {exponent} need not be a size")
    return math.prod([size] * exponent)


# -- minima and maxima -------------------------------------------------------------------------------------------


def least(*sizes: int) -> int:
    """The minimum of sizes, without a decision.

    >>> n, m = SizeSymbol("n").size, SizeSymbol("m").size
    >>> least(n, 1), least(n, m, n)
    (1, min(m, n))
    """
    return _extreme("min", sizes)


def greatest(*sizes: int) -> int:
    """The maximum of sizes, without a decision."""
    return _extreme("max", sizes)


def _extreme(name: str, sizes: Iterable[int]) -> int:
    numbers: list[int] = []
    for size in _flattened(name, sizes):
        if not any(_is_beyond(name, other, size) for other in numbers):
            numbers = [other for other in numbers if not _is_beyond(name, size, other)]
            numbers.append(size)
    if len(numbers) == 1:
        return numbers[0]
    return _atom(name, *sorted(numbers, key=lambda size: (type(size) is int, str(size))))


def _flattened(name: str, sizes: Iterable[int]) -> Iterator[int]:
    for size in sizes:
        (product, factor), *rest = _terms(size).items()
        atom = product[0] if len(product) == 1 and factor == 1 and not rest else None
        if isinstance(atom, SizeFunction) and atom.name == name:
            yield from atom.operands
        else:
            yield size


def _is_beyond(name: str, a: int, b: int) -> bool:
    """Whether `a` is for sure the minimum (or maximum) of the two."""
    low, _ = bounds_of(b - a if name == "min" else a - b)
    return low is not None and low >= 0


# -- bounds ------------------------------------------------------------------------------------------------------


def bounds_of(size: int, known: Mapping[Atom, Bounds] | None = None) -> Bounds:
    """The bounds of a size that follow from those of its atoms.

    Several forms are looked at, and the tightest bounds taken: the size itself; with a minimum or maximum as each of
    its operands; with remainders written as x-p*(x//p); and multiplied by the divisors of its quotients, which makes
    them sums: n-n//2 is (n+n%2)/2, so at least 1.

    Args:
        size: A size or a number.
        known: Bounds of atoms that are tighter than those of their own.
    """
    if type(size) is not SizeExpr:
        return size, size
    return _found_bounds(size, known) if known else _own_bounds(_Form(size))


class _Form:
    """A size as the key of a cache: equal by form, where comparing sizes might ask for a decision."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Form) and _terms(self.size) == _terms(other.size)

    def __hash__(self) -> int:
        return hash(self.size)


@lru_cache(1 << 14)
def _own_bounds(form: _Form) -> Bounds:
    return _found_bounds(cast(SizeExpr, form.size), {})


def _found_bounds(size: SizeExpr, known: Mapping[Atom, Bounds]) -> Bounds:
    found = _tighter(_plain_bounds(size.terms, known), _bounds_by_cases(size.terms, known))
    if not any(isinstance(atom, SizeFunction) for product in size.terms for atom in product):
        return found
    factor = math.lcm(*(_divisor(atom, "//") for product in size.terms for atom in product))
    if factor > 1:
        low, high = _plain_bounds(_terms(without_quotients(size * factor)), known)
        found = _tighter(found, (None if low is None else -(-low // factor), None if high is None else high // factor))
    return _tighter(found, _plain_bounds(_as_quotients(size.terms), known))


def _bounds_by_cases(terms: Mapping[Monomial, int], known: Mapping[Atom, Bounds]) -> Bounds:
    """Bounds of a sum in which a minimum or maximum is a term: those of the sums with its operands instead."""
    for product, factor in terms.items():
        atom = product[0] if len(product) == 1 else None
        if isinstance(atom, SizeFunction) and not atom.is_infix:
            rest = _of_terms({own: number for own, number in terms.items() if own != product})
            cases = [bounds_of(rest + factor * operand, known) for operand in atom.operands]
            return _extreme_bounds("min" if (factor > 0) == (atom.name == "min") else "max", cases)
    return None, None


def _divisor(atom: Atom, name: str) -> int:
    """The number by which an atom divides; 1 if it does not."""
    divides = isinstance(atom, SizeFunction) and atom.name == name and type(atom.operands[1]) is int
    return int(atom.operands[1]) if divides else 1  # type: ignore[union-attr]


def _as_quotients(terms: Mapping[Monomial, int]) -> Mapping[Monomial, int]:
    """Terms in which x%p stands as x-p*(x//p), though that is not the normal form."""
    found: Counter[Monomial] = Counter()
    for product, factor in terms.items():
        divisor = _divisor(product[0], "%") if len(product) == 1 else 1
        if divisor == 1:
            found[product] += factor
            continue
        dividend = cast(SizeFunction, product[0]).operands[0]
        for own, number in _terms(dividend).items():
            found[own] += factor * number
        found[(SizeFunction("//", (dividend, divisor)),)] -= factor * divisor
    return found


def _tighter(a: Bounds, b: Bounds) -> Bounds:
    lows = [low for low in (a[0], b[0]) if low is not None]
    highs = [high for high in (a[1], b[1]) if high is not None]
    return max(lows, default=None), min(highs, default=None)


def _plain_bounds(terms: Mapping[Monomial, int], known: Mapping[Atom, Bounds]) -> Bounds:
    """Bounds of a sum whose atoms are shifted to begin at 0, so that the sign of each coefficient says what it does."""
    atoms = {atom: _atom_bounds(atom, known) for product in terms for atom in product}
    if any(low is None for low, _ in atoms.values()):
        return None, None
    shifted: Counter[Monomial] = Counter()
    for product, factor in terms.items():
        for own, number in _shifted(product, {atom: cast(int, low) for atom, (low, _) in atoms.items()}).items():
            shifted[own] += factor * number
    spans = {a: None if high is None else high - cast(int, low) for a, (low, high) in atoms.items()}
    low = high = cast("int | None", shifted.pop((), 0))
    for product, factor in shifted.items():
        if factor:
            reach = _reach(product, spans)
            if factor < 0:
                low = None if reach is None or low is None else low + factor * reach
            else:
                high = None if reach is None or high is None else high + factor * reach
    return low, high


def _shifted(product: Monomial, lows: Mapping[Atom, int]) -> Mapping[Monomial, int]:
    """A product of atoms, each written as its least value and what is above that."""
    found: Mapping[Monomial, int] = {(): 1}
    for atom in product:
        following: Counter[Monomial] = Counter()
        for own, number in found.items():
            following[own] += number * lows[atom]
            following[(*own, atom)] += number
        found = following
    return found


def _reach(product: Monomial, spans: Mapping[Atom, int | None]) -> int | None:
    """The greatest value of a product of shifted atoms."""
    reach = 1
    for atom in product:
        span = spans[atom]
        if span is None:
            return None
        reach *= span
    return reach


def _atom_bounds(atom: Atom, known: Mapping[Atom, Bounds]) -> Bounds:
    if isinstance(atom, SizeSymbol):
        return _tighter((atom.low, atom.high), known.get(atom, (None, None)))
    bounds = [bounds_of(operand, known) for operand in atom.operands]
    own = known.get(atom, (None, None))
    if atom.name in ("min", "max"):
        return _tighter(own, _extreme_bounds(atom.name, bounds))
    (low, high), (smallest, greatest_divisor) = bounds
    if smallest is None or smallest < 1:
        return own
    if atom.name == "%":
        return _tighter(own, (0, None if greatest_divisor is None else greatest_divisor - 1))
    if low is not None and low >= 0:
        least_quotient = 0 if greatest_divisor is None else low // greatest_divisor
        return _tighter(own, (least_quotient, None if high is None else high // smallest))
    exact = smallest == greatest_divisor
    found = (None if low is None else low // smallest, None if high is None or not exact else high // smallest)
    return _tighter(own, found)


def _extreme_bounds(name: str, bounds: Iterable[Bounds]) -> Bounds:
    lows, highs = zip(*bounds, strict=True)
    if name == "min":
        known = [high for high in highs if high is not None]
        return (None if None in lows else min(lows)), min(known, default=None)
    known = [low for low in lows if low is not None]
    return max(known, default=None), (None if None in highs else max(highs))
