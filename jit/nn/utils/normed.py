"""Weights learned as a direction and a length."""

from __future__ import annotations

from typing import Any

from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.ir.errors import UsageError

from ..lazy import refuse_lazy
from ..modules import Module
from ..parameter import Parameter


class WeightNorm:
    """Computes a weight from its direction and length whenever it is read."""

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def __call__(self, module: Any) -> Any:
        direction, length = getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g")
        return F._weight_norm(direction, length, self.dim)


def weight_to_norm(module: Any, name: str) -> Any:
    """The parameter of a module that is to be computed from others.

    Args:
        module: The module.
        name: The name of the parameter.

    Raises:
        UsageError: There is no such parameter, or it is a normed weight already.
    """
    if name in module._computed:
        raise UsageError(f"{name!r} of this {type(module).__name__} is a normed weight already; norm it once")
    weight = module._parameters.get(name)
    refuse_lazy([weight], "take apart")
    if weight is None:
        raise UsageError(f"{type(module).__name__} has no parameter {name!r} to be normed; name one of its own")
    return weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn a weight of `module` as directions, `<name>_v`, and lengths, `<name>_g`.

    Args:
        module: The module; its weight is computed anew whenever it is read.
        name: The parameter.
        dim: The dim along which each entry has a length of its own; None gives the whole weight one length.

    Returns:
        The module.

    Raises:
        UsageError: There is no such parameter, or it is a normed weight already.

    >>> import jit
    >>> layer = jit.nn.utils.weight_norm(jit.nn.Linear(3, 4))
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (4,)), ('weight_g', (4, 1)), ('weight_v', (4, 3))]
    """
    expect("weight_norm", module, Module)
    weight = weight_to_norm(module, name)
    norm = WeightNorm(name, -1 if dim is None else dim)
    direction = weight.detach()
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(F.norm_except_dim(direction, 2, norm.dim)))
    module.register_parameter(f"{name}_v", Parameter(direction))
    module._computed[name] = norm
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make a normed weight a parameter again.

    Raises:
        UsageError: The weight is not normed.

    >>> import jit
    >>> layer = jit.nn.utils.remove_weight_norm(jit.nn.utils.weight_norm(jit.nn.Linear(3, 4)))
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'weight']
    """
    expect("remove_weight_norm", module, Module)
    if not isinstance(module._computed.get(name), WeightNorm):
        raise UsageError(f"{name!r} of this {type(module).__name__} is no normed weight; call weight_norm() first")
    weight = module._computed.pop(name)(module).detach()
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    module.register_parameter(name, Parameter(weight))
    return module
