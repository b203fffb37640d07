"""What errors offer: the name that was perhaps meant, and how tensors of other libraries are converted."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jit
from jit.late import NoSuchName

MISSPELT = [
    ("jit", "sofmax", "softmax"), ("jit.nn", "Linaer", "Linear"), ("jit.nn.functional", "rleu", "relu"),
    ("jit.linalg", "nrm", "norm"), ("jit.optim", "Adm", "Adam"), ("jit.fft", "rftt", "rfft"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name", "meant"), MISSPELT)
def test_a_misspelt_name_of_a_module_gets_the_right_one(module, name, meant):
    found = eval(module, {"jit": jit})
    with pytest.raises(AttributeError, match=rf"'{module}' has no attribute '{name}'; did you mean '{meant}'\?"):
        getattr(found, name)


def test_a_name_that_is_like_no_other_gets_none():
    with pytest.raises(AttributeError, match=r"has no attribute 'qqqqqqqq'$"):
        _ = vars(jit)["__getattr__"]("qqqqqqqq")
    assert not hasattr(jit, "qqqqqqqq")


def test_the_error_for_a_name_can_be_pickled():
    again = pickle.loads(pickle.dumps(NoSuchName("jit", "sofmax")))
    assert str(again) == "module 'jit' has no attribute 'sofmax'; did you mean 'softmax'?"


@pytest.mark.parametrize(("program", "meant"), [("jit.sofmax", "softmax"), ("jit.ones(2).unsqeeze(0)", "unsqueeze")])
def test_a_traceback_guesses_once(program, meant):
    done = subprocess.run([sys.executable, "-c", f"import jit\n{program}"], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1].lower()
    assert last.count("did you mean") == 1 and meant in last


def named(**arguments: Any) -> Any:
    """Arguments that a type checker would not let pass."""
    return arguments


KEYWORDS = {
    "near": (lambda: jit.softmax(jit.ones(2), **named(din=0)), "softmax has no argument din, .*; did you mean dim=\\?"),
    "method": (
        lambda: jit.ones(2).sum(0, **named(keepdimm=True)),
        "no argument keepdimm, .*; did you mean keepdim=\\?",
    ),
    "unlike": (lambda: jit.softmax(jit.ones(2), **named(qqq=0)), "softmax has no argument qqq, .*or mend the spelling"),
    "option": (
        lambda: jit.optim.Adam([jit.ones(2)], **named(foreech=1)),
        "no option 'foreech'; did you mean 'foreach'",
    ),
}


@pytest.mark.parametrize("case", KEYWORDS)
def test_a_misspelt_argument_gets_the_right_one(case):
    call, words = KEYWORDS[case]
    with pytest.raises(TypeError, match=words):
        call()


class Tensor:
    """A tensor of another library, which answers to `+` itself."""

    __module__ = "otherlib.tensors"

    def __dlpack__(self, stream=None):
        return np.ones(2, np.float32).__dlpack__()

    def __dlpack_device__(self):
        return 1, 0

    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        raise AssertionError("the error should come first")

    def __rmatmul__(self, other):
        raise AssertionError("the error should come first")


MIXED = {
    "left": lambda t: jit.ones(2) + t,
    "right": lambda t: t + jit.ones(2),
    "product": lambda t: jit.ones(2) * t,
    "matmul": lambda t: jit.ones(2) @ t,
    "function": lambda t: jit.tanh(t),
    "keyword": lambda t: jit.add(jit.ones(2), other=t),
    "layer": lambda t: jit.nn.Linear(2, 2)(t),
    "traced": lambda t: jit.trace(lambda x: x + t)(jit.ones(2)),
    "argument": lambda t: jit.trace(lambda x, y: jit.tanh(x) + y)(jit.ones(2), t),
    "returned": lambda t: jit.trace(lambda x: x)(t),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_tensor_of_another_library_is_to_be_converted(case):
    with pytest.raises(jit.Error, match=r"convert the Tensor of otherlib with jit\.from_dlpack\(tensor\)"):
        MIXED[case](Tensor())
    assert jit.from_dlpack(Tensor()).tolist() == [1, 1]


def test_a_comparison_with_a_foreign_tensor_is_an_answer():
    assert not bool(jit.ones(2) == Tensor())


def test_an_array_that_a_traced_function_returns_is_to_be_converted():
    with pytest.raises(jit.TraceError, match=r"convert the numpy array with jit\.from_numpy\(array\) before the call"):
        jit.trace(lambda x: x * 2)(np.ones(2))


def test_a_vector_is_no_condition():
    with pytest.raises(jit.UsageError, match=r"a tensor of 2 elements is neither true nor false; use its any\(\) or"):
        bool(jit.ones(2) > 0)


CELL = """
import jit
def mine(x):
    return jit.matmul(x, jit.ones(5))
mine(jit.ones(2, 3))
"""


def test_a_notebook_shows_the_frames_of_the_user_alone():
    pytest.importorskip("IPython")
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.run_cell({CELL!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "in mine(x)" in done.stdout and "jit.matmul(x, jit.ones(5))" in done.stdout
    assert "ShapeError" in done.stdout and "[2, 3] and [5] do not fit" in done.stdout
    assert "dispatch.py" not in done.stdout and "functions.py" not in done.stdout
