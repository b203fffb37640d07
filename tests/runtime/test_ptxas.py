"""NVIDIA's assembler takes all PTX that is made here, and no kernel spills its registers.

The extra `test` brings ptxas to Linux on x86-64 and arm64, so these tests are skipped on other systems alone. By
default a kernel of each operator is assembled, with `-m "slow or not slow"` all, which takes some minutes:

    python -m pytest tests/runtime/test_ptxas.py -m "slow or not slow"

`ptxas_table.txt` says what kernels like those of benchmarks cost; `make accept T=tests/runtime/test_ptxas.py` writes it
anew. Another version of ptxas may give out registers otherwise: numbers of registers must be the same by the version
that the table names, and by others no more than `SLACK` higher.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.ir.dtypes import as_dtype
from jit.ir.errors import CompileError
from jit.runtime.gpu import ptxas
from jit.runtime.gpu.attention import attention_kernel, attention_nest
from jit.runtime.gpu.attention_backward import gradient_kernel
from jit.runtime.gpu.convolutions import by_weight, forward, window_of
from jit.runtime.gpu.device import DeviceKernel, device_kernel
from jit.runtime.gpu.matrices import of_matrices
from jit.runtime.gpu.ptxas import Resources, assemble, ptxas_path
from jit.runtime.kernels.nest import Buffer, Local, Nest, Reduce
from jit.runtime.targets.target import Target

from ..passes.test_fuse_rows import ONE_KERNEL
from .grid_emulation import GPU
from .nests_under_test import product, reduction
from .test_ptx import FIVE, fused, group_of
from .test_ptx_registry import POINTWISE, one, texts

pytestmark = pytest.mark.llvm

ARCHS = ("sm_80", "sm_90", "sm_100")
HERE = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
needs_ptxas = pytest.mark.skipif(not HERE, reason="there is no ptxas for this system")


SYMBOL = re.compile(r"\.func\s+(?:\([^)]*\)\s*)?(\w+)|^\s*\.(?:shared|global|const)\s.*?(\w+)\[", re.MULTILINE)
"""What PTX defines besides kernels: functions and arrays."""


def joined(kernels: Iterable[tuple[Nest, str]]) -> str:
    """One PTX text with all kernels, named k0, k1, ...; (nest, architecture) of each. ptxas takes as long to start."""
    head, parts = "", []
    for number, (nest, arch) in enumerate(kernels):
        text = device_kernel(replace(nest, name=f"k{number}"), Target.nvidia(arch)).ptx
        head, mark, body = text.partition(".address_size 64")
        own = "|".join({name for pair in SYMBOL.findall(body) for name in pair if name})
        parts.append(re.sub(rf"(?<![.\w])({own})\b", rf"\1_{number}", body) if own else body)
    return "\n".join([head + mark, *parts])


# -- all of it -----------------------------------------------------------------------------------------------------


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
def test_ptxas_takes_groups(arch):
    nests = [nest for nest, _, _ in FIVE.values()] + [group_of(name)[0] for name in ONE_KERNEL]
    text = joined((nest, arch) for nest in nests)
    assert f".target {arch}" in text
    made = assemble(text, arch)
    assert made.cubin[:4] == b"\x7fELF"
    assert len(made.kernels) == len(nests)
    assert not {name: cost for name, cost in made.kernels.items() if cost.spilled}


@cache
def of_operators(first: bool) -> tuple[str, int]:
    """Kernels of every pointwise operator, in one text, and how many: one of each, or all."""
    nests = [kernel.nest for op in POINTWISE for kernel in ([one(op)] if first else texts(op)) if kernel]
    return joined((nest, GPU.cpu) for nest in nests), len(nests)


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["first", "all"])
def test_ptxas_takes_a_kernel_of_every_operator(first, arch):
    text, count = of_operators(first)
    assert len(assemble(text, arch).kernels) == count > 100


# -- what kernels cost ---------------------------------------------------------------------------------------------

TABLE = Path(__file__).with_name("ptxas_table.txt")
SLACK = 8
"""Registers are given to warps in portions of this many for each thread."""


def zeros(*sizes: int, dtype: str = "float32") -> Any:
    return np.zeros(sizes, as_dtype(dtype).numpy)


X, WIDE, BIAS = zeros(2048, 1024), zeros(2048, 4096), zeros(1024)


def lstm(gates: Any, cell: Any) -> Any:
    i, f, g, o = gates.chunk(4, 1)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def multiplied(m: Any, x: Any, bias: Any) -> Any:
    return m.maximum(x + bias, 0)


def matrices(dtype: str, rows: int) -> Nest:
    """A product of so many rows, by a matrix that is transposed, as the weights of layers are."""
    a, b, out = (Buffer.like(zeros(n, 1024, dtype=dtype)) for n in (rows, 1024, rows))
    return of_matrices(a, Buffer(b.dtype, b.sizes, b.strides[::-1]), out)


def convolution(map_: Any, dtype: str) -> Nest:
    """A layer of ResNet-50."""
    image, kernel = (Buffer.like(zeros(*sizes, dtype=dtype)) for sizes in ((32, 64, 56, 56), (64, 64, 3, 3)))
    window = window_of(2, [1], [1], [1], 1)
    if map_ is forward:
        return forward(image, kernel, None, image, window)
    return by_weight(image, image, Buffer.like(zeros(4, 64, 64, 3, 3)), window)


BENCHMARKS: dict[str, Callable[[], Nest]] = {
    "1 input": lambda: fused(lambda x: x * 2 + 1, [X])[0],
    "2 inputs": lambda: fused(lambda x, y: x * y + 1, [X, X])[0],
    "3 inputs": lambda: fused(lambda x, y, z: x * y + z, [X] * 3)[0],
    "4 inputs": lambda: fused(lambda x, y, z, w: (x * y + z) * w, [X] * 4)[0],
    "row and column": lambda: fused(lambda x, b, c: F.relu(x * c + b), [X, BIAS, zeros(2048, 1)])[0],
    "gelu": lambda: fused(lambda x: F.gelu(x + 1), [X])[0],
    "float16": lambda: fused(lambda x, y: x * y + 1, [zeros(2048, 1024, dtype="float16")] * 2)[0],
    "bfloat16": lambda: fused(lambda x, y: x * y + 1, [zeros(2048, 1024, dtype="bfloat16")] * 2)[0],
    "float64": lambda: fused(lambda x, y: x * y + 1, [zeros(2048, 1024, dtype="float64")] * 2)[0],
    "softmax last": lambda: fused(lambda x: jit.softmax(x, -1), [X])[0],
    "softmax last, long": lambda: fused(lambda x: jit.softmax(x, -1), [zeros(8, 50257)])[0],
    "softmax mid": lambda: fused(lambda x: jit.softmax(x, 1), [zeros(64, 64, 128)])[0],
    "layer norm": lambda: fused(lambda x, w, b: F.layer_norm(x, [1024], w, b), [X, BIAS, BIAS])[0],
    "sum of rows": lambda: fused(lambda x: x.sum(1), [X])[0],
    "sum of columns": lambda: fused(lambda x: x.sum(0), [X])[0],
    "sum of all": lambda: fused(lambda x: x.sum(), [X])[0],
    "argmax": lambda: fused(lambda x: x.argmax(1), [X])[0],
    "lstm cell": lambda: fused(lstm, [WIDE, X])[0],
    "embedding": lambda: fused(lambda w, i: jit.embedding(w, i) * 2, [X, zeros(4, 33, dtype="int64")])[0],
    "transpose": lambda: fused(lambda x, y: x.t() * 2 + y, [X, zeros(1024, 2048)])[0],
    "cumsum": lambda: fused(lambda x: x.cumsum(1), [X])[0],
    "product": lambda: product(X, zeros(1024, 256), zeros(256), zeros(2048, 256), multiplied),
    "product, large": lambda: matrices("float32", 4096),
    "product, float16": lambda: matrices("float16", 256),
    "product, float16, large": lambda: matrices("float16", 4096),
    "product, bfloat16, large": lambda: matrices("bfloat16", 4096),
    "product, float64": lambda: matrices("float64", 256),
    "convolution": lambda: convolution(forward, "float32"),
    "convolution, float16": lambda: convolution(forward, "float16"),
    "convolution by weight": lambda: convolution(by_weight, "float32"),
    "convolution by weight, float16": lambda: convolution(by_weight, "float16"),
}


@cache
def benchmarks() -> list[Nest]:
    return [make() for make in BENCHMARKS.values()]


def attention(dtype: str, arch: str) -> DeviceKernel:
    """A head of a large model, causal."""
    q = Buffer.like(zeros(16, 1024, 64, dtype=dtype))
    nest = attention_nest(q, q, q, None, q, Buffer.like(zeros(16, 1024)))
    return attention_kernel(nest, Target.nvidia(arch), 0.125, True)


def gradients(dtype: str, names: tuple[str, ...], arch: str) -> DeviceKernel:
    """Of the same head."""
    q, rows = Buffer.like(zeros(16, 1024, 64, dtype=dtype)), Buffer.like(zeros(16, 1024))
    operands = dict(grad=q, query=q, key=q, value=q, logsumexp=rows, rowsum=rows)
    return gradient_kernel(names, operands, [q] * len(names), Target.nvidia(arch), 0.125, True)


ATTENTION: dict[str, Callable[[str], DeviceKernel]] = {
    f"{name}, {dtype}": partial(make, dtype, *more)
    for dtype in ("float32", "float16")
    for name, make, *more in (
        ("attention", attention),
        ("attention by query", gradients, ("query",)),
        ("attention by key and value", gradients, ("key", "value")),
    )
}
"""Kernels that are no nests of loops."""


@cache
def costs(arch: str) -> dict[str, Resources]:
    made = assemble(joined((nest, arch) for nest in benchmarks()), arch).kernels
    found = {name: made[f"k{number}"] for number, name in enumerate(BENCHMARKS)}
    for name, make in ATTENTION.items():
        (found[name],) = make(arch).assemble().kernels.values()
    return found


def version() -> str:
    """ptxas 13.0, say."""
    text = subprocess.run([str(ptxas_path()), "--version"], capture_output=True, text=True).stdout
    return "ptxas " + text.partition("release ")[2].partition(",")[0]


def table() -> dict[str, list[int]]:
    """For each benchmark the registers by architecture, then bytes of stack and of shared memory."""
    found = {}
    for name in (*BENCHMARKS, *ATTENTION):
        each = [costs(arch)[name] for arch in ARCHS]
        found[name] = [cost.registers for cost in each]
        found[name] += [max(cost.stack for cost in each), max(cost.shared for cost in each)]
    return found


def written(rows: dict[str, list[int]]) -> str:
    width = max(map(len, rows))
    heads = [*ARCHS, "stack", "shared"]
    lines = ["  ".join([f"{version():{width}}", *heads])]
    lines += [
        "  ".join([f"{name:{width}}", *(f"{n:{len(h)}}" for n, h in zip(row, heads, strict=True))])
        for name, row in rows.items()
    ]
    return "".join(f"{line}\n" for line in lines)


@needs_ptxas
def test_no_benchmark_spills():
    spilled = [(arch, name) for arch in ARCHS for name, cost in costs(arch).items() if cost.spilled]
    assert not spilled


@needs_ptxas
def test_costs_are_those_of_the_table():
    rows = table()
    if os.environ.get("EXPECTTEST_ACCEPT"):
        TABLE.write_text(written(rows))
    head, *lines = TABLE.read_text().splitlines()
    wanted = {" ".join(words[:-5]): [*map(int, words[-5:])] for words in map(str.split, lines)}
    assert rows.keys() == wanted.keys(), "run `make accept T=tests/runtime/test_ptxas.py`"
    slack = 0 if head.startswith(version() + " ") else SLACK
    worse = {
        name: (row, wanted[name])
        for name, row in rows.items()
        if row[3:] != wanted[name][3:] or not same(row[:3], wanted[name][:3], slack)
    }
    assert not worse, "if this is meant, run `make accept T=tests/runtime/test_ptxas.py`"


def same(registers: list[int], wanted: list[int], slack: int) -> bool:
    """Whether they are equal or, if there is slack, not much more."""
    return registers == wanted if not slack else all(a <= b + slack for a, b in zip(registers, wanted, strict=True))


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dims", [(0,), (1,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_large_blocks_find_enough_registers(count, dtype, dims, arch):
    """Several sums at once: 65,536 registers are all that there are, and none is spilled."""
    x = zeros(4096, 4096, dtype=dtype)[:, :64] if dims == (0,) else zeros(8, 4096, dtype=dtype)
    nest = reduction("sum", x, zeros(x.shape[1 - dims[0]], dtype=dtype), dims)
    sums = tuple(Reduce("sum", (number,), as_dtype(dtype)) for number in range(count))
    first = replace(nest.steps[0], results=sums, body=lambda m, a: (a, a * a, a * 3)[:count] if count > 1 else a)
    last = replace(nest.steps[1], reads=tuple(map(Local, range(count))), body=lambda m, *sums: sums[-1])
    kernel = device_kernel(replace(nest, steps=(first, last)), Target.nvidia(arch))
    cost, threads = kernel.assemble().kernels[kernel.name], kernel.grid.threads
    assert kernel.grid.teams > 1 and (threads <= 256 or f".maxnreg {65536 // threads}\n" in kernel.ptx)
    assert cost.registers * threads <= 1 << 16 and not cost.spilled


# -- ptxas itself --------------------------------------------------------------------------------------------------

SPILLING = """.version 7.0
.target sm_80
.address_size 64
.visible .entry spilling(.param .u64 out)
.maxntid 1024
.minnctapersm 2
{
    .reg .b32 %r<100>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
LOADS
STORES
    ret;
}
"""


@needs_ptxas
def test_spills_are_counted():
    """By a thread that may have 32 registers and holds 99 values."""
    loads = "\n".join(f"ld.volatile.u32 %r{i}, [%rd1+{4 * i}];" for i in range(1, 100))
    stores = "\n".join(f"st.volatile.u32 [%rd1+{4 * i}], %r{100 - i};" for i in range(1, 100))
    cost = assemble(SPILLING.replace("LOADS", loads).replace("STORES", stores), "sm_80").kernels["spilling"]
    assert cost.registers == 32 and cost.stack > 0 and cost.spilled >= 2 * cost.stack > 0


@pytest.fixture
def forgetful():
    ptxas_path.cache_clear()
    yield
    ptxas_path.cache_clear()


@pytest.mark.parametrize("folder", ["cuda_nvcc", "cu13"])
def test_ptxas_is_found_in_the_packages_that_carry_it(folder, tmp_path, monkeypatch, forgetful):
    program = tmp_path / "nvidia" / folder / "bin" / "ptxas"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert ptxas_path() == str(program)


def test_without_ptxas_nothing_is_assembled(monkeypatch):
    monkeypatch.setattr(ptxas, "ptxas_path", lambda: None)
    with pytest.raises(CompileError, match="nvidia-cuda-nvcc"):
        assemble(".version 7.0", "sm_80")


@needs_ptxas
def test_what_ptxas_refuses_is_an_error():
    with pytest.raises(CompileError, match="ptxas refuses"):
        assemble("this is no PTX", GPU.cpu)
