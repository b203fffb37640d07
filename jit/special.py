"""Special functions, by the names of `torch.special`. The functions come from the registry."""

from typing import TYPE_CHECKING

from .eager.functions import public

if TYPE_CHECKING:
    from ._stubs.special import *  # noqa: F403

globals().update(public("special"))
