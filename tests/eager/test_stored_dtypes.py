"""Element types that tensors are kept in: casts, moves, files and exchange, in eager mode, traces and models."""

from __future__ import annotations

import numpy as np
import pytest

import jit
from jit.ir import dtypes

STORED = dtypes.STORED
VALUES = [0.25, 1.0, 2.0, 4.5, 100.0, 0.3]
FLOATS = [dtype for dtype in STORED if dtype.is_floating_point]


def made(dtype, values=VALUES):
    return jit.tensor(values).to(dtype)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_casts_are_those_of_numpy(dtype):
    for source in (jit.float32, jit.float64, jit.float16, jit.bfloat16, jit.int32, jit.uint8, jit.bool):
        if dtype is jit.float8_e8m0fnu and not source.is_floating_point:
            continue  # it has no zero, and what NaN is as an integer nobody says
        x = jit.tensor(VALUES).to(source)
        array = x.numpy()
        narrow = array.astype(np.float32) if source in (jit.float16, jit.bfloat16) else array
        assert np.array_equal(x.to(dtype).numpy().view(np.uint8), narrow.astype(dtype.numpy).view(np.uint8))
        assert jit.equal(x.to(dtype).to(source), jit.from_numpy(narrow.astype(dtype.numpy).astype(array.dtype)))


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_tensors_are_made_moved_and_shown(dtype):
    x = made(dtype)
    assert jit.zeros(2, dtype=jit.uint16).dtype is jit.uint16
    for other in (
        x.clone(),
        jit.empty_like(x).copy_(x),
        x.view(2, 3).t().contiguous().t().reshape(-1),
        x.flip(0).flip(0),
    ):
        assert other.dtype is dtype and jit.equal(other, x)
    assert jit.equal(jit.cat([x[:2], x[2:]]), x) and jit.equal(jit.stack([x, x])[1], x)
    assert jit.equal(x[jit.tensor([1, 3])].float(), x.float()[jit.tensor([1, 3])])
    assert type(x[1].item()) in (int, float) and x[1].item() == 1 and x.tolist()[2] == 2
    assert x.element_size() == dtype.itemsize and x.is_signed() is dtype.is_signed
    assert repr(x).endswith(f"dtype=jit.{dtype.name})")
    assert jit.equal(jit.from_numpy(x.numpy()), x) and jit.equal(jit.from_dlpack(x), x)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_they_meet_no_other_type_of_their_category(dtype):
    other = jit.ones(6) if dtype.is_floating_point else jit.ones(6, dtype=jit.int64)
    with pytest.raises(jit.DTypeError, match="have no common type; cast"):
        made(dtype) + other


TRACED = {
    "there and back": lambda x, dtype: x.to(dtype).to(jit.float32) * 2,
    "a result": lambda x, dtype: (x + 1).to(dtype),
    "moved": lambda x, dtype: jit.cat([x.to(dtype), x.to(dtype)]).view(2, -1).t().contiguous(),
    "filled": lambda x, dtype: (jit.full((3,), 2, dtype=dtype), x.sin()),
    "computed": lambda x, dtype: (x.to(dtype) * 2).to(jit.float32).sin(),
    "chosen": lambda x, dtype: jit.where(x > 1, x.to(dtype), jit.zeros(6).to(dtype)).float(),
    "summed": lambda x, dtype: x.to(dtype).float().sum() + x.sum(),
    "picked": lambda x, dtype: x.to(dtype)[jit.tensor([2, 0])].float().exp(),
    "item": lambda x, dtype: x.to(dtype)[1].item() * x,
}


@pytest.mark.parametrize("name", TRACED)
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_traces_do_what_eager_mode_does(dtype, name):
    function = TRACED[name]
    traced = jit.trace(lambda x: function(x, dtype))
    for _ in range(4):
        x = jit.tensor(VALUES)
        found, expected = traced(x), function(x, dtype)
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
            assert a.dtype is b.dtype
            assert np.allclose(a.float().numpy(), b.float().numpy(), rtol=1e-6, atol=0, equal_nan=True)
    assert traced.hits >= 2
    assert jit.ir.parse(str(traced.graph)) is not None


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_pass_casts(dtype):
    x = jit.tensor(VALUES, requires_grad=True)
    (x.to(dtype).float() ** 2).sum().backward()
    assert jit.equal(x.grad, (2 * made(dtype).float()).to(dtype).float())


@pytest.mark.parametrize("data", [2**64, [2**64], [[0, 2**70]]], ids=str)
@pytest.mark.parametrize("dtype", [jit.int64, jit.uint8, jit.uint64], ids=str)
def test_numbers_that_no_integer_holds_are_refused(data, dtype):
    with pytest.raises(jit.UsageError, match=f"does not fit into {dtype.name}"):
        jit.tensor(data, dtype=dtype)


FNUZ = [jit.float8_e4m3fnuz, jit.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", FNUZ, ids=str)
def test_files_of_safetensors_have_no_such_type(dtype, tmp_path):
    with pytest.raises(jit.UsageError, match=f"not jit.{dtype.name}.*save all this as a .pt file"):
        jit.save({"x": made(dtype)}, tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


WRITTEN = [
    (dtype, ending) for dtype in STORED for ending in (".pt", ".safetensors") if dtype not in FNUZ or ending == ".pt"
]


@pytest.mark.parametrize(("dtype", "ending"), WRITTEN, ids=str)
def test_files(dtype, ending, tmp_path):
    x = made(dtype)
    jit.save({"x": x, "part": x[2:4]}, tmp_path / f"x{ending}")
    loaded = jit.load(tmp_path / f"x{ending}")
    assert loaded["x"].dtype is dtype and jit.equal(loaded["x"], x) and jit.equal(loaded["part"], x[2:4])


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_models(dtype, tmp_path):
    opset = 25 if dtype is jit.float8_e8m0fnu else 20
    x = jit.tensor([0.5, 1.0, 2.0, 4.0, 1e9, -1e9] if dtype.is_floating_point else [0.5, 1.0, 200.0])
    if dtype is jit.float8_e8m0fnu:
        x = x[:4]
    verify = dtype is not jit.float8_e8m0fnu  # onnxruntime has no kernels for it yet
    path = tmp_path / "m.onnx"
    jit.export_onnx(lambda x: x.to(dtype).to(jit.float32) * 2, x, path, opset_version=opset, verify=verify)
    imported = jit.import_onnx(path)
    for _ in range(3):
        assert np.array_equal(imported(x).numpy(), (x.to(dtype).float() * 2).numpy(), equal_nan=True)
    assert imported.hits or dtype is jit.float8_e8m0fnu  # which models round as they say themselves


def test_an_artifact_holds_them(tmp_path):
    held = made(jit.float8_e5m2)
    traced = jit.trace(lambda x: held.float() * x)
    for _ in range(3):
        traced(jit.ones(6))
    traced.save(tmp_path / "f.jit")
    assert jit.equal(jit.load(tmp_path / "f.jit")(jit.ones(6)), held.float())
