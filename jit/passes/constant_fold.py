"""Computes at compile time what depends on constants alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jit.ir import Graph, Node, Op, TensorType, Value, find
from jit.ir.attempts import KIND, raises_always
from jit.ir.errors import GraphError
from jit.ir.graph import leaves
from jit.ir.inference import SIZES
from jit.ir.scalars import exactly, scalar_function, type_of_number
from jit.ir.sizes import any_symbolic
from jit.ir.verifier import neighbourhood
from jit.ops.ranges import arange

from .support.analysis import calls_out, confirm_sizes, fixed_inputs, has_subgraphs, with_subgraphs

Evaluate = Callable[[Op, Sequence[Any]], Sequence[Any]]
"""Runs one operator on schema-ordered arguments in which tensors are arrays, as `execute` does."""

MOST = 64
"""The largest number of elements of a folded array, unless the arrays that it was computed from have as many."""
LONGEST = 2**16
"""The largest number of elements of a folded `arange`."""


def constant_fold(graph: Graph, evaluate: Evaluate | None = None) -> bool:
    """Replace by constants, in this order at every node:

    1. known numbers among a node's operands, by themselves: `aten::view[size=[%n, 4]](%x)` becomes `[size=[2, 4]]`;
    2. guards on known numbers, by nothing; GraphError if the number is not the expected one;
    3. `prim::size` of a dim that is the same in every run (not of named dims, nor of sizes that depend on data),
       arithmetic on known numbers (`prim::add` and its like), `prim::item` of a constant, and `prim::raises` where
       sizes and dtypes alone are to blame;
    4. with `evaluate`, pointwise and array operators on constant arrays, and ranges of numbers. Views of constants
       stay, because they cost nothing. What cannot be evaluated is left to fail at run time, where the user's line is
       known. An operand that follows from a size that varies is no constant.

    The nodes that nobody needs any more are left to dce.

    Given                                                Result, after dce
        graph(%x : Float(2, 3)) {                            graph(%x : Float(2, 3)) {
          %n : int = prim::size[dim=0](%x)                     %y : Float(6) = aten::view[size=[6]](%x)
          %m : int = prim::mul(%n, 3)                          return (%y)
          %y : Float(6) = aten::view[size=[%m]](%x)          }
          return (%y)
        }
    """
    number_guards = cache(lambda: _number_guards(graph))
    return any([_Folding(inner, inner is graph, evaluate, number_guards).run() for inner in with_subgraphs(graph)])


class _Folding:
    """The constants known so far while one graph is walked from first node to last."""

    def __init__(
        self, graph: Graph, outermost: bool, evaluate: Evaluate | None, number_guards: Callable[[], None]
    ) -> None:
        self.graph = graph
        self.evaluate = evaluate
        self.number_guards = number_guards
        self.known: dict[Value, Any] = {}
        """Numbers and arrays."""
        self.follows_sizes = outermost and any(node.kind in SIZES or node.kind == KIND for node in graph.nodes)
        self.fixed = fixed_inputs(graph) if self.follows_sizes else set()
        """The values whose sizes are the same in every run."""
        self.changed = False

    def run(self) -> bool:
        for node in self.graph.nodes:
            self._write_numbers(node)
            if node.kind == "prim::Guard":
                self._check_guard(node)
            else:
                self._fold(node)
            if self.follows_sizes and node.graph is not None:
                confirm_sizes(node, self.fixed)  # after its numbers are written: they may be sizes
        return self.changed

    # Case 1
    def _write_numbers(self, node: Node) -> None:
        """Write known numbers in place of values.

        Foreign code and sub-graphs take their inputs by position, so theirs stay; a guard is looked at as it is.
        """
        if node.kind == "prim::Guard" or calls_out(node) or has_subgraphs(node):
            return
        if any(type_of_number(self.known.get(value)) for value in node.inputs):
            node.rewrite(*self._resolved(node, self._written))
            self.changed = True

    def _written(self, value: Value) -> Any:
        number = self.known.get(value)
        return value if type_of_number(number) is None else number

    # Case 2
    def _check_guard(self, node: Node) -> None:
        number = self._written(node.operands[0])
        if isinstance(number, Value):
            return
        expected = node.attribute("expected")
        if exactly(number) != exactly(expected):
            problem = f"the guard expects {expected!r}, but its operand is always {number!r}"
            raise GraphError(f"{problem}\n{neighbourhood(node)}")
        self.number_guards()
        node.erase()
        self.changed = True

    # Cases 3 and 4
    def _fold(self, node: Node) -> None:
        if node.kind == "prim::Constant":
            self.known[node.output] = node.attribute("value")
            return
        result = self._number(node)
        if result is None:
            result = self._array(node)
        if result is None:
            return
        self.known[node.output] = result
        if not _is_view(node):
            self._replace(node, result)

    def _replace(self, node: Node, result: Any) -> None:
        with self.graph.inserting_before(node):
            constant = self.graph.add("prim::Constant", (), {"value": result}, [node.output.type])
        constant.source, constant.scope = node.source, node.scope
        self.known[constant.output] = result
        if self.follows_sizes:
            self.fixed.add(constant.output)
        node.replace_with(constant.outputs)
        self.changed = True

    def _number(self, node: Node) -> Any:
        if node.kind in SIZES and node.inputs:
            return self._size(node)
        if node.kind == "prim::item":
            return _item(self.known.get(node.inputs[0]))
        if node.kind == KIND:
            return self._raises(node)
        function = scalar_function(node.kind)
        if function is None or not all(type_of_number(operand) for operand in node.operands):
            return None
        try:
            return function.python(*node.operands)
        except (ArithmeticError, TypeError, ValueError):
            return None  # fails at run time, as it did in Python

    def _raises(self, node: Node) -> bool | None:
        """True where the operator raises in every run."""
        tensors = [value for value in node.inputs if isinstance(value.type, TensorType)]
        sure = self.follows_sizes and all(value in self.fixed for value in tensors)
        return True if sure and raises_always(node) else None

    def _size(self, node: Node) -> int | None:
        value, dim = node.inputs[0], node.attribute("dim")
        if not isinstance(value.type, TensorType) or value.type.shape is None or not isinstance(dim, int):
            return None
        if (
            not self.follows_sizes
            or value not in self.fixed
            or not -len(value.type.shape) <= dim < len(value.type.shape)
        ):
            return None
        size = value.type.shape[dim]
        return size if isinstance(size, int) else None

    def _array(self, node: Node) -> Any:
        op = find(node.kind)
        if self.evaluate is None or op is None or op.kind not in ("pointwise", "array", "view") or op.communicates:
            return None
        if any_symbolic(leaves((node.args, node.attributes))):
            return None
        arrays = [self.known.get(value) for value in node.inputs]
        if len(node.outputs) != 1 or not all(isinstance(array, np.ndarray) for array in arrays):
            return None
        if not arrays and op is not arange:
            return None
        try:
            (result,) = self.evaluate(op, op.join(*self._resolved(node, self.known.__getitem__)))
        except Exception:  # whatever the operator has to say about its operands, it says at run time
            return None
        enough = max(MOST if arrays else LONGEST, sum(array.size for array in arrays if array is not None))
        return result if result.size <= enough and _fits(node.output.type, result, _is_view(node)) else None

    def _resolved(self, node: Node, lookup: Callable[[Value], Any]) -> tuple[Any, dict[str, Any]]:
        attributes = {name: node.resolve(item, lookup) for name, item in node.attributes.items()}
        return node.resolve(node.args, lookup), attributes


def _item(array: Any) -> Any:
    if not isinstance(array, np.ndarray) or array.size != 1:
        return None
    number = array.item()
    return float(number) if type_of_number(number) is None else number


def _is_view(node: Node) -> bool:
    op = find(node.kind)
    return op is not None and op.kind == "view"


def _fits(type: Any, array: Any, is_view: bool) -> bool:
    """True if a constant array is what the type says: of these sizes, in row-major order, in main memory."""
    if not isinstance(type, TensorType) or type.dtype is None or type.device != "cpu":
        return False
    return type.sizes == array.shape and type.dtype.numpy == array.dtype and (is_view or type.strides is None)


def _number_guards(graph: Graph) -> None:
    """Write down the place of every guard, which the runtime reports on failure, before one goes away."""
    count = 0
    walks = [graph.nodes]
    while walks:
        node = next(walks[-1], None)
        if node is None:
            walks.pop()
            continue
        if node.kind == "prim::Guard":
            count = node.attributes.setdefault("index", count) + 1
        if isinstance(node.attributes.get("body"), Graph):
            walks.append(node.attributes["body"].nodes)
