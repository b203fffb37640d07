"""Relatives of Adam: Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.ir import dtypes

from .optimizer import Optimizer, check_betas, check_not_negative, chosen, count_step, decayed, new_count, number_of


class _Moments(Optimizer):
    """Base of the three: a running average of the gradient, and another one of its size.

    Args:
        params: The parameters to optimize; see `Optimizer`.
        options: The options of the optimizer, "lr", "betas", "eps" and "weight_decay" among them.
        ignored: The other options given by name; see `chosen`.
    """

    decides_by_count = False
    """Whether Python takes one way or another by the number of steps."""

    def __init__(self, params: Iterable[Any], options: dict[str, Any], ignored: Mapping[str, Any]) -> None:
        check_not_negative(lr=options["lr"], eps=options["eps"], weight_decay=options["weight_decay"])
        super().__init__(params, {**options, **chosen(ignored), "betas": check_betas(options["betas"])})

    def _counted(self, parameter: Any, gradient: Any, state: dict[str, Any], *names: str) -> Any:
        """The number of this step, the first being 1; `names` are the tensors kept, zeros at first."""
        if not state:
            state["step"] = new_count(parameter, self.decides_by_count)
            state.update((name, F.zeros_like(gradient)) for name in names)
        count_step(state, parameter, self.decides_by_count)
        return number_of(state["step"])


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
        weight_decay: float = 0.0, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, options, ignored)

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        gradient = decayed(parameter, gradient, group)
        step = self._counted(parameter, gradient, state, "exp_avg", "exp_inf")
        beta1, beta2 = group["betas"]
        state["exp_avg"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        largest = F.maximum(state["exp_inf"] * beta2, F.abs(gradient) + group["eps"])
        state["exp_inf"].copy_(largest)
        parameter.sub_(state["exp_avg"] / largest * (group["lr"] / (1 - beta1**step)))


class _WithSquares(_Moments):
    """Base of the two that divide by the root mean square, as Adam does."""

    def _averages(self, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[Any, Any]:
        beta1, beta2 = group["betas"]
        mean = state["exp_avg"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        return mean, state["exp_avg_sq"].mul_(beta2).add_(gradient * gradient, alpha=1 - beta2)


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
        weight_decay: float = 0.0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(momentum_decay=momentum_decay)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, options, ignored)

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        gradient = decayed(parameter, gradient, group)
        step = self._counted(parameter, gradient, state, "exp_avg", "exp_avg_sq")
        product = state.setdefault("mu_product", F.ones((), dtype=dtypes.float64, device=state["step"].device))
        now, then = (self._momentum(count, group) for count in (step, step + 1))
        product.mul_(now)
        mean, square = self._averages(gradient, state, group)
        spread = F.sqrt(square / (1 - group["betas"][1] ** step)) + group["eps"]
        past = number_of(product)
        parameter.sub_(gradient / spread * (group["lr"] * (1 - now) / (1 - past)))
        parameter.sub_(mean / spread * (group["lr"] * then / (1 - past * then)))

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

    decides_by_count = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *, maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, {**options, "decoupled_weight_decay": decoupled_weight_decay}, ignored)

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        gradient = decayed(parameter, gradient, group)
        step = self._counted(parameter, gradient, state, "exp_avg", "exp_avg_sq")
        mean, square = self._averages(gradient, state, group)
        beta1, beta2 = group["betas"]
        limit, faded = 2 / (1 - beta2) - 1, beta2**step
        certain = limit - 2 * step * faded / (1 - faded)
        rate = group["lr"] / (1 - beta1**step)
        if certain > 5:
            ratio = (certain - 4) * (certain - 2) * limit / ((limit - 4) * (limit - 2) * certain)
            mean = mean / (F.sqrt(square) + group["eps"])
            rate = rate * (ratio * (1 - faded)) ** 0.5
        parameter.sub_(mean * rate)
