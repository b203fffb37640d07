"""`torch.export`: a program that is traced ahead of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jit
from jit.compiler import OptimizedModule


class Dim:
    """A size that may differ from call to call; recordings find out which do.

    Args:
        name: A name for it.
        min: Its least value.
        max: Its greatest value.
    """

    AUTO = DYNAMIC = STATIC = None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.name, self.min, self.max = name, min, max


class ExportedProgram:
    """A module, traced with example arguments.

    Args:
        module: The module.
        args: Example arguments.
        kwargs: Example arguments by name.
    """

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._module = module
        self._traced = jit.trace(module)
        self._traced(*args, **kwargs)
        self.graph = self._traced.graph

    def module(self) -> Any:
        """A module that runs it."""
        return OptimizedModule(self._module, self._traced)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The traced module's result."""
        return self._traced(*args, **kwargs)

    @property
    def state_dict(self) -> Any:
        """The module's parameters and buffers by name."""
        return self._module.state_dict()


def export(mod: Any, args: Any, kwargs: Mapping[str, Any] | None = None, **options: Any) -> ExportedProgram:
    """A module, traced with example arguments.

    Args:
        mod: The module.
        args: Example arguments.
        kwargs: Example arguments by name.
        options: Accepted and ignored: which sizes vary is found out.
    """
    return ExportedProgram(mod, tuple(args), kwargs or {})


export_for_training = export

__all__ = ["Dim", "ExportedProgram", "export", "export_for_training"]
