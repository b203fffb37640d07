"""A few names of torchvision, over random images, for programs that would only load a data set through it."""

from . import datasets, transforms, utils

__all__ = ["datasets", "transforms", "utils"]
