"""`jit.trace`: makes a traced function of a function, a method or a network module."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jit.eager.networks import Network

from .comparing import compare_results, seen, shaken_in_place
from .function import TracedFunction
from .recordings.shapes import Dims
from .surroundings.calls import CallError
from .surroundings.snapshots import preserved


def trace(
    function: Any = None,
    example_inputs: Sequence[Any] | None = None,
    *,
    check: bool = True,
    optimize: bool = True,
    strict: bool = False,
    dynamic: bool | Dims | None = None,
) -> Any:
    """Record a function of tensors, per signature, and run the recording from then on.

    Works as a decorator with and without arguments, on functions, methods and Module classes, and as a call on
    functions and modules.

    Args:
        function: What to trace; a Module is traced through its call, its parameters and buffers as hidden inputs.
        example_inputs: A tuple of arguments to record with at once.
        check: With example inputs, run the function untraced too, and compare.
        optimize: Improve the graph and compile what can be compiled; without it every call equals eager bit for bit.
        strict: Raise a TraceError where Python decides on a traced value, instead of guarding the decision, and where
            it does what a recording cannot repeat.
        dynamic: Which sizes vary. None: all that turn out to; from the second size on one recording serves all sizes
            for which the function is the same program. True: all, and it is a TraceError if they are not the same
            program. A mapping such as `{"x": [0]}`: these dims. False: none, every size is recorded. Unless it is
            False, a float outside of the function that is another one again and again becomes an input, too.

    Raises:
        TraceError: The function does something that cannot be traced; the message names the line.

    >>> import jit
    >>> @jit.trace
    ... def f(x):
    ...     return x * 2 if x.sum() > 0 else -x
    >>> f(jit.ones(2)).tolist(), f(-jit.ones(2)).tolist(), f.misses
    ([2.0, 2.0], [1.0, 1.0], 2)
    """
    options: dict[str, Any] = {"optimize": optimize, "strict": strict, "dynamic": dynamic}
    if function is None:
        return functools.partial(trace, example_inputs=example_inputs, check=check, **options)
    traced = _wrap(function, options)
    if example_inputs is not None:
        _record_examples(traced, function, tuple(example_inputs), check)
    return traced


def _wrap(function: Any, options: dict[str, Any]) -> Any:
    if isinstance(function, TracedFunction):
        return function
    if isinstance(function, Network):
        return TracedFunction(function, function, **options)
    if isinstance(function, type) and issubclass(function, Network):
        function.forward = TracedFunction(function.forward, **options)
        return function
    if not callable(function):
        raise CallError(f"jit.trace takes a function or a Module, not {type(function).__name__}")
    return TracedFunction(function, **options)


def _record_examples(traced: TracedFunction, function: Any, inputs: tuple[Any, ...], check: bool) -> None:
    """Record with examples, and leave everything else as it was."""

    def observed(what: Any, shaken: bool = False) -> list[Any]:
        with preserved(traced._function, traced._owner, inputs):
            if shaken:
                shaken_in_place(inputs)
            return [seen(what(*inputs), inputs) for _ in range(2 if check else 1)]

    replayed = observed(traced)
    if check:
        what = f"{traced.__name__}: traced and untraced results differ"
        compare_results(observed(function), replayed, what, functools.partial(observed, function, shaken=True))
