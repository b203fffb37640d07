"""The six cases of docs/tracing.md: the IR that is recorded, and that it gives what eager mode gives."""

import re

import pytest
from expecttest import assert_expected_inline

import jit
import jit.nn.functional as F
from tests.tolerances import assert_close


def text(graph: jit.ir.Graph) -> str:
    """The graph without the remarks on where its nodes come from."""
    return re.sub(r"  #.*", "", str(graph))


def count(rows: int, columns: int) -> jit.Tensor:
    """0, 1, 2, ... as float32."""
    return jit.arange(rows * columns).reshape(rows, columns).float()


def test_a_write_through_a_view_becomes_a_new_root():
    @jit.trace
    def f(x):
        y = x[0]
        y.add_(1)
        return x.sum()

    x = jit.ones(2, 3)
    assert f(x).item() == 9 and x.tolist() == [[2, 2, 2], [1, 1, 1]]
    assert_expected_inline(
        text(f.graph),
        """\
graph(%x : Float(2, 3)) {
  %0 : Float(3) = aten::select.int[dim=0, index=0](%x)
  %1 : Float(3) = aten::add(%0, 1)
  %2 : Float(2, 3) = aten::select_scatter[dim=0, index=0](%x, %1)
  %3 : Float() = aten::sum(%2)
  return (%3)
  update (%x = %2)
}""",
    )
    assert f(x).item() == 12 and x.tolist() == [[3, 3, 3], [1, 1, 1]] and f.hits == 1


def norm(x, weight, bias, running_mean, running_var):
    return F.batch_norm(x, running_mean, running_var, weight, bias, training=True)


def batch_norm_inputs() -> list[jit.Tensor]:
    parameters = [jit.ones(2, requires_grad=True), jit.zeros(2, requires_grad=True)]
    return [count(4, 2).sin().requires_grad_(), *parameters, jit.zeros(2), jit.ones(2)]


def test_1_batch_norm_owns_its_updates_and_dissolves_for_its_backward():
    f = jit.trace(norm)
    inputs = batch_norm_inputs()
    y = f(*inputs)
    first = text(f.graph).split("where @0")[0]
    assert_expected_inline(
        first,
        """\
graph(%x : Float(4, 2), %weight : Float(2), %bias : Float(2), %running_mean : Float(2), %running_var : Float(2)) {
  %0 : Float(4, 2), %1 : Float(2), %2 : Float(2) = aten::batch_norm[training=True, momentum=0.1, eps=1e-05, cudnn_enabled=False, body=@0](%x, %weight, %bias, %running_mean, %running_var)
  return (%0)
  update (%running_mean = %1, %running_var = %2)
}
""",  # noqa: E501
    )
    (y * y * y).sum().backward()
    (node,) = (n for n in f.graph.nodes if n.kind == "aten::native_batch_norm")
    (derivative,) = (n for n in f.graph.nodes if n.kind == "aten::native_batch_norm_backward")
    assert derivative.stage == 1 and set(node.outputs[1:]) <= set(derivative.inputs)
    assert len(f.graph.stages[0].updates) == 2 and not f.graph.stages[1].updates


def test_1_batch_norm_trains_like_eager_mode():
    f = jit.trace(norm, optimize=False)
    traced, eager = batch_norm_inputs(), batch_norm_inputs()
    for _ in range(3):
        for function, inputs in ((f, traced), (norm, eager)):
            (function(*inputs) ** 3).sum().backward()
    assert f.hits == 2
    for a, b in zip(traced, eager, strict=True):
        assert a._array.tobytes() == b._array.tobytes()
        assert (a.grad is None) == (b.grad is None) and (
            a.grad is None or a.grad._array.tobytes() == b.grad._array.tobytes()
        )


def test_2_a_guard_after_a_mutation_fails_before_anything_has_happened():
    @jit.trace
    def f(x):
        x.add_(1)
        if x.sum() > 0:
            return x * 2
        return x * 3

    x = jit.ones(2)
    assert f(x).tolist() == [4, 4]
    assert_expected_inline(
        text(f.graph),
        """\
graph(%x : Float(2)) {
  %0 : Float(2) = aten::add(%x, 1)
  %1 : Float() = aten::sum(%0)
  %2 : Bool() = aten::gt(%1, 0)
  %3 : bool = prim::item(%2)
  prim::Guard[expected=True](%3)
  %4 : Float(2) = aten::mul(%0, 2)
  return (%4)
  update (%x = %0)
}""",
    )
    y = jit.full((2,), -9.0)
    assert f(y).tolist() == [-24, -24] and y.tolist() == [-8, -8]
    assert (f.hits, f.misses) == (0, 2)
    assert f(y).tolist() == [-21, -21] and y.tolist() == [-7, -7]
    assert f(x).tolist() == [6, 6] and x.tolist() == [3, 3]
    assert (f.hits, f.misses) == (2, 2)


def test_3_arguments_that_are_one_tensor_are_one_input():
    @jit.trace
    def f(x, y):
        x.add_(1)
        return x * y

    a, b = jit.ones(2), jit.ones(2)
    assert f(a, b).tolist() == [2, 2]
    assert [v.name for v in f.graph.inputs] == ["x", "y"]
    assert f(b, b).tolist() == [4, 4]
    assert [v.name for v in f.graph.inputs] == ["x"]
    assert f.misses == 2 and "share memory" in f.explain()
    assert f(a, b).tolist() == [6, 6] and f(a, a).tolist() == [16, 16] and f.hits == 2


def test_3_arguments_that_overlap_cannot_be_written_to():
    @jit.trace
    def f(x, y):
        x.add_(1)
        return y * 2

    m = count(3, 2)
    with pytest.raises(jit.TraceError, match=r"test_tracing_notes.py:\d+ in f: .* clone one of them first"):
        f(m[:2], m[1:])
    assert m.tolist() == count(3, 2).tolist()


def test_4_a_backward_first_asked_for_on_the_third_call():
    f = jit.trace(lambda x: jit.sigmoid(x * 2))
    x = jit.ones(2, requires_grad=True)
    f(x), f(x)
    assert len(f.graph.stages) == 1
    f(x).sum().backward()
    assert_expected_inline(
        text(f.graph),
        """\
graph(%x : Float(2)) {
  %0 : Float(2) = aten::mul(%x, 2)
  %1 : Float(2) = aten::sigmoid(%0)
  return (%1)
---- stage 1 (%grad : Float(2, strides=[0])) ----
  %2 : Float(2) = aten::sigmoid_backward(%grad, %1)
  %3 : Float(2) = aten::mul(%2, 2)
  return (%3)
}""",
    )
    first, x.grad = x.grad, None
    y = f(x)
    assert sum(value is not None for value in y.grad_fn.state) == 1, "stage 0 keeps what stage 1 uses: one register"
    y.sum().backward()
    assert_close(x.grad, first)


def test_5_a_composite_dissolves_when_stage_1_uses_a_part():
    f = jit.trace(F.cross_entropy)
    x, t = count(4, 3).requires_grad_(), jit.tensor([0, 1, 2, 0])
    loss = f(x, t)
    assert [n.kind for n in f.graph.nodes] == ["aten::cross_entropy_loss"]
    loss.backward()
    assert_expected_inline(
        text(f.graph),
        """\
graph(%input : Float(4, 3), %target : Long(4)) {
  %0 : Float(4, 3) = aten::log_softmax[dim=1](%input)
  %1 : Float(), %2 : Float() = aten::nll_loss_forward[reduction=1, ignore_index=-100](%0, %target)
  return (%1)
---- stage 1 (%grad : Float()) ----
  %3 : Float(4, 3) = aten::nll_loss_backward[reduction=1, ignore_index=-100](%grad, %0, %target, None, %2)
  %4 : Float(4, 3) = aten::_log_softmax_backward_data[dim=1, input_dtype=jit.float32](%3, %0)
  return (%4, None)
}""",
    )


def test_5_a_composite_with_a_derivative_of_its_own_stays():
    f = jit.trace(F.linear)
    x, w = count(4, 3).requires_grad_(), count(2, 3).requires_grad_()
    f(x, w).sum().backward()
    assert [n.kind for n in f.graph.nodes if n.stage == 0] == ["aten::linear"]
    assert "body" in next(f.graph.nodes).attributes


def test_6_dropout_draws_once_and_its_late_backward_sees_the_same_mask():
    f = jit.trace(lambda x: F.dropout(x, 0.5, True))
    x = jit.ones(64, requires_grad=True)
    f(x)
    assert_expected_inline(
        text(f.graph).split("where")[0],
        """\
graph(%x : Float(64), %rng : Generator) {
  %0 : Float(64), %1 : Generator = aten::dropout[p=0.5, train=True, extra=[%rng], body=@0](%x)
  return (%0)
  update (%rng = %1)
}
""",
    )
    y = f(x)
    state = jit.get_rng_state()
    y.sum().backward()
    assert jit.get_rng_state() == state, "the backward draws nothing"
    assert x.grad.tolist() == y.tolist() and 0 < (y == 0).sum().item() < 64
    jit.manual_seed(5)
    eager = F.dropout(x, 0.5, True)
    jit.manual_seed(5)
    assert f(x).tolist() == eager.tolist()


def test_a_step_of_training_is_one_graph():
    w = jit.ones(2, requires_grad=True)
    optimizer = jit.optim.SGD([w], lr=0.1)

    @jit.trace
    def f(x):
        optimizer.zero_grad()
        loss = ((x * w) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    f(jit.ones(2)), f(jit.ones(2))
    assert_expected_inline(
        text(f.graph),
        """\
graph(%x : Float(2), %w : Float(2)) {
  %0 : Float(2) = aten::mul(%x, %w)
  %1 : Float(2) = aten::pow(%0, 2)
  %2 : Float() = aten::sum(%1)
  %3 : Float() = aten::ones_like(%2)
  %4 : Float(1) = aten::unsqueeze[dim=0](%3)
  %5 : int = prim::size[dim=0](%1)
  %6 : Float(2, strides=[0]) = aten::expand[size=[%5]](%4)
  %7 : Float(2) = aten::mul(2, %0)
  %8 : Float(2) = aten::mul(%6, %7)
  %9 : Float(2) = aten::mul(%8, %x)
  %w.grad : Float(2) = aten::clone(%9)
  %10 : Float(2) = aten::mul(%w.grad, 0.1)
  %11 : Float(2) = aten::sub(%w, %10)
  %12 : Float(2) = aten::copy(%w, %11)
  return (%2, %w.grad)
  update (%w = %12)
}""",
    )
    w.grad = None
    assert f(jit.ones(2)).item() > 0 and f.hits == 1 and w.grad is not None and w.is_leaf
