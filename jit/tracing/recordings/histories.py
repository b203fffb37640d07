"""Histories of traced tensors: stand-ins for arguments, and the results and writes of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.autograd.attaching import attach, rebase
from jit.autograd.nodes import AccumulateGrad, Edge, Node, edge_of
from jit.eager import context, dispatch
from jit.eager.effects import note_write
from jit.eager.tensors import Tensor, Variable, alias, tensor_of
from jit.ops.assignment import copy as COPY

from ..surroundings.surroundings import attributes_of


class PassThrough(Node):
    """The node at which the gradient of an argument that is not a leaf leaves the traced function.

    To code of the user's it looks like the node that made the argument, which may be another one in every call.
    """

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the node outside, if it is the traced function that asks."""
        outside = self._outside() if context.asking_trace() is not None else None
        return "Argument" if outside is None else outside.name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges of the node outside, if it is the traced function that asks."""
        outside = self._outside() if context.asking_trace() is not None else None
        return super().next_functions if outside is None else outside.next_functions

    def __repr__(self) -> str:
        outside = self._outside()
        return super().__repr__() if outside is None else repr(outside)

    def _outside(self) -> Node | None:
        trace, edge = context.TRACE.get(), self.edges[0]
        if trace is None or edge is None:
            return None
        trace.note_impure("reads the history of a tensor from outside")
        return edge.node

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        return gradients


def stand_in(tensor: Tensor) -> Tensor:
    """A stand-in for `tensor`: its memory, and a history of its own that leads to the same place.

    So a trace knows where its arguments end, and what escapes from the function is connected all the same.
    """
    inner = alias(tensor, type(tensor))
    inner._name = tensor._name
    vars(inner).update(attributes_of(tensor))
    if not dispatch.requires_grad(tensor):
        return inner
    if tensor.is_leaf:
        node = AccumulateGrad(tensor)
        inner._requires_grad = True
        inner._accumulator = _always(node)
    else:
        inner.set_history(PassThrough("", (edge_of(tensor),)), 0)  # type: ignore[attr-defined]
    return inner


def twin(inner: Tensor, tensor: Tensor) -> Tensor:
    """A stand-in for another object that is the same tensor as the one that `inner` stands for."""
    copy = alias(tensor, type(tensor))
    vars(copy).update(attributes_of(tensor))
    copy._name, copy._requires_grad, copy._accumulator = tensor._name, inner._requires_grad, inner._accumulator
    if inner.grad_fn is not None:
        copy.set_history(inner.grad_fn, inner.output_nr)  # type: ignore[attr-defined]
    return copy


def _always(node: Node) -> Any:
    return lambda: node


def kept_with(tensor: Tensor, edge: Edge) -> Tensor:
    """Another object for `tensor`, with the history that leads to `edge`; `tensor` itself will get another one."""
    copy = alias(tensor, Variable)
    copy.set_history(edge.node, edge.index)  # type: ignore[attr-defined]
    return copy


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
    """Let output `index` of `node` be the history of `owner`, which was just written to."""
    if owner._viewed is None:
        give_history(owner, node, index)
        return
    source = alias(owner, Variable)  # the base has to learn about it: as if this had been copied over the view
    source.set_history(node, index)  # type: ignore[attr-defined]
    copying = attach(COPY, [owner, source], [tensor_of(owner._array, owner._storage)])
    assert copying is not None
    rebase(owner, copying)
