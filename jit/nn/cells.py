"""Recurrent cells: one step of an RNN, LSTM or GRU, written in plain operators so that a trace can fuse them."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError

from . import functional, init
from .modules import Module
from .parameter import Parameter


class RNNCellBase(Module):
    """Two linear maps, of the input and of the hidden state, for several gates at once.

    Args:
        input_size: Size of the input.
        hidden_size: Size of the state.
        bias: Whether to add biases.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.
    """

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        self.weight_ih = Parameter(F.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(F.empty((rows, hidden_size), device=device, dtype=dtype))
        self.register_parameter("bias_ih", Parameter(F.empty((rows,), device=device, dtype=dtype)) if bias else None)
        self.register_parameter("bias_hh", Parameter(F.empty((rows,), device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _start(self, input: Any, hx: Any) -> Any:
        """`hx`, or zeros; ShapeError if it does not fit the input."""
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ShapeError(f"{name}: expected an input of 1 or 2 dims, got the sizes {list(input.shape)}")
        if input.shape[-1] != self.input_size:
            raise ShapeError(f"{name}: expected an input of size {self.input_size}, got {list(input.shape)}")
        wanted = (*input.shape[:-1], self.hidden_size)
        if hx is None:
            return F.zeros(wanted, dtype=input.dtype, device=input.device)
        if tuple(hx.shape) != wanted:
            raise ShapeError(f"{name}: expected a state of sizes {list(wanted)}, got {list(hx.shape)}")
        return hx

    def _maps(self, input: Any, hidden: Any) -> tuple[Any, Any]:
        from_hidden = functional.linear(hidden, self.weight_hh, self.bias_hh)
        return functional.linear(input, self.weight_ih, self.bias_ih), from_hidden

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """``tanh(W_ih x + b_ih + W_hh h + b_hh)``, or the same with a ReLU.

    Args:
        input_size: Size of the input.
        hidden_size: Size of the state.
        bias: Whether to add biases.
        nonlinearity: "tanh" or "relu".
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Input `[N, input_size]` or `[input_size]`, state and output `[N, hidden_size]` or `[hidden_size]`.

    >>> import jit
    >>> jit.nn.RNNCell(3, 4)(jit.zeros(2, 3)).shape
    jit.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise UsageError(f"nonlinearity is {nonlinearity!r}; it must be 'tanh' or 'relu'")
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Args: input `[N, input_size]` (or no N), hx `[N, hidden_size]` or None for zeros. Returns: the next hx."""
        from_input, from_hidden = self._maps(input, self._start(input, hx))
        return getattr(F, self.nonlinearity)(from_input + from_hidden)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory (Hochreiter and Schmidhuber, 1997).

    Args:
        input_size: Size of the input.
        hidden_size: Size of both states.
        bias: Whether to add biases.

    Shape:
        Input `[N, input_size]` or `[input_size]`, states h and c `[N, hidden_size]` or `[hidden_size]`, zeros if left
        out; output the next (h, c).

    >>> import jit
    >>> h, c = jit.nn.LSTMCell(3, 4)(jit.zeros(2, 3))
    >>> h.shape, c.shape
    (jit.Size([2, 4]), jit.Size([2, 4]))
    """

    gates = 4

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Args: input `[N, input_size]` (or no N), hx a pair of `[N, hidden_size]` or None. Returns: the next pair."""
        hidden, cell = (self._start(input, state) for state in ((None, None) if hx is None else hx))
        from_input, from_hidden = self._maps(input, hidden)
        enter, forget, candidate, leave = (from_input + from_hidden).chunk(4, -1)
        cell = F.sigmoid(forget) * cell + F.sigmoid(enter) * F.tanh(candidate)
        return F.sigmoid(leave) * F.tanh(cell), cell


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit (Cho et al., 2014).

    Args:
        input_size: Size of the input.
        hidden_size: Size of the state.
        bias: Whether to add biases.

    Shape:
        Input `[N, input_size]` or `[input_size]`, state and output `[N, hidden_size]` or `[hidden_size]`.

    >>> import jit
    >>> jit.nn.GRUCell(3, 4)(jit.zeros(2, 3)).shape
    jit.Size([2, 4])
    """

    gates = 3

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Args: input `[N, input_size]` (or no N), hx `[N, hidden_size]` or None for zeros. Returns: the next hx."""
        hidden = self._start(input, hx)
        from_input, from_hidden = self._maps(input, hidden)
        reset_input, update_input, new_input = from_input.chunk(3, -1)
        reset_hidden, update_hidden, new_hidden = from_hidden.chunk(3, -1)
        update = F.sigmoid(update_input + update_hidden)
        new = F.tanh(new_input + F.sigmoid(reset_input + reset_hidden) * new_hidden)
        return new + update * (hidden - new)
