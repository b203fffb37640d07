"""The base of all distributions: shapes, checks, and what follows from the methods of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from jit.eager import context
from jit.eager.creation import tensor
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor
from jit.ir.errors import UsageError

from .constraints import Constraint


class Distribution:
    """A distribution of values of `event_shape`, or many independent ones, of `batch_shape`.

    Args:
        batch_shape: The sizes of the many.
        event_shape: The sizes of one value.
        validate_args: Whether parameters and values are checked; they are if left out.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = None
    _validates: ClassVar[bool] = True

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        self._checks = self._validates if validate_args is None else validate_args
        if self._checks:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions made from now on check their arguments."""
        Distribution._validates = value

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            value = vars(self).get(name)
            if isinstance(value, Tensor) and context.TRACE.get() is None and not bool(constraint.check(value).all()):
                raise UsageError(
                    f"{type(self).__name__}: the parameter {name} has values outside {constraint}; "
                    "correct them, or pass validate_args=False"
                )

    def _validate_sample(self, value: Any) -> None:
        """Check a value that a density is asked of."""
        if not self._checks or context.TRACE.get() is not None or self.support is None:
            return
        if not bool(self.support.check(value).all()):
            raise UsageError(
                f"{type(self).__name__}: a value lies outside {self.support}; correct it, or pass validate_args=False"
            )

    @property
    def batch_shape(self) -> Any:
        """The sizes of the many distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The sizes of one value."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Iterable[int] = ()) -> Any:
        """The sizes of samples."""
        return Size([*sample_shape, *self._batch_shape, *self._event_shape])

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution for a larger batch, whose parameters are expanded.

        Args:
            batch_shape: The sizes of the batch.
        """
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        for name in self.arg_constraints:
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                inner = tuple(value.shape[len(self._batch_shape) :])
                setattr(made, name, value.expand(*batch_shape, *inner))
        made._batch_shape = Size(batch_shape)
        return made

    def sample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which no gradient flows.

        Args:
            sample_shape: The sizes of the draws.
        """
        with context.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample; use sample()")

    def sample_n(self, n: int) -> Any:
        """Draws, as many as `n`."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Any) -> Any:
        """The probability of what is not above a value."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Any) -> Any:
        """The value that draws are not above with a given probability."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    def __repr__(self) -> str:
        named = [(name, vars(self)[name]) for name in self.arg_constraints if name in vars(self)]
        shown = (f"{n}: {v.size() if v.ndim else v.item()}" for n, v in named if isinstance(v, Tensor))
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """A distribution of an exponential family."""


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Parameters as tensors of the same sizes."""
    first = next((each for each in values if isinstance(each, Tensor)), None)
    options: dict[str, Any] = {} if first is None else {"dtype": first.dtype, "device": first.device}
    made = [each if isinstance(each, Tensor) else tensor(float(each), **options) for each in values]
    return tuple(F.broadcast_tensors(made))


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last dims.

    Args:
        value: The tensor.
        dims: How many.
    """
    return value if dims == 0 else value.flatten(value.ndim - dims).sum(-1)


def fresh(like: Any, shape: Any) -> Any:
    """A tensor of a parameter's dtype, to be filled with draws.

    Args:
        like: The parameter.
        shape: The sizes.
    """
    return F.empty(list(shape), dtype=like.dtype, device=like.device)


class LogitsOrProbs(Distribution):
    """A distribution whose parameter is given as probabilities, or as logits.

    Args:
        probs: The probabilities.
        logits: The logits, instead of them.
        validate_args: Whether parameters and values are checked.
    """

    is_binary: ClassVar[bool] = True
    """Whether there are two outcomes, whose logits go through a sigmoid, and not many, whose go through a softmax."""

    def _set(self, probs: Any, logits: Any) -> Any:
        """The parameter, kept under its name."""
        if (probs is None) == (logits is None):
            raise UsageError(f"{type(self).__name__}: pass either probs or logits")
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        (given,) = broadcast_all(given)
        if not self.is_binary:
            given = given / given.sum(-1, keepdim=True) if name == "probs" else given - given.logsumexp(-1, True)
        vars(self)[name] = given
        return given

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution for a larger batch.

        Args:
            batch_shape: The sizes of the batch.
        """
        made = object.__new__(type(self))
        vars(made).update({k: v for k, v in vars(self).items() if k not in ("probs", "logits")})
        for name in {"probs", "logits"} & set(vars(self)):
            value = vars(self)[name]
            inner = () if self.is_binary else tuple(value.shape[-1:])
            vars(made)[name] = value.expand(*batch_shape, *inner)
        made._batch_shape = Size(batch_shape)
        return made

    def __getattr__(self, name: str) -> Any:
        """The parameter that was not given, from the one that was."""
        if name == "probs" and "logits" in vars(self):
            made = self.logits.sigmoid() if self.is_binary else self.logits.softmax(-1)
        elif name == "logits" and "probs" in vars(self):
            kept = clamp_probs(self.probs)
            made = kept.log() - F.log1p(-kept) if self.is_binary else kept.log()
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self)[name] = made
        return made

    @property
    def _param(self) -> Any:
        return vars(self).get("probs", vars(self).get("logits"))

    @property
    def param_shape(self) -> Any:
        """The sizes of the parameter."""
        return self._param.size()


def clamp_probs(probs: Any) -> Any:
    """Probabilities that are neither 0 nor 1, so that they have logarithms."""
    from jit.library.limits import finfo

    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


__all__ = [
    "Distribution", "ExponentialFamily", "LogitsOrProbs", "broadcast_all", "clamp_probs", "fresh", "sum_rightmost",
]  # fmt: skip
