"""Cases about memory: what is written, what is shared, how it lies: reliability.md 2.2."""

import numpy as np

import jit
from jit import nn
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


def matrix(rows: int, columns: int, grad: bool = True) -> jit.Tensor:
    """A float32 leaf that counts."""
    array = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) / 7
    return jit.tensor(array, requires_grad=grad)


# -- in place ----------------------------------------------------------------------------------------------------


@case()
def leaf_is_written(t: Trial) -> None:
    f = t.trace(lambda x, ok: x.add_(1) if ok else x * 2)
    t.call(f, vector(1.0, 2.0), False)
    t.call(f, vector(1.0, 2.0), False)
    t.call(f, vector(1.0, 2.0), True)
    t.call(f, vector(1.0, 2.0), False)


@case()
def argument_is_written(t: Trial) -> None:
    def f(x, y):
        x.mul_(2)
        x[0] += y.sum()
        return x * y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 2.0, grad=False), vector(2.0, 3.0))


@case()
def intermediate_of_the_caller_is_written(t: Trial) -> None:
    def f(x, y):
        x.mul_(y)
        return (x * x).sum()

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a, 2.0), vector(2.0, 3.0)
        z = x * 3
        out = f(z, y)
        (out + z.sum()).backward()
        t.see("state", [z, x.grad, y.grad, out])


@case()
def view_of_the_caller_is_written(t: Trial) -> None:
    def f(v, y):
        v.mul_(y)
        v[0] = 0
        return v.sum()

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0, 4.0):
        x, y = matrix(2, 3), vector(2.0, 3.0, a)
        z = x * 2
        out = f(z[1], y)
        (out + (z * z).sum()).backward()
        t.see("state", [z, x.grad, y.grad, out])


@case(overwrites=True)
def saved_tensor_is_overwritten(t: Trial) -> None:
    def f(x):
        y = x.exp()
        z = y * 2
        y.add_(1)
        return z.sum() + y.sum()

    f = t.trace(f)
    for a in (1.0, 2.0):
        t.call(f, vector(a, 2.0))


@case(overwrites=True)
def output_is_overwritten_before_backward(t: Trial) -> None:
    f = t.trace(lambda x: jit.sigmoid(x * 2))
    for number in range(4):
        x = vector(float(number), 2.0)
        y = f(x)
        if number % 2:
            t.call(lambda y=y: y.mul_(3) * 1)
        else:
            y.sum().backward()
        t.see("gradient", x.grad)


@case()
def output_that_is_not_needed_is_overwritten(t: Trial) -> None:
    f = t.trace(lambda x: x.sin() + 1)
    for number in range(4):
        x = vector(float(number), 2.0)
        y = f(x)
        y.mul_(3)
        y.sum().backward()
        t.see("gradient", [y, x.grad])


@case()
def input_is_overwritten_before_backward(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y).sum())
    for number in range(4):
        x, y = vector(float(number), 2.0), vector(3.0, 4.0, grad=False)
        out = f(x, y)
        t.call(lambda y=y, out=out: (y.add_(1), out)[1])


@case()
def input_that_is_not_needed_is_overwritten(t: Trial) -> None:
    f = t.trace(lambda x, y: (x + y).sum())
    for number in range(4):
        x, y = vector(float(number), 2.0), vector(3.0, 4.0, grad=False)
        out = f(x, y)
        if number:  # the first backward records from the first call, the others run it
            y.add_(1)
        out.backward()
        t.see("gradient", x.grad)


@case()
def views_of_views_are_written(t: Trial) -> None:
    def f(x, y):
        z = x * 1
        part = z.t()[1:].view(-1) if z.t()[1:].is_contiguous() else z.t()[1:][:, 0]
        part.mul_(y)
        z.narrow(1, 0, 2)[1].fill_(3)
        z.unsqueeze(0).transpose(1, 2)[0, 0, 0] = y[0]
        return z, part

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(2, 3), vector(a, 2.0))


@case()
def chunks_are_written(t: Trial) -> None:
    def f(x):
        z = x * 1
        a, b = z.chunk(2)
        a.mul_(2)
        b.add_(a)
        first, *rest = z.unbind(0)
        rest[0].sub_(1)
        return z, first

    f = t.trace(f)
    for _ in range(3):
        t.call(f, matrix(4, 2, grad=False))


@case(overwrites=True)
def overlapping_addition(t: Trial) -> None:
    def f(x):
        a = x * 1
        a[1:] += a[:-1]
        a[:-1].mul_(a[1:])
        return a

    f = t.trace(f)
    for n in (3, 5, 5):
        t.call(f, jit.arange(n).float().requires_grad_())


@case()
def running_sum_starts_with_a_number(t: Trial) -> None:
    def f(x):
        s = 0
        s += x
        s += x
        return s

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 2.0))
        t.call(f, vector(a, 2.0, grad=False))


@case()
def running_sum_starts_with_the_argument(t: Trial) -> None:
    def f(x, y):
        s = x
        s += y
        s += y
        return s * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 2.0, grad=False), vector(1.0, 1.0))


@case()
def expanded_tensor_is_written(t: Trial) -> None:
    f = t.trace(lambda x, y: x.expand(2, 2).add_(1) * y)
    for a in (1.0, 2.0):
        t.call(f, vector(a, 2.0, grad=False), vector(1.0, 1.0))
    g = t.trace(lambda x: x.add_(1))
    t.call(g, vector(1.0, 2.0, grad=False).expand(2, 2))
    t.call(g, vector(1.0, 2.0, grad=False))
    t.call(g, vector(1.0, 2.0, grad=False))


@case()
def indexed_assignment(t: Trial) -> None:
    def f(x, i, mask, v):
        z = x * 1
        z[i] = v
        z[mask] = 0.5
        z[0, 1] = v[0, 0] * 3
        z[..., -1] = jit.tensor([7.0, 8.0, 9.0])
        return z

    f = t.trace(f)
    for i in ([0, 2], [1, 1], [2, 0]):
        x = matrix(3, 4)
        t.call(f, x, jit.tensor(i), x.detach() > 1, jit.ones(2, 4, requires_grad=True))


@case()
def guard_after_a_mutation(t: Trial) -> None:
    def f(x):
        x.add_(1)
        if x.sum() > 0:
            return x * 2
        x.mul_(5)
        return x * 3

    f = t.trace(f)
    for a in (1.0, -9.0, 1.0, -9.0, 2.0):
        t.call(f, vector(a, 1.0, grad=False))


@case()
def exception_after_a_mutation(t: Trial) -> None:
    state = jit.zeros(2)

    def f(x):
        state.add_(x)
        if x.sum() < 0:
            raise ValueError("negative")
        return state * 2

    f = t.trace(f)
    t.watch(state=state)
    for a in (1.0, 1.0, -5.0, 1.0, -5.0, 2.0):
        t.call(f, vector(a, 1.0, grad=False))


@case()
def buffers_are_updated(t: Trial) -> None:
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", jit.zeros((), dtype=jit.int64))
            self.register_buffer("mean", jit.zeros(2))

        def forward(self, x):
            self.count += 1
            self.mean.lerp_(x.detach(), 0.5) if hasattr(self.mean, "lerp_") else self.mean.mul_(0.5).add_(
                x.detach(), alpha=0.5
            )
            return x * self.mean + self.count

    net = Counter()
    f = t.trace(net)
    t.watch(count=net.count, mean=net.mean)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 1.0))


@case()
def captured_tensor_gets_a_history(t: Trial) -> None:
    for _ in range(2):
        state = jit.zeros(2)
        w = vector(2.0, 3.0)

        def f(x, state=state, w=w):
            state.add_(x * w)
            return state * 2

        f = t.trace(f)
        for a in (1.0, 2.0, 3.0):
            out = f(vector(a, 1.0, grad=False))
        out.sum().backward()
        t.see("state", [state, w.grad])


@case()
def parameter_is_updated_without_grad(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def step(x):
        (g,) = jit.grad(((x * w) ** 2).sum(), w)
        with jit.no_grad():
            w.sub_(g * 0.1)
        return g

    step = t.trace(step)
    t.watch(w=w)
    for a in (1.0, 2.0, 3.0, 1.0):
        t.call(step, vector(a, 1.0, grad=False))


@case()
def write_under_no_grad_then_use(t: Trial) -> None:
    def f(x):
        y = x * 2
        with jit.no_grad():
            y.add_(5)
        return y * 3

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 1.0))


@case()
def swap_of_arguments(t: Trial) -> None:
    def f(x, y):
        old = x.clone()
        x.copy_(y)
        y.copy_(old)
        return x - y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 1.0, grad=False), vector(7.0, a, grad=False))


@case()
def write_of_another_dtype(t: Trial) -> None:
    def f(x, y):
        x.add_(y)
        x[0] = 2.7
        return x

    f = t.trace(f)
    for a in (1, 2, 3):
        t.call(f, jit.tensor([a, 2]), jit.tensor([3, 4], dtype=jit.int8))
        t.call(f, jit.tensor([a, 2.5]), jit.tensor([3, 4]))
        t.call(f, jit.tensor([a, 2]), jit.tensor([0.5, 0.5]))


# -- aliases -----------------------------------------------------------------------------------------------------


@case()
def arguments_alias_differently(t: Trial) -> None:
    def f(x, y):
        x.add_(1)
        return x * y

    f = t.trace(f)
    a, b = vector(1.0, 2.0, grad=False), vector(3.0, 4.0, grad=False)
    for x, y in ((a, b), (a, a), (a, b), (b, b), (b, a)):
        t.call(f, x, y)


@case()
def arguments_alias_without_writes(t: Trial) -> None:
    f = t.trace(lambda x, y, z: x * y + z[0])
    m = matrix(2, 2)
    v = vector(1.0, 2.0)
    for x, y, z in ((v, v, m), (m[0], m[1], m), (v, m[0], m), (m[0], m[0], m), (v, v, m)):
        m.grad = v.grad = None
        t.call(f, x, y, z)
        t.see("gradients", [m.grad, v.grad])


@case((jit.TraceError,), must_hit=False)
def arguments_overlap_and_are_written(t: Trial) -> None:
    def f(x, y):
        x.add_(1)
        return y * 2

    f = t.trace(f)
    m = matrix(3, 2, grad=False)
    t.call(f, m[0], m[1])
    t.call(f, m[:2], m[1:])


@case((jit.TraceError,), must_hit=False)
def numpy_arrays_share_memory(t: Trial) -> None:
    def f(x, y):
        x.add_(1)
        return y * 2

    f = t.trace(f)
    array = np.arange(4, dtype=np.float32)
    t.call(f, jit.from_numpy(array), jit.ones(4))
    t.call(f, jit.from_numpy(array), jit.ones(4))
    t.call(f, jit.from_numpy(array), jit.from_numpy(array))


@case((jit.TraceError,), must_hit=False)
def argument_is_the_captured_buffer(t: Trial) -> None:
    state = vector(1.0, 2.0, grad=False)

    def f(x):
        state.add_(1)
        return x * state

    f = t.trace(f)
    t.watch(state=state)
    t.call(f, vector(3.0, 4.0, grad=False))
    t.call(f, vector(3.0, 4.0, grad=False))
    t.call(f, state)


@case()
def outputs_share_memory(t: Trial) -> None:
    def f(x):
        y = x * 2
        return y, y[0], y.t(), y[:, 1:], y.detach()

    f = t.trace(f)
    for _ in range(3):
        x = matrix(2, 3)
        y, row, turned, part, cut = f(x)
        row.mul_(3)
        part.add_(1)
        (y.sum() + (turned * turned).sum()).backward()
        t.see("all", [y, row, turned, part, cut, x.grad])


@case()
def views_alone_are_returned(t: Trial) -> None:
    def f(x):
        y = x * 2
        return y[0], y[:, 1]

    f = t.trace(f)
    for _ in range(3):
        x = matrix(2, 3)
        row, column = f(x)
        row.mul_(3)
        (row.sum() + (column * column).sum()).backward()
        t.see("all", [row, column, x.grad])


@case()
def view_of_an_argument_is_returned_and_written(t: Trial) -> None:
    f = t.trace(lambda x: (x[0], x.view(-1)[1:], x))
    for _ in range(3):
        x = matrix(2, 3)
        z = x * 1
        row, flat, same = f(z)
        row.mul_(3)
        ((flat * flat).sum() + same.sum()).backward()
        t.see("all", [z, row, flat, x.grad])


@case()
def argument_is_returned_after_a_write(t: Trial) -> None:
    def f(x, y):
        x.mul_(y)
        return x, x[0]

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a, 1.0), vector(2.0, 3.0)
        z = x * 1
        same, part = f(z, y)
        t.see("identity", same is z)
        (same.sum() + part).backward()
        t.see("all", [z, x.grad, y.grad])


@case()
def out_argument(t: Trial) -> None:
    def f(x, y):
        jit.add(x, y, out=x)
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 1.0, grad=False), vector(2.0, 3.0, grad=False))


@case()
def empty_outputs_belong_to_the_caller(t: Trial) -> None:
    f = t.trace(lambda x: (x.contiguous(), x.reshape(2), x.to(jit.float32), x * 1, x.clone(), jit.zeros(2)))
    for _ in range(3):
        x = vector(1.0, 2.0, grad=False)
        results = f(x)
        for result in results[3:]:
            result.add_(10)
        t.see("argument", x)
        results[0].add_(1)
        t.see("all", [x, *results])


# -- layouts -----------------------------------------------------------------------------------------------------


def layouts() -> list[jit.Tensor]:
    """The same 3x4 numbers in many layouts, and other awkward tensors."""
    base = np.arange(12, dtype=np.float32).reshape(3, 4) / 3
    wide = np.zeros((6, 8), np.float32)
    wide[::2, ::2] = base
    raw = np.zeros(12 * 4 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(3, 4) if raw[1:].flags.c_contiguous else base
    misaligned[...] = base
    readonly = base.copy()
    readonly.flags.writeable = False
    arrays = [
        base, np.asfortranarray(base), wide[::2, ::2], base[::-1].copy()[::-1], misaligned, base.astype(">f4"),
        readonly,
        np.broadcast_to(base[:, :1], (3, 4)), np.zeros((0, 4), np.float32), np.zeros((3, 0), np.float32), base[:1],
        np.lib.stride_tricks.as_strided(base, (1, 4), (400, 4)), base.astype(np.float64), base.astype(np.float16),
    ]  # fmt: skip
    return [jit.from_numpy(a) for a in arrays]


@case()
def awkward_layouts(t: Trial) -> None:
    def f(x):
        y = jit.tanh(x) * 2 + x
        return y, y.sum(), y.t().exp(), x[1:], x.reshape(-1) - 1, (x - x.mean(0)).abs()

    f = t.trace(f)
    for x in [*layouts(), *layouts()]:
        t.call(f, x)


@case()
def awkward_layouts_with_gradients(t: Trial) -> None:
    f = t.trace(lambda x, w: (jit.tanh(x) * w).sum(1) + x.t().mean(0) * w[0, 0])
    for x in [*layouts()[:8], *layouts()[:8]]:
        t.call(f, x.detach().requires_grad_(), matrix(1, 1))


@case()
def awkward_layouts_are_written(t: Trial) -> None:
    def f(x):
        x.mul_(2)
        x.t()[0] = 5
        return x + 1

    f = t.trace(f)
    for x in [*layouts(), *layouts()]:
        t.call(f, x)


@case()
def scalars_and_empty_tensors(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y, (x + y).sum(), x.exp()))
    pairs = [
        (jit.tensor(2.0), jit.ones(3)),
        (jit.ones(0), jit.tensor(1)),
        (jit.ones(3, 0, 2), jit.ones(2)),
        (jit.tensor(3), jit.tensor(True)),
    ]
    for x, y in [*pairs, *pairs]:
        t.call(f, x, y)


@case()
def broadcasting_gradients(t: Trial) -> None:
    f = t.trace(lambda x, y, z: x * y / z - y)
    shapes = (((2, 3), (3,), ()), ((2, 1), (1, 3), (2, 3)), ((1,), (2, 3), (2, 1)), ((0, 3), (3,), (1, 1)))
    for a, b, c in [*shapes, *shapes]:
        t.call(f, *(jit.full(s, 2.0 + i, requires_grad=True) for i, s in enumerate((a, b, c))))


@case()
def gradient_memory_is_not_shared(t: Trial) -> None:
    f = t.trace(lambda x, y: x + y)
    for _ in range(3):
        x, y = vector(1.0, 2.0), vector(3.0, 4.0)
        weight = vector(1.0, 5.0, grad=False)
        f(x, y).backward(weight)
        x.grad.add_(100)
        t.see("gradients", [x.grad, y.grad, weight])
        a, _ = jit.grad(f(x, y), (x, y), weight)
        a.add_(100)
        t.see("after", [a, x])
