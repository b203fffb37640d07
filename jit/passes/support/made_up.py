"""Tensors that follow from the positions of elements alone, such as ranges, are made up again by each of their readers.

Note [Made up again]
    A mask compares a range along rows with one along columns. After `cse` both are one node, which no kernel could
    take in, because it reads it along two dims. It takes nothing to make up such a value, so each reader gets its own:

        %0 : Long(n) = aten::arange(0, n)                %0 : Long(n) = aten::arange(0, n)
        %1 : Long(n, 1) = aten::unsqueeze[dim=1](%0)     %1 : Long(n, 1) = aten::unsqueeze[dim=1](%0)
        %2 : Bool(n, n) = aten::le(%0, %1)               %2 : Long(n) = aten::arange(0, n)
                                                         %3 : Bool(n, n) = aten::le(%2, %1)

    Those that no kernel has taken in are one node again after `fuse`.
"""

from __future__ import annotations

from jit.ir import Graph, Node, find

from .spaces import form_of, is_gather, is_join, is_made_up, is_view


def made_up_for_each(graph: Graph) -> bool:
    """Let kernels that read what is made up, or views of it, have each a copy; says whether there were several."""
    return any([_copied(node) for node in reversed(list(graph.nodes)) if _is_made_up(node)])


def _is_made_up(node: Node) -> bool:
    """True for what is made up, and for views of it."""
    while is_view(node) and len(node.outputs) == 1:
        node = node.inputs[0].node
    return is_made_up(node)


def _copied(node: Node) -> bool:
    """Copy a node for all readers but one, later ones first: their own copies of views are there already."""
    readers = dict.fromkeys(use.node for use in node.output.uses)
    others = [reader for reader in readers if _takes_in(reader, node.stage)]
    if len(others) == len(readers):
        del others[:1]
    for reader in others:
        _give_copy(node, reader)
    return bool(others)


def _takes_in(reader: Node, stage: int) -> bool:
    """Whether a node may be in a kernel with what it reads, or is a view that is only read so."""
    if reader.stage != stage or is_gather(reader) or is_join(reader):
        return False
    if is_view(reader):
        return len(reader.outputs) == 1 and all(_takes_in(use.node, stage) for use in reader.output.uses)
    op = find(reader.kind)
    return op is not None and (op.kind == "pointwise" or bool(form_of(reader)))


def _give_copy(node: Node, reader: Node) -> None:
    assert node.graph is not None
    with node.graph.inserting_before(node):
        copy = node.graph.copy_node(node, {value: value for value in node.inputs})
    copy.stage = node.stage
    for index, value in enumerate(reader.inputs):
        if value is node.output:
            reader.inputs[index] = copy.output
