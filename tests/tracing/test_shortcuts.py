"""Calls that go the short way give what eager mode gives, and nothing that changes goes unnoticed."""

import gc
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import jit
from jit.nn import everywhere
from jit.runtime.plans import entry

pytestmark = [pytest.mark.llvm, pytest.mark.skipif(not entry.available(), reason="native calls are not available")]

SCALE = 2.0
OPTIONS: dict[str, Any] = {"shift": 1.0, "other": jit.ones(3)}


def warmed(function, *args):
    """The function, traced, with a shortcut for these arguments."""
    traced = function if hasattr(function, "_shortcuts") else jit.trace(function)
    for _ in range(3):
        traced(*args)
    assert len(traced._shortcuts.kept) > 0
    hits = traced.hits
    traced(*args)
    assert traced.hits == hits + 1
    return traced


def equal(found, expected):
    assert type(found) is type(expected) and found.dtype is expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    assert found.requires_grad == expected.requires_grad


# -- what comes out ----------------------------------------------------------------------------------------------


def test_results_are_tensors_like_others():
    f = warmed(lambda x, y: x + y, jit.ones(3), jit.ones(3))
    first, second = f(jit.ones(3), jit.ones(3)), f(jit.ones(3), jit.ones(3))
    usual = jit.ones(3) + jit.ones(3)
    for name in jit.Tensor.__slots__:
        if name not in ("__dict__", "__weakref__", "_array", "_storage"):
            assert getattr(first, name) is getattr(usual, name), name
    assert first._storage is not second._storage and first._storage.version == 0 and first._storage.writer is None
    first.note = "mine"
    assert vars(first) == {"note": "mine"} and not vars(second)
    first.add_(1)
    assert first.tolist() == [3, 3, 3] and second.tolist() == [2, 2, 2] and first._version == 1 and second._version == 0
    second.requires_grad_()
    (second * 2).sum().backward()
    assert second.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x + y, x - y),
        lambda x, y: [x * y, (y - x, x + 1)],
        lambda x, y: {"b": x + 1, "a": x * 2 + y},
        lambda x, y: (x + y,),
    ],
)
def test_structures(function):
    x, y = jit.randn(3), jit.randn(3)
    found, expected = warmed(function, x, y)(x, y), function(x, y)
    flat, structure = jit.eager.pytree.flatten(found)
    wanted, same = jit.eager.pytree.flatten(expected)
    assert structure == same
    for a, b in zip(flat, wanted, strict=True):
        equal(a, b)


def test_calls_are_counted_and_leave_a_graph():
    f = jit.trace(lambda x: x * 2)
    for calls in range(1, 10):
        assert f(jit.ones(3)).tolist() == [2, 2, 2]
        assert (f.hits, f.misses) == (calls - 1, 1)
        assert "aten::mul" in str(f.graph)
    f.clear_cache()
    assert (f.hits, f.misses) == (0, 0)
    assert f(jit.ones(3)).tolist() == [2, 2, 2] and f.misses == 1


def test_the_latest_shortcuts_are_kept():
    f = jit.trace(lambda x, n: x * n, dynamic=False)
    for n in (*range(1, 12), *range(1, 12), *range(1, 12)):
        assert f(jit.ones(3), n).tolist() == [n] * 3
    assert (f.hits, f.misses) == (22, 11) and len(f._shortcuts.kept) == 8


def test_references_are_neither_lost_nor_kept():
    f = warmed(lambda x, y: (x + y, x * y), jit.ones(3), jit.ones(3))
    x, y = jit.ones(3), jit.ones(3)
    watched = [x, y, x._array, y._array, jit.Tensor, np.dtype(np.float32), x._storage, np.empty]
    gc.collect()
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(500):
        f(x, y)
    gc.collect()
    assert all(abs(sys.getrefcount(t) - b) < 5 for t, b in zip(watched, before, strict=True))
    result = f(x, y)
    usual = (jit.ones(3), jit.ones(3))
    assert sys.getrefcount(result[0]) == sys.getrefcount(usual[0])
    assert sys.getrefcount(result[0]._array) == sys.getrefcount(usual[0]._array)


def test_shortcuts_die_with_their_function():
    f = warmed(lambda x: x + 1, jit.ones(3))
    before = len(gc.get_objects())
    for _ in range(20):
        warmed(lambda x: x + 1, jit.ones(3))
    gc.collect()
    assert len(gc.get_objects()) - before < 4000
    assert f(jit.ones(3)).tolist() == [2, 2, 2]


# -- what goes in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        lambda: jit.ones(4),
        lambda: jit.ones(1),
        lambda: jit.ones(3, dtype=jit.float64),
        lambda: jit.ones(3, dtype=jit.int64),
        lambda: jit.ones(6)[::2],
        lambda: jit.ones(3, 3)[0],
        lambda: jit.ones(3, 3)[:, 1],
        lambda: jit.ones(2, 3),
        lambda: jit.tensor(1.0),
        lambda: jit.ones(0),
        lambda: jit.ones(3).requires_grad_(),
        lambda: jit.ones(3).requires_grad_() * 2,
        lambda: jit.nn.Parameter(jit.ones(3)),
    ],
)
def test_other_tensors(other):
    def function(x, y):
        return x * 2 + y

    x = jit.ones(1) * 3
    f = warmed(function, jit.ones(3), x)
    for _ in range(3):
        made = other()
        equal(f(made, x), function(made, x))
    equal(f(jit.ones(3), x), function(jit.ones(3), x))


@pytest.mark.parametrize("other", [2.0, True, 3, np.float64(2.0), np.int64(2), 2 + 0j, -2])
def test_other_numbers(other):
    def function(x, n):
        return x * n

    f = warmed(function, jit.ones(3), 2)
    for _ in range(3):
        equal(f(jit.ones(3), other), function(jit.ones(3), other))
    equal(f(jit.ones(3), 2), function(jit.ones(3), 2))


def test_zero_and_minus_zero():
    f = warmed(lambda x, n: x * n, jit.ones(1), 0.0)
    assert str(f(jit.ones(1), -0.0).item()) == "-0.0" and str(f(jit.ones(1), 0.0).item()) == "0.0"


def test_other_ways_to_pass():
    def function(x, y=3, *rest, z=1):
        return x * y + z + sum(rest)

    x = jit.ones(3)
    f = warmed(function, x)
    equal(f(x, 4), function(x, 4))
    equal(f(x=x), function(x=x))
    equal(f(x, z=5), function(x, z=5))
    equal(f(x, 3, x, x), function(x, 3, x, x))
    equal(f(x, 3, x), function(x, 3, x))
    with pytest.raises(TypeError):
        f()
    with pytest.raises(TypeError):
        f(x, 1, x, w=1)


def test_lists_tuples_and_dicts():
    def function(x, ps, options):
        return x * ps[0] + ps[1][0] * options["a"] - options["b"] * len(ps)

    x, y, z = jit.randn(3), jit.randn(3), jit.randn(3)
    f = warmed(function, x, [y, (z, 1)], {"a": x * 2, "b": 3})
    for args in (
        (x, [y, (z, 1)], {"a": z, "b": 3}),
        (x, [y, (z, 2)], {"a": z, "b": 3}),
        (x, [y, [z, 1]], {"a": z, "b": 3}),
        (x, (y, (z, 1)), {"a": z, "b": 3}),
        (x, [y, (z, 1), z], {"a": z, "b": 3}),
        (x, [y, (z, 1)], {"b": 3, "a": z}),
        (x, [y, (z, 1)], {"a": z, "b": 3.0}),
        (x, [y, (z, 1)], {"a": z, "b": y, "c": 1}),
        (x, [y, (z,)], {"a": y, "b": 3}),
    ):
        equal(f(*args), function(*args))
        equal(f(*args), function(*args))


def test_memory_that_is_shared():
    def function(x, y):
        return x * 2 - y

    f = warmed(function, jit.ones(4), jit.ones(4))
    x = jit.ones(8)
    equal(f(x[:4], x[:4]), function(x[:4], x[:4]))
    equal(f(x[:4], x[2:6]), function(x[:4], x[2:6]))
    same = x[:4]
    equal(f(same, same), function(same, same))
    equal(f(x[:4], x[4:]), function(x[:4], x[4:]))


def test_attributes_on_an_argument():
    def function(x):
        return x * getattr(x, "scale", 1)

    f, x = warmed(function, jit.ones(3)), jit.ones(3)
    equal(f(x), function(x))
    vars(x)["scale"] = 5
    equal(f(x), function(x))
    vars(x)["scale"] = 6
    equal(f(x), function(x))
    del vars(x)["scale"]
    equal(f(x), function(x))


def test_read_only_memory():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    f = warmed(lambda x: x + 1, jit.ones(3))
    assert f(jit.from_numpy(array)).tolist() == [2, 2, 2]


# -- what is around ----------------------------------------------------------------------------------------------


def test_globals(monkeypatch):
    def function(x):
        return x * SCALE + OPTIONS["shift"] + OPTIONS["other"]

    f, x = warmed(function, jit.ones(3)), jit.ones(3)
    for change in (
        lambda: monkeypatch.setitem(globals(), "SCALE", 3.0),
        lambda: monkeypatch.setitem(OPTIONS, "shift", 7.0),
        lambda: monkeypatch.setitem(OPTIONS, "other", jit.ones(3) * 2),
        lambda: OPTIONS["other"].add_(1),
        lambda: monkeypatch.setitem(globals(), "OPTIONS", {"shift": 0.0, "other": jit.zeros(1)}),
        lambda: monkeypatch.undo(),
    ):
        change()
        equal(f(x), function(x))
        equal(f(x), function(x))


class Scaled:
    """Reads its class."""

    factor = 2.0

    def __init__(self, shift=1.0):
        self.shift = shift

    @property
    def doubled(self):
        return 2 * self.factor


def test_what_classes_functions_and_lists_hold(monkeypatch):
    thing, steps = Scaled(), [1.0, 2.0]

    def inner(x, offset=3.0):
        return x + offset

    def function(x):
        return inner(x * thing.factor + thing.shift) * steps[1] + thing.doubled

    f = warmed(function, jit.ones(3))
    assert f._shortcuts.kept[0][0].__self__[2].kept[0].residue is None  # nothing of this takes Python

    def changes():
        monkeypatch.setattr(Scaled, "factor", 5.0)
        yield
        monkeypatch.setattr(Scaled, "doubled", property(lambda self: 7 * self.factor))
        yield
        inner.__defaults__ = (4.0,)
        yield
        steps[1] = 6.0
        yield
        del steps[0]
        steps.insert(0, 0.0)
        yield

    for _ in changes():
        equal(f(jit.ones(3)), function(jit.ones(3)))
    del steps[1]
    with pytest.raises(IndexError):
        f(jit.ones(3))


def test_closures():
    factor, parts = 2.0, [1.0, 2.0]

    def function(x):
        return x * factor + parts[0] * len(parts)

    f, x = warmed(function, jit.ones(3)), jit.ones(3)
    factor = 3.0
    equal(f(x), function(x))
    parts[0] = 9.0
    equal(f(x), function(x))
    parts.append(1.0)
    equal(f(x), function(x))


class Net(jit.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = jit.nn.Linear(3, 3)
        self.drop = jit.nn.Dropout(0.5)
        self.register_buffer("bias", jit.ones(3))
        self.scale, self.table = 2.0, {"a": 1.0, "b": 2.0}

    def forward(self, x):
        order = next(iter(self.table.values()))
        return self.drop(self.linear(x)) * self.scale + self.bias + order


class Other(Net):
    def forward(self, x):
        return x * 7


CHANGES = {
    "attribute": lambda n: setattr(n, "scale", 3.0),
    "new attribute of another type": lambda n: setattr(n, "scale", 2),
    "entry of a dict": lambda n: n.table.update(a=5.0),
    "order of a dict": lambda n: n.table.update(a=n.table.pop("a")),
    "weight in place": lambda n: n.linear.weight.add_(1),
    "memory of a weight": lambda n: setattr(n.linear.weight, "data", jit.ones(3, 3)),
    "weight": lambda n: setattr(n.linear, "weight", jit.nn.Parameter(jit.ones(3, 3))),
    "no bias": lambda n: setattr(n.linear, "bias", None),
    "buffer": lambda n: setattr(n, "bias", jit.zeros(3)),
    "layout of a buffer": lambda n: setattr(n, "bias", jit.ones(6)[::2]),
    "other module": lambda n: setattr(n, "linear", jit.nn.Linear(3, 3)),
    "class": lambda n: setattr(n, "__class__", Other),
    "requires_grad": lambda n: n.linear.weight.requires_grad_(False),
    "method of the instance": lambda n: setattr(n, "forward", lambda x: x * 3),
    "hook": lambda n: n.linear.register_forward_hook(lambda m, a, out: out * 2),
    "attribute of a weight": lambda n: setattr(n.linear.weight, "note", 1),
    "removed": lambda n: n.table.pop("a"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_modules(name):
    net, x = Net().eval(), jit.randn(4, 3)  # of so many rows, eager mode and kernels ask BLAS for the same
    with jit.no_grad():
        f = warmed(jit.trace(net), x)
        CHANGES[name](net)
        for _ in range(3):
            equal(f(x), net(x))


def test_modes():
    net, x = Net().eval(), jit.randn(2, 3)
    with jit.no_grad():
        f = warmed(jit.trace(net), x)
    equal(f(x), net(x))
    assert f(x).requires_grad
    with jit.no_grad():
        assert not f(x).requires_grad
        net.train()
        assert len({tuple(f(x).reshape(-1).tolist()) for _ in range(8)}) > 1


def test_inference_tensors_are_made_where_eager_mode_makes_them():
    f, x = jit.trace(lambda x: x * 2 + 1), jit.ones(3)

    def made(mode):
        with mode():
            return [f(x).is_inference() for _ in range(4)]

    modes = (jit.no_grad, jit.inference_mode, jit.no_grad, jit.inference_mode)
    assert [made(mode) for mode in modes] == [[False] * 4, [True] * 4] * 2
    assert f.misses == 1 and len(f._shortcuts.kept) == 2
    g = jit.trace(lambda x: x - 1)
    with jit.inference_mode():
        warmed(g, x)
    with jit.no_grad():
        assert not g(x).is_inference()
        g(x).add_(1)


def test_a_question_that_many_modules_ask_is_asked_once(monkeypatch):
    made: list[Any] = []
    make = entry.make_entry

    def note(tables):
        made.append(tables)
        return make(tables)

    monkeypatch.setattr(entry, "make_entry", note)
    net = jit.nn.Sequential(*[jit.nn.Linear(2, 2) for _ in range(5)])
    with jit.no_grad():
        f = warmed(jit.trace(net), jit.ones(1, 2))
        rest = made[-1].residue.args
        assert len(rest[0]) == 1 and len(made[-1].sizes) == len({id(place) for place, _ in made[-1].sizes})
        handle = net[3].register_forward_hook(lambda module, args, result: result + 1)
        assert f._shortcuts.kept[0][0](jit.ones(1, 2)) is None
        equal(f(jit.ones(1, 2)), net(jit.ones(1, 2)))
        handle.remove()
        handle = everywhere.register_module_forward_hook(lambda module, args, result: result * 2)
        try:
            equal(f(jit.ones(1, 2)), net(jit.ones(1, 2)))
        finally:
            handle.remove()
        equal(f(jit.ones(1, 2)), net(jit.ones(1, 2)))


def test_inside_another_trace():
    f = warmed(lambda x: x * 3, jit.ones(3))
    g = jit.trace(lambda x: f(x) + 1)
    for value in (1.0, 2.0, 3.0, 4.0):
        assert g(jit.ones(3) * value).tolist() == [3 * value + 1] * 3
    assert "aten::mul" in str(g.graph)


def test_switched_off():
    f = warmed(lambda x: x + 1, jit.ones(3))
    f.enabled = False
    assert f(jit.ones(3)).tolist() == [2, 2, 2]
    hits = f.hits
    f.enabled = True
    f(jit.ones(3))
    assert f.hits == hits + 1


def test_unoptimised_functions_have_none():
    f = jit.trace(lambda x: x + 1, optimize=False)
    for _ in range(4):
        f(jit.ones(3))
    assert f._shortcuts.kept == () and f.hits == 3


def test_not_for_what_needs_python():
    for function in (lambda x: jit.dropout(x, 0.5, True), lambda x: x[:1], lambda x: (x + 1).tolist()):
        f = jit.trace(function)
        for _ in range(4):
            f(jit.ones(3))
        assert f._shortcuts.kept == ()


OF_COPIES = {
    "pickled": lambda array: pickle.loads(pickle.dumps(jit.tensor(array))),
    "a pickled array, shared": lambda array: jit.from_numpy(pickle.loads(pickle.dumps(array))),
    "a pickled array, copied": lambda array: jit.tensor(pickle.loads(pickle.dumps(array))),
    "a pickled array, as an array": lambda array: jit.asarray(pickle.loads(pickle.dumps(array))),
    "another name of the dtype": lambda array: jit.from_numpy(array.astype(np.longlong)).float(),
}


@pytest.mark.parametrize("name", OF_COPIES)
def test_arrays_with_a_dtype_object_of_their_own_take_the_shortcut(name):
    """Pickle gives arrays a copy of their dtype, which is equal to it but another object."""
    f = jit.trace(lambda x: x * 2 + 1)
    for _ in range(4):
        f(jit.ones(3))
    before = f._shortcuts.hits
    assert jit.equal(f(OF_COPIES[name](np.ones(3, np.float32))), jit.full((3,), 3.0))
    assert f._shortcuts.hits == before + 1
