"""Recurrent networks over sequences of many lengths: few recordings, and what eager mode computes at each length."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.autograd import checkpoint
from tests.tolerances import assert_close

LENGTHS = [5, 17, 3, 2, 40, 16, 33, 4, 8, 11, 6, 29, 7, 9, 10, 12, 13, 64, 15, 31]
MOST = 3
"""The most recordings that twenty lengths may make."""
SMALL = 1e-9
"""How far results in double precision are apart after some dozen steps, at most."""

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTM(3, 5, 2),
    "lstm, batch first, both ways": lambda: nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True),
    "lstm, projected, no bias": lambda: nn.LSTM(3, 5, 2, bias=False, proj_size=2),
    "gru": lambda: nn.GRU(3, 5, 2),
    "gru, both ways, no bias": lambda: nn.GRU(3, 5, 2, bias=False, bidirectional=True),
    "tanh": lambda: nn.RNN(3, 5, 2, batch_first=True),
    "relu, both ways": lambda: nn.RNN(3, 5, 2, nonlinearity="relu", bidirectional=True),
}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> nn.Module:
    jit.manual_seed(0)
    return NETWORKS[request.param]().double()


def sequence(network: Any, length: int, batch: int = 3) -> jit.Tensor:
    rng = np.random.default_rng(length)
    sizes = (batch, length, 3) if network.batch_first else (length, batch, 3)
    return jit.from_numpy(rng.standard_normal(sizes))


def total(results: Any) -> jit.Tensor:
    """A number that depends on outputs and last states."""
    out, last = results
    states = last if isinstance(last, tuple) else (last,)
    return (out * out).sum() + sum((k + 2) * state.sum() for k, state in enumerate(states))


def compare(got: Any, wanted: Any) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert_close(a, b, rtol=SMALL, atol=SMALL)


class TestOneRecordingServesAllLengths:
    def test_forward(self, network):
        def run(x):
            with jit.no_grad():
                out, last = network(x)
                return out, *(last if isinstance(last, tuple) else (last,))

        traced = jit.trace(run)
        for length in LENGTHS:
            x = sequence(network, length)
            compare(traced(x), run(x))
        assert traced.misses <= MOST, traced.explain()

    def test_backward_from_outside(self, network):
        traced = jit.trace(lambda x: total(network(x)))
        parameters = list(network.parameters())
        for length in LENGTHS:
            x = sequence(network, length).requires_grad_()
            wanted = jit.grad(total(network(x)), [x, *parameters])
            compare(jit.grad(traced(x), [x, *parameters]), wanted)
        assert traced.misses <= MOST, traced.explain()

    def test_training_step(self, network):
        start = [p.detach().clone() for p in network.parameters()]

        def step(x):
            loss = total(network(x)) / x.numel()
            network.zero_grad()
            loss.backward()
            with jit.no_grad():
                for parameter in network.parameters():
                    parameter -= 0.01 * parameter.grad
            return loss

        def restart():
            with jit.no_grad():
                for parameter, value in zip(network.parameters(), start, strict=True):
                    parameter.copy_(value)

        wanted = [step(sequence(network, length)).item() for length in LENGTHS]
        after = [p.detach().clone() for p in network.parameters()]
        restart()
        traced = jit.trace(step)
        for length, loss in zip(LENGTHS, wanted, strict=True):
            assert_close(traced(sequence(network, length)).item(), loss, rtol=SMALL, atol=SMALL)
        compare([p.detach() for p in network.parameters()], after)
        assert traced.misses <= MOST, traced.explain()

    def test_first_states_that_are_given(self):
        network = nn.GRU(3, 4).double()
        traced = jit.trace(lambda x, h: total(network(x, h)))
        for length in LENGTHS:
            x, h = sequence(network, length), jit.full((1, 3, 4), 0.1 * length, dtype=jit.float64).requires_grad_()
            compare(jit.grad(traced(x, h), [h]), jit.grad(total(network(x, h)), [h]))
        assert traced.misses <= MOST, traced.explain()

    def test_lengths_and_batches(self):
        network = nn.LSTM(3, 4).double()
        traced = jit.trace(lambda x: total(network(x)))
        parameters = list(network.parameters())
        for number, length in enumerate(LENGTHS):
            x = sequence(network, length, 2 + number % 5)
            compare(jit.grad(traced(x), parameters), jit.grad(total(network(x)), parameters))
        assert traced.misses <= 2 * MOST, traced.explain()


def frozen(network: nn.Module) -> nn.Module:
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any, Any], Any]]] = {
    "the last state alone": (lambda: nn.LSTM(3, 4), lambda network, x: network(x)[1][0].sum()),
    "the last cell alone": (lambda: nn.LSTM(3, 4, 2), lambda network, x: network(x)[1][1].sum()),
    "one output": (lambda: nn.GRU(3, 4, 2), lambda network, x: network(x)[0][-1].sum()),
    "without a batch": (lambda: nn.GRU(3, 4), lambda network, x: total(network(x[:, 0]))),
    "frozen weights": (lambda: frozen(nn.LSTM(3, 4)), lambda network, x: total(network(x))),
    "dropout": (lambda: nn.LSTM(3, 4, 3, dropout=0.5), lambda network, x: total(network(x))),
    "a checkpoint": (lambda: nn.RNN(3, 4), lambda network, x: checkpoint(lambda x: total(network(x)), x)),
    "there and back": (lambda: nn.GRU(3, 3), lambda network, x: total(network(network(x)[0].flip(0)))),
    "written to": (lambda: nn.RNN(3, 4), lambda network, x: network(x)[0].mul_(x[:, :, :1]).sum()),
    "complex": (lambda: nn.GRU(3, 4).to(jit.complex128), lambda network, x: network(x * 1j)[0].abs().sum()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_around_networks(name):
    make, program = PROGRAMS[name]
    network = make()
    network = network if name == "complex" else network.double()
    traced = jit.trace(lambda x: program(network, x))
    for length in LENGTHS[:8]:
        x, found = sequence(network, length).requires_grad_(), []
        for function in (traced, lambda x: program(network, x)):
            jit.manual_seed(length)
            result = function(x)
            wanted = [x, *(p for p in network.parameters() if p.requires_grad)]
            found.append([result, *jit.grad(result, wanted, allow_unused=True)])
        compare(*found)
    assert traced.misses <= MOST, traced.explain()


def test_half_precision_is_the_same_in_every_mode():
    network = nn.GRU(3, 4).half()
    traced = jit.trace(lambda x: network(x)[0])
    for length in LENGTHS[:6]:
        x = sequence(network, length).half()
        with jit.no_grad():
            assert np.array_equal(traced(x).numpy(), network(x)[0].numpy())
    assert traced.misses <= MOST, traced.explain()


def test_saved_networks_take_other_lengths(tmp_path):
    network = nn.LSTM(3, 4, 2, bidirectional=True).double()
    traced = jit.trace(lambda x: total(network(x)))
    for length in LENGTHS[:4]:
        x = sequence(network, length).requires_grad_()
        jit.grad(traced(x), [x])
    traced.save(tmp_path / "network.jit")
    loaded = jit.load(tmp_path / "network.jit")
    for length in LENGTHS:
        x = sequence(network, length).requires_grad_()
        compare(jit.grad(loaded(x), [x]), jit.grad(total(network(x)), [x]))


def test_threads_run_one_recording_at_several_lengths():
    network = nn.GRU(3, 16).double()
    traced, found = jit.trace(lambda x: network(x)[0]), {}
    lengths = (30, 41, 52, 63)

    def run(length):
        with jit.no_grad():
            found[length] = [traced(sequence(network, length)).numpy() for _ in range(20)]

    for length in lengths[:3]:
        run(length)
    threads = [threading.Thread(target=run, args=(length,)) for length in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for length in lengths:
        with jit.no_grad():
            wanted = network(sequence(network, length))[0].numpy()
        for got in found[length]:
            assert_close(got, wanted, rtol=SMALL, atol=SMALL)


def test_a_length_of_one_is_its_own_and_right():
    network = nn.LSTM(3, 4, bidirectional=True).double()
    traced = jit.trace(lambda x: total(network(x)))
    parameters = list(network.parameters())
    for length in (5, 4, 1, 7, 1):
        x = sequence(network, length)
        compare(jit.grad(traced(x), parameters), jit.grad(total(network(x)), parameters))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_second_derivatives_at_many_lengths(kind):
    network = getattr(nn, kind)(3, 4).double()

    def penalty(x):
        (slope,) = jit.grad(total(network(x)), [x], create_graph=True)
        return (slope * slope).sum()

    traced = jit.trace(penalty)
    parameters = list(network.parameters())
    for length in (5, 3, 4, 2):
        x = sequence(network, length).requires_grad_()
        compare(jit.grad(traced(x), parameters), jit.grad(penalty(x), parameters))


def test_a_sequence_without_steps_is_refused_at_any_time():
    network = nn.GRU(3, 4).double()
    traced = jit.trace(lambda x: network(x)[0])
    for length in (5, 4, 6):
        traced(sequence(network, length))
    with pytest.raises(jit.ShapeError, match="at least one step"):
        traced(sequence(network, 0))
