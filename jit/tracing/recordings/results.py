"""Results of a call, made from what a run of a recording returned."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jit.eager import context
from jit.eager.pytree import paths, unflatten
from jit.eager.tensors import Tensor, tensor_of
from jit.eager.view_paths import ViewPath

from ..recorder.metadata import Tag, set_tag
from ..recorder.views import shown
from ..surroundings.places import attribute_of
from .histories import give_history
from .kept_leaves import enter


@dataclass(slots=True)
class OutputSpec:
    """The way of one output of the function out of a run."""

    kind: str
    """"fresh": the array that the plan returns as number `index`. "view": a view of that by `path`. "input": a view of
    input `index` by `path`. "itself": input `index`, which has become a view of itself. "same": output `index` again.
    "number": the number that the plan returns."""
    index: int = 0
    path: ViewPath = ()
    """The way to the view; numbers in it are sizes of the recording's symbols where that serves many sizes."""
    requires_grad: bool = False


@dataclass(slots=True)
class SetAttribute:
    """An attribute that the function sets on a network: a result under another name."""

    network: tuple[int, int]
    """The number of the network among the objects in reach, see `World.object_at`."""
    name: str
    structure: Any
    start: int
    """The place of its first tensor among the outputs."""
    is_read: bool
    """Whether the function may have read it before, so that what it holds makes a difference to the next call."""


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """The way of a call's result out of a run."""

    outputs: list[OutputSpec]
    structure: Any
    """The structure of the function's result."""
    count: int = 0
    """The number of `outputs` that are the function's result; further ones are gradients and tensors in attributes."""
    tags: list[Tag] = field(default_factory=list)
    """Attributes of the results."""
    attributes: list[SetAttribute] = field(default_factory=list)
    """Attributes of networks."""

    def made(self, returned: Returned, owners: Sequence[Any], objects: Sequence[Any]) -> list[Any]:
        """The outputs.

        Args:
            returned: What the run returned.
            owners: The tensors behind the inputs.
            objects: The objects behind the inputs, where the function itself has made other views of some.
        """
        made: list[Any] = []
        for spec in self.outputs:
            if spec.kind == "number":
                made.append(returned.results[spec.index])
            elif spec.kind == "same":
                made.append(made[spec.index])
            elif spec.kind == "itself":
                made.append(objects[spec.index])
            elif spec.kind == "fresh":
                made.append(returned.tensor(spec.index))
            else:
                base = owners[spec.index] if spec.kind == "input" else returned.tensor(spec.index)
                made.append(returned.viewed(spec, base, len(made)))
        return made

    def assembled(self, made: Sequence[Any], networks: Sequence[Any] = ()) -> Any:
        """The function's result, with the attributes that it has been given, and those of networks set.

        Args:
            made: The outputs.
            networks: The networks whose attributes are set, one for each.
        """
        for index, name, structure, start in self.tags:
            set_tag(made[index], name, unflatten(structure, made[start : start + len(paths(structure))]))
        for network, attribute in zip(networks, self.attributes, strict=True):
            start, structure = attribute.start, attribute.structure
            write = attribute_of(network, attribute.name).writer()
            assert write is not None
            write(unflatten(structure, made[start : start + len(paths(structure))]))
        return unflatten(self.structure, made[: self.count])


class Returned:
    """The values that a run has returned, as tensors that are made when they are first asked for.

    Args:
        results: Arrays and numbers.
        storages: Per result, what identifies its memory, where that is known already.
        node: The history of the result, if gradients are recorded.
        carrying: The numbers of the results that have it.
    """

    __slots__ = ("_carrying", "_node", "_storages", "results", "tensors")

    def __init__(self, results: Sequence[Any], storages: Sequence[Any], node: Any, carrying: Sequence[int]) -> None:
        self.results = results
        self.tensors: dict[int, Tensor] = {}
        """The tensors made so far, by number."""
        self._storages, self._node, self._carrying = storages, node, carrying

    def tensor(self, index: int) -> Tensor:
        """Result `index`, always the same object."""
        if index not in self.tensors:
            storage = self._storages[index] if self._storages else None
            made = self.tensors[index] = tensor_of(self.results[index], storage)
            if self._node is not None and index in self._carrying:
                give_history(made, self._node, index)
        return self.tensors[index]

    def viewed(self, spec: OutputSpec, base: Tensor, number: int) -> Tensor:
        """Output `number`, which shows the memory of `base`."""
        if not spec.path:
            return base
        with context.set_grad_enabled(spec.requires_grad):
            view = shown(spec.path, base)
        if self._node is not None and view._grad_fn is not None:
            view._grad_fn.entrance = functools.partial(enter, self._node, number)
        return view
