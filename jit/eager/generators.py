"""Random generators: a seed and how much of its sequence is used up."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from jit.ir import RandomState
from jit.ir.devices import CPU, resolve
from jit.ir.errors import KindError, UsageError

from . import context
from .effects import NOTES, REPLAYED

_alive: weakref.WeakSet[Generator] = weakref.WeakSet()
"""All generators, for the sake of their locks."""


class Generator:
    """A source of random numbers; `jit.manual_seed` seeds the default one.

    >>> import jit
    >>> g = jit.Generator().manual_seed(7)
    >>> bool((jit.rand(3, generator=g) == jit.rand(3, generator=jit.Generator().manual_seed(7))).all())
    True
    """

    def __init__(self, device: Any = None) -> None:
        self.device = CPU if device is None else resolve(device)
        self.lock = threading.RLock()
        self._state = RandomState(seed=0)
        _alive.add(self)

    @property
    def state(self) -> RandomState:
        """Key and counter; drawing replaces it."""
        replayed = REPLAYED.get()
        return self._state if replayed is None else replayed.get(self, self._state)

    @state.setter
    def state(self, state: RandomState) -> None:
        notes, replayed = NOTES.get(), REPLAYED.get()
        if notes is not None:
            notes.note_draw(self, self.state)
        if replayed is not None and self in replayed:
            replayed[self] = state
        else:
            self._state = state

    def manual_seed(self, seed: int) -> Generator:
        """Start the sequence of `seed` from its beginning.

        Raises:
            UsageError: The seed is no whole number.
        """
        self._note_in_trace(sets=True)
        try:
            state = RandomState(seed=int(seed))
        except (TypeError, ValueError) as error:
            raise UsageError(f"the seed is {seed!r}; pass a whole number") from error
        with self.lock:
            self.state = state
        return self

    def seed(self) -> int:
        """Start an unpredictable sequence; returns its seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed."""
        self._note_in_trace(sets=False)
        return self.state.seed

    def get_state(self) -> RandomState:
        """The state, to be given back to `set_state`."""
        self._note_in_trace(sets=False)
        return self.state

    def set_state(self, state: RandomState) -> Generator:
        """Continue from `state`.

        Raises:
            KindError: It is no state that `get_state` gave.
        """
        if not isinstance(state, RandomState):
            raise KindError(f"set_state() takes what get_state() returned, not {type(state).__name__}; pass that")
        self._note_in_trace(sets=True)
        with self.lock:
            self.state = state
        return self

    def _note_in_trace(self, sets: bool) -> None:
        """Tell the trace that the function reads or sets a state, which a recording does not."""
        trace = context.TRACE.get()
        if trace is not None:
            trace.note_state(self, sets)


def _renew_locks() -> None:
    """Make new locks in a forked child: nobody is left to release one that another thread held."""
    for generator in _alive:
        generator.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)

DEFAULT = Generator()


def default_generator() -> Generator:
    """The generator that operators draw from unless given another."""
    return DEFAULT


def manual_seed(seed: int) -> Generator:
    """Seed the default generator."""
    return DEFAULT.manual_seed(seed)


def seed() -> int:
    """Seed the default generator with an unpredictable number, which is returned."""
    return DEFAULT.seed()


def initial_seed() -> int:
    """The default generator's seed."""
    return DEFAULT.initial_seed()


def get_rng_state() -> RandomState:
    """The default generator's state."""
    return DEFAULT.get_state()


def set_rng_state(state: RandomState) -> None:
    """Continue the default generator from `state`."""
    DEFAULT.set_state(state)
