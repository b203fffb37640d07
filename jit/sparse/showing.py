"""The text of a printed sparse tensor, in PyTorch's form."""

from __future__ import annotations

from typing import Any

from jit.eager.tensors import Tensor


def show(tensor: Any) -> str:
    """The fields of a sparse tensor one below the other, then its sizes and its layout."""
    indent = " " * len("tensor(")
    parts = {"crow_indices": "starts", "col_indices": "columns"} if tensor.is_sparse_csr else {"indices": "at"}
    fields = [_field(spelled, getattr(tensor, name)) for spelled, name in {**parts, "values": "held"}.items()]
    facts = _facts(tensor)
    if tensor.is_sparse_csr:  # PyTorch puts these beside the values
        fields[-1] += f", {', '.join(facts[:2])}"
        facts = facts[2:]
    between = f",\n{indent}"
    return f"tensor({between.join([*fields, ', '.join(facts)])})"


def _field(name: str, value: Tensor) -> str:
    opening = f"{' ' * len('tensor(')}{name}="
    lines = repr(value.detach()).splitlines()
    if not value.numel():
        lines = [f"tensor([], size={tuple(value.shape)})"]
    return f"{name}=" + f"\n{' ' * len(opening)}".join(lines)


def _facts(tensor: Any) -> list[str]:
    facts = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}", f"layout={str(tensor.layout).replace('jit', 'torch')}"]
    if tensor.grad_fn is not None:
        facts.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        facts.append("requires_grad=True")
    return facts


__all__ = ["show"]
