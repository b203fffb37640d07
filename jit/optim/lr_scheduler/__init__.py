"""Learning rates that change with the epochs: call `step()` once after each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_optim_lr_scheduler import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "base": "LRScheduler _LRScheduler",
            "chains": "ChainedScheduler SequentialLR",
            "cycles": "CosineAnnealingWarmRestarts CyclicLR OneCycleLR",
            "decays":
                "ConstantLR CosineAnnealingLR ExponentialLR LambdaLR LinearLR MultiplicativeLR MultiStepLR "
                "PolynomialLR StepLR",
            "plateau": "ReduceLROnPlateau",
        },
    )  # fmt: skip

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
