"""What a recording consists of: how results are made, what a call changes, and what has to hold for it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import jit
from jit.artifacts.manifests import RECORDING
from jit.eager.generators import Generator
from jit.eager.pytree import flatten
from jit.eager.view_paths import ViewStep
from jit.ops.views import t
from jit.tracing.recordings.changes import EffectSpec
from jit.tracing.recordings.conditions import Conditions
from jit.tracing.recordings.recording import PARTS
from jit.tracing.recordings.results import OutputSpec, ResultSpec, Returned
from jit.tracing.surroundings.sharing import Extents

STEP = ViewStep(t, (), 0)
NAME = "ab".__getitem__


def test_outputs_are_made_of_what_a_run_returned() -> None:
    specs = [OutputSpec("fresh", 0), OutputSpec("view", 0, (STEP,)), OutputSpec("same", 0), OutputSpec("number", 1),
             OutputSpec("input", 0, (STEP,)), OutputSpec("itself", 0)]  # fmt: skip
    owner, past = jit.ones(2, 3), jit.ones(3, 2)
    array = np.zeros((2, 3), np.float32)
    returned = Returned([array, 7], (), None, ())
    made = ResultSpec(specs, None).made(returned, [owner], [past])
    assert made[0]._array is array and made[2] is made[0] and made[3] == 7 and made[5] is past
    assert made[1]._viewed is made[0] and made[4]._viewed is owner
    assert [m.shape for m in (made[1], made[4])] == [(3, 2), (3, 2)]
    assert list(returned.tensors) == [0]


def test_a_result_has_its_structure_and_its_attributes() -> None:
    _, structure = flatten({"a": jit.ones(1), "b": [jit.ones(1)]})
    _, tag = flatten((jit.ones(1),))
    result = ResultSpec([OutputSpec("fresh", i) for i in range(3)], structure, 2, [(0, "mask", tag, 2)])
    made = [jit.ones(i + 1) for i in range(3)]
    found = result.assembled(made)
    assert found["a"] is made[0] and found["b"][0] is made[1] and vars(found["a"])["mask"][0] is made[2]


def test_a_call_writes_to_its_targets() -> None:
    tensor, generator = jit.ones(2), Generator()
    state = Generator().state
    effects = EffectSpec(targets=[1, 0])
    effects.commit([tensor, generator], [state, np.array([3.0, 4.0])], 5, None, ())
    assert tensor.tolist() == [3.0, 4.0] and tensor._version == 1 and generator.state is state


def test_a_call_leaves_gradients_and_views() -> None:
    first, second = jit.ones(2, 3), jit.ones(2)
    second.grad = jit.ones(2)
    gradient = jit.ones(2, 3)
    EffectSpec(slots=[(0, 0), (1, None)], moves=[(0, (STEP,), False)]).leave(
        [gradient], [first, second], [first, second]
    )
    assert first._grad is gradient and second._grad is None and first.shape == (3, 2)


def test_a_tensor_that_the_function_itself_has_moved_stays() -> None:
    moved, before = jit.ones(3, 2), jit.ones(2, 3)
    EffectSpec(moves=[(0, (STEP,), False)]).leave([], [before], [moved])
    assert moved.shape == (3, 2) and before.shape == (2, 3)


def test_gradients_have_to_be_what_they_were() -> None:
    a, b = jit.ones(2), jit.ones(2)
    conditions = Conditions(reads=[(0, 1)])
    assert conditions.other_gradient([a, b], NAME) == "a.grad is another tensor or missing"
    a.grad = b
    assert conditions.other_gradient([a, b], NAME) is None
    assert Conditions(reads=[(0, None)]).other_gradient([a, b], NAME) == "a.grad is there now"


@pytest.mark.parametrize("conditions, why", [
    (Conditions(facts=[(0, "is_view", True)]), "is_view of a is another one"),
    (Conditions(hookless=[0]), "a tensor has hooks now that run in a backward inside of it"),
    (Conditions(sharing=((1, 0, 0, True),)), "tensors that it writes to share memory in another way"),
])  # fmt: skip
def test_other_conditions_say_what_does_not_hold(conditions: Conditions, why: str) -> None:
    a, b = jit.ones(2).requires_grad_(), jit.ones(2)
    a.register_hook(lambda g: g)
    assert conditions.unmet([a, b], NAME, Extents()) == why
    assert conditions and not Conditions()
    assert Conditions(facts=[(0, "is_view", False)]).unmet([a, b], NAME, Extents()) is None


def test_sharing_matters_where_something_is_written() -> None:
    a = jit.ones(2)
    assert Conditions().unmet([a, a], NAME, None) is None
    assert Conditions().unmet([a, a], NAME, Extents()) is not None


def test_files_know_every_field_of_the_parts() -> None:
    fields = [field.name for part in PARTS.values() for field in dataclasses.fields(part)]
    # of what is set on networks, and of hooks whose deeds are in the graph, a file holds nothing
    assert set(fields) - {"attributes", "recorded_hooks"} <= set(RECORDING) and len(set(fields)) == len(fields)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_parts_are_frozen(part: type) -> None:
    made = part([], None) if part is ResultSpec else part()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(part)[0].name, [])
