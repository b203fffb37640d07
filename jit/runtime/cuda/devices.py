"""Arrays on NVIDIA's GPUs: CuPy's, or those of the simulated device that JIT_CUDA=simulate asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from jit.ir.devices import announce
from jit.ir.errors import Error, UsageError
from jit.ir.settings import SETTINGS, VERSIONS

from ..arrays import libraries
from ..arrays.arrays import with_known_dtype
from ..arrays.philox import Philox
from .driver import CudaDriver, driver_error, out_of_memory
from .memory import peak_memory, pinned

if TYPE_CHECKING:
    from jit.ir.dtypes import DType
    from jit.ir.op import Op

    from .cublas import Cublas
    from .launching import CudaKernels, Driver
    from .products import CudaProducts

SIMULATED = "JIT_CUDA"
"""The environment variable that asks for the simulated device, with the value "simulate"."""


def device_count() -> int | str:
    """The number of GPUs that can be used; or a sentence that says why none can."""
    if is_simulated():
        return 1
    try:
        cupy = _cupy()
    except ImportError as error:
        return f"as CuPy cannot be imported ({error}); install it with `pip install 'jit-tracer[cuda]'`"
    try:
        return int(cupy.cuda.runtime.getDeviceCount()) or "as no GPU can be used"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"as no GPU can be used ({error})"


def is_simulated() -> bool:
    """Whether the environment asks for the simulated device."""
    return os.environ.get(SIMULATED) == "simulate"


def driver_version() -> str:
    """The newest version of CUDA that the driver knows, in words; "simulated" without one."""
    if is_simulated():
        return "simulated"
    version = int(_cupy().cuda.runtime.driverGetVersion())
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def cudnn_version() -> int | None:
    """The version of cuDNN, 91400 for 9.14.0; None if there is none, or no GPU."""
    from . import cudnn_library

    frontend = cudnn_library.standing_in() if is_simulated() else cudnn_library.installed()
    return None if frontend is None else int(frontend.backend_version())


def _cupy() -> Any:
    import cupy  # type: ignore[import-not-found,unused-ignore]

    return cupy


PRODUCTS = frozenset(
    ("product", "product and sum", "convolution", "convolution gradients", "attention", "attention gradients")
)
"""The steps of plans, see `jit.ir.kernel`, that are products of matrices."""
BLOCKS_AT_ONCE = 1 << 22
"""The most blocks of random numbers that are drawn at once."""


class CudaLibrary:
    """The arrays of one GPU.

    Args:
        index: Its number.
        module: `cupy`, or what stands for it.
        special: `cupyx.scipy.special`, likewise.
        lapack: `cupyx.scipy.linalg`, likewise.
        place: Makes the context manager of a device of its number.
        driver: Loads kernels and launches them.
        cudnn: Finds the package `cudnn`, or what stands for it; None if there is none.
    """

    has_elements = True

    def __init__(
        self, index: int, module: Any, special: Any, lapack: Any, place: Callable[[int], Any],
        driver: Callable[[], Driver], cudnn: Callable[[], Any],
    ) -> None:  # fmt: skip
        from .cuda_math import CudaMath

        self.device = f"cuda:{index}"
        self.array: Any = module.ndarray
        self.math = CudaMath(module, special, lapack, Philox(module, BLOCKS_AT_ONCE))
        self.module = module
        """`cupy`, or what stands for it."""
        self._place, self._driver, self._cudnn = place, driver, cudnn
        self.index = index
        """The number of the GPU."""
        self._peak = peak_memory(module)
        self._products: CudaProducts | None = None
        self._cublas: Cublas | None = None

    def current(self) -> AbstractContextManager[Any]:
        """A block in which arrays are made on this GPU."""
        made: AbstractContextManager[Any] = self._place(self.index)
        return made

    def is_current(self) -> bool:
        """Whether arrays are made on this GPU anyway."""
        return bool(self.module.cuda.runtime.getDevice() == self.index)

    def taken(self, value: Any) -> Any:
        """A number, or an array of any device, as an array here; itself if it is here."""
        if isinstance(value, self.array):
            home = libraries.library_of(value)
            return value if home is self else self._from_other(value)
        return self.module.asarray(value)

    def _from_other(self, array: Any) -> Any:
        with self.current():
            return self.module.array(array)

    def row_major(self, array: Any) -> Any:
        """A copy in row-major order."""
        return array.copy()

    def is_writable(self, array: Any) -> bool:
        """True: memory of a GPU is not read-only."""
        return True

    def borrowed(self, lender: Any, copy: bool | None) -> Any:
        """An array of memory here that an object, or a capsule of it, lends by DLPack; or of a copy of it."""
        with self.current():
            shared = self.module.from_dlpack(lender)
            return shared.copy() if copy else shared  # CuPy is asked for no copy: it makes none on a GPU

    def kernel(self, nest: Any) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """A nest compiled for this GPU: fills outputs, given inputs; CompileError if there is no code for it."""
        return self.kernels(nest)

    def kernels(self, nest: Any) -> CudaKernels:
        """The kernels that a nest is on this GPU: several, if its rows are cut; CompileError if there is no code."""
        from ..gpu.device import device_kernel
        from ..gpu.pieces import in_pieces
        from ..targets.target import Target
        from .launching import CudaKernel, CudaKernels

        architecture, multiprocessors = self.gpu
        target = Target.nvidia(architecture)
        assert target.family.dialect is not None

        def make(nest: Any) -> CudaKernel:
            return CudaKernel(device_kernel(nest, target, multiprocessors), self.driver, self.module)

        return CudaKernels(in_pieces(nest, target.family.dialect), make, self.module)

    def failure(self, error: Exception, what: str) -> Error | None:
        """The error of this package for one of CuPy's or CUDA's, met by `what`; None if it is none of these."""
        if isinstance(error, MemoryError):
            return out_of_memory(what)
        cuda = self.module.cuda
        if isinstance(error, (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)):
            return driver_error(error.status, str(error), what)
        return None

    @property
    def driver(self) -> Driver:
        """The driver, which loads kernels and launches them."""
        return self._driver()

    def computed(self, op: Op, values: Sequence[Any]) -> list[Any] | None:
        """The results of a product or convolution by kernels of this package; None if CuPy shall compute them."""
        return self.products.computed(op, values) if op.kernel.step in PRODUCTS else None

    @property
    def products(self) -> CudaProducts:
        """The products of this GPU."""
        driver, cudnn, made = self.driver, self._cudnn(), self._products
        if made is None or made.driver is not driver or made.cudnn.frontend is not cudnn:
            from .products import CudaProducts

            made = self._products = CudaProducts(self.gpu, driver, self.module, self.cublas, cudnn)
        return made

    def has_convolutions(self, dtype: DType) -> bool:
        """Whether cuDNN computes convolutions of a dtype, as far as it takes them, so that no group is part of them."""
        from .cudnn_library import NAMES

        return SETTINGS.cudnn and dtype.name in NAMES and self._cudnn() is not None

    @property
    def cublas(self) -> Cublas | None:
        """The library of products; None if there is none."""
        functions = self.driver.cublas
        if functions is None:
            return None
        if self._cublas is None or self._cublas.functions is not functions:
            from .cublas import Cublas

            self._cublas = Cublas(functions)
        return self._cublas

    @cached_property
    def gpu(self) -> tuple[str, int]:
        """The architecture of the GPU, "sm_90", and the number of its multiprocessors."""
        architecture = "sm_{}{}".format(*self.capability())
        return architecture, self._place(self.index).attributes["MultiProcessorCount"]

    def capability(self) -> tuple[int, int]:
        """The compute capability of the GPU: (9, 0)."""
        digits = self._place(self.index).compute_capability
        return int(digits[:-1]), int(digits[-1])

    def pinned(self, array: Any) -> Any:
        """A copy of a numpy array in memory of the CPU from which this GPU can copy by itself."""
        with self.current():
            return pinned(self.module, array)

    def synchronize(self) -> None:
        """Wait until all work is done."""
        self._place(self.index).synchronize()

    def memory_allocated(self) -> int:
        """The bytes that arrays take up now."""
        with self.current():
            return int(self.module.get_default_memory_pool().used_bytes())

    def max_memory_allocated(self) -> int:
        """The most bytes that arrays took up at a time since this, or the next, was first asked for."""
        with self.current():
            return self._peak.most(self.index)

    def reset_peak_memory(self) -> None:
        """Count the most bytes anew."""
        with self.current():
            self._peak.reset(self.index)

    def memory(self) -> tuple[int, int]:
        """The bytes of memory that are free, and all that there are."""
        free, total = self._place(self.index).mem_info
        return int(free), int(total)

    def empty_cache(self) -> None:
        """Give back memory that no array takes up."""
        with self.current():
            self.module.get_default_memory_pool().free_all_blocks()
            self.module.get_default_pinned_memory_pool().free_all_blocks()

    def properties(self) -> dict[str, Any]:
        """The facts of the GPU, by the names of CUDA's `cudaDeviceProp`."""
        found: dict[str, Any] = self.module.cuda.runtime.getDeviceProperties(self.index)
        return found

    def name(self) -> str:
        """The name of the GPU."""
        return str(self.properties()["name"].decode())


def open_device(index: int) -> CudaLibrary:
    """The library of a GPU, or of the simulated one; from now on its arrays are known."""
    counted = device_count()
    if isinstance(counted, str):
        raise UsageError(f"there is no device 'cuda:{index}' here, {counted}")
    return _opened(index, is_simulated())


@cache
def _opened(index: int, simulated: bool) -> CudaLibrary:
    if simulated:
        made = _simulated(index)
    else:
        from .cudnn_library import installed

        cupy, special, linalg = _cupy(), *_of_scipy()
        driver = CudaDriver(cupy)
        made = CudaLibrary(index, cupy, special, linalg, cupy.cuda.Device, lambda: driver, installed)
    libraries.add_library(made.array, lambda array: _opened(array.data.device_id, simulated), _fetched)
    return made


def _fetched(array: Any) -> Any:
    """A copy for numpy. CuPy's places are of C's `long long`, which is another dtype object than numpy's int64."""
    return with_known_dtype(array.get())


def is_open() -> bool:
    """Whether a GPU has been opened."""
    return _opened.cache_info().currsize > 0


def _of_scipy() -> tuple[Any, Any]:
    from cupyx.scipy import linalg, special  # type: ignore[import-not-found,unused-ignore]

    return special, linalg


def _simulated(index: int) -> CudaLibrary:
    from . import simulated
    from .cudnn_library import standing_in

    module, special, lapack = simulated.library(), simulated.special(), simulated.lapack()
    place = simulated.SimulatedDevice
    return CudaLibrary(index, module, special, lapack, place, _simulated_driver, standing_in)


def _simulated_driver() -> Driver:
    from .launching import simulated_driver

    return simulated_driver()


def announce_devices() -> None:
    """Let "cuda" be a device that can be asked for."""
    announce("cuda", _ready)
    libraries.OPENERS["cuda"] = open_device
    VERSIONS["cudnn"] = cudnn_version


def _ready() -> int | str:
    """`device_count()`; where there are devices, their arrays are known from now on."""
    counted = device_count()
    if isinstance(counted, int):
        open_device(0)
    return counted
