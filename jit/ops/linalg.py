"""Products of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.geometry import broadcast_shapes, wrap_dim
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite
from jit.ir.precision import LOWER, Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .contractions import contracted
from .views import sum_to

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Meta, Number, Numpy, OnnxWriter, Ops, Tensor, Value


def _check(name: str, shapes: Any, dtypes: Any, ranks: Any, matches: Any) -> None:
    """Ranks, one dtype, and pairs of sizes that must be equal: ((operand, dim), (operand, dim))."""
    for shape, rank in zip(shapes, ranks):
        if len(shape) != rank:
            raise ShapeError(f"{name}: expects a tensor of {rank} dims, got the sizes {list(shape)}")
    if dtypes.count(dtypes[0]) < len(dtypes):
        raise DTypeError(f"{name}: expects one dtype, got {' and '.join(str(d) for d in dtypes)}; cast one of them")
    for (i, a), (j, b) in matches:
        if shapes[i][a] != shapes[j][b]:
            raise ShapeError(
                f"{name}: the sizes {list(shapes[i])} and {list(shapes[j])} do not fit: {shapes[i][a]} and "
                f"{shapes[j][b]} should be equal"
            )


def _scaled(x: Any, factor: Number) -> Tensor:
    return x if factor == 1 else x * factor


def _scaled_in_dtype(F: Ops, x: Tensor, factor: Number) -> Tensor:
    """`x * factor`, the factor first cast to what `x` is: integers take its whole part, bools its truth."""
    if factor == 1 or x.dtype.is_floating_point or x.dtype.is_complex:
        return _scaled(x, factor)
    return x * (bool(factor) if x.dtype is dtypes.bool_ else int(factor))


def _typed(first: TensorType, *sizes: Any) -> TensorType:
    return TensorType(first.dtype, tuple(sizes), None, first.device)


# -- two operands ------------------------------------------------------------------------------------------------

_MM = ((2, 2), (((0, 1), (1, 0)),))
_BMM = ((3, 3), (((0, 0), (1, 0)), ((0, 2), (1, 1))))
_MV = ((2, 1), (((0, 1), (1, 0)),))
_DOT = ((1, 1), (((0, 0), (1, 0)),))


def _grad_of_right(F: Ops, g: Tensor, self: Tensor, mat2_geometry: Meta) -> Any:
    """self.T @ g, the gradient of mat2.

    Where mat2 is a transposed view, such as the weight in `x @ w.T`, the result is laid out as mat2 is, so that the
    gradients of `w`, which are added up, are row-major.
    """
    rows, columns = mat2_geometry.stride()
    return F.mm(F.t(self), g) if rows >= columns else F.t(F.mm(F.t(g), self))


@LOWER
@array("aten::mm(Tensor self, Tensor mat2) -> Tensor", onnx="MatMul",
       kernel=Kernel(step="product", product="matrices", flops=lambda out, mat2: 2 * out.numel * mat2.sizes[-2]),
       grad=dict(self=lambda F, g, mat2: F.mm(g, F.t(mat2)), mat2=_grad_of_right))  # fmt: skip
def mm(m: Numpy, self: Array, mat2: Array) -> Array:
    """The product of two matrices: [n, k] and [k, p] give [n, p]."""
    _check("mm", (self.shape, mat2.shape), (self.dtype, mat2.dtype), *_MM)
    return m.matmul(self, mat2)


@mm.type
def _(self: KnownType, mat2: KnownType) -> TensorType:
    _check("mm", (self.sizes, mat2.sizes), (self.dtype, mat2.dtype), *_MM)
    return _typed(self, self.shape[0], mat2.shape[1])


@mm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(3, 4, seed=1))
    yield sample(strided(make(2, 3)), strided(make(3, 4)), note="strided")
    yield sample(make(2, 0), make(0, 3), note="empty", onnx=False)
    yield sample(make(0, 2), make(2, 3), note="empty")
    yield sample(make(2, 3, dtype="float16"), make(3, 2, dtype="float16"), note="half", grad=False)
    whole = make(2, 3, low=-9, high=9, dtype="int64")
    yield sample(whole, make(3, 2, low=-9, high=9, dtype="int64"), note="integer", grad=False)


@LOWER
@array("aten::bmm(Tensor self, Tensor mat2) -> Tensor", onnx="MatMul",
       kernel=Kernel(step="product", product="matrices", flops=lambda out, mat2: 2 * out.numel * mat2.sizes[-2]),
       grad=dict(self=lambda F, g, mat2: F.bmm(g, F.transpose(mat2, 1, 2)),
                 mat2=lambda F, g, self: F.bmm(F.transpose(self, 1, 2), g)))  # fmt: skip
def bmm(m: Numpy, self: Array, mat2: Array) -> Array:
    """The products of two batches of matrices: [b, n, k] and [b, k, p] give [b, n, p]."""
    _check("bmm", (self.shape, mat2.shape), (self.dtype, mat2.dtype), *_BMM)
    return m.matmul(self, mat2)


@bmm.type
def _(self: KnownType, mat2: KnownType) -> TensorType:
    _check("bmm", (self.sizes, mat2.sizes), (self.dtype, mat2.dtype), *_BMM)
    return _typed(self, self.shape[0], self.shape[1], mat2.shape[2])


@bmm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2, 3), make(2, 3, 4, seed=1))
    yield sample(strided(make(2, 2, 3)), make(2, 3, 2), note="strided")
    yield sample(make(0, 2, 3), make(0, 3, 2), note="empty")


@Precision(cuda="lower")
@array("aten::mv(Tensor self, Tensor vec) -> Tensor", onnx="MatMul",
       kernel=Kernel(step="product", product="vectors", flops=lambda out, self: 2 * self.numel),
       grad=dict(self=lambda F, g, vec: F.outer(g, vec), vec=lambda F, g, self: F.mv(F.t(self), g)))  # fmt: skip
def mv(m: Numpy, self: Array, vec: Array) -> Array:
    """The product of a matrix and a vector: [n, k] and [k] give [n]."""
    _check("mv", (self.shape, vec.shape), (self.dtype, vec.dtype), *_MV)
    return m.matmul(self, vec)


@mv.type
def _(self: KnownType, vec: KnownType) -> TensorType:
    _check("mv", (self.sizes, vec.sizes), (self.dtype, vec.dtype), *_MV)
    return _typed(self, self.shape[0])


@mv.parts
def _(F: Ops, self: Tensor, vec: Tensor) -> Tensor:
    return F.squeeze(F.mm(self, F.unsqueeze(vec, 1)), 1)


@mv.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(3, seed=1))
    yield sample(strided(make(2, 3)), make(6)[::2], note="strided")
    yield sample(make(2, 0), make(0), note="empty", onnx=False)


@Precision(cuda="widest")
@array("aten::dot(Tensor self, Tensor tensor) -> Tensor", onnx="MatMul",
       kernel=Kernel(step="inner product", product="vectors", flops=lambda out, self: 2 * self.numel),
       grad=dict(self=lambda F, g, tensor: g * tensor, tensor=lambda F, g, self: g * self))  # fmt: skip
def dot(m: Numpy, self: Array, tensor: Array) -> Array:
    """The sum of the products of two vectors' elements."""
    _check("dot", (self.shape, tensor.shape), (self.dtype, tensor.dtype), *_DOT)
    return m.asarray(m.dot(self, tensor))


@dot.type
def _(self: KnownType, tensor: KnownType) -> TensorType:
    _check("dot", (self.sizes, tensor.sizes), (self.dtype, tensor.dtype), *_DOT)
    return _typed(self)


@dot.samples
def _() -> Iterator[Sample]:
    yield sample(make(4), make(4, seed=1))
    yield sample(make(8)[::2], make(4, seed=1), note="strided")
    yield sample(make(0), make(0), note="empty", onnx=False)


@composite("aten::outer(Tensor self, Tensor vec2) -> Tensor", aliases=("ger",))
def outer(F: Ops, self: Tensor, vec2: Tensor) -> Tensor:
    """The products of each element of self with each of vec2: [n] and [m] give [n, m]."""
    if self.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(f"outer: expects two vectors, got the sizes {list(self.shape)} and {list(vec2.shape)}")
    return F.unsqueeze(self, 1) * vec2


@outer.samples
def _() -> Iterator[Sample]:
    yield sample(make(2), make(3, seed=1))
    yield sample(make(0), make(3), note="empty")


# -- with a summand ----------------------------------------------------------------------------------------------


def _check_summand(name: str, sizes: Ints, product: Ints) -> None:
    if sizes != product[len(product) - len(sizes) :] and broadcast_shapes(sizes, product) != product:
        raise ShapeError(f"{name}: the sizes {list(sizes)} do not broadcast to those of the product, {list(product)}")


def _plus(m: Numpy, name: str, self: Array, product: Any, beta: Number, alpha: Number) -> Any:
    """`beta * self + alpha * product`, without looking at `self` where beta is 0."""
    _check_summand(name, self.shape, product.shape)
    if product.dtype.kind == "b" and (alpha != 1 or beta not in (0, 1)):
        raise DTypeError(f"{name}: bools are not scaled by numbers; cast with x.int()")
    if product.dtype.kind in "iu":
        alpha, beta = int(alpha), int(beta)
    product = _scaled(product, alpha)
    return product if beta == 0 else product + _scaled(self, beta)


@LOWER
@array("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", inplace=True,
       kernel=Kernel(step="product and sum", product="matrices", flops=lambda out, mat2: 2 * out.numel * mat2.sizes[0]),
       grad=dict(self=lambda F, g, self_meta, beta: sum_to(F, _scaled(g, beta), self_meta.shape),
                 mat1=lambda F, g, mat2, alpha: F.mm(_scaled(g, alpha), F.t(mat2)),
                 mat2=lambda F, g, mat1, mat2_geometry, alpha:
                 _grad_of_right(F, _scaled(g, alpha), mat1, mat2_geometry)))  # fmt: skip
def addmm(m: Numpy, self: Array, mat1: Array, mat2: Array, beta: Number, alpha: Number) -> Array:
    """beta * self + alpha * (mat1 @ mat2); self is not looked at where beta is 0."""
    _check("addmm", (mat1.shape, mat2.shape), (mat1.dtype, mat2.dtype, self.dtype), *_MM)
    return _plus(m, "addmm", self, m.matmul(mat1, mat2), beta, alpha)


@addmm.type
def _(self: KnownType, mat1: KnownType, mat2: KnownType, beta: Number, alpha: Number) -> TensorType:
    _check("addmm", (mat1.sizes, mat2.sizes), (mat1.dtype, mat2.dtype, self.dtype), *_MM)
    sizes = mat1.shape[0], mat2.shape[1]
    _check_summand("addmm", self.shape, sizes)
    return _typed(mat1, *sizes)


@addmm.parts
def _(F: Ops, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> Tensor | None:
    return _product_and_sum(F, self, mat1, mat2, beta, alpha)


def _product_and_sum(F: Ops, self: Tensor, first: Tensor, second: Tensor, beta: Number, alpha: Number) -> Tensor | None:
    """The product, and a sum that may join what follows: the same roundings as those of `_plus`."""
    if not first.dtype.is_floating_point:
        return None
    product = _scaled(F.mm(first, second) if first.ndim == 2 else F.bmm(first, second), alpha)
    return product if beta == 0 else product + _scaled(self, beta)


@addmm.onnx
def _(g: OnnxWriter, self: Value, mat1: Value, mat2: Value, beta: Number, alpha: Number) -> Value:
    if self.dtype.is_floating_point:
        return g.op("Gemm", mat1, mat2, None if beta == 0 else self, alpha=float(alpha), beta=float(beta))
    return _onnx_plus(g, self, g.op("MatMul", mat1, mat2), beta, alpha)


def _onnx_plus(g: OnnxWriter, self: Value, product: Value, beta: Number, alpha: Number) -> Value:
    product = product if alpha == 1 else g.op("Mul", product, g.constant(alpha, like=self))
    if beta == 0:
        return product
    return g.op("Add", product, self if beta == 1 else g.op("Mul", self, g.constant(beta, like=self)))


@addmm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4), make(2, 3, seed=1), make(3, 4, seed=2))
    yield sample(make(4), make(2, 3, seed=1), make(3, 4, seed=2), beta=0.5, alpha=2.0, note="broadcast")
    yield sample(make(2, 1), strided(make(2, 3, seed=1)), make(3, 4, seed=2), note="strided")
    yield sample(make(2, 4), make(2, 3, seed=1), make(3, 4, seed=2), beta=0)


@LOWER
@array("aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       kernel=Kernel(step="product and sum", product="matrices",
                     flops=lambda out, batch2: 2 * out.numel * batch2.sizes[1]),
       inplace=True,
       grad=dict(self=lambda F, g, self_meta, beta: sum_to(F, _scaled(g, beta), self_meta.shape),
                 batch1=lambda F, g, batch2, alpha: F.bmm(_scaled(g, alpha), F.transpose(batch2, 1, 2)),
                 batch2=lambda F, g, batch1, alpha: F.bmm(F.transpose(batch1, 1, 2), _scaled(g, alpha))))  # fmt: skip
def baddbmm(m: Numpy, self: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number) -> Array:
    """beta * self + alpha * (batch1 @ batch2), matrix by matrix; self is not looked at where beta is 0."""
    _check("baddbmm", (batch1.shape, batch2.shape), (batch1.dtype, batch2.dtype, self.dtype), *_BMM)
    return _plus(m, "baddbmm", self, m.matmul(batch1, batch2), beta, alpha)


@baddbmm.type
def _(self: KnownType, batch1: KnownType, batch2: KnownType, beta: Number, alpha: Number) -> TensorType:
    _check("baddbmm", (batch1.sizes, batch2.sizes), (batch1.dtype, batch2.dtype, self.dtype), *_BMM)
    sizes = batch1.shape[0], batch1.shape[1], batch2.shape[2]
    _check_summand("baddbmm", self.shape, sizes)
    return _typed(batch1, *sizes)


@baddbmm.parts
def _(F: Ops, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor | None:
    return _product_and_sum(F, self, batch1, batch2, beta, alpha)


@baddbmm.onnx
def _(g: OnnxWriter, self: Value, batch1: Value, batch2: Value, beta: Number, alpha: Number) -> Value:
    return _onnx_plus(g, self, g.op("MatMul", batch1, batch2), beta, alpha)


@baddbmm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2, 4), make(2, 2, 3, seed=1), make(2, 3, 4, seed=2))
    yield sample(make(4), make(2, 2, 3, seed=1), make(2, 3, 4, seed=2), beta=0.5, alpha=2.0, note="broadcast")


@Precision(cuda="lower")
@composite("aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           inplace=True)  # fmt: skip
def addmv(F: Ops, self: Tensor, mat: Tensor, vec: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta * self + alpha * (mat @ vec); self is not looked at where beta is 0."""
    product = _scaled_in_dtype(F, F.mv(mat, vec), alpha)
    return product if beta == 0 else product + _scaled_in_dtype(F, self, beta)


@addmv.samples
def _() -> Iterator[Sample]:
    yield sample(make(2), make(2, 3, seed=1), make(3, seed=2), beta=0.5, alpha=2.0)


@Precision(cuda="lower")
@composite("aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           inplace=True)  # fmt: skip
def addr(F: Ops, self: Tensor, vec1: Tensor, vec2: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta * self + alpha * outer(vec1, vec2); self is not looked at where beta is 0."""
    product = _scaled_in_dtype(F, F.outer(vec1, vec2), alpha)
    return product if beta == 0 else product + _scaled_in_dtype(F, self, beta)


@addr.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, seed=1), make(3, seed=2), beta=0.5, alpha=2.0)


@LOWER
@composite("aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           inplace=True)  # fmt: skip
def addbmm(F: Ops, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta * self + alpha * the sum of all products of two batches: [b, n, k] and [b, k, p] give [n, p].

    It is one product, of the batches side by side, so that 16-bit floats are rounded once.
    """
    if batch1.ndim != 3 or batch2.ndim != 3 or batch1.shape[0] != batch2.shape[0]:
        raise ShapeError(f"addbmm: expects two batches of matrices, got {list(batch1.shape)} and {list(batch2.shape)}")
    if batch1.shape[2] != batch2.shape[1]:
        raise ShapeError(
            f"addbmm: the sizes {list(batch1.shape)} and {list(batch2.shape)} do not fit: [b, n, k] goes with [b, k, p]"
        )
    side_by_side = F.reshape(F.permute(batch1, [1, 0, 2]), [batch1.shape[1], -1 if batch1.numel() else 0])
    below_another = F.reshape(batch2, [batch2.shape[0] * batch2.shape[1], batch2.shape[2]])
    return F.addmm(self, side_by_side, below_another, beta=beta, alpha=alpha)


@addbmm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4), make(2, 2, 3, seed=1), make(2, 3, 4, seed=2), beta=0.5)


# -- any rank ----------------------------------------------------------------------------------------------------


@LOWER
@composite("aten::matmul(Tensor self, Tensor other) -> Tensor", onnx="MatMul", namespaces=("jit", "Tensor", "linalg"))
def matmul(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """The matrix product over the last two dims; the dims before them broadcast.

    Vectors get a dim of size 1, which the result lacks. A matrix on the right lets the dims on the left fold into one;
    all other cases are a product of batches.
    """
    ranks = self.ndim, other.ndim
    if 0 in ranks:
        raise ShapeError("matmul: 0-dim tensors have no matrix product; use mul")
    if ranks == (1, 1):
        return F.dot(self, other)
    if ranks == (2, 1):
        return F.mv(self, other)
    if ranks == (2, 2):
        return F.mm(self, other)
    if ranks[0] == 1:
        return F.squeeze(F.matmul(F.unsqueeze(self, 0), other), -2)
    if ranks[1] == 1:
        return F.squeeze(F.matmul(self, F.unsqueeze(other, 1)), -1)
    if ranks[1] == 2:
        return F.reshape(F.mm(F.flatten(self, 0, -2), other), [*self.shape[:-1], other.shape[-1]])
    return _batched(F, self, other)


@matmul.numpy
def _(m: Numpy, self: Array, other: Array) -> Array | None:
    """Products of matrices, and of batches of the same sizes."""
    if min(self.ndim, other.ndim) < 2 or self.shape[-1] != other.shape[-2] or not self.size:
        return None
    if other.ndim == 2:
        return _by_rows(m, self, other)
    if self.shape[:-2] != other.shape[:-2] or not other.size:
        return None
    left, right = (x.reshape(-1, *x.shape[-2:]) for x in (self, other))
    return m.matmul(left, right).reshape(*self.shape[:-1], other.shape[-1])


def _by_rows(m: Numpy, x: Array, matrix: Array) -> Array:
    """`x @ matrix`, where x has two dims or more."""
    if x.ndim == 2:
        return m.matmul(x, matrix)
    return m.matmul(x.reshape(-1, x.shape[-1]), matrix).reshape(*x.shape[:-1], matrix.shape[1])


def _batched(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    (*lead1, n, k), (*lead2, k2, p) = self.shape, other.shape
    lead = broadcast_shapes(tuple(lead1), tuple(lead2))
    count = math.prod(lead)
    left = F.reshape(F.expand(self, [*lead, n, k]), [count, n, k])
    right = F.reshape(F.expand(other, [*lead, k2, p]), [count, k2, p])
    return F.reshape(F.bmm(left, right), [*lead, n, p])


@matmul.samples
def _() -> Iterator[Sample]:
    for left, right in [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)),
        ((2, 2, 3), (3,)), ((3,), (2, 3, 4)), ((2, 3), (2, 3, 4)), ((2, 1, 2, 3), (2, 3, 4)),
    ]:  # fmt: skip
        yield sample(make(*left), make(*right, seed=1))
    yield sample(strided(make(2, 3)), strided(make(3, 4)), note="strided")
    yield sample(make(2, 0, 3), make(3, 4), note="empty", onnx=False)


@LOWER
@composite(
    "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    kernel=Kernel(product="matrices", flops=lambda out, input: 2 * out.numel * input.sizes[-1]),
    namespaces=("nn.functional",),
)
def linear(F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """input @ weight.T + bias, over the last dim: [..., n] and weight [m, n] give [..., m]."""
    if weight.ndim == 1:
        out = F.matmul(input, weight)
        return out if bias is None else out + bias
    if input.ndim == 0 or input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: an input of sizes {list(input.shape)} does not fit a weight of sizes {list(weight.shape)}; "
            "their last sizes should be equal"
        )
    if input.ndim == 2 and bias is not None:
        return F.addmm(bias, input, F.t(weight))
    out = F.matmul(input, F.t(weight))
    return out if bias is None else out + bias


@linear.numpy
def _(m: Numpy, input: Array, weight: Array, bias: Array | None) -> Array | None:
    if weight.ndim != 2 or input.ndim < 2 or input.shape[-1] != weight.shape[1] or not input.size:
        return None
    if bias is None:
        return _by_rows(m, input, weight.T)
    return _by_rows(m, input, weight.T) + bias if bias.shape == weight.shape[:1] else None


@linear.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], input: Tensor, weight: Tensor, bias_meta: Meta | None
) -> Sequence[Tensor | None]:
    """One node, whose backward refers to the inputs alone."""
    if weight.ndim == 1:
        rows, grads = F.reshape(input, [-1, input.shape[-1]]), F.reshape(g, [-1])
        by_input = F.unsqueeze(g, -1) * weight if needs[0] else None
        by_weight = F.mv(F.t(rows), grads) if needs[1] else None
    else:
        by_input = F.matmul(g, weight) if needs[0] else None
        by_weight = F.mm(F.t(_rows(F, g)), _rows(F, input)) if needs[1] else None
    return by_input, by_weight, sum_to(F, g, bias_meta.shape) if bias_meta is not None and needs[2] else None


@linear.numpy_grad
def _(
    m: Numpy, g: Array, needs: Sequence[bool], input: Array, weight: Array, bias_meta: Meta | None
) -> Sequence[Array | None] | None:
    if weight.ndim != 2 or input.ndim < 2 or not g.size or not input.size:
        return None
    by_input = _by_rows(m, g, weight) if needs[0] else None
    by_weight = None
    if needs[1]:
        by_weight = m.matmul(g.reshape(-1, g.shape[-1]).T, input.reshape(-1, input.shape[-1]))
    return by_input, by_weight, m.sum(g, axis=tuple(range(g.ndim - 1))) if needs[2] else None


def _rows(F: Ops, x: Tensor) -> Tensor:
    """`x` as a matrix whose rows run through all dims but the last."""
    return F.unsqueeze(x, 0) if x.ndim == 1 else x if x.ndim == 2 else F.flatten(x, 0, -2)


@linear.type
def _(input: KnownType, weight: KnownType, bias: KnownType | None) -> TensorType:
    return _typed(input, *input.shape[:-1], *weight.shape[:-1])


@linear.onnx
def _(g: OnnxWriter, input: Value, weight: Value, bias: Value | None) -> Value:
    if input.ndim == 2 and weight.ndim == 2:
        return g.op("Gemm", input, weight, bias, transB=1)
    turned = g.op("Transpose", weight, perm=[1, 0]) if weight.ndim == 2 else weight
    out = g.op("MatMul", input, turned)
    return out if bias is None else g.op("Add", out, bias)


@linear.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(4, 3, seed=1), make(4, seed=2))
    yield sample(make(2, 3), make(4, 3, seed=1))
    yield sample(make(2, 2, 3), make(4, 3, seed=1), make(4, seed=2))
    yield sample(make(3), make(4, 3, seed=1), make(4, seed=2), note="1-d")
    yield sample(make(2, 3), make(3, seed=1), note="1-d weight")
    yield sample(strided(make(2, 3)), strided(make(4, 3, seed=1)), make(4, seed=2), note="strided")
    yield sample(make(0, 3), make(4, 3, seed=1), make(4, seed=2), note="empty", onnx=False)


@Precision(cuda="widest")
@composite("aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
           namespaces=("jit", "nn.functional"))  # fmt: skip
def bilinear(F: Ops, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o] for each o: [..., n], [..., m] and weight [o, n, m] give [..., o]."""
    out = F.einsum("...i,oij,...j->...o", [input1, weight, input2])
    return out if bias is None else out + bias


@bilinear.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, 2, seed=1), make(4, 3, 2, seed=2), make(4, seed=3))


@Precision(cuda="widest")
@composite("aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
           namespaces=("jit",))  # fmt: skip
def tensordot(F: Ops, self: Tensor, other: Tensor, dims_self: Ints, dims_other: Ints) -> Tensor:
    """The sums of products over dims_self of self and dims_other of other; of the other dims, self's come first."""
    left, right = [wrap_dim(d, self.ndim) for d in dims_self], [wrap_dim(d, other.ndim) for d in dims_other]
    if len(left) != len(right):
        raise ShapeError(f"tensordot: dims {list(dims_self)} and {list(dims_other)} should be equally long")
    for i, j in zip(left, right):  # a dim of size 1 goes with any other
        self = F.sum(self, [i], True) if other.shape[j] == 1 and self.shape[i] != 1 else self
        other = F.sum(other, [j], True) if self.shape[i] == 1 and other.shape[j] != 1 else other
        if self.shape[i] != other.shape[j]:
            sizes = f"{list(self.shape)} and {list(other.shape)}"
            raise ShapeError(f"tensordot: dims {i} and {j} of the sizes {sizes} should be equal, to be summed together")
    keep_left = [d for d in range(self.ndim) if d not in left]
    keep_right = [d for d in range(other.ndim) if d not in right]
    inner = math.prod(self.shape[d] for d in left)
    a = F.reshape(F.permute(self, keep_left + left), [math.prod(self.shape[d] for d in keep_left), inner])
    b = F.reshape(F.permute(other, right + keep_right), [inner, math.prod(other.shape[d] for d in keep_right)])
    return F.reshape(F.mm(a, b), [self.shape[d] for d in keep_left] + [other.shape[d] for d in keep_right])


@Precision(cuda="widest")
@composite("aten::tensordot.int(Tensor self, Tensor other, int dims=2) -> Tensor", namespaces=("jit",))
def tensordot_inner(F: Ops, self: Tensor, other: Tensor, dims: int) -> Tensor:
    """The sums of products over the last `dims` dims of self and the first ones of other."""
    if not 0 <= dims <= min(self.ndim, other.ndim):
        sizes = f"{list(self.shape)} and {list(other.shape)}"
        raise ShapeError(f"tensordot: there are no {dims} dims to sum over in {sizes}")
    return F.tensordot(self, other, list(range(self.ndim - dims, self.ndim)), list(range(dims)))


@tensordot_inner.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), make(3, 4, 2, seed=1))
    yield sample(make(2, 3), make(3, seed=1), 1)
    yield sample(make(2), make(3, seed=1), 0)


@tensordot.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), make(4, 3, 2, seed=1), [1, 2], [1, 0])
    yield sample(make(2, 3), make(3, seed=1), [-1], [0])


@Precision(cpu="float32", cuda="given")
@composite("aten::trace(Tensor self) -> Tensor", namespaces=("Tensor", "linalg"))
def matrix_trace(F: Ops, self: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if self.ndim != 2:
        raise ShapeError(f"trace: expects a matrix, got the sizes {list(self.shape)}")
    return F.sum(F.diagonal(self))


@matrix_trace.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 3))
    yield sample(make(2, 4), note="wide")
    yield sample(make(0, 3), note="empty")
    yield sample(make(3, 2, low=-9, high=9, dtype="int64"), note="integer", grad=False)


# -- einsum ------------------------------------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@Precision(cuda="lower")
@composite("aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", spreads=True,
           namespaces=("jit",))  # fmt: skip
def einsum(F: Ops, equation: str, tensors: Sequence[Tensor], path: Ints | None) -> Tensor:
    """The sums of products that `equation` writes with a letter for each dim: "ij,jk->ik" is a matrix product.

    Repeated letters of an operand become diagonals, and letters of one operand alone its sums. The rest is a
    `sum_of_products`.
    """
    inputs, output = _explicit(equation, [t.ndim for t in tensors])
    operands, terms = [], []
    for index, (labels, tensor) in enumerate(zip(inputs, tensors)):
        labels, tensor = _without_repeats(F, labels, tensor)
        others = set(output).union(*(set(x) for i, x in enumerate(inputs) if i != index))
        lonely = [d for d, label in enumerate(labels) if label not in others]
        operands.append(F.sum(tensor, lonely) if lonely else tensor)
        terms.append("".join(label for label in labels if label in others))
    return F.sum_of_products(f"{','.join(terms)}->{output}", operands)


def _explicit(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """(labels of each operand, labels of the result), the ellipsis spelt out and the result always given."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise UsageError(f"einsum: {equation!r} is about {len(terms)} operands, but {len(ranks)} are given")
    spare = [c for c in _LETTERS if c not in equation]
    widths = [rank - len(t.replace("...", "")) if "..." in t else 0 for t, rank in zip(terms, ranks)]
    batch = "".join(spare[: max(widths, default=0)])
    inputs = [t.replace("...", batch[len(batch) - w :]) for t, w in zip(terms, widths)]
    for labels, rank in zip(inputs, ranks):
        if len(labels) != rank or not set(labels) <= set(_LETTERS):
            raise UsageError(f"einsum: {equation!r} does not label each of the {rank} dims of an operand with a letter")
    if arrow:
        return inputs, right.replace("...", batch)
    joined = "".join(inputs)
    return inputs, batch + "".join(sorted(c for c in set(joined) - set(batch) if joined.count(c) == 1))


def _without_repeats(F: Ops, labels: str, tensor: Any) -> tuple[str, Any]:
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = F.diagonal(tensor, 0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return labels, tensor


@einsum.samples
def _() -> Iterator[Sample]:
    yield sample("ij,jk->ik", [make(2, 3), make(3, 4, seed=1)])
    yield sample("bij,bjk", [make(2, 2, 3), make(2, 3, 2, seed=1)])
    yield sample("ii->i", [make(3, 3)], note="diagonal")
    yield sample("ii", [make(3, 3)], note="trace")
    yield sample("ij->j", [make(2, 3)], note="sum")
    yield sample("...ij,...jk->...ik", [make(2, 2, 3), make(3, 2, seed=1)], note="ellipsis")
    yield sample("i,j,k->kij", [make(2), make(3, seed=1), make(2, seed=2)])
    yield sample("ij,ij->", [make(2, 3), make(2, 3, seed=1)], note="to 0-d")


@LOWER
@array("aten::sum_of_products(str equation, Tensor[] tensors) -> Tensor", namespaces=())
def sum_of_products(m: Numpy, equation: str, tensors: Sequence[Array]) -> Array:
    """An einsum in which every label of an operand is in the result or in another operand, and none twice."""
    try:
        return m.array(m.einsum(equation, *tensors, optimize=len(tensors) > 2), order="C")
    except ValueError as error:
        raise ShapeError(f"einsum: {equation!r} does not fit the sizes {[list(t.shape) for t in tensors]}") from error


@sum_of_products.grad
def _(F: Ops, g: Tensor, needs: Sequence[bool], equation: str, tensors: Sequence[Tensor]) -> Sequence[Any]:
    wanted: Any = needs[0]  # a flag for each tensor of the list
    left, _, output = equation.partition("->")
    terms = left.split(",")
    grads: list[Tensor | None] = []
    for index, (tensor, need) in enumerate(zip(tensors, wanted)):
        others = [i for i in range(len(tensors)) if i != index]
        swapped = ",".join([output, *(terms[i] for i in others)]) + "->" + terms[index]
        gradient = F.sum_of_products(swapped, [g, *(tensors[i] for i in others)]) if need else None
        grads.append(None if gradient is None else sum_to(F, gradient, tensor.shape))
    return (grads,)


@sum_of_products.parts
def _(F: Ops, equation: str, tensors: Sequence[Tensor]) -> Tensor | None:
    return contracted(F, equation, tensors)


@sum_of_products.type
def _(equation: str, tensors: Sequence[KnownType]) -> TensorType:
    left, _, output = equation.partition("->")
    sizes: dict[str, int] = {}
    for labels, tensor in zip(left.split(","), tensors):
        for label, size in zip(labels, tensor.shape):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return _typed(tensors[0], *(sizes[label] for label in output))


def _is_one(size: int) -> bool:
    """Whether a size is known to be 1; that of a dynamic axis is not."""
    return type(size) is int and size == 1


@sum_of_products.onnx
def _(g: OnnxWriter, equation: str, tensors: Sequence[Value]) -> Value:
    """A label has one size in ONNX: an operand that is broadcast along a label loses it."""
    left, _, output = equation.partition("->")
    operands = list(zip(left.split(","), tensors))
    long = {label for labels, x in operands for label, size in zip(labels, x.shape) if not _is_one(size)}
    terms, kept = [], []
    for labels, x in operands:
        ones = [dim for dim, size in enumerate(x.shape) if _is_one(size) and labels[dim] in long]
        terms.append("".join(label for dim, label in enumerate(labels) if dim not in ones))
        kept.append(g.op("Squeeze", x, g.ints(ones)) if ones else x)
    return g.op("Einsum", *kept, equation=f"{','.join(terms)}->{output}")


@sum_of_products.samples
def _() -> Iterator[Sample]:
    yield sample("ij,jk->ik", [make(2, 3), make(3, 4, seed=1)])
    yield sample("ij,jk,k->i", [make(2, 3), make(3, 2, seed=1), make(2, seed=2)])
    yield sample("ij,ij->ij", [make(2, 1), make(2, 3, seed=1)], note="broadcast")
    yield sample("ij->ji", [make(2, 3)])


# -- distances and attention -------------------------------------------------------------------------------------


@Precision(cuda="float32")
@composite("aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
           namespaces=("jit", "nn.functional"))  # fmt: skip
def cosine_similarity(F: Ops, x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """The cosine of the angle between x1 and x2 along dim, with norms of at least eps.

    The gradient is computed as if the norms had not been raised to eps.
    """
    x1, x2 = F.broadcast_tensors([x1, x2])
    if x1.dtype.is_integral and x2.dtype.is_integral:
        raise DTypeError("cosine_similarity: expects floating tensors, got integers; cast with x.float()")
    x1, x2 = (F._to_copy(x, dtype=other.dtype) if x.dtype.is_integral else x for x, other in ((x1, x2), (x2, x1)))
    first, second = (x / _raised(F, F.linalg_vector_norm(x, 2, [dim], True), eps) for x in (x1, x2))
    return F.sum(first * second, [dim])


def _raised(F: Ops, norm: Tensor, least: float) -> Tensor:
    """`norm`, but at least `least`; the gradient passes as if it were `norm` itself."""
    fixed = F.detach(norm)
    return norm + (F.clamp(fixed, min=least) - fixed)


@cosine_similarity.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, 3, seed=1))
    yield sample(make(2, 3, 2), make(3, 1, seed=1), -1, note="broadcast")


@composite("aten::pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor",
           namespaces=("jit", "nn.functional"))  # fmt: skip
def pairwise_distance(F: Ops, x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dim."""
    return F.norm(x1 - x2 + eps, p, [-1], keepdim)


@pairwise_distance.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, 3, seed=1))
    yield sample(make(2, 3), make(2, 3, seed=1), 1.0, keepdim=True)
