"""The source text of a facet: the expression of a lambda, the body of a function, squeezed for a table."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

Function = ast.FunctionDef | ast.Lambda


def source_of(function: Callable[..., Any]) -> str:
    """The source of what `function` returns: a line for a lambda or a single `return`, else the lines of its body.

    The strings and numbers that it takes from the function around it follow: `g.op(name, self)   with name='Less'`.
    """
    function = inspect.unwrap(function)
    found = inspect.getclosurevars(function).nonlocals
    taken = [f"{name}={value!r}" for name, value in found.items() if isinstance(value, (str, int, float))]
    return _body(function) + (f"   with {', '.join(taken)}" if taken else "")


def _body(function: Any) -> str:
    lines, places = _parsed(inspect.getsourcefile(function) or "")
    node = next(n for n in places[function.__code__.co_firstlineno] if _holds(n, function))
    if isinstance(node, ast.Lambda):
        return _squeezed(lines, node.body)
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        return _squeezed(lines, body[0].value)
    return textwrap.dedent("\n".join(lines[body[0].lineno - 1 : body[-1].end_lineno]))


def place_of(function: Callable[..., Any]) -> str:
    """The file and line in which `function` is defined: `linalg.py:120`."""
    code = inspect.unwrap(function).__code__
    return f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"


@cache
def _parsed(path: str) -> tuple[list[str], dict[int, list[Function]]]:
    """The lines of a file, and its functions by the line in which Python says that they start."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    places: dict[int, list[Function]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            first = node.decorator_list[0] if isinstance(node, ast.FunctionDef) and node.decorator_list else node
            places.setdefault(first.lineno, []).append(node)
    return text.splitlines(), places


def _holds(node: Function, function: Any) -> bool:
    """Whether `node` is what `function` was compiled from: its parameters, around its instructions."""
    if [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] != _parameters(function):
        return False
    last = node.body if isinstance(node, ast.Lambda) else node.body[-1]
    start, end = (node.lineno, node.col_offset), (last.end_lineno or 0, last.end_col_offset or 0)
    return all(start <= place <= end for place in _instructions(function))


def _parameters(function: Any) -> list[str]:
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _instructions(function: Any) -> Iterator[tuple[int, int]]:
    """Line and column of each instruction that comes from an expression."""
    for line, _, column, end in list(function.__code__.co_positions())[1:]:
        if line is not None and column is not None and end:
            yield line, column


def _squeezed(lines: list[str], node: ast.expr) -> str:
    """The text of an expression in one line."""
    assert node.end_lineno is not None
    inside = "\n".join(lines[node.lineno - 1 : node.end_lineno]).encode()  # columns count bytes
    last = len(lines[node.end_lineno - 1].encode())
    return " ".join(inside[node.col_offset : len(inside) - last + (node.end_col_offset or 0)].decode().split())
