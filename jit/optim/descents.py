"""Rprop, which looks at signs alone, and ASGD, which averages where it has been."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from .optimizer import STEPS, Optimizer, check_not_negative, decayed, forms, number_of, place_counts


class Rprop(Optimizer):
    """Steps of a size per element that grows while the gradient keeps its sign (Riedmiller and Braun, 1993).

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The first size of a step.
        etas: The factors for a sign that has changed, and for one that has not.
        step_sizes: The least and the largest size.
        maximize: Whether to maximize instead of minimizing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise UsageError(f"etas are {etas}; pass a factor between 0 and 1, and one above 1")
        options = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes), "maximize": maximize}
        options |= forms(ignored, "capturable", "differentiable", "foreach")
        super().__init__(params, options)

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        if not state:
            sizes = F.full_like(gradient, group["lr"])
            state.update(prev=F.zeros_like(gradient), step_size=sizes)
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        place_counts(state, parameter, STEPS)
        state["step"] += 1
        agreement = gradient * state["prev"]
        turned = F.lt(agreement, 0)
        factors = F.where(F.gt(agreement, 0), grow, F.where(turned, shrink, 1.0))
        sizes = state["step_size"].mul_(factors).clamp_(least, most)
        gradient = F.where(turned, 0.0, gradient)
        parameter.sub_(F.sign(gradient) * sizes)
        state["prev"].copy_(gradient)


class ASGD(Optimizer):
    """Gradient descent that keeps the average of where it has been in `state[parameter]["ax"]` (Polyak, 1992).

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        lambd: How strongly parameters are pulled to zero, and the learning rate with them.
        alpha: The power with which the learning rate falls.
        t0: The step at which averaging starts.
        weight_decay: How strongly parameters are pulled to zero, as part of the gradient.
        maximize: Whether to maximize instead of minimizing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, weight_decay=weight_decay)
        options = {
            **forms(ignored, "capturable", "differentiable", "foreach"),
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
        }
        super().__init__(params, {**options, "maximize": maximize})

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        gradient = decayed(parameter, gradient, group)
        if not state:
            state.update(step=F.zeros(()), eta=F.full((), group["lr"]), mu=F.ones(()), ax=F.zeros_like(gradient))
        state["step"] += 1
        step, rate = state["step"].item(), number_of(state["eta"])
        parameter.mul_(1 - group["lambd"] * rate)
        parameter.sub_(gradient * rate)
        state["ax"].add_((parameter - state["ax"]) * number_of(state["mu"]))
        state["eta"].fill_(group["lr"] / (1 + group["lambd"] * group["lr"] * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1.0, step - group["t0"]))
