"""Settings of every test: a seed of its own, graphs verified after every pass, a skip where its hardware is absent."""

import atexit
import ctypes
import os
import random
import shutil
import sys
import tempfile
import zlib

# Before numpy loads: parallel workers that each run a threaded BLAS would mostly wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JIT_VERIFY", "1")
os.environ["JIT_CACHE"] = tempfile.mkdtemp(prefix="jit-cache-")  # not the user's; subprocesses share this one

import numpy as np
import pytest

atexit.register(shutil.rmtree, os.environ["JIT_CACHE"], ignore_errors=True)


def cuda_obstacle() -> str | None:
    """Why kernels cannot run on a GPU here, or None where they can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver (libcuda.so.1) on this machine"
    if status := driver.cuInit(0):
        return f"the CUDA driver does not start: cuInit answered {status}"
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    return None if count.value else "the CUDA driver finds no GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("cuda")]
    reason = cuda_obstacle() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A number that depends on the test's name alone, so that a test draws the same inputs alone and in a suite."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture(autouse=True)
def no_operator_is_hot() -> None:
    """Let no operator be hot because of the tests before, of which a worker happens to run these and no others."""
    hot = sys.modules.get("jit.eager.hot")
    if hot is not None:
        hot._counts.clear()
        hot._plans.clear()


@pytest.fixture(autouse=True)
def seed_generators(seed: int) -> None:
    """Let every generator that a test may draw from, besides the fixture `rng`, start from the test's seed."""
    random.seed(seed)
    np.random.seed(seed)
    manual_seed = getattr(sys.modules.get("jit"), "manual_seed", None)  # tests of jit.ir alone need not load all of jit
    if manual_seed is not None:
        manual_seed(seed)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """The generator from which a test draws its inputs."""
    return np.random.default_rng(seed)


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.cuda)])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device other than the CPU: the simulated one, and, where there is one, a GPU (`-m cuda`)."""
    if request.param == "simulated":
        monkeypatch.setenv("JIT_CUDA", "simulate")
    return str(request.param)
