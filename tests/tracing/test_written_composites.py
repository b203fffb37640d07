"""Writes to what composites return: the result is a tensor of its own, however the composite has made it inside."""

import contextlib
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import REGISTRY, Op
from jit.nn import functional as F
from tests.registry_cases import all_cases, bits, floats, tensors_in

COMPOSITES = [op for op in REGISTRY.values() if op.kind == "composite" and op.is_differentiable]


def doubled(case: Any) -> Any:
    """The results of a case after the first of them was doubled in place."""

    def call(*args: Any, **kwargs: Any) -> Any:
        jit.manual_seed(case.SEED)
        results = list(tensors_in(case.function(*args, **kwargs)))
        if results:
            results[0].mul_(2)
        return results

    return call


def outcome(function: Any, case: Any) -> Any:
    """The bits of the results and whether they carry gradients; or the class of the error."""
    args, kwargs = case.arguments()
    for leaf in floats(case.op, args, kwargs):
        leaf.requires_grad_()
    try:
        return [(bits(t), t.requires_grad) for t in function(*args, **kwargs)]
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("op", COMPOSITES, ids=lambda op: op.name)
def test_a_result_is_written_to_in_a_trace_as_it_is_outside(op: Op) -> None:
    for case in all_cases(op):
        assert outcome(jit.trace(doubled(case)), case) == outcome(doubled(case), case), case.id


WEIGHT, SHORT = np.random.default_rng(0).standard_normal((2, 4, 3)).astype("float32")
LAYERS = {
    "linear": lambda x, w: F.linear(x, w),
    "of a view": lambda x, w: F.linear(x.transpose(0, 1), w),
    "of four dims": lambda x, w: F.linear(x[None], w),
    "matmul": lambda x, w: x @ w.t(),
    "einsum": lambda x, w: jit.einsum("abc,dc->abd", x, w),
    "pinverse": lambda x, w: jit.pinverse(w)[None] + x[:1, :1, :1],
    "of no rows": lambda x, w: F.linear(x[:0], w),
}
WRITES = {
    "a row": lambda y: y[:1].zero_(),
    "a column": lambda y: y[..., 0].add_(1),
    "all": lambda y: y.add_(1),
    "by a flat view": lambda y: y.view(-1).mul_(2),
    "by a turned view": lambda y: y.transpose(0, 1).mul_(2),
    "by a mask": lambda y: y.masked_fill_(y > 0, 0),
    "by a part": lambda y: y.chunk(2, -1)[0].add_(1),
    "with itself": lambda y: y.copy_(y * 2),
    "relu": lambda y: F.relu(y, inplace=True),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_results_and_gradients_of_what_was_written_to(layer: Any, write: Any) -> None:
    def step(x: Any, w: Any) -> Any:
        y = layer(x, w)
        write(y)
        return y

    def seen(function: Any) -> list[Any]:
        x = jit.arange(30.0).sin().reshape(2, 5, 3).requires_grad_()
        w = jit.from_numpy(WEIGHT).clone().requires_grad_()
        y = function(x, w)
        y.square().sum().backward()
        return [y.detach().numpy(), x.grad.numpy(), w.grad.numpy()]

    traced = jit.trace(step)
    expected = seen(step)
    for _ in range(2):
        for mine, its in zip(seen(traced), expected, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-5)
    assert traced.hits == 1


@pytest.mark.parametrize("around", [contextlib.nullcontext, jit.trace], ids=["eager", "traced"])
@pytest.mark.parametrize("rows", [0, 2])
def test_what_was_made_without_gradients_takes_one_in(around: Any, rows: int) -> None:
    def step(x: Any, w: Any) -> Any:
        with jit.no_grad():
            y = F.linear(x, w)
        return y.add_(w[:, 0])

    function = step if around is contextlib.nullcontext else jit.trace(step)
    w = jit.from_numpy(SHORT).clone().requires_grad_()
    for count in (1, 2):
        function(jit.ones(rows, 5, 3), w).sum().backward()
        assert w.grad[:, 0].tolist() == [5 * rows * count] * 4 and w.grad[:, 1:].abs().sum() == 0
