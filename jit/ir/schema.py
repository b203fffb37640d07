"""The language in which an operator's signature is written: `aten::add(Tensor self, Tensor other) -> Tensor`.

A schema is text first. `parse_schema` turns the text into a `Schema`, `str` turns it back:

    aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
    namespace::name.overload(type name=default, *, keyword-only arguments) -> returns

A type is a base (`Tensor`, `int`, ...), then its marks: `Tensor?` may be None, `Tensor[]` is a list, `int[2]` a list of
two (one number stands for both), `Tensor?[]` a list with gaps. `Tensor(a)` shares memory with whatever else is marked
`a`, `Tensor(a!)` is written to as well, `Tensor(a -> *)` goes on to be shared by the members of a list.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from itertools import pairwise
from typing import Final, NoReturn

from jit.ir.errors import SchemaError

__all__ = ["REQUIRED", "ArgType", "Argument", "Return", "Schema", "describe_call", "parse_schema"]


class _Required(Enum):
    REQUIRED = "REQUIRED"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required.REQUIRED
"""The default of an argument that has none."""

NAMED_BASES = frozenset({"ScalarType", "Layout", "Device", "MemoryFormat"})
"""Bases whose defaults are bare words, such as `contiguous_format`."""

BASES = NAMED_BASES | {"Tensor", "Scalar", "int", "float", "bool", "complex", "str", "Generator"}
BASE_SYNONYMS = {"SymInt": "int", "number": "Scalar"}
REDUCTIONS = {"None": 0, "Mean": 1, "Sum": 2}
"""ATen's words for the `int reduction` of a loss."""


@dataclass(frozen=True, slots=True)
class ArgType:
    """The type of an argument or of a return, without alias marks; `str` prints it as ATen does."""

    base: str
    optional: bool = False
    """None is a legal value."""
    is_list: bool = False
    list_size: int | None = None
    """The length that a list must have; a single element is then repeated to that length."""
    optional_elements: bool = False
    """None is a legal element of the list, as in `Tensor?[]`."""

    def __str__(self) -> str:
        return self.base + self.marks

    @property
    def is_tensor(self) -> bool:
        """True of `Tensor`, `Tensor?`, `Tensor[]` and `Tensor?[]`."""
        return self.base == "Tensor"

    @property
    def marks(self) -> str:
        """The marks behind the base: `?`, `[]`, `[2]`, `?[]`, `[2]?`."""
        size = "" if self.list_size is None else self.list_size
        brackets = f"[{size}]" if self.is_list else ""
        return "?" * self.optional_elements + brackets + "?" * self.optional


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operator."""

    name: str
    type: ArgType
    default: object = REQUIRED
    """A Python value (a list is a tuple), or `REQUIRED`."""
    kwarg_only: bool = False
    alias: str | None = None
    """The name of the memory that this argument shares with others."""
    writes: bool = False
    """The operator changes this argument."""
    spreads: bool = False
    """The memory goes on to be shared by the members of a list: `(a -> *)`."""

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    def __str__(self) -> str:
        text = f"{_marked(self.type, self.alias, self.writes, self.spreads)} {self.name}"
        return text if self.is_required else f"{text}={_default_text(self.default, self.type)}"


@dataclass(frozen=True, slots=True)
class Return:
    """One result of an operator."""

    type: ArgType
    name: str | None = None
    alias: str | None = None
    writes: bool = False

    def __str__(self) -> str:
        text = _marked(self.type, self.alias, self.writes)
        return text if self.name is None else f"{text} {self.name}"


@dataclass(frozen=True)
class Schema:
    """The signature of an operator.

    Two schemas that mean the same are equal, however their texts were spaced.

    >>> schema = parse_schema("aten::t(Tensor(a) self) -> Tensor(a)")
    >>> schema.qualified, schema.view_of
    ('aten::t', 'self')
    """

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    text: str = field(default="", compare=False, repr=False)
    """The schema as it was written."""

    def __str__(self) -> str:
        returns = ", ".join(map(str, self.returns))
        alone = len(self.returns) == 1 and self.returns[0].name is None
        return f"{self.qualified}({_argument_list(self.arguments)}) -> {returns if alone else f'({returns})'}"

    @cached_property
    def qualified(self) -> str:
        """The full name: `aten::sum`, or `aten::max.dim` where there is an overload."""
        overload = f".{self.overload}" if self.overload else ""
        return f"{self.namespace}::{self.name}{overload}"

    @cached_property
    def tensor_arguments(self) -> tuple[Argument, ...]:
        """The arguments that carry tensors, lists of tensors included."""
        return tuple(argument for argument in self.arguments if argument.type.is_tensor)

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.arguments)

    @cached_property
    def is_inplace(self) -> bool:
        """True of `aten::add_(Tensor(a!) self, ...)`: named with a final `_`, and writes to its first argument."""
        return self.name.endswith("_") and bool(self.arguments) and self.arguments[0].writes

    @cached_property
    def mutated(self) -> tuple[str, ...]:
        """The names of the arguments that the operator writes to."""
        return tuple(argument.name for argument in self.arguments if argument.writes)

    @cached_property
    def view_of(self) -> str | None:
        """The argument whose memory the first return shares without having been written to, or None."""
        if not self.returns or self.returns[0].alias is None or self.returns[0].writes:
            return None
        shared = self.returns[0].alias
        return next((a.name for a in self.arguments if a.alias == shared and not a.writes), None)


_SCHEMA = re.compile(r"\s*(\w+)::(\w+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(\S.*?)\s*", re.DOTALL)
_TYPE = r"""
    (?P<base>[A-Za-z]\w*)
    (?: \( (?P<alias>\w+) (?P<writes>!?) (?P<spreads>\s*->\s*\*)? \) )?
    (?P<mark>\??)
    (?: (?P<list>\[) (?P<size>\d*) \] (?P<list_mark>\??) )?
"""
_ARGUMENT = re.compile(rf"{_TYPE} \s+ (?P<name>[A-Za-z_]\w*) (?: \s*=\s* (?P<default>.+) )?", re.VERBOSE | re.DOTALL)
_RETURN = re.compile(rf"{_TYPE} (?: \s+ (?P<name>[A-Za-z_]\w*) )?", re.VERBOSE)
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[\]]*\])")
_INT = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf")
_STRING = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_WORD = re.compile(r"[A-Za-z_]\w*")


class _Mistake(Exception):
    """A fault of a schema, raised by the part that found it; `parse_schema` adds the surroundings."""


def parse_schema(text: str) -> Schema:
    """Reads the signature of an operator.

    Args:
        text: One signature in ATen's schema language, `namespace::name.overload(arguments) -> returns`.

    Returns:
        The `Schema`; `parse_schema(str(schema)) == schema`.

    Raises:
        SchemaError: The text is no signature. The message says what is wrong and shows one that is right.

    >>> schema = parse_schema("aten::sum.dim(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor")
    >>> schema.argument_names
    ('self', 'dim', 'keepdim')
    >>> str(schema.arguments[1].type)
    'int[1]?'
    """
    match = _SCHEMA.fullmatch(text)
    try:
        if match is None:
            raise _Mistake("it needs a namespace, a name, arguments in parentheses and returns after '->'")
        namespace, name, overload, arguments, returns = match.groups()
        schema = Schema(namespace, name, overload or "", _parse_arguments(arguments), _parse_returns(returns), text)
        _check_consistent(schema)
        return schema
    except _Mistake as mistake:
        _refuse(text, mistake)


def describe_call(
    name: str,
    args: Iterable[object],
    kwargs: Mapping[str, object],
    describe: Callable[[object], str] = lambda value: type(value).__name__,
) -> str:
    """Says in short what a call was given, for error messages.

    Args:
        name: The name of what was called.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        describe: Says what one value is; by default the name of its type. Lists and tuples are opened first.

    >>> describe_call("add", (1.0, "two"), {"alpha": 2})
    'add(float, str, alpha=int)'
    >>> describe_call("cat", ([1.0, 2.0],), {"dim": None})
    'cat([float, float], dim=None)'
    """
    positional = [_describe_value(value, describe) for value in args]
    by_keyword = [f"{key}={_describe_value(value, describe)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(positional + by_keyword)})"


# Reading the parts of a schema


def _parse_arguments(text: str) -> tuple[Argument, ...]:
    arguments: list[Argument] = []
    kwarg_only = False
    for part in _split(text):
        if part == "*":
            if kwarg_only:
                raise _Mistake("it has '*' twice")
            kwarg_only = True
        else:
            arguments.append(_parse_argument(part, kwarg_only))
    return tuple(arguments)


@cache  # `Tensor self` and its like are in hundreds of schemas
def _parse_argument(text: str, kwarg_only: bool) -> Argument:
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise _Mistake(f"{text!r} is not an argument, which is a type and a name")
    type = _parse_type(match)
    default = REQUIRED if match["default"] is None else _parse_default(match["default"].strip(), type)
    spreads = match["spreads"] is not None
    return Argument(match["name"], type, default, kwarg_only, match["alias"], match["writes"] == "!", spreads)


def _parse_returns(text: str) -> tuple[Return, ...]:
    grouped = text.startswith("(") and text.endswith(")")
    return tuple(_parse_return(part) for part in _split(text[1:-1] if grouped else text))


@cache
def _parse_return(text: str) -> Return:
    match = _RETURN.fullmatch(text)
    if match is None or match["spreads"]:
        raise _Mistake(f"{text!r} is not a return, which is a type and perhaps a name")
    return Return(_parse_type(match), match["name"], match["alias"], match["writes"] == "!")


def _parse_type(match: re.Match[str]) -> ArgType:
    base = BASE_SYNONYMS.get(match["base"], match["base"])
    if base not in BASES:
        raise _Mistake(f"{base!r} is not a type, which are {', '.join(sorted(BASES))}")
    if match["list"] is None:
        return ArgType(base, optional=match["mark"] == "?")
    size = int(match["size"]) if match["size"] else None
    return ArgType(base, match["list_mark"] == "?", True, size, match["mark"] == "?")


def _parse_default(text: str, type: ArgType) -> object:
    if text == "None" and type.optional:
        return None
    if not type.is_list:
        return _parse_constant(text, type.base)
    if text.startswith("[") and text.endswith("]"):
        return _sized(tuple(_parse_constant(part, type.base) for part in _split(text[1:-1])), text, type)
    if type.list_size is None:
        raise _Mistake(f"the default {text!r} is not a list, which the type {str(type)!r} asks for")
    return (_parse_constant(text, type.base),) * type.list_size


def _sized(values: tuple[object, ...], text: str, type: ArgType) -> tuple[object, ...]:
    """The default list, whose length must be that of the type.

    The length 1 says only that a single number may stand for the list: ATen has `int[1] dim=[-2, -1]`.
    """
    if type.list_size not in (None, 1) and len(values) not in (0, type.list_size):
        raise _Mistake(f"the default {text!r} does not have the length that the type {str(type)!r} asks for")
    return values


def _parse_constant(text: str, base: str) -> object:
    """Reads one number, string or word as a value of the type `base`."""
    if base in ("bool", "Scalar") and text in ("True", "False"):
        return text == "True"
    if base in ("int", "Scalar") and _INT.fullmatch(text):
        return int(text)
    if base == "int" and text in REDUCTIONS:
        return REDUCTIONS[text]
    if base in ("float", "Scalar") and _FLOAT.fullmatch(text):
        return float(text)
    if base == "complex" and _FLOAT.fullmatch(text):
        return complex(text)
    if base == "str" and (quoted := _STRING.fullmatch(text)):
        return quoted[1] if quoted[2] is None else quoted[2]
    if base in NAMED_BASES | {"str"} and _WORD.fullmatch(text):
        return text
    raise _Mistake(f"the default {text!r} is not of the type {base!r}")


def _split(text: str) -> list[str]:
    """The parts between the commas outside of brackets, trimmed; none for a blank text."""
    return [part.strip() for part in _COMMA_OUTSIDE_BRACKETS.split(text)] if text.strip() else []


def _check_consistent(schema: Schema) -> None:
    """The arguments' names differ; optional positionals come last; what a return shares belongs to an argument."""
    names = schema.argument_names
    if len(set(names)) < len(names):
        raise _Mistake("two of its arguments have the same name")
    positional = [argument for argument in schema.arguments if not argument.kwarg_only]
    for before, after in pairwise(positional):
        if after.is_required and not before.is_required:
            raise _Mistake(f"the argument {after.name!r} needs a default because {before.name!r} before it has one")
    shared = {argument.alias for argument in schema.arguments}
    for result in schema.returns:
        if result.alias is not None and result.alias not in shared:
            raise _Mistake(f"its return '{result}' shares memory with no argument")


def _refuse(text: str, mistake: _Mistake) -> NoReturn:
    example = "aten::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    raise SchemaError(f"{text!r} is not an operator schema: {mistake}; write it like '{example}'") from None


# Printing the parts of a schema


def _argument_list(arguments: tuple[Argument, ...]) -> str:
    parts = [str(argument) for argument in arguments]
    first_keyword = next((i for i, argument in enumerate(arguments) if argument.kwarg_only), None)
    if first_keyword is not None:
        parts.insert(first_keyword, "*")
    return ", ".join(parts)


def _marked(type: ArgType, alias: str | None, writes: bool, spreads: bool = False) -> str:
    """`Tensor(a!)[]`: the alias mark stands between the base and the other marks."""
    if alias is None:
        return str(type)
    return f"{type.base}({alias}{'!' * writes}{' -> *' * spreads}){type.marks}"


def _default_text(value: object, type: ArgType) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_default_text(element, type) for element in value)}]"
    if isinstance(value, str) and type.base == "str":
        return f"'{value}'" if '"' in value else f'"{value}"'
    if isinstance(value, complex):
        return str(value.real)
    return str(value)


def _describe_value(value: object, describe: Callable[[object], str]) -> str:
    if value is None:
        return "None"
    if not isinstance(value, (list, tuple)):
        return describe(value)
    shown = [_describe_value(element, describe) for element in value[:4]]
    return f"[{', '.join(shown + ['...'] * (len(value) > 4))}]"
