"""Stages of general recordings: two recordings of one stage, for other sizes each, become one that serves all of them.

Note [Stages for many sizes]
    A recording for many sizes begins as the forward of two calls. Their backwards, once they are recorded, are compared
    like the forwards: with names for the sizes that vary. If they are the same program, one of them becomes a stage of
    the general recording. So the third size finds its backward recorded, whichever came first of the second forward
    and the backward of the first:

        call 1     forward, backward      recorded for n = 3
        call 2     forward                recorded for n = 5; with that of call 1 a general recording
                   backward               recorded for n = 5; with that of call 1 a stage of the general recording
        call 3     forward, backward      run for n = 4

    A backward that is asked for later is recorded by the general recording itself, for the sizes of a call, and
    compared with those of other sizes, too. Until then it serves these sizes alone; of several sizes that vary, those
    become free in which two recordings of the stage differ.

    What a stage decides on sizes is a condition on it: it runs for the sizes that meet this, others have it recorded
    anew. Gradients are of the sizes of what they are gradients of, so these are no part of the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir.scalars import exactly
from jit.passes.support.symbolic_sizes import SizesMisfit

from .chains import Chain, Key, StageSizes, guards_of
from .counts import counts_of, opened
from .layouts import kind_of_gradient
from .named_sizes import sizes_in
from .shapes import skeleton

if TYPE_CHECKING:
    from .recording import Recording


def general_key(key: Key) -> Key:
    """The key of a stage for gradients of all sizes."""
    kinds, wanted, create = key
    return (tuple(map(kind_of_gradient, kinds)), wanted, create)


def share(recording: Recording, chain: Chain) -> None:
    """Let general recordings that have come of `recording` have its newest stage, if another one has recorded it, too.

    Args:
        recording: A recording for one size.
        chain: One of its chains, which has a stage more than before.
    """
    for general in recording.generals:
        with general.lock:
            candidate = _generalised(general, chain, len(chain.keys))
            if _finish(general, candidate) and _merge(general, candidate):
                candidate.trace = opened(chain.trace, general.counts, len(chain.keys) + 1)
                _take_in(general, candidate)


def settle(general: Recording, chain: Chain) -> bool:
    """Find the sizes that the newest stage of a chain serves; False if a general recording cannot have it.

    Args:
        general: A general recording.
        chain: One of its chains, which has a stage more than before.
    """
    if not _finish(general, chain):
        return False
    if _merge(general, chain) and chain in general.chains:
        general.chains.remove(chain)
        _take_in(general, chain)
    return True


def _generalised(general: Recording, chain: Chain, count: int) -> Chain:
    """The first stages of a chain of a recording for one size as those of a general recording, with the same trace."""
    trace, counts = chain.trace, general.counts
    recorded = (*sizes_in(trace.graph.inputs, general.varying), *counts_of(trace, counts))
    sizes = StageSizes(recorded, (False,) * len(recorded))
    keys = tuple((general_key(key), outcomes) for key, outcomes in chain.keys[:count])
    trace = opened(trace, counts, count + 1) if counts else trace
    return Chain(trace, keys, chain.differentiable[:count], (sizes,) * count)


def _finish(general: Recording, chain: Chain) -> bool:
    """Give the sizes of a chain names; False if they do not follow from those of its inputs.

    The outcomes of guards on sizes go from its keys, as these have become conditions.
    """
    try:
        graph = general.named(chain).graph
    except SizesMisfit:
        return False
    left: list[list[Any]] = [[] for _ in graph.stages]
    for stage, guard in guards_of(graph):
        left[stage].append(exactly(guard.attribute("expected")))
    chain.keys = tuple((key, tuple(found)) for (key, _), found in zip(chain.keys, left[1:], strict=True))
    return True


def _merge(general: Recording, chain: Chain) -> bool:
    """Let a chain be free in the sizes in which other recordings of the same stages differ; False if there are none."""
    before, count = chain.sizes, len(chain.keys)
    recorded = _recorded(chain)
    for other in _others(general, chain):
        if _recorded(other) == recorded or _is_same(general, chain, other):
            chain.sizes = _merged(chain, other)
            for each in general.chains:  # those whose beginning it is
                if each.trace is other.trace:
                    each.sizes = (*_merged(each, chain), *each.sizes[count:])
    return chain.sizes != before


def _merged(chain: Chain, other: Chain) -> tuple[StageSizes, ...]:
    return tuple(a.merged(b) for a, b in zip(chain.sizes, other.sizes))


def _recorded(chain: Chain) -> Any:
    """The recorded stages, sizes as they were computed: where this is equal, no names are needed to see it."""
    return [skeleton(chain.trace.graph, stage) for stage in range(1, len(chain.keys) + 1)]


def _is_same(general: Recording, chain: Chain, other: Chain) -> bool:
    """Whether two chains do the same once sizes have names."""
    if not _finish(general, other):
        return False
    graphs = general.named(chain).graph, general.named(other).graph
    mine, its = ([skeleton(graph, stage) for stage in range(len(graph.stages))] for graph in graphs)
    return mine == its


def _others(general: Recording, chain: Chain) -> Iterator[Chain]:
    """Other recordings of the stages of a chain, for the same keys."""
    count = len(chain.keys)
    asked = tuple(key for key, _ in chain.keys)
    for other in general.chains:
        if other is not chain and other.keys[:count] == chain.keys and not other.is_spoilt:
            yield other if len(other.keys) == count else _beginning(other, count)
    for source in general.sources:
        if source.lock.acquire(blocking=False):  # another thread may be recording a stage there just now
            try:
                found = [_generalised(general, c, count) for c in source.chains if _is_asked_for(c, asked)]
                yield from (c for c in found if c.sizes[-1].recorded != chain.sizes[-1].recorded)
            finally:
                source.lock.release()


def _beginning(chain: Chain, count: int) -> Chain:
    return Chain(chain.trace, chain.keys[:count], chain.differentiable[:count], chain.sizes[:count])


def _is_asked_for(chain: Chain, asked: Sequence[Key]) -> bool:
    """Whether a chain of a recording for one size has stages for these keys of general ones."""
    return tuple(general_key(key) for key, _ in chain.keys[: len(asked)]) == asked and not chain.is_spoilt


def _take_in(general: Recording, chain: Chain) -> None:
    """Let a chain stand for those that it continues, and for those that serve fewer sizes."""
    chains = [c for c in general.chains if not _covers(general, chain, c)]
    is_first = not chains or general.chains[0] not in chains
    general.chains[:] = [chain, *chains] if is_first else [*chains, chain]


def _covers(general: Recording, chain: Chain, other: Chain) -> bool:
    """Whether a chain does all that another one does, for all of its sizes."""
    count = len(other.keys)
    if chain.keys[:count] != other.keys:
        return False
    if not count:
        return True
    if any(not mine.covers(its) for mine, its in zip(chain.sizes, other.sizes)):
        return False
    mine, its = (general.named(c).conditions[1 : count + 1] for c in (chain, other))
    return all(set(a) <= set(b) for a, b in zip(mine, its, strict=True))
