"""Schedules of learning rates against closed forms, alone, one after the other, and together."""

import math

import pytest

import jit
from jit.optim import SGD, Adam, lr_scheduler

pytestmark = pytest.mark.filterwarnings("ignore:a schedule's step:UserWarning")  # rates alone are looked at


def optimizer_of(lr=0.8, **options):
    return SGD([jit.zeros(1, requires_grad=True)], lr=lr, **options)


def rates(schedule, epochs, *metrics):
    """The rate of each epoch."""
    found = []
    for epoch in range(epochs):
        found += schedule.get_last_lr()
        schedule.step(*(values[epoch] for values in metrics))
    return found


def cosine(epoch, period, low, high):
    return low + (high - low) * (1 + math.cos(math.pi * epoch / period)) / 2


def triangle(step, up, down):
    x = step % (up + down)
    return x / up if x <= up else 1 - (x - up) / down


CLOSED_FORMS = [
    (lambda o: lr_scheduler.MultiplicativeLR(o, lambda e: 0.5), lambda e: 0.8 * 0.5**e),
    (lambda o: lr_scheduler.ConstantLR(o, 0.25, 3), lambda e: 0.2 if e < 3 else 0.8),
    (lambda o: lr_scheduler.LinearLR(o, 0.25, 1.0, 3), lambda e: 0.8 * (0.25 + 0.75 * min(e, 3) / 3)),
    (lambda o: lr_scheduler.PolynomialLR(o, 4, 2.0), lambda e: 0.8 * (1 - min(e, 4) / 4) ** 2),
    (lambda o: lr_scheduler.CosineAnnealingLR(o, 3, 0.2), lambda e: cosine(e, 3, 0.2, 0.8)),
    (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2, 0.2),
        lambda e: cosine(e, 2, 0.2, 0.8) if e < 2 else cosine((e - 2) % 4, 4, 0.2, 0.8) if e < 6 else
        cosine(e - 6, 8, 0.2, 0.8),
    ),
    (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 2, 3, cycle_momentum=False),
        lambda e: 0.1 + 0.4 * triangle(e, 2, 3),
    ),
    (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 2, 3, "triangular2", cycle_momentum=False),
        lambda e: 0.1 + 0.4 * triangle(e, 2, 3) * 0.5 ** (e // 5),
    ),
    (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 2, mode="exp_range", gamma=0.9, cycle_momentum=False),
        lambda e: 0.1 + 0.4 * triangle(e, 2, 2) * 0.9**e,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "formula"), CLOSED_FORMS)
def test_schedules_have_closed_forms(make, formula):
    assert rates(make(optimizer_of()), 12) == pytest.approx([formula(e) for e in range(12)])


def test_groups_have_schedules_of_their_own():
    groups = [{"params": [jit.zeros(1, requires_grad=True)], "lr": lr} for lr in (1.0, 10.0)]
    schedule = lr_scheduler.LambdaLR(SGD(groups), [lambda e: 0.5**e, lambda e: 1.0 - e])
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 0.0]
    with pytest.raises(jit.Error, match="lr_lambda: the optimizer has 2 groups, not 1; pass one value, or 2"):
        lr_scheduler.LambdaLR(SGD(groups), [lambda e: 1.0])


def test_one_cycle_goes_up_and_far_down():
    optimizer = optimizer_of(momentum=0.5)
    found = rates(lr_scheduler.OneCycleLR(optimizer, 1.0, 11, pct_start=0.5, anneal_strategy="linear"), 10)
    up = [0.04 + 0.96 * e / 4.5 for e in range(5)]
    down = [1 + (0.04e-4 - 1) * (e - 4.5) / 5.5 for e in range(5, 10)]
    assert found == pytest.approx(up + down)
    assert optimizer.param_groups[0]["momentum"] == pytest.approx(0.95)


def test_one_cycle_in_three_phases_comes_back_to_the_start():
    found = rates(lr_scheduler.OneCycleLR(Adam([jit.zeros(1)]), 1.0, 20, pct_start=0.4, three_phase=True), 19)
    assert [found[0], found[7], found[14]] == pytest.approx([0.04, 1.0, 0.04]) and found[18] < 0.01


def test_momentum_goes_the_other_way():
    optimizer = Adam([jit.zeros(1)])
    schedule = lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, 2)
    seen = []
    for _ in range(5):
        seen.append(optimizer.param_groups[0]["betas"])
        schedule.step()
    assert [beta for beta, _ in seen] == pytest.approx([0.9, 0.85, 0.8, 0.85, 0.9])
    assert {beta for _, beta in seen} == {0.999}


@pytest.mark.parametrize(
    ("options", "metrics", "last"),
    [
        ({}, [3, 2, 2, 2, 2], 0.4),
        ({"mode": "max"}, [1, 2, 3, 4, 5], 0.8),
        ({"threshold": 0.5, "threshold_mode": "abs"}, [3.0, 2.9, 2.8, 2.7, 2.6], 0.4),
        ({"cooldown": 3}, [1, 1, 1, 1, 1], 0.4),
        ({"min_lr": 0.6}, [1, 1, 1, 1, 1], 0.6),
    ],
)
def test_a_plateau_lowers_the_rate(options, metrics, last):
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer_of(), patience=2, factor=0.5, **options)
    rates(schedule, 5, metrics)
    assert schedule.get_last_lr() == [pytest.approx(last)]


def test_schedules_follow_one_another():
    optimizer = optimizer_of(1.0)
    parts = [lr_scheduler.ConstantLR(optimizer, 0.5, 2), lr_scheduler.ExponentialLR(optimizer, 0.5)]
    assert rates(lr_scheduler.SequentialLR(optimizer, parts, [2]), 5) == [0.5, 0.5, 1.0, 0.5, 0.25]


def test_schedules_act_together():
    optimizer = optimizer_of(1.0)
    parts = [lr_scheduler.ConstantLR(optimizer, 0.5, 2), lr_scheduler.ExponentialLR(optimizer, 0.5)]
    assert rates(lr_scheduler.ChainedScheduler(parts), 4) == [0.5, 0.25, 0.25, 0.125]


def test_a_sequence_continues_from_its_state():
    def make():
        optimizer = optimizer_of(1.0)
        parts = [lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 3), lr_scheduler.StepLR(optimizer, 2, 0.5)]
        return optimizer, lr_scheduler.SequentialLR(optimizer, parts, [4])

    (first, schedule), (second, other) = make(), make()
    rates(schedule, 5)
    second.load_state_dict(first.state_dict())
    other.load_state_dict(schedule.state_dict())
    assert rates(other, 6) == rates(schedule, 6)


def test_a_rate_changed_by_hand_stays_changed():
    optimizer = optimizer_of(1.0)
    schedule = lr_scheduler.StepLR(optimizer, 2, 0.5)
    optimizer.param_groups[0]["lr"] = 0.1
    assert rates(schedule, 4)[1:] == [0.1, 0.05, 0.05]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: lr_scheduler.StepLR(o, 2, last_epoch=3), "needs its 'initial_lr'"),
        (lambda o: lr_scheduler.ConstantLR(o, 2.0), r"factor is 2.0; pass a number between 0 and 1"),
        (lambda o: lr_scheduler.LinearLR(o, 0.0), r"the factors are 0.0 and 1.0; pass"),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), "whole numbers from 1 on"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.2, mode="square"), "mode is 'square'"),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1), "pass total_steps"),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 5, anneal_strategy="sin"), "anneal_strategy is 'sin'"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, "low"), "mode is 'min' or 'max'"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o).step(), r"pass it to step\(\)"),
        (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [1]), "need 0 milestones, not 1"),
        (
            lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(p, 1) for p in (o, optimizer_of())]),
            "these have several",
        ),
    ],
)
def test_misuse_is_named(make, message):
    with pytest.raises(jit.Error, match=message):
        make(optimizer_of())


def test_the_cycle_has_an_end():
    schedule = lr_scheduler.OneCycleLR(optimizer_of(momentum=0.9), 1.0, 3)
    with pytest.raises(jit.Error, match="has 3 steps, and step 4"):
        rates(schedule, 4)


# -- states in files -----------------------------------------------------------------------------------------------


def is_data(value):
    """Whether a value is made of what files may hold: numbers, strings, lists and dicts."""
    if isinstance(value, dict):
        return all(map(is_data, [*value, *value.values()]))
    return (
        all(map(is_data, value)) if type(value) in (list, tuple) else isinstance(value, (int, float, str, type(None)))
    )


SAVED = {
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.3, 9),
    "one cycle in three phases": lambda o: lr_scheduler.OneCycleLR(o, 0.3, 9, three_phase=True),
    "triangles": lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.3, 2),
    "steps": lambda o: lr_scheduler.MultiStepLR(o, [2, 3]),
    "warm restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "sequence": lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o), lr_scheduler.StepLR(o, 1)], [2]),
}


@pytest.mark.parametrize("name", SAVED)
def test_states_are_data_and_go_on_after_a_file(name, tmp_path):
    def run(schedule, optimizer, count):
        found = []
        for _ in range(count):
            optimizer.step()
            schedule.step()
            found.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
        return found

    def made():
        optimizer = jit.optim.SGD([jit.ones(1, requires_grad=True)], 0.1, momentum=0.5)
        return SAVED[name](optimizer), optimizer

    schedule, optimizer = made()
    run(schedule, optimizer, 3)
    assert is_data(schedule.state_dict())
    jit.save({"schedule": schedule.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    loaded = jit.load(tmp_path / "x.pt")
    again, other = made()
    again.load_state_dict(loaded["schedule"])
    other.load_state_dict(loaded["optimizer"])
    assert run(again, other, 4) == run(schedule, optimizer, 4)


def test_one_cycle_goes_on_from_the_state_that_pytorch_has():
    optimizer = jit.optim.Adam([jit.ones(1, requires_grad=True)], 0.1)
    schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
    phases = [(0.5, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
              (1.0, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
              (4, "initial_lr", "min_lr", "max_momentum", "max_momentum")]  # fmt: skip
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    state = {
        "total_steps": 5, "_schedule_phases": [dict(zip(names, each, strict=True)) for each in phases],
        "_anneal_func_type": "linear", "cycle_momentum": True, "use_beta1": True, "base_lrs": [0.004], "last_epoch": 0,
        "_step_count": 1, "_is_initial": False, "_get_lr_called_within_step": False, "_last_lr": [0.004],
    }  # fmt: skip
    assert schedule.state_dict().keys() == state.keys()
    schedule.load_state_dict(state)
    found = []
    for _ in range(4):
        optimizer.step()
        schedule.step()
        found.append(optimizer.param_groups[0]["lr"])
    least, first = 0.004 / 1e4, 0.004
    assert found == pytest.approx([first, first + (least - first) / 3, first + (least - first) * 2 / 3, least])
