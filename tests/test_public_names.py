"""Every public name says what it is: a first word that names it, and each argument by its name.

The functions of operators are apart: their documentation is made from their declarations, see `jit.eager.functions`.
"""

import ast
import dataclasses
import enum
import importlib
import inspect
import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

import jit
from jit.eager.namespace import F
from jit.ir.op import OVERLOADS

NAMESPACES = (
    "jit", "jit.autograd", "jit.autograd.functional", "jit.nn", "jit.nn.functional", "jit.nn.init", "jit.nn.utils",
    "jit.nn.utils.parametrizations", "jit.nn.utils.parametrize", "jit.nn.utils.rnn", "jit.optim",
    "jit.optim.lr_scheduler", "jit.optim.swa_utils", "jit.linalg", "jit.fft", "jit.special", "jit.signal",
    "jit.signal.windows", "jit.backends", "jit.cuda", "jit.export", "jit.passes", "jit.runtime", "jit.native",
    "jit.hub", "jit.serialization", "jit.sparse", "jit.masked", "jit.nested",
    "jit.futures", "jit.nn.attention", "jit.nn.attention.bias", "jit.func.flexible_attention", "jit.ao.quantization",
)  # fmt: skip

HEADLESS = frozenset((
    "what", "how", "which", "of", "by", "from", "those", "as", "where", "that", "who", "whose", "for", "to", "with",
    "in", "on", "at", "among", "their", "it", "its", "they", "them", "his",
))  # fmt: skip
"""First words that name nothing."""

SEVERAL = 3
"""As many parameters as these are described one by one."""

UNSAID = frozenset(("self", "device", "dtype", "_stacklevel", "size_average", "reduce"))
"""Parameters that mean the same everywhere: where a tensor lies and of what it is, and spellings that are gone."""


def public_names() -> Iterator[tuple[str, Any]]:
    """What is written by hand, once each, by the shortest name that users know it by."""
    seen = set()
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name in sorted(getattr(module, "__all__", None) or dir(module)):
            value = getattr(module, name)
            if name.startswith("_") or not callable(value) or id(value) in seen or hasattr(value, "declarations"):
                continue
            if not isinstance(value, type) and not inspect.isfunction(value):
                continue
            if (getattr(value, "__module__", None) or "").startswith(".".join(["jit", *namespace.split(".")[1:2]])):
                seen.add(id(value))
                yield f"{namespace}.{name}", value


PUBLIC = dict(public_names())


def parameters(value: Any) -> list[str]:
    """The parameters of a function or a class that are to be described; no catch-alls, no private ones."""
    if isinstance(value, enum.EnumType):  # which is not made, but has members
        return []
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    gathering = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [each.name for each in signature.parameters.values() if each.kind not in gathering]
    return [name for name in named if name not in UNSAID and not name.startswith("_")]


def described(text: str) -> list[str] | None:
    """The parameters that a docstring has a line for, in the paragraph `Args:`; None without such a paragraph."""
    lines = inspect.cleandoc(text).splitlines()
    if "Args:" not in lines:
        return None
    found = []
    for line in lines[lines.index("Args:") + 1 :]:
        if line and not line.startswith("    "):
            break
        if entry := re.match(r" {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):", line):
            found += [name.lstrip("*") for name in entry[1].split(", ")]
    return found


def described_fields(value: type) -> list[str]:
    """The fields of a record, a dataclass or a named tuple, that are followed by a string."""
    (tree,) = ast.parse(inspect.getsource(value)).body
    pairs = itertools.pairwise(getattr(tree, "body", []))
    return [
        ast.unparse(field.target)
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    ]


def is_record(value: Any) -> bool:
    """Whether a class is made from its fields, and has no constructor of its own."""
    if dataclasses.is_dataclass(value):
        made_by = vars(value).get("__dataclass_params__")
        return made_by is None or made_by.init
    return hasattr(value, "_fields")


def first_word(text: str) -> str:
    return next(iter(text.split()), "").strip(".,:;").lower()


def faults(value: Any) -> list[str]:
    """The rules that a documentation breaks."""
    text = value.__dict__.get("__doc__") if isinstance(value, type) else value.__doc__
    if not text:
        return ["nothing is said"]
    found = [f"its first word is {first_word(text)!r}"] if first_word(text) in HEADLESS else []
    names = parameters(value)
    told = described_fields(value) if is_record(value) else described(text)
    if told is None:
        return found + ([f"no Args for {', '.join(names)}"] if len(names) >= SEVERAL else [])
    if missing := [name for name in names if name not in told]:
        found.append(f"nothing about {', '.join(missing)}")
    signature = inspect.signature(value).parameters
    if strange := [name for name in told if name not in signature]:
        found.append(f"no such parameter: {', '.join(strange)}")
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    assert not faults(PUBLIC[name])


def test_faults_are_found():
    def function(a, b, c):
        """How it is.

        Args:
            a: One.
            d: Another.
        """

    assert faults(function) == ["its first word is 'how'", "nothing about b, c", "no such parameter: d"]
    function.__doc__ = "A function."
    assert faults(function) == ["no Args for a, b, c"]


OPERATORS = {name: getattr(F, name) for name in OVERLOADS}


@pytest.mark.parametrize("name", OPERATORS)
def test_functions_of_operators_say_their_declarations_and_derivatives(name):
    said = OPERATORS[name].__doc__.splitlines()
    for op in OPERATORS[name].declarations:
        below = said[said.index(str(op.schema)) + 1]
        names = re.findall(r"`(\w+)`", below.partition("Differentiable by")[2])
        assert ("No derivative" in below) == ("grad" in op.missing)
        assert bool(names) == op.is_differentiable and set(names) <= {each.name for each in op.schema.tensor_arguments}
        assert ("view of" in below) == (op.schema.view_of is not None)


def test_functions_that_write_say_so():
    assert "In place" in str(jit.relu_.__doc__) and "In place" not in str(jit.relu.__doc__)
