"""Questions that are asked again in every call: what stands in a place, and what is true of an object.

A `Place` (jit.tracing.surroundings.places) is answered by an object, a `Fact` (jit.tracing.surroundings.facts) by a
value. Both can say how a native call finds out without asking Python (jit.runtime.plans.entry).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, ClassVar, NamedTuple


class CheckRow(NamedTuple):
    """A row of a table of native checks."""

    table: str
    """The field of `jit.runtime.plans.entry.Tables` that it goes into."""
    cells: tuple[Any, ...]


class Question:
    """A question that is asked again in every call: to call it is to ask."""

    __slots__: tuple[str, ...] = ()
    called: ClassVar[str]
    """Words for what a question of this kind asks for."""

    def __call__(self) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.called}>"

    def identity(self) -> tuple[Any, ...]:
        """A key that two questions share if they are the same."""
        return (type(self), *(id(getattr(self, name)) for name in self.__slots__))

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        """Rows that check natively that the answer is still this one; None if only Python can tell.

        Args:
            answer: The answer of before.
            known: The identities of objects that a native call has at hand anyway.
        """
        return None
