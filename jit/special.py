"""Special functions, by the names of `torch.special`. The functions come from the registry."""

from typing import TYPE_CHECKING

from .eager.functions import members, names_in

if TYPE_CHECKING:
    from ._stubs.special import *  # noqa: F403
else:
    __getattr__, __dir__ = members("special", globals())
    __all__ = list(names_in("special"))
