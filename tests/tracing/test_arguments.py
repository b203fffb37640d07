"""What operators take for arguments, as PyTorch does: lists of tensors, sizes, truth values, `out=` and bounds."""

import warnings
from typing import Any

import numpy as np
import pytest

import jit

JOINING = [
    jit.cat, jit.stack, jit.hstack, jit.vstack, jit.dstack, jit.column_stack, jit.row_stack, jit.concat,
    jit.concatenate, jit.linalg.multi_dot,
]  # fmt: skip


@pytest.mark.parametrize("join", JOINING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [jit.float32, jit.int64, jit.complex64])
def test_a_tensor_is_no_list_of_tensors(join: Any, dtype: Any) -> None:
    rows = jit.ones(2, 2, dtype=dtype)
    with pytest.raises(TypeError):
        join(rows)
    assert join([rows, rows]).numel() >= 4


SPREADING: dict[str, Any] = {
    "block_diag": (jit.block_diag, 2), "meshgrid": (jit.meshgrid, 1), "broadcast_tensors": (jit.broadcast_tensors, 2),
    "cartesian_prod": (jit.cartesian_prod, 1), "atleast_2d": (jit.atleast_2d, 2), "chain": (jit.chain_matmul, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", SPREADING)
def test_some_take_their_tensors_one_by_one(name: str) -> None:
    function, ndim = SPREADING[name]
    square = jit.ones(*[2] * ndim)
    given = function(square, square)
    listed = function([square, square])
    for one, other in zip(*(list(v) if isinstance(v, (list, tuple)) else [v] for v in (given, listed)), strict=True):
        assert jit.equal(one, other)


def test_no_tensors_at_all() -> None:
    assert jit.block_diag().shape == (1, 0)
    assert jit.broadcast_tensors() == []
    for function in (jit.meshgrid, jit.cartesian_prod, jit.chain_matmul):
        with pytest.raises(jit.Error):
            function()


WHOLE = [3, np.int64(3), np.int32(3), jit.tensor(3), jit.tensor(3, dtype=jit.uint8)]


@pytest.mark.parametrize("size", WHOLE, ids=repr)
def test_sizes_are_any_whole_numbers(size: Any) -> None:
    assert jit.zeros(size).shape == (3,)
    assert jit.zeros(2, size).shape == jit.zeros((2, size)).shape == (2, 3)
    assert jit.randn(size, size, dtype=jit.float64).shape == (3, 3)
    assert jit.ones(6).view(-1, size).shape == jit.ones(6).reshape(2, size).shape == (2, 3)
    assert jit.ones(1).expand(size).shape == jit.ones(1).repeat(size).shape == (3,)


@pytest.mark.parametrize("size", [jit.tensor(3.0), jit.tensor([3]), jit.tensor(True), 3.0, "3", True], ids=repr)
def test_other_things_are_no_sizes(size: Any) -> None:
    with pytest.raises(TypeError):
        jit.zeros(size)


def test_traced_sizes_follow_their_tensor() -> None:
    traced = jit.trace(lambda n, x: jit.zeros(n, 2) + x)
    for count in (3, 4, 3):
        assert traced(jit.tensor(count), jit.ones(2)).shape == (count, 2)


TAKING_A_DIM: dict[str, Any] = {
    "sum": lambda x: x.sum(True), "argmax": lambda x: x.argmax(True), "max": lambda x: x.max(True),
    "softmax": lambda x: x.softmax(True), "cumsum": lambda x: x.cumsum(True), "squeeze": lambda x: x.squeeze(True),
    "topk": lambda x: x.topk(1, True), "all": lambda x: x.all(False, True), "select": lambda x: x.select(True, 0),
    "transpose": lambda x: x.transpose(True, False), "permute": lambda x: x.permute(True, False),
    "chunk": lambda x: x.chunk(True), "eye": lambda x: jit.eye(True), "tril": lambda x: x.tril(True),
    "flatten": lambda x: x.flatten(False, True), "unsqueeze": lambda x: x.unsqueeze(True),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKING_A_DIM)
def test_truth_values_are_no_numbers(name: str) -> None:
    with pytest.raises(TypeError):
        TAKING_A_DIM[name](jit.ones(2, 3))


def test_none_stands_for_an_empty_list() -> None:
    x: Any = jit.arange(6.0).reshape(2, 3)
    assert jit.equal(x.roll(1, dims=None), x.roll(1))
    assert x.amax(dim=None).item() == 5 and x.amin(None).item() == 0


MAKERS: dict[str, Any] = {
    "zeros": lambda **k: jit.zeros(2, 3, **k), "ones": lambda **k: jit.ones(2, 3, **k),
    "full": lambda **k: jit.full((2, 3), 2.0, **k), "eye": lambda **k: jit.eye(2, **k),
    "arange": lambda **k: jit.arange(0, 6, **k), "linspace": lambda **k: jit.linspace(0, 5, 6, **k),
    "logspace": lambda **k: jit.logspace(0, 2, 3, **k), "rand": lambda **k: jit.rand(2, 3, **k),
    "randn": lambda **k: jit.randn(2, 3, **k), "empty": lambda **k: jit.empty(2, 3, **k) * 0,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [jit.float32, jit.float64, jit.complex128, jit.int64], ids=str)
@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"empty"}))
def test_out_says_the_dtype_of_what_is_made(name: str, dtype: Any) -> None:
    if name.startswith("rand") and dtype is jit.int64:
        return
    jit.manual_seed(3)
    expected = MAKERS[name](dtype=dtype)
    out = jit.tensor([], dtype=dtype)
    jit.manual_seed(3)
    assert MAKERS[name](out=out) is out
    assert out.dtype is dtype and jit.equal(out, expected)
    jit.manual_seed(3)
    assert jit.equal(MAKERS[name](out=jit.empty(0, dtype=dtype), dtype=dtype), expected)


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"empty"}))
def test_a_dtype_that_is_not_that_of_out_is_refused(name: str) -> None:
    with pytest.raises(jit.DTypeError, match="leave dtype out"):
        MAKERS[name](out=jit.empty(0, dtype=jit.float64), dtype=jit.float32)


@pytest.mark.parametrize("name", ["arange", "linspace"])
def test_ranges_fill_an_out_of_as_many_elements(name: str) -> None:
    whole = jit.zeros(2, 4)
    MAKERS[name](out=whole[:, :3])
    assert whole.tolist() == [[0, 1, 2, 0], [3, 4, 5, 0]]


@pytest.mark.parametrize("space", [jit.linspace, jit.logspace])
def test_spaces_of_complex_ends_are_complex(space: Any) -> None:
    assert space(0, 1, 3).dtype is jit.float32
    assert space(1j, 2, 3).dtype is space(0.0, 1j, 3).dtype is jit.complex64
    with pytest.raises(jit.DTypeError):
        space(0, 1j, 3, dtype=jit.float32)


def test_buffers() -> None:
    memory = bytearray(8)
    assert jit.frombuffer(memory, dtype=jit.int16, offset=6).tolist() == [0]
    for count, offset in ((0, 0), (-1, 8), (-1, -1), (-1, 9), (5, 0), (-1, 1)):
        with pytest.raises(ValueError):
            jit.frombuffer(memory, dtype=jit.int16, count=count, offset=offset)
    with pytest.raises(ValueError):
        jit.frombuffer(b"", dtype=jit.int16)
    with pytest.warns(UserWarning, match="read-only"):
        jit.frombuffer(bytes(4), dtype=jit.int16)


@pytest.mark.parametrize("dtype", [jit.float16, jit.bfloat16, jit.float32, jit.float64], ids=str)
def test_random_warns_of_numbers_that_the_dtype_skips(dtype: Any) -> None:
    exact = 2 ** {jit.float16: 11, jit.bfloat16: 8, jit.float32: 24, jit.float64: 53}[dtype]
    x = jit.empty(3, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.random_(-exact, exact + 1)
        x.random_()
    for low, high in ((0, 2 * exact + 2), (-2 * exact, 0)):
        with pytest.warns(UserWarning, match="random_"):
            x.random_(low, high)


@pytest.mark.parametrize("dtype", [jit.float16, jit.bfloat16, jit.float32, jit.float64], ids=str)
def test_uniform_bounds_lie_within_reach(dtype: Any) -> None:
    largest = jit.finfo(dtype).max
    with pytest.raises(jit.UsageError, match="wider"):
        jit.empty(2, dtype=dtype).uniform_(-largest, largest)
    with pytest.raises(jit.UsageError, match="from must not exceed to"):
        jit.empty(2, dtype=dtype).uniform_(2, 1)
    assert 0 <= jit.empty((), dtype=dtype).uniform_(0, largest).item() <= largest


EMPTY_ROWS = {name: getattr(jit, name) for name in ("argmax", "argmin", "max", "min", "amax", "amin", "median", "mode")}


@pytest.mark.parametrize("name", EMPTY_ROWS)
def test_there_is_no_largest_of_nothing(name: str) -> None:
    with pytest.raises(IndexError):
        EMPTY_ROWS[name](jit.ones(2, 0), 1)
    assert EMPTY_ROWS[name](jit.ones(0, 2), 1) is not None


def test_kthvalue_of_nothing() -> None:
    with pytest.raises(IndexError):
        jit.kthvalue(jit.ones(2, 0), 1, 1)


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (5, 0), (5, 0, 3, 0, 2)])
def test_strides_of_empty_tensors(sizes: Any) -> None:
    assert jit.empty(sizes).stride() == jit.empty([max(size, 1) for size in sizes]).stride()


def test_strides_of_empty_views() -> None:
    assert jit.ones(4, 5, 6)[:0].stride() == (30, 6, 1)


def test_numbers_of_complex_tensors() -> None:
    assert float(jit.tensor(2 + 0j)) == 2.0 and int(jit.tensor(2.5 + 0j)) == 2
    for number in (float, int):
        with pytest.raises(jit.DTypeError, match="not real"):
            number(jit.tensor(1 + 1j))


def test_lists_that_hold_themselves() -> None:
    endless: list[Any] = [0]
    endless.append(endless)
    for data in (endless, [[1, 2], endless]):
        with pytest.raises(TypeError):
            jit.tensor(data)


class Sequence:
    """A sequence of numbers that is no list."""

    def __init__(self, numbers: list[float], works: bool) -> None:
        self.numbers, self.works = numbers, works

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> float:
        if not self.works:
            raise TypeError("no")
        return self.numbers[index]


def test_tensors_of_sequences() -> None:
    assert jit.tensor(Sequence([1.0, 2.0], True)).tolist() == [1, 2]
    with pytest.raises(ValueError, match="do not tell their sizes"):
        jit.tensor(Sequence([1.0, 2.0], False))


def test_index_put_warns_of_bytes_and_needs_an_index() -> None:
    mask = jit.tensor([1, 0, 1], dtype=jit.uint8)
    for put in (jit.index_put, jit.Tensor.index_put, jit.Tensor.index_put_):
        with pytest.warns(UserWarning, match="uint8"):
            assert put(jit.zeros(3), (mask,), jit.tensor(1.0)).tolist() == [1, 0, 1]
        with pytest.raises(jit.UsageError, match="at least one index"):
            put(jit.zeros(3), (), jit.tensor(1.0))


@pytest.mark.parametrize("dim", [0, 1, 5])
def test_empty_vectors_are_joined_along_any_dim(dim: int) -> None:
    assert jit.cat([jit.ones(0), jit.ones(0)], dim).shape == (0,)
    with pytest.raises(IndexError):
        jit.cat([jit.ones(0), jit.ones(1)], 2)


def test_rows_of_a_tensor_are_views_of_it() -> None:
    x = jit.zeros(3, 2)
    for number, row in enumerate(x):
        assert row._base is x and row.storage_offset() == 2 * number
        row.fill_(number)
    assert x.tolist() == [[0, 0], [1, 1], [2, 2]]
    weight = jit.ones(2, requires_grad=True)
    for row in x:
        row.mul_(weight)
    x.sum().backward()
    assert weight.grad.tolist() == [3, 3]


def test_resizing_refuses_what_it_cannot_lay_out() -> None:
    x, like = jit.empty(6), jit.empty(1, 2, 3, 2).contiguous(memory_format="channels_last")
    for call in (lambda: x.resize_(1, 2, 3, 1, memory_format="channels_last"),
                 lambda: x.resize_as_(like, memory_format="channels_last"),
                 lambda: x.resize_as_(like, memory_format="preserve_format")):  # fmt: skip
        with pytest.raises(jit.UsageError, match="row by row"):
            call()
    with pytest.raises(jit.ShapeError, match="larger"):
        x.resize_(8, 8, 2**29, 2**29)
    assert x.resize_(2, 3, memory_format="contiguous_format").shape == (2, 3)
