"""Transforms: functions with a known volume, most of them invertible, from one set of values to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from . import constraints
from .independent import sum_rightmost
from .utils import clamp_probs, tril_matrix_to_vec, vec_to_tril_matrix


class Transform:
    """A function of values.

    Args:
        cache_size: 1 to keep the last value and its image, so that the inverse is exact and quick; 0 for none.

    Raises:
        UsageError: It is another number.
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real
    _sign: int = 0

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise UsageError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = None, None

    @property
    def event_dim(self) -> int:
        """The number of dims that are one value."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise UsageError("Please use either .domain.event_dim or .codomain.event_dim")
        return int(self.domain.event_dim)

    @property
    def sign(self) -> Any:
        """1 if the function grows, -1 if it falls."""
        if not self._sign:
            raise NotImplementedError(f"{type(self).__name__} neither grows nor falls")
        return self._sign

    @property
    def inv(self) -> Any:
        """The inverse."""
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with another size of the cache."""
        if self._cache_size == cache_size:
            return self
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _cache_size=cache_size, _last=(None, None))
        return made

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Any) -> Any:
        if self._cache_size and x is self._last[0]:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size and y is self._last[1]:
            return self._last[0]
        x = self._inverse(y)
        if self._cache_size:
            self._last = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(type(self).__name__)

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the factor by which volumes grow at `x`, whose image is `y`."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the image of something of a shape."""
        return Size(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of something whose image has a shape."""
        return Size(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """The inverse of a transform.

    Args:
        transform: The transform.
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._transform = transform

    domain = property(lambda self: self._transform.codomain)
    codomain = property(lambda self: self._transform.domain)
    bijective = property(lambda self: self._transform.bijective)
    sign = property(lambda self: self._transform.sign)
    inv = property(lambda self: self._transform)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._transform.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self._transform == other._transform

    __hash__ = object.__hash__

    def __call__(self, x: Any) -> Any:
        return self._transform._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._transform(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._transform.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._transform.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._transform!r})"


class ComposeTransform(Transform):
    """Several transforms, one after the other.

    Args:
        parts: The transforms, the first first.
        cache_size: As of Transform.
    """

    def __init__(self, parts: Sequence[Any], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self) -> Any:
        """The set that the first takes, of as many dims as all need."""
        if not self.parts:
            return constraints.real
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widened(self.parts[0].domain, dims)

    @property
    def codomain(self) -> Any:
        """The set that the last gives, likewise."""
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, dims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all of them are."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        found: Any = 1
        for part in self.parts:
            found = found * part.sign
        return found

    @property
    def inv(self) -> Any:
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y) if isinstance(part, Transform) else part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return F.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        total: Any = 0
        dims = self.domain.event_dim
        for part, here, there in zip(self.parts, points, points[1:], strict=False):
            total = total + sum_rightmost(part.log_abs_det_jacobian(here, there), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return Size(shape)

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {parts}\n)"


def _widened(constraint: Any, dims: int) -> Any:
    missing = dims - constraint.event_dim
    return constraints.independent(constraint, missing) if missing else constraint


class IndependentTransform(Transform):
    """A transform of which several values are one.

    Args:
        base_transform: The transform.
        reinterpreted_batch_ndims: The number of dims, from the last, that become part of a value.
        cache_size: As of Transform.
    """

    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    domain = property(lambda s: constraints.independent(s.base_transform.domain, s.reinterpreted_batch_ndims))
    codomain = property(lambda s: constraints.independent(s.base_transform.codomain, s.reinterpreted_batch_ndims))
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Another shape of the same elements.

    Args:
        in_shape: The shape of a value.
        out_shape: The shape that it gets.
        cache_size: As of Transform.

    Raises:
        UsageError: The shapes have different numbers of elements.
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise UsageError("in_shape, out_shape have different numbers of elements")

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def _call(self, x: Any) -> Any:
        return x.reshape([*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape])

    def _inverse(self, y: Any) -> Any:
        return y.reshape([*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape])

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return F.new_zeros(x, x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return Size((*shape[: len(shape) - len(self.in_shape)], *self.out_shape))

    def inverse_shape(self, shape: Any) -> Any:
        return Size((*shape[: len(shape) - len(self.out_shape)], *self.in_shape))


class _Plain(Transform):
    """A transform without parameters, equal to all others of its class."""

    bijective = True
    _sign = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Plain):
    """x -> exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return F.exp(x)

    def _inverse(self, y: Any) -> Any:
        return F.log(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """x -> x ** exponent, of positive numbers.

    Args:
        exponent: The exponent.
        cache_size: As of Transform.
    """

    domain, codomain, bijective = constraints.positive, constraints.positive, True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        return F.sign(self.exponent) if hasattr(self.exponent, "ndim") else math.copysign(1, self.exponent)

    def _call(self, x: Any) -> Any:
        return F.pow(x, self.exponent)

    def _inverse(self, y: Any) -> Any:
        return F.pow(y, 1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return F.log(F.abs(self.exponent * y / x))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _are_equal(self.exponent, other.exponent)

    __hash__ = object.__hash__


def _are_equal(one: Any, other: Any) -> bool:
    found = one == other
    return bool(found.all()) if hasattr(found, "all") else bool(found)


class SigmoidTransform(_Plain):
    """x -> 1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return clamp_probs(F.sigmoid(x))

    def _inverse(self, y: Any) -> Any:
        y = clamp_probs(y)
        return F.log(y) - F.log1p(-y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Plain):
    """x -> log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return F.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return F.log(-F.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x)


class TanhTransform(_Plain):
    """x -> tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return F.tanh(x)

    def _inverse(self, y: Any) -> Any:
        return F.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2 * (math.log(2.0) - x - F.softplus(-2 * x))


class AbsTransform(_Plain):
    """x -> |x|; the inverse gives the positive one."""

    codomain, bijective, _sign = constraints.positive, False, 0

    def _call(self, x: Any) -> Any:
        return F.abs(x)

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """x -> loc + scale * x.

    Args:
        loc: The shift.
        scale: The factor.
        event_dim: The number of dims that are one value.
        cache_size: As of Transform.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    domain = codomain = property(lambda self: _widened(constraints.real, self._event_dim))

    @property
    def sign(self) -> Any:
        return F.sign(self.scale) if hasattr(self.scale, "ndim") else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        is_tensor = hasattr(self.scale, "ndim")
        each = F.log(F.abs(self.scale)) if is_tensor else F.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(each.expand(x.shape), self._event_dim)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _are_equal(self.loc, other.loc) and _are_equal(self.scale, other.scale)

    __hash__ = object.__hash__


class SoftmaxTransform(_Plain):
    """x -> softmax(x); it takes logarithms of shares to shares, and is no bijection."""

    domain, codomain, bijective, _sign = constraints.real_vector, constraints.simplex, False, 0

    def _call(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return F.log(y)


class StickBreakingTransform(_Plain):
    """Vectors to shares, one more than they have elements: each breaks its part off what is left of a stick."""

    domain, codomain, _sign = constraints.real_vector, constraints.simplex, 0

    def _call(self, x: Any) -> Any:
        parts = clamp_probs(F.sigmoid(x - self._offsets(x)))
        left = F.cumprod(1 - parts, -1)
        return F.constant_pad_nd(parts, [0, 1], 1.0) * F.constant_pad_nd(left, [1, 0], 1.0)

    def _offsets(self, x: Any) -> Any:
        count = x.shape[-1]
        return F.log(F.arange(count, 0, -1, dtype=x.dtype, device=x.device))

    def _inverse(self, y: Any) -> Any:
        shares = y[..., :-1]
        left = F.clamp(1 - F.cumsum(shares, -1), 1.1754943508222875e-38)
        return F.log(shares) - F.log(left) + self._offsets(shares)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shifted = x - self._offsets(x)
        return F.sum(-shifted + F.log_sigmoid(shifted) + F.log(y[..., :-1]), -1)

    def forward_shape(self, shape: Any) -> Any:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """Matrices to lower triangles with a positive diagonal, whose logarithm it takes."""

    domain, codomain, _sign = constraints.independent(constraints.real, 2), constraints.lower_cholesky, 0

    def _call(self, x: Any) -> Any:
        return F.tril(x, -1) + F.diag_embed(F.exp(F.diagonal(x, 0, -2, -1)))

    def _inverse(self, y: Any) -> Any:
        return F.tril(y, -1) + F.diag_embed(F.log(F.diagonal(y, 0, -2, -1)))


class PositiveDefiniteTransform(_Plain):
    """Matrices to positive definite ones, by their Cholesky factors."""

    domain, codomain, _sign = constraints.independent(constraints.real, 2), constraints.positive_definite, 0

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return F.matmul(factor, F.transpose(factor, -2, -1))

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(F.linalg_cholesky(y))


class CorrCholeskyTransform(_Plain):
    """Vectors to Cholesky factors of correlations: tanh of each breaks its part off the square of a row."""

    domain, codomain, _sign = constraints.real_vector, constraints.corr_cholesky, 0

    def _call(self, x: Any) -> Any:
        eps = 1.1920928955078125e-07 if x.element_size() == 4 else 2.220446049250313e-16
        parts = vec_to_tril_matrix(F.clamp(F.tanh(x), -1 + eps, 1 - eps), -1)
        left = F.cumprod(F.sqrt(1 - F.square(parts)), -1)
        one = F.eye(parts.shape[-1], dtype=x.dtype, device=x.device)
        return (parts + one) * F.constant_pad_nd(left[..., :-1], [1, 0], 1.0)

    def _inverse(self, y: Any) -> Any:
        left = 1 - F.cumsum(F.square(y), -1)
        shifted = F.constant_pad_nd(left[..., :-1], [1, 0], 1.0)
        return F.atanh(tril_matrix_to_vec(y, -1) / F.sqrt(tril_matrix_to_vec(shifted, -1)))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = F.constant_pad_nd((1 - F.cumsum(F.square(y), -1))[..., :-1], [1, 0], 1.0)
        rows = F.sum(F.log(tril_matrix_to_vec(left, -1)), -1) / 2
        return rows + F.sum(-2 * (x + F.softplus(-2 * x) - math.log(2.0)), -1)

    def forward_shape(self, shape: Any) -> Any:
        size = round((1 + math.sqrt(1 + 8 * shape[-1])) / 2)
        if size * (size - 1) // 2 != shape[-1]:
            raise UsageError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _Parted(Transform):
    """Several transforms, each of a part.

    Args:
        tseq: The transforms.
        dim: The dim along which the parts lie.
        cache_size: As of Transform.
    """

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all of them are."""
        return all(t.bijective for t in self.transforms)

    def _parts(self, value: Any) -> Any:
        raise NotImplementedError

    def _join(self, values: list[Any]) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._join([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Any) -> Any:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)])

    def _volumes(self, x: Any, y: Any) -> list[Any]:
        pairs = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return [t.log_abs_det_jacobian(here, there) for t, here, there in pairs]


class CatTransform(_Parted):
    """Several transforms, each of a part of the elements along a dim.

    Args:
        tseq: The transforms.
        dim: The dim.
        lengths: The lengths of the parts; 1 if left out.
        cache_size: As of Transform.
    """

    def __init__(
        self, tseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:  # fmt: skip
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    @property
    def length(self) -> int:
        """The length of all parts."""
        return sum(self.lengths)

    domain = property(lambda s: constraints.cat([t.domain for t in s.transforms], s.dim, s.lengths))
    codomain = property(lambda s: constraints.cat([t.codomain for t in s.transforms], s.dim, s.lengths))

    def _parts(self, value: Any) -> Any:
        return F.split_with_sizes(value, self.lengths, self.dim)

    def _join(self, values: list[Any]) -> Any:
        return F.cat(values, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        most = max(t.domain.event_dim for t in self.transforms)
        found = [sum_rightmost(v, most - t.domain.event_dim) for t, v in zip(self.transforms, self._volumes(x, y))]
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += most
        return F.cat(found, dim) if dim < 0 else sum(found[1:], found[0])


class StackTransform(_Parted):
    """Several transforms, each of one index of a dim.

    Args:
        tseq: The transforms.
        dim: The dim.
        cache_size: As of Transform.
    """

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def _parts(self, value: Any) -> Any:
        return F.unbind(value, self.dim)

    def _join(self, values: list[Any]) -> Any:
        return F.stack(values, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return F.stack(self._volumes(x, y), self.dim)


class CumulativeDistributionTransform(Transform):
    """Numbers to the probabilities of at most them.

    Args:
        distribution: The distribution.
        cache_size: As of Transform.
    """

    bijective, codomain, _sign = True, constraints.unit_interval, 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)


identity_transform = ComposeTransform([])

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip
