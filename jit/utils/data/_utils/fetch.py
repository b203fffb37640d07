"""Fetchers: the next batch of a data set, given the indices of its samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..dataset import IterableDataset, _items


class Fetcher:
    """A maker of batches of a data set, by index.

    Args:
        dataset: The data set.
        batched: Whether `indices` is a list, and not a single index.
        collate: What joins the samples, or converts a single one.
        drop_last: Whether a last batch that is too short is left out; for iterable data sets.
    """

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset, self.batched, self.collate, self.drop_last = dataset, batched, collate, drop_last

    def fetch(self, indices: Any) -> Any:
        """The batch of these indices."""
        return self.collate(_items(self.dataset, indices) if self.batched else self.dataset[indices])


class IterableFetcher(Fetcher):
    """A maker of batches of an iterable data set; indices only say how many samples are wanted."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        super().__init__(dataset, batched, collate, drop_last)
        self.iterator = iter(dataset)

    def fetch(self, indices: Any) -> Any:
        """The next batch.

        Raises:
            StopIteration: There is none.
        """
        if not self.batched:
            return self.collate(next(self.iterator))
        samples = list(itertools.islice(self.iterator, len(indices)))
        if not samples or (self.drop_last and len(samples) < len(indices)):
            raise StopIteration
        return self.collate(samples)


def fetcher_of(dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> Fetcher:
    """The fetcher for a data set; see `Fetcher`.

    Args:
        dataset: The data set.
        batched: Whether indices come in lists.
        collate: What joins the samples.
        drop_last: Whether a last batch that is too short is left out.
    """
    kind = IterableFetcher if isinstance(dataset, IterableDataset) else Fetcher
    return kind(dataset, batched, collate, drop_last)
