"""Samplers: the order in which a `DataLoader` takes the samples of a data set."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from jit.eager.creation import as_tensor
from jit.eager.functions import member
from jit.eager.generators import Generator
from jit.ir.dtypes import float64
from jit.ir.errors import KindError, UsageError

T_co = TypeVar("T_co", covariant=True)
CHUNK = 32
"""The number of indices that are drawn at once with replacement."""


class SamplerError(UsageError, ValueError):
    """The error for arguments that a sampler cannot have."""


def fresh_seed(generator: Generator | None = None) -> int:
    """A seed that is drawn from a generator, the default one if none is given."""
    drawn: int = member("jit", "randint")(0, 2**63 - 1, (), generator=generator).item()
    return drawn


class Sampler(Generic[T_co]):
    """An order of samples: a subclass defines `__iter__`, which gives indices or lists of them.

    Args:
        data_source: Accepted and ignored, as it is in PyTorch.
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        del data_source

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__; write one that yields indices")


class SequentialSampler(Sampler[int]):
    """All indices, from first to last.

    Args:
        data_source: The data set.
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices at random.

    Args:
        data_source: The data set.
        replacement: Whether an index may come again before all others have come.
        num_samples: The number of indices; as many as there are samples if left out.
        generator: The source of the order; if left out, each pass is seeded by the default generator.

    Raises:
        SamplerError: `num_samples` is no positive number.
        KindError: `replacement` is no bool.

    >>> import jit
    >>> sorted(RandomSampler(range(4), generator=jit.Generator().manual_seed(1)))
    [0, 1, 2, 3]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise KindError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or isinstance(self.num_samples, bool) or self.num_samples < 0:
            raise SamplerError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")

    @property
    def num_samples(self) -> int:
        """The number of indices of a pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, wanted = len(self.data_source), self.num_samples
        generator = self.generator or Generator().manual_seed(fresh_seed())
        draw = self._independent if self.replacement else self._permuted
        return itertools.islice(draw(size, generator), wanted) if size else iter(())

    @staticmethod
    def _independent(size: int, generator: Generator) -> Iterator[int]:
        while True:
            yield from member("jit", "randint")(size, (CHUNK,), generator=generator).tolist()

    @staticmethod
    def _permuted(size: int, generator: Generator) -> Iterator[int]:
        while True:
            yield from member("jit", "randperm")(size, generator=generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order.

    Args:
        indices: The indices.
        generator: The source of the order; the default one if left out.
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in member("jit", "randperm")(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities.

    Args:
        weights: A weight for each sample; their sum need not be 1.
        num_samples: The number of indices.
        replacement: Whether an index may come more than once.
        generator: The source of the draws; the default one if left out.

    Raises:
        SamplerError: `num_samples` is no positive number, `replacement` is no bool, or the weights are no vector.

    >>> list(WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise SamplerError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise SamplerError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            shape = tuple(self.weights.shape)
            raise SamplerError(f"weights should be a 1d sequence but given weights have shape {shape}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        draw = member("jit", "multinomial")
        yield from draw(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of what another sampler gives.

    Args:
        sampler: The sampler, or any iterable.
        batch_size: The length of the lists.
        drop_last: Whether the last one is left out if it is shorter.

    Raises:
        SamplerError: `batch_size` is no positive number, or `drop_last` is no bool.

    >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise SamplerError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise SamplerError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole + (rest > 0 and not self.drop_last)


__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip
