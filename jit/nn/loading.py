"""Loading of a state dict into a module: what fits is copied, and all that does not is listed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jit.eager import context
from jit.eager.composed import Composed
from jit.eager.creation import asarray
from jit.eager.tensors import Tensor
from jit.ir.errors import KindError, UsageError

from .parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from .modules import Module

EXTRA = "_extra_state"
"""The name under which a state dict holds what `get_extra_state` returns."""


class IncompatibleKeys(NamedTuple):
    """Names that `load_state_dict(strict=False)` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


IncompatibleKeys.__module__ = "jit.nn.modules"  # where pickles look for it


class StateLoad:
    """One call of `load_state_dict`.

    Args:
        module: The module that is loaded into.
        state_dict: Tensors and arrays by name.
        strict: Whether names must match exactly.

    Raises:
        KindError: The state dict is no mapping.
    """

    def __init__(self, module: Module, state_dict: Mapping[str, Any], strict: bool) -> None:
        if not isinstance(state_dict, Mapping):
            kind = type(state_dict).__name__
            raise KindError(f"a state dict maps names to tensors, unlike {kind}; pass what state_dict() returned")
        self.module, self.strict = module, strict
        self.given: dict[str, Any] = OrderedDict(state_dict)
        """A copy of the state dict, which hooks may change."""
        self.metadata: Mapping[str, Any] = getattr(state_dict, "_metadata", {})
        """Facts that the state dict has about each module, such as the version of its state, by the module's name."""
        self.by_themselves = {path: inner for path, inner in module.named_modules() if loads_by_itself(inner)}
        """The modules that load their own part in their own way."""
        self.found = IncompatibleKeys([], [])
        self.faults: list[str] = []

    def run(self, assign: bool) -> IncompatibleKeys:
        """Load; with `assign` the given tensors themselves take the place of the module's.

        Raises:
            UsageError: Names do not match, or sizes differ.
        """
        self._call_load_hooks()
        extra = {name: self.given.pop(name) for name in list(self.given) if name.split(".")[-1] == EXTRA}
        own = {n: v for n, v in members_of(self.module).items() if not self._is_left_to_module(n)}
        given = self._compared(own)
        self._set_extra_states(extra)
        self._load_by_modules()
        watched = any(module._state_hooks["loaded"] for module in self.module.modules())
        self._refuse(self.faults, self.strict and not watched)
        with context.no_grad():
            for name in own.keys() & given.keys():
                if assign:
                    self._assign(name, own[name], given[name])
                elif not is_lazy(given[name]):
                    _copy(name, own[name], given[name])
        if watched:
            self._call_loaded_hooks()
            self._refuse([], self.strict)
        return self.found

    def _call_load_hooks(self) -> None:
        names = self.found.missing_keys, self.found.unexpected_keys
        for path, module in self.module.named_modules():
            prefix, metadata = f"{path}." if path else "", self.metadata.get(path, {})
            module._complete_state(self.given, prefix, metadata.get("version"))
            if hooks := tuple(module._state_hooks["load"].values()):
                part = self._part(prefix)
                for hook in hooks:
                    hook(module, part, prefix, metadata, self.strict, *names, self.faults)
                self._replace_part(prefix, part)

    def _part(self, prefix: str) -> dict[str, Any]:
        """The part of the state dict that hooks of a module may see and change; that of the root is all."""
        return OrderedDict((name, value) for name, value in self.given.items() if name.startswith(prefix))

    def _replace_part(self, prefix: str, part: Mapping[str, Any]) -> None:
        for name in [name for name in self.given if name.startswith(prefix) and name not in part]:
            del self.given[name]
        self.given.update((name, value) for name, value in part.items() if name.startswith(prefix))

    def _is_left_to_module(self, name: str) -> bool:
        """Whether a name belongs to the own part of a module that loads it in its own way."""
        for path, module in self.by_themselves.items():
            inner = name[len(path) + 1 :] if path else name
            if (not path or name.startswith(f"{path}.")) and inner.partition(".")[0] not in module._modules:
                return True
        return False

    def _load_by_modules(self) -> None:
        names = self.found.missing_keys, self.found.unexpected_keys
        for path, module in self.by_themselves.items():
            prefix, metadata = f"{path}." if path else "", self.metadata.get(path, {})
            module._load_from_state_dict(self.given, prefix, metadata, True, *names, self.faults)

    def _call_loaded_hooks(self) -> None:
        for module in reversed(list(self.module.modules())):
            for hook in tuple(module._state_hooks["loaded"].values()):
                hook(module, self.found)

    def _compared(self, own: dict[str, Any]) -> dict[str, Tensor]:
        """The tensors given for members that the module has; names and sizes that do not match are noted."""
        self.found.missing_keys.extend(name for name in own if name not in self.given)
        left = (name for name in self.given if name not in own and not self._is_left_to_module(name))
        self.found.unexpected_keys.extend(left)
        given: dict[str, Tensor] = {}
        for name, value in self.given.items():
            if name in own and not isinstance(value, (Tensor, Composed, np.ndarray, np.generic)):
                self.faults.append(f"{name} is no tensor but a {type(value).__name__}")
            elif name in own and _are_unlike(own[name], value):
                self.faults.append(f"{name} is a {type(own[name]).__name__} here and a {type(value).__name__} there")
            elif name in own:
                given[name] = _tensor_of(value)
        self.faults += [_size_fault(n, own[n], given[n]) for n in own if n in given and not _fit(own[n], given[n])]
        return given

    def _set_extra_states(self, extra: dict[str, Any]) -> None:
        for path, module in self.module.named_modules():
            name = f"{path}.{EXTRA}" if path else EXTRA
            if name in extra and module._takes_extra_state():
                module.set_extra_state(extra.pop(name))
            elif module._has_extra_state() or module._takes_extra_state():
                self.found.missing_keys.append(name)
        self.found.unexpected_keys.extend(extra)

    def _refuse(self, faults: list[str], by_names: bool) -> None:
        if by_names:
            missing = [f"missing: {name}" for name in self.found.missing_keys]
            faults = [*missing, *(f"not expected: {name}" for name in self.found.unexpected_keys), *faults]
        if faults:
            way_out = "load the state of an equal module" + (", or pass strict=False to skip names" if by_names else "")
            listed = "\n  ".join(faults)
            name = type(self.module).__name__
            raise UsageError(f"Error(s) in loading state_dict for {name}: it does not fit; {way_out}:\n  {listed}")

    def _assign(self, name: str, old: Tensor, new: Tensor) -> None:
        path, _, last = name.rpartition(".")
        value = Parameter(new, old.requires_grad) if isinstance(old, Parameter) else new
        setattr(self.module.get_submodule(path), last, value)


def members_of(module: Module) -> dict[str, Any]:
    """The parameters and persistent buffers of a module by dotted name."""
    return {
        f"{path}.{name}" if path else name: value
        for path, inner in module.named_modules(remove_duplicate=False)
        for name, value in (*inner._parameters.items(), *inner._buffers.items())
        if value is not None and name not in inner._transient_buffers
    }


def own_members(module: Module) -> list[tuple[str, Any]]:
    """The parameters and persistent buffers of a module itself, by name."""
    members = (*module._parameters.items(), *module._buffers.items())
    return [(name, value) for name, value in members if value is not None and name not in module._transient_buffers]


def loads_by_itself(module: Module) -> bool:
    """Whether the class of a module defines its own `_load_from_state_dict`."""
    return type(module)._load_from_state_dict.__module__ != f"{__package__}.modules"


def load_own(
    module: Module, state: Mapping[str, Any], prefix: str, strict: bool, missing: list[str], unexpected: list[str],
    faults: list[str],
) -> None:  # fmt: skip
    """Load a module's own part of a state dict.

    Args:
        module: The module.
        state: The state dict.
        prefix: The beginning of the module's names in it.
        strict: Whether names that do not match are noted.
        missing: Gets the names that the state dict lacks.
        unexpected: Gets the names that the module lacks.
        faults: Gets what else is wrong.
    """
    members = dict(own_members(module))
    for name, own in members.items():
        given = state.get(prefix + name)
        if given is None:
            missing.extend([prefix + name] if strict else [])
        elif _are_unlike(own, given) or not _fit(own, _tensor_of(given)):
            faults.append(_size_fault(prefix + name, own, _tensor_of(given)))
        else:
            with context.no_grad():
                _copy(prefix + name, own, _tensor_of(given))
    if strict:
        ends = (name[len(prefix) :] for name in state if name.startswith(prefix))
        unexpected.extend(prefix + end for end in ends if end.partition(".")[0] not in {**members, **module._modules})


def _copy(name: str, own: Tensor, given: Tensor) -> None:
    """Copy an entry of a state dict into a member of the module."""
    if own.is_meta and not given.is_meta:
        context.warn(f"{name} lies on 'meta' and keeps nothing of what is loaded; pass assign=True, or call to_empty()")
    own.copy_(given)


def _tensor_of(value: Any) -> Any:
    """The entry of a state dict as a tensor."""
    return value if isinstance(value, Composed) else asarray(value)


def _are_unlike(own: Any, given: Any) -> bool:
    """Whether one of two tensors is sparse, or both are in another way."""
    return (isinstance(own, Composed) or isinstance(given, Composed)) and type(own) is not type(given)


def _fit(own: Tensor, given: Tensor) -> bool:
    """Whether sizes are equal, where they are known."""
    return is_lazy(own) if is_lazy(given) else not is_lazy(own) and own.shape == given.shape


def _sizes(tensor: Tensor) -> Any:
    return "without sizes yet" if is_lazy(tensor) else list(tensor.shape)


def _size_fault(name: str, own: Tensor, given: Tensor) -> str:
    return f"sizes differ: {name} is {_sizes(own)} here and {_sizes(given)} in the state dict"
