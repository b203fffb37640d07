"""What quantisation should compute, in float64 numpy."""

from typing import Any

import numpy as np


def along(x: Any, numbers: Any, axis: int) -> Any:
    """One number for each place along an axis, as it broadcasts."""
    return np.asarray(numbers).reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])


def there(self: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any = None) -> Any:
    return np.clip(np.rint(self / scale) + zero_point, low, high)


def back(self: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    return (np.asarray(self, np.float64) - zero_point) * scale


def there_and_back(self: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    return back(there(self, scale, zero_point, low, high), scale, zero_point, low, high)


def of_one(function: Any) -> Any:
    """The function with a scale and a zero point that may be vectors of one element."""
    return lambda self, scale, zero, *rest: function(self, np.reshape(scale, ()), np.reshape(zero, ()), *rest)


def of_channels(function: Any) -> Any:
    """The function with a scale and a zero point for each place along an axis."""
    return lambda self, scale, zero, axis, *rest: function(
        self, along(self, scale, axis), along(self, zero, axis), *rest
    )


REFERENCES: dict[str, Any] = {
    "aten::_fake_quantize": there_and_back,
    "aten::fake_quantize_per_tensor_affine": there_and_back,
    "aten::fake_quantize_per_tensor_affine.tensor_qparams": of_one(there_and_back),
    "aten::fake_quantize_per_channel_affine": of_channels(there_and_back),
    "aten::quantize_per_tensor": of_one(there),
    "aten::quantize_per_channel": of_channels(there),
    "aten::dequantize_per_tensor": of_one(back),
    "aten::dequantize_per_channel": of_channels(back),
}
