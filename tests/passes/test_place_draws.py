"""place_draws: draws become arithmetic on places, with the numbers that the interpreter draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from expecttest import assert_expected_inline

import jit
import jit.nn.functional as F
from jit.eager.generators import default_generator
from jit.ir import RandomState
from tests.passes.common import transformed, unchanged

STATE = RandomState(seed=2**63 + 5, offset=2**64 - 3)
"""A state whose offset wraps around in the middle of the draws, and whose words use all 64 bits."""

DRAWS: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "dropout": (lambda x: F.dropout(x, 0.3, True), ("float32", "float64", "float16", "bfloat16")),
    "dropout in place": (lambda x: F.dropout(x * 2, 0.3, True, inplace=True), ("float32",)),
    "dropout of a transposition": (lambda x: F.dropout(x.transpose(0, 1) + 1, 0.5, True), ("float32",)),
    "dropout of channels": (lambda x: F.dropout1d(x, 0.5, True), ("float32",)),
    "dropout of everything": (lambda x: F.dropout(x, 1.0, True), ("float32",)),
    "bernoulli": (lambda x: jit.bernoulli(x, 0.25), ("int64", "float32", "bool")),
    "rand": (lambda x: jit.rand(4, 5) + jit.rand(4, 5, dtype=jit.float64), ("float32",)),
    "rand_like": (jit.rand_like, ("float32", "float64", "float16", "bfloat16")),
    "randn": (lambda x: jit.randn(5, 3) * 2, ("float32",)),
    "randn_like": (jit.randn_like, ("float32", "float64", "float16", "bfloat16")),
    "normal_": (lambda x: (x * 1).normal_(1.5, 0.3), ("float32", "float16")),
    "uniform_": (lambda x: (x * 1).uniform_(-1.5, 0.3), ("float32", "float64", "float16")),
    "exponential_": (lambda x: (x * 1).exponential_(0.3), ("float32", "float64")),
    "randint": (lambda x: jit.randint(-5, 2**31 - 6, (7, 9)), ("float32",)),
    "randint of a wide range": (lambda x: jit.randint(-5, 2**40, (7, 9)), ("float32",)),
    "randint_like": (lambda x: jit.randint_like(x, -3, 17), ("int64", "float32")),
    "several": (lambda x: F.dropout(F.dropout(x, 0.3, True) + jit.rand(1), 0.2, True), ("float32",)),
    "several with one that stays": (
        lambda x: (F.dropout(x, 0.5, True), jit.randperm(5), jit.rand_like(x), jit.multinomial(jit.ones(6), 2)),
        ("float32",),
    ),
}
"""Draws, and dtypes of their operand."""
CASES = [(name, dtype) for name, (_, dtypes) in DRAWS.items() for dtype in dtypes]


def drawn(function: Callable[[Any], Any], x: jit.Tensor) -> tuple[list[bytes], RandomState]:
    """The bytes of what a function draws, and the state behind it."""
    default_generator().set_state(STATE)
    results = function(x)
    results = results if isinstance(results, tuple) else (results,)
    return [np.asarray(result).tobytes() for result in results], default_generator().state


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=[f"{name}-{dtype}".replace(" ", "_") for name, dtype in CASES])
def test_same_bits(name: str, dtype: str) -> None:
    """Kernels draw what eager mode does, in all sizes, and leave the state that it leaves."""
    function = DRAWS[name][0]
    traced = jit.trace(function)
    for sizes in [(5, 7)] * 3 + [(6, 8), (3, 9), (11, 1), (1, 5), (0, 4), (30, 50)] * 2:
        x = jit.from_numpy(np.arange(np.prod(sizes), dtype=np.float64).reshape(sizes) % 7).to(getattr(jit, dtype))
        assert drawn(traced, x) == drawn(function, x), sizes


@pytest.mark.parametrize("number", [0, -1, 2**64 - 1])
def test_gradients(number: int) -> None:
    """The backward, and that of the backward, see the numbers of the forward."""
    x = jit.from_numpy(np.linspace(-1, 1, 40).reshape(5, 8)).requires_grad_()

    def step(x: jit.Tensor) -> tuple[jit.Tensor, ...]:
        y = (F.dropout(x * x, 0.4, True) * jit.rand_like(x)).sum()
        (first,) = jit.grad(y, x, create_graph=True)
        (second,) = jit.grad((first * first).sum(), x)
        return y, first, second

    traced = jit.trace(step)
    for _ in range(4):
        jit.manual_seed(number)
        found = traced(x)
        jit.manual_seed(number)
        for a, b in zip(found, step(x), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-13)


def test_later_stages() -> None:
    """A module whose backward is asked for outside of the recording, and a checkpoint, whose draws are repeated."""
    x = jit.ones(6, 5, requires_grad=True)

    def inner(x: jit.Tensor) -> jit.Tensor:
        return F.dropout(x.exp(), 0.5, True).sin()

    for function in (inner, lambda x: jit.autograd.checkpoint(inner, x) * 2):
        traced = jit.trace(function)
        for _ in range(5):
            results = []
            for f in (traced, function):
                jit.manual_seed(3)
                y = f(x)
                results.append((y.detach().numpy(), jit.grad(y.sum(), x)[0].numpy(), default_generator().state))
            (y, gradient, state), (expected, of_eager, state_of_eager) = results
            np.testing.assert_allclose(y, expected, rtol=1e-6)
            np.testing.assert_allclose(gradient, of_eager, rtol=1e-6)
            assert state == state_of_eager


def test_one_kernel() -> None:
    """What is drawn, what feeds it and what follows are one kernel; the state is read once for several draws."""
    traced = jit.trace(lambda x: F.dropout(x * 2, 0.3, True) + jit.rand_like(x))
    x = jit.ones(6, 5)
    for _ in range(3):
        traced(x)
    assert len(traced.kernels) == 1
    text = str(traced.graphs[-1].graph)
    assert text.count("_begin_draw") == 1 and "bernoulli" not in text and "rand_like" not in text


def test_threads() -> None:
    """A kernel that threads share draws the same."""
    x = jit.ones(1 << 20)
    assert drawn(jit.trace(jit.rand_like), x) == drawn(jit.rand_like, x)


def test_graph() -> None:
    after = transformed(
        "place_draws",
        """graph(%x : Float(6), %rng : Generator) {
          %0 : Float(6), %1 : Generator = aten::bernoulli.p[p=0.7](%x, %rng)  # m.py:1 in f
          %2 : Float(6), %3 : Generator = aten::randn_like(%x, %1)
          %4 : Long(2), %5 : Generator = aten::randperm[n=2](%3)
          %6 : Long(3), %7 : Generator = aten::randint[high=9, size=[3]](%5)
          return (%0, %2, %4, %6)
          update (%rng = %7)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(6), %rng : Generator) {
  %8 : Long(2), %9 : Generator = aten::_begin_draw[blocks=4](%rng)  # m.py:1 in f
  %10 : Long() = aten::select.int[dim=0, index=0](%8)  # m.py:1 in f
  %11 : Long() = aten::select.int[dim=0, index=1](%8)  # m.py:1 in f
  %12 : Long(6) = aten::arange.start_step[start=0, end=6]()  # m.py:1 in f
  %13 : Long(6) = aten::view[size=[6]](%12)  # m.py:1 in f
  %14 : Int(6) = aten::_random_word(%13, %10, %11)  # m.py:1 in f
  %15 : Int(6) = aten::bitwise_right_shift(%14, 8)  # m.py:1 in f
  %16 : Int(6) = aten::bitwise_and(%15, 16777215)  # m.py:1 in f
  %17 : Float(6) = aten::_to_copy[dtype=jit.float32](%16)  # m.py:1 in f
  %18 : Float(6) = aten::mul(%17, 5.960464477539063e-08)  # m.py:1 in f
  %19 : Bool(6) = aten::lt(%18, 0.7)  # m.py:1 in f
  %20 : Float(6) = aten::_to_copy[dtype=jit.float32](%19)  # m.py:1 in f
  %21 : Long() = aten::select.int[dim=0, index=0](%8)
  %22 : Long() = aten::select.int[dim=0, index=1](%8)
  %23 : Long() = aten::add(%22, 2)
  %24 : Long(6) = aten::arange.start_step[start=0, end=6]()
  %25 : Long(6) = aten::view[size=[6]](%24)
  %26 : Long(6) = aten::bitwise_and(%25, -2)
  %27 : Long(6) = aten::bitwise_or(%25, 1)
  %28 : Int(6) = aten::_random_word(%26, %21, %23)
  %29 : Int(6) = aten::_random_word(%27, %21, %23)
  %30 : Long(6) = aten::_to_copy[dtype=jit.int64](%28)
  %31 : Long(6) = aten::bitwise_and(%30, 4294967295)
  %32 : Double(6) = aten::_to_copy[dtype=jit.float64](%31)
  %33 : Double(6) = aten::add(%32, 0.5)
  %34 : Double(6) = aten::mul(%33, 2.3283064365386963e-10)
  %35 : Double(6) = aten::log(%34)
  %36 : Double(6) = aten::mul(%35, -2.0)
  %37 : Double(6) = aten::sqrt(%36)
  %38 : Long(6) = aten::_to_copy[dtype=jit.int64](%29)
  %39 : Long(6) = aten::bitwise_and(%38, 4294967295)
  %40 : Double(6) = aten::_to_copy[dtype=jit.float64](%39)
  %41 : Double(6) = aten::add(%40, 0.5)
  %42 : Double(6) = aten::mul(%41, 2.3283064365386963e-10)
  %43 : Double(6) = aten::mul(%42, 6.283185307179586)
  %44 : Long(6) = aten::bitwise_and(%25, 1)
  %45 : Bool(6) = aten::eq(%44, 0)
  %46 : Double(6) = aten::cos(%43)
  %47 : Double(6) = aten::sin(%43)
  %48 : Double(6) = aten::where.self(%45, %46, %47)
  %49 : Double(6) = aten::mul(%37, %48)
  %50 : Float(6) = aten::_to_copy[dtype=jit.float32](%49)
  %4 : Long(2), %5 : Generator = aten::randperm[n=2](%9)
  %51 : Long(2), %52 : Generator = aten::_begin_draw[blocks=2](%5)
  %53 : Long() = aten::select.int[dim=0, index=0](%51)
  %54 : Long() = aten::select.int[dim=0, index=1](%51)
  %55 : Long(3) = aten::arange.start_step[start=0, end=6, step=2]()
  %56 : Long(3) = aten::view[size=[3]](%55)
  %57 : Int(3) = aten::_random_word(%56, %53, %54)
  %58 : Long(3) = aten::arange.start_step[start=1, end=7, step=2]()
  %59 : Long(3) = aten::view[size=[3]](%58)
  %60 : Int(3) = aten::_random_word(%59, %53, %54)
  %61 : Long(3) = aten::_to_copy[dtype=jit.int64](%57)
  %62 : Long(3) = aten::bitwise_and(%61, 4294967295)
  %63 : Long(3) = aten::mul(%62, 9)
  %64 : Long(3) = aten::_to_copy[dtype=jit.int64](%60)
  %65 : Long(3) = aten::bitwise_and(%64, 4294967295)
  %66 : Long(3) = aten::mul(%65, 9)
  %67 : Long(3) = aten::bitwise_right_shift(%63, 32)
  %68 : Long(3) = aten::add(%66, %67)
  %69 : Long(3) = aten::bitwise_right_shift(%68, 32)
  %70 : Long(3) = aten::add(%69, 0)
  return (%20, %50, %4, %70)
  update (%rng = %52)
}""",
    )


def test_what_stays() -> None:
    """What raises, what no kernel computes, complex numbers, unknown sizes, and draws on a device."""
    assert unchanged(
        "place_draws",
        """graph(%x : Float(6), %y : Double(6), %z : ComplexFloat(6), %u : Float(?), %rng : Generator) {
          %0 : Float(6), %1 : Generator = aten::bernoulli.p[p=1.5](%x, %rng)
          %2 : Float(6), %3 : Generator = aten::bernoulli(%x, %1)
          %4 : Double(6), %5 : Generator = aten::randn_like(%y, %3)
          %6 : ComplexFloat(6), %7 : Generator = aten::rand_like(%z, %5)
          %8 : Float(?), %9 : Generator = aten::rand_like(%u, %7)
          %10 : Float(3, device=cuda:0), %11 : Generator = aten::rand[size=[3], device="cuda:0"](%9)
          %12 : Long(6), %13 : Generator = aten::randint[high=0, size=[6]](%11)
          return (%0, %2, %4, %6, %8, %10, %12)
          update (%rng = %13)
        }""",
    )
