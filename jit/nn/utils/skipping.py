"""`skip_init`: a module whose parameters are not initialised."""

from __future__ import annotations

import inspect
from typing import Any

from jit.ir.errors import UsageError

from ..modules import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters are to be filled by the caller; those that are made hold what they always would.

    Args:
        module_cls: The class.
        args: Its arguments.
        kwargs: Its arguments by name.

    Raises:
        UsageError: It is no class of modules, or takes no device.
    """
    if not issubclass(module_cls, Module):
        raise UsageError(f"skip_init makes modules, and {module_cls.__name__} is none; pass a class of jit.nn")
    if "device" not in inspect.signature(module_cls).parameters:
        raise UsageError(f"Module {module_cls.__name__} must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs)
