"""Attributes that traced networks set: what every call leaves there is what eager mode leaves."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import jit
from jit import nn
from tests.tolerances import assert_close

Inputs = list[Any]


class Base(nn.Module):
    mean: Any

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("mean", jit.zeros(3))
        self.kept: Any = None
        self.calls = 0
        self.state = jit.zeros(3)
        self.inner: Any = nn.Module()
        self.inner.seen = None


class Kept(Base):
    def forward(self, x: Any) -> Any:
        self.kept = self.fc(x).softmax(-1)
        return x * 2


class KeptAndRead(Base):
    def forward(self, x: Any) -> Any:
        self.kept = self.fc(x).softmax(-1)
        return x * self.kept


class KeptAndReturned(Base):
    def forward(self, x: Any) -> Any:
        self.kept = loss = self.fc(x).sum()
        return loss


class KeptInput(Base):
    def forward(self, x: Any) -> Any:
        self.kept = x
        return x + 1


class KeptView(Base):
    def forward(self, x: Any) -> Any:
        self.kept = x[0]
        return x + 1


class KeptTogether(Base):
    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        self.kept = {"out": y, "sizes": x.shape, "pair": (y.sum(), 3), "word": "done", "none": None}
        return y


class KeptConstant(Base):
    def forward(self, x: Any) -> Any:
        self.kept = x.shape[0] > 2
        return x + 1


class KeptSometimes(Base):
    def forward(self, x: Any) -> Any:
        if x.shape[0] > 2:
            self.kept = x.sum()
        return x + 1


class KeptTwice(Base):
    def forward(self, x: Any) -> Any:
        self.kept = x + 1
        y = self.fc(x)
        self.kept = y
        return y


class KeptInside(Base):
    def forward(self, x: Any) -> Any:
        self.inner.seen = x.mean()
        return self.fc(x)


class KeptDeeper(Base):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = KeptAndRead(), Counting()

    def forward(self, x: Any) -> Any:
        return self.second(self.first(self.second(x)))


class Counting(Base):
    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.fc(x)


class CountingByUse(Base):
    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1
        return self.fc(x) * (1.0 / self.calls)


class CountingInTurns(Base):
    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.fc(x) if self.calls % 2 == 0 else x


class Averaging(Base):
    def forward(self, x: Any) -> Any:
        self.state = 0.9 * self.state + 0.1 * x.detach().mean(0)
        return self.fc(x) - self.state


class AveragingBuffer(Base):
    def forward(self, x: Any) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.fc(x) - self.mean


class Remembering(Base):
    def forward(self, x: Any) -> Any:
        if self.kept is None:
            self.kept = jit.zeros(3)
        self.kept = (self.fc(x).mean(0) + self.kept).tanh().detach()
        return self.kept + x


class Described(Base):
    @property
    def last(self) -> Any:
        return self.kept

    @last.setter
    def last(self, value: Any) -> None:
        self.kept = value

    def forward(self, x: Any) -> Any:
        self.last = self.fc(x)
        return x + 1


class ByName(Base):
    def forward(self, x: Any) -> Any:
        setattr(self, "ke" + "pt", x.sum())
        return self.fc(x)


class New(Base):
    def forward(self, x: Any) -> Any:
        self.fresh = self.fc(x)
        return x + 1


class InTry(Base):
    def forward(self, x: Any) -> Any:
        try:
            self.kept = x.sum() / len(x[0].shape)
        finally:
            self.seen = x.sum()
        return self.fc(x)


class Own(Base):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)

    def forward(self, x: Any) -> Any:
        self.kept = self.fc(x)
        return x + 1


class Making(Base):
    def forward(self, x: Any) -> Any:
        made = Kept()
        made.load_state_dict(self.fc.state_dict(), strict=False)
        made.note = x
        return self.fc(x)


KINDS: dict[type[Base], int] = {
    Kept: 3, KeptAndRead: 3, KeptAndReturned: 3, KeptInput: 3, KeptView: 3, KeptTogether: 3, KeptConstant: 3,
    KeptSometimes: 3, KeptTwice: 3, KeptInside: 3, KeptDeeper: 1, Counting: 2, CountingByUse: 2, CountingInTurns: 0,
    Averaging: 3, AveragingBuffer: 3, Remembering: 2, Described: 3, ByName: 0, New: 2, InTry: 3, Own: 0, Making: 0,
}  # fmt: skip
"""Networks, and the least number of hits among five calls alike."""


def state_of(network: nn.Module) -> list[Any]:
    """All that may have been set anywhere in a network, in an order."""
    names = ("kept", "calls", "state", "mean", "seen", "fresh")
    return [(name, getattr(m, name, None)) for m in network.modules() for name in names if hasattr(m, name)]


def compare(one: Any, other: Any) -> None:
    if isinstance(one, jit.Tensor):
        assert one.requires_grad == other.requires_grad and one.dtype == other.dtype
        assert_close(one.detach().numpy(), other.detach().numpy())
    elif isinstance(one, dict):
        assert list(one) == list(other)
        compare(list(one.values()), list(other.values()))
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            compare(a, b)
    else:
        assert type(one) is type(other) and one == other


def both(kind: type[Base]) -> tuple[Base, Base]:
    jit.manual_seed(0)
    first = kind()
    return first, copy.deepcopy(first)


def inputs(*sizes: int) -> Inputs:
    rng = np.random.default_rng(0)
    return [jit.from_numpy(rng.standard_normal((size, 3)).astype(np.float32)) for size in sizes]


@pytest.mark.filterwarnings("ignore:.*runs untraced")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_calls_alike(kind: type[Base]) -> None:
    eager, network = both(kind)
    traced = jit.trace(network)
    for x in inputs(4, 4, 4, 4, 4):
        compare(traced(x), eager(x))
        compare(state_of(network), state_of(eager))
    assert traced.hits >= KINDS[kind]


@pytest.mark.filterwarnings("ignore:.*runs untraced")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_calls_of_many_kinds(kind: type[Base]) -> None:
    """Other sizes, other modes, and values that the user puts there in between."""
    eager, network = both(kind)
    traced = jit.trace(network)
    reset: list[Callable[[Base], Any]] = [
        lambda m: None, lambda m: setattr(m, "kept", None), lambda m: setattr(m, "calls", 7),
        lambda m: setattr(m, "state", jit.ones(3)), lambda m: m.mean.fill_(2.0), lambda m: m.train(not m.training),
    ]  # fmt: skip
    for number, x in enumerate(inputs(4, 2, 4, 2, 3, 4, 4, 2, 4, 3, 2, 4, 4, 2)):
        for model in (eager, network):
            reset[number % len(reset)](model)
        with jit.set_grad_enabled(number % 5 != 3):
            compare(traced(x), eager(x))
        compare(state_of(network), state_of(eager))


@pytest.mark.parametrize("kind", [Kept, KeptAndRead, KeptAndReturned, KeptTwice, KeptDeeper])
def test_gradients_of_what_was_kept(kind: type[Base]) -> None:
    eager, network = both(kind)
    traced = jit.trace(network)
    for x in inputs(4, 4, 4, 4):
        for model, call in ((eager, eager), (network, traced)):
            model.zero_grad()
            y = call(x)
            tensors = [value for _, value in state_of(model) if isinstance(value, jit.Tensor) and value.requires_grad]
            assert tensors
            (sum((t * t).sum() for t in tensors) + y.sum()).backward()
        for a, b in zip(network.parameters(), eager.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                assert_close(a.grad.numpy(), b.grad.numpy())
    assert traced.hits >= 1


def test_identities() -> None:
    network, again = KeptInput(), KeptAndReturned()
    traced, other = jit.trace(network), jit.trace(again)
    for x in inputs(4, 4, 4):
        traced(x)
        assert network.kept is x
        assert other(x) is again.kept
    assert traced.hits == other.hits == 2


def test_another_network_of_the_same_kind_takes_its_place() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = KeptAndRead()

        def forward(self, x: Any) -> Any:
            return self.part(x)

    outer, (x,) = Outer(), inputs(4)
    traced, first = jit.trace(outer), outer.part
    for _ in range(3):
        traced(x)
    outer.part = second = KeptAndRead()
    before = first.kept
    for _ in range(3):
        traced(x)
        assert first.kept is before
        assert_close(second.kept.detach().numpy(), second.fc(x).softmax(-1).detach().numpy())


def test_a_network_that_is_an_argument() -> None:
    traced = jit.trace(lambda model, x: model(x))
    one, other = KeptAndRead(), KeptAndRead()
    for x in inputs(4, 4, 4, 4):
        for model in (one, other):
            traced(model, x)
            assert_close(model.kept.detach().numpy(), model.fc(x).softmax(-1).detach().numpy())


def test_a_function_that_later_reads_it() -> None:
    network = Kept()
    network.reads = False

    def run(x: Any, reads: bool) -> Any:
        y = network(x)
        return y + read(network) if reads else y

    def read(model: Any) -> Any:
        return 0 if model.kept is None else model.kept.sum()

    traced = jit.trace(run)
    for number, x in enumerate(inputs(*[4] * 12)):
        y = traced(x, number in (3, 6, 7, 8))
        wanted = network.fc(x).softmax(-1)
        assert_close(network.kept.detach().numpy(), wanted.detach().numpy())
        assert_close(y.detach().numpy(), (x * 2 + (wanted.sum() if number in (3, 6, 7, 8) else 0)).detach().numpy())


def test_an_error_behind_it() -> None:
    class Failing(Base):
        def forward(self, x: Any) -> Any:
            self.kept = x.sum()
            if x.shape[0] == 2:
                raise ValueError("two rows")
            return self.fc(x)

    network = Failing()
    traced = jit.trace(network)
    for x in inputs(4, 4, 2, 4, 2, 4):
        if x.shape[0] == 2:
            with pytest.raises(ValueError, match="two rows"):
                traced(x)
        else:
            traced(x)
        assert_close(network.kept.numpy(), x.sum().numpy())


def test_export_has_no_further_outputs(tmp_path: Any) -> None:
    report = jit.export_onnx(KeptAndRead(), (inputs(4)[0],), tmp_path / "m.onnx")
    assert len(onnx.load(tmp_path / "m.onnx").graph.output) == 1 and not report.warnings
    report = jit.export_onnx(Averaging(), (inputs(4)[0],), tmp_path / "m.onnx")
    assert "the model leaves out what the function sets state to" in report.warnings[0]


def test_artifacts_leave_networks_alone(tmp_path: Any) -> None:
    network, (x,) = KeptAndRead(), inputs(4)
    traced = jit.trace(network)
    expected = traced(x)
    traced.save(tmp_path / "f.jit")
    network.kept = None
    assert_close(jit.load(tmp_path / "f.jit")(x).detach().numpy(), expected.detach().numpy())
    assert network.kept is None


def test_an_artifact_cannot_go_on_with_what_it_sets(tmp_path: Any) -> None:
    for kind, name in ((Averaging, "state"), (Counting, "calls")):
        traced = jit.trace(kind())
        for x in inputs(4, 4, 4):
            traced(x)
        with pytest.raises(jit.UsageError, match=f"sets '{name}' on a network and goes on with it"):
            traced.save(tmp_path / "f.jit")
