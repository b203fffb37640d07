"""The text of a printed sparse tensor, in PyTorch's form."""

from __future__ import annotations

from typing import Any

from jit.eager.showing import with_notes
from jit.eager.tensors import Tensor

_INDENT = len("tensor(")


def show(tensor: Any) -> str:
    """The fields of a sparse tensor one below the other, then its sizes and its layout."""
    parts = {"crow_indices": "starts", "col_indices": "columns"} if tensor.is_sparse_csr else {"indices": "at"}
    fields = [_field(spelled, getattr(tensor, name)) for spelled, name in {**parts, "values": "held"}.items()]
    first, *facts = _facts(tensor)
    between = f",\n{' ' * _INDENT}"
    begun = "tensor(" + between.join(fields)
    return (
        with_notes(begun, [first, *facts], _INDENT)
        if tensor.is_sparse_csr
        else with_notes(f"{begun}{between}{first}", facts, _INDENT)
    )


def _field(name: str, value: Tensor) -> str:
    opening = f"{' ' * _INDENT}{name}="
    lines = repr(value.detach()).splitlines()
    if not value.numel():
        lines = [f"tensor([], size={tuple(value.shape)})"]
    return f"{name}=" + f"\n{' ' * len(opening)}".join(lines)


def _facts(tensor: Any) -> list[str]:
    facts = [
        f"size={tuple(tensor.shape)}",
        f"nnz={tensor._nnz()}",
        f"layout={str(tensor.layout).replace('jit', 'torch')}",
    ]
    if tensor.grad_fn is not None:
        facts.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        facts.append("requires_grad=True")
    return facts


__all__ = ["show"]
