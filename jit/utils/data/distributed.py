"""`DistributedSampler`: the part of a data set that one of several processes takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sized

from jit import distributed
from jit.eager.functions import member
from jit.eager.generators import Generator

from .sampler import Sampler, SamplerError


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, beginning with number `rank`; all processes get equally many.

    Args:
        dataset: The data set.
        num_replicas: The number of processes; that of all that work together if left out.
        rank: The number of this process, likewise.
        shuffle: Whether the order is random: the same in all processes, another for each epoch.
        seed: What the order follows from, together with the epoch.
        drop_last: Whether samples are left out, instead of given twice, where their number is no multiple.

    Raises:
        SamplerError: There is no such rank.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.dataset = dataset
        together = distributed.is_initialized()
        world, here = (distributed.get_world_size(), distributed.get_rank()) if together else (1, 0)
        self.num_replicas = world if num_replicas is None else num_replicas
        self.rank = here if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise SamplerError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        share = len(dataset) / self.num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order = list(range(size))
        if self.shuffle:
            order = member("jit", "randperm")(size, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        filled = itertools.islice(itertools.cycle(order), self.total_size)
        return itertools.islice(filled, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass have the order of this epoch."""
        self.epoch = epoch


__all__ = ["DistributedSampler"]
