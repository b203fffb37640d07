"""Fourier transforms, by the names of `torch.fft`. The functions come from the registry."""

from typing import TYPE_CHECKING

from .eager.functions import members, names_in

if TYPE_CHECKING:
    from ._stubs.fft import *  # noqa: F403
else:
    __getattr__, __dir__ = members("fft", globals())
    __all__ = list(names_in("fft"))
