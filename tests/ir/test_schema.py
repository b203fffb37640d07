"""Schemas: text in, the same text out, and a mistake answered with what is wrong."""

import doctest
import math
import pickle

import pytest

import jit.ir.schema
from jit.ir.errors import SchemaError
from jit.ir.schema import REQUIRED, ArgType, Schema, describe_call, parse_schema

CANONICAL = """
aten::abs(Tensor self) -> Tensor
aten::abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
aten::allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool
aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)
aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, \
Device? device=None, bool? pin_memory=None) -> Tensor
aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
aten::as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)
aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor
aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]
aten::cat(Tensor[] tensors, int dim=0) -> Tensor
aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)
aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, \
int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[3] output_mask) \
-> (Tensor, Tensor, Tensor)
aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
aten::equal(Tensor self, Tensor other) -> bool
aten::gelu(Tensor self, *, str approximate="none") -> Tensor
aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)
aten::item(Tensor self) -> Scalar
aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, \
ScalarType? dtype=None) -> Tensor
aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) \
-> (Tensor(a!) values, Tensor(b!) indices)
aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor
aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, \
bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
aten::nll_loss2d_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, \
int reduction, int ignore_index, Tensor total_weight, *, Tensor(a!) grad_input) -> Tensor(a!)
aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor
aten::pad(Tensor self, int[] pad, str mode="constant", float? value=None) -> Tensor
aten::random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)
aten::real(Tensor(a) self) -> Tensor(a)
aten::relu_(Tensor(a!) self) -> Tensor(a!)
aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor
aten::set_data(Tensor(a!) self, Tensor new_data) -> ()
aten::size.int(Tensor self, int dim) -> int
aten::slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)
aten::split.sizes(Tensor(a -> *) self, int[] split_size, int dim=0) -> Tensor(a)[]
aten::split_copy.Tensor_out(Tensor self, int split_size, int dim=0, *, Tensor(a!)[] out) -> ()
aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor
aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
aten::upsample_nearest2d.vec(Tensor input, int[]? output_size, float[]? scale_factors) -> Tensor
aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
cpp::my_clip(Tensor x, float limit=inf, float low=-inf) -> Tensor
"""

RESPELLED = {
    "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
    "SymInt[2] dilation=1, SymInt groups=1) -> Tensor":
    "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=[1, 1], int[2] padding=[0, 0], "
    "int[2] dilation=[1, 1], int groups=1) -> Tensor",
    "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding=\"valid\") "
    "-> Tensor":
    "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=[1, 1], str padding=\"valid\")"
    " -> Tensor",
    "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], bool ceil_mode=False) -> Tensor":
    "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], bool ceil_mode=False) -> Tensor",
    "aten::rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor":
    "aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
    "aten::mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor":
    "aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "aten::gelu(Tensor self, *, str approximate='none') -> Tensor":
    "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
    "aten::randint(int high, int[] size, *, ScalarType? dtype=long) -> Tensor":
    "aten::randint(int high, int[] size, *, ScalarType? dtype=long) -> Tensor",
    "aten::dropout(Tensor input, float p=1, bool train=True) -> (Tensor)":
    "aten::dropout(Tensor input, float p=1.0, bool train=True) -> Tensor",
    "aten::full(number fill_value) -> (Tensor result)":
    "aten::full(Scalar fill_value) -> (Tensor result)",
    "\n aten::mm( Tensor  self ,\n Tensor mat2 )->Tensor ":
    "aten::mm(Tensor self, Tensor mat2) -> Tensor",
    "aten::manual_seed()->()":
    "aten::manual_seed() -> ()",
}  # fmt: skip


@pytest.mark.parametrize("text", CANONICAL.strip().splitlines())
def test_canonical_text_round_trips(text: str) -> None:
    schema = parse_schema(text)
    assert str(schema) == text
    assert schema.text == text
    assert parse_schema(str(schema)) == schema
    assert hash(parse_schema(str(schema))) == hash(schema)


@pytest.mark.parametrize("text", RESPELLED)
def test_other_spellings_mean_the_same(text: str) -> None:
    schema = parse_schema(text)
    assert str(schema) == RESPELLED[text]
    assert schema.text == text
    assert parse_schema(RESPELLED[text]) == schema


def test_names() -> None:
    plain = parse_schema("aten::sum(Tensor self) -> Tensor")
    assert (plain.namespace, plain.name, plain.overload, plain.qualified) == ("aten", "sum", "", "aten::sum")
    overloaded = parse_schema("aten::max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)")
    assert (overloaded.name, overloaded.overload, overloaded.qualified) == ("max", "dim", "aten::max.dim")
    assert overloaded.argument_names == ("self", "dim")
    assert [result.name for result in overloaded.returns] == ["values", "indices"]


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("Tensor", ArgType("Tensor")),
        ("Tensor?", ArgType("Tensor", optional=True)),
        ("Tensor[]", ArgType("Tensor", is_list=True)),
        ("Tensor?[]", ArgType("Tensor", is_list=True, optional_elements=True)),
        ("int[2]", ArgType("int", is_list=True, list_size=2)),
        ("int[1]?", ArgType("int", optional=True, is_list=True, list_size=1)),
        ("bool[3]", ArgType("bool", is_list=True, list_size=3)),
        ("float[]?", ArgType("float", optional=True, is_list=True)),
    ],
)
def test_types(text: str, type: ArgType) -> None:
    assert parse_schema(f"aten::f({text} x) -> ()").arguments[0].type == type
    assert str(type) == text


@pytest.mark.parametrize(
    ("argument", "default"),
    [
        ("int x", REQUIRED),
        ("int? x=None", None),
        ("int x=-1", -1),
        ("float x=1", 1.0),
        ("float x=1e-05", 1e-5),
        ("float x=-inf", -math.inf),
        ("Scalar x=1", 1),
        ("Scalar x=0.5", 0.5),
        ("Scalar x=True", True),
        ("complex x=2", 2 + 0j),
        ("bool x=False", False),
        ("bool[2] x=[True, False]", (True, False)),
        ("int[] x=[]", ()),
        ("int[] x=[0,1]", (0, 1)),
        ("int[3] x=2", (2, 2, 2)),
        ("int[1]? x=None", None),
        ("float[] x=[1, 2.5]", (1.0, 2.5)),
        ("str x='none'", "none"),
        ('str x="a b"', "a b"),
        ("str x=mean", "mean"),
        ("int x=Mean", 1),
        ("int x=None", 0),
        ("int x=Sum", 2),
        ("MemoryFormat x=contiguous_format", "contiguous_format"),
        ("ScalarType? x=long", "long"),
    ],
)
def test_defaults(argument: str, default: object) -> None:
    schema = parse_schema(f"aten::f({argument}) -> Tensor")
    parsed = schema.arguments[0].default
    assert parsed == default
    assert type(parsed) is type(default)
    assert parse_schema(str(schema)) == schema


def test_keyword_only_arguments_follow_the_star() -> None:
    schema = parse_schema("aten::add(Tensor self, Tensor other, *, Scalar alpha=1, Tensor? extra) -> Tensor")
    assert [argument.kwarg_only for argument in schema.arguments] == [False, False, True, True]


def test_tensor_arguments_include_lists_and_nullable_ones() -> None:
    schema = parse_schema("aten::f(Tensor a, int b, Tensor? c, Tensor?[] d, Tensor[] e, Scalar f) -> Tensor")
    assert [argument.name for argument in schema.tensor_arguments] == ["a", "c", "d", "e"]


@pytest.mark.parametrize(
    ("text", "is_inplace", "mutated", "view_of"),
    [
        ("aten::add(Tensor self, Tensor other) -> Tensor", False, (), None),
        ("aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)", True, ("self",), None),
        ("aten::add.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", False, ("out",), None),
        ("aten::t(Tensor(a) self) -> Tensor(a)", False, (), "self"),
        ("aten::t_(Tensor(a!) self) -> Tensor(a!)", True, ("self",), None),
        ("aten::split(Tensor(a -> *) self, int size) -> Tensor(a)[]", False, (), "self"),
        ("aten::expand_as(Tensor other, Tensor(a) self) -> Tensor(a)", False, (), "self"),
        ("aten::trailing_(Tensor self) -> Tensor", False, (), None),
        ("aten::max(Tensor x, *, Tensor(a!) v, Tensor(b!) i) -> (Tensor(a!), Tensor(b!))", False, ("v", "i"), None),
        ("aten::f(Tensor(a) self) -> (Tensor, Tensor(a))", False, (), None),
        ("aten::f() -> ()", False, (), None),
    ],
)
def test_aliases(text: str, is_inplace: bool, mutated: tuple[str, ...], view_of: str | None) -> None:
    schema = parse_schema(text)
    assert (schema.is_inplace, schema.mutated, schema.view_of) == (is_inplace, mutated, view_of)


def test_alias_marks_of_arguments_and_returns() -> None:
    schema = parse_schema("aten::f(Tensor(a -> *) x, Tensor(b!)[] y, Tensor z) -> (Tensor(a)[], Tensor(b!) y)")
    assert [(a.alias, a.writes, a.spreads) for a in schema.arguments] == [
        ("a", False, True),
        ("b", True, False),
        (None, False, False),
    ]
    assert [(r.name, r.alias, r.writes) for r in schema.returns] == [(None, "a", False), ("y", "b", True)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tanh(x)", "it needs a namespace, a name, arguments in parentheses and returns after '->'"),
        ("tanh(Tensor self) -> Tensor", "it needs a namespace"),
        ("aten::tanh(Tensor self)", "it needs a namespace"),
        ("aten::tanh(Tensor) -> Tensor", "'Tensor' is not an argument, which is a type and a name"),
        ("aten::tanh(Tensor self,) -> Tensor", "'' is not an argument"),
        ("aten::tanh(Tensor self) -> ", "it needs a namespace"),
        ("aten::tanh(Tensor self) -> Tensor, ", "'' is not a return"),
        ("aten::tanh(Tensor self) -> Tensor(a -> *)", "is not a return"),
        ("aten::tanh(Tensr self) -> Tensor", "'Tensr' is not a type, which are Device, "),
        ("aten::tanh(int[][] self) -> Tensor", "'int[][] self' is not an argument"),
        ("aten::sum(int dim=1.5) -> Tensor", "the default '1.5' is not of the type 'int'"),
        ("aten::sum(bool keepdim=0) -> Tensor", "the default '0' is not of the type 'bool'"),
        ("aten::sum(Tensor x=None) -> Tensor", "the default 'None' is not of the type 'Tensor'"),
        ("aten::sum(int[] dim=1) -> Tensor", "the default '1' is not a list, which the type 'int[]' asks for"),
        ("aten::sum(int[2] dim=[1,2,3]) -> Tensor", "does not have the length that the type 'int[2]' asks for"),
        ("aten::sum(str x='a) -> Tensor", "the default \"'a\" is not of the type 'str'"),
        ("aten::sum(int a, *, int b, *, int c) -> Tensor", "it has '*' twice"),
        ("aten::sum(int a, int a) -> Tensor", "two of its arguments have the same name"),
        ("aten::sum(int a=1, int b) -> Tensor", "the argument 'b' needs a default because 'a' before it has one"),
        ("aten::t(Tensor self) -> Tensor(a)", "its return 'Tensor(a)' shares memory with no argument"),
    ],
)
def test_a_mistake_is_named_and_answered_with_an_example(text: str, complaint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    message = str(caught.value)
    assert message.startswith(f"{text!r} is not an operator schema: ")
    assert complaint in message
    assert message.endswith("; write it like 'aten::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor'")
    assert isinstance(caught.value, TypeError)


def test_schemas_survive_pickling() -> None:
    schema: Schema = pickle.loads(pickle.dumps(parse_schema("aten::f(Tensor x, int y=3) -> Tensor")))
    assert schema == parse_schema("aten::f(Tensor x, int y=3) -> Tensor")
    assert schema.arguments[0].default is REQUIRED


def test_describe_call_opens_lists_and_asks_the_caller_about_the_rest() -> None:
    assert describe_call("add", (1.0, "s"), {"alpha": 2}) == "add(float, str, alpha=int)"
    assert describe_call("cat", ([1.0, None], (1,)), {"dim": None}) == "cat([float, None], [int], dim=None)"
    assert describe_call("stack", ([0] * 9,), {}) == "stack([int, int, int, int, ...])"
    assert describe_call("f", (1, [2]), {"k": 3}, lambda value: f"<{value}>") == "f(<1>, [<2>], k=<3>)"


def test_examples_in_docstrings() -> None:
    failed, attempted = doctest.testmod(jit.ir.schema)
    assert attempted > 0
    assert failed == 0
