"""Modules made of modules: in sequence, in a list, in a dictionary."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, overload

from jit.ir.errors import DimError, KindError, UsageError

from .modules import Module


class _Listed(Module):
    """Members named "0", "1", ...; what Sequential and ModuleList share."""

    def _key(self, index: int) -> str:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise DimError(f"index {position} is out of range: {self._get_name()} holds {len(self)} modules")
        return list(self._modules)[position]

    def _replace_all(self, modules: Iterable[Module | None]) -> None:
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._sliced(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def _sliced(self, items: list[tuple[str, Module | None]]) -> Any:
        return type(self)([module for _, module in items])

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: Any) -> None:
        gone = set(list(self._modules)[index]) if isinstance(index, slice) else {self._key(index)}
        self._replace_all([m for k, m in self._modules.items() if k not in gone])

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.register_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before the one at `index`."""
        if not isinstance(module, Module):
            raise KindError(f"{self._get_name()} holds modules, and {type(module).__name__} is none; pass a Module")
        members: list[Module | None] = list(self)
        members.insert(index, module)
        self._replace_all(members)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise KindError(
                f"{self._get_name()}.extend takes several modules, not {type(modules).__name__}; append() takes one"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, index: int = -1) -> Module:
        """Remove a module and return it."""
        module: Module = self[index]
        del self[index]
        return module


class Sequential(_Listed):
    """Calls its modules one after the other, each with what the one before returned.

    Args:
        args: Modules, named "0", "1", ...; or one dictionary of named modules.

    >>> import jit
    >>> from jit import nn
    >>> nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))(jit.zeros(1, 3)).shape
    jit.Size([1, 2])
    """

    @overload
    def __init__(self, arg: Mapping[str, Module], /) -> None: ...
    @overload
    def __init__(self, *args: Module) -> None: ...

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = isinstance(args[0], Mapping) if len(args) == 1 else False
        for name, module in args[0].items() if named else enumerate(args):
            self.register_module(str(name), module)

    def _sliced(self, items: list[tuple[str, Module | None]]) -> Any:
        return type(self)(dict(items))  # type: ignore[arg-type]

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before the one at `index`, which is a place in the sequence or its end.

        Raises:
            KindError: It is no module.
            DimError: There is no such place.
        """
        if isinstance(module, Module) and not -len(self) <= index <= len(self):
            raise DimError(f"index {index} is out of range: {self._get_name()} holds {len(self)} modules")
        super().insert(index, module)
        return self

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise _not_a_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise _not_a_sequential(other)
        return self.extend(other)

    def __mul__(self, times: Any) -> Sequential:
        return Sequential(*list(self) * _times(times))

    __rmul__ = __mul__

    def __imul__(self, times: Any) -> Sequential:
        return self.extend(list(self) * (_times(times) - 1))

    def forward(self, input: Any) -> Any:
        """Pass `input` through all modules."""
        for module in self:
            input = module(input)
        return input


def _not_a_sequential(other: Any) -> KindError:
    return KindError(
        f"only a Sequential is added to a Sequential, not {type(other).__name__}; use append() or extend()"
    )


def _times(times: Any) -> int:
    """The number of repetitions of a sequence, checked."""
    if not isinstance(times, int):
        raise KindError(f"a Sequential is repeated a whole number of times, not {times!r}; multiply it by an int")
    if times <= 0:
        raise UsageError(f"a Sequential is repeated at least once, not {times} times; multiply it by 1 or more")
    return times


class ModuleList(_Listed):
    """A list of modules; it is not called itself.

    >>> from jit import nn
    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, modules: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *modules])

    def __repr__(self) -> str:
        """Members that look the same, one after the other, are printed once: `(0-1): 2 x Linear(...)`."""
        lines, first = [], 0
        for text, run in groupby(map(repr, self)):
            count = len(list(run))
            many = f"({first}-{first + count - 1}): {count} x {text}"
            lines.append((f"({first}): {text}" if count == 1 else many).replace("\n", "\n  "))
            first += count
        inner = "".join(f"\n  {line}" for line in lines)
        return f"{self._get_name()}({inner}\n)" if lines else f"{self._get_name()}()"


def named_members(given: Any) -> Iterable[tuple[str, Any]]:
    """The names and members of a dictionary, of a module that is like one, or of an iterable of pairs.

    Raises:
        KindError: It is none of these, or a member is no pair.
        UsageError: A member does not have two parts.
    """
    if isinstance(given, Mapping) or (isinstance(given, Module) and hasattr(given, "items")):
        return list(given.items())
    if not isinstance(given, Iterable):
        raise KindError(f"members come in a dictionary or as pairs of name and member, not as {type(given).__name__}")
    pairs = [tuple(pair) if isinstance(pair, Iterable) else pair for pair in given]
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple):
            raise KindError(f"member {number} should be a pair of a name and a member, not {type(pair).__name__}")
        if len(pair) != 2:
            raise UsageError(f"member {number} should be a pair of a name and a member, and has {len(pair)} parts")
    return pairs


class ModuleDict(Module):
    """A dictionary of modules; it is not called itself.

    >>> from jit import nn
    >>> heads = nn.ModuleDict({"left": nn.Linear(2, 1), "right": nn.Linear(2, 1)})
    >>> list(heads), heads["left"]
    (['left', 'right'], Linear(in_features=2, out_features=1, bias=True))
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[Any] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module] | Iterable[Any]) -> None:
        """Add or replace modules."""
        for name, module in named_members(modules):
            self[name] = module

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.register_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def pop(self, name: str) -> Module:
        """Remove a module and return it."""
        module: Module = self[name]
        del self[name]
        return module

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()
