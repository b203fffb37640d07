"""Export of a `Graph`, of which there is no function to call: it is held against what the interpreter makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jit.eager.generators import default_generator
from jit.eager.tensors import Tensor
from jit.export import Exported, export_graph, verify_model
from jit.export.verification import coarsened, with_tolerance
from jit.ir import Graph, TensorType
from jit.ir.errors import UsageError
from jit.ir.types import GeneratorType
from jit.passes import EXPORT, apply
from jit.runtime.arrays.libraries import HOST, library_on

from .exported_runs import Wishes, dtypes_in, of_sizes, run_stages, unknown_sizes


def exported_graph(
    graph: Graph, arguments: Sequence[Any], named: Mapping[str, Any], stage: int, wishes: Wishes | None, **options: Any
) -> Exported:
    """The model of a graph, verified with the arguments.

    Args:
        graph: What becomes a model; it stays as it is.
        arguments: Tensors or numbers for the inputs of its first stage, parameters among them.
        named: Those that are given by name.
        stage: Which stage's outputs the model gives.
        wishes: The user's wishes for the verification; None to do without it.
        options: Those of `export_graph`.

    Raises:
        UsageError: The arguments are not one for each input.
    """
    arguments = _bound(graph, arguments, named)
    graph = graph.clone()
    with unknown_sizes(graph if options.get("dynamic_axes") else None):
        apply(graph, EXPORT)
    exported = export_graph(graph, None, stage=stage, **options)
    if wishes is None:
        return exported
    if exported.report.is_random:
        exported.report.warnings.append("the model draws random numbers, so its outputs were not compared")
        return exported
    cases = _cases(exported, arguments, wishes.inputs)
    runs = [_run(graph, given, stage, sizes) for given, sizes in cases]
    names = list(exported.report.inputs)
    found = verify_model(
        exported, [dict(zip(names, given, strict=True)) for given, _ in runs], [results for _, results in runs],
        tolerances=with_tolerance(coarsened(dtypes_in(graph)), wishes.rtol, wishes.atol),
    )  # fmt: skip
    exported.report.verified = found.for_report()
    return exported


def _bound(graph: Graph, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The arguments in the order of the inputs of the first stage."""
    inputs = [value.name for value in graph.stages[0].inputs if not isinstance(value.type, GeneratorType)]
    remaining = inputs[len(arguments) :]
    if len(arguments) > len(inputs) or set(remaining) != set(named):
        given = [*(f"{len(arguments)} by their places" for _ in arguments[:1]), *named]
        raise UsageError(
            f"the graph has the inputs {', '.join(inputs) or 'none'}, and given are {', '.join(given) or 'none'}; pass "
            "one for each"
        )
    return [*arguments, *(named[name] for name in remaining)]


def _cases(
    exported: Exported, arguments: Sequence[Any], wanted: Sequence[Any]
) -> Iterator[tuple[Sequence[Any], list[Mapping[int, int]]]]:
    """Arguments to verify with, and the sizes, by input and dim, that are to be other than theirs."""
    inputs = [exported.axes.get(name, {}) for name in exported.report.inputs]
    sizes = next(exported.sized.other_sizes(), None)
    for item in ({}, *([sizes] if sizes else []), *wanted):
        if not isinstance(item, Mapping):
            yield item if isinstance(item, (tuple, list)) else (item,), [{} for _ in inputs]
            continue
        chosen = exported.sized.checked_sizes(item) if item else {}
        yield arguments, [{dim: chosen[axis] for dim, axis in dims.items() if axis in chosen} for dims in inputs]


def _run(
    graph: Graph, arguments: Sequence[Any], stage: int, sizes: Sequence[Mapping[int, int]]
) -> tuple[list[Any], list[Any]]:
    """The arrays that go into a run, and those that come out of it; incoming gradients are ones."""
    remaining = iter(arguments)
    feed: list[Any] = []
    inputs: list[list[Any]] = []
    for number in range(stage + 1):
        values: list[Any] = []
        for value in graph.stages[number].inputs:
            if isinstance(value.type, GeneratorType):
                values.append(default_generator().state)
                continue
            given = next(remaining) if number == 0 else np.ones(value.type.sizes, value.type.dtype.numpy)  # type: ignore[attr-defined]
            array = HOST.taken(given._array if isinstance(given, Tensor) else given)
            feed.append(of_sizes(array, sizes[len(feed)]))
            is_tensor = isinstance(value.type, TensorType)
            values.append(library_on(value.type.device).taken(feed[-1]) if is_tensor else given)  # type: ignore[attr-defined]
        inputs.append(values)
    return feed, run_stages(graph, inputs)
