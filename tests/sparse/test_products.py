"""Products of sparse matrices: values and gradients of any order, traced, mapped and exported."""

import numpy as np
import pytest

import jit
from jit import nn, sparse
from jit.autograd import gradcheck, gradgradcheck
from tests.tolerances import assert_close

PLACES, VALUES = jit.tensor([[0, 2, 0, 1], [1, 0, 1, 2]]), [1.0, 2.0, 3.0, -4.0]
"""A matrix of which two entries share a place."""
LAYOUTS = pytest.mark.parametrize("by_rows", [False, True], ids=["by places", "by rows"])


def made(values, by_rows=False, size=(3, 3)):
    found = jit.sparse_coo_tensor(PLACES, values, size)
    return found.to_sparse_csr() if by_rows else found


def products(by_rows):
    """Every spelling of a product, as a function of values and a dense matrix `[3, 3]`."""
    return {
        "@": lambda v, x: made(v, by_rows) @ x,
        "@ vector": lambda v, x: made(v, by_rows) @ x[0],
        "dense @": lambda v, x: x @ made(v, by_rows),
        "vector @": lambda v, x: x[0] @ made(v, by_rows),
        "mm": lambda v, x: jit.mm(made(v, by_rows), x),
        "mv": lambda v, x: jit.mv(made(v, by_rows), x[0]),
        "spmm": lambda v, x: jit.spmm(made(v, by_rows), x),
        "matmul": lambda v, x: jit.matmul(made(v, by_rows), x),
        "method": lambda v, x: made(v, by_rows).mm(x),
        "sparse.mm": lambda v, x: sparse.mm(made(v, by_rows), x),
        "turned": lambda v, x: made(v, by_rows).t() @ x,
        "T": lambda v, x: made(v, by_rows).T @ x,
        "addmm": lambda v, x: jit.addmm(x[0], made(v, by_rows), x, beta=2, alpha=3),
        "addmm method": lambda v, x: x.addmm(made(v, by_rows), x),
        "sparse.addmm": lambda v, x: sparse.addmm(x, made(v, by_rows), x, beta=0.5, alpha=3),
        "linear": lambda v, x: nn.functional.linear(made(v, by_rows), x, x[0]),
        "of sparse ones": lambda v, x: (made(v, by_rows) @ made(v, by_rows).t()).to_dense() @ x,
        "sampled": lambda v, x: sparse.sampled_addmm(made(v, by_rows), x, x, beta=0.5).to_dense(),
    }


NAMES = sorted(products(False))


def dense_like(name, matrix, x):
    """What a product is for a dense matrix."""
    return {
        "@ vector": lambda: matrix @ x[0], "mv": lambda: matrix @ x[0], "dense @": lambda: x @ matrix,
        "vector @": lambda: x[0] @ matrix, "turned": lambda: matrix.T @ x, "T": lambda: matrix.T @ x,
        "addmm": lambda: 2 * x[0] + 3 * matrix @ x, "addmm method": lambda: x + matrix @ x,
        "sparse.addmm": lambda: 0.5 * x + 3 * matrix @ x, "linear": lambda: matrix @ x.T + x[0],
        "of sparse ones": lambda: matrix @ matrix.T @ x,
        "sampled": lambda: np.where(matrix != 0, 0.5 * matrix + x @ x, 0),
    }.get(name, lambda: matrix @ x)()  # fmt: skip


@LAYOUTS
@pytest.mark.parametrize("name", NAMES)
def test_products_are_those_of_the_dense_matrix(name, by_rows, rng):
    x, values = rng.standard_normal((3, 3)), jit.tensor(VALUES, dtype=jit.float64)
    dense = made(values).to_dense().numpy()
    assert_close(products(by_rows)[name](values, jit.tensor(x)), dense_like(name, dense, x))


@LAYOUTS
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_first_and_second_order(name, by_rows, rng):
    values = jit.tensor(VALUES, dtype=jit.float64, requires_grad=True)
    x = jit.tensor(rng.standard_normal((3, 3)), requires_grad=True)
    assert gradcheck(products(by_rows)[name], (values, x))
    assert gradgradcheck(products(by_rows)[name], (values, x))


@LAYOUTS
@pytest.mark.parametrize("name", NAMES)
def test_traced_products_with_their_gradients(name, by_rows, rng):
    function, values = products(by_rows)[name], jit.tensor(VALUES)
    traced = jit.trace(function)
    for _ in range(4):
        x = jit.tensor(rng.standard_normal((3, 3)).astype(np.float32))
        both: list[list[jit.Tensor]] = []
        for run in (traced, function):
            v, y = (each.clone().requires_grad_() for each in (values, x))
            result = run(v, y)
            (result * result).sum().backward()
            both.append([result, v.grad, y.grad])
        for one, other in zip(*both, strict=True):
            assert_close(one, other.detach(), rtol=1e-5, atol=1e-5)  # sums run in another order
    assert traced.hits == 3


def test_gradients_are_those_of_torch():
    values = jit.tensor(VALUES, requires_grad=True)
    x = jit.tensor([[1.0, 2], [3, 4], [5, 6]], requires_grad=True)
    result = made(values) @ x
    (result * x.detach()).sum().backward()
    assert result.tolist() == [[12, 16], [-20, -24], [2, 4]] and values.grad.tolist() == [11, 17, 11, 39]
    assert x.grad.tolist() == [[10, 12], [4, 8], [-12, -16]]


@LAYOUTS
def test_products_are_computed_in_the_lower_dtype_of_a_region(by_rows):
    adj = made(jit.tensor(VALUES), by_rows)
    for function in (lambda x: adj @ (x @ x), lambda x: jit.sparse.mm(adj, x)):
        with jit.autocast("cpu", dtype=jit.bfloat16):
            found = function(jit.eye(3))
        assert found.dtype is jit.bfloat16 and found.float().tolist() == adj.to_dense().tolist()


@pytest.mark.parametrize("dtype", [jit.float16, jit.bfloat16, jit.int64, jit.complex64])
def test_dtypes(dtype):
    x = jit.eye(3, dtype=dtype)
    found = jit.sparse_coo_tensor(PLACES, jit.tensor(VALUES).to(dtype), (3, 3)) @ x
    assert found.dtype is dtype and found.tolist() == [[0, 4, 0], [0, 0, -4], [2, 0, 0]]


def test_large_matrices(rng):
    dense = (rng.random((200, 300)) < 0.05) * rng.standard_normal((200, 300))
    other = (rng.random((300, 100)) < 0.05) * rng.standard_normal((300, 100))
    left, right = jit.tensor(dense).to_sparse(), jit.tensor(other).to_sparse()
    product = left @ right
    assert product.is_coalesced() and np.allclose(product.to_dense().numpy(), dense @ other)
    assert np.allclose((left @ jit.tensor(other)).numpy(), dense @ other)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda m: m @ jit.ones(3, 1).double(), jit.DTypeError, "of one dtype"),
        (lambda m: m @ jit.ones(2, 1), jit.ShapeError, "3 columns meet 2 rows"),
        (lambda m: m @ jit.ones(2), jit.ShapeError, "3 columns meet 2 rows"),
        (lambda m: m @ jit.ones(2, 3, 3), jit.ShapeError, "use to_dense"),
        (lambda m: m @ 2.0, jit.Error, "takes a Tensor"),
        (lambda m: jit.addmm(m, m, jit.ones(3, 3)), jit.UsageError, "use to_dense"),
        (lambda m: sparse.mm(m, m, "mean"), jit.UsageError, "index_reduce"),
    ],
)
@LAYOUTS
def test_operands_that_do_not_fit_are_refused(call, kind, sentence, by_rows):
    with pytest.raises(kind, match=sentence):
        call(made(jit.tensor(VALUES), by_rows))


# -- traced ----------------------------------------------------------------------------------------------------------


@LAYOUTS
def test_a_sparse_argument_is_two_or_three_inputs(by_rows):
    traced = jit.trace(lambda adj, x: adj @ x)
    first, second = made(jit.tensor(VALUES), by_rows), made(jit.tensor([5.0, 6.0, 7.0, 8.0]), by_rows)
    for adj in (first, second, first, second):
        assert traced(adj, jit.eye(3)).tolist() == adj.to_dense().tolist()
    assert traced.hits == 3
    one = jit.sparse_coo_tensor([[0], [1]], [9.0], (3, 3))
    fewer = one.to_sparse_csr() if by_rows else one
    assert traced(fewer, jit.eye(3)).tolist() == fewer.to_dense().tolist()


def test_coalesced_or_not_are_two_keys():
    traced = jit.trace(lambda adj: adj.coalesce().values() * 1)
    for adj in (made(jit.tensor(VALUES)), made(jit.tensor(VALUES)).coalesce()) * 3:
        assert traced(adj).tolist() == [4, -4, 2]


class Convolution(nn.Module):
    """A graph convolution with a matrix of its own, which is a buffer or a plain attribute."""

    def __init__(self, adj, is_buffer):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        if is_buffer:
            self.register_buffer("adj", adj)
        else:
            self.adj = adj

    def forward(self, x):
        return jit.relu(jit.spmm(self.adj, self.linear(x)))


@LAYOUTS
@pytest.mark.parametrize("is_buffer", [True, False])
def test_a_matrix_of_a_network_is_seen_when_it_changes(is_buffer, by_rows):
    net = Convolution(made(jit.tensor(VALUES), by_rows), is_buffer)
    traced, x = jit.trace(net), jit.ones(3, 2)

    def check():
        for _ in range(2):
            assert_close(traced(x), net(x).detach())

    check()
    assert traced.hits == 1
    net.adj = net.adj * -2
    check()
    net.adj.held.mul_(3)
    check()
    net.adj = made(jit.tensor([1.0, 1, 1, 1]), by_rows)
    check()


def test_a_matrix_of_the_surroundings_is_seen_when_it_changes():
    adj = made(jit.tensor(VALUES))
    traced = jit.trace(lambda x: adj @ x)
    assert traced(jit.eye(3)).tolist() == traced(jit.eye(3)).tolist() == adj.to_dense().tolist()
    adj = adj * 2
    assert traced(jit.eye(3)).tolist() == adj.to_dense().tolist()


def test_a_matrix_is_made_and_returned_inside_of_a_trace():
    @jit.trace
    def function(places, values, x):
        adj = sparse.softmax(jit.sparse_coo_tensor(places, values, (3, 3)), 1)
        return adj, adj @ x

    for values in ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [0.0, 1.0, 0.0, 1.0]):
        adj, product = function(PLACES, jit.tensor(values), jit.eye(3))
        assert adj.is_coalesced() and adj.to_dense().tolist() == product.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert function.hits == 2


def test_places_are_checked_inside_of_a_trace():
    traced = jit.trace(lambda places, x: jit.sparse_coo_tensor(places, jit.ones(2), (3, 3)) @ x)
    places = jit.tensor([[0, 1], [1, 2]])
    for _ in range(3):
        traced(places, jit.eye(3))
    with pytest.raises(jit.ShapeError, match="lie outside of its sizes"):
        traced(places + 1, jit.eye(3))


# -- transforms and models -------------------------------------------------------------------------------------------


@LAYOUTS
def test_maps_and_derivatives_of_functions(by_rows):
    adj = made(jit.tensor(VALUES), by_rows)
    rows = jit.arange(12.0).reshape(4, 3)
    assert_close(jit.func.vmap(lambda x: adj @ x)(rows), (rows @ adj.to_dense().T))
    assert_close(jit.func.jacrev(lambda x: adj @ x)(rows[0]), adj.to_dense())
    assert_close(jit.func.jacfwd(lambda x: adj @ x)(rows[0]), adj.to_dense())


@LAYOUTS
def test_exported_models_take_a_sparse_matrix_or_hold_it(by_rows, tmp_path):
    adj = made(jit.tensor(VALUES), by_rows)
    report = jit.export_onnx(lambda adj, x: adj @ x + 1, (adj, jit.ones(3, 2)), tmp_path / "a.onnx")
    assert "verified" in str(report)
    net = Convolution(adj, True)
    assert "verified" in str(jit.export_onnx(net, (jit.ones(3, 2),), tmp_path / "b.onnx"))
