"""The check before each exchange that all processes of the group begin the same one.

Note [Agreement]
    MPI does not say what happens if processes call different collectives, or with different sizes: mostly they hang. So
    each exchange begins with 16 bytes on a communicator of its own: a hash of what the process is about to do, and its
    negative. The greatest of both over all processes differ exactly if two hashes do. Then everybody learns what
    everybody does, and all raise the same error.
"""

from __future__ import annotations

import hashlib

import numpy as np

from jit.ir.errors import DistributedError

from .groups import Team
from .library import mpi
from .works import Steps

LONGEST = 240
"""The bytes of a description that are shown to the others."""


def agree(group: Team, text: str) -> Steps:
    """Raise DistributedError in all processes of a group unless all of them give the same text.

    Args:
        group: The group.
        text: What this process is about to do.
    """
    if group.headers is None:
        return
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
    bounds = np.array([digest, -digest], np.int64)
    yield group.headers.Iallreduce(mpi().IN_PLACE, bounds, mpi().MAX)
    if bounds[0] == -bounds[1]:
        return
    own = np.frombuffer(text.encode()[:LONGEST].ljust(LONGEST), np.uint8)
    everybody = np.empty((group.size, LONGEST), np.uint8)
    yield group.headers.Iallgather(own, everybody)
    texts = [row.tobytes().decode(errors="replace").strip() for row in everybody]
    raise DistributedError(_difference(group, texts))


def _difference(group: Team, texts: list[str]) -> str:
    ranks: dict[str, list[int]] = {}
    for rank, text in zip(group.ranks, texts):
        ranks.setdefault(text, []).append(rank)
    each = "; ".join(f"rank{'s' * (len(who) > 1)} {', '.join(map(str, who))}: {text}" for text, who in ranks.items())
    return f"the processes do not do the same: {each}. All have to call the same collectives in the same order"
