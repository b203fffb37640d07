"""Numbers that vary are inputs from their second value on, wherever they stand and whatever is done with them."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import struct
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit import nn

from ..tolerances import assert_close

FLOATS = [0.1 + 0.07 * number for number in range(8)]
WHOLE = [*range(2, 9)]


def leaf(rng: np.random.Generator, *sizes: int) -> jit.Tensor:
    return jit.tensor(rng.standard_normal(sizes).astype(np.float32), requires_grad=True)


def tensors_in(result: Any) -> list[Any]:
    """The tensors and numbers in a nest."""
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in tensors_in(item)]
    return [result]


def outcome(function: Callable[..., Any], x: jit.Tensor, *rest: Any, **named: Any) -> tuple[Any, Any]:
    """What a function gives, or the class of its error, and the gradient of what it is given."""
    x.grad = None
    jit.manual_seed(0)
    try:
        found = tensors_in(function(x, *rest, **named))
    except Exception as error:
        return type(error), None
    roots = [each for each in found if isinstance(each, jit.Tensor) and each.requires_grad]
    if roots:
        jit.stack([(root.double() ** 2).sum() for root in roots]).sum().backward()
    values = [each.detach().double().numpy() if isinstance(each, jit.Tensor) else each for each in found]
    return values, None if x.grad is None else x.grad.numpy().copy()


def assert_same(found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    if isinstance(expected[0], type):
        assert found[0] is expected[0]
        return
    for mine, theirs in zip(found[0], expected[0], strict=True):
        assert type(mine) is type(theirs)
        if isinstance(theirs, np.ndarray):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-5)
        else:
            assert mine == theirs
    if expected[1] is None:
        assert found[1] is None
    else:
        np.testing.assert_allclose(found[1], expected[1], rtol=2e-3, atol=1e-4)


def recordings(
    rng: np.random.Generator, function: Any, values: Sequence[Any], sizes: Sequence[Sequence[int]] = ((40, 6),)
) -> Any:
    """A traced function that has got these values in turn, each time with the result of the untraced one."""
    traced = jit.trace(function)
    for number, value in enumerate(values):
        given = value if isinstance(value, tuple) else (value,)
        x = leaf(rng, *sizes[number % len(sizes)])
        assert_same(outcome(traced, x, *given), outcome(function, x, *given))
    return traced


# -- where numbers stand -----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Options:
    rate: Any
    name: str = "a"


@pytest.mark.parametrize("values", [FLOATS, WHOLE], ids=["floats", "ints"])
@pytest.mark.parametrize(
    ("function", "wrap"),
    [
        (lambda x, s: x * s, lambda s: s),
        (lambda x, *s: x * s[0], lambda s: s),
        (lambda x, s: x * s[0] + s[1], lambda s: [s, 2.0]),
        (lambda x, s: x * s[1][0], lambda s: [1, (s, "a")]),
        (lambda x, s: x * s["a"][0]["b"], lambda s: {"a": ({"b": s}, None)}),
        (lambda x, s: x * s.rate, Options),
        (lambda x, s: x * s.rate, lambda s: types.SimpleNamespace(rate=s)),
    ],
    ids=["alone", "star", "list", "tuple", "dict", "dataclass", "namespace"],
)
def test_arguments(rng: np.random.Generator, function: Any, wrap: Any, values: Sequence[Any]) -> None:
    traced = jit.trace(function)
    for value in values:
        x = leaf(rng, 4, 3)
        assert_same(outcome(traced, x, wrap(value)), outcome(function, x, wrap(value)))
    assert (traced.misses, traced.hits) == (2, len(values) - 2)


def test_keywords_and_defaults(rng: np.random.Generator) -> None:
    def scaled(x: Any, *, s: float = 1.0, **more: float) -> Any:
        return x * s + more.get("t", 0.0)

    traced = jit.trace(scaled)
    for value in FLOATS:
        x = leaf(rng, 3)
        assert_same(outcome(traced, x, s=value, t=2 * value), outcome(scaled, x, s=value, t=2 * value))
    assert traced.misses == 2


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = 1.0


class Holder:
    shared: Any = 1.0

    def __init__(self) -> None:
        self.own: Any = 1.0
        self.slotted = Slotted()
        self.held = {"list": [1.0, 2.0], "tuple": (1.0, 2.0)}

    @property
    def doubled(self) -> Any:
        return self.own * 2


def _helper(x: Any, factor: Any = 1.0, *, more: Any = 0.0) -> Any:
    return x * factor + more


helper: Any = _helper  # whose defaults are set anew
GLOBAL: Any = 1.0


def set_global(held: Holder, value: Any) -> None:
    global GLOBAL
    GLOBAL = value


PLACES: dict[str, tuple[Any, Any]] = {
    "attribute": (lambda x, h: x * h.own, lambda h, v: setattr(h, "own", v)),
    "property": (lambda x, h: x * h.doubled, lambda h, v: setattr(h, "own", v)),
    "slot": (lambda x, h: x * h.slotted.value, lambda h, v: setattr(h.slotted, "value", v)),
    "class": (lambda x, h: x * h.shared, lambda h, v: setattr(Holder, "shared", v)),
    "list": (lambda x, h: x * h.held["list"][0], lambda h, v: h.held["list"].__setitem__(0, v)),
    "tuple": (lambda x, h: x * h.held["tuple"][0] + h.held["tuple"][1],
              lambda h, v: h.held.__setitem__("tuple", (v, v + 1))),
    "default": (lambda x, h: helper(x), lambda h, v: setattr(helper, "__defaults__", (v,))),
    "keyword default": (lambda x, h: helper(x), lambda h, v: helper.__kwdefaults__.__setitem__("more", v)),
    "global": (lambda x, h: x * GLOBAL, set_global),
}  # fmt: skip


@pytest.mark.parametrize("values", [FLOATS, WHOLE], ids=["floats", "ints"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_argument", [False, True])
def test_what_a_function_reads(rng: np.random.Generator, is_argument: bool, place: str, values: Sequence[Any]) -> None:
    function, put = PLACES[place]
    holder = Holder()
    traced: Any = jit.trace(function) if is_argument else jit.trace(lambda x: function(x, holder))
    given = (holder,) if is_argument else ()
    try:
        for value in values:
            put(holder, value)
            x = leaf(rng, 4, 3)
            assert_same(outcome(traced, x, *given), outcome(function, x, holder))
        assert (traced.misses, traced.hits) == (2, len(values) - 2)
    finally:
        Holder.shared, helper.__defaults__, helper.__kwdefaults__["more"] = 1.0, (1.0,), 0.0


def test_a_closure_cell(rng: np.random.Generator) -> None:
    factor: Any = 1.0
    traced = jit.trace(lambda x: x * factor)
    for factor in FLOATS:
        x = leaf(rng, 3)
        assert_same(outcome(traced, x), outcome(lambda x, factor: x * factor, x, factor))
    assert traced.misses == 2


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.factor = nn.Linear(3, 3), nn.LayerNorm(3), 1.0
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return self.drop(self.norm(self.inner(x))) * self.factor


@pytest.mark.parametrize(
    "put",
    [
        lambda net, v: setattr(net, "factor", v),
        lambda net, v: setattr(net.norm, "eps", v),
        lambda net, v: setattr(net.drop, "p", v / 2),
    ],
    ids=["own", "eps", "p"],
)
def test_attributes_of_modules(rng: np.random.Generator, put: Any) -> None:
    net = Scaled()
    traced = jit.trace(net)
    for value in FLOATS:
        put(net, value)
        x = leaf(rng, 4, 3)
        assert_same(outcome(traced, x), outcome(net, x))
    assert traced.misses == 2


SCHEDULES: dict[str, tuple[Any, Any]] = {
    "exponential": (lambda p: jit.optim.SGD(p, lr=0.01, momentum=0.9),
                    lambda o: jit.optim.lr_scheduler.ExponentialLR(o, 0.95)),
    "cosine": (lambda p: jit.optim.Adam(p, lr=0.01), lambda o: jit.optim.lr_scheduler.CosineAnnealingLR(o, 20)),
    "one cycle": (lambda p: jit.optim.AdamW(p, lr=0.01),
                  lambda o: jit.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=110)),
    "lambda": (lambda p: jit.optim.RMSprop(p, lr=0.01), lambda o: jit.optim.lr_scheduler.LambdaLR(o, lambda e: 0.9**e)),
    "warm-up": (lambda p: jit.optim.NAdam(p, lr=0.01),
                lambda o: jit.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=20)),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_hundred_steps_under_a_schedule(rng: np.random.Generator, name: str) -> None:
    make, schedule = SCHEDULES[name]
    nets = [nn.Linear(4, 3), nn.Linear(4, 3)]
    nets[1].load_state_dict(nets[0].state_dict())
    optimizers = [make(net.parameters()) for net in nets]
    schedules = [schedule(optimizer) for optimizer in optimizers]

    def step(x: Any, net: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    traced = jit.trace(lambda x: step(x, nets[0], optimizers[0]))
    for _ in range(100):
        x = jit.tensor(rng.standard_normal((5, 4)).astype(np.float32))
        assert_close(traced(x), step(x, nets[1], optimizers[1]))
        assert_close(nets[0].weight.detach(), nets[1].weight.detach())
        for each in schedules:
            each.step()
    assert traced.misses <= 3  # the first makes the optimizer's state, and is not kept


# -- what is done with them --------------------------------------------------------------------------------------

AS_SIZES: dict[str, Any] = {
    "until": lambda x, k: x[:k] * 2,
    "from": lambda x, k: x[k:] * 2,
    "window": lambda x, k: x[k : k + 3].exp(),
    "steps": lambda x, k: x[::k].exp(),
    "columns": lambda x, k: x.t()[:, :k].sum(1),
    "entry": lambda x, k: x[k].exp(),
    "entry from behind": lambda x, k: x[-k].exp(),
    "narrow": lambda x, k: x.narrow(0, k, 4).exp(),
    "narrow length": lambda x, k: x.narrow(0, 1, k).exp(),
    "roll": lambda x, k: x.roll(k, 0).exp(),
    "repeat": lambda x, k: x.repeat(k, 1).exp(),
    "expand": lambda x, k: x[0].expand(k, 6).exp(),
    "topk": lambda x, k: x.topk(k, 0)[0],
    "zeros": lambda x, k: jit.zeros(k, 6) + x.sum(),
    "full": lambda x, k: jit.full((k,), k) * x.sum(),
    "arange": lambda x, k: jit.arange(k) * x.sum(),
    "linspace": lambda x, k: jit.linspace(0, 1, k) * x.sum(),
    "randn": lambda x, k: jit.randn(k, 2) + x.sum(),
    "pad": lambda x, k: F.pad(x, (k, 1)).exp(),
    "one_hot": lambda x, k: F.one_hot(jit.tensor([0, 1, 1]), k) * x.sum(),
    "unfold": lambda x, k: x.unfold(0, k, 2).sum(-1),
    "tril": lambda x, k: x.tril(k).sum(0),
    "interpolate": lambda x, k: F.interpolate(x[None, None], size=(k, k)),
    "pool": lambda x, k: F.max_pool1d(x.t()[None], k),
    "parts": lambda x, k: x[: x.shape[0] // k].exp(),
    "computed": lambda x, k: x[: 2 * k][:k] * k / (k + 1) + x[k // 2 : k // 2 + 1].sum(),
    "joined": lambda x, k: jit.cat([x[:k], x[k:] * 0]),
    "attention": lambda x, k: (x[:k] @ x.t()).softmax(-1) @ x,
    "returned": lambda x, k: (x[:k] * 2, k, x[:k].shape[0], k // 2),
    "inner backward": lambda x, k: squared(x, k),
}


def squared(x: Any, k: Any) -> Any:
    y = x.detach().clone().requires_grad_()
    (y[:k] ** 2).sum().backward()
    return y.grad * x.sum()


@pytest.mark.parametrize("name", AS_SIZES)
def test_as_sizes_and_indices(rng: np.random.Generator, name: str) -> None:
    traced = recordings(rng, AS_SIZES[name], WHOLE)
    assert (traced.misses, traced.hits) == (2, len(WHOLE) - 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these go more ways than recordings are kept for
        again = recordings(rng, AS_SIZES[name], [5, 0, 1, 7, -3, 39, 40, 41, 2, -40, -41, 3, 0, 1, -3, 41])
    assert again.misses <= 12


def test_as_sizes_of_what_varies_too(rng: np.random.Generator) -> None:
    sizes = [(n, 6) for n in (20, 33, 41, 17, 50, 11, 29)]
    for name in ("until", "from", "attention", "joined", "roll", "computed"):
        traced = recordings(rng, AS_SIZES[name], [*WHOLE, *WHOLE, *WHOLE], sizes)
        assert traced.misses <= (4 if name == "computed" else 3), name
    rates = [(rate, k) for rate, k in zip(FLOATS * 3, [*range(3, 11)] * 3, strict=True)]
    assert recordings(rng, lambda x, rate, k: (x[:k] * rate).sum(0), rates, sizes).misses <= 3


IN_ARITHMETIC: dict[str, Any] = {
    "power": lambda x, s: x.abs() ** s,
    "alpha": lambda x, s: jit.add(x, x, alpha=s),
    "temperature": lambda x, s: F.softmax(x / s, -1),
    "dropout": lambda x, s: F.dropout(x, s / 2, True),
    "clamp": lambda x, s: x.clamp(-s, s),
    "slope": lambda x, s: F.leaky_relu(x, s),
    "eps": lambda x, s: F.layer_norm(x, (6,), eps=s),
    "beta": lambda x, s: F.smooth_l1_loss(x, x * 0, beta=s),
    "smoothing": lambda x, s: F.cross_entropy(x, jit.zeros(40, dtype=jit.int64), label_smoothing=s / 2),
    "where": lambda x, s: jit.where(x > s, x, s),
    "fill": lambda x, s: x.masked_fill(x > 0, s),
    "tensor": lambda x, s: x * jit.tensor(s),
    "norm": lambda x, s: x.norm(s + 1),
    "half": lambda x, s: x.half() * s,
    "whole numbers": lambda x, s: (x * 10).long() * s,
    "root": lambda x, s: x / s**0.5,
    "maximum": lambda x, s: x * max(s, 0.0),
    "unused": lambda x, s: x * 2,
    "returned": lambda x, s: (x * 2, s, [s + 1, -s]),
}


@pytest.mark.parametrize("name", IN_ARITHMETIC)
def test_in_arithmetic(rng: np.random.Generator, name: str) -> None:
    traced = recordings(rng, IN_ARITHMETIC[name], FLOATS)
    assert (traced.misses, traced.hits) == (2, len(FLOATS) - 2)


# -- decisions ---------------------------------------------------------------------------------------------------

DECIDING: dict[str, Any] = {
    "above": lambda x, k: x * k if k > 20 else x + k,
    "even": lambda x, k: x * k if k % 2 == 0 else x + k,
    "one": lambda x, k: x * 5 if k == 37 else x[:k] * 2,
    "size": lambda x, k: x * 2 if k == x.shape[0] else x[:k] * 3,
    "shape": lambda x, k: x[:k] * 2 if x[:k].shape[0] > 10 else x[:k] * 3,
    "least": lambda x, k: x * min(k, 10),
    "warm-up": lambda x, k: x * min(1.0, k / 10),
}


@pytest.mark.parametrize("name", DECIDING)
def test_decisions_are_guards_that_generalise(rng: np.random.Generator, name: str) -> None:
    values = [*range(2, 42), 37, 36, 40, 20, 21]
    assert recordings(rng, DECIDING[name], values).misses <= 5


NEEDING: dict[str, Any] = {
    "range": lambda x, k: sum((x * i for i in range(k)), x),
    "root": lambda x, k: x / math.sqrt(k),
    "float": lambda x, k: x / float(k),
    "text": lambda x, k: x * float(f"{k}"),
    "key": lambda x, k: x * {i: i * 2.0 for i in range(40)}[k],
    "list": lambda x, k: jit.stack([x] * k),
}


@pytest.mark.parametrize("name", NEEDING)
def test_what_python_needs_is_baked_in_for_good(rng: np.random.Generator, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = recordings(rng, NEEDING[name], [*range(2, 22)])
        assert traced.misses <= 21
        before = traced.misses
        for _ in range(2):
            for k in (20, 21, 20, 19):
                x = leaf(rng, 40, 6)
                assert_same(outcome(traced, x, k), outcome(NEEDING[name], x, k))
    assert traced.misses <= before + 1, "values that were seen are not recorded anew"
    assert "k" not in [value.name for value in traced.graph.inputs]


def test_one_number_is_needed_and_another_is_not(rng: np.random.Generator) -> None:
    values = [(n % 3 + 1, rate) for n, rate in enumerate(FLOATS * 4)]
    traced = recordings(rng, lambda x, n, rate: sum(x * rate for _ in range(n)), values)
    assert traced.misses <= 7


def test_truth_values_and_kinds_of_numbers_are_decisions(rng: np.random.Generator) -> None:
    assert recordings(rng, lambda x, flag: x * 2 if flag else x, [True, False] * 4).misses == 2
    traced = recordings(rng, lambda x, s: x * s, [2, 3, 0.5, 0.25, 4, 1.5, True, False, 7, 2.5])
    assert traced.misses <= 6


def test_identity_with_a_known_number_or_container_keeps_numbers_in_the_key(rng: np.random.Generator) -> None:
    defaults = [0.5]
    f = lambda x, options: x * (1.0 if options is defaults else 2.0) * options[0]  # noqa: E731
    holder = {"options": defaults}
    traced = jit.trace(lambda x: f(x, holder["options"]))
    for options in (defaults, [0.25], defaults, [0.75], defaults):
        holder["options"] = options
        x = leaf(rng, 3)
        assert_same(outcome(traced, x), outcome(f, x, options))


def test_special_numbers(rng: np.random.Generator) -> None:
    traced = jit.trace(lambda x, s: (x * s, s))
    for s in (1.0, math.nan, math.inf, -0.0, 0.0, -1.0):
        found, again = traced(jit.ones(1), s)
        np.testing.assert_array_equal(found.numpy(), np.array([s], np.float32))
        assert math.copysign(1, again) == math.copysign(1, s)
    assert traced.misses == 2
    whole = jit.trace(lambda x, k: (x[:k], k * 2))
    for k in (3, 2**40, 2**62, 2**63 - 1, 2):
        found, doubled = whole(jit.arange(5), k)
        assert found.shape == (min(k, 5),) and doubled == 2 * k


def test_fixed_numbers_are_constants(rng: np.random.Generator) -> None:
    traced = recordings(rng, lambda x, s, k: x[:k] * s, [(2.0, 3)] * 5)
    assert traced.misses == 1 and [value.name for value in traced.graph.inputs] == ["x"]


def test_values_that_come_often_have_recordings_of_their_own(rng: np.random.Generator) -> None:
    f = jit.trace(lambda x, s: x * s)
    for _ in range(50):
        for s in (0.5, 0.25, 2):
            assert_close(f(jit.ones(2), s), jit.ones(2) * s)
    assert f.misses <= 6 and f.hits == 150 - f.misses
    g = jit.trace(lambda x, s: x * s)
    for _ in range(40):
        for s in range(2, 32):
            g(jit.ones(2), s / 8)
    assert g.misses <= 2 + 4, "only a few values have"


def test_pinned_by_hand(rng: np.random.Generator) -> None:
    traced = jit.trace(lambda x, s: x * s, dynamic=False)
    for s in FLOATS[:5]:
        assert_close(traced(jit.ones(2), s), jit.ones(2) * s)
    assert traced.misses == 5


def test_numbers_that_other_code_reads_first(rng: np.random.Generator) -> None:
    """Further numbers are met when further code runs; those of earlier recordings stay what they were."""
    state = {"b": 2.0, "a": 3.0}

    def other(x: Any) -> Any:
        return x + GLOBAL * state["a"]

    def function(x: Any, more: str) -> Any:
        return (other(x) if more == "other" else x) * state["b"]

    traced = jit.trace(function)
    for number in range(30):
        state["b"], state["a"] = 1.0 + number, 0.5 * number
        set_global(Holder(), 0.25 * number)
        more = "other" if number % 3 == 2 else "none"
        x = leaf(rng, 3)
        assert_same(outcome(traced, x, more), outcome(function, x, more))
    assert traced.misses <= 8


# -- the message -------------------------------------------------------------------------------------------------


class Repeating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.times = 1

    def forward(self, x: Any) -> Any:
        for _ in range(self.times):
            x = x + 1
        return x


def messages_of(call: Callable[[int], Any], count: int) -> list[tuple[int, str]]:
    """What calls have warned of: pairs of the call's number and the text."""
    found = []
    for number in range(1, count + 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(number)
        found += [(number, str(each.message)) for each in caught]
    return found


def test_one_message_at_the_tenth_recording() -> None:
    net = Repeating()
    traced = jit.trace(net)

    def call(number: int) -> None:
        net.times = number
        traced(jit.ones(2))

    ((number, text),) = messages_of(call, 16)
    assert number == 10 and traced.misses == 16
    assert "times is 10, not 9" in text and "recorded 10 times" in text
    assert re.search(r"Python needs times itself at test_numbers_as_inputs\.py:\d+ in forward", text)
    assert "as a tensor" in text


def test_the_message_names_what_varies() -> None:
    f = jit.trace(lambda x, name: x * len(name))
    ((_, text),) = messages_of(lambda number: f(jit.ones(2), "a" * number), 12)
    assert "name is 'aaaaaaaaaa', not 'aaaaaaaaa'" in text
    g = jit.trace(lambda x, k: x * k)
    assert messages_of(lambda number: g(jit.ones(2), number), 40) == []


def test_explanations_name_both_values() -> None:
    f = jit.trace(lambda x, rate: x * rate)
    f(jit.ones(2), 0.5), f(jit.ones(2), 0.25)
    assert f.explain() == (
        "it was recorded anew because rate is 0.25, not 0.5; it takes numbers that vary as inputs from now on"
    )


# -- whole numbers in tensors ------------------------------------------------------------------------------------

READ: dict[str, Any] = {
    "entry": lambda x, p: x[p] * 2,
    "column": lambda x, p: x.t()[:, p].exp(),
    "until": lambda x, p: x[:p] * 2,
    "from": lambda x, p: x[p:].exp().sum(0),
    "item": lambda x, p: x[p] * p.item(),
    "next": lambda x, p: x[p + 1] * 2,
    "narrow": lambda x, p: x.narrow(0, p.item(), 2).exp(),
    "written": lambda x, p: moved(x, p),
}


def moved(x: Any, p: Any) -> Any:
    q = p.clone()
    q += 1
    return x[:p].sum(0) + x[q]


@pytest.mark.parametrize("name", READ)
def test_a_tensor_that_is_an_index(rng: np.random.Generator, name: str) -> None:
    def given(values: Sequence[int]) -> list[Any]:
        return [jit.tensor(value) for value in values]

    assert recordings(rng, READ[name], given(range(2, 20))).misses == 2
    mixed = [5, 0, 1, 7, -3, 39, 40, 41, 2, -40, -41, 3, 0, 1, -3, 41]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recordings(rng, READ[name], given(mixed))
    sizes = [(n, 6) for n in (40, 33, 41, 50, 37, 60)]
    assert recordings(rng, READ[name], given([*range(2, 20), *range(3, 15)]), sizes).misses <= 5


def test_a_tensor_that_stays_the_same_index_is_a_constant(rng: np.random.Generator) -> None:
    traced = recordings(rng, lambda x, p: x[:p] * 2, [jit.tensor(3)] * 4)
    assert traced.misses == 1 and not any("item" in value.name for value in traced.graph.inputs)


def of_exact_type(number: Any) -> bool:
    return type(number) is int


EXACT: dict[str, Callable[..., Any]] = {
    "type": lambda x, n: (x * 2, n + 1, type(n) is int),
    "quotient": lambda x, n: (x * n, divmod(7, n), type(n).__name__),
    "json": lambda x, n: (x + 1, json.dumps({"n": n})),
    "bytes": lambda x, n: (x * n, struct.pack("d", n), [n, -n]),
    "of something else": lambda x, n: (x / n, type(x) is jit.Tensor, max(n, 2)),
    "asked late": lambda x, n: (x * (n * 2), [of_exact_type(each) for each in (n, 1)], n - 1),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("numbers", [[3, 5, 4, 7, 3, 5], [2.0, 4.5, 3.0, 7.5, 2.0], [1, 2.0, 3, 4.0, 5, 2.0, 1, 3]])
@pytest.mark.parametrize("function", EXACT.values(), ids=EXACT)
def test_numbers_of_which_code_asks_the_exact_type(rng, function, numbers, strict):
    f = jit.trace(function, strict=strict)
    space = types.SimpleNamespace(n=0)
    g = jit.trace(lambda x: function(x, space.n), strict=strict)
    for n in numbers:
        space.n, x = n, leaf(rng, 3)
        assert_same(outcome(f, x, n), outcome(function, x, n))
        assert_same(outcome(g, x), outcome(function, x, n))
