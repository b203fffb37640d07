"""Types of Values: a tensor, a scalar that Python would have seen, a Handle, a Generator, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .dtypes import DType
from .sizes import SizeExpr, are_decided

Dim: TypeAlias = "int | SizeExpr | None"
"""A size: a number, an expression of symbols (a dynamic axis is one), or unknown."""


@dataclass(frozen=True, slots=True)
class Type:
    """Base of the types; `str()` is the form that the IR text uses."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorType(Type):
    """The type of a strided array: `Float(2, 3)`, or `Tensor` where nothing is known. Equal ones have equal texts."""

    dtype: DType | None = None
    shape: tuple[Dim, ...] | None = None
    strides: tuple[int, ...] | None = None
    """Steps in elements; None means contiguous."""
    device: str = "cpu"

    @property
    def ndim(self) -> int | None:
        """The number of dims, None where unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape if every size is a known number, else None.

        Expressions, of strides too, count as known in a `deciding` block, where somebody answers questions about them.
        """
        for dim in (*(self.shape or ()), *(self.strides or ())):
            if type(dim) is not int and (type(dim) is not SizeExpr or not are_decided()):
                return None
        return self.shape  # type: ignore[return-value]

    @property
    def numel(self) -> int | None:
        """The number of elements, None where a size is unknown."""
        sizes = self.sizes
        if sizes is None:
            return None
        count = 1
        for size in sizes:
            count *= size
        return count

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TensorType) or self.dtype is not other.dtype or self.device != other.device:
            return False
        return _same(self.shape, other.shape) and _same(self.strides, other.strides)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, self.strides, self.device))

    def __str__(self) -> str:
        name = self.dtype.text if self.dtype else "Tensor"
        if self.shape is None:
            return name
        dims = [str(d) if d is not None else "?" for d in self.shape]
        if self.strides is not None:
            dims.append(f"strides={list(self.strides)}")
        if self.device != "cpu":
            dims.append(f"device={self.device}")
        return f"{name}({', '.join(dims)})"


def _same(a: tuple[Dim, ...] | None, b: tuple[Dim, ...] | None) -> bool:
    """Whether dims are the same numbers and expressions; nobody is asked whether expressions are equal by chance."""
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(
        x is y or (x.is_same(y) if type(x) is SizeExpr else type(y) is not SizeExpr and x == y)
        for x, y in zip(a, b, strict=True)
    )


@dataclass(frozen=True, slots=True)
class ScalarType(Type):
    """The type of a traced Python number: `int`, `float`, `bool` or `complex`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class HandleType(Type):
    """The type of an opaque value that a node hands to a `prim::Eval`, mostly of a later stage."""

    def __str__(self) -> str:
        return "Handle"


@dataclass(frozen=True, slots=True)
class GeneratorType(Type):
    """The state of a random generator: a seed and an offset; see `RandomState`."""

    def __str__(self) -> str:
        return "Generator"


@dataclass(frozen=True, slots=True)
class UndefinedType(Type):
    """The type of an undefined tensor: a missing optional argument or gradient."""

    def __str__(self) -> str:
        return "Undefined"


INT, FLOAT, BOOL, COMPLEX_SCALAR = ScalarType("int"), ScalarType("float"), ScalarType("bool"), ScalarType("complex")
HANDLE, GENERATOR, UNDEFINED = HandleType(), GeneratorType(), UndefinedType()
TENSOR = TensorType()


def contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements: (2, 3) -> (3, 1)."""
    strides = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True if elements follow each other in row-major order; dims of size 1 and empty arrays do not matter."""
    if 0 in sizes:
        return True
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if stride != step and size != 1:
            return False
        step *= size
    return True
