"""Recurrent layers: RNN, GRU and LSTM.

Layers of the common kind run on this package's operators of the same names; whatever else ONNX knows (other
activations, peepholes, clipping, lengths of sequences) runs step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.eager.namespace import F
from jit.ir.errors import ModelError
from jit.nn import functional as NN

from ..table import Tensor, operator
from ..values import Known, as_tensor

Activation = Callable[[Tensor], Tensor]
Stepping = Callable[..., tuple[Tensor, ...]]
"""New states of the shares of the gates that come from the input, and the states before."""

_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], float | None, float | None]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, 1.0, 0.0),
    "elu": (lambda x, alpha: NN.elu(x, alpha), 1.0, None),
    "hardsigmoid": (lambda x, alpha, beta: F.clamp(alpha * x + beta, 0, 1), 0.2, 0.5),
    "leakyrelu": (lambda x, alpha: NN.leaky_relu(x, alpha), 0.01, None),
    "relu": (lambda x: F.relu(x), None, None),
    "scaledtanh": (lambda x, alpha, beta: alpha * F.tanh(beta * x), 1.0, 1.0),
    "sigmoid": (lambda x: F.sigmoid(x), None, None),
    "softplus": (lambda x: F.logaddexp(x, F.zeros_like(x)), None, None),
    "softsign": (lambda x: x / (1 + F.abs(x)), None, None),
    "tanh": (lambda x: F.tanh(x), None, None),
    "thresholdedrelu": (lambda x, alpha: F.where(x >= alpha, x, F.zeros_like(x)), 1.0, None),
}
"""Functions with the defaults of `alpha` and `beta`, None where they take none."""


def _activations(names: Sequence[str], alphas: Any, betas: Any, clip: float | None) -> Iterator[Activation]:
    """Functions of a tensor; `alphas` and `betas` are used up by those that take them."""
    left = iter(alphas or ()), iter(betas or ())
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise ModelError(f"recurrent layers have no activation {name!r}")
        function, *defaults = _ACTIVATIONS[name.lower()]
        numbers = [next(given, d) for given, d in zip(left, defaults, strict=True) if d is not None]
        yield _clipped(function, numbers, clip)


def _clipped(function: Callable[..., Tensor], numbers: Sequence[float], clip: float | None) -> Activation:
    if clip is None:
        return lambda x: function(x, *numbers)
    return lambda x: function(F.clamp(x, -clip, clip), *numbers)


# -- layers of any kind --------------------------------------------------------------------------------------------


@dataclass
class RecurrentLayer:
    """Operands of a recurrent layer in ONNX's first layout: the steps come first."""

    x: Tensor
    w: Tensor
    r: Tensor
    b: Tensor | None
    lengths: Tensor | None
    states: list[Tensor]
    direction: str
    layout: int

    @property
    def directions(self) -> int:
        """Two for a layer that runs both ways, else one."""
        return 2 if self.direction == "bidirectional" else 1

    def gates(self, weights: Tensor, way: int, count: int) -> list[Tensor]:
        """Parts of some weights, one for each gate, for one direction."""
        return list(F.chunk(weights[way], count, 0))

    def outputs(self, y: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Results in the layout of the model; `y` is [steps, directions, batch, size]."""
        if not self.layout:
            return (y, *states)
        return (F.permute(y, (2, 0, 1, 3)), *(F.transpose(state, 0, 1) for state in states))


def _layer(
    x: Tensor, w: Tensor, r: Tensor, b: Any, lengths: Any, states: Any, direction: str, layout: int
) -> RecurrentLayer:
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ModelError(f"a recurrent layer runs forward, reverse or bidirectional, not {direction!r}")
    if layout:
        x = F.transpose(x, 0, 1)
        states = [state if state is None else F.transpose(state, 0, 1) for state in states]
    directions = 2 if direction == "bidirectional" else 1
    if w.shape[0] != directions:
        raise ModelError(f"the weights are those of {w.shape[0]} directions, and the layer is {direction}")
    shape = (directions, x.shape[1], r.shape[2])
    states = [F.zeros(shape, dtype=x.dtype) if state is None else state for state in states]
    return RecurrentLayer(x, w, r, b, _shorter(lengths, x), states, direction, layout)


def _shorter(lengths: Any, x: Tensor) -> Tensor | None:
    """Lengths of the sequences; None if the host knows that all are full."""
    if isinstance(lengths, Known) and np.all(lengths.array == x.shape[0]):
        return None
    return None if lengths is None else as_tensor(lengths)


def _stepwise(layer: RecurrentLayer, steppings: Sequence[Stepping], shares: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The layer step by step, each direction by itself."""
    ys, ends = [], []
    for way, (stepping, share) in enumerate(zip(steppings, shares, strict=True)):
        backwards = layer.direction == "reverse" or way == 1
        y, end = _one_way(share, [state[way] for state in layer.states], layer.lengths, stepping, backwards)
        ys.append(y)
        ends.append(end)
    return layer.outputs(F.stack(ys, 1), [F.stack(states) for states in zip(*ends, strict=True)])


def _one_way(
    shares: Tensor, states: Sequence[Tensor], lengths: Tensor | None, stepping: Stepping, backwards: bool
) -> tuple[Tensor, Sequence[Tensor]]:
    """The outputs of all steps and the last states; steps after a sequence's end give zeros and change no state."""
    steps = range(shares.shape[0])
    found: dict[int, Tensor] = {}
    for t in reversed(steps) if backwards else steps:
        new = stepping(shares[t], *states)
        found[t], states = new[0], new if lengths is None else states
        if lengths is not None:
            valid = F.unsqueeze(lengths > t, 1)
            found[t] = F.where(valid, new[0], F.zeros_like(new[0]))
            states = [F.where(valid, after, before) for after, before in zip(new, states, strict=True)]
    if not found:
        raise ModelError("a recurrent layer needs at least one step")
    return F.stack([found[t] for t in steps]), states


def _fused(layer: RecurrentLayer, run: Callable[..., Any], order: Sequence[int]) -> tuple[Tensor, ...]:
    """The layer by an operator of this package, which has the gates in another order."""
    weights = [part for way in range(layer.directions) for part in _weights(layer, way, order)]
    x = F.flip(layer.x, (0,)) if layer.direction == "reverse" else layer.x
    hx = layer.states if len(layer.states) > 1 else layer.states[0]
    y, *states = run(x, hx, weights, layer.b is not None, 1, 0.0, False, layer.directions == 2, False)
    if layer.direction == "reverse":
        y = F.flip(y, (0,))
    y = F.permute(F.reshape(y, (*y.shape[:2], layer.directions, -1)), (0, 2, 1, 3))
    return layer.outputs(y, states)


def _weights(layer: RecurrentLayer, way: int, order: Sequence[int]) -> list[Tensor]:
    count = len(order)
    parts = [layer.gates(layer.w, way, count), layer.gates(layer.r, way, count)]
    if layer.b is not None:
        both = layer.gates(layer.b, way, 2 * count)
        parts += [both[:count], both[count:]]
    return [F.cat([part[gate] for gate in order]) if count > 1 else part[0] for part in parts]


def _biases(layer: RecurrentLayer, way: int) -> tuple[Any, Any]:
    """Biases of the input and of the state; None twice if there are none."""
    return (None, None) if layer.b is None else tuple(F.chunk(layer.b[way], 2, 0))


def _share(layer: RecurrentLayer, way: int, bias: Tensor | None) -> Tensor:
    """Shares that the gates have from the input, for all steps at once."""
    return F.linear(layer.x, layer.w[way], bias)


def _plain(activations: Sequence[str], default: Sequence[str], clip: float | None, lengths: Any) -> bool:
    """Whether nothing asks for single steps."""
    usual = [name.lower() for name in activations] == [name.lower() for name in default]
    return usual and clip is None and lengths is None


# -- the three kinds -----------------------------------------------------------------------------------------------


@operator("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, sequence_lens: Any, initial_h: Tensor | None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0, output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    layer = _layer(x, w, r, b, sequence_lens, [initial_h], direction, layout)
    names = (activations or ["Tanh"] * 2)[: layer.directions]
    for kind, run in (("Tanh", F.rnn_tanh), ("Relu", F.rnn_relu)):
        if _plain(names, [kind] * layer.directions, clip, layer.lengths):
            return _fused(layer, run, (0,))
    functions = list(_activations(names, activation_alpha, activation_beta, clip))
    ways = range(layer.directions)
    shares = [_share(layer, way, _summed(layer, way)) for way in ways]
    return _stepwise(layer, [_rnn_step(functions[way], layer.r[way]) for way in ways], shares)


def _summed(layer: RecurrentLayer, way: int) -> Tensor | None:
    first, second = _biases(layer, way)
    return None if first is None else first + second


def _rnn_step(f: Activation, r: Tensor) -> Stepping:
    return lambda share, h: (f(share + F.linear(h, r)),)


@operator("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, sequence_lens: Any, initial_h: Tensor | None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0, linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    layer = _layer(x, w, r, b, sequence_lens, [initial_h], direction, layout)
    usual = ["Sigmoid", "Tanh"] * layer.directions
    names = activations or usual
    if linear_before_reset and _plain(names, usual, clip, layer.lengths):
        return _fused(layer, F.gru, (1, 0, 2))
    functions = list(_activations(names, activation_alpha, activation_beta, clip))
    steppings, shares = [], []
    for way in range(layer.directions):
        from_input, from_hidden = _biases(layer, way)
        f, g = functions[2 * way : 2 * way + 2]
        steppings.append(_gru_step(f, g, layer.r[way], from_hidden, linear_before_reset))
        shares.append(_share(layer, way, from_input))
    return _stepwise(layer, steppings, shares)


def _gru_step(f: Activation, g: Activation, r: Tensor, bias: Tensor | None, linear_before_reset: int) -> Stepping:
    size = r.shape[1]
    gates, candidate = r[: 2 * size], r[2 * size :]
    bias_gates, bias_candidate = (None, None) if bias is None else (bias[: 2 * size], bias[2 * size :])

    def stepping(share: Tensor, h: Tensor) -> tuple[Tensor]:
        update, reset = F.chunk(f(share[:, : 2 * size] + F.linear(h, gates, bias_gates)), 2, 1)
        if linear_before_reset:
            hidden = reset * F.linear(h, candidate, bias_candidate)
        else:
            hidden = F.linear(reset * h, candidate, bias_candidate)
        return ((1 - update) * g(share[:, 2 * size :] + hidden) + update * h,)

    return stepping


@operator("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, sequence_lens: Any, initial_h: Tensor | None,
    initial_c: Tensor | None, p: Tensor | None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0, input_forget: int = 0, layout: int = 0, output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    layer = _layer(x, w, r, b, sequence_lens, [initial_h, initial_c], direction, layout)
    usual = ["Sigmoid", "Tanh", "Tanh"] * layer.directions
    names = activations or usual
    if p is None and not input_forget and _plain(names, usual, clip, layer.lengths):
        return _fused(layer, F.lstm, (0, 2, 3, 1))
    functions = list(_activations(names, activation_alpha, activation_beta, clip))
    # what the cell becomes is not clipped, in onnxruntime neither
    functions[2::3] = list(_activations(names, activation_alpha, activation_beta, None))[2::3]
    steppings, shares = [], []
    for way in range(layer.directions):
        peepholes = None if p is None else layer.gates(p, way, 3)
        steppings.append(_lstm_step(functions[3 * way : 3 * way + 3], layer.r[way], peepholes, input_forget))
        shares.append(_share(layer, way, _summed(layer, way)))
    return _stepwise(layer, steppings, shares)


def _lstm_step(
    functions: Sequence[Activation], r: Tensor, peepholes: list[Tensor] | None, input_forget: int
) -> Stepping:
    f, g, h_of = functions

    def seen(gate: Tensor, index: int, c: Tensor) -> Tensor:
        return gate if peepholes is None else gate + peepholes[index] * c

    def stepping(share: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        input, output, forget, candidate = F.chunk(share + F.linear(h, r), 4, 1)
        taken = f(seen(input, 0, c))
        kept = 1 - taken if input_forget else f(seen(forget, 2, c))
        c = kept * c + taken * g(candidate)
        return f(seen(output, 1, c)) * h_of(c), c

    return stepping
