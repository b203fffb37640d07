"""Recordings that serve many sizes in odd surroundings: layouts, aliases, magnitudes, frequent sizes, foreign code."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import jit
from jit import nn
from jit.nn import functional as F
from tests.adversarial.orders import fine, ramp, shuffled
from tests.adversarial.trial import Trial, case


@case(exact=False)
def sizes_of_many_magnitudes(t: Trial) -> None:
    def f(x, y):
        n = x.shape[0]
        z = (x * y + n).tanh()
        return (
            z.sum(0) / n,
            z[: n // 2].mean(),
            z[n // 2 :].cumsum(0)[-1],
            x.t() @ z,
            F.softmax(z, 0)[-1],
            z.flip(0)[:3],
        )

    f = t.trace(f)
    for n in shuffled(2, 3, 17, 100, 1023, 1025, 20000, 65537, first=(4, 5)):
        t.call(f, fine(n, 3), fine(n, 3, start=1.0))


@case(exact=False)
def rows_and_columns_of_many_magnitudes(t: Trial) -> None:
    def f(x):
        n, m = x.shape
        y = F.layer_norm(x, (m,))
        return (
            y.softmax(-1),
            y.mean(0) / n,
            y.amax(1),
            x.argmax(-1),
            y.t().contiguous()[: m // 2],
            (y * y).mean(1, keepdim=True) - x,
        )

    f = t.trace(f)
    for n, m in shuffled(
        (2, 3), (3000, 2), (2, 3000), (65, 64), (64, 65), (257, 255), (5, 4097), first=((4, 5), (6, 7))
    ):
        t.call(f, fine(n, m))


@case(exact=False)
def layouts_that_vary_with_sizes(t: Trial) -> None:
    def f(x, y):
        z = x * y.relu() + x.shape[0]
        return (
            z,
            z.is_contiguous(),
            x.reshape(-1)[: x.shape[1]],
            (x @ y.t()).sum(0),
            x[1:, ::2] * 2,
            z.stride(),
            x.sum(0),
        )

    def laid(kind: int, n: int, m: int) -> Any:
        whole = fine(2 * max(n, m) + 2, 2 * max(n, m) + 2)
        return [
            lambda: fine(n, m), lambda: fine(m, n).t(), lambda: whole[::2, ::2][:n, :m],
            lambda: fine(1, m).expand(n, m),
            lambda: fine(n, 1).expand(n, m), lambda: whole[1 : n + 1, 2 : m + 2], lambda: fine(n, m, 2)[..., 1],
            lambda: fine(n * m).as_strided((n, m), (1, n)),
        ][kind]()  # fmt: skip

    f = t.trace(f)
    kinds = [(a, b) for a in range(8) for b in (0, (a + 3) % 8)]
    for i, (a, b) in enumerate(shuffled(*kinds)):
        n, m = 2 + i * 5 % 7, 2 + i * 3 % 5
        t.call(f, laid(a, n, m).detach().requires_grad_(i % 3 > 0), laid(b, n, m))


@case()
def arrays_of_numpy_that_lie_otherwise(t: Trial) -> None:
    def f(x):
        return x * 2 + x.shape[0], x[-1], x.sum(-1), x.t()[: x.shape[0] // 2]

    f = t.trace(f)
    base = np.arange(900, dtype=np.float64).reshape(30, 30)
    for n, m, kind in shuffled((3, 4, 0), (4, 3, 1), (5, 5, 2), (6, 7, 3), (8, 2, 4), (9, 9, 0), (7, 6, 1)):
        made = [
            base[:n, :m],
            base[:m, :n].T,
            base[: 2 * n : 2, m : 2 * m],
            np.ascontiguousarray(base[:n, :m]),
            base.copy()[:n, :m],
        ]
        t.call(f, jit.from_numpy(made[kind]))


@case()
def arguments_that_share_memory(t: Trial) -> None:
    def f(x, y):
        x.mul_(2)
        y.add_(x.shape[0])
        return x.sum() - y.sum(), x[: y.shape[0]] * y, x.shape[0] - y.shape[0]

    f = t.trace(f)
    for n, kind in shuffled((3, 0), (4, 0), (5, 1), (6, 1), (7, 0), (8, 1), (4, 1), first=((3, 0), (4, 0))):
        x = ramp(n, grad=False)
        t.call(f, x, x if kind else ramp(n, start=1.0, grad=False))
        t.see("written", x)


@case()
def results_that_are_views_are_written(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        return x[n // 2 :], x.t()[0], x.view(-1)[:: n - 1], x[-1].unsqueeze(0).expand(n, -1), x.diagonal()

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (7, 5), (8, 3)):
        x = ramp(n, m, grad=False)
        results = f(x)
        for i, result in enumerate(results[:3]):
            result.mul_(2 + i)
        t.see("written", (x, results))
        t.see("layouts", [(r.stride(), r.storage_offset(), r._base is not None) for r in results])
        leaf = ramp(n, m)
        views = f(leaf * 1)
        views[0].mul_(views[1].sum().detach())
        (views[0].sum() + views[4].sum()).backward()
        t.see("gradient", leaf.grad)


@case()
def a_frequent_size_among_others(t: Trial) -> None:
    def f(x, k):
        return x[: x.shape[0] // 2] * x.shape[0] + k, x.sum() * (x.shape[0] == 5)

    f = t.trace(f)
    for i in range(120):
        n = (5, 5, 5, 3 + i % 11, 5, 5)[i % 6]
        t.call(f, ramp(n, start=float(i)), i // 40, backward=i % 4 == 0)


@case(exact=False)
def modules_whose_weights_have_other_sizes(t: Trial) -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(fine(3, 2).detach())
            self.bias = None

        def forward(self, x):
            y = x @ self.weight[: x.shape[1]]
            y = y if self.bias is None else y + self.bias
            return y * (self.weight.shape[0] - x.shape[1] + 1)

    net = Net()
    f = t.trace(net)
    for n, m, k, bias in shuffled((2, 3, 2, 0), (3, 3, 4, 1), (4, 2, 4, 0), (5, 4, 5, 1), (3, 6, 2, 0), (2, 2, 2, 1)):
        net.weight = nn.Parameter(fine(m + n % 2, k).detach())
        net.bias = nn.Parameter(fine(k).detach()) if bias else None
        t.call(f, fine(n, m))
        t.see("gradients", [p.grad for p in net.parameters()])


@case()
def functions_of_the_users_with_sizes(t: Trial) -> None:
    class Halve(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.n, ctx.k = x.shape[0], k
            return x[: ctx.n // 2] * k

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            full = jit.zeros_like(x)
            full[: ctx.n // 2] = grad * ctx.k
            return full + x * ctx.n, None

    f = t.trace(lambda x, k: Halve.apply(x * 2, k).sum(0) * x.shape[0] + Halve.apply(x, x.shape[1]).mean())
    for n, m, k in shuffled((2, 3, 1.0), (3, 2, 2.0), (4, 4, 2), (5, 7, 0.5), (7, 5, 2.0), (8, 3, 8)):
        t.twice(f, ramp(n, m), k)


@case()
def changed_geometries_of_arguments(t: Trial) -> None:
    def f(x, y):
        x.t_()
        y.unsqueeze_(x.shape[0] % 2)
        y.squeeze_()
        z = x * 1
        z.resize_(x.shape[0] // 2, 2) if z.numel() >= x.shape[0] // 2 * 2 else z.t_()
        return x * 2, z.shape, y.shape, x.stride()

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (7, 5), (8, 3)):
        t.call(f, ramp(n, m, grad=False), ramp(m, grad=False))


@case()
def results_given_as_out(t: Trial) -> None:
    def f(x, out):
        n = x.shape[0]
        jit.mul(x, n, out=out)
        jit.add(out[: n // 2], 1, out=out[n - n // 2 :])
        return out.sum() + x.sum()

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 8, 9):
        t.call(f, ramp(n, grad=False), jit.zeros(n))


@case()
def counts_of_elements_with_sizes(t: Trial) -> None:
    def f(x, y):
        picked = x[x > 0]
        k = picked.shape[0]
        same = k == y.shape[0]
        z = y[:k] * k if k < y.shape[0] else y.sum() + picked.sum()
        return z, same, (x > 0).nonzero().shape[0] + x.shape[0], jit.cat([picked, y]).shape, picked.numel() / x.numel()

    f = t.trace(f)
    for n, m in shuffled((2, 3), (3, 2), (4, 4), (5, 7), (7, 5), (8, 3), (6, 3), (12, 6)):
        t.twice(f, ramp(n), ramp(m, start=1.0))


@case()
def parts_by_numbers_and_sizes(t: Trial) -> None:
    def f(x, k):
        y = x[:k]
        y = y + y.shape[0]
        return (
            y,
            x[k:].sum(),
            y.shape[0] == k,
            x.split([k, x.shape[0] - k])[1] * 2,
            jit.full((k,), 2.0),
            x[-k:].sum(),
            y.mean(),
        )

    f = t.trace(f)
    for n, k in shuffled((3, 1), (3, 2), (4, 0), (5, 5), (6, 4), (7, 3), (9, 8), (9, 1), first=((4, 2), (5, 3))):
        t.twice(f, ramp(n), k)
        t.twice(f, ramp(n), np.int64(k))


@case()
def parts_by_elements(t: Trial) -> None:
    def f(x, k):
        p = k.item()
        return x[p] * p, x[:p].sum(), x[k], x[p - 1 :] * p, x.narrow(0, p, 1), x[-p - 1]

    f = t.trace(f)
    for n, k in shuffled((3, 1), (3, 2), (4, 0), (5, 4), (6, 3), (9, 8), (7, -1), (7, -3), first=((4, 2), (5, 3))):
        t.twice(f, ramp(n), jit.tensor(k))


@case()
def modes_that_vary_with_sizes(t: Trial) -> None:
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.3))
    f = t.trace(lambda x: net(x) * x.shape[0] + jit.is_grad_enabled())
    for i, n in enumerate(shuffled(2, 3, 4, 5, 8, 9, 6, 7)):
        net.train(i % 3 != 0)
        with jit.set_grad_enabled(i % 4 != 1), jit.inference_mode(i % 5 == 4):
            t.call(f, ramp(n, 3), backward=i % 4 != 1 and i % 5 != 4)
        t.see("mean", net[0].running_mean)


@case()
def dtypes_that_vary_with_sizes(t: Trial) -> None:
    def f(x, k):
        return (
            x * k + x.shape[0],
            x.sum(),
            x[: x.shape[0] // 2].to(k.dtype) @ k[: x.shape[0] // 2],
            (x > k).sum(0),
            x.cumsum(0),
        )

    f = t.trace(f)
    dtypes = [jit.float32, jit.int64, jit.float64, jit.bool]
    for i, n in enumerate(shuffled(2, 3, 4, 5, 6, 8, 9, 10)):
        x = (ramp(n, grad=False) * 3).to(dtypes[i % 4])
        t.call(f, x, (ramp(n, start=2.0, grad=False) * 4).to(dtypes[i % 2]))


@case(exact=False)
def hooks_and_kept_gradients_of_many_sizes(t: Trial) -> None:
    seen: list[Any] = []

    def f(x, w):
        y = x @ w
        return y.tanh().sum(1) * x.shape[0], y

    def doubled(grad: Any) -> Any:
        seen.append(grad.clone())
        return grad * 2

    f = t.trace(f)
    w = fine(3, 2)
    for n in shuffled(2, 3, 4, 5, 8, 9):
        x = fine(n, 3)
        result, y = f(x, w)
        handle = result.register_hook(doubled)
        result.retain_grad()
        (result.sum() + (y * y)[: n // 2].sum()).backward()
        handle.remove()
        t.see("gradients", (x.grad, w.grad, result.grad, seen[-1]))


@case(exact=False)
def the_same_result_is_differentiated_twice(t: Trial) -> None:
    def f(x):
        return (x.exp() * x.shape[0])[: x.shape[0] // 2 + 1]

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 8, 9):
        x = fine(n)
        y = f(x)
        for _ in range(2):
            y.sum().backward(retain_graph=True)
            t.see("gradient", x.grad)
        x.grad = None
        (first,) = jit.grad(y.prod(), x, create_graph=True)
        (first * first).sum().backward()
        t.see("second", x.grad)


@case(exact=False)
def arguments_are_written_between_forward_and_backward(t: Trial) -> None:
    def f(x, w):
        return (x * w[: x.shape[0]]).sin() * x.shape[0]

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 8, 9):
        x, w = fine(n), fine(12, start=1.0)
        y = f(x, w)
        try:
            with jit.no_grad():
                w.add_(1)
            y.sum().backward()
            t.see("gradient", x.grad)
        except jit.Error as error:
            t.see("refused", type(error).__name__)


@case()
def calls_in_threads(t: Trial) -> None:
    f = t.trace(lambda x: (x * x.shape[0]).tanh()[: x.shape[0] // 2 + 1].sum() + x.mean())
    found: dict[Any, Any] = {}

    def work(number: int) -> None:
        for n in range(2, 12):
            x = ramp(n + number)
            y = f(x)
            y.backward()
            found[number, n] = (y.detach().numpy().round(4).tolist(), x.grad.numpy().round(4).tolist())

    for n in (2, 3, 4):
        f(ramp(n)).backward()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.see("found", [found[key] for key in sorted(found)])


@case()
def methods_and_static_functions_of_many_sizes(t: Trial) -> None:
    class Bag:
        sizes = (2, 4, 8)

        def __init__(self, k):
            self.k = k

        def pick(self, x):
            best = min(self.sizes, key=lambda s: abs(s - x.shape[0]))
            return F.pad(x, (0, best - x.shape[0] % best)) * self.k

        @staticmethod
        def split(x):
            return [p * len(p) for p in x.split(max(x.shape[0] // 3, 1))]

    a, b = Bag(1.0), Bag(3)
    pick, other, split = t.trace(a.pick), t.trace(b.pick), t.trace(Bag.split)
    for n in shuffled(2, 3, 4, 5, 8, 9, 1):
        t.twice(pick, ramp(n))
        t.twice(other, ramp(n))
        t.twice(split, ramp(n))
        b.k += 1


@case()
def nothing_but_sizes(t: Trial) -> None:
    def f(x, y=None):
        n = x.shape[0]
        return jit.arange(n).sum(), n if y is None else n * y.shape[0], jit.zeros(n, 0).sum(), jit.ones(()) * n

    f = t.trace(f)
    for n, m in shuffled((2, 0), (3, 1), (4, 4), (5, 7), (1, 1), (0, 0), (8, 3)):
        t.call(f, ramp(n))
        t.call(f, ramp(n), ramp(m))


@case(exact=False)
def transforms_of_functions_of_many_sizes(t: Trial) -> None:
    def f(x):
        total = lambda v: (v**3 * v.shape[0])[: v.shape[0] // 2 + 1].sum()  # noqa: E731
        (g,) = jit.grad(total(x), x, create_graph=True)
        return g * 2, g.norm()

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 8, 9):
        t.twice(f, fine(n))


@case(exact=False)
def ensembles_of_lists_by_sizes(t: Trial) -> None:
    nets = nn.ModuleList(nn.Linear(2, 2).double() for _ in range(4))

    def f(x):
        outs = [net(x) for net in nets[: x.shape[0] % 4 + 1]]
        return jit.stack(outs).mean(0) + len(outs), [o.sum() for o in outs[1:]]

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 6, 7, 8, 9):
        x = fine(n, 2)
        t.twice(f, x, wrt=[x, *nets.parameters()])


@case()
def complex_numbers_of_many_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        z = jit.complex(x, x.flip(0)) * (1 + 0.5j) / n
        return z.abs(), z.real[: n // 2], jit.view_as_real(z).sum(0), (z * z.conj()).real.mean(), z.shape

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 8, 9):
        t.call(f, fine(n))


@case(exact=False)
def spectra_of_many_sizes(t: Trial) -> None:
    def f(x):
        n = x.shape[0]
        s = jit.fft.rfft(x)
        return (
            jit.fft.irfft(s, n=n) - x,
            s.abs()[: n // 2],
            jit.fft.fft(x, n=n + 1).real,
            s.shape[0],
            jit.fft.fftfreq(n),
        )

    f = t.trace(f)
    for n in shuffled(2, 3, 4, 5, 8, 9):
        t.call(f, fine(n))
