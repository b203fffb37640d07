"""Backwards, double backwards and whole steps of training over sizes that vary: the third size never records.

Each program runs at eight sizes, traced and untraced, from the same parameters and random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.ir import Graph, TensorType
from jit.nn import functional as F
from jit.tracing.recordings import stage_node, stage_recording
from tests.sampling import one_of
from tests.tolerances import assert_close

SIZES = (3, 5, 4, 7, 2, 11, 6, 8)


def normal(*sizes: int) -> Any:
    """Normal numbers, the same ones for the same sizes."""
    draw = np.random.default_rng(sum((i + 1) * n for i, n in enumerate(sizes)))
    return jit.tensor(draw.standard_normal(sizes))


def numbers(most: int, *sizes: int) -> Any:
    """Whole numbers below `most`, the same ones for the same sizes."""
    return jit.tensor(np.random.default_rng(sum(sizes)).integers(0, most, sizes))


# -- programs ----------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Attention written by hand, over heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = (f(x).view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        mask = jit.tril(jit.ones(x.shape[1], x.shape[1]))
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(mask == 0, float("-inf"))
        return (F.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)


class Words(nn.Module):
    """An embedding, and the loss of the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(10, 6), nn.Linear(6, 10)

    def forward(self, words: Any) -> Any:
        scores = self.out(self.table(words[:, :-1]).tanh())
        return F.cross_entropy(scores.reshape(-1, 10), words[:, 1:].reshape(-1))


class Masked(nn.Module):
    """A loss over what a mask leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Any, wanted: Any, mask: Any) -> Any:
        losses = ((self.inner(x) - wanted) ** 2).mean(-1)
        return (losses * mask).sum() / mask.sum().clamp(min=1) + losses.masked_fill(mask == 0, 0.0).mean()


class Counted(nn.Module):
    """The mean over lengths that differ, by a mask made of sizes."""

    def forward(self, x: Any, lengths: Any) -> Any:
        mask = jit.arange(x.shape[1])[None, :] < lengths[:, None]
        return (x * mask[..., None]).sum(1) / lengths[:, None]


class Residual(nn.Module):
    """Two convolutions around a sum, pooled in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.out = nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        h = F.relu(self.norm(self.first(x)))
        h = F.max_pool2d(F.relu(self.second(h) + h), 2)
        return self.out(F.adaptive_avg_pool2d(h, 1).flatten(1))


class Of(nn.Module):
    """A function as a layer behind another one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.scale = nn.Parameter(normal(4))
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x * self.scale)


@dataclass(frozen=True)
class Program:
    """A layer whose result is differentiated.

    Args:
        build: Makes the layer.
        arguments: Its arguments of a size.
        sizes: The sizes, in the order in which they come.
    """

    build: Callable[[], Any]
    arguments: Callable[[int], Sequence[Any]]
    sizes: Sequence[int] = SIZES


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


def images() -> Any:
    layers = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Tanh(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 3))


def encoder() -> Any:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)


def masked(n: int) -> list[Any]:
    return [normal(3, n, 4), normal(3, n, 3), (normal(3, n) > 0).double()]


PROGRAMS: dict[str, Program] = {
    "perceptron": Program(perceptron, lambda n: [normal(n, 4)]),
    "images of many batches": Program(images, lambda n: [normal(n, 2, 8, 8)]),
    "images of many sizes": Program(Residual, lambda n: [normal(2, 2, n + 4, 2 * n + 3)]),
    "encoder": Program(encoder, lambda n: [normal(2, n, 8)]),
    "batch and length": Program(encoder, lambda n: [normal(n, n + 1, 8)]),
    "attention": Program(Attention, lambda n: [normal(n, n + 1, 8)]),
    "words": Program(Words, lambda n: [numbers(10, 3, n + 1)]),
    "words in batches": Program(Words, lambda n: [numbers(10, n, n + 2)]),
    "masked": Program(Masked, masked),
    "lengths": Program(lambda: nn.Sequential(nn.Linear(4, 3)), lambda n: [normal(n, n + 1, 4)]),
    "counted": Program(Counted, lambda n: [normal(3, n, 4), numbers(2, 3) + 1]),
    "group norm": Program(lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.GELU()), lambda n: [normal(2, 4, n + 1)]),
    "batch norm": Program(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Softplus()), lambda n: [normal(n, 4)]),
}

ONES = jit.ones(4, 2, 3, dtype=jit.float64)

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[int], int]]] = {
    "neighbours": (lambda x: x[1:] * x[:-1], lambda n: n + 1),
    "pieces": (lambda x: jit.cat([*x.chunk(2, -1), x], 1), int),
    "outer": (lambda x: jit.einsum("ij,kj->ik", x, x), int),
    "transposed": (lambda x: (x.t() @ x).softmax(0) @ x.t(), int),
    "padded": (lambda x: F.pad(x, (1, 2, 0, 1)).cumsum(0), int),
    "resized": (lambda x: F.interpolate(x[None], scale_factor=1.5, mode="linear"), int),
    "statistics": (lambda x: x.std(0) + x.var(0) * x.mean() + x.norm(dim=0), int),
    "spread": (lambda x: (x.sum(0).expand(x.shape[0], -1) * x).amax(1), int),
    "sums": (lambda x: (x.sum(0, keepdim=True) * x.shape[0] ** 0.5 + x).logsumexp(1), int),
    "best": (lambda x: x.topk(2, 0)[0] * x.sort(1)[0][:2], int),
    "gathered": (lambda x: x.gather(1, x.argmax(1, keepdim=True)) ** 2, int),
    "chosen": (lambda x: jit.where(x > 0, x, x.exp() - 1).clamp(-1, 1), int),
    "steps": (lambda x: F.conv1d(x.t()[None], ONES.transpose(0, 1), stride=2, padding=1).tanh(), lambda n: n + 2),
    "enlarged": (lambda x: F.conv_transpose1d(x.t()[None], ONES, stride=2).tanh(), int),
    "pools": (lambda x: F.avg_pool1d(x.t()[None], 2) + F.max_pool1d(x.t()[None], 2), lambda n: 2 * n),
    "distances": (lambda x: jit.cdist(x, x * 2) ** 2, int),
    "scaled dot product": (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True), int),
}
"""Functions of a tensor of sizes (rows, 4), and how many rows there are at a size."""


def program_of(function: Callable[..., Any], rows: Callable[[int], int]) -> Program:
    return Program(lambda: Of(function), lambda n: [normal(rows(n), 4)])


PROGRAMS |= {name: program_of(*each) for name, each in FUNCTIONS.items()}


# -- running them ------------------------------------------------------------------------------------------------


class Count:
    """The number of stages after the first that were recorded."""

    def __init__(self) -> None:
        self.stages = 0


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    found, record = Count(), stage_recording.record_stage

    def counted(*args: Any) -> Any:
        found.stages += 1
        return record(*args)

    monkeypatch.setattr(stage_node, "record_stage", counted)
    return found


def pair(build: Callable[[], Any]) -> tuple[Any, Any]:
    """Two layers with the same parameters."""
    layers = []
    for _ in range(2):
        jit.manual_seed(0)
        layers.append(build().double())
    return layers[0], layers[1]


def unknown(graph: Graph) -> Iterator[str]:
    """The values without known sizes, and nodes that read sizes, in a graph and the bodies of its composites."""
    for value in graph.values:
        if isinstance(value.type, TensorType) and (value.type.shape is None or None in value.type.shape):
            yield f"%{value.name} : {value.type} of {value.node.kind}"
    for node in graph.nodes:
        if node.kind in ("prim::size", "aten::size"):
            yield f"%{node.output.name} = {node.kind}"
        for body in node.subgraphs:
            yield from unknown(body)


def assert_all_sizes_have_names(traced: Any) -> None:
    """Every tensor of every stage of a general recording has sizes in symbols, and nothing reads sizes."""
    recording = traced._last
    assert recording.general
    for chain in recording.chains:
        assert not list(unknown(recording.folded(chain)))


def leaves_of(arguments: Sequence[Any]) -> list[Any]:
    return [x.clone().requires_grad_() if x.is_floating_point() else x for x in arguments]


def square(out: Any) -> Any:
    return (out * out).sum()


def gradients(call: Callable[..., Any], layer: Any, arguments: Sequence[Any]) -> list[Any]:
    """The result and the gradients of all that requires some."""
    given = leaves_of(arguments)
    out = call(*given)
    wanted = [x for x in [*given, *layer.parameters()] if x.requires_grad]
    return [out.detach(), *jit.grad(square(out), wanted, allow_unused=True)]


def second_gradients(call: Callable[..., Any], layer: Any, arguments: Sequence[Any]) -> list[Any]:
    """The gradients, and their gradients: three stages after the forward, since the first backward is run twice."""
    given = leaves_of(arguments)
    wanted = [x for x in [*given, *layer.parameters()] if x.requires_grad]
    first = jit.grad(square(call(*given)), wanted, create_graph=True, allow_unused=True)
    penalty = sum(square(g) for g in first if g is not None)
    return [*(g if g is None else g.detach() for g in first), *jit.grad(penalty, wanted, allow_unused=True)]


def compare(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_backwards(name: str, count: Count) -> None:
    program = PROGRAMS[name]
    mine, other = pair(program.build)
    traced = jit.trace(mine)
    for size in program.sizes:
        sides = []
        for call, layer in ((traced, mine), (other, other)):
            jit.manual_seed(size)
            sides.append(gradients(call, layer, program.arguments(size)))
        compare(*sides)
    compare(list(mine.buffers()), list(other.buffers()))
    assert (traced.misses, count.stages) == (2, 2)
    assert_all_sizes_have_names(traced)


@pytest.mark.parametrize("name", one_of(2, PROGRAMS))
def test_double_backwards(name: str, count: Count) -> None:
    program = PROGRAMS[name]
    mine, other = pair(program.build)
    traced = jit.trace(mine)
    for size in program.sizes:
        sides = []
        for call, layer in ((traced, mine), (other, other)):
            jit.manual_seed(size)
            sides.append(second_gradients(call, layer, program.arguments(size)))
        compare(*sides)
    assert (traced.misses, count.stages) == (2, 6)
    assert_all_sizes_have_names(traced)


# -- steps of training -------------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: jit.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: jit.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=0.01),
    "adam": lambda parameters: jit.optim.Adam(parameters, lr=0.01),
    "adamw": lambda parameters: jit.optim.AdamW(parameters, lr=0.01),
}
TRAINED = ("perceptron", "images of many batches", "images of many sizes", "encoder", "batch and length", "attention",
           "words", "words in batches", "masked", "batch norm")  # fmt: skip


class Training:
    """Steps of training of a layer, whole or with the forward alone in a function."""

    def __init__(self, layer: Any, optimizer: str, wrapped: Callable[[Any], Any] = lambda function: function) -> None:
        self.layer = layer
        self.forward = wrapped(self.loss_of)
        self.optimizer = OPTIMIZERS[optimizer](layer.parameters())

    def loss_of(self, *arguments: Any) -> Any:
        return (self.layer(*arguments) ** 2).mean()

    def step(self, *arguments: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.forward(*arguments)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def assert_trained_alike(name: str, mine: Training, other: Training, step: Callable[..., Any]) -> None:
    for size in PROGRAMS[name].sizes:
        losses = []
        for call in (step, other.step):
            jit.manual_seed(size)
            losses.append(call(*PROGRAMS[name].arguments(size)))
        compare(losses[:1], losses[1:])
        compare(list(mine.layer.state_dict().values()), list(other.layer.state_dict().values()))


@pytest.mark.parametrize("name", TRAINED)
def test_training_around_a_traced_loss(name: str, count: Count) -> None:
    layers = pair(PROGRAMS[name].build)
    mine, other = Training(layers[0], "adam", jit.trace), Training(layers[1], "adam")
    assert_trained_alike(name, mine, other, mine.step)
    assert (mine.forward.misses, count.stages) == (2, 2)
    assert_all_sizes_have_names(mine.forward)


@pytest.mark.parametrize("name", one_of(2, TRAINED))
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_whole_steps_of_training(name: str, optimizer: str, count: Count) -> None:
    layers = pair(PROGRAMS[name].build)
    mine, other = Training(layers[0], optimizer), Training(layers[1], optimizer)
    step = jit.trace(mine.step)
    assert_trained_alike(name, mine, other, step)
    assert count.stages == 0
    assert step.misses <= 3
    assert_all_sizes_have_names(step)


# -- which sizes a stage serves ----------------------------------------------------------------------------------


def agree(traced: Any, function: Callable[..., Any], *sizes: Sequence[int], seen: Callable[..., Any] = square) -> None:
    """The result of a call, and its gradients behind `seen`, are those of the untraced function."""
    sides = []
    for call in (traced, function):
        given = [normal(*each).requires_grad_() for each in sizes]
        out = call(*given)
        sides.append([out.detach(), *jit.grad(seen(out), given, allow_unused=True)])
    compare(*sides)


def test_a_backward_that_is_asked_for_late(count: Count) -> None:
    traced = jit.trace(lambda x: (x.tanh() * x).sum(0) * x)
    for n in (3, 5, 7):
        traced(normal(n, 4).requires_grad_())
    assert traced._last.general and count.stages == 0
    for n in (7, 6, 4, 9, 8, 2):
        agree(traced, traced._function, (n, 4))
    assert (traced.misses, count.stages) == (2, 2)
    assert_all_sizes_have_names(traced)


def test_the_backward_of_one_of_the_first_calls_counts(count: Count) -> None:
    traced = jit.trace(lambda x: (x.tanh() * x).sum(0) * x)
    agree(traced, traced._function, (3, 4))
    traced(normal(5, 4).requires_grad_())
    for n in (6, 3, 4, 9):
        agree(traced, traced._function, (n, 4))
    assert (traced.misses, count.stages) == (2, 2)


def test_backwards_of_the_first_calls_in_any_order(count: Count) -> None:
    traced = jit.trace(lambda x: (x.tanh() * x).sum(0) * x)
    inputs = [normal(n, 4).requires_grad_() for n in (3, 5, 4)]
    results = [traced(x) for x in inputs]
    for x, out in reversed(list(zip(inputs, results, strict=True))):
        (found,) = jit.grad(square(out), [x])
        twin = x.detach().requires_grad_()
        compare([found], jit.grad(square(traced._function(twin)), [twin]))
    assert traced.misses == 2 and count.stages == 3
    agree(traced, traced._function, (9, 4))
    assert count.stages == 3


def test_sizes_become_free_one_after_the_other(count: Count) -> None:
    traced = jit.trace(lambda x, y: x.tanh() @ y)
    for n, m in ((3, 4), (5, 6)):
        traced(normal(n, 2).requires_grad_(), normal(2, m).requires_grad_())
    stages = []
    for n, m in ((3, 7), (3, 8), (3, 9), (5, 7), (6, 2), (8, 8)):
        agree(traced, traced._function, (n, 2), (2, m))
        stages.append(count.stages)
    assert (traced.misses, stages) == (2, [1, 2, 2, 3, 3, 3])


def halves(x: Any) -> Any:
    """A function whose derivative decides on a size that the function does not decide on."""
    y = x * 2
    y.register_hook(lambda g: g * 3 if g.shape[0] % 2 == 0 else g - 1)
    return y * y


def test_what_a_backward_decides_is_a_condition_on_it_alone(count: Count) -> None:
    traced = jit.trace(halves)
    for n in (4, 6, 8, 3, 5, 10, 7, 9, 12):
        agree(traced, halves, (n, 4))
    assert (traced.misses, count.stages) == (2, 4)
    conditions = [[str(c) for c in traced._last.named(chain).conditions[1]] for chain in traced._last.chains]
    assert sorted(conditions) == [["n % 2 != 0"], ["n % 2 == 0"]]


def test_decisions_without_consequences_leave_one_program(count: Count) -> None:
    def asking(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * 3 if g.shape[0] > 4 else g * 3)  # noqa: RUF034
        return y * y

    traced, stages = jit.trace(asking), []
    for n in (3, 7, 4, 2, 9, 5, 3, 8):
        agree(traced, asking, (n, 4))
        stages.append(count.stages)
    assert (traced.misses, stages) == (2, [1, 2, 3, 3, 3, 3, 3, 3])


def test_a_backward_that_is_another_program_for_every_size() -> None:
    def baked(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * len(g))
        return y * y

    traced = jit.trace(baked)
    for n in (*range(3, 16), 3, 9, 15):
        agree(traced, baked, (n, 4))
    assert traced.misses == 2


def test_sizes_that_become_1_in_a_result(count: Count) -> None:
    traced = jit.trace(lambda x: (x[2:] * x[2:].sum(0)).tanh())
    for n in (5, 6, 3, 4, 3, 9, 7):
        agree(traced, traced._function, (n, 4))
    assert traced.misses <= 3 and count.stages <= 3


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda out: square(out.t() @ out.t().cos().t()),
    "permuted": lambda out: square(jit.einsum("ij,jk->ki", out, out.t())),
    "expanded": lambda out: out.sum(),
    "expanded rows": lambda out: square(out.sum(0)),
    "rows expanded": lambda out: square(out.sum(1)),
    "with gaps": lambda out: square(jit.cat([out, out * 2], 1)[:, 1:]),
    "a part": lambda out: square(out[1:, ::2]),
    "one number": lambda out: out[-1, -1] * 2,
    "flipped": lambda out: (out * jit.arange(out.numel()).reshape(out.shape).flip(0)).sum(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_lie_as_they_come(layout: str, count: Count) -> None:
    traced = jit.trace(lambda x: (x.tanh() * x).sum(0) * x)
    for n in SIZES:
        agree(traced, traced._function, (n, 4), seen=LAYOUTS[layout])
    assert (traced.misses, count.stages) == (2, 2)


ARGUMENTS: dict[str, Callable[[int], Any]] = {
    "transposed": lambda n: normal(4, n).t(),
    "permuted": lambda n: normal(n, 4, n + 1).permute(1, 2, 0),
    "expanded": lambda n: normal(n, 1).expand(n, 4),
    "expanded and permuted": lambda n: normal(4, 1, n).expand(4, 3, n).transpose(0, 2),
}


@pytest.mark.parametrize("layout", ARGUMENTS)
def test_arguments_of_other_layouts(layout: str, count: Count) -> None:
    def f(x: Any, w: Any) -> Any:
        return (x * w).reshape(-1, 2).tanh().sum(1) + (x * x).reshape(-1, 2)[:, 0]

    traced = jit.trace(f)
    for n in (4, 6, 2, 8, 12, 10):
        sides = []
        for call in (traced, f):
            w = normal(1).requires_grad_()
            out = call(ARGUMENTS[layout](n), w)
            sides.append([out.detach(), *jit.grad(square(out), [w])])
        compare(*sides)
    assert (traced.misses, count.stages) == (2, 2)
    assert_all_sizes_have_names(traced)


def test_retained_graphs(count: Count) -> None:
    traced = jit.trace(lambda x: (x.exp() * x.sum(0)).tanh())
    for n in SIZES:
        sides = []
        for call in (traced, traced._function):
            x = normal(n, 4).requires_grad_()
            out = call(x)
            first = jit.grad(out.sum(), [x], retain_graph=True)
            sides.append([*first, *jit.grad(square(out), [x], retain_graph=True), *jit.grad(out[0].sum(), [x])])
            with pytest.raises(jit.Error, match="second time"):
                out.sum().backward()
        compare(*sides)
    assert traced.misses == 2


class Clipped(jit.autograd.Function):
    """Twice the numbers between two limits."""

    @staticmethod
    def forward(ctx: Any, x: Any, limit: float) -> Any:
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit) * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < ctx.limit) * 2 / gradient.shape[0], None


def hooked(x: Any) -> Any:
    y = x.tanh()
    y.register_hook(lambda g: g * 2 + g.sum() / g.shape[0])
    return y * y


def inner(x: Any) -> Any:
    y = x.detach().requires_grad_()
    (found,) = jit.grad(square(y.tanh()), y, create_graph=True)
    return x * found.detach() + square(found.detach())


OTHERS: dict[str, Callable[..., Any]] = {
    "function": lambda x: Clipped.apply(x.sin(), 0.5).sum(0) * x,
    "hooks": hooked,
    "inner backward": inner,
    "checkpoint": lambda x: jit.autograd.checkpoint(lambda y: (y.exp().sin() @ y.t()).tanh(), x) @ x,
    "checkpoint with random numbers": lambda x: jit.autograd.checkpoint(lambda y: F.dropout(y.exp()).sin().t() @ y, x),
    "written over": lambda x: (x * 3).mul_(x).add_(x.sum(0)),
    "views": lambda x: (x * 2)[1:].t(),
    "a view written over": lambda x: (lambda y: (y[1:].mul_(2), y * y)[1])(x * 2),
    "without grad": lambda x: x * jit.softmax(x.detach(), 0) + (x.detach().sum(0) / x.shape[0]),
}


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_derivatives(name: str, second: bool, count: Count) -> None:
    mine, other = pair(lambda: Of(OTHERS[name]))
    traced = jit.trace(mine)
    derivatives = second_gradients if second else gradients
    for n in SIZES:
        sides = []
        for call, layer in ((traced, mine), (other, other)):
            jit.manual_seed(n)
            sides.append(derivatives(call, layer, [normal(n, 4)]))
        compare(*sides)
    assert traced.misses <= 3 and count.stages <= (9 if second else 3)
    if name != "function":
        assert_all_sizes_have_names(traced)


def test_several_results_of_which_some_are_differentiated(count: Count) -> None:
    traced = jit.trace(lambda x: (x * 2, x.t() @ x, {"sum": x.sum(), "rows": x.shape[0]}))
    for n in SIZES:
        for chosen in ((0,), (1,), (0, 1, 2)):
            sides = []
            for call in (traced, traced._function):
                x = normal(n, 4).requires_grad_()
                first, second, rest = call(x)
                assert rest["rows"] == n
                outs = [first, second, rest["sum"]]
                sides.append(jit.grad([square(outs[i]) for i in chosen], [x]))
            compare(*sides)
    assert (traced.misses, count.stages) == (2, 6)


def spectrum(x: Any) -> Any:
    half = jit.fft.rfft(x).abs()
    return half, half.shape[0], x.shape[0] * 2


def padded(x: Any) -> Any:
    wide = jit.cat([x, x.cumsum(0) * x.prod(), x[: x.shape[0] // 2]])
    return wide, {"rows": wide.shape[0], "middle": wide.shape[0] // 2}


def rows_alone(x: Any) -> Any:
    return jit.fft.irfft(jit.fft.rfft(x), n=x.shape[0] + 1), x.shape[0] // 2 + 1, jit.arange(x.shape[0] + 1)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("function", [spectrum, padded, rows_alone])
def test_numbers_in_results_of_which_backwards_speak_too(
    function: Callable[..., Any], twice: bool, optimize: bool
) -> None:
    traced = jit.trace(function, optimize=optimize)
    for n in (*SIZES, *SIZES[::-1]):
        sides, numbers = [], []
        for call in (traced, function):
            x = normal(n).requires_grad_()
            out, *rest = call(x)
            (first,) = jit.grad(square(out), x, create_graph=twice)
            sides.append([out.detach(), first.detach(), *(jit.grad(square(first), x) if twice else ())])
            numbers.append([each.tolist() if isinstance(each, jit.Tensor) else each for each in rest])
        assert numbers[0] == numbers[1]
        compare(*sides)


def back(call: Callable[..., Any], n: int) -> Any:
    """The gradient of an argument, by a backward for everything."""
    x = normal(n, 4).requires_grad_()
    square(call(x)).backward()
    return x.grad


def test_saved_stages_serve_many_sizes(tmp_path: Any, count: Count) -> None:
    layer = Of(lambda x: (x.tanh() @ x.t()).sum(0)).double()
    traced = jit.trace(layer)
    for n in (3, 5, 4):
        back(traced, n)
    traced.save(tmp_path / "f.jit")
    loaded = jit.load(tmp_path / "f.jit")
    count.stages = 0
    for n in (4, 7, 3, 9):
        compare([back(loaded, n)], [back(layer, n)])
    assert count.stages == 0


def test_stages_that_came_late_are_saved_for_their_sizes(tmp_path: Any, count: Count) -> None:
    layer = Of(lambda x: (x.tanh() @ x.t()).sum(0)).double()
    traced = jit.trace(layer)
    for n in (3, 5, 4):
        traced(normal(n, 4).requires_grad_())
    back(traced, 7)
    traced.save(tmp_path / "f.jit")
    loaded = jit.load(tmp_path / "f.jit")
    count.stages = 0
    for n, most in ((7, 0), (9, 1), (4, 1), (6, 1)):
        compare([back(loaded, n)], [back(layer, n)])
        assert count.stages == most
