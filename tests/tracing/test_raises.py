"""`prim::raises` in graphs: its text, its rules, what passes do with it, how it runs, is saved and is exported."""

import contextlib
import gc
import warnings
from typing import cast

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.ir import parse, verify
from jit.ir.attempts import may_raise
from jit.ir.errors import GraphError
from jit.ir.size_conditions import SizeConditions
from jit.ir.sizes import SizeExpr, deciding
from jit.ir.types import TensorType
from jit.passes.constant_fold import constant_fold
from jit.passes.dce import dce
from jit.passes.distribute import distribute
from jit.runtime.arrays.execute import execute
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.arrays.programs import GuardFailed

GATHER = """graph(%x : Float(3), %i : Long(2)) {
  %0 : bool = prim::raises[op='aten::gather', error='DimError', dim=0](%x, %i)
  prim::Guard[expected=True](%0)
  return (%x)
}"""


def kinds(graph):
    return [node.kind for node in graph.nodes]


def indices(*numbers):
    return jit.tensor(list(numbers))


# -- the node ----------------------------------------------------------------------------------------------------


def test_text_goes_there_and_back():
    graph = parse(GATHER)
    verify(graph)
    assert str(graph) == GATHER


@pytest.mark.parametrize("old, new, match", [
    ("op='aten::gather', ", "", "names no operator"),
    ("error='DimError', ", "", "names no operator"),
    ("aten::gather", "aten::nosuch", "names no operator"),
    ("dim=0", "dim=0, nosuch=1", "has no argument nosuch"),
    (", dim=0", "", "needs dim"),
    ("%0 : bool", "%0 : int", "is one bool"),
])  # fmt: skip
def test_the_verifier_looks_at_it(old, new, match):
    with pytest.raises(GraphError, match=match):
        verify(parse(GATHER.replace(old, new)))


def run(text, *values):
    return Interpreter(parse(text)).run(0, list(values))[0]


def holds(text, *values):
    """Whether the guard of a graph lets the values pass."""
    try:
        run(text, *values)
    except GuardFailed:
        return False
    return True


def test_it_tries_an_operator():
    x = np.ones(3, np.float32)
    assert holds(GATHER, x, np.array([0, 3]))
    assert not holds(GATHER, x, np.array([0, 2]))


def test_another_error_is_another_way():
    text = GATHER.replace("DimError", "LinAlgError")
    assert not holds(text, np.ones(3, np.float32), np.array([0, 3]))


def test_it_tries_numbers():
    text = """graph(%x : int, %y : int) {
      %0 : bool = prim::raises[op='prim::floordiv', error='ZeroDivisionError'](%x, %y)
      prim::Guard[expected=True](%0)
      return (%x)
    }"""
    assert holds(text, 3, 0) and not holds(text, 3, 1)


def test_it_tries_to_write():
    text = """graph(%x : Float(?), %y : Float(?)) {
      %0 : bool = prim::raises[op='aten::add_', error='ShapeError'](%x, %y)
      prim::Guard[expected=True](%0)
      return (%x)
    }"""
    one, two, three = (np.ones(n, np.float32) for n in (1, 2, 3))
    assert holds(text, three, two) and holds(text, one, three) and not holds(text, three, one)


# -- passes ------------------------------------------------------------------------------------------------------


def test_sizes_that_are_known_say_whether_it_raises():
    graph = parse("""graph(%x : Float(3)) {
      %0 : bool = prim::raises[op='aten::view', error='ShapeError', size=[2, 2]](%x)
      prim::Guard[expected=True](%0)
      return (%x)
    }""")
    constant_fold(graph)
    dce(graph)
    assert kinds(graph) == []


@pytest.mark.parametrize(
    "text",
    [
        GATHER,
        GATHER.replace("Float(3)", "Float(?)")
        .replace("gather", "view")
        .replace("dim=0](%x, %i)", "size=[2, 2]](%x)")
        .replace("Dim", "Shape"),
    ],
)
def test_elements_and_unknown_sizes_do_not(text):
    graph = parse(text)
    constant_fold(graph)
    dce(graph)
    assert kinds(graph) == ["prim::raises", "prim::Guard"]


@pytest.mark.parametrize("attempt", [
    "op='aten::view', error='ShapeError', size=[-1, 2]](%x)", "op='aten::mul', error='ShapeError'](%x, %y)",
    "op='aten::add_', error='ShapeError', alpha=1](%x, %y)",
])  # fmt: skip
def test_sizes_that_are_expressions_do_not_where_somebody_decides_on_them(attempt):
    text = f"""graph(%x : Float(n), %y : Float(m)) {{
      %0 : bool = prim::raises[{attempt}
      prim::Guard[expected=True](%0)
      return (%x)
    }}"""
    graph = parse(text)
    shapes = [cast(TensorType, value.type).shape or () for value in graph.inputs]
    symbols = [symbol for shape in shapes for size in shape if isinstance(size, SizeExpr) for symbol in size.symbols]
    with deciding(SizeConditions({symbol: 3 + 2 * index for index, symbol in enumerate(symbols)})):
        constant_fold(graph)
        dce(graph)
        run = Interpreter(graph).run
    assert kinds(graph) == ["prim::raises", "prim::Guard"]
    run(0, [np.ones(3, np.float32), np.ones(5, np.float32)])
    with pytest.raises(GuardFailed):
        run(0, [np.ones(4, np.float32), np.ones(4, np.float32)])


def test_the_type_rule_says_whether_an_operator_of_elements_raises():
    graph = parse(GATHER.replace("Float(3)", "Float(3, 3, 3)"))  # an index of another rank
    constant_fold(graph)
    dce(graph)
    assert kinds(graph) == []


DEAD = """graph(%x : Long(4), %y : Long(4)) {
  %0 : Long(4) = aten::neg(%x)
  %1 : Long(4) = {what}
  return (%x)
}"""


@pytest.mark.parametrize("what, stays", [
    ("aten::gather[dim=0](%0, %y)", True), ("aten::floor_divide(%0, %y)", True), ("aten::remainder(%0, %y)", True),
    ("aten::floor_divide(%0, 0)", True), ("aten::floor_divide(%0, 2)", False), ("aten::mul(%0, %y)", False),
])  # fmt: skip
def test_dce_keeps_what_elements_make_raise(what, stays):
    graph = parse(DEAD.replace("{what}", what))
    dce(graph)
    assert (len(kinds(graph)) == 2) is stays


def test_a_division_of_floats_goes():
    graph = parse(DEAD.replace("{what}", "aten::floor_divide(%0, %y)").replace("Long", "Float"))
    dce(graph)
    assert kinds(graph) == []


def test_dce_keeps_what_sizes_make_raise_where_they_vary():
    text = """graph(%x : Float(?), %y : Float(?)) {
      %0 : Float(?) = aten::mul(%x, 2)
      %1 : Float(?) = aten::add(%0, %y)
      %2 : Float(?) = aten::exp(%x)
      return (%x)
    }"""
    plain, general = parse(text), parse(text)
    dce(plain)
    dce(general, by_sizes=True)
    assert kinds(plain) == []
    assert kinds(general) == ["aten::mul", "aten::add"]


def test_what_may_raise_is_not_cut():
    text = """graph(%x : Long(8), %y : Long(8)) {
      %0 : Long(8) = aten::floor_divide(%x, %y)
      %1 : Long(2) = aten::slice.Tensor[end=2](%0)
      %2 : Long(2) = aten::mul(%1, 3)
      return (%2)
    }"""
    graph = parse(text)
    distribute(graph)
    assert str(graph) == str(parse(text))
    other = parse(text.replace("floor_divide", "add"))
    distribute(other)
    assert kinds(other)[-2:] == ["aten::add", "aten::mul"]


@pytest.mark.parametrize("text, may", [
    ("prim::truediv(1, %n)", True), ("prim::truediv(%n, 2)", False), ("prim::mod(%n, 0)", True),
    ("prim::add(%n, 1)", False), ("prim::pow(%n, 2)", True), ("prim::lshift(1, %n)", True),
])  # fmt: skip
def test_numbers_may_raise(text, may):
    graph = parse(f"graph(%n : int) {{ %0 : float = {text} return (%0) }}")
    assert may_raise(next(graph.nodes)) is may


# -- recordings --------------------------------------------------------------------------------------------------


def pick(x, i):
    try:
        return x[i] * 2
    except IndexError:
        return x.sum()


def fold(x):
    try:
        return x.reshape(-1, 2).sum(1)
    except RuntimeError:
        return -x


def test_two_branches_serve_all_indices():
    f = jit.trace(pick)
    x = jit.arange(4).float()
    for bad in (False, True) * 4:
        assert f(x, indices(1, 7 if bad else 2)).tolist() == (6.0 if bad else [2.0, 4.0])
    assert (f.misses, f.hits) == (2, 6)
    assert "did not come" in f.explain() or "raised DimError" in f.explain()


def test_sizes_serve_each_other_on_both_ways():
    f = jit.trace(fold)
    for n in (4, 6, 5, 7, 8, 9, 10, 11, 12, 13):
        assert f(jit.ones(n)).shape == ((n // 2,) if n % 2 == 0 else (n,))
    assert (f.misses, f.hits) == (4, 6)


def test_a_recording_of_one_size_looks_at_nothing():
    f = jit.trace(fold)
    for _ in range(3):
        f(jit.ones(5))
    assert kinds(f._last.plan(f._last.chains[0]).interpreter.graph) == ["aten::neg"]
    assert f._shortcuts.kept


def test_an_error_that_nobody_catches_is_eagers():
    f, x = jit.trace(lambda x, i: (x.exp()[i] * 2).sum()), jit.arange(4).float()
    for _ in range(3):
        f(x, indices(1))
    with pytest.raises(jit.DimError) as traced:
        f(x, indices(9))
    with pytest.raises(jit.DimError) as eager:
        x.exp()[indices(9)]
    assert str(traced.value) == str(eager.value)
    assert any("test_raises.py" in note and "<lambda>" in note for note in traced.value.__notes__)


def test_an_error_on_the_short_way():
    def f(x, i):
        try:
            return F.embedding(i, x) * 2
        except IndexError:
            return x

    traced, x = jit.trace(f), jit.arange(8).float().reshape(4, 2)
    for _ in range(3):
        traced(x, indices(1, 2))
    assert traced._shortcuts.kept
    for index in (9, 2, 9, 1):
        assert traced(x, indices(0, index)).tolist() == f(x, indices(0, index)).tolist()


def test_an_unknown_path_is_recorded_after_an_error_behind_python():
    calls = []

    class Noted(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(x.tolist())
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return g

    def f(x, i):
        y = Noted.apply(x)
        try:
            y[i]
            return Noted.apply(y * 2)
        except IndexError:
            return Noted.apply(y * 3)

    traced, x = jit.trace(f), jit.ones(2)
    for index in (0, 0, 5, 0, 5):
        calls.clear()
        result = traced(x, indices(index))
        assert result.tolist() == ([5, 5] if index == 0 else [7, 7])
        assert calls == [[1, 1], [4, 4] if index == 0 else [6, 6]]


def test_an_error_of_a_python_function_is_not_raised_twice():
    calls: list[None] = []

    class Strict(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(None)
            if (x < 0).any().item():
                raise OSError("no negative numbers")
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return g

    @jit.trace
    def f(x):
        with contextlib.suppress(OSError):
            return Strict.apply(x)
        return x

    assert f(jit.ones(2)).tolist() == [2, 2]
    assert f(jit.ones(2)).tolist() == [2, 2]
    calls.clear()
    assert f(-jit.ones(2)).tolist() == [-1, -1]
    assert len(calls) == 1


def test_what_python_code_refuses_is_right_for_its_sizes_alone():
    def f(x):
        out = jit.zeros(3)
        try:
            jit.exp(x, out=out)
        except ValueError:
            return x
        return out

    traced = jit.trace(f)
    for n in (4, 5, 6, 3, 4, 5, 3):
        assert traced(jit.zeros(n)).tolist() == f(jit.zeros(n)).tolist()
    assert not any(family.general for family in traced._cache.sizes.families.values())


def test_a_refusal_of_the_tracer_cannot_be_caught():
    @jit.trace
    def f(x):
        try:
            return jit.tensor(x.numpy() * 2)
        except RuntimeError:
            return x

    with pytest.raises(jit.EscapedTracerError, match=r"at test_raises.py:\d+ in f"):
        f(jit.ones(2))


def test_text_of_an_error_is_not_kept():
    @jit.trace
    def f(x, i):
        try:
            return x[i], ""
        except IndexError as error:
            return x, str(error)

    for index in (5, 6, 0, 7):
        expected = f"index {index} is out of bounds" if index else ""
        assert expected in f(jit.ones(2), indices(index))[1]
    assert "makes text of an error" in f.explain() or f.hits == 0


def test_errors_that_the_package_catches_itself_cost_nothing():
    f = jit.trace(lambda x: x + 2 if x == None else x * 2)  # noqa: E711  (a SchemaError on the way)
    for n in (2, 3, 4, 5):
        f(jit.ones(n))
    assert f.hits == 2


def test_strict_refuses_what_is_caught_and_nothing_else():
    f, x = jit.trace(pick, strict=True), jit.arange(4).float()
    assert f(x, indices(1)).tolist() == [2]
    with pytest.raises(jit.TraceError, match=r"test_raises.py:\d+ in pick: the function catches an error"):
        f(x, indices(9))
    g = jit.trace(lambda x, i: x[i], strict=True)
    with pytest.raises(jit.DimError):
        g(x, indices(9))


def test_many_ways_end_in_eager_calls():
    @jit.trace
    def f(x, i):
        for k in range(12):
            with contextlib.suppress(IndexError):
                x = x + x[i[k]].sum()
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in (*range(12), *range(12)):
            i = [9] * k + [0] * (12 - k)
            assert f(jit.ones(1), jit.tensor(i)).tolist() == [2.0 ** (12 - k)]


# -- saved and exported ------------------------------------------------------------------------------------------


def test_a_saved_function_knows_its_branches(tmp_path):
    f, x = jit.trace(pick), jit.arange(4).float()
    f(x, indices(1, 2)), f(x, indices(1, 9))
    f.save(tmp_path / "f.jit")
    g = jit.load(tmp_path / "f.jit")
    assert g(x, indices(0, 3)).tolist() == [0, 6]
    assert g(x, indices(0, 4)).item() == 6


def test_a_saved_function_of_one_branch(tmp_path):
    f, x = jit.trace(pick), jit.arange(4).float()
    f(x, indices(1, 2))
    f.save(tmp_path / "f.jit")
    with pytest.raises(IndexError):
        jit.load(tmp_path / "f.jit")(x, indices(1, 9))
    f = jit.trace(pick)
    f(x, indices(1, 9))
    f.save(tmp_path / "f.jit")
    with pytest.raises(jit.UsageError, match=r"the error that the function caught at test_raises.py:\d+ in pick"):
        jit.load(tmp_path / "f.jit")(x, indices(1, 2))


def test_a_saved_function_of_many_sizes(tmp_path):
    f = jit.trace(fold)
    for n in (4, 6, 5, 7):
        f(jit.ones(n))
    f.save(tmp_path / "f.jit")
    g = jit.load(tmp_path / "f.jit")
    assert [g(jit.ones(n)).numel() for n in (10, 11, 12, 13)] == [5, 11, 6, 13]


def share(x):
    try:
        return x * (1 / x[0].item())
    except ZeroDivisionError:
        return x * 2


def classify(x, y):
    try:
        return F.cross_entropy(x, y)
    except IndexError:
        return x.mean()


@pytest.mark.parametrize("function, arguments, line", [
    (pick, (jit.ones(4), indices(9)), r"aten::index.Tensor at test_raises.py:\d+ in pick: .* DimError"),
    (share, (jit.zeros(3),), r"prim::truediv at test_raises.py:\d+ in share: .* ZeroDivisionError"),
    (classify, (jit.ones(2, 3), indices(0, 5)), r"aten::nll_loss_forward at test_raises.py:\d+ in classify"),
])  # fmt: skip
def test_an_error_by_elements_cannot_be_exported(function, arguments, line):
    with pytest.raises(jit.ExportError, match=line):
        jit.export_onnx(function, arguments)


def test_an_error_by_sizes_can_be_exported_for_these_sizes():
    assert jit.export_onnx(fold, (jit.ones(5),)).verified
    assert jit.export_onnx(fold, (jit.ones(4),)).verified
    with pytest.raises(jit.ExportError, match=r"aten::view at test_raises.py:\d+ in fold"):
        jit.export_onnx(fold, (jit.ones(5),), dynamic_axes={"x": {0: "n"}})


def test_an_error_of_python_code_can_be_exported_for_these_sizes():
    def f(x):
        try:
            return x * float(x)
        except jit.Error:
            return x

    assert jit.export_onnx(f, (jit.ones(4),)).verified
    with pytest.raises(jit.ExportError, match=r"at test_raises.py:\d+ in f: the function catches an error"):
        jit.export_onnx(f, (jit.ones(4),), dynamic_axes={"x": {0: "n"}})


def _alive_after_raising(function, *tensors):
    """How many errors stay when a function has raised one that nobody holds, before the collector comes by."""

    def alive():
        return sum(isinstance(thing, jit.DimError) for thing in gc.get_objects())

    gc.collect()
    before = alive()
    gc.disable()
    try:
        with contextlib.suppress(IndexError):
            function(*tensors)
        return alive() - before
    finally:
        gc.enable()


@pytest.mark.parametrize("good_calls", [0, 1, 2, 4])
@pytest.mark.parametrize("wrap", [jit.trace, lambda function: function], ids=["traced", "eager"])
def test_errors_are_not_kept_alive(wrap, good_calls):
    f = wrap(lambda x, i: (x * 2)[i])
    for _ in range(good_calls):
        f(jit.ones(2), indices(1))
    assert _alive_after_raising(f, jit.ones(2), indices(9)) == 0


class Picked(jit.autograd.Function):
    """x[i]; Python calls it in the middle of a recording."""

    @staticmethod
    def forward(ctx, x, i):
        return x[i]

    @staticmethod
    def backward(ctx, g):
        return g.sum() * jit.ones(2), None


@pytest.mark.parametrize("good_calls", [0, 1, 2, 4])
def test_errors_of_functions_of_users_are_not_kept_alive(good_calls):
    f = jit.trace(lambda x, i: Picked.apply(x * 2, i) + 1)
    for _ in range(good_calls):
        f(jit.ones(2, requires_grad=True), indices(1))
    assert _alive_after_raising(f, jit.ones(2, requires_grad=True), indices(9)) == 0


@pytest.mark.parametrize("good_calls", [0, 1, 2, 4])
@pytest.mark.parametrize("wrap", [jit.trace, lambda function: function], ids=["traced", "eager"])
def test_errors_of_a_gpu_are_not_kept_alive(wrap, good_calls, gpu):
    f = wrap(lambda x, i: (x * 2)[i] + 1)
    for _ in range(good_calls):
        f(jit.ones(2, device="cuda"), indices(1).to("cuda"))
    assert _alive_after_raising(f, jit.ones(2, device="cuda"), indices(9).to("cuda")) == 0


@pytest.mark.parametrize("kind", [TypeError, KeyError, IndexError, ValueError, AttributeError])
def test_a_fault_of_the_interpreter_is_raised_and_not_hidden_by_another_run(kind, monkeypatch):
    """Errors of operators start the function anew; what goes wrong around them would be hidden by that."""

    def function(x):
        return jit.cumsum(x, 0) * 2

    def stumble(op, values, state=None):
        if faulty:
            raise kind("a fault of ours")
        return execute(op, values, state)

    monkeypatch.setattr("jit.runtime.arrays.interpreter.execute", stumble)
    faulty = False
    f = jit.trace(function, optimize=False)
    f(jit.ones(2)), f(jit.ones(2))
    faulty = True
    with pytest.raises(kind, match="a fault of ours"):
        f(jit.ones(2))
    assert f.misses == 1


@pytest.mark.parametrize("optimize", [False, True])
def test_arithmetic_on_numbers_that_raises_is_the_functions_own(optimize):
    def function(x):
        try:
            return x * (4 // int(x.sum().item() - 2))
        except ZeroDivisionError:
            return x - 1

    def numbers(x):
        try:
            return x * (4 // (x.sum().item() - 2))
        except ZeroDivisionError:
            return x - 1

    for each in (function, numbers):
        f = jit.trace(each, optimize=optimize)
        for values in ([1, 3], [2, 2], [1, 1], [3, 1], [0, 2]):
            assert f(jit.tensor(values)).tolist() == each(jit.tensor(values)).tolist()
