"""Random graphs of up to 30 operators: float64, eager mode, the interpreter and native code agree in pairs.

A sample of what `python -m tests.random_graphs 0 5000` judges, which also says how far apart results may be.
"""

import numpy as np
import pytest

import jit
from jit.passes import run as run_passes
from jit.passes.fuse import fuse
from jit.runtime.arrays.interpreter import fused_group
from jit.runtime.kernels.fusion import supports
from tests.random_graphs import NODES, Bounds, Verdict

pytestmark = pytest.mark.llvm


@pytest.mark.parametrize("start", range(0, 100, 10))
def test_random_graphs(start):
    for seed in range(start, start + 10):
        assert list(Verdict(seed).complaints()) == [], f"python -m tests.random_graphs {seed} {seed + 1} -v"


def test_they_hold_kernels_that_are_compiled():
    """Most of what a graph computes is in groups, and none of these falls back to the interpreter."""
    inside = outside = 0
    for seed in range(30):
        graph = Verdict(seed).interpreted.graph.clone()
        run_passes(graph, ["inline_composites", "infer_types", "constant_fold", "peephole", "cse", "dce"])
        fuse(graph, supports)
        for node in graph.nodes:
            if node.kind != "prim::FusionGroup":
                outside += node.kind != "prim::Constant"
                continue
            inside += len(list(node.attributes["body"].nodes))
            group = fused_group(node.attributes["body"])
            with np.errstate(all="ignore"):
                group([np.zeros(v.type.sizes, v.type.dtype.numpy) for v in node.inputs])
            assert group.kernels or any(0 in v.type.sizes for v in node.outputs), f"seed {seed}: {node}"
    assert inside > outside


class TestTheJudge:
    """It finds errors, and lets through what rounding explains."""

    def test_the_largest_graphs_have_as_many_operators_as_promised(self):
        assert max(len(list(Verdict(seed).interpreted.graph.nodes)) for seed in range(20)) >= NODES // 2

    def test_a_wrong_bit_of_arithmetic_is_found(self):
        verdict = next(v for v in map(Verdict, range(50)) if all(r.dtype.kind in "iu" and r.size for r in v.eager))
        verdict.runs["native"][0] = verdict.runs["native"][0] ^ 1
        assert any("native has" in line for line in verdict.complaints())

    def test_an_error_of_a_sum_beyond_rounding_is_found(self):
        exact = np.array([1.0, 1000.0])
        bounds = Bounds([exact, exact * (1 + 1e-7)], np.float32)
        assert not bounds.wrong(exact * (1 + 2e-7), exact).any()
        assert bounds.wrong(exact * (1 + 2e-6), exact).all()

    def test_a_difference_of_near_numbers_may_lose_digits(self):
        moved = [np.array([1e-4]), np.array([1.2e-4]), np.array([0.9e-4])]
        assert not Bounds(moved, np.float32).wrong(np.array([1.1e-4]), moved[0]).any()

    def test_nothing_is_demanded_where_a_comparison_falls_out_differently(self):
        bounds = Bounds([np.array([3, 4]), np.array([3, 5])], np.int64)
        assert bounds.wrong(np.array([2, 2]), np.array([3, 4])).tolist() == [True, False]


def test_layer_norm_of_near_numbers_is_as_near_to_float64_as_rounding_allows():
    """A sum of 26 numbers less nearly equal ones: the kernel and the interpreter lose as many digits."""

    def function(x, y):
        powers = jit.exp(-(jit.softmax(y, 0) ** 2))
        return jit.nn.functional.layer_norm(jit.sqrt(jit.sigmoid(x) + 1).sum(0, keepdim=True) - powers, (18,))

    rng = np.random.default_rng(1059)
    x, y = (rng.normal(size=(26, 18)).astype(np.float32) for _ in range(2))
    exact = function(*(jit.from_numpy(a.astype(np.float64)) for a in (x, y)))._array
    plain = function(jit.from_numpy(x), jit.from_numpy(y))._array
    native = jit.trace(function)
    for _ in range(2):
        found = native(jit.from_numpy(x), jit.from_numpy(y))._array
    lost = np.abs(plain - exact).max()
    assert lost > 1e-5, "nothing is lost: the test shows nothing"
    assert np.abs(found - exact).max() <= 3 * lost
