"""Programs whose derivatives are easy to get wrong: through two orders, late, partly, twice, past what was written."""

import gc
from typing import Any

import jit
from jit import nn
from jit.nn import functional as F
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


def batch(start: float, rows: int = 3, columns: int = 4) -> jit.Tensor:
    """A float32 leaf with different elements."""
    return (jit.arange(rows * columns).reshape(rows, columns).float() * 0.25 + start).sin().detach().requires_grad_()


# -- two orders --------------------------------------------------------------------------------------------------


@case(exact=False)
def two_orders_of_layers(t: Trial) -> None:
    conv, norm, lin = nn.Conv1d(2, 3, 2), nn.LayerNorm(4), nn.Linear(4, 4)

    def f(x):
        y = norm(lin(x).tanh())
        z = conv(y.reshape(1, 2, -1))
        return F.softmax(z.flatten(), 0) * F.gelu(z.flatten()), F.mse_loss(y, x)

    f = t.trace(f)
    for a in (0.1, 0.2, 0.3):
        t.twice(f, batch(a, 4), wrt=None)
        x = batch(a, 4)
        t.twice(f, x, wrt=[x, *lin.parameters(), *conv.parameters(), *norm.parameters()])


@case(exact=False)
def two_orders_of_batch_norm_in_both_modes(t: Trial) -> None:
    norm = nn.BatchNorm1d(4)
    f = t.trace(lambda x: norm(x).sigmoid() * x)
    for a, training in ((0.1, True), (0.2, True), (0.3, False), (0.4, False), (0.5, True), (0.6, True), (0.7, False)):
        norm.train(training)
        x = batch(a)
        t.twice(f, x, wrt=[x, *norm.parameters()])
        t.see("buffers", list(norm.buffers()))


@case(exact=False)
def two_orders_of_attention_and_embeddings(t: Trial) -> None:
    table, keys = nn.Embedding(5, 4), nn.Linear(4, 4)

    def f(indices, mask):
        x = table(indices)
        scores = (keys(x) @ x.transpose(-1, -2) / 2).masked_fill(mask, -float("inf"))
        return F.cross_entropy((scores.softmax(-1) @ x).flatten(0, 1), indices.flatten() % 4)

    f = t.trace(f)
    for shift in (0, 1, 2):
        indices = (jit.arange(6).reshape(2, 3) + shift) % 5
        mask = jit.triu(jit.ones(3, 3), 1).bool()
        t.twice(f, indices, mask, wrt=[table.weight, keys.weight])


@case()
def two_orders_of_reductions_and_sorting(t: Trial) -> None:
    def f(x):
        top, where = x.topk(2, dim=1)
        return (
            top * x.cumsum(1)[:, :2] + x.sort(1).values[:, 1:3] * x.prod(1, keepdim=True),
            x.logsumexp(0) * x.std(0), x.norm(dim=1) * x.var(1) + x.amax(1), x.gather(1, where) ** 3,
        )  # fmt: skip

    f = t.trace(f)
    for a in (0.1, 1.2, 2.3):
        t.twice(f, batch(a))


@case()
def two_orders_by_guards(t: Trial) -> None:
    def f(x):
        y = x**3
        if y.sum() > 5:
            return (y * x.sin()).sum()
        for part in y:
            if part > 1:
                y = y * part
        return y.sum() * x.cos().sum()

    f = t.trace(f)
    for a, b in ((1, 1), (2, 1), (0.5, 0.25), (1.2, 1.1), (1, 1), (2, 2), (0.5, 0.25), (1.2, 1.1)):
        t.twice(f, vector(a, b))


@case()
def hessian_and_products(t: Trial) -> None:
    f = t.trace(lambda x: (x.exp() * x.flip(0)).sum() + (x**4).prod())
    for a in (0.5, 1.0, 1.5):
        x = vector(a, 0.5, 0.75)
        (g,) = jit.grad(f(x), x, create_graph=True)
        rows = [jit.grad(part, x, retain_graph=True)[0] for part in g]
        (product,) = jit.grad(g, x, vector(1.0, 2.0, a, grad=False))
        t.see("hessian", [rows, product])


@case(exact=False)
def traced_function_of_traced_gradients(t: Trial) -> None:
    energy = t.trace(lambda x, w: (x * w).tanh().sum())

    def loss(x, w):
        (force,) = jit.grad(energy(x, w), x, create_graph=True)
        return (force * force).sum()

    outer = t.trace(loss)
    for a in (0.5, 1.0, 1.5):
        t.twice(outer, vector(a, 0.5), vector(2.0, a))
        t.twice(loss, vector(a, 0.5), vector(2.0, a))


# -- which gradients, and when -----------------------------------------------------------------------------------


@case()
def every_subset_of_inputs_and_outputs(t: Trial) -> None:
    f = t.trace(lambda a, b, c: (a * b, b * c.sin(), a.detach() * c))
    for mask in (7, 7, 1, 2, 4, 3, 5, 6, 7):
        inputs = [vector(1.0 + i, 0.5, grad=bool(mask >> i & 1)) for i in range(3)]
        outputs = f(*inputs)
        for chosen in (outputs[:1], outputs[1:2], outputs[2:], outputs[:2]):
            roots = [o.sum() for o in chosen if o.requires_grad]
            if roots:
                jit.autograd.backward(roots, retain_graph=True)
            t.see("gradients", [i.grad for i in inputs])


@case()
def retained_graph_is_used_in_another_way(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y.exp(), x.sin()))
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a, 0.5), vector(0.25, a)
        first, second = f(x, y)
        first.sum().backward(retain_graph=True)
        t.see("one", [x.grad, y.grad])
        (first * second).sum().backward(retain_graph=True)
        t.see("two", [x.grad, y.grad])
        (g,) = jit.grad(first.sum(), x, create_graph=True)
        (g * second).sum().backward()
        t.see("three", [x.grad, y.grad])
        t.call(lambda first=first: first.sum().backward(), backward=False)


@case()
def gradient_is_an_output_of_the_same_function(t: Trial) -> None:
    f = t.trace(lambda x: x.sin() * 2)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        y = f(x)
        y.backward(f(y.detach()))
        t.see("gradient", x.grad)
        x.grad = None
        z = f(f(x))
        z.backward(z.detach())
        t.see("gradient", x.grad)


@case()
def calls_share_a_parameter_and_order_of_backward(t: Trial) -> None:
    w = vector(2.0, 3.0)
    f = t.trace(lambda x: (x * w).exp())
    for a in (0.1, 0.2, 0.3):
        pending = [f(vector(a * (i + 1), 0.5)) for i in range(4)]
        for y in (pending[2], pending[0], pending[3]):
            y.sum().backward()
            t.see("gradient", w.grad)
        del pending
        gc.collect()


@case(overwrites=True)
def parameters_are_stepped_between_forward_and_backward(t: Trial) -> None:
    w = vector(2.0, 3.0)
    f = t.trace(lambda x: (x * w * w).sum())
    for a in (1.0, 2.0, 3.0):
        y = f(vector(a, 0.5))
        t.call(lambda y=y: y.backward(), backward=False)
        with jit.no_grad():
            w -= 0.1 * w.grad
        t.see("weight", [w, w.grad])


@case()
def detached_twice_and_reattached(t: Trial) -> None:
    def f(x):
        y = x.detach().requires_grad_() if not x.requires_grad else x
        z = (y * 2).detach() * y
        return z + (x.detach() ** 2)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))
        t.call(f, vector(a, 0.5) * 1)


@case()
def zero_and_missing_gradients(t: Trial) -> None:
    def f(x, y):
        return x * 0 + y.detach(), jit.zeros_like(x), x.floor() * y, jit.where(x > 0, y, y.detach()), x.argmax()

    f = t.trace(f)
    for a in (1.0, -2.0, 3.0):
        t.twice(f, vector(a, 0.5), vector(2.0, a))


@case()
def views_of_leaves_outside(t: Trial) -> None:
    f = t.trace(lambda x: x.sum(0) * x[0])
    for a in (0.1, 0.2, 0.3):
        base = batch(a)
        t.call(f, base[1:])
        t.call(f, base.t())
        t.see("gradient", base.grad)


@case(overwrites=True, must_hit=False)
def inplace_chain_with_gradients(t: Trial) -> None:
    def f(x, w):
        y = x * 1
        y[0] *= w[0]
        y[1:].add_(w[1:] * y[0])
        y.relu_()
        y[y > 0.5] = w.sum()
        return y, y[1:] * 2

    f = t.trace(f)
    for a in (0.3, 0.9, -0.5, 0.4):
        t.twice(f, vector(a, 0.2, -0.1), vector(1.5, a, 0.5))


@case()
def gradient_accumulates_over_kinds_of_calls(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x, power):
        return (x * w) ** power

    g = t.trace(f)
    for power in (2, 2, 3, 2):
        for a in (1.0, 2.0):
            (g(vector(a, 0.5), power).sum() + f(vector(a, 1.0), power).sum()).backward()
            t.see("gradient", w.grad)
    w.grad = None
    g(vector(1.0, 2.0), 2).sum().backward()
    t.see("gradient", w.grad)


@case(exact=False)
def checkpoints_inside(t: Trial) -> None:
    def block(x, w):
        return (x * w).sin() * x.exp()

    def f(x, w):
        for _ in range(3):
            x = jit.autograd.checkpoint(block, x, w)
        return x

    f = t.trace(f)
    for a in (0.1, 0.2, 0.3):
        t.twice(f, vector(a, 0.5), vector(1.0, a))


@case()
def anomaly_detection_inside(t: Trial) -> None:
    f = t.trace(lambda x: (x * 0).sqrt().sum() + x.sum())

    def guarded(x):
        with jit.autograd.detect_anomaly():
            f(x).backward()
        return x.grad

    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        t.call(guarded, x, backward=False)
        t.call(f, x)


@case(must_hit=False)
def gradcheck_of_a_traced_function(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y).sin().sum(0) if x.sum() > 0 else (x + y).exp())
    for a in (1.0, -1.0):
        x, y = (batch(a + i).double().detach().requires_grad_() for i in range(2))
        t.see("check", jit.autograd.gradcheck(f, (x, y)))
        t.see("second", jit.autograd.gradgradcheck(f, (x, y)))


# -- random numbers ----------------------------------------------------------------------------------------------


@case()
def draws_of_every_kind(t: Trial) -> None:
    def f(x):
        noise = jit.randn_like(x) + jit.rand(x.shape) + jit.bernoulli(jit.full_like(x, 0.5)) + jit.randperm(2)
        same = jit.rand(2) - jit.rand(2)
        return (
            x * noise + same,
            F.dropout(x, 0.5),
            jit.randint(0, 9, (2,)),
            jit.normal(x, 1.0),
            x.new_empty(2).normal_(),
        )

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))
    t.see("after", jit.rand(2))


@case()
def seeds_between_calls(t: Trial) -> None:
    f = t.trace(lambda x: x * jit.rand(2) + F.dropout(x, 0.3))
    for seed in (1, 1, 2, 1, 2**40):
        jit.manual_seed(seed)
        t.call(f, vector(1.0, 0.5))
        t.see("after", jit.rand(1))


@case()
def draws_in_one_branch_alone(t: Trial) -> None:
    def f(x):
        noise = jit.rand(2)
        if x.sum() > 2:
            noise = noise + jit.rand(2)
        if noise.sum() > 1:
            return x * noise
        return x + noise

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 3.0):
        t.call(f, vector(a, 0.5))
        t.see("after", jit.rand(1))


@case(exact=False)
def dropout_under_checkpoint(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh())
    f = t.trace(lambda x: jit.autograd.checkpoint(net, x) * F.dropout(x, 0.2))
    for a in (0.1, 0.2, 0.3):
        x = batch(a)
        t.twice(f, x, wrt=[x, *net.parameters()])
        t.see("after", jit.rand(1))


@case()
def two_traces_share_a_generator(t: Trial) -> None:
    own = jit.Generator()
    f = t.trace(lambda x: x * jit.rand(2, generator=own))
    g = t.trace(lambda x: f(x) + jit.rand(2, generator=own) + jit.rand(2))
    for a in (1.0, 2.0, 3.0):
        if a == 2.0:
            own.manual_seed(7)
        t.call(f, vector(a, 0.5))
        t.call(g, vector(a, 0.5))
        t.call(f, vector(a, 0.5))
        t.see("after", [jit.rand(1, generator=own), jit.rand(1)])


@case()
def late_backward_after_other_draws(t: Trial) -> None:
    f = t.trace(lambda x: F.dropout(x.exp(), 0.5) * jit.rand(4))
    for a in (1.0, 2.0):
        t.call(f, vector(a, 0.5, 0.1, 0.2), backward=False)
    pending = [(x := vector(a, 0.5, 0.1, 0.2), f(x)) for a in (3.0, 4.0)]
    jit.rand(17)
    for x, y in pending:
        y.sum().backward()
        t.see("gradient", [y, x.grad])


@case()
def recurrent_network_with_dropout(t: Trial) -> None:
    net: Any = nn.LSTM(3, 4, num_layers=2, dropout=0.5)
    f = t.trace(net)
    for steps in (3, 3, 2, 3):
        t.call(f, batch(0.1, steps, 3).reshape(steps, 1, 3).detach().requires_grad_())
        t.see("gradients", [p.grad for p in net.parameters()])
        net.zero_grad()
