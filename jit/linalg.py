"""Linear algebra, by the names of `torch.linalg`. The functions come from the registry."""

from .functions import public

globals().update(public("linalg"))
