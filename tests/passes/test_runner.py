"""The runner: pipelines, titled results, verification between passes, dumps; and that OPTIMIZE changes no bit."""

import itertools
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expecttest import assert_expected_inline
from hypothesis import given, settings
from hypothesis import strategies as st

import jit.passes
from jit.ir import Error, Graph, TensorType, Value, dtypes, find, parse, verify
from jit.ir.errors import GraphError, UsageError
from jit.ir.types import is_contiguous
from jit.passes import CLEANUP, EXPORT, OPTIMIZE, apply, find_pass, run
from jit.runtime.arrays.execute import execute
from jit.runtime.arrays.interpreter import Interpreter
from tests.passes.common import chain

UNFUSED = [name for name in OPTIMIZE if name != "fuse"]
"""OPTIMIZE as far as the passes of these tests go; test_fuse.py has the rest."""

TEXT = """graph(%x : Float(2)) {
  %5 : Float(2) = aten::mul(%x, 2)
  %6 : Float(2) = aten::mul(%x, 2)
  %7 : Float(2) = aten::mul(%5, %6)
  %8 : Float(2) = aten::neg(%7)
  return (%7)
}"""


def test_results_are_titled_and_replay_the_graph() -> None:
    graph = parse(TEXT)
    results = run(graph, ["cse", "dce", "cse", "canonicalize"])
    assert [(r.name, r.changed) for r in results] == [
        ("cse", True), ("dce", True), ("cse", False), ("canonicalize", True),
    ]  # fmt: skip
    assert results[0].title.startswith("after cse (") and results[2].title.endswith(" ms, unchanged)")
    assert "aten::neg" in str(results[0].graph) and "aten::neg" not in str(results[1].graph)
    assert str(results[3].graph) == str(graph) and results[3].graph is not graph
    assert str(results[3]) == f"# {results[3].title}\n{graph}" and str(parse(str(results[3]))) == str(graph)
    graph.drop_stages(0)
    assert "%1 : Float(2) = aten::mul(%0, %0)" in str(results[3].graph)


def test_without_the_graphs_in_between() -> None:
    graph, other = parse(TEXT), parse(TEXT)
    done, results = apply(graph, EXPORT), run(other, EXPORT)
    assert [(name, changed) for name, changed, _ in done] == [(result.name, result.changed) for result in results]
    assert str(graph) == str(other)


@pytest.mark.parametrize("pipeline", [CLEANUP, UNFUSED, EXPORT], ids=["CLEANUP", "OPTIMIZE", "EXPORT"])
def test_pipelines(pipeline: list[str]) -> None:
    graph = parse(TEXT)
    run(graph, pipeline)
    merged = pipeline is not CLEANUP
    assert len(graph) == (2 if merged else 3)
    assert not any(result.changed for result in run(graph, pipeline))


def test_unknown_passes_are_refused_before_any_runs() -> None:
    graph = parse(TEXT)
    with pytest.raises(
        UsageError,
        match=r"no pass called 'dcee'; the passes are absorb, advance, batch_mm, canonicalize, constant_fold, cse",
    ):
        run(graph, ["dce", "dcee"])
    assert str(graph) == TEXT
    with pytest.raises(UsageError, match="no pass called 'analysis'"):
        find_pass("analysis")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a pass that leaves an invalid graph."""
    module = types.ModuleType("jit.passes.broken")

    def broken(graph: Graph) -> bool:
        next(graph.nodes).output.name = "x"
        return True

    module.broken = broken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jit.passes.broken", module)
    monkeypatch.setattr(jit.passes, "_file", lambda name: Path(__file__))
    return "broken"


def test_a_pass_that_leaves_an_invalid_graph_is_named(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_VERIFY", "1")
    with pytest.raises(GraphError, match="the pass broken left an invalid graph: the graph violates invariant 3"):
        run(parse(TEXT), [broken])
    monkeypatch.setenv("JIT_VERIFY", "0")
    run(parse(TEXT), [broken])


def test_an_invalid_graph_is_not_blamed_on_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_VERIFY", "1")
    graph = parse(TEXT)
    next(graph.nodes).output.name = "x"
    with pytest.raises(GraphError, match="the graph was invalid before any pass ran"):
        run(graph, CLEANUP)


def test_dumps_are_numbered_and_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(TEXT)
    run(graph, ["cse", "dce"], dump=tmp_path / "made" / "on the way")
    monkeypatch.setenv("JIT_DUMP", str(tmp_path / "made" / "on the way"))
    run(graph, ["canonicalize"])
    files = sorted((tmp_path / "made" / "on the way").iterdir())
    assert [file.name for file in files] == [
        "00-input.ir",
        "01-cse.ir",
        "02-dce.ir",
        "03-input.ir",
        "04-canonicalize.ir",
    ]
    assert files[0].read_text() == TEXT + "\n" and str(parse(files[-1].read_text())) == str(graph)


def test_large_constants_are_dumped_beside_the_text(tmp_path: Path) -> None:
    graph = Graph()
    array = np.arange(50, dtype=np.float32)
    graph.set_return([graph.add("prim::Constant", (), {"value": array}, [TensorType(dtypes.float32, (50,))]).output])
    run(graph, CLEANUP, dump=tmp_path)
    (data,) = tmp_path.glob("*.npy")
    digest = data.stem.replace("-", ":")
    read = parse((tmp_path / "02-canonicalize.ir").read_text(), tensors={digest: np.load(data)})
    np.testing.assert_array_equal(next(read.nodes).attributes["value"], array)


def test_an_unwritable_dump_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Error, match=r"^JIT_DUMP: cannot write .*00-input\.ir: .*; choose a folder .*, or unset it$"):
        run(parse(TEXT), CLEANUP, dump=tmp_path / "file")


def test_a_hundred_thousand_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_VERIFY", "0")  # once at the end will do
    graph = chain(100_000)
    run(graph, UNFUSED)
    verify(graph)
    assert len(graph) == 100_000


# -- OPTIMIZE changes no bit, and lets nothing share memory that did not share it --------------------------------


def test_all_together() -> None:
    graph = parse(
        """graph(%x : Float(2, 3), %w : Float(3)) {
          %n : int = prim::size[dim=1](%x)
          prim::Guard[expected=3](%n)
          %y : Float(2, 3) = prim::Scale[body=@0](%x, %w)
          %z : Float(2, 3) = prim::Scale[body=@1](%x, %w)
          %a : Float(2, 3) = aten::add(%y, %z)
          %v : Float(6) = aten::view[size=[%n, 2]](%a)
          %b : Float(6) = aten::view[size=[6]](%v)
          return (%b)
        }
        where @0 = graph(%x : Float(2, 3), %w : Float(3)) {
          %0 : Float(2, 3) = aten::mul(%x, %w)
          %1 : Float(2, 3) = aten::mul(%0, 1)
          return (%1)
        }
        where @1 = graph(%x : Float(2, 3), %w : Float(3)) {
          %0 : Float(2, 3) = aten::mul(%x, %w)
          %1 : Float(2, 3) = aten::neg(%0)
          %2 : Float(2, 3) = aten::neg(%1)
          return (%2)
        }""".replace("%v : Float(6)", "%v : Float(3, 2)")
    )
    run(graph, UNFUSED)
    assert_expected_inline(
        str(graph),
        """\
graph(%x : Float(2, 3), %w : Float(3)) {
  %0 : Float(2, 3) = aten::mul(%x, %w)
  %a : Float(2, 3) = aten::add(%0, %0)
  %b : Float(6) = aten::view[size=[6]](%a)
  return (%b)
}""",
    )


SHAPE = (2, 3)
INPUTS = [TensorType(d, SHAPE) for d in (dtypes.float32, dtypes.float16, dtypes.int32, dtypes.float32)]


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    """Graphs full of what the passes look for: repetition, neutral numbers, casts and views of 2 x 3 arrays."""
    graph = Graph()
    arrays: dict[Value, Any] = {}
    for name, type in zip("xyzw", INPUTS, strict=True):
        arrays[graph.add_input(type, name)] = np.ones(SHAPE, type.dtype.numpy if type.dtype else None)
    array = np.array([[1, 0, -2], [3, 4, 5]], np.float32)
    arrays[graph.add("prim::Constant", (), {"value": array}, [INPUTS[0]]).output] = array
    for _ in range(draw(st.integers(1, 12))):
        _grow(graph, draw, arrays)
    graph.set_return(draw(st.lists(st.sampled_from(list(arrays)), min_size=1, max_size=4)))
    return graph


def _grow(graph: Graph, draw: st.DrawFn, arrays: dict[Value, Any]) -> None:
    """One more node, typed by what running it gives, as the tracer does."""
    value = draw(st.sampled_from(list(arrays)[-6:]))
    array = arrays[value]
    kind = draw(st.sampled_from(["mul", "add", "sub", "neg", "t", "permute", "view", "_to_copy", "expand", "binary"]))
    args: tuple[Any, ...] = (value,)
    attributes: dict[str, Any] = {}
    if kind in ("mul", "add", "sub"):
        args = (value, draw(st.sampled_from([1, 0, 1.0, 0.0, -0.0, 2])))
    elif kind == "binary":
        same = [other for other in arrays if arrays[other].shape == array.shape]
        kind, args = "mul", (value, draw(st.sampled_from(same)))
    elif kind == "permute":
        attributes = {"dims": tuple(draw(st.permutations([0, 1])))}
    elif kind == "_to_copy":
        attributes = {"dtype": draw(st.sampled_from([t.dtype for t in INPUTS]))}
    elif kind == "expand":
        attributes = {"size": (-1, array.shape[1])}
    elif kind == "view":
        contiguous = isinstance(value.type, TensorType) and value.type.strides is None
        attributes = {"size": draw(st.sampled_from([array.shape, (3, 2), (-1, 3)])) if contiguous else array.shape}
    node = graph.add(f"aten::{kind}", args, attributes)
    op = find(node.kind)
    assert op is not None
    with np.errstate(all="ignore"):
        (result,) = execute(op, op.join([arrays.get(a, a) if isinstance(a, Value) else a for a in args], attributes))
    strides = tuple(stride // result.itemsize for stride in result.strides)
    type = TensorType(dtypes.from_numpy(result.dtype), result.shape, strides)
    node.output.type = TensorType(type.dtype, type.shape) if is_contiguous(result.shape, strides) else type
    arrays[node.output] = result


def outputs_of(graph: Graph, arrays: list[Any]) -> list[Any]:
    return Interpreter(graph).run(0, arrays)[0]


def _bits(array: Any) -> bytes:
    """The bytes, every NaN as zero."""
    return bytes(np.where(array != array, 0, array).astype(array.dtype).tobytes())


def sharing(outputs: list[Any], arrays: list[Any]) -> set[tuple[int, int]]:
    everything = [*arrays, *outputs]
    pairs = itertools.combinations(range(len(everything)), 2)
    return {(i, j) for i, j in pairs if np.shares_memory(everything[i], everything[j])}


def _filled(generator: np.random.Generator, type: TensorType, special: Any) -> Any:
    numbers = generator.integers(-9, 9, SHAPE)
    assert type.dtype is not None
    if type.dtype.is_integral:
        return numbers.astype(type.dtype.numpy)
    return np.where(generator.random(SHAPE) < 0.3, generator.choice(special, SHAPE), numbers / 7).astype(
        type.dtype.numpy
    )


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 99))
def test_optimize_changes_no_bit_and_shares_no_more(graph: Graph, seed: int) -> None:
    verify(graph)
    generator = np.random.default_rng(seed)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40])
    arrays = [_filled(generator, type, special) for type in INPUTS]
    with np.errstate(all="ignore"):
        expected = outputs_of(graph, arrays)
        run(graph, UNFUSED, options={"constant_fold": {"evaluate": execute}})
        actual = outputs_of(graph, arrays)
    for a, b in zip(expected, actual, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        nan = a != a
        assert np.array_equal(nan, b != b)
        assert np.where(nan, 0, a).astype(a.dtype).tobytes() == np.where(nan, 0, b).astype(b.dtype).tobytes(), str(
            graph
        )
    assert sharing(actual, arrays) <= sharing(expected, arrays), str(graph)
    assert all(find(node.kind) or node.kind == "prim::Constant" for node in graph.nodes)
