"""Folding of a trace's full detail into the graph that people and passes see.

Note [Folding]
    In full detail the parts of a composite stand before its node, and the node has taken over their results:

        %1 = aten::log_softmax[dim=1](%x)        part of %3
        %2 = aten::nll_loss(%1, %t)              part of %3, its result taken over
        %3 = aten::cross_entropy_loss(%x, %t)

    If no part is used outside, the parts become the composite's body:
    %3 = aten::cross_entropy_loss[body=@0](%x, %t).
    If stage 1 uses %1, the composite dissolves instead: %1 and %2 stay, and %3 is %2.

Note [Sizes of earlier stages]
    Derivatives read the sizes of what earlier stages have computed, because these may vary. In the graph of one size
    they are the numbers that they are, and so is what is computed from them: no stage has to keep a tensor for its
    sizes alone. A model whose axes are dynamic is one graph of all stages, for many sizes, and keeps them.

        %4 : int = prim::size[dim=0](%1)
        %5 : Float(3, 2) = aten::expand[size=[%4, 2]](%g)        %5 : Float(3, 2) = aten::expand[size=[3, 2]](%g)
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.inference import SIZES
from jit.ir.scalars import scalar_function

from .records import Composite


def fold(graph: Graph, composites: Sequence[Composite], one_size: bool = True) -> tuple[Graph, dict[Value, Any]]:
    """A copy of `graph` with every composite folded or dissolved, and the map of old Values to new.

    Args:
        graph: What was recorded, in full detail.
        composites: The composites in it.
        one_size: Whether sizes of earlier stages are the recorded numbers; see Note [Sizes of earlier stages].
    """
    return _Folder(graph, composites, one_size).run()


class _Folder:
    def __init__(self, graph: Graph, composites: Sequence[Composite], one_size: bool) -> None:
        self.graph = graph
        self.by_node = {c.node: c for c in composites}
        self.numbers = _known_numbers(graph) if one_size and len(graph.stages) > 1 else {}
        """The numbers that later stages have got of sizes of earlier ones; None for guards on such numbers."""
        self.folded = {c for c in composites if self._is_private(c)}
        self.owner: dict[Node, Composite] = {}
        for composite in composites:  # inner ones come first, so each part belongs to its innermost owner
            if composite in self.folded:
                for part in composite.parts:
                    self.owner.setdefault(part, composite)

    def run(self) -> tuple[Graph, dict[Value, Any]]:
        copy = Graph()
        mapping: dict[Value, Any] = {}
        for _ in self.graph.stages[1:]:
            copy.add_stage()
        for old, new in zip(self.graph.stages, copy.stages, strict=True):
            for value in old.inputs:
                mapping[value] = new.param.add_output(value.type, value.name)
        inside = set(self.owner)
        for node in self.graph.nodes:
            if node not in inside:
                self._copy(copy, node, mapping)
        for index, stage in enumerate(self.graph.stages):
            outputs = stage.result.resolve(stage.result.args, mapping.__getitem__)
            copy.set_return(outputs, [(mapping[t], mapping[v]) for t, v in stage.updates], index)
        return copy, mapping

    def _copy(self, target: Graph, node: Node, mapping: dict[Value, Any]) -> None:
        if node in self.numbers:
            mapping |= dict.fromkeys(node.outputs, self.numbers[node])
            return
        composite = self.by_node.get(node)
        if composite is not None and composite not in self.folded:
            for taken, output in zip(composite.taken, node.outputs, strict=True):
                mapping[output] = mapping[taken]
            return
        copy = target.copy_node(node, mapping, keep_names=True)
        copy.stage = node.stage if len(target.stages) > 1 or node.stage == 0 else 0
        if composite is not None:
            copy.attributes["body"] = body = self._body(composite, mapping)
            if "extra" in copy.attributes:
                _drop_unused(copy, body)

    def _body(self, composite: Composite, around: dict[Value, Any]) -> Graph:
        """The parts as a graph with one input per input of the node's copy, where it does not have numbers."""
        body = Graph()
        mapping: dict[Value, Any] = {}
        for value in composite.node.inputs:
            given = around.get(value, value)
            mapping.setdefault(value, body.add_input(value.type, value.name) if isinstance(given, Value) else given)
        for part in composite.parts:
            if self.owner[part] is composite:
                self._copy(body, part, mapping)
        body.set_return([mapping[taken] for taken in composite.taken])
        return body

    def _is_private(self, composite: Composite) -> bool:
        """Whether the values of the parts are used by the parts and the composite's node alone."""
        parts = {*composite.parts, composite.node}
        uses = (use for part in composite.parts for value in part.outputs for use in value.uses)
        return all(u.node in parts or u.node in self.numbers or u.node.graph is None for u in uses)


def _drop_unused(node: Node, body: Graph) -> None:
    """Take away what a composite was given for its parts, and these do not use: they had only asked for its sizes."""
    pairs = list(zip(node.inputs, body.inputs, strict=True))
    of_use = {value for value, formal in pairs if formal.uses}
    extra = node.attribute("extra")
    used = tuple(value for value in extra if value in of_use)
    if len(used) < len(extra):
        unused = set(extra) - of_use
        body.retain_inputs([formal for value, formal in pairs if value not in unused])
        attributes = {name: node.resolve(item) for name, item in node.attributes.items() if name != "extra"}
        node.rewrite(node.operands, {**attributes, "extra": used} if used else attributes)


_OPAQUE = ("^", "cpp::", "prim::Eval")
"""Kinds of nodes that are given Values, whatever is known of them."""


def _known_numbers(graph: Graph) -> dict[Node, Any]:
    """The nodes of later stages that read sizes of earlier ones, or compute with these, with their numbers."""
    found: dict[Node, Any] = {}
    for node in graph.nodes:
        if node.stage > 0 and node.kind.startswith("prim::") and not _has_opaque_users(node):
            if node.kind in SIZES:
                type, dim = node.inputs[0].type, node.attribute("dim")
                if node.inputs[0].stage < node.stage and isinstance(type, TensorType) and type.sizes is not None:
                    found[node] = type.sizes[dim]
            elif node.inputs and all(value.node in found for value in node.inputs):
                _compute(node, found)
    return found


def _compute(node: Node, found: dict[Node, Any]) -> None:
    """Note the number of a node whose operands are known; None of a guard on one, which holds."""
    function = scalar_function(node.kind)
    if node.kind == "prim::Guard":
        found[node] = None
    elif function is not None:
        with contextlib.suppress(ArithmeticError, ValueError):  # what it raises, it raises when it runs
            found[node] = function.python(*node.resolve(node.args, lambda value: found[value.node]))


def _has_opaque_users(node: Node) -> bool:
    return any(use.node.kind.startswith(_OPAQUE) for value in node.outputs for use in value.uses)
