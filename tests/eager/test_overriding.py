"""`__torch_function__`: who is asked, with what, and what becomes of the answer."""

from __future__ import annotations

from typing import Any

import pytest

import jit
from jit.eager.overriding import OVERRIDING

CALLED: list[tuple[str, list[str]]] = []


@pytest.fixture(autouse=True)
def forgotten():
    known = len(OVERRIDING)
    CALLED.clear()
    yield
    del OVERRIDING[known:]


def logging_class() -> Any:
    class Logged(jit.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            CALLED.append((func.__name__, [kind.__name__ for kind in types]))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logged


class Five:
    """An object that is neither a tensor nor one that holds one."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        CALLED.append((func.__name__, [kind.__name__ for kind in types]))
        return NotImplemented if func is jit.sub else 5


USES = {
    "add": lambda t: t + 1, "__rsub__": lambda t: 1 - t, "mul": lambda t: jit.ones(2) * t, "exp": jit.exp,
    "cat": lambda t: jit.cat([jit.ones(2), t]), "sum": lambda t: t.sum(), "relu": jit.nn.functional.relu,
    "__getitem__": lambda t: t[0], "max": lambda t: jit.max(t, 0).values, "add_": lambda t: t.add_(1),
    "eq": lambda t: t == 1, "where": lambda t: jit.where(jit.tensor(True), t, jit.zeros(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_a_class_of_tensors_is_asked_and_its_results_are_of_it(name):
    kind = logging_class()
    tensor = jit.ones(2).as_subclass(kind)
    result = USES[name](tensor)
    assert [(name, ["Logged"])] == CALLED and type(result) is kind
    assert result.tolist() == USES[name](jit.ones(2)).tolist()


def test_gradients_flow_through_the_answers():
    x = jit.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2).as_subclass(logging_class())
    (y * y).sum().backward()
    assert x.grad.tolist() == [8.0, 16.0]


def test_classes_without_an_answer_of_their_own_are_not_asked():
    class Quiet(jit.Tensor):
        pass

    assert not OVERRIDING and (jit.ones(2).as_subclass(Quiet) + 1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "use",
    [
        lambda d: jit.add(d, 2), lambda d: jit.ones(2) + d, lambda d: jit.stack([d, d]), lambda d: jit.ones(2).mul(d),
        lambda d: jit.nn.functional.relu(d), lambda d: jit.add(jit.ones(2), other=d),
    ],
)  # fmt: skip
def test_any_other_class_is_asked_where_no_declaration_takes_its_objects(use):
    assert use(Five()) == 5 and len(CALLED) == 1 and CALLED[0][1] == ["Five"]


def test_an_error_names_the_classes_that_know_no_answer():
    with pytest.raises(TypeError, match=r"no answer for sub: .* of Five"):
        subtract: Any = jit.sub
        subtract(Five(), 1)


def test_derived_classes_are_asked_first():
    kind = logging_class()

    class Derived(kind):  # type: ignore[valid-type, misc]
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return [each.__name__ for each in types]

    assert jit.add(jit.ones(2).as_subclass(kind), jit.ones(2).as_subclass(Derived)) == ["Derived", "Logged"]


def test_functions_of_programs_ask_by_the_names_of_overrides():
    @jit.overrides.wrap_torch_function(lambda x: (x,))
    def doubled(x):
        return x * 2

    assert doubled(3) == 6 and doubled(Five()) == 5 and CALLED == [("doubled", ["Five"])]
    assert jit.overrides.has_torch_function([1, [Five()]]) and not jit.overrides.has_torch_function([jit.ones(1)])
    assert jit.overrides.is_tensor_like(Five()) and not jit.overrides.is_tensor_like(1)
    assert jit.add in jit.overrides.get_overridable_functions()[jit]
    assert jit.is_tensor in jit.overrides.get_ignored_functions()
    with pytest.raises(jit.UsageError, match="none of these objects"):
        jit.overrides.handle_torch_function(jit.add, [1], 1, 2)


@pytest.mark.parametrize("answering", [True, False])
def test_tensors_of_a_class_have_histories_and_require_gradients(answering):
    class Quiet(jit.Tensor):
        pass

    kind = logging_class() if answering else Quiet
    x = jit.tensor([1.0, 2.0], requires_grad=True)
    part = (x * 3).as_subclass(kind)
    assert isinstance(part, kind) and part.requires_grad and part.grad_fn is not None
    leaf = jit.ones(2).as_subclass(kind).requires_grad_()
    (part * leaf).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and leaf.grad.tolist() == [3.0, 6.0] and isinstance(leaf, kind)


# -- modes -------------------------------------------------------------------------------------------------------


class Logging(jit.overrides.TorchFunctionMode):
    """A mode that notes what it is asked for."""

    def __init__(self, mark=""):
        super().__init__()
        self.mark = mark

    def __torch_function__(self, func, types, args=(), kwargs=None):
        CALLED.append((self.mark + func.__name__, [kind.__name__ for kind in types]))
        return func(*args, **(kwargs or {}))


def names_called():
    names = [name for name, _ in CALLED]
    CALLED.clear()
    return names


@pytest.mark.parametrize("name", ["add", "mul", "exp", "cat", "sum", "relu", "max", "where"])
def test_a_mode_is_asked_for_functions_of_plain_tensors(name):
    plain = jit.ones(2)
    expected = USES[name](plain)
    with Logging() as mode:
        found = USES[name](plain)
    assert isinstance(mode, Logging) and (name, []) in CALLED and found.tolist() == expected.tolist()
    CALLED.clear()
    USES[name](plain)
    assert not CALLED and not OVERRIDING


def test_a_mode_sees_what_the_user_calls_and_not_what_that_consists_of():
    net, x = jit.nn.Linear(3, 2), jit.ones(4, 3)
    with Logging():
        y = net(x)
        jit.zeros(2)
        z = jit.nn.functional.softmax(y, -1)
        called = names_called()
        z.sum().backward()
    assert called == ["linear", "zeros", "softmax"] and names_called() == ["sum"]
    assert net.weight.grad is not None


def test_modes_within_modes_are_asked_from_the_innermost_out():
    one = jit.ones(1)
    with Logging("outer "), Logging("inner "):
        jit.exp(one)
    assert names_called() == ["inner exp", "outer exp"]
    with pytest.raises(ZeroDivisionError), Logging():
        raise ZeroDivisionError
    with Logging() as mode, mode:
        jit.exp(one)
    jit.exp(one)
    assert names_called() == ["exp", "exp"] and not OVERRIDING


def test_a_mode_may_answer_itself_or_leave_it_to_the_arguments():
    class Fourth(jit.overrides.BaseTorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 4 if func is jit.exp else NotImplemented

    one = jit.ones(2)
    with Fourth():
        assert jit.exp(one) == 4 and jit.log(one).tolist() == [0, 0]
        assert jit.add(Five(), 1) == 5  # type: ignore[arg-type]
    with jit.overrides.BaseTorchFunctionMode():
        assert (jit.exp(one) > 2).all()
    with jit.overrides.TorchFunctionMode(), pytest.raises(NotImplementedError):
        jit.exp(one)


def test_a_mode_holds_for_its_thread_alone():
    import threading

    found: list[Any] = []
    with Logging():
        thread = threading.Thread(target=lambda: found.append(jit.exp(jit.zeros(2)).tolist()))
        thread.start()
        thread.join()
    assert found == [[1, 1]] and not CALLED


@pytest.mark.parametrize("keeps", [False, True])
def test_a_mode_sees_the_operators_of_traced_functions(keeps):
    f = jit.trace(lambda x: jit.exp(x) * 2)
    x = jit.zeros(2, requires_grad=keeps)
    for _ in range(3):
        f(x)
    hits = f.hits
    with Logging():
        assert f(x).tolist() == [2, 2]
    assert names_called() == ["exp", "mul"] and f.hits == hits == 2
    f(x)
    assert not CALLED and f.hits == hits + 1

    @jit.trace
    def watched(x):
        with Logging():
            return jit.exp(x)

    with pytest.warns(UserWarning, match="is watched by Logging, a mode that it enters"):
        for _ in range(3):
            assert watched(x).tolist() == [1, 1]
    assert names_called() == ["exp"] * 3
