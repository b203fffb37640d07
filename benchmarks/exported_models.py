"""Compares the ONNX models that jit and torch.onnx write of the same networks.

    python -m benchmarks.exported_models                # all models of benchmarks.models, the batch dynamic
    python -m benchmarks.exported_models --only bert

A row has the seconds an export takes (without verification), the nodes of the model, and the CPU time of a run in
onnxruntime with one thread, in turns; *largest error* is that of jit's model against the network at two other batches.
Peers live in whatever environment runs this: `pip install torch onnxscript onnxruntime`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import arrays_of, difference, interleaved, machine, quantity, run_child
from benchmarks.models import MODELS
from benchmarks.models.peers import Task, converted

BATCH = 2
OTHERS = (3, 5)
WRITERS = ("jit", "torch")
SINGLE = ("gcn",)
"""Models whose inputs have no batch."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="MODEL", help="compare this (repeatable)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(compared(json.loads(options.child)["model"])))
        return
    print(machine(1))
    print("\n| model | export: jit | torch | nodes: jit | torch | run: jit | torch | ratio | largest error |")
    print("|" + " --- |" * 9)
    rows = [row(name) for name in options.only or MODELS]
    ratios = [found["run"]["jit"] / found["run"]["torch"] for found in rows if "run" in found]
    fewer = sum(found["nodes"]["jit"] <= found["nodes"]["torch"] for found in rows if "run" in found)
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    print(
        f"\n{len(ratios)} models: {mean:.2f} of the time of torch.onnx's (geometric mean), {fewer} with no more nodes"
    )


def row(name: str) -> dict[str, Any]:
    """Print what a model gives; return it."""
    found = run_child("benchmarks.exported_models", dict(model=name, peers=[]), 1)
    if "run" not in found:
        print(f"| {name} | {found.get('error', found)} |", flush=True)
        return found
    export, nodes, run = found["export"], found["nodes"], found["run"]
    cells = [quantity(export[w], "s") for w in WRITERS] + [str(nodes[w]) for w in WRITERS]
    cells += [quantity(run[w], "s") for w in WRITERS] + [f"{run['jit'] / run['torch']:.2f}", f"{found['error']:.0e}"]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return found


def compared(name: str) -> dict[str, Any]:
    """The figures of a model."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        paths = {writer: Path(folder, f"{writer}.onnx") for writer in WRITERS}
        export = {
            writer: _timed(partial(EXPORTS[writer], _task(name, BATCH, writer), path)) for writer, path in paths.items()
        }
        nodes = {writer: len(onnx.load(path, load_external_data=False).graph.node) for writer, path in paths.items()}
        sessions = {writer: _session(path) for writer, path in paths.items()}
    task = _task(name, BATCH, "jit")
    calls = {writer: partial(_run, session, task) for writer, session in sessions.items()}
    for call in calls.values():
        call()
    errors = [
        _error(sessions["jit"], _task(name, batch, "jit")) for batch in (OTHERS if name not in SINGLE else (BATCH,))
    ]
    return dict(export=export, nodes=nodes, run=interleaved(calls, time.process_time, min), error=max(errors))


def _task(name: str, batch: int, writer: str) -> Task:
    task = Task(MODELS[name], False, False, MODELS[name].batch if name in SINGLE else batch, 1)
    return task.made_ready(importlib.import_module(writer))


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _by_jit(task: Task, path: Path) -> None:
    import jit

    inputs = tuple(converted(task.arrays(), jit.from_numpy))
    axes = {
        name: {0: "batch"} for name in jit.export_onnx(task.model.part(task.network(jit)), inputs, verify=False).inputs
    }
    axes = {} if task.model.name in SINGLE else axes
    jit.export_onnx(task.model.part(task.network(jit)), inputs, path, dynamic_axes=axes, verify=False)


def _by_torch(task: Task, path: Path) -> None:
    import torch

    part = task.model.part(task.network(torch))
    inputs = tuple(converted(task.arrays(), torch.from_numpy))
    dynamic = {0: torch.export.Dim.DYNAMIC}
    shapes = None if task.model.name in SINGLE else tuple(converted(list(inputs), lambda _: dynamic))
    torch.onnx.export(part, inputs, path, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False)


EXPORTS = {"jit": _by_jit, "torch": _by_torch}


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])


def _run(session: Any, task: Task) -> Any:
    return session.run(
        None, dict(zip([each.name for each in session.get_inputs()], _leaves(task.arrays()), strict=True))
    )


def _leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list | tuple) else [value]


def _error(session: Any, task: Task) -> float:
    import jit

    with jit.no_grad():
        expected = task.model.part(task.network(jit))(*converted(task.arrays(), jit.from_numpy))
    return difference([np.asarray(array) for array in _run(session, task)], arrays_of(expected))


if __name__ == "__main__":
    main()
