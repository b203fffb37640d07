"""Arguments and surroundings that nobody expects: one clear error or the right result, and never an error of ours."""

import contextlib
import dataclasses
import inspect
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.eager.pytree import DEEPEST, NestingError, ObjectError


@dataclasses.dataclass
class Pair:
    left: object
    right: object = None


def nested(depth, wrap):
    x = jit.ones(2)
    for _ in range(depth):
        x = wrap(x)
    return x


WRAPS = {
    "list": lambda x: [x], "tuple": lambda x: (x,), "dict": lambda x: {"k": x}, "dataclass": Pair,
    "slice": lambda x: slice(x, None), "number": lambda x: [1, x],
}  # fmt: skip


def cycle(kind: str) -> Any:
    made: Any
    if kind == "list":
        made = [jit.ones(1)]
        made.append(made)
    elif kind == "dict":
        made = {"a": jit.ones(1)}
        made["b"] = [made]
    else:
        made = Pair(jit.ones(1))
        made.right = (made,)
    return made


USES = {
    "traced": lambda thing: jit.trace(lambda x: jit.ones(1))(thing),
    "result": lambda thing: jit.trace(lambda x: thing)(jit.ones(1)),
    "exported": lambda thing: jit.export_onnx(lambda x: jit.ones(1), (thing,)),
    "verified": lambda thing: jit.verify(lambda x: jit.ones(1), (thing,)),
    "examples": lambda thing: jit.trace(lambda x: jit.ones(1), example_inputs=(thing,)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 20_000])
@pytest.mark.parametrize("kind", WRAPS)
def test_what_is_nested_too_deep_is_one_clear_error(kind, depth, use):
    thing = nested(depth, WRAPS[kind])
    with pytest.raises(NestingError, match="deep, or contain themselves"):
        USES[use](thing)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["list", "dict", "dataclass"])
def test_what_contains_itself_is_one_clear_error(kind, use):
    with pytest.raises(NestingError, match="deep, or contain themselves"):
        USES[use](cycle(kind))


@pytest.mark.parametrize("kind", WRAPS)
def test_what_is_nested_less_deep_is_fine(kind):
    thing = nested(DEEPEST - 1, WRAPS[kind])
    f = jit.trace(lambda x: jit.ones(1) * 2)
    assert f(thing).item() == f(thing).item() == 2 and f.hits == 1


def test_a_program_that_is_deep_in_a_recursion_gets_the_same_error():
    def down(n):
        return jit.trace(lambda x: jit.ones(1))(nested(90, WRAPS["list"])) if n == 0 else down(n - 1)

    used = len(inspect.stack())
    for left in range(20, 400, 40):
        with contextlib.suppress(NestingError, RecursionError):  # the limit may also be met in the function itself
            assert down(sys.getrecursionlimit() - used - left).item() == 1


# -- objects whose own methods fail --------------------------------------------------------------------------------


def failing(error):
    def fail(*_):
        raise error("mine")

    class Attributes:
        __getattr__ = fail

    class Slotted:
        __slots__ = ("late",)
        __getattr__ = fail

    class All:
        __getattribute__ = fail

    class Dictionary:
        __dict__ = property(fail)

    class Equal:
        __eq__ = fail
        __hash__ = object.__hash__

    class Hash:
        __hash__ = fail

    class Text:
        __repr__ = fail

    class Length(list):
        __len__ = fail

    class Items(dict):
        __iter__ = fail

    class Elements(set):
        __iter__ = fail

    class Truth:
        __bool__ = fail

    class Kind:
        __class__ = property(fail)

    kinds = (Attributes, Slotted, All, Dictionary, Equal, Hash, Text, Length, Items, Elements, Truth, Kind)
    return {kind.__name__: kind for kind in kinds}


@pytest.mark.parametrize("error", [KeyError, RuntimeError, ValueError, TypeError, AttributeError])
@pytest.mark.parametrize("kind", failing(KeyError))
def test_objects_whose_methods_fail_are_no_error_of_ours(kind, error):
    make = failing(error)[kind]
    thing = make()
    f = jit.trace(lambda a, x: x + 1)
    uses = [
        lambda: [f(a, jit.ones(1)).item() for a in (thing, make(), thing)],
        lambda: f([thing], jit.ones(1)).item(),
        lambda: f(Pair(thing), jit.ones(1)).item(),
        lambda: jit.trace(lambda x: (thing, x + 1)[1])(jit.ones(1)).item(),
        lambda: jit.export_onnx(lambda x: (thing, x + 1)[1], jit.ones(1)).node_count,
        lambda: jit.verify(lambda x: (thing, x + 1)[1], (jit.ones(1),)),
        lambda: jit.trace(lambda a, x: x + 1, example_inputs=(thing, jit.ones(1))).misses,
    ]
    with contextlib.suppress(TypeError, error):  # what cannot be a key
        keyed = {thing: 1}
        uses.append(lambda: f(keyed, jit.ones(1)).item())
    for use in uses:
        try:
            assert use() in ([2.0] * 3, 2.0, 1, None)
        except jit.Error as found:  # what cannot be looked at, is said so
            assert isinstance(found, (ObjectError, jit.UsageError, jit.VerificationError)), found


@pytest.mark.parametrize("kind", failing(RuntimeError))
def test_a_result_whose_methods_fail_is_refused(kind):
    make = failing(RuntimeError)[kind]
    with pytest.raises(jit.Error, match=r"cannot be looked at|of type|not hashable"):
        jit.trace(lambda x: (x + 1, make()))(jit.ones(1))


def test_attributes_that_fail_do_not_keep_a_function_from_being_traced():
    for thing in (failing(KeyError)["Attributes"](), failing(RuntimeError)["Slotted"]()):
        f = jit.trace(lambda x, thing=thing: (thing, x + 1)[1])
        assert f(jit.ones(1)).item() == f(jit.ones(1)).item() == 2 and f.hits == 1


# -- paths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["a\0b", "\ud800", b"a\0b", 3, None, 1.5, "", "."], ids=repr)
def test_what_is_no_path_is_an_error_of_ours(path):
    with pytest.raises(jit.Error):
        jit.load(path)
    if isinstance(path, str):
        f = jit.trace(lambda x: x + 1)
        f(jit.ones(1))
        with pytest.raises(jit.Error):
            f.save(path)


# -- constants and the cache ---------------------------------------------------------------------------------------

KEPT = """
import jit
for name in ("bfloat16", "float16", "float32", "float64", "complex64", "complex128", "int8", "uint8", "int16", "int64",
             "bool"):
    dtype = getattr(jit, name)
    for shape in ((3,), (), (0,), (2, 3), (1,)):
        constant = jit.ones(shape).to(dtype)
        f = jit.trace(lambda x: (x.to(dtype) + constant.clone(), jit.tensor([1, 0, 1]).to(dtype) * 1, x * 2))
        for _ in range(3):
            a, b, c = f(jit.ones(shape))
            assert a.dtype is dtype and a.shape == jit.ones(shape).shape, (name, shape)
            assert b.to(jit.float32).tolist() == [1, 0, 1], (name, shape, b)
print("done")
"""


def test_constants_of_every_dtype_survive_the_cache(tmp_path):
    env = {**os.environ, "JIT_CACHE": str(tmp_path / "cache")}
    for _ in range(2):  # the second process runs what the first one has kept
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", KEPT], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path / "cache")


# -- tensors that are left out -------------------------------------------------------------------------------------

W, B = jit.rand(4, requires_grad=True), jit.rand(4, requires_grad=True)
L, C = jit.rand(5, 4, requires_grad=True), jit.rand(5, 4, 2, requires_grad=True)
E = jit.rand(5, requires_grad=True)
OPTIONAL = {
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (4, 3), (W, B)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (4,), (W, B)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (4, 3), (W, B)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (4, 3), (W, B)),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, (4,), w), (4,), (W, None)),
    "linear": (lambda x, w, b: F.linear(x, w, b), (4,), (L, E)),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b), (4, 3), (C, E)),
}
ALWAYS = ("linear", "conv1d")


@pytest.mark.parametrize("by_x", [True, False])
@pytest.mark.parametrize("mask", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("name", OPTIONAL)
def test_gradients_without_optional_tensors_at_many_sizes(name, mask, by_x):
    function, sizes, tensors = OPTIONAL[name]
    weight, bias = (t if m or (i == 0 and name in ALWAYS) else None for i, (t, m) in enumerate(zip(tensors, mask)))
    given = [t for t in (weight, bias) if t is not None]
    by_x = by_x or not given  # something has to
    f = jit.trace(lambda x: function(x, weight, bias))
    for count in (2, 3, 4, 5, 7):
        found = []
        for each in (f, lambda x: function(x, weight, bias)):
            x = jit.linspace(-1, 2, count * int(np.prod(sizes))).reshape(count, *sizes).clone().requires_grad_(by_x)
            for tensor in given:
                tensor.grad = None
            each(x).sin().sum().backward()
            found.append([None if t.grad is None else t.grad.numpy().copy() for t in (x, *given)])
        for a, b in zip(*found, strict=True):
            assert (a is None) == (b is None) and (a is None or np.allclose(a, b, atol=1e-4))


@pytest.mark.parametrize(
    "body",
    ["jit.ones(2) + jit.ones(3)", "jit.trace(lambda x: x + jit.ones(3))(jit.ones(2))", "jit.load('no such file')"],
)
def test_an_error_that_nobody_catches_shows_its_text(body):
    """The interpreter asks for the text when no Python code runs any more."""
    done = subprocess.run([sys.executable, "-c", f"import jit\n{body}"], capture_output=True, text=True)
    assert done.returncode == 1 and "str() failed" not in done.stderr
    assert "broadcast" in done.stderr or "no such file" in done.stderr


# -- arguments of another kind -------------------------------------------------------------------------------------

SCHEDULES, AVERAGES, UTILS = jit.optim.lr_scheduler, jit.optim.swa_utils, jit.nn.utils
TAKERS: list[Any] = [
    jit.numel, jit.is_signed, jit.is_complex, jit.is_floating_point, jit.is_nonzero, jit.detach_, jit.where,
    jit.gradient, jit.svd_lowrank, jit.pca_lowrank, jit.abs_, jit.celu_, jit.clamp_, jit.nan_to_num_, jit.round_,
    jit.set_rng_state, jit.checkpoint, F.softmax, F.log_softmax, F.dropout2d, F.pdist, F.relu_,
    jit.nn.init.ones_, jit.nn.init.eye_, jit.nn.init.normal_, jit.nn.init.uniform_, jit.nn.init.trunc_normal_,
    jit.nn.init.kaiming_normal_, jit.nn.init.xavier_uniform_, jit.nn.init.orthogonal_, jit.nn.init.dirac_,
    UTILS.weight_norm, UTILS.spectral_norm,
    UTILS.remove_weight_norm, UTILS.parametrizations.orthogonal, UTILS.parametrize.is_parametrized,
    UTILS.rnn.pad_packed_sequence, UTILS.rnn.pack_sequence, UTILS.rnn.pad_sequence, SCHEDULES.ChainedScheduler,
    AVERAGES.get_ema_avg_fn, jit.nn.Dropout, jit.signal.windows.hann,
]  # fmt: skip


@pytest.mark.parametrize(
    "value", [None, "text", {"k": 1}, object(), [None], jit.float32, b"ab"], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("taker", TAKERS, ids=lambda taker: taker.__name__)
def test_an_argument_of_another_kind_is_told_at_the_door(taker, value):
    with pytest.raises(jit.Error) as caught:
        taker(value)
    assert isinstance(caught.value, (TypeError, ValueError)) and len(str(caught.value)) > 10


def test_a_state_that_is_none_leaves_the_generator_alone():
    jit.manual_seed(3)
    before = jit.get_rng_state()
    with pytest.raises(jit.UsageError, match="get_state"):
        jit.set_rng_state(5)  # type: ignore[arg-type]
    assert jit.get_rng_state() == before


def test_masks_of_attention_are_no_whole_numbers():
    q = jit.ones(1, 3, 4)
    with pytest.raises(jit.DTypeError, match="bool or floating, got int64"):
        F.scaled_dot_product_attention(q, q, q, jit.ones(3, 3, dtype=jit.int64))


@pytest.mark.parametrize("value", [3, "text", [1.0], np.ones(2)], ids=repr)
def test_a_gradient_is_a_tensor_or_none(value):
    x: Any = jit.ones(2, requires_grad=True)
    with pytest.raises(jit.UsageError, match="a gradient is a tensor or None"):
        x.grad = value
    assert x.grad is None
