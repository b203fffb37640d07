"""dce: what nobody uses goes, what has effects stays."""

from expecttest import assert_expected_inline

from jit.passes.dce import dce
from tests.passes.common import chain, transformed, unchanged


def test_chains_of_unused_nodes_go() -> None:
    after = transformed(
        "dce",
        """graph(%x : Float(2), %rng : Generator) {
          %1 : Float(2) = aten::mul(%x, 2)
          %2 : Float(2) = aten::mul(%1, %1)
          %n : int = prim::size[dim=0](%2)
          %r : Float(2), %rng.1 : Generator = aten::rand[size=[2]](%rng)
          %3 : Float(2) = aten::mul(%x, 3)
          return (%3)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2), %rng : Generator) {
  %3 : Float(2) = aten::mul(%x, 3)
  return (%3)
}""",
    )


def test_every_stage_and_every_update_is_a_root() -> None:
    assert unchanged(
        "dce",
        """graph(%x : Float(2), %rng : Generator) {
          %1 : Float(2) = aten::mul(%x, 2)
          %2 : Float(2) = aten::mul(%x, 3)
          %r : Float(2), %rng.1 : Generator = aten::rand[size=[2]](%rng)
          return (None)
          update (%x = %1, %rng = %rng.1)
        ---- stage 1 (%g : Float(2)) ----
          %3 : Float(2) = aten::mul(%g, %2)
          return (%3)
        }""",
    )


def test_effects_stay_unless_marked_pure() -> None:
    after = transformed(
        "dce",
        """graph(%x : Float(2)) {
          %n : int = prim::size[dim=0](%x)
          prim::Guard[expected=2](%n)
          prim::Print(%x)
          %a : Float(2), %h : Handle = ^Log[level=1](%x)
          %b : Float(2) = ^Clip[pure=True](%x)
          %c : Float(2) = cpp::mine(%x)
          return ()
        ---- stage 1 (%g : Float(2)) ----
          %d : Float(2) = prim::Eval(%g, %h)
          return ()
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2)) {
  %n : int = prim::size[dim=0](%x)
  prim::Guard[expected=2](%n)
  prim::Print(%x)
  %a : Float(2), %h : Handle = ^Log[level=1](%x)
  %c : Float(2) = cpp::mine(%x)
  return ()
---- stage 1 (%g : Float(2)) ----
  %d : Float(2) = prim::Eval(%g, %h)
  return ()
}""",
    )


def test_bodies_keep_their_outputs_and_lose_what_is_dead() -> None:
    after = transformed(
        "dce",
        """graph(%x : Float(2)) {
          %u : Float(2) = prim::Group[body=@0](%x)
          %v : Float(2), %w : Float(2) = prim::Group[body=@1](%x)
          %z : Float(2) = prim::Group[body=@2](%x)
          return (%v)
        }
        where @0 = graph(%a : Float(2)) { return (%a) }
        where @1 = graph(%a : Float(2)) {
          %b : Float(2) = aten::mul(%a, 2)
          %c : Float(2) = aten::mul(%a, 3)
          %d : Float(2) = aten::mul(%a, 4)
          return (%b, %c)
        }
        where @2 = graph(%a : Float(2)) {
          prim::Print(%a)
          return (%a)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2)) {
  %v : Float(2), %w : Float(2) = prim::Group[body=@0](%x)
  %z : Float(2) = prim::Group[body=@1](%x)
  return (%v)
}
where @0 = graph(%a : Float(2)) {
  %b : Float(2) = aten::mul(%a, 2)
  %c : Float(2) = aten::mul(%a, 3)
  return (%b, %c)
}
where @1 = graph(%a : Float(2)) {
  prim::Print(%a)
  return (%a)
}""",
    )


def test_a_hundred_thousand_nodes() -> None:
    graph = chain(100_000)
    graph.set_return([])
    assert dce(graph)
    assert len(graph) == 0
