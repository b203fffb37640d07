"""The parts through which a call of a traced function goes, each by itself."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import pytest

import jit
from jit.tracing.answers import Answers
from jit.tracing.bound_methods import BoundMethods
from jit.tracing.budget import LOST, Budget
from jit.tracing.cache import Outgrown, RecordingCache
from jit.tracing.call_recorder import CallRecorder
from jit.tracing.explanation import Explanation
from jit.tracing.first_runs import FirstRuns
from jit.tracing.parameters import FunctionParameters
from jit.tracing.promotion import promote_named, promote_varying
from jit.tracing.recordings.compiling import unoptimised
from jit.tracing.shortcuts.shortcut_list import SHORTCUTS, ShortcutList
from jit.tracing.sizes import SizeFamilies
from jit.tracing.surroundings.calls import CallError, Entry, TracedCall
from jit.tracing.surroundings.surroundings import Surroundings
from jit.tracing.taking_apart import take_apart

SCALE = 1.0


class Parts:
    """The parts of a traced function, put together without one."""

    def __init__(self, function: Any, strict: bool = False) -> None:
        self.surroundings = Surroundings(function)
        self.parameters = FunctionParameters.of(function)
        self.explanation = Explanation()
        self.cache = RecordingCache(self.surroundings, SizeFamilies(None))
        runs = FirstRuns(function, None, self.parameters, strict)
        self.answers = Answers(self.cache, self.explanation)
        self.budget = Budget(lambda: self.answers.hits)
        self.recorder = CallRecorder(runs, self.surroundings, self.cache, self.explanation, unoptimised, self.budget)

    def call(self, *args: Any, **kwargs: Any) -> TracedCall:
        return take_apart("f", self.parameters, self.surroundings, args, kwargs)

    def record(self, *args: Any, entry: Entry | None = None) -> tuple[Any, Entry]:
        """The result of a call that is recorded, and the entry that it is kept in."""
        call = self.call(*args)
        made = self.recorder.record(call, lambda: "at f")
        result = self.recorder.keep(made, entry or Entry())
        return result, self.cache.entries.get(call.key) or entry or Entry()


# -- taking apart ------------------------------------------------------------------------------------------------


def test_a_call_is_tensors_names_and_a_key() -> None:
    parts, x = Parts(lambda a, b=2: a * b), jit.ones(3)
    call = parts.call(x)
    assert (call.names, call.leaves, call.promoted) == (["a", "b"], [x], [])
    assert call.key == parts.call(jit.ones(3)).key
    assert call.key != parts.call(jit.ones(4)).key and call.key != parts.call(x, 3).key


def test_a_promoted_argument_is_no_part_of_the_key() -> None:
    parts, x = Parts(lambda a, b: a * b), jit.ones(3)
    promote_named("b", "f", parts.surroundings, parts.parameters)
    assert parts.call(x, 2.0).promoted == [("b", 2.0)]
    assert parts.call(x, 2.0).key == parts.call(x, 3.0).key != parts.call(x, 3).key


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CallError, match="f: too many positional arguments"):
        Parts(lambda a: a).call(1, 2)


# -- recording and answering -------------------------------------------------------------------------------------


def test_what_was_recorded_answers_the_next_call() -> None:
    parts, entry = Parts(lambda x: x * 2), Entry()
    call = parts.call(jit.ones(2))
    made = parts.recorder.record(call, lambda: "at f")
    assert parts.answers.answer(entry, call) == (None, None) and parts.answers.hits == 0
    result = parts.recorder.keep(made, entry)
    assert result.tolist() == [2, 2] and parts.budget.made == 1
    recording, answer = parts.answers.answer(entry, parts.call(jit.ones(2) * 4))
    assert recording is made.recording is entry.recordings[0]
    assert answer.tolist() == [8, 8] and parts.answers.hits == 1
    parts.answers.clear()
    assert parts.answers.hits == 0


def test_a_guard_that_fails_leaves_no_answer_and_a_reason() -> None:
    parts, entry = Parts(lambda x: x if x.sum() > 0 else -x), Entry()
    parts.record(jit.ones(2), entry=entry)
    assert parts.answers.answer(entry, parts.call(-jit.ones(2))) == (None, None)
    assert str(parts.explanation).startswith("it took another path because the value decided upon at")


def test_a_call_that_was_taken_apart_too_early_gets_no_answer() -> None:
    parts, entry = Parts(lambda x: x * 2), Entry()
    parts.record(jit.ones(2), entry=entry)
    call = parts.call(jit.ones(2))
    parts.surroundings.generation += 1
    assert not parts.cache.is_current(call)
    with pytest.raises(Outgrown):
        parts.answers.answer(entry, call)


def test_examples_are_kept_where_they_are_asked_for() -> None:
    parts, x = Parts(lambda x: x * 2), jit.ones(2)
    assert parts.recorder.record(parts.call(x), lambda: "at f").recording.examples == []
    (example,) = parts.recorder.record(parts.call(x), lambda: "at f", keep_examples=True).recording.examples
    assert example.tolist() == [1, 1] and example is not x._array


def test_calls_that_cannot_be_kept_are_counted_until_it_gives_up() -> None:
    seen: list[int] = []

    def function(x: Any) -> Any:
        seen.append(len(seen))
        return x * 2

    parts, entry = Parts(function), Entry()
    for number in range(LOST):
        assert not parts.budget.has_given_up, number
        result, _ = parts.record(jit.ones(2), entry=entry)
        assert result.tolist() == [2, 2]
    assert parts.budget.has_given_up and not entry.recordings
    assert str(parts.explanation).startswith("it was not kept, because the call changed")


def test_a_strict_recorder_raises_instead() -> None:
    seen: list[int] = []

    def function(x: Any) -> Any:
        seen.append(1)
        return x * 2

    parts = Parts(function, strict=True)
    with pytest.raises(jit.TraceError, match=r"at f: the call changed .*, which a recording cannot repeat"):
        parts.record(jit.ones(2))
    assert parts.budget.made == 1 and not parts.budget.has_given_up


# -- shortcuts ---------------------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> tuple[Any, Any]:
    """A shortcut that nobody has taken yet, and its recording."""
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(2)), f(jit.ones(2))
    return f._shortcuts.kept[0]


def test_shortcuts_can_be_closed_and_opened(taken: tuple[Any, Any]) -> None:
    shortcuts = ShortcutList(lambda call: True)
    shortcuts.add(*taken)
    assert shortcuts.open == [*shortcuts.kept] == [taken]
    shortcuts.is_open = False
    shortcuts.add(*taken)
    assert not shortcuts.open and len(shortcuts.kept) == 2
    shortcuts.is_open = True
    assert shortcuts.open == [*shortcuts.kept]


def test_hits_of_shortcuts_that_had_to_go_still_count(taken: tuple[Any, Any]) -> None:
    shortcuts, (short, recording) = ShortcutList(lambda call: True), taken
    shortcuts.add(short, recording)
    assert short(jit.ones(2)).tolist() == [2, 2] and shortcuts.hits == 1
    f = jit.trace(lambda x: x * 3)
    f(jit.ones(2)), f(jit.ones(2))
    for _ in range(SHORTCUTS):
        shortcuts.add(*f._shortcuts.kept[0])
    assert (short, recording) not in shortcuts.kept and len(shortcuts.kept) == SHORTCUTS and shortcuts.hits == 1
    shortcuts.clear()
    assert not shortcuts.kept and not shortcuts.open and shortcuts.hits == 0


# -- promotion ---------------------------------------------------------------------------------------------------


def test_only_numbers_that_are_read_can_be_promoted() -> None:
    parts = Parts(lambda x: x * SCALE)
    with pytest.raises(jit.UsageError, match="f has no number 'rate' to promote; it reads x, SCALE"):
        promote_named("rate", "f", parts.surroundings, parts.parameters)
    promote_named("SCALE", "f", parts.surroundings, parts.parameters)
    assert parts.surroundings.promotions.around == {"SCALE"}


def test_a_number_that_varies_is_promoted_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, calls = Parts(lambda x: x * SCALE), []
    for number in range(2):
        monkeypatch.setitem(globals(), "SCALE", float(number))
        calls.append(parts.call(jit.ones(2)))
    assert not promote_varying(calls[1], [calls[1].key], parts.surroundings)
    assert promote_varying(calls[1], [calls[0].key], parts.surroundings)
    assert parts.surroundings.promotions.around == {"SCALE"}
    assert not promote_varying(calls[1], [calls[0].key], parts.surroundings), "it is an input already"


# -- methods -----------------------------------------------------------------------------------------------------


def test_each_instance_has_its_own_and_may_go() -> None:
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def apply(self, x: Any) -> Any:
            return x * self.factor

    methods = BoundMethods(Scaled.apply, lambda method, **parts: (method, parts))
    two, three = Scaled(2.0), Scaled(3.0)
    method, parts = methods.of(two)
    assert method(5) == 10 and methods.of(three)[0](5) == 15
    assert methods.of(two)[0] is method and list(parts["parameters"].named) == ["x"]
    gone = weakref.ref(two)
    del two
    gc.collect()
    assert gone() is None


def test_the_warning_that_calls_run_untraced_names_the_line_of_the_user() -> None:
    counts: list[int] = []

    @jit.trace
    def counted(x: Any) -> Any:
        counts.append(len(counts))
        return x * 2

    with pytest.warns(UserWarning, match="runs untraced from now on") as told:
        for _ in range(LOST + 2):
            counted(jit.ones(2))
    assert [w.filename for w in told] == [__file__]


def test_a_parameter_may_be_called_self() -> None:
    assert jit.trace(jit.tanh)(self=jit.zeros(2)).tolist() == [0.0, 0.0]


def test_methods_of_equal_instances_are_told_apart() -> None:
    @dataclasses.dataclass(frozen=True)
    class Scaled:
        factor: float = dataclasses.field(compare=False)

        @jit.trace
        def apply(self, x: Any) -> Any:
            return x * self.factor

    @dataclasses.dataclass
    class Shifted:
        by: float

        @jit.trace
        def apply(self, x: Any) -> Any:
            return x + self.by

    x = jit.ones(2)
    for kind, wanted in ((Scaled, 2.0), (Shifted, 3.0)):
        first, second = kind(5.0), kind(2.0)
        for _ in range(3):
            first.apply(x)
            assert second.apply(x).tolist() == [wanted] * 2
        assert first.apply is first.apply and first.apply is not second.apply


def test_an_instance_without_weak_references_is_refused_with_the_way_out() -> None:
    class Slotted:
        __slots__ = ("scale",)

        @jit.trace
        def apply(self, x: Any) -> Any:
            return x * 2

    with pytest.raises(jit.Error, match="add '__weakref__' to the __slots__"):
        Slotted().apply(jit.ones(2))
