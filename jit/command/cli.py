"""The command line: `jit export-onnx`, `jit inspect`, `jit run`, `jit coverage`,
`jit doctor`.

Exit codes: 0 done, 1 the work failed (an unsupported operator, a mismatch), 2 the call was wrong. Errors are a sentence
on stderr, never a traceback of ours.
"""

from __future__ import annotations

import io
import json
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

import jit
from jit.eager.context import PACKAGE
from jit.ir.errors import Error, UsageError
from jit.ir.files import write_atomically

DONE, FAILED, WRONG_CALL = 0, 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="jit-tracer")
def cli() -> None:
    """Trace, look at, run and export tensor programs.

    TARGET is path/to/file.py:name or package.module:name: a function, a traced function, a Module, or a factory of one.
    """


_input = click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help='An input: "x=float32[1,3,224,224]", a .npy or a .npz file. Default: example_inputs of the target.',
)


@cli.command("export-onnx")
@click.argument("target")
@click.option("--output", "-o", required=True, type=click.Path(dir_okay=False), help="Where to write the model.")
@_input
@click.option("--opset", type=int, default=None, help="ONNX operator set, 9 to 26; 20 by default.")
@click.option(
    "--dynamic",
    multiple=True,
    metavar="x:0=batch[:1:64]",
    help="A size that may differ from run to run, and its least and greatest value.",
)
@click.option("--input-names", default=None, help="Comma-separated names for the model's inputs.")
@click.option("--output-names", default=None, help="Comma-separated names for the model's outputs.")
@click.option("--stage", type=click.IntRange(min=0), default=0, help="0 the function, 1 its gradients, ...")
@click.option("--training", is_flag=True, help="Export modules as they train.")
@click.option("--verify/--no-verify", default=True, help="Run the model with onnxruntime and compare.")
@click.option(
    "--external-data", type=click.Choice(["auto", "always", "never"]), default="auto", help="Weights beside the model."
)
@click.option("--report", type=click.Path(dir_okay=False), default=None, help="Also write the report: .json or text.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def export_command(
    target: str, output: str, inputs: Sequence[str], opset: int | None, dynamic: Sequence[str],
    input_names: str | None, output_names: str | None, stage: int, training: bool, verify: bool,
    external_data: str, report: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Export TARGET as an ONNX model and check it with onnxruntime.

    \f
    Args: of target, output, inputs, opset, dynamic, input_names, output_names, stage, training, verify, external_data,
    report and as_json, see the options.
    """
    from .targets import load_inputs, load_target, parse_dynamic

    loaded = load_target(target)
    args, kwargs = load_inputs(loaded, inputs)
    made = jit.export_onnx(
        loaded.function, args, output, kwargs=kwargs, input_names=_names(input_names),
        output_names=_names(output_names), opset_version=opset, stage=stage, training=training,
        dynamic_axes=parse_dynamic(dynamic) or getattr(loaded.module, "dynamic_axes", None),
        verify=verify, external_data=external_data,
    )  # fmt: skip
    if report is not None:
        write_atomically(report, (made.to_json() if report.endswith(".json") else str(made)) + "\n")
    click.echo(made.to_json() if as_json else str(made))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


@cli.command("inspect")
@click.argument("target")
@_input
@click.option(
    "--save", type=click.Path(dir_okay=False), default=None, help="Also save the graph: .html, .svg, .dot or .ir."
)
@click.option("--optimized", is_flag=True, help="Show the graph after the passes.")
@click.option("--backward", is_flag=True, help="Record the backward too.")
def inspect_command(target: str, inputs: Sequence[str], save: str | None, optimized: bool, backward: bool) -> None:
    """Print the graph that TARGET is traced to, and what was baked into it.

    \f
    Args: of target, inputs, save, optimized and backward, see the options.
    """
    traced, args, kwargs = _traced(target, inputs, backward)
    result = traced(*args, **kwargs)
    if backward:
        _run_backward(result)
    graph = traced.graphs[-1].graph if optimized else traced.graph
    click.echo(str(graph))
    for constant in traced.constants():
        where = f" at {constant.source}," if constant.source else ""
        click.echo(f"constant %{constant.name}: {constant.nbytes} bytes,{where} {constant.reason}")
    if save is not None:
        graph.save(save)
        click.echo(f"saved to {save}")


def _traced(target: str, inputs: Sequence[str], gradients: bool = False) -> tuple[Any, Any, Any]:
    from ..tracing.function import TracedFunction
    from .targets import load_inputs, load_target, tensors_of

    loaded = load_target(target)
    args, kwargs = load_inputs(loaded, inputs)
    if gradients:
        for tensor in tensors_of((args, kwargs)):
            if tensor.dtype.is_floating_point and tensor.is_leaf:
                tensor.requires_grad_()
    traced = loaded.function if isinstance(loaded.function, TracedFunction) else jit.trace(loaded.function)
    return traced, args, kwargs


def _run_backward(result: Any) -> None:
    from .targets import tensors_of

    outputs = [t for t in tensors_of(result) if t.requires_grad]
    if not outputs:
        raise UsageError(
            "nothing that the target returns requires grad, so there is no backward to record; leave --backward out"
        )
    jit.autograd.backward(outputs, [jit.ones_like(t) for t in outputs])


@cli.command("run")
@click.argument("target")
@_input
@click.option("--output", "-o", type=click.Path(dir_okay=False), default=None, help="Save the outputs as .npz.")
def run_command(target: str, inputs: Sequence[str], output: str | None) -> None:
    """Run TARGET traced, and print or save what it returns.

    \f
    Args: of target, inputs and output, see the options.
    """
    from .targets import tensors_of

    traced, args, kwargs = _traced(target, inputs)
    with jit.no_grad():
        outputs = tensors_of(traced(*args, **kwargs))
    for index, tensor in enumerate(outputs):
        click.echo(f"output {index}: {tensor.dtype.name}{list(tensor.shape)}\n{tensor.detach()}")
    if output is not None:
        write_atomically(output, _archive([t._array for t in outputs]))


def _archive(arrays: Sequence[Any]) -> bytes:
    """The contents of a .npz file with `output_0`, `output_1`, ..."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **{f"output_{i}": a for i, a in enumerate(arrays)})
    return buffer.getvalue()


@cli.command("coverage")
@click.argument("target")
@_input
@click.option("--opset", type=int, default=None, help="ONNX operator set, 9 to 26; 20 by default.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def coverage_command(target: str, inputs: Sequence[str], opset: int | None, as_json: bool) -> None:
    """Say what is there for each operator that TARGET runs: derivatives, kernels, ONNX.

    \f
    Args: of target, inputs, opset and as_json, see the options.
    """
    from .targets import load_inputs, load_target

    loaded = load_target(target)
    args, kwargs = load_inputs(loaded, inputs)
    found = jit.coverage(loaded.function, *args, opset_version=opset, **kwargs)
    click.echo(found.to_json() if as_json else str(found))


@cli.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def doctor_command(as_json: bool) -> None:
    """Say what is installed, and whether each engine works here."""
    from .diagnosis import diagnose

    findings = diagnose()
    if as_json:
        click.echo(json.dumps([f._asdict() for f in findings], indent=2))
    else:
        for finding in findings:
            status = "ok  " if finding.works else "none" if finding.optional else "FAIL"
            click.echo(f"{status}  {finding.name:<14} {finding.detail}")
    if not all(f.works or f.optional for f in findings):
        sys.exit(FAILED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `jit` command."""
    sys.exit(_run(lambda: cli.main(args=arguments, prog_name="jit", standalone_mode=False)))


def _user_line(error: Exception) -> str:
    """The user's line where it happened: the innermost frame that is not this package's, a library's or Python's."""
    foreign = (PACKAGE, *sysconfig.get_paths().values(), "<")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(foreign)]
    if not frames or f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" in str(error):  # errors of ours name it
        return ""
    return f" ({frames[-1].filename}, line {frames[-1].lineno})"


def _run(command: Callable[[], Any]) -> int:
    try:
        command()
    except click.ClickException as error:
        error.show()
        return WRONG_CALL
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return FAILED
    except Error as error:
        click.echo(f"error: {error}{_user_line(error)}", err=True)
        return WRONG_CALL if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:
        return FAILED
    except Exception as error:  # raised by the user's own code, which the command has run
        click.echo(f"error: {type(error).__name__}: {error}{_user_line(error)}", err=True)
        return FAILED
    return DONE


if __name__ == "__main__":
    main()
