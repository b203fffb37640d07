"""What arranging and copying operators should compute, in numpy."""

import itertools
from typing import Any

import numpy as np

from tests.ops.references.arrays import REFERENCES as ARRAYS


def split(function: Any) -> Any:
    return lambda self, where: function(self, list(where) if isinstance(where, tuple) else where)


def block_diag(tensors: Any) -> Any:
    blocks = [np.atleast_2d(t) for t in tensors]
    out = np.zeros(np.sum([b.shape for b in blocks], axis=0), np.result_type(*blocks))
    row = column = 0
    for block in blocks:
        out[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return out


def diag_embed(self: Any, offset: int, dim1: int, dim2: int) -> Any:
    each = np.apply_along_axis(lambda v: np.diag(v, offset), -1, self).reshape(
        (*self.shape[:-1], *(self.shape[-1] + abs(offset),) * 2)
    )
    return np.moveaxis(each, (-2, -1), (dim1, dim2))


def channel_shuffle(self: Any, groups: int) -> Any:
    per = self.shape[1] // groups
    return self[:, [g * per + i for i in range(per) for g in range(groups)]]


def choices(n: int, r: int, repeated: bool, device: Any = None) -> Any:
    pick = itertools.combinations_with_replacement if repeated else itertools.combinations
    return np.array(list(pick(range(n), r)))


def nonzero_static(self: Any, size: int, fill_value: int) -> Any:
    out = np.full((size, self.ndim), fill_value)
    found = np.argwhere(self)[:size]
    out[: len(found)] = found
    return out


def put(self: Any, index: Any, source: Any, accumulate: bool) -> Any:
    out = np.array(self, order="C")
    if accumulate:
        np.add.at(out.reshape(-1), index, source)
    else:
        np.put(out, index, source)
    return out


def index_reduce(self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    out = np.moveaxis(np.array(self), dim, 0)
    given = np.moveaxis(np.asarray(source), dim, 0)
    combine: Any = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    for row in set(index.tolist()):
        rows = list(given[index == row]) + ([out[row].copy()] if include_self else [])
        out[row] = combine(np.stack(rows), axis=0)
    return np.moveaxis(out, 0, dim)


def diag(self: Any, diagonal: int) -> Any:
    return np.diag(self, diagonal)


def logspace(start: Any, end: Any, steps: int, base: float, dtype: Any, device: Any) -> Any:
    return np.logspace(start, end, steps, base=base)


def zeros(size: Any, stride: Any, dtype: Any, device: Any) -> Any:
    return np.zeros(size)


def linalg_vander(x: Any, N: Any) -> Any:
    return x[..., None] ** np.arange(x.shape[-1] if N is None else N)


VIEWS = (
    "view_as_real", "view_as_complex", "view", "transpose.int", "t", "permute", "expand", "squeeze", "squeeze.dim",
    "squeeze.dims", "unsqueeze", "select.int", "slice.Tensor", "narrow", "split.Tensor", "split_with_sizes",
    "unbind.int", "unfold", "diagonal", "as_strided", "alias", "detach",
)  # fmt: skip
ELSEWHERE: dict[str, Any] = {
    "aten::view_as_real": lambda self: np.stack([self.real, self.imag], -1),
    "aten::view_as_complex": lambda self: self[..., 0] + 1j * self[..., 1],
}


def copy_of(name: str) -> str:
    bare, dot, overload = name.partition(".")
    return f"aten::{bare}_copy{dot}{overload}"


REFERENCES: dict[str, Any] = {
    **{copy_of(name): {**ARRAYS, **ELSEWHERE}[f"aten::{name}"] for name in VIEWS},
    "aten::unsafe_chunk": ARRAYS["aten::chunk"],
    "aten::unsafe_split.Tensor": ARRAYS["aten::split.Tensor"],
    "aten::unsafe_split_with_sizes": ARRAYS["aten::split_with_sizes"],
    "aten::column_stack": np.column_stack,
    "aten::dstack": np.dstack,
    **{f"aten::{n}split.{kind}": split(getattr(np, f"{n}split")) for n in "hvd" for kind in ("int", "array")},
    "aten::fliplr": np.fliplr,
    "aten::flipud": np.flipud,
    "aten::rot90": np.rot90,
    "aten::ravel": np.ravel,
    "aten::adjoint": lambda self: np.swapaxes(self, -1, -2).conj(),
    "aten::channel_shuffle": channel_shuffle,
    "aten::diag_embed": diag_embed,
    "aten::diag": diag,
    "aten::linalg_diagonal": lambda A, offset, dim1, dim2: np.diagonal(A, offset, dim1, dim2),
    "aten::diagflat": np.diagflat,
    "aten::block_diag": block_diag,
    "aten::kron": np.kron,
    "aten::cartesian_prod": lambda tensors: (
        tensors[0] if len(tensors) == 1 else np.array(list(itertools.product(*tensors)))
    ),
    "aten::choices": choices,
    "aten::combinations": lambda self, r, repeated: self[choices(len(self), r, repeated)],
    "aten::nonzero_static": nonzero_static,
    "aten::tril_indices": lambda row, col, offset, dtype, device: np.stack(np.tril_indices(row, offset, col)),
    "aten::triu_indices": lambda row, col, offset, dtype, device: np.stack(np.triu_indices(row, offset, col)),
    "aten::unravel_index": np.unravel_index,
    "aten::put": put,
    "aten::index_reduce": index_reduce,
    "aten::logspace": logspace,
    "aten::empty_strided": zeros,
    "aten::new_empty_strided": lambda self, size, stride, dtype, device: np.zeros(size),
    "aten::empty_permuted": zeros,
    "aten::vander": lambda x, N, increasing: np.vander(x, N, increasing),
    "aten::linalg_vander": linalg_vander,
}
