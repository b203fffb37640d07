"""Recipes: all that decides on a kernel, as text, so that a process finds its machine code without writing LLVM IR.

Comes between `fusion` and `codegen`. A recipe is exact: two nests of one recipe have the same LLVM text.

Note [What a recipe says, and what it cannot]
    A nest's maps, layouts and results are plain data and are written out. Its bodies are functions; one that is made
    from a fusion group carries a `recipe`, the text of the group, since operators, dtypes and constants decide on it.
    What is left is the code of this package that makes the one from the other, `compute` lines included:

        name = digest(recipes of a module's nests, target, versions, digest of jit/ir, ops, passes, runtime, tracing)

    Everything else has no recipe and is found by its LLVM text: operators whose body stands elsewhere, bodies made by
    hand, constants that are not plain numbers. In a process whose sources have changed since it began to read them,
    nothing has a recipe: the digest would be of other sources than those that run.
"""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.dtypes import DType
from jit.ir.graph import Ref
from jit.ir.loading import BEGAN

from ..targets.target import Target
from . import cache as caching

Body = Callable[..., Any]


class UnknownRecipe(Exception):
    """A thing that has no exact text, and so no recipe."""


def named(body: Body, recipe: str | None) -> Body:
    """A nest's body, marked with the recipe of what it computes; None if that is not known."""
    body.recipe = recipe  # type: ignore[attr-defined]
    return body


def of_nest(nest: Any) -> str | None:
    """All that decides on the LLVM text of a nest: everything but its name and comments."""
    bodies = [getattr(step.body, "recipe", None) for step in nest.steps]
    if None in bodies:
        return None
    steps = [_fields(step, ("body",)) for step in nest.steps]
    maps = repr((_fields(nest, ("steps", "name", "comments")), steps))
    return None if "nan" in maps else f"{maps} {bodies}"  # there are several NaNs


def _fields(record: Any, without: Sequence[str]) -> list[tuple[str, Any]]:
    return [(name, getattr(record, name)) for name in record.__dataclass_fields__ if name not in without]


# -- groups ------------------------------------------------------------------------------------------------------


def of_group(body: Graph) -> str | None:
    """The computation of a fusion group, whatever its values are called and wherever its lines stand."""
    numbers = {value: number for number, value in enumerate(body.inputs)}
    try:
        entries = [[_type(value) for value in body.inputs]]
        for node in body.nodes:
            entries.append([_entry(node, numbers)])
            for value in node.outputs:
                numbers[value] = len(numbers)
    except UnknownRecipe:
        return None
    return f"{entries} -> {[numbers[value] for value in body.outputs]}"


def of_node(node: Node) -> str | None:
    """The computation of one node."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(node.inputs))}
    try:
        return f"{[_type(value) for value in numbers]} {_entry(node, numbers)}"
    except UnknownRecipe:
        return None


def _entry(node: Node, numbers: dict[Value, int]) -> str:
    if not is_ours(node.kind):
        raise UnknownRecipe(node.kind)
    operands = [numbers[value] for value in node.inputs]
    types = [_type(value) for value in node.outputs]
    return f"{node.kind} {operands} {exact(node.args)} {exact(node.attributes)} {types}"


def is_ours(kind: str) -> bool:
    """Whether an operator's body is among the sources that are digested."""
    op = find(kind)
    code = getattr(op.body, "__code__", None) if op is not None else None
    return code is not None and os.path.dirname(code.co_filename) == _OPERATORS and _is_as_it_was(code.co_filename)


@cache
def _is_as_it_was(path: str) -> bool:
    """Whether a file of declarations, which may be read long after `sources` looked at it, is still as it was then."""
    found = os.stat(path)
    return max(found.st_ctime_ns, found.st_mtime_ns) <= BEGAN - _MARGIN


def _type(value: Value) -> str:
    type = value.type
    if not isinstance(type, TensorType) or type.dtype is None or type.sizes is None:
        raise UnknownRecipe(str(type))
    return f"{type.dtype.name} {type.sizes} {type.strides} {type.device}"


def exact(thing: Any) -> str:
    """A text that no other value has: floats in full, True apart from 1."""
    kind = type(thing)
    if kind is float:
        return f"float {struct.pack('>d', thing).hex()}"  # NaNs have signs, too
    if kind in (int, bool, str, type(None)):
        return repr(thing)
    if kind in (tuple, list):
        return f"{kind.__name__}({', '.join(map(exact, thing))})"
    if kind is dict:
        return f"dict({', '.join(f'{exact(key)}: {exact(value)}' for key, value in thing.items())})"
    if kind is Ref:
        return f"%{thing.index}"
    if kind is DType:
        return f"dtype {thing.name}"
    raise UnknownRecipe(kind.__name__)


# -- names in the cache ------------------------------------------------------------------------------------------


def name_of(recipes: Sequence[str | None], target: Target) -> str | None:
    """The cache entry's name for these recipes; None if one of them, or this process's code, is not known."""
    known = [recipe for recipe in recipes if recipe is not None]
    code = sources() if len(known) == len(recipes) else None
    if code is None:
        return None
    return caching.digest(["recipes", code, *_versions(), *target.circumstances(), *known])


def answered(question: str, recipe: str | None, ask: Callable[[], bool]) -> bool:
    """The answer of `ask()` to a recipe, asked once for all processes."""
    kept, name = caching.shared(), name_of([recipe and f"{question} {recipe}"], Target.host())
    if kept is None or name is None:
        return ask()
    found = kept.load(name)
    if found is None:
        found = b"yes" if ask() else b"no"
        kept.store(name, found)
    return found == b"yes"


@cache
def _versions() -> tuple[str, ...]:
    return sys.version, np.__version__, ml_dtypes.__version__, _scipy()


def _scipy() -> str:
    """The version of SciPy, found without loading it: its functions fold constants."""
    found = importlib.util.find_spec("scipy")
    where = "" if found is None or found.origin is None else found.origin
    return f"{where} {os.stat(where).st_mtime_ns}" if where else "none"


_ROOT = str(Path(__file__).parents[2])
_OPERATORS = os.path.join(_ROOT, "ops")
_FOLDERS = ("ir", "ops", "passes", "runtime", "tracing")
"""The folders of the code that makes plans of recordings and LLVM text of groups."""
_MARGIN = 10**9
"""Nanoseconds: clocks of file systems lag behind, and some files were read before `BEGAN`."""


@cache
def sources() -> str | None:
    """A digest of the code that makes LLVM text of recipes; None if it is not, or not surely, what this process runs.

    Reading the files takes milliseconds, so the digest is kept under what the system says of them: the time of their
    last change of any kind, which no tool sets at will, is part of that.
    """
    try:
        about = [(path, os.stat(path)) for path in _files()]
        if not about or max(max(s.st_ctime_ns, s.st_mtime_ns) for _, s in about) > BEGAN - _MARGIN:
            return None
        facts = [f"{path} {s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for path, s in about]
        kept, name = caching.shared(), caching.digest(["sources", *facts])
        found = kept.load(name) if kept is not None else None
        if found is None:
            found = contents().encode()
            if kept is not None:
                kept.store(name, found)
        return found.decode()
    except OSError:
        return None


def contents(root: str = _ROOT) -> str:
    """The digest of the sources as they are now."""
    texts = [text for path in _files(root) for text in (os.path.relpath(path, root), Path(path).read_text("utf-8"))]
    return caching.digest(texts)


def _files(root: str = _ROOT) -> Iterator[str]:
    for folder in _FOLDERS:
        for where, inner, names in os.walk(os.path.join(root, folder)):
            inner.sort()
            yield from sorted(os.path.join(where, name) for name in names if name.endswith(".py"))
