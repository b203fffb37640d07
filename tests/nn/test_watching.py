"""Hooks on the gradients of modules, and on the steps of optimizers; fused batch norms."""

from collections import namedtuple

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn import functional as F
from tests.tolerances import assert_close


class Twice(nn.Module):
    """Two results from two arguments."""

    def forward(self, x, y):
        return x * 2, x + y


def test_a_hook_sees_what_comes_in_and_what_goes_on():
    seen = []
    module = Twice()
    module.register_full_backward_hook(lambda *args: seen.append(args))
    x, y = jit.ones(2, requires_grad=True), jit.ones(2)
    double, total = module(x, y)
    (double * 3 + total).sum().backward()
    ((which, inputs, outputs),) = seen
    assert which is module
    assert inputs[0].tolist() == [7.0, 7.0] and inputs[1] is None
    assert [g.tolist() for g in outputs] == [[3.0, 3.0], [1.0, 1.0]]
    assert x.grad is not None and x.grad.tolist() == [7.0, 7.0]


class Returning(nn.Module):
    """A module that returns what a function makes of its argument."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x * 2)


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    ("make", "place", "length"),
    [
        (lambda y: (y, "text"), 0, 2),
        (lambda y: (None, y), 1, 2),
        (lambda y: (True, [y], y, y.detach()), 2, 4),
        (lambda y: Pair({"y": y}, y), 1, 2),
    ],
)
def test_members_of_a_result_without_gradients_are_none_to_hooks(make, place, length):
    before, after = [], []
    module = Returning(make)
    module.register_full_backward_pre_hook(lambda module, outputs: before.append(outputs))
    module.register_full_backward_hook(lambda module, inputs, outputs: after.append((inputs, outputs)))
    x = jit.ones(2, requires_grad=True)
    result = module(x)
    assert type(result) is type(make(x))
    result[place].sum().backward()
    ((inputs, outputs),) = after
    for row in (outputs, before[0]):
        assert len(row) == length and row[place].tolist() == [1.0, 1.0]
        assert all(gradient is None for i, gradient in enumerate(row) if i != place)
    assert inputs[0].tolist() == [2.0, 2.0] == x.grad.tolist()


@pytest.mark.parametrize("make", [lambda y: {"y": y}, lambda y: [y], lambda y: iter([y])])
def test_hooks_of_other_results_are_told_of_and_not_called(make):
    module = Returning(make)
    module.register_full_backward_pre_hook(lambda *args: pytest.fail("called"))
    module.register_full_backward_hook(lambda *args: pytest.fail("called"))
    x = jit.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors"):
        result = module(x)
    next(iter(result.values() if isinstance(result, dict) else result)).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_hooks_replace_gradients():
    module = nn.Linear(1, 1, bias=False)
    module.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 10,))
    handle = module.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0,))
    x = jit.ones(1, 1, requires_grad=True)
    module(x).backward()
    assert module.weight.grad is not None and module.weight.grad.item() == 10
    assert x.grad is not None and x.grad.item() == 0
    handle.remove()
    module(x).backward()
    assert x.grad.item() == 10 * module.weight.item()


def test_hooks_run_without_gradients_of_arguments_too():
    seen = []
    module = nn.Linear(2, 1)
    module.register_full_backward_hook(lambda module, inputs, outputs: seen.append((inputs, outputs[0].tolist())))
    module(jit.ones(1, 2)).backward()
    with jit.no_grad():
        module(jit.ones(1, 2))
    assert seen == [((None,), [[1.0]])]


def test_a_hook_returns_as_many_gradients_as_there_are():
    module = nn.Linear(2, 1)
    module.register_full_backward_hook(lambda module, inputs, outputs: (None, None))
    with pytest.raises(jit.Error, match="returned 2 gradients where there are 1"):
        module(jit.ones(1, 2, requires_grad=True)).backward()


def test_hooks_run_in_every_call_of_a_trace():
    seen = []
    module = nn.Linear(2, 1)
    module.register_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs[0].tolist()))
    traced = jit.trace(lambda x: (module(x) ** 2).sum())
    for scale in (1.0, 2.0, 3.0):
        x = (jit.ones(1, 2) * scale).requires_grad_()
        traced(x).backward()
        assert x.grad is not None and seen[-1] == x.grad.tolist()


def test_a_part_can_be_replaced_by_name():
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.ReLU())
    net.set_submodule("0.0", nn.Identity())
    assert isinstance(net[0][0], nn.Identity)
    with pytest.raises(jit.Error, match="dotted name of one inside"):
        net.set_submodule("", nn.Identity())
    assert nn.Linear(2, 2).type(jit.float64).weight.dtype is jit.float64


def test_optimizers_have_hooks_too():
    calls = []
    x = jit.tensor([2.0], requires_grad=True)
    optimizer = jit.optim.SGD([x], lr=1.0)
    optimizer.register_step_pre_hook(lambda *args: calls.append(("before", x.item())))
    handle = optimizer.register_step_post_hook(lambda *args: calls.append(("after", x.item())))
    x.sum().backward()
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert calls == [("before", 2.0), ("after", 1.0), ("before", 1.0)]


@pytest.mark.parametrize(
    ("layer", "norm", "sizes", "transpose"),
    [
        (nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), (1, 2, 4, 4), False),
        (nn.ConvTranspose1d(2, 3, 2, bias=False), nn.BatchNorm1d(3, affine=False), (1, 2, 4), True),
        (nn.Linear(2, 3), nn.BatchNorm1d(3), (5, 2), False),
    ],
)
def test_a_batch_norm_is_fused(layer, norm, sizes, transpose, rng):
    layer, norm = layer.double(), norm.double()
    norm(layer(jit.tensor(rng.standard_normal(sizes) * 3 + 1)))  # statistics of its own
    x = jit.tensor(rng.standard_normal(sizes))
    with pytest.raises(jit.Error, match="call eval"):
        nn.utils.fuse_conv_bn_eval(layer, norm, transpose)
    fused = nn.utils.fuse_conv_bn_eval(layer.eval(), norm.eval(), transpose)
    assert_close(fused(x), norm(layer(x)).detach(), rtol=1e-12, atol=1e-13)


def test_distances_of_all_pairs(rng):
    x = rng.standard_normal((5, 3))
    want = [np.abs(x[i] - x[j]).max() for i in range(5) for j in range(i + 1, 5)]
    assert_close(F.pdist(jit.tensor(x), float("inf")), np.array(want))


def test_sparse_starts_have_zeros_in_each_column():
    matrix = nn.init.sparse_(jit.empty(10, 4), 0.25)
    assert (matrix == 0).sum(0).tolist() == [3] * 4
    assert 0 < matrix.abs().max().item() < 0.1


def test_older_hooks_see_tensors_anywhere_in_a_result():
    seen = []
    module = Returning(lambda y: {"y": y, "more": [y * 3]})
    module.register_backward_hook(lambda module, inputs, outputs: seen.append([g.tolist() for g in outputs]))
    result = module(jit.ones(2, requires_grad=True))
    (result["y"] + result["more"][0]).sum().backward()
    assert seen == [[[1.0, 1.0], [1.0, 1.0]]]
