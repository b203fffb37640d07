"""Answers why two lines of the user's are one kernel or are not: the decisions of the fusion pass, told by lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jit.ir import Graph, Node
from jit.ir.errors import UsageError

Line = int | str


def why_not(graph: Graph, line_a: Line, line_b: Line) -> str:
    """The answer of `TracedFunction.why_not`, as a sentence.

    Args:
        graph: The graph, as it was recorded.
        line_a: A line number, or `"model.py:12"`.
        line_b: Another one.

    Raises:
        UsageError: No operator of such a line is in the graph.
    """
    from jit.tracing.recordings.compiling import before

    graph = before(graph, "fuse")
    mine, yours = _nodes_of(graph, line_a), _nodes_of(graph, line_b)
    stages = sorted({n.stage for n in mine} & {n.stage for n in yours})
    if not stages:
        return "the two lines are never computed in the same stage: one belongs to the forward, one to a backward"
    answers = [_answer(graph, _of(mine, stage), _of(yours, stage)) for stage in stages]
    if len(answers) == 1:
        return answers[0]
    return "; ".join(f"in stage {stage}, {answer}" for stage, answer in zip(stages, answers, strict=True))


def _of(nodes: set[Node], stage: int) -> set[Node]:
    return {node for node in nodes if node.stage == stage}


def _answer(graph: Graph, mine: set[Node], yours: set[Node]) -> str:
    from jit.passes.fuse import declined, groups
    from jit.tracing.recordings.compiling import supported

    found = groups(graph, supported)
    for group in found:
        if not group.isdisjoint(mine) and not group.isdisjoint(yours):
            return f"they are one kernel, with {_named(group)}"
    reasons = declined(graph, supported)
    sentences = [*_refusals(found, reasons, mine, yours), *_refusals(found, reasons, yours, mine)]
    return "; ".join(dict.fromkeys(sentences)) or "no kernel of one line asks for what the other line computes"


def _refusals(
    groups: Sequence[set[Node]], reasons: dict[tuple[Node, Node], str], producers: set[Node], consumers: set[Node]
) -> Iterator[str]:
    """Why nodes of one line did not join the kernel that computes nodes of the other."""
    homes = {node: group for group in groups for node in group}
    for (producer, last), reason in reasons.items():
        if producer not in producers or consumers.isdisjoint(homes.get(last, {last})):
            continue
        here = f"{producer.kind} (line {_line(producer)})"
        there = f"part of the kernel of {last.kind} (line {_line(last)})" if producer is not last else "a kernel"
        yield f"{here} is not {there}: {reason}"


def _named(group: set[Node]) -> str:
    kinds = dict.fromkeys(node.kind.removeprefix("aten::") for node in group)
    return ", ".join(sorted(kinds))


def _nodes_of(graph: Graph, line: Line) -> set[Node]:
    """The nodes whose operators a line of the user's has called."""
    found = {node for node in graph.nodes if node.source is not None and line in (node.source.line, _line(node))}
    if not found:
        lines = sorted({(n.source.file, n.source.line) for n in graph.nodes if n.source is not None})
        known = ", ".join(f"{file}:{number}" for file, number in lines[:20]) or "none"
        raise UsageError(f"no operator of line {line} is computed; pass a line with operators: {known}")
    return found


def _line(node: Node) -> str:
    return "?" if node.source is None else f"{node.source.file}:{node.source.line}"
