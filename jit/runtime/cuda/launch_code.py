"""Native functions that queue a list of kernels on a GPU: one by one, or as a CUDA graph.

They call CUDA's driver by the addresses of its functions, so a list of launches takes one call from Python.

Note [A list of launches]
    i64 words. Per launch: the driver's handle of the kernel, the number of blocks, the threads of each, the address of
    its geometry, the number of its operands, the pair (base, byte offset) of the errors, and such a pair per operand; a
    zero ends it. Bases are addresses on the GPU: the arena, inputs, outputs, errors, and a word that nobody reads.

    A kernel takes three parameters: the addresses of its operands, its geometry, and the address of its errors. The
    driver copies them before it returns, so they lie on the stack.

    A launch of no threads is a product by cuBLAS: its function takes the place of the handle of a kernel, and the words
    of the product that of the geometry, see Note [Products by cuBLAS] in `cublas_products`. It has no errors.

Note [A replay]
    A graph holds the parameters of its kernels. For each launch `nodes` has the graph's node and the address of a
    record, see `graphs.NodeParameters`, that points to the parameters as the graph has them: first the address of the
    errors, then those of operands. A call whose addresses are others writes them there and tells the graph, kernel by
    kernel, before it is launched. So a graph never runs with an address that its call did not bring. What was launched
    before is not affected by that, says CUDA.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from ..kernels.codegen import compile_routine
from ..llvm.words import Routine, Word

HEAD = 7
"""Words of a launch before its operands."""
BEST = -1
"""The algorithm that cuBLAS chooses."""
STEP = 1 << 32
"""Statuses are `launch * STEP + status`, the launches counted from 1."""


def _address(r: Routine, pair: Word) -> Word:
    """The address that a pair of a base and an offset stands for."""
    return r.add(r.word("%bases", r.word(pair)), r.word(pair, 1))


def _leave_if_failed(r: Routine, step: Word, status: Word) -> None:
    with r.unless(r.same(status, 0)):
        r.leave(r.add(r.scale(r.add(r.word(step), 1), STEP), status))


def _next(r: Routine, at: Word, step: Word, end: Word) -> None:
    r.put(at, 0, end)
    r.put(step, 0, r.add(r.word(step), 1))


def queue() -> str:
    """`kernel(program, bases, most, stream, launch, handle)`: queue the launches; 0 or the status of one.

    `handle` is cuBLAS's for this stream; nobody looks at it if there are no products.
    """
    r = Routine("kernel", ["program", "bases", "most", "stream", "launch", "handle"])
    operands, parameters = r.space("%most"), r.space("3")
    at, step, errors, status = (r.variable() for _ in range(4))
    r.put(at, 0, "%program")
    r.put(step, 0, 0)
    r.put(parameters, 0, operands)
    r.put(parameters, 2, errors)
    with r.loop(2**62):
        here = r.word(at)
        function, count = r.word(here), r.word(here, 4)
        with r.when(r.same(function, 0)):
            r.leave(0)
        r.put(errors, 0, _address(r, r.add(here, 40)))
        pairs = r.add(here, 8 * HEAD)
        with r.loop(count) as i:
            r.put(operands, i, _address(r, r.add(pairs, r.scale(i, 16))))
        words, threads = r.word(here, 3), r.word(here, 2)
        with r.when(r.same(threads, 0)):
            r.put(status, 0, _product(r, function, "%handle", words, *(r.word(operands, i) for i in range(3))))
        with r.unless(r.same(threads, 0)):
            r.put(parameters, 1, words)
            grid = (r.word(here, 1), 1, 1, threads, 1, 1)
            r.put(status, 0, r.call("%launch", function, *grid, 0, "%stream", parameters, 0, returns="i32"))
        _leave_if_failed(r, step, r.word(status))
        _next(r, at, step, r.add(pairs, r.scale(count, 16)))
    r.leave(0)
    return r.text()


def multiply() -> str:
    """`kernel(function, handle, words, a, b, c)`: queue one product; its status."""
    r = Routine("kernel", ["function", "handle", "words", "a", "b", "c"])
    r.leave(_product(r, "%function", "%handle", "%words", "%a", "%b", "%c"))
    return r.text()


def _product(r: Routine, function: Word, handle: Word, words: Word, a: Word, b: Word, c: Word) -> Word:
    """The status of a product, whose words are those of `cublas_products.ProductWords`."""
    turned_b, turned_a, *sizes, leading_b, step_b, leading_a, step_a, leading_c, step_c, batch, elements, sums = (
        r.word(words, at) for at in range(14)
    )
    alpha, beta = r.add(words, 8 * 14), r.add(words, 8 * 15)
    return r.call(
        function, handle, turned_b, turned_a, *sizes, alpha, b, elements, leading_b, step_b, a, elements, leading_a,
        step_a, beta, c, elements, leading_c, step_c, batch, sums, BEST, returns="i32",
    )  # fmt: skip


def replay() -> str:
    """`kernel(program, bases, nodes, graph, stream, update, launch, changed)`: see Note [A replay].

    `changed` counts the kernels whose parameters were others. A status of a launch says that the graph took no
    parameters for it, and that nothing was queued; one of the graph's own is smaller than `STEP`.
    """
    r = Routine("kernel", ["program", "bases", "nodes", "graph", "stream", "update", "launch", "changed"])
    at, step, differs = r.variable(), r.variable(), r.variable()
    r.put(at, 0, "%program")
    r.put(step, 0, 0)
    with r.loop(2**62):
        here = r.word(at)
        with r.when(r.same(r.word(here), 0)):
            r.end_loop()
        node = r.add("%nodes", r.scale(r.word(step), 24))
        held, pairs, count = r.word(node, 2), r.add(here, 40), r.add(r.word(here, 4), 1)
        r.put(differs, 0, 0)
        with r.loop(count) as i:
            address = _address(r, r.add(pairs, r.scale(i, 16)))
            with r.unless(r.same(r.word(held, i), address)):
                r.put(held, i, address)
                r.put(differs, 0, 1)
        with r.unless(r.same(r.word(differs), 0)):
            r.put("%changed", 0, r.add(r.word("%changed"), 1))
            _leave_if_failed(r, step, r.call("%update", "%graph", r.word(node), r.word(node, 1), returns="i32"))
        _next(r, at, step, r.add(pairs, r.scale(count, 16)))
    r.leave(r.call("%launch", "%graph", "%stream", returns="i32"))
    return r.text()


@cache
def compiled(write: Callable[[], str]) -> Any:
    """One of these functions for ctypes, which releases the GIL."""
    names = write().partition("(")[2].partition(")")[0].split(",")
    address = compile_routine(f"{write.__name__} of launches", lambda: ((), write()))
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(names))(address)
