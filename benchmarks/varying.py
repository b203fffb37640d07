"""Workloads whose sizes vary from call to call, and how they are measured; see "Varying sizes" in README.md.

A workload is a sequence of calls. Each peer goes through it once with nothing compiled, which gives the time to the
first results, the total, and what was compiled; its results are compared with those of the first peer. Then all peers
go through it in turns. Among them is jit with a function for each of a few sizes, warm: what a plan for one size takes.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import varying_models as models

ROUNDS = 5
PATIENCE = 300.0
"""The seconds after which a first run is cut off: a peer that compiles every size may take an hour."""
FIRST = 10
"""The number of calls that count as the first ones."""
FIXED = 7
"""The number of sizes for which jit is measured with sizes fixed."""
LEARNING_RATE = 0.01

Row = dict[str, Any]


@dataclass(frozen=True)
class Varying:
    """A model, and the calls of it."""

    name: str
    model: Callable[[Any], Any]
    """`model(lib)` -> an nn module of torch or jit."""
    jax: Callable[..., Any]
    """`jax(models, weights, *inputs)`, where `models` are those for jax."""
    calls: Callable[[np.random.Generator], list[Any]]
    """The inputs of each call; of a model that generates, the prompt, as often as it is called."""
    axes: dict[str, dict[int, str]]
    """The dims of inputs that vary, for the ONNX model."""
    training: bool = False
    """Whether a call is a step of gradient descent; then its inputs have a target, and its result is the loss."""
    generating: bool = False
    """Whether a call takes what the call before has returned: a word, and keys and values that grow by one."""


# -- workloads ---------------------------------------------------------------------------------------------------

CALLS, PROMPT, NEW = 50, 8, 200
WORKLOADS: dict[str, Varying] = {}


def _add(*workloads: Varying) -> None:
    WORKLOADS.update({each.name: each for each in workloads})


def _gpt(name: str, layers: int, width: int, heads: int) -> Varying:
    return Varying(
        name,
        lambda lib: models.gpt(lib, layers, width, heads),
        partial(models.Jax.gpt, layers=layers, heads=heads),
        lambda rng: [[rng.integers(0, models.WORDS, (1, PROMPT))]] * NEW,
        {},
        generating=True,
    )


def _distinct(rng: np.random.Generator, least: int, most: int) -> list[int]:
    return [int(n) for n in rng.choice(np.arange(least, most), CALLS, replace=False)]


def _sentences(rng: np.random.Generator) -> list[Any]:
    return [[rng.integers(0, models.WORDS, (2, n))] for n in _distinct(rng, 8, models.CONTEXT)]


def _images(rng: np.random.Generator) -> list[Any]:
    sizes = zip(_distinct(rng, 32, 97), _distinct(rng, 32, 97))
    return [[rng.standard_normal((4, 3, *size), np.float32)] for size in sizes]


def _series(rng: np.random.Generator) -> list[Any]:
    return [[rng.standard_normal((8, n, 64), np.float32)] for n in _distinct(rng, 8, 101)]


def _with_targets(
    calls: Callable[[np.random.Generator], list[Any]], shape: Callable[[Any], tuple[int, ...]]
) -> Callable[[np.random.Generator], list[Any]]:
    def made(rng: np.random.Generator) -> list[Any]:
        return [[x, rng.integers(0, models.CLASSES, shape(x))] for [x] in calls(rng)]

    return made


def _pair(
    name: str,
    model: Callable[[Any], Any],
    jax: Callable[..., Any],
    calls: Callable[[np.random.Generator], list[Any]],
    target: Callable[[Any], tuple[int, ...]],
    axes: dict[str, dict[int, str]],
    **of_training: Any,
) -> None:
    """The forward and the training step of a model."""
    _add(
        Varying(f"{name}_varying", model, partial(jax, **dict.fromkeys(of_training, False)), calls, axes),
        Varying(
            f"{name}_varying_train",
            model,
            partial(jax, **of_training),
            _with_targets(calls, target),
            axes,
            training=True,
        ),
    )


_add(_gpt("gpt_4", 4, 256, 4), _gpt("gpt_12", 12, 768, 12))
_pair("bert", lambda lib: models.bert(lib, 4, 256, 4), partial(models.Jax.bert, layers=4, heads=4), _sentences,
      lambda x: x.shape, {"words": {1: "length"}})  # fmt: skip
_pair(
    "cnn", models.cnn, models.Jax.cnn, _images, lambda x: x.shape[:1], {"x": {2: "height", 3: "width"}}, training=True
)
_pair(
    "lstm", lambda lib: models.lstm(lib, 64, 128), models.Jax.lstm, _series, lambda x: x.shape[:2], {"x": {1: "length"}}
)


# -- measuring ---------------------------------------------------------------------------------------------------


@dataclass
class Times:
    """What calls took, on the clock and of the processor, children included."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Times:
        """The clocks."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(time.perf_counter(), sum(each.ru_utime + each.ru_stime for each in used))

    def since(self, start: Times) -> Times:
        """The difference."""
        return Times(self.wall - start.wall, self.cpu - start.cpu)


class Measured:
    """One peer, and what its calls took."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.results: dict[int, Any] = {}
        self.first: list[Times] = []
        self.rounds: dict[int, list[Times]] = {}
        """What each call took when nothing was compiled any more."""

    def go_first(self) -> None:
        """Go through all calls, or as many as patience allows."""
        from benchmarks.measuring import arrays_of

        self.session.restart()
        for number in self.session.numbers:
            start = Times.now()
            result = self.session.call(number)
            self.first.append(Times.now().since(start))
            self.results[number] = arrays_of(result)
            if sum(t.wall for t in self.first) > PATIENCE:
                break
        self.recorded = self.session.recorded(len(self.first))

    def go_again(self) -> None:
        """Go through the same calls once more, timed one by one."""
        self.session.restart()
        for number in self.results:
            start, began = time.process_time(), time.perf_counter()
            self.session.call(number)
            took = Times(time.perf_counter() - began, time.process_time() - start)
            self.rounds.setdefault(number, []).append(took)

    def typical(self, clock: str, number: int) -> float:
        """What one call takes: CPU time is never too short, so its least is the best estimate; else the median."""
        found = [getattr(took, clock) for took in self.rounds[number]]
        return min(found) if clock == "cpu" else statistics.median(found)

    def figures(self, clock: str, fixed: Measured | None) -> Row:
        """The figures of a row."""
        warm = {number: self.typical(clock, number) for number in self.rounds}
        first = [getattr(took, clock) for took in self.first]
        found: Row = dict(call=statistics.median(warm.values()), total=sum(first), first=sum(first[:FIRST]))
        found |= dict(calls=len(first), cut=len(first) < len(self.session.numbers), recorded=self.recorded)
        if fixed is not None and (shared := warm.keys() & fixed.rounds.keys()):
            found["of_fixed"] = statistics.median(warm[n] / fixed.typical(clock, n) for n in shared)
        return found


def measured(order: Row) -> Row:
    """The peers' figures for one workload, in this process."""
    from benchmarks.measuring import TOLERANCE, difference
    from benchmarks.peers import CannotDo
    from benchmarks.varying_peers import PEERS

    work = WORKLOADS[order["workload"]]
    calls = work.calls(np.random.default_rng(0))
    found: dict[str, Measured] = {}
    errors: Row = {}
    for name in order["peers"]:
        try:
            peer = Measured(PEERS[name](work, calls, order["threads"]))
            peer.go_first()
        except (CannotDo, ImportError):
            continue
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            continue
        reference = next(iter(found.values()), peer)
        shared = peer.results.keys() & reference.results.keys()
        off = max((difference(peer.results[n], reference.results[n]) for n in shared), default=0.0)
        if off > TOLERANCE and name != "jit fixed":
            errors[name] = f"wrong by {off:.1e}"
        else:
            found[name] = peer
    _take_turns(list(found.values()))
    clock = "cpu" if order["cpu"] else "wall"
    return dict(peers={name: peer.figures(clock, found.get("jit fixed")) for name, peer in found.items()} | errors)


def _take_turns(peers: Sequence[Measured]) -> None:
    for _ in range(ROUNDS):
        for peer in peers:
            peer.go_again()


# -- printing ----------------------------------------------------------------------------------------------------

HEAD = """

| workload | peer | a call | of the best peer's | of jit's with fixed sizes | first 10 calls | all calls | compiled |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def _cells(row: Row) -> dict[str, list[str]]:
    """What stands behind the name of each peer that has figures."""
    from benchmarks.measuring import quantity

    found = {name: figures for name, figures in row["peers"].items() if not isinstance(figures, str)}
    best = min((f["call"] for name, f in found.items() if name not in ("jit", "jit fixed")), default=None)
    cells = {}
    for name, figures in found.items():
        ratio = "-" if best is None else f"{figures['call'] / best:.2f}"
        fixed = f"{figures['of_fixed']:.2f}" if "of_fixed" in figures else "-"
        cut = f" (cut off after {figures['calls']} calls)" if figures["cut"] else ""
        first, total = quantity(figures["first"], "s"), quantity(figures["total"], "s") + cut
        cells[name] = [quantity(figures["call"], "s"), ratio, fixed, first, total, figures["recorded"]]
    return cells


def line(row: Row) -> str:
    """A paragraph: a line for each peer."""
    lines = [row["workload"]]
    for name, (call, ratio, fixed, first, total, recorded) in _cells(row).items():
        ratios = f"{ratio} of best peer, {fixed} of fixed sizes"
        lines.append(f"  {name:<14}{call} a call ({ratios})  first {FIRST} {first}  all {total}  compiled {recorded}")
    lines += [f"  {name:<14}{error}" for name, error in row["peers"].items() if isinstance(error, str)]
    return "\n".join(lines)


def markdown(row: Row) -> str:
    """Rows of a table."""
    return "\n".join(f"| {' | '.join((row['workload'], name, *cells))} |" for name, cells in _cells(row).items())
