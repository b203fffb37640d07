"""`python -m jit.as_torch script.py args...`: a program runs as `python script.py args...` would run it."""

from __future__ import annotations

import atexit
import importlib.machinery
import io
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, NoReturn

from jit.eager.context import PACKAGE

from .finder import install
from .ledger import LEDGER

USAGE = """usage: python -m jit.as_torch [-v] [--report] [--trace] script.py args...
       python -m jit.as_torch [-v] [--report] [--trace] -m package.module args...

Run a PyTorch program as it is; jit answers for torch.

  -v, --verbose  say where something does nothing here, or something else, and report at the end
  --report       say at the end what was used of torch, what was missing, and what tracing won
  --trace        trace every module that the program calls"""
_SWITCHES = {
    "-v": "loud",
    "--verbose": "loud",
    "--report": "report",
    "--trace": "trace",
    "-h": "help",
    "--help": "help",
}
STUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "path")
"""The folder in which other processes, which start without the door, find a `torch` that opens it."""


class Order(NamedTuple):
    """The wishes of a command line."""

    switches: frozenset[str]
    is_module: bool
    program: list[str]
    """The script or the module, and its arguments."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line says.

    Args:
        arguments: The command line without `python -m jit.as_torch`; that of the process if left out.
    """
    order = _order(list(sys.argv[1:] if arguments is None else arguments))
    if "help" in order.switches:
        print(USAGE)
        return
    install(verbose="loud" in order.switches)
    _open_for_children()
    if "trace" in order.switches:
        from .whole_modules import trace_all

        trace_all()
    if order.switches & {"loud", "report"}:
        atexit.register(lambda: print(LEDGER.report(), file=sys.stderr))
    _as_python_would(_run_module if order.is_module else _run_script, order.program)


def _order(arguments: list[str]) -> Order:
    switches: set[str] = set()
    while arguments and arguments[0] in _SWITCHES:
        switches.add(_SWITCHES[arguments.pop(0)])
    is_module = arguments[:1] == ["-m"]
    program = arguments[1:] if is_module else arguments
    if "help" not in switches and (not program or (not is_module and program[0].startswith("-"))):
        unknown = f"unknown option {program[0]}" if program else "a script or -m module is missing"
        _refuse(f"{unknown}\n{USAGE}")
    return Order(frozenset(switches), is_module, program)


def _refuse(text: str) -> NoReturn:
    print(f"as_torch: {text}", file=sys.stderr)
    raise SystemExit(2)


def _open_for_children() -> None:
    """Let processes that this one starts find the door: they get `sys.path`, or the environment."""
    sys.path.insert(1, STUB)
    held = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = STUB if not held else f"{STUB}{os.pathsep}{held}"


def _as_python_would(run: Callable[[list[str]], None], program: list[str]) -> None:
    """Run a program; an error is shown without the frames that led to it here."""
    try:
        run(program)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        shown = error.with_traceback(_of_program(error.__traceback__))
        sys.excepthook(type(shown), shown, shown.__traceback__)
        raise SystemExit(1) from None


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that led to the program, and those of the door that it asked."""
    while trace is not None and _is_of_door(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = _of_program(trace.tb_next)
    return trace


def _is_of_door(path: str) -> bool:
    return path.startswith((os.path.join(PACKAGE, "as_torch"), "<frozen runpy>"))


def _run_script(program: list[str]) -> None:
    path = program[0]
    if not Path(path).is_file():
        _refuse(f"there is no file {path!r}")
    sys.argv = program
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    with io.open_code(os.path.abspath(path)) as file:
        source = file.read()
    main_module = _main_module(os.path.abspath(path))
    exec(compile(source, main_module.__file__ or path, "exec", dont_inherit=True), vars(main_module))


def _main_module(path: str) -> Any:
    """A new `__main__`, as Python makes it of a script; pickle and multiprocessing look things up there."""
    made = sys.modules["__main__"] = ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    vars(made).update(__file__=path, __loader__=loader, __builtins__=__builtins__, __cached__=None)
    return made


def _run_module(program: list[str]) -> None:
    sys.argv = program
    sys.path[0] = os.getcwd()
    runpy.run_module(program[0], run_name="__main__", alter_sys=True)


__all__ = ["STUB", "USAGE", "Order", "main"]
