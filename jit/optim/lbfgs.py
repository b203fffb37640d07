"""L-BFGS: Newton's steps with a curvature that is estimated from the last few gradients.

Note [Two loops]
    With steps s and changes of the gradient y of the last iterations, newest last, the direction -H g is found without
    the matrix H: going back in time ``a = (s . q) / (y . s); q -= a y``, then scaling by ``(y . s) / (y . y)`` of the
    newest pair, then going forth ``q += (a - (y . q) / (y . s)) s``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jit.eager.context import enable_grad, no_grad
from jit.eager.namespace import F
from jit.ir.errors import UsageError

from ..nn.utils.vectors import parameters_to_vector, vector_to_parameters
from .line_search import strong_wolfe
from .optimizer import Optimizer, check_not_negative


class LBFGS(Optimizer):
    """Minimizes with several evaluations of the loss in a step; `step` needs a closure.

    Args:
        params: The parameters to optimize, as one group.
        lr: The factor of the step along a direction; with a line search, of the first step tried.
        max_iter: The most iterations of a step.
        max_eval: The most evaluations of the closure in a step; 5/4 of `max_iter` if left out.
        tolerance_grad: A step ends where no element of the gradient is larger than this.
        tolerance_change: A step ends where the loss, or every parameter, changes by less than this.
        history_size: The number of pairs of steps and gradients that are kept.
        line_search_fn: "strong_wolfe" or None.

    >>> import jit
    >>> x = jit.tensor([2.0, -1.0], requires_grad=True)
    >>> optimizer = jit.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> [round(v, 4) for v in x.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_not_negative(lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise UsageError(f"line_search_fn is {line_search_fn!r}; it must be 'strong_wolfe' or None")
        options = {"lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval}
        options |= {"tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change}
        super().__init__(params, {**options, "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise UsageError("LBFGS takes one group of parameters; pass all parameters in one list")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Minimize for at most `max_iter` iterations.

        Args:
            closure: Computes the loss and its gradients anew.

        Returns:
            The loss before the step.

        Raises:
            UsageError: There is no closure.
        """
        if closure is None:
            raise UsageError(
                "LBFGS evaluates the loss several times in a step; pass step() a closure that computes the loss and "
                "calls backward()"
            )
        group, state = self.param_groups[0], self.state[self.param_groups[0]["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = self._evaluated(closure)
        state["func_evals"] += 1
        with no_grad():
            _Descent(self, closure, group, state, float(first), self._gradient()).run()
        return first

    def _evaluated(self, closure: Callable[[], Any]) -> Any:
        with enable_grad():
            return closure()

    def _gradient(self) -> Any:
        """All gradients as a vector; zeros for parameters that have none."""
        return parameters_to_vector(real(F.zeros_like(p) if p.grad is None else p.grad) for p in self._parameters())

    def _position(self) -> Any:
        return parameters_to_vector(real(p.detach()) for p in self._parameters())

    def _move(self, position: Any) -> None:
        vector_to_parameters(position, [real(p.detach()) for p in self._parameters()])


def real(tensor: Any) -> Any:
    """The tensor, or the real and imaginary parts of a complex one, in the same memory."""
    return F.view_as_real(tensor) if tensor.is_complex() else tensor


class _Descent:
    """The iterations of one call of `step`."""

    def __init__(
        self, optimizer: LBFGS, closure: Callable[[], Any], group: dict[str, Any], state: dict[str, Any], loss: float,
        gradient: Any,
    ) -> None:  # fmt: skip
        self.optimizer, self.closure, self.group, self.state = optimizer, closure, group, state
        self.loss, self.gradient = loss, gradient
        self.evaluations = 1

    def run(self) -> None:
        """Iterate until a tolerance or a limit is reached."""
        if self._is_flat():
            return
        for iteration in range(1, self.group["max_iter"] + 1):
            self.state["n_iter"] += 1
            direction = self._direction()
            slope = float(F.sum(self.gradient * direction))
            steepness = float(F.sum(F.abs(self.gradient))) if self.state["n_iter"] == 1 else 1.0
            first_guess = 1.0 / max(1.0, steepness)
            self.state.update(d=direction, prev_flat_grad=self.gradient, t=first_guess * self.group["lr"])
            if slope > -self.group["tolerance_change"]:
                return
            before = self.loss
            self._go(direction, slope, evaluate=iteration < self.group["max_iter"])
            if self._is_done(before, iteration):
                return

    def _is_flat(self) -> bool:
        return float(F.amax(F.abs(self.gradient), [0])) <= self.group["tolerance_grad"]

    def _is_done(self, before: float, iteration: int) -> bool:
        tolerance = self.group["tolerance_change"]
        if iteration == self.group["max_iter"] or self.evaluations >= self.group["max_eval"] or self._is_flat():
            return True
        if float(F.amax(F.abs(self.state["d"] * self.state["t"]), [0])) <= tolerance:
            return True
        return abs(self.loss - before) < tolerance

    def _direction(self) -> Any:
        """Minus the gradient, times the estimated inverse of the curvature."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], H_diag=1.0)
            return -self.gradient
        change, step = self.gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = float(F.sum(change * step))
        if curvature > 1e-10:
            for name, item in (("old_dirs", change), ("old_stps", step)):
                state[name] = [*state[name], item][-self.group["history_size"] :]
            state["H_diag"] = curvature / float(F.sum(change * change))
        return _two_loops(-self.gradient, state["old_dirs"], state["old_stps"], state["H_diag"])

    def _go(self, direction: Any, slope: float, evaluate: bool) -> None:
        start = self.optimizer._position()
        if self.group["line_search_fn"] == "strong_wolfe":
            found = strong_wolfe(lambda t: self._at(start, direction, t), self.state["t"], direction,
                                 self.loss, self.gradient, slope, self.group["tolerance_change"])  # fmt: skip
            self.state["t"], self.loss, self.gradient, used = found
            self.optimizer._move(start + direction * self.state["t"])
        else:
            self.optimizer._move(start + direction * self.state["t"])
            used = int(evaluate)
            if evaluate:  # the loss after the last iteration is not needed
                self.loss, self.gradient = self._evaluated()
        self.evaluations += used
        self.state["func_evals"] += used

    def _at(self, start: Any, direction: Any, t: float) -> tuple[float, Any]:
        """The loss and its gradient after t times the direction."""
        self.optimizer._move(start + direction * t)
        return self._evaluated()

    def _evaluated(self) -> tuple[float, Any]:
        loss = float(self.optimizer._evaluated(self.closure))
        return loss, self.optimizer._gradient()


def _two_loops(q: Any, changes: list[Any], steps: list[Any], scale: float) -> Any:
    """The direction -H g of Note [Two loops]; q is minus the gradient."""
    curvatures = [float(F.sum(y * s)) for y, s in zip(changes, steps, strict=True)]
    shares = []
    for y, s, curvature in reversed(list(zip(changes, steps, curvatures, strict=True))):
        shares.append(float(F.sum(s * q)) / curvature)
        q = q - y * shares[-1]
    q = q * scale
    for y, s, curvature, share in zip(changes, steps, curvatures, reversed(shares), strict=True):
        q = q + s * (share - float(F.sum(y * q)) / curvature)
    return q
