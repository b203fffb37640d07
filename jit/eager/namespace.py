"""`F`, the namespace in which derivatives, composites and whatever else is made of operators are written.

Any module may import it; the functions are those of `jit.eager.functions`, which says how they are found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import is_grad_enabled, no_grad


class Namespace:
    """Every operator by its ATen name."""

    no_grad = staticmethod(no_grad)
    is_grad_enabled = staticmethod(is_grad_enabled)
    find: Callable[[str], Callable[..., Any]]
    """The function of a name, or AttributeError."""

    def __getattr__(self, name: str) -> Any:
        return self.__dict__.setdefault(name, type(self).find(name))


F: Any = Namespace()
