"""`ZeroRedundancyOptimizer`: every process keeps the state of a share of the parameters, and steps with that share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from jit import distributed
from jit.eager.context import no_grad
from jit.ir.errors import UsageError

from ..nn.parallel.buckets import broadcast_all
from .lbfgs import LBFGS
from .optimizer import Optimizer

_POSITIONS = ("params", "param_names")
"""The entries of a group that say which parameters are in it, and are no options."""


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is shared out: each process steps with its share and sends the result to all.

    The parameters have the very bits that the plain optimizer would give them. A parameter belongs to the process that
    has the fewest elements when it comes, the largest ones first.

    Args:
        params: As of the plain optimizer.
        optimizer_class: The plain optimizer, whose step treats every parameter for itself.
        process_group: The processes; all if left out.
        parameters_as_bucket_view: Accepted and ignored: parameters keep the memory that they have.
        overlap_with_ddp: Refused: the step comes after the backward.
        **defaults: The options of the plain optimizer.

    Raises:
        UsageError: The optimizer looks at all parameters together, as LBFGS does, or steps are to overlap.

    >>> import jit
    >>> net = jit.nn.Linear(2, 1)
    >>> optimizer = jit.distributed.optim.ZeroRedundancyOptimizer(net.parameters(), jit.optim.Adam, lr=0.01)
    >>> net(jit.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> len(optimizer.state_dict()["state"])
    2
    """

    def __init__(
        self, params: Iterable[Any], optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        if overlap_with_ddp:
            raise UsageError("steps do not overlap with the backward here; leave overlap_with_ddp out")
        if issubclass(optimizer_class, LBFGS):
            raise UsageError("LBFGS looks at all parameters together, so they cannot be shared out; use it as it is")
        self.process_group = process_group
        is_alone = not distributed.is_initialized()
        self.rank = 0 if is_alone else distributed.get_rank(process_group)
        self.world_size = 1 if is_alone else distributed.get_world_size(process_group)
        self._owners: dict[int, int] = {}
        """The process that steps with each parameter, by the parameter's id."""
        self._loads = [0] * self.world_size
        self._whole: dict[int, Any] | None = None
        """The state of all processes, after `consolidate_state_dict`."""
        super().__init__(params, {})
        self.optim = optimizer_class([self._share(group) for group in self.param_groups], **defaults)
        """The optimizer of this process's share."""
        self.defaults = self.optim.defaults
        self.state = self.optim.state
        self._take_options()

    # -- who has what --------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Optimize more parameters, with options of their own.

        Raises:
            UsageError: A parameter belongs to another group already.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in sorted(group["params"], key=lambda p: -p.numel()):
            owner = self._loads.index(min(self._loads))
            self._loads[owner] += parameter.numel()
            self._owners[id(parameter)] = owner
        if "optim" in vars(self):
            self.optim.add_param_group(self._share(group))
            self._take_options()

    def _share(self, group: Mapping[str, Any]) -> dict[str, Any]:
        options = {name: value for name, value in group.items() if name not in _POSITIONS}
        return {**options, "params": [p for p in group["params"] if self._is_own(p)]}

    def _is_own(self, parameter: Any) -> bool:
        return self._owners[id(parameter)] == self.rank

    def _take_options(self) -> None:
        """Let groups have the options of the plain optimizer's."""
        for group, share in zip(self.param_groups, self.optim.param_groups, strict=True):
            _set_options(group, share)

    def _hand_options(self) -> None:
        """Let the plain optimizer have the options, which a schedule may have changed."""
        for group, share in zip(self.param_groups, self.optim.param_groups, strict=True):
            _set_options(share, group)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _update_groups(self) -> None:
        """Update the parameters of this process's share, and take over those of the others."""
        if self._whole is not None:
            self._whole = None  # which is that before this step
        if type(self.optim).step is Optimizer.step:
            for group, share in zip(self.param_groups, self.optim.param_groups, strict=True):
                self.optim._update_group({**group, "params": share["params"]})
        else:
            self._hand_options()
            self.optim.step()
        self._exchange()

    def _exchange(self) -> None:
        """Send the parameters of this process to all, and receive those of the others."""
        if self.world_size > 1:
            owned = [(p, self._owners[id(p)]) for p in self._parameters()]
            with no_grad():
                broadcast_all(owned, self.process_group)

    # -- saving --------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all processes in one of them, whose `state_dict()` has it then; all have to call this.

        Args:
            to: The number of that process.
        """
        parts = [self._own_state()]
        if self.world_size > 1:
            parts = [{}] * self.world_size
            distributed.all_gather_object(parts, self._own_state(), self.process_group)
        self._whole = {n: s for part in parts for n, s in part.items()} if self.rank == to else None

    def shard_state_dict(self) -> dict[str, Any]:
        """The state as `state_dict()` has it, but only of the parameters of this process; checkpoints ask for it."""
        return {**super()._state(), "state": self._own_state()}

    def _own_state(self) -> dict[int, Any]:
        found: dict[int, Any] = super()._state()["state"]
        return found

    def _state(self) -> dict[str, Any]:
        if self.world_size == 1:
            return super()._state()
        if self._whole is None:
            raise UsageError(
                "the state of this optimizer is shared out among processes; let all of them call "
                f"consolidate_state_dict(to={self.rank}) after the last step, or save a checkpoint in parts, see "
                "jit.distributed.checkpoint"
            )
        return {**super()._state(), "state": self._whole}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict()` of this or of the plain optimizer gave; each process keeps its share.

        Raises:
            UsageError: It is no state of an optimizer, or the groups do not match.
        """
        super().load_state_dict(state_dict)
        self.optim.state = self.state
        self._hand_options()

    def _keeps_state_of(self, parameter: Any) -> bool:
        return self._is_own(parameter)


def _set_options(group: dict[str, Any], given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in _POSITIONS and group.get(name, inspect.Parameter.empty) is not value:
            group[name] = value


__all__ = ["ZeroRedundancyOptimizer"]
