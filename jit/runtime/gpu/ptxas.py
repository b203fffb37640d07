"""NVIDIA's assembler, where there is one: whether it takes PTX, the machine code, and what each kernel needs.

Comes after `device`, and nothing that runs kernels needs it: the driver assembles PTX by itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jit.ir.errors import CompileError


@dataclass(frozen=True)
class Resources:
    """The resources that a kernel takes on one architecture."""

    registers: int
    """Registers of a thread."""
    stack: int
    """Bytes of a thread's own memory, those for spilled registers among them."""
    spilled: int
    """Bytes of registers that a thread writes to memory and reads again, counted both times."""
    shared: int
    """Bytes of memory that a block shares."""


@dataclass(frozen=True)
class Assembled:
    """Machine code of one architecture."""

    cubin: bytes
    kernels: dict[str, Resources]
    """The resources of each entry, by its name."""


def assemble(ptx: str, arch: str) -> Assembled:
    """The machine code that ptxas makes of PTX for an architecture such as "sm_80".

    Takes the ptxas that `ptxas_path` finds; CompileError if there is none, or if it refuses the PTX.
    """
    ptxas = ptxas_path()
    if ptxas is None:
        raise CompileError("this machine has no ptxas: install a CUDA toolkit, or `pip install nvidia-cuda-nvcc`")
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        # Products and sums stay two instructions, as on the CPU.
        command = [ptxas, f"--gpu-name={arch}", "--fmad=false", "-v", str(source), "--output-file", str(result)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise CompileError(f"ptxas refuses the kernel ({(done.stderr or done.stdout).strip()}); run it on the CPU")
        return Assembled(result.read_bytes(), dict(_resources(done.stderr + done.stdout)))


def _resources(report: str) -> Iterator[tuple[str, Resources]]:
    """(entry, what it takes) from what ptxas prints of each."""
    for part in report.split("Compiling entry function '")[1:]:
        name, _, text = part.partition("'")
        counts = {word: sum(map(int, re.findall(rf"(\d+) {word}", text))) for word in _COUNTED}
        spilled = counts["bytes spill stores"] + counts["bytes spill loads"]
        yield name, Resources(counts["registers"], counts["bytes stack frame"], spilled, counts["bytes smem"])


_COUNTED = ("registers", "bytes stack frame", "bytes spill stores", "bytes spill loads", "bytes smem")


@cache
def ptxas_path() -> str | None:
    """The ptxas of $CUDA_HOME, of the PATH, or of the package nvidia-cuda-nvcc; None if there is none."""
    return next((str(path) for path in _candidates() if os.access(path, os.X_OK)), None)


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("CUDA_HOME"):
        yield Path(home, "bin", "ptxas")
    if found := shutil.which("ptxas"):
        yield Path(found)
    for folder in sys.path:
        packages = Path(folder, "nvidia")
        yield from sorted(packages.glob("c*/bin/ptxas"))
    yield Path("/usr/local/cuda/bin/ptxas")
