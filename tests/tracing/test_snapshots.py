"""`trace(example_inputs=...)`, exports and `jit.verify` leave everything that they look at as it was."""

import array
import collections
import contextlib
import itertools
import os
import random
import threading
import types
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn

TOTAL = 0
TABLE: dict[str, Any] = {"calls": 0, "names": ["a"]}
SHELF: Any = types.ModuleType("shelf")
SHELF.count = 0


class Plain:
    """An object of the user's."""

    total = 0

    def __init__(self):
        self.calls = 0
        self.seen = []
        self.inner = types.SimpleNamespace(n=0)


class Cell:
    """A cell, to be looked into."""

    def __init__(self, cell):
        self.cell = cell


class Slotted:
    __slots__ = ("late", "n")

    def __init__(self):
        self.n = 0


class Stateful(nn.Module):
    """Writes to everything that a network module can have."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(jit.ones(3))
        self.register_buffer("total", jit.zeros(3))
        self.replaced: Any
        self.register_buffer("replaced", jit.zeros(3))
        self.big = jit.zeros(600_000)
        self.norm = nn.BatchNorm1d(3)
        self.count = 0
        self.history: Any = collections.deque(maxlen=2)

    def forward(self, x):
        self.count += 1
        self.history.append(self.count)
        self.total += x.mean(0)
        self.replaced = self.replaced + 1
        self.big.add_(1)
        self.big[2:5].mul_(3)
        with jit.no_grad():
            self.weight.data.mul_(2)
            self.weight.add_(1)
        self.train(not self.training)
        return self.norm(x) * self.weight + self.total + self.replaced + self.big[:3]


def facts(thing: Any, seen: Any = None) -> Any:
    """All that can be told of an object and of what it holds, to be compared later."""
    seen = {} if seen is None else seen
    if isinstance(thing, (bool, int, float, str, bytes, bytearray, array.array, type(None), itertools.count)):
        return repr(thing)
    if isinstance(thing, Cell):
        return facts(thing.cell.cell_contents, seen)
    if id(thing) in seen:
        return ("again", list(seen).index(id(thing)))
    seen[id(thing)] = thing
    if isinstance(thing, jit.Tensor):
        held = thing._array  # None for a parameter that does not know its sizes yet
        values = None if held is None else (held.shape, held.tobytes())
        about = (type(thing), thing._requires_grad, id(thing._grad_fn), thing._storage.version, values)
        return (id(thing), *about, facts(thing._grad, seen), facts(vars(thing), seen))
    if isinstance(thing, dict):
        return (id(thing), [(facts(k, seen), facts(v, seen)) for k, v in thing.items()])
    if isinstance(thing, (list, tuple, collections.deque, set)):
        return (id(thing), [facts(item, seen) for item in thing])
    if isinstance(thing, np.ndarray):
        return (id(thing), thing.tobytes())
    if isinstance(thing, (random.Random, np.random.Generator)):
        return repr(thing.getstate() if isinstance(thing, random.Random) else thing.bit_generator.state)
    if callable(thing) and not isinstance(thing, nn.Module):
        return id(thing)
    slots = [(s, facts(getattr(thing, s, None), seen)) for s in getattr(type(thing), "__slots__", ()) if s[:2] != "__"]
    return (type(thing), slots, facts(getattr(thing, "__dict__", None), seen))


def around_random():
    numpy: Any = np.random.get_state()
    return random.getstate(), numpy[1].tobytes(), jit.get_rng_state(), jit.is_grad_enabled()


# -- what functions change -----------------------------------------------------------------------------------------
# Each makes (function, arguments, what to look at).


def changing_an_argument():
    x = jit.ones(4, 3)
    return (lambda x: x.add_(1) * 2), (x,), x


def changing_a_view_that_is_an_argument():
    base = jit.arange(12.0).reshape(4, 3).clone()
    return (lambda x: x.mul_(2) + 1), (base[1:, :2],), base


def changing_a_list_of_arguments():
    xs = [jit.ones(4, 3), jit.zeros(4, 3)]
    return (lambda xs: xs[0].add_(1) + xs[1].sub_(3)), (xs,), xs


def writing_to_data():
    weight = nn.Parameter(jit.ones(3))

    def f(x):
        with jit.no_grad():
            weight.mul_(3).add_(1)
        return x * weight.detach()

    return f, (jit.ones(4, 3),), weight


def a_module():
    module = Stateful()
    return module, (jit.rand(4, 3),), module


def counting_in_a_global():
    def f(x):
        global TOTAL
        TOTAL += 1
        TABLE["calls"] += 1
        TABLE["names"].append("b")
        TABLE["new"] = x.shape
        return x + 1

    return f, (jit.ones(4, 3),), TABLE


def counting_in_a_module():
    def f(x):
        SHELF.count += 1
        SHELF.late = 1
        return x + 1

    return f, (jit.ones(4, 3),), vars(SHELF)


def counting_in_a_cell():
    n = 0
    late: list[int] = []

    def f(x: Any) -> Any:
        nonlocal n
        n += 1
        late.append(n)
        vars(f)["calls"] = n
        return x * 2

    return f, (jit.ones(4, 3),), [Cell(c) for c in f.__closure__ or ()]


def counting_in_objects():
    plain: Any = Plain()
    slotted: Any = Slotted()
    counter = itertools.count(5)
    kind: Any = Plain
    held = [counter]

    def f(x):
        plain.calls += 1
        plain.seen.append(plain.calls)
        plain.inner.n = "b"
        plain.late = 1
        kind.total += 1
        kind.late = 2
        slotted.n += 1
        slotted.late = 1
        return x * next(held[0])

    return f, (jit.ones(4, 3),), [plain, slotted, held, dict(vars(Plain))]


def counting_in_containers():
    things: list[Any] = [
        bytearray(b"ab"), array.array("i", [1, 2]), np.arange(3), {1, 2}, collections.OrderedDict(a=1, b=2),
        collections.Counter("ab"), collections.defaultdict(list), collections.deque([1, 2]), threading.local(),
    ]  # fmt: skip
    things[-1].n = 0

    def f(x):
        things[0][0] += 1
        things[1][0] += 1
        things[2][0] += 1
        things[3].add(len(things[3]) + 7)
        things[4].move_to_end("a")
        things[5]["b"] += 1
        things[6]["k"].append(1)
        things[7].rotate(1)
        things[8].n += 1
        return x * 2

    return f, (jit.ones(4, 3),), [*things, vars(things[8])]


def drawing():
    own, generator, numbers = jit.Generator(), random.Random(3), np.random.default_rng(3)

    def f(x):
        random.random()
        np.random.rand()
        generator.random()
        numbers.random()
        return x + jit.rand(4, 3) + jit.rand(4, 3, generator=own)

    return f, (jit.ones(4, 3),), [generator, numbers, repr(own.state)]


def changing_the_environment():
    def f(x):
        os.environ["JIT_SNAPSHOT_TEST"] = "1"
        return x * 2

    return f, (jit.ones(4, 3),), types.SimpleNamespace(environment=vars(os.environ)["_data"])


def changing_the_grad_mode():
    def f(x):
        jit.set_grad_enabled(not jit.is_grad_enabled())
        return x * 2

    return f, (jit.ones(4, 3),), None


def attaching_to_tensors():
    kept = jit.ones(3)

    def f(x):
        vars(kept)["tag"] = "seen"
        kept.requires_grad_()
        return x + kept

    return f, (jit.ones(4, 3),), kept


def resizing_an_argument():
    x = jit.ones(4, 3)
    return (lambda x: x.resize_(3, 4) * 2), (x,), x


def appending_in_a_hook_of_a_tensor():
    seen: list[Any] = []
    weight = nn.Parameter(jit.ones(3))
    weight.register_hook(seen.append)

    def f(x):
        with jit.enable_grad():
            return jit.grad((x * weight).sum(), weight)[0]

    return f, (jit.ones(4, 3),), [weight, seen]


def knowing_its_sizes_late():
    module = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    return module, (jit.ones(4, 3),), [module, [type(layer) for layer in module], module[0].weight]


def training(optimizer, **options):
    def make():
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        opt = optimizer(net.parameters(), lr=0.1, **options)
        first = net(jit.rand(4, 3)).sum()
        first.backward()

        def step(x):
            with jit.enable_grad():
                loss = net(x).pow(2).sum()
                loss.backward()
            opt.step()
            opt.param_groups[0]["lr"] *= 0.5
            return loss.detach()

        return step, (jit.rand(4, 3),), [net, opt]

    make.__name__ = f"training_by_{optimizer.__name__}"
    return make


CASES = [
    changing_an_argument, changing_a_view_that_is_an_argument, changing_a_list_of_arguments, writing_to_data, a_module,
    counting_in_a_global, counting_in_a_module, counting_in_a_cell, counting_in_objects, counting_in_containers,
    drawing, changing_the_environment, changing_the_grad_mode, attaching_to_tensors, training(jit.optim.SGD),
    training(jit.optim.Adam), training(jit.optim.SGD, momentum=0.9), resizing_an_argument,
    appending_in_a_hook_of_a_tensor, knowing_its_sizes_late,
]  # fmt: skip


def tracing_with_examples(f, args):
    jit.trace(f, example_inputs=args)


def tracing_without_a_check(f, args):
    jit.trace(f, example_inputs=args, check=False)


def exporting(f, args):
    jit.export_onnx(f, args)


def exporting_for_training(f, args):
    jit.export_onnx(f, args, training=True, verify=False)


def exporting_at_two_sizes(f, args):
    jit.export_onnx(f, args, dynamic_axes={"x": [0]})


def verifying(f, args):
    jit.verify(f, args, loss_fn=lambda r: r.sum())


ENTRIES = [
    tracing_with_examples, tracing_without_a_check, exporting, exporting_for_training, exporting_at_two_sizes,
    verifying,
]  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_nothing_is_changed(case, entry):
    f, args, watched = case()
    everything = (watched, args)
    before, dice = facts(everything), around_random()
    with contextlib.suppress(jit.Error):  # what cannot be recorded, or differs from call to call, is refused
        entry(f, args)
    assert facts(everything) == before
    assert around_random() == dice
    assert TOTAL == 0


@pytest.mark.parametrize("case", [a_module, changing_an_argument, counting_in_objects, training(jit.optim.Adam)])
def test_what_changes_things_can_be_exported_all_the_same(case):
    f, args, _ = case()
    assert jit.export_onnx(f, args).verified is not None


class Stop(BaseException):
    """As an interrupt."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, Stop, ValueError, MemoryError])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
def test_nothing_is_changed_by_a_call_that_ends_early(entry, error):
    module = Stateful()

    def f(x):
        module(x.add_(1))
        raise error("no more")

    args = (jit.rand(4, 3),)
    everything = (module, args)
    before, dice = facts(everything), around_random()
    with pytest.raises(BaseException, match="no more"):
        entry(f, args)
    assert facts(everything) == before and around_random() == dice


@pytest.mark.parametrize("failing", range(1, 6))
def test_nothing_is_changed_by_a_verification_that_is_interrupted(failing):
    """The interrupt comes in one of the later runs: in the verification itself."""
    module = Stateful()
    runs = itertools.count(1)
    args = (jit.rand(4, 3),)
    everything = (module, args)
    before = facts(everything)

    def hook(*_):
        if next(runs) == failing:
            raise KeyboardInterrupt

    ticking = nn.Sequential(nn.Identity())
    ticking.register_forward_pre_hook(hook)
    for entry in (exporting_at_two_sizes, tracing_with_examples, verifying):
        with contextlib.suppress(KeyboardInterrupt, jit.Error):
            entry(lambda x: module(ticking(x)), args)
        assert facts(everything) == before


# -- what follows from it ------------------------------------------------------------------------------------------


def test_a_backward_that_was_under_way_still_works():
    x = jit.ones(3, requires_grad=True)
    y = (x * 2).exp()
    jit.export_onnx(lambda t: t.add_(1), y.detach())
    jit.trace(lambda t: t.mul_(3), example_inputs=(y.detach(),))
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * np.exp(2))


def test_what_was_saved_meanwhile_does_not_pass_for_what_is_there_afterwards():
    kept = []
    w = jit.ones(3, requires_grad=True)
    buffer = jit.zeros(3)

    def f(x):
        buffer.add_(1)
        with jit.enable_grad():
            kept.append((w * buffer).sum())
        return x + buffer

    with pytest.raises(jit.Error):
        jit.trace(f, example_inputs=(jit.ones(3),), strict=True)
    f(jit.ones(3))
    loss = kept.pop()
    from jit.tracing.surroundings.snapshots import preserved

    with preserved(f, None, ()):
        f(jit.ones(3))
        inside = kept[-1]
    buffer.add_(1)
    with pytest.raises(jit.AutogradError, match="in-place"):
        inside.backward()
    with pytest.raises(jit.AutogradError, match="in-place"):
        loss.backward()


def test_an_export_starts_from_the_present_state(tmp_path):
    """Of a forward that counts in a buffer, the model gives what the next call gives."""
    import onnxruntime

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", jit.full((1,), 5.0))

        def forward(self, x):
            self.n += 1
            return x + self.n

    module = Counting()
    path = str(tmp_path / "counting.onnx")
    report = jit.export_onnx(module, jit.zeros(2), path)
    found = onnxruntime.InferenceSession(path).run(None, {"x": np.zeros(2, np.float32)})[0]
    assert found.tolist() == [6.0, 6.0] == module(jit.zeros(2)).tolist()
    assert any("writes to n" in warning for warning in report.warnings)


def test_an_export_says_what_the_model_does_not_do():
    counts = {"n": 1}

    def f(x):
        counts["n"] += 1
        return x * counts["n"]

    report = jit.export_onnx(f, jit.ones(2))
    assert any("counts" in warning for warning in report.warnings) and counts == {"n": 1}


def test_a_recording_from_examples_serves_the_next_call():
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    x = jit.rand(4, 3)
    f = jit.trace(module, example_inputs=(x,))
    misses = f.misses
    f(x)
    assert f.misses == misses and module[0].num_batches_tracked.item() == 1


def test_a_function_that_writes_to_its_argument_is_compared_in_what_it_writes():
    sizes = iter([1.0] * 2 + [2.0] * 4)

    def f(x):
        x.mul_(next(sizes))
        return x.sum() * 0

    with pytest.raises(jit.VerificationError, match="differ"):
        jit.trace(f, example_inputs=(jit.ones(2),))


def test_big_weights_are_not_copied():
    import tracemalloc

    weight = jit.zeros(8_000_000)
    f = jit.trace(lambda x: x + weight[:2])
    tracemalloc.start()
    try:
        from jit.tracing.surroundings.snapshots import preserved

        with preserved(f._function, None, (jit.ones(2),)):
            f(jit.ones(2))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


# -- functions that differentiate ----------------------------------------------------------------------------------


def squares_of_gradients():
    """A convolution before a normalisation, whose gradients are next to nothing but rounding."""
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
    return (lambda x: jit.grad(net(x).pow(2).sum(), [*net.parameters()])), (jit.rand(2, 2, 5, 5),)


def a_gradient_of_nothing():
    norm = nn.BatchNorm2d(3)
    return (lambda x: jit.grad(norm(x).sum(), x)[0]), (jit.rand(2, 3, 5, 5).requires_grad_(),)


@pytest.mark.parametrize("case", [squares_of_gradients, a_gradient_of_nothing])
def test_gradients_that_cancel_pass_for_equal(case):
    jit.manual_seed(0)
    f, args = case()
    jit.trace(f, example_inputs=args)


def test_a_function_that_differentiates_inside_is_exported(tmp_path):
    import onnxruntime

    jit.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = jit.optim.Adam(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss, net.weight.grad * 1

    x, path, everything = jit.rand(2, 3), str(tmp_path / "step.onnx"), [net, optimizer]
    before = facts(everything)
    report = jit.export_onnx(step, x, path)
    assert facts(everything) == before
    assert any("weight" in warning for warning in report.warnings)
    found = onnxruntime.InferenceSession(path).run(None, {"x": x.numpy()})
    for a, b in zip(found, step(x), strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5)


def test_a_verified_training_step_is_differentiated_by_itself_alone():
    net = nn.Linear(3, 1)
    optimizer = jit.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step(jit.rand(2, 3))
    jit.verify(step, (jit.rand(2, 3),))
