"""ONNX operators and the functions of tensors that compute them: one declaration each, under `operators/`.

    @operator("Gelu", since=20)
    def gelu(x: Tensor, *, approximate="none"):
        return F.gelu(x, approximate=approximate)

The parameters before the star are the operands, those after it the attributes, under ONNX's names. An annotation says
what an operand becomes: `Tensor`; `Operand`, a tensor or a number of Python; `Numbers`, `Number`, what Python knows,
such as axes; `Any`, the value as it is. An operand that an older version had as an attribute is found under the same
name among the attributes. Defaults of attributes are ONNX's own unless the declaration has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from jit.eager.tensors import Tensor
from jit.ir.errors import ModelError

from .values import Known, as_list, as_number, as_operand, as_tensor

Operand = Tensor | float
Numbers = list[Any]
Number = float
OnData = bool | Callable[[Mapping[str, Any], Sequence[Any]], bool]

FAMILIES = (
    "pointwise", "casts", "shapes", "indexing", "reductions", "products", "pooling", "norms", "resizing", "recurrent",
    "attention", "quantized", "control", "sequences", "signals", "losses", "random",
)  # fmt: skip
"""The modules of `operators/`."""

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "Tensor": as_tensor, "Operand": as_operand, "Numbers": as_list, "Number": as_number, "Any": lambda value: value,
}  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """One version of an ONNX operator."""

    name: str
    domain: str
    since: int
    """The first opset that it is meant for."""
    function: Callable[..., Any]
    on_host: Callable[..., Any] | None
    """A function of arrays of numpy, for operands that the host knows."""
    operands: tuple[tuple[str, Callable[[Any], Any]], ...]
    variadic: Callable[[Any], Any] | None
    """The conversion of all operands where any number of them is taken."""
    attributes: Mapping[str, Any]
    """Names of attributes with the defaults of the declaration, `inspect.Parameter.empty` where it has none."""
    on_data: OnData
    """Whether Python looks at elements of tensors, so that no recording can repeat it."""
    takes: frozenset[str]
    """Names of what the walk passes beside attributes: `outputs`, how many there are up to the last that is used;
    `version`, the opset."""

    def __reduce__(self) -> Any:
        return find, (self.domain, self.name, self.since)

    def call(self, values: Sequence[Any], attributes: Mapping[str, Any], told: Mapping[str, Any]) -> Any:
        """The results for these operands; `told` holds what `takes` may ask for."""
        attributes = dict(attributes)
        if self.variadic is not None:
            operands = [self.variadic(value) for value in values]
        else:
            operands = [self._operand(i, values, attributes) for i in range(max(len(self.operands), len(values)))]
        known = {k: v for k, v in attributes.items() if k in self.attributes}
        if strange := sorted(attributes.keys() - known.keys() - _SILENT):
            raise ModelError(f"the attribute {strange[0]!r} of {self.name} is not known")
        return self.function(*operands, **known, **{name: told[name] for name in self.takes})

    def _operand(self, index: int, values: Sequence[Any], attributes: dict[str, Any]) -> Any:
        if index >= len(self.operands):
            raise ModelError(f"{self.name} takes at most {len(self.operands)} operands, not {len(values)}")
        name, convert = self.operands[index]
        given = values[index] if index < len(values) else None
        older = attributes.pop(name, None) if name not in self.attributes else None
        if convert is as_operand and not any(isinstance(value, Tensor) for value in values):
            convert = as_tensor  # a number has no dtype, so one operand has to be a tensor
        return convert(given if given is not None else older)


_SILENT = frozenset({"consumed_inputs"})
"""Attributes of opset 1 that only speak of memory."""
_TABLE: dict[tuple[str, str], list[Operator]] = {}
TOLD = frozenset({"outputs", "version"})
"""Names of what the walk passes beside attributes."""


def operator(
    *names: str, since: int = 1, domain: str = "", on_host: Callable[..., Any] | None = None, on_data: OnData = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the function that computes an ONNX operator.

    Args:
        names: The operator's name; further names for the same.
        since: The first opset it is meant for; the newest that is not above the model's opset is taken.
        domain: The operator set; ONNX's own by default.
        on_host: What computes it on arrays of numpy where the host knows all operands.
        on_data: Whether Python looks at elements of tensors, so that a model that has it runs untraced; if that depends
            on the node, a function of its attributes and of the dtypes of its operands, None for those that vary.

    >>> import jit
    >>> @jit.onnx.operator("Double", domain="my.domain")
    ... def double(x: jit.Tensor):
    ...     return x * 2
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            versions = _TABLE.setdefault((domain, name), [])
            versions[:] = [known for known in versions if known.since != since]
            versions.append(_declared(name, domain, since, function, on_host, on_data))
            versions.sort(key=lambda known: known.since)
        return function

    return declare


def _declared(
    name: str, domain: str, since: int, function: Callable[..., Any], on_host: Callable[..., Any] | None,
    on_data: OnData,
) -> Operator:  # fmt: skip
    parameters = inspect.signature(function).parameters.values()
    operands = [(p.name, _conversion(p)) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    variadic = [_conversion(p) for p in parameters if p.kind is p.VAR_POSITIONAL]
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    attributes = {name: default for name, default in keywords.items() if name not in TOLD}
    return Operator(
        name, domain, since, function, on_host, tuple(operands), variadic[0] if variadic else None, attributes, on_data,
        frozenset(keywords).intersection(TOLD),
    )  # fmt: skip


def _conversion(parameter: inspect.Parameter) -> Callable[[Any], Any]:
    kind = str(parameter.annotation).split("|")[0].strip().rpartition(".")[2]
    return _CONVERSIONS.get(kind, as_tensor)


def find(domain: str, name: str, version: int) -> Operator | None:
    """The declaration for a model of this opset, or None."""
    _declare_all()
    versions = _TABLE.get((domain, name), [])
    fitting = [known for known in versions if known.since <= version]
    return fitting[-1] if fitting else None


@cache
def _declare_all() -> None:
    """Import the families, once."""
    for family in FAMILIES:
        import_module(f"{__package__}.operators.{family}")


def known_operators() -> list[tuple[str, str, int]]:
    """Domain, name and first opset of all declarations."""
    find("", "", 0)
    return sorted((op.domain, op.name, op.since) for versions in _TABLE.values() for op in versions)


__all__ = ["Any", "Known", "Number", "Numbers", "Operand", "Operator", "Tensor", "find", "known_operators", "operator"]
