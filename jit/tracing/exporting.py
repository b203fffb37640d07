"""`jit.export_onnx`: traces a function or module and writes it as an ONNX model that has been checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from jit.autograd import grad
from jit.eager import context
from jit.eager.creation import asarray
from jit.eager.namespace import F
from jit.eager.networks import Network
from jit.eager.pytree import flatten, unflatten
from jit.eager.tensors import Tensor, tensor_of
from jit.export import Exported, ExportReport, export_graph, verify_model
from jit.export.axes import DynamicAxes
from jit.export.verification import coarsened, with_tolerance
from jit.export.writer import check_target
from jit.ir import Graph, Value
from jit.ir.collector import collector_resting
from jit.ir.errors import AutogradError, Error, ExportError, UsageError
from jit.passes import EXPORT, apply
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.arrays.libraries import HOST, library_of, library_on

from .comparing import shaken
from .exported_graphs import exported_graph
from .exported_programs import ProgramToExport, program_of
from .exported_results import arrays_of, names_of_results
from .exported_runs import Wishes, dtypes_in, of_sizes, run_stages, unknown_sizes
from .function import TracedFunction
from .recordings.hosting import PythonHost
from .recordings.recording import Recording
from .surroundings.properties import kind_of
from .surroundings.sharing import sharing_of
from .surroundings.snapshots import preserved
from .surroundings.surroundings import Surroundings, attributes_of


def export_onnx(
    fn_or_module: Any, args: Any, path: str | os.PathLike[str] | None = None, *,
    kwargs: Mapping[str, Any] | None = None, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None, dynamic_axes: DynamicAxes | None = None,
    opset_version: int | None = None, stage: int = 0, training: bool = False, verify: bool = True,
    keep_initializers_as_inputs: bool = False, updates_as_outputs: bool = False, fold: bool = True,
    fallthrough: bool = False, functions: bool | Sequence[Any] = False, external_data: str = "auto",
    metadata: Mapping[str, str] | None = None, rtol: float | None = None, atol: float | None = None,
    verify_inputs: Sequence[Any] = (), branches: Sequence[Any] = (),
) -> ExportReport:  # fmt: skip
    """Export a function or module as an ONNX model.

    Args:
        fn_or_module: A function of tensors, a traced function, one that `jit.load` has loaded, a Module, or a Graph,
            of which every input is an input of the model.
        args: The arguments to trace with: a tensor or a tuple; numpy arrays are taken as tensors.
        path: Where to write the model; None only checks that it can be written.
        kwargs: Keyword arguments to trace with.
        input_names: Names of the model's inputs; by default those of the arguments.
        output_names: Names of the outputs; by default the keys and fields under which they are returned, `x.grad` for
            the gradient of `x`, and `output` or `output_0` and so on.
        dynamic_axes: Sizes that may differ from run to run: `{"x": {0: "batch"}}`, or `{"x": [0]}`, or
            `{"x": {0: ("batch", 1, 64)}}` with the least and the greatest size: the model is right for all of these,
            or it is an error that says why not. Without a range, the report says what operators ask of a size.
        opset_version: ONNX operator set, 9 to 26; None means 20.
        stage: 0 exports the function, 1 its gradients (with respect to the arguments that require grad, then the
            parameters), weighted by gradients of the outputs, which become inputs: `grad`, or `grad_0` and so on. Their
            sizes are those of the outputs, so name the dynamic ones of them, too.
        training: Export modules as they train; otherwise they are put in evaluation mode for the export.
        verify: Run the model with onnxruntime on `args`, and on a second size of every dynamic axis, and compare.
        keep_initializers_as_inputs: Let runs override parameters.
        updates_as_outputs: Export what the function writes to, such as the parameters and the optimizer's state in a
            training step: `w.new` is the output for the new value of `w`, and `w` an input that holds the present one
            if it is left out. The state itself stays as it is.
        fold: Compute now what depends on weights alone, and make batch norms and factors part of the weights before.
        fallthrough: Write operators that ONNX does not know as ones of a domain of their own, `aten::roll`, and list
            them in the report; such a model is not verified.
        functions: True makes functions of the model of all modules, a list of classes of modules of those. Modules that
            do the same share one, and inner modules are functions that outer ones call.
        external_data: "auto" (a file beside the model above 1.5 GB), "always" or "never".
        metadata: Texts by their keys, kept with the model.
        rtol: The error that is allowed in an element, relative to it; None for what is usual for its dtype.
        atol: The error that is allowed in any element; None for what is usual in a tensor of its largest element.
        verify_inputs: What else to verify with: further arguments as in `args`, or sizes, such as `{"batch": 7}`.
        branches: Further arguments as in `args`, for which the function goes other ways: where Python decides on
            elements, the model has an `If`, and both ways of each decision have to be shown. Of whole numbers that are
            taken out of tensors, those that were shown are branches, and a run with another one is an error.

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
    with_tolerance({}, rtol, atol)  # refuses what is no tolerance
    wishes = Wishes(rtol, atol, verify_inputs)
    if isinstance(fn_or_module, Graph):
        exported = exported_graph(
            fn_or_module, _as_arguments(args), kwargs or {}, stage, wishes if verify else None,
            opset_version=opset_version, input_names=input_names, output_names=output_names,
            dynamic_axes=dynamic_axes, fold=fold, metadata=metadata,
        )  # fmt: skip
        return _saved(exported, path, external_data)
    function, owner = unwrapped(fn_or_module)
    if updates_as_outputs and stage > 0:
        raise UsageError(f"stage {stage} is a derivative, which updates nothing; leave updates_as_outputs or stage out")
    calls = _calls(function, owner, args, kwargs, branches)
    if branches and stage > 0:
        raise UsageError(f"stage {stage} of several branches is not known; export a function that calls jit.grad")
    if updates_as_outputs and context.GRAD_ENABLED.get():
        calls = _with_gradients(calls)
    with _evaluation(Surroundings(function, owner), training):
        calls, recordings = _all_recorded(calls, stage)
        for recording in recordings:
            _check(recording, bool(dynamic_axes), updates_as_outputs)
        program = _program(recordings, stage, bool(dynamic_axes))
        exported = _exported(
            program, opset_version=opset_version, stage=stage, input_names=input_names,
            output_names=output_names, dynamic_axes=dynamic_axes,
            keep_initializers_as_inputs=keep_initializers_as_inputs, updates_as_outputs=updates_as_outputs, fold=fold,
            fallthrough=fallthrough, functions=_scopes(function, owner, functions), metadata=metadata,
        )  # fmt: skip
        exported.report.warnings += () if updates_as_outputs else program.forgotten()
        if verify:
            _verify(exported, calls, program, stage, wishes)
    return _saved(exported, path, external_data)


@collector_resting()
def _saved(exported: Exported, path: str | os.PathLike[str] | None, external_data: str) -> ExportReport:
    if path is not None:
        exported.save(path, external_data)
    return exported.report


# -- recording ---------------------------------------------------------------------------------------------------


def unwrapped(target: Any) -> tuple[Callable[..., Any], Any]:
    if isinstance(target, TracedFunction):
        return (target._function, target._owner) if target.has_code else (target, None)
    if isinstance(target, Network):
        return target, target
    if not callable(target):
        raise UsageError(f"export_onnx takes a function or a Module, not {type(target).__name__}")
    return target, None


class _ExportCall(NamedTuple):
    """An export: a function and the arguments of its call."""

    function: Any
    owner: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    repeated: frozenset[int]
    """The tensors that were given more than once, and are separate inputs of the model."""
    gradients: bool = False
    """Whether gradients are recorded when it is called: not where the function does without."""

    @property
    def is_recorded(self) -> bool:
        """Whether it has been recorded before, and there is no Python function to call."""
        return isinstance(self.function, TracedFunction) and not self.function.has_code

    @property
    def was_recorded_with_gradients(self) -> bool:
        """Whether the only recording that there is for the arguments was made while gradients were recorded."""
        if not self.is_recorded:
            return False
        with context.set_grad_enabled(False):
            return not self.function.has_trace_for(*self.arguments, **self.options)

    def preserved(self) -> AbstractContextManager[None]:
        """Whatever runs within this block leaves no traces."""
        return preserved(self.function, self.owner, self.arguments, self.options)


def _calls(function: Any, owner: Any, args: Any, kwargs: Mapping[str, Any] | None, branches: Any) -> list[_ExportCall]:
    """The calls that are recorded: the one that the user shows, and those that take other branches."""
    given = [(_as_arguments(each), dict(kwargs or {})) for each in (args, *branches)]
    for number, each in enumerate(given[1:]):
        if _kinds(each) != _kinds(given[0]):
            raise UsageError(
                f"branches[{number}] differs from args in more than the elements of tensors; pass arguments of the "
                "same structure, sizes and dtypes, and the same values of all that is no tensor"
            )
    calls = [_ExportCall(function, owner, *_separate(*each)) for each in given]
    return _with_gradients(calls) if calls[0].was_recorded_with_gradients else calls


def _kinds(arguments: Any) -> Any:
    """All that is the same in the calls that one model answers."""
    leaves, structure = flatten(arguments)
    return structure, [kind_of(leaf) for leaf in leaves], sharing_of(leaves)


def _with_gradients(calls: Sequence[_ExportCall]) -> list[_ExportCall]:
    return [call._replace(gradients=True) for call in calls]


def _as_arguments(args: Any) -> tuple[Any, ...]:
    many = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    return tuple(asarray(a) if isinstance(a, np.ndarray) else a for a in many)


def _separate(arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The arguments with a copy in each place where a tensor is given once more, and which these places are."""
    leaves, structure = flatten((arguments, options))
    same = [(first, again) for again, first, _, is_same in sharing_of(leaves) if is_same]
    if not same:
        return arguments, options, frozenset()
    for _, again in same:
        leaves[again] = _like(leaves[again], leaves[again]._array.copy())
    return *unflatten(structure, leaves), frozenset(index for pair in same for index in pair)


def _like(tensor: Tensor, array: Any) -> Tensor:
    """A tensor of its own with other elements, where the other one lies."""
    library = library_of(tensor._array)
    with library.current():
        made = tensor_of(library.taken(array))
    vars(made).update(attributes_of(tensor))
    return made.requires_grad_() if tensor.requires_grad else made


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


def _all_recorded(calls: list[_ExportCall], stage: int) -> tuple[list[_ExportCall], list[Recording]]:
    """The calls, made while gradients are recorded if the function differentiates inside, and their recordings."""
    try:
        return calls, [_recorded(call, stage) for call in calls]
    except AutogradError:
        if stage > 0 or calls[0].gradients:
            raise
        calls = _with_gradients(calls)
        return calls, [_recorded(call, stage) for call in calls]


def _recorded(call: _ExportCall, stage: int) -> Recording:
    """The recording of the function from its present state, which is there again afterwards."""
    traced = call.function
    if not call.is_recorded:
        traced = TracedFunction(call.function, call.owner, optimize=False)
        traced.keep_examples, traced.open_sizes = True, stage == 0
    with call.preserved(), context.tracing(None), context.set_grad_enabled(stage > 0 or call.gradients), _exporting():
        result = traced(*call.arguments, **call.options)
        recording = traced._last
        if recording is None:
            raise ExportError("the function could not be traced")
        _check_writes(recording, call.repeated)
        owners = traced.owners_of(call.arguments, call.options, as_recorded=not call.is_recorded)
        if stage > 0:
            _differentiate(owners, result, stage)
    return recording.bound(owners) if call.is_recorded else recording


@contextmanager
def _exporting() -> Iterator[None]:
    """Within this block, what is recorded becomes a model."""
    token = context.EXPORTING.set(True)
    try:
        yield
    finally:
        context.EXPORTING.reset(token)


def _check(recording: Recording, varies: bool, updates_as_outputs: bool) -> None:
    """ExportError if a recording does what a model does not."""
    _refuse_caught(recording, varies)
    if updates_as_outputs:
        _refuse_changes(recording)
    if recording.effects.moves:
        raise ExportError(
            "the function makes another view of its argument in place, as t_() and unsqueeze_() do, and a model "
            "leaves its inputs alone; use the method without the underscore"
        )


def _refuse_caught(recording: Recording, varies: bool) -> None:
    """ExportError if the function has caught an error, and no node of the graph says when it comes."""
    where = recording.trace.impurity.caught or (recording.trace.impurity.one_size if varies else None)
    if where is not None:
        raise ExportError(
            f"at {where}: the function catches an error of a check in Python, and the model would go the traced way "
            "for all inputs; check the operands beforehand"
        )


def _refuse_changes(recording: Recording) -> None:
    """ExportError if the function changes what is no tensor: the next call would be another one than the model."""
    impurity = recording.trace.impurity
    changed = [deed for deed in (impurity.reason or "", *impurity.deeds) if deed.startswith("changed ")]
    if changed:
        raise ExportError(
            f"the call {changed[0]}, which a model does not; let the first call, which makes an optimizer's state, run "
            "before the export, and keep other changes out of the function"
        )


def _check_writes(recording: Recording, repeated: Collection[int]) -> None:
    """ExportError if the function writes to a tensor that it was given more than once."""
    for target in recording.effects.targets:
        if target < len(recording.positions) and recording.positions[target] in repeated:
            name = recording.trace.graph.inputs[target].name
            raise ExportError(
                f"the function writes to {name!r}, which was given for another argument, too, and the inputs of a "
                "model are separate; give each its own tensor"
            )


def _differentiate(owners: Sequence[Any], result: Any, stage: int) -> None:
    """Have the backwards recorded that the exported stage needs, by what stands behind the inputs."""
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


def _program(recordings: Sequence[Recording], stage: int, varies: bool) -> ProgramToExport:
    """The recorded paths as one graph, simplified, with the results of the function alone."""
    with collector_resting():
        program = program_of(recordings, stage, varies)
        with unknown_sizes(program.graph if varies else None):
            apply(program.graph, EXPORT)
    return program


# -- writing -----------------------------------------------------------------------------------------------------


@collector_resting()
def _exported(program: ProgramToExport, **options: Any) -> Exported:
    graph, known = program.graph, program.initializers()
    hints = _names_of_gradients(graph, known, options) if options["stage"] == 1 else []
    hints = names_of_results(program.structure) if options["stage"] == 0 else hints
    return export_graph(graph, None, initializers=known, output_hints=hints, **options)


def _names_of_gradients(graph: Graph, initializers: Mapping[str, Any], options: Mapping[str, Any]) -> list[str | None]:
    """`x.grad` for each result of stage 1, by the name that the input has in the model."""
    inputs = [value.name for value in graph.stages[0].inputs]
    given = dict(zip([n for n in inputs if n not in initializers], options["input_names"] or (), strict=False))
    names: list[str | None] = [f"{given.get(name, name)}.grad" for name in inputs]
    return names if len(names) == len(graph.stages[1].outputs) else []


def _scopes(function: Any, owner: Any, functions: bool | Sequence[Any]) -> dict[str, str]:
    """The scopes of the modules in reach that become functions, with the names of their classes.

    Of all modules the exported one is none: it is the model.
    """
    found: dict[str, str] = {}
    if functions is False:
        return found
    for root in Surroundings(function, owner).modules():
        for path, module in root.named_modules(remove_duplicate=False):
            wanted = module is not owner if functions is True else isinstance(module, tuple(functions))
            if wanted:
                scope = "/".join([type(root).__name__, *(path.split(".") if path else [])])
                found[scope] = type(module).__name__
    return found


# -- verifying ---------------------------------------------------------------------------------------------------


class _Case(NamedTuple):
    """Something to verify a model with."""

    given: Any
    """Positional and keyword arguments; None for the recorded ones."""
    sizes: Sequence[Mapping[int, int]] | None = None
    """The sizes, by dim, that are other than those of the arguments, for each input of the model."""
    call: int | None = None
    """The number of the recorded call of which it is one; None of what the user wants."""

    @property
    def is_chosen(self) -> bool:
        """Whether its sizes were chosen here, and others would do as well."""
        return self.call is not None and self.sizes is not None


def _verify(
    exported: Exported, calls: Sequence[_ExportCall], program: ProgramToExport, stage: int, wishes: Wishes
) -> None:
    if exported.fell:
        exported.report.warnings.append("runtimes do not know all of its operators, so the outputs were not compared")
        return
    if exported.report.is_random:
        exported.report.warnings.append("the model draws random numbers, so its outputs were not compared")
        return
    call = calls[0]
    names = [name for name in exported.report.inputs if name not in exported.model.graph.initializers]
    watch = partial(_written, exported, program, names)
    is_recorded = stage > 0 or call.is_recorded

    def run_of(case: _Case) -> tuple[list[Any], list[Any]]:
        if stage > 0 or (is_recorded and (case.sizes is not None or case.call is None)):
            return _stage_run(program, stage, case.sizes, _examples(program, case))
        return _run(call, _arguments(call, case), watch)

    cases, runs = _answered(_cases(exported, calls, names, wishes), run_of, program)
    if exported.sized.axes and not any(case.is_chosen for case in cases):
        exported.report.warnings.append("no other sizes near those of the arguments were found to verify with")
    if not is_recorded and any(recording.trace.scalars.left_open for recording in program.recordings):
        runs += _of_other_data(call, watch)

    def noisy(index: int) -> list[Any]:
        if stage > 0 or call.is_recorded:
            examples = _examples(program, cases[index])
            return _stage_run(program, stage, cases[index].sizes, examples, shaken)[1]
        leaves, structure = flatten((call.arguments, call.options))
        arrays = zip(leaves, runs[index][0], strict=True)
        try:
            return _run(call, unflatten(structure, [_like(leaf, shaken(array)) for leaf, array in arrays]), watch)[1]
        except Exception:  # the function does not take them, so there is nothing to be learned
            return runs[index][1]

    found = verify_model(
        exported,
        [dict(zip(names, given, strict=True)) for given, _ in runs],
        [results for _, results in runs],
        tolerances=with_tolerance(coarsened(dtypes_in(program.graph)), wishes.rtol, wishes.atol),
        intermediates=lambda index: _intermediates(exported, program, index),
        noisy=noisy,
        amplified=len(exported.updated),
    )
    exported.report.verified = found.for_report()


def _run(call: _ExportCall, given: Any, watch: Callable[[list[Any]], list[Any]]) -> tuple[list[Any], list[Any]]:
    """The arrays of some arguments, and what the function makes of them, which changes nothing else.

    Args:
        call: The call.
        given: Other arguments.
        watch: Tells of the leaves of the arguments which tensors are looked at afterwards.
    """
    tensors = flatten(given)[0]
    before = [HOST.taken(tensor._array.copy()) for tensor in tensors]
    with call.preserved(), context.set_grad_enabled(call.gradients):
        outputs = arrays_of(call.function(*given[0], **given[1]))
        return before, outputs + arrays_of(watch(tensors))


def _written(exported: Exported, program: ProgramToExport, names: Sequence[str], given: Sequence[Any]) -> list[Any]:
    """The tensors whose new values are outputs of the model: captured ones, or among those that are given."""
    return [{**program.captured, **dict(zip(names, given, strict=False))}[name] for name in exported.updated]


def _copied(call: _ExportCall) -> Any:
    """The recorded arguments, of which nothing else knows."""
    return _mapped((call.arguments, call.options), lambda t: _like(t, t._array.copy()))


def _cases(exported: Exported, calls: Sequence[_ExportCall], names: Sequence[str], wishes: Wishes) -> Iterator[_Case]:
    """The recorded arguments; other sizes of every dynamic axis that the model is right for; what the user wants."""
    yield from (_Case(_copied(call), None, number) for number, call in enumerate(calls))
    others = [_by_input(exported, names, sizes) for sizes in islice(exported.sized.other_sizes(), MOST_TRIED)]
    for number, call in enumerate(calls):
        yield from (_Case(_copied(call), sizes, number) for sizes in others)
    for item in wishes.inputs:
        if isinstance(item, Mapping):
            yield _Case(None, _by_input(exported, names, exported.sized.checked_sizes(item)))
        else:
            yield _Case((_as_arguments(item), calls[0].options))


MOST_TRIED = 8
"""The number of sizes among which one is looked for that the function takes."""


def _answered(
    cases: Iterator[_Case], run_of: Callable[[_Case], Any], program: ProgramToExport
) -> tuple[list[_Case], list[tuple[list[Any], list[Any]]]]:
    """The cases, each with its inputs and outputs; of the sizes that were chosen here, the first that a call takes."""
    found: list[tuple[_Case, Any]] = []
    done: set[int | None] = set()
    for case in cases:
        if case.is_chosen and case.call in done:
            continue
        try:
            run = run_of(case)
        except Error:  # tables of places end somewhere
            if not case.is_chosen:
                raise
            continue
        if not case.is_chosen or len(program.recordings) == 1 or _is_answered(program, case):
            found.append((case, run))
            done.update([case.call] if case.is_chosen else ())
    return [case for case, _ in found], [run for _, run in found]


def _is_answered(program: ProgramToExport, case: _Case) -> bool:
    """Whether a program of several paths has one for a case: elements of other sizes may be other numbers."""
    try:
        _stage_run(program, 0, case.sizes, _examples(program, case))
    except Error:
        return False
    return True


def _by_input(exported: Exported, names: Sequence[str], sizes: Mapping[str, int]) -> list[dict[int, int]]:
    """The sizes of each input's dynamic axes, by dim."""
    return [{dim: sizes[axis] for dim, axis in exported.axes[name].items()} for name in names]


def _arguments(call: _ExportCall, case: _Case) -> Any:
    """The arguments of a case."""
    if case.sizes is None:
        return case.given
    leaves, structure = flatten(_copied(call) if case.given is None else case.given)
    return unflatten(structure, list(map(_resized, leaves, case.sizes)))


def _examples(program: ProgramToExport, case: _Case) -> Sequence[Any]:
    """The arrays of a case that a recording takes for its arguments, in their own sizes."""
    first = program.recordings[0]
    if case.given is None:
        return first.examples
    tensors = [leaf for leaf in flatten(case.given)[0] if isinstance(leaf, Tensor)]
    return [tensors[i]._array for i in first.positions]


def _of_other_data(call: _ExportCall, watch: Callable[[list[Any]], list[Any]]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs with other elements, and what becomes of them: sizes that depend on elements are others there."""
    for pick in (lambda i: i // 2, lambda i: -1 - i // 2, lambda i: i * 0):
        try:
            yield _run(call, _mapped((call.arguments, call.options), partial(_picked, pick)), watch)
        except Exception:  # not every selection makes sense to every function
            continue


def _picked(pick: Callable[[Any], Any], tensor: Tensor) -> Tensor:
    """A tensor of the same sizes, of elements that `pick` chooses by their places."""
    array = HOST.taken(tensor._array)
    places = pick(np.arange(array.size))
    other = np.take(array.ravel(), places, mode="wrap").reshape(array.shape) if array.size else array.copy()
    return _like(tensor, other)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    leaves, structure = flatten(value)
    return unflatten(structure, [function(leaf) for leaf in leaves])


def _resized(tensor: Tensor, sizes: Mapping[int, int]) -> Tensor:
    """Another tensor of the same kind with other sizes of some dims, its elements drawn from the old ones."""
    return _like(tensor, of_sizes(HOST.taken(tensor._array), sizes))


def _stage_run(
    program: ProgramToExport,
    stage: int,
    sizes: Sequence[Mapping[int, int]] | None,
    examples: Sequence[Any],
    change: Callable[[Any], Any] = lambda array: array,
) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of a later stage, by the interpreter: ones for the incoming gradients.

    Args:
        program: What is run.
        stage: Which stage's outputs.
        sizes: For each input the sizes, by dim, that are to be other than those of the examples.
        examples: The arguments.
        change: Makes other inputs of these.
    """
    feed: dict[str, Any] = {}
    inputs: list[list[Any]] = []
    arguments = iter(examples)
    for number in range(stage + 1):
        values = []
        for value in program.graph.stages[number].inputs:
            owner = program.captured.get(value.name)
            array = owner._array if isinstance(owner, Tensor) else owner.state if owner is not None else None
            if array is None:
                array = next(arguments) if number == 0 else np.ones(value.type.sizes, value.type.dtype.numpy)  # type: ignore[attr-defined]
                feed[value.name] = change(of_sizes(HOST.taken(array), sizes[len(feed)] if sizes else {}))
                array = library_on(value.type.device).taken(feed[value.name])  # type: ignore[attr-defined]
            values.append(array)
        inputs.append(values)
    return list(feed.values()), run_stages(program.graph, inputs)


def _intermediates(exported: Exported, program: ProgramToExport, index: int) -> dict[str, Any]:
    """The values inside the model for the recorded arguments (nothing for other sizes)."""
    if index or len(program.graph.stages) > 1:
        return {}
    mapping: dict[Value, Value] = {}
    watched = program.graph.clone(mapping)
    inside = {value: name for value, name in exported.names.items() if value in mapping and not value.is_input}
    watched.set_return([mapping[value] for value in inside], (), 0)
    owners = program.captured.values()
    captured = [owner._array if isinstance(owner, Tensor) else owner.state for owner in owners]
    outputs, _, _ = Interpreter(watched, PythonHost()).run(0, [*program.recordings[0].examples, *captured])
    return dict(zip(inside.values(), map(HOST.taken, outputs), strict=True))


__all__ = ["ExportReport", "export_onnx"]
