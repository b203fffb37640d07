"""Layers that are matrix products."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import functional, init
from .modules import Module
from .parameter import Parameter


def fill_like_linear(weight: Any, bias: Any) -> None:
    """Draw weight and bias as PyTorch does for linear and convolution layers: uniform within 1 / sqrt(fan-in)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init.fans(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """``x @ weight.T + bias`` over the last dim.

    Args:
        in_features: Size of the last dim of the input.
        out_features: Size of the last dim of the output.
        bias: Whether to add a bias.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Input `[..., in_features]`, output `[..., out_features]`; the weight is `[out_features, in_features]`.

    >>> import jit
    >>> jit.nn.Linear(3, 2)(jit.zeros(5, 4, 3)).shape
    jit.Size([5, 4, 2])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(F.empty((out_features, in_features), device=device, dtype=dtype))
        shift = Parameter(F.empty((out_features,), device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        fill_like_linear(self.weight, self.bias)

    def forward(self, input: Any) -> Any:
        """Args: input `[..., in_features]`. Returns: `[..., out_features]`."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The projection of the result of attention, by the name that PyTorch prints: a `Linear` and nothing more."""


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for every output feature k.

    Args:
        in1_features: Size of the last dim of the first input, x1.
        in2_features: Size of the last dim of the second input, x2.
        out_features: Size of the last dim of the output.
        bias: Whether to add a bias.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Inputs `[..., in1_features]` and `[..., in2_features]`, output `[..., out_features]`; the weight is
        `[out_features, in1_features, in2_features]`.

    >>> import jit
    >>> jit.nn.Bilinear(2, 3, 4)(jit.zeros(5, 2), jit.zeros(5, 3)).shape
    jit.Size([5, 4])
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(F.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        shift = Parameter(F.empty((out_features,), device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """Args: input1 `[..., in1_features]`, input2 `[..., in2_features]`. Returns: `[..., out_features]`."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        features = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{features}, out_features={self.out_features}, bias={self.bias is not None}"
