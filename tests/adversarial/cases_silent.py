"""What used to be silently other than in eager mode: views by custom Functions, inference tensors, bad offsets."""

import jit
from tests.adversarial.trial import Trial, case


class Flat(jit.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.view(2, 3)


class Halves(jit.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x[:1], x[1:]

    @staticmethod
    def backward(ctx, first, second):
        return jit.cat([first, second])


class Beside(jit.autograd.Function):
    """A view, and something that is none."""

    @staticmethod
    def forward(ctx, x, y):
        return x.t(), x + y

    @staticmethod
    def backward(ctx, first, second):
        return first.t() + second, second


def aliases(t: Trial, f, *others):
    """Write to the argument after each call, and see what the results hold."""
    f = t.trace(f)
    for wants in (False, True):
        for _ in range(3):
            x = jit.ones(2, 3, requires_grad=wants)
            found = f(x, *others)
            with jit.no_grad():
                x.fill_(7.0)
            t.see("afterwards", [each.detach() for each in found])


@case(must_hit=False)
def view_by_a_function(t: Trial) -> None:
    aliases(t, lambda x: [Flat.apply(x)])


@case(must_hit=False)
def view_of_a_view_by_a_function(t: Trial) -> None:
    aliases(t, lambda x: [Flat.apply(x)[1:4], Flat.apply(x.clone())])


@case(must_hit=False)
def function_of_a_view(t: Trial) -> None:
    aliases(t, lambda x: [Flat.apply(x.view(2, 3))])


@case(must_hit=False)
def views_by_a_function_with_several_results(t: Trial) -> None:
    aliases(t, lambda x: list(Halves.apply(x)))


@case(must_hit=False)
def view_beside_something_else(t: Trial) -> None:
    aliases(t, lambda x, y: list(Beside.apply(x, y)), jit.ones(2, 3))


@case(must_hit=False)
def view_of_a_captured_tensor(t: Trial) -> None:
    held = jit.ones(2, 3)
    f = t.trace(lambda x: Flat.apply(held))
    for value in (2.0, 3.0, 4.0):
        found = f(jit.ones(1))
        held.fill_(value)
        t.see("afterwards", found)


@case(must_hit=False)
def result_and_its_view_by_a_function(t: Trial) -> None:
    def g(x):
        y = x * 1
        return y, Flat.apply(y)

    f = t.trace(g)
    for _ in range(3):
        y, flat = f(jit.ones(2, 3))
        y.fill_(7.0)
        t.see("afterwards", [y, flat])


@case()
def view_by_a_function_of_something_that_nobody_else_has(t: Trial) -> None:
    f = t.trace(lambda x: Flat.apply(x * 2))
    for _ in range(3):
        found = f(jit.ones(2, 3, requires_grad=True))
        found.sum().backward()
        t.see("found", found)


@case()
def view_by_a_function_that_is_computed_with(t: Trial) -> None:
    f = t.trace(lambda x: Flat.apply(x) * 2)
    for _ in range(3):
        t.call(f, jit.ones(2, 3, requires_grad=True))


@case(allowed=jit.TraceError)
def write_to_what_a_function_has_made_a_view_of(t: Trial) -> None:
    def g(x):
        y = x * 1
        flat = Flat.apply(y)
        y.fill_(7.0)
        return flat * 1

    f = t.trace(g)
    for _ in range(3):
        t.call(f, jit.ones(2, 3))


def inference(*sizes):
    with jit.inference_mode():
        return jit.ones(*sizes)


@case()
def write_to_an_inference_tensor(t: Trial) -> None:
    f = t.trace(lambda x: (x.add_(1), x * 2)[1])
    for x in (jit.ones(3), jit.ones(3), inference(3), jit.ones(3), inference(3)):
        t.call(f, x, backward=False)


@case()
def write_to_an_inference_tensor_within_the_mode(t: Trial) -> None:
    f = t.trace(lambda x: x.mul_(2) + 1)
    for _ in range(2):
        with jit.inference_mode():
            t.call(f, jit.ones(3), backward=False)
            t.call(f, inference(3), backward=False)
        with jit.no_grad():
            t.call(f, inference(3), backward=False)
            t.call(f, jit.ones(3), backward=False)


@case()
def captured_inference_tensor(t: Trial) -> None:
    held = {"state": jit.ones(3)}
    f = t.trace(lambda x: (held["state"].add_(x), held["state"] * 2)[1])
    for state in (jit.ones(3), jit.zeros(3), inference(3), jit.ones(3)):
        held["state"] = state
        t.call(f, jit.ones(3), backward=False)
        t.see("state", held["state"])


@case()
def inference_tensor_that_would_be_saved(t: Trial) -> None:
    f = t.trace(lambda x, y: x * y)
    x = jit.ones(3, requires_grad=True)
    for y in (jit.ones(3), jit.ones(3), jit.ones(3), inference(3), jit.ones(3), inference(3)):
        t.call(f, x, y)


@case()
def what_is_made_in_inference_mode(t: Trial) -> None:
    f = t.trace(lambda x: x * 2)
    for _ in range(3):
        with jit.inference_mode():
            made = f(jit.ones(3))
        t.see("inference", (made.is_inference(), f(jit.ones(3)).is_inference(), f(made).is_inference()))
