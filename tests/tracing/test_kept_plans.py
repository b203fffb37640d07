"""Plans in the cache: another recording of the same graph runs them as they are, and nothing else is ever run."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.pytree import flatten
from jit.ir.errors import DivisionError, Error
from jit.runtime.kernels import cache as caching
from jit.runtime.kernels import recipes
from jit.runtime.kernels.code_store import STORE
from jit.runtime.plans import entry, plan_image
from jit.runtime.plans.restored import RestoredEngine
from jit.tracing.recordings import compiling, kept_plans, recording
from tests import random_graphs

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not entry.available(), reason="plans are kept where calls are native"),
]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """An empty cache. The sources count as unchanged, even if they were written a moment ago."""
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    monkeypatch.setattr(recipes, "sources", lambda: "these")
    caching.shared.cache_clear()
    yield tmp_path
    caching.shared.cache_clear()


@pytest.fixture
def plans(monkeypatch):
    """The interpreters that recordings get from now on."""
    found = []
    made = recording.Recording._plan

    def noted(*args):
        found.append(made(*args))
        return found[-1]

    monkeypatch.setattr(recording.Recording, "_plan", noted)
    return found


def recalled(plans):
    return [isinstance(plan.interpreter, RestoredEngine) for plan in plans]


def gates(x, w):
    a, b = jit.chunk(x @ w, 2, 1)
    return jit.sigmoid(a) * jit.tanh(b) + 2


def tensors(*shapes):
    rng = np.random.default_rng(0)
    return [jit.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]


def called(function, *args, times=3):
    """What the last of some calls of a new recording returns."""
    traced = jit.trace(function)
    with jit.no_grad():
        return traced, [traced(*args) for _ in range(times)][-1]


def called_twice(function, *args):
    """The same as arrays, of two recordings."""
    results = [called(function, *args)[1] for _ in range(2)]
    return [np.asarray(result) for result in results]


# -- what is recalled --------------------------------------------------------------------------------------------


def test_a_second_recording_runs_the_plan_of_the_first(plans, monkeypatch):
    x, w = tensors((5, 16), (16, 32))
    first = np.asarray(called(gates, x, w)[1])
    monkeypatch.setattr(compiling, "run", lambda *args, **options: pytest.fail("a pass has run"))
    second = np.asarray(called(gates, x, w)[1])
    assert recalled(plans) == [False, True]
    assert first.tobytes() == second.tobytes()
    assert np.allclose(second, np.asarray(gates(x, w)), rtol=1e-5)


def constant_sum(x):
    return x + jit.tensor([0.1, 0.2, 0.3])


def many_results(x):
    y = x * 2
    return y, {"sum": y.sum(), "none": None}, [x - 1, y]


PROGRAMS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "one op": (lambda x: x + 1, [(7,)]),
    "a product of BLAS": (lambda a, b: a @ b, [(3, 5), (5, 2)]),
    "a packed product": (lambda a, b: jit.relu(a @ b), [(64, 64), (64, 64)]),
    "a convolution": (lambda x, w: jit.nn.functional.conv2d(x, w, padding=1), [(2, 3, 9, 9), (8, 3, 3, 3)]),
    "pooling": (lambda x: jit.nn.functional.max_pool2d(x, 2), [(2, 3, 8, 8)]),
    "a constant": (constant_sum, [(3,)]),
    "a softmax": (lambda x: jit.softmax(x, -1), [(4, 33)]),
    "sizes": (lambda x: x.reshape(x.shape[0] * x.shape[1]) / x.shape[0], [(4, 3)]),
    "a layer norm": (lambda x, w: jit.nn.functional.layer_norm(x, list(w.shape), w), [(4, 8), (8,)]),
    "no elements": (lambda x: x * 2, [(0, 3)]),
    "no dims": (lambda x: jit.exp(x), [()]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kind_of_work_can_be_recalled(plans, name):
    function, shapes = PROGRAMS[name]
    first, second = called_twice(function, *tensors(*shapes))
    assert first.tobytes() == second.tobytes()
    assert recalled(plans) == [False, True]


@pytest.mark.parametrize("dtype", ["bool_", "int8", "int64", "float16", "float64", "complex64"])
def test_every_dtype_can_be_recalled(plans, dtype):
    x = jit.from_numpy(np.arange(6).reshape(2, 3).astype(getattr(np, dtype)))
    first, second = called_twice(lambda a: jit.cat([a, a]) if dtype == "bool_" else a * a, x)
    assert first.dtype == second.dtype
    assert first.tobytes() == second.tobytes()
    assert recalled(plans) in ([False, True], [False, False])  # complex numbers may have no kernel


def test_results_keep_their_structure(plans):
    (x,) = tensors((4, 3))
    for _ in range(2):
        results: Any = called(many_results, x)[1]
        y, named, listed = results
        assert named["none"] is None
        assert np.array_equal(np.asarray(y), np.asarray(x) * 2)
        assert listed[1] is y
    assert recalled(plans) == [False, True]


def test_a_training_step_is_recalled(plans):
    def step(w, x):
        (g,) = jit.grad((jit.tanh(x @ w) ** 2).sum(), [w])
        return w - 0.1 * g

    w, x = tensors((16, 8), (4, 16))
    found = []
    for _ in range(2):
        traced = jit.trace(step)
        found.append([np.asarray(traced(w.detach().requires_grad_(), x).detach()) for _ in range(3)][-1])
    assert recalled(plans) == [False, True]
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_have_the_same_bits(plans, seed):
    arrays = [jit.from_numpy(array) for array in random_graphs.inputs(seed)]
    results = [flatten(called(random_graphs.program(seed), *arrays)[1])[0] for _ in range(2)]
    assert recalled(plans) == [False, True]
    for first, second in zip(*results, strict=True):
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


def test_guards_are_looked_at(plans):
    def program(x):
        return x * 2 if float(x.sum()) > 0 else jit.flip(x, [0]) * 3

    x = jit.tensor([1.0, 2.0])
    for _ in range(2):
        plans.clear()
        traced = called(program, x)[0]
        assert np.asarray(traced(x)).tolist() == [2, 4]
        assert np.asarray(traced(-x)).tolist() == [-6, -3]
        assert np.asarray(traced(-x)).tolist() == [-6, -3]
        assert np.asarray(traced(x)).tolist() == [2, 4]
    assert all(recalled(plans))


def test_random_draws_and_buffers_go_on(plans):
    def program(x, seen):
        seen += 1
        return jit.nn.functional.dropout(x, 0.5, True) + seen

    (x,) = tensors((50,))
    found = []
    for _ in range(2):
        jit.manual_seed(3)
        traced, seen = jit.trace(program), jit.zeros(1)
        found.append([np.asarray(traced(x, seen)).tolist() for _ in range(4)])
        assert seen.tolist() == [4]
    assert recalled(plans) == [False, True]
    assert found[0] == found[1]
    assert found[0][2] != found[0][3]


class Doubled(jit.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_what_calls_python_is_not_kept(plans):
    x = jit.ones(3)
    called_twice(lambda x: Doubled.apply(x) + 1, x)
    assert recalled(plans) == [False, False]


# -- names -------------------------------------------------------------------------------------------------------


def name_of(function, *args):
    names = []

    def noted(trace):
        names.append(kept_plans.name_of(trace))
        return names[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "name_of", noted)
        called(function, *args)
    assert names[0] is not None
    return names[0]


VARIANTS = [
    lambda x: jit.add(x, x, alpha=2),
    lambda x: jit.add(x, x, alpha=2.0),
    lambda x: jit.add(x, x, alpha=-2),
    lambda x: x + 1,
    lambda x: x + 1.0,
    lambda x: x + True,
    lambda x: x - 1,
    lambda x: 1 - x,
    lambda x: (x + 1, x),
    lambda x: (x, x + 1),
    lambda x: x.sum(0),
    lambda x: x.sum(1),
    lambda x: x.sum(1, keepdim=True),
    lambda x: x + jit.tensor([1.0, 2.0, 3.0]),
    lambda x: x + jit.tensor([1.0, 2.0, 4.0]),
    lambda x: x + jit.tensor([[1.0, 2.0, 3.0]]),
    lambda x: x * 0.0,
    lambda x: x * -0.0,
]


def test_different_programs_have_different_names(monkeypatch):
    (x,) = tensors((3, 3))
    names = [name_of(function, x) for function in VARIANTS]
    assert len(set(names)) == len(names)
    others = [name_of(VARIANTS[3], y) for y in (x.double(), x[:2], x.t(), x[::2])]
    assert len({names[3], *others}) == 5
    monkeypatch.setenv("JIT_NUM_THREADS", "7")
    assert name_of(VARIANTS[3], x) != names[3]
    monkeypatch.setattr(recipes, "sources", lambda: "others")
    assert name_of(VARIANTS[4], x) != names[4]


def test_names_of_values_and_lines_do_not_count():
    (x,) = tensors((3, 3))
    assert name_of(lambda a: jit.tanh(a) + 1, x) == name_of(lambda other: jit.tanh(other) + 1, x)


# -- more than a call --------------------------------------------------------------------------------------------


def test_arrays_that_lie_otherwise_are_computed_all_the_same(plans):
    x, w = tensors((5, 16), (16, 32))
    called(gates, x, w)
    plan_of = called(gates, x, w)[0]
    (interpreter,) = [plan.interpreter for plan in plans if isinstance(plan.interpreter, RestoredEngine)]
    strided = np.asfortranarray(np.asarray(x))
    (found,), _, _ = interpreter.run(0, [strided, np.asarray(w)])
    assert np.allclose(found, np.asarray(plan_of(x, w)), rtol=1e-6)


def test_an_error_names_the_line(plans):
    def divided(x, y):
        return x // y

    x, y = jit.tensor([1, 2]), jit.tensor([1, 1])
    called(divided, x, y)
    traced = called(divided, x, y)[0]
    assert recalled(plans) == [False, True]
    with pytest.raises(DivisionError, match="in divided"):
        traced(x, jit.tensor([0, 1]))
    assert np.asarray(traced(x, y)).tolist() == [1, 2]


def test_an_error_of_a_node_without_kernel_names_the_line(plans):
    def chosen(x, index):
        return jit.flip(x, [0])[index] * 2

    x, index = jit.tensor([1.0, 2.0]), jit.tensor([1, 0])
    traced = [called(chosen, x, index)[0] for _ in range(2)][-1]
    assert recalled(plans) == [False, True]
    with pytest.raises(Error) as raised:
        traced(x, jit.tensor([0, 2]))
    assert "in chosen" in "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


def test_kernels_of_a_recalled_plan_can_be_looked_at(plans):
    x, w = tensors((5, 16), (16, 32))
    names = [[kernel.name for kernel in called(gates, x, w)[0].kernels] for _ in range(2)]
    assert recalled(plans) == [False, True]
    assert names[0] == names[1] != []


def test_a_backward_after_a_recalled_forward(plans):
    def program(x):
        return jit.tanh(x * x)

    (x,) = tensors((6,))
    called(program, x)
    traced = called(program, x)[0]
    assert recalled(plans) == [False, True]
    leaf = x.detach().requires_grad_()
    for _ in range(3):
        (gradient,) = jit.grad(traced(leaf).sum(), [leaf])
        expected = 2 * np.asarray(x) * (1 - np.tanh(np.asarray(x) ** 2) ** 2)
        assert np.allclose(np.asarray(gradient), expected, rtol=1e-5)
    with jit.no_grad():
        assert np.allclose(np.asarray(traced(x)), np.tanh(np.asarray(x) ** 2), rtol=1e-6)


def test_a_recalled_plan_outlives_the_growth_of_its_recording(plans):
    def program(x, y):
        return jit.tanh(x) // y

    x, y = tensors((6,), (6,))
    leaf = x.detach().requires_grad_()
    for _ in range(2):
        traced = jit.trace(program)
        results = [traced(leaf, y) for _ in range(3)]
        interpreter = plans[-1].interpreter
    assert recalled(plans) == [False, True]
    (results[-1] * y).sum().backward()  # records a stage
    strided = np.repeat(np.asarray(x), 2)[::2]
    (found,), _, _ = interpreter.run(0, [strided, np.asarray(y)])
    assert len(interpreter.graph.stages) == 1
    assert np.array_equal(found, np.asarray(results[-1].detach()))


# -- what is not trusted -----------------------------------------------------------------------------------------


def fresh(monkeypatch):
    """As in a new process, no machine code is in memory."""
    for name in ("images", "by_place", "codes"):
        monkeypatch.setattr(STORE, name, {})


def kept_files(folder):
    return sorted(path for path in folder.iterdir() if path.name != "secret")


def scaled(x):
    return x * 3 + 1


@pytest.mark.parametrize("step", [41, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_bit_anywhere_is_noticed(plans, folder, monkeypatch, step):
    (x,) = tensors((5,))
    fresh(monkeypatch)
    expected = np.asarray(called(scaled, x)[1]).tobytes()
    whole = {path: path.read_bytes() for path in kept_files(folder)}
    assert len(whole) >= 3  # the plan, its object file, a record of it
    for path, data in whole.items():
        for place in range(0, len(data), step):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
            fresh(monkeypatch)
            assert np.asarray(called(scaled, x, times=2)[1]).tobytes() == expected
            path.write_bytes(data)


@pytest.mark.parametrize("damage", ["cut", "empty", "swapped", "gone"])
def test_damaged_entries_are_made_again(plans, folder, monkeypatch, damage):
    (x,) = tensors((5,))
    fresh(monkeypatch)
    expected = np.asarray(called(scaled, x)[1]).tobytes()
    files = kept_files(folder)
    whole = [path.read_bytes() for path in files]
    for number, path in enumerate(files):
        if damage == "gone":
            path.unlink()
        else:
            other = whole[(number + 1) % len(files)]
            path.write_bytes({"cut": whole[number][:-9], "empty": b"", "swapped": other}[damage])
        fresh(monkeypatch)
        assert np.asarray(called(scaled, x)[1]).tobytes() == expected
        fresh(monkeypatch)
        assert np.asarray(called(scaled, x)[1]).tobytes() == expected
        assert recalled(plans)[-1]


def test_a_number_that_may_be_an_address_is_not_kept(plans, monkeypatch):
    monkeypatch.setattr(plan_image, "_functions", lambda: {})
    called_twice(scaled, tensors((5,))[0])
    assert recalled(plans) == [False, False]


def test_where_addresses_are_small_no_plan_is_kept(plans, monkeypatch):
    known = plan_image._functions
    monkeypatch.setattr(plan_image, "_functions", lambda: {**known(), 1 << 33: ("blas", "gemm", "float32")})
    called_twice(scaled, tensors((5,))[0])
    monkeypatch.setattr(plan_image, "_functions", known)
    monkeypatch.setattr(plan_image, "_LEAST_ADDRESS", 1 << 62)
    called_twice(scaled, tensors((5,))[0])
    assert recalled(plans) == [False] * 4


PROGRAM = """
    import sys
    import numpy as np
    import jit
    from jit.tracing.recordings import recording
    from jit.runtime.plans.restored import RestoredEngine

    plans = []
    made = recording.Recording._plan
    recording.Recording._plan = lambda *args: plans.append(made(*args)) or plans[-1]
    f = jit.trace(lambda x, w: jit.tanh(x @ w).sum(0) + x.mean())
    rng = np.random.default_rng(0)
    x, w = (jit.from_numpy(rng.standard_normal((16, 16)).astype(np.float32)) for _ in range(2))
    for _ in range(3):
        result = f(x, w)
    print(np.asarray(result).tobytes().hex(), isinstance(plans[0].interpreter, RestoredEngine))
"""


@pytest.fixture
def package(tmp_path_factory):
    """A copy of the package that nobody has touched for some time, as after an installation."""
    import shutil

    root = tmp_path_factory.mktemp("installed")
    shutil.copytree(Path(jit.__file__).parent, root / "jit", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def started(package, folder):
    program = "import jit.ir.loading, time; jit.ir.loading.BEGAN = time.time_ns() + 10**10" + textwrap.dedent(PROGRAM)
    environment = {**os.environ, "JIT_CACHE": str(folder), "PYTHONPATH": str(package)}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


def test_processes_that_start_at_once_agree(package, folder):
    for expected in ({"True", "False"}, {"True"}):
        processes = [started(package, folder) for _ in range(4)]
        found = [process.communicate()[0].split() for process in processes]
        assert [process.returncode for process in processes] == [0] * 4
        assert len({result for result, _ in found}) == 1
        assert {was_recalled for _, was_recalled in found} <= expected
