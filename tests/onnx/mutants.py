"""Damaged ONNX models: `python -m tests.onnx.mutants 0 10000` reads and runs that many, and says what went wrong.

A model may be refused, or run; no other exception than the package's own may come out of it, no signal end the process,
and no memory be taken that its file does not justify. Each child process takes a share of the numbers.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

MEMORY = 4 << 30
"""The address space that a child may take: numpy, BLAS and LLVM map more than they use."""


def originals() -> list[bytes]:
    """Whole models: a network with convolutions, a recurrent one, attention, shapes computed of shapes, and a loop."""
    import jit
    from jit import nn
    from jit.nn import functional as F

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.lstm, self.out = nn.Embedding(11, 6), nn.LSTM(6, 5), nn.Linear(5, 3)

        def forward(self, x):
            return F.softmax(self.out(self.lstm(self.table(x))[0]), -1)

    images = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten())
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    calls = [
        (images.eval(), (jit.ones(1, 2, 6, 6),), {"input": [0]}),
        (Words().eval(), (jit.ones(4, 2, dtype=jit.int64),), {"x": [0, 1]}),
        (attention.eval(), (jit.ones(2, 3, 8),), {"src": [0, 1]}),
        (lambda x: jit.cat([x.reshape(x.shape[1], -1), x.t()], 1)[1:, ::2], (jit.ones(3, 4),), {"x": [0, 1]}),
    ]
    return [_exported(*call) for call in calls] + [_looping()]


def _exported(function, args, axes) -> bytes:
    import io

    import jit

    file = io.BytesIO()
    jit.onnx.export(function, args, file, dynamic_axes=axes, verify=False)
    return file.getvalue()


def _looping() -> bytes:
    import onnx

    body = onnx.parser.parse_graph(
        "body (int64 i, bool go, float[2] x) => (bool go_on, float[2] y, float[2] z) { go_on = Identity(go) "
        "y = Add(x, x) z = Mul(y, x) }"
    )
    node = onnx.helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    kinds: dict[str, tuple[str, list[Any]]] = {
        "n": ("INT64", []),
        "x": ("FLOAT", [2]),
        "last": ("FLOAT", [2]),
        "all": ("FLOAT", [None, 2]),
    }
    values = {k: onnx.helper.make_tensor_value_info(k, getattr(onnx.TensorProto, t), s) for k, (t, s) in kinds.items()}
    count = onnx.numpy_helper.from_array(np.array(3, np.int64), "n")
    graph = onnx.helper.make_graph([node], "g", [values["x"]], [values["last"], values["all"]], [count])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()


# -- damage --------------------------------------------------------------------------------------------------------


def mutant(originals: list[bytes], number: int) -> bytes:
    """One of the models, damaged: bytes changed, cut out or repeated, or its fields exchanged."""
    rng = random.Random(number)
    content = bytearray(rng.choice(originals))
    if rng.random() < 0.5:
        return _with_other_fields(bytes(content), rng)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(content))
        kind = rng.randrange(4)
        if kind == 0:
            content[at] = rng.randrange(256)
        elif kind == 1:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del content[at : at + rng.randrange(1, 9)]
        else:
            content[at:at] = content[at : at + rng.randrange(1, 9)]
        if not content:
            break
    return bytes(content)


def _with_other_fields(content: bytes, rng: random.Random) -> bytes:
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice((_other_numbers, _other_wires, _other_operator, _other_shape, _other_attribute))(model.graph, rng)
    return model.SerializeToString()


_NUMBERS = (0, 1, -1, 2, 7, -9, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))


def _other_numbers(graph, rng: random.Random) -> None:
    tensors = [t for t in graph.initializer if t.data_type == 7]
    tensors += [a.t for n in graph.node for a in n.attribute if a.type == 4 and a.t.data_type == 7]
    if tensors:
        tensor = rng.choice(tensors)
        numbers = np.frombuffer(tensor.raw_data, np.int64).copy()
        if numbers.size:
            numbers[rng.randrange(numbers.size)] = rng.choice(_NUMBERS)
            tensor.raw_data = numbers.tobytes()


def _other_wires(graph, rng: random.Random) -> None:
    names = [name for node in graph.node for name in (*node.input, *node.output)]
    node = rng.choice(list(graph.node))
    if node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)


def _other_operator(graph, rng: random.Random) -> None:
    from jit.onnx.table import known_operators

    rng.choice(list(graph.node)).op_type = rng.choice(known_operators())[1]


def _other_shape(graph, rng: random.Random) -> None:
    if graph.initializer:
        tensor = rng.choice(list(graph.initializer))
        if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(_NUMBERS)


def _other_attribute(graph, rng: random.Random) -> None:
    attributes = [a for n in graph.node for a in n.attribute]
    if attributes:
        attribute = rng.choice(attributes)
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(_NUMBERS)
        elif rng.random() < 0.5:
            attribute.i = rng.choice(_NUMBERS)
        else:
            attribute.f = rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))


# -- trying --------------------------------------------------------------------------------------------------------


def outcome(content: bytes) -> str:
    """`runs`, `refused`, or the foreign exception that came out."""
    import jit
    from jit.ir.errors import Error
    from jit.onnx.files import read_model
    from jit.onnx.importing import ImportedModel

    try:
        module = ImportedModel(read_model(content)).eval()
        inputs = [np.ones([min(s or 2, 8) for s in sizes], d.numpy) for d, sizes in module.input_types]
        with jit.no_grad():
            module(*inputs)
    except Error:
        return "refused"
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__name__}: {error}"[:300]
    return "runs"


def outcomes(start: int, stop: int) -> Iterator[tuple[int, str]]:
    """What becomes of each, in this process."""
    whole = originals()
    for number in range(start, stop):
        yield number, outcome(mutant(whole, number))


def faults(start: int, stop: int, share: int = 250) -> Iterator[str]:
    """Foreign exceptions, and numbers that ended or stalled a child."""
    while start < stop:
        command = [sys.executable, "-m", __spec__.name, "--child", str(start), str(min(start + share, stop))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 2 * share)
            lines, code = done.stdout.splitlines(), str(done.returncode or "")
        except subprocess.TimeoutExpired as stalled:
            lines, code = (stalled.stdout or b"").decode().splitlines(), "too long"
        start += len(lines)
        yield from (line for line in lines if line.split(" ", 1)[1] not in ("runs", "refused"))
        if code:
            yield f"{start} ends the process: {code}"
            start += 1


def main() -> None:
    """The command line."""
    if sys.argv[1] == "--child":
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for number, found in outcomes(int(sys.argv[2]), int(sys.argv[3])):
            print(number, found.replace("\n", " "), flush=True)
        return
    count = 0
    for fault in faults(int(sys.argv[1]), int(sys.argv[2])):
        print(fault, flush=True)
        count += 1
    print(f"{count} faults")


if __name__ == "__main__":
    main()
