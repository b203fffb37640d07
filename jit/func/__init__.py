"""Functions of functions: `vmap`, which maps over samples, derivatives that nest, and networks without state.

>>> import jit
>>> from jit.func import grad, vmap
>>> def loss(weight, x, y):
...     return ((x @ weight - y) ** 2).sum()
>>> weight, x, y = jit.ones(3), jit.arange(6.0).reshape(2, 3), jit.zeros(2)
>>> vmap(grad(loss), in_dims=(None, 0, 0))(weight, x, y).tolist()     # a gradient for each sample
[[0.0, 6.0, 12.0], [72.0, 96.0, 120.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_func import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "derivatives": "functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize vjp",
            "mapping": "vmap",
            "networks": "functional_call stack_module_state",
        },
    )

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip
