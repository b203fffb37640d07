"""`jit.Tensor(...)`, `jit.Variable(...)` and `nn.Parameter(...)` as PyTorch has them, and undefined tensors."""

from __future__ import annotations

import ast
import copy
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn

ROOT = Path(jit.__file__).parent
UNDEFINED = "this tensor is undefined"

# -- Tensor ------------------------------------------------------------------------------------------------------

SIZES: list[tuple[tuple[Any, ...], tuple[int, ...]]] = [
    ((2, 3), (2, 3)), ((2,), (2,)), ((0,), (0,)), ((2, 0, 3), (2, 0, 3)), ((jit.Size([2, 3]),), (2, 3)),
    ((np.int64(2), 3), (2, 3)), ((jit.Size([]),), ()),
]  # fmt: skip


class Nobody:
    """Something that is no data."""

    def __repr__(self) -> str:
        return "nobody"


NOBODY = Nobody()


@pytest.mark.parametrize(("given", "sizes"), SIZES, ids=str)
def test_sizes(given: tuple[Any, ...], sizes: tuple[int, ...]) -> None:
    made = jit.Tensor(*given)
    assert made.shape == sizes and made.dtype is jit.float32 and type(made) is jit.Tensor and made.defined
    made.fill_(1)
    assert (made * 2).sum().item() == 2 * made.numel() and not made.requires_grad


DATA = [
    [1, 2], (2, 3), [[1.5, 2], [3, 4]], [], [True, False], range(3), np.ones((2, 2)), np.arange(3), [np.float64(2.0)],
    [[[1]]],
]  # fmt: skip


@pytest.mark.parametrize("data", DATA, ids=str)
def test_data(data: Any) -> None:
    made = jit.Tensor(data)
    wanted = np.array(list(data) if isinstance(data, range) else data, np.float32)
    assert made.dtype is jit.float32 and made.shape == wanted.shape and made.tolist() == wanted.tolist()
    if isinstance(data, np.ndarray):
        made.zero_()
        assert data.any()


def test_named() -> None:
    assert jit.Tensor(data=[1]).tolist() == [1] and jit.Tensor(size=(2, 3)).shape == (2, 3)
    assert jit.Tensor([1], device="cpu").device == jit.device("cpu")
    for device in ("cuda", "nosuch"):
        with pytest.raises(jit.UsageError, match="device"):
            jit.Tensor(2, device=device)


def test_of_a_tensor() -> None:
    for dtype in (jit.float64, jit.int64, jit.bool):
        x = jit.ones(2, dtype=dtype)
        made = jit.Tensor(x)
        assert made is not x and made.dtype is dtype and made.data_ptr() == x.data_ptr()
        made.zero_()
        assert x.tolist() == [0, 0] and x._version == made._version == 1
    x = jit.ones(2, requires_grad=True)
    (jit.Tensor(x * 2) * 3).sum().backward()
    assert x.grad.tolist() == [6, 6] and jit.Tensor(x).requires_grad


@pytest.mark.parametrize(
    "given",
    [(2.5,), (None,), ("a",), (True,), (-1,), (1, 2.5), (1, "a"), (jit.ones(2), jit.ones(2)), ([1j],), (["a"],),
     ([[1, 2], [3]],), (NOBODY,), (np.float32(2),), (np.array(["a"]),), (1, None), (1, True)],
    ids=str,
)  # fmt: skip
def test_wrong(given: tuple[Any, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(jit.Error):
            jit.Tensor(*given)


@pytest.mark.parametrize("named", [{"dtype": jit.int32}, {"requires_grad": True}, {"data": [1], "size": (2,)}])
def test_wrong_names(named: dict[str, Any]) -> None:
    with pytest.raises(jit.SchemaError, match="Tensor"):
        jit.Tensor(**named)


def test_subclass() -> None:
    class Named(jit.Tensor):
        def __init__(self, *data: Any, title: str = "") -> None:
            super().__init__(*data)
            self.title = title

    class Careless(jit.Tensor):
        def __init__(self) -> None:
            pass

    made = Named([1, 2], title="x")
    assert type(made) is Named and made.title == "x" and (made + 1).tolist() == [2, 3]
    assert not Careless().defined and not jit.Tensor.__new__(jit.Tensor).defined


def test_traced() -> None:
    @jit.trace
    def f(x: Any) -> Any:
        y = jit.Tensor(x.shape[0], 2)
        y.fill_(2)
        return jit.Tensor([1, 2]) + x + y + jit.Tensor(x * 2)

    for n in (1, 2, 3, 1):
        x = jit.ones(n, 2, requires_grad=True)
        found = f(x)
        assert found.tolist() == [[6, 7]] * n
        found.sum().backward()
        assert x.grad.tolist() == [[3, 3]] * n
    assert f.hits


def test_the_package_makes_tensors_otherwise() -> None:
    """`Tensor(array)` copies, and makes float32 of float64; inside of the package it would be a mistake."""
    offences = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id in ("Tensor", "Variable"):
                offences.append(f"{path.relative_to(ROOT)}:{node.lineno}: call tensor_of or variable_of")
    assert offences == []


# -- Variable and Parameter --------------------------------------------------------------------------------------


def test_variable() -> None:
    x = jit.ones(2)
    for made, wanted in (
        (jit.Variable(x), False), (jit.Variable(x, requires_grad=True), True), (jit.Variable(x, True), True),
        (jit.Variable(data=x, requires_grad=False), False), (jit.Variable(x, volatile=True), False),
    ):  # fmt: skip
        assert isinstance(made, jit.Variable) and made.requires_grad is wanted and made.is_leaf and made.defined
        assert made is not x and made.data_ptr() == x.data_ptr() and made.tolist() == [1, 1]
    assert not x.requires_grad
    v = jit.Variable(x, requires_grad=True)
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3, 3] and x.grad is None


def test_variable_has_no_history() -> None:
    x = jit.ones(2, requires_grad=True)
    assert not jit.Variable(x * 2).requires_grad and not jit.Variable(x).requires_grad
    made = jit.Variable(x * 2, requires_grad=True)
    (made * 3).sum().backward()
    assert x.grad is None and made.grad.tolist() == [3, 3]


@pytest.mark.parametrize("data", [[1.0], 2, 2.0, np.ones(2), "a", True])
def test_variable_of_what_is_no_tensor(data: Any) -> None:
    with pytest.raises(jit.SchemaError, match=r"takes a tensor, not"):
        jit.Variable(data)


def test_variable_of_integers() -> None:
    with pytest.raises(jit.UsageError, match="floating point"):
        jit.Variable(jit.tensor([1]), requires_grad=True)
    assert jit.Variable(jit.tensor([1])).tolist() == [1]


@pytest.mark.parametrize("data", [[1.0], 2, 2.0, np.ones(2), "a", jit.Tensor(), (jit.ones(2),)], ids=str)
def test_parameter_of_what_is_no_tensor(data: Any) -> None:
    with pytest.raises(jit.UsageError):
        nn.Parameter(data)


def test_parameter() -> None:
    assert nn.Parameter().shape == (0,) and nn.Parameter(None, requires_grad=False).shape == (0,)
    x = jit.ones(2, requires_grad=True)
    for made in (nn.Parameter(x * 2), nn.Parameter(nn.Parameter(x)), nn.Parameter(jit.Tensor(2))):
        assert made.is_leaf and made.requires_grad and isinstance(made, nn.Parameter)


# -- undefined tensors -------------------------------------------------------------------------------------------


def test_undefined() -> None:
    for made in (
        jit.Tensor(), jit.Variable(), jit.Variable(None), jit.Variable(jit.Tensor()), jit.Tensor(jit.Tensor()),
        copy.copy(jit.Tensor()), copy.deepcopy(jit.Tensor()), pickle.loads(pickle.dumps(jit.Tensor())),
    ):  # fmt: skip
        assert not made.defined and "undefined" in repr(made) and not made.requires_grad and made.grad is None
    with pytest.raises(jit.Error, match="undefined"):
        jit.Variable(jit.Tensor(), requires_grad=True)


WRONG_CALL = re.compile(r"positional arg|missing \d|expected \d arg|required|not callable")
"""What Python says of a call with too few arguments or too many."""
LEFT_OUT = {
    "__class__", "__init__", "__new__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__setattr__",
    "__delattr__", "__dir__", "__sizeof__", "__getstate__", "__reduce__", "__class_getitem__", "__array__",
    "__deepcopy__", "__torch_function__", "as_subclass",
    "__reduce_ex__", "_concrete", "_refuse_outside", "_leave", "_hold", "__format__", "__setitem__",
}  # fmt: skip
MEMBERS = sorted(set(dir(jit.Tensor)) - LEFT_OUT)


def arguments() -> list[tuple[Any, ...]]:
    x, u = jit.ones(2, 2), jit.Tensor()
    return [(), (0,), (1,), (0, 1), (x,), (u,), (x, x), ([0],), (u, u), ([1, 1],), (0, u), (0, x, x), (u, x), (x, u)]


def tried(function: Any, given: tuple[Any, ...]) -> None:
    """A result, or an error of ours; or Python's, if the call was wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function(*given) if callable(function) else None
            if found is not None and hasattr(found, "__next__"):
                next(found, None)
        except jit.Error:
            pass
        except (TypeError, AttributeError) as error:
            numbers = any(isinstance(g, (int, list)) for g in given) and "object has no attribute" in str(error)
            if not WRONG_CALL.search(str(error)) and not (numbers and "NoneType" not in str(error)):
                raise


@pytest.mark.parametrize("kind", [jit.Tensor, jit.Variable])
@pytest.mark.parametrize("name", MEMBERS)
def test_member_of_an_undefined_tensor(name: str, kind: Any) -> None:
    for given in arguments():
        made = kind()
        try:
            member = getattr(made, name)
        except jit.Error:
            continue
        tried(member, given)


@pytest.mark.parametrize("name", MEMBERS)
def test_member_given_an_undefined_tensor(name: str) -> None:
    for given in arguments():
        if any(isinstance(g, jit.Tensor) and not g.defined for g in given):
            tried(lambda *a: getattr(jit.ones(2, 2, dtype=jit.complex64), name)(*a), given)


@pytest.mark.parametrize("space", [jit, nn.functional, jit.linalg, jit.special, jit.fft], ids=lambda s: s.__name__)
def test_functions_given_undefined_tensors(space: Any) -> None:
    x, u = jit.ones(2, 2), jit.Tensor()
    for name in dir(space):
        function = getattr(space, name)
        if hasattr(function, "declarations"):
            for given in ((u,), (u, u), (x, u), (u, x), ([u, x],), (u, 0), (u, 0, x), (x, 0, u), (x, x, u)):
                tried(function, given)


PROGRAMS: dict[str, Any] = {
    "operator": lambda x, u: x + u, "clone": lambda x, u: u.clone(), "detach": lambda x, u: u.detach(),
    "list": lambda x, u: jit.cat([x, u]), "shape": lambda x, u: u.shape, "write": lambda x, u: x.add_(u),
    "written": lambda x, u: u.add_(1), "item": lambda x, u: u.item(), "view": lambda x, u: u.view(-1),
    "index": lambda x, u: u[0], "indexed by": lambda x, u: x[u], "cast": lambda x, u: u.double(),
    "compared": lambda x, u: u == x, "decided": lambda x, u: 1 if u else 2, "assigned": lambda x, u: x.copy_(u),
    "ignored": lambda x, u: x * 2, "asked": lambda x, u: x * 2 if u.defined else x * 3,
    "returned": lambda x, u: (x * 2, u), "gradient": lambda x, u: (u.grad, x * 2),
    "optional": lambda x, u: nn.functional.linear(x, x, u), "is None": lambda x, u: x * (2 if u is None else 3),
    "nested": lambda x, u: [x * 2, {"u": u}], "text": lambda x, u: (repr(u), x * 2)[1],
}  # fmt: skip


def outcome(function: Any, *args: Any) -> str:
    try:
        return repr(function(*args))
    except jit.Error as error:
        return str(error).split(";")[0]


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_argument_of_a_traced_function(name: str, optimize: bool) -> None:
    traced = jit.trace(PROGRAMS[name], optimize=optimize)
    for made in (jit.Tensor, jit.Tensor, jit.Variable, jit.Tensor):
        assert outcome(traced, jit.ones(2, 2), made()) == outcome(PROGRAMS[name], jit.ones(2, 2), made())


def test_undefined_and_defined_in_turn() -> None:
    f = jit.trace(lambda d, *rest: d["a"] * (2 if d["b"].defined else 3) + sum(r.sum() for r in rest if r.defined))
    x, u = jit.ones(2), jit.Tensor()
    for b, rest, wanted in ((u, (), 3), (x, (u,), 2), (u, (x,), 5), (u, (), 3), (x, (u, x), 4), (x, (u,), 2)):
        assert f({"a": x, "b": b}, *rest).tolist() == [wanted] * 2
    assert f.hits == 2


def test_undefined_argument_of_a_function() -> None:
    class Scale(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: Any) -> Any:
            return x * by if by.defined else x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2, None

    f = jit.trace(lambda x, u: Scale.apply(x, u))
    for _ in range(3):
        x = jit.ones(2, requires_grad=True)
        f(x, jit.Tensor()).sum().backward()
        assert x.grad.tolist() == [2, 2]


def test_undefined_around_a_function() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if self.extra.defined else x * 3

    model = Model()
    f = jit.trace(model)
    for extra, wanted in ((jit.Tensor(), 3), (jit.ones(2), 2), (jit.Tensor(), 3)):
        model.extra = extra
        assert f(jit.ones(2)).tolist() == [wanted] * 2


def test_subclasses_make_their_objects_from_tensors():
    make: Any = jit.Tensor._make_subclass

    class Boxes(jit.Tensor):
        form: str

        def __new__(cls, data, form="corners"):
            made = make(cls, jit.as_tensor(data))
            made.form = form
            return made

        def area(self):
            return (self[:, 2] - self[:, 0]) * (self[:, 3] - self[:, 1])

    class Marked(jit.nn.Parameter):
        mark: Any

        def __new__(cls, data, mark=None):
            made = make(cls, data, True)
            made.mark = mark
            return made

    boxes = Boxes([[0.0, 0.0, 2.0, 3.0]], form="sizes")
    assert type(boxes) is Boxes and boxes.form == "sizes" and boxes.area().tolist() == [6]
    marked = Marked(jit.ones(2), mark=3)
    assert type(marked) is Marked and marked.mark == 3 and marked.requires_grad
    shared = jit.zeros(2)
    make(Boxes, shared).add_(1)
    assert shared.tolist() == [1, 1] and Boxes(shared).data_ptr() == shared.data_ptr()
    with pytest.raises(jit.Error, match="takes a class that is derived from Tensor"):
        make(shared)
