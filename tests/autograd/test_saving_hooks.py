"""Blocks that change how tensors are saved for backward, and the other names by which libraries reach autograd."""

from typing import Any

import pytest

import jit
from jit.autograd import Variable, graph
from jit.utils.checkpoint import checkpoint, set_checkpoint_early_stop


def test_saved_tensors_may_be_written_to_in_the_block():
    x, factor = jit.ones(2, requires_grad=True), jit.full((2,), 3.0)
    with graph.allow_mutation_on_saved_tensors():
        y = x * factor
        factor.zero_()
        (first,) = jit.grad(y.sum(), x, retain_graph=True)
        (second,) = jit.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == second.tolist() == [3.0, 3.0]


def test_backward_after_the_block_is_refused():
    x = jit.ones(2, requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = (x * x).sum()
    with pytest.raises(jit.AutogradError, match="kept in a block"):
        y.backward()


def test_hooks_are_refused_where_they_are_disabled():
    def enter(block):
        with block:
            pass

    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(jit.AutogradError, match="not here"):
        enter(graph.save_on_cpu())
    with graph.save_on_cpu():
        with pytest.raises(jit.AutogradError, match="nor here"):
            enter(graph.disable_saved_tensors_hooks("nor here"))
        with pytest.raises(jit.AutogradError, match="does not nest"):
            enter(graph.allow_mutation_on_saved_tensors())
    with graph.save_on_cpu(pin_memory=True):
        x = jit.ones(2, requires_grad=True)
        y = x.exp().sum()
    y.backward()
    assert jit.allclose(x.grad, x.detach().exp())


def test_batched_gradients_are_rows_of_the_jacobian():
    x = jit.tensor([1.0, 2.0, 3.0], requires_grad=True)
    other = jit.ones(2, requires_grad=True)
    found, unused = jit.grad(x * x, [x, other], jit.eye(3), is_grads_batched=True, allow_unused=True)
    assert found.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]] and unused is None
    (found,) = jit.grad(x * x, x, jit.eye(3)[:2], is_grads_batched=True, create_graph=True)
    assert jit.grad(found.sum(), x)[0].tolist() == [2.0, 2.0, 0.0]


def test_gradients_can_be_deleted():
    for x in (jit.ones(1, requires_grad=True), jit.nn.Parameter(jit.ones(1))):
        x.sum().backward()
        del x.grad
        assert x.grad is None


def test_callbacks_of_the_engine():
    engine: Any = vars(Variable)["_execution_engine"]
    seen = []
    x = jit.ones(1, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: engine.queue_callback(lambda: seen.append(x.grad.item())))
    y.sum().backward()
    assert seen == [2.0]


def test_functions_know_older_names():
    class Square(jit.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            with pytest.warns(DeprecationWarning, match="saved_tensors"):
                (x,) = ctx.saved_variables
            return 2 * x * gradient

    x = jit.tensor([3.0], requires_grad=True)
    Square.apply(x).backward()
    assert x.grad.tolist() == [6.0]


def test_checkpoints_run_in_two_blocks():
    seen = []

    class Block:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            seen.append(self.name)

        def __exit__(self, *error):
            seen.append(f"end of {self.name}")

    x = jit.ones(2, requires_grad=True)
    with set_checkpoint_early_stop(False):
        y = checkpoint(
            lambda x: x.exp(), x, use_reentrant=False, context_fn=lambda: (Block("first"), Block("second")),
            determinism_check="none", debug=False,
        )  # fmt: skip
    assert seen == ["first", "end of first"]
    y.sum().backward()
    assert seen == ["first", "end of first", "second", "end of second"]
    assert jit.allclose(x.grad, x.detach().exp())


def test_gradcheck_takes_all_options():
    x = jit.tensor([1.0, 2.0], dtype=jit.float64, requires_grad=True)
    options: dict[str, Any] = dict(nondet_tol=1e-3, check_undefined_grad=False, check_batched_grad=True, fast_mode=True)
    assert jit.autograd.gradcheck(lambda x: x.sin(), x, check_forward_ad=True, **options)
    assert jit.autograd.gradgradcheck(lambda x: x.sin(), x, gen_non_contig_grad_outputs=True, **options)
