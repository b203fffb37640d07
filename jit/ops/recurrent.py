"""Recurrent cells, and networks of them.

A cell is products with all gates at once, and one group for the fuser: `chunk` and pointwise operators. A network over
padded sequences is a chain of layers (`recurrent_layers`).

Note [Packed networks]
    A network over packed data (see Note [Packed sequences]) runs over padded steps with a mask: where a sequence is not
    running, its state stays as it is, be it forwards, after its end, or backwards, before its start.

        h[t] = where(running[t], step(x[t], h[t-1]), h[t-1])

    So nothing depends on the lengths but the number of steps, and a trace is right for all lengths with the same
    longest one. Steps are recorded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import ShapeError, UsageError
from jit.ir.op import Op, composite
from jit.ir.precision import LOWER, Precision
from jit.ir.samples import Sample, make, sample
from jit.ir.types import TensorType

from .packing import onnx_padded, onnx_runs, onnx_swapped

if TYPE_CHECKING:
    from .protocols import KnownType, OnnxWriter, Ops, Tensor, Value

Weights: TypeAlias = Sequence[Any]
"""Tensors w_ih, w_hh, b_ih, b_hh and w_hr of one direction of one layer, None for what there is not."""

_CELL = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"


# -- cells -------------------------------------------------------------------------------------------------------


def _check_cell(name: str, input: Tensor, hidden: Tensor, w_ih: Tensor, w_hh: Tensor, gates: int) -> None:
    size = hidden.shape[-1]
    if input.shape[-1] != w_ih.shape[-1]:
        raise ShapeError(f"{name}: an input of sizes {list(input.shape)} does not fit w_ih of {list(w_ih.shape)}")
    if tuple(w_hh.shape) != (gates * size, size) or w_ih.shape[0] != gates * size:
        wanted, given = (
            f"[{gates * size}, ...] and [{gates * size}, {size}]",
            f"{list(w_ih.shape)} and {list(w_hh.shape)}",
        )
        raise ShapeError(
            f"{name}: with a state of size {size}, w_ih and w_hh should have the sizes {wanted}, got {given}"
        )


def _lstm_step(
    F: Ops, from_input: Tensor, hx: Sequence[Tensor], w_hh: Tensor, b_hh: Tensor | None, w_hr: Any = None
) -> tuple[Any, Any]:
    """(h, c) after one step; `from_input` is the input's share of the gates, `w_hr` makes h smaller."""
    hidden, cell = hx
    enter, forget, candidate, leave = F.chunk(from_input + F.linear(hidden, w_hh, b_hh), 4, -1)
    cell = F.sigmoid(forget) * cell + F.sigmoid(enter) * F.tanh(candidate)
    hidden = F.sigmoid(leave) * F.tanh(cell)
    return (hidden if w_hr is None else F.linear(hidden, w_hr)), cell


def _gru_step(F: Ops, from_input: Tensor, hidden: Tensor, w_hh: Tensor, b_hh: Tensor | None, _: Any = None) -> Tensor:
    input_reset, input_update, input_new = F.chunk(from_input, 3, -1)
    reset, update, new = F.chunk(F.linear(hidden, w_hh, b_hh), 3, -1)
    candidate = F.tanh(input_new + F.sigmoid(input_reset + reset) * new)
    return candidate + F.sigmoid(input_update + update) * (hidden - candidate)


def _rnn_step(
    F: Ops, from_input: Tensor, hidden: Tensor, w_hh: Tensor, b_hh: Tensor | None, _: Any = None, *, name: str
) -> Any:
    return getattr(F, name)(from_input + F.linear(hidden, w_hh, b_hh))


@Precision(cuda="lower")
@composite(f"aten::lstm_cell(Tensor input, Tensor[] hx, {_CELL}) -> (Tensor, Tensor)", namespaces=("jit",))
def lstm_cell(
    F: Ops, input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> Sequence[Tensor]:
    """(h, c) after one step of an LSTM: input [N, size], h and c [N, hidden], weights [4 * hidden, ...]."""
    if len(hx) != 2:
        raise UsageError(f"lstm_cell: hx should be (h, c), got {len(hx)} tensors")
    _check_cell("lstm_cell", input, hx[0], w_ih, w_hh, 4)
    return _lstm_step(F, F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@lstm_cell.samples
def _() -> Iterator[Sample]:
    state = [make(1, 2, seed=1), make(1, 2, seed=2)]
    weights = make(8, 3, low=-1, high=1, seed=3), make(8, 2, low=-1, high=1, seed=4)
    yield sample(make(1, 3), state, *weights, make(8, seed=5), make(8, seed=6))
    yield sample(make(1, 3), state, *weights, note="no bias", grad=False)


@Precision(cuda="lower")
@composite(f"aten::gru_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", namespaces=("jit",))
def gru_cell(
    F: Ops, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> Tensor:
    """h after one step of a GRU: input [N, size], hx [N, hidden], weights [3 * hidden, ...]."""
    _check_cell("gru_cell", input, hx, w_ih, w_hh, 3)
    return _gru_step(F, F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@gru_cell.samples
def _() -> Iterator[Sample]:
    weights = make(6, 3, low=-1, high=1, seed=3), make(6, 2, low=-1, high=1, seed=4)
    yield sample(make(2, 3), make(2, 2, seed=1), *weights, make(6, seed=5), make(6, seed=6))


@Precision(cuda="lower")
@composite(f"aten::rnn_tanh_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", namespaces=("jit",))
def rnn_tanh_cell(
    F: Ops, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> Tensor:
    """tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh): one step of a plain recurrent network."""
    _check_cell("rnn_tanh_cell", input, hx, w_ih, w_hh, 1)
    return _rnn_step(F, F.linear(input, w_ih, b_ih), hx, w_hh, b_hh, name="tanh")


@rnn_tanh_cell.samples
def _() -> Iterator[Sample]:
    weights = make(2, 3, low=-1, high=1, seed=3), make(2, 2, low=-1, high=1, seed=4)
    yield sample(make(2, 3), make(2, 2, seed=1), *weights, make(2, seed=5), make(2, seed=6))


@Precision(cuda="lower")
@composite(f"aten::rnn_relu_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", namespaces=("jit",))
def rnn_relu_cell(
    F: Ops, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> Tensor:
    """relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh): one step of a plain recurrent network."""
    _check_cell("rnn_relu_cell", input, hx, w_ih, w_hh, 1)
    return _rnn_step(F, F.linear(input, w_ih, b_ih), hx, w_hh, b_hh, name="relu")


@rnn_relu_cell.samples
def _() -> Iterator[Sample]:
    weights = make(2, 3, low=-1, high=1, seed=3), make(2, 2, low=-1, high=1, seed=4)
    yield sample(make(2, 3), make(2, 2, seed=1), *weights, make(2, seed=5), make(2, seed=6))


# -- networks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cell:
    """A kind of network: one direction of one layer, and one step of it."""

    step: Callable[..., Any]
    """One step: (F, the input's share of the gates, state, weights of the state) to the next state."""
    layer: Callable[..., Any]
    """All steps: (F, the inputs of all steps, first state, weights, backwards) to the outputs and the last state."""


def _lstm_layer(F: Ops, x: Tensor, state: Sequence[Tensor], weights: Weights, backwards: bool) -> tuple[Any, Any]:
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    shares = F.linear(x, w_ih, _both(b_ih, b_hh))
    h, c = state
    out, _, _, h, c = F._lstm_layer(shares, h, c, w_hh, w_hr, backwards)
    return out, (h, c)


def _gru_layer(F: Ops, x: Tensor, state: Tensor, weights: Weights, backwards: bool) -> tuple[Any, Any]:
    w_ih, w_hh, b_ih, b_hh, _ = weights
    out, _, h = F._gru_layer(F.linear(x, w_ih, b_ih), state, w_hh, b_hh, backwards)
    return out, h


def _rnn_layer(F: Ops, x: Tensor, state: Tensor, weights: Weights, backwards: bool, relu: bool) -> tuple[Any, Any]:
    w_ih, w_hh, b_ih, b_hh, _ = weights
    out, h = F._rnn_layer(F.linear(x, w_ih, _both(b_ih, b_hh)), state, w_hh, relu, backwards)
    return out, h


def _both(b_ih: Tensor | None, b_hh: Tensor | None) -> Tensor | None:
    """The sum of two biases that are added to the same gates."""
    return b_ih if b_hh is None or b_ih is None else b_ih + b_hh


_LSTM = _Cell(_lstm_step, _lstm_layer)
_SINGLE = {
    "gru": _Cell(_gru_step, _gru_layer),
    "rnn_tanh": _Cell(partial(_rnn_step, name="tanh"), partial(_rnn_layer, relu=False)),
    "rnn_relu": _Cell(partial(_rnn_step, name="relu"), partial(_rnn_layer, relu=True)),
}
"""The kinds of networks with one state, by name."""


@dataclass(frozen=True)
class _RecurrentNetwork:
    """Layers, directions and weights of a recurrent network of any kind."""

    cell: _Cell
    params: Sequence[Any]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    projected: bool = field(default=False, kw_only=True)

    @property
    def directions(self) -> int:
        """1 or 2."""
        return 1 + self.bidirectional

    def weights(self, at: int) -> Weights:
        """[w_ih, w_hh, b_ih, b_hh, w_hr] of one direction of one layer, None for what there is not."""
        width = 2 + 2 * self.has_biases + self.projected
        wanted = self.layers * self.directions * width
        if len(self.params) != wanted:
            raise UsageError(f"{self.layers} recurrent layers take {wanted} tensors in params, got {len(self.params)}")
        found = list(self.params[at * width : (at + 1) * width])
        projection = found.pop() if self.projected else None
        return [*found, *[None] * (4 - len(found)), projection]

    def run(self, F: Ops, x: Tensor, states: Sequence[Any], running: Any = None) -> tuple[Any, list[Any]]:
        """All layers over x[time, batch, size]: (outputs of the last one, the last state of each direction).

        `running` is, for each step, which sequences are still there.
        """
        finals = []
        for layer in range(self.layers):
            sides = []
            for side in range(self.directions):
                at = layer * self.directions + side
                one = self.cell.layer if running is None else partial(self._masked_pass, running=running)
                output, final = one(F, x, states[at], self.weights(at), side == 1)
                sides.append(output)
                finals.append(final)
            x = sides[0] if len(sides) == 1 else F.cat(sides, -1)
            if self.dropout > 0 and self.train and layer < self.layers - 1:
                x = F.dropout(x, self.dropout, True)
        # the way back of a layer reads its outputs, and users may write to what they get
        is_read = F.is_grad_enabled() and running is None and len(sides) == 1
        return (F.clone(x) if is_read else x), finals

    def _masked_pass(
        self, F: Ops, x: Tensor, state: Any, weights: Weights, backwards: bool, *, running: Sequence[Tensor]
    ) -> tuple[Any, Any]:
        """One direction of one layer step by step; sequences that are not running keep their state."""
        w_ih, w_hh, b_ih, b_hh, w_hr = weights
        shares = F.unbind(F.linear(x, w_ih, b_ih), 0)
        times = range(len(shares))
        outputs = []
        for time in reversed(times) if backwards else times:
            after = self.cell.step(F, shares[time], state, w_hh, b_hh, w_hr)
            state = _kept(F, running[time], after, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return F.stack(outputs[::-1] if backwards else outputs, 0), state


def _kept(F: Ops, running: Any, after: Any, before: Any) -> Any:
    if isinstance(after, tuple):
        return tuple(F.where(running, a, b) for a, b in zip(after, before))
    return F.where(running, after, before)


def _time_first(F: Ops, x: Tensor, batch_first: bool) -> Tensor:
    return F.transpose(x, 0, 1) if batch_first else x


def _packed_run(
    F: Ops, network: _RecurrentNetwork, data: Tensor, batch_sizes: Tensor, batch: Any, states: list[Any]
) -> Any:
    """`network.run` over packed data, whose outputs are packed again."""
    runs = F.gt(F.unsqueeze(batch_sizes, 1), F.arange(batch))
    steps, elements = runs.shape[0], data.shape[0]
    flat = F.reshape(runs, [-1])
    counted = F._to_copy(flat, dtype=dtypes.int64)
    place = F.cumsum(counted, 0) - counted
    padded = F.index_select(data, 0, F.clamp(place, max=elements - 1))
    out, finals = network.run(F, F.reshape(padded, [steps, batch, data.shape[1]]), states, _by_step(F, runs))
    free = F.zeros([elements + 1], dtype=dtypes.int64)  # its last place takes all that is not running
    rows = F.scatter(free, 0, F.where(flat, place, elements), F.arange(steps * batch))
    return F.index_select(F.flatten(out, 0, 1), 0, F.narrow(rows, 0, 0, elements)), finals


def _by_step(F: Ops, runs: Tensor) -> Any:
    return F.unbind(F.unsqueeze(runs, 2), 0)


_OPTIONS = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
_PAIR = "(Tensor, Tensor, Tensor)"


def _stacked_pair(F: Ops, out: Tensor, finals: Any) -> Any:
    return out, F.stack([h for h, _ in finals], 0), F.stack([c for _, c in finals], 0)


def _states(F: Ops, hx: Sequence[Tensor]) -> list[Any]:
    if len(hx) != 2:
        raise UsageError(f"lstm: hx should be (h, c), got {len(hx)} tensors")
    return list(zip(F.unbind(hx[0], 0), F.unbind(hx[1], 0)))


def _is_projected(hx: Any) -> bool:
    return bool(hx[0].shape[-1] != hx[1].shape[-1])


@LOWER
@composite(f"aten::lstm.input(Tensor input, Tensor[] hx, {_OPTIONS}, bool batch_first) -> {_PAIR}", namespaces=("jit",))
def lstm(
    F: Ops, input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> Sequence[Tensor]:  # fmt: skip
    """(outputs of the last layer, last h, last c) of an LSTM over input [time, batch, size]."""
    states = _states(F, hx)
    options = has_biases, num_layers, dropout, train, bidirectional
    network = _RecurrentNetwork(_LSTM, params, *options, projected=_is_projected(hx))
    out, finals = network.run(F, _time_first(F, input, batch_first), states)
    return _stacked_pair(F, _time_first(F, out, batch_first), finals)


@lstm.type
def _(
    input: KnownType, hx: Sequence[KnownType], params: Sequence[KnownType], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> Sequence[TensorType]:  # fmt: skip
    return _outputs_type(input, hx[0], bidirectional), *map(_final_type, hx)


def _outputs_type(input: KnownType, h: KnownType, bidirectional: bool) -> TensorType:
    """The outputs of the last layer for every step."""
    sizes = (*input.sizes[:-1], h.sizes[-1] * (2 if bidirectional else 1))
    return TensorType(input.dtype, sizes, None, input.device)


def _final_type(h: KnownType) -> TensorType:
    return TensorType(h.dtype, h.sizes, None, h.device)


@Precision(cuda="lower")
@composite(f"aten::lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, {_OPTIONS}) -> {_PAIR}", namespaces=("jit",))
def lstm_packed(
    F: Ops, data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> Sequence[Tensor]:  # fmt: skip
    """(packed outputs of the last layer, last h, last c) of an LSTM over packed sequences."""
    states = _states(F, hx)
    options = has_biases, num_layers, dropout, train, bidirectional
    network = _RecurrentNetwork(_LSTM, params, *options, projected=_is_projected(hx))
    return _stacked_pair(F, *_packed_run(F, network, data, batch_sizes, hx[0].shape[1], states))


@lstm_packed.type
def _(
    data: KnownType, batch_sizes: KnownType, hx: Sequence[KnownType], params: Sequence[KnownType], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> Sequence[TensorType]:  # fmt: skip
    return _outputs_type(data, hx[0], bidirectional), *map(_final_type, hx)


_SAID = {"gru": "a GRU", "rnn_tanh": "a recurrent network with tanh", "rnn_relu": "a recurrent network with relu"}


def _single_type(
    input: KnownType, hx: KnownType, params: Sequence[KnownType], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Sequence[TensorType]:  # fmt: skip
    return _outputs_type(input, hx, bidirectional), _final_type(hx)


def _single_packed_type(
    data: KnownType, batch_sizes: KnownType, hx: KnownType, params: Sequence[KnownType], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> Sequence[TensorType]:  # fmt: skip
    return _outputs_type(data, hx, bidirectional), _final_type(hx)


def _declare_single(name: str, cell: _Cell) -> tuple[Op, Op]:
    """The network `name` over padded and over packed sequences."""

    def padded(
        F: Ops, input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> Sequence[Tensor]:  # fmt: skip
        network = _RecurrentNetwork(cell, params, has_biases, num_layers, dropout, train, bidirectional)
        out, finals = network.run(F, _time_first(F, input, batch_first), F.unbind(hx, 0))
        return _time_first(F, out, batch_first), F.stack(finals, 0)

    def packed(
        F: Ops, data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool,
    ) -> Sequence[Tensor]:  # fmt: skip
        network = _RecurrentNetwork(cell, params, has_biases, num_layers, dropout, train, bidirectional)
        out, finals = _packed_run(F, network, data, batch_sizes, hx.shape[1], F.unbind(hx, 0))
        return out, F.stack(finals, 0)

    padded.__doc__ = f"(outputs of the last layer, last h) of {_SAID[name]} over input [time, batch, size]."
    packed.__doc__ = f"(packed outputs of the last layer, last h) of {_SAID[name]} over packed sequences."
    schema = f"aten::{name}.input(Tensor input, Tensor hx, {_OPTIONS}, bool batch_first) -> (Tensor, Tensor)"
    schema_packed = f"aten::{name}.data(Tensor data, Tensor batch_sizes, Tensor hx, {_OPTIONS}) -> (Tensor, Tensor)"
    precision = Precision(cpu="given", cuda="lower") if name == "gru" else LOWER
    whole = composite(schema, namespaces=("jit",), type=_single_type)(padded)
    return precision(whole), precision(composite(schema_packed, namespaces=("jit",), type=_single_packed_type)(packed))


_SINGLE_OPS = {name: _declare_single(name, cell) for name, cell in _SINGLE.items()}


# -- networks in ONNX --------------------------------------------------------------------------------------------

_KINDS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), {}),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", (0,), {}),
    "rnn_relu": ("RNN", (0,), {"activations": "Relu"}),
}
"""The ONNX operator, its order of our gates, and its attributes."""


@dataclass(frozen=True)
class _OnnxNetwork:
    """A network as a chain of ONNX operators, one a layer."""

    g: Any
    name: str
    network: _RecurrentNetwork

    def check(self, x: Any) -> None:
        """Unsupported, so that the steps are written one by one, for what ONNX's operators do not do."""
        net = self.network
        if net.projected:
            raise self.g.unsupported("ONNX's LSTM has no projection")
        if net.train and net.dropout > 0 and net.layers > 1:
            raise self.g.unsupported("dropout between layers is random")
        if type(x.shape[1]) is int and x.shape[1] == 0:
            raise self.g.unsupported("onnxruntime's recurrent operators take no batch of nothing")
        if x.dtype is not dtypes.float32:
            raise self.g.unsupported("onnxruntime's recurrent operators take float32 alone")

    def run(self, x: Any, states: Sequence[Any], lengths: Any = None) -> tuple[Any, list[Any]]:
        """All layers over x[time, batch, size]: (outputs of the last one, the last states)."""
        self.check(x)
        g, directions, finals = self.g, self.network.directions, []
        for layer in range(self.network.layers):
            first = layer * directions
            own = [g.op("Slice", s, g.ints([first]), g.ints([first + directions]), g.ints([0])) for s in states]
            y, *last = self._layer(x, first, own, lengths)
            x = g.op("Squeeze", y, g.ints([1])) if directions == 1 else _onnx_side_by_side(g, y)
            finals.append(last)
        return x, [parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=0) for parts in zip(*finals)]

    def _hidden(self, at: int) -> int:
        size: int = self.network.weights(at)[1].shape[1]
        return size

    def _layer(self, x: Any, first: int, states: Sequence[Any], lengths: Any) -> Any:
        g, directions = self.g, self.network.directions
        operator, _, attributes = _KINDS[self.name]
        sides = [self._weights(at) for at in range(first, first + directions)]
        w, r, b = (None if parts[0] is None else self._together(parts) for parts in zip(*sides))
        if "activations" in attributes:
            attributes = {"activations": [attributes["activations"]] * directions}
        return g.op(
            operator, x, w, r, b, lengths, *states, outputs=1 + len(states), hidden_size=self._hidden(first),
            direction="bidirectional" if directions == 2 else "forward", **attributes,
        )  # fmt: skip

    def _together(self, parts: Sequence[Any]) -> Any:
        lifted = [self.g.op("Unsqueeze", part, self.g.ints([0])) for part in parts]
        return lifted[0] if len(lifted) == 1 else self.g.op("Concat", *lifted, axis=0)

    def _weights(self, at: int) -> tuple[Any, Any, Any]:
        """(weights of the input, of the state, all biases) with gates in ONNX's order."""
        w_ih, w_hh, b_ih, b_hh, _ = self.network.weights(at)
        w_ih, w_hh, b_ih, b_hh = (self._reordered(w, self._hidden(at)) for w in (w_ih, w_hh, b_ih, b_hh))
        return w_ih, w_hh, None if b_ih is None else self.g.op("Concat", b_ih, b_hh, axis=0)

    def _reordered(self, weight: Any, hidden: int) -> Any:
        order = _KINDS[self.name][1]
        if weight is None or len(order) == 1:
            return weight
        rows = np.concatenate([np.arange(gate * hidden, (gate + 1) * hidden) for gate in order])
        return self.g.op("Gather", weight, self.g.ints(list(rows)), axis=0)


def _onnx_side_by_side(g: OnnxWriter, y: Value) -> Value:
    """y[time, direction, batch, size] as [time, batch, size of both]."""
    return g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints([0, 0, -1]))


def _onnx_padded_network(
    g: OnnxWriter, name: str, input: Value, states: Sequence[Value], network: _RecurrentNetwork, batch_first: bool
) -> Any:
    out, finals = _OnnxNetwork(g, name, network).run(onnx_swapped(g, input, batch_first), states)
    return onnx_swapped(g, out, batch_first), *finals


def _onnx_packed_network(
    g: OnnxWriter, name: str, data: Value, batch_sizes: Value, states: Sequence[Value], network: _RecurrentNetwork
) -> Any:
    batch_sizes = g.cast(batch_sizes, dtypes.int64)
    batch = g.op("Slice", g.op("Shape", states[0]), g.ints([1]), g.ints([2]), g.ints([0]))
    runs = onnx_runs(g, batch_sizes, batch)
    lengths = g.reduce("ReduceSum", g.cast(runs, dtypes.int32), 0, False)
    padded = onnx_padded(g, data, batch_sizes, batch, 0)
    out, finals = _OnnxNetwork(g, name, network).run(padded, states, lengths)
    rows = g.op("Reshape", out, g.op("Concat", g.ints([-1]), _onnx_last(g, out), axis=0))
    return g.op("Compress", rows, g.op("Reshape", runs, g.ints([-1])), axis=0), *finals


def _onnx_last(g: OnnxWriter, x: Value) -> Value:
    return g.op("Slice", g.op("Shape", x), g.ints([2]), g.ints([3]), g.ints([0]))


@lstm.onnx
def _(
    g: OnnxWriter, input: Value, hx: Sequence[Value], params: Sequence[Value], *options: Any
) -> Sequence[Value | None]:
    *rest, batch_first = options
    network = _RecurrentNetwork(_LSTM, params, *rest, projected=_is_projected(hx))
    return _onnx_padded_network(g, "lstm", input, hx, network, batch_first)


@lstm_packed.onnx
def _(
    g: OnnxWriter, data: Value, batch_sizes: Value, hx: Sequence[Value], params: Sequence[Value], *options: Any
) -> Sequence[Value | None]:
    network = _RecurrentNetwork(_LSTM, params, *options, projected=_is_projected(hx))
    return _onnx_packed_network(g, "lstm", data, batch_sizes, hx, network)


def _attach_onnx(name: str, padded: Op, packed: Op) -> None:
    def symbolic(
        g: OnnxWriter, input: Value, hx: Value, params: Sequence[Value], *options: Any
    ) -> Sequence[Value | None]:
        *rest, batch_first = options
        return _onnx_padded_network(g, name, input, [hx], _RecurrentNetwork(_SINGLE[name], params, *rest), batch_first)

    def symbolic_packed(
        g: OnnxWriter, data: Value, batch_sizes: Value, hx: Value, params: Sequence[Value], *options: Any
    ) -> Sequence[Value | None]:
        return _onnx_packed_network(
            g, name, data, batch_sizes, [hx], _RecurrentNetwork(_SINGLE[name], params, *options)
        )

    padded.onnx(symbolic)
    packed.onnx(symbolic_packed)


for _name, _pair in _SINGLE_OPS.items():
    _attach_onnx(_name, *_pair)


# -- samples of networks -----------------------------------------------------------------------------------------


def _weights(gates: int, layers: int, directions: int, size: int = 2, hidden: int = 1, projection: int = 0) -> Any:
    found: list[Any] = []
    out = projection or hidden
    for layer in range(layers):
        for _ in range(directions):
            width = size if layer == 0 else out * directions
            shapes: list[tuple[int, ...]] = [
                (gates * hidden, width), (gates * hidden, out), (gates * hidden,), (gates * hidden,)
            ]  # fmt: skip
            shapes += [(projection, hidden)] if projection else []
            found += [make(*shape, low=-1, high=1, seed=10 + len(found) + i) for i, shape in enumerate(shapes)]
    return found


@lstm.samples
def _() -> Iterator[Sample]:
    states = [make(1, 1, 1, seed=1), make(1, 1, 1, seed=2)]
    yield sample(make(2, 1, 2), states, _weights(4, 1, 1), True, 1, 0.0, False, False, False)
    states = [make(4, 2, 3, seed=1), make(4, 2, 3, seed=2)]
    weights = _weights(4, 2, 2, hidden=3)
    yield sample(make(2, 4, 2), states, weights, True, 2, 0.0, False, True, True, note="both ways", grad=False)
    states = [make(2, 2, 1, seed=1), make(2, 2, 2, seed=2)]
    weights = _weights(4, 2, 1, hidden=2, projection=1)
    yield sample(make(2, 2, 2), states, weights, True, 2, 0.0, False, False, False, note="projected", grad=False)


def _batch_sizes() -> Any:
    return np.array([3, 2], np.int64)


@lstm_packed.samples
def _() -> Iterator[Sample]:
    states = [make(1, 3, 1, seed=1), make(1, 3, 1, seed=2)]
    yield sample(make(5, 2), _batch_sizes(), states, _weights(4, 1, 1), True, 1, 0.0, False, False)
    states = [make(4, 3, 2, seed=1), make(4, 3, 2, seed=2)]
    weights = _weights(4, 2, 2, hidden=2)
    yield sample(make(5, 2), _batch_sizes(), states, weights, True, 2, 0.0, False, True, note="both ways", grad=False)


def _single_samples(gates: int) -> tuple[Any, Any]:
    def padded() -> Iterator[Sample]:
        yield sample(make(2, 1, 2), make(1, 1, 1, seed=1), _weights(gates, 1, 1), True, 1, 0.0, False, False, False)
        weights = _weights(gates, 2, 2, hidden=2)
        state = make(4, 3, 2, seed=1)
        yield sample(make(3, 2, 2), state, weights, True, 2, 0.0, False, True, True, note="both ways", grad=False)

    def packed() -> Iterator[Sample]:
        state = make(2, 3, 1, seed=1)
        weights = _weights(gates, 1, 2)
        yield sample(make(5, 2), _batch_sizes(), state, weights, True, 1, 0.0, False, True)

    return padded, packed


for _name, (_padded, _packed) in _SINGLE_OPS.items():
    for _op, _generate in zip((_padded, _packed), _single_samples(3 if _name == "gru" else 1)):
        _op.samples(_generate)
