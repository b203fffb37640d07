"""`jit.CppOp`: a native function, given by its address, as an operator on tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import TensorType
from jit.ir.errors import AutogradError, Error, SchemaError, UsageError
from jit.ir.schema import parse_schema
from jit.runtime.arrays.native import SIGNATURE, call_native

from .eager import context, dispatch
from .eager.tensors import Tensor, tensor_of
from .tracing.surroundings.properties import type_of

TypeRule = Callable[..., Any]


class CppOp:
    """A native function of tensors under the C ABI of `jit.runtime.arrays.native`.

    Args:
        schema: Its signature: `cpp::scale(Tensor x) -> Tensor`; tensors only.
        function: The address as an int, a ctypes function pointer, or a numba cfunc.
        type: Takes the TensorTypes of the arguments and returns the type(s) of the results; if left out every result
            is like the first argument.
        context_pointer: Passed to the function as `ctx`.

    A CppOp has no derivative: under gradients wrap it in an `autograd.Function`.

    Raises:
        SchemaError: The schema takes something other than tensors.
        UsageError: The function is nothing that has an address.

    >>> import ctypes, jit
    >>> from jit.runtime.arrays.native import SIGNATURE
    >>> def double(buffers, n, ctx):
    ...     source = ctypes.cast(buffers[0].data, ctypes.POINTER(ctypes.c_float))
    ...     target = ctypes.cast(buffers[1].data, ctypes.POINTER(ctypes.c_float))
    ...     for i in range(buffers[0].sizes[0]):
    ...         target[i] = 2 * source[i]
    ...     return 0
    >>> op = jit.CppOp("cpp::double(Tensor x) -> Tensor", SIGNATURE(double))
    >>> op(jit.ones(2)).tolist()
    [2.0, 2.0]
    """

    def __init__(
        self, schema: str, function: Any, *, type: TypeRule | None = None, context_pointer: int | None = None
    ) -> None:
        self.schema = parse_schema(schema)
        if self.schema.namespace != "cpp" or any(str(a.type) != "Tensor" for a in self.schema.arguments):
            raise SchemaError(
                f"a CppOp takes tensors alone and is named cpp::..., so {schema!r} cannot be one; write it like "
                "cpp::scale(Tensor x) -> Tensor"
            )
        self.__name__ = self.schema.name
        self._owner = function
        self._function = SIGNATURE(_address(function))
        self._type = type
        self._context = context_pointer

    @property
    def address(self) -> int:
        """The address of the function."""
        return _address(self._owner)

    def __call__(self, *tensors: Tensor) -> Any:
        """Run the function; the results are new tensors."""
        self._check(tensors)
        trace = context.TRACE.get()
        try:
            outputs = [tensor_of(a) for a in self.run([t._array for t in tensors])]
        except Exception as error:
            if trace is not None:
                trace.note_foreign(error, self.__name__)
            raise
        if trace is not None:
            trace.record_native(self, tensors, outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _check(self, tensors: Sequence[Any]) -> None:
        if len(tensors) != len(self.schema.arguments) or not all(isinstance(t, Tensor) for t in tensors):
            raise SchemaError(
                f"{self.__name__} does not take these {len(tensors)} arguments; pass tensors as in {self.schema}"
            )
        if context.GRAD_ENABLED.get() and any(map(dispatch.requires_grad, tensors)):
            raise AutogradError(
                f"the native function {self.__name__} has no derivative, and an argument requires grad; call it under "
                "jit.no_grad(), or in the forward of an autograd.Function that has a backward"
            )

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Run the function on arrays, for the interpreter."""
        types = self._types([type_of(tensor_of(a)) for a in arrays])
        outputs = [np.zeros(t.sizes, t.dtype.numpy) for t in types]  # type: ignore[arg-type, union-attr, type-var]
        call_native(self._function, self.__name__, arrays, outputs, self._context)
        return outputs

    def _types(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if self._type is None:
            if not inputs:
                raise UsageError(f"{self.__name__} takes no tensors, so what it returns is not known; pass type=")
            return [TensorType(inputs[0].dtype, inputs[0].shape)] * len(self.schema.returns)
        found = self._type(*inputs)
        types = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(types) != len(self.schema.returns):
            raise Error(
                f"type= of {self.__name__} returned {len(types)} types for {len(self.schema.returns)} results; return "
                "one for each"
            )
        return types


def _address(function: Any) -> int:
    if isinstance(function, int):
        return function
    if isinstance(getattr(function, "address", None), int):
        return function.address  # a numba cfunc
    if isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise UsageError(f"a CppOp needs an address, a ctypes function or a numba cfunc, not {type(function).__name__}")
