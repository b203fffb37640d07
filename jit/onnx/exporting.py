"""`jit.onnx`: export by PyTorch's names. `jit.export_onnx` is the function behind it; it reports, and verifies."""

from __future__ import annotations

import enum
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jit.eager import context
from jit.tracing.exporting import ExportReport, export_onnx


class TrainingMode(enum.Enum):
    """Whether a module is exported as it trains."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Ways to write operators that ONNX does not know: with the first not at all, else in a domain of their own."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def export(
    model: Any, args: Any = (), f: Any = None, *, kwargs: Mapping[str, Any] | None = None, verbose: Any = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamic_axes: Any = None, training: Any = TrainingMode.EVAL,
    keep_initializers_as_inputs: bool | None = False, do_constant_folding: bool = True,
    operator_export_type: Any = OperatorExportTypes.ONNX, export_modules_as_functions: Any = False, verify: bool = True,
    **others: Any,
) -> ExportReport:  # fmt: skip
    """Export a function or module as an ONNX model.

    Args:
        model: A function of tensors, a traced function, or a Module.
        args: The arguments to trace with; a dictionary at the end holds those by name.
        f: Where to write the model: a path, or a file open for bytes.
        kwargs: Arguments to trace with by name.
        verbose: Print the report.
        input_names: Names of the model's inputs.
        output_names: Names of its outputs.
        opset_version: ONNX operator set.
        dynamic_axes: Sizes that may differ from run to run, as `jit.export_onnx` takes them.
        training: Whether the module is exported as it trains.
        keep_initializers_as_inputs: Let runs override parameters.
        do_constant_folding: Compute now what depends on weights alone, and fold batch norms into convolutions.
        operator_export_type: Whether operators that ONNX does not know are written in a domain of their own.
        export_modules_as_functions: Whether modules are functions of the model; or the classes of those that are.
        verify: Run the model and compare.
        others: Accepted and ignored: choices of PyTorch's exporter.

    >>> import io, jit
    >>> file = io.BytesIO()
    >>> report = jit.onnx.export(jit.nn.Linear(2, 1), (jit.ones(1, 2),), file)
    >>> file.tell() > 0
    True
    """
    if others.get("dynamic_shapes"):
        context.warn("torch.onnx.export ignores dynamic_shapes= here; say dynamic_axes={name: {dim: size}}")
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], {**args[-1], **(kwargs or {})}
    with _path(f) as path:
        report = export_onnx(
            model, args, path, kwargs=kwargs, input_names=input_names, output_names=output_names,
            dynamic_axes=dynamic_axes, opset_version=opset_version, verify=verify, training=_trains(model, training),
            keep_initializers_as_inputs=bool(keep_initializers_as_inputs), fold=do_constant_folding,
            fallthrough=operator_export_type not in (None, OperatorExportTypes.ONNX, OperatorExportTypes.ONNX.value),
            functions=_functions(export_modules_as_functions),
        )  # fmt: skip
    if verbose:
        print(report)
    return report


def _functions(asked: Any) -> Any:
    return list(asked) if isinstance(asked, (set, frozenset, list, tuple)) else bool(asked)


def _trains(model: Any, mode: Any) -> bool:
    if mode in (TrainingMode.PRESERVE, TrainingMode.PRESERVE.value):
        return bool(getattr(model, "training", False))
    return mode in (TrainingMode.TRAINING, TrainingMode.TRAINING.value)


@contextmanager
def _path(target: Any) -> Iterator[Any]:
    """A path to write to; what is written is copied to an open file, if that is the target."""
    if not hasattr(target, "write"):
        yield target
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        yield path
        target.write(path.read_bytes())


def is_in_onnx_export() -> bool:
    """Whether the caller is being recorded, which is how it is exported."""
    return context.TRACE.get() is not None


__all__ = ["OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]
