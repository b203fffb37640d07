"""Line search along a direction: a step that lowers the loss enough and flattens the slope (strong Wolfe conditions).

Note [Bracket and zoom]
    The step grows until an interval is found that must hold a good step (the loss has risen, or the slope has turned);
    then the interval shrinks: a cubic through the losses and slopes of its ends proposes the next step, which replaces
    one end. See Nocedal and Wright, Numerical Optimization, chapter 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jit.eager.namespace import F

ENOUGH = 1e-4
"""The share of the decrease promised by the slope that is enough."""
FLAT = 0.9
"""The share of the first slope that is flat enough."""
MOST = 25
"""The number of evaluations that a search may take."""


class Point(NamedTuple):
    """A step, with the loss, the gradient and the slope there."""

    t: float
    loss: float
    gradient: Any
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Any]], t: float, direction: Any, loss: float, gradient: Any,
    slope: float, tolerance_change: float,
) -> tuple[float, float, Any, int]:  # fmt: skip
    """The step found, the loss and the gradient there, and the number of evaluations.

    Args:
        evaluate: The loss and its gradient at a step.
        t: The first step to try.
        direction: A vector.
        loss, gradient, slope: Those at the start.
        tolerance_change: An interval of this length or less is not divided.
    """
    search = _Search(evaluate, direction, Point(0.0, loss, gradient, slope), tolerance_change)
    best = search.bracket(t)
    return best.t, best.loss, best.gradient, search.evaluations


class _Search:
    def __init__(self, evaluate: Any, direction: Any, start: Point, tolerance: float) -> None:
        self.evaluate, self.direction, self.start, self.tolerance = evaluate, direction, start, tolerance
        self.length = float(F.amax(F.abs(direction), [0]))
        self.evaluations = 0

    def at(self, t: float) -> Point:
        """Evaluate the loss after t times the direction."""
        self.evaluations += 1
        loss, gradient = self.evaluate(t)
        return Point(t, loss, gradient, float(F.sum(gradient * self.direction)))

    def is_low(self, point: Point) -> bool:
        """Whether the loss has fallen enough."""
        return point.loss <= self.start.loss + ENOUGH * point.t * self.start.slope

    def is_flat(self, point: Point) -> bool:
        """Whether the slope is flat enough."""
        return abs(point.slope) <= -FLAT * self.start.slope

    def bracket(self, t: float) -> Point:
        """Grow the step until it is good, or an interval holds a good one."""
        before, point = self.start, self.at(t)
        while self.evaluations < MOST:
            if not self.is_low(point) or (before is not self.start and point.loss >= before.loss):
                return self.zoom(before, point)
            if self.is_flat(point):
                return point
            if point.slope >= 0:
                return self.zoom(point, before)
            least, most = point.t + 0.01 * (point.t - before.t), point.t * 10
            before, point = point, self.at(_between(before, point, least, most))
        return min(self.start, point, key=_by_loss)

    def zoom(self, low: Point, high: Point) -> Point:
        """Shrink the interval between the better end and the other one."""
        was_near = False
        while self.evaluations < MOST and abs(high.t - low.t) * self.length > self.tolerance:
            least, most = sorted((low.t, high.t))
            t = _between(low, high, least, most)
            margin = 0.1 * (most - least)
            is_near = min(most - t, t - least) < margin
            is_stuck = is_near and (was_near or not least < t < most)
            if is_stuck:  # too near an end for the second time
                t = most - margin if abs(t - most) < abs(t - least) else least + margin
            was_near = is_near and not is_stuck
            point = self.at(t)
            if not self.is_low(point) or point.loss >= low.loss:
                high = point
                low, high = sorted((low, high), key=_by_loss)
                continue
            if self.is_flat(point):
                return point
            if point.slope * (high.t - low.t) >= 0:
                high = low
            low = point
        return low


def _by_loss(point: Point) -> float:
    return point.loss


def _between(a: Point, b: Point, least: float, most: float) -> float:
    """The minimum of the cubic through two points and their slopes, kept within bounds; without one, their middle."""
    left, right = (a, b) if a.t <= b.t else (b, a)
    d1 = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.t - right.t)
    square = d1 * d1 - left.slope * right.slope
    if square < 0:
        return (least + most) / 2
    d2 = math.sqrt(square)
    span = right.slope - left.slope + 2 * d2
    if span == 0:
        return (least + most) / 2
    t = right.t - (right.t - left.t) * (right.slope + d2 - d1) / span
    return min(max(t, least), most)
