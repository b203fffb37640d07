"""Identities: the function gets other objects than its caller has, and some become views of themselves."""

from __future__ import annotations

from jit.eager.tensors import Tensor


class Identities:
    """The objects that stand for other objects in one trace."""

    def __init__(self) -> None:
        self.outer: dict[Tensor, Tensor] = {}
        """Stand-ins -> the arguments that they stand for."""
        self.inner: dict[Tensor, Tensor] = {}
        """The inverse of `outer`."""
        self.reshaped: dict[Tensor, Tensor] = {}
        """Tensors from outside that have become views of themselves -> what they were."""
        self.pasts: dict[Tensor, Tensor] = {}
        """The inverse of `reshaped`."""

    def stand_for(self, inner: Tensor, outer: Tensor) -> None:
        """Note that the function gets `inner` in the place of its argument `outer`."""
        self.outer[inner], self.inner[outer] = outer, inner

    def reshape(self, tensor: Tensor, before: Tensor) -> None:
        """Note that `tensor` becomes a view of `before`, which stands for what it was."""
        self.reshaped[tensor], self.pasts[before] = before, tensor

    def outside(self, tensor: Tensor) -> Tensor:
        """The argument that a tensor stands for, or itself."""
        return self.outer.get(tensor, tensor)

    def inside(self, tensor: Tensor) -> Tensor:
        """The stand-in for an argument, or the tensor itself."""
        return self.inner.get(tensor, tensor)

    def forget(self) -> None:
        """Let go of the objects of the call that was recorded."""
        for table in (self.outer, self.inner, self.reshaped, self.pasts):
            table.clear()
