"""Runs the autograd graph backwards: iteratively, later operations first, gradients added in a fixed order.

Note [Backward inside of backward]
    Hooks, custom functions and checkpoints may call `backward` again. Each call is a Task of its own that runs to its
    end before the outer one goes on, so no two wait for each other. Every 16th level moves to a thread of its own,
    whose stack is empty: a chain of thousands of backwards inside of each other needs no larger recursion limit. One
    that does not end would take all threads and memory there are, so it is an error from `DEEPEST` on.

Note [Interrupts]
    A backward runs in a copy of the caller's context, so whatever ends it - an exception, Ctrl-C at any place - leaves
    nothing switched on. A thread that is interrupted while it waits for another one halts all tasks of that nesting.
"""

from __future__ import annotations

import contextvars
import heapq
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.overriding import asking_only
from jit.eager.tensors import Tensor
from jit.eager.watch import LOOKING, pause, resume, resumed
from jit.ir.errors import AutogradError, KindError, ShapeError, UsageError

from .nodes import Edge, edge_of
from .sharing import Sharing, is_numbered, is_worth_sharing
from .tasks import Task

LEVELS = 16
"""The deepest nesting of backwards on one thread."""
DEEPEST = 10_000
"""The deepest nesting of backwards at all."""


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call `callback()` when the backward that runs now is through; for hooks that wait for the last gradient.

    Raises:
        UsageError: No backward runs.
    """
    task: Task | None = context.BACKWARD.get()
    if task is None:
        raise UsageError("queue_callback() was called while no backward runs; call it in a hook or in a backward")
    task.callbacks.append(callback)


# -- the call ----------------------------------------------------------------------------------------------------


def run_backward(
    outputs: Sequence[Any], gradients: Sequence[Any], inputs: Sequence[Any] | None, retain_graph: bool,
    create_graph: bool, within: bool = False, accumulating: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Differentiate `outputs`, weighted by `gradients`.

    Args:
        outputs: Tensors or edges.
        gradients: A weight for each output; None for a single number.
        inputs: Tensors or edges whose gradients are returned; None for gradients that are added to `.grad` of leaves.
        retain_graph: Whether nodes keep what they have saved.
        create_graph: Whether the computation of the gradients is recorded.
        within: Whether the nodes of the inputs, and all behind them, are left alone.
        accumulating: Whether leaves among the inputs get their gradients added to `.grad` as well.

    Returns:
        The gradients of `inputs`, None for those that were not reached; nothing where there are no inputs.
    """
    hook = pause() if LOOKING else None
    unasked = nullcontext() if context.MODES.get() is None else asking_only(())
    try:
        with unasked:
            return _run_backward(hook, outputs, gradients, inputs, retain_graph, create_graph, within, accumulating)
    finally:
        resume(hook)


def _run_backward(
    watch: Any, outputs: Sequence[Any], gradients: Sequence[Any], inputs: Sequence[Any] | None, retain_graph: bool,
    create_graph: bool, within: bool, accumulating: bool,
) -> list[Tensor | None]:  # fmt: skip
    roots = [_root_edge(output) for output in outputs]
    edges = None if inputs is None else [_input_edge(i, t) for i, t in enumerate(inputs)]
    weights = [_initial(output, gradient) for output, gradient in zip(outputs, gradients, strict=True)]
    task = Task(roots, edges, retain_graph, within, accumulating)
    task.watch = watch
    if task.level >= DEEPEST:
        raise AutogradError(
            f"{DEEPEST} backwards run inside of each other: a hook, a custom function or a checkpoint calls backward() "
            "in what its own backward runs again; differentiate there by something that does not lead back to it"
        )

    def work() -> None:
        context.GRAD_ENABLED.set(create_graph)
        context.AUTOCAST.set(None)
        _work_off(task, roots, weights)

    inside = contextvars.copy_context()  # see Note [Interrupts]
    if task.level and task.level % LEVELS == 0:
        _on_a_fresh_stack(task, inside, work)
    else:
        inside.run(work)
    return [] if edges is None else [task.found.get(edge) for edge in edges]


def _work_off(task: Task, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
    """Push `gradients` in at `roots` and work until nothing is left."""
    context.BACKWARD.set(task)
    for edge, gradient in zip(roots, gradients, strict=True):
        task.add(edge, gradient)
    for node in dict.fromkeys(edge.node for edge in roots):
        if task.pending[node] == 0:
            heapq.heappush(task.ready, (-node.serial, node))
    alone = context.TRACE.get() is not None or is_numbered()  # what these record has one order
    while task.ready:
        if len(task.ready) > 1 and not alone and is_worth_sharing(task):
            Sharing(task).run()
            break
        task.step(heapq.heappop(task.ready)[1])
    if task.callbacks:
        with resumed(task.watch):
            for callback in task.callbacks:
                callback()


def _on_a_fresh_stack(task: Task, inside: contextvars.Context, work: Callable[[], None]) -> None:
    """See Note [Backward inside of backward]."""
    failures: list[BaseException] = []

    def body() -> None:
        try:
            inside.run(work)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=body, name="jit-backward", daemon=True)
    try:
        thread.start()
        thread.join()
    except BaseException:
        task.halt.append(True)
        raise
    if failures:
        raise failures[0]


def _root_edge(output: Any) -> Edge:
    edge = edge_of(output)
    if edge is None:
        if not isinstance(output, Tensor):
            raise KindError(f"only tensors can be differentiated, not {type(output).__name__}; pass a tensor")
        raise AutogradError(
            "this tensor does not require grad and has no grad_fn, so there is nothing to differentiate; compute it, "
            "outside of no_grad(), from a tensor with requires_grad=True"
        )
    return edge


def _input_edge(index: int, tensor: Any) -> Edge:
    edge = tensor if isinstance(tensor, Edge) else edge_of(tensor)
    if edge is None:
        raise AutogradError(
            f"input {index} of grad does not require grad; call .requires_grad_() on it before using it"
        )
    return edge.node.whole(edge.index)


def _initial(output: Tensor, gradient: Any) -> Tensor:
    if gradient is None:
        if output._array.size != 1:
            raise AutogradError(
                f"an output that is no single number needs a gradient, and this one has sizes "
                f"{list(output._array.shape)}; pass a gradient of these sizes, or reduce the output, as with .sum()"
            )
        if output.dtype.is_complex:
            raise AutogradError(
                f"a complex output needs a gradient, and this one is {output.dtype.name}; pass a gradient, or take the "
                "real part first"
            )
        return F.ones_like(output)
    if not isinstance(gradient, Tensor):
        raise KindError(f"a gradient is a tensor, not {type(gradient).__name__}; make one with jit.tensor(...)")
    if gradient._array.shape != output._array.shape:
        raise ShapeError(
            f"a gradient of sizes {list(gradient.shape)} was given for an output of sizes {list(output.shape)}; pass "
            "one of the same sizes"
        )
    return gradient
