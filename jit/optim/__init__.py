"""Optimizers, and schedules for their learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import elsewhere, late

if TYPE_CHECKING:
    from jit._stubs.names_optim import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "adafactor": "Adafactor",
            "adam": "Adam AdamW",
            "descents": "ASGD Rprop",
            "lbfgs": "LBFGS",
            "moments": "Adamax NAdam RAdam",
            "optimizer": "Optimizer",
            "sgd": "SGD",
            "squares": "Adadelta Adagrad RMSprop",
        },
        ("lr_scheduler", "swa_utils"),
    )  # fmt: skip

for _old, _new in {
    "adamw": "adam", "adamax": "moments", "nadam": "moments", "radam": "moments", "asgd": "descents",
    "rprop": "descents", "adagrad": "squares", "adadelta": "squares", "rmsprop": "squares",
}.items():  # fmt: skip
    vars()[_old] = elsewhere(f"{__name__}.{_old}", f"{__name__}.{_new}")
"""Files of PyTorch from which programs import."""

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip
