"""Docstrings of the public rooms: they name their arguments and errors, begin with a noun, and their examples run."""

import ast
import doctest
import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jit.ir import dtypes

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    "nn", "optim", "library", "signal", "artifacts", "inspection", "command", "export", "autograd", "files", "hub.py",
    "serialization.py", "fft.py", "linalg.py", "special.py", "backends.py", "native.py", "eager/creation.py",
    "eager/methods.py", "eager/context.py", "eager/generators.py",
)  # fmt: skip
HEADLESS = {
    *("As", "At", "Among", "By", "For", "From", "His", "How", "In", "It", "Its", "Of", "On", "That", "Their", "Them"),
    *("They", "Those", "To", "What", "Where", "Which", "Who", "Whose", "With"),
}
"""Words with which a sentence leaves its noun for later."""
REFERENCE = re.compile(r"(?:see|as of|those of) `([\w.]+)`", re.IGNORECASE)


class Definition(NamedTuple):
    """A function or class of a room."""

    name: str
    node: ast.FunctionDef | ast.ClassDef

    @property
    def doc(self) -> str:
        return ast.get_docstring(self.node) or ""

    @property
    def public(self) -> bool:
        return not any(part.startswith("_") for part in self.name.split("."))


def files() -> list[Path]:
    found = [ROOT / "jit" / room for room in ROOMS]
    return sorted(file for path in found for file in (path.rglob("*.py") if path.is_dir() else [path]))


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_setter(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether this is the second half of a property, which is described at its first."""
    return any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list)


def definitions(node: ast.AST, within: str) -> Iterator[Definition]:
    """Functions, classes and methods, but nothing inside of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and not is_setter(child):
            yield Definition(f"{within}.{child.name}", child)
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from definitions(child, f"{within}.{child.name}" if isinstance(child, ast.ClassDef) else within)


def everything() -> list[Definition]:
    return [d for file in files() for d in definitions(ast.parse(file.read_text()), module_of(file))]


def initialiser(node: ast.ClassDef) -> ast.FunctionDef | None:
    functions = (child for child in node.body if isinstance(child, ast.FunctionDef))
    return next((f for f in functions if f.name == "__init__" and not f.decorator_list), None)


def parameters(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """The named parameters; of a class, those of its own `__init__`."""
    function = initialiser(node) if isinstance(node, ast.ClassDef) else node
    if function is None:
        return []
    listed = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return [a.arg for a in listed if a.arg not in ("self", "cls") and not a.arg.startswith("_")]


def section(doc: str, title: str) -> str:
    """The text from `title` to the next blank line."""
    found = re.search(rf"{title}:(.*?)(?:\n\s*\n|\Z)", doc, re.DOTALL)
    return found[1] if found else ""


def described(doc: str, others: dict[str, str]) -> set[str]:
    """The names that the arguments' section speaks of, also in the docstrings to which it refers."""
    names = set(re.findall(r"\w+", section(doc, "Args")))
    for other in REFERENCE.findall(doc):
        names |= set(re.findall(r"\w+", section(others.get(other.split(".")[-1], ""), "Args")))
    return names


def invented(doc: str, node: ast.FunctionDef) -> list[str]:
    """Entries of the arguments' section that are no parameters."""
    heads = re.findall(r"^    ([a-z_][\w, ]*):", section(doc, "Args"), re.MULTILINE)
    gathering = [a.arg for a in (node.args.vararg, node.args.kwarg) if a is not None]
    known = {*parameters(node), *gathering}
    return [name.strip() for head in heads for name in head.split(",") if name.strip() not in known]


def raises(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether the function itself raises something new."""
    left: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else []
    while left:
        item = left.pop()
        if isinstance(item, ast.Raise) and item.exc is not None:
            return True
        if not isinstance(item, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            left += ast.iter_child_nodes(item)
    return False


def offences(found: Definition, others: dict[str, str], inherited: dict[str, str]) -> Iterator[str]:
    doc, own = found.doc, parameters(found.node)
    words = doc.split()
    if words and words[0].strip(",.:;`") in HEADLESS:
        yield "headless"
    if not found.public:
        return
    if not doc and isinstance(found.node, ast.FunctionDef):
        doc = inherited.get(found.node.name, "")
    if not doc:
        yield "docstring"
    if len(own) >= 3 and not set(own) <= described(doc, others):
        yield "args"
    if isinstance(found.node, ast.FunctionDef) and found.doc and invented(found.doc, found.node):
        yield "invented"
    if raises(found.node) and "Raises" not in doc:
        yield "raises"


INHERITED = (
    "jit.nn.modules.Module.", "jit.optim.optimizer.Optimizer.", "jit.optim.lr_scheduler.base.LRScheduler.",
    "jit.optim.lr_scheduler.decays._Factor.", "jit.autograd.nodes.Node.",
)  # fmt: skip
"""Methods that subclasses define anew are described by their base."""


def test_public_names_say_what_they_take_and_raise():
    found = everything()
    others = {d.name.split(".")[-1]: d.doc for d in found if "Args:" in d.doc}
    inherited = {d.node.name: d.doc for d in found if d.name.startswith(INHERITED) and d.doc}
    wrong = sorted(f"{rule} {d.name}" for d in found for rule in offences(d, others, inherited))
    assert not wrong, "write these docstrings, or mend them:\n" + "\n".join(wrong)


def documented(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of every docstring: of modules, classes and functions, and beneath what is assigned."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
            for before, after in itertools.pairwise(node.body):
                if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(after, ast.Expr):
                    text = after.value.value if isinstance(after.value, ast.Constant) else ""
                    yield after.lineno, text if isinstance(text, str) else ""


@pytest.mark.parametrize("file", sorted((ROOT / "jit").rglob("*.py")), ids=module_of)
def test_first_words_name_the_thing(file):
    found = documented(ast.parse(file.read_text()))
    assert not [(line, text) for line, text in found if text.split()[:1] and text.split()[0].strip(".,:;") in HEADLESS]


def test_the_offences_are_seen():
    text = '''
def f(a, b, c):
    """What it is.

    Args:
        a: One.
        d: Another.
    """
    raise ValueError
'''
    (found,) = definitions(ast.parse(text), "m")
    assert list(offences(found, {}, {})) == ["headless", "args", "invented", "raises"]


@pytest.mark.parametrize("module", [module_of(f) for f in files() if ">>> " in f.read_text()])
@pytest.mark.filterwarnings("ignore")
def test_examples_run(module, monkeypatch):
    monkeypatch.setattr(dtypes, "package", dtypes.package)  # `install()` changes it
    monkeypatch.setattr("jit.autograd.registered._REGISTERED", {})  # other tests name their functions alike
    options = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.testmod(importlib.import_module(module), optionflags=options).failed == 0
