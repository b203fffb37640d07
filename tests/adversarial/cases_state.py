"""Cases in which a function reads state that is easy to overlook, or is next to state that it does not read."""

import array
import collections
import contextlib
import copy
import ctypes
import dataclasses
import enum
import functools
import importlib
import io
import itertools
import math
import mmap
import operator
import os
import pickle
import sys
import tempfile
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import jit
from jit import nn
from tests.adversarial.cases_python import program
from tests.adversarial.cases_surroundings import vector
from tests.adversarial.trial import Trial, case


class Thing:
    """An object of the user's."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...


def changing(t: Trial, function: Callable[[Any], Any], *changes: Callable[[], Any]) -> None:
    """The function is called twice, and twice more after each change."""
    f = t.trace(function)
    for change in (lambda: None, *changes):
        change()
        t.call(f, vector(1.0, 2.0))
        t.call(f, vector(3.0, 4.0))


# -- what is read ------------------------------------------------------------------------------------------------


@case()
def counter_on_a_function_that_somebody_else_moves(t: Trial) -> None:
    def scaled(x):
        return x * helper.factor

    helper: Any = scaled
    helper.factor = 2.0
    changing(t, lambda x: helper(x), lambda: setattr(helper, "factor", 3.0), lambda: setattr(helper, "factor", 2.0))


@case()
def lookup_by_a_bound_method_in_an_object(t: Trial) -> None:
    table = {"a": 2.0}
    thing = Thing(look=table.__getitem__, ask=table.get)
    changing(
        t, lambda x: x * thing.look("a") + thing.ask("b", 1.0), lambda: table.update(a=3.0), lambda: table.update(b=5.0)
    )


@case()
def mapping_over_a_bound_method(t: Trial) -> None:
    table = {0: 2.0, 1: 3.0}
    get: Any = table.get
    changing(t, lambda x: x * sum(map(get, [0, 1])), lambda: table.update({1: 9.0}))


@case()
def sorted_by_a_bound_method(t: Trial) -> None:
    order = {"a": 0, "b": 1}
    rank: Any = order.get
    scale = {"a": 2.0, "b": 5.0}
    changing(t, lambda x: x * scale[sorted("ab", key=rank)[0]], lambda: order.update(a=7))


@case()
def bytes_that_change_under_a_view(t: Trial) -> None:
    data = bytearray(b"\x02\x03")
    view = memoryview(data)[1:]
    changing(t, lambda x: x * view[0], lambda: data.__setitem__(1, 9), lambda: data.__setitem__(0, 9))


@case()
def buffer_shared_with_an_array_of_numpy(t: Trial) -> None:
    data = array.array("d", [2.0, 3.0])
    shared = np.frombuffer(data)
    changing(t, lambda x: x * float(shared[1]), lambda: data.__setitem__(1, 9.0))


@case()
def struct_of_c_in_an_object(t: Trial) -> None:
    class Setting(ctypes.Structure):
        _fields_ = (("scale", ctypes.c_double), ("many", ctypes.c_int * 2))

    thing = Thing(setting=Setting(2.0, (1, 2)))
    changing(
        t,
        lambda x: x * thing.setting.scale + thing.setting.many[1],
        lambda: setattr(thing.setting, "scale", 3.0),
        lambda: thing.setting.many.__setitem__(1, 7),
    )


@case()
def memory_that_is_mapped(t: Trial) -> None:
    with mmap.mmap(-1, 16) as memory:
        memory[0] = 2
        changing(t, lambda x: x * memory[0], lambda: memory.__setitem__(0, 3))


@case()
def values_of_a_dict_kept_as_a_view(t: Trial) -> None:
    weights = {"a": 2.0, "b": 3.0}
    total = weights.values()
    changing(t, lambda x: x * sum(total), lambda: weights.update(a=5.0), lambda: weights.update(c=1.0))


@case()
def tensors_behind_a_read_only_mapping(t: Trial) -> None:
    weights = {"w": vector(2.0, 3.0)}
    shown = types.MappingProxyType(weights)
    t.watch(w=weights["w"])
    changing(t, lambda x: x * shown["w"], lambda: weights.update(w=vector(5.0, 7.0)))


@case()
def module_found_by_name(t: Trial) -> None:
    module = types.ModuleType("jit_case_settings")
    module.scale = 2.0  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        changing(
            t,
            lambda x: x * importlib.import_module("jit_case_settings").scale,
            lambda: setattr(module, "scale", 3.0),
        )
    finally:
        del sys.modules[module.__name__]


@case()
def module_in_the_table_of_modules(t: Trial) -> None:
    module = types.ModuleType("jit_case_table")
    module.scale = 2.0  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        changing(t, lambda x: x * sys.modules["jit_case_table"].scale, lambda: setattr(module, "scale", 3.0))
    finally:
        del sys.modules[module.__name__]


@case()
def module_imported_inside_and_rebound(t: Trial) -> None:
    def made(scale: float) -> Any:
        module = types.ModuleType("jit_case_inside")
        module.scale = scale  # type: ignore[attr-defined]
        sys.modules["jit_case_inside"] = module
        return module

    def f(x):
        import jit_case_inside  # type: ignore[import-not-found]

        return x * jit_case_inside.scale

    made(2.0)
    try:
        changing(t, f, lambda: made(3.0))
    finally:
        del sys.modules["jit_case_inside"]


@case()
def module_held_by_an_object(t: Trial) -> None:
    thing = Thing(settings=types.ModuleType("jit_case_held"))
    thing.settings.scale = 2.0
    changing(t, lambda x: x * thing.settings.scale, lambda: setattr(thing.settings, "scale", 3.0))


@case()
def global_module_is_rebound(t: Trial) -> None:
    space = program("def f(x):\n    return x * settings.scale\n")
    space.settings = types.SimpleNamespace(scale=2.0)
    changing(t, space.f, lambda: setattr(space, "settings", types.SimpleNamespace(scale=3.0)))


@case()
def getter_made_outside(t: Trial) -> None:
    get = operator.attrgetter("inner.scale")
    thing = Thing(inner=Thing(scale=2.0, other=1.0))
    changing(t, lambda x: x * get(thing), lambda: setattr(thing.inner, "scale", 3.0))


@case()
def getter_of_several_made_inside(t: Trial) -> None:
    thing = Thing(scale=2.0, shift=1.0)

    def f(x):
        scale, shift = operator.attrgetter("scale", "shift")(thing)
        return x * scale + shift

    changing(t, f, lambda: setattr(thing, "shift", 4.0), lambda: setattr(thing, "scale", 5.0))


@case()
def name_of_an_attribute_is_data(t: Trial) -> None:
    thing = Thing(low=2.0, high=5.0, which="low")
    changing(
        t,
        lambda x: x * getattr(thing, thing.which),
        lambda: setattr(thing, "low", 3.0),
        lambda: setattr(thing, "which", "high"),
        lambda: setattr(thing, "high", 7.0),
    )


@case()
def name_of_an_attribute_is_put_together(t: Trial) -> None:
    thing = Thing(scale_0=2.0, scale_1=3.0)
    changing(
        t,
        lambda x: sum(x * getattr(thing, f"scale_{i}") for i in range(2)),
        lambda: setattr(thing, "scale_1", 9.0),
    )


@case()
def nested_attribute_by_reduce(t: Trial) -> None:
    thing = Thing(a=Thing(b=Thing(c=2.0)))
    path = ["a", "b", "c"]
    changing(t, lambda x: x * functools.reduce(getattr, path, thing), lambda: setattr(thing.a.b, "c", 3.0))


@case()
def object_is_copied_inside(t: Trial) -> None:
    thing = Thing(scale=2.0, items=[1.0])
    changing(
        t,
        lambda x: x * sum(vars(copy.deepcopy(thing))["items"]),
        lambda: thing.items.append(2.0),
    )


@case(must_hit=False)
def object_is_pickled_inside(t: Trial) -> None:
    thing = types.SimpleNamespace(scale=2.0)
    changing(t, lambda x: x * pickle.loads(pickle.dumps(thing)).scale, lambda: setattr(thing, "scale", 3.0))


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    shift: float = 1.0


@case()
def dataclass_as_a_dict(t: Trial) -> None:
    settings = Settings()
    changing(t, lambda x: x * sum(dataclasses.asdict(settings).values()), lambda: setattr(settings, "shift", 5.0))


@case()
def dataclass_is_replaced_inside(t: Trial) -> None:
    settings = Settings()
    changing(t, lambda x: x * dataclasses.replace(settings, scale=7.0).shift, lambda: setattr(settings, "shift", 5.0))


@case()
def fields_by_a_match(t: Trial) -> None:
    settings = Settings()

    def f(x):
        match settings:
            case Settings(2.0, shift):
                return x + shift
            case Settings(scale, _):
                return x * scale

    changing(t, f, lambda: setattr(settings, "shift", 4.0), lambda: setattr(settings, "scale", 3.0))


@case(must_hit=False)
def file_that_appears(t: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flag")
        changing(t, lambda x: x * (2 if os.path.exists(path) else 3), lambda: open(path, "w").close())


@case(must_hit=False)
def file_that_grows(t: Trial) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        changing(t, lambda x: x * (1 + os.path.getsize(file.name)), lambda: os.truncate(file.name, 5))


@case(must_hit=False)
def file_read_by_its_number(t: Trial) -> None:
    with tempfile.TemporaryFile() as file:
        os.pwrite(file.fileno(), b"\x02", 0)
        changing(t, lambda x: x * os.pread(file.fileno(), 1, 0)[0], lambda: os.pwrite(file.fileno(), b"\x05", 0))


@case(must_hit=False)
def numbers_from_a_file_of_numpy(t: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "numbers.npy")
        np.save(path, np.array([2.0]))
        changing(t, lambda x: x * float(np.load(path)[0]), lambda: np.save(path, np.array([3.0])))


@case()
def environment_as_bytes(t: Trial) -> None:
    os.environ["JIT_CASE_SCALE"] = "2"
    try:
        changing(
            t,
            lambda x: x * float(os.environb[b"JIT_CASE_SCALE"]),
            lambda: os.environ.update(JIT_CASE_SCALE="3"),
            lambda: os.environb.update({b"JIT_CASE_SCALE": b"4"}),
        )
    finally:
        del os.environ["JIT_CASE_SCALE"]


@case()
def defaults_of_the_function_itself(t: Trial) -> None:
    def f(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    changing(
        t, f,
        lambda: setattr(f, "__defaults__", (3.0,)),
        lambda: f.__kwdefaults__.update(shift=5.0),  # type: ignore[union-attr]
        lambda: setattr(f, "__kwdefaults__", {"shift": 6.0}),
        lambda: setattr(f, "__defaults__", (2.0,)),
    )  # fmt: skip


@case()
def tensor_as_a_default_is_replaced(t: Trial) -> None:
    def f(x, w=vector(2.0, 3.0)):  # noqa: B008
        return x * w

    changing(t, f, lambda: setattr(f, "__defaults__", (vector(5.0, 7.0),)))


@case()
def code_of_the_function_itself(t: Trial) -> None:
    def f(x):
        return x * 2

    changing(t, f, lambda: setattr(f, "__code__", (lambda x: x + 5).__code__))


@case()
def code_of_a_helper(t: Trial) -> None:
    def helper(x):
        return x * 2

    changing(t, lambda x: helper(x) + 1, lambda: setattr(helper, "__code__", (lambda x: x - 5).__code__))


@case()
def keywords_of_a_partial_that_is_traced(t: Trial) -> None:
    def scaled(x, scale, shift=0.0):
        return x * scale + shift

    f = functools.partial(scaled, scale=2.0)
    changing(t, f, lambda: f.keywords.update(scale=3.0), lambda: f.keywords.update(shift=4.0))


@case()
def method_that_is_replaced_on_an_instance(t: Trial) -> None:
    class Scaler:
        def scale(self):
            return 2.0

    scaler = Scaler()
    changing(
        t,
        lambda x: x * scaler.scale(),
        lambda: setattr(Scaler, "scale", lambda self: 3.0),
        lambda: setattr(scaler, "scale", lambda: 5.0),
    )


@case()
def forward_of_a_module_is_replaced(t: Trial) -> None:
    net = nn.Sequential(nn.Tanh(), nn.Sigmoid())
    changing(t, lambda x: net(x), lambda: setattr(net[0], "forward", lambda x: x * 3))


@case()
def attribute_of_a_metaclass(t: Trial) -> None:
    class Meta(type):
        scale = 2.0

        def __getitem__(cls, name: str) -> float:
            return cls.scale + len(name)

    class Setting(metaclass=Meta):
        pass

    changing(
        t, lambda x: x * Setting.scale + Setting["a"],
        lambda: setattr(Meta, "scale", 3.0), lambda: setattr(Setting, "scale", 4.0),
    )  # fmt: skip


@case()
def missing_keys(t: Trial) -> None:
    class Table(dict):
        fallback = 2.0

        def __missing__(self, key):
            return self.fallback

    table = Table()
    changing(
        t, lambda x: x * table["a"],
        lambda: setattr(Table, "fallback", 3.0),
        lambda: setattr(table, "fallback", 4.0),
        lambda: table.update(a=5.0),
    )  # fmt: skip


@case()
def state_behind_a_descriptor(t: Trial) -> None:
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        def __get__(self, instance, owner=None):
            return self.factor * instance.base

    class Setting:
        base = 1.0
        scale = Scaled(2.0)

    setting = Setting()
    changing(
        t, lambda x: x * setting.scale,
        lambda: setattr(vars(Setting)["scale"], "factor", 3.0), lambda: setattr(setting, "base", 4.0),
    )  # fmt: skip


@case()
def dispatch_on_a_type_registered_later(t: Trial) -> None:
    @functools.singledispatch
    def weight(value):
        return 2.0

    changing(t, lambda x: x * weight(1), lambda: weight.register(int, lambda value: 3.0))


@case()
def state_of_a_member_of_an_enum(t: Trial) -> None:
    class Mode(enum.Enum):
        SLOW = 1
        FAST = 2

        @property
        def rate(self):
            return self.factor * self.value  # type: ignore[attr-defined]

    fast: Any = Mode.FAST
    fast.factor = 2.0
    changing(t, lambda x: x * Mode.FAST.rate, lambda: setattr(fast, "factor", 3.0))


@case()
def class_of_an_object_is_replaced(t: Trial) -> None:
    class Slow:
        rate = 2.0

    class Fast:
        rate = 3.0

    thing = Slow()
    changing(t, lambda x: x * thing.rate, lambda: setattr(thing, "__class__", Fast))


@case()
def attribute_of_a_captured_list(t: Trial) -> None:
    class Items(list):
        pass

    items: Any = Items([1.0])
    items.scale = 2.0
    changing(
        t, lambda x: x * items.scale + len(items),
        lambda: setattr(items, "scale", 3.0), lambda: items.append(2.0),
    )  # fmt: skip


@case()
def elements_of_a_set_have_state(t: Trial) -> None:
    things = {Thing(scale=2.0)}
    changing(t, lambda x: x * sum(thing.scale for thing in things), lambda: setattr(next(iter(things)), "scale", 3.0))


@case()
def keys_of_a_dict_have_state(t: Trial) -> None:
    things = {Thing(scale=2.0): 1.0}
    changing(t, lambda x: x * sum(k.scale * v for k, v in things.items()),
             lambda: setattr(next(iter(things)), "scale", 3.0))  # fmt: skip


@case()
def order_of_an_ordered_dict(t: Trial) -> None:
    steps = collections.OrderedDict(double=2.0, add=1.0)

    def f(x):
        for name, value in steps.items():
            x = x * value if name == "double" else x + value
        return x

    changing(t, f, lambda: steps.move_to_end("double"))


@case()
def cell_that_is_set_from_outside(t: Trial) -> None:
    scale = 2.0

    def helper(x):
        return x * scale

    changing(t, lambda x: helper(x), lambda: setattr(helper.__closure__[0], "cell_contents", 5.0))  # type: ignore[index]


@case()
def attribute_through_a_weak_proxy(t: Trial) -> None:
    thing = Thing(scale=2.0)
    proxy = weakref.proxy(thing)
    changing(t, lambda x: x * proxy.scale, lambda: setattr(thing, "scale", 3.0))


@case()
def tensor_through_a_weak_proxy(t: Trial) -> None:
    thing = Thing(w=vector(2.0, 3.0))
    proxy = weakref.proxy(thing)
    changing(t, lambda x: x * proxy.w, lambda: setattr(thing, "w", vector(5.0, 7.0)))


@case()
def event_decides(t: Trial) -> None:
    event = threading.Event()
    changing(t, lambda x: x * 2 if event.is_set() else x + 1, event.set, event.clear)


@case()
def text_in_memory(t: Trial) -> None:
    file = io.StringIO("2.0")
    changing(t, lambda x: x * float(file.getvalue()), lambda: (file.seek(0), file.write("3.5")))


@case()
def function_of_a_library_is_patched(t: Trial) -> None:
    before = math.floor
    try:
        changing(t, lambda x: x * math.floor(2.5), lambda: setattr(math, "floor", lambda number: 7.0))
    finally:
        math.floor = before


@case()
def operator_of_a_network_is_patched(t: Trial) -> None:
    functional: Any = types.SimpleNamespace(relu=nn.functional.relu)
    changing(t, lambda x: functional.relu(x - 2), lambda: setattr(functional, "relu", nn.functional.sigmoid))


@case()
def helper_starts_to_call_another_helper(t: Trial) -> None:
    space = program(
        "deep = False\nscale = 2.0\ndef inner(x):\n    return x * scale\n"
        "def helper(x):\n    return inner(x) if deep else x + 1\ndef f(x):\n    return helper(x)\n"
    )
    changing(
        t, space.f,
        lambda: setattr(space, "deep", True), lambda: setattr(space, "scale", 3.0),
        lambda: setattr(space, "deep", False), lambda: setattr(space, "deep", True),
    )  # fmt: skip


@case()
def path_by_an_argument_reads_more(t: Trial) -> None:
    thing = Thing(scale=2.0)

    def more(x):
        return x * thing.scale

    f = t.trace(lambda x, deep: more(x) if deep else x + 1)
    for deep, scale in ((False, 2.0), (True, 2.0), (True, 2.0), (False, 3.0), (True, 3.0), (True, 2.0)):
        thing.scale = scale
        t.call(f, vector(1.0, 2.0), deep)


@case()
def path_by_an_element_reads_more(t: Trial) -> None:
    thing = Thing(scale=2.0)

    def more(x):
        return x * thing.scale

    f = t.trace(lambda x: more(x) if x.sum() > 0 else x - 1)
    for number, scale in ((-1.0, 2.0), (1.0, 2.0), (1.0, 2.0), (-1.0, 3.0), (1.0, 3.0), (-1.0, 2.0)):
        thing.scale = scale
        t.call(f, vector(number))


@case()
def path_with_weights_of_its_own(t: Trial) -> None:
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    t.watch(one=one.weight, other=other.weight)
    f = t.trace(lambda x, first: one(x) if first else other(x) + one(x))
    for first in (True, True, False, False, True, False):
        t.call(f, jit.ones(1, 2, requires_grad=True), first)
    other.weight = nn.Parameter(jit.ones(2, 2) * 3)
    for first in (True, False, False):
        t.call(f, jit.ones(1, 2, requires_grad=True), first)


@case()
def sizes_that_vary_while_paths_are_found(t: Trial) -> None:
    thing = Thing(scale=2.0)

    def more(x):
        return x * thing.scale

    f = t.trace(lambda x, deep=False: more(x) if deep else x + 1)
    for size, deep in ((2, False), (3, False), (4, False), (2, True), (3, True), (5, True), (6, False)):
        t.call(f, jit.ones(size, requires_grad=True), deep)
    thing.scale = 3.0
    for size, deep in ((7, True), (2, True), (2, False)):
        t.call(f, jit.ones(size, requires_grad=True), deep)


@case(must_hit=False)
def names_are_looked_up_among_callers(t: Trial) -> None:
    def inner():
        return sys._getframe(1).f_locals["scale"]

    def f(x, scale):
        return x * inner()

    f = t.trace(f)
    for scale in (2.0, 2.0, 3.0):
        t.call(f, vector(1.0, 2.0), scale)


# -- what is near, and is not read -------------------------------------------------------------------------------


class Busy:
    """An object with a part that changes all the time, and that `scale` has nothing to do with."""

    numbers = itertools.count()

    def __init__(self) -> None:
        self.factor = 2.0
        self.lock = threading.Lock()
        self.opened = tempfile.TemporaryFile()  # noqa: SIM115
        self.ticks = iter(range(10**6))
        self.calls = 0

    def scale(self, x: Any) -> Any:
        return x * self.factor

    def tick(self) -> float:
        self.calls += 1
        return next(self.numbers) + next(self.ticks) + time.time() + len(self.opened.read())


@case()
def busy_object_beside(t: Trial) -> None:
    busy = Busy()
    f = t.trace(lambda x: busy.scale(x))
    for factor in (2.0, 2.0, 3.0, 3.0):
        busy.factor = factor
        busy.tick()
        t.call(f, vector(1.0, 2.0))


@case()
def busy_module_beside(t: Trial) -> None:
    class Net(nn.Module):
        ids = itertools.count()

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.log = open(os.devnull)  # noqa: SIM115

        def note(self):
            return next(self.ids), self.log.read()

        def forward(self, x):
            return self.linear(x)

    net = Net()
    f = t.trace(net)
    for _ in range(3):
        net.note()
        t.call(f, jit.ones(1, 2))


@case()
def helper_that_is_never_called(t: Trial) -> None:
    numbers = itertools.count()

    def never(x):
        return x * next(numbers)

    def f(x, debug=False):
        return never(x) if debug else x * 2

    f = t.trace(f)
    for _ in range(3):
        t.call(f, vector(1.0, 2.0))


@case()
def statistics_beside(t: Trial) -> None:
    thing = Thing(scale=2.0, seen=0, history=[])
    f = t.trace(lambda x: x * thing.scale)
    for number in range(4):
        thing.seen += 1
        thing.history.append(number)
        t.call(f, vector(1.0, 2.0))


@case()
def lock_around(t: Trial) -> None:
    lock, ring = threading.Lock(), threading.RLock()

    def f(x):
        with lock, ring, contextlib.suppress(ValueError):
            return x * 2

    f = t.trace(f)
    for number in (1.0, 2.0, 3.0):
        t.call(f, vector(number))
