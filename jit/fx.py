"""`jit.fx`: marks for PyTorch's symbolic tracer; recordings need none. Graphs of this package are `jit.ir.Graph`."""

from __future__ import annotations

from typing import Any

from jit.eager.proxies import TracedScalar


def wrap(fn_or_name: Any) -> Any:
    """The function, or the name, as it is: every function is traced through.

    Args:
        fn_or_name: A function, or the name of one in the caller's module.
    """
    return fn_or_name


Proxy = TracedScalar
"""A number that a recording follows, which programs ask for in place of PyTorch's."""

__all__ = ["Proxy", "wrap"]
