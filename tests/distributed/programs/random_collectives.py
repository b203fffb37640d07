"""A thousand random collectives, each compared with what numpy computes of the tensors of all processes.

All processes draw the same numbers, so each knows the tensors of the others. `random_collectives.py SEED COUNT`.
"""

import sys
from typing import Any

import numpy as np

import jit
import jit.distributed as dist

SEED, COUNT = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("mpi", timeout=30)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(SEED)

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")  # fmt: skip
COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
               "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send")  # fmt: skip
OPS = dist.ReduceOp

groups = [(None, list(range(SIZE)))]
for members in ([0], [SIZE - 1, 0] if SIZE > 2 else [0, 1], list(range(1, SIZE))):
    groups.append((dist.new_group(members), sorted(members)))


def drawn(dtype, sizes):
    """A tensor of small whole numbers, of which sums and products are exact in every dtype."""
    array = rng.integers(0, 2 if dtype == "bool" else 3, sizes)
    tensor = jit.from_numpy(np.asarray(array)).to(getattr(jit, dtype))
    return tensor * (1 + 1j) if dtype.startswith("complex") and rng.random() < 0.5 else tensor


def laid_out(tensor, how):
    """The same elements in another layout."""
    if how == "strided" and tensor.ndim:
        spread = jit.zeros((*tensor.shape, 2), dtype=tensor.dtype)
        spread[..., 0] = tensor
        return spread[..., 0]
    if how == "transposed" and tensor.ndim > 1:
        return tensor.transpose(0, 1).contiguous().clone().transpose(0, 1)
    return tensor.clone()


def array(tensor):
    """The elements as numpy computes with them: narrow floats wide."""
    wide = tensor.float() if tensor.dtype in (jit.float16, jit.bfloat16) else tensor
    return wide.numpy()


def reduced(op, arrays):
    """What the reduction gives, by numpy."""
    functions = {OPS.SUM: np.add, OPS.AVG: np.add, OPS.PRODUCT: np.multiply, OPS.MIN: np.minimum,
                 OPS.MAX: np.maximum, OPS.BAND: np.bitwise_and, OPS.BOR: np.bitwise_or,
                 OPS.BXOR: np.bitwise_xor}  # fmt: skip
    stacked = np.stack(arrays)
    total = functions[op].reduce(stacked, 0, dtype=stacked.dtype)
    return total / stacked.dtype.type(len(arrays)) if op is OPS.AVG else total


def reductions(dtype):
    """The reductions that take a dtype."""
    if dtype.startswith("complex"):
        return [OPS.SUM, OPS.PRODUCT, OPS.AVG]
    if "float" in dtype:
        return [OPS.SUM, OPS.PRODUCT, OPS.AVG, OPS.MIN, OPS.MAX]
    return [op for op in OPS if op is not OPS.AVG]


def same(found, expected, what):
    """Compare a tensor with an array of the same dtype, or of a wider one that holds the same numbers."""
    found = array(found)
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    if "AVG" in what and found.dtype.kind in "fc":  # the quotient is rounded to the dtype
        assert np.allclose(found, expected, rtol=1e-2 if "16" in what else 1e-6, atol=0), (what, found, expected)
    else:
        assert np.array_equal(found, expected), (what, found, expected)


def one(number):
    """One random collective. Every process draws everything, and those in the group take part."""
    name = COLLECTIVES[rng.integers(len(COLLECTIVES))]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    group, members = groups[rng.integers(len(groups))]
    if not members or (name == "send" and len(members) < 2):
        return
    count = len(members)
    sizes = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 4)))
    op = reductions(dtype)[rng.integers(len(reductions(dtype)))]
    root = members[rng.integers(count)]
    how = ("plain", "strided", "transposed")[rng.integers(3)]
    is_async, stacked = map(bool, rng.integers(0, 2, 2))
    ones = [drawn(dtype, sizes) for _ in members]
    lists = [[drawn(dtype, sizes) for _ in members] for _ in members]
    rows = [[int(n) for n in rng.integers(0, 3, count)] for _ in members]
    cut = [drawn(dtype, (sum(rows[i]), *sizes)) for i in range(count)]
    if RANK not in members:
        return
    me, what = members.index(RANK), f"{number}: {name} {dtype} {list(sizes)} {op.name} root={root} {how} {members}"
    own: Any = laid_out(ones[me], how)
    into: Any = None
    arrays = [array(t) for t in ones]
    empty = lambda: laid_out(jit.zeros(sizes, dtype=own.dtype), how)  # noqa: E731

    def done(work):
        if is_async:
            assert work.wait() and work.is_completed()

    if name == "all_reduce":
        done(dist.all_reduce(own, op, group, is_async))
        same(own, reduced(op, arrays), what)
    elif name == "broadcast":
        done(dist.broadcast(own, root, group, is_async))
        same(own, arrays[members.index(root)], what)
    elif name == "reduce":
        done(dist.reduce(own, root, op, group, is_async))
        same(own, reduced(op, arrays) if root == RANK else arrays[me], what)
    elif name == "all_gather":
        into = [empty() for _ in members]
        done(dist.all_gather(into, own, group, is_async))
        for each, expected in zip(into, arrays, strict=True):
            same(each, expected, what)
    elif name == "all_gather_into_tensor":
        shape = (count, *sizes) if stacked and sizes else (count * (sizes or (1,))[0], *sizes[1:])
        into = jit.zeros(shape, dtype=own.dtype)
        done(dist.all_gather_into_tensor(into, own, group, is_async))
        same(into, np.stack(arrays).reshape(tuple(into.shape)), what)
    elif name == "gather":
        into = [empty() for _ in members] if root == RANK else None
        done(dist.gather(own, into, root, group, is_async))
        for each, expected in zip(into or (), arrays):
            same(each, expected, what)
    elif name == "scatter":
        done(dist.scatter(own, lists[me] if root == RANK else None, root, group, is_async))
        same(own, array(lists[members.index(root)][me]), what)
    elif name == "reduce_scatter":
        done(dist.reduce_scatter(own, [laid_out(t, how) for t in lists[me]], op, group, is_async))
        same(own, reduced(op, [array(each[me]) for each in lists]), what)
    elif name == "reduce_scatter_tensor":
        done(dist.reduce_scatter_tensor(own, jit.stack(lists[me]).reshape(count, *sizes), op, group, is_async))
        same(own, reduced(op, [array(each[me]) for each in lists]), what)
    elif name == "all_to_all":
        into = [empty() for _ in members]
        done(dist.all_to_all(into, [laid_out(t, how) for t in lists[me]], group, is_async))
        for i, each in enumerate(into):
            same(each, array(lists[i][me]), what)
    elif name == "all_to_all_single":
        received = [rows[i][me] for i in range(count)]
        into = jit.zeros((sum(received), *sizes), dtype=own.dtype)
        done(dist.all_to_all_single(into, laid_out(cut[me], how), received, rows[me], group, is_async))
        starts = [sum(rows[i][:me]) for i in range(count)]
        parts = [array(cut[i])[starts[i] : starts[i] + rows[i][me]] for i in range(count)]
        same(into, np.concatenate(parts), what)
    else:
        send_around(own, me, members, group, arrays, is_async, number, what)


def send_around(own, me, members, group, arrays, is_async, number, what):
    """Send to the next process, and receive from the one before."""
    after, before = members[(me + 1) % len(members)], me - 1
    into = jit.zeros(tuple(own.shape), dtype=own.dtype)
    if is_async:
        ops = [dist.P2POp(dist.isend, own, after, group, number), dist.P2POp(dist.irecv, into, members[before], group,
                                                                             number)]  # fmt: skip
        for work in dist.batch_isend_irecv(ops):
            work.wait()
    elif me % 2:
        assert dist.recv(into, members[before], group, number) == members[before]
        dist.send(own, after, group, number)
    else:
        dist.send(own, after, group, number)
        dist.recv(into, members[before], group, number)
    same(into, arrays[before], what)


for number in range(COUNT):
    one(number)
print(f"rank {RANK}: {COUNT} collectives")
dist.destroy_process_group()
