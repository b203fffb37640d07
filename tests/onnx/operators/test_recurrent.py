"""RNN, GRU and LSTM: every attribute against onnxruntime, the fused way and step by step."""

import numpy as np
import pytest
from onnx import helper

import jit
from jit.ir.errors import ModelError
from jit.onnx.backend import prepare
from jit.onnx.importing import ImportedModel

from .checking import by_runtime, check, check_gradients, model_of, random

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
OUTPUTS = {"RNN": ["y", "y_h"], "GRU": ["y", "y_h"], "LSTM": ["y", "y_h", "y_c"]}


def operands(
    kind, direction="forward", bias=True, lengths=None, states=True, peepholes=False, dtype=np.float32, layout=0
):
    """Arrays by name, in ONNX's order; None where one is left out."""
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[kind]
    x = random(STEPS, BATCH, INPUT, seed=1, dtype=dtype)
    state = [random(ways, BATCH, HIDDEN, seed=seed, dtype=dtype) if states else None for seed in (5, 6)]
    if layout:
        x, state = x.swapaxes(0, 1), [s if s is None else s.swapaxes(0, 1) for s in state]
    found = {
        "x": x,
        "w": random(ways, gates * HIDDEN, INPUT, seed=2, dtype=dtype) * dtype(0.4),
        "r": random(ways, gates * HIDDEN, HIDDEN, seed=3, dtype=dtype) * dtype(0.4),
        "b": random(ways, 2 * gates * HIDDEN, seed=4, dtype=dtype) if bias else None,
        "lengths": None if lengths is None else np.array(lengths, np.int32),
        "h": state[0],
    }
    if kind == "LSTM":
        found["c"] = state[1]
        found["p"] = random(ways, 3 * HIDDEN, seed=8, dtype=dtype) if peepholes else None
    return found


def model_and_inputs(kind, given, opset=14, **attributes):
    names = [name if x is not None else "" for name, x in given.items()]
    while not names[-1]:
        names.pop()
    inputs = {name: x for name, x in given.items() if x is not None}
    node = helper.make_node(kind, names, OUTPUTS[kind], hidden_size=HIDDEN, **attributes)
    return model_of(node, inputs, OUTPUTS[kind], opset), inputs


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(
    ("direction", "bias", "states", "lengths"),
    [
        ("forward", True, True, None),
        ("reverse", True, False, None),
        ("bidirectional", False, True, None),
        ("forward", True, True, [2, 5, 1]),
        ("reverse", True, True, [2, 5, 1]),
        ("bidirectional", False, False, [5, 3, 4]),
        ("bidirectional", True, True, [5, 5, 5]),
    ],
)
def test_directions_and_operands(kind, direction, bias, states, lengths):
    given = operands(kind, direction, bias, lengths, states)
    check(*model_and_inputs(kind, given, direction=direction), by_runtime)


@pytest.mark.parametrize("reset", [0, 1])
@pytest.mark.parametrize("lengths", [None, [3, 5, 2]])
def test_both_forms_of_gru(reset, lengths):
    given = operands("GRU", "bidirectional", lengths=lengths)
    check(*model_and_inputs("GRU", given, direction="bidirectional", linear_before_reset=reset), by_runtime)


@pytest.mark.parametrize(("bias", "lengths", "input_forget"), [(True, None, 0), (False, [3, 5, 2], 0), (True, None, 1)])
def test_peepholes(bias, lengths, input_forget):
    given = operands("LSTM", "bidirectional", bias, lengths, peepholes=True)
    check(*model_and_inputs("LSTM", given, direction="bidirectional", input_forget=input_forget), by_runtime)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("activation", [
    ("Affine", 0.9, 0.1), ("Elu", 0.7, None), ("HardSigmoid", 0.3, 0.4), ("LeakyRelu", 0.05, None),
    ("Relu", None, None), ("ScaledTanh", 0.8, 1.2), ("Sigmoid", None, None), ("Softplus", None, None),
    ("Softsign", None, None), ("Tanh", None, None), ("ThresholdedRelu", 0.2, None),
])  # fmt: skip
def test_activations(kind, activation):
    name, alpha, beta = activation
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[kind]
    numbers = {} if alpha is None else {"activation_alpha": [alpha] * count}
    numbers |= {} if beta is None else {"activation_beta": [beta] * count}
    model, inputs = model_and_inputs(kind, operands(kind), activations=[name] * count, **numbers)
    few = {**inputs, "x": inputs["x"][:2] / 4}  # those without bounds grow with the steps
    check(model, few, by_runtime, traced=False)


def test_each_way_has_its_activations():
    given = operands("LSTM", "bidirectional")
    names = ["HardSigmoid", "Tanh", "LeakyRelu", "Sigmoid", "Softsign", "ScaledTanh"]
    numbers = {"activation_alpha": [0.3, 0.05, 0.9], "activation_beta": [0.6, 1.1]}
    check(*model_and_inputs("LSTM", given, direction="bidirectional", activations=names, **numbers), by_runtime)


def test_rectified_rnn_runs_fused_as_stepwise():
    given = operands("RNN", "bidirectional")
    check(*model_and_inputs("RNN", given, direction="bidirectional", activations=["Relu", "Relu"]), by_runtime)
    check(*model_and_inputs("RNN", given, direction="bidirectional", activations=["Relu", "Tanh"]), by_runtime)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("clip", [0.3, 1.5])
def test_clipping(kind, clip):
    check(*model_and_inputs(kind, operands(kind), clip=clip), by_runtime)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("lengths", [None, [4, 5, 2]])
def test_batches_first(kind, lengths):
    """onnxruntime has no such layout: the other layout says what comes out."""
    attributes = {"direction": "bidirectional", "opset": 14}
    model, inputs = model_and_inputs(kind, operands(kind, "bidirectional", lengths=lengths), **attributes)
    y, *states = by_runtime(model, inputs)
    given = operands(kind, "bidirectional", lengths=lengths, layout=1)
    model, inputs = model_and_inputs(kind, given, layout=1, **attributes)
    check(model, inputs, [y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)])


@pytest.mark.parametrize("kind", GATES)
def test_one_recording_serves_all_lengths(kind):
    model, inputs = model_and_inputs(kind, operands(kind))
    prepared = prepare(model)
    for steps, batch in ((5, 3), (7, 2), (1, 1), (12, 3)):
        cut = {**inputs, "x": random(steps, batch, INPUT, seed=steps)}
        cut |= {name: inputs[name][:, :batch] for name in ("h", "c") if name in inputs}
        for found, expected in zip(prepared.run(cut), by_runtime(model, cut), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("attributes", [{}, {"clip": 5.0}])
def test_gradients(kind, attributes):
    given = operands(kind, "bidirectional", lengths=[2, 5, 4] if attributes else None, dtype=np.float64)
    model, inputs = model_and_inputs(kind, given, direction="bidirectional", **attributes)
    check_gradients(model, inputs, ["x", "w", "r", "b", "h"])


def test_what_makes_no_sense():
    for attributes, words in (({"direction": "sideways"}, "forward, reverse or bidirectional"),
                              ({"direction": "bidirectional"}, "those of 1 directions"),
                              ({"activations": ["Sine", "Tanh", "Tanh"]}, "no activation 'Sine'")):  # fmt: skip
        model, inputs = model_and_inputs("LSTM", operands("LSTM"), **attributes)
        with pytest.raises(ModelError, match=words):
            ImportedModel(model)(*map(jit.tensor, inputs.values()))
