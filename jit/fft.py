"""Fourier transforms, by the names of `torch.fft`. The functions come from the registry."""

from typing import TYPE_CHECKING

from .eager.functions import public

if TYPE_CHECKING:
    from ._stubs.fft import *  # noqa: F403

globals().update(public("fft"))
