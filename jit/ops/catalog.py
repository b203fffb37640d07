"""The registry, viewed by concern: `python -m jit.ops.catalog [grad|onnx|kernel|types|samples|docs|all] [--json]`.

Every table has a row per operator, with the facet's source text or the reason why there is none. A cell that has
neither is a gap: the program lists the gaps last and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from jit import ops  # noqa: F401  (declares the operators)
from jit.ir.dtypes import DType
from jit.ir.kernel import POINTWISE, Kernel
from jit.ir.op import REGISTRY, Op
from jit.ir.precision import DEFAULTS
from jit.ir.sources import place_of, source_of

PARTS = "through its parts"
NOT_FLOATING = {
    "index": "indices are integers", "indices": "indices are integers",
    "mask": "a mask is boolean", "condition": "a condition is boolean",
}  # fmt: skip
"""Arguments that never have a gradient, by the name they bear in every schema."""


class CatalogCell(NamedTuple):
    """An entry of a table: a fact of one operator, or of one of its arguments."""

    label: str
    text: str | None
    """None: nothing is declared, and nobody says why."""


# -- one function per concern ------------------------------------------------------------------------------------


def grad(op: Op) -> list[CatalogCell]:
    """The derivatives, by argument."""
    if "grad" in op.missing:
        return [_reason(op, "grad")]
    if op.backward is not None:
        reasons = [_reason(op, f"grad.{name}", name) for name in _tensor_arguments(op) if f"grad.{name}" in op.missing]
        return [CatalogCell("all", source_of(op.backward.function)), *reasons]
    if op.kind == "composite" and not op.derivatives:
        return [CatalogCell("", PARTS)]
    return [_derivative(op, name) for name in _tensor_arguments(op)] or [CatalogCell("", None)]


def _derivative(op: Op, name: str) -> CatalogCell:
    rule = op.derivatives.get(name)
    return _reason(op, f"grad.{name}", name) if rule is None else CatalogCell(name, source_of(rule.function))


def _tensor_arguments(op: Op) -> list[str]:
    return [op.arguments[position].name for position in op.tensors]


def _reason(op: Op, facet: str, label: str = "") -> CatalogCell:
    reason = op.missing.get(facet) or NOT_FLOATING.get(label)
    return CatalogCell(label, f"none: {reason}" if reason else None)


def onnx(op: Op) -> list[CatalogCell]:
    """The ONNX operator, or the function that writes several."""
    if op.symbolic is None:
        return [CatalogCell("", PARTS) if op.kind == "composite" and "onnx" not in op.missing else _reason(op, "onnx")]
    return [CatalogCell("", op.symbolic if isinstance(op.symbolic, str) else source_of(op.symbolic))]


def kernel(op: Op) -> list[CatalogCell]:
    """The code that computes it (scalar body, array body, geometry, or operators of a composite) and its facts."""
    separate = [CatalogCell("numpy", _short(op.numpy_body))] if op.numpy_body else []
    return [CatalogCell(op.kind, _short(op.body)), *separate, *_facts(op)]


def _facts(op: Op) -> list[CatalogCell]:
    """The kernel facts that an operator declares: see `Kernel`."""
    usual = POINTWISE if op.kind == "pointwise" else Kernel()
    said = [(item.name, getattr(op.kernel, item.name), getattr(usual, item.name)) for item in fields(Kernel)]
    return [CatalogCell(name, _fact(fact)) for name, fact, silent in said if fact != silent or (name, op.kind) == _COST]


_COST = ("cost", "pointwise")
"""The cost that a whole kind of operators shares."""


def _fact(fact: Any) -> str:
    return _short(fact) if callable(fact) else "yes" if fact is True else str(fact)


def types(op: Op) -> list[CatalogCell]:
    """The rules by which dtype and sizes of the result follow from the arguments."""
    promoted = op.promote if isinstance(op.promote, str) else ", ".join(op.promote or ())
    if op.kind == "view":
        return [CatalogCell("", "the dtype of the base, the sizes of the geometry")]
    if op.kind == "pointwise":
        return [CatalogCell(promoted, f"{_result_name(op)}, broadcast")]
    if op.type_rule is None:
        return [CatalogCell(promoted, PARTS if op.kind == "composite" else None)]
    return [CatalogCell(promoted, _short(op.type_rule))]


def _result_name(op: Op) -> str:
    if op.result is None:
        return "promoted"
    if isinstance(op.result, str):
        return op.result
    return op.result.name if isinstance(op.result, DType) else _short(op.result)


def samples(op: Op) -> list[CatalogCell]:
    """The number of inputs it is tried on, and the awkward things about them."""
    found = [] if op.sampler is None else list(op.sampler())
    notes = dict.fromkeys(sample.note for sample in found if sample.note)
    return [CatalogCell(str(len(found)), ", ".join(notes) or "plain")] if found else [CatalogCell("0", None)]


CONCERNS: dict[str, Callable[[Op], list[CatalogCell]]] = {f.__name__: f for f in (grad, onnx, kernel, types, samples)}

LF = "\n"
LONG = 6
"""Bodies of more lines are named rather than shown where they are not what the table is for."""


def _short(function: Callable[..., Any]) -> str:
    text = source_of(function)
    lines = text.count("\n") + 1
    return text if lines <= LONG else f"{lines} lines at {place_of(function)}"


# -- tables ------------------------------------------------------------------------------------------------------


def gaps(op: Op, concerns: Iterable[str] = tuple(CONCERNS)) -> list[str]:
    """The facets of which nothing is said: `grad of indices`."""
    rows = [(concern, cell) for concern in concerns for cell in CONCERNS[concern](op)]
    return [f"{concern} of {cell.label}" if cell.label else concern for concern, cell in rows if cell.text is None]


def table(concern: str, operators: Iterable[Op] = ()) -> str:
    """A concern as aligned text: operator, argument or kind, facet.

    >>> from jit.ir.op import REGISTRY
    >>> print(table("grad", [REGISTRY["aten::tanh"]]))
    aten::tanh  self  F.tanh_backward(g, out)
    """
    rows = []
    for op in operators or REGISTRY.values():
        for number, cell in enumerate(CONCERNS[concern](op)):
            rows.append(("" if number else op.name, cell.label, "MISSING" if cell.text is None else cell.text))
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    indent = "\n" + " " * (first + second + 4)
    return "\n".join(f"{name:{first}}  {label:{second}}  {indent.join(text.split(LF))}" for name, label, text in rows)


def as_json(concerns: Sequence[str]) -> str:
    """The same as nested objects: concern, operator, label."""

    def cells(concern: str, op: Op) -> dict[str, str | None]:
        return {cell.label: cell.text for cell in CONCERNS[concern](op)}

    return json.dumps({c: {op.name: cells(c, op) for op in REGISTRY.values()} for c in concerns}, indent=1)


# -- the page of the documentation -------------------------------------------------------------------------------

PAGE = """# Operators

All {count} operators, by family. Generated by `python -m jit.ops.catalog docs > docs/operators.md`; do not edit.

*Where*: the namespaces, `Tensor` for methods; `name_` where there is an in-place variant.
*Gradient*, *ONNX*: what the declaration gives, and the ONNX operators it names; composites get both {parts} unless
they have their own.
*Kernel*: what a compiled plan makes of it: a loop at every point, with about how many instructions; a reduction, norm
or scan of rows; what follows from positions, in whichever loop reads it; a step of its own; "none" runs with numpy.
*CUDA*: what computes it on a GPU: "kernel", a loop of a fused group in a recording, and CuPy elsewhere; "library", CuPy
everywhere; "host", the CPU, which gets copies of the operands and gives one of the result back.
*Autocast*: what it computes in where `jit.autocast` is on, on the CPU and on a GPU; nothing if it takes its operands as
they are: "lower", the dtype of the region; "widest", float32 if an operand is; "given", as they are, parts included.
"""


HEAD = (
    "| Declaration | Kind | Where | Gradient | ONNX | Kernel | CUDA | Autocast |",
    "|---|---|---|---|---|---|---|---|",
)


def page() -> str:
    """The operators as Markdown."""
    families = dict.fromkeys(op.family for op in REGISTRY.values())
    return PAGE.format(count=len(REGISTRY), parts=PARTS) + "".join(map(_section, families))


def _section(family: str) -> str:
    rows = [_row(op) for op in REGISTRY.values() if op.family == family]
    return "\n".join([f"\n## {family.capitalize()}\n", *HEAD, *rows, ""])


def _row(op: Op) -> str:
    where = ", ".join([*op.namespaces, *([f"`{op.schema.name}_`"] if op.has_inplace else [])]) or "internal"
    declaration = str(op.schema).replace("|", "\\|").removeprefix("aten::")
    facets = (op.kind, where, _gradient(op), _exported(op), compiled(op), on_gpu(op), _in_regions(op))
    return f"| `{declaration}` | {' | '.join(facets)} |"


def _gradient(op: Op) -> str:
    if "grad" in op.missing:
        return f"none: {op.missing['grad']}"
    return "own" if op.is_differentiable else PARTS if op.kind == "composite" else "MISSING"


def _exported(op: Op) -> str:
    if "onnx" in op.missing:
        return f"none: {op.missing['onnx']}"
    if op.symbolic is None:
        return PARTS if op.kind == "composite" else "MISSING"
    found = [op.symbolic] if isinstance(op.symbolic, str) else re.findall(r'g\.op\(\s*"(\w+)"', source_of(op.symbolic))
    return ", ".join(f"`{name}`" for name in dict.fromkeys(found)) or "own"


def compiled(op: Op) -> str:
    """The way a plan computes an operator, in a few words."""
    if op.kind in ("view", "composite"):
        return "free" if op.kind == "view" else PARTS
    if op.kind == "pointwise":
        return f"point, {op.kernel.cost}"
    form = "by its arguments" if callable(op.kernel.form) else op.kernel.form
    return ", ".join(dict.fromkeys(word for word in (form, op.kernel.step) if word)) or "none"


def on_gpu(op: Op) -> str:
    """The place where an operator runs whose operands lie on a GPU, in a few words."""
    if op.kind in ("view", "composite"):
        return "free" if op.kind == "view" else PARTS
    if op.runs_on_host:
        return "host"
    return "kernel" if op.kind == "pointwise" or op.kernel.form else "library"


def _in_regions(op: Op) -> str:
    """The precision in which an operator computes under `autocast`, in a few words."""
    if op.precision is None:
        return ""
    if op.precision.cpu == op.precision.cuda:
        return str(op.precision.cpu)
    return ", ".join(f"{kind}: {word}" for kind in DEFAULTS if (word := op.precision.on(kind)) is not None)


# -- the program -------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is asked for; 1 if a facet is neither declared nor excused."""
    parser = argparse.ArgumentParser(prog="python -m jit.ops.catalog", description="The operators, viewed by concern.")
    parser.add_argument("concern", nargs="?", default="all", choices=[*CONCERNS, "docs", "all"])
    parser.add_argument("--json", action="store_true", help="as JSON instead of aligned text")
    options = parser.parse_args(arguments)
    concerns = list(CONCERNS) if options.concern == "all" else [options.concern]
    if options.concern == "docs":
        print(page(), end="")
    elif options.json:
        print(as_json(concerns))
    else:
        print("\n\n".join(f"== {concern} ==\n{table(concern)}" for concern in concerns))
    return _report_gaps(CONCERNS if options.concern == "docs" else concerns)


def _report_gaps(concerns: Iterable[str]) -> int:
    missing = {op.name: found for op in REGISTRY.values() if (found := gaps(op, concerns))}
    for name, found in missing.items():
        print(f"{name}: no {', no '.join(found)}; declare it or say why: absent(...)", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
