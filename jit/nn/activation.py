"""Activations as modules: each a line over the function of the same name."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import ShapeError

from . import functional
from .modules import Module
from .parameter import Parameter


class _InPlace(Module):
    """An activation whose only option is to overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """``max(x, 0)``.

    Args:
        inplace: Whether the result overwrites the input; default False.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> jit.nn.ReLU()(jit.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, input: Any) -> Any:
        return functional.relu(input, self.inplace)


class ReLU6(_InPlace):
    """``min(max(x, 0), 6)``."""

    def forward(self, input: Any) -> Any:
        return functional.relu6(input, self.inplace)


class SELU(_InPlace):
    """``scale * (max(x, 0) + min(alpha * (exp(x) - 1), 0))`` with the constants of Klambauer et al., 2017."""

    def forward(self, input: Any) -> Any:
        return functional.selu(input, self.inplace)


class SiLU(_InPlace):
    """``x * sigmoid(x)``.

    Args:
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.
    """

    def forward(self, input: Any) -> Any:
        return functional.silu(input, self.inplace)


class Mish(_InPlace):
    """``x * tanh(softplus(x))``.

    Args:
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.
    """

    def forward(self, input: Any) -> Any:
        return functional.mish(input, self.inplace)


class Hardswish(_InPlace):
    """``x * relu6(x + 3) / 6``.

    Args:
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.
    """

    def forward(self, input: Any) -> Any:
        return functional.hardswish(input, self.inplace)


class Hardsigmoid(_InPlace):
    """``relu6(x + 3) / 6``.

    Args:
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.
    """

    def forward(self, input: Any) -> Any:
        return functional.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        return F.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Any) -> Any:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``, accurate for large negative x, too."""

    def forward(self, input: Any) -> Any:
        return functional.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Any) -> Any:
        return functional.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Any) -> Any:
        return functional.tanhshrink(input)


class GELU(Module):
    """``x * Φ(x)``, Φ being the normal distribution function; or its approximation by a tanh.

    Args:
        approximate: "none", or "tanh" for the approximation.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> round(jit.nn.GELU()(jit.ones(1)).item(), 4)
    0.8413
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """``max(x, 0) + negative_slope * min(x, 0)``.

    Args:
        negative_slope: The slope below zero; default 0.01.
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> jit.nn.LeakyReLU(0.5)(jit.tensor([-4.0, 2.0])).tolist()
    [-2.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Any) -> Any:
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """``max(x, 0) + min(alpha * (exp(x) - 1), 0)``.

    Args:
        alpha: Minus the limit for very negative elements; default 1.
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Any:
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``; linear where ``beta * x`` exceeds the threshold.

    Args:
        beta: The sharpness of the bend; default 1.
        threshold: The value of ``beta * x`` from which on the output is x; default 20.

    Shape:
        Input of any sizes; output of the same.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Any:
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardtanh(Module):
    """``min(max(x, min_val), max_val)``.

    Args:
        min_val: The least result; default -1.
        max_val: The largest result; default 1.
        inplace: Whether the result overwrites the input; default False.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> jit.nn.Hardtanh()(jit.tensor([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Any) -> Any:
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """The first half along a dim, times the sigmoid of the second half.

    Args:
        dim: The dim; default the last one.

    Shape:
        Input of any sizes, even along `dim`; output of half that size there.

    >>> import jit
    >>> jit.nn.GLU()(jit.tensor([4.0, 0.0])).tolist()
    [2.0]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class PReLU(Module):
    """``max(x, 0) + weight * min(x, 0)`` with a slope that is learned (He et al., 2015).

    Args:
        num_parameters: 1 for one slope, or the number of channels for one slope each; default 1.
        init: The first value of the slopes; default 0.25.
        device: The device of the slopes, which is the CPU.
        dtype: The element type of the slopes; float32 if left out.

    Shape:
        Input `[N, C, ...]`; output of the same sizes.

    >>> import jit
    >>> jit.nn.PReLU()(jit.tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(F.full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input: Any) -> Any:
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    """An activation over one dim."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """``exp(x) / sum(exp(x))`` along a dim.

    >>> import jit
    >>> jit.nn.Softmax(dim=1)(jit.zeros(1, 4)).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """

    def forward(self, input: Any) -> Any:
        return functional.softmax(input, self.dim)


class LogSoftmax(_AlongDim):
    """The logarithm of the softmax along a dim.

    Args:
        dim: The dim; left out, it is chosen by the number of dims, with a warning.

    Shape:
        Input of any sizes; output of the same.
    """

    def forward(self, input: Any) -> Any:
        return functional.log_softmax(input, self.dim)


class Softmin(_AlongDim):
    """The softmax of ``-x`` along a dim.

    Args:
        dim: The dim; left out, it is chosen by the number of dims, with a warning.

    Shape:
        Input of any sizes; output of the same.
    """

    def forward(self, input: Any) -> Any:
        return functional.softmin(input, self.dim)


class Softmax2d(Module):
    """The softmax over the channels of each place of an image, `[N, C, H, W]` or `[C, H, W]`."""

    def forward(self, input: Any) -> Any:
        """Softmax over the channels.

        Args: input `[N, C, H, W]` or `[C, H, W]`. Returns: the same sizes.

        Raises:
            ShapeError: The input has neither 3 nor 4 dims.
        """
        if input.ndim not in (3, 4):
            raise ShapeError(
                f"Softmax2d takes inputs of 3 or 4 dims, and this one has sizes {list(input.shape)}; use Softmax(dim)"
            )
        return functional.softmax(input, -3)


class CELU(Module):
    """``max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)``.

    Args:
        alpha: Minus the limit for very negative elements; default 1.
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Any:
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """``x`` where it exceeds `threshold`, `value` elsewhere.

    Args:
        threshold: The bound.
        value: The result at and below the bound.
        inplace: Whether the result overwrites the input; default False.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> jit.nn.Threshold(1.0, 7.0)(jit.tensor([0.5, 2.0])).tolist()
    [7.0, 2.0]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """``max(x, 0) + slope * min(x, 0)`` with random slopes while training, their mean otherwise (Xu et al., 2015).

    Args:
        lower: The least slope; default 1/8.
        upper: The largest slope; default 1/3.
        inplace: Whether the result overwrites the input; default False.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> jit.nn.RReLU(0.25, 0.75).eval()(jit.tensor([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Any) -> Any:
        function = F.rrelu_ if self.inplace else F.rrelu
        return function(input, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where it is further than `lambd` from zero, zero elsewhere.

    Args:
        lambd: The distance; default 0.5.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> jit.nn.Hardshrink()(jit.tensor([-0.25, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, input: Any) -> Any:
        return functional.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved toward zero by `lambd`, zero where it is nearer.

    Args:
        lambd: The distance; default 0.5.

    Shape:
        Input of any sizes; output of the same.

    >>> import jit
    >>> jit.nn.Softshrink()(jit.tensor([0.25, 2.0])).tolist()
    [0.0, 1.5]
    """

    def forward(self, input: Any) -> Any:
        return functional.softshrink(input, self.lambd)
