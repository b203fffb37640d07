"""Nested dictionaries and lists as flat tables of what they hold, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jit.eager.tensors import Tensor

from ..faults import ContentError

Step = str | int | tuple[int]
"""A key that is text or a number, or, in a tuple, the position in a list."""
Path = tuple[Step, ...]


def name_of(path: Path) -> str:
    """A path as text, with dots between the steps."""
    return ".".join(str(step[0] if isinstance(step, tuple) else step) for step in path)


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The contents of a tree, each with its path: tensors, values, and containers without tensors in them.

    Raises:
        ContentError: A key is neither text nor a number, or tensors are in a tuple.
    """
    inner = steps(tree, path)
    if inner is None:
        yield path, tree
        return
    for step, value in inner:
        yield from leaves(value, (*path, step))


def steps(tree: Any, path: Path) -> Iterable[tuple[Step, Any]] | None:
    """The members of a container that is looked into; None for anything that is taken as a whole.

    Raises:
        ContentError: A key is neither text nor a number, or tensors are in a tuple.
    """
    if isinstance(tree, Mapping) and tree:
        return [(_key(key, path), value) for key, value in tree.items()]
    if isinstance(tree, list) and any(map(_is_deep, tree)):
        return [((position,), value) for position, value in enumerate(tree)]
    if isinstance(tree, tuple) and any(map(_is_deep, tree)):
        raise ContentError(f"{name_of(path)!r} is a tuple with tensors in it, which cannot be loaded; make it a list")
    return None


def _key(key: Any, path: Path) -> Step:
    if type(key) in (str, int):
        return key
    raise ContentError(
        f"a checkpoint names what it holds by text and whole numbers, and {name_of(path)!r} has the key {key!r:.80}"
    )


def _is_deep(value: Any) -> bool:
    """Whether something is to have a name of its own."""
    return isinstance(value, (Tensor, Mapping)) or (isinstance(value, (list, tuple)) and any(map(_is_deep, value)))


def tree_of(found: Iterable[tuple[Path, Any]]) -> Any:
    """The tree whose leaves these are. Where an empty dictionary and what is in it are both given, the latter counts.

    >>> tree_of([(("a", (0,)), 1), (("a", (1,)), 2), (("b", 3), 4)])
    {'a': [1, 2], 'b': {3: 4}}
    """
    root: dict[Step, Any] = {}
    for path, value in found:
        place = root
        for step in path[:-1]:
            place = place.setdefault(step, {})
        if path:
            place.setdefault(path[-1], value)
    return _with_lists(root)


def _with_lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if any(isinstance(step, tuple) for step in tree):
        return [_with_lists(tree[step]) for step in sorted(tree)]
    return {step: _with_lists(value) for step, value in tree.items()}


# -- values as JSON --------------------------------------------------------------------------------------------------


def as_json(value: Any, name: str) -> Any:
    """A value as JSON has it.

    Args:
        value: A number, text, None, or containers of such.
        name: Its name in errors.

    Raises:
        ContentError: It is something else.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [as_json(each, name) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [as_json(each, name) for each in value]}
    if isinstance(value, Mapping):
        return {"dict": [[as_json(key, name), as_json(each, name)] for key, each in value.items()]}
    raise ContentError(
        f"a checkpoint holds tensors, numbers and text, and {name!r} is {type(value).__name__}; leave it out, or turn "
        "it into such"
    )


def from_json(value: Any) -> Any:
    """The value that JSON stands for."""
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        if kind == "tuple":
            return tuple(from_json(each) for each in inner)
        return {from_json(key): from_json(each) for key, each in inner}
    return value
