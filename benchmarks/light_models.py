"""Measures ONNX's light models, imported, against onnxruntime.

    python -m benchmarks.light_models                    # all nine, one thread, on the clock
    python -m benchmarks.light_models --threads 2
    python -m benchmarks.light_models --cpu              # CPU time, for a busy machine
    python -m benchmarks.light_models --only shufflenet

The models come with the package `onnx`: networks for ImageNet whose weights are all equal. Each has a process of its
own. Times are those of warm calls, in turns; *first* is the time from the file to the first result, with no cache, in
a process of its own for each side.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import alone, arrays_of, difference, interleaved, machine, quantity, run_child

FOLDER = "backend/test/data/light"
SIDES = ("jit", "onnxruntime")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="measure models whose names contain this")
    parser.add_argument("--threads", type=int, default=1, help="the threads of both [%(default)s]")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time of warm calls, not time on the clock")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        order = json.loads(options.child)
        print(json.dumps(first(order) if order["peers"][1:] == [] else later(order)))
        return
    print(machine(options.threads))
    print("\n| model | jit | onnxruntime | ratio | jit first | onnxruntime first | ratio | error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = [row(path, options) for path in models() if options.only in path.name]
    means = [math.exp(sum(math.log(r[k]) for r in rows) / len(rows)) for k in range(2)]
    print(f"\ngeometric means of the ratios: {means[0]:.2f} warm, {means[1]:.2f} first")


def models() -> list[Path]:
    """The files."""
    import onnx

    return sorted((Path(onnx.__file__).parent / FOLDER).glob("*.onnx"))


def row(path: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Print what a model takes; return the ratios of the times of warm calls and of first results."""
    order = dict(path=str(path), threads=options.threads, cpu=options.cpu)
    warm = run_child("benchmarks.light_models", order | dict(peers=[*SIDES]), options.threads)
    cold: dict[str, float] = {}
    for side in SIDES:
        found = run_child("benchmarks.light_models", order | dict(peers=[side]), options.threads, JIT_CACHE="off")
        cold |= found["peers"]
    pairs = [[times[side] for side in SIDES] for times in (warm["peers"], cold)]
    ratios = [ours / theirs for ours, theirs in pairs]
    cells = [cell for (a, b) in pairs for cell in (quantity(a, "s"), quantity(b, "s"), f"{a / b:.2f}")]
    print(f"| {path.stem.removeprefix('light_')} | {' | '.join(cells)} | {warm['error']:.0e} |", flush=True)
    return ratios[0], ratios[1]


def inputs_of(path: str) -> list[np.ndarray[Any, Any]]:
    """Images for a model."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    held = {each.name for each in graph.initializer}
    sizes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in graph.input if i.name not in held]
    return [np.random.default_rng(0).random(shape, dtype=np.float32) for shape in sizes]


def call_of(side: str, path: str, threads: int) -> Callable[[], Any]:
    """A call of the model."""
    arrays = inputs_of(path)
    if side == "jit":
        import jit

        imported = jit.import_onnx(path)
        tensors = [jit.from_numpy(array) for array in arrays]
        return lambda: _without_gradients(imported, tensors)
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    fed = {each.name: array for each, array in zip(session.get_inputs(), arrays, strict=False)}
    return partial(session.run, None, fed)


def _without_gradients(imported: Any, tensors: list[Any]) -> Any:
    import jit

    with jit.no_grad():
        return imported(*tensors)


def later(order: dict[str, Any]) -> dict[str, Any]:
    """The times of warm calls, and by how much results differ."""
    calls = {side: call_of(side, order["path"], order["threads"]) for side in order["peers"]}
    results = [[arrays_of(list_of(call())) for _ in range(4)][-1] for call in calls.values()]
    clock, typical = (time.process_time, min) if order["cpu"] else (time.perf_counter, np.median)
    return dict(peers=interleaved(calls, clock, typical), error=difference(*results))


def list_of(results: Any) -> list[Any]:
    """Results as a list, also a single one."""
    return list(results) if isinstance(results, (list, tuple)) else [results]


def first(order: dict[str, Any]) -> dict[str, Any]:
    """The time from the file to the first result, the library being imported."""
    side = order["peers"][0]
    import onnx  # noqa: F401

    library = __import__(side)
    if side == "jit":
        assert library.import_onnx and library.trace  # which are imported when they are first named
    took, _ = alone(lambda: call_of(side, order["path"], order["threads"]), later=False)
    return dict(peers={side: took})


if __name__ == "__main__":
    main()
