"""Cases in which a whole step of training is traced: backward, `.grad`, optimizers, all inside the function."""

from typing import Any

import numpy as np

import jit
from jit import nn
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> Any:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


def batches(count: int, *sizes: tuple[int, ...]) -> list[list[jit.Tensor]]:
    """Normal numbers."""
    rng = np.random.default_rng(0)
    return [[jit.tensor(rng.standard_normal(s).astype(np.float32)) for s in sizes] for _ in range(count)]


def network() -> nn.Module:
    """Two layers, always with the same weights."""
    jit.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def train(t: Trial, make, net=None, calls: int = 5, step=None) -> None:
    """Trace and run the usual step of training."""
    net = network() if net is None else net
    optimizer = make(net.parameters())

    def usual(x, y):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    f = t.trace((step or (lambda n, o: usual))(net, optimizer))
    t.watch(**dict(net.named_parameters()), **dict(net.named_buffers()))
    for x, y in batches(calls, (5, 3), (5, 1)):
        t.call(f, x, y, backward=False)
        t.see("leaves", [p.is_leaf for p in net.parameters()])


@case()
def step_of_gradient_descent(t: Trial) -> None:
    train(t, lambda p: jit.optim.SGD(p, lr=0.1))


@case()
def step_with_momentum(t: Trial) -> None:
    train(t, lambda p: jit.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1))


@case()
def step_of_adam(t: Trial) -> None:
    train(t, lambda p: jit.optim.Adam(p, lr=0.1, amsgrad=True))


@case()
def step_of_adamw(t: Trial) -> None:
    train(t, lambda p: jit.optim.AdamW(p, lr=0.1))


@case()
def step_with_a_learning_rate_that_changes(t: Trial) -> None:
    net = network()
    optimizer = jit.optim.SGD(net.parameters(), lr=0.1)
    schedule = jit.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = t.trace(step)
    t.watch(**dict(net.named_parameters()))
    for x, y in batches(7, (5, 3), (5, 1)):
        t.call(f, x, y)
        schedule.step()


@case()
def step_with_batch_norm_and_dropout(t: Trial) -> None:
    jit.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 1))
    train(t, lambda p: jit.optim.SGD(p, lr=0.1), net)


@case()
def step_with_clipped_gradients(t: Trial) -> None:
    def step(net, optimizer):
        def run(x, y):
            optimizer.zero_grad(set_to_none=False)
            loss = ((net(x) - y) ** 2).sum()
            loss.backward()
            norm = jit.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            return loss.detach(), norm

        return run

    train(t, lambda p: jit.optim.SGD(p, lr=0.1), step=step)


@case()
def step_that_forgets_gradients_at_its_end(t: Trial) -> None:
    def step(net, optimizer):
        def run(x, y):
            ((net(x) - y) ** 2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    train(t, lambda p: jit.optim.SGD(p, lr=0.1), step=step)


@case()
def step_by_a_closure(t: Trial) -> None:
    def step(net, optimizer):
        def run(x, y):
            def closure():
                optimizer.zero_grad()
                loss = ((net(x) - y) ** 2).mean()
                loss.backward()
                return loss

            return optimizer.step(closure)

        return run

    train(t, lambda p: jit.optim.SGD(p, lr=0.1, momentum=0.5), step=step)


@case()
def two_steps_in_one_function(t: Trial) -> None:
    def step(net, optimizer):
        def run(x, y):
            losses = []
            for part in (slice(0, 2), slice(2, 5)):
                optimizer.zero_grad()
                loss = ((net(x[part]) - y[part]) ** 2).mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            return losses

        return run

    train(t, lambda p: jit.optim.SGD(p, lr=0.1, momentum=0.5), step=step)


@case()
def gradients_add_up_over_micro_batches(t: Trial) -> None:
    net = network()
    optimizer = jit.optim.SGD(net.parameters(), lr=0.1)
    f = t.trace(lambda x, y: ((net(x) - y) ** 2).mean().backward())
    g = t.trace(lambda: optimizer.step())
    t.watch(**dict(net.named_parameters()))
    for number, (x, y) in enumerate(batches(9, (5, 3), (5, 1))):
        t.call(f, x, y)
        if number % 3 == 2:
            t.call(g)
            optimizer.zero_grad(set_to_none=number > 5)


@case()
def backward_inside(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        loss = (x * w).sum()
        loss.backward()
        return loss.detach()

    f = t.trace(f)
    t.watch(w=w)
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a, 0.5))
    w.grad = None
    t.call(f, vector(1.0, 0.5))
    kept = w.grad = vector(10.0, 10.0, grad=False)
    t.call(f, vector(1.0, 0.5))
    t.see("kept", kept)


@case()
def backward_inside_reaches_the_argument(t: Trial) -> None:
    def f(x, y):
        (x * y * x).sum().backward()
        return x.grad * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        t.call(f, x, vector(2.0, a))
        t.call(f, x, vector(2.0, a))
        t.see("gradient", x.grad)


@case()
def backward_inside_for_some_inputs(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        (x * w * x).sum().backward(inputs=[w])
        return w.grad.sum(), x.grad is None

    f = t.trace(f)
    t.watch(w=w)
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a, 0.5))


@case(jit.TraceError)
def backward_inside_through_an_argument_that_was_computed(t: Trial) -> None:
    f = t.trace(lambda z: (z * z).sum().backward())
    for a in (1.0, 2.0):
        x = vector(a, 0.5)
        t.call(f, x * 3)
        t.see("gradient", x.grad)


@case()
def result_of_a_backward_inside_is_spent(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        loss = (x * w).sin().sum()
        loss.backward()
        return loss

    f = t.trace(f)
    t.watch(w=w)
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a, 0.5))  # its backward is an error
        t.see("w", w)


@case()
def result_of_a_retained_backward_inside(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        loss = (x * w).sin().sum()
        loss.backward(retain_graph=True)
        return loss

    f = t.trace(f)
    t.watch(w=w)
    for a in (1.0, 2.0, 3.0, 4.0):
        w.grad = None
        t.call(f, vector(a, 0.5))


@case()
def differentiable_gradients_inside(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        (x * w.exp() * w).sum().backward(create_graph=True)
        return (w.grad * w.grad).sum()

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0, 4.0):
        w.grad = None
        x = vector(a, 0.5)
        (g,) = jit.grad(f(x), w)
        t.see("all", [g, w.grad, w])


@case()
def gradients_are_written_by_hand(t: Trial) -> None:
    w, v = vector(2.0, 3.0), vector(1.0, 1.0)

    def f(x):
        w.grad = x * 2
        v.grad = w.grad
        with jit.no_grad():
            w.grad.add_(1)
        return w.grad, v.grad

    f = t.trace(f)
    t.watch(w=w, v=v)
    for a in (1.0, 2.0, 3.0):
        a, b = f(vector(a, 0.5, grad=False))
        t.see("identities", [a is b, a is w.grad, v.grad is w.grad])
        t.see("all", [a, b, w, v])


@case()
def gradient_of_an_argument_is_set(t: Trial) -> None:
    def f(x, y):
        x.grad = y
        return x.grad * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a, 0.5), vector(a, 2.0, grad=False)
        t.call(f, x, y)
        t.see("identity", x.grad is y)


@case()
def gradient_is_there_or_not(t: Trial) -> None:
    w = vector(2.0, 3.0)
    f = t.trace(lambda x: x if w.grad is None else x + w.grad)
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    w.grad = vector(5.0, 5.0, grad=False)
    t.call(f, vector(1.0, 2.0))
    w.grad = vector(6.0, 5.0, grad=False)
    t.call(f, vector(1.0, 2.0))
    w.grad.add_(1)
    t.call(f, vector(1.0, 2.0))
    w.grad = None
    t.call(f, vector(1.0, 2.0))


@case()
def gradient_is_a_global_too(t: Trial) -> None:
    w = vector(2.0, 3.0)
    g = w.grad = vector(1.0, 1.0, grad=False)
    f = t.trace(lambda x: (x * g + w.grad, g is w.grad))
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    w.grad = vector(6.0, 5.0, grad=False)
    t.call(f, vector(1.0, 2.0))
    g = w.grad
    t.call(f, vector(1.0, 2.0))


@case(jit.TraceError)
def backward_inside_runs_a_hook_from_outside(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        w.grad = None
        (x * w).sum().backward()

    f = t.trace(f)
    t.watch(w=w)
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    w.register_hook(lambda g: g * 10)
    t.call(f, vector(1.0, 2.0))


@case()
def hook_and_retained_gradient_inside(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        w.grad = None
        y = x * w
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        y.sin().sum().backward()
        return y.grad

    f = t.trace(f)
    t.watch(w=w)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 2.0))


@case()
def decision_after_a_backward(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        w.grad = None
        (x * w).sum().backward()
        if w.grad.sum() > 2:
            with jit.no_grad():
                w.sub_(w.grad)
            return "step"
        w.grad = None
        return "skip"

    f = t.trace(f)
    t.watch(w=w)
    for a in (1.0, 5.0, 1.0, 6.0, -1.0, 5.0):
        t.call(f, vector(a, 0.5, grad=False))


@case()
def exception_after_a_backward(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        w.grad = None
        (x * w).sum().backward()
        if w.grad.sum() > 2:
            raise KeyError("large")
        return w.grad * 2

    f = t.trace(f)
    t.watch(w=w)
    for a in (1.0, 1.0, 5.0, 1.0, 6.0):
        t.call(f, vector(a, 0.5, grad=False))
        t.see("w", w)


# -- what is recorded without derivatives ------------------------------------------------------------------------


@case()
def late_backward_past_operators_without_grad(t: Trial) -> None:
    def f(x):
        with jit.no_grad():
            y = x * 2
            scale = x.sum()
        z = x * y
        with jit.no_grad():
            z.add_(scale)
            z[0].mul_(2)
        return z * x

    f = t.trace(f)
    for number in range(4):
        t.call(f, vector(1.0 + number, 2.0), backward=number > 1)


@case()
def late_backward_past_a_gradient_inside(t: Trial) -> None:
    def f(x):
        (g,) = jit.grad((x**3).sum(), x)
        return (g * x).sum()

    f = t.trace(f)
    for number in range(4):
        t.call(f, vector(1.0 + number, 2.0), backward=number > 1)


@case()
def late_backward_past_a_parameter_that_was_updated(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        y = (x * w).exp()
        with jit.no_grad():
            w.mul_(0.5)
        return y.sum() + (w * x).sum()

    f = t.trace(f)
    t.watch(w=w)
    for number in range(4):
        w.grad = None
        t.call(f, vector(1.0 + number, 2.0, grad=False), backward=number > 1)


@case(jit.TraceError)
def leaf_from_inside_is_returned(t: Trial) -> None:
    def f(x):
        y = (x * 2).detach().requires_grad_()
        return y, (y * y).sum()

    f = t.trace(f)
    for a in (1.0, 2.0):
        y, _ = t.call(f, vector(a, 2.0)) or (jit.ones(1), None)
        t.see("gradient", y.grad)
