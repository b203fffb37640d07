"""Parameters in a list or in a dictionary, so that a module knows them."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jit.eager.tensors import Tensor
from jit.ir.errors import DimError, KindError, NamingError

from .containers import named_members
from .modules import Module
from .parameter import Parameter


class _Parameters(Module):
    """Parameters by name; tensors put in become parameters, and whatever else is put in is merely kept."""

    def __init__(self) -> None:
        super().__init__()
        self._members: dict[str, Any] = {}
        """All members in order; those that are parameters stand in the module's table of them, too."""

    def _put(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        if isinstance(value, Parameter):
            self._parameters[name] = value
        else:
            self._parameters.pop(name, None)
        self._members[name] = value

    def _get(self, name: str) -> Any:
        """The member, which may have been replaced in the table (by loading a state dict that is assigned)."""
        return self._parameters.get(name, self._members[name])

    def _drop(self, name: str) -> Any:
        self._parameters.pop(name, None)
        return self._members.pop(name)

    def __len__(self) -> int:
        return len(self._members)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({name}): {_described(self._get(name))}" for name in self._members)


def _described(value: Any) -> str:
    if not isinstance(value, Parameter):
        return f"Object of type: {type(value).__name__}"
    return f"Parameter containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}]"


class ParameterList(_Parameters):
    """A list of parameters; tensors put into it become parameters.

    >>> import jit
    >>> [name for name, _ in jit.nn.ParameterList([jit.zeros(2), jit.ones(3)]).named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self._put(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several parameters at the end.

        Raises:
            KindError: `values` is one tensor, or not iterable.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise KindError(f"ParameterList.extend takes several parameters, not {type(values).__name__}; use append()")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._get(name) for name in self._members])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._get(self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        self._put(self._key(index), value)

    def pop(self, index: int = -1) -> Any:
        """Remove a parameter and return it."""
        rest = list(self)
        value = rest.pop(int(self._key(index)))
        self._parameters.clear()
        self._members.clear()
        self.extend(rest)
        return value

    def _key(self, index: Any) -> str:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise DimError(f"index {index} is out of range: the ParameterList holds {len(self)} parameters")
        return str(index % len(self))


class ParameterDict(_Parameters):
    """A dictionary of parameters; tensors put into it become parameters.

    >>> import jit
    >>> scales = jit.nn.ParameterDict({"left": jit.ones(2), "right": jit.zeros(1)})
    >>> [name for name, _ in scales.named_parameters()], scales["left"].shape
    (['left', 'right'], jit.Size([2]))
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any] | Iterable[Any]) -> None:
        """Add or replace parameters."""
        pairs = named_members(parameters)
        plain = isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict)
        for name, value in sorted(pairs) if plain else pairs:  # as in PyTorch, which sorts plain dictionaries
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str) or not name or "." in name:
            error = NamingError if isinstance(name, str) else KindError
            raise error(f"{name!r} cannot name a parameter: names are non-empty strings without dots")
        self._put(name, value)

    def __delitem__(self, name: str) -> None:
        self._drop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._members.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return [self._get(name) for name in self._members]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return [(name, self._get(name)) for name in self._members]

    def get(self, name: str, default: Any = None) -> Any:
        """The parameter, or `default` where there is none."""
        return self._get(name) if name in self else default

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The parameter; `default` is put there if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str) -> Any:
        """Remove a parameter and return it."""
        value = self._get(name)
        self._drop(name)
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the parameter that was added last; returns its name and the parameter."""
        name = next(reversed(self._members))
        return name, self.pop(name)

    def copy(self) -> ParameterDict:
        """Another dictionary of the same parameters."""
        return type(self)(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another dictionary, in which all of `keys` stand for `default`."""
        return type(self)([(key, default) for key in keys])

    def __or__(self, other: ParameterDict) -> ParameterDict:
        """Another dictionary of the parameters of both; those of `other` take precedence."""
        copy = self.copy()
        copy.update(other)
        return copy

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._members))

    def clear(self) -> None:
        """Remove all parameters."""
        self._parameters.clear()
        self._members.clear()
