"""The diagnosis of `jit doctor`: versions, and one small run of every engine."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import sys
from collections.abc import Callable
from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that was looked at."""

    name: str
    works: bool
    detail: str
    optional: bool = False


def diagnose() -> list[Finding]:
    """The findings about all that this package needs on this machine."""
    findings = [Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}")]
    for library in ("numpy", "scipy", "llvmlite", "onnx", "onnx_ir", "onnxruntime", "networkx"):
        findings.append(_library(library, optional=False))
    findings += [
        _library("pygraphviz", optional=True),
        _gpus(),
        _cudnn(),
        _engine("eager", _run_eager),
        _engine("interpreter", _run_interpreter),
        _engine("kernels", _run_kernel),
    ]
    findings.append(_engine("export", _run_export))
    return findings


def _gpus() -> Finding:
    """The GPUs, or why none can be used."""
    import jit

    if jit.cuda.obstacle():
        return Finding("cuda", False, jit.cuda.obstacle(), optional=True)
    try:
        found = [jit.cuda.driver_version(), *map(_gpu, range(jit.cuda.device_count()))]
    except Exception as error:  # a driver that starts may still fail here, and no other finding depends on it
        return Finding("cuda", False, f"{type(error).__name__}: {error}", optional=True)
    return Finding("cuda", True, "; ".join(found), optional=True)


def _cudnn() -> Finding:
    """The version of cuDNN, which only speed depends on."""
    import jit

    version = None if jit.cuda.obstacle() else jit.backends.cudnn.version()
    if version is None:
        return Finding("cudnn", False, "convolutions and attention on a GPU are kernels of this package", optional=True)
    return Finding("cudnn", True, f"{version // 10000}.{version // 100 % 100}.{version % 100}", optional=True)


def _gpu(index: int) -> str:
    import jit

    major, minor = jit.cuda.get_device_capability(index)
    return f"cuda:{index} is {jit.cuda.get_device_name(index)} of compute capability {major}.{minor}"


def _library(name: str, optional: bool) -> Finding:
    try:
        importlib.import_module(name)
        version = importlib.metadata.version(name.replace("_", "-").replace(".", "-"))
    except Exception as error:
        return Finding(name, False, f"{type(error).__name__}: {error}", optional)
    return Finding(name, True, version, optional)


def _engine(name: str, run: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, run())
    except Exception as error:
        return Finding(name, False, f"{type(error).__name__}: {error}")


def _run_eager() -> str:
    import jit

    total = jit.tanh(jit.ones(4)).sum().item()
    return f"sum(tanh(1)) = {total:.6f}"


def _run_interpreter() -> str:
    import jit

    traced = jit.trace(lambda x: jit.tanh(x) * 2, optimize=False)
    x = jit.ones(4)
    if not (traced(x) == traced(x)).all():
        raise jit.Error("a traced function does not return the same the second time")
    return f"{traced.hits} of {traced.hits + traced.misses} calls ran the recording"


def _run_kernel() -> str:
    from jit.runtime.targets.target import Target

    host = Target.host()
    return f"{host.cpu}, vectors of {host.vector_bytes} bytes"


def _run_export() -> str:
    import jit

    report = jit.export_onnx(lambda x: jit.tanh(x) * 2, jit.ones(2, 3))
    return str(report.verified)
