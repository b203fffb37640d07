"""Kernels around a few lines of PTX, for tests of single instructions and of faults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .launch import launch
from .memory import Memory

Array = np.ndarray[Any, Any]

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def kernel(body: str, declarations: str = "", parameters: int = 1, functions: str = "") -> str:
    """An entry `k` whose parameters p0, p1, ... are addresses; its registers are %p, %h, %r, %rd, %f and %fd."""
    listed = ", ".join(f".param .u64 p{number}" for number in range(parameters))
    registers = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;"
    return f"{HEADER}{functions}\n.visible .entry k({listed})\n{{ {registers} {declarations}\n{body}\n}}\n"


def run(body: str, *arrays: Array, grid: Any = 1, block: Any = 32, **options: Any) -> list[Array]:
    """What a kernel `k` leaves of the arrays whose addresses are its parameters."""
    declarations, functions = options.pop("declarations", ""), options.pop("functions", "")
    memory = Memory()
    addresses = [memory.allocate(a) for a in arrays]
    launch(kernel(body, declarations, len(arrays), functions), "k", grid, block, addresses, memory, **options)
    return [memory.view(address) for address in addresses]


def computing(lines: str, result: Any, inputs: Sequence[Any]) -> str:
    """An entry in which each thread computes %d of %a, %b, %c and %e, elements of its parameters."""
    names = "abce"[: len(inputs)]
    dtypes = dict(zip("d" + names, map(np.dtype, (result, *inputs))))
    widths = {name: dtype.itemsize for name, dtype in dtypes.items()}
    registers = "".join(f".reg .b{max(8 * widths[n], 16)} %{n}; .reg .b64 %at_{n}; " for n in widths)
    text = ["cvt.u64.u32 %place, %number;"]
    for number, (name, width) in enumerate(widths.items()):
        text.append(f"ld.param.u64 %base, [p{number}]; mad.lo.u64 %at_{name}, %place, {width}, %base;")
        if name != "d":
            text.append(f"ld.global.b{8 * width} %{name}, [%at_{name}];")
    body = "mov.u32 %number, %tid.x; " + "\n".join([*text, lines, f"st.global.b{8 * widths['d']} [%at_d], %d; ret;"])
    return kernel(body, f"{registers} .reg .b64 %place, %base; .reg .b32 %number;", len(dtypes))


def computed(lines: str, result: Any, *inputs: Array) -> Array:
    """%d for all elements of the inputs %a, %b, %c and %e."""
    found, memory = np.zeros(len(inputs[0]), result), Memory()
    addresses = [memory.reserve(found.shape, found.dtype), *map(memory.allocate, inputs)]
    text = computing(lines, result, [a.dtype for a in inputs])
    for start in range(0, len(found), 1024):
        count = min(1024, len(found) - start)
        shifted = [at + start * a.itemsize for at, a in zip(addresses, (found, *inputs))]
        launch(text, "k", 1, count, shifted, memory)
    return memory.view(addresses[0])


def pairs_of(values: Array, count: int) -> list[Array]:
    """All combinations of some values."""
    grids = np.meshgrid(*[np.arange(len(values))] * count, indexing="ij")
    return [values[g.ravel()] for g in grids]


def wrapped(value: int, dtype: Any) -> Any:
    """An integer in a dtype's width."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    return np.array(value % (1 << 8 * word.itemsize), word).view(dtype)[()]


def some_integers(dtype: Any, rng: np.random.Generator, count: int = 12) -> Array:
    """Ends of the range, small numbers and some others."""
    ends = np.iinfo(dtype)
    small = [n for n in (0, 1, 2, 3, -1, -2, 7, 31, 32, 33) if n >= ends.min]
    others = rng.integers(ends.min, ends.max, count, dtype=dtype, endpoint=True).tolist()
    return np.array([*small, ends.min, ends.max, ends.max - 1, *others], dtype)


def some_floats(dtype: Any, rng: np.random.Generator, count: int = 12) -> Array:
    """Any bits, and numbers near one; NaN, infinities, zeros, subnormal numbers and the largest."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    bits = rng.integers(0, 1 << 8 * word.itemsize, count, dtype=word).view(dtype)
    exponents = {2: (0, 1, 0x3FF, 0x7BFF, 0x7C00, 0x7E00), 4: (0, 1, 0x7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000)}
    odd = exponents.get(word.itemsize, (0, 1, (1 << 52) - 1, 0x7FEF << 48 | (1 << 48) - 1, 0x7FF0 << 48, 0x7FF8 << 48))
    signs = [0, 1 << (8 * word.itemsize - 1)]
    special = np.array([b | sign for b in odd for sign in signs], word).view(dtype)
    near = np.array([1, -1, 1.5, 2.5, -0.5, 3, math.pi, -math.e], np.float64).astype(dtype)
    return np.concatenate([special, near, bits, rng.normal(size=count).astype(dtype)])
