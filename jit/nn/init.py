"""Starting values for parameters, written in place, drawn from the counter-based generator."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from jit.eager import context
from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.errors import UsageError

GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 0.75,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor for the weights before an activation with which signals neither grow nor fade.

    Args:
        nonlinearity: "linear", "conv1d", ..., "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        param: The negative slope of "leaky_relu"; 0.01 if left out.

    Raises:
        UsageError: No gain is known for the activation, or the slope is no number.

    >>> from jit.nn import init
    >>> round(init.calculate_gain("leaky_relu", 0.2), 4)
    1.3868
    """
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise UsageError(f"the slope of a leaky ReLU is {param!r}; pass a number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise UsageError(f"no gain is known for {nonlinearity!r}; there are {', '.join([*GAINS, 'leaky_relu'])}")
    return GAINS[nonlinearity]


def fans(tensor: Any) -> tuple[int, int]:
    """The number of inputs that an output of this weight sums over, and the number of outputs that an input reaches.

    Raises:
        UsageError: The weight has fewer than two dims.
    """
    expect("init.fans", tensor)
    sizes = tensor.shape
    if len(sizes) < 2:
        raise UsageError(
            f"a weight of sizes {list(sizes)} has no fan-in and fan-out; use uniform_(), or one of two dims or more"
        )
    field = math.prod(sizes[2:])
    return sizes[1] * field, sizes[0] * field


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Fill with draws that are uniform between `a` and `b`.

    Args:
        tensor: The tensor to fill; it is returned.
        a: The lower bound.
        b: The upper bound.
        generator: The source of draws; the default one if left out.

    Returns:
        The tensor.
    """
    expect("init.uniform_", tensor)
    with context.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill with draws of a normal distribution.

    Args:
        tensor: The tensor to fill; it is returned.
        mean: The mean.
        std: The standard deviation.
        generator: The source of draws; the default one if left out.

    Returns:
        The tensor.
    """
    expect("init.normal_", tensor)
    with context.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Any:
    """Fill with draws of a normal distribution cut off at `a` and `b`.

    Draws outside are drawn anew; where most would be outside, the distribution function is inverted.

    Args:
        tensor: The tensor to fill; it is returned.
        mean: The mean of the distribution before the cut.
        std: Its standard deviation.
        a: The least draw.
        b: The largest draw.
        generator: The source of draws; the default one if left out.

    Returns:
        The tensor.
    """
    expect("init.trunc_normal_", tensor)
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(f"trunc_normal_: the mean {mean} lies more than 2 deviations outside [{a}, {b}]", stacklevel=2)
    below, above = (math.erf((x - mean) / (std * math.sqrt(2.0))) for x in (a, b))
    with context.no_grad():
        if above - below > 2 * _SHARE_INSIDE:
            return _drawn_again(tensor, (mean, std), (a, b), generator)
        places = F.empty_like(tensor, dtype=dtypes.float64).uniform_(below, above, generator=generator)
        return tensor.copy_(places.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b))


_SHARE_INSIDE = 0.3
"""The share of draws inside the bounds above which those outside are drawn anew."""


def _drawn_again(tensor: Any, moments: tuple[float, float], bounds: tuple[float, float], generator: Any) -> Any:
    """The tensor, filled with draws of a normal distribution until all are inside the bounds."""
    least, most = (tensor.new_tensor(each) for each in bounds)
    tensor.normal_(*moments, generator=generator)
    while not tensor.is_meta and (outside := (tensor < least) | (tensor > most)).any():
        tensor.copy_(F.where(outside, F.empty_like(tensor).normal_(*moments, generator=generator), tensor))
    return tensor


def constant_(tensor: Any, val: float) -> Any:
    """Fill with one number."""
    expect("init.constant_", tensor)
    with context.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Any) -> Any:
    """Fill a matrix with the identity.

    Raises:
        UsageError: The tensor is no matrix.
    """
    expect("init.eye_", tensor)
    if tensor.ndim != 2:
        raise UsageError(f"eye_ fills a matrix, not a tensor of {tensor.ndim} dims")
    with context.no_grad():
        return tensor.copy_(F.eye(*tensor.shape, device=tensor.device))


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill uniformly, with a variance of ``gain² * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    Args:
        tensor: The tensor to fill, of at least two dims; it is returned.
        gain: A factor, see `calculate_gain`.
        generator: The source of draws; the default one if left out.
    """
    bound = math.sqrt(3.0) * _xavier_deviation(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill with normal draws of variance ``gain² * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    Args:
        tensor: The tensor to fill, of at least two dims; it is returned.
        gain: See `calculate_gain`.
        generator: The source of draws; the default one if left out.
    """
    return normal_(tensor, 0.0, _xavier_deviation(tensor, gain), generator)


def _xavier_deviation(tensor: Any, gain: float) -> float:
    return gain * math.sqrt(2.0 / sum(fans(tensor)))


def kaiming_uniform_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Fill uniformly, with a variance of ``gain² / fan`` (He et al., 2015).

    Args:
        tensor: The tensor to fill, of at least two dims; it is returned.
        a: The negative slope of the leaky ReLU that follows.
        mode: "fan_in" keeps the scale of the forward pass, "fan_out" that of the backward pass.
        nonlinearity: The activation that follows: see `calculate_gain`.
        generator: The source of draws; the default one if left out.
    """
    expect("init.kaiming_uniform_", tensor)
    if 0 in tensor.shape:
        warnings.warn("a tensor without elements has nothing to fill", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Fill with normal draws of variance ``gain² / fan`` (He et al., 2015).

    Args:
        tensor: The tensor to fill, of at least two dims; it is returned.
        a: The negative slope of the leaky ReLU that follows.
        mode: "fan_in" keeps the scale of the forward pass, "fan_out" that of the backward pass.
        nonlinearity: What follows: see `calculate_gain`.
        generator: The source of draws; the default one if left out.
    """
    expect("init.kaiming_normal_", tensor)
    if 0 in tensor.shape:
        warnings.warn("a tensor without elements has nothing to fill", stacklevel=2)
        return tensor
    return normal_(tensor, 0.0, _kaiming_deviation(tensor, a, mode, nonlinearity), generator)


def _kaiming_deviation(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise UsageError(f"mode is {mode!r}; it must be 'fan_in' or 'fan_out'")
    fan_in, fan_out = fans(tensor)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def orthogonal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill with a matrix of orthonormal rows or columns (Saxe et al., 2013); dims after the first count as one.

    Args:
        tensor: The tensor to fill, of at least two dims; it is returned.
        gain: A factor of the matrix.
        generator: The source of draws; the default one if left out.

    Returns:
        The tensor.

    Raises:
        UsageError: The tensor has fewer than two dims.
    """
    expect("init.orthogonal_", tensor)
    import numpy as np

    if tensor.ndim < 2:
        raise UsageError(
            f"orthogonal_ fills tensors of at least two dims, and this one has {tensor.ndim}; use normal_()"
        )
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    if tensor.is_meta:  # there is nothing to fill
        return tensor
    with context.no_grad():
        drawn = normal_(tensor.new_empty((rows, columns)), generator=generator).cpu().numpy()
        q, r = np.linalg.qr(drawn.T if rows < columns else drawn)
        q = q * np.where(np.diag(r) < 0, -1, 1)
        return tensor.copy_(tensor.new_tensor((q.T if rows < columns else q) * gain).view(tensor.shape))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill a convolution weight so that it passes its input channels through.

    Raises:
        UsageError: The tensor is no convolution weight, or its channels do not divide into the groups.
    """
    expect("init.dirac_", tensor)
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise UsageError(
            f"dirac_ fills convolution weights of 3 to 5 dims whose first size divides into {groups} groups, not sizes "
            f"{list(tensor.shape)}"
        )
    outputs = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with context.no_grad():
        tensor.zero_()
        for index in range(groups * outputs):
            if index % outputs < tensor.shape[1]:
                tensor[(index, index % outputs, *middle)] = 1.0
    return tensor


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Fill a matrix with draws of a normal distribution, and each column with that share of zeros (Martens, 2010).

    Args:
        tensor: The matrix to fill; it is returned.
        sparsity: The share of zeros in each column, from 0 to 1.
        std: The standard deviation of the other elements.
        generator: The source of draws; the default one if left out.

    Returns:
        The tensor.

    Raises:
        UsageError: The tensor is no matrix.
    """
    expect("init.sparse_", tensor)
    if tensor.ndim != 2:
        raise UsageError(f"sparse_ fills a matrix, not a tensor of {tensor.ndim} dims")
    rows, columns = tensor.shape
    with context.no_grad():
        normal_(tensor, 0.0, std, generator)
        for column in range(columns):
            zeros = F.randperm(rows, generator=generator)[: math.ceil(sparsity * rows)]
            tensor[zeros, column] = 0.0
    return tensor


# -- former names --------------------------------------------------------------------------------------------------


def _former(name: str) -> Callable[..., Any]:
    """A function by the name that it had in 2017, without the underscore, which warns."""
    function = globals()[f"{name}_"]

    def initialise(*args: Any, **kwargs: Any) -> Any:
        context.warn(f"nn.init.{name} is deprecated; call nn.init.{name}_")
        return function(*args, **kwargs)

    initialise.__name__ = initialise.__qualname__ = name
    initialise.__doc__ = f"`{name}_` by its former name."
    return initialise


uniform, normal, constant, eye = map(_former, ("uniform", "normal", "constant", "eye"))
dirac, orthogonal, sparse = map(_former, ("dirac", "orthogonal", "sparse"))
xavier_uniform, xavier_normal = map(_former, ("xavier_uniform", "xavier_normal"))
kaiming_uniform, kaiming_normal = map(_former, ("kaiming_uniform", "kaiming_normal"))
_calculate_fan_in_and_fan_out = fans
_no_grad_trunc_normal_, _no_grad_uniform_, _no_grad_normal_ = trunc_normal_, uniform_, normal_


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    """The fan-in or the fan-out of a weight.

    Args:
        tensor: The weight.
        mode: "fan_in" or "fan_out".
    """
    if mode.lower() not in ("fan_in", "fan_out"):
        raise UsageError(f"there is no mode {mode!r}; use 'fan_in' or 'fan_out'")
    return fans(tensor)[mode.lower() == "fan_out"]
