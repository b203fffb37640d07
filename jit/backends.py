"""Choice among the algorithms of an operator: `jit.backends.cudnn`, `jit.use_deterministic_algorithms`.

The names are PyTorch's. `benchmark` governs this package's convolutions, see Note [How a convolution is computed];
`deterministic` these and cuDNN's; `enabled` and `allow_tf32` say whether cuDNN computes on a GPU where it is installed,
and whether it may round float32 to 10 bits for tensor cores, which it may not unless it is told so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jit.ir.errors import KindError
from jit.ir.settings import SETTINGS, VERSIONS

_WARNING = [False]
"""Whether operators without a deterministic algorithm were to warn only."""


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Let operators choose their algorithm by rule alone, so that every run of a program gives the same bits.

    Args:
        mode: True switches `cudnn.benchmark` off, whose measurements may choose differently from run to run.
        warn_only: Kept for `is_deterministic_algorithms_warn_only_enabled`: no operator has to be refused.

    Raises:
        KindError: One of the two is no truth value.

    >>> import jit
    >>> jit.use_deterministic_algorithms(True)
    >>> jit.are_deterministic_algorithms_enabled()
    True
    >>> jit.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise KindError(f"{name} is True or False, not {value!r}")
    SETTINGS.deterministic = mode
    _WARNING[:] = [warn_only]


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` is on."""
    return SETTINGS.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was last called with `warn_only`."""
    return _WARNING[0]


class Cudnn:
    """The flags of `jit.backends.cudnn`, for the whole process.

    >>> import jit
    >>> with jit.backends.cudnn.flags(benchmark=True):
    ...     jit.backends.cudnn.benchmark
    True
    >>> jit.backends.cudnn.benchmark
    False
    """

    def is_available(self) -> bool:
        """Whether there is cuDNN, with a GPU and all that it takes."""
        return self.version() is not None

    def version(self) -> int | None:
        """The version of cuDNN, 91400 for 9.14.0; None if there is none."""
        return VERSIONS["cudnn"]() if "cudnn" in VERSIONS else None

    @property
    def enabled(self) -> bool:
        """Whether cuDNN computes what it can."""
        return SETTINGS.cudnn

    @enabled.setter
    def enabled(self, value: bool) -> None:
        SETTINGS.cudnn = bool(value)

    @property
    def allow_tf32(self) -> bool:
        """Whether cuDNN may round float32 to 10 bits for tensor cores; unlike PyTorch's, it is off at first."""
        return SETTINGS.allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        SETTINGS.allow_tf32 = bool(value)

    @property
    def benchmark(self) -> bool:
        """Whether each convolution times its algorithms once for its sizes, and remembers the fastest."""
        return SETTINGS.benchmark

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        SETTINGS.benchmark = bool(value)

    @property
    def deterministic(self) -> bool:
        """The same as `are_deterministic_algorithms_enabled()`."""
        return SETTINGS.deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        SETTINGS.deterministic = bool(value)

    @contextmanager
    def flags(self, **values: Any) -> Iterator[None]:
        """Within this block the flags given have other values.

        Raises:
            TypeError: There is no such flag.
        """
        unknown = values.keys() - {"enabled", "benchmark", "deterministic", "allow_tf32"}
        if unknown:
            raise TypeError(f"cudnn.flags() got an unexpected keyword argument {min(unknown)!r}")
        before = {name: getattr(self, name) for name in values}
        self._set(values)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)


cudnn = Cudnn()


class Backend:
    """A library that PyTorch may be built with, `jit.backends.mkl`: none is there, and its settings change nothing.

    Args:
        settings: What programs assign, with the values that they have at first.
    """

    def __init__(self, **settings: Any) -> None:
        vars(self).update({"enabled": False} | settings)

    def is_available(self) -> bool:
        """Whether the library is there."""
        return False

    is_built = is_available

    @contextmanager
    def flags(self, *values: Any, **named: Any) -> Iterator[None]:
        """A block in which nothing changes.

        Args:
            values: Accepted and ignored.
            named: Accepted and ignored.
        """
        yield


class CudaBackend(Backend):
    """The choices that PyTorch has on a GPU, `jit.backends.cuda`: they change nothing."""

    sdp_kernel = Backend.flags

    def can_use_flash_attention(self, params: Any, debug: bool = False) -> bool:
        """Whether that implementation of attention is there.

        Args:
            params: Accepted and ignored.
            debug: Accepted and ignored.
        """
        return False

    can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


mkl, mkldnn, mps, openmp, opt_einsum, quantized, nnpack = (Backend() for _ in range(7))
cuda = CudaBackend(
    matmul=Backend(
        allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True
    )
)
for _name in ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp"):
    vars(cuda)[f"enable_{_name}"] = lambda enabled: None
    vars(cuda)[f"{_name}_enabled"] = lambda: False
