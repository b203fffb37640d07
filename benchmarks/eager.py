"""Measures eager mode, in which nothing is traced, against torch's: operators on small tensors, and whole models.

    python -m benchmarks.eager                     # both tables, one thread, CPU time
    python -m benchmarks.eager --operators         # the operators alone
    python -m benchmarks.eager --only resnet18     # one model alone (repeatable)

Both libraries take turns, in a process of their own for each model; the least CPU time of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measuring import THREAD_VARIABLES, Row, interleaved, machine, quantity, run_child
from benchmarks.models import MODELS
from benchmarks.models.peers import Task, converted, learning, library

LIBRARIES = ("jit", "torch")
WARM = 4
"""Calls before the measured ones: hot composites are compiled, and optimizers make their states."""
WARM_OPERATOR = 500
"""The same of single operators, which are measured in thousands of calls."""


def operators(lib: Any) -> dict[str, Callable[[], Any]]:
    """Calls of single operators on 100 to 1,000 elements, and of small layers with their backward."""
    x, y, rows = lib.ones(100), lib.ones(100), lib.ones(16, 32)
    learned = lib.ones(100, requires_grad=True)
    linear, norm = lib.nn.Linear(32, 32), lib.nn.LayerNorm(32)
    return {
        "x + y": lambda: x + y,
        "x.exp()": lambda: x.exp(),
        "x.sum()": lambda: x.sum(),
        "x.reshape(10, 10)": lambda: x.reshape(10, 10),
        "x[2:50]": lambda: x[2:50],
        "x.add_(0)": lambda: x.add_(0),
        "float(x[0])": lambda: float(x[0]),
        "cat([x, y])": lambda: lib.cat([x, y]),
        "where(x > 0, x, y)": lambda: lib.where(x > 0, x, y),
        "rows @ rows.t()": lambda: rows @ rows.t(),
        "rows.softmax(-1)": lambda: rows.softmax(-1),
        "w * y, with history": lambda: learned * y,
        "w.relu(), with history": lambda: learned.relu(),
        "w.mean(), with history": lambda: learned.mean(),
        "Linear(32, 32), with history": lambda: linear(rows),
        "LayerNorm(32), with history": lambda: norm(rows),
        "(Linear ** 2).mean().backward()": lambda: (linear(rows) ** 2).mean().backward(),
    }


def _loaded(name: str) -> Any:
    lib = library(name)
    lib.set_num_threads(1)
    return lib


def _operators() -> Row:
    calls = {name: operators(_loaded(name)) for name in LIBRARIES}
    for each in calls.values():
        for call in each.values():
            for _ in range(WARM_OPERATOR):
                call()
    return {what: interleaved({lib: calls[lib][what] for lib in LIBRARIES}, time.process_time, min)
            for what in calls["jit"]}  # fmt: skip


def _call(lib: Any, task: Task) -> Callable[[], Any]:
    network = task.network(lib)
    if task.training:
        return learning(lib, task, network, lambda same: same)
    inputs = converted(task.arrays(), lib.from_numpy)
    forward = task.model.part(network)

    def call() -> Any:
        with lib.no_grad():
            return forward(*inputs)

    return call


def _model(name: str) -> Row:
    found: Row = {}
    for training in (False, True):
        model = MODELS[name]
        if training and not model.training:
            continue
        task = Task(model, training, False, model.training_batch if training else model.batch, 1)
        calls = {lib: _call(_loaded(lib), task) for lib in LIBRARIES}
        for call in calls.values():
            for _ in range(WARM):
                call()
        found["step" if training else "forward"] = interleaved(calls, time.process_time, min)
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", action="store_true", help="measure the operators alone")
    parser.add_argument("--only", action="append", choices=MODELS, metavar="MODEL", help="measure this (repeatable)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name = json.loads(options.child)["model"]
        print(json.dumps(_model(name) if name else _operators()))
        return
    print(machine(1))
    if not options.only:
        _show_operators(run_child("benchmarks.eager", dict(model="", peers=[]), 1))
    if not options.operators:
        _show_models(options.only or list(MODELS))


def _show_operators(found: Row) -> None:
    print("\n| operator | jit | torch | ratio |\n| --- | --- | --- | --- |")
    for what, times in found.items():
        print(f"| `{what}` | {_pair(times)} |")


def _show_models(names: list[str]) -> None:
    print("\n| model | forward: jit | torch | ratio | step: jit | torch | ratio |\n|" + " --- |" * 7)
    ratios: dict[str, list[float]] = {"forward": [], "step": []}
    for name in names:
        found = run_child("benchmarks.eager", dict(model=name, peers=[]), 1)
        if "forward" not in found:
            print(f"| {name} | {found} |", flush=True)
            continue
        for what, times in found.items():
            ratios[what].append(times["jit"] / times["torch"])
        print(f"| {name} | {_pair(found['forward'])} | {_pair(found.get('step'))} |", flush=True)
    medians = [f"{what} {statistics.median(each):.2f}" for what, each in ratios.items() if each]
    print(f"\nmedians of the ratios: {', '.join(medians)}")


def _pair(times: dict[str, float] | None) -> str:
    if times is None:
        return " |  | "
    jit, torch = times["jit"], times["torch"]
    return f"{quantity(jit, 's')} | {quantity(torch, 's')} | {jit / torch:.2f}"


if __name__ == "__main__":
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    main()
