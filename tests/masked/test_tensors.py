"""Masked tensors: what operators do to values and masks, gradients, traces, and how they print."""

import copy
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit import masked
from jit.ir.errors import KindError
from tests import tolerances

assert_close = partial(tolerances.assert_close, check_dtype=False)
"""References are in float64."""

VALUES = np.array([[1.0, 4.0, 9.0], [16.0, 25.0, 0.0]], dtype=np.float32)
MASK = np.array([[True, False, True], [False, False, True]])
ROOT = Path(__file__).resolve().parents[2]


def made(requires_grad=False):
    return masked.masked_tensor(jit.tensor(VALUES), jit.tensor(MASK), requires_grad)


def assert_holds(found, values, mask):
    """The mask of a masked tensor, and the values where it is true."""
    assert masked.is_masked_tensor(found) and jit.is_tensor(found)
    assert found.get_mask().numpy().tolist() == np.asarray(mask).tolist()
    assert_close(found.get_data().numpy()[np.asarray(mask)], np.asarray(values)[np.asarray(mask)])


FOR_EACH = {
    "sqrt": (lambda m: m.sqrt(), np.sqrt(VALUES)),
    "exp": (jit.exp, np.exp(VALUES)),
    "relu": (jit.nn.functional.relu, VALUES),
    "neg": (lambda m: -m, -VALUES),
    "abs": (abs, VALUES),
    "plus number": (lambda m: m + 1, VALUES + 1),
    "number minus": (lambda m: 1 - m, 1 - VALUES),
    "number over": (lambda m: 2 / (m + 1), 2 / (VALUES + 1)),
    "power": (lambda m: m**2, VALUES**2),
    "times itself": (lambda m: m * m, VALUES * VALUES),
    "plus tensor": (lambda m: m + jit.ones(3), VALUES + 1),
    "tensor plus": (lambda m: jit.ones(2, 3) + m, VALUES + 1),
    "remainder": (lambda m: m % 4, VALUES % 4),
    "greater": (lambda m: (m > 5).float(), (VALUES > 5).astype(np.float32)),
    "equal": (lambda m: (m == 9).float(), (VALUES == 9).astype(np.float32)),
    "maximum": (lambda m: jit.maximum(m, m * 2), VALUES * 2),
    "gelu of zeros": (lambda m: jit.nn.functional.gelu(m * 0), VALUES * 0),
    "double": (lambda m: m.double(), VALUES),
}


@pytest.mark.parametrize("name", FOR_EACH)
def test_values_change_and_the_mask_stays(name):
    call, expected = FOR_EACH[name]
    assert_holds(call(made()), expected, MASK)


MOVING: dict[str, tuple[Any, Any]] = {
    "t": (lambda m: m.t(), np.transpose),
    "T": (lambda m: m.T, np.transpose),
    "transpose": (lambda m: m.transpose(0, 1), np.transpose),
    "permute": (lambda m: m.permute(1, 0), np.transpose),
    "view": (lambda m: m.view(-1), np.ravel),
    "reshape": (lambda m: jit.reshape(m, (3, 2)), lambda x: x.reshape(3, 2)),
    "flatten": (lambda m: m.flatten(), np.ravel),
    "unsqueeze": (lambda m: m.unsqueeze(1), lambda x: x[:, None]),
    "expand": (lambda m: m[:1].expand(4, 3), lambda x: np.broadcast_to(x[:1], (4, 3))),
    "row": (lambda m: m[1], lambda x: x[1]),
    "slice": (lambda m: m[:, 1:], lambda x: x[:, 1:]),
    "select": (lambda m: m.select(1, 2), lambda x: x[:, 2]),
    "narrow": (lambda m: m.narrow(1, 0, 2), lambda x: x[:, :2]),
    "cat": (lambda m: jit.cat([m, m], 1), lambda x: np.concatenate([x, x], 1)),
    "stack": (lambda m: jit.stack([m, m]), lambda x: np.stack([x, x])),
    "second of split": (lambda m: m.split(2, 1)[1], lambda x: x[:, 2:]),
    "second of unbind": (lambda m: m.unbind()[1], lambda x: x[1]),
    "second in a loop": (lambda m: list(m)[1], lambda x: x[1]),
    "index_select": (lambda m: m.index_select(1, jit.tensor([2, 0])), lambda x: x[:, [2, 0]]),
    "clone": (lambda m: m.clone(), lambda x: x),
    "contiguous": (lambda m: m.t().contiguous(), np.transpose),
    "detach": (lambda m: m.detach(), lambda x: x),
}


@pytest.mark.parametrize("name", MOVING)
def test_values_and_masks_move_together(name):
    call, expected = MOVING[name]
    assert_holds(call(made()), expected(VALUES), expected(MASK))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod"])
def test_reductions_leave_out_what_is_hidden(name):
    reduce = getattr(np, name.replace("amax", "max").replace("amin", "min"))
    m = made()
    assert_holds(getattr(m, name)(), np.array(reduce(VALUES[MASK])), np.array(True))
    columns = np.array([reduce(VALUES[:1, 0]), 0, reduce(VALUES[:, 2])])
    assert_holds(getattr(m, name)(0), columns, [True, False, True])
    assert_holds(getattr(jit, name)(m, 0, keepdim=True), columns[None], [[True, False, True]])
    assert_holds(getattr(m, name)(dim=0, keepdim=True), columns[None], [[True, False, True]])


def test_norm_all_and_softmax():
    m = made()
    assert_holds(m.norm(), np.array(np.sqrt(82.0)), np.array(True))
    assert m.all().item() is False and m[:1].all().item() is True
    assert_holds(m.softmax(1)[1], np.array([0, 0, 1.0]), MASK[1])
    assert_holds(jit.where(jit.tensor(MASK), m, m + 1), VALUES, MASK)


def test_masked_functions_take_masked_tensors():
    assert masked.sum(made()).item() == 10 and masked.mean(made(), 1).tolist() == [5, 0]
    assert masked.sum(made(), mask=jit.ones(2, 3, dtype=jit.bool)).item() == 55


def test_numbers_take_the_place_of_what_is_hidden():
    assert made().to_tensor(-1).tolist() == [[1, -1, 9], [-1, -1, 0]]


def test_gradients_of_leaves_are_masked_tensors():
    m = made(requires_grad=True)
    (m.exp() / 2).sum().backward()
    assert_holds(m.grad, np.exp(VALUES) / 2, MASK)
    assert m.is_leaf and m.requires_grad and m.shape == (2, 3) and m.dtype is jit.float32


def test_gradients_of_what_is_hidden_are_dropped_whatever_they_are():
    x = jit.tensor([4.0, 0.0], requires_grad=True)
    (masked.as_masked_tensor(x, jit.tensor([True, False])).sqrt() * 0).sum().backward()
    assert x.grad.tolist() == [0, 0]  # and not NaN, the 0 of the hidden result times the infinite derivative
    y = jit.tensor([4.0, 9.0], requires_grad=True)
    masked.as_masked_tensor(y, jit.tensor([True, False])).get_data().sum().backward()
    assert y.grad.tolist() == [1, 0]


def test_values_are_copied():
    x, mask = jit.zeros(2), jit.tensor([True, False])
    m = masked.masked_tensor(x, mask)
    x.add_(1)
    mask.fill_(True)
    assert m.get_data().tolist() == [0, 0] and m.get_mask().tolist() == [True, False]


def test_traces_take_masked_tensors():
    f = jit.trace(lambda m: (m * 2).sum(1))
    for values in (VALUES, VALUES + 1, VALUES + 2, VALUES + 3):
        m = masked.masked_tensor(jit.tensor(values), jit.tensor(MASK))
        assert_holds(f(m), [2 * (values[0, 0] + values[0, 2]), 2 * values[1, 2]], [True, True])
    assert f.hits >= 2


def test_copies_and_pickles():
    for other in (copy.deepcopy(made()), pickle.loads(pickle.dumps(made()))):
        assert_holds(other + 1, VALUES + 1, MASK)


@pytest.mark.parametrize("kind", ["masked", "sparse"])
def test_pickles_answer_in_a_process_that_has_made_none(kind):
    given = made() if kind == "masked" else jit.eye(2).to_sparse()
    program = f"import pickle; made = pickle.loads({pickle.dumps(given)!r}); print((made + made).sum().item())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == ("20.0\n" if kind == "masked" else "4.0\n"), done.stderr


def test_print():
    assert repr(made()) == (
        "MaskedTensor(\n  [\n    [  1.0000,       --,   9.0000],\n    [      --,       --,   0.0000]\n  ]\n)"
    )
    assert repr(made().sum()) == "MaskedTensor( 10.0000, True)" and repr(made()[0, 1]) == "MaskedTensor(--, False)"
    assert repr(masked.masked_tensor(jit.tensor([1, 20]), jit.tensor([False, True]))) == (
        "MaskedTensor(\n  [      --, 20]\n)"
    )


def test_refusals():
    m, ones = made(), jit.ones(2, 3)
    with pytest.raises(jit.UsageError, match="masks of the operands differ"):
        m + masked.masked_tensor(ones, ones.bool())
    with pytest.raises(jit.UsageError, match=r"matmul does not take masked tensors; use to_tensor\(value\)"):
        m @ m.t()
    with pytest.raises(jit.Error, match="not changed in place; use what add returns"):
        m.add_(1)
    with pytest.raises(KindError, match="data is a list"):
        masked.masked_tensor([1.0], jit.tensor([True]))
    with pytest.raises(KindError, match=r"a mask is of bools, not int64; convert it with .bool\(\)"):
        masked.masked_tensor(jit.ones(1), jit.tensor([1]))
    with pytest.raises(jit.ShapeError, match="must equal"):
        masked.masked_tensor(jit.ones(2), jit.tensor([True]))
    with pytest.raises(AttributeError):
        m.nonsense  # noqa: B018
