"""Recurrent networks over whole sequences, padded or packed: RNN, LSTM and GRU, several layers, both directions."""

from __future__ import annotations

import math
import warnings
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError

from . import init
from .modules import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
"""The number of gates that a network computes in each step, by its mode."""
_OPERATORS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


class RNNBase(Module):
    """Layers of a recurrent network, each in one direction or both.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size: Size of an element of the sequence.
        hidden_size: Size of the state.
        num_layers: How many layers; each reads the outputs of the one before.
        bias: Whether to add biases.
        batch_first: Whether sequences are `[N, L, size]` instead of `[L, N, size]`; states are not concerned.
        dropout: The probability of zeroing an output of any layer but the last, while training.
        bidirectional: Whether to read sequences backwards as well; outputs of both directions stand side by side.
        proj_size: If not zero, the size to which an LSTM's output is projected.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check_options(dropout)
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                for name, sizes in self._sizes(layer).items():
                    self.register_parameter(name + suffix, Parameter(F.empty(sizes, device=device, dtype=dtype)))
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise UsageError(f"dropout is {dropout!r}; pass a probability between 0 and 1")
        if dropout > 0 and self.num_layers == 1:
            told = (
                f"dropout={dropout} does nothing with num_layers=1: it acts on the outputs of all layers but the last"
            )
            warnings.warn(told, stacklevel=4)
        if self.mode not in _GATES:
            raise UsageError(f"there is no recurrent network {self.mode!r}; there are {', '.join(_GATES)}")
        if min(self.hidden_size, self.num_layers) < 1:
            sizes = f"{self.hidden_size} and {self.num_layers}"
            raise UsageError(f"hidden_size and num_layers are {sizes}; pass numbers of at least 1")
        if not 0 <= self.proj_size < self.hidden_size:
            raise UsageError(f"proj_size is {self.proj_size}; pass 0 to {self.hidden_size - 1}: less than hidden_size")
        if self.proj_size and self.mode != "LSTM":
            raise UsageError("only an LSTM projects its output; leave proj_size out")

    # -- weights ---------------------------------------------------------------------------------------------------

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _sizes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """The weights of one direction of one layer, in the order in which the operators want them."""
        rows, size = _GATES[self.mode] * self.hidden_size, self._output_size
        sizes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, size * self._directions if layer else self.input_size), "weight_hh": (rows, size),
        }  # fmt: skip
        if self.bias:
            sizes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            sizes["weight_hr"] = (self.proj_size, self.hidden_size)
        return sizes

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each direction of each layer."""
        return [
            [getattr(self, name + suffix) for name in self._sizes(layer)]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def _flat_weights(self) -> list[Any]:
        return [weight for group in self.all_weights for weight in group]

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Accepted; weights are used where they are."""

    # -- calling ---------------------------------------------------------------------------------------------------

    def _run(self, input: Any, states: Any) -> tuple[Any, ...]:
        """The outputs and the last states; `states` is the argument `hx` of the operator."""
        operator = getattr(F, _OPERATORS[self.mode])
        options = self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        if isinstance(input, PackedSequence):
            return operator(input.data, input.batch_sizes, states, *options)
        return operator(input, states, *options, self.batch_first)

    def _check_input(self, data: Any, ranks: tuple[int, ...]) -> None:
        name = type(self).__name__
        if data.ndim not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise ShapeError(f"{name}: expected an input of {wanted} dims, got the sizes {list(data.shape)}")
        if data.shape[-1] != self.input_size:
            raise ShapeError(f"{name}: expected elements of size {self.input_size}, got the sizes {list(data.shape)}")

    def _batch(self, input: Any) -> Any:
        """The number of sequences."""
        if not isinstance(input, PackedSequence):
            return input.shape[0 if self.batch_first else 1]
        if input.sorted_indices is not None:
            return input.sorted_indices.shape[0]
        return input.batch_sizes[0].item()

    def _started(self, hx: Any, size: int, batch: Any, input: Any) -> Any:
        """A state `[layers * directions, N, size]`: zeros, or the one given; ShapeError if it does not fit."""
        layers = self.num_layers * self._directions
        if hx is None:
            data = input.data if isinstance(input, PackedSequence) else input
            return F.zeros((layers, batch, size), dtype=data.dtype, device=data.device)
        if hx.ndim != 3 or tuple(hx.shape) != (layers, batch, size):
            wanted, given = [layers, batch, size], list(hx.shape)
            raise ShapeError(f"{type(self).__name__}: expected a state of sizes {wanted}, got {given}")
        return hx

    def extra_repr(self) -> str:
        options = [("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0),
                   ("bidirectional", False)]  # fmt: skip
        said = [f"{name}={getattr(self, name)}" for name, default in options if getattr(self, name) != default]
        return ", ".join([str(self.input_size), str(self.hidden_size), *said])

    def _forward(self, input: Any, hx: Any, sizes: tuple[int, ...]) -> tuple[Any, list[Any]]:
        """The outputs and the last states for an input in any form; `hx` has a state for each size, or is None."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx, sizes)
        self._check_input(input, (2, 3))
        if input.ndim == 3:
            return self._forward_batch(input, hx, sizes)
        alone = None if hx is None else tuple(_with_batch(self, state) for state in hx)
        dim = 0 if self.batch_first else 1
        output, last = self._forward_batch(F.unsqueeze(input, dim), alone, sizes)
        return F.squeeze(output, dim), [F.squeeze(state, 1) for state in last]

    def _forward_batch(self, input: Any, hx: Any, sizes: tuple[int, ...]) -> tuple[Any, list[Any]]:
        batch = self._batch(input)
        states = [self._started(h, size, batch, input) for h, size in zip(hx or (None,) * len(sizes), sizes)]
        output, *last = self._run(input, states if len(sizes) > 1 else states[0])
        return output, last

    def _forward_packed(self, input: PackedSequence, hx: Any, sizes: tuple[int, ...]) -> tuple[Any, list[Any]]:
        self._check_input(input.data, (2,))
        order, back = input.sorted_indices, input.unsorted_indices
        if hx is not None and order is not None:
            hx = tuple(F.index_select(state, 1, order) for state in hx)
        data, last = self._forward_batch(input, hx, sizes)
        if back is not None:
            last = [F.index_select(state, 1, back) for state in last]
        return input._replace(data=data), last


def _with_batch(module: RNNBase, state: Any) -> Any:
    """The state of one sequence without a batch as that of a batch of one."""
    if state.ndim != 2:
        given = list(state.shape)
        raise ShapeError(f"{type(module).__name__}: a sequence without a batch takes states of 2 dims, not {given}")
    return F.unsqueeze(state, 1)


class _OneState(RNNBase):
    """Networks whose state is one tensor."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Run over sequences.

        Args:
            input: `[L, N, input_size]`, `[N, L, input_size]` if `batch_first`, `[L, input_size]`, or packed.
            hx: The first state `[num_layers * directions, N, hidden_size]`, zeros if left out.

        Returns:
            The outputs of the last layer, `[L, N, directions * hidden_size]` in the form of the input, and the last
            state of each layer and direction, in the form of `hx`.

        Raises:
            ShapeError: The input or the state does not fit.
        """
        output, (last,) = self._forward(input, None if hx is None else (hx,), (self.hidden_size,))
        return output, last


class RNN(_OneState):
    """``h[t] = tanh(W_ih x[t] + b_ih + W_hh h[t-1] + b_hh)``, or the same with a ReLU (Elman, 1990).

    Args:
        input_size: Size of an element of the sequence.
        hidden_size: Size of the state.
        num_layers: How many layers; each reads the outputs of the one before.
        nonlinearity: "tanh" or "relu".
        args, kwargs: `bias`, `batch_first`, `dropout` and `bidirectional`, as of `RNNBase`.

    Shape:
        Input `[L, N, input_size]`; outputs `[L, N, directions * hidden_size]` and the last states
        `[num_layers * directions, N, hidden_size]`. With `batch_first`, N comes before L; a single sequence has no N.

    >>> import jit
    >>> output, h = jit.nn.RNN(3, 4, num_layers=2)(jit.zeros(5, 2, 3))
    >>> output.shape, h.shape
    (jit.Size([5, 2, 4]), jit.Size([2, 2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", *args: Any,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise UsageError(f"nonlinearity is {nonlinearity!r}; it must be 'tanh' or 'relu'")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(_OneState):
    """A gated recurrent unit (Cho et al., 2014) over sequences: ``h[t] = (1 - z) * n + z * h[t-1]``.

    With the gates ``r, z = sigmoid(W_ih x[t] + b_ih + W_hh h[t-1] + b_hh)`` and the candidate
    ``n = tanh(W_in x[t] + b_in + r * (W_hn h[t-1] + b_hn))``.

    Args:
        input_size: Size of an element of the sequence.
        hidden_size: Size of the state.
        args, kwargs: `num_layers`, `bias`, `batch_first`, `dropout` and `bidirectional`, as of `RNNBase`.

    Shape:
        Input `[L, N, input_size]`; outputs `[L, N, directions * hidden_size]` and the last states
        `[num_layers * directions, N, hidden_size]`. With `batch_first`, N comes before L; a single sequence has no N.

    >>> import jit
    >>> output, h = jit.nn.GRU(3, 4, batch_first=True, bidirectional=True)(jit.zeros(2, 5, 3))
    >>> output.shape, h.shape
    (jit.Size([2, 5, 8]), jit.Size([2, 2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", input_size, hidden_size, *args, **kwargs)


class LSTM(RNNBase):
    """A long short-term memory (Hochreiter and Schmidhuber, 1997) over sequences.

    ``c[t] = f * c[t-1] + i * g`` and ``h[t] = o * tanh(c[t])``, with the gates
    ``i, f, o = sigmoid(W_ih x[t] + b_ih + W_hh h[t-1] + b_hh)`` and the candidate g, the same with tanh.

    Args:
        input_size: Size of an element of the sequence.
        hidden_size: Size of the state.
        args, kwargs: `num_layers`, `bias`, `batch_first`, `dropout`, `bidirectional` and `proj_size`, as of `RNNBase`.

    Shape:
        Input `[L, N, input_size]`; outputs `[L, N, directions * hidden_size]` and the last states h and c,
        `[num_layers * directions, N, hidden_size]` each; outputs and h have `proj_size` instead if that is not zero.
        With `batch_first`, N comes before L in input and outputs; a single sequence has no N.

    >>> import jit
    >>> output, (h, c) = jit.nn.LSTM(3, 4)(jit.zeros(5, 2, 3))
    >>> output.shape, h.shape, c.shape
    (jit.Size([5, 2, 4]), jit.Size([1, 2, 4]), jit.Size([1, 2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", input_size, hidden_size, *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Any, Any]]:
        """Run over sequences.

        Args:
            input: `[L, N, input_size]`, `[N, L, input_size]` if `batch_first`, `[L, input_size]`, or packed.
            hx: The first states (h, c), `[num_layers * directions, N, size]` each, with `proj_size` or `hidden_size`
                for h and `hidden_size` for c; zeros if left out.

        Returns:
            The outputs of the last layer, in the form of the input, and the last states (h, c).

        Raises:
            ShapeError: The input or a state does not fit.
        """
        if hx is not None and len(hx) != 2:
            raise UsageError(f"LSTM: hx should be (h, c), got {len(hx)} tensors; pass a pair of states")
        output, (h, c) = self._forward(input, hx, (self._output_size, self.hidden_size))
        return output, (h, c)
