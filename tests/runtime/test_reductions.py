"""Nests of several steps on every target: softmax, reductions, scans, gathers, matrix products, and their bounds."""

from typing import Any

import numpy as np
import pytest

from jit.ir.dtypes import float32, int64
from jit.ir.errors import CompileError, DimError
from jit.runtime.kernels.codegen import compile_nest, words_of
from jit.runtime.kernels.nest import (
    Access,
    Bound,
    Buffer,
    Index,
    Keep,
    Local,
    Nest,
    NestScan,
    NestStep,
    Reduce,
    one_step,
)
from jit.runtime.kernels.schedule import schedule
from jit.runtime.llvm import memory as llvm_memory
from jit.runtime.targets.target import Target
from tests.runtime.guarded import guarded

from .kernels_under_test import TARGETS, same_bits
from .nests_under_test import embedding, error_bound, product, reduction, running, softmax
from .test_codegen import run_apart

pytestmark = pytest.mark.llvm

SHAPES = [(1, 1), (7, 1), (1, 9), (5, 37), (3, 64), (2, 70, 33), (4, 300), (3, 5, 130)]
DIMS = [(shape, dim) for shape in SHAPES for dim in range(len(shape))]
LAYOUTS: dict[str, Any] = {
    "row-major": lambda a: a,
    "column-major": np.asfortranarray,
    "every other": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "backwards": lambda a: a[..., ::-1].copy()[..., ::-1],
    "expanded": lambda a: np.broadcast_to(a[..., :1], a.shape),
}


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]


def filled(nest, inputs, out, target=None):
    compile_nest(nest, target)(inputs, [out])
    return out


class TestRows:
    @pytest.mark.parametrize(("shape", "dim"), DIMS)
    def test_softmax(self, shape, dim, target, rng):
        for layout in LAYOUTS.values():
            x = layout(rng.normal(size=shape).astype(np.float32) * 9)
            e = np.exp(x.astype(np.float64) - x.max(dim, keepdims=True))
            out = np.empty(shape, np.float32)
            filled(softmax(x, out, dim), [x], out, target)
            np.testing.assert_allclose(out, e / e.sum(dim, keepdims=True), rtol=1e-5)  # x - max rounds

    @pytest.mark.parametrize(("shape", "dim"), DIMS)
    def test_sums_stay_within_their_bound(self, shape, dim, target, rng):
        for layout in LAYOUTS.values():
            x = layout(rng.normal(size=shape).astype(np.float32))
            exact = np.asarray(x.astype(np.float64).sum(dim))
            out = filled(
                reduction("sum", x, np.empty(exact.shape, np.float32), (dim,)),
                [x],
                np.empty(exact.shape, np.float32),
                target,
            )
            assert np.all(np.abs(out - exact) <= error_bound(x, (dim,)))

    @pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "prod"])
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool", "float16"])
    def test_order_and_products(self, name, dtype, target, rng):
        for shape, dim in DIMS:
            x = rng.integers(0, 3, shape).astype(dtype)
            with np.errstate(all="ignore"):
                wanted = np.asarray(getattr(np, name)(x, axis=dim))
            if name == "prod":
                wanted = wanted.astype(dtype)
            got = filled(reduction(name, x, np.empty_like(wanted), (dim,)), [x], np.empty_like(wanted), target)
            same_bits(got, wanted, ())

    @pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
    def test_nan_and_infinities(self, name, target, rng):
        x = rng.normal(size=(60, 90)).astype(np.float32)
        for row, number in enumerate([np.nan, np.inf, -np.inf, np.nan]):
            x[row::7, rng.integers(0, 90, 2)] = number
        x[55] = -np.inf
        x[56] = np.nan
        for dim in (0, 1):
            wanted = getattr(np, name)(x, axis=dim)
            got = filled(reduction(name, x, np.empty_like(wanted), (dim,)), [x], np.empty_like(wanted), target)
            np.testing.assert_array_equal(got, wanted)

    def test_several_dims(self, target, rng):
        x = rng.normal(size=(3, 4, 5, 6)).astype(np.float32)
        for dims in [(0, 1), (0, 2), (1, 3), (0, 2, 3), (0, 1, 2, 3)]:
            exact = np.asarray(x.astype(np.float64).sum(dims))
            out = filled(
                reduction("sum", x, np.empty(exact.shape, np.float32), dims),
                [x],
                np.empty(exact.shape, np.float32),
                target,
            )
            assert np.all(np.abs(out - exact) <= error_bound(x, dims))

    def test_the_tree_of_a_row_is_the_same_on_every_machine(self, rng):
        x = rng.normal(size=(3, 20_000)).astype(np.float32)
        sums = {
            name: filled(reduction("sum", x, np.empty(3, np.float32), (1,)), [x], np.empty(3, np.float32), target)
            for name, target in TARGETS.items()
            if name != "scalar"
        }
        assert len({s.tobytes() for s in sums.values()}) == 1

    def test_long_sums_are_as_good_as_pairwise_ones(self, rng):
        x = rng.random(3_000_000).astype(np.float32)
        out = filled(reduction("sum", x, np.empty((), np.float32), (0,)), [x], np.empty((), np.float32))
        assert abs(out / x.astype(np.float64).sum() - 1) < 2e-6

    def test_parts_of_the_outermost_loop_give_the_same_bits(self, rng):
        import ctypes

        x, out = rng.normal(size=(50, 333)).astype(np.float32), np.empty((50, 333), np.float32)
        kernel = compile_nest(softmax(x, out, 1))
        kernel([x], [out])
        again = np.zeros_like(out)
        scratch = np.empty(kernel.scratch_bytes + 1, np.uint8)
        data = (ctypes.c_void_p * 3)(x.ctypes.data, again.ctypes.data, scratch.ctypes.data)
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(kernel.address)
        for start in range(0, kernel.rows, 7):
            assert call(data, words_of(kernel.part(start, min(start + 7, kernel.rows)))) == 0
        same_bits(again, out)


class TestScans:
    @pytest.mark.parametrize(("shape", "dim"), DIMS)
    @pytest.mark.parametrize("monoid", ["sum", "max", "prod"])
    def test_running(self, monoid, shape, dim, target, rng):
        x = rng.integers(-2, 3, shape).astype(np.int64)
        function: Any = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate}[monoid]
        out = np.empty_like(x)
        same_bits(filled(running(x, out, dim, monoid), [x], out, target), function(x, axis=dim))

    def test_floats(self, target, rng):
        x = rng.normal(size=(5, 1000)).astype(np.float32)
        out = np.empty_like(x)
        exact = np.cumsum(x.astype(np.float64), 1)
        bound = np.cumsum(np.abs(x), 1) * 1000 * np.finfo(np.float32).eps
        assert np.all(np.abs(filled(running(x, out, 1), [x], out, target) - exact) <= bound)

    @pytest.mark.parametrize("dim", [0, 1])
    def test_a_body_goes_on_with_what_runs(self, dim, target, rng):
        """The sum of squares so far, doubled and stored, and summed once more along the row, in blocks."""
        x = rng.integers(0, 2, (170, 2500)).astype(np.float32)
        outs = [np.empty_like(x), np.empty(x.shape[1 - dim], np.float32)]
        wide, step = ((2500, 170), (1, 2500)) if dim == 0 else (x.shape, (2500, 1))

        def body(m: Any, a: Any, running: Any) -> Any:
            total = running(a * a)
            return total + total, total

        results = (Access(0, step), Reduce("sum", (0,), float32))
        steps = (
            NestStep((Access(0, step), NestScan("sum", float32)), results, body),
            NestStep((Local(0),), (Access(1, (1, 0)),), lambda m, a: a, inner=False),
        )
        nest = Nest(wide, (Buffer.like(x),), tuple(map(Buffer.like, outs)), steps, 1)
        compile_nest(nest, target)([x], outs)
        same_bits(outs[0], 2 * np.cumsum(x * x, dim))
        same_bits(outs[1], np.cumsum(x * x, dim).sum(dim))

    @pytest.mark.parametrize("shape", [(3, 50), (50, 40)])
    def test_products_are_taken_one_by_one(self, shape, target):
        """1e30 * 1e30 is no part of the product of 1e-30, 1e30, 1e30, ..."""
        x = np.where(np.arange(shape[1]) % 2, 1e30, 1e-30).astype(np.float32) * np.ones(shape, np.float32)
        x[:, 0] = 1e-38
        out = np.empty_like(x)
        same_bits(filled(running(x, out, 1, "prod"), [x], out, target), np.cumprod(x, 1))


class TestGathers:
    @pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_embedding(self, dtype, order, target, rng):
        weight = np.asarray(rng.normal(size=(10, 37)), np.float32, order=order)
        indices = rng.integers(0, 10, (3, 4)).astype(dtype)
        out = np.empty((3, 4, 37), np.float32)
        same_bits(filled(embedding(weight, indices, out), [weight, indices], out, target), weight[indices])

    @pytest.mark.parametrize("columns", [1, 16, 37, 300])
    @pytest.mark.parametrize("at_end", [True, False])
    def test_rows_that_are_asked_for_ahead_of_time(self, columns, at_end, target, rng, monkeypatch):
        """Not a byte beside the arrays is read, and an index that is wrong is told of, wherever it stands."""
        monkeypatch.setattr(llvm_memory, "PREFETCH_BYTES", 0)
        weight = guarded(rng.normal(size=(10, columns)).astype(np.float32), at_end)
        for shape in [(1,), (3,), (25,), (5, 30)]:
            indices = guarded(rng.integers(0, 10, shape), at_end)
            out = guarded(np.empty((*shape, columns), np.float32), at_end)
            kernel = compile_nest(embedding(weight, indices, out), target)
            kernel([weight, indices], [out])
            same_bits(out, weight[indices])
            asks = target.vector_bytes > 4 and columns > 1 and indices.size > 1
            assert ("llvm.prefetch" in kernel.llvm_ir) == asks
            indices.reshape(-1)[-1] = 10
            with pytest.raises(DimError, match="an index is out of range"):
                kernel([weight, indices], [out])

    def test_what_is_not_asked_for(self, rng):
        small, large = np.zeros((10, 64), np.float32), np.zeros((1 << 14, 64), np.float32)
        indices, out = np.zeros(9, np.int64), np.empty((9, 64), np.float32)
        for weight, wanted in ((small, False), (large, True), (np.asfortranarray(large), False)):
            kernel = compile_nest(embedding(weight, indices, out))
            assert ("llvm.prefetch" in kernel.llvm_ir) is (wanted and Target.host().vector_bytes > 4)

    @pytest.mark.parametrize("wrong", [10, -1, 2**40, -(2**62)])
    def test_an_index_out_of_range_is_an_error(self, wrong, target):
        weight, indices = np.ones((10, 37), np.float32), np.zeros((3, 4), np.int64)
        indices[2, 3] = wrong
        out = np.empty((3, 4, 37), np.float32)
        with pytest.raises(DimError, match="an index is out of range"):
            filled(embedding(weight, indices, out), [weight, indices], out, target)

    def test_an_index_for_each_lane(self, target, rng):
        """x[i] of one dim: the index moves along the lanes; it may count from the end."""
        x, indices = rng.normal(size=100).astype(np.float32), rng.integers(-100, 100, 57)
        index = Index(Access(1, (1,)), 1, 100, wraps=True)
        out = np.empty(57, np.float32)
        inputs = (Buffer.like(x), Buffer.like(indices))
        nest = one_step(
            (57,), inputs, (Buffer.like(out),), (Access(0, (0,), gather=(index,)),), (Access(0, (1,)),), lambda m, a: a
        )
        same_bits(filled(nest, [x, indices], out, target), x[indices])

    def test_rows_and_columns(self, target, rng):
        """take_along_axis(x, i, 1): an index beside a moving dim."""
        x, indices = rng.normal(size=(20, 30)).astype(np.float32), rng.integers(0, 30, (20, 41))
        index = Index(Access(1, (41, 1)), 1, 30)
        out = np.empty((20, 41), np.float32)
        inputs = (Buffer.like(x), Buffer.like(indices))
        nest = one_step(
            (20, 41),
            inputs,
            (Buffer.like(out),),
            (Access(0, (30, 0), gather=(index,)),),
            (Access(0, (41, 1)),),
            lambda m, a: a,
        )
        same_bits(filled(nest, [x, indices], out, target), np.take_along_axis(x, indices, 1))

    def test_padding(self, target, rng):
        for before, after in [(2, 3), (0, 70), (65, 0)]:
            x = rng.normal(size=(6, 37)).astype(np.float32)
            out = np.empty((6, 37 + before + after), np.float32)
            bound = Bound((0, 1), -before, 37)
            read = Access(0, (37, 1), -before, within=(bound,), fill=7.0)
            nest = one_step(
                out.shape,
                (Buffer.like(x),),
                (Buffer.like(out),),
                (read,),
                (Access(0, (out.shape[1], 1)),),
                lambda m, a: a,
            )
            wanted = np.pad(x, ((0, 0), (before, after)), constant_values=7)
            same_bits(filled(nest, [x], out, target), wanted)


class TestProducts:
    SIZES = [(1, 1, 1), (5, 7, 9), (6, 16, 64), (7, 33, 65), (13, 100, 200), (32, 84, 10), (1, 50, 40), (40, 50, 1)]

    @pytest.mark.parametrize(("m", "k", "n"), SIZES)
    def test_with_an_epilogue(self, m, k, n, target, rng):
        for order in ("C", "F"):
            a = rng.normal(size=(m, k)).astype(np.float32)
            b = np.asarray(rng.normal(size=(k, n)), np.float32, order=order)
            bias, out = rng.normal(size=n).astype(np.float32), np.full((m, n), np.nan, np.float32)
            nest = product(a, b, bias, out, lambda m, x, c: m.maximum(x + c, 0))
            filled(nest, [a, b, bias], out, target)
            wide = a.astype(np.float64) @ b + bias
            bound = (np.abs(a) @ np.abs(b) + np.abs(bias)) * (k + 2) * np.finfo(np.float32).eps
            assert np.all(np.abs(out - np.maximum(wide, 0)) <= bound)

    def test_batched(self, target, rng):
        a, b = rng.normal(size=(3, 4, 20, 30)), rng.normal(size=(3, 4, 30, 10))
        out = np.empty((3, 4, 20, 10))
        np.testing.assert_allclose(
            filled(product(a, b, None, out, lambda m, x: x), [a, b], out, target), a @ b, rtol=1e-10
        )

    def test_the_order_of_the_sum_does_not_depend_on_the_tile(self, rng):
        a, b = rng.normal(size=(13, 100)).astype(np.float32), rng.normal(size=(100, 77)).astype(np.float32)
        found = []
        for name, target in TARGETS.items():
            if target.has_fma and name != "scalar":
                out = np.empty((13, 77), np.float32)
                found.append(filled(product(a, b, None, out, lambda m, x: x), [a, b], out, target).tobytes())
        assert len(set(found)) == 1


class TestCrossLowering:
    ELSEWHERE = {
        "avx512": Target(
            "x86_64-unknown-linux-gnu",
            "skylake-avx512",
            ("avx", "avx2", "avx512f", "avx512vl", "f16c", "fma", "sse4.1"),
        ),
        "sse2": Target("x86_64-unknown-linux-gnu", "x86-64", ("sse2",)),
        "neon": Target("aarch64-unknown-linux-gnu", "generic", ("neon",)),
        "apple": Target("arm64-apple-macosx14.0.0", "apple-m1", ("neon",)),
    }

    @pytest.mark.parametrize("name", ELSEWHERE)
    def test_the_five_nests_become_assembly_of_machines_that_are_elsewhere(self, name):
        llvm = pytest.importorskip("llvmlite.binding")
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        from jit.runtime.llvm.lower import lower

        x, out = np.ones((9, 70), np.float32), np.ones((9, 70), np.float32)
        indices, square = np.zeros((9,), np.int64), np.ones((70, 70), np.float32)
        target = self.ELSEWHERE[name]
        nests = [
            softmax(x, out, 1), softmax(x, out, 0), running(x, out, 1), embedding(x, indices, out),
            product(x, square, None, out, lambda m, a: a),
        ]  # fmt: skip
        for nest in nests:
            module = llvm.parse_assembly(lower(nest, schedule(nest), target).text())
            module.verify()
            assert "kernel" in target.machine().emit_assembly(module)


class TestRefusals:
    x = np.ones((4, 5), np.float32)

    def nest(self, *steps, reduced=1):
        return Nest((4, 5), (Buffer.like(self.x),), (Buffer.like(self.x),), steps, reduced)

    def test_a_reduction_once_for_each_row(self):
        step = NestStep((Access(0, (5, 0)),), (Reduce("sum", (0,), float32),), lambda m, a: a, inner=False)
        with pytest.raises(CompileError, match="cannot stand"):
            self.nest(step)

    def test_a_row_that_moves_in_a_step_for_each_row(self):
        with pytest.raises(CompileError, match="moves along the row"):
            self.nest(NestStep((Access(0, (5, 1)),), (Keep(0, float32),), lambda m, a: a, inner=False))

    def test_a_scan_of_two_dims(self):
        with pytest.raises(CompileError, match="one reduced dim"):
            reads = (Access(0, (5, 1)), NestScan("sum", float32))
            self.nest(NestStep(reads, (Access(0, (5, 1)),), lambda m, a, running: running(a)), reduced=2)

    def test_a_scan_that_is_not_called(self):
        step = NestStep((Access(0, (5, 1)), NestScan("sum", float32)), (Access(0, (5, 1)),), lambda m, a, running: a)
        with pytest.raises(CompileError, match="does not call its scan"):
            compile_nest(self.nest(step))

    def test_an_unknown_monoid(self):
        with pytest.raises(CompileError, match="cannot stand"):
            self.nest(NestStep((Access(0, (5, 1)),), (Reduce("median", (0,), float32),), lambda m, a: a))

    def test_an_index_of_floats(self):
        with pytest.raises(CompileError, match="an index is a plain access to integers"):
            self.nest(NestStep((Access(0, (5, 0), gather=(Index(Access(0, (0, 0)), 1, 5),)),), (), lambda m, a: ()))

    def test_an_index_beyond_the_buffer(self):
        indices = np.zeros((4, 5), np.int64)
        index = Index(Access(1, (5, 1)), 5, 5)
        with pytest.raises(CompileError, match="touches elements"):
            one_step(
                (4, 5),
                (Buffer.like(self.x), Buffer.like(indices)),
                (),
                (Access(0, (0, 1), gather=(index,)),),
                (),
                lambda m, a: (),
            )

    def test_a_bound_that_lets_too_much_through(self):
        bound = Bound((0, 1), 1, 7)
        with pytest.raises(CompileError, match="touches elements"):
            self.nest(NestStep((Access(0, (5, 1), 1, within=(bound,)),), (), lambda m, a: ()))

    def test_another_dtype_than_declared(self):
        step = NestStep((Access(0, (5, 1)),), (Reduce("sum", (0,), int64),), lambda m, a: a)
        with pytest.raises(CompileError, match="is float32, its buffer is int64"):
            compile_nest(self.nest(step, NestStep((Local(0),), (), lambda m, a: (), inner=False)))


def test_nests_of_other_sizes_share_their_code(rng):
    kernels = []
    for shape in [(5, 300), (70, 411)]:
        x = rng.normal(size=shape).astype(np.float32)
        kernels.append(compile_nest(softmax(x, np.empty_like(x), 1)))
    assert kernels[0].code is kernels[1].code


def test_no_byte_outside_of_the_buffers_is_touched():
    """Matrices at both ends of pages, between pages that must not be accessed."""
    finished = run_apart("""
        import ctypes, mmap
        import numpy as np
        from jit.runtime.kernels.codegen import compile_nest
        from tests.runtime import nests_under_test as nests
        libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        kept = []

        def guarded(shape, dtype, at_end):
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            pages = -(-size // page)
            region = mmap.mmap(-1, (pages + 2) * page)
            whole = np.frombuffer(region, np.uint8)
            kept.append((region, whole))
            for guard in (0, (pages + 1) * page):
                assert libc.mprotect(whole.ctypes.data + guard, page, 0) == 0
            start = (pages + 1) * page - size if at_end else page
            return whole[start:start + size].view(dtype).reshape(shape)

        for at_end in (False, True):
            for shape in ((3, 5), (7, 64), (9, 131), (70, 3)):
                x, out = guarded(shape, np.float32, at_end), guarded(shape, np.float32, at_end)
                x[...] = 1
                for dim in (0, 1):
                    for nest in (nests.softmax(x, out, dim), nests.running(x, out, dim)):
                        compile_nest(nest)([x], [out])
                    row = guarded((shape[1 - dim],), np.float32, at_end)
                    compile_nest(nests.reduction("sum", x, row, (dim,)))([x], [row])
                    assert np.all(row == shape[dim])
                indices = guarded((shape[0],), np.int64, at_end)
                indices[...] = np.arange(shape[0])[::-1]
                compile_nest(nests.embedding(x, indices, out))([x, indices], [out])
                b = guarded((shape[1], 37), np.float32, at_end)
                result = guarded((shape[0], 37), np.float32, at_end)
                b[...] = 1
                compile_nest(nests.product(x, b, None, result, lambda m, a: a))([x, b], [result])
                assert np.all(result == shape[1])
        print("done")
    """)
    assert (finished.returncode, finished.stdout.strip()) == (0, "done"), finished.stderr
