"""Targets of the command line: `path/to/file.py:name`, `package.module:name`, `model.onnx`, and inputs for it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import is_zipfile

import numpy as np

import jit
from jit.eager.creation import from_numpy
from jit.eager.tensors import Tensor
from jit.ir import dtypes, parse
from jit.ir.errors import Error, UsageError


class UserCodeError(Error):
    """The error for an exception that the user's own module or factory has raised."""


@dataclass
class CommandTarget:
    """A function or network of the user's, and the Python module that it was found in."""

    function: Any
    module: ModuleType
    name: str

    def calls(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """The result of a function, called as if from the line that defines the target.

        Operators of library modules, such as those of an `nn.Sequential`, would name a line of the command line's own
        libraries else: theirs is the innermost line that is not of this package.
        """
        namespace: dict[str, Any] = {}
        name = self.name.split(".")[0]
        text = f"{chr(10) * (self._line(name) - 1)}def {name}(f, a, k): return f(*a, **k)"
        exec(compile(text, getattr(self.module, "__file__", None) or "<target>", "exec"), namespace)
        return namespace[name](function, args, kwargs)

    def said(self, name: str) -> Any:
        """The word of the target's module on `dynamic_axes`, say; None if it says nothing.

        Args:
            name: A name in the module.
        """
        return getattr(self.module, name, None)

    def _line(self, name: str) -> int:
        """The line at which the module defines `name`; 1 if it does not say."""
        lines = linecache.getlines(getattr(self.module, "__file__", None) or "")
        for statement in ast.parse("".join(lines)).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            names = [getattr(each, "id", None) for each in targets] + [getattr(statement, "name", None)]
            if name in names:
                return statement.lineno
        return 1


def load_target(text: str, graphs: bool = False) -> CommandTarget:
    """The function, traced function or Module that `text` names, factories being called; or what a file holds.

    Args:
        text: A name in a module, an ONNX model, a saved function, or a saved graph.
        graphs: Whether it may be a graph, which cannot be called.

    Raises:
        UsageError: The text names no target, or the file, module or name does not exist.
        UserCodeError: The user's code raised; the message has the user's line.
    """
    if text.endswith(".onnx"):
        return _load_model(text)
    if text.endswith(".ir"):
        return _load_graph(text, graphs)
    if is_zipfile(text):
        return CommandTarget(jit.load(text), ModuleType(Path(text).stem), "function")
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"a target is path/to/file.py:name, package.module:name or model.onnx, and {text!r} is none")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            offered = (
                ", ".join(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
                or "nothing callable"
            )
            raise UsageError(f"{place} has no {name!r}; name one that it has: {offered}")
        value = getattr(value, part)
    return CommandTarget(_made(value, name), module, name)


def _load_model(path: str) -> CommandTarget:
    """An ONNX model, with what it says of its inputs and outputs where a module would have it."""
    from ..onnx.importing import import_onnx

    traced = import_onnx(path)
    model = traced.__wrapped__
    module = ModuleType(Path(path).stem)
    module.__dict__.update(
        input_names=model.input_names, output_names=model.output_names, dynamic_axes=model.dynamic_axes,
        example_inputs=lambda: tuple(_random_array(d, tuple(s or 2 for s in sizes)) for d, sizes in model.input_types),
    )  # fmt: skip
    return CommandTarget(traced, module, "model")


def _load_graph(path: str, allowed: bool) -> CommandTarget:
    if not allowed:
        raise UsageError(f"{path} is a graph, which can be exported, but not called; name the function that it is of")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as a graph ({error}); give a file of inspect --save") from error
    return CommandTarget(parse(text), ModuleType(Path(path).stem), "graph")


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}; give the path of a .py file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.resolve().parent))
    _guarded(partial(spec.loader.exec_module, module), f"importing {path}")
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise UsageError(f"there is no module {name!r}; name one that can be imported, or give the path of a .py file")
    return _guarded(lambda: importlib.import_module(name), f"importing {name}")


def _guarded(action: Any, what: str) -> Any:
    """Run the user's code; what it raises becomes one sentence with the user's line."""
    try:
        return action()
    except Error:
        raise
    except SystemExit as error:
        raise UserCodeError(f"{what} ended the program with exit code {error.code}") from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        line = error.lineno if isinstance(error, SyntaxError) else frame.lineno
        file = error.filename if isinstance(error, SyntaxError) else frame.filename
        said = error.msg if isinstance(error, SyntaxError) else error
        raise UserCodeError(f"{what} raised {type(error).__name__}: {said} ({file}, line {line})") from error


def _made(value: Any, name: str) -> Any:
    """`value`, or what it makes if it is a factory: a Module class, or a function of no arguments."""
    from ..nn import Module
    from ..tracing.function import TracedFunction

    if isinstance(value, (Module, TracedFunction)):
        return value
    if not callable(value):
        raise UsageError(
            f"{name} is of type {type(value).__name__}; name a function, a Module, or a factory of one of them"
        )
    try:
        required = [
            p
            for p in inspect.signature(value).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD,)
        ]
    except (TypeError, ValueError):
        required = []
    if required:
        if isinstance(value, type) and issubclass(value, Module):
            raise UsageError(f"{name} is a Module that takes arguments; name a function of no arguments that makes one")
        return value
    made = _guarded(value, f"calling {name}()")
    if not isinstance(made, (Module, TracedFunction)) and not callable(made):
        raise UsageError(
            f"{name}() takes no arguments, so it counts as a factory, but it returned {type(made).__name__}; return a "
            "function or a Module"
        )
    return made


# -- inputs ------------------------------------------------------------------------------------------------------

_SPEC = re.compile(r"(?:(?P<name>[A-Za-z_][\w.]*)=)?(?P<dtype>[a-z]+\d*)\[(?P<sizes>[\d,\s]*)\]")


def load_inputs(target: CommandTarget, specs: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments from SPECs, or from `example_inputs` of the target or its module."""
    if not specs:
        return _examples(target), {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        for name, array in _parse_spec(spec):
            if name is None:
                args.append(from_numpy(array))
            else:
                kwargs[name] = from_numpy(array)
    return tuple(args), _nested(kwargs, target)


def _nested(given: dict[str, Any], target: CommandTarget) -> dict[str, Any]:
    """Arguments by name, of which `d.a` and `d.b` are those of a dict `d`, unless inputs of a model have such names."""
    plain = getattr(target.module, "input_names", None) or ()
    found: dict[str, Any] = {}
    for name, value in given.items():
        *path, last = [name] if name in plain else name.split(".")
        inner = found
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageError(
                    f"the input {name!r} is inside of {part!r}, which is an input itself; name one of them"
                )
        if last in inner:
            raise UsageError(f"the input {name!r} is given twice, or others are inside of it; name it once")
        inner[last] = value
    return found


def _examples(target: CommandTarget) -> tuple[Any, ...]:
    for holder in (target.function, target.module):
        found = getattr(holder, "example_inputs", None)
        if found is None:
            continue
        made = _guarded(found, "calling example_inputs()") if callable(found) else found
        many = made if isinstance(made, (tuple, list)) else (made,)
        return tuple(from_numpy(v) if isinstance(v, np.ndarray) else v for v in many)
    raise UsageError(
        f'{target.name} needs inputs: give --input "x=float32[1,3]" for each, or define example_inputs in '
        f"{target.module.__name__}"
    )


def _parse_spec(spec: str) -> list[tuple[str | None, Any]]:
    match = _SPEC.fullmatch(spec.strip())
    if match is not None:
        sizes = tuple(int(s) for s in match["sizes"].split(",") if s.strip())
        return [(match["name"], _random_array(_dtype(match["dtype"]), sizes))]
    name, equals, file = spec.rpartition("=")
    if file.endswith((".npy", ".npz")):
        return _from_file(name if equals else None, Path(file))
    raise UsageError(f'an input is "x=float32[1,3,224,224]", a .npy or a .npz file, and {spec!r} is none of these')


def _dtype(name: str) -> dtypes.DType:
    try:
        return dtypes.by_name(name)
    except Error as error:
        raise UsageError(str(error)) from error


def _random_array(dtype: dtypes.DType, sizes: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(0)
    if dtype.category >= dtypes.FLOATING:
        return rng.standard_normal(sizes).astype(dtype.numpy)
    return rng.integers(0, 2, sizes).astype(dtype.numpy)


def _from_file(name: str | None, path: Path) -> list[tuple[str | None, Any]]:
    try:
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}") from None
    except (ValueError, OSError, EOFError) as error:
        raise UsageError(f"{path} cannot be read as arrays ({error}); give a .npy or .npz file") from error
    if isinstance(loaded, np.ndarray):
        return [(name, loaded)]
    return [(key, loaded[key]) for key in loaded.files]


def parse_dynamic(texts: Sequence[str]) -> dict[str, dict[int, Any]]:
    """`x:0=batch,2=height:8:512` as {"x": {0: "batch", 2: ("height", 8, 512)}}.

    Raises:
        UsageError: A text is not of this form.
    """
    axes: dict[str, dict[int, Any]] = {}
    for text in texts:
        name, _, rest = text.partition(":")
        for item in rest.split(","):
            match = re.fullmatch(r"\s*(-?\d+)\s*=\s*([A-Za-z_]\w*)(?::(\d*):(\d*))?\s*", item)
            if not name or match is None:
                raise UsageError(
                    f"a dynamic axis is x:0=batch, x:0=batch,2=height, or x:0=batch:1:64 with its least and its "
                    f"greatest size, and {text!r} is not"
                )
            axes.setdefault(name, {})[int(match[1])] = _axis(*match.groups()[1:])
    return axes


def parse_sizes(texts: Sequence[str]) -> list[dict[str, int]]:
    """`batch=7` and `batch=3,length=5` as [{"batch": 7}, {"batch": 3, "length": 5}].

    Raises:
        UsageError: A text is not of this form.
    """
    found = []
    for text in texts:
        pairs = [re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*", item) for item in text.split(",")]
        if not all(pairs):
            raise UsageError(f"a size to verify with is batch=7, or batch=7,height=9, and {text!r} is not")
        found.append({pair[1]: int(pair[2]) for pair in pairs if pair})
    return found


def _axis(name: str, low: str | None, high: str | None) -> Any:
    return name if low is None else (name, int(low or 1), int(high) if high else None)


def tensors_of(args: Any) -> list[Tensor]:
    """The tensors among arguments."""
    from jit.eager.pytree import flatten

    return [t for t in flatten(args)[0] if isinstance(t, Tensor)]
