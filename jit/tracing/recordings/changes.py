"""Changes that a call of a recording makes outside: elements, generators, gradients, and tensors that become views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jit.autograd.nodes import Node
from jit.eager import context
from jit.eager.effects import note_write
from jit.eager.generators import Generator

from ..recorder.metadata import Move, move
from .histories import overwrite


@dataclass(frozen=True, slots=True)
class EffectSpec:
    """The changes of a call to the objects behind its inputs, which are told by number."""

    targets: list[int] = field(default_factory=list)
    """Per update: the index of the input that it is written to."""
    slots: list[tuple[int, int | None]] = field(default_factory=list)
    """Pairs (input, output): which output becomes the `.grad` of an input; None clears it."""
    moves: list[Move] = field(default_factory=list)
    """Inputs that become views of themselves."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.targets or self.slots or self.moves)

    def commit(
        self, owners: Sequence[Any], updates: Sequence[Any], first: int, node: Node | None, carrying: Sequence[int]
    ) -> None:
        """Write what the function has mutated; after the last guard, so all of it or nothing.

        Args:
            owners: The objects behind the inputs.
            updates: The values that the targets are to hold.
            first: The number of the first update among what the run returned.
            node: The history of the call's results, if gradients are recorded.
            carrying: The numbers of those that have it.
        """
        source = context.user_source() if updates else None
        for number, (index, value) in enumerate(zip(self.targets, updates, strict=True), first):
            owner = owners[index]
            if isinstance(owner, Generator):
                owner.state = value
            elif node is not None and number in carrying:
                overwrite(owner, value, node, number)
            else:
                note_write(owner)
                np.copyto(owner._array, value, casting="unsafe")
                owner._storage.written(source)

    def leave(self, made: Sequence[Any], owners: Sequence[Any], objects: Sequence[Any]) -> None:
        """Put gradients where the function has left them, and let inputs become the views that it has made of them.

        Args:
            made: The outputs of the call.
            owners: The tensors behind the inputs.
            objects: The objects behind the inputs, where the function itself has made other views of some.
        """
        for index, number in self.slots:
            objects[index]._grad = None if number is None else made[number]
        for index, path, requires_grad in self.moves:
            if objects[index] is owners[index]:
                move(owners[index], path, requires_grad)
