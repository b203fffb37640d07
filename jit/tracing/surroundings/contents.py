"""Values that are watched by their contents: arrays, buffers, text in memory, generators of random numbers."""

from __future__ import annotations

import array
import ctypes
import functools
import io
import mmap
import random
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_BUFFERS = (bytearray, memoryview, array.array, mmap.mmap)
_TEXTS = (io.StringIO, io.BytesIO)
_C_TYPES = (*{ctypes.c_int.__mro__[1], ctypes.Array, ctypes.Structure, ctypes.Union},)
COPIED = (*_BUFFERS, *_TEXTS)
"""Types whose objects can always be copied by `copy_of`."""
_DRAWING = (np.random.Generator, np.random.RandomState, random.Random)


class RandomStateContents(tuple[Any, ...]):
    """The state of a generator of random numbers, by value."""

    __slots__ = ()


def is_copied(kind: Any) -> bool:
    """Whether objects of a class are watched by a copy of their contents."""
    if issubclass(kind, (np.ndarray, np.void, *_DRAWING, *COPIED)):
        return True
    return issubclass(kind, _C_TYPES) and _has_no_pointers(kind)


def copy_of(value: Any) -> Any:
    """The content of a value, hashable unless it is an array."""
    if isinstance(value, np.ndarray):
        copy = np.array(_elements(value))
        copy.flags.writeable = value.flags.writeable
        return copy
    if isinstance(value, np.void):
        return value.dtype.str, value.tobytes(), repr(value)
    if isinstance(value, _DRAWING):
        return _state_of(value)
    try:
        if isinstance(value, _TEXTS):
            return value.getvalue(), value.tell()
        if isinstance(value, (mmap.mmap, bytearray)):
            return value[:] if isinstance(value, mmap.mmap) else bytes(value)
        view = memoryview(value)
        return view.format, view.shape, view.tobytes()
    except ValueError:  # it has been closed
        return "closed"


def _elements(array: Any) -> Any:
    """The elements that an array holds, even if its class shows others."""
    return np.ndarray.view(array, np.ndarray)


def same_contents(value: Any, copy: Any) -> bool:
    """Whether a value still holds what it held."""
    if not isinstance(value, np.ndarray):
        return bool(copy_of(value) == copy)
    value = value if type(value) is np.ndarray else _elements(value)
    if value.flags.writeable != copy.flags.writeable:
        return False
    return value.shape == copy.shape and value.dtype == copy.dtype and value.tobytes() == copy.tobytes()


@functools.cache
def _has_no_pointers(kind: Any) -> bool:
    """Whether all that an object of a type of ctypes holds lies in its own memory."""
    if issubclass(kind, ctypes.Array):
        return _has_no_pointers(kind._type_)
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        bases = [base for base in kind.__mro__ if "_fields_" in vars(base)]
        return all(_has_no_pointers(field[1]) for base in bases for field in base._fields_)
    return issubclass(kind, ctypes.c_int.__mro__[1]) and kind._type_ not in "zZPOX"


def _state_of(generator: Any) -> RandomStateContents:
    if isinstance(generator, np.random.Generator):
        return RandomStateContents(words_of(generator.bit_generator.state))
    if isinstance(generator, np.random.RandomState):
        return RandomStateContents(words_of(generator.get_state()))
    return RandomStateContents(words_of(generator.getstate()))


def words_of(state: Any) -> Any:
    """A state of numpy in a form that can be hashed: arrays as bytes, since their repr takes a millisecond."""
    if isinstance(state, dict):
        return tuple((key, words_of(value)) for key, value in state.items())
    if isinstance(state, (tuple, list)):
        return tuple(map(words_of, state))
    if isinstance(state, np.ndarray):
        return state.dtype.str, state.tobytes()
    return state if type(state) in _PLAIN else repr(state)


def random_states() -> Any:
    """The states of the global random generators of Python and numpy."""
    return random.getstate(), words_of(np.random.get_state())


__all__ = ["COPIED", "RandomStateContents", "copy_of", "is_copied", "random_states", "same_contents", "words_of"]
