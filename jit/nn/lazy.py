"""Layers that learn the size of their input from the first input that they see.

Note [Lazy layers]
    The parameters of a lazy layer have no sizes at first. A hook before its first call reads the sizes off the input,
    gives the parameters memory and draws them; the layer then becomes one of the plain class that its class names.
    Loading a state dict gives the parameters their sizes, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager import context
from jit.ir.errors import ShapeError, UsageError

from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear
from .modules import Module
from .normalisation import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy


def refuse_lazy(parameters: Iterable[Any], verb: str) -> None:
    """Refuse to `verb` parameters of which one has no sizes yet.

    Raises:
        UsageError: One has no sizes.
    """
    if any(map(is_lazy, parameters)):
        raise UsageError(f"a parameter without sizes is there to {verb}; call its module once first, which sets them")


class LazyModuleMixin(Module):
    """Makes a layer lazy, see Note [Lazy layers]: put it before the layer's class among the bases, say in
    `cls_to_become` what the layer becomes, and define `initialize_parameters(self, input)`."""

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._forward_pre_hooks[-1] = (infer_parameters, False)
        self._state_hooks["load"][-1] = take_sizes

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters sizes; takes what `forward` takes.

        Raises:
            UsageError: The class does not define it.
        """
        raise UsageError(f"{type(self).__name__} does not define initialize_parameters(self, input); define it")

    def has_uninitialized_params(self) -> bool:
        """Whether some parameter has no sizes yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if they have sizes."""
        if not self.has_uninitialized_params() and all(p.numel() for p in self._parameters.values() if p is not None):
            super().reset_parameters()  # type: ignore[misc]


def infer_parameters(module: Any, args: tuple[Any, ...]) -> None:
    """Give the parameters of a lazy module sizes: the hook before its first call.

    Raises:
        UsageError: The call is being traced, or a parameter is left without sizes.
    """
    if context.TRACE.get() is not None:
        raise UsageError(f"call this {type(module).__name__} once before it is traced: its sizes are not known yet")
    with context.no_grad():
        module.initialize_parameters(*args)
    if module.has_uninitialized_params():
        raise UsageError(
            f"{type(module).__name__}.initialize_parameters has left a parameter without sizes; materialize() it"
        )
    del module._forward_pre_hooks[-1], module._state_hooks["load"][-1]
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def take_sizes(module: Any, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:
    """Give the parameters of a lazy module the sizes that a state dict has: the hook before loading.

    Args:
        module: The lazy module.
        state: The state dict.
        prefix: The beginning of the module's names in it.
        rest: The other arguments of such hooks, which are not used.
    """
    for name, member in (*module._parameters.items(), *module._buffers.items()):
        given = state.get(prefix + name)
        if is_lazy(member) and given is not None and not is_lazy(given):
            member.materialize(given.shape)


# -- layers --------------------------------------------------------------------------------------------------------


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose `in_features` is the last size of its first input.

    Args:
        out_features: Size of the last dim of the output.
        bias: Whether to add a bias.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    >>> import jit
    >>> layer = jit.nn.LazyLinear(2)
    >>> layer(jit.zeros(5, 3)).shape, layer
    (jit.Size([5, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def initialize_parameters(self, input: Any) -> None:
        """Give weight and bias the sizes that follow from the input's last size."""

        layer: Any = self
        self.in_features = input.shape[-1]
        if self.has_uninitialized_params():
            layer.weight.materialize((self.out_features, self.in_features))
            if is_lazy(layer.bias):
                layer.bias.materialize((self.out_features,))
            self.reset_parameters()


class _LazyConvolution(LazyModuleMixin):
    """Base of lazy convolutions: `in_channels` is the size of the channel dim of the first input."""

    def _forget_sizes(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        layer: Any = self
        if out_channels % layer.groups:
            raise UsageError(f"{out_channels} channels do not divide into {layer.groups} groups; pass a divisor")
        layer.in_channels, layer.out_channels = 0, out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def initialize_parameters(self, input: Any, *rest: Any) -> None:
        layer: Any = self
        if input.ndim not in (layer.dims + 1, layer.dims + 2):
            raise ShapeError(f"{type(self).__name__} takes {layer.dims + 2}-d inputs, not sizes {list(input.shape)}")
        layer.in_channels = input.shape[-layer.dims - 1]
        if not self.has_uninitialized_params():
            return
        if layer.in_channels % layer.groups:
            raise UsageError(f"{layer.in_channels} channels do not divide into {layer.groups} groups")
        one, other = layer.out_channels, layer.in_channels
        channels = (other, one // layer.groups) if layer.transposed else (one, other // layer.groups)
        layer.weight.materialize((*channels, *layer.kernel_size))
        if is_lazy(layer.bias):
            layer.bias.materialize((layer.out_channels,))
        self.reset_parameters()


class _LazyConv(_LazyConvolution):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(groups, groups, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._forget_sizes(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvolution):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        options = stride, padding, output_padding, groups, False, dilation, padding_mode
        super().__init__(groups, groups, kernel_size, *options)
        self._forget_sizes(out_channels, bias, device, dtype)


class _LazyNorm(LazyModuleMixin):
    """Base of lazy norms: `num_features` is the size of the channel dim of the first input."""

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, track_running_stats, device=device, dtype=dtype)
        self.affine = affine
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
        if affine and bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)

    def initialize_parameters(self, input: Any) -> None:
        layer: Any = self
        ranks = layer.ranks
        single = ranks[0] if self.cls_to_become in UNBATCHED else None
        layer.num_features = input.shape[0 if input.ndim == single else 1]
        if self.has_uninitialized_params():
            for member in (*self._parameters.values(), *self._buffers.values()):
                if is_lazy(member):
                    member.materialize((layer.num_features,))  # type: ignore[union-attr]
            self.reset_parameters()


UNBATCHED = (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)
"""Norms that take one sample without a batch dim, too."""


def _other_arguments(plain: type) -> str:
    """The documentation of a layer's arguments, less the first: its number of channels."""
    _, _, arguments = inspect.cleandoc(plain.__doc__ or "").partition("Args:\n")
    _, _, others = arguments.partition("\n\n")[0].partition("\n")
    return others


def _lazy(base: type, plain: type) -> Any:
    """The lazy form of a layer."""
    text = f"""A `{plain.__name__}` that takes the number of channels from its first input; see Note [Lazy layers].

Args:
{_other_arguments(plain)}
"""
    space = {"cls_to_become": plain, "__doc__": text, "__module__": __name__}
    return type(f"Lazy{plain.__name__}", (base, plain), space)


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy(_LazyConv, plain) for plain in (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(_LazyConvTranspose, plain) for plain in (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(_LazyNorm, plain) for plain in (BatchNorm1d, BatchNorm2d, BatchNorm3d)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (_lazy(_LazyNorm, plain) for plain in UNBATCHED)
