"""The protocol between eager code and whoever records it: nothing in it is unused, and a trace has all of it."""

import re
from pathlib import Path

import pytest

import jit
from jit.eager.recorder import Recorder
from jit.tracing.recorder.tracer import Trace

PACKAGE = Path(jit.__file__).parent
MEMBERS = sorted(name for name in {*vars(Recorder), *Recorder.__annotations__} if not name.startswith("_"))
FILES = [path for room in ("eager", "autograd", "nn", "distributed") for path in PACKAGE.glob(f"{room}/*.py")]
FILES.append(PACKAGE / "native.py")
SPEAKERS = "\n".join(path.read_text() for path in FILES)


@pytest.mark.parametrize("name", MEMBERS)
def test_somebody_asks_for_it(name):
    assert re.search(rf"\b_?(trace|recorder)\.{name}\b", SPEAKERS)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_trace_has_it(name):
    assert hasattr(Trace, name)
