"""`GradientReducer`: averages the gradients of a network over processes, in buckets, while the backward still runs.

Note [One order of buckets]
    Processes must begin exchanges in one order, whatever order gradients come in: a bucket is sent when its gradients
    and all buckets before it are there. At the end of a backward all that is left is sent, with zeros for gradients
    that have not come. So every backward sends every bucket in every process, and none waits for one that never comes;
    whether a gradient is missing that should have come is found out afterwards.

Note [Reductions in a trace]
    In a backward inside of a traced function, the operators of the reductions are recorded like all others: exchanges
    are nodes of its graph, and a later call runs the graph, without the hooks. So what is kept from one backward to the
    next is in gradients alone, and whether a leaf has these hooks is a condition of the recording.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jit import distributed
from jit.autograd.nodes import AccumulateGrad, edge_of
from jit.autograd.tasks import dependencies
from jit.eager import context
from jit.eager.creation import as_tensor
from jit.eager.hooks import RecordedHook
from jit.eager.namespace import F
from jit.eager.pytree import flatten
from jit.eager.tensors import Tensor
from jit.ir.errors import AutogradError

from .buckets import flat, in_buckets, parts


class GradBucket:
    """Gradients that travel together, as a communication hook sees them.

    Args:
        index: The number of the bucket.
        row: The gradients, one behind the other.
        parameters: The parameters that they belong to.
        is_last: Whether no bucket is sent after this one.
    """

    def __init__(self, index: int, row: Any, parameters: Sequence[Any], is_last: bool) -> None:
        self._index, self._row, self._parameters, self._is_last = index, row, parameters, is_last

    def index(self) -> int:
        """The number of the bucket; that of the last parameters is 0."""
        return self._index

    def buffer(self) -> Any:
        """The gradients, one behind the other; not divided by the number of processes."""
        return self._row

    def set_buffer(self, buffer: Any) -> None:
        """Let another row take the place of the gradients."""
        self._row = buffer

    def gradients(self) -> list[Any]:
        """The gradients as views of the buffer."""
        return list(parts(self._row, self._parameters))

    def parameters(self) -> list[Any]:
        """The parameters that the gradients belong to."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether no bucket is sent after this one."""
        return self._is_last


class ReductionHook(RecordedHook):
    """The hook on a parameter that tells the reducer of a new gradient.

    Args:
        reducer: The reducer, which the hook does not keep alive.
        number: The number of the parameter there.
    """

    def __init__(self, reducer: GradientReducer, number: int) -> None:
        self._reducer = weakref.ref(reducer)
        self._number = number

    def __call__(self, leaf: Any) -> None:
        reducer = self._reducer()
        if reducer is not None and reducer.is_active:
            reducer.note(self._number)


class GradientReducer:
    """Averages the gradients of parameters over the processes of a group.

    Args:
        parameters: The parameters, in the order of the network.
        group: The group; None for all processes.
        first: The bytes after which the first bucket is full.
        other: The bytes after which another one is.
        finds_unused: Whether some parameters may have no gradient, in some processes or in all.
        keeps_views: Whether gradients are left as views of the rows in which they travelled.
    """

    def __init__(
        self, parameters: Sequence[Any], group: Any, first: int, other: int, finds_unused: bool, keeps_views: bool
    ) -> None:
        self.parameters = list(parameters)
        self.group = group
        self.finds_unused, self.keeps_views = finds_unused, keeps_views
        self.is_active = True
        """Whether backwards reduce."""
        self.comm_hook: Callable[[GradBucket], Any] | None = None
        """A function that sends a bucket instead, and gives a future of the row that all processes get."""
        last_first = list(reversed(range(len(self.parameters))))
        self.buckets = in_buckets(last_first, lambda number: self.parameters[number], first, other)
        self.place = {number: place for place, bucket in enumerate(self.buckets) for number in bucket}
        """The bucket of each parameter."""
        self.reachable: frozenset[int] | None = None
        """The parameters that the last result was computed from; None if that is not known."""
        self._round: Round | None = None
        self._handles = [
            parameter.register_post_accumulate_grad_hook(ReductionHook(self, number))
            for number, parameter in enumerate(self.parameters)
        ]

    def note(self, number: int) -> None:
        """Note that a parameter has its gradient, in the backward that runs now."""
        task = context.BACKWARD.get()
        assert task is not None
        if self._round is None or self._round.task() is not task.root:
            self._round = Round(self, task.root)
        self._round.note(number)

    def begin(self, result: Any, is_active: bool) -> None:
        """Note what the backward of a result is to do.

        Args:
            result: The result of the network. Nothing waits for gradients of what it was not computed from.
            is_active: Whether its backward reduces.
        """
        if self.is_active != is_active:
            self.is_active = is_active
        if not (is_active and self.finds_unused) or context.TRACE.get() is not None:
            return
        edges = [edge_of(leaf) for leaf in flatten(result)[0] if isinstance(leaf, Tensor)]
        nodes = dependencies([edge.node for edge in edges if edge is not None], set())
        found = {id(node.variable) for node in nodes if isinstance(node, AccumulateGrad)}
        self.reachable = frozenset(n for n, p in enumerate(self.parameters) if id(p) in found)

    def forget(self) -> None:
        """End the round of a backward that is through."""
        self._round = None


class Round:
    """The reductions of one backward.

    Args:
        reducer: The reducer.
        task: The backward, the outermost one where backwards run inside of each other.
    """

    def __init__(self, reducer: GradientReducer, task: Any) -> None:
        self.reducer = reducer
        self.task = weakref.ref(task)
        self.arrived: set[int] = set()
        self.sent: list[Exchange] = []
        expected = reducer.reachable
        self.missing = [{n for n in bucket if expected is None or n in expected} for bucket in reducer.buckets]
        """The gradients that each bucket waits for."""
        task.callbacks.append(self.finish)

    def note(self, number: int) -> None:
        """Note that a gradient has come, and send what can be.

        Raises:
            AutogradError: It has come before, and has been sent.
        """
        place = self.reducer.place[number]
        if place < len(self.sent):
            raise AutogradError(
                f"a gradient of sizes {list(self.reducer.parameters[number].shape)} came after its bucket was sent to "
                "the other processes: the parameter is used by several backwards inside of one, as of checkpoints; "
                "let one checkpoint have all its uses"
            )
        self.arrived.add(number)
        self.missing[place].discard(number)
        while len(self.sent) < len(self.missing) and not self.missing[len(self.sent)]:
            self._send()

    def _send(self) -> None:
        self.sent.append(Exchange(self.reducer, len(self.sent)))

    def finish(self) -> None:
        """Send what is left, and put the averages in the place of the gradients.

        Raises:
            AutogradError: Parameters have no gradient, and it was not said that this may be so.
        """
        self.reducer.forget()
        while len(self.sent) < len(self.missing):
            self._send()
        for exchange in self.sent:
            exchange.finish()
        unused = len(self.reducer.parameters) - len(self.arrived)
        if unused and not self.reducer.finds_unused:
            raise AutogradError(
                f"{unused} of {len(self.reducer.parameters)} parameters have got no gradient in this process, so the "
                "others' are averaged with zeros; let all parameters take part in the loss, or pass "
                "find_unused_parameters=True"
            )


class Exchange:
    """A bucket on its way.

    Args:
        reducer: The reducer.
        number: The number of the bucket.
    """

    def __init__(self, reducer: GradientReducer, number: int) -> None:
        self.reducer = reducer
        self.parameters = [reducer.parameters[n] for n in reducer.buckets[number]]
        self.used: Callable[[], Any] | None = None
        """A function that waits for the share of processes that have each gradient, if some may lack one."""
        with context.no_grad():
            row = flat([F.zeros_like(p) if p.grad is None else p.grad for p in self.parameters])
            self.average = self._begin(row, number)
            if reducer.finds_unused:
                used = [float(p.grad is not None) for p in self.parameters]
                self.used = averaged(as_tensor(used, device=row.device), reducer.group)

    def _begin(self, row: Any, number: int) -> Callable[[], Any]:
        hook = self.reducer.comm_hook
        if hook is None:
            return averaged(row, self.reducer.group)
        future = hook(GradBucket(number, row, self.parameters, number + 1 == len(self.reducer.buckets)))
        waiting: Callable[[], Any] = future.wait
        return waiting

    def finish(self) -> None:
        """Wait for it, and put the averages in the place of the gradients; what nobody has stays away."""
        with context.no_grad():
            row, used = self.average(), None if self.used is None else self.used()
            for place, (parameter, part) in enumerate(zip(self.parameters, parts(row, self.parameters), strict=True)):
                if parameter.grad is not None:
                    self._replace(parameter, part)
                elif used is not None and bool(used[place] > 0):
                    parameter.grad = part if self.reducer.keeps_views else F.clone(part)

    def _replace(self, parameter: Any, average: Any) -> None:
        if self.reducer.keeps_views:
            parameter.grad = average
        else:
            parameter.grad.copy_(average)


def averaged(row: Any, group: Any) -> Callable[[], Any]:
    """The function that waits for the average of a row over the processes of a group, which is under way then."""
    work = distributed.all_reduce(row, distributed.ReduceOp.AVG, group, async_op=True)

    def wait() -> Any:
        if work is not None:  # this process is in the group
            work.wait()
        return row

    return wait
