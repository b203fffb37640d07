"""What the operators on complex numbers should compute, in numpy."""

from typing import Any

import numpy as np


def unit(z: Any) -> Any:
    size = np.abs(z)
    if np.iscomplexobj(z):
        return np.where(size == 0, 0 * z, z / np.where(size == 0, 1, size))
    return np.sign(np.where(np.isnan(z), 0, z))


def parts(z: Any) -> Any:
    return np.stack([z.real, z.imag], -1)


REFERENCES: dict[str, Any] = {
    "aten::_conj_physical": np.conj,
    "aten::conj_physical": np.conj,
    "aten::sgn": unit,
    "aten::angle": lambda z: np.where(np.isnan(z), z.real, np.angle(z)),
    "aten::complex": lambda real, imag: real + 1j * imag,
    "aten::polar": lambda size, angle: size * np.exp(1j * angle),
    "aten::view_as_real": parts,
    "aten::view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "aten::real": lambda z: z.real,
    "aten::imag": lambda z: z.imag,
}
