"""What the walk over the registry cannot see in convolutions, pools, norms and indexing: orders, effects, refusals."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import gradcheck
from jit.eager.namespace import F
from tests.tolerances import assert_close

RNG = np.random.default_rng(3)


def doubles(*shape: int) -> jit.Tensor:
    """Seeded float64 numbers that want a gradient."""
    return jit.from_numpy(RNG.normal(size=shape)).requires_grad_()


def singles(*shape: int) -> jit.Tensor:
    return jit.from_numpy(RNG.normal(size=shape).astype(np.float32))


def whole(*numbers: Any) -> jit.Tensor:
    return jit.from_numpy(np.array(numbers, np.int64))


# -- derivatives of the third order ------------------------------------------------------------------------------


def second_gradient(function: Callable[..., jit.Tensor]) -> Callable[..., list[jit.Tensor]]:
    """The gradients of the squared gradients of sum(sin(function(...)))."""

    @jit.enable_grad()
    def run(*leaves: jit.Tensor) -> list[jit.Tensor]:
        first: Any = jit.grad(F.sum(F.sin(function(*leaves))), leaves, create_graph=True)
        total = sum((F.sum(g * g) for g in first), jit.zeros((), dtype=jit.float64))
        second: Any = jit.grad(total, leaves, create_graph=True)
        return list(second)

    return run


THIRD_ORDER: dict[str, tuple[Callable[..., jit.Tensor], list[tuple[int, ...]]]] = {
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), [(1, 2, 3, 3), (1, 2, 2, 2), (1,)]),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, None, 2), [(1, 2, 2), (2, 1, 2)]),
    "batch norm": (lambda x, w, b: F.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-2)[0], [(3, 2), (2,), (2,)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, [3], w, b, 1e-2), [(2, 3), (3,), (3,)]),
    "linear": (F.linear, [(2, 2), (2, 2), (2,)]),
    "einsum": (lambda a, b: F.einsum("ij,jk->k", [a, b]), [(2, 2), (2, 2)]),
}


@pytest.mark.parametrize("name", THIRD_ORDER)
def test_third_derivative(name: str) -> None:
    function, shapes = THIRD_ORDER[name]
    assert gradcheck(second_gradient(function), [doubles(*shape) for shape in shapes])


# -- memory seen through other strides ---------------------------------------------------------------------------


def triple_through_strides(x: jit.Tensor) -> jit.Tensor:
    y = x * 1
    y.t()[1:].as_strided([2, 2], [5, 1]).mul_(3)
    return y


def read_through_strides(x: jit.Tensor) -> jit.Tensor:
    y = x * 1
    window = y.t()[1:].as_strided([2, 2], [5, 1])
    y.mul_(2)
    return window


def triple_a_piece_of_a_part(x: jit.Tensor) -> jit.Tensor:
    y = x * 1
    y.narrow(0, 1, 3).split(2)[0].mul_(3)
    return y


def triple_a_piece_of_a_transpose(x: jit.Tensor) -> jit.Tensor:
    y = x * 1
    y.t().split(2)[1].mul_(3)
    return y


IN_PLACE = [triple_through_strides, read_through_strides, triple_a_piece_of_a_part, triple_a_piece_of_a_transpose]


@pytest.mark.parametrize("function", IN_PLACE)
def test_writes_through_layouts(function: Callable[..., jit.Tensor]) -> None:
    """Gradients and recordings of writes are right though they meet tensors of other layouts."""
    assert gradcheck(function, [doubles(4, 5)])
    traced = jit.trace(function)
    for _ in range(2):
        x = singles(4, 5)
        assert_close(traced(x), function(x))


REVERSED = {
    "one dim": lambda a: a.reshape(-1)[::-1], "every second": lambda a: a.reshape(-1)[::-2],
    "rows": lambda a: a[::-1], "columns": lambda a: a[:, ::-1], "both": lambda a: a[::-1, ::-1],
    "transposed": lambda a: a[::-1].T,
}  # fmt: skip
WINDOWS = [([3], [2], 4), ([7], [1], 3), ([2, 2], [3, 1], 5), ([12], [1], 0), ([2, 3], [1, 2], None)]
STRIDED_USES: list[Callable[..., jit.Tensor]] = [
    lambda t, window: t.as_strided(*window) * 2,
    lambda t, window: t[1:].as_strided(*window).clone(),
    lambda t, window: (t.as_strided(*window).add_(100), t * 1)[1],
    lambda t, window: jit.cat([t.as_strided(*window).reshape(-1), t.mul_(3).reshape(-1)]),
]


@pytest.mark.parametrize("reverse", REVERSED.values(), ids=REVERSED)
@pytest.mark.parametrize("use", STRIDED_USES)
def test_windows_on_reversed_memory(reverse: Callable[..., Any], use: Callable[..., jit.Tensor]) -> None:
    """A recording shows the same elements as the call where the strides of an array of numpy are negative."""

    def made() -> jit.Tensor:
        return jit.from_numpy(reverse(np.arange(12, dtype=np.float32).reshape(3, 4)))

    for window in WINDOWS:
        traced = jit.trace(functools.partial(use, window=window))
        try:
            expected = use(made(), window)
        except jit.ShapeError:  # it reaches over the end of the memory
            continue
        for _ in range(3):
            assert traced(made()).tolist() == expected.tolist()


# -- pools -------------------------------------------------------------------------------------------------------


def test_of_equal_elements_the_first_is_the_maximum_and_nan_wins() -> None:
    x = jit.tensor([[[[1.0, 1.0, 0.0, 2.0], [1.0, 1.0, float("nan"), 3.0]]]])
    values, indices = F.max_pool2d_with_indices(x, 2)
    assert indices.tolist() == [[[[0, 6]]]]
    assert np.isnan(values.numpy()[0, 0, 0, 1])


def test_where_nothing_beats_the_padding_the_first_entry_inside_is_named() -> None:
    x = jit.tensor([[[[-float("inf")] * 3] * 3]]).requires_grad_()
    values, indices = F.max_pool2d_with_indices(x, 2, 2, 1)
    assert values.isinf().all() and indices.tolist() == [[[[0, 1], [3, 4]]]]
    values.sum().backward()
    assert x.grad.tolist() == [[[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]]


@pytest.mark.parametrize("shape", [(0, 4, 4), (2, 0, 4, 4), (2, 3, 0, 4)])
@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_only_the_batch_may_be_empty(pool: Callable[..., Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(jit.ShapeError, match="may be empty"):
        pool(jit.zeros(shape), 2, 1, 1)
    assert pool(jit.zeros(0, 3, 4, 4), 2).shape == (0, 3, 2, 2)


def test_a_window_of_padding_alone_does_not_count() -> None:
    """The last window of ceil_mode begins inside the input or in front of it, never behind."""
    assert F.max_pool2d(jit.zeros(1, 1, 3, 3), 1, 3, 0, 1, True).shape == (1, 1, 1, 1)
    assert F.avg_pool2d(jit.ones(1, 1, 4, 4), 3, 2, 1, True).tolist()[0][0][2] == pytest.approx([1 / 3, 0.5, 0.25])


# -- norms -------------------------------------------------------------------------------------------------------


def test_batch_norm_updates_statistics_while_training_alone() -> None:
    x = RNG.normal(2, 3, (4, 3, 5))
    mean, var = jit.zeros(3, dtype=jit.float64), jit.ones(3, dtype=jit.float64)
    F.batch_norm(jit.from_numpy(x), None, None, mean, var, True, 0.1, 1e-5, False)
    assert_close(mean, 0.1 * x.mean((0, 2)))
    assert_close(var, 0.9 + 0.1 * x.var((0, 2), ddof=1), rtol=1e-12)
    before = mean.tolist(), var.tolist()
    F.batch_norm(jit.from_numpy(x), None, None, mean, var, False, 0.1, 1e-5, False)
    assert (mean.tolist(), var.tolist()) == before


def test_statistics_take_part_in_no_gradient() -> None:
    x, mean, var = doubles(4, 3), jit.zeros(3, dtype=jit.float64), jit.ones(3, dtype=jit.float64)
    F.sum(F.sin(F.batch_norm(x, None, None, mean, var, True, 0.1, 1e-5, False))).backward()
    assert not mean.requires_grad
    assert x.grad is not None


# -- look-up -----------------------------------------------------------------------------------------------------


def test_embedding_gives_no_gradient_to_padding_and_divides_by_frequency() -> None:
    table = doubles(4, 2)
    padded = jit.grad(F.sum(F.embedding(table, whole(1, 1, 3), 1)), [table])
    assert_close(padded[0], np.array([[0, 0], [0, 0], [0, 0], [1.0, 1]]))
    shared = jit.grad(F.sum(F.embedding(table, whole(1, 1, 3), -1, True)), [table])
    assert_close(shared[0], np.array([[0, 0], [1, 1], [0, 0], [1.0, 1]]))


# -- refusals ----------------------------------------------------------------------------------------------------

REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "view": (lambda: jit.zeros(2, 3).t().view(6), jit.ShapeError, "use reshape"),
    "view sizes": (lambda: jit.zeros(2, 3).view(4), jit.ShapeError, r"shape \[4\] is invalid for input of size 6"),
    "permute": (lambda: jit.zeros(2, 3).permute(0, 0), jit.ShapeError, "names a dimension twice"),
    "transpose": (lambda: jit.zeros(2).transpose(0, 1), IndexError, "dimension out of range"),
    "select": (lambda: jit.zeros(2)[2], IndexError, "index 2 is out of range for dim 0 of size 2"),
    "narrow": (lambda: jit.zeros(4).narrow(0, 2, 3), jit.ShapeError, "reach beyond dim 0 of size 4"),
    "split": (lambda: jit.zeros(5).split([2, 2]), jit.ShapeError, "should sum to the size 5 of dim 0"),
    "chunk": (lambda: jit.zeros(5).chunk(0), jit.UsageError, "at least one chunk"),
    "expand": (lambda: jit.zeros(2, 3).expand(2, 4), jit.ShapeError, "cannot be broadcast"),
    "diagonal": (lambda: jit.zeros(2, 3).diagonal(0, 1, 1), jit.UsageError, "both 1"),
    "unfold": (lambda: jit.zeros(3).unfold(0, 4, 1), jit.ShapeError, "do not fit dim 0 of size 3"),
    "as_strided": (lambda: jit.zeros(3).as_strided([4], [1]), jit.ShapeError, "storage of 3"),
    "cat": (lambda: jit.cat([jit.zeros(2, 3), jit.zeros(3, 2)]), jit.ShapeError, "differ in a dim other than 0"),
    "cat of nothing": (lambda: jit.cat([]), jit.ShapeError, "at least one tensor"),
    "stack": (lambda: jit.stack([jit.zeros(2), jit.zeros(3)]), jit.ShapeError, "should have equal sizes"),
    "pad": (lambda: jit.nn.functional.pad(jit.zeros(1, 3), [3, 0], "reflect"), jit.ShapeError, "too large"),
    "mm": (lambda: jit.mm(jit.zeros(2, 3), jit.zeros(2, 3)), jit.ShapeError, "3 and 2 should be equal"),
    "mm dtypes": (lambda: jit.mm(jit.zeros(2, 2), jit.zeros(2, 2).double()), jit.DTypeError, "expects one dtype"),
    "linear": (lambda: F.linear(jit.zeros(2, 3), jit.zeros(4, 2)), jit.ShapeError, "last sizes should be equal"),
    "matmul": (lambda: jit.matmul(jit.zeros(()), jit.zeros(2)), jit.ShapeError, "use mul"),
    "einsum": (lambda: jit.einsum("ij", [jit.zeros(2)]), jit.UsageError, "each of the 1 dims"),
    "conv channels": (lambda: F.conv2d(jit.zeros(1, 3, 4, 4), jit.zeros(2, 2, 3, 3)), jit.ShapeError, "2 channels"),
    "conv kernel": (lambda: F.conv1d(jit.zeros(1, 2, 2), jit.zeros(2, 2, 3)), jit.ShapeError, "does not fit"),
    "conv rank": (lambda: F.conv2d(jit.zeros(4, 4), jit.zeros(2, 2, 3, 3)), jit.ShapeError, "3 or 4 dims"),
    "conv same": (
        lambda: F.conv1d(jit.zeros(1, 2, 5), jit.zeros(2, 2, 3), None, 2, "same"), jit.UsageError, "needs stride 1",
    ),
    "pool": (lambda: F.max_pool2d(jit.zeros(1, 2, 2), 3), jit.ShapeError, "does not fit the sizes"),
    "pool padding": (lambda: F.avg_pool2d(jit.zeros(1, 4, 4), 2, 2, 2), jit.UsageError, "at most half"),
    "batch_norm": (
        lambda: F.batch_norm(jit.zeros(1, 2), None, None, None, None, True, 0.1, 1e-5, False),
        jit.ShapeError, "more than one value per channel",
    ),
    "layer_norm": (lambda: F.layer_norm(jit.zeros(2, 3), [2]), jit.ShapeError, r"should be \[2\]"),
    "group_norm": (lambda: F.group_norm(jit.zeros(2, 3), 2), jit.ShapeError, "do not divide"),
    "nll_loss class": (lambda: F.nll_loss(jit.zeros(2, 3), whole(0, 3)), IndexError, "target 3 is out of range"),
    "nll_loss sizes": (lambda: F.nll_loss(jit.zeros(2, 3), whole(0)), jit.ShapeError, "does not fit"),
    "gather": (lambda: jit.gather(jit.zeros(2), 0, whole(2)), IndexError, "index 2 is out of range"),
    "gather dtype": (lambda: jit.gather(jit.zeros(2), 0, jit.zeros(1)), jit.DTypeError, "tensor of integers"),
    "index": (lambda: jit.zeros(2)[whole(5)], IndexError, "out of bounds"),
    "index_put": (lambda: F.index_put(jit.zeros(3), [whole(0, 1)], jit.zeros(3)), jit.ShapeError, "do not broadcast"),
    "embedding": (lambda: F.embedding(jit.zeros(2, 2), whole(-1)), IndexError, "index -1 is out of range"),
    "topk": (lambda: jit.topk(jit.zeros(3), 4), jit.UsageError, "k = 4 is out of range"),
    "multinomial": (lambda: jit.multinomial(jit.ones(2), 3), jit.UsageError, "without replacement"),
    "bernoulli": (lambda: jit.bernoulli(jit.ones(2) * 2), jit.UsageError, "between 0 and 1"),
    "lstm_cell": (
        lambda: jit.lstm_cell(jit.zeros(1, 3), [jit.zeros(1, 2)] * 2, jit.zeros(8, 2), jit.zeros(8, 2)),
        jit.ShapeError, "does not fit w_ih",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name: str) -> None:
    call, error, words = REFUSALS[name]
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, jit.Error)


@pytest.mark.parametrize(
    "overflow",
    [
        lambda x: x * 2,
        lambda x: x.sum(),
        lambda x: x @ x,
        lambda x: jit.special.hermite_polynomial_h(x.float() * 0, 300),
        lambda x: x.normal_(0, 1e9).abs().max(),
        lambda x: x.float().geometric_(1e-300),
    ],
    ids=["product", "sum", "matmul", "polynomial", "normal", "geometric"],
)
def test_results_that_overflow_their_dtype_are_inf_without_a_warning(overflow):
    x = jit.full((4,), 60000.0, dtype=jit.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert overflow(x).isinf().all()
