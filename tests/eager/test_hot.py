"""Hot operators: native calls give what numpy gives, from some count of calls on, and nobody else notices."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.eager import hot
from jit.eager.arguments import fitter
from jit.ir import OVERLOADS, REGISTRY, Op
from jit.runtime.arrays.execute import execute, execute_whole
from tests.registry_cases import Case, all_cases
from tests.tolerances import assert_close

pytestmark = pytest.mark.llvm


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been called yet, and little is enough."""
    monkeypatch.setattr(hot, "_counts", {})
    monkeypatch.setattr(hot, "_plans", {})
    monkeypatch.setattr(hot, "ENOUGH", 4)
    monkeypatch.setattr(hot, "LEAST_CALLS", 4)
    jit.backends.cudnn.deterministic = False


def plans() -> list[str]:
    """The names of the operators that have been compiled."""
    return [kind[0].name if isinstance(kind[0], Op) else f"{kind[0][0].name} gradients" for kind in hot._plans]


def float_case(op: Op) -> Case | None:
    """A sample of single floats with elements."""
    for case in all_cases(op):
        arrays = [value for value in case.sample.args if isinstance(value, np.ndarray)]
        if arrays and all(a.size and (a.dtype == np.float32 or a.dtype.kind in "ib") for a in arrays):
            return case
    return None


PAYING = [op for op in REGISTRY.values() if hot.LEAST[op] is not None and float_case(op) is not None]


@pytest.mark.parametrize("op", PAYING, ids=lambda op: op.name)
def test_a_native_call_gives_what_numpy_gives(op: Op) -> None:
    case = float_case(op)
    assert case is not None
    args, kwargs = case.arguments()
    values = [v._array if isinstance(v, jit.Tensor) else v for v in fitter(op)(*args, **kwargs)]
    call = hot._plan(op, values)
    if call is None:
        pytest.skip("more than one native call")
    expected = [execute_whole(op, values)] if op.kind == "composite" else execute(op, values)
    if expected[0] is None:
        pytest.skip("numpy has it in parts alone")
    for got, want in zip(call(values), expected, strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            assert_close(got, want, rtol=1e-5, atol=1e-5)  # sums in another order


def test_most_of_those_that_pay_have_a_native_call() -> None:
    """Otherwise the test above would pass by skipping."""
    for name in ("gelu", "softmax", "native_layer_norm", "native_batch_norm_backward", "convolution", "linear",
                 "max_pool2d_with_indices", "scaled_dot_product_attention"):  # fmt: skip
        (op,) = OVERLOADS[name]
        case = float_case(op)
        assert case is not None
        args, kwargs = case.arguments()
        values = fitter(op)(*args, **kwargs)
        assert hot._plan(op, [v._array if isinstance(v, jit.Tensor) else v for v in values]) is not None, name


def gradients_of(make: Any, repeats: int) -> Iterator[list[np.ndarray]]:
    """The result and the gradients of each of several calls."""
    for _ in range(repeats):
        jit.manual_seed(3)
        leaves, result = make()
        (result * result).sum().backward()
        yield [result.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


def normal(*sizes: int) -> jit.Tensor:
    return jit.randn(*sizes).requires_grad_()


def linear() -> Any:
    leaves: Any = [normal(3, 4), normal(5, 4), normal(5)]
    return leaves, F.linear(*leaves)


def attention() -> Any:
    leaves: Any = [normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)]
    return leaves, F.scaled_dot_product_attention(*leaves)


def layer_norm() -> Any:
    leaves: Any = [normal(3, 4), normal(4), normal(4)]
    return leaves, F.layer_norm(leaves[0], [4], *leaves[1:])


def batch_norm() -> Any:
    leaves: Any = [normal(3, 4, 2, 2), normal(4), normal(4)]
    return leaves, F.batch_norm(leaves[0], None, None, leaves[1], leaves[2], training=True)


def softmax() -> Any:
    leaves: Any = [normal(3, 4)]
    return leaves, F.softmax(leaves[0], -1)


def convolution() -> Any:
    leaves: Any = [normal(2, 3, 5, 5), normal(4, 3, 3, 3), normal(4)]
    return leaves, F.conv2d(leaves[0], leaves[1], leaves[2], padding=1)


def pooling() -> Any:
    leaves: Any = [normal(2, 3, 4, 4)]
    return leaves, F.max_pool2d(leaves[0], 2)


MODELS = [linear, attention, layer_norm, batch_norm, softmax, convolution, pooling]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_results_and_gradients_stay_when_calls_become_native(make: Any) -> None:
    first, *others = gradients_of(make, 7)
    assert any("gradients" in name for name in plans())
    for other in others:
        for got, want in zip(other, first, strict=True):
            assert_close(got, want, rtol=1e-5, atol=1e-5)  # sums in another order


def test_calls_are_counted_by_operator_numbers_and_layout() -> None:
    x = jit.randn(4, 6)
    for _ in range(3):
        F.softmax(x, 1)
        F.softmax(x, 0)
    assert plans() == []
    F.softmax(x.T, 1)
    assert plans() == []
    F.softmax(x, 1)
    assert plans() == ["aten::softmax"]
    assert len(hot._counts) == 3


def test_large_arrays_count_for_more_but_never_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jit.randn(hot.WEIGHT)
    F.softmax(x, 0)
    assert plans() == []
    F.softmax(x, 0)
    assert plans() == ["aten::softmax"]
    monkeypatch.setattr(hot, "ENOUGH", 64)
    monkeypatch.setattr(hot, "LEAST_CALLS", 8)
    for _ in range(8):
        assert "aten::gelu" not in plans()
        F.gelu(jit.ones(100 * hot.WEIGHT))
    assert "aten::gelu" in plans()


@pytest.mark.parametrize("how", ["deterministic", "environment", "tracing"])
def test_numpy_computes_where_it_is_asked_for(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = jit.randn(4, 6)
    wanted = F.softmax(x, 1).numpy().tobytes()
    monkeypatch.setattr(hot, "_Call", None)  # a native call would fail
    if how == "deterministic":
        monkeypatch.setattr(jit.backends.cudnn, "deterministic", True)
    if how == "environment":
        monkeypatch.setenv("JIT_NATIVE", "0")
    call = jit.trace(lambda x: F.softmax(x, 1), optimize=False) if how == "tracing" else lambda x: F.softmax(x, 1)
    for _ in range(6):
        assert call(x).numpy().tobytes() == wanted


def test_arguments_that_do_not_fit_are_refused_as_before() -> None:
    x, w = jit.ones(2, 3), jit.ones(4, 2)
    for _ in range(8):
        with pytest.raises(jit.ShapeError, match="linear: an input of sizes"):
            F.linear(x, w)
        with pytest.raises(jit.DimError):
            F.softmax(x, 5)
    assert not any(hot._plans.values())


def test_a_changed_output_that_no_formula_reads_may_be_overwritten() -> None:
    x, w = jit.randn(3, 4), jit.ones(4, requires_grad=True)
    for _ in range(8):
        y = F.layer_norm(x, [4], w)
        y.relu_()
        y.sum().backward()
    assert "aten::native_layer_norm gradients" in plans()


def test_zeros_of_both_signs_are_two_numbers() -> None:
    x = np.ones(3, np.float32)
    assert hot._kinds(1, [x, 0.0]) != hot._kinds(1, [x, -0.0])
    assert hot._kinds(1, [x, 1]) != hot._kinds(1, [x, True])
