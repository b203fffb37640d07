"""Cases about derivatives, stages and functions of the user's."""

import threading

import numpy as np

import jit
from jit import nn
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


class Square(jit.autograd.Function):
    """A custom function with its derivative."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g * ctx.factor, None


class ByNumpy(jit.autograd.Function):
    """Forward and backward by numpy, which no trace can look into."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.arrays = x.detach().numpy().copy(), y.detach().numpy().copy()
        return jit.from_numpy(ctx.arrays[0] * ctx.arrays[1]), jit.from_numpy(ctx.arrays[0] + 1)

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.arrays
        g, h = g.detach().numpy(), h.detach().numpy()
        return jit.from_numpy(g * y + h), jit.from_numpy(g * x)


class AddOne(jit.autograd.Function):
    """Writes to its argument."""

    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


@case()
def custom_function(t: Trial) -> None:
    f = t.trace(lambda x, k: Square.apply(x.sin(), k) * x)
    for a, k in ((1.0, 2), (2.0, 2), (2.0, 3), (3.0, 2)):
        t.call(f, vector(a, 0.5), k)


@case()
def custom_function_by_numpy(t: Trial) -> None:
    def f(x, y):
        a, b = ByNumpy.apply(x.sin(), y)
        return a * x, b

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5), vector(2.0, a))
        t.call(f, vector(a, 0.5), vector(2.0, a, grad=False))


@case()
def custom_function_that_writes(t: Trial) -> None:
    def f(x):
        y = x * 2
        z = y.exp() if False else y
        return AddOne.apply(z) * 3 + y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


@case(jit.TraceError)
def custom_function_that_writes_secretly(t: Trial) -> None:
    class Secret(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    f = t.trace(lambda x: Secret.apply(x))
    for a in (1.0, 2.0):
        t.call(f, vector(a, 0.5, grad=False))


@case()
def custom_function_that_raises(t: Trial) -> None:
    class Picky(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if float(x.sum()) < 0:
                raise KeyError("negative")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if float(g.sum()) > 100:
                raise LookupError("large")
            return g * 2

    f = t.trace(lambda x, s: Picky.apply(x + 1) * s)
    for a, s in ((1.0, 1.0), (2.0, 1.0), (-9.0, 1.0), (2.0, 1000.0), (1.0, 1.0)):
        t.call(f, vector(a, 0.5), vector(s)[0].detach())


@case(must_hit=False)
def custom_function_returns_its_input(t: Trial) -> None:
    class Identity(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_non_differentiable(y)
            return x, y

        @staticmethod
        def backward(ctx, g, _):
            return g * 3, None

    f = t.trace(lambda x, y: Identity.apply(x, y))
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5), vector(a, 1.0, grad=False))


@case(jit.TraceError, must_hit=False)
def custom_function_of_a_list(t: Trial) -> None:
    class Sum(jit.autograd.Function):
        @staticmethod
        def forward(ctx, tensors):
            return tensors[0] + tensors[1]

        @staticmethod
        def backward(ctx, g):
            return None

    f = t.trace(lambda x: Sum.apply([x, x]))
    for a in (1.0, 2.0):
        t.call(f, vector(a, 0.5, grad=False))


@case()
def double_backward(t: Trial) -> None:
    f = t.trace(lambda x, y: (x**3 * y).sum() + (x.sin() * y.exp()).sum())
    for a in (1.0, 2.0, 3.0, 4.0):
        x, y = vector(a, 0.5), vector(2.0, a / 4)
        gx, gy = jit.grad(f(x, y), (x, y), create_graph=True)
        (gx * gx + gy).sum().backward()
        t.see("second", [gx, gy, x.grad, y.grad])


@case()
def triple_backward(t: Trial) -> None:
    f = t.trace(lambda x: (x**4).sum() + jit.exp(x * 2).sum())
    for a in (0.5, 1.0, 0.25):
        x = vector(a, 0.5)
        (g,) = jit.grad(f(x), x, create_graph=True)
        (h,) = jit.grad(g.sum(), x, create_graph=True)
        (h * h).sum().backward()
        t.see("third", [g, h, x.grad])


@case(exact=False)
def double_backward_through_a_network(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    f = t.trace(net)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        out = f(x)
        (g,) = jit.grad(out.sum(), x, create_graph=True)
        penalty = (g.norm() - 1) ** 2
        (out.sum() + penalty).backward()
        t.see("gradients", [g, *(p.grad for p in net.parameters())])
        net.zero_grad()


@case()
def first_backward_on_the_third_call(t: Trial) -> None:
    f = t.trace(lambda x, y: (x.sin() * y, x.exp()))
    for a in (1.0, 2.0):
        t.call(f, vector(a, 0.5), vector(3.0, a), backward=False)
    for a in (3.0, 4.0, 5.0):
        t.call(f, vector(a, 0.5), vector(3.0, a))


@case()
def some_outputs_and_some_inputs(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y, x.sin(), y.cos()))
    for a in (1.0, 2.0):
        for wanted in ("x", "y", "xy"):
            for used in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
                x, y = vector(a, 0.5), vector(2.0, a)
                outputs = f(x, y)
                inputs = [{"x": x, "y": y}[n] for n in wanted]
                t.see("grad", jit.grad([outputs[i].sum() for i in used], inputs, allow_unused=True))


@case()
def backward_twice(t: Trial) -> None:
    f = t.trace(lambda x: (x * x).sin().sum())
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        y = f(x)
        y.backward(retain_graph=True)
        y.backward()
        t.see("gradient", x.grad)
        t.call(lambda y=y: y * 1)


@case()
def backward_twice_without_retaining(t: Trial) -> None:
    f = t.trace(lambda x: (x * x).sin().sum())
    for a in (1.0, 2.0, 3.0):
        y = f(vector(a, 0.5))
        y.backward()
        t.call(lambda y=y: y * 1)


@case()
def several_calls_pending(t: Trial) -> None:
    f = t.trace(lambda x, w: (x * w).tanh())
    w = vector(2.0, -1.0)
    for _ in range(3):
        w.grad = None
        outputs = [f(vector(float(a), 0.5, grad=False), w) for a in range(4)]
        for out in outputs[::2]:
            out.sum().backward()
        jit.stack(outputs[1::2]).sum().backward()
        t.see("gradient", w.grad)


@case()
def outputs_fed_back(t: Trial) -> None:
    cell = t.trace(lambda x, h, w: jit.tanh(x @ w + h))
    for _ in range(3):
        w, h = jit.full((2, 2), 0.3, requires_grad=True), jit.zeros(2)
        for a in range(4):
            h = cell(vector(float(a), 1.0, grad=False), h, w)
        h.sum().backward()
        t.see("gradient", [h, w.grad])


@case()
def incoming_gradients_of_every_kind(t: Trial) -> None:
    f = t.trace(lambda x: x * x)
    x = jit.ones(2, 3, requires_grad=True)
    weights = [
        jit.ones(2, 3), jit.ones(()).expand(2, 3), jit.arange(6).reshape(3, 2).t().float(),
        jit.ones(2, 3, dtype=jit.float64), jit.ones(2, 3),
    ]  # fmt: skip
    for weight in weights:
        x.grad = None
        t.call(lambda weight=weight: f(x).backward(weight))
        t.see("gradient", x.grad)


@case()
def layout_of_incoming_gradients(t: Trial) -> None:
    f = t.trace(lambda x: x.view(3, 2).view(6).view(2, 3) * 2)
    x = jit.ones(2, 3, requires_grad=True)
    for weight in (jit.ones(2, 3), jit.arange(6).reshape(3, 2).t().float(), jit.ones(1).expand(2, 3), jit.ones(2, 3)):
        x.grad = None
        t.call(lambda weight=weight: f(x).backward(weight))
        t.see("gradient", x.grad)


@case()
def gradient_hooks_outside(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y).sum())
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a, 0.5), vector(2.0, a)
        seen: list[list[float]] = []
        x.register_hook(lambda g, seen=seen: seen.append(g.tolist()))  # type: ignore[misc]
        y.register_hook(lambda g: g * 10)
        out = f(x, y)
        out.register_hook(lambda g: g * 2)
        out.backward()
        t.see("all", [x.grad, y.grad, seen])


@case()
def hook_on_a_captured_leaf(t: Trial) -> None:
    w = vector(2.0, 3.0)
    w.register_hook(lambda g: g * 10)
    f = t.trace(lambda x: (x * w).sum())
    for a in (1.0, 2.0, 3.0):
        w.grad = None
        t.call(f, vector(a, 0.5))
        t.see("gradient", w.grad)


@case()
def retained_gradients(t: Trial) -> None:
    f = t.trace(lambda x: x * 3)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        y = f(x * 2)
        y.retain_grad()
        (y * y).sum().backward()
        t.see("gradients", [x.grad, y.grad])


@case()
def shared_parameter(t: Trial) -> None:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(jit.tanh(self.a(x)))

    net = Tied()
    f = t.trace(net)
    t.watch(weight=net.a.weight)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))
    net.b.weight = nn.Parameter(jit.ones(2, 2))
    t.watch(other=net.b.weight)
    t.call(f, vector(1.0, 0.5))


@case()
def batch_norm_trains(t: Trial) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
    f = t.trace(net)
    t.watch(**dict(net.named_parameters()), **dict(net.named_buffers()))
    rng = np.random.default_rng(0)
    for _ in range(3):
        t.call(f, jit.tensor(rng.standard_normal((2, 1, 6, 6)).astype(np.float32)))


@case()
def dropout_differs_and_repeats(t: Trial) -> None:
    f = t.trace(lambda x: jit.nn.functional.dropout(x.sin(), 0.5, True) * x)
    for seed in (0, 1, 0, None):
        if seed is not None:
            jit.manual_seed(seed)
        t.call(f, jit.ones(16, requires_grad=True))


@case()
def first_backward_of_dropout_is_late(t: Trial) -> None:
    f = t.trace(lambda x: jit.nn.functional.dropout(x.sin(), 0.5, True) * x)
    t.call(f, jit.ones(16, requires_grad=True), backward=False)
    for _ in range(3):
        x = jit.ones(16, requires_grad=True)
        y = f(x)
        jit.rand(3)
        y.sum().backward()
        t.see("gradient", [y, x.grad])


@case()
def integer_and_unused_inputs(t: Trial) -> None:
    table = jit.ones(5, 2, requires_grad=True)

    def f(index, unused, x):
        return jit.nn.functional.embedding(index, table).sum(0) * x

    f = t.trace(f)
    t.watch(table=table)
    for i in ([0, 1], [1, 1], [4, 0]):
        t.call(f, jit.tensor(i), vector(1.0), vector(2.0, 3.0))


@case()
def value_dependent_scale_in_the_derivative(t: Trial) -> None:
    def f(x, s):
        return x * s.item() + x ** s.item() + x.clamp(max=s.item())

    f = t.trace(f)
    t.call(f, vector(2.0, 0.5), jit.tensor(2.0), backward=False)
    for s in (2.0, 2.0, 3.0, 1.5):
        t.call(f, vector(2.0, 0.5), jit.tensor(s))


@case()
def sizes_that_depend_on_elements(t: Trial) -> None:
    def f(x, n):
        return x.sum() * jit.ones(n.item()).sum() + x[n.item()] * jit.arange(n.item()).float().sum()

    f = t.trace(f)
    for n in (1, 1, 2, 1, 2):
        t.call(f, vector(2.0, 0.5, 3.0), jit.tensor(n))


@case()
def threads_share_a_function(t: Trial) -> None:
    f = t.trace(lambda x: (x.sin() * x if x.sum() > 0 else x.cos()) * 2)
    results: dict[int, jit.Tensor] = {}

    def work(index: int) -> None:
        for repeat in range(20):
            x = jit.full((index % 3 + 1,), float((-1) ** index * (index + 1)), requires_grad=True)
            f(x).sum().backward()
            results[index * 100 + repeat] = x.grad

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.see("results", [results[k] for k in sorted(results)])


@case()
def grad_of_grad_mode_mix(t: Trial) -> None:
    f = t.trace(lambda x: x * x)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        with jit.no_grad():
            y = f(x)
        z = f(x)
        t.see("flags", [y.requires_grad, z.requires_grad])
        z.sum().backward()
        t.see("gradient", x.grad)


@case()
def double_backward_past_a_function_by_numpy(t: Trial) -> None:
    f = t.trace(lambda x, y: (ByNumpy.apply(x, y)[0] * x).sum())
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a, 0.5), vector(2.0, a)
        (g,) = jit.grad(f(x, y), x, create_graph=True)
        g.sum().backward()
        t.see("second", [g, x.grad, y.grad])
