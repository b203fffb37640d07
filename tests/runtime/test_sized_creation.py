"""What follows from sizes alone - ranges, masks, identities, one number everywhere - is made up in native code.

The interpreter's bits are wanted, at sizes that were recorded and at others, empty ones and those of one among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.ir import parse
from jit.ir.errors import ShapeError
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.plans import entry
from jit.runtime.plans.native import SizedNative
from jit.runtime.plans.plan import PlannedEngine
from jit.tracing.recordings.sized_plans import SizedPlans

from .test_sized_plans import inputs_of, planned

pytestmark = pytest.mark.llvm

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
SIZES = [(5, 4), (6, 7), (9, 5), (2, 2), (3, 2), (2, 9), (4, 4), (64, 33), (700, 300), (1, 3), (0, 2), (1, 1), (0, 0)]

OF_SIZES: dict[str, Callable[[int, int, Any], Any]] = {
    "a range": lambda n, k, d: jit.arange(n, dtype=d),
    "a range that moves": lambda n, k, d: jit.arange(k, n + k, dtype=d),
    "of one element": lambda n, k, d: jit.arange(n, n + 1, dtype=d),
    "empty for the smallest size": lambda n, k, d: jit.arange(max(n - 2, 0), dtype=d),
    "with steps": lambda n, k, d: jit.arange(-3, 5 * n, 7, dtype=d),
    "down": lambda n, k, d: jit.arange(n, -n, -2, dtype=d),
    "with steps of a size": lambda n, k, d: jit.arange(0, n * (n + k + 1), n + 1, dtype=d),
    "an identity": lambda n, k, d: (jit.eye(n, k, dtype=d), jit.eye(n, dtype=d)),
    "numbers everywhere": lambda n, k, d: (
        jit.zeros(n, 4, dtype=d), jit.ones(n, k, dtype=d), jit.empty(n, dtype=d), jit.full((k, n), 1, dtype=d),
    ),
    "triangles": lambda n, k, d: (
        jit.ones(n, k, dtype=d).tril(), jit.ones(2, n, k, dtype=d).triu(1), jit.ones(n, n, dtype=d).tril(-2),
        jit.arange(n * k, dtype=d).view(n, k).tril(3),
    ),
    "a mask": lambda n, k, d: jit.arange(n, dtype=d)[:, None] < jit.arange(k, dtype=d),
    "evenly spaced": lambda n, k, d: jit.linspace(0, k, n, dtype=d) if d is not jit.bool else jit.ones(n, dtype=d),
}  # fmt: skip
MIXED: dict[str, Callable[[int, int], Any]] = {
    "evenly spaced fractions": lambda n, k: (jit.linspace(-1, 3.7, n), jit.linspace(0.1, n, n + 3, dtype=jit.float64)),
    "a size everywhere": lambda n, k: (jit.full((n,), n), jit.full((n,), n, dtype=jit.float32), jit.full((k,), n + k)),
    "like another": lambda n, k: (jit.full_like(jit.ones(n), 3.5), jit.empty_like(jit.ones(n, k)) + 1),
    "reduced": lambda n, k: (
        jit.arange(n).sum(), jit.eye(n).sum(0), jit.ones(n, k).sum(1), jit.arange(n * k).view(n, k).sum(0),
    ),
    "running": lambda n, k: jit.arange(n).cumsum(0),
    "viewed": lambda n, k: (
        jit.arange(n * k).view(n, k).t() + 1, jit.arange(n * k).view(n, k)[:, 1:] * 2, jit.arange(n).expand(k, n).neg(),
    ),
    "read along two dims": lambda n, k: (lambda a: (a, a + 1, a[:, None] * a, jit.stack([a, a])))(jit.arange(n)),
    "joined": lambda n, k: jit.cat([jit.arange(n), jit.zeros(k, dtype=jit.int64), jit.arange(k) + n]),
    "positions of words": lambda n, k: F.embedding(jit.arange(k, k + n) % 7, jit.arange(21.0).view(7, 3)),
    "far diagonals": lambda n, k: (jit.ones(n, k).tril(10**6), jit.ones(n, k).triu(-(10**6)), jit.ones(n, k).tril(-9)),
}  # fmt: skip


def flat(results: Any) -> list[Any]:
    return [results] if isinstance(results, jit.Tensor) else [part for each in results for part in flat(each)]


def bits(tensor: Any) -> Any:
    return (tensor.double() if tensor.dtype in (jit.float16, jit.bfloat16) else tensor).numpy().tobytes()


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that general recordings get from now on."""
    found = []
    planned = SizedPlans._planned

    def noted(self: SizedPlans, sizes: tuple[int, ...]) -> Any:
        made = planned(self, sizes)
        found.append(made.plan.interpreter.local_plan)
        return made

    monkeypatch.setattr(SizedPlans, "_planned", noted)
    return found


def kinds(plans: Sequence[Any]) -> set[str]:
    return {node.kind for plan in plans for program in plan.programs for node in program.nodes}


def check(function: Callable[..., Any], plans: Sequence[Any]) -> None:
    traced = jit.trace(function)
    with jit.no_grad():
        for n, k in SIZES:
            x = jit.ones(n, k)
            for found, wanted in zip(flat(traced(x)), flat(function(x)), strict=True):
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                assert bits(found) == bits(wanted), (n, k, found, wanted)
    assert plans and kinds(plans) <= {"prim::sizes", "prim::Native"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_SIZES)
def test_bits_are_those_of_eager_mode(plans: list[Any], name: str, dtype: str) -> None:
    make = OF_SIZES[name]
    check(lambda x: make(x.shape[0], x.shape[1], getattr(jit, dtype)), plans)


@pytest.mark.parametrize("name", MIXED)
def test_bits_of_other_forms(plans: list[Any], name: str) -> None:
    make = MIXED[name]
    if name == "viewed":  # what is returned as a view is one that Python makes
        plain = make
        make = lambda n, k: tuple(part * 1 for part in plain(n, k))  # noqa: E731
    check(lambda x: make(x.shape[0], x.shape[1]), plans)


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "Float"), ("float64", "Double"), ("float16", "Half")])
@pytest.mark.parametrize(("start", "step"), [(0.1, 0.7), (7, 0.1), (-0.3, 3), (2**60 + 1, 0.5), (1e300, -1e297)])
@pytest.mark.parametrize("length", [1, 2, 100, 1001])
def test_fractions_are_counted_as_the_interpreter_does(
    start: float, step: float, length: int, dtype: str, kind: str
) -> None:
    end = start + (length - 0.5) * step
    length = math.ceil((end - start) / step)
    numbers = f"start={start}, end={end}, step={step}, dtype=jit.{dtype}"
    graph = parse(f"graph() {{ %0 : {kind}({length}) = aten::arange.start_step[{numbers}]() return (%0) }}")
    engine = PlannedEngine(graph)
    with np.errstate(over="ignore"):
        (found,), (wanted,) = engine.run(0, [])[0], Interpreter(graph).run(0, [])[0]
    assert engine.natives[0] and found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()


def test_numbers_beyond_int64_are_left_to_the_interpreter() -> None:
    start = 2**63 + 2**40
    text = f"aten::arange.start_step[start={start}, end={start + 3}, step=1, dtype=jit.float64]"
    graph = parse(f"graph() {{ %0 : Double(3) = {text}() return (%0) }}")
    engine = PlannedEngine(graph)
    assert not engine.natives[0]
    with pytest.raises(ShapeError, match="too large"):
        engine.run(0, [])


def decoder() -> Any:
    class Decoder(jit.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = jit.nn.Embedding(9, 16), jit.nn.Embedding(64, 16)
            self.qkv = jit.nn.Linear(16, 48)

        def forward(self, words: Any, past: Any) -> Any:
            start, length = past[0].shape[2], words.shape[1]
            x = self.words(words) + self.places(jit.arange(start, start + length))
            q, k, v = (part.view(1, length, 2, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            k, v = jit.cat([past[0], k], 2), jit.cat([past[1], v], 2)
            seen = jit.arange(start + length) <= jit.arange(start, start + length)[:, None]
            return F.scaled_dot_product_attention(q, k, v, seen) * 2, (k, v)

    return Decoder().eval()


@pytest.mark.skipif(not entry.available(), reason="one call is one where calls are native")
def test_decoding_is_one_native_call(plans: list[Any]) -> None:
    model = decoder()
    traced = jit.trace(model)
    with jit.no_grad():
        past = wanted = (jit.zeros(1, 2, 1, 8), jit.zeros(1, 2, 1, 8))
        for step in range(20):
            words = jit.tensor([[step % 9]])
            (found, past), (right, wanted) = traced(words, past), model(words, wanted)
            assert jit.allclose(found, right, rtol=1e-4, atol=1e-5)
    assert len(plans) <= 2
    for plan in plans:
        assert [node.kind for node in plan.programs[0].nodes] == ["prim::sizes", "prim::Native"]
        assert [type(native) for native in plan.natives[0]] == [SizedNative]


def test_one_plan_serves_causal_attention_of_all_lengths(plans: list[Any]) -> None:
    def attend(x: Any) -> Any:
        return F.scaled_dot_product_attention(x, x, x, is_causal=True) * 2

    traced = jit.trace(attend)
    with jit.no_grad():
        for length in (5, 6, 7, 9, 16, 3, 30):
            x = jit.randn(2, length, 8)
            assert jit.allclose(traced(x), attend(x), rtol=1e-4, atol=1e-5)
    assert len(plans) == 1
    assert kinds(plans) == {"prim::sizes", "prim::Native"}


def test_masks_take_no_memory() -> None:
    graph = parse("""graph(%x : Float(n, n)) {
      %0 : Long(n) = aten::arange.start_step[start=0, end=n, step=1]()
      %1 : Long(n, 1) = aten::unsqueeze[dim=1](%0)
      %2 : Bool(n, n) = aten::le(%0, %1)
      %3 : Float(n, n) = aten::where.self(%2, %x, 0)
      return (%3)
    }""")
    engine, _ = planned(graph, {"n": 6})
    (native,) = engine.natives[0]
    assert [len(step.operands) for step in native.code.lowering.steps] == [2]
    for n in (6, 2, 77):
        fixed, arrays = inputs_of(graph, {"n": n})
        assert np.array_equal(engine.run(0, arrays)[0][0], Interpreter(fixed).run(0, arrays)[0][0])


def test_sizes_that_happen_to_be_equal_are_told_apart() -> None:
    graph = parse("""graph(%x : Float(n), %y : Float(m)) {
      %0 : Long(3) = aten::arange.start_step[start=n, end=n+3, step=1]()
      %1 : Long(3) = aten::arange.start_step[start=m, end=m+3, step=1]()
      %2 : Long(3) = aten::sub(%0, %1)
      %3 : Long(3) = aten::mul(%2, m)
      return (%3)
    }""")
    engine, conditions = planned(graph, {"n": 6, "m": 6})
    assert engine.natives[0] and not conditions.found
    for n, m in ((6, 6), (7, 4)):
        found = engine.run(0, [np.zeros(n, np.float32), np.zeros(m, np.float32)])[0][0]
        assert found.tolist() == [(n - m) * m] * 3


FRACTIONS: dict[str, Callable[[Any], Any]] = {
    "an inverse": lambda x: x * (1 / (x.shape[0] - 3)),
    "a quotient": lambda x: x * (x.shape[1] / (x.shape[0] - x.shape[1])) - 0.1,
    "sums and products": lambda x: x * (2.5 * x.shape[0] / 7 + 1 / (x.shape[1] + 1)),
    "used twice": lambda x: (lambda third: x + third * third - third)(x.shape[0] / 3),
    "in float64": lambda x: x.double() * (0.1 * x.shape[0] - x.shape[1] / 7),
    "an alpha": lambda x: x.add(x, alpha=x.shape[0] / 7),
    "divided by a fraction": lambda x: x * (x.shape[0] / (x.shape[1] - 3.0)),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_fractions_of_sizes_are_those_of_python(plans: list[Any], name: str) -> None:
    function = FRACTIONS[name]
    traced = jit.trace(function)
    for n, k in [(5, 4), (6, 5), (7, 5), (9, 4), (3, 4), (5, 5), (8, 3), (3, 3), (12, 11), (70, 3), (1, 4), (0, 4)]:
        x = jit.rand(n, k)
        try:
            wanted = function(x)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                traced(x)
            continue
        assert bits(traced(x)) == bits(wanted), (n, k)
    native = {"prim::sizes", "prim::Native"}
    assert name == "divided by a fraction" or any(kinds([plan]) == native for plan in plans)


def test_batch_norm_over_many_sizes_is_one_native_call(plans: list[Any]) -> None:
    norm, plain = jit.nn.BatchNorm2d(3), jit.nn.BatchNorm2d(3)
    traced = jit.trace(norm)
    for n in (5, 6, 7, 9, 12):
        x = jit.rand(n, 3, n + 1, 4)
        assert jit.allclose(traced(x), plain(x), rtol=1e-5, atol=1e-6)
        assert jit.allclose(norm.running_var, plain.running_var, rtol=1e-6, atol=1e-7)
    assert [node.kind for node in plans[0].programs[0].nodes] == ["prim::sizes", "prim::Native"]
