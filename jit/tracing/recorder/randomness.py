"""Random draws in a trace: a generator is a state, which operators take and hand on."""

from __future__ import annotations

from jit.eager.generators import Generator
from jit.ir import Value

from .capturing import Captures


class Randomness:
    """The generators of one trace, and the states that they are in."""

    def __init__(self, captures: Captures) -> None:
        self.states: dict[Generator, Value] = {}
        """The states that generators are in now."""
        self.initial: dict[Generator, Value] = {}
        """The states that they came with."""
        self._captures = captures

    def state_of(self, generator: Generator) -> Value:
        """The state that a generator is in now; one that the trace meets for the first time is captured."""
        if generator not in self.states:
            self.begin(generator, self._captures.generator(generator))
        return self.states[generator]

    def begin(self, generator: Generator, state: Value) -> None:
        """Note the state, an input, with which a generator comes."""
        self.states[generator] = self.initial[generator] = state

    def advance(self, generator: Generator, state: Value) -> None:
        """Note the state in which a draw has left a generator."""
        self.states[generator] = state

    def forget(self, generator: Generator) -> None:
        """Forget the state of a generator that the function sets: its next draw starts from another state."""
        self.states.pop(generator, None)

    def drawn(self) -> list[tuple[Generator, Value, Value]]:
        """Generators that were drawn from: (generator, its input, its final state)."""
        if not self.states:
            return []
        pairs = ((g, self.initial[g], v) for g, v in self.states.items())
        return [(g, first, last) for g, first, last in pairs if first is not last]
