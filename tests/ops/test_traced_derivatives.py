"""First and second derivatives of every operator, traced: the bits of eager mode, in the recorded call and the next.

Every sample of a differentiable operator serves, kinks included, since eager mode is what counts. A run of the whole
suite tries the first few of each; `JIT_ALL_SAMPLES=1` tries all of them, optimised too, in some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir.op import REGISTRY, Op
from tests.registry_cases import Case, all_cases, differentiable, tensors_in, weights_for
from tests.tolerances import assert_close, tolerance_of

ALL = os.environ.get("JIT_ALL_SAMPLES") == "1"
SAMPLES = {False: 1000, True: 1000} if ALL else {False: 4, True: 1}
"""How many samples of an operator are tried, plain and optimised."""
DIFFERENTIABLE = [op for op in REGISTRY.values() if "grad" not in op.missing]
FLAT = {
    "arange", "argsort", "argsort.stable", "bartlett_window", "blackman_window", "detach_copy", "empty_permuted",
    "empty_strided", "eye", "fft_fftfreq", "fft_rfftfreq", "hamming_window", "hann_window", "isclose", "isneginf",
    "isposinf", "isreal", "kaiser_window", "logspace", "new_empty", "new_full", "new_ones", "new_zeros",
    "normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor", "normal.float_float", "quantize_per_channel",
    "quantize_per_tensor", "random", "repeat_interleave.Tensor", "unique_consecutive",
}  # fmt: skip
"""Operators that are not declared to have no derivative, and whose results carry none: composites that make something
new, integers and answers, draws, what is zero everywhere, and what nobody has derived."""
ROUNDINGS = 1000
"""By how many times the usual tolerance optimised derivatives may differ: kernels add in another order, and a chain of
derivatives makes the difference larger."""


def derivatives(case: Case, function: Callable[..., Any]) -> list[Any]:
    """The outputs, the gradients of their weighted sum, and those of a weighted sum of the gradients: arrays, None for
    those that there are not, and before each order which of them require grad. An error ends the list by its type."""
    args, kwargs = case.arguments()
    inputs = differentiable(case.op, args, kwargs)
    for tensor in inputs:
        tensor.requires_grad_()
    jit.manual_seed(Case.SEED)
    seen: list[Any] = []
    try:
        found = list(tensors_in(function(*args, **kwargs)))
        seen += [np.array(t.detach().numpy()) for t in found]
        for order in (1, 2):
            roots = [t for t in found if t is not None and t.requires_grad]
            seen.append([t is not None and t.requires_grad for t in found])
            if not roots or not inputs:
                break
            found = list(jit.grad(roots, inputs, weights_for(roots), allow_unused=True, create_graph=order == 1))
            seen += [None if t is None else np.array(t.detach().numpy()) for t in found]
    except jit.Error as error:
        seen.append(type(error))
    return seen


def orders(seen: list[Any]) -> int:
    """How many orders of derivatives there are among what `derivatives` has seen."""
    return sum(any(item) for item in seen if isinstance(item, list))


def assert_same(found: list[Any], expected: list[Any], what: str) -> None:
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), what
        else:
            assert a is b or a == b, what


def assert_near(found: list[Any], expected: list[Any], what: str) -> None:
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            row = tolerance_of(b.dtype)
            scale = float(np.max(np.abs(b[np.isfinite(b)].astype(np.complex128)), initial=1.0))
            assert_close(a, b, rtol=row.rtol * ROUNDINGS, atol=row.atol * ROUNDINGS * scale, message=what)
        else:
            assert a is b or a == b, what


def chosen(op: Op, optimize: bool) -> list[Case]:
    """The samples that are tried; those that are known to be smooth first."""
    return sorted(all_cases(op), key=lambda case: not case.sample.grad)[: SAMPLES[optimize]]


@pytest.mark.parametrize("optimize", [False, True], ids=["plain", "optimised"])
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_derivatives(op: Op, optimize: bool) -> None:
    compare = assert_near if optimize else assert_same
    for case in chosen(op, optimize):
        expected = derivatives(case, case.function)
        traced = jit.trace(case.function, optimize=optimize)
        for call in ("recorded", "run from the recording"):
            compare(derivatives(case, traced), expected, f"{case.id}, {call}")
        assert traced.hits == 1 or isinstance(expected[0], type), case.id


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_samples_have_derivatives(op: Op) -> None:
    """What is compared above is something: a gradient flows in one of the samples that are tried."""
    reached = max((orders(derivatives(case, case.function)) for case in chosen(op, optimize=False)), default=0)
    assert (reached > 0) == (op.name.removeprefix("aten::") not in FLAT)
