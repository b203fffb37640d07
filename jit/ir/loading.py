"""When this process began to read the package: sources that changed since are not those that it runs."""

from __future__ import annotations

import time

BEGAN = time.time_ns()
"""Nanoseconds since 1970."""
