"""Every operator's recording survives saving and loading: the same results, to the bit."""

import jit
from jit.artifacts.files import dumps, loads
from tests.registry_cases import Case, bits, cases


@cases(fitting=lambda case: case.number < 2)
def test_a_recording_comes_back(case: Case):
    args, kwargs = case.arguments()
    f = jit.trace(optimize=False)(case.function)
    expected = case.call(*args, function=f, **kwargs)
    args, kwargs = case.arguments()
    found = case.call(*args, function=loads(dumps(f)), **kwargs)
    assert [bits(tensor) for tensor in found] == [bits(tensor) for tensor in expected]
