"""Data sets: by index (`Dataset`) or one after the other (`IterableDataset`), and those that are made of others."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from jit.eager.functions import member
from jit.eager.generators import Generator, default_generator
from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError

T_co = TypeVar("T_co", covariant=True)
Samples: TypeAlias = "Dataset[Any] | Sequence[Any]"
"""Anything with samples that have numbers, of which other data sets are made."""


class SizesError(UsageError, ValueError):
    """The error for data sets and lengths that do not fit together."""


class Dataset(Generic[T_co]):
    """Samples by index: a subclass defines `__getitem__`, and `__len__` for samplers that need it.

    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> joined = Squares() + Squares()
    >>> len(joined), joined[4]
    (6, 1)
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__; write one that returns a sample")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples one after the other: a subclass defines `__iter__`.

    With several workers each goes through a copy of its own; `get_worker_info()` tells the copies apart.
    """

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample `i` is the tuple of their elements at `i` of the first dim.

    Args:
        tensors: Tensors of one first size.

    Raises:
        SizesError: Their first sizes differ.
    """

    tensors: tuple[Tensor, ...]
    """The tensors."""

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            sizes = [t.size(0) for t in tensors]
            raise SizesError(f"size mismatch between tensors, whose first sizes are {sizes}; pass ones of one length")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Samples of several data sets at one index: as tuples, or as dicts where they are given by name.

    Args:
        args: Data sets of one length.
        kwargs: The same by name.

    Raises:
        SizesError: There are none, some are named and some are not, or their lengths differ.
    """

    datasets: Any
    """The data sets, a tuple or a dict."""

    def __init__(self, *args: Samples, **kwargs: Samples) -> None:
        if bool(args) == bool(kwargs):
            raise SizesError("StackDataset takes data sets either by position or by name, and at least one")
        self.datasets = args or kwargs
        self._length = len(self._parts()[0])
        if any(len(part) != self._length for part in self._parts()):
            raise SizesError(f"size mismatch between datasets: {[len(part) for part in self._parts()]} samples")

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, items: Sequence[Any]) -> Any:
        return dict(zip(self.datasets, items)) if isinstance(self.datasets, dict) else tuple(items)

    def __getitem__(self, index: Any) -> Any:
        return self._joined([part[index] for part in self._parts()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        return [self._joined(items) for items in zip(*(_items(part, indices) for part in self._parts()))]

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[Any]) -> list[Any]:
    """Several samples, at once where the data set can do so."""
    together = getattr(dataset, "__getitems__", None)
    if not callable(together):
        return [dataset[index] for index in indices]
    items: list[Any] = together(indices)
    if len(items) != len(indices):
        raise SizesError(f"__getitems__ of {type(dataset).__name__} gave {len(items)} samples for {len(indices)}")
    return items


class ConcatDataset(Dataset[T_co]):
    """Data sets one after the other.

    Args:
        datasets: At least one, each with a length.

    Raises:
        SizesError: There is none, or one is iterable and has no indices.
    """

    datasets: list[Samples]
    """The data sets."""
    cumulative_sizes: list[int]
    """The lengths of the first, of the first two, ..."""

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The running sum of lengths."""
        return list(itertools.accumulate(map(len, sequence)))

    def __init__(self, datasets: Iterable[Samples]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise SizesError("datasets should not be an empty iterable; pass at least one")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise SizesError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> T_co:
        place = index + len(self) if index < 0 else index
        if place < 0:
            raise SizesError("absolute value of index should not exceed dataset length")
        number = bisect.bisect_right(self.cumulative_sizes, place)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][place - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """`cumulative_sizes` under its first name."""
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable data sets one after the other.

    Args:
        datasets: The data sets; they are iterated over as they come.
    """

    def __init__(self, datasets: Iterable[Samples]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise SizesError("ChainDataset only supports IterableDataset; use ConcatDataset")
            yield each

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(map(len, self._checked()))


class Subset(Dataset[T_co]):
    """The samples of a data set at some indices.

    Args:
        dataset: The whole data set.
        indices: The indices.
    """

    indices: Sequence[int]
    """The indices."""

    def __init__(self, dataset: Samples, indices: Sequence[int]) -> None:
        self.dataset: Any = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[each] for each in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return _items(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Samples, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Parts of a data set that have no sample in common, drawn at random.

    Args:
        dataset: The data set.
        lengths: The number of samples of each part; or fractions whose sum is 1, where what is left over by rounding
            goes to the first parts, one each.
        generator: The source of the order; the default one if left out.

    Raises:
        SizesError: The lengths do not add up to that of the data set.

    >>> parts = random_split(range(10), [0.7, 0.3])
    >>> [len(part) for part in parts], sorted([*parts[0], *parts[1]]) == list(range(10))
    ([7, 3], True)
    """
    total = len(dataset)  # type: ignore[arg-type]
    counts = _counts(lengths, total) if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 else list(lengths)
    if sum(counts) != total:
        raise SizesError("Sum of input lengths does not equal the length of the input dataset!")
    order = member("jit", "randperm")(total, generator=generator or default_generator()).tolist()
    ends = list(itertools.accumulate(map(int, counts)))
    return [Subset(dataset, order[end - int(count) : end]) for end, count in zip(ends, counts)]


def _counts(fractions: Sequence[float], total: int) -> list[int]:
    for place, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise SizesError(f"Fraction at index {place} is not between 0 and 1")
    counts = [math.floor(total * fraction) for fraction in fractions]
    for place in range(total - sum(counts)):
        counts[place % len(counts)] += 1
    return counts


__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip
