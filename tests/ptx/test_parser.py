"""PTX text as a module, and back."""

from __future__ import annotations

import re

import pytest

from .findings import MalformedText
from .parser import Address, Immediate, Module, Pair, Register, Symbol, Variable, Vector, parse
from .test_nests import NAMES, kernel_of

HEADER = ".version 7.0\n.target sm_80, debug\n.address_size 64\n"


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


@pytest.mark.llvm
@pytest.mark.parametrize("name", NAMES)
def test_a_generated_kernel_is_what_was_parsed(name):
    """Nothing is left out or changed: the instructions are the text's statements that declare nothing."""
    text = kernel_of(name).ptx
    module = parse(text)
    assert parse(str(module)) == module
    printed = [str(i) for f in module.functions.values() for i in f.instructions]
    squeezed = "".join(without_comments(text).split())
    for instruction in printed:
        assert re.sub(r"(?<=\w)\$\d+|\s", "", instruction) + ";" in squeezed
    assert len(printed) == without_comments(text).count(";") - declarations(module)


def declarations(module: Module) -> int:
    """The statements that declare something."""
    bodies = sum(len(f.registers) + len(f.variables) for f in module.functions.values())
    return bodies + len(module.variables)


OPERANDS = {
    "%r1": Register("%r1"),
    "!%p1": Register("%p1", negated=True),
    "%tid.x": Register("%tid.x"),
    "_": Register("_"),
    "-12": Immediate("-12"),
    "0x1FU": Immediate("0x1FU"),
    "0f3F800000": Immediate("0f3F800000"),
    "0d3FF0000000000000": Immediate("0d3FF0000000000000"),
    "1.5e-3": Immediate("1.5e-3"),
    "buffer": Symbol("buffer"),
    "buffer+8": Symbol("buffer", 8),
    "[%rd1]": Address(Register("%rd1")),
    "[%rd1+16]": Address(Register("%rd1"), 16),
    "[%rd1+-8]": Address(Register("%rd1"), -8),
    "[f_param_0+8]": Address(Symbol("f_param_0"), 8),
    "{%r1, _}": Vector((Register("%r1"), Register("_"))),
    "(a, b)": Vector((Symbol("a"), Symbol("b")), "()"),
    "%p1|%p2": Pair(Register("%p1"), Register("%p2")),
}


@pytest.mark.parametrize("text", OPERANDS)
def test_operands(text):
    module = parse(f"{HEADER} .func f() {{ some.op.b32 {text}; }}")
    (instruction,) = module.functions["f"].instructions
    assert instruction.operands == (OPERANDS[text],)
    assert (instruction.name, instruction.suffixes) == ("some", ("op", "b32"))
    assert parse(str(module)) == module


VARIABLES = {
    ".shared .align 16 .b8 shared[4096];": Variable("shared", "b8", "shared", 4096, 16),
    ".extern .shared .align 16 .b8 more[];": Variable("shared", "b8", "more", 0, 16, linking=".extern"),
    ".global .align 4 .f32 table[2][2] = {{0f3F800000, 1.0}, {-2.0, 0}};": Variable(
        "global", "f32", "table", 4, 4, ("0f3F800000", "1.0", "-2.0", "0")
    ),
    ".visible .const .u32 one = 1;": Variable("const", "u32", "one", None, 0, ("1",), ".visible"),
}  # fmt: skip


@pytest.mark.parametrize("text", VARIABLES)
def test_variables(text):
    module = parse(HEADER + text)
    assert module.variables == [VARIABLES[text]]
    assert parse(str(module)) == module


def test_an_entry_has_parameters_directives_and_labels():
    text = (
        HEADER
        + """
    .visible .entry f(.param .align 8 .b8 data[24], .param .u64 .ptr .global .align 4 errors)
    .maxntid 256, 1, 1
    .minnctapersm 2
    {
        .reg .pred %p<2>;  .reg .b32 %r<3>, %q;  // a comment; with a semicolon
        .local .align 8 .b8 __local_depot0[16];
        /* and
           another */
        .loc 1 2 3
    $start: @!%p1 bra $end;
        bra.uni $start;
    $end: ret;
    }"""
    )
    function = parse(text).functions["f"]
    assert function.is_entry and [p.size for p in function.parameters] == [24, 8]
    assert function.directives == [".maxntid 256, 1, 1", ".minnctapersm 2"]
    assert function.labels == {"$start": 0, "$end": 2}
    assert function.types == {"%p0": "pred", "%p1": "pred", "%r0": "b32", "%r1": "b32", "%r2": "b32", "%q": "b32"}
    assert [i.line for i in function.instructions] == [14, 15, 16]
    assert str(function.instructions[0]) == "@!%p1 bra $end"


def test_names_of_blocks_are_their_own():
    text = (
        HEADER
        + """.func f() { .reg .b64 %rd<2>; .reg .b32 %r<3>;
        { .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd1; }
        { .reg .b64 tmp; mov.b64 tmp, %rd1; }
    }"""
    )
    module = parse(text)
    assert [str(i) for i in module.functions["f"].instructions] == [
        "mov.b64 {tmp$1, %r1}, %rd1",
        "mov.b64 tmp$2, %rd1",
    ]
    assert module.functions["f"].types["tmp$1"] == "b32" and module.functions["f"].types["tmp$2"] == "b64"
    assert parse(str(module)) == module


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("this is no PTX", "line 1 .* 'this' begins no definition"),
        (".func f()\n{ add.s32 %r1 %r2; }", "line 2 .* ',' expected before '%r2'"),
        (".func f() {\n mov.b32 %r1, ", "line 2 .* '' is no operand"),
        (".shared .f33 x;", "'.f33' is no type"),
        ('.func f() { mov.b32 %r1, "text"; }', "is no operand"),
        (".func f() { mov.b32 %r1, ?; }", "no token begins with"),
    ],
)
def test_what_is_no_ptx_is_an_error_with_its_line(text, message):
    with pytest.raises(MalformedText, match=message):
        parse(text)
