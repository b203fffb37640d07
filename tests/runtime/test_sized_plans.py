"""Plans for sizes that are expressions: one plan, many sizes, the results of the interpreter at each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import Graph, parse
from jit.ir.errors import DivisionError
from jit.ir.size_conditions import SizeConditions
from jit.ir.sizes import SizeSymbol, deciding
from jit.passes.support.symbolic_sizes import put_numbers
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.kernels.sized import at_sizes
from jit.runtime.plans import entry, sized_calls, sized_tables
from jit.runtime.plans.native import SizedNative
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.plans.sized_words import SizedWords
from jit.tracing.recordings.compiling import optimise
from jit.tracing.recordings.sized_plans import is_alike

pytestmark = pytest.mark.llvm

WINDOW = "bias=None, stride=[1, 1], padding=[1, 1], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1"
POOL = "kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1], ceil_mode=False"
GRAPHS = {
    "pointwise": """graph(%x : Float(n, m), %y : Float(m)) {
  %0 : Float(n, m) = aten::mul(%x, %y)
  %1 : Float(n, m) = aten::tanh(%0)
  return (%1)
}""",
    "a size among the numbers": """graph(%x : Float(n, m)) {
  %0 : Float(n, m) = aten::mul(%x, n)
  %1 : Float(n, m) = aten::add[alpha=2](%0, m)
  return (%1)
}""",
    "means and variances": """graph(%x : Float(n, m)) {
  %0 : Float(n) = aten::mean[dim=[1], keepdim=False](%x)
  %1 : Float(m) = aten::var.correction[dim=[0], correction=1, keepdim=False](%x)
  %2 : Float() = aten::sum(%x)
  return (%0, %1, %2)
}""",
    "softmax": """graph(%x : Float(n, m)) {
  %0 : Float(n, m) = aten::softmax[dim=1](%x)
  %1 : Float(n, m) = aten::softmax[dim=0](%x)
  return (%0, %1)
}""",
    "products": """graph(%x : Float(n, 8), %y : Float(8, m), %w : Float(8, 24)) {
  %0 : Float(n, m) = aten::mm(%x, %y)
  %1 : Float(n, 24) = aten::mm(%x, %w)
  %2 : Float(n, 24) = aten::relu(%1)
  %3 : Float(24, n, strides=[1, 24]) = aten::t(%2)
  %4 : Float(24, 24) = aten::mm(%3, %2)
  return (%0, %2, %4)
}""",
    "batches": """graph(%x : Float(2, n, 8), %y : Float(2, m, 8)) {
  %0 : Float(2, 8, m, strides=[8*m, 1, 8]) = aten::transpose.int[dim0=1, dim1=2](%y)
  %1 : Float(2, n, m) = aten::bmm(%x, %0)
  %2 : Float(2, n, m) = aten::softmax[dim=2](%1)
  %3 : Float(2, n, 8) = aten::bmm(%2, %y)
  return (%3)
}""",
    "views": """graph(%x : Float(n, m, 6)) {
  %0 : Float(n*m, 6) = aten::view[size=[n*m, 6]](%x)
  %1 : Float(6, n*m, strides=[1, 6]) = aten::t(%0)
  %2 : Float(6, n*m) = aten::exp(%1)
  %3 : Float(6, n, m) = aten::view[size=[6, n, m]](%2)
  %4 : Float(6, m, strides=[n*m, 1]) = aten::select.int[dim=1, index=n-1](%3)
  %5 : Float(6, m) = aten::neg(%4)
  return (%3, %5)
}""",
    "joined": """graph(%x : Float(n, m), %y : Float(n, 3)) {
  %0 : Float(n, m) = aten::exp(%x)
  %1 : Float(n, m+3) = aten::cat[dim=1]([%0, %y])
  %2 : Float(n, m+3) = aten::mul(%1, %1)
  return (%2)
}""",
    "convolution": """graph(%x : Float(2, 3, n, m), %w : Float(8, 3, 3, 3)) {
  %0 : Float(2, 8, n, m) = aten::convolution[WINDOW](%x, %w)
  %1 : Float(2, 8, n, m) = aten::relu(%0)
  %2 : Float(2, 8, n//2, m//2), %3 : Long(2, 8, n//2, m//2) = aten::max_pool2d_with_indices[POOL](%1)
  %4 : Float(2, 8, n//2, m//2) = aten::neg(%2)
  return (%4)
}""".replace("WINDOW", WINDOW).replace("POOL", POOL),
    "work of fixed sizes": """graph(%x : Float(n, m), %image : Float(2, 16, 48, 48), %w : Float(16, 16, 3, 3)) {
  %0 : Float(2, 16, 48, 48) = aten::convolution[WINDOW](%image, %w)
  %1 : Float(2, 16, 48, 48) = aten::tanh(%0)
  %2 : Float(2, 16, 24, 24), %3 : Long(2, 16, 24, 24) = aten::max_pool2d_with_indices[POOL](%1)
  %4 : Float(n, m) = aten::mul(%x, 2)
  return (%2, %4)
}""".replace("WINDOW", WINDOW).replace("POOL", POOL),
    "several lives": """graph(%x : Float(n, 16), %a : Float(16, 32), %b : Float(32, 16)) {
  %0 : Float(n, 32) = aten::mm(%x, %a)
  %1 : Float(n, 32) = aten::tanh(%0)
  %2 : Float(n, 16) = aten::mm(%1, %b)
  %3 : Float(n, 16) = aten::tanh(%2)
  %4 : Float(n, 32) = aten::mm(%3, %a)
  %5 : Float(n, 32) = aten::add(%4, %1)
  %6 : Float(n, 16) = aten::mm(%5, %b)
  return (%6)
}""",
}  # fmt: skip
FIRST = {"n": 6, "m": 5}
OTHERS = [(2, 2), (3, 7), (4, 4), (8, 16), (13, 24), (64, 64), (37, 300), (300, 37), (1025, 3)]


def planned(graph: Graph, sizes: Mapping[str, int] = FIRST) -> tuple[PlannedEngine, SizeConditions]:
    conditions = SizeConditions({SizeSymbol(name): size for name, size in sizes.items()})
    with deciding(conditions):
        return PlannedEngine(optimise(graph)), conditions


def inputs_of(graph: Graph, sizes: Mapping[str, int]) -> tuple[Graph, list[Any]]:
    """The graph with numbers for sizes, and arrays for its inputs."""
    fixed = graph.clone()
    put_numbers(fixed, {SizeSymbol(name): size for name, size in sizes.items()})
    random = np.random.default_rng(sum(sizes.values()))
    shapes: list[Any] = [value.type.sizes for value in fixed.inputs]  # type: ignore[attr-defined]
    return fixed, [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def check(engine: PlannedEngine, graph: Graph, sizes: Mapping[str, int]) -> None:
    fixed, arrays = inputs_of(graph, sizes)
    wanted, found = Interpreter(fixed).run(0, arrays)[0], engine.run(0, arrays)[0]
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", GRAPHS)
def test_one_plan_serves_all_sizes(name: str) -> None:
    graph = parse(GRAPHS[name])
    engine, conditions = planned(graph)
    assert [type(piece) for piece in engine.natives[0]] == [SizedNative]
    for n, m in OTHERS:
        sizes = {"n": n, "m": m}
        if conditions.holds({SizeSymbol(symbol): size for symbol, size in sizes.items()}):
            for _ in range(2):
                check(engine, graph, sizes)


@pytest.mark.parametrize("name", GRAPHS)
def test_hardly_any_size_needs_another_plan(name: str) -> None:
    _, conditions = planned(parse(GRAPHS[name]))
    met = [conditions.holds({SizeSymbol("n"): n, SizeSymbol("m"): m}) for n in range(5, 40) for m in range(5, 40)]
    assert sum(met) > 0.9 * len(met), conditions.found


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("name", GRAPHS)
def test_threads_share_steps_of_any_size(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from jit.runtime.kernels.nest_work import NestWork
    from jit.runtime.kernels.work import Work

    for kind in (NestWork, Work):
        monkeypatch.setattr(kind, "long", 1)
    monkeypatch.setattr("jit.runtime.plans.pool.most_parts", lambda: threads)
    graph = parse(GRAPHS[name])
    engine, conditions = planned(graph)
    for n, m in ((2, 2), (13, 24), (64, 64), (300, 37)):
        if conditions.holds({SizeSymbol("n"): n, SizeSymbol("m"): m}):
            check(engine, graph, {"n": n, "m": m})


def test_temporaries_share_slots() -> None:
    engine, _ = planned(parse(GRAPHS["several lives"]))
    (only,) = engine.natives[0]
    assert isinstance(only, SizedNative)
    names = {"n": 512, "m": 5}
    code = only.code.tables.at(tuple(names[symbol.name] for symbol in only.code.tables.symbols))
    temporaries = [b.nbytes for b in only.code.lowering.blocks if b.kind == "temporary" and b.first >= 0]
    assert len(temporaries) > len(only.code.slots.sizes)
    assert code.arena < sum(at_sizes(temporaries, lambda size: size.evaluate({SizeSymbol("n"): 512})))


@pytest.mark.parametrize("name", ["several lives", "products", "batches", "joined"])
def test_no_two_that_live_at_once_share_a_slot(name: str) -> None:
    engine, _ = planned(parse(GRAPHS[name]))
    for each in engine.natives[0]:
        assert isinstance(each, SizedNative)
        lowering, numbers = each.code.lowering, each.code.slots.numbers
        blocks = [b for b in lowering.blocks if b.kind == "temporary" and b.first >= 0]
        for one in blocks:
            for other in blocks:
                apart = one.last < other.first or other.last < one.first
                if one is other or apart or numbers[one] != numbers[other]:
                    continue
                handed = min((one, other), key=lambda b: b.last)
                step = lowering.steps[handed.last]
                assert any(step.operands[i].block is handed for i in step.reusable)


def test_sizes_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    at = sized_tables.SizedTables.at

    def noted(self: Any, sizes: Any) -> Any:
        made.append(sizes)
        return at(self, sizes)

    monkeypatch.setattr(sized_tables.SizedTables, "at", noted)
    graph = parse(GRAPHS["pointwise"])
    engine, _ = planned(graph)
    for n in (3, 4, 3, 4, 3):
        check(engine, graph, {"n": n, "m": 5})
    assert made == [(3, 5), (4, 5)]
    monkeypatch.setattr(sized_calls, "_MOST_SIZES", 2)
    for n in range(2, 12):
        check(engine, graph, {"n": n, "m": 5})
    (only,) = engine.natives[0]
    assert isinstance(only, SizedNative) and len(only.call._calls) <= 2


def test_sizes_share_the_memory_for_temporaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "available", lambda: False)
    graph = parse(GRAPHS["several lives"])
    engine, _ = planned(graph)
    (only,) = engine.natives[0]
    assert isinstance(only, SizedNative)
    for n in (300, 20, 500, 40, 300):
        check(engine, graph, {"n": n, "m": 5})
    (piece,) = only.call._spare._pieces
    largest = only.code.tables.at(tuple(500 if symbol.name == "n" else 5 for symbol in only.code.tables.symbols))
    assert piece.nbytes == largest.arena + 64


@pytest.mark.parametrize("graph", GRAPHS)
def test_an_entry_is_let_be_for_the_sizes_that_come(graph: str) -> None:
    """It is made in the second call; threads that come at once, and arrays that lie otherwise, do without it."""
    text = parse(GRAPHS[graph])
    engine, _ = planned(text)
    sizes = [(3, 5), (300, 5), (7, 6), (3, 5), (40, 50), (41, 50), (3, 5), (1000, 4)]
    for n, m in sizes:
        check(engine, text, {"n": n, "m": m})
    natives = [native for native in engine.natives[0] if isinstance(native, SizedNative)]
    if entry.available():
        assert natives and all(native.call._entry is not None for native in natives)
        for native in natives:
            native.call._entry._lock.acquire()  # type: ignore[union-attr]
    for n, m in reversed(sizes):
        check(engine, text, {"n": n, "m": m})


def test_arrays_that_lie_otherwise() -> None:
    graph = parse(GRAPHS["pointwise"])
    engine, _ = planned(graph)
    fixed, (x, y) = inputs_of(graph, {"n": 7, "m": 9})
    wanted = Interpreter(fixed).run(0, [x, y])[0][0]
    for other in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], np.flip(np.flip(x, 0).copy(), 0)):
        assert np.allclose(engine.run(0, [other, y])[0][0], wanted, atol=1e-6)


def test_arrays_are_copied_to_where_they_should_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SizedNative, "fixed", None)
    graph = parse("""graph(%x : Float(n, m, strides=[1, n])) {
  %0 : Float(n, m) = aten::exp(%x)
  return (%0)
}""")
    engine, _ = planned(graph)
    for n in (3, 4, 5):
        x = np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32)
        for lying in (x, np.asfortranarray(x), x[::-1].copy()[::-1]):
            assert np.allclose(engine.run(0, [lying])[0][0], np.exp(x), rtol=1e-5)


def test_work_that_has_no_code_at_some_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    from jit.ir.errors import CompileError

    graph = parse(GRAPHS["convolution"])
    engine, _ = planned(graph)

    def refuse(self: Any, sizes: Any) -> Any:
        raise CompileError("no code")

    monkeypatch.setattr(sized_tables.SizedTables, "at", refuse)
    check(engine, graph, {"n": 9, "m": 12})


def test_threads_call_with_sizes_of_their_own() -> None:
    graph = parse(GRAPHS["several lives"])
    engine, _ = planned(graph)
    failed: list[BaseException] = []

    def calls(start: int) -> None:
        try:
            for n in range(start, start + 40):
                check(engine, graph, {"n": n, "m": 5})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=calls, args=(start,)) for start in (2, 3, 20, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_an_error_names_the_line() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x + 1) // y

    traced = jit.trace(f)
    for n in (3, 4, 5):
        traced(jit.ones(n, dtype=jit.int64), jit.ones(n, dtype=jit.int64))
    with pytest.raises(DivisionError, match=r"test_sized_plans.py:\d+ in f"):
        traced(jit.ones(6, dtype=jit.int64), jit.zeros(6, dtype=jit.int64))


def test_words() -> None:
    n, m = SizeSymbol("n"), SizeSymbol("m")
    words = SizedWords.of([1, n.size, n.size * m.size, 5, n.size // 2], ["n", "m"])
    assert words.at((7, 3)).tolist() == [1, 7, 21, 5, 3]
    assert words.at((2, 1 << 40)).tolist() == [1, 2, 1 << 41, 5, 1]
    assert SizedWords.of([4, 5], []).at(()).tolist() == [4, 5]


FUNCTIONS: Sequence[tuple[str, Callable[..., Any], Callable[[int], Sequence[Any]]]] = [
    ("mlp", jit.nn.Sequential(jit.nn.Linear(4, 8), jit.nn.ReLU(), jit.nn.Linear(8, 2)), lambda n: [jit.randn(n, 4)]),
    ("layer norm", jit.nn.LayerNorm(6), lambda n: [jit.randn(2, n, 6)]),
    ("attention", jit.nn.functional.scaled_dot_product_attention, lambda n: [jit.randn(2, 4, n, 8)] * 3),
    ("images", jit.nn.Sequential(jit.nn.Conv2d(2, 4, 3), jit.nn.BatchNorm2d(4), jit.nn.ReLU(), jit.nn.MaxPool2d(2)),
     lambda n: [jit.randn(2, 2, n + 2, n + 4)]),
]  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case[0])
def test_recordings_for_many_sizes_are_planned(case: Any) -> None:
    _, function, arguments = case
    traced = jit.trace(function)
    for n in (6, 7, 9, 12):
        given = [x.requires_grad_() for x in arguments(n)]
        traced(*given).sum().backward()
    assert traced.misses == 2
    general = traced._last
    plans = [each.plan for chain in general.chains for each in chain.sized_plans.made]
    assert general.general and plans
    for plan in plans:
        kinds = [node.kind for program in plan.interpreter.programs for node in program.nodes]
        assert isinstance(plan.interpreter.local_plan, PlannedEngine) and "prim::Native" in kinds
        assert "prim::FusionGroup" not in kinds


def test_much_larger_sizes_get_a_plan_of_their_own() -> None:
    traced = jit.trace(lambda x: (x * 2).tanh())
    for n in (4, 5, 6, 7, 30, 3000, 2500, 8):
        traced(jit.ones(n))
    (chain,) = traced._last.chains
    made = [each.sizes for each in chain.sized_plans.made]
    assert [[is_alike(sizes, (n,)) for n in (6, 3000)] for sizes in made] == [[True, False], [False, True]]
