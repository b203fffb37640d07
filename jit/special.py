"""Special functions, by the names of `torch.special`. The functions come from the registry."""

from .functions import public

globals().update(public("special"))
