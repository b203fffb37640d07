"""The finder that answers `import torch`, and the fronts that it answers with."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module, metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import jit
from jit.ir import dtypes
from jit.ir.errors import UsageError
from jit.late import unwatched

from .ledger import LEDGER
from .places import MODULES, NAMES, sentence

_ABSENT = object()


def install(*, verbose: bool = False) -> None:
    """Let `import torch` find this package from now on, and dtypes and the like print as torch's.

    Args:
        verbose: Say on stderr where something is passed over that does nothing here.

    Raises:
        UsageError: Torch itself has been imported.

    >>> import jit.as_torch
    >>> jit.as_torch.install()
    >>> import torch
    >>> torch.Tensor is jit.Tensor, torch.nn.functional.relu(torch.tensor([-1.0, 2.0])).tolist()
    (True, [0.0, 2.0])
    """
    LEDGER.is_loud = LEDGER.is_loud or verbose
    held = sys.modules.get("torch")
    if held is not None and not isinstance(getattr(held, "__loader__", None), FrontLoader):
        raise UsageError("torch itself is imported already; call jit.as_torch.install() before anything imports it")
    dtypes.package = "torch"
    if not any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder())


class TorchFinder(MetaPathFinder):
    """The finder that Python asks where `torch` and the modules in it are."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The way to a front; ModuleNotFoundError, with our sentence, if there is nothing behind it."""
        if name.partition(".")[0] != "torch":
            return None
        with unwatched():
            behind = _behind(name)
        if behind is not _ABSENT:
            return ModuleSpec(name, FrontLoader(behind), is_package=True)
        LEDGER.miss(name)
        if sys._getframe(2).f_globals.get("__name__") == "importlib.util":  # find_spec: it only asks
            return None
        # Without a name in it, as `from torch import x` would take an error of that name for its own, and say less.
        raise ModuleNotFoundError(sentence(name))

    def find_distributions(self, context: Any = None) -> Iterable[metadata.Distribution]:
        """The distribution `torch`, whose version libraries ask for."""
        return [TorchDistribution()] if getattr(context, "name", None) == "torch" else []


class TorchDistribution(metadata.Distribution):
    """The distribution of torch, as `importlib.metadata` knows it."""

    def read_text(self, filename: str) -> str | None:
        """The text of its description; it has no other files."""
        from .stand_ins.version import __version__

        return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """The place where a file of it would be."""
        return Path(jit.__file__).parent / path


class FrontLoader(Loader):
    """A loader that puts a front before a module.

    Args:
        behind: The module, or any other object that takes the place of one.
    """

    def __init__(self, behind: Any) -> None:
        self.behind = behind

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The front."""
        return front(spec.name, self.behind)

    def exec_module(self, module: ModuleType) -> None:
        """An object that is no module, such as `torch.backends.cudnn`, takes the front's place: it can be written."""
        if not isinstance(self.behind, ModuleType):
            sys.modules[module.__name__] = self.behind
        elif module.__name__ == "torch":
            vars(module)["__version__"] = _find("torch", self.behind, "__version__")


class Front(ModuleType):
    """A module before another one. A function keeps its name from a module of that name which is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, Front) and f"{self.__name__}.{name}" in NAMES):
            super().__setattr__(name, value)


def front(name: str, behind: Any) -> ModuleType:
    """A module that asks the one behind it for every name; see Note [Names behind the door].

    Args:
        name: The path in PyTorch.
        behind: The module that knows.
    """
    made = Front(name, f"`{name}`, for which jit answers.")

    def find(member: str) -> Any:
        if member == "__all__":
            return listed()
        if member.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {member!r}")
        found = _found(name, behind, member, made)
        if not isinstance(found, (bool, int, float, str, type(None))):  # which may change
            vars(made)[member] = found
        return found

    def listed() -> Sequence[str]:
        return sorted(each for each in dir(behind) if not each.startswith("_") and not hasattr(builtins, each))

    vars(made).update(__getattr__=find, __dir__=listed, __file__=getattr(behind, "__file__", jit.__file__))
    return made


def _found(name: str, behind: Any, member: str, made: ModuleType) -> Any:
    path = f"{name}.{member}"
    with unwatched():
        found = _find(name, behind, member)
    if found is _ABSENT:
        LEDGER.miss(path)
        raise AttributeError(sentence(path), name=member, obj=made)
    LEDGER.used.add(path)
    return found


def _find(name: str, behind: Any, member: str) -> Any:
    """A name of a module of PyTorch."""
    path = f"{name}.{member}"
    if path in NAMES:
        module, _, inner = NAMES[path].partition(":")
        return getattr(import_module(module), inner) if inner else import_module(module)
    if path in MODULES:
        return import_module(path)
    found = _asked(behind, member)
    if isinstance(found, ModuleType) and found.__name__.partition(".")[0] == "jit":
        return import_module(path)
    return found


def _asked(behind: Any, member: str) -> Any:
    """A name of a module of ours; `_ABSENT` also where it needs a module that is not there."""
    try:
        return getattr(behind, member, _ABSENT)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("jit."):
            return _ABSENT
        raise


def _behind(name: str) -> Any:
    """The module that answers for one of PyTorch; `_ABSENT` if none does."""
    if name in MODULES:
        return import_module(MODULES[name])
    parent, _, last = name.rpartition(".")
    held = import_module(parent)
    loader = getattr(held, "__loader__", None)
    found = _asked(loader.behind if isinstance(loader, FrontLoader) else held, last)
    return _ABSENT if callable(found) or found is None else found


__all__ = ["FrontLoader", "TorchDistribution", "TorchFinder", "front", "install"]
