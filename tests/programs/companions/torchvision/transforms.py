"""Transforms of images that are tensors already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.nn import functional


class Compose:
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Same:
    """A transform that leaves images as they are."""

    def __init__(self, *ignored: Any, **named: Any) -> None:
        pass

    def __call__(self, image: Any) -> Any:
        return image


class Normalize:
    """Images moved and scaled by numbers for each channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, image: Any) -> Any:
        return (image - self.mean[0]) / self.std[0]


class Resize:
    """Square images of another size."""

    def __init__(self, size: Any, *ignored: Any) -> None:
        self.size = (size, size) if isinstance(size, int) else tuple(size)

    def __call__(self, image: Any) -> Any:
        return functional.interpolate(image[None], self.size)[0]


ToTensor = RandomHorizontalFlip = RandomCrop = Pad = Same
