"""Adam (Kingma and Ba, 2014) and AdamW (Loshchilov and Hutter, 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager.namespace import F

from .optimizer import Optimizer, check_betas, check_not_negative, chosen, count_step, new_count, number_of


class Adam(Optimizer):
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

    >>> import jit
    >>> x = jit.tensor(2.0, requires_grad=True)
    >>> optimizer = jit.optim.Adam([x], lr=0.5)
    >>> (x * x).backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    1.5
    """

    decoupled = False
    """Whether weight decay acts on the parameter itself rather than through the averages."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        options = {**chosen(ignored), "lr": lr, "betas": check_betas(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "amsgrad": amsgrad, "maximize": maximize})

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        if group["weight_decay"] and self.decoupled:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        elif group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        mean, square = self._averages(parameter, gradient, state, group)
        step, (beta1, beta2) = number_of(state["step"]), group["betas"]
        spread = F.sqrt(square)
        if group.get("differentiable"):  # its derivative needs the root as it is
            spread = spread.clone()
        spread = spread.mul_(1 / (1 - beta2**step) ** 0.5).add_(group["eps"])
        parameter.sub_(mean / spread * (group["lr"] / (1 - beta1**step)))

    def _averages(
        self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """The running averages of the gradient and of its square, brought up to date."""
        if not state:
            state["step"] = new_count(parameter)  # a tensor, so that a traced step counts
            for name in ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])):
                state[name] = F.zeros_like(gradient)
        beta1, beta2 = group["betas"]
        count_step(state, parameter)
        state["exp_avg"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        state["exp_avg_sq"].mul_(beta2).add_(gradient * gradient, alpha=1 - beta2)
        if not group["amsgrad"]:
            return state["exp_avg"], state["exp_avg_sq"]
        largest = F.maximum(state["max_exp_avg_sq"], state["exp_avg_sq"])
        if group.get("differentiable"):  # the derivative of earlier steps needs the earlier one
            state["max_exp_avg_sq"] = largest
        else:
            state["max_exp_avg_sq"].copy_(largest)
        return state["exp_avg"], state["max_exp_avg_sq"]


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

    decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **ignored)
