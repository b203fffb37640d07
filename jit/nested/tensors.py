"""`NestedTensor`: tensors of different sizes that stand for one with a batch in front.

Note [Nested tensors]
    The elements of all members lie in one vector, one member after the other, and the sizes of each are known beside
    it. What works element by element is one operator on the vector; all else is done member by member
    (`jit.nested.answers`). Where the members differ in their first dim alone, the vector is seen as rows, so that a
    linear layer is one product for all of them. Derivatives and recordings see operators of ordinary tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jit.eager.holding import Holding
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir import dtypes, layouts
from jit.ir.errors import DimError, KindError, UsageError
from jit.ir.geometry import wrap_dim

Sizes = tuple[int, ...]


@dataclass(eq=False, repr=False)
class NestedTensor(Holding):
    """Tensors of one dtype and as many dims, as a batch; `nested_tensor` and its relatives make one."""

    held: Any
    """The elements of all members, one member after the other."""
    sizes: tuple[Sizes, ...]
    """The sizes of each member."""
    layout: Any = layouts.strided
    """The layout that was asked for, which makes no difference but for the text."""

    answered_in = "jit.nested.answers"
    noun, way_out = "a nested tensor", "to_padded_tensor(value)"
    is_sparse = is_sparse_csr = False
    is_nested = True

    @staticmethod
    def of(members: Sequence[Any], layout: Any = layouts.strided) -> NestedTensor:
        """A nested tensor of members, which gradients reach.

        Args:
            members: Tensors of one dtype, with as many dims.
            layout: The layout that it tells.
        """
        if len({member.ndim for member in members}) > 1:
            raise UsageError("members of a nested tensor have as many dims as each other; reshape them")
        flat = [F.reshape(member, [-1]) for member in members]
        held = F.cat(flat) if flat else F.empty([0])
        return NestedTensor(held, tuple(tuple(map(int, member.shape)) for member in members), layout)

    # -- members -------------------------------------------------------------------------------------------------

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The members, which share the memory of the batch.

        Args:
            dim: 0: there are no other parts.
        """
        if wrap_dim(dim, self.ndim):
            raise UsageError(f"a nested tensor is taken apart along dim 0, not {dim}; transpose the members")
        parts = F.split(self.held, [math.prod(sizes) for sizes in self.sizes])
        return tuple(F.view(part, list(sizes)) for part, sizes in zip(parts, self.sizes, strict=True))

    def rows(self) -> Any:
        """All elements as rows of one tensor, if the members differ in their first dim alone; None otherwise."""
        rest = {sizes[1:] for sizes in self.sizes}
        if len(rest) != 1 or not all(self.sizes):
            return None
        return F.view(self.held, [sum(sizes[0] for sizes in self.sizes), *rest.pop()])

    def of_rows(self, rows: Any) -> NestedTensor:
        """A nested tensor with other rows in place of those of `rows()`."""
        sizes = tuple((each[0], *map(int, rows.shape[1:])) for each in self.sizes)
        return NestedTensor(F.reshape(rows, [-1]), sizes, self.layout)

    def values(self) -> Any:
        """All elements as rows of one tensor; UsageError if the members differ in more than their first dim."""
        found = self.rows()
        if found is None:
            raise UsageError("the members differ in more than their first dim, so they are not rows; use unbind()")
        return found

    def offsets(self) -> Any:
        """The row at which each member begins, and the number of rows."""
        return F.cumsum(F.constant_pad_nd(self.lengths(), [1, 0]), 0)

    def lengths(self) -> Any:
        """The first size of each member."""
        from jit.eager.creation import tensor

        return tensor([sizes[0] for sizes in self.sizes], dtype=dtypes.int64, device=self.device)

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Any:
        """An ordinary tensor, in which a number fills up what members lack.

        Args:
            padding: The number.
            output_size: The sizes of the result; the largest of the members if left out.
        """
        most = [max(each) for each in zip(*self.sizes, strict=True)] if output_size is None else output_size[1:]
        members = [
            F.constant_pad_nd(member, [n for have, want in zip(reversed(sizes), reversed(most), strict=True)
                                       for n in (0, want - have)], padding)
            for member, sizes in zip(self.unbind(), self.sizes, strict=True)
        ]  # fmt: skip
        return F.stack(members)

    # -- what tensors are asked ----------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dims, that of the batch included."""
        return 1 + len(self.sizes[0]) if self.sizes else 1

    def dim(self) -> int:
        """The number of dims, that of the batch included."""
        return self.ndim

    ndimension = dim

    @property
    def shape(self) -> Any:
        """The sizes; DimError if members differ in one."""
        return Size([self.size(dim) for dim in range(self.ndim)])

    def size(self, dim: int | None = None) -> Any:
        """The size along a dim; DimError where the members differ.

        Args:
            dim: The dim; all sizes if left out.
        """
        if dim is None:
            return self.shape
        at = wrap_dim(dim, self.ndim)
        found = {sizes[at - 1] for sizes in self.sizes} if at else {len(self.sizes)}
        if len(found) > 1:
            raise DimError(f"dim {dim} of this nested tensor is irregular and has no size; use unbind() or lengths()")
        return found.pop()

    def numel(self) -> Any:
        """The number of elements."""
        return self.held.numel()

    nelement = numel

    def holding(self, values: Any) -> NestedTensor:
        """Other elements in the same sizes."""
        return NestedTensor(values, self.sizes, self.layout)

    def moved(self, device: Any) -> NestedTensor:
        """This tensor on a device."""
        return self.holding(self.held.to(device))

    def contiguous(self, memory_format: Any = None) -> NestedTensor:
        """This tensor, whose members lie one after the other."""
        return self

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True: members lie one after the other."""
        return True

    def _like_this(self, value: Any) -> Any:
        if not isinstance(value, NestedTensor) or value.sizes != self.sizes:
            raise KindError("the gradient of a nested tensor is one of the same sizes; assign such a one, or None")
        return value

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add the gradients of this to those of the leaves, as `Tensor.backward` does.

        Args:
            gradient: The gradient of this tensor, a nested one.
            retain_graph: Whether the history is kept.
            create_graph: Whether the backward gets a history of its own.
        """
        given = gradient.held if isinstance(gradient, NestedTensor) else gradient
        self.held.backward(given, retain_graph=retain_graph, create_graph=create_graph)

    def answer(self, name: str, args: Any, kwargs: Any) -> Any:
        """The result of the operator of this name; UsageError if nested tensors have none."""
        found = self.answers().get(name)
        if found is None:
            raise UsageError(f"{name} does not take nested tensors; use unbind() or to_padded_tensor(value) of them")
        return found(*args, **kwargs)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            raise KindError("a nested tensor is indexed by the number of a member; index the members, of unbind()")
        return self.unbind()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind())

    def __eq__(self, other: object) -> Any:
        return self.answer("eq", (self, other), {})

    def __ne__(self, other: object) -> Any:
        return self.answer("ne", (self, other), {})

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        members = ",\n".join("  " + repr(member).replace("\n", "\n  ") for member in self.detach().unbind())
        leaf = ", requires_grad=True" if self.requires_grad else ""
        return f"nested_tensor([\n{members}\n]{leaf if self.grad_fn is None else f', grad_fn={self.grad_fn!r}'})"


__all__ = ["NestedTensor"]
