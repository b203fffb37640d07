"""Nests of Python containers taken apart and put together, under PyTorch's private path, which many programs use.

Lists, tuples, named tuples, dicts and their ordered and default kinds, and deques are containers; all else is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jit.ir.errors import ShapeError

Context = Any
PyTree = Any


class _Kind(NamedTuple):
    """A type of containers."""

    flatten: Callable[[Any], tuple[list[Any], Any]]
    """The items, and whatever else is needed to make it anew."""
    unflatten: Callable[[Iterable[Any], Any], Any]
    """A container of these items."""


def _flatten_dict(value: Any) -> tuple[list[Any], Any]:
    return list(value.values()), list(value)


def _flatten_defaultdict(value: Any) -> tuple[list[Any], Any]:
    return list(value.values()), (value.default_factory, list(value))


SUPPORTED_NODES: dict[Any, _Kind] = {
    list: _Kind(lambda value: (value, None), lambda items, _: list(items)),
    tuple: _Kind(lambda value: (list(value), None), lambda items, _: tuple(items)),
    dict: _Kind(_flatten_dict, lambda items, keys: dict(zip(keys, items))),
    OrderedDict: _Kind(_flatten_dict, lambda items, keys: OrderedDict(zip(keys, items))),
    defaultdict: _Kind(_flatten_defaultdict, lambda items, more: defaultdict(more[0], zip(more[1], items))),
    deque: _Kind(lambda value: (list(value), value.maxlen), lambda items, longest: deque(items, longest)),
}
"""The types of containers; `register_pytree_node` adds others."""
_NAMED = _Kind(lambda value: (list(value), type(value)), lambda items, kind: kind(*items))


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], tuple[list[Any], Any]], unflatten_fn: Callable[[Iterable[Any], Any], Any],
    **others: Any,
) -> None:  # fmt: skip
    """Let objects of a class be containers.

    Args:
        cls: The class.
        flatten_fn: The items of an object, and whatever else is needed to make it anew.
        unflatten_fn: An object made of items and of the latter.
        others: Accepted and ignored.
    """
    SUPPORTED_NODES[cls] = _Kind(flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


@dataclasses.dataclass(frozen=True)
class TreeSpec:
    """The shape of a nest.

    >>> tree_flatten([1, (2, 3)])[1].num_leaves
    3
    """

    type: Any
    """The type of the container; None for a leaf."""
    context: Any
    """The keys, or whatever else its items do not say."""
    children_specs: tuple[TreeSpec, ...]
    """The shapes of its items."""

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return sum(child.num_leaves for child in self.children_specs) if self.type is not None else 1

    @property
    def num_children(self) -> int:
        """The number of items."""
        return len(self.children_specs)

    def children(self) -> list[TreeSpec]:
        """The shapes of its items."""
        return list(self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it is a leaf, and no container."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The nest of this shape with these leaves."""
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The shape of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, ())


_LEAF = TreeSpec(None, None, ())


def _kind_of(tree: Any) -> _Kind | None:
    kind = SUPPORTED_NODES.get(type(tree))
    return _NAMED if kind is None and isinstance(tree, tuple) and hasattr(tree, "_fields") else kind


def _take_apart(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    kind = _kind_of(tree)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF
    items, more = kind.flatten(tree)
    return TreeSpec(type(tree), more, tuple([_take_apart(item, leaves, is_leaf) for item in items]))


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a nest, and its shape.

    >>> tree_flatten({"a": [1, 2], "b": 3})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _take_apart(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest of a shape, with these leaves.

    Raises:
        ShapeError: There are more leaves than places, or fewer.
    """
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ShapeError(f"tree_unflatten: {len(given)} leaves were given for {treespec.num_leaves} places")
    return _put_together(iter(given).__next__, treespec)


def _put_together(take: Callable[[], Any], spec: TreeSpec) -> Any:
    if spec.type is None:
        return take()
    items = [_put_together(take, child) for child in spec.children_specs]
    return SUPPORTED_NODES.get(spec.type, _NAMED).unflatten(items, spec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a nest."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The shape of a nest."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """A nest of the same shape, with `func` of each leaf; of the leaves of several nests, where there are several.

    Args:
        func: A function of a leaf of each nest.
        tree: The first nest.
        rests: Further nests, of the same shape.
        is_leaf: Whether an object is taken as a leaf, though it is a container.

    >>> tree_map(lambda a, b: a + b, {"x": (1, 2)}, {"x": (10, 20)})
    {'x': (11, 22)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(tree_leaves(rest, is_leaf) for rest in rests)]
    return tree_unflatten([func(*each) for each in zip(*columns, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """`tree` itself, after `func` was called with each leaf; see `tree_map`."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """`tree_map` of those leaves alone that are of a type.

    Args:
        kind: The type, or a tuple of types.
        func: A function of a leaf.
        tree: The nest.
        is_leaf: As of `tree_map`.
    """
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether `pred` holds of all leaves.

    Args:
        pred: A function of a leaf.
        tree: The nest.
        is_leaf: As of `tree_map`.
    """
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether `pred` holds of any leaf; arguments as of `tree_all`."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
