"""Sparse tensors as they are: what they hold, say, convert to and refuse. Expected values are those of PyTorch 2.13."""

import copy
import io
import pickle

import numpy as np
import pytest

import jit
from jit import nn, sparse
from tests.tolerances import assert_close

PLACES, VALUES = [[0, 2, 0, 1], [1, 0, 1, 2]], [1.0, 2.0, 3.0, -4.0]
DENSE = [[0, 4, 0], [0, 0, -4], [2, 0, 0]]


def example(dtype=jit.float32, requires_grad=False):
    """A matrix of which two entries share a place."""
    return jit.sparse_coo_tensor(PLACES, jit.tensor(VALUES, dtype=dtype), (3, 3), requires_grad=requires_grad)


@pytest.fixture(params=["uncoalesced", "coalesced", "by rows"])
def matrix(request):
    made = {"uncoalesced": example, "coalesced": lambda: example().coalesce()}
    return made.get(request.param, lambda: example().to_sparse_csr())()


def test_entries_at_one_place_are_added_up(matrix):
    assert matrix.to_dense().tolist() == DENSE
    whole = matrix.to_sparse_coo().coalesce()
    assert whole.is_coalesced() and whole.coalesce() is whole
    assert whole.indices().tolist() == [[0, 1, 2], [1, 2, 0]] and whole.values().tolist() == [4, -4, 2]


def test_what_a_tensor_says_of_itself(matrix):
    by_rows = matrix.layout is jit.sparse_csr
    assert (matrix.is_sparse, matrix.is_sparse_csr) == (not by_rows, by_rows)
    assert matrix.shape == matrix.size() == jit.Size([3, 3]) and matrix.size(0) == len(matrix) == 3
    assert matrix.dim() == matrix.ndim == 2 and matrix.numel() == 9 and matrix.sparse_dim() == 2
    assert matrix.dtype is jit.float32 and matrix.is_cpu and not matrix.requires_grad and jit.is_tensor(matrix)
    assert matrix._nnz() == (4 if matrix.layout is jit.sparse_coo and not matrix.is_coalesced() else 3)


def test_places_of_an_uncoalesced_tensor_are_not_final():
    assert example()._indices().tolist() == PLACES and example()._values().tolist() == VALUES
    for name in ("indices", "values"):
        with pytest.raises(jit.UsageError, match=f"Cannot get {name} on an uncoalesced tensor.*coalesce"):
            getattr(example(), name)()


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_dense_tensors_become_sparse_and_back(rng, dims):
    x = rng.standard_normal((3, 4, 2)).astype(np.float32)
    x[1], x[2, 3] = 0, 0
    found = jit.tensor(x).to_sparse(dims)
    assert found.sparse_dim() == dims and found.dense_dim() == 3 - dims and found.is_coalesced()
    assert found._nnz() == {1: 2, 2: 7, 3: 14}[dims] and np.array_equal(found.to_dense().numpy(), x)


def test_values_may_have_dims():
    hybrid = jit.sparse_coo_tensor([[0, 1, 0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (3, 2))
    assert hybrid.to_dense().tolist() == [[6, 8], [3, 4], [0, 0]]
    assert hybrid.coalesce().values().tolist() == [[6, 8], [3, 4]]
    assert sparse.sum(hybrid, 0).tolist() == [9, 12] and sparse.sum(hybrid, 1).to_dense().tolist() == [14, 7, 0]


def test_by_rows():
    found = example().to_sparse_csr()
    assert found.crow_indices().tolist() == [0, 1, 2, 3] and found.col_indices().tolist() == [1, 2, 0]
    made = jit.sparse_csr_tensor([0, 2, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0])
    assert made.to_dense().tolist() == [[1, 0, 2], [0, 0, 0], [0, 3, 0]]
    assert made.to_sparse().indices().tolist() == [[0, 0, 2], [0, 2, 1]]


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (2, 3)])
def test_without_entries(sizes):
    for empty in (jit.sparse_coo_tensor(sizes), jit.zeros(sizes).to_sparse(), jit.zeros(sizes).to_sparse_csr()):
        assert empty._nnz() == 0 and empty.to_dense().tolist() == jit.zeros(sizes).tolist()
        assert (empty @ jit.ones(sizes[1], 2)).tolist() == jit.zeros(sizes[0], 2).tolist()


def test_oldest_constructors():
    places, shape = jit.tensor(PLACES), jit.Size([3, 3])
    assert sparse.FloatTensor(places, jit.tensor(VALUES), shape).to_dense().tolist() == DENSE
    assert sparse.LongTensor(places, jit.tensor([1, 2, 3, 4])).dtype is jit.int64
    assert sparse.DoubleTensor(2, 3).shape == (2, 3) and sparse.DoubleTensor(2, 3).dtype is jit.float64
    assert isinstance(example(), sparse.FloatTensor) and not isinstance(example(), sparse.DoubleTensor)
    assert example().type() == "torch.sparse.FloatTensor"


def test_conversions(matrix):
    assert matrix.double().dtype is jit.float64 and matrix.to(jit.int32).to_dense().tolist() == DENSE
    assert matrix.to("cpu") is matrix and matrix.float() is matrix and matrix.cpu() is matrix
    assert matrix.to(jit.ones(1, dtype=jit.float64)).layout is matrix.layout
    copied = matrix.clone()
    copied._values().mul_(2) if copied.is_sparse else copied.values().mul_(2)
    assert matrix.to_dense().tolist() == DENSE and matrix.detach().to_dense().tolist() == DENSE


def test_bools_are_true_where_one_of_them_is():
    made = jit.sparse_coo_tensor([[0, 0, 1], [1, 1, 1]], [True, True, False], (2, 2))
    assert made.to_dense().tolist() == [[False, True], [False, False]]


def test_text():
    assert repr(example().coalesce()) == (
        "tensor(indices=tensor([[0, 1, 2],\n                       [1, 2, 0]]),\n"
        "       values=tensor([ 4., -4.,  2.]),\n       size=(3, 3), nnz=3, layout=torch.sparse_coo)"
    )
    assert repr(example().to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 2, 3]),\n       col_indices=tensor([1, 2, 0]),\n"
        "       values=tensor([ 4., -4.,  2.]), size=(3, 3), nnz=3,\n       layout=torch.sparse_csr)"
    )
    assert repr(jit.sparse_coo_tensor((2, 3))) == (
        "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, layout=torch.sparse_coo)"
    )


# -- gradients -----------------------------------------------------------------------------------------------------


def test_gradients_of_a_leaf_are_at_its_places():
    leaf = example(requires_grad=True)
    (leaf.to_dense() * jit.arange(9.0).reshape(3, 3)).sum().backward()
    assert leaf.is_leaf and leaf.grad._indices().tolist() == PLACES and leaf.grad._values().tolist() == [1, 6, 1, 5]
    leaf.grad = None
    (leaf.coalesce().values() ** 2).sum().backward()
    assert leaf.grad._values().tolist() == [8, 4, 8, -8]


def test_gradients_reach_the_values_that_a_tensor_is_made_of(matrix):
    values = jit.tensor([1.0, 2.0, 3.0, -4.0], requires_grad=True)
    made = jit.sparse_coo_tensor(PLACES, values * 2, (3, 3))
    turned = made.to_sparse_csr() if matrix.is_sparse_csr else made
    (turned.to_dense() * jit.arange(9.0).reshape(3, 3)).sum().backward()
    assert values.grad.tolist() == [2, 12, 2, 10]


def test_gradients_reach_dense_tensors():
    x = jit.tensor([[1.0, 0.0], [0.0, 3.0]], requires_grad=True)
    (x.to_sparse() * jit.tensor([[5.0, 6.0], [7.0, 8.0]])).sum().backward()
    assert x.grad.tolist() == [[5, 0], [0, 8]]


class Product(jit.autograd.Function):
    """The product of a sparse matrix and a dense one."""

    @staticmethod
    def forward(ctx, matrix, x):
        ctx.save_for_backward(matrix, x)
        return jit.spmm(matrix, x)

    @staticmethod
    def backward(ctx, gradient):
        matrix, _ = ctx.saved_tensors
        return None, jit.spmm(matrix.t(), gradient)


class Making(jit.autograd.Function):
    """A sparse matrix of values."""

    @staticmethod
    def forward(ctx, values):
        return jit.sparse_coo_tensor(PLACES, values, (3, 3))

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_functions_with_derivatives_of_their_own_take_matrices_that_need_no_gradient(matrix):
    x = jit.ones(3, 1, requires_grad=True)
    Product.apply(matrix, x).sum().backward()
    assert x.grad.tolist() == np.array(DENSE).sum(0)[:, None].tolist()
    with pytest.raises(jit.AutogradError, match="their indices and values"):
        Product.apply(matrix.requires_grad_(), x)
    with pytest.raises(jit.AutogradError, match="their indices and values"):
        Making.apply(jit.tensor(VALUES, requires_grad=True))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradients_through_checkpoints(use_reentrant):
    leaf = example(requires_grad=True)
    jit.checkpoint(lambda m: (m @ m.t()).to_dense(), leaf, use_reentrant=use_reentrant).sum().backward()
    expected = example(requires_grad=True)
    (expected @ expected.t()).to_dense().sum().backward()
    assert leaf.grad._values().tolist() == expected.grad._values().tolist()


# -- being kept ----------------------------------------------------------------------------------------------------


def test_copies_and_pickles(matrix):
    for made in (copy.copy(matrix), copy.deepcopy(matrix), pickle.loads(pickle.dumps(matrix))):
        assert type(made) is type(matrix) and made.to_dense().tolist() == DENSE


def test_files(matrix):
    file = io.BytesIO()
    jit.save({"a": matrix}, file)
    file.seek(0)
    found = jit.load(file)["a"]
    assert type(found) is type(matrix) and found.layout is matrix.layout and found.to_dense().tolist() == DENSE
    assert getattr(found, "ordered", None) == getattr(matrix, "ordered", None)


class Held(nn.Module):
    """A network with a sparse buffer."""

    def __init__(self, matrix):
        super().__init__()
        self.register_buffer("matrix", matrix)

    def forward(self, x):
        return self.matrix @ x


def test_buffers(matrix):
    net, other = Held(matrix), Held(matrix * 0)
    other.load_state_dict(net.state_dict())
    assert other.matrix.to_dense().tolist() == DENSE and other.double().matrix.dtype is jit.float64
    with pytest.raises(jit.UsageError, match=r"matrix is a Sparse.*Tensor here and a Tensor there"):
        net.load_state_dict({"matrix": jit.ones(3, 3)})
    net.matrix = matrix * 2
    assert_close(net(jit.eye(3)), 2 * np.array(DENSE, np.float32))
    with pytest.raises(jit.Error, match="is a Tensor and cannot become a str"):
        net.matrix = "text"


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m: jit.exp(m), "exp does not take sparse tensors; use to_dense()"),
        (lambda m: m.exp(), "a sparse tensor has no exp; use to_dense().exp"),
        (lambda m: m.add_(m), "not changed in place; use what add returns"),
        (lambda m: jit.where(m, m, m), "use to_dense()"),
        (lambda m: jit.ones(3).add_(m), "use to_dense()"),
        (lambda m: jit.softmax(m, 1), "use to_dense()"),
        (lambda m: m == m, "use to_dense()"),
        (lambda m: m != jit.ones(3, 3), "use to_dense()"),
        (lambda m: m + 1, "or to_dense()"),
        (lambda m: m + jit.ones(3, 3), "use add(dense, sparse)"),
        (lambda m: m / jit.ones(3, 3), "use to_dense()"),
        (lambda m: m**-1, "use to_dense()"),
        (lambda m: m[1:], "use to_dense()"),
        (lambda m: m.numpy(), "use to_dense()"),
        (lambda m: np.asarray(m), "use to_dense()"),
        (lambda m: bool(m), "use to_dense()"),
        (lambda m: jit.cat([m, jit.ones(3, 3)]), "use to_dense()"),
        (lambda m: jit.nn.functional.linear(jit.ones(3, 3), jit.ones(3, 3), m), "use to_dense()"),
        (lambda m: m * jit.ones(2, 3, 3), "use to_dense()"),
        (lambda m: m + jit.sparse_coo_tensor((2, 3)), "use to_dense()"),
    ],
)
def test_what_there_is_not_is_said_with_the_way_out(call, sentence, matrix):
    with pytest.raises(jit.Error) as raised:
        call(matrix)
    assert sentence in str(raised.value)


def test_names_that_no_tensor_has_are_absent(matrix):
    assert not hasattr(matrix, "nnz") and not hasattr(matrix, "__index__") and not hasattr(matrix, "exp")
    assert hasattr(matrix, "mm") and (matrix == None) is False  # noqa: E711


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: jit.sparse_coo_tensor(PLACES, VALUES, (2, 3)), "lie outside of its sizes"),
        (lambda: jit.sparse_coo_tensor([[-1], [0]], [1.0], (2, 3)), "lie outside of its sizes"),
        (lambda: jit.sparse_coo_tensor(PLACES, VALUES[:3], (3, 3)), "a column of places belongs to each value"),
        (lambda: jit.sparse_coo_tensor(PLACES, VALUES, (3, 3, 3)), "do not make the sizes"),
        (lambda: jit.sparse_coo_tensor(PLACES, 1.0, (3, 3)), "do not fit"),
        (lambda: jit.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2)), "end with the number of values"),
        (lambda: jit.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2)), "do not fall"),
        (lambda: jit.sparse_csr_tensor([0, 1, 2], [0, 2], [1.0, 2.0], (2, 2)), "lie outside of its sizes"),
    ],
)
def test_places_that_cannot_be_are_refused(make, sentence):
    with pytest.raises(jit.ShapeError, match=sentence):
        make()
