"""Further kinds of state around a function: each case makes it, reads it, changes it, and reads it again.

What programs put in place of functions of this package and of Python's is put back at the start of each case.
"""

import abc
import builtins
import calendar
import codecs
import collections
import concurrent.futures
import contextlib
import contextvars
import csv
import dataclasses
import datetime
import enum
import functools
import inspect
import json
import logging
import math
import multiprocessing
import os
import re
import string
import sys
import tempfile
import threading
import types
import typing
import unittest.mock
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import jit
import jit.nn.functional as F
from jit import nn
from tests.adversarial.cases_python import program
from tests.adversarial.cases_state import Thing, changing
from tests.adversarial.cases_surroundings import vector
from tests.adversarial.trial import Trial, case

Made = tuple[Callable[..., Any], ...]
"""What is traced, and the changes to make one after the other."""


def state(must_hit: bool = True) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Register a case whose function is called before and after each change."""

    def decorate(make: Callable[[], Made]) -> Callable[[], Made]:
        def body(t: Trial) -> None:
            function, *changes = make()
            changing(t, function, *changes)

        body.__name__, body.__module__ = make.__name__, make.__module__
        case(must_hit=must_hit)(body)
        return make

    return decorate


def sets(thing: Any, name: str, value: Any) -> Callable[[], None]:
    """A change that sets an attribute."""
    return lambda: setattr(thing, name, value)


# -- what functions and classes say of themselves ----------------------------------------------------------------


def _helper(scale: float = 2.0, *, shift: float = 1.0) -> Any:
    def helper(scale: float = scale, *, shift: float = shift) -> None:
        """Says something."""

    return helper


@state()
def defaults_that_are_only_read() -> Made:
    helper = _helper()
    return lambda x: x * helper.__defaults__[0], sets(helper, "__defaults__", (5.0,))


@state()
def keyword_defaults_that_are_only_read() -> Made:
    helper = _helper()
    return lambda x: x * helper.__kwdefaults__["shift"], lambda: helper.__kwdefaults__.update(shift=5.0)


@state()
def defaults_through_a_signature() -> Made:
    helper = _helper()
    return (
        lambda x: x * inspect.signature(helper).parameters["scale"].default,
        sets(helper, "__defaults__", (5.0,)),
    )


@state()
def name_and_text_of_a_function() -> Made:
    helper = _helper()
    return (
        lambda x: x * (len(helper.__name__) + len(helper.__doc__)),
        sets(helper, "__name__", "h"), sets(helper, "__doc__", "Less."),
    )  # fmt: skip


@state()
def closure_that_is_only_read() -> Made:
    scale = 2.0

    def helper() -> float:
        return scale

    closure: Any = helper.__closure__
    return (
        lambda x: x * helper.__closure__[0].cell_contents,  # type: ignore[index]
        sets(closure[0], "cell_contents", 5.0),
    )


@state()
def code_that_is_only_read() -> Made:
    helper = _helper()
    return lambda x: x * helper.__code__.co_argcount, sets(helper, "__code__", (lambda a, b, c: a).__code__)


@state()
def name_of_a_class() -> Made:
    thing = type("Short", (), {})()
    return lambda x: x * len(type(thing).__name__), sets(type(thing), "__name__", "MuchLonger")


@state()
def annotations_of_a_class() -> Made:
    class Fields:
        a: int

    return lambda x: x * len(typing.get_type_hints(Fields)), lambda: Fields.__annotations__.update(b=int)


@state()
def base_of_a_class_is_exchanged() -> Made:
    class Slow:
        rate = 2.0

    class Fast:
        rate = 3.0

    class Machine(Slow):
        pass

    machine = Machine()
    return lambda x: x * machine.rate, sets(Machine, "__bases__", (Fast,)), sets(Fast, "rate", 5.0)


@state()
def mixin_is_put_between() -> Made:
    class Base:
        def rate(self) -> float:
            return 2.0

    class Machine(Base):
        pass

    class Mixin(Base):
        def rate(self) -> float:
            return super().rate() + 5

    machine = Machine()
    return lambda x: x * machine.rate(), sets(Machine, "__bases__", (Mixin,))


@state()
def subclasses_are_the_registry() -> Made:
    class Base:
        rate = 0.0

    made = [type("First", (Base,), {"rate": 2.0})]
    return (
        lambda x: x * sum(kind.rate for kind in Base.__subclasses__()),
        lambda: made.append(type("Second", (Base,), {"rate": 3.0})),
        sets(made[0], "rate", 7.0),
    )


@state()
def abstract_class_in_a_module_of_a_closure() -> Made:
    import collections.abc as abstract

    kind = type("Kind", (), {})
    thing = kind()
    return lambda x: x * 2 if isinstance(thing, abstract.Sized) else x, lambda: abstract.Sized.register(kind)


@state()
def method_appears_that_a_protocol_asks_for() -> Made:
    @typing.runtime_checkable
    class Runs(typing.Protocol):
        def run(self) -> None: ...

    kind: Any = type("Kind", (), {})
    thing = kind()
    return lambda x: x * 2 if isinstance(thing, Runs) else x, sets(kind, "run", lambda self: None)


@state()
def class_lists_its_instances() -> Made:
    class Meta(type):
        made: typing.ClassVar[list[Any]] = []

        def __call__(cls, *args: Any) -> Any:
            thing = super().__call__(*args)
            cls.made.append(thing)
            return thing

    class Part(metaclass=Meta):
        def __init__(self, rate: float) -> None:
            self.rate = rate

    first = Part(2.0)
    return lambda x: x * sum(part.rate for part in Meta.made), lambda: Part(3.0), sets(first, "rate", 7.0)


@state()
def special_methods_appear() -> Made:
    kind: Any = type("Kind", (), {})
    thing, other = kind(), kind()
    return (
        lambda x: (x * 2 if thing else x * 3) + (1 if thing == other else 5),
        sets(kind, "__len__", lambda self: 0),
        sets(kind, "__eq__", lambda self, other: True),
        sets(kind, "__bool__", lambda self: True),
    )  # fmt: skip


@state()
def look_up_is_replaced() -> Made:
    kind: Any = type("Kind", (Thing,), {})
    thing = kind(rate=2.0)
    return (
        lambda x: x * thing.rate,
        sets(kind, "__getattribute__", lambda self, name: object.__getattribute__(self, name) if name != "rate" else 7),
    )


# -- errors, partials, references --------------------------------------------------------------------------------


@state()
def arguments_of_an_error_that_is_kept() -> Made:
    error = ValueError("a", 2.0)
    return lambda x: x * error.args[1], sets(error, "args", ("a", 5.0))


@state()
def cause_and_notes_of_an_error() -> Made:
    error = ValueError("a")
    return (
        lambda x: x * (2 if error.__cause__ is None else 3) + len(getattr(error, "__notes__", [])),
        sets(error, "__cause__", KeyError()), lambda: error.add_note("b"), lambda: error.add_note("c"),
    )  # fmt: skip


@state()
def number_of_an_error_of_the_system() -> Made:
    error = OSError(2, "missing")
    return lambda x: x * (error.errno or 0), sets(error, "errno", 5)


@state()
def partial_is_filled_anew() -> Made:
    def scaled(x: Any, by: float) -> Any:
        return x * by

    partial = functools.partial(scaled, by=2.0)
    return lambda x: partial(x), lambda: partial.__setstate__((scaled, (), {"by": 7.0}, {}))  # type: ignore[attr-defined]


@state()
def finalizer_has_run() -> Made:
    class Owner:
        pass

    held = [Owner()]
    finalizer = weakref.finalize(held[0], lambda: None)
    return lambda x: x * (2 if finalizer.alive else 3), held.clear


@state()
def weak_method() -> Made:
    class Owner:
        rate = 2.0

        def ask(self) -> float:
            return self.rate

    owner = Owner()
    reference: Any = weakref.WeakMethod(owner.ask)
    return lambda x: x * reference()(), sets(owner, "rate", 4.0)


@state()
def length_of_a_weak_set() -> Made:
    held = [Thing(), Thing()]
    weak = weakref.WeakSet(held)
    return lambda x: x * len(weak), lambda: held.pop() and None


@state()
def attribute_named_in_a_text_from_elsewhere() -> Made:
    thing, texts = Thing(rate=2.0), ["{0." + "ra" + "te}"]
    return lambda x: x * float(texts[0].format(thing)), sets(thing, "rate", 8.0)


@state()
def attribute_named_for_a_formatter() -> Made:
    thing, texts = Thing(rate=2.0), ["{it." + "rate}"]
    return (
        lambda x: x * float(string.Formatter().vformat(texts[0], (), {"it": thing})),
        sets(thing, "rate", 8.0),
    )


# -- numpy -------------------------------------------------------------------------------------------------------


@state()
def array_becomes_read_only() -> Made:
    array = np.ones(2)
    return lambda x: x * (2 if array.flags.writeable else 3), lambda: array.setflags(write=False)


@state(must_hit=False)
def text_of_an_array() -> Made:
    np.set_printoptions(precision=8)
    array = np.array([1.23456789])
    return lambda x: x * len(str(array)), lambda: np.set_printoptions(precision=2)


@state()
def error_of_numpy_that_is_caught() -> Made:
    np.seterr(all="ignore")

    def f(x: Any) -> Any:
        try:
            return x * float(np.isinf(np.float64(1.0) / np.float64(0.0)))
        except FloatingPointError:
            return x * 7

    return f, lambda: np.seterr(divide="raise"), lambda: np.seterr(divide="ignore")


@state()
def view_of_numpy_through_its_base() -> Made:
    base = np.arange(6.0).reshape(2, 3)
    row = base[1]
    return lambda x: x * float(row.sum()), lambda: base.__setitem__((1, 0), 50.0)


@state()
def attribute_of_a_kind_of_array() -> Made:
    kind: Any = type("Kind", (np.ndarray,), {})
    array = np.ones(2).view(kind)
    array.rate = 2.0
    return lambda x: x * array.rate * float(array[0]), sets(array, "rate", 5.0), lambda: array.__setitem__(0, 3.0)


# -- Python's library --------------------------------------------------------------------------------------------


@state()
def environment_in_a_path() -> Made:
    os.environ["JIT_CASE_PART"] = "2"
    return (
        lambda x: x * float(os.path.expandvars("$JIT_CASE_PART")),
        lambda: os.environ.update(JIT_CASE_PART="5"),
    )


@state()
def name_among_the_builtins() -> Made:
    builtins.jit_case_rate = 2.0  # type: ignore[attr-defined]
    space = program("def f(x):\n    return x * jit_case_rate\n")
    return space.f, sets(builtins, "jit_case_rate", 4.0), sets(space, "jit_case_rate", 5.0)


_ROUND = builtins.round


@state()
def builtin_is_replaced() -> Made:
    builtins.round = _ROUND
    return lambda x: x * round(2.4), sets(builtins, "round", lambda number: 7), sets(builtins, "round", _ROUND)


@state()
def module_in_a_closure_is_patched() -> Made:
    import math as numbers

    before = 3.141592653589793
    numbers.pi = before  # type: ignore[misc]
    return lambda x: x * numbers.pi, sets(math, "pi", 3.0), sets(math, "pi", before)


@state()
def part_of_a_package_is_replaced() -> Made:
    package: Any = types.ModuleType("jit_case_package")
    part: Any = types.ModuleType("jit_case_package.part")
    package.part, part.scale = part, 2.0
    sys.modules.update({"jit_case_package": package, "jit_case_package.part": part})

    def f(x: Any) -> Any:
        import jit_case_package.part  # type: ignore[import-not-found]

        return x * jit_case_package.part.scale

    return f, sets(part, "scale", 3.0), sets(package, "part", Thing(scale=9.0))


@state(must_hit=False)
def date_of_a_number_of_seconds() -> Made:
    return lambda x: x * datetime.datetime.fromtimestamp(0).year, lambda: None


@state()
def warnings_become_errors() -> Made:
    warnings.simplefilter("ignore")

    def f(x: Any) -> Any:
        try:
            warnings.warn("odd", stacklevel=1)
        except UserWarning:
            return x * 3
        return x

    return f, lambda: warnings.simplefilter("error"), lambda: warnings.simplefilter("ignore")


@state()
def lock_is_taken_elsewhere() -> Made:
    lock, ring = threading.Lock(), threading.RLock()
    return (
        lambda x: x * (2 if lock.locked() else 1) + (4 if ring._is_owned() else 0),  # type: ignore[attr-defined]
        lambda: lock.acquire() and None, lambda: ring.acquire() and None, lock.release,
    )  # fmt: skip


@state()
def lock_that_may_not_be_had() -> Made:
    lock = threading.Lock()

    def f(x: Any) -> Any:
        if not lock.acquire(blocking=False):
            return x
        lock.release()
        return x * 2

    return f, lambda: lock.acquire() and None, lock.release


@state()
def barrier_is_broken() -> Made:
    barrier = threading.Barrier(2)
    return lambda x: x * (2 if barrier.broken else 1), barrier.abort


@state(must_hit=False)
def threads_are_counted() -> Made:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, daemon=True)
    before = threading.active_count()

    def stop() -> None:
        done.set()
        thread.join()

    return lambda x: x * (1 + threading.active_count() - before), thread.start, stop


@state()
def future_is_done() -> Made:
    future: Any = concurrent.futures.Future()
    return lambda x: x * (future.result() if future.done() else 1.0), lambda: future.set_result(3.0)


@state()
def name_of_the_process() -> Made:
    process = multiprocessing.current_process()
    process.name = "Main"
    return lambda x: x * len(multiprocessing.current_process().name), sets(process, "name", "Another")


@state()
def level_of_a_logger_found_by_its_name() -> Made:
    logger = logging.getLogger("jit.case.named")
    logger.setLevel(40)
    return (
        lambda x: x * (2 if logging.getLogger("jit.case.named").isEnabledFor(20) else 1),
        lambda: logger.setLevel(10),
    )


@state()
def attributes_of_a_logger() -> Made:
    logger: Any = logging.getLogger("jit.case.attributes")
    logger.rate, logger.propagate = 2.0, True
    return (
        lambda x: x * logger.rate + len(logger.handlers) + logger.propagate,
        sets(logger, "rate", 4.0), lambda: logger.addHandler(logging.NullHandler()), sets(logger, "propagate", False),
        logger.handlers.clear,
    )  # fmt: skip


@state()
def handler_of_a_log_has_a_level() -> Made:
    handler, adapter = logging.StreamHandler(), logging.LoggerAdapter(logging.getLogger("jit.case"), {"rate": 2.0})
    return (
        lambda x: x * adapter.extra["rate"] + handler.level,  # type: ignore[index]
        lambda: handler.setLevel(20), lambda: adapter.extra.update(rate=4.0),  # type: ignore[union-attr]
    )  # fmt: skip


@state(must_hit=False)
def dialects_of_csv() -> Made:
    csv.field_size_limit(131072)
    return lambda x: x * (csv.field_size_limit() // 1000), lambda: csv.field_size_limit(5000) and None


@state(must_hit=False)
def handler_of_what_cannot_be_encoded() -> Made:
    codecs.register_error("jit.case", lambda error: ("?", getattr(error, "end", 0)))
    return (
        lambda x: x * len("\u00e4b".encode("ascii", "jit.case")),
        lambda: codecs.register_error("jit.case", lambda error: ("???", getattr(error, "end", 0))),
    )


@state(must_hit=False)
def folder_of_temporary_files() -> Made:
    tempfile.tempdir = os.sep
    return lambda x: x * len(tempfile.gettempdir()), sets(tempfile, "tempdir", os.sep * 3)


@state()
def first_day_of_the_week() -> Made:
    calendar.setfirstweekday(0)
    return lambda x: x * (1 + calendar.firstweekday()), lambda: calendar.setfirstweekday(6)


@state()
def encoder_of_the_users() -> Made:
    class Encoder(json.JSONEncoder):
        text = "a"

        def default(self, thing: Any) -> str:
            return self.text

    return lambda x: x * len(json.dumps(Thing(), cls=Encoder)), sets(Encoder, "text", "much longer")


@state(must_hit=False)
def stand_in_of_a_test() -> Made:
    mock = unittest.mock.Mock(return_value=2.0)
    return lambda x: x * mock(), sets(mock, "return_value", 5.0)


@state()
def variable_in_a_context_of_its_own() -> Made:
    variable: Any = contextvars.ContextVar("jit_case", default=2.0)

    @contextlib.contextmanager
    def scaled(by: float) -> Any:
        token = variable.set(by)
        yield
        variable.reset(token)

    settings = {"by": 3.0}

    def f(x: Any) -> Any:
        with scaled(settings["by"]):
            return x * variable.get()

    return f, lambda: settings.update(by=5.0)


# -- what programs replace in this package -----------------------------------------------------------------------

_RELU, _LINEAR, _CALL = F.relu, F.linear, nn.Module.__call__
_SUM = jit.Tensor.sum


@state()
def activation_under_a_layer_is_replaced() -> Made:
    F.relu = _RELU
    net = nn.Sequential(nn.ReLU())
    return lambda x: net(x), sets(F, "relu", lambda x, inplace=False: x * 3), sets(F, "relu", _RELU)


@state()
def linear_under_a_layer_is_replaced() -> Made:
    F.linear = _LINEAR
    net = nn.Linear(2, 2)
    with jit.no_grad():
        net.weight.fill_(0.5), net.bias.fill_(1.0)
    return (
        lambda x: net(x).detach(),
        sets(F, "linear", lambda x, w, b=None: _LINEAR(x, w, b) * 3), sets(F, "linear", _LINEAR),
    )  # fmt: skip


@state()
def call_of_all_modules_is_replaced() -> Made:
    nn.Module.__call__ = _CALL  # type: ignore[method-assign]
    net = nn.Sequential(nn.Identity())
    return (
        lambda x: net(x), sets(nn.Module, "__call__", lambda self, *args: _CALL(self, *args) * 2),
        sets(nn.Module, "__call__", _CALL),
    )  # fmt: skip


@state()
def method_of_tensors_is_replaced() -> Made:
    jit.Tensor.sum = _SUM  # type: ignore[method-assign]
    return lambda x: x.sum(), sets(jit.Tensor, "sum", lambda self: _SUM(self) * 3), sets(jit.Tensor, "sum", _SUM)


@state(must_hit=False)
def method_of_tensors_is_new() -> Made:
    jit.Tensor.scaled = lambda self: self * 2  # type: ignore[attr-defined]
    return lambda x: x.scaled(), sets(jit.Tensor, "scaled", lambda self: self * 5)


@state()
def forward_of_all_layers_is_replaced() -> Made:
    before = nn.Tanh.forward
    net = nn.Sequential(nn.Tanh())
    return (
        lambda x: net(x), sets(nn.Tanh, "forward", lambda self, x: x * 3), sets(nn.Tanh, "forward", before),
    )  # fmt: skip


@case(must_hit=False)
def inference_mode_is_asked_for(t: Trial) -> None:
    f = t.trace(lambda x: x * (2 if jit.is_inference_mode_enabled() else 3))
    for mode in (jit.no_grad, jit.inference_mode, jit.no_grad, jit.inference_mode):
        with mode():
            t.see("result", f(vector(1.0, 2.0)).tolist())


# -- objects of the user's ---------------------------------------------------------------------------------------


@state()
def registry_by_a_decorator() -> Made:
    table: dict[str, Any] = {}

    def register(name: str) -> Any:
        return lambda function: table.setdefault(name, function)

    register("a")(lambda x: x * 2)

    def f(x: Any) -> Any:
        for name in sorted(table):
            x = table[name](x)
        return x

    return f, lambda: register("b")(lambda x: x + 1) and None, lambda: table.update(a=lambda x: x * 7)


@state()
def class_is_exchanged_and_runs_other_code() -> Made:
    class Double(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    class Triple(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 3

    net = nn.Sequential(Double())
    return lambda x: net(x), sets(net[0], "__class__", Triple), sets(net[0], "__class__", Double)


@state()
def settings_that_refer_to_one_another() -> Made:
    class Settings:
        def __init__(self, **entries: Any) -> None:
            vars(self)["entries"] = entries

        def __getattr__(self, name: str) -> Any:
            found = vars(self)["entries"][name]
            return getattr(root[0], found[1:]) if isinstance(found, str) and found.startswith("$") else found

        def __setattr__(self, name: str, value: Any) -> None:
            vars(self)["entries"][name] = value

    root: list[Any] = []
    root.append(Settings(rate=2.0, inner=Settings(scale="$rate")))
    return lambda x: x * root[0].inner.scale, sets(root[0], "rate", 4.0), sets(root[0].inner, "scale", 9.0)


@state()
def columns_of_a_frame() -> Made:
    class Frame:
        def __init__(self, **columns: Any) -> None:
            self._columns = {name: np.asarray(values, float) for name, values in columns.items()}

        def __getitem__(self, name: str) -> Any:
            return self._columns[name]

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return self._columns[name]

    frame = Frame(a=[1, 2], b=[3, 4])
    return (
        lambda x: x * float(frame["a"].sum()) + float(frame.b[1]) + len(frame._columns),
        lambda: frame._columns.update(c=np.ones(2)), lambda: frame["a"].__setitem__(0, 10.0),
    )  # fmt: skip


@state()
def object_in_front_of_another() -> Made:
    class Lazy:
        def __init__(self, make: Any) -> None:
            self._make = make

        def __getattr__(self, name: str) -> Any:
            return getattr(self._make(), name)

    held = [Thing(rate=2.0)]
    lazy = Lazy(lambda: held[0])
    return lambda x: x * lazy.rate, lambda: held.__setitem__(0, Thing(rate=5.0)), lambda: sets(held[0], "rate", 7.0)()


@state()
def one_state_for_all_instances() -> Made:
    class Shared:
        space: typing.ClassVar[dict[str, Any]] = {}

        def __init__(self) -> None:
            self.__dict__ = Shared.space

    one: Any = Shared()
    other: Any = Shared()
    one.rate = 2.0
    return lambda x: x * other.rate, sets(one, "rate", 6.0)


@state()
def frozen_object_changes() -> Made:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        rate: float = 2.0

    settings = Settings()
    return lambda x: x * settings.rate, lambda: object.__setattr__(settings, "rate", 5.0)


@state()
def value_of_a_member_changes() -> Made:
    class Kind(enum.Enum):
        A = 2.0
        B = 3.0

    return lambda x: x * sum(kind.value for kind in Kind), sets(Kind.A, "_value_", 7.0)


@state()
def queue_of_numbers_turns() -> Made:
    queue = collections.deque([1.0, 2.0, 3.0], maxlen=3)
    return lambda x: x * queue[0], queue.rotate, lambda: queue.append(9.0), queue.reverse


@state()
def expression_in_a_table() -> Made:
    steps = [("double", "x * 2")]
    return lambda x: [x := eval(text, {"x": x}) for _, text in steps][-1], lambda: steps.append(("add", "x + 1"))


@state()
def pattern_in_an_object() -> Made:
    thing = Thing(pattern=re.compile(r"\d+"))
    return lambda x: x * len(thing.pattern.findall("1 22 a")), sets(thing, "pattern", re.compile("[a-z]"))


class Callback(abc.ABC):
    """What is called after a layer."""

    @abc.abstractmethod
    def after(self, x: Any) -> Any: ...


@state()
def callbacks_of_a_module() -> Made:
    class Scale(Callback):
        def __init__(self, by: float) -> None:
            self.by = by

        def after(self, x: Any) -> Any:
            return x * self.by

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.callbacks: list[Callback] = []

        def forward(self, x: Any) -> Any:
            for callback in self.callbacks:
                x = callback.after(x)
            return x

    net, scale = Net(), Scale(2.0)
    return (
        lambda x: net(x), lambda: net.callbacks.append(scale), sets(scale, "by", 5.0), net.callbacks.clear,
    )  # fmt: skip


# -- what must be kept -------------------------------------------------------------------------------------------


@state()
def limits_of_a_dtype() -> Made:
    def f(x: Any) -> Any:
        mask = (1.0 - (x > 1).to(x.dtype)) * jit.finfo(x.dtype).min
        return (x + mask).softmax(0) * np.finfo(np.float32).eps

    return f, lambda: None


class Pretrained(nn.Module):
    """A base class as model libraries have them, with much to it that does not matter."""

    made = 0
    registry: typing.ClassVar[dict[str, Any]] = {}
    lock = threading.Lock()

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        Pretrained.registry[cls.__name__] = cls

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        Pretrained.made += 1

    @property
    def dtype(self) -> Any:
        return next(self.parameters()).dtype

    def mask(self, mask: Any, size: int) -> Any:
        mask = jit.ones(1, size) if mask is None else mask
        return (1.0 - mask[:, None, :].to(self.dtype)) * jit.finfo(self.dtype).min


class Attending(Pretrained):
    """One layer of attention."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.words = nn.Embedding(7, config.width)
        self.q, self.k, self.v = (nn.Linear(config.width, config.width) for _ in range(3))

    def forward(self, words: Any, mask: Any = None, states: bool | None = None) -> Any:
        states = self.config.states if states is None else states
        x = self.words(words)
        scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(self.config.width)
        y = (scores + self.mask(mask, words.shape[1])).softmax(-1) @ self.v(x)
        return {"last": y, "states": (x,)} if states else (y,)


@case()
def model_of_a_library(t: Trial) -> None:
    jit.manual_seed(3)
    config = types.SimpleNamespace(width=4, states=True)
    model = Attending(config)
    f = t.trace(model)
    for states in (True, True, False, False, True):
        config.states = states
        Pretrained.made += 1
        t.call(f, jit.tensor([[1, 2, 3]]))


@state()
def lock_and_logger_beside() -> Made:
    lock, log = threading.RLock(), logging.getLogger("jit.case.beside")

    def f(x: Any) -> Any:
        log.debug("sizes %s", x.shape)
        if x.shape[0] > 100:
            warnings.warn("long", stacklevel=1)
        with lock:
            return x * (2 if type(x).__name__ else 3)

    return f, lambda: None


@state()
def dataclass_made_inside_and_replaced() -> Made:
    @dataclasses.dataclass
    class State:
        x: Any
        steps: int = 0

    def f(x: Any) -> Any:
        found = State(x)
        for _ in range(2):
            found = dataclasses.replace(found, x=found.x * 2, steps=found.steps + 1)
        return found.x + found.steps

    return f, lambda: None
