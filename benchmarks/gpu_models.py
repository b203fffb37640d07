"""Models as people write them on a GPU: forward passes and steps of training, for jit and for torch on the same GPU.

The networks, their inputs and their training are those of `benchmarks.models`. Names are `model/resnet50`,
`model/resnet50/half` (weights and inputs of 16 bits) and `model/resnet50/train`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.models import MODELS
from benchmarks.models.model import Model, filled
from benchmarks.models.peers import converted, library
from benchmarks.peers import CannotDo

NAMES = [f"model/{name}{kind}" for name, model in MODELS.items()
         for kind in ("", "/half", "/train") if kind != "/train" or model.training is not None]  # fmt: skip
BATCHES = {"": 1, "/half": 32, "/train": 16}
"""The size of the batch of each kind."""
Call = Callable[[], Any]


def calls_of(name: str) -> dict[str, Callable[[], Call]]:
    """What makes the callable of each peer for a name of `NAMES`."""
    _, model, *kinds = name.split("/")
    kind = "/" + kinds[0] if kinds else ""
    return {
        "torch eager": lambda: _torch(MODELS[model], kind, lambda _, run: run),
        "torch.compile": lambda: _torch(MODELS[model], kind, lambda torch, run: torch.compile(run)),
        "jit": lambda: _jit(MODELS[model], kind),
    }


def _torch(model: Model, kind: str, compiled: Callable[[Any, Any], Any]) -> Call:
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise CannotDo
    torch.backends.cudnn.allow_tf32 = False  # products of float32 are float32's in all libraries here
    return _call(torch, model, kind, lambda run: compiled(torch, run), fused=True)


def _jit(model: Model, kind: str) -> Call:
    jit = library("jit")
    return _call(jit, model, kind, jit.trace)


def _call(lib: Any, model: Model, kind: str, wrap: Callable[[Any], Any], **options: Any) -> Call:
    is_training, half = kind == "/train", kind == "/half"
    network = filled(lib, model.network(lib, False)).train(is_training).to("cuda")
    network = network.half() if half else network

    def moved(array: Any) -> Any:
        tensor = lib.from_numpy(array).to("cuda")
        return tensor.half() if half and array.dtype == np.float32 else tensor

    draw = model.examples if is_training else model.inputs
    assert draw is not None
    arrays = converted(draw(np.random.default_rng(0), BATCHES[kind]), moved)
    if is_training:
        assert model.training is not None
        step = model.training(lib, network, wrap, **options)
        return lambda: step(*arrays)
    run = wrap(model.part(network))

    def call() -> Any:
        with lib.no_grad():
            return run(*arrays)

    return call
