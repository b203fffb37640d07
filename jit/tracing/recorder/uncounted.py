"""Writes through `.data`, of which the version counters of other tensors know nothing.

Note [Uncounted writes]
    What a derivative has saved is memory, and a backward reads what that holds then. Where a version counter tells of a
    write in between, that is an error; `.data` has a counter of its own, so a write through it goes unnoticed:

        y = x * w             saves w
        w.data.mul_(2)
        y.backward()          x.grad is 2 * w

    A backward inside of the function is recorded with the same result, because a saved tensor is bound to its cell and
    reads the cell's root. Two backwards cannot be recorded so, since in a later call the saved tensor is not the memory
    that is written to: that of a Python function, and one that comes after the call, which may have to be recorded from
    a replay of the graph, where the product and its derivative read one Value, the old one. A recording with such a
    history is not kept, and the results of the call have the history of eager mode.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from jit.autograd.nodes import CopySlices, Node, SavedTensor
from jit.eager import context
from jit.eager.tensors import Storage, Tensor
from jit.ir.graph import leaves

from .memory import TraceMemory
from .refusals import Impurity


class UncountedWrites:
    """The writes of one trace over what a derivative has saved, of which its version counter does not tell.

    Args:
        memory: Knows the writes.
        impurity: Is told of those that make a recording serve one call alone.
    """

    def __init__(self, memory: TraceMemory, impurity: Impurity) -> None:
        self._memory = memory
        self._impurity = impurity

    def over(self, node: Node) -> Storage | None:
        """The storage that has counted a write over what `node` has saved, if the saved tensor's own has not."""
        for saved in saved_by(node) if self._memory.writes else ():
            binding = self._memory.binding(saved)
            cells = self._memory.cells_of(saved.storage) if binding is None else [binding.cell]
            for cell, storage, serial in self._memory.writes:
                if cell in cells and storage is not saved.storage and serial > node.serial:
                    return storage
        return None

    def are_behind(self, outputs: Sequence[Any]) -> bool:
        """Whether a write goes over what a node in the histories of `outputs` has saved; no recording is kept then."""
        histories = list(nodes_behind(outputs)) if self._memory.writes else ()
        return any([self.refuse_over(node) for node in histories])

    def refuse_over(self, node: Node) -> bool:
        """Whether a write goes over what `node` has saved; no recording is kept then."""
        storage = self.over(node)
        if storage is None:
            return False
        with context.standing_at(storage.writer):
            self._impurity.note_impure(f"writes through .data over what {node.name} has saved")
        return True


def saved_by(node: Node) -> Iterator[SavedTensor]:
    """The tensors that an autograd node keeps for its derivative, those of a Python function among them."""
    if isinstance(node, CopySlices):
        yield from () if node.inner is None else saved_by(node.inner)
        return
    kept = getattr(node, "saved", None)
    of_function = getattr(getattr(node, "ctx", None), "_saved", None)
    items = [*(kept.values() if kept else ()), *(of_function or ())]
    yield from (leaf for item in items for leaf in leaves(item) if isinstance(leaf, SavedTensor))


def nodes_behind(outputs: Sequence[Any], outside: Container[Node] = ()) -> Iterator[Node]:
    """The autograd nodes in the histories of the tensors among `outputs`, each once; nothing behind those `outside`."""
    stack: list[Any] = [t.grad_fn for t in outputs if isinstance(t, Tensor) and t.grad_fn is not None]
    seen: set[Node] = set(stack)
    while stack:
        node = stack.pop()
        yield node
        following = set() if node in outside else {edge.node for edge in node.edges if edge is not None} - seen
        seen |= following
        stack += following
