"""The text of a printed masked tensor, in PyTorch's form: dashes stand for what does not count."""

from __future__ import annotations

from typing import Any

_WIDTH = 8


def show(tensor: Any) -> str:
    """The elements row by row, each row on a line of its own."""
    values, mask = tensor.held.detach(), tensor.mask
    if not values.ndim:
        counts = bool(mask.item())
        return f"MaskedTensor({_text(values.item()) if counts else '--'}, {counts})"
    lines = "\n".join("  " + line for line in _rows(values.tolist(), mask.tolist(), values.ndim).split("\n"))
    return f"MaskedTensor(\n{lines}\n)"


def _rows(values: Any, mask: Any, ndim: int) -> str:
    if ndim == 1:
        return _row(values, mask)
    inner = (_rows(*each, ndim - 1) for each in zip(values, mask, strict=True))
    return "[\n" + ",\n".join("\n".join("  " + line for line in text.split("\n")) for text in inner) + "\n]"


def _row(values: Any, mask: Any) -> str:
    texts = [_text(value) for value in values]
    width = max((len(text) if counts else _WIDTH for text, counts in zip(texts, mask, strict=True)), default=_WIDTH)
    shown = (text if counts else "--".rjust(width) for text, counts in zip(texts, mask, strict=True))
    return f"[{', '.join(shown)}]"


def _text(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


__all__ = ["show"]
