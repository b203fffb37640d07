"""What declarations say of their parameters: the types that the schemas give them, and ever less `Any`."""

import ast
import inspect
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jit.autograd.nodes import Meta
from jit.eager.tensors import Tensor
from jit.export.builder import OnnxBuilder
from jit.ir.op import REGISTRY, Op
from jit.ir.rows import OnArrays
from jit.ir.schema import Argument
from jit.ir.types import TensorType
from jit.ops import protocols
from jit.passes.support.builder import GraphProxy
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.llvm.values import LaneValue

OPS = Path(protocols.__file__).parent
ANY = 249
"""How many parameters in `jit/ops` are still Any, of about 6,800. It may only go down."""

# What a facet is given: the word for its tensors, and the words for the parameters that no schema names.
GIVEN = {
    "pointwise": ("Elements", {"m": "Math"}),
    "array": ("Array", {"m": "Numpy"}),
    "random": ("Array", {"m": "Numpy", "state": "RandomState"}),
    "view": ("Geometry", {"geometry": "Geometry"}),
    "composite": ("Tensor", {"F": "Ops"}),
    "numpy": ("Array", {"m": "Numpy"}),
    "onnx": ("Value", {"g": "OnnxWriter"}),
    "type": ("KnownType", {}),
    "terms": ("Term", {"t": "Terms"}),
    "scatter": ("Tensor", {"F": "Ops", "base": "Tensor", "source": "Tensor"}),
    "grad": ("Tensor", {"F": "Ops", "needs": "Sequence[bool]"}),
}
WORDS = {
    "Scalar": "Number", "ScalarType": "DType", "Device": "str", "MemoryFormat": "str", "int": "int", "float": "float",
    "bool": "bool", "str": "str", "Generator": "Generator",
}  # fmt: skip


def facets(op: Op) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What is called with the op's arguments, and as what."""
    yield op.kind, op.body
    found = {"numpy": op.numpy_body, "onnx": op.symbolic, "type": op.type_rule, "terms": op.kernel.terms}
    yield from ((name, f) for name, f in {**found, "scatter": op.scatter}.items() if callable(f))
    yield from (("grad", d.function) for d in (op.backward, *op.derivatives.values()) if d is not None)


def word(argument: Argument, tensor: str) -> str:
    """What the schema makes of an argument: `Ints | None` of `int[1]?`."""
    kind = argument.type
    text = tensor if kind.base == "Tensor" else WORDS[kind.base]
    text += " | None" * kind.optional_elements
    if kind.is_list:
        text = "Ints" if text == "int" else f"Sequence[{text}]"
    return text + " | None" * kind.optional


def words(op: Op, name: str) -> dict[str, str]:
    """What a facet's parameters are, by their names."""
    tensor, given = GIVEN[name]
    metas = ("_meta", "_geometry") if name == "grad" else ()
    told = {a.name + what: word(a, "Meta") for a in op.arguments for what in metas}
    return {**told, **given, **{a.name: word(a, tensor) for a in op.arguments}}


def disagreements(op: Op) -> Iterator[tuple[str, str, str]]:
    for name, function in facets(op):
        said, meant = getattr(function, "__annotations__", {}), words(op, name)
        for parameter in said.keys() & meant.keys():
            if said[parameter] not in (meant[parameter], f"{meant[parameter]} | None", "Any"):
                yield f"{name}: {parameter}", said[parameter], meant[parameter]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_annotations_are_what_the_schema_says(name):
    assert not list(disagreements(REGISTRY[name]))


def parameters(tree: ast.AST) -> Iterator[ast.arg]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            several = (node.args.vararg, node.args.kwarg)
            listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *filter(None, several)]
            yield from (a for a in listed if a.annotation is not None or a.arg not in ("self", "cls"))


def is_any(parameter: ast.arg) -> bool:
    return parameter.annotation is None or "Any" in ast.unparse(parameter.annotation)


def test_any_becomes_rarer():
    found = {path.name: [*parameters(ast.parse(path.read_text("utf-8")))] for path in sorted(OPS.glob("*.py"))}
    del found["protocols.py"]
    left = {name: sum(map(is_any, each)) for name, each in found.items()}
    assert sum(left.values()) <= ANY, left


def test_any_is_found():
    seen = [is_any(p) for p in parameters(ast.parse("def f(self, a, b: Any, c: list[Any], d: int, *e: Any): ..."))]
    assert seen == [True, True, True, False, True]


# -- what implements the protocols -------------------------------------------------------------------------------

EAGER_ALONE = {"item"}
"""What a tensor of a graph cannot say."""


def members(protocol: type) -> set[str]:
    """The names that a protocol asks for, what it inherits included."""
    bases = [base for base in protocol.__mro__ if base.__module__ == protocols.__name__]
    names = {name for base in bases for name in (*base.__annotations__, *vars(base))}
    return {name for name in names if name in PYTHONS or not name.startswith("_")}


PYTHONS = {name for name in vars(protocols.Arithmetic) if name.startswith("__") and name.strip("_") in dir(operator)}
"""The operators of Python, `__add__` and its like."""


@pytest.mark.parametrize(
    "protocol, implementation",
    [
        (protocols.Numpy, numpy_math),
        (protocols.OnnxWriter, OnnxBuilder),
        (protocols.Terms, OnArrays),
        (protocols.Tensor, Tensor),
        (protocols.Tensor, GraphProxy),
        (protocols.Meta, Meta),
        (protocols.Elements, LaneValue),
        (protocols.KnownType, TensorType),
    ],
)
def test_protocols_are_implemented(protocol, implementation):
    missing = {name for name in members(protocol) if not hasattr(implementation, name)}
    source = inspect.getsource(implementation if isinstance(implementation, type) else type(implementation))
    missing = {name for name in missing if f"self.{name}" not in source}  # which __init__ sets
    assert missing <= (EAGER_ALONE if implementation is GraphProxy else set())


def test_members_of_protocols_are_found():
    assert {"where", "maximum", "inf", "special"} <= members(protocols.Math)
    assert {"shape", "__add__", "__neg__", "numel"} <= members(protocols.Tensor)


@pytest.mark.parametrize("name", ["constant", "ints", "cast", "pairs", "from_pairs", "reduce", "unsupported"])
def test_the_writer_takes_what_its_protocol_says(name):
    said, taken = (inspect.signature(getattr(each, name)).parameters for each in (protocols.OnnxWriter, OnnxBuilder))
    assert list(said) == list(taken)
