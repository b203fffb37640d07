"""Programs that leave something behind, or are shared: lists, caches, files, modules that change, threads, tasks."""

import asyncio
import collections
import contextvars
import functools
import gc
import io
import logging
import os
import random
import tempfile
import threading
import time
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import jit
from jit import nn
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


# -- what Python keeps -------------------------------------------------------------------------------------------


@case(must_hit=False)
def every_container_is_changed(t: Trial) -> None:
    table: Any = {"calls": 0}
    seen: Any = set()
    last: Any = collections.deque(maxlen=2)
    raw = bytearray(b"a")

    def f(x):
        table["calls"] += 1
        seen.add(table["calls"] % 3)
        last.appendleft(table["calls"])
        raw.append(65 + table["calls"])
        return x * table["calls"] + len(seen) + len(raw)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a))
        t.see("left", [table, sorted(seen), list(last), bytes(raw)])


@case(must_hit=False)
def object_attribute_by_setattr(t: Trial) -> None:
    class Logger:
        total = 0.0

    logger = Logger()

    def f(x):
        setattr(logger, "to" + "tal", logger.total + x.shape[0])
        vars(logger)["more"] = vars(logger).get("more", 0) + 1
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("left", vars(logger))


@case(must_hit=False)
def sums_of_losses_as_numbers(t: Trial) -> None:
    history: list[Any] = []
    running = {"loss": 0.0}

    def f(x):
        loss = (x * x).sum()
        history.append(loss.item())
        running["loss"] += float(loss)
        return loss

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))
        t.see("left", [history, running])


@case(must_hit=False)
def results_are_cached_by_the_user(t: Trial) -> None:
    cache: dict[Any, Any] = {}

    def f(x):
        key = x.shape[0]
        if key not in cache:
            cache[key] = jit.arange(key).float() * 2
        return x * cache[key]

    f = t.trace(f)
    for n in (2, 2, 3, 2, 3):
        t.call(f, jit.ones(n, requires_grad=True))
        t.see("cache", cache)
    cache[2] = jit.zeros(2)
    t.call(f, jit.ones(2, requires_grad=True))


@case()
def hook_outside_counts_calls(t: Trial) -> None:
    counted: list[int] = []
    f = t.trace(lambda x: x * 2 + 1)
    for a in (1.0, 2.0, 3.0):
        x = vector(a)
        x.register_hook(lambda g: (counted.append(1), g * 10)[1])  # type: ignore[func-returns-value]
        t.call(f, x)
        t.see("counted", len(counted))


@case(must_hit=False)
def forward_hooks_of_modules(t: Trial) -> None:
    net, seen = nn.Linear(2, 2), []
    f = t.trace(net)
    for a in (1.0, 2.0, 3.0, 4.0):
        if a == 2.0:
            handle = net.register_forward_hook(lambda m, args, out: (seen.append(out.sum().item()), out * 3)[1])  # type: ignore[func-returns-value]
        if a == 4.0:
            handle.remove()
        t.call(f, vector(a, 0.5))
        t.see("seen", seen)


@case()
def warnings_and_logs_inside(t: Trial) -> None:
    stream = io.StringIO()
    logger = logging.getLogger("tests.adversarial")
    logger.addHandler(logging.StreamHandler(stream))

    def f(x):
        warnings.warn("once", stacklevel=1)
        logger.warning("shape %s", tuple(x.shape))
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))


@case(must_hit=False)
def file_is_written(t: Trial) -> None:
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "log.txt")

    def f(x):
        with open(path, "a") as file:
            file.write(f"{x.shape[0]}\n")
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("written", Path(path).read_text())


@case(must_hit=False)
def random_modules_of_every_kind(t: Trial) -> None:
    random.seed(0)
    np.random.seed(0)
    own, new = random.Random(1), np.random.default_rng(2)

    def f(x):
        noise = random.gauss(0, 1) + np.random.rand() + own.choice([1, 2, 3]) + new.integers(5) + random.uniform(0, 1)
        order = [0, 1]
        random.shuffle(order)
        return x[order[0]] * float(noise)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a, 0.5))


@case(must_hit=False)
def clocks_and_identifiers(t: Trial) -> None:
    def f(x):
        start = time.perf_counter()
        later = time.perf_counter() >= start
        return x * (2 if later and len(str(uuid.uuid4())) == 36 else 3)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))


@case(must_hit=False)
def tensor_escapes_into_every_kind_of_place(t: Trial) -> None:
    class Place:
        held: Any = None
        __slots__ = ("own",)

    place: Any = Place()
    table: dict[str, Any] = {}
    cell: Any = None

    def f(x):
        nonlocal cell
        y = x.exp()
        Place.held, place.own, table["y"], cell = y, y * 2, [y + 1], (y.detach(), x)
        return y.sum()

    f = t.trace(f)
    for a in (0.1, 0.2, 0.3):
        x = vector(a, 0.5)
        t.call(f, x, backward=False)
        later = (Place.held * place.own + table["y"][0] * cell[0]).sum()
        later.backward()
        t.see("later", [later, cell[1] is x, cell[0], x.grad])
        Place.held.detach().add_(1)
        t.see("held", Place.held)


@case(must_hit=False)
def numbers_escape(t: Trial) -> None:
    kept: list[Any] = []

    def f(x):
        kept.append((x.shape[0], x.sum().item(), x.shape))
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        n, s, shape = kept[-1]
        t.see("kept", [n + 1, s * 2, tuple(shape), type(n) is int, isinstance(s, float), jit.ones(n) * s])


@case(must_hit=False)
def closure_with_a_tensor_escapes(t: Trial) -> None:
    made: list[Any] = []

    def f(x):
        y = x * 3
        made.append(lambda z: z * y)
        return y.sum()

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x = vector(a)
        t.call(f, x)
        t.see("later", made[-1](vector(2.0)))


@case()
def cached_property_and_cached_method(t: Trial) -> None:
    class Model:
        def __init__(self):
            self.w = vector(2.0, 3.0)

        @functools.cached_property
        def scale(self):
            return float(self.w.detach().sum())

        def __call__(self, x):
            return x * self.w * self.scale

    model = Model()
    f = t.trace(model)
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a, 0.5))
        if a == 3.0:
            model.w = vector(5.0, 5.0)
            del model.scale


@case()
def modules_are_swapped(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    f = t.trace(net)
    t.call(f, vector(1.0, 0.5))
    t.call(f, vector(2.0, 0.5))
    net[1] = nn.Tanh()
    t.call(f, vector(1.0, 0.5))
    net.append(nn.Linear(2, 1))
    t.call(f, vector(1.0, 0.5))
    net[0].bias = None
    t.call(f, vector(1.0, 0.5))
    t.call(f, vector(2.0, 0.5))
    del net[2]
    net[0] = nn.Identity()
    t.call(f, vector(1.0, 0.5))


@case()
def modes_of_inner_modules(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    f = t.trace(net)
    x = jit.arange(12).reshape(3, 4).float().requires_grad_()
    for change in (net.train, net.eval, net[1].train, net[2].train, net[1].eval, net.train, net.eval):
        change()
        t.call(f, x)
        t.see("buffers", list(net.buffers()))
        x.grad = None
    net[2].p = 0.9
    net[1].momentum = 0.5
    net.train()
    t.call(f, x)
    t.see("buffers", list(net.buffers()))


@case()
def parameters_are_frozen_and_shared(t: Trial) -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    f = t.trace(lambda x: second(first(x).tanh()))
    t.watch(a=first.weight, b=second.weight)
    t.call(f, vector(1.0, 0.5))
    first.weight.requires_grad_(False)
    t.call(f, vector(1.0, 0.5))
    second.weight = first.weight
    t.call(f, vector(1.0, 0.5))
    first.weight.requires_grad_(True)
    t.call(f, vector(2.0, 0.5))
    t.call(f, vector(1.0, 0.5))
    second.weight = nn.Parameter(jit.eye(2))
    t.call(f, vector(1.0, 0.5))


@case()
def modules_change_dtype_and_load_state(t: Trial) -> None:
    net = nn.Linear(2, 2)
    state = {k: v.clone() * 2 for k, v in net.state_dict().items()}
    f = t.trace(net)
    x = vector(1.0, 0.5)
    t.call(f, x)
    net.load_state_dict(state)
    t.call(f, x)
    net.double()
    t.call(f, x.detach().double())
    t.call(f, x)  # an error
    net.float()
    t.call(f, x)
    net.zero_grad()
    t.see("gradients", [p.grad for p in net.parameters()])


# -- several at once ---------------------------------------------------------------------------------------------


@case()
def threads_with_gradients_and_guards(t: Trial) -> None:
    w = vector(2.0, 3.0, grad=False)

    def f(x):
        if x.sum() > 3:
            return (x * w).exp() * x.shape[0]
        return (x + w).sin()

    f = t.trace(f)

    def work(n):
        found = []
        for a in (0.5, 3.0, 1.0, 4.0):
            x = vector(a + n * 0.1, 0.5)
            y = f(x)
            y.sum().backward()
            found.append((y, x.grad))
        return found

    with ThreadPoolExecutor(4) as pool:
        t.see("found", list(pool.map(work, range(6))))
    t.call(f, vector(1.0, 1.0))


@case()
def tasks_of_an_event_loop(t: Trial) -> None:
    mode = contextvars.ContextVar("mode", default=1.0)
    f = t.trace(lambda x: x * mode.get() + jit.is_grad_enabled())

    async def work(n):
        mode.set(float(n % 2 + 1))
        found = []
        for _ in range(3):
            with jit.set_grad_enabled(n % 3 > 0):
                found.append(f(vector(n, 0.5)))
            await asyncio.sleep(0)
        return found

    async def main():
        return await asyncio.gather(*(work(n) for n in range(6)))

    t.see("found", asyncio.run(main()))
    t.call(f, vector(1.0, 1.0))


@case(must_hit=False)
def barrier_between_two_recordings(t: Trial) -> None:
    barrier = threading.Barrier(2, timeout=20)

    def f(x, w):
        barrier.wait()
        y = x * w
        barrier.wait()
        return y.sum() * w

    shared = vector(2.0, 3.0)
    f, g = t.trace(f), t.trace(lambda x, w: f(x, w) if False else x)
    del g
    jobs = [(vector(1.0, 2.0), shared), (jit.ones(1, 2, requires_grad=True), shared)]
    for _ in range(3):
        with ThreadPoolExecutor(2) as pool:
            t.see("found", list(pool.map(lambda job: f(*job), jobs)))


@case()
def generator_of_steps_with_calls_between(t: Trial) -> None:
    f, g = t.trace(lambda x: x * 2), t.trace(lambda x: x + 1)

    def steps(x):
        while True:
            x = f(x)
            yield x

    for a in (1.0, 2.0, 3.0):
        one, two = steps(vector(a)), steps(vector(a + 10))
        t.see("steps", [next(one), g(next(two)), next(one), next(two)])


@case()
def garbage_is_collected_in_the_middle(t: Trial) -> None:
    def f(x):
        cycle: Any = [x * 2]
        cycle.append(cycle)
        y = cycle[0] + 1
        del cycle
        gc.collect()
        return y * x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, vector(a, 0.5))
        gc.collect()


@case()
def exception_in_one_of_many_calls(t: Trial) -> None:
    def f(x, y):
        z = x.matmul(y)
        return z.reshape(2, 2) if z.numel() == 4 else z.reshape(3)

    f = t.trace(f)
    for shapes in (
        ((2, 3), (3, 2)),
        ((2, 3), (2, 3)),
        ((1, 3), (3, 3)),
        ((2, 3), (3, 2)),
        ((1, 3), (3, 4)),
        ((2, 1), (1, 2)),
    ):
        t.call(f, *(jit.ones(s, requires_grad=True) for s in shapes))


@case(must_hit=False)
def argument_and_its_history_are_kept(t: Trial) -> None:
    class Place:
        __slots__ = ("x",)

    place: Any = Place()
    kept: list[Any] = []

    def f(x, n):
        place.x = x
        kept.append((x, (n, [x], x.shape)))
        return x * x * n

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        t.twice(f, x, 2)
        t.see("kept", [place.x is x, kept[-1][0] is x, kept[-1][1][1][0] is x, kept[-1][1][2]])
        (place.x * kept[-1][0]).sum().backward()
        t.see("gradient", x.grad)
        y = x * 1
        t.twice(f, y, 3)
        t.see("kept", [place.x is y, kept[-1][0] is y])
