"""Finds the node of a recorded graph whose NaN reaches the results: for `detect_anomaly` in compiled backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.ir import Graph, Node
from jit.ir.errors import AutogradError
from jit.ir.graph import Ref, leaves
from jit.runtime.arrays.interpreter import Host, Interpreter
from jit.runtime.arrays.libraries import is_array


def refuse_nan(results: Sequence[Any], graph: Graph, inputs: Sequence[Sequence[Any]], host: Host) -> None:
    """Check the results of a stage for NaN.

    Args:
        results: What the stage returned: arrays and None.
        graph: The recorded graph, whose nodes know their lines.
        inputs: What went into every stage up to this one; they run again, node by node.
        host: Runs Python functions.

    Raises:
        AutogradError: There is a NaN; the message names the line of the operation in the forward.
    """
    if not any(map(has_nan, results)):
        return
    node = culprit(graph, inputs, host)
    what = "the traced function" if node is None else node.kind
    where = "" if node is None else f"; it belongs to the derivative of the operation at {node.source}"
    raise AutogradError(
        f"{what} returned nan in a backward{where}; keep arguments away from points without a finite derivative"
    )


def has_nan(value: Any) -> bool:
    """Whether an array of floating point numbers holds NaN."""
    return is_array(value) and value.dtype.kind in "fcV" and bool(np.isnan(value).any())


def culprit(graph: Graph, inputs: Sequence[Sequence[Any]], host: Host) -> Node | None:
    """The first node of the last stage whose NaN reaches a result.

    Args:
        graph: The recorded graph.
        inputs: The inputs of every stage up to the one that returned NaN.
        host: Runs Python functions.
    """
    interpreter = Interpreter(graph, host)
    state = None
    for stage, values in enumerate(inputs[:-1]):
        _, _, state = interpreter.run(stage, values, state)
    program = interpreter.programs[len(inputs) - 1]
    registers = [None] * interpreter.count if state is None else list(state)
    for register, value in zip(program.inputs, inputs[-1], strict=True):
        registers[register] = value
    origins: dict[int, Node] = {}
    for instruction, node in zip(program.instructions, program.nodes, strict=True):
        instruction(registers)
        touched: Sequence[int] = instruction.touched  # type: ignore[attr-defined]
        made, used = touched[: len(node.outputs)], touched[len(node.outputs) :]
        origin = next((origins[register] for register in used if register in origins), node)
        origins.update((register, origin) for register in made if has_nan(registers[register]))
    returned = [leaf.index for leaf in leaves(program.outputs) if isinstance(leaf, Ref)]
    return next((origins[register] for register in returned if register in origins), None)
