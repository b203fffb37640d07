"""Adam (Kingma and Ba, 2014) and AdamW (Loshchilov and Hutter, 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .optimizer import FORMS, check_betas, check_not_negative, forms
from .rules import Kept, Numbers, RuledOptimizer, pull


class Adam(RuledOptimizer):
    """Gradient descent with a step size per element, from running averages of the gradient and of its square.

    With the gradient g, ``m = β1 m + (1 - β1) g`` and ``v = β2 v + (1 - β2) g²``, step t is
    ``p -= lr * m / (1 - β1^t) / (sqrt(v / (1 - β2^t)) + eps)``.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        betas: The weights of the past in the two averages.
        eps: Added to the root of the second average.
        weight_decay: How strongly parameters are pulled to zero, as part of the gradient.
        amsgrad: Whether to divide by the largest second average so far.
        maximize: Whether to maximize instead of minimizing.
        decoupled_weight_decay: Whether the pull acts on the parameters directly, as in AdamW.

    >>> import jit
    >>> x = jit.tensor(2.0, requires_grad=True)
    >>> optimizer = jit.optim.Adam([x], lr=0.5)
    >>> (x * x).backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    1.5
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, maximize: bool = False,
        decoupled_weight_decay: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        options = {**forms(ignored, *FORMS), "lr": lr, "betas": check_betas(betas), "eps": eps}
        options["weight_decay"] = weight_decay
        options |= {"amsgrad": amsgrad, "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, options)

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """See `RuledOptimizer.kept`."""
        return ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else []))

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """See `RuledOptimizer.numbers`."""
        step, rate = counts["step"] + 1, group["lr"]
        beta1, beta2 = group["betas"]
        numbers = {
            **pull(group), "past1": beta1, "fresh1": 1 - beta1, "past2": beta2, "fresh2": 1 - beta2,
            "eps": group["eps"], "root": 1 / (1 - beta2**step) ** 0.5, "rate": rate / (1 - beta1**step),
        }  # fmt: skip
        return numbers, {"step": step}

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """See `RuledOptimizer.rule`."""
        if "shrink" in n:
            p = p * n["shrink"]
        if "decay" in n:
            g = g + p * n["decay"]
        mean = kept["exp_avg"] * n["past1"] + g * n["fresh1"]
        square = spread = kept["exp_avg_sq"] * n["past2"] + g * g * n["fresh2"]
        after = {"exp_avg": mean, "exp_avg_sq": square}
        if "max_exp_avg_sq" in kept:
            spread = after["max_exp_avg_sq"] = F.maximum(kept["max_exp_avg_sq"], square)
        return p - mean / (F.sqrt(spread) * n["root"] + n["eps"]) * n["rate"], after


class AdamW(Adam):
    """`Adam` whose weight decay acts on the parameters directly, ``p *= 1 - lr * weight_decay``.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The learning rate.
        betas: The weights of the past in the two averages.
        eps: Added to the root of the second average.
        weight_decay: How strongly parameters are pulled to zero.
        amsgrad: Whether to divide by the largest second average so far.
        maximize: Whether to maximize instead of minimizing.

    >>> import jit
    >>> x = jit.tensor(2.0, requires_grad=True)
    >>> optimizer = jit.optim.AdamW([x], lr=0.5, weight_decay=0.1)
    >>> (x * x).backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    1.4
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        decoupled = {"decoupled_weight_decay": True}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **decoupled, **ignored)
