"""The meaning of the names in a pickle that comes from a stranger."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jit.eager.hooks import HookTable
from jit.eager.networks import initial_state
from jit.eager.storages import UntypedStorage, kind_of
from jit.eager.tensors import Tensor
from jit.runtime.arrays.arrays import offset_of

from .. import nn
from ..nn.modules import Module
from .allowing import allowed
from .faults import FileError, RefusedFileError
from .names import KNOWN, MAKERS, absent
from .plain_data import fill_array, order_dtype
from .rebuilding import UNTYPED, StorageKind, with_attributes

_OF_TORCH = "torch.nn.modules."
_TRANSIENT = "_non_persistent_buffers_set"
"""torch's name of the buffers that are no part of the state."""
_HOOKS = ("_hooks", "_hook", "_hooks_with_kwargs", "_hooks_always_called")
"""The ends of the names under which modules keep hooks, here and in torch."""
_TABLES = {"_parameters": nn.Parameter, "_buffers": Tensor, "_modules": Module}


class DataVocabulary:
    """Names of data, and those that the caller has allowed.

    Args:
        memory: The function that finds the memory of a storage, as a tensor of one dim.
        modules: Whether the layers of this package may be named, too: an object of theirs is made attribute by
            attribute, and none of its code runs.
    """

    def __init__(self, memory: Callable[..., Tensor], modules: bool = False) -> None:
        self._memory = memory
        self._modules = modules
        self._allowed = allowed()
        self._kinds = {kind for kind in self._allowed.values() if isinstance(kind, type)}

    def find(self, name: str) -> Any:
        """The object that is meant by a name.

        Raises:
            RefusedFileError: It is none of data, and nobody has allowed it.
        """
        if name in self._allowed:
            return self._allowed[name]
        if name in KNOWN:
            return KNOWN[name]
        layer = layer_called(name)
        if layer is not None and self._modules:
            return layer
        if (missing := absent(name)) is not None:
            raise RefusedFileError(f"it holds {missing}")
        known = " weights_only=False takes the layers of jit.nn." if layer is not None else ""
        raise RefusedFileError(
            f"it names {name[:200]}, which is not data, and nothing in a file is run or imported here.{known} If you "
            f"trust that name and have it as a class of your own, allow it: with jit.serialization.safe_globals([...])"
        )

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """The result of a call of what `find` returned.

        Raises:
            FileError: It is something that files do not call.
        """
        if self._is_allowed(function):
            return function(*arguments)
        maker = MAKERS.get(id(function))
        if maker is None:
            raise FileError(f"its pickle calls an object of the class {type(function).__name__}")
        return maker(*arguments)

    def _is_allowed(self, function: Any) -> bool:
        return any(function is each for each in self._allowed.values())

    def new(self, kind: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """An object without its `__init__`; see `Vocabulary.new`.

        Raises:
            FileError: `kind` is no class of which files may make objects so.
        """
        if isinstance(kind, type) and kind in self._kinds:
            return kind.__new__(kind, *arguments, **named)
        if isinstance(kind, type) and issubclass(kind, (Module, HookTable)) and not arguments and not named:
            return object.__new__(kind) if issubclass(kind, Module) else HookTable()
        if named:
            raise FileError("its pickle makes an object of a class that is no data")
        return self.call(kind, arguments)

    def build(self, made: Any, state: Any) -> None:
        """Give an object its state.

        Raises:
            FileError: Objects of its class have none.
        """
        if type(made) in self._kinds:
            _set_state(made, state)
        elif isinstance(made, np.dtype):
            order_dtype(made, state)
        elif type(made) is np.ndarray:
            fill_array(made, state)
        elif isinstance(made, Module):
            made.__dict__.update(_state_of_module(state))
        elif type(made) is OrderedDict or isinstance(made, Tensor):
            with_attributes(made, state)
        else:
            raise FileError(f"its pickle sets the state of an object of the class {type(made).__name__}")

    def extend(self, made: Any, items: list[Any]) -> None:
        """Add items to a list.

        Raises:
            FileError: It is none.
        """
        if type(made) not in (list, deque) and type(made) not in self._kinds:
            raise FileError("its pickle adds items to what is no list")
        made.extend(items)

    def update(self, made: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Set items of a dictionary.

        Raises:
            FileError: It is none.
        """
        if type(made) not in (dict, OrderedDict, defaultdict, Counter) and type(made) not in self._kinds:
            raise FileError("its pickle sets items of what is no dictionary")
        for key, value in pairs:
            made[key] = value

    def persistent(self, identity: Any) -> Any:
        """The storage of an identity.

        Raises:
            FileError: The identity is not that of a storage.
        """
        kind, *others = storage_identity(identity)
        memory = self._memory(kind, *others)
        stretch = () if others[-1] is None else (offset_of(memory._defined()), memory.numel())
        return (UntypedStorage if kind is UNTYPED else kind_of(kind.dtype)).of(memory, *stretch)


def storage_identity(identity: Any) -> tuple[StorageKind, str, str, int, Any]:
    """The kind, key, device, size and part of a storage, from its identity in a pickle.

    Raises:
        FileError: It is none.
    """
    identity = tuple(map(_text, identity)) if isinstance(identity, tuple) else identity
    fits = isinstance(identity, tuple) and len(identity) in (5, 6) and identity[0] == "storage"
    if not fits or not isinstance(identity[1], StorageKind) or type(identity[4]) is not int or identity[4] < 0:
        raise FileError("its pickle has a storage that is none")
    _, kind, key, location, count, *part = identity
    if type(key) is not str or type(location) is not str:
        raise FileError("its pickle has a storage without a name")
    return kind, key, location, count, part[0] if part else None


def _text(value: Any) -> Any:
    """Text for bytes, as which strings of Python 2 are read if the caller wants them so."""
    return value.decode("latin-1") if type(value) is bytes else value


def layer_called(name: str) -> Any:
    """The class of a layer that is called so here or in torch, or of the table of its hooks; None if there is none."""
    if name == f"{HookTable.__module__}.{HookTable.__qualname__}":
        return HookTable
    last = name.rpartition(".")[2]
    found = getattr(nn, last) if last in nn.__all__ else None
    if not isinstance(found, type) or not issubclass(found, Module):
        return None
    return found if name.startswith(_OF_TORCH) or name == f"{found.__module__}.{found.__qualname__}" else None


def _set_state(made: Any, state: Any) -> None:
    """Do as `pickle` does for an object of a class that was allowed."""
    own = getattr(made, "__setstate__", None)
    if own is not None:
        own(state)
        return
    slots: Any = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if isinstance(made, Module):
        state = _state_of_module(state)
    made.__dict__.update(state or {})
    for name, value in (slots or {}).items():
        setattr(made, name, value)


def _state_of_module(state: Any) -> dict[str, Any]:
    """The attributes of a module, also of one that torch has saved, whose hooks are kept otherwise.

    Raises:
        FileError: They are not those of a module.
    """
    if not isinstance(state, dict) or not all(type(name) is str for name in state):
        raise FileError("the attributes of a module in it are none")
    for name, kind in _TABLES.items():
        table = state.get(name)
        if not isinstance(table, dict) or not all(v is None or isinstance(v, kind) for v in table.values()):
            raise FileError(f"a module in it has {name} that are none")
    hooks = [name for name in state if name.endswith(_HOOKS)]
    if any(isinstance(state[name], dict) and any(state[name].values()) for name in hooks):
        raise FileError("a module in it has hooks, which are functions; remove them before you save it")
    kept = {name: value for name, value in state.items() if name not in hooks}
    if _TRANSIENT in kept:
        kept["_transient_buffers"] = kept.pop(_TRANSIENT)
    return initial_state() | kept
