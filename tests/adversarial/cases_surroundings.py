"""Cases in which a function looks at the world around it, or leaves something behind there: clocks, files, threads."""

import collections
import contextlib
import contextvars
import datetime
import functools
import os
import queue
import random
import tempfile
import threading
import time
import weakref
from typing import Any

import numpy as np

import jit
from jit import nn
from tests.adversarial.cases_python import program
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> Any:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


# -- what is read ------------------------------------------------------------------------------------------------


@case(must_hit=False)
def clock_is_read(t: Trial) -> None:
    start = time.perf_counter()
    f = t.trace(lambda x: x * (time.perf_counter() - start))
    earlier = 0.0
    for _ in range(4):
        now = f(vector(1.0, grad=False)).item()
        t.see("later", now > earlier)
        earlier = now


@case(must_hit=False)
def date_is_read(t: Trial) -> None:
    f = t.trace(lambda x: x * 0 + datetime.datetime.now().microsecond)
    seen = set()
    for _ in range(4):
        seen.add(f(vector(1.0, grad=False)).item())
        time.sleep(0.002)
    t.see("different", len(seen))


@case()
def clock_is_read_for_nothing(t: Trial) -> None:
    """A library may look at the clock for a log; that says nothing about results."""
    import logging

    logger = logging.getLogger("jit.tests.adversarial")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(logging.NullHandler())
    logger.propagate = False

    def f(x):
        logger.info("called")
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))


@case()
def environment_variable_changes(t: Trial) -> None:
    f = t.trace(lambda x: x * float(os.environ.get("JIT_TEST_SCALE", "1")) + float(os.getenv("JIT_TEST_SHIFT", "0")))
    try:
        for scale, shift in (("2", "0"), ("2", "0"), ("3", "0"), ("3", "5"), ("2", "0")):
            os.environ["JIT_TEST_SCALE"], os.environ["JIT_TEST_SHIFT"] = scale, shift
            t.call(f, vector(1.0, 2.0))
    finally:
        del os.environ["JIT_TEST_SCALE"], os.environ["JIT_TEST_SHIFT"]


@case(must_hit=False)
def file_is_read(t: Trial) -> None:
    with tempfile.NamedTemporaryFile("w+") as file:

        def f(x):
            with open(file.name) as opened:
                return x * float(opened.read())

        f = t.trace(f)
        for number in (2.0, 2.0, 3.0, 4.0):
            file.seek(0)
            file.write(str(number))
            file.flush()
            t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def open_file_is_read_on(t: Trial) -> None:
    with tempfile.TemporaryFile("w+") as file:
        file.write("1\n2\n3\n4\n")
        file.seek(0)
        f = t.trace(lambda x: x * float(file.readline()))
        for _ in range(4):
            t.call(f, vector(1.0, 2.0))


@case()
def context_variable_changes(t: Trial) -> None:
    scale = contextvars.ContextVar("scale", default=2.0)
    f = t.trace(lambda x: x * scale.get())
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    token = scale.set(5.0)
    t.call(f, vector(1.0, 2.0))
    scale.reset(token)
    t.call(f, vector(1.0, 2.0))


@case()
def thread_local_setting(t: Trial) -> None:
    local = threading.local()
    f = t.trace(lambda x: x * local.scale)
    local.scale = 2.0
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    found = []

    def work():
        local.scale = 3.0
        found.append(f(vector(1.0, 2.0)).detach().tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    t.see("found", found)
    local.scale = 4.0
    t.call(f, vector(1.0, 2.0))


@case()
def order_of_a_set(t: Trial) -> None:
    def f(x, names):
        for name in names:
            x = x * 2 if name == "double" else x + 1
        return x

    first = frozenset(["double", "add"])
    names = list(first)
    second = first
    for filler in range(1000):  # the order of a set depends on its history
        candidate = frozenset([*names[::-1], *(str(i) for i in range(filler))]) - {str(i) for i in range(filler)}
        if list(candidate) != names:
            second = candidate
            break
    f = t.trace(f)
    for chosen in (first, first, second, first):
        t.call(f, vector(1.0, 2.0), chosen)


@case()
def order_of_a_dict(t: Trial) -> None:
    table = {"a": 2.0, "b": 3.0}

    def f(x):
        for name, value in table.items():
            x = x * value if name == "a" else x + value
        return x

    f = t.trace(f)
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    table["a"] = table.pop("a")
    t.call(f, vector(1.0, 2.0))


@case()
def order_of_the_modules_of_a_network(t: Trial) -> None:
    net = nn.Sequential(collections.OrderedDict(a=nn.Tanh(), b=nn.Sigmoid()))
    f = t.trace(net)
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    net._modules["a"] = net._modules.pop("a")
    t.call(f, vector(1.0, 2.0))


@case()
def order_of_keyword_arguments(t: Trial) -> None:
    def f(x, **options):
        for name, value in options.items():
            x = x * value if name == "a" else x + value
        return x

    f = t.trace(f)
    t.call(f, vector(1.0, 2.0), a=2.0, b=3.0)
    t.call(f, vector(1.0, 2.0), a=2.0, b=3.0)
    t.call(f, vector(1.0, 2.0), b=3.0, a=2.0)
    t.call(f, vector(1.0, 2.0), b=vector(3.0), a=vector(2.0))
    t.call(f, vector(1.0, 2.0), a=vector(2.0), b=vector(3.0))


@case()
def attribute_of_a_tensor(t: Trial) -> None:
    def f(x, w):
        return x * w.scale

    f = t.trace(f)
    x, w = vector(1.0, 2.0), vector(1.0)
    for scale in (2.0, 2.0, 3.0, 2.0):
        w.scale = scale
        t.call(f, x, w)


@case()
def attribute_of_a_captured_tensor(t: Trial) -> None:
    w = vector(1.0)
    f = t.trace(lambda x: x * w.scale * w)
    for scale in (2.0, 2.0, 3.0, 2.0):
        w.scale = scale
        t.call(f, vector(1.0, 2.0))


@case()
def identity_of_arguments(t: Trial) -> None:
    f = t.trace(lambda x, y: x * 2 if x is y else x + y)
    x = vector(1.0, 2.0, grad=False)
    for y in (x, x, x.detach(), x, vector(1.0, 2.0, grad=False), x.detach()):
        t.call(f, x, y)


@case()
def class_of_an_argument_decides(t: Trial) -> None:
    f = t.trace(lambda x: x * 2 if isinstance(x, nn.Parameter) else x + 1)
    for x in (nn.Parameter(jit.ones(2)), jit.ones(2), vector(1.0, 1.0), nn.Parameter(jit.ones(2)), jit.ones(2)):
        t.call(f, x)
    w = nn.Parameter(jit.ones(2))
    g = t.trace(lambda x: x * 2 if isinstance(w, nn.Parameter) else x + 1)
    t.call(g, vector(1.0))
    t.call(g, vector(1.0))
    w = vector(1.0, 1.0)
    t.call(g, vector(1.0))


@case(must_hit=False)
def helper_with_a_small_cache(t: Trial) -> None:
    @functools.lru_cache(maxsize=1)
    def table(n):
        return jit.arange(n).float()

    f = t.trace(lambda x: x * table(x.shape[0]))
    for n in (2, 2, 3, 2, 3, 3):
        t.call(f, jit.ones(n, requires_grad=True))


@case()
def cached_helper(t: Trial) -> None:
    @functools.cache
    def table(n):
        return jit.arange(n).float()

    f = t.trace(lambda x: x * table(x.shape[0]))
    for n in (2, 2, 3, 2, 3, 3):
        t.call(f, jit.ones(n, requires_grad=True))
    table.cache_clear()
    for n in (2, 2, 2):
        t.call(f, jit.ones(n, requires_grad=True))


@case(must_hit=False)
def queue_of_numbers(t: Trial) -> None:
    numbers: Any = queue.Queue()
    for number in range(6):
        numbers.put(float(number))
    f = t.trace(lambda x: x * numbers.get())
    for _ in range(5):
        t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def queue_of_tensors(t: Trial) -> None:
    tensors: Any = queue.SimpleQueue()
    for number in range(6):
        tensors.put(vector(float(number), 1.0, grad=False))
    f = t.trace(lambda x: x * tensors.get())
    for _ in range(5):
        t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def generator_object_is_an_argument(t: Trial) -> None:
    f = t.trace(lambda x, numbers: x * next(numbers))
    numbers = (float(n) for n in range(9))
    for _ in range(4):
        t.call(f, vector(1.0, 2.0), numbers)


@case()
def generators_inside(t: Trial) -> None:
    def rows(x):
        for row in x:
            yield row * 2

    f = t.trace(lambda x: sum(rows(x)) + sum(r.sum() for r in rows(x)))
    for n in (2, 2, 3):
        t.call(f, jit.ones(n, 2, requires_grad=True))


@case()
def default_argument_changes(t: Trial) -> None:
    def f(x, table={"scale": 2.0}):  # noqa: B006
        return x * table["scale"]

    plain = f
    f = t.trace(f)
    for scale in (2.0, 2.0, 3.0):
        plain.__defaults__[0]["scale"] = scale  # type: ignore[index]
        t.call(f, vector(1.0, 2.0))


@case(jit.TraceError)
def default_argument_is_changed_inside(t: Trial) -> None:
    def f(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x * len(seen)

    f = t.trace(f)
    for _ in range(3):
        t.call(f, vector(1.0, 2.0))


@case()
def closure_cell_is_made_late(t: Trial) -> None:
    def f(x):
        return x * scale

    f = t.trace(f)
    t.call(f, vector(1.0, 2.0))
    scale = 2.0
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    scale = 3.0
    t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def global_is_written(t: Trial) -> None:
    space = program("count = 0\ndef f(x):\n    global count\n    count += 1\n    return x * count\n")
    f = t.trace(space.f)
    for _ in range(4):
        t.call(f, vector(1.0, 2.0))
    t.see("count", space.count)


def scales_by_a_global(t: Trial, body: str) -> None:
    """A function of `body` is called while the global `scale` that it reads stays, and then changes."""
    space = program(f"scale = 2.0\ndef f(x):\n{body}")
    f = t.trace(space.f)
    for scale in (2.0, 2.0, 3.0):
        space.scale = scale
        t.call(f, vector(1.0, 2.0))


@case()
def nested_function_reads_a_global(t: Trial) -> None:
    scales_by_a_global(t, "    g = lambda y: [y * scale for _ in range(2)]\n    return sum(g(x))\n")


@case()
def globals_by_name(t: Trial) -> None:
    scales_by_a_global(t, "    return x * globals()['scale']\n")


@case()
def attribute_by_name(t: Trial) -> None:
    class Settings:
        scale = 2.0

    settings = Settings()
    f = t.trace(lambda x, name: x * getattr(settings, name))
    for scale in (2.0, 2.0, 3.0):
        Settings.scale = scale
        t.call(f, vector(1.0, 2.0), "scale")


@case()
def properties_and_descriptors(t: Trial) -> None:
    class Settings:
        base = 2.0

        @property
        def scale(self):
            return self.base * 2

        @functools.cached_property
        def cached(self):
            return self.base * 3

        @staticmethod
        def shift():
            return 1.0

    settings = Settings()
    f = t.trace(lambda x: x * settings.scale + settings.cached + settings.shift())
    for base in (2.0, 2.0, 2.0, 3.0):
        Settings.base = base
        t.call(f, vector(1.0, 2.0))


@case()
def mapping_of_the_users(t: Trial) -> None:
    class Table:
        def __init__(self):
            self._items = {"scale": 2.0}

        def __getitem__(self, name):
            return self._items[name]

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return self._items[name]

    table = Table()
    f = t.trace(lambda x: x * table["scale"] + table.scale)
    for scale in (2.0, 2.0, 3.0):
        table._items["scale"] = scale
        t.call(f, vector(1.0, 2.0))


@case()
def weak_reference_to_a_tensor(t: Trial) -> None:
    w = vector(2.0, 3.0)
    reference = weakref.ref(w)
    f = t.trace(lambda x: x * reference())
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    with jit.no_grad():
        w.add_(1)
    t.call(f, vector(1.0, 2.0))


@case()
def numpy_scalars_change(t: Trial) -> None:
    scale: Any = np.float32(2.0)
    f = t.trace(lambda x: x * scale + float(np.float64(scale)))
    for scale in (np.float32(2.0), np.float32(2.0), np.float64(3.0), np.int64(3)):  # noqa: B007
        t.call(f, vector(1.0, 2.0))


@case()
def partial_changes(t: Trial) -> None:
    def scaled(x, by):
        return x * by

    helper = functools.partial(scaled, by=2.0)
    f = t.trace(lambda x: helper(x))
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(1.0, 2.0))
    helper.keywords["by"] = 3.0
    t.call(f, vector(1.0, 2.0))


# -- what becomes of numbers and text ----------------------------------------------------------------------------


@case(jit.TraceError)
def text_of_a_tensor(t: Trial) -> None:
    f = t.trace(lambda x: (x * 2, f"{x}"))
    for a in (1.0, 2.0):
        t.call(f, vector(a, grad=False))


@case(must_hit=False)
def text_of_a_number(t: Trial) -> None:
    f = t.trace(lambda x: (x * 2, f"{x.sum().item():.3f}", f"{x.max():.1f}", "%.2f" % x.sum()))  # noqa: UP031
    for a in (1.0, 1.0, 2.0):
        t.call(f, vector(a, grad=False))


@case()
def printing(t: Trial) -> None:
    def f(x):
        with contextlib.redirect_stdout(None):
            print(x.sum().item(), x.shape)
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))


@case()
def numbers_as_keys(t: Trial) -> None:
    table = {1: 10.0, 2: 20.0}
    f = t.trace(lambda x, n: x * table[n.item()] + {1.0: 5.0}.get(x.sum().item(), 7.0))
    for a, n in ((1.0, 1), (1.0, 1), (2.0, 1), (1.0, 2)):
        t.call(f, vector(a), jit.tensor(n))


@case()
def numbers_in_numpy(t: Trial) -> None:
    f = t.trace(lambda x: x * float(np.sqrt(x.abs().sum().item())) + int(np.ceil(x.max().item())))
    for a in (1.0, 1.0, 4.0, 1.0):
        t.call(f, vector(a))


@case()
def numbers_sorted_and_compared(t: Trial) -> None:
    def f(x, y):
        a, b = sorted([x.sum().item(), y.sum().item()])
        return x * max(a, b) + min(x.shape[0], 3) + round(a) + abs(b) + (a if 0 < a < 2 else -a)

    f = t.trace(f)
    for a, b in ((1.0, 2.0), (1.0, 2.0), (3.0, 2.0), (-1.0, 2.0)):
        t.call(f, vector(a), vector(b))


@case()
def chained_conditions_on_tensors(t: Trial) -> None:
    f = t.trace(lambda x: x * 2 if x.sum() > 0 and x.max() < 5 or not x.any() else x - 1)
    for a in (1.0, 1.0, 9.0, -1.0, 0.0):
        t.call(f, vector(a))


@case()
def tensor_in_a_list(t: Trial) -> None:
    f = t.trace(lambda x, n: x * 2 if n in (1, 2) else x - 1)
    for n in (1, 1, 3, 2):
        t.call(f, vector(1.0), jit.tensor(n))


@case()
def match_statement(t: Trial) -> None:
    def f(x, mode):
        match mode, x.ndim:
            case ("double", 1):
                return x * 2
            case (_, 2):
                return x.sum()
            case _:
                return x

    f = t.trace(f)
    for mode, x in (("double", jit.ones(2)), ("double", jit.ones(2)), ("a", jit.ones(2, 2)), ("a", jit.ones(2))):
        t.call(f, x, mode)


@case()
def assertions_on_values(t: Trial) -> None:
    def f(x):
        assert (x > 0).all(), "positive"
        assert x.shape == (2,)
        return x.log()

    f = t.trace(f)
    for a in (1.0, 2.0, -1.0, 3.0):
        t.call(f, vector(a, 1.0))


@case()
def exception_by_a_value_is_caught(t: Trial) -> None:
    def f(x, n):
        try:
            return x / (10 // int(n))
        except ZeroDivisionError:
            return x * 7
        finally:
            x = x + 1

    f = t.trace(f)
    for n in (3, 3, 20, 5, 20):
        t.call(f, vector(1.0), jit.tensor(n))


@case()
def operator_that_raises_is_caught(t: Trial) -> None:
    def f(x, i):
        try:
            return x[i]
        except IndexError:
            return x.sum()

    f = t.trace(f)
    for i in (0, 1, 5, 1, 5):
        t.call(f, vector(1.0, 2.0), jit.tensor(i))


# -- what is left behind -----------------------------------------------------------------------------------------


@case(must_hit=False)
def tensor_is_kept_in_a_global(t: Trial) -> None:
    space = program("last = None\ndef f(x):\n    global last\n    last = x * 3\n    return x * 2\n")
    f = t.trace(space.f)
    for a in (1.0, 2.0, 3.0):
        x = vector(a)
        t.call(f, x)
        space.last.sum().backward()
        t.see("kept", [space.last, x.grad])


@case(must_hit=False)
def tensor_is_kept_and_used_in_the_next_call(t: Trial) -> None:
    class Cell:
        hidden: Any = None

    cell = Cell()

    def f(x):
        cell.hidden = x if cell.hidden is None else (cell.hidden * x).detach()
        return cell.hidden * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("hidden", cell.hidden)


@case(must_hit=False)
def tensor_is_used_in_another_trace(t: Trial) -> None:
    kept: list[Any] = []

    def f(x):
        kept.append(x * 3)
        return x * 2

    f, g = t.trace(f), t.trace(lambda y: kept[-1] * y)
    for a in (1.0, 2.0, 3.0):
        x, y = vector(a), vector(a + 1)
        t.call(f, x)
        t.call(g, y)
        t.see("gradients", [x.grad, y.grad])


@case(must_hit=False)
def tensor_is_kept_where_nobody_looks(t: Trial) -> None:
    kept: Any = queue.SimpleQueue()

    def f(x):
        kept.put(x * 3)
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("kept", [kept.get() for _ in range(kept.qsize())])


@case((jit.TraceError,), must_hit=False)
def attribute_is_set_on_an_argument(t: Trial) -> None:
    def f(x):
        x.seen = x.sum() * 2
        return x * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        x = vector(a, grad=False)
        t.call(f, x)
        t.see("seen", getattr(x, "seen", None))


@case((jit.TraceError,), must_hit=False)
def attribute_is_set_on_a_captured_tensor(t: Trial) -> None:
    w = vector(2.0, grad=False)

    def f(x):
        w.seen = x.sum() * 2
        return x * w

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("seen", w.seen)


@case(must_hit=False)
def object_is_registered_elsewhere(t: Trial) -> None:
    class Registry:
        found: Any = weakref.WeakValueDictionary()

    class Result:
        def __init__(self, value):
            self.value = value

    holder: list[Any] = []

    def f(x):
        result = Result(x * 2)
        holder[:] = [result]
        Registry.found["last"] = result
        return x * 3

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("found", Registry.found["last"].value)


@case((jit.TraceError,), must_hit=False)
def thread_computes_inside(t: Trial) -> None:
    def f(x):
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(x * 2))
        thread.start()
        thread.join()
        return found[0] + x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, grad=False))


@case((jit.TraceError,), must_hit=False)
def thread_writes_inside(t: Trial) -> None:
    def f(x):
        y = x * 1
        thread = threading.Thread(target=lambda: y.mul_(3))
        thread.start()
        thread.join()
        return y + x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, grad=False))


@case((jit.TraceError,), must_hit=False)
def array_is_written_inside(t: Trial) -> None:
    array = np.ones(2, np.float32)
    shared = jit.from_numpy(array)

    def f(x):
        array[0] = 5
        return x * shared

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        array[0] = a
        t.call(f, vector(a, 1.0))


# -- modes -------------------------------------------------------------------------------------------------------


@case()
def grad_mode_is_switched_for_good(t: Trial) -> None:
    def f(x):
        y = x * 2
        jit.set_grad_enabled(False)
        z = y * 3
        jit.set_grad_enabled(True)
        return y * x, z

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))


@case(must_hit=False)
def random_state_of_python_is_restored(t: Trial) -> None:
    def f(x):
        state = random.getstate()
        number = random.random()
        random.setstate(state)
        return x * number

    f = t.trace(f)
    for seed in (0, 0, 1, 2):
        random.seed(seed)
        t.call(f, vector(1.0))


@case(must_hit=False)
def random_seed_inside(t: Trial) -> None:
    def f(x):
        jit.manual_seed(5)
        return x * jit.rand(2)

    f = t.trace(f)
    for _ in range(3):
        t.call(f, vector(1.0, 2.0))
        t.see("after", jit.rand(2))


@case(must_hit=False)
def random_seed_by_an_argument(t: Trial) -> None:
    def f(x, seed):
        generator = jit.Generator().manual_seed(seed)
        return x * jit.rand(2, generator=generator) + jit.rand(2)

    f = t.trace(f)
    for seed in (1, 1, 2, 1):
        t.call(f, vector(1.0, 2.0), seed)


@case(must_hit=False)
def random_state_is_set_back_inside(t: Trial) -> None:
    def f(x):
        state = jit.get_rng_state()
        a = jit.rand(2)
        jit.set_rng_state(state)
        return x * a + jit.rand(2)

    f = t.trace(f)
    for seed in (1, 2, None, None):
        if seed is not None:
            jit.manual_seed(seed)
        t.call(f, vector(1.0, 2.0))


@case()
def modules_are_made_inside(t: Trial) -> None:
    def f(x):
        layer = nn.Linear(2, 2)
        return layer(x).sum() + nn.functional.dropout(x, 0.5, True).sum()

    f = t.trace(f)
    for seed in (0, 0, 1, None):
        if seed is not None:
            jit.manual_seed(seed)
        t.call(f, vector(1.0, 2.0))


@case()
def mode_of_a_module_is_switched_inside(t: Trial) -> None:
    net = nn.Sequential(nn.Dropout(0.5))

    def f(x):
        was = net.training
        net.eval()
        y = net(x)
        net.train(was)
        return y + net(x)

    f = t.trace(f)
    for training in (True, True, False, True):
        net.train(training)
        jit.manual_seed(1)
        t.call(f, vector(1.0, 2.0))


@case()
def default_dtype_inside(t: Trial) -> None:
    f = t.trace(lambda x: x.to(jit.float64) * 2.5 + jit.tensor([0.1]) + x.new_tensor([1.0]))
    for kind in (jit.float32, jit.float32, jit.float16, jit.float64):
        t.call(f, jit.ones(2, dtype=kind))


# -- hooks inside ------------------------------------------------------------------------------------------------


@case(jit.TraceError)
def hook_inside_keeps_what_it_sees(t: Trial) -> None:
    seen: list[Any] = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum()))
        return y * x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("seen", [float(v) for v in seen])


@case(jit.TraceError)
def hook_inside_reads_the_clock(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * (time.time() > 0))
        return y * x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))


@case(must_hit=False)
def hook_inside_a_function_that_is_not_kept(t: Trial) -> None:
    seen: list[Any] = []

    def f(x):
        seen.append(0.0)
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum()))
        return y * x

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("seen", [float(v) for v in seen])
