"""canonicalize: automatic names in order, everything else as it was."""

from expecttest import assert_expected_inline

from jit.passes.canonicalize import canonicalize
from tests.passes.common import chain, transformed


def test_automatic_names_are_renumbered_and_others_kept() -> None:
    after = transformed(
        "canonicalize",
        """graph(%7 : int, %n : int, %fc.weight : Float(2)) {
          %3 : int = prim::neg(%7)  # m.py:1 in f, scope: A
          %m.1 : int = prim::FusionGroup[kernel=@0](%3)
          return (%m.1)
        ---- stage 1 (%2 : int) ----
          %0 : int = prim::add(%2, %3)
          return (%0)
        }
        where @0 = graph(%9 : int) { %4 : int = prim::neg(%9) return (%4) }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%0 : int, %n : int, %fc.weight : Float(2)) {
  %1 : int = prim::neg(%0)  # m.py:1 in f, scope: A
  %m.1 : int = prim::FusionGroup[kernel=@0](%1)
  return (%m.1)
---- stage 1 (%2 : int) ----
  %3 : int = prim::add(%2, %1)
  return (%3)
}
where @0 = graph(%0 : int) {
  %1 : int = prim::neg(%0)
  return (%1)
}""",
    )


def test_canonical_graphs_are_left_alone() -> None:
    assert not canonicalize(chain(3))


def test_a_hundred_thousand_nodes() -> None:
    graph = chain(100_000)
    next(graph.nodes).output.name = "100000"
    assert canonicalize(graph)
    assert graph.outputs[0].name == "99999"
