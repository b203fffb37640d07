"""Peers on workloads whose sizes vary: one adapter per library, which makes a session of a workload and its calls."""

from __future__ import annotations

import importlib
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import varying_models as models
from benchmarks.peers import CannotDo, _session_options
from benchmarks.varying import FIXED, LEARNING_RATE, PROMPT, Varying

Program = Callable[..., Any]
PEERS: dict[str, Callable[[Varying, list[Any], int], Session]] = {}


class Session:
    """The calls of one peer.

    Args:
        calls: The inputs of each call, of the peer's own kind.
        program: Runs a call; a model that generates takes and gives what it keeps of the words before, too.
        generating: Whether it does.
        recorded: What has been compiled in so many calls, in a few words.
    """

    def __init__(
        self,
        calls: Sequence[Any],
        program: Program,
        generating: bool,
        recorded: Callable[[int], str] = lambda calls: "-",
    ) -> None:
        self.numbers: Sequence[int] = range(len(calls))
        self.recorded = recorded
        self._calls = calls
        self._program = program
        self._generating = generating
        self.restart()

    def restart(self) -> None:
        """Begin with the first call again."""
        self._state: Any = (*self._calls[0], None)

    def call(self, number: int) -> Any:
        """The result of the call of this number; calls are made in order."""
        if not self._generating:
            return self._program(*self._calls[number])
        self._state = self._program(*self._state)
        return self._state[0]


def peer(name: str) -> Any:
    """Adds the decorated adapter to `PEERS`."""

    def register(make: Callable[[Varying, list[Any], int], Session]) -> Any:
        PEERS[name] = make
        return make

    return register


def _converted(calls: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    return [[convert(array) for array in call] for call in calls]


# -- torch -------------------------------------------------------------------------------------------------------


def _torch(work: Varying, calls: list[Any], threads: int, compiled: bool) -> Session:
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    model = models.filled(torch, work.model(torch)).train(work.training)
    run = torch.compile(model, dynamic=True) if compiled else model
    recorded = _dynamo_graphs(torch) if compiled else lambda calls: "-"
    program = _torch_step(torch, model, run) if work.training else _inferring(torch, run)
    return Session(_converted(calls, torch.from_numpy), program, work.generating, recorded)


def _inferring(torch: Any, run: Program) -> Program:
    def program(*inputs: Any) -> Any:
        with torch.inference_mode():
            return run(*inputs)

    return program


def _torch_step(torch: Any, model: Any, run: Program) -> Program:
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = models.cross_entropy(torch, run(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _dynamo_graphs(torch: Any) -> Callable[[int], str]:
    dynamo = importlib.import_module("torch._dynamo.utils")
    return lambda calls: str(dynamo.counters["stats"]["unique_graphs"])


@peer("torch eager")
def torch_eager(work: Varying, calls: list[Any], threads: int) -> Session:
    """Op by op."""
    return _torch(work, calls, threads, compiled=False)


@peer("torch.compile")
def torch_compile(work: Varying, calls: list[Any], threads: int) -> Session:
    """Inductor with `dynamic=True`, on the model; the optimizer runs by itself, as in most programs."""
    return _torch(work, calls, threads, compiled=True)


# -- jax ---------------------------------------------------------------------------------------------------------


@peer("jax.jit")
def jax_jit(work: Varying, calls: list[Any], threads: int) -> Session:
    """XLA, which compiles every size."""
    library = models.Jax()
    jax = library.jax
    weights = {name: jax.numpy.asarray(array) for name, array in _weights(work).items()}
    if work.generating:
        compiled = jax.jit(lambda w, *inputs: work.jax(library, w, *inputs))
    elif work.training:
        compiled = jax.jit(_jax_step(library, work))
    else:
        compiled = jax.jit(lambda w, x: work.jax(library, w, x)[0])

    def program(*inputs: Any) -> Any:
        if not work.training:
            return jax.block_until_ready(compiled(weights, *inputs))
        loss, changed = jax.block_until_ready(compiled(weights, *inputs))
        weights.update(changed)
        return loss

    calls = _converted(calls, jax.numpy.asarray)
    return Session(calls, program, work.generating, lambda calls: str(compiled._cache_size()))


def _jax_step(library: models.Jax, work: Varying) -> Program:
    def loss_of(weights: Any, rest: Any, x: Any, target: Any) -> Any:
        logits, changed = work.jax(library, weights | rest, x)
        return library.cross_entropy(logits, target), changed

    def step(w: Any, x: Any, target: Any) -> Any:
        rest = {name: array for name, array in w.items() if "running" in name}
        weights = {name: array for name, array in w.items() if name not in rest}
        (loss, changed), gradients = library.jax.value_and_grad(loss_of, has_aux=True)(weights, rest, x, target)
        return loss, changed | {name: weights[name] - LEARNING_RATE * gradients[name] for name in weights}

    return step


def _weights(work: Varying) -> dict[str, Any]:
    jit = importlib.import_module("jit")
    state = models.filled(jit, work.model(jit)).state_dict()
    return {name: tensor.detach().numpy() for name, tensor in state.items() if "num_batches" not in name}


# -- onnxruntime on what jit exports -----------------------------------------------------------------------------


@peer("onnxruntime")
def onnxruntime_session(work: Varying, calls: list[Any], threads: int) -> Session:
    """The model that jit exports with dynamic axes; of a model that generates two, one for the prompt."""
    if work.training:
        raise CannotDo
    runtime = importlib.import_module("onnxruntime")
    jit = importlib.import_module("jit")
    model = models.filled(jit, work.model(jit)).eval()
    inputs = tuple(jit.from_numpy(array) for array in calls[0])

    def session(inputs: tuple[Any, ...], axes: dict[str, Any]) -> Any:
        return runtime.InferenceSession(
            _exported(jit, model, inputs, axes), _session_options(runtime, threads), ["CPUExecutionProvider"]
        )

    value = runtime.OrtValue.ortvalue_from_numpy
    if work.generating:
        return Session(_converted(calls, value), _generating(jit, model, inputs, session), True)
    run = session(inputs, work.axes)
    (name,) = (i.name for i in run.get_inputs())
    return Session(calls, lambda x: run.run(None, {name: x})[0], False)


def _generating(jit: Any, model: Any, prompt: tuple[Any, ...], session: Callable[..., Any]) -> Program:
    with jit.no_grad():
        word, past = model(*prompt)
    begin = session(prompt, {})
    names = [f"past.{layer}.{part}" for layer in range(len(past)) for part in (0, 1)]
    go_on = session((word, past), {name: {2: "length"} for name in names})

    def program(words: Any, past: Any) -> Any:
        run = begin if past is None else go_on
        given = [words, *(past or [])]
        names = (i.name for i in run.get_inputs())
        word, *grown = run.run_with_ort_values(None, dict(zip(names, given, strict=True)))
        return _Word(word), grown

    return lambda words, past: program(getattr(words, "value", words), past)


class _Word:
    """A word that numpy can read, too."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.value.numpy()


def _exported(jit: Any, model: Any, inputs: tuple[Any, ...], axes: dict[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        jit.export_onnx(model, inputs, path, dynamic_axes=axes, verify=False)
        return path.read_bytes()


# -- jit ---------------------------------------------------------------------------------------------------------


@peer("jit")
def jit_traced(work: Varying, calls: list[Any], threads: int) -> Session:
    """This project: the model, or the whole training step, traced."""
    jit = importlib.import_module("jit")
    traced, program = _jit(jit, work, _model(jit, work))

    def recorded(calls: int) -> str:
        untraced = calls - traced.hits - traced.misses
        return f"{traced.misses}" + f", and {untraced} calls untraced" * (untraced > 0)

    return Session(_converted(calls, jit.from_numpy), program, work.generating, recorded)


def _model(jit: Any, work: Varying) -> Any:
    return models.filled(jit, work.model(jit)).train(work.training)


def _jit(jit: Any, work: Varying, model: Any, **options: Any) -> tuple[Any, Program]:
    """A traced function of a workload, and how it is called."""
    if work.training:
        traced = jit.trace(_jit_step(jit, model), **options)
        return traced, traced
    traced = jit.trace(model, **options)

    def program(*inputs: Any) -> Any:
        with jit.no_grad():
            return traced(*inputs)

    return traced, program


def _jit_step(jit: Any, model: Any) -> Program:
    optimizer = jit.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = models.cross_entropy(jit, model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


class _FixedSizes(Session):
    """A traced function for each of a few of the calls, called until it has a plan."""

    def __init__(self, calls: dict[int, tuple[Program, Any]]) -> None:
        super().__init__([[]], lambda: None, False)
        self.numbers = sorted(calls)
        self._fixed = calls

    def call(self, number: int) -> Any:
        """The result of one of these calls."""
        program, inputs = self._fixed[number]
        return program(*inputs)


@peer("jit fixed")
def jit_fixed(work: Varying, calls: list[Any], threads: int) -> Session:
    """This project, with recordings and plans for single sizes."""
    jit = importlib.import_module("jit")
    model, made = _model(jit, work), {}
    for number in _spread(calls, work.generating):
        _, program = _jit(jit, work, model, dynamic=False)
        inputs = _inputs(jit, work, model, calls, number)
        for _ in range(4):  # recording, planning, a shortcut
            program(*inputs)
        made[number] = program, inputs
    return _FixedSizes(made)


def _spread(calls: list[Any], generating: bool) -> list[int]:
    """The numbers of a few calls, from small to large."""
    numbers = sorted(range(1, len(calls)) if generating else range(len(calls)), key=lambda n: calls[n][0].size)
    return [numbers[round(at)] for at in np.linspace(0, len(numbers) - 1, FIXED)]


def _inputs(jit: Any, work: Varying, model: Any, calls: list[Any], number: int) -> list[Any]:
    """The inputs of one call; of a model that generates, what it would have kept by then, of the same sizes."""
    if not work.generating:
        return [jit.from_numpy(array) for array in calls[number]]
    with jit.no_grad():
        word, past = model(jit.from_numpy(calls[0][0]))
    length = PROMPT + number - 1
    longer = [tuple(jit.zeros(*t.shape[:2], length, t.shape[3]) for t in pair) for pair in past]
    return [word, longer]
