"""Control flow in traces: one recording for all predicates and sizes, derivatives of any order, and plain refusals."""

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit import nn

POSITIVE, NEGATIVE = jit.rand(3, 4) + 0.1, -jit.rand(3, 4) - 0.1


def leaves(nest: Any) -> list[jit.Tensor]:
    if isinstance(nest, dict):
        nest = tuple(nest.values())
    return [leaf for item in nest for leaf in leaves(item)] if isinstance(nest, (tuple, list)) else [nest]


def outcome(f: Callable[..., Any], x: jit.Tensor, order: int) -> list[jit.Tensor]:
    """What a function gives, and its derivatives up to an order, where there are any."""
    jit.manual_seed(3)
    x = x.detach().clone().requires_grad_(order > 0)
    found = leaves(f(x))
    smooth = [y for y in found if y.requires_grad]
    for each in range(order):
        if not smooth:
            break
        (g,) = jit.grad(sum((y * y).sum() for y in smooth), [x], create_graph=each + 1 < order, retain_graph=True)
        found.append(g)
        smooth = [g] if g.requires_grad else []
    return found


def compare(f: Callable[..., Any], *inputs: jit.Tensor, order: int = 2, misses: int = 1) -> None:
    """A traced function does what the function does, again and again, and is recorded so many times."""
    traced = jit.trace(f)
    for x in [*inputs, *inputs]:
        for one, other in zip(outcome(f, x, order), outcome(traced, x, order), strict=True):
            assert one.dtype is other.dtype and one.shape == other.shape
            assert jit.allclose(one, other, rtol=1e-4, atol=1e-5), (one, other)
    assert traced.misses == misses


def cond(x: Any, then: Any, otherwise: Any) -> Any:
    return jit.cond(x.sum() > 0, then, otherwise, (x,))


def derived_view(x: Any) -> Any:
    y = x * 1
    row = y[1]
    y.add_(1)
    return cond(x, lambda x: row * 2, lambda x: row.sin()) + row


def own_writes(x: Any) -> Any:
    def then(x: Any) -> Any:
        y = x.clone()
        y[0].mul_(3)
        return y.t()

    return cond(x, then, lambda x: (x * 2).t())


def no_grad_inside(x: Any) -> Any:
    def then(x: Any) -> Any:
        with jit.no_grad():
            y = x * x
        return x * y

    return cond(x, then, lambda x: x.detach() * x)


def written_after(x: Any) -> Any:
    y = cond(x, lambda x: x, lambda x: x * 2)
    y = y * 1
    y.add_(1)
    return y, x


def result_is_written_to(x: Any) -> Any:
    y = cond(x, lambda x: x * 2, lambda x: x)
    y[0].mul_(x[1])
    y.add_(1)
    return y, y[1]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "nested": lambda x: cond(x, lambda x: cond(x - 1, lambda x: x * 3, lambda x: x.sin()), lambda x: x.exp()),
    "in a scan": lambda x: jit.scan(
        lambda c, r: jit.cond(r.sum() > c.sum(), lambda c, r: (c + r, c * r), lambda c, r: (c - r, r.sin()), (c, r)),
        jit.zeros(4), x,
    ),
    "a scan inside": lambda x: cond(
        x, lambda x: jit.scan(lambda c, r: (c * r + 1, c.sin()), x[0], x), lambda x: (x[0], x * 2)
    ),
    "map": lambda x: jit.map(lambda r, w: (r * w).tanh(), x, x.sum(0)),
    "captured": lambda x: jit.scan(lambda c, r: (c + r @ x.t() @ x, None), x[0], x)[0],
    "carried numbers": lambda x: jit.scan(
        lambda c, r: ((c[0] + 1, c[1] * r.cos()), r * c[0]), (jit.tensor(0), x[0]), x
    ),
    "backwards": lambda x: jit.scan(lambda c, r: (c * r.sin() + r, c * 2), x[:, 0], x, dim=1, reverse=True),
    "views of rows": lambda x: jit.scan(lambda c, r: (c + r.view(3, 1), c.view(3) * r), x[:, :1].t().t(), x, dim=1),
    "rows of expanded gradients": lambda x: jit.scan(
        lambda c, r: (c + 1, r.reshape(2, 2) * c), x.sum(), x
    )[1].reshape(-1).sum().expand(3),
    "no rows": lambda x: jit.scan(lambda c, r: (c * r.sin() + r, c * 2), x.sum(0), x[:0]),
    "views of what was written": derived_view,
    "writes inside": own_writes,
    "no_grad inside": no_grad_inside,
    "a result that is an operand": lambda x: cond(x, lambda x: x, lambda x: x.t().t()),
    "written after": written_after,
    "a result that is written to": result_is_written_to,
    "transposed carries": lambda x: jit.scan(lambda c, r: ((c.t() * r.sum()).t(), c.sum(0)), x.t(), x),
    "exchanged carries": lambda x: jit.scan(lambda c, r: ((c[1], c[0]), r * c[0]), (x[0], x[1]), x),
    "expanded results": lambda x: cond(x, lambda x: x.sum().expand(3, 4), lambda x: x[0].expand(3, 4)),
    "whole numbers": lambda x: cond(x, lambda x: {"i": x.argmax(1), "x": x * 2}, lambda x: {"i": x.argmin(1), "x": x}),
    "the predicate inside": lambda x: (lambda p: jit.cond(p, lambda: x * p, lambda: x + p.float()))(x.sum() > 0),
    "a number of elements": lambda x: (lambda n: cond(x, lambda x: x * n, lambda x: x + n))(x.max().item()),
    "a checkpoint inside": lambda x: cond(x, lambda x: jit.checkpoint(lambda z: z.sin() * z, x), lambda x: x * 3),
    "under a checkpoint": lambda x: jit.checkpoint(lambda x: cond(x, lambda x: x.sin() * x, lambda x: x * 3), x) * 2,
}  # fmt: skip


COMPILED = {"in a scan", "map", "written after"}
"""Programs that run natively; the others run node by node, since compiling takes most of the time."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_traced_is_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_NATIVE", "1" if name in COMPILED else "0")
    compare(PROGRAMS[name], POSITIVE, NEGATIVE)


def test_loops_make_as_many_trips_as_they_need() -> None:
    def grown(x: Any) -> Any:
        return jit.while_loop(lambda y: y.abs().sum() < 20, lambda y: (y * 1.5 + (y * x).sin().abs(),), (x,))[0]

    compare(grown, *(jit.full((n, 2), x) for n in (2, 3) for x in (0.4, 30.0)), misses=2, order=1)
    compare(lambda x: cond(x, grown, lambda x: x * 2), POSITIVE, NEGATIVE, POSITIVE * 30)


def test_a_loop_of_no_trips_makes_no_step() -> None:
    table = jit.rand(3)

    def f(x: Any) -> Any:
        start = (x * 1, jit.tensor(0) + (x > 1).sum() * 3)
        return jit.while_loop(lambda y, i: i < 3, lambda y, i: (y * table[i[None]].sum(), i + 1), start)[0]

    compare(f, jit.tensor(0.5), jit.tensor(2.0), order=1)


def test_random_draws_in_branches() -> None:
    def f(x: Any) -> Any:
        y = cond(x, lambda x: nn.functional.dropout(x), lambda x: x * jit.rand(3, 4) * jit.rand(3, 4))
        return y, jit.rand(2)

    compare(f, POSITIVE, NEGATIVE, order=0)


def test_branches_under_autocast() -> None:
    def f(x: Any) -> Any:
        with jit.autocast("cpu", dtype=jit.bfloat16):
            return cond(x, lambda x: (x @ x.t()).float(), lambda x: (x @ x.t()).float() * 2)

    compare(f, POSITIVE, NEGATIVE, order=1)


def test_sizes_vary() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        y = cond(x, lambda x: x.reshape(-1, n).sum(1) / x.numel(), lambda x: x.sum(0) * n)
        return jit.scan(lambda c, r: (c + r, c * r.shape[0]), y, x)

    compare(f, *(sign * jit.rand(n, m) for n, m in ((2, 3), (4, 5), (3, 6)) for sign in (1, -1)), misses=2, order=1)


def test_sizes_that_depend_on_elements() -> None:
    def f(x: Any) -> Any:
        found = (x.abs() > 0.5).nonzero()
        return cond(x, lambda x: found.float().sum() * x, lambda x: x + found.shape[0])

    traced = jit.trace(f)
    for x in (POSITIVE, NEGATIVE, POSITIVE * 2, NEGATIVE * 3, POSITIVE):
        assert jit.allclose(f(x), traced(x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.Linear(4 + 5, 5), nn.Linear(5, 1)

    def forward(self, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = self.cell(jit.cat([x, h], -1)).tanh()
            return h, self.out(h)

        return jit.scan(step, jit.zeros(xs.shape[1], 5), xs)[1]


def test_a_recurrent_network_learns() -> None:
    def losses(traced: bool) -> list[float]:
        jit.manual_seed(0)
        net = Recurrent()
        f, found = jit.trace(net) if traced else net, []
        optimizer = jit.optim.SGD(net.parameters(), lr=0.1)
        for length in (3, 3, 5, 6, 7):
            loss = (f(jit.rand(length, 2, 4)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses(True) == pytest.approx(losses(False), rel=1e-4)


def test_a_whole_step_of_training() -> None:
    net = Recurrent()
    optimizer = jit.optim.SGD(net.parameters(), lr=0.1)

    @jit.trace
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = jit.cond(x.sum() > 0, lambda: (net(x) ** 2).mean(), lambda: net(x).abs().mean())
        loss.backward()
        optimizer.step()
        return loss

    found = [step(x).item() for _ in range(4) for x in (jit.ones(3, 2, 4), -jit.ones(3, 2, 4))]
    assert found[-2] < found[0] and found[-1] < found[1] and step.hits > 0


def test_only_one_node_and_no_guard() -> None:
    traced = jit.trace(lambda x: cond(x, lambda x: x.relu(), lambda x: x.tanh()))
    traced(POSITIVE)
    kinds = [node.kind for node in traced.graph.nodes]
    assert kinds == ["aten::sum", "aten::gt", "prim::If"]
    assert str(jit.ir.parse(str(traced.graph))) == str(traced.graph)


def test_a_known_predicate_is_no_control_flow() -> None:
    traced = jit.trace(lambda x: jit.cond(x.shape[0] > 2, lambda: x * 2, lambda: x))
    traced(POSITIVE)
    assert all(node.kind != "prim::If" for node in traced.graph.nodes)


def test_the_graph_holds_without_optimisation() -> None:
    traced = jit.trace(PROGRAMS["in a scan"], optimize=False)
    for x in (POSITIVE, NEGATIVE, POSITIVE):
        for one, other in zip(leaves(PROGRAMS["in a scan"](x)), leaves(traced(x)), strict=True):
            assert (one == other).all()


def test_verify_and_deep_derivatives() -> None:
    jit.verify(PROGRAMS["nested"], (POSITIVE,))
    traced = jit.trace(PROGRAMS["map"])
    one, other = (outcome(f, POSITIVE, 3)[-1] for f in (PROGRAMS["map"], traced))
    assert jit.allclose(one, other, rtol=1e-3, atol=1e-3)


def test_under_vmap_functions_run_as_python_does() -> None:
    f = jit.vmap(lambda x: jit.scan(lambda c, r: (c + r, c * r), x[0], x)[1])
    x = jit.rand(2, 3, 4)
    assert jit.allclose(jit.trace(f)(x), f(x)) and f(x).shape == (2, 3, 4)


# -- what is refused ---------------------------------------------------------------------------------------------------

OUTSIDE = jit.zeros(2)
KEPT: list[Any] = []


class SetsAttribute(nn.Module):
    def forward(self, x: Any) -> Any:
        def then(x: Any) -> Any:
            self.last = x
            return x * 2

        return cond(x, then, lambda x: x)


def leaks(x: Any) -> Any:
    def then(x: Any) -> Any:
        KEPT.append(x * 2)
        return KEPT[-1]

    return cond(x, then, lambda x: x) + KEPT[-1]


class Twice(jit.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda x: cond(x, lambda x: x, lambda x: x[0]),
        r"result 0 of true_fn is float32\[3, 4\], and of false_fn float32",
    ),
    (lambda x: cond(x, lambda x: x, lambda x: x.double()), "let both return the same dtypes"),
    (lambda x: cond(x, lambda x: x, lambda x: (x, x)), "the branches of cond return nests of other structures"),
    (lambda x: cond(x, lambda x: x.add_(1), lambda x: x), "writes in place to a tensor from outside"),
    (lambda x: cond(x, lambda x: (OUTSIDE.add_(1), x)[1], lambda x: x), "writes in place to a tensor from outside"),
    (lambda x: jit.scan(lambda c, r: (c.add_(r), r), x[0], x), "writes in place to a tensor from outside"),
    (lambda x: cond(x, lambda x: x if (x * 2).sum() > 3 else -x, lambda x: x), "Python decides on elements"),
    (lambda x: cond(x, lambda x: x, lambda x: x.reshape(7)), "the one that is not taken here raises ShapeError"),
    (lambda x: jit.scan(lambda c, r: (c + jit.rand(4), r), x[0], x), "draws random numbers"),
    (lambda x: cond(x, lambda x: Twice.apply(x), lambda x: x), "runs a Python function"),
    (leaks, "is used outside of it; let the function return it"),
    (SetsAttribute(), "sets an attribute of a module"),
]


@pytest.mark.parametrize("function, words", REFUSED)
def test_refusals(function: Callable[[Any], Any], words: str) -> None:
    before = OUTSIDE.tolist(), POSITIVE.tolist()
    with pytest.raises(jit.Error, match=words):
        jit.trace(function)(POSITIVE)
    assert (OUTSIDE.tolist(), POSITIVE.tolist()) == before


def test_derivatives_that_there_are_not() -> None:
    drawing = jit.trace(lambda x: cond(x, lambda x: nn.functional.dropout(x), lambda x: x))
    with pytest.raises(jit.AutogradError, match="draws random numbers inside"):
        drawing(POSITIVE.clone().requires_grad_()).sum().backward()
