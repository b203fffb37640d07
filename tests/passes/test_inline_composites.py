"""inline_composites: the parts take the composite's place, wherever they are used."""

from expecttest import assert_expected_inline

from jit.ir import Graph, parse, verify
from jit.passes.inline_composites import inline_composites, lends_parts
from tests.passes.common import FLOAT23, transformed

NESTED = """graph(%x : Float(2), %w : Float(2)) {
  %a : Float(2) = aten::mul(%x, 2)
  %1 : Float(2), %m : Float(2), %n : int = prim::Norm[eps=0.1, body=@0](%a, %w)  # m.py:3 in f, scope: Net/norm
  %2 : Float(2) = aten::mul(%1, %1)
  return (%2)
  update (%w = %m)
}
where @0 = graph(%x : Float(2), %y : Float(2)) {
  %0 : Float(2) = aten::mul(%x, %y)
  %1 : Float(2) = prim::Inner[body=@1](%0)  # n.py:1 in norm
  return (%1, %y, 7)
}
where @1 = graph(%z : Float(2)) {
  %a : Float(2) = aten::neg(%z)
  return (%a)
}"""


def test_all_levels() -> None:
    assert_expected_inline(
        transformed("inline_composites", NESTED),
        """\
graph(%x : Float(2), %w : Float(2)) {
  %a : Float(2) = aten::mul(%x, 2)
  %0 : Float(2) = aten::mul(%a, %w)  # m.py:3 in f, scope: Net/norm
  %a.1 : Float(2) = aten::neg(%0)  # n.py:1 in norm, scope: Net/norm
  %4 : int = prim::Constant[value=7]()
  %2 : Float(2) = aten::mul(%a.1, %a.1)
  return (%2)
  update (%w = %w)
}""",
    )


def test_selected_composites() -> None:
    after = transformed("inline_composites", NESTED, select=lambda node: node.kind == "prim::Inner")
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2), %w : Float(2)) {
  %a : Float(2) = aten::mul(%x, 2)
  %1 : Float(2), %m : Float(2), %n : int = prim::Norm[eps=0.1, body=@0](%a, %w)  # m.py:3 in f, scope: Net/norm
  %2 : Float(2) = aten::mul(%1, %1)
  return (%2)
  update (%w = %m)
}
where @0 = graph(%x : Float(2), %y : Float(2)) {
  %0 : Float(2) = aten::mul(%x, %y)
  %a : Float(2) = aten::neg(%0)  # n.py:1 in norm
  return (%a, %y, 7)
}""",
    )


def test_updates_of_a_body_are_results() -> None:
    after = transformed(
        "inline_composites",
        """graph(%x : Float(2), %s : Float(2)) {
          %y : Float(2), %t : Float(2) = prim::Norm[body=@0](%x, %s)
          return (%y)
          update (%s = %t)
        }
        where @0 = graph(%x : Float(2), %s : Float(2)) {
          %0 : Float(2) = aten::mul(%x, 2)
          %1 : Float(2) = aten::add(%s, %0)
          return (%0)
          update (%s = %1)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2), %s : Float(2)) {
  %0 : Float(2) = aten::mul(%x, 2)
  %1 : Float(2) = aten::add(%s, %0)
  return (%0)
  update (%s = %1)
}""",
    )


def test_parts_that_a_later_stage_borrows_stay_themselves() -> None:
    graph = parse(
        """graph(%x : Float(2)) {
          %y : Float(2) = prim::Norm[body=@0](%x)
          %u : Float(2) = prim::Norm[body=@1](%x)
          %v : Float(2) = aten::add(%y, %u)
          return (%v)
        ---- stage 1 (%g : Float(2)) ----
          %d : Float(2) = aten::mul(%g, %g)
          return (%d)
        }
        where @0 = graph(%a : Float(2)) { %p : Float(2) = aten::neg(%a) %q : Float(2) = aten::neg(%p) return (%q) }
        where @1 = graph(%a : Float(2)) { %p : Float(2) = aten::neg(%a) return (%p) }"""
    )
    lender, keeper, _, borrower = graph.nodes
    borrower.inputs[1] = next(next(lender.subgraphs).nodes).output
    assert lends_parts(lender) and not lends_parts(keeper)
    assert inline_composites(graph, select=lends_parts)
    verify(graph)
    assert_expected_inline(
        str(graph),
        """\
graph(%x : Float(2)) {
  %p : Float(2) = aten::neg(%x)
  %q : Float(2) = aten::neg(%p)
  %u : Float(2) = prim::Norm[body=@0](%x)
  %v : Float(2) = aten::add(%q, %u)
  return (%v)
---- stage 1 (%g : Float(2)) ----
  %d : Float(2) = aten::mul(%g, %p)
  return (%d)
}
where @0 = graph(%a : Float(2)) {
  %p : Float(2) = aten::neg(%a)
  return (%p)
}""",
    )


def test_deep_nesting() -> None:
    """300 composites in each other, with a part each: linear, and no recursion."""
    graph = Graph()
    current, outermost = graph, graph.add_input(FLOAT23, "x")
    value = outermost
    for _ in range(300):
        body = Graph()
        inner = body.add_input(FLOAT23)
        node = current.add("prim::Nest", (value,), {"body": body}, [FLOAT23])
        current.set_return([node.output])
        current, value = body, body.add("aten::neg", (inner,), types=[FLOAT23]).output
    current.set_return([value])
    assert inline_composites(graph)
    verify(graph)
    assert [node.kind for node in graph.nodes] == ["aten::neg"] * 300
