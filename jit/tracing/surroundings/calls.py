"""One call of a traced function: its arguments taken apart, and the key that they are reduced to."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.eager.proxies import TracedScalar
from jit.eager.pytree import Structure, flatten, paths, unflatten, without_undefined
from jit.ir.errors import AcceleratorError, CompileError, DistributedError, Error, GraphError, TraceError, UsageError
from jit.ir.refusals import is_of_numbers

from ..recordings.recalling import Recollection
from .surroundings import World

if TYPE_CHECKING:
    from ..recordings.recording import Recording


class Key(NamedTuple):
    """The facts on which a recording is specialised."""

    structure: tuple[Structure, ...]
    tensors: tuple[Any, ...]
    sharing: tuple[Any, ...]
    grad_mode: bool
    home: str
    """The default device, and the number of the current GPU if it is not the first."""
    region: str
    """The setting of `autocast` in words; nothing if it is off."""
    surroundings: tuple[Any, ...]


@dataclass
class Entry:
    """All paths of one key."""

    recordings: list[Recording] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while a recording is made: threads with the same key wait for it, others do not."""
    lost: int = 0
    """The number of recordings that were made of it and could not be kept."""


@dataclass
class TracedCall:
    """One call, taken apart."""

    args: Sequence[Any]
    kwargs: dict[str, Any]
    names: list[str]
    leaves: list[Any]
    """The tensors among the arguments."""
    structures: tuple[Structure, ...]
    world: World
    key: Key
    promoted: Sequence[tuple[str, Any]]
    """The promoted numbers among the arguments, by name."""
    began: float = 0.0
    """The time at which it came."""
    raised: Exception | None = None
    """The first error that an operator of a recording has raised, until the call is answered."""

    def note_raised(self, error: Exception, made: Recollection | None) -> None:
        """Note that an operator of a recording has raised, as it would in the function, which may catch the error.

        An error that cannot be an operator's is raised again: all recordings would raise it, or it is a fault of ours.
        """
        others = (TraceError, GraphError, CompileError, AcceleratorError, DistributedError)
        ours = isinstance(error, Error) and not isinstance(error, others)
        fits = ours or is_of_numbers(error)
        if not fits and (made is None or made.raised is not error):
            raise error
        self.raised = self.raised or error
        if made is not None:
            made.is_doubtful = True

    @property
    def numbers(self) -> list[Any]:
        """All promoted numbers: those among the arguments, then those in the surroundings."""
        return [*(value for _, value in self.promoted), *(number.value for number in self.world.numbers)]

    @property
    def promoted_values(self) -> tuple[Any, ...]:
        """The promoted numbers among the arguments, with their types: 1 and 1.0 are two."""
        return tuple([part for _, value in self.promoted for part in (value, type(value))])

    @property
    def has_numbers(self) -> bool:
        """Whether any numbers are inputs."""
        return bool(self.promoted or self.world.numbers)

    def knows(self, tensor: Any) -> bool:
        """Whether a tensor is an argument, or something that the function can name."""
        return any(tensor is leaf for leaf in self.leaves) or self.world.locate(tensor)[1] is not None


def signature_of(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def marks_of(function: Any) -> list[Any] | None:
    """The settable parts of a function's parameters; None if there are none, or they are not known."""
    if isinstance(function, types.MethodType):
        function = function.__func__
    if type(function) is types.FunctionType:
        keywords = function.__kwdefaults__ or {}
        return [function.__code__, function.__defaults__, *keywords, *keywords.values()]
    if isinstance(function, functools.partial):
        return [*(marks_of(function.func) or ()), function.args, *function.keywords, *function.keywords.values()]
    return None


def same_marks(one: list[Any], other: list[Any] | None) -> bool:
    """Whether two lists of marks hold the same objects."""
    return other is not None and len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


class CallError(UsageError, TypeError):
    """Arguments that a function does not take; a TypeError too, as in Python."""


def flatten_arguments(values: Sequence[Any]) -> tuple[list[Any], tuple[Structure, ...]]:
    leaves: list[Any] = []
    structures = []
    for value in values:
        found, structure = flatten(value)
        if any(type(leaf) is not TracedScalar and leaf._array is None for leaf in found):
            found, structure = without_undefined(found, structure)
        leaves.extend(found)
        structures.append(structure)
    return leaves, tuple(structures)


def unflatten_arguments(structures: Sequence[Structure], leaves: Sequence[Any]) -> list[Any]:
    values, start = [], 0
    for structure in structures:
        count = len(paths(structure))
        values.append(unflatten(structure, leaves[start : start + count]))
        start += count
    return values


def leaf_names(names: Sequence[str], structures: Sequence[Structure]) -> list[str]:
    return [path for name, structure in zip(names, structures, strict=True) for path in paths(structure, name)]
