"""Sizes that objects remember: caches of masks, tables that grow, buffers that change; and backwards that vary."""

from __future__ import annotations

from typing import Any

import jit
from jit import nn
from jit.nn import functional as F
from tests.adversarial.orders import fine, ramp, shuffled
from tests.adversarial.trial import Trial, case


@case(exact=False)
def masks_kept_by_size(t: Trial) -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.masks: dict[int, Any] = {}

        def forward(self, x):
            n = x.shape[0]
            if n not in self.masks:
                self.masks[n] = jit.ones(n, n).tril().double()
            return (x @ x.t() * self.masks[n]) @ x

    net = Net()
    f = t.trace(net)
    for n in shuffled(2, 3, 4, 5, 8, 6):
        net(fine(n, 3))
        t.twice(f, fine(n, 3))


@case(must_hit=False)
def tables_that_grow(t: Trial) -> None:
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.longest, self.table = 0, jit.zeros(0, 2)

        def forward(self, x):
            n = x.shape[0]
            if n > self.longest:
                self.longest = 2 * n
                self.table = (jit.arange(self.longest).float()[:, None] / jit.arange(1, 3)).sin()
            return x * self.table[:n] + self.table[: n // 2].sum()

    net = Rotary()
    f = t.trace(net)
    for n in [3, 2, 3, 4, *shuffled(2, 3, 5, 6, 7, 9), 20, *shuffled(2, 5, 15, 30, 8, 9)]:
        t.twice(f, ramp(n, 2))
        t.see("longest", (net.longest, net.table))


@case()
def position_buffers_are_sliced(t: Trial) -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("places", jit.arange(16))
            self.table = nn.Embedding(16, 2)

        def forward(self, x, past=0):
            n = x.shape[0]
            return x + self.table(self.places[past : past + n]) * self.places.shape[0] + self.places[:n].sum()

    net = Net()
    f = t.trace(net)
    for n, past in shuffled((2, 0), (3, 0), (1, 3), (1, 4), (5, 2), (8, 8), (16, 0), (9, 1)):
        t.twice(f, ramp(n, 2), past, wrt=[net.table.weight])


@case()
def buffers_are_replaced_by_others(t: Trial) -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", jit.zeros(3))

        def forward(self, x):
            n = min(self.seen.shape[0], x.shape[0])
            self.seen[:n] += x[:n].detach()
            return x[:n] * self.seen[:n] + (self.seen.shape[0] == x.shape[0])

    net = Net()
    f = t.trace(net)
    for n, m in shuffled((2, 3), (3, 3), (4, 3), (4, 4), (5, 8), (6, 6), (7, 3)):
        net.seen = jit.ones(m)
        t.call(f, ramp(n))
        t.call(f, ramp(n))
        t.see("seen", net.seen)


@case(must_hit=False)
def a_cache_grown_by_cat(t: Trial) -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.past = jit.zeros(0, 2)

        def forward(self, x):
            self.past = jit.cat([self.past, x.detach()])
            if self.past.shape[0] > 12:
                self.past = self.past[-5:]
            return (x @ self.past.t()).softmax(-1) @ self.past

    net = Net()
    f = t.trace(net)
    for n in [1, 1, 1, 1, *shuffled(1, 2, 3, 4, 1, 1)]:
        t.call(f, ramp(n, 2))
        t.see("past", net.past)


@case()
def a_window_of_the_past_as_an_argument(t: Trial) -> None:
    def f(x, past):
        n, m = x.shape[0], past.shape[0]
        window = jit.cat([past, x])[-6:]
        past.mul_(0.5)
        return window, (x @ window.t()).sum(1) * (n + m), window.shape[0] == 6

    f = t.trace(f)
    for n, m in shuffled((1, 1), (1, 2), (1, 3), (2, 4), (1, 5), (1, 6), (3, 8), (7, 1), first=((3, 3), (4, 4))):
        t.call(f, ramp(n, 2), ramp(m, 2, grad=False))


@case()
def globals_of_other_sizes(t: Trial) -> None:
    state = {"w": ramp(3), "scale": 2.0}

    def f(x):
        w = state["w"]
        return x[:, None] * w + (x.shape[0] == w.shape[0]) * state["scale"], w[: x.shape[0]].sum()

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 3), (4, 3), (4, 4), (5, 8), (6, 6), (7, 3), first=((3, 3), (4, 4))):
        state["w"] = ramp(m)
        x = ramp(n)
        t.twice(f, x, wrt=[x, state["w"]])


@case(exact=False)
def steps_of_training_with_other_batches(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()
    optimizer = jit.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target) * (1 if x.shape[0] % 2 else 0.5)
        loss.backward()
        optimizer.step()
        return loss.detach(), x.shape[0]

    f = t.trace(step)
    t.watch(**{name.replace(".", "_"): value for name, value in net.state_dict().items()})
    for n in shuffled(2, 3, 4, 5, 8, 9):
        t.call(f, fine(n, 3, grad=False), jit.arange(n) % 2)


@case(exact=False)
def losses_outside_with_other_batches(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)).double()
    f = t.trace(net)
    optimizer = jit.optim.Adam(net.parameters(), lr=0.01)
    for n in shuffled(1, 2, 3, 4, 5, 8, 9):
        optimizer.zero_grad()
        out = f(fine(n, 3, grad=False))
        loss = (out[: n // 2 + 1] ** 2).mean() + out[-1].sum()
        if n % 3:
            loss.backward()
            optimizer.step()
        t.see("parameters", [p.detach() for p in net.parameters()])


@case(exact=False)
def gradients_of_some_results(t: Trial) -> None:
    def f(x, w):
        n = x.shape[0]
        y = x @ w
        return y[: n // 2], y.tanh().sum(0), x[n // 2 :] * n, y.detach()

    f = t.trace(f)
    for n, which in shuffled((2, 0), (3, 1), (4, 2), (5, 0), (6, 1), (7, 2), (8, 3), (9, 3), (1, 1)):
        x, w = fine(n, 3), fine(3, 2, start=1.0)
        results = f(x, w)
        picked = results[:3] if which == 3 else results[which : which + 1]
        total = sum(((r * r).sum() for r in picked), jit.zeros(()))
        t.see("gradients", jit.grad(total, [x, w], allow_unused=True, create_graph=False))


@case(exact=False)
def second_derivatives_by_branches_of_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        y = x**3 if n % 2 else x.exp() * n
        return y.sum() if n > 5 else y[: n // 2] * y.mean()

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 6, 7, 8, 9, 37):
        x = fine(n)
        y = f(x)
        (first,) = jit.grad(y.sum(), x, create_graph=True)
        if n % 3:
            (second,) = jit.grad((first * first).sum(), x, create_graph=n % 3 == 2)
            t.see("second", second)
            if n % 3 == 2:
                t.see("third", jit.grad(second.sum(), x)[0])
        t.see("first", first)


@case()
def requires_grad_varies_with_sizes(t: Trial) -> None:
    def f(x, y):
        z = x * y[: x.shape[0]]
        return z, z.requires_grad, (x.detach() if x.shape[0] > 4 else x).sum() * y.shape[0]

    f = t.trace(f)
    for n, a, b in shuffled((2, 1, 0), (3, 0, 1), (4, 1, 1), (5, 1, 1), (6, 0, 0), (7, 1, 0), (3, 1, 1), (8, 0, 1)):
        t.twice(f, ramp(n, grad=bool(a)), ramp(n + 1, grad=bool(b)))
        with jit.no_grad():
            t.call(f, ramp(n, grad=bool(a)), ramp(n + 1, grad=bool(b)), backward=False)


@case(exact=False)
def checkpoints_of_many_sizes(t: Trial) -> None:
    def block(x):
        return F.dropout(x, 0.5).tanh() * x.shape[0]

    f = t.trace(lambda x: jit.autograd.checkpoint(block, x[: x.shape[0] // 2 * 2].view(2, -1)).sum(0))
    for n in shuffled(2, 3, 4, 5, 6, 7, 8, 9):
        x = fine(n)
        t.call(f, x)


@case()
def random_draws_of_many_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        noise = jit.randn(n, 2) + jit.rand_like(x[:, :2])
        order = jit.randperm(n)
        kept = F.dropout(x, 1 / (n + 1))
        return kept[order], noise * x[:, :1], jit.randint(0, n + 1, (n // 2,)), jit.bernoulli(jit.full((n,), 0.5))

    f = t.trace(f)
    for n in shuffled(1, 2, 3, 4, 5, 8, 9):
        t.call(f, ramp(n, 3))
    t.see("after", jit.rand(3))


@case(exact=False)
def recurrent_layers_over_many_lengths(t: Trial) -> None:
    lstm, cell = nn.LSTM(2, 3, num_layers=2, batch_first=True).double(), nn.GRUCell(2, 3).double()

    def f(x):
        out, (h, _) = lstm(x)
        state = h[-1]
        for i in range(min(x.shape[1], 3)):
            state = cell(x[:, i], state)
        return out[:, -1] * state, h.sum(0) / x.shape[1]

    f = t.trace(f)
    for b, n in shuffled((1, 2), (2, 3), (3, 3), (2, 4), (4, 1), (2, 5), first=((3, 3), (4, 4))):
        t.twice(f, fine(b, n, 2))


@case(exact=False)
def embeddings_summed_by_bags(t: Trial) -> None:
    bag = nn.EmbeddingBag(7, 2, mode="mean").double()

    def f(indices, offsets):
        return bag(indices, offsets) * offsets.shape[0] / indices.numel()

    f = t.trace(f)
    for n, offsets in shuffled((4, [0, 2]), (5, [0, 1, 4]), (6, [0]), (3, [0, 1, 2]), (8, [0, 3, 3]), (2, [0, 1])):
        t.twice(f, jit.arange(n) * 3 % 7, jit.tensor(offsets), wrt=[bag.weight])


@case(exact=False)
def tensors_of_a_size_made_inside_and_returned(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        made = x.new_zeros(n, n + 1)
        view = made[n // 2 :]
        view += x.sum()
        other = x.new_full((n // 2,), n)
        return made, view, other, made.t(), jit.empty(n, 0).shape, jit.tensor([float(k) for k in range(n)])

    f = t.trace(f)
    for n in shuffled(1, 2, 3, 4, 5, 8, 9):
        result = t.call(f, fine(n))
        result[1].add_(1)
        t.see("shared", result)
        t.see("layout", [(r.stride(), r.storage_offset()) for r in result[:4]])


@case()
def dataclasses_and_dicts_of_many_sizes(t: Trial) -> None:
    def f(batch, n=None):
        x, mask = batch["x"], batch.get("mask")
        n = x.shape[0] if n is None else n
        y = x[:n] if mask is None else x[:n] * mask[:n]
        return {"y": y, "n": n, f"rows{n}": y.shape[0], n: y.sum()}

    f = t.trace(f)
    for n, masked, k in shuffled((2, 0, None), (3, 1, None), (4, 0, 2), (5, 1, 2), (6, 0, 6), (7, 1, 3), (8, 1, None)):
        batch = {"x": ramp(n), "mask": ramp(n, start=1.0)} if masked else {"x": ramp(n)}
        t.twice(f, batch, k, wrt=[batch["x"]])


@case()
def two_traced_functions_share_a_size(t: Trial) -> None:
    head = t.trace(lambda x, k: x[:k] * x.shape[0])
    tail = t.trace(lambda x, k: x[k:].cumsum(0) - k)

    def f(x):
        k = x.shape[0] // 2
        return jit.cat([head(x, k), tail(x, k)]) + head(x, 1)

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 6, 8, 9):
        t.twice(f, ramp(n))
        t.twice(head, ramp(n), n - 1)
        t.twice(tail, ramp(n), n // 3)


@case(exact=False)
def gradients_accumulate_over_sizes(t: Trial) -> None:
    w = fine(2, 2)

    def f(x):
        return (x @ w).tanh()[: x.shape[0] // 2 + 1].sum() / x.shape[0]

    f = t.trace(f)
    t.watch(w=w)
    for n in shuffled(1, 2, 3, 4, 5, 8, 9):
        t.call(f, fine(n, 2))
        if n == 4:
            w.grad = None


@case(exact=False)
def backward_inside_by_sizes(t: Trial) -> None:
    w = fine(2, 2)

    def f(x):
        y = (x @ w).tanh().sum() * x.shape[0]
        (g,) = jit.grad(y, w, create_graph=x.shape[0] > 3)
        with jit.no_grad():
            w.sub_(g * 0.01)
        return g.round(decimals=9), g.requires_grad

    f = t.trace(f)
    t.watch(w=w)
    for n in shuffled(1, 2, 3, 4, 5, 8, 9):
        t.call(f, fine(n, 2, grad=False), backward=False)


@case(exact=False)
def images_in_batches_that_vary(t: Trial) -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True),
        nn.Conv2d(4, 4, 1, groups=2), nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten(), nn.Linear(8, 3),
    ).double()  # fmt: skip
    f = t.trace(net)
    t.watch(mean=net[1].running_mean)
    for b, h, w in shuffled(
        (2, 6, 6), (3, 6, 7), (2, 8, 5), (4, 4, 4), (5, 9, 6), (2, 7, 12), first=((4, 4, 4), (6, 6, 6))
    ):
        t.call(f, fine(b, 2, h, w))
