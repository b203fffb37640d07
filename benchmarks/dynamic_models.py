"""Exports common architectures with dynamic axes, and runs the models at other sizes against eager mode.

    python -m benchmarks.dynamic_models                 # all of benchmarks.architectures
    python -m benchmarks.dynamic_models --only llama

Every axis varies along which the architecture is made for: the batch, and height and width, the length of a text, or
the number of nodes. Each model is checked in full by onnx, verified by the export itself, and run by onnxruntime at
three further sizes; *largest error* is relative to the largest element.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jit
from benchmarks.architectures import ARCHITECTURES, Architecture, Sizes
from benchmarks.measuring import arrays_of, difference

LIMIT = 1e-4
"""The largest error, relative to the largest element, of a model that is right."""


def main() -> int:
    """The command; 1 if a model is wrong, or is not exported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="MODEL", choices=list(ARCHITECTURES), help="(repeatable)")
    options = parser.parse_args()
    print("| model | outputs | exported at | run at | largest error |")
    print("|" + " --- |" * 5)
    failed = [name for name in options.only or ARCHITECTURES if not row(name)]
    count = len(options.only or ARCHITECTURES)
    print(f"\n{count - len(failed)} of {count} models are right at all sizes")
    return 1 if failed else 0


def row(name: str) -> bool:
    """Print what an architecture gives; whether it is right."""
    architecture = ARCHITECTURES[name]
    try:
        outputs, error = exported(architecture)
    except Exception as failure:  # which is what the table is for
        print(f"| {name} | {type(failure).__name__}: {str(failure)[:300]} |", flush=True)
        return False
    sizes = [shown(each) for each in architecture.sizes]
    print(f"| {name} | {'; '.join(outputs)} | {sizes[0]} | {'; '.join(sizes[1:])} | {error:.0e} |", flush=True)
    return error <= LIMIT


def exported(architecture: Architecture) -> tuple[Sequence[str], float]:
    """The outputs of the model, and its largest error at other sizes."""
    import onnx
    import onnxruntime

    jit.manual_seed(0)
    rng = np.random.default_rng(0)
    network = architecture.network().eval()
    inputs = tuple(architecture.draw(rng, architecture.sizes[0]))
    names = [f"x{number}" for number in range(len(inputs))]
    axes = dict(zip(names, architecture.axes, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        report = jit.export_onnx(network, inputs, path, input_names=names, dynamic_axes=axes)
        data = path.read_bytes()
    onnx.checker.check_model(data, full_check=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    errors = [_error(session, network, architecture, rng, sizes) for sizes in architecture.sizes[1:]]
    return list(report.outputs.values()), max(errors)


def _error(session: Any, network: Any, architecture: Architecture, rng: np.random.Generator, sizes: Sizes) -> float:
    inputs = architecture.draw(rng, sizes)
    with jit.no_grad():
        expected = arrays_of(network(*inputs))
    feed = {f"x{number}": each.numpy() for number, each in enumerate(inputs)}
    found = [np.asarray(array) for array in session.run(None, feed)]
    if [each.shape for each in found] != [each.shape for each in expected]:
        raise AssertionError(f"at {shown(sizes)} the sizes of outputs are {[each.shape for each in found]}")
    return difference(found, expected)


def shown(sizes: Sizes) -> str:
    """The sizes of axes: `n=2 h=32`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


if __name__ == "__main__":
    sys.exit(main())
