"""Cases in which Python decides, remembers, reads or writes: reliability.md 2.1."""

import math
import random
import types
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np

import jit
from jit import nn
from tests.adversarial.trial import Trial, case

Pair = namedtuple("Pair", "first second")


@dataclass
class Batch:
    x: jit.Tensor
    label: str


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


# -- T1: decisions on values -------------------------------------------------------------------------------------


@case()
def branch_on_sum(t: Trial) -> None:
    f = t.trace(lambda x: x * 2 if x.sum() > 0 else x * 3)
    for sign in (1, 1, -1, 1, -1, -1):
        t.call(f, vector(sign * 1.0, sign * 2.0))


@case()
def branch_in_branch(t: Trial) -> None:
    def f(x):
        if x[0] > 0:
            x = x * x
            if x.sum() > 5:
                return x.exp()
            return x.sin()
        return -x if x.max() > 1 else x.cos()

    f = t.trace(f)
    for a, b in ((1, 1), (2, 2), (-1, 3), (-1, 0), (1, 1), (2, 2), (-1, 3), (-1, 0)):
        t.call(f, vector(a, b))


@case()
def while_loop(t: Trial) -> None:
    def f(x):
        steps = 0
        while x.norm() < 10:
            x = x * 2
            steps += 1
        return x, steps

    f = t.trace(f)
    for start in (1.0, 4.0, 1.1, 20.0, 1.0, 4.0):
        t.call(f, vector(start, start))


@case()
def int_of_a_tensor(t: Trial) -> None:
    f = t.trace(lambda x, n: x * int(n))
    for n in (2, 2, 3, 2, 3):
        t.call(f, vector(1.0, 2.0), jit.tensor(n))


@case()
def range_of_a_tensor(t: Trial) -> None:
    def f(x, n):
        for i in range(int(n)):
            x = x + i
        return x

    f = t.trace(f)
    for n in (2, 2, 5, 0, 5, 2):
        t.call(f, vector(1.0, 2.0), jit.tensor(n))


@case()
def slice_by_a_tensor(t: Trial) -> None:
    f = t.trace(lambda x, n: x[: int(n)].sum() + x[n])
    for n in (1, 1, 2, 0, 2):
        t.call(f, vector(1.0, 2.0, 4.0), jit.tensor(n))


@case()
def item_into_a_tensor(t: Trial) -> None:
    f = t.trace(lambda x, s: x * s.item() + s.item() ** 2)
    for s in (2.0, 2.0, 3.5, -1.0):
        t.call(f, vector(1.0, 2.0), vector(s)[0].detach())


@case()
def item_is_returned(t: Trial) -> None:
    f = t.trace(lambda x: (x.sum().item(), x * 2, {"n": x.max().item() * 2}))
    for s in (2.0, 2.0, 3.5):
        t.call(f, vector(s, 1.0))


@case()
def item_of_a_bool_decides(t: Trial) -> None:
    f = t.trace(lambda x: x + 1 if (x > 0).all().item() else x - 1)
    for a, b in ((1, 1), (1, -1), (2, 2), (-1, -1)):
        t.call(f, vector(a, b))


@case()
def float_in_python_arithmetic(t: Trial) -> None:
    def f(x):
        scale = float(x.abs().max())
        return x / (scale if scale > 1 else 1.0)

    f = t.trace(f)
    for a in (2.0, 2.0, 0.5, 3.0, 0.25):
        t.call(f, vector(a, -0.1))


@case()
def nan_decides(t: Trial) -> None:
    def f(x):
        s = x.sum().item()
        return x * 0 if s != s else x + s

    f = t.trace(f)
    for a in (1.0, float("nan"), 2.0, float("nan")):
        t.call(f, vector(a, 1.0), backward=False)


@case(jit.TraceError)
def tolist_of_a_traced_value(t: Trial) -> None:
    f = t.trace(lambda x: x * sum(x.tolist()))
    for a in (1.0, 2.0):
        t.call(f, vector(a, 3.0, grad=False))


@case(jit.TraceError)
def numpy_of_a_traced_value(t: Trial) -> None:
    f = t.trace(lambda x: x * float(x.numpy().sum()))
    for a in (1.0, 2.0):
        t.call(f, vector(a, 3.0, grad=False))


@case(jit.TraceError)
def asarray_of_a_traced_value(t: Trial) -> None:
    f = t.trace(lambda x: x * float(np.asarray(x).sum()))
    for a in (1.0, 2.0):
        t.call(f, vector(a, 3.0, grad=False))


@case(jit.TraceError)
def numpy_of_a_captured_value(t: Trial) -> None:
    w = vector(1.0, 2.0, grad=False)
    f = t.trace(lambda x: x * float(w.numpy().sum()))
    t.call(f, vector(1.0, 1.0))
    w.fill_(5)
    t.call(f, vector(1.0, 1.0))


@case(jit.TraceError)
def data_is_assigned(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.data = y.detach() * 10
        return y

    f = t.trace(f)
    for a in (1.0, 2.0):
        t.call(f, vector(a, 3.0))


@case()
def data_is_read(t: Trial) -> None:
    f = t.trace(lambda x: x * x.data)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 3.0))


@case()
def math_of_a_tensor(t: Trial) -> None:
    f = t.trace(lambda x, s: x * math.sin(s) + math.floor(s))
    for s in (0.5, 0.5, 1.5, 0.5):
        t.call(f, vector(1.0, 2.0), jit.tensor(s))


@case()
def a_tensor_made_from_traced_numbers(t: Trial) -> None:
    f = t.trace(lambda x: x + jit.tensor([x.sum().item(), 1.0]) + jit.tensor(x[0]) + jit.tensor(x.shape[0]))
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 3.0))


@case()
def nonzero_shapes(t: Trial) -> None:
    f = t.trace(lambda x: x[x > 0].sum() * (x > 0).sum())
    for a in (1.0, -1.0, 2.0, -2.0):
        t.call(f, vector(a, 3.0, 4.0))


# -- T2, T3: sizes, ranks, dtypes --------------------------------------------------------------------------------


@case()
def sizes_in_arithmetic(t: Trial) -> None:
    f = t.trace(lambda x: x.reshape(x.shape[0] * x.shape[1]) / x.shape[0] + x.size(1) % 2 + x.numel() // 2)
    for shape in ((2, 3), (2, 3), (4, 3), (3, 2), (2, 3)):
        t.call(f, jit.arange(shape[0] * shape[1]).reshape(shape).float().requires_grad_())


@case()
def loop_over_rows(t: Trial) -> None:
    def f(x):
        total = jit.zeros(x.shape[1])
        for i, row in enumerate(x):
            total = total + row * i
        for i in range(len(x)):
            total = total - x[i]
        return total

    f = t.trace(f)
    for rows in (2, 2, 3, 1, 3):
        t.call(f, jit.arange(rows * 2).reshape(rows, 2).float().requires_grad_())


@case()
def size_decides(t: Trial) -> None:
    f = t.trace(lambda x: x.sum() if x.shape[0] > 2 else x * x.shape[-1])
    for n in (2, 3, 2, 3, 4):
        t.call(f, jit.ones(n, requires_grad=True))


@case()
def dtype_and_rank_decide(t: Trial) -> None:
    def f(x):
        if x.dtype == jit.float64:
            return x * 2
        if x.is_floating_point() and x.ndim == 2:
            return x.sum()
        return x + 1

    f = t.trace(f)
    for x in (jit.ones(2), jit.ones(2, dtype=jit.float64), jit.ones(2, 2), jit.arange(2), jit.ones(2), jit.arange(3)):
        t.call(f, x)


# -- T4: Python values -------------------------------------------------------------------------------------------


@case()
def scalar_arguments(t: Trial) -> None:
    f = t.trace(lambda x, scale=2, flag=True, name="a": x * scale if flag else x + len(name))
    x = vector(1.0, 2.0, grad=False)
    for args, kwargs in (
        ((), {}), ((2,), {}), ((2.0,), {}), ((True,), {}), ((3,), {"flag": False}),
        ((), {"name": "abc", "flag": False}), ((-0.0,), {}), ((0.0,), {}),
    ):  # fmt: skip
        t.call(f, x, *args, **kwargs)


@case()
def keyword_order(t: Trial) -> None:
    f = t.trace(lambda a, b, *, c: a * 2 + b * 3 + c * 5)
    a, b, c = vector(1.0), vector(2.0), vector(3.0)
    t.call(f, a, b, c=c)
    t.call(f, b=b, a=a, c=c)
    t.call(f, c=c, b=a, a=b)
    t.call(f, a, c=b, b=c)


@case()
def star_arguments(t: Trial) -> None:
    def f(x, *rest, **named):
        for r in rest:
            x = x * r
        for name, value in named.items():
            x = x + value * len(name)
        return x

    f = t.trace(f)
    a, b = vector(2.0), vector(3.0)
    t.call(f, a)
    t.call(f, a, b)
    t.call(f, a, b, a, key=b)
    t.call(f, a, b, a, longer=b)
    t.call(f, a, b)


@case()
def closure_number_changes(t: Trial) -> None:
    scale = 2.0
    f = t.trace(lambda x: x * scale)
    for scale in (2.0, 2.0, 3.0, 2.0, 5.0):  # noqa: B007  (the closure sees it)
        t.call(f, vector(1.0, 2.0))


def program(text: str) -> Any:
    """A module of the user's, with globals that a case can change."""
    module = types.ModuleType("settings_of_a_user")
    exec(compile(text, "settings_of_a_user.py", "exec"), vars(module))
    return module


@case()
def global_number_changes(t: Trial) -> None:
    space = program("scale = 2.0\ndef helper(x):\n    return x * scale\ndef f(x):\n    return helper(x) + 1\n")
    f = t.trace(space.f)
    for scale in (2.0, 2.0, 3.0, 2.0):
        space.scale = scale
        t.call(f, vector(1.0, 2.0))


@case()
def helper_is_replaced(t: Trial) -> None:
    space = program("def helper(x):\n    return x * 2\ndef f(x):\n    return helper(x) + 1\n")
    f = t.trace(space.f)
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    space.helper = lambda x: x * 7
    t.call(f, vector(1.0, 2.0))


@case()
def module_setting_changes(t: Trial) -> None:
    settings = program("scale = 2.0\nnested = {'deep': [1.0, 2.0]}\n")
    space = program("def f(x):\n    return x * settings.scale + settings.nested['deep'][1]\n")
    space.settings = settings
    f = t.trace(space.f)
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    settings.scale = 3.0
    t.call(f, vector(1.0, 2.0))
    settings.nested["deep"][1] = 9.0
    t.call(f, vector(1.0, 2.0))


@case()
def attribute_changes(t: Trial) -> None:
    class Scaler:
        offset = 1.0

        def __init__(self):
            self.scale = 2.0

        def shifted(self, x):
            return x + self.offset

        def __call__(self, x):
            return self.shifted(x) * self.scale

    scaler = Scaler()
    f = t.trace(lambda x: scaler(x))
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    scaler.scale = 3.0
    t.call(f, vector(1.0, 2.0))
    Scaler.offset = 4.0
    t.call(f, vector(1.0, 2.0))
    scaler.offset = 5.0
    t.call(f, vector(1.0, 2.0))
    Scaler.shifted = lambda self, x: x - 1  # type: ignore[method-assign]
    t.call(f, vector(1.0, 2.0))


@case()
def method_of_two_objects(t: Trial) -> None:
    class Scaler:
        def __init__(self, scale):
            self.scale = scale

        def f(self, x):
            return x * self.scale

    Scaler.f = t.trace(Scaler.f)  # type: ignore[method-assign]
    a, b = Scaler(2.0), Scaler(3.0)
    for scaler in (a, b, a, b):
        t.call(scaler.f, vector(1.0, 2.0))
    a.scale = 7.0
    for scaler in (a, b):
        t.call(scaler.f, vector(1.0, 2.0))
    t.functions = [scaler.f for scaler in (a, b)]


@case()
def object_argument_changes(t: Trial) -> None:
    class Config:
        def __init__(self):
            self.scale = 2.0
            self.bias = jit.ones(2)

    config = Config()
    f = t.trace(lambda x, c: x * c.scale + c.bias)
    t.call(f, vector(1.0, 2.0), config)
    t.call(f, vector(1.0, 2.0), config)
    config.scale = 3.0
    t.call(f, vector(1.0, 2.0), config)
    config.bias = jit.full((2,), 4.0)
    t.call(f, vector(1.0, 2.0), config)
    config.bias.add_(1)
    t.call(f, vector(1.0, 2.0), config)


@case()
def list_of_numbers_grows(t: Trial) -> None:
    powers = [1, 2]
    f = t.trace(lambda x: sum(x**p for p in powers))
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    powers.append(3)
    t.call(f, vector(1.0, 2.0))
    powers[0] = 4
    t.call(f, vector(1.0, 2.0))


@case()
def set_of_names_changes(t: Trial) -> None:
    names = {"double"}
    f = t.trace(lambda x: x * 2 if "double" in names else x)
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    names.clear()
    names.add("single")
    t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def counter_counts(t: Trial) -> None:
    class Counter:
        calls = 0

    counter = Counter()

    def f(x):
        counter.calls += 1
        return x * counter.calls

    f = t.trace(f)
    for _ in range(12):
        t.call(f, vector(1.0, 2.0))
    t.see("calls", counter.calls)


@case(must_hit=False)
def results_are_appended_to_a_list(t: Trial) -> None:
    log = []

    def f(x):
        log.append((x * x).sum())
        return x * 2

    f = t.trace(f)
    for n in range(4):
        x = vector(1.0, float(n))
        t.call(f, x)
        log[-1].backward()
        t.see("log", [float(v) for v in log])
        t.see("gradient", x.grad)
        if n == 1:
            log.clear()


@case(jit.TraceError)
def argument_list_is_changed(t: Trial) -> None:
    def f(x, found):
        found.append(x * 2)
        return x

    f = t.trace(f)
    for _ in range(2):
        found: list[jit.Tensor] = []
        t.call(f, vector(1.0, 2.0), found)


@case(must_hit=False)
def state_is_rebound(t: Trial) -> None:
    class Average:
        value = jit.zeros(2)

    def f(x):
        Average.value = Average.value * 0.5 + x.detach() * 0.5
        return x + Average.value

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 1.0))
        t.see("state", Average.value)


@case()
def state_is_made_in_the_first_call(t: Trial) -> None:
    class Lazy:
        def __init__(self):
            self.table = None

        def __call__(self, x):
            if self.table is None:
                self.table = jit.arange(x.shape[0]).float()
            return x * self.table

    lazy = Lazy()
    f = t.trace(lambda x: lazy(x))
    for a in (1.0, 2.0, 3.0, 4.0):
        t.call(f, vector(a, 1.0))


@case()
def random_python_numbers_are_read_outside(t: Trial) -> None:
    draw = random.Random(0).random
    f = t.trace(lambda x, s: x * s)
    for _ in range(3):
        t.call(f, vector(1.0, 2.0), jit.tensor(draw()))


@case(must_hit=False)
def random_python_numbers_inside(t: Trial) -> None:
    generator = np.random.default_rng(0)
    f = t.trace(lambda x: x * random.random() + np.random.rand() + generator.random())
    random.seed(0)
    np.random.seed(0)
    for _ in range(3):
        t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def iterator_is_consumed(t: Trial) -> None:
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    f = t.trace(lambda x: x * next(numbers))
    for _ in range(4):
        t.call(f, vector(1.0, 2.0))


# -- T5: captures ------------------------------------------------------------------------------------------------


@case()
def captured_array_is_mutated(t: Trial) -> None:
    table = np.array([1.0, 2.0], np.float32)
    f = t.trace(lambda x: x * table + jit.from_numpy(table) + jit.tensor(table))
    t.call(f, vector(1.0, 1.0))
    t.call(f, vector(1.0, 1.0))
    table[0] = 9
    t.call(f, vector(1.0, 1.0))
    table = np.array([5.0, 5.0], np.float32)
    t.call(f, vector(1.0, 1.0))


@case()
def captured_tensor_is_mutated_and_rebound(t: Trial) -> None:
    w = vector(1.0, 2.0)
    f = t.trace(lambda x: (x * w).sum())
    t.watch(w=w)
    t.call(f, vector(1.0, 1.0))
    t.call(f, vector(1.0, 1.0))
    with jit.no_grad():
        w.add_(1)
    t.call(f, vector(1.0, 1.0))
    w = vector(7.0, 8.0)
    t.watch(new=w)
    t.call(f, vector(1.0, 1.0))
    w = vector(7.0, 8.0, grad=False)
    t.call(f, vector(1.0, 1.0))


@case()
def two_names_of_one_tensor(t: Trial) -> None:
    a = b = vector(1.0, 2.0)
    f = t.trace(lambda x: (x * a + b).sum())
    t.call(f, vector(1.0, 1.0))
    t.call(f, vector(1.0, 1.0))
    b = vector(5.0, 6.0)
    t.watch(a=a, b=b)
    t.call(f, vector(1.0, 1.0))


@case()
def argument_is_captured_too(t: Trial) -> None:
    w = vector(1.0, 2.0)
    f = t.trace(lambda x: (x * w * w).sum())
    t.watch(w=w)
    t.call(f, w)
    t.call(f, w)
    t.call(f, vector(3.0, 4.0))
    t.call(f, w)


@case()
def captured_intermediate(t: Trial) -> None:
    x = vector(1.0, 2.0)
    y = x * 3
    f = t.trace(lambda z: (y * x * z).sum())
    t.watch(x=x)
    t.call(f, vector(1.0, 1.0))
    for _ in range(2):
        y = x * 4
        t.call(f, vector(1.0, 1.0))


@case()
def parameters_are_replaced(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    f = t.trace(net)
    for _ in range(2):
        t.call(f, vector(1.0, 2.0))
    net[0].weight = nn.Parameter(jit.ones(3, 2))
    t.call(f, vector(1.0, 2.0))
    t.see("gradient", net[0].weight.grad)
    net[2] = nn.Linear(3, 1, bias=False)
    t.call(f, vector(1.0, 2.0))
    net.append(nn.Sigmoid())
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))


@case()
def training_mode_switches(t: Trial) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    f = t.trace(net)
    t.watch(**dict(net.named_parameters()), **dict(net.named_buffers()))
    for training in (True, True, False, True, False):
        net.train(training)
        t.call(f, jit.arange(8).reshape(4, 2).float())


# -- T6 to T9 ----------------------------------------------------------------------------------------------------


@case()
def random_numbers_inside(t: Trial) -> None:
    f = t.trace(lambda x: x * jit.rand(3) + jit.randn(3) * (jit.rand(3) > 0.5))
    for seed in (0, 0, 7, None, None):
        if seed is not None:
            jit.manual_seed(seed)
        t.call(f, vector(1.0, 2.0, 3.0))
    t.see("after", jit.rand(2))


@case()
def own_generator(t: Trial) -> None:
    generator = jit.Generator().manual_seed(3)
    f = t.trace(lambda x: x * jit.rand(2, generator=generator))
    for _ in range(3):
        t.call(f, vector(1.0, 2.0))
    generator.manual_seed(3)
    t.call(f, vector(1.0, 2.0))
    generator = jit.Generator().manual_seed(5)
    t.call(f, vector(1.0, 2.0))


@case()
def exception_in_the_middle(t: Trial) -> None:
    fail = True

    def f(x):
        y = x * 2
        if fail:
            raise KeyError("the user's own")
        return y + 1

    f = t.trace(f)
    t.call(f, vector(1.0, 2.0))
    fail = False
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(3.0, 2.0))
    fail = True
    t.call(f, vector(3.0, 2.0))


@case()
def exception_is_caught_inside(t: Trial) -> None:
    def f(x, y):
        try:
            return x + y
        except jit.Error:
            return x.sum() + y.sum()

    f = t.trace(f)
    for n in (2, 2, 3, 2, 3):
        t.call(f, vector(1.0, 2.0), jit.ones(n, requires_grad=True))


@case()
def operator_raises_on_some_values(t: Trial) -> None:
    f = t.trace(lambda x, i: jit.index_select(x, 0, i))
    for i in ([0, 1], [1, 1], [0, 5], [1, 0]):
        t.call(f, vector(1.0, 2.0), jit.tensor(i))


@case()
def nested_traces(t: Trial) -> None:
    scale = 2.0
    inner = t.trace(lambda x: x * scale if x.sum() > 0 else -x)
    outer = t.trace(lambda x: inner(x) + inner(-x))
    for scale in (2.0, 2.0, 3.0):  # noqa: B007  (the closure sees it)
        t.call(inner, vector(1.0, 2.0))
        t.call(outer, vector(1.0, 2.0))
        t.call(outer, vector(-1.0, -2.0))


@case()
def traced_calls_in_a_row(t: Trial) -> None:
    f = t.trace(lambda x: jit.sin(x) * x)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, 0.5)
        t.call(lambda x: f(f(f(x))) + f(x), x)


@case()
def nested_structures(t: Trial) -> None:
    def f(x, pair, batch):
        y = x + pair.first * pair.second
        return OrderedDict(b=(y, None, [y, x, "text", 3]), a=Pair(y * 2, {"deep": batch.x}), z=Batch(y, batch.label))

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a), Pair(vector(2.0), 3), Batch(vector(4.0), "dog"))
    t.call(f, vector(1.0), Pair(vector(2.0), 3), Batch(vector(4.0), "cat"))
    t.call(f, vector(1.0), Pair(vector(2.0), vector(3.0)), Batch(vector(4.0), "cat"))


@case()
def same_tensor_twice_and_inputs_returned(t: Trial) -> None:
    constant = jit.ones(2)

    def f(x, y):
        z = x * y
        return z, z, x, constant, x, None, y.shape

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a, 1.0), vector(2.0, 3.0)
        result = t.call(f, x, y)
        t.see(
            "identities",
            [result[0] is result[1], result[2] is x, result[3] is constant, result[4] is x, result[0] is x],
        )


@case()
def shape_is_returned(t: Trial) -> None:
    f = t.trace(lambda x: (x.shape, x.shape[0] * 2, x.ndim, x.dtype, str(x.shape[0])))
    for n in (2, 2, 3):
        t.call(f, jit.ones(n))


@case(jit.TraceError)
def object_with_a_tensor_is_returned(t: Trial) -> None:
    class Result:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return bool((self.value == other.value).all())

        def __hash__(self):
            return 0

    f = t.trace(lambda x: Result(x * 2))
    for a in (1.0, 2.0):
        result = t.call(f, vector(a), backward=False)
        t.see("value", result and result.value)


@case(jit.TraceError, must_hit=False)
def requires_grad_is_switched_inside(t: Trial) -> None:
    def f(x):
        x.requires_grad_()
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0):
        t.call(f, vector(a, grad=False))


@case()
def grad_mode_inside(t: Trial) -> None:
    def f(x):
        with jit.no_grad():
            y = x * 2
            view = x[:1]
        return x * y, view, y

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 1.0))
    with jit.no_grad():
        t.call(f, vector(4.0, 1.0))
    t.call(f, vector(5.0, 1.0))


@case()
def gradient_inside(t: Trial) -> None:
    def f(x):
        (g,) = jit.grad((x**3).sum(), x, create_graph=True)
        return (g * g).sum() + x.sum()

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


@case(jit.TraceError)
def backward_inside_through_history_from_outside(t: Trial) -> None:
    w = vector(2.0, 3.0)
    y = w * w
    f = t.trace(lambda x: jit.grad((x * y).sum(), w, retain_graph=True)[0] * 1)
    t.watch(w=w)
    for a in (1.0, 2.0):
        t.call(f, vector(a, 0.5))
        y = w * 3


@case()
def hook_inside(t: Trial) -> None:
    def f(x):
        y = x * x
        y.register_hook(lambda g: g * 10 + x.detach())
        return y.sin()

    f = t.trace(f)
    f_of_no_backward = vector(1.0, 2.0)
    t.call(f, f_of_no_backward, backward=False)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


@case()
def hook_that_decides(t: Trial) -> None:
    def f(x):
        y = x * x
        y.register_hook(lambda g: g * 10 if g.sum() > 0 else g)
        return y * 3

    f = t.trace(f)
    for sign in (1.0, 1.0, -1.0, 1.0, -1.0):
        x = vector(1.0, 2.0)
        y = f(x)
        y.backward(vector(sign, sign, grad=False))
        t.see("gradient", x.grad)


@case()
def unused_and_unreachable_inputs(t: Trial) -> None:
    f = t.trace(lambda x, y, z: (x * 2, z.detach()))
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a), vector(a), vector(a))


@case(jit.TraceError)
def random_state_of_a_hook(t: Trial) -> None:
    def f(x):
        y = x * x
        y.register_hook(lambda g: g * jit.rand(2))
        return y * 3

    f = t.trace(f)
    for a in (1.0, 2.0):
        t.call(f, vector(a, 2.0))


@case()
def big_python_integers_and_strings_as_arguments(t: Trial) -> None:
    f = t.trace(lambda x, n, s: x * (n % 7) + len(s))
    for n, s in ((10**30, "a"), (10**30 + 1, "a"), (10**30, "ab"), (10**30, "a")):
        t.call(f, vector(1.0), n, s)
