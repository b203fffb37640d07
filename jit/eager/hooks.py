"""Hooks on the calls of modules and on gradients, and the handles that take them away again."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

_serial = itertools.count()


class RemovableHandle:
    """The handle of a registered hook: `remove()` undoes it, and so does leaving a `with` block."""

    def __init__(self, hooks: HookTable, key: int) -> None:
        self.hooks_dict_ref = weakref.ref(hooks)
        """The table that holds the hook, as long as there is one."""
        self.id = key
        """The key of the hook there."""

    def remove(self) -> None:
        """Take the hook away; doing so twice is fine."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *details: object) -> None:
        self.remove()


class HookTable(dict[int, Any]):
    """Hooks in the order in which they run."""

    __slots__ = ("__weakref__",)  # and no attributes: a network has thousands of tables, nearly all of them empty

    def register(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Add `hook` at the end, or in front of all others."""
        key = next(_serial)
        later = list(self.items()) if prepend else []
        if prepend:
            self.clear()
        self[key] = hook
        self.update(later)
        return RemovableHandle(self, key)


class RecordedHook:
    """Base of hooks on leaves that a trace records: a backward inside of a traced function may run them.

    They do nothing but run operators, and keep nothing from one backward to the next.
    """

    def __call__(self, leaf: Any) -> None:
        raise NotImplementedError


class OnceFlag:
    """Whether something has happened; no function that is traced depends on it."""

    happened = False


Event = OnceFlag
"""The name of the class in pickles of optimizers that were written before it was renamed."""
