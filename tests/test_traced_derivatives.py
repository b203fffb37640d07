"""First and second derivatives of every operator, traced: the bits of eager mode, in the recorded call and the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit.ir.op import REGISTRY, Op
from tests.registry_cases import Case, all_cases, bits, floats, tensors_in, weights_for

SAMPLES = 6
"""How many samples of an operator are tried."""


def derivatives(case: Case, function: Callable[..., Any]) -> list[Any]:
    """The outputs, the gradients of their weighted sum, and those of a weighted sum of the gradients."""
    args, kwargs = case.arguments()
    inputs = floats(case.op, args, kwargs)
    for tensor in inputs:
        tensor.requires_grad_()
    jit.manual_seed(Case.SEED)
    found = list(tensors_in(function(*args, **kwargs)))
    seen: list[Any] = [bits(t) for t in found]
    for order in (1, 2):
        roots = [t for t in found if t is not None and t.requires_grad]
        seen.append([t is not None and t.requires_grad for t in found])
        if not roots or not inputs:
            break
        found = list(jit.grad(roots, inputs, weights_for(roots), allow_unused=True, create_graph=order == 1))
        seen += [None if t is None else bits(t) for t in found]
    return seen


@pytest.mark.parametrize("op", [op for op in REGISTRY.values() if "grad" not in op.missing], ids=lambda op: op.name)
def test_derivatives(op: Op) -> None:
    for case in (case for case in all_cases(op)[:SAMPLES] if case.sample.grad):
        try:
            expected = derivatives(case, case.function)
        except jit.Error:  # no second derivative is declared, say
            continue
        traced = jit.trace(case.function, optimize=False)
        for call in ("recorded", "run from the recording"):
            assert derivatives(case, traced) == expected, f"{case.id}, {call}"
        assert traced.hits == 1, case.id
