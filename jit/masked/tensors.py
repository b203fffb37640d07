"""`MaskedTensor`: values, and a mask that says which of them count.

Note [What a mask hides has no gradient]
    A masked tensor holds two tensors of the same sizes; `jit.masked.answers` says what operators are for it. One that
    works element by element is applied to the values and keeps the mask; one that only moves elements is applied to
    both; a reduction leaves out what the mask hides, and its result is hidden where it hid everything.

    Hidden values are computed with all the same, and may be anything: the square root of a hidden 0 has an infinite
    derivative, which times the gradient 0 of a hidden result is NaN. So where a history enters, in `as_masked_tensor`,
    gradients of hidden values end in a `where`, which drops them whatever they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jit.eager.holding import Holding
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import layouts
from jit.ir.errors import KindError, ShapeError, UsageError

from .showing import show


@dataclass(eq=False, repr=False, init=False)
class MaskedTensor(Holding):
    """A tensor of which a mask says which elements count; `masked_tensor` and `as_masked_tensor` make one.

    Args:
        data: The values, which are copied.
        mask: A tensor of bools of the same sizes, which is true where an element counts.
        requires_grad: Whether gradients by the values are wanted.
    """

    held: Any
    """The values."""
    mask: Any
    """Whether they count."""

    answered_in = "jit.masked.answers"
    noun, way_out = "a masked tensor", "to_tensor(value)"
    layout = layouts.strided
    is_sparse = is_sparse_csr = False

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        for what, value in {"data": data, "mask": mask}.items():
            if not isinstance(value, Tensor):
                raise KindError(f"a masked tensor is made of two tensors, and {what} is a {type(value).__name__}")
        if tuple(data.shape) != tuple(mask.shape):
            raise ShapeError(
                f"data.size() {list(data.shape)} must equal mask.size() {list(mask.shape)}; expand the mask"
            )
        if mask.dtype.category != 0:
            raise KindError(f"a mask is of bools, not {mask.dtype.name}; convert it with .bool()")
        self.held, self.mask = F.clone(data.detach()).requires_grad_(requires_grad), F.clone(mask)

    @staticmethod
    def over(held: Any, mask: Any) -> MaskedTensor:
        """A masked tensor that holds these two themselves.

        Args:
            held: The values.
            mask: Whether they count, in the same sizes.
        """
        made = object.__new__(MaskedTensor)
        made.held, made.mask = held, mask
        return made

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self.held.shape

    def holding(self, values: Any) -> MaskedTensor:
        """Other values under the same mask."""
        return MaskedTensor.over(values, self.mask)

    def moved(self, device: Any) -> MaskedTensor:
        """This tensor, values and mask, on a device."""
        return MaskedTensor.over(self.held.to(device), self.mask.to(device))

    def _like_this(self, value: Any) -> Any:
        if not isinstance(value, MaskedTensor) or tuple(value.shape) != tuple(self.shape):
            raise KindError("the gradient of a masked tensor is one of the same sizes; assign such a one, or None")
        return value

    def get_data(self) -> Any:
        """The values, those included that do not count."""
        return self.held

    def get_mask(self) -> Any:
        """The mask, which is true where a value counts."""
        return self.mask

    def to_tensor(self, value: Any) -> Any:
        """An ordinary tensor, with a number in place of what does not count.

        Args:
            value: The number.
        """
        return F.masked_fill(self.held, ~self.mask, value)

    def to_dense(self) -> MaskedTensor:
        """This tensor, which holds all its elements."""
        return self

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add the gradients of this to those of the leaves, as `Tensor.backward` does.

        Args:
            gradient: The gradient of this tensor, masked or not; 1 if it has one element.
            retain_graph: Whether the history is kept.
            create_graph: Whether the backward gets a history of its own.
        """
        given = gradient.held if isinstance(gradient, MaskedTensor) else gradient
        self.held.backward(given, retain_graph=retain_graph, create_graph=create_graph)

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.held.item()

    def stride(self, dim: int | None = None) -> Any:
        """The strides of the values, or that of `dim`."""
        return self.held.stride() if dim is None else self.held.stride(dim)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the values lie in order."""
        return bool(self.held.is_contiguous())

    def answer(self, name: str, args: Any, kwargs: Any) -> Any:
        """The result of the operator of this name; UsageError if masked tensors have none."""
        found = self.answers().get(name)
        if found is None:
            raise UsageError(f"{name} does not take masked tensors; use to_tensor(value) of them")
        return found(*args, **kwargs)

    def __getitem__(self, index: Any) -> MaskedTensor:
        return MaskedTensor.over(self.held[index], self.mask[index])

    def __iter__(self) -> Any:
        return iter(self.answer("unbind", (self,), {}))

    def __bool__(self) -> bool:
        return bool(self.held)

    def __repr__(self) -> str:
        return show(self)

    def __eq__(self, other: object) -> Any:
        return self.answer("eq", (self, other), {})

    def __ne__(self, other: object) -> Any:
        return self.answer("ne", (self, other), {})

    __hash__ = object.__hash__


__all__ = ["MaskedTensor"]
