"""`jit.nn.functional`: the operators of networks, under PyTorch's names and with its arguments.

Most come from the registry as they are. Written by hand are those whose public signature differs from the ATen
declaration: a word for a reduction, `training=`, `inplace=`, `return_indices=`, another order of arguments. Activations
and a few single ones are here, the others by family in `functions` and in the modules imported beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jit.eager.expecting import expect
from jit.eager.functions import members
from jit.eager.namespace import F
from jit.ir.errors import ShapeError

from .alignments import *  # noqa: F403
from .attending import *  # noqa: F403
from .fractional import *  # noqa: F403
from .functions.dropouts import *  # noqa: F403
from .functions.grids import *  # noqa: F403
from .functions.losses import *  # noqa: F403
from .functions.norms import *  # noqa: F403
from .functions.patches import *  # noqa: F403
from .functions.pools import *  # noqa: F403
from .functions.tables import *  # noqa: F403
from .margins import *  # noqa: F403
from .unpooling import *  # noqa: F403

if TYPE_CHECKING:
    from .._stubs.functional import *  # noqa: F403

for _member in list(globals().values()):
    if str(getattr(_member, "__module__", None)).startswith("jit.nn.functions."):
        _member.__module__ = __name__  # where pickles look for it, and always have


# -- activations ---------------------------------------------------------------------------------------------------


def _optionally_inplace(name: str, options: int) -> Callable[..., Any]:
    """The function `name(input, <options>, inplace=False)` over an operator and its in-place variant."""
    plain, written = getattr(F, name), getattr(F, f"{name}_")

    def function(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) == options + 2:
            *args, inplace = args  # type: ignore[assignment]
        return written(*args, **kwargs) if inplace else plain(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{plain.__doc__}\n\nWith `inplace=True`, the result overwrites the input."
    return function


_OPTIONS = {
    "relu": 0, "relu6": 0, "selu": 0, "silu": 0, "mish": 0, "hardsigmoid": 0, "hardswish": 0, "leaky_relu": 1, "elu": 1,
    "celu": 1, "hardtanh": 2, "threshold": 2, "rrelu": 3,
}  # fmt: skip
_WRITTEN = ("celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_")
_from_registry, _all_names = members("nn.functional", globals())


def __getattr__(name: str) -> Any:
    if name in _OPTIONS:
        return globals().setdefault(name, _optionally_inplace(name, _OPTIONS[name]))
    return getattr(F, name) if name in _WRITTEN else _from_registry(name)


def __dir__() -> list[str]:
    return sorted(name for name in {*_all_names(), *_OPTIONS, *_WRITTEN} if not name.startswith("_"))


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``exp(input) / sum(exp(input))`` along `dim`.

    Args:
        input: A floating point tensor.
        dim: The dim. Without it, 0 for 0-d, 1-d and 3-d inputs and else 1, with a warning.
        dtype: The dtype to compute in; that of the input if left out.

    >>> import jit
    >>> jit.nn.functional.softmax(jit.zeros(1, 2), dim=1).tolist()
    [[0.5, 0.5]]
    """
    return F.softmax(input, _implied_dim("softmax", input, dim), dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, computed without overflow.

    Args: those of `softmax`.
    """
    return F.log_softmax(input, _implied_dim("log_softmax", input, dim), dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`softmax` of ``-input``.

    Args: those of `softmax`.
    """
    return F.softmin(input, _implied_dim("softmin", input, dim), dtype)


def _implied_dim(name: str, input: Any, dim: int | None) -> int:
    if dim is not None:
        return dim
    expect(name, input)
    implied = 0 if input.ndim in (0, 1, 3) else 1
    told = f"{name} without dim takes dim {implied} of this {input.ndim}-d tensor; say dim={implied}"
    warnings.warn(told, stacklevel=3)
    return implied


def tanh(input: Any) -> Any:
    """The hyperbolic tangent."""
    return F.tanh(input)


def sigmoid(input: Any) -> Any:
    """``1 / (1 + exp(-input))``."""
    return F.sigmoid(input)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """``input / max(‖input‖, eps)`` with p-norms along `dim`.

    Args:
        input: A tensor.
        p: The norm.
        dim: The dim of the vectors.
        eps: The least divisor.
        out: The tensor to write to, or None.

    Returns:
        A tensor of the input's sizes.

    >>> import jit
    >>> jit.nn.functional.normalize(jit.tensor([[3.0, 4.0]])).tolist() == jit.tensor([[0.6, 0.8]]).tolist()
    True
    """
    norms = F.norm(input, p, [dim], True).clamp(min=eps)
    return input / norms if out is None else F.div(input, norms, out=out)


def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A draw from a relaxed categorical distribution (Jang et al., 2017).

    Args:
        logits: Unnormalised log-probabilities.
        tau: The temperature: the lower, the nearer to one-hot.
        hard: Whether to return one-hot vectors, with the gradient of soft ones.
        eps: The least uniform number that is drawn.
        dim: The dim of the classes.

    Returns:
        A tensor of the sizes of `logits`, which sums to 1 along `dim`.
    """
    noise = -F.log(-F.log(F.rand_like(logits).clamp(min=eps)))
    soft = F.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, True)
    return F.scatter(F.zeros_like(logits), dim, index, 1.0) - soft.detach() + soft


def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels of `[N, C, ...]` in the order in which one of each group comes after the other.

    Raises:
        ShapeError: The input has fewer than 3 dims, or its channels do not divide into the groups.

    >>> import jit
    >>> jit.nn.functional.channel_shuffle(jit.arange(4).view(1, 4, 1), 2).flatten().tolist()
    [0, 2, 1, 3]
    """
    if input.ndim < 3 or input.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: {groups} groups do not fit an input of sizes {list(input.shape)}; pass a number of "
            "groups that divides dim 1 of at least 3 dims"
        )
    batch, channels, *rest = input.shape
    parts = F.reshape(input, [batch, groups, channels // groups, *rest])
    return F.reshape(F.transpose(parts, 1, 2), input.shape)


# -- distances -----------------------------------------------------------------------------------------------------


def pdist(input: Any, p: float = 2.0) -> Any:
    """The p-norm distances of all pairs of rows of `[N, M]`: ``N * (N - 1) / 2`` numbers.

    Raises:
        ShapeError: The input is no matrix.

    >>> import jit
    >>> jit.nn.functional.pdist(jit.tensor([[0.0], [1.0], [3.0]])).tolist()
    [1.0, 3.0, 2.0]
    """
    expect("pdist", input)
    if input.ndim != 2:
        raise ShapeError(f"pdist takes a matrix of rows, and this input has sizes {list(input.shape)}; reshape it")
    pairs = F.triu_indices(input.shape[0], input.shape[0], 1, device=input.device)
    first, second = (F.index_select(input, 0, index) for index in F.unbind(pairs, 0))
    return F.linalg_vector_norm(first - second, p, [1])


if not TYPE_CHECKING:
    __all__ = __dir__()
