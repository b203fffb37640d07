"""Collectives that return new tensors and are differentiated, by the names of `torch.distributed.nn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_distributed_nn import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "functional":
                "all_gather all_gather_into_tensor all_reduce all_to_all all_to_all_single broadcast gather reduce "
                "reduce_scatter reduce_scatter_tensor scatter",
        },
        ("functional",),
    )  # fmt: skip

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "functional",
    "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip
