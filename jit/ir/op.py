"""Declarations of operators: each stands once, with every facet, among its family in `jit/ops/<family>.py`.

    @pointwise("aten::tanh(Tensor self) -> Tensor", promote="float", onnx="Tanh", samples=unary(-3, 3),
               grad=dict(self=lambda F, g, out: g * (1 - out * out)))
    def tanh(m, self):
        return m.tanh(self)

Facets that fit on a line are keywords; longer ones are attached beneath: `@tanh.onnx`, `@tanh.grad`, `@tanh.type`,
`@tanh.samples`. A facet touches only its arguments, so this package imports neither llvmlite nor onnx:

* the decorated function is the op itself. Its first parameter is the math namespace `m` (pointwise, array, random),
  a `Geometry` (view) or the op namespace `F` (composite); then come the schema's arguments, in order.
* `grad` is a dict {argument: lambda} whose lambdas name what they need of `F`, `g` (the incoming gradient), `out`,
  the op's arguments, and `<argument>_meta` for sizes, dtype and device alone, `<argument>_geometry` for strides as
  well (`as_strided` gets these, and the offset, in any case) - only what is named gets saved;
  or an attached function with `needs` among its parameters that returns one gradient per tensor argument.
* `onnx` is the name of an ONNX operator that takes the same inputs, or a function of a node builder.
* `kernel` is a `Kernel`: what loops, plans and profiles need to know; `cost=25` says of a pointwise operator about how
  many instructions it takes. Operators that go along rows attach the terms that they consist of as `@softmax.terms`,
  see Note [Terms] in `kernel`.
* a facet that does not apply is `absent("why")`; the catalogue prints the reason. `grad=dict(mask=absent("why"))` says
  it of one argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from . import dtypes
from .dtypes import DType
from .errors import DTypeError, SchemaError
from .geometry import Geometry, broadcast_shapes
from .kernel import POINTWISE, Kernel
from .precision import Precision
from .recurrence import Recurrence
from .registry import OVERLOADS as OVERLOADS
from .registry import REGISTRY as REGISTRY
from .registry import declare
from .registry import find as find
from .schema import REQUIRED, Argument, Schema, parse_schema
from .types import GENERATOR, TensorType, Type, contiguous_strides

KINDS = ("pointwise", "array", "view", "random", "composite")


@dataclass(frozen=True)
class Absent:
    """The reason why an op lacks a facet."""

    reason: str


def absent(reason: str) -> Absent:
    """A facet that does not apply, with the reason: `onnx=absent("ONNX has no strided views")`."""
    return Absent(reason)


@dataclass(frozen=True)
class Derivative:
    """A derivative's formula, and the names of the arguments that it wants."""

    function: Callable[..., Any]
    names: tuple[str, ...]


Operand = tuple[DType | None, int, Any]
"""(dtype, ndim, value) of a tensor or a number; the dtype of a number is None."""


@dataclass(frozen=True)
class Refusal:
    """The dtypes that an op refuses, and the way out.

    Used as a decorator it says so of the op beneath: `@Refusal(is_bool, "cast with x.int()")`.
    """

    test: Callable[[DType], bool]
    way_out: str
    each: bool = False
    """Whether it tests every operand before promotion, so that `float - bool` is refused too, or the promoted dtype."""

    def __call__(self, op: Op) -> Op:
        op.refusals += (self,)
        return op

    def check(self, op: Op, computed: DType, operands: Sequence[Operand]) -> None:
        """Raise DTypeError if the op does not take the dtype that it is asked to compute in."""
        for dtype in (dtypes.result_type([o]) for o in operands) if self.each else (computed,):
            if self.test(dtype):
                raise DTypeError(f"{op.schema.name} does not take {dtype.name} tensors: {self.way_out}")


class Op:
    """One operator with all its facets; made by the decorators below, found by `find` and in `OVERLOADS`."""

    def __init__(self, kind: str, schema: Schema, body: Callable[..., Any], module: str) -> None:
        self.kind = kind
        """One of KINDS; a composite is computed by its parts."""
        self.schema = schema
        self.name = schema.qualified
        """`aten::max.dim`."""
        self.body = body
        """The declared function: a scalar or array body, a geometry, or an expression in other operators, by kind."""
        self.module = module
        """The family: the module that declares it."""
        self.promote: str | tuple[str, ...] | None = None
        """"common" or "float": how operands are cast before the body; or the names of the arguments to be cast."""
        self.computes_in: str | None = None
        """The argument in whose dtype the op computes whatever the others are, as `masked_fill` does."""
        self.refusals: tuple[Refusal, ...] = ()
        """The refusals of dtypes that the promoted operands must not have."""
        self.result: DType | Callable[[DType], DType] | str | None = None
        """The dtype of a pointwise result or of a view, or the rule for it, where it is not what the op computes in
        (comparisons: bool; the absolute value of a complex number: real)."""
        self.numpy_body: Callable[..., Any] | None = None
        """A separate body for numpy alone, where the shared formula would be slow or would warn. That of a composite
        gives the bits that the parts give, or None where these have to compute; see `execute_whole`."""
        self.numpy_gradients: Derivative | None = None
        """The derivative of all arguments for numpy: the bits that the formulas give, or None where these have to
        compute; see Note [Derivatives on arrays] in `jit.autograd.nodes`."""
        self.whole_gradients: Derivative | None = None
        """Composites without a derivative: the formula where nobody looks at their parts, which then have one node."""
        self.keeps_numbers = False
        """Whether numbers become elements of its result, so that numbers which its dtype cannot hold are refused."""
        self.tells_numbers = False
        """Whether the body for numpy gets numbers as numpy scalars, on a GPU too, which tells them from 0-d tensors."""
        self.type_rule: Callable[..., Any] | None = None
        self.derivatives: dict[str, Derivative] = {}
        """The derivatives declared as a dict, by argument."""
        self.backward: Derivative | None = None
        """The derivative declared as one function for all arguments, with a `needs` mask."""
        self.symbolic: str | Callable[..., Any] | None = None
        self.scatter: Callable[..., Any] | None = None
        """Views: `scatter(F, base, source, ...)` is `base` with the viewed part replaced by `source`."""
        self.sampler: Callable[[], Iterable[Any]] | None = None
        self.missing: dict[str, str] = {}
        """Facet name, or "grad.<argument>" -> reason why it is absent."""
        self.differentiable: tuple[int, ...] = (0,)
        """The positions of the outputs that carry gradients."""
        self.holomorphic = True
        """Whether the derivative of a complex result is written as for real numbers, g * f'(x), and conjugated by the
        caller; False where the formula itself follows the convention for complex numbers (`abs`, `angle`, `real`)."""
        self.kernel = POINTWISE if kind == "pointwise" else Kernel()
        """The facts that loops, plans and profiles need."""
        self.measures: bool | Callable[..., bool] = False
        """Whether the sizes of its results depend on elements; or a function of arguments that says so."""
        self.offsets: tuple[str, ...] = ()
        """Ints that say where the elements of a result lie; its sizes are the same for all of them."""
        self.pieces: Callable[..., bool] | None = None
        """Views: whether the number of results follows from the size of the dim `dim`, by arguments."""
        self.spelling: Callable[..., Any] | None = None
        """The writer of its parts for kernels, where none computes it as a whole; see the pass `spell_out`."""
        self.recurrence: Callable[..., Recurrence] | None = None
        """`recurrence(<arguments>)` says what its steps are, if it goes through a sequence step by step."""
        self.into: Callable[..., Any] | None = None
        """`into(numpy, out, <arguments>)` writes the result into an array; it returns None where it cannot."""
        self.lays_out = False
        """Whether the body lays its result out as a memory format asks; all other results are made row-major, see
        Note [Results are row-major]."""
        self.runs_on_host = False
        """Whether the body needs the CPU whatever the device: libraries of arrays on others lack some of its parts."""
        self.communicates = False
        """Whether it exchanges something with other processes: then it runs exactly once, in the order of the program,
        whether its result is used or not, since the others wait for it."""
        self.crosses = False
        """Whether its operands may lie on different devices, as those of a copy do; the result lies with the first."""
        self.sizes_alone = False
        """Whether it asks its operands for sizes, strides and dtypes alone, as those do that make one like another:
        then they may lie anywhere, and need not have elements."""
        self.precision: Precision | None = None
        """The dtypes in which it computes where `autocast` is on; None if it takes its operands as they are."""
        self.is_absolute = False
        """Views: whether the offset counts from the start of the memory, not from the first element of the base."""
        self.shows_all = False
        """Views: whether the view starts where its base does and shows all of its elements."""
        self.namespaces: tuple[str, ...] = ("jit", "Tensor")
        """The places where users find it: "jit", "Tensor", "nn.functional", "linalg", "special", "fft"."""
        self.aliases: tuple[str, ...] = ()
        self.spreads = False
        """Whether users may give the members of its list of tensors one by one: `broadcast_tensors(x, y)`."""
        self.has_inplace = False
        """Whether `name_` exists too."""
        self.raises: bool | Callable[[Op, Sequence[Any]], bool] = False
        """Whether elements of its operands can make it raise, such as an index out of range; or the rule for it."""
        self.tensors = tuple(i for i, a in enumerate(schema.arguments) if a.type.base == "Tensor")
        """Positions of the tensor arguments."""

    # -- attached facets -----------------------------------------------------------------------------------------

    def onnx(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the ONNX symbolic: `def _(g, <arguments>)` returns the output Value(s)."""
        self._same_module(function)
        self.symbolic = function
        return function

    def grad(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the derivative of all arguments: `def _(F, g, needs, ...)` returns a gradient per tensor argument."""
        self._same_module(function)
        self.backward = self._derivative(function)
        return function

    def type(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the type rule: schema arguments, TensorTypes for tensors, to the TensorType(s) of the result."""
        self._same_module(function)
        self.type_rule = function
        return function

    def numpy(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach a body for numpy alone."""
        self._same_module(function)
        self.numpy_body = function
        return function

    def numpy_grad(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach a derivative for numpy alone: `def _(m, g, needs, ...)` returns a gradient per tensor, or None."""
        self._same_module(function)
        self.numpy_gradients = self._derivative(function)
        return function

    def whole_grad(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the formula by which a composite is differentiated as a whole where its body for numpy ran."""
        self._same_module(function)
        self.whole_gradients = self._derivative(function)
        return function

    def terms(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the terms of a kernel: `def _(t, <arguments>)` returns one for each result; see `jit.ir.kernel`."""
        self._same_module(function)
        self.set_kernel(replace(self.kernel, terms=function))
        return function

    def parts(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Attach parts that kernels compute: `def _(F, <arguments>)` returns the results, or None to stay whole."""
        self._same_module(function)
        self.spelling = function
        return function

    def steps(self, function: Callable[..., Recurrence]) -> Callable[..., Recurrence]:
        """Attach the steps of a recurrence: `def _(<arguments>)` returns a Recurrence."""
        self._same_module(function)
        self.recurrence = function
        return function

    def samples(self, function: Callable[[], Iterable[Any]]) -> Callable[[], Iterable[Any]]:
        """Attach the generator of samples."""
        self._same_module(function)
        self.sampler = function
        return function

    def _same_module(self, function: Callable[..., Any]) -> None:
        if function.__module__ != self.module:
            raise SchemaError(f"facets of {self.name} belong beside it, in {self.module.replace('.', '/')}.py")

    def set_kernel(self, kernel: Kernel) -> None:
        """Set the facts for kernels; SchemaError if a function among them asks for what is not an argument."""
        for name in ("form", "reduces", "groups", "terms", "fills", "flops", "placed"):
            function = getattr(kernel, name)
            if callable(function):
                _positions(self, function, int(name in ("terms", "flops")))
        if not set(kernel.along) <= set(self.schema.argument_names):
            raise SchemaError(f"{self.name}: its kernel names {sorted(kernel.along)}, which are not all arguments")
        self.kernel = kernel if kernel.form or self.kind != "pointwise" else replace(kernel, form="point")

    def ask(self, function: Callable[..., Any], values: Sequence[Any], *first: Any) -> Any:
        """The result of `function(*first, ...)` on those of the schema-ordered `values` that its parameters name."""
        return function(*first, *(values[i] for i in _positions(self, function, len(first))))

    def _derivative(self, function: Callable[..., Any]) -> Derivative:
        names = _parameters(function)
        known = {"F", "m", "g", "out", "needs", *self.schema.argument_names}
        known |= {self.schema.arguments[i].name + what for i in self.tensors for what in ("_meta", "_geometry")}
        for name in names:
            if name not in known:
                raise SchemaError(f"{self.name}: the derivative asks for {name!r}, which is none of {sorted(known)}")
        return Derivative(function, names)

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def is_differentiable(self) -> bool:
        """True if it has a derivative of its own; a composite without one is differentiated through its parts."""
        return bool(self.derivatives) or self.backward is not None

    @cached_property
    def gives_one(self) -> bool:
        """Whether it has one result, which is no list."""
        return len(self.schema.returns) == 1 and not self.schema.returns[0].type.is_list

    @cached_property
    def takes_lists(self) -> bool:
        """Whether there are lists of tensors among its arguments."""
        return any(self.arguments[i].type.is_list for i in self.tensors)

    @cached_property
    def most_positional(self) -> int:
        """The number of arguments that may be given by position."""
        return sum(not argument.kwarg_only for argument in self.arguments)

    @cached_property
    def decisions(self) -> dict[Any, Any]:
        """The dtypes that were decided upon when it ran, by those of its operands; for whoever runs it."""
        return {}

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The schema's arguments."""
        return self.schema.arguments

    @property
    def family(self) -> str:
        """The last part of the module's name, e.g. "pointwise"."""
        return self.module.rsplit(".", 1)[-1]

    @cached_property
    def bind(self) -> Callable[..., tuple[Any, ...]]:
        """A Python function with the schema's signature that returns its arguments in order; TypeError for a misfit."""
        parts: list[str] = []
        space: dict[str, Any] = {}
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            default = "" if argument.default is REQUIRED else f"=_{argument.name}"
            space[f"_{argument.name}"] = argument.default
            parts.append(argument.name + default)
        names = "".join(f"{a.name}, " for a in self.arguments)
        exec(compile(f"def bind({', '.join(parts)}): return ({names})", "<jit binder>", "exec"), space)
        return space["bind"]

    def split(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Schema-ordered arguments as a node holds them: tensors positional, the rest by keyword, defaults left out."""
        operands = [values[i] for i in self.tensors]
        while operands and operands[-1] is None:
            operands.pop()
        keywords, generators = self._places
        attributes = {name: values[i] for i, name, default in keywords if not _is_default(values[i], default)}
        return [*operands, *[values[i] for i in generators]] if generators else operands, attributes

    @cached_property
    def _places(self) -> tuple[tuple[tuple[int, str, Any], ...], tuple[int, ...]]:
        """Position, name and default of each argument that a node holds by keyword; and the positions of generators."""
        generators = tuple(i for i, a in enumerate(self.arguments) if a.type.base == "Generator")
        keywords = (t for t in enumerate(self.arguments) if t[0] not in self.tensors and t[0] not in generators)
        return tuple((i, a.name, a.default) for i, a in keywords), generators

    @cached_property
    def integers(self) -> tuple[int, ...]:
        """Positions of the arguments that are ints, or lists of them, on which sizes may depend."""
        return tuple(i for i, a in enumerate(self.arguments) if a.type.base == "int" and a.name not in self.offsets)

    def join(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> list[Any]:
        """The inverse of `split`: a node's operands and attributes as schema-ordered arguments."""
        rest = list(operands)
        values = []
        for index, argument in enumerate(self.arguments):
            if index in self.tensors:
                values.append(rest.pop(0) if rest else None)
            elif argument.type.base == "Generator":
                values.append(rest.pop(0) if rest else None)
            elif argument.name in attributes:
                values.append(attributes[argument.name])
            elif argument.default is REQUIRED:
                raise SchemaError(f"{self.name} needs {argument.name}; its declaration is {self.schema}")
            else:
                values.append(argument.default)
        return values

    def infer(self, values: Sequence[Any]) -> list[Type]:
        """The types of the results for schema-ordered arguments in which tensors are TensorTypes.

        Where a size or dtype among them is unknown, results are unknown too.
        """
        if any(isinstance(t, TensorType) and (t.dtype is None or t.sizes is None) for t in _flat(values)):
            return [TensorType() for _ in self.schema.returns]
        if self.kind == "view":
            geometries = self.body(Geometry(values[0].sizes, strides_of(values[0])), *values[1:])
            many = geometries if isinstance(geometries, list) else [geometries]
            dtype = self.result_dtype(values[0].dtype, values)
            return [_viewed(values[0], dtype, geometry) for geometry in many]
        if self.refusals and self.type_rule is not None:
            self.compute_dtype(values)
        rule = self.type_rule or (self._pointwise_type if self.kind == "pointwise" else None)
        if rule is None:
            raise SchemaError(f"{self.name} has no type rule: attach @{self.schema.name}.type in {self.module}")
        found = rule(*values)
        types: list[Type] = list(found) if isinstance(found, (tuple, list)) else [found]
        return [*types, GENERATOR] if self.kind == "random" else types

    def _pointwise_type(self, *values: Any) -> TensorType:
        tensors = [values[i] for i in self.tensors if values[i] is not None]
        shapes = [t.sizes for t in tensors if isinstance(t, TensorType) and t.sizes is not None]
        device = next((t.device for t in tensors if isinstance(t, TensorType)), "cpu")
        dtype = self.compute_dtype(values)
        return TensorType(self.result_dtype(dtype), broadcast_shapes(*shapes), None, device)

    def may_raise(self, values: Sequence[Any]) -> bool:
        """Whether elements can make it raise for schema-ordered arguments in which tensors are TensorTypes."""
        return self.raises if isinstance(self.raises, bool) else self.raises(self, values)

    def result_dtype(self, computed: DType, values: Sequence[Any] = ()) -> DType:
        """The dtype of a pointwise result that was computed in `computed`, or of a view of such a tensor.

        Args:
            computed: That dtype.
            values: The arguments, among which a view may be told the dtype.
        """
        if self.result is None:
            return computed
        if isinstance(self.result, str):
            told: DType = values[self.schema.argument_names.index(self.result)]
            return told
        return self.result if isinstance(self.result, DType) else self.result(computed)

    def compute_dtype(self, values: Sequence[Any]) -> DType:
        """The dtype to which promoted arguments are cast; operands have `.dtype` and `.ndim`, or are numbers.

        DTypeError if this dtype, or that of an operand, is refused.
        """
        operands = [_operand(v) for v in _flat(values[i] for i in self.promoted) if v is not None]
        if self.computes_in is None:
            common = dtypes.result_type(operands)
            computed = dtypes.float_of(common) if self.promote == "float" else common
        else:
            computed = _operand(values[self.schema.argument_names.index(self.computes_in)])[0] or dtypes.DEFAULT
            if dtypes.result_type(operands).is_complex and not computed.is_complex:
                raise DTypeError(f"{self.schema.name}: a complex number does not fit into {computed.name}")
        for refusal in self.refusals:
            refusal.check(self, computed, operands)
        return computed

    @cached_property
    def promoted(self) -> tuple[int, ...]:
        """Positions of the arguments that are cast to one dtype before the body."""
        if self.promote is None:
            return ()
        if isinstance(self.promote, str):
            return self.tensors
        return tuple(i for i, a in enumerate(self.arguments) if a.name in self.promote)

    def __repr__(self) -> str:
        return f"<op {self.schema}>"


def _forget_decisions() -> None:
    """Let all operators decide anew on the dtypes of their results."""
    for op in REGISTRY.known():
        op.decisions.clear()


dtypes.FORGET_DTYPES.append(_forget_decisions)


@cache
def _positions(op: Op, function: Callable[..., Any], skipped: int) -> tuple[int, ...]:
    """Positions of the arguments that a function of a kernel names, behind its first `skipped` parameters."""
    names, known = _parameters(function)[skipped:], op.schema.argument_names
    for name in names:
        if name not in known:
            raise SchemaError(f"{op.name}: its kernel asks for {name!r}, which is none of {sorted(known)}")
    return tuple(map(known.index, names))


def _operand(value: Any) -> Operand:
    """The operand of `dtypes.result_type` that stands for a tensor type, an array or a number."""
    dtype = getattr(value, "dtype", None)
    known = isinstance(dtype, DType) or dtype is None
    return (dtype if known else dtypes.from_numpy(dtype)), getattr(value, "ndim", 0), value


def strides_of(type: TensorType) -> tuple[int, ...]:
    """The strides of a type whose sizes are known."""
    assert type.sizes is not None
    return contiguous_strides(type.sizes) if type.strides is None else type.strides


def _viewed(base: TensorType, dtype: DType, geometry: Geometry) -> TensorType:
    strides = None if geometry.is_contiguous else geometry.strides
    return TensorType(dtype, geometry.sizes, strides, base.device)


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flat(value)
        else:
            yield value


def _is_default(value: Any, default: Any) -> bool:
    if default is REQUIRED or type(value) is not type(default):
        return False
    return bool(value == default)


# -- registry ----------------------------------------------------------------------------------------------------

_NOTHING = Kernel()


def kernel_of(kind: str) -> Kernel:
    """The kernel facts of a node's operator; none if its kind is no operator."""
    op = find(kind)
    return _NOTHING if op is None else op.kernel


def _declare(kind: str, text: str, facets: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Op]:
    schema = parse_schema(text)

    def decorate(body: Callable[..., Any]) -> Op:
        _check_parameters(kind, schema, body)
        op = Op(kind, schema, body, body.__module__)
        for name, facet in facets.items():
            _set_facet(op, name, facet)
        declare(op)
        return op

    return decorate


_ATTRIBUTES = {"onnx": "symbolic", "samples": "sampler", "type": "type_rule", "numpy": "numpy_body"}
"""The attribute that holds a facet, where it has another name than the facet, whose name is its decorator's."""


def _set_facet(op: Op, name: str, facet: Any) -> None:
    if isinstance(facet, Absent):
        op.missing[name] = facet.reason
    elif name == "grad" and isinstance(facet, dict):
        for argument, function in facet.items():
            if argument not in op.schema.argument_names:
                raise SchemaError(f"{op.name}: a derivative is given for {argument!r}, which is not an argument")
            if isinstance(function, Absent):
                op.missing[f"grad.{argument}"] = function.reason
            else:
                op.derivatives[argument] = op._derivative(function)
    elif name == "grad":
        op.backward = op._derivative(facet)
    elif name == "kernel":
        op.set_kernel(facet)
    elif name == "cost":
        op.set_kernel(replace(op.kernel, cost=facet))
    else:
        setattr(op, _ATTRIBUTES.get(name, name), facet)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters; ten times as fast as `inspect.signature`, which would slow the import."""
    code = getattr(function, "__code__", None)
    spread = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if code is None or hasattr(function, "__wrapped__") or code.co_flags & spread:
        return tuple(inspect.signature(function).parameters)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _check_parameters(kind: str, schema: Schema, body: Callable[..., Any]) -> None:
    names = list(_parameters(body))[1:]
    skip = {"view": 1, "random": 1}.get(kind, 0)  # the geometry stands for `self`; the random state follows `m`
    wanted = [a.name for a in schema.arguments]
    if kind == "view":
        wanted = wanted[skip:]
    elif kind == "random":
        names = names[skip:]
        wanted = [a.name for a in schema.arguments if a.type.base != "Generator"]
    if names != wanted:
        raise SchemaError(f"{schema.qualified}: the schema names {wanted}, but the function takes {names}")


def pointwise(schema: str, **facets: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an op by its scalar body `f(m, *arguments)`; broadcasting and promotion are done by the caller.

    Facets: promote ("common", the default, or "float"), result, grad, onnx, samples, inplace, aliases, namespaces,
    raises, and cost, if it takes more than one or two instructions.
    """
    return _declare("pointwise", schema, {"promote": "common", **_common(facets)})


def array(schema: str, **facets: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an op by an array body `f(m, *arguments)` in numpy's terms. Needs a `type` rule."""
    return _declare("array", schema, _common(facets))


def view(schema: str, **facets: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare a view by its geometry `f(geometry, *other arguments)`, which returns one Geometry or a list."""
    return _declare("view", schema, _common(facets))


def random(schema: str, **facets: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare a random op by its body `f(m, state, *arguments)`, which returns (result, 128-bit blocks used).

    The schema ends in `Generator? generator=None`; a recorded node takes the state and returns its successor.
    """
    return _declare("random", schema, _common(facets))


def composite(schema: str, **facets: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an op by its expression in other ops, `f(F, *arguments)`. It is traced as itself."""
    return _declare("composite", schema, _common(facets))


def _common(facets: Mapping[str, Any]) -> dict[str, Any]:
    return {("has_inplace" if name == "inplace" else name): facet for name, facet in facets.items()}
