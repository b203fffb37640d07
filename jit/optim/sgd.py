"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jit.ir.errors import UsageError

from .optimizer import Optimizer, check_not_negative, chosen


class SGD(Optimizer):
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
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise UsageError("nesterov=True needs a momentum above 0 and no dampening; pass momentum=, or leave it out")
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        options |= chosen(ignored)
        super().__init__(params, {**options, "nesterov": nesterov, "maximize": maximize})

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        if group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        if group["momentum"]:
            gradient = self._with_momentum(gradient, state, group)
        parameter.add_(gradient, alpha=-group["lr"])

    def _with_momentum(self, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> Any:
        velocity = state.get("momentum_buffer")
        if velocity is None:
            first = gradient.detach() if group.get("differentiable") else gradient
            velocity = state["momentum_buffer"] = first.clone()
        else:
            velocity.mul_(group["momentum"]).add_(gradient, alpha=1 - group["dampening"])
        return gradient + velocity * group["momentum"] if group["nesterov"] else velocity
