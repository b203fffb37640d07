"""Every operator with its backward over sizes that vary: right at each of them, and all sizes have names.

Each operator that has a derivative runs on a sample and on the same sample of other sizes, traced and untraced. A run
of the whole suite tries the first sample of each operator; `JIT_ALL_SAMPLES=1` tries all of them, in some minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import jit
from jit.ir.op import REGISTRY, Op
from tests.registry_cases import Case, all_cases, tensors_in
from tests.sampling import one_of
from tests.tolerances import assert_close
from tests.tracing.test_general_stages import unknown
from tests.tracing.test_traced_sizes import ALL, LEFT, Sized, _arrays, growths, same

SAMPLES = 1000 if ALL else 1
"""How many samples of an operator are tried."""

BY_ELEMENTS = "sizes that depend on elements"
FLOAT = "sizes are computed with floats"

UNKNOWN = {"masked_scatter": BY_ELEMENTS, "interpolate": FLOAT}
"""Operators whose recordings for many sizes have tensors of unknown sizes, and why."""


def has_backward(op: Op) -> bool:
    """Whether an operator is differentiated here; of derivatives themselves, those are left out that are told sizes."""
    is_told = op.name.endswith("_backward") and any("size" in a.name or a.name == "pad" for a in op.arguments)
    return "grad" not in op.missing and not is_told


def is_differentiated(case: Case) -> bool:
    return bool(Sized(case).wanted(*Sized(case).arguments()))


def sized(case: Case) -> Sequence[Sized]:
    """The case in four sizes that its operator takes; none if there are no such."""
    arrays = [a for a in _arrays([case.sample.args, case.sample.kwargs]) if any(n > 1 for n in a.shape)]
    for grow in list(growths(arrays))[:6] if arrays and Sized(case).runs() else ():
        found = [Sized(case, rule) for rule in (same, grow, twice(grow, 2), twice(grow, 3))]
        if all(each.runs() for each in found):
            return found
    return []


def twice(grow: Callable[[int], int], times: int) -> Callable[[int], int]:
    """A rule that is followed several times."""
    return lambda n: twice(grow, times - 1)(grow(n)) if times else n


def derived(call: Callable[..., Any], case: Sized) -> list[Any]:
    """The results of a call, and their gradients."""
    args, kwargs = case.arguments()
    wanted = case.wanted(args, kwargs)
    for tensor in wanted:
        tensor.requires_grad_()
    jit.manual_seed(Case.SEED)
    results = call(*args, **kwargs)
    roots = [r for r in results if r.requires_grad] if wanted else []
    # constant ones would have no gradient through what takes means away
    weights = [(jit.arange(r.numel()) * 0.7).cos().reshape(r.shape).to(r.dtype) for r in roots]
    return [*(r.detach() for r in results), *(jit.grad(roots, wanted, weights, allow_unused=True) if roots else ())]


@pytest.mark.parametrize("op", one_of(2, filter(has_backward, REGISTRY.values())), ids=lambda op: op.name)
def test_operators_and_their_backwards(op: Op) -> None:
    name = op.name.removeprefix("aten::")
    for case in [c for c in all_cases(op) if is_differentiated(c)][:SAMPLES]:

        def called(*args: Any, **kwargs: Any) -> Any:
            return [t.clone() for t in tensors_in(case.function(*args, **kwargs))]  # noqa: B023  # called right here

        traced = jit.trace(called)
        for each in sized(case):
            for found, wanted in zip(derived(traced, each), derived(called, each), strict=True):
                assert (found is None) == (wanted is None)
                if found is not None:
                    assert_close(found, wanted, rtol=1e-3, atol=1e-4)
        recording = traced._last
        if recording is not None and recording.general:
            assert recording.refusal is None
            without = [line for chain in recording.chains for line in unknown(recording.folded(chain))]
            assert not without or name in UNKNOWN or name in LEFT
