"""`load_url`, the former name of `jit.hub.load_state_dict_from_url`."""

from __future__ import annotations

from typing import Any

from jit.late import imported


def load_url(*args: Any, **kwargs: Any) -> Any:
    """The result of `jit.hub.load_state_dict_from_url` for these arguments."""
    return imported("jit.hub").load_state_dict_from_url(*args, **kwargs)
