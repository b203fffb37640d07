"""Adafactor: steps scaled by squared gradients of which only the means of rows and of columns are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import DTypeError, UsageError
from jit.library.limits import finfo

from .optimizer import Optimizer, check_not_negative, forms


class Adafactor(Optimizer):
    """Divides by the root of a running average of squared gradients; of a matrix, that average is kept as the product
    of its rows' and its columns' means (Shazeer and Stern, 2018).

    Args:
        params: The parameters to optimize; see `Optimizer`.
        lr: The most that a step changes a parameter, as a share of the parameter's own size.
        beta2_decay: Step number t has the weight ``t ** beta2_decay`` in the running average; at most 0.
        eps: The least root of the averaged squares (the dtype's eps if None), and the least size of a parameter, as
            a root mean square.
        d: The root mean square above which a step is scaled down; at least 1.
        weight_decay: How strongly parameters are pulled to zero.
        maximize: Whether to maximize instead of minimizing.

    >>> import jit
    >>> x = jit.tensor([[3.0, 4.0]], requires_grad=True)
    >>> optimizer = jit.optim.Adafactor([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> bool((x.detach() < jit.tensor([[3.0, 4.0]])).all())
    True
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
        maximize: bool = False, **ignored: Any,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr, weight_decay=weight_decay, eps1=eps[0] or 0.0, eps2=eps[1])
        if beta2_decay > 0:
            raise UsageError(f"beta2_decay is {beta2_decay}; pass a number of at most 0")
        if d < 1:
            raise UsageError(f"d is {d}; pass a number of at least 1")
        options = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        options |= forms(ignored, "foreach")
        super().__init__(params, {**options, "maximize": maximize})

    def _update_parts(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        self.update(parameter, gradient, state, group)

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`.

        Raises:
            DTypeError: The parameter is complex.
        """
        if gradient.is_complex():
            raise DTypeError("Adafactor takes no complex parameters; use Adam, or split them with view_as_real()")
        if not state:
            state.update(_empty_averages(gradient))
        state["step"] += 1
        step = state["step"].item()
        least = finfo(parameter.dtype).eps if group["eps"][0] is None else group["eps"][0]
        size = max(group["eps"][1], _root_mean_square(parameter)) * min(group["lr"], step**-0.5)
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        square = _average(gradient, state, step ** group["beta2_decay"], least)
        change = gradient * F.rsqrt(square.clamp(min=least * least))
        parameter.add_(change, alpha=-size / max(1.0, _root_mean_square(change) / group["d"]))


def _empty_averages(gradient: Any) -> dict[str, Any]:
    if gradient.ndim < 2:
        return {"step": F.zeros(()), "variance": F.zeros_like(gradient)}
    rows, columns = ([*gradient.shape[:-1], 1], [*gradient.shape[:-2], 1, gradient.shape[-1]])
    like = {"dtype": gradient.dtype, "device": gradient.device}
    zeros = {"row_var": F.zeros(rows, **like), "col_var": F.zeros(columns, **like)}
    return {"step": F.zeros(()), **zeros}


def _average(gradient: Any, state: dict[str, Any], weight: float, least: float) -> Any:
    """The running average of the squared gradient, after the square of this one has been added with `weight`."""
    square = gradient * gradient
    if gradient.ndim < 2:
        return state["variance"].lerp_(square, weight)
    rows = state["row_var"].lerp_(square.mean(-1, True), weight)
    columns = state["col_var"].lerp_(square.mean(-2, True), weight)
    return rows * columns / rows.mean(-2, True).clamp(min=least)


def _root_mean_square(tensor: Any) -> float:
    return (F.linalg_vector_norm(tensor) / tensor.numel() ** 0.5).item() if tensor.numel() else 0.0
