"""`F`, the namespace in which derivatives, composites and whatever else is made of operators are written.

It is empty here, so that any module may import it; `jit.eager.functions` fills it with the functions of the registry.
"""

from __future__ import annotations

from typing import Any

from .context import is_grad_enabled, no_grad


class Namespace:
    """Every operator by its ATen name."""

    no_grad = staticmethod(no_grad)
    is_grad_enabled = staticmethod(is_grad_enabled)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no operator is called {name!r}")


F: Any = Namespace()
