"""Folding of a trace's full detail into the graph that people and passes see.

Note [Folding]
    In full detail the parts of a composite stand before its node, and the node has taken over their results:

        %1 = aten::log_softmax[dim=1](%x)        part of %3
        %2 = aten::nll_loss(%1, %t)              part of %3, its result taken over
        %3 = aten::cross_entropy_loss(%x, %t)

    If no part is used outside, the parts become the composite's body:
    %3 = aten::cross_entropy_loss[body=@0](%x, %t).
    If stage 1 uses %1, the composite dissolves instead: %1 and %2 stay, and %3 is %2.
"""

from __future__ import annotations

from collections.abc import Sequence

from jit.ir import Graph, Node, Value

from .records import Composite


def fold(graph: Graph, composites: Sequence[Composite]) -> tuple[Graph, dict[Value, Value]]:
    """A copy of `graph` with every composite folded or dissolved, and the map of old Values to new."""
    return _Folder(graph, composites).run()


class _Folder:
    def __init__(self, graph: Graph, composites: Sequence[Composite]) -> None:
        self.graph = graph
        self.by_node = {c.node: c for c in composites}
        self.folded = {c for c in composites if _is_private(c)}
        self.owner: dict[Node, Composite] = {}
        for composite in composites:  # inner ones come first, so each part belongs to its innermost owner
            if composite in self.folded:
                for part in composite.parts:
                    self.owner.setdefault(part, composite)

    def run(self) -> tuple[Graph, dict[Value, Value]]:
        copy = Graph()
        mapping: dict[Value, Value] = {}
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

    def _copy(self, target: Graph, node: Node, mapping: dict[Value, Value]) -> None:
        composite = self.by_node.get(node)
        if composite is not None and composite not in self.folded:
            for taken, output in zip(composite.taken, node.outputs, strict=True):
                mapping[output] = mapping[taken]
            return
        copy = target.copy_node(node, mapping, keep_names=True)
        copy.stage = node.stage if len(target.stages) > 1 or node.stage == 0 else 0
        if composite is not None:
            copy.attributes["body"] = self._body(composite)

    def _body(self, composite: Composite) -> Graph:
        """The parts as a graph with one input per input of the node."""
        body = Graph()
        mapping: dict[Value, Value] = {}
        for value in composite.node.inputs:
            mapping.setdefault(value, body.add_input(value.type, value.name))
        for part in composite.parts:
            if self.owner[part] is composite:
                self._copy(body, part, mapping)
        body.set_return([mapping[taken] for taken in composite.taken])
        return body


def _is_private(composite: Composite) -> bool:
    """Whether the values of the parts are used by the parts and the composite's node alone."""
    parts = {*composite.parts, composite.node}
    return all(use.node in parts for part in composite.parts for value in part.outputs for use in value.uses)
