"""Methods that are traced: one traced function for each instance that they are called on."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from .parameters import FunctionParameters
from .surroundings.calls import marks_of
from .surroundings.surroundings import Surroundings


class BoundMethods:
    """The traced functions of one method, by instance; none of them keeps its instance alive.

    Args:
        function: The method as its class has it.
        make: Makes a traced function of a function; takes `surroundings=` and `parameters=`.
    """

    def __init__(self, function: Callable[..., Any], make: Callable[..., Any]) -> None:
        self._function = function
        self._make = make
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def of(self, instance: Any) -> Any:
        """The traced function for an instance: the same one as long as the instance lives."""
        found = self._made.get(instance)
        if found is None:
            found = self._made[instance] = self._bound_to(instance)
        return found

    def _bound_to(self, instance: Any) -> Any:
        """A traced function that knows the instance by a weak reference, or the instance's entry would never go."""
        reference, function = weakref.ref(instance), self._function

        @functools.wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            return function(reference(), *args, **kwargs)

        method.__signature__ = inspect.signature(function.__get__(instance))  # type: ignore[attr-defined]
        return self._make(
            method,
            surroundings=Surroundings(function, reference=reference),
            parameters=FunctionParameters(lambda: function.__get__(reference()), marks_of(function)),
        )
