"""Nests refuse maps that leave their buffers, and schedules find the fewest loops in the best order."""

import numpy as np
import pytest

from jit.ir.dtypes import float32
from jit.ir.errors import CompileError
from jit.runtime.kernels.nest import Access, Buffer, one_step, pointwise_nest
from jit.runtime.kernels.schedule import FIXED, STRIDED, UNIT, schedule


def identity(m, a):
    return a


def nest(extents, read, write, sizes=(2, 3), strides=(3, 1)):
    buffer = Buffer(float32, sizes, strides)
    return one_step(extents, (buffer,), (buffer,), (read,), (write,), identity)


class TestAccesses:
    @pytest.mark.parametrize(
        "access",
        [Access(0, (3, 1), 1), Access(0, (3, 1), -1), Access(0, (3, 2)), Access(0, (3, -1)), Access(0, (4, 1))],
        ids=["past the end", "before the start", "wide steps", "backwards", "long rows"],
    )
    def test_outside_of_the_buffer(self, access):
        with pytest.raises(CompileError, match=r"touches elements .* of a buffer of 0\.\.5"):
            nest((2, 3), access, Access(0, (3, 1)))

    def test_inside(self):
        nest((2, 3), Access(0, (-3, -1), 5), Access(0, (3, 1)))

    def test_no_points_touch_nothing(self):
        nest((0, 3), Access(0, (1000, 1)), Access(0, (3, 1)))

    def test_an_empty_buffer_holds_nothing(self):
        with pytest.raises(CompileError, match="touches elements"):
            nest((2, 3), Access(0, (0, 0)), Access(0, (3, 1)), sizes=(0, 3))

    def test_an_unknown_buffer(self):
        with pytest.raises(CompileError, match="a read names buffer 1 of 1"):
            nest((2, 3), Access(1, (3, 1)), Access(0, (3, 1)))

    def test_a_stride_for_every_loop(self):
        with pytest.raises(CompileError, match="1 strides in a read for 2 loops"):
            nest((2, 3), Access(0, (3,)), Access(0, (3, 1)))

    def test_a_write_is_no_broadcast(self):
        with pytest.raises(CompileError, match="several results in one element"):
            nest((2, 3), Access(0, (3, 1)), Access(0, (3, 0)))

    def test_a_record_field_needs_a_copy(self):
        records = np.zeros(4, [("a", "u1"), ("b", "f4")])
        with pytest.raises(CompileError, match="pass a copy"):
            Buffer.like(records["b"])


class TestSchedule:
    def of(self, *inputs, out):
        return schedule(pointwise_nest(identity, inputs, [out]))

    def test_contiguous_dims_are_one_loop(self):
        x = np.empty((2, 3, 4))
        assert self.of(x, out=x).extents == (24,)

    def test_a_broadcast_row_keeps_two_loops(self):
        x, row = np.empty((5, 3, 4)), np.empty((3, 4))
        loops = self.of(x, row, out=x)
        assert loops.extents == (5, 12)
        assert loops.pattern == ((STRIDED, UNIT), (FIXED, UNIT), (STRIDED, UNIT))

    def test_a_broadcast_column_stands_still_in_the_inner_loop(self):
        x, column = np.empty((5, 12)), np.empty((5, 1))
        assert self.of(x, column, out=x).pattern == ((STRIDED, UNIT), (STRIDED, FIXED), (STRIDED, UNIT))

    def test_a_transposed_pair_runs_along_memory(self):
        x = np.empty((3, 4)).T
        assert self.of(x, out=x).extents == (12,)

    def test_the_contiguous_majority_chooses_the_inner_loop(self):
        x, out = np.empty((3, 4)), np.empty((4, 3)).T
        loops = self.of(x, x, out=out)
        assert (loops.extents, loops.pattern[2]) == ((3, 4), (STRIDED, STRIDED))

    def test_dims_of_one_point_vanish(self):
        x = np.empty((1, 7, 1))
        assert self.of(x, out=x).extents == (7,)

    def test_a_single_point_is_one_loop(self):
        x = np.empty(())
        loops = self.of(x, out=x)
        assert (loops.extents, loops.pattern) == ((1,), ((FIXED,), (UNIT,)))

    def test_equal_patterns_for_other_sizes(self):
        x, y = np.empty((5, 3)), np.empty((50, 30))
        assert self.of(x[:, :2], out=x[:, :2]).pattern == self.of(y[:, :7], out=y[:, :7]).pattern
