"""`vmap`: a function of one sample made one of many, by operators that take all of them at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError
from jit.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from .layers import Layer, VmapError
from .rules import apply_function, run


class MappingError(UsageError, ValueError):
    """The error for dims that do not fit the arguments or the results of a function under vmap."""


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function of many samples, given one of a single sample; its operators run once, on all of them.

    Args:
        func: A function of tensors, or of nests of them, that returns such.
        in_dims: The dim along which the samples of an argument lie; None for what is the same for all of them. One for
            all arguments, or a nest of the shape of the arguments. Arguments by name are mapped along dim 0.
        out_dims: The dim along which the samples of a result are put, likewise.
        randomness: "error" refuses random numbers, "different" draws others for each sample, "same" the same ones.
        chunk_size: The number of samples that run at once; all of them if left out.

    Returns:
        The function. It may be mapped or differentiated again.

    Raises:
        MappingError: The randomness is none of these, or the chunks have no size.

    >>> import jit
    >>> dots = jit.vmap(jit.dot)
    >>> dots(jit.ones(2, 3), jit.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).tolist()
    [6.0, 15.0]
    """
    if randomness not in ("error", "different", "same"):
        raise MappingError(f"randomness is {randomness!r}; Only allowed values are 'error', 'different', 'same'")
    if chunk_size is not None and chunk_size <= 0:
        raise MappingError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        arguments = _MappedArguments(func, in_dims, args, kwargs)
        if chunk_size is None or chunk_size >= arguments.size:
            return _run(func, arguments, out_dims, randomness)
        parts = [_run(func, part, 0, randomness) for part in arguments.chunks(chunk_size)]
        return _joined(parts, out_dims)

    return mapped


class _MappedArguments:
    """The arguments of a mapped call, with the samples along dim 0.

    Args:
        func: The function, for messages.
        in_dims: As of `vmap`.
        args: The arguments by position.
        kwargs: Those by name.
    """

    def __init__(self, func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = getattr(func, "__name__", type(func).__name__)
        if not isinstance(in_dims, (int, tuple, list)):
            raise MappingError(
                f"vmap({self.name}, in_dims={in_dims}, ...): expected `in_dims` to be int or a (potentially nested) "
                f"tuple matching the structure of inputs, got: {type(in_dims)}."
            )
        given, self.spec = tree_flatten((list(args), kwargs))
        dims = [*_spread(in_dims, tree_flatten(list(args))[1], self.name), *[0] * len(tree_flatten(kwargs)[0])]
        self.mapped = [dim is not None for dim in dims]
        self.leaves = [value if dim is None else self._fronted(value, dim) for value, dim in zip(given, dims)]
        sizes = [value.shape[0] for value, held in zip(self.leaves, self.mapped) if held]
        if not sizes:
            raise MappingError(
                f"vmap({self.name}, in_dims={in_dims}, ...)(<inputs>): at least one input is to be mapped"
            )
        if any(size != sizes[0] for size in sizes):
            raise MappingError(
                f"vmap({self.name}): Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{[int(size) for size in sizes]} for the mapped dimension"
            )
        self.size = sizes[0]

    def _fronted(self, value: Any, dim: Any) -> Any:
        if not isinstance(value, Tensor):
            raise MappingError(
                f"vmap({self.name}): Got in_dim={dim} for an input, but the input is of type {type(value)}; pass a "
                "tensor, or None as its in_dim"
            )
        if not isinstance(dim, int) or not -value.ndim <= dim < value.ndim:
            raise MappingError(
                f"vmap({self.name}): Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                f"{value.ndim} so expected in_dim to satisfy -{value.ndim} <= in_dim < {value.ndim}."
            )
        if not value.shape[dim]:
            raise MappingError(f"vmap({self.name}): there are no samples, the mapped dim has size 0")
        return F.movedim(value, dim, 0) if dim % value.ndim else value

    def chunks(self, length: int) -> list[_MappedArguments]:
        """The same call in parts of so many samples."""
        return [self._part(start, min(length, self.size - start)) for start in range(0, self.size, length)]

    def _part(self, start: int, length: int) -> _MappedArguments:
        made: _MappedArguments = object.__new__(_MappedArguments)
        made.name, made.spec, made.mapped, made.size = self.name, self.spec, self.mapped, length
        made.leaves = [F.narrow(v, 0, start, length) if held else v for v, held in zip(self.leaves, self.mapped)]
        return made


def _spread(dims: Any, spec: TreeSpec, name: str) -> list[Any]:
    """The dim of each leaf: one dim for all, or a nest of dims that may end where that of the leaves goes on."""
    if not isinstance(dims, (tuple, list, dict)) or spec.is_leaf():
        return [dims] * spec.num_leaves
    items = list(dims.values()) if isinstance(dims, dict) else list(dims)
    if len(items) != spec.num_children:
        raise MappingError(
            f"vmap({name}): in_dims is not compatible with the structure of inputs. in_dims has structure {dims}, and "
            f"there are {spec.num_children} inputs"
        )
    return [dim for item, child in zip(items, spec.children()) for dim in _spread(item, child, name)]


def _run(func: Callable[..., Any], arguments: _MappedArguments, out_dims: Any, randomness: str) -> Any:
    layer = Layer(arguments.size, run, apply_function, randomness)
    with layer.running():
        samples = [layer.batched(v) if held else v for v, held in zip(arguments.leaves, arguments.mapped)]
        args, kwargs = tree_unflatten(samples, arguments.spec)
        results, spec = tree_flatten(func(*args, **kwargs))
        for result in results:
            if not isinstance(result, Tensor):
                raise MappingError(
                    f"vmap({arguments.name}, ...): `{arguments.name}` must only return Tensors, got type {type(result)}"
                )
        with layer.outside():
            placed = [
                _placed(layer, result, dim, arguments.name)
                for result, dim in zip(results, _out_dims(out_dims, spec, arguments.name))
            ]
    return tree_unflatten(placed, spec)


def _out_dims(dims: Any, spec: TreeSpec, name: str) -> list[Any]:
    if isinstance(dims, (tuple, list)) and len(dims) == 1 and spec.is_leaf():
        return list(dims)
    if spec.is_leaf() and isinstance(dims, (tuple, list)):
        raise MappingError(f"vmap({name}): out_dims is not compatible with the structure of outputs, one tensor")
    return _spread(dims, spec, name)


def _placed(layer: Layer, result: Tensor, dim: Any, name: str) -> Tensor:
    """A result with its samples along `dim`."""
    if dim is None:
        if layer.holds(result):
            raise MappingError(f"vmap({name}): a result differs from sample to sample, but its out_dim is None")
        return result
    whole: Tensor = layer.whole(result)
    if not -whole.ndim <= dim < whole.ndim:
        raise MappingError(f"vmap({name}): out_dim={dim} is no dim of a result of {whole.ndim} dims, samples included")
    return F.movedim(whole, 0, dim) if dim % whole.ndim else whole


def _joined(parts: Sequence[Any], out_dims: Any) -> Any:
    """The results of chunks, whose samples lie along dim 0, as one."""
    whole = tree_map(lambda *found: F.cat(list(found), 0), *parts)
    leaves, spec = tree_flatten(whole)
    dims = _out_dims(out_dims, spec, "chunks")
    return tree_unflatten([F.movedim(t, 0, dim) if dim else t for t, dim in zip(leaves, dims)], spec)


__all__ = ["MappingError", "VmapError", "vmap"]
