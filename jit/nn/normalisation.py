"""Layers that bring activations to zero mean and unit variance."""

from __future__ import annotations

import warnings
from typing import Any

from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.devices import resolve
from jit.ir.errors import ShapeError, UsageError

from . import functional, init
from .modules import Module
from .parameter import Parameter


class _RunningNorm(Module):
    """Base of batch and instance norms: an affine map per channel and, if tracked, running statistics."""

    ranks: tuple[int, ...] = ()
    """The numbers of dims that an input may have."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        resolve(device)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, there in (("weight", affine), ("bias", affine and bias)):
            parameter = Parameter(F.empty((num_features,), device=device, dtype=dtype)) if there else None
            self.register_parameter(name, parameter)
        tracked = track_running_stats
        self.register_buffer("running_mean", F.zeros((num_features,), device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", F.ones((num_features,), device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", F.zeros((), device=device, dtype=dtypes.int64) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics, the scale and the shift."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_rank(self, input: Any) -> None:
        if input.ndim not in self.ranks:
            wanted = " or ".join(f"{rank}-d" for rank in self.ranks)
            raise ShapeError(
                f"{type(self).__name__} takes {wanted} inputs, and this one has sizes {list(input.shape)}; reshape it, "
                "or use the norm of its number of dims"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    def forward(self, input: Any) -> Any:
        """Args: input `[N, num_features, ...]`. Returns: the same sizes."""
        self._check_rank(input)
        momentum = self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # a plain average over all batches so far
                momentum = 1.0 / self.num_batches_tracked.item()
        measured = (self.running_mean, self.running_var)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        if self.training and not self.track_running_stats:
            measured = (None, None)
        momentum = 0.0 if momentum is None else momentum
        return functional.batch_norm(input, *measured, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalises each feature: by the statistics of the batch while training, by running statistics in evaluation.

    The output is ``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and variance of each feature.

    Args:
        num_features: Size of dim 1 of the input.
        eps: Added to the variance.
        momentum: The weight of a new batch in the running statistics; None averages over all batches.
        affine: Whether to learn a scale and a shift per feature.
        track_running_stats: Whether to keep running statistics; without, each batch is normalised by its own always.
        bias: Whether there is a shift, if there is a scale.
        device: The device of the parameters and statistics; the default one if left out.
        dtype: The element type of the parameters and statistics; float32 if left out.

    Shape:
        Input `[N, num_features]` or `[N, num_features, L]`; output of the same sizes.

    >>> import jit
    >>> jit.nn.BatchNorm1d(3)(jit.randn(8, 3)).shape
    jit.Size([8, 3])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of images over batch, height and width, as `BatchNorm1d` does each feature.

    Args:
        num_features: Channels of the input.
        eps: Added to the variance.
        momentum: The weight of a new batch in the running statistics; None averages over all batches.
        affine: Whether to learn a scale and a shift per channel.
        track_running_stats: Whether to keep running statistics; without, each batch is normalised by its own always.
        bias: Whether there is a shift, if there is a scale.

    Shape:
        Input `[N, num_features, H, W]`; output of the same sizes.

    >>> import jit
    >>> layer = jit.nn.BatchNorm2d(3)
    >>> y = layer(jit.randn(8, 3, 5, 5))
    >>> y.shape, layer.num_batches_tracked.item()
    (jit.Size([8, 3, 5, 5]), 1)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of volumes over batch, depth, height and width, as `BatchNorm1d` does each feature.

    Args:
        num_features: Channels of the input.
        eps: Added to the variance.
        momentum: The weight of a new batch in the running statistics; None averages over all batches.
        affine: Whether to learn a scale and a shift per channel.
        track_running_stats: Whether to keep running statistics; without, each batch is normalised by its own always.
        bias: Whether there is a shift, if there is a scale.

    Shape:
        Input `[N, num_features, D, H, W]`; output of the same sizes.
    """

    ranks = (5,)


class _InstanceNorm(_RunningNorm):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Any) -> Any:
        """Args: input `[N, num_features, ...]`, or `[num_features, ...]` of one sample. Returns: the same sizes."""
        self._check_rank(input)
        self._check_features(input)
        if input.ndim == self.ranks[0]:
            return F.squeeze(self._normalised(F.unsqueeze(input, 0)), 0)
        return self._normalised(input)

    def _check_features(self, input: Any) -> None:
        found = input.shape[input.ndim - self.ranks[0]]
        if found == self.num_features:
            return
        told = f"{type(self).__name__} was made for {self.num_features} channels, and this input has {found}"
        if self.affine:
            raise ShapeError(f"{told}; make it with num_features={found}")
        warnings.warn(f"{told}; without affine=True it normalises any number of them", stacklevel=5)

    def _normalised(self, input: Any) -> Any:
        return functional.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sequence over its length: ``(x - mean) / sqrt(var + eps)``.

    Args:
        num_features: Channels of the input.
        eps: Added to the variance.
        momentum: The weight of a new batch in the running statistics, if there are any.
        affine: Whether to learn a scale and a shift per channel.
        track_running_stats: Whether to keep running statistics, and to normalise by them in evaluation.
        bias: Whether there is a shift, if there is a scale.

    Shape:
        Input `[N, num_features, L]` or `[num_features, L]`; output of the same sizes.

    >>> import jit
    >>> jit.nn.InstanceNorm1d(1)(jit.tensor([[[1.0, 3.0]]])).round().tolist()
    [[[-1.0, 1.0]]]
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image over height and width: ``(x - mean) / sqrt(var + eps)``.

    Args:
        num_features: Channels of the input.
        eps: Added to the variance.
        momentum: The weight of a new batch in the running statistics, if there are any.
        affine: Whether to learn a scale and a shift per channel.
        track_running_stats: Whether to keep running statistics, and to normalise by them in evaluation.
        bias: Whether there is a shift, if there is a scale.

    Shape:
        Input `[N, num_features, H, W]` or `[num_features, H, W]`; output of the same sizes.
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each volume over its spatial dims: ``(x - mean) / sqrt(var + eps)``.

    Args:
        num_features: Channels of the input.
        eps: Added to the variance.
        momentum: The weight of a new batch in the running statistics, if there are any.
        affine: Whether to learn a scale and a shift per channel.
        track_running_stats: Whether to keep running statistics, and to normalise by them in evaluation.
        bias: Whether there is a shift, if there is a scale.

    Shape:
        Input `[N, num_features, D, H, W]` or without N; output of the same sizes.
    """

    ranks = (4, 5)


class LayerNorm(Module):
    """Normalises over the last dims, each position by itself: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Args:
        normalized_shape: Sizes of those dims, or the size of the last one.
        eps: Added to the variance.
        elementwise_affine: Whether to learn a scale and a shift per element.
        bias: Whether there is a shift.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Input `[..., *normalized_shape]`; output of the same sizes.

    >>> import jit
    >>> jit.nn.LayerNorm(4)(jit.randn(2, 3, 4)).shape
    jit.Size([2, 3, 4])
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        resolve(device)
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        for name, there in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            parameter = Parameter(F.empty(self.normalized_shape, device=device, dtype=dtype)) if there else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        """Args: input `[..., *normalized_shape]`. Returns: the same sizes."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        learns = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {learns}"


class GroupNorm(Module):
    """Normalises groups of channels, each sample by itself.

    Args:
        num_groups: The number of groups into which the channels divide.
        num_channels: Size of dim 1 of the input.
        eps: Added to the variance.
        affine: Whether to learn a scale and a shift per channel.
        bias: Whether there is a shift, if there is a scale.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Input `[N, num_channels, ...]`; output of the same sizes.

    Raises:
        UsageError: The groups do not divide the channels.

    >>> import jit
    >>> jit.nn.GroupNorm(2, 6)(jit.randn(4, 6, 5)).shape
    jit.Size([4, 6, 5])
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        resolve(device)
        if num_channels % num_groups:
            raise UsageError(
                f"{num_channels} channels do not divide into {num_groups} groups; pass a number of groups that divides "
                "the channels"
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, there in (("weight", affine), ("bias", affine and bias)):
            parameter = Parameter(F.empty((num_channels,), device=device, dtype=dtype)) if there else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        """Args: input `[N, num_channels, ...]`. Returns: the same sizes."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        sizes = f"{self.num_groups}, {self.num_channels}"
        return f"{sizes}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides the last dims by the root of their mean square: ``x / sqrt(mean(x²) + eps) * weight``.

    Args:
        normalized_shape: The last sizes of the input: a number, or one for each dim.
        eps: Added to the mean square; the smallest step of the dtype if left out.
        elementwise_affine: Whether to learn a scale per element.
        device: The device of the parameters; the default one if left out.

    Shape:
        Input `[..., *normalized_shape]`; output of the same sizes.

    >>> import jit
    >>> jit.nn.RMSNorm(4)(jit.randn(2, 4)).shape
    jit.Size([2, 4])
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        resolve(device)
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = sizes, eps, elementwise_affine
        weight = Parameter(F.ones(sizes, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def reset_parameters(self) -> None:
        """Set the scale to one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, input: Any) -> Any:
        """Args: input `[..., *normalized_shape]`. Returns: the same sizes."""
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divides by ``(k + alpha * mean of squares) ** beta`` over `size` neighbouring channels.

    Args:
        size: The number of neighbouring channels that the mean is taken over.
        alpha: The factor of the mean.
        beta: The power of the divisor.
        k: The least divisor, before the power is taken.

    Shape:
        Input `[N, C, ...]` of three dims at least; output of the same sizes.

    >>> import jit
    >>> jit.nn.LocalResponseNorm(2)(jit.zeros(2, 3, 4)).shape
    jit.Size([2, 3, 4])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        """Args: input `[N, C, ...]`. Returns: the same sizes."""
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """`LocalResponseNorm` under the name of networks of Caffe: of an even `size`, as many channels on both sides count.

    Args:
        size: The number of neighbouring channels.
        alpha: The factor of the mean of squares.
        beta: The power of the divisor.
        k: The least divisor, before the power is taken.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Any) -> Any:
        """Args: input `[N, C, ...]`. Returns: the same sizes."""
        width = (self.size - 1) // 2 * 2 + 1
        return functional.local_response_norm(input, width, self.alpha * width / self.size, self.beta, self.k)
