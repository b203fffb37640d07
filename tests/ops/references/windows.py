"""What windows should be, in float64 SciPy."""

from typing import Any

import numpy as np
import scipy.signal


def window(name: str) -> Any:
    def reference(length: int, periodic: bool, *options: Any) -> Any:
        *parameters, _, _ = options
        if length <= 1:
            return np.ones(length)
        return scipy.signal.get_window((name, *parameters) if parameters else name, length, fftbins=periodic)

    return reference


REFERENCES: dict[str, Any] = {f"aten::{name}_window": window(name) for name in ("bartlett", "blackman", "kaiser")}
