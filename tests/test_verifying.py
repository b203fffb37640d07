"""jit.verify finds what a trace gets wrong, and is silent about what it gets right."""

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
        from jit.verifying import compare_results

        compare_results(jit.tensor([1.0, 2.0]), jit.tensor([1.0, 3.0]), "f")
