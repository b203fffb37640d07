"""Runs independent branches of a backward on several threads.

Note [Sharing a backward]
    numpy and compiled kernels release the GIL, so two branches with large tensors can be computed at once. The thread
    that called backward stays in charge; helpers from a pool join when at least two nodes with enough work are ready.
    Three rules keep a result the same whatever threads there are:

    1. Gradients that meet in one place are added in the order in which one thread would have added them: those of later
       operations first. One that comes early waits in its Slot.
    2. What belongs to the user - hooks, custom functions, traced calls - runs on his thread, in that order too.
    3. A helper takes operators with enough work alone; the rest is not worth a switch of threads.

    Nobody waits for a helper that has not begun: the caller can do everything himself. So backwards inside of
    backwards, or many of them in many threads, cannot block each other, however small the pool is.
"""

from __future__ import annotations

import contextvars
import heapq
import os
import threading
from collections import deque
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from jit.runtime.threads import thread_count

from .nodes import Edge, Node

if TYPE_CHECKING:
    from ..tensors import Tensor
    from .engine import Task

ENOUGH = 1 << 16
"""How many elements a node has to touch to be worth a thread: below, Python takes longer than the arithmetic."""


def is_worth_sharing(task: Task) -> bool:
    """Whether two of the nodes that are ready have enough work, there are threads for them, and nothing forbids it."""
    first = (node for _, node in task.ready[:8])
    if sum(_is_heavy(node, task.buffers.get(node, ())) for node in first) < 2:
        return False
    return thread_count() > 1 and not any(node.must_be_alone for node in task.pending)


def _is_heavy(node: Node, gradients: Any) -> bool:
    return node.work(gradients) >= ENOUGH and not node.belongs_to_caller


class Slot:
    """The place where the gradients of one output meet."""

    __slots__ = ("arrived", "expected", "is_adding", "total")

    def __init__(self, total: Tensor | None) -> None:
        self.total = total
        self.expected: deque[tuple[int, int]] = deque()
        """(serial of the node that it comes from, number among its gradients), in the order of addition."""
        self.arrived: dict[tuple[int, int], Tensor | None] = {}
        self.is_adding = False

    def next_in_order(self) -> list[Tensor | None]:
        """What has arrived and is next."""
        found = []
        while self.expected and self.expected[0] in self.arrived:
            found.append(self.arrived.pop(self.expected.popleft()))
        return found


class Sharing:
    """A task that several threads work on, from where it stands to its end; see Note [Sharing a backward]."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.context = contextvars.copy_context()
        self.changed = threading.Condition()
        """Its lock guards everything below."""
        self.heavy: list[tuple[int, Node]] = []
        self.light: list[tuple[int, Node]] = []
        order = sorted(task.pending, key=lambda node: -node.serial)
        self.personal = deque(node for node in order if node.belongs_to_caller)
        """What only the caller runs, in order; whether its turn has come says `ready`."""
        self.ready: set[Node] = set()
        self.slots = self._slots(order)
        self.running = 0
        self.helpers = 0
        self.limit = thread_count() - 1
        self.failures: list[tuple[int, BaseException]] = []
        for _, node in task.ready:
            self._sort_in(node)

    def _slots(self, order: list[Node]) -> dict[Edge, Slot]:
        task = self.task
        slots = {
            Edge(node, index): Slot(total)
            for node, totals in task.buffers.items()
            for index, total in enumerate(totals)
        }
        for node in order:
            for position, edge in enumerate(node.edges if node not in task.barrier else ()):
                if edge is not None:
                    slots.setdefault(edge, Slot(None)).expected.append((node.serial, position))
        return slots

    def run(self) -> None:
        """Work until nothing is left; the first failure, in the order of one thread, is raised."""
        try:
            self._summon()
            self._work(helping=False)
        finally:
            with self.changed:
                self.failures.append((0, StopIteration()))  # helpers that come late find nothing to do
                while self.running:
                    self.changed.wait()
        serious = [failure for failure in self.failures[:-1]]
        if serious:
            raise max(serious, key=lambda failure: failure[0])[1]

    # -- who does what -------------------------------------------------------------------------------------------

    def _sort_in(self, node: Node) -> None:
        """A node is ready."""
        if node.belongs_to_caller and node in self.personal:
            self.ready.add(node)
            return
        gradients = [slot.total for i in range(node.outputs) if (slot := self.slots.get(Edge(node, i))) is not None]
        heapq.heappush(self.heavy if _is_heavy(node, gradients) else self.light, (-node.serial, node))

    def _take(self, helping: bool) -> Node | None:
        """The next node for somebody: for the caller, the latest that is ready."""
        if self.failures:
            return None
        if helping:
            return heapq.heappop(self.heavy)[1] if self.heavy else None
        queue = min((q for q in (self.heavy, self.light) if q), key=lambda q: q[0], default=None)
        if self.personal and self.personal[0] in self.ready:
            first = self.personal[0]
            if queue is None or -first.serial < queue[0][0]:
                self.ready.discard(first)
                return self.personal.popleft()
        return None if queue is None else heapq.heappop(queue)[1]

    def _summon(self) -> None:
        """Call helpers for heavy nodes that nobody here will get to at once."""
        wanted = min(len(self.heavy) - 1, self.limit - self.helpers)
        for _ in range(max(wanted, 0)):
            try:
                _pool(self.limit).submit(self.context.copy().run, self._work, True)
            except RuntimeError:  # the interpreter is shutting down
                return
            self.helpers += 1

    def _work(self, helping: bool) -> None:
        while True:
            with self.changed:
                node = self._take(helping)
                while node is None and not helping and self.running and not self.failures:
                    self.changed.wait()
                    node = self._take(helping)
                if node is None:
                    self.helpers -= helping
                    return
                self.running += 1
            try:
                self._step(node)
            except BaseException as error:
                with self.changed:
                    self.failures.append((node.serial, error))
            finally:
                with self.changed:
                    self.running -= 1
                    self.changed.notify_all()

    # -- one node ------------------------------------------------------------------------------------------------

    def _step(self, node: Node) -> None:
        if self.task.halt:
            from .engine import Halted

            raise Halted
        gradients = [self._total(Edge(node, index)) for index in range(node.outputs)]
        results = self.task.results_of(node, gradients)
        if node in self.task.barrier:
            return
        for position, (edge, result) in enumerate(zip(node.edges, results, strict=True)):
            if edge is not None:
                self._deliver(edge, (node.serial, position), result)

    def _total(self, edge: Edge) -> Tensor | None:
        with self.changed:
            slot = self.slots.pop(edge, None)
        return None if slot is None else slot.total

    def _deliver(self, edge: Edge, key: tuple[int, int], gradient: Tensor | None) -> None:
        """Add a gradient when its turn has come; who adds also adds what arrives meanwhile."""
        with self.changed:
            slot = self.slots[edge]
            slot.arrived[key] = gradient
            if slot.is_adding:
                return
            slot.is_adding = True
        while True:
            with self.changed:
                found = slot.next_in_order()
                if not found:
                    slot.is_adding = False
                    return
            for each in found:
                if each is not None:
                    slot.total = each if slot.total is None else slot.total + each
            with self.changed:
                self._count(edge.node, len(found))

    def _count(self, node: Node, arrived: int) -> None:
        pending = self.task.pending
        pending[node] -= arrived
        if pending[node] == 0:
            self._sort_in(node)
            self._summon()
            self.changed.notify_all()


# -- the pool ----------------------------------------------------------------------------------------------------

_executor: Executor | None = None
_starting = threading.Lock()


def _pool(size: int) -> Executor:
    """The helpers, started when first needed."""
    global _executor
    with _starting:
        if _executor is None:
            from concurrent.futures import ThreadPoolExecutor

            _executor = ThreadPoolExecutor(size, thread_name_prefix="jit-backward")
        return _executor


def _forget_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _executor, _starting
    _executor, _starting = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)
