"""Graphs and operators, the bottom layer: it needs the standard library, numpy and ml_dtypes alone."""

from typing import TYPE_CHECKING

from jit.late import late

from . import dtypes, loading
from .errors import Error
from .graph import Graph, Node, Ref, Source, Stage, Use, Value
from .op import OVERLOADS, REGISTRY, Op, find, kernel_of
from .random_state import RandomState
from .schema import Schema, parse_schema
from .types import BOOL, COMPLEX_SCALAR, FLOAT, GENERATOR, HANDLE, INT, TENSOR, UNDEFINED, TensorType, Type

if TYPE_CHECKING:
    from jit._stubs.names_ir import *  # noqa: F403
else:
    __getattr__, __dir__ = late(__name__, {"parser": "parse", "verifier": "verify"})

__all__ = [
    "BOOL", "COMPLEX_SCALAR", "FLOAT", "GENERATOR", "HANDLE", "INT", "OVERLOADS", "REGISTRY", "TENSOR", "UNDEFINED",
    "Error", "Graph", "Node", "Op", "RandomState", "Ref", "Schema", "Source", "Stage", "TensorType", "Type", "Use",
    "Value", "dtypes", "find", "kernel_of", "loading", "parse", "parse_schema", "verify",
]  # fmt: skip
