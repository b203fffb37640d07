"""Control flow in models: If, Loop and Scan, on both branches, for any number of trips, and for other sizes."""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import jit
from jit import nn


def model(f: Any, *args: Any, **options: Any) -> tuple[Any, Callable[..., list[Any]]]:
    """The model that a function becomes, checked in full, and a function that runs it."""
    with tempfile.TemporaryDirectory() as folder:
        jit.export_onnx(f, args, f"{folder}/model.onnx", **options)
        data = onnx.load(f"{folder}/model.onnx")
    onnx.checker.check_model(data, full_check=True)
    session = onnxruntime.InferenceSession(data.SerializeToString())
    names = [given.name for given in session.get_inputs()]
    return data, lambda *xs: session.run(None, dict(zip(names, (x.detach().numpy() for x in xs), strict=True)))


def agree(f: Any, run: Callable[..., list[Any]], *xs: Any) -> None:
    wanted = f(*xs)
    for one, other in zip(wanted if isinstance(wanted, tuple) else (wanted,), run(*xs), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-5, atol=1e-6)


def kinds(graph: Any) -> list[str]:
    """The operators of a graph, and of those inside of it."""
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            found += kinds(attribute.g) if attribute.HasField("g") else []
    return found


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.norm = nn.Linear(3, 4), nn.Linear(3, 4), nn.LayerNorm(4)

    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        return jit.cond(
            x.sum() > 0, lambda x: self.norm(self.one(x)).reshape(4 * n), lambda x: self.other(x).flatten() * n, (x,)
        )


@pytest.mark.parametrize("opset", [11, 13, 17, 20])
def test_a_module_with_branches(opset: int) -> None:
    net = Branches()
    data, run = model(net, jit.ones(2, 3), dynamic_axes={"x": {0: "n"}}, opset_version=opset)
    assert [node.op_type for node in data.graph.node].count("If") == 1
    assert {"one.weight", "other.weight", "norm.weight"} <= {each.name for each in data.graph.initializer}
    for n in (1, 2, 5):
        for sign in (1, -1):
            agree(net, run, sign * jit.rand(n, 3))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scans(dim: int, reverse: bool) -> None:
    w = jit.rand(3, 3)

    def f(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            h = (x @ w + c["h"]).tanh()
            return {"h": h, "n": c["n"] + 1}, (h * 2, h.sum(1))

        begin = {"h": jit.zeros(xs.shape[1 - dim], 3), "n": jit.tensor(0)}
        last, (ys, sums) = jit.scan(step, begin, xs, dim=dim, reverse=reverse)
        return last["h"], last["n"], ys, sums

    data, run = model(f, jit.rand(2, 4, 3), dynamic_axes={"xs": {0: "a", 1: "b"}})
    assert "Scan" in kinds(data.graph)
    for a, b in ((2, 4), (5, 1), (1, 3)):
        agree(f, run, jit.rand(a, b, 3))


def test_map_has_nothing_to_carry() -> None:
    def f(xs: Any, w: Any) -> Any:
        return jit.map(lambda x, w: (x @ w).relu(), xs, w)

    data, run = model(f, jit.rand(4, 2), jit.rand(2, 3), dynamic_axes={"xs": {0: "n"}})
    assert "Scan" in kinds(data.graph)
    for n in (1, 4, 6):
        agree(f, run, jit.rand(n, 2), jit.rand(2, 3))


def test_loops_make_as_many_trips_as_they_need() -> None:
    def f(x: Any, least: Any) -> Any:
        return jit.while_loop(lambda x, n: x.abs().max() > least, lambda x, n: (x * 0.5, n + 1), (x, jit.tensor(0)))

    data, run = model(f, jit.ones(2, 3), jit.tensor(0.25), dynamic_axes={"x": {0: "n"}})
    assert "Loop" in kinds(data.graph)
    for n, x, least in ((2, 1.0, 0.25), (3, 100.0, 1.0), (1, 0.1, 1.0)):
        agree(f, run, jit.full((n, 3), x), jit.tensor(least))


def test_one_inside_of_another() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            c = jit.cond(
                r.sum() > c.sum(), lambda: c + r * x.shape[0], lambda: jit.cond(r[0] > 0, lambda: c - r, lambda: r)
            )
            return c, jit.while_loop(lambda y: y.abs().sum() > 1, lambda y: (y / (1 + x[0].abs().sum()),), (c,))[0]

        return jit.scan(step, jit.zeros(3), x)

    data, run = model(f, jit.ones(2, 3), dynamic_axes={"x": {0: "n"}})
    assert {"Scan", "If", "Loop"} <= set(kinds(data.graph))
    for x in (jit.rand(4, 3), -jit.rand(3, 3), jit.randn(6, 3) * 5):
        agree(f, run, x)


def test_gradients_as_a_model() -> None:
    w = jit.rand(3, requires_grad=True)

    def f(x: Any) -> Any:
        loss = jit.cond(x.sum() > 0, lambda: (x * w).sin().sum(), lambda: (x * x * w).sum())
        return jit.grad(loss, w)[0]

    _, run = model(f, jit.ones(3))
    for x in (jit.rand(3), -jit.rand(3)):
        agree(f, run, x)


def test_a_branch_may_return_what_it_is_given() -> None:
    def f(x: Any) -> Any:
        return jit.cond(x.sum() > 0, lambda: (x, x), lambda: (x * 2, jit.ones(2)))

    _, run = model(f, jit.ones(2))
    for x in (jit.ones(2), -jit.ones(2)):
        agree(f, run, x)


def test_what_cannot_be_written_is_named() -> None:
    def f(x: Any) -> Any:
        return jit.cond(x.sum() > 0, lambda: jit.linalg.svd(x)[0], lambda: x)

    with pytest.raises(jit.ExportError, match="svd"):
        jit.export_onnx(f, (jit.ones(2, 2),))


def test_branches_that_hold_for_one_size_alone() -> None:
    def f(x: Any) -> Any:
        return jit.cond(x.sum() > 0, lambda: x * 2, lambda: jit.ones(4))

    with pytest.raises(jit.ExportError, match="n"):
        jit.export_onnx(f, (jit.ones(4),), dynamic_axes={"x": {0: "n"}})
