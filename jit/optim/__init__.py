"""Optimizers, and schedules for their learning rates."""

from __future__ import annotations

from . import lr_scheduler, swa_utils
from .adafactor import Adafactor
from .adam import Adam, AdamW
from .descents import ASGD, Rprop
from .lbfgs import LBFGS
from .moments import Adamax, NAdam, RAdam
from .optimizer import Optimizer
from .sgd import SGD
from .squares import Adadelta, Adagrad, RMSprop

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip
