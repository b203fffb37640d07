"""Relatives of Adam: Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from jit.ir import dtypes

from .optimizer import STEPS, Counts, check_betas, check_not_negative, forms
from .rules import Kept, Numbers, RuledOptimizer, pull


class _Moments(RuledOptimizer):
    """Base of the three: a running average of the gradient, and another one of its size.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        options: The options of the optimizer, "lr", "betas", "eps" and "weight_decay" among them.
        ignored: The other options given by name; see `forms`.
    """

    def __init__(self, params: Iterable[Any], options: dict[str, Any], ignored: Mapping[str, Any]) -> None:
        check_not_negative(lr=options["lr"], eps=options["eps"], weight_decay=options["weight_decay"])
        kept = forms(ignored, "capturable", "differentiable", "foreach")
        super().__init__(params, {**options, **kept, "betas": check_betas(options["betas"])})

    def _pulled(self, p: Any, g: Any, n: Numbers) -> tuple[Any, Any]:
        """The parameter and its gradient with weight decay."""
        if "shrink" in n:
            return p * n["shrink"], g
        return (p, g + p * n["decay"]) if "decay" in n else (p, g)


class Adamax(_Moments):
    """`Adam` that divides by the largest gradient, which fades, instead of the root mean square.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        betas: The weights of the past in the average and in the largest gradient.
        eps: Added to the size of each gradient.
        weight_decay: How strongly parameters are pulled to zero.
        maximize: Whether to maximize instead of minimizing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, options, ignored)

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """See `RuledOptimizer.kept`."""
        return "exp_avg", "exp_inf"

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        step, (beta1, beta2) = counts["step"] + 1, group["betas"]
        numbers = {
            **pull(group), "past1": beta1, "fresh1": 1 - beta1, "past2": beta2, "eps": group["eps"],
            "rate": group["lr"] / (1 - beta1**step),
        }  # fmt: skip
        return numbers, {"step": step}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        p, g = self._pulled(p, g, n)
        mean = kept["exp_avg"] * n["past1"] + g * n["fresh1"]
        largest = F.maximum(kept["exp_inf"] * n["past2"], F.abs(g) + n["eps"])
        return p - mean / largest * n["rate"], {"exp_avg": mean, "exp_inf": largest}


class _WithSquares(_Moments):
    """Base of the two that divide by the root mean square, as Adam does."""

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """See `RuledOptimizer.kept`."""
        return "exp_avg", "exp_avg_sq"

    def _averages(self, g: Any, kept: Kept, n: Numbers) -> Kept:
        mean = kept["exp_avg"] * n["past1"] + g * n["fresh1"]
        return {"exp_avg": mean, "exp_avg_sq": kept["exp_avg_sq"] * n["past2"] + g * g * n["fresh2"]}

    def _weights(self, group: Mapping[str, Any]) -> Kept:
        beta1, beta2 = group["betas"]
        return {"past1": beta1, "fresh1": 1 - beta1, "past2": beta2, "fresh2": 1 - beta2, "eps": group["eps"]}


class NAdam(_WithSquares):
    """`Adam` with Nesterov's momentum (Dozat, 2016).

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        betas: The weights of the past in the two averages.
        eps: Added to the root of the second average.
        weight_decay: How strongly parameters are pulled to zero.
        momentum_decay: How fast the momentum grows to its full value.
        decoupled_weight_decay: Whether the pull acts on the parameters directly, as in AdamW.
        maximize: Whether to maximize instead of minimizing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(momentum_decay=momentum_decay)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, options, ignored)

    counts: ClassVar[Counts] = {**STEPS, "mu_product": (1.0, dtypes.float64)}

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        step = counts["step"] + 1
        now, then = (self._momentum(count, group) for count in (step, step + 1))
        past = counts["mu_product"] * now
        numbers = {
            **pull(group), **self._weights(group), "unbiased": 1 - group["betas"][1] ** step,
            "fresh_rate": group["lr"] * (1 - now) / (1 - past), "rate": group["lr"] * then / (1 - past * then),
        }  # fmt: skip
        return numbers, {"step": step, "mu_product": past}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        p, g = self._pulled(p, g, n)
        after = self._averages(g, kept, n)
        spread = F.sqrt(after["exp_avg_sq"] / n["unbiased"]) + n["eps"]
        return p - g / spread * n["fresh_rate"] - after["exp_avg"] / spread * n["rate"], after

    def _momentum(self, step: Any, group: Mapping[str, Any]) -> Any:
        return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))


class RAdam(_WithSquares):
    """`Adam` that divides by the second average only once that is certain enough (Liu et al., 2019).

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        betas: The weights of the past in the two averages.
        eps: Added to the root of the second average.
        weight_decay: How strongly parameters are pulled to zero.
        decoupled_weight_decay: Whether the pull acts on the parameters directly, as in AdamW.
        maximize: Whether to maximize instead of minimizing.
    """

    decides_by_counts = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, {**options, "decoupled_weight_decay": decoupled_weight_decay}, ignored)

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        step, (beta1, beta2) = counts["step"] + 1, group["betas"]
        limit, faded = 2 / (1 - beta2) - 1, beta2**step
        certain = limit - 2 * step * faded / (1 - faded)
        rate, is_certain = group["lr"] / (1 - beta1**step), bool(certain > 5)
        if is_certain:
            ratio = (certain - 4) * (certain - 2) * limit / ((limit - 4) * (limit - 2) * certain)
            rate = rate * (ratio * (1 - faded)) ** 0.5
        numbers = {**pull(group), **self._weights(group), "is_certain": is_certain, "rate": rate}
        return numbers, {"step": step}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        p, g = self._pulled(p, g, n)
        after = self._averages(g, kept, n)
        step = after["exp_avg"]
        if n["is_certain"]:
            step = step / (F.sqrt(after["exp_avg_sq"]) + n["eps"])
        return p - step * n["rate"], after
