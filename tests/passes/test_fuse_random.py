"""Random graphs of up to 30 operators: fused kernels agree with the interpreter and with float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.passes import run as run_passes
from jit.passes.fuse import fuse
from jit.runtime.fusion import FusedGroup, supports
from jit.runtime.interpreter import Interpreter

pytestmark = pytest.mark.llvm

UNARY: list[Callable[..., Any]] = [
    jit.tanh, jit.sigmoid, jit.abs, jit.neg, jit.relu, jit.sin, lambda x: x * 0.5 + 1, lambda x: jit.exp(-x * x),
    lambda x: jit.where(x > 0, x, x * 0.1), lambda x: x.clamp(-2, 2), lambda x: jit.sqrt(jit.abs(x) + 1),
]  # fmt: skip
BINARY: list[Callable[..., Any]] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, jit.maximum, lambda x, y: x / (jit.abs(y) + 1),
]  # fmt: skip
ROWS: list[Callable[..., Any]] = [
    lambda x, d: x.sum(d, keepdim=True), lambda x, d: x.mean(d, keepdim=True), lambda x, d: x.amax(d, keepdim=True),
    lambda x, d: x.var(d, correction=0, keepdim=True), lambda x, d: x.sum(d).unsqueeze(d), jit.softmax,
    jit.log_softmax, lambda x, d: F.layer_norm(x, x.shape[-1:]),
]  # fmt: skip
VIEWS: list[Callable[..., Any]] = [
    lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), lambda x: x.unsqueeze(0).squeeze(0),
    lambda x: jit.cat([x, x * 2], 0).narrow(0, 0, x.shape[0]), lambda x: jit.stack([x, -x], 0).select(0, 1),
]  # fmt: skip


def program(seed: int) -> Callable[..., Any]:
    """A function of two matrices and a row, of up to 30 random operators."""

    def function(x: Any, y: Any, row: Any) -> Any:
        rng = np.random.default_rng(seed)
        values = [x, y, row]
        for _ in range(rng.integers(3, 31)):
            value = values[rng.integers(max(len(values) - 6, 0), len(values))]
            wide = value.ndim == 2 and value.shape[0] > 1 and value.shape[1] > 1
            kind = rng.random()
            if kind < 0.4:
                new = UNARY[rng.integers(len(UNARY))](value)
            elif kind < 0.7:
                new = BINARY[rng.integers(len(BINARY))](value, values[rng.integers(len(values))])
            elif kind < 0.93 and wide:
                new = ROWS[rng.integers(len(ROWS))](value, int(rng.integers(2)))
            elif wide:
                new = VIEWS[rng.integers(len(VIEWS))](value)
            else:
                continue
            values.append(new)
        return tuple(values[-1 - i] * 1 for i in range(rng.integers(1, 4)))

    return function


@pytest.mark.parametrize("seed", range(80))
def test_random_graphs(seed):
    rng = np.random.default_rng(1000 + seed)
    shape = tuple(rng.integers(1, 40, 2))
    arrays = [rng.normal(size=s).astype(np.float32) for s in (shape, shape, shape[1:])]
    traced = jit.trace(program(seed), optimize=False)
    traced(*map(jit.from_numpy, arrays))
    graph = traced.graph.clone()
    run_passes(graph, ["inline_composites", "infer_types", "constant_fold", "peephole", "cse", "dce"])
    plain = Interpreter(graph.clone()).run(0, arrays)[0]
    with np.errstate(all="ignore"):
        exact = program(seed)(*(jit.from_numpy(a.astype(np.float64)) for a in arrays))
    fuse(graph, supports)
    for layout in (lambda a: a, np.asfortranarray):
        for found, wanted, true in zip(
            Interpreter(graph).run(0, [layout(a) for a in arrays])[0], plain, exact, strict=True
        ):
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)
            np.testing.assert_allclose(found, true._array, rtol=2e-3, atol=2e-3)
    for node in graph.nodes:
        if node.kind == "prim::FusionGroup":
            given = [np.zeros(v.type.sizes, v.type.dtype.numpy) for v in node.inputs]
            group = FusedGroup(node)
            group(given)
            assert group.kernels, "the group was interpreted"
