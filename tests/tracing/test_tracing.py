"""`jit.trace`: what is recorded, under which key, when it is run again, and what its errors say."""

import copy
import math
import re
import threading
import time
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from expecttest import assert_expected_inline

import jit
import jit.nn.functional as F
from jit import nn
from tests.threads import in_threads
from tests.tolerances import assert_close
from tests.tracing.test_tracing_notes import text


def leaf(*numbers: float) -> Any:
    """A float32 leaf that requires grad."""
    return jit.tensor(list(numbers), requires_grad=True)


# -- what is recorded --------------------------------------------------------------------------------------------


def test_simple():
    @jit.trace
    def f(x, y):
        return jit.sigmoid(jit.tanh(x * (x + y)))

    f(leaf(0.4), leaf(0.7))
    assert_expected_inline(
        text(f.graph),
        """\
graph(%x : Float(1), %y : Float(1)) {
  %0 : Float(1) = aten::add(%x, %y)
  %1 : Float(1) = aten::mul(%x, %0)
  %2 : Float(1) = aten::tanh(%1)
  %3 : Float(1) = aten::sigmoid(%2)
  return (%3)
}""",
    )


def test_nodes_know_their_lines_and_scopes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

        def forward(self, x):
            with jit.scope("outer"), jit.scope("inner"):
                x = x * 2
            return self.layers(x)

    f = jit.trace(Net())
    f(jit.ones(1, 2))
    mul, linear, tanh = f.graph.nodes
    assert mul.scope == "Net/outer/inner" and linear.scope == "Net/layers/0" and tanh.scope == "Net/layers/1"
    assert mul.source.file == "test_tracing.py" and mul.source.function == "forward"
    assert [value.name for value in f.graph.inputs] == ["x", "layers.0.weight", "layers.0.bias"]


def test_derivatives_belong_to_the_lines_of_their_operators():
    @jit.trace
    def f(x):
        y = jit.sin(x)
        return (y * y).sum()

    f(leaf(1.0)).backward()
    sources = {n.kind: n.source for n in f.graph.nodes if n.stage == 1}
    assert {s.function for s in sources.values()} == {"f"}
    assert sources["aten::cos"].line == f._function.__code__.co_firstlineno + 2


def test_composites_are_one_node():
    f = jit.trace(lambda x, y: x @ y)
    f(jit.ones(2, 3), jit.ones(3, 4))
    (node,) = f.graph.nodes
    assert node.kind == "aten::matmul" and [n.kind for n in node.attributes["body"].nodes] == ["aten::mm"]


def test_convolutions_and_dropout_appear_as_themselves():
    f = jit.trace(lambda x, w: F.dropout(F.conv2d(x, w, padding=1), 0.5, True))
    f(jit.ones(1, 1, 3, 3), jit.ones(2, 1, 3, 3))
    assert [n.kind.split(".")[0] for n in f.graph.nodes] == ["aten::conv2d", "aten::dropout"]


def test_in_place_operators_become_pure_ones():
    @jit.trace
    def f(x):
        y = x.clone()
        y.add_(2).mul_(y)
        z = jit.zeros(2)
        z.copy_(y)
        return z

    assert f(jit.ones(2)).tolist() == f(jit.ones(2)).tolist() == [9, 9]
    assert not any(n.kind.endswith("_") for n in f.graph.nodes) and f.hits == 1


def test_indexing_runs_and_differentiates():
    f = jit.trace(lambda x, i: x[0] * x[i, 1].sum())
    for rows in ([0], [0, 1], [1, 1]):
        x, y = (jit.arange(4).reshape(2, 2).float().requires_grad_() for _ in range(2))
        f(x, jit.tensor(rows)).sum().backward()
        (y[0] * y[jit.tensor(rows), 1].sum()).sum().backward()
        assert_close(x.grad, y.grad)


def test_constants_are_listed_with_their_lines():
    f = jit.trace(lambda x: x + jit.tensor([1.0, 2.0]))
    f(jit.ones(2))
    (constant,) = f.constants()
    assert constant.nbytes == 8 and constant.source.file == "test_tracing.py" and "jit.tensor" in constant.reason


scale, shift = 2.0, np.ones(2, np.float32)


def scaled(x, power=3):
    return x**power * (scale + 1) + jit.tensor(shift)


def test_the_ledger_lists_what_was_read():
    f = jit.trace(scaled)
    f(jit.ones(2))
    lines = {c.name: c for c in f.constants() if c.name in ("power", "scale", "shift")}
    assert {n: (c.value, c.nbytes) for n, c in lines.items()} == {
        "power": (3, 8), "scale": (2.0, 8), "shift": (None, 8)
    }  # fmt: skip
    assert lines["power"].source.function == "scaled" and "an argument" in lines["power"].reason
    assert sum("jit.tensor" in c.reason for c in f.constants()) == 1


@pytest.mark.parametrize("optimize", [False, True])
def test_a_promoted_number_is_an_input(optimize):
    global scale
    f = jit.trace(scaled, optimize=optimize)
    f.promote("scale")
    f.promote("power")
    try:
        for scale, power in ((2.0, 3), (5.0, 3), (5.0, 2), (0.5, 1)):  # noqa: B007
            x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
            f(x, power).sum().backward()
            scaled(y, power).sum().backward()
            assert_close(x.grad, y.grad)
            assert_close(f(x, power), scaled(x, power))
        assert (f.hits, f.misses) == (7, 1)
        assert [str(v.type) for v in f.graph.inputs] == ["Float(2)", "int", "float"]
        assert not {"scale", "power"} & {c.name for c in f.constants()}
        scale = 3
        assert_close(f(x, 1), scaled(x, 1))
        assert f.misses == 2, "an int is another kind of number"
    finally:
        scale = 2.0


def test_decisions_on_promoted_numbers_are_guarded():
    f = jit.trace(lambda x, n: x * 2 if n > 3 else x + n)
    f.promote("n")
    for n in (1, 2, 5, 7, 3):
        assert f(jit.ones(1), n).item() == (2 if n > 3 else 1 + n)
    assert (f.hits, f.misses) == (3, 2)


def test_what_cannot_be_promoted_is_an_error():
    sizes = (1, 2)
    f = jit.trace(lambda x: x * sizes[0] * scale)
    with pytest.raises(jit.UsageError, match=r"no number 'rate' to promote; it reads x, scale"):
        f.promote("rate")
    with pytest.raises(jit.UsageError, match=r"no number 'sizes\.0'"):
        f.promote("sizes.0")


def test_a_learning_rate_is_promoted():
    net = nn.Linear(2, 1)
    optimizer = jit.optim.SGD(net.parameters(), lr=0.5)
    schedule = jit.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    @jit.trace
    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    step.promote("optimizer.param_groups.0.lr")
    for _ in range(5):
        before = net.bias.item()
        step(jit.ones(1, 2))
        assert abs(before - net.bias.item() - optimizer.param_groups[0]["lr"]) < 1e-6
        schedule.step()
    assert step.hits >= 3


def test_captured_tensors_are_read_afresh():
    w = jit.ones(2)
    f = jit.trace(lambda x: x * w)
    assert f(jit.ones(2)).tolist() == [1, 1] and [v.name for v in f.graph.inputs] == ["x", "w"]
    w.mul_(3)
    assert f(jit.ones(2)).tolist() == [3, 3]
    w = jit.full((2,), 5.0)
    assert f(jit.ones(2)).tolist() == [5, 5] and (f.hits, f.misses) == (2, 1)


def test_a_shared_parameter_is_one_input():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    f = jit.trace(net)
    for _ in range(3):
        net[0].weight.grad = None
        f(jit.ones(1, 2)).sum().backward()
        found = net[0].weight.grad
        net[0].weight.grad = None
        net(jit.ones(1, 2)).sum().backward()
        assert_close(found, net[0].weight.grad)
    assert len(f.graph.inputs) == 2


# -- keys --------------------------------------------------------------------------------------------------------


def test_the_first_call_misses_and_the_second_hits():
    f = jit.trace(lambda x: x * 2 + 1)
    assert (f.hits, f.misses) == (0, 0) and not f.has_trace_for(jit.ones(2))
    assert f(jit.ones(2)).tolist() == f(jit.ones(2)).tolist() == [3, 3]
    assert (f.hits, f.misses) == (1, 1) and f.has_trace_for(jit.ones(2)) and not f.has_trace_for(jit.ones(3))
    assert "1 keys, 1 hits, 1 misses" in repr(f)


@pytest.mark.parametrize(("other", "word"), [
    ((jit.ones(3), [jit.ones(2)]), r"because x has sizes \(3,\), not \(2,\)"),
    ((jit.ones(2, dtype=jit.float64), [jit.ones(2)]), "because x is float64, not float32"),
    ((leaf(1.0, 1.0), [jit.ones(2)]), "because x requires grad now"),
    ((jit.ones(4)[::2], [jit.ones(2)]), r"because x lies in memory with strides \(2,\), not as row-major"),
    ((jit.ones(2), [jit.ones(2), jit.ones(2)]), "because ys has 2 items, not 1"),
    ((jit.ones(2), (jit.ones(2),)), "because ys is a tuple, not a list"),
])  # fmt: skip
def test_every_configuration_of_arguments_has_its_own_trace(other, word):
    f = jit.trace(lambda x, ys: x * 2 + sum(y.sum() for y in ys).to(x.dtype))
    first = (jit.ones(2), [jit.ones(2)])
    f(*first)
    assert "first call" in f.explain()
    f(*other)
    assert f.misses == 2
    assert re.search(word, f.explain()), f.explain()
    f(*first), f(*other)
    assert (f.hits, f.misses) == (2, 2)
    assert f.graph_for(*first) is not f.graph_for(*other)


class Settings:
    def __init__(self):
        self.rate, self.sizes, self.table = 0.1, [1, 2], np.zeros(2)
        self.weight = jit.ones(2)


@pytest.mark.parametrize(("change", "reason"), [
    (lambda s: setattr(s, "rate", 0.5), "settings.rate is 0.5, not 0.1"),
    (lambda s: setattr(s, "rate", "fast"), "settings.rate is 'fast', not 0.1"),
    (lambda s: setattr(s, "rate", b"fast"), "settings.rate is b'fast', not 0.1"),
    (lambda s: s.sizes.__setitem__(1, 3), "settings.sizes.1 is 3, not 2"),
    (lambda s: s.sizes.append(3), "settings.sizes has 3 items, not 2; it reads settings.sizes.2, which is new"),
    (lambda s: s.table.fill(1), "settings.table has other contents"),
    (lambda s: setattr(s, "weight", jit.ones(2, dtype=jit.float64)), "settings.weight is float64, not float32"),
    (lambda s: setattr(s, "weight", jit.ones(3)), r"settings.weight has sizes \(3,\), not \(2,\)"),
    (lambda s: s.weight.requires_grad_(), "settings.weight requires grad now"),
    (lambda s: delattr(s, "rate"), "settings.rate is gone"),
])  # fmt: skip
def test_what_a_function_reads_is_named_when_it_is_recorded_anew(change, reason):
    settings = Settings()
    f = jit.trace(lambda x: x * len(str(vars(settings).get("rate"))) + len(settings.sizes) + settings.weight.sum())
    f(jit.ones(1))
    change(settings)
    f(jit.ones(1))
    assert f.misses == 2 and re.search(reason, f.explain()), f.explain()


def test_the_nearest_recording_is_compared():
    f = jit.trace(lambda x, k, name: x * k)
    for size, k in ((2, "1"), (3, "2"), (3, "3")):
        f(jit.ones(size), float(size), k)
    assert f.explain() == "it was recorded anew because name is '3', not '2'"


def test_a_number_that_only_bears_the_name_of_a_global_is_not_read(monkeypatch):
    f = jit.trace(lambda x, settings: x * settings.rate)
    settings = Settings()
    f(jit.ones(1), settings)
    monkeypatch.setitem(globals(), "rate", 7.0)
    f(jit.ones(1), settings)
    assert (f.hits, f.misses) == (1, 1)


def test_grad_mode_is_part_of_the_key():
    f = jit.trace(lambda x: x * 2)
    x = leaf(1.0)
    with jit.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad and f.misses == 2 and "gradients are recorded" in f.explain()


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False), (True, True)])
def test_every_combination_of_flags_has_the_right_gradients(flags):
    f = jit.trace(lambda x, y: x * y + x)
    for _ in range(3):
        x, y = (jit.full((2,), v).requires_grad_(flag) for v, flag in zip((2.0, 3.0), flags, strict=True))
        out = f(x, y)
        assert out.requires_grad == any(flags)
        if any(flags):
            out.sum().backward()
        assert (x.grad is None) == (not flags[0]) and (not flags[0] or x.grad.tolist() == [4, 4])
        assert (y.grad is None) == (not flags[1]) and (not flags[1] or y.grad.tolist() == [2, 2])


def test_calls_that_mean_the_same_share_a_trace():
    f = jit.trace(lambda a, b=2.0, *, c=None: a * b)
    x = jit.ones(2)
    f(x), f(a=x), f(x, 2.0), f(b=2.0, a=x), f(x, c=None)
    assert (f.hits, f.misses) == (4, 1)
    with pytest.raises(jit.UsageError, match="missing a required argument: 'a'"):
        f(b=1.0)
    with pytest.raises(TypeError):
        f(x, d=1)


def test_modules_are_recast():
    net = nn.Linear(2, 2)
    f = jit.trace(net)
    f(jit.ones(1, 2)), f(jit.ones(1, 2))
    net.double()
    assert f(jit.ones(1, 2, dtype=jit.float64)).dtype is jit.float64
    f(jit.ones(1, 2, dtype=jit.float64))
    assert (f.hits, f.misses) == (2, 2)


def test_what_cannot_be_a_key_is_an_error():
    f = jit.trace(lambda x, s: x)
    with pytest.raises(jit.UsageError, match="not hashable"):
        f(jit.ones(1), {jit.ones(1)})


def test_arguments_that_cannot_be_traced_at_all():
    with pytest.raises(jit.UsageError, match="takes a function or a Module, not int"):
        jit.trace(3)


# -- functions, methods, modules ---------------------------------------------------------------------------------


def test_decorators_with_and_without_arguments():
    @jit.trace(optimize=False)
    def f(x):
        """Doubles."""
        return x * 2

    assert f(jit.ones(1)).item() == 2 and f.__name__ == "f" and f.__doc__ == "Doubles."


def test_example_inputs_record_and_check():
    f = jit.trace(lambda x: x * 2, example_inputs=(jit.ones(2),))
    assert f.misses == 1 and f.has_trace_for(jit.ones(2))
    state = jit.get_rng_state()
    jit.trace(lambda x: x * jit.rand(2), example_inputs=(jit.ones(2),))
    assert jit.get_rng_state() == state
    norm = nn.BatchNorm1d(2)
    jit.trace(norm, example_inputs=(jit.randn(4, 2),))
    assert norm.running_mean.tolist() == [0, 0] and norm.num_batches_tracked.item() == 0


def test_example_inputs_that_give_other_results_are_an_error():
    class Count(jit.autograd.Function):
        calls = iter(range(1, 100))

        @staticmethod
        def forward(ctx, x):
            return x * next(Count.calls)

    with pytest.raises(jit.VerificationError, match="traced and untraced results differ"):
        jit.trace(lambda x: Count.apply(x), example_inputs=(jit.ones(2),))


def test_methods_have_a_cache_per_instance_and_let_it_go():
    class Scaler:
        def __init__(self, scale):
            self.scale = jit.tensor(scale)

        @jit.trace
        def f(self, x):
            return x * self.scale

    a, b = Scaler(2.0), Scaler(3.0)
    assert [s.f(jit.ones(1)).item() for s in (a, b, a)] == [2, 3, 2] and (a.f.hits, b.f.hits) == (1, 0)
    gone = weakref.ref(a)
    del a
    assert gone() is None


def test_module_classes_and_module_objects():
    @jit.trace
    class Cell(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear = nn.Linear(size, size)

        def forward(self, x, h):
            return jit.tanh(self.linear(x) + h)

    a: Any
    b: Any
    a, b = Cell(2), Cell(2)
    x = jit.ones(1, 2)
    for cell in (a, b, a):
        assert_close(cell(x, x), jit.tanh(cell.linear(x) + x).detach())
    assert (a.forward.hits, b.forward.hits) == (1, 0)
    traced = jit.trace(b)
    assert len(list(traced.parameters())) == 2 and traced.linear is b.linear
    assert traced.eval() is b and not b.training


def test_disabled_functions_are_transparent():
    f = jit.trace(lambda x: x * 2)
    f.enabled = False
    assert f(jit.ones(1)).item() == 2 and (f.hits, f.misses) == (0, 0)
    with pytest.raises(jit.UsageError, match="call it once"):
        f.graph  # noqa: B018


def test_clear_cache_frees_recordings():
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(1))
    graph = weakref.ref(f._last)
    f.clear_cache()
    assert graph() is None and not f.has_trace_for(jit.ones(1)) and f.misses == 0
    with pytest.raises(jit.UsageError, match="no trace for these arguments"):
        f.graph_for(jit.ones(1))


def test_a_copy_of_a_traced_module_is_its_own():
    net = nn.Linear(2, 1)
    other = copy.deepcopy(net)
    f, g = jit.trace(net), jit.trace(other)
    f(jit.ones(1, 2)), g(jit.ones(1, 2))
    with jit.no_grad():
        other.weight.zero_()
        other.bias.zero_()
    assert g(jit.ones(1, 2)).item() == 0 and f(jit.ones(1, 2)).item() != 0


# -- guards and budgets ------------------------------------------------------------------------------------------


def test_a_failed_guard_takes_another_path_and_says_why():
    @jit.trace
    def f(x):
        return x * 2 if x.sum() > 0 else -x

    f(jit.ones(1)), f(jit.ones(1))
    assert f(-jit.ones(1)).item() == 1
    assert "another path" in f.explain() and "False, not True" in f.explain() and "test_tracing.py" in f.explain()
    f(-jit.ones(1)), f(jit.ones(1))
    assert (f.hits, f.misses) == (3, 2)


def test_strict_traces_refuse_decisions_at_the_line():
    f = jit.trace(lambda x: x * 2 if x.sum() > 0 else -x, strict=True)
    with pytest.raises(jit.TraceError, match=r"at test_tracing.py:\d+ in <lambda>: Python decides"):
        f(jit.ones(1))
    assert not f.has_trace_for(jit.ones(1))


def test_the_budget_of_paths_is_spent_with_one_warning():
    f = jit.trace(lambda x, n: x * int(n))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(12):
            assert f(jit.ones(1), jit.tensor(n)).item() == n
    assert f.misses == 8 and len(caught) == 1 and "8 different paths" in str(caught[0].message)
    assert f(jit.ones(1), jit.tensor(3)).item() == 3 and f.hits == 1


def test_the_budget_is_spent_with_one_warning():
    f = jit.trace(lambda x, n: x * int(n))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(70):
            assert f(jit.ones(1), str(n)).item() == n
    caught = [each for each in caught if "untraced" in str(each.message)]
    assert f.misses == 16 and len(caught) == 1 and "recorded 16 times in 16 calls" in str(caught[0].message)


def test_a_function_that_counts_runs_untraced_and_says_so():
    calls = []

    @jit.trace
    def f(x):
        calls.append(1)
        return x * len(calls)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [f(jit.ones(1)).item() for _ in range(12)] == list(range(1, 13))
    assert (
        len(calls) == 12
        and len(caught) == 1
        and "calls" in str(caught[0].message)
        and "every call" in str(caught[0].message)
    )


class Counted(jit.autograd.Function):
    """Counts how often it is called, forward and backward."""

    calls: list[str] = []

    @staticmethod
    def forward(ctx, x, power):
        Counted.calls.append("forward")
        out = x**power
        ctx.save_for_backward(x, out)
        ctx.power = power
        return out, x.detach() * 1

    @staticmethod
    def backward(ctx, g, _):
        Counted.calls.append("backward")
        x, out = ctx.saved_tensors
        return g * out / x * ctx.power, None


@pytest.mark.parametrize("optimize", [False, True])
def test_a_function_of_the_users_runs_once_though_a_guard_fails_after_it(optimize):
    def f(x):
        y, z = Counted.apply(x * 2, 3)
        if y.sum() > 0:
            return (Counted.apply(y, 2)[0] if z.sum() > 10 else y) * x
        return y - z

    traced = jit.trace(f, optimize=optimize)
    for a in (1.0, 1.0, -1.0, 6.0, -2.0, 1.0, 7.0):
        observed = []
        for function in (f, traced):
            Counted.calls.clear()
            x = leaf(a)
            y = function(x)
            (g,) = jit.grad(y.sum(), x, create_graph=True)
            g.sum().backward()
            observed.append((y.item(), g.item(), x.grad.item(), Counted.calls.count("forward")))
        assert observed[0][3] == observed[1][3]
        assert_close(np.array(observed[1][:3]), np.array(observed[0][:3]), rtol=1e-5)
    assert traced.misses == 3


def test_a_function_of_the_users_does_not_run_again_for_a_late_backward():
    traced = jit.trace(lambda x: Counted.apply(x, 2)[0].sin())
    traced(leaf(1.0))
    Counted.calls.clear()
    x, z = leaf(2.0), leaf(2.0)
    y = traced(x)
    w = y + 1
    y.zero_()
    w.backward()
    assert Counted.calls == ["forward", "backward"]
    (z**2).sin().backward()
    assert_close(x.grad, z.grad, rtol=1e-5)


# -- exceptions and threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt])
def test_an_exception_leaves_no_half_trace(kind):
    fail = [True]

    @jit.trace
    def f(x):
        y = x * 2
        if fail[0]:
            raise kind("in the middle")
        return y

    with pytest.raises(kind, match="in the middle"):
        f(jit.ones(1))
    assert not f.has_trace_for(jit.ones(1)) and (f.hits, f.misses) == (0, 0)
    assert jit.eager.context.TRACE.get() is None and jit.eager.context.SOURCE.get() is None
    fail[0] = False
    assert f(jit.ones(1)).item() == f(jit.ones(1)).item() == 2 and f.hits == 1


def test_an_operator_that_fails_in_a_recording_names_the_line():
    f = jit.trace(lambda x, i: jit.index_select(x, 0, i))
    f(jit.ones(2), jit.tensor([1]))
    with pytest.raises(jit.DimError, match=r"out of range.*\n.*at test_tracing.py:\d+ in <lambda>"):
        f(jit.ones(2), jit.tensor([5]))
    assert f(jit.ones(2), jit.tensor([0])).tolist() == [1]


def test_threads_record_each_key_once():
    f = jit.trace(lambda x: Opaque.apply(x).sum())

    class Opaque(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def work(index):
        for repeat in range(20):
            size = (index + repeat) % 3 + 1
            x = jit.full((size,), float(index), requires_grad=True)
            out = f(x)
            out.backward()
            assert out.item() == 2 * index * size and x.grad.tolist() == [2.0] * size

    in_threads(work)
    assert (f.misses, f.hits) == (3, 157)


def test_tracing_belongs_to_one_thread():
    seen = []

    @jit.trace
    def f(x):
        thread = threading.Thread(target=lambda: seen.append(jit.ones(2).tolist()))
        thread.start()
        thread.join()
        return x * 2

    f(jit.ones(2))
    assert seen == [[1, 1]] and [n.kind for n in f.graph.nodes] == ["aten::mul"]


def test_a_python_op_may_read_a_clock_forward_and_backward():
    class Timed(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * (2 if time.perf_counter() else 0)

        @staticmethod
        def backward(ctx, g):
            return g * (2 if time.perf_counter() else 0)

    f = jit.trace(lambda x: Timed.apply(x) + 1)
    for _ in range(2):
        x = leaf(3.0)
        f(x).sum().backward()
        assert x.grad.tolist() == [2]


def test_a_trace_inside_a_python_op_and_inside_a_hook():
    inner = jit.trace(lambda x: x * 3)

    class Calls(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return inner(x) * 1

        @staticmethod
        def backward(ctx, g):
            return inner(g)

    outer = jit.trace(lambda x: Calls.apply(x) + inner(x))
    for _ in range(3):
        x = leaf(1.0)
        y = outer(x)
        y.register_hook(lambda g: inner(g) / 3)
        y.sum().backward()
        assert y.item() == 6 and x.grad.item() == 6


# -- numbers that vary -------------------------------------------------------------------------------------------------


def test_a_rate_under_a_schedule_becomes_an_input():
    net = nn.Linear(2, 1)
    optimizer = jit.optim.Adam(net.parameters(), lr=0.5)
    schedule = jit.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    twin = nn.Linear(2, 1)
    twin.load_state_dict(net.state_dict())
    eager = jit.optim.Adam(twin.parameters(), lr=0.5)

    def step(net, optimizer, x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    traced = jit.trace(lambda x: step(net, optimizer, x))
    reasons = []
    for _ in range(12):
        eager.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"]
        traced(jit.ones(1, 2))
        step(twin, eager, jit.ones(1, 2))
        assert_close(net.weight.detach().numpy(), twin.weight.detach().numpy())
        schedule.step()
        reasons.append(traced.explain())
    assert "optimizer.param_groups.0.lr is" in reasons[2] and "as inputs from now on" in reasons[2]
    assert traced.misses == 3  # the first has no state, the second one value, the third is for all
    assert traced.hits == 9


def test_what_is_decided_upon_is_baked_in_again():
    scale = 1.0
    f = jit.trace(lambda x: x * math.sqrt(scale))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "at .* has been recorded 10 times")
        for count in range(12):
            scale = 1.0 + count / 4
            assert f(jit.ones(1, dtype=jit.float64)).item() == math.sqrt(scale)
    for count in range(12):
        scale = 1.0 + count / 4
        f(jit.ones(1, dtype=jit.float64))
    assert f.misses < 20


def test_numbers_beside_other_differences_stay_baked_in():
    scale, name = 1.0, "a"
    g = jit.trace(lambda x: x * (scale + len(name)))
    for number in range(7):
        scale, name = float(number), "b" * number
        assert g(jit.ones(1)).item() == 2 * number
    assert g.misses == 7
    h = jit.trace(lambda x: x * scale, dynamic=False)
    for number in range(7):
        scale = float(number)
        h(jit.ones(1))
    assert h.misses == 7
