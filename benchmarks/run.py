"""Measures jit and every peer that is installed, interleaved, and prints ratios.

    python -m benchmarks.run                              # everything, 2 threads then 1
    python -m benchmarks.run --only softmax_last --only lstm_cell --threads 1
    python -m benchmarks.run --first                      # time from the first call to its result instead
    python -m benchmarks.run --memory                     # peak memory of later calls instead
    python -m benchmarks.run --memory --first             # peak memory of the first call
    python -m benchmarks.run --threads 1 --cpu            # CPU time instead, for a busy machine
    python -m benchmarks.run --varying                    # calls whose sizes vary (varying.py)
    python -m benchmarks.run --markdown                   # as the tables of README.md
    python -m benchmarks.run --json results.json

Peers live in whatever environment runs this: `pip install torch jax onnxruntime numba numexpr` beside jit, best in an
environment of its own. A peer that is not installed is left out. The ratios are what counts: the peers take turns, so
a busy machine slows all of them alike. A peer that takes many times as long as the fastest one is measured less often.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    REST,
    TOLERANCE,
    Clock,
    Row,
    alone,
    arrays_of,
    base,
    difference,
    interleaved,
    machine,
    quantity,
    run_child,
)


def main() -> int:
    """The command line."""
    options = _arguments()
    if options.child:
        print(json.dumps(_child(json.loads(options.child))))
        return 0
    rows = []
    for threads in options.threads:
        for head, names, line, markdown in _tables(options):
            print(machine(threads) + (head if options.markdown else ""))
            for name in names:
                row = _measure_apart(name, threads, options)
                rows.append(row)
                print(markdown(row) if options.markdown else line(row), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _tables(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """The workloads to be measured, in two tables: the head, the names, and how a row is printed."""
    from benchmarks import varying

    chosen = options.only or [*varying.WORKLOADS] if options.varying else options.only or _workloads()
    fixed = [name for name in chosen if name not in varying.WORKLOADS]
    changing = [name for name in chosen if name in varying.WORKLOADS]
    tables = [(_HEAD, fixed, _line, _markdown), (varying.HEAD, changing, varying.line, varying.markdown)]
    return [table for table in tables if table[1]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="WORKLOAD", help="measure this workload (repeatable)")
    parser.add_argument("--peer", action="append", help="compare with this peer (repeatable); all by default")
    parser.add_argument(
        "--threads", type=int, action="append", help="the number of threads (repeatable); 2 and 1 by default"
    )
    parser.add_argument("--first", action="store_true", help="measure the first call, from its start to its result")
    parser.add_argument(
        "--memory", action="store_true", help="measure how far the resident set grows above the inputs during a call"
    )
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, not time on the clock; one thread only")
    parser.add_argument("--varying", action="store_true", help="measure the workloads whose sizes vary, not the others")
    parser.add_argument("--markdown", action="store_true", help="print the tables of benchmarks/README.md")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.threads = options.threads or ([1] if options.cpu else [2, 1])
    if options.cpu and options.threads != [1]:
        parser.error("CPU time says nothing about several threads: add --threads 1")
    if not options.child:
        _check_names(parser, options)
    return options


def _check_names(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program with a sentence if there is no workload or peer of a name."""
    from benchmarks import varying_peers
    from benchmarks.peers import PEERS
    from benchmarks.varying import WORKLOADS

    varying = options.varying or any(name in WORKLOADS for name in options.only or ())
    if varying and (options.first or options.memory):
        parser.error(
            "--first and --memory are for sizes that do not vary: first calls of the others are always measured"
        )
    workloads, peers = [*_workloads(), *WORKLOADS], list(dict.fromkeys([*PEERS, *varying_peers.PEERS]))
    for what, given, known in (("workload", options.only, workloads), ("peer", options.peer, peers)):
        if unknown := [name for name in given or () if name not in known]:
            parser.error(f"there is no {what} {unknown[0]!r}: choose from {', '.join(known)}")


def _workloads() -> list[str]:
    from benchmarks.workloads import WORKLOADS

    return list(WORKLOADS)


# -- processes ---------------------------------------------------------------------------------------------------


def _measure_apart(name: str, threads: int, options: argparse.Namespace) -> Row:
    """One workload in a process of its own (or, for the first call and for memory, one per peer)."""
    from benchmarks import peers, varying_peers
    from benchmarks.varying import WORKLOADS

    known = varying_peers.PEERS if name in WORKLOADS else peers.PEERS
    chosen = [p for p in known if not options.peer or p in options.peer or p == "jit"]
    row: Row = dict(workload=name, threads=threads, peers={}, unit="MB" if options.memory else "s")
    alone = options.first or options.memory
    for group in [[p] for p in chosen] if alone else [chosen]:
        order = dict(workload=name, threads=threads, peers=group)
        order |= dict(first=options.first, memory=options.memory, cpu=options.cpu, varying=name in WORKLOADS)
        if options.memory:
            _run_child(order, threads)  # compilers that keep what they have compiled need not be loaded again
        done = _run_child(order, threads)
        row["peers"].update(done.pop("peers"))
        row.update(done)
    return row


def _run_child(order: Row, threads: int) -> Row:
    cache = "off" if order["first"] or order["varying"] else os.environ.get("JIT_CACHE", "")
    forgetful = "1" if order["varying"] else "0"
    return run_child("benchmarks.run", order, threads, JIT_CACHE=cache, TORCHINDUCTOR_FORCE_DISABLE_CACHES=forgetful)


def _child(order: Row) -> Row:
    import numpy as np

    from benchmarks import varying
    from benchmarks.workloads import WORKLOADS

    if order["varying"]:
        return varying.measured(order)
    work = WORKLOADS[order["workload"]]
    arrays = work.inputs(np.random.default_rng(0))
    if order["first"] or order["memory"]:
        return dict(peers=_alone(work, arrays, order))
    calls, errors = _prepare(work, arrays, order)
    if order["cpu"]:
        return dict(peers=interleaved(calls, time.process_time, min) | errors, **_limits(work, 1, time.process_time))
    rest = REST if order["threads"] > 1 else 0.0
    return dict(peers=interleaved(calls, rest=rest) | errors, **_limits(work, order["threads"]))


def _prepare(work: Any, arrays: list[Any], order: Row) -> tuple[dict[str, Callable[[], Any]], Row]:
    """The callables that give the right result, and what is wrong with the others."""
    from benchmarks.peers import PEERS, CannotDo

    calls: dict[str, Callable[[], Any]] = {}
    errors: Row = {}
    expected: Any = None
    for name in order["peers"]:
        try:
            call = PEERS[name](work, arrays, order["threads"])
            found = arrays_of(call())
            for _ in range(3):  # what compiles late compiles now
                call()
            call.look = False  # type: ignore[attr-defined]
        except (CannotDo, ImportError):
            continue
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
            continue
        expected = found if expected is None else expected
        off = difference(found, expected)
        if off > TOLERANCE:
            errors[name] = f"wrong by {off:.1e}"
            continue
        calls[name] = call
    return calls, errors


def _alone(work: Any, arrays: list[Any], order: Row) -> Row:
    """The time of a first call, or the memory of a first or a later one; importing the library does not count."""
    from benchmarks.peers import PEERS, CannotDo

    (name,) = order["peers"]
    module = {"numpy": "numpy", "numba": "numba", "numexpr": "numexpr", "onnxruntime": "onnxruntime"}
    try:
        __import__(module.get(name, name.split(".")[0].split(" ")[0]))
        took, grown = alone(lambda: PEERS[name](work, arrays, order["threads"]), later=not order["first"])
        return {name: grown if order["memory"] else took}
    except (CannotDo, ImportError):
        return {}
    except Exception as error:
        return {name: f"{type(error).__name__}: {str(error)[:100]}"}


def _limits(work: Any, threads: int, clock: Clock = time.perf_counter) -> Row:
    """What part of the measured limit the best and jit could reach."""
    from benchmarks import limits

    if work.flops:
        return dict(limit_s=work.flops / limits.flops(clock), limit="flops")
    if work.bytes:
        return dict(limit_s=work.bytes / limits.bandwidth(threads, work.writes, clock), limit="bytes")
    return {}


# -- printing ----------------------------------------------------------------------------------------------------


def _line(row: Row) -> str:
    """`softmax_last  jit 2.4 ms (1.03 of best, 85 % of limit)  torch.jit 1.00 ...`, ratios to the best."""
    found = {name: t for name, t in row["peers"].items() if isinstance(t, float)}
    wrong = {name: t for name, t in row["peers"].items() if not isinstance(t, float)}
    if not found:
        return f"{row['workload']:<14} {wrong}"
    others = {name: t for name, t in found.items() if name != "jit"}
    best = base(min(others.values(), default=found.get("jit", 1.0)), row["unit"])
    parts = [f"{row['workload']:<14}"]
    if "jit" in found:
        share = f", {row['limit_s'] / found['jit']:.0%} of {row['limit']}" if "limit_s" in row else ""
        parts.append(f"jit {quantity(found['jit'], row['unit'])} ({found['jit'] / best:.2f} of best peer{share})")
    parts += [f"{name} {t / best:.2f}" for name, t in sorted(others.items(), key=lambda item: item[1])]
    parts.append(f"best {quantity(best, row['unit'])}")
    return "  ".join(parts) + ("  " + str(wrong) if wrong else "")


_HEAD = """

| workload | jit | of limit | best peer | its time | jit / best | the others |
| --- | --- | --- | --- | --- | --- | --- |"""


def _markdown(row: Row) -> str:
    """A row of a table; the last columns are times relative to the best peer's."""
    found = {name: t for name, t in row["peers"].items() if isinstance(t, float)}
    ours = found.pop("jit", None)
    ranked = sorted(found, key=found.__getitem__)
    if ours is None or not ranked:
        return f"| {row['workload']} | {'-' if ours is None else quantity(ours, row['unit'])} | - | - | - | - | - |"
    best = found[ranked[0]]
    share = f"{row['limit_s'] / ours:.0%}" if "limit_s" in row else "-"
    others = ", ".join(f"{name} {found[name] / base(best, row['unit']):.2f}" for name in ranked[1:])
    cells = (
        row["workload"], quantity(ours, row["unit"]), share, ranked[0], quantity(best, row["unit"]),
        f"{ours / base(best, row['unit']):.2f}", others,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
