"""The door for PyTorch programs: they run as they are, with this package answering to the name `torch`.

    python -m jit.as_torch [-v] [--report] [--trace] script.py args...
    python -m jit.as_torch [-v] [--report] [--trace] -m package.module args...

`jit.as_torch.install()` opens the door in a process of one's own, `%load_ext jit.as_torch` in a notebook: then
`import torch`, `import torch.nn.functional as F` and the like find this package, whether torch is installed or not.

Note [Names behind the door]
    A module `torch.a.b` is a front: a module without names of its own, which asks `jit.a.b` for each when it is first
    asked for it. Where a path of PyTorch means something else in this package, `places` says what is meant. What is
    absent is absent to Python, too, so that `hasattr(torch, "x")` and `try: import torch.x` work as programs expect
    them to: an AttributeError or a ModuleNotFoundError, whose text says it in a sentence.
"""

from __future__ import annotations

from typing import Any

from .finder import install
from .ledger import LEDGER


def report() -> str:
    """A few lines on what the program has used of torch so far, what it missed, and what tracing won."""
    return LEDGER.report()


def load_ipython_extension(shell: Any) -> None:
    """Open the door in a notebook, `%load_ext jit.as_torch`.

    Args:
        shell: The notebook's shell, of which nothing is needed.
    """
    install()


__all__ = ["install", "load_ipython_extension", "report"]
