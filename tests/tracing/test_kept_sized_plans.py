"""Plans for many sizes in the cache: other recordings of the same program run them, at old sizes and at new ones."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.ir.errors import DivisionError, ParseError
from jit.ir.sizes import SizeSymbol, greatest
from jit.runtime.kernels import cache as caching
from jit.runtime.kernels import recipes
from jit.runtime.kernels.code_store import STORE
from jit.runtime.plans import entry, plan_image
from jit.runtime.plans.restored import RestoredEngine
from jit.runtime.plans.sized_words import checked
from jit.tracing.recordings.sized_plans import SizedPlans

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not entry.available(), reason="plans are kept where calls are native"),
]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache. The sources count as unchanged, even if they were written a moment ago."""
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    monkeypatch.setattr(recipes, "sources", lambda: "these")
    caching.shared.cache_clear()
    yield tmp_path
    caching.shared.cache_clear()


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The interpreters that general recordings get from now on."""
    found = []
    planned = SizedPlans._planned

    def noted(self: SizedPlans, sizes: tuple[int, ...]) -> Any:
        made = planned(self, sizes)
        found.append(made.plan.interpreter)
        return made

    monkeypatch.setattr(SizedPlans, "_planned", noted)
    return found


def recalled(plans: Sequence[Any]) -> list[bool]:
    return [isinstance(plan, RestoredEngine) for plan in plans]


def random(*shape: int, seed: int = 0) -> Any:
    drawn = np.random.default_rng([*shape, seed]).standard_normal(shape)
    return jit.from_numpy(drawn.astype(np.float32))


def flat(results: Any) -> list[Any]:
    found: list[Any] = (
        [results] if isinstance(results, jit.Tensor) else [part for each in results for part in flat(each)]
    )
    return found


def check(function: Any, traced: Any, arguments: Sequence[Any]) -> None:
    """A traced call gives what the function gives."""
    for found, wanted in zip(flat(traced(*arguments)), flat(function(*arguments)), strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        assert np.allclose(found.detach(), wanted.detach(), rtol=1e-4, atol=1e-4)


def run(function: Any, arguments: Callable[[int], Sequence[Any]], sizes: Sequence[int]) -> Any:
    """A new recording that has been called with each of these sizes, results compared."""
    traced = jit.trace(function)
    with jit.no_grad():
        for n in sizes:
            check(function, traced, arguments(n))
    return traced


class Attention(jit.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = jit.nn.Linear(16, 48), jit.nn.Linear(16, 16), jit.nn.LayerNorm(16)

    def forward(self, x: Any, cache: Any = None) -> Any:
        b, n, _ = x.shape
        q, k, v = (part.view(b, n, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        if cache is not None:
            k, v = jit.cat([cache[0], k], 2), jit.cat([cache[1], v], 2)
        weights = jit.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(b, n, 16)), (k, v)


def net() -> Any:
    return jit.nn.Sequential(
        jit.nn.Conv2d(3, 8, 3, padding=1), jit.nn.BatchNorm2d(8), jit.nn.ReLU(), jit.nn.MaxPool2d(2),
        jit.nn.Conv2d(8, 8, 3, padding=1, groups=8), jit.nn.AvgPool2d(2), jit.nn.AdaptiveAvgPool2d(1), jit.nn.Flatten(),
        jit.nn.Linear(8, 4),
    ).eval()  # fmt: skip


def mlp() -> Any:
    return jit.nn.Sequential(jit.nn.Linear(16, 32), jit.nn.GELU(), jit.nn.Linear(32, 8))


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[int], Sequence[Any]]]] = {
    "pointwise": (lambda: lambda x: jit.tanh(x) * 2 + x.shape[0], lambda n: [random(n, 5)]),
    "reductions": (lambda: lambda x: (x.mean(0), x.var(1), jit.logsumexp(x, 0)), lambda n: [random(n, 40)]),
    "products": (lambda: lambda x, w: jit.relu(x @ w) @ w.t(), lambda n: [random(n, 16), random(16, 32)]),
    "batches": (lambda: lambda x: jit.softmax(x @ x.mT, -1) @ x, lambda n: [random(2, n, 8)]),
    "a layer": (mlp, lambda n: [random(n, 16)]),
    "attention": (Attention, lambda n: [random(2, n, 16)]),
    "a cache that grows": (
        Attention, lambda n: [random(1, 1, 16), (random(1, 2, n, 8), random(1, 2, n, 8, seed=1))],
    ),
    "an image": (net, lambda n: [random(2, 3, n + 6, n + 8)]),
    "a convolution of fixed sizes": (
        lambda: lambda x, y, w: (x * 2, F.max_pool2d(F.conv2d(y, w), 2)),
        lambda n: [random(n), random(2, 3, 9, 9), random(8, 3, 3, 3)],
    ),
    "nodes without kernels": (
        lambda: lambda x: jit.flip(jit.cumsum(x, 0), [0]).view(x.shape[0] * 6) * x.shape[0], lambda n: [random(n, 6)],
    ),
    "sizes as results": (lambda: lambda x: (x.sum(), jit.arange(x.shape[0] // 2 + 1)), lambda n: [random(n, 3)]),
    "ranges and masks": (
        lambda: lambda x: (
            jit.arange(x.shape[0], 2 * x.shape[0]) + jit.linspace(0, 1, x.shape[0]), jit.eye(x.shape[0]) * x.shape[0],
            jit.where(jit.ones(x.shape[0], x.shape[0], dtype=jit.bool).tril(), x.sum(), 0), jit.zeros(x.shape[0]),
        ),
        lambda n: [random(n, 3)],
    ),
    "views": (lambda: lambda x: (x[1:], x.t(), x * 1), lambda n: [random(n, 3)]),
    "a constant": (lambda: lambda x: x + jit.tensor([0.1, 0.2, 0.3]), lambda n: [random(n, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_recording_runs_the_plan_of_the_first(
    plans: list[Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make, arguments = PROGRAMS[name]
    function = make()
    run(function, arguments, (5, 6, 7, 9, 8))
    assert recalled(plans) == [False]
    plans.clear()
    monkeypatch.setattr(SizedPlans, "_made_for", lambda self, sizes: pytest.fail("planned once more"))
    run(function, arguments, (7, 10, 9, 8, 11, 6, 5, 12))
    assert recalled(plans) == [True]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["pointwise", "reductions", "products", "an image", "a convolution of fixed sizes"])
def test_threads_share_the_steps_of_recalled_plans(
    plans: list[Any], monkeypatch: pytest.MonkeyPatch, name: str, threads: int
) -> None:
    from jit.runtime.kernels.nest_work import NestWork
    from jit.runtime.kernels.work import Work

    for kind in (NestWork, Work):
        monkeypatch.setattr(kind, "long", 1)
    monkeypatch.setenv("JIT_NUM_THREADS", str(threads))
    make, arguments = PROGRAMS[name]
    function = make()
    for sizes in ((40, 41, 42, 50), (45, 44, 43, 60, 70)):
        run(function, arguments, sizes)
    assert recalled(plans) == [False, True]


def test_backwards_are_recalled(plans: list[Any]) -> None:
    layer = mlp()
    for sizes in ((5, 6, 7, 9), (7, 10, 9, 8)):
        traced = jit.trace(layer)
        for n in sizes:
            gradients = []
            for function in (traced, layer):
                layer.zero_grad()
                x = random(n, 16).requires_grad_()
                (function(x) ** 2).sum().backward()
                gradients.append([np.asarray(p.grad) for p in (x, *layer.parameters())])
            assert all(np.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(*gradients, strict=True))
    assert recalled(plans) == [False, True]


def test_a_training_step_is_recalled(plans: list[Any]) -> None:
    found = []
    for traces in (False, True, True):
        jit.manual_seed(3)
        layer = mlp()
        optimizer = jit.optim.Adam(layer.parameters(), lr=0.05)

        def step(x: Any, layer: Any = layer, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = F.dropout(layer(x), 0.3).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        call = jit.trace(step) if traces else step
        found.append([float(call(random(n, 16))) for n in (5, 6, 7, 9, 8, 12)])
    assert recalled(plans) == [False, True]
    assert np.allclose(found[0], found[1], rtol=1e-3)
    assert found[1] == found[2]


def test_guards_are_looked_at(plans: list[Any]) -> None:
    def program(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else jit.flip(x, [0]) * 3

    for _ in range(2):
        traced = jit.trace(program)
        for n in (3, 4, 5, 6, 7):
            x = jit.arange(n).float()
            for given in (x, -x, x):
                assert np.array_equal(np.asarray(traced(given)), np.asarray(program(given)))
    assert recalled(plans) == [False, False, True, True]


def test_each_magnitude_has_a_plan(plans: list[Any]) -> None:
    function = mlp()
    sizes = (5, 6, 7, 400)
    run(function, lambda n: [random(n, 16)], sizes)
    run(function, lambda n: [random(n, 16)], sizes)
    run(function, lambda n: [random(n, 16)], (300, 301, 302, 9))
    run(function, lambda n: [random(n, 16)], (5000, 5001, 5002))
    assert recalled(plans) == [False, False, True, True, True, True, False]


def test_conditions_are_kept(plans: list[Any]) -> None:
    """Few rows are multiplied by other code, so the plan for many is not for them."""
    make, arguments = PROGRAMS["products"]
    function = make()
    for sizes in ((5, 6, 7), (5, 6, 3, 7, 2), (5, 6, 7, 2, 3, 8)):
        run(function, arguments, sizes)
    assert recalled(plans) == [False, False, True, True, True]


# -- names -------------------------------------------------------------------------------------------------------


def test_plans_of_other_programs_versions_and_machines_are_not_run(
    plans: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def double(x: Any) -> Any:
        return x * 2

    def arguments(n: int) -> Sequence[Any]:
        return [random(n, 3)]

    sizes = (3, 4, 5)
    run(double, arguments, sizes)
    run(lambda x: x * 3, arguments, sizes)
    run(lambda x: x * 2.5, arguments, sizes)
    run(double, lambda n: [random(n, 4)], sizes)
    run(double, lambda n: [random(3, n)], sizes)
    run(double, lambda n: [random(n, n + 1)], sizes)
    run(lambda x: x * x.shape[0], arguments, sizes)
    run(lambda x: x * (x.shape[0] + 1), arguments, sizes)
    run(lambda x: x * 2 if x.shape[0] != 40 else x, arguments, sizes)
    monkeypatch.setenv("JIT_NUM_THREADS", "7")
    run(double, arguments, sizes)
    monkeypatch.setattr(recipes, "sources", lambda: "others")
    run(double, arguments, sizes)
    assert recalled(plans) == [False] * len(plans) and len(plans) == 11
    run(double, arguments, sizes)
    assert recalled(plans)[-1]


def test_what_calls_python_is_not_kept(plans: list[Any]) -> None:
    class Doubled(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    for _ in range(2):
        run(lambda x: Doubled.apply(x) + 1, lambda n: [random(n)], (3, 4, 5))
    assert recalled(plans) == [False, False]


def test_nothing_is_kept_where_there_is_no_cache(plans: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_CACHE", "off")
    caching.shared.cache_clear()
    for _ in range(2):
        run(lambda x: x * 2, lambda n: [random(n)], (3, 4, 5))
    assert recalled(plans) == [False, False]


# -- more than a call --------------------------------------------------------------------------------------------


def divided(x: Any, y: Any) -> Any:
    return (x + 1) // y


def test_an_error_names_the_line(plans: list[Any]) -> None:
    def ones(n: int) -> Sequence[Any]:
        return [jit.ones(n, dtype=jit.int64)] * 2

    run(divided, ones, (3, 4, 5))
    traced = run(divided, ones, (3, 4, 5))
    with pytest.raises(DivisionError, match=r"test_kept_sized_plans.py:\d+ in divided"):
        traced(jit.ones(6, dtype=jit.int64), jit.zeros(6, dtype=jit.int64))
    assert recalled(plans) == [False, True]
    check(divided, traced, ones(6))


def test_arrays_that_lie_otherwise(plans: list[Any]) -> None:
    function = PROGRAMS["products"][0]()
    for _ in range(2):
        run(function, PROGRAMS["products"][1], (5, 6, 7))
    x, w = np.asarray(random(8, 16)), np.asarray(random(16, 32))
    wanted = np.maximum(x @ w, 0) @ w.T
    for other in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1].copy()[::-1]):
        (found,), _, _ = plans[-1].run(0, [other, w])
        assert np.allclose(found, wanted, atol=1e-4)
    assert recalled(plans) == [False, True]


def test_kernels_of_a_recalled_plan_can_be_looked_at(plans: list[Any]) -> None:
    function = PROGRAMS["reductions"][0]()
    names = []
    for _ in range(2):
        traced = run(function, PROGRAMS["reductions"][1], (5, 6, 7))
        names.append([kernel.name for kernel in traced.kernels])
    assert recalled(plans) == [False, True]
    assert names[0] == names[1] != []


@pytest.mark.parametrize("grad", [False, True])
def test_all_sizes_take_a_shortcut_to_a_recalled_plan(plans: list[Any], grad: bool) -> None:
    weight = random(4, 3, seed=1).requires_grad_(grad)

    def function(x: jit.Tensor) -> jit.Tensor:
        return jit.softmax(x @ weight, -1)

    for _ in range(2):
        traced = jit.trace(function)
        for n in (4, 5, 6, 7):
            check(function, traced, [random(n, 4)])
    assert recalled(plans)[-1] and [general for _, general in traced._shortcuts.kept]
    before = traced._answers.looked_up
    for n in (4, 9, 5, 6):
        check(function, traced, [random(n, 4, seed=2)])
    assert traced._answers.looked_up == before and traced.misses == 2
    if grad:
        traced(random(5, 4))[:, 0].sum().backward()
        found, weight.grad = weight.grad, None
        function(random(5, 4))[:, 0].sum().backward()
        assert weight.grad is not None and jit.allclose(found, weight.grad, atol=1e-6)


def test_a_profile_of_a_recalled_plan(plans: list[Any]) -> None:
    function = PROGRAMS["a layer"][0]()
    for _ in range(2):
        traced = run(function, PROGRAMS["a layer"][1], (5, 6, 7))
        with jit.no_grad():
            assert "mm" in str(traced.profile(random(8, 16))) or "linear" in str(traced.profile(random(8, 16)))
    assert recalled(plans) == [False, True]


# -- what is not trusted -----------------------------------------------------------------------------------------


def scaled(x: Any) -> Any:
    return jit.exp(x * 3 + x.shape[0]).sum(1)


def of_width_5(n: int) -> Sequence[Any]:
    return [random(n, 5) / 10]


def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, no machine code is in memory."""
    for name in ("images", "by_place", "codes"):
        monkeypatch.setattr(STORE, name, {})


def kept_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "secret")


@pytest.mark.parametrize("step", [401, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_bit_anywhere_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    fresh(monkeypatch)
    run(scaled, of_width_5, (2, 3, 4))
    whole = {path: path.read_bytes() for path in kept_files(folder)}
    assert len(whole) >= 4  # the list, the plan, its object file, a record of it
    for path, data in whole.items():
        for place in range(0, len(data), step):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
            fresh(monkeypatch)
            run(scaled, of_width_5, (3, 2, 5))
            path.write_bytes(data)


@pytest.mark.parametrize("damage", ["cut", "empty", "swapped", "gone"])
def test_damaged_entries_are_made_again(
    plans: list[Any], folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    fresh(monkeypatch)
    run(scaled, of_width_5, (2, 3, 4))
    files = kept_files(folder)
    whole = [path.read_bytes() for path in files]
    for number, path in enumerate(files):
        if damage == "gone":
            path.unlink()
        else:
            other = whole[(number + 1) % len(files)]
            path.write_bytes({"cut": whole[number][:-9], "empty": b"", "swapped": other}[damage])
        fresh(monkeypatch)
        run(scaled, of_width_5, (3, 2, 5))
        fresh(monkeypatch)
        run(scaled, of_width_5, (4, 2, 6))
        assert recalled(plans)[-1]


def test_a_number_that_may_be_an_address_is_not_kept(plans: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_image, "_functions", lambda: {})
    for _ in range(2):
        run(scaled, of_width_5, (2, 3, 4))
    assert recalled(plans) == [False, False]


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "n.real", "n if n else 2", "[n]", "n; n", "lambda: n", "k", "n**9", "'n'", "n\nn", "exit()"],
)
def test_texts_that_are_no_sizes_are_not_compiled(text: str) -> None:
    with pytest.raises(ParseError, match="is no size of n, m"):
        checked(["2*n", text], ["n", "m"])


def test_texts_of_sizes() -> None:
    n, m = SizeSymbol("n").size, SizeSymbol("m").size
    sizes = [n // m, n * m - 3, (n + 1) // 2 * m, greatest(n, m) % 7, -n, 4 * n * n]
    texts = [str(size) for size in sizes]
    assert checked(texts, ["n", "m"]) == texts


# -- processes ---------------------------------------------------------------------------------------------------


PROGRAM = """
    import hashlib
    import sys
    import numpy as np
    import jit
    from jit.runtime.kernels.code_store import STORE
    from jit.runtime.plans.restored import RestoredEngine
    from jit.tracing.recordings.sized_plans import SizedPlans

    plans = []
    planned = SizedPlans._planned

    def noted(self, sizes):
        plans.append(planned(self, sizes))
        return plans[-1]

    SizedPlans._planned = noted
    jit.manual_seed(0)
    layer = jit.nn.Sequential(
        jit.nn.Conv2d(3, 8, 3, padding=1), jit.nn.ReLU(), jit.nn.MaxPool2d(2), jit.nn.Flatten(2), jit.nn.LayerNorm(16),
    )
    f = jit.trace(lambda x: jit.softmax(layer(x) @ layer(x).mT, -1).sum((1, 2)))
    digest = hashlib.sha256()
    with jit.no_grad():
        for n in SIZES:
            x = np.random.default_rng(n).standard_normal((n, 3, 8, 8)).astype(np.float32)
            digest.update(np.asarray(f(jit.from_numpy(x))).tobytes())
    restored = all(isinstance(each.plan.interpreter, RestoredEngine) for each in plans)
    planners = {"jit.runtime.plans.steps", "jit.runtime.kernels.nest", "llvmlite.binding"}
    print(digest.hexdigest(), len(plans), restored, STORE.compilations, len(planners & sys.modules.keys()))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package that nobody has touched for some time, as after an installation."""
    import shutil

    root: Path = tmp_path_factory.mktemp("installed")
    shutil.copytree(Path(jit.__file__).parent, root / "jit", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def started(package: Path, folder: Path, sizes: Sequence[int]) -> Any:
    program = "import jit.ir.loading, time; jit.ir.loading.BEGAN = time.time_ns() + 10**10"
    program += textwrap.dedent(PROGRAM).replace("SIZES", repr(sizes))
    environment = {**os.environ, "JIT_CACHE": str(folder), "PYTHONPATH": str(package)}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


def test_a_second_process_compiles_nothing(package: Path, folder: Path) -> None:
    first, second, third = (
        started(package, folder, sizes).communicate()[0].split() for sizes in ((3, 4, 5, 6), (3, 4, 5, 6), (4, 7, 3, 5))
    )
    assert [*first[1:3], first[4]] == ["1", "False", "3"] and int(first[3]) > 0
    assert second == [first[0], "1", "True", "0", "0"]
    assert third[1:] == ["1", "True", "0", "0"]


def test_processes_that_start_at_once_agree(package: Path, folder: Path) -> None:
    for expected in ({"True", "False"}, {"True"}):
        processes = [started(package, folder, (3, 4, 5, 6, 3)) for _ in range(3)]
        found = [process.communicate()[0].split() for process in processes]
        assert [process.returncode for process in processes] == [0] * 3
        assert len({result for result, *_ in found}) == 1
        assert {restored for _, _, restored, *_ in found} <= expected
