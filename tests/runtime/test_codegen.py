"""Compiled kernels take every layout, are kept, run in threads, and fail with an error, never with a signal."""

import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from jit.ir.dtypes import as_dtype, float32, float64
from jit.ir.errors import CompileError
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.kernels import lanes
from jit.runtime.kernels.code_store import STORE
from jit.runtime.kernels.codegen import compile_nest, compile_nests
from jit.runtime.kernels.nest import Access, Buffer, one_step, pointwise_nest
from jit.runtime.llvm.function import LoweredFunction
from jit.runtime.llvm.lower import most_alive
from jit.runtime.targets.target import Target
from tests.threads import in_threads

from .kernels_under_test import TARGETS, expect, numbers, run, same_bits

pytestmark = pytest.mark.llvm


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]


def affine(m, a, b):
    return a * 2 + b


def fill(body, inputs, out, target=None):
    """Run a kernel on views as they are, and compare with numpy on copies."""
    with np.errstate(all="ignore"):
        wanted = np.broadcast_to(np.asarray(body(numpy_math, *inputs)), out.shape).copy()
    compile_nest(pointwise_nest(body, inputs, [out]), target)(inputs, [out])
    same_bits(out, wanted, tuple(inputs))


LAYOUTS = {
    "contiguous": lambda base: base[:37, :23],
    "transposed": lambda base: base[:23, :37].T,
    "every other column": lambda base: base[:37, 3:49:2],
    "every other row": lambda base: base[1:75:2, :23],
    "backwards": lambda base: base[36::-1, 22::-1],
    "backwards along rows": lambda base: base[:37, 22::-1],
    "a broadcast row": lambda base: base[:1, :23],
    "a broadcast column": lambda base: base[:37, :1],
    "one number": lambda base: base[:1, :1],
    "expanded": lambda base: np.broadcast_to(base[0, :23], (37, 23)),
    "off by bytes": lambda base: np.frombuffer(b"\1" + base.tobytes(), base.dtype, offset=1).reshape(base.shape)[
        :37, :23
    ],
}


class TestLayouts:
    @pytest.mark.parametrize("second", LAYOUTS)
    @pytest.mark.parametrize("first", LAYOUTS)
    def test_two_inputs(self, first, second, rng):
        base = rng.normal(size=(2, 80, 80)).astype(np.float32)
        fill(affine, [LAYOUTS[first](base[0]), LAYOUTS[second](base[1])], np.empty((37, 23), np.float32))

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float32", "int64"])
    @pytest.mark.parametrize(
        "layout", [k for k in LAYOUTS if "broadcast" not in k and k not in ("one number", "expanded")]
    )
    def test_outputs(self, layout, dtype, target, rng):
        out = np.zeros((80, 80), dtype)
        view = LAYOUTS[layout](out)
        if not view.flags.writeable:
            memory = np.zeros(37 * 23 * view.itemsize + 1, np.uint8)
            view = memory[1:].view(view.dtype).reshape(37, 23)
        before = out.copy()
        fill(lambda m, a: a, [rng.integers(0, 2, (37, 23)).astype(dtype)], view, target)
        view[...] = before[0, 0]
        assert np.array_equal(out, before), "elements outside of the view were written"

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "bfloat16", "float32", "float64"])
    def test_every_size(self, dtype, target, rng):
        for size in [*range(0, 36), 63, 64, 65, 100]:
            x = rng.integers(0, 2, size).astype(float32.numpy if dtype == "bfloat16" else dtype)
            expect(lambda m, a: a, x, target=target)

    def test_no_dims(self, target):
        expect(affine, np.array(3.0), np.array(-0.5), target=target)

    @pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 5)])
    def test_no_elements(self, shape, target):
        expect(affine, np.empty(shape), np.empty(shape[-1:]), target=target)

    def test_many_dims(self, target, rng):
        x = rng.normal(size=(3, 2, 1, 4, 1, 2, 5))
        expect(
            affine, x, x.transpose(0, 1, 2, 5, 4, 3, 6)[:, :, :, :2, :, ::-1].repeat(2, 3)[..., :2, :], target=target
        )

    def test_broadcast_over_every_subset_of_dims(self, rng):
        for mask in range(8):
            shape = tuple(size if mask >> d & 1 else 1 for d, size in enumerate((3, 4, 17)))
            expect(affine, rng.normal(size=(3, 4, 17)), rng.normal(size=shape))

    def test_in_place(self, target, rng):
        x = rng.normal(size=100)
        wanted = x * 2 + x
        compile_nest(pointwise_nest(affine, [x, x], [x]), target)([x, x], [x])
        same_bits(x, wanted)


class TestNests:
    def test_an_lstm_cell_reads_its_gates_from_one_buffer(self, target, rng):
        """chunk(4, 1) is four maps into the one buffer; two results leave the kernel."""
        batch, hidden = 5, 37
        gates, cell = (
            rng.normal(size=(batch, 4 * hidden)).astype(np.float32),
            rng.normal(size=(batch, hidden)).astype(np.float32),
        )
        new_hidden, new_cell = np.empty_like(cell), np.empty_like(cell)

        def body(m, *operands):
            i, f, g, o, c = operands
            c = m.sigmoid(f) * c + m.sigmoid(i) * m.tanh(g)
            return m.sigmoid(o) * m.tanh(c), c

        chunks = tuple(Access(0, (4 * hidden, 1), k * hidden) for k in range(4))
        kernel = compile_nest(
            one_step(
                (batch, hidden),
                (Buffer.like(gates), Buffer.like(cell)),
                (Buffer.like(new_hidden), Buffer.like(new_cell)),
                (*chunks, Access(1, (hidden, 1))),
                (Access(0, (hidden, 1)), Access(1, (hidden, 1))),
                body,
                name="lstm_cell",
            ),
            target,
        )
        kernel([gates, cell], [new_hidden, new_cell])
        wide = [chunk.astype(np.float64) for chunk in np.split(gates, 4, axis=1)]
        wanted_hidden, wanted_cell = body(numpy_math, *wide, cell.astype(np.float64))
        np.testing.assert_allclose(new_cell, wanted_cell, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(new_hidden, wanted_hidden, rtol=1e-6, atol=1e-6)

    def test_writes_may_share_a_buffer(self, target, rng):
        """cat((a, b)): each producer writes its slice of the result."""
        a, out = rng.normal(size=9), np.empty(18)
        nest = one_step(
            (9,),
            (Buffer.like(a),),
            (Buffer.like(out),),
            (Access(0, (1,)),),
            (Access(0, (1,)), Access(0, (1,), 9)),
            lambda m, x: (x + 1, x * 2),
        )
        compile_nest(nest, target)([a], [out])
        same_bits(out, np.concatenate([a + 1, a * 2]))

    def test_several_dtypes(self, target, rng):
        x, y, mask = rng.normal(size=50).astype(np.float32), rng.normal(size=50), rng.integers(0, 2, 50).astype(bool)
        expect(lambda m, a, b, c: m.where(c, m.cast(a, float64) + b, -b), x, y, mask, target=target)

    def test_constant_results(self, target):
        expect(lambda m, a: m.where(a == a, 1.0, a), np.ones(20), target=target)
        same_bits(run(lambda m, a: 2.5, np.ones(20), out=float64, target=target), np.full(20, 2.5))

    def test_what_stands_still_is_computed_before_the_loop(self):
        x, column, out = np.ones((4, 50), np.float32), np.ones((4, 1), np.float32), np.empty((4, 50), np.float32)
        text = compile_nest(pointwise_nest(lambda m, a, b: a * m.exp(b) + m.exp(b), [x, column], [out])).llvm_ir
        before, inside = text.split("\nloop2:")
        powers = "scalef" if "scalef" in text else "shl"  # how `exp` multiplies by a power of two
        assert powers in before.split("define")[1] and powers not in inside
        assert inside.count("fmul") == 1

    def test_names_and_comments_are_shown_but_do_not_make_another_kernel(self):
        x = np.ones(3)
        plain = pointwise_nest(lambda m, a: a, [x], [x])
        named = replace(plain, name="copy", comments=("model.py:12", "two\nlines"))
        kernels = compile_nests([plain, named])
        assert kernels[0].code is kernels[1].code
        assert kernels[1].llvm_ir.startswith("; model.py:12\n; two\n; lines\n")
        assert "define i32 @copy(ptr %data" in kernels[1].llvm_ir


class TestLongBodies:
    """What calls functions of its own has the bits of what contains them."""

    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
    def test_functions_are_called(self, target, dtype, rng):
        def body(m, x):
            y = m.tanh(m.tanh(x) + m.sin(x)) + m.arctan(x)
            return m.sqrt(m.exp(y)) + m.arctan2(x, m.sigmoid(y))

        x = numbers(as_dtype(dtype), rng, 500)
        outs = [np.empty_like(x), np.empty_like(x)]
        nest = pointwise_nest(body, [x], [outs[0]])
        kernels = compile_nests([nest, replace(nest, cost=1000)], target)
        for kernel, out in zip(kernels, outs, strict=True):
            kernel([x], [out])
        same_bits(outs[1], outs[0], (x,))
        called = [kernel.llvm_ir.count("@tanh_") for kernel in kernels]
        assert called == [0, 0 if target.vector_bytes < 16 else 3]  # a definition and two calls

    def test_where_few_values_are_alive_several_vectors_are_taken_at_once(self, target, rng):
        def chain(m, x):
            for _ in range(200):
                x = x * 0.5 + 1
            return x

        def crowd(m, x):
            many = [x * (1 + i) for i in range(40)]
            return sum((a * b for a, b in zip(many, many[7:] + many[:7], strict=True)), many[0])

        x = rng.standard_normal(1001).astype(np.float32)
        vector = max(target.vector_bytes // 4, 1)
        for body, vectors in ((chain, 4), (crowd, 1)):
            out = np.empty_like(x)
            kernel = compile_nest(replace(pointwise_nest(body, [x], [out]), cost=400), target)
            assert kernel.code.lanes == (vector * vectors if vector > 1 else 1)
            kernel([x], [out])
            same_bits(out, body(numpy_math, x))

    def test_a_definition_tells_how_many_vectors_are_in_use(self):
        text = """%v1 = load <4 x float>, ptr %p
%v2 = fadd <4 x float> %v1, %v1
%v3 = load i64, ptr %q
%v4 = fadd <4 x float> %v2, %v1
store <4 x float> %v4, ptr %p"""
        assert most_alive(text) == 2


class TestCode:
    def test_other_sizes_and_strides_share_the_code(self):
        x, y = np.ones((4, 6)), np.ones((40, 60))
        kernels = [compile_nest(pointwise_nest(affine, [a, a[:1]], [a])) for a in (x, y)]
        assert kernels[0].code is kernels[1].code
        assert kernels[0].address == kernels[1].address

    def test_other_bodies_do_not(self):
        x = np.ones(3)
        kernels = [compile_nest(pointwise_nest(body, [x], [x])) for body in (lambda m, a: a + 1, lambda m, a: a + 2)]
        assert kernels[0].address != kernels[1].address

    def test_several_kernels_in_one_module(self, rng):
        x = rng.integers(1, 9, 50).astype(np.int32)
        outs = [np.empty_like(x) for _ in range(4)]
        bodies = [lambda m, a: a**a, lambda m, a: a // 2 + a**3, lambda m, a: -a, lambda m, a: -a]
        kernels = compile_nests([pointwise_nest(body, [x], [out]) for body, out in zip(bodies, outs)])
        for kernel, out in zip(kernels, outs):
            kernel([x], [out])
        for got, wanted in zip(outs, (x**x, x // 2 + x**3, -x, -x)):
            same_bits(got, wanted)
        assert kernels[2].code is kernels[3].code

    def test_assembly(self):
        kernel = compile_nest(pointwise_nest(lambda m, a: a + 1, [np.ones(3)], [np.ones(3)]))
        assert "kernel:" in kernel.asm.replace("_kernel:", "kernel:")

    def test_compiling_many_kernels_takes_little_memory(self):
        resource = pytest.importorskip("resource")
        scale = 1 if sys.platform == "darwin" else 1024
        x = np.ones(30, np.float32)

        def compile_some(start):
            for number in range(start, start + 100):
                compile_nest(pointwise_nest(lambda m, a, n=number: a * n + m.tanh(a), [x], [x]))

        compile_some(1000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        compile_some(2000)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * scale
        assert grown < 100 * 250_000

    @pytest.mark.slow
    def test_more_than_2_to_the_31_elements(self):
        x = np.zeros(2**31 + 7, np.uint8)
        x[-3:] = 5
        out = np.empty_like(x)
        compile_nest(pointwise_nest(lambda m, a: a + 1, [x], [out]))([x], [out])
        assert out[-4:].tolist() == [1, 6, 6, 6] and not np.any(out[:-3] != 1)


class TestMisuse:
    x = np.ones((3, 4), np.float32)
    kernel = property(lambda self: compile_nest(pointwise_nest(affine, [self.x, self.x], [self.x])))

    @pytest.mark.parametrize(
        "array",
        [
            np.ones((3, 5), np.float32),
            np.ones((3, 4)),
            np.ones((4, 3), np.float32).T,
            np.ones((3, 8), np.float32)[:, ::2],
        ],
        ids=["size", "dtype", "transposed", "strided"],
    )
    def test_another_layout(self, array):
        with pytest.raises(CompileError, match="compiled for"):
            self.kernel([self.x, array], [self.x.copy()])

    def test_strides_of_dims_of_one_element_do_not_matter(self):
        x = np.ones((1, 4))
        kernel = compile_nest(pointwise_nest(lambda m, a: a, [x], [x]))
        odd = np.lib.stride_tricks.as_strided(np.arange(4.0), (1, 4), (8000, 8))
        kernel([odd], [out := np.empty((1, 4))])
        assert out.tolist() == [[0, 1, 2, 3]]

    def test_too_few_arrays(self):
        with pytest.raises(CompileError, match="called with 2 arrays for 3 buffers"):
            self.kernel([self.x], [self.x.copy()])

    def test_a_read_only_output(self):
        out = self.x.copy()
        out.flags.writeable = False
        with pytest.raises(CompileError, match="read-only"):
            self.kernel([self.x, self.x], [out])

    def test_an_unknown_target(self):
        unknown = Target("quantum-unknown-none", "", ())
        with pytest.raises(CompileError, match="LLVM cannot generate code for quantum-unknown-none"):
            compile_nest(pointwise_nest(affine, [self.x, self.x], [self.x]), unknown)

    @pytest.mark.parametrize("name", ["no_such_function", "libm_nosuchfunction", "libm_../x"])
    def test_an_unknown_function(self, name):
        declaration = f'declare double @"{name}"(double)'
        text = f"""define i32 @kernel(ptr %a, ptr %b) {{
            %1 = call double @"{name}"(double 1.0)
            ret i32 0
        }}"""
        with pytest.raises(CompileError, match="which this process does not have"):
            STORE.compiled([LoweredFunction((declaration,), text)], Target.host())

    def test_what_only_the_linker_misses(self):
        text = """@nowhere = external global i32
        define i32 @kernel(ptr %a, ptr %b) {
            %x = load i32, ptr @nowhere
            ret i32 %x
        }"""
        with pytest.raises(CompileError, match="could not be linked"):
            STORE.compiled([LoweredFunction((), text)], Target.host())

    def test_malformed_text(self):
        with pytest.raises(CompileError, match="malformed"):
            STORE.compiled([LoweredFunction((), "define i32 @kernel() { nonsense }")], Target.host())


class TestThreads:
    def test_compiling_and_calling_at_once(self, rng):
        x = rng.normal(size=1000).astype(np.float32)

        def work(_):
            for step in range(30):
                factor = step % 10 + 0.5
                out = np.empty_like(x)
                kernel = compile_nest(pointwise_nest(lambda m, a, f=factor: a * f - 1, [x], [out]))
                kernel([x], [out])
                assert np.array_equal(out, x * np.float32(factor) - 1)

        in_threads(work)

    def test_a_forked_child_compiles_and_calls(self):
        finished = run_apart("""
            import os
            import numpy as np
            from jit.runtime.kernels import code_store, codegen
            from jit.runtime.kernels.nest import pointwise_nest
            x, out = np.arange(20.0), np.empty(20)
            parents = codegen.compile_nest(pointwise_nest(lambda m, a: a + 1, [x], [out]))
            code_store.STORE.lock.acquire()  # as if another thread were compiling
            child = os.fork()
            if child == 0:
                parents([x], [out])
                codegen.compile_nest(pointwise_nest(lambda m, a: m.exp(a), [out], [out]))([out], [out])
                os._exit(0 if np.allclose(out, np.exp(x + 1)) else 1)
            print(os.waitpid(child, 0)[1])
        """)
        assert (finished.returncode, finished.stdout.strip()) == (0, "0"), finished.stderr

    def test_a_call_releases_the_gil(self):
        x = np.full(3_000_000, 0.3)
        out = np.empty_like(x)
        kernel = compile_nest(pointwise_nest(lambda m, a: m.erf(m.erf(m.erf(m.erf(a)))), [x], [out]))
        done = threading.Event()

        def call():
            kernel([x], [out])
            done.set()

        thread = threading.Thread(target=call)
        started = time.perf_counter()
        thread.start()
        naps = 0
        while not done.is_set():
            time.sleep(0.001)
            naps += 1
        thread.join()
        assert naps > 20 or time.perf_counter() - started < 0.05


def run_apart(program):
    """Run a program in its own process, where a signal is seen as a negative exit code."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)


class TestSignals:
    def test_integer_division_never_traps(self):
        finished = run_apart("""
            import numpy as np
            from jit.ir.errors import DivisionError
            from jit.runtime.kernels.codegen import compile_nest
            from jit.runtime.kernels.nest import pointwise_nest
            reported = 0
            for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8):
                for divisor in (0, -1 if dtype is not np.uint8 else 255):
                    for size in (1, 16, 37):
                        a, b = np.full(size, np.iinfo(dtype).min, dtype), np.full(size, divisor, dtype)
                        for body in (lambda m, x, y: x // y, lambda m, x, y: x % y, lambda m, x, y: m.fmod(x, y)):
                            try:
                                compile_nest(pointwise_nest(body, [a, b], [a.copy()]))([a, b], [a.copy()])
                            except DivisionError:
                                reported += 1
            print(reported)
        """)
        assert (finished.returncode, finished.stdout.strip()) == (0, "45"), finished.stderr

    def test_no_byte_outside_of_the_buffers_is_touched(self):
        """Arrays at both ends of a page, between pages that must not be accessed."""
        finished = run_apart("""
            import ctypes, mmap
            import numpy as np
            from jit.runtime.kernels.codegen import compile_nest
            from jit.runtime.kernels.nest import pointwise_nest
            libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
            libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            kept = []

            def guarded(count, dtype, at_end):
                region = mmap.mmap(-1, 3 * page)
                whole = np.frombuffer(region, np.uint8)
                kept.append((region, whole))
                for guard in (0, 2 * page):
                    assert libc.mprotect(whole.ctypes.data + guard, page, 0) == 0
                size = count * np.dtype(dtype).itemsize
                start = 2 * page - size if at_end else page
                return whole[start:start + size].view(dtype)

            for dtype in ("bool", "uint8", "float16", "float32", "float64"):
                for count in (1, 2, 15, 16, 17, 31, 40):
                    for at_end in (False, True):
                        for step in (1, -1, 3):
                            a, out = guarded(count, dtype, at_end)[::step], guarded(count, dtype, at_end)[::step]
                            a[...] = 1
                            compile_nest(pointwise_nest(lambda m, x: x, [a], [out]))([a], [out])
                            assert np.array_equal(a, out)
            print("done")
        """)
        assert (finished.returncode, finished.stdout.strip()) == (0, "done"), finished.stderr


class TestStreams:
    """Large outputs are written past the cache, with the same bits."""

    @pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "float16", "bool"])
    @pytest.mark.parametrize("start", [0, 1])
    def test_bits(self, dtype, start, monkeypatch):
        monkeypatch.setattr(lanes, "STREAM_BYTES", 1)
        x = (np.random.default_rng(1).standard_normal((7, 1003)) * 9).astype(dtype)
        whole = np.full(x.size + 64 + start, 1).astype(dtype)
        aligned = -whole.__array_interface__["data"][0] // x.itemsize % (64 // x.itemsize) + start
        out = whole[aligned : aligned + x.size].reshape(x.shape)
        nest = pointwise_nest(lambda m, a: m.maximum(a, 1), [x], [out])
        kernel = compile_nest(nest)
        kernel([x], [out])
        assert out.tobytes() == np.maximum(x, x.dtype.type(1)).tobytes()
        width = kernel.code.function.lanes
        assert ("!nontemporal" in kernel.llvm_ir) == (width * x.itemsize >= 128)
        assert width * x.itemsize >= 128 or x.itemsize <= 2
        untouched = np.ones(whole.size, bool)
        untouched[aligned : aligned + x.size] = False
        assert (whole[untouched] == np.asarray(1).astype(dtype)).all()

    def test_small_outputs_stay_in_the_cache(self):
        x = np.zeros(1 << 12, np.float32)
        assert "!nontemporal" not in compile_nest(pointwise_nest(lambda m, a: a + 1, [x], [x.copy()])).llvm_ir
