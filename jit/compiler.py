"""`jit.compile` by PyTorch's name and arguments, and `jit.compiler`: what programs say to a compiler.

`jit.compile(f)` is `jit.trace(f)`, except that what cannot be traced runs as it is, unless `fullgraph=True`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jit import nn
from jit.eager import context
from jit.ir.errors import KindError, TraceError
from jit.tracing.decorator import trace


class EagerFallback:
    """A traced function that gives up tracing where the function cannot be traced.

    What a call has changed until that turned out is put back before the function runs as it is.

    Args:
        function: A function or a Module.
        options: What `jit.trace` takes besides.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.function = function
        self.traced = trace(function, **options)
        self.traced.takes_back = True
        self.refusal: TraceError | None = None
        """The error with which tracing ended."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result, traced or not."""
        if self.refusal is None:
            try:
                return self.traced(*args, **kwargs)
            except TraceError as error:
                self.refusal = error
        return self.function(*args, **kwargs)


class OptimizedModule(nn.Module):
    """A Module whose calls are traced; all else is that of the Module inside of it, `_orig_mod`.

    Args:
        module: The Module.
        call: The function that is called in its place.
    """

    def __init__(self, module: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        self.__dict__["forward"] = call

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return super().__getattr__(name)
        return getattr(self._orig_mod, name)


def compile(
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
    mode: str | None = None, options: Any = None, disable: bool = False,
) -> Any:  # fmt: skip
    """A function or Module whose calls are traced and compiled; a decorator if no function is given.

    Args:
        model: The function or the Module.
        fullgraph: Raise a TraceError where it cannot be traced, instead of running it as it is.
        dynamic: Whether one recording serves all sizes; None finds out.
        backend: Accepted and ignored: there is one compiler.
        mode: Accepted and ignored, as there is one way to compile.
        options: Accepted and ignored like `mode`.
        disable: Return the function as it is.

    Raises:
        KindError: It is neither a function nor a Module.

    >>> import jit
    >>> f = jit.compile(lambda x: jit.tanh(x) * 2)
    >>> f(jit.zeros(2)).tolist()
    [0.0, 0.0]
    """
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, disable=disable)
    if not callable(model):
        raise KindError(f"jit.compile takes a function or a Module, not {type(model).__name__}")
    if disable:
        return model
    call = trace(model, dynamic=dynamic) if fullgraph else EagerFallback(model, dynamic=dynamic)
    if isinstance(model, nn.Module):
        return OptimizedModule(model, call)
    return call if fullgraph else functools.wraps(model)(_function(call))


def _function(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function, which becomes a method in a class."""
    return lambda *args, **kwargs: call(*args, **kwargs)


def is_compiling() -> bool:
    """Whether the caller is being traced."""
    return context.TRACE.get() is not None


def is_dynamo_compiling() -> bool:
    """The same as `is_compiling()`."""
    return is_compiling()


def is_exporting() -> bool:
    """Whether the caller is being exported by `torch.export`, which does not happen here."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function as it is; a decorator if none is given. Tracing looks into every function.

    Args:
        fn: The function.
        recursive: Accepted and ignored.
        reason: Accepted and ignored, too.
    """
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """The function as it is: every operator is allowed in a graph."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function as it is: tracing finds out what is constant."""
    return fn


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator that does nothing, as tracing needs no substitutes.

    Args:
        original_fn: The function that PyTorch cannot trace.
        options: Accepted and ignored.
    """
    return lambda function: function


def cudagraph_mark_step_begin() -> None:
    """Nothing: graphs of CUDA are launched where plans run."""


def reset() -> None:
    """Nothing: recordings belong to their functions."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names of compilers: there is one.

    Args:
        exclude_tags: Accepted and ignored.
    """
    return ["jit"]


__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "substitute_in_graph",
]  # fmt: skip
