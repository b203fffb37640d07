"""Proxies that symbolics handle, for ONNX values (`OnnxProxy`) and for traced numbers (`Scalar`).

Note [Sizes in a symbolic]
    `x.shape` is a tuple in which a size that every run shares is an `int`, one that follows from dynamic axes is an
    expression (`SizeExpr`), and one of which nothing is known before the model runs is a `Scalar`. All of them can be
    computed with and handed to `g.ints`, `g.constant` or as an input of an operator, which writes the nodes that
    compute it when the model runs,

        %0 = Shape[start=0, end=1](x); %1 = Mul(%0, [2]); ...

    but what number it is - `range(size)` - has no answer, and `size == 4` has one only if that is the same in every
    run. Else it raises `Unsupported`, which ends in the list of what cannot be exported, rather than in a model that is
    right for one size. `type(size) is int` asks whether it is fixed; expressions pass for ints in `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from jit.ir import dtypes
from jit.ir.dtypes import DType

from .dims import Dim

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir

    from .builder import OnnxBuilder


class Unsupported(Exception):
    """A problem of a symbolic, which raises it: something that ONNX cannot express. The converter lists all of them."""

    def __init__(self, reason: str, since: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.since = since
        """The lowest opset that would do, where the symbolic knows it."""


class OnnxProxy:
    """A tensor of the model being built.

    Args:
        builder: The builder of the model.
        value: The ONNX value.
        dtype: The element type, or None if it is not known.
        dims: Sizes as far as they are known, or None if not even the rank is known.
        constant: The numbers, if the model holds them.
    """

    def __init__(
        self,
        builder: OnnxBuilder,
        value: onnx_ir.Value,
        dtype: DType | None = None,
        dims: tuple[Dim, ...] | None = None,
        constant: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self._builder = builder
        self._value = value
        self.dtype = dtype
        """The element type; None where it is not known."""
        self.dims = dims
        """Sizes: numbers, expressions, None where not known; None in all where not even the rank is known."""
        self.constant = constant
        """The numbers themselves, if the model holds them."""

    @property
    def value(self) -> onnx_ir.Value:
        """The ONNX value."""
        return self._value

    @property
    def known_dims(self) -> tuple[Dim, ...] | None:
        """`dims`, inferred from the node if they were not set."""
        if self.dims is None:
            self.dims = self._builder.infer_dims(self)
        return self.dims

    @property
    def ndim(self) -> int:
        """The rank; Unsupported where it is not known."""
        return len(self._need_dims())

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes; see Note [Sizes in a symbolic]."""
        dims = enumerate(self._need_dims())
        return tuple(self._builder.size_of(self, dim) if size is None else size for dim, size in dims)

    def _need_dims(self) -> tuple[Dim, ...]:
        dims = self.known_dims
        if dims is None:
            raise Unsupported("the rank of one of its tensors is not known")
        return dims

    def __bool__(self) -> bool:
        raise Unsupported("its export depends on the contents of a tensor")

    def __repr__(self) -> str:
        return f"<{self.dtype} {self.dims}>"


class Missing(OnnxProxy):
    """An output that ONNX does not give: an obstacle as soon as a node wants it as an input.

    Args:
        builder: The builder of the model.
        reason: The problem to report if a node takes it as an input.
        dtype: The element type, or None if it is not known.
        dims: Sizes as far as they are known, or None if not even the rank is known.
    """

    def __init__(self, builder: OnnxBuilder, reason: str, dtype: DType | None, dims: tuple[Dim, ...] | None) -> None:
        self._builder = builder
        self.reason = reason
        self.dtype = dtype
        self.dims = dims
        self.constant = None

    @property
    def value(self) -> onnx_ir.Value:
        """Not available: ONNX does not give this output.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported(self.reason)


class Scalar(OnnxProxy):
    """A traced number that is not the same in every run; its ONNX value is 0-d and made when first needed.

    Args:
        builder: The builder of the model.
        dtype: The element type.
        make: A function that makes the ONNX value.
    """

    def __init__(self, builder: OnnxBuilder, dtype: DType, make: Callable[[], onnx_ir.Value]) -> None:
        self._builder = builder
        self._made: onnx_ir.Value | None = None
        self._make = make
        self.dtype = dtype
        self.dims = ()
        self.constant = None

    @property
    def value(self) -> onnx_ir.Value:
        """The ONNX value, made now if it was not needed before."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def __repr__(self) -> str:
        return "a number that is traced"

    # -- what cannot be asked ------------------------------------------------------------------------------------

    def _refuse(self, *_: Any) -> NoReturn:
        raise Unsupported(f"it needs a fixed number where it is given {self}, which differs from run to run")

    __bool__ = __index__ = __int__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return False if other is None else self._refuse()

    __hash__ = object.__hash__

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _with(self, name: str, left: Any, right: Any) -> Scalar:
        return self._builder.arithmetic(name, left, right)

    def __add__(self, other: Any) -> Scalar:
        return self._with("add", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return self._with("add", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return self._with("sub", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return self._with("sub", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return self._with("mul", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return self._with("mul", other, self)

    def __floordiv__(self, other: Any) -> Scalar:
        return self._with("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Scalar:
        return self._with("floordiv", other, self)

    def __rmod__(self, other: Any) -> Scalar:
        return self._with("mod", other, self)

    def __mod__(self, other: Any) -> Scalar:
        return self._with("mod", self, other)

    def __neg__(self) -> Scalar:
        return self._with("sub", 0, self)


KINDS: dict[str, DType] = {"int": dtypes.int64, "float": dtypes.float64, "bool": dtypes.bool_}
"""The element type that stands for a traced Python number of each kind."""


def kind_of(dtype: DType | None) -> str:
    """The Python type that a Scalar of this element type stands for."""
    return next(kind for kind, known in KINDS.items() if known is dtype)
