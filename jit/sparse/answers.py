"""The table of what operators are for sparse tensors, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import arithmetic, products, rearranging, reductions

ANSWERS: dict[str, Callable[..., Any]] = {
    **{name: arithmetic.of_entries(name) for name in arithmetic.KEEPING_ZEROS},
    "neg": arithmetic.negative, "negative": arithmetic.negative, "pow": arithmetic.power,
    "mul": arithmetic.times, "multiply": arithmetic.times, "div": arithmetic.divided,
    "divide": arithmetic.divided, "true_divide": arithmetic.divided,
    "add": arithmetic.plus, "sub": arithmetic.minus, "subtract": arithmetic.minus,
    "mm": products.product, "mv": products.product_with_vector, "matmul": products.matrix_product,
    "addmm": products.added_product, "linear": products.linear,
    "sum": reductions.total, "norm": reductions.norm,
    "transpose": rearranging.transposed, "swapaxes": rearranging.transposed, "permute": rearranging.permuted,
    "index_select": rearranging.chosen, "unsqueeze": rearranging.inserted, "stack": rearranging.stacked,
    "t": rearranging.turned, "cat": rearranging.joined, "select": rearranging.selected,
    "sparse_mask": rearranging.masked, "zeros_like": rearranging.emptied,
    "detach": lambda self: self.detach(),
    "clone": lambda self, memory_format=None: self.clone(),
}  # fmt: skip

__all__ = ["ANSWERS"]
