"""Sobol sequences: their numbers, how evenly they lie, and how an engine goes on."""

import numpy as np
import pytest

import jit
from jit.quasirandom import SobolEngine

FIRST = [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75], [0.375, 0.375, 0.625]]


def test_the_first_points_of_three_dims():
    assert SobolEngine(3).draw(5).tolist() == FIRST


def bits_of(dims: int, index: int) -> list[float]:
    """Point `index` by the definition: the numbers of its Gray code's ones, combined."""
    numbers = SobolEngine(dims)._directions
    gray, found = index ^ (index >> 1), [0] * dims
    for bit in range(30):
        if gray >> bit & 1:
            found = [one ^ int(row[bit]) for one, row in zip(found, numbers, strict=True)]
    return [one / 2**30 for one in found]


@pytest.mark.parametrize("first", [0, 1, 2, 7, 8, 1000, 2**29 - 2, 2**30 - 4])
def test_points_from_any_place(first):
    engine = SobolEngine(7).fast_forward(first)
    found = engine.draw(4, dtype=jit.float64)
    assert found.tolist() == [bits_of(7, first + k) for k in range(4)]
    assert engine.num_generated == first + 4


@pytest.mark.parametrize("parts", [[10], [1, 9], [3, 0, 7], [1] * 10, [4, 6]])
@pytest.mark.parametrize("scramble", [False, True])
def test_points_in_parts(parts, scramble):
    whole = SobolEngine(5, scramble, seed=3).draw(10)
    engine = SobolEngine(5, scramble, seed=3)
    assert jit.cat([engine.draw(n) for n in parts]).tolist() == whole.tolist()
    engine.reset().fast_forward(parts[0])
    assert engine.draw(10 - parts[0]).tolist() == whole[parts[0] :].tolist()


@pytest.mark.parametrize("scramble", [False, True])
def test_every_interval_gets_one_point(scramble):
    """256 points have one in each of 256 intervals of every dim, and in each box of 16 by 16 of the first two."""
    points = SobolEngine(40, scramble, seed=5).draw_base2(8).numpy()
    for column in points.T:
        assert np.histogram(column, 256, (0, 1))[0].tolist() == [1] * 256
    assert (np.histogram2d(points[:, 0], points[:, 1], 16, ((0, 1), (0, 1)))[0] == 1).all()


def test_seeds_of_scrambling():
    one, same, other = (SobolEngine(4, True, seed=s).draw(8) for s in (1, 1, 2))
    assert one.equal(same) and not one.equal(other)
    assert not SobolEngine(4, True).draw(8).equal(SobolEngine(4, True).draw(8))
    state = jit.get_rng_state()
    SobolEngine(4, True, seed=1)
    assert jit.get_rng_state() == state


def test_dtypes_and_out():
    engine = SobolEngine(2)
    assert engine.draw().dtype is jit.float32 and engine.draw(dtype=jit.float16).dtype is jit.float16
    out = jit.empty(0)
    assert engine.draw(2, out=out) is out and out.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert engine.draw(0).shape == (0, 2)


def test_the_largest_engine():
    engine = SobolEngine(SobolEngine.MAXDIM)
    assert engine.draw(2).tolist() == [[0.0] * 21201, [0.5] * 21201]


@pytest.mark.parametrize("dims", [0, -1, 21202])
def test_dims_without_direction_numbers(dims):
    with pytest.raises(ValueError, match="1 to 21201"):
        SobolEngine(dims)


def test_points_that_are_not_there():
    engine = SobolEngine(1)
    with pytest.raises(jit.UsageError, match="cannot be had"):
        engine.draw(-1)
    with pytest.raises(jit.UsageError, match="cannot be had"):
        engine.fast_forward(2**30 + 1)
    engine.draw(3)
    with pytest.raises(ValueError, match="no power of 2"):
        engine.draw_base2(3)
    assert engine.num_generated == 3


@pytest.mark.filterwarnings("ignore:.* runs untraced from now on")
def test_a_traced_function_gets_new_points_in_every_call():
    engine, expected = SobolEngine(2), SobolEngine(2).draw(10)
    f = jit.trace(lambda: engine.draw(2) + 1)
    for call in range(5):
        assert f().tolist() == (expected[2 * call : 2 * call + 2] + 1).tolist()


def test_how_engines_print():
    assert repr(SobolEngine(3)) == "SobolEngine(dimension=3)"
    assert repr(SobolEngine(3, True, 7)) == "SobolEngine(dimension=3, scramble=True, seed=7)"
