"""Collectives in traced functions: recorded as themselves, run from plans, saved in artifacts. `traced.py FOLDER`."""

import sys

import numpy as np

import jit
import jit.distributed as dist

FOLDER = sys.argv[1]
dist.init_process_group()
RANK, SIZE = dist.get_rank(), dist.get_world_size()
RANKS = list(range(SIZE))


def kinds(traced):
    """The kinds of the nodes that run; a reduction that is split into its beginning and its end counts as one."""
    names = [node.kind.partition("::")[2] for node in traced.graphs[-1].graph.nodes]
    return [name.removeprefix("begin_") for name in names]


@jit.trace
def everything(x):
    """Each collective, written in place as PyTorch's are."""
    y = x * 2
    dist.all_reduce(y)
    gathered = [jit.zeros_like(x) for _ in range(SIZE)]
    dist.all_gather(gathered, y + x, async_op=True).wait()
    part = jit.zeros_like(x)
    dist.reduce_scatter(part, gathered)
    dist.broadcast(part, SIZE - 1)
    dist.barrier()
    swapped = [jit.zeros_like(x) for _ in range(SIZE)]
    dist.all_to_all(swapped, [part + RANK + i for i in range(SIZE)])
    one = jit.zeros_like(x)
    dist.scatter(one, swapped if RANK == 0 else None, 0)
    return part, jit.stack(swapped), one


def expected(xs):
    total = sum(2 * x for x in xs)
    part = SIZE * (total + xs[SIZE - 1])
    swapped = [np.stack([part + i + j for j in RANKS]) for i in RANKS]
    return part, swapped[RANK], swapped[0][RANK]


for turn in range(5):
    xs = [np.arange(3.0) + rank + 10 * turn for rank in RANKS]
    for found, wanted in zip(everything(jit.from_numpy(xs[RANK])), expected(xs), strict=True):
        assert np.array_equal(found.numpy(), wanted), (turn, found, wanted)
assert everything.hits == 4, everything.why_not()
assert kinds(everything).count("all_reduce") >= 2, everything.graph  # one is the barrier, whose result nobody uses


@jit.trace
def repeated(x):
    """Twice the same, of which nothing may be left out, and constants, which may not be folded."""
    dist.all_reduce(jit.ones(2))
    a, b = x.clone(), x.clone()
    dist.all_reduce(a)
    dist.all_reduce(b)
    c = jit.ones(3)
    dist.all_reduce(c)
    return a + b + c


for _ in range(4):
    assert repeated(jit.ones(3)).tolist() == [3 * SIZE] * 3
assert repeated.hits == 3 and kinds(repeated).count("all_reduce") == 4, repeated.graphs[-1].graph


# a training step: forward, loss and backward recorded, gradients averaged
@jit.trace
def step(w, x):
    loss = ((x @ w) ** 2).mean()
    (g,) = jit.autograd.grad(loss, w)
    dist.all_reduce(g, dist.ReduceOp.AVG)
    return loss, w - 0.1 * g


rng = np.random.default_rng(0)
data = rng.normal(size=(SIZE, 4, 3)).astype(np.float32)
weights = alone = jit.from_numpy(rng.normal(size=(3, 1)).astype(np.float32))
for _ in range(4):
    _, weights = step(weights.detach().requires_grad_(), jit.from_numpy(data[RANK]))
    whole = alone.detach().requires_grad_()
    (g,) = jit.autograd.grad(((jit.from_numpy(data.reshape(-1, 3)) @ whole) ** 2).mean(), whole)
    alone = whole - 0.1 * g
assert np.allclose(weights.detach().numpy(), alone.detach().numpy(), rtol=1e-5)
assert step.hits == 3, step.why_not()


# a function that messages go through is recorded for no later call
@jit.trace
def ring(x):
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, x, (RANK + 1) % SIZE),
            dist.P2POp(dist.irecv, y := jit.zeros_like(x), (RANK - 1) % SIZE),
        ]
    )
    for work in works:
        work.wait()
    return y + 1


for turn in range(3):
    assert ring(jit.ones(2) * (RANK + turn)).tolist() == [(RANK - 1) % SIZE + turn + 1] * 2

# an artifact, saved by one process and run by all
path = f"{FOLDER}/repeated.jit"
if RANK == 0:
    repeated.save(path)
dist.barrier()
loaded = jit.load(path)
for _ in range(3):
    assert loaded(jit.ones(3)).tolist() == [3 * SIZE] * 3

# groups go by their names
odd = dist.new_group([0])
half = dist.new_group(RANKS[SIZE // 2 :])
if RANK >= SIZE // 2:
    member = jit.trace(lambda x: dist.nn.functional.all_reduce(x, group=half))
    assert [member(jit.ones(1)).item() for _ in range(3)] == [SIZE - SIZE // 2] * 3
assert (odd is dist.GroupMember.NON_GROUP_MEMBER) == (RANK != 0)
assert dist.get_rank(half) == (RANK - SIZE // 2 if RANK >= SIZE // 2 else -1)

# objects
found = [None] * SIZE
dist.all_gather_object(found, {"rank": RANK})
assert found == [{"rank": rank} for rank in RANKS]
told = [f"from {RANK}", RANK]
dist.broadcast_object_list(told, 1)
assert told == ["from 1", 1]
into = [None]
dist.scatter_object_list(into, [f"for {rank}" for rank in RANKS] if RANK == 1 else None, 1)
assert into == [f"for {RANK}"]
collected = [None] * SIZE if RANK == 1 else None
dist.gather_object(RANK * "x", collected, 1)
assert collected == ([rank * "x" for rank in RANKS] if RANK == 1 else None)

# leaves that require grad are overwritten as they are, and what is written to has no history
leaf = jit.ones(2, requires_grad=True)
dist.broadcast(leaf, 0)
outputs = [jit.zeros(2) for _ in RANKS]
dist.all_gather(outputs, leaf * 2)
assert leaf.is_leaf and not any(output.requires_grad for output in outputs)
dist.monitored_barrier()
print(f"rank {RANK}: all traced")
dist.destroy_process_group()
assert not dist.is_initialized()
