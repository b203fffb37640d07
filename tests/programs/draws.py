"""Random numbers that are the same in every library: the sources of torch draw from a generator of numpy.

`share()` replaces them in the `torch` of this process, so that two libraries start from equal weights, shuffle
equally and drop out equally. It changes nothing but where numbers come from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import sampler

_rng = np.random.RandomState(0)
_seeds = np.random.RandomState(0)
"""The source of `random_`, from which libraries also draw seeds of their own, each when it likes."""


def seed(number: int) -> None:
    """Start the sequence anew."""
    _rng.seed(number)


def _made(values: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any) -> Any:
    dtype = dtype or (torch.get_default_dtype() if np.asarray(values).dtype.kind == "f" else torch.int64)
    made = torch.from_numpy(np.array(values)).to(dtype)
    return made.requires_grad_() if requires_grad else made


def _sizes(size: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, ...]:
    given = options.pop("size", size)
    if len(given) == 1 and not isinstance(given[0], (int, np.integer)):
        given = given[0]
    return tuple(int(each) for each in given)


def _creator(draw: Callable[[tuple[int, ...]], Any]) -> Callable[..., Any]:
    def create(*size: Any, **options: Any) -> Any:
        return _made(draw(_sizes(size, options)), **options)

    return create


def _like(draw: Callable[..., Any]) -> Callable[..., Any]:
    def create(tensor: Any, *bounds: Any, **options: Any) -> Any:
        return _made(draw(*bounds, tuple(tensor.shape)), **{"dtype": tensor.dtype, **options})

    return create


def _filler(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A method that fills a tensor, from a function of its parameters and the sizes."""

    def fill(tensor: Any, *parameters: Any, generator: Any = None, **named: Any) -> Any:
        values = draw(tuple(tensor.shape), *parameters, **named)
        with torch.no_grad():
            return tensor.copy_(torch.from_numpy(np.array(values)).to(tensor.dtype))

    return fill


def _normal(mean: Any, std: Any = 1.0, size: Any = None, **options: Any) -> Any:
    if size is not None:
        return _made(_rng.standard_normal(tuple(size)) * std + mean, **options)
    shape = torch.broadcast_shapes(*(tuple(each.shape) for each in (mean, std) if isinstance(each, torch.Tensor)))
    like = mean if isinstance(mean, torch.Tensor) else std
    return mean + std * _made(_rng.standard_normal(tuple(shape)), dtype=like.dtype)


def _bernoulli(chances: Any, p: Any = None, **ignored: Any) -> Any:
    below = chances.detach() if p is None else p
    return (_made(_rng.random_sample(tuple(chances.shape))) < below).to(chances.dtype)


def _multinomial(weights: Any, num_samples: int, replacement: bool = False, **ignored: Any) -> Any:
    rows = np.asarray(weights.detach().to(torch.float64).reshape(-1, weights.shape[-1]).tolist())
    drawn = [_rng.choice(len(row), num_samples, replacement, np.array(row) / np.sum(row)) for row in rows]
    return _made(np.stack(drawn).reshape(tuple(weights.shape[:-1]) + (num_samples,)), dtype=torch.int64)


def _integers(low: int, high: Any, size: Any = None) -> Any:
    low, high, size = (0, low, high) if size is None else (low, high, size)
    return _rng.randint(int(low), int(high), tuple(size))


def _randint(*bounds: Any, low: Any = 0, high: Any = None, size: Any = None, **options: Any) -> Any:
    given = [*bounds]
    sizes = given.pop() if size is None else size
    numbers = given + ([] if high is None else [high])
    return _made(_integers(*(numbers if len(numbers) == 2 else [low, *numbers]), sizes), **options)


def _randint_like(tensor: Any, *bounds: Any, **options: Any) -> Any:
    return _randint(*bounds, size=tuple(tensor.shape), **{"dtype": tensor.dtype, **options})


def _random(shape: Any, start: int = 0, to: Any = None) -> Any:
    low, high = (0, start or 2**24) if to is None else (start, to)
    return _seeds.randint(low, high, shape)


def _geometric(shape: Any, p: float) -> Any:
    return _rng.geometric(p, shape)


def _dropped(dims: int) -> Callable[..., Any]:
    """A dropout that zeroes single elements, or whole maps of the last `dims` dims."""

    def drop(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0:
            return input
        shape = tuple(input.shape)
        kept = shape if dims == 0 else shape[: len(shape) - dims] + (1,) * dims
        mask = _made(_rng.random_sample(kept) >= p, dtype=input.dtype) / max(1 - p, 1e-9)
        return input.mul_(mask) if inplace else input * mask

    return drop


def _gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    soft = ((logits + _made(_rng.gumbel(size=tuple(logits.shape)), dtype=logits.dtype)) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return torch.zeros_like(logits).scatter_(dim, index, 1.0) - soft.detach() + soft


def _permutation(count: Any, **options: Any) -> Any:
    return _made(_rng.permutation(int(count)), **options)


def _without_dropout(cls: Any, name: str) -> None:
    """Layers whose dropout happens inside an operator do without it."""
    build = cls.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        setattr(self, name, 0.0)

    cls.__init__ = made


def _attend(original: Callable[..., Any]) -> Callable[..., Any]:
    def attend(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *rest: Any, **named: Any
    ) -> Any:
        return original(query, key, value, attn_mask, 0.0, *rest, **named)

    return attend


_FUNCTIONS = {
    "rand": _creator(_rng.random_sample),
    "randn": _creator(_rng.standard_normal),
    "rand_like": _like(_rng.random_sample),
    "randn_like": _like(_rng.standard_normal),
    "randint_like": _randint_like,
    "randint": _randint,
    "randperm": _permutation,
    "normal": _normal,
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
    "dropout": lambda input, p, train: _dropped(0)(input, p, train),
}
_METHODS = {
    "normal_": _filler(lambda shape, mean=0.0, std=1.0: _rng.standard_normal(shape) * float(std) + float(mean)),
    "uniform_": _filler(lambda shape, a=0.0, b=1.0: _rng.random_sample(shape) * (float(b) - float(a)) + float(a)),
    "exponential_": _filler(lambda shape, lambd=1.0: _rng.exponential(1 / lambd, shape)),
    "random_": _filler(_random),
    "log_normal_": _filler(lambda shape, mean=1.0, std=2.0: _rng.lognormal(mean, std, shape)),
    "cauchy_": _filler(lambda shape, median=0.0, sigma=1.0: _rng.standard_cauchy(shape) * sigma + median),
    "geometric_": _filler(_geometric),
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
}
_FUNCTIONAL = {
    "dropout": _dropped(0),
    "dropout1d": _dropped(1),
    "dropout2d": _dropped(2),
    "dropout3d": _dropped(3),
    "alpha_dropout": _dropped(0),
    "feature_alpha_dropout": _dropped(0),
    "gumbel_softmax": _gumbel_softmax,
}
_LAYERS = {
    nn.Dropout: 0, nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3, nn.AlphaDropout: 0, nn.FeatureAlphaDropout: 0,
}  # fmt: skip


def _forward(dims: int) -> Callable[..., Any]:
    return lambda self, input: _dropped(dims)(input, self.p, self.training, self.inplace)


def _bernoulli_(tensor: Any, p: Any = 0.5, generator: Any = None) -> Any:
    with torch.no_grad():
        return tensor.copy_((_made(_rng.random_sample(tuple(tensor.shape))) < p).to(tensor.dtype))


def _share_operators() -> None:
    """Distributions of this package draw with operators, which no name of torch leads to."""
    held = sys.modules.get("jit.eager.namespace")
    for name in ("rand", "randn", "bernoulli", "multinomial") if held else ():
        setattr(held.F, name, _FUNCTIONS[name])  # type: ignore[union-attr]
    if held:
        held.F.exponential = lambda tensor, lambd=1.0: _METHODS["exponential_"](tensor.clone(), lambd)


def share() -> None:
    """Let every source of random numbers of torch draw from numpy."""
    _share_operators()
    for name, function in _FUNCTIONS.items():
        setattr(torch, name, function)
    for name, method in {**_METHODS, "bernoulli_": _bernoulli_}.items():
        setattr(torch.Tensor, name, method)
    for name, function in _FUNCTIONAL.items():
        setattr(functional, name, function)
    for cls, dims in _LAYERS.items():
        cls.forward = _forward(dims)  # type: ignore[method-assign]
    _without_dropout(nn.MultiheadAttention, "dropout")
    _without_dropout(nn.RNNBase, "dropout")
    functional.scaled_dot_product_attention = _attend(functional.scaled_dot_product_attention)
    sampler.RandomSampler.__iter__ = lambda self: iter(_rng.permutation(len(self.data_source)).tolist())  # type: ignore[method-assign]
