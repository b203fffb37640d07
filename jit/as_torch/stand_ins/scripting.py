"""`torch.jit`: `trace` traces, and what marks code for TorchScript leaves it as it is, for tracing needs no marks."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any, Final

import jit
from jit.as_torch.ledger import LEDGER
from jit.compiler import is_compiling
from jit.futures import Future
from jit.ir.errors import UsageError

Attribute = lambda value, kind=None: value  # noqa: E731
"""`torch.jit.Attribute(value, type)`: the value."""
ScriptModule = jit.nn.Module
ScriptFunction = type(lambda: None)
RecursiveScriptModule = jit.nn.Module
TopLevelTracedModule = jit.nn.Module
TracerWarning = UserWarning


class ScriptError(RuntimeError):
    """The error of TorchScript, which nothing raises here."""


Error = ScriptError


def trace(func: Any, example_inputs: Any = None, *_: Any, **options: Any) -> Any:
    """A traced function of a function or a module, recorded with the example.

    Args:
        func: The function or the module.
        example_inputs: A tensor or a tuple of arguments.
        options: `check_trace=False` omits the comparison with the function; the rest is ignored.
    """
    inputs = example_inputs if builtins.isinstance(example_inputs, (tuple, list, type(None))) else (example_inputs,)
    return jit.trace(func, inputs, check=options.get("check_trace", True))


def trace_module(mod: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """A traced module, by an example for its forward.

    Args:
        mod: The module.
        inputs: An example by the name of the method.
        options: Those of `trace`.

    Raises:
        UsageError: Another method than forward is asked for.
    """
    if set(inputs) != {"forward"}:
        raise UsageError("torch.jit.trace_module traces forward here; trace other methods with torch.jit.trace")
    return trace(mod, inputs["forward"], **options)


def script(obj: Any = None, *_: Any, **options: Any) -> Any:
    """The function, class or module as it is."""
    LEDGER.note("torch.jit.script leaves functions and modules as they are; torch.jit.trace and torch.compile trace")
    return obj if obj is not None else script


def _as_it_is(name: str) -> Any:
    def mark(function: Any = None, *_: Any, **options: Any) -> Any:
        return function if callable(function) else lambda inner: inner

    mark.__name__ = mark.__qualname__ = name
    mark.__doc__ = f"`torch.jit.{name}`: the function as it is; a decorator if none is given."
    return mark


ignore, unused, export, script_method = map(_as_it_is, ("ignore", "unused", "export", "script_method"))
interface, script_if_tracing = map(_as_it_is, ("interface", "script_if_tracing"))
freeze, optimize_for_inference = map(_as_it_is, ("freeze", "optimize_for_inference"))
onednn_fusion_enabled = lambda: False  # noqa: E731


def is_scripting() -> bool:
    """Whether TorchScript runs: it does not."""
    return False


def is_tracing() -> bool:
    """Whether the caller is being traced."""
    return is_compiling()


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`, which TorchScript does not know.

    Args:
        obj: Any object.
        target_type: A class, or a tuple of them.
    """
    return _isinstance(obj, target_type)


_isinstance = builtins.isinstance


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value.

    Args:
        the_type: What TorchScript should take it for.
        the_value: Any object.
    """
    return the_value


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a function, which is called at once, as a future that is done.

    Args:
        func: The function.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    made: Future[Any] = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future: Any) -> Any:
    """The result of what `fork` gave."""
    return future.wait()


def save(m: Any, f: Any, **options: Any) -> None:
    """A traced function as a file of this package, which `load` reads.

    Args:
        m: What `trace` returned.
        f: A path.
        options: Accepted and ignored.

    Raises:
        UsageError: It was not traced.
    """
    if not hasattr(m, "save"):
        raise UsageError(f"torch.jit.save saves what torch.jit.trace returned, not {type(m).__name__}; trace it first")
    m.save(f)


def load(f: Any, map_location: Any = None, **options: Any) -> Any:
    """A traced function from a file that `save` has written.

    Args:
        f: A path.
        map_location: Accepted and ignored.
        options: Accepted and ignored.
    """
    return jit.load(f)


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Nothing: what fuses is decided elsewhere.

    Args:
        strategy: Accepted and ignored.
    """
    return []


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block that changes nothing.

    Args:
        should_optimize: Accepted and ignored.
    """
    yield


fuser = strict_fusion = optimized_execution

__all__ = [
    "Attribute", "Error", "Final", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TopLevelTracedModule",
    "TracerWarning", "annotate", "export", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace",
    "trace_module", "unused", "wait",
]  # fmt: skip
