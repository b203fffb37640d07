"""Products and convolutions on a GPU, one operator at a time: by cuDNN, or by kernels that `gpu.operators` chooses.

Note [cuDNN first]
    Convolutions, their gradients and attention are asked of cuDNN where it is installed. What it refuses, for arrays of
    some layout, is a kernel of this package from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from jit.ir.dtypes import from_numpy
from jit.ir.errors import CompileError
from jit.ir.op import Op

from ..gpu import convolutions, operators
from ..gpu.attention import attention_kernel, attention_nest
from ..gpu.attention_backward import GRADIENTS, gradient_kernel, kernels_of
from ..gpu.convolutions import SlidingWindow
from ..gpu.device import DeviceKernel, device_kernel
from ..kernels.nest import Buffer, Nest
from ..targets.target import Target
from .cublas import Cublas
from .cublas_products import CublasProduct
from .cudnn_attention import CudnnAttention, CudnnAttentionGradients
from .cudnn_convolutions import PARTS, ConvolutionSizes, CudnnConvolution
from .cudnn_library import CudnnDevice
from .launching import CudaKernel, Driver, NoDriver
from .open_kernels import OpenKernels

Kernel = Callable[[Sequence[Any], Sequence[Any]], None]
MOST_KERNELS = 4096
"""The most layouts for which kernels are kept; the driver's functions, which layouts share, stay loaded."""


class CudaProducts:
    """The products of one GPU, whose kernels are kept by the layouts of their arrays.

    Args:
        gpu: The architecture of the GPU, and the number of its multiprocessors.
        driver: Loads kernels and launches them.
        module: `cupy`, or what stands for it.
        cublas: The library of products, where it can be called by its address.
        cudnn: The package `cudnn`, or what stands for it; None if there is none.
    """

    def __init__(
        self, gpu: tuple[str, int], driver: Driver, module: Any, cublas: Cublas | None, cudnn: Any = None
    ) -> None:
        self._gpu, self._module, self._cublas = gpu, module, cublas
        self.driver = driver
        """Loads kernels and launches them."""
        self.cudnn = CudnnDevice(cudnn, module)
        """cuDNN, if it is installed."""
        self._kernels: dict[Hashable, tuple[Buffer, Kernel] | None] = {}
        """The layout of the result, and the kernel, by the layouts of arrays."""
        self._open: dict[Hashable, OpenKernels] = {}
        """The kernels for all layouts, by what else decides on them."""

    def computed(self, op: Op, values: Sequence[Any]) -> list[Any] | None:
        """The results of an operator, given its arguments; None if the library's functions shall compute them."""
        if isinstance(self.driver, NoDriver) and self.cudnn.frontend is None:
            return None
        try:
            if op.kernel.step == "product":
                return self._product(op, values)
            named = _named(op, values)
            if op.kernel.step == "convolution gradients":
                return self._gradients(named)
            if op.kernel.step == "convolution" and named["transposed"]:
                return self._transposed(named)
            if op.kernel.step == "attention":
                return self._attention(named)
            if op.kernel.step == "attention gradients":
                return self._attention_gradients(named)
            return self._product(op, values)
        except CompileError:
            return None

    # -- one product ---------------------------------------------------------------------------------------------

    def _product(self, op: Op, values: Sequence[Any]) -> list[Any] | None:
        arrays = [value for value in values if hasattr(value, "strides")]
        numbers: tuple[Hashable, ...] = ()
        if len(arrays) < len(values):
            numbers = tuple(_plain(value) for value in values if not hasattr(value, "strides"))
        choice = self.cudnn.choice(arrays) if op.kernel.step == "convolution" else ()
        key = op.name, numbers, choice, *map(_layout, arrays)
        if key not in self._kernels:
            self._keep(key, self._chosen(op, numbers, _named(op, values), arrays))
        found = self._kernels[key]
        if found is None:
            return None
        buffer, kernel = found
        out = self._module.ndarray(buffer.sizes, buffer.dtype.numpy)
        kernel(arrays, [out])
        return [out]

    def _chosen(
        self, op: Op, numbers: Hashable, named: Mapping[str, Any], arrays: Sequence[Any]
    ) -> tuple[Buffer, Kernel] | None:
        values = {name: buffered(value) for name, value in named.items()}
        nest = operators.nest_of(op, values)
        if nest is None:
            return None
        if op.kernel.step == "convolution":
            sizes = ConvolutionSizes(arrays[0].shape, arrays[1].shape, nest.outputs[0].sizes)
            kernel = self._by_cudnn(CudnnConvolution, "forward", arrays[:2], sizes, _window(named))
            if kernel is not None:
                return nest.outputs[0], kernel
        if not operators.pays(op, nest, followed=False, has_cublas=self._cublas is not None):
            return None if self._cublas is None else (nest.outputs[0], self._by_cublas(op, values, self._cublas))
        kernels = self._open.setdefault(
            (op.name, numbers), OpenKernels(self._maker(op, named), self.driver, self._module)
        )
        return nest.outputs[0], kernels.at([*map(Buffer.like, arrays)])

    def _by_cublas(self, op: Op, values: Mapping[str, Any], cublas: Cublas) -> Kernel:
        """A product, or the sum of one and an addend, by a call of cuBLAS."""
        *_, a, b = (value for value in values.values() if isinstance(value, Buffer))
        alpha, beta = float(values.get("alpha", 1)), float(values.get("beta", 0))
        product = CublasProduct(a, b, cublas, alpha, beta).at(self._module)

        def run(arrays: Sequence[Any], outs: Sequence[Any]) -> None:
            *addend, a, b = arrays
            if beta:
                outs[0][...] = addend[0]
            product(a, b, outs[0], op.schema.name)

        return run

    def _maker(self, op: Op, named: Mapping[str, Any]) -> Callable[..., DeviceKernel]:
        """A function from layouts to the kernel of an operator, whose other arguments are among `named`."""
        names = [name for name, value in named.items() if hasattr(value, "strides")]
        others = {name: value for name, value in named.items() if name not in names}

        def make(*buffers: Buffer) -> DeviceKernel:
            nest = operators.nest_of(op, others | dict(zip(names, buffers, strict=True)))
            if nest is None:
                raise CompileError(f"{op.name} is no product for all sizes; compute it by CuPy")
            return self._lowered(nest)

        return make

    def _by_cudnn(self, make: Callable[..., Kernel], *arguments: Any) -> Kernel | None:
        """A kernel of cuDNN's; None if it is not to be used, or refuses."""
        try:
            return make(self.cudnn, *arguments) if self.cudnn.is_on() else None
        except CompileError:
            return None

    def _keep(self, key: Hashable, found: tuple[Buffer, Kernel] | None) -> None:
        """Keep a kernel; the oldest goes where there are too many."""
        self._kernels[key] = found
        while len(self._kernels) > MOST_KERNELS:
            del self._kernels[next(iter(self._kernels))]

    def _lowered(self, nest: Nest) -> DeviceKernel:
        return device_kernel(nest, Target.nvidia(self._gpu[0]), self._gpu[1])

    def _attention(self, named: Mapping[str, Any]) -> list[Any] | None:
        arrays = [named[name] for name in ("query", "key", "value", "attn_mask") if named[name] is not None]
        if any(array.dtype != arrays[0].dtype for array in arrays[:3]) or not all(array.size for array in arrays):
            return None
        scale, causal, target = named["scale"], named["is_causal"], Target.nvidia(self._gpu[0])
        rows, empty = arrays[0].shape[:-1], self._module.empty
        outs = [empty((*rows, arrays[2].shape[-1]), arrays[0].dtype), empty(rows, "float32")]

        def make(q: Buffer, k: Buffer, v: Buffer, *rest: Buffer) -> DeviceKernel:
            *masks, out, logsumexp = rest
            nest = attention_nest(q, k, v, masks[0] if masks else None, out, logsumexp)
            return attention_kernel(nest, target, scale, causal)

        quick = partial(self._by_cudnn, CudnnAttention, arrays, scale, causal) if len(arrays) == 3 else None
        return self._filled(("attention", scale, causal), make, arrays, outs, quick)

    def _attention_gradients(self, named: Mapping[str, Any]) -> list[Any] | None:
        given = {name: value for name, value in named.items() if hasattr(value, "strides")}
        factors = [given[name] for name in ("grad", *GRADIENTS)]
        if any(array.dtype != factors[0].dtype for array in factors) or not all(a.size for a in given.values()):
            return None
        wanted = [name for name, is_wanted in zip(GRADIENTS, named["output_mask"], strict=True) if is_wanted]
        found = self._gradients_by_cudnn(named, given)
        if found is not None:
            return [found[name] if name in wanted else None for name in GRADIENTS]
        found = {}
        for names in kernels_of(wanted, given["key"].shape[-1] == given["value"].shape[-1]):
            outs = [self._module.empty(given[name].shape, given[name].dtype) for name in names]
            found |= zip(names, self._some_gradients(names, named, given, outs), strict=True)
        return [found.get(name) for name in GRADIENTS]

    def _gradients_by_cudnn(self, named: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
        """All gradients by cuDNN, if it computes them."""
        arrays = list(given.values())
        choice = self.cudnn.choice(arrays)
        if not choice or "attn_mask" in given:
            return None
        key = "attention gradients", named["scale"], named["is_causal"], choice, *map(_layout, arrays)
        if key not in self._kernels:
            kernel = self._by_cudnn(CudnnAttentionGradients, arrays[:4], named["scale"], named["is_causal"])
            self._keep(key, None if kernel is None else (Buffer.like(arrays[0]), kernel))
        found = self._kernels[key]
        if found is None:
            return None
        outs = {name: self._module.empty(given[name].shape, given[name].dtype) for name in GRADIENTS}
        found[1](arrays, list(outs.values()))
        return outs

    def _some_gradients(
        self, names: tuple[str, ...], named: Mapping[str, Any], given: Mapping[str, Any], outs: list[Any]
    ) -> list[Any]:
        """The gradients that one kernel computes."""
        scale, causal, target, operands = named["scale"], named["is_causal"], Target.nvidia(self._gpu[0]), tuple(given)

        def make(*buffers: Buffer) -> DeviceKernel:
            layouts = dict(zip(operands, buffers, strict=False))
            return gradient_kernel(names, layouts, buffers[len(operands) :], target, scale, causal)

        return self._filled((names, operands, scale, causal), make, list(given.values()), outs)

    def _filled(
        self, kind: tuple[Hashable, ...], make: Callable[..., DeviceKernel], arrays: Sequence[Any], outs: list[Any],
        quick: Callable[[], Kernel | None] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Fill arrays by a kernel of a kind: what `quick` gives, or `make` for the layouts of all arrays."""
        key = *kind, self.cudnn.choice(arrays) if quick else (), *map(_layout, arrays)
        if key not in self._kernels:
            buffers, kernel = [*map(Buffer.like, (*arrays, *outs))], quick() if quick else None
            if kernel is None:
                kernel = self._open.setdefault(kind, OpenKernels(make, self.driver, self._module)).at(buffers)
            self._keep(key, (buffers[-1], kernel))
        found = self._kernels[key]
        assert found is not None
        found[1](arrays, outs)
        return outs

    # -- several -------------------------------------------------------------------------------------------------

    def _run(self, key: Hashable, make: Callable[..., Nest], inputs: Sequence[Any], out: Any) -> None:
        """Run the kernel of a nest that is made of the layouts of arrays."""
        full = make.__name__, key, *map(_layout, (*inputs, out))
        if full not in self._kernels:
            nest = make(*map(Buffer.like, (*inputs, out)))
            self._keep(full, (nest.outputs[0], CudaKernel(self._lowered(nest), self.driver, self._module)))
        found = self._kernels[full]
        assert found is not None
        found[1](inputs, [out])

    def _transposed(self, named: Mapping[str, Any]) -> list[Any] | None:
        y, weight, bias, window = named["input"], named["weight"], named["bias"], _window(named)
        extra = tuple(named["output_padding"])
        extra = extra * len(window.stride) if len(extra) == 1 else extra
        if not _fits(y, weight, bias) or y.shape[1] != weight.shape[0] or y.shape[1] % window.groups:
            return None
        sizes = window.image(y.shape[2:], weight.shape[2:], extra)
        if min(sizes) < 1 or (bias is not None and bias.shape != (weight.shape[1] * window.groups,)):
            return None
        return [self._by_input(y, weight, bias, (y.shape[0], weight.shape[1] * window.groups, *sizes), window)]

    def _by_input(self, y: Any, weight: Any, bias: Any, sizes: Sequence[int], window: SlidingWindow) -> Any:
        """The gradient by the input: by cuDNN, or phase by phase."""
        shapes = ConvolutionSizes(tuple(sizes), weight.shape, y.shape)
        found = self._part("by input", [y, weight], shapes, window)
        if found is not None:
            return found if bias is None else self._module.add(found, bias.reshape(-1, *(1,) * len(window.stride)))
        phases = list(convolutions.phases_of(sizes[2:], weight.shape[2:], window))
        out = self._module.zeros(sizes, y.dtype)
        if bias is not None and not all(p.taps for phase in phases for p in phase):
            out[...] = bias.reshape(-1, *(1,) * len(window.stride))
        inputs = [y, weight] if bias is None else [y, weight, bias]

        for phase in phases:
            if not all(p.taps and p.places for p in phase):
                continue

            def by_input(*buffers: Buffer, phase: Sequence[convolutions.Phase] = phase) -> Nest:
                *given, result = buffers
                third = given[2] if bias is not None else None
                return convolutions.by_input(given[0], given[1], third, result, window, phase)

            self._run((window, phase), by_input, inputs, out)
        return out

    def _gradients(self, named: Mapping[str, Any]) -> list[Any] | None:
        g, x, weight, window = named["grad_output"], named["input"], named["weight"], _window(named)
        if not _fits(g, x, weight):
            return None
        wanted, transposed = named["output_mask"], named["transposed"]
        found: list[Any] = [None, None, None]
        if wanted[0] and transposed:
            found[0] = self._turned_forward(g, weight, x.shape, window)
        elif wanted[0]:
            found[0] = self._by_input(g, weight, None, x.shape, window)
        if wanted[1]:
            small, large = (x, g) if transposed else (g, x)
            found[1] = self._by_weight(small, large, weight.shape, window)
        if wanted[2]:
            total = self._module.sum(g.astype(_total(g)), axis=(0, *range(2, g.ndim)))
            found[2] = total.astype(g.dtype)
        return found

    def _turned_forward(self, g: Any, weight: Any, sizes: tuple[int, ...], window: SlidingWindow) -> Any:
        """The gradient by the input of a transposed convolution."""
        found = self._part("forward", [g, weight], ConvolutionSizes(g.shape, weight.shape, sizes), window)
        if found is None:
            found = self._module.empty(sizes, g.dtype)
            self._run(window, _forward(window), [g, weight], found)
        return found

    def _part(self, part: str, arrays: list[Any], sizes: ConvolutionSizes, window: SlidingWindow) -> Any:
        """One of the maps of a convolution by cuDNN; None if it does not compute it."""
        choice = self.cudnn.choice(arrays)
        if not choice:
            return None
        made = getattr(sizes, PARTS[part].made)
        key = part, window, made, choice, *map(_layout, arrays)
        if key not in self._kernels:
            kernel = self._by_cudnn(CudnnConvolution, part, arrays, sizes, window)
            self._keep(key, None if kernel is None else (Buffer.like(arrays[0]), kernel))
        found = self._kernels[key]
        if found is None:
            return None
        out = self._module.empty(made, arrays[0].dtype)
        found[1](arrays, [out])
        return out

    def _by_weight(self, y: Any, x: Any, sizes: tuple[int, ...], window: SlidingWindow) -> Any:
        """The gradient by the weight: by cuDNN, or of parts of the images, then their sum."""
        found = self._part("by weight", [y, x], ConvolutionSizes(x.shape, sizes, y.shape), window)
        if found is not None:
            return found
        tiles = operators.tiles_of(Buffer.like(self._module.empty(sizes, y.dtype)))
        parts = convolutions.parts_of(x.shape[0], tiles, 2 * self._gpu[1])
        out = self._module.empty((parts, *sizes), _total(y) if parts > 1 else y.dtype)

        def by_weight(y: Buffer, x: Buffer, out: Buffer) -> Nest:
            return convolutions.by_weight(y, x, out, window)

        self._run(window, by_weight, [y, x], out)
        return self._module.sum(out, axis=0).astype(y.dtype) if parts > 1 else out[0]


def _named(op: Op, values: Sequence[Any]) -> dict[str, Any]:
    return {argument.name: value for argument, value in zip(op.arguments, values, strict=True)}


def _forward(window: SlidingWindow) -> Callable[..., Nest]:
    def forward(x: Buffer, weight: Buffer, out: Buffer) -> Nest:
        return convolutions.forward(x, weight, None, out, window)

    return forward


def buffered(value: Any) -> Any:
    """The layout of an array; other values as they are."""
    return Buffer.like(value) if hasattr(value, "strides") else value


def _window(named: Mapping[str, Any]) -> SlidingWindow:
    return operators.window_in(named, named["weight"].ndim - 2)


def _fits(*arrays: Any) -> bool:
    """Whether arrays are of one dtype that there are products of, and none is empty."""
    given = [array for array in arrays if array is not None]
    return (
        len({array.dtype for array in given}) == 1
        and all(array.size for array in given)
        and (given[0].dtype.kind == "f" or from_numpy(given[0].dtype).is_half)
    )


def _total(array: Any) -> Any:
    """The dtype of sums."""
    return "float32" if from_numpy(array.dtype).is_half else array.dtype


def _layout(array: Any) -> Hashable:
    return array.dtype, array.shape, array.strides


def _plain(value: Any) -> Hashable:
    return tuple(value) if isinstance(value, list) else value
