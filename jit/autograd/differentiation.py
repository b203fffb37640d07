"""`backward` and `grad`: the gradients of tensors, added to leaves or returned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import AutogradError, UsageError

from .engine import run_backward
from .nodes import Edge, accumulate


def _as_list(value: Any) -> list[Any]:
    """The tensors or edges in `value`: a single one, or any iterable of them, such as `model.parameters()`."""
    alone = isinstance(value, (Tensor, Edge)) or not isinstance(value, Iterable)
    return [value] if alone else list(value)


def _weights(outputs: Sequence[Any], gradients: Any) -> list[Any]:
    weights = [None] * len(outputs) if gradients is None else _as_list(gradients)
    if len(weights) != len(outputs):
        raise UsageError(
            f"{len(weights)} gradients were given for {len(outputs)} outputs; pass one for each, None for single "
            "numbers"
        )
    return weights


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors`, weighted by `grad_tensors`, to `.grad` of the leaves (or of `inputs` alone).

    Args:
        tensors: One or several tensors; those that are not single numbers need a weight.
        grad_tensors: Weights of the tensors' own sizes; None for single numbers.
        retain_graph: Keep what was saved, so that backward can run again. Defaults to `create_graph`.
        create_graph: Record the computation of the gradients, for higher derivatives.
        inputs: Leaves to accumulate into; others are left alone.

    Raises:
        AutogradError: Nothing to differentiate, freed or changed saved tensors.
        ShapeError: A weight does not have the sizes of its tensor.
        UsageError: The weights are not as many as the tensors, or `inputs` is empty.
    """
    outputs = _as_list(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    weights = _weights(outputs, grad_tensors)
    if inputs is None:
        run_backward(outputs, weights, None, keep, create_graph)
        return
    targets = _as_list(inputs)
    if not targets:
        raise UsageError("backward(inputs=[]) would accumulate nothing; leave inputs out for all leaves")
    found = run_backward(outputs, weights, targets, keep, create_graph, accumulating=True)
    for target, gradient in zip(targets, found, strict=True):
        if gradient is not None and not target.is_leaf:
            accumulate(target, gradient, create_graph)


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of `outputs`, weighted by `grad_outputs`, with respect to `inputs`; `.grad` is not touched.

    Args:
        outputs: One tensor or several.
        inputs: The tensors to differentiate by: one, or any iterable of them, such as `model.parameters()`.
        grad_outputs: Weights of the outputs' sizes; None for single numbers.
        retain_graph: Keep what was saved. Defaults to `create_graph`.
        create_graph: Make the gradients differentiable themselves.
        only_inputs: True; PyTorch has given up False, too.
        allow_unused: Return None for inputs that the outputs do not depend on, instead of an error.
        is_grads_batched: Each weight has one dim more in front, and so have the gradients: one for each entry of it.
        materialize_grads: Return zeros for inputs that the outputs do not depend on.

    Raises:
        AutogradError: An input that the outputs do not depend on; nothing to differentiate; freed or changed tensors.
        ShapeError: A weight does not have the sizes of its output.
        UsageError: The weights are not as many as the outputs, or options contradict each other.

    >>> import jit
    >>> x = jit.tensor(3.0, requires_grad=True)
    >>> (g,) = jit.grad(x * x * x, x, create_graph=True)
    >>> g.item(), jit.grad(g, x)[0].item()
    (27.0, 18.0)
    """
    if not only_inputs:
        raise UsageError("grad() does not add to .grad of tensors; instead of only_inputs=False call backward()")
    if materialize_grads and allow_unused is False:
        raise UsageError(
            "materialize_grads=True returns zeros for unused inputs, so allow_unused cannot be False; leave one of "
            "them out"
        )
    roots, leaves = _as_list(outputs), _as_list(inputs)
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched(roots, leaves, _weights(roots, grad_outputs), keep, create_graph, allow_unused, materialize_grads)
    found = run_backward(roots, _weights(roots, grad_outputs), leaves, keep, create_graph)
    if materialize_grads:
        return tuple(
            F.zeros_like(t).requires_grad_(create_graph) if g is None else g for t, g in zip(leaves, found, strict=True)
        )
    for index, gradient in enumerate(found):
        if gradient is None and not allow_unused:
            raise AutogradError(
                f"input {index} of grad was not used to compute the outputs; pass allow_unused=True to get None for it"
            )
    return tuple(found)


def _batched(
    roots: list[Any], leaves: list[Any], weights: list[Any], keep: bool, create_graph: bool, *others: bool | None
) -> tuple[Any, ...]:
    """The gradients for each entry of the weights, one after the other, stacked."""
    count = len(weights[0])
    allow_unused, materialize = others
    rows = [
        grad(
            roots, leaves, [weight[at] for weight in weights], keep or at < count - 1, create_graph,
            allow_unused=allow_unused, materialize_grads=bool(materialize),
        )
        for at in range(count)
    ]  # fmt: skip
    return tuple(None if column[0] is None else F.stack(column) for column in zip(*rows, strict=True))
