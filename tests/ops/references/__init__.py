"""What every primitive operator should compute: a float64 function per operator, in tables by family.

A table is the `REFERENCES` of a module beside this one; `table_of_references` joins them.
"""

import importlib
import pkgutil
from typing import Any


def table_of_references() -> dict[str, Any]:
    """All tables `REFERENCES` of tests/ops/references/*.py."""
    joined: dict[str, Any] = {}
    for module in pkgutil.iter_modules(__path__):
        table = importlib.import_module(f"{__name__}.{module.name}").REFERENCES
        assert not joined.keys() & table.keys(), f"{joined.keys() & table.keys()} have two references"
        joined.update(table)
    return joined
