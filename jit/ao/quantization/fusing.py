"""Batch norms made part of the layers before them: a quantised network rounds the weights that both make together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from jit.eager import context
from jit.ir import Node, Value
from jit.ir.errors import UsageError
from jit.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Identity, Module
from jit.nn.utils.fusion import fuse_conv_bn_eval
from jit.tracing.function import TracedFunction

from .preparing import LAYERS

NORMS = (BatchNorm1d, BatchNorm2d, BatchNorm3d)


def fuse_modules(model: Any, modules_to_fuse: Sequence[Any], inplace: bool = False) -> Any:
    """A network, in evaluation mode, whose batch norms are part of the layers before them.

    Args:
        model: The network.
        modules_to_fuse: Names of a layer and of what follows it, `["conv", "norm"]` or `["conv", "norm", "relu"]`, or
            a list of such lists; other modules than batch norms stay as they are.
        inplace: Whether the network is changed itself.

    Raises:
        UsageError: A network in training mode, whose batch norms depend on the batch.

    >>> import jit
    >>> net = jit.nn.Sequential(jit.nn.Conv2d(1, 2, 3), jit.nn.BatchNorm2d(2)).eval()
    >>> fuse_modules(net, ["0", "1"])[1]
    Identity()
    """
    model = model if inplace else copy.deepcopy(model)
    several = [modules_to_fuse] if isinstance(modules_to_fuse[0], str) else modules_to_fuse
    for names in several:
        if len(names) > 1 and isinstance(model.get_submodule(names[1]), NORMS):
            _fuse(model, names[0], names[1])
    return model


def fuse_batch_norms(model: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Make each batch norm part of the layer whose result it alone gets, as a trace of the network shows.

    Args:
        model: The network, in evaluation mode, which is changed.
        args: What to call it with by position.
        kwargs: What to call it with by name.
    """
    for layer, norm in _pairs(model, args, kwargs):
        _fuse(model, layer, norm)


def _fuse(model: Module, layer_name: str, norm_name: str) -> None:
    layer, norm = model.get_submodule(layer_name), model.get_submodule(norm_name)
    if norm.running_mean is None:
        raise UsageError(f"{norm_name} keeps no running statistics, so it depends on the batch and cannot be fused")
    fused = fuse_conv_bn_eval(layer, norm, transpose=getattr(layer, "transposed", False))
    _replace(model, layer_name, fused)
    _replace(model, norm_name, Identity())


def _replace(model: Module, name: str, module: Module) -> None:
    outer, _, last = name.rpartition(".")
    model.get_submodule(outer)._modules[last] = module


# -- what follows what -------------------------------------------------------------------------------------------


def _pairs(model: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, str]]:
    """The names of layers and of the batch norms behind them."""
    named = dict(model.named_modules())
    norms = {name: each for name, each in named.items() if type(each) in NORMS and each.running_mean is not None}
    layers = {name: each for name, each in named.items() if type(each) in LAYERS}
    if not norms or not layers:
        return []
    traced = TracedFunction(model, model, optimize=False)
    with context.no_grad():
        traced(*args, **kwargs)
    recording = traced._last
    assert recording is not None
    inputs = {value.name: value for value in recording.graph().inputs}
    held = {id(found.owner): inputs.get(found.value.name) for found in recording.trace.captures.found}
    makers = {_only_user(held.get(id(layer.weight))): name for name, layer in layers.items()}
    found = []
    for name, norm in norms.items():
        node = _only_user(held.get(id(norm.running_mean)))
        before = node.inputs[0].node if node is not None and not node.inputs[0].is_input else None
        if before is not None and before in makers and _only_user(before.outputs[0]) is node:
            found.append((makers[before], name))
    return found


def _only_user(value: Value | None) -> Node | None:
    """The node that uses a value, if there is one and only one; a graph that returns it is a user, too."""
    users = {use.node for use in value.uses} if value is not None else set()
    return users.pop() if len(users) == 1 else None
