"""Runs an ONNX model beside the program that it was made from, and finds the first node where they part."""

from __future__ import annotations

import ctypes
import math
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import ExportError, UsageError, VerificationError

from . import writer
from .complexes import as_pairs
from .opsets import ELEMENT_TYPES
from .report import Verified

if TYPE_CHECKING:
    import onnx_ir

Arrays = Mapping[str, np.ndarray[Any, Any]]
BFLOAT16 = ELEMENT_TYPES[dtypes.bfloat16]
Run = Callable[[Arrays], dict[str, Any]]


class Tolerance(NamedTuple):
    """Values agree where |actual - expected| <= relative * |expected| + of_largest * max |expected| + absolute, and a
    floor."""

    relative: float
    of_largest: float
    of_one: float = 0.0
    """The spacing of numbers next to 1, which is the floor in runs with values that large: engines compute a sigmoid as
    0.5 plus something, so a tiny result has the rounding error of the 0.5."""
    absolute: float = 0.0


EXACT = Tolerance(0.0, 0.0)
TOLERANCES: dict[DType, Tolerance] = {
    dtypes.float64: Tolerance(1e-6, 1e-7, 2.0**-52),  # the attributes of ONNX operators are float32
    dtypes.float32: Tolerance(1e-4, 1e-5, 2.0**-23),
    dtypes.float16: Tolerance(1e-2, 5e-3),
    dtypes.bfloat16: Tolerance(5e-2, 4e-2),
}
"""The tolerance between two engines, by the element type of a tensor; types that are not listed agree exactly."""
OF_THE_NOISE = 8.0
"""A further tolerance: multiples of how much a result changes if the inputs are rounded otherwise."""
OF_THE_REFERENCE = {**TOLERANCES, dtypes.float64: TOLERANCES[dtypes.float32]}
"""The tolerances for onnx.reference, which computes some functions of float64 in float32."""


def with_tolerance(
    rows: Mapping[DType, Tolerance], rtol: float | None, atol: float | None
) -> Mapping[DType, Tolerance]:
    """Rows that replace those of `TOLERANCES`, with a user's own tolerances.

    Args:
        rows: The rows without them.
        rtol: The relative error that the user allows; None to leave that as it is.
        atol: The absolute error, likewise.

    Raises:
        UsageError: One is no number, or negative.
    """
    for name, number in (("rtol", rtol), ("atol", atol)):
        if number is not None and (not isinstance(number, (int, float)) or not 0 <= number < math.inf):
            raise UsageError(f"{name} must be a number of at least 0, got {number!r}.")
    if rtol is None and atol is None:
        return rows
    rows = {**TOLERANCES, **rows}
    if rtol is not None:
        rows = {dtype: row._replace(relative=rtol) for dtype, row in rows.items()}
    if atol is not None:
        rows = {dtype: row._replace(of_largest=0.0, of_one=0.0, absolute=atol) for dtype, row in rows.items()}
    return rows


def coarsened(dtypes_met: Collection[DType | None]) -> dict[DType, Tolerance]:
    """The rows for results of a graph in which there are also numbers of 16 bits: their tolerance holds for all."""
    met = next((half for half in (dtypes.bfloat16, dtypes.float16) if half in dtypes_met), None)
    return {} if met is None else {row: TOLERANCES[met] for row in (dtypes.float32, dtypes.float64)}


STEPS = 4
"""The steps of a quantisation by which results may differ: where rounding errors let an element fall between two
integers, engines may take either, and what is computed from it differs by that."""


def of_steps(model: Any) -> dict[DType, Tolerance]:
    """The rows for a model that quantises, by its coarsest quantisation; none for others.

    Args:
        model: An `onnx_ir.Model`, or the path of a file.
    """
    nodes = [node for node in _loaded(model).graph if node.op_type == "QuantizeLinear"]
    types = [node.outputs[0].dtype for node in nodes]
    if not types:
        return {}
    bits = min(8 if each is None else each.bitwidth for each in types)
    return {dtype: Tolerance(0.0, STEPS / 2**bits) for dtype in (dtypes.float16, dtypes.float32, dtypes.float64)}


@dataclass
class Verification:
    """The findings of a verification: all runs agreed (otherwise it would have raised)."""

    engine: str
    """The program that ran the model."""
    max_abs_error: float = 0.0
    """The largest difference of two elements."""
    max_rel_error: float = 0.0
    """The largest error relative to the largest magnitude of its tensor."""
    sizes: list[dict[str, list[int]]] = field(default_factory=list)
    """The shapes of the inputs, one entry for each run."""

    def for_report(self) -> Verified:
        """The same as an ExportReport holds it."""
        return Verified(self.engine, self.max_abs_error, self.max_rel_error, self.sizes)


def verify_model(
    model: Any,
    feeds: Sequence[Arrays],
    expected: Sequence[Sequence[Any]],
    *,
    tolerances: Mapping[DType, Tolerance] | None = None,
    intermediates: Callable[[int], Mapping[str, Any]] | None = None,
    noisy: Callable[[int], Sequence[Any]] | None = None,
    amplified: int = 0,
) -> Verification:
    """Run a model and compare its outputs with what they should be.

    Args:
        model: An `onnx_ir.Model`, an `Exported`, or the path of a file.
        feeds: For each run, the inputs by name.
        expected: For each run, the outputs in order.
        tolerances: Rows that replace those of `TOLERANCES`.
        intermediates: `intermediates(run)` gives what values inside the model should be, by name; with it, a mismatch
            is traced to the first node that is wrong. It is only called after a mismatch.
        noisy: `noisy(run)` gives the outputs for inputs that are rounded otherwise: results that are rounding errors
            alone, such as a sum that should be 0, may differ by about as much. Only called after a mismatch, too.
        amplified: How many of the last outputs have rounding errors that may be any size: an optimizer that divides by
            the size of a gradient makes whole steps of one that should be 0, as that of a bias before a batch norm.

    Returns:
        What ran the model, the largest errors, and the sizes that were tried.

    Raises:
        VerificationError: If outputs differ; it names the output or the first node that differs, and the user's line.
        ExportError: If the model cannot be loaded or run.
    """
    if len(feeds) != len(expected):
        raise UsageError(
            f"There are {len(feeds)} sets of inputs, but {len(expected)} of expected outputs; pass one of each per run."
        )
    subject = getattr(model, "model", model)
    engine, run = open_engine(subject)
    table = {**(TOLERANCES if engine.startswith("onnxruntime") else OF_THE_REFERENCE), **(tolerances or {})}
    found = Verification(engine)
    for index, (feed, wanted) in enumerate(zip(feeds, expected)):
        feed = {name: as_pairs(array) for name, array in feed.items()}
        outputs = run(feed)
        if len(outputs) != len(wanted):
            raise UsageError(
                f"The model has {len(outputs)} outputs, but {len(wanted)} are expected; pass one for each."
            )
        found.sizes.append({name: list(np.shape(array)) for name, array in feed.items()})
        for place, ((name, actual), reference) in enumerate(zip(outputs.items(), wanted)):
            scale = largest_of([*feed.values(), *wanted])
            difference = compare(actual, reference, table, scale)
            if difference.message and noisy is not None:
                is_amplified = place >= len(outputs) - amplified
                difference = compare(actual, reference, table, scale, noisy(index)[place], is_amplified)
            if difference.message and (steps := of_steps(subject)):
                difference = compare(actual, reference, steps, scale)
            if difference.message:
                raise _disagreement(subject, feed, name, difference, table, intermediates and intermediates(index))
            found.max_abs_error = max(found.max_abs_error, difference.absolute)
            found.max_rel_error = max(found.max_rel_error, difference.relative)
    return found


# -- comparing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The difference of two arrays; an empty message means that they agree."""

    message: str = ""
    absolute: float = 0.0
    relative: float = 0.0
    """The largest error by the largest magnitude."""


def largest_of(arrays: Sequence[Any]) -> float:
    """The largest finite magnitude of any floating element."""
    floats = [a for a in map(as_pairs, arrays) if dtypes.from_numpy(a.dtype).is_floating_point]
    wide = [np.abs(np.asarray(a, np.float64)) for a in floats]
    return max((float(np.max(a, where=np.isfinite(a), initial=0.0)) for a in wide), default=0.0)


def compare(
    actual: Any, expected: Any, table: Mapping[DType, Tolerance] = TOLERANCES, scale: float = 0.0, noisy: Any = None,
    amplified: bool = False,
) -> Difference:  # fmt: skip
    """Compare two arrays in shape, element type and, within the table's tolerance, in value; NaN equals NaN.

    Args:
        actual: The array to check.
        expected: The array that it should be.
        table: Tolerances by element types.
        scale: The largest magnitude in the run that the arrays belong to.
        noisy: What is expected when the inputs of the run have been rounded otherwise.
        amplified: Whether rounding errors in the arrays may be any size.
    """
    got, want = np.asarray(actual), as_pairs(expected)
    if got.shape != want.shape:
        return Difference(f"its shape is {got.shape} instead of {want.shape}")
    if got.dtype != want.dtype:
        return Difference(f"its element type is {got.dtype} instead of {want.dtype}")
    limit = table.get(dtypes.from_numpy(want.dtype), EXACT)
    if limit == EXACT:
        return _compare_exactly(got, want)
    wide = want.astype(np.float64)
    floor = limit.of_one * min(scale, 1.0) + limit.absolute
    if noisy is not None:
        most = OF_THE_NOISE * _noise(wide, as_pairs(noisy))
        floor = max(floor, most if amplified else min(most, limit.of_largest * scale))
    return _compare_floats(got.astype(np.float64), wide, limit, floor)


def _noise(expected: Any, noisy: Any) -> float:
    """The largest difference of the elements of two arrays; 0 if their shapes differ."""
    if noisy.shape != expected.shape:
        return 0.0
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(noisy, np.float64) - expected)
    return float(np.max(apart, where=np.isfinite(apart), initial=0.0))


def _compare_exactly(got: Any, want: Any) -> Difference:
    wrong = np.flatnonzero(got != want)
    if not wrong.size:
        return Difference()
    first = np.unravel_index(wrong[0], got.shape)
    place = [int(i) for i in first]
    found = f"{got[first]} instead of {want[first]}"
    return Difference(f"{wrong.size} of {got.size} elements differ, the first at {place}: {found}")


def _compare_floats(got: Any, want: Any, limit: Tolerance, floor: float) -> Difference:
    with np.errstate(all="ignore"):
        finite = np.isfinite(want)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.where(same, 0.0, np.abs(got - want))
        largest = float(np.max(np.abs(want), where=finite, initial=0.0))
        agrees = same | (error <= limit.relative * np.abs(want) + limit.of_largest * largest + floor) & finite
    absolute = float(np.max(error, where=np.isfinite(error), initial=0.0))
    relative = absolute / largest if largest else 0.0
    wrong = np.flatnonzero(~agrees)
    if not wrong.size:
        return Difference("", absolute, relative)
    worst = wrong[int(np.argmax(np.nan_to_num(error.flat[wrong], nan=np.inf)))]
    place = np.unravel_index(worst, got.shape)
    found = f"{got[place]:.7g} instead of {want[place]:.7g}"
    text = f"{wrong.size} of {got.size} elements differ, most at {[int(i) for i in place]}: {found}"
    return Difference(text, absolute, relative)


# -- bisecting ---------------------------------------------------------------------------------------------------


def _disagreement(
    model: Any,
    feed: Arrays,
    output: str,
    difference: Difference,
    table: Mapping[DType, Tolerance],
    known: Mapping[str, Any] | None,
) -> VerificationError:
    """The error for an output that is wrong, with the first node that is."""
    shapes = ", ".join(f"{name} {tuple(np.shape(array))}" for name, array in feed.items())
    text = (
        f"The exported model disagrees with the program for inputs {shapes}: output {output!r}, {difference.message}."
    )
    culprit = first_divergence(model, feed, known, table) if known else None
    if culprit is not None:
        text += f"\nThe first node that differs is {culprit}."
    return VerificationError(text)


def first_divergence(
    model: Any, feed: Arrays, known: Mapping[str, Any], table: Mapping[DType, Tolerance] = TOLERANCES
) -> str | None:
    """A description of the first node, in the order of the model, one of whose outputs is not what `known` says.

    Args:
        model: The model.
        feed: The inputs by name.
        known: The right values of outputs of nodes, by name.
        table: The tolerances by element type.
    """
    subject = _loaded(model)
    watched = [(node, value) for node in subject.graph for value in node.outputs if value.name in known]
    with _exposed(subject, [value for _, value in watched]) as wider:
        outputs = open_engine(wider)[1](feed)
    for node, value in watched:
        difference = compare(outputs[str(value.name)], known[str(value.name)], table)
        if difference.message:
            return f"{_described(node)}: {difference.message}"
    return None


def _described(node: onnx_ir.Node) -> str:
    """`Net/fc/linear (Gemm, from aten::linear at model.py:12 in forward)`."""
    origin = node.metadata_props
    made_from = f", from {origin['jit.op']}" if "jit.op" in origin else ""
    where = f" at {origin['jit.source']}" if "jit.source" in origin else ""
    return f"{node.name!r} ({node.op_type}{made_from}{where})"


class _exposed:  # noqa: N801 - read as a verb: with _exposed(model, values) as wider
    """The model with further outputs, for a while."""

    def __init__(self, model: onnx_ir.Model, values: Sequence[onnx_ir.Value]) -> None:
        self.model = model
        self.before = list(model.graph.outputs)
        self.added = [value for value in values if value not in self.before]

    def __enter__(self) -> onnx_ir.Model:
        self.model.graph.outputs.extend(self.added)
        return self.model

    def __exit__(self, *_: object) -> None:
        self.model.graph.outputs.clear()
        self.model.graph.outputs.extend(self.before)


# -- engines -----------------------------------------------------------------------------------------------------


def open_engine(model: Any) -> tuple[str, Run]:
    """An engine for the model: its name and its function from inputs to outputs: onnxruntime, else onnx's reference."""
    try:
        import onnxruntime
    except ImportError:
        return _open_reference(model, "onnxruntime is not installed")
    try:
        return f"onnxruntime {onnxruntime.__version__}", _open_onnxruntime(model)
    except _NotImplementedByEngine as gap:
        return _open_reference(model, str(gap))


def _open_onnxruntime(model: Any) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # the model as it is, not sums of integers
    with _as_loadable(model) as source:
        try:
            session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a class for each of its status codes, and no common base
            if type(error).__name__ == "NotImplemented":
                raise _NotImplementedByEngine(_gap(error)) from error
            raise ExportError(f"onnxruntime does not load the exported model: {_first_line(error)}") from error
    outputs = [output.name for output in session.get_outputs()]

    def run(feed: Arrays) -> dict[str, Any]:
        values = {name: _to_engine(array) for name, array in feed.items()}
        try:
            found = session.run_with_ort_values(outputs, values)
        except Exception as error:
            raise ExportError(f"onnxruntime does not run the exported model: {_first_line(error)}") from error
        return {name: _from_engine(value) for name, value in zip(outputs, found)}

    return run


class _NotImplementedByEngine(Exception):
    """A valid model that onnxruntime has no kernel for."""


def _gap(error: Exception) -> str:
    """`onnxruntime has no Tan(7) for these element types`."""
    found = re.search(r"implementation for (\S+)", str(error))
    return f"onnxruntime has no {found[1] if found else 'implementation'} for these element types"


def _open_reference(model: Any, why: str) -> tuple[str, Run]:
    import onnx
    import onnx.reference

    with _as_loadable(model) as source:
        evaluator = onnx.reference.ReferenceEvaluator(
            onnx.load_from_string(source) if isinstance(source, bytes) else source
        )

    def run(feed: Arrays) -> dict[str, Any]:
        try:
            found = evaluator.run(None, dict(feed))
        except Exception as error:
            raise ExportError(f"onnx.reference does not run the exported model: {_first_line(error)}") from error
        return dict(zip(evaluator.output_names, found))

    return f"onnx.reference {onnx.__version__} (because {why})", run


class _as_loadable:  # noqa: N801 - read as a verb
    """A model as engines load it: bytes, or a path where weights lie beside the model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> bytes | str:
        if isinstance(self.model, (str, os.PathLike)):
            if not os.path.isfile(self.model):
                raise UsageError(f"There is no model file {os.fspath(self.model)!r}; pass the path of one.")
            return os.fspath(self.model)
        if writer.initializer_bytes(self.model) <= writer.EXTERNAL_ABOVE:
            return writer.to_bytes(self.model)
        self.folder = tempfile.TemporaryDirectory(prefix="jit-verify-")
        target = Path(self.folder.name, "model.onnx")
        writer.write_model(self.model, target)
        return str(target)

    def __exit__(self, *_: object) -> None:
        if self.folder is not None:
            self.folder.cleanup()


def _loaded(model: Any) -> onnx_ir.Model:
    import onnx_ir

    return onnx_ir.load(model) if isinstance(model, (str, os.PathLike)) else model


def _to_engine(array: Any) -> Any:
    """An OrtValue: numpy alone cannot say bfloat16."""
    import onnxruntime

    array = np.asarray(array, order="C")
    if array.dtype == dtypes.bfloat16.numpy:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _from_engine(value: Any) -> Any:
    if value.element_type() != BFLOAT16:
        return value.numpy()
    shape = tuple(value.shape())
    data = ctypes.string_at(value.data_ptr(), 2 * math.prod(shape))
    return np.frombuffer(data, dtypes.bfloat16.numpy).reshape(shape)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
