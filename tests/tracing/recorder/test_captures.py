"""Hidden inputs: tensors, generators and numbers from outside; gradients of such tensors."""

from __future__ import annotations

from typing import Any

import pytest

import jit
from jit.eager.generators import Generator
from jit.ir import Graph
from jit.ir.errors import TraceError
from jit.tracing.recorder.capturing import Captures
from jit.tracing.recorder.gradients import Gradients
from jit.tracing.recorder.identities import Identities
from jit.tracing.recorder.memory import TraceMemory
from jit.tracing.recorder.randomness import Randomness
from jit.tracing.recorder.tape import Tape


def captures() -> Captures:
    def locate(owner: Any) -> tuple[str | None, int | None]:
        return ("weight", 7) if isinstance(owner, jit.Tensor) else (None, None)

    return Captures(Tape(Graph()), TraceMemory(), Identities(), locate)


def test_a_tensor_is_captured_once() -> None:
    made, tensor = captures(), jit.ones(2)
    binding = made.known(tensor)
    assert made.known(tensor) is binding and [v.name for v in made.graph.inputs] == ["weight"]
    assert [(c.name, c.owner is tensor, c.place) for c in made.found] == [("weight", True, 7)]
    assert made.is_from_outside(tensor) and not made.is_inside(tensor)


def test_what_was_made_inside_is_not_captured() -> None:
    made, tensor = captures(), jit.ones(2)
    made.memory.bind_root(tensor, made.tensor(jit.ones(2)).value)
    assert made.is_inside(tensor) and not made.is_from_outside(tensor) and len(made.found) == 1


def test_nothing_becomes_an_input_after_the_first_stage() -> None:
    made = captures()
    made.graph.set_return([])
    made.graph.add_stage()
    with pytest.raises(TraceError, match="first used in its backward"):
        made.tensor(jit.ones(2))
    with pytest.raises(TraceError, match="first used in its backward"):
        made.generator(Generator())


def test_promoted_numbers_are_counted() -> None:
    made = captures()
    made.tensor(jit.ones(2))
    made.number(2.5, "scale")
    made.number(3, "n")
    assert [capture.number for capture in made.found] == [None, 0, 1]


def test_a_generator_comes_with_a_state_and_is_drawn_from() -> None:
    made, generator = captures(), Generator()
    randomness = Randomness(made)
    first = randomness.state_of(generator)
    assert randomness.state_of(generator) is first and randomness.drawn() == []
    assert made.memory.originals[first] is generator.state
    last = made.number(1, "state")
    randomness.advance(generator, last)
    assert randomness.drawn() == [(generator, first, last)]
    randomness.forget(generator)
    assert randomness.drawn() == []


def test_gradients_are_slots_of_tensors_from_outside() -> None:
    made, tensor, inside = captures(), jit.ones(2).requires_grad_(), jit.ones(2)
    gradients = Gradients(made)
    made.memory.bind_root(inside, made.number(1, "n"))
    assert gradients.read(tensor) is None
    gradient = jit.ones(2)
    gradients.write(tensor, gradient)
    gradients.write(inside, gradient)
    (slot,) = gradients.slots.values()
    assert slot.holder is tensor and slot.is_read and slot.initial is None and slot.has_changed
    assert gradients.read(tensor) is gradient and inside._grad is gradient
    gradients.forget()
    assert not gradients.slots


def test_a_gradient_that_is_read_is_an_input() -> None:
    made, tensor = captures(), jit.ones(2).requires_grad_()
    tensor.grad = jit.ones(2)
    gradients = Gradients(made)
    gradients.read(tensor)
    (slot,) = gradients.slots.values()
    assert slot.found is made.graph.inputs[1] and not slot.has_changed
