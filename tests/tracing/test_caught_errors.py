"""Every operator that can raise, inside a function that catches it: traced calls do what eager ones do, in any order.

`tests/tracing/raising.py` makes the calls; `Op.raises` has to say of every operator whether elements make it raise.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager import dispatch
from jit.ir.op import REGISTRY, Op
from jit.runtime.arrays import execute as kernels
from tests.registry_cases import Case, all_cases, bits, tensors_in
from tests.tracing.raising import Arrays, Program, by_elements, by_sizes, calls_of, tensors_of

KINDS = {"elements": by_elements, "sizes": by_sizes}
IN_CI = 16
"""Every so manieth operator is looked at in CI."""


def used(call: Callable[..., Any]) -> Callable[..., Any]:
    """The result of a call, or something else where it raises."""

    def function(*tensors: jit.Tensor) -> Any:
        try:
            return call(*tensors), 0
        except Exception:
            return [tensor.clone() for tensor in tensors], 1

    return function


def unused(call: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a call raises, which nobody uses otherwise."""

    def function(*tensors: jit.Tensor) -> Any:
        try:
            call(*tensors)
        except Exception:
            return [tensor.clone() for tensor in tensors], 1
        return [tensor.clone() for tensor in tensors], 0

    return function


def seen(function: Callable[..., Any], arrays: Arrays, exact: bool) -> Any:
    """Which way a call went, and what it gave: every bit, or of what sizes and dtypes."""
    jit.manual_seed(Case.SEED)
    result, way = function(*tensors_of(arrays))
    tensors = list(tensors_in(result))
    return way, [bits(t) if exact else (t.dtype, tuple(t.shape)) for t in tensors]


def check(op: Op, kind: str, optimize: bool, orders: tuple[bool, ...] = (True, False)) -> bool:
    """Compare all calls; whether there were any that raise."""
    calls = calls_of(op, KINDS[kind])
    if calls is None:
        return False
    for form in (used, unused):
        for good_first in orders:
            eager = form(calls.program.call)
            traced = jit.trace(eager, optimize=optimize)
            for number, arrays in enumerate(calls.in_turn(good_first)):
                where = f"{calls.program.case}, {form.__name__}, good_first={good_first}, call {number}"
                assert seen(traced, arrays, not optimize) == seen(eager, arrays, not optimize), where
    return True


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


OPS = list(REGISTRY.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimize", [False, True])
def test_some_operators(kind, optimize):
    found = [op.name for op in OPS[::IN_CI] if check(op, kind, optimize, (optimize,))]
    assert len(found) >= {"elements": 2, "sizes": 15}[kind]


@pytest.mark.parametrize("optimize", [False, True])
def test_operators_that_elements_make_raise(optimize):
    marked = [op for op in OPS if op.raises]
    found = [op.name for op in marked if check(op, "elements", optimize, (optimize,))]
    assert len(found) >= 33


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimize", [False, True])
def test_all_operators(kind, optimize):
    found = [op.name for op in OPS if check(op, kind, optimize)]
    print(f"{len(found)} of {len(OPS)} operators raise by {kind}")
    assert len(found) >= {"elements": 70, "sizes": 290}[kind]


def raised_by_elements(monkeypatch: Any, cases: Iterator[Case]) -> set[str]:
    """The operators that have raised when elements of these calls were replaced."""
    raised = set()
    real = kernels.execute

    def watching(op: Op, *rest: Any) -> Any:
        try:
            return real(op, *rest)
        except Exception:
            raised.add(op.name)
            raise

    monkeypatch.setattr(dispatch, "execute", watching)
    for program in map(Program, cases):
        for arrays in by_elements(program.arrays):
            program.raises(arrays)
    return raised


SIZES_FROM_ELEMENTS = {"aten::expand"}
"""What gets sizes that were read from elements, and that are guarded."""


def test_declarations_say_which_elements_make_raise(monkeypatch):
    """What raises by elements alone when it is run, and does not say so, is lost where nobody uses its result."""
    firsts = (all_cases(op)[0] for op in OPS[::3] if all_cases(op))
    raised = raised_by_elements(monkeypatch, firsts)
    assert len(raised) >= 8
    assert {name for name in raised if not REGISTRY[name].raises} <= SIZES_FROM_ELEMENTS


@pytest.mark.slow
def test_all_declarations_say_which_elements_make_raise(monkeypatch):
    raised = raised_by_elements(monkeypatch, (case for op in OPS for case in all_cases(op)))
    marked = {op.name for op in OPS if op.raises}
    assert raised - marked == SIZES_FROM_ELEMENTS
    assert marked - raised == {"aten::linalg_lu_factor_ex"}  # with check_errors=True, which no sample asks for
