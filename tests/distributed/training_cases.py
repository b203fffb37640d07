"""What several processes do in the tests of training: run by mpiexec, each writes what it has found to a file.

mpiexec -n 2 python -m tests.distributed.training_cases folder
"""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jit
from jit import distributed as dist
from jit import nn
from jit.distributed.optim import ZeroRedundancyOptimizer
from jit.ir.errors import Error
from jit.nn.parallel import DistributedDataParallel
from jit.utils.data import DistributedSampler

CASES: dict[str, Callable[[], Any]] = {}
ROWS = 16
WAYS = ("eager", "traced step", "traced inside", "traced outside", "views", "buckets")
FEW_WAYS = ("eager", "traced step")
FEW_OPTIMIZERS = ("SGD", "Adam", "Adafactor")
"""All of them are tried in two processes."""
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": dict(lr=0.1, momentum=0.9, nesterov=True), "Adam": dict(lr=0.01, amsgrad=True), "AdamW": dict(lr=0.01),
    "Adamax": {}, "NAdam": {}, "RAdam": {}, "RMSprop": dict(momentum=0.5), "Adagrad": {}, "Adadelta": {},
    "ASGD": {}, "Rprop": {}, "Adafactor": {},
}  # fmt: skip


def case(function):
    """A case, by its name."""
    CASES[function.__name__] = function
    return function


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def samples(dtype=np.float64, whole=False):
    """The rows of this process, of features and targets."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((ROWS, 6)).astype(dtype), rng.standard_normal((ROWS, 3)).astype(dtype)
    if whole:
        return jit.tensor(x), jit.tensor(y)
    part = slice(rank() * ROWS // size(), (rank() + 1) * ROWS // size())
    return jit.tensor(x[part]), jit.tensor(y[part])


def network(dtype=jit.float64, seed=0):
    jit.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def over_all(value):
    """The average of a number over all processes."""
    total = jit.tensor(float(value), dtype=jit.float64)
    dist.all_reduce(total, dist.ReduceOp.AVG)
    return float(total)


def gathered(value):
    found = [None] * size()
    dist.all_gather_object(found, value)
    return found


def bits(tensors):
    """A hash of the bits of tensors; None counts as nothing."""
    made = hashlib.sha256()
    for tensor in tensors:
        made.update(b"none" if tensor is None else np.ascontiguousarray(tensor.detach().numpy()).tobytes())
    return made.hexdigest()


def agree(tensors):
    """Whether all processes have the same bits."""
    return len(set(gathered(bits(tensors)))) == 1


def gradients(net):
    return [parameter.grad for parameter in net.parameters()]


def trained(net, optimizer, step, steps=8):
    x, y = samples()
    return [over_all(step(x, y)) for _ in range(steps)]


def stepping(net, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# -- losses ----------------------------------------------------------------------------------------------------------


@case
def losses():
    found = {}
    for way in WAYS if size() == 2 else FEW_WAYS:
        inner = network(seed=rank())  # those of process 0 count
        named: dict[str, Any] = {"views": dict(gradient_as_bucket_view=True), "buckets": dict(bucket_cap_mb=1e-4)}
        options = named.get(way, {})
        ddp = DistributedDataParallel(jit.trace(inner) if way == "traced inside" else inner, **options)
        net = jit.trace(ddp) if way == "traced outside" else ddp
        optimizer = jit.optim.SGD(ddp.parameters(), lr=0.2, momentum=0.9)
        step = stepping(net, optimizer)
        traced = jit.trace(step) if way == "traced step" else step
        found[way] = trained(ddp, optimizer, traced)
        found[f"{way}: agree"] = agree(list(ddp.parameters()))
        if way == "traced step":
            found["kept"] = traced.hits >= 5
            found["reductions"] = str(traced.graph).count("= _c10d_functional::all_reduce[")
    return found


@case
def whole_numbers():
    """Sums of small whole numbers are exact, so no order of theirs makes a difference."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(-2, 3, (ROWS, 4)).astype(np.float64), rng.integers(-2, 3, (ROWS, 2)).astype(np.float64)
    net = nn.Linear(4, 2).to(jit.float64)
    with jit.no_grad():
        net.weight.copy_(jit.tensor(rng.integers(-2, 3, (2, 4)).astype(np.float64)))
        net.bias.zero_()
    ddp = DistributedDataParallel(net)
    optimizer = jit.optim.SGD(ddp.parameters(), lr=1 / 16)
    part = slice(rank() * ROWS // size(), (rank() + 1) * ROWS // size())
    step = stepping(ddp, optimizer)
    return [over_all(step(jit.tensor(x[part]), jit.tensor(y[part]))).hex() for _ in range(3)] + [bits(net.parameters())]


@case
def added_up():
    """Gradients of the parts of a batch, averaged over processes and added up in one."""
    ddp, alone = DistributedDataParallel(network(jit.float32)), network(jit.float32)
    x, y = samples(np.float32)
    (ddp(x) - y).square().mean().backward()
    whole_x, whole_y = samples(np.float32, whole=True)
    for px, py in zip(whole_x.chunk(size()), whole_y.chunk(size())):
        ((alone(px) - py).square().mean() / size()).backward()
    difference = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(gradients(ddp), gradients(alone)))
    return {"same bits": bits(gradients(ddp)) == bits(gradients(alone)), "difference": difference}


# -- gradients -------------------------------------------------------------------------------------------------------


class Branches(nn.Module):
    """Branches that are used in the order in which a process wants them, if at all."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(6, 3) for _ in range(4)])

    def forward(self, x, order):
        total = 0
        for number in order:
            total = total + self.branches[number](x)
        return total


def reference(order_of, count):
    """The gradients that all processes should have, computed in one."""
    jit.manual_seed(0)
    net = Branches().to(jit.float64)
    x, y = samples(whole=True)
    for number, (px, py) in enumerate(zip(x.chunk(count), y.chunk(count))):
        ((net(px, order_of(number)) - py).square().mean() / count).backward()
    return gradients(net)


def branched(order_of, **options):
    jit.manual_seed(0)
    ddp = DistributedDataParallel(Branches().to(jit.float64), bucket_cap_mb=1e-4, **options)
    x, y = samples()
    (ddp(x, order_of(rank())) - y).square().mean().backward()
    expected = reference(order_of, size())
    absent = [a is None for a in gradients(ddp)] == [b is None for b in expected]
    close = all(
        np.allclose(a.numpy(), b.numpy(), rtol=1e-12) for a, b in zip(gradients(ddp), expected) if b is not None
    )
    return absent and close and agree(gradients(ddp))


@case
def orders():
    """Gradients come in another order in each process."""
    return branched(lambda number: np.roll(range(4), number).tolist())


@case
def unused():
    found = {
        "here and there": branched(lambda number: [0, 1 + number % 2], find_unused_parameters=True),
        "nowhere": branched(lambda number: [0, 2], find_unused_parameters=True),
        "static": branched(lambda number: [0, 2], static_graph=True),
        "static views": branched(lambda number: [0, 2], static_graph=True, gradient_as_bucket_view=True),
    }
    try:
        branched(lambda number: [0, 1])
    except Error as error:
        found["refused"] = str(error)
    return found


@case
def without_sync():
    ddp, alone = DistributedDataParallel(network()), network()
    x, y = samples()
    with ddp.no_sync():
        (ddp(x) - y).square().mean().backward()
    differ = size() == 1 or not agree(gradients(ddp))
    (ddp(x * 2) - y).square().mean().backward()
    whole_x, whole_y = samples(whole=True)
    for factor in (1, 2):
        (alone(whole_x * factor) - whole_y).square().mean().backward()
    close = all(np.allclose(a.numpy(), b.numpy(), rtol=1e-11) for a, b in zip(gradients(ddp), gradients(alone)))
    return {"differ": differ, "close": close, "agree": agree(gradients(ddp))}


@case
def several_backwards():
    ddp, alone = DistributedDataParallel(network()), network()
    (x, y), (whole_x, whole_y) = samples(), samples(whole=True)
    for net, features, targets in ((ddp, x, y), (alone, whole_x, whole_y)):
        result = net(features)
        (result - targets).square().mean().backward(retain_graph=True)
        result.abs().mean().backward()
    return all(np.allclose(a.numpy(), b.numpy(), rtol=1e-11) for a, b in zip(gradients(ddp), gradients(alone)))


@case
def checkpointed():
    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = network(), nn.Linear(3, 3).to(jit.float64)

        def forward(self, x):
            return self.last(jit.checkpoint(self.inner, x))

    jit.manual_seed(3)
    alone = Recomputed()
    jit.manual_seed(3)
    ddp = DistributedDataParallel(Recomputed(), bucket_cap_mb=1e-4)
    (x, y), (whole_x, whole_y) = samples(), samples(whole=True)
    for net, features, targets in ((ddp, x, y), (alone, whole_x, whole_y)):
        (net(features) - targets).square().mean().backward()
    return all(np.allclose(a.numpy(), b.numpy(), rtol=1e-11) for a, b in zip(gradients(ddp), gradients(alone)))


@case
def communication_hook():
    seen = []

    def hook(state, bucket):
        seen.append((state, bucket.index(), bucket.is_last(), len(bucket.parameters()), len(bucket.gradients())))
        future: Any = jit.futures.Future()
        dist.all_reduce(bucket.buffer())
        future.set_result(bucket.buffer() / size())
        return future

    plain, hooked = (
        DistributedDataParallel(network(), bucket_cap_mb=1e-3),
        DistributedDataParallel(network(), bucket_cap_mb=1e-3),
    )
    hooked.register_comm_hook("state", hook)
    x, y = samples()
    for net in (plain, hooked):
        (net(x) - y).square().mean().backward()
    close = all(np.allclose(a.numpy(), b.numpy()) for a, b in zip(gradients(plain), gradients(hooked)))
    return {"close": close, "seen": seen if size() > 1 else None}


@case
def mixed_precision():
    ddp = DistributedDataParallel(network(jit.float32))
    optimizer, scaler = jit.optim.SGD(ddp.parameters(), lr=0.1), jit.amp.GradScaler("cpu", init_scale=8.0)
    x, y = samples(np.float32)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        with jit.autocast("cpu", dtype=jit.bfloat16):
            loss = (ddp(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(over_all(loss))
    return {"agree": agree(list(ddp.parameters())), "losses": found}


@case
def guarded():
    """What Python decides is another thing in each process, after reductions have begun."""
    ddp = DistributedDataParallel(network(jit.float32), bucket_cap_mb=1e-4)
    optimizer = jit.optim.SGD(ddp.parameters(), lr=0.1)

    @jit.trace
    def step(x, y):
        optimizer.zero_grad()
        loss = (ddp(x) - y).square().mean()
        loss.backward()
        if x[0, 0] > 0:
            loss = loss * 2
        optimizer.step()
        return loss

    rng = np.random.default_rng(rank())
    for _ in range(20):
        step(*(jit.tensor(rng.standard_normal((4, size)).astype(np.float32)) for size in (6, 3)))
    reductions = str(step.graph).count("= _c10d_functional::all_reduce[")
    return {"agree": agree(list(ddp.parameters())), "hits": step.hits, "reductions": reductions}


# -- buffers ---------------------------------------------------------------------------------------------------------


@case
def buffers():
    jit.manual_seed(rank())
    norm = nn.BatchNorm1d(6)
    with jit.no_grad():
        norm.running_mean.fill_(rank() + 1.0)
    ddp = DistributedDataParallel(nn.Sequential(norm, nn.Linear(6, 3)))
    first = norm.running_mean.tolist()
    seen = []
    norm.register_forward_pre_hook(lambda module, args: seen.append(bits(module.buffers())))
    x, y = samples(np.float32)
    for _ in range(3):
        (ddp(x) - y).square().mean().backward()
    kept = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)), broadcast_buffers=False)
    for _ in range(2):
        (kept(x) - y).square().mean().backward()
    return {
        "first": first, "agree before each": len(set(map(tuple, gathered(seen)))) == 1 and len(seen) == 3,
        "differ without": size() == 1 or not agree(list(kept.buffers())), "keys": list(ddp.state_dict())[:2],
    }  # fmt: skip


@case
def other_networks():
    try:
        DistributedDataParallel(nn.Linear(3, 2 + rank()))
    except Error as error:
        return str(error)
    return None


@case
def sampled():
    sampler = DistributedSampler(range(10), shuffle=False)
    return [sampler.num_replicas, sampler.rank, list(sampler)]


# -- optimizers ------------------------------------------------------------------------------------------------------


@case
def shared_out():
    names = OPTIMIZERS if size() == 2 else FEW_OPTIMIZERS
    return {name: _shared_out(name, OPTIMIZERS[name]) for name in names}


def _shared_out(name, options):
    """Whether an optimizer that is shared out gives the bits of the plain one, with schedules, and its whole state."""
    kind = getattr(jit.optim, name)
    plain, shared = network(jit.float32), network(jit.float32)
    x, y = samples(np.float32, whole=True)
    optimizers = []
    for net, make in ((plain, kind), (shared, lambda groups, **kw: ZeroRedundancyOptimizer(groups, kind, **kw))):
        groups = [{"params": list(net[:3].parameters())}, {"params": list(net[3:].parameters()), "lr": 0.02}]
        optimizer = make(groups, **options)
        schedule = jit.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        step = stepping(net, optimizer)
        for _ in range(6):
            step(x, y)
            schedule.step()
        optimizers.append(optimizer)
    whole, part = optimizers
    same = bits(plain.parameters()) == bits(shared.parameters()) and agree(list(shared.parameters()))
    part.consolidate_state_dict()
    states = rank() > 0 or state_bits(part.state_dict()) == state_bits(whole.state_dict())
    loaded = ZeroRedundancyOptimizer([{"params": g["params"]} for g in part.param_groups], kind, **options)
    loaded.load_state_dict(whole.state_dict())
    for optimizer, net in ((whole, plain), (loaded, shared)):
        stepping(net, optimizer)(x, y)
    again = bits(plain.parameters()) == bits(shared.parameters())
    fewer = len(part.state) < len(whole.state) or size() == 1
    return [same, states, again, fewer]


def state_bits(state):
    """A hash of the state of an optimizer, with its options."""
    tensors = [v for n in sorted(state["state"]) for _, v in sorted(state["state"][n].items())]
    numbers = [v for v in tensors if not isinstance(v, jit.Tensor)]
    return (
        bits(t for t in tensors if isinstance(t, jit.Tensor))
        + repr(numbers)
        + repr([sorted(group.items()) for group in state["param_groups"]])
    )


@case
def shared_out_and_traced():
    found = []
    for make in (jit.optim.Adam, lambda p, **kw: ZeroRedundancyOptimizer(p, jit.optim.Adam, **kw)):
        ddp = DistributedDataParallel(network(jit.float32))
        optimizer = make(ddp.parameters(), lr=0.01)
        schedule = jit.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
        x, y = samples(np.float32)
        step = jit.trace(stepping(ddp, optimizer))
        for _ in range(12):
            step(x, y)
            schedule.step()
        found.append((bits(ddp.parameters()), step.hits))
    return {"same": found[0][0] == found[1][0], "hits": found[1][1]}


@case
def states_stay_apart():
    net = network()
    optimizer = ZeroRedundancyOptimizer(net.parameters(), jit.optim.Adam)
    try:
        optimizer.state_dict()
    except Error as error:
        return str(error)
    return None


# -- checkpoints -----------------------------------------------------------------------------------------------------


def state():
    """A network that has learned, and its optimizer."""
    ddp = DistributedDataParallel(network(jit.float32))
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), jit.optim.Adam, lr=0.01)
    step = stepping(ddp, optimizer)
    for _ in range(3):
        step(*samples(np.float32))
    return {
        "net": ddp.module,
        "optimizer": optimizer,
        "epoch": 3,
        "options": {"betas": (0.5, 0.9), "names": ["a", "b"]},
    }


@case
def checkpoint_written():
    made = state()
    own = {f"part {rank()}": jit.full((2, 3), float(rank()))}
    dist.checkpoint.save({**made, **own}, checkpoint_id=FOLDER / f"by-{size()}")
    made["optimizer"].consolidate_state_dict()
    return [bits(made["net"].parameters()), state_bits(made["optimizer"].state_dict()) if rank() == 0 else None]


@case
def checkpoint_read():
    found = {}
    for count in (1, 2, 4):
        folder = FOLDER / f"by-{count}"
        if (folder / "index.json").exists():
            net = network(jit.float32, seed=5)
            optimizer = ZeroRedundancyOptimizer(net.parameters(), jit.optim.Adam, lr=7.0)
            state = {"net": net, "optimizer": optimizer, "epoch": 0, "options": {}}
            dist.checkpoint.load(state, checkpoint_id=folder)
            optimizer.consolidate_state_dict()
            whole = state_bits(optimizer.state_dict()) if rank() == 0 else None
            found[count] = [bits(net.parameters()), whole, state["epoch"], repr(state["options"])]
    return found


@case
def checkpoint_refused():
    if size() == 1:
        return None
    folder = FOLDER / f"refused-{size()}"
    dist.checkpoint.save({"x": jit.ones(2)}, checkpoint_id=folder)
    found = []
    for bad in ({"x": object()}, {"x": jit.ones(3)}, {"x": 1}):
        try:
            dist.checkpoint.save(bad if rank() == size() - 1 else {"x": jit.zeros(2)}, checkpoint_id=folder)
        except Error as error:
            found.append(f"{type(error).__name__}: {error}")
    kept: dict[str, Any] = {}
    dist.checkpoint.load(kept, checkpoint_id=folder)
    return {"errors": found, "kept": kept["x"].tolist(), "files": len(list(folder.iterdir()))}


def main():
    """Run the cases whose names are given, or all."""
    global FOLDER
    FOLDER = Path(sys.argv[1])
    dist.init_process_group("mpi")
    found = {name: CASES[name]() for name in (sys.argv[2:] or CASES)}
    (FOLDER / f"found-{size()}-{rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


FOLDER = Path()

if __name__ == "__main__":
    main()
