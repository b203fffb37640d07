"""Whole numbers that become sizes: `x[:k]`, `zeros(k)`, `x.view(k, -1)` where `k` is an input.

Note [Numbers that are sizes]
    What follows from such a number in a recording - sizes, types, whether operands broadcast - holds for one value. So
    the recording becomes one for many sizes, in which the number is the size of an input: of a tensor without memory
    that has as many elements. Then all is known of it that is known of sizes (Note [Sizes get names] in
    jit.passes.support.symbolic_sizes), conditions on it included, and whatever runs recordings for many sizes runs it.

        graph(%x : Float(9), %k : int) {                graph(%x : Float(9), %k : Bool(n, strides=[0])) {
          %0 : Float(4) = aten::slice[end=%k](%x)         %0 : Float(n) = aten::slice[end=n](%x)
          return (%0)                                     return (%0)
        }                                               }
                                                        under the condition 9 >= n

    A negative number is minus a size. Sizes of 0 and 1 are programs of their own, because they broadcast: a recording
    with 0, 1 or -1 serves this number alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jit.eager.view_paths import with_numbers
from jit.ir import Node, Op, TensorType, Value, dtypes, find
from jit.ir.graph import leaves
from jit.ir.scalars import scalar_function
from jit.ir.types import INT
from jit.passes.support.symbolic_sizes import SizesMisfit

from ..recorder.records import Capture
from ..recorder.tracer import Trace
from .carriers import can_be_size, carrier
from .chains import fork
from .recording import Recording


def sized(recording: Recording) -> Recording:
    """The recording in which numbers are sizes, if they are used as such; else the same one."""
    trace = recording.trace
    used = _used_as_sizes(trace)
    found, inputs = trace.captures.found, list(trace.graph.inputs)
    for capture in found:
        capture.is_fixed = capture.value in used and not can_be_size(capture.owner)
    chosen = [i for i, capture in enumerate(found) if capture.value in used and not capture.is_fixed]
    read = {inputs.index(value.node.inputs[0]): trace.scalars.items[value] for value in used - {c.value for c in found}}
    if not chosen and not read:
        return recording
    places = [inputs.index(found[i].value) for i in chosen]
    forward = fork(trace, 1)
    for i in chosen:
        _let_be_size(forward, forward.captures.found[i])
    for at, number in read.items():
        _let_items_be_size(forward, at, number)
    try:
        return recording.generalised(
            forward, [(at, 0) for at in (*places, *range(len(inputs), len(inputs) + len(read)))]
        )
    except SizesMisfit as error:
        return _of_these_numbers(recording, used, bool(read), error)


def _of_these_numbers(recording: Recording, used: set[Value], has_items: bool, why: SizesMisfit) -> Recording:
    """The recording, which is right for the numbers of its call alone."""
    for capture in recording.trace.captures.found:
        capture.is_fixed = capture.value in used
    if has_items:
        recording.trace.note_impure(f"takes a number in a tensor for a size in a way that is not known ({why})")
    return recording


def _let_be_size(trace: Trace, capture: Any) -> None:
    """Let the input of a number be that of its carrier."""
    value, number = capture.value, capture.owner
    _let_be_used(trace, value, [value], number)
    value.type = _type_of(number)
    capture.sign, capture.owner = 1 if number > 0 else -1, carrier(abs(number))


def _let_items_be_size(trace: Trace, at: int, number: int) -> None:
    """Let what is read from the tensor that is input `at` be the size of one more input."""
    source = trace.graph.inputs[at]
    items = [use.node.output for use in source.uses if use.node.kind == "prim::item"]
    value = trace.graph.add_input(_type_of(number), f"{source.name}.item", 0)
    _let_be_used(trace, value, items, number)
    made = Capture(value, carrier(abs(number)), value.name, item_of=at, sign=1 if number > 0 else -1)
    trace.captures.found.append(made)


def _let_be_used(trace: Trace, value: Value, numbers: Sequence[Value], number: int) -> None:
    """Let the size of the input `value`, which carries a number, be used where `numbers` are used, which are that."""
    uses = [use for each in numbers for use in each.uses]
    with trace.graph.inserting_before(next(iter(trace.graph.nodes), None)):
        size = trace.graph.add("prim::size", (value,), {"dim": 0}, [INT])
        signed = size if number > 0 else trace.graph.add("prim::neg", (size.output,), {}, [INT])
    for node, index in uses:
        node.inputs[index] = signed.output
    trace.tape.views = [with_numbers(path, lambda n: signed.output if n in numbers else n) for path in trace.tape.views]


def _type_of(number: int) -> TensorType:
    return TensorType(dtypes.bool_, (abs(number),), (0,))


def _used_as_sizes(trace: Trace) -> set[Value]:
    """The numbers on which sizes may depend: inputs, and what is read from tensors that are inputs."""
    given = [c.value for c in trace.captures.found if c.number is not None and type(c.owner) is int]
    sources = {value: {value} for value in (*given, *trace.scalars.items)}
    found: set[Value] = set()
    for node in trace.graph.nodes if sources else ():
        if any(value in sources for value in node.inputs):
            behind = set().union(*(sources.get(value, ()) for value in node.inputs))
            if scalar_function(node.kind) is not None:
                sources[node.output] = behind
            elif (op := find(node.kind)) is not None and op.kind != "pointwise":
                found |= set().union(*(sources[value] for value in _numbers_of(op, node) if value in sources))
    ways = (leaf for path in trace.tape.views for step in path for leaf in leaves(step.arguments))
    return found.union(*(sources[leaf] for leaf in ways if isinstance(leaf, Value) and leaf in sources))


def _numbers_of(op: Op, node: Node) -> Iterator[Value]:
    """The traced numbers among the arguments of a node that are no operands to compute with."""
    values = op.join(node.operands, {name: node.resolve(item) for name, item in node.attributes.items()})
    for argument, value in zip(op.arguments, values, strict=True):
        if argument.type.base != "Tensor" and argument.name not in op.offsets:
            yield from (leaf for leaf in leaves(value) if isinstance(leaf, Value))
