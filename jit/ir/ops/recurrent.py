"""Recurrent cells, and networks of them: products with all gates at once, `chunk`, and pointwise operators.

The gates of a step are one group for the fuser: everything after the products is `chunk` and pointwise.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError, UsageError
from ..op import composite
from ..samples import make, sample

_CELL = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"


# -- cells -------------------------------------------------------------------------------------------------------


def _check_cell(name: str, input: Any, hidden: Any, w_ih: Any, w_hh: Any, gates: int) -> None:
    size = hidden.shape[-1]
    if input.shape[-1] != w_ih.shape[-1]:
        raise ShapeError(f"{name}: an input of sizes {list(input.shape)} does not fit w_ih of {list(w_ih.shape)}")
    if tuple(w_hh.shape) != (gates * size, size) or w_ih.shape[0] != gates * size:
        raise ShapeError(f"{name}: a state of sizes {list(hidden.shape)} does not fit w_hh of {list(w_hh.shape)}")


def _lstm_step(F: Any, from_input: Any, hx: Any, w_hh: Any, b_hh: Any) -> tuple[Any, Any]:
    """(h, c) after one step; `from_input` is the input's share of the gates."""
    hidden, cell = hx
    enter, forget, candidate, leave = F.chunk(from_input + F.linear(hidden, w_hh, b_hh), 4, -1)
    cell = F.sigmoid(forget) * cell + F.sigmoid(enter) * F.tanh(candidate)
    return F.sigmoid(leave) * F.tanh(cell), cell


def _gru_step(F: Any, from_input: Any, hidden: Any, w_hh: Any, b_hh: Any) -> Any:
    input_reset, input_update, input_new = F.chunk(from_input, 3, -1)
    reset, update, new = F.chunk(F.linear(hidden, w_hh, b_hh), 3, -1)
    candidate = F.tanh(input_new + F.sigmoid(input_reset + reset) * new)
    return candidate + F.sigmoid(input_update + update) * (hidden - candidate)


def _rnn_step(F: Any, name: str, from_input: Any, hidden: Any, w_hh: Any, b_hh: Any) -> Any:
    return getattr(F, name)(from_input + F.linear(hidden, w_hh, b_hh))


@composite(f"aten::lstm_cell(Tensor input, Tensor[] hx, {_CELL}) -> (Tensor, Tensor)", namespaces=("jit",))
def lstm_cell(F: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    if len(hx) != 2:
        raise UsageError(f"lstm_cell: hx should be (h, c), got {len(hx)} tensors")
    _check_cell("lstm_cell", input, hx[0], w_ih, w_hh, 4)
    return _lstm_step(F, F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@lstm_cell.samples
def _() -> Any:
    state = [make(1, 2, seed=1), make(1, 2, seed=2)]
    weights = make(8, 3, low=-1, high=1, seed=3), make(8, 2, low=-1, high=1, seed=4)
    yield sample(make(1, 3), state, *weights, make(8, seed=5), make(8, seed=6))
    yield sample(make(1, 3), state, *weights, note="no bias", grad=False)


@composite(f"aten::gru_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", namespaces=("jit",))
def gru_cell(F: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    _check_cell("gru_cell", input, hx, w_ih, w_hh, 3)
    return _gru_step(F, F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@gru_cell.samples
def _() -> Any:
    weights = make(6, 3, low=-1, high=1, seed=3), make(6, 2, low=-1, high=1, seed=4)
    yield sample(make(2, 3), make(2, 2, seed=1), *weights, make(6, seed=5), make(6, seed=6))


@composite(f"aten::rnn_tanh_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", namespaces=("jit",))
def rnn_tanh_cell(F: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    _check_cell("rnn_tanh_cell", input, hx, w_ih, w_hh, 1)
    return _rnn_step(F, "tanh", F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@rnn_tanh_cell.samples
def _() -> Any:
    weights = make(2, 3, low=-1, high=1, seed=3), make(2, 2, low=-1, high=1, seed=4)
    yield sample(make(2, 3), make(2, 2, seed=1), *weights, make(2, seed=5), make(2, seed=6))


@composite(f"aten::rnn_relu_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", namespaces=("jit",))
def rnn_relu_cell(F: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    _check_cell("rnn_relu_cell", input, hx, w_ih, w_hh, 1)
    return _rnn_step(F, "relu", F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@rnn_relu_cell.samples
def _() -> Any:
    weights = make(2, 3, low=-1, high=1, seed=3), make(2, 2, low=-1, high=1, seed=4)
    yield sample(make(2, 3), make(2, 2, seed=1), *weights, make(2, seed=5), make(2, seed=6))


# -- networks ----------------------------------------------------------------------------------------------------


def _pass(F: Any, step: Any, input: Any, state: Any, weights: Any, backwards: bool) -> tuple[Any, Any]:
    """One direction of one layer over input[time, batch, size]: (its outputs, the last state)."""
    w_ih, w_hh, b_ih, b_hh = weights
    shares = list(F.unbind(F.linear(input, w_ih, b_ih), 0))
    outputs = []
    for share in reversed(shares) if backwards else shares:
        state = step(F, share, state, w_hh, b_hh)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return F.stack(outputs[::-1] if backwards else outputs, 0), state


def _network(
    F: Any, step: Any, input: Any, states: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """All layers: (outputs of the last one, the last state of each layer and direction)."""
    directions, width = 1 + bidirectional, 4 if has_biases else 2
    if len(params) != layers * directions * width:
        raise UsageError(f"expects {layers * directions * width} weights for {layers} layers, got {len(params)}")
    x = F.transpose(input, 0, 1) if batch_first else input
    finals = []
    for layer in range(layers):
        sides = []
        for side in range(directions):
            at = layer * directions + side
            weights = list(params[at * width : (at + 1) * width]) + [None] * (4 - width)
            output, final = _pass(F, step, x, states[at], weights, side == 1)
            sides.append(output)
            finals.append(final)
        x = sides[0] if directions == 1 else F.cat(sides, -1)
        if dropout > 0 and train and layer < layers - 1:
            x = F.dropout(x, dropout, True)
    return F.transpose(x, 0, 1) if batch_first else x, finals


_NETWORK = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
)


@composite(f"aten::lstm.input(Tensor input, Tensor[] hx, {_NETWORK}) -> (Tensor, Tensor, Tensor)", namespaces=("jit",))
def lstm(
    F: Any, input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """(outputs, last h, last c)."""
    states = list(zip(F.unbind(hx[0], 0), F.unbind(hx[1], 0)))
    options = params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    out, finals = _network(F, _lstm_step, input, states, *options)
    return out, F.stack([h for h, _ in finals], 0), F.stack([c for _, c in finals], 0)


def _weights(gates: int, layers: int, directions: int, size: int = 2, hidden: int = 1) -> list[Any]:
    found: list[Any] = []
    for layer in range(layers):
        for _ in range(directions):
            width = size if layer == 0 else hidden * directions
            shapes = (gates * hidden, width), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)
            found += [make(*shape, low=-1, high=1, seed=10 + len(found) + i) for i, shape in enumerate(shapes)]
    return found


@lstm.samples
def _() -> Any:
    states = [make(1, 1, 1, seed=1), make(1, 1, 1, seed=2)]
    yield sample(make(2, 1, 2), states, _weights(4, 1, 1), True, 1, 0.0, False, False, False)
    states = [make(4, 2, 3, seed=1), make(4, 2, 3, seed=2)]
    weights = _weights(4, 2, 2, hidden=3)
    yield sample(make(2, 4, 2), states, weights, True, 2, 0.0, False, True, True, note="both ways", grad=False)


@composite(f"aten::gru.input(Tensor input, Tensor hx, {_NETWORK}) -> (Tensor, Tensor)", namespaces=("jit",))
def gru(
    F: Any, input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """(outputs, last h)."""
    options = params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    out, finals = _network(F, _gru_step, input, F.unbind(hx, 0), *options)
    return out, F.stack(finals, 0)


@gru.samples
def _() -> Any:
    yield sample(make(2, 1, 2), make(1, 1, 1, seed=1), _weights(3, 1, 1), True, 1, 0.0, False, False, False)


def _tanh_step(F: Any, *rest: Any) -> Any:
    return _rnn_step(F, "tanh", *rest)


def _relu_step(F: Any, *rest: Any) -> Any:
    return _rnn_step(F, "relu", *rest)


@composite(f"aten::rnn_tanh.input(Tensor input, Tensor hx, {_NETWORK}) -> (Tensor, Tensor)", namespaces=("jit",))
def rnn_tanh(
    F: Any, input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """(outputs, last h)."""
    options = params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    out, finals = _network(F, _tanh_step, input, F.unbind(hx, 0), *options)
    return out, F.stack(finals, 0)


@rnn_tanh.samples
def _() -> Any:
    yield sample(make(2, 1, 2), make(2, 1, 1, seed=1), _weights(1, 1, 2), True, 1, 0.0, False, True, False)


@composite(f"aten::rnn_relu.input(Tensor input, Tensor hx, {_NETWORK}) -> (Tensor, Tensor)", namespaces=("jit",))
def rnn_relu(
    F: Any, input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """(outputs, last h)."""
    options = params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    out, finals = _network(F, _relu_step, input, F.unbind(hx, 0), *options)
    return out, F.stack(finals, 0)


@rnn_relu.samples
def _() -> Any:
    yield sample(make(2, 1, 2), make(1, 1, 1, seed=1), _weights(1, 1, 1), True, 1, 0.0, False, False, False)
