"""What collectives compute among the processes of the group "self": there is one, so each gets what it sent.

`tests/distributed` compares them among several processes.
"""

from typing import Any

import numpy as np


def own(input: Any, *_: Any) -> Any:
    """The tensor itself."""
    return np.array(input)


def joined(input: Any, *_: Any) -> Any:
    """The tensor itself; one without dims becomes a row of one element."""
    return np.array(input, ndmin=1)


REFERENCES = {
    f"_c10d_functional::{name}": own
    for name in (
        *("all_reduce", "all_to_all_single", "broadcast", "reduce", "reduce_scatter_tensor"),
        *("begin_all_reduce", "wait_tensor"),
    )
} | {"_c10d_functional::all_gather_into_tensor": joined}
