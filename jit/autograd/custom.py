"""`autograd.Function`: operations whose forward and backward the user writes."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jit.eager import context
from jit.eager.composed import Composed
from jit.eager.dispatch import view_of
from jit.eager.namespace import F
from jit.eager.tensors import Tensor, Variable, alias, root_of
from jit.eager.view_paths import Maker, claim, refuse_write
from jit.ir.errors import AutogradError, EscapedTracerError, KindError, UnwrittenError, UsageError
from jit.ops.views import alias as alias_of

from .attaching import rebase
from .nodes import Node, SavedTensor, conform, edge_of, meta_of
from .pushing import directions_of, push


def _nothing() -> None:
    return None


class Context:
    """The notes that `forward` leaves for `backward`."""

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._saved: list[Any] | None = None
        self._node: Callable[[], FunctionNode | None] = _nothing
        """Weakly: the node holds this object."""
        self._dirty: tuple[Any, ...] = ()
        self._constant: tuple[Any, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()
        """Per argument of `forward`: whether its gradient will be used."""
        self.materialize_grads = True
        self._for_jvp: tuple[Any, ...] = ()
        self._is_pushing = False

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (inputs or outputs) for `backward`; their versions are checked then."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for a static `jvp`, which finds them in `saved_tensors`."""
        self._for_jvp = tensors

    @contextmanager
    def pushing(self, plain: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """A block within which `saved_tensors` are those that were kept for `jvp`.

        Args:
            plain: Gives a tensor without its direction.
        """
        self._is_pushing = True
        self._for_jvp = tuple(plain(t) if isinstance(t, Tensor) and t.defined else t for t in self._for_jvp)
        try:
            yield
        finally:
            self._is_pushing = False

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which arguments `forward` wrote to and returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which outputs carry no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether undefined incoming gradients arrive as zeros (the default) or as None."""
        self.materialize_grads = value

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """`saved_tensors` under its older name."""
        warnings.warn("saved_variables is deprecated; use saved_tensors", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that `save_for_backward` kept; in a `jvp`, those that `save_for_forward` kept.

        Raises:
            AutogradError: They were freed by an earlier backward.
        """
        if self._is_pushing:
            return self._for_jvp
        node = self._node()
        if self._saved is None or node is None:
            raise AutogradError("the saved tensors were freed by an earlier backward; pass retain_graph=True there")
        return tuple(s.unpack(node) if isinstance(s, SavedTensor) else s for s in self._saved)


class FunctionNode(Node):
    """The autograd node of a custom function.

    Args:
        function: The class of the function.
        ctx: The context of the call.
        args: The arguments of `apply`.
        outputs: The results, as the caller gets them.
    """

    is_users = True

    def __init__(self, function: type[Function], ctx: Context, args: Sequence[Any], outputs: Sequence[Any]) -> None:
        super().__init__(f"{function.__name__}Backward", [edge_of(a) for a in args], len(outputs))
        self.function = function
        self.ctx = ctx
        self.shapes = [(o._array.shape, o.dtype, o.device) if isinstance(o, Tensor) else None for o in outputs]
        self.metas = [meta_of(a) if isinstance(a, Tensor) and a.defined else None for a in args]
        self.source = context.user_source()

    def __new__(cls, function: type[Function], *rest: Any) -> FunctionNode:
        """Make the node as one of a subclass that is named after the Function."""
        named = _named.get(function)
        if named is None:
            named = _named[function] = type(f"{function.__name__}Backward", (FunctionNode,), {})
        return object.__new__(named)

    def release(self) -> None:
        self.ctx._saved = None

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        trace = context.TRACE.get()
        if trace is None or self not in trace.handles:
            return self._run(gradients, needs)
        if not context.GRAD_ENABLED.get():
            return trace.record_eval(self, gradients, lambda: self._run(gradients, needs))
        if self.is_once:
            results = trace.record_eval(self, gradients, lambda: self._quietly(gradients, needs))
            return [_ended(result, self, gradients) for result in results]
        try:
            return self._run(gradients, needs)
        except EscapedTracerError as error:  # it computes by foreign code; what it returns cannot be differentiated
            trace.forgive(error)
            return trace.record_eval(self, gradients, lambda: self._run(gradients, needs))

    @property
    def is_once(self) -> bool:
        """Whether the backward is declared `once_differentiable`."""
        return hasattr(self.function._derivative(), "once_differentiable")

    def evaluated(self, gradients: Sequence[Tensor | None], needs: Sequence[bool]) -> list[Tensor]:
        """The results of the backward when a recording that has recorded it (as a node of kind Eval) runs again."""
        results = [r for r in self._quietly(gradients, needs) if r is not None]
        return [_ended(r, self, gradients) for r in results] if self.is_once and context.GRAD_ENABLED.get() else results

    def _quietly(self, gradients: Sequence[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        with context.no_grad():
            return self._run(gradients, needs)

    def _run(self, gradients: Sequence[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        filled: list[Any] = list(gradients)
        if self.ctx.materialize_grads:
            filled = [
                F.zeros(of[0], dtype=of[1], device=of[2]) if g is None and of is not None else g
                for g, of in zip(gradients, self.shapes, strict=True)
            ]
        results = self.function._derivative()(self.ctx, *filled)
        results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
        results = _without_trailing_none(results, len(self.edges))
        if len(results) != len(self.edges):
            raise AutogradError(
                f"{self.function.__name__}.backward returned {len(results)} gradients, but forward took "
                f"{len(self.edges)} arguments; return one for each, None where there is none"
            )
        return [
            conform(self, i, r, m) if n and m is not None and r is not None else None
            for i, (r, n, m) in enumerate(zip(results, needs, self.metas, strict=True))
        ]


_named: weakref.WeakKeyDictionary[type[Function], type[FunctionNode]] = weakref.WeakKeyDictionary()
"""The class of the nodes of each Function."""


def _without_trailing_none(results: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    while len(results) > count and results[-1] is None:
        results = results[:-1]
    return results


class Function:
    """Base of custom operations: define static `forward(ctx, ...)` and `backward(ctx, *gradients)`, call `.apply`.

    >>> import jit
    >>> class Square(jit.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = jit.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad.item()
    6.0
    """

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; to be defined by the subclass: without `ctx`, if it defines `setup_context`, too.

        Args:
            ctx: The context, in which to leave what `backward` needs.
            args: The arguments of `apply`.
            kwargs: Nothing: `apply` passes positional arguments alone.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError("this Function has no forward; define a static forward(ctx, ...) in it")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Leave in `ctx` what `backward` needs; an alternative to doing so in `forward`.

        Args:
            ctx: The context.
            inputs: The arguments of `forward`, a tuple.
            output: The result of `forward`.
        """

    @staticmethod
    def jvp(ctx: Any, *directions: Any) -> Any:
        """The derivative of each output along directions of the arguments; without it they are found by `backward`.

        Args:
            ctx: The context that `forward` had.
            directions: The direction of each argument of `forward`; None for what is no tensor.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError("this Function has no jvp; define a static jvp(ctx, ...) in it")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """One gradient per argument of forward; to be defined by the subclass.

        Args:
            ctx: The context that `forward` had.
            gradients: The gradients of the outputs.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError("this Function has no backward; define a static backward(ctx, ...) in it")

    @staticmethod
    def vjp(ctx: Any, *gradients: Any) -> Any:
        """The same as `backward`: a subclass defines one of the two.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError("this Function has no backward; define a static backward(ctx, ...) in it")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: Functions are not made, but applied."""
        name = type(self).__name__
        raise KindError(f"a Function is not called; use {name}.apply(...), and make forward a staticmethod")

    @classmethod
    def _derivative(cls) -> Callable[..., Any]:
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise AutogradError(f"{cls.__name__} defines backward and vjp, which are one thing; leave one of them out")
        return cls.vjp

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and record `backward`."""
        trace = context.TRACE.get()
        if trace is not None:
            if cls.jvp is not Function.jvp:
                directions_of(cls.__name__, args)  # tells the trace
            return trace.record_function(cls, args)
        return cls._run(args, only_tensors=False)[0]

    @classmethod
    def _forward(cls, ctx: Context, args: Sequence[Any]) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        cls.setup_context(ctx, tuple(args), output)
        return output

    @classmethod
    def _run(cls, args: Sequence[Any], only_tensors: bool = True) -> tuple[Any, FunctionNode | None]:
        ctx = Context()
        _refuse_composed(cls, args)
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        tracked = context.GRAD_ENABLED.get() and any(needs)
        ctx.needs_input_grad = needs if tracked else (False,) * len(args)
        directions = None if cls.jvp is Function.jvp else directions_of(cls.__name__, args)
        with context.no_grad():
            result = cls._forward(ctx, args)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if tracked:
            _refuse_composed(cls, outputs)
        for index, output in enumerate(outputs):
            if only_tensors and not isinstance(output, Tensor):
                raise UsageError(
                    f"{cls.__name__}.forward returned {type(output).__name__} as output {index}; in a traced function "
                    "it must return tensors"
                )
        ctx._dirty = _written(cls, ctx._dirty, args, outputs)
        ctx._constant = tuple(i for i, o in enumerate(outputs) if any(o is c for c in ctx._constant))
        outputs = _as_outputs(ctx, args, outputs, tracked)
        node = _attach(cls, ctx, args, outputs) if tracked else None
        _claim_views(cls, ctx, outputs)
        if directions is not None:
            push(cls.__name__, cls.jvp, ctx, args, directions, outputs)
        ctx._to_save = ctx._for_jvp = ctx._dirty = ctx._constant = ()  # holding outputs would make a cycle
        return (type(result)(outputs) if isinstance(result, (tuple, list)) else outputs[0]), node


def _refuse_composed(function: type[Function], values: Sequence[Any]) -> None:
    """AutogradError if one of the arguments or outputs is made of tensors, whose gradients would be lost."""
    if context.GRAD_ENABLED.get() and any(issubclass(type(v), Composed) and v.requires_grad for v in values):
        raise AutogradError(
            f"{function.__name__} passes no gradients to or from sparse tensors; let it take and return their indices "
            "and values"
        )


def _written(
    function: type[Function], dirty: Sequence[Any], args: Sequence[Any], outputs: Sequence[Any]
) -> tuple[Any, ...]:
    """The arguments among what was marked as dirty, which must all have been returned."""
    written = tuple(d for d in dirty if any(d is a for a in args))
    if len(written) < len(dirty):
        warnings.warn(
            f"{function.__name__} marks a tensor as dirty that is none of its arguments; leave out what forward made "
            "itself", stacklevel=4,
        )  # fmt: skip
    if any(all(d is not o for o in outputs) for d in written):
        raise AutogradError(
            f"{function.__name__} has marked an argument as dirty that it did not return{_called()}; return all that "
            "was written to"
        )
    return written


def _as_outputs(ctx: Context, args: Sequence[Any], outputs: Sequence[Any], tracked: bool) -> list[Any]:
    """The outputs, with a view of itself for each argument that was returned unchanged, to carry a history."""
    made = []
    for index, output in enumerate(outputs):
        if isinstance(output, Tensor) and all(output is not d for d in ctx._dirty) and any(output is a for a in args):
            loses = output.requires_grad and (not tracked or index in ctx._constant)
            output = output.detach() if loses else _view_of_itself(output)
        made.append(output)
    return made


def _view_of_itself(tensor: Any) -> Any:
    """Another tensor object that is a view of all of `tensor`, without a history of its own."""
    with context.no_grad():
        return view_of(alias_of, [tensor], tensor._array, 0)


def _claim_views(function: type[Function], ctx: Context, outputs: Sequence[Any]) -> None:
    """Mark the views among the outputs as made by this function."""
    tensors = [o for o in outputs if isinstance(o, Tensor)]
    several = sum(o.requires_grad for o in {id(t): t for t in tensors}.values()) > 1
    for index, output in enumerate(outputs):
        if isinstance(output, Tensor) and output._viewed is not None and all(output is not d for d in ctx._dirty):
            claim(output, Maker(f"{function.__name__}Backward", index, several, context.user_source()))


def _called() -> str:
    source = context.user_source()
    return "" if source is None else f" (called at {source})"


def _check_dirty(function: type[Function], tensor: Tensor) -> None:
    refuse_write(tensor._path)
    root = root_of(tensor)
    if root.is_leaf and root.requires_grad:
        raise AutogradError(
            f"{function.__name__} has written to a leaf that requires grad, or to a view of one; clone it first"
        )


def _attach(function: type[Function], ctx: Context, args: Sequence[Any], outputs: Sequence[Tensor]) -> FunctionNode:
    for tensor in ctx._dirty:
        _check_dirty(function, tensor)
    node = FunctionNode(function, ctx, args, outputs)
    ctx._node = weakref.ref(node)
    for index, output in enumerate(outputs):
        if not isinstance(output, Tensor) or index in ctx._constant:
            continue
        if not (output.dtype.is_floating_point or output.dtype.is_complex):
            continue
        if any(output is d for d in ctx._dirty) and any(output is a for a in args):
            _check_dirty(function, output)
            rebase(output, node, next(i for i, a in enumerate(args) if a is output), index)
        else:
            output._promote()
            output.set_history(node, index)  # type: ignore[attr-defined]
    saved = []
    for tensor in ctx._to_save:
        which = next((i for i, o in enumerate(outputs) if o is tensor), None)
        if not isinstance(tensor, Tensor):
            saved.append(tensor)
            continue
        differentiable = isinstance(tensor, Variable) and which is not None
        saved.append(SavedTensor(tensor, "a saved tensor", which if differentiable else None))
    ctx._saved = saved
    return node


# -- derivatives that end here -----------------------------------------------------------------------------------


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for a `backward` that has no derivative itself: differentiating its results is an error.

    Put it below `@staticmethod`. The backward then runs without recording, so it may compute in place or in numpy.

    >>> import jit
    >>> class Double(jit.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @jit.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         return jit.from_numpy(g.numpy() * 2)
    """

    @functools.wraps(backward)
    def run(ctx: Context, *gradients: Any) -> Any:
        with context.no_grad():
            plain = [g.detach() if isinstance(g, Tensor) else g for g in gradients]
            results = backward(ctx, *plain)
        if not context.GRAD_ENABLED.get():
            return results
        many = isinstance(results, (tuple, list))
        origin = ctx._node()
        assert origin is not None
        fresh = [r.detach() if isinstance(r, Tensor) else r for r in (results if many else [results])]
        ended = [_ended(r, origin, gradients) for r in fresh]
        return tuple(ended) if many else ended[0]

    run.once_differentiable = True  # type: ignore[attr-defined]
    return run


class DifferentiatedTwice(Node):
    """The history of what a `once_differentiable` backward returned."""

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """Refused: this node is there to say what cannot be differentiated.

        Raises:
            AutogradError: Always.
        """
        raise AutogradError(
            f"{self.name} (called at {self.source}) is once_differentiable, so its gradients cannot be differentiated "
            "again; write its backward in tensor operations, without that decorator"
        )


def _ended(result: Any, origin: Node, gradients: Sequence[Any]) -> Any:
    if not isinstance(result, Tensor):
        return result
    ended = alias(result, Variable)
    node = DifferentiatedTwice(origin.name, [*origin.edges, *map(edge_of, gradients)])
    node.source = origin.source
    ended.set_history(node)  # type: ignore[attr-defined]
    return ended
