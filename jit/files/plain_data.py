"""Objects of Python and numpy in pickles: containers, numbers and arrays, each made by a function that looks first."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from jit.eager.tensors import Size
from jit.ir.devices import device
from jit.ir.random_state import RandomState

from .faults import FileError
from .machine import checked_key

_NUMERIC = frozenset("biufcSU")
"""The kinds of numpy's elements that hold nothing but themselves."""
_FACTORIES = (list, dict, int, float, str, bool, set, tuple, OrderedDict)


def made_ordered(items: Any = ()) -> OrderedDict[Any, Any]:
    """An OrderedDict of pairs."""
    return OrderedDict([(checked_key(key), value) for key, value in _pairs(items)])


def made_default(factory: Any = None, items: Any = ()) -> defaultdict[Any, Any]:
    """A defaultdict whose missing values are empty containers or zeros.

    Raises:
        FileError: They are something else.
    """
    if factory is not None and not any(factory is known for known in _FACTORIES):
        raise FileError("it holds a defaultdict of what is no plain container")
    return defaultdict(factory, [(checked_key(key), value) for key, value in _pairs(items)])


def made_counter(items: Any = ()) -> Counter[Any]:
    """A Counter of pairs."""
    return Counter(dict([(checked_key(key), value) for key, value in _pairs(items)]))


def _pairs(items: Any) -> Any:
    if isinstance(items, dict):
        return items.items()
    if not isinstance(items, (list, tuple)) or not all(isinstance(i, (list, tuple)) and len(i) == 2 for i in items):
        raise FileError("it holds a dictionary that is made of what are no pairs")
    return items


def made_set(items: Any = ()) -> set[Any]:
    """A set of a list."""
    return set(map(checked_key, _listed(items)))


def made_frozen_set(items: Any = ()) -> frozenset[Any]:
    """A frozenset of a list."""
    return frozenset(map(checked_key, _listed(items)))


def made_deque(items: Any = (), longest: Any = None) -> deque[Any]:
    """A deque of a list."""
    return deque(_listed(items), longest)


def made_list(items: Any = ()) -> list[Any]:
    """A list of a list or a tuple."""
    return list(_listed(items))


def made_tuple(items: Any = ()) -> tuple[Any, ...]:
    """A tuple of a list or a tuple."""
    return tuple(_listed(items))


def made_dictionary(items: Any = ()) -> dict[Any, Any]:
    """A dict of pairs."""
    return dict(made_ordered(items))


def _listed(items: Any) -> Any:
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise FileError("it holds a container that is made of what is no list")
    return items


def made_size(items: Any = ()) -> Size:
    """The sizes of a tensor."""
    return Size(_listed(items))


def made_complex(real: Any, imaginary: Any = 0.0) -> complex:
    """A complex number."""
    return complex(_number(real), _number(imaginary))


def made_range(*ends: Any) -> range:
    """A range of whole numbers."""
    return range(*map(_number, ends))


def made_slice(*ends: Any) -> slice:
    """A slice of whole numbers."""
    return slice(*[None if end is None else _number(end) for end in ends])


def _number(value: Any) -> Any:
    if type(value) not in (int, float, bool):
        raise FileError("it holds a number that is made of what is none")
    return value


def made_bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    """Bytes that an old pickle holds as text; `bytes(10**12)` is not among them.

    Raises:
        FileError: They are made of something else.
    """
    if type(text) is bytes:
        return text
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise FileError("it holds bytes that are made of what is no text")
    return text.encode("latin-1")


def made_byte_array(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    """A bytearray of bytes."""
    return bytearray(made_bytes(data, encoding))


def made_device(kind: Any, index: Any = None) -> device:
    """A device."""
    return device(kind, index)


def made_random_state(seed: Any, offset: Any) -> RandomState:
    """The state of a random generator of this package."""
    return RandomState(_number(seed), _number(offset))


# -- numpy ---------------------------------------------------------------------------------------------------------


def made_dtype(code: Any, align: Any = False, copy: Any = False) -> np.dtype[Any]:
    """A dtype of numbers or strings, as a new object, whose byte order may be set.

    Args:
        code: Its name.
        align: Accepted; these have no fields that could be aligned.
        copy: Accepted; it is always a copy.

    Raises:
        FileError: Its elements are something else, Python's objects for example.
    """
    made = np.dtype(code, copy=True) if type(code) is str else None
    if made is None or made.kind not in _NUMERIC or made.names or made.subdtype or made.metadata:
        raise FileError(f"it holds elements of numpy's dtype {code!s:.40}, which are no numbers")
    return made


def order_dtype(made: np.dtype[Any], state: Any) -> None:
    """Set the byte order of a dtype; the rest of its state is what its name says already.

    Raises:
        FileError: The state is none.
    """
    if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "=", "|"):
        raise FileError("it holds a dtype of numpy whose state is none")
    own = list(made.__reduce__()[2])
    own[1] = state[1]
    made.__setstate__(tuple(own))  # type: ignore[attr-defined]


def made_scalar(dtype: Any, data: Any = None) -> Any:
    """A number of numpy's.

    Raises:
        FileError: Its bytes are not those of one element.
    """
    if not isinstance(dtype, np.dtype) or type(data) is not bytes or len(data) != dtype.itemsize:
        raise FileError("it holds a number of numpy whose bytes are not its own")
    return np.frombuffer(data, dtype)[0] if data else dtype.type()


def begun_array(kind: Any, sizes: Any = (0,), code: Any = b"b") -> Any:
    """An array without elements, which `fill_array` gives its state.

    Args:
        kind: numpy's class of arrays.
        sizes: Accepted, since the state says them again.
        code: Accepted, likewise.

    Raises:
        FileError: It is of another class.
    """
    if kind is not np.ndarray:
        raise FileError("it holds an array of a class of its own; save np.asarray of it")
    return np.ndarray((0,), np.int8)


def fill_array(made: Any, state: Any) -> None:
    """Give an array sizes, dtype and elements.

    Raises:
        FileError: These do not fit each other.
    """
    if not isinstance(state, tuple) or len(state) != 5 or made.size or made.base is not None:
        raise FileError("it holds an array of numpy whose state is none")
    _, sizes, dtype, fortran, data = state
    if type(data) is str:
        data = data.encode("latin-1")
    _check_array(sizes, dtype, data)
    made.__setstate__((1, sizes, dtype, bool(fortran), bytes(data)))


def array_of_buffer(data: Any, dtype: Any, sizes: Any, order: Any) -> Any:
    """An array of the bytes of newer pickles.

    Args:
        data: The bytes.
        dtype: numpy's dtype of the elements.
        sizes: The sizes.
        order: "C" or "F".

    Raises:
        FileError: These do not fit each other.
    """
    _check_array(sizes, dtype, data)
    if order not in ("C", "F"):
        raise FileError("it holds an array of numpy in no known order")
    return np.frombuffer(bytearray(data), dtype).reshape(sizes, order=order)


def _check_array(sizes: Any, dtype: Any, data: Any) -> None:
    if not isinstance(dtype, np.dtype) or dtype.kind not in _NUMERIC or not isinstance(data, (bytes, bytearray)):
        raise FileError("it holds an array of numpy whose elements are no numbers")
    count = dtype.itemsize
    for size in sizes if isinstance(sizes, tuple) and len(sizes) <= 64 else (-1,):
        count *= size if type(size) is int and size >= 0 else -1
    if count != len(data):
        raise FileError("it holds an array of numpy that does not have as many bytes as its sizes say")
