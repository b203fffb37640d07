"""`jit.nested`: tensors of different sizes as one batch; what operators give is compared with what members give."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import jit
from jit import nn
from jit.nn import functional as F
from tests.tolerances import assert_close

ROWS = [(2, 3), (4, 3), (1, 3)]
MIXED = [(2, 3), (4, 2)]


def members(sizes: Sequence[tuple[int, ...]], **options: Any) -> list[Any]:
    made = []
    for number, each in enumerate(sizes):
        made.append(jit.sin(jit.arange(float(jit.Size(each).numel())) + number).reshape(each))
    return [each.to(**options) if options else each for each in made]


def lin() -> Any:
    jit.manual_seed(0)
    return nn.Linear(3, 5)


SAME: dict[str, Callable[[Any], Any]] = {
    "number": lambda x: 2 * x - 1,
    "itself": lambda x: x * x + x,
    "comparison": lambda x: x > 0,
    "relu": lambda x: x.relu(),
    "gelu": F.gelu,
    "silu": F.silu,
    "function": jit.exp,
    "0-d": lambda x: x * jit.tensor(3.0),
    "row": lambda x: x + jit.tensor([1.0, 2.0, 3.0]),
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: jit.log_softmax(x, dim=-1),
    "linear": lambda x: lin()(x),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "sequential": lambda x: nn.Sequential(lin(), nn.ReLU(), nn.LayerNorm(5), nn.Dropout(0.0))(x),
    "double": lambda x: x.double() / 3,
    "clone": lambda x: x.clone(),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "amax": lambda x: x.amax([-1], True),
    "mean": lambda x: x.mean(dim=-1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "product": lambda x: x @ jit.ones(3, 2),
    "where": lambda x: jit.where(x > 0, x, 0.0),
}


@pytest.mark.parametrize("name", SAME)
def test_as_of_each_member(name: str) -> None:
    function, each = SAME[name], members(ROWS)
    found = function(jit.nested.nested_tensor(each))
    wanted = [function(member) for member in each]
    assert found.is_nested and len(found) == 3
    for one, other in zip(found.unbind(), wanted, strict=True):
        assert one.dtype is other.dtype
        assert_close(one, other)


@pytest.mark.parametrize("name", sorted(set(SAME) - {"comparison"}))
def test_gradients_reach_the_members(name: str) -> None:
    function = SAME[name]
    one, other = ([member.requires_grad_() for member in members(ROWS)] for _ in range(2))
    function(jit.nested.as_nested_tensor(one)).to_padded_tensor(0.0).pow(2).sum().backward()
    for member in other:
        function(member).pow(2).sum().backward()
    for x, y in zip(one, other, strict=True):
        assert_close(x.grad, y.grad)


def test_attention() -> None:
    heads = members([(2, 3, 4), (2, 5, 4)])
    batch: Any = jit.nested.nested_tensor(heads)
    found = F.scaled_dot_product_attention(batch, batch, batch)
    scores = jit.matmul(batch, batch.transpose(-2, -1))
    for number, head in enumerate(heads):
        assert_close(found[number], F.scaled_dot_product_attention(head, head, head))
        assert_close(scores[number], head @ head.transpose(-2, -1))


def test_a_batch_of_operands_goes_member_by_member() -> None:
    each = members(ROWS)
    found = jit.nested.nested_tensor(each) * jit.tensor([[[1.0]], [[2.0]], [[3.0]]])
    for number, member in enumerate(each):
        assert_close(found[number], member * (number + 1))


@pytest.mark.parametrize("sizes", [ROWS, MIXED, [(0, 3), (2, 3)], [(3,), (1,)]])
def test_padding(sizes: Sequence[tuple[int, ...]]) -> None:
    each = members(sizes)
    padded = jit.nested.to_padded_tensor(jit.nested.nested_tensor(each), -1.0)
    assert tuple(padded.shape) == (len(sizes), *map(max, zip(*sizes, strict=True)))
    for row, member in zip(padded, each, strict=True):
        inside = row[tuple(slice(size) for size in member.shape)]
        assert_close(inside, member)
        assert int((row == -1.0).sum()) == row.numel() - member.numel()
    larger = jit.nested.nested_tensor(each).to_padded_tensor(0.0, [len(sizes)] + [7] * (padded.ndim - 1))
    assert tuple(larger.shape) == (len(sizes), *[7] * (padded.ndim - 1))


def test_rows_with_offsets() -> None:
    rows = jit.arange(10.0).reshape(5, 2).requires_grad_()
    batch = jit.nested.nested_tensor_from_jagged(rows, jit.tensor([0, 2, 5]))
    assert (batch.layout, batch.size(0), batch.size(-1), batch.dim()) == (jit.jagged, 2, 2, 3)
    assert batch.offsets().tolist() == [0, 2, 5] and batch.lengths().tolist() == [2, 3]
    assert batch.values().tolist() == rows.tolist() and batch[1].tolist() == rows[2:].tolist()
    (batch * 2).values().sum().backward()
    assert rows.grad.tolist() == [[2.0, 2.0]] * 5
    again = jit.nested.nested_tensor_from_jagged(rows, lengths=jit.tensor([1, 0, 4]))
    assert [tuple(member.shape) for member in again] == [(1, 2), (0, 2), (4, 2)]


def test_embedding_of_sentences() -> None:
    words = jit.nested.nested_tensor([jit.tensor([1, 2]), jit.tensor([3])])
    table = nn.Embedding(5, 2)
    found = table(words)
    assert_close(found[0], table(jit.tensor([1, 2])))
    found.to_padded_tensor(0.0).sum().backward()
    assert table.weight.grad.sum(1).tolist() == [0.0, 2.0, 2.0, 2.0, 0.0]


def test_what_it_is() -> None:
    batch = jit.nested.nested_tensor([[1.0, 2.0], [3.0]], dtype=jit.float64, requires_grad=True)
    assert (batch.dtype, batch.ndim, batch.numel(), len(batch), batch.size(0)) == (jit.float64, 2, 3, 2, 2)
    assert batch.is_nested and not jit.ones(1).is_nested and batch.requires_grad and batch.is_leaf
    (batch * 3).to_padded_tensor(0.0).sum().backward()
    assert [each.tolist() for each in batch.grad] == [[3.0, 3.0], [3.0]]
    assert not batch.detach().requires_grad
    assert repr(jit.nested.nested_tensor([[1.0, 2.0], [3.0]])) == (
        "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])"
    )


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(again: Callable[[Any], Any]) -> None:
    batch = again(jit.nested.nested_tensor(members(MIXED)))
    for one, other in zip(batch, members(MIXED), strict=True):
        assert_close(one, other)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "irregular": (lambda x: x.size(1), "irregular"),
    "shape": (lambda x: x.shape, "irregular"),
    "absent": (lambda x: x.nonzero(), "to_padded_tensor"),
    "function": (lambda x: jit.topk(x, 1), "to_padded_tensor"),
    "batch": (lambda x: x.softmax(0), "needs a dim of its members"),
    "all": (lambda x: x.sum(), "needs a dim of its members"),
    "in place": (lambda x: x.add_(1), "in place"),
    "index": (lambda x: x[:, 1], "number of a member"),
    "several": (lambda x: x + jit.nested.nested_tensor([jit.ones(2, 3)]), "do not go together"),
    "dims": (lambda x: jit.nested.nested_tensor([jit.ones(2), jit.ones(2, 2)]), "as many dims"),
    "offsets": (lambda x: jit.nested.nested_tensor_from_jagged(jit.ones(3), jit.tensor([0, 2])), "number of rows"),
    "neither": (lambda x: jit.nested.nested_tensor_from_jagged(jit.ones(3)), "either offsets or lengths"),
    "values": (lambda x: jit.nested.nested_tensor(members(MIXED)).values(), "more than their first dim"),
    "padding": (lambda x: jit.nested.to_padded_tensor(jit.ones(2), 0.0), "takes a nested tensor"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    refused, reason = REFUSED[case]
    with pytest.raises(jit.Error, match=reason):
        refused(jit.nested.nested_tensor(members(ROWS)))


def test_traced() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    traced = jit.trace(lambda x: F.softmax(net(x), -1).to_padded_tensor(0.0))
    for factor in range(1, 5):
        batch = jit.nested.nested_tensor([factor * member for member in members(ROWS)])
        found = traced(batch)
        assert_close(found[0, :2], F.softmax(net(batch[0]), -1))
        net.zero_grad()
        found[:, 0, 0].sum().backward()
        assert net[0].weight.grad.abs().sum() > 0
    assert traced.hits >= 2
