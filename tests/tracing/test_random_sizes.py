"""A sample of random programs at random sizes; see tests.tracing.random_sizes for more of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import one_of

from . import random_sizes

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", one_of(2, range(40)))
def test_random_programs_at_random_sizes(seed: int) -> None:
    wrong, _ = random_sizes.check(seed)
    assert wrong is None


def test_wrong_results_are_noticed() -> None:
    wanted = random_sizes.run(lambda x: (x * 2,), [np.ones(3, np.float32)])
    assert random_sizes.agree(wanted, wanted)
    for other in (lambda x: (x * 2.01,), lambda x: (x + x.detach(),), lambda x: (x[:2] * 2,)):
        assert not random_sizes.agree(random_sizes.run(other, [np.ones(3, np.float32)]), wanted)
