"""Methods that are traced: one traced function for each instance that they are called on."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from jit.ir.errors import UsageError

from .parameters import FunctionParameters
from .surroundings.calls import marks_of
from .surroundings.surroundings import Surroundings


class BoundMethods:
    """The traced functions of one method, by instance; none of them keeps its instance alive.

    Instances are told apart by identity: equal ones may differ in what their class does not compare.

    Args:
        function: The method as its class has it.
        make: Makes a traced function of a function; takes `surroundings=` and `parameters=`.
    """

    def __init__(self, function: Callable[..., Any], make: Callable[..., Any]) -> None:
        self._function = function
        self._make = make
        self._made: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def of(self, instance: Any) -> Any:
        """The traced function for an instance: the same one as long as the instance lives.

        Raises:
            UsageError: There are no weak references to instances of this class.
        """
        reference, made = self._made.get(id(instance), (None, None))
        if reference is None or reference() is not instance:
            reference = self._reference(instance)
            made = self._bound_to(instance, reference)
            self._made[id(instance)] = reference, made
        return made

    def _reference(self, instance: Any) -> weakref.ref[Any]:
        """A reference with which the instance's entry goes."""
        made, key = self._made, id(instance)

        def forget(dead: weakref.ref[Any]) -> None:
            if made.get(key, (None,))[0] is dead:
                del made[key]

        try:
            return weakref.ref(instance, forget)
        except TypeError:
            raise UsageError(
                f"a traced method of {type(instance).__name__} keeps its recordings as long as the instance lives, and "
                "there are no weak references to this one; add '__weakref__' to the __slots__ of its class"
            ) from None

    def _bound_to(self, instance: Any, reference: weakref.ref[Any]) -> Any:
        """A traced function that knows the instance by a weak reference, or the instance's entry would never go."""
        function = self._function

        @functools.wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            return function(reference(), *args, **kwargs)

        method.__signature__ = inspect.signature(function.__get__(instance))  # type: ignore[attr-defined]
        return self._make(
            method,
            surroundings=Surroundings(function, reference=reference),
            parameters=FunctionParameters(lambda: function.__get__(reference()), marks_of(function)),
        )
