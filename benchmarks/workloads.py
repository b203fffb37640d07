"""Workloads: each is written once, in the spelling that torch and jit share, with its inputs and the work it takes.

`t` is the library's namespace (torch, jit, or the few names of it that `peers` provides over jax.numpy and numpy).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = list[Any]


@dataclass(frozen=True)
class Workload:
    """One program."""

    name: str
    function: Callable[..., Any]
    """`function(t, *tensors)` -> a tensor or a tuple of tensors."""
    inputs: Callable[[np.random.Generator], Arrays]
    bytes: int = 0
    """The bytes that must at least move to and from memory; 0 if memory is not what limits it."""
    writes: bool = True
    """Whether about as much is written as read; False if next to nothing is written."""
    flops: int = 0
    """The flops of its matrix products; 0 if they are not what limits it."""
    gradients: tuple[int, ...] = ()
    """The results are the gradients of `function`, a scalar, with respect to these inputs."""
    learning_rate: float | None = None
    """With a rate, the results are those inputs after one step of gradient descent."""
    numba: Callable[..., Any] | None = None
    """A loop over flat arrays: `numba(out, *arrays)`."""
    numexpr: str | None = None
    """The same as an expression; a, b, c are the arrays."""
    library: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """Ready-made implementations, by the peer's name: `make(torch, *tensors)` gives a callable, as in `peers`."""


WORKLOADS: dict[str, Workload] = {}


def workload(inputs: Callable[[np.random.Generator], Arrays], name: str | None = None, **facts: Any) -> Any:
    """Adds the decorated function to `WORKLOADS`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        made = Workload(name or function.__name__, function, inputs, **facts)
        WORKLOADS[made.name] = made
        return function

    return register


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[np.random.Generator], Arrays]:
    """Standard normal float32 arrays of these shapes, times `scale`."""
    return lambda rng: [(rng.standard_normal(shape) * scale).astype(np.float32) for shape in shapes]


def of_bytes(*sizes: int) -> int:
    """The bytes of float32 arrays with so many elements."""
    return 4 * sum(sizes)


# -- pointwise ---------------------------------------------------------------------------------------------------

BIG = 1 << 24


def gated(t: Any, x: Any, g: Any) -> Any:
    """tanh-GELU(x) * sigmoid(g)."""
    return 0.5 * x * (1 + t.tanh(0.7978845608 * (x + 0.044715 * x * x * x))) * t.sigmoid(g)


def _gated_loop(out: Any, x: Any, g: Any) -> None:
    for i in range(out.size):
        v = x[i]
        inner = np.tanh(np.float32(0.7978845608) * (v + np.float32(0.044715) * v * v * v))
        out[i] = np.float32(0.5) * v * (np.float32(1) + inner) / (np.float32(1) + np.exp(-g[i]))


GATED = "0.5 * a * (1 + tanh(0.7978845608 * (a + 0.044715 * a * a * a))) / (1 + exp(-b))"
workload(normal((BIG,), (BIG,)), "ew_big", bytes=of_bytes(3 * BIG), numba=_gated_loop, numexpr=GATED)(gated)
workload(normal((1024,), (1024,)), "ew_small", numba=_gated_loop, numexpr=GATED)(gated)


@workload(normal((BIG,), (BIG,)), bytes=of_bytes(3 * BIG), numexpr="a + b")
def add_big(t: Any, x: Any, y: Any) -> Any:
    """One op on much data: nothing but memory."""
    return x + y


def _add_loop(out: Any, x: Any, y: Any) -> None:
    for i in range(out.size):
        out[i] = x[i] + y[i]


@workload(normal((1024,), (1024,)), numba=_add_loop, numexpr="a + b")
def ew_one(t: Any, x: Any, y: Any) -> Any:
    """One op on little data: what a call costs."""
    return x + y


BROADCAST = normal((256, 1, 1024), (1, 128, 1024), (1024,))


@workload(BROADCAST, bytes=of_bytes(256 * 128 * 1024), numexpr="where(a * b + c > 0, a * b + c, 0) * 0.5 - a")
def ew_bcast(t: Any, x: Any, y: Any, z: Any) -> Any:
    """A broadcast of three arrays: only the result is large."""
    return t.relu(x * y + z) * 0.5 - x


@workload(BROADCAST)
def ew_bcast_red(t: Any, x: Any, y: Any, z: Any) -> Any:
    """The same, averaged: nothing is large but what should never be stored."""
    return t.mean(t.relu(x * y + z) * 0.5 - x, -1)


@workload(normal((4096,)))
def ew1000(t: Any, x: Any) -> Any:
    """A chain of 1,000 ops."""
    for _ in range(250):
        x = t.tanh(x * 1.01 + 0.5) - 0.25
    return x


# -- reductions --------------------------------------------------------------------------------------------------


@workload(normal((4096, 1024)), bytes=of_bytes(2 * 4096 * 1024))
def softmax_last(t: Any, x: Any) -> Any:
    """A softmax over the last dim: each row lies in one piece."""
    return t.softmax(x, -1)


@workload(normal((64, 512, 128)), bytes=of_bytes(2 * 64 * 512 * 128))
def softmax_mid(t: Any, x: Any) -> Any:
    """A softmax over a dim that is not the innermost."""
    return t.softmax(x, 1)


LAYER_NORM = normal((8192, 768), (768,), (768,), (8192, 768))


@workload(normal((8192, 768), (768,), (768,)), bytes=of_bytes(2 * 8192 * 768))
def ln_fwd(t: Any, x: Any, w: Any, b: Any) -> Any:
    """Layer norm."""
    return t.layer_norm(x, w, b)


@workload(LAYER_NORM, bytes=of_bytes(4 * 8192 * 768), gradients=(0, 1, 2))
def ln_fwdbwd(t: Any, x: Any, w: Any, b: Any, d: Any) -> Any:
    """Layer norm and its gradients, weighted by `d`."""
    return t.sum(t.layer_norm(x, w, b) * d)


MATRIX = normal((4096, 4096))


@workload(MATRIX, bytes=of_bytes(4096 * 4096), writes=False)
def sum0(t: Any, x: Any) -> Any:
    """The sums of columns."""
    return t.sum(x, 0)


@workload(MATRIX, bytes=of_bytes(4096 * 4096), writes=False)
def sum1(t: Any, x: Any) -> Any:
    """The sums of rows."""
    return t.sum(x, 1)


@workload(MATRIX, bytes=of_bytes(4096 * 4096), writes=False)
def sumall(t: Any, x: Any) -> Any:
    """The sum of everything."""
    return t.sum(x)


@workload(MATRIX, bytes=of_bytes(4096 * 4096), writes=False)
def var1(t: Any, x: Any) -> Any:
    """The variance of rows."""
    return t.var(x, 1)


@workload(MATRIX, bytes=of_bytes(4096 * 4096), writes=False)
def argmax1(t: Any, x: Any) -> Any:
    """The position of each row's maximum."""
    return t.argmax(x, 1)


@workload(normal((4096, 4096), (4096, 4096)), bytes=of_bytes(2 * 4096 * 4096), writes=False)
def dots(t: Any, x: Any, y: Any) -> Any:
    """The products of rows, averaged: a chain that ends in a reduction."""
    return t.mean(t.relu(x * y), 1)


# -- recurrent ---------------------------------------------------------------------------------------------------


def gates(t: Any, total: Any, c: Any) -> Any:
    """The pointwise part of an LSTM cell."""
    i, f, g, o = t.chunk(total, 4, 1)
    after = t.sigmoid(f) * c + t.sigmoid(i) * t.tanh(g)
    return t.sigmoid(o) * t.tanh(after), after


workload(normal((64, 2048), (64, 512)), "lstm_cell")(gates)

STEPS, BATCH, HIDDEN = 100, 16, 256
LSTM_SHAPES = ((STEPS, BATCH, HIDDEN), (4 * HIDDEN, HIDDEN), (4 * HIDDEN, HIDDEN), (4 * HIDDEN,))
LSTM_FLOPS = 2 * 2 * STEPS * BATCH * HIDDEN * 4 * HIDDEN


def _torch_lstm(torch: Any, x: Any, w: Any, u: Any, b: Any) -> Callable[[], Any]:
    module = torch.nn.LSTM(HIDDEN, HIDDEN)
    values = dict(weight_ih_l0=w, weight_hh_l0=u, bias_ih_l0=b, bias_hh_l0=torch.zeros_like(b))
    module.load_state_dict(values)

    def run() -> Any:
        with torch.inference_mode():
            return module(x)[0][-1]

    return run


@workload(normal(*LSTM_SHAPES, scale=0.05), flops=LSTM_FLOPS, library={"torch nn.LSTM": _torch_lstm})
def lstm_100(t: Any, x: Any, w: Any, u: Any, b: Any) -> Any:
    """A hundred steps, written as a loop."""
    h = c = x[0] * 0
    for step in range(STEPS):
        h, c = gates(t, x[step] @ w.T + h @ u.T + b, c)
    return h


def _torch_lstm_gradients(torch: Any, x: Any, w: Any, u: Any, b: Any) -> Callable[[], Any]:
    module = torch.nn.LSTM(HIDDEN, HIDDEN)
    values = dict(weight_ih_l0=w, weight_hh_l0=u, bias_ih_l0=b, bias_hh_l0=torch.zeros_like(b))
    module.load_state_dict(values)
    wanted = (module.weight_ih_l0, module.weight_hh_l0, module.bias_ih_l0)
    return lambda: torch.autograd.grad(module(x)[0][-1].sum(), wanted)


@workload(normal(*LSTM_SHAPES, scale=0.05), flops=3 * LSTM_FLOPS, gradients=(1, 2, 3),
          library={"torch nn.LSTM": _torch_lstm_gradients})  # fmt: skip
def lstm_100_bwd(t: Any, x: Any, w: Any, u: Any, b: Any) -> Any:
    """The same with gradients."""
    return t.sum(lstm_100(t, x, w, u, b))


# -- dense -------------------------------------------------------------------------------------------------------


def mlp(t: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    """A network of linear layers: 784-512-512-10."""
    x = t.relu(x @ w1.T + b1)
    x = t.relu(x @ w2.T + b2)
    return x @ w3.T + b3


LAYERS = ((512, 784), (512,), (512, 512), (512,), (10, 512), (10,))
MLP_WEIGHTS = 512 * 784 + 512 * 512 + 10 * 512
workload(normal((32, 784), *LAYERS, scale=0.05), "mlp_infer", flops=2 * 32 * MLP_WEIGHTS)(mlp)


@workload(normal((64, 784), *LAYERS, (64, 10), scale=0.05), flops=6 * 64 * MLP_WEIGHTS,
          gradients=tuple(range(1, 7)), learning_rate=0.01)  # fmt: skip
def mlp_train(t: Any, *tensors: Any) -> Any:
    """A training step: forward, gradients, update."""
    *arguments, target = tensors
    difference = mlp(t, *arguments) - target
    return t.mean(difference * difference)


@workload(normal((1024, 1024), (1024, 1024)), flops=2 * 1024**3)
def matmul(t: Any, a: Any, b: Any) -> Any:
    """A matrix product."""
    return a @ b


@workload(normal((256, 64, 64), (256, 64, 64)), flops=2 * 256 * 64**3)
def bmm(t: Any, a: Any, b: Any) -> Any:
    """Many small matrix products."""
    return t.matmul(a, b)


@workload(normal((512, 1024), (1024, 1024), (1024,)), flops=2 * 512 * 1024 * 1024)
def linear_gelu(t: Any, x: Any, w: Any, b: Any) -> Any:
    """A product with an epilogue."""
    y = x @ w.T + b
    return 0.5 * y * (1 + t.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))


@workload(
    lambda rng: [rng.integers(0, 32000, (64, 128)), *normal((32000, 256))(rng)], bytes=of_bytes(2 * 64 * 128 * 256)
)
def embedding(t: Any, index: Any, table: Any) -> Any:
    """A gather of rows."""
    return t.embedding(index, table)


@workload(normal((4096, 1024)), bytes=of_bytes(2 * 4096 * 1024))
def cumsum(t: Any, x: Any) -> Any:
    """A scan along rows."""
    return t.cumsum(x, 1)


# -- convolutional -----------------------------------------------------------------------------------------------


def _convolution(name: str, x: tuple[int, ...], w: tuple[int, ...], places: int, **window: int) -> None:
    """A convolution, and the sum of its squares with gradients."""
    flops = 2 * x[0] * places * int(np.prod(w))
    inputs = normal(x, w, scale=0.1)

    def forward(t: Any, image: Any, weight: Any) -> Any:
        return t.conv2d(image, weight, **window)

    def squares(t: Any, image: Any, weight: Any) -> Any:
        y = forward(t, image, weight)
        return t.sum(y * y)

    workload(inputs, name, flops=flops)(forward)
    workload(inputs, f"{name}_bwd", flops=3 * flops, gradients=(0, 1))(squares)


_convolution("conv3x3", (1, 64, 56, 56), (64, 64, 3, 3), 56 * 56, padding=1)
_convolution("conv1x1", (1, 64, 56, 56), (256, 64, 1, 1), 56 * 56)
_convolution("conv_stem", (1, 3, 224, 224), (64, 3, 7, 7), 112 * 112, padding=3, stride=2)
_convolution("conv_dw", (1, 144, 56, 56), (144, 1, 3, 3), 56 * 56, padding=1, groups=144)


def _block_inputs(rng: np.random.Generator) -> Arrays:
    images = normal((8, 256, 56, 56), (64, 256, 1, 1), (64, 64, 3, 3), (256, 64, 1, 1), scale=0.05)(rng)
    norms = [np.abs(a) + np.float32(0.5) for a in normal(*((c,) for c in (64, 64, 256) for _ in range(4)))(rng)]
    return images + norms


@workload(_block_inputs, flops=2 * 8 * 56 * 56 * (2 * 256 * 64 + 9 * 64 * 64))
def conv_block(t: Any, x: Any, w1: Any, w2: Any, w3: Any, *norms: Any) -> Any:
    """A bottleneck block of a ResNet in evaluation mode, batch 8."""

    def norm(y: Any, layer: int) -> Any:
        weight, bias, mean, variance = norms[4 * layer : 4 * layer + 4]
        return t.batch_norm(y, weight, bias, mean, variance, False, 0.1, 1e-5, False)

    y = t.relu(norm(t.conv2d(x, w1), 0))
    y = t.relu(norm(t.conv2d(y, w2, padding=1), 1))
    return t.relu(norm(t.conv2d(y, w3), 2) + x)


def cnn(t: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any) -> Any:
    """Three convolutions, two of them pooled, and a linear layer, on 32 images of 32 by 32 pixels."""
    x = t.max_pool2d(t.relu(t.conv2d(x, w1, b1, padding=1)), 2)
    x = t.max_pool2d(t.relu(t.conv2d(x, w2, b2, padding=1)), 2)
    x = t.mean(t.relu(t.conv2d(x, w3, b3, padding=1)), (2, 3))
    return x @ w4.T + b4


CNN = normal(
    (32, 3, 32, 32), (32, 3, 3, 3), (32,), (64, 32, 3, 3), (64,), (128, 64, 3, 3), (128,), (10, 128), (10,), scale=0.2
)  # fmt: skip
CNN_FLOPS = 2 * 32 * 9 * (1024 * 3 * 32 + 256 * 32 * 64 + 64 * 64 * 128)
workload(CNN, "cnn_infer", flops=CNN_FLOPS)(cnn)


@workload(CNN, flops=3 * CNN_FLOPS, gradients=tuple(range(1, 9)), learning_rate=0.01)
def cnn_train(t: Any, *arrays: Any) -> Any:
    """A step of gradient descent on the mean of squares."""
    y = cnn(t, *arrays)
    return t.mean(y * y)
