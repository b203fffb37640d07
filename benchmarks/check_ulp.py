"""Measures the largest error of every unary float32 function of the kernels, over all 2**32 inputs.

    python benchmarks/check_ulp.py                       # every function, about five minutes each on one core
    python benchmarks/check_ulp.py tanh --every 64       # one function, every 64th input: a few seconds
    python benchmarks/check_ulp.py --without-fma         # as on a machine without fused multiply-add

Functions from `tan` on are the C library's in float64, rounded. Operators whose formula consists of several functions,
such as `gelu`, are as exact as their formula: tests/runtime/test_kernel_registry.py holds them against it.

The reference is numpy's or SciPy's float64 function, whose own error is a millionth of a float32 ulp. An error is
counted in ulps of the reference rounded to float32; NaN must meet NaN, and a zero the zero of the same sign. Exits
with 1 if a function is off by more than 2 ulp or wrong on a special value.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import pointwise_nest
from jit.runtime.targets.target import Target

Array = np.ndarray[Any, Any]
BOUND = 2.0
CHUNK = 2**22


def sigmoid(x: Array) -> Array:
    """The logistic function, exact far out on both sides."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


REFERENCES: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10, "tanh": np.tanh, "sigmoid": sigmoid, "erf": special.erf, "sin": np.sin, "cos": np.cos,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
    "tan": np.tan, "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh, "erfc": special.erfc, "cbrt": np.cbrt,
}  # fmt: skip


@dataclass
class Worst:
    """The largest error of a function so far, and the input at which it was met."""

    ulp: float = 0.0
    at: float = 0.0
    wrong_special: float | None = None

    def update(self, x: Array, got: Array, exact: Array) -> None:
        """Compare the results of one chunk of inputs."""
        wanted = exact.astype(np.float32)
        finite = np.isfinite(wanted)
        with np.errstate(all="ignore"):
            error = np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(wanted)).astype(np.float64)
        same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) | (np.isnan(got) & np.isnan(wanted))
        wrong = ~same & (~finite | (exact == 0) | np.isinf(x))
        # Overflow is where rounding decides: the largest number instead of infinity is one ulp off.
        wrong &= ~(np.isinf(wanted) & (np.abs(got) == np.finfo(np.float32).max))
        if wrong.any():
            self.wrong_special = float(x[wrong][0])
        error = np.where(finite & ~np.isnan(error), error, 0.0)
        index = int(np.argmax(error))
        if error[index] > self.ulp:
            self.ulp, self.at = float(error[index]), float(x[index])


def inputs(every: int) -> Iterator[Array]:
    """All float32 patterns, or every n-th, in chunks."""
    for start in range(0, 2**32, CHUNK * every):
        patterns = np.arange(start, min(start + CHUNK * every, 2**32), every, dtype=np.uint64)
        yield patterns.astype(np.uint32).view(np.float32)


def measure(name: str, every: int = 1, target: Target | None = None) -> Worst:
    """Run the kernel of m.<name> against its reference."""
    worst = Worst()
    for x in inputs(every):
        got = np.empty_like(x)
        kernel = compile_nest(pointwise_nest(lambda m, v: getattr(m, name)(v), [x], [got]), target)
        kernel([x], [got])
        with np.errstate(all="ignore"):
            worst.update(x, got, np.asarray(REFERENCES[name](x.astype(np.float64))))
    return worst


def without_fma() -> Target:
    """This machine as if it had no fused multiply-add."""
    host = Target.host()
    dropped = {f for f in host.features if f.startswith(("fma", "avx512"))}
    return Target(host.triple, host.cpu, tuple(f for f in host.features if f not in dropped), (*host.absent, *dropped))


def main() -> int:
    """Print a line per function; returns 1 if one is out of bounds, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", default=list(REFERENCES), help="such as tanh; all by default")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every N-th input")
    parser.add_argument("--without-fma", action="store_true", help="compile as if the machine had none")
    options = parser.parse_args()
    if unknown := [name for name in options.functions if name not in REFERENCES]:
        parser.error(f"there is no function {unknown[0]!r}: choose from {', '.join(REFERENCES)}")
    if options.every < 1:
        parser.error("--every takes a number of 1 or more")
    failed = False
    for name in options.functions:
        worst = measure(name, options.every, without_fma() if options.without_fma else None)
        bad = worst.ulp > BOUND or worst.wrong_special is not None
        failed |= bad
        note = f"  wrong at {worst.wrong_special!r}" if worst.wrong_special is not None else ""
        print(f"{name:12} {worst.ulp:6.3f} ulp at {worst.at!r}{note}{'  FAILED' if bad else ''}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
