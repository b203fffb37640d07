"""The registry as test cases: every operator with every one of its samples, called as users call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.functions import public
from jit.eager.generators import default_generator
from jit.eager.namespace import F
from jit.ir.op import REGISTRY, Op
from jit.ir.random_state import RandomState
from jit.ir.samples import Sample


class Case:
    """One operator on one of its samples, whose arrays are copied for every use: calls may overwrite them."""

    SEED = 20
    """What the generator starts from before each call that may draw random numbers."""

    def __init__(self, op: Op, number: int, sample: Sample) -> None:
        self.op, self.number = op, number
        self.sample = sample
        self.id = f"{op.name}:{sample.note or number}"

    def arguments(self, convert: Callable[[Any], Any] = jit.from_numpy) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments, every array copied with its layout and given to `convert`."""
        args = [mapped(value, lambda a: convert(copied(a))) for value in self.sample.args]
        return args, {name: mapped(value, lambda a: convert(copied(a))) for name, value in self.sample.kwargs.items()}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The operator as users call it: from the first public namespace that has it, else from `F`."""
        return function_of(self.op)

    def call(self, *args: Any, function: Callable[..., Any] | None = None, **kwargs: Any) -> list[jit.Tensor]:
        """The defined results of the function, or of another; what is random starts from the same seed each time."""
        jit.manual_seed(self.SEED)
        return list(tensors_in((function or self.function)(*args, **kwargs)))

    @cached_property
    def draws(self) -> bool:
        """Whether the call uses random numbers."""
        args, kwargs = self.arguments()
        self.call(*args, **kwargs)
        return default_generator().state != RandomState(self.SEED)

    def __repr__(self) -> str:
        return self.id


def function_of(op: Op) -> Callable[..., Any]:
    """See `Case.function`."""
    for namespace in ("jit", "linalg", "special", "fft", "nn.functional"):
        if namespace in op.namespaces:
            return public(namespace)[op.schema.name]
    return getattr(F, op.schema.name)


def cases(wanted: Callable[[Op], Any] = lambda op: True, fitting: Callable[[Case], bool] = lambda case: True) -> Any:
    """A parametrization of `case` over the operators that are `wanted` and their cases that are `fitting`."""
    found = [case for op in REGISTRY.values() if wanted(op) for case in all_cases(op) if fitting(case)]
    return pytest.mark.parametrize("case", found, ids=lambda case: case.id)


_made: dict[str, list[Case]] = {}


def all_cases(op: Op) -> list[Case]:
    """The operator on each of its samples."""
    if op.name not in _made:
        samples = [] if op.sampler is None else list(op.sampler())
        _made[op.name] = [Case(op, number, sample) for number, sample in enumerate(samples)]
    return _made[op.name]


# -- arguments and results ---------------------------------------------------------------------------------------


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """`function` of an array or tensor, or of those in a list; everything else as it is."""
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(item, function) for item in value)
    return function(value) if isinstance(value, (np.ndarray, jit.Tensor)) else value


def copied(array: np.ndarray) -> np.ndarray:
    """The same numbers in memory of their own, with the same strides."""
    if array.size == 0 or array.flags.c_contiguous:
        return array.copy()
    span = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize + 1
    copy = np.lib.stride_tricks.as_strided(np.zeros(span, array.dtype), array.shape, array.strides)
    copy[...] = array
    return copy


def tensors_in(values: Any) -> Iterator[jit.Tensor]:
    """The defined tensors among arguments or results, lists and dicts searched through."""
    if isinstance(values, jit.Tensor):
        if values.defined:
            yield values
    elif isinstance(values, dict):
        yield from tensors_in(list(values.values()))
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from tensors_in(value)


def floats(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> list[jit.Tensor]:
    """The floating-point tensors among the arguments, without those that have no derivative by declaration."""
    return [t for t in differentiable(op, args, kwargs) if t.is_floating_point()]


def differentiable(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> list[jit.Tensor]:
    """The floating-point and complex tensors among the arguments, without those that have no derivative."""
    names = [a.name for a in op.arguments if not a.kwarg_only]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    wanted = [value for name, value in given.items() if f"grad.{name}" not in op.missing]
    return [t for t in tensors_in(wanted) if t.is_floating_point() or t.is_complex()]


def bits(tensor: jit.Tensor) -> tuple[Any, ...]:
    """All that two results have to agree in to be the same: dtype, sizes and every bit."""
    array = tensor.detach().numpy()
    return (array.dtype, array.shape, array.tobytes())


def weights_for(outputs: Sequence[jit.Tensor]) -> list[jit.Tensor]:
    """Seeded gradients to send back into `outputs`."""
    rng = np.random.default_rng(Case.SEED)
    return [jit.from_numpy(np.asarray(rng.uniform(-1, 1, tuple(o.shape))).astype(o.dtype.numpy)) for o in outputs]
