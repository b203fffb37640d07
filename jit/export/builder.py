"""The node builder `g` that a symbolic writes ONNX with: `return g.op("Relu", x)`.

    g.op("Concat", a, b, axis=0)       a node; an OnnxProxy, or a tuple of them with outputs=2
    g.constant(2, like=x)              a number, list or array in x's element type
    g.ints([n, -1])                    a 1-D int64 tensor of numbers and traced sizes
    g.cast(x, jit.float32)             nothing to do if x is that already
    g.pairs(z), g.from_pairs(x)        a complex tensor as real numbers, and back
    g.reduce("ReduceSum", x, dim, keepdim)
    g.out, g.outs                      dtype, shape and ndim of what the operator returned when it was traced
    g.opset                            the opset that is being written
    g.runs("CumProd", x.dtype)         whether a new operator is written as itself
    raise g.unsupported("why")         to be listed with everything else that cannot be exported

Symbolics write the newest form of each operator; `legacy` rewrites it for older opsets. An operator, attribute or
element type that the opset does not know is `Unsupported`, so that a symbolic needs no table of versions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.geometry import wrap_dims
from jit.ir.sizes import SizeExpr

from . import complexes
from .complexes import Pairs, as_pairs
from .dims import Dim, ExportedType
from .opsets import KERNELS, OPSETS, TYPE_STRINGS, dtype_of, element_type
from .proxies import OnnxProxy, Scalar, Unsupported
from .signatures import Signature, first_opset, signature
from .size_nodes import SizeNodes, needs_a_number

if TYPE_CHECKING:
    import onnx_ir

__all__ = ["OnnxBuilder", "Origin", "Recorded"]


WRITTEN_OUT = {"STFT": ("onesided",)}
"""Attributes that are written even if they say the default, since onnx's shape inference takes a missing one for 0."""


@dataclass(frozen=True)
class Origin:
    """The part of the traced program that a node comes from."""

    op: str = ""
    """The kind of the traced node: `aten::linear`."""
    scope: str = ""
    source: str = ""
    """The user's line: `model.py:12 in forward`."""

    @property
    def properties(self) -> dict[str, str]:
        """The origin as ONNX keeps it with a node."""
        parts = {"jit.op": self.op, "jit.scope": self.scope, "jit.source": self.source}
        return {key: text for key, text in parts.items() if text}


@dataclass
class Recorded:
    """A result of an operator as it was when traced: `g.out`."""

    builder: OnnxBuilder
    type: ExportedType

    @property
    def dtype(self) -> DType | None:
        """The element type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The rank; Unsupported where it is not known."""
        return len(self._dims())

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes: numbers, expressions of dynamic axes, and Scalars that cannot be used where they are unknown."""
        return tuple(self.builder.unknown_size() if size is None else size for size in self._dims())

    def _dims(self) -> tuple[Dim, ...]:
        if self.type.shape is None:
            raise Unsupported("the rank of its result is not known")
        return self.type.shape


@dataclass
class OnnxCall:
    """A node about to be made; `legacy` may change it."""

    name: str
    inputs: list[OnnxProxy | None]
    attributes: dict[str, Any]
    outputs: int = 1
    origin: Origin = field(default_factory=Origin)


def _without_saturation(dtype: DType) -> dict[str, Any]:
    """The attributes by which a cast rounds as tensors do: what floats of 8 bits cannot say is infinite, or NaN."""
    if not (dtype.is_floating_point and dtype.is_stored):
        return {}
    return {"saturate": 0, "round_mode": "nearest"} if dtype is dtypes.float8_e8m0fnu else {"saturate": 0}


class OnnxBuilder:
    """Makes ONNX nodes for one opset, in order."""

    def __init__(self, opset: int) -> None:
        import onnx_ir

        self._ir = onnx_ir
        self.opset = opset
        """The version of the standard operators."""
        self.sizes = SizeNodes(self)
        """Writes sizes that follow from dynamic axes."""
        self.nodes: list[onnx_ir.Node] = []
        self.constants: dict[Any, OnnxProxy] = {}
        """Every constant once, by element type, shape and bytes."""
        self.proxies: dict[onnx_ir.Value, OnnxProxy] = {}
        """The stand-in of every value."""
        self.domains: set[str] = set()
        """Domains other than the standard one that nodes come from."""
        self.origin = Origin()
        """The origin of the nodes made from now on."""
        self.outs: list[Recorded] = []
        """The results that the operator being written had when it was traced."""
        self._sizes: dict[tuple[onnx_ir.Value, int], Scalar] = {}
        self._serial = 0

    @property
    def out(self) -> Recorded:
        """The first of `outs`."""
        return self.outs[0]

    # -- what symbolics call -------------------------------------------------------------------------------------

    def op(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """A node `name` (of another domain: `domain::name`).

        Args:
            name: The ONNX operator.
            inputs: Proxies, and None for an optional input that is left out; numbers and lists become constants.
            outputs: How many outputs to make.
            attributes: Numbers, strings, lists, DTypes and arrays; None is left out.

        Returns:
            An OnnxProxy, or a tuple of them if `outputs` is not 1.
        """
        from . import legacy

        given = {key: item for key, item in attributes.items() if item is not None}
        call = OnnxCall(name, self._inputs(name, inputs), given, outputs)
        if complexes.is_complex(call):
            return complexes.write(self, call)
        domain, _, bare = name.rpartition("::")
        if domain:
            return self._results(self._foreign(domain, bare, call))
        return legacy.write(self, call)

    def constant(self, value: Any, like: OnnxProxy | None = None, dtype: DType | str | None = None) -> OnnxProxy:
        """`value` (a number, list, array or traced number) in `dtype`, or in the element type of `like`.

        Args:
            value: A number, a list, an array or a traced number.
            like: A proxy whose element type is wanted, or None.
            dtype: The element type, which comes before that of `like`; that of the value if neither is given.
        """
        if dtype is None:
            dtype = like.dtype if like is not None else None
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        if type(value) is SizeExpr:
            value = self.sizes.number(value)
        if isinstance(value, OnnxProxy):
            return value if dtype is None else self.cast(value, dtype)
        array = _as_array(value, dtype)
        if array.dtype.kind == "c":
            return Pairs(self.constant(as_pairs(array)), array)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = self._constant(array)
        return self.constants[key]

    def ints(self, items: Any) -> OnnxProxy:
        """A 1-D int64 tensor of whole numbers, some of which may be traced."""
        if isinstance(items, OnnxProxy) and not isinstance(items, Scalar):
            return self.cast(items, dtypes.int64)
        listed = list(items) if isinstance(items, (tuple, list)) else [items]
        if not any(map(_is_traced, listed)):
            return self.constant(np.array([operator.index(item) for item in listed], np.int64))
        if not any(isinstance(item, OnnxProxy) for item in listed):
            return self.sizes.several(listed)
        pieces = [piece for traced, run in groupby(listed, _is_traced) for piece in self._pieces(traced, list(run))]
        return pieces[0] if len(pieces) == 1 else self.op("Concat", *pieces, axis=0)

    def cast(self, x: OnnxProxy, dtype: DType | str | None) -> OnnxProxy:
        """`x` in another element type; `x` itself if it is in that already, or if `dtype` is None."""
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        if dtype is None or x.dtype is dtype:
            return x
        if x.constant is not None:
            with np.errstate(all="ignore"):
                return self.constant(x.constant.astype(dtype.numpy))
        return self.op("Cast", x, to=dtype, **_without_saturation(dtype))

    def pairs(self, x: OnnxProxy) -> OnnxProxy:
        """A complex tensor as real numbers: both parts in a last dim of size 2."""
        return complexes.pairs_of(self, x)

    def from_pairs(self, pairs: OnnxProxy) -> OnnxProxy:
        """Real numbers whose last dim, of size 2, holds both parts, as a complex tensor."""
        return Pairs(pairs)

    def reduce(self, name: str, x: OnnxProxy, dim: Any, keepdim: bool, **attributes: Any) -> OnnxProxy:
        """`name`, one of the `Reduce...` operators, over `dim` (None or empty: all of them).

        Args:
            name: The operator.
            x: The tensor.
            dim: A dim, several, or None.
            keepdim: Whether the dims stay, of size 1.
            attributes: Further attributes of the node.
        """
        dims = wrap_dims(tuple(dim) if isinstance(dim, (tuple, list)) else dim, x.ndim)
        axes = None if len(dims) >= x.ndim else self.ints(sorted(dims))  # dims 0 and -1 are allowed for a 0-d tensor
        return self.op(name, x, axes, keepdims=int(keepdim), **attributes)

    def runs(self, name: str, dtype: DType | None) -> bool:
        """Whether an operator that is newer than the default opset is to be written as itself, and not as its parts.

        Args:
            name: The operator.
            dtype: The element type of what it computes.
        """
        opsets, types = KERNELS[name]
        return self.opset in opsets and dtype in types

    def unsupported(self, reason: str, since: int | None = None) -> Unsupported:
        """An exception to raise: `reason` completes the sentence "aten::op cannot be exported: ...".

        Args:
            reason: What ONNX lacks.
            since: The lowest opset that would do, if one does.
        """
        return Unsupported(reason, since)

    # -- sizes ---------------------------------------------------------------------------------------------------

    def size_of(self, x: OnnxProxy, dim: int) -> Scalar:
        """The size of a dim of which nothing is known before the model runs.

        Args:
            x: The tensor.
            dim: Its dim.
        """
        key = (x.value, dim)
        if key not in self._sizes:
            self._sizes[key] = Scalar(self, dtypes.int64, lambda: self._written_size(x, dim))
        return self._sizes[key]

    def unknown_size(self) -> Scalar:
        """The size of a result that is not known, and does not exist yet."""
        return Scalar(self, dtypes.int64, _refuse_unknown_size)

    def scalar(self, dtype: DType, make: Callable[[], OnnxProxy]) -> Scalar:
        """A traced number whose nodes are written when it is first needed, as part of the present operator."""
        origin, outs = self.origin, self.outs

        def write() -> onnx_ir.Value:
            now = self.origin, self.outs
            self.origin, self.outs = origin, outs
            try:
                return make().value
            finally:
                self.origin, self.outs = now

        return Scalar(self, dtype, write)

    def arithmetic(self, name: str, left: Any, right: Any) -> Scalar:
        """A traced number computed from others: "add", "sub", "mul", "floordiv", "mod", ...

        Args:
            name: The operator's name after `prim::`.
            left: A number, traced or not.
            right: A number, traced or not.
        """
        from .scalars import write_scalar

        return write_scalar(self, name, (left, right))

    def _written_size(self, x: OnnxProxy, dim: int) -> onnx_ir.Value:
        shape = self.op("Shape", x)
        return self.op("Gather", shape, self.constant(dim, dtype=dtypes.int64), axis=0).value

    # -- nodes ---------------------------------------------------------------------------------------------------

    def write(self, call: OnnxCall) -> tuple[OnnxProxy, ...]:
        """The node of a call that is in the form of this opset.

        Raises:
            Unsupported: The opset has no such operator, or it does not take these inputs or attributes.
        """
        known = signature(call.name, self.opset)
        if known is None:
            raise _unknown_operator(call.name, self.opset)
        attributes = self._attributes(call, known)
        self._check_inputs(call, known)
        given = [(index, x.dtype) for index, x in enumerate(call.inputs) if x is not None]
        numbers = {key: item for key, item in attributes.items() if isinstance(item, int)}
        result = [known.result_dtype(index, given, numbers) for index in range(call.outputs)]
        return self._node("", call, self._encoded(attributes, known), result)

    def _foreign(self, domain: str, name: str, call: OnnxCall) -> tuple[OnnxProxy, ...]:
        self.domains.add(domain)
        first = next((x.dtype for x in call.inputs if x is not None), None)
        plain = {key: _plain(item) for key, item in call.attributes.items()}
        encoded = [self._ir.convenience.convert_attribute(key, self._as_tensor(item)) for key, item in plain.items()]
        return self._node(domain, OnnxCall(name, call.inputs, {}, call.outputs), encoded, [first] * call.outputs)

    def _node(
        self, domain: str, call: OnnxCall, attributes: list[onnx_ir.Attr], types: Sequence[DType | None]
    ) -> tuple[OnnxProxy, ...]:
        values = [None if x is None else x.value for x in call.inputs]
        while values and values[-1] is None:
            values.pop()
        node = self._ir.Node(
            domain, call.name, values, attributes, num_outputs=call.outputs, metadata_props=self.origin.properties
        )
        self.nodes.append(node)
        made = tuple(OnnxProxy(self, value, dtype) for value, dtype in zip(node.outputs, types, strict=True))
        self.proxies.update(zip(node.outputs, made, strict=True))
        return made

    def node(
        self, call: OnnxCall, attributes: list[onnx_ir.Attr], types: Sequence[DType | None]
    ) -> Sequence[OnnxProxy]:
        """The results of a node that is written as it is.

        Args:
            call: The name, the inputs and the number of outputs.
            attributes: The attributes, as ONNX has them.
            types: The element types of the outputs.
        """
        return self._node("", call, attributes, types)

    def forget_sizes(self) -> Any:
        """Forget which nodes hold sizes, as those to come are not seen outside; returns what `remember_sizes` takes."""
        memory = self._sizes, self.sizes.memory()
        self._sizes = {}
        return memory

    def remember_sizes(self, memory: Any) -> None:
        """Remember again which nodes hold sizes, and no others; `memory` is what `forget_sizes` returned."""
        self._sizes, of_axes = memory
        self.sizes.restore(of_axes)

    def _results(self, made: tuple[OnnxProxy, ...]) -> Any:
        return made[0] if len(made) == 1 else made

    def _inputs(self, name: str, inputs: Sequence[Any]) -> list[OnnxProxy | None]:
        newest = signature(name, OPSETS[-1])

        def prepare(index: int, item: Any) -> OnnxProxy | None:
            if item is None or isinstance(item, OnnxProxy):
                return item
            if isinstance(item, (tuple, list)):
                return self.ints(item)
            return self.constant(item, None if isinstance(item, np.ndarray) else _fellow(newest, index, inputs))

        return [prepare(index, item) for index, item in enumerate(inputs)]

    def _attributes(self, call: OnnxCall, known: Signature) -> dict[str, Any]:
        """Plain values of the attributes, without those that say the default, which older opsets may not know."""
        plain = {key: _plain(item) for key, item in call.attributes.items()}
        for key in [key for key in plain if key not in known.attributes]:
            if not _is_later_default(call.name, key, plain.pop(key)):
                raise Unsupported(f"{call.name} has no attribute {key} at opset {self.opset}")
        written = WRITTEN_OUT.get(call.name, ())
        return {key: x for key, x in plain.items() if key in written or known.attributes[key].default != x}

    def _check_inputs(self, call: OnnxCall, known: Signature) -> None:
        for declared, given in zip_longest(known.inputs, call.inputs[: len(known.inputs)]):
            if declared.required and given is None:
                raise Unsupported(f"{call.name} cannot do without {declared.name} at opset {self.opset}")
        letters: dict[str, DType] = {}
        for index, x in enumerate(call.inputs):
            formal = known.formal(index)
            if x is None or x.dtype is None:
                continue
            if formal is None:
                raise Unsupported(f"{call.name} takes {len(known.inputs)} inputs at opset {self.opset}")
            if TYPE_STRINGS[x.dtype] not in formal.allowed:
                raise Unsupported(f"{call.name} does not take {x.dtype.name} at opset {self.opset}")
            if formal.homogeneous and letters.setdefault(formal.letter, x.dtype) is not x.dtype:
                raise Unsupported(f"{call.name} is given {letters[formal.letter].name} and {x.dtype.name} at once")

    def _encoded(self, attributes: dict[str, Any], known: Signature) -> list[onnx_ir.Attr]:
        convert = self._ir.convenience.convert_attribute
        kinds = self._ir.AttributeType
        return [
            convert(key, _of_kind(self._as_tensor(item), known.attributes[key].kind), kinds[known.attributes[key].kind])
            for key, item in attributes.items()
        ]

    def _as_tensor(self, item: Any) -> Any:
        return self.tensor(item) if isinstance(item, np.ndarray) else item

    # -- constants -----------------------------------------------------------------------------------------------

    def tensor(self, array: np.ndarray[Any, Any], name: str | None = None) -> onnx_ir.Tensor[Any]:
        """An ONNX tensor of the array's numbers, bit for bit; of complex ones, their pairs."""
        array = as_pairs(array)
        dtype = self._ir.DataType(element_type(dtype_of(array)))
        return self._ir.Tensor(array, dtype, name=name)

    def _constant(self, array: np.ndarray[Any, Any]) -> OnnxProxy:
        value = self.new_value(dtype_of(array), array.shape)
        value.const_value = self.tensor(array)
        return self.stand_in(value, dtype_of(array), array.shape, array)

    def stand_in(
        self, value: onnx_ir.Value, dtype: DType | None, dims: tuple[Dim, ...] | None, constant: Any = None
    ) -> OnnxProxy:
        """The OnnxProxy of a value that no node makes; of complex numbers, the value holds pairs.

        Args:
            value: The ONNX value.
            dtype: The element type, or None if it is not known.
            dims: Sizes as far as they are known, or None if not even the rank is known.
            constant: The numbers, if the model holds them.
        """
        if dtype is not None and dtype.is_complex:
            dims = None if dims is None else (*dims, 2)
            return Pairs(self.stand_in(value, dtypes.real_of(dtype), dims), constant)
        self.proxies[value] = OnnxProxy(self, value, dtype, dims, constant)
        return self.proxies[value]

    def new_value(self, dtype: DType | None, dims: tuple[Dim, ...] | None, name: str | None = None) -> onnx_ir.Value:
        """A value that no node makes: an input, an initializer, a constant.

        Args:
            dtype: The element type, or None if it is not known.
            dims: Sizes as far as they are known, or None if not even the rank is known.
            name: The name of the value, or None.
        """
        value = self._ir.Value(name=name)
        self.set_type(value, dtype, dims)
        return value

    def set_type(self, value: onnx_ir.Value, dtype: DType | None, dims: tuple[Dim, ...] | None) -> None:
        """Set the element type and sizes of a value.

        Args:
            value: The ONNX value.
            dtype: The element type, or None if it is not known.
            dims: Sizes as far as they are known, or None if not even the rank is known.
        """
        if dtype is not None and dtype.is_complex:
            dtype, dims = dtypes.real_of(dtype), None if dims is None else (*dims, 2)
        if dtype is not None:
            value.type = self._ir.TensorType(self._ir.DataType(element_type(dtype)))
        if dims is not None:
            value.shape = self._ir.Shape([self.sizes.text(size) for size in dims])

    def _pieces(self, traced: bool, run: list[Any]) -> list[OnnxProxy]:
        if not traced:
            return [self.ints(run)]
        return [self._line(item) for item in run]

    def _line(self, item: Any) -> OnnxProxy:
        """A traced number as a tensor with one dim."""
        if isinstance(item, OnnxProxy):
            return self.op("Reshape", self.cast(item, dtypes.int64), self.ints([1]))
        return self.sizes.line(item)

    # -- inference -----------------------------------------------------------------------------------------------

    def infer_dims(self, x: OnnxProxy) -> tuple[Dim, ...] | None:
        """The sizes that ONNX's own shape inference gives the output of one node."""
        from .inference import infer_dims

        node = x.value.producer()
        return None if node is None else infer_dims(self, node, x.value)


# -- helpers -----------------------------------------------------------------------------------------------------


def _is_traced(item: Any) -> bool:
    return isinstance(item, OnnxProxy) or type(item) is SizeExpr


def _fellow(known: Signature | None, index: int, inputs: Sequence[Any]) -> OnnxProxy | None:
    """An input that has the same element type as input number `index`, by the operator's declaration."""
    formal = known.formal(index) if known else None
    for other, item in enumerate(inputs):
        declared = known.formal(other) if known else None
        if (
            isinstance(item, OnnxProxy)
            and formal is not None
            and declared is not None
            and declared.letter == formal.letter
        ):
            return item
    return None


def _refuse_unknown_size() -> Any:
    raise Unsupported("it needs the size of its result before that exists")


def _unknown_operator(name: str, opset: int) -> Unsupported:
    since = first_opset(name)
    if since is None:
        return Unsupported(f"there is no ONNX operator {name}")
    if since > opset:
        return Unsupported(f"{name} is in ONNX from opset {since} on", since)
    return Unsupported(f"ONNX has dropped {name} before opset {opset}")


def _as_array(value: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """A fresh row-major array in `dtype`; Python's own numbers become bool, int64 and float32."""
    array = np.asarray(value)
    if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
        dtype = {"b": dtypes.bool_, "i": dtypes.int64, "u": dtypes.int64, "f": dtypes.DEFAULT}.get(array.dtype.kind)
    wanted = (dtype or dtype_of(array)).numpy
    with np.errstate(all="ignore"):
        return np.array(array, wanted, order="C")


def _plain(item: Any) -> Any:
    """An attribute in Python's own types, arrays aside."""
    if isinstance(item, DType):
        return element_type(item)
    if type(item) is SizeExpr:
        raise Unsupported(needs_a_number(item))
    if isinstance(item, OnnxProxy):
        if item.constant is None:
            raise Unsupported("it needs a fixed number where it is given one that differs from run to run")
        item = item.constant
    if isinstance(item, (tuple, list)):
        return [_plain(each) for each in item]
    if isinstance(item, (bool, np.bool_)):
        return int(item)
    return item.item() if isinstance(item, np.generic) else item


def _of_kind(item: Any, kind: str) -> Any:
    """A plain attribute as the declared kind wants it: the list (1,) for 1, 1.0 for 1."""
    if isinstance(item, np.ndarray):
        return item
    if kind in ("INTS", "FLOATS", "STRINGS") and not isinstance(item, list):
        item = [item]
    if kind == "FLOAT":
        return float(item)
    if kind == "FLOATS":
        return [float(each) for each in item]
    return item


def _is_later_default(name: str, key: str, item: Any) -> bool:
    """Whether a newer opset's attribute is given the value that it has when left out."""
    newest = signature(name, OPSETS[-1])
    declared = newest.attributes.get(key) if newest else None
    if declared is None:
        return False
    return declared.default == item or (key == "dilations" and set(item) == {1})  # documented, but not in the schema
