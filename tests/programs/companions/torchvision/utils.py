"""Writing of images, which does nothing here."""

from __future__ import annotations

from typing import Any


def save_image(*args: Any, **kwargs: Any) -> None:
    """Write nothing."""


def make_grid(images: Any, *args: Any, **kwargs: Any) -> Any:
    """The first image."""
    return images[0]
