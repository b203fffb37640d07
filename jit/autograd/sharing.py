"""Runs independent branches of a backward on several threads.

Note [Sharing a backward]
    numpy and compiled kernels release the GIL, so two branches with large tensors can be computed at once. The thread
    that called backward stays in charge; helpers from a pool join when at least two nodes with enough work are ready.
    Four rules keep a result the same whatever threads there are:

    1. Gradients that meet in one place are added in the order in which one thread would have added them: those of later
       operations first. One that comes early waits in its Slot.
    2. What belongs to the user - hooks, custom functions, traced calls - runs on the caller's thread, in that order.
    3. A helper takes operators with enough work, and nothing else: the rest is not worth a switch of threads.
    4. Where derivatives are recorded themselves (`create_graph`), nodes are numbered by the node that made them and
       not by the clock: the k-th node made by the r-th in the order of one thread is number (r, k). Otherwise the next
       backward, which goes by these numbers, would add up in an order of its own.

    Nothing waits for a helper that has not begun: the caller can do everything alone. So backwards inside of
    backwards, or many of them in many threads, cannot block each other, however small the pool is.

    Ctrl-C strikes the main thread at any instruction, but never between the C functions that lock and enter a `with`.
    Hence plain locks and SimpleQueues, no Conditions: these lock in Python, and could stay locked for ever.
"""

from __future__ import annotations

import contextvars
import functools
import heapq
import itertools
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from jit.eager import context
from jit.runtime.plans.threads import node_thread_count

from .nodes import SERIALS, Edge, Node, OpNode, next_serial
from .tasks import Halted, Task

if TYPE_CHECKING:
    from jit.eager.tensors import Tensor

ENOUGH = 1 << 20
"""The fewest steps of arithmetic that make a node worth a thread: with fewer, Python takes longer than they do."""

_PRODUCTS = 64
"""About how many products the derivative of a product of matrices adds up for each element."""

_BY_THE_CLOCK = SERIALS.get()
_PER_NODE = 1 << 32
"""The serials reserved for what one node records; half of them for the sums of its gradients with others."""
_PER_SUM = 1 << 8
"""The serials reserved for one of these sums."""


def is_worth_sharing(task: Task) -> bool:
    """Whether two of the nodes that are ready have enough work, there are threads for them, and nothing forbids it."""
    heavy = 0
    for _, node in task.ready[:8]:
        if node in task.light:
            continue
        if _is_heavy(node, task.buffers.get(node, ())):
            heavy += 1
        else:
            task.light.add(node)
    if heavy < 2:
        return False
    return node_thread_count() > 1 and not any(node.must_be_alone for node in task.pending)


def is_numbered() -> bool:
    """Whether a shared backward is recorded here: its range of serials has no room for those of another one."""
    return context.GRAD_ENABLED.get() and SERIALS.get() is not _BY_THE_CLOCK


def _is_heavy(node: Node, gradients: Any) -> bool:
    return isinstance(node, OpNode) and _work(node, gradients) >= ENOUGH and not node.belongs_to_caller


def _work(node: OpNode, gradients: Sequence[Tensor | None]) -> int:
    """About how many steps of arithmetic the derivative takes."""
    if node.op.kind == "view":
        return 0
    incoming = [g._array.size for g in gradients if g is not None and g.defined]
    largest = max([*incoming, *(math.prod(m.shape) for m in node.metas if m is not None)], default=0)
    return largest * _PRODUCTS if node.op.kernel.product == "matrices" else largest


class Slot:
    """The place where the gradients of one output meet."""

    __slots__ = ("arrived", "expected", "is_adding", "total")

    def __init__(self, total: Tensor | None = None) -> None:
        self.total = total
        self.expected: deque[tuple[int, int]] = deque()
        """(serial of the node that it comes from, number among its gradients), in the order of addition."""
        self.arrived: dict[tuple[int, int], Tensor | None] = {}
        self.is_adding = False

    def next_in_order(self) -> list[tuple[tuple[int, int], Tensor | None]]:
        """Take out the gradients that have arrived and whose turn it is, each with its key in `expected`."""
        found = []
        while self.expected and self.expected[0] in self.arrived:
            key = self.expected.popleft()
            found.append((key, self.arrived.pop(key)))
        return found


class Sharing:
    """A task that several threads work on, from where it stands to its end; see Note [Sharing a backward]."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.context = contextvars.copy_context()
        self.lock = threading.Lock()
        """Guards everything below."""
        self.heavy: list[tuple[int, Node]] = []
        self.light: list[tuple[int, Node]] = []
        order = sorted(task.pending, key=lambda node: -node.serial)
        self.personal = deque(node for node in order if node.belongs_to_caller)
        """Nodes that only the caller runs, in order."""
        self.ranks = {node.serial: rank for rank, node in enumerate(order)} if context.GRAD_ENABLED.get() else {}
        """The order of one thread, where it numbers what is recorded."""
        self.first_serial = next_serial()
        self.waiting = set(self.personal)
        self.ready: set[Node] = set()
        """Nodes of the caller's whose gradients have come."""
        self.slots = self._slots(order)
        self.helpers = 0
        """The number of helpers that have been called and have not left."""
        self.limit = node_thread_count() - 1
        self.running = 0
        """The number of helpers that run a node."""
        self.news: SimpleQueue[None] = SimpleQueue()
        """The queue on which the caller waits: a helper puts None there after each node that it has run."""
        self.stopped = False
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
                    slots.setdefault(edge, Slot()).expected.append((node.serial, position))
        return slots

    def run(self) -> None:
        """Work until nothing is left.

        Raises:
            BaseException: What a node raised; of several failures the one that a single thread would have met first.
        """
        node = None
        serials = SERIALS.get()
        try:
            self._summon()
            while (node := self._next()) is not None:
                self._step(node)
        except Exception as error:
            self.failures.append((0 if node is None else node.serial, error))
        finally:
            with self.lock:
                self.stopped = True
            while self.running:
                self.news.get()
            SERIALS.set(serials)
        if self.failures:
            raise max(self.failures, key=lambda failure: failure[0])[1]

    def _next(self) -> Node | None:
        """The next node for the caller; None at the end."""
        while True:
            with self.lock:
                node = self._take()
                if node is not None or self.failures or not self.running:
                    return node
            self.news.get()

    def _help(self) -> None:
        """The work of a helper: heavy nodes, while there are any."""
        while True:
            with self.lock:
                if self.stopped or self.failures or not self.heavy:
                    self.helpers -= 1
                    return
                node = heapq.heappop(self.heavy)[1]
                self.running += 1
            try:
                self._step(node)
            except BaseException as error:
                self.failures.append((node.serial, error))
            with self.lock:
                self.running -= 1
            self.news.put(None)

    # -- who does what -------------------------------------------------------------------------------------------

    def _sort_in(self, node: Node) -> None:
        """Put a node that is ready where the thread that is to run it looks."""
        if node in self.waiting:
            self.ready.add(node)
            return
        gradients = [slot.total for i in range(node.outputs) if (slot := self.slots.get(Edge(node, i))) is not None]
        heapq.heappush(self.heavy if _is_heavy(node, gradients) else self.light, (-node.serial, node))

    def _take(self) -> Node | None:
        """The node that the caller runs next: the latest one that is ready."""
        if self.failures:
            return None
        queue = min((q for q in (self.heavy, self.light) if q), key=lambda q: q[0], default=None)
        if self.personal and self.personal[0] in self.ready:
            first = self.personal[0]
            if queue is None or -first.serial < queue[0][0]:
                self.ready.discard(first)
                return self.personal.popleft()
        return None if queue is None else heapq.heappop(queue)[1]

    def _summon(self) -> None:
        """Call helpers for the heavy nodes that the caller does not get to at once."""
        for _ in range(min(len(self.heavy) - 1, self.limit - self.helpers)):
            self.helpers += 1
            _call_helper(self.limit, functools.partial(self.context.copy().run, self._help))

    # -- one node ------------------------------------------------------------------------------------------------

    def _step(self, node: Node) -> None:
        if self.task.halt:
            raise Halted
        self._number(node.serial)
        gradients = [self._total(Edge(node, index)) for index in range(node.outputs)]
        results = self.task.results_of(node, gradients)
        if node in self.task.barrier:
            return
        for position, (edge, result) in enumerate(zip(node.edges, results, strict=True)):
            if edge is not None:
                self._deliver(edge, (node.serial, position), result)

    def _total(self, edge: Edge) -> Tensor | None:
        with self.lock:
            slot = self.slots.pop(edge, None)
        return None if slot is None else slot.total

    def _deliver(self, edge: Edge, key: tuple[int, int], gradient: Tensor | None) -> None:
        """Add a gradient when its turn has come; the thread that adds also adds what arrives meanwhile."""
        with self.lock:
            slot = self.slots[edge]
            slot.arrived[key] = gradient
            if slot.is_adding:
                return
            slot.is_adding = True
        while True:
            with self.lock:
                found = slot.next_in_order()
                if not found:
                    slot.is_adding = False
                    return
            for (serial, position), each in found:
                if each is not None:
                    self._number(serial, _PER_NODE // 2 + position * _PER_SUM)
                    slot.total = each if slot.total is None else slot.total + each
            with self.lock:
                self._count(edge.node, len(found))

    def _number(self, serial: int, start: int = 0) -> None:
        """Attribute all that this thread records from here on to the node of that serial; see rule 4."""
        if self.ranks:
            SERIALS.set(itertools.count(self.first_serial + self.ranks[serial] * _PER_NODE + start))

    def _count(self, node: Node, arrived: int) -> None:
        pending = self.task.pending
        pending[node] -= arrived
        if pending[node] == 0:
            self._sort_in(node)
            self._summon()


# -- the pool ----------------------------------------------------------------------------------------------------

_jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
_helpers: list[threading.Thread] = []


def _call_helper(size: int, job: Callable[[], None]) -> None:
    """Have one of `size` helpers do `job`; they are started when first needed."""
    _jobs.put(job)
    while len(_helpers) < size:
        helper = threading.Thread(target=_serve, args=(_jobs,), name="jit-backward", daemon=True)
        _helpers.append(helper)
        try:
            helper.start()
        except RuntimeError:  # no more threads, or the interpreter is shutting down: the caller does it all
            _helpers.remove(helper)
            return


def _serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


def _forget_helpers() -> None:
    """Start without helpers in a forked child, which has none of its parent's threads."""
    global _jobs
    _jobs = SimpleQueue()
    _helpers.clear()


os.register_at_fork(after_in_child=_forget_helpers)
