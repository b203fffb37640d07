"""Plans agree with the interpreter: on random graphs, layouts, orders of Python and native code, threads and errors."""

import ctypes
import mmap
import os
import random
import signal
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import Graph, TensorType, dtypes, parse
from jit.ir.errors import DivisionError
from jit.runtime.arrays.arrays import address_of
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.arrays.programs import GuardFailed
from jit.runtime.plans import entry, stretch_code
from jit.runtime.plans.places import Layout
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.products import blas, packed
from jit.tracing.recordings.compiling import optimise
from tests.threads import in_threads

pytestmark = pytest.mark.llvm


def stage_of(text, *arrays):
    """Outputs of a parsed graph by the interpreter, and the plan that should give the same."""
    graph = parse(text)
    return Interpreter(graph).run(0, arrays)[0], PlannedEngine(graph)


def same(expected, found, exact=True):
    assert len(expected) == len(found)
    for a, b in zip(expected, found):
        assert a.dtype == b.dtype and a.shape == b.shape
        if exact or a.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


# -- random graphs -----------------------------------------------------------------------------------------------


EXACT = ["unary", "binary", "compare", "view", "join", "copy", "cast", "fill"]
"""Kinds of operators for which the same bits are promised."""
NATIVE = [*EXACT, "smooth", "product"]
"""Kinds of operators that are native."""


class Program:
    """A random function of tensors."""

    def __init__(self, seed, kinds):
        self.rng = random.Random(seed)
        self.seed, self.kinds = seed, kinds
        self.steps = [self.rng.randrange(10**6) for _ in range(self.rng.randrange(3, 30))]

    def __call__(self, *inputs):
        pool = list(inputs)
        for choice in self.steps:
            rng = random.Random(choice)
            made = self.apply(rng, pool)
            pool += made if isinstance(made, (list, tuple)) else [made]
        rng = random.Random(self.seed)
        return tuple(rng.sample(pool[len(inputs) :], min(3, len(pool) - len(inputs))))

    def apply(self, rng, pool):
        return getattr(self, rng.choice(self.kinds))(rng, rng.choice(pool), pool)

    def unary(self, rng, x, pool):
        if x.dtype is jit.bool:
            return ~x
        return rng.choice([lambda: -x, lambda: x.abs(), lambda: x * 2, lambda: 1 - x, lambda: x.clamp(-1, 1)])()

    def smooth(self, rng, x, pool):
        x = x.to(jit.float32) if not x.dtype.is_floating_point else x
        return rng.choice([x.tanh, x.sigmoid, lambda: (x.clamp(-3, 3)).exp(), x.relu])()

    def binary(self, rng, x, pool):
        y = self.partner(rng, x, pool)
        if x.dtype is jit.bool or y.dtype is jit.bool:
            return x.to(jit.float32) + y
        return rng.choice([lambda: x + y, lambda: x - y, lambda: x * y, lambda: jit.maximum(x, y)])()

    def compare(self, rng, x, pool):
        y = self.partner(rng, x, pool)
        return rng.choice([lambda: x > y, lambda: jit.where(x <= y, x, y), lambda: x == y])()

    def partner(self, rng, x, pool):
        fitting = [y for y in pool if fits(tuple(map(int, x.shape)), tuple(map(int, y.shape)))]
        return rng.choice(fitting)

    def view(self, rng, x, pool):
        if x.ndim == 0:
            return x.unsqueeze(0)
        dim = rng.randrange(x.ndim)
        size = int(x.shape[dim])
        options = [lambda: x.transpose(0, dim), lambda: x.unsqueeze(dim), lambda: x.reshape(-1)]
        if size > 1:
            options += [lambda: x.chunk(2, dim)[0], lambda: x.narrow(dim, 1, size - 1), lambda: x.select(dim, 0)]
        if size == 1:
            options += [lambda: x.expand([3 if d == dim else int(n) for d, n in enumerate(x.shape)])]
        return rng.choice(options)()

    def join(self, rng, x, pool):
        return jit.cat([x, x * 2], 0) if x.ndim and x.dtype is not jit.bool else jit.stack([x, x])

    def copy(self, rng, x, pool):
        return rng.choice([x.clone, x.contiguous])()

    def cast(self, rng, x, pool):
        return x.to(rng.choice([jit.float64, jit.float32, jit.int64, jit.int32, jit.bool]))

    def fill(self, rng, x, pool):
        return rng.choice([jit.zeros_like, jit.ones_like])(x)

    def product(self, rng, x, pool):
        x = x.to(jit.float32)
        return x.t() @ x if x.ndim == 2 else x * x if x.ndim == 0 else x.reshape(1, -1) @ x.reshape(-1, 1)

    def reduce(self, rng, x, pool):
        x = x.to(jit.float32)
        return x.sum(rng.randrange(x.ndim)) if x.ndim else x.sum()


def fits(a, b):
    try:
        return len(np.broadcast_shapes(a, b)) >= 0
    except ValueError:
        return False


def inputs_of(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
    base = (rng.integers(-4, 5, (*shape, 2)) / 2).astype(np.float32)
    arrays = [
        np.ascontiguousarray(base[..., 0]), base[..., 1], base[..., 0].T.copy().T,
        rng.integers(-5, 6, shape[-1:]), np.array(0.5, np.float32), rng.integers(-2, 3, shape).astype(np.float64),
    ]  # fmt: skip
    return [jit.from_numpy(a) for a in arrays]


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "tolerance"])
@pytest.mark.parametrize("seed", range(20))  # `python -m tests.random_graphs` runs as many as one likes
def test_random_graphs(seed, exact):
    program, tensors = Program(seed, EXACT if exact else [*NATIVE, "reduce"]), inputs_of(seed)
    traced = jit.trace(program)
    with jit.no_grad(), np.errstate(all="ignore"):
        traced(*tensors)
        graph = traced.graph
        arrays = [t.numpy() for t in tensors]
        expected = Interpreter(graph).run(0, arrays)[0]
        improved = PlannedEngine(optimise(graph))
        same(expected, improved.run(0, arrays)[0], exact)
        same(expected, improved.run(0, arrays)[0], exact)
        replayed = [traced(*tensors) for _ in range(3)][-1]
        same(expected[: len(replayed)], [t.numpy() for t in replayed], exact)


@pytest.mark.parametrize("seed", range(12))
def test_without_entries(seed, monkeypatch):
    monkeypatch.setattr(entry, "available", lambda: False)
    program, tensors = Program(seed, [*NATIVE, "reduce"]), inputs_of(seed)
    traced = jit.trace(program)
    with jit.no_grad(), np.errstate(all="ignore"):
        traced(*tensors)
        arrays = [t.numpy() for t in tensors]
        found = PlannedEngine(optimise(traced.graph)).run(0, arrays)[0]
        same(Interpreter(traced.graph).run(0, arrays)[0], found, False)


# -- memory ------------------------------------------------------------------------------------------------------


def guarded(shape, dtype):
    """An array that ends where memory that nobody may touch begins."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * dtype.itemsize
    pages = -(-max(nbytes, 1) // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fence = ctypes.c_void_p(start + pages * mmap.PAGESIZE)
    assert ctypes.CDLL(None).mprotect(fence, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    array = np.frombuffer(memory, dtype, int(np.prod(shape)), pages * mmap.PAGESIZE - nbytes)
    return array.reshape(shape)


def run_guarded(code, arrays):
    """Run with fences behind inputs, outputs and arena, and with canaries between temporaries."""
    inputs = []
    for array in arrays:
        inputs.append(guarded(array.shape, array.dtype))
        inputs[-1][...] = array
    outputs = [guarded(shape, dtype) for shape, dtype in code.outputs]
    arena = guarded((-(-max(code.arena, 1) // 64) * 64,), np.uint8)
    arena[...] = 0xA5
    bases = np.array([address_of(a) for a in (arena, *inputs, *outputs)] + code.constants, np.int64)
    words = map(address_of, (code.program, bases))
    status = entry.executor()(*words, max(code.operands, 1))
    assert status == 0
    return outputs, arena


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_touched_that_was_not_given(seed):
    program = Program(seed, NATIVE)
    traced = jit.trace(program)
    tensors = [jit.from_numpy(np.ascontiguousarray(t.numpy())) for t in inputs_of(seed)]
    with jit.no_grad(), np.errstate(all="ignore"):
        traced(*tensors)
        graph = optimise(traced.graph)
        (native,) = PlannedEngine(graph).natives[0]
        code = stretch_code.compile_stretch(native.stretch, native.code.layouts, gap=64)
        place = {value: t.numpy() for value, t in zip(graph.inputs, tensors)}
        arrays = [place[value] for value in native.stretch.inputs]
        found, arena = run_guarded(code, arrays)
        same(list(native(arrays)), found)
    used = np.zeros(arena.size, bool)
    for block in code.lowering.blocks:
        if block.kind == "temporary" and block.first >= 0:
            used[block.offset : block.offset + block.nbytes] = True
    assert (arena[~used] == 0xA5).all()


def test_dying_operands_hand_on_their_memory():
    lines = "".join(
        f"%{i} : Float(64, 64) = aten::mm(%{i - 1 if i else 'x'}, %x) %{i + 1} : Float(64, 64) = aten::relu(%{i}) "
        for i in range(0, 20, 2)
    )
    graph = parse(f"graph(%x : Float(64, 64)) {{ {lines} return (%19) }}")
    (native,) = PlannedEngine(graph).natives[0]
    shared = any(isinstance(step.work, packed.PackedProduct) for step in native.code.lowering.steps)
    assert native.code.arena == (2 + shared) * 64 * 64 * 4  # two results, and %x packed


def test_outputs_belong_to_the_caller():
    _, planned = stage_of("graph(%x : Float(3)) { %0 : Float(3) = aten::neg(%x) return (%0) }", np.ones(3, np.float32))
    first, second = (planned.run(0, [np.full(3, n, np.float32)])[0][0] for n in (1, 2))
    assert first.tolist() == [-1, -1, -1] and second.tolist() == [-2, -2, -2] and first.flags.owndata


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (5,), (17, 3)])
def test_sizes(shape):
    type = TensorType(dtypes.float32, shape)
    graph = Graph()
    x = graph.add_input(type, "x")
    y = graph.add("aten::mul", (x, x), types=[type]).output
    graph.set_return([y, graph.add("aten::clone", (y,), types=[type]).output])
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    planned = PlannedEngine(graph)
    assert planned.native_call(0) is not None
    same(Interpreter(graph).run(0, [array])[0], planned.run(0, [array])[0])


def test_arrays_of_another_layout_are_compiled_for():
    text = "graph(%x : Float(4, 6)) { %0 : Float(4, 6) = aten::mul(%x, 3) return (%0) }"
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected, planned = stage_of(text, x)
    for other in (x, x.T.copy().T, np.repeat(x, 2, 1)[:, ::2], x[::-1][::-1], np.broadcast_to(x, (2, 4, 6))[1]):
        same(expected, planned.run(0, [other])[0])
    assert 1 < len(planned.native_call(0).codes) <= 8


# -- products ----------------------------------------------------------------------------------------------------

LAYOUTS = [lambda a: a, lambda a: a.T.copy().T, lambda a: np.repeat(a, 2, -1)[..., ::2], lambda a: a[::-1].copy()[::-1]]


@pytest.mark.parametrize("dtype", ["Float", "Double"])
@pytest.mark.parametrize(
    "sizes", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1), (3, 0, 5), (0, 4, 5), (64, 65, 66)]
)
def test_products(sizes, dtype):
    rows, inner, columns = sizes
    rng = np.random.default_rng(0)
    numpy = np.float32 if dtype == "Float" else np.float64
    text = f"""graph(%a : {dtype}({rows}, {inner}), %b : {dtype}({inner}, {columns}), %c : {dtype}({columns})) {{
      %0 : {dtype}({rows}, {columns}) = aten::mm(%a, %b)
      %1 : {dtype}({rows}, {columns}) = aten::addmm[beta=0.5, alpha=2](%c, %a, %b)
      %2 : {dtype}({rows}, {columns}) = aten::addmm[beta=0](%c, %a, %b)
      return (%0, %1, %2) }}"""
    a, b, c = (rng.standard_normal(s).astype(numpy) for s in ((rows, inner), (inner, columns), (columns,)))
    expected, planned = stage_of(text, a, b, c)
    assert planned.native_call(0) is not None
    for left in LAYOUTS:
        for right in LAYOUTS:
            same(expected, planned.run(0, [left(a), right(b), c])[0], exact=False)


def test_batches_and_vectors():
    text = """graph(%a : Float(6, 3, 4), %b : Float(6, 4, 5), %v : Float(4)) {
      %0 : Float(6, 3, 5) = aten::bmm(%a, %b)
      %1 : Float(3, 4) = aten::select.int[dim=0, index=2](%a)
      %2 : Float(3) = aten::mv(%1, %v)
      %3 : Float() = aten::dot(%v, %v)
      %4 : Float(6, 4, 3, strides=[12, 1, 4]) = aten::transpose.int[dim0=1, dim1=2](%a)
      %5 : Float(6, 4, 4) = aten::bmm(%4, %a)
      return (%0, %2, %3, %5) }"""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((6, 3, 4), (6, 4, 5), (4,))]
    expected, planned = stage_of(text, *arrays)
    assert planned.native_call(0) is not None
    same(expected, planned.run(0, arrays)[0], exact=False)


CONSECUTIVE = """graph(%x : Float(5, 4, 4), %w : Float(6, 4), %u : Float(4, 6)) {
  %0 : Float(4, 6, strides=[1, 4]) = aten::t(%w)
  %1 : Float(4, 4) = aten::select.int[dim=0, index=1](%x)
  %2 : Float(4, 6) = aten::mm(%1, %0)
  %3 : Float(4, 6) = aten::tanh(%2)
  %4 : Float(4, 4) = aten::select.int[dim=0, index=2](%x)
  %5 : Float(4, 6) = aten::mm(%4, %0)
  %6 : Float(4, 6) = aten::add(%3, %5)
  %7 : Float(4, 4) = aten::select.int[dim=0, index=4](%x)
  %8 : Float(4, 6) = aten::mm(%7, %0)
  %9 : Float(4, 6) = aten::mm(%7, %u)
  %10 : Float(4, 6) = aten::mul(%8, %9)
  %11 : Float(4, 4) = aten::select.int[dim=0, index=3](%x)
  %12 : Float(4, 6) = aten::mm(%11, %0)
  return (%6, %10, %12)
}"""


def test_consecutive_rows_times_one_matrix_are_one_product():
    arrays = [np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((5, 4, 4), (6, 4), (4, 6))]
    expected, planned = stage_of(CONSECUTIVE, *arrays)
    same(expected, planned.run(0, arrays)[0], exact=False)
    steps = planned.native_call(0).code.lowering.steps
    products = [s.work.sizes for s in steps if isinstance(s.work, (blas.BlasProduct, packed.PackedProduct))]
    assert sorted(products) == [(4, 6, 4)] * 3 + [(8, 6, 4)]  # the output is memory of its own


JOINED = """graph(%x : Float(2, 3), %y : Float(2, 3), %z : Float(6, 3)) {
  %0 : Float(2, 3) = aten::tanh(%x)
  %1 : Float(2, 3) = aten::add(%0, %y)
  %2 : Float(2, 3) = aten::narrow[dim=0, start=2, length=2](%z)
  %3 : Float(2, 3) = aten::narrow[dim=0, start=4, length=2](%z)
  %4 : Float(6, 3) = aten::cat[dim=0]([%0, %1, %2])
  %5 : Float(4, 3) = aten::cat[dim=0]([%2, %3])
  %6 : Float(4, 3) = aten::cat[dim=0]([%3, %2])
  %7 : Float(3, 4, strides=[1, 3]) = aten::t(%5)
  %8 : Float(4, 4) = aten::mm(%6, %7)
  %9 : Float(3, 3) = aten::mm(%7, %6)
  %10 : Float(2, 3) = aten::mul(%0, %1)
  return (%4, %8, %9, %10)
}"""


def test_a_view_of_a_part_is_a_part_of_its_own():
    def joined(x):
        y = x * 2
        return jit.cat([y, y.narrow(0, 0, 1), y.narrow(0, 1, 2)]) + 1

    x = jit.rand(3, 5)
    native = jit.trace(joined)
    for _ in range(3):
        np.testing.assert_array_equal(native(x)._array, joined(x)._array)


def test_what_is_joined_is_written_where_it_belongs():
    arrays = [np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((2, 3), (2, 3), (6, 3))]
    expected, planned = stage_of(JOINED, *arrays)
    same(expected, planned.run(0, arrays)[0], exact=False)
    copies = [s for s in planned.native_call(0).code.lowering.steps if s.node.kind == "aten::cat"]
    assert len(copies) == 3  # one part of %4 and two of %6: %0 and %1 are there already, and %5 is rows of %z


def test_not_a_number_in_memory_that_is_overwritten_does_not_matter():
    """beta=0 means that the addend is not looked at, and neither is what lay in the result's memory."""
    text = """graph(%a : Float(2, 2), %n : Float(2)) {
      %0 : Float(2, 2) = aten::addmm[beta=0](%n, %a, %a) return (%0) }"""
    a, n = np.ones((2, 2), np.float32), np.full(2, np.nan, np.float32)
    assert PlannedEngine(parse(text)).run(0, [a, n])[0][0].tolist() == [[2, 2], [2, 2]]


# -- order -------------------------------------------------------------------------------------------------------


class Noting(jit.autograd.Function):
    """Says when it runs."""

    seen: list = []

    @staticmethod
    def forward(ctx, x, name):
        Noting.seen.append(name)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


def test_python_alternates_with_native_code():
    @jit.trace
    def f(x, y):
        a = Noting.apply(x + 1, "a")
        b = Noting.apply(y * 3, "b")
        return (a * b + x) @ (a - b), Noting.apply(a + b, "c")

    x, y = jit.ones(3, 3), jit.ones(3, 3) * 2
    eager = [t.numpy() for t in f(x, y)]
    Noting.seen.clear()
    again = [t.numpy() for t in f(x, y)]
    assert Noting.seen == ["a", "b", "c"]
    same(eager, again, exact=False)
    planned = f._last.plan(f._last.chains[0]).interpreter
    assert [len(n.stretch.nodes) > 0 for n in planned.natives[0]] == [True] * 2 and planned.native_call(0) is None


def test_nothing_behind_a_guard_runs_before_it():
    text = """graph(%x : Long(3), %y : Long(3)) {
      %0 : Bool() = aten::all(%y)
      %1 : bool = prim::item(%0)
      prim::Guard[expected=True](%1)
      %2 : Long(3) = aten::floor_divide(%x, %y)
      return (%2) }"""
    x, y = np.array([7, 8, 9]), np.array([1, 2, 3])
    expected, planned = stage_of(text, x, y)
    same(expected, planned.run(0, [x, y])[0])
    with pytest.raises(GuardFailed):
        planned.run(0, [x, np.array([1, 0, 3])])


def test_errors_of_kernels_name_the_line():
    @jit.trace
    def f(x, y):
        z = x + y
        return z // y  # here

    x = jit.tensor([4, 5])
    assert f(x, jit.tensor([1, 2])).tolist() == f(x, jit.tensor([1, 2])).tolist() == [5, 3]
    assert f(x, jit.tensor([1, 2])).tolist() == [5, 3]
    for _ in range(2):
        with pytest.raises(DivisionError, match=r"test_plan.py:\d+ in f"):
            f(x, jit.tensor([1, 0]))
    assert f(x, jit.tensor([1, 2])).tolist() == [5, 3]


def test_stages_share_what_they_need():
    @jit.trace
    def f(x, w):
        return ((x @ w).tanh() * x).sum()

    x, w = jit.randn(4, 4), jit.randn(4, 4).requires_grad_()
    found: list[Any] = []
    for _ in range(4):
        w.grad = None
        f(x, w).backward()
        assert w.grad is not None
        found.append(w.grad.numpy().copy())
    expected = jit.grad(((x @ w).tanh() * x).sum(), [w])[0].numpy()
    same([expected] * 4, found, exact=False)


# -- many at once ------------------------------------------------------------------------------------------------


def test_eight_threads_at_once():
    @jit.trace
    def f(x, y):
        return jit.relu(x @ y + x).tanh() * y, x - y

    sizes = [8, 33, 64, 100]
    data = {n: (jit.randn(n, n), jit.randn(n, n)) for n in sizes}
    with jit.no_grad():
        expected = {n: [t.numpy().copy() for t in f(*data[n])] for n in sizes}

        def work(seed):
            rng = random.Random(seed)
            with jit.no_grad():
                for _ in range(150):
                    n = rng.choice(sizes)
                    same(expected[n], [t.numpy() for t in f(*data[n])], exact=False)

        in_threads(work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_fork():
    @jit.trace
    def f(x):
        return jit.relu(x @ x) + 1

    x = jit.ones(16, 16)
    with jit.no_grad():
        expected = [f(x).sum().item() for _ in range(3)][-1]
        child = os.fork()
        if child == 0:
            fine = f(x).sum().item() == expected and f(jit.ones(3, 3)).sum().item() == 36.0
            os._exit(0 if fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert f(x).sum().item() == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_finds_blas_although_another_thread_was_looking_for_it():
    with blas._LOADING:  # as another thread would hold it
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # it waited for ever
            blas.blas_function.cache_clear()
            os._exit(0 if blas.blas_function("gemm", dtypes.float32) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_steps_grow_with_the_graph_and_kernels_do_not():
    def steps(count):
        type = TensorType(dtypes.float32, (4, 4))
        graph = Graph()
        value = x = graph.add_input(type, "x")
        for index in range(count):
            kind = "aten::mm" if index % 3 == 0 else "aten::mul"
            value = graph.add(kind, (value, x if index % 3 == 0 else 0.5), types=[type]).output
        graph.set_return([value])
        (native,) = PlannedEngine(graph).natives[0]
        return native.code

    small, large = steps(300), steps(3000)
    assert len(large.lowering.steps) == 10 * len(small.lowering.steps) and large.arena == small.arena
    assert len(large.kernels) == len(small.kernels)


def test_layouts_tell_how_values_lie():
    layout = Layout.of(TensorType(dtypes.float32, (2, 3), (1, 2)))
    assert layout == Layout(np.dtype(np.float32), (2, 3), (4, 8)) and layout.itemsize == 4


def test_what_is_read_at_another_point_is_not_written_over():
    """`neg` reads its operand straight, but a transpose shows the result elsewhere."""
    x = np.random.default_rng(0).uniform(-1, 1, (3, 3))
    expected, planned = stage_of(
        """
        graph(%x : Double(3, 3)) {
          %0 : Double(3, 3) = aten::mm(%x, %x)
          %1 : Double(3, 3) = prim::FusionGroup[body=@0](%0)
          %2 : Double(3, 3) = aten::mm(%1, %x)
          return (%2)
        }
        where @0 = graph(%0 : Double(3, 3)) {
          %1 : Double(3, 3) = aten::neg(%0)
          %2 : Double(3, 3, strides=[1, 3]) = aten::transpose.int[dim0=0, dim1=1](%1)
          %3 : Double(3, 3) = aten::add(%0, %2)
          return (%3)
        }
        """,
        x,
    )
    same(expected, planned.run(0, [x])[0], exact=False)


# -- outputs in the shape that is wanted -------------------------------------------------------------------------


def pieces_of(text):
    graph = parse(text)
    engine = PlannedEngine(graph)
    rng = np.random.default_rng(0)
    shapes = [value.type.sizes for value in graph.inputs]  # type: ignore[attr-defined]
    arrays = [np.asarray(rng.standard_normal(shape), np.float32) for shape in shapes]
    found, wanted = engine.run(0, arrays)[0], Interpreter(graph).run(0, arrays)[0]
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-5)
    return [node.kind for node in engine.programs[0].nodes], found


def test_a_reshaped_result_is_written_in_its_shape():
    kinds, (found,) = pieces_of("""graph(%x : Float(6, 8), %w : Float(8, 4)) {
      %0 : Float(6, 4) = aten::mm(%x, %w)
      %1 : Float(2, 3, 4) = aten::view[size=[2, 3, 4]](%0)
      %2 : Float(2, 12) = aten::view[size=[2, 12]](%1)
      return (%2)
    }""")
    assert kinds == ["prim::Native"] and found.base is None


def test_reshaped_results_that_are_read_again_are_written_once():
    kinds, _ = pieces_of("""graph(%x : Float(6, 8), %w : Float(8, 4)) {
      %0 : Float(6, 4) = aten::mm(%x, %w)
      %1 : Float(2, 3, 4) = aten::view[size=[2, 3, 4]](%0)
      %2 : Float(2, 3, 4) = aten::tanh(%1)
      %3 : Float(6, 4) = aten::exp(%0)
      return (%1, %2, %3)
    }""")
    assert kinds == ["prim::Native"]


@pytest.mark.parametrize(
    "views",
    [
        "%1 : Float(2, 3, 4) = aten::view[size=[2, 3, 4]](%0) return (%0, %1)",
        "%1 : Float(2, 12) = aten::view[size=[2, 12]](%0) %2 : Float(24) = aten::view[size=[24]](%0) return (%1, %2)",
        "%1 : Float(24) = aten::view[size=[24]](%0) %2 : Float(2, 12) = aten::view[size=[2, 12]](%1) return (%1, %2)",
        "%1 : Float(4, 6, strides=[1, 4]) = aten::t(%0) return (%1)",
        "%1 : Float(3, 4) = aten::narrow[dim=0, start=2, length=3](%0) return (%1)",
    ],
)
def test_what_is_shown_twice_or_in_part_stays_a_view(views):
    kinds, found = pieces_of(
        f"graph(%x : Float(6, 8), %w : Float(8, 4)) {{ %0 : Float(6, 4) = aten::mm(%x, %w) {views} }}"
    )
    assert kinds[0] == "prim::Native" and len(kinds) > 1
    bases = [array if array.base is None else array.base for array in found]
    assert len({id(base) for base in bases}) == 1


def test_views_of_inputs_stay_views():
    kinds, (found, other) = pieces_of("""graph(%x : Float(6, 8)) {
      %0 : Float(8, 6) = aten::view[size=[8, 6]](%x)
      %1 : Float(6, 8) = aten::tanh(%x)
      return (%0, %1)
    }""")
    assert "aten::view" in kinds and found.base is not None and other.base is None
