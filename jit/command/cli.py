"""The command line: `jit export-onnx`, `inspect`, `view`, `run`, `bench`, `coverage`, `launch` and `doctor`.

Exit codes: 0 done, 1 the work failed (an unsupported operator, a mismatch), 2 the call was wrong. Errors are a sentence
on stderr, never a traceback of ours. With `--json` every command prints one JSON value on stdout, errors included.
"""

from __future__ import annotations

import io
import json
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import jit
from jit.eager.context import PACKAGE
from jit.ir.errors import Error, UsageError
from jit.ir.files import write_atomically

from .waiting import waiting

if TYPE_CHECKING:
    from .targets import CommandTarget

DONE, FAILED, WRONG_CALL = 0, 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="jit-tracer")
def cli() -> None:
    """Trace, look at, run and export tensor programs.

    TARGET is path/to/file.py:name or package.module:name: a function, a traced function, a Module, or a factory of one;
    or a file: model.onnx, or a traced function that was saved; for export-onnx also a graph that was saved as .ir.
    """


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; errors too, as an object with an 'error'.")
_input = click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help='An input: "x=float32[1,3,224,224]", "d.a=..." for d["a"], a .npy or a .npz file. Default: example_inputs of '
    "the target.",
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
@click.option("--fold/--no-fold", default=True, help="Compute now what depends on weights alone.")
@click.option("--fallthrough", is_flag=True, help="Write operators that ONNX does not know, in a domain of their own.")
@click.option("--functions", is_flag=True, help="Make functions of the model of its modules.")
@click.option("--updates-as-outputs", is_flag=True, help="Export what the target writes to, as a training step does.")
@click.option("--verify/--no-verify", default=True, help="Run the model with onnxruntime and compare.")
@click.option("--rtol", type=float, default=None, help="The error that is allowed in an element, relative to it.")
@click.option("--atol", type=float, default=None, help="The error that is allowed in any element.")
@click.option("--verify-size", "sizes", multiple=True, metavar="batch=7", help="A further size to verify with.")
@click.option(
    "--external-data", type=click.Choice(["auto", "always", "never"]), default="auto", help="Weights beside the model."
)
@click.option(
    "--report", type=click.Path(dir_okay=False), default=None, help="Also write the report: .json, .md, .html or text."
)
@_json
def export_command(
    target: str, output: str, inputs: Sequence[str], opset: int | None, dynamic: Sequence[str],
    input_names: str | None, output_names: str | None, stage: int, training: bool, fold: bool,
    fallthrough: bool, functions: bool, updates_as_outputs: bool, verify: bool, rtol: float | None,
    atol: float | None, sizes: Sequence[str], external_data: str, report: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Export TARGET as an ONNX model and check it with onnxruntime.

    \f
    Args: of target, output, inputs, opset, dynamic, input_names, output_names, stage, training, fold,
    fallthrough, functions, updates_as_outputs, verify, rtol, atol, sizes, external_data, report and as_json, see the
    options.
    """
    from .targets import load_inputs, load_target, parse_dynamic, parse_sizes

    with waiting(f"exporting {target}"):
        loaded = load_target(target, graphs=True)
        args, kwargs = load_inputs(loaded, inputs)
        made = loaded.calls(
            jit.export_onnx, loaded.function, args, output, kwargs=kwargs,
            input_names=_names(input_names) or loaded.said("input_names"),
            output_names=_names(output_names) or loaded.said("output_names"), opset_version=opset, stage=stage,
            training=training, dynamic_axes=parse_dynamic(dynamic) or loaded.said("dynamic_axes"), fold=fold,
            fallthrough=fallthrough, functions=functions, updates_as_outputs=updates_as_outputs, verify=verify,
            external_data=external_data, rtol=rtol, atol=atol, verify_inputs=parse_sizes(sizes),
        )  # fmt: skip
    if report is not None:
        write_atomically(report, made.as_text_for(report))
    click.echo(made.to_json() if as_json else str(made))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


_backward = click.option("--backward", is_flag=True, help="Record the backward too.")


@cli.command("inspect")
@click.argument("target")
@_input
@click.option(
    "--save", type=click.Path(dir_okay=False), default=None, help="Also save the graph: .html, .svg, .dot or .ir."
)
@click.option("--optimized", is_flag=True, help="Show the graph after the passes.")
@_backward
@_json
def inspect_command(
    target: str, inputs: Sequence[str], save: str | None, optimized: bool, backward: bool, as_json: bool
) -> None:
    """Print the graph that TARGET is traced to, and what was baked into it.

    \f
    Args: of target, inputs, save, optimized, backward and as_json, see the options.
    """
    with waiting(f"tracing {target}"):
        traced = _called(target, inputs, backward)[0]
        graph = traced.graphs[-1].graph if optimized else traced.graph
        if save is not None:
            graph.save(save)
    constants = [
        {"name": c.name, "bytes": c.nbytes, "source": str(c.source or ""), "reason": c.reason}
        for c in traced.constants()
    ]
    if as_json:
        click.echo(json.dumps({"graph": str(graph), "nodes": len(graph), "constants": constants, "saved": save}))
        return
    click.echo(str(graph))
    for each in constants:
        where = f" at {each['source']}," if each["source"] else ""
        click.echo(f"constant %{each['name']}: {each['bytes']} bytes,{where} {each['reason']}")
    if save is not None:
        click.echo(f"saved to {save}")


@cli.command("view")
@click.argument("target")
@_input
@click.option("--output", "-o", required=True, type=click.Path(dir_okay=False), help="Where to write the page: .html.")
@_backward
@_json
def view_command(target: str, inputs: Sequence[str], output: str, backward: bool, as_json: bool) -> None:
    """Write a page about TARGET: its graph pass by pass, kernels and their code, and the time of each line.

    \f
    Args: of target, inputs, output, backward and as_json, see the options.

    Raises:
        UsageError: The name of the page is no name of an HTML file.
    """
    if not output.endswith((".html", ".htm")):
        raise UsageError(f"the page is HTML, and {output!r} does not end in .html; name it so")
    with waiting(f"tracing {target}"):
        traced, loaded, args, kwargs = _called(target, inputs, backward)
        loaded.calls(traced.view, output, *args, **kwargs)
    about = {"saved": output, "nodes": len(traced.graph), "kernels": len(traced.kernels)}
    if as_json:
        click.echo(json.dumps(about))
    else:
        click.echo(f"saved to {output}: {about['nodes']} nodes, {about['kernels']} kernels")


def _called(target: str, inputs: Sequence[str], gradients: bool = False) -> tuple[Any, CommandTarget, Any, Any]:
    """A target after a traced call and, if asked for, a backward; with what it came from and was called with."""
    from .targets import tensors_of

    traced, loaded, args, kwargs = _traced(target, inputs)
    if gradients:
        for tensor in tensors_of((args, kwargs)):
            if tensor.dtype.is_floating_point and tensor.is_leaf:
                tensor.requires_grad_()
    result = loaded.calls(traced, *args, **kwargs)
    if gradients:
        _run_backward(result)
    return traced, loaded, args, kwargs


def _traced(target: str, inputs: Sequence[str]) -> tuple[Any, CommandTarget, Any, Any]:
    from ..tracing.function import TracedFunction
    from .targets import load_inputs, load_target

    loaded = load_target(target)
    args, kwargs = load_inputs(loaded, inputs)
    traced = loaded.function if isinstance(loaded.function, TracedFunction) else jit.trace(loaded.function)
    return traced, loaded, args, kwargs


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
@_json
def run_command(target: str, inputs: Sequence[str], output: str | None, as_json: bool) -> None:
    """Run TARGET traced, and print or save what it returns.

    \f
    Args: of target, inputs, output and as_json, see the options.
    """
    from .targets import tensors_of

    with waiting(f"running {target}"):
        traced, loaded, args, kwargs = _traced(target, inputs)
        with jit.no_grad():
            outputs = tensors_of(loaded.calls(traced, *args, **kwargs))
    if output is not None:
        names = loaded.said("output_names") or [f"output_{i}" for i in range(len(outputs))]
        write_atomically(output, _archive({name: t._array for name, t in zip(names, outputs, strict=True)}))
    if as_json:
        found = [{"dtype": t.dtype.name, "shape": list(t.shape), "values": _plain(t)} for t in outputs]
        click.echo(json.dumps({"outputs": found, "saved": output}))
        return
    for index, tensor in enumerate(outputs):
        click.echo(f"output {index}: {tensor.dtype.name}{list(tensor.shape)}\n{tensor.detach()}")


def _plain(tensor: Any) -> Any:
    """The elements as JSON has them: NaN, infinities and complex numbers are texts."""
    values = tensor.detach().tolist()
    return json.loads(json.dumps(values, default=str), parse_constant=str)


@cli.command("bench")
@click.argument("target")
@_input
@click.option("--rounds", type=click.IntRange(min=1), default=15, show_default=True, help="The median of how many.")
@click.option("--backward", is_flag=True, help="Time a backward with each call.")
@click.option("--memory", is_flag=True, help="Also measure the memory that each takes, weights included.")
@click.option("--memory-of", "side", hidden=True)
@_json
def bench_command(
    target: str, inputs: Sequence[str], rounds: int, backward: bool, memory: bool, side: str | None, as_json: bool
) -> None:
    """Time TARGET eagerly and traced: its first two traced calls, and the median of later ones; ONNX models also run
    by onnxruntime.

    \f
    Args: of target, inputs, rounds, backward, memory, side and as_json, see the options.
    """
    from .memory import grown, grown_alone
    from .timing import compare

    if side is not None:
        if side not in ("eager", "traced"):
            import_module(side.split()[0])  # before anything is counted
        click.echo(grown(lambda: _call_of(side, target, inputs, backward)))
        return
    with waiting(f"timing {target}"):
        traced, loaded, args, kwargs = _traced(target, inputs)
        eager = loaded.function if traced is not loaded.function else traced.__wrapped__
        others = _runtimes(target, loaded, args, kwargs)
        found = loaded.calls(compare, eager, traced, args, kwargs, rounds, _run_backward if backward else None, others)
        if memory:
            options = [*(word for spec in inputs for word in ("-i", spec)), *(["--backward"] if backward else [])]
            sides = ["eager", "traced", *others]
            found = found._replace(memory={each: grown_alone(target, each, options) for each in sides})
    click.echo(json.dumps(found._asdict()) if as_json else str(found))


def _call_of(side: str, target: str, inputs: Sequence[str], backward: bool) -> Callable[[], Any]:
    """One side of what `bench` compares."""
    traced, loaded, args, kwargs = _traced(target, inputs)
    others = _runtimes(target, loaded, args, kwargs)
    if side in others:
        return others[side]
    eager = loaded.function if traced is not loaded.function else traced.__wrapped__
    function = traced if side == "traced" else eager

    def call() -> None:
        result = loaded.calls(function, *args, **kwargs)
        if backward:
            _run_backward(result)

    return call


def _runtimes(target: str, loaded: CommandTarget, args: Any, kwargs: Any) -> dict[str, Callable[[], Any]]:
    """Other runtimes for a target: onnxruntime, if it is an ONNX model."""
    if not target.endswith(".onnx"):
        return {}
    from ..export.verification import open_engine

    names = loaded.module.input_names
    feed = {**dict(zip(names, args, strict=False)), **kwargs}
    arrays = {name: tensor.numpy() for name, tensor in feed.items()}
    name, run = open_engine(target)
    return {name: lambda: run(arrays)}


def _archive(arrays: Mapping[str, Any]) -> bytes:
    """The contents of a .npz file."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@cli.command("coverage")
@click.argument("target")
@_input
@click.option("--opset", type=int, default=None, help="ONNX operator set, 9 to 26; 20 by default.")
@_json
def coverage_command(target: str, inputs: Sequence[str], opset: int | None, as_json: bool) -> None:
    """Say what is there for each operator that TARGET runs: derivatives, kernels, ONNX.

    \f
    Args: of target, inputs, opset and as_json, see the options.
    """
    from .targets import load_inputs, load_target

    with waiting(f"looking at {target}"):
        loaded = load_target(target)
        args, kwargs = load_inputs(loaded, inputs)
        found = loaded.calls(jit.coverage, loaded.function, *args, opset_version=opset, **kwargs)
    click.echo(found.to_json() if as_json else str(found))


@cli.command("launch", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--processes", "-n", "count", type=click.IntRange(min=1), required=True, help="How many processes.")
@click.option("--module", "-m", "is_module", is_flag=True, help="Run a module, not a script.")
@click.option("--hosts", default=None, help="The machines to run on, with commas between; this one by default.")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def launch_command(count: int, is_module: bool, hosts: str | None, program: Sequence[str]) -> None:
    """Run PROGRAM, a Python script and its arguments, as processes that work together by jit.distributed.

    \f
    Args: of count, is_module, hosts and program, see the options.
    """
    from .launching import launch

    sys.exit(launch(count, program, is_module, hosts))


@cli.command("doctor")
@_json
def doctor_command(as_json: bool) -> None:
    """Say what is installed, and whether each engine works here."""
    from .diagnosis import diagnose

    with waiting("trying every engine"):
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
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(lambda: cli.main(args=words, prog_name="jit", standalone_mode=False), "--json" in words))


def _user_line(error: BaseException) -> str:
    """The user's line where it happened: the innermost frame that is not this package's, a library's or Python's."""
    foreign = (PACKAGE, *sysconfig.get_paths().values(), "<")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(foreign)]
    if not frames or f"{Path(frames[-1].filename).name}:" in str(error):  # errors of ours name it
        return ""
    return f" ({frames[-1].filename}, line {frames[-1].lineno})"


def _run(command: Callable[[], Any], as_json: bool) -> int:
    """The exit code of a command, after its error has been said, if there was one."""
    try:
        command()
    except click.exceptions.Exit as error:
        return error.exit_code
    except BrokenPipeError:
        return FAILED
    except (Exception, KeyboardInterrupt) as error:
        return _said(error, as_json)
    return DONE


def _said(error: BaseException, as_json: bool) -> int:
    """The exit code for an error, which is said: on stderr, or as an object on stdout."""
    code = WRONG_CALL if isinstance(error, (click.ClickException, UsageError)) else FAILED
    if isinstance(error, click.ClickException) and not as_json:
        error.show()
        return code
    text = _sentence(error)
    if as_json:
        click.echo(json.dumps({"error": text, "type": type(error).__name__, "exit_code": code}))
    else:
        click.echo("interrupted" if text == "interrupted" else f"error: {text}", err=True)
    return code


def _sentence(error: BaseException) -> str:
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return "interrupted"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, Error):
        return f"{error}{_user_line(error)}"
    return f"{type(error).__name__}: {error}{_user_line(error)}"  # raised by the user's own code


if __name__ == "__main__":
    main()
