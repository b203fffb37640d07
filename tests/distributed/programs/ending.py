"""One process ends in some way while the others do something. `ending.py WAY WHAT`; the last process is the one."""

import os
import signal
import sys
import time

import jit
import jit.distributed as dist

WAY, WHAT = sys.argv[1:]
dist.init_process_group(timeout=300)
dist.barrier()


def die():
    raise ValueError("oh no")


WAYS = {
    "raises": die,
    "exits": lambda: sys.exit(3),
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "leaves": lambda: os._exit(5),
    "returns": lambda: None,
}
if dist.get_rank() == dist.get_world_size() - 1:
    WAYS[WAY]()
elif WHAT == "reduces":
    dist.all_reduce(jit.ones(3))
elif WHAT == "receives":
    dist.recv(jit.ones(3), dist.get_world_size() - 1)
else:
    time.sleep(60)
