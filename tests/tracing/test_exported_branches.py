"""Exported functions that decide on elements: every path that was shown is a branch, and no other is taken silently."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import jit
from jit import nn
from jit.ir.errors import ExportError, UsageError


def model(f: Any, shown: Sequence[Any], **options: Any) -> tuple[Any, Callable[..., list[Any]]]:
    """The model of a function of one tensor, checked in full, and a function that runs it."""
    with tempfile.TemporaryDirectory() as folder:
        jit.export_onnx(f, shown[0], f"{folder}/model.onnx", branches=shown[1:], **options)
        data = onnx.load(f"{folder}/model.onnx")
    onnx.checker.check_model(data, full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(data.SerializeToString(), settings)
    names = [given.name for given in session.get_inputs()]
    return data, lambda *xs: session.run(None, dict(zip(names, (x.detach().numpy() for x in xs), strict=False)))


def agree(f: Any, run: Callable[..., list[Any]], *inputs: Any) -> None:
    for x in inputs:
        wanted = f(x)
        for one, other in zip(wanted if isinstance(wanted, tuple) else (wanted,), run(x), strict=True):
            one = np.asarray(one.detach().numpy() if isinstance(one, jit.Tensor) else one)
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def depth(graph: Any) -> int:
    """The depth to which a graph nests `If`s."""
    inner = [attribute.g for node in graph.node if node.op_type == "If" for attribute in node.attribute]
    return 1 + max(map(depth, inner)) if inner else 0


class Chooser(nn.Module):
    """Layers of which two are used, and shared ones behind them, as often as the data ask for."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels
        self.high, self.low, self.last = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Any) -> Any:
        h = self.high(x) if x.mean() > 0 else self.low(x).tanh()
        for level in range(self.levels - 1):
            if x[0, level] > 0.1 * h.max():
                h = self.norm(h) * (2 + level)
        return self.last(h)


def inputs(rows: int) -> list[Any]:
    """Inputs for all ways through a `Chooser`."""
    signs = itertools.product((1.0, -1.0), repeat=3)
    return [jit.tensor([[a, b, 0.0]] + [[4 * mean] * 3] * (rows - 1)) for mean, a, b in signs]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_modules_with_branches_of_any_depth(levels):
    jit.manual_seed(1)
    net = Chooser(levels)
    data, run = model(net, inputs(2), dynamic_axes={"x": {0: "n"}})
    assert depth(data.graph) == levels
    names = sorted(each.name for each in data.graph.initializer if "." in each.name)
    assert names == sorted(name for name, _ in net.named_parameters() if levels > 1 or "norm" not in name)
    agree(net, run, *inputs(1), *inputs(2), *inputs(5), *(jit.randn(3, 3) for _ in range(20)))


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 20, 23])
def test_opsets(opset):
    def f(x):
        y = x.exp()
        return y * 2 if y.sum() > 3 else y - 1

    x = jit.ones(3)
    data, run = model(f, [x, -x], opset_version=opset)
    assert [node.op_type for node in data.graph.node].count("Exp") == 1, "what comes before is computed once"
    agree(f, run, x, -x, x * 0)


def test_a_loop_that_ends_early_is_a_branch_for_each_number_of_trips():
    def f(x):
        trips = 0
        for _ in range(4):
            x = x * 2
            trips += 1
            if x.sum() > 20:
                break
        return x, trips

    one = jit.ones(3)
    data, run = model(f, [one * s for s in (5, 2, 1, 0.5, 0.1)])
    assert depth(data.graph) == 4
    agree(f, run, *(one * s for s in (100, 4, 3, 1.5, 1.1, 0.6, 0.3, 0.0, -1)))


def test_whole_numbers_that_were_not_shown_are_errors_of_the_run():
    def f(x):
        n = int(x[0])
        if n == 3:
            return x * 2
        return x[:n] + n

    def given(n):
        return jit.tensor([n, 1, 7, 8])

    data, run = model(f, [given(3), given(1), given(2), given(4)])
    assert depth(data.graph) == 3
    assert [dim.dim_value for dim in data.graph.output[0].type.tensor_type.shape.dim] == [0], "no size is promised"
    agree(f, run, *map(given, (1, 2, 3, 4)))
    for n in (0, 5, -1):
        with pytest.raises(Exception, match="out of data bounds"):
            run(given(n))


@pytest.mark.parametrize("last", [3, 4])
def test_other_sizes_that_bring_other_numbers_are_not_verified(last):
    def f(x):
        return x * 2 if int(x[-1]) == 3 else x - 1

    axes = {"x": {0: ("n", 2)}}
    report = jit.export_onnx(f, jit.tensor([last, 9, 3]), branches=[jit.tensor([last, 9, 4])], dynamic_axes=axes)
    assert report.verified is not None and len(report.verified.sizes) == 4
    report = jit.export_onnx(f, jit.tensor([5, 9, 3]), branches=[jit.tensor([5, 9, 4])], dynamic_axes=axes)
    assert report.verified is not None and len(report.verified.sizes) == 2
    assert "no other sizes" in report.warnings[-1]


def test_results_that_are_numbers_become_tensors():
    def f(x):
        return (x.sum().item() if x.sum() > 0 else 3.0), x * 2

    x = jit.ones(2)
    _, run = model(f, [x, -x])
    agree(f, run, x, -x, x * 5)


def test_sizes_that_depend_on_elements():
    def f(x):
        chosen = x[x > 0]
        return chosen * 2 if chosen.shape[0] > 1 else chosen - 1

    _, run = model(f, [jit.ones(4), jit.tensor([1.0, -1.0, -1.0, -1.0])])
    agree(f, run, jit.ones(4), -jit.ones(4), jit.tensor([-1.0, 2.0, -1.0, 3.0]))


def test_what_is_written_in_one_branch_alone():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", jit.zeros(2))
            self.register_buffer("calls", jit.zeros(1))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            if x.sum() > 0:
                self.seen += x
            return x * self.seen

    net, x = Counter(), jit.ones(2)
    data, run = model(net, [x, -x], updates_as_outputs=True)
    assert [output.name for output in data.graph.output] == ["output", "calls.new", "seen.new"]
    for given, seen in ((x, [1, 1]), (-x, [0, 0])):
        found = run(given)
        assert found[1].tolist() == [1] and found[2].tolist() == seen
    assert net.seen.tolist() == [0, 0], "the state itself stays as it is"


def test_gradients_of_branches():
    def f(x):
        w = x.detach().requires_grad_()
        loss = (w * w).sum() if x.sum() > 0 else w.sin().sum()
        return jit.autograd.grad(loss, w)[0]

    x = jit.rand(3)
    _, run = model(f, [x, -x])
    agree(f, run, x * 2, -x * 3)


def test_loaded_functions(tmp_path: Path):
    traced = jit.trace(lambda x: x * 2 if x.sum() > 0 else x - 1)
    x = jit.ones(3)
    traced(x), traced(-x)
    traced.save(tmp_path / "f.jit")
    loaded = jit.load(tmp_path / "f.jit")
    _, run = model(loaded, [x, -x])
    agree(traced, run, x * 2, -x * 3)


def test_paths_that_are_shown_twice_are_one():
    x = jit.ones(3)
    data, run = model(lambda x: x * 2 if x.sum() > 0 else x - 1, [x, -x, x * 2, -x * 2])
    assert [node.op_type for node in data.graph.node].count("If") == 1
    agree(lambda x: x * 2 if x.sum() > 0 else x - 1, run, x, -x)


def random_program(seed: int) -> Callable[[Any], Any]:
    """A function that decides in several spellings on columns of its own, in an order of its own."""
    order = np.random.default_rng(seed).integers(5, size=2)
    weights = jit.rand(2, 4)

    def f(x: Any) -> Any:
        h = x
        for number, (kind, w) in enumerate(zip(order, weights, strict=True)):
            p, q = x[:, 2 * number : 2 * number + 2].sum(0)
            if kind == 0:
                h = h * w if p > 0.5 else h + weights[0]
            elif kind == 1 and bool((h[:, 2 * number] > 0).all()):
                h = h.relu() * x.shape[0]
            elif kind == 2 and p.item() * 2 < q.item():
                h = h - w
            elif kind == 3:
                for i, bound in enumerate((p, q)):
                    h = h + i
                    if bound > 0:
                        h = h / 2
                        break
            elif kind == 4 and int(q > 0) == 1:
                h = jit.cat([h, w[None]])
        return h.sin(), h.sum()

    return f


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    jit.manual_seed(seed)
    f = random_program(seed)
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=4)), np.float32)
    _, run = model(f, [jit.tensor(row[None] * [[1.0], [0.5]]).float() for row in signs], dynamic_axes={"x": {0: "n"}})
    agree(f, run, *(jit.randn(n, 4) * 1.5 for n in (1, 2, 3, 4) for _ in range(10)))


# -- refusals --------------------------------------------------------------------------------------------------------


def refused(f: Any, *shown: Any, **options: Any) -> str:
    with pytest.raises((ExportError, UsageError)) as caught:
        jit.export_onnx(f, shown[0], branches=shown[1:], **options)
    return str(caught.value)


def test_a_way_that_was_not_shown_is_refused_with_its_line():
    def f(x):
        if x.sum() > 0:
            return x
        if x.sum() > -10:
            return x * 2
        return x - 1

    x = jit.ones(3)
    for shown in ([x], [x, -x], [-x, x * -9]):
        said = refused(f, *shown)
        assert "Python decided on the contents of a tensor" in said and "branches=" in said
        assert "test_exported_branches.py" in said
    assert jit.export_onnx(f, x, branches=[-x, x * -9]).verified


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda x: x.sum(), "float32 of 1 dims on one, and float32 of 0 dims on another"),
        (lambda x: x > 0, "result 0 is float32 of 1 dims on one, and bool of 1 dims on another"),
        (lambda x: (x, x), "let all return the same structure"),
        (lambda x: {"a": x}, "let all return the same structure"),
    ],
)
def test_other_results(other, said):
    x = jit.ones(3)
    assert said in refused(lambda x: x if x.sum() > 0 else other(x), x, -x)


def test_arguments_of_another_kind():
    def f(x, twice=False):
        return x * 2 if twice or x.sum() > 0 else x

    x = jit.ones(3)
    needing = x.clone().requires_grad_()
    for other in (jit.ones(4), jit.ones(3, 1), jit.ones(3, dtype=jit.float64), (x, True), (x, x), needing):
        assert "branches[0] differs from args" in refused(f, x, other)


def test_what_no_branch_can_be():
    x = jit.ones(3)
    assert "Python takes a float out of a tensor" in refused(lambda x: x * float(x[0]), x, -x)
    assert "draws random numbers in a branch" in refused(lambda x: x * jit.rand(3) if x.sum() > 0 else x, x, -x)
    w = x.clone().requires_grad_()
    assert "stage 1 of several branches" in refused(lambda x: x * 2 if x.sum() > 0 else x, w, w, stage=1)
