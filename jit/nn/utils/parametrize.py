"""Parameters that are computed from others: `register_parametrization` lets a module compute a tensor.

Note [Parametrized tensors]
    `register_parametrization(layer, "weight", m)` moves the weight to `layer.parametrizations.weight.original` and lets
    `layer.weight` be `m(original)` whenever it is read. A second module is applied after the first. Assigning to
    `layer.weight` sends the value back through the modules' `right_inverse`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import deepcopy
from typing import Any

from jit.eager.context import no_grad
from jit.eager.expecting import expect
from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError

from ..containers import ModuleDict, ModuleList
from ..lazy import refuse_lazy
from ..modules import Module
from ..parameter import Parameter

_CACHE: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("cache", default=None)
"""The computed values of parametrized tensors within a block of `cached()`; None outside."""


@contextmanager
def cached() -> Iterator[None]:
    """Within this block each parametrized tensor is computed once, when it is first read."""
    token = _CACHE.set({} if _CACHE.get() is None else _CACHE.get())
    try:
        yield
    finally:
        _CACHE.reset(token)


class ParametrizationList(ModuleList):
    """The modules that compute a tensor, and the tensors that they start from.

    Args:
        modules: The modules, in the order in which they are applied.
        original: The tensor that is to be computed, as it is now.
        unsafe: Whether they may change its sizes and dtype.
    """

    def __init__(self, modules: Any, original: Any, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            try:
                start = self._sent_back(original.detach())
            except NotImplementedError:  # the modules do not say what they have to start from
                start = original.detach()
        self._check_start(start, original)
        self.ntensors = len(start) if isinstance(start, tuple) else 1
        self.is_tensor = not isinstance(start, tuple)
        for name, value in zip(self._names(), start if isinstance(start, tuple) else (start,), strict=True):
            if isinstance(original, Parameter) and self.is_tensor:
                self.register_parameter(name, original)  # the same object, which an optimizer may know
                original.data = value
            elif isinstance(original, Parameter):
                self.register_parameter(name, Parameter(value, original.requires_grad))
            else:
                self.register_buffer(name, value)

    @staticmethod
    def _check_start(start: Any, original: Any) -> None:
        for value in start if isinstance(start, tuple) else (start,):
            if not isinstance(value, Tensor):
                raise UsageError(f"right_inverse returns a tensor or several, not {type(value).__name__}")
        if not isinstance(start, tuple) and start.dtype is not original.dtype:
            raise UsageError(f"right_inverse makes {start.dtype} of {original.dtype}; one tensor must keep its dtype")

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _sent_back(self, value: Any) -> Any:
        """The value from which the modules compute `value`; modules without a `right_inverse` leave it as it is."""
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                value = module.right_inverse(value)
        return tuple(value) if isinstance(value, (list, tuple)) else value

    def right_inverse(self, value: Any) -> None:
        """Set the original so that the modules compute `value`, as far as their inverses allow it."""
        with no_grad():
            start = self._sent_back(value)
            parts = start if isinstance(start, tuple) else (start,)
            for name, part in zip(self._names(), parts, strict=True):
                getattr(self, name).copy_(part)

    def forward(self) -> Any:
        """The tensor as the modules compute it."""
        starts = [getattr(self, name) for name in self._names()]
        first, *others = self
        value = first(*starts)
        for module in others:
            value = module(value)
        return value


class Parametrized:
    """Computes a tensor whenever it is read, see Note [Parametrized tensors]."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Any) -> Any:
        cache, key = _CACHE.get(), (id(module), self.name)
        if cache is None:
            return module.parametrizations[self.name]()
        if key not in cache:
            cache[key] = module.parametrizations[self.name]()
        return cache[key]

    def assign(self, module: Any, value: Any) -> None:
        """Carry out `module.<name> = value`."""
        module.parametrizations[self.name].right_inverse(value)


def register_parametrization(module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Any:
    """Let `module.<tensor_name>` be computed by a module from what it has been, see Note [Parametrized tensors].

    Args:
        module: The module with the tensor.
        tensor_name: A parameter or buffer of it, parametrized already or not.
        parametrization: Takes the tensor and returns one; its `right_inverse`, if it has one, goes the other way.
        unsafe: Whether sizes and dtype may change.

    Returns:
        The module.

    Raises:
        UsageError: There is no such tensor, or its sizes or dtype would change.

    >>> import jit
    >>> class Symmetric(jit.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).t()
    >>> layer = jit.nn.utils.parametrize.register_parametrization(jit.nn.Linear(3, 3), "weight", Symmetric())
    >>> jit.equal(layer.weight, layer.weight.t()), [name for name, _ in layer.named_parameters()]
    (True, ['bias', 'parametrizations.weight.original'])
    """
    if is_parametrized(module, tensor_name):
        return _put_behind(module, tensor_name, parametrization, unsafe)
    original = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if original is None:
        raise UsageError(
            f"{type(module).__name__} has no parameter or buffer {tensor_name!r} to parametrize; name one of its own"
        )
    refuse_lazy([original], "parametrize")
    parametrization.train(module.training)
    before = original.detach()
    listed = ParametrizationList([parametrization], original, unsafe)
    try:
        _check_alike(listed(), before, unsafe, tensor_name)
    except UsageError:
        original.data = before
        raise
    (module._parameters if tensor_name in module._parameters else module._buffers).pop(tensor_name)
    if "parametrizations" not in module._modules:
        module._modules["parametrizations"] = ModuleDict()
    module.parametrizations[tensor_name] = listed
    module._computed[tensor_name] = Parametrized(tensor_name)
    return module


def _put_behind(module: Any, name: str, parametrization: Module, unsafe: bool) -> Any:
    listed = module.parametrizations[name]
    before = listed()
    after = parametrization(before)
    _check_alike(after, before, unsafe, name)
    if hasattr(parametrization, "right_inverse") and not unsafe:
        with suppress(NotImplementedError):
            _check_alike(parametrization.right_inverse(after), before, unsafe, name)
    listed.append(parametrization.train(module.training))
    listed.unsafe = listed.unsafe or unsafe
    return module


def _check_alike(found: Any, original: Any, unsafe: bool, name: str) -> None:
    if unsafe:
        return
    if not isinstance(found, Tensor):
        raise UsageError(f"the parametrization of {name!r} returned {type(found).__name__}; return a tensor")
    if found.shape != original.shape or found.dtype is not original.dtype:
        was, now = ((list(t.shape), t.dtype) for t in (original, found))
        raise UsageError(
            f"the parametrization of {name!r} changes {was[1]} of sizes {was[0]} into {now[1]} of sizes {now[0]}; pass "
            "unsafe=True if the module works with that"
        )


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a parametrized tensor a plain one again.

    Args:
        module: The module with the tensor.
        tensor_name: Its name.
        leave_parametrized: Whether it keeps the value that is computed now; otherwise it becomes the original from
            which it was computed, which must be a single tensor.

    Returns:
        The module.

    Raises:
        UsageError: The tensor is not parametrized, or has several originals, of which it cannot become one.
    """
    if not is_parametrized(module, tensor_name):
        raise UsageError(
            f"{tensor_name!r} of this {type(module).__name__} is not parametrized; register a parametrization first"
        )
    listed = module.parametrizations[tensor_name]
    if not leave_parametrized and not listed.is_tensor:
        raise UsageError(f"{tensor_name!r} is computed from {listed.ntensors} tensors; pass leave_parametrized=True")
    first = getattr(listed, listed._names()[0])
    value = listed().detach() if leave_parametrized else first.detach()
    if isinstance(first, Parameter) and listed.is_tensor and value.dtype is first.dtype:
        first.data = value  # the object stays the one that it was before it was parametrized
    elif isinstance(first, Parameter):
        first = Parameter(value, first.requires_grad)
    del module.parametrizations[tensor_name], module._computed[tensor_name]
    if not len(module.parametrizations):
        del module._modules["parametrizations"]
    if isinstance(first, Parameter):
        module.register_parameter(tensor_name, first)
    else:
        module.register_buffer(tensor_name, value)
    return module


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Let tensors of one module be computed as those of another are, from the same values.

    Args:
        from_module: The module with parametrized tensors.
        to_module: The module that gets copies of them.
        tensor_name: The tensor; all that are parametrized if left out.

    Returns:
        `to_module`.

    Raises:
        UsageError: The other module has no such tensor.
    """
    names = [name for name, rule in from_module._computed.items() if isinstance(rule, Parametrized)]
    for name in [each for each in names if tensor_name in (None, each)]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(source().detach().clone()))
        for parametrization in source:
            register_parametrization(to_module, name, deepcopy(parametrization), unsafe=source.unsafe)
        target = to_module.parametrizations[name]
        with no_grad():
            for part in source._names():
                setattr(target, part, deepcopy(getattr(source, part)))
    return to_module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a tensor of `module` is parametrized; without a name, whether any is."""
    expect("is_parametrized", module, Module)
    computed = [name for name, rule in module._computed.items() if isinstance(rule, Parametrized)]
    return bool(computed) if tensor_name is None else tensor_name in computed


def type_before_parametrizations(module: Any) -> type:
    """The class of a module, which parametrizations do not change."""
    return type(module)
