"""Peers on models: one adapter per library and manner, each in the form that who knows it would choose.

An adapter makes a callable without arguments: a forward pass, which gives its outputs, or a step of training, which
gives the loss. It raises ImportError if its library is not installed, and `CannotDo` if the task is not for it.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.models.model import Model, filled
from benchmarks.peers import CannotDo, _session_options

Call = Callable[[], Any]


@dataclass(frozen=True)
class Task:
    """A model that runs forward, or learns."""

    model: Model
    training: bool
    noisy: bool
    """Whether there is dropout in training."""
    batch: int
    threads: int
    exported: str = ""
    """A file of the model that jit has exported; left out, runtimes export it themselves."""
    ready: Any = None
    """The network, if it has been made before."""

    def arrays(self) -> list[Any]:
        """The inputs, or the example to learn from: always the same."""
        draw = self.model.examples if self.training else self.model.inputs
        assert draw is not None
        return draw(np.random.default_rng(0), self.batch)

    def network(self, lib: Any) -> Any:
        """The network in the mode of the task, with its first weights."""
        return self.ready or filled(lib, self.model.network(lib, self.noisy)).train(self.training)

    def made_ready(self, lib: Any) -> Task:
        """The same with the network made already, unless the library has none."""
        return replace(self, ready=self.network(lib)) if hasattr(lib, "nn") else self


PEERS: dict[str, Callable[[Task], Call]] = {}


def peer(name: str) -> Any:
    """Adds the decorated adapter to `PEERS`."""

    def register(make: Callable[[Task], Call]) -> Any:
        PEERS[name] = make
        return make

    return register


def library(name: str) -> Any:
    """The library of a peer, imported, with what jit imports late."""
    found = importlib.import_module(name.split(".")[0].split(" ")[0])
    for late in ("trace", "nn", "optim"):
        getattr(found, late, None)
    return found


def converted(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Lists and tuples of arrays, with each array converted."""
    if isinstance(value, list | tuple):
        return type(value)(converted(part, convert) for part in value)
    return convert(value)


def learning(lib: Any, task: Task, network: Any, wrap: Callable[[Any], Any], **options: Any) -> Call:
    """A step of training on the example of the task, as its model makes it."""
    assert task.model.training is not None
    step = task.model.training(lib, network, wrap, **options)
    example = converted(task.arrays(), lib.from_numpy)
    return lambda: step(*example)


# -- torch -------------------------------------------------------------------------------------------------------


def _torch(task: Task) -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(task.threads)
    return torch


def _inferring(torch: Any, run: Callable[..., Any], inputs: list[Any]) -> Call:
    def call() -> Any:
        with torch.inference_mode():
            return run(*inputs)

    return call


def _same(value: Any) -> Any:
    return value


@peer("torch eager")
def torch_eager(task: Task) -> Call:
    """Op by op, with fused optimizers."""
    torch = _torch(task)
    network = task.network(torch)
    if task.training:
        return learning(torch, task, network, _same, fused=True)
    return _inferring(torch, task.model.part(network), converted(task.arrays(), torch.from_numpy))


@peer("torch channels_last")
def torch_channels_last(task: Task) -> Call:
    """Likewise, with channels innermost in memory."""
    if not task.model.images:
        raise CannotDo
    torch = _torch(task)

    def moved(array: Any) -> Any:
        tensor = torch.from_numpy(array)
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

    network = task.network(torch).to(memory_format=torch.channels_last)
    arrays = converted(task.arrays(), moved)
    if not task.training:
        return _inferring(torch, task.model.part(network), arrays)
    assert task.model.training is not None
    step = task.model.training(torch, network, _same, fused=True)
    return lambda: step(*arrays)


@peer("torch.jit")
def torch_jit(task: Task) -> Call:
    """Traced, frozen and optimized for inference."""
    if task.training:
        raise CannotDo
    torch = _torch(task)
    inputs = converted(task.arrays(), torch.from_numpy)
    with torch.no_grad():
        traced = torch.jit.trace(task.model.part(task.network(torch)), tuple(inputs), check_trace=False, strict=False)
        frozen = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
    return _inferring(torch, frozen, inputs)


@peer("torch.compile")
def torch_compile(task: Task) -> Call:
    """Inductor, with weights frozen for a forward pass; of training, the whole step."""
    torch = _torch(task)
    network = task.network(torch)
    if task.training:
        return torch.compile(learning(torch, task, network, _same))
    importlib.import_module("torch._inductor.config").freezing = True
    compiled, inputs = torch.compile(task.model.part(network)), converted(task.arrays(), torch.from_numpy)

    def call() -> Any:
        with torch.no_grad():
            return compiled(*inputs)

    return call


# -- runtimes for what jit exports -------------------------------------------------------------------------------


@peer("onnxruntime")
def onnxruntime_session(task: Task) -> Call:
    """The model that jit exports, with its inputs and outputs bound beforehand."""
    if task.training:
        raise CannotDo
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(
        _exported(task), _session_options(runtime, task.threads), ["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for value, array in zip(session.get_inputs(), _leaves(task.arrays()), strict=True):
        binding.bind_cpu_input(value.name, array)
    for value in session.get_outputs():
        binding.bind_output(value.name)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return [_Late(output) for output in binding.get_outputs()]

    return call


class _Late:
    """An output that becomes an array only if someone looks."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.value.numpy()


@peer("openvino")
def openvino_request(task: Task) -> Call:
    """The same model, compiled for short latency in float32; inputs and outputs are not copied."""
    if task.training:
        raise CannotDo
    openvino = importlib.import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": task.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
    }
    compiled = openvino.Core().compile_model(openvino.Core().read_model(_exported(task)), "CPU", settings)
    request, inputs = compiled.create_infer_request(), _leaves(task.arrays())
    return lambda: list(request.infer(inputs, share_inputs=True, share_outputs=True).values())


def _leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list | tuple) else [value]


@functools.lru_cache(1)
def _exported(task: Task) -> bytes:
    if task.exported:
        return pathlib.Path(task.exported).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        export(task, pathlib.Path(folder) / "model.onnx")
        return pathlib.Path(folder, "model.onnx").read_bytes()


def export(task: Task, path: pathlib.Path) -> None:
    """Write the model to an ONNX file, by jit."""
    jit = importlib.import_module("jit")
    inputs = tuple(converted(task.arrays(), jit.from_numpy))
    jit.export_onnx(task.model.part(task.network(jit)), inputs, path, verify=False)


# -- jit ---------------------------------------------------------------------------------------------------------


@peer("jit")
def jit_traced(task: Task) -> Call:
    """This project: the module traced; in training, `backward` and the optimizer are plain Python around it."""
    jit = importlib.import_module("jit")
    network = task.network(jit)
    if task.training:
        return learning(jit, task, network, jit.trace)
    traced, inputs = jit.trace(task.model.part(network)), converted(task.arrays(), jit.from_numpy)

    def call() -> Any:
        with jit.no_grad():
            return traced(*inputs)

    return call


@peer("jit step")
def jit_step(task: Task) -> Call:
    """This project: the whole step of training traced."""
    if not task.training:
        raise CannotDo
    jit = importlib.import_module("jit")
    return jit.trace(learning(jit, task, task.network(jit), _same))


def learned_in_doubles(task: Task, steps: int) -> list[Any]:
    """The losses of some steps of training in float64, by torch, so that no fault of this project is in them."""
    torch = _torch(task)
    assert task.model.training is not None
    step = task.model.training(torch, task.network(torch).double(), _same)
    example = converted(task.arrays(), lambda array: torch.from_numpy(_wide(array)))
    return [step(*example).detach().numpy() for _ in range(steps)]


def _wide(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype == np.float32 else array
