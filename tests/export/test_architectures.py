"""Common architectures with every axis dynamic: `python -m benchmarks.dynamic_models` prints them all as a table."""

import os

import pytest

from benchmarks.architectures import ARCHITECTURES
from benchmarks.dynamic_models import LIMIT, exported

NAMES = list(ARCHITECTURES)
SAMPLE = NAMES if os.environ.get("JIT_ALL_SAMPLES") else NAMES[::4]


def test_there_are_as_many_as_people_use():
    assert len(NAMES) >= 34
    assert sum(len(each.axes[0]) == 3 for each in ARCHITECTURES.values()) >= 20, "of which many are for images"
    assert all(len(each.sizes) == 4 for each in ARCHITECTURES.values())


@pytest.mark.parametrize("name", SAMPLE)
def test_the_model_is_right_at_other_sizes(name):
    outputs, error = exported(ARCHITECTURES[name])
    assert error <= LIMIT
    assert "?" not in "".join(outputs)
