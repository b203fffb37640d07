"""Data sets of random images of the sizes of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset


class RandomImages(Dataset):
    """Sixty-four random images with random labels."""

    sizes: tuple[int, ...] = (1, 28, 28)

    def __init__(
        self, root: Any = None, train: bool = True, transform: Callable[[Any], Any] | None = None, **ignored: Any
    ) -> None:
        draws = np.random.RandomState(int(train))
        self.images = torch.from_numpy(draws.random_sample((64, *self.sizes))).to(torch.get_default_dtype())
        self.labels = draws.randint(0, 10, 64).tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = self.images[index]
        return image if self.transform is None else self.transform(image), self.labels[index]


class MNIST(RandomImages):
    """Images in the sizes of MNIST."""


class FashionMNIST(RandomImages):
    """Images in the sizes of Fashion-MNIST."""


class CIFAR10(RandomImages):
    """Images in the sizes of CIFAR-10."""

    sizes = (3, 32, 32)
