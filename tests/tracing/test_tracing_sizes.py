"""Sizes that vary: when one recording serves them all, and when it must not."""

from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from tests.tolerances import assert_close


def normal(*sizes: int) -> Any:
    """Normal numbers that require grad."""
    array = np.random.default_rng(sum(sizes)).standard_normal(sizes).astype(np.float32)
    return jit.tensor(array, requires_grad=True)


def agree(traced, function, *sizes) -> None:
    """Value and gradients of a call equal eager mode's."""
    found, expected = ([normal(*s) for s in sizes] for _ in range(2))
    out, wanted = traced(*found), function(*expected)
    (out * out).sum().backward()
    (wanted * wanted).sum().backward()
    assert_close(out, wanted)
    for a, b in zip(found, expected, strict=True):
        assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def network(x):
    h = x.reshape(x.shape[0], -1)
    return jit.softmax(h @ h.t(), 1).mean(0) * x.shape[0] + jit.arange(x.shape[0]).float()


def test_the_second_size_makes_one_recording_for_all():
    f = jit.trace(network)
    for n in (2, 3, 5, 7, 4, 9, 5):
        agree(f, network, (n, 2, 2))
    assert (f.hits, f.misses) == (5, 2)
    assert "serves all sizes of 2 and more of x.shape[0]" in f.explain()
    assert "%x : Float(n, 2, 2)" in str(f.graph) and len(f.graph.stages) == 2
    assert f.has_trace_for(normal(100, 2, 2)) and not f.has_trace_for(normal(100, 2, 3))


def test_its_backward_is_that_of_the_first_two_calls():
    f = jit.trace(network)
    for n in range(2, 12):
        agree(f, network, (n, 2, 2))
    (chain,) = f._last.chains
    assert f._last.general and len(chain.keys) == 1 and chain.sizes[0].free == (True,)


def test_sizes_of_0_and_1_are_recorded_by_themselves():
    f = jit.trace(lambda x, y: x * y + x.sum(0))
    for n in (2, 3, 1, 4, 0, 1):
        agree(f, f._function, (n, 2), (n, 2))
    agree(f, f._function, (5, 2), (1, 2))
    assert f.misses == 5


def test_only_sizes_that_were_seen_to_vary_are_free():
    f = jit.trace(lambda x: x * x.stride()[0])
    for rows, columns in ((2, 3), (4, 3), (5, 3), (5, 4), (5, 4)):
        agree(f, f._function, (rows, columns))
    assert f.misses == 3


def test_several_tensors_of_varying_sizes():
    def f(x, y, w):
        return jit.cat([x, y]) @ w * (x.shape[0] - y.shape[0]) / x.numel()

    traced = jit.trace(f)
    for n, m in ((2, 3), (4, 5), (3, 7), (8, 2), (2, 2)):
        agree(traced, f, (n, 3), (m, 3), (3, 2))
    assert traced.misses == 2


def test_a_size_that_is_baked_in_is_recorded_when_it_comes_again():
    f = jit.trace(lambda x: sum((x[i] * i for i in range(len(x))), x[0]))
    for n in range(2, 20):
        agree(f, f._function, (n, 3))
    assert f.misses == 4 and f.hits == 0
    assert (
        "ran untraced because sizes are baked in, and these came for the first time: x has sizes (19, 3)" in f.explain()
    )
    for n in (3, 7, 7, 9, 7):
        agree(f, f._function, (n, 3))
    assert (f.misses, f.hits) == (6, 3)
    assert "sizes are baked in" in "; ".join(str(v.closed) for v in f._cache.sizes.families.values())


def test_decisions_on_sizes_are_guarded():
    def f(x):
        return x * 2 if x.shape[0] > 4 else x.sum(0)

    traced = jit.trace(f)
    for n in (2, 3, 6, 4, 7, 8, 2):
        agree(traced, f, (n, 3))
    assert traced.misses == 4 and traced.hits == 3


@pytest.mark.parametrize(
    "holds",
    [
        lambda n: n >= 0, lambda n: 0 <= n, lambda n: not n < 0, lambda n: n > -1, lambda n: n != -1,  # noqa: SIM300
        lambda n: n * 2 + 3 >= 0, lambda n: n // 2 > -1, lambda n: not n % 5 < 0, lambda n: n == n,
        lambda n: not (n != n),  # noqa: SIM202
    ],
)  # fmt: skip
def test_what_holds_for_every_size_is_not_guarded(holds):
    f = jit.trace(lambda x: x * 2 if holds(x.size(0)) else x * 3)
    for n in (4, 5, 6, 0, 1):
        assert f(jit.ones(n)).tolist() == [2.0] * n
    assert not any("prim::Guard" in str(graph) for graph in f.graphs)


@pytest.mark.parametrize(
    "holds",
    [
        lambda n: n - 5 >= 0, lambda n: -n >= -4, lambda n: n > 0, lambda n: n <= 0, lambda n: n == 0,
        lambda n: (n - 5) * 2 < 0, lambda n: n // -2 >= 0, lambda n: 3 - n < 0, lambda n: n * -1 < 0,
    ],
)  # fmt: skip
def test_what_holds_for_some_sizes_is_guarded(holds):
    def f(x):
        return x * 2 if holds(x.size(0)) else x * 3

    traced = jit.trace(f)
    for n in (4, 5, 6, 3, 0, 1):
        assert traced(jit.ones(n)).tolist() == f(jit.ones(n)).tolist()


def test_dynamic_false_records_every_size():
    f = jit.trace(network, dynamic=False)
    for n in (2, 3, 4, 5):
        agree(f, network, (n, 2, 2))
    assert f.misses == 4


def test_dynamic_true_insists():
    f = jit.trace(network, dynamic=True)
    for n in (2, 3, 4, 5):
        agree(f, network, (n, 2, 2))
    assert f.misses == 2
    g = jit.trace(lambda x: x * len(x), dynamic=True)
    with pytest.raises(
        jit.TraceError, match=r"dynamic sizes were asked for.*differ first in prim::Guard at test_tracing_s"
    ):
        for n in (2, 3, 4, 5):
            g(normal(n))


def test_dynamic_dims_by_name():
    f = jit.trace(lambda x, w: x @ w, dynamic={"x": [0]})
    for n in (2, 3, 4, 5):
        agree(f, f._function, (n, 2), (2, 3))
    assert f.misses == 2
    for m in (4, 5, 6):
        agree(f, f._function, (2, 2), (2, m))
    assert f.misses == 5


def test_modules_buffers_and_double_backward():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    f, states = jit.trace(net), []
    for n in (4, 6, 5, 7, 8, 3):
        saved = {k: v.clone() for k, v in net.state_dict().items()}
        observed: list[Any] = []
        for function in (f, net):
            net.load_state_dict(saved)
            net.zero_grad()
            x = normal(n, 3)
            (g,) = jit.grad(function(x).sum(), x, create_graph=True)
            (g * g).sum().backward()
            observed.append([g.detach(), *(p.grad for p in net.parameters()), *net.buffers()])
            states.append(n)
        for a, b in zip(*observed, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert_close(a, b, rtol=1e-3, atol=1e-5)
    assert f.misses == 2


def test_random_draws_of_varying_sizes():
    f = jit.trace(lambda x: nn.functional.dropout(x, 0.5, True) * jit.rand(x.shape[0], 1))
    for n in (2, 3, 6, 5):
        jit.manual_seed(n)
        found = f(normal(n, 3)).detach()
        jit.manual_seed(n)
        assert_close(found, f._function(normal(n, 3)).detach())
    assert f.misses == 2


def test_a_step_of_training_of_varying_batches():
    nets: list[Any] = []
    for trace in (lambda step: step, jit.trace):
        jit.manual_seed(0)
        net = nn.Linear(3, 1)
        optimizer = jit.optim.SGD(net.parameters(), lr=0.1)

        def step(x, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (net(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = trace(step)
        for n in (2, 3, 4, 5, 6, 7):
            run(normal(n, 3).detach())
        nets.append(net)
    for a, b in zip(*(n.parameters() for n in nets), strict=True):
        assert_close(a.detach(), b.detach())
