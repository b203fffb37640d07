"""Batch norms in evaluation mode, fused into the layer before them."""

from __future__ import annotations

import copy
from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.ir.errors import UsageError


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Any, Any]:
    """The weight and the bias of a convolution that does what a convolution followed by a batch norm does.

    Args:
        conv_w: The weight of the convolution.
        conv_b: Its bias or None.
        bn_rm: The running mean.
        bn_rv: The running variance.
        bn_eps: What is added to the variance.
        bn_w: The scale of the norm or None.
        bn_b: Its shift or None.
        transpose: Whether the convolution is a transposed one, whose second dim are the outputs.
    """
    from ..parameter import Parameter

    with no_grad():
        scale = F.rsqrt(bn_rv + bn_eps) * (1.0 if bn_w is None else bn_w)
        sizes = [1] * conv_w.ndim
        sizes[1 if transpose else 0] = -1
        bias = (0.0 if conv_b is None else conv_b) - bn_rm
        bias = bias * scale + (0.0 if bn_b is None else bn_b)
        weight = Parameter(conv_w * F.reshape(scale, sizes), conv_w.requires_grad)
        return weight, Parameter(bias, conv_b is not None and conv_b.requires_grad)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that does what it does followed by a batch norm, both in evaluation mode.

    Args:
        conv: The convolution.
        bn: The norm.
        transpose: Whether the convolution is a transposed one.

    Raises:
        UsageError: One of the layers is in training mode.

    >>> import jit
    >>> conv, norm = jit.nn.Conv2d(2, 3, 1).eval(), jit.nn.BatchNorm2d(3).eval()
    >>> x = jit.randn(1, 2, 4, 4)
    >>> jit.allclose(jit.nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-6)
    True
    """
    if conv.training or bn.training:
        raise UsageError("a batch norm in training mode cannot be fused, as it depends on the batch; call eval() first")
    fused = copy.deepcopy(conv)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_conv_bn_weights(conv.weight, conv.bias, *statistics, transpose=transpose)
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """The same as `fuse_conv_bn_eval` for a linear layer followed by a batch norm."""
    return fuse_conv_bn_eval(linear, bn)


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Any, Any]:
    """The same as `fuse_conv_bn_weights` for a linear layer.

    Args:
        linear_w: The weight of the linear layer.
        linear_b: Its bias or None.
        bn_rm: The running mean.
        bn_rv: The running variance.
        bn_eps: What is added to the variance.
        bn_w: The scale of the norm or None.
        bn_b: Its shift or None.
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
