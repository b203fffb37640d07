"""Windows by the names of `torch.signal.windows`: weights that fade a stretch of a signal in and out.

Each takes the number of its points; `sym=False` leaves out the last point of the symmetric window of one point more,
as a Fourier transform needs it. All are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from jit.eager.expecting import expect_number
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import DTypeError, UsageError

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


def _window(
    M: int, sym: bool, dtype: Any, device: Any, requires_grad: bool, shape: Callable[[Any, int], Any], least: int = 2
) -> Tensor:
    """The window of the values `shape(places, last)`, of which `last` is the one that `sym` puts at the end.

    Windows of fewer points than `least` are ones.
    """
    wanted = dtypes.DEFAULT if dtype is None else dtypes.as_dtype(dtype)
    expect_number("the size of a window", M)
    if M < 0:
        raise UsageError(f"a window of {M} points was asked for; it must have 0 or more")
    if not wanted.is_floating_point:
        raise DTypeError(f"a window of {wanted} was asked for; it must be of floating point numbers")
    if M < least:  # noqa: SIM300, M is the variable
        made = F.ones((M,), dtype=wanted, device=device)
    else:
        places = F.arange(0, M, 1, dtype=dtypes.float64, device=device)
        made = F._to_copy(shape(places, M - 1 if sym or M == 1 else M), dtype=wanted)
    return made.requires_grad_() if requires_grad else made


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A sum of cosines of 0, 1, 2, ... turns, with weights `a` of alternating signs.

    Args:
        M: The number of points.
        a: The weights, at least one.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    Raises:
        UsageError: `M` is negative, or there are no weights.
        DTypeError: The dtype is not of floating point numbers.

    >>> general_cosine(3, a=[0.46, 0.23, 0.31])
    tensor([0.5400, 1.0000, 0.5400])
    """
    weights = list(a)
    if not weights:
        raise UsageError("general_cosine: a holds no weights; pass at least one")

    def values(places: Any, last: int) -> Any:
        turn = places * (2 * math.pi / last)
        return sum((-1) ** k * weight * F.cos(turn * k) for k, weight in enumerate(weights))

    return _window(M, sym, dtype, device, requires_grad, values)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A constant `alpha` less a cosine of weight ``1 - alpha``: ``alpha - (1 - alpha) * cos(2π k / last)``.

    Args:
        M: The number of points.
        alpha: The weight of the constant.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    >>> general_hamming(3, alpha=0.6)
    tensor([0.2000, 1.0000, 0.2000])
    """
    return general_cosine(M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def hamming(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Hamming's window: ``0.54 - 0.46 * cos(2π k / last)``.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    >>> hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Hann's window, one arch of a cosine: ``0.5 - 0.5 * cos(2π k / last)``.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    >>> hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def blackman(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Blackman's sum of two cosines: `general_cosine` with the weights 0.42, 0.5 and 0.08.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    >>> blackman(4, sym=False)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Nuttall's sum of three cosines: `general_cosine` with the weights 0.3635819, 0.4891775, 0.1365995 and 0.0106411.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    >>> nuttall(4, sym=False)[1:]
    tensor([0.2270, 1.0000, 0.2270])
    """
    weights = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Bartlett's triangle, 0 at its ends: ``1 - |2k / last - 1|``.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    >>> bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window(M, sym, dtype, device, requires_grad, lambda places, last: 1 - F.abs(places * (2 / last) - 1))


def cosine(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Half a turn of a sine, no point of which is 0: ``sin(π (k + 0.5) / (last + 1))``.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    >>> cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return _window(
        M, sym, dtype, device, requires_grad,
        lambda places, last: F.sin((places + 0.5) * (math.pi / (last + 1))), least=1,
    )  # fmt: skip


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Decay to both sides by a factor of e within `tau` points: ``exp(-|k - center| / tau)``.

    Args:
        M: The number of points.
        center: The place where it is 1, for periodic windows; the middle if left out.
        tau: The number of points in which it falls by a factor of e.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    Raises:
        UsageError: `tau` is not positive, or a symmetric window is given a center.

    >>> exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise UsageError(f"exponential: tau must be positive, got {tau}")
    if sym and center is not None:
        raise UsageError("exponential: a symmetric window has its center in the middle; say sym=False with another one")

    def values(places: Any, last: int) -> Any:
        return F.exp(-F.abs(places - (last / 2 if center is None else center)) / tau)

    return _window(M, sym, dtype, device, requires_grad, values, least=1)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Gauss's bell: ``exp(-((k - last / 2) / std)² / 2)``.

    Args:
        M: The number of points.
        std: The standard deviation, in points.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    Raises:
        UsageError: `std` is not positive.

    >>> gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise UsageError(f"gaussian: std must be positive, got {std}")
    return _window(
        M, sym, dtype, device, requires_grad,
        lambda places, last: F.exp(-F.square((places - last / 2) / std) / 2), least=1,
    )  # fmt: skip


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Kaiser's quotient of Bessel functions: ``i0(beta * sqrt(1 - (2k / last - 1)²)) / i0(beta)``.

    Args:
        M: The number of points.
        beta: How narrow the window is; not negative.
        sym: Whether the window is symmetric, as filters need it; otherwise it is periodic.
        dtype: A floating point dtype; float32 if left out.
        device: The device, which is the CPU.
        requires_grad: Whether gradients are wanted.

    Raises:
        UsageError: `beta` is negative.

    >>> kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    if beta < 0:
        raise UsageError(f"kaiser: beta must not be negative, got {beta}")

    def values(places: Any, last: int) -> Any:
        inside = F.clamp_min(1 - F.square(places * (2 / last) - 1), 0)
        return F.i0(beta * F.sqrt(inside)) / F.i0(F.full([], beta, dtype=dtypes.float64))

    return _window(M, sym, dtype, device, requires_grad, values)
