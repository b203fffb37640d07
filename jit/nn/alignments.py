"""The loss of sequences whose labels are known but not when they occur (connectionist temporal classification).

Note [Paths of CTC]
    The labels l1 l2 ... are written with blanks between, before and after: ``_ l1 _ l2 _``, S states in all. A path
    starts in one of the first two, and at each step stays, moves on by one, or by two to a label that differs from the
    last label. `scores[s]` is the log-probability of all paths that have come to state s; the last two states of each
    sequence add up to the likelihood. A state that cannot be reached has the score NEVER, a finite number, so that
    no derivative is NaN.
"""

from __future__ import annotations

from typing import Any

from jit.eager.autocasting import computes_in
from jit.eager.creation import tensor
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.precision import Precision

from .reductions import reduction_code

__all__ = ["ctc_loss"]

NEVER = -1e30
"""The logarithm of a probability of zero."""


@computes_in(Precision(cpu="float32"))
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """Minus the log-likelihood of label sequences under all their alignments (Graves et al., 2006).

    Args:
        log_probs: Log-probabilities `[T, N, C]` or `[T, C]`.
        targets: Labels `[N, S]` padded to one length, or all labels one after the other.
        input_lengths: The number of steps, up to T, that each of the N sequences has.
        target_lengths: The number of labels that each has.
        blank: The class that means no label.
        reduction: "none", "mean" (each loss by its number of labels, then their mean) or "sum".
        zero_infinity: Whether sequences too short for their labels count as 0 instead of infinity.

    Raises:
        UsageError: The blank is no class, or a length is negative or longer than its sequence.
        DTypeError: The log-probabilities are not floating.

    >>> import jit
    >>> certain = jit.tensor([[0.0, -9.0], [-9.0, 0.0]])
    >>> round(jit.nn.functional.ctc_loss(certain, jit.tensor([1]), jit.tensor(2), jit.tensor(1)).item(), 4)
    -0.0001
    """
    code = reduction_code(None, None, reduction)
    alone = log_probs.ndim == 2
    log_probs = F.unsqueeze(log_probs, 1) if alone else log_probs
    _, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise UsageError(f"ctc_loss: blank is {blank}, but there are {classes} classes; pass one of these")
    if not log_probs.is_floating_point():
        raise DTypeError(f"ctc_loss: log-probabilities are floating point, not {log_probs.dtype}; use log_softmax()")
    lengths, counts = _whole(input_lengths, batch, "input"), _whole(target_lengths, batch, "target")
    if bool(F.any(F.logical_or(F.gt(lengths, log_probs.shape[0]), F.lt(F.minimum(lengths, counts), 0)))):
        steps = log_probs.shape[0]
        raise UsageError(f"ctc_loss: a length is negative, or one of inputs above {steps}; pass at most {steps} steps")
    labels = _padded(targets, counts, batch)
    losses = -_likelihood(log_probs, _states(labels, counts, blank), lengths, counts, blank)
    unreachable = F.gt(losses, -NEVER / 2)
    losses = F.where(unreachable, 0.0 if zero_infinity else float("inf"), losses)
    if code == 1:
        return F.mean(losses / F.clamp(counts, min=1))
    return F.sum(losses) if code == 2 else F.squeeze(losses, 0) if alone else losses


def _whole(lengths: Any, batch: Any, name: str) -> Any:
    given = lengths if isinstance(lengths, Tensor) else tensor(lengths)
    if given.numel() and (not given.dtype.is_integral or given.dtype is dtypes.bool_):
        raise DTypeError(f"ctc_loss: {name} lengths are whole numbers, not {given.dtype}")
    if given.numel() != batch:
        raise ShapeError(f"ctc_loss: expects {batch} {name} lengths, one a sequence, got {given.numel()}")
    return F._to_copy(F.reshape(given, [-1]), dtype=dtypes.int64)


def _padded(targets: Any, counts: Any, batch: Any) -> Any:
    """The labels as int64 [N, S]."""
    targets = F._to_copy(targets, dtype=dtypes.int64)
    if targets.ndim == 2:
        return targets
    longest = int(F.amax(counts, [0])) if batch else 0
    starts = F.unsqueeze(F.cumsum(counts, 0) - counts, 1)
    places = F.clamp(starts + F.arange(longest, device=starts.device), max=max(targets.shape[0] - 1, 0))
    return F.reshape(F.index_select(targets, 0, F.reshape(places, [-1])), [batch, longest])


def _states(labels: Any, counts: Any, blank: int) -> Any:
    """Labels [N, S] with blanks between, before and after, and instead of what follows the last label."""
    real = F.lt(F.arange(labels.shape[1], device=labels.device), F.unsqueeze(counts, 1))
    labels = F.where(real, labels, blank)
    pairs = F.stack([F.full_like(labels, blank), labels], 2)
    return F.constant_pad_nd(F.flatten(pairs, 1, 2), [0, 1], blank)


def _likelihood(log_probs: Any, states: Any, lengths: Any, counts: Any, blank: int) -> Any:
    """The log-likelihood of each sequence."""
    steps = log_probs.shape[0]
    emitted = F.unbind(F.gather(log_probs, 2, F.expand(states, [steps, *states.shape])), 0)
    before = F.constant_pad_nd(states, [2, 0], blank)[:, :-2]
    skips = F.logical_and(F.ne(states, blank), F.ne(states, before))
    scores = F.where(F.lt(F.arange(states.shape[1], device=states.device), 2), emitted[0], NEVER)
    for step in range(1, len(emitted)):
        moved = [scores, _shifted(scores, 1), F.where(skips, _shifted(scores, 2), NEVER)]
        after = F.logsumexp(F.stack(moved, 0), [0]) + emitted[step]
        scores = F.where(F.unsqueeze(F.gt(lengths, step), 1), after, scores)
    return _last(scores, counts)


def _shifted(scores: Any, by: int) -> Any:
    return F.constant_pad_nd(scores, [by, 0], NEVER)[:, :-by]


def _last(scores: Any, counts: Any) -> Any:
    """Log-probability of ending in the last label or in the blank after it."""
    blank = F.unsqueeze(2 * counts, 1)
    ends = F.gather(scores, 1, F.cat([blank, F.clamp(blank - 1, min=0)], 1))
    ends = F.where(F.gt(F.cat([blank + 1, blank], 1), 0), ends, NEVER)
    return F.logsumexp(ends, [1])
