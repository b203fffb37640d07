"""Data sets, samplers, and `DataLoader`, which makes batches of them, in processes of its own if wanted.

>>> import jit
>>> from jit.utils.data import DataLoader, TensorDataset
>>> data = TensorDataset(jit.arange(6.0).reshape(6, 1), jit.arange(6))
>>> for features, labels in DataLoader(data, batch_size=4):
...     print(features.shape, labels.tolist())
jit.Size([4, 1]) [0, 1, 2, 3]
jit.Size([2, 1]) [4, 5]

Shuffled orders follow from seeds (`jit.manual_seed`, or a `generator`) and are the same on every machine, but they are
not PyTorch's: its generator is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_utils_data import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "_utils.collate": "default_collate default_convert",
            "_utils.worker": "get_worker_info",
            "dataloader": "DataLoader",
            "dataset": (
                "ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset TensorDataset random_split"
            ),
            "distributed": "DistributedSampler",
            "sampler": (
                "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler WeightedRandomSampler"
            ),
        },
        ("_utils", "dataloader", "dataset", "distributed", "sampler"),
    )

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "dataloader", "dataset", "default_collate", "default_convert", "distributed",
    "get_worker_info", "random_split", "sampler",
]  # fmt: skip
