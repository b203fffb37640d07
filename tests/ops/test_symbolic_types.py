"""Type rules compute with sizes that are symbols: every sample of every operator, at its sizes and at others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from jit.ir.dtypes import float32
from jit.ir.errors import Error
from jit.ir.op import REGISTRY, Op
from jit.ir.size_conditions import SizeConditions
from jit.ir.sizes import SizeExpr, SizeSymbol, deciding
from jit.ir.types import TensorType
from tests.ops.test_ops import arguments, each, type_of
from tests.registry_cases import Case, all_cases, cases, mapped
from tests.tracing.raising import Arrays, Program, by_sizes, trusts_its_caller

TRIALS = 6


def named(type: Any, symbols: dict[SizeSymbol, int]) -> Any:
    """A row-major type with a symbol for each size of 2 and more."""
    if not isinstance(type, TensorType) or type.strides is not None or type.shape is None:
        return type
    dims: list[Any] = []
    for size in type.shape:
        if isinstance(size, int) and size >= 2:
            symbol = SizeSymbol(f"n{len(symbols)}")
            symbols[symbol] = size
            dims.append(symbol.size)
        else:
            dims.append(size)
    return TensorType(type.dtype, tuple(dims), None, type.device)


def at(value: Any, sizes: Mapping[SizeSymbol, int]) -> Any:
    """A type, or types in lists, at values of the symbols."""
    if isinstance(value, (tuple, list)):
        return type(value)(at(item, sizes) for item in value)
    if type(value) is SizeExpr:
        return value.evaluate(sizes)
    if not isinstance(value, TensorType):
        return value
    shape, strides = (None if dims is None else at(dims, sizes) for dims in (value.shape, value.strides))
    return TensorType(value.dtype, shape, strides, value.device)


@cases(lambda op: op.type_rule is not None or op.kind in ("view", "pointwise"))
def test_type_rules_take_symbols(case: Case) -> None:
    symbols: dict[SizeSymbol, int] = {}
    values = arguments(case.op, case.sample)
    operands = [each(value, lambda array: named(type_of(array), symbols)) for value in values]
    conditions = SizeConditions(symbols)
    with deciding(conditions):
        types = case.op.infer(operands)
    assert at(types, symbols) == case.op.infer([each(v, type_of) for v in values])
    draw = random.Random(case.id)
    for _ in range(TRIALS):
        others: dict[int, int] = {}
        sizes = {s: others.setdefault(n, draw.choice([n, draw.randint(2, 12), 9])) for s, n in symbols.items()}
        if conditions.holds(sizes):
            assert at(types, sizes) == case.op.infer([at(operand, sizes) for operand in operands])


def test_what_a_rule_refuses_it_refuses_for_symbols() -> None:
    n, m = SizeSymbol("n"), SizeSymbol("m")
    operands = [TensorType(float32, (s.size,)) for s in (n, m)]
    with deciding(SizeConditions({n: 3, m: 4})), pytest.raises(Error, match="do not broadcast"):
        REGISTRY["aten::add"].infer([*operands, 1])


@pytest.mark.parametrize("op", [op for op in REGISTRY.values() if op.kind != "composite" and not trusts_its_caller(op)])
def test_what_a_kernel_refuses_by_sizes_its_rule_refuses(op: Op) -> None:
    """Else a call that nobody uses would fit at some sizes and raise at others, unseen."""
    if op.schema.name in ("as_strided", "as_strided_scatter"):
        return  # which are refused by the memory of their operand, not by sizes
    for case in all_cases(op):
        program = Program(case)
        values = arguments(op, case.sample)
        for arrays in [] if program.raises(program.arrays) else filter(program.raises, by_sizes(program.arrays)):
            types = _of_arrays(values, arrays)
            if not op.may_raise(types):
                with pytest.raises(Error):
                    op.infer(types)


def _of_arrays(values: list[Any], new: Arrays) -> list[Any]:
    """The types of arguments with other arrays in their places."""
    rest = iter(new)
    replaced = [mapped(value, lambda _: next(rest)) for value in values]
    assert next(rest, None) is None
    return [each(value, type_of) for value in replaced]
