"""`jit.export_onnx`: traces a function or module and writes it as an ONNX model that has been checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from jit.export import Exported, ExportReport, export_graph, verify_model
from jit.export.writer import check_target
from jit.ir import Graph, TensorType, Value
from jit.ir.errors import ExportError, UsageError
from jit.passes import EXPORT, run
from jit.runtime.interpreter import Interpreter

from . import context
from .creation import asarray
from .generators import default_generator
from .pytree import flatten
from .tensors import Tensor, tensor_of
from .tracing.function import TracedFunction
from .tracing.hosting import PythonHost
from .tracing.recording import Recording
from .tracing.surroundings import Surroundings

DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int]]


def export_onnx(
    fn_or_module: Any, args: Any, path: str | os.PathLike[str] | None = None, *,
    kwargs: Mapping[str, Any] | None = None, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None, dynamic_axes: DynamicAxes | None = None,
    opset_version: int | None = None, stage: int = 0, training: bool = False, verify: bool = True,
    keep_initializers_as_inputs: bool = False, external_data: str = "auto",
) -> ExportReport:  # fmt: skip
    """Export a function or module as an ONNX model.

    Args:
        fn_or_module: A function of tensors, a traced function, or a Module.
        args: The arguments to trace with: a tensor or a tuple; numpy arrays are taken as tensors.
        path: Where to write the model; None only checks that it can be written.
        kwargs: Keyword arguments to trace with.
        input_names: Names of the model's inputs; by default those of the arguments.
        output_names: Names of the outputs.
        dynamic_axes: Sizes that may differ from run to run: `{"x": {0: "batch"}}`, or `{"x": [0]}`.
        opset_version: ONNX operator set, 9 to 26; None means 20.
        stage: 0 exports the function, 1 its gradients (with respect to the arguments that require grad, then the
            parameters), weighted by gradients of the outputs, which become inputs.
        training: Export modules as they train; otherwise they are put in evaluation mode for the export.
        verify: Run the model with onnxruntime on `args`, and on a second size of every dynamic axis, and compare.
        keep_initializers_as_inputs: Let runs override parameters.
        external_data: "auto" (a file beside the model above 1.5 GB), "always" or "never".

    Returns:
        A report of what was written; printing it is readable.

    Raises:
        ExportError: What ONNX cannot express, all of it, with the user's lines.
        VerificationError: The model computes something else; the first node that differs is named. No file is left.
        UsageError: Arguments that make no sense.

    >>> import jit
    >>> print(jit.export_onnx(lambda x: jit.tanh(x) * 2, jit.ones(2, 3), dynamic_axes={"x": {0: "batch"}}).outputs)
    {'output': 'float32 (batch, 3)'}
    """
    if path is not None:
        check_target(path)
    function, owner = _unwrapped(fn_or_module)
    arguments = _as_arguments(args)
    options = dict(kwargs or {})
    surroundings = Surroundings(function, owner)
    with _evaluation(surroundings, training), _same_randomness():
        recording = _recorded(function, owner, arguments, options, stage)
        graph = recording.graph().clone()
        if stage == 0:  # what aliases need to be made anew, and gradients that are left behind, are no results
            graph.set_return(graph.outputs[: recording.count], graph.stages[0].updates, 0)
        with _unknown_sizes(graph if dynamic_axes else None):
            run(graph, EXPORT)
        exported = _exported(
            recording, graph, opset_version=opset_version, stage=stage, input_names=input_names,
            output_names=output_names, dynamic_axes=dynamic_axes,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
        )  # fmt: skip
        if verify:
            _verify(exported, function, arguments, options, recording, graph, stage, dynamic_axes or {})
    if path is not None:
        exported.save(path, external_data)
    return exported.report


# -- recording ---------------------------------------------------------------------------------------------------


def _unwrapped(target: Any) -> tuple[Callable[..., Any], Any]:
    from .nn import Module

    if isinstance(target, TracedFunction):
        return target._function, target._owner
    if isinstance(target, Module):
        return target, target
    if not callable(target):
        raise UsageError(f"export_onnx takes a function or a Module, not {type(target).__name__}")
    return target, None


def _as_arguments(args: Any) -> tuple[Any, ...]:
    many = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    return tuple(asarray(a) if isinstance(a, np.ndarray) else a for a in many)


@contextmanager
def _evaluation(surroundings: Surroundings, training: bool) -> Iterator[None]:
    """Modules in reach are in evaluation mode within this block, and as they were after it."""
    modules = [] if training else surroundings.modules()
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


@contextmanager
def _unknown_sizes(graph: Graph | None) -> Iterator[None]:
    """Within this block no size of an argument is known, so that no pass takes a dynamic one for a constant."""
    inputs = [] if graph is None else [value for stage in graph.stages for value in stage.inputs]
    before = [(value, value.type) for value in inputs if isinstance(value.type, TensorType)]
    for value, type in before:
        value.type = replace(type, shape=None if type.shape is None else (None,) * len(type.shape))
    try:
        yield
    finally:
        for value, type in before:
            value.type = type


@contextmanager
def _same_randomness() -> Iterator[None]:
    """What is drawn within this block is not missed after it."""
    generator = default_generator()
    state = generator.state
    try:
        yield
    finally:
        generator.state = state


def _recorded(function: Any, owner: Any, arguments: tuple[Any, ...], options: dict[str, Any], stage: int) -> Recording:
    traced = TracedFunction(function, owner, optimize=False)
    traced.keep_examples, traced.open_sizes = True, stage == 0
    with context.tracing(None), context.set_grad_enabled(stage > 0):
        result = traced(*arguments, **options)
        recording = traced._last
        if recording is None:
            raise ExportError("the function could not be traced")
        if stage > 0:
            _differentiate(recording, result, traced.tensors_of(*arguments, **options), stage)
    return recording


def _differentiate(recording: Recording, result: Any, arguments: Sequence[Tensor], stage: int) -> None:
    """Have the backwards recorded that the exported stage needs."""
    from .autograd import grad
    from .functions import F

    owners = recording.inputs(arguments)
    wanted = [o for o in owners if isinstance(o, Tensor) and o.requires_grad]
    outputs = [t for t in flatten(result)[0] if isinstance(t, Tensor) and t.requires_grad]
    if not wanted or not outputs:
        raise UsageError(
            f"stage {stage} is a derivative, but no argument or parameter requires grad; call requires_grad_() on one"
        )
    for level in range(stage):
        weights = [F.ones_like(o).requires_grad_() for o in outputs]
        found = grad(outputs, wanted, weights, create_graph=level + 1 < stage, allow_unused=True)
        outputs = [g for g in found if g is not None and g.requires_grad]


# -- writing -----------------------------------------------------------------------------------------------------


def _exported(recording: Recording, graph: Graph, **options: Any) -> Exported:
    initializers = {}
    for capture in recording.trace.captures:
        if isinstance(capture.owner, Tensor):
            initializers[capture.value.name] = capture.owner._array
    present = {value.name for stage in graph.stages for value in stage.inputs}
    return export_graph(graph, None, initializers={k: v for k, v in initializers.items() if k in present}, **options)


# -- verifying ---------------------------------------------------------------------------------------------------


def _verify(
    exported: Exported, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], recording: Recording,
    graph: Graph, stage: int, axes: DynamicAxes,
) -> None:  # fmt: skip
    if exported.report.is_random:
        exported.report.warnings.append("the model draws random numbers, so its outputs were not compared")
        return
    names = list(exported.report.inputs)
    if stage > 0:
        feeds, expected = _stage_run(recording, graph, stage, names)
    else:
        feeds, expected = [], []
        for sized in _sizes(arguments, options, names, axes):
            with context.no_grad():
                before = [t._array.copy() for t in flatten(sized)[0]]
                result = function(*sized[0], **sized[1])
            feeds.append(dict(zip(names, before, strict=True)))
            expected.append(_outputs(result))
        if recording.trace.left_open:
            for other, results in _of_other_data(function, arguments, options):
                feeds.append(dict(zip(names, other, strict=True)))
                expected.append(results)
    found = verify_model(
        exported, feeds, expected, intermediates=lambda index: _intermediates(exported, recording, graph, index)
    )
    exported.report.verified = found.for_report()


def _outputs(result: Any) -> list[Any]:
    return [leaf._array if isinstance(leaf, Tensor) else np.asarray(leaf) for leaf in flatten(result)[0]]


def _sizes(
    arguments: tuple[Any, ...], options: dict[str, Any], names: Sequence[str], axes: DynamicAxes
) -> Iterator[Any]:
    """The recorded arguments, and others with every dynamic axis one longer."""
    yield (_copied(arguments), _copied(options))
    if axes:
        leaves = iter(
            _grown(name, leaf, axes) for name, leaf in zip(names, flatten((arguments, options))[0], strict=True)
        )
        yield _mapped((arguments, options), lambda _: next(leaves))


def _of_other_data(
    function: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs with other elements, and what becomes of them: sizes that depend on elements are others there."""
    for pick in (lambda i: i // 2, lambda i: -1 - i // 2, lambda i: i * 0):
        others = _mapped((arguments, options), partial(_picked, pick))
        arrays = [t._array.copy() for t in flatten(others)[0]]
        try:
            with context.no_grad():
                result = function(*others[0], **others[1])
        except Exception:  # not every selection makes sense to every function
            continue
        yield arrays, _outputs(result)


def _picked(pick: Callable[[Any], Any], tensor: Tensor) -> Tensor:
    """A tensor of the same sizes, of elements that `pick` chooses by their places."""
    array = tensor._array
    places = pick(np.arange(array.size))
    return tensor_of(np.take(array.ravel(), places, mode="wrap").reshape(array.shape) if array.size else array.copy())


def _copied(value: Any) -> Any:
    return _mapped(value, lambda t: tensor_of(t._array.copy()))


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    from .pytree import unflatten

    leaves, structure = flatten(value)
    return unflatten(structure, [function(leaf) for leaf in leaves])


def _grown(name: str, tensor: Tensor, axes: DynamicAxes) -> Tensor:
    """Another tensor of the same kind with its dynamic dims longer, its elements drawn from the old ones."""
    array = tensor._array
    dims = [d % array.ndim for d in (axes.get(name) or ())]
    for dim in dims:
        index = np.arange(array.shape[dim] + 1) % max(array.shape[dim], 1)
        array = np.take(array, index[::-1], axis=dim)
    return tensor_of(np.ascontiguousarray(array) if dims else array.copy())


def _stage_run(recording: Recording, graph: Graph, stage: int, names: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of a later stage, by the interpreter: ones for the incoming gradients."""
    kept = {c.value.name: c.owner for c in recording.trace.captures}
    live = recording.trace.graph.stages
    engine, state, feed = Interpreter(graph, PythonHost()), None, {}
    outputs: list[Any] = []
    arguments = iter(recording.examples)
    for number in range(stage + 1):
        values = []
        for value, original in zip(graph.stages[number].inputs, live[number].inputs, strict=True):
            owner = kept.get(original.name)
            array = owner._array if isinstance(owner, Tensor) else owner.state if owner is not None else None
            if array is None:
                array = next(arguments) if number == 0 else np.ones(value.type.sizes, value.type.dtype.numpy)  # type: ignore[attr-defined]
                feed[value.name] = array
            values.append(array)
        outputs, _, state = engine.run(number, values, state)
    return [dict(zip(names, feed.values(), strict=True))], [[o for o in outputs if o is not None]]


def _intermediates(exported: Exported, recording: Recording, graph: Graph, index: int) -> dict[str, Any]:
    """What the values inside the model should be for the recorded arguments (nothing for other sizes)."""
    if index or len(graph.stages) > 1:
        return {}
    mapping: dict[Value, Value] = {}
    watched = graph.clone(mapping)
    inside = {value: name for value, name in exported.names.items() if value in mapping and not value.is_input}
    watched.set_return([mapping[value] for value in inside], (), 0)
    captured = [c.owner._array if isinstance(c.owner, Tensor) else c.owner.state for c in recording.trace.captures]
    outputs, _, _ = Interpreter(watched, PythonHost()).run(0, [*recording.examples, *captured])
    return dict(zip(inside.values(), outputs, strict=True))


__all__ = ["ExportReport", "export_onnx"]
