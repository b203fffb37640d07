"""`Levels`: the `vmap`s under way where a function is differentiated, and the way of tensors past them and back.

Note [Derivatives under vmap]
    Histories belong to the tensors of all samples, see Note [Batched tensors]. So what is differentiated by is first
    made one for each sample, and gradients are asked of the tensors of all samples, outside of every layer: a sample's
    result depends on this sample's argument alone, so that the gradient of all is the gradient of each.

    The products that `vjp` and `linearize` return may be mapped themselves, by layers that were not there when the
    function ran. What is behind its results knows nothing of them. They are put beneath the others for the while of the
    products: their dims go in front, and new layers of these sizes run on whatever was there before all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor

from .layers import Layer, VmapError, layers_now

Products = Callable[[list[Tensor]], list[Tensor]]
"""A function of the tensors of all samples."""


class Levels:
    """The layers under way now, the outermost first."""

    def __init__(self) -> None:
        self.layers = layers_now()

    def outside(self) -> AbstractContextManager[Any]:
        """A block in which operators come to whoever was there before all layers."""
        return self.layers[0].outside() if self.layers else nullcontext()

    def lowered(self, tensor: Tensor) -> Tensor:
        """The tensor of all samples of all layers, whose dims are in front, that of the outermost first."""
        return _lowered(self.layers, tensor)

    def raised(self, tensor: Tensor) -> Tensor:
        """The sample that stands for a tensor of all samples."""
        return _raised(self.layers, tensor)

    def apply(self, function: Products, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The results of a function of the tensors of all samples of these layers; see Note [Derivatives under vmap].

        Args:
            function: It is linear, and is called outside of all layers, or within new ones for those added since.
            tensors: Samples of the layers that are under way now.

        Raises:
            VmapError: One of these layers has ended.
        """
        now, own = layers_now(), len(self.layers)
        if now[:own] != self.layers:
            raise VmapError("a product of a function under vmap is asked for after its end; compute it within the vmap")
        reals = [_lowered(now, tensor) for tensor in tensors]
        with self.outside():
            results = _beneath(function, reals, now[own:], own)
        return [_raised(now, result) for result in results]


def _lowered(layers: Sequence[Layer], tensor: Tensor) -> Tensor:
    for layer in reversed(layers):
        with layer.outside():
            tensor = layer.whole(tensor)
    return tensor


def _raised(layers: Sequence[Layer], tensor: Tensor) -> Tensor:
    for layer in layers:
        tensor = layer.batched(tensor)
    return tensor


def _beneath(function: Products, reals: list[Tensor], added: Sequence[Layer], own: int) -> list[Tensor]:
    """The results of a function for which the dims of the added layers, behind `own` others, are mapped."""
    if not added:
        return function(reals)
    fronts, places = list(range(len(added))), list(range(own, own + len(added)))
    moved = [F.movedim(real, places, fronts) if own else real for real in reals]
    with ExitStack() as running:
        layers = [running.enter_context(layer.again().running()) for layer in added]
        found = function([_raised(layers, real) for real in moved])
        results = [_lowered(layers, result) for result in found]
    return [F.movedim(result, fronts, places) if own else result for result in results]


__all__ = ["Levels"]
