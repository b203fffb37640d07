"""Runs one adversarial case in this process: `python -m tests.adversarial.run_case cases_values branch_on_sum`."""

import importlib
import sys

from jit.eager import hot
from tests.adversarial import trial


def main() -> int:
    """Run the case; returns 0 if the traced function equals the eager one or raises what is documented, else 1."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tests.adversarial.run_case MODULE CASE")
    module, name = sys.argv[1:]
    hot.MOST = 0  # eager mode, which others are compared with bit for bit, is numpy's
    importlib.import_module(f"tests.adversarial.{module}")
    try:
        print(trial.run(name, module))
    except AssertionError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
