"""jit.verify finds what a trace gets wrong, and is silent about what it gets right."""

import numpy as np
import pytest

import jit
from jit import nn


def test_equal_functions_pass():
    x = jit.rand(3, 4)
    x.requires_grad_()
    jit.verify(lambda x: jit.tanh(x) * x, (x,))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    jit.verify(model, (x,))


def test_buffers_and_random_state_are_compared_and_put_back():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    jit.verify(model, (jit.rand(6, 4),))
    assert all((model.state_dict()[k] == v).all() for k, v in before.items())


def test_a_hidden_change_is_found():
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(jit.VerificationError):
        jit.verify(f, (jit.ones(2),))


def test_several_outputs_need_a_loss():
    x = jit.ones(2, requires_grad=True)
    with pytest.raises(jit.UsageError, match="loss_fn"):
        jit.verify(lambda x: (x * 2, x * 3), (x,))
    jit.verify(lambda x: (x * 2, x * 3), (x,), loss_fn=lambda r: (r[0] + r[1]).sum())


def test_results_that_differ_are_located():
    with pytest.raises(jit.VerificationError, match=r"first at \[1\]: 3.0 instead of 2.0"):
        from jit.tracing.comparing import compare_results

        right = jit.tensor([1.0, 2.0])
        compare_results(right, jit.tensor([1.0, 3.0]), "f", lambda: right)


# -- what must not pass ------------------------------------------------------------------------------------------


def test_a_model_that_replaces_its_parameters():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(jit.ones(2))

        def forward(self, x):
            self.weight = nn.Parameter(self.weight.detach() + 1)
            return x * self.weight

    with pytest.raises(jit.VerificationError):
        jit.verify(Net(), (jit.ones(2),))


def test_a_model_that_changes_its_parameters_does_so_in_both():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(jit.ones(2))

        def forward(self, x):
            with jit.no_grad():
                self.weight.add_(1)
            return x * self.weight

    net = Net()
    jit.verify(net, (jit.ones(2),))
    assert net.weight.tolist() == [1, 1]


def test_a_model_that_changes_its_structure():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.iters = 0

        def forward(self, x):
            for _ in range(self.iters):
                x = x * 2
            self.iters += 1
            return x

    with pytest.raises(jit.VerificationError, match=r"recorded|differs"):
        jit.verify(Net(), (jit.ones(2),))


def test_a_constant_that_is_baked_in():
    clock = iter(range(100))

    def f(x):
        return x + next(clock)

    with pytest.raises(jit.VerificationError):
        jit.verify(f, (jit.ones(2),))


class Drifting(jit.autograd.Function):
    """Its gradient is another one in every backward."""

    ticks = iter(range(1, 10_000))
    """An iterator: nobody can put it back."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * next(Drifting.ticks)


def test_a_gradient_that_differs():
    with pytest.raises(jit.VerificationError, match="gradient"):
        jit.verify(lambda x: Drifting.apply(x), (jit.ones(2, requires_grad=True),))


def test_a_second_order_is_compared_where_there_is_one():
    class Once(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return jit.from_numpy(2 * x.detach().numpy() * g.detach().numpy())

    x = jit.tensor([1.0, 2.0], requires_grad=True)
    jit.verify(lambda x: (x**3).sum(), (x,))
    jit.verify(lambda x: Once.apply(x).sum(), (x,))
    jit.verify(lambda x: (x**3).sum(), (x,), orders=0)


def test_captured_tensors_are_compared_and_put_back():
    w, total = jit.tensor([2.0, 3.0], requires_grad=True), jit.zeros(2)
    own = jit.Generator()

    def f(x):
        total.add_(1)
        return (x * w * total + jit.rand(2, generator=own)).sum()

    state = own.state
    jit.verify(f, (jit.ones(2, requires_grad=True),))
    assert total.tolist() == [0, 0] and w.grad is None and own.state == state


def test_a_wrong_gradient_of_a_captured_parameter_is_found():
    w = jit.ones(2, requires_grad=True)
    with pytest.raises(jit.VerificationError, match="gradient of w"):
        jit.verify(lambda x: x + Drifting.apply(w), (jit.ones(2),), orders=1)


def test_numbers_and_structures_are_compared():
    count = iter(range(100))

    jit.verify(lambda x: {"sum": x.sum().item(), "sizes": (x.shape[0], "text", None)}, (jit.ones(2),))
    with pytest.raises(jit.VerificationError, match="number 0 of the traced function differs"):
        jit.verify(lambda x: (x * 2, next(count)), (jit.ones(2),))
    words = iter("abcdefghij")
    with pytest.raises(jit.VerificationError, match="the structure of the result"):
        jit.verify(lambda x: (x * 2, next(words)), (jit.ones(2),))


@pytest.mark.parametrize("seed", range(3))
def test_gradients_that_are_zero_but_for_rounding_agree(seed):
    jit.manual_seed(seed)
    x = jit.randn(4, 3, 16, 16)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 2))
    jit.verify(model, (x,), loss_fn=lambda r: r.sum())


def test_noise_excuses_no_more_than_rounding():
    from jit.tracing.verifying import _compare_all

    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    wanted, noisy = [{"bias": zero, "weight": one}], [{"bias": zero + 1e-6, "weight": one}]
    _compare_all(wanted, [{"bias": zero + 5e-6, "weight": one}], lambda: [noisy])
    for bias, weight in ((zero + 1e-4, one), (zero, one * 1.001)):
        with pytest.raises(jit.VerificationError, match="differs"):
            _compare_all(wanted, [{"bias": bias, "weight": weight}], lambda: [noisy])
    with pytest.raises(jit.VerificationError, match="differs"):
        _compare_all(wanted, [{"bias": zero + 1e-4, "weight": one}], lambda: [[{"bias": one, "weight": one}]])


class AttentionOverWords(nn.Module):
    """Scores do not change with the bias of keys, so its gradient is nothing but roundings."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 16)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, words):
        x = self.words(words)
        return (self.query(x) @ self.key(x).transpose(1, 2)).softmax(-1) @ self.value(x)


@pytest.mark.parametrize("seed", range(4))
def test_gradients_that_are_roundings_may_differ_where_arguments_are_whole_numbers(seed):
    """These cannot be rounded otherwise, but the parameters can, and are as before afterwards."""
    jit.manual_seed(seed)
    network, words = AttentionOverWords(), jit.randint(10, (2, 12))
    before = [p.detach().clone() for p in network.parameters()]
    jit.verify(network, (words,), loss_fn=lambda y: y.square().mean(), calls=2, orders=1)
    assert all(bool((p == saved).all()) for p, saved in zip(network.parameters(), before, strict=True))
