"""The parameters of a traced function: from the arguments of a call to names and values, and back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .surroundings.calls import CallError, marks_of, same_marks, signature_of


class FunctionParameters:
    """The parameters of one function, as they are now: defaults can be set anew.

    Args:
        described: Gives the function whose parameters these are.
        marks: What its signature depends on, as far as it can change.
    """

    def __init__(self, described: Callable[[], Any], marks: list[Any] | None) -> None:
        self._take(signature_of(described()))
        self._described = described
        self._marks = marks

    @classmethod
    def of(cls, function: Callable[..., Any], owner: Any = None) -> FunctionParameters:
        """The parameters of a function, or of the `forward` of the module that is called."""

        def described() -> Any:
            return function if owner is None else getattr(owner, "forward", owner)

        return cls(described, marks_of(described()))

    @classmethod
    def fixed(cls, signature: inspect.Signature | None) -> FunctionParameters:
        """Parameters that a file tells of."""
        made = cls(lambda: None, None)
        made._take(signature)
        return made

    def _take(self, signature: inspect.Signature | None) -> None:
        self.signature = signature
        """None if nobody knows it."""
        parameters = [] if signature is None else [*signature.parameters.values()]
        by_place = signature is not None and all(p.kind in _BY_PLACE for p in parameters)
        self._names = [p.name for p in parameters] if by_place else None
        """The names of all parameters, if a call can give all of them by their places."""
        self._defaults = [p.default for p in parameters]
        self._needed = sum(default is inspect.Parameter.empty for default in self._defaults)

    @property
    def named(self) -> Mapping[str, inspect.Parameter]:
        """The parameters by their names; none if nobody knows them."""
        return {} if self.signature is None else self.signature.parameters

    def bind(self, function: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[str], list[Any]]:
        """The names and the values of all parameters in a call, defaults included.

        Args:
            function: Its name, for errors.
            args: As in the call.
            kwargs: As in the call.

        Raises:
            CallError: The function does not take these arguments.
        """
        if self._marks is not None and not same_marks(self._marks, marks_of(described := self._described())):
            self._take(signature_of(described))
            self._marks = marks_of(described)
        if self.signature is None:
            return [f"input_{i}" for i in range(len(args))] + list(kwargs), [*args, *kwargs.values()]
        names = self._names  # most calls are of this kind, and `Signature.bind` takes five times as long
        if names is not None and not kwargs and self._needed <= len(args) <= len(names):
            return names.copy(), [*args, *self._defaults[len(args) :]]
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise CallError(f"{function}: {error}") from None
        bound.apply_defaults()
        return list(bound.arguments), list(bound.arguments.values())

    def arguments(self, names: Sequence[str], values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The inverse of `bind`: what to call the function with."""
        if self.signature is None:
            return values, {}
        bound = inspect.BoundArguments(self.signature, dict(zip(names, values, strict=True)))
        return bound.args, bound.kwargs


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
"""The kinds of parameters that an argument without a name may be for, one for each."""
