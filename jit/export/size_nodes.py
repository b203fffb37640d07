"""Sizes as ONNX nodes: `Shape`, then the arithmetic that an expression asks for, each part of it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn

from jit.ir.size_conditions import SizeConditions
from jit.ir.sizes import Atom, Monomial, SizeExpr, SizeFunction, SizeSymbol, bounds_of

from .complexes import Pairs
from .proxies import OnnxProxy, Unsupported

if TYPE_CHECKING:
    import onnx_ir

    from .builder import OnnxBuilder


class SizeNodes:
    """Writes sizes that follow from dynamic axes.

    Args:
        builder: Takes the nodes.
    """

    def __init__(self, builder: OnnxBuilder) -> None:
        self._g = builder
        self.sources: dict[SizeSymbol, tuple[OnnxProxy, int]] = {}
        """An input and its dim for each symbol."""
        self.names: dict[SizeSymbol, str] = {}
        """The names of the axes where they differ from those of the symbols."""
        self.values: dict[onnx_ir.Value, SizeExpr] = {}
        """The sizes by the ONNX values that hold them."""
        self.lists: dict[onnx_ir.Value, tuple[int, ...]] = {}
        """Several sizes by the ONNX value that holds them."""
        self._lines: dict[str, OnnxProxy] = {}
        self._numbers: dict[str, OnnxProxy] = {}

    def memory(self) -> Any:
        """All that is written so far, as `restore` takes it."""
        return dict(self._lines), dict(self._numbers)

    def restore(self, memory: Any) -> None:
        """Forget what was written since."""
        self._lines, self._numbers = memory

    def text(self, size: int | None) -> int | str | None:
        """A size as a model names it: `2*n`."""
        if type(size) is not SizeExpr:
            return size
        lone = size.lone_symbol
        return str(size) if lone is None else self.names.get(lone, lone.name)

    def number(self, size: SizeExpr) -> OnnxProxy:
        """The size as an int64 tensor without dims."""
        key = str(size)
        if key not in self._numbers:
            self._numbers[key] = self._g.op("Squeeze", self.line(size), self._g.ints([0]))
        return self._numbers[key]

    def line(self, size: int) -> OnnxProxy:
        """The size as an int64 tensor with one dim of size 1."""
        if type(size) is not SizeExpr:
            return self._g.ints([size])
        found = self._once(str(size), lambda: self._sum(size))
        self.values[found.value] = size
        self.lists[found.value] = (size,)
        return found

    def several(self, sizes: Sequence[int]) -> OnnxProxy:
        """Sizes, and numbers among them, as an int64 tensor with one dim."""
        if len(sizes) == 1:
            return self.line(sizes[0])

        def write() -> OnnxProxy:
            lines = []
            for varies, group in groupby(sizes, lambda size: type(size) is SizeExpr):
                run = list(group)
                lines += [self.line(size) for size in run] if varies else [self._g.ints(run)]
            return self._g.op("Concat", *lines, axis=0)

        found = self._once(", ".join(map(str, sizes)), write)
        self.lists[found.value] = tuple(sizes)
        return found

    def _once(self, key: str, write: Callable[[], OnnxProxy]) -> OnnxProxy:
        if key not in self._lines:
            self._lines[key] = write()
        return self._lines[key]

    def _sum(self, size: SizeExpr) -> OnnxProxy:
        added = [self._term(product, factor) for product, factor in size.terms.items() if factor > 0]
        taken = [self._term(product, -factor) for product, factor in size.terms.items() if factor < 0]
        total = self._chain("Add", added or [self._g.ints([0])])
        return self._chain("Sub", [total, *taken])

    def _term(self, product: Monomial, factor: int) -> OnnxProxy:
        numbers = [] if factor == 1 and product else [self._g.ints([factor])]

        def write() -> OnnxProxy:
            return self._chain("Mul", [*map(self._atom, product), *numbers])

        return self._once(str(SizeExpr({product: factor})), write)

    def _chain(self, name: str, items: list[OnnxProxy]) -> OnnxProxy:
        return reduce(lambda left, right: self._g.op(name, left, right), items)

    def _atom(self, atom: Atom) -> OnnxProxy:
        if isinstance(atom, SizeSymbol):
            return self._once(str(atom), lambda: self._read(atom))
        return self._once(str(atom), lambda: self._function(atom))

    def _read(self, symbol: SizeSymbol) -> OnnxProxy:
        g, (x, dim) = self._g, self.sources[symbol]
        tensor = x.real if isinstance(x, Pairs) else x
        if g.opset >= 15:
            found: OnnxProxy = g.op("Shape", tensor, start=dim, end=dim + 1)
        else:
            found = g.op("Gather", g.op("Shape", tensor), g.ints([dim]), axis=0)
        return found

    def _function(self, function: SizeFunction) -> OnnxProxy:
        g, operands = self._g, [self.line(operand) for operand in function.operands]
        if not function.is_infix:
            return g.op("Min" if function.name == "min" else "Max", *operands)
        dividend, divisor = operands
        if function.name == "%":
            return g.op("Mod", dividend, divisor)
        low, _ = bounds_of(function.operands[0])
        if low is None or low < 0:  # ONNX rounds towards zero
            dividend = g.op("Sub", dividend, g.op("Mod", dividend, divisor))
        return g.op("Div", dividend, divisor)


class FixedSizes:
    """Answers what symbolics ask about sizes, as far as it is the same in every run.

    Args:
        conditions: What is known of the sizes.
        text: Says what a size is called.
    """

    def __init__(self, conditions: SizeConditions, text: Callable[[int], object]) -> None:
        self._conditions = conditions
        self._text = text

    def decide(self, relation: str, difference: SizeExpr) -> bool:
        """Whether `difference relation 0`.

        Raises:
            Unsupported: That depends on the run.
        """
        known = self._conditions.would_say(relation, difference)
        return self._refuse(difference) if known is None else known

    @property
    def estimating(self) -> FixedSizes:
        """Itself: what a model does may not rest on an estimate."""
        return self

    def number(self, size: SizeExpr) -> int:
        """The number that a size is.

        Raises:
            Unsupported: That depends on the run.
        """
        known = self._conditions.simplified(size)
        return self._refuse(size) if type(known) is SizeExpr else known

    def _refuse(self, size: SizeExpr) -> NoReturn:
        raise Unsupported(needs_a_number(size, self._text))


def needs_a_number(size: SizeExpr, text: Callable[[int], object] = str) -> str:
    """The reason why an operator cannot be written that is given a size of which it would have to know the number."""
    of = " and ".join(repr(text(symbol.size)) for symbol in sorted(size.symbols, key=str))
    return f"it needs a fixed number where it is given the size of {of}, which differs from run to run"


__all__ = ["FixedSizes", "SizeNodes", "needs_a_number"]
