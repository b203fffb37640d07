"""Gradients of a result of which another result was made: they arrive whole at hooks, `retain_grad` and `grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit import nn


class Network(nn.Module):
    """A network whose second result is an intermediate value of the first."""

    def __init__(self, forward: Callable[..., Any], seed: int) -> None:
        super().__init__()
        jit.manual_seed(seed)
        self.first, self.second, self.norm = nn.Linear(4, 4), nn.Linear(4, 2), nn.BatchNorm1d(4)
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.ways = forward

    def forward(self, x: jit.Tensor) -> Any:
        return self.ways(self, x)


def plain(m: Network, x: jit.Tensor) -> Any:
    latent = jit.tanh(m.first(x))
    return m.second(latent.pow(2)), latent


def normalised(m: Network, x: jit.Tensor) -> Any:
    latent = m.norm(m.first(x))
    return m.second(jit.relu(latent)), latent


def dropped(m: Network, x: jit.Tensor) -> Any:
    latent = nn.functional.dropout(m.first(x), 0.5)
    return m.second(nn.functional.dropout(latent, 0.5)), latent


def in_a_dict(m: Network, x: jit.Tensor) -> Any:
    latent = m.first(x)
    m.last = latent.detach()
    return {"out": m.second(latent.exp()), "latent": latent, "both": latent.sum() * 2}


def by_size(m: Network, x: jit.Tensor) -> Any:
    latent = m.first(x) * x.shape[0]
    return m.second(latent * latent.shape[1]) / x.size(0), latent


def last_step(m: Network, x: jit.Tensor) -> Any:
    latent = m.lstm(x[:, None].expand(-1, 3, -1))[0][:, -1]
    return m.second(latent), latent


def with_its_memory(m: Network, x: jit.Tensor) -> Any:
    hidden = m.first(x)
    latent = hidden.view(-1, 2, 2)
    return m.second(latent.flatten(1).exp()), latent, hidden


def of_the_argument(m: Network, x: jit.Tensor) -> Any:
    latent = x.view(-1, 2, 2)
    return m.second(latent.flatten(1).exp()), latent


FORWARDS = [with_its_memory, of_the_argument, plain, normalised, dropped, in_a_dict, by_size, last_step]


def parts(result: Any) -> tuple[jit.Tensor, jit.Tensor]:
    return (result["out"], result["latent"]) if isinstance(result, dict) else result[:2]


def by_grad(out: jit.Tensor, latent: jit.Tensor, m: Network) -> Any:
    (found,) = jit.grad(out.pow(2).sum(), latent, create_graph=True)
    found.pow(2).sum().backward()
    return found


def by_retaining(out: jit.Tensor, latent: jit.Tensor, m: Network) -> Any:
    latent.retain_grad()
    (out.sum() + latent.sin().sum()).backward()
    return latent.grad


def by_hook(out: jit.Tensor, latent: jit.Tensor, m: Network) -> Any:
    seen: list[Any] = []

    def tripled(gradient: jit.Tensor) -> jit.Tensor:
        seen.append(gradient)
        return gradient * 3

    latent.register_hook(tripled)
    out.sum().backward()
    return seen[0]


def by_hook_after_the_loss(out: jit.Tensor, latent: jit.Tensor, m: Network) -> Any:
    loss = out.sum() + latent.cos().sum()
    latent.register_hook(lambda g: g * 0)
    latent.retain_grad()
    loss.backward(retain_graph=True)
    loss.backward()
    return latent.grad


def by_edge(out: jit.Tensor, latent: jit.Tensor, m: Network) -> Any:
    return jit.grad(out.sum(), jit.autograd.graph.get_gradient_edge(latent), retain_graph=True)[0]


def by_several(out: jit.Tensor, latent: jit.Tensor, m: Network) -> Any:
    found = jit.grad([out.sum(), latent.sum()], [latent, m.first.weight, out], allow_unused=True)
    return jit.cat([g.reshape(-1) for g in found if g is not None])


USES = [by_grad, by_retaining, by_hook, by_hook_after_the_loss, by_edge, by_several]


def gradients(m: Network) -> list[Any]:
    return [None if p.grad is None else p.grad.tolist() for p in m.parameters()]


def close(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return bool(jit.allclose(jit.tensor(a), jit.tensor(b), rtol=1e-4, atol=1e-5))


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("forward", FORWARDS)
def test_gradients_of_an_intermediate_result(forward: Callable[..., Any], use: Callable[..., Any]) -> None:
    eager, inner = Network(forward, 0), Network(forward, 0)
    traced = jit.trace(inner)
    for call, rows in enumerate((3, 3, 3, 5, 5, 3)):
        found = []
        for run, m in ((eager, eager), (traced, inner)):
            m.zero_grad()
            jit.manual_seed(call)
            out, latent = parts(run(jit.randn(rows, 4).requires_grad_() * 1))
            found.append((use(out, latent, m).tolist(), gradients(m)))
        (wanted, in_leaves), (got, traced_leaves) = found
        assert close(got, wanted)
        assert all(map(close, traced_leaves, in_leaves))


def test_tensors_that_a_hook_keeps_get_their_gradients():
    """As class activation maps want them: the calls are not kept, and their results have the history of eager mode."""
    kept: dict[str, jit.Tensor] = {}
    found = []
    for wrap in (lambda m: m, jit.trace):
        net = Network(plain, 0)
        net.first.register_forward_hook(lambda module, given, result: kept.update(first=result))
        run = wrap(net)
        for _ in range(4):
            out, latent = run(jit.ones(3, 4))
            kept["first"].retain_grad()
            latent.register_hook(lambda gradient: gradient * 2)
            out.sum().backward()
            found.append(kept["first"].grad.tolist())
    assert all(close(each, found[0]) for each in found)
