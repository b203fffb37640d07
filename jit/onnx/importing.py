"""`jit.import_onnx`: an ONNX model as a module, which is traced like any other."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.eager.creation import from_numpy
from jit.eager.tensors import Tensor
from jit.export.opsets import DTYPES
from jit.ir.dtypes import DType
from jit.ir.errors import Error, ModelError
from jit.nn import Module, Parameter
from jit.tracing.decorator import trace
from jit.tracing.surroundings.known_types import Watched

from .files import read_model
from .folding_constants import fold_constants
from .model_context import ModelContext
from .values import SMALL, Known, as_tensor, tensor_dtype
from .walk import Walk, constants_of, initializers

if TYPE_CHECKING:
    import onnx

    from jit.tracing.function import TracedFunction


class Interface(Watched):
    """The inputs and outputs of a model, as it declares them."""

    def __init__(self, model: onnx.ModelProto, inputs: list[str]) -> None:
        self.inputs = inputs
        self.outputs = [value.name for value in model.graph.output]
        self.types = {value.name: _declared(value) for value in model.graph.input}
        self.optional = {value.name for value in model.graph.input if value.type.HasField("optional_type")}

    def watched(self) -> Iterable[tuple[str, Any]]:
        """Nothing: it does not change."""
        return ()


class ImportedModel(Module):
    """An ONNX model as a module: its weights are parameters and buffers under their names, its call runs the graph.

    Parameters do not require gradients until they are told to, `model.requires_grad_()`.

    Args:
        model: The model.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        weights = initializers(model.graph)
        constants = {**weights, **constants_of(model.graph)}
        opsets = {"" if i.domain == "ai.onnx" else i.domain: i.version for i in model.opset_import}
        functions = {(f.domain, f.name): f for f in model.functions}
        context = ModelContext(opsets or {"": 1}, functions, constants)
        given = [value.name for value in model.graph.input if value.name not in constants]
        self._interface = Interface(model, given)
        nodes = [node for node in model.graph.node if not (node.op_type == "Constant" and node.output[0] in constants)]
        nodes = fold_constants(nodes, context, weights)
        small = {name: a for name, a in constants.items() if not _is_weight(a)}
        self._walk = Walk(nodes, given, self.output_names, context, known=small)
        held = {name: a for name, a in constants.items() if _is_weight(a)}
        self._places = {name: self._hold(name, a, name in weights) for name, a in held.items()}

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in their order."""
        return self._interface.inputs

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._interface.outputs

    @property
    def is_traceable(self) -> bool:
        """Whether a recording can repeat it: Python looks at no elements, and all values are tensors."""
        return not self._walk.on_data and all(dtype is not None for dtype, _ in self._interface.types.values())

    @property
    def input_types(self) -> list[tuple[DType, list[int | None]]]:
        """The dtype and the sizes of each input, None for those that may vary.

        Raises:
            ModelError: The model does not say, or tensors have no elements of such a type.
        """
        found = []
        for name in self.input_names:
            dtype, sizes = self._interface.types[name]
            if dtype is None or sizes is None:
                raise ModelError(f"the model does not say the type and the rank of its input {name!r}")
            found.append((dtype, [size if isinstance(size, int) else None for size in sizes]))
        return found

    @property
    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        """The dims of inputs whose sizes may vary, with the names that the model gives them."""
        found: dict[str, dict[int, str]] = {}
        for name in self.input_names:
            for dim, size in enumerate(self._interface.types[name][1] or ()):
                if not isinstance(size, int):
                    found.setdefault(name, {})[dim] = size or f"{name}_{dim}"
        return found

    def _hold(self, name: str, array: np.ndarray, learns: bool) -> tuple[Module, str]:
        """Keep a weight or a constant, at its name's path if that is free, and say where."""
        owner: Module = self
        *path, last = name.split(".") if all(name.split(".")) else [name.replace(".", "_")]
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, Module())
            owner = getattr(owner, part)
            if not isinstance(owner, Module):
                return self._hold(name.replace(".", "_"), array, learns)
        if hasattr(owner, last):
            return self._hold(f"{name}_", array, learns)
        tensor = from_numpy(np.array(array))
        if learns and tensor.dtype.is_floating_point:
            owner.register_parameter(last, Parameter(tensor, requires_grad=False))
        else:
            owner.register_buffer(last, tensor)
        return owner, last

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs: a tensor, or a tuple of them.

        Args:
            args: The inputs, in the model's order.
            kwargs: Inputs by name.

        Raises:
            ModelError: Inputs are missing or of another type, or the model asks for what there is not.
        """
        inputs = self._bound(args, kwargs)
        weights = {name: getattr(owner, last) for name, (owner, last) in self._places.items()}
        try:
            outputs = self._walk.run(inputs, weights)
        except Error:
            raise
        except MemoryError as error:
            raise ModelError("the ONNX model needs more memory than there is") from error
        except (TypeError, ValueError, LookupError, AttributeError, AssertionError, ArithmeticError) as error:
            raise ModelError(f"the ONNX model cannot be run: {error}") from error
        found = tuple(_given_back(output) for output in outputs)
        return found[0] if len(found) == 1 else found

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = self.input_names
        if len(args) > len(names):
            raise ModelError(f"the model takes {len(names)} inputs ({', '.join(names)}), not {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in given:
                raise ModelError(f"the model has no further input {name!r}; its inputs are {', '.join(names)}")
            given[name] = value
        if missing := [name for name in names if name not in given and name not in self._interface.optional]:
            raise ModelError(f"the input {missing[0]!r} is missing; the model takes {', '.join(names)}")
        return [_taken(given.get(name)) for name in names]


def _declared(value: onnx.ValueInfoProto) -> tuple[DType | None, list[int | str] | None]:
    """The dtype and the sizes of an input, names for those that may vary; None for what is not said."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return None, None
    sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim]
    return DTYPES.get(kind.elem_type), sizes if kind.HasField("shape") else None


def _is_weight(array: np.ndarray) -> bool:
    """Whether a constant is a parameter or a buffer, and not part of the graph."""
    try:
        tensor_dtype(array.dtype)
    except Error:
        return False
    return array.ndim > 0 and (array.dtype.kind not in "iub" or array.size > SMALL)


def _taken(value: Any) -> Any:
    """An input as the graph takes it: numpy arrays and numbers become tensors."""
    if isinstance(value, (list, tuple)):
        return [_taken(part) for part in value]
    if value is None or isinstance(value, Tensor):
        return value
    array = np.asarray(value, order="C")
    try:
        tensor_dtype(array.dtype)
    except Error:
        return Known(array)
    return from_numpy(array)


def _given_back(value: Any) -> Any:
    if isinstance(value, list):
        return [_given_back(part) for part in value]
    if isinstance(value, Known):
        try:
            return as_tensor(value)
        except Error:
            return value.array
    return value


def import_onnx(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> TracedFunction:
    """Read an ONNX model as a traced function of tensors.

    Args:
        model: The path of a file, its bytes, or the model as onnx has it.

    Returns:
        A traced module: called with the model's inputs, by position or by name, it gives the output, or a tuple of
        them. Weights are its parameters, under their names; gradients, graphs, kernels and export are those of any
        traced module.

    Raises:
        ModelError: The file is no ONNX model, or has operators that are not known.

    >>> import io, jit
    >>> file = io.BytesIO()
    >>> _ = jit.onnx.export(jit.nn.Linear(2, 3), (jit.ones(1, 2),), file)
    >>> jit.import_onnx(file.getvalue())(jit.ones(1, 2)).shape
    jit.Size([1, 3])
    """
    module = ImportedModel(read_model(model)).eval()
    traced = trace(module)
    traced.enabled = module.is_traceable
    return traced
