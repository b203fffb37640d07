"""Derivatives of functions: Jacobians, Hessians, and their products with vectors, all by `jit.grad`.

Note [Forward by two backwards]
    w -> Jt w is linear, so its own derivative, applied to v, is J v: `jvp` differentiates a gradient by the weight that
    it was computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jit.eager.context import enable_grad
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import AutogradError, KindError, ShapeError, UnwrittenError, UsageError

from .differentiation import grad


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The result of `func`, and the product of a vector with its Jacobian.

    Args:
        func: A function of tensors that returns a tensor or a tuple of them.
        inputs: One tensor or a tuple of them.
        v: Weights of the outputs' sizes; None for a single number.
        create_graph: Whether the results can be differentiated.
        strict: Whether an output that does not depend on an input is an error instead of a zero.

    Returns:
        The outputs, and the product: a tensor or a tuple of them, as `inputs` are.

    Raises:
        AutogradError: With `strict`, an output that does not depend on an input.
        ShapeError: `v` does not have the outputs' sizes.

    >>> import jit
    >>> jit.autograd.functional.vjp(lambda x: x * x, jit.tensor([1.0, 2.0]), jit.tensor([1.0, 10.0]))[1].tolist()
    [2.0, 40.0]
    """
    with enable_grad():
        call = _FunctionalCall(func, inputs, create_graph)
        products = call.gradients(call.weights(v), create_graph, strict)
        _require_dependent(products, "the product with the Jacobian", create_graph and strict)
    return call.result(create_graph), call.like_inputs(products, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The result of `func`, and the product of its Jacobian with a vector of the inputs' sizes; see `vjp`.

    Args:
        func: A function of tensors that returns a tensor or a tuple of them.
        inputs: One tensor or a tuple of them.
        v: Directions of the inputs' sizes; None for an input of a single number.
        create_graph: Whether the results can be differentiated.
        strict: Whether an output that does not depend on an input is an error instead of a zero.

    Returns:
        The outputs, and the product: a tensor or a tuple of them, as the outputs are.

    >>> import jit
    >>> jit.autograd.functional.jvp(lambda x: x.sum() * x, jit.tensor([1.0, 2.0]), jit.tensor([1.0, 0.0]))[1].tolist()
    [4.0, 2.0]
    """
    with enable_grad():
        call = _FunctionalCall(func, inputs, create_graph)
        directions = _weights_for(call.inputs, v, "input")
        weights = [_zeros_like(output).requires_grad_() for output in call.outputs]
        rows = call.gradients(weights, True, strict)
        products = _grad_or_zeros(rows, weights, directions, create_graph)
        _require_dependent(products, "the product with the Jacobian", create_graph and strict)
    return call.result(create_graph), _packed(products, call.single_output, create_graph)


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """All derivatives of all outputs: for each pair a tensor of the output's sizes followed by the input's.

    Args:
        func: A function of tensors that returns a tensor or a tuple of them.
        inputs: One tensor or a tuple of them.
        create_graph: Whether the result can be differentiated.
        strict: Whether an output that does not depend on an input is an error instead of a zero.
        vectorize: Accepted and ignored: rows are computed one after another. It must not be combined with `strict`.
        strategy: "reverse-mode" or, with `vectorize` alone, "forward-mode"; both do the same here.

    Returns:
        A tensor for one output and one input; a tuple for several of either; for both a tuple, by output, of tuples.

    >>> import jit
    >>> jit.autograd.functional.jacobian(lambda x: x * x, jit.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _check_strategy("jacobian", strategy, vectorize, strict)
    with enable_grad():
        call = _FunctionalCall(func, inputs, create_graph)
        rows = [call.jacobian_of(number, create_graph, strict) for number in range(len(call.outputs))]
    for row in rows:
        _require_dependent(row, "the Jacobian", create_graph and strict)
    found = tuple(call.like_inputs(row, create_graph) for row in rows)
    return found[0] if call.single_output else found


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """All second derivatives of a function that returns a single number: the Jacobian of its gradient; see `jacobian`.

    Args:
        func: A function of tensors that returns a tensor of a single number.
        inputs: One tensor or a tuple of them.
        create_graph: Whether the result can be differentiated.
        strict: Whether an output that does not depend on an input is an error instead of a zero.
        vectorize: Accepted and ignored. It must not be combined with `strict`.
        outer_jacobian_strategy: "reverse-mode" or, with `vectorize` alone, "forward-mode"; both do the same here.

    Returns:
        A tensor whose sizes are the input's, twice; for a tuple of inputs a tuple of tuples, a tensor for each pair.

    >>> import jit
    >>> jit.autograd.functional.hessian(lambda x: (x * x * x).sum(), jit.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """

    _check_strategy("hessian", outer_jacobian_strategy, vectorize, strict)

    def gradient(*values: Any) -> Any:
        found = vjp(_number(func), values, create_graph=True, strict=strict)[1]
        return found if isinstance(inputs, (tuple, list)) else found[0]

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The value of a function that returns a single number, and the product of a vector with its Hessian.

    Args:
        func: A function of tensors that returns a tensor of a single number.
        inputs: One tensor or a tuple of them.
        v: Directions of the inputs' sizes; None for an input of a single number.
        create_graph: Whether the results can be differentiated.
        strict: Whether an output that does not depend on an input is an error instead of a zero.

    Returns:
        The value, and the product: a tensor or a tuple of them, as `inputs` are.

    >>> import jit
    >>> value, product = jit.autograd.functional.vhp(lambda x: x.prod(), jit.tensor([2.0, 3.0]), jit.tensor([1.0, 0.0]))
    >>> value.item(), product.tolist()
    (6.0, [0.0, 1.0])
    """
    with enable_grad():
        call = _FunctionalCall(_number(func), inputs, create_graph)
        directions = _weights_for(call.inputs, v, "input")
        first = call.gradients(call.weights(None), True, strict)
        _require_dependent(first, "the Jacobian", strict)
        products = _grad_or_zeros(first, call.inputs, directions, create_graph)
    return call.result(create_graph), call.like_inputs(products, create_graph)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The same as `vhp`: a Hessian is symmetric.

    Args:
        func: A function of tensors that returns a tensor of a single number.
        inputs: One tensor or a tuple of them.
        v: Directions of the inputs' sizes; None for an input of a single number.
        create_graph: Whether the results can be differentiated.
        strict: Whether an output that does not depend on an input is an error instead of a zero.

    Returns:
        The value, and the product: a tensor or a tuple of them, as `inputs` are.
    """
    return vhp(func, inputs, v, create_graph, strict)


class _FunctionalCall:
    """A call of a function on copies of its inputs, by which its outputs can be differentiated."""

    def __init__(self, func: Callable[..., Any], inputs: Any, create_graph: bool) -> None:
        self.single_input = isinstance(inputs, Tensor)
        given = _tensors(inputs, "inputs")
        self.inputs = [_apart(t, create_graph) for t in given]
        returned = func(*self.inputs)
        self.single_output = isinstance(returned, Tensor)
        self.outputs = _tensors(returned, "what the function returns")

    def weights(self, v: Any) -> list[Tensor]:
        return _weights_for(self.outputs, v, "output")

    def gradients(self, weights: Sequence[Any], create_graph: bool, strict: bool) -> list[Tensor]:
        """Gradients of the outputs, with these weights, by the inputs."""
        if strict:
            self._check(self.outputs)
        return _grad_or_zeros(self.outputs, self.inputs, weights, create_graph)

    def jacobian_of(self, number: int, create_graph: bool, strict: bool) -> list[Tensor]:
        """The Jacobian of one output by each input."""
        output = self.outputs[number]
        if strict:
            self._check([output])
        flat = output.reshape(-1)
        rows = [_grad_or_zeros([element], self.inputs, [None], create_graph) for element in flat.unbind(0)]
        if not rows:
            home = output.device
            return [F.zeros((*output.shape, *t.shape), dtype=output.dtype, device=home) for t in self.inputs]
        return [F.stack(list(column)).reshape((*output.shape, *t.shape)) for column, t in zip(zip(*rows), self.inputs)]

    def _check(self, outputs: Sequence[Tensor]) -> None:
        for number, output in enumerate(outputs):
            ones = [_zeros_like(output)]
            found: Sequence[Any] = [None] * len(self.inputs)
            if output.requires_grad:
                found = grad([output], self.inputs, ones, retain_graph=True, allow_unused=True)
            for index, gradient in enumerate(found):
                if gradient is None:
                    raise AutogradError(
                        f"output {number} does not depend on input {index}; leave strict out to get zeros there"
                    )

    def result(self, create_graph: bool) -> Any:
        return _packed(self.outputs, self.single_output, create_graph)

    def like_inputs(self, values: Sequence[Tensor], create_graph: bool) -> Any:
        return _packed(values, self.single_input, create_graph)


def _check_strategy(name: str, strategy: str, vectorize: bool, strict: bool) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise UsageError(f'{name}: pass "reverse-mode" or "forward-mode" as the strategy, not {strategy!r}')
    if vectorize and strict:
        raise UsageError(f"{name}: vectorize and strict cannot be combined; leave vectorize out")
    if strategy == "forward-mode" and not vectorize:
        raise UnwrittenError(f'{name}: "forward-mode" needs vectorize=True; pass that, or leave the strategy out')


def _require_dependent(values: Sequence[Tensor], what: str, strict: bool) -> None:
    """AutogradError if something that is to be differentiated does not depend on its input."""
    for number, value in enumerate(values if strict else ()):
        if not value.requires_grad:
            raise AutogradError(f"{what} does not depend on input {number}; leave strict out to get zeros there")


def _number(func: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        value = func(*values)
        if not isinstance(value, Tensor):
            raise KindError(
                f"a Hessian needs a function that returns a tensor, and this one returned {type(value).__name__}; "
                "return a tensor of one element"
            )
        if value.numel() != 1:
            raise UsageError(
                f"a Hessian needs a function that returns a single number, and this one returned sizes "
                f"{list(value.shape)}; reduce the result, as with .sum()"
            )
        return value

    return call


def _tensors(value: Any, what: str) -> list[Tensor]:
    many = list(value) if isinstance(value, (tuple, list)) else [value]
    if not many or not all(isinstance(t, Tensor) for t in many):
        raise KindError(f"{what}: pass a tensor or a tuple of tensors, not {type(value).__name__}")
    return many


def _apart(tensor: Tensor, create_graph: bool) -> Tensor:
    """A tensor to differentiate by that nothing else depends on; still connected to the original if that is wanted."""
    if create_graph and tensor.requires_grad:
        return tensor.view_as(tensor)
    return tensor.detach().requires_grad_()


def _zeros_like(tensor: Tensor) -> Tensor:
    made: Tensor = F.zeros_like(tensor.detach())
    return made


def _weights_for(tensors: Sequence[Tensor], v: Any, what: str) -> list[Tensor]:
    """The weights in `v`, one for each tensor; 1 for a single number if `v` is None."""
    if v is None:
        if len(tensors) != 1 or tensors[0].numel() != 1:
            raise UsageError(f"v can be left out only for an {what} of one element; pass one of the {what}s' sizes")
        return [F.ones_like(tensors[0].detach())]
    weights = _tensors(v, "v")
    if [tuple(w.shape) for w in weights] != [tuple(t.shape) for t in tensors]:
        sizes = ", ".join(str(list(t.shape)) for t in tensors)
        raise ShapeError(f"v does not have the {what}s' sizes; pass tensors of sizes {sizes}")
    return weights


def _grad_or_zeros(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], weights: Any, create_graph: bool
) -> list[Tensor]:
    pairs = [(o, w) for o, w in zip(outputs, weights, strict=True) if o.requires_grad]
    if not pairs:
        return [_zeros_like(t) for t in inputs]
    roots, given = zip(*pairs, strict=True)
    return list(grad(roots, inputs, given, retain_graph=True, create_graph=create_graph, materialize_grads=True))


def _packed(values: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    found = tuple(values) if create_graph else tuple(t.detach() for t in values)
    return found[0] if single else found


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
