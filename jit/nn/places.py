"""Paths of PyTorch's modules of layers, `jit.nn.modules.linear.Linear`: programs import from these, too.

Layers are found in `jit.nn`, whatever file of theirs a program names; what PyTorch keeps private there is listed here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

FILES = (
    "activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance", "dropout", "flatten",
    "fold", "instancenorm", "lazy", "linear", "loss", "module", "normalization", "padding", "pixelshuffle", "pooling",
    "rnn", "sparse", "transformer", "upsampling", "utils",
)  # fmt: skip
"""PyTorch's files in `torch/nn/modules`."""
PRIVATE = {
    "_BatchNorm": "jit.nn.normalisation", "_NormBase": "jit.nn.normalisation:_RunningNorm",
    "_InstanceNorm": "jit.nn.normalisation", "_ConvNd": "jit.nn.convolution",
    "_ConvTransposeNd": "jit.nn.convolution:_ConvTranspose", "_Loss": "jit.nn.losses",
    "_WeightedLoss": "jit.nn.losses", "_MaxPoolNd": "jit.nn.pooling", "_AvgPoolNd": "jit.nn.pooling:_AvgPool",
    "_AdaptiveAvgPoolNd": "jit.nn.pooling:_Adaptive", "_AdaptiveMaxPoolNd": "jit.nn.pooling:_AdaptiveMax",
    "_DropoutNd": "jit.nn.shaping:_Dropout", "NonDynamicallyQuantizableLinear": "jit.nn.linear:Linear",
    "_get_clones": "jit.nn.helpers", "_get_activation_fn": "jit.nn.helpers", "_pair": "jit.nn.helpers",
    "_single": "jit.nn.helpers", "_triple": "jit.nn.helpers", "_quadruple": "jit.nn.helpers",
    "_ntuple": "jit.nn.helpers", "_reverse_repeat_tuple": "jit.nn.helpers", "consume_prefix_in_state_dict_if_present":
    "jit.nn.helpers", "_IncompatibleKeys": "jit.nn.loading:IncompatibleKeys", "Tensor": "jit", "F": "jit.nn:functional",
    "init": "jit.nn", "Parameter": "jit.nn",
    "register_module_backward_hook": "jit.nn.everywhere", "OrderedDict": "collections", "math": "math", "warnings": "warnings",
}  # fmt: skip
"""Other names in these files -> the module that has them, with the name there if it is another."""


def find(name: str) -> Any:
    """A name in one of PyTorch's files.

    Raises:
        AttributeError: Neither `jit.nn` nor the list has it.
    """
    if name in PRIVATE:
        module, _, inner = PRIVATE[name].partition(":")
        return import_module(module) if module == name else getattr(import_module(module), inner or name)
    if name.startswith("_"):
        raise AttributeError(f"no module of layers has the name {name!r}")
    return getattr(import_module(__name__.rpartition(".")[0]), name)


def alias(name: str) -> ModuleType:
    """The module of one of these files, also in `sys.modules`.

    Args:
        name: Its full name.
    """
    made = sys.modules[name] = ModuleType(name, f"Layers by the path that they have in PyTorch, see {__name__}.")
    vars(made)["__getattr__"] = find
    return made


__all__ = ["FILES", "PRIVATE", "alias", "find"]
