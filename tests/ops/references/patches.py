"""What patches, bags and distances should compute, in float64 numpy, place by place."""

import itertools
from typing import Any

import numpy as np

from tests.ops.references.arrays import adjoint, edge_pad, with_dims


def im2col(self: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    image = np.pad(self, [(0, 0)] * (self.ndim - 2) + [(p, p) for p in padding])
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    tops = range(0, image.shape[-2] - reach[0] + 1, stride[0])
    lefts = range(0, image.shape[-1] - reach[1] + 1, stride[1])
    columns = [
        image[..., top : top + reach[0] : dilation[0], left : left + reach[1] : dilation[1]]
        for top in tops for left in lefts
    ]  # fmt: skip
    return np.stack([column.reshape(*self.shape[:-3], -1) for column in columns], -1)


def col2im(self: Any, size: Any, kernel: Any, *rest: Any) -> Any:
    shape = (*self.shape[:-2], self.shape[-2] // (kernel[0] * kernel[1]), *size)
    return adjoint(lambda x: im2col(x, kernel, *rest), shape, self)


@with_dims
def scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    lists: dict[Any, list[Any]] = {}
    for place in np.ndindex(*index.shape):
        target = list(place)
        target[dim] = int(index[place])
        lists.setdefault(tuple(target), []).append(src[place])
    out = np.array(self)
    functions: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}
    for target, values in lists.items():
        result = functions[reduce]([self[target], *values] if include_self else values)
        out[target] = np.floor(result) if out.dtype.kind == "i" else result
    return out


def embedding_bag(
    weight: Any, indices: Any, offsets: Any, by_frequency: Any, mode: int, sparse: Any, weights: Any, last: bool,
    padding: Any = None,
) -> Any:  # fmt: skip
    bounds = [*offsets] if last else [*offsets, len(indices)]
    out, sizes = np.zeros((len(bounds) - 1, weight.shape[1])), []
    bag = np.zeros(len(indices), np.int64)
    winners = np.zeros(out.shape, np.int64)
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        bag[start:end] = number
        chosen = [i for i in range(start, end) if indices[i] != padding]
        sizes.append(len(chosen))
        if not chosen:
            continue
        rows = weight[indices[chosen]]
        scaled = rows if weights is None else rows * weights[chosen][:, None]
        out[number] = (scaled.sum(0), rows.mean(0), rows.max(0))[mode]
        winners[number] = indices[chosen][rows.argmax(0)]
    return out, bag, np.array(sizes), winners if mode == 2 else np.zeros(len(sizes), np.int64)


def cdist(x1: Any, x2: Any, p: float, mode: Any) -> Any:
    differences = x1[..., :, None, :] - x2[..., None, :, :]
    return np.linalg.norm(differences, ord=p, axis=-1)


def dims(rank: int) -> Any:
    views: Any = {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}
    return views[rank]


REFERENCES: dict[str, Any] = {
    "aten::im2col": im2col,
    "aten::col2im": col2im,
    **{f"aten::reflection_pad{n}d": lambda self, padding: edge_pad(self, padding, "reflect") for n in (1, 2, 3)},
    **{f"aten::replication_pad{n}d": lambda self, padding: edge_pad(self, padding, "replicate") for n in (1, 2, 3)},
    **{f"aten::atleast_{n}d": dims(n) for n in (1, 2, 3)},
    **{f"aten::atleast_{n}d.Sequence": lambda tensors, n=n: [dims(n)(t) for t in tensors] for n in (1, 2, 3)},
    "aten::scatter_reduce.two": scatter_reduce,
    "aten::embedding_bag": embedding_bag,
    "aten::embedding_bag.padding_idx": embedding_bag,
    "aten::cdist": cdist,
}
