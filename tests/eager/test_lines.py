"""The lines that histories and writes remember: noted as places in code, found when somebody asks."""

import weakref
from typing import Any

import jit
from jit.eager import context
from jit.eager.arguments import fitter
from jit.ir import REGISTRY


def line_of(function: Any, marked: str) -> int:
    """The number of the line of a function that ends in a comment."""
    with open(function.__code__.co_filename) as file:
        lines = file.read().splitlines()
    start = function.__code__.co_firstlineno
    return next(number for number in range(start, len(lines) + 1) if lines[number - 1].endswith(f"# {marked}"))


def test_histories_name_the_line_of_the_call() -> None:
    x = jit.ones(2, requires_grad=True)
    made = [
        x * 2
        for _ in range(2)
    ]  # fmt: skip
    y = x * 3 if len(made) == 2 else x
    z = jit.cat(
        [y,
         x.exp()],  # inner
    )  # fmt: skip
    (inner,) = (node for node, _ in z.grad_fn.next_functions if repr(node) == "<ExpBackward0>")  # type: ignore[union-attr]
    assert inner.source.line == line_of(test_histories_name_the_line_of_the_call, "inner")  # type: ignore[union-attr]
    assert made[0].grad_fn.source.function in ("<listcomp>", "test_histories_name_the_line_of_the_call")  # type: ignore[union-attr]
    assert str(inner.source).startswith("test_lines.py:")  # type: ignore[union-attr]


def test_a_place_is_the_line_that_is_found_at_once() -> None:
    found = []

    def look() -> None:
        found.append((context.source_of(context.user_place(0)), context.user_source()))

    for _ in range(2):
        look()
    assert found[0][0] == found[0][1] is not None
    token = context.SOURCE.set(found[0][1])
    try:
        assert context.source_of(context.user_place(0)) is found[0][1]
    finally:
        context.SOURCE.reset(token)


def test_writes_name_the_line_of_the_user() -> None:
    x, w = jit.ones(2), jit.ones(2, requires_grad=True)
    x.add_(1)  # write
    assert x._storage.writer.line == line_of(test_writes_name_the_line_of_the_user, "write")  # type: ignore[union-attr]
    (w * 2).sum().backward()
    (w * 2).sum().backward()  # second
    assert w.grad._storage.writer.line == line_of(test_writes_name_the_line_of_the_user, "second")


def test_a_history_keeps_no_variables_of_the_caller_alive() -> None:
    class Held:
        pass

    def call(x: jit.Tensor) -> tuple[jit.Tensor, Any]:
        held = Held()
        return x * 2, weakref.ref(held)

    y, held = call(jit.ones(2, requires_grad=True))
    assert held() is None and y.grad_fn.source.function == "call"  # type: ignore[union-attr]


def test_what_is_bound_is_what_is_coerced_one_by_one() -> None:
    """The function that is generated for an operator skips what fits as it is, and nothing else."""
    clamp, add = REGISTRY["aten::clamp"], REGISTRY["aten::add"]
    x, undefined = jit.ones(2), jit.Tensor()
    assert fitter(add)(x, 2) == (x, 2, 1)
    assert fitter(clamp)(x, undefined, max=3)[1:] == (None, 3)
    assert isinstance(fitter(add)(x.numpy(), x)[0], jit.Tensor)
