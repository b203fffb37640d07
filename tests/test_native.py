"""CppOps: native functions by address, eager, traced, and in the interpreter."""

import ctypes
from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.arrays.native import SIGNATURE

SAXPY = """
define i32 @saxpy(ptr %args, i64 %n, ptr %ctx) {
entry:
  %ok = icmp eq i64 %n, 3
  br i1 %ok, label %load, label %bad
bad:
  ret i32 7
load:
  %x = load ptr, ptr %args
  %ay = getelementptr i8, ptr %args, i64 40
  %y = load ptr, ptr %ay
  %ao = getelementptr i8, ptr %args, i64 80
  %o = load ptr, ptr %ao
  %ps = getelementptr i8, ptr %args, i64 16
  %sizes = load ptr, ptr %ps
  %count = load i64, ptr %sizes
  br label %loop
loop:
  %i = phi i64 [0, %load], [%next, %body]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %px = getelementptr float, ptr %x, i64 %i
  %vx = load float, ptr %px
  %py = getelementptr float, ptr %y, i64 %i
  %vy = load float, ptr %py
  %twice = fmul float %vx, 2.0
  %sum = fadd float %twice, %vy
  %po = getelementptr float, ptr %o, i64 %i
  store float %sum, ptr %po
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
"""


@pytest.fixture(scope="module")
def saxpy():
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(SAXPY)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    yield jit.CppOp("cpp::saxpy(Tensor x, Tensor y) -> Tensor", engine.get_function_address("saxpy"))
    del engine


@pytest.mark.llvm
def test_a_function_compiled_by_llvm_runs_eagerly_and_traced(saxpy):
    x, y = jit.rand(5), jit.rand(5)
    expected = x._array * 2 + y._array
    np.testing.assert_array_equal(saxpy(x, y)._array, expected)

    @jit.trace
    def f(x, y):
        return saxpy(x, y) + 1

    for _ in range(3):
        np.testing.assert_array_equal(f(x, y)._array, expected + 1)
    assert (f.hits, f.misses) == (2, 1)
    assert "cpp::saxpy(%x, %y)" in str(f.graph)


@pytest.mark.llvm
def test_a_graph_with_a_cpp_op_reads_back(saxpy):
    f = jit.trace(lambda x, y: saxpy(x, y))
    f(jit.ones(2), jit.ones(2))
    text = str(f.graph)
    assert str(jit.ir.parse(text, functions={"saxpy": saxpy})) == text


def test_a_status_other_than_zero_is_an_error():
    def fails(buffers, n, ctx):
        return 3

    op = jit.CppOp("cpp::fails(Tensor x) -> Tensor", SIGNATURE(fails))
    with pytest.raises(jit.Error, match="fails failed with status 3"):
        op(jit.ones(2))


def test_buffers_describe_strided_arrays_and_dtypes():
    seen: list[Any] = []

    def look(buffers, n, ctx):
        seen.extend((b.ndim, list(b.sizes[: b.ndim]), list(b.strides[: b.ndim]), b.dtype) for b in buffers[:n])
        return 0

    op = jit.CppOp("cpp::look(Tensor x) -> Tensor", SIGNATURE(look))
    op(jit.ones(2, 3).t())
    assert seen == [(2, [3, 2], [4, 12], 8), (2, [3, 2], [8, 4], 8)]


def test_a_type_rule_says_what_is_returned():
    def count(buffers, n, ctx):
        ctypes.cast(buffers[1].data, ctypes.POINTER(ctypes.c_int64))[0] = buffers[0].sizes[0]
        return 0

    op = jit.CppOp("cpp::count(Tensor x) -> Tensor", SIGNATURE(count), type=lambda x: jit.ir.TensorType(jit.int64, ()))
    assert op(jit.ones(6)).item() == 6


def test_misuse_is_explained():
    op = jit.CppOp("cpp::f(Tensor x) -> Tensor", SIGNATURE(lambda b, n, c: 0))
    with pytest.raises(jit.SchemaError, match="cpp::f"):
        op(jit.ones(2), jit.ones(2))
    with pytest.raises(jit.AutogradError, match=r"autograd\.Function"):
        op(jit.ones(2, requires_grad=True))
    with pytest.raises(jit.SchemaError, match="tensors alone"):
        jit.CppOp("cpp::g(int n) -> Tensor", 1)
    with pytest.raises(jit.UsageError, match="address"):
        jit.CppOp("cpp::g(Tensor x) -> Tensor", "nowhere")
