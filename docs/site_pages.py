"""Pages of the site that are made from what stands elsewhere: notebooks, differences from PyTorch, the reference."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jit

ROOT = Path(__file__).resolve().parent.parent
NAMESPACES = (
    "jit", "jit.Tensor", "jit.nn", "jit.nn.functional", "jit.nn.init", "jit.nn.utils", "jit.optim",
    "jit.optim.lr_scheduler", "jit.autograd", "jit.func", "jit.linalg", "jit.fft", "jit.special", "jit.signal.windows",
    "jit.amp", "jit.utils.data", "jit.hub", "jit.cuda", "jit.native",
)  # fmt: skip
DIFFERENCES = {
    "Operators": "Where operators deliberately differ from PyTorch",
    "Tests of PyTorch's": "What PyTorch's own tests find different",
    "Layers, optimizers": "Where layers and optimizers deliberately differ from PyTorch",
}
"""Sections of design-notes.md whose points are rows of the table, by what stands in its first column."""


def write(folder: Path) -> None:
    """Write all pages that are generated into a folder, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        shutil.copy(notebook, folder)
    (folder / "differences.md").write_text(differences(), encoding="utf-8")
    (folder / "reference.md").write_text("\n".join(reference()), encoding="utf-8")
    (folder / "performance.md").write_text((ROOT / "benchmarks" / "README.md").read_text("utf-8"), encoding="utf-8")


# -- differences from PyTorch ------------------------------------------------------------------------------------


def differences() -> str:
    """One table of the points of `DIFFERENCES`, with their bold beginnings in a column of their own."""
    text = (ROOT / "docs" / "design-notes.md").read_text(encoding="utf-8")
    found = ((area, *point) for area, title in DIFFERENCES.items() for point in points(text, title))
    rows = [f"| {area} | {lead} | {rest} |" for area, lead, rest in found]
    head = ["# Differences from PyTorch", "", "All that differs on purpose; everything else is meant to be the same."]
    return "\n".join([*head, "", "| area | what | here |", "|---|---|---|", *rows, ""])


def points(text: str, title: str) -> Iterator[tuple[str, str]]:
    """The points of a section: what is in bold at the beginning of each, and the rest."""
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    for point in re.split(r"^\* ", section, flags=re.MULTILINE)[1:]:
        words = " ".join(point.split("\n\n")[0].split()).replace("|", "\\|")
        bold = re.match(r"\*\*(.*?)\*\*[:,.]?\s*", words)
        yield (bold[1], words[bold.end() :]) if bold else ("", words)


# -- the reference -----------------------------------------------------------------------------------------------


def reference() -> Iterator[str]:
    """A table per namespace: what there is, how it is called, and the first sentence about it."""
    yield "# Reference\n\nNames and meanings are PyTorch's. `help(jit.softmax)` tells the rest: arguments, errors, the"
    yield "derivative. [](/operators.md) lists every operator with its declaration, kernels and ONNX form.\n"
    for namespace in NAMESPACES:
        yield f"\n## {namespace}\n\n| name | |\n|---|---|"
        yield from (f"| `{call}` | {sentence} |" for call, sentence in members(namespace))


def members(namespace: str) -> Iterator[tuple[str, str]]:
    """Calls and first sentences of the public names of a module or class."""
    holder = jit.Tensor if namespace == "jit.Tensor" else importlib.import_module(namespace)
    for each in dir(holder):
        value = None if each.startswith("_") else getattr(holder, each, None)
        if not callable(value) or not (getattr(value, "__module__", None) or "jit").startswith("jit"):
            continue
        yield each + _signature(value), _first_sentence(value)


def _signature(value: Any) -> str:
    if isinstance(value, type) and issubclass(value, BaseException):
        return ""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    shown = [parameter.replace(annotation=parameter.empty) for parameter in parameters if parameter.name != "self"]
    text = ", ".join(map(str, shown)).replace("|", "\\|")
    return f"({text if len(text) <= 90 else ', '.join(p.name for p in shown)})"


def _first_sentence(value: Any) -> str:
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:]) (?=[A-Z`])", paragraph)[0].rstrip(":")
    plain = sentence.replace("``", "`").replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
    return plain if plain.count("`") % 2 == 0 else plain.replace("`", "")
