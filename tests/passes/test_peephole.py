"""peephole: each case fires, and declines where the bits or the memory would differ."""

import itertools

import numpy as np
import pytest
from expecttest import assert_expected_inline

from jit.ir import dtypes, parse
from jit.passes import run
from jit.passes.peephole import _holds, _rounds_once, peephole
from tests.passes.common import chain, transformed, unchanged


def simplified(lines: str, inputs: str = "%x : Float(2, 3)", outputs: str = "%z") -> str:
    """The nodes that are left after peephole and dce; %z is printed, and so does not leave the graph."""
    text = f"graph({inputs}) {{ {lines} prim::Print({outputs}) return () }}"
    transformed("peephole", text)
    graph = parse(text)
    run(graph, ["peephole", "dce"])
    return "; ".join(str(node) for node in graph.nodes)


ROW, COLUMN = "Float(2, 3)", "Float(3, 2, strides=[1, 3])"
IS_X = "prim::Print(%x)"


@pytest.mark.parametrize(
    "lines",
    [
        f"%y : {COLUMN} = aten::t(%x) %z : {ROW} = aten::t(%y)",
        f"%y : {COLUMN} = aten::transpose.int[dim0=0, dim1=1](%x) "
        f"%z : {ROW} = aten::transpose.int[dim0=-1, dim1=0](%y)",
        f"%y : {COLUMN} = aten::permute[dims=[1, 0]](%x) %z : {ROW} = aten::permute[dims=[-1, 0]](%y)",
        f"%z : {ROW} = aten::permute[dims=[0, 1]](%x)",
        f"%z : {ROW} = aten::expand[size=[-1, 3]](%x)",
        f"%z : {ROW} = aten::view[size=[2, 3]](%x)",
        f"%z : {ROW} = aten::reshape[shape=[2, -1]](%x)",
        f"%z : {ROW} = aten::mul(%x, 1)",
        f"%z : {ROW} = aten::mul(1.0, %x)",
        f"%z : {ROW} = aten::div(%x, 1)",
        f"%z : {ROW} = aten::sub(%x, 0)",
        f"%z : {ROW} = aten::sub(%x, 0.0)",
        f"%z : {ROW} = aten::_to_copy[dtype=jit.float32](%x)",
        f"%y : Double(2, 3) = aten::_to_copy[dtype=jit.float64](%x) %z : {ROW} = aten::_to_copy[dtype=jit.float32](%y)",
        f"%z : {ROW} = aten::contiguous(%x)",
        f"%y : Float(6) = aten::view[size=[6]](%x) %z : {ROW} = aten::view[size=[2, 3]](%y)",
        f"%y : {ROW} = aten::neg(%x) %z : {ROW} = aten::neg(%y)",
        f"%y : {ROW} = aten::neg(%x) %w : {ROW} = aten::clone(%y) %z : {ROW} = aten::neg(%w)",
        f"%a : {COLUMN} = aten::t(%x) %b : {ROW} = aten::t(%a) %c : {COLUMN} = aten::t(%b) %z : {ROW} = aten::t(%c)",
    ],
)
def test_is_x(lines: str) -> None:
    assert simplified(lines) == IS_X


def test_what_is_written_over_a_tensor_is_what_it_becomes() -> None:
    lines = f"%y : {ROW} = aten::neg(%x) %w : {ROW} = aten::relu(%y) %z : {ROW} = aten::copy(%y, %w)"
    assert simplified(lines) == f"%y : {ROW} = aten::neg(%x); %w : {ROW} = aten::relu(%y); prim::Print(%w)"
    many = lines + " prim::Print(%w)"
    assert simplified(many).endswith("prim::Print(%w); prim::Print(%w)")


@pytest.mark.parametrize(
    ("ends", "is_copied"),
    [
        ("return () update (%x = %z)", False),
        ("return (%w) update (%x = %z)", False),
        ("return () update (%x = %z, %y = %z)", False),
        ("return (%z) update (%x = %z)", True),  # the caller may write to it
        ("return () update (%x = %w)", False),
    ],
)
def test_what_is_only_written_back_is_no_copy(ends: str, is_copied: bool) -> None:
    graph = parse(
        f"graph(%x : {ROW}, %y : {ROW}) {{ %w : {ROW} = aten::relu(%y) %z : {ROW} = aten::copy(%x, %w) "
        f"%v : {ROW} = aten::sqrt(%w) prim::Print(%v) {ends} }}"
    )
    run(graph, ["peephole", "dce"])
    assert any(node.kind == "aten::copy" for node in graph.nodes) is is_copied


def test_inputs_that_are_exchanged_are_copied() -> None:
    text = (
        f"graph(%x : {ROW}, %y : {ROW}) {{ %a : {ROW} = aten::copy(%x, %y) %b : {ROW} = aten::copy(%y, %x) "
        "return () update (%x = %a, %y = %b) }"
    )
    graph = parse(text)
    run(graph, ["peephole", "dce"])
    assert sum(node.kind == "aten::copy" for node in graph.nodes) == 2


def test_integers_may_add_nothing() -> None:
    assert simplified("%z : Int(2) = aten::add(%x, 0)", "%x : Int(2)") == IS_X
    assert simplified("%z : Int(2) = aten::add(0, %x)", "%x : Int(2)") == IS_X
    assert simplified("%z : Bool(2) = aten::add(%x, False)", "%x : Bool(2)") == IS_X


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "%y : Float(3, 2, 4, strides=[4, 12, 1]) = aten::permute[dims=[1, 0, 2]](%x) "
            "%z : Float(4, 3, 2, strides=[1, 4, 12]) = aten::permute[dims=[2, 0, 1]](%y)",
            "%z : Float(4, 3, 2, strides=[1, 4, 12]) = aten::permute[dims=[2, 1, 0]](%x)",
        ),
        (
            "%y : Float(6, 4) = aten::view[size=[6, 4]](%x) %z : Float(12, 2) = aten::view[size=[12, -1]](%y)",
            "%z : Float(12, 2) = aten::view[size=[12, -1]](%x)",
        ),
        (
            "%y : Double(2, 3, 4) = aten::_to_copy[dtype=jit.float64](%x) "
            "%z : Half(2, 3, 4) = aten::_to_copy[dtype=jit.float16](%y)",
            "%z : Half(2, 3, 4) = aten::_to_copy[dtype=jit.float16](%x)",
        ),
    ],
)
def test_two_become_one(lines: str, expected: str) -> None:
    assert simplified(lines, "%x : Float(2, 3, 4)") == f"{expected}; prim::Print(%z)"


@pytest.mark.parametrize(
    ("lines", "inputs"),
    [
        (f"%z : {ROW} = aten::add(%x, 0)", f"%x : {ROW}"),  # -0.0 + 0 is 0.0
        (f"%z : {ROW} = aten::add(%x, -0.0)", f"%x : {ROW}"),
        (f"%z : {ROW} = aten::sub(%x, -0.0)", f"%x : {ROW}"),  # -0.0 - -0.0 is 0.0
        (f"%z : {ROW} = aten::sub(0, %x)", f"%x : {ROW}"),
        (f"%z : {ROW} = aten::div(1, %x)", f"%x : {ROW}"),
        (f"%z : {ROW} = aten::mul(%x, 0)", f"%x : {ROW}"),
        (f"%z : {ROW} = aten::sub[alpha=-1](%x, 0)", f"%x : {ROW}"),  # x - -0.0
        ("%z : Float(2) = aten::mul(%x, 1.0)", "%x : Long(2)"),
        ("%z : Float(2) = aten::div(%x, 1)", "%x : Long(2)"),
        ("%z : Long(2) = aten::mul(%x, 1)", "%x : Bool(2)"),
        ("%z : ComplexFloat(2) = aten::mul(%x, 1)", "%x : ComplexFloat(2)"),  # (inf + 0j) * (1 + 0j) has a NaN
        ("%y : Char(2) = aten::_to_copy[dtype=jit.int8](%x) %z : Long(2) = aten::_to_copy[dtype=jit.int64](%y)",
         "%x : Long(2)"),
        ("%y : Float(2) = aten::_to_copy[dtype=jit.float32](%x) %z : Long(2) = aten::_to_copy[dtype=jit.int64](%y)",
         "%x : Half(2)"),  # what float16 gives as an integer where it does not fit is the machine's choice
        ("%y : Float(3, 2) = aten::reshape[shape=[3, 2]](%x) %z : Float(6) = aten::view[size=[6]](%y)",
         "%x : Float(2, 3, strides=[1, 2])"),
        ("%z : Float(2, 3) = aten::contiguous(%x)", "%x : Float(2, 3, strides=[1, 2])"),
        ("%z : Float(2) = aten::clone(%x)", "%x : Float(2)"),
        ("%z : Float(2) = aten::copy(%x, %w)", "%x : Float(2), %w : Float(2)"),  # the caller may write to w
        ("%y : Float(3) = aten::neg(%w) %z : Float(2, 3) = aten::copy(%x, %y)", "%x : Float(2, 3), %w : Float(3)"),
        ("%y : Float(2) = aten::neg(%w) %z : Double(2) = aten::copy(%x, %y)", "%x : Double(2), %w : Float(2)"),
        ("%y : Float(3, 2, strides=[1, 3]) = aten::t(%w) %z : Float(3, 2) = aten::copy(%x, %y)",
         "%x : Float(3, 2), %w : Float(2, 3)"),
        ("%y : Float(6) = aten::view[size=[6]](%x) %z : Float(6) = aten::clone(%y)", "%x : Float(2, 3)"),
        ("%y : Float(2) = aten::neg(%x) %z : Float(2) = aten::clone(%y) prim::Print(%y)", "%x : Float(2)"),
        ("%z : Float(batch, 3) = aten::view[size=[2, 3]](%x)", "%x : Float(batch, 3)"),
        ("%y : Float(2) = ^Select(%x) %z : Float(2) = aten::view[size=[2]](%y)", "%x : Float(2)"),
        ("%z : Float(2) = aten::_to_copy[device='cuda:0'](%x)".replace("%z : Float(2)", "%z : Float(2, device=cuda:0)"),
         "%x : Float(2)"),
        ("%y : Float(2, 3, 4, strides=[12, 1, 3]) = aten::transpose.int[dim0=1, dim1=2](%w) "
         "%z : Float(3, 2, 4, strides=[1, 12, 3]) = aten::transpose.int[dim0=0, dim1=1](%y)",
         "%x : Float(2), %w : Float(2, 4, 3)"),
    ],
)  # fmt: skip
def test_declined(lines: str, inputs: str) -> None:
    assert unchanged("peephole", f"graph({inputs}) {{ {lines} prim::Print(%z) return () }}")


def test_what_leaves_the_graph_keeps_its_own_memory() -> None:
    after = transformed(
        "peephole",
        """graph(%x : Float(2, 3)) {
          %a : Float(2, 3) = aten::mul(%x, 1)
          %b : Float(2, 3) = aten::mul(%x, 1)
          %c : Float(3, 2, strides=[1, 3]) = aten::t(%b)
          %d : Float(2, 3) = aten::neg(%x)
          %e : Float(2, 3) = aten::neg(%d)
          %f : Float(2, 3) = aten::mul(%x, 1)
          %g : Float(2, 3) = aten::mul(%x, 1)
          %h : Float(2, 3) = aten::mul(%g, 3)
          %i : Float(2, 3) = aten::view[size=[2, 3]](%x)
          return (%a, %c, %e, %h, %i)
        ---- stage 1 (%y : Float(2, 3)) ----
          %j : Float(2, 3) = aten::mul(%y, %f)
          return (%j)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3)) {
  %a : Float(2, 3) = aten::mul(%x, 1)
  %b : Float(2, 3) = aten::mul(%x, 1)
  %c : Float(3, 2, strides=[1, 3]) = aten::t(%b)
  %d : Float(2, 3) = aten::neg(%x)
  %e : Float(2, 3) = aten::neg(%d)
  %f : Float(2, 3) = aten::mul(%x, 1)
  %g : Float(2, 3) = aten::mul(%x, 1)
  %h : Float(2, 3) = aten::mul(%x, 3)
  %i : Float(2, 3) = aten::view[size=[2, 3]](%x)
  return (%a, %c, %e, %h, %x)
---- stage 1 (%y : Float(2, 3)) ----
  %j : Float(2, 3) = aten::mul(%y, %f)
  return (%j)
}""",
    )


def test_stages_are_not_mixed() -> None:
    """The backward read %y, of which nobody else has a copy; %x may have changed by then."""
    assert unchanged(
        "peephole",
        """graph(%x : Float(2)) {
          %y : Float(2) = aten::neg(%x)
          return ()
        ---- stage 1 (%g : Float(2)) ----
          %z : Float(2) = aten::neg(%y)
          %w : Float(2) = aten::mul(%z, %g)
          return (%w)
        }""",
    )


@pytest.mark.parametrize(("narrow", "wide"), list(itertools.permutations(dtypes.ALL, 2)), ids=str)
def test_a_wide_type_holds_every_number_of_a_narrow_one(narrow: dtypes.DType, wide: dtypes.DType) -> None:
    """Cast there and back: every number of the narrow type up to 16 bits, else some with the ends among them."""
    if not _holds(wide, narrow):
        return
    if narrow is dtypes.bool_:
        numbers = np.array([False, True])
    elif narrow.itemsize <= 2:
        numbers = np.arange(256**narrow.itemsize).astype(f"u{narrow.itemsize}").view(narrow.numpy)
    elif narrow.is_integral:
        ends = np.iinfo(narrow.numpy)
        numbers = np.array([ends.min, ends.min + 1, -1, 0, 1, ends.max - 1, ends.max], narrow.numpy)
    else:
        numbers = np.array([0.1, -1e-45, 3e38, np.inf, np.nan, -0.0, 1 / 3], narrow.numpy)
    with np.errstate(all="ignore"):
        back = numbers.astype(wide.numpy).astype(narrow.numpy)
        same = (back == numbers) | ((back != back) & (numbers != numbers))
    assert same.all()


def test_what_holds_what() -> None:
    held = {n.name: [w.name for w in dtypes.ALL if w is not n and _holds(w, n)] for n in dtypes.ALL}
    assert_expected_inline(
        "\n".join(" ".join([f"{name}:", *wide]) for name, wide in held.items()),
        """\
bool: uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128
uint8: int16 int32 int64 float16 bfloat16 float32 float64
int8: int16 int32 int64 float16 bfloat16 float32 float64
int16: int32 int64 float32 float64
int32: int64 float64
int64:
float16: float32 float64
bfloat16: float32 float64
float32: float64
float64:
complex64: complex128
complex128:""",
    )


@pytest.mark.parametrize("middle", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("target", [dtypes.float16, dtypes.bfloat16, dtypes.float32], ids=str)
def test_one_cast_rounds_like_two(middle: dtypes.DType, target: dtypes.DType, rng: np.random.Generator) -> None:
    for source in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.int16, dtypes.int32):
        if not (_holds(middle, source) and _rounds_once(source, target)):
            continue
        numbers = rng.integers(0, 256, 40_000, np.uint8).view(source.numpy)
        with np.errstate(all="ignore"):
            once = numbers.astype(target.numpy)
            twice = numbers.astype(middle.numpy).astype(target.numpy)
            same = (once == twice) | ((once != once) & (twice != twice))
        assert same.all(), (source, middle, target)


def test_a_hundred_thousand_nodes() -> None:
    graph = chain(100_000, "aten::neg")
    assert peephole(graph)
    assert graph.outputs[0].node.inputs[0].node.inputs[0] is graph.inputs[0]
