"""The `torch` that processes find which a program behind the door has started; it opens the door and steps aside."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

if find_spec("jit") is None:
    sys.path.append(str(Path(__file__).resolve().parents[4]))

from jit.as_torch.finder import install

if __name__ == "torch":
    del sys.modules[__name__]
    install()
    import_module(__name__)
