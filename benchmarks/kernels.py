"""Measures single kernels on one thread against numpy, torch and jax where installed, and against the machine's limits.

    python benchmarks/kernels.py                    # everything; about a minute
    python benchmarks/kernels.py softmax sum        # workloads whose names contain one of the words

The limits are measured first: the bandwidth of a copy (read and write) and the rate of a large matrix product. Each
workload is run in turn by every library that can, for several rounds. A row has the shortest time of the kernel in
milliseconds, its rate (GB/s of the bytes that must move, or GF/s), the share of the limit that this is, and how long
the others take relative to it. Kernels write into arrays that exist already, numpy too where it has an `out`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import jit
from jit.passes import run as run_passes
from jit.passes.fuse import fuse
from jit.runtime.arrays.interpreter import fused_group
from jit.runtime.kernels.codegen import Kernel, compile_nest
from jit.runtime.kernels.fusion import supports
from tests.runtime import nests_under_test as nests

ROUNDS = 15
ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "JIT_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}  # fmt: skip
"""What the libraries read when they are loaded."""
Array = np.ndarray[Any, Any]


@dataclass
class Workload:
    """A computation, the libraries that do it, and the bytes or flops that it takes."""

    name: str
    ours: Callable[[], Any]
    nbytes: int = 0
    flops: int = 0
    peers: dict[str, Callable[[], Any]] = field(default_factory=dict)


def optional(name: str) -> Any:
    """A module, or None if it is not installed."""
    try:
        module = __import__(name)
    except ImportError:
        return None
    if name == "torch":
        module.set_num_threads(1)
    return module


TORCH, JAX = optional("torch"), optional("jax")
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    """A float32 array of standard normal numbers."""
    return RNG.standard_normal(shape, np.float32)


def by_torch(function: Callable[..., Any], *arrays: Array) -> dict[str, Callable[[], Any]]:
    """The function of torch tensors as a peer; no peer if torch is not installed."""
    if TORCH is None:
        return {}
    tensors = [TORCH.from_numpy(a) for a in arrays]
    return {"torch": lambda: function(*tensors)}


def by_jax(function: Callable[..., Any], *arrays: Array) -> dict[str, Callable[[], Any]]:
    """The function compiled by jax as a peer; no peer if jax is not installed."""
    if JAX is None:
        return {}
    compiled, values = JAX.jit(function), [JAX.numpy.asarray(a) for a in arrays]
    return {"jax": lambda: compiled(*values).block_until_ready()}


def fused(function: Callable[..., Any], *arrays: Array) -> Callable[[], Any]:
    """The one kernel that a traced function becomes, called on arrays that exist."""
    traced = jit.trace(function, optimize=False)
    traced(*map(jit.from_numpy, arrays))
    graph = traced.graph.clone()
    run_passes(graph, ["inline_composites", "infer_types", "constant_fold", "peephole", "cse", "dce"])
    fuse(graph, supports)
    (node,) = graph.nodes
    by_value = dict(zip(graph.inputs, arrays, strict=True))
    inputs = [by_value[value] for value in node.inputs]
    group = fused_group(node.attributes["body"])
    outputs = group(inputs)
    (kernel,) = group.kernels
    return lambda: kernel(inputs, outputs)


def kernel(nest: Any, inputs: list[Array], outputs: list[Array]) -> Callable[[], Any]:
    """A call of the compiled nest."""
    compiled: Kernel = compile_nest(nest)
    return lambda: compiled(inputs, outputs)


# -- workloads ---------------------------------------------------------------------------------------------------


def softmaxes() -> list[Workload]:
    """Along the last dim and along a middle one."""
    found = []
    for name, shape in (("softmax last", (4096, 1024)), ("softmax mid", (64, 512, 128))):
        x, out = normal(*shape), np.empty(shape, np.float32)

        def plain(x: Array = x) -> Array:
            e = np.exp(x - x.max(1, keepdims=True))
            return e / e.sum(1, keepdims=True)

        peers = {"numpy": plain, **by_torch(lambda x: TORCH.softmax(x, 1), x)}
        peers |= by_jax(lambda x: JAX.nn.softmax(x, 1), x)
        found.append(Workload(name, kernel(nests.softmax(x, out, 1), [x], [out]), 2 * x.nbytes, peers=peers))
    return found


def reductions() -> list[Workload]:
    """Of a matrix of 64 MB."""
    x = normal(4096, 4096)
    found = []
    for name, dims in (("sum 0", (0,)), ("sum 1", (1,)), ("sum all", (0, 1))):
        out = np.empty(x.sum(dims).shape, np.float32)
        peers = {"numpy": lambda dims=dims: x.sum(dims), **by_torch(lambda x, dims=dims: x.sum(dims), x)}
        peers |= by_jax(lambda x, dims=dims: x.sum(dims), x)
        found.append(Workload(name, kernel(nests.reduction("sum", x, out, dims), [x], [out]), x.nbytes, peers=peers))
    out, index = np.empty(4096, np.float32), np.empty(4096, np.int64)
    peers = {"numpy": lambda: x.max(1), **by_torch(lambda x: x.amax(1), x), **by_jax(lambda x: x.max(1), x)}
    found.append(Workload("max 1", kernel(nests.reduction("max", x, out, (1,)), [x], [out]), x.nbytes, peers=peers))
    peers = {"numpy": lambda: x.argmax(1), **by_torch(lambda x: x.argmax(1), x), **by_jax(lambda x: x.argmax(1), x)}
    found.append(
        Workload("argmax 1", kernel(nests.reduction("argmax", x, index, (1,)), [x], [index]), x.nbytes, peers=peers)
    )
    peers = {"numpy": lambda: x.var(1), **by_torch(lambda x: x.var(1), x), **by_jax(lambda x: x.var(1), x)}
    found.append(Workload("var 1", fused(lambda x: x.var(1), x), x.nbytes, peers=peers))
    return found


def scans() -> list[Workload]:
    """Running sums along both dims."""
    x, out = normal(2048, 2048), np.empty((2048, 2048), np.float32)
    found = []
    for dim in (0, 1):
        peers = {"numpy": lambda dim=dim: np.cumsum(x, dim, out=out)}
        peers |= by_torch(lambda x, dim=dim: TORCH.cumsum(x, dim), x)
        peers |= by_jax(lambda x, dim=dim: JAX.numpy.cumsum(x, dim), x)
        ours = kernel(nests.running(x, out, dim), [x], [out])
        found.append(Workload(f"cumsum {dim}", ours, 2 * x.nbytes, peers=peers))
    return found


def lstm() -> list[Workload]:
    """The pointwise part of a cell."""
    gates, cell = normal(64, 2048), normal(64, 512)
    outs = [np.empty_like(cell), np.empty_like(cell)]

    def by_chunks(m: Any, gates: Any, cell: Any, chunk: Callable[[Any], Any]) -> Any:
        i, f, g, o = chunk(gates)
        c = m.sigmoid(f) * cell + m.sigmoid(i) * m.tanh(g)
        return m.sigmoid(o) * m.tanh(c) + c

    peers = by_torch(lambda g, c: by_chunks(TORCH, g, c, lambda g: g.chunk(4, 1)), gates, cell)
    if JAX is not None:

        class Names:
            sigmoid, tanh = JAX.nn.sigmoid, JAX.numpy.tanh

        peers |= by_jax(lambda g, c: by_chunks(Names, g, c, lambda g: JAX.numpy.split(g, 4, 1)), gates, cell)
    ours = kernel(nests.lstm_cell(gates, cell, *outs), [gates, cell], outs)
    return [Workload("lstm cell", ours, gates.nbytes + 3 * cell.nbytes, peers=peers)]


def embeddings() -> list[Workload]:
    """8,192 rows of 50,000."""
    weight, indices = normal(50_000, 256), RNG.integers(0, 50_000, (64, 128))
    out = np.empty((64, 128, 256), np.float32)
    peers = {"numpy": lambda: np.take(weight, indices, 0, out=out)}
    peers |= by_torch(lambda w, i: TORCH.embedding(w, i), weight, indices)
    peers |= by_jax(lambda w, i: JAX.numpy.take(w, i, axis=0), weight, indices)
    ours = kernel(nests.embedding(weight, indices, out), [weight, indices], [out])
    return [Workload("embedding", ours, 2 * out.nbytes, peers=peers)]


def products() -> list[Workload]:
    """relu(a @ b + bias), b as it is and transposed."""
    found = []
    for m, k, n in ((32, 784, 512), (64, 512, 512), (256, 256, 256), (1024, 1024, 1024)):
        for name, order in (("", "C"), (" b.T", "F")):
            a, b, bias = normal(m, k), np.asarray(normal(k, n), order=order), normal(n)
            out = np.empty((m, n), np.float32)

            def plain(a: Array = a, b: Array = b, bias: Array = bias, out: Array = out) -> None:
                np.matmul(a, b, out=out)
                np.add(out, bias, out=out)
                np.maximum(out, 0, out=out)

            peers = {"numpy": plain, **by_torch(lambda a, b, c: TORCH.addmm(c, a, b).relu_(), a, b, bias)}
            peers |= by_jax(lambda a, b, c: JAX.nn.relu(a @ b + c), a, b, bias)
            nest = nests.product(a, b, bias, out, lambda m, x, c: m.maximum(x + c, 0))
            ours = kernel(nest, [a, b, bias], [out])
            found.append(Workload(f"product {m}x{k}x{n}{name}", ours, flops=2 * m * k * n, peers=peers))
    a, b, out = normal(256, 64, 64), normal(256, 64, 64), np.empty((256, 64, 64), np.float32)
    peers = {"numpy": lambda: np.matmul(a, b, out=out), **by_torch(lambda a, b: TORCH.bmm(a, b), a, b)}
    ours = kernel(nests.product(a, b, None, out, lambda m, x: x), [a, b], [out])
    found.append(Workload("bmm 256x64x64x64", ours, flops=2 * 256 * 64**3, peers=peers))
    return found


def groups() -> list[Workload]:
    """What the fusion pass makes of functions."""
    x, weight, bias = normal(8192, 768), normal(768), normal(768)
    peers = by_torch(lambda x, w, b: TORCH.nn.functional.layer_norm(x, [768], w, b), x, weight, bias)

    def by_hand(x: Any, w: Any, b: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / JAX.numpy.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * w + b

    peers |= by_jax(by_hand, x, weight, bias)
    norm = fused(lambda x, w, b: jit.nn.functional.layer_norm(x, [768], w, b), x, weight, bias)
    found = [Workload("layer norm", norm, 2 * x.nbytes, peers=peers)]
    y, z, row = normal(256, 1, 1024), normal(1, 128, 1024), normal(1024)

    def broadcast(m: Any, x: Any, y: Any, z: Any) -> Any:
        return (m.maximum(x * y + z, 0 * z) * 0.5 - x).mean(-1)

    peers = {"numpy": lambda: broadcast(np, y, z, row), **by_torch(lambda *a: broadcast(TORCH, *a), y, z, row)}
    peers |= by_jax(lambda *a: broadcast(JAX.numpy, *a), y, z, row)
    found.append(
        Workload("broadcast, mean", fused(lambda *a: broadcast(jit, *a), y, z, row), flops=5 << 25, peers=peers)
    )
    return found


FAMILIES = (softmaxes, reductions, scans, lstm, embeddings, groups, products)


# -- measuring ---------------------------------------------------------------------------------------------------


def seconds(run: Callable[[], Any]) -> float:
    """The time of one call in seconds; a short one is repeated until a millisecond has gone by."""
    start = time.perf_counter()
    run()
    once = time.perf_counter() - start
    repeats = min(max(int(1e-3 / max(once, 1e-7)), 1), 1000)
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def limits() -> tuple[float, float]:
    """(GB/s of a copy, GF/s of a product)."""
    x, y = np.ones(1 << 25, np.float32), np.empty(1 << 25, np.float32)
    a = normal(2048, 2048)
    copying = min(seconds(lambda: np.copyto(y, x)) for _ in range(15))
    multiplying = min(seconds(lambda: a @ a) for _ in range(9))
    return 2 * x.nbytes / copying / 1e9, 2 * 2048**3 / multiplying / 1e9


def report(workload: Workload, bandwidth: float, rate: float) -> None:
    """Run the kernel and its peers in turn, and print a row."""
    runs = {"ours": workload.ours, **workload.peers}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round in range(ROUNDS):
        for name, run in runs.items():
            if round < 3 or median(times[name]) < 0.2:
                times[name].append(seconds(run))
    best = {name: min(measured) for name, measured in times.items()}
    amount, limit, unit = (workload.flops, rate, "GF/s") if workload.flops else (workload.nbytes, bandwidth, "GB/s")
    speed = amount / best["ours"] / 1e9
    others = " | ".join(f"{best[n] / best['ours']:.2f}" if n in best else "-" for n in ("numpy", "torch", "jax"))
    row = (
        f"| {workload.name} | {best['ours'] * 1e3:.3f} | {speed:.1f} {unit} | {100 * speed / limit:.0f} % | {others} |"
    )
    print(row, flush=True)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="parts of the names of workloads; all by default")
    words = parser.parse_args().words
    if any(name not in os.environ for name in ONE_THREAD):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**ONE_THREAD, **os.environ})
    chosen = (each for make in FAMILIES for each in make() if not words or any(word in each.name for word in words))
    first = next(chosen, None)
    if first is None:
        parser.error(f"no workload has a name that contains {' or '.join(words)}")
    bandwidth, rate = limits()
    print(f"copy: {bandwidth:.1f} GB/s; product: {rate:.0f} GF/s; one thread\n")
    print("| workload | ms | rate | of limit | numpy | torch | jax |\n|---|---|---|---|---|---|---|")
    for workload in itertools.chain([first], chosen):
        report(workload, bandwidth, rate)


if __name__ == "__main__":
    main()
