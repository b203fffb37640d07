"""`checkpoint`: the function's own results and derivatives, with less memory, and every effect just once."""

import dataclasses
import gc
import tracemalloc
import weakref
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit import checkpoint, nn
from tests.tolerances import assert_close


def leaf(*sizes: int, seed: int = 0) -> Any:
    """Float64 numbers that require grad."""
    return jit.from_numpy(np.random.default_rng(seed).uniform(0.5, 1.5, sizes)).requires_grad_()


def gradients(function: Any, *inputs: Any) -> list[Any]:
    """Results and gradients of fresh copies of the inputs."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    result = function(*leaves)
    result.sum().backward()
    return [result.tolist(), *(t.grad.tolist() for t in leaves)]


def test_the_gradients_are_the_functions_own():
    def f(x, w):
        return (x @ w).tanh() @ w

    x, w = leaf(2, 3), leaf(3, 3, seed=1)
    assert gradients(lambda x, w: checkpoint(f, x, w), x, w) == gradients(f, x, w)
    assert jit.autograd.gradcheck(lambda x, w: checkpoint(f, x, w), (x, w))
    assert jit.autograd.gradgradcheck(lambda x, w: checkpoint(f, x, w), (x, w))


def test_jit_grad_reaches_parameters_that_the_function_merely_refers_to():
    x, w = leaf(3), leaf(3, seed=1)
    y = checkpoint(lambda x: (x * w).exp(), x)
    assert y.grad_fn.name == "CheckpointBackward"
    gx, gw = jit.grad(y.sum(), (x, w))
    assert_close(gx, ((x * w).exp() * w).detach())
    assert_close(gw, ((x * w).exp() * x).detach())
    assert x.grad is None and w.grad is None


def test_intermediate_results_are_not_kept():
    kept: list[Any] = []

    def f(x):
        h = x.exp()
        kept.append(weakref.ref(h._storage))
        return (h * h).sin()

    gc.disable()
    try:
        y = checkpoint(f, leaf(3))
        assert kept[0]() is None
        y.sum().backward()
        assert len(kept) == 2 and kept[1]() is None
    finally:
        gc.enable()


def test_the_function_runs_once_more_and_only_where_it_must():
    calls: list[int] = []

    def f(x, w):
        calls.append(1)
        return x * w

    x, w = leaf(3), leaf(3, seed=1)
    with jit.no_grad():
        checkpoint(f, x, w)
    checkpoint(f, x.detach(), w.detach())
    assert len(calls) == 2
    y = checkpoint(f, x, w)
    assert len(calls) == 3
    y.sum().backward()
    assert len(calls) == 4


Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Bag:
    tensor: Any
    label: str


def test_anything_goes_in_and_out():
    class Thing:
        pass

    thing = Thing()

    def f(nest, factor, *, scale, names):
        x = nest["x"]
        y = x * factor * scale
        return {
            "y": y, "pair": Pair(y * 2, None), "list": [1, "two", thing, y], "bag": Bag(y + 1, "b"), "x": x,
            "set": names, "flag": x.detach() > 0,
        }  # fmt: skip

    x = leaf(3)
    plain = f({"x": x}, 2, scale=3.0, names={"a"})
    found = checkpoint(f, {"x": x}, 2, scale=3.0, names={"a"})
    assert list(found) == list(plain) and found["list"][:3] == [1, "two", thing] and found["set"] == {"a"}
    assert found["x"] is x and found["pair"].right is None and found["bag"].label == "b"
    assert found["list"][3] is found["y"] and found["flag"].tolist() == [True] * 3
    total = found["y"] + found["pair"].left + found["bag"].tensor + found["list"][3] + found["x"]
    (total * total).sum().backward()
    expected = x.grad.tolist()
    x.grad = None
    total = plain["y"] + plain["pair"].left + plain["bag"].tensor + plain["list"][3] + plain["x"]
    (total * total).sum().backward()
    assert x.grad.tolist() == expected


@pytest.mark.parametrize("result", [None, 3, "text", (), [1, None]])
def test_no_tensor_comes_out(result):
    assert checkpoint(lambda x: result, leaf(2)) == result


def test_nested():
    def inner(x, w):
        return (x * w).exp()

    def outer(x, w):
        h = checkpoint(inner, x, w)
        return checkpoint(lambda h: checkpoint(inner, h.sin(), w) * h, h)

    def plain(x, w):
        h = inner(x, w)
        return inner(h.sin(), w) * h

    x, w = leaf(3), leaf(3, seed=1)
    assert gradients(outer, x, w) == gradients(plain, x, w)
    assert jit.autograd.gradgradcheck(outer, (x, w))


def test_deeply_nested():
    def f(depth, x):
        return x.sin() if depth == 0 else checkpoint(f, depth - 1, x * 1.01) * 1.01

    x = leaf(2)
    f(40, x).sum().backward()
    found, x.grad = x.grad, None
    h = x
    for _ in range(40):
        h = h * 1.01
    h = h.sin()
    for _ in range(40):
        h = h * 1.01
    h.sum().backward()
    assert_close(found, x.grad, rtol=1e-12)


def test_what_a_checkpoint_kept_is_freed():
    x = jit.ones(2, requires_grad=True)
    y = jit.checkpoint(lambda x: x.exp(), x)
    y.backward(jit.ones(2), retain_graph=True)
    y.backward(jit.ones(2))
    with pytest.raises(jit.AutogradError, match=r"checkpoint at .*test_recomputing.py.* a second time.*retain_graph"):
        y.backward(jit.ones(2))


def test_the_same_random_numbers_in_the_second_run():
    own = jit.Generator().manual_seed(5)

    def f(x):
        return F.dropout(x, 0.5) * jit.rand(100, generator=own) * jit.rand(100)

    def observed(function):
        jit.manual_seed(1)
        own.manual_seed(5)
        x = jit.ones(100, requires_grad=True)
        y = function(x)
        between = jit.rand(2).tolist()
        y.sum().backward()
        return y.tolist(), between, x.grad.tolist(), jit.rand(2).tolist(), jit.rand(2, generator=own).tolist()

    assert observed(lambda x: checkpoint(f, x)) == observed(f)
    y, _, gradient, _, _ = observed(lambda x: checkpoint(f, x, preserve_rng_state=False))
    assert y != gradient, "other numbers were drawn, as asked for"


def test_buffers_are_updated_once():
    def observed(function, net):
        for number in range(3):
            x = jit.from_numpy(np.random.default_rng(number).standard_normal((8, 4)))
            function(x).square().sum().backward()
        return [t.tolist() for t in net.state_dict().values()], [p.grad.tolist() for p in net.parameters()]

    def build() -> Any:
        jit.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh()).double()

    one, two = build(), build()
    assert observed(lambda x: checkpoint(one, x), one) == observed(two, two)


def test_what_the_function_reads_before_it_writes_is_there_again():
    def observed(wrap):
        state, x = jit.ones(3, dtype=jit.float64), leaf(3)

        def f(x):
            y = x * state.clone()
            with jit.no_grad():
                state[1:].mul_(2)
                state.add_(1)
            return y * y

        y = wrap(f)(x) + wrap(f)(x)
        version = state._version
        y.sum().backward()
        assert state._version == version
        return y.tolist(), x.grad.tolist(), state.tolist()

    assert observed(lambda f: lambda x: checkpoint(f, x)) == observed(lambda f: f)


def test_arguments_written_to():
    def observed(wrap):
        x, w = leaf(3), leaf(3, seed=1)
        h = x * 1

        def f(h):
            before = h + 1
            h.mul_(w)
            return before * h.exp()

        y = wrap(f)(h)
        (y.sum() + (h * h).sum()).backward()
        return y.tolist(), h.tolist(), x.grad.tolist(), w.grad.tolist()

    assert observed(lambda f: lambda x: checkpoint(f, x)) == observed(lambda f: f)


def test_results_that_share_memory():
    def observed(wrap):
        x = leaf(2, 3)
        first, second, whole = wrap(lambda x: ((h := x.exp() * 2)[0], h[:, 1], h))(x)
        first.mul_(x[1])
        second.add_(1)
        ((first * 2).sum() + second.sum() + (whole * whole).sum()).backward()
        return whole.tolist(), x.grad.tolist()

    assert observed(lambda f: lambda x: checkpoint(f, x)) == observed(lambda f: f)


def test_results_that_are_views_of_something_not_returned():
    def observed(wrap):
        x = leaf(2, 3)
        first, second = wrap(lambda x: (x.exp() * 2).view(3, 2).unbind(0)[:2])(x)
        first.mul_(3)
        (first * second).sum().backward()
        return first.tolist(), x.grad.tolist()

    assert observed(lambda f: lambda x: checkpoint(f, x)) == observed(lambda f: f)


def test_changed_arguments_and_parameters_are_named():
    for change in ("argument", "parameter"):
        x, w = leaf(3), leaf(3, seed=1)
        h = x * 1
        y = checkpoint(lambda h, w=w: h * w, h) if change == "argument" else checkpoint(w.mul, h)
        with jit.no_grad():
            (h if change == "argument" else w).add_(1)
        line = r"test_recomputing\.py:\d+"
        with pytest.raises(jit.AutogradError, match=rf"at {line} .*changed by an in-place operation at {line}"):
            y.sum().backward()


def test_writes_under_a_checkpoint_inside_of_a_checkpoint_happen_once():
    count = jit.zeros(1)

    def inner(x):
        count.add_(1)
        return x * x * count

    x = jit.tensor([3.0], requires_grad=True)
    for calls in (1, 2):
        checkpoint(lambda x: checkpoint(inner, x) * 2, x).sum().backward()
        assert count.tolist() == [calls]
    assert x.grad.tolist() == [2 * 6 + 2 * 12]


def test_results_stay_as_they_are_while_the_function_runs_again():
    results: list[Any] = []
    seen: list[Any] = []

    def f(x):
        seen.extend(y.tolist() for y in results)
        y = x * 2
        y.add_(1)  # a write to a result is no effect that would have to be undone
        return y

    y = checkpoint(f, jit.tensor([1.0, 2.0], requires_grad=True))
    results.append(y)
    y.sum().backward()
    assert seen == [[3, 5]] and y.tolist() == [3, 5]


def test_a_class_among_the_arguments_stays_what_it_is():
    @dataclasses.dataclass
    class Pair:
        a: Any
        b: Any

    x = leaf(3)
    made = checkpoint(lambda kind, x: kind(x * 2, 1), Pair, x)
    assert type(made) is Pair and made.b == 1
    made.a.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "again", [lambda x: (), lambda x: (x * 1,), lambda x: (x * 1, x.detach())], ids=["none", "fewer", "constant"]
)
def test_a_function_that_returns_less_the_second_time(again):
    x = leaf(3)
    calls = iter([lambda x: (x * 1, x * 2), again])
    first, second = checkpoint(lambda x: next(calls)(x), x)
    with pytest.raises(jit.AutogradError, match=r"at test_recomputing\.py:\d+ .*returned something else"):
        (first + second).sum().backward()


def test_a_function_that_does_something_else_the_second_time():
    shapes = iter([3, 4])
    y = checkpoint(lambda x: x * jit.ones(next(shapes), 1, dtype=jit.float64), leaf(1))
    with pytest.raises(jit.AutogradError, match=r"at test_recomputing\.py:\d+ .*returned something else"):
        y.sum().backward()


def test_a_second_backward():
    x = leaf(3)
    y = checkpoint(lambda x: x.exp(), x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(jit.AutogradError, match=r"test_recomputing\.py:\d+ .*retain_graph=True"):
        y.backward()
    assert_close(x.grad, 2 * x.exp().detach())


def test_errors_of_the_function_come_through():
    runs = iter([None, KeyError("second run")])

    def f(x):
        error = next(runs)
        if error is not None:
            raise error
        return x * 2

    y = checkpoint(f, leaf(2))
    with pytest.raises(KeyError, match="second run"):
        y.sum().backward()
    with pytest.raises(StopIteration):
        checkpoint(f, leaf(2))
    assert jit.is_grad_enabled() and jit.rand(1).shape == (1,)


def test_hooks_inside_and_outside():
    seen: list[str] = []

    def tripled(g):
        seen.append("inside")
        return g * 3

    def f(x):
        h = x * 2
        h.register_hook(tripled)
        return h.exp()

    x = leaf(2)
    x.register_hook(lambda g: seen.append("leaf"))
    y = checkpoint(f, x)
    y.register_hook(lambda g: seen.append("outside"))
    y.sum().backward()
    assert seen == ["outside", "inside", "leaf"]
    assert_close(x.grad, 6 * (x * 2).exp().detach())


def test_no_cycle_outlives_it():
    gc.disable()
    try:
        x = leaf(2)
        y = checkpoint(lambda x: (x.exp() * 2).relu_(), x)
        y.sum().backward()
        alive = [weakref.ref(t) for t in (x, y, y.grad_fn)]
        del x, y
        assert not [a for a in alive if a() is not None]
    finally:
        gc.enable()


@pytest.mark.parametrize("optimize", [False, True])
def test_traced_and_eager_are_equal(optimize):
    norm = nn.BatchNorm1d(3)

    def f(x, w):
        def block(h, scale, *, flag):
            h = norm(h @ w) if flag else h
            return F.dropout(h.tanh() * scale, 0.5), "text", scale

        h, text, scale = checkpoint(block, x, 2, flag=True)
        assert text == "text"
        return checkpoint(lambda h: checkpoint(block, h, scale, flag=False)[0] @ w, h)

    def observed(function):
        jit.manual_seed(3)
        norm.reset_running_stats()
        log = []
        for number in range(3):
            x, w = (t.detach().float().requires_grad_() for t in (leaf(5, 3, seed=number), leaf(3, 3, seed=7)))
            y = function(x, w)
            (gx,) = jit.grad(y.sum(), x, create_graph=True)
            (gx * gx).sum().backward()
            log += [y, gx, x.grad, w.grad, norm.running_mean.clone(), norm.running_var.clone()]
        return [np.array(t.detach().numpy()) for t in log]

    traced = jit.trace(f, optimize=optimize)
    for found, expected in zip(observed(traced), observed(f), strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert traced.hits == 2


def test_a_traced_function_under_a_checkpoint():
    def f(x, w):
        return F.dropout((x @ w).tanh(), 0.5)

    def observed(function):
        jit.manual_seed(0)
        log = []
        for number in range(3):
            x, w = leaf(2, 3, seed=number), leaf(3, 3, seed=7)
            y = function(x, w)
            y.square().sum().backward()
            log += [y.tolist(), x.grad.tolist(), w.grad.tolist()]
        return log

    traced = jit.trace(f, optimize=False)
    found, expected = observed(lambda x, w: checkpoint(traced, x, w)), observed(f)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("segments", [1, 2, 3])
def test_sequential(segments):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    x = leaf(2, 3)
    jit.checkpoint_sequential(net, segments, x).sum().backward()
    found = [p.grad.tolist() for p in net.parameters()], x.grad.tolist()
    net.zero_grad()
    x.grad = None
    net(x).sum().backward()
    assert found == ([p.grad.tolist() for p in net.parameters()], x.grad.tolist())


def test_sequential_needs_enough_functions():
    with pytest.raises(jit.UsageError, match="2 functions cannot be divided into 3 segments"):
        jit.checkpoint_sequential([F.relu, F.relu], 3, leaf(2))


# -- recorded ----------------------------------------------------------------------------------------------------


def kept_between_stages(graph: Any) -> list[str]:
    """What nodes of stage 0 compute and a later stage uses; arguments are kept by the caller anyway."""
    return [
        v.node.kind for n in graph.nodes for v in n.inputs if v.node.stage < n.stage and not v.is_input
    ]  # fmt: skip


def chain_of_blocks(x: Any, w: Any, around: Any) -> Any:
    """Three blocks, each of which needs three results for its derivatives; `around(block, h)` calls them."""
    for _ in range(3):
        x = around(lambda h: ((h @ w).sin().exp() * 0.1).tanh(), x)
    return x.sum()


def plain(block: Any, h: Any) -> Any:
    return block(h)


def test_a_recorded_backward_computes_checkpoints_again():
    def kept(around: Any) -> list[str]:
        traced = jit.trace(lambda x, w: chain_of_blocks(x, w, around), optimize=False)
        x, w = leaf(2, 3), leaf(3, 3)
        traced(x, w).backward()
        graph = traced.graph_for(x, w)
        graph.verify()
        return kept_between_stages(graph)

    assert sorted(set(kept(plain))) == ["aten::exp", "aten::matmul", "aten::tanh"]
    assert set(kept(checkpoint)) == {"aten::tanh"}  # what leaves one block, and enters the next


def peak(function: Any, *inputs: Any) -> float:
    """The most memory in use during a call of a function and its backward, in multiples of the first input."""
    gc.collect()
    tracemalloc.start()
    try:
        result = function(*inputs)
        if result.requires_grad:
            jit.grad(result, inputs)
        return float(tracemalloc.get_traced_memory()[1] / inputs[0]._array.nbytes)
    finally:
        tracemalloc.stop()


def blocks(x: Any, weights: Any, around: Any) -> Any:
    """Four products for every weight, and what they need for their derivatives."""
    for w in weights:
        x = around(lambda h, w=w: (((h @ w).tanh() @ w).tanh() @ w).tanh() @ w, x)
    return x.square().sum()


def with_backward_inside(x: Any, weights: Any, around: Any) -> Any:
    return sum(g.sum() for g in jit.grad(blocks(x, weights, around), (x, *weights))).detach()


@pytest.mark.parametrize("function, optimize", [(blocks, False), (blocks, True), (with_backward_inside, False)])
def test_a_recorded_checkpoint_saves_memory(function, optimize):
    x = leaf(64, 64)
    weights = [(leaf(64, 64, seed=n).detach() / 64).requires_grad_() for n in range(8)]

    def measured(around: Any) -> float:
        traced = jit.trace(lambda x, *weights: function(x, weights, around), optimize=optimize)
        for _ in range(2):  # recorded and compiled
            peak(traced, x, *weights)
        return peak(traced, x, *weights)

    recomputing, keeping = measured(checkpoint), measured(plain)
    assert keeping > 32  # results of 32 products
    assert recomputing < 26  # those of eight and of one block, and eight gradients


def test_equal_expressions_are_not_merged_with_what_a_backward_computes_again():
    x = leaf(4, 4)
    weights = [leaf(4, 4, seed=n) for n in range(3)]

    def count(around: Any) -> int:
        traced = jit.trace(lambda x, *weights: with_backward_inside(x, weights, around))
        traced(x, *weights)
        return str(traced.graphs[-1].graph).count("aten::tanh(")

    assert (count(plain), count(checkpoint)) == (9, 18)


def blocks_in_blocks(x: Any, w: Any, depth: int, around: Any) -> Any:
    if depth == 0:
        return (x @ w).tanh()
    for _ in range(2):
        x = around(lambda h: blocks_in_blocks(h, w, depth - 1, around), x)
    return x


@pytest.mark.parametrize("optimize", [False, True])
def test_recorded_checkpoints_inside_of_each_other(optimize):
    def build(around: Any) -> Any:
        return jit.trace(lambda x, w: blocks_in_blocks(x, w, 4, around).sum(), optimize=optimize)

    nested, simple = build(checkpoint), build(plain)
    inputs = leaf(128, 128), (leaf(128, 128, seed=1).detach() / 128).requires_grad_()  # Python objects weigh little
    found = [gradients(f, *inputs) for f in (nested, nested, simple)]
    for again, once in zip(found[1], found[2], strict=True):
        assert_close(again, once, rtol=1e-12)
    assert peak(simple, *inputs) > 16  # one result for each of sixteen products
    assert peak(nested, *inputs) < 14  # two at each of four levels, and what one product takes


@pytest.mark.parametrize("optimize", [False, True])
def test_recorded_second_derivatives_of_checkpoints(optimize):
    def observed(function: Any) -> Any:
        x, w = leaf(2, 3), leaf(3, 3, seed=1)
        (g,) = jit.grad(function(x, w), x, create_graph=True)
        return [g.tolist(), *(t.tolist() for t in jit.grad(g.square().sum(), (x, w)))]

    def f(x: Any, w: Any) -> Any:
        return chain_of_blocks(x, w, checkpoint)

    traced = jit.trace(f, optimize=optimize)
    expected = observed(f)
    for _ in range(3):
        found = observed(traced)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert traced.hits == 2


class Counted(jit.autograd.Function):
    calls: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Counted.calls.append("forward")
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Counted.calls.append("backward")
        return 2 * ctx.saved_tensors[0] * g


def test_foreign_code_under_a_recorded_checkpoint_runs_once():
    traced = jit.trace(lambda x: checkpoint(lambda x: Counted.apply(x.exp()).sin(), x))
    for _ in range(3):
        x = leaf(4)
        Counted.calls.clear()
        traced(x).sum().backward()
        assert Counted.calls == ["forward", "backward"]
        expected = np.cos(np.exp(2 * x.detach().numpy())) * 2 * np.exp(2 * x.detach().numpy())
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


def test_what_a_recorded_checkpoint_needs_must_not_change():
    traced = jit.trace(lambda x: checkpoint(lambda x: x.exp().sin(), x))
    traced(leaf(4) * 1).sum().backward()
    for _ in range(3):
        y = leaf(4) * 1
        z = traced(y).sum()
        y.mul_(2)
        with pytest.raises(jit.AutogradError, match=r"test_recomputing.py.*test_recomputing.py"):
            z.backward()


def test_saved_checkpoints_stay_checkpoints(tmp_path):
    traced = jit.trace(lambda x, w: chain_of_blocks(x, w, checkpoint), optimize=False)
    x, w = leaf(2, 3), leaf(3, 3)
    traced(x, w).backward()
    traced.save(tmp_path / "f.jit")
    loaded = jit.load(tmp_path / "f.jit")
    expected = x.grad.tolist(), w.grad.tolist()
    x.grad = w.grad = None
    loaded(x, w).backward()
    assert (x.grad.tolist(), w.grad.tolist()) == expected
    assert set(kept_between_stages(loaded.graph_for(x, w))) == {"aten::tanh"}
