"""Steps scaled by the root of past squared gradients: Adagrad, RMSprop, Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from .optimizer import Optimizer, check_not_negative, chosen, count_step, decayed, new_count, number_of


class Adagrad(Optimizer):
    """Divides by the root of the sum of all squared gradients so far (Duchi et al., 2011).

    ``s += g²`` and ``p -= lr / (1 + t * lr_decay) * g / (sqrt(s) + eps)``, where t counts the steps before.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        lr_decay: The decay of the learning rate with the steps, see the formula.
        weight_decay: How strongly parameters are pulled to zero.
        initial_accumulator_value: The value from which the sum starts.
        eps: Added to the root.
        maximize: Whether to maximize instead of minimizing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        check_not_negative(initial_accumulator_value=initial_accumulator_value)
        options = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= chosen(ignored)
        super().__init__(params, {**options, "initial_accumulator_value": initial_accumulator_value})

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        gradient = decayed(parameter, gradient, group)
        if not state:
            state["step"] = new_count(parameter)
            state["sum"] = F.full_like(parameter, group["initial_accumulator_value"]).detach()
        rate = group["lr"] / (1 + number_of(state["step"]) * group["lr_decay"])
        count_step(state, parameter)
        state["sum"].add_(gradient * gradient)
        parameter.sub_(gradient / (F.sqrt(state["sum"]) + group["eps"]) * rate)


class RMSprop(Optimizer):
    """Divides by the root of a running average of squared gradients (Hinton, 2012).

    ``s = alpha * s + (1 - alpha) * g²`` and ``p -= lr * g / (sqrt(s) + eps)``.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        alpha: The weight of the past in the average.
        eps: Added to the root.
        weight_decay: How strongly parameters are pulled to zero.
        momentum: The share of the last step that is taken again.
        centered: Whether to take the variance of the gradients instead of their mean square.
        maximize: Whether to maximize instead of minimizing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *, maximize: bool = False,
        **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        options |= chosen(ignored)
        super().__init__(params, {**options, "centered": centered, "maximize": maximize})

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        gradient = decayed(parameter, gradient, group)
        if not state:
            state["step"] = new_count(parameter)
            for name in self._kept(group):
                state[name] = F.zeros_like(gradient)
        count_step(state, parameter)
        change = gradient / self._spread(gradient, state, group)
        if group["momentum"]:
            change = state["momentum_buffer"].mul_(group["momentum"]).add_(change)
        parameter.add_(change, alpha=-group["lr"])

    def _kept(self, group: Mapping[str, Any]) -> list[str]:
        optional = {"momentum_buffer": group["momentum"], "grad_avg": group["centered"]}
        return ["square_avg", *(name for name, wanted in optional.items() if wanted)]

    def _spread(self, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> Any:
        alpha = group["alpha"]
        square = state["square_avg"].mul_(alpha).add_(gradient * gradient, alpha=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].mul_(alpha).add_(gradient, alpha=1 - alpha)
            square = square - mean * mean
        return F.sqrt(square) + group["eps"]


class Adadelta(Optimizer):
    """Scales gradients by how far past steps went for past gradients (Zeiler, 2012).

    ``s = rho * s + (1 - rho) * g²``, the step is ``d = sqrt(u + eps) / sqrt(s + eps) * g``, then
    ``u = rho * u + (1 - rho) * d²`` and ``p -= lr * d``.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: A factor for each step.
        rho: The weight of the past in both averages.
        eps: Added under both roots.
        weight_decay: How strongly parameters are pulled to zero.
        maximize: Whether to maximize instead of minimizing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0,
        *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0 <= rho <= 1:
            raise UsageError(f"rho is {rho}; pass a number between 0 and 1")
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= chosen(ignored)
        super().__init__(params, options)

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        gradient = decayed(parameter, gradient, group)
        if not state:
            state.update(step=new_count(parameter), square_avg=F.zeros_like(gradient), acc_delta=F.zeros_like(gradient))
        rho, eps, steps = group["rho"], group["eps"], state["acc_delta"]
        count_step(state, parameter)
        square = state["square_avg"].mul_(rho).add_(gradient * gradient, alpha=1 - rho)
        change = F.sqrt(steps + eps) / F.sqrt(square + eps) * gradient
        steps.mul_(rho).add_(change * change, alpha=1 - rho)
        parameter.add_(change, alpha=-group["lr"])
