"""Pointwise operators run on the parts of what is joined or cut: text before and after."""

# ruff: noqa: E501  (lines of IR)

import pytest
from expecttest import TestCase

from jit.ir import parse, verify
from jit.passes.distribute import MOST_PARTS, distribute, obstacles
from tests.passes.common import transformed, unchanged


class Expected(TestCase):
    def test_a_product_with_what_is_joined_runs_on_its_parts(self):
        after = transformed(
            "distribute",
            """graph(%x : Float(8, 3), %y : Float(8, 5), %z : Float(8, 8)) {
  %0 : Float(8, 8) = aten::cat[dim=1]([%x, %y])
  %1 : Float(8, 8) = aten::mul(%0, %z)
  return (%1)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%x : Float(8, 3), %y : Float(8, 5), %z : Float(8, 8)) {
  %2 : Float(8, 3, strides=[8, 1]) = aten::narrow[dim=1, start=0, length=3](%z)
  %3 : Float(8, 3) = aten::mul(%x, %2)
  %4 : Float(8, 5, strides=[8, 1]) = aten::narrow[dim=1, start=3, length=5](%z)
  %5 : Float(8, 5) = aten::mul(%y, %4)
  %6 : Float(8, 8) = aten::cat[dim=1]([%3, %5])
  return (%6)
}""",
        )

    def test_a_row_that_is_broadcast_is_cut_and_a_column_is_not(self):
        after = transformed(
            "distribute",
            """graph(%x : Float(8, 3), %y : Float(8, 5), %r : Float(8), %c : Float(8, 1)) {
  %0 : Float(8, 8) = aten::cat[dim=-1]([%x, %y])
  %1 : Float(8, 8) = aten::mul(%0, %r)
  %2 : Float(8, 8) = aten::add(%1, %c)
  return (%2)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%x : Float(8, 3), %y : Float(8, 5), %r : Float(8), %c : Float(8, 1)) {
  %3 : Float(3) = aten::narrow[dim=0, start=0, length=3](%r)
  %4 : Float(8, 3) = aten::mul(%x, %3)
  %5 : Float(5) = aten::narrow[dim=0, start=3, length=5](%r)
  %6 : Float(8, 5) = aten::mul(%y, %5)
  %7 : Float(8, 3) = aten::add(%4, %c)
  %8 : Float(8, 5) = aten::add(%6, %c)
  %9 : Float(8, 8) = aten::cat[dim=1]([%7, %8])
  return (%9)
}""",
        )

    def test_gradients_of_slices_are_joined(self):
        after = transformed(
            "distribute",
            """graph(%a : Float(4, 3), %b : Float(4, 5)) {
  %0 : Float(4, 8) = aten::slice_backward[input_sizes=[4, 8], dim=1, start=0, end=3, step=1](%a)
  %1 : Float(4, 8) = aten::slice_backward[input_sizes=[4, 8], dim=1, start=3, end=8, step=1](%b)
  %2 : Float(4, 8) = aten::add(%0, %1)
  return (%2)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%a : Float(4, 3), %b : Float(4, 5)) {
  %3 : Float(4, 3) = aten::add(%a, 0)
  %4 : Float(4, 5) = aten::add(0, %b)
  %5 : Float(4, 8) = aten::cat[dim=1]([%3, %4])
  return (%5)
}""",
        )

    def test_what_no_slice_reaches_is_zeros(self):
        after = transformed(
            "distribute",
            """graph(%a : Float(3)) {
  %0 : Float(4, 3) = aten::select_backward[input_sizes=[4, 3], dim=0, index=-2](%a)
  return (%0)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%a : Float(3)) {
  %1 : Float(1, 3) = aten::unsqueeze[dim=0](%a)
  %2 : Float(2, 3) = aten::zeros[size=[2, 3], dtype=jit.float32]()
  %3 : Float(1, 3) = aten::zeros[size=[1, 3], dtype=jit.float32]()
  %4 : Float(4, 3) = aten::cat[dim=0]([%2, %1, %3])
  return (%4)
}""",
        )

    def test_slices_that_overlap_are_added_where_they_do(self):
        after = transformed(
            "distribute",
            """graph(%a : Float(3), %b : Float(3)) {
  %0 : Float(4) = aten::slice_backward[input_sizes=[4], dim=0, start=0, end=3, step=1](%a)
  %1 : Float(4) = aten::slice_backward[input_sizes=[4], dim=0, start=1, end=None, step=1](%b)
  %2 : Float(4) = aten::add(%0, %1)
  return (%2)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%a : Float(3), %b : Float(3)) {
  %3 : Float(1) = aten::narrow[dim=0, start=0, length=1](%a)
  %4 : Float(1) = aten::add(%3, 0)
  %5 : Float(2) = aten::narrow[dim=0, start=1, length=2](%a)
  %6 : Float(2) = aten::narrow[dim=0, start=0, length=2](%b)
  %7 : Float(2) = aten::add(%5, %6)
  %8 : Float(1) = aten::narrow[dim=0, start=2, length=1](%b)
  %9 : Float(1) = aten::add(0, %8)
  %10 : Float(4) = aten::cat[dim=0]([%4, %7, %9])
  return (%10)
}""",
        )

    def test_parts_of_what_is_computed_are_computed(self):
        after = transformed(
            "distribute",
            """graph(%x : Float(8, 6), %row : Float(6)) {
  %0 : Float(8, 6) = aten::mul(%x, %row)
  %1 : Float(8, 6) = aten::tanh(%0)
  %2 : Float(8, 3, strides=[6, 1]), %3 : Float(8, 3, strides=[6, 1]) = aten::chunk[chunks=2, dim=1](%1)
  %4 : Float(8, 3) = aten::mul(%2, %3)
  return (%4)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%x : Float(8, 6), %row : Float(6)) {
  %9 : Float(8, 3, strides=[6, 1]) = aten::narrow[dim=1, start=0, length=3](%x)
  %10 : Float(3) = aten::narrow[dim=0, start=0, length=3](%row)
  %11 : Float(8, 3) = aten::mul(%9, %10)
  %12 : Float(8, 3, strides=[6, 1]) = aten::narrow[dim=1, start=3, length=3](%x)
  %13 : Float(3) = aten::narrow[dim=0, start=3, length=3](%row)
  %14 : Float(8, 3) = aten::mul(%12, %13)
  %6 : Float(8, 3) = aten::tanh(%11)
  %8 : Float(8, 3) = aten::tanh(%14)
  %4 : Float(8, 3) = aten::mul(%6, %8)
  return (%4)
}""",
        )

    def test_a_selected_row_of_what_is_computed_is_computed(self):
        after = transformed(
            "distribute",
            """graph(%x : Float(8, 6), %column : Float(8, 1)) {
  %0 : Float(8, 6) = aten::mul(%x, %column)
  %1 : Float(6) = aten::select.int[dim=0, index=3](%0)
  %2 : Float(6) = aten::tanh(%1)
  return (%2)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%x : Float(8, 6), %column : Float(8, 1)) {
  %3 : Float(6) = aten::select.int[dim=0, index=3](%x)
  %4 : Float(1) = aten::select.int[dim=0, index=3](%column)
  %5 : Float(6) = aten::mul(%3, %4)
  %2 : Float(6) = aten::tanh(%5)
  return (%2)
}""",
        )

    def test_what_a_backward_needs_as_a_whole_is_joined_at_the_end(self):
        after = transformed(
            "distribute",
            """graph(%x : Float(8, 6)) {
  %0 : Float(8, 6) = aten::tanh(%x)
  %1 : Float(8, 3, strides=[6, 1]), %2 : Float(8, 3, strides=[6, 1]) = aten::chunk[chunks=2, dim=1](%0)
  %3 : Float(8, 3) = aten::mul(%1, %2)
  return (%3)
---- stage 1 (%g : Float(8, 3)) ----
  %4 : Float(8, 3) = aten::mul(%g, %1)
  %5 : Float(8, 6) = aten::cat[dim=1]([%4, %4])
  %6 : Float(8, 6) = aten::tanh_backward(%5, %0)
  return (%6)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%x : Float(8, 6)) {
  %12 : Float(8, 3, strides=[6, 1]) = aten::narrow[dim=1, start=0, length=3](%x)
  %13 : Float(8, 3) = aten::tanh(%12)
  %14 : Float(8, 3, strides=[6, 1]) = aten::narrow[dim=1, start=3, length=3](%x)
  %15 : Float(8, 3) = aten::tanh(%14)
  %3 : Float(8, 3) = aten::mul(%13, %15)
  %16 : Float(8, 6) = aten::cat[dim=1]([%13, %15])
  %1 : Float(8, 3, strides=[6, 1]), %2 : Float(8, 3, strides=[6, 1]) = aten::chunk[chunks=2, dim=1](%16)
  return (%3)
---- stage 1 (%g : Float(8, 3)) ----
  %4 : Float(8, 3) = aten::mul(%g, %1)
  %7 : Float(8, 3, strides=[6, 1]) = aten::narrow[dim=1, start=0, length=3](%16)
  %8 : Float(8, 3) = aten::tanh_backward(%4, %7)
  %9 : Float(8, 3, strides=[6, 1]) = aten::narrow[dim=1, start=3, length=3](%16)
  %10 : Float(8, 3) = aten::tanh_backward(%4, %9)
  %11 : Float(8, 6) = aten::cat[dim=1]([%8, %10])
  return (%11)
}""",
        )

    def test_a_batch_norm_by_fixed_statistics_runs_on_parts(self):
        after = transformed(
            "distribute",
            """graph(%x : Float(2, 3, 4), %y : Float(2, 5, 4), %w : Float(8), %m : Float(8), %v : Float(8)) {
  %0 : Float(2, 8, 4) = aten::cat[dim=1]([%x, %y])
  %1 : Float(2, 8, 4), %2 : Float(0), %3 : Float(0) = aten::native_batch_norm[training=False, momentum=0.1, eps=1e-05](%0, %w, None, %m, %v)
  %4 : Float(2, 8, 4) = aten::relu(%1)
  return (%4)
}""",
        )
        self.assertExpectedInline(
            after,
            """\
graph(%x : Float(2, 3, 4), %y : Float(2, 5, 4), %w : Float(8), %m : Float(8), %v : Float(8)) {
  %5 : Float(3) = aten::narrow[dim=0, start=0, length=3](%w)
  %6 : Float(3) = aten::narrow[dim=0, start=0, length=3](%m)
  %7 : Float(3) = aten::narrow[dim=0, start=0, length=3](%v)
  %8 : Float(2, 3, 4), %9 : Float(0), %10 : Float(0) = aten::native_batch_norm[training=False, momentum=0.1, eps=1e-05](%x, %5, None, %6, %7)
  %11 : Float(5) = aten::narrow[dim=0, start=3, length=5](%w)
  %12 : Float(5) = aten::narrow[dim=0, start=3, length=5](%m)
  %13 : Float(5) = aten::narrow[dim=0, start=3, length=5](%v)
  %14 : Float(2, 5, 4), %15 : Float(0), %16 : Float(0) = aten::native_batch_norm[training=False, momentum=0.1, eps=1e-05](%y, %11, None, %12, %13)
  %17 : Float(2, 3, 4) = aten::relu(%8)
  %18 : Float(2, 5, 4) = aten::relu(%14)
  %19 : Float(2, 8, 4) = aten::cat[dim=1]([%17, %18])
  return (%19)
}""",
        )


# -- what stays as it is -----------------------------------------------------------------------------------------


def reasons(text: str) -> list[str]:
    return [f"{a.kind} before {b.kind}: {why}" for (a, b), why in obstacles(parse(text), lambda node: True).items()]


def cat_of(count: int, tail: str) -> str:
    parameters = ", ".join(f"%x{i} : Float(2, {i + 1})" for i in range(count))
    operands, total = ", ".join(f"%x{i}" for i in range(count)), sum(range(1, count + 1))
    head = f"graph({parameters}) {{\n  %0 : Float(2, {total}) = aten::cat[dim=1]([{operands}])\n"
    return head + tail.replace("TOTAL", str(total)) + "\n}"


SCALED = "  %1 : Float(2, TOTAL) = aten::mul(%0, 2)\n  return (%1)"
TANH = "graph(%x : Float(4, 6)) {\n  %0 : Float(4, 6) = aten::tanh(%x)\n"
HALVES = "  %1 : Float(4, 3, strides=[6, 1]), %2 : Float(4, 3, strides=[6, 1]) = aten::chunk[chunks=2, dim=1](%0)\n"

STAYS = {
    "more parts than kernels are worth": (cat_of(MOST_PARTS + 1, SCALED), "it joins 17 parts"),
    "a join that is reduced": (
        cat_of(2, "  %1 : Float(2, 3) = aten::mul(%0, 2)\n  %2 : Float(2) = aten::sum[dim=[1]](%1)\n  return (%2)"),
        "what is joined is reduced",
    ),
    "inputs that are joined in memory anyway": (
        cat_of(2, "  %1 : Float(2, 3) = aten::mul(%0, 2)\n  return (%0, %1)"),
        "what is joined is needed in memory, too",
    ),
    "products, one after the other": (
        """graph(%a : Float(2, 3), %b : Float(3, 3)) {
  %0 : Float(2, 3) = aten::mm(%a, %b)
  %1 : Float(3, 3) = aten::mm(%b, %b)
  %2 : Float(5, 3) = aten::cat([%0, %1])
  %3 : Float(5, 3) = aten::mul(%2, 2)
  return (%3)
}""",
        "its parts are products",
    ),
    "a part that is returned": (
        TANH + HALVES + "  %3 : Float(4, 3) = aten::mul(%1, %1)\n  return (%3, %1)\n}",
        "its result, or a part of it, is returned",
    ),
    "a part that is multiplied": (
        TANH
        + HALVES
        + "  %3 : Float(3, 4, strides=[1, 6]) = aten::t(%2)\n  %4 : Float(4, 4) = aten::mm(%1, %3)\n  return (%4)\n}",
        "read by what is no kernel",
    ),
    "a number that would no longer promote": (
        """graph(%x : Char(4, 6), %y : Long(6)) {
  %0 : Long(4, 6) = aten::mul(%x, %y)
  %1 : Long(4, strides=[6]) = aten::select.int[dim=1, index=2](%0)
  %2 : Long(4) = aten::add(%1, %1)
  return (%2)
}""",
        "count less in promotion",
    ),
    "dear parts that overlap": (
        TANH
        + """  %1 : Float(4, 5, strides=[6, 1]) = aten::narrow[dim=1, start=0, length=5](%0)
  %2 : Float(4, 5, strides=[6, 1]) = aten::narrow[dim=1, start=1, length=5](%0)
  %3 : Float(4, 5) = aten::mul(%1, %2)
  return (%3)
}""",
        "parts of its result overlap",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_not_worth_it_stays_and_says_why(name):
    text, reason = STAYS[name]
    assert unchanged("distribute", text)
    assert any(reason in line for line in reasons(text)), reasons(text)


def test_cheap_parts_that_overlap_are_computed_twice():
    text = TANH.replace("tanh", "neg") + STAYS["dear parts that overlap"][0].removeprefix(TANH)
    after = transformed("distribute", text)
    assert after.count("aten::neg") == 2


@pytest.mark.parametrize(("call", "gives"), [
    ("aten::where.self(%c, %x, %x)", "Float"), ("aten::lt(%x, 0)", "Bool"), ("aten::floor(%x)", "Float"),
    ("aten::masked_fill[value=1](%x, %c)", "Float"), ("aten::sqrt(%x)", "Float"), ("aten::ne(%x, %x)", "Bool"),
])  # fmt: skip
def test_what_is_cheap_is_said_by_the_operator_itself(call, gives):
    """Whatever its full name is: `aten::where.self` is no `aten::where`."""
    text = f"""graph(%x : Float(4, 6), %c : Bool(4, 6)) {{
  %0 : {gives}(4, 6) = {call}
  %1 : {gives}(4, 5, strides=[6, 1]) = aten::narrow[dim=1, start=0, length=5](%0)
  %2 : {gives}(4, 5, strides=[6, 1]) = aten::narrow[dim=1, start=1, length=5](%0)
  %3 : Bool(4, 5) = aten::eq(%1, %2)
  return (%3)
}}"""
    after = transformed("distribute", text)
    assert after.count(call.partition("(")[0].partition("[")[0]) == 2


@pytest.mark.parametrize("part", ["%x", "%0"])
def test_a_later_stage_reads_what_was_joined_and_not_its_parts(part):
    """The parts may change in between, and those that are computed would have to be stored besides."""
    text = """graph(%x : Float(8, 3), %y : Float(8, 5)) {
  %0 : Float(8, 3) = aten::tanh(%x)
  %1 : Float(8, 8) = aten::cat[dim=1]([PART, %y])
  return (%0, %1)
---- stage 1 (%g : Float(8, 8)) ----
  %2 : Float(8, 8) = aten::mul(%g, %1)
  return (%2)
}""".replace("PART", part)
    assert unchanged("distribute", text)


def test_memory_that_is_looked_at_with_strides_of_its_own_is_not_cut():
    text = """graph(%x : Float(6)) {
  %0 : Float(6) = aten::neg(%x)
  %1 : Float(3) = aten::narrow[dim=0, start=0, length=3](%0)
  %2 : Float(3, strides=[2]) = aten::as_strided[size=[3], stride=[2], storage_offset=1](%1)
  %3 : Float(3) = aten::mul(%2, 2)
  return (%3)
}"""
    assert unchanged("distribute", text)


def test_gradients_of_a_hundred_steps_take_a_node_for_each_step():
    """Not for each pair of steps: what is zero is left out."""
    body = "".join(
        f"  %s{i} : Float(100, 3) = aten::select_backward[input_sizes=[100, 3], dim=0, index={i}](%g{i})\n"
        + (f"  %t{i} : Float(100, 3) = aten::add(%{'t' if i > 1 else 's'}{i - 1}, %s{i})\n" if i else "")
        for i in range(100)
    )
    parameters = ", ".join(f"%g{i} : Float(3)" for i in range(100))
    graph = parse(f"graph({parameters}) {{\n{body}  return (%t99)\n}}")
    assert distribute(graph)
    verify(graph)
    assert len(graph) == 201  # a view and a sum for each, and a cat
