"""What tests of `device="cuda"` share: the marks and the arrays of the device that the fixture `gpu` names."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from jit.runtime.cuda import simulated

SIMULATED = pytest.mark.parametrize("gpu", ["simulated"], indirect=True)
"""The simulated device alone: for tests that look into it, or that are about what it says of itself."""


def arrays_of(gpu: str) -> Any:
    """The library of the arrays of a device."""
    return simulated.library() if gpu == "simulated" else importlib.import_module("cupy")
