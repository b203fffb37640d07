"""Measures models as people write them, jit against every peer that is installed, and prints ratios.

    python -m benchmarks.models                           # forward passes of all models, 2 threads then 1
    python -m benchmarks.models --train                   # steps of training instead
    python -m benchmarks.models --only resnet18 --threads 1 --batch 8
    python -m benchmarks.models --peer onnxruntime --peer openvino
    python -m benchmarks.models --threads 1 --cpu         # CPU time instead, for a busy machine
    python -m benchmarks.models --first                   # time from the network to its first result instead
    python -m benchmarks.models --memory                  # peak memory of later calls, weights included, instead
    python -m benchmarks.models --markdown                # as the tables of README.md
    python -m benchmarks.models --json results.json

Peers live in whatever environment runs this: `pip install torch onnxruntime openvino` beside jit, best in an
environment of its own. A peer that is not installed is left out; one that takes longer than two minutes to compile a
model is given up, which its row says.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    REST,
    TOLERANCE,
    Row,
    alone,
    arrays_of,
    difference,
    interleaved,
    machine,
    quantity,
    run_child,
)
from benchmarks.models import MODELS
from benchmarks.models.peers import PEERS, Task, export, learned_in_doubles, library
from benchmarks.peers import CannotDo

OURS = ("jit", "jit step")
PATIENCE = 120
"""The seconds after which a peer that still compiles is given up."""
COMPARED, WARM = 3, 3
"""The calls whose results are compared, and those after them that are not timed either."""
UNCHECKED = ("torch.compile",)
"""Peers that take too long to be compiled twice: where training draws random numbers, their losses are not compared."""


def main() -> int:
    """The command line."""
    options = _arguments()
    if options.child:
        print(json.dumps(_child(json.loads(options.child))))
        return 0
    rows = []
    for threads in options.threads:
        print(machine(threads) + (HEAD if options.markdown else ""))
        table = [_shown(_measured_apart(name, threads, options), options) for name in _chosen(options)]
        print(_means(table))
        rows += table
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="MODEL", choices=MODELS, help="measure this (repeatable)")
    parser.add_argument("--train", action="store_true", help="measure steps of training, not forward passes")
    parser.add_argument("--batch", type=int, help="the size of the batch; the model's own by default")
    parser.add_argument("--peer", action="append", choices=PEERS, help="compare with this peer (repeatable)")
    parser.add_argument("--threads", type=int, action="append", help="(repeatable); 2 and 1 by default")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, not time on the clock; one thread only")
    parser.add_argument("--first", action="store_true", help="measure the first call, its compilation included")
    parser.add_argument("--memory", action="store_true", help="measure how far the resident set grows in later calls")
    parser.add_argument("--markdown", action="store_true", help="print the tables of benchmarks/README.md")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.threads = options.threads or ([1] if options.cpu else [2, 1])
    if options.cpu and options.threads != [1]:
        parser.error("CPU time says nothing about several threads: add --threads 1")
    return options


def _chosen(options: argparse.Namespace) -> list[str]:
    return [name for name in options.only or MODELS if MODELS[name].training or not options.train]


# -- measuring ---------------------------------------------------------------------------------------------------


def _measured_apart(name: str, threads: int, options: argparse.Namespace) -> Row:
    """One model, in a process of its own."""
    model = MODELS[name]
    batch = options.batch or (model.training_batch if options.train else model.batch)
    peers = [peer for peer in PEERS if not options.peer or peer in options.peer or peer in OURS]
    order = dict(model=name, training=options.train, batch=batch, threads=threads, cpu=options.cpu, peers=peers)
    if options.first or options.memory:
        return order | dict(unit="MB" if options.memory else "s", peers=_each_alone(order, options.first))
    return order | dict(unit="s") | run_child("benchmarks.models", order, threads)


def _each_alone(order: Row, first: bool) -> Row:
    """The first time or the later memory of each peer, in a process of its own; nothing is exported in it."""
    found: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "model.onnx"))
        if not order["training"]:
            run_child("benchmarks.models", order | dict(export=path), order["threads"])
        for peer in order["peers"]:
            alone = order | dict(peers=[peer], first=first, exported=path)
            cache = "off" if first else os.environ.get("JIT_CACHE", "")
            for _ in range(2):  # bytecode, and for memory kernels, are kept for the second process
                answer = run_child("benchmarks.models", alone, order["threads"], JIT_CACHE=cache)
            found |= answer["peers"]
    return found


def _child(order: Row) -> Row:
    if "export" in order:
        export(_task(order, noisy=False), Path(order["export"]))
        return dict(peers={})
    return dict(peers=_alone(order)) if "first" in order else _in_turns(order)


def _task(order: Row, noisy: bool) -> Task:
    exported = order.get("exported", "")
    return Task(MODELS[order["model"]], order["training"], noisy, order["batch"], order["threads"], exported)


def _alone(order: Row) -> Row:
    (name,), task = order["peers"], _task(order, MODELS[order["model"]].noisy)
    try:
        task = task.made_ready(library(name)) if order["first"] else task
        with _limited(PATIENCE):
            took, grown = alone(lambda: PEERS[name](task), later=not order["first"])
        return {name: took if order["first"] else grown}
    except (CannotDo, ImportError):
        return {}
    except Exception as error:
        return {name: _told(error)}


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _in_turns(order: Row) -> Row:
    calls: dict[str, Callable[[], Any]] = {}
    errors: Row = {}
    expected: list[Any] = []
    for name in order["peers"]:
        try:
            with _limited(PATIENCE):
                calls[name] = _checked(name, order, expected)
        except (CannotDo, ImportError):
            continue
        except Exception as error:
            errors[name] = _told(error)
    if order["cpu"]:
        return dict(peers=interleaved(calls, time.process_time, min) | errors)
    return dict(peers=interleaved(calls, rest=REST if order["threads"] > 1 else 0.0) | errors)


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise TimeoutError(f"given up after {seconds} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _checked(name: str, order: Row, expected: list[Any]) -> Callable[[], Any]:
    """A peer's call, warm, whose first results are those of the first peer, which become `expected`."""
    model = MODELS[order["model"]]
    noisy = order["training"] and model.noisy

    def made(noisy: bool) -> Callable[[], Any]:
        return PEERS[name](_task(order, noisy))

    call = made(noisy and name in UNCHECKED)
    found = [array for _ in range(COMPARED if order["training"] else 1) for array in arrays_of(call())]
    expected[:] = expected or found
    if not (noisy and name in UNCHECKED):
        _check(found, expected, _task(order, noisy=False))
    if noisy and name not in UNCHECKED:
        call = made(True)
    for _ in range(COMPARED + WARM):
        call()
    return call


def _check(found: list[Any], expected: list[Any], task: Task) -> None:
    """ArithmeticError unless results are those of the first peer, or no farther from torch's in float64 than these are.

    A deep network that learns fast is chaotic: after three steps of ResNet-50 the losses of two programs that are both
    right may differ in the third digit, and so does each from that of doubles.
    """
    if (off := difference(found, expected)) <= TOLERANCE:
        return
    exact = learned_in_doubles(task, COMPARED) if task.training else expected
    if difference(found, exact) > difference(expected, exact):
        raise ArithmeticError(f"wrong by {off:.1e}")


# -- printing ----------------------------------------------------------------------------------------------------

HEAD = """

| model | batch | jit | jit step | best peer | its time | jit / best | step / best | the others |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def _shown(row: Row, options: argparse.Namespace) -> Row:
    print(_markdown(row) if options.markdown else _line(row), flush=True)
    return row


def _times(row: Row) -> tuple[dict[str, float], dict[str, float]]:
    """The times of jit, and those of its peers from the best on."""
    found = {name: t for name, t in row["peers"].items() if isinstance(t, float)}
    peers = sorted(set(found).difference(OURS), key=found.__getitem__)
    return {name: found[name] for name in OURS if name in found}, {name: found[name] for name in peers}


def _ratios(row: Row) -> dict[str, float]:
    """The times of jit relative to that of the best peer."""
    ours, peers = _times(row)
    return {name: t / best for best in list(peers.values())[:1] for name, t in ours.items()}


def _line(row: Row) -> str:
    """`resnet18 x1   jit 38.42 ms (1.16 of best peer)  openvino 1.00 ...  best 33.12 ms`, ratios to the best."""
    (ours, peers), ratios = _times(row), _ratios(row)
    parts = [f"{row['model']:<16} x{row['batch']:<4}"]
    parts += [f"{name} {quantity(t, row['unit'])} ({ratios.get(name, 1):.2f} of best peer)" for name, t in ours.items()]
    best = next(iter(peers.values()), 1.0)
    parts += [f"{name} {t / best:.2f}" for name, t in peers.items()]
    parts += [f"best {quantity(best, row['unit'])}"] if peers else []
    parts += [f"{name}: {error}" for name, error in row["peers"].items() if isinstance(error, str)]
    return "  ".join(parts)


def _markdown(row: Row) -> str:
    """A row of a table; the last columns are times relative to the best peer's."""
    (ours, peers), ratios = _times(row), _ratios(row)
    times = [quantity(ours[name], row["unit"]) if name in ours else "-" for name in OURS]
    relative = [f"{ratios[name]:.2f}" if name in ratios else "-" for name in OURS]
    best = next(iter(peers), "-")
    its_time = quantity(peers[best], row["unit"]) if peers else "-"
    others = [f"{name} {t / peers[best]:.2f}" for name, t in list(peers.items())[1:]]
    others += [f"{name}: {error}" for name, error in row["peers"].items() if isinstance(error, str)]
    cells = (row["model"], str(row["batch"]), *times, best, its_time, *relative, ", ".join(others))
    return f"| {' | '.join(cells)} |"


def _means(table: list[Row]) -> str:
    """The geometric means of the ratios, over the rows that have one."""
    lines = []
    for name in OURS:
        ratios = [found[name] for row in table if name in (found := _ratios(row))]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            lines.append(f"\n{name}: {mean:.2f} of the best peer's time, geometric mean of {len(ratios)} models")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
