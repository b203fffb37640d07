"""References for single layers of recurrent networks, step by step, each gate by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .arrays import relu, sigmoid


def times(count: int, backwards: bool) -> Iterator[tuple[int, int | None]]:
    """Each step, and the one that has run before it."""
    before = None
    for t in reversed(range(count)) if backwards else range(count):
        yield t, before
        before = t


def per_step(found: dict[int, Any]) -> Any:
    return np.stack([found[t] for t in sorted(found)])


def lstm_layer(shares: Any, h: Any, c: Any, w_hh: Any, w_hr: Any, backwards: bool) -> Any:
    out, gates, cells = {}, {}, {}
    for t, _ in times(len(shares), backwards):
        total = np.split(shares[t], 4, 1)
        rows: Any = np.split(w_hh, 4)
        activations: Any = (sigmoid, sigmoid, np.tanh, sigmoid)
        i, f, g, o = (activations[k](total[k] + h @ rows[k].T) for k in range(4))
        c = f * c + i * g
        h = o * np.tanh(c) @ (np.eye(c.shape[1]) if w_hr is None else w_hr.T)
        out[t], gates[t], cells[t] = h, np.concatenate([i, f, g, o], 1), c
    return [*map(per_step, (out, gates, cells)), h, c]


def gru_layer(shares: Any, h: Any, w_hh: Any, b_hh: Any, backwards: bool) -> Any:
    out, gates = {}, {}
    for t, _ in times(len(shares), backwards):
        a, b = np.split(shares[t], 3, 1), np.split(h @ w_hh.T + (0 if b_hh is None else b_hh), 3, 1)
        r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        n = np.tanh(a[2] + r * b[2])
        h = (1 - z) * n + z * h
        out[t], gates[t] = h, np.concatenate([r, z, n, b[2]], 1)
    return [per_step(out), per_step(gates), h]


def rnn_layer(shares: Any, h: Any, w_hh: Any, is_relu: bool, backwards: bool) -> Any:
    out = {}
    for t, _ in times(len(shares), backwards):
        out[t] = h = (relu if is_relu else np.tanh)(shares[t] + h @ w_hh.T)
    return [per_step(out), h]


# -- the ways back -----------------------------------------------------------------------------------------------


def taken_back(count: int, backwards: bool, step: Callable[[int, int | None], None]) -> None:
    for t, before in reversed(list(times(count, backwards))):
        step(t, before)


def lstm_backward(
    gates: Any, cells: Any, grad_out: Any, grad_h: Any, grad_c: Any, c: Any, w_hh: Any, w_hr: Any, backwards: bool
) -> Any:
    found: dict[int, Any] = {}
    state = [grad_h, grad_c]

    def step(t: int, before: int | None) -> None:
        i, f, g, o = np.split(gates[t], 4, 1)
        dh = state[0] + (0 if grad_out is None else grad_out[t])
        dh = dh if w_hr is None else dh @ w_hr
        dc = state[1] + dh * o / np.cosh(cells[t]) ** 2
        earlier = c if before is None else cells[before]
        found[t] = np.concatenate(
            [dc * g * (i - i**2), dc * earlier * (f - f**2), dc * i * (1 - g**2), dh * np.tanh(cells[t]) * (o - o**2)],
            1,
        )
        state[:] = found[t] @ w_hh, dc * f

    taken_back(len(gates), backwards, step)
    return [per_step(found), *state]


def gru_backward(gates: Any, outputs: Any, grad_out: Any, grad_h: Any, h: Any, w_hh: Any, backwards: bool) -> Any:
    of_shares, of_state = {}, {}
    state = [grad_h]

    def step(t: int, before: int | None) -> None:
        r, z, n, new = np.split(gates[t], 4, 1)
        dh = state[0] + (0 if grad_out is None else grad_out[t])
        earlier = h if before is None else outputs[before]
        dn = dh * (1 - z) * (1 - n**2)
        dr, dz = dn * new * (r - r**2), dh * (earlier - n) * (z - z**2)
        of_shares[t], of_state[t] = np.concatenate([dr, dz, dn], 1), np.concatenate([dr, dz, dn * r], 1)
        state[0] = dh * z + of_state[t] @ w_hh

    taken_back(len(gates), backwards, step)
    return [per_step(of_shares), per_step(of_state), *state]


def rnn_backward(outputs: Any, grad_out: Any, grad_h: Any, w_hh: Any, is_relu: bool, backwards: bool) -> Any:
    found: dict[int, Any] = {}
    state = [grad_h]

    def step(t: int, _: int | None) -> None:
        dh = state[0] + (0 if grad_out is None else grad_out[t])
        found[t] = dh * (outputs[t] > 0) if is_relu else dh * (1 - outputs[t] ** 2)
        state[0] = found[t] @ w_hh

    taken_back(len(outputs), backwards, step)
    return [per_step(found), *state]


REFERENCES: dict[str, Any] = {
    "aten::_lstm_layer": lstm_layer,
    "aten::_gru_layer": gru_layer,
    "aten::_rnn_layer": rnn_layer,
    "aten::_lstm_layer_backward": lstm_backward,
    "aten::_gru_layer_backward": gru_backward,
    "aten::_rnn_layer_backward": rnn_backward,
}
