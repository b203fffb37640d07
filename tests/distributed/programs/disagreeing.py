"""Processes that do not do the same: each case is an error in all of them, and they go on together afterwards."""

import time

import pytest

import jit
import jit.distributed as dist

dist.init_process_group(timeout=20)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
LAST = SIZE - 1
IS_LAST = RANK == LAST


def either(usual, other):
    """One thing in all processes but the last, which does another."""
    return lambda: (other if IS_LAST else usual)()


def reduced(*sizes, dtype=jit.float32, op=dist.ReduceOp.SUM):
    return lambda: dist.all_reduce(jit.ones(*sizes, dtype=dtype), op)


CASES = {
    "sizes": either(reduced(2), reduced(3)),
    "dims": either(reduced(4), reduced(2, 2)),
    "dtypes": either(reduced(2), reduced(2, dtype=jit.float64)),
    "reductions": either(reduced(2), reduced(2, op=dist.ReduceOp.MAX)),
    "collectives": either(reduced(2), lambda: dist.broadcast(jit.ones(2), 0)),
    "roots": either(lambda: dist.broadcast(jit.ones(2), 0), lambda: dist.broadcast(jit.ones(2), LAST)),
    "sizes of parts": either(
        lambda: dist.all_gather([jit.zeros(2) for _ in range(SIZE)], jit.ones(2)),
        lambda: dist.all_gather([jit.zeros(1) for _ in range(SIZE)], jit.ones(1)),
    ),
    "rows": lambda: dist.all_to_all_single(
        jit.zeros(SIZE + IS_LAST), jit.ones(SIZE), [1] * LAST + [1 + IS_LAST], [1] * SIZE
    ),
    "later, in a trace": either(jit.trace(lambda: dist.all_reduce(jit.ones(2))), reduced(1)),
    "in the background": lambda: dist.all_reduce(jit.ones(2 + IS_LAST), async_op=True).wait(),
}

for name, case in CASES.items():
    for _ in range(3):
        with pytest.raises(dist.DistError, match=f"rank {LAST}: .*|rank {LAST}, which sends"):
            case()
            print(f"{name}: no error")
    reduced(2)()
for wrong in (
    lambda: dist.all_reduce(jit.ones(2, dtype=jit.complex64), dist.ReduceOp.MAX),
    lambda: dist.all_reduce(jit.ones(2), dist.ReduceOp.BOR),
    lambda: dist.all_reduce(jit.ones(2, dtype=jit.int32), dist.ReduceOp.AVG),
    lambda: dist.all_gather([jit.ones(2)], jit.ones(2)),
    lambda: dist.all_gather([jit.ones(2)] * SIZE, jit.ones(3)),
    lambda: dist.broadcast(jit.ones(2), SIZE),
    lambda: dist.all_reduce("text"),
    lambda: dist.new_group([SIZE]),
    lambda: dist.init_process_group(),
):
    with pytest.raises((jit.DTypeError, jit.ShapeError, jit.UsageError, dist.DistError)):
        wrong()

# messages of other sizes, and one that does not come
if RANK == 0:
    dist.send(jit.ones(3), LAST)
if IS_LAST:
    with pytest.raises(dist.DistError, match="rank 0 has sent 12 bytes, where 8 are expected"):
        dist.recv(jit.ones(2), 0)
    with pytest.raises(dist.DistError, match=rf"rank {LAST} has waited 0.2 s for rank 0 in recv\(float32\[2\], src=0"):
        dist.irecv(jit.ones(2), 0, tag=5).wait(0.2)
if RANK == 0:
    time.sleep(0.5)
    dist.send(jit.ones(2), LAST, tag=5)
reduced(2)()
if not IS_LAST:
    work = dist.all_reduce(jit.ones(2), async_op=True)
    with pytest.raises(dist.DistError, match=r"has waited 0.1 s for rank.* in all_reduce\(float32\[2\], sum\)"):
        work.wait(0.1)
    work.wait()
else:
    time.sleep(0.5)
    reduced(2)()
if RANK == 0:  # nobody else comes
    with pytest.raises(dist.DistError, match=r"did not come to it within 0\.1 s"):
        dist.monitored_barrier(timeout=0.1, wait_all_ranks=True)
print(f"rank {RANK}: {len(CASES)} disagreements")
