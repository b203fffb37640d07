"""What quantisation should compute, in float64 numpy."""

from typing import Any

import numpy as np


def there_and_back(self: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    return (np.clip(np.rint(self / scale) + zero_point, low, high) - zero_point) * scale


REFERENCES: dict[str, Any] = {"aten::_fake_quantize": there_and_back}
