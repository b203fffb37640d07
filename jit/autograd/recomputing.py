"""`checkpoint`: forget what a function computes, and compute it again when its derivatives are asked for.

Note [Checkpoints]
    The function runs with its history recorded, so all that it depends on is known, parameters that it merely refers to
    included: they are the edges that lead out of the recorded part. That part is then dropped with all it has saved,
    and one node replaces it:

        y = checkpoint(f, x)      y.grad_fn = Checkpoint <- x, w          where f = lambda x: (x * w).exp()

    In backward the function runs again from the same arguments, memory and random numbers, and its history is followed
    from the results to the same edges. Nothing else happens there: what the function changes - running statistics, a
    generator - changes once, however often it is computed. So a checkpoint gives what the function itself gives,
    derivatives of every order included. A trace records the function, and which nodes are the checkpoint's: see
    Note [Checkpoints in graphs].
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from jit.eager import context
from jit.eager.autocasting import autocasting
from jit.eager.effects import Effects, noting
from jit.eager.tensors import Tensor, Variable, alias, root_of
from jit.ir.errors import AutogradError, KindError, UsageError

from .engine import run_backward
from .nodes import AccumulateGrad, Edge, Node, SavedTensor, edge_of, meta_of, next_serial, node_of, replay


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] | None = None, determinism_check: str = "default", debug: bool = False,
    early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """`function(*args, **kwargs)`, without keeping its intermediate results: backward computes them again.

    Args:
        function: Anything callable. It must compute the same in the second run. Buffers that it writes to in place, and
            the random generators of `jit`, are for the second run as they were for the first, and change once.
        args: Tensors, nests of tensors, or anything else.
        use_reentrant: Accepted and ignored: there is one implementation, with the abilities of both of PyTorch's.
        preserve_rng_state: Whether the second run draws the same random numbers.
        context_fn: Gives two blocks, within which the first run and the second one take place.
        determinism_check, debug, early_stop: Accepted; the second run is compared with the first in any case, and runs
            to its end.
        kwargs: Like `args`.

    Returns:
        What the function returns: tensors, nests of tensors, or anything else.

    Raises:
        AutogradError: In backward: an argument or a parameter has been changed since, or the second run returned
            something else than the first.
        KindError: `function` is not callable.

    >>> import jit
    >>> x = jit.ones(3, requires_grad=True)
    >>> jit.checkpoint(lambda x, n: (x * n).exp(), x, 2).sum().backward()
    >>> [round(g, 2) for g in x.grad.tolist()]
    [14.78, 14.78, 14.78]
    """
    if not callable(function):
        raise KindError(f"checkpoint needs a function to call, not {type(function).__name__}; pass the function first")
    if not context.GRAD_ENABLED.get():
        return function(*args, **kwargs)
    around = context.AUTOCAST.get()
    if (trace := context.TRACE.get()) is not None:
        with trace.checkpointed(), autocasting(around):
            return function(*args, **kwargs)
    first_block, second_block = (nullcontext(), nullcontext()) if context_fn is None else context_fn()
    own: list[SavedTensor] = []
    saved = map_tensors(lambda t: _keep(t, own), (args, kwargs))
    first = next_serial()
    with noting() as effects, autocasting(around), first_block:
        result = function(*args, **kwargs)
    outside = {id(item.storage) for item in own}
    tensors = list_tensors(result)
    places = _places(tensors, first, outside)
    if not places:
        return result
    for item in own:  # the function itself may have written to it, and will again
        item.version = item.storage.version
    roots = [root_of(tensors[place]) for place in places]
    node = CheckpointNode(function, saved, effects, _edges_out_of(roots, first), places, roots)
    node.random, node.block = preserve_rng_state, second_block
    return _with_history(result, node, roots)


def checkpoint_sequential(functions: Any, segments: int, input: Any, **options: Any) -> Any:
    """Run `functions` one after the other on `input`, in `segments` parts: a checkpoint for each part but the last.

    Args:
        functions: Callables of one tensor, or an `nn.Sequential` of them.
        segments: How many parts to make.
        input: What the first function is called with.
        options: As for `checkpoint`.

    Raises:
        UsageError: There are fewer functions than segments, or no segment.

    >>> import jit
    >>> net = jit.nn.Sequential(jit.nn.Linear(3, 3), jit.nn.ReLU(), jit.nn.Linear(3, 1))
    >>> jit.checkpoint_sequential(net, 2, jit.ones(4, 3)).shape
    jit.Size([4, 1])
    """
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= len(chain):
        raise UsageError(
            f"{len(chain)} functions cannot be divided into {segments} segments; ask for 1 to {len(chain)}"
        )
    size = len(chain) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(_one_after_the_other(chain[start : start + size]), input, **options)
    return _one_after_the_other(chain[size * (segments - 1) :])(input)


def _one_after_the_other(chain: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in chain:
            value = function(value)
        return value

    return run


# -- nests -------------------------------------------------------------------------------------------------------


def map_tensors(change: Callable[[Any], Any], value: Any, kind: type = Tensor) -> Any:
    """A nest with its tensors changed; what is no tensor, list, tuple, dict or dataclass stays the same object.

    Args:
        change: Called with each tensor; returns what replaces it.
        value: The nest.
        kind: The class of what counts as a tensor.
    """
    if isinstance(value, kind):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(map_tensors(change, item, kind) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(change, item, kind) for item in value))
    if isinstance(value, dict):
        table = copy.copy(value)
        table.update((key, map_tensors(change, item, kind)) for key, item in value.items())
        return table
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        record = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(record, field.name, map_tensors(change, getattr(value, field.name), kind))
        return record
    return value


def list_tensors(value: Any) -> list[Tensor]:
    """The tensors of a nest, in order."""
    found: list[Tensor] = []
    map_tensors(found.append, value)
    return found


def _keep(tensor: Tensor, own: list[SavedTensor]) -> SavedTensor:
    own.append(SavedTensor(tensor, f"tensor {len(own)} among the arguments"))
    return own[-1]


# -- the node ----------------------------------------------------------------------------------------------------


def _places(tensors: Sequence[Tensor], first: int, outside: set[int]) -> list[int]:
    """The place among `tensors` of each result that is memory of its own, made since `first`, or of a view of it."""
    places: dict[int, int] = {}
    for place, tensor in enumerate(tensors):
        root = root_of(tensor)
        node = node_of(root) if tensor.requires_grad else None
        if node is not None and node.serial > first and id(root._storage) not in outside:
            places.setdefault(id(root), place)
    return list(places.values())


def _edges_out_of(roots: Sequence[Tensor], first: int) -> list[Edge]:
    """The edges at which the history of `roots` leaves the part that was recorded since `first`."""
    edges: dict[Edge, None] = {}
    stack = [node_of(root) for root in roots]
    seen = set(stack)
    while stack:
        node = stack.pop()
        for edge in node.edges if node is not None else ():
            if edge is None:
                continue
            if edge.node.serial < first or isinstance(edge.node, AccumulateGrad):
                edges[edge] = None
            elif edge.node not in seen:
                seen.add(edge.node)
                stack.append(edge.node)
    return list(edges)


class CheckpointNode(Node):
    """The history of what a function under a checkpoint returned; see Note [Checkpoints].

    Args:
        function: The function.
        saved: Its arguments, positional and by name, with a SavedTensor for each tensor.
        effects: The changes that it made in the first run.
        edges: The edges that lead out of the recorded part.
        places: For each output of this node, its place among the tensors that the function returned.
        roots: The outputs; a tensor's base where the function returned a view.
    """

    is_users = True

    def __init__(
        self, function: Callable[..., Any], saved: Any, effects: Effects, edges: Sequence[Edge], places: list[int],
        roots: Sequence[Tensor],
    ) -> None:  # fmt: skip
        super().__init__("CheckpointBackward", edges, len(roots))
        self.source = context.user_source()
        self.function: Callable[..., Any] | None = function
        self.saved = saved
        self.effects = effects
        self.regime = context.AUTOCAST.get()
        """The setting of `autocast`."""
        self.random = True
        """Whether the second run draws the same numbers."""
        self.block: Any = nullcontext()
        """The block within which the second run takes place."""
        self.places = places
        self.metas = [meta_of(root) for root in roots]
        for root in roots:
            effects.forget(root._storage)
        self.must_be_alone = bool(effects.regions)
        leaves = [edge.node.variable for edge in edges if isinstance(edge.node, AccumulateGrad)]
        self.versions = [(leaf._storage, leaf._storage.version) for leaf in leaves]

    def release(self) -> None:
        self.function = self.saved = None

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """The gradients of what the function depends on, for which it runs again.

        Raises:
            AutogradError: It was freed, what the function depends on has changed, or it now returns something else.
        """
        if self.function is None:
            raise AutogradError(
                f"backward through the checkpoint at {self.source} a second time: what it kept was freed; "
                "say retain_graph=True the first time"
            )
        create = context.GRAD_ENABLED.get()
        wanted = [edge for edge, need in zip(self.edges, needs, strict=True) if need]
        args, kwargs = self._arguments()
        with self.effects.undone(self.random):
            pairs = [(r, g) for r, g in zip(self._again(args, kwargs), gradients, strict=True) if g is not None]
            roots, weights = zip(*pairs, strict=True)
            found = iter(run_backward(roots, weights, wanted, create, create, within=True))
        return [next(found) if need else None for need in needs]

    def _arguments(self) -> Any:
        """The arguments of the call; AutogradError if they have been changed since."""
        for storage, version in self.versions:
            if storage.version != version:
                raise AutogradError(
                    f"what the checkpoint at {self.source} depends on was changed by an in-place operation at "
                    f"{storage.writer} before its gradient was computed; differentiate first, or clone it"
                )
        return map_tensors(lambda item: item.unpack(self), self.saved, SavedTensor)

    def _again(self, args: Any, kwargs: Any) -> list[Any]:
        """The results of a second run, with their histories; AutogradError if they are not like those of the first."""
        assert self.function is not None
        with context.enable_grad(), autocasting(self.regime), self.block:
            tensors = list_tensors(self.function(*args, **kwargs))
        roots = [root_of(tensors[place]) if place < len(tensors) else None for place in self.places]
        if [None if r is None or edge_of(r) is None else meta_of(r) for r in roots] != self.metas:
            raise AutogradError(
                f"the function under the checkpoint at {self.source} returned something else when it was run again for "
                "its gradients; it must do the same each time it is called with the same arguments"
            )
        return roots


def _with_history(result: Any, node: Node, roots: Sequence[Tensor]) -> Any:
    """The results of the function, with `node` as their history; views are taken anew."""
    fresh: dict[int, Tensor] = {}
    for index, root in enumerate(roots):
        fresh[id(root)] = made = alias(root, Variable)
        made.set_history(node, index)  # type: ignore[attr-defined]

    def output(tensor: Tensor) -> Tensor:
        base = fresh.get(id(root_of(tensor))) if tensor.requires_grad else None
        return tensor if base is None else replay(tensor._path, base)

    return map_tensors(output, result)
