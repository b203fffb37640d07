"""Sizes stay traced while a function is recorded: two recordings of other sizes are the same program, node for node.

Every operator is recorded on its samples and on the same samples of other sizes, with its backward; then methods of
tensors, layers and steps of training. A plain number that stands in both graphs and differs is a size that was taken
from a tensor behind the back of the trace. Tensors are row-major, as those of a family are (Note [Families]), and
results are cloned, since a way to a view is decided upon when it is returned (Note [Numbers behind views]). A run of
the whole suite tries the first few samples of each operator; `JIT_ALL_SAMPLES=1` tries all of them, in some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import Graph, Node, Value
from jit.ir.graph import map_template
from jit.ir.op import REGISTRY, Op
from jit.tracing.recorder.tracer import Trace
from jit.tracing.recordings.chains import Chain, fork
from jit.tracing.recordings.replaying import replay_stages
from jit.tracing.recordings.stage_recording import record_stage
from tests.registry_cases import Case, all_cases, differentiable, mapped, tensors_in

ALL = os.environ.get("JIT_ALL_SAMPLES") == "1"
SAMPLES = 1000 if ALL else 2
"""How many samples of an operator are tried."""

BY_ELEMENTS = "sizes that depend on elements are guarded: Note [Sizes that depend on elements]"
PIECES = "the size says how many results there are"
DOUBLING = "its derivative takes as many steps as the size has binary digits"
STEPS = "one step is recorded for each entry of the sequence, and of the layers' states"
GIVEN = "decides whether a size is above or below the number that the caller gives"
STRIDED = "the strides of its operand are a fact of its memory"

LEFT = {
    **dict.fromkeys(("index.Tensor", "index_put", "masked_select", "masked_scatter", "nonzero"), BY_ELEMENTS),
    **dict.fromkeys(("nonzero_static", "_unique2", "unique_dim", "unique_consecutive"), BY_ELEMENTS),
    **dict.fromkeys(("_pack_padded_sequence", "_pad_packed_sequence", "one_hot"), BY_ELEMENTS),
    **dict.fromkeys(("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor"), PIECES),
    **dict.fromkeys(("unbind.int", "unbind_copy.int"), PIECES),
    **dict.fromkeys(("prod", "prod.dim_int", "cumprod"), DOUBLING),
    **dict.fromkeys(("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"), STEPS),
    **dict.fromkeys(("lstm.data", "rnn_tanh.data", "rnn_relu.data"), STEPS),
    **dict.fromkeys((f"fft_{kind}fft{n}" for kind in ("", "i", "r", "ih") for n in ("", "2", "n")), GIVEN),
    **dict.fromkeys(("fft_irfft", "fft_hfft", "istft"), GIVEN),
    **dict.fromkeys(("as_strided", "as_strided_copy"), STRIDED),
    **dict.fromkeys((f"conv{n}d.padding" for n in (1, 2, 3)), "padding 'same' of an even kernel is another program"),
    "cross": "looks for the dim of size 3",
    "linalg_det": "its derivative at singular matrices is the one of prod",
}
"""Operators whose recordings differ between sizes, and why they have to."""

# -- other sizes -------------------------------------------------------------------------------------------------

Grow = Callable[[int], int]


def same(size: int) -> int:
    return size


def more(size: int) -> int:
    return 2 * size - 1 if size > 1 else size


def only(size: int, rule: Grow) -> Grow:
    """A rule for one size; the others stay."""
    return lambda n: rule(n) if n == size else n


def growths(arrays: Sequence[np.ndarray]) -> Iterator[Grow]:
    """Ways to make sizes of 2 and more larger, the most thorough first; equal sizes stay equal."""
    rules: list[Grow] = [more, *(lambda n, k=k: n * k if n > 1 else n for k in (2, 3)), lambda n: n + (n > 1)]
    yield from rules
    for size in sorted({n for array in arrays for n in array.shape if n > 1}):
        yield from (only(size, rule) for rule in rules)


class Sized(Case):
    """A case whose tensors are row-major, and perhaps larger."""

    def __init__(self, case: Case, grow: Grow = same) -> None:
        super().__init__(case.op, case.number, case.sample)
        self.grow = grow

    def arguments(self, convert: Callable[[Any], Any] = jit.from_numpy) -> tuple[list[Any], dict[str, Any]]:
        def other(array: np.ndarray) -> Any:
            return convert(np.resize(array, tuple(map(self.grow, array.shape))))

        args = [mapped(value, other) for value in self.sample.args]
        return args, {name: mapped(value, other) for name, value in self.sample.kwargs.items()}

    def wanted(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[jit.Tensor]:
        """The tensors to differentiate by; none in samples of errors."""
        return [] if "grad" in self.op.missing else differentiable(self.op, args, kwargs)

    def runs(self) -> bool:
        """Whether the operator and its derivative take these sizes."""
        args, kwargs = self.arguments()
        for tensor in self.wanted(args, kwargs):
            tensor.requires_grad_()
        try:
            results = [t.sum() for t in self.call(*args, **kwargs) if t.requires_grad]
            jit.autograd.backward(results, [jit.ones_like(t) for t in results])
        except (jit.Error, ValueError, IndexError, TypeError):
            return False
        return True

    def graph(self) -> Graph:
        args, kwargs = self.arguments()
        return graph_of(self.function, args, kwargs, self.wanted(args, kwargs))


def larger(case: Case) -> Sized | None:
    """The case in other sizes that its operator takes."""
    arrays = [a for a in _arrays([case.sample.args, case.sample.kwargs]) if any(n > 1 for n in a.shape)]
    cases = (Sized(case, grow) for grow in growths(arrays)) if arrays else iter(())
    return next((other for other in cases if other.runs()), None)


def _arrays(values: Any) -> Iterator[np.ndarray]:
    if isinstance(values, np.ndarray):
        yield values
    elif isinstance(values, (list, tuple, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _arrays(value)


# -- recording ---------------------------------------------------------------------------------------------------


def graph_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None, wanted: Any = ()
) -> Graph:
    """The raw graph of a call, and, where gradients of `wanted` can be asked for, of its backward as of any size."""
    for tensor in wanted:
        tensor.requires_grad_()

    def called(*args: Any, **kwargs: Any) -> Any:
        return [t.clone() for t in tensors_in(function(*args, **kwargs))]

    jit.manual_seed(Case.SEED)
    traced = jit.trace(called, dynamic=False, optimize=False)
    results = traced(*args, **(kwargs or {}))
    recording: Any = traced._last
    node: Any = next((t.grad_fn for t in results if t.requires_grad), None)
    return recording.trace.graph if node is None else _with_backward(recording.trace, node.kept)


def _with_backward(recorded: Trace, kept: Any) -> Graph:
    trace = fork(recorded, 1)
    live = replay_stages(trace, kept.inputs, kept.requires_grad, sized=True)
    carrying = (o if o is not None and o.defined and o.requires_grad else None for o in live.outputs)
    gradients = [None if o is None else jit.ones(tuple(o._array.shape), dtype=o.dtype) for o in carrying]
    record_stage(Chain(trace), (), live, gradients, [edge is not None for edge in live.edges], False)
    return trace.graph


# -- comparing ---------------------------------------------------------------------------------------------------


def leaks(one: Graph, other: Graph) -> list[str]:
    """The plain numbers in which two graphs differ; or the first node from which they are different programs."""
    known: list[dict[Value, int]] = [{}, {}]
    found: list[str] = []
    for a, b in zip(one.nodes, other.nodes, strict=False):
        (shape, numbers), (other_shape, other_numbers) = _taken_apart(a, known[0]), _taken_apart(b, known[1])
        if shape != other_shape:
            return [*found, f"another program from {a} on, which is {b}"]
        found += [f"{n} or {m}: {a}" for n, m in zip(numbers, other_numbers, strict=True) if n != m]
    if len(list(one.nodes)) != len(list(other.nodes)):
        found.append("one of the programs goes on longer")
    return found


def _taken_apart(node: Node, known: dict[Value, int]) -> tuple[Any, list[Any]]:
    """A node without its plain numbers, and these; values are numbered as they come."""
    numbers: list[Any] = []

    def leaf(item: Any) -> Any:
        if isinstance(item, Value):
            return ("%", known.setdefault(item, len(known)))
        if isinstance(item, np.ndarray):
            numbers.append((item.shape, item.tobytes()))
        elif type(item) in (int, float, complex) and item == item:
            numbers.append(item)
        else:
            return "body" if isinstance(item, Graph) else str(item)
        return type(item).__name__

    parts = [map_template(leaf, node.args), [(k, map_template(leaf, v)) for k, v in node.attributes.items()]]
    return (node.kind, *parts, [leaf(value) for value in node.outputs]), numbers


# -- operators ---------------------------------------------------------------------------------------------------


def leaks_of(op: Op) -> dict[str, list[str]]:
    """The leaks of an operator by its samples; those that take no other sizes are left out."""
    found = {}
    for case in all_cases(op)[:SAMPLES]:
        other = larger(case) if Sized(case).runs() else None
        if other is not None:
            found[case.id] = leaks(Sized(case).graph(), other.graph())
    return found


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_operators_keep_sizes_traced(op: Op) -> None:
    found = {case: lines for case, lines in leaks_of(op).items() if lines}
    if op.name.removeprefix("aten::") not in LEFT:
        assert not found
    elif ALL:
        assert found, "this operator needs no exception any more"
