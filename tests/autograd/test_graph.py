"""What is saved along the graph and who looks at it; grad modes of threads; `inference_mode`."""

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import Function, graph


def leaf(*sizes: int) -> Any:
    return jit.from_numpy(np.arange(1.0, np.prod(sizes) + 1).reshape(sizes)).requires_grad_()


def test_saved_tensors_go_through_hooks():
    x = leaf(3)
    packed, unpacked = [], []

    def pack(tensor: Any) -> Any:
        assert not tensor.requires_grad
        packed.append(tensor.tolist())
        return len(packed) - 1

    def unpack(number: int) -> Any:
        unpacked.append(number)
        return jit.tensor(packed[number], dtype=jit.float64)

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * 2).exp()  # exp saves its result; a product with a number saves nothing
    z = y.sin()  # saved without hooks
    assert packed == [np.exp(2 * x.detach().numpy()).tolist()] and not unpacked
    z.sum().backward()
    assert unpacked == [0]
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2, 4, 6]) * np.cos(np.exp([2, 4, 6])), rtol=1e-12)


def test_second_derivatives_through_hooks():
    def f(x: Any) -> Any:
        with graph.saved_tensors_hooks(lambda t: t.numpy().copy(), jit.from_numpy):
            return (x * x).sin() * x.tanh()

    assert jit.autograd.gradcheck(f, (leaf(3),)) and jit.autograd.gradgradcheck(f, (leaf(3),))


def test_hooks_of_custom_functions_and_the_innermost_wins():
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

    seen: list[str] = []

    def hooks(name: str) -> Any:
        def pack(tensor: Any) -> Any:
            seen.append(name)
            return tensor

        return graph.saved_tensors_hooks(pack, lambda t: t)

    x = leaf(2)
    with hooks("outer"):
        with hooks("inner"):
            y = Square.apply(x)
        z = y.sin()
    assert seen == ["inner", "outer"]
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.array([1, 2]) * np.cos([1, 4]), rtol=1e-12)


def test_hooks_let_go_of_the_memory():
    x = leaf(3)
    with graph.saved_tensors_hooks(lambda t: None, lambda _: jit.zeros(3, dtype=jit.float64)):
        y = x * 2
        reference = weakref.ref(y._array)
        z = y.sin()
    del y
    assert reference() is None
    z.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]  # cos(0)


def test_hooks_that_fail_and_what_they_return():
    x = leaf(2)
    with (
        pytest.raises(ZeroDivisionError),
        graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t),
    ):
        x.exp()
    wrong: Any = lambda t: 3  # noqa: E731
    with graph.saved_tensors_hooks(lambda t: t, wrong):
        y = x.exp()
    with pytest.raises(jit.AutogradError, match=r"hook returned int for output 0 of ExpBackward0 .*test_graph.py"):
        y.sum().backward()


def test_a_traced_function_runs_eagerly_under_hooks():
    def f(x: Any) -> Any:
        return x.exp().sin()

    def pack(t: Any) -> Any:
        packed.append(t)
        return t.numpy().copy()

    packed: list[Any] = []
    traced = jit.trace(f)
    for function, recorded in ((traced, False), (f, False), (traced, True), (traced, False)):
        x = leaf(2)
        count = len(packed)
        with graph.saved_tensors_hooks(pack, jit.from_numpy):
            y = function(x)
        y.sum().backward()
        assert len(packed) - count == 2
        np.testing.assert_allclose(x.grad.numpy(), np.exp([1, 2]) * np.cos(np.exp([1, 2])), rtol=1e-12)
        if recorded:
            traced(x)
    assert (traced.misses, traced.hits) == (1, 0)


def test_hooks_on_saved_tensors_inside_a_traced_function():
    @jit.trace
    def traced(x: Any) -> Any:
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return x.exp()

    with pytest.raises(jit.TraceError, match=r"saved_tensors_hooks.*test_graph.py.*around the call"):
        traced(leaf(2))
    node: Any = jit.ones(2, requires_grad=True).exp().grad_fn
    assert node.saved["out"]._packed is None  # nothing is left switched on


def test_hooks_on_saved_tensors_are_not_recorded_themselves():
    def pack(t: Any) -> Any:
        assert not jit.is_grad_enabled()
        with jit.enable_grad():
            return t, (scale * scale).sum()

    def unpack(packed: Any) -> Any:
        assert not jit.is_grad_enabled()
        return packed[0]

    scale, x = leaf(1), leaf(2)
    with graph.saved_tensors_hooks(pack, unpack):
        y = x.exp().sum()
    (g,) = jit.grad(y, x, create_graph=True)
    assert g.tolist() == np.exp(x.detach().numpy()).tolist()


@pytest.mark.parametrize("given", [None, 3.0, jit.Tensor()], ids=["None", "number", "undefined"])
def test_what_unpack_hooks_must_return(given):
    x = leaf(2)
    with graph.saved_tensors_hooks(lambda t: t, lambda packed: given):
        y = x.exp().sum()
    kind = type(given).__name__
    with pytest.raises(
        jit.AutogradError, match=rf"the unpack hook returned {kind} for .* of ExpBackward0 .*test_graph.py"
    ):
        y.backward()


def test_nodes_and_edges():
    x, w = leaf(3), leaf(3)
    y = x * w
    node = y.grad_fn
    assert isinstance(node, graph.Node) and node.name == "MulBackward0" and repr(node) == "<MulBackward0>"
    following: Any = [n for n, _ in node.next_functions]
    assert [n.name for n in following] == ["AccumulateGrad"] * 2 and following[0].variable is x
    node.metadata["mine"] = 3
    assert y.grad_fn.metadata == {"mine": 3} and (x * w).grad_fn.metadata == {}
    edge = graph.get_gradient_edge(y)
    assert edge.node is node
    assert jit.grad(y.sin().sum(), edge, retain_graph=True)[0].tolist() == np.cos(x.detach().numpy() ** 2).tolist()
    with pytest.raises(jit.AutogradError, match="does not require grad"):
        graph.get_gradient_edge(jit.ones(2))


def test_writes_that_nothing_has_seen_may_be_told():
    x, y, z = leaf(2), leaf(2), leaf(2)
    kept = [each.exp() for each in (x, y, z)]
    graph.increment_version(kept[0])
    graph.increment_version(iter(kept[1:2]))
    for each in kept[:2]:
        with pytest.raises(jit.AutogradError, match=r"changed by an in-place operation at .*test_graph\.py"):
            each.sum().backward()
    kept[2].sum().backward()
    assert jit.equal(z.grad, kept[2].detach())


def to_list(tensor: Any) -> Any:
    return None if tensor is None else tensor.tolist()


def test_a_hook_that_waits_for_several_gradients():
    x, w = leaf(2), leaf(2)
    seen: list[Any] = []
    handle = graph.register_multi_grad_hook((x, w), lambda grads: seen.append([to_list(g) for g in grads]))
    (x * 2).sum().backward()  # does not reach w
    (w * 4).sum().backward()
    assert seen == [[[2, 2], None], [None, [4, 4]]]
    seen.clear()
    (x * 2 + w * 3).sum().backward()
    jit.grad((x * 5 + w * 6).sum(), [w, x])
    assert seen == [[[2, 2], [3, 3]], [[5, 5], [6, 6]]]
    handle.remove()
    (x * w).sum().backward()
    assert len(seen) == 2


def test_no_cycle_through_packed_tensors():
    gc.disable()
    try:
        x = leaf(3)
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x.exp()
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


# -- modes -------------------------------------------------------------------------------------------------------


def test_inference_mode():
    x = leaf(2)
    with jit.inference_mode():
        assert not (x * 2).requires_grad and not jit.is_grad_enabled()
        with jit.inference_mode(False):
            assert (x * 2).requires_grad

    @jit.inference_mode()
    def called(x: Any) -> Any:
        return x * 2

    def twice(x: Any) -> Any:
        return x * 2

    bare: Any = jit.inference_mode(twice)
    inside = called(x)
    with pytest.raises(jit.AutogradError, match="inference tensor"):
        inside * x
    product = (inside.clone() * x).sum()
    assert jit.grad(product, x)[0].tolist() == inside.tolist()
    assert not called(x).requires_grad and not bare(x).requires_grad and bare.__name__ == "twice"
    assert jit.is_grad_enabled()


def test_set_grad_enabled_as_function_block_and_decorator():
    x = leaf(2)
    jit.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        jit.set_grad_enabled(True)
    with jit.set_grad_enabled(False):
        assert not (x * 2).requires_grad

    @jit.set_grad_enabled(False)
    def f(x: Any) -> Any:
        return x * 2

    assert jit.is_grad_enabled() and not f(x).requires_grad and (x * 2).requires_grad


def test_grad_mode_is_each_threads_own():
    seen: list[bool] = []
    with jit.no_grad():
        thread = threading.Thread(target=lambda: seen.append(jit.is_grad_enabled()))
        thread.start()
        thread.join()
        assert seen == [True] and not jit.is_grad_enabled()

    def switch_off() -> None:
        jit.set_grad_enabled(False)
        seen.append(jit.is_grad_enabled())

    thread = threading.Thread(target=switch_off)
    thread.start()
    thread.join()
    assert seen == [True, False] and jit.is_grad_enabled()


# -- what nodes have saved ---------------------------------------------------------------------------------------


def node(tensor: jit.Tensor) -> Any:
    """The node of a tensor, whose attributes are not known beforehand."""
    return tensor.grad_fn


def test_what_an_operator_has_saved_is_there_by_the_names_of_pytorch():
    x, w = jit.tensor([1.0, 2.0], requires_grad=True), jit.tensor([3.0, 4.0], requires_grad=True)
    product = x * w
    assert node(product)._saved_self.tolist() == [1, 2] and node(product)._saved_other.tolist() == [3, 4]
    raised = (product + 1).exp()
    assert node(raised)._saved_result.tolist() == raised.tolist()
    assert node(raised)._saved_result.grad_fn is node(raised)
    (again,) = jit.grad(node(raised)._saved_result.sum(), x, retain_graph=True)
    assert again.tolist() == (raised * w).tolist()
    total = x.reshape(1, 2).sum(1, keepdim=True)
    assert node(total)._saved_dim == (1,) and node(total)._saved_keepdim is True
    values = jit.linalg.eigh(jit.eye(2).requires_grad_())[0]
    assert node(values)._saved_result1.shape == (2, 2)
    assert {"_saved_self", "_saved_other"} <= set(dir(node(product)))


def test_what_was_not_saved_or_is_gone_is_an_error():
    x = jit.tensor([1.0, 2.0], requires_grad=True)
    squared = x * x
    with pytest.raises(AttributeError, match=r"MulBackward0 has saved .*_saved_self.*, not '_saved_nothing'"):
        _ = node(squared)._saved_nothing
    assert not hasattr(node(squared), "nothing") and not hasattr(node(x + 1), "_saved_result")
    squared.sum().backward()
    with pytest.raises(jit.AutogradError, match="the saved tensors were freed"):
        _ = node(squared)._saved_self
    raised = x.exp()
    with jit.no_grad():
        raised.add_(1)
    with pytest.raises(jit.AutogradError, match="was changed by an in-place operation"):
        _ = node(raised)._saved_result


def test_saved_tensors_have_gone_through_the_hooks():
    x = jit.tensor([1.0, 2.0], requires_grad=True)
    with jit.autograd.graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t / 5):
        y = x * x
    assert node(y)._saved_self.tolist() == [2, 4]
