"""Processes that work together: collectives by PyTorch's names, on MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.ir.errors import DistributedError
from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_distributed import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "collectives": "all_gather all_gather_into_tensor all_reduce barrier broadcast reduce",
            "groups":
                "Backend GroupMember ProcessGroup default_pg_timeout destroy_process_group get_backend "
                "get_global_rank get_group_rank get_process_group_ranks get_rank get_world_size group "
                "init_process_group is_available is_gloo_available is_initialized is_mpi_available "
                "is_nccl_available is_torchelastic_launched is_ucc_available is_xccl_available new_group "
                "new_subgroups",
            "messages": "P2POp batch_isend_irecv irecv isend monitored_barrier recv send",
            "objects": "all_gather_object broadcast_object_list gather_object scatter_object_list",
            "reductions": "ReduceOp",
            "sharing_out": "all_to_all all_to_all_single gather reduce_scatter reduce_scatter_tensor scatter",
            "works": "Work",
        },
        ("checkpoint", "nn", "optim"),
    )  # fmt: skip

DistBackendError = DistNetworkError = DistStoreError = DistError = DistributedError

__all__ = [
    "Backend", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember", "P2POp",
    "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list",
    "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend", "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv",
    "is_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "nn", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
]  # fmt: skip
