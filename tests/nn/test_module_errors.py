"""What modules refuse, and as which builtin: a wrong kind is a TypeError, a name a KeyError, a missing part an
AttributeError; all of them are errors of `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit import nn


def filled() -> nn.Module:
    module = nn.Module()
    module.w = nn.Parameter(jit.ones(1))
    module.k = nn.ReLU()
    module.register_buffer("b", jit.ones(1))
    return module


loose: Any = nn
"""The package for calls that no type checker would let pass."""

KINDS = [
    lambda m: m.add_module("x", "y"),
    lambda m: m.add_module(1, None),
    lambda m: m.register_module(None, loose.ReLU()),
    lambda m: m.register_buffer("x", 5),
    lambda m: m.register_buffer(1, None),
    lambda m: m.register_parameter("x", 5),
    lambda m: m.register_parameter("x", jit.ones(1)),
    lambda m: m.register_parameter(1, None),
    lambda m: setattr(m, "w", jit.ones(1)),
    lambda m: setattr(m, "k", 3),
    lambda m: setattr(m, "b", "text"),
    lambda m: m.to(jit.int32),
    lambda m: loose.Sequential(m) + 1,
    lambda m: loose.Sequential(m) * "a",
    lambda m: loose.Sequential(m).append(3),
    lambda m: loose.Sequential(m).extend(3),
    lambda m: loose.ModuleList([m]).insert(0, 3),
    lambda m: loose.ModuleList([m]).extend(3),
    lambda m: loose.ModuleDict().update(3),
    lambda m: loose.ModuleDict().update([3]),
    lambda m: loose.ModuleDict({1: m}),
    lambda m: loose.ParameterDict().update(3),
    lambda m: loose.ParameterList([]).extend(3),
    lambda m: loose.Unflatten(1, "ab"),
    lambda m: loose.Unflatten(1, 5.0),
    lambda m: loose.Unflatten(1, (2.0, 3)),
]
NAMES = [
    lambda m: m.add_module("a.b", None),
    lambda m: m.add_module("", None),
    lambda m: m.add_module("training", loose.ReLU()),
    lambda m: m.add_module("w", loose.ReLU()),
    lambda m: m.register_buffer("a.b", None),
    lambda m: m.register_buffer("", None),
    lambda m: m.register_buffer("w", jit.ones(1)),
    lambda m: m.register_parameter("a.b", None),
    lambda m: m.register_parameter("", None),
    lambda m: m.register_parameter("forward", None),
    lambda m: m.register_parameter("b", loose.Parameter(jit.ones(1))),
]
MEMBERS = [
    lambda m: m.get_submodule("zz"),
    lambda m: m.get_submodule("w"),
    lambda m: m.get_parameter("zz"),
    lambda m: m.get_parameter("b"),
    lambda m: m.get_parameter("zz.w"),
    lambda m: m.get_buffer("w"),
]
VALUES = [
    lambda m: m.train(2),
    lambda m: m.train("yes"),
    lambda m: m.train(None),
    lambda m: loose.Sequential(m) * 0,
    lambda m: loose.ModuleDict().update([("a",)]),
    lambda m: loose.init.calculate_gain("leaky_relu", True),
    lambda m: loose.init.calculate_gain("leaky_relu", "a"),
    lambda m: loose.init.calculate_gain("leaky_relu", 1j),
    lambda m: loose.GroupNorm(2, 2)(jit.ones(1, 2)),
    lambda m: loose.functional.group_norm(jit.ones(1, 2, 1, 1), 2),
]
OFFENCES = [(TypeError, KINDS), (KeyError, NAMES), (AttributeError, MEMBERS), (ValueError, VALUES)]


@pytest.mark.parametrize(("builtin", "call"), [(b, call) for b, calls in OFFENCES for call in calls])
def test_errors_are_the_fitting_builtin(builtin: type[Exception], call: Callable[[Any], Any]) -> None:
    module = filled()
    before = sorted(module.state_dict()), module.training
    with pytest.raises(builtin) as caught:
        call(module)
    assert isinstance(caught.value, jit.Error)
    assert str(caught.value) == caught.value.args[0]
    assert (sorted(module.state_dict()), module.training) == before


@pytest.mark.parametrize("part", [lambda: nn.Parameter(jit.ones(1)), nn.ReLU])
def test_parts_need_an_initialised_module(part: Callable[[], Any]) -> None:
    class Hasty(nn.Module):
        def __init__(self) -> None:
            self.part = part()

    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\)") as caught:
        Hasty()
    assert isinstance(caught.value, jit.Error)


def test_a_state_dict_is_a_dictionary() -> None:
    with pytest.raises(TypeError):
        loose.Linear(1, 1).load_state_dict(2)


# -- dtypes ----------------------------------------------------------------------------------------------------------


def test_complex_modules_move_among_complex_types_and_back() -> None:
    module = nn.Linear(2, 1)
    module.register_buffer("whole", jit.tensor([1, 2]))
    module.register_buffer("turn", jit.tensor([1j]))
    weight = module.weight
    found = []
    for dtype in (jit.complex64, jit.complex128, jit.complex64, jit.float64):
        module.to(dtype)
        found.append((module.weight.dtype, module.turn.dtype, module.whole.dtype))
    complexes = [(d, d, jit.int64) for d in (jit.complex64, jit.complex128, jit.complex64)]
    assert found == [*complexes, (jit.float64, jit.float64, jit.int64)]
    assert module.weight is weight


@pytest.mark.parametrize("name", ["half", "bfloat16", "float", "double"])
def test_casts_to_floats_leave_complex_numbers(name: str) -> None:
    module = nn.Linear(2, 1)
    module.register_buffer("turn", jit.tensor([1j]))
    getattr(module, name)()
    assert module.turn.dtype is jit.complex64
    assert module.weight.dtype is {"half": jit.float16, "float": jit.float32, "double": jit.float64}.get(
        name, jit.bfloat16
    )


def test_type_converts_everything() -> None:
    module = nn.Linear(2, 1)
    module.register_buffer("whole", jit.tensor([1, 2]))
    module.register_buffer("flag", jit.tensor([True]))
    module.type(jit.float64)
    assert {t.dtype for t in module.state_dict().values()} == {jit.float64}


# -- containers ------------------------------------------------------------------------------------------------------


def kinds(modules: Any) -> list[str]:
    return [type(module).__name__ for module in modules]


def test_sequences_are_added_and_repeated() -> None:
    a, b = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh(), nn.ELU())
    assert kinds(a + b) == ["ReLU", "Tanh", "ELU"] and kinds(a) == ["ReLU"]
    assert kinds(b * 2) == kinds(2 * b) == ["Tanh", "ELU", "Tanh", "ELU"]
    assert (b * 2)[0] is (b * 2)[2]
    a += b
    a *= 2
    assert kinds(a) == ["ReLU", "Tanh", "ELU"] * 2
    assert list(a._modules) == [str(i) for i in range(6)]


def test_lists_are_added_and_extended_by_themselves() -> None:
    a = nn.ModuleList([nn.ReLU()])
    assert kinds(a + [nn.Tanh()]) == kinds(a + nn.ModuleList([nn.Tanh()])) == ["ReLU", "Tanh"]
    a.extend(a)
    assert kinds(a) == ["ReLU", "ReLU"]


@pytest.mark.parametrize("index", [-4, 4, 9])
def test_modules_are_inserted_within_a_sequence(index: int) -> None:
    sequence = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.ELU())
    with pytest.raises(IndexError, match="out of range"):
        sequence.insert(index, nn.ReLU())
    assert kinds(sequence.insert(3, nn.GELU())) == ["ReLU", "Tanh", "ELU", "GELU"]
    assert kinds(sequence.insert(-4, nn.GELU()))[0] == "GELU"


def test_a_dictionary_of_modules_takes_another_one() -> None:
    given = nn.ModuleDict({"a": nn.ReLU()})
    found = nn.ModuleDict()
    found.update(given)
    found.update([["b", nn.Tanh()]])
    assert list(found) == ["a", "b"] and found["a"] is given["a"]


def test_dictionaries_of_parameters_unite() -> None:
    one, two = jit.ones(1), jit.zeros(2)
    left, right = nn.ParameterDict({"b": one, "a": one}), nn.ParameterDict([("c", two), ("a", two)])
    assert list(left) == ["a", "b"] and list(right) == ["c", "a"]  # plain dictionaries are sorted
    both = left | right
    assert list(both) == ["a", "b", "c"] and both["a"].shape == (2,) and left["a"].shape == (1,)
    left |= right
    assert list(left) == ["a", "b", "c"] and list(reversed(left)) == ["c", "b", "a"]
    assert list(left.copy()) == list(left)
    assert dict(left.fromkeys(["x", "y"], 3).items()) == {"x": 3, "y": 3}


def test_a_replaced_parameter_keeps_its_place() -> None:
    parameters = nn.ParameterList([jit.ones(1), jit.ones(2)])
    parameters[0] = jit.ones(7)
    assert [(name, p.shape) for name, p in parameters.named_parameters()] == [("0", (7,)), ("1", (2,))]


def test_dir_lists_what_can_be_written_after_a_dot() -> None:
    names = dir(nn.Sequential(nn.Linear(1, 1)))
    assert "append" in names and "0" not in names
    assert {"weight", "bias"} <= set(dir(nn.Linear(1, 1)))
