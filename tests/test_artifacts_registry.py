"""Every operator's recording survives saving and loading: the same results, to the bit."""

import pytest

import jit
from jit.artifacts.files import dumps, loads
from jit.ir import errors

from .registry_cases import Case, bits, cases


@cases(fitting=lambda case: case.number < 2)
def test_a_recording_comes_back(case: Case):
    args, kwargs = case.arguments()
    f = jit.trace(optimize=False)(case.function)
    expected = case.call(*args, function=f, **kwargs)
    if not any(entry.recordings for entry in f._cache.values()):
        pytest.skip("the call records nothing")
    try:
        data = dumps(f)
    except errors.UsageError as error:
        assert "cannot be saved as plain data" in str(error)
        return
    args, kwargs = case.arguments()
    found = case.call(*args, function=loads(data), **kwargs)
    assert [bits(tensor) for tensor in found] == [bits(tensor) for tensor in expected]
