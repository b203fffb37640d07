"""`torch.version`: the version of PyTorch whose interface this is."""

from __future__ import annotations

from typing import Any


class TorchVersion(str):
    """A version that can be compared with text and with tuples of numbers, as that of PyTorch can.

    >>> TorchVersion("2.13.0") >= (1, 8), TorchVersion("2.13.0") > "2.4", TorchVersion("2.13.0").split(".")[0]
    (True, True, '2')
    """

    def _key(self) -> tuple[int, ...]:
        return _numbers(self)

    def __lt__(self, other: Any) -> bool:
        return self._key() < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return self._key() <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return self._key() > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return self._key() >= _numbers(other)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) if isinstance(other, str) else self._key() == _numbers(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


def _numbers(version: Any) -> tuple[int, ...]:
    """The leading numbers of a version, without zeros at the end."""
    found = []
    for part in version.partition("+")[0].split(".") if isinstance(version, str) else version:
        if not str(part).isdigit():
            break
        found.append(int(part))
    while found and not found[-1]:
        found.pop()
    return tuple(found)


__version__ = TorchVersion("2.13.0")
cuda = None
"""The version of CUDA that PyTorch is built for: none."""
hip = None
git_version = "unknown"
debug = False
