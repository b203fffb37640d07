"""The registries, `REGISTRY` and `OVERLOADS`, in which operators are found by their names.

Note [Declarations are read when needed]
A program uses some of the operators, and reading all of their declarations takes longer than importing numpy. So a file
of declarations is imported when an operator that it declares is first asked for, by its name. Which file that is stands
in an index, `jit/ops/index.py`, which is made from the declarations and tells no more than the names under which users
find an operator; `jit.ops` says it here (`foresee`), `jit.eager.functions` makes functions and methods by it.

Who goes through a registry reads all the files, and sees them in the order of `jit.ops.FAMILIES`. The index is no
second registry: it saves time alone. A name that it lacks is looked for in all the files, so that an operator works as
soon as it is declared; only as a method it is found when the index is made anew (`make generated`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, TypeVar

from jit.late import imported

from .errors import SchemaError

if TYPE_CHECKING:
    from .op import Op

T = TypeVar("T")

_FILES: dict[str, str] = {}
"""Bare name of an operator -> the module that declares it."""
_ORDER: dict[str, int] = {}
"""Module -> its number in the order of declaration."""
_unfinished: dict[str, dict[str, Op]] = {}
"""Module -> its operators by name, until they are entered. They lack the facets that stand further down in the file, so
no other thread must find them before all of it is read."""


def foresee(order: Iterable[str], files: Mapping[str, str]) -> None:
    """Say what can be declared.

    Args:
        order: The full names of all modules that declare operators, in the order in which to read them.
        files: The bare names of operators, each with the module that declares it.
    """
    _ORDER.update({file: number for number, file in enumerate(order)})
    _FILES.update(files)


def _read(files: Iterable[str]) -> None:
    try:
        for file in files:
            imported(file)
            _enter(file)
    except BaseException:  # somebody interrupted it: what is half read is read anew when it is needed again
        for file in [file for file in _unfinished if file not in sys.modules]:
            del _unfinished[file]
        raise


def _enter(file: str) -> None:
    """Enter the operators of a file that has been read; if two threads do so at once, they do the same."""
    overloads: dict[str, list[Op]] = {}
    for op in _unfinished.get(file, {}).values():
        overloads.setdefault(op.schema.name, []).append(op)
    OVERLOADS._known.update(overloads)
    REGISTRY._known.update({op.name: op for ops in overloads.values() for op in ops})
    _unfinished.pop(file, None)


def _files_of(bare: str) -> Iterable[str]:
    """The file that declares a name, or all of them if that is not known."""
    return (_FILES[bare],) if bare in _FILES else _ORDER


class Registry(MutableMapping[str, T]):
    """Declared things by name, see Note [Declarations are read when needed]."""

    def __init__(self) -> None:
        self._known: dict[str, T] = {}

    def bare(self, name: str) -> str:
        """The operator's name without namespace and overload, by which its file is found; empty where there is none."""
        return name

    def look(self, name: str) -> T | None:
        """The thing of that name, or None if there is none."""
        found = self._known.get(name)
        if found is None and (bare := self.bare(name)):
            _read(_files_of(bare))
            found = self._known.get(name)
        return found

    def known(self) -> list[T]:
        """All that has been declared so far."""
        return list(self._known.values())

    def __getitem__(self, name: str) -> T:
        found = self.look(name)
        if found is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: T) -> None:
        self._known[name] = value

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        _read(_ORDER)
        return iter(sorted(self._known, key=lambda name: _ORDER.get(_FILES.get(self.bare(name), ""), len(_ORDER))))

    def __len__(self) -> int:
        return sum(1 for _ in self)


NAMESPACES = ("aten", "_c10d_functional")
"""The namespaces of operators; all other kinds of nodes are no operators. Their bare names are all different."""


def names_operator(kind: str) -> bool:
    """Whether a kind of nodes is that of operators, declared or not."""
    return kind.partition("::")[0] in NAMESPACES


class _ByKind(Registry["Op"]):
    def bare(self, name: str) -> str:
        return name.partition("::")[2].partition(".")[0] if names_operator(name) else ""


REGISTRY: Registry[Op] = _ByKind()
"""Every op by its qualified name, in the order of declaration."""
OVERLOADS: Registry[list[Op]] = Registry()
"""Every op by its bare name: `max` -> [max, max.dim, max.other]."""


def declare(op: Op) -> None:
    """Enter an operator, or keep it to be entered with all of its file; SchemaError if another one has its name."""
    name, is_ours = op.schema.name, op.module in _ORDER
    if _FILES.get(name, op.module) != op.module:
        _read(_files_of(name))
    beside = _unfinished.setdefault(op.module, {}) if is_ours else {}
    other = REGISTRY._known.get(op.name) or beside.get(op.name)
    if other is not None:
        raise SchemaError(f"{op.name} is already declared in {other.module}")
    if is_ours:
        beside[op.name] = op
    else:
        REGISTRY[op.name] = op
        OVERLOADS._known.setdefault(name, []).append(op)


def find(kind: str) -> Op | None:
    """The op of a node kind such as "aten::max.dim", or None for `prim::`, `^` and unknown kinds."""
    return REGISTRY.look(kind)
