"""`Layer`: what a `vmap` under way sees of the operators that run, and `Batched`, the tensors that its function gets.

Note [Batched tensors]
    A Batched tensor stands for one sample to whoever looks at it: its sizes are those of a sample, and what it holds is
    the first one. Behind it is the tensor of all samples, which lie along dim 0. A Layer takes the place of the
    recorder while the function runs: each operator comes to it, and it runs an operator on all samples at once, as
    `rules` say. What it runs goes to whoever was the recorder before: another Layer, a trace, or nobody. Derivatives
    belong to the tensors of all samples. So nothing of this package but its dispatch knows of batches.

    Elements of a Batched tensor cannot be looked at: there are as many as samples. Behind the end of the `vmap` the
    tensors are of no use, and say so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jit.eager.context import TRACE, is_grad_enabled, tracing
from jit.eager.dispatch import call_inplace
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor, Variable
from jit.ir import Op
from jit.ir.errors import UsageError

Rules = Callable[["Layer", Any, Sequence[Any]], Any]
"""`rules.run` or `rules.apply_function`."""


class VmapError(UsageError):
    """The error for what cannot be done to all samples at once."""


class RandomnessError(VmapError):
    """The error for random numbers of which it is not said whether samples get the same ones."""


class Batched(Variable):
    """A sample, for a function that runs on all of them at once; see Note [Batched tensors]."""

    __slots__ = ("_first", "_layer", "_real")
    _is_sample = True

    _first: Any
    """The array of the first sample."""

    _real: Tensor
    """The tensor of all samples, along dim 0."""
    _layer: Layer
    """The `vmap` to which it belongs."""

    @property
    def _array(self) -> Any:
        """The array of the first sample, for operators that run in the layer: elsewhere it would be taken for all."""
        if not self._layer.is_within(TRACE.get()):
            raise VmapError("a tensor of a function under vmap is used after its end; let the function return it")
        return self._first

    @_array.setter
    def _array(self, array: Any) -> None:
        self._first = array

    def _defined(self) -> Any:
        return self._first

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow into this tensor."""
        return self._real.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._real.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for gradients with respect to this tensor."""
        self._real.requires_grad_(requires_grad)
        return self

    @property
    def grad_fn(self) -> Any:
        """The node that computes the gradient of all samples."""
        return self._real.grad_fn

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        """The same memory without history."""
        return self.detach()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise VmapError("a tensor of a function under vmap can be neither copied by Python nor pickled; use .clone()")


class Layer:
    """A `vmap` under way.

    Args:
        size: The number of samples.
        run: Runs an operator on all samples, given this layer, the operator and its arguments.
        apply_function: Likewise for an autograd.Function.
        randomness: What is done about random numbers: "error", "different" or "same".
    """

    def __init__(self, size: Any, run: Rules, apply_function: Rules, randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness
        self._run, self._apply_function = run, apply_function
        self.outer = TRACE.get()
        """Whoever gets what this one runs."""
        self.beneath = getattr(self.outer, "beneath", self.outer)
        """The trace that records, if there is one."""

    @contextmanager
    def running(self) -> Iterator[Layer]:
        """The block in which operators come to this layer."""
        with tracing(self):
            yield self

    def again(self) -> Layer:
        """A `vmap` like this one, over what runs now."""
        return Layer(self.size, self._run, self._apply_function, self.randomness)

    def is_within(self, recorder: Any) -> bool:
        """Whether this layer is the recorder, or one of those that get what the recorder runs."""
        while isinstance(recorder, Layer):
            if recorder is self:
                return True
            recorder = recorder.outer
        return False

    def outside(self) -> Any:
        """A block in which operators come to whoever was there before."""
        return tracing(self.outer)

    def running_again(self) -> Any:
        """A block, within what runs outside, in which operators come to this layer."""
        return tracing(self)

    # -- tensors -------------------------------------------------------------------------------------------------

    def holds(self, value: Any) -> bool:
        """Whether a tensor, or one in a list, is batched here."""
        if isinstance(value, (tuple, list)):
            return any(map(self.holds, value))
        return isinstance(value, Batched) and value._layer is self

    def batched(self, real: Tensor) -> Any:
        """The sample that stands for `real`, the tensor of all samples; itself if it is undefined."""
        if not real.defined:
            return real
        made: Batched = object.__new__(Batched)
        made._hold(real._defined()[0, ...], real._storage)
        made._real, made._layer = real, self
        return made

    def wrapped(self, result: Any) -> Any:
        """The results of an operator, with samples in the place of the tensors of all samples."""
        if isinstance(result, Tensor):
            return self.batched(result)
        items = [self.batched(item) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)

    def whole(self, value: Any) -> Any:
        """The tensor of all samples; what is the same for all of them is expanded. Lists item by item."""
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.whole, value))
        if not isinstance(value, Tensor):
            return value
        if self.holds(value):
            return value._real  # type: ignore[attr-defined]
        return F.expand(F.unsqueeze(value, 0), [self.size, *[-1] * value.ndim])

    def lifted(self, value: Any, rank: int) -> Any:
        """The tensor of all samples with so many dims of a sample, further ones of size 1; others are left alone."""
        if not self.holds(value):
            return value
        real, missing = value._real, rank - value.ndim
        if missing <= 0:
            return real
        return F.reshape(real, [self.size, *[1] * missing, *real.shape[1:]])

    def sample(self, value: Any, number: int) -> Any:
        """Sample `number` of a value."""
        if isinstance(value, (tuple, list)):
            return type(value)([self.sample(item, number) for item in value])
        return F.select(value._real, 0, number) if self.holds(value) else value

    # -- what runs -----------------------------------------------------------------------------------------------

    def record(self, op: Op, values: Sequence[Any]) -> Any:
        """Run `op` on all samples."""
        return self._run(self, op, values)

    def record_inplace(self, op: Op, values: Sequence[Any]) -> Tensor:
        """Run `op`, and write the results of all samples over its first argument.

        Raises:
            VmapError: The argument is one for all samples, and its values are not.
        """
        target = values[0]
        if not any(map(self.holds, values)) and op.kind != "random":
            with self.outside():
                return call_inplace(op, values)
        if not self.holds(target):
            raise VmapError(
                f"vmap: {op.schema.name}_() writes something else for each sample into a tensor that is the same for "
                "all of them; use the operator without the underscore, or make the tensor of a mapped one"
            )
        kept = F.clone(target) if is_grad_enabled() else target  # its derivative may look at what is written over
        result = self.record(op, [kept, *values[1:]])
        with self.outside():
            F.copy_(target._real, self.whole(result))
        return target

    def record_function(self, function: Any, args: Sequence[Any]) -> Any:
        """Run an autograd.Function: by its own rule, or sample by sample."""
        return self._apply_function(self, function, args)

    # -- what functions ask ----------------------------------------------------------------------------------------

    @property
    def handles(self) -> Any:
        """The nodes that the trace beneath has recorded."""
        return () if self.beneath is None else self.beneath.handles

    def shape_of(self, tensor: Tensor) -> Any:
        """The sizes of a sample, as the trace beneath knows them; None if there is none."""
        if self.outer is None:
            return None
        if not self.holds(tensor):
            return self.outer.shape_of(tensor)
        sizes = self.outer.shape_of(tensor._real)  # type: ignore[attr-defined]
        return None if sizes is None else Size(sizes[1:])

    def item(self, tensor: Tensor) -> Any:
        """The only element of a tensor that is the same for all samples, as whoever was there before gives it."""
        self.refuse_escape(tensor, "item()")
        return None if self.outer is None else self.outer.item(tensor)

    def elements(self, tensor: Tensor) -> Any:
        """The elements of such a tensor."""
        self.refuse_escape(tensor, "tolist()")
        with self.outside():
            return tensor.tolist()

    def refuse_escape(self, tensor: Tensor, what: str) -> None:
        """Refuse (VmapError) to show elements of a sample, of which there are several."""
        if isinstance(tensor, Batched):
            raise VmapError(
                f"vmap: {what} of a mapped tensor has another outcome for each sample, and Python goes one way; decide "
                "by jit.where, or map over what is computed before"
            )
        if self.outer is not None:
            self.outer.refuse_escape(tensor, what)

    def refuse_change(self, tensor: Tensor, what: str) -> None:
        """Refuse what whoever was there before refuses."""
        if self.outer is not None and not isinstance(tensor, Batched):
            self.outer.refuse_change(tensor, what)

    def strides(self, tensor: Tensor, plain: tuple[int, ...], dim: int | None) -> Any:
        """The strides of a sample."""
        return plain if dim is None else plain[dim]

    def own_strides(self, tensor: Tensor, plain: tuple[int, ...]) -> tuple[Any, ...]:
        """The strides of a sample."""
        return plain

    def fact(self, tensor: Tensor, name: str) -> Any:
        """The attribute `name` of a tensor."""
        return getattr(tensor, f"_{name}")

    def base(self, tensor: Tensor) -> Tensor | None:
        """The tensor that `tensor` is a view of; none is told of a sample."""
        return tensor._viewed

    def is_inside(self, tensor: Tensor) -> bool:
        """Whether the function itself made this tensor."""
        return isinstance(tensor, Batched)

    def decide_same(self, tensor: Tensor, sizes: Sequence[Any]) -> None:
        """Note that it is decided which sizes of a tensor are these."""
        if self.outer is not None:
            held = self.holds(tensor)
            self.outer.decide_same(tensor._real if held else tensor, [self.size, *sizes] if held else sizes)  # type: ignore[attr-defined]

    def gradient_of(self, tensor: Tensor) -> Tensor | None:
        """`tensor.grad`."""
        with self.outside():
            return None if isinstance(tensor, Batched) else tensor.grad

    def set_gradient(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """Let `gradient` be `tensor.grad`."""
        with self.outside():
            tensor.grad = gradient

    def accumulate(self, tensor: Tensor, gradient: Tensor, differentiable: bool) -> None:
        """Add `gradient` to `tensor.grad`.

        Raises:
            VmapError: There is one for each sample.
        """
        from jit.autograd.nodes import accumulate

        if self.holds(gradient):
            raise VmapError("vmap: backward() would add a gradient for each sample to one .grad; use jit.func.grad")
        with self.outside():
            accumulate(tensor, gradient, differentiable)

    def constant(self, tensor: Tensor, reason: str, foreign: bool = False) -> Any:
        """Take a tensor that was made from Python data as a constant."""
        return None if self.beneath is None else self.beneath.constant(tensor, reason, foreign)

    def __getattr__(self, name: str) -> Any:
        """Pass notes on to the trace beneath, if there is one."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self.beneath is None:
            return _nothing
        found = getattr(self.beneath, name)
        return functools.partial(self._within, found) if callable(found) else found

    def _within(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with tracing(self.beneath):
            return method(*args, **kwargs)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A note that nobody takes."""


def layers_now() -> list[Layer]:
    """The layers of the `vmap`s under way, the outermost first."""
    found: list[Layer] = []
    recorder: Any = TRACE.get()
    while isinstance(recorder, Layer):
        found.insert(0, recorder)
        recorder = recorder.outer
    return found


__all__ = ["Batched", "Layer", "RandomnessError", "VmapError", "layers_now"]
