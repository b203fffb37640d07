"""The derivatives of control flow.

Note [Derivatives of control flow]
    The derivative of control flow is control flow again: it runs a branch or a step once more and differentiates
    that, as a checkpoint does. So there are derivatives of any order, and nothing that happened inside is kept.

        if p: y = f(x)  else: y = g(x)         if p: dx = vjp(f)(x, dy)  else: dx = vjp(g)(x, dy)
        c, y = scan(f, c, x)                   forward once more for the c of each step, then from the last row to the
                                               first: dc, dx, dw = vjp(f)(c, x, w, dc, dy), the dw of all steps added
        while p(c): c = f(c)                   likewise: the c of each step are rows, the way back a scan
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jit.autograd.engine import run_backward
from jit.autograd.nodes import Node, SavedTensor, edge_of
from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor, Variable, alias, requires_grad
from jit.ir import RandomState
from jit.ir.control import IF, LOOP, SCAN
from jit.ir.errors import AutogradError

Program = Callable[[Sequence[Any]], Sequence[Any]]
"""A branch or a step as a function of the inputs of its node; where a Scan goes along an input, it gets a row."""

_TITLES = {IF: "cond", LOOP: "while_loop", SCAN: "scan"}
_NAMES = {IF: "CondBackward", LOOP: "WhileLoopBackward", SCAN: "ScanBackward"}


@dataclass(frozen=True)
class Flow:
    """Control flow over functions: see Note [Control flow] in `jit.ir.control`."""

    kind: str
    programs: tuple[Program, ...]
    carried: int = 0
    scanned: int = 0
    reverse: bool = False
    keeps: bool = False
    """Whether a Loop gives what it carries before each step, too, as rows."""

    @property
    def leading(self) -> int:
        """The number of inputs that come first in the node, whatever the functions use: predicate, carries and rows."""
        return 1 if self.kind == IF else self.carried + self.scanned

    @property
    def title(self) -> str:
        """The name that users know."""
        return _TITLES[self.kind]


Run = Callable[[Flow, Sequence[Any]], list[Any]]


def remembered(flow: Flow, inputs: Sequence[Any], outputs: Sequence[Any], run: Run) -> list[Any]:
    """The outputs of control flow with their history, if there is one; `run` runs that of derivatives."""
    if not context.GRAD_ENABLED.get() or not any(isinstance(x, Tensor) and requires_grad(x) for x in inputs):
        return list(outputs)
    node = FlowNode(flow, inputs, len(outputs), run)
    found: list[Any] = []
    for index, output in enumerate(outputs):
        if isinstance(output, Tensor) and _is_smooth(output):
            made = alias(output, Variable)
            made.set_history(node, index)  # type: ignore[attr-defined]
            output = made
        found.append(output)
    return found


class FlowNode(Node):
    """The history of what control flow has given; see Note [Derivatives of control flow].

    Args:
        flow: The control flow.
        inputs: The tensors, numbers and states of generators that it was given.
        outputs: The number of its outputs.
        run: Runs the control flow of the derivative.
    """

    def __init__(self, flow: Flow, inputs: Sequence[Any], outputs: int, run: Run) -> None:
        edges = [edge_of(x) if isinstance(x, Tensor) and requires_grad(x) else None for x in inputs]
        super().__init__(_NAMES[flow.kind], edges, outputs)
        self.source = context.user_source()
        self.flow, self.run = flow, run
        self.saved: list[Any] | None = [
            SavedTensor(x, f"operand {i}") if isinstance(x, Tensor) else x for i, x in enumerate(inputs)
        ]

    def release(self) -> None:
        self.saved = None

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """The gradients of the inputs, by control flow.

        Raises:
            AutogradError: It was freed, or draws random numbers.
        """
        if self.saved is None:
            raise AutogradError(
                f"backward through the {self.flow.title} at {self.source} a second time: what it kept was freed; say "
                "retain_graph=True the first time"
            )
        if any(isinstance(x, RandomState) for x in self.saved):
            raise AutogradError(
                f"the {self.flow.title} at {self.source} is recorded and draws random numbers inside, so that it has "
                "no derivative; draw them outside, and pass them as operands"
            )
        inputs = [x.unpack(self) if isinstance(x, SavedTensor) else x for x in self.saved]
        wanted = [at for at, need in enumerate(needs) if need]
        derive = _of_cond if self.flow.kind == IF else _of_steps
        found = dict(zip(wanted, derive(self.flow, inputs, gradients, wanted, self.run), strict=True))
        return [found.get(at) for at in range(len(needs))]


# -- the control flow of derivatives -----------------------------------------------------------------------------------


def _of_cond(
    flow: Flow, inputs: list[Any], gradients: Sequence[Tensor | None], wanted: Sequence[int], run: Run
) -> list[Any]:  # fmt: skip
    given = [at for at, g in enumerate(gradients) if g is not None]
    programs = tuple(_derivative(program, len(inputs), given, wanted) for program in flow.programs)
    return run(Flow(IF, programs), [*inputs, *(gradients[at] for at in given)])


def _of_steps(
    flow: Flow, inputs: list[Any], gradients: Sequence[Tensor | None], wanted: Sequence[int], run: Run
) -> list[Any]:  # fmt: skip
    (step,), carries, leading = flow.programs, flow.carried, flow.leading
    smooth = [at for at in range(carries) if _is_smooth(inputs[at])]
    rows = [at for at in wanted if carries <= at < leading]
    constants = [at for at in wanted if at >= leading]
    given = [at for at in range(carries, len(gradients)) if gradients[at] is not None]
    derivative = _derivative(step, len(inputs), [*smooth, *given], [*smooth, *rows, *constants])
    states, length = len(smooth) + len(constants), carries + flow.scanned

    def back(values: Sequence[Any]) -> list[Any]:
        sums, before, weights = values[len(smooth) : states], values[states:], values[states + length :]
        rest = weights[len(given) :]
        found = derivative([*before[:length], *rest, *values[: len(smooth)], *weights[: len(given)]])
        first, last = found[: len(smooth)], found[len(smooth) + len(rows) :]
        added = [F.add(a, b) for a, b in zip(sums, last, strict=True)]
        return [*first, *added, *found[len(smooth) : len(smooth) + len(rows)]]

    kept = run(replace(flow, programs=(_remembering(step, carries),), keeps=flow.kind == LOOP), inputs)[carries:]
    begin = [F.zeros_like(inputs[at]) if gradients[at] is None else gradients[at] for at in smooth]
    begin += [F.zeros_like(inputs[at]) for at in constants]
    along = [*kept, *inputs[carries:leading], *(gradients[at] for at in given)]
    found = run(Flow(SCAN, (back,), states, len(along), not flow.reverse), [*begin, *along, *inputs[leading:]])
    places = [*smooth, *constants, *rows]
    return [found[places.index(at)] for at in wanted]


def _remembering(step: Program, carries: int) -> Program:
    """A step that gives what was carried before it, as rows."""
    return lambda values: [*step(values)[:carries], *(F.clone(value) for value in values[:carries])]


def _derivative(program: Program, count: int, given: Sequence[int], wanted: Sequence[int]) -> Program:
    """The program that takes `count` inputs and the gradients of the outputs `given`, and gives those of `wanted`."""

    def derivative(values: Sequence[Any]) -> list[Any]:
        create = context.GRAD_ENABLED.get()
        with context.enable_grad():
            own = [_own(x) if at in wanted else x for at, x in enumerate(values[:count])]
            outputs = program(own)
        pairs = [(outputs[at], g) for at, g in zip(given, values[count:]) if requires_grad(outputs[at])]
        inputs = [own[at] for at in wanted]
        found: Sequence[Tensor | None] = [None] * len(inputs)
        if pairs and inputs:
            roots, weights = zip(*pairs, strict=True)
            found = run_backward(roots, weights, inputs, create, create, within=True)
        return [F.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]

    return derivative


def _is_smooth(tensor: Tensor) -> bool:
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def _own(tensor: Tensor) -> Tensor:
    """A tensor of which a derivative is to be found: an alias, since that outside may have a history that goes on."""
    own: Tensor = F.alias(tensor)
    return own if requires_grad(own) else own.requires_grad_()
