"""What the backward operators should compute, in float64: differences of the forward functions in the complex plane."""

from typing import Any

import numpy as np
import scipy.special


def slope(function: Any, x: Any) -> Any:
    """The derivative of an analytic function, by a step into the complex plane."""
    return np.imag(function(np.asarray(x, complex) + 1e-30j)) / 1e-30


def tanh_gelu(x: Any) -> Any:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_backward(g: Any, x: Any, approximate: str) -> Any:
    """erf has no complex step in SciPy that is small enough to trust: there, the product rule."""
    if approximate == "tanh":
        return g * slope(tanh_gelu, x)
    return g * (scipy.special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))


def elu_backward(g: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Any) -> Any:
    x = np.log1p(np.minimum(x, 0) / (alpha * scale)) / input_scale * (x < 0) + x * (x > 0) if is_result else x
    return g * np.where(x > 0, scale, alpha * scale * input_scale * np.exp(np.minimum(x, 0) * input_scale))


def jacobian_product(forward: Any, g: Any, dim: int) -> Any:
    """`g` times the Jacobian of softmax at shares that are given, entry by entry."""
    if g.ndim == 0:
        return np.zeros(())
    shares, g = np.moveaxis(forward, dim, -1), np.moveaxis(g, dim, -1)
    size = shares.shape[-1]
    out = np.zeros(g.shape)
    for i in range(size):
        for j in range(size):
            out[..., i] += g[..., j] * shares[..., j] * ((i == j) - shares[..., i])
    return np.moveaxis(out, -1, dim)


def log_softmax_backward(g: Any, output: Any, dim: int, dtype: Any) -> Any:
    return jacobian_product(np.exp(output), g / np.exp(output), dim) if g.ndim else np.zeros(())


def softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    return scipy.special.softmax(self, axis=dim) if self.size else self


def log_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    return scipy.special.log_softmax(self, axis=dim) if self.size else self


REFERENCES: dict[str, Any] = {
    "aten::sigmoid_backward": lambda g, output: g * output * (1 - output),
    "aten::tanh_backward": lambda g, output: g * (1 - output) * (1 + output),
    "aten::threshold_backward": lambda g, x, threshold: g * (x > threshold),
    "aten::hardtanh_backward": lambda g, x, low, high: g * ((x > low) & (x < high)),
    "aten::leaky_relu_backward": lambda g, x, falling, is_result: np.where(x > 0, g, g * falling),
    "aten::elu_backward": elu_backward,
    "aten::softplus_backward": lambda g, x, beta, threshold: np.where(
        x * beta > threshold, g, g * slope(lambda z: np.log(1 + np.exp(z * beta)) / beta, x)
    ),
    "aten::gelu_backward": gelu_backward,
    "aten::native_dropout_backward": lambda g, mask, scale: g * mask * scale,
    "aten::_softmax_backward_data": lambda g, output, dim, dtype: jacobian_product(output, g, dim),
    "aten::_log_softmax_backward_data": log_softmax_backward,
    "aten::_softmax": softmax,
    "aten::_log_softmax": log_softmax,
}
