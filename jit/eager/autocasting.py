"""`autocast`: regions in which operators cast what they are given, each to the precision that suits it.

What an operator computes in stands in its declaration, see `jit.ir.precision`. Casts are operators like any other: they
have derivatives, and stand in the graphs of traces.

Note [Regions]
    An operator that says something is called outside of all regions, on operands that have been cast: its parts are its
    own affair. One that says nothing takes its operands as they are, and if it is a composite, its parts say what they
    want. A trace then records these parts instead, since the composite computes something else elsewhere. Operators
    that write in place, or into `out=`, cast nothing; nor do derivatives, which compute in the dtypes of what they
    belong to. All of this is as in PyTorch, but for the last: a backward within a region is like one behind it.

Note [Kept casts]
    The cast of a parameter is kept until the outermost region ends, so that a weight which is used often is cast once,
    and its gradient is, too. It is found by the tensor and its version: after a write there is another one. Casts are
    kept while gradients are recorded; otherwise they would have no history. Each trace keeps its own, of which it knows
    all, and so does each checkpoint, whose second run must meet the same parameters as the first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from jit.ir import Op
from jit.ir.devices import CPU, device, is_present
from jit.ir.dtypes import DType, as_dtype, bfloat16, float16, float32
from jit.ir.errors import DTypeError, UsageError
from jit.ir.precision import DEFAULTS, Precision, Regime, is_cast, regime, widest

from . import context
from .namespace import F
from .tensors import Tensor, Variable

COUNT: ContextVar[int] = ContextVar("casts_made", default=0)
"""The number of operands that have been cast here."""


class Casts:
    """The casts of parameters that are kept in one outermost region; see Note [Kept casts]."""

    def __init__(self) -> None:
        self._of_traces: WeakKeyDictionary[Any, dict[tuple[int, DType], tuple[Tensor, int, Tensor]]] = (
            WeakKeyDictionary()
        )

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """The cast of a parameter, the one from before if there is one."""
        kept = self._of_traces.setdefault(context.TRACE.get() or self, {})
        found = kept.get((id(tensor), dtype))
        if found is not None and found[1] == tensor._storage.version:
            return found[2]
        made: Tensor = F._to_copy(tensor, dtype=dtype)
        kept[id(tensor), dtype] = (tensor, tensor._storage.version, made)
        return made


# -- regions -----------------------------------------------------------------------------------------------------


@contextmanager
def autocasting(chosen: Regime | None) -> Iterator[None]:
    """Within this block `autocast` is set to `chosen`, and casts are kept for this block alone."""
    before = context.AUTOCAST.set(chosen)
    casts = context.CASTS.set(Casts())
    try:
        yield
    finally:
        context.CASTS.reset(casts)
        context.AUTOCAST.reset(before)


class autocast(context.Mode):  # noqa: N801 - users call it like a function
    """A region, or a decorated function, in which each operator computes in the precision that suits it.

    Products, convolutions and attention cast their operands to the lower dtype; exponentials, sums, norms and losses
    cast theirs to float32; `docs/operators.md` says it of each. Weights stay as they are, so their gradients are
    float32. Run the backward behind the region.

    Args:
        device_type: "cpu" or "cuda": the kind of device whose tensors are cast.
        dtype: The lower dtype, bfloat16 or float16. By default float16 on GPUs, and bfloat16 on CPUs.
        enabled: False ends the regions around for this block.
        cache_enabled: Whether casts of parameters are kept until the outermost region ends.

    Raises:
        UsageError: There is no such kind of device.

    >>> import jit
    >>> layer, x = jit.nn.Linear(3, 2), jit.ones(4, 3)
    >>> with jit.autocast("cpu"):
    ...     y = layer(x)
    ...     with jit.autocast("cpu", enabled=False):
    ...         z = layer(x)
    >>> y.dtype, z.dtype, layer.weight.dtype
    (jit.bfloat16, jit.float32, jit.float32)
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device = _kind(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else as_dtype(dtype)
        self._caches = cache_enabled
        self._enabled = bool(enabled) and _is_possible(self.device, self.fast_dtype)
        self._previous: list[tuple[Regime | None, Casts | None]] = []

    def __enter__(self) -> autocast:
        around, casts = context.AUTOCAST.get(), context.CASTS.get()
        self._previous.append((around, casts))
        context.AUTOCAST.set(self._within(around))
        context.CASTS.set(Casts() if casts is None else casts)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        around, casts = self._previous.pop()
        context.AUTOCAST.set(around)
        context.CASTS.set(casts)

    def _within(self, around: Regime | None) -> Regime | None:
        """The setting within this region, if `around` holds outside."""
        dtypes = {kind: None if around is None else around.on(kind) for kind in DEFAULTS}
        dtypes[self.device] = self.fast_dtype if self._enabled else None
        caches = is_autocast_cache_enabled() if self._caches is None else self._caches
        return regime(dtypes["cpu"], dtypes["cuda"], caches)

    def again(self) -> autocast:
        """A new region that is set to the same: a decorated function may run while it already runs."""
        return autocast(self.device, self.fast_dtype, self._enabled, self._caches)


def _kind(device_type: Any) -> str:
    """The kind of device that `device_type` says; UsageError if it has no regions."""
    if not isinstance(device_type, str):
        raise UsageError(f'autocast takes a kind of device, "cpu" or "cuda", not {type(device_type).__name__}')
    kind = device(device_type).type
    if kind not in DEFAULTS:
        raise UsageError(f'there is no autocast for {kind!r}; it is for "cpu" and "cuda"')
    return kind


def _is_possible(kind: str, dtype: DType) -> bool:
    """Whether there can be such a region; warns if not."""
    if dtype not in (bfloat16, float16):
        context.warn(f"autocast to {dtype.name} is not possible, only to bfloat16 or float16; it stays off")
        return False
    if not is_present(kind):
        context.warn("autocast is for GPUs here, but there is none; it stays off")
        return False
    return True


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether `autocast` is on for a kind of device."""
    return _lower(_kind(device_type)) is not None


def get_autocast_dtype(device_type: str) -> DType:
    """The lower dtype of the region, or what it would be by default where there is none."""
    kind = _kind(device_type)
    return _lower(kind) or DEFAULTS[kind]


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost region ends."""
    around = context.AUTOCAST.get()
    return around is None or around.caches


def is_autocast_available(device_type: str) -> bool:
    """Whether there is an `autocast` for this kind of device."""
    return device(device_type).type in DEFAULTS


def _lower(kind: str) -> DType | None:
    around = context.AUTOCAST.get()
    return None if around is None else around.on(kind)


# -- casts -------------------------------------------------------------------------------------------------------


def call_in_region(op: Op, values: Sequence[Any], call: Callable[[Op, Sequence[Any]], Any]) -> Any:
    """`call(op, values)` in the precision that the operator asks for, in a region; see Note [Regions]."""
    target = _target(op.schema.name, op.precision, values)
    if target is None or _asks_for_dtype(op, values):
        return call(op, values)
    cast = [_cast(value, *target) for value in values]
    return outside(call, op, cast)


def outside(call: Callable[..., Any], *args: Any) -> Any:
    """`call(*args)` outside of all regions."""
    token = context.AUTOCAST.set(None)
    try:
        return call(*args)
    finally:
        context.AUTOCAST.reset(token)


def computes_in(precision: Precision) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that lets a function of tensors compute in a precision as a whole, like an operator."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            target = None if context.AUTOCAST.get() is None else _target(function.__name__, precision, (args, kwargs))
            if target is None:
                return function(*args, **kwargs)
            return outside(functools.partial(function, *_cast(args, *target), **_cast(kwargs, *target)))

        return wrapped

    return decorate


def _target(name: str, precision: Precision | None, values: Any) -> tuple[str, DType] | None:
    """The kind of device whose tensors are cast, if any, and the dtype; None if there is nothing to do.

    DTypeError if it is refused.
    """
    tensors = list(_tensors(values))
    kind = next((t.device.type for t in tensors if t.ndim or not t.is_cpu), CPU.type)
    lower, wanted = _lower(kind), None if precision is None else precision.on(kind)
    if lower is None or wanted is None:
        return None
    if wanted == "refused":
        raise DTypeError(
            f"{name} is not computed under autocast, where gradients that pass it may not fit float16; use "
            f"binary_cross_entropy_with_logits, or float32 within jit.autocast({kind!r}, enabled=False)"
        )
    if wanted == "given":
        return "", lower
    if wanted == "widest":
        found = [t.dtype for t in tensors if t.device.type == kind and is_cast(t.dtype)]
        return (kind, widest(found)) if found else None
    return kind, lower if wanted == "lower" else float32


def _asks_for_dtype(op: Op, values: Sequence[Any]) -> bool:
    """Whether the dtype of the result is given: then it is computed as everywhere."""
    names = op.schema.argument_names
    return "dtype" in names and values[names.index("dtype")] is not None


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.defined:
            yield value
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _cast(value: Any, kind: str, dtype: DType) -> Any:
    """A nest with the tensors of this kind of device cast to `dtype`, those that `autocast` casts."""
    if type(value) in (tuple, list):
        return type(value)(_cast(item, kind, dtype) for item in value)
    if type(value) is dict:
        return {key: _cast(item, kind, dtype) for key, item in value.items()}
    if not isinstance(value, Tensor) or not value.defined or value.dtype is dtype:
        return value
    if not is_cast(value.dtype) or value.device.type != kind:
        return value
    COUNT.set(COUNT.get() + 1)
    casts = context.CASTS.get()
    if casts is not None and dtype is _lower(kind) and _is_kept(value):
        kept: Tensor = casts.cast(value, dtype)
        return kept
    return F._to_copy(value, dtype=dtype)


def _is_kept(tensor: Tensor) -> bool:
    """Whether the cast of a tensor is kept: that of a parameter in float32, while gradients are recorded."""
    if not context.GRAD_ENABLED.get() or not is_autocast_cache_enabled():
        return False
    is_parameter = isinstance(tensor, Variable) and tensor.is_leaf and tensor.requires_grad
    return is_parameter and tensor.dtype is float32 and tensor._viewed is None


# -- functions that users differentiate themselves ---------------------------------------------------------------


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Callable[..., Any]:
    """A decorator for the `forward` of an `autograd.Function`, which tells `custom_bwd` of the region.

    Args:
        fwd: The forward, `forward(ctx, ...)`.
        device_type: "cpu" or "cuda".
        cast_inputs: A dtype to which floating inputs are cast in a region; the forward then runs outside of it.

    >>> import jit
    >>> class Double(jit.autograd.Function):
    ...     @staticmethod
    ...     @jit.amp.custom_fwd(device_type="cpu", cast_inputs=jit.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @jit.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> with jit.autocast("cpu"):
    ...     Double.apply(jit.ones(2, dtype=jit.bfloat16)).dtype
    jit.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    kind = _kind(device_type)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._region = _lower(kind)
        if cast_inputs is None or ctx._region is None:
            return fwd(ctx, *args, **kwargs)
        ctx._region = None
        with autocast(kind, enabled=False):
            dtype = as_dtype(cast_inputs)
            return fwd(ctx, *_cast(args, kind, dtype), **_cast(kwargs, kind, dtype))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """A decorator for the `backward` of an `autograd.Function`, which runs in the region of its `custom_fwd`.

    Args:
        bwd: The backward, `backward(ctx, ...)`.
        device_type: "cpu" or "cuda".
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    kind = _kind(device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        region = ctx._region
        with autocast(kind, region, enabled=region is not None):
            return bwd(ctx, *args, **kwargs)

    return backward


__all__ = [
    "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available", "is_autocast_cache_enabled",
    "is_autocast_enabled",
]  # fmt: skip
