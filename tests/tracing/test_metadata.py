"""In-place views of arguments, and attributes of results: kept in artifacts, refused by the exporter."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit


def turned(x: Any) -> Any:
    x.t_()
    y = x * 2
    y.tag = (1, "a")
    y.shifted = x + x.storage_offset()
    return y


def matrix() -> jit.Tensor:
    return jit.arange(6.0).reshape(2, 3) + 1


def test_an_artifact_knows_moves_facts_and_attributes(tmp_path: Path) -> None:
    traced = jit.trace(turned)
    traced(matrix())
    traced.save(tmp_path / "turned.jit")
    loaded, x = jit.load(tmp_path / "turned.jit"), matrix()
    y = loaded(x)
    assert (tuple(x.shape), x.stride(), y.tag) == ((3, 2), (1, 3), (1, "a"))
    assert y.shifted.tolist() == x.tolist()
    with pytest.raises(jit.Error):  # it starts elsewhere, which nobody has recorded
        loaded(jit.arange(12.0)[6:].view(2, 3))


def test_an_artifact_knows_the_signs_of_nan_and_zero(tmp_path: Path) -> None:
    def f(x: jit.Tensor) -> jit.Tensor:
        return x * 0 + (1 if np.signbit(float(x)) else 2)

    numbers = [0.0, -0.0, float("nan"), float(np.copysign(np.nan, -1.0))]
    traced = jit.trace(f)
    tensors = [jit.tensor(n, dtype=jit.float64) for n in numbers]
    for x in tensors:
        traced(x)
    traced.save(tmp_path / "signs.jit")
    loaded = jit.load(tmp_path / "signs.jit")
    for x in tensors:
        np.testing.assert_array_equal(loaded(x).numpy(), f(x).numpy())


def test_a_model_leaves_its_inputs_alone() -> None:
    x = matrix()
    with pytest.raises(jit.ExportError, match="method without the underscore"):
        jit.export_onnx(lambda x: x.t_() * 2, x)
    assert (tuple(x.shape), x.stride()) == ((2, 3), (3, 1))


def test_an_as_strided_result_is_a_view() -> None:
    traced = jit.trace(lambda x: x.as_strided([2, 2], [1, 2], 1))
    for _ in range(3):
        x = jit.arange(6.0) + 0
        y = traced(x)
        y.add_(10)
        assert x.tolist() == [0, 11, 12, 13, 14, 5]
        assert (y.stride(), y.storage_offset()) == ((1, 2), 1)


def test_gradients_on_results_stay() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.retain_grad()
        (y * y).sum().backward(retain_graph=True)
        z = x.detach() * 3
        z.grad = z * 2
        return y, z

    traced = jit.trace(f)
    for scale in (1, 2, 3):
        x = matrix() * scale
        for found, want in zip(traced(x.requires_grad_()), f(matrix().mul_(scale).requires_grad_()), strict=True):
            assert found.grad.tolist() == want.grad.tolist()


def test_a_parameter_stays_one_when_it_turns() -> None:
    w = jit.nn.Parameter(matrix())

    def f(x: jit.Tensor) -> jit.Tensor:
        with jit.no_grad():
            w.t_()
        return (x * w.sum()).sum()

    traced = jit.trace(f)
    for calls in range(1, 6):
        traced(jit.ones(2)).backward()
        assert type(w) is jit.nn.Parameter and w.requires_grad and w.is_leaf
        assert tuple(w.shape) == ((3, 2) if calls % 2 else (2, 3))
        assert w.grad is not None and w.grad.sum().item() == 12
        w.grad = None
    assert traced.hits


@pytest.mark.parametrize(
    "several", [iter, tuple, list, lambda ts: map(lambda t: t, ts), lambda ts: dict(enumerate(ts)).values()]
)
def test_gradients_by_any_iterable(several: Any) -> None:
    model = jit.nn.Linear(2, 3)
    parameters, x = list(model.parameters()), jit.ones(1, 2)
    want = [g.tolist() for g in jit.autograd.grad(model(x).sum(), parameters)]
    assert [g.tolist() for g in jit.autograd.grad(model(x).sum(), several(parameters), only_inputs=True)] == want
    assert [g.tolist() for g in jit.grad(several([model(x).sum()]), several(parameters))] == want
    jit.autograd.backward(several([model(x)]), several([jit.ones(1, 3)]), inputs=several(parameters))
    assert [p.grad.tolist() for p in parameters] == want
    model(x).sum().backward(inputs=several(parameters))
    assert [p.grad.tolist() for p in parameters] == [(2 * np.array(g)).tolist() for g in want]


def test_gradients_that_are_detached_after_create_graph() -> None:
    x: Any = matrix().requires_grad_()
    for loss in (x.sum(), x.t().reshape(-1).sum(), x.sum(0).mean(), (x**3).sum(), x[0].sum()):
        x.grad = None
        loss.backward(create_graph=True)
        assert x.grad.detach_() is x.grad
        assert not x.grad.requires_grad
        x.grad.zero_()


def test_long_lists_are_refused_with_their_length() -> None:
    with pytest.raises(jit.TraceError, match=r"test_metadata\.py.*100 elements.*at most 64"):
        jit.trace(lambda x: x * len(x.tolist()))(jit.ones(100))
    assert jit.trace(lambda x: x * len(x.tolist()))(jit.ones(64)).sum().item() == 64 * 64
