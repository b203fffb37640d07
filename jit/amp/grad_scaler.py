"""`GradScaler`: scales a loss so that gradients fit float16, and skips the steps in which they did not.

Note [What is read]
    The scale and the count of steps since it last changed are tensors on the device of the loss; they are multiplied
    with, and changed, where they lie. Python reads one number for each step of an optimizer: whether a gradient was
    infinite or NaN. In a traced step that is a guard, and a skipped step is another path of the same recording.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..eager import context
from ..eager.namespace import F
from ..eager.tensors import Tensor
from ..ir.devices import device as Device
from ..ir.devices import is_present
from ..ir.dtypes import float16, float32, float64, int32
from ..ir.errors import DTypeError, KindError, UsageError


class StepStage(enum.Enum):
    """The stage of an optimizer between one `update` and the next."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


@dataclass
class Progress:
    """The progress of an optimizer since the last `update`."""

    stage: StepStage = StepStage.READY
    found: dict[Any, Tensor] = field(default_factory=dict)
    """1.0 for a device on which a gradient is infinite or NaN, else 0.0."""


class GradScaler:
    """Multiplies a loss by a scale, divides the gradients by it, and adapts it: it grows until gradients overflow.

    Args:
        device: "cuda" or "cpu".
        init_scale: The scale at the beginning.
        growth_factor: What the scale is multiplied by after `growth_interval` steps without infinite gradients.
        backoff_factor: What it is multiplied by after a step with some, which is skipped.
        growth_interval: The number of steps after which it grows.
        enabled: False makes it do nothing: `step` is the optimizer's.

    Raises:
        UsageError: A factor does not let the scale grow, or shrink.

    >>> import jit
    >>> net, scaler = jit.nn.Linear(3, 1), jit.amp.GradScaler("cpu", init_scale=8.0)
    >>> optimizer = jit.optim.SGD(net.parameters(), lr=0.1)
    >>> scaler.scale(net(jit.ones(2, 3)).sum()).backward()
    >>> net.bias.grad.tolist()
    [16.0]
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> net.bias.grad.tolist(), scaler.get_scale()
    ([2.0], 8.0)
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._device = Device(device).type
        self._enabled = bool(enabled)
        if enabled and not is_present(self._device):
            context.warn(f"GradScaler is for {device!r}, but there is no such device; it does nothing")
            self._enabled = False
        if self._enabled and not (growth_factor > 1.0 and backoff_factor < 1.0):
            raise UsageError(
                f"a scale grows by a factor above 1 and shrinks by one below 1, not by {growth_factor} and "
                f"{backoff_factor}"
            )
        self._init_scale = float(init_scale)
        self._init_growth_tracker = 0
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._progress: dict[Any, Progress] = {}
        """The progress of each optimizer since the last `update`."""

    # -- a step --------------------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """A tensor, or a list or tuple of such, multiplied by the scale.

        Raises:
            KindError: It is something else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return F.mul(outputs, self._on(outputs.device))
        if not isinstance(outputs, (list, tuple)):
            raise KindError(f"scale() takes a tensor, or a list of them, not {type(outputs).__name__}; pass the loss")
        return type(outputs)(map(self.scale, outputs))

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, to clip them; `step` does so otherwise.

        Raises:
            UsageError: It has been done since the last `update`, or nothing has been scaled.
            DTypeError: A gradient is float16, because its parameter is.
        """
        if not self._enabled:
            return
        progress = self._progress.setdefault(optimizer, Progress())
        if progress.stage is not StepStage.READY:
            raise UsageError("unscale_() was called for this optimizer since the last update(), or after step()")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        with context.no_grad():
            inverse = F._to_copy(F.reciprocal(F._to_copy(self._known(), dtype=float64)), dtype=float32)
            for gradient in gradients:
                self._unscale(gradient, inverse, progress)
        progress.stage = StepStage.UNSCALED

    def _unscale(self, gradient: Tensor, inverse: Tensor, progress: Progress) -> None:
        """Divide one gradient by the scale, and note whether it is finite."""
        if gradient.dtype is float16:
            raise DTypeError("a gradient is float16; keep the parameters in float32, and use jit.autocast()")
        home = gradient.device
        overflows = F._to_copy(F.logical_not(F.all(F.isfinite(gradient))), dtype=float32)
        known = progress.found.get(home)
        progress.found[home] = overflows if known is None else F.maximum(known, overflows)
        F.mul_(gradient, inverse if inverse.device == home else F._to_copy(inverse, device=home))

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)`, unless a gradient is infinite or NaN; unscales the gradients, if need be.

        Returns:
            What the optimizer's step returns; None if it is skipped.

        Raises:
            UsageError: A closure is given, it has been called since the last `update`, or there are no gradients.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise UsageError("a step with a closure cannot be scaled; compute the loss before, and leave it out")
        progress = self._progress.setdefault(optimizer, Progress())
        if progress.stage is StepStage.STEPPED:
            raise UsageError("step() was called for this optimizer since the last update(); call update() first")
        if progress.stage is StepStage.READY:
            self.unscale_(optimizer)
        if not progress.found:
            raise UsageError("the optimizer has no gradients; call scale(loss).backward() first")
        overflows = sum(found.item() for found in progress.found.values())
        progress.stage = StepStage.STEPPED
        return None if overflows else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to what the steps since the last call have met, or set it to `new_scale`.

        Raises:
            UsageError: No gradients have been looked at since the last `update`.
        """
        if not self._enabled:
            return
        scale = self._known()
        with context.no_grad():
            if new_scale is None:
                self._adapt(scale, self._overflows(scale))
            else:
                F.copy_(scale, new_scale) if isinstance(new_scale, Tensor) else F.fill_(scale, new_scale)
        self._progress.clear()

    def _overflows(self, scale: Tensor) -> Tensor:
        """Whether any gradient since the last `update` was infinite or NaN, on the device of the scale."""
        found = [each for progress in self._progress.values() for each in progress.found.values()]
        if not found:
            raise UsageError("update() was called before any step(); call step(optimizer) first")
        total = found[0]
        for each in (each if each.device == scale.device else F._to_copy(each, device=scale.device) for each in found):
            total = F.maximum(total, each)
        return F.gt(total, 0)

    def _adapt(self, scale: Tensor, overflows: Tensor) -> None:
        """Let the scale shrink where gradients overflowed, and grow where they have not for long."""
        assert self._growth_tracker is not None
        steps = F.where(overflows, 0, F.add(self._growth_tracker, 1))
        is_due = F.eq(steps, self._growth_interval)
        grown = F.mul(scale, self._growth_factor)
        larger = F.where(F.logical_and(is_due, F.isfinite(grown)), grown, scale)
        F.copy_(scale, F.where(overflows, F.mul(scale, self._backoff_factor), larger))
        F.copy_(self._growth_tracker, F.where(is_due, 0, steps))

    # -- the scale -----------------------------------------------------------------------------------------------

    def _on(self, device: Any) -> Tensor:
        """The scale on a device; it begins to lie where it is first asked for."""
        if self._scale is None:
            self._scale = F.full((), self._init_scale, dtype=float32, device=device)
            self._growth_tracker = F.full((), self._init_growth_tracker, dtype=int32, device=device)
        scale = self._known()
        return scale if scale.device == device else F._to_copy(scale, device=device)

    def _known(self) -> Tensor:
        if self._scale is None:
            raise UsageError("nothing has been scaled yet; call scale(loss).backward() first")
        return self._scale

    def get_scale(self) -> float:
        """The scale as a number, which is read from the device; 1.0 if scaling is not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """The factor of the scale when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor of the scale when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor of the scale when it shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor of the scale when it shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of steps after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps after which the scale grows."""
        self._growth_interval = new_interval

    # -- saving --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state that `load_state_dict` takes; nothing if scaling is not enabled. Call it behind `update`."""
        if not self._enabled:
            return {}
        tracker = self._growth_tracker
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._init_growth_tracker if tracker is None else tracker.item(),
        }  # fmt: skip

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where another scaler was, whose `state_dict` this is.

        Raises:
            UsageError: It is that of a scaler that is not enabled.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise UsageError("the state is that of a GradScaler that was not enabled; make this one with enabled=False")
        self._init_scale = float(state_dict["scale"])
        self._init_growth_tracker = int(state_dict["_growth_tracker"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None and self._growth_tracker is not None:
            F.fill_(self._scale, self._init_scale)
            F.fill_(self._growth_tracker, self._init_growth_tracker)


__all__ = ["GradScaler"]
