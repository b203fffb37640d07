"""Facts that all networks have in common, for code that traces, exports or watches them and knows no layer.

The networks are those of `jit.nn`: `Module` is derived from `Network`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .hooks import HookTable

FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD = HookTable(), HookTable(), HookTable(), HookTable()
"""Hooks around every call of any network; the entries are like those of a network's own tables."""
CALLS = {"forward_pre": FORWARD_PRE, "forward": FORWARD, "backward_pre": BACKWARD_PRE, "backward": BACKWARD}
"""All four tables, for traces to look at: other hooks make another recording."""


TELLING: set[Any] = set()
"""The functions `__setattr__` of networks that tell the recorder what is set, see `Recorder.note_attribute`."""


class Network:
    """An object with state whose call runs `forward`: what it holds are inputs of its recordings."""

    forward: Callable[..., Any]
    __call__: Callable[..., Any]


def initial_state() -> dict[str, Any]:
    """The attributes that every network has, as they are at first."""
    return {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_modules": {},
        "_computed": {},
        "_transient_buffers": set(),
        "_forward_pre_hooks": HookTable(),
        "_forward_hooks": HookTable(),
        "_backward_pre_hooks": HookTable(),
        "_backward_hooks": HookTable(),
        "_state_hooks": {when: HookTable() for when in ("save", "saved", "load", "loaded")},
    }
