"""A reader of pickles that makes data and runs nothing.

A pickle is a program for a machine with a stack. `pickle.Unpickler` is such a machine, but it trusts its programs: it
lets them choose how large its memo is, and calls whatever they name. This one decodes the instructions with
`pickletools`, knows those that data need, and asks a `Vocabulary` what a name means and what may be done with it.
"""

from __future__ import annotations

import pickletools
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING  # from the names of Python 2, which old protocols have
from collections.abc import Callable, Iterable
from typing import IO, Any, Protocol

import numpy as np

from jit.eager.tensors import Tensor
from jit.ir.devices import device
from jit.ir.dtypes import DType

from .faults import FileError

_PUSHES = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
))  # fmt: skip
"""The instructions that push what is written behind them."""
_PYTHON_2 = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING"))
"""Instructions that push a string of Python 2, which may be bytes or text."""
_MADE: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_LIST": list, "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_SKIPPED = frozenset(("PROTO", "FRAME"))
_PLAIN_KEYS = (str, int, float, bool, type(None), bytes, complex, DType, device, Tensor, np.generic)
_LARGEST_KEY = 1000
"""The most things that may be in a key."""


class Vocabulary(Protocol):
    """The meaning of names in a pickle, and what it may do with the objects that it makes of them."""

    def find(self, name: str) -> Any:
        """The object that is meant by a dotted name; an error if it is not allowed."""

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """The result of calling what `find` returned."""

    def new(self, kind: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """An object of a class without its `__init__`.

        Args:
            kind: The class.
            arguments: What its `__new__` is called with.
            named: The same by name.
        """

    def build(self, made: Any, state: Any) -> None:
        """Give an object its state."""

    def extend(self, made: Any, items: list[Any]) -> None:
        """Add items to a list, or to what is like one."""

    def update(self, made: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Set items of a dictionary, or of what is like one."""

    def persistent(self, identity: Any) -> Any:
        """The object that lies outside of the pickle under this identity."""


class Unpickler:
    """A run of one pickle.

    Args:
        vocabulary: The meaning of names.
        encoding: The encoding of the strings of Python 2; "bytes" leaves them as they are.
    """

    def __init__(self, vocabulary: Vocabulary, encoding: str = "utf-8") -> None:
        self._vocabulary = vocabulary
        self._encoding = encoding
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        """The stacks below the marks that are open."""
        self._memo: dict[int, Any] = {}

    def run(self, file: IO[bytes]) -> Any:
        """The object that the pickle at the file's position describes.

        Raises:
            FileError: The pickle is none, uses an instruction that data do not need, or names what is not allowed.
        """
        for opcode, argument, _ in pickletools.genops(file):
            name = opcode.name
            if name in _PUSHES:
                self._stack.append(argument)
            elif name in _MADE:
                self._stack.append(_MADE[name]())
            elif name in _OPERATIONS:
                _OPERATIONS[name](self, argument)
            elif name in _PYTHON_2:
                self._stack.append(self._decoded(argument))
            elif name == "STOP":
                return self._stack.pop()
            elif name not in _SKIPPED:
                raise FileError(f"its pickle has the instruction {name}, which no file of tensors needs")
        raise FileError("its pickle has no end")  # genops says so itself; this is for readers and type checkers

    def _decoded(self, text: Any) -> Any:
        data = text.encode("latin-1")
        return data if self._encoding == "bytes" else data.decode(self._encoding)

    # -- the stack -----------------------------------------------------------------------------------------------

    def _mark(self, _: Any) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        """All that was pushed since the last mark, which goes."""
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _pop(self, _: Any) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def _pop_mark(self, _: Any) -> None:
        self._since_mark()

    def _duplicate(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def _remember(self, number: int) -> None:
        self._memo[number] = self._stack[-1]

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _recall(self, number: int) -> None:
        self._stack.append(self._memo[number])

    # -- containers ----------------------------------------------------------------------------------------------

    def _tuple(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(tuple(items))

    def _short_tuple(self, length: int) -> None:
        if len(self._stack) < length:
            raise FileError("its pickle takes from an empty stack")
        self._stack[-length:] = [tuple(self._stack[-length:])]

    def _list(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(items)

    def _dictionary(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(dict(_pairs(items)))

    def _frozen_set(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(frozenset(map(checked_key, items)))

    def _add_items(self, _: Any) -> None:
        items = self._since_mark()
        if type(self._stack[-1]) is not set:
            raise FileError("its pickle adds members to what is no set")
        self._stack[-1].update(map(checked_key, items))

    def _append(self, _: Any) -> None:
        item = self._stack.pop()
        self._vocabulary.extend(self._stack[-1], [item])

    def _appends(self, _: Any) -> None:
        items = self._since_mark()
        self._vocabulary.extend(self._stack[-1], items)

    def _set_item(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._vocabulary.update(self._stack[-1], _pairs([key, value]))

    def _set_items(self, _: Any) -> None:
        items = self._since_mark()
        self._vocabulary.update(self._stack[-1], _pairs(items))

    # -- names ---------------------------------------------------------------------------------------------------

    def _global(self, pair: str) -> None:
        module, name = pair.split(" ", 1)
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        self._stack.append(self._vocabulary.find(f"{module}.{name}"))

    def _stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise FileError("its pickle has a name that is no text")
        self._stack.append(self._vocabulary.find(f"{module}.{name}"))

    def _reduce(self, _: Any) -> None:
        arguments, function = _checked_arguments(self._stack.pop()), self._stack.pop()
        self._stack.append(self._vocabulary.call(function, arguments))

    def _new_object(self, _: Any) -> None:
        arguments, kind = _checked_arguments(self._stack.pop()), self._stack.pop()
        self._stack.append(self._vocabulary.new(kind, arguments, {}))

    def _new_object_with_names(self, _: Any) -> None:
        named, arguments, kind = self._stack.pop(), _checked_arguments(self._stack.pop()), self._stack.pop()
        if type(named) is not dict or not all(type(key) is str for key in named):
            raise FileError("its pickle has named arguments that are none")
        self._stack.append(self._vocabulary.new(kind, arguments, named))

    def _build(self, _: Any) -> None:
        state = self._stack.pop()
        self._vocabulary.build(self._stack[-1], state)

    def _persistent(self, _: Any) -> None:
        self._stack.append(self._vocabulary.persistent(self._stack.pop()))


_OPERATIONS: dict[str, Callable[[Unpickler, Any], None]] = {
    "MARK": Unpickler._mark,
    "POP": Unpickler._pop,
    "POP_MARK": Unpickler._pop_mark,
    "DUP": Unpickler._duplicate,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Unpickler._remember),
    "MEMOIZE": Unpickler._memoize,
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Unpickler._recall),
    "TUPLE": Unpickler._tuple,
    "TUPLE1": lambda machine, _: machine._short_tuple(1),
    "TUPLE2": lambda machine, _: machine._short_tuple(2),
    "TUPLE3": lambda machine, _: machine._short_tuple(3),
    "LIST": Unpickler._list,
    "DICT": Unpickler._dictionary,
    "FROZENSET": Unpickler._frozen_set,
    "ADDITEMS": Unpickler._add_items,
    "APPEND": Unpickler._append,
    "APPENDS": Unpickler._appends,
    "SETITEM": Unpickler._set_item,
    "SETITEMS": Unpickler._set_items,
    "GLOBAL": Unpickler._global,
    "STACK_GLOBAL": Unpickler._stack_global,
    "REDUCE": Unpickler._reduce,
    "NEWOBJ": Unpickler._new_object,
    "NEWOBJ_EX": Unpickler._new_object_with_names,
    "BUILD": Unpickler._build,
    "BINPERSID": Unpickler._persistent,
}


def _checked_arguments(arguments: Any) -> tuple[Any, ...]:
    if type(arguments) is not tuple:
        raise FileError("its pickle calls something with what are no arguments")
    return arguments


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    if len(items) % 2:
        raise FileError("its pickle has a key without a value")
    return [(checked_key(key), value) for key, value in zip(items[::2], items[1::2])]


def checked_key(key: Any) -> Any:
    """A key of a dictionary, or a member of a set, if it may be one.

    Python's hash of a tuple descends into it without looking at its own stack, and computes what is in it several times
    as often: a pickle of a few hundred bytes could end the process, or keep it busy for ever.

    Raises:
        FileError: It cannot be hashed, or there is too much in it.
    """
    left, seen = [key], 0
    while left:
        item = left.pop()
        seen += 1
        if isinstance(item, (tuple, frozenset)) and seen + len(item) <= _LARGEST_KEY:
            left.extend(item)
        elif not isinstance(item, (*_PLAIN_KEYS, type)):
            raise FileError(f"its pickle has a key with a {type(item).__name__} in it, or one that is too large")
    return key
