"""`Differentiated`: a call of a function on arguments of its own, by which what it returns can be differentiated.

Note [Levels of derivatives]
    A function that is differentiated gets other tensors than it was called with: leaves of its own, or aliases of
    tensors that have a history already. What it uses besides, through a closure, is constant to this derivative, and
    yet varies for those around it. Their derivatives go through gradients only if these have a history, too, which
    costs time: it is kept if what the function returns depends on anything with a history but those leaves. What
    depends on them alone is returned without history.

Note [Forward by two backwards]
    w -> Jt w is linear, so its own derivative, applied to v, is J v. `jvp`, `linearize` and `jacfwd` differentiate a
    gradient by the weight that it was computed with. This is exact, to any order, wherever a gradient can be
    differentiated; an autograd.Function that is `once_differentiable` has no such derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jit.autograd.differentiation import grad
from jit.autograd.nodes import AccumulateGrad, Node, edge_of
from jit.eager.context import enable_grad, is_grad_enabled
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import KindError, ShapeError, UsageError
from jit.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from .levels import Levels


class Differentiated:
    """A function that has been called, its results, and products with its derivative; see Note [Levels of derivatives].

    Args:
        name: The name of the function that differentiates, for messages.
        func: The function.
        args: Its arguments.
        kwargs: Its arguments by name.
        argnums: The number of the argument that it is differentiated by, or a tuple of numbers.
        has_aux: Whether it returns a pair, of which the second is not differentiated.

    Raises:
        KindError: What it is differentiated by, or what it returns, are no tensors.
    """

    def __init__(
        self, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any,
        has_aux: bool,
    ) -> None:  # fmt: skip
        self.name = name
        self.levels = Levels()
        self._is_wanted = is_grad_enabled()
        places = _places(name, argnums, len(args))
        chosen = tuple(args[place] for place in places) if isinstance(argnums, tuple) else args[places[0]]
        leaves, self.inputs_spec = tree_flatten(chosen)
        _require_tensors(leaves, f"{name}: what it differentiates by")
        with enable_grad():
            self._inputs = [self._apart(leaf) for leaf in leaves]
            own = tree_unflatten([self.levels.raised(leaf) for leaf in self._inputs], self.inputs_spec)
            given = list(args)
            for place, value in zip(places, own if isinstance(argnums, tuple) else [own], strict=True):
                given[place] = value
            returned = func(*given, **kwargs)
        result, aux = _pair(name, returned) if has_aux else (returned, None)
        self._set_results(result, aux)

    def _apart(self, leaf: Tensor) -> Tensor:
        """A tensor to differentiate by that nothing else depends on: a leaf, or an alias of what has a history."""
        real = self.levels.lowered(leaf)
        with self.levels.outside():
            if self._is_wanted and real.requires_grad:
                alias: Tensor = F.alias(real)
                return alias
            return real.detach().requires_grad_()

    def _set_results(self, result: Any, aux: Any) -> None:
        self._results, self.spec = tree_flatten(result)
        _require_tensors(self._results, f"{self.name}: what the function returns")
        with enable_grad():
            self._outputs = [self.levels.lowered(leaf) for leaf in self._results]
            others = [self.levels.lowered(leaf) for leaf in tree_flatten(aux)[0] if isinstance(leaf, Tensor)]
        self._is_connected = self._is_wanted and self._depends_on_others([*self._outputs, *others])
        self.aux = tree_map(self._released, aux)

    def _depends_on_others(self, tensors: Iterable[Tensor]) -> bool:
        """Whether something with a history, besides the leaves made here, was used."""
        own = {edge.node for edge in map(edge_of, self._inputs) if edge is not None}
        if any(not isinstance(node, AccumulateGrad) for node in own):
            return True
        pending: list[Node] = [edge.node for edge in map(edge_of, tensors) if edge is not None]
        seen = set(own)
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            if isinstance(node, AccumulateGrad):
                return True
            seen.add(node)
            pending += [edge.node for edge in node.edges if edge is not None]
        return False

    def _released(self, value: Any) -> Any:
        """A value without the history of this call, unless those around it need that."""
        return value.detach() if isinstance(value, Tensor) and not self._is_connected else value

    @property
    def result(self) -> Any:
        """The result of the function."""
        return tree_unflatten([self._released(leaf) for leaf in self._results], self.spec)

    @property
    def results(self) -> list[Tensor]:
        """The tensors in it."""
        return self._results

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that it is differentiated by."""
        return [self.levels.raised(leaf) for leaf in self._inputs]

    def with_aux(self, value: Any, has_aux: bool) -> Any:
        """`value`, in a pair with what else the function returned, if it has that."""
        return (value, self.aux) if has_aux else value

    # -- products ------------------------------------------------------------------------------------------------

    def gradients(self, weights: Sequence[Tensor], retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        """The product of weights, one for each tensor in the result, with the Jacobian: a nest as what was chosen."""
        creates = self._creates(weights) if create_graph is None else create_graph

        def products(reals: list[Tensor]) -> list[Tensor]:
            return _grad_or_zeros(self._outputs, self._inputs, reals, retain_graph or creates, creates)

        return tree_unflatten(self.levels.apply(products, weights), self.inputs_spec)

    def pushing(self) -> Callable[[Sequence[Tensor]], Any]:
        """The function of directions that gives the product of the Jacobian with them: a nest as the result."""
        with enable_grad(), self.levels.outside():
            weights = [F.zeros_like(output.detach()).requires_grad_() for output in self._outputs]
            rows = _grad_or_zeros(self._outputs, self._inputs, weights, True, True)

        def push(directions: Sequence[Tensor]) -> Any:
            creates = self._creates(directions)

            def products(reals: list[Tensor]) -> list[Tensor]:
                return _grad_or_zeros(rows, weights, reals, True, creates)

            return tree_unflatten(self.levels.apply(products, directions), self.spec)

        return push

    def _creates(self, weights: Sequence[Tensor]) -> bool:
        """Whether products need a history."""
        return is_grad_enabled() and (self._is_connected or any(weight.requires_grad for weight in weights))

    def matching(self, nest: Any, spec: TreeSpec, tensors: Sequence[Tensor], what: str) -> list[Tensor]:
        """The tensors of a nest, which are to have the form and the sizes of others.

        Args:
            nest: The nest.
            spec: The form.
            tensors: The others.
            what: The words for it in messages.

        Raises:
            UsageError: The form is another one.
            ShapeError: The sizes are.
        """
        found, form = tree_flatten(nest)
        if form != spec:
            raise UsageError(f"{self.name}: {what} are to be nested as what they belong to, {spec}, and are {form}")
        _require_tensors(found, f"{self.name}: {what}")
        if [tuple(t.shape) for t in found] != [tuple(t.shape) for t in tensors]:
            sizes = ", ".join(str(list(t.shape)) for t in tensors)
            raise ShapeError(f"{self.name}: {what} have other sizes than what they belong to; pass tensors of {sizes}")
        return found


def _places(name: str, argnums: Any, count: int) -> list[int]:
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers or not all(isinstance(n, int) and -count <= n < count for n in numbers):
        raise UsageError(
            f"{name}: argnums={argnums!r} names no argument of a call with {count} by position; number those from 0"
        )
    places = [number % count for number in numbers]
    if len(set(places)) < len(places):
        raise UsageError(f"{name}: argnums={argnums!r} names an argument twice; name each once")
    return places


def _pair(name: str, returned: Any) -> tuple[Any, Any]:
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise KindError(
            f"{name}: with has_aux=True the function is to return a pair, and it returned {type(returned).__name__}; "
            "return (result, aux)"
        )
    return returned


def _require_tensors(leaves: Sequence[Any], what: str) -> None:
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise KindError(f"{what} are to be tensors, or nests of them, not {type(leaf).__name__}; make it a tensor")
    if not leaves:
        raise KindError(f"{what}: there is no tensor; pass one")


def _grad_or_zeros(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor], retain_graph: bool,
    create_graph: bool,
) -> list[Tensor]:  # fmt: skip
    """The gradients of the inputs; zeros for those that no output depends on."""
    pairs = [(output, weight) for output, weight in zip(outputs, weights, strict=True) if output.requires_grad]
    if not pairs:
        return [F.zeros_like(tensor.detach()) for tensor in inputs]
    roots, given = zip(*pairs, strict=True)
    found = grad(roots, inputs, given, retain_graph, create_graph, allow_unused=True)
    return [F.zeros_like(t.detach()) if g is None else g for t, g in zip(inputs, found, strict=True)]


__all__ = ["Differentiated"]
