"""Layers of recurrent networks in one direction: one operator for all steps, and one for its way back.

Note [Layers are recurrences]
    A layer is one node whatever the length of the sequence, so a recording of a network serves all lengths. Products
    with the input, and the gradients of weights, are not part of the loop: each is one product over all steps.

        shares = linear(x, w_ih, b_ih)                  all steps at once
        h[t] = step(shares[t], h[t-1], w_hh)            aten::_lstm_layer
        d_shares[t], dh[t-1] = ...                      aten::_lstm_layer_backward
        d_w_hh = d_shares.T @ h[:-1]                    all steps at once

    Both say what a step is in other operators, too (`Op.recurrence`). Native code is made of that step
    (`jit.runtime.plans.loops`), a plan for one short length has all steps in a row (`jit.passes.unroll`), and second
    derivatives need them: where gradients of a backward are recorded, the layer is written step by step, and its way
    back as well. Such a recording belongs to one length.

    16-bit floats are widened once for all steps, not in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError
from jit.ir.op import Op, absent, array
from jit.ir.recurrence import Recurrence, unrolled
from jit.ir.samples import Sample, make, sample
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from .protocols import Array, KnownType, Numpy, Ops, Tensor

    Known: TypeAlias = Array | KnownType
Operands: TypeAlias = Sequence[Any]
"""Tensors of one step or call as the namespace of operators takes them, options, and None for what is left out."""

_STEPS = absent("it is exported step by step, so the length of sequences has to be fixed")
_TWICE = absent("it is differentiated step by step")

# -- what all layers share ---------------------------------------------------------------------------------------


def _check_layer(name: str, shares: Known, h: Known, w_hh: Known, *others: Known | None) -> None:
    """Refuse what does not fit; `others` are further tensors, whose dtypes have to be the same."""
    found = {_dtype_of(t) for t in (shares, h, w_hh, *others) if t is not None}
    if len(found) > 1:
        told = " and ".join(sorted(str(dtype) for dtype in found))
        raise DTypeError(f"{name}: expects one dtype for input, state and weights, got {told}; cast one of them")
    if next(iter(found)).is_integral:
        raise DTypeError(f"{name}: does not take integers; cast to a floating dtype first, e.g. x.float()")
    sizes = [tuple(t.shape) for t in (shares, h, w_hh)]
    if [len(each) for each in sizes] != [3, 2, 2]:
        raise ShapeError(f"{name}: expects an input of 3 dims, and a state and weights of 2, got the sizes {sizes}")
    (steps, batch, gates), (rows, size), weights = sizes
    if steps < 1:
        raise ShapeError(f"{name}: expects a sequence of at least one step, got none")
    if rows != batch:
        raise ShapeError(f"{name}: a batch of {batch} does not fit a state of the sizes {list(h.shape)}")
    if weights[0] != gates or weights[1] != size:
        raise ShapeError(f"{name}: w_hh should have the sizes {[gates, size]}, got {list(weights)}")


def _check_sizes(name: str, **expected: tuple[Known | None, Sequence[int]]) -> None:
    """Refuse tensors, given by name, that have not the sizes beside them."""
    for label, (given, sizes) in expected.items():
        if given is not None and (len(given.shape) != len(sizes) or any(a != b for a, b in zip(given.shape, sizes))):
            raise ShapeError(f"{name}: {label} should have the sizes {list(sizes)}, got {list(given.shape)}")


def _dtype_of(x: Known) -> dtypes.DType:
    return x.dtype if isinstance(x.dtype, dtypes.DType) else dtypes.from_numpy(x.dtype)


def _like(known: KnownType, *shape: int) -> TensorType:
    return TensorType(known.dtype, shape, None, known.device)


def _in_turn(steps: int, backwards: bool) -> Any:
    """The numbers of the steps, in the order in which they run."""
    return range(steps - 1, -1, -1) if backwards else range(steps)


def _empty(m: Numpy, like: Array, *shape: int) -> Array:
    """Memory of the kind of `like`."""
    return m.empty_like(like, shape=shape)


def _squash(m: Numpy, x: Array) -> None:
    """1 / (1 + exp(-x)) in place."""
    m.negative(x, out=x)
    m.exp(x, out=x)
    x += 1
    m.divide(1, x, out=x)


def _earlier(m: Numpy, first: Array, sequence: Array, backwards: bool) -> Array:
    """The states before each step: the first one, and what the other steps have left."""
    parts = [sequence[1:], first[None]] if backwards else [first[None], sequence[:-1]]
    return m.concatenate(parts)


def _earlier_rows(F: Ops, first: Tensor, sequence: Tensor, steps: int, backwards: bool) -> Tensor:
    """`_earlier` in operators, [time * batch, size]; `steps` is a size of an argument, which traces can follow."""
    rest = F.narrow(sequence, 0, 1 if backwards else 0, steps - 1)
    parts = [rest, F.unsqueeze(first, 0)] if backwards else [F.unsqueeze(first, 0), rest]
    return F.flatten(F.cat(parts, 0), 0, 1)


def _of_weight(F: Ops, by_results: Tensor, rows: Tensor) -> Tensor:
    """The gradient of a weight by which `rows` were multiplied, all steps at once."""
    return F.mm(F.t(F.flatten(by_results, 0, 1)), rows)


def _or_zeros(F: Ops, gradient: Tensor | None, like: Tensor) -> Tensor:
    return F.zeros_like(like) if gradient is None else gradient


def _run(F: Ops, op: Op, values: Operands) -> Any:
    """The results of a layer's backward, step by step where these have gradients in turn."""
    if F.is_grad_enabled():
        return unrolled(F, op.recurrence(*values))  # type: ignore[misc]
    return getattr(F, op.schema.name)(*values)


def _again(F: Ops, op: Op, values: Operands, out: Sequence[Tensor]) -> Any:
    """The results `out` of a layer, with the history of all steps where a second derivative asks for it."""
    return unrolled(F, op.recurrence(*values)) if F.is_grad_enabled() else out  # type: ignore[misc]


# -- LSTM --------------------------------------------------------------------------------------------------------


@array("aten::_lstm_layer(Tensor shares, Tensor h, Tensor c, Tensor w_hh, Tensor? w_hr, bool backwards) -> "
       "(Tensor, Tensor, Tensor, Tensor, Tensor)", namespaces=(), differentiable=(0, 3, 4), onnx=_STEPS)  # fmt: skip
def lstm_layer(
    m: Numpy, shares: Array, h: Array, c: Array, w_hh: Array, w_hr: Array | None, backwards: bool
) -> Sequence[Array]:
    """(outputs, gates, cells, last h, last c) of one direction of an LSTM; `shares` are the input's of the gates.

    shares is [time, batch, 4 * hidden], w_hh [4 * hidden, size]; w_hr [size, hidden] makes outputs smaller.
    """
    _check_lstm(shares, h, c, w_hh, w_hr)
    (steps, batch, _), size, hidden = shares.shape, h.shape[1], c.shape[1]
    out = _empty(m, shares, steps, batch, size)
    gates, cells = _empty(m, shares, *shares.shape), _empty(m, shares, steps, batch, hidden)
    across, candidate, output = w_hh.T.copy(), _empty(m, c, *c.shape), _empty(m, c, *c.shape)
    for t in _in_turn(steps, backwards):
        now = gates[t]
        m.matmul(h, across, out=now)
        now += shares[t]
        m.tanh(now[:, 2 * hidden : 3 * hidden], out=candidate)
        _squash(m, now)
        now[:, 2 * hidden : 3 * hidden] = candidate
        c = m.multiply(now[:, hidden : 2 * hidden], c, out=cells[t])
        candidate *= now[:, :hidden]
        c += candidate
        m.tanh(c, out=output)
        h = m.multiply(now[:, 3 * hidden :], output, out=out[t] if w_hr is None else output)
        if w_hr is not None:
            h = m.matmul(h, w_hr.T, out=out[t])
    return out, gates, cells, h.copy(), c.copy()


def _check_lstm(shares: Known, h: Known, c: Known, w_hh: Known, w_hr: Known | None) -> None:
    _check_layer("lstm", shares, h, w_hh, c, w_hr)
    batch, size = h.shape
    hidden = size if w_hr is None else w_hr.shape[-1]
    _check_sizes("lstm", c=(c, (batch, hidden)), w_hr=(w_hr, (size, hidden)), w_hh=(w_hh, (4 * hidden, size)))


def _lstm_step(F: Ops, state: Operands, slices: Operands, constants: Operands) -> Any:
    (h, c), (share,), (w_hh, w_hr) = state, slices, constants
    enter, forget, candidate, leave = F.chunk(share + F.linear(h, w_hh), 4, -1)
    enter, forget, candidate, leave = F.sigmoid(enter), F.sigmoid(forget), F.tanh(candidate), F.sigmoid(leave)
    c = forget * c + enter * candidate
    h = leave * F.tanh(c)
    h = h if w_hr is None else F.linear(h, w_hr)
    return (h, c), (h, F.cat([enter, forget, candidate, leave], -1), c)


@lstm_layer.steps
def _(shares: Tensor, h: Tensor, c: Tensor, w_hh: Tensor, w_hr: Tensor | None, backwards: bool) -> Recurrence:
    return Recurrence(_lstm_step, (h, c), (shares,), (w_hh, w_hr), backwards=backwards)


@lstm_layer.type
def _(
    shares: KnownType, h: KnownType, c: KnownType, w_hh: KnownType, w_hr: KnownType | None, backwards: bool
) -> Sequence[TensorType]:
    _check_lstm(shares, h, c, w_hh, w_hr)
    (steps, batch, _), size, hidden = shares.shape, h.shape[1], c.shape[1]
    every = [_like(shares, steps, batch, n) for n in (size, 4 * hidden, hidden)]
    return *every, _like(shares, batch, size), _like(shares, batch, hidden)


@lstm_layer.grad
def _(
    F: Ops, g: Sequence[Tensor | None], needs: Sequence[bool], out: Sequence[Tensor], shares: Tensor, h: Tensor,
    c: Tensor, w_hh: Tensor, w_hr: Tensor | None, backwards: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    found = _again(F, lstm_layer, (shares, h, c, w_hh, w_hr, backwards), out)
    by_h, by_c = _or_zeros(F, g[1], h), _or_zeros(F, g[2], c)
    values = found[1], found[2], g[0], by_h, by_c, c, w_hh, w_hr, backwards
    by_gates, by_first_h, by_first_c = _run(F, lstm_layer_backward, values)
    by_w_hh = _of_weight(F, by_gates, _earlier_rows(F, h, found[0], shares.shape[0], backwards)) if needs[3] else None
    by_w_hr = None
    if w_hr is not None and needs[4]:
        hidden = c.shape[1]
        whole = F.narrow(found[1], -1, 3 * hidden, hidden) * F.tanh(found[2])
        by_w_hr = _of_weight(F, _by_outputs(F, g[0], by_h, by_gates, w_hh, backwards), F.flatten(whole, 0, 1))
    return by_gates, by_first_h, by_first_c, by_w_hh, by_w_hr


def _by_outputs(F: Ops, given: Tensor | None, by_h: Tensor, by_gates: Tensor, w_hh: Tensor, backwards: bool) -> Tensor:
    """The gradient of each output: what was given, and what the next step has handed back."""
    steps = by_gates.shape[0]
    rest = F.matmul(F.narrow(by_gates, 0, 0 if backwards else 1, steps - 1), w_hh)
    last = F.unsqueeze(by_h, 0)
    handed = F.cat([last, rest] if backwards else [rest, last], 0)
    return handed if given is None else handed + given


@array("aten::_lstm_layer_backward(Tensor gates, Tensor cells, Tensor? grad_out, Tensor grad_h, Tensor grad_c, "
       "Tensor c, Tensor w_hh, Tensor? w_hr, bool backwards) -> (Tensor, Tensor, Tensor)", namespaces=(),
       differentiable=(0, 1, 2), grad=_TWICE, onnx=_STEPS)  # fmt: skip
def lstm_layer_backward(
    m: Numpy, gates: Array, cells: Array, grad_out: Array | None, grad_h: Array, grad_c: Array, c: Array, w_hh: Array,
    w_hr: Array | None, backwards: bool,
) -> Sequence[Array]:  # fmt: skip
    """The gradients of an LSTM layer's shares, first h and first c."""
    _check_lstm_backward(gates, cells, grad_out, grad_h, grad_c, c, w_hh, w_hr)
    parts = gates.reshape(*gates.shape[:2], 4, c.shape[1])
    enter, forget, candidate, leave = (parts[:, :, k] for k in range(4))
    squashed = m.tanh(cells)
    through = leave * (1 - squashed * squashed)
    by_gates = 1 - parts
    by_gates *= parts
    by_gates[:, :, 0] *= candidate
    by_gates[:, :, 1] *= _earlier(m, c, cells, backwards)
    by_gates[:, :, 2] = enter * (1 - candidate * candidate)
    by_gates[:, :, 3] *= squashed
    by_h, by_c = grad_h.copy(), grad_c.copy()
    for t in _in_turn(len(gates), not backwards):
        if grad_out is not None:
            by_h += grad_out[t]
        by_output = by_h if w_hr is None else m.matmul(by_h, w_hr)
        by_c += by_output * through[t]
        by_gates[t, :, :3] *= by_c[:, None]
        by_gates[t, :, 3] *= by_output
        m.matmul(by_gates[t].reshape(len(by_h), gates.shape[2]), w_hh, out=by_h)
        by_c *= forget[t]
    return by_gates.reshape(gates.shape), by_h, by_c


def _check_lstm_backward(
    gates: Known, cells: Known, grad_out: Known | None, grad_h: Known, grad_c: Known, c: Known, w_hh: Known,
    w_hr: Known | None,
) -> None:  # fmt: skip
    (steps, batch, _), size, hidden = gates.shape, grad_h.shape[-1], c.shape[-1]
    _check_sizes(
        "_lstm_layer_backward", gates=(gates, (steps, batch, 4 * hidden)), cells=(cells, (steps, batch, hidden)),
        grad_out=(grad_out, (steps, batch, size)), grad_h=(grad_h, (batch, size)), grad_c=(grad_c, (batch, hidden)),
        c=(c, (batch, hidden)), w_hh=(w_hh, (4 * hidden, size)), w_hr=(w_hr, (size, hidden)),
    )  # fmt: skip


def _lstm_step_back(F: Ops, state: Operands, slices: Operands, constants: Operands) -> Any:
    (by_h, by_c), (gates, cell, given, before), (w_hh, w_hr) = state, slices, constants
    by_h = by_h if given is None else by_h + given
    by_h = by_h if w_hr is None else F.mm(by_h, w_hr)
    enter, forget, candidate, leave = F.chunk(gates, 4, -1)
    squashed = F.tanh(cell)
    by_c = by_c + by_h * (leave * (1 - squashed * squashed))
    by_enter, by_forget = by_c * (candidate * (enter * (1 - enter))), by_c * (before * (forget * (1 - forget)))
    by_candidate, by_leave = by_c * (enter * (1 - candidate * candidate)), by_h * (squashed * (leave * (1 - leave)))
    by_gates = F.cat([by_enter, by_forget, by_candidate, by_leave], -1)
    return (F.mm(by_gates, w_hh), by_c * forget), (by_gates,)


@lstm_layer_backward.steps
def _(
    gates: Tensor,
    cells: Tensor,
    grad_out: Tensor | None,
    grad_h: Tensor,
    grad_c: Tensor,
    c: Tensor,
    w_hh: Tensor,
    w_hr: Tensor | None,
    backwards: bool,
) -> Recurrence:
    return Recurrence(
        _lstm_step_back, (grad_h, grad_c), (gates, cells, grad_out), (w_hh, w_hr), ((c, cells),), not backwards
    )


@lstm_layer_backward.type
def _(
    gates: KnownType, cells: KnownType, grad_out: KnownType | None, grad_h: KnownType, grad_c: KnownType, c: KnownType,
    w_hh: KnownType, w_hr: KnownType | None, backwards: bool,
) -> Sequence[TensorType]:  # fmt: skip
    _check_lstm_backward(gates, cells, grad_out, grad_h, grad_c, c, w_hh, w_hr)
    return tuple(_like(each, *each.shape) for each in (gates, grad_h, grad_c))


# -- GRU ---------------------------------------------------------------------------------------------------------


@array("aten::_gru_layer(Tensor shares, Tensor h, Tensor w_hh, Tensor? b_hh, bool backwards) -> "
       "(Tensor, Tensor, Tensor)", namespaces=(), differentiable=(0, 2), onnx=_STEPS)  # fmt: skip
def gru_layer(m: Numpy, shares: Array, h: Array, w_hh: Array, b_hh: Array | None, backwards: bool) -> Sequence[Array]:
    """(outputs, gates, last h) of one direction of a GRU; `shares` are the input's of the gates.

    shares is [time, batch, 3 * hidden]. The gates are reset, update and candidate, and the state's share of the latter.
    """
    _check_gru(shares, h, w_hh, b_hh)
    (steps, batch, _), size = shares.shape, h.shape[1]
    out = _empty(m, shares, steps, batch, size)
    gates = _empty(m, shares, steps, batch, 4 * size)
    across, of_state = w_hh.T.copy(), _empty(m, shares, batch, 3 * size)
    for t in _in_turn(steps, backwards):
        now = gates[t]
        both, candidate = now[:, : 2 * size], now[:, 2 * size : 3 * size]
        m.matmul(h, across, out=of_state)
        if b_hh is not None:
            of_state += b_hh
        m.add(shares[t, :, : 2 * size], of_state[:, : 2 * size], out=both)
        _squash(m, both)
        now[:, 3 * size :] = of_state[:, 2 * size :]
        m.multiply(now[:, :size], of_state[:, 2 * size :], out=candidate)
        candidate += shares[t, :, 2 * size :]
        m.tanh(candidate, out=candidate)
        h = m.subtract(h, candidate, out=out[t])
        h *= now[:, size : 2 * size]
        h += candidate
    return out, gates, h.copy()


def _check_gru(shares: Known, h: Known, w_hh: Known, b_hh: Known | None) -> None:
    _check_layer("gru", shares, h, w_hh, b_hh)
    size = h.shape[1]
    _check_sizes("gru", w_hh=(w_hh, (3 * size, size)), b_hh=(b_hh, (3 * size,)))


def _gru_step(F: Ops, state: Operands, slices: Operands, constants: Operands) -> Any:
    (h,), (share,), (w_hh, b_hh) = state, slices, constants
    input_reset, input_update, input_new = F.chunk(share, 3, -1)
    of_state = F.linear(h, w_hh)
    reset, update, new = F.chunk(of_state if b_hh is None else of_state + b_hh, 3, -1)
    reset, update = F.sigmoid(input_reset + reset), F.sigmoid(input_update + update)
    candidate = F.tanh(input_new + reset * new)
    h = candidate + update * (h - candidate)
    return (h,), (h, F.cat([reset, update, candidate, new], -1))


@gru_layer.steps
def _(shares: Tensor, h: Tensor, w_hh: Tensor, b_hh: Tensor | None, backwards: bool) -> Recurrence:
    return Recurrence(_gru_step, (h,), (shares,), (w_hh, b_hh), backwards=backwards)


@gru_layer.type
def _(
    shares: KnownType, h: KnownType, w_hh: KnownType, b_hh: KnownType | None, backwards: bool
) -> Sequence[TensorType]:
    _check_gru(shares, h, w_hh, b_hh)
    (steps, batch, _), size = shares.shape, h.shape[1]
    return _like(shares, steps, batch, size), _like(shares, steps, batch, 4 * size), _like(shares, batch, size)


@gru_layer.grad
def _(
    F: Ops, g: Sequence[Tensor | None], needs: Sequence[bool], out: Sequence[Tensor], shares: Tensor, h: Tensor,
    w_hh: Tensor, b_hh: Tensor | None, backwards: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    found = _again(F, gru_layer, (shares, h, w_hh, b_hh, backwards), out)
    values = found[1], found[0], g[0], _or_zeros(F, g[1], h), h, w_hh, backwards
    by_shares, by_hidden, by_first = _run(F, gru_layer_backward, values)
    by_w_hh = _of_weight(F, by_hidden, _earlier_rows(F, h, found[0], shares.shape[0], backwards)) if needs[2] else None
    return by_shares, by_first, by_w_hh, F.sum(by_hidden, [0, 1]) if b_hh is not None and needs[3] else None


@array("aten::_gru_layer_backward(Tensor gates, Tensor outputs, Tensor? grad_out, Tensor grad_h, Tensor h, "
       "Tensor w_hh, bool backwards) -> (Tensor, Tensor, Tensor)", namespaces=(), differentiable=(0, 1, 2),
       grad=_TWICE, onnx=_STEPS)  # fmt: skip
def gru_layer_backward(
    m: Numpy, gates: Array, outputs: Array, grad_out: Array | None, grad_h: Array, h: Array, w_hh: Array,
    backwards: bool,
) -> Sequence[Array]:  # fmt: skip
    """The gradients of a GRU layer's shares, of the state's shares, and of the first h."""
    _check_gru_backward(gates, outputs, grad_out, grad_h, h, w_hh)
    (steps, batch, _), size = gates.shape, h.shape[1]
    parts = gates.reshape(steps, batch, 4, size)
    reset, update, candidate, new = (parts[:, :, k] for k in range(4))
    by_candidate = (1 - update) * (1 - candidate * candidate)
    by_hidden = _empty(m, gates, steps, batch, 3, size)
    m.multiply(by_candidate * new, reset * (1 - reset), out=by_hidden[:, :, 0])
    m.multiply(_earlier(m, h, outputs, backwards) - candidate, update * (1 - update), out=by_hidden[:, :, 1])
    m.multiply(by_candidate, reset, out=by_hidden[:, :, 2])
    by_h, kept = grad_h.copy(), _empty(m, grad_h, *grad_h.shape)
    for t in _in_turn(steps, not backwards):
        if grad_out is not None:
            by_h += grad_out[t]
        by_hidden[t] *= by_h[:, None]
        by_candidate[t] *= by_h
        m.multiply(by_h, update[t], out=kept)
        m.matmul(by_hidden[t].reshape(batch, 3 * size), w_hh, out=by_h)
        by_h += kept
    flat = by_hidden.reshape(steps, batch, 3 * size)
    return m.concatenate([flat[:, :, : 2 * size], by_candidate], axis=2), flat, by_h


def _check_gru_backward(
    gates: Known, outputs: Known, grad_out: Known | None, grad_h: Known, h: Known, w_hh: Known
) -> None:
    (steps, batch, _), size = gates.shape, h.shape[-1]
    _check_sizes(
        "_gru_layer_backward", gates=(gates, (steps, batch, 4 * size)), outputs=(outputs, (steps, batch, size)),
        grad_out=(grad_out, (steps, batch, size)), grad_h=(grad_h, (batch, size)), h=(h, (batch, size)),
        w_hh=(w_hh, (3 * size, size)),
    )  # fmt: skip


def _gru_step_back(F: Ops, state: Operands, slices: Operands, constants: Operands) -> Any:
    (by_h,), (gates, given, before), (w_hh,) = state, slices, constants
    by_h = by_h if given is None else by_h + given
    reset, update, candidate, new = F.chunk(gates, 4, -1)
    by_candidate = by_h * ((1 - update) * (1 - candidate * candidate))
    by_update = by_h * ((before - candidate) * (update * (1 - update)))
    by_reset = by_candidate * (new * (reset * (1 - reset)))
    by_shares = F.cat([by_reset, by_update, by_candidate], -1)
    by_hidden = F.cat([by_reset, by_update, by_candidate * reset], -1)
    return (by_h * update + F.mm(by_hidden, w_hh),), (by_shares, by_hidden)


@gru_layer_backward.steps
def _(
    gates: Tensor, outputs: Tensor, grad_out: Tensor | None, grad_h: Tensor, h: Tensor, w_hh: Tensor, backwards: bool
) -> Recurrence:
    return Recurrence(_gru_step_back, (grad_h,), (gates, grad_out), (w_hh,), ((h, outputs),), not backwards)


@gru_layer_backward.type
def _(
    gates: KnownType, outputs: KnownType, grad_out: KnownType | None, grad_h: KnownType, h: KnownType,
    w_hh: KnownType, backwards: bool,
) -> Sequence[TensorType]:  # fmt: skip
    _check_gru_backward(gates, outputs, grad_out, grad_h, h, w_hh)
    (steps, batch, _), size = gates.shape, h.shape[1]
    of_gates = _like(gates, steps, batch, 3 * size)
    return of_gates, of_gates, _like(grad_h, batch, size)


# -- plain networks ----------------------------------------------------------------------------------------------


@array("aten::_rnn_layer(Tensor shares, Tensor h, Tensor w_hh, bool relu, bool backwards) -> (Tensor, Tensor)",
       namespaces=(), differentiable=(0, 1), onnx=_STEPS)  # fmt: skip
def rnn_layer(m: Numpy, shares: Array, h: Array, w_hh: Array, relu: bool, backwards: bool) -> Sequence[Array]:
    """(outputs, last h) of one direction of a plain network with tanh or relu; `shares` are the input's."""
    _check_plain(shares, h, w_hh, relu)
    out, across = _empty(m, shares, *shares.shape), w_hh.T.copy()
    for t in _in_turn(len(shares), backwards):
        now = m.matmul(h, across, out=out[t])
        now += shares[t]
        h = m.maximum(now, 0, out=now) if relu else m.tanh(now, out=now)
    return out, h.copy()


def _check_plain(shares: Known, h: Known, w_hh: Known, relu: bool) -> None:
    _check_layer("rnn", shares, h, w_hh)
    _check_sizes("rnn", w_hh=(w_hh, (h.shape[1], h.shape[1])))
    if relu and _dtype_of(shares).is_complex:
        raise DTypeError("rnn: relu does not take complex tensors, which have no order; use tanh")


def _rnn_step(F: Ops, state: Operands, slices: Operands, constants: Operands) -> Any:
    (h,), (share,), (w_hh, relu) = state, slices, constants
    total = share + F.linear(h, w_hh)
    h = F.relu(total) if relu else F.tanh(total)
    return (h,), (h,)


@rnn_layer.steps
def _(shares: Tensor, h: Tensor, w_hh: Tensor, relu: bool, backwards: bool) -> Recurrence:
    return Recurrence(_rnn_step, (h,), (shares,), (w_hh, relu), backwards=backwards)


@rnn_layer.type
def _(shares: KnownType, h: KnownType, w_hh: KnownType, relu: bool, backwards: bool) -> Sequence[TensorType]:
    _check_plain(shares, h, w_hh, relu)
    return _like(shares, *shares.shape), _like(h, *h.shape)


@rnn_layer.grad
def _(
    F: Ops, g: Sequence[Tensor | None], needs: Sequence[bool], out: Sequence[Tensor], shares: Tensor, h: Tensor,
    w_hh: Tensor, relu: bool, backwards: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    found = _again(F, rnn_layer, (shares, h, w_hh, relu, backwards), out)
    values = found[0], g[0], _or_zeros(F, g[1], h), w_hh, relu, backwards
    by_shares, by_first = _run(F, rnn_layer_backward, values)
    by_w_hh = _of_weight(F, by_shares, _earlier_rows(F, h, found[0], shares.shape[0], backwards)) if needs[2] else None
    return by_shares, by_first, by_w_hh


@array("aten::_rnn_layer_backward(Tensor outputs, Tensor? grad_out, Tensor grad_h, Tensor w_hh, bool relu, "
       "bool backwards) -> (Tensor, Tensor)", namespaces=(), differentiable=(0, 1), grad=_TWICE,
       onnx=_STEPS)  # fmt: skip
def rnn_layer_backward(
    m: Numpy, outputs: Array, grad_out: Array | None, grad_h: Array, w_hh: Array, relu: bool, backwards: bool
) -> Sequence[Array]:
    """The gradients of a plain layer's shares and of its first h."""
    _check_rnn_backward(outputs, grad_out, grad_h, w_hh)
    by_shares = (outputs > 0).astype(outputs.dtype) if relu else 1 - outputs * outputs
    by_h = grad_h.copy()
    for t in _in_turn(len(outputs), not backwards):
        if grad_out is not None:
            by_h += grad_out[t]
        by_shares[t] = m.where(by_shares[t] > 0, by_h, 0) if relu else by_shares[t] * by_h
        m.matmul(by_shares[t], w_hh, out=by_h)
    return by_shares, by_h


def _check_rnn_backward(outputs: Known, grad_out: Known | None, grad_h: Known, w_hh: Known) -> None:
    steps, batch, size = outputs.shape
    _check_sizes(
        "_rnn_layer_backward", grad_out=(grad_out, (steps, batch, size)), grad_h=(grad_h, (batch, size)),
        w_hh=(w_hh, (size, size)),
    )  # fmt: skip


def _rnn_step_back(F: Ops, state: Operands, slices: Operands, constants: Operands) -> Any:
    (by_h,), (output, given), (w_hh, relu) = state, slices, constants
    by_h = by_h if given is None else by_h + given
    by_share = F.threshold_backward(by_h, output, 0) if relu else F.tanh_backward(by_h, output)
    return (F.mm(by_share, w_hh),), (by_share,)


@rnn_layer_backward.steps
def _(
    outputs: Tensor, grad_out: Tensor | None, grad_h: Tensor, w_hh: Tensor, relu: bool, backwards: bool
) -> Recurrence:
    return Recurrence(_rnn_step_back, (grad_h,), (outputs, grad_out), (w_hh, relu), backwards=not backwards)


@rnn_layer_backward.type
def _(
    outputs: KnownType, grad_out: KnownType | None, grad_h: KnownType, w_hh: KnownType, relu: bool, backwards: bool
) -> Sequence[TensorType]:
    _check_rnn_backward(outputs, grad_out, grad_h, w_hh)
    return _like(outputs, *outputs.shape), _like(grad_h, *grad_h.shape)


# -- samples -----------------------------------------------------------------------------------------------------


def _sizes() -> Iterator[tuple[dict[str, Any], tuple[int, int, int]]]:
    """Sizes of samples: what is awkward about one, and its steps, batch and hidden size."""
    yield {}, (3, 2, 2)
    yield dict(note="one step of one sequence"), (1, 1, 2)
    yield dict(note="empty", grad=False), (2, 0, 2)
    yield dict(note="float64"), (2, 2, 1)
    yield dict(note="half", grad=False), (3, 2, 2)


def _made(note: dict[str, str], *shapes: tuple[int, ...] | None) -> list[Any]:
    """An array for each shape, of the dtype that a note names; None where there is none."""
    dtype = {"half": "float16", "float64": "float64"}.get(note.get("note", ""), "float32")
    return [None if s is None else make(*s, low=-1, high=1, dtype=dtype, seed=i) for i, s in enumerate(shapes)]


@lstm_layer.samples
def _() -> Iterator[Sample]:
    for number, (note, (t, n, k)) in enumerate(_sizes()):
        shares, h, c, w_hh = _made(note, (t, n, 4 * k), (n, k), (n, k), (4 * k, k))
        yield sample(shares, h, c, w_hh, None, number % 2 == 1, **note)
    for backwards in (False, True):
        shares, h, c, w_hh, w_hr = _made({}, (3, 2, 8), (2, 1), (2, 2), (8, 1), (1, 2))
        yield sample(shares, h, c, w_hh, w_hr, backwards, note="projected")


@lstm_layer_backward.samples
def _() -> Iterator[Sample]:
    for number, (note, (t, n, k)) in enumerate(_sizes()):
        every = _made(note, (t, n, 4 * k), (t, n, k), (t, n, k), (n, k), (n, k), (n, k), (4 * k, k))
        if number == 1:
            every[2] = None
        yield sample(*every, None, number % 2 == 1, note=note.get("note", ""), grad=False)
    every = _made({}, (3, 2, 8), (3, 2, 2), (3, 2, 1), (2, 1), (2, 2), (2, 2), (8, 1), (1, 2))
    yield sample(*every, False, note="projected", grad=False)


@gru_layer.samples
def _() -> Iterator[Sample]:
    for number, (note, (t, n, k)) in enumerate(_sizes()):
        bias = None if number == 1 else (3 * k,)
        yield sample(*_made(note, (t, n, 3 * k), (n, k), (3 * k, k), bias), number % 2 == 1, **note)


@gru_layer_backward.samples
def _() -> Iterator[Sample]:
    for number, (note, (t, n, k)) in enumerate(_sizes()):
        grad_out = None if number == 1 else (t, n, k)
        every = _made(note, (t, n, 4 * k), (t, n, k), grad_out, (n, k), (n, k), (3 * k, k))
        yield sample(*every, number % 2 == 1, note=note.get("note", ""), grad=False)


@rnn_layer.samples
def _() -> Iterator[Sample]:
    for number, (note, (t, n, k)) in enumerate(_sizes()):
        every = _made(note, (t, n, k), (n, k), (k, k))
        yield sample(*every, False, number % 2 == 1, **note)
        yield sample(*every, True, number % 2 == 0, **note)


@rnn_layer_backward.samples
def _() -> Iterator[Sample]:
    for number, (note, (t, n, k)) in enumerate(_sizes()):
        outputs, grad_out, grad_h, w_hh = _made(note, (t, n, k), None if number == 1 else (t, n, k), (n, k), (k, k))
        yield sample(outputs, grad_out, grad_h, w_hh, False, False, note=note.get("note", ""), grad=False)
        yield sample(outputs, grad_out, grad_h, w_hh, True, True, note=note.get("note", ""), grad=False)
