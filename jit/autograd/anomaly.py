"""Finds the operation whose derivative went wrong: `detect_anomaly`."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.eager import context
from jit.ir import dtypes
from jit.ir.errors import AutogradError

if TYPE_CHECKING:
    from .nodes import Node


class set_detect_anomaly:  # noqa: N801 - users call it like a function
    """Switch the search for anomalies on or off; in a `with` block, until its end. See `detect_anomaly`.

    Args:
        mode: Whether to look for them.
        check_nan: Whether a NaN in a gradient is one; otherwise only exceptions are traced back.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._token: Token[bool | None] = context.ANOMALY.set(bool(check_nan) if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        context.ANOMALY.reset(self._token)


class detect_anomaly:  # noqa: N801
    """Within this block, what goes wrong in a backward is traced back to the operation in the forward.

    A NaN in a gradient is an AutogradError that names the user's line of the operation; whatever a derivative raises
    carries a note with the calls that led to its operation. Forward and backward both belong into the block.

    Args:
        check_nan: Whether to look for NaN.

    >>> import jit
    >>> x = jit.tensor(0.0, requires_grad=True)
    >>> with jit.autograd.detect_anomaly():
    ...     y = (x * 0).sqrt() * 0
    ...     y.backward()
    Traceback (most recent call last):
    ...
    jit.ir.errors.AutogradError: ...SqrtBackward0 returned nan...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        context.warn("detect_anomaly makes everything slower; use it to find a fault, and then take it out")

    def __enter__(self) -> None:
        self._token = context.ANOMALY.set(self._check_nan)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        context.ANOMALY.reset(self._token)


def is_anomaly_enabled() -> bool:
    """Whether anomalies are looked for here."""
    return context.ANOMALY.get() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaN are looked for here."""
    return bool(context.ANOMALY.get())


def watched(node: Node, gradients: list[Any], needs: Sequence[bool], check_nan: bool) -> Sequence[Any]:
    """Run `node.apply`, and let its errors, and NaN among its results, say where the operation was called.

    Args:
        node: The node to run.
        gradients: The gradients of its outputs.
        needs: For each of its edges, whether the gradient is wanted.
        check_nan: Whether a NaN is an error.
    """
    try:
        results = node.apply(gradients, needs)
        if check_nan:
            _refuse_nan(node, results)
    except Exception as error:
        if node.stack is not None:
            error.add_note(f"{node.name} belongs to the operation that was called here:\n{''.join(node.stack)}")
        _warn_of(node)
        raise
    return results


def _warn_of(node: Node) -> None:
    """Say where the operation of `node` was called, also to those who catch the error."""
    if node.stack is None:
        called = "No forward pass information; let the block of detect_anomaly() begin before the forward"
    else:
        called = "its operation was called here:\n" + "".join(node.stack)
    context.warn(f"there is an error in the derivative {node.name}: {called}")


def _refuse_nan(node: Node, results: Sequence[Any]) -> None:
    for index, gradient in enumerate(results):
        if (
            gradient is not None
            and gradient.dtype.category >= dtypes.FLOATING
            and bool(np.isnan(gradient._array).any())
        ):
            raise AutogradError(
                f"{node.name} returned nan as gradient {index}; it is the derivative of the operation at {node.source}"
                "; keep its arguments away from points without a finite derivative"
            )
