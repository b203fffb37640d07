"""The time at which this process began to read the package: it does not run sources that changed since."""

from __future__ import annotations

import time

BEGAN = time.time_ns()
"""Nanoseconds since 1970."""
