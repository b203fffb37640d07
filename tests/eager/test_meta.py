"""`device="meta"`: tensors without elements, and operators on them, which give sizes and dtypes and compute nothing."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.eager.tensors import tensor_of
from jit.ir.errors import NoElementsError
from jit.ir.op import REGISTRY, Op
from tests.registry_cases import Case, all_cases, differentiable, tensors_in

HUGE = 10**12
MEASURING = frozenset(
    (
        "_pack_padded_sequence", "_pack_padded_sequence_backward", "_pad_packed_sequence", "_unique2", "bincount",
        "index", "index_put", "linalg_lstsq", "masked_scatter", "masked_select", "nonzero", "nonzero_static", "one_hot",
        "repeat_interleave", "unique_consecutive", "unique_dim",
    )
)  # fmt: skip
"""Operators of whose results, or gradients, some sizes depend on elements."""


def empty(*sizes: int, **options: Any) -> Any:
    return jit.empty(sizes, device="meta", **options)


def without_elements(array: np.ndarray) -> jit.Tensor:
    """A tensor on "meta" with the sizes and strides of an array."""
    from jit.runtime.arrays.meta import LIBRARY

    return tensor_of(LIBRARY.taken(array))


# -- every operator ------------------------------------------------------------------------------------------------


def facts(tensor: jit.Tensor) -> tuple[Any, ...]:
    """The dtype, the sizes and the strides, as far as these matter."""
    strides = [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    return tensor.dtype, tuple(tensor.shape), strides if tensor.numel() else []


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_results(op: Op) -> None:
    for case in all_cases(op):
        args, kwargs = case.arguments()
        wanted = list(map(facts, case.call(*args, **kwargs)))
        args, kwargs = case.arguments(without_elements)
        if not list(tensors_in([args, kwargs])):
            kwargs["device"] = "meta"
        try:
            found = case.call(*args, **kwargs)
        except NoElementsError:
            assert op.schema.name in MEASURING, case
            continue
        assert all(tensor.is_meta for tensor in found), case
        assert list(map(facts, found)) == wanted, case


def gradients(case: Case, convert: Callable[[Any], Any]) -> Any:
    """The dtype and the sizes of each gradient of a case; None if it has none."""
    args, kwargs = case.arguments(convert)
    leaves = [leaf.requires_grad_() for leaf in differentiable(case.op, args, kwargs)]
    outputs = [output for output in case.call(*args, **kwargs) if output.requires_grad]
    if not outputs:
        return None
    found = jit.autograd.grad(outputs, leaves, [jit.ones_like(output) for output in outputs], allow_unused=True)
    return [None if each is None else (each.dtype, tuple(each.shape), str(each.device)) for each in found]


@pytest.mark.parametrize("op", [op for op in REGISTRY.values() if op.kind != "random"], ids=lambda op: op.name)
def test_gradients(op: Op) -> None:
    for case in all_cases(op):
        try:
            wanted = gradients(case, jit.from_numpy)
        except jit.Error:  # such as a matrix without an inverse
            continue
        try:
            found = gradients(case, without_elements)
        except NoElementsError:
            assert op.schema.name in MEASURING, case
            continue
        on_meta = wanted and [None if each is None else (*each[:2], "meta") for each in wanted]
        assert found == on_meta, case


# -- what they are -------------------------------------------------------------------------------------------------


WAYS: dict[str, Callable[[], Any]] = {
    "empty": lambda: empty(2, 3),
    "device": lambda: jit.zeros(2, 3, device=jit.device("meta")),
    "number": lambda: jit.ones(2, 3, device="meta:0"),
    "to": lambda: jit.ones(2, 3).to("meta"),
    "to another tensor": lambda: jit.ones(2, 3).to(empty(0)),
    "tensor": lambda: jit.tensor([[1.0, 2.0, 3.0]] * 2, device="meta"),
    "as_tensor": lambda: jit.as_tensor(np.ones((2, 3), np.float32), device="meta"),
    "asarray": lambda: jit.asarray(np.ones((2, 3), np.float32), device="meta"),
    "like": lambda: jit.rand_like(jit.ones(2, 3), device="meta"),
    "new": lambda: empty(1).new_full((2, 3), 1.0),
    "random": lambda: jit.randn(2, 3, device="meta"),
    "pickle": lambda: pickle.loads(pickle.dumps(empty(2, 3))),
    "copy": lambda: copy.copy(empty(2, 3)),
    "deepcopy": lambda: copy.deepcopy(empty(2, 3)),
    "view": lambda: empty(12)[3:9].view(2, 3),
    "row": lambda: next(iter(empty(1, 2, 3))),
    "file": lambda: loaded(empty(2, 3)),
    "map_location": lambda: loaded(jit.ones(2, 3), map_location="meta"),
}


def loaded(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    jit.save(value, file)
    file.seek(0)
    return jit.load(file, **options)


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_make_one(way: str) -> None:
    made = WAYS[way]()
    assert made.is_meta and not made.is_cpu and not made.is_cuda
    assert made.device == jit.device("meta") and made.device.index is None
    assert (tuple(made.shape), made.dtype, made.stride()) == ((2, 3), jit.float32, (3, 1))


def test_block_and_default() -> None:
    with jit.device("meta"):
        made = [jit.ones(2), jit.tensor(1), nn.Linear(2, 2).weight, jit.rand(2), jit.arange(3) + 1]
        assert jit.zeros(2, device="cpu").is_cpu and jit.Generator().device == jit.device("cpu")
    assert all(each.is_meta for each in made) and jit.ones(2).is_cpu
    jit.set_default_device("meta")
    try:
        assert jit.ones(2).is_meta and nn.BatchNorm1d(2).running_mean.is_meta
    finally:
        jit.set_default_device(None)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: empty(2, 3), "tensor(..., device='meta', size=(2, 3))"),
        (lambda: empty(0), "tensor(..., device='meta', size=(0,))"),
        (lambda: empty(dtype=jit.int64), "tensor(..., device='meta', size=(), dtype=jit.int64)"),
        (lambda: empty(2, requires_grad=True), "tensor(..., device='meta', size=(2,), requires_grad=True)"),
        (
            lambda: empty(2, requires_grad=True) * 2,
            "tensor(..., device='meta', size=(2,), grad_fn=<MulBackward0>)",
        ),
    ],
)
def test_text(made: Callable[[], Any], text: str) -> None:
    assert repr(made()) == str(made()) == text


@pytest.mark.parametrize(
    "program",
    [
        lambda: empty(HUGE) + 1,
        lambda: jit.rand(HUGE, device="meta").reshape(10, -1).T.sum(0),
        lambda: nn.Linear(10**6, 10**6, device="meta")(empty(3, 10**6)),
        lambda: nn.Embedding(10**9, 1000, device="meta")(empty(2, 5, dtype=jit.int64)),
        lambda: nn.init.trunc_normal_(empty(10**6, 10**6)),
        lambda: empty(HUGE).to(jit.float64).clone().contiguous(),
        lambda: empty(1).expand(HUGE).contiguous(),
        lambda: jit.eye(10**6, device="meta"),
        lambda: jit.full((HUGE,), 2.5, device="meta"),
        lambda: jit.arange(HUGE, device="meta"),
        lambda: jit.randperm(HUGE, device="meta"),
    ],
)
def test_nothing_is_allocated(program: Callable[[], Any]) -> None:
    assert program().is_meta


def test_sizes_beyond_any_memory_are_refused() -> None:
    with pytest.raises(jit.ShapeError, match="larger than any memory"):
        empty(2**62, 4)


# -- what they have not --------------------------------------------------------------------------------------------


READERS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "if": lambda x: 1 if x > 0 else 2,
    "in": lambda x: 1.0 in x,
    "equal": lambda x: jit.equal(x, x),
    "allclose": lambda x: jit.allclose(x, x),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu", jit.float64),
    "copy_": lambda x: jit.zeros(()).copy_(x),
    "numpy, forced": lambda x: x.numpy(force=True),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: jit.unique(x),
    "masked_select": lambda x: x.masked_select(x > 0),
    "DLPack": lambda x: jit.from_dlpack(x),
    "number of a list": lambda x: jit.tensor([x, x]),
    "out": lambda x: jit.add(x, 1, out=jit.zeros(())),
    "module": lambda x: nn.Linear(2, 2, device="meta").to("cpu"),
    "safetensors": lambda x: jit.save({"x": x}, "x.safetensors"),
    "index": lambda x: [1, 2][x.long()],
    "traced": lambda x: jit.trace(lambda y: y + y.item())(x),
}


@pytest.mark.parametrize("reader", READERS)
def test_elements_are_refused(reader: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotImplementedError, match="'meta'") as raised:
        READERS[reader](empty())
    assert isinstance(raised.value, jit.Error)


def test_numpy() -> None:
    for read in (lambda: empty(2).numpy(), lambda: np.asarray(empty(2))):
        with pytest.raises(TypeError, match="it has no elements"):
            read()


@pytest.mark.parametrize(
    "mix",
    [
        lambda: empty(2) + jit.ones(2),
        lambda: jit.ones(2, 2) @ empty(2, 2),
        lambda: jit.cat([empty(2), jit.ones(2)]),
        lambda: nn.Linear(2, 2)(empty(1, 2)),
        lambda: nn.Linear(2, 2, device="meta")(jit.ones(1, 2)),
        lambda: jit.ones(2).add_(empty(2)),
        lambda: empty(2).add_(jit.ones(2)),
        lambda: jit.where(empty(2) > 0, jit.ones(2), jit.ones(2)),
    ],
)
def test_mixing_names_both_devices(mix: Callable[[], Any]) -> None:
    with pytest.raises(jit.UsageError, match=r"'cpu'.*'meta'|'meta'.*'cpu'"):
        mix()


def test_numbers_and_indices_of_the_cpu_may_be_mixed_in() -> None:
    x = empty(4, 3)
    assert (x * jit.tensor(2.0)).is_meta and tuple(x[jit.tensor([0, 2])].shape) == (2, 3)


# -- in place ------------------------------------------------------------------------------------------------------


def test_writes() -> None:
    x = empty(4, 3)
    version = x._version
    x.add_(1)
    x.zero_()
    x.copy_(jit.ones(3))
    x[0] = 2.0
    x[x > 0] = 1.0
    x.normal_().clamp_(0, 1)
    x.T.mul_(2)
    assert x._version > version and x.is_meta
    with pytest.raises(jit.ShapeError):
        x.add_(empty(5, 4, 3))
    with pytest.raises(jit.ShapeError, match="clone"):
        empty(1).expand(4).add_(1)
    with pytest.raises(jit.AutogradError, match="leaf"):
        empty(1, requires_grad=True).add_(1)


def test_memory() -> None:
    x, y = empty(4, 6), empty(4, 6)
    assert x.data_ptr() != y.data_ptr() and x[1:].data_ptr() == x.data_ptr() + 24
    assert (x[2:, 1:].storage_offset(), x.untyped_storage().nbytes(), x.T.is_contiguous()) == (13, 96, False)
    assert x.as_strided((2,), (3,), 5).storage_offset() == 5
    with pytest.raises(jit.ShapeError, match="stay inside"):
        x.as_strided((30,), (1,))
    assert tuple(x.resize_(5, 7).shape) == (5, 7)
    first, second = copy.deepcopy([x, x])
    assert first is second


def test_draws_leave_the_generator_alone() -> None:
    jit.manual_seed(3)
    wanted = jit.rand(1)
    jit.manual_seed(3)
    jit.rand(5, device="meta")
    empty(3).uniform_()
    nn.Dropout()(empty(3))
    assert jit.rand(1).tolist() == wanted.tolist()


# -- modules -------------------------------------------------------------------------------------------------------


def model() -> Any:
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.GELU(), nn.Linear(8, 2))


def test_a_module_is_made_without_memory_and_then_loaded() -> None:
    net = model()
    with jit.device("meta"):
        hollow = model()
    assert all(each.is_meta for each in hollow.state_dict().values())
    with pytest.warns(UserWarning, match="keeps nothing"):
        hollow.load_state_dict(net.state_dict())
    hollow.load_state_dict(net.state_dict(), assign=True)
    assert isinstance(hollow[0].weight, nn.Parameter)
    x = jit.randn(4, 3)
    assert hollow.eval()(x).tolist() == net.eval()(x).tolist()


def test_to_empty() -> None:
    net = model().to("meta")
    assert net[0].weight.is_meta and net[1].running_mean.is_meta
    net.to_empty(device="cpu")
    assert all(each.is_cpu for each in net.state_dict().values()) and net[0].weight.requires_grad
    for layer in (net[0], net[4]):
        layer.reset_parameters()
    assert net[0].weight.abs().sum() > 0


def test_training() -> None:
    net = model().to("meta")
    step = jit.optim.AdamW(net.parameters())
    for _ in range(2):
        step.zero_grad()
        nn.functional.cross_entropy(net(empty(4, 3)), empty(4, dtype=jit.int64)).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        step.step()
    weight = net[0].weight
    assert weight.grad.is_meta and tuple(weight.grad.shape) == (8, 3) and step.state[weight]["exp_avg"].is_meta


INITIALIZERS = [name for name in dir(nn.init) if name.endswith("_") and not name.startswith("_")]


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers(name: str) -> None:
    options = {"constant_": (1.0,), "sparse_": (0.5,)}.get(name, ())
    sizes = (4, 4, 3) if name == "dirac_" else (4, 4)
    assert getattr(nn.init, name)(empty(*sizes), *options).is_meta


def test_files_of_modules() -> None:
    state = {"net": model().to("meta").state_dict(), "step": 3, "weight": nn.Parameter(empty(2, 3).T)}
    found = loaded(state)
    assert found["net"]["0.weight"].is_meta and found["step"] == 3
    weight = found["weight"]
    assert isinstance(weight, nn.Parameter) and weight.requires_grad and weight.stride() == (1, 3)


# -- recordings ----------------------------------------------------------------------------------------------------


def test_traced() -> None:
    net = model().to("meta")
    traced = jit.trace(net)
    for rows in (4, 4, 4, 5, 6):
        loss = traced(empty(rows, 3)).pow(2).mean()
        loss.backward()
        assert loss.is_meta and net[0].weight.grad.is_meta
    assert traced.hits >= 3


def test_traced_writes() -> None:
    @jit.trace
    def f(x: Any) -> Any:
        x.add_(1)
        x[0] = 3
        y = x.clone()
        y[x > 0] = 0
        return y.sum(1), jit.zeros_like(x, device="cpu") + 1

    for _ in range(3):
        x = empty(4, 3)
        sums, ones = f(x)
        assert sums.is_meta and tuple(sums.shape) == (4,) and ones.tolist() == [[1.0] * 3] * 4
    assert f.hits == 2


def test_the_cpu_computes_as_before() -> None:
    """Arrays of several devices are known from now on, and those of the CPU still take their own way."""
    empty(1)
    x = jit.arange(6.0).reshape(2, 3).requires_grad_()
    (x @ x.T).sum().backward()
    assert x.grad.tolist() == [[6.0, 10.0, 14.0], [6.0, 10.0, 14.0]]
    assert jit.cat([x, jit.zeros(1, 3)]).shape == (3, 3) and jit.rand(2).is_cpu
