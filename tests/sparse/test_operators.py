"""Operators other than products: values, layouts, gradients, and whether results are coalesced."""

import numpy as np
import pytest

import jit
from jit import sparse
from jit.autograd import gradcheck, gradgradcheck
from tests.tolerances import assert_close

PLACES, VALUES = jit.tensor([[0, 2, 0, 1], [1, 0, 1, 2]]), [1.0, 2.0, 3.0, -4.0]
"""A matrix of which two entries share a place."""


def made(values=VALUES):
    return jit.sparse_coo_tensor(PLACES, values, (3, 3))


DENSE = made().to_dense().numpy()
OTHER = np.arange(9, dtype=np.float32).reshape(3, 3)

CALLS = {
    "neg": (lambda m: -m, -DENSE),
    "abs": (lambda m: m.abs(), np.abs(DENSE)),
    "relu": (jit.relu, np.maximum(DENSE, 0)),
    "functional relu": (jit.nn.functional.relu, np.maximum(DENSE, 0)),
    "sign": (lambda m: m.sign(), np.sign(DENSE)),
    "power": (lambda m: m**2, DENSE**2),
    "square": (lambda m: m.square(), DENSE**2),
    "times number": (lambda m: m * 3, DENSE * 3),
    "number times": (lambda m: 3 * m, DENSE * 3),
    "times tensor of one": (lambda m: m * jit.tensor(3.0), DENSE * 3),
    "by number": (lambda m: m / 2, DENSE / 2),
    "times dense": (lambda m: m * jit.tensor(OTHER), DENSE * OTHER),
    "dense times": (lambda m: jit.tensor(OTHER) * m, DENSE * OTHER),
    "times row": (lambda m: m * jit.tensor(OTHER[1]), DENSE * OTHER[1]),
    "times column": (lambda m: m * jit.tensor(OTHER[:, :1]), DENSE * OTHER[:, :1]),
    "times sparse": (lambda m: m * jit.tensor(np.tril(OTHER)).to_sparse(), DENSE * np.tril(OTHER)),
    "plus": (lambda m: m + m.t(), DENSE + DENSE.T),
    "minus": (lambda m: m - m.t(), DENSE - DENSE.T),
    "add with alpha": (lambda m: jit.add(m, m.t(), alpha=2), DENSE + 2 * DENSE.T),
    "dense plus": (lambda m: jit.tensor(OTHER) + m, OTHER + DENSE),
    "dense minus": (lambda m: jit.tensor(OTHER) - m, OTHER - DENSE),
    "transpose": (lambda m: m.transpose(0, -1), DENSE.T),
    "permute": (lambda m: m.permute(1, 0), DENSE.T),
    "permute with a list": (lambda m: jit.permute(m, (-1, 0)), DENSE.T),
    "cat": (lambda m: jit.cat([m, m * 2], 0), np.concatenate([DENSE, DENSE * 2])),
    "cat columns": (lambda m: jit.cat([m, m * 2], -1), np.concatenate([DENSE, DENSE * 2], 1)),
    "stack": (lambda m: jit.stack([m, m * 2], 1), np.stack([DENSE, DENSE * 2], 1)),
    "unsqueeze": (lambda m: m.unsqueeze(-1), DENSE[..., None]),
    "select": (lambda m: m[2], DENSE[2]),
    "select twice": (lambda m: m[0, 1], DENSE[0, 1]),
    "select from the end": (lambda m: m.select(1, -1), DENSE[:, -1]),
    "index_select": (lambda m: m.index_select(1, jit.tensor([1, 1, 0])), DENSE[:, [1, 1, 0]]),
    "index_select rows": (lambda m: jit.index_select(m, 0, jit.tensor([2, 0, 2, 1])), DENSE[[2, 0, 2, 1]]),
    "sparse_mask": (lambda m: jit.tensor(OTHER).sparse_mask(m.coalesce()), np.where(DENSE != 0, OTHER, 0)),
    "sum": (lambda m: m.sum(), DENSE.sum()),
    "sum of rows": (lambda m: jit.sum(m, 1), DENSE.sum(1)),
    "sum of columns": (lambda m: sparse.sum(m, 0), DENSE.sum(0)),
    "sum kept": (lambda m: m.sum(1, keepdim=True), DENSE.sum(1, keepdims=True)),
    "sum of both": (lambda m: sparse.sum(m, (0, 1)), DENSE.sum()),
    "norm": (lambda m: m.norm(), np.linalg.norm(DENSE)),
    "zeros_like": (jit.zeros_like, DENSE * 0),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("layout", ["uncoalesced", "coalesced", "by rows"])
def test_operators_are_those_of_the_dense_matrix(name, layout):
    call, expected = CALLS[name]
    matrix = {"uncoalesced": made, "coalesced": made().coalesce, "by rows": made().to_sparse_csr}[layout]()
    if layout == "by rows" and name == "sparse_mask":
        matrix = made().coalesce()
    found = call(matrix)
    if layout == "by rows" and found.layout is not jit.strided and found.dim() == 2 and name != "sparse_mask":
        assert found.layout is jit.sparse_csr
    assert_close(found.to_dense(), expected.astype(np.float32))
    if found.layout is jit.sparse_coo and found.is_coalesced():
        again = jit.sparse_coo_tensor(found._indices(), found._values(), found.shape).coalesce()
        assert found._indices().tolist() == again._indices().tolist(), "it claims to be sorted"


@pytest.mark.parametrize("name", sorted({*CALLS} - {"sign", "zeros_like", "sparse_mask"}))
def test_gradients_and_traces(name):
    def function(values):
        return CALLS[name][0](made(values)).to_dense()

    if not any(word in name for word in ("dense", "row", "column", "sparse")) or "sum" in name or "cat" in name:
        assert gradcheck(function, (jit.tensor(VALUES, dtype=jit.float64, requires_grad=True),))
        assert gradgradcheck(function, (jit.tensor(VALUES, dtype=jit.float64, requires_grad=True),))
    traced = jit.trace(function)
    for factor in (1.0, 1.5, 2.0, 3.0):
        values = (jit.tensor(VALUES) * factor).requires_grad_()
        found, expected = traced(values), function(values)
        assert_close(found, expected.detach())
        ours, theirs = (jit.autograd.grad(y.sum() ** 2, values)[0] for y in (found, expected))
        assert_close(ours, theirs, rtol=1e-5, atol=1e-5)  # sums run in another order
    assert traced.hits == 3


@pytest.mark.parametrize(
    ("call", "is_coalesced"),
    [
        (lambda c: c + c, True), (lambda c: c + c.t(), False), (lambda c: c * 2, True), (lambda c: c.t(), False),
        (lambda c: c * c, True), (lambda c: c.relu(), True), (lambda c: c.sum(1), True), (lambda c: c @ c, True),
        (lambda c: c.float(), True), (lambda c: jit.cat([c, c]), False), (lambda c: c.index_select(0, jit.tensor([0])),
        False), (lambda c: sparse.softmax(c, 1), True), (lambda c: jit.zeros_like(c), True),
    ],
)  # fmt: skip
def test_whether_results_are_coalesced(call, is_coalesced):
    assert call(made().coalesce()).is_coalesced() is is_coalesced


def test_dtypes_are_promoted():
    whole = jit.sparse_coo_tensor([[0, 0], [1, 1]], jit.tensor([1, 2], dtype=jit.int32), (2, 2))
    found = [whole * 2.5, whole + whole.float(), whole / 2, sparse.sum(whole), sparse.sum(whole, 1), whole.to_dense()]
    expected = [jit.float32, jit.float32, jit.float32, jit.int64, jit.int32, jit.int32]
    assert [each.dtype for each in found] == expected


# -- softmax ---------------------------------------------------------------------------------------------------------


def scores(values):
    return jit.sparse_coo_tensor([[0, 0, 1, 0], [0, 2, 1, 2]], values, (2, 3))


def test_softmax_goes_over_entries():
    found = sparse.softmax(scores(jit.tensor([1.0, 0.5, 3.0, 1.5])), 1)
    assert_close(found.to_dense(), np.array([[0.2689414, 0, 0.7310586], [0, 1, 0]], np.float32))
    logarithms = sparse.log_softmax(scores(jit.tensor([1.0, 0.5, 3.0, 1.5])), 1)
    assert_close(logarithms.values(), np.array([-1.3132617, -0.3132617, 0], np.float32))
    down = sparse.softmax(scores(jit.tensor([1.0, 0.5, 3.0, 1.5])), 0)
    assert down.to_dense().tolist() == [[1, 0, 1], [0, 1, 0]]
    far = sparse.softmax(scores(jit.tensor([1000.0, 500.0, -1000.0, 500.0])), 1)
    assert far.to_dense().tolist() == [[0.5, 0, 0.5], [0, 1, 0]]
    assert sparse.softmax(scores(jit.ones(4)).to_sparse_csr(), 1).layout is jit.sparse_csr


@pytest.mark.parametrize("function", [sparse.softmax, sparse.log_softmax])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gradients_of_softmax(function, dim):
    values = jit.tensor([1.0, 0.5, 3.0, 1.5], dtype=jit.float64, requires_grad=True)
    assert gradcheck(lambda v: function(scores(v), dim).to_dense(), (values,))
    assert gradgradcheck(lambda v: function(scores(v), dim).to_dense(), (values,))


def test_softmax_along_a_dim_of_the_values(rng):
    x = rng.standard_normal((2, 4)).astype(np.float32)
    found = sparse.softmax(jit.tensor(x).to_sparse(1), -1)
    assert_close(found.to_dense(), jit.softmax(jit.tensor(x), -1))
