"""What runs a node or a model here and elsewhere, and compares; gradients against differences in some directions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

import jit
from jit.onnx.backend import prepare
from jit.onnx.importing import ImportedModel

Arrays = Mapping[str, Any]


def model_of(
    nodes: onnx.NodeProto | Sequence[onnx.NodeProto], inputs: Arrays, outputs: Sequence[str], opset: int = 22,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:  # fmt: skip
    """A model of some nodes, whose inputs have the types of these arrays and whatever sizes."""
    nodes = [nodes] if isinstance(nodes, onnx.NodeProto) else nodes
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
        for name, x in ((name, np.asarray(x)) for name, x in inputs.items())
    ]
    graph = helper.make_graph(nodes, "g", given, [helper.make_value_info(name, onnx.TypeProto()) for name in outputs])
    imported = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imported, ir_version=10)


def by_reference(model: onnx.ModelProto, inputs: Arrays) -> list[Any]:
    return list(ReferenceEvaluator(model).run(None, dict(inputs)))


def by_runtime(model: onnx.ModelProto, inputs: Arrays) -> list[Any]:
    """The outputs in onnxruntime, which wants types of outputs."""
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {name: np.asarray(x) for name, x in inputs.items()})


def check(*case: Any, **options: Any) -> list[Any]:
    """Compare a model on inputs with a peer, or with outputs that are given; see `_check` for the options."""
    return _check(*case, **options)


def _check(
    model: onnx.ModelProto, inputs: Arrays, peer: Callable[..., Any] | Sequence[Any] = by_reference, rtol: float = 2e-5,
    atol: float = 2e-6, traced: bool = True,
) -> list[Any]:  # fmt: skip
    """Once directly, and twice from a recording."""
    inputs = {name: np.asarray(x) for name, x in inputs.items()}
    expected = peer(model, inputs) if callable(peer) else peer
    found: list[Any] = []
    for runs, prepared in ((1, prepare(model, traced=False)), (2 if traced else 0, prepare(model, traced=True))):
        for _ in range(runs):
            found = list(prepared.run(dict(inputs)))
            same(found, expected, rtol, atol)
    return found


def same(found: Any, expected: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, rtol, atol)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    wide: list[Any] = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in (found, expected)]
    np.testing.assert_allclose(wide[0], wide[1], rtol=rtol, atol=atol)


def check_gradients(*case: Any, **options: Any) -> None:
    """Compare slopes of a weighted sum of the first output with central differences; inputs are float64."""
    _check_gradients(*case, **options)


def _check_gradients(model: onnx.ModelProto, inputs: Arrays, names: Sequence[str], eps: float = 1e-6) -> None:
    module = ImportedModel(model)
    weights = np.random.default_rng(7).normal(size=np.shape(_first(module, inputs)))

    def value(arrays: Arrays) -> float:
        return float((_first(module, arrays) * weights).sum())

    tensors = {name: jit.tensor(x) for name, x in inputs.items()}
    for name in names:
        tensors[name].requires_grad_()
    found = module(**tensors)
    ((found[0] if isinstance(found, tuple) else found) * jit.tensor(weights)).sum().backward()
    for name in names:
        expected, slopes = [], []
        for direction in _directions(inputs[name].shape):
            step = direction * eps
            up, down = value({**inputs, name: inputs[name] + step}), value({**inputs, name: inputs[name] - step})
            expected.append((up - down) / (2 * eps))
            slopes.append(float((tensors[name].grad.numpy() * direction).sum()))
        assert np.abs(expected).max() > 0
        np.testing.assert_allclose(slopes, expected, rtol=1e-5, atol=1e-7)


def _directions(shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Some places by themselves, and some directions that touch all."""
    source = np.random.default_rng(8)
    for place in source.permutation(int(np.prod(shape)))[:6]:
        yield np.eye(1, int(np.prod(shape)), place).reshape(shape)
    for _ in range(3):
        yield source.normal(size=shape)


def _first(module: Any, inputs: Arrays) -> np.ndarray:
    with jit.no_grad():
        found = module(**{name: jit.tensor(x) for name, x in inputs.items()})
    return (found[0] if isinstance(found, tuple) else found).numpy()


def random(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
