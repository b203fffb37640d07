"""Numbers that vary: arguments, attributes and globals of changing value, sign, kind and meaning, in any order."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

import numpy as np

import jit
from jit import nn
from jit.nn import functional as F
from tests.adversarial.orders import fine, ramp, shuffled
from tests.adversarial.trial import Trial, case

NAN, INF = float("nan"), float("inf")
SPECIAL = (0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 1e-45, 1e300, 0.1, 2.5, -3.5, 1e-300, 16777217.0)


@case(exact=False)
def learning_rates_and_momenta(t: Trial) -> None:
    w, velocity = fine(3), fine(3, grad=False)

    def step(x, lr, momentum=0.9, decay=0.0, nesterov=False):
        loss = ((x * w) ** 2).sum()
        (g,) = jit.grad(loss, w)
        with jit.no_grad():
            if decay:
                g = g + decay * w
            velocity.mul_(momentum).add_(g, alpha=1 - momentum)
            w.sub_(lr * (g + momentum * velocity if nesterov else velocity))
        return loss.detach(), lr * 2

    f = t.trace(step)
    t.watch(w=w, velocity=velocity)
    options: list[dict[str, Any]] = [
        {},
        {"momentum": 0.5},
        {"decay": 0.01},
        {"nesterov": True},
        {"momentum": 0, "decay": 0.1},
    ]
    for lr, more in shuffled(*zip((0.1, 0.05, 0.025, 0, 1e-3, 0.1, 1), [*options, {}, {}])):
        t.call(f, fine(3, grad=False), lr, **more, backward=False)


@case()
def special_numbers_as_arguments(t: Trial) -> None:
    def f(x, a):
        return (
            x * a,
            x + a,
            x / (a or 1.0),
            a - x,
            x == a,
            jit.maximum(x, jit.full_like(x, a)),
            math.copysign(1.0, a),
            [a, -a],
        )

    f = t.trace(f)
    for a in shuffled(*SPECIAL):
        t.call(f, ramp(3), a)


@case()
def special_numbers_that_decide(t: Trial) -> None:
    def f(x, a, b):
        if a != a:
            return x, "nan"
        if a == 0:
            return x * math.copysign(1, a), "zero"
        if a > b:
            return x - min(a, 5.0), "greater"
        return (x + 1 if math.isinf(a) else x * a * b), a <= b, min(a, b), max(a, b)

    f = t.trace(f)
    for a, b in shuffled(*zip(SPECIAL, (0.0, 1.0, -1.0, 2.0, 5.0, NAN, INF, -INF, 0.5, -0.0, 2.5, -3.5, 1.0, 1.0))):
        t.call(f, ramp(3), a, b)


@case()
def numbers_of_changing_kinds(t: Trial) -> None:
    def f(x, k, a):
        return x * a, a + x, k + a, jit.full((2,), a), jit.tensor([a, a]), k * a / 2, x.to(jit.int32) * a, a * k == a

    f = t.trace(f)
    kinds = [
        2,
        2.0,
        True,
        np.float32(2.5),
        np.int64(3),
        np.float64(0.1),
        3,
        0.1,
        False,
        np.bool_(True),
        1 << 20,
        2 + 1j,
    ]
    for a in shuffled(*kinds, first=(2, 3)):
        t.call(f, ramp(3), jit.arange(3), a, backward=False)


@case()
def huge_integers(t: Trial) -> None:
    def f(k, a):
        return k + a % 1000, a * 3 // 7, a.bit_length(), a // 2**20, -a, jit.tensor(a % 2**40), (k * 1.0) * a, a > 2**63

    f = t.trace(f)
    for a in shuffled(3, 5, 2**31, 2**31 - 1, -(2**31) - 1, 2**53 + 1, 2**62, -(2**62), 2**64 + 3, 10**30):
        t.call(f, jit.arange(3), a)


@case()
def integers_that_overflow_small_tensors(t: Trial) -> None:
    def f(k, a):
        return k + a, k * a, k.clamp(max=a), k.masked_fill(k > 1, a), k < a, jit.full_like(k, a)

    f = t.trace(f)
    for a in shuffled(1, 5, 127, 128, -128, 300, -1000, 2**31, 70000):
        for dtype in (jit.int8, jit.uint8, jit.int16, jit.int64):
            t.call(f, jit.arange(3).to(dtype), a)


@case()
def dropout_probabilities_and_training(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.ReLU())
    f = t.trace(net)
    g = t.trace(lambda x, p, training: F.dropout(x, p, training) + F.dropout(x, p / 2))
    for p, training in shuffled(
        (0.5, True), (0.1, True), (0.9, False), (0.0, True), (1.0, True), (0.25, False), (1, True)
    ):
        net[1].p = p
        net.train(training)
        t.call(f, ramp(4, 3))
        t.call(g, ramp(5), p, training)
    t.see("after", jit.rand(2))


@case(exact=False)
def temperatures_and_eps(t: Trial) -> None:
    norm = nn.LayerNorm(4).double()

    def f(x, temperature, eps, top):
        scores = norm(x) / temperature
        if top is not None:
            scores = scores.masked_fill(scores < scores.topk(top, -1)[0][..., -1:], -math.inf)
        return F.softmax(scores, -1), F.layer_norm(x, (4,), eps=eps), F.normalize(x, eps=eps, p=2.0 if eps < 1 else 1.0)

    f = t.trace(f)
    for temperature, eps, top in shuffled(
        (1.0, 1e-5, None), (0.7, 1e-5, 2), (0.7, 1e-3, 3), (2, 0.1, None), (0.1, 0.0, 1), (1, 1, 4), (5.0, 2.0, None)
    ):
        norm.eps = eps
        t.call(f, fine(3, 4), temperature, eps, top)


@case()
def loop_counts_and_depths(t: Trial) -> None:
    def f(x, depth, *, repeat=2):
        for i in range(depth):
            x = x * 0.5 + i / max(depth, 1)
        while repeat > 0:
            x, repeat = x.sin(), repeat - 1
        return x, depth * 1.5

    f = t.trace(f)
    for depth, repeat in shuffled((1, 2), (2, 2), (3, 1), (0, 0), (5, 1), (2, 3), (1, 0)):
        t.twice(f, ramp(3), depth, repeat=repeat)


@case()
def flags_strings_and_none(t: Trial) -> None:
    class Mode(enum.Enum):
        SUM, MEAN = 1, 2

    def f(x, flag, name, mode=None, scale=None):
        y = x * (2 if flag else -1) if name == "double" else x + len(name)
        y = y if scale is None else y * scale
        if mode is Mode.SUM:
            return y.sum(), flag is True, f"{name}{scale}"
        return (y.mean() if mode is Mode.MEAN else y), not flag, name.upper()

    f = t.trace(f)
    for flag, name, mode, scale in shuffled(
        (True, "double", None, None), (False, "double", Mode.SUM, 2), (1, "other", Mode.MEAN, 2.5), (0, "", None, 0),
        (None, "double", Mode.SUM, -0.0), (True, "x", Mode.MEAN, None), (1.0, "double", None, True),
        ("yes", "o", None, 3.0),
    ):  # fmt: skip
        t.twice(f, ramp(3), flag, name, mode, scale)


@case()
def numbers_or_tensors(t: Trial) -> None:
    def f(x, a, b):
        y = x * a + b
        return (
            jit.where(x > 0, a, y),
            y.clamp(min=b) if not isinstance(b, jit.Tensor) else jit.maximum(y, b),
            jit.is_tensor(a),
        )

    f = t.trace(f)
    tensors = [jit.tensor(2.0), ramp(3, start=1.0), jit.tensor(3), jit.tensor(0.5, dtype=jit.float64)]
    pairs = [
        (2.0, 1.0),
        (tensors[0], 1.5),
        (3, tensors[1]),
        (tensors[2], 2),
        (tensors[3], 0.0),
        (2.5, 3),
        (tensors[1], tensors[0]),
    ]
    for i in shuffled(*range(len(pairs))):
        t.call(f, ramp(3), *pairs[i], backward=False)


@case(must_hit=False)
def step_counters_as_attributes(t: Trial) -> None:
    class Schedule(nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.decay = 0, 0.9
            self.register_buffer("mean", jit.zeros(3, dtype=jit.float64))

        def forward(self, x):
            self.step += 1
            with jit.no_grad():
                self.mean.mul_(self.decay).add_(x.detach(), alpha=1 - self.decay)
            return x - self.mean / (1 - self.decay**self.step), self.step % 3 == 0

    net = Schedule()
    f = t.trace(net)
    for i in range(12):
        t.call(f, fine(3, start=float(i)))
        t.see("state", (net.mean, net.step))


@case(exact=False)
def bias_correction_by_steps_from_outside(t: Trial) -> None:
    state = {"step": 0, "beta": 0.9}
    m, v = fine(3, grad=False), fine(3, grad=False).abs()

    def f(g):
        step, beta = state["step"], state["beta"]
        m.mul_(beta).add_(g, alpha=1 - beta)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        rate = 0.1 * math.sqrt(1 - 0.99**step) / (1 - beta**step)
        warm = min(step / 5, 1.0)
        return m / (v.sqrt() + 1e-8) * rate * warm, rate

    f = t.trace(f)
    t.watch(m=m, v=v)
    for step in [*range(1, 11), *shuffled(1, 2, 100, 1000, 5, 6)]:
        state["step"] = step
        state["beta"] = 0.9 if step != 6 else 0.5
        t.call(f, fine(3, start=float(step), grad=False))


@case(exact=False)
def schedules_of_optimizers(t: Trial) -> None:
    net = nn.Linear(2, 2).double()
    optimizer = jit.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1)
    schedule = jit.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = t.trace(step)
    t.watch(weight=net.weight, bias=net.bias)
    for i in range(10):
        t.call(f, fine(2 + i % 3, 2, start=float(i), grad=False))
        schedule.step()
        if i == 5:
            optimizer.param_groups[0]["weight_decay"] = 0


@case(exact=False)
def indices_that_vary(t: Trial) -> None:
    def f(x, k):
        return (
            x[k] * k,
            x[:k].sum(),
            x[k:],
            x.roll(k),
            x.select(0, k),
            x[[k, 0]],
            x.narrow(0, min(abs(k), 2), 2),
            x[-k - 1],
        )

    f = t.trace(f)
    for k in shuffled(0, 1, 2, 3, -1, -2, 4, np.int64(2), jit.tensor(1)):
        t.twice(f, ramp(5), k)


@case(exact=False)
def dims_that_vary(t: Trial) -> None:
    def f(x, dim, keepdim):
        y = x.sum(dim, keepdim=keepdim)
        return (
            y,
            x.transpose(dim, 0),
            x.cumsum(dim),
            jit.stack([x, x], dim),
            x.size(dim),
            x.unsqueeze(dim).shape,
            x.amax(dim),
        )

    f = t.trace(f)
    for dim, keepdim in shuffled((0, False), (1, True), (2, False), (-1, True), (-2, False), (0, True)):
        t.twice(f, ramp(2, 3, 4), dim, keepdim)


@case()
def ends_of_ranges_that_vary(t: Trial) -> None:
    def f(x, a, b, step):
        r = jit.arange(a, b, step)
        return r * 2, r.dtype == jit.int64, len(r), x.sum() * b, jit.linspace(a, b, 5), x.clamp(min(a, b), max(a, b))

    f = t.trace(f)
    for a, b, step in shuffled(
        (0, 5, 1), (1, 7, 2), (0.0, 1.0, 0.25), (5, 0, -1), (-3, 3, 1.5), (2, 2, 1), (0, 5.0, 1), (0, 1, 0.1)
    ):
        t.call(f, ramp(3), a, b, step)


@case()
def powers_by_numbers(t: Trial) -> None:
    def f(x, p):
        return x.abs() ** p, jit.pow(x + 3, p), (p if p > 0 else 1) ** (x * 0.5), x.norm(p), p**2, (x * 0 + 2) ** -p

    f = t.trace(f)
    for p in shuffled(2, 3, 0.5, 1, 0, -1, 2.0, 1.5, -0.5, True):
        t.call(f, ramp(3).double(), p)


@case()
def division_and_rounding_by_numbers(t: Trial) -> None:
    def f(x, k, d):
        return (
            x / d,
            x // d,
            x % d,
            k // d,
            k % d,
            jit.div(k, d, rounding_mode="trunc"),
            x.round(decimals=d if type(d) is int else 1),
            divmod(7, d),
            d.__class__.__name__,
        )

    f = t.trace(f)
    for d in shuffled(1, 2, 3, -2, 0.5, -0.3, 2.0, 1e10, INF):
        t.call(f, ramp(4) * 5, jit.arange(-3, 4), d, backward=False)


@case()
def numbers_in_nested_settings(t: Trial) -> None:
    @dataclasses.dataclass
    class Settings:
        scale: float = 1.0
        width: int = 2
        names: tuple[str, ...] = ("a",)
        more: Any = None

    def f(x, settings, table):
        y = x[: settings.width] * settings.scale + table["bias"][0] * len(settings.names)
        return (
            y + (settings.more["gain"] if settings.more else 0),
            settings.width / 2,
            {**table, "scale": settings.scale},
        )

    f = t.trace(f)
    for scale, width, names, more, bias in shuffled(
        (1.0, 2, ("a",), None, 1), (2.0, 3, ("a",), None, 2), (0.5, 2, ("a", "b"), {"gain": 2}, 1.5),
        (3, 4, (), {"gain": 0}, 1),
        (1.5, 1, ("a",), {}, -0.0), (1.0, 2, ("b",), {"gain": 2.5}, 3),
    ):  # fmt: skip
        t.twice(f, ramp(4), Settings(scale, width, names, more), {"bias": [bias]})


@case()
def numbers_equal_to_sizes_by_chance(t: Trial) -> None:
    def f(x, k):
        n = x.shape[0]
        y = x[:k] if k < n else x
        return y * k - n, k == n, y.shape[0] == k, jit.arange(k) * n, (x * k).reshape(-1, 1) if n % k == 0 else n

    f = t.trace(f)
    for n, k in shuffled((3, 2), (2, 3), (5, 5), (6, 3), (8, 4), (7, 9), (1, 1), first=((3, 3), (4, 4))):
        t.twice(f, ramp(n), k)


@case()
def globals_that_steer(t: Trial) -> None:
    space: dict[str, Any] = {"GAIN": 1.0, "LIMIT": 3, "math": math}
    exec(
        "def f(x):\n    y = x * GAIN\n"
        "    return (y[:LIMIT] if x.shape[0] > LIMIT else y + LIMIT), GAIN * 2, math.exp(GAIN)",
        space,
    )
    f = t.trace(space["f"])
    settings = shuffled((1.0, 3, 4), (2.0, 3, 2), (-0.0, 4, 4), (0.5, 2, 5), (1, 3, 3), (0.5, 9, 9), (-1.5, 1, 2))
    for gain, limit, n in settings * 2:
        space["GAIN"], space["LIMIT"] = gain, limit
        t.twice(f, ramp(n))


@case(must_hit=False)
def seeds_that_vary(t: Trial) -> None:
    def f(x, seed, deterministic):
        generator = jit.Generator().manual_seed(seed)
        noise = jit.rand(3, generator=generator)
        return x if deterministic else x + noise * seed, seed % 3

    f = t.trace(f)
    for seed, deterministic in shuffled((0, False), (1, False), (2, True), (3, False), (10**12, False), (7, True)):
        t.call(f, ramp(3), seed, deterministic)


@case()
def numbers_read_from_tensors(t: Trial) -> None:
    def f(x, s):
        a = s.item()
        k = int(a)
        if a > 2:
            return x[:k] * a, k
        return x * a + round(a, 1), float(s) - a, s.tolist(), bool(s)

    f = t.trace(f)
    for s in shuffled(1.0, 2.0, 2.5, 3.7, -1.25, 0.0, -0.0, 4.0):
        t.call(f, ramp(5), jit.tensor(s))
    for k in shuffled(1, 2, 3, 4):
        t.call(f, ramp(5), jit.tensor(k))


@case()
def weights_of_sums_with_alpha(t: Trial) -> None:
    def f(x, y, a, b):
        return (
            jit.add(x, y, alpha=a),
            x.lerp(y, b),
            jit.addmm(x[:, None] @ y[None], x[:, None], y[None], beta=b, alpha=a),
            x.addcdiv(y, y + 3, value=a),
        )

    f = t.trace(f)
    for a, b in shuffled((1, 0.5), (2, 0.25), (0, 0), (-1, 1), (0.5, 2.0), (2, 1), (-0.0, 1e-3)):
        t.twice(f, fine(3), fine(3, start=1.0), a, b)


@case()
def slopes_thresholds_and_limits(t: Trial) -> None:
    def f(x, a):
        return (
            F.leaky_relu(x, a), F.elu(x, alpha=a), x.clamp(-a, a), F.hardtanh(x, -a, a),
            F.softplus(x, beta=a or 1, threshold=20),
            F.threshold(x, a, -a), F.celu(x, a or 1.0), F.smooth_l1_loss(x, x.detach() * 2, beta=a),
            x.renorm(2, 0, a + 1) if x.ndim > 1 else x,
        )  # fmt: skip

    f = t.trace(f)
    for a in shuffled(0.1, 0.2, 1, 2.5, 0.0, 1e-3, 10):
        t.call(f, fine(2, 3) * 2, a)


@case()
def schedules_read_by_closures(t: Trial) -> None:
    lr, step = 0.5, 0

    def f(x):
        factor = lr * (0.5 ** (step // 2))
        return x * factor, step + 1, lr > 0.3

    f = t.trace(f)
    for i in range(10):
        step, lr = i, 0.5 if i < 6 else 0.25
        t.twice(f, ramp(3))


@case(exact=False)
def branches_by_numbers_and_sizes_together(t: Trial) -> None:
    def f(x, w, k, scale):
        n = x.shape[0]
        y = x @ w if n > k else (x * scale)[:, :1]
        if scale > 1:
            y = y.tanh() * n
        return y[: max(k, 1)], y.sum(0) * scale

    f = t.trace(f)
    for n, k, scale in shuffled(
        (2, 1, 0.5), (3, 3, 0.5), (4, 2, 2.0), (5, 7, 2.5), (6, 6, 1), (3, 2, 0.25), (7, 1, 3), first=((3, 3, 3),)
    ):
        t.twice(f, fine(n, 2), fine(2, 2), k, scale)
