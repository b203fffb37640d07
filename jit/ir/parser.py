"""Reads what the printer writes: `parse(str(graph))` is the graph again.

    text     = graph { "where" "@" number "=" graph }
    graph    = "graph" inputs "{" body { "----" "stage" number inputs "----" body } "}"
    body     = { node } "return" args [ "update" "(" value "=" value { "," value "=" value } ")" ]
    node     = [ value ":" type { "," value ":" type } "=" ] kind [ "[" name "=" item { "," name "=" item } "]" ] args
    inputs   = "(" [ value ":" type { "," value ":" type } ] ")"
    args     = "(" [ item { "," item } ] ")"
    size     = a number, or names and numbers with + - * // % min() max(), as in Python

Spaces and line ends mean nothing, except that the comment right behind a node tells its source and scope.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import ParseError
from .graph import Graph, Node, Stage, Value
from .printer import content_hash, read_comment
from .random_state import RandomState
from .sizes import SizeExpr, SizeSymbol, divided_by_positive, greatest, least
from .types import (
    BOOL,
    COMPLEX_SCALAR,
    FLOAT,
    GENERATOR,
    HANDLE,
    INT,
    TENSOR,
    UNDEFINED,
    Dim,
    TensorType,
    Type,
)

T = TypeVar("T")

DEEPEST = 100
"""The deepest nesting of lists."""
MOST_TERMS = 100
"""The most terms of a size."""


def parse(
    text: str,
    functions: Mapping[str, Any] | None = None,
    tensors: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Graph:
    """The graph that `text` describes.

    Args:
        text: What `str(graph)` gives.
        functions: By name, what the nodes `^Name` and `cpp::name` call; becomes their attribute "function".
        tensors: By hash ("sha256:..."), the arrays that the text only refers to.

    Returns:
        A graph whose text is `text`.

    Raises:
        ParseError: The text is no graph; the message names line, column and what was expected.

    >>> from jit.ir import parse
    >>> graph = parse("graph(%x : Float(2)) { %y : Float(2) = aten::neg(%x) return (%y) }")
    >>> print(graph)
    graph(%x : Float(2)) {
      %y : Float(2) = aten::neg(%x)
      return (%y)
    }
    """
    return _Parser(text, functions or {}, tensors or {}).whole()


def parse_size(text: str) -> int:
    """The size that `text` describes: a number, or a `SizeExpr`.

    Raises:
        ParseError: The text is no size.

    >>> parse_size("(n+1)*2 + 3")
    2*n+5
    """
    parser = _Parser(text, {}, {})
    size = parser.size()
    if parser.kind != "end":
        parser.fail("the end of the size")
    return size


# -- tokens ------------------------------------------------------------------------------------------------------

_STRING = r"""b?'(?:[^'\\\n]|\\.)*'|b?"(?:[^"\\\n]|\\.)*\""""
_TOKEN = re.compile(
    rf"""
    [ \t]*(?:\#[ ]?(?P<comment>[^\n]*))? (?>[ \t\r\n]+|\#[^\n]*)*   # the comment of the line that ends here; other gaps
    (?: (?P<value>%(?:[\w.]+|{_STRING}))
      | (?P<graph>@\d+)
      | (?P<dashes>----)
      | (?P<number>-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf\b))
      | (?P<string>{_STRING})
      | (?P<kind>\^(?:[\w.]+|{_STRING}))
      | (?P<word>[A-Za-z_][\w.]*(?:::?\w[\w.]*)?)
      | (?P<hash><sha256:[0-9a-f]+>)
      | (?P<opaque><[^<>\n]*>)
      | (?P<mark>\.\.\.|//|[()\[\]{{}},=:?+*%-])
      | (?P<end>\Z)
      | (?P<unknown>.)
    )""",
    re.VERBOSE,
)

_SIMPLE_TYPES: dict[str, Type] = {str(t): t for t in (INT, FLOAT, BOOL, COMPLEX_SCALAR, HANDLE, GENERATOR, UNDEFINED)}
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "inf": math.inf, "nan": math.nan}
_CALLS: dict[str, Callable[..., Any]] = {"complex": complex, "slice": slice, "RandomState": RandomState}
_RESERVED = frozenset({*_SIMPLE_TYPES, *_WORDS, *_CALLS, "Tensor", *dtypes.BY_TEXT})
"""Words that are no names of sizes."""


class _Parser:
    """One reading of one text, token by token; nothing is looked at twice."""

    def __init__(self, text: str, functions: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
        self.text = text
        self.functions = functions
        self.tensors = tensors
        self.numbered: dict[str, tuple[Graph, int]] = {}
        self.graph = Graph()
        self.values: dict[str, Value] = {}
        self.depth = 0
        self.end = 0
        self.advance()

    # -- the current token: its kind, its text, where it starts, and the comment before it -------------------------

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.end)
        assert match is not None
        self.kind = match.lastgroup or "end"
        self.token = match[self.kind]
        self.start = match.start(self.kind)
        self.comment = match["comment"]
        self.end = match.end()

    def take(self, token: str) -> None:
        if self.token != token:
            self.fail(repr(token))
        self.advance()

    def take_kind(self, kind: str, expected: str) -> str:
        if self.kind != kind:
            self.fail(expected)
        token = self.token
        self.advance()
        return token

    def take_if(self, token: str) -> bool:
        if self.token != token:
            return False
        self.advance()
        return True

    def listed(self, item: Callable[[], T], closing: str) -> list[T]:
        """Items with commas between them, up to and with `closing`."""
        items: list[T] = []
        while self.token != closing:
            items.append(item())
            if self.token != closing:
                if self.token != ",":
                    self.fail(f"',' or {closing!r}")
                self.advance()
        self.advance()
        return items

    def fail(self, expected: str, at: int | None = None) -> NoReturn:
        found = "the end of the text" if self.kind == "end" else repr(self.token)
        self.refuse(f"expected {expected}, found {found}", self.start if at is None else at)

    def refuse(self, problem: str, at: int) -> NoReturn:
        line = self.text.count("\n", 0, at) + 1
        begin = self.text.rfind("\n", 0, at) + 1
        shown = self.text[begin:].split("\n", 1)[0]
        column = at - begin
        left = max(0, column - 80)
        excerpt = f"{shown[left : left + 120]}\n{' ' * (column - left)}^"
        raise ParseError(f"line {line}, column {column + 1}: {problem}\n{excerpt}")

    # -- graphs --------------------------------------------------------------------------------------------------

    def whole(self) -> Graph:
        main = self.graph
        self.one_graph(main)
        done: set[str] = set()
        while self.take_if("where"):
            at, name = self.start, self.take_kind("graph", "the number of a sub-graph, such as @0")
            if name in done:
                self.refuse(f"the sub-graph {name} is defined twice", at)
            done.add(name)
            self.take("=")
            self.one_graph(self.subgraph(name, at))
        if self.kind != "end":
            self.fail("'where' or the end of the text")
        for name, (_, at) in self.numbered.items():
            if name not in done:
                self.refuse(f"the sub-graph {name} is mentioned, but no 'where {name} = graph(...)' follows", at)
        return main

    def subgraph(self, name: str, at: int) -> Graph:
        return self.numbered.setdefault(name, (Graph(), at))[0]

    def one_graph(self, graph: Graph) -> None:
        self.graph, self.values = graph, {}
        self.take("graph")
        self.inputs(graph.stages[0])
        self.take("{")
        self.body()
        while self.take_if("----"):
            self.take("stage")
            if self.token != str(len(graph.stages)):
                self.fail(f"stage number {len(graph.stages)}")
            self.advance()
            self.inputs(graph.add_stage())
            self.take("----")
            self.body()
        if self.token != "}":
            self.fail("'}' or '----'")
        self.advance()

    def inputs(self, stage: Stage) -> None:
        self.take("(")
        for name, type, at in self.listed(self.declared, ")"):
            self.define(stage.param, name, type, at)

    def declared(self) -> tuple[str, Type, int]:
        at = self.start
        name = self.value_name()
        self.take(":")
        return name, self.type(), at

    def value_name(self) -> str:
        if self.kind != "value":
            self.fail("a value, such as %x")
        name = self.unquoted(1)
        self.advance()
        return name

    def unquoted(self, skip: int) -> str:
        """The current token without its first `skip` characters and without quotes."""
        text = self.token[skip:]
        if text[0] not in "'\"":
            return text
        try:
            return str(ast.literal_eval(text))
        except (ValueError, SyntaxError) as error:
            self.refuse(f"this name cannot be read: {error}", self.start)

    def define(self, node: Node, name: str, type: Type, at: int) -> None:
        if name in self.values:
            self.refuse(f"%{name} is defined twice; names are unique in a graph", at)
        self.values[name] = node.add_output(type, name)

    def body(self) -> None:
        while self.token != "return":
            if self.kind not in ("value", "word", "kind", "string"):
                self.fail("a node or 'return'")
            self.node()
        self.advance()
        self.take("(")
        outputs = self.listed(self.item, ")")
        updates: list[tuple[Value, Value]] = []
        if self.take_if("update"):
            self.take("(")
            updates = self.listed(self.update, ")")
        self.graph.set_return(outputs, updates)

    def update(self) -> tuple[Value, Value]:
        target = self.value()
        self.take("=")
        return target, self.value()

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node(self) -> None:
        outputs: list[tuple[str, Type, int]] = []
        if self.kind == "value":
            outputs = self.listed(self.declared, "=")
        kind = self.node_kind()
        attributes = dict(self.listed(self.attribute, "]")) if self.take_if("[") else {}
        self.take("(")
        args = self.listed(self.item, ")")
        callee = _callee(kind)
        if callee is not None and callee in self.functions:
            attributes.setdefault("function", self.functions[callee])
        node = self.graph.insert(self.graph.create(kind, args, attributes))
        node.source, node.scope = read_comment(self.comment or "")
        for name, type, at in outputs:
            self.define(node, name, type, at)

    def node_kind(self) -> str:
        if self.kind not in ("word", "kind", "string"):
            self.fail("the kind of a node, such as aten::add")
        caret = self.kind == "kind"
        name = "^" * caret + self.unquoted(int(caret))
        self.advance()
        return name

    def attribute(self) -> tuple[str, Any]:
        if self.kind not in ("word", "string", "number"):
            self.fail("the name of an attribute")
        name = self.unquoted(0)
        self.advance()
        self.take("=")
        return name, self.item()

    def value(self) -> Value:
        at, token, name = self.start, self.token, self.value_name()
        found = self.values.get(name)
        if found is None:
            self.refuse(f"{token} is not defined above", at)
        return found

    # -- types ---------------------------------------------------------------------------------------------------

    def type(self) -> Type:
        if self.token in _SIMPLE_TYPES:
            simple = _SIMPLE_TYPES[self.token]
            self.advance()
            return simple
        if self.token != "Tensor" and self.token not in dtypes.BY_TEXT:
            self.fail("a type, such as Float(2, 3)")
        dtype = dtypes.BY_TEXT.get(self.token)
        self.advance()
        if not self.take_if("("):
            return TensorType(dtype) if dtype else TENSOR
        extras: dict[str, Any] = {}
        dims = [dim for dim in self.listed(lambda: self.dim(extras), ")") if dim is not _EXTRA]
        return TensorType(dtype, tuple(dims), extras.get("strides"), extras.get("device", "cpu"))

    def dim(self, extras: dict[str, Any]) -> Dim | Any:
        """A size or `?`; `strides=[...]` and `device=...` go to `extras`."""
        if self.take_if("?"):
            return None
        at, name = self.start, self.token
        if name not in ("strides", "device") or not self.text.startswith("=", self.end):
            size = self.size()
            if type(size) is int and size < 0:
                self.refuse(f"expected a size, a name or '?', found {name!r}", at)
            return size
        self.advance()
        self.take("=")
        if name == "device":
            extras[name] = self.take_kind("word", "a device, such as cuda:0")
        else:
            self.take("[")
            extras[name] = tuple(self.listed(self.size, "]"))
        return _EXTRA

    # -- sizes ---------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """A number, or an expression such as `2*n+1`."""
        return self.sum()

    def sum(self) -> int:
        total = self.product()
        while self.token in ("+", "-") or (self.kind == "number" and self.token[0] == "-"):
            sign = -1 if self.take_if("-") else 1
            self.take_if("+")
            total = self.moderate(total + sign * self.product())
        return total

    def product(self) -> int:
        """Sizes with *, // and % between them, taken from the left as in Python."""
        if self.take_if("-"):
            return -self.product()
        found = self.operand()
        while self.token in ("*", "//", "%"):
            at, sign = self.start, self.token
            self.advance()
            other = self.operand()
            if sign == "*":
                found = self.moderate(found * other)
            elif type(other) is int and other < 1:
                self.refuse("a size is divided by 1 or more", at)
            else:
                found = divided_by_positive(found, other)[sign == "%"]
        return found

    def operand(self) -> int:
        at, name = self.start, self.token
        if self.kind == "number" and _is_integer(name):
            return self.integer()
        if self.kind == "word" and not name.isidentifier():
            self.refuse(f"{name!r} is no name of a size: letters, digits and underscores", at)
        if self.kind != "word" and name != "(":
            self.fail("a size, a name or '?'")
        self.advance()
        if name in ("min", "max") or name == "(":
            return self.enclosed(name, at)
        return SizeSymbol(name).size

    def enclosed(self, name: str, at: int) -> int:
        if self.depth >= DEEPEST:
            self.refuse(f"sizes are nested more than {DEEPEST} deep", at)
        self.depth += 1
        if name != "(":
            self.take("(")
        found = self.listed(self.size, ")")
        self.depth -= 1
        if len(found) != 1 and name == "(" or not found:
            self.refuse("expected one size in parentheses", at)
        return {"(": least, "min": least, "max": greatest}[name](*found)

    def moderate(self, size: int) -> int:
        if type(size) is SizeExpr and len(size.terms) > MOST_TERMS:
            self.refuse(f"this size is a sum of more than {MOST_TERMS} terms", self.start)
        return size

    def integer(self) -> int:
        if self.kind != "number" or not _is_integer(self.token):
            self.fail("an integer")
        number = int(self.literal())
        self.advance()
        return number

    # -- operands and constants ----------------------------------------------------------------------------------

    def item(self) -> Any:
        """A value, a constant, a size, or a list or dict of them."""
        if self.kind == "value":
            return self.value()
        if self.token not in ("[", "{"):
            return self.size() if self.begins_size() else self.constant()
        if self.depth >= DEEPEST:
            self.refuse(f"lists are nested more than {DEEPEST} deep", self.start)
        self.depth += 1
        is_list = self.token == "["
        self.advance()
        found: Any = tuple(self.listed(self.item, "]")) if is_list else dict(self.listed(self.pair, "}"))
        self.depth -= 1
        return found

    def begins_size(self) -> bool:
        """Whether a size that is no number begins here."""
        if self.token in ("-", "(", "min", "max"):
            return True
        if self.kind == "number":
            return _is_integer(self.token) and self.text[self.end : self.end + 1] in tuple("*+-/%")
        return self.kind == "word" and self.token.isidentifier() and self.token not in _RESERVED

    def pair(self) -> tuple[Any, Any]:
        at, key = self.start, self.constant()
        if not isinstance(key, (str, int, float, complex, DType, type(None))):
            self.refuse("expected a string or a number as key", at)
        self.take(":")
        return key, self.item()

    def constant(self) -> Any:
        at, kind, token = self.start, self.kind, self.token
        if kind == "word":
            return self.word()
        if kind == "opaque":
            self.refuse(f"{token} stands for an object that has no text; such a graph cannot be read back", at)
        if kind not in ("number", "string", "graph") and token != "...":
            self.fail("a value or a constant")
        found = self.literal() if kind in ("number", "string") else ...
        self.advance()
        return self.subgraph(token, at) if kind == "graph" else found

    def literal(self) -> Any:
        """The number or string that the current token is."""
        if self.kind == "number":
            convert: Callable[[str], Any] = int if _is_integer(self.token) else float
        else:
            convert = ast.literal_eval
        try:
            return convert(self.token)
        except (ValueError, SyntaxError) as error:
            self.refuse(f"this constant cannot be read: {error}", self.start)

    def word(self) -> Any:
        token, at = self.token, self.start
        if token in _SIMPLE_TYPES and token != "complex":
            return self.type()
        if token == "Tensor" or token in dtypes.BY_TEXT:
            return self.array()
        if token not in _WORDS and token not in _CALLS and not token.startswith("jit."):
            self.fail("a value or a constant")
        self.advance()
        if token in _WORDS:
            return _WORDS[token]
        if token.startswith("jit."):
            return self.dtype(token, at)
        if token == "complex" and self.token != "(":
            return COMPLEX_SCALAR
        self.take("(")
        parts = self.listed(self.constant, ")")
        try:
            return _CALLS[token](*parts)
        except (TypeError, ValueError):
            self.refuse(f"{token} cannot be made of {tuple(parts)}", at)

    def dtype(self, token: str, at: int) -> DType:
        found = next((d for d in dtypes.KNOWN if f"jit.{d.name}" == token), None)
        if found is None:
            self.refuse(f"expected a dtype such as jit.float32, found {token!r}", at)
        return found

    def array(self) -> Any:
        """`Float(2){1.5, 2.0}`, `Float(128, 64)<sha256:...>`, or the type alone."""
        at, type = self.start, self.type()
        assert isinstance(type, TensorType)
        if self.kind != "hash" and self.token != "{":
            return type
        if type.dtype is None or type.sizes is None:
            self.refuse("the type of a constant array has a dtype and known sizes", at)
        if self.kind == "hash":
            return self.stored(type, at)
        self.advance()
        elements = self.listed(self.constant, "}")
        if len(elements) != type.numel:
            self.refuse(f"{type} has {type.numel} elements, but {len(elements)} are given", at)
        try:
            return np.array(elements, type.dtype.numpy).reshape(type.sizes)
        except (TypeError, ValueError, OverflowError) as error:
            self.refuse(f"these are no elements of {type}: {error}", at)

    def stored(self, type: TensorType, at: int) -> Any:
        digest = self.token[1:-1]
        array = self.tensors.get(digest)
        if array is None:
            self.refuse(
                f"the data of {type}<{digest}> is not part of the text; "
                f"give it as parse(text, tensors={{{digest!r}: array}})", at,
            )  # fmt: skip
        if array.dtype.kind == "V" and type.dtype is not None:  # numpy's files know nothing of ml_dtypes
            array = array.view(type.dtype.numpy)
        if array.shape != type.sizes or content_hash(array) != digest:
            self.refuse(f"the array given as tensors[{digest!r}] is another one: its hash differs", at)
        self.advance()
        return array


_EXTRA = object()


def _is_integer(token: str) -> bool:
    return token.removeprefix("-").isdigit()


def _callee(kind: str) -> str | None:
    """The name under which `functions` holds what a PythonOp or CppOp calls."""
    if kind.startswith("^"):
        return kind[1:]
    return kind.removeprefix("cpp::") if kind.startswith("cpp::") else None
