"""Where traced tensors have their autograd history: stand-ins for arguments, and the results and writes of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.ir.ops.assignment import copy as COPY

from .. import dispatch
from ..autograd.nodes import AccumulateGrad, Node, edge_of
from ..tensors import Tensor, Variable, alias
from .effects import note_write
from .surroundings import attributes_of


class PassThrough(Node):
    """Where the gradient of an argument that is no leaf leaves the traced function."""

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        return gradients


def stand_in(tensor: Tensor) -> Tensor:
    """What the traced function gets for `tensor`: its memory, and a history of its own that leads to the same place.

    So a trace knows where its arguments end, and what escapes from the function is connected all the same.
    """
    inner = alias(tensor, type(tensor))
    inner.name = tensor.name
    vars(inner).update(attributes_of(tensor))
    if not dispatch.requires_grad(tensor):
        return inner
    if tensor.is_leaf:
        node = AccumulateGrad(tensor)
        inner._requires_grad = True
        inner._accumulator = _always(node)
    else:
        inner.set_history(PassThrough("Argument", (edge_of(tensor),)), 0)  # type: ignore[attr-defined]
    return inner


def twin(inner: Tensor, tensor: Tensor) -> Tensor:
    """A stand-in for another object that is the same tensor as the one that `inner` stands for."""
    copy = alias(tensor, type(tensor))
    vars(copy).update(attributes_of(tensor))
    copy.name, copy._requires_grad, copy._accumulator = tensor.name, inner._requires_grad, inner._accumulator
    if inner.grad_fn is not None:
        copy.set_history(inner.grad_fn, inner.output_nr)  # type: ignore[attr-defined]
    return copy


def _always(node: Node) -> Any:
    return lambda: node


def give_history(tensor: Tensor, node: Node, index: int) -> None:
    """Let a fresh tensor be output `index` of `node`."""
    tensor._promote()
    tensor._requires_grad = False
    tensor.set_history(node, index)  # type: ignore[attr-defined]


def overwrite(owner: Tensor, value: Any, node: Node, index: int) -> None:
    """Let `owner` hold `value`, whose history is output `index` of `node`."""
    note_write(owner)
    np.copyto(owner._array, value, casting="unsafe")
    owner._storage.written()
    adopt(owner, node, index)


def adopt(owner: Tensor, node: Node, index: int) -> None:
    """Let output `index` of `node` be the history of what `owner` holds since it was written to."""
    if owner._base is None:
        give_history(owner, node, index)
        return
    source = alias(owner, Variable)  # the base has to learn about it: as if this had been copied over the view
    source.set_history(node, index)  # type: ignore[attr-defined]
    copying = dispatch.attach(COPY, [owner, source], [Tensor(owner._array, owner._storage)])
    assert copying is not None
    dispatch.rebase(owner, copying)
