"""Steps scaled by the root of past squared gradients: Adagrad, RMSprop, Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from .optimizer import check_not_negative, forms
from .rules import Kept, Numbers, RuledOptimizer


class Adagrad(RuledOptimizer):
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
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        check_not_negative(initial_accumulator_value=initial_accumulator_value)
        options = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= forms(ignored, "differentiable", "foreach", "fused")
        super().__init__(params, {**options, "initial_accumulator_value": initial_accumulator_value})

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """See `RuledOptimizer.kept`."""
        return ("sum",)

    def first(self, name: str, gradient: Any, group: Mapping[str, Any]) -> Any:
        """The start of the sum, see `RuledOptimizer.first`.

        Args:
            name: The entry.
            gradient: The gradient in the first step.
            group: The options of the parameter's group.
        """
        return F.full_like(gradient, group["initial_accumulator_value"]).detach()

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        rate = group["lr"] / (1 + counts["step"] * group["lr_decay"])
        return {**_decay(group), "eps": group["eps"], "rate": rate}, {"step": counts["step"] + 1}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        g = _decayed(p, g, n)
        total = kept["sum"] + g * g
        return p - g / (F.sqrt(total) + n["eps"]) * n["rate"], {"sum": total}


class RMSprop(RuledOptimizer):
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
        weight_decay: float = 0, momentum: float = 0, centered: bool = False, *, maximize: bool = False,
        **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        options |= forms(ignored, "capturable", "differentiable", "foreach")
        super().__init__(params, {**options, "centered": centered, "maximize": maximize})

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """See `RuledOptimizer.kept`."""
        optional = {"momentum_buffer": group["momentum"], "grad_avg": group["centered"]}
        return ("square_avg", *(name for name, wanted in optional.items() if wanted))

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        alpha, momentum = group["alpha"], {"momentum": group["momentum"]} if group["momentum"] else {}
        weights = {"past": alpha, "fresh": 1 - alpha, "eps": group["eps"], "rate": group["lr"]}
        return {**_decay(group), **weights, **momentum}, {"step": counts["step"] + 1}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        g = _decayed(p, g, n)
        square = variance = kept["square_avg"] * n["past"] + g * g * n["fresh"]
        after = {"square_avg": square}
        if "grad_avg" in kept:
            mean = after["grad_avg"] = kept["grad_avg"] * n["past"] + g * n["fresh"]
            variance = square - mean * mean
        change = g / (F.sqrt(variance) + n["eps"])
        if "momentum_buffer" in kept:
            change = after["momentum_buffer"] = kept["momentum_buffer"] * n["momentum"] + change
        return p - change * n["rate"], after


class Adadelta(RuledOptimizer):
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
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0 <= rho <= 1:
            raise UsageError(f"rho is {rho}; pass a number between 0 and 1")
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= forms(ignored, "capturable", "differentiable", "foreach")
        super().__init__(params, options)

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """See `RuledOptimizer.kept`."""
        return "square_avg", "acc_delta"

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        weights = {"past": group["rho"], "fresh": 1 - group["rho"], "eps": group["eps"], "rate": group["lr"]}
        return {**_decay(group), **weights}, {"step": counts["step"] + 1}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        g, steps = _decayed(p, g, n), kept["acc_delta"]
        square = kept["square_avg"] * n["past"] + g * g * n["fresh"]
        change = F.sqrt(steps + n["eps"]) / F.sqrt(square + n["eps"]) * g
        after = {"square_avg": square, "acc_delta": steps * n["past"] + change * change * n["fresh"]}
        return p - change * n["rate"], after


def _decay(group: Mapping[str, Any]) -> Kept:
    return {"decay": group["weight_decay"]} if group["weight_decay"] else {}


def _decayed(p: Any, g: Any, n: Numbers) -> Any:
    return g + p * n["decay"] if "decay" in n else g
