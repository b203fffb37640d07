"""`jit.cuda`: NVIDIA's GPUs, with the names of `torch.cuda`.

Tensors on a GPU are arrays of CuPy's (`pip install 'jit-tracer[cuda]'`). `JIT_CUDA=simulate` stands a simulated device
in for a GPU, whose arrays lie in the memory of the CPU, for tests.

>>> import jit
>>> jit.cuda.is_available() or "GPU" in jit.cuda.obstacle() or "CuPy" in jit.cuda.obstacle()
True
"""

from __future__ import annotations

from typing import Any

from .ir.devices import accelerator, resolve
from .runtime.cuda import devices as _devices

_devices.announce_devices()


def is_available() -> bool:
    """Whether there is a GPU that can be used, or one is simulated."""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs that can be used."""
    counted = _devices.device_count()
    return counted if isinstance(counted, int) else 0


def obstacle() -> str:
    """A sentence that says why there is no GPU that can be used; "" if there is one."""
    counted = _devices.device_count()
    return "" if isinstance(counted, int) else counted


def current_device() -> int:
    """The number of the GPU that "cuda" means.

    Raises:
        UsageError: No GPU can be used.
    """
    return resolve("cuda").index or 0


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that it was asked to.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    _devices.open_device(_index(device)).synchronize()


def memory_allocated(device: Any = None) -> int:
    """The bytes of a GPU's memory that arrays take up now.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _devices.open_device(_index(device)).memory_allocated()


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _devices.open_device(_index(device)).name()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, major and minor number: (9, 0).

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _devices.open_device(_index(device)).capability()


def driver_version() -> str:
    """The newest version of CUDA that the driver knows, "CUDA 13.0"; "simulated" on the simulated device.

    Raises:
        UsageError: No GPU can be used.
    """
    resolve("cuda")
    return _devices.driver_version()


def manual_seed(seed: int) -> None:
    """Seed the random numbers, which are the same on every device: `jit.manual_seed`."""
    from .eager.generators import manual_seed

    manual_seed(seed)


manual_seed_all = manual_seed


def _index(device: Any) -> int:
    return resolve(accelerator(device)).index or 0
