"""Passes over graphs: each takes a valid graph, leaves a valid graph and says whether it changed anything.

A pass is one file with one function of the same name, `jit.passes.dce.dce(graph) -> bool`; the lists below are the
pipelines, in the order in which they run. Names in them are the names of files, of dumps (`JIT_DUMP=dir` writes the
graph after each pass as `03-cse.ir`) and of entries in `f.graphs`. `JIT_VERIFY=1` checks the graph between passes.
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import jit.ops  # noqa: F401  (passes look operators up)
from jit.ir import Graph, verify
from jit.ir.errors import Error, GraphError, UsageError
from jit.ir.files import write_atomically
from jit.ir.printer import large_constants

CLEANUP = ["dce", "canonicalize"]
"""The pipeline for readers: every recording goes through it. It gives the same bits with fewer nodes."""

OPTIMIZE = [
    "inline_composites", "infer_types", "constant_fold", "unroll", "spell_out", "place_draws", "absorb", "peephole",
    "lift_numbers", "cse", "recognize_attention", "straighten", "dce", "batch_mm", "join_products", "cse",
    "straighten", "distribute", "advance", "fuse", "overlap", "canonicalize",
]  # fmt: skip
"""Before a graph is run: composites become their parts, what need not be computed goes, and loops are fused."""

EXPORT = ["dce", "constant_fold", "peephole", "cse", "dce", "canonicalize"]
"""Before a graph is exported: composites stay, because ONNX may know them."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one pass over a graph."""

    name: str
    """The pass."""
    changed: bool
    """Whether it found anything to do."""
    milliseconds: float
    """The time it took, verification aside."""
    replay: Callable[[], Graph]
    """Makes the graph as it was after this pass, by running the pipeline so far on a copy of what it started from."""

    @property
    def title(self) -> str:
        """`after cse (0.3 ms)`, or `after cse (0.3 ms, unchanged)`."""
        return f"after {self.name} ({self.milliseconds:.1f} ms{'' if self.changed else ', unchanged'})"

    @property
    def graph(self) -> Graph:
        """The graph after this pass, made when first asked for."""
        return self.replay()

    def __str__(self) -> str:
        return f"# {self.title}\n{self.graph}"


def run(
    graph: Graph,
    passes: Sequence[str],
    dump: str | os.PathLike[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Result]:
    """Run `passes` over `graph`, in place and in order.

    Args:
        graph: A valid graph.
        passes: Names of passes, such as those of `OPTIMIZE`.
        dump: A folder for the graph before and after every pass; `$JIT_DUMP` unless given.
        options: By name of a pass, keyword arguments for it: `{"constant_fold": {"evaluate": execute}}`.

    Returns:
        A `Result` per pass: its title, its time, and the graph after it on demand.

    Raises:
        UsageError: There is no pass of that name.
        GraphError: A pass met operands that do not fit, or (under `JIT_VERIFY=1`) left an invalid graph.
        Error: The dump cannot be written.

    >>> from jit.ir import parse
    >>> graph = parse("graph(%x : int) { %4 : int = prim::neg(%x) %7 : int = prim::neg(%4) return (%4) }")
    >>> [(result.name, result.changed) for result in run(graph, CLEANUP)]
    [('dce', True), ('canonicalize', True)]
    >>> print(graph)
    graph(%x : int) {
      %0 : int = prim::neg(%x)
      return (%0)
    }
    """
    start, functions = graph.clone(), [_bound(name, options or {}) for name in passes]
    done = apply(graph, passes, dump, options)
    return [Result(*each, _replayer(start, functions[: index + 1])) for index, each in enumerate(done)]


def apply(
    graph: Graph,
    passes: Sequence[str],
    dump: str | os.PathLike[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[tuple[str, bool, float]]:
    """Run `passes` as `run` does, where nobody asks for the graphs in between: none is copied for them.

    Args:
        graph: A valid graph.
        passes: Names of passes.
        dump: A folder for the graph before and after every pass; `$JIT_DUMP` unless given.
        options: By name of a pass, keyword arguments for it.

    Returns:
        For each pass its name, whether it found anything to do, and the milliseconds that it took.
    """
    functions = [_bound(name, options or {}) for name in passes]
    folder = dump or os.environ.get("JIT_DUMP") or None
    checked = os.environ.get("JIT_VERIFY", "") not in ("", "0")
    _check(graph, "the graph was invalid before any pass ran", checked)
    _write(graph, "input", folder)
    done = []
    for name, function in zip(passes, functions, strict=True):
        began = time.perf_counter()
        changed = function(graph)
        done.append((name, changed, 1000 * (time.perf_counter() - began)))
        _check(graph, f"the pass {name} left an invalid graph", checked)
        _write(graph, name, folder)
    return done


def find_pass(name: str) -> Callable[..., bool]:
    """The function of the pass called `name`; UsageError, which lists the passes, if there is none."""
    function = getattr(import_module(f"{__name__}.{name}"), name, None) if _file(name).exists() else None
    if function is None:
        stems = sorted(path.stem for path in _file("x").parent.glob("[a-z]*.py"))
        known = [stem for stem in stems if f"\ndef {stem}(" in _file(stem).read_text()]
        raise UsageError(f"there is no pass called {name!r}; the passes are {', '.join(known)}")
    return function


def _file(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.py")


def _bound(name: str, options: Mapping[str, Mapping[str, Any]]) -> Callable[[Graph], bool]:
    function, keywords = find_pass(name), dict(options.get(name, {}))
    return lambda graph: function(graph, **keywords)


def _replayer(start: Graph, functions: Sequence[Callable[[Graph], bool]]) -> Callable[[], Graph]:
    @cache
    def replay() -> Graph:
        graph = start.clone()
        for function in functions:
            function(graph)
        return graph

    return replay


def _check(graph: Graph, complaint: str, checked: bool) -> None:
    if not checked:
        return
    try:
        verify(graph)
    except GraphError as error:
        raise GraphError(f"{complaint}: {error}") from error


# -- dumps -------------------------------------------------------------------------------------------------------

_written: dict[Path, int] = {}
_lock = threading.Lock()


def _write(graph: Graph, name: str, folder: str | os.PathLike[str] | None) -> None:
    """Write `03-cse.ir`, and large constants once as `sha256-<hash>.npy`.

    The numbers go on from run to run, so that no run overwrites another of this process.
    """
    if folder is None:
        return
    path = Path(folder).absolute()
    with _lock:
        number = _written[path] = _written.get(path, -1) + 1
    try:
        for digest, array in large_constants(graph).items():
            _write_constant(path / f"{digest.replace(':', '-')}.npy", array)
        write_atomically(path / f"{number:02d}-{name}.ir", f"{graph}\n")
    except Error as error:
        raise Error(f"JIT_DUMP: {error}, or unset it") from error


def _write_constant(path: Path, array: np.ndarray[Any, Any]) -> None:
    if not path.exists():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomically(path, buffer.getvalue())
