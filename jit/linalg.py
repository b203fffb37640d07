"""Linear algebra, by the names of `torch.linalg`. The functions come from the registry."""

from typing import TYPE_CHECKING

from jit.ir.errors import LinAlgError as LinAlgError

from .eager.functions import public

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403

globals().update(public("linalg"))
