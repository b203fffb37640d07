"""Sizes stay traced while a function is recorded: two recordings of other sizes are the same program, node for node.

Every operator is recorded on its samples and on the same samples of other sizes, with its backward; then methods of
tensors, layers and steps of training. A plain number that stands in both graphs and differs is a size that was taken
from a tensor behind the back of the trace. Tensors are row-major, as those of a family are (Note [Families]), and
results are cloned, since views of inputs have histories of their own. A run of the whole suite tries the first few
samples of each operator; `JIT_ALL_SAMPLES=1` tries all of them, in some minutes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.ir import Graph, Node, Value
from jit.ir.graph import map_template
from jit.ir.op import REGISTRY, Op
from jit.nn import functional as F
from jit.tracing.recorder.tracer import Trace
from jit.tracing.recordings.chains import Chain, fork
from jit.tracing.recordings.replaying import replay_stages
from jit.tracing.recordings.stage_recording import record_stage
from tests.registry_cases import Case, all_cases, bits, differentiable, mapped, tensors_in

ALL = os.environ.get("JIT_ALL_SAMPLES") == "1"
SAMPLES = 1000 if ALL else 2
"""How many samples of an operator are tried."""

BY_ELEMENTS = "sizes that depend on elements are guarded: Note [Sizes that depend on elements]"
PIECES = "the size says how many results there are"
DOUBLING = "its derivative takes as many steps as the size has binary digits"
LAYERS = "the sizes of the states say how many layers there are"
STEPS = "one step is recorded for each entry of the packed sequence, and of the layers' states"
GIVEN = "decides whether a size is above or below the number that the caller gives"
STRIDED = "the strides of its operand are a fact of its memory"

LEFT = {
    **dict.fromkeys(("index.Tensor", "index_put", "masked_select", "masked_scatter", "nonzero"), BY_ELEMENTS),
    **dict.fromkeys(("nonzero_static", "_unique2", "unique_dim", "unique_consecutive"), BY_ELEMENTS),
    **dict.fromkeys(("_pack_padded_sequence", "_pad_packed_sequence", "one_hot"), BY_ELEMENTS),
    **dict.fromkeys(("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor"), PIECES),
    **dict.fromkeys(("unbind.int", "unbind_copy.int"), PIECES),
    **dict.fromkeys(("prod", "prod.dim_int", "cumprod"), DOUBLING),
    **dict.fromkeys(("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"), LAYERS),
    **dict.fromkeys(("lstm.data", "rnn_tanh.data", "rnn_relu.data"), STEPS),
    **dict.fromkeys((f"fft_{kind}fft{n}" for kind in ("", "i", "r", "ih") for n in ("", "2", "n")), GIVEN),
    **dict.fromkeys(("fft_irfft", "fft_hfft", "istft"), GIVEN),
    **dict.fromkeys(("as_strided", "as_strided_copy"), STRIDED),
    **dict.fromkeys((f"conv{n}d.padding" for n in (1, 2, 3)), "padding 'same' of an even kernel is another program"),
    "cross": "looks for the dim of size 3",
    "linalg_det": "its derivative at singular matrices is the one of prod",
}
"""Operators whose recordings differ between sizes, and why they have to."""

# -- other sizes -------------------------------------------------------------------------------------------------

Grow = Callable[[int], int]


def same(size: int) -> int:
    return size


def more(size: int) -> int:
    return 2 * size - 1 if size > 1 else size


def only(size: int, rule: Grow) -> Grow:
    """A rule for one size; the others stay."""
    return lambda n: rule(n) if n == size else n


def growths(arrays: Sequence[np.ndarray]) -> Iterator[Grow]:
    """Ways to make sizes of 2 and more larger, the most thorough first; equal sizes stay equal."""
    rules: list[Grow] = [more, *(lambda n, k=k: n * k if n > 1 else n for k in (2, 3)), lambda n: n + (n > 1)]
    yield from rules
    for size in sorted({n for array in arrays for n in array.shape if n > 1}):
        yield from (only(size, rule) for rule in rules)


class Sized(Case):
    """A case whose tensors are row-major, and perhaps larger."""

    def __init__(self, case: Case, grow: Grow = same) -> None:
        super().__init__(case.op, case.number, case.sample)
        self.grow = grow

    def arguments(self, convert: Callable[[Any], Any] = jit.from_numpy) -> tuple[list[Any], dict[str, Any]]:
        def other(array: np.ndarray) -> Any:
            return convert(_of_full_rank(np.resize(array, tuple(map(self.grow, array.shape))), array))

        args = [mapped(value, other) for value in self.sample.args]
        return args, {name: mapped(value, other) for name, value in self.sample.kwargs.items()}

    def wanted(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[jit.Tensor]:
        """The tensors to differentiate by; none in samples of errors."""
        return [] if "grad" in self.op.missing else differentiable(self.op, args, kwargs)

    def runs(self) -> bool:
        """Whether the operator and its derivative take these sizes."""
        args, kwargs = self.arguments()
        for tensor in self.wanted(args, kwargs):
            tensor.requires_grad_()
        try:
            results = [t.sum() for t in self.call(*args, **kwargs) if t.requires_grad]
            jit.autograd.backward(results, [jit.ones_like(t) for t in results])
        except (jit.Error, ValueError, IndexError, TypeError):
            return False
        return True

    def graph(self) -> Graph:
        args, kwargs = self.arguments()
        return graph_of(self.function, args, kwargs, self.wanted(args, kwargs))


def _of_full_rank(larger: np.ndarray, array: np.ndarray) -> np.ndarray:
    """Matrices with more on their diagonals, if repeated elements have made singular ones of `array`."""
    if array.ndim < 2 or array.dtype.kind not in "fc" or array.shape == larger.shape or not array.size:
        return larger
    if not np.isfinite(array).all() or _is_singular(array) or not _is_singular(larger):
        return larger
    return larger + (np.eye(*larger.shape[-2:]) * np.abs(array).max()).astype(array.dtype)


def _is_singular(matrices: np.ndarray) -> bool:
    return bool((np.linalg.matrix_rank(matrices.astype(complex)) < min(matrices.shape[-2:])).any())


def larger(case: Case) -> Sized | None:
    """The case in other sizes that its operator takes."""
    arrays = [a for a in _arrays([case.sample.args, case.sample.kwargs]) if any(n > 1 for n in a.shape)]
    cases = (Sized(case, grow) for grow in growths(arrays)) if arrays else iter(())
    return next((other for other in cases if other.runs()), None)


def _arrays(values: Any) -> Iterator[np.ndarray]:
    if isinstance(values, np.ndarray):
        yield values
    elif isinstance(values, (list, tuple, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _arrays(value)


# -- recording ---------------------------------------------------------------------------------------------------


def graph_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None, wanted: Any = ()
) -> Graph:
    """The raw graph of a call, and, where gradients of `wanted` can be asked for, of its backward as of any size."""
    for tensor in wanted:
        tensor.requires_grad_()

    def called(*args: Any, **kwargs: Any) -> Any:
        return [t.clone() for t in tensors_in(function(*args, **kwargs))]

    jit.manual_seed(Case.SEED)
    traced = jit.trace(called, dynamic=False, optimize=False)
    results = traced(*args, **(kwargs or {}))
    recording: Any = traced._last
    node: Any = next((t.grad_fn for t in results if t.requires_grad), None)
    return recording.trace.graph if node is None else _with_backward(recording.trace, node.kept)


def _with_backward(recorded: Trace, kept: Any) -> Graph:
    trace = fork(recorded, 1)
    live = replay_stages(trace, kept.inputs, kept.requires_grad)
    carrying = (o if o is not None and o.defined and o.requires_grad else None for o in live.outputs)
    gradients = [None if o is None else jit.ones(tuple(o._array.shape), dtype=o.dtype) for o in carrying]
    record_stage(Chain(trace), (), live, gradients, [edge is not None for edge in live.edges], False)
    return trace.graph


# -- comparing ---------------------------------------------------------------------------------------------------


def leaks(one: Graph, other: Graph) -> list[str]:
    """The plain numbers in which two graphs differ; or the first node from which they are different programs."""
    known: list[dict[Value, int]] = [{}, {}]
    found: list[str] = []
    for a, b in zip(one.nodes, other.nodes, strict=False):
        (shape, numbers), (other_shape, other_numbers) = _taken_apart(a, known[0]), _taken_apart(b, known[1])
        if shape != other_shape:
            return [*found, f"another program from {a} on, which is {b}"]
        found += [f"{n} or {m}: {a}" for n, m in zip(numbers, other_numbers, strict=True) if n != m]
    if len(list(one.nodes)) != len(list(other.nodes)):
        found.append("one of the programs goes on longer")
    return found


def _taken_apart(node: Node, known: dict[Value, int]) -> tuple[Any, list[Any]]:
    """A node without its plain numbers, and these; values are numbered as they come."""
    numbers: list[Any] = []

    def leaf(item: Any) -> Any:
        if isinstance(item, Value):
            return ("%", known.setdefault(item, len(known)))
        if isinstance(item, np.ndarray):
            numbers.append((item.shape, item.tobytes()))
        elif type(item) in (int, float, complex) and item == item:
            numbers.append(item)
        else:
            return "body" if isinstance(item, Graph) else str(item)
        return type(item).__name__

    parts = [map_template(leaf, node.args), [(k, map_template(leaf, v)) for k, v in node.attributes.items()]]
    return (node.kind, *parts, [leaf(value) for value in node.outputs]), numbers


# -- operators ---------------------------------------------------------------------------------------------------


def leaks_of(op: Op) -> dict[str, list[str]]:
    """The leaks of an operator by its samples; those that take no other sizes are left out."""
    found = {}
    for case in all_cases(op)[:SAMPLES]:
        other = larger(case) if Sized(case).runs() else None
        if other is not None:
            found[case.id] = leaks(Sized(case).graph(), other.graph())
    return found


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_operators_keep_sizes_traced(op: Op) -> None:
    found = {case: lines for case, lines in leaks_of(op).items() if lines}
    if op.name.removeprefix("aten::") not in LEFT:
        assert not found
    elif ALL:
        assert found, "this operator needs no exception any more"


def test_exceptions_are_operators() -> None:
    assert {f"aten::{name}" for name in LEFT} <= set(REGISTRY)


# -- methods of tensors ------------------------------------------------------------------------------------------


def written(x: Any) -> Any:
    y = x * 1
    y[0] = 2
    y[:, 1:] = x[:, 1:] * 3
    return y


def made(x: Any) -> Any:
    rows, columns = x.shape
    numbers = jit.arange(columns) + jit.linspace(0, 1, columns) + jit.full((columns,), 2.0)
    return x + numbers + jit.zeros(x.shape) + jit.ones(rows, 1) + jit.eye(rows, columns) + x.new_zeros(x.shape)


METHODS: dict[str, Callable[..., Any]] = {
    "view": lambda x: x.view(x.shape[0] * x.shape[1], -1),
    "reshape": lambda x: x.reshape(x.size(0), -1),
    "reshape of a transposed": lambda x: (x * 1).transpose(0, 1).reshape(-1, x.shape[2]),
    "reshape of a permuted": lambda x: (x * 1).permute(2, 0, 1).reshape(x.shape[2], -1),
    "reshape of a slice": lambda x: (x * 1)[:, 1:].reshape(-1),
    "reshape of a chunk": lambda x: x.chunk(2, -1)[0].reshape(x.shape[0] * x.shape[1], -1),
    "reshape of a view of a chunk": lambda x: x.chunk(2, -1)[0].unflatten(-1, (1, -1)).transpose(1, 2).reshape(-1),
    "reshape of an expanded": lambda x: x[:, :1].expand(x.shape).reshape(-1),
    "expand": lambda x: x[:1].expand(x.shape[0], -1, -1),
    "repeat": lambda x: x.repeat(x.shape[0], 1, 2),
    "split": lambda x: x.split([1, x.shape[0] - 1])[1],
    "tensor_split": lambda x: x.tensor_split(2, 1)[1],
    "unflatten": lambda x: x.unflatten(2, (-1, 1)),
    "flatten": lambda x: x.permute(2, 0, 1).flatten(1),
    "movedim": lambda x: x.movedim(0, -1).reshape(-1, x.shape[0]),
    "narrow": lambda x: x.narrow(0, 1, x.shape[0] - 1),
    "slices": lambda x: x[1:, :-1] * x[0, 0],
    "the last": lambda x: x[x.shape[0] - 1] + x[..., -1].sum(),
    "indices": lambda x: x[jit.arange(x.shape[0] - 1)] + x[:, [0, 1]].sum(),
    "unfold": lambda x: x.unfold(1, x.shape[1] // 2, 1).reshape(x.shape[0], -1),
    "writes": lambda x: written(x[0]),
    "new tensors": lambda x: made(x[0]),
    "random": lambda x: x[jit.randperm(x.shape[0])] * jit.randint(0, x.shape[0], (x.shape[2],)) + jit.rand(x.shape),
    "statistics": lambda x: x.mean() + x.var() + x.std(0).sum() + x.norm(dim=1).sum() + x.sum() / x.numel(),
    "attention": lambda x: F.softmax(x @ x.transpose(-1, -2), -1) @ x,
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "einsum": lambda x: jit.einsum("bij,bkj->bik", x, x),
    "resizing": lambda x: F.interpolate(x, scale_factor=1.7),
    "whole numbers": lambda x: (
        x * (math.floor(x.shape[0] * 0.7) + math.ceil(x.shape[1] / 3) + math.trunc(x.shape[2] / 4))
    ),
    "cross entropy": lambda x: F.cross_entropy(x, x.argmax(1)),
}


def same_program(build: Callable[[], Callable[..., Any]], sizes: Sequence[int], grow: Grow, grad: bool = True) -> None:
    """Two recordings of `build()` on a tensor of these sizes, and of larger ones, are the same program."""
    graphs = []
    for rule in (same, grow):
        jit.manual_seed(Case.SEED)
        function, x = build(), jit.randn(*map(rule, sizes))
        graphs.append(graph_of(function, [x], wanted=[x] if grad else []))
    assert not leaks(*graphs)


@pytest.mark.parametrize("name", METHODS)
def test_methods_keep_sizes_traced(name: str) -> None:
    same_program(lambda: METHODS[name], (3, 4, 6), more)


@pytest.mark.parametrize("name", METHODS)
def test_gradients_taken_inside_keep_sizes_traced(name: str) -> None:
    def gradient(x: Any) -> Any:
        inner = x.detach().requires_grad_()
        return jit.grad(METHODS[name](inner).sum(), inner)[0]

    same_program(lambda: gradient, (3, 4, 6), more, grad=False)


def test_python_that_needs_plain_numbers_pins_them() -> None:
    with pytest.raises(AssertionError):
        same_program(lambda: lambda x: x * len(x), (3, 4), more)
    with pytest.raises(AssertionError):
        same_program(lambda: lambda x: x * math.sqrt(x.shape[0]), (3, 4), more)


# -- layers and steps of training --------------------------------------------------------------------------------

IMAGES = (3, 4, 9, 11)
MODULES: dict[str, tuple[Callable[[], Any], Sequence[int], Sequence[int]]] = {
    "linear": (lambda: nn.Linear(8, 6), (3, 5, 8), (3, 5)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), (3, 4, 9), (3, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2), IMAGES, (3, 9, 11)),
    "conv2d circular": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), IMAGES, (3, 9, 11)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), IMAGES, (3, 9, 11)),
    "max pool": (lambda: nn.MaxPool2d(2), IMAGES, IMAGES),
    "average pool": (lambda: nn.AvgPool2d(3, 2), IMAGES, IMAGES),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d(1), IMAGES, IMAGES),
    "fractional pool": (lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5), IMAGES, IMAGES),
    "batch norm": (lambda: nn.BatchNorm2d(4), IMAGES, (3, 9, 11)),
    "layer norm": (lambda: nn.LayerNorm(8), (3, 5, 8), (3, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 4), IMAGES, (3, 9, 11)),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGES, (3, 9, 11)),
    "local norm": (lambda: nn.LocalResponseNorm(2), IMAGES, IMAGES),
    "dropout": (lambda: nn.Sequential(nn.Dropout(0.5), nn.GELU(), nn.Softmax(-1)), (3, 4), (3, 4)),
    "attention": (lambda: Attending(nn.MultiheadAttention(8, 2)), (3, 5, 8), (3, 5)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (3, 5, 8), (3, 5)),
    "lstm": (lambda: First(nn.LSTM(8, 6, batch_first=True)), (3, 5, 8), (3, 5)),
    "lstm, projected": (lambda: First(nn.LSTM(8, 6, 2, proj_size=2)), (3, 5, 8), (3, 5)),
    "gru, both ways": (lambda: First(nn.GRU(8, 6, 2, bidirectional=True)), (3, 5, 8), (3, 5)),
    "rnn": (lambda: First(nn.RNN(8, 6, nonlinearity="relu")), (3, 5, 8), (3, 5)),
    "gru cell": (lambda: nn.GRUCell(8, 6), (3, 8), (3,)),
    "unfold": (lambda: nn.Unfold(2), IMAGES, IMAGES),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), (3, 8, 9, 11), (3, 9, 11)),
    "upsample": (lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), IMAGES, IMAGES),
    "padding": (lambda: nn.ReflectionPad2d(1), IMAGES, IMAGES),
}
"""Layers, the sizes of their input, and which of these vary."""


class First(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)[0]


class Attending(First):
    def forward(self, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[0], device=x.device)
        return self.inner(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]


@pytest.mark.parametrize("name", MODULES)
def test_layers_keep_sizes_traced(name: str) -> None:
    build, sizes, varying = MODULES[name]
    same_program(build, sizes, lambda n: more(n) if n in varying else n)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: jit.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: jit.optim.Adam(parameters),
    "adamw": lambda parameters: jit.optim.AdamW(parameters),
}


def training(optimizer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    net = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    steps = optimizer(net.parameters())

    def step(x: Any) -> Any:
        steps.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        steps.step()
        return loss.detach()

    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_training_keep_sizes_traced(name: str) -> None:
    same_program(lambda: training(OPTIMIZERS[name]), (4, 3), only(4, more), grad=False)


def test_one_recording_serves_steps_of_all_batches() -> None:
    jit.manual_seed(Case.SEED)
    step = training(lambda parameters: jit.optim.SGD(parameters, lr=0.1))
    traced = jit.trace(step)
    for rows in (4, 5, 7, 6, 9):
        traced(jit.randn(rows, 3))
    assert traced.misses <= 3 and traced._last is not None and traced._last.general


# -- square roots of traced numbers ------------------------------------------------------------------------------


def test_attention_of_other_widths_is_eager_attention() -> None:
    traced = jit.trace(lambda x: F.scaled_dot_product_attention(x, x, x), optimize=False)
    for width in (4, 5, 7, 6, 9):
        x = jit.randn(2, 3, width)
        assert bits(traced(x)) == bits(F.scaled_dot_product_attention(x, x, x))
    assert traced.misses == 2


# -- views and copies --------------------------------------------------------------------------------------------


def cut(x: Any) -> Any:
    base = x * 1
    base[:, :3].reshape(-1).add_(1)
    return base


def turned(x: Any) -> Any:
    base = x * 1
    base[: x.shape[0] // 2].t().reshape(-1).add_(1)
    return base


@pytest.mark.parametrize("function", [cut, turned])
@pytest.mark.parametrize("sizes", [(4, 5, 7, 3, 6, 2), (2, 3, 5, 6, 4, 7), (6, 3, 2, 7, 5, 4)], ids=str)
def test_whether_reshape_copies_is_decided_for_every_size(function: Callable[[Any], Any], sizes: Sequence[int]) -> None:
    traced = jit.trace(function)
    for size in sizes:
        x = jit.randn(size, size)
        assert bits(traced(x)) == bits(function(x))
