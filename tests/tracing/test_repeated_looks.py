"""Surroundings that are looked at again and again: native code asks, and notices whatever the view would notice."""

import collections
import gc
import sys
import types
import weakref
from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.plans import entry
from jit.tracing.surroundings import repeated_looks
from jit.tracing.surroundings.observations import Observations
from tests.tolerances import assert_close

pytestmark = [pytest.mark.llvm, pytest.mark.skipif(not entry.available(), reason="native calls are not available")]


class Holder:
    """Something with attributes, whose class has one, too."""

    bias = 3.0

    def __init__(self) -> None:
        self.scale = 2.0

    def method(self, x: Any) -> Any:
        return x * self.scale + self.bias


class Slotted:
    """Something without a dict."""

    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 2.0


def net() -> Any:
    return jit.nn.Sequential(jit.nn.Linear(3, 4), jit.nn.ReLU(), jit.nn.Linear(4, 3))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What native looks have said; Python is not asked as long as they say that nothing has changed."""
    said: list[bool] = []
    make = repeated_looks.native_look

    def native_look(view: Observations) -> Any:
        asked = make(view)
        assert asked is not None

        def counted() -> Any:
            found = asked()
            said.append(found is not None)
            return found

        return counted

    monkeypatch.setattr(repeated_looks, "native_look", native_look)
    monkeypatch.setattr("jit.tracing.shortcuts.shortcut_list.shortcut", lambda *arguments: None)
    return said


def checked(function: Any, change: Any, looks: list[bool]) -> None:
    """Call a traced function until native code looks; what it gives after a change is what the function gives."""
    traced, x = jit.trace(function), jit.tensor([1.0, -2.0, 3.0])
    looks.clear()
    with jit.no_grad():
        for _ in range(repeated_looks.LOOKS + 4):
            traced(x)
        assert looks and all(looks), "native code has looked, and nothing had changed"
        before = function(x)
        change()
        looks.clear()
        after = function(x)
        assert not jit.equal(before, after)
        assert_close(traced(x), after)
        assert looks[0] is False


def test_a_global(looks: list[bool]) -> None:
    space: dict[str, Any] = {"factor": 2.0}
    exec("def f(x):\n    return x * factor", space)
    checked(space["f"], lambda: space.update(factor=5.0), looks)


def test_a_closure_cell(looks: list[bool]) -> None:
    factor = 2.0

    def change() -> None:
        nonlocal factor
        factor = 5.0

    checked(lambda x: x * factor, change, looks)


def test_a_default(looks: list[bool]) -> None:
    def inner(x: Any, factor: float = 2.0) -> Any:
        return x * factor

    def keyword(x: Any, *, factor: float = 2.0) -> Any:
        return x * factor

    checked(lambda x: inner(x), lambda: setattr(inner, "__defaults__", (5.0,)), looks)
    assert keyword.__kwdefaults__ is not None
    checked(lambda x: keyword(x), lambda: keyword.__kwdefaults__.update(factor=5.0), looks)


def test_an_attribute_of_an_object_of_its_class_and_of_a_slot(looks: list[bool]) -> None:
    holder, other, slotted = Holder(), type("Other", (Holder,), {})(), Slotted()
    checked(holder.method, lambda: setattr(holder, "scale", 5.0), looks)
    checked(other.method, lambda: setattr(type(other), "bias", 7.0), looks)
    checked(lambda x: x * slotted.scale, lambda: setattr(slotted, "scale", 5.0), looks)


def test_a_method_and_a_class(looks: list[bool]) -> None:
    holder = Holder()
    kind = type("Kind", (Holder,), {})
    checked(lambda x: holder.method(x), lambda: setattr(holder, "method", lambda x: x - 1), looks)
    changed = Holder()
    another = type("Another", (Holder,), {"bias": 9.0})
    changed.__class__ = kind
    checked(lambda x: changed.method(x), lambda: setattr(changed, "__class__", another), looks)


def test_containers(looks: list[bool]) -> None:
    numbers, table, chosen = [1.0, 2.0], {"a": 1.0}, {1.0}
    ordered = collections.OrderedDict(a=1.0, b=2.0)
    for function, change in (
        (lambda x: x * sum(numbers), lambda: numbers.append(4.0)),
        (lambda x: x * numbers[0], lambda: numbers.__setitem__(0, 7.0)),
        (lambda x: x * sum(table.values()), lambda: table.update(b=3.0)),
        (lambda x: x * sum(chosen), lambda: chosen.add(8.0)),
        (lambda x: x * next(iter(ordered.values())), lambda: ordered.move_to_end("a")),
    ):
        checked(function, change, looks)


def test_what_only_python_can_compare(looks: list[bool]) -> None:
    array = np.ones(3, np.float32)
    queue = collections.deque([2.0])
    checked(lambda x: x * jit.from_numpy(array.copy()), lambda: array.fill(6.0), looks)
    checked(lambda x: x * queue[0], lambda: queue.appendleft(5.0), looks)


def test_modules_of_python(looks: list[bool]) -> None:
    module = types.ModuleType("module_of_a_test")
    module.factor = 2.0  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        checked(lambda x: x * module.factor, lambda: setattr(module, "factor", 5.0), looks)
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.append(jit.nn.Tanh()),
        lambda m: setattr(m[0], "bias", None),
        lambda m: setattr(m[0], "weight", jit.nn.Parameter(jit.ones(4, 3))),
        lambda m: m[1].register_forward_hook(lambda module, given, result: result + 1),
        lambda m: m.__setitem__(1, jit.nn.Tanh()),
    ],
)
def test_networks(looks: list[bool], change: Any) -> None:
    jit.manual_seed(0)
    model = net()
    checked(lambda x: model(x), lambda: change(model), looks)


@pytest.mark.parametrize(
    ("change", "is_noticed"),
    [
        (lambda w: w.requires_grad_(True), True),
        (lambda w: setattr(w, "data", jit.ones(2, 3)), True),
        (lambda w: setattr(w, "data", jit.ones(3, 1).t()), True),
        (lambda w: w.t_(), True),
        (lambda w: w.mul_(2), False),
        (lambda w: setattr(w, "grad", jit.ones_like(w)), False),
    ],
)
def test_tensors(looks: list[bool], change: Any, is_noticed: bool) -> None:
    """A captured tensor of another look is noticed; other elements, and a gradient, are nothing to look at."""
    weight = jit.tensor([[1.0, 2.0, 3.0]]) if not is_noticed else jit.ones(3)[:, None].repeat(1, 3).contiguous()
    traced, x = jit.trace(lambda x: x @ weight.t() if weight.shape[0] == 1 else x + weight.sum()), jit.ones(1, 3)
    for _ in range(repeated_looks.LOOKS + 4):
        traced(x)
    assert looks and all(looks)
    looks.clear()
    change(weight)
    expected = x @ weight.t() if weight.shape[0] == 1 else x + weight.sum()
    found = traced(x)
    assert looks[0] is not is_noticed
    assert (found.tolist(), found.requires_grad) == (expected.tolist(), expected.requires_grad)


def test_strides_of_dims_of_size_1_are_noticed(looks: list[bool]) -> None:
    weight = jit.ones(1, 3)
    traced, x = jit.trace(lambda x: x + weight), jit.ones(1, 3)
    for _ in range(repeated_looks.LOOKS + 4):
        traced(x)
    look = traced._surroundings._looked
    assert looks and look is not None and look.holds()
    weight.data = jit.ones(3, 1).t()
    assert weight.stride() == (1, 1) and not look.holds()


def test_native_code_is_asked_no_more_where_it_is_stricter(looks: list[bool]) -> None:
    """The class of a tensor that could require gradients: native code takes it for a change, and the view does not."""
    weight = jit.ones(3, 3)
    traced, x = jit.trace(lambda x: x @ weight), jit.ones(1, 3)
    for _ in range(repeated_looks.LOOKS + 4):
        traced(x)
    assert looks and all(looks)
    weight.requires_grad_(True).requires_grad_(False)
    looks.clear()
    for _ in range(3):
        assert traced(x).tolist() == [[3.0, 3.0, 3.0]]
    assert looks == [False]
    assert traced.misses == 1


def test_views_that_change_in_every_call_are_not_made_native(looks: list[bool]) -> None:
    space: dict[str, Any] = {"count": 0.0}
    exec("def f(x):\n    return x * count", space)
    traced = jit.trace(space["f"], dynamic=False)
    for number in range(3 * repeated_looks.LOOKS):
        space["count"] = float(number % 2)
        assert traced(jit.ones(2)).tolist() == [number % 2] * 2
    assert not looks


def test_a_captured_leaf_that_has_got_a_history() -> None:
    """It looks as before, but gradients go on to what it was made of."""
    weight, factor = jit.ones(3).requires_grad_(), jit.tensor([1.0, 2.0, 3.0]).requires_grad_()
    traced, x = jit.trace(lambda x: x * weight), jit.tensor([2.0, 3.0, 4.0])
    for _ in range(repeated_looks.LOOKS + 4):
        traced(x).sum().backward()
    weight.requires_grad_(False)
    weight.mul_(factor)
    assert weight.requires_grad and weight.grad_fn is not None
    traced(x).sum().backward()
    assert factor.grad.tolist() == [2.0, 3.0, 4.0]


def test_captures_of_another_kind_are_found_after_others_were_as_they_were() -> None:
    """Comparing them again is left out only for tensors that stand in a view which holds, and last."""
    weights = [jit.ones(3), jit.ones(3).requires_grad_()]
    traced, x = jit.trace(lambda x: x * weights[0] + weights[1]), jit.ones(3)
    for _ in range(3):
        traced(x)
    call = traced._taken_apart((x,), {})
    recording, view = traced._last, call.world.surroundings
    owners, captures = recording.inputs(call.leaves, call.world.tensors)[1:], recording.trace.captures.found
    assert recording.captured_kinds.other(captures, owners, view) is None
    lasting = recording.captured_kinds._last.lasting
    assert [tensor for _, tensor in lasting] == owners
    with jit.inference_mode():
        other = jit.ones(3)
    for changed in ([other, owners[1]], [owners[0], jit.ones(4)], [owners[0].double(), owners[1]]):
        assert "is of another kind" in str(recording.captured_kinds.other(captures, changed, view))
        assert recording.captured_kinds.other(captures, owners, view) is None
    storage, owners[0]._storage = owners[0]._storage, other._storage
    assert "is of another kind" in str(recording.captured_kinds.other(captures, owners, view))
    owners[0]._storage = storage
    assert recording.captured_kinds.other(captures, owners, None) is None


class Counter:
    """Something with a traced method."""

    def __init__(self) -> None:
        self.weight = jit.ones(3)
        self.scale = 2.0

    @jit.trace
    def forward(self, x: Any) -> Any:
        return x * self.weight * self.scale


def test_native_looks_keep_no_instance_alive(looks: list[bool]) -> None:
    counter = Counter()
    for _ in range(repeated_looks.LOOKS + 4):
        assert counter.forward(jit.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert looks and all(looks)
    counter.scale = 3.0
    assert counter.forward(jit.ones(3)).tolist() == [3.0, 3.0, 3.0] and not looks[-1]
    for _ in range(repeated_looks.LOOKS + 4):
        counter.forward(jit.ones(3))
    reference = weakref.ref(counter)
    del counter
    gc.collect()
    assert looks[-1] and reference() is None
