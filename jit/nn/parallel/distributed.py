"""`DistributedDataParallel`: a network that several processes train, each with samples of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jit import distributed
from jit.eager import context
from jit.ir.errors import KindError, UsageError

from ..modules import Module
from .buckets import BYTES, FIRST_BYTES, MEGABYTE, broadcast_all
from .reducing import GradBucket, GradientReducer


class DistributedDataParallel(Module):
    """A network that several processes train: each computes gradients of its own samples, and all get the average.

    Every process has the same parameters, those of process 0 at first, and keeps them the same by making the same
    steps. Gradients travel in buckets while the backward still runs. A process alone calls the network as it is.

    Args:
        module: The network, the same in all processes; also a traced one.
        device_ids: One device at most.
        output_device: Accepted and ignored.
        dim: Accepted and ignored.
        broadcast_buffers: Whether buffers are those of process 0 before a forward, in training.
        init_sync: Whether parameters and buffers are those of process 0 at first.
        process_group: The processes; all if left out.
        bucket_cap_mb: The megabytes after which a bucket is full, 25 if left out; the first one takes 1.
        find_unused_parameters: Whether some parameters may have no gradient, in some processes or in all.
        check_reduction: Accepted and ignored.
        gradient_as_bucket_view: Whether gradients are left as views of the rows in which they have travelled.
        static_graph: Whether the same parameters are used in each step; some may be unused then, too.
        delay_all_reduce_named_params: Refused.
        param_to_hook_all_reduce: Refused.
        mixed_precision: Refused; use `jit.autocast`.
        device_mesh: Refused; pass a process_group.

    Raises:
        UsageError: An option is refused, no parameter is learned, the networks differ, or several processes were
            started and `init_process_group` was not called.

    >>> import jit
    >>> net = jit.nn.parallel.DistributedDataParallel(jit.nn.Linear(2, 1))
    >>> list(net.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None, mixed_precision: Any = None, device_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        refused = {
            "delay_all_reduce_named_params": delay_all_reduce_named_params, "mixed_precision": mixed_precision,
            "param_to_hook_all_reduce": param_to_hook_all_reduce, "device_mesh": device_mesh,
        }  # fmt: skip
        for name, value in refused.items():
            if value is not None:
                raise UsageError(f"DistributedDataParallel does without {name}; leave it out")
        if device_ids is not None and len(device_ids) > 1:
            raise UsageError(f"each process has one device, and {len(device_ids)} are given; pass one of them")
        self.module = network_of(module)
        self.dim, self.output_device, self.device_ids = dim, output_device, list(device_ids or ())
        self.process_group = process_group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        object.__setattr__(self, "_run", module)  # a traced network is no module, and a module is one member already
        self._reducer: GradientReducer | None = None
        if _size_of(process_group) > 1:
            self._join(init_sync, BYTES if bucket_cap_mb is None else int(bucket_cap_mb * MEGABYTE))

    def _join(self, init_sync: bool, cap: int) -> None:
        """Begin to work with the other processes."""
        learned = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        if not learned:
            raise UsageError(
                "no parameter of the network requires grad, so there is nothing to average; call it as it is"
            )
        self._check_alike()
        if init_sync:
            self._take_from_first([*self.module.parameters(), *self.module.buffers()])
        self._reducer = GradientReducer(
            learned, self.process_group, min(cap, FIRST_BYTES), cap, self.find_unused_parameters or self.static_graph,
            self.gradient_as_bucket_view,
        )  # fmt: skip

    def _check_alike(self) -> None:
        """UsageError, in all processes, unless all have the same parameters and buffers by size and dtype."""
        members = [*self.module.named_parameters(), *self.module.named_buffers()]
        own = [(name, str(t.dtype), tuple(t.shape), t.requires_grad) for name, t in members]
        found: list[Any] = [None] * _size_of(self.process_group)
        distributed.all_gather_object(found, own, self.process_group)
        for rank, theirs in enumerate(found):
            if theirs != found[0]:
                pairs = zip([*theirs, None], [*found[0], None], strict=False)
                mine, first = next((a, b) for a, b in pairs if a != b)
                raise UsageError(
                    f"the network of process {rank} is not that of process 0: it has {mine} where that has {first}; "
                    "make the same network in all processes"
                )

    def _take_from_first(self, tensors: list[Any]) -> None:
        with context.no_grad():
            broadcast_all([(tensor, 0) for tensor in tensors], self.process_group)

    # -- calling -------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The result of the network, whose backward averages gradients unless within `no_sync`."""
        if self._reducer is None:
            return self._run(*inputs, **kwargs)
        if self.require_forward_param_sync and self.broadcast_buffers:
            self._take_from_first(list(self.module.buffers()))
        result = self._run(*inputs, **kwargs)
        syncs = context.GRAD_ENABLED.get() and self.require_backward_grad_sync
        if self.require_forward_param_sync != syncs:
            self.require_forward_param_sync = syncs
        if context.GRAD_ENABLED.get():
            self._reducer.begin(result, syncs)
        return result

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose forwards have backwards that keep gradients here; they add up until one outside sends them."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Let `hook(state, bucket)` send a bucket: it gives a future of the row that takes its place everywhere.

        Raises:
            KindError: `hook` cannot be called.
        """
        if not callable(hook):
            raise KindError(f"a communication hook is a function of a state and a bucket, not {type(hook).__name__}")
        if self._reducer is not None:
            self._reducer.comm_hook = lambda bucket: hook(state, bucket)


def network_of(module: Any) -> Module:
    """The network itself, also of a traced one.

    Raises:
        KindError: It is none.
    """
    found = module if isinstance(module, Module) else getattr(module, "__wrapped__", None)
    if not isinstance(found, Module):
        raise KindError(f"DistributedDataParallel takes a network, not {type(module).__name__}; pass a jit.nn.Module")
    return found


LAUNCHERS = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Variables in which launchers say how many processes they have started."""


def _size_of(group: Any) -> int:
    """The number of processes; UsageError if others were started that this one does not know of."""
    if distributed.is_initialized():
        return distributed.get_world_size(group)
    started = [os.environ[name] for name in LAUNCHERS if os.environ.get(name, "1") != "1"]
    if started:
        raise UsageError(
            f"{started[0]} processes were started, and this one would train alone; call "
            'jit.distributed.init_process_group("mpi") before'
        )
    return 1


__all__ = ["DistributedDataParallel", "GradBucket"]
