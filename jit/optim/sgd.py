"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from jit.ir.errors import UsageError

from .optimizer import Counts, check_not_negative, forms
from .rules import Kept, Numbers, RuledOptimizer


class SGD(RuledOptimizer):
    """Gradient descent, with momentum if wanted: ``v = momentum * v + (1 - dampening) * g`` and ``p -= lr * v``.

    The first v is g itself; with `nesterov` the step is ``lr * (g + momentum * v)``.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        momentum: The share of the last step that is taken again.
        dampening: The share of a new gradient that is left out of the momentum.
        weight_decay: How strongly parameters are pulled to zero.
        nesterov: Whether to look ahead (Nesterov's momentum).
        maximize: Whether to maximize instead of minimizing.

    >>> import jit
    >>> x = jit.tensor(2.0, requires_grad=True)
    >>> optimizer = jit.optim.SGD([x], lr=0.25)
    >>> (x * x).backward()
    >>> optimizer.step()
    >>> x.item()
    1.0
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise UsageError("nesterov=True needs a momentum above 0 and no dampening; pass momentum=, or leave it out")
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        options |= forms(ignored, "differentiable", "foreach", "fused")
        super().__init__(params, {**options, "nesterov": nesterov, "maximize": maximize})

    counts: ClassVar[Counts] = {}

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """See `RuledOptimizer.kept`."""
        return ("momentum_buffer",) if group["momentum"] else ()

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        numbers = {"rate": group["lr"]}
        if group["weight_decay"]:
            numbers["decay"] = group["weight_decay"]
        if group["momentum"]:
            share = {"momentum": group["momentum"], "fresh": 1 - group["dampening"]}
            numbers |= {**share, "nesterov": bool(group["nesterov"]), "is_first": is_first}
        return numbers, {}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        if "decay" in n:
            g = g + p * n["decay"]
        if "momentum" not in n:
            return p - g * n["rate"], {}
        v = g if n["is_first"] else kept["momentum_buffer"] * n["momentum"] + g * n["fresh"]
        step = g + v * n["momentum"] if n["nesterov"] else v
        return p - step * n["rate"], {"momentum_buffer": v}
