"""Refuses recordings that contradict themselves: what `restoring` has made of a file is compared with its graphs.

`jit.ir.verify` checks what holds for every graph. Checked here is what else code generation, the interpreter and the
autograd engine take for granted of a recording, so that a file that contradicts itself never reaches a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jit.eager.arguments import coerce
from jit.eager.generators import Generator
from jit.eager.pytree import paths
from jit.eager.tensors import Tensor, tensor_of
from jit.eager.view_paths import ViewStep
from jit.ir import GENERATOR, HANDLE, UNDEFINED, Graph, Node, Op, TensorType, Value, dtypes, find
from jit.ir.attempts import KIND, attempt_of
from jit.ir.control import is_control, problems
from jit.ir.graph import map_template
from jit.ir.inference import inferred_types
from jit.ir.registry import names_operator
from jit.ir.scalars import scalar_function
from jit.ir.sizes import SizeExpr, SizeSymbol
from jit.ir.types import BOOL, ScalarType
from jit.passes.support.analysis import with_subgraphs
from jit.tracing.recorder.metadata import FACTS
from jit.tracing.recordings.chains import Chain
from jit.tracing.recordings.named_sizes import symbols_of
from jit.tracing.recordings.recording import Recording
from jit.tracing.recordings.results import OutputSpec
from jit.tracing.recordings.size_formulas import SizeFormula
from jit.tracing.surroundings.properties import kind_of

from ..tracing.function import Key
from ..tracing.surroundings.number_arguments import count_of
from .plain import PlainError

LARGEST = 1 << 40
"""The most bytes that one value of a graph may have."""


# -- graphs ------------------------------------------------------------------------------------------------------


def check_nodes(graph: Graph) -> None:
    """Refuse nodes that no recording has, and values of impossible size.

    Raises:
        PlainError: There is such a node or value.
    """
    for inside, each in enumerate(with_subgraphs(graph)):
        for node in each.nodes:
            if not (_is_recorded(node) or (inside and _is_folded(node))):
                raise PlainError(f"a recording holds no {node.kind} like this")
    for value in [value for each in with_subgraphs(graph) for value in each.values]:
        if not _is_possible(value.type):
            raise PlainError(f"%{value.name} is declared to be {value.type}, which no tensor is")


def _is_possible(type: Any) -> bool:
    """Whether there may be a tensor of this type."""
    if not isinstance(type, TensorType) or type.sizes is None:
        return True
    size = 1 if type.dtype is None else type.dtype.itemsize
    return (type.numel or 0) * size <= LARGEST and (type.strides is None or len(type.strides) == len(type.sizes))


def _is_recorded(node: Node) -> bool:
    """Whether the tracer could have recorded it; operands of operators are what `verify` looks at."""
    if is_control(node):
        return next(problems(node), None) is None
    if next(node.subgraphs, None) is not None:
        return False
    if names_operator(node.kind):
        op = find(node.kind)
        return op is None or (_takes_operands(node, op) and _gives_outputs(node, op))
    if node.kind.startswith(("^", "cpp::")):
        return "function" in node.attributes
    if node.kind == "prim::Constant":
        return len(node.outputs) == 1 and not node.inputs and _is_declared(node.attribute("value"), node.output.type)
    if node.kind == "prim::Eval":
        return bool(node.inputs) and node.inputs[-1].type is HANDLE
    if node.kind in ("prim::size", "prim::item"):
        return _reads_tensor(node)
    if node.kind == KIND:
        return _is_attempt(node)
    if node.kind == "prim::Guard":
        return len(node.inputs) == 1 and isinstance(node.inputs[0].type, ScalarType) and not node.outputs
    return _is_scalar(node)


def _is_folded(node: Node) -> bool:
    """Whether a node inside of control flow is a composite with its parts, which are looked at by themselves."""
    op = find(node.kind)
    return op is not None and op.kind == "composite" and isinstance(node.attributes.get("body"), Graph)


def _is_attempt(node: Node) -> bool:
    """Whether a node tries an operator or a function on numbers that exists, on operands that this takes."""
    attempt = attempt_of(node)
    if attempt is None or len(node.outputs) != 1 or node.output.type != BOOL:
        return False
    if isinstance(attempt.what, Op):
        return _takes_operands(node, attempt.what, attempt.attributes)
    numbers = all(isinstance(value.type, ScalarType) for value in node.inputs)
    return numbers and not attempt.attributes and 1 <= len(node.args) <= 2


def _takes_operands(node: Node, op: Op, attributes: Mapping[str, Any] | None = None) -> bool:
    """Whether the operator gets tensors where it takes tensors, and numbers only where they are promoted."""
    given = node.attributes if attributes is None else attributes
    values = op.join(node.operands, {name: node.resolve(item) for name, item in given.items()})
    for index, (argument, value) in enumerate(zip(op.arguments, values, strict=True)):
        kind = argument.type
        if kind.base != "Tensor":
            continue
        optional = kind.optional or kind.optional_elements
        for item in value if isinstance(value, tuple) else (value,):
            type = item.type if isinstance(item, Value) else None
            number = isinstance(type, ScalarType) or isinstance(item, (int, float, complex))
            if number and index not in op.promoted:
                return False
            if (
                not number
                and not isinstance(type, TensorType)
                and type is not UNDEFINED
                and not (item is None and optional)
            ):
                return False
    return True


def _gives_outputs(node: Node, op: Op) -> bool:
    """Whether a view that gives a list has as many outputs as its operand has parts."""
    return op.kind != "view" or len(node.outputs) == len(inferred_types(node) or node.outputs)


def _is_declared(value: Any, type: Any) -> bool:
    """Whether a constant is what its type says: kernels go by the type."""
    if not isinstance(value, np.ndarray):
        return not isinstance(type, TensorType) or type.sizes is None
    return isinstance(type, TensorType) and type.sizes == value.shape and type.dtype is dtypes.from_numpy(value.dtype)


def _reads_tensor(node: Node) -> bool:
    if len(node.inputs) != 1 or len(node.outputs) != 1 or not isinstance(node.inputs[0].type, TensorType):
        return False
    ndim = node.inputs[0].type.ndim
    return node.kind == "prim::item" or _all_below([node.attribute("dim")], ndim if ndim is not None else 64)


def _is_scalar(node: Node) -> bool:
    """Whether it is arithmetic on numbers of these types: tried with ones."""
    function = scalar_function(node.kind)
    if function is None or len(node.outputs) != 1:
        return False
    types = [item.type if isinstance(item, Value) else type(item).__name__ for item in node.operands]
    known = {"int": 1, "float": 1.0, "bool": True, "complex": 1j}
    try:
        function.python(*(known[str(each)] for each in types))
    except (KeyError, TypeError, ValueError):
        return False
    return True


# -- recordings --------------------------------------------------------------------------------------------------


def check(recording: Recording, key: Key) -> None:
    """Refuse a recording that contradicts its graphs.

    Raises:
        PlainError: It contradicts one.
    """
    for problem in _problems(recording, key):
        raise PlainError(f"a recording contradicts its graph: {problem}")


def _problems(recording: Recording, key: Key) -> Iterator[str]:
    if not recording.chains:
        yield "it has no graph"
    for chain in recording.chains:
        yield from _problems_of_inputs(recording, chain, key)
        yield from _problems_of_stages(recording, chain)
    yield from _problems_of_outputs(recording)
    yield from _problems_of_effects(recording)
    yield from _problems_of_views(recording)
    yield from _problems_of_moves(recording)


def _problems_of_inputs(recording: Recording, chain: Chain, key: Key) -> Iterator[str]:
    inputs, captures = chain.trace.graph.stages[0].inputs, chain.trace.captures.found
    positions = recording.positions
    if len(positions) + len(captures) != len(inputs) or not _all_below(positions, len(key.tensors)):
        yield "arguments"
        return
    varying = {(at, dim) for at, dim in recording.varying}
    for at, (index, value) in enumerate(zip(positions, inputs)):
        if not _fits(value.type, key.tensors[index], {d for i, d in varying if i == at}, recording.general):
            yield f"the argument %{value.name}"
    for capture in captures:
        owner, type = capture.owner, capture.value.type
        if capture.sign:
            fits = _is_size_of_number(capture, inputs, key)
        elif isinstance(owner, Tensor):
            fits = _fits(type, kind_of(owner), set(), False)
        elif isinstance(owner, Generator):
            fits = type is GENERATOR
        elif capture.gradient_of is not None:
            fits = _all_below([capture.gradient_of], len(inputs)) and isinstance(type, TensorType)
        else:
            fits = isinstance(type, ScalarType) and (owner is None or type.name == _scalar_name(owner))
        if not fits:
            yield f"the captured %{capture.value.name}"


def _is_size_of_number(capture: Any, inputs: Sequence[Value], key: Key) -> bool:
    """Whether an input carries a whole number as its size: an argument, or the element of an input before it."""
    type = capture.value.type
    if capture.sign not in (1, -1) or not isinstance(type, TensorType) or type.dtype is not dtypes.bool_:
        return False
    if type.ndim != 1:
        return False
    if capture.number is not None:
        return _all_below([capture.number], count_of(key.structure))
    before = list(inputs).index(capture.value)
    if not _all_below([capture.item_of], before):
        return False
    source = inputs[capture.item_of].type
    is_one = isinstance(source, TensorType) and source.numel == 1
    return is_one and source.dtype is not None and source.dtype.is_integral


def _scalar_name(number: Any) -> str:
    return str(type(number).__name__)


def _fits(type: Any, kind: Sequence[Any], varying: set[int], general: bool) -> bool:
    """Whether the declared type of an input is what the key admits."""
    if len(kind) < 3:
        return not isinstance(type, TensorType)
    if not isinstance(type, TensorType) or type.dtype is None or type.dtype.numpy != kind[0] or type.sizes is None:
        return False
    if general:  # a general key has other sizes; what varies is checked in every call by the recording itself
        return len(type.sizes) == len(kind[1])
    return type.sizes == tuple(kind[1])


def _problems_of_stages(recording: Recording, chain: Chain) -> Iterator[str]:
    stages = chain.trace.graph.stages
    if not len(chain.keys) == len(chain.differentiable) == len(stages) - 1:
        yield "stages"
        return
    count = len(recording.varying) + len(recording.counts)
    recorded = len(chain.keys) if recording.general else 0
    if len(chain.sizes) != recorded or any({len(s.recorded), len(s.free)} != {count} for s in chain.sizes):
        yield "the sizes of stages"
        return
    edges, returns = len(stages[0].inputs), _returned(stages[0])
    for number, (asked, _) in enumerate(chain.keys, 1):
        gradients, wanted, create = asked
        stage = stages[number]
        given = [kind for kind in gradients if kind is not None]
        fits = len(gradients) == returns and len(wanted) == edges and len(given) == len(stage.inputs)
        if not fits or type(create) is not bool or len(stage.outputs) != len(wanted):
            yield f"stage {number}"
            return
        for kind, value in zip(given, stage.inputs):
            if not _fits(value.type, kind, set(), recording.general):
                yield f"the gradient %{value.name}"
        if not _all_below(chain.differentiable[number - 1], len(stage.outputs)):
            yield f"what stage {number} returns"
        edges, returns = edges + len(given), _returned(stage)


def _returned(stage: Any) -> int:
    return len(stage.outputs) + len(stage.updates)


def _problems_of_outputs(recording: Recording) -> Iterator[str]:
    stage, result = recording.trace.graph.stages[0], recording.result
    inputs, returned = len(stage.inputs), len(stage.outputs)
    ends = {"fresh": returned, "view": returned, "number": returned, "input": inputs, "itself": inputs}
    for number, spec in enumerate(result.outputs):
        end = number if spec.kind == "same" else ends.get(spec.kind, 0)
        if type(spec) is not OutputSpec or not _all_below([spec.index], end):
            yield f"output {number}"
    counts, made = (len(paths(result.structure)), result.count), len(result.outputs)
    if counts[0] != counts[1] or result.count > made:
        yield "outputs"
    if any(not _all_below([index], made) for index, *_ in result.tags) or any(
        start < 0 or start + len(paths(structure)) > made for *_, structure, start in result.tags
    ):
        yield "attributes of results"
    if not _all_below(recording.differentiable, _returned(stage)):
        yield "what can be differentiated"


def _problems_of_effects(recording: Recording) -> Iterator[str]:
    """Faults in what a recording takes for granted of its inputs, and in what it writes to them."""
    stage, effects, conditions = recording.trace.graph.stages[0], recording.effects, recording.conditions
    inputs, made = len(stage.inputs), len(recording.result.outputs)
    if any(name not in FACTS or not _all_below([index], inputs) for index, name, _ in conditions.facts):
        yield "facts"
    if len(effects.targets) != len(stage.updates) or not _all_below(effects.targets, inputs):
        yield "updates"
    pairs = [(i, n, made) for i, n in effects.slots] + [(i, n, inputs) for i, n in conditions.reads]
    if not _all_below([i for i, *_ in pairs], inputs) or any(
        n is not None and not _all_below([n], e) for _, n, e in pairs
    ):
        yield "gradients"
    if not _all_below(conditions.hookless, inputs):
        yield "what can be differentiated"


def _problems_of_views(recording: Recording) -> Iterator[str]:
    """Faults in the paths by which outputs are views of what the plan returns or was given."""
    stage, sizes = recording.trace.graph.stages[0], _sizes_recorded(recording)
    ends = {"view": stage.outputs, "input": stage.inputs}
    for number, spec in enumerate(recording.result.outputs):
        viewed = ends.get(spec.kind, ())[spec.index] if spec.kind in ends else None
        try:
            found = _follow(spec.path, viewed.type if isinstance(viewed, Value) else None, sizes)
            fits = viewed is None or not spec.path or found == stage.outputs[number].type.sizes
        except Exception:  # operators refuse arguments in any way they like
            fits = False
        if not fits:
            yield f"the view that output {number} is"


def _problems_of_moves(recording: Recording) -> Iterator[str]:
    """Faults in the paths by which inputs become views of themselves."""
    inputs, sizes = recording.trace.graph.stages[0].inputs, _sizes_recorded(recording)
    for index, path, _ in recording.effects.moves:
        try:
            _follow(path, inputs[index].type if index >= 0 else None, sizes)
        except Exception:  # as above
            yield f"the view that input {index} becomes"


def _sizes_recorded(recording: Recording) -> Mapping[SizeSymbol, int]:
    """The sizes that vary, as they were when the function was recorded."""
    if not recording.general:
        return {}
    shapes = [value.type.sizes if isinstance(value.type, TensorType) else () for value in recording.trace.graph.inputs]
    named = zip(symbols_of(recording.varying), recording.varying)
    known = [(s, shapes[i] or (), d) for s, (i, d) in named if 0 <= i < len(shapes)]
    return {symbol: shape[dim] for symbol, shape, dim in known if 0 <= dim < len(shape)}


def _follow(path: Sequence[Any], viewed: Any, sizes: Mapping[SizeSymbol, int]) -> Any:
    """The sizes of the view to which a path leads from a tensor of some type; an exception if that is impossible.

    Args:
        path: The steps.
        viewed: The type of the tensor.
        sizes: The sizes of which the numbers in the steps may be made, as the types of the graph have them.
    """

    def known(number: Any) -> Any:
        if type(number) not in (SizeExpr, SizeFormula):
            return number
        found = number.evaluate(sizes) if number.symbols <= sizes.keys() else None
        if type(found) is not int:
            raise ValueError(number)
        return found

    for step in path:
        if not isinstance(step, ViewStep) or not isinstance(viewed, TensorType):
            raise TypeError(step)
        given = map_template(known, step.arguments)
        arguments = coerce(step.op, (tensor_of(np.zeros(0)), *given))[1:]
        viewed = step.op.infer([viewed, *arguments])[step.index]
    return getattr(viewed, "sizes", None)


def _all_below(numbers: Sequence[Any], end: int) -> bool:
    return all(type(n) is int and 0 <= n < end for n in numbers)
