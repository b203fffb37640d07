"""Peers: one adapter per library, which makes a callable without arguments of a workload and its arrays.

An adapter raises ImportError if its library is not installed, and `CannotDo` if it cannot express the workload; the
peer is then left out of the row.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

Call = Callable[[], Any]
PEERS: dict[str, Callable[[Workload, list[Any], int], Call]] = {}


CONVOLVING = ("conv2d", "max_pool2d", "batch_norm")
"""What torch and jit have, and the other namespaces below do not."""


class CannotDo(Exception):
    """The peer has no way to express the workload."""


class _Names(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        raise CannotDo


def peer(name: str) -> Any:
    """Adds the decorated adapter to `PEERS`."""

    def register(make: Callable[[Workload, list[Any], int], Call]) -> Any:
        PEERS[name] = make
        return make

    return register


def with_gradients(work: Workload, t: Any, grad: Callable[..., Any]) -> Callable[..., Any]:
    """The whole program of a workload: the function, its gradients, or a step of gradient descent."""
    if not work.gradients:
        return lambda *tensors: work.function(t, *tensors)

    def program(*tensors: Any) -> Any:
        found = grad(lambda *inner: work.function(t, *inner), tensors, work.gradients)
        if work.learning_rate is None:
            return tuple(found)
        rate = work.learning_rate
        return tuple(_plain(tensors[i]) - rate * g for i, g in zip(work.gradients, found))

    return program


def _plain(tensor: Any) -> Any:
    """The tensor without its history: the step itself is not differentiated."""
    return tensor.detach() if hasattr(tensor, "detach") else tensor


# -- torch -------------------------------------------------------------------------------------------------------


def _torch(threads: int) -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    names = (
        "tanh",
        "sigmoid",
        "relu",
        "mean",
        "softmax",
        "sum",
        "var",
        "chunk",
        "matmul",
        "cumsum",
        "argmax",
        *CONVOLVING,
    )
    functions = {name: getattr(torch, name) for name in names}
    functions["layer_norm"] = lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b)
    functions["embedding"] = torch.nn.functional.embedding
    functions["attention"] = torch.nn.functional.scaled_dot_product_attention
    return torch, SimpleNamespace(**functions)


def _torch_program(work: Workload, arrays: list[Any], threads: int) -> tuple[Any, Callable[..., Any], list[Any]]:
    torch, t = _torch(threads)
    tensors = [torch.from_numpy(a).requires_grad_(i in work.gradients) for i, a in enumerate(arrays)]
    return (
        torch,
        with_gradients(work, t, lambda f, ts, which: torch.autograd.grad(f(*ts), [ts[i] for i in which])),
        tensors,
    )


def _without_grad(torch: Any, work: Workload, function: Callable[..., Any], tensors: list[Any]) -> Call:
    if work.gradients:
        return lambda: function(*tensors)

    def run() -> Any:
        with torch.inference_mode():
            return function(*tensors)

    return run


@peer("torch eager")
def torch_eager(work: Workload, arrays: list[Any], threads: int) -> Call:
    """Op by op."""
    torch, program, tensors = _torch_program(work, arrays, threads)
    return _without_grad(torch, work, program, tensors)


@peer("torch.jit")
def torch_jit(work: Workload, arrays: list[Any], threads: int) -> Call:
    """torch.jit.trace of the forward; gradients through torch's autograd."""
    torch, t = _torch(threads)
    tensors = [torch.from_numpy(a).requires_grad_(i in work.gradients) for i, a in enumerate(arrays)]
    traced = torch.jit.trace(lambda *ts: work.function(t, *ts), tuple(tensors), check_trace=False)
    same = SimpleNamespace()
    copy = Workload(work.name, lambda _, *ts: traced(*ts), work.inputs, gradients=work.gradients,
                    learning_rate=work.learning_rate)  # fmt: skip
    grad = lambda f, ts, which: torch.autograd.grad(f(*ts), [ts[i] for i in which])  # noqa: E731
    return _without_grad(torch, work, with_gradients(copy, same, grad), tensors)


@peer("torch.compile")
def torch_compile(work: Workload, arrays: list[Any], threads: int) -> Call:
    """Inductor, on the whole program."""
    torch, t = _torch(threads)
    tensors = [torch.from_numpy(a).requires_grad_(i in work.gradients) for i, a in enumerate(arrays)]
    compiled = torch.compile(lambda *ts: work.function(t, *ts))
    copy = Workload(work.name, lambda _, *ts: compiled(*ts), work.inputs, gradients=work.gradients,
                    learning_rate=work.learning_rate)  # fmt: skip
    grad = lambda f, ts, which: torch.autograd.grad(f(*ts), [ts[i] for i in which])  # noqa: E731
    return _without_grad(torch, work, with_gradients(copy, None, grad), tensors)


@peer("torch nn.LSTM")
def torch_library(work: Workload, arrays: list[Any], threads: int) -> Call:
    """The ready-made module, where there is one."""
    if "torch nn.LSTM" not in work.library:
        raise CannotDo
    torch, _ = _torch(threads)
    return work.library["torch nn.LSTM"](torch, *map(torch.from_numpy, arrays))


# -- jax ---------------------------------------------------------------------------------------------------------


@peer("jax.jit")
def jax_jit(work: Workload, arrays: list[Any], threads: int) -> Call:
    """XLA on the whole program."""
    jax = importlib.import_module("jax")
    jnp = jax.numpy
    t = _Names(
        tanh=jnp.tanh, sigmoid=jax.nn.sigmoid, relu=jax.nn.relu, mean=jnp.mean, softmax=jax.nn.softmax, sum=jnp.sum,
        var=lambda x, dim: jnp.var(x, dim, ddof=1), chunk=lambda x, n, dim: jnp.split(x, n, dim), matmul=jnp.matmul,
        cumsum=jnp.cumsum, argmax=jnp.argmax, layer_norm=lambda x, w, b: _layer_norm(jnp, x, w, b),
        embedding=lambda index, table: table[index],
    )  # fmt: skip
    grad = lambda f, ts, which: jax.grad(f, which)(*ts)  # noqa: E731
    compiled = jax.jit(with_gradients(work, t, grad))
    tensors = [jnp.asarray(a) for a in arrays]
    return lambda: jax.block_until_ready(compiled(*tensors))


def _layer_norm(n: Any, x: Any, w: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    return centred / n.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-5)) * w + b


# -- numpy and what compiles its loops -----------------------------------------------------------------------------


def _numpy_softmax(x: Any, dim: int) -> Any:
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


NUMPY = _Names(
    tanh=np.tanh, sigmoid=lambda x: 1 / (1 + np.exp(-x)), relu=lambda x: np.maximum(x, 0), mean=np.mean, sum=np.sum,
    softmax=_numpy_softmax, var=lambda x, dim: np.var(x, dim, ddof=1), chunk=lambda x, n, dim: np.split(x, n, dim),
    matmul=np.matmul, cumsum=np.cumsum, argmax=np.argmax, layer_norm=lambda x, w, b: _layer_norm(np, x, w, b),
    embedding=lambda index, table: table[index],
)  # fmt: skip


@peer("numpy")
def numpy_eager(work: Workload, arrays: list[Any], threads: int) -> Call:
    """Op by op; no gradients."""
    if work.gradients:
        raise CannotDo
    return lambda: work.function(NUMPY, *arrays)


@peer("numba")
def numba_loop(work: Workload, arrays: list[Any], threads: int) -> Call:
    """The loop written out, with fast-math off, parallel if the array is large."""
    if work.numba is None:
        raise CannotDo
    numba = importlib.import_module("numba")
    numba.set_num_threads(threads)
    compiled = numba.njit(work.numba)

    def run() -> Any:
        out = np.empty_like(arrays[0])
        compiled(out, *arrays)
        return out

    return run


@peer("numexpr")
def numexpr_expression(work: Workload, arrays: list[Any], threads: int) -> Call:
    """The expression, in blocks."""
    if work.numexpr is None:
        raise CannotDo
    numexpr = importlib.import_module("numexpr")
    numexpr.set_num_threads(threads)
    names = dict(zip("abc", arrays))
    text = work.numexpr
    return lambda: numexpr.evaluate(text, names)


# -- jit, and onnxruntime on what it exports ---------------------------------------------------------------------


def _jit(threads: int) -> Any:
    jit = importlib.import_module("jit")
    F = jit.nn.functional
    return jit, SimpleNamespace(
        tanh=jit.tanh, sigmoid=jit.sigmoid, relu=jit.relu, mean=jit.mean, softmax=jit.softmax, sum=jit.sum, var=jit.var,
        chunk=jit.chunk, matmul=jit.matmul, cumsum=jit.cumsum, argmax=jit.argmax, embedding=F.embedding,
        layer_norm=lambda x, w, b: F.layer_norm(x, list(w.shape), w, b), attention=F.scaled_dot_product_attention,
        **{name: getattr(jit, name) for name in CONVOLVING},
    )  # fmt: skip


@peer("jit")
def jit_traced(work: Workload, arrays: list[Any], threads: int) -> Call:
    """This project: the whole program traced and compiled."""
    jit, t = _jit(threads)
    grad = lambda f, ts, which: jit.grad(f(*ts), [ts[i] for i in which])  # noqa: E731
    traced = jit.trace(with_gradients(work, t, grad))
    tensors = [jit.from_numpy(a).requires_grad_(i in work.gradients) for i, a in enumerate(arrays)]
    if work.gradients:
        return lambda: traced(*tensors)

    def run() -> Any:
        with jit.no_grad():
            return traced(*tensors)

    return run


@peer("onnxruntime")
def onnxruntime_session(work: Workload, arrays: list[Any], threads: int) -> Call:
    """The model that jit exports, with its inputs bound beforehand."""
    if work.gradients:
        raise CannotDo
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(
        exported(work, arrays), _session_options(runtime, threads), ["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for value, array in zip(session.get_inputs(), arrays):
        binding.bind_cpu_input(value.name, array)
    for value in session.get_outputs():
        binding.bind_output(value.name)

    def run() -> Any:
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu() if run.look else None  # type: ignore[attr-defined]

    run.look = True  # type: ignore[attr-defined]
    return run


def _session_options(runtime: Any, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return options


def exported(work: Workload, arrays: list[Any]) -> bytes:
    """The workload as an ONNX model."""
    import pathlib
    import tempfile

    jit, t = _jit(1)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        tensors = tuple(jit.from_numpy(a) for a in arrays)
        jit.export_onnx(lambda *ts: work.function(t, *ts), tensors, path, verify=False)
        return path.read_bytes()
