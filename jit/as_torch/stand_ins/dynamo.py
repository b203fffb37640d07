"""`torch._dynamo`: what programs say to PyTorch's compiler, as far as it means something or does no harm."""

from __future__ import annotations

from typing import Any

from jit.compiler import allow_in_graph, disable, is_compiling, reset

from . import dynamo_config as config


def graph_break() -> None:
    """Nothing: a recording goes on."""


def disallow_in_graph(fn: Any) -> Any:
    """The function as it is."""
    return fn


def mark_dynamic(t: Any, index: Any, *bounds: Any, **named: Any) -> None:
    """Nothing: a recording finds out which sizes vary."""


mark_static = maybe_mark_dynamic = mark_static_address = mark_dynamic


def optimize(backend: Any = None, **options: Any) -> Any:
    """A decorator that traces, `torch.compile`.

    Args:
        backend: Accepted and ignored.
        options: Accepted and ignored.
    """
    from jit.compiler import compile

    return compile


__all__ = [
    "allow_in_graph", "config", "disable", "disallow_in_graph", "graph_break", "is_compiling", "mark_dynamic",
    "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize", "reset",
]  # fmt: skip
