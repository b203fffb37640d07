"""No operator is told by its name outside its declaration: what others need of it they read from its facets.

A name that stands in a table of its own drifts from the registry, and no test sees it. Rewrite rules are the exception,
for they are about single operators; what they name must exist.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jit import ops  # noqa: F401  (fills the registry)
from jit.ir.op import OVERLOADS, REGISTRY

PACKAGE = Path(__file__).resolve().parent.parent / "jit"
ROOMS = ("passes", "runtime", "tracing", "autograd", "artifacts")

# File -> how many times operators are named in it, and why. A new rule counts its names here.
NAMING = {
    "artifacts/relocating.py": (1, "the rule: what a result lies on is copied where the next node lies"),
    "passes/absorb.py": (4, "the rules: what is added to a convolution's result, and zeros around its image"),
    "passes/batch_mm.py": (6, "the rule: a sum of products is one product"),
    "passes/distribute.py": (1, "the rule: x + 0 is x, where zeros are joined"),
    "passes/join_products.py": (4, "the rule: products by one matrix, joined, are one product"),
    "passes/lift_numbers.py": (2, "the rule: numbers beside sums of tensors become operands"),
    "passes/peephole.py": (33, "the rules: what pairs of operators come to"),
    "passes/place_draws.py": (1, "the rule: a draw goes on where the one before it began"),
    "passes/support/written_attention.py": (26, "the rule: products and a softmax are attention, and their gradients"),
    "passes/straighten.py": (16, "the rules: the spellings that kernels know"),
}

# File -> what the words are that also are names of operators.
WORDS = {
    "runtime/llvm/math.py": "functions of the math namespace",
    "runtime/llvm/reduce.py": "monoids",
    "runtime/kernels/nest.py": "monoids",
    "runtime/cuda/cupy_limits.py": "methods of arrays and functions that another library has",
    "runtime/arrays/philox.py": "distributions that are drawn from",
}
SEVERAL = 3
"""As many words as these are a table."""


def files() -> list[Path]:
    return sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def prose(tree: ast.AST) -> set[int]:
    """The strings that are statements by themselves: documentation."""
    return {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}


def strings(tree: ast.AST) -> Iterator[str]:
    read = prose(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in read:
            yield node.value


def operators_named(text: str) -> list[str]:
    """Qualified names in a source, and prefixes that one is put together from."""
    tree = ast.parse(text)
    found = [name for string in strings(tree) for name in re.findall(r"aten::[\w.]+", string)]
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            found += [part for part in map(str, parts) if part.endswith("aten::")]
    return found


def operators_compared(text: str) -> list[str]:
    """Bare names that the name of a schema is compared with."""
    found = []
    for node in ast.walk(ast.parse(text)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if any(isinstance(s, ast.Attribute) and ast.unparse(s).endswith("schema.name") for s in sides):
            found.append(ast.unparse(node))
    return found


def tables_of_words(text: str) -> list[str]:
    """Collections of several words of which most are bare names of operators."""
    found = []
    for node in ast.walk(ast.parse(text)):
        entries = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        words = [e.value for e in entries if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        names = [word for word in words if word.partition(".")[0] in OVERLOADS]
        if len(names) >= max(SEVERAL, len(entries) / 2):
            found.append(" ".join(names))
    return found


def test_operators_are_named_in_rewrite_rules_alone():
    found = {name_of(path): operators_named(path.read_text("utf-8")) for path in files()}
    counted = {path: len(names) for path, names in found.items() if names}
    assert counted == {path: count for path, (count, _) in NAMING.items()}, {p: n for p, n in found.items() if n}


def test_names_of_schemas_are_compared_with_nothing():
    found = {name_of(path): operators_compared(path.read_text("utf-8")) for path in files()}
    assert not any(found.values()), {p: n for p, n in found.items() if n}


def test_no_table_is_of_operators():
    found = {name_of(path): tables_of_words(path.read_text("utf-8")) for path in files()}
    assert {path for path, names in found.items() if names} == set(WORDS), {p: n for p, n in found.items() if n}


@pytest.mark.parametrize("path", sorted(NAMING))
def test_operators_that_rules_name_exist(path):
    named = operators_named((PACKAGE / path).read_text("utf-8"))
    assert set(named) <= set(REGISTRY), sorted(set(named) - set(REGISTRY))


@pytest.mark.parametrize("text, seen", [
    ('A = frozenset(f"aten::{n}" for n in NAMES)', True),
    ('A = {"aten::where": 1}', True),
    ('"""About aten::where."""', False),
    ('x.removeprefix("aten::")', False),
])  # fmt: skip
def test_names_are_found(text, seen):
    assert bool(operators_named(text)) == seen


def test_comparisons_and_tables_are_found():
    assert operators_compared('op.schema.name in ("mm",)') and not operators_compared('op.kind == "view"')
    assert tables_of_words('{"mm": 1, "bmm": 2, "mv": 3}') and not tables_of_words('("mm", "mv", "no operator")')
