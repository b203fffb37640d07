"""Names of packages that are looked for in their modules when somebody first asks for them.

Note [What is not used is not imported]
`import jit` imports what every program needs: tensors, how an operator runs, and how histories are remembered.
Networks, optimizers, everything behind `jit.trace`, and the single functions that few programs call, are imported when
they are first asked for by name. A package says which of its modules has which name; stubs, which are made from that,
tell it to type checkers. Declarations of operators come when needed, too, see Note [Declarations are read when needed].

Nothing but the time of an import depends on this: `dir` shows all names, `from jit import *` finds them. Threads may
ask at once. Python lets one thread import a module and the others wait, so there must be no circle in which they wait
for one another: modules import one another in none, and the `__init__` of a package imports none of its modules, which
would wait for it in their turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

unwatched: Callable[[], AbstractContextManager[Any]] = nullcontext
"""The block in which modules are imported; `jit.eager.watch` sets it, since a function that is recorded may ask."""


ELSEWHERE: dict[str, str] = {}
"""Full name of a module that has the names of another one -> the full name of that one.

The package `jit` says so of modules that PyTorch has in a room below the one they stand in here; `late` makes them.
"""

TABLES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {}
"""Every package for which `late` was called, with the names and the modules that are found later."""


def imported(module: str) -> Any:
    """The module of this name, imported now if it has not been."""
    with unwatched():
        return import_module(module)


def found_later(module: str, name: str) -> Any:
    """The member of this name of a module, which is imported if it has not been."""
    return getattr(imported(module), name)


def _is_module(full: str) -> bool:
    with unwatched():
        return "._" not in full and find_spec(full) is not None


def late(
    package: str, names: Mapping[str, str], modules: Iterable[str] = (), otherwise: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Args:
        package: Its full name.
        names: By a module's name within the package, the names that come from there, with spaces between.
        modules: The modules that `__dir__` lists; all others are attributes of the package, too.
        otherwise: What finds all other names, or raises AttributeError.
    """
    TABLES[package] = dict(names), tuple(modules)
    for name in [name for name in ELSEWHERE if name.rpartition(".")[0] == package and name not in sys.modules]:
        elsewhere(name, ELSEWHERE[name])
    places = {name: place for place, together in names.items() for name in together.split()}
    module, inner = vars(sys.modules[package]), frozenset(modules)

    def find(name: str) -> Any:
        if name in places:
            module[name] = found = found_later(f"{package}.{places[name]}", name)
            return found
        if name in inner or _is_module(f"{package}.{name}"):
            return imported(f"{package}.{name}")
        if otherwise is None:
            raise NoSuchName(package, name)
        return module.setdefault(name, otherwise(name))

    return find, lambda: sorted({*module, *places, *inner})


PROVIDERS: dict[str, str] = {}
"""Module of a class -> the module of a room above that adds members to it; the package `jit` says it."""


class NoSuchName(AttributeError):
    """The error for a name that a module does not have; its text offers the nearest one that it has.

    The nearest is looked for when somebody reads the text: `hasattr` and `getattr` with a default never do.
    """

    def __init__(self, module: str, name: str) -> None:
        super().__init__(f"module {module!r} has no attribute {name!r}", name=name, obj=None)  # Python would guess, too
        self._module, self._name = module, name

    def __str__(self) -> str:
        import difflib

        near = difflib.get_close_matches(self._name, dir(sys.modules.get(self._module)), 1, 0.7)
        return f"{self.args[0]}; did you mean {near[0]!r}?" if near else self.args[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return NoSuchName, (self._module, self._name)


class Provided:
    """A member of a class that a room above adds to it; this stands in its place until somebody asks for it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        imported(next(PROVIDERS[each.__module__] for each in owner.__mro__ if each.__module__ in PROVIDERS))
        return getattr(owner if instance is None else instance, self.name)


def elsewhere(name: str, place: str) -> ModuleType:
    """A module that has the names of another one, which is imported when it is asked for one of them.

    Args:
        name: The full name of the module that is made, also in `sys.modules`.
        place: The full name of the other one.
    """
    ELSEWHERE[name] = place
    made = sys.modules[name] = ModuleType(name, f"`{place}`, under another name.")

    def find(member: str) -> Any:
        if member.startswith("__") and member != "__all__":  # who looks through all modules asks for such
            raise AttributeError(f"module {name!r} has no attribute {member!r}")
        return getattr(imported(place), member)

    vars(made).update(__getattr__=find, __dir__=lambda: dir(imported(place)))
    return made
