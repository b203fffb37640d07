"""One program, or one network, run in this process with whatever answers to `torch`; its losses go to a file.

    python inside.py ORDER.json...                  with torch
    python -m jit.as_torch inside.py ORDER.json     with jit

The order is an entry of `programs.toml` (README.md says what its keys mean) and where to read and write.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import runpy
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import draws
import numpy as np
import torch

warnings.filterwarnings("ignore")


HERE = Path(__file__).resolve().parent


class Enough(BaseException):
    """The end of a program whose number of losses is reached."""


class Losses:
    """The losses of a run: every tensor that `backward` is called on, and what a driver adds.

    Args:
        limit: The number of losses after which the program is stopped.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.values: list[float] = []
        self.seconds: list[float] = []

    def add(self, loss: Any) -> None:
        """Keep a loss, and stop the program if that is enough of them."""
        self.values.append(float(loss.detach().to(torch.float64).sum()))
        self.seconds.append(time.process_time())
        if len(self.values) >= self.limit:
            raise Enough

    def watch(self) -> None:
        """Keep every tensor whose `backward` is called, from now on."""
        backward = torch.Tensor.backward

        def recorded(tensor: Any, *args: Any, **kwargs: Any) -> None:
            backward(tensor, *args, **kwargs)
            self.add(tensor)

        torch.Tensor.backward = recorded  # type: ignore[method-assign]


class MockFinder:
    """The finder of a module that computes nothing, such as one that draws pictures: all in it can be called.

    Args:
        name: The module.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A module of mocks for the name, and for those in it."""
        is_within = f"{name}.".startswith(f"{self.name}.")
        return ModuleSpec(name, self, is_package=True) if is_within else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> Any:
        """The mock: names that begin with a capital are classes, from which programs derive."""
        made = ModuleType(spec.name)
        vars(made).update(__getattr__=_mocked, __all__=[])
        return made

    def exec_module(self, module: Any) -> None:
        """Nothing has to run."""


class Nothing:
    """An object that computes nothing: it takes every call, and keeps none of it, so that its callers can be traced."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    __getitem__ = __enter__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __call__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __index__(self) -> int:
        return 1

    def __float__(self) -> float:
        return 1.0


class _Everything(type):
    """The type of classes that have every attribute."""

    def __getattr__(cls, name: str) -> Any:
        return _mocked(name)


class Mocked(metaclass=_Everything):
    """A class that accepts everything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return Nothing()


def _mocked(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Everything(name, (Mocked,), {}) if name[0].isupper() else Nothing()


def _needs_torch(name: str) -> bool:
    """Whether a module is part of torch, or of a package that is installed and works with torch alone.

    A mock has to come before such a module.
    """
    if name.startswith("torch."):
        return True
    try:
        return any(re.match(r"torch\b", each) for each in metadata.requires(name) or ())
    except metadata.PackageNotFoundError:
        return False


def floats(*sizes: int) -> Any:
    """A tensor of normal draws."""
    return torch.from_numpy(_inputs.standard_normal(sizes)).to(torch.get_default_dtype())


def chances(*sizes: int) -> Any:
    """A tensor of draws between 0 and 1."""
    return torch.from_numpy(_inputs.random_sample(sizes)).to(torch.get_default_dtype())


def ints(below: int, *sizes: int) -> Any:
    """A tensor of whole numbers from 0 to `below` - 1."""
    return torch.from_numpy(np.asarray(_inputs.randint(0, below, sizes)))


def tensors_of(output: Any) -> list[Any]:
    """The tensors of floats in an output, however it nests them."""
    if isinstance(output, torch.Tensor):
        return [output.abs() if output.is_complex() else output] if output.dtype.is_floating_point else []
    if isinstance(output, dict):
        return [each for value in output.values() for each in tensors_of(value)]
    if isinstance(output, (list, tuple)):
        return [each for value in output for each in tensors_of(value)]
    return tensors_of(vars(output)) if hasattr(output, "__dict__") else []


def squares(output: Any) -> Any:
    """The loss of a network where none is said: the mean of the squares of its outputs, each summed."""
    found = [each for each in tensors_of(output) if each.requires_grad]
    return sum((each.to(torch.get_default_dtype()) ** 2).mean() for each in found)


_inputs = np.random.RandomState(1)
HELPERS = {"floats": floats, "chances": chances, "ints": ints, "torch": torch, "np": np, "squares": squares}
HELPERS |= {"nn": torch.nn, "F": torch.nn.functional}


def run_script(order: dict[str, Any], folder: Path) -> None:
    """A program that trains by itself."""
    path = folder / order["file"]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def run_example(order: dict[str, Any], folder: Path, losses: Losses) -> None:
    """A program that calls a network once, as an example: the network is trained on what it was called with."""
    calls: list[Any] = []
    inside: list[Any] = []
    called = torch.nn.Module.__call__

    def noted(module: Any, *args: Any, **kwargs: Any) -> Any:
        if not inside:
            calls.append((module, args, kwargs))
        inside.append(module)
        try:
            return called(module, *args, **kwargs)
        finally:
            inside.pop()

    torch.nn.Module.__call__ = noted  # type: ignore[method-assign]
    run_script(order, folder)
    torch.nn.Module.__call__ = called  # type: ignore[method-assign]
    model, args, kwargs = calls[-1]
    train(order, losses, {**HELPERS, "model": model, "args": args, "kwargs": kwargs, "call": "model(*args, **kwargs)"})


def run_network(order: dict[str, Any], folder: Path, losses: Losses) -> None:
    """A file that defines networks: one is built and trained for some steps."""
    root = folder / order.get("root", ".")
    sys.path.insert(0, str(root))
    name = str((folder / order["file"]).relative_to(root).with_suffix("")).replace("/", ".")
    module = importlib.import_module(name.removesuffix(".__init__"))
    names = {**HELPERS, **vars(module)}
    exec(order.get("before", ""), names)
    draws.seed(0)
    names["model"] = eval(order["build"], names)
    names["inputs"] = eval(f"({order['inputs']},)", names) if "inputs" in order else ()
    train(order, losses, {**names, "call": order.get("call", "model(*inputs)")})


def train(order: dict[str, Any], losses: Losses, names: dict[str, Any]) -> None:
    """Train a network until there are enough losses; one without parameters leaves them to its inputs."""
    model = names["model"]
    parameters = [each for each in model.parameters() if each.requires_grad]
    if not parameters:
        parameters = [each.requires_grad_() for each in tensors_of((names.get("args"), names.get("inputs")))]
    names["parameters"] = parameters
    optimizer = eval(order.get("optimizer", "torch.optim.SGD(parameters, lr=0.01)"), names)
    for _ in range(losses.limit + 1):
        optimizer.zero_grad()
        names["output"] = eval(names["call"], names)
        loss = eval(order.get("loss", "squares(output)"), names)
        loss.backward(create_graph=order.get("create_graph", False))
        optimizer.step()


def run(order: dict[str, Any]) -> None:
    """Run an order; its losses go to the file that it names."""
    losses = Losses(order.get("steps", 4))
    if order["shared"]:
        draws.share()
    if order.get("precise"):
        torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    losses.watch()
    sys.argv = [str(Path(order["folder"]) / order["file"]), *order.get("arguments", [])]
    sys.path[0:1] = [str(HERE / "companions")] if order.get("companions") else []
    sys.path[0:0] = [str(Path(order["folder"]) / each) for each in order.get("paths", [])]
    for name in order.get("mocked", []):
        sys.meta_path.insert(0 if _needs_torch(name) else len(sys.meta_path), MockFinder(name))
    try:
        if "build" in order:
            run_network(order, Path(order["folder"]), losses)
        elif order.get("example"):
            run_example(order, Path(order["folder"]), losses)
        else:
            run_script(order, Path(order["folder"]))
    except (Enough, SystemExit):
        pass
    Path(order["result"]).write_text(json.dumps({"losses": losses.values, "seconds": losses.seconds}))


def run_apart(order: dict[str, Any]) -> None:
    """Run an order in a child of this process, in the folder of its result, with its errors in a file there."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.chdir(Path(order["result"]).parent)
    os.dup2(os.open("errors.txt", os.O_WRONLY | os.O_CREAT), 2)
    try:
        signal.alarm(order["timeout"])
        run(order)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def main() -> None:
    """Run the order whose file the command line names; of several, each in a process of its own."""
    orders = [json.loads(Path(each).read_text()) for each in sys.argv[1:]]
    for order in orders:
        run(order) if len(orders) == 1 else run_apart(order)


if __name__ == "__main__":
    main()
