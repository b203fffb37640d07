"""Looking inside: the kernels of a traced function, where its time goes, and why lines are not one kernel."""

import inspect
import itertools
import json
import re

import numpy as np
import pytest

import jit

pytestmark = pytest.mark.llvm


PRODUCTS = ("mm (by lines)", "mm (packed)")
"""The names of a small product: which one it is depends on the registers of the processor."""


def program(x, w):
    h = jit.tanh(x @ w)
    y = h * 2 + 1
    return y.sum(0), jit.softmax(y, -1)


FIRST = inspect.getsourcelines(program)[1]
PRODUCT, POINTWISE, RESULTS = (f"test_inspecting.py:{FIRST + i} in program" for i in (1, 2, 3))


@pytest.fixture
def traced():
    f = jit.trace(program)
    f(*arguments())
    return f


def arguments():
    return jit.randn(8, 16), jit.randn(16, 32)


# -- kernels -----------------------------------------------------------------------------------------------------


def test_kernels_have_readable_names_and_the_lines_of_the_user(traced):
    names = [kernel.name for kernel in traced.kernels]
    assert names == ["tanh_mul_add_sum", "softmax"]
    assert traced.kernels[0].source_lines == (PRODUCT, POINTWISE, RESULTS)
    assert traced.kernels[1].source_lines == (RESULTS,)


def test_kernels_show_their_code(traced):
    kernel = traced.kernels[0]
    assert kernel.llvm_ir.startswith(f"; {PRODUCT}\n; {POINTWISE}\n; {RESULTS}\n")
    assert "define i32 @tanh_mul_add_sum(" in kernel.llvm_ir
    assert kernel.asm.startswith(f"# {PRODUCT}\n")
    assert re.search(r"^\s+ret", kernel.asm, re.MULTILINE)
    assert ".entry tanh_mul_add_sum(" in kernel.ptx
    assert "tanh_mul_add_sum" in repr(kernel)
    assert PRODUCT in repr(kernel)


def test_bytes_and_flops_are_those_of_the_program(traced):
    fused, softmax = traced.kernels
    assert fused.bytes == 4 * (8 * 32 + 8 * 32 + 32)  # reads the product; writes y and its sum
    assert fused.flops == 4 * 8 * 32  # tanh, mul, add, sum
    assert (softmax.bytes, softmax.flops) == (4 * 2 * 8 * 32, 8 * 32)


def test_a_broadcast_operand_is_moved_once():
    f = jit.trace(lambda x, y: x + y)
    f(jit.ones(100, 50), jit.ones(50))
    assert f.kernels[0].bytes == 4 * (2 * 100 * 50 + 50)


def test_equal_layers_share_a_kernel():
    def layers(x):
        x = (x @ x).tanh()
        return (x @ x).tanh()

    f = jit.trace(layers)
    f(jit.ones(4, 4))
    first = inspect.getsourcelines(layers)[1]
    (kernel,) = f.kernels
    assert kernel.calls == 2
    assert [line.split()[0] for line in kernel.source_lines] == [f"test_inspecting.py:{first + i}" for i in (1, 2)]


def test_kernels_of_the_backward_come_with_its_stage():
    w = jit.randn(16, 32).requires_grad_()
    f = jit.trace(program)
    f(jit.randn(8, 16), w)[1].sum().backward()
    assert [kernel.stage for kernel in f.kernels][-1] == 1
    assert any("backward" in kernel.name for kernel in f.kernels)


def test_a_function_that_was_never_called_has_no_kernels():
    f = jit.trace(program)
    with pytest.raises(jit.Error, match="program has no kernels yet: call it once"):
        _ = f.kernels
    with pytest.raises(jit.Error, match="call it with them once"):
        f.profile(*arguments())
    with pytest.raises(jit.Error, match="call it once"):
        f.why_not(1, 2)


def test_a_function_without_native_code_has_no_kernels():
    f = jit.trace(optimize=False)(program)
    f(*arguments())
    assert f.kernels == []


# -- profile -----------------------------------------------------------------------------------------------------


def test_a_profile_lists_kernels_and_lines(traced):
    found = traced.profile(*arguments())
    names = {row.name for row in found.kernels}
    assert names in ({product, "tanh_mul_add_sum", "softmax"} for product in PRODUCTS)
    assert {row.name for row in found.lines} == {PRODUCT, POINTWISE, RESULTS}
    product = next(row for row in found.kernels if row.name in PRODUCTS)
    assert product.flops == 2 * 8 * 16 * 32
    assert product.bytes == 4 * (8 * 16 + 16 * 32 + 8 * 32)
    for column in ("seconds", "bytes", "flops"):
        kernels, lines = (sum(getattr(row, column) for row in rows) for rows in (found.kernels, found.lines))
        assert kernels == pytest.approx(lines)
    assert 0 < found.seconds < 1
    assert found.seconds == pytest.approx(sum(row.seconds for row in found.kernels))


def test_the_time_of_a_profile_is_that_of_the_work():
    f = jit.trace(lambda x, y: ((x.tanh() + 1).sum(), y + 1))
    x, y = jit.ones(1000, 1000), jit.ones(10)
    f(x, y)
    rows = f.profile(x, y).kernels
    assert rows[0].name == "tanh_add_sum_blocks"
    assert rows[0].seconds > 10 * rows[1].seconds


def test_a_profile_prints_as_a_table(traced):
    text = str(traced.profile(*arguments()))
    assert text.startswith("program: ")
    for word in ("tanh_mul_add_sum", "softmax", PRODUCT, "bytes", "flops", "time"):
        assert word in text


def test_a_profile_is_a_chrome_trace(traced, tmp_path):
    traced.profile(*arguments()).save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    product, *others = [event["name"] for event in events]
    assert product in PRODUCTS and others == ["tanh_mul_add_sum", "softmax"]
    for before, after in itertools.pairwise(events):
        assert before["ph"] == "X"
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])
    assert events[2]["args"] == {"bytes": 2048, "flops": 256, "lines": [RESULTS], "stage": 0}


def test_profiling_has_no_effects():
    norm = jit.nn.BatchNorm1d(4)
    f = jit.trace(norm)
    x = jit.randn(8, 4)
    f(x)
    before = {name: value.numpy().copy() for name, value in norm.state_dict().items()}
    state = jit.get_rng_state()
    assert any("native_batch_norm" in row.name or "batch_norm" in row.name for row in f.profile(x).kernels)
    for name, value in norm.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert jit.get_rng_state() == state


def test_what_python_runs_is_in_a_profile_too():
    class Twice(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    f = jit.trace(lambda x: Twice.apply(x).sort()[0])
    f(jit.ones(4))
    names = {row.name for row in f.profile(jit.ones(4)).kernels}
    assert "^Twice (no kernel)" in names
    assert any(name.startswith("aten::sort") for name in names)


def test_a_profile_follows_the_branch_that_the_arguments_take():
    f = jit.trace(lambda x: x.tanh() if x.sum() > 0 else x.exp())
    f(jit.ones(3))
    f(-jit.ones(3))
    assert any("exp" in row.name for row in f.profile(-jit.ones(3)).kernels)
    assert any("tanh" in row.name for row in f.profile(jit.ones(3)).kernels)


def test_backwards_that_have_been_seen_are_profiled():
    w = jit.randn(16, 32).requires_grad_()
    x = jit.randn(8, 16)
    f = jit.trace(program)
    f(x, w)[1].sum().backward()
    assert {row.stage for row in f.profile(x, w).kernels} == {0, 1}
    assert np.isfinite(w.grad.numpy()).all()


# -- why not -----------------------------------------------------------------------------------------------------


def test_lines_that_are_one_kernel_are_said_to_be(traced):
    assert traced.why_not(FIRST + 1, FIRST + 2).startswith("they are one kernel")
    assert traced.why_not(f"test_inspecting.py:{FIRST + 1}", FIRST + 2).startswith("they are one kernel")


def test_a_product_is_not_part_of_a_kernel():
    def two(x):
        h = x @ x
        return h.tanh()

    f = jit.trace(two)
    f(jit.ones(3, 3))
    first = inspect.getsourcelines(two)[1]
    answer = f.why_not(first + 1, first + 2)
    assert f"aten::mm (test_inspecting.py:{first + 1})".replace("(", "(line ") in answer
    assert "a step of its own" in answer and "tile by tile" in answer


def test_rows_and_columns_are_two_kernels():
    def two(x):
        h = x.sum(0)
        return (h + x).sum(1)

    f = jit.trace(two)
    f(jit.ones(3, 3))
    first = inspect.getsourcelines(two)[1]
    answer = f.why_not(first + 1, first + 2)
    assert answer.startswith(f"aten::sum (line test_inspecting.py:{first + 1}) is not part of the kernel")


def test_lines_that_have_nothing_to_do_with_each_other():
    def two(x):
        a = x.tanh()
        b = x.exp()
        return a, b

    f = jit.trace(two)
    f(jit.ones(3))
    first = inspect.getsourcelines(two)[1]
    assert f.why_not(first + 1, first + 2) == "no kernel of one line asks for what the other line computes"


def test_a_line_without_operators_is_an_error_that_lists_those_that_there_are(traced):
    with pytest.raises(jit.Error, match=rf"no operator of line 1 is computed.*test_inspecting.py:{FIRST + 1}"):
        traced.why_not(1, FIRST + 1)


# -- dumps -------------------------------------------------------------------------------------------------------


def test_a_dump_has_graphs_and_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("JIT_DUMP", str(tmp_path / "dump"))
    f = jit.trace(program)
    f(*arguments())
    f(*arguments())
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert {"kernel0-tanh_mul_add_sum.ll", "kernel0-tanh_mul_add_sum.s", "kernel1-softmax.ll"} <= set(names)
    assert any(re.fullmatch(r"\d\d-fuse.ir", name) for name in names)
    assert "prim::FusionGroup" in next((tmp_path / "dump").glob("*-fuse.ir")).read_text()
    assert (tmp_path / "dump" / "kernel0-tanh_mul_add_sum.ll").read_text() == f.kernels[0].llvm_ir
    assert (tmp_path / "dump" / "kernel0-tanh_mul_add_sum.s").read_text() == f.kernels[0].asm


def test_a_dump_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    f = jit.trace(program)
    f(*arguments())
    monkeypatch.setenv("JIT_DUMP", str(tmp_path / "file" / "folder"))
    with pytest.raises(jit.Error, match="JIT_DUMP: cannot write"):
        f(*arguments())


def test_recordings_for_many_sizes_show_their_kernels():
    model = jit.nn.Sequential(jit.nn.Linear(8, 16), jit.nn.GELU(), jit.nn.LayerNorm(16))
    traced = jit.trace(model)
    for length in (5, 6, 7, 9):
        traced(jit.randn(length, 8)).sum().backward()
    assert traced._last.general
    assert {kernel.name for kernel in traced.kernels} >= {"add_gelu_native_layer_norm"}
    rows = traced.profile(jit.randn(11, 8)).kernels
    assert {row.stage for row in rows} == {0, 1}
    assert {row.name for row in rows if "no kernel" in row.name} <= {"aten::view (no kernel)"}
