"""`quantize_static`: a network and samples in, a quantised network out."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from jit.eager import context
from jit.ir.errors import KindError, UsageError
from jit.nn import Module
from jit.tracing.function import TracedFunction

from .fusing import fuse_batch_norms
from .preparing import convert, prepare
from .qconfig import QConfig, qconfig_of


def quantize_static(
    model: Any, samples: Iterable[Any], *, activation_type: Any = "uint8", weight_type: Any = "int8",
    per_channel: bool = True, calibrate_method: str = "minmax", exclude: Iterable[str] = (),
    qconfig: QConfig | None = None,
) -> Any:  # fmt: skip
    """A quantised copy of a network, in evaluation mode: weights are integers, and layers round their inputs.

    Its batch norms become part of the layers before them. It runs as any network does, traced or not, and
    `jit.export_onnx` writes it with QuantizeLinear and DequantizeLinear.

    Args:
        model: The network, or a traced one.
        samples: What to call it with to see which numbers come: tensors, tuples of arguments, or dicts of these.
        activation_type: The integers of activations: "uint8", "int8", "int16", "uint4", "int4", or a dtype.
        weight_type: The integers of weights.
        per_channel: Whether each channel of a weight has its scale.
        calibrate_method: "minmax" provides for all numbers of the samples; "histogram" cuts off those that are few.
        exclude: Names of modules that stay in floats.
        qconfig: Factories of observers, in place of the choices by type.

    Raises:
        KindError: The model is no network.
        UsageError: There are no samples, or a name is that of no module.

    >>> import jit
    >>> net = jit.nn.Sequential(jit.nn.Linear(4, 8), jit.nn.ReLU(), jit.nn.Linear(8, 2))
    >>> small = quantize_static(net, [jit.randn(16, 4)])
    >>> small[0].quantized_weight.integers.dtype, small[2].input_quantizer.range.high
    (jit.int8, 255)
    """
    network = _network(model)
    if calibrate_method not in ("minmax", "histogram"):
        raise UsageError(f"calibrate_method is 'minmax' or 'histogram', not {calibrate_method!r}")
    calls = [_as_call(sample) for sample in samples]
    if not calls:
        raise UsageError("quantize_static needs samples to see which numbers come; pass a list of one or more")
    changed = copy.deepcopy(network).eval()
    fuse_batch_norms(changed, *calls[0])
    for name in exclude:
        _find(changed, name).__dict__["qconfig"] = None
    chosen = qconfig or qconfig_of(activation_type, weight_type, per_channel, calibrate_method)
    prepare(changed, inplace=True, qconfig=chosen)
    with context.no_grad():
        for args, kwargs in calls:
            changed(*args, **kwargs)
    return convert(changed, inplace=True)


def _network(model: Any) -> Module:
    found = model._owner if isinstance(model, TracedFunction) else model
    if not isinstance(found, Module):
        raise KindError(f"networks are quantised, and {type(model).__name__} is none; pass a jit.nn.Module")
    return found


def _find(model: Module, name: str) -> Module:
    known = dict(model.named_modules())
    if name not in known:
        raise UsageError(f"exclude names {name!r}, which is no module of the network; they are {', '.join(known)}")
    return known[name]


def _as_call(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by position and by name."""
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return (tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)), {}
