"""Normalisation."""

from __future__ import annotations

from typing import Any

from ..op import composite
