"""The account of an export, for people (`str`) and for programs (`to_json`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any


@dataclass
class Verified:
    """The check of a model against the program that it was made from."""

    engine: str
    """The program that ran the model: `onnxruntime 1.31.1`."""
    max_abs_error: float = 0.0
    """The largest difference of two elements."""
    max_rel_error: float = 0.0
    """The largest error relative to the largest magnitude of its tensor."""
    sizes: list[dict[str, list[int]]] = field(default_factory=list)
    """The shapes of the inputs, one entry for each run."""

    def __str__(self) -> str:
        runs = "; ".join(_run_text(run) for run in self.sizes)
        return (
            f"by {self.engine} on {len(self.sizes)} input{'s' * (len(self.sizes) != 1)} ({runs}): "
            f"largest error {self.max_abs_error:.3g}, relative {self.max_rel_error:.3g}"
        )


@dataclass
class ExportReport:
    """The model that an export wrote, in numbers.

    >>> print(ExportReport(path="m.onnx", opset=20, ir_version=10, inputs={"x": "float32 (batch, 3)"}))
    exported to m.onnx (opset 20, IR 10)
      inputs    x: float32 (batch, 3)
      outputs   none
      nodes     0
      weights   0 in 0 B
      verified  no
    """

    path: str | None
    """The file of the model; None if it was not written."""
    opset: int
    """The version of the set of operators."""
    ir_version: int
    """The version of the file format."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Name -> element type and shape, as text."""
    outputs: dict[str, str] = field(default_factory=dict)
    """The same of the outputs."""
    node_count: int = 0
    """The number of operators."""
    op_histogram: dict[str, int] = field(default_factory=dict)
    """ONNX operator -> how often it is used, the most frequent first."""
    initializers: int = 0
    """The number of weights and constants."""
    initializer_bytes: int = 0
    """The bytes of all of them."""
    external_data: str | None = None
    """The file beside the model that holds its weights, if they are not in it."""
    is_random: bool = False
    """Whether the model draws random numbers, so that its outputs cannot be compared."""
    conditions: list[str] = field(default_factory=list)
    """Requirements on the sizes of dynamic axes, without which the model need not be right, and who asks for them."""
    verified: Verified | None = None
    """The check of the model; None without one."""
    warnings: list[str] = field(default_factory=list)
    """Remarks, a sentence each."""

    def __str__(self) -> str:
        ops = ", ".join(f"{name} {count}" for name, count in self.op_histogram.items())
        lines = [
            self._title(),
            f"  inputs    {_listed(self.inputs)}",
            f"  outputs   {_listed(self.outputs)}",
            f"  nodes     {self.node_count}{f': {ops}' if ops else ''}",
            f"  weights   {self.initializers} in {_bytes(self.initializer_bytes)}"
            + (f", kept in {self.external_data}" if self.external_data else ""),
            f"  verified  {self.verified or 'no'}",
        ]
        lines += [f"  holds for {text}" for text in self.conditions]
        return "\n".join(lines + [f"  warning   {text}" for text in self.warnings])

    def as_text_for(self, path: str) -> str:
        """The report as the ending of a file's name asks for it: .json, .md, .html, or plain text."""
        ending = path.rpartition(".")[2].lower()
        makers = {"json": self.to_json, "md": self.to_markdown, "html": self.to_html, "htm": self.to_html}
        return makers.get(ending, self.__str__)() + "\n"

    def to_markdown(self) -> str:
        """The same as `str` says, as tables of Markdown."""
        lines = [f"# {self._title()}", ""]
        for heading, rows in self._tables():
            lines += [f"| {heading} | |", "|---|---|"]
            lines += [f"| {_in_markdown(left)} | {_in_markdown(right)} |" for left, right in rows] + [""]
        return "\n".join(lines).rstrip()

    def to_html(self) -> str:
        """The same as `str` says, as a page."""
        parts = [f"<h1>{escape(self._title())}</h1>"]
        for heading, rows in self._tables():
            cells = (f"<tr><td>{escape(left)}</td><td>{escape(right)}</td></tr>" for left, right in rows)
            parts.append(f"<h2>{escape(heading)}</h2>\n<table>\n" + "\n".join(cells) + "\n</table>")
        head = f'<head><meta charset="utf-8"><title>{escape(self._title())}</title>{_STYLE}</head>'
        return f"<!DOCTYPE html>\n<html>{head}<body>\n" + "\n".join(parts) + "\n</body></html>"

    def _title(self) -> str:
        return f"exported to {self.path or 'memory'} (opset {self.opset}, IR {self.ir_version})"

    def _tables(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Headings, and rows of two columns under each."""
        yield "inputs", [*self.inputs.items()] or [("none", "")]
        yield "outputs", [*self.outputs.items()] or [("none", "")]
        yield f"{self.node_count} nodes", [(name, str(count)) for name, count in self.op_histogram.items()]
        kept = [("kept in", self.external_data)] if self.external_data else []
        yield "weights", [("tensors", str(self.initializers)), ("bytes", _bytes(self.initializer_bytes)), *kept]
        yield "checks", [
            ("verified", str(self.verified or "no")), *(("holds for", text) for text in self.conditions),
            *(("warning", text) for text in self.warnings),
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain lists, dicts, strings and numbers."""
        return asdict(self)

    def to_json(self, indent: int | None = 2) -> str:
        """Everything, as JSON."""
        return json.dumps(self.to_dict(), indent=indent)


_STYLE = "<style>body{font-family:sans-serif} td{border:1px solid #ccc;padding:2px 8px}</style>"


def _in_markdown(text: str) -> str:
    """Text in a cell of a table."""
    return "".join(f"\\{sign}" if sign in "|*_`<>" else sign for sign in text)


def _run_text(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items()) or "no inputs"


def _listed(items: dict[str, str]) -> str:
    return ", ".join(f"{name}: {text}" for name, text in items.items()) or "none"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
