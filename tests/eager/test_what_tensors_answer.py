"""What tensors and their operators answer to Python: reversed, in, operators of other classes, pickle, odd errors."""

import pickle
from typing import Any

import mpmath  # type: ignore[import-untyped]
import pytest

import jit


class Answering:
    """A class that answers for `tensor op answering` where it defines the mirrored method."""

    def __radd__(self, other):
        return "radd"

    def __rlshift__(self, other):
        return "rlshift"

    def __gt__(self, other):
        return "gt"


def test_the_other_side_is_asked_by_its_own_method():
    x = jit.ones(2, dtype=jit.int64)
    assert (x + Answering(), x << Answering(), x < Answering()) == ("radd", "rlshift", "gt")
    y: Any = x
    y += Answering()
    assert y == "radd"


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + object(), lambda x: x < object(), lambda x: x @ None, lambda x: x & "text",
    ],
)  # fmt: skip
def test_without_such_a_method_the_error_is_ours(use):
    with pytest.raises(jit.Error) as caught:
        use(jit.ones(2, dtype=jit.int64))
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("use", [lambda x, o: x * o, lambda x, o: x > o, lambda x, o: x - o, lambda x, o: x >> o])
def test_without_such_a_method_of_a_program_the_error_is_pythons(use):
    with pytest.raises(TypeError, match=r"not supported between|unsupported operand"):
        use(jit.ones(2, dtype=jit.int64), Answering())


def test_shifts_in_place():
    x = jit.tensor([1, 2, 3])
    same = x
    x <<= 2
    assert same is x and x.tolist() == [4, 8, 12]
    x >>= jit.tensor([1, 2, 3])
    assert x.tolist() == [2, 2, 1]


def test_reversed_is_a_tensor():
    x = jit.arange(6).view(3, 2)
    assert reversed(x).tolist() == x.flip(0).tolist()
    assert reversed(jit.tensor(3)).item() == 3


@pytest.mark.parametrize("element", [2, 2.0, True, 1 + 0j, jit.tensor(3), jit.tensor([1, 9, 9])])
def test_elements_are_found_by_comparing(element):
    x = jit.tensor([1, 2, 3])
    assert element in x
    assert 7 not in x and jit.tensor([9, 9, 9]) not in x
    assert jit.trace(lambda t: t * (2 if 2 in t else 3))(x).tolist() == [2, 4, 6]


@pytest.mark.parametrize("element", ["1", None, [1], (1,)])
def test_other_things_are_not_looked_for(element):
    with pytest.raises(TypeError):
        jit.tensor([1, 2, 3]).__contains__(element)


@pytest.mark.parametrize(
    "function", [jit.tanh, jit.relu, jit.relu_, jit.nn.functional.softsign, jit.linalg.norm, jit.special.erf, jit.clip]
)
def test_functions_of_operators_are_pickled_by_name(function):
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "sum", "prod", "mean"])
def test_dtype_and_out_have_to_agree(name):
    x, function = jit.ones(3), getattr(jit, name)
    out = jit.zeros(3 if name.startswith("cum") else (), dtype=jit.float64)
    with pytest.raises(jit.Error, match="float32"):
        function(x, 0, dtype=jit.float32, out=out)
    function(x, 0, dtype=jit.float64, out=out)
    function(x, 0, out=out)
    assert out.flatten()[0].item() in (1.0, 3.0)


@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "amin", "max", "min", "median", "mode"])
def test_a_choice_from_nothing_is_an_error_of_the_dim(name):
    x = jit.ones(2, 0, 4)
    with pytest.raises(IndexError):
        getattr(jit, name)(x, dim=1)
    with pytest.raises(IndexError):
        jit.trace(lambda t: getattr(jit, name)(t, dim=1))(x)
    assert jit.amax(x, dim=0).shape == (0, 4)


@pytest.mark.parametrize("indices", [[], [0, 0]])
def test_of_one_number_one_is_selected(indices):
    with pytest.raises(jit.Error):
        jit.tensor(1.0).index_select(0, jit.tensor(indices, dtype=jit.int64))
    assert jit.tensor(1.0).index_select(0, jit.tensor([0])).item() == 1


@pytest.mark.parametrize("z", [1e-19 + 1e-18j, 1e-19 + 0j, -1e-10 + 1e-5j, 1e30 + 1e20j, 0.499j, -0.4 + 0.3j])
def test_log1p_of_complex_numbers_near_zero(z):
    with mpmath.workdps(60):
        wanted = complex(mpmath.log(1 + mpmath.mpc(z)))
    for dtype, bound in ((jit.complex128, 1e-9), (jit.complex64, 1e-5)):
        found = jit.log1p(jit.tensor([z], dtype=dtype)).item()
        assert abs(found.real - wanted.real) <= bound * abs(wanted.real)
        assert abs(found.imag - wanted.imag) <= bound * abs(wanted.imag)


@pytest.mark.parametrize("tiny", [0.0, 2.3e-308, 1e-200, 1e-6, 9e-5, -9e-5, 1e-4])
def test_sinc_has_derivatives_at_zero(tiny):
    x = jit.tensor([tiny, 1.0], dtype=jit.float64, requires_grad=True)
    assert jit.autograd.gradcheck(jit.sinc, x) and jit.autograd.gradgradcheck(jit.sinc, x)
    assert jit.sinc(x)[0].item() == pytest.approx(1.0, abs=1e-6)


AS_NUMBERS = {
    "alpha": lambda x, n: jit.add(x, x, alpha=n),
    "value": lambda x, n: jit.addcmul(x, x, x, value=n),
    "slope": lambda x, n: jit.nn.functional.leaky_relu(x, n),
    "tolerance": lambda x, n: jit.isclose(x, x * 2, n, 0.0),
    "limit": lambda x, n: jit.nn.functional.hardtanh(x, 0, n),
}


@pytest.mark.parametrize("way", AS_NUMBERS)
def test_a_tensor_is_a_number_only_without_a_gradient(way):
    x = jit.tensor([-1.0, 2.0])
    assert AS_NUMBERS[way](x, jit.tensor(0.5)).tolist() == AS_NUMBERS[way](x, 0.5).tolist()
    with pytest.raises(TypeError):
        AS_NUMBERS[way](x, jit.tensor(0.5, requires_grad=True))


def test_streams_are_numbers():
    with pytest.raises(TypeError):
        jit.ones(2).__dlpack__(stream=object())


@pytest.mark.parametrize("name", ["max", "median", "sort", "kthvalue", "mode"])
def test_results_have_names_with_out_too(name):
    x = jit.tensor([[3.0, 1.0, 2.0]])
    given = (x, 1, 1) if name == "kthvalue" else (x,)
    options = {} if name == "kthvalue" else {"dim": 1}
    values, indices = jit.empty(0), jit.empty(0, dtype=jit.int64)
    made = getattr(jit, name)(*given, **options, out=(values, indices))
    assert made.values is values and made.indices is indices
    assert values.tolist() == getattr(jit, name)(*given, **options).values.tolist()


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("median", "values", "indices"), ("nanmedian", "values", "indices"), ("kthvalue", "values", "indices"),
     ("mode", "values", "indices"), ("cummax", "values", "indices"), ("aminmax", "min", "max")],
)  # fmt: skip
def test_several_results_have_names(name, first, second):
    x = jit.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    function = getattr(jit, name)
    found = function(x, 2) if name == "kthvalue" else function(x, dim=1)
    assert found[0] is getattr(found, first) and found[1] is getattr(found, second)
    recorded = jit.trace(lambda t: getattr(function(t, 2) if name == "kthvalue" else function(t, dim=1), first))
    assert recorded(x).tolist() == found[0].tolist()
