"""`torch.return_types`: the named tuples of operators with several results."""

from __future__ import annotations

from typing import Any

from jit.eager.dispatch import return_type
from jit.ir.registry import OVERLOADS


def __getattr__(name: str) -> Any:
    found = [op for op in OVERLOADS.look(name) or () if len(op.schema.returns) > 1]
    if not found:
        raise AttributeError(f"no operator {name!r} has several results")
    return return_type(found[0])
