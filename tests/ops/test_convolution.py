"""Convolutions: every algorithm of every table, how one is chosen, what masks save, derivatives of the third order."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import gradcheck, gradgradcheck
from jit.eager.namespace import F
from jit.ir import parse
from jit.ir.errors import Error
from jit.ir.settings import SETTINGS
from jit.ops import convolving
from jit.ops.convolving import TABLES, Algorithm, ConvGeometry, ConvProblem, window_of
from jit.passes import run
from jit.runtime.arrays.array_math import numpy_math
from tests.ops.references.arrays import convolution, convolution_backward
from tests.tolerances import assert_close

RNG = np.random.default_rng(3)


def doubles(*sizes: int) -> jit.Tensor:
    return jit.from_numpy(RNG.standard_normal(sizes))


# -- algorithms --------------------------------------------------------------------------------------------------

SHAPES: list[Any] = [
    # input, weight, stride, padding, dilation, groups
    ((2, 3, 7), (4, 3, 3), [1], [1], [1], 1),
    ((3, 4, 9), (6, 2, 2), [2], [0], [2], 2),
    ((2, 16, 5, 4), (3, 16, 3, 2), [1, 1], [1, 1], [1, 1], 1),
    ((2, 3, 6, 5), (3, 1, 3, 3), [1, 1], [1, 1], [1, 1], 3),
    ((2, 2, 7, 6), (4, 1, 3, 2), [2, 3], [1, 0], [2, 1], 2),
    ((2, 4, 5, 5), (6, 2, 1, 1), [2, 1], [0, 1], [1, 1], 2),
    ((1, 2, 9, 8), (2, 2, 7, 7), [1, 1], [3, 3], [1, 1], 1),
    ((1, 2, 3, 4, 3), (2, 2, 2, 2, 3), [1, 2, 1], [1, 0, 1], [1, 1, 1], 1),
    ((0, 2, 4, 4), (3, 2, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    ((1, 1, 5), (1, 1, 2), [1], [3], [1], 1),
]


def problems() -> Iterator[Any]:
    """(map, algorithm, its problem, arguments after `m`, what should come out)."""
    for number, (image, kernel, stride, padding, dilation, groups) in enumerate(SHAPES):
        x, weight = RNG.standard_normal(image), RNG.standard_normal(kernel)
        w = window_of(len(image) - 2, stride, padding, dilation, groups)
        rest = stride, padding, dilation, False, [0], groups
        y = convolution(x, weight, None, *rest)
        by_x, by_w, _ = convolution_backward(y, x, weight, None, *rest, [True] * 3)
        wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in w.padding)])
        maps = {
            "forward": (wide, w.inside, (wide, weight, w.inside), y),
            "by_input": (x, w, (y, weight, image[2:], w), by_x),
            "by_weight": (wide, w.inside, (y, wide, kernel[2:], w.inside), by_w),
        }
        for name, (source, window, arguments, expected) in maps.items():
            problem = ConvProblem(source.shape, kernel, y.shape[2:], window, x.dtype)
            for row in TABLES[name]:
                if row.able(problem):
                    yield pytest.param(row, arguments, expected, id=f"{name}:{row.name}:{number}")


@pytest.mark.parametrize(("row", "arguments", "expected"), list(problems()))
def test_every_algorithm_computes_the_same(row: Algorithm, arguments: Any, expected: Any) -> None:
    got = row.run(numpy_math, *arguments)
    assert got.shape == expected.shape and got.flags.c_contiguous
    assert_close(got, expected, rtol=1e-11, atol=1e-11)


def test_every_algorithm_is_tried_above() -> None:
    tried = {(param.id.split(":")[0], param.id.split(":")[1]) for param in problems()}
    assert tried == {(name, row.name) for name, table in TABLES.items() for row in table}


def test_work_cut_into_blocks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of images, and of rows of places of one image, down to a single row."""
    for row, arguments, expected in (param.values for param in problems()):
        for size in (1, 400, 3000):
            monkeypatch.setattr(convolving, "BLOCK_BYTES", size)
            assert_close(row.run(numpy_math, *arguments), expected, rtol=1e-11, atol=1e-11)


def test_patches_of_large_images_are_not_laid_out_at_once() -> None:
    x, w = jit.zeros(1, 4, 256, 256), jit.zeros(4, 4, 5, 5)
    tracemalloc.start()
    try:
        F.conv2d(x, w, None, 1, 2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6e6  # the input padded, the result, and a block; all patches would take 26 MB


@pytest.mark.parametrize(
    ("image", "kernel", "stride", "expected"),
    [
        ((8, 256, 14, 14), (64, 256, 1, 1), 1, "product"),
        ((8, 64, 32, 32), (64, 64, 3, 3), 1, "columns"),
        ((64, 16, 10, 10), (32, 16, 3, 3), 1, "channels last"),
        ((1, 1, 17000), (1, 1, 1024), 1, "spectral"),
        ((1, 1, 17000), (1, 1, 1024), 2, "columns"),
        ((1, 3, 32, 32), (8, 3, 32, 32), 1, "columns"),
    ],
)
def test_the_rule_chooses_by_sizes(image: Any, kernel: Any, stride: int, expected: str) -> None:
    w = window_of(len(image) - 2, [stride], [0], [1], 1)
    problem = ConvProblem(image, kernel, tuple(w.places(image[2:], kernel[2:])), w, np.dtype(np.float32))
    assert convolving._by_rule("forward", problem).name == expected


# -- settings ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two algorithms that say when they run, the slower one first; and settings that are put back."""
    ran: list[str] = []

    def logged(name: str, seconds: float) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            ran.append(name)
            return convolving._forward_columns(*arguments)

        return run

    clock = itertools.count()
    seconds = {"slow": 5.0, "fast": 1.0}
    monkeypatch.setattr(
        convolving, "_seconds", lambda run, arguments: (run(*arguments), next(clock), seconds[ran[-1]])[2]
    )
    always = convolving._always
    rows = tuple(Algorithm(name, always, always, logged(name, seconds[name])) for name in seconds)
    monkeypatch.setitem(TABLES, "forward", rows)
    monkeypatch.setattr(convolving, "_fastest", {})
    convolving._by_rule.cache_clear()
    before = SETTINGS.benchmark, SETTINGS.deterministic
    yield ran
    SETTINGS.benchmark, SETTINGS.deterministic = before
    convolving._by_rule.cache_clear()


def test_benchmark_times_the_candidates_once_and_remembers(tables: list[str]) -> None:
    x, w = doubles(1, 2, 6), doubles(2, 2, 3)
    F.conv1d(x, w)
    assert tables == ["slow"]
    with jit.backends.cudnn.flags(benchmark=True):
        tables.clear()
        F.conv1d(x, w)
        assert tables == ["slow", "fast", "fast"]
        F.conv1d(doubles(1, 2, 6), w)
        assert tables == ["slow", "fast", "fast", "fast"]
        F.conv1d(doubles(1, 2, 7), w)
        assert tables[4:] == ["slow", "fast", "fast"]


def test_deterministic_goes_by_the_rule(tables: list[str]) -> None:
    x, w = doubles(1, 2, 6), doubles(2, 2, 3)
    jit.use_deterministic_algorithms(True)
    assert jit.are_deterministic_algorithms_enabled()
    with jit.backends.cudnn.flags(benchmark=True):
        F.conv1d(x, w)
    assert tables == ["slow"]


def test_flags_of_a_call_hold_whatever_the_process_has(tables: list[str]) -> None:
    x, w = doubles(1, 2, 6), doubles(2, 2, 3)
    plain = [1], [0], [1], False, [0], 1
    F._convolution(x, w, None, *plain, True, False, True)
    assert tables == ["slow", "fast", "fast"]
    tables.clear()
    jit.backends.cudnn.benchmark = True
    F._convolution(x, w, None, *plain, False, False, True)
    F._convolution(x, w, None, *plain, True, True, True)
    assert tables == ["slow", "slow"]


def test_flags_that_are_not_there_are_refused() -> None:
    with pytest.raises(TypeError, match="bench"), jit.backends.cudnn.flags(bench=True):
        pass


# -- gradients ---------------------------------------------------------------------------------------------------


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which maps are computed, in order."""
    names: list[str] = []
    for name in TABLES:
        rows = tuple(row._replace(run=_noting(names, name, row.run)) for row in TABLES[name])
        monkeypatch.setitem(TABLES, name, rows)
    convolving._by_rule.cache_clear()
    return names


def _noting(names: list[str], name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        names.append(name)
        return run(*arguments)

    return noted


@pytest.fixture(autouse=True)
def rules_anew() -> Iterator[None]:
    """Choices remember the rows themselves."""
    yield
    convolving._by_rule.cache_clear()


@pytest.mark.parametrize("mask", list(itertools.product([False, True], repeat=3)))
def test_what_is_masked_out_is_undefined_and_costs_nothing(mask: Any, computed: list[str]) -> None:
    x, w, g = doubles(1, 2, 9, 9), doubles(3, 2, 3, 3), doubles(1, 3, 4, 4)
    results = F.convolution_backward(g, x, w, [3], [2], [0], [1], False, [0], 1, list(mask))
    assert [r.defined for r in results] == list(mask)
    assert computed == [name for name, wanted in zip(("by_input", "by_weight"), mask, strict=False) if wanted]


@pytest.mark.parametrize(
    ("wanted", "maps"), [("x", ["by_input"]), ("w", ["by_weight"]), ("b", []), ("xw", ["by_input", "by_weight"])]
)
def test_backward_computes_what_is_asked_for(wanted: str, maps: list[str], computed: list[str]) -> None:
    tensors = {"x": doubles(1, 2, 9, 9), "w": doubles(3, 2, 3, 3), "b": doubles(3)}
    for name in wanted:
        tensors[name].requires_grad_()
    y = F.conv2d(tensors["x"], tensors["w"], tensors["b"], 2)
    computed.clear()
    y.sum().backward()
    assert computed == maps
    assert [name for name in tensors if tensors[name].grad is not None] == list(wanted)


def test_a_double_backward_computes_what_is_asked_for(computed: list[str]) -> None:
    x, w, g = doubles(1, 2, 9, 9), doubles(3, 2, 3, 3), doubles(1, 3, 4, 4)
    rest = [2], [0], [1], False, [0], 1
    F._convolution_double_backward(x, None, None, g, w, x, *rest, [True, True, False])
    assert computed == ["forward"]


def _curved(x: Any, w: Any, transposed: bool, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """Not linear, so that derivatives of every order are there to be looked at."""
    n = x.ndim - 2
    numbers = [stride] * n, [padding] * n, [dilation] * n
    return F.convolution(x * x, w, None, *numbers, transposed, [0] * n, groups).sin()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("image", "kernel", "numbers"),
    [((1, 2, 3), (2, 1, 2), (1, 1, 1, 2)), ((1, 2, 3, 2), (2, 2, 2, 2), (2, 1, 1, 1)),
     ((1, 1, 2, 2, 2), (1, 1, 1, 2, 2), (1, 0, 1, 1)), ((2, 2, 3), (2, 1, 2), (1, 0, 2, 2))],
)  # fmt: skip
def test_derivatives_of_three_orders(image: Any, kernel: Any, numbers: Any, transposed: bool) -> None:
    x, w = doubles(*image).requires_grad_(), doubles(*kernel).requires_grad_()

    def value(x: Any, w: Any) -> Any:
        return _curved(x, w, transposed, *numbers)

    def slope(x: Any, w: Any) -> Any:
        return jit.grad(value(x, w).sum(), [x, w], create_graph=True)

    assert gradcheck(value, [x, w]) and gradgradcheck(value, [x, w]) and gradgradcheck(slope, [x, w])


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_transposed_convolution_is_the_adjoint(groups: int) -> None:
    """The inner products <conv(x, w), y> and <x, conv_transpose(y, w)> are equal."""
    x, w, y = doubles(2, 4, 9, 8), doubles(4, 4 // groups, 3, 2), doubles(2, 4, 5, 7)
    geometry = [2, 1], [1, 0], [1, 1]
    there = F.convolution(x, w, None, *geometry, False, [0, 0], groups)
    back = F.convolution(y, w, None, *geometry, True, [0, 0], groups)
    assert_close(F.sum(there * y), F.sum(x * back), rtol=1e-12)


# -- corners -----------------------------------------------------------------------------------------------------


def test_empty_batches_have_gradients() -> None:
    x, w, b = doubles(0, 2, 5, 5).requires_grad_(), doubles(3, 2, 3, 3).requires_grad_(), doubles(3).requires_grad_()
    F.conv2d(x, w, b).sum().backward()
    assert x.grad.shape == (0, 2, 5, 5)
    assert w.grad.tolist() == np.zeros((3, 2, 3, 3)).tolist() and b.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [jit.int64, jit.complex128, jit.float16, jit.bfloat16])
def test_other_dtypes(dtype: Any) -> None:
    x = jit.from_numpy(RNG.integers(-3, 4, (2, 2, 5)).astype(np.float64)).to(dtype)
    w = jit.from_numpy(RNG.integers(-3, 4, (3, 2, 3)).astype(np.float64)).to(dtype)
    wide = jit.complex128 if dtype is jit.complex128 else jit.float64
    assert F.conv1d(x, w, None, 2, 1).dtype is dtype
    assert F.conv1d(x, w, None, 2, 1).to(wide).tolist() == F.conv1d(x.to(wide), w.to(wide), None, 2, 1).tolist()


@pytest.mark.parametrize("name", ["same", "valid"])
def test_padding_by_name(name: str) -> None:
    x, w = doubles(2, 7, 6), doubles(3, 2, 4, 3)
    got = F.conv2d(x, w, None, 1, name, [1, 2])
    before = [(0, 0), (1, 2), (2, 2)] if name == "same" else [(0, 0)] * 3
    assert_close(got, convolution(np.pad(x.numpy(), before)[None], w.numpy(), None, [1], [0], [1, 2], False, [0], 1)[0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x, w: F.conv2d(x, w, None, 2, "same"), "stride 1"),
        (lambda x, w: F.conv2d(x, w, None, 1, "full"), "neither"),
        (lambda x, w: F.conv2d(x, w, groups=2), "groups"),
        (lambda x, w: F.conv2d(x, w, None, 0), "at least 1"),
        (lambda x, w: F.conv2d(x, w, None, 1, -1), "at least 0"),
        (lambda x, w: F.conv2d(x[:, :, :2], w), "does not fit"),
        (lambda x, w: F.conv1d(x, w), "weight of 3 dims"),
        (lambda x, w: F.conv2d(x, w, jit.zeros(4, dtype=jit.float64)), "bias of sizes"),
        (lambda x, w: F.conv2d(x, w.float()), "one dtype"),
        (lambda x, w: F.conv_transpose2d(x, doubles(2, 2, 3, 3), None, 1, 0, 1), "output_padding"),
    ],
)
def test_refusals_say_why(call: Callable[..., Any], says: str) -> None:
    with pytest.raises(Error, match=says):
        call(doubles(1, 2, 5, 5), doubles(3, 2, 3, 3))


def test_windows_know_the_way_back() -> None:
    w = ConvGeometry((2, 3), (1, 0), (1, 2), 1)
    places = w.places((9, 11), (3, 2))
    assert places == [5, 3]
    assert w.image(places, (3, 2), (0, 2)) == [9, 11]


# -- one place ---------------------------------------------------------------------------------------------------

ONE_PLACE: list[Any] = [
    # input, weight, stride, transposed; and whether products of matrices are the same
    ((1, 5, 4, 3), (7, 5, 4, 3), [1, 1], False, True),
    ((6, 5, 4, 4), (1, 5, 4, 4), [2, 2], False, True),
    ((3, 5, 1, 1), (8, 5, 1, 1), [1, 1], False, True),
    ((2, 4, 9), (3, 4, 9), [1], False, True),
    ((2, 3, 2, 3, 2), (3, 3, 2, 3, 2), [1, 1, 1], False, True),
    ((1, 6, 1, 1), (6, 5, 4, 4), [1, 1], True, True),
    ((5, 6, 1), (6, 5, 4), [3], True, True),
    ((2, 5, 4, 4), (7, 5, 3, 4), [1, 1], False, False),
    ((2, 5, 4, 4), (7, 5, 3, 3), [2, 2], False, False),
    ((2, 6, 2, 1), (6, 5, 1, 4), [1, 1], True, False),
]


@pytest.mark.parametrize(("sizes", "weight", "stride", "transposed", "is_product"), ONE_PLACE)
@pytest.mark.parametrize("biased", [True, False])
def test_convolutions_of_one_place_and_their_gradients(
    sizes: Any, weight: Any, stride: list[int], transposed: bool, is_product: bool, biased: bool
) -> None:
    dims = len(stride)
    rest = stride, [0] * dims, [1] * dims, transposed, [0] * dims, 1
    shapes = [sizes, weight, [weight[1] if transposed else weight[0]]][: 2 + biased]
    drawn = [jit.from_numpy(RNG.integers(-4, 5, shape).astype(np.float64)) for shape in shapes]  # so sums are exact

    def value(*tensors: Any) -> Any:
        return (F.convolution(*tensors, *([] if biased else [None]), *rest) ** 2).sum()

    def gradients(run: Callable[..., Any]) -> list[Any]:
        leaves = [t.detach().clone().requires_grad_() for t in drawn]
        run(*leaves).backward()
        return [leaf.grad for leaf in leaves]

    traced = jit.trace(value)
    for _ in range(3):
        found = gradients(traced)
    for gradient, expected in zip(found, gradients(value), strict=True):
        np.testing.assert_array_equal(gradient.numpy(), expected.numpy())


@pytest.mark.parametrize(("sizes", "weight", "stride", "transposed", "is_product"), ONE_PLACE)
def test_plans_spell_convolutions_of_one_place_out(
    sizes: Any, weight: Any, stride: list[int], transposed: bool, is_product: bool
) -> None:
    dims, (x, w) = len(stride), map(doubles_named, (sizes, weight))
    window = f"stride={stride}, padding={[0] * dims}, dilation={[1] * dims}, transposed={transposed}, "
    window += f"output_padding={[0] * dims}, groups=1"
    filters = weight[1] if transposed else weight[0]
    geometry = window_of(dims, stride, [0], [1], 1)
    places = geometry.image(sizes[2:], weight[2:], [0] * dims) if transposed else geometry.places(sizes[2:], weight[2:])
    y = doubles_named((sizes[0], filters, *places))
    graph = parse(f"""graph(%g : {y}, %x : {x}, %w : {w}, %b : Double({filters})) {{
        %0 : {y} = aten::convolution[{window}](%x, %w, %b)
        %1 : {x}, %2 : {w}, %3 : Undefined = aten::convolution_backward[bias_sizes=None, {window},
            output_mask=[True, True, False]](%g, %x, %w)
        return (%0, %1, %2) }}""")
    assert run(graph, ["spell_out"])[0].changed == is_product
    assert ("aten::mm" in str(graph), "aten::convolution" in str(graph)) == (is_product, not is_product)
    assert str(graph).count("aten::mm(") == 3 * is_product


def doubles_named(sizes: Any) -> str:
    return f"Double({', '.join(map(str, sizes))})"
