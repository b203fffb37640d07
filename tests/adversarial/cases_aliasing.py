"""Programs that write: to views of arguments, to what they return, to parameters, under modes that come and go."""

import numpy as np

import jit
from jit import nn
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


def matrix(start: float, rows: int = 3, columns: int = 4, grad: bool = True) -> jit.Tensor:
    """A float32 leaf with different elements."""
    return (jit.arange(rows * columns).reshape(rows, columns).float() * 0.25 + start).requires_grad_(grad)


# -- writes ------------------------------------------------------------------------------------------------------


@case()
def transposed_diagonal_of_an_argument_is_written(t: Trial) -> None:
    def f(x):
        y = x.clone()
        y.t().diagonal().mul_(3)
        y[1:, ::2] += y[:-1, 1::2]
        y.view(-1)[::5] = y.flatten()[1::5][: y.view(-1)[::5].numel()].sum()
        return y * x, y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, matrix(a))


@case()
def argument_is_written_through_many_views(t: Trial) -> None:
    def f(x):
        for part in x.unbind(0):
            part.add_(part.sum())
        for part in x.split(2, dim=1):
            part[0].zero_()
        x.unsqueeze(0).squeeze(0).narrow(1, 1, 2).t_().mul_(2)
        return x.sum(0)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x = matrix(a, grad=False)
        t.call(f, x)
        leaf = matrix(a)
        t.call(f, leaf * 1)
        t.see("gradient", leaf.grad)


@case()
def result_is_written_by_the_caller(t: Trial) -> None:
    f = t.trace(lambda x: (x.t(), x[0], x * 1, x.detach()))
    for a in (1.0, 2.0, 3.0):
        x = matrix(a, grad=False)
        transposed, row, product, detached = f(x)
        transposed.mul_(2)
        row.add_(5)
        product.zero_()
        detached[1] = -1
        t.see("all", [x, transposed, row, product, detached])


@case()
def result_is_written_and_then_differentiated(t: Trial) -> None:
    f = t.trace(lambda x: (x * 2, (x * 3)[0], x.exp() + 1))
    for a in (1.0, 2.0, 3.0):
        x = matrix(a)
        y, row, z = f(x)
        y[0] = row * 2
        z.mul_(y)
        row.add_(1)
        (z.sum() + (row * row).sum()).backward()
        t.see("all", [x.grad, y, row, z])


@case()
def caller_reuses_one_buffer(t: Trial) -> None:
    f = t.trace(lambda x: (x * x).sum() + x[0])
    buffer = vector(0.0, 0.0, grad=False)
    kept = []
    for a in (1.0, 2.0, 3.0, 4.0):
        buffer.fill_(a)
        kept.append(f(buffer))
        t.see("kept", kept)


@case()
def constant_results_are_not_shared(t: Trial) -> None:
    def f(x):
        return jit.zeros(2), jit.tensor([1.0, 2.0]), jit.ones(1).expand(3), x * 0

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        zeros, table, ones, rest = f(vector(a, grad=False))
        t.see("before", [zeros, table, ones, rest])
        zeros.add_(a)
        table.mul_(a)
        rest.fill_(a)
        t.see("after", [zeros, table, ones, rest])


@case()
def captured_constant_is_returned(t: Trial) -> None:
    table = vector(1.0, 2.0, grad=False)
    f = t.trace(lambda x: (table, table[0], x + table))
    for a in (1.0, 2.0, 3.0):
        whole, part, total = f(vector(a, 0.0, grad=False))
        whole.add_(1)
        part.mul_(2)
        t.see("all", [whole is table, whole, part, total, table])


@case(jit.TraceError)
def same_memory_in_two_arguments_and_a_capture(t: Trial) -> None:
    w = matrix(1.0, grad=False)

    def f(x, y):
        x.add_(1)
        return x * 2 + y * 3 + w

    f = t.trace(f)
    a, b = matrix(2.0, grad=False), matrix(3.0, grad=False)
    t.call(f, a, b)
    t.call(f, a, b)
    t.call(f, a, a)
    t.call(f, w, b)
    t.call(f, w, w)
    t.call(f, a, w)
    t.watch(w=w)
    t.call(f, a, b)


@case(jit.TraceError)
def overlapping_windows_of_one_memory(t: Trial) -> None:
    def f(x, y):
        x.mul_(2)
        return x + y

    f = t.trace(f)
    for offset in (0, 2, 1):
        memory = jit.arange(8).float()
        t.call(f, memory[:4], memory[4 - offset : 8 - offset])
        t.see("memory", memory)


@case()
def disjoint_windows_of_one_memory(t: Trial) -> None:
    def f(x, y):
        x.mul_(2)
        return x + y

    f = t.trace(f)
    for _ in range(3):
        memory = jit.arange(8).float()
        t.call(f, memory[:4], memory[4:])
        t.see("memory", memory)
        memory = jit.arange(8).float()
        t.call(f, memory[4:], memory[:4])
        t.see("memory", memory)


@case()
def interleaved_windows_of_one_memory(t: Trial) -> None:
    f = t.trace(lambda x, y: (x * y, x.sum(), y.max()))
    for step in (2, 2, 2):
        memory = jit.arange(8).float()
        t.call(f, memory[::step], memory[1::step])
        t.call(f, memory[::step], memory[::step])
        t.call(f, memory[:4], memory[1:5])


@case()
def index_put_with_duplicates(t: Trial) -> None:
    def f(x, i, v):
        y = x.clone()
        y.index_put_((i,), v, accumulate=True)
        z = x * 1
        z[i] = v
        z.index_add_(0, i, v)
        z.scatter_add_(0, i.flip(0), v)
        return y, z

    f = t.trace(f)
    for a, indices in ((1.0, [0, 0, 2]), (2.0, [0, 0, 2]), (3.0, [1, 2, 1]), (1.0, [2, 2, 2])):
        t.twice(f, vector(a, 2.0, 3.0), jit.tensor(indices), vector(0.5, a, 1.5))


@case()
def masks_are_written(t: Trial) -> None:
    def f(x):
        y = x.clone()
        y[y > 2] = 0
        y.masked_fill_(x < 1, -1)
        y[:, 0].clamp_(min=0.5)
        return y

    f = t.trace(f)
    for a in (0.0, 0.5, 1.0, 5.0):
        t.twice(f, matrix(a))


@case()
def write_in_one_branch_alone(t: Trial) -> None:
    def f(x, buffer):
        if x.sum() > 0:
            buffer.add_(x.detach())
            if buffer.sum() > 4:
                buffer.zero_()
                return x * 3
        return x * 2 + buffer

    f = t.trace(f)
    buffer = vector(0.0, 0.0, grad=False)
    t.watch(buffer=buffer)
    for a in (1.0, -1.0, 2.0, 1.0, 3.0, -2.0, 1.0):
        t.call(f, vector(a, 0.5), buffer)


@case()
def buffer_is_written_and_decides(t: Trial) -> None:
    class Counter(nn.Module):
        steps: jit.Tensor
        mean: jit.Tensor

        def __init__(self):
            super().__init__()
            self.register_buffer("steps", jit.zeros((), dtype=jit.int64))
            self.register_buffer("mean", jit.zeros(2))

        def forward(self, x):
            self.steps += 1
            self.mean.mul_(0.5).add_(x.detach() * 0.5)
            if self.steps > 2:
                self.mean = self.mean * 0
                self.steps.zero_()
            return x * self.mean + self.steps

    counter = Counter()
    f = t.trace(counter)
    for a in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        t.call(f, vector(a, 0.5))
        t.see("buffers", [counter.steps, counter.mean])


@case()
def dtype_and_layout_of_what_is_written_change(t: Trial) -> None:
    def f(x, y):
        x.copy_(y)
        return x + 1

    f = t.trace(f)
    sources = (matrix(1.0, grad=False), matrix(1.0, 4, 3, grad=False).t(), jit.ones(3, 4, dtype=jit.float64) / 3,
               jit.arange(4), matrix(2.0, 1, 4, grad=False), jit.ones(3, 4, dtype=jit.bool))  # fmt: skip
    for y in sources * 2:
        for x in (jit.zeros(3, 4), jit.zeros(4, 3).t(), jit.zeros(3, 4, dtype=jit.int32), jit.zeros(3, 8)[:, ::2]):
            t.call(f, x, y)


@case(overwrites=True, must_hit=False)
def reading_after_the_base_was_written(t: Trial) -> None:
    def f(x):
        base = x * 1
        view, lazy = base[1:], base.t()
        total = view.sum()
        base.mul_(2)
        total = total + view.sum() * lazy[0, 0]
        view.add_(total.detach())
        return total + lazy.sum(), base, view

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, matrix(a))


@case()
def swap_and_rotate_in_place(t: Trial) -> None:
    def f(x):
        y = x.clone()
        y[0], y[1] = y[1].clone(), y[0].clone()
        y[:, 0], y[:, 1] = y[:, 1], y[:, 0]
        y[1:] = y[:-1]
        return y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, matrix(a))


@case()
def operators_that_assign(t: Trial) -> None:
    def f(x, y):
        z = x
        z = z + 0
        z += y
        z **= 2
        z //= 3
        w = x * 1
        w -= y * 2
        w /= y.abs() + 1
        w @= jit.ones(4, 4)
        u = (x > 1).clone()
        u &= y > 2
        u |= x < 0
        u ^= y < 1
        return z, w, u

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, matrix(a), matrix(0.5 - a))


# -- numpy -------------------------------------------------------------------------------------------------------


@case()
def arrays_of_numpy_as_arguments(t: Trial) -> None:
    f = t.trace(lambda x, table: x + jit.from_numpy(table) * 2 + jit.as_tensor(table.sum()))
    table = np.array([1.0, 2.0], np.float32)
    for a in (1.0, 2.0, 2.0):
        t.call(f, vector(a, 0.5), table)
        t.call(f, vector(a, 0.5), table)
        table[0] += a
        t.call(f, vector(a, 0.5), table)


@case()
def functions_of_numpy_on_sizes(t: Trial) -> None:
    def f(x):
        n = np.prod(x.shape)
        return x * int(np.sqrt(n)) + jit.from_numpy(np.arange(x.shape[0], dtype=np.float32))[:, None] * float(np.pi)

    f = t.trace(f)
    for rows in (3, 3, 4, 6, 4):
        t.call(f, matrix(1.0, rows))


@case((jit.TraceError, TypeError))
def functions_of_numpy_on_tensors(t: Trial) -> None:
    f = t.trace(lambda x: x * float(np.sum(x.detach())) + np.float32(2) * x)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


@case()
def scalars_of_numpy_on_the_left(t: Trial) -> None:
    f = t.trace(lambda x: np.float32(2) * x + np.float64(3) - x + np.int64(2) ** x)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


# -- kinds of tensors that change between calls ------------------------------------------------------------------


@case()
def requires_grad_toggles(t: Trial) -> None:
    w = vector(2.0, 3.0)
    f = t.trace(lambda x: (x * w).sum() * x)
    t.watch(w=w)
    for flag, mine in ((True, True), (False, True), (True, False), (False, False), (True, True), (False, True)):
        w.requires_grad_(flag)
        t.call(f, vector(1.0, 2.0, grad=mine))
        w.grad = None


@case()
def leaf_or_not_leaf(t: Trial) -> None:
    f = t.trace(lambda x: x.is_leaf * x * 2 + (x.grad_fn is None) + x.requires_grad)
    for a in (1.0, 2.0, 3.0):
        leaf = vector(a)
        t.call(f, leaf)
        t.call(f, leaf * 1)
        t.call(f, vector(a, grad=False))


@case()
def dtype_and_rank_change(t: Trial) -> None:
    def f(x):
        y = x.double() if x.dtype.is_floating_point else x
        return (y.sum(-1) if x.ndim > 1 else y).to(x.dtype) + jit.ones((), dtype=x.dtype)

    f = t.trace(f)
    for x in (matrix(1.0), jit.arange(3), matrix(1.0).half(), vector(1.0), jit.arange(6).reshape(2, 3), matrix(2.0),
              matrix(1.0).double(), jit.arange(4)):  # fmt: skip
        t.call(f, x)


@case()
def parameter_data_is_replaced(t: Trial) -> None:
    layer = nn.Linear(2, 2)
    f = t.trace(layer)
    t.watch(weight=layer.weight)
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a, 0.5))
        with jit.no_grad():
            if a == 1.0:
                layer.weight.mul_(2)
            elif a == 2.0:
                layer.weight.data = jit.ones(2, 2)
            else:
                layer.weight.copy_(jit.eye(2) * a)


@case()
def inference_and_grad_modes_alternate(t: Trial) -> None:
    w = vector(2.0, 3.0)

    def f(x):
        y = x * w
        with jit.no_grad():
            scale = y.norm()
        with jit.enable_grad():
            z = y * x
        return y / scale + z.detach(), z, jit.is_grad_enabled()

    f = t.trace(f)
    for a, mode in ((1.0, True), (2.0, False), (3.0, True), (4.0, False), (5.0, True)):
        with jit.set_grad_enabled(mode):
            t.call(f, vector(a, 0.5))
