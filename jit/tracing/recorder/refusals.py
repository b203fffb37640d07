"""What a recording cannot repeat: a recording that serves one call alone, or an error that names the line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jit.eager import context
from jit.eager.generators import Generator
from jit.eager.tensors import Tensor
from jit.ir.errors import EscapedTracerError, TraceError

if TYPE_CHECKING:
    from .tracer import Trace


def at_line() -> str:
    """How a message about the line that runs begins."""
    source = context.user_source()
    return "" if source is None else f"at {source}: "


def shared_memory() -> TraceError:
    """The error for a write that would have to reach several inputs."""
    return TraceError(
        f"{at_line()}the traced function writes to memory that several tensors from outside share in different ways; "
        "clone one of them first"
    )


def note_impure(trace: Trace, what: str) -> None:
    """The function does `what`: its recording serves this call alone."""
    trace.deeds.append(what)
    if trace.impure is None:
        source = context.user_source()
        trace.impure = what if source is None else f"{what} at {source}"


def note_failure(trace: Trace, code: Any, instruction: int) -> None:
    """A function in C that is called there has raised something: perhaps since it got a traced number."""
    if any(reference() is not None for reference in trace.numbers):
        trace.failures.append((code, instruction))


def note_state(trace: Trace, generator: Generator, sets: bool) -> None:
    """The function itself reads or sets the state of a generator."""
    note_impure(trace, f"{'sets' if sets else 'reads'} the state of a random generator")
    if sets:
        trace.generators.pop(generator, None)  # what it draws from now on starts elsewhere


def note_text(trace: Trace) -> None:
    """Elements of a tensor become text: fine for people to read, but nobody knows what else becomes of it."""
    if not trace.printing:
        note_impure(trace, "makes text of the elements of a tensor")


def refuse_escape(trace: Trace, tensor: Tensor, what: str) -> None:
    """`numpy()` and its like would bake what a traced tensor holds."""
    raise EscapedTracerError(
        f"{at_line()}{what} takes a tensor out of the trace, so what Python computes from it would be frozen; use "
        "tensor operations, .item(), .clone(), or an autograd.Function for foreign code"
    )


def refuse_change(trace: Trace, tensor: Tensor, what: str) -> None:
    """TraceError if `tensor` comes from outside: a recording repeats what happens to elements, and nothing else."""
    if trace.is_from_outside(tensor):
        raise TraceError(
            f"{at_line()}{what} a tensor from outside the traced function cannot be repeated by a recording; "
            "do it outside"
        )


def check_first_stage(trace: Trace, what: str) -> None:
    """TraceError if `what` would become an input of the forward when that is over."""
    if len(trace.graph.stages) > 1:
        raise TraceError(
            f"{at_line()}{what} that the traced function itself does not use is first used in its backward, "
            "by a hook perhaps; use it in the function, or register the hook outside"
        )
