"""Signal processing: windows."""

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_signal import *  # noqa: F403
else:
    __getattr__, __dir__ = late(__name__, {}, ("windows",))

__all__ = ["windows"]
