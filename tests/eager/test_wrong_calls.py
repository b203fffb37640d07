"""Wrong calls of all kinds: each is refused with one sentence that speaks of what the caller knows."""

from __future__ import annotations

import re

import pytest

import jit
from jit import nn

CALLS = """
x.sum(5)
x.sum(dim=-3)
x + y
x @ x
jit.mm(x, z)
x.view(7)
x.reshape(4, -1, 5)
x.transpose(0, 2)
x.permute(0, 0)
jit.cat([x, y])
jit.cat([])
jit.stack([x, y])
x[5]
x[0, 0, 0]
x[far]
x[mask, mask, mask]
x[:, jit.tensor([1.5])]
x[jit.tensor([True, True, True])]
x['a']
x.gather(1, jit.tensor([[9, 0, 0]]))
x.scatter(0, jit.tensor([[5]]), x)
x.index_select(0, jit.tensor([7]))
jit.softmax(ints, 0)
jit.relu(x, 3, 4, 5)
jit.relu('a')
jit.add(x, None)
jit.add()
jit.sum(x, dims=1, foo=2)
ints.add_(1.5)
ints.div_(2)
jit.bitwise_and(x, x)
complex.sort()
complex < complex
jit.argmax(complex)
jit.topk(complex, 1)
-mask
mask - mask
jit.exp(mask, out=jit.zeros(2, dtype=jit.int64))
jit.ones(-1)
jit.zeros(2, dtype='foo')
jit.arange(0, 5, 0)
jit.arange(5, 0, 1)
jit.linspace(0, 1, -3)
jit.tensor([1, 'a'])
jit.tensor([[1], [1, 2]])
x.item()
bool(x)
jit.ones(2, requires_grad=True).numpy()
ints.requires_grad_()
x.backward()
jit.ones(2, requires_grad=True).backward()
jit.ones(2, requires_grad=True).add_(1)
jit.zeros(1).expand(3).add_(1)
x.expand(5, 3)
x.repeat(2)
x.split(0)
x.split([1, 5])
x.narrow(0, 1, 5)
x.unfold(0, 5, 1)
x.diagonal(0, 0, 0)
x.unsqueeze(5)
x.flatten(1, 0)
x.unflatten(1, (2, 2))
F.conv2d(image, jit.randn(4, 2, 3, 3))
F.conv2d(image, weight, stride=0)
F.conv2d(image, weight, padding='foo')
F.conv2d(image, weight, groups=2)
F.conv2d(image.double(), weight)
F.linear(x, y)
nn.Linear(3, 4)(y)
nn.BatchNorm2d(4)(image)
nn.BatchNorm1d(3)(jit.randn(1, 3))
F.max_pool2d(image, 20)
F.max_pool2d(image, 2, padding=5)
F.avg_pool2d(image, 0)
F.cross_entropy(x, jit.tensor([0, 9]))
F.cross_entropy(x, jit.tensor([0, 1, 2]))
F.nll_loss(x, jit.tensor([0, 1]), reduction='foo')
F.mse_loss(x, y)
F.embedding(jit.tensor([9]), y)
F.one_hot(jit.tensor([3]), 2)
F.layer_norm(x, (4,))
F.group_norm(image, 2)
F.interpolate(image, size=3, scale_factor=2)
F.interpolate(image, size=3, mode='foo')
F.pad(x, (1,))
F.pad(image, (9, 9), mode='reflect')
F.grid_sample(image, jit.zeros(1, 2, 2, 3), align_corners=True)
F.dropout(x, 1.5)
F.gelu(x, approximate='foo')
F.glu(jit.randn(3))
F.ctc_loss(jit.randn(5, 2, 3), jit.tensor([[1], [1]]), (9, 9), (1, 1))
jit.einsum('ij,jk', x, y)
jit.einsum('i?', x)
jit.bmm(x, x)
jit.addmm(x, x, x)
jit.linalg.inv(x)
jit.linalg.inv(jit.zeros(2, 2))
jit.linalg.cholesky(-jit.eye(2))
jit.linalg.solve(jit.eye(2), jit.randn(3))
jit.linalg.norm(x, 'foo')
jit.topk(x, 9)
jit.kthvalue(x, 0)
jit.max(jit.zeros(0))
jit.multinomial(jit.zeros(3), 2)
jit.bernoulli(x * 10 + 50)
jit.normal(0., -1., (2,))
jit.randint(5, 3, (2,))
jit.where(x, x, x)
jit.where(mask, x)
jit.masked_select(x, x)
x.masked_fill(mask, 0)
jit.roll(x, 1, (0, 1))
jit.flip(x, (0, 0))
jit.tril(z)
jit.meshgrid(x)
jit.tensordot(x, y, 1)
jit.bincount(x)
jit.histc(x, 0)
jit.clamp(x)
x.copy_(y)
x.to('foo')
x.type(5)
x.as_strided((9, 9), (3, 1))
jit.from_numpy([1])
jit.grad(x, x)
ints // 0
ints % 0
ints ** -1
len(z)
list(z)
nn.MultiheadAttention(5, 2)
nn.Sequential(3)
nn.Module().load_state_dict({'a': jit.ones(1)})
jit.optim.SGD([], lr=1)
jit.optim.SGD([x], lr=-1)
jit.trace(3)
jit.manual_seed('a')
ints.mean()
jit.quantile(x, 2.0)
jit.take(x, jit.tensor([99]))
jit.broadcast_shapes((2,), (3,))
x.__setitem__(0, y)
jit.view_as_complex(x)
jit.asarray(object())
""".strip().splitlines()


def names() -> dict[str, object]:
    """What the calls are about."""
    return {
        "jit": jit, "nn": nn, "F": nn.functional, "x": jit.randn(2, 3), "y": jit.randn(4, 5), "z": jit.tensor(1.0),
        "ints": jit.arange(6).view(2, 3), "far": jit.tensor([0, 5]), "mask": jit.tensor([True, False]),
        "complex": jit.randn(3, dtype=jit.complex64), "image": jit.randn(1, 3, 8, 8), "weight": jit.randn(4, 3, 3, 3),
    }  # fmt: skip


FOREIGN = re.compile(r"ufunc|ndarray|numpy\.|np\.|<class|0x[0-9a-f]{6}|object at|broadcast together|Traceback|_array")
"""Words of the machinery, of which a caller knows nothing."""


@pytest.mark.parametrize("call", CALLS)
def test_refused(call: str) -> None:
    """With an error of ours, in one sentence; where declarations or names are listed, each has a line of its own."""
    with pytest.raises(jit.Error) as raised:
        eval(call, names())
    first, *listed = str(raised.value).splitlines()
    assert 15 < len(first) < 240
    assert all(line.startswith("  ") for line in listed)
    assert not FOREIGN.search(first)


PYTHON = ("x['a']", "x.item()", "x.backward()", "x.to('foo')", "x.type(5)", "ints.requires_grad_()")
"""These fail before an operator is asked for anything."""
OPERATORS = [
    call for call in CALLS if re.match(r"(x\.|x @|x \+|ints|mask -|jit\.mm|F\.conv)", call) and call not in PYTHON
]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("call", OPERATORS)
def test_place(call: str, traced: bool) -> None:
    """A note says which operator was called, on which line of the caller's; while a function is recorded, too."""
    space = names()
    exec(compile(f"def f(x, ints, mask):\n    return {call}\n", "model_of_mine.py", "exec"), space)
    function = jit.trace(space["f"]) if traced else space["f"]
    with pytest.raises(jit.Error) as raised:
        function(space["x"], space["ints"], space["mask"])  # type: ignore[operator]
    assert any("in a call of" in note and "model_of_mine.py:2 in f" in note for note in raised.value.__notes__)
