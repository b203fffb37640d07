"""Linear algebra, by the names of `torch.linalg`. The functions come from the registry."""

from typing import TYPE_CHECKING

from jit.ir.errors import LinAlgError as LinAlgError

from .eager.functions import members, names_in

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403
else:
    __getattr__, __dir__ = members("linalg", globals())
    __all__ = ["LinAlgError", *names_in("linalg")]
