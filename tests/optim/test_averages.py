"""Averages of models, the schedule that goes with them, Adafactor, and hooks around the state of optimizers."""

import numpy as np
import pytest

import jit
from jit import nn
from jit.optim import swa_utils
from tests.tolerances import assert_close

VALUES = (1.0, 2.0, 6.0)


def averaged(**options):
    """The weight of an averaged model that has seen VALUES."""
    model = nn.Linear(1, 1)
    average = swa_utils.AveragedModel(model, **options)
    for value in VALUES:
        nn.init.constant_(model.weight, value)
        average.update_parameters(model)
    assert average.n_averaged.item() == len(VALUES)
    return average.module.weight.item()


def test_averages():
    decayed = pytest.approx((1 * 0.9 + 2 * 0.1) * 0.9 + 6 * 0.1)
    assert averaged() == pytest.approx(3)
    assert averaged(avg_fn=swa_utils.get_ema_avg_fn(0.9)) == decayed
    assert averaged(multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9)) == decayed
    assert averaged(multi_avg_fn=swa_utils.get_swa_multi_avg_fn()) == pytest.approx(3)
    with pytest.raises(jit.UsageError, match="are both given; pass one of them"):
        averaged(avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn())
    with pytest.raises(jit.UsageError, match="between 0 and 1"):
        swa_utils.get_ema_avg_fn(1.5)


def test_buffers_are_copied_or_averaged():
    for use, expected in ((False, 4.0), (True, 3.0)):
        norm = nn.BatchNorm1d(1)
        average = swa_utils.AveragedModel(norm, use_buffers=use)
        for value in (2.0, 4.0):
            norm.running_mean.fill_(value)
            average.update_parameters(norm)
        assert average.module.running_mean.item() == pytest.approx(expected)


def test_running_statistics_are_measured_anew():
    model = nn.Sequential(nn.BatchNorm1d(2)).eval()
    batches = [jit.randn(5, 2) for _ in range(3)]
    swa_utils.update_bn([(batch, None) for batch in batches], model)
    assert_close(model[0].running_mean, jit.stack([batch.mean(0) for batch in batches]).mean(0), rtol=1e-5)
    assert not model.training
    assert model[0].momentum == 0.1


@pytest.mark.parametrize(("strategy", "half"), [("linear", 0.55), ("cos", 0.55)])
def test_the_rate_goes_to_the_constant(strategy, half):
    optimizer = jit.optim.SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    schedule, rates = swa_utils.SWALR(optimizer, 0.1, 4, strategy), []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[0] == 1
    assert rates[2] == pytest.approx(half)
    assert rates[4:] == pytest.approx([0.1, 0.1])
    assert rates[1] == pytest.approx(0.775 if strategy == "linear" else 0.1 + 0.9 * (1 + np.cos(np.pi / 4)) / 2)


@pytest.mark.parametrize("sizes", [(3, 4), (5,), (2, 3, 4), ()])
def test_adafactor(sizes):
    """Against the formulas, written out in numpy."""
    rng = np.random.default_rng(1)
    x = np.asarray(rng.normal(size=sizes))
    parameter = jit.tensor(x.tolist(), dtype=jit.float64, requires_grad=True)
    optimizer = jit.optim.Adafactor([parameter], lr=0.3, weight_decay=0.1, d=1.5)
    mean, rows, columns, least = 0.0, 0.0, 0.0, np.finfo(np.float64).eps
    for step in range(1, 5):
        g = np.asarray(rng.normal(size=sizes))
        parameter.grad = jit.from_numpy(g.copy())
        optimizer.step()
        weight, size = step**-0.8, max(1e-3, np.sqrt((x**2).mean())) * min(0.3, step**-0.5)
        if g.ndim < 2:
            square = mean = mean + weight * (g**2 - mean)
        else:
            rows = rows + weight * ((g**2).mean(-1, keepdims=True) - rows)
            columns = columns + weight * ((g**2).mean(-2, keepdims=True) - columns)
            square = rows * columns / np.maximum(np.mean(rows, -2, keepdims=True), least)
        change = g / np.sqrt(square)
        x = x * (1 - 0.3 * 0.1) - size * change / max(1, np.sqrt((change**2).mean()) / 1.5)
    assert_close(parameter, np.asarray(x), rtol=1e-10)


def test_hooks_around_the_state():
    optimizer, seen = jit.optim.SGD([jit.zeros(1, requires_grad=True)], lr=1.0), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: {k: v for k, v in state.items() if k != "extra"})
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    state = optimizer.state_dict()
    assert state["extra"] == 1
    optimizer.load_state_dict(state)
    assert seen == ["save", "loaded"]
