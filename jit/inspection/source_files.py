"""The user's files that nodes name: a node knows the last part of a path, and these find the whole file again."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Sequence

from jit.ir.graph import Source


def source_texts(sources: Iterable[Source]) -> dict[str, list[str]]:
    """The lines of the files that `sources` name, by that name; files that cannot be found are left out."""
    by_file: dict[str, list[Source]] = {}
    for source in sources:
        by_file.setdefault(source.file, []).append(source)
    paths = _paths()
    found = {name: _best(paths.get(name, ()), wanted) for name, wanted in by_file.items()}
    return {name: lines for name, lines in found.items() if lines}


def _paths() -> dict[str, list[str]]:
    """The files that Python has read, cells of notebooks included, by the last part of their paths."""
    modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    paths: dict[str, list[str]] = {}
    for path in dict.fromkeys([*(path for path in modules if isinstance(path, str)), *linecache.cache]):
        paths.setdefault(os.path.basename(path), []).append(path)
    return paths


def _best(paths: Sequence[str], wanted: Sequence[Source]) -> list[str]:
    """The lines of the file that fits most of the wanted lines; none if no file fits any."""
    texts = [[line.rstrip("\n") for line in linecache.getlines(path)] for path in paths]
    scored = [(sum(_fits(lines, source) for source in wanted), lines) for lines in texts]
    score, lines = max(scored, key=lambda pair: pair[0], default=(0, []))
    return lines if score else []


def _fits(lines: Sequence[str], source: Source) -> bool:
    """Whether a file may be the one that a node names: it is long enough, and has such a function before the line."""
    if source.line > len(lines):
        return False
    return source.function.startswith("<") or any(f"def {source.function}" in line for line in lines[: source.line])
